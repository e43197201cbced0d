/* SPDX-License-Identifier: Apache-2.0
 * switches.c - see switches.h. Records wait unsorted until the drain sorts them: in the tail-call
 * build they arrive CPU by CPU, and a thread moves between CPUs. */
#include "sampler/stacks/switches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"

/* Off-CPU intervals without a record. */
struct fold {
	uint64_t from_ns, until_ns, ns[STACK_SWITCH_STATES], count;
	uint64_t taken_ns[STACK_TAKEN_KINDS], faults;
};
_Static_assert((int)SAMPLER_TAKEN_KINDS == (int)STACK_TAKEN_KINDS, "the same kinds");

struct recorded {
	uint32_t pid, tid, first_tid;
	bool used, leaving, ended;
	uint64_t since_ns;	   /* when the kernel began recording */
	uint64_t begin_ns, end_ns; /* as struct stack_switch_thread; begin_ns 0: no row seen yet */
	/* An off-CPU interval that was reported before its end: its start, and the end of the
	 * reported part. */
	uint64_t open_out_ns, open_until_ns, open_ns[STACK_SWITCH_STATES];
	struct sampler_switch_skipped known; /* the sums reported so far */
	uint64_t fold_until_ns;
	struct fold no_room;
	struct stack_switch_thread now; /* this period's sums */
};

struct waiting {
	uint64_t at_ns;
	uint32_t thread; /* index */
	bool open;
	union {
		struct sampler_switch record;
		struct sampler_switch_skipped skipped;
	};
};

struct switches {
	struct recorded thread[SAMPLER_SWITCH_THREADS];
	struct idmap by_tid;
	struct waiting *waiting;
	uint32_t count, waiting_count;
	size_t waiting_room;
	struct switches_stats stats;
};

int switches_open(struct switches **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void switches_close(struct switches *s)
{
	if (!s)
		return;
	free(s->waiting);
	idmap_fini(&s->by_tid);
	free(s);
}

/* ---- threads ---- */

static struct recorded *thread_find(struct switches *s, uint32_t tid)
{
	uint32_t at = idmap_get(&s->by_tid, tid);

	return at == IDMAP_NONE ? NULL : &s->thread[at];
}

int switches_add(struct switches *s, uint32_t pid, uint32_t tid)
{
	struct recorded *t = thread_find(s, tid);
	uint32_t i = 0;

	if (t && t->pid == pid && !t->ended) {
		t->leaving = false;
		return 0;
	}
	while (i < SAMPLER_SWITCH_THREADS && s->thread[i].used)
		i++;
	if (t || i == SAMPLER_SWITCH_THREADS)
		return t ? -EAGAIN : -ENOSPC;
	if (idmap_put(&s->by_tid, tid, i))
		return -ENOSPC;
	s->thread[i] = (struct recorded){.pid = pid, .tid = tid, .used = true};
	s->count++;
	return 1;
}

static void thread_remove(struct switches *s, struct recorded *t)
{
	t->used = false;
	s->count--;
	idmap_remove(&s->by_tid, t->tid);
}

void switches_forget(struct switches *s, uint32_t tid)
{
	struct recorded *t = thread_find(s, tid);

	if (t)
		thread_remove(s, t);
}

bool switches_end(struct switches *s, uint32_t tid)
{
	struct recorded *t = thread_find(s, tid);

	if (t)
		t->leaving = true;
	return t != NULL;
}

void switches_end_process(struct switches *s, uint32_t pid)
{
	for (uint32_t i = 0; i < SAMPLER_SWITCH_THREADS; i++)
		if (s->thread[i].used && s->thread[i].pid == pid)
			s->thread[i].leaving = true;
}

uint32_t switches_count(const struct switches *s)
{
	return s->count;
}

void switches_resume(struct switches *s)
{
	for (uint32_t i = 0; i < SAMPLER_SWITCH_THREADS; i++)
		s->thread[i].begin_ns = 0;
}

bool switches_gone(struct switches *s, bool (*gone)(void *arg, uint32_t pid, uint32_t tid),
		   void *arg, uint32_t *first_tid, uint32_t *tid)
{
	for (uint32_t i = 0; i < SAMPLER_SWITCH_THREADS; i++) {
		struct recorded *t = &s->thread[i];

		if (!t->used || (!t->leaving && !t->ended && !gone(arg, t->pid, t->tid)))
			continue;
		*first_tid = t->first_tid;
		*tid = t->tid;
		thread_remove(s, t);
		return true;
	}
	return false;
}

/* ---- waiting records ---- */

/* bound: 0 means no bound; only for records that a drain itself adds, at most two per thread. */
static struct waiting *waiting_add(struct switches *s, const struct recorded *t, uint32_t bound)
{
	struct waiting *w;

	if ((bound && s->waiting_count >= bound) ||
	    ROOM_FOR(s->waiting, s->waiting_room, s->waiting_count + 1ull))
		return NULL;
	w = &s->waiting[s->waiting_count++];
	memset(w, 0, sizeof(*w));
	w->thread = (uint32_t)(t - s->thread);
	return w;
}

static uint64_t between(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* Splits the time by state; out_ns may be later than the record's own. */
static void split(const struct sampler_switch *r, uint64_t out_ns, uint64_t ns[STACK_SWITCH_STATES])
{
	uint64_t until_ns = r->woken_ns ? between(r->woken_ns, out_ns, r->in_ns) : r->in_ns;

	ns[r->state] += until_ns - out_ns;
	ns[SAMPLER_SWITCH_WOKEN] += r->in_ns - until_ns;
}

/* Finds the start of the part not reported yet. True: an earlier part was reported. */
static bool cut(struct recorded *t, const struct sampler_switch *r, uint64_t *out_ns)
{
	bool known = t->open_out_ns && t->open_out_ns == r->out_ns;

	*out_ns = known ? between(t->open_until_ns, r->out_ns, r->in_ns) : r->out_ns;
	return known;
}

static void no_room(struct recorded *t, const struct sampler_switch *r)
{
	uint64_t out_ns;

	if (cut(t, r, &out_ns))
		t->open_out_ns = 0;
	if (!t->no_room.count || out_ns < t->no_room.from_ns)
		t->no_room.from_ns = out_ns;
	if (r->in_ns > t->no_room.until_ns)
		t->no_room.until_ns = r->in_ns;
	t->no_room.count++;
	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		t->no_room.taken_ns[i] += r->taken.ns[i];
	t->no_room.faults += r->taken.faults;
	split(r, out_ns, t->no_room.ns);
}

static void put_record(struct switches *s, const void *data, size_t bytes)
{
	struct sampler_switch r = {0};
	struct recorded *t;
	struct waiting *w;

	memcpy(&r, data,
	       bytes < SAMPLER_SWITCH_STACK_BYTES ? SAMPLER_SWITCH_BARE_BYTES
	       : bytes < sizeof(r)		  ? SAMPLER_SWITCH_STACK_BYTES
						  : sizeof(r));
	t = thread_find(s, r.tid);
	if (!t || r.state >= SAMPLER_SWITCH_STATES || r.in_ns < r.out_ns)
		return;
	w = waiting_add(s, t, LIMIT_SAMPLER_SWITCHES);
	if (!w) {
		no_room(t, &r);
		return;
	}
	w->at_ns = r.in_ns;
	w->record = r;
}

static void put_skipped(struct switches *s, const struct sampler_switch_skipped *k, uint64_t at_ns,
			uint32_t bound)
{
	struct recorded *t = thread_find(s, k->tid);
	struct waiting *w = t ? waiting_add(s, t, bound) : NULL;

	if (!w)
		return; /* the sums only grow, so the next row includes it */
	w->at_ns = at_ns;
	w->skipped = *k;
}

void switches_put(struct switches *s, const void *data, size_t bytes)
{
	struct sampler_switch_skipped k;
	uint8_t kind;

	if (bytes < SAMPLER_SWITCH_BARE_BYTES)
		return;
	kind = ((const uint8_t *)data)[offsetof(struct sampler_switch, kind)];
	if (kind == SAMPLER_SWITCH_RECORD)
		put_record(s, data, bytes);
	if (kind != SAMPLER_SWITCH_SKIPPED || bytes < sizeof(k))
		return;
	memcpy(&k, data, sizeof(k));
	put_skipped(s, &k, k.until_ns, LIMIT_SAMPLER_SWITCHES);
}

/* Call if the thread has been off the CPU since before now_ns, and still was when its row was
 * read. */
static void put_open(struct switches *s, struct recorded *t,
		     const struct sampler_switch_thread *row, uint64_t now_ns)
{
	struct waiting *w = waiting_add(s, t, 0);

	if (!w)
		return;
	w->at_ns = now_ns;
	w->open = true;
	w->record = (struct sampler_switch){
	    .tid = t->tid,
	    .kind = SAMPLER_SWITCH_RECORD,
	    .state = row->state < SAMPLER_SWITCH_STATES ? row->state : SAMPLER_SWITCH_UNKNOWN,
	    .cpu = row->cpu,
	    .out_ns = row->out_ns,
	    .in_ns = now_ns,
	    .next_tid = row->next_tid,
	    .stacks = row->stacks,
	    .taken = row->taken,
	};
	if (row->state != SAMPLER_SWITCH_RUNNABLE && row->woken_ns > row->in_ns &&
	    row->woken_ns <= now_ns) {
		w->record.woken_ns = between(row->woken_ns, row->out_ns, now_ns);
		w->record.waker_tid = row->waker_tid;
	}
}

void switches_row(struct switches *s, uint32_t first_tid, const struct sampler_switch_thread *row,
		  uint64_t now_ns)
{
	struct recorded *t = thread_find(s, row->tid);

	if (!t || t->pid != row->pid)
		return;
	t->first_tid = first_tid;
	put_skipped(s, &row->skipped, UINT64_MAX, 0);
	if (row->phase == SAMPLER_SWITCH_IGNORED)
		return;
	t->since_ns = row->since_ns;
	if (!t->begin_ns)
		t->begin_ns = t->end_ns = row->since_ns;
	t->ended = row->phase == SAMPLER_SWITCH_ENDED;
	if (row->phase == SAMPLER_SWITCH_OFF && row->out_ns < now_ns)
		put_open(s, t, row, now_ns);
	if (t->ended && row->out_ns < now_ns)
		now_ns = row->out_ns;
	if (row->phase != SAMPLER_SWITCH_BEGUN && now_ns > t->end_ns)
		t->end_ns = now_ns;
}

/* ---- the drain ---- */

struct drain {
	struct switches *s;
	struct stack_batch *batch;
	switches_stack_fn stack;
	void *arg;
};

ORDER_BY(waiting_order, struct waiting, ORDER_UP(thread) ?: ORDER_UP(at_ns));

static uint32_t stack_of(const struct drain *d, const struct recorded *t,
			 const struct sampler_switch_stacks *k)
{
	struct sampler_key key = {
	    .user_hash = k->user_hash,
	    .kernel_hash = k->kernel_hash,
	    .python_hash = k->python_hash,
	    .pid = t->pid,
	    .tid = t->tid,
	    .kind = SAMPLER_OFF_CPU,
	    .gil = k->gil,
	    .end = k->end,
	    .generation = k->generation,
	};
	uint32_t stack;

	if (!(k->user_hash | k->kernel_hash | k->python_hash) || !d->stack(d->arg, &key, &stack))
		return STACK_SWITCH_NO_STACK;
	return stack;
}

/* If an off-CPU interval was reported in part, the preceding on-CPU time was reported as well. */
static void put_taken(struct stack_switch *out, const struct sampler_switch *r, bool known)
{
	uint64_t told_ns = out->out_ns - r->out_ns;
	uint32_t throttled_ns = r->taken.ns[SAMPLER_TAKEN_THROTTLED];

	out->flags |= STACK_SWITCH_COUNTED;
	if (!known) {
		memcpy(out->taken_ns, r->taken.ns, sizeof(out->taken_ns));
		out->faults = r->taken.faults;
	} else if (throttled_ns > told_ns) {
		out->taken_ns[STACK_TAKEN_THROTTLED] = throttled_ns - (uint32_t)told_ns;
	}
}

static int drain_record(struct drain *d, struct recorded *t, const struct waiting *w)
{
	const struct sampler_switch *r = &w->record;
	struct stack_switch out = {
	    .in_ns = r->in_ns,
	    .woken_ns = r->woken_ns,
	    .pid = t->pid,
	    .tid = t->tid,
	    .count = !w->open,
	    .next_tid = r->next_tid,
	    .waker_tid = r->waker_tid,
	    .cpu = r->cpu,
	    .state = r->state,
	    .gil = r->stacks.gil <= STACK_GIL_UNKNOWN ? r->stacks.gil : STACK_GIL_UNKNOWN,
	};
	bool known = cut(t, r, &out.out_ns);
	int err;

	out.flags =
	    (uint8_t)((w->open ? STACK_SWITCH_OPEN : 0) | (known ? STACK_SWITCH_CONTINUED : 0) |
		      (r->out_ns == t->since_ns ? STACK_SWITCH_BEGUN : 0));
	put_taken(&out, r, known);
	split(r, out.out_ns, out.ns);
	out.stack = stack_of(d, t, &r->stacks);
	err = stack_batch_switch(d->batch, &out);
	if (err == -E2BIG && !w->open) {
		no_room(t, r);
		return 0;
	}
	if (err)
		return err == -E2BIG ? 0 : err; /* an open interval is reported when it ends */
	t->now.records += out.count;
	if (!w->open) {
		t->open_out_ns = known ? 0 : t->open_out_ns;
		return 0;
	}
	if (!known)
		memset(t->open_ns, 0, sizeof(t->open_ns));
	for (int i = 0; i < STACK_SWITCH_STATES; i++)
		t->open_ns[i] += out.ns[i];
	t->open_out_ns = r->out_ns;
	t->open_until_ns = r->in_ns;
	return 0;
}

static uint32_t at_most(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Writes several intervals as one record. If the batch is full, they wait for the next batch. */
static int drain_fold(struct drain *d, struct recorded *t, const struct fold *f)
{
	struct stack_switch out = {
	    .out_ns = f->from_ns < f->until_ns ? f->from_ns : f->until_ns,
	    .in_ns = f->until_ns,
	    .pid = t->pid,
	    .tid = t->tid,
	    .count = (uint32_t)f->count,
	    .stack = STACK_SWITCH_NO_STACK,
	    .flags = STACK_SWITCH_FOLDED | STACK_SWITCH_COUNTED,
	    .faults = at_most(f->faults),
	};
	int err;

	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		out.taken_ns[i] = at_most(f->taken_ns[i]);
	memcpy(out.ns, f->ns, sizeof(out.ns));
	err = stack_batch_switch(d->batch, &out);
	return err;
}

static uint64_t more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Reports by how much the kernel's sums exceed the reported sums. Records may arrive out of
 * order. */
static int drain_skipped(struct drain *d, struct recorded *t,
			 const struct sampler_switch_skipped *k)
{
	struct fold f = {.until_ns = k->until_ns};
	uint64_t count[SAMPLER_SWITCH_CAUSES], any = 0;
	bool has_open = t->open_out_ns && k->until_ns > t->open_out_ns;
	int err;

	for (int i = 0; i < SAMPLER_SWITCH_CAUSES; i++)
		count[i] = more(k->count[i], t->known.count[i]);
	for (int i = 0; i < STACK_SWITCH_STATES; i++) {
		any |= f.ns[i] = more(k->ns[i], t->known.ns[i]);
		/* an interval that was reported up to the last drain and then got no record */
		f.ns[i] = has_open ? more(f.ns[i], t->open_ns[i]) : f.ns[i];
	}
	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		f.taken_ns[i] = more(k->taken_ns[i], t->known.taken_ns[i]);
	f.faults = more(k->faults, t->known.faults);
	f.from_ns = k->from_ns > t->fold_until_ns ? k->from_ns : t->fold_until_ns;
	f.count = count[SAMPLER_SWITCH_PACED] + count[SAMPLER_SWITCH_RING_FULL];
	if (f.count || any) {
		err = drain_fold(d, t, &f);
		if (err)
			return err == -E2BIG ? 0 : err;
		t->fold_until_ns = k->until_ns;
		t->open_out_ns = has_open ? 0 : t->open_out_ns;
	}
	t->now.folded[STACK_SWITCH_PACED] += count[SAMPLER_SWITCH_PACED];
	t->now.folded[STACK_SWITCH_RING_FULL] += count[SAMPLER_SWITCH_RING_FULL];
	t->now.missed += count[SAMPLER_SWITCH_MISSED];
	for (int i = 0; i < SAMPLER_SWITCH_CAUSES; i++)
		t->known.count[i] += count[i];
	for (int i = 0; i < STACK_SWITCH_STATES; i++)
		t->known.ns[i] += more(k->ns[i], t->known.ns[i]);
	for (int i = 0; i < STACK_TAKEN_KINDS; i++)
		t->known.taken_ns[i] += f.taken_ns[i];
	t->known.faults += f.faults;
	return 0;
}

/* Reports the thread's remaining intervals, and the thread itself. */
static int drain_thread(struct drain *d, struct recorded *t)
{
	struct switches_stats *all = &d->s->stats;
	int err = 0;

	if (t->no_room.count) {
		uint64_t count = t->no_room.count;

		err = drain_fold(d, t, &t->no_room);
		if (!err) {
			t->now.folded[STACK_SWITCH_NO_ROOM] += count;
			memset(&t->no_room, 0, sizeof(t->no_room));
		}
	}
	if (!t->begin_ns || err == -ENOMEM)
		return err == -ENOMEM ? err : 0;
	t->now.pid = t->pid;
	t->now.tid = t->tid;
	t->now.begin_ns = t->begin_ns;
	t->now.end_ns = t->end_ns;
	err = stack_batch_switch_thread(d->batch, &t->now);
	if (err)
		return err == -E2BIG ? 0 : err;
	all->records += t->now.records;
	for (int i = 0; i < STACK_SWITCH_CAUSES; i++)
		all->folded[i] += t->now.folded[i];
	all->missed += t->now.missed;
	memset(&t->now, 0, sizeof(t->now));
	t->begin_ns = t->end_ns;
	return 0;
}

int switches_drain(struct switches *s, struct stack_batch *b, switches_stack_fn stack, void *arg)
{
	struct drain d = {.s = s, .batch = b, .stack = stack, .arg = arg};
	int err = 0;

	ORDER_SORT(s->waiting, s->waiting_count, waiting_order);
	for (uint32_t i = 0; i < s->waiting_count && !err; i++) {
		const struct waiting *w = &s->waiting[i];
		struct recorded *t = &s->thread[w->thread];

		err = w->record.kind == SAMPLER_SWITCH_RECORD ? drain_record(&d, t, w)
							      : drain_skipped(&d, t, &w->skipped);
	}
	s->waiting_count = 0;
	for (uint32_t i = 0; i < SAMPLER_SWITCH_THREADS && !err; i++)
		if (s->thread[i].used)
			err = drain_thread(&d, &s->thread[i]);
	stack_batch_switches_sort(b);
	return err;
}

void switches_stats_get(const struct switches *s, struct switches_stats *out)
{
	*out = s->stats;
	out->threads = s->count;
}
