/* SPDX-License-Identifier: Apache-2.0
 * Interned data is written with the first sample that needs it, so no packet is larger than a stack. */
#include "cli/trace/export_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "cli/text/intern.h"

#define SLICE_NS 10000000ull
/* The most samples of one thread and stack in a slice: 999 Hz on one CPU. More is a peer's error. */
#define SLICE_SAMPLES_MAX 100u

typedef Perfetto__Protos__InternedString string_t;

struct rank_writer {
	struct export_stacks *e;
	const struct trace_rank *r;
	struct profile_names *names;
	/* frames with equal function, mapping, address and line are one */
	struct intern functions, frames;
	uint64_t first_function, first_frame; /* the last ids of earlier ranks */
	uint64_t *stack_iid;		      /* stack -> callstack; 0: not written yet */
	uint64_t *mapping_iid;		      /* object, then kernel, Python, JIT */
	uint64_t *frame_ids;		      /* of the current stack, LIMIT_STACK_DEPTH */
	/* interned data of the current packet */
	Perfetto__Protos__InternedData data;
	string_t *strings, **string_list;
	Perfetto__Protos__Frame *frame, **frame_list;
	Perfetto__Protos__Mapping *mapping, **mapping_list;
	string_t *paths, **path_list, *ids, **id_list;
	uint64_t *path_iid;
};

enum { OTHER_KERNEL, OTHER_PYTHON, OTHER_JIT, OTHERS };

static void fill_string(string_t *s, uint64_t iid, const void *text, size_t bytes)
{
	*s = (string_t)PERFETTO__PROTOS__INTERNED_STRING__INIT;
	s->has_iid = s->has_str = 1;
	s->iid = iid;
	s->str = (ProtobufCBinaryData){bytes, (uint8_t *)(uintptr_t)text};
}

/* The id of a key, above `first`; 0: out of memory. *count: the file's highest id. */
static uint64_t iid_of(struct intern *t, const void *key, size_t bytes, uint64_t first,
		       uint64_t *count, bool *fresh)
{
	uint32_t before = t->count;
	int64_t at = intern_bytes(t, key, bytes, UINT32_MAX);

	*fresh = at == before;
	*count += *fresh;
	return at < 0 ? 0 : first + (uint64_t)at + 1;
}

static uint64_t function_iid(struct rank_writer *w, const char *text)
{
	size_t n = w->data.n_function_names;
	bool fresh;
	uint64_t iid =
	    iid_of(&w->functions, text, strlen(text), w->first_function, &w->e->strings, &fresh);

	if (!fresh)
		return iid;
	fill_string(&w->strings[n], iid, text, strlen(text));
	w->string_list[n] = &w->strings[n];
	w->data.n_function_names = n + 1;
	return iid;
}

/* at: object, or object_count + OTHER_. */
static uint64_t mapping_iid(struct rank_writer *w, uint32_t at)
{
	static const char *const others[OTHERS] = {"[kernel]", "[python]", "[jit]"};
	const struct stack_batch *b = &w->r->stacks;
	const struct stack_object *o = at < b->object_count ? &b->objects[at] : NULL;
	const char *path = o ? stack_batch_text(b, o->path) : others[at - b->object_count];
	size_t n = w->data.n_mappings;
	Perfetto__Protos__Mapping *m = &w->mapping[n];

	if (w->mapping_iid[at])
		return w->mapping_iid[at];
	w->mapping_iid[at] = ++w->e->mappings;
	*m = (Perfetto__Protos__Mapping)PERFETTO__PROTOS__MAPPING__INIT;
	m->has_iid = m->has_build_id = m->has_start = m->has_end = 1;
	m->iid = m->build_id = w->mapping_iid[at];
	m->end = UINT64_MAX; /* addresses are those in the file */
	w->path_iid[n] = m->iid;
	m->path_string_ids = &w->path_iid[n];
	m->n_path_string_ids = 1;
	fill_string(&w->paths[n], m->iid, path, strlen(path));
	fill_string(&w->ids[n], m->iid, o ? o->build_id : (const uint8_t *)"",
		    o ? o->build_id_bytes : 0);
	w->mapping_list[n] = m;
	w->path_list[n] = &w->paths[n];
	w->id_list[n] = &w->ids[n];
	w->data.n_mappings = w->data.n_mapping_paths = w->data.n_build_ids = n + 1;
	return m->iid;
}

static void describe(const struct stack_batch *b, const struct stack_frame *f, uint32_t *mapping,
		     Perfetto__Protos__Frame__Kind *kind)
{
	switch (f->kind) {
	case STACK_FRAME_NATIVE:
		*mapping = f->object;
		*kind = PERFETTO__PROTOS__FRAME__KIND__KIND_NATIVE;
		return;
	case STACK_FRAME_KERNEL:
		*mapping = b->object_count + OTHER_KERNEL;
		*kind = PERFETTO__PROTOS__FRAME__KIND__KIND_KERNEL;
		return;
	case STACK_FRAME_PYTHON:
		*mapping = b->object_count + OTHER_PYTHON;
		*kind = PERFETTO__PROTOS__FRAME__KIND__KIND_INTERPRETED;
		return;
	}
	*mapping = b->object_count + OTHER_JIT;
	*kind = PERFETTO__PROTOS__FRAME__KIND__KIND_JIT;
}

static int frame_iid(struct rank_writer *w, uint32_t at, uint64_t *out)
{
	const struct stack_batch *b = &w->r->stacks;
	const struct stack_frame *f = &b->frames[at];
	Perfetto__Protos__Frame__Kind kind;
	Perfetto__Protos__Frame *to;
	struct profile_name name;
	uint32_t mapping;
	uint64_t key[5];
	bool fresh;

	if (profile_names_get(w->names, at, &name))
		return -ENOMEM;
	describe(b, f, &mapping, &kind);
	key[0] = function_iid(w, name.function);
	key[1] = mapping_iid(w, mapping);
	key[2] = f->kind == STACK_FRAME_NATIVE || f->kind == STACK_FRAME_ANONYMOUS ? f->address : 0;
	key[3] = name.line;
	key[4] = f->kind;
	*out = iid_of(&w->frames, key, sizeof(key), w->first_frame, &w->e->frames, &fresh);
	if (!key[0] || !*out)
		return -ENOMEM;
	if (!fresh)
		return 0;
	to = &w->frame[w->data.n_frames];
	*to = (Perfetto__Protos__Frame)PERFETTO__PROTOS__FRAME__INIT;
	to->has_iid = to->has_function_name_id = to->has_mapping_id = to->has_rel_pc =
	    to->has_kind = 1;
	to->iid = *out;
	to->function_name_id = key[0];
	to->mapping_id = key[1];
	to->rel_pc = key[2];
	to->kind = kind;
	to->has_line_number = name.line != 0;
	to->line_number = name.line;
	w->frame_list[w->data.n_frames++] = to;
	return 0;
}

static int intern_stack(struct rank_writer *w, uint32_t stack, Perfetto__Protos__Callstack *c,
			Perfetto__Protos__Callstack **list)
{
	const struct stack *st = &w->r->stacks.stacks[stack];

	w->data = (Perfetto__Protos__InternedData)PERFETTO__PROTOS__INTERNED_DATA__INIT;
	for (uint32_t i = 0; i < st->count; i++)
		if (frame_iid(w, st->first + st->count - 1 - i, &w->frame_ids[i]))
			return -ENOMEM;
	w->data.function_names = w->string_list;
	w->data.frames = w->frame_list;
	w->data.mappings = w->mapping_list;
	w->data.mapping_paths = w->path_list;
	w->data.build_ids = w->id_list;
	*c = (Perfetto__Protos__Callstack)PERFETTO__PROTOS__CALLSTACK__INIT;
	c->has_iid = 1;
	c->iid = w->stack_iid[stack] = ++w->e->callstacks;
	c->frame_ids = w->frame_ids;
	c->n_frame_ids = st->count;
	*list = c;
	w->data.callstacks = list;
	w->data.n_callstacks = 1;
	return 0;
}

static int put_sample(struct rank_writer *w, const struct stack_sample *s)
{
	const struct stack *st = &w->r->stacks.stacks[s->stack];
	Perfetto__Protos__PerfSample sample = PERFETTO__PROTOS__PERF_SAMPLE__INIT;
	Perfetto__Protos__TracePacket p = PERFETTO__PROTOS__TRACE_PACKET__INIT;
	uint32_t count = s->count < SLICE_SAMPLES_MAX ? s->count : SLICE_SAMPLES_MAX;
	Perfetto__Protos__Callstack c, *list;
	int pid, tid;

	if (!st->count || s->kind == STACK_OFF_CPU)
		return 0;
	if (!w->stack_iid[s->stack]) {
		if (intern_stack(w, s->stack, &c, &list))
			return -ENOMEM;
		p.interned_data = &w->data;
	}
	w->e->ids(w->e->arg, s->pid, s->tid, &pid, &tid);
	sample.has_cpu = sample.has_pid = sample.has_tid = sample.has_callstack_iid = 1;
	sample.has_cpu_mode = 1;
	sample.cpu = s->cpu;
	sample.pid = (uint32_t)pid;
	sample.tid = (uint32_t)tid;
	sample.callstack_iid = w->stack_iid[s->stack];
	sample.cpu_mode = st->kernel_count ? PERFETTO__PROTOS__PROFILING__CPU_MODE__MODE_KERNEL
					   : PERFETTO__PROTOS__PROFILING__CPU_MODE__MODE_USER;
	p.has_timestamp = p.has_sequence_flags = 1;
	p.sequence_flags =
	    PERFETTO__PROTOS__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	p.perf_sample = &sample;
	for (uint32_t i = 0; i < count; i++) {
		p.timestamp = s->time_ns + (uint64_t)w->r->realtime_offset_ns +
			      SLICE_NS * (2 * i + 1) / (2 * count);
		w->e->put(w->e->arg, &p);
		p.interned_data = NULL;
	}
	return 0;
}

struct array {
	void *at; /* of the pointer */
	size_t count, bytes;
};
#define ARRAY(pointer, count)                                                                      \
	{                                                                                          \
		&(pointer), (count), sizeof(*(pointer))                                            \
	}

/* make: allocates the arrays (0, -ENOMEM); else frees them. */
static int arrays_make(const struct array *a, size_t count, bool make)
{
	int err = 0;

	for (size_t i = 0; i < count; i++) {
		void **at = a[i].at;

		if (!make)
			free(*at);
		else if (!(*at = calloc(a[i].count, a[i].bytes)))
			err = -ENOMEM;
	}
	return err;
}

int export_stacks_put(struct export_stacks *e, const struct trace_rank *r,
		      struct profile_names *names)
{
	size_t depth = LIMIT_STACK_DEPTH, maps = (size_t)r->stacks.object_count + OTHERS;
	struct rank_writer w = {
	    .e = e, .r = r, .names = names, .first_function = e->strings, .first_frame = e->frames};
	const struct array arrays[] = {ARRAY(w.stack_iid, r->stacks.stack_count + 1ull),
				       ARRAY(w.frame_ids, depth),
				       ARRAY(w.strings, depth),
				       ARRAY(w.string_list, depth),
				       ARRAY(w.frame, depth),
				       ARRAY(w.frame_list, depth),
				       ARRAY(w.mapping_iid, maps),
				       ARRAY(w.mapping, maps),
				       ARRAY(w.mapping_list, maps),
				       ARRAY(w.paths, maps),
				       ARRAY(w.path_list, maps),
				       ARRAY(w.ids, maps),
				       ARRAY(w.id_list, maps),
				       ARRAY(w.path_iid, maps)};
	int err = arrays_make(arrays, ARRAY_LEN(arrays), true);

	for (uint32_t i = 0; i < r->stacks.sample_count && !err; i++)
		err = put_sample(&w, &r->stacks.samples[i]);
	arrays_make(arrays, ARRAY_LEN(arrays), false);
	intern_fini(&w.functions);
	intern_fini(&w.frames);
	return err;
}
