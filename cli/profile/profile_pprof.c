/* SPDX-License-Identifier: Apache-2.0
 * profile_pprof.c - see profile_pprof.h. pprof has one table of functions and one of locations (function
 * and line, or address). Both are interned here, since a batch repeats frames. Parts of one protobuf
 * message concatenate, so each is written as it is made, and the profile is never in memory as a whole. */
#include "cli/profile/profile_pprof.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/text/text.h"
#include "cli/profile.pb-c.h"
#include "cli/text/intern.h"

typedef Sysom__Pprof__Profile part_t;

struct writer {
	const struct stack_batch *b;
	struct profile_names *names;
	struct intern strings, functions, locations;
	FILE *to;
	z_stream z;
	struct buf out; /* the part being packed */
	int err;
};

/* ---- parts ---- */

static void fail(struct writer *w, int err)
{
	w->err = w->err ? w->err : err;
}

static void compress_part(struct writer *w, int flush)
{
	uint8_t packed[16384];

	w->z.next_in = w->out.data;
	w->z.avail_in = (uInt)w->out.bytes;
	do {
		w->z.next_out = packed;
		w->z.avail_out = sizeof(packed);
		deflate(&w->z, flush);
		if (fwrite(packed, 1, sizeof(packed) - w->z.avail_out, w->to) !=
		    sizeof(packed) - w->z.avail_out)
			fail(w, errno ? -errno : -EIO);
	} while (!w->z.avail_out && !w->err);
}

static void put(struct writer *w, const part_t *part)
{
	size_t bytes = sysom__pprof__profile__get_packed_size(part);
	void *at;

	buf_clear(&w->out);
	at = buf_reserve(&w->out, bytes);
	if (!at)
		fail(w, -ENOMEM);
	if (w->err)
		return;
	w->out.bytes = sysom__pprof__profile__pack(part, at);
	compress_part(w, Z_NO_FLUSH);
}

/* ---- tables ---- */

/* The number of a text, from 1; 0: out of memory. */
static uint32_t number(struct writer *w, struct intern *t, const char *text)
{
	int64_t at = intern_text(t, text, UINT32_MAX);

	if (at < 0)
		fail(w, -ENOMEM);
	return at < 0 ? 0 : (uint32_t)at + 1;
}

/* pprof's string 0 is "". */
static int64_t string(struct writer *w, const char *s)
{
	return *s ? number(w, &w->strings, s) : 0;
}

static uint32_t function_number(struct writer *w, const struct profile_name *n)
{
	Sysom__Pprof__Function f = SYSOM__PPROF__FUNCTION__INIT, *list = &f;
	part_t part = SYSOM__PPROF__PROFILE__INIT;
	uint32_t before = w->functions.count, k;
	char *key;

	if (asprintf(&key, "%s\t%s\t%s", n->raw, n->module, n->file) < 0) {
		fail(w, -ENOMEM);
		return 0;
	}
	k = number(w, &w->functions, key);
	free(key);
	if (k > before) {
		f.id = k;
		f.name = string(w, n->function);
		f.system_name = string(w, n->raw);
		f.filename = string(w, *n->file ? n->file : n->module);
		part.function = &list;
		part.n_function = 1;
		put(w, &part);
	}
	return k;
}

static uint32_t location_number(struct writer *w, uint32_t frame)
{
	const struct stack_frame *f = &w->b->frames[frame];
	Sysom__Pprof__Location l = SYSOM__PPROF__LOCATION__INIT, *list = &l;
	Sysom__Pprof__Line line = SYSOM__PPROF__LINE__INIT, *lines = &line;
	part_t part = SYSOM__PPROF__PROFILE__INIT;
	bool code = f->kind == STACK_FRAME_NATIVE || f->kind == STACK_FRAME_ANONYMOUS;
	uint32_t before = w->locations.count;
	struct profile_name n;
	char key[96];

	if (profile_names_get(w->names, frame, &n)) {
		fail(w, -ENOMEM);
		return 0;
	}
	line.function_id = function_number(w, &n);
	line.line = n.line;
	l.address = code ? f->address : 0;
	l.mapping_id = f->kind == STACK_FRAME_NATIVE ? f->object + 1 : 0;
	snprintf(key, sizeof(key), "%llu %llu %llx %u", (unsigned long long)line.function_id,
		 (unsigned long long)l.mapping_id, (unsigned long long)l.address, n.line);
	l.id = number(w, &w->locations, key);
	if (l.id > before) {
		/* a frame without a symbol stays an address, which pprof can name */
		l.line = &lines;
		l.n_line = n.resolved || f->kind != STACK_FRAME_NATIVE;
		part.location = &list;
		part.n_location = 1;
		put(w, &part);
	}
	return (uint32_t)l.id;
}

static void put_mapping(struct writer *w, uint32_t object)
{
	const struct stack_object *o = &w->b->objects[object];
	Sysom__Pprof__Mapping m = SYSOM__PPROF__MAPPING__INIT, *list = &m;
	part_t part = SYSOM__PPROF__PROFILE__INIT;
	char hex[2 * STACK_BUILD_ID_MAX + 1];

	text_hex(o->build_id, o->build_id_bytes, hex);
	m.id = object + 1;
	m.memory_limit = UINT64_MAX >> 1; /* addresses are those in the file */
	m.filename = string(w, stack_batch_text(w->b, o->path));
	m.build_id = string(w, hex);
	m.has_functions = true;
	part.mapping = &list;
	part.n_mapping = 1;
	put(w, &part);
}

static bool is_library(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *so = strstr(base, ".so");

	return *base == '[' || !*base || (so && (!so[3] || so[3] == '.'));
}

/* pprof takes the first mapping for the main program. So the first is the file with the most time on its
 * stacks that is not a library. */
static uint32_t main_object(const struct stack_batch *b)
{
	uint64_t *weight = calloc(b->object_count + 1, sizeof(*weight));
	uint32_t best = 0;

	for (uint32_t i = 0; weight && i < b->sample_count; i++) {
		const struct stack *st = &b->stacks[b->samples[i].stack];

		for (uint32_t k = 0; k < st->count; k++) {
			const struct stack_frame *f = &b->frames[st->first + k];

			if (f->kind == STACK_FRAME_NATIVE)
				weight[f->object] += b->samples[i].weight_ns;
		}
	}
	if (b->object_count && is_library(stack_batch_text(b, b->objects[0].path)) && weight)
		weight[0] = 0;
	for (uint32_t i = 1; weight && i < b->object_count; i++)
		if (!is_library(stack_batch_text(b, b->objects[i].path)) &&
		    weight[i] > weight[best])
			best = i;
	free(weight);
	return best;
}

/* locations: of the batch's frames. */
static void put_sample(struct writer *w, const struct stack_sample *from, uint64_t *locations)
{
	const struct stack *st = &w->b->stacks[from->stack];
	Sysom__Pprof__Sample s = SYSOM__PPROF__SAMPLE__INIT, *list = &s;
	Sysom__Pprof__Label label[3] = {SYSOM__PPROF__LABEL__INIT, SYSOM__PPROF__LABEL__INIT,
					SYSOM__PPROF__LABEL__INIT},
			    *labels[3] = {&label[0], &label[1], &label[2]};
	part_t part = SYSOM__PPROF__PROFILE__INIT;
	int64_t values[4] = {0};
	int at = from->kind == STACK_OFF_CPU ? 2 : 0;

	values[at] = from->count;
	values[at + 1] = (int64_t)from->weight_ns;
	label[0].key = string(w, "pid");
	label[0].num = from->pid;
	label[1].key = string(w, "tid");
	label[1].num = from->tid;
	label[2].key = string(w, "thread");
	label[2].str = string(w, stack_batch_text(w->b, from->comm));
	s.location_id = &locations[st->first];
	s.n_location_id = st->count;
	s.value = values;
	s.n_value = 4;
	s.label = labels;
	s.n_label = 3;
	part.sample = &list;
	part.n_sample = 1;
	put(w, &part);
}

static void put_head(struct writer *w, uint64_t realtime_ns, uint64_t period_ns)
{
	static const char *const names[][2] = {{"samples", "count"},
					       {"cpu", "nanoseconds"},
					       {"blocked", "count"},
					       {"off_cpu", "nanoseconds"},
					       {"cpu", "nanoseconds"}};
	Sysom__Pprof__ValueType types[5], *list[4];
	part_t part = SYSOM__PPROF__PROFILE__INIT;

	for (int i = 0; i < 5; i++) {
		sysom__pprof__value_type__init(&types[i]);
		types[i].type = string(w, names[i][0]);
		types[i].unit = string(w, names[i][1]);
		if (i < 4)
			list[i] = &types[i];
	}
	part.n_sample_type = 4;
	part.sample_type = list;
	part.period_type = &types[4];
	part.period = (int64_t)period_ns;
	part.default_sample_type = types[1].type;
	part.time_nanos = (int64_t)realtime_ns;
	part.duration_nanos = (int64_t)(w->b->end_ns - w->b->begin_ns);
	put(w, &part);
}

static void put_strings(struct writer *w)
{
	part_t part = SYSOM__PPROF__PROFILE__INIT;
	char empty[1] = "", *first = empty;

	part.n_string_table = 1;
	part.string_table = &first;
	put(w, &part);
	part.n_string_table = w->strings.count;
	part.string_table = w->strings.text;
	put(w, &part);
}

static void put_all(struct writer *w, uint64_t *locations)
{
	const struct stack_batch *b = w->b;
	uint32_t first = main_object(b);

	if (b->object_count)
		put_mapping(w, first);
	for (uint32_t i = 0; i < b->object_count; i++)
		if (i != first)
			put_mapping(w, i);
	for (uint32_t i = 0; i < b->frame_count; i++)
		locations[i] = location_number(w, i);
	for (uint32_t i = 0; i < b->sample_count; i++)
		put_sample(w, &b->samples[i], locations);
	put_strings(w);
	w->out.bytes = 0;
	compress_part(w, Z_FINISH);
}

int profile_pprof_write(FILE *to, const struct stack_batch *b, struct profile_names *names,
			uint64_t realtime_ns, uint64_t period_ns)
{
	struct writer w = {.b = b, .names = names, .to = to};
	uint64_t *locations = calloc(b->frame_count + 1ull, sizeof(*locations));

	buf_init(&w.out, UINT32_MAX);
	if (!locations ||
	    deflateInit2(&w.z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(locations);
		return -ENOMEM;
	}
	put_head(&w, realtime_ns, period_ns);
	put_all(&w, locations);
	deflateEnd(&w.z);
	buf_fini(&w.out);
	intern_fini(&w.strings);
	intern_fini(&w.functions);
	intern_fini(&w.locations);
	free(locations);
	return w.err ? w.err : ferror(to) ? -EIO : 0;
}
