/* SPDX-License-Identifier: Apache-2.0
 * Accounts are sorted by hash, so a binary search finds one, and two ledgers are compared like
 * sorted lists. A step is charged in layers: compute, copies, collectives, then the host. Each
 * layer gets only the time that no earlier layer covers. */
#include "analysis/ledger/ledger.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/order.h"
#include "base/room.h"
#include "base/sorted.h"
#include "base/text/text.h"
#include "model/kernel_name.h"
#include "model/thresholds.h"

static const struct {
	const char *name, *text, *joint; /* joint: goes before the name */
} kinds[LEDGER_KINDS] = {
    [LEDGER_UNOBSERVED] = {"unobserved", "host: not observed", " in "},
    [LEDGER_COMPUTE] = {"compute", "kernel", " "},
    [LEDGER_COPY] = {"copy", "copy", " "},
    [LEDGER_COLLECTIVE] = {"collective", "collective", " "},
    [LEDGER_QUEUED] = {"queued", "queued on the GPU", ": "},
    [LEDGER_RUNNING] = {"running", "host runs", " "},
    [LEDGER_KERNEL_CODE] = {"kernel", "host runs kernel code", " in "},
    [LEDGER_RUNNABLE] = {"runnable", "host waits for a CPU", " taken by "},
    [LEDGER_BLOCKED] = {"blocked", "host blocked", " in "},
    [LEDGER_STOLEN] = {"stolen", "host interrupted", " in "},
    [LEDGER_STOPPED] = {"stopped", "host stopped", " in "},
};

const char *ledger_kind_name(enum ledger_kind kind)
{
	return kind < LEDGER_KINDS ? kinds[kind].name : "unknown";
}

void ledger_account_text(enum ledger_kind kind, const char *what, const char *name, char *out,
			 size_t bytes)
{
	char kernel[LEDGER_NAME_BYTES];

	if (kind == LEDGER_COMPUTE)
		name = kernel_name_text(name, kernel, sizeof(kernel));
	if (kind == LEDGER_RUNNABLE && *what && *name) /* what it was woken from */
		snprintf(out, bytes, "%s (after %s)", kinds[kind].text, name);
	else
		snprintf(out, bytes, "%s%s%s%s%s%s", kinds[kind].text, *what ? " (" : "", what,
			 *what ? ")" : "", *name ? kinds[kind].joint : "", name);
}

bool ledger_is_of(const char *name, const char *function)
{
	size_t length = strlen(name), end = strlen(function);

	return !strcmp(name, function) || (end && length > end && name[length - end - 1] == ' ' &&
					   !strcmp(name + length - end, function));
}

static const struct {
	const char *id, *text;
} whats[LEDGER_WHATS] = {
#define WHAT(symbol, id, text) {id, text},
#include "analysis/ledger/ledger_what.def"
#undef WHAT
};

const char *ledger_what_id(enum ledger_what what)
{
	return what < LEDGER_WHATS ? whats[what].id : "";
}

const char *ledger_what_text(enum ledger_what what)
{
	return what < LEDGER_WHATS ? whats[what].text : "";
}

bool ledger_what_has_other_end(enum ledger_what what)
{
	return what >= LEDGER_LOCK && what <= LEDGER_PROCESS; /* in this order in ledger_what.def */
}

bool ledger_what_is_vague(enum ledger_what what)
{
	return what == LEDGER_LOCK || what == LEDGER_POLL || what == LEDGER_PIPE_READ ||
	       what == LEDGER_LOCAL_SOCKET || what == LEDGER_SOCKET || what == LEDGER_CHILD ||
	       what == LEDGER_PROCESS || what == LEDGER_SYSCALL || !what;
}

bool ledger_what_is_of_ranks(enum ledger_what what)
{
	return what == LEDGER_HOST_MESSAGE || what == LEDGER_HOST_COLLECTIVE;
}

void ledger_init(struct ledger *l)
{
	*l = (struct ledger){0};
}

void ledger_fini(struct ledger *l)
{
	free(l->account);
	free(l->names);
	ledger_init(l);
}

const char *ledger_name(const struct ledger *l, const struct ledger_account *a)
{
	return a->name ? l->names + a->name : "";
}

uint64_t ledger_sum(const struct ledger *l)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < l->count; i++)
		sum += l->account[i].ns;
	return sum;
}

double ledger_mean_ns(const struct ledger *l)
{
	return l->steps ? (double)ledger_sum(l) / (double)l->steps : 0;
}

static double compute_mean(const struct ledger *l)
{
	double mean = 0;

	for (uint32_t i = 0; i < l->count && l->steps; i++)
		if (l->account[i].kind == LEDGER_COMPUTE)
			mean += (double)l->account[i].ns / (double)l->steps;
	return mean;
}

static double compute_variance(const struct ledger *l)
{
	double mean = compute_mean(l);

	return l->steps ? fmax(l->compute_squares / (double)l->steps - mean * mean, 0) : 0;
}

double ledger_compute_error(const struct ledger *l)
{
	return l->seen > 1 ? sqrt(compute_variance(l) / (double)(l->seen - 1)) : 0;
}

size_t ledger_bytes(const struct ledger *l)
{
	return l->room * sizeof(*l->account) + l->names_room;
}

static uint64_t hash_of(enum ledger_kind kind, enum ledger_what what, const char *name,
			size_t bytes)
{
	return hash_bytes(kind << 8 | what, name, bytes);
}

static int order(uint64_t hash, const char *name, size_t bytes, const struct ledger *l,
		 const struct ledger_account *a)
{
	const char *other = ledger_name(l, a);
	int c;

	if (hash != a->hash)
		return hash < a->hash ? -1 : 1;
	c = strncmp(name, other, bytes);
	return c ? c : -(other[bytes] != '\0');
}

/* The index of the account; if *found is false, the index at which to insert it. */
static uint32_t find(const struct ledger *l, uint64_t hash, const char *name, size_t bytes,
		     bool *found)
{
	uint32_t low = 0, high = l->count;

	*found = false;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		int c = order(hash, name, bytes, l, &l->account[middle]);

		if (!c) {
			*found = true;
			return middle;
		}
		if (c > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint32_t put_name(struct ledger *l, const char *name, size_t bytes)
{
	uint32_t at = l->names_bytes ? l->names_bytes : 1; /* offset 0 is "" */

	if (ROOM_FOR(l->names, l->names_room, at + bytes + 1))
		return 0;
	l->names[0] = '\0';
	memcpy(l->names + at, name, bytes);
	l->names[at + bytes] = '\0';
	l->names_bytes = at + (uint32_t)bytes + 1;
	return at;
}

/* NULL: the table is full. Some places are reserved for the accounts without a name. */
static struct ledger_account *account_of(struct ledger *l, enum ledger_kind kind,
					 enum ledger_what what, const char *name, uint32_t most)
{
	size_t bytes = strnlen(name, LEDGER_NAME_BYTES - 1);
	uint64_t hash = hash_of(kind, what, name, bytes);
	bool found;
	uint32_t at = find(l, hash, name, bytes, &found), text = 0;

	if (found)
		return &l->account[at];
	if (((bytes || what) && l->count >= most - LEDGER_KINDS) ||
	    ROOM_FOR(l->account, l->room, l->count + 1ull))
		return NULL;
	if (bytes && !(text = put_name(l, name, bytes)))
		return NULL;
	memmove(&l->account[at + 1], &l->account[at], (l->count - at) * sizeof(*l->account));
	l->count++;
	l->account[at] = (struct ledger_account){
	    .kind = (uint8_t)kind, .what = (uint8_t)what, .name = text, .hash = hash};
	return &l->account[at];
}

/* Length of a kernel's name without its launch configuration. */
static size_t kernel_bytes(const char *name)
{
	size_t bytes = kernel_name_bytes(name);

	return bytes < LEDGER_NAME_BYTES - sizeof(LEDGER_OTHER_LAUNCHES)
		   ? bytes
		   : LEDGER_NAME_BYTES - sizeof(LEDGER_OTHER_LAUNCHES);
}

/* Returns the account that was charged. NULL: nothing to charge, or no memory; without memory the
 * sum is less than total_ns. */
static struct ledger_account *charge(struct ledger *l, enum ledger_kind kind, enum ledger_what what,
				     const char *name, uint64_t ns, uint64_t busy_ns,
				     uint64_t count)
{
	struct ledger_account *a;
	char other[LEDGER_NAME_BYTES];

	if (!ns && !busy_ns && !count)
		return NULL;
	name = name ? name : "";
	a = account_of(l, kind, what, name,
		       kind == LEDGER_COMPUTE ? LEDGER_ACCOUNTS_MAX / 2 : LEDGER_ACCOUNTS_MAX);
	if (!a && kind == LEDGER_COMPUTE) {
		snprintf(other, sizeof(other), "%.*s%s", (int)kernel_bytes(name), name,
			 LEDGER_OTHER_LAUNCHES);
		a = account_of(l, kind, what, other, LEDGER_ACCOUNTS_MAX);
	}
	if (!a)
		a = account_of(l, kind, LEDGER_NONE, "", LEDGER_ACCOUNTS_MAX);
	if (!a)
		return NULL;
	a->ns += ns;
	a->busy_ns += busy_ns;
	a->count += count;
	return a;
}

/* Limited, so that sums of untrusted numbers stay finite. */
static uint64_t weighed(uint64_t x, double weight)
{
	double y = (double)x * weight;

	return y < 1e18 ? (uint64_t)(y + 0.5) : (uint64_t)1e18;
}

static void charge_weighed(struct ledger *l, const struct ledger_account *from, const char *name,
			   double weight)
{
	charge(l, from->kind, from->what, name, weighed(from->ns, weight),
	       weighed(from->busy_ns, weight), weighed(from->count, weight));
}

void ledger_charge(struct ledger *l, enum ledger_kind kind, enum ledger_what what, const char *name,
		   uint64_t ns, uint64_t count)
{
	charge(l, kind, what, name, ns, ns, count);
}

static uint64_t at_most(double x, uint64_t most)
{
	return !(x > 0) ? 0 : x < (double)most ? (uint64_t)x : most;
}

void ledger_move(struct ledger *l, enum ledger_kind kind, const char *name, enum ledger_what to,
		 double ns, double busy_ns, double count)
{
	size_t bytes = strnlen(name, LEDGER_NAME_BYTES - 1);
	struct ledger_account *from, *into;
	uint64_t moved_ns, moved_busy_ns, moved_count;
	uint32_t at;
	bool found;

	into = ns >= 1 || count >= 1 ? account_of(l, kind, to, name, LEDGER_ACCOUNTS_MAX) : NULL;
	at = find(l, hash_of(kind, LEDGER_NONE, name, bytes), name, bytes, &found);
	if (!into || !found)
		return;
	from = &l->account[at];
	moved_ns = at_most(ns, from->ns);
	moved_busy_ns = at_most(busy_ns, from->busy_ns);
	moved_count = at_most(count, from->count);
	from->ns -= moved_ns;
	from->busy_ns -= moved_busy_ns;
	from->count -= moved_count;
	into->ns += moved_ns;
	into->busy_ns += moved_busy_ns;
	into->count += moved_count;
}

void ledger_add(struct ledger *into, const struct ledger *from, double weight)
{
	for (uint32_t i = 0; i < from->count; i++)
		charge_weighed(into, &from->account[i], ledger_name(from, &from->account[i]),
			       weight);
	into->steps += weighed(from->steps, weight);
	into->total_ns += weighed(from->total_ns, weight);
	into->seen += from->seen;
	into->compute_squares += from->compute_squares * weight;
	into->stated_ns += from->stated_ns * weight;
	into->stated += from->stated * weight;
	into->lost_ns += from->lost_ns * weight;
	into->lost_self_ns += from->lost_self_ns * weight;
	into->judged += from->judged * weight;
}

void ledger_add_kind(struct ledger *into, const struct ledger *from, double weight)
{
	double within = compute_variance(into) * (double)into->steps +
			compute_variance(from) * (double)from->steps * weight,
	       mean;

	ledger_add(into, from, weight);
	mean = compute_mean(into);
	into->compute_squares = within + mean * mean * (double)into->steps;
}

void ledger_state(struct ledger *l, double expected_ns)
{
	l->stated_ns += expected_ns;
	l->stated += 1;
}

void ledger_judge(struct ledger *l, double lost_ns, double lost_self_ns)
{
	l->lost_ns += lost_ns;
	l->lost_self_ns += lost_self_ns;
	l->judged += 1;
}

bool ledger_lost(const struct ledger *l, bool self, double *ns)
{
	if (!(l->judged > 0) || l->judged < thresholds.part.half * (double)l->steps)
		return false;
	*ns = (self ? l->lost_self_ns : l->lost_ns) / l->judged;
	return true;
}

/* The mean of what the steps' work should take, ns; 0: not known for all steps. */
static double stated_mean(const struct ledger *l)
{
	return l->steps && l->stated + 0.5 > (double)l->steps ? l->stated_ns / l->stated : 0;
}

bool ledger_is_stated(const struct ledger *l)
{
	return stated_mean(l) > 0;
}

double ledger_work_ratio(const struct ledger *like, const struct ledger *l)
{
	double a = stated_mean(like), b = stated_mean(l);

	return a > 0 && b > 0 ? a / b : 1;
}

void ledger_join_configurations(struct ledger *l)
{
	struct ledger joined;

	ledger_init(&joined);
	for (uint32_t i = 0; i < l->count; i++) {
		const struct ledger_account *a = &l->account[i];
		const char *whole = ledger_name(l, a);
		char name[LEDGER_NAME_BYTES];
		size_t bytes =
		    a->kind == LEDGER_COMPUTE ? kernel_bytes(whole) : LEDGER_NAME_BYTES - 1;

		text_copy(name, bytes + 1, whole);
		charge_weighed(&joined, a, name, 1);
	}
	joined.steps = l->steps;
	joined.total_ns = l->total_ns;
	joined.seen = l->seen;
	joined.compute_squares = l->compute_squares;
	joined.stated_ns = l->stated_ns;
	joined.stated = l->stated;
	joined.lost_ns = l->lost_ns;
	joined.lost_self_ns = l->lost_self_ns;
	joined.judged = l->judged;
	ledger_fini(l);
	*l = joined;
}

void ledger_scale(struct ledger *l, double ratio)
{
	for (uint32_t i = 0; i < l->count; i++) {
		struct ledger_account *a = &l->account[i];

		a->ns = weighed(a->ns, ratio);
		a->busy_ns = weighed(a->busy_ns, ratio);
	}
	l->total_ns = weighed(l->total_ns, ratio);
	l->compute_squares *= ratio * ratio;
	l->stated_ns *= ratio;
}

static uint64_t stretched(uint64_t x, uint64_t from, double weight, double factor)
{
	double at = (double)from * weight, y = at + factor * ((double)x - at);

	return y > 0 ? weighed(1, y) : 0;
}

void ledger_stretch(struct ledger *l, const struct ledger *from, double factor)
{
	static const struct ledger_account none;
	double weight = (double)l->steps / (double)from->steps;
	bool found;

	for (uint32_t i = 0; i < from->count; i++) { /* makes the accounts that l lacks */
		const struct ledger_account *u = &from->account[i];

		account_of(l, u->kind, u->what, ledger_name(from, u), LEDGER_ACCOUNTS_MAX);
	}
	for (uint32_t i = 0; i < l->count; i++) {
		struct ledger_account *a = &l->account[i];
		const char *name = ledger_name(l, a);
		uint32_t at = find(from, a->hash, name, strlen(name), &found);
		const struct ledger_account *u = found ? &from->account[at] : &none;
		uint64_t ns = stretched(a->ns, u->ns, weight, factor);

		a->ns = ns;
		a->busy_ns = stretched(a->busy_ns, u->busy_ns, weight, factor);
		a->count = stretched(a->count, u->count, weight, factor);
	}
	l->total_ns = ledger_sum(l);
}

/* ---- a step ---- */

/* Appends an interval, merged with the last one if they touch. Intervals come in order. */
static void push(struct ledger_interval *list, uint32_t *count, struct ledger_interval i)
{
	struct ledger_interval *last = *count ? &list[*count - 1] : NULL;

	if (!last || i.begin_ns > last->end_ns)
		list[(*count)++] = i;
	else if (i.end_ns > last->end_ns)
		last->end_ns = i.end_ns;
}

/* The time in [begin, end) that is not covered. Advances *at to the first interval that ends
 * later. */
static uint64_t uncovered(const struct ledger_interval *cover, uint32_t count, uint32_t *at,
			  uint64_t begin, uint64_t end)
{
	uint64_t ns = 0;

	while (*at < count && cover[*at].end_ns <= begin)
		++*at;
	for (uint32_t i = *at; begin < end; i++) {
		if (i == count || cover[i].begin_ns >= end)
			return ns + (end - begin);
		if (cover[i].begin_ns > begin)
			ns += cover[i].begin_ns - begin;
		begin = cover[i].end_ns;
	}
	return ns;
}

/* Charges one kind with the time that no earlier kind covers. Writes the cover including this kind
 * to out. Returns its length. */
static uint32_t charge_layer(struct ledger *l, enum ledger_kind kind, struct ledger_interval step,
			     const struct ledger_busy *busy, uint32_t busy_count,
			     const struct ledger_interval *cover, uint32_t count,
			     struct ledger_interval *out)
{
	uint64_t covered = step.begin_ns, exposed_ns;
	uint32_t at = 0, next = 0, n = 0;

	for (uint32_t k = 0; k < busy_count; k++) {
		const struct ledger_busy *b = &busy[k];
		struct ledger_interval span = {b->begin_ns > covered ? b->begin_ns : covered,
					       b->end_ns < step.end_ns ? b->end_ns : step.end_ns};
		bool begins = b->begin_ns >= step.begin_ns && b->begin_ns < step.end_ns;
		uint64_t from = b->begin_ns > step.begin_ns ? b->begin_ns : step.begin_ns,
			 busy_ns = span.end_ns > from ? span.end_ns - from : 0;

		if (b->kind != kind)
			continue;
		if (span.begin_ns >= span.end_ns) {
			charge(l, kind, LEDGER_NONE, b->name, 0, busy_ns, begins);
			continue;
		}
		covered = span.end_ns;
		exposed_ns = uncovered(cover, count, &at, span.begin_ns, span.end_ns);
		charge(l, kind, LEDGER_NONE, b->name, exposed_ns, busy_ns, begins);
		if (b->exposed_ns)
			*b->exposed_ns += exposed_ns;
		while (next < count && cover[next].begin_ns <= span.begin_ns)
			push(out, &n, cover[next++]);
		push(out, &n, span);
	}
	while (next < count)
		push(out, &n, cover[next++]);
	return n;
}

static double covered_ns(const struct ledger_interval *cover, uint32_t count)
{
	double ns = 0;

	for (uint32_t i = 0; i < count; i++)
		ns += (double)(cover[i].end_ns - cover[i].begin_ns);
	return ns;
}

/* The first segment that ends after t. */
static uint32_t segment_after(const struct ledger_thread *h, uint64_t t)
{
	return h->count ? (uint32_t)SORTED_ABOVE(h->segment, h->count, end_ns, t) : 0;
}

/* How many of the count waits in the whole segment fall into [from, to). The parts of a segment add
 * up to count. */
static uint64_t waits_in(const struct ledger_segment *s, double count, uint64_t from, uint64_t to)
{
	double each = count / (double)(s->end_ns - s->begin_ns);

	return (uint64_t)((double)(to - s->begin_ns) * each + 0.5) -
	       (uint64_t)((double)(from - s->begin_ns) * each + 0.5);
}

static void charge_shares(struct ledger *l, const struct ledger_segment *s, uint64_t from,
			  uint64_t to)
{
	uint64_t left = to - from;

	for (uint32_t i = 0; i < s->share_count; i++) {
		uint64_t part = (uint64_t)((double)(to - from) * s->share[i].part + 0.5);

		if (part > left || i + 1 == s->share_count)
			part = left;
		ledger_charge(l, s->share[i].kind, s->share[i].what, s->share[i].name, part,
			      waits_in(s, s->share[i].count, from, to));
		left -= part;
	}
}

struct hosts {
	const struct ledger_thread *thread;
	uint32_t count;
};

/* The thread waits for something outside its process: a CPU, a peer, a file. */
static bool is_outside(enum ledger_kind kind, enum ledger_what what)
{
	return kind == LEDGER_RUNNABLE ||
	       (kind == LEDGER_BLOCKED &&
		(what == LEDGER_LIBC_LOCK ||
		 (what >= LEDGER_SOCKET && what <= LEDGER_HOST_COLLECTIVE) ||
		 (what >= LEDGER_FILE_READ && what <= LEDGER_DISK_LIMIT)));
}

/* Short waits are recorded together. Charges those shares of them that are waits for the
 * outside. */
static uint64_t charge_outside_shares(struct ledger *l, const struct ledger_segment *s,
				      uint64_t from, uint64_t to)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < s->share_count; i++) {
		const struct ledger_share *h = &s->share[i];
		uint64_t left = to - from - ns, part = (uint64_t)(h->part * (double)(to - from));

		if (!is_outside(h->kind, h->what))
			continue;
		part = part < left ? part : left;
		ledger_charge(l, h->kind, h->what, h->name, part, waits_in(s, h->count, from, to));
		ns += part;
	}
	return ns;
}

static const struct ledger_thread *helper_of(const struct hosts *h, const struct ledger_segment *s)
{
	const struct ledger_thread *t =
	    s->kind == LEDGER_BLOCKED && s->waker && s->waker - 1 < h->count
		? &h->thread[s->waker - 1]
		: NULL;

	return t && t->helper ? t : NULL;
}

/* A helper ended the wait in [begin, end). Charges what that helper, or the helper that it waited
 * for in turn, waited for outside the process. Returns the charged time; the caller charges the
 * rest as the wait. */
static uint64_t charge_outside(struct ledger *l, uint64_t begin, uint64_t end,
			       const struct hosts *h, const struct ledger_thread *t,
			       uint32_t followed)
{
	uint64_t ns = 0;

	for (uint32_t i = segment_after(t, begin); i < t->count && t->segment[i].begin_ns < end;
	     i++) {
		const struct ledger_segment *s = &t->segment[i];
		uint64_t from = s->begin_ns > begin ? s->begin_ns : begin;
		uint64_t to = s->end_ns < end ? s->end_ns : end;
		const struct ledger_thread *by = helper_of(h, s);

		if (from >= to)
			continue;
		begin = to;
		if (s->share_count) {
			ns += charge_outside_shares(l, s, from, to);
		} else if (is_outside(s->kind, s->what)) {
			ledger_charge(l, s->kind, s->what, s->name, to - from,
				      s->kind == LEDGER_BLOCKED);
			ns += to - from;
		} else if (by && by != t && followed < LEDGER_WAKERS_MAX) {
			ns += charge_outside(l, from, to, h, by, followed + 1);
		}
	}
	return ns;
}

/* Charges what the thread did in [begin, end). */
static void charge_host(struct ledger *l, uint64_t begin, uint64_t end, const struct hosts *h,
			uint32_t thread, uint32_t followed)
{
	const struct ledger_thread *t = thread < h->count ? &h->thread[thread] : NULL;

	for (uint32_t i = t ? segment_after(t, begin) : 0; t && i < t->count && begin < end; i++) {
		const struct ledger_segment *s = &t->segment[i];
		uint64_t from = s->begin_ns > begin ? s->begin_ns : begin;
		uint64_t to = s->end_ns < end ? s->end_ns : end;
		const struct ledger_thread *by;

		if (s->begin_ns >= end)
			break;
		if (from >= to)
			continue;
		ledger_charge(l, LEDGER_UNOBSERVED, LEDGER_NONE, NULL, from - begin, 0);
		by = helper_of(h, s);
		if (by)
			ledger_charge(l, s->kind, s->what, s->name,
				      to - from - charge_outside(l, from, to, h, by, 1), 1);
		else if (s->kind == LEDGER_BLOCKED && s->waker && s->waker - 1 != thread &&
			 followed < LEDGER_WAKERS_MAX)
			charge_host(l, from, to, h, s->waker - 1, followed + 1);
		else if (s->share_count)
			charge_shares(l, s, from, to);
		else
			ledger_charge(l, s->kind, s->what, s->name, to - from,
				      s->kind == LEDGER_BLOCKED);
		begin = to;
	}
	if (begin < end)
		ledger_charge(l, LEDGER_UNOBSERVED, LEDGER_NONE, NULL, end - begin, 0);
}

/* Counts the thread's waits while the GPU has work. They cost no time, but the thread needs a CPU
 * after each of them. A wait that lasts beyond [begin, end) was charged or will be. */
static void count_waits(struct ledger *l, uint64_t begin, uint64_t end,
			const struct ledger_thread *t)
{
	for (uint32_t i = segment_after(t, begin); i < t->count && t->segment[i].begin_ns < end;
	     i++) {
		const struct ledger_segment *s = &t->segment[i];
		uint64_t from = s->begin_ns > begin ? s->begin_ns : begin;
		uint64_t to = s->end_ns < end ? s->end_ns : end;

		for (uint32_t k = 0; k < s->share_count; k++)
			ledger_charge(l, s->share[k].kind, s->share[k].what, s->share[k].name, 0,
				      waits_in(s, s->share[k].count, from, to));
		if (!s->share_count && s->kind == LEDGER_BLOCKED && s->begin_ns >= begin &&
		    s->end_ns <= end)
			ledger_charge(l, s->kind, s->what, s->name, 0, 1);
	}
}

void ledger_step(struct ledger *l, uint64_t begin_ns, uint64_t end_ns,
		 const struct ledger_busy *busy, uint32_t busy_count,
		 const struct ledger_thread *threads, uint32_t thread_count,
		 struct ledger_interval *scratch)
{
	struct ledger_interval step = {begin_ns, end_ns}, *a = scratch, *b = scratch + busy_count,
			       *swap;
	const struct hosts hosts = {threads, thread_count};
	uint32_t n = 0, next = 0;
	uint64_t idle = begin_ns;
	double compute_ns;

	if (end_ns <= begin_ns)
		return;
	l->steps++;
	l->seen++;
	l->total_ns += end_ns - begin_ns;
	for (enum ledger_kind kind = LEDGER_COMPUTE; kind <= LEDGER_COLLECTIVE; kind++) {
		n = charge_layer(l, kind, step, busy, busy_count, a, n, b);
		swap = a;
		a = b;
		b = swap;
		if (kind == LEDGER_COMPUTE) {
			compute_ns = covered_ns(a, n);
			l->compute_squares += compute_ns * compute_ns;
		}
	}
	for (uint32_t i = 0; i <= n; i++) {
		uint64_t until = i < n ? a[i].begin_ns : end_ns, launch = until;
		uint32_t thread = 0;

		while (next < busy_count && busy[next].begin_ns < until)
			next++;
		if (i < n && next < busy_count && busy[next].begin_ns == until &&
		    busy[next].launch_ns) {
			launch = busy[next].launch_ns < idle ? idle : busy[next].launch_ns;
			thread = busy[next].thread;
		}
		if (launch > until)
			launch = until;
		if (until > idle) {
			charge_host(l, idle, launch, &hosts, thread, 0);
			ledger_charge(l, LEDGER_QUEUED, LEDGER_NONE, NULL, until - launch, 0);
		}
		if (i < n)
			idle = a[i].end_ns;
		if (i < n && thread < thread_count)
			count_waits(l, launch, idle, &threads[thread]);
	}
}

/* Charges the time in [begin, end) that the thread was stopped, and returns it. */
static uint64_t charge_stopped(struct ledger *l, uint64_t begin, uint64_t end,
			       const struct ledger_thread *t)
{
	uint64_t ns = 0;

	for (uint32_t i = t ? segment_after(t, begin) : 0; t && i < t->count && begin < end; i++) {
		const struct ledger_segment *s = &t->segment[i];
		uint64_t from = s->begin_ns > begin ? s->begin_ns : begin;
		uint64_t to = s->end_ns < end ? s->end_ns : end;

		if (s->kind != LEDGER_STOPPED || from >= to)
			continue;
		ledger_charge(l, s->kind, s->what, s->name, to - from, 0);
		ns += to - from;
		begin = to;
	}
	return ns;
}

void ledger_open(struct ledger *l, uint64_t begin_ns, uint64_t end_ns,
		 const struct ledger_busy *unfinished, const struct ledger_thread *threads,
		 uint32_t thread_count, uint32_t thread)
{
	const struct hosts hosts = {threads, thread_count};
	uint64_t launch = unfinished ? unfinished->launch_ns : end_ns;

	if (end_ns <= begin_ns)
		return;
	launch = launch < begin_ns ? begin_ns : launch > end_ns ? end_ns : launch;
	l->steps++;
	l->total_ns += end_ns - begin_ns;
	charge_host(l, begin_ns, launch, &hosts, thread, 0);
	if (unfinished)
		ledger_charge(l, unfinished->kind, LEDGER_NONE, unfinished->name,
			      end_ns - launch -
				  charge_stopped(l, launch, end_ns,
						 thread < thread_count ? &threads[thread] : NULL),
			      1);
}

/* ---- subtraction ---- */

static void row_of(struct ledger_row *r, const struct ledger *slow, const struct ledger_account *s,
		   const struct ledger *reference, const struct ledger_account *f)
{
	double slow_steps = slow->steps ? (double)slow->steps : 1;
	double steps = reference->steps ? (double)reference->steps : 1;
	double slow_count = s ? (double)s->count / slow_steps : 0,
	       count = f ? (double)f->count / steps : 0;

	*r = (struct ledger_row){.kind = s ? s->kind : f->kind,
				 .what = s ? s->what : f->what,
				 .name = s ? ledger_name(slow, s) : ledger_name(reference, f),
				 .slow_ns = s ? (double)s->ns / slow_steps : 0,
				 .reference_ns = f ? (double)f->ns / steps : 0};
	r->excess_ns = r->slow_ns - r->reference_ns;
	r->slow_count = slow_count;
	r->reference_count = count;
	r->slow_busy_ns = s ? (double)s->busy_ns / slow_steps : 0;
	r->reference_busy_ns = f ? (double)f->busy_ns / steps : 0;
	if (slow_count > 0 && count > 0)
		r->work_ns = (slow_count - count) * (r->reference_ns / count);
	else if (slow_count > 0 || count > 0)
		r->work_ns = r->excess_ns;
}

ORDER_BY(by_excess, struct ledger_row,
	 ORDER_DOWN(excess_ns) ?: ORDER_UP(kind) ?: ORDER_UP(what) ?: ORDER_TEXT(name));

uint32_t ledger_subtract(const struct ledger *slow, const struct ledger *reference,
			 struct ledger_row *rows)
{
	uint32_t i = 0, k = 0, n = 0;

	while (i < slow->count || k < reference->count) {
		const struct ledger_account *s = i < slow->count ? &slow->account[i] : NULL;
		const struct ledger_account *f =
		    k < reference->count ? &reference->account[k] : NULL;
		int c = !f ? -1 : !s ? 1 : 0;

		if (!c) {
			const char *name = ledger_name(slow, s);

			c = order(s->hash, name, strlen(name), reference, f);
		}
		row_of(&rows[n++], slow, c <= 0 ? s : NULL, reference, c >= 0 ? f : NULL);
		i += c <= 0;
		k += c >= 0;
	}
	qsort(rows, n, sizeof(*rows), by_excess);
	return n;
}

struct more_work {
	char name[LEDGER_NAME_BYTES];
	double ns; /* per step */
};

/* Fills m with the extra work of each kernel, and returns its sum. m: room for `count` entries. */
static double work_of(const struct ledger_row *rows, uint32_t count, struct more_work *m,
		      uint32_t *kernels)
{
	double ns = 0;

	*kernels = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].kind != LEDGER_COMPUTE)
			continue;
		text_copy(m[*kernels].name, LEDGER_NAME_BYTES, rows[i].name);
		m[(*kernels)++].ns = rows[i].work_ns;
		ns += rows[i].work_ns;
	}
	return ns;
}

int ledger_same_work(const struct ledger *slow, struct ledger *reference, double most_ns)
{
	size_t room = (size_t)slow->count + reference->count + 1;
	struct ledger_row *rows;
	struct more_work *m;
	uint32_t n = 0;
	double ns = 0, share, more;
	int err;

	if (!(most_ns > 0))
		return 0;
	rows = calloc(room, sizeof(*rows));
	m = calloc(room, sizeof(*m));
	err = rows && m ? 0 : -ENOMEM;
	if (!err)
		ns = work_of(rows, ledger_subtract(slow, reference, rows), m, &n);
	share = fmin(1, most_ns / ns) * (double)reference->steps;
	for (uint32_t i = 0; i < n && ns > 0; i++) {
		struct ledger_account *a = account_of(reference, LEDGER_COMPUTE, LEDGER_NONE,
						      m[i].name, LEDGER_ACCOUNTS_MAX);

		if (!a)
			continue;
		more = share * m[i].ns;
		a->ns = more > -(double)a->ns ? weighed(1, (double)a->ns + more) : 0;
	}
	if (ns > 0)
		reference->total_ns = ledger_sum(reference);
	free(rows);
	free(m);
	return err;
}

uint32_t ledger_explain(const struct ledger_row *rows, uint32_t count, double share)
{
	double whole = 0, sum = 0;

	for (uint32_t i = 0; i < count; i++)
		whole += rows[i].excess_ns;
	if (!(whole > 0))
		return 0;
	for (uint32_t i = 0; i < count && rows[i].excess_ns > 0; i++) {
		sum += rows[i].excess_ns;
		if (sum >= share * whole)
			return i + 1;
	}
	return 0;
}
