/* SPDX-License-Identifier: Apache-2.0
 * profile_pprof.c - see profile_pprof.h. pprof's tables are per function and per (function, line) or
 * address; both are interned here, since a batch repeats frames. */
#include "cli/profile/profile_pprof.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/room.h"
#include "base/text.h"
#include "cli/profile.pb-c.h"
#include "cli/text/intern.h"

struct writer {
	const struct stack_batch *b;
	struct profile_names *names;
	struct intern strings, functions, locations;
	Sysom__Pprof__Function *function;
	Sysom__Pprof__Location *location;
	Sysom__Pprof__Line *line;
	Sysom__Pprof__Mapping *mapping;
	size_t function_room, location_room, line_room;
	bool failed;
};

/* The number of a text from 1; 0: without memory. */
static uint32_t number(struct writer *w, struct intern *t, const char *text)
{
	int64_t at = intern_text(t, text, UINT32_MAX);

	w->failed |= at < 0;
	return at < 0 ? 0 : (uint32_t)at + 1;
}

/* pprof's string 0 is "". */
static int64_t string(struct writer *w, const char *s)
{
	return *s ? number(w, &w->strings, s) : 0;
}

static uint32_t function_number(struct writer *w, const struct profile_name *n)
{
	uint32_t before = w->functions.count, k;
	char *key;

	if (asprintf(&key, "%s\t%s\t%s", n->raw, n->module, n->file) < 0) {
		w->failed = true;
		return 0;
	}
	k = number(w, &w->functions, key);
	free(key);
	w->failed |= ROOM_FOR(w->function, w->function_room, k) != 0;
	if (!w->failed && k > before) {
		Sysom__Pprof__Function *f = &w->function[k - 1];

		sysom__pprof__function__init(f);
		f->id = k;
		f->name = string(w, n->function);
		f->system_name = string(w, n->raw);
		f->filename = string(w, *n->file ? n->file : n->module);
	}
	return k;
}

static uint32_t location_number(struct writer *w, uint32_t frame)
{
	const struct stack_frame *f = &w->b->frames[frame];
	uint32_t before = w->locations.count, k, function;
	bool code = f->kind == STACK_FRAME_NATIVE || f->kind == STACK_FRAME_ANONYMOUS;
	uint64_t address = code ? f->address : 0;
	uint32_t object = f->kind == STACK_FRAME_NATIVE ? f->object + 1 : 0;
	struct profile_name n;
	char key[96];

	if (profile_names_get(w->names, frame, &n)) {
		w->failed = true;
		return 0;
	}
	function = function_number(w, &n);
	snprintf(key, sizeof(key), "%u %u %llx %u", function, object, (unsigned long long)address,
		 n.line);
	k = number(w, &w->locations, key);
	w->failed |=
	    ROOM_FOR(w->location, w->location_room, k) || ROOM_FOR(w->line, w->line_room, k);
	if (!w->failed && k > before) {
		Sysom__Pprof__Location *l = &w->location[k - 1];

		sysom__pprof__location__init(l);
		sysom__pprof__line__init(&w->line[k - 1]);
		l->id = k;
		l->address = address;
		l->mapping_id = object;
		w->line[k - 1].function_id = function;
		w->line[k - 1].line = n.line;
		/* a frame without a symbol stays an address, for pprof to name */
		l->n_line = n.resolved || f->kind != STACK_FRAME_NATIVE;
	}
	return k;
}

static int make_mappings(struct writer *w)
{
	w->mapping = calloc(w->b->object_count + 1, sizeof(*w->mapping));
	if (!w->mapping)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->b->object_count; i++) {
		const struct stack_object *o = &w->b->objects[i];
		char hex[2 * STACK_BUILD_ID_MAX + 1];

		text_hex(o->build_id, o->build_id_bytes, hex);
		sysom__pprof__mapping__init(&w->mapping[i]);
		w->mapping[i].id = i + 1;
		w->mapping[i].memory_limit = UINT64_MAX >> 1; /* addresses are the file's own */
		w->mapping[i].filename = string(w, stack_batch_text(w->b, o->path));
		w->mapping[i].build_id = string(w, hex);
		w->mapping[i].has_functions = true;
	}
	return 0;
}

static bool is_library(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	const char *so = strstr(base, ".so");

	return *base == '[' || !*base || (so && (!so[3] || so[3] == '.'));
}

/* pprof takes the first mapping for the main program: the file, no library, that most of the time has on
 * its stacks. Without one: the first. */
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

struct samples {
	Sysom__Pprof__Sample *sample, **list;
	Sysom__Pprof__Label *labels, **label_list;
	int64_t (*values)[4];
	uint64_t *locations;
};

static int make_samples(struct writer *w, struct samples *s)
{
	const struct stack_batch *b = w->b;
	uint32_t n = b->sample_count ? b->sample_count : 1;
	int64_t pid = string(w, "pid"), tid = string(w, "tid"), thread = string(w, "thread");

	s->sample = calloc(n, sizeof(*s->sample));
	s->list = calloc(n, sizeof(*s->list));
	s->labels = calloc(3ull * n, sizeof(*s->labels));
	s->label_list = calloc(3ull * n, sizeof(*s->label_list));
	s->values = calloc(n, sizeof(*s->values));
	s->locations = calloc(b->frame_count ? b->frame_count : 1, sizeof(*s->locations));
	if (!s->sample || !s->list || !s->labels || !s->label_list || !s->values || !s->locations)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->frame_count; i++)
		s->locations[i] = location_number(w, i);
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *from = &b->samples[i];
		const struct stack *st = &b->stacks[from->stack];
		Sysom__Pprof__Sample *to = s->list[i] = &s->sample[i];
		Sysom__Pprof__Label *l = &s->labels[3 * i];
		int at = from->kind == STACK_OFF_CPU ? 2 : 0;

		sysom__pprof__sample__init(to);
		to->n_location_id = st->count;
		to->location_id = &s->locations[st->first];
		s->values[i][at] = from->count;
		s->values[i][at + 1] = (int64_t)from->weight_ns;
		to->n_value = 4;
		to->value = s->values[i];
		for (int k = 0; k < 3; k++) {
			sysom__pprof__label__init(&l[k]);
			s->label_list[3 * i + k] = &l[k];
		}
		l[0].key = pid;
		l[0].num = from->pid;
		l[1].key = tid;
		l[1].num = from->tid;
		l[2].key = thread;
		l[2].str = string(w, stack_batch_text(b, from->comm));
		to->n_label = 3;
		to->label = &s->label_list[3 * i];
	}
	return w->failed ? -ENOMEM : 0;
}

static int gzip_to(FILE *to, const uint8_t *data, size_t bytes)
{
	z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
	uint8_t out[16384];
	int rc = Z_OK;

	if (bytes > UINT32_MAX ||
	    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	while (rc == Z_OK) {
		z.next_out = out;
		z.avail_out = sizeof(out);
		rc = deflate(&z, Z_FINISH);
		if (fwrite(out, 1, sizeof(out) - z.avail_out, to) != sizeof(out) - z.avail_out)
			break;
	}
	deflateEnd(&z);
	return rc == Z_STREAM_END && !ferror(to) ? 0 : errno ? -errno : -EIO;
}

static int write_profile(struct writer *w, Sysom__Pprof__Profile *p, FILE *to)
{
	uint32_t n =
	    w->functions.count + w->locations.count + w->b->object_count + w->strings.count + 2;
	void **lists = calloc(n, sizeof(*lists)), **at = lists;
	static char empty[1];
	uint8_t *data = NULL;
	size_t bytes = 0;
	uint32_t first = main_object(w->b);
	int err = -ENOMEM;

	if (!lists)
		return -ENOMEM;
	p->function = (Sysom__Pprof__Function **)at;
	p->n_function = w->functions.count;
	for (uint32_t i = 0; i < w->functions.count; i++)
		*at++ = &w->function[i];
	p->location = (Sysom__Pprof__Location **)at;
	p->n_location = w->locations.count;
	for (uint32_t i = 0; i < w->locations.count; i++)
		*at++ = &w->location[i];
	p->mapping = (Sysom__Pprof__Mapping **)at;
	p->n_mapping = w->b->object_count;
	if (w->b->object_count)
		*at++ = &w->mapping[first];
	for (uint32_t i = 0; i < w->b->object_count; i++)
		if (i != first)
			*at++ = &w->mapping[i];
	p->string_table = (char **)at;
	p->n_string_table = w->strings.count + 1;
	*at++ = empty;
	for (uint32_t i = 0; i < w->strings.count; i++)
		*at++ = w->strings.text[i];
	bytes = sysom__pprof__profile__get_packed_size(p);
	data = malloc(bytes);
	if (data) {
		sysom__pprof__profile__pack(p, data);
		err = gzip_to(to, data, bytes);
	}
	free(data);
	free(lists);
	return err;
}

static void set_types(struct writer *w, Sysom__Pprof__Profile *p, Sysom__Pprof__ValueType types[5],
		      Sysom__Pprof__ValueType *list[4], uint64_t period_ns)
{
	static const char *const names[][2] = {{"samples", "count"},
					       {"cpu", "nanoseconds"},
					       {"blocked", "count"},
					       {"off_cpu", "nanoseconds"},
					       {"cpu", "nanoseconds"}};

	for (int i = 0; i < 5; i++) {
		sysom__pprof__value_type__init(&types[i]);
		types[i].type = string(w, names[i][0]);
		types[i].unit = string(w, names[i][1]);
		if (i < 4)
			list[i] = &types[i];
	}
	p->n_sample_type = 4;
	p->sample_type = list;
	p->period_type = &types[4];
	p->period = (int64_t)period_ns;
	p->default_sample_type = types[1].type;
}

int profile_pprof_write(FILE *to, const struct stack_batch *b, struct profile_names *names,
			uint64_t realtime_ns, uint64_t period_ns)
{
	struct writer w = {.b = b, .names = names};
	Sysom__Pprof__Profile p = SYSOM__PPROF__PROFILE__INIT;
	Sysom__Pprof__ValueType types[5], *list[4];
	struct samples s = {.sample = NULL};
	int err;

	set_types(&w, &p, types, list, period_ns);
	p.time_nanos = (int64_t)realtime_ns;
	p.duration_nanos = (int64_t)(b->end_ns - b->begin_ns);
	err = make_mappings(&w);
	if (!err)
		err = make_samples(&w, &s);
	if (!err) {
		/* only now: the arrays have moved while they grew */
		Sysom__Pprof__Line **lines = calloc(w.locations.count + 1, sizeof(*lines));

		for (uint32_t i = 0; lines && i < w.locations.count; i++) {
			lines[i] = &w.line[i];
			w.location[i].line = &lines[i];
		}
		p.sample = s.list;
		p.n_sample = b->sample_count;
		err = lines ? write_profile(&w, &p, to) : -ENOMEM;
		free(lines);
	}
	intern_fini(&w.strings);
	intern_fini(&w.functions);
	intern_fini(&w.locations);
	free(w.function);
	free(w.location);
	free(w.line);
	free(w.mapping);
	free(s.sample);
	free(s.list);
	free(s.labels);
	free(s.label_list);
	free(s.values);
	free(s.locations);
	return err;
}
