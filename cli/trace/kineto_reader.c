/* SPDX-License-Identifier: Apache-2.0
 * yajl reads the text in pieces, and only the fields that we use are kept. A tree of the whole file would
 * take eight times its size in memory, and most of the time. */
#include "cli/trace/kineto_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "base/room.h"

/* Kineto nests five levels deep. */
#define KINETO_DEPTH_MAX   64u
#define KINETO_PIECE_BYTES (256u << 10)

enum field {
	FIELD_NONE,
	FIELD_EVENTS,
	FIELD_BASE,
	FIELD_CATEGORY,
	FIELD_NAME,
	FIELD_PHASE,
	FIELD_BEGIN,
	FIELD_DURATION,
	FIELD_ARGS,
	FIELD_CORRELATION,
	FIELD_BYTES,
	FIELD_DEVICE,
	FIELD_STREAM,
	FIELD_GRID,
	FIELD_BLOCK,
	FIELD_JOB,
	FIELD_RANK,
	FIELD_PID,
};

/* The keys that are used in the document, in distributedInfo, in an event, and in an event's args. */
enum place { PLACE_ELSEWHERE, PLACE_TOP, PLACE_JOB, PLACE_EVENT, PLACE_ARGS };

static const struct key {
	const char *text;
	uint8_t bytes;
	uint8_t field; /* enum field */
} top_keys[] = {{"traceEvents", 11, FIELD_EVENTS},
		{"baseTimeNanoseconds", 19, FIELD_BASE},
		{"distributedInfo", 15, FIELD_JOB},
		{}},
  job_keys[] = {{"rank", 4, FIELD_RANK}, {}},
  event_keys[] = {{"ph", 2, FIELD_PHASE},     {"cat", 3, FIELD_CATEGORY},
		  {"name", 4, FIELD_NAME},    {"ts", 2, FIELD_BEGIN},
		  {"dur", 3, FIELD_DURATION}, {"args", 4, FIELD_ARGS},
		  {"pid", 3, FIELD_PID},      {}},
  args_keys[] = {{"correlation", 11, FIELD_CORRELATION},
		 {"bytes", 5, FIELD_BYTES},
		 {"device", 6, FIELD_DEVICE},
		 {"stream", 6, FIELD_STREAM},
		 {"grid", 4, FIELD_GRID},
		 {"block", 5, FIELD_BLOCK},
		 {}};
static const struct key *const place_keys[] = {[PLACE_TOP] = top_keys,
					       [PLACE_JOB] = job_keys,
					       [PLACE_EVENT] = event_keys,
					       [PLACE_ARGS] = args_keys};

struct text {
	char *at;
	size_t bytes, room;
};

struct kineto_reader {
	kineto_event_fn fn;
	void *arg;
	struct kineto_result *result;
	unsigned depth;	       /* open objects and arrays */
	unsigned events_depth; /* of traceEvents while it is open, else 0 */
	bool events_seen, top_done;
	bool args_open, job_open;
	enum field field; /* of the latest used key */
	enum field shape; /* FIELD_GRID or FIELD_BLOCK while that array is open */
	unsigned shape_at;
	struct kineto_event event;
	struct text category, name, phase;
	int rc;
};

static int stop(struct kineto_reader *k, int rc, const char *why)
{
	k->rc = rc;
	snprintf(k->result->error, sizeof(k->result->error), "%s", why);
	return 0; /* yajl: cancel */
}

static bool text_set(struct text *t, const unsigned char *from, size_t bytes)
{
	if (ROOM_FOR(t->at, t->room, bytes + 1))
		return false;
	memcpy(t->at, from, bytes);
	t->at[bytes] = 0;
	t->bytes = bytes;
	return true;
}

static enum place place_of(const struct kineto_reader *k)
{
	if (k->events_depth && k->depth == k->events_depth + 1)
		return PLACE_EVENT;
	if (k->args_open && k->depth == k->events_depth + 2)
		return PLACE_ARGS;
	if (k->job_open && k->depth == 2)
		return PLACE_JOB;
	return k->depth == 1 && !k->events_depth ? PLACE_TOP : PLACE_ELSEWHERE;
}

static int on_key(void *ctx, const unsigned char *key, size_t bytes)
{
	struct kineto_reader *k = ctx;
	enum place place = place_of(k);

	k->field = FIELD_NONE;
	if (place == PLACE_ELSEWHERE)
		return 1;
	for (const struct key *want = place_keys[place]; want->text; want++)
		if (want->bytes == bytes && want->text[0] == (char)key[0] &&
		    !memcmp(want->text, key, bytes)) {
			k->field = want->field;
			break;
		}
	return 1;
}

static bool is_time(const struct kineto_reader *k)
{
	return k->field == FIELD_BEGIN || k->field == FIELD_DURATION;
}

/* The latest key has its value. An entry of traceEvents that is not an object counts as an event without a
 * kind. */
static int value_done(struct kineto_reader *k)
{
	static const struct kineto_event none = {.category = "", .name = "", .phase = ""};

	k->field = FIELD_NONE;
	if (!k->events_depth || k->depth != k->events_depth)
		return 1;
	k->rc = k->fn(k->arg, &none);
	return !k->rc;
}

static int open_container(struct kineto_reader *k, bool array)
{
	enum place place = place_of(k);

	if (++k->depth > KINETO_DEPTH_MAX)
		return stop(k, -EBADMSG, "nested too deep");
	k->event.bad_time |= is_time(k);
	if (array && !k->events_seen &&
	    (k->depth == 1 || (place == PLACE_TOP && k->field == FIELD_EVENTS))) {
		k->events_depth = k->depth;
		k->events_seen = true;
	} else if (!array && k->events_depth && k->depth == k->events_depth + 1) {
		k->event = (struct kineto_event){0};
		k->category.bytes = k->name.bytes = k->phase.bytes = 0;
	} else if (!array && place == PLACE_EVENT && k->field == FIELD_ARGS) {
		k->args_open = true;
	} else if (!array && place == PLACE_TOP && k->field == FIELD_JOB) {
		k->job_open = true;
	} else if (array && place == PLACE_ARGS &&
		   (k->field == FIELD_GRID || k->field == FIELD_BLOCK)) {
		k->shape = k->field;
		k->shape_at = 0;
	}
	k->field = FIELD_NONE;
	return 1;
}

static const char *text_of(const struct text *t)
{
	return t->bytes ? t->at : "";
}

static int close_event(struct kineto_reader *k)
{
	k->event.category = text_of(&k->category);
	k->event.name = text_of(&k->name);
	k->event.name_bytes = k->name.bytes;
	k->event.phase = text_of(&k->phase);
	k->rc = k->fn(k->arg, &k->event);
	return !k->rc;
}

static int close_container(struct kineto_reader *k, bool array)
{
	bool event = !array && place_of(k) == PLACE_EVENT;
	bool entry = k->events_depth && k->depth == k->events_depth + 1;

	k->shape = FIELD_NONE;
	if (k->args_open && k->depth == k->events_depth + 2)
		k->args_open = false;
	if (array && k->depth == k->events_depth)
		k->events_depth = 0;
	k->depth--;
	k->job_open &= k->depth > 1;
	k->top_done |= !k->depth;
	if (event)
		return close_event(k);
	return entry ? value_done(k) : 1;
}

static int on_map(void *ctx)
{
	return open_container(ctx, false);
}
static int on_map_end(void *ctx)
{
	return close_container(ctx, false);
}
static int on_array(void *ctx)
{
	return open_container(ctx, true);
}
static int on_array_end(void *ctx)
{
	return close_container(ctx, true);
}
static int on_null(void *ctx)
{
	return value_done(ctx);
}
static int on_bool(void *ctx, int value)
{
	struct kineto_reader *k = ctx;

	k->event.bad_time |= is_time(k);
	return value_done(ctx);
}

static int on_string(void *ctx, const unsigned char *text, size_t bytes)
{
	struct kineto_reader *k = ctx;
	struct text *to = k->field == FIELD_CATEGORY ? &k->category
			  : k->field == FIELD_NAME   ? &k->name
			  : k->field == FIELD_PHASE  ? &k->phase
						     : NULL;

	k->event.bad_time |= is_time(k);
	if (to && bytes > KINETO_TEXT_BYTES_MAX)
		return stop(k, -EBADMSG, "a name longer than 64 KiB");
	if (to && !text_set(to, text, bytes))
		return stop(k, -ENOMEM, "out of memory");
	return value_done(k);
}

static bool integer(const char *text, size_t bytes, uint64_t *out)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9' || v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(text[i] - '0');
	}
	*out = v;
	return bytes > 0;
}

/* Converts decimal microseconds to nanoseconds, exactly; false: negative or too large. */
static bool nanoseconds(const char *text, size_t bytes, uint64_t *out)
{
	const char *dot = memchr(text, '.', bytes);
	size_t whole = dot ? (size_t)(dot - text) : bytes;
	uint64_t us, ns = 0, scale = 1000;
	char copy[64];
	double v;

	if (integer(text, whole, &us) && us < 4000000000000000ull) {
		for (size_t i = whole + 1; i < bytes && text[i] >= '0' && text[i] <= '9'; i++) {
			/* round by the fourth decimal */
			if (scale == 1) {
				*out = us * 1000 + ns + (text[i] >= '5');
				return true;
			}
			scale /= 10;
			ns += (uint64_t)(text[i] - '0') * scale;
		}
		if (!memchr(text, 'e', bytes) && !memchr(text, 'E', bytes)) {
			*out = us * 1000 + ns;
			return true;
		}
	}
	if (bytes >= sizeof(copy))
		return false;
	memcpy(copy, text, bytes);
	copy[bytes] = 0;
	v = strtod(copy, NULL);
	if (!(v >= 0 && v < 4e15))
		return false;
	*out = (uint64_t)(v * 1000 + 0.5);
	return true;
}

static void take_number(struct kineto_reader *k, const char *text, size_t bytes)
{
	struct kineto_event *e = &k->event;
	uint64_t v = 0;
	bool whole;

	if (is_time(k)) {
		bool begin = k->field == FIELD_BEGIN;

		e->bad_time |= !nanoseconds(text, bytes, begin ? &e->begin_ns : &e->duration_ns);
		e->has_begin |= begin;
		return;
	}
	whole = integer(text, bytes, &v);
	if (k->shape != FIELD_NONE && k->depth == k->events_depth + 3) {
		if (k->shape_at < 3)
			(k->shape == FIELD_GRID ? e->grid : e->block)[k->shape_at++] = (uint32_t)v;
		return;
	}
	switch (k->field) {
	case FIELD_CORRELATION:
		/* -1 is valid: the launch is not known */
		e->has_correlation = !memchr(text, '.', bytes);
		e->correlation = v;
		break;
	case FIELD_BASE:
		k->result->base_ns = v;
		break;
	case FIELD_RANK:
		k->result->rank = whole && v <= INT32_MAX ? (int)v : -1;
		break;
	case FIELD_BYTES:
		e->bytes = whole ? v : 0;
		break;
	case FIELD_DEVICE:
		e->device = whole ? v : 0;
		break;
	case FIELD_STREAM:
		e->stream = whole ? v : 0;
		break;
	case FIELD_PID:
		e->pid = whole ? v : 0;
		break;
	default:
		break;
	}
}

static int on_number(void *ctx, const char *text, size_t bytes)
{
	take_number(ctx, text, bytes);
	return value_done(ctx);
}

static uint64_t lines_of(const unsigned char *text, size_t bytes)
{
	uint64_t n = 0;

	for (size_t i = 0; i < bytes; i++)
		n += text[i] == '\n';
	return n;
}

/* Sets the error's line and, if yajl found the error, its first line of text: the next one quotes the
 * file. */
static void parse_error(yajl_handle y, const unsigned char *piece, size_t bytes, uint64_t lines,
			bool ended, struct kineto_result *result)
{
	size_t used = yajl_get_bytes_consumed(y);
	unsigned char *text = yajl_get_error(y, 0, piece, bytes);

	result->line = lines + 1 + lines_of(piece, used < bytes ? used : bytes);
	if (text && !ended)
		snprintf(result->error, sizeof(result->error), "%.*s",
			 (int)strcspn((const char *)text, "\n"), (const char *)text);
	if (text)
		yajl_free_error(y, text);
}

static int read_failed(struct kineto_reader *k, const struct trace_reader *reader, int rc,
		       uint64_t lines)
{
	k->result->line = lines + 1;
	stop(k, rc, trace_reader_error(reader));
	return rc;
}

/* Ignores text after the value, but reads to the end: only that shows that a packed file is complete. */
static int read_rest(struct kineto_reader *k, struct trace_reader *reader, unsigned char *piece,
		     uint64_t lines)
{
	ssize_t n;

	while ((n = trace_reader_read(reader, piece, KINETO_PIECE_BYTES)) > 0)
		lines += lines_of(piece, (size_t)n);
	return n ? read_failed(k, reader, (int)n, lines) : 0;
}

static int read_all(struct kineto_reader *k, yajl_handle y, struct trace_reader *reader,
		    unsigned char *piece)
{
	uint64_t lines = 0;
	yajl_status status = yajl_status_ok;
	ssize_t n = 0;

	while (!k->top_done && (n = trace_reader_read(reader, piece, KINETO_PIECE_BYTES)) > 0) {
		status = yajl_parse(y, piece, (size_t)n);
		if (status != yajl_status_ok)
			break;
		lines += lines_of(piece, (size_t)n);
	}
	if (n < 0)
		return read_failed(k, reader, (int)n, lines);
	if (status == yajl_status_ok && !k->top_done) {
		n = 0;
		status = yajl_complete_parse(y);
	}
	if (status == yajl_status_ok)
		return read_rest(k, reader, piece, lines);
	parse_error(y, piece, (size_t)n, lines, k->rc != 0, k->result);
	return k->rc ? k->rc : -EBADMSG;
}

int kineto_reader_run(struct trace_reader *reader, kineto_event_fn fn, void *arg,
		      struct kineto_result *result)
{
	static const yajl_callbacks callbacks = {on_null,    on_bool,	NULL,	     NULL,
						 on_number,  on_string, on_map,	     on_key,
						 on_map_end, on_array,	on_array_end};
	struct kineto_reader k = {.fn = fn, .arg = arg, .result = result};
	unsigned char *piece = malloc(KINETO_PIECE_BYTES);
	yajl_handle y = yajl_alloc(&callbacks, NULL, &k);
	int rc = -ENOMEM;

	*result = (struct kineto_result){.rank = -1, .line = 1};
	if (!y || !piece)
		goto out;
	yajl_config(y, yajl_allow_trailing_garbage, 1);
	rc = read_all(&k, y, reader, piece);
	if (!rc && !k.events_seen) {
		snprintf(result->error, sizeof(result->error), "no traceEvents");
		rc = -EBADMSG;
	}
out:
	if (y)
		yajl_free(y);
	free(piece);
	free(k.category.at);
	free(k.name.at);
	free(k.phase.at);
	return rc;
}
