/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/stack.h"
#include "render/term.h"
#include "cli/trace/trace_reader.h"

static int refuse(const char *path, uint64_t line, const char *what)
{
	fprintf(stderr, "%s:%" PRIu64 ": %s\n", term_safe(path, 100), line, what);
	return -EBADMSG;
}

/* Reads the whole text as a finite number of at least 0; no hexadecimal, no "inf". */
static bool number(const char *text, double *out)
{
	char *end;

	if (!*text || text[strspn(text, "0123456789.eE+")])
		return false;
	*out = strtod(text, &end);
	return !*end && isfinite(*out) && *out >= 0;
}

static int keep(struct folded *f, const char *stack, size_t bytes, double weight)
{
	uint32_t count = 1;
	char *to;

	if (ROOM_FOR(f->lines, f->line_room, f->count + 1ull) ||
	    ROOM_FOR(f->text, f->room, f->bytes + bytes + 1))
		return -ENOMEM;
	to = f->text + f->bytes;
	memcpy(to, stack, bytes);
	to[bytes] = '\0';
	for (size_t i = 0; i < bytes; i++) {
		if (to[i] != ';')
			continue;
		to[i] = '\0';
		count++;
	}
	f->lines[f->count++] = (struct folded_line){f->bytes, count, weight};
	f->bytes += bytes + 1;
	f->total += weight;
	return 0;
}

static uint32_t frames_of(const char *stack)
{
	uint32_t n = 1;

	for (; *stack; stack++)
		n += *stack == ';';
	return n;
}

/* 0, or an error after a message. */
static int take(struct folded *f, const char *path, uint64_t at, char *line, size_t bytes)
{
	char *value;
	double weight;
	size_t end;

	if (strlen(line) != bytes)
		return refuse(path, at, "a zero byte");
	while (bytes && strchr(" \t", line[bytes - 1]))
		line[--bytes] = '\0';
	if (!bytes) {
		f->blank++;
		return 0;
	}
	value = strrchr(line, ' ');
	if (!value || !number(value + 1, &weight))
		return refuse(path, at, "no value after the stack (root;...;leaf VALUE)");
	if (weight > FOLDED_VALUE_MAX || (weight > 0 && weight < FOLDED_VALUE_MIN))
		return refuse(path, at, "the value must be 0 or from 1e-9 to 2^64");
	end = (size_t)(value - line);
	while (end && line[end - 1] == ' ')
		end--;
	if (!end)
		return refuse(path, at, "a value without a stack");
	line[end] = '\0';
	f->rows++;
	if (frames_of(line) > LIMIT_STACK_DEPTH) {
		f->deep++;
		return 0;
	}
	if (f->count >= LIMIT_FOLDED_LINES || f->bytes + end > LIMIT_FOLDED_BYTES)
		return refuse(path, at, "too many stacks");
	return keep(f, line, end, weight);
}

static void find_sample_weight(struct folded *f)
{
	double least = INFINITY;

	for (uint32_t i = 0; i < f->count; i++) {
		double w = f->lines[i].weight;

		if (w != floor(w))
			return;
		if (w > 0 && w < least)
			least = w;
	}
	f->sample_weight = least >= FOLDED_NANOSECONDS_MIN && isfinite(least) ? least : 1;
}

int folded_load(struct folded *f, const char *path, double sample_weight)
{
	struct trace_reader *r;
	size_t bytes;
	char *line;
	int err;

	memset(f, 0, sizeof(*f));
	err = trace_reader_open(&r, path);
	if (err) {
		fprintf(stderr, "%s: %s\n", term_safe(path, 100), strerror(-err));
		return err;
	}
	for (;;) {
		int more = trace_reader_line(r, &line, &bytes);

		if (more == 0)
			break;
		err = more < 0 ? refuse(path, trace_reader_line_number(r), trace_reader_error(r))
			       : take(f, path, trace_reader_line_number(r), line, bytes);
		if (err)
			break;
	}
	trace_reader_close(r);
	if (!err && !(f->total > 0))
		err = refuse(path, f->rows ? f->rows : 1, "no stacks with a value above 0");
	if (err == -ENOMEM)
		fprintf(stderr, "%s: out of memory\n", term_safe(path, 100));
	if (err) {
		folded_free(f);
		return err;
	}
	if (sample_weight > 0)
		f->sample_weight = sample_weight;
	else
		find_sample_weight(f);
	return 0;
}

void folded_free(struct folded *f)
{
	free(f->text);
	free(f->lines);
	memset(f, 0, sizeof(*f));
}

uint32_t folded_names(const struct folded *f, uint32_t line, const char **names)
{
	const char *p = f->text + f->lines[line].at;

	for (uint32_t i = 0; i < f->lines[line].count; i++) {
		names[i] = p;
		p += strlen(p) + 1;
	}
	return f->lines[line].count;
}

char *folded_name(int kind, const char *function, const char *file)
{
	char *out;
	int n = kind == STACK_FRAME_KERNEL ? asprintf(&out, "%s_[k]", function)
		: kind == STACK_FRAME_PYTHON && *file
		    ? asprintf(&out, "%s (%s)", function, text_base(file))
		    : asprintf(&out, "%s", function);

	return n < 0 ? NULL : out;
}

/* The line's number of samples; 0: not known. */
static double samples_of(const struct folded *f, uint32_t line)
{
	return f->sample_weight > 0 ? f->lines[line].weight / f->sample_weight : 0;
}

int folded_profile(const struct folded *f, struct profile **out)
{
	const char *names[LIMIT_STACK_DEPTH];
	int err = profile_open(out, keyed_process());

	for (uint32_t i = 0; i < f->count && !err; i++) {
		uint32_t n = folded_names(f, i, names);

		if (f->lines[i].weight > 0)
			err = profile_add(*out, names, n, f->lines[i].weight, samples_of(f, i));
		err = err == -E2BIG ? 0 : err;
	}
	return err;
}
