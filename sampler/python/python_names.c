/* SPDX-License-Identifier: Apache-2.0
 * python_names.c - names of code objects.
 * The line table is copied with the names, so a frame costs no read once its code object was
 * checked in this period. Tables: Objects/lnotab_notes.txt (3.10), Objects/locations.md (3.11). */
#include "sampler/python/python_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"
#include "base/probe.h"

/* Initial slots; doubled before more than half are taken. A power of two. */
#define NAMES_SLOTS 256u
/* An object unused for this many periods is removed: two minutes of drains. */
#define NAMES_PERIODS 24u
/* Generated code may have any co_firstlineno; no file has more lines than this. */
#define NAMES_LINE_MAX (1u << 28)
/* Objects per request, which has 64 KiB; missing answers are requested again. */
#define NAMES_ASK_MAX 1024u
/* No object is added to an answer that has this size; a code object takes some 400 bytes. */
#define NAMES_ANSWER_SOFT (4u << 20)

/* One code object: a struct and its strings in one allocation. */
struct code {
	uint64_t address, hash;
	uint32_t period; /* when it was last checked */
	uint32_t first;
	uint32_t lines_bytes;
	const char *function, *file;
	const uint8_t *lines;
	bool good;   /* false: there was no code object in that period */
	bool wanted; /* requested, or will be */
};

/* A request to a parser: which code objects, and what we know about them. */
struct ask {
	struct python_offsets offsets;
	uint64_t code_type;
	uint32_t count, reserved;
	struct {
		uint64_t address, hash; /* hash 0: unknown */
	} item[];
};

enum { NAMES_SAME = 1, NAMES_READ, NAMES_NONE };

/* An entry of the answer. The function's and the file's names follow, both NUL-terminated, then the
 * line table. */
struct reply {
	uint64_t address, hash;
	uint32_t state, first, function_bytes, file_bytes, lines_bytes, reserved;
};

struct python_names {
	struct python_offsets offsets;
	uint64_t code_type;
	uint32_t period, count, slots;
	struct code **slot;
	uint64_t wanted[NAMES_ASK_MAX], asked[NAMES_ASK_MAX]; /* addresses */
	uint32_t wanted_count, asked_count;
};

int python_names_open(struct python_names **out, const struct python_runtime *r)
{
	struct python_names *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->slots = NAMES_SLOTS;
	n->slot = calloc(n->slots, sizeof(*n->slot));
	if (!n->slot) {
		free(n);
		return -ENOMEM;
	}
	n->offsets = r->offsets;
	n->code_type = r->code_type;
	n->period = 1;
	*out = n;
	return 0;
}

void python_names_close(struct python_names *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->slots; i++)
		free(n->slot[i]);
	free(n->slot);
	free(n);
}

static struct code **slot_of(struct python_names *n, uint64_t address)
{
	PROBE_PLACES (i, keyed_word(keyed_process(), address), n->slots)
		if (!n->slot[i] || n->slot[i]->address == address)
			return &n->slot[i];
}

/* Moves the entries used in the last `periods` periods to a new table with `slots` slots. */
static void rehash(struct python_names *n, uint32_t slots, uint32_t periods)
{
	struct code **old = n->slot, **slot = calloc(slots, sizeof(*slot));
	uint32_t old_slots = n->slots;

	if (!slot)
		return;
	n->slot = slot;
	n->slots = slots;
	n->count = 0;
	for (uint32_t i = 0; i < old_slots; i++) {
		struct code *c = old[i];

		if (c && n->period - c->period <= periods) {
			*slot_of(n, c->address) = c;
			n->count++;
		} else {
			free(c);
		}
	}
	free(old);
}

void python_names_begin(struct python_names *n)
{
	if (n->count >= LIMIT_PYTHON_CODES)
		rehash(n, n->slots, 0);
	else if (n->period % NAMES_PERIODS == 0)
		rehash(n, n->slots, NAMES_PERIODS);
	n->period++;
}

static uint64_t word(const uint8_t *bytes, uint32_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

static size_t utf8_put(char *to, size_t room, uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || !c)
		c = 0xfffd;
	if (c < 0x80 && room >= 1) {
		to[0] = (char)c;
		return 1;
	}
	if (c >= 0x80 && c < 0x800 && room >= 2) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c >= 0x800 && c < 0x10000 && room >= 3) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	if (c >= 0x10000 && room >= 4) {
		to[0] = (char)(0xf0 | c >> 18);
		to[1] = (char)(0x80 | (c >> 12 & 63));
		to[2] = (char)(0x80 | (c >> 6 & 63));
		to[3] = (char)(0x80 | (c & 63));
		return 4;
	}
	return 0;
}

/* Reads a str object as UTF-8, cut to room - 1 bytes. False: there is none. */
static bool text_read(const struct python_offsets *o, const struct read_user *memory,
		      uint64_t address, char *to, size_t room)
{
	uint8_t head[144] = {0}, data[LIMIT_PYTHON_FILE_BYTES];
	uint64_t length, at;
	uint32_t state, kind, width;
	size_t used = 0, count;

	if (address < 4096 || address % 8 || address >> 47 ||
	    !read_user_from(memory, head, o->ascii_bytes, address))
		return false;
	length = word(head, o->unicode_length);
	memcpy(&state, head + o->unicode_state, sizeof(state));
	kind = state >> 2 & 7;
	/* interned:2 kind:3 compact:1 ascii:1; names made by the compiler are compact */
	if (!(state & 1 << 5) || (kind != 1 && kind != 2 && kind != 4) || length > 1u << 20)
		return false;
	at = address + (state & 1 << 6 ? o->ascii_bytes : o->compact_bytes);
	width = kind;
	count = length < room ? (size_t)length : room;
	if (count > sizeof(data) / width)
		count = sizeof(data) / width;
	if (count && !read_user_from(memory, data, (uint32_t)(count * width), at))
		return false;
	for (size_t i = 0; i < count; i++) {
		uint32_t c = 0;
		size_t put;

		memcpy(&c, data + i * width, width);
		put = utf8_put(to + used, room - 1 - used, c);
		if (!put)
			break;
		used += put;
	}
	to[used] = 0;
	return true;
}

static bool lines_read(const struct python_offsets *o, const struct read_user *memory,
		       uint64_t address, uint8_t **out, uint32_t *bytes)
{
	uint64_t size;

	*out = NULL;
	*bytes = 0;
	if (address < 4096 || address % 8 || address >> 47 ||
	    !read_user_from(memory, &size, sizeof(size), address + o->bytes_size) || size >> 31)
		return false;
	if (size > LIMIT_PYTHON_LINES_BYTES)
		size = LIMIT_PYTHON_LINES_BYTES;
	*out = malloc(size + 1);
	if (*out && read_user_from(memory, *out, (uint32_t)size, address + o->bytes_data)) {
		*bytes = (uint32_t)size;
		return true;
	}
	free(*out);
	*out = NULL;
	return false;
}

/* Distinguishes a code object from the next one at its address: hashes all constant parts that
 * identify it. */
static uint64_t code_hash(const struct python_offsets *o, const uint8_t *head)
{
	uint64_t h = 0xcbf29ce484222325ull, part[5] = {0};

	part[0] = word(head, o->object_type);
	part[1] = word(head, o->code_filename);
	part[2] = word(head, o->code_name);
	part[3] = word(head, o->code_linetable);
	memcpy(&part[4], head + o->code_firstlineno, 4);
	for (size_t i = 0; i < 5; i++) {
		h = (h ^ part[i]) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	return h;
}

static struct code *code_make(uint64_t address, const char *function, const char *file,
			      const uint8_t *lines, uint32_t lines_bytes)
{
	size_t function_bytes = strlen(function) + 1, file_bytes = strlen(file) + 1;
	struct code *c = malloc(sizeof(*c) + function_bytes + file_bytes + lines_bytes);
	char *p;

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	p = (char *)(c + 1);
	c->address = address;
	c->function = memcpy(p, function, function_bytes);
	c->file = memcpy(p + function_bytes, file, file_bytes);
	if (lines_bytes)
		memcpy(p + function_bytes + file_bytes, lines, lines_bytes);
	c->lines = (const uint8_t *)p + function_bytes + file_bytes;
	c->lines_bytes = lines_bytes;
	return c;
}

/* Writes one code object into the answer. False: the answer is full. */
static bool code_read(const struct ask *a, uint32_t i, const struct read_user *memory,
		      struct buf *answer)
{
	const struct python_offsets *o = &a->offsets;
	char function[LIMIT_PYTHON_NAME_BYTES], file[LIMIT_PYTHON_FILE_BYTES];
	struct reply t = {.address = a->item[i].address, .state = NAMES_NONE};
	uint8_t head[264 + 8], *lines = NULL;
	bool readable = o->code_bytes <= sizeof(head) - 8 &&
			read_user_from(memory, head, o->code_bytes, t.address);

	if (readable)
		t.hash = code_hash(o, head);
	if (readable && t.hash == a->item[i].hash) {
		t.state = NAMES_SAME;
	} else if (readable && (!a->code_type || word(head, o->object_type) == a->code_type) &&
		   text_read(o, memory, word(head, o->code_name), function, sizeof(function)) &&
		   text_read(o, memory, word(head, o->code_filename), file, sizeof(file)) &&
		   lines_read(o, memory, word(head, o->code_linetable), &lines, &t.lines_bytes)) {
		t.state = NAMES_READ;
		memcpy(&t.first, head + o->code_firstlineno, sizeof(t.first));
		t.function_bytes = (uint32_t)strlen(function) + 1;
		t.file_bytes = (uint32_t)strlen(file) + 1;
	}
	buf_append(answer, &t, sizeof(t));
	if (t.state == NAMES_READ) {
		buf_append(answer, function, t.function_bytes);
		buf_append(answer, file, t.file_bytes);
		buf_append(answer, lines, t.lines_bytes);
	}
	free(lines);
	return answer->bytes < NAMES_ANSWER_SOFT;
}

int python_names_read(const void *request, size_t bytes, const struct read_user *memory,
		      struct buf *answer)
{
	const struct ask *a = request;

	if (bytes < sizeof(*a) || a->count > (bytes - sizeof(*a)) / sizeof(a->item[0]))
		return -EPROTO;
	for (uint32_t i = 0; i < a->count && code_read(a, i, memory, answer); i++)
		;
	return 0;
}

/* ---- the cache ---- */

static int code_want(struct python_names *n, uint64_t address, struct code **slot)
{
	struct code *c = *slot;

	if (!c) {
		if (n->count >= LIMIT_PYTHON_CODES)
			return -ENOSPC;
		c = code_make(address, "", "", NULL, 0);
		if (!c)
			return -ENOMEM;
		*slot = c;
		n->count++;
	}
	if (!c->wanted && n->wanted_count < NAMES_ASK_MAX) {
		n->wanted[n->wanted_count++] = address;
		c->wanted = true;
	}
	return -EAGAIN;
}

static int code_find(struct python_names *n, uint64_t address, struct code **out)
{
	struct code **slot;

	/* if there is no memory for more slots, the search still needs a free slot */
	if (n->count >= n->slots / 2)
		rehash(n, n->slots * 2, UINT32_MAX);
	if (n->count >= n->slots - 1)
		return -ENOMEM;
	slot = slot_of(n, address);
	if (!*slot || (*slot)->period != n->period)
		return code_want(n, address, slot);
	*out = *slot;
	return (*out)->good ? 0 : -ENOENT;
}

static void code_none(struct python_names *n, uint64_t address)
{
	struct code *c = *slot_of(n, address);

	if (!c)
		return;
	c->good = c->wanted = false;
	c->period = n->period;
}

static void code_reply(struct python_names *n, const struct reply *t, const char *text)
{
	struct code **slot = slot_of(n, t->address), *c = *slot, *fresh;

	if (!c || !c->wanted)
		return; /* not asked for */
	if (t->state == NAMES_SAME && c->good && c->hash == t->hash) {
		c->period = n->period;
		c->wanted = false;
		return;
	}
	if (t->state != NAMES_READ) {
		code_none(n, t->address);
		return;
	}
	fresh =
	    code_make(t->address, text, text + t->function_bytes,
		      (const uint8_t *)text + t->function_bytes + t->file_bytes, t->lines_bytes);
	if (!fresh)
		return;
	fresh->good = true;
	fresh->hash = t->hash;
	fresh->first = t->first;
	fresh->period = n->period;
	free(c);
	*slot = fresh;
}

static bool reply_fits(const struct reply *t, const uint8_t *text, size_t left)
{
	if (t->state != NAMES_READ)
		return true;
	return t->function_bytes && t->function_bytes <= LIMIT_PYTHON_NAME_BYTES && t->file_bytes &&
	       t->file_bytes <= LIMIT_PYTHON_FILE_BYTES &&
	       t->lines_bytes <= LIMIT_PYTHON_LINES_BYTES &&
	       (size_t)t->function_bytes + t->file_bytes + t->lines_bytes <= left &&
	       !text[t->function_bytes - 1] && !text[t->function_bytes + t->file_bytes - 1];
}

void *python_names_ask(struct python_names *n, size_t *bytes)
{
	struct ask *a;

	if (!n->wanted_count || n->asked_count)
		return NULL;
	*bytes = sizeof(*a) + n->wanted_count * sizeof(a->item[0]);
	a = calloc(1, *bytes);
	if (!a)
		return NULL;
	a->offsets = n->offsets;
	a->code_type = n->code_type;
	a->count = n->asked_count = n->wanted_count;
	memcpy(n->asked, n->wanted, n->wanted_count * sizeof(n->wanted[0]));
	n->wanted_count = 0;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct code *c = *slot_of(n, n->asked[i]);

		a->item[i].address = n->asked[i];
		a->item[i].hash = c && c->good ? c->hash : 0;
	}
	return a;
}

void python_names_answer(struct python_names *n, int err, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	size_t at = 0;

	while (!err && bytes - at >= sizeof(struct reply)) {
		struct reply t;

		memcpy(&t, p + at, sizeof(t));
		at += sizeof(t);
		if (!reply_fits(&t, p + at, bytes - at))
			break;
		code_reply(n, &t, (const char *)p + at);
		if (t.state == NAMES_READ)
			at += (size_t)t.function_bytes + t.file_bytes + t.lines_bytes;
	}
	/* missing from the answer: the object does not exist, or had no room */
	for (uint32_t i = 0; i < n->asked_count; i++) {
		struct code **slot = slot_of(n, n->asked[i]);

		if (!*slot || !(*slot)->wanted)
			continue;
		if (err || !at)
			code_none(n, n->asked[i]);
		(*slot)->wanted = false;
		if (!err && at)
			code_want(n, n->asked[i], slot);
	}
	n->asked_count = 0;
}

/* Reads in this process, for tests. */
static int find_now(struct python_names *n, const struct read_user *memory, uint64_t address,
		    struct code **out)
{
	struct buf answer;
	size_t bytes;
	void *request;
	int err = code_find(n, address, out);

	if (err != -EAGAIN || !memory)
		return err;
	request = python_names_ask(n, &bytes);
	if (!request)
		return -ENOMEM;
	buf_init(&answer, 2 * NAMES_ANSWER_SOFT);
	err = python_names_read(request, bytes, memory, &answer);
	python_names_answer(n, err, answer.data, answer.bytes);
	free(request);
	buf_fini(&answer);
	return code_find(n, address, out);
}

/* 3.10: pairs {bytes of code, signed line difference}; -128: no line. */
static uint32_t line_3_10(const uint8_t *table, size_t bytes, uint32_t first, int64_t at)
{
	int64_t line = first, begin = 0;

	for (size_t i = 0; i + 2 <= bytes; i += 2) {
		int8_t difference = (int8_t)table[i + 1];

		if (difference != -128)
			line += difference;
		begin += table[i];
		if (at < begin)
			return difference == -128 || line <= 0 || line > NAMES_LINE_MAX
				   ? 0
				   : (uint32_t)line;
	}
	return 0;
}

static size_t varint(const uint8_t *table, size_t bytes, size_t i, uint64_t *out)
{
	uint32_t shift = 0;

	*out = 0;
	while (i < bytes) {
		uint8_t b = table[i++];

		if (shift < 60)
			*out |= (uint64_t)(b & 63) << shift;
		shift += 6;
		if (!(b & 64))
			break;
	}
	return i;
}

/* 3.11 and later: entries with a head {1, code:4, units - 1:3}, followed by data that depends on
 * the code. */
static uint32_t line_3_11(const uint8_t *table, size_t bytes, uint32_t first, int64_t at)
{
	int64_t line = first, end = 0;
	size_t i = 0;

	while (i < bytes) {
		uint32_t code = table[i] >> 3 & 15;
		uint64_t v, skipped;

		end += ((table[i] & 7) + 1) * 2;
		i++;
		if (code == 13 || code == 14) { /* no columns; long form */
			i = varint(table, bytes, i, &v);
			v &= 0xffffffffu; /* so the sum of all entries cannot overflow */
			line += v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
			for (int k = 0; code == 14 && k < 3; k++)
				i = varint(table, bytes, i, &skipped);
		} else if (code >= 10 && code <= 12) { /* one line */
			line += code - 10;
			i += 2;
		} else if (code < 10) { /* short form */
			i += 1;
		}
		if (at < end)
			return code == 15 || line <= 0 || line > NAMES_LINE_MAX ? 0
										: (uint32_t)line;
	}
	return 0;
}

uint32_t python_names_line(uint32_t minor, const uint8_t *table, size_t bytes, uint32_t first,
			   int64_t at)
{
	if (at < 0)
		return first > NAMES_LINE_MAX ? 0 : first;
	return minor <= 10 ? line_3_10(table, bytes, first, at)
			   : line_3_11(table, bytes, first, at);
}

int python_names_find(struct python_names *n, const struct read_user *memory,
		      const struct python_frame *frame, struct python_name *out)
{
	const struct python_offsets *o = &n->offsets;
	int64_t at = frame->instr;
	struct code *c;
	int err = find_now(n, memory, frame->code, &c);

	if (err)
		return err;
	if (o->code_instructions)
		at -= o->code_instructions;
	else
		at = frame->instr == ~0u ? -1 : at * 2; /* f_lasti counts 2-byte units */
	out->function = c->function;
	out->file = c->file;
	out->line = python_names_line(o->process.minor, c->lines, c->lines_bytes, c->first, at);
	return 0;
}
