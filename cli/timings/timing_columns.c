/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/timing_columns.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/text/json_text.h"
#include "render/term.h"

#define NO_MEMORY "out of memory"
#define SHOWN_MAX 4 /* names that are printed */

static const char *const step_words[] = {"step",  "steps",	 "iteration", "iter",
					 "index", "global_step", "step_id",   ""};
static const char *const worker_words[] = {"worker", "rank",	  "node",    "host",   "gpu",
					   "device", "worker_id", "dp_rank", "process"};
/* Words for a time without a unit. */
static const char *const time_words[] = {"duration",	   "dur",	"time",
					 "step_time",	   "latency",	"elapsed",
					 "iteration_time", "iter_time", "step_duration"};
/* Names with these words are neither workers nor times: gpu_util0, tokens_per_s. */
static const char *const other_words[] = {
    "util",   "utilization", "utilisation", "load",   "norm",	   "normalized",  "normalised",
    "ratio",  "share",	     "percent",	    "pct",    "rate",	   "per",	  "mem",
    "memory", "bytes",	     "tokens",	    "loss",   "temp",	   "temperature", "power",
    "clock",  "mhz",	     "flops",	    "tflops", "bandwidth", "throughput",  "count",
    "score",  "fraction",    "relative",    "speed",
};

static bool is_one_of(const char *text, size_t bytes, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(words[i]) == bytes && !strncasecmp(text, words[i], bytes))
			return true;
	return false;
}

static bool has_other_word(const char *text)
{
	while (*text) {
		size_t n = 0;

		while (isalpha((unsigned char)text[n]))
			n++;
		if (n && is_one_of(text, n, other_words, ARRAY_LEN(other_words)))
			return true;
		text += n ? n : 1;
	}
	return false;
}

bool timing_columns_unknown(const struct trace_field *f)
{
	static const char *const words[] = {"", "nan", "na", "null", "none", "-"};
	const char *p = f->text;

	while (isspace((unsigned char)*p))
		p++;
	return is_one_of(p, strlen(p), words, ARRAY_LEN(words));
}

bool timing_columns_number(const char *text, size_t bytes, int64_t *out)
{
	size_t n = bytes;

	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	if (!n || !isdigit((unsigned char)text[n - 1]))
		return false;
	while (n && isdigit((unsigned char)text[n - 1]))
		n--;
	*out = strtoll(text + n, NULL, 10);
	return *out <= INT32_MAX;
}

enum meaning { MEANS_OTHER, MEANS_TIME, MEANS_WORKERS_TIME };

static enum meaning meaning_of(struct timing_column *c)
{
	size_t before;
	const struct replay_unit *unit = replay_unit_in(c->name, &before);

	c->number = -1;
	if (!timing_columns_number(c->name, before, &c->number))
		c->number = -1;
	if (has_other_word(c->name))
		return MEANS_OTHER;
	if (c->number >= 0)
		return MEANS_WORKERS_TIME;
	return unit || is_one_of(c->name, before, time_words, ARRAY_LEN(time_words)) ? MEANS_TIME
										     : MEANS_OTHER;
}

static const char *wrong(struct timing_columns *c, uint32_t column, const char *why)
{
	c->which = c->column[column].name;
	return why;
}

#define OPTIONS "(--time COL[,COL] names the columns of times, --unit their unit)"

static const char *list_find(struct timing_columns *c)
{
	uint32_t other = c->width;

	for (uint32_t i = 0; i < c->width; i++) {
		if (i == c->step || i == c->worker)
			continue;
		if (meaning_of(&c->column[i]) == MEANS_OTHER) {
			other = other == c->width ? i : other;
			continue;
		}
		if (c->seconds != c->width)
			return wrong(c, i, "a list has only one column of times " OPTIONS);
		c->seconds = i;
	}
	if (c->seconds == c->width)
		return wrong(c, other, "the name is not that of a time " OPTIONS);
	c->column[c->seconds].is_time = true;
	return NULL;
}

static const char *table_find(struct timing_columns *c)
{
	uint32_t most = c->width - (c->step < c->width);

	for (uint32_t i = 0; i < c->width; i++) {
		enum meaning m = meaning_of(&c->column[i]);

		if (i == c->step)
			continue;
		if (m == MEANS_OTHER || (m == MEANS_TIME && most > 1))
			return wrong(
			    c, i,
			    m == MEANS_OTHER
				? "the name is neither that of a time nor of a worker " OPTIONS
				: "the name has no worker's number " OPTIONS);
		c->column[i].is_time = true;
	}
	return NULL;
}

/* --time: first as one whole name, which may have a comma; else as a list. */
static const char *times_find(struct timing_columns *c, const char *times)
{
	size_t whole = strlen(times);

	for (uint32_t i = 0; i < c->width; i++) {
		meaning_of(&c->column[i]);
		if (!strcmp(c->column[i].name, times))
			c->column[i].is_time = true, whole = 0;
	}
	for (const char *at = times; whole; at++) {
		size_t bytes = strcspn(at, ",");
		uint32_t i = 0;

		while (i < c->width &&
		       (strncmp(c->column[i].name, at, bytes) || c->column[i].name[bytes]))
			i++;
		if (i == c->width) {
			c->which = at;
			return "--time: no such column";
		}
		c->column[i].is_time = true;
		at += bytes;
		if (!*at)
			break;
	}
	for (uint32_t i = 0; i < c->width; i++) {
		if (!c->column[i].is_time)
			continue;
		if (i == c->step || i == c->worker)
			return wrong(c, i, "--time: a column of steps or workers");
		if (c->list && c->seconds < c->width)
			return wrong(c, i, "a list of workers and steps has one column of times");
		c->seconds = i;
	}
	return NULL;
}

static const char *unit_find(struct timing_columns *c, const struct replay_unit *option)
{
	const struct replay_unit *named = NULL;
	uint32_t first = c->width;
	size_t before;

	for (uint32_t i = 0; i < c->width; i++) {
		const struct replay_unit *u;

		if (!c->column[i].is_time)
			continue;
		u = c->header ? replay_unit_in(c->column[i].name, &before) : NULL;
		if (option && u && u != option)
			return wrong(c, i, "the unit in its name differs from --unit");
		if (!option && first < c->width && u != named)
			return wrong(c, i, "its unit differs from the columns before (see --unit)");
		named = u;
		first = i;
		c->times++;
	}
	c->unit = option ? option : named ? named : replay_unit_of("s");
	c->unit_from = option ? "option" : named ? "name" : "assumed";
	return NULL;
}

/* 0,1,2,... or 1,2,3,... are workers' names rather than step times. */
static bool counts_up(const struct trace_field *f, uint32_t n)
{
	double first, v;

	if (n < 2 || !trace_reader_number(&f[0], &first) || (first != 0 && first != 1))
		return false;
	for (uint32_t i = 1; i < n; i++)
		if (!trace_reader_number(&f[i], &v) || v != first + i)
			return false;
	return true;
}

/* A header has text that is not a value, or counts up. NULL, or what is wrong. */
static const char *header_find(struct timing_columns *c, const struct trace_field *f, uint32_t n)
{
	bool fractions = false;

	for (uint32_t i = 0; i < n; i++) {
		double v;
		bool number = trace_reader_number(&f[i], &v);

		fractions |= number && v != floor(v);
		c->header |= !number && !timing_columns_unknown(&f[i]);
	}
	if (c->header && fractions)
		return "neither a row of times nor one of names";
	c->header |= counts_up(f, n);
	return NULL;
}

const char *timing_columns_take(struct timing_columns *c, const struct trace_field *f, uint32_t n,
				const char *times, const struct replay_unit *unit)
{
	const char *why = header_find(c, f, n);

	c->width = c->step = c->worker = c->seconds = n;
	c->column = calloc(n, sizeof(*c->column));
	if (!c->column)
		return NO_MEMORY;
	if (why)
		return why;
	if (times && !c->header)
		return "--time needs a header with the columns' names";
	for (uint32_t i = n; i--;) {
		c->column[i] = (struct timing_column){.is_time = !c->header, .number = -1};
		if (!c->header)
			continue;
		c->column[i].name = strdup(f[i].text);
		if (!c->column[i].name)
			return NO_MEMORY;
		if (is_one_of(f[i].text, f[i].bytes, step_words, ARRAY_LEN(step_words)))
			c->step = i;
		if (is_one_of(f[i].text, f[i].bytes, worker_words, ARRAY_LEN(worker_words)))
			c->worker = i;
	}
	c->list = c->step < n && c->worker < n && n >= 3;
	if (c->header)
		why = times ? times_find(c, times) : c->list ? list_find(c) : table_find(c);
	return why ? why : unit_find(c, unit);
}

void timing_columns_free(struct timing_columns *c)
{
	for (uint32_t i = 0; c->column && i < c->width; i++)
		free(c->column[i].name);
	free(c->column);
}

void timing_columns_found(struct timing_columns *c, bool list)
{
	c->list = list;
	c->worker = list ? 0 : c->worker;
	c->step = list ? 1 : 0;
	c->column[0].is_time = false;
	c->column[1].is_time = !list;
	c->times = c->width - (list ? 2 : 1);
}

static void put_name(const struct timing_columns *c, uint32_t i, FILE *to)
{
	if (c->column[i].name)
		json_text_print(to, "", c->column[i].name);
	else
		fprintf(to, "%u", i + 1);
}

void timing_columns_json(const struct timing_columns *c, FILE *to)
{
	const char *comma = "";

	fputs("\"columns\":{\"times\":[", to);
	for (uint32_t i = 0; i < c->width; i++) {
		if (!c->column[i].is_time)
			continue;
		fputs(comma, to);
		put_name(c, i, to);
		comma = ",";
	}
	putc(']', to);
	if (c->step < c->width) {
		fputs(",\"step\":", to);
		put_name(c, c->step, to);
	}
	if (c->list) {
		fputs(",\"worker\":", to);
		put_name(c, c->worker, to);
	}
	fprintf(to, "},\"unit\":\"%s\",\"unit_from\":\"%s\"", c->unit->name, c->unit_from);
}

void timing_columns_text(const struct timing_columns *c, FILE *to)
{
	uint32_t shown = 0;

	fprintf(to, "%u column%s of times in %s (%s):", c->times, c->times == 1 ? "" : "s",
		c->unit->name,
		strcmp(c->unit_from, "name") ? *c->unit_from == 'o' ? "from --unit" : "assumed"
					     : "from their names");
	for (uint32_t i = 0; i < c->width && shown < SHOWN_MAX; i++) {
		if (!c->column[i].is_time)
			continue;
		shown++;
		if (c->column[i].name)
			fprintf(to, " %s", term_safe(c->column[i].name, 40));
		else
			fprintf(to, " column %u", i + 1);
	}
	fputs(shown < c->times ? " ...\n" : "\n", to);
}
