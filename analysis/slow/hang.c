/* SPDX-License-Identifier: Apache-2.0
 * A beat only replaces a rank's stored state. A job is examined only while one of its ranks has
 * waited too long. Then all its communicators are examined, because the rank that waits is not the
 * cause. */
#include "analysis/slow/hang.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/record.h"
#include "model/thresholds.h"

#define TIME_MAX (1ull << 62)
/* The communicator of all collectives on the CPU. */
#define HOST_COMM UINT64_MAX

struct slot {
	int32_t rank;
	uint32_t count;
	uint64_t seen_ns, steps;
	int64_t step;
	/* Offsets that turn a time of the node's clock into one of this machine's clock and of the
	 * node's CLOCK_REALTIME. */
	int64_t here_ns, unix_ns;
	bool ended;	   /* its process has ended */
	uint64_t kernels;  /* kernels that have ended */
	uint64_t moved_ns; /* when a step or a kernel last ended */
	struct beat_unfinished unfinished;
	struct beat_comm *comms;
};

struct hang {
	char job[WIRE_TEXT_BYTES];
	struct slot *slots;
	size_t slot_count;
	struct hang_stats stats;
	bool open, changed, ended;
	uint64_t reported_ns;
	int64_t since_ns; /* while open */
	/* offset that turns this machine's clock into the job's real time; valid while open */
	int64_t unix_ns;
	struct finding_report now; /* while open */
};

/* A rank's membership in a communicator, for one examination. */
struct member {
	const struct beat_comm *comm;
	uint32_t slot;
	bool waits, heard; /* heard: the rank still sends beats */
};

int hang_open(struct hang **out, const char *job)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	text_copy((*out)->job, sizeof((*out)->job), job);
	return 0;
}

void hang_close(struct hang *h)
{
	if (!h)
		return;
	for (uint32_t i = 0; i < h->slot_count; i++)
		free(h->slots[i].comms);
	free(h->slots);
	free(h);
}

static struct slot *slot_at(struct hang *h, uint32_t slot)
{
	if (slot >= LIMIT_FLEET_RANKS || ROOM_FOR_ZERO(h->slots, h->slot_count, slot + 1))
		return NULL;
	return &h->slots[slot];
}

static bool is_sane(const struct beat_comm *k)
{
	return k->call_ns < TIME_MAX && k->done_ns < TIME_MAX && k->ended <= k->entered &&
	       k->ranks <= LIMIT_FLEET_RANKS && k->comm != HOST_COMM;
}

static bool is_on_host(const struct beat_comm *k)
{
	return k->comm == HOST_COMM;
}

/* The rank's part in the collectives on the CPU. They are not counted: it is in one, or it is not. */
static struct beat_comm host_comm(const struct beat_rank *b, const struct beat_unfinished *u)
{
	bool in = u->kind == BEAT_UNFINISHED_HOST;

	return (struct beat_comm){.comm = HOST_COMM,
				  .ranks = b->rank.world_size > 0 &&
						   b->rank.world_size <= (int32_t)LIMIT_FLEET_RANKS
					       ? (uint32_t)b->rank.world_size
					       : 0,
				  .entered = 1 + in,
				  .ended = 1,
				  .call_ns = in ? u->launch_ns : 0};
}

/* The number of the rank's communicators without the one of the CPU, which is stored last. */
static uint32_t recorded(const struct slot *s)
{
	return s->count - (s->count > 0);
}

int hang_push(struct hang *h, uint32_t slot, const struct beat_rank *b, int64_t step,
	      int64_t offset_ns, uint64_t beat_ns, uint64_t now_ns)
{
	struct slot *s = slot_at(h, slot);
	uint32_t count = b->comm_count < BEAT_COMMS_MAX ? b->comm_count : BEAT_COMMS_MAX, n = 0;

	if (!s)
		return -ENOMEM;
	h->stats.comms -= recorded(s);
	if (count + 1 > s->count || !s->comms) {
		struct beat_comm *comms = realloc(s->comms, (count + 1) * sizeof(*comms));

		if (!comms) {
			s->count = 0;
			return -ENOMEM;
		}
		s->comms = comms;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (is_sane(&b->comms[i]))
			s->comms[n++] = b->comms[i];
		else
			h->stats.bad++;
	}
	s->unfinished = b->unfinished;
	if (s->unfinished.launch_ns >= TIME_MAX) {
		s->unfinished = (struct beat_unfinished){.kind = BEAT_UNFINISHED_NONE};
		h->stats.bad++;
	}
	s->comms[n++] = host_comm(b, &s->unfinished);
	s->count = n;
	h->stats.comms += recorded(s);
	if (!s->seen_ns || b->steps != s->steps || b->kernels_joined != s->kernels)
		s->moved_ns = now_ns;
	s->kernels = b->kernels_joined;
	s->ended = false;
	s->rank = b->rank.rank;
	s->steps = b->steps;
	s->step = step;
	s->here_ns = (int64_t)(now_ns - beat_ns);
	s->unix_ns = offset_ns;
	s->seen_ns = now_ns;
	return 0;
}

void hang_drop(struct hang *h, uint32_t slot)
{
	if (slot >= h->slot_count)
		return;
	h->stats.comms -= recorded(&h->slots[slot]);
	free(h->slots[slot].comms);
	h->slots[slot] = (struct slot){0};
}

void hang_end(struct hang *h, uint32_t slot)
{
	if (slot < h->slot_count)
		h->slots[slot].ended = true;
}

/* ---- examination ---- */

static bool is_p2p(uint32_t func)
{
	return func == RECORD_COLL_SEND || func == RECORD_COLL_RECV ||
	       func >= RECORD_COLL_GROUP_START;
}

/* Converts a time of the rank's node to this machine's monotonic clock, with the pair in its last
 * beat. The realtime clocks cannot be compared; they may be hours apart. */
static int64_t here(const struct slot *s, uint64_t node_ns)
{
	return (int64_t)node_ns + s->here_ns;
}

/* The wait is counted up to the last beat, because what happened since is unknown. */
static bool is_longer(int64_t begin_ns, uint64_t heard_ns, uint64_t bound_ns)
{
	int64_t took_ns = (int64_t)heard_ns - begin_ns;

	return took_ns > 0 && (uint64_t)took_ns > bound_ns;
}

/* The rank's last collective has not ended, though earlier ones were seen to end. If none was ever
 * seen to end, their kernels are not recorded. */
static bool waits(const struct slot *s, const struct beat_comm *k, uint64_t bound_ns,
		  uint64_t now_ns)
{
	int64_t call = here(s, k->call_ns);

	/* A rank that makes progress has only lost the record of that kernel. */
	return now_ns - s->moved_ns > bound_ns / 2 && k->call_ns && !k->done_ns && k->ended &&
	       k->ended < k->entered && !is_p2p(k->func) && is_longer(call, s->seen_ns, bound_ns);
}

/* A kernel of the rank's own has not ended for this long, and the rank makes no progress. */
static bool is_stuck(const struct slot *s, uint64_t for_ns, uint64_t now_ns)
{
	int64_t launch = here(s, s->unfinished.launch_ns);

	return s->seen_ns && s->unfinished.kind == BEAT_UNFINISHED_KERNEL &&
	       now_ns - s->moved_ns > for_ns && is_longer(launch, s->seen_ns, for_ns);
}

ORDER_BY(by_comm, struct member, ORDER_UP(comm->comm) ?: ORDER_UP(slot));

/* A hang is reported only while waiting ranks still send beats. If all are silent, the job may have
 * ended, or the network to the aggregator is down. */
static bool is_heard(const struct slot *s, uint64_t alive_ns, uint64_t now_ns)
{
	return !s->ended && (now_ns <= s->seen_ns || now_ns - s->seen_ns <= alive_ns);
}

/* All memberships, sorted by communicator; NULL: no rank waits. */
static struct member *members_of(const struct hang *h, uint64_t bound_ns, uint64_t alive_ns,
				 uint64_t now_ns, uint32_t *count)
{
	struct member *v;
	uint32_t total = 0, n = 0, waiting = 0;

	for (uint32_t i = 0; i < h->slot_count; i++) {
		const struct slot *s = &h->slots[i];

		total += s->count;
		for (uint32_t k = 0; k < s->count; k++)
			waiting += waits(s, &s->comms[k], bound_ns, now_ns);
	}
	v = waiting ? malloc(total * sizeof(*v)) : NULL;
	if (!v)
		return NULL;
	for (uint32_t i = 0; i < h->slot_count; i++) {
		const struct slot *s = &h->slots[i];

		for (uint32_t k = 0; k < s->count; k++)
			v[n++] = (struct member){&s->comms[k], i,
						 waits(s, &s->comms[k], bound_ns, now_ns),
						 is_heard(s, alive_ns, now_ns)};
	}
	qsort(v, n, sizeof(*v), by_comm);
	*count = n;
	return v;
}

/* The state of a slot, for one examination. */
#define STATE_WAITS 0x01 /* for other ranks, in some communicator */
/* its own kernel does not end; its entered collectives are queued behind that kernel */
#define STATE_STUCK 0x02

/* A rank's unfinished call: the first one if the rank reports it, else the last one. */
struct call {
	uint64_t number, bytes; /* number: in the communicator, from 1 */
	uint32_t func, seq, dtype;
};

/* What the examination of one communicator found. */
struct verdict {
	enum finding_cause cause;
	const struct member *members;
	uint32_t count, waiting, missing, rooted, stuck;
	uint32_t odd;	   /* those that called another one */
	uint32_t absent;   /* missing ranks with an idle GPU: their hosts are the cause */
	uint64_t most;	   /* collectives that the waiting ranks have entered */
	uint32_t ranks;	   /* size of the communicator, as most ranks report it */
	struct call usual; /* the call in which most of them wait */
	int64_t since_ns;  /* on this machine's clock */
};

static struct call call_of(const struct beat_comm *k)
{
	if (k->open_func)
		return (struct call){.number = k->ended + 1,
				     .bytes = k->open_bytes,
				     .func = k->open_func,
				     .seq = k->open_seq,
				     .dtype = k->open_dtype};
	return (struct call){
	    .number = k->entered, .bytes = k->bytes, .func = k->func, .seq = k->seq};
}

/* Whether two calls with the same number differ. They must be equal. */
static bool differs(const struct call *a, const struct call *b)
{
	/* The root of a gather or broadcast may have another size. */
	bool same_bytes = a->func == RECORD_COLL_ALL_REDUCE || a->func == RECORD_COLL_ALL_GATHER ||
			  a->func == RECORD_COLL_REDUCE_SCATTER;

	return a->number == b->number &&
	       (a->func != b->func || (same_bytes && a->bytes != b->bytes) ||
		(a->dtype && b->dtype && a->dtype != b->dtype));
}

static bool is_odd(const struct verdict *v, const struct beat_comm *k)
{
	struct call c = call_of(k);

	return differs(&c, &v->usual);
}

static bool is_same(const struct call *a, const struct call *b)
{
	return a->number == b->number && !differs(a, b);
}

/* The majority call with this number (0: any), among the ranks that entered at least `entered`
 * collectives. False: no call has a majority, and *out is only one of them. */
static bool find_majority(const struct member *v, uint32_t n, uint64_t number, uint64_t entered,
			  struct call *out)
{
	int votes = 0, agree = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct call c = call_of(v[i].comm);

		if (v[i].comm->entered < entered || (number && c.number != number))
			continue;
		if (!votes)
			*out = c;
		votes += is_same(&c, out) ? 1 : -1;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct call c = call_of(v[i].comm);

		if (v[i].comm->entered >= entered && (!number || c.number == number))
			agree += is_same(&c, out) ? 1 : -1;
	}
	return agree > 0;
}

/* The call in which most ranks wait. The ranks that entered most collectives give its number; others
 * may have called something else under that number, and then entered fewer. */
static void find_usual(const struct member *v, uint32_t n, struct verdict *out)
{
	struct call all;

	find_majority(v, n, 0, out->most, &out->usual);
	if (find_majority(v, n, out->usual.number, 0, &all))
		out->usual = all;
	for (uint32_t i = 0; i < n && !out->ranks; i++)
		out->ranks = v[i].comm->entered == out->most ? v[i].comm->ranks : 0;
}

static enum finding_cause cause_of(const struct verdict *v)
{
	if (v->odd)
		return CAUSE_HANG_MISMATCH;
	if (v->stuck && !v->absent)
		return CAUSE_HANG_KERNEL;
	if (v->missing)
		return v->rooted ? CAUSE_HANG_MISSING : CAUSE_HANG_MISMATCH;
	return CAUSE_HANG_TRANSFER;
}

/* Whether the rank's GPU has nothing to do, so that its host is the cause. */
static bool is_absent(const struct slot *s, uint8_t state)
{
	return !state && (!s->unfinished.kind || s->unfinished.kind == BEAT_UNFINISHED_HELD);
}

/* Whether it is known why the rank has not entered a collective on the CPU. */
static bool is_held(const struct slot *s, uint8_t state)
{
	uint32_t in = s->unfinished.kind;

	return s->ended || state || in == BEAT_UNFINISHED_HELD || in == BEAT_UNFINISHED_MESSAGE;
}

/* Whether this communicator hangs, and how. */
static bool examine(const struct hang *h, const struct member *v, uint32_t n, const uint8_t *state,
		    struct verdict *out)
{
	uint32_t agree = 0;
	bool heard = false;

	*out = (struct verdict){.members = v, .count = n, .since_ns = INT64_MAX};
	for (uint32_t i = 0; i < n; i++) {
		if (is_p2p(v[i].comm->func))
			return false;
		heard |= v[i].waits && v[i].heard;
		if (v[i].waits && v[i].comm->entered > out->most)
			out->most = v[i].comm->entered;
	}
	if (!out->most || !heard)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct beat_comm *k = v[i].comm;

		if (k->entered > out->most || (k->entered == out->most && !v[i].waits))
			/* a rank has finished it, or has only just entered: no hang */
			return false;
		if (k->entered < out->most && is_on_host(k) &&
		    !is_held(&h->slots[v[i].slot], state[v[i].slot]))
			return false;
		out->stuck += state[v[i].slot] == STATE_STUCK;
		if (k->entered < out->most) {
			out->missing++;
			out->rooted += state[v[i].slot] != STATE_WAITS;
			out->absent += is_absent(&h->slots[v[i].slot], state[v[i].slot]);
			continue;
		}
		out->waiting++;
		if (here(&h->slots[v[i].slot], k->call_ns) < out->since_ns)
			out->since_ns = here(&h->slots[v[i].slot], k->call_ns);
	}
	find_usual(v, n, out);
	for (uint32_t i = 0; i < n; i++) {
		out->odd += is_odd(out, v[i].comm);
		agree += v[i].waits && !is_odd(out, v[i].comm);
	}
	out->waiting = out->odd ? agree : out->waiting;
	out->cause = cause_of(out);
	/* A single waiting rank may just have lost its records. */
	return out->odd || out->stuck || out->missing ||
	       (out->waiting > 1 && out->ranks <= out->waiting);
}

/* How much a verdict explains: a mismatch explains most, then a kernel that does not end, then a
 * missing rank that waits nowhere else. */
static uint32_t weight_of(const struct verdict *v)
{
	return (v->odd > 0) * 8u + (v->cause == CAUSE_HANG_KERNEL) * 4u + (v->rooted > 0) * 2u +
	       (v->missing > 0);
}

/* Whether a explains more than b; if equal, whether a is older. */
static bool explains_more(const struct verdict *a, const struct verdict *b)
{
	uint32_t x = weight_of(a), y = weight_of(b);

	return x != y ? x > y : a->since_ns < b->since_ns;
}

/* ---- reports ---- */

/* "AllReduce of 4096 bytes (float32)" */
static const char *call_text(const struct call *c, char *out, size_t bytes)
{
	const char *type = record_dtype_name(c->dtype);

	snprintf(out, bytes, "%s of %llu bytes%s%s%s", record_coll_name(c->func),
		 (unsigned long long)c->bytes, *type ? " (" : "", type, *type ? ")" : "");
	return out;
}

static void add_mismatch(struct finding *f, const struct verdict *v, int32_t rank,
			 const struct beat_comm *k)
{
	struct call c = call_of(k);
	char mine[96], others[96];

	finding_say_of(f, rank, LAYER_SOFTWARE, 0,
		       "rank %d called %s where the others called %s: call number %llu of "
		       "communicator %016llx",
		       rank, call_text(&c, mine, sizeof(mine)),
		       call_text(&v->usual, others, sizeof(others)), (unsigned long long)c.number,
		       (unsigned long long)k->comm);
}

static void add_culprit(struct hang *h, struct finding *f, const struct verdict *v,
			const struct member *member, uint64_t alive_ns, uint64_t now_ns)
{
	const struct slot *s = &h->slots[member->slot];
	const struct beat_comm *k = member->comm;

	if (s->ended)
		finding_say_of(f, s->rank, LAYER_UNKNOWN, 0, "rank %d: its process has ended",
			       s->rank);
	else if (!is_heard(s, alive_ns, now_ns))
		finding_say_of(f, s->rank, LAYER_UNKNOWN, 0, "rank %d: no beat for %.0f s", s->rank,
			       (double)(now_ns - s->seen_ns) / 1e9);
	if (v->odd)
		add_mismatch(f, v, s->rank, k);
	else if (is_on_host(k))
		finding_say_of(f, s->rank, LAYER_UNKNOWN, 0, "rank %d has not entered it%s%s",
			       s->rank, *s->unfinished.name ? ": " : "", s->unfinished.name);
	else
		finding_say_of(f, s->rank, LAYER_UNKNOWN, 0,
			       "rank %d has entered %llu collectives of communicator %016llx, the "
			       "waiting ranks %llu; its last one was %s %u",
			       s->rank, (unsigned long long)k->entered, (unsigned long long)k->comm,
			       (unsigned long long)v->most, record_coll_name(k->func), k->seq);
}

static void add_stuck_kernel(struct finding *f, const struct slot *s, uint64_t now_ns)
{
	const struct beat_unfinished *u = &s->unfinished;
	double since = (double)((int64_t)now_ns - here(s, u->launch_ns));

	finding_say_of(
	    f, s->rank, LAYER_GPU, since,
	    "rank %d: kernel %s, launched %.1f s ago on stream %u, has not ended; all earlier "
	    "work of its GPU has",
	    s->rank, *u->name ? u->name : "(name not known)", since / 1e9, u->stream);
}

static int64_t to_unix(const struct hang *h, int64_t here_ns)
{
	int64_t unix_ns;

	return __builtin_add_overflow(here_ns, h->unix_ns, &unix_ns) || unix_ns < 0 ? 0 : unix_ns;
}

static struct finding *begin_finding(struct hang *h, enum finding_cause cause, int64_t since_ns,
				     uint64_t now_ns)
{
	struct finding *f = &h->now.finding;

	h->now = (struct finding_report){.begin_unix_ns = (uint64_t)to_unix(h, since_ns),
					 .end_unix_ns = (uint64_t)to_unix(h, (int64_t)now_ns)};
	h->since_ns = since_ns;
	memcpy(h->now.job, h->job, sizeof(h->job));
	f->kind = FINDING_HANG;
	f->cause = cause;
	f->effect_ns = (double)((int64_t)now_ns - since_ns);
	return f;
}

/* Whether the verdict blames this rank. */
static bool is_culprit(const struct hang *h, const struct verdict *v, const struct member *member,
		       const uint8_t *state)
{
	bool behind = member->comm->entered < v->most;

	if (v->odd)
		return is_odd(v, member->comm);
	if (v->cause == CAUSE_HANG_KERNEL)
		return state[member->slot] == STATE_STUCK;
	if (v->absent)
		return behind && is_absent(&h->slots[member->slot], state[member->slot]);
	return behind && (!v->rooted || state[member->slot] != STATE_WAITS);
}

static void say_who_waits(const struct hang *h, struct finding *f, const struct verdict *v)
{
	uint32_t ranks = v->ranks > v->count ? v->ranks : v->count, first = 0;

	if (!is_on_host(v->members->comm)) {
		finding_say(f, LAYER_UNKNOWN, f->effect_ns,
			    "%u of %u ranks wait in %s %u (%llu bytes) of communicator %016llx for "
			    "%.1f s",
			    v->waiting, ranks, record_coll_name(v->usual.func), v->usual.seq,
			    (unsigned long long)v->usual.bytes,
			    (unsigned long long)v->members->comm->comm, f->effect_ns / 1e9);
		return;
	}
	while (first < v->count && !v->members[first].waits)
		first++;
	finding_say(f, LAYER_UNKNOWN, f->effect_ns,
		    "%u of %u ranks wait in a collective on the CPU (%s) for %.1f s", v->waiting,
		    ranks, h->slots[v->members[first].slot].unfinished.name, f->effect_ns / 1e9);
}

static void report_hang(struct hang *h, const struct verdict *v, const uint8_t *state,
			uint64_t alive_ns, uint64_t now_ns)
{
	struct finding *f = begin_finding(h, v->cause, v->since_ns, now_ns);
	int64_t step = -1;
	bool silent = false;

	say_who_waits(h, f, v);
	if (v->ranks > v->count)
		finding_say(f, LAYER_UNKNOWN, 0, "%u of its ranks are not known to this aggregator",
			    v->ranks - v->count);
	for (uint32_t i = 0; i < v->count; i++) {
		const struct member *member = &v->members[i];

		if (h->slots[member->slot].step > step)
			step = h->slots[member->slot].step;
		if (f->rank_count == FINDING_RANKS_MAX || !is_culprit(h, v, member, state))
			continue;
		silent |= !member->heard;
		f->ranks[f->rank_count++] = h->slots[member->slot].rank;
		if (v->cause == CAUSE_HANG_KERNEL)
			add_stuck_kernel(f, &h->slots[member->slot], now_ns);
		else
			add_culprit(h, f, v, member, alive_ns, now_ns);
	}
	f->first_step = f->last_step = step > 0 ? (uint64_t)step : 0;
	f->confidence = v->cause == CAUSE_HANG_TRANSFER ? 0.6 : silent ? 0.8 : 0.95;
}

/* Reports kernels that do not end while no rank waits in a collective, in a job of one rank or of
 * ranks that only use point-to-point calls. */
static void report_stuck(struct hang *h, const uint8_t *state, uint64_t now_ns)
{
	int64_t since = (int64_t)now_ns;
	struct finding *f;
	int64_t step = -1;

	for (uint32_t i = 0; i < h->slot_count; i++) {
		int64_t launch = here(&h->slots[i], h->slots[i].unfinished.launch_ns);

		if (state[i] == STATE_STUCK && launch < since)
			since = launch;
	}
	f = begin_finding(h, CAUSE_HANG_KERNEL, since, now_ns);
	for (uint32_t i = 0; i < h->slot_count && f->rank_count < FINDING_RANKS_MAX; i++) {
		if (state[i] != STATE_STUCK)
			continue;
		step = h->slots[i].step > step ? h->slots[i].step : step;
		f->ranks[f->rank_count++] = h->slots[i].rank;
		add_stuck_kernel(f, &h->slots[i], now_ns);
	}
	f->first_step = f->last_step = step > 0 ? (uint64_t)step : 0;
	f->confidence = 0.7;
}

static void close_hang(struct hang *h, uint64_t now_ns)
{
	if (!h->open)
		return;
	h->open = false;
	h->ended = h->changed = true;
	h->now.ended = true;
	h->now.end_unix_ns = (uint64_t)to_unix(h, (int64_t)now_ns);
}

/* The communicator that explains most; false: none hangs. */
static bool choose_communicator(const struct hang *h, const struct member *all, uint32_t count,
				const uint8_t *state, struct verdict *best)
{
	bool found = false;
	struct verdict v;

	for (uint32_t begin = 0, end = 0; begin < count; begin = end) {
		while (end < count && all[end].comm->comm == all[begin].comm->comm)
			end++;
		if (examine(h, all + begin, end - begin, state, &v) &&
		    (!found || explains_more(&v, best))) {
			*best = v;
			found = true;
		}
	}
	return found;
}

/* Fills STATE_* of every slot. Returns the number of slots that are stuck for longer than the
 * bound. */
static uint32_t states_of(const struct hang *h, const struct member *all, uint32_t count,
			  uint64_t bound_ns, uint64_t alive_ns, uint64_t now_ns, uint8_t *state)
{
	uint32_t stuck = 0;

	for (uint32_t i = 0; i < count; i++)
		if (all[i].waits)
			state[all[i].slot] = STATE_WAITS;
	for (uint32_t i = 0; i < h->slot_count; i++)
		if (is_stuck(&h->slots[i], bound_ns / 2, now_ns)) {
			state[i] = STATE_STUCK;
			stuck += is_heard(&h->slots[i], alive_ns, now_ns) &&
				 is_stuck(&h->slots[i], bound_ns, now_ns);
		}
	return stuck;
}

/* The job's realtime clock is the median of its nodes' clocks. False: no memory. */
static bool read_clock(struct hang *h)
{
	double *v = malloc((h->slot_count + 1) * sizeof(*v));
	uint32_t n = 0;

	for (uint32_t i = 0; v && i < h->slot_count; i++)
		if (h->slots[i].seen_ns)
			v[n++] = (double)h->slots[i].unix_ns - (double)h->slots[i].here_ns;
	if (n)
		h->unix_ns =
		    (int64_t)fmax(-(double)TIME_MAX, fmin(median_of(v, n), (double)TIME_MAX));
	free(v);
	return n > 0;
}

void hang_tick(struct hang *h, uint64_t bound_ns, uint64_t alive_ns, uint64_t now_ns)
{
	struct verdict best = {0};
	uint32_t count = 0, stuck = 0;
	struct member *all = members_of(h, bound_ns, alive_ns, now_ns, &count);
	uint8_t *state = calloc(h->slot_count + 1, sizeof(*state));
	bool found = false;

	if (state)
		stuck = states_of(h, all, count, bound_ns, alive_ns, now_ns, state);
	if (state && all)
		found = choose_communicator(h, all, count, state, &best);
	if (!found && !stuck) {
		close_hang(h, now_ns);
	} else if (h->open ? now_ns - h->reported_ns >= thresholds.time.together_ns
			   : read_clock(h)) {
		h->stats.findings += !h->open;
		h->open = h->changed = true;
		h->ended = false;
		h->reported_ns = now_ns;
		if (found)
			report_hang(h, &best, state, alive_ns, now_ns);
		else
			report_stuck(h, state, now_ns);
	}
	free(state);
	free(all);
}

bool hang_next(struct hang *h, struct finding_report *out)
{
	if (!h->changed)
		return false;
	h->changed = false;
	*out = h->now;
	return true;
}

bool hang_is_open(const struct hang *h)
{
	return h->open;
}

const struct finding *hang_finding(const struct hang *h)
{
	return h->open ? &h->now.finding : NULL;
}

uint64_t hang_since_ns(const struct hang *h)
{
	return h->open && h->since_ns > 0 ? (uint64_t)h->since_ns : 0;
}

void hang_stats(const struct hang *h, struct hang_stats *out)
{
	*out = h->stats;
}
