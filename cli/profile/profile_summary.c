/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile/profile_summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/keyed.h"
#include "base/order.h"
#include "base/room.h"
#include "cli/text/intern.h"

/* All sums have a text as their key: function and module, place and reason, thread and function. */
struct entry {
	struct profile_name name;
	const char *kernel, *comm;
	bool disk;
	uint32_t pid, tid, seen; /* seen: the last sample, so that recursion counts once */
	uint32_t first;		 /* its number */
	uint64_t self_ns, total_ns, count;
};

struct sums {
	struct intern keys; /* hashes */
	struct entry *e;    /* [keys.count] */
	size_t room;
};

static void sums_fini(struct sums *s)
{
	intern_fini(&s->keys);
	free(s->e);
}

static uint64_t text_hash(uint64_t h, const char *s)
{
	return keyed_words(keyed_process(), h, keyed_text(keyed_process(), s));
}

/* The entry of the key; *fresh: it is new. NULL: out of memory. */
static struct entry *find(struct sums *s, uint64_t hash, bool *fresh)
{
	uint32_t before = s->keys.count;
	int64_t at;

	if (ROOM_FOR(s->e, s->room, before + 1ull))
		return NULL;
	at = intern_bytes(&s->keys, &hash, sizeof(hash), UINT32_MAX);
	if (at < 0)
		return NULL;
	*fresh = at == before;
	if (*fresh)
		s->e[at] = (struct entry){.kernel = "", .comm = "", .first = before};
	return &s->e[at];
}

/* Afterwards the entries are no longer in the order of their numbers. */
static void sort(struct sums *s, int (*order)(const void *, const void *))
{
	ORDER_SORT(s->e, s->keys.count, order);
}

ORDER_BY(by_self, struct entry, ORDER_DOWN(self_ns) ?: ORDER_UP(first));

ORDER_BY(by_total, struct entry, ORDER_DOWN(total_ns) ?: ORDER_UP(first));

/* ---- functions ---- */

static int add_functions(struct sums *s, const struct stack_batch *b, struct profile_names *names,
			 uint32_t sample)
{
	const struct stack_sample *from = &b->samples[sample];
	const struct stack *st = &b->stacks[from->stack];

	for (uint32_t i = 0; i < st->count; i++) {
		struct profile_name n;
		struct entry *e;
		uint64_t h;
		bool fresh;

		if (profile_names_get(names, st->first + i, &n))
			return -ENOMEM;
		h = text_hash(text_hash(n.kind, n.function), n.module);
		e = find(s, text_hash(h, n.file), &fresh);
		if (!e)
			return -ENOMEM;
		if (fresh)
			e->name = n;
		if (!i)
			e->self_ns += from->weight_ns;
		if (e->seen != sample + 1)
			e->total_ns += from->weight_ns;
		e->seen = sample + 1;
	}
	return 0;
}

static void take_rows(struct profile_summary *out, struct sums *s)
{
	sort(s, by_self);
	for (uint32_t i = 0; i < s->keys.count && out->row_count < PROFILE_SUMMARY_ROWS; i++)
		if (s->e[i].self_ns)
			out->rows[out->row_count++] =
			    (struct profile_row){s->e[i].name, s->e[i].self_ns, s->e[i].total_ns};
	sort(s, by_total);
	for (uint32_t i = 0; i < s->keys.count && out->call_count < PROFILE_SUMMARY_ROWS; i++)
		if (s->e[i].total_ns && s->e[i].name.kind == STACK_FRAME_PYTHON)
			out->calls[out->call_count++] =
			    (struct profile_row){s->e[i].name, s->e[i].self_ns, s->e[i].total_ns};
}

/* ---- blocked ---- */

static bool of_scheduler(const char *name)
{
	static const char *const names[] = {"__schedule",
					    "schedule",
					    "io_schedule",
					    "io_schedule_timeout",
					    "schedule_timeout",
					    "preempt_schedule_common",
					    "__cond_resched",
					    "schedule_preempt_disabled",
					    "schedule_hrtimeout_range",
					    "schedule_hrtimeout_range_clock",
					    "schedule_hrtimeout"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* The innermost Python frame, else the innermost user function with a name. */
static int place_of(const struct stack_batch *b, struct profile_names *names,
		    const struct stack *st, struct profile_name *out)
{
	bool have = false;

	*out = (struct profile_name){.function = "[unknown]", .module = "", .file = ""};
	for (uint32_t i = st->kernel_count; i < st->count; i++) {
		struct profile_name n;

		if (stack_frame_is_nameless(b, &b->frames[st->first + i]))
			continue;
		if (profile_names_get(names, st->first + i, &n))
			return -ENOMEM;
		if (n.kind == STACK_FRAME_PYTHON) {
			*out = n;
			return 0;
		}
		if (!have && (n.resolved || i + 1 == st->count)) {
			*out = n;
			have = true;
		}
	}
	return 0;
}

/* Most threads sleep because they have no work. So only waits of the main thread and for disks
 * count. An entry's tid and total_ns are those of its largest sample: who ended these waits. */
static int add_block(struct sums *s, const struct stack_batch *b, struct profile_names *names,
		     const struct stack_sample *from, uint32_t main_pid)
{
	const struct stack *st = &b->stacks[from->stack];
	const char *kernel = "";
	struct profile_name place;
	struct entry *e;
	bool fresh, disk = false;
	int err = place_of(b, names, st, &place);

	for (uint32_t i = 0; i < st->kernel_count; i++) {
		const char *name = stack_batch_text(b, b->frames[st->first + i].object);

		disk |= !strncmp(name, "io_schedule", 11);
		if (!*kernel && *name && !of_scheduler(name))
			kernel = name;
	}
	if (err || (from->tid != main_pid && !disk))
		return err;
	e = find(s, text_hash(text_hash(text_hash(0, place.function), place.file), kernel), &fresh);
	if (!e)
		return -ENOMEM;
	if (fresh) {
		e->name = place;
		e->kernel = kernel;
	}
	e->disk |= disk;
	e->self_ns += from->weight_ns;
	e->count += from->count;
	if (from->waker_tid && from->weight_ns > e->total_ns) {
		e->total_ns = from->weight_ns;
		e->tid = from->waker_tid;
		e->comm = stack_batch_text(b, from->waker_comm);
	}
	return 0;
}

static void take_blocks(struct profile_summary *out, struct sums *s)
{
	sort(s, by_self);
	for (uint32_t i = 0; i < s->keys.count && out->block_count < PROFILE_SUMMARY_ROWS; i++) {
		struct entry *e = &s->e[i];

		if (!e->self_ns)
			break;
		if (2 * e->total_ns < e->self_ns)
			e->tid = 0;
		out->blocks[out->block_count++] = (struct profile_block){.where = e->name.function,
									 .file = e->name.file,
									 .line = e->name.line,
									 .kernel = e->kernel,
									 .disk = e->disk,
									 .waker_tid = e->tid,
									 .waker = e->comm,
									 .ns = e->self_ns,
									 .count = e->count};
	}
}

/* ---- the GIL ---- */

/* A thread's total_ns is all its time, self_ns its waiting. */
static int add_thread(struct sums *s, const struct stack_batch *b, const struct stack_sample *from)
{
	bool fresh;
	struct entry *e = find(s, (uint64_t)from->pid << 32 | from->tid, &fresh);

	if (!e)
		return -ENOMEM;
	e->pid = from->pid;
	e->tid = from->tid;
	e->comm = stack_batch_text(b, from->comm);
	e->total_ns += from->weight_ns;
	if (from->gil == STACK_GIL_WAITER)
		e->self_ns += from->weight_ns;
	return 0;
}

/* The holder of the same process: thread, function and line. */
static int add_holder(struct sums *s, const struct stack_batch *b, struct profile_names *names,
		      const struct stack_sample *from)
{
	struct profile_name place;
	struct entry *e;
	bool fresh;
	int err = place_of(b, names, &b->stacks[from->stack], &place);

	if (err)
		return err;
	e = find(s, text_hash(text_hash((uint64_t)from->tid, place.function), place.file), &fresh);
	if (!e)
		return -ENOMEM;
	if (fresh)
		e->name = place;
	e->tid = from->tid;
	e->comm = stack_batch_text(b, from->comm);
	e->self_ns += from->weight_ns;
	return 0;
}

static int find_gil(struct profile_gil *g, const struct stack_batch *b, struct profile_names *names)
{
	struct sums threads = {.e = NULL}, holders = {.e = NULL};
	int err = 0;

	for (uint32_t i = 0; i < b->sample_count && !err; i++)
		err = add_thread(&threads, b, &b->samples[i]);
	sort(&threads, by_self);
	if (!err && threads.keys.count && threads.e[0].self_ns) {
		const struct entry *w = &threads.e[0];

		g->wait_pid = w->pid;
		g->wait_tid = w->tid;
		g->wait_comm = w->comm;
		g->wait_ns = w->self_ns;
		g->thread_ns = w->total_ns;
	}
	for (uint32_t i = 0; g->wait_tid && i < b->sample_count && !err; i++) {
		const struct stack_sample *s = &b->samples[i];

		if (s->gil == STACK_GIL_HOLDER && s->pid == g->wait_pid && s->tid != g->wait_tid)
			err = add_holder(&holders, b, names, s);
	}
	sort(&holders, by_self);
	if (!err && holders.keys.count && holders.e[0].self_ns) {
		const struct entry *h = &holders.e[0];

		g->hold_tid = h->tid;
		g->hold_comm = h->comm;
		g->hold_function = h->name.function;
		g->hold_file = h->name.file;
		g->hold_line = h->name.line;
		g->held_ns = h->self_ns;
	}
	sums_fini(&threads);
	sums_fini(&holders);
	return err;
}

/* ---- all ---- */

static void add_time(struct profile_summary *out, const struct stack_sample *s)
{
	bool off = s->kind == STACK_OFF_CPU,
	     is_main = s->pid == out->main_pid && s->tid == out->main_pid;

	*(off ? &out->off_ns : &out->on_ns) += s->weight_ns;
	*(off ? &out->off_count : &out->on_count) += s->count;
	if (is_main)
		*(off ? &out->main_off_ns : &out->main_on_ns) += s->weight_ns;
}

int profile_summary_make(struct profile_summary *out, const struct stack_batch *b,
			 struct profile_names *names, uint32_t main_pid)
{
	struct sums functions = {.e = NULL}, blocks = {.e = NULL};
	int err = 0;

	memset(out, 0, sizeof(*out));
	out->main_pid = main_pid;
	for (uint32_t i = 0; i < b->sample_count && !err; i++) {
		const struct stack_sample *s = &b->samples[i];

		add_time(out, s);
		err = s->kind == STACK_OFF_CPU ? add_block(&blocks, b, names, s, main_pid)
					       : add_functions(&functions, b, names, i);
	}
	if (!err) {
		take_rows(out, &functions);
		take_blocks(out, &blocks);
		err = find_gil(&out->gil, b, names);
	}
	sums_fini(&functions);
	sums_fini(&blocks);
	return err;
}
