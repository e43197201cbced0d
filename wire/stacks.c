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
#include "wire/fields.h"
#include "wire/pack.h"

/* ---- rows ---- */

struct head {
	uint64_t begin_ns, lasts_ns, lost_samples;
	uint32_t strings, objects, frames, nodes, stacks, samples;
};

struct node {
	uint32_t parent; /* index + 1; 0: outermost */
	uint32_t frame;
};

static void head_row(struct fields *f, struct head *h)
{
	fields_u64(f, &h->begin_ns, UINT64_MAX);
	fields_u64(f, &h->lasts_ns, UINT64_MAX);
	fields_u64(f, &h->lost_samples, UINT64_MAX);
	fields_u32(f, &h->strings, LIMIT_STACK_STRINGS);
	fields_u32(f, &h->objects, LIMIT_STACK_OBJECTS);
	fields_u32(f, &h->frames, LIMIT_WINDOW_STACK_FRAMES);
	fields_u32(f, &h->nodes, LIMIT_WINDOW_STACK_FRAMES);
	fields_u32(f, &h->stacks, LIMIT_STACKS);
	fields_u32(f, &h->samples, LIMIT_WINDOW_STACK_SAMPLES);
}

/* An index below count; 0 if a wrong one was read. */
static void index_row(struct fields *f, uint32_t *at, uint32_t count)
{
	fields_u32(f, at, UINT32_MAX);
	fields_demand(f, *at < count);
	if (!f->out && f->err)
		*at = 0;
}

static void frame_row(struct fields *f, const struct head *h, struct stack_frame *frame,
		      uint64_t *last)
{
	uint32_t kind = (uint32_t)frame->flags << 3 | frame->kind;

	fields_u32(f, &kind, UINT8_MAX << 3 | 7);
	frame->kind = kind & 7;
	frame->flags = (uint8_t)(kind >> 3);
	fields_demand(f, frame->kind >= STACK_FRAME_NATIVE && frame->kind <= STACK_FRAME_ANONYMOUS);
	if (frame->kind == STACK_FRAME_ANONYMOUS)
		fields_u32(f, &frame->object, UINT32_MAX);
	else
		index_row(f, &frame->object,
			  frame->kind == STACK_FRAME_NATIVE ? h->objects : h->strings);
	fields_change(f, &frame->address, *last);
	*last = frame->address;
	if (frame->kind == STACK_FRAME_PYTHON) {
		index_row(f, &frame->file, h->strings);
		fields_u32(f, &frame->line, UINT32_MAX);
	}
}

static void node_row(struct fields *f, const struct head *h, uint32_t i, struct node *node)
{
	uint32_t back = i + 1 - node->parent; /* i + 1: outermost; else how far back */

	fields_u32(f, &back, i + 1);
	fields_demand(f, back > 0);
	node->parent = i + 1 - back;
	index_row(f, &node->frame, h->frames);
}

/* A stack: its leaf's number + 1, and how many of its frames are the kernel's, with its end. */
static void stack_row(struct fields *f, const struct head *h, uint32_t *leaf, uint32_t *tail)
{
	fields_u32(f, leaf, h->nodes);
	fields_u32(f, tail, LIMIT_STACK_DEPTH << 3 | 7);
}

static void sample_row(struct fields *f, const struct head *h, struct stack_sample *s,
		       const struct stack_sample *before)
{
	uint32_t kind = (uint32_t)s->gil << 2 | s->kind, cpu = s->cpu;

	fields_change(f, &s->time_ns, before->time_ns);
	fields_u64(f, &s->weight_ns, UINT64_MAX);
	fields_change32(f, &s->pid, before->pid);
	fields_change32(f, &s->tid, before->tid);
	fields_change32(f, &s->stack, before->stack);
	fields_u32(f, &s->count, UINT32_MAX);
	fields_u32(f, &kind, STACK_GIL_UNKNOWN << 2 | 3);
	fields_u32(f, &cpu, UINT16_MAX);
	index_row(f, &s->comm, h->strings);
	fields_u32(f, &s->waker_tid, UINT32_MAX);
	if (s->waker_tid)
		index_row(f, &s->waker_comm, h->strings);
	s->gil = (uint8_t)(kind >> 2);
	s->kind = kind & 3;
	s->cpu = (uint16_t)cpu;
	fields_demand(f, s->stack < h->stacks &&
			     (s->kind == STACK_ON_CPU || s->kind == STACK_OFF_CPU));
}

static void thread_row(struct fields *f, const struct head *h, struct stack_switch_thread *t)
{
	uint64_t lasts_ns = t->end_ns - t->begin_ns;

	fields_change(f, &t->begin_ns, h->begin_ns);
	fields_u64(f, &lasts_ns, UINT64_MAX - t->begin_ns);
	t->end_ns = t->begin_ns + lasts_ns;
	fields_u64(f, &t->missed, UINT64_MAX);
	fields_u32(f, &t->pid, UINT32_MAX);
	fields_u32(f, &t->tid, UINT32_MAX);
}

/* In a switch's flags on the wire: its count and its time by state follow. Earlier senders had one
 * state for everything runnable. */
#define WITH_SUMS  16u
#define WITH_WOKEN 32u

/* In the word with a switch's GIL, flags and state: the time taken follows. Earlier readers refuse
 * it. */
#define WITH_TAKEN   (1u << 14)
#define TAKEN_FAULTS (1u << STACK_TAKEN_KINDS)

/* A mask of the values that are not 0, then these values. */
static void taken_row(struct fields *f, struct stack_switch *s)
{
	uint32_t which = s->faults ? TAKEN_FAULTS : 0;

	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		which |= s->taken_ns[i] ? 1u << i : 0;
	fields_u32(f, &which, (TAKEN_FAULTS << 1) - 1);
	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		if (which >> i & 1)
			fields_u32(f, &s->taken_ns[i], UINT32_MAX);
	if (which & TAKEN_FAULTS)
		fields_u32(f, &s->faults, UINT32_MAX);
}

static void switch_row(struct fields *f, const struct head *h, struct stack_switch *s,
		       const struct stack_switch *before)
{
	uint32_t flags = (s->flags & ~(uint32_t)STACK_SWITCH_COUNTED) |
			 (s->flags & STACK_SWITCH_FOLDED ? WITH_SUMS | WITH_WOKEN : 0);
	uint32_t word = (s->flags & STACK_SWITCH_COUNTED ? WITH_TAKEN : 0) |
			(uint32_t)s->gil << 11 | flags << 3 | s->state;
	uint32_t stack = s->stack == STACK_SWITCH_NO_STACK ? 0 : s->stack + 1;
	uint64_t lasts_ns = s->in_ns - s->out_ns;
	uint64_t woken = s->woken_ns ? s->in_ns - s->woken_ns + 1 : 0;

	fields_change(f, &s->out_ns, before->in_ns);
	fields_u64(f, &lasts_ns, UINT64_MAX - s->out_ns);
	fields_u64(f, &woken, UINT64_MAX);
	s->in_ns = s->out_ns + lasts_ns;
	s->woken_ns = woken && woken - 1 <= lasts_ns ? s->in_ns - (woken - 1) : 0;
	fields_change32(f, &s->pid, before->pid);
	fields_change32(f, &s->tid, before->tid);
	fields_u32(f, &stack, h->stacks);
	s->stack = stack ? stack - 1 : STACK_SWITCH_NO_STACK;
	fields_u32(f, &word, WITH_TAKEN | STACK_GIL_UNKNOWN << 11 | UINT8_MAX << 3 | 7);
	flags = word >> 3 & UINT8_MAX;
	s->state = word & 7;
	s->gil = word >> 11 & 7;
	fields_u32(f, &s->waker_tid, UINT32_MAX);
	fields_u32(f, &s->next_tid, UINT32_MAX);
	if (flags & WITH_SUMS)
		fields_u32(f, &s->count, UINT32_MAX);
	for (int i = 0; i < STACK_SWITCH_STATES; i++)
		if (flags & (i == STACK_SWITCH_WOKEN ? WITH_WOKEN : WITH_SUMS))
			fields_u64(f, &s->ns[i], UINT64_MAX);
	if (word & WITH_TAKEN)
		taken_row(f, s);
	s->flags = (uint8_t)((flags & ~(WITH_SUMS | WITH_WOKEN)) |
			     (word & WITH_TAKEN ? STACK_SWITCH_COUNTED : 0));
	fields_demand(f, s->state < STACK_SWITCH_STATES && s->gil <= STACK_GIL_UNKNOWN);
}

/* ---- pack ---- */

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

static void put_tables(struct packer *p, struct fields *f, const struct head *h)
{
	const struct stack_batch *b = p->b;
	uint64_t last = 0;

	for (uint32_t i = 0; i < b->string_count; i++) {
		const char *s = stack_batch_text(b, i);
		size_t n = strlen(s);

		fields_text(f, &s, &n, LIMIT_NAME_BYTES);
	}
	for (uint32_t i = 0; i < b->object_count; i++) {
		const void *id = b->objects[i].build_id;
		size_t n = b->objects[i].build_id_bytes;
		uint32_t path = b->objects[i].path;

		index_row(f, &path, h->strings);
		fields_bytes(f, &id, &n, STACK_BUILD_ID_MAX);
	}
	for (uint32_t i = 0; i < h->frames; i++) {
		struct stack_frame frame = b->frames[p->frame_of[i]];

		frame_row(f, h, &frame, &last);
	}
	for (uint32_t i = 0; i < h->nodes; i++)
		node_row(f, h, i, &p->node[i]);
}

static void put_samples(const struct stack_batch *b, struct fields *f, const struct head *h)
{
	const struct stack_sample first = {.time_ns = b->begin_ns};

	for (uint32_t i = 0; i < b->sample_count; i++) {
		struct stack_sample s = b->samples[i];

		sample_row(f, h, &s, i ? &b->samples[i - 1] : &first);
	}
}

/* At the end, so that a block of an earlier sender just lacks them. */
static void put_switches(const struct stack_batch *b, struct fields *f, const struct head *h)
{
	const struct stack_switch first = {.in_ns = b->begin_ns};
	uint32_t threads = b->switch_thread_count, count = b->switch_count;

	if (!count && !threads)
		return;
	fields_u32(f, &threads, LIMIT_WINDOW_SWITCH_THREADS);
	fields_u32(f, &count, LIMIT_WINDOW_SWITCHES);
	for (uint32_t i = 0; i < threads; i++) {
		struct stack_switch_thread t = b->switch_threads[i];

		thread_row(f, h, &t);
	}
	for (uint32_t i = 0; i < count; i++) {
		struct stack_switch s = b->switches[i];

		switch_row(f, h, &s, i ? &b->switches[i - 1] : &first);
	}
}

static int pack_all(struct packer *p, struct buf *out)
{
	const struct stack_batch *b = p->b;
	uint32_t *leaf = calloc(b->stack_count ? b->stack_count : 1, sizeof(*leaf));
	struct fields f = {.out = &p->out, .err = leaf ? 0 : -ENOMEM};
	struct pack_part part;
	struct head h;
	int err;

	for (uint32_t i = 0; i < b->stack_count && leaf; i++)
		for (uint32_t k = b->stacks[i].count; k--;)
			leaf[i] = intern_node(p, leaf[i], intern_frame(p, b->stacks[i].first + k));
	h = (struct head){b->begin_ns,	   b->end_ns - b->begin_ns, b->lost_samples,
			  b->string_count, b->object_count,	    p->frames.count,
			  p->nodes.count,  b->stack_count,	    b->sample_count};
	head_row(&f, &h);
	put_tables(p, &f, &h);
	for (uint32_t i = 0; i < b->stack_count && leaf; i++) {
		uint32_t tail = b->stacks[i].kernel_count << 3 | b->stacks[i].end;

		stack_row(&f, &h, &leaf[i], &tail);
	}
	put_samples(b, &f, &h);
	put_switches(b, &f, &h);
	free(leaf);
	part = (struct pack_part){p->out.data, p->out.bytes};
	err = p->out.failed ? -EMSGSIZE : fields_end(&f);
	return err ? err : pack_write(&part, 1, PACK_CLOSE, out);
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
	struct fields f;
	struct head head;
	uint64_t frames_left;			    /* of all stacks, unfolded */
	uint32_t *string_of, *object_of, *stack_of; /* number in the block -> index in the batch */
	struct stack_frame *frame;
	struct node *node;
	uint32_t *depth; /* of a node */
};

static void read_head(struct unpacker *u, struct stack_batch *b)
{
	struct head *h = &u->head;

	head_row(&u->f, h);
	b->begin_ns = h->begin_ns;
	b->end_ns = h->begin_ns + h->lasts_ns;
	b->lost_samples = h->lost_samples;
	/* minimum bytes per row of each */
	fields_demand(&u->f, h->strings + 2ull * h->objects + 3ull * h->frames + 2ull * h->nodes +
				     2ull * h->stacks + 10ull * h->samples <=
				 u->f.bytes - u->f.pos);
}

static void read_names(struct unpacker *u, struct stack_batch *b)
{
	struct fields *f = &u->f;

	for (uint32_t i = 0; i < u->head.strings && !f->err; i++) {
		const char *s = NULL;
		size_t n = 0;

		fields_text(f, &s, &n, LIMIT_NAME_BYTES);
		if (!f->err)
			f->err = stack_batch_string(b, s, n, &u->string_of[i]);
	}
	for (uint32_t i = 0; i < u->head.objects && !f->err; i++) {
		const void *id = NULL;
		uint32_t path = 0;
		size_t n = 0;

		index_row(f, &path, u->head.strings);
		fields_bytes(f, &id, &n, STACK_BUILD_ID_MAX);
		if (!f->err)
			f->err = stack_batch_object(
			    b, id, n, stack_batch_text(b, u->string_of[path]), &u->object_of[i]);
	}
}

static void read_tree(struct unpacker *u)
{
	struct fields *f = &u->f;
	uint64_t last = 0;

	for (uint32_t i = 0; i < u->head.frames && !f->err; i++) {
		struct stack_frame *frame = &u->frame[i];

		frame_row(f, &u->head, frame, &last);
		if (frame->kind == STACK_FRAME_NATIVE)
			frame->object = u->object_of[frame->object];
		else if (frame->kind != STACK_FRAME_ANONYMOUS)
			frame->object = u->string_of[frame->object];
		if (frame->kind == STACK_FRAME_PYTHON)
			frame->file = u->string_of[frame->file];
	}
	for (uint32_t i = 0; i < u->head.nodes; i++) {
		struct node *node = &u->node[i];

		node_row(f, &u->head, i, node);
		if (f->err)
			break;
		u->depth[i] = 1 + (node->parent ? u->depth[node->parent - 1] : 0);
		fields_demand(f, u->depth[i] <= LIMIT_STACK_DEPTH);
	}
}

static void read_stacks(struct unpacker *u, struct stack_batch *b)
{
	struct stack_frame frames[LIMIT_STACK_DEPTH];
	struct fields *f = &u->f;

	for (uint32_t i = 0; i < u->head.stacks && !f->err; i++) {
		uint32_t at = 0, tail = 0, count = 0;

		stack_row(f, &u->head, &at, &tail);
		/* also for a duplicate stack, because finding that out costs work too */
		if (!f->err && at && u->depth[at - 1] > u->frames_left)
			f->err = -E2BIG;
		if (f->err)
			break;
		for (; at; at = u->node[at - 1].parent)
			frames[count++] = u->frame[u->node[at - 1].frame];
		u->frames_left -= count;
		fields_demand(f, tail >> 3 <= count && (tail & 7) < STACK_END_COUNT);
		if (!f->err)
			f->err = stack_batch_stack(b, frames, count, tail >> 3, tail & 7,
						   &u->stack_of[i]);
	}
}

static void read_samples(struct unpacker *u, struct stack_batch *b)
{
	struct stack_sample before = {.time_ns = b->begin_ns};

	for (uint32_t i = 0; i < u->head.samples && !u->f.err; i++) {
		struct stack_sample s = {0};

		sample_row(&u->f, &u->head, &s, &before);
		if (u->f.err)
			break;
		before = s;
		s.stack = u->stack_of[s.stack];
		s.comm = u->string_of[s.comm];
		s.waker_comm = s.waker_tid ? u->string_of[s.waker_comm] : 0;
		u->f.err = stack_batch_sample(b, &s);
	}
}

static void read_switches(struct unpacker *u, struct stack_batch *b)
{
	struct stack_switch before = {.in_ns = b->begin_ns};
	uint32_t threads = 0, count = 0;
	struct fields *f = &u->f;

	if (f->err || f->pos == f->bytes)
		return;
	fields_u32(f, &threads, LIMIT_WINDOW_SWITCH_THREADS);
	fields_u32(f, &count, LIMIT_WINDOW_SWITCHES);
	/* minimum bytes per row of each */
	fields_demand(f, 5ull * threads + 9ull * count <= f->bytes - f->pos);
	for (uint32_t i = 0; i < threads && !f->err; i++) {
		struct stack_switch_thread t = {0};

		thread_row(f, &u->head, &t);
		if (!f->err)
			f->err = stack_batch_switch_thread(b, &t);
	}
	for (uint32_t i = 0; i < count && !f->err; i++) {
		struct stack_switch s = {.stack = STACK_SWITCH_NO_STACK};

		switch_row(f, &u->head, &s, &before);
		if (f->err)
			break;
		before = s;
		if (s.stack != STACK_SWITCH_NO_STACK)
			s.stack = u->stack_of[s.stack];
		f->err = stack_batch_switch(b, &s);
	}
}

static void *table(struct unpacker *u, uint32_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes);

	if (!p && !u->f.err)
		u->f.err = -ENOMEM;
	return p;
}

int stacks_unpack(const void *data, size_t bytes, struct stack_batch *b)
{
	return stacks_unpack_within(data, bytes, LIMIT_WIRE_UNPACKED_BYTES,
				    LIMIT_WINDOW_STACK_FRAMES, b);
}

int stacks_unpack_within(const void *data, size_t bytes, size_t max_bytes, size_t frames_max,
			 struct stack_batch *b)
{
	struct unpacker u = {.frames_left = frames_max};
	uint8_t *plain;
	int err = pack_read(data, bytes, max_bytes, &plain, &u.f.bytes);

	if (err)
		return err;
	u.f.data = plain;
	b->key = *keyed_process();
	read_head(&u, b);
	if (!u.f.err) {
		u.string_of = table(&u, u.head.strings, sizeof(*u.string_of));
		u.object_of = table(&u, u.head.objects, sizeof(*u.object_of));
		u.stack_of = table(&u, u.head.stacks, sizeof(*u.stack_of));
		u.frame = table(&u, u.head.frames, sizeof(*u.frame));
		u.node = table(&u, u.head.nodes, sizeof(*u.node));
		u.depth = table(&u, u.head.nodes, sizeof(*u.depth));
	}
	read_names(&u, b);
	if (!u.f.err)
		read_tree(&u);
	read_stacks(&u, b);
	read_samples(&u, b);
	read_switches(&u, b);
	err = fields_end(&u.f);
	free(u.string_of);
	free(u.object_of);
	free(u.stack_of);
	free(u.frame);
	free(u.node);
	free(u.depth);
	free(plain);
	return err == -E2BIG ? -EMSGSIZE : err;
}
