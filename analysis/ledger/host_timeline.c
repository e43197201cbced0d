/* SPDX-License-Identifier: Apache-2.0
 * Switch records say exactly when a thread was off the CPU. Samples only say how its time on the
 * CPU is divided. A sample has the time of its slice, so a stretch on the CPU is divided by the
 * samples of its slice or the nearest one. Without samples it has no name. */
#include "analysis/ledger/host_timeline.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ledger/frame_class.h"
#include "analysis/ledger/function_class.h"
#include "analysis/ledger/wait_class.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/room.h"
#include "base/sorted.h"

/* The most segments of one window. Further time is unobserved. */
#define SEGMENTS_MAX (1u << 17)
/* The most samples that are used per slice and thread. */
#define SLICE_SAMPLES_MAX 64u
/* The most shares of one window. Later stretches on the CPU have no names. */
#define SHARES_MAX (1u << 20)
/* A sample is used only for stretches of the same thread that are no farther away than this. */
#define NEAREST_NS 100000000ull
/* A first touch that takes longer is a measuring error. */
#define FIRST_TOUCH_MAX_US 1e4
/* The most threads whose names we look for in the samples. */
#define NAMES_LOOKED_MAX 256u

/* An account of the host, without its kind. */
struct account {
	enum ledger_what what;
	const char *name;
};
static const struct account nothing = {LEDGER_NONE, ""};

struct known {	       /* the classification of a name */
	uint64_t hash; /* 0: free */
	enum ledger_what what;
};
#define KNOWN_NAMES 1024u

/* Time that interrupts and the hypervisor stole from a thread on the CPU between two switches, as
 * shares. */
struct stolen {
	bool known;			     /* else use the samples */
	double part[STACK_TAKEN_KINDS], sum; /* by kind; sum of all kinds */
	double touch; /* share of user code that waited while the hypervisor mapped pages */
};

/* Indices of samples, sorted by thread and time. */
struct order {
	uint32_t *at;
	uint32_t count;
};

struct maker {
	const struct window *w;
	struct stolen stolen; /* for the stretch that is being added */
	double touch_ns;      /* the time of a page's first touch */
	uint32_t share_sum;
	struct host_timeline *t;
	host_frame_fn name;
	void *arg;
	uint64_t *slice; /* starts of the slices, ascending */
	uint32_t slice_count;
	struct order running_samples; /* on the CPU, of the threads of the timeline */
	struct order blocked_samples; /* off the CPU, of all threads of the process */
	/* Per stack, when blocked and when running; the name is NULL until it is computed. */
	struct account *blocked;
	struct ledger_share *running;
	struct known *known; /* [KNOWN_NAMES] */
	/* Of the thread's last sleep in each state. */
	struct account last[STACK_SWITCH_STATES];
	uint32_t last_stack[STACK_SWITCH_STATES];
	bool helper;
	/* When the thread's switches were recorded, in order. cover_at: the first that may still
	 * overlap. */
	struct ledger_interval *cover;
	uint32_t cover_count, cover_at;
	uint32_t next_tid; /* the last answer of ran_instead */
	const char *next_name;
	uint32_t next_looked; /* names searched so far */
	/* The last answer of shares_of. */
	uint32_t shares_tid, shares_count;
	uint64_t shares_slice_ns;
	const struct ledger_share *shares;
};

uint32_t host_timeline_find(const struct host_timeline *t, uint32_t tid)
{
	uint32_t k = 0;

	while (k < t->count && t->tid[k] != tid)
		k++;
	return k;
}

void host_timeline_fini(struct host_timeline *t)
{
	for (uint32_t i = 0; i < t->name_count; i++)
		free(t->names[i]);
	for (uint32_t i = 0; i < t->share_count; i++)
		free(t->shares[i]);
	free(t->names);
	free(t->shares);
	free(t->segments);
	*t = (struct host_timeline){.count = 0};
}

/* ---- names ---- */

/* A copy that lives as long as the timeline; "" without memory. */
__attribute__((format(printf, 2, 3))) static const char *keep_text(struct maker *m,
								   const char *format, ...)
{
	struct host_timeline *t = m->t;
	char text[LEDGER_NAME_BYTES], *copy;
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (ROOM_FOR(t->names, t->name_room, t->name_count + 1ull))
		return "";
	copy = strdup(text);
	if (!copy)
		return "";
	t->names[t->name_count++] = copy;
	return copy;
}

static bool is_python(const struct stack_batch *b, const struct stack *st)
{
	for (uint32_t i = st->kernel_count; i < st->count; i++)
		if (b->frames[st->first + i].kind == STACK_FRAME_PYTHON)
			return true;
	return false;
}

/* Index of the most informative frame; of equal ones, the innermost. st->count: all frames are in
 * the C runtime or have no name. */
static uint32_t most_informative(const struct stack_batch *b, const struct stack *st)
{
	uint32_t best = st->count;
	int most = 0;

	for (uint32_t i = st->kernel_count; i < st->count && most < FRAME_CLASS_MOST; i++) {
		int value = frame_class_informative(b, &b->frames[st->first + i]);

		if (value > most) {
			most = value;
			best = i;
		}
	}
	return best;
}

static const char *function_at(struct maker *m, const struct stack *st, uint32_t frame)
{
	return frame < st->count ? keep_text(m, "%s", m->name(m->arg, st->first + frame)) : "";
}

static const char *function_of(struct maker *m, const struct stack *st)
{
	return function_at(m, st, most_informative(&m->w->stacks, st));
}

/* The name of the system call, for use where no class says what a thread does in the kernel. */
static const char *call_name(struct maker *m, const struct stack *st)
{
	const char *call = wait_class_call(&m->w->stacks, st), *name = function_of(m, st);

	if (!call)
		return name;
	return *name ? keep_text(m, "%s() of %s", call, name) : keep_text(m, "%s()", call);
}

/* Cached, because stacks repeat few names in many frames. */
static const struct known *class_of(struct maker *m, const char *name)
{
	uint64_t hash = hash_bytes(0, name, strlen(name)) | 1;
	struct known *k = &m->known[hash % KNOWN_NAMES];

	if (k->hash != hash)
		*k = (struct known){hash, function_class_what(name)};
	return k;
}

/* The account of the stack's purpose, which the innermost frame with a known purpose decides. But
 * messages between two ranks use the functions of collectives, so there a caller decides. */
static struct account purpose_of(struct maker *m, const struct stack *st)
{
	struct account purpose = nothing;

	for (uint32_t i = st->kernel_count; i < st->count; i++) {
		const char *name = m->name(m->arg, st->first + i);
		enum ledger_what what = class_of(m, name)->what;

		if (what == LEDGER_HOST_MESSAGE || (what && !purpose.what))
			purpose = (struct account){what, keep_text(m, "%s", name)};
		if (purpose.what && purpose.what != LEDGER_HOST_COLLECTIVE)
			break;
	}
	return purpose;
}

/* The object file of the interpreter. It is the object file of the code that calls the outermost
 * Python function. UINT32_MAX: no Python function has a known caller. */
static uint32_t interpreter_of(const struct stack_batch *b, const struct stack *st)
{
	for (uint32_t i = st->count; i-- > st->kernel_count + 1u;) {
		const struct stack_frame *f = &b->frames[st->first + i];

		if (f->kind == STACK_FRAME_NATIVE && f[-1].kind == STACK_FRAME_PYTHON)
			return f->object;
	}
	return UINT32_MAX;
}

/* The frame in which Python code entered a library: the outermost function of that library. The
 * library is the one of the innermost frame outside of the C runtime. st->count: no such library,
 * or the interpreter itself runs. */
static uint32_t library_entry(const struct stack_batch *b, const struct stack *st)
{
	uint32_t interpreter = interpreter_of(b, st), object = interpreter, entry = st->count;

	for (uint32_t i = st->kernel_count; i < st->count && interpreter != UINT32_MAX; i++) {
		const struct stack_frame *f = &b->frames[st->first + i];

		if (f->kind == STACK_FRAME_PYTHON ||
		    (f->kind == STACK_FRAME_NATIVE && f->object == interpreter))
			break;
		if (f->kind != STACK_FRAME_NATIVE || frame_class_is_runtime(b, f))
			continue;
		if (object == interpreter)
			object = f->object;
		if (f->object == object)
			entry = i;
	}
	return entry;
}

/* "lzma_code (liblzma.so.5) at line 7 of load (train.py)". entry: frame of the library's function;
 * by: frame of its caller. */
static const char *library_name(struct maker *m, const struct stack *st, uint32_t entry,
				uint32_t by)
{
	const struct stack_batch *b = &m->w->stacks;
	uint32_t line = b->frames[st->first + by].line;
	const char *caller = function_at(m, st, by), *name = m->name(m->arg, st->first + entry),
		   *library = frame_class_library(b, &b->frames[st->first + entry]);
	char at[32] = "";

	if (line)
		snprintf(at, sizeof(at), " at line %u", line);
	if (*name == '[') /* the function is not known, so the library's name stands for it */
		return keep_text(m, "%.60s%s of %s", name, at, caller);
	return keep_text(m, "%.60s (%.40s)%s of %s", name, library, at, caller);
}

/* Time in the interpreter is Python code. Time in a library is native code, whoever calls it. */
static struct account code_account(struct maker *m, const struct stack *st)
{
	const struct stack_batch *b = &m->w->stacks;
	uint32_t entry = library_entry(b, st), by = most_informative(b, st);

	if (entry < st->count && by < st->count &&
	    b->frames[st->first + by].kind == STACK_FRAME_PYTHON)
		return (struct account){LEDGER_NONE, library_name(m, st, entry, by)};
	return (struct account){is_python(b, st) ? LEDGER_PYTHON : LEDGER_NONE,
				function_at(m, st, by)};
}

static bool is_libc_lock(struct maker *m, const struct stack *st)
{
	for (uint32_t i = st->kernel_count; i < st->count; i++)
		if (function_class_is_libc_lock(m->name(m->arg, st->first + i)))
			return true;
	return false;
}

/* A futex wait for the C library's own lock is not a wait of its caller: the GPU driver allocates
 * memory too. */
static enum ledger_what wait_of(struct maker *m, const struct stack *st)
{
	enum ledger_what what = wait_class_of(&m->w->stacks, st);

	return what == LEDGER_LOCK && is_libc_lock(m, st) ? LEDGER_LIBC_LOCK : what;
}

static struct account blocked_account(struct maker *m, const struct stack_switch *s, uint32_t stack)
{
	const struct stack_batch *b = &m->w->stacks;
	const struct stack *st = stack < b->stack_count ? &b->stacks[stack] : NULL;
	struct account *known = st ? &m->blocked[stack] : NULL, user;

	if (s->gil == STACK_GIL_WAITER)
		return (struct account){LEDGER_GIL, st ? function_of(m, st) : ""};
	if (!st)
		return m->last[s->state];
	if (!known->name) {
		user = purpose_of(m, st);
		known->what = wait_of(m, st);
		if (ledger_what_is_vague(known->what) && user.what)
			*known = user;
		else
			known->name =
			    known->what == LEDGER_SYSCALL ? call_name(m, st) : function_of(m, st);
	}
	return *known;
}

/* Index in o->at of the thread's first sample at `t` or later; if there is none, of the next
 * entry. */
static uint32_t first_sample(const struct maker *m, const struct order *o, uint32_t tid, uint64_t t)
{
	const struct stack_sample *all = m->w->stacks.samples;
	uint32_t low = 0, high = o->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		const struct stack_sample *s = &all[o->at[middle]];

		if (s->tid < tid || (s->tid == tid && s->time_ns < t))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether another thread of the process ended the wait. Such a thread is recorded, or was seen
 * asleep. */
static bool own_thread_ended(const struct maker *m, const struct stack_switch *s)
{
	const struct order *o = &m->blocked_samples;
	uint32_t tid = stack_switch_waker(s), at = first_sample(m, o, tid, 0);

	return tid && (host_timeline_find(m->t, tid) < m->t->count ||
		       (at < o->count && m->w->stacks.samples[o->at[at]].tid == tid));
}

/* If the thread waited for any of several things, the one that ended the wait decides. If a timeout
 * ended it, a helper has waited for its peers. */
static struct account slept_account(struct maker *m, const struct stack_switch *s)
{
	const struct stack_batch *b = &m->w->stacks;
	/* stacks of a repeated sleep are not recorded again; use the last one */
	uint32_t stack = s->stack < b->stack_count ? s->stack : m->last_stack[s->state];
	struct account a = blocked_account(m, s, stack);

	if (s->gil == STACK_GIL_WAITER)
		return a;
	if (stack < b->stack_count && !(m->helper && s->waker_tid == STACK_WAKER_TIMER))
		a.what = wait_class_ended(b, &b->stacks[stack], a.what, s->waker_tid,
					  own_thread_ended(m, s));
	m->last_stack[s->state] = stack;
	m->last[s->state] = a;
	return a;
}

/* The account of a stack on the CPU. */
static void classify_running(struct maker *m, const struct stack *st, struct ledger_share *out)
{
	const struct stack_batch *b = &m->w->stacks;
	struct account a = {wait_class_interrupt(b, st), ""};

	out->kind = LEDGER_STOLEN;
	if (!a.what && st->kernel_count) {
		out->kind = LEDGER_KERNEL_CODE;
		a.what = wait_class_entry(b, st);
		a.name = a.what == LEDGER_SYSCALL ? call_name(m, st) : function_of(m, st);
	} else if (!a.what) {
		out->kind = LEDGER_RUNNING;
		a = purpose_of(m, st);
		if (!a.what)
			a = code_account(m, st);
	}
	out->what = a.what;
	out->name = a.name;
}

static const struct ledger_share *running_account(struct maker *m, uint32_t stack)
{
	struct ledger_share *known = &m->running[stack];

	if (!known->name)
		classify_running(m, &m->w->stacks.stacks[stack], known);
	return known;
}

/* ---- segments ---- */

static void put(struct maker *m, uint64_t begin, uint64_t end, enum ledger_kind kind,
		struct account a, uint32_t waker)
{
	struct host_timeline *t = m->t;

	if (begin >= end || t->segment_count >= SEGMENTS_MAX ||
	    ROOM_FOR(t->segments, t->segment_room, t->segment_count + 1ull))
		return; /* stays unobserved */
	t->segments[t->segment_count++] = (struct ledger_segment){.begin_ns = begin,
								  .end_ns = end,
								  .kind = kind,
								  .waker = waker,
								  .what = a.what,
								  .name = a.name};
}

static uint32_t slice_of(const struct maker *m, uint64_t t)
{
	/* 0: before the first; else index + 1 */
	return (uint32_t)sorted_find(m->slice, m->slice_count, sizeof(*m->slice), t, true);
}

/* The time from t to sample i. UINT64_MAX: another thread's sample, or i is out of range (also 0 -
 * 1). */
static uint64_t distance(const struct maker *m, const struct order *o, uint32_t i, uint32_t tid,
			 uint64_t t)
{
	const struct stack_sample *s = i < o->count ? &m->w->stacks.samples[o->at[i]] : NULL;

	if (!s || s->tid != tid)
		return UINT64_MAX;
	return s->time_ns < t ? t - s->time_ns : s->time_ns - t;
}

/* Selects the thread's samples of a slice, or of the nearest slice that has some. Returns the index
 * of the first in o->at. */
static uint32_t samples_of(const struct maker *m, const struct order *o, uint32_t tid,
			   uint64_t slice_ns, uint32_t *count)
{
	const struct stack_sample *all = m->w->stacks.samples;
	uint32_t low = first_sample(m, o, tid, slice_ns);

	*count = 0;
	if (distance(m, o, low - 1, tid, slice_ns) < distance(m, o, low, tid, slice_ns))
		low--;
	if (distance(m, o, low, tid, slice_ns) > NEAREST_NS)
		return low;
	slice_ns = all[o->at[low]].time_ns;
	while (distance(m, o, low - 1, tid, slice_ns) == 0)
		low--;
	for (; low + *count < o->count && *count < SLICE_SAMPLES_MAX; ++*count) {
		const struct stack_sample *s = &all[o->at[low + *count]];

		if (s->tid != tid || s->time_ns != slice_ns)
			break;
	}
	return low;
}

/* A list that lives as long as the timeline. NULL: no memory, or too many shares. */
static struct ledger_share *shares_make(struct maker *m, uint32_t count)
{
	struct host_timeline *t = m->t;

	if (!count || count > SHARES_MAX - m->share_sum ||
	    ROOM_FOR(t->shares, t->share_room, t->share_count + 1ull))
		return NULL;
	t->shares[t->share_count] = calloc(count, sizeof(**t->shares));
	if (!t->shares[t->share_count])
		return NULL;
	m->share_sum += count;
	return t->shares[t->share_count++];
}

/* How the thread's time on the CPU is divided in a slice. NULL: no samples, or no memory. */
static const struct ledger_share *shares_of(struct maker *m, uint32_t tid, uint64_t slice_ns,
					    uint32_t *count)
{
	const struct stack_batch *b = &m->w->stacks;
	const struct order *o = &m->running_samples;
	uint32_t first;
	struct ledger_share *list;
	double weight = 0;

	if (m->shares_tid == tid && m->shares_slice_ns == slice_ns) {
		*count = m->shares_count;
		return m->shares;
	}
	first = samples_of(m, o, tid, slice_ns, count);
	list = shares_make(m, *count);
	for (uint32_t i = 0; list && i < *count; i++)
		weight += (double)b->samples[o->at[first + i]].weight_ns;
	for (uint32_t i = 0; list && i < *count; i++) {
		const struct stack_sample *s = &b->samples[o->at[first + i]];

		list[i] = *running_account(m, s->stack);
		list[i].part = weight > 0 ? (double)s->weight_ns / weight : 1.0 / *count;
	}
	*count = list ? *count : 0;
	m->shares_tid = tid;
	m->shares_slice_ns = slice_ns;
	m->shares = list;
	m->shares_count = *count;
	return list;
}

/* share NULL: the whole segment is of that kind. */
static void put_divided(struct maker *m, uint64_t begin, uint64_t end, enum ledger_kind kind,
			const struct ledger_share *share, uint32_t count)
{
	uint32_t had = m->t->segment_count;

	put(m, begin, end, kind, nothing, 0);
	if (m->t->segment_count == had)
		return;
	m->t->segments[had].share = share;
	m->t->segments[had].share_count = count;
}

static bool has_faults(const struct ledger_share *list, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i].kind == LEDGER_KERNEL_CODE && list[i].what == LEDGER_PAGE_FAULT &&
		    (!name || ledger_is_of(name, list[i].name)))
			return true;
	return false;
}

/* Moves user time to the hypervisor, as much as first touches took: from functions with page faults
 * in their samples, or from all functions if no sample shows a fault. */
static uint32_t steal_first_touch(const struct stolen *k, struct ledger_share *list, uint32_t count)
{
	bool all = !has_faults(list, count, NULL);
	uint32_t n = count;
	double user = 0;

	for (uint32_t i = 0; i < count; i++)
		if (list[i].kind == LEDGER_RUNNING &&
		    (all || has_faults(list, count, list[i].name)))
			user += list[i].part;
	for (uint32_t i = 0; i < count && user > 0 && k->touch > 0; i++) {
		struct ledger_share *s = &list[i];
		double moved = s->part * fmin(1, k->touch / user);

		if (s->kind != LEDGER_RUNNING || !(all || has_faults(list, count, s->name)))
			continue;
		s->part -= moved;
		list[n++] = (struct ledger_share){.kind = LEDGER_STOLEN,
						  .what = LEDGER_FIRST_TOUCH,
						  .name = s->name,
						  .part = moved};
	}
	return n;
}

static const struct ledger_share nameless = {.kind = LEDGER_RUNNING, .name = "", .part = 1};

/* The kernel counted the stolen time exactly, so samples of interrupts were left out. The other
 * samples divide the rest. */
static const struct ledger_share *subtract_stolen(struct maker *m, const struct ledger_share *from,
						  uint32_t *count)
{
	static const enum ledger_what whats[STACK_TAKEN_KINDS] = {
	    [STACK_TAKEN_DEVICE] = LEDGER_DEVICE,    [STACK_TAKEN_TIMER] = LEDGER_TIMER,
	    [STACK_TAKEN_NET_TX] = LEDGER_NET_TX,    [STACK_TAKEN_NET_RX] = LEDGER_NET_RX,
	    [STACK_TAKEN_BLOCK] = LEDGER_BLOCK_DONE, [STACK_TAKEN_TASKLET] = LEDGER_TASKLET,
	    [STACK_TAKEN_SCHED] = LEDGER_SCHED,	     [STACK_TAKEN_RCU] = LEDGER_RCU,
	    [STACK_TAKEN_STEAL] = LEDGER_STEAL};
	const struct stolen *k = &m->stolen;
	struct ledger_share *list;
	uint32_t n = 0;

	if (!k->known || (!(k->sum > 0) && !(k->touch > 0)))
		return from;
	if (!*count) {
		from = &nameless;
		*count = 1;
	}
	list = shares_make(m, 2 * *count + STACK_TAKEN_KINDS);
	for (uint32_t i = 0; list && i < *count; i++) {
		list[n] = from[i];
		list[n++].part *= 1 - k->sum;
	}
	if (list)
		n = steal_first_touch(k, list, n);
	for (int i = 0; list && i < STACK_TAKEN_KINDS; i++)
		if (k->part[i] > 0)
			list[n++] = (struct ledger_share){.kind = LEDGER_STOLEN,
							  .what = whats[i],
							  .name = "",
							  .part = k->part[i]};
	*count = n;
	return list;
}

/* on_ns: time on the CPU that the switch record covers. */
static void set_stolen(struct maker *m, const struct stack_switch *s, double on_ns)
{
	struct stolen *k = &m->stolen;
	double all_ns = 0;

	*k = (struct stolen){.known = s->flags & STACK_SWITCH_COUNTED && on_ns > 0};
	if (!k->known)
		return;
	for (int i = 0; i < STACK_TAKEN_THROTTLED; i++)
		all_ns += s->taken_ns[i];
	for (int i = 0; i < STACK_TAKEN_THROTTLED; i++)
		k->part[i] = s->taken_ns[i] / fmax(on_ns, all_ns);
	k->sum = all_ns / fmax(on_ns, all_ns);
	k->touch = fmin(s->faults * m->touch_ns / on_ns, 1 - k->sum);
}

/* [begin, end) is on the CPU, within one slice. */
static void put_slice(struct maker *m, uint32_t tid, uint64_t begin, uint64_t end,
		      uint64_t slice_ns)
{
	uint32_t count;
	const struct ledger_share *shares = shares_of(m, tid, slice_ns, &count);

	shares = subtract_stolen(m, shares, &count);
	put_divided(m, begin, end, LEDGER_RUNNING, shares, shares ? count : 0);
}

static void put_running(struct maker *m, uint32_t tid, uint64_t begin, uint64_t end)
{
	uint32_t slice = slice_of(m, begin);

	while (begin < end) {
		uint64_t until =
		    slice < m->slice_count && m->slice[slice] < end ? m->slice[slice] : end;

		if (until > begin)
			put_slice(m, tid, begin, until, slice ? m->slice[slice - 1] : begin);
		begin = until;
		slice++;
	}
}

/* The i-th recorded interval after cover_at, clipped to [begin, end). False: no more. */
static bool covered(const struct maker *m, uint32_t i, uint64_t begin, uint64_t end, uint64_t *from,
		    uint64_t *to)
{
	if (i >= m->cover_count || m->cover[i].begin_ns >= end)
		return false;
	*from = m->cover[i].begin_ns > begin ? m->cover[i].begin_ns : begin;
	*to = m->cover[i].end_ns < end ? m->cover[i].end_ns : end;
	return true;
}

/* Adds the recorded parts of [begin, end) as time on the CPU. next: the switch that ends it; NULL:
 * not recorded. The thread's first stretch has no known start, so its stolen time comes from
 * samples. */
static void put_covered(struct maker *m, uint32_t tid, uint64_t begin, uint64_t end,
			const struct stack_switch *next)
{
	uint64_t from, to;
	double on_ns = 0;

	while (m->cover_at < m->cover_count && m->cover[m->cover_at].end_ns <= begin)
		m->cover_at++;
	for (uint32_t i = m->cover_at; covered(m, i, begin, end, &from, &to); i++)
		on_ns += from < to ? (double)(to - from) : 0;
	m->stolen = (struct stolen){.known = false};
	if (next && begin && !(next->flags & STACK_SWITCH_FOLDED))
		set_stolen(m, next, on_ns);
	for (uint32_t i = m->cover_at; covered(m, i, begin, end, &from, &to); i++)
		if (from < to)
			put_running(m, tid, from, to);
}

/* The name of a thread from its samples; "": none. */
static const char *comm_of(const struct stack_batch *b, uint32_t tid)
{
	for (uint32_t i = 0; tid && i < b->sample_count; i++)
		if (b->samples[i].tid == tid)
			return stack_batch_text(b, b->samples[i].comm);
	return "";
}

static const char *ran_instead(struct maker *m, uint32_t tid)
{
	if (m->next_tid != tid) {
		const char *comm =
		    m->next_looked++ < NAMES_LOOKED_MAX ? comm_of(&m->w->stacks, tid) : "";

		m->next_tid = tid;
		m->next_name = *comm ? keep_text(m, "%s", comm) : "";
	}
	return m->next_name;
}

static enum ledger_kind kind_off(uint32_t state, enum ledger_what what)
{
	switch (state) {
	case STACK_SWITCH_RUNNABLE:
	case STACK_SWITCH_WOKEN:
		return LEDGER_RUNNABLE;
	case STACK_SWITCH_STOPPED:
		return LEDGER_STOPPED;
	case STACK_SWITCH_UNKNOWN:
		return LEDGER_UNOBSERVED;
	default:
		return what == LEDGER_SIGNAL || what == LEDGER_FROZEN ? LEDGER_STOPPED
								      : LEDGER_BLOCKED;
	}
}

/* Calls that may enclose each other, or that other threads make meanwhile. */
#define CALLS_LOOKED 16u

static bool is_driver_call(const struct record *r)
{
	return r->kind == RECORD_LAUNCH || r->kind == RECORD_GRAPH_LAUNCH || r->kind == RECORD_SYNC;
}

/* Whether the thread was in a call of the CUDA driver then. */
static bool in_driver(const struct window *w, uint32_t tid, uint64_t t)
{
	size_t at = w->host ? SORTED_ABOVE(w->host, w->host_count, begin_ns, t) : 0;

	for (uint32_t n = 0; n < CALLS_LOOKED && at > 0; n++) {
		const struct record *r = &w->host[--at];

		if (r->thread == tid && is_driver_call(r) && t < r->end_ns)
			return true;
	}
	return false;
}

/* Inside the driver a thread waits for the driver, by whatever means. */
static void name_driver(const struct window *w, uint32_t tid, uint64_t t, struct account *a)
{
	if ((a->what == LEDGER_SLEEP || ledger_what_is_vague(a->what)) && in_driver(w, tid, t))
		*a = (struct account){LEDGER_DRIVER, ""};
}

/* What the thread mostly slept for in a record of several switches. */
static const char *slept_for(const struct maker *m, const struct stack_switch *s, uint64_t begin)
{
	uint32_t most = STACK_SWITCH_UNKNOWN;
	struct account a;

	for (uint32_t k = STACK_SWITCH_INTERRUPTIBLE; k < STACK_SWITCH_WOKEN; k++)
		if (s->ns[k] > s->ns[most])
			most = k;
	a = m->last[most];
	name_driver(m->w, s->tid, begin, &a);
	return ledger_what_text(a.what);
}

/* The share of one state in a record of several switches. Assumes that the thread slept at the same
 * place as at its last separate switch. */
static struct ledger_share share_of_state(struct maker *m, const struct stack_switch *s,
					  uint32_t state, double asleep_ns, double whole_ns,
					  uint64_t begin)
{
	struct account a = m->last[state];
	bool waits = kind_off(state, a.what) == LEDGER_RUNNABLE;

	if (kind_off(state, a.what) == LEDGER_BLOCKED)
		name_driver(m->w, s->tid, begin, &a);
	if (state == STACK_SWITCH_WOKEN)
		a.name = slept_for(m, s, begin);
	return (struct ledger_share){.kind = kind_off(state, a.what),
				     .what = a.what,
				     .name = a.name,
				     .part = (double)s->ns[state] / whole_ns,
				     .count =
					 waits ? 0 : s->count * ((double)s->ns[state] / asleep_ns)};
}

static double waited_ns(const struct stack_switch *s)
{
	return (double)s->ns[STACK_SWITCH_RUNNABLE] + (double)s->ns[STACK_SWITCH_WOKEN];
}

/* Splits off the runnable time that the CPU limit of the cgroup caused. Returns the number of added
 * shares. */
static uint32_t split_throttled(const struct stack_switch *s, struct ledger_share *runnable)
{
	double part =
	    runnable->part * fmin(1, (double)s->taken_ns[STACK_TAKEN_THROTTLED] / waited_ns(s));

	if (runnable->kind != LEDGER_RUNNABLE || !(part > 0))
		return 0;
	runnable[1] = (struct ledger_share){
	    .kind = LEDGER_RUNNABLE, .what = LEDGER_THROTTLED, .name = "", .part = part};
	runnable->part -= part;
	return 1;
}

/* Adds a record of several switches, which has the time per state. The rest of its time the thread
 * ran; the samples of the slice divide it. */
static void put_fold(struct maker *m, const struct stack_switch *s, uint64_t begin)
{
	uint32_t slice = slice_of(m, begin), n = 0, count;
	const struct ledger_share *on =
	    shares_of(m, s->tid, slice ? m->slice[slice - 1] : begin, &count);
	double off_ns = 0, whole_ns;
	struct ledger_share *list = NULL;

	for (uint32_t k = 0; k < STACK_SWITCH_STATES; k++)
		off_ns += (double)s->ns[k];
	whole_ns = fmax((double)(s->in_ns - s->out_ns), off_ns);
	set_stolen(m, s, whole_ns - off_ns);
	if (!count) {
		on = &nameless;
		count = 1;
	}
	on = subtract_stolen(m, on, &count);
	if (off_ns > 0 && on) /* older nodes send no times */
		list = shares_make(m, STACK_SWITCH_STATES + 2 + count);
	for (uint32_t k = 0; list && k < STACK_SWITCH_STATES; k++)
		if (s->ns[k]) {
			list[n] = share_of_state(m, s, k, off_ns - waited_ns(s), whole_ns, begin);
			n += 1 + split_throttled(s, &list[n]);
		}
	for (uint32_t k = 0; list && k < count; k++) {
		list[n] = on[k];
		list[n++].part *= 1 - off_ns / whole_ns;
	}
	put_divided(m, begin, s->in_ns, LEDGER_UNOBSERVED, list, n);
}

/* Adds [from, s->in_ns) as runnable: first the part due to the cgroup's CPU limit, then the
 * rest. */
static void put_runnable(struct maker *m, const struct stack_switch *s, uint64_t from,
			 struct account a)
{
	uint64_t limit = from + s->taken_ns[STACK_TAKEN_THROTTLED];

	limit = limit < s->in_ns ? limit : s->in_ns;
	put(m, from, limit, LEDGER_RUNNABLE, (struct account){LEDGER_THROTTLED, ""}, 0);
	put(m, limit, s->in_ns, LEDGER_RUNNABLE, a, 0);
}

/* What the waker itself had waited for, if its wait took most of this one. Example: a thread waits
 * for a child process, then wakes an event loop by its pipe. LEDGER_NONE: not known. */
static enum ledger_what waited_through(struct maker *m, uint32_t waker_tid, uint64_t begin,
				       uint64_t woken)
{
	const struct stack_batch *b = &m->w->stacks;
	uint32_t slice = slice_of(m, woken), first, count;
	const struct stack_sample *most = NULL;

	first = samples_of(m, &m->blocked_samples, waker_tid, slice ? m->slice[slice - 1] : woken,
			   &count);
	for (uint32_t i = 0; i < count; i++) {
		const struct stack_sample *s = &b->samples[m->blocked_samples.at[first + i]];

		if (!most || s->weight_ns > most->weight_ns)
			most = s;
	}
	return most && most->weight_ns >= (woken - begin) / 2 ? wait_of(m, &b->stacks[most->stack])
							      : LEDGER_NONE;
}

/* The function in which the thread went to sleep. */
static const char *function_asleep(struct maker *m, const struct stack_switch *s)
{
	uint32_t stack = m->last_stack[s->state];

	return stack < m->w->stacks.stack_count ? function_of(m, &m->w->stacks.stacks[stack]) : "";
}

static void put_switch(struct maker *m, const struct stack_switch *s, uint64_t begin)
{
	uint64_t woken = s->woken_ns && s->woken_ns < s->in_ns ? s->woken_ns : s->in_ns;
	uint32_t waker = host_timeline_find(m->t, stack_switch_waker(s));
	struct account a = nothing;

	if (s->flags & STACK_SWITCH_FOLDED) {
		put_fold(m, s, begin);
		return;
	}
	if (s->state == STACK_SWITCH_RUNNABLE) {
		put_runnable(m, s, begin,
			     (struct account){LEDGER_PREEMPTED, ran_instead(m, s->next_tid)});
		return;
	}
	if (s->state == STACK_SWITCH_STOPPED || s->state == STACK_SWITCH_UNKNOWN) {
		put(m, begin, s->in_ns, kind_off(s->state, a.what), a, 0);
		return;
	}
	if (woken < begin)
		woken = begin;
	a = slept_account(m, s);
	if (waker == m->t->count && ledger_what_is_vague(a.what)) {
		enum ledger_what behind = waited_through(m, stack_switch_waker(s), begin, woken);

		if (behind && behind != LEDGER_SYSCALL)
			a = (struct account){behind, function_asleep(m, s)};
	}
	name_driver(m->w, s->tid, begin, &a);
	if (waker == m->t->count || a.what == LEDGER_GIL || a.what == LEDGER_LOADER)
		waker = UINT32_MAX; /* + 1 gives 0: unknown */
	put(m, begin, woken, kind_off(s->state, a.what), a, waker + 1);
	put_runnable(m, s, woken, (struct account){LEDGER_WOKEN, ledger_what_text(a.what)});
}

/* ---- threads ---- */

ORDER_BY(by_time, uint64_t, ORDER(*a, *b));

static int by_thread(const void *a, const void *b, void *all)
{
	const struct stack_sample *x = (const struct stack_sample *)all + *(const uint32_t *)a;
	const struct stack_sample *y = (const struct stack_sample *)all + *(const uint32_t *)b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

static bool is_counted(const struct stack_batch *b)
{
	for (uint32_t i = 0; i < b->switch_count; i++)
		if (b->switches[i].flags & STACK_SWITCH_COUNTED)
			return true;
	return false;
}

static bool find_samples(struct maker *m)
{
	const struct stack_batch *b = &m->w->stacks;
	struct order *on = &m->running_samples, *off = &m->blocked_samples;
	bool counted = is_counted(b);

	m->slice = malloc((b->sample_count + 1) * sizeof(*m->slice));
	on->at = malloc((b->sample_count + 1) * sizeof(*on->at));
	off->at = malloc((b->sample_count + 1) * sizeof(*off->at));
	m->blocked = calloc((size_t)b->stack_count + 1, sizeof(*m->blocked));
	m->running = calloc((size_t)b->stack_count + 1, sizeof(*m->running));
	m->known = calloc(KNOWN_NAMES, sizeof(*m->known));
	m->cover = malloc((b->switch_thread_count + 1) * sizeof(*m->cover));
	if (!m->slice || !on->at || !off->at || !m->blocked || !m->running || !m->known ||
	    !m->cover)
		return false;
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];

		m->slice[m->slice_count++] = s->time_ns;
		if (s->kind == STACK_OFF_CPU && s->pid == m->w->rank.pid)
			off->at[off->count++] = i;
		else if (s->kind == STACK_ON_CPU &&
			 host_timeline_find(m->t, s->tid) < m->t->count &&
			 !(counted && wait_class_interrupt(b, &b->stacks[s->stack])))
			on->at[on->count++] = i;
	}
	qsort(m->slice, m->slice_count, sizeof(*m->slice), by_time);
	qsort_r(on->at, on->count, sizeof(*on->at), by_thread, b->samples);
	qsort_r(off->at, off->count, sizeof(*off->at), by_thread, b->samples);
	return true;
}

/* Selects threads with switches, most launches and marks of steps first. */
static void find_threads(struct maker *m)
{
	const struct window *w = m->w;
	uint32_t tid[64], launches[64], n = 0, k;

	for (uint32_t i = 0; i < w->stacks.switch_thread_count; i++) {
		for (k = 0; k < n && tid[k] != w->stacks.switch_threads[i].tid; k++)
			;
		if (k == n && n < ARRAY_LEN(tid)) {
			tid[n] = w->stacks.switch_threads[i].tid;
			launches[n++] = 0;
		}
	}
	for (uint32_t i = 0; w->host && i < w->host_count; i++)
		for (k = 0; k < n; k++)
			launches[k] +=
			    tid[k] == w->host[i].thread && (w->host[i].kind <= RECORD_COLL ||
							    w->host[i].kind == RECORD_STEP_BEGIN);
	while (m->t->count < HOST_TIMELINE_THREADS && m->t->count < n) {
		uint32_t best = n;

		for (k = 0; k < n; k++)
			if (tid[k] && (best == n || launches[k] > launches[best]))
				best = k;
		if (best == n)
			break;
		m->t->thread[m->t->count].helper = !launches[best] && tid[best] != w->rank.pid;
		m->t->tid[m->t->count++] = tid[best];
		tid[best] = 0;
	}
}

ORDER_BY(by_begin, struct ledger_interval, ORDER_UP(begin_ns));

/* Intervals with missed switches are unobserved. */
static void find_cover(struct maker *m, uint32_t tid)
{
	const struct stack_batch *b = &m->w->stacks;

	m->cover_at = m->cover_count = 0;
	for (uint32_t i = 0; i < b->switch_thread_count; i++) {
		const struct stack_switch_thread *t = &b->switch_threads[i];

		if (t->tid == tid && !t->missed)
			m->cover[m->cover_count++] =
			    (struct ledger_interval){t->begin_ns, t->end_ns};
	}
	if (m->cover_count)
		qsort(m->cover, m->cover_count, sizeof(*m->cover), by_begin);
}

static void add_thread(struct maker *m, uint32_t thread)
{
	const struct stack_batch *b = &m->w->stacks;
	uint32_t tid = m->t->tid[thread];
	uint64_t since = 0;

	find_cover(m, tid);
	for (uint32_t k = 0; k < STACK_SWITCH_STATES; k++) {
		m->last[k] = nothing;
		m->last_stack[k] = STACK_SWITCH_NO_STACK;
	}
	m->last[STACK_SWITCH_IO].what = LEDGER_STORAGE;
	m->last[STACK_SWITCH_RUNNABLE].what = LEDGER_PREEMPTED;
	m->last[STACK_SWITCH_WOKEN].what = LEDGER_WOKEN;
	m->helper = m->t->thread[thread].helper;
	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];
		uint64_t out = s->out_ns > since ? s->out_ns : since;

		if (s->tid != tid || s->in_ns < out)
			continue;
		put_covered(m, tid, since, out, s);
		put_switch(m, s, out);
		since = s->in_ns;
	}
	put_covered(m, tid, since, UINT64_MAX, NULL);
}

static double first_touch_ns(const struct window *w)
{
	for (uint32_t i = 0; i < w->signal_count; i++)
		if (os_signal_find(w->signals[i].name) == OS_SIGNAL_FIRST_TOUCH &&
		    w->signals[i].value > 0 && w->signals[i].value <= FIRST_TOUCH_MAX_US)
			return 1e3 * w->signals[i].value;
	return 0;
}

bool host_timeline_make(const struct window *w, host_frame_fn name, void *arg,
			struct host_timeline *out)
{
	struct maker m = {.w = w, .t = out, .name = name, .arg = arg};
	uint32_t first[HOST_TIMELINE_THREADS + 1] = {0};
	bool good = true;

	*out = (struct host_timeline){.count = 0};
	m.touch_ns = first_touch_ns(w);
	find_threads(&m);
	if (out->count)
		good = find_samples(&m);
	for (uint32_t k = 0; good && k < out->count; k++) {
		add_thread(&m, k);
		first[k + 1] = out->segment_count;
	}
	for (uint32_t k = 0; good && k < out->count; k++)
		out->thread[k] = (struct ledger_thread){
		    out->segments + first[k], first[k + 1] - first[k], out->thread[k].helper};
	free(m.slice);
	free(m.running_samples.at);
	free(m.blocked_samples.at);
	free(m.blocked);
	free(m.running);
	free(m.known);
	free(m.cover);
	if (!good)
		host_timeline_fini(out);
	return good;
}
