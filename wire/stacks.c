/* SPDX-License-Identifier: Apache-2.0
 * Stacks are a tree: two stacks of one thread share all frames except the innermost. So a stack is
 * the node of its leaf, and a node is its caller's node and one frame from a table of unique
 * frames. A stack then costs only the few nodes that it does not share. */
#include "wire/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"
#include "base/probe.h"
#include "wire/pack.h"

/* ---- pack ---- */

struct node {
	uint32_t parent; /* index + 1; 0: outermost */
	uint32_t frame;
};

struct packer {
	const struct stack_batch *b;
	struct probe frames, nodes;
	uint32_t *frame_of; /* unique frame -> one of b->frames */
	struct node *node;
	struct buf out;
};

static bool frame_same(const struct stack_frame *a, const struct stack_frame *b)
{
	return a->kind == b->kind && a->flags == b->flags && a->object == b->object &&
	       a->address == b->address && a->file == b->file && a->line == b->line;
}

static uint32_t intern_frame(struct packer *p, uint32_t i)
{
	const struct stack_frame *f = &p->b->frames[i];
	struct keyed_state hash = keyed_begin(&p->b->key);
	uint64_t h;

	keyed_add(&hash, f->address);
	keyed_add(&hash, (uint64_t)f->object << 32 | (uint32_t)f->kind << 8 | f->flags);
	keyed_add(&hash, (uint64_t)f->file << 32 | f->line);
	h = keyed_end(&hash);
	PROBE_EACH (k, &p->frames, h)
		if (frame_same(&p->b->frames[p->frame_of[k.number]], f))
			return k.number;
	p->frame_of[p->frames.count] = i;
	probe_add(&p->frames, h, p->frames.count);
	return p->frames.count - 1;
}

static uint32_t intern_node(struct packer *p, uint32_t parent, uint32_t frame)
{
	uint64_t h = keyed_word(&p->b->key, (uint64_t)parent << 32 | frame);

	PROBE_EACH (k, &p->nodes, h)
		if (p->node[k.number].parent == parent && p->node[k.number].frame == frame)
			return k.number + 1;
	p->node[p->nodes.count] = (struct node){parent, frame};
	probe_add(&p->nodes, h, p->nodes.count);
	return p->nodes.count;
}

static void put_tables(struct packer *p)
{
	const struct stack_batch *b = p->b;
	struct buf *o = &p->out;
	uint64_t last = 0;

	for (uint32_t i = 0; i < b->string_count; i++) {
		const char *s = stack_batch_text(b, i);
		size_t n = strlen(s);

		buf_varint(o, n);
		buf_append(o, s, n);
	}
	for (uint32_t i = 0; i < b->object_count; i++) {
		buf_varint(o, b->objects[i].path);
		buf_varint(o, b->objects[i].build_id_bytes);
		buf_append(o, b->objects[i].build_id, b->objects[i].build_id_bytes);
	}
	for (uint32_t i = 0; i < p->frames.count; i++) {
		const struct stack_frame *f = &b->frames[p->frame_of[i]];

		buf_varint(o, (uint64_t)f->flags << 3 | f->kind);
		buf_varint(o, f->object);
		buf_svarint(o, (int64_t)(f->address - last));
		last = f->address;
		if (f->kind == STACK_FRAME_PYTHON) {
			buf_varint(o, f->file);
			buf_varint(o, f->line);
		}
	}
	for (uint32_t i = 0; i < p->nodes.count; i++) {
		buf_varint(o, i + 1 - p->node[i].parent); /* i + 1: outermost; else how far back */
		buf_varint(o, p->node[i].frame);
	}
}

static void put_samples(struct packer *p)
{
	const struct stack_batch *b = p->b;
	const struct stack_sample *l = &(const struct stack_sample){.time_ns = b->begin_ns};
	struct buf *o = &p->out;

	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];

		buf_svarint(o, (int64_t)(s->time_ns - l->time_ns));
		buf_varint(o, s->weight_ns);
		buf_svarint(o, (int64_t)s->pid - l->pid);
		buf_svarint(o, (int64_t)s->tid - l->tid);
		buf_svarint(o, (int64_t)s->stack - l->stack);
		buf_varint(o, s->count);
		buf_varint(o, (uint64_t)s->gil << 2 | s->kind);
		buf_varint(o, s->cpu);
		buf_varint(o, s->comm);
		buf_varint(o, s->waker_tid);
		if (s->waker_tid)
			buf_varint(o, s->waker_comm);
		l = s;
	}
}

/* In a switch's flags on the wire: its count and its time by state follow. Earlier senders had one
 * state for everything runnable. */
#define WITH_SUMS  16u
#define WITH_WOKEN 32u

static void put_sums(struct buf *o, const struct stack_switch *s)
{
	buf_varint(o, s->count);
	for (int i = 0; i < STACK_SWITCH_STATES; i++)
		buf_varint(o, s->ns[i]);
}

/* In the word with a switch's GIL, flags and state: the time taken follows. Earlier readers refuse
 * it. */
#define WITH_TAKEN   (1ull << 14)
#define TAKEN_FAULTS (1u << STACK_TAKEN_KINDS)

/* Writes which are not 0, then their values. */
static void put_taken(struct buf *o, const struct stack_switch *s)
{
	uint32_t which = s->faults ? TAKEN_FAULTS : 0;

	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		which |= s->taken_ns[i] ? 1u << i : 0;
	buf_varint(o, which);
	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		if (s->taken_ns[i])
			buf_varint(o, s->taken_ns[i]);
	if (s->faults)
		buf_varint(o, s->faults);
}

/* At the end, so that a block of an earlier sender just lacks them. */
static void put_switches(struct packer *p)
{
	const struct stack_batch *b = p->b;
	const struct stack_switch *l = &(const struct stack_switch){.in_ns = b->begin_ns};
	struct buf *o = &p->out;

	if (!b->switch_count && !b->switch_thread_count)
		return;
	buf_varint(o, b->switch_thread_count);
	buf_varint(o, b->switch_count);
	for (uint32_t i = 0; i < b->switch_thread_count; i++) {
		const struct stack_switch_thread *t = &b->switch_threads[i];

		buf_svarint(o, (int64_t)(t->begin_ns - b->begin_ns));
		buf_varint(o, t->end_ns - t->begin_ns);
		buf_varint(o, t->missed);
		buf_varint(o, t->pid);
		buf_varint(o, t->tid);
	}
	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];
		bool counted = s->flags & STACK_SWITCH_COUNTED;
		uint8_t flags = (s->flags & (uint8_t)~STACK_SWITCH_COUNTED) |
				(s->flags & STACK_SWITCH_FOLDED ? WITH_SUMS | WITH_WOKEN : 0);

		buf_svarint(o, (int64_t)(s->out_ns - l->in_ns));
		buf_varint(o, s->in_ns - s->out_ns);
		buf_varint(o, s->woken_ns ? s->in_ns - s->woken_ns + 1 : 0);
		buf_svarint(o, (int64_t)s->pid - l->pid);
		buf_svarint(o, (int64_t)s->tid - l->tid);
		buf_varint(o, s->stack == STACK_SWITCH_NO_STACK ? 0 : s->stack + 1);
		buf_varint(o, (counted ? WITH_TAKEN : 0) | (uint64_t)s->gil << 11 |
				  (uint64_t)flags << 3 | s->state);
		buf_varint(o, s->waker_tid);
		buf_varint(o, s->next_tid);
		if (flags & WITH_SUMS)
			put_sums(o, s);
		if (counted)
			put_taken(o, s);
		l = s;
	}
}

static int pack_all(struct packer *p, struct buf *out)
{
	const struct stack_batch *b = p->b;
	uint32_t *leaf = calloc(b->stack_count ? b->stack_count : 1, sizeof(*leaf));
	struct pack_part part;
	int err = leaf ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < b->stack_count && !err; i++)
		for (uint32_t k = b->stacks[i].count; k--;)
			leaf[i] = intern_node(p, leaf[i], intern_frame(p, b->stacks[i].first + k));
	if (!err) {
		const uint64_t head[] = {b->begin_ns,	  b->end_ns - b->begin_ns, b->lost_samples,
					 b->string_count, b->object_count,	   p->frames.count,
					 p->nodes.count,  b->stack_count,	   b->sample_count};

		for (size_t i = 0; i < sizeof(head) / sizeof(*head); i++)
			buf_varint(&p->out, head[i]);
		put_tables(p);
		for (uint32_t i = 0; i < b->stack_count; i++) {
			buf_varint(&p->out, leaf[i]);
			buf_varint(&p->out,
				   (uint64_t)b->stacks[i].kernel_count << 3 | b->stacks[i].end);
		}
		put_samples(p);
		put_switches(p);
		part = (struct pack_part){p->out.data, p->out.bytes};
		err = p->out.failed ? -EMSGSIZE : pack_write(&part, 1, PACK_CLOSE, out);
	}
	free(leaf);
	return err;
}

int stacks_pack(const struct stack_batch *b, struct buf *out)
{
	uint32_t frames = b->frame_count ? b->frame_count : 1;
	struct packer p = {.b = b};
	int err;

	if (!stack_batch_valid(b))
		return -EINVAL;
	if (b->frame_count > LIMIT_WINDOW_STACK_FRAMES ||
	    b->sample_count > LIMIT_WINDOW_STACK_SAMPLES ||
	    b->switch_count > LIMIT_WINDOW_SWITCHES ||
	    b->switch_thread_count > LIMIT_WINDOW_SWITCH_THREADS)
		return -EMSGSIZE;
	buf_init(&p.out, LIMIT_WIRE_UNPACKED_BYTES);
	p.frame_of = malloc(frames * sizeof(*p.frame_of));
	p.node = malloc(frames * sizeof(*p.node));
	err = p.frame_of && p.node ? 0 : -ENOMEM;
	if (!err)
		err = probe_room(&p.frames, frames);
	if (!err)
		err = probe_room(&p.nodes, frames);
	if (!err)
		err = pack_all(&p, out);
	probe_fini(&p.frames);
	probe_fini(&p.nodes);
	free(p.frame_of);
	free(p.node);
	buf_fini(&p.out);
	return err;
}

/* ---- unpack ---- */

struct unpacker {
	const uint8_t *data;
	size_t bytes, pos;
	int err;
	uint64_t frames_left; /* of all stacks, unfolded */
	uint32_t strings, objects, frames, nodes, stacks, samples;
	uint32_t *string_of, *object_of, *stack_of; /* number in the block -> index in the batch */
	struct stack_frame *frame;
	struct node *node;
	uint32_t *depth; /* of a node */
};

static uint64_t get(struct unpacker *u, uint64_t max)
{
	uint64_t v = 0;

	if (!u->err)
		u->err = buf_read_varint(u->data, u->bytes, &u->pos, &v);
	if (!u->err && v > max)
		u->err = -EPROTO;
	return u->err ? 0 : v;
}

static int64_t get_signed(struct unpacker *u)
{
	int64_t v = 0;

	if (!u->err)
		u->err = buf_read_svarint(u->data, u->bytes, &u->pos, &v);
	return u->err ? 0 : v;
}

static const uint8_t *get_bytes(struct unpacker *u, size_t n)
{
	if (!u->err && n > u->bytes - u->pos)
		u->err = -EPROTO;
	if (u->err)
		return NULL;
	u->pos += n;
	return u->data + u->pos - n;
}

/* Reads an index below count, and translates it. */
static uint32_t get_index(struct unpacker *u, const uint32_t *of, uint32_t count)
{
	uint64_t v = get(u, UINT32_MAX);

	if (!u->err && v >= count)
		u->err = -EPROTO;
	return u->err ? 0 : of ? of[v] : (uint32_t)v;
}

static void read_head(struct unpacker *u, struct stack_batch *b)
{
	b->begin_ns = get(u, UINT64_MAX);
	b->end_ns = b->begin_ns + get(u, UINT64_MAX);
	b->lost_samples = get(u, UINT64_MAX);
	u->strings = (uint32_t)get(u, LIMIT_STACK_STRINGS);
	u->objects = (uint32_t)get(u, LIMIT_STACK_OBJECTS);
	u->frames = (uint32_t)get(u, LIMIT_WINDOW_STACK_FRAMES);
	u->nodes = (uint32_t)get(u, LIMIT_WINDOW_STACK_FRAMES);
	u->stacks = (uint32_t)get(u, LIMIT_STACKS);
	u->samples = (uint32_t)get(u, LIMIT_WINDOW_STACK_SAMPLES);
	/* minimum bytes per row of each: 1, 2, 3, 2, 2, 10 */
	if (!u->err && (uint64_t)u->strings + 2ull * u->objects + 3ull * u->frames +
			       2ull * u->nodes + 2ull * u->stacks + 10ull * u->samples >
			   u->bytes - u->pos)
		u->err = -EPROTO;
}

static void read_names(struct unpacker *u, struct stack_batch *b)
{
	for (uint32_t i = 0; i < u->strings && !u->err; i++) {
		size_t n = get(u, LIMIT_NAME_BYTES);
		const uint8_t *s = get_bytes(u, n);

		if (s)
			u->err = memchr(s, 0, n)
				     ? -EPROTO
				     : stack_batch_string(b, (const char *)s, n, &u->string_of[i]);
	}
	for (uint32_t i = 0; i < u->objects && !u->err; i++) {
		uint32_t path = get_index(u, u->string_of, u->strings);
		size_t n = get(u, STACK_BUILD_ID_MAX);
		const uint8_t *id = get_bytes(u, n);

		if (id)
			u->err = stack_batch_object(b, id, n, stack_batch_text(b, path),
						    &u->object_of[i]);
	}
}

static void read_frame(struct unpacker *u, struct stack_frame *f, uint64_t *last)
{
	uint64_t kind = get(u, UINT8_MAX << 3 | 7);

	*f = (struct stack_frame){.kind = kind & 7, .flags = (uint8_t)(kind >> 3)};
	if (f->kind == STACK_FRAME_ANONYMOUS)
		f->object = (uint32_t)get(u, UINT32_MAX);
	else if (f->kind == STACK_FRAME_NATIVE)
		f->object = get_index(u, u->object_of, u->objects);
	else
		f->object = get_index(u, u->string_of, u->strings);
	*last += (uint64_t)get_signed(u);
	f->address = *last;
	if (f->kind == STACK_FRAME_PYTHON) {
		f->file = get_index(u, u->string_of, u->strings);
		f->line = (uint32_t)get(u, UINT32_MAX);
	} else if (f->kind < STACK_FRAME_NATIVE || f->kind > STACK_FRAME_ANONYMOUS) {
		u->err = -EPROTO;
	}
}

static void read_tree(struct unpacker *u)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < u->frames && !u->err; i++)
		read_frame(u, &u->frame[i], &last);
	for (uint32_t i = 0; i < u->nodes && !u->err; i++) {
		uint64_t back = get(u, i + 1);

		if (!back)
			u->err = u->err ? u->err : -EPROTO;
		if (u->err)
			break;
		u->node[i].parent = i + 1 - (uint32_t)back;
		u->node[i].frame = get_index(u, NULL, u->frames);
		u->depth[i] = 1 + (u->node[i].parent ? u->depth[u->node[i].parent - 1] : 0);
		if (u->depth[i] > LIMIT_STACK_DEPTH)
			u->err = -EPROTO;
	}
}

static void read_stacks(struct unpacker *u, struct stack_batch *b)
{
	struct stack_frame frames[LIMIT_STACK_DEPTH];

	for (uint32_t i = 0; i < u->stacks && !u->err; i++) {
		uint32_t at = (uint32_t)get(u, u->nodes), count = 0;
		uint64_t tail = get(u, LIMIT_STACK_DEPTH << 3 | 7);

		if (u->err)
			break;
		/* also for a duplicate stack, because finding that out costs work too */
		if (at && u->depth[at - 1] > u->frames_left) {
			u->err = -E2BIG;
			break;
		}
		for (; at; at = u->node[at - 1].parent)
			frames[count++] = u->frame[u->node[at - 1].frame];
		u->frames_left -= count;
		if (tail >> 3 > count || (tail & 7) >= STACK_END_COUNT)
			u->err = -EPROTO;
		else
			u->err = stack_batch_stack(b, frames, count, (uint32_t)(tail >> 3),
						   tail & 7, &u->stack_of[i]);
	}
}

static void read_samples(struct unpacker *u, struct stack_batch *b)
{
	struct stack_sample s = {.time_ns = b->begin_ns};
	uint32_t stack = 0;

	for (uint32_t i = 0; i < u->samples && !u->err; i++) {
		uint64_t v;

		s.time_ns += (uint64_t)get_signed(u);
		s.weight_ns = get(u, UINT64_MAX);
		s.pid += (uint32_t)get_signed(u);
		s.tid += (uint32_t)get_signed(u);
		stack += (uint32_t)get_signed(u);
		s.count = (uint32_t)get(u, UINT32_MAX);
		v = get(u, STACK_GIL_UNKNOWN << 2 | 3);
		s.gil = (uint8_t)(v >> 2);
		s.kind = v & 3;
		s.cpu = (uint16_t)get(u, UINT16_MAX);
		s.comm = get_index(u, u->string_of, u->strings);
		s.waker_tid = (uint32_t)get(u, UINT32_MAX);
		s.waker_comm = s.waker_tid ? get_index(u, u->string_of, u->strings) : 0;
		if (!u->err &&
		    (stack >= u->stacks || (s.kind != STACK_ON_CPU && s.kind != STACK_OFF_CPU)))
			u->err = -EPROTO;
		if (u->err)
			break;
		s.stack = u->stack_of[stack];
		u->err = stack_batch_sample(b, &s);
	}
}

static void read_taken(struct unpacker *u, struct stack_switch *s)
{
	uint64_t which = get(u, (TAKEN_FAULTS << 1) - 1);

	s->flags |= STACK_SWITCH_COUNTED;
	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		s->taken_ns[i] = which >> i & 1 ? (uint32_t)get(u, UINT32_MAX) : 0;
	s->faults = which & TAKEN_FAULTS ? (uint32_t)get(u, UINT32_MAX) : 0;
}

static void read_switch(struct unpacker *u, struct stack_switch *s)
{
	uint64_t woken, stack, state;

	s->out_ns = s->in_ns + (uint64_t)get_signed(u);
	s->in_ns = s->out_ns + get(u, UINT64_MAX - s->out_ns);
	woken = get(u, UINT64_MAX);
	s->woken_ns = woken && woken - 1 <= s->in_ns - s->out_ns ? s->in_ns - (woken - 1) : 0;
	s->pid += (uint32_t)get_signed(u);
	s->tid += (uint32_t)get_signed(u);
	stack = get(u, u->stacks);
	s->stack = stack ? u->stack_of[stack - 1] : STACK_SWITCH_NO_STACK;
	state = get(u, WITH_TAKEN | STACK_GIL_UNKNOWN << 11 | UINT8_MAX << 3 | 7);
	s->state = state & 7;
	s->flags = (uint8_t)(state >> 3);
	s->gil = state >> 11 & 7;
	s->waker_tid = (uint32_t)get(u, UINT32_MAX);
	s->next_tid = (uint32_t)get(u, UINT32_MAX);
	s->count = s->flags & WITH_SUMS ? (uint32_t)get(u, UINT32_MAX) : 0;
	for (int i = 0; i < STACK_SWITCH_STATES; i++) {
		uint32_t with = i == STACK_SWITCH_WOKEN ? WITH_WOKEN : WITH_SUMS;

		s->ns[i] = s->flags & with ? get(u, UINT64_MAX) : 0;
	}
	s->flags &= (uint8_t) ~(WITH_SUMS | WITH_WOKEN);
	memset(s->taken_ns, 0, sizeof(s->taken_ns));
	s->faults = 0;
	if (state & WITH_TAKEN)
		read_taken(u, s);
	if (!u->err && (s->state >= STACK_SWITCH_STATES || s->gil > STACK_GIL_UNKNOWN))
		u->err = -EPROTO;
}

static void read_switches(struct unpacker *u, struct stack_batch *b)
{
	struct stack_switch s = {.in_ns = b->begin_ns};
	uint64_t threads, count;

	if (u->err || u->pos == u->bytes)
		return;
	threads = get(u, LIMIT_WINDOW_SWITCH_THREADS);
	count = get(u, LIMIT_WINDOW_SWITCHES);
	if (!u->err && 5 * threads + 9 * count > u->bytes - u->pos) /* minimum bytes per row of
								     * each */
		u->err = -EPROTO;
	for (uint64_t i = 0; i < threads && !u->err; i++) {
		struct stack_switch_thread t = {.begin_ns = b->begin_ns + (uint64_t)get_signed(u)};

		t.end_ns = t.begin_ns + get(u, UINT64_MAX - t.begin_ns);
		t.missed = get(u, UINT64_MAX);
		t.pid = (uint32_t)get(u, UINT32_MAX);
		t.tid = (uint32_t)get(u, UINT32_MAX);
		if (!u->err)
			u->err = stack_batch_switch_thread(b, &t);
	}
	for (uint64_t i = 0; i < count && !u->err; i++) {
		read_switch(u, &s);
		if (!u->err)
			u->err = stack_batch_switch(b, &s);
	}
}

static void *table(struct unpacker *u, uint32_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes);

	if (!p && !u->err)
		u->err = -ENOMEM;
	return p;
}

int stacks_unpack(const void *data, size_t bytes, size_t max_bytes, struct stack_batch *b)
{
	return stacks_unpack_within(data, bytes, max_bytes, LIMIT_WINDOW_STACK_FRAMES, b);
}

int stacks_unpack_within(const void *data, size_t bytes, size_t max_bytes, size_t frames_max,
			 struct stack_batch *b)
{
	struct unpacker u = {.frames_left = frames_max};
	uint8_t *plain;
	int err = pack_read(data, bytes, max_bytes, &plain, &u.bytes);

	if (err)
		return err;
	u.data = plain;
	b->key = *keyed_process();
	read_head(&u, b);
	if (!u.err) {
		u.string_of = table(&u, u.strings, sizeof(*u.string_of));
		u.object_of = table(&u, u.objects, sizeof(*u.object_of));
		u.stack_of = table(&u, u.stacks, sizeof(*u.stack_of));
		u.frame = table(&u, u.frames, sizeof(*u.frame));
		u.node = table(&u, u.nodes, sizeof(*u.node));
		u.depth = table(&u, u.nodes, sizeof(*u.depth));
	}
	if (!u.err)
		read_names(&u, b);
	if (!u.err)
		read_tree(&u);
	if (!u.err)
		read_stacks(&u, b);
	if (!u.err)
		read_samples(&u, b);
	if (!u.err)
		read_switches(&u, b);
	if (!u.err && u.pos != u.bytes)
		u.err = -EPROTO;
	free(u.string_of);
	free(u.object_of);
	free(u.stack_of);
	free(u.frame);
	free(u.node);
	free(u.depth);
	free(plain);
	return u.err == -E2BIG ? -EMSGSIZE : u.err;
}
