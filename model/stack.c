/* SPDX-License-Identifier: Apache-2.0
 * stack.c - see stack.h. Each table has a hash index whose key is the content of an entry. A batch
 * holds tens of thousands of stacks, which share the same few hundred objects and names. The
 * indexes are separate from the arrays, so a batch read from the wire has none. */
#include "model/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/order.h"
#include "base/probe.h"
#include "base/room.h"

struct stack_index {
	struct probe strings, objects, stacks, samples;
};

void stack_batch_init(struct stack_batch *b, const struct keyed *key)
{
	memset(b, 0, sizeof(*b));
	b->key = *key;
}

void stack_batch_fini(struct stack_batch *b)
{
	struct stack_index *x = b->index;
	struct keyed key = b->key;

	if (x) {
		probe_fini(&x->strings);
		probe_fini(&x->objects);
		probe_fini(&x->stacks);
		probe_fini(&x->samples);
	}
	free(x);
	free(b->objects);
	free(b->frames);
	free(b->stacks);
	free(b->samples);
	free(b->switches);
	free(b->switch_threads);
	free(b->strings);
	free(b->string_offset);
	stack_batch_init(b, &key);
}

void stack_batch_clear(struct stack_batch *b)
{
	struct stack_index *x = b->index;

	if (x) {
		probe_clear(&x->strings);
		probe_clear(&x->objects);
		probe_clear(&x->stacks);
		probe_clear(&x->samples);
	}
	b->begin_ns = b->end_ns = 0;
	b->lost_samples = 0;
	b->object_count = b->frame_count = b->stack_count = b->sample_count = b->string_count = 0;
	b->switch_count = b->switch_thread_count = 0;
	b->string_bytes = 0;
}

/* Makes room for one more entry, up to max. */
#define ROOM_OF(array, room, count, max)                                                           \
	((count) >= (max) ? -E2BIG : ROOM_FOR(array, room, (size_t)(count) + 1))

static uint64_t key_string(const struct keyed *k, const char *s, size_t bytes)
{
	return keyed_bytes(k, s, bytes);
}

static uint64_t key_object(const struct keyed *k, const struct stack_object *o)
{
	return keyed_words(k, keyed_bytes(k, o->build_id, o->build_id_bytes), o->path);
}

static uint64_t key_frames(const struct keyed *k, const struct stack_frame *f, uint32_t count,
			   uint32_t kernel_count, unsigned end)
{
	struct keyed_state h = keyed_begin(k);

	keyed_add(&h, (uint64_t)kernel_count << 8 | end);
	for (uint32_t i = 0; i < count; i++) {
		keyed_add(&h, f[i].address);
		keyed_add(&h, (uint64_t)f[i].object << 32 | (uint32_t)f[i].kind << 8 | f[i].flags);
		if (f[i].kind == STACK_FRAME_PYTHON)
			keyed_add(&h, (uint64_t)f[i].file << 32 | f[i].line);
	}
	return keyed_end(&h);
}

static uint64_t key_sample(const struct keyed *k, const struct stack_sample *s)
{
	struct keyed_state h = keyed_begin(k);

	keyed_add(&h, s->time_ns);
	keyed_add(&h, (uint64_t)s->pid << 32 | s->tid);
	keyed_add(&h, (uint64_t)s->stack << 32 | s->comm);
	keyed_add(&h, (uint64_t)s->waker_tid << 32 | s->waker_comm);
	keyed_add(&h, (uint32_t)s->kind << 8 | s->gil);
	return keyed_end(&h);
}

/* A batch with only empty stacks has no array of frames. */
static const struct stack_frame *frames_of(const struct stack_batch *b, const struct stack *s)
{
	return s->count ? b->frames + s->first : NULL;
}

static int string_append(struct stack_batch *b, struct stack_index *x, const char *s, size_t bytes);

/* The builder's tables; string 0 exists. */
static struct stack_index *index_of(struct stack_batch *b)
{
	if (!b->index)
		b->index = calloc(1, sizeof(struct stack_index));
	if (b->index && !b->string_count && string_append(b, b->index, "", 0))
		return NULL;
	return b->index;
}

static int string_append(struct stack_batch *b, struct stack_index *x, const char *s, size_t bytes)
{
	size_t want = b->string_bytes + bytes + 1;
	int rc;

	if (want > LIMIT_STACK_STRING_BYTES)
		return -E2BIG;
	rc = ROOM_FOR(b->strings, b->string_bytes_room, want);
	if (!rc)
		rc =
		    ROOM_OF(b->string_offset, b->string_room, b->string_count, LIMIT_STACK_STRINGS);
	if (!rc)
		rc = probe_add(&x->strings, key_string(&b->key, s, bytes), b->string_count);
	if (rc)
		return rc;
	memcpy(b->strings + b->string_bytes, s, bytes);
	b->strings[b->string_bytes + bytes] = 0;
	b->string_offset[b->string_count++] = (uint32_t)b->string_bytes;
	b->string_bytes = want;
	return 0;
}

int stack_batch_string(struct stack_batch *b, const char *s, size_t bytes, uint32_t *out)
{
	struct stack_index *x = index_of(b);
	const char *nul = memchr(s, 0, bytes);
	int rc;

	if (!x)
		return -ENOMEM;
	if (nul)
		bytes = (size_t)(nul - s);
	PROBE_EACH (i, &x->strings, key_string(&b->key, s, bytes)) {
		const char *have = b->strings + b->string_offset[i.number];

		if (!strncmp(have, s, bytes) && !have[bytes]) {
			*out = i.number;
			return 0;
		}
	}
	rc = string_append(b, x, s, bytes);
	if (!rc)
		*out = b->string_count - 1;
	return rc;
}

int stack_batch_object(struct stack_batch *b, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, uint32_t *out)
{
	struct stack_index *x = index_of(b);
	struct stack_object o = {.build_id_bytes = 0};
	uint64_t key;
	int rc;

	if (!x)
		return -ENOMEM;
	rc = stack_batch_string(b, path, strlen(path), &o.path);
	if (rc)
		return rc;
	if (build_id_bytes > STACK_BUILD_ID_MAX)
		build_id_bytes = STACK_BUILD_ID_MAX;
	if (build_id_bytes)
		memcpy(o.build_id, build_id, build_id_bytes);
	o.build_id_bytes = (uint8_t)build_id_bytes;
	key = key_object(&b->key, &o);
	PROBE_EACH (i, &x->objects, key)
		if (!memcmp(&b->objects[i.number], &o, sizeof(o))) {
			*out = i.number;
			return 0;
		}
	rc = ROOM_OF(b->objects, b->object_room, b->object_count, LIMIT_STACK_OBJECTS);
	if (!rc)
		rc = probe_add(&x->objects, key, b->object_count);
	if (rc)
		return rc;
	b->objects[b->object_count] = o;
	*out = b->object_count++;
	return 0;
}

static bool frames_equal(const struct stack_frame *a, const struct stack_frame *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (a[i].kind != b[i].kind || a[i].flags != b[i].flags ||
		    a[i].object != b[i].object || a[i].address != b[i].address ||
		    a[i].file != b[i].file || a[i].line != b[i].line)
			return false;
	}
	return true;
}

int stack_batch_stack(struct stack_batch *b, const struct stack_frame *frames, uint32_t count,
		      uint32_t kernel_count, enum stack_end end, uint32_t *out)
{
	struct stack_index *x = index_of(b);
	uint64_t key = key_frames(&b->key, frames, count, kernel_count, end);
	int rc;

	if (!x)
		return -ENOMEM;
	if (count > LIMIT_STACK_DEPTH)
		return -E2BIG;
	PROBE_EACH (i, &x->stacks, key) {
		const struct stack *s = &b->stacks[i.number];

		if (s->count == count && s->kernel_count == kernel_count && s->end == end &&
		    frames_equal(frames_of(b, s), frames, count)) {
			*out = i.number;
			return 0;
		}
	}
	if (count > LIMIT_STACK_FRAMES - b->frame_count)
		return -E2BIG;
	rc = ROOM_FOR(b->frames, b->frame_room, (size_t)b->frame_count + count);
	if (!rc)
		rc = ROOM_OF(b->stacks, b->stack_room, b->stack_count, LIMIT_STACKS);
	if (!rc)
		rc = probe_add(&x->stacks, key, b->stack_count);
	if (rc)
		return rc;
	if (count)
		memcpy(b->frames + b->frame_count, frames, count * sizeof(*frames));
	b->stacks[b->stack_count] = (struct stack){.first = b->frame_count,
						   .count = count,
						   .kernel_count = kernel_count,
						   .end = (uint8_t)end};
	b->frame_count += count;
	*out = b->stack_count++;
	return 0;
}

static bool sample_same(const struct stack_sample *a, const struct stack_sample *b)
{
	return a->time_ns == b->time_ns && a->pid == b->pid && a->tid == b->tid &&
	       a->stack == b->stack && a->kind == b->kind && a->gil == b->gil &&
	       a->comm == b->comm && a->waker_tid == b->waker_tid && a->waker_comm == b->waker_comm;
}

int stack_batch_sample(struct stack_batch *b, const struct stack_sample *s)
{
	struct stack_index *x = index_of(b);
	uint64_t key = key_sample(&b->key, s);
	int rc;

	if (!x)
		return -ENOMEM;
	PROBE_EACH (i, &x->samples, key) {
		struct stack_sample *have = &b->samples[i.number];

		if (sample_same(have, s)) {
			have->count += s->count;
			have->weight_ns += s->weight_ns;
			return 0;
		}
	}
	rc = ROOM_OF(b->samples, b->sample_room, b->sample_count, LIMIT_STACK_SAMPLES);
	if (!rc)
		rc = probe_add(&x->samples, key, b->sample_count);
	if (!rc)
		b->samples[b->sample_count++] = *s;
	return rc;
}

int stack_batch_switch(struct stack_batch *b, const struct stack_switch *s)
{
	int rc = ROOM_OF(b->switches, b->switch_room, b->switch_count, LIMIT_STACK_SWITCHES);

	if (!rc)
		b->switches[b->switch_count++] = *s;
	return rc;
}

int stack_batch_switch_thread(struct stack_batch *b, const struct stack_switch_thread *t)
{
	int rc = ROOM_OF(b->switch_threads, b->switch_thread_room, b->switch_thread_count,
			 LIMIT_STACK_SWITCH_THREADS);

	if (!rc)
		b->switch_threads[b->switch_thread_count++] = *t;
	return rc;
}

ORDER_BY(switch_order, struct stack_switch,
	 ORDER_UP(pid) ?: ORDER_UP(tid) ?: ORDER_UP(out_ns) ?: ORDER_UP(in_ns));

void stack_batch_switches_sort(struct stack_batch *b)
{
	ORDER_SORT(b->switches, b->switch_count, switch_order);
}

static uint32_t sum_of(uint32_t a, uint32_t b)
{
	return a < UINT32_MAX - b ? a + b : UINT32_MAX;
}

/* Moves the taken on-CPU time of a dropped interval to the thread's next one. THROTTLED stays,
 * because a throttled thread was off the CPU. */
static void pass_on(const struct stack_switch *from, struct stack_switch *to)
{
	for (int i = 0; i < STACK_TAKEN_THROTTLED; i++)
		to->taken_ns[i] = sum_of(to->taken_ns[i], from->taken_ns[i]);
	to->faults = sum_of(to->faults, from->faults);
}

static bool has_taken(const struct stack_switch *s)
{
	bool any = s->faults > 0;

	for (int i = 0; i < STACK_TAKEN_THROTTLED; i++)
		any |= s->taken_ns[i] > 0;
	return any;
}

void stack_batch_switches_thin(struct stack_batch *b, uint64_t min_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];
		bool last = i + 1 == b->switch_count || s[1].tid != s->tid || s[1].pid != s->pid;
		bool keeps = s->in_ns - s->out_ns >= min_ns || s->flags & STACK_SWITCH_FOLDED;

		if (keeps || (last && has_taken(s)))
			b->switches[n++] = *s;
		else if (!last)
			pass_on(s, &b->switches[i + 1]);
	}
	b->switch_count = n;
}

static bool wanted(uint32_t pid, const uint32_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (pids[i] == pid)
			return true;
	}
	return !count;
}

static int merge_string(struct stack_batch *into, const struct stack_batch *from, uint32_t string,
			uint32_t *out)
{
	const char *s = stack_batch_text(from, string);

	return stack_batch_string(into, s, strlen(s), out);
}

/* Converts one frame's indices to the other batch. */
static int merge_frame(struct stack_batch *into, const struct stack_batch *from,
		       struct stack_frame *f)
{
	const struct stack_object *o;
	int rc = 0;

	switch (f->kind) {
	case STACK_FRAME_NATIVE:
		if (f->object >= from->object_count)
			return -EINVAL;
		o = &from->objects[f->object];
		return stack_batch_object(into, o->build_id, o->build_id_bytes,
					  stack_batch_text(from, o->path), &f->object);
	case STACK_FRAME_PYTHON:
		rc = merge_string(into, from, f->file, &f->file);
		/* fall through */
	case STACK_FRAME_KERNEL:
		return rc ? rc : merge_string(into, from, f->object, &f->object);
	default:
		return 0;
	}
}

static int merge_stack(struct stack_batch *into, const struct stack_batch *from, uint32_t stack,
		       uint32_t *out)
{
	const struct stack *s = &from->stacks[stack];
	struct stack_frame *frames = malloc((s->count ? s->count : 1) * sizeof(*frames));
	int rc = 0;

	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->count && !rc; i++) {
		frames[i] = from->frames[s->first + i];
		rc = merge_frame(into, from, &frames[i]);
	}
	if (!rc)
		rc = stack_batch_stack(into, frames, s->count, s->kernel_count, s->end, out);
	free(frames);
	return rc;
}

static int merge_once(struct stack_batch *into, const struct stack_batch *from, uint32_t *stacks,
		      uint32_t *stack)
{
	int rc = 0;

	if (!stacks[*stack]) {
		rc = merge_stack(into, from, *stack, &stacks[*stack]);
		if (!rc)
			stacks[*stack]++;
	}
	*stack = stacks[*stack] - 1;
	return rc;
}

static int merge_switches(struct stack_batch *into, const struct stack_batch *from,
			  const uint32_t *pids, size_t pid_count, uint64_t begin_ns,
			  uint64_t end_ns, uint32_t *stacks)
{
	int rc = 0;

	for (uint32_t i = 0; i < from->switch_count && !rc; i++) {
		struct stack_switch s = from->switches[i];

		if (s.in_ns <= begin_ns || s.out_ns >= end_ns || !wanted(s.pid, pids, pid_count))
			continue;
		if (s.stack != STACK_SWITCH_NO_STACK)
			rc = merge_once(into, from, stacks, &s.stack);
		if (!rc)
			rc = stack_batch_switch(into, &s);
	}
	for (uint32_t i = 0; i < from->switch_thread_count && !rc; i++) {
		const struct stack_switch_thread *t = &from->switch_threads[i];

		if (t->end_ns > begin_ns && t->begin_ns < end_ns && wanted(t->pid, pids, pid_count))
			rc = stack_batch_switch_thread(into, t);
	}
	return rc;
}

int stack_batch_merge(struct stack_batch *into, const struct stack_batch *from,
		      const uint32_t *pids, size_t pid_count, uint64_t begin_ns, uint64_t end_ns)
{
	/* index + 1; 0: not merged yet */
	uint32_t *stacks = calloc(from->stack_count ? from->stack_count : 1, sizeof(*stacks));
	int rc = stacks ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < from->sample_count && !rc; i++) {
		struct stack_sample s = from->samples[i];

		if (s.time_ns < begin_ns || s.time_ns >= end_ns || !wanted(s.pid, pids, pid_count))
			continue;
		rc = merge_once(into, from, stacks, &s.stack);
		if (!rc)
			rc = merge_string(into, from, s.comm, &s.comm);
		if (!rc)
			rc = merge_string(into, from, s.waker_comm, &s.waker_comm);
		if (!rc)
			rc = stack_batch_sample(into, &s);
	}
	if (!rc)
		rc = merge_switches(into, from, pids, pid_count, begin_ns, end_ns, stacks);
	free(stacks);
	return rc;
}

static bool frame_valid(const struct stack_batch *b, const struct stack_frame *f)
{
	switch (f->kind) {
	case STACK_FRAME_NATIVE:
		return f->object < b->object_count;
	case STACK_FRAME_PYTHON:
		return f->object < b->string_count && f->file < b->string_count;
	case STACK_FRAME_KERNEL:
		return f->object < b->string_count;
	default:
		return f->kind == STACK_FRAME_ANONYMOUS;
	}
}

bool stack_batch_valid(const struct stack_batch *b)
{
	for (uint32_t i = 0; i < b->string_count; i++) {
		if (b->string_offset[i] >= b->string_bytes)
			return false;
	}
	if (b->string_bytes && b->strings[b->string_bytes - 1])
		return false;
	for (uint32_t i = 0; i < b->object_count; i++) {
		if (b->objects[i].path >= b->string_count ||
		    b->objects[i].build_id_bytes > STACK_BUILD_ID_MAX)
			return false;
	}
	for (uint32_t i = 0; i < b->frame_count; i++) {
		if (!frame_valid(b, &b->frames[i]))
			return false;
	}
	for (uint32_t i = 0; i < b->stack_count; i++) {
		const struct stack *s = &b->stacks[i];

		if (s->first > b->frame_count || s->count > b->frame_count - s->first ||
		    s->kernel_count > s->count || s->end >= STACK_END_COUNT)
			return false;
	}
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];

		if (s->stack >= b->stack_count || s->comm >= b->string_count ||
		    s->waker_comm >= b->string_count || s->gil > STACK_GIL_UNKNOWN ||
		    (s->kind != STACK_ON_CPU && s->kind != STACK_OFF_CPU))
			return false;
	}
	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];

		if ((s->stack >= b->stack_count && s->stack != STACK_SWITCH_NO_STACK) ||
		    s->state >= STACK_SWITCH_STATES || s->in_ns < s->out_ns)
			return false;
	}
	for (uint32_t i = 0; i < b->switch_thread_count; i++)
		if (b->switch_threads[i].end_ns < b->switch_threads[i].begin_ns)
			return false;
	return true;
}

bool stack_frame_is_nameless(const struct stack_batch *b, const struct stack_frame *f)
{
	const char *name;

	if (f->kind != STACK_FRAME_PYTHON)
		return false;
	name = stack_batch_text(b, f->object);
	return !*name || !strcmp(name, STACK_NO_NAME);
}
