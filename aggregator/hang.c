/* SPDX-License-Identifier: Apache-2.0
 * Nothing is looked up per beat: a job is examined only while one of its ranks has waited too long,
 * and then all of it, sorted by communicator. */
#include "aggregator/hang.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/text.h"
#include "analysis/record.h"
#include "base/limits.h"

#define TELL_NS	 10000000000ull
#define TIME_MAX (1ull << 62)

struct slot {
	int32_t rank;
	uint32_t count;
	uint64_t seen_ns, steps;
	int64_t step, offset_ns;
	uint64_t moved_ns; /* when its steps last went on */
	struct beat_comm *comms;
};

struct hang {
	char job[WIRE_TEXT_BYTES];
	struct slot *slots;
	uint32_t slot_count;
	struct hang_stats stats;
	bool open, changed, ended;
	uint64_t told_ns;
	struct incident_finding now; /* while open */
};

/* A rank in a communicator, for one examination. */
struct seat {
	const struct beat_comm *comm;
	uint32_t slot;
	bool waits;
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
	uint32_t room = h->slot_count ? h->slot_count : 8;
	struct slot *slots;

	if (slot < h->slot_count)
		return &h->slots[slot];
	if (slot >= LIMIT_FLEET_RANKS)
		return NULL;
	while (room <= slot)
		room *= 2;
	slots = realloc(h->slots, room * sizeof(*slots));
	if (!slots)
		return NULL;
	memset(slots + h->slot_count, 0, (room - h->slot_count) * sizeof(*slots));
	h->slots = slots;
	h->slot_count = room;
	return &slots[slot];
}

static bool is_sane(const struct beat_comm *k)
{
	return k->call_ns < TIME_MAX && k->done_ns < TIME_MAX && k->ended <= k->entered &&
	       k->ranks <= LIMIT_FLEET_RANKS;
}

int hang_push(struct hang *h, uint32_t slot, const struct beat_rank *b, int64_t step,
	      int64_t offset_ns, uint64_t now_ns)
{
	struct slot *s = slot_at(h, slot);
	uint32_t count = b->comm_count < BEAT_COMMS_MAX ? b->comm_count : BEAT_COMMS_MAX, n = 0;

	if (!s)
		return -ENOMEM;
	h->stats.comms -= s->count;
	if (count > s->count || !s->comms) {
		struct beat_comm *comms = realloc(s->comms, (count + !count) * sizeof(*comms));

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
	s->count = n;
	h->stats.comms += n;
	if (!s->seen_ns || b->steps != s->steps)
		s->moved_ns = now_ns;
	s->rank = b->rank.rank;
	s->steps = b->steps;
	s->step = step;
	s->offset_ns = offset_ns;
	s->seen_ns = now_ns;
	return 0;
}

void hang_drop(struct hang *h, uint32_t slot)
{
	if (slot >= h->slot_count)
		return;
	h->stats.comms -= h->slots[slot].count;
	free(h->slots[slot].comms);
	h->slots[slot] = (struct slot){0};
}

/* ---- one examination ---- */

static bool is_p2p(uint32_t func)
{
	return func == RECORD_COLL_SEND || func == RECORD_COLL_RECV ||
	       func >= RECORD_COLL_GROUP_START;
}

/* Its last collective was not seen to end, though earlier ones were: who never saw one end sees
 * none. */
static bool waits(const struct slot *s, const struct beat_comm *k, uint64_t bound_ns,
		  uint64_t now_ns, uint64_t now_unix_ns)
{
	uint64_t call = k->call_ns + (uint64_t)s->offset_ns;

	/* Whose steps go on has only lost the record of that kernel. */
	return now_ns - s->moved_ns > bound_ns / 2 && k->call_ns && !k->done_ns && k->ended &&
	       k->ended < k->entered && !is_p2p(k->func) && now_unix_ns > call &&
	       now_unix_ns - call > bound_ns;
}

static int by_comm(const void *a, const void *b)
{
	const struct seat *x = a, *y = b;

	if (x->comm->comm != y->comm->comm)
		return x->comm->comm < y->comm->comm ? -1 : 1;
	return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* All seats, by communicator; NULL: nobody waits. */
static struct seat *seats_of(const struct hang *h, uint64_t bound_ns, uint64_t now_ns,
			     uint64_t now_unix_ns, uint32_t *count)
{
	struct seat *v;
	uint32_t total = 0, n = 0, waiting = 0;

	for (uint32_t i = 0; i < h->slot_count; i++) {
		const struct slot *s = &h->slots[i];

		total += s->count;
		for (uint32_t k = 0; k < s->count; k++)
			waiting += waits(s, &s->comms[k], bound_ns, now_ns, now_unix_ns);
	}
	v = waiting ? malloc(total * sizeof(*v)) : NULL;
	if (!v)
		return NULL;
	for (uint32_t i = 0; i < h->slot_count; i++) {
		const struct slot *s = &h->slots[i];

		for (uint32_t k = 0; k < s->count; k++)
			v[n++] = (struct seat){
			    &s->comms[k], i, waits(s, &s->comms[k], bound_ns, now_ns, now_unix_ns)};
	}
	qsort(v, n, sizeof(*v), by_comm);
	*count = n;
	return v;
}

/* What one communicator says. */
struct verdict {
	enum finding_cause cause;
	const struct seat *seats;
	uint32_t count, waiting, missing, odd, rooted;
	uint64_t most;		       /* collectives entered by those that wait */
	const struct beat_comm *usual; /* what most of them wait in */
	uint64_t since_unix_ns;
};

static bool differs(const struct beat_comm *a, const struct beat_comm *b)
{
	/* Gathers and broadcasts may have another size at their root. */
	bool same_bytes = a->func == RECORD_COLL_ALL_REDUCE || a->func == RECORD_COLL_ALL_GATHER ||
			  a->func == RECORD_COLL_REDUCE_SCATTER;

	return a->func != b->func || (same_bytes && a->bytes != b->bytes);
}

/* Among those that wait in the last one: what most of them called. */
static const struct beat_comm *usual_of(const struct seat *v, uint32_t n, uint64_t most)
{
	const struct beat_comm *best = NULL;
	int votes = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (v[i].comm->entered != most)
			continue;
		if (!votes)
			best = v[i].comm;
		votes += differs(best, v[i].comm) ? -1 : 1;
	}
	return best;
}

/* Whether this communicator hangs, and how. */
static bool examine(const struct hang *h, const struct seat *v, uint32_t n, const bool *busy,
		    struct verdict *out)
{
	*out = (struct verdict){.seats = v, .count = n, .since_unix_ns = UINT64_MAX};
	for (uint32_t i = 0; i < n; i++) {
		if (is_p2p(v[i].comm->func))
			return false;
		if (v[i].waits && v[i].comm->entered > out->most)
			out->most = v[i].comm->entered;
	}
	if (!out->most)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct beat_comm *k = v[i].comm;

		if (k->entered > out->most || (k->entered == out->most && !v[i].waits))
			return false; /* one is through, or has only just come: it goes on */
		if (k->entered < out->most) {
			out->missing++;
			out->rooted += !busy[v[i].slot];
			continue;
		}
		out->waiting++;
		if (k->call_ns + (uint64_t)h->slots[v[i].slot].offset_ns < out->since_unix_ns)
			out->since_unix_ns = k->call_ns + (uint64_t)h->slots[v[i].slot].offset_ns;
	}
	out->usual = usual_of(v, n, out->most);
	for (uint32_t i = 0; i < n; i++)
		out->odd += v[i].comm->entered == out->most && differs(v[i].comm, out->usual);
	out->cause = out->odd	    ? CAUSE_HANG_MISMATCH
		     : out->missing ? (out->rooted ? CAUSE_HANG_MISSING : CAUSE_HANG_MISMATCH)
				    : CAUSE_HANG_TRANSFER;
	/* One that is alone in telling may have lost its records. */
	return out->odd || out->missing || (out->waiting > 1 && out->usual->ranks <= out->waiting);
}

/* The better explanation of the two: a difference, then missing ranks that wait for nobody. */
static bool explains_more(const struct verdict *a, const struct verdict *b)
{
	uint32_t x = (a->odd > 0) * 4u + (a->rooted > 0) * 2u + (a->missing > 0);
	uint32_t y = (b->odd > 0) * 4u + (b->rooted > 0) * 2u + (b->missing > 0);

	if (x != y)
		return x > y;
	return a->since_unix_ns < b->since_unix_ns;
}

/* ---- telling ---- */

static void say_seat(struct hang *h, struct finding *f, const struct verdict *v,
		     const struct seat *seat, uint64_t alive_ns, uint64_t now_ns)
{
	const struct slot *s = &h->slots[seat->slot];
	const struct beat_comm *k = seat->comm;

	if (now_ns - s->seen_ns > alive_ns)
		finding_say(f, LAYER_UNKNOWN, 0, "rank %d: no beat for %.0f s", s->rank,
			    (double)(now_ns - s->seen_ns) / 1e9);
	if (k->entered == v->most)
		finding_say(f, LAYER_SOFTWARE, 0,
			    "rank %d called %s of %llu bytes where the others called %s of %llu "
			    "bytes, both "
			    "as number %llu of communicator %016llx",
			    s->rank, record_coll_name(k->func), (unsigned long long)k->bytes,
			    record_coll_name(v->usual->func), (unsigned long long)v->usual->bytes,
			    (unsigned long long)k->entered, (unsigned long long)k->comm);
	else
		finding_say(f, LAYER_UNKNOWN, 0,
			    "rank %d has entered %llu collectives of communicator %016llx, the "
			    "waiting ranks "
			    "%llu; its last one was %s %u",
			    s->rank, (unsigned long long)k->entered, (unsigned long long)k->comm,
			    (unsigned long long)v->most, record_coll_name(k->func), k->seq);
}

static void tell(struct hang *h, const struct verdict *v, const bool *busy, uint64_t alive_ns,
		 uint64_t now_ns, uint64_t now_unix_ns)
{
	struct finding *f = &h->now.finding;
	uint64_t waited = now_unix_ns - v->since_unix_ns;
	int64_t step = -1;
	bool silent = false;

	h->now = (struct incident_finding){.begin_unix_ns = v->since_unix_ns,
					   .end_unix_ns = now_unix_ns};
	memcpy(h->now.job, h->job, sizeof(h->job));
	f->kind = FINDING_HANG;
	f->cause = v->cause;
	f->effect_ns = (double)waited;
	finding_say(f, LAYER_UNKNOWN, (double)waited,
		    "%u of %u ranks wait in %s %u (%llu bytes) of communicator %016llx for %.1f s",
		    v->waiting, v->usual->ranks > v->count ? v->usual->ranks : v->count,
		    record_coll_name(v->usual->func), v->usual->seq,
		    (unsigned long long)v->usual->bytes, (unsigned long long)v->usual->comm,
		    (double)waited / 1e9);
	if (v->usual->ranks > v->count)
		finding_say(f, LAYER_UNKNOWN, 0, "%u of its ranks are not known here",
			    v->usual->ranks - v->count);
	for (uint32_t i = 0; i < v->count; i++) {
		const struct seat *seat = &v->seats[i];
		bool behind = seat->comm->entered < v->most;
		bool guilty = v->odd ? !behind && differs(seat->comm, v->usual)
				     : behind && (!v->rooted || !busy[seat->slot]);

		if (h->slots[seat->slot].step > step)
			step = h->slots[seat->slot].step;
		if (!guilty || f->rank_count == FINDING_RANKS_MAX)
			continue;
		silent |= now_ns - h->slots[seat->slot].seen_ns > alive_ns;
		f->ranks[f->rank_count++] = h->slots[seat->slot].rank;
		say_seat(h, f, v, seat, alive_ns, now_ns);
	}
	f->first_step = f->last_step = step > 0 ? (uint64_t)step : 0;
	f->confidence = v->cause == CAUSE_HANG_TRANSFER ? 0.6 : silent ? 0.8 : 0.95;
}

static void close_one(struct hang *h, uint64_t now_unix_ns)
{
	if (!h->open)
		return;
	h->open = false;
	h->ended = h->changed = true;
	h->now.ended = true;
	h->now.end_unix_ns = now_unix_ns;
}

void hang_tick(struct hang *h, uint64_t bound_ns, uint64_t alive_ns, uint64_t now_ns,
	       uint64_t now_unix_ns)
{
	struct verdict best = {0}, v;
	uint32_t count = 0, begin = 0;
	struct seat *all = seats_of(h, bound_ns, now_ns, now_unix_ns, &count);
	bool *busy = all ? calloc(h->slot_count, sizeof(*busy)) : NULL;
	bool found = false;

	for (uint32_t i = 0; busy && i < count; i++)
		busy[all[i].slot] |= all[i].waits;
	while (busy && begin < count) {
		uint32_t end = begin;

		while (end < count && all[end].comm->comm == all[begin].comm->comm)
			end++;
		if (examine(h, all + begin, end - begin, busy, &v) &&
		    (!found || explains_more(&v, &best))) {
			best = v;
			found = true;
		}
		begin = end;
	}
	if (!found) {
		close_one(h, now_unix_ns);
	} else if (!h->open || now_ns - h->told_ns >= TELL_NS) {
		h->stats.findings += !h->open;
		h->open = h->changed = true;
		h->ended = false;
		h->told_ns = now_ns;
		tell(h, &best, busy, alive_ns, now_ns, now_unix_ns);
	}
	free(busy);
	free(all);
}

bool hang_next(struct hang *h, struct incident_finding *out)
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

void hang_stats(const struct hang *h, struct hang_stats *out)
{
	*out = h->stats;
}
