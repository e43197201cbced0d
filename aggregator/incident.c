/* SPDX-License-Identifier: Apache-2.0
 * An incident keeps sums per rank and not its windows, so that a storm of ten thousand windows costs
 * what its ranks cost; the windows are in the store. Sums don't depend on the order of arrival. */
#include "aggregator/incident.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/text.h"
#include "base/hash.h"
#include "base/limits.h"

/* A rank is a culprit when it lost at least this share of what the worst rank lost: several
 * stragglers of one fault lose alike, echoes of a fault lose little. */
#define CULPRIT_SHARE 0.5
#define NAMED_RANKS_MAX 256
/* A host that is late once makes one or two steps of a rank slow. That is told apart as a hiccup: up to
 * so many flagged steps of any rank, and less than so much of a rank's own time lost in all. */
#define HICCUP_STEPS_MAX 2
#define HICCUP_LOST_NS	 1e9
/* And so many in all, with healthy ones between; more is a rank that is slow now and then. */
#define HICCUP_ALL_MAX	 4
/* Two readings of a node's clock differ by less; steps are longer. */
#define CLOCK_JITTER_NS 100000
/* More than any window has flagged steps, and small enough for a double to add one half to it. */
#define OWN_WEIGHT 1e12

struct member {
	int32_t rank;
	char node[WIRE_TEXT_BYTES];
	int32_t world_size;
	uint32_t reasons; /* bit per enum window_reason */
	uint64_t windows, summaries, flagged, first_step, last_step, onset_step, collectives, lost;
	double self_excess_ns;
	char lost_cause[32];
	double weight; /* of the window that the medians and parts below come from */
	double latency_ns, expected_ns, self_ns, expected_self_ns;
	struct digest_part *parts; /* DIGEST_PARTS_MAX or NULL */
	uint32_t part_count;
	struct os_signal *signals; /* DIGEST_SIGNALS_MAX or NULL; of all windows, the strongest */
	uint32_t signal_count;
};

struct anomaly {
	uint8_t id[16];
};

/* Slow steps of one rank without healthy ones between: windows that go on where another ends. (An
 * anomaly also holds what comes seconds later.) */
struct run {
	uint64_t member; /* member_key() */
	uint32_t reasons;
	uint64_t flagged, first_step, last_step, onset_step;
	uint64_t begin_unix_ns, end_unix_ns;
	double self_excess_ns;
};

struct incident {
	struct incident *next;
	struct incident_row row;
	struct member *members;
	uint32_t member_count, member_room;
	struct anomaly *anomalies; /* of the members' windows, for those that arrive far apart */
	uint32_t anomaly_count, anomaly_room;
	struct run *runs;
	uint32_t run_count, run_room;
	uint64_t windows, bytes, raw_bytes, ranks_dropped;
	uint64_t order; /* of creation */
};

struct incident_set {
	struct incident_config config;
	struct incident *first;
	uint32_t count;
	uint64_t orders;
};

int incident_set_open(struct incident_set **out, const struct incident_config *c)
{
	struct incident_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->config = *c;
	*out = s;
	return 0;
}

static void incident_free(struct incident *i)
{
	for (uint32_t k = 0; k < i->member_count; k++) {
		free(i->members[k].parts);
		free(i->members[k].signals);
	}
	free(i->members);
	free(i->anomalies);
	free(i->runs);
	free(i);
}

void incident_set_close(struct incident_set *s)
{
	if (!s)
		return;
	while (s->first) {
		struct incident *next = s->first->next;

		incident_free(s->first);
		s->first = next;
	}
	free(s);
}

static struct incident *find(const struct incident_set *s, const char *id)
{
	struct incident *i = s->first;

	while (i && strcmp(i->row.id, id))
		i = i->next;
	return i;
}

static void unlink_incident(struct incident_set *s, struct incident *gone)
{
	struct incident **at = &s->first;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	s->count--;
}

/* Room for one more: the closed incident that has been silent longest goes (it stays in the store). */
static void make_room(struct incident_set *s)
{
	struct incident *oldest = NULL;

	if (s->count < LIMIT_INCIDENTS_LIVE)
		return;
	for (struct incident *i = s->first; i; i = i->next)
		if (!oldest || (oldest->row.open && !i->row.open) ||
		    (oldest->row.open == i->row.open &&
		     i->row.arrival_unix_ns < oldest->row.arrival_unix_ns))
			oldest = i;
	unlink_incident(s, oldest);
	incident_free(oldest);
}

static struct incident *incident_new(struct incident_set *s, const struct incident_row *row)
{
	struct incident *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	make_room(s);
	i->row = *row;
	i->order = s->orders++;
	i->next = s->first;
	s->first = i;
	s->count++;
	return i;
}

static int grow(void **list, uint32_t count, uint32_t *room, size_t item)
{
	uint32_t more = *room ? 2 * *room : 8;
	void *p;

	if (count < *room)
		return 0;
	p = realloc(*list, more * item);
	if (!p)
		return -ENOMEM;
	*list = p;
	*room = more;
	return 0;
}

static struct member *member_of(struct incident *i, const struct digest *d)
{
	struct member *m;

	for (uint32_t k = 0; k < i->member_count; k++) {
		m = &i->members[k];
		/* ranks that nobody numbered are told apart by their node */
		if (m->rank == d->rank.rank &&
		    (m->rank >= 0 || !strcmp(m->node, d->rank.node)))
			return m;
	}
	if (i->member_count >= LIMIT_INCIDENT_RANKS) {
		i->ranks_dropped++;
		return NULL;
	}
	if (grow((void **)&i->members, i->member_count, &i->member_room, sizeof(*m)))
		return NULL;
	m = &i->members[i->member_count++];
	*m = (struct member){ .rank = d->rank.rank, .world_size = d->rank.world_size };
	text_copy(m->node, sizeof(m->node), d->rank.node);
	return m;
}

static bool has_anomaly(const struct incident *i, const uint8_t id[16])
{
	for (uint32_t k = 0; k < i->anomaly_count; k++)
		if (!memcmp(i->anomalies[k].id, id, 16))
			return true;
	return false;
}

static void anomaly_take(struct incident *i, const uint8_t id[16])
{
	if (!has_anomaly(i, id) && i->anomaly_count < LIMIT_INCIDENT_RANKS &&
	    !grow((void **)&i->anomalies, i->anomaly_count, &i->anomaly_room, sizeof(*i->anomalies)))
		memcpy(i->anomalies[i->anomaly_count++].id, id, 16);
}

/* Ranks that nobody numbered are told apart by their node, as members are. */
static uint64_t member_key(int32_t rank, const char *node)
{
	return rank >= 0 ? (uint64_t)rank : hash_bytes(HASH_SEED, node, strlen(node)) | 1ull << 63;
}

static void run_merge(struct run *to, const struct run *from)
{
	if (from->flagged && (!to->flagged || from->first_step < to->first_step)) {
		to->first_step = from->first_step;
		to->onset_step = from->onset_step;
	}
	if (from->last_step > to->last_step)
		to->last_step = from->last_step;
	if (from->begin_unix_ns < to->begin_unix_ns)
		to->begin_unix_ns = from->begin_unix_ns;
	if (from->end_unix_ns > to->end_unix_ns)
		to->end_unix_ns = from->end_unix_ns;
	to->reasons |= from->reasons;
	to->flagged += from->flagged;
	to->self_excess_ns += from->self_excess_ns;
}

static bool touches(const struct run *a, const struct run *b)
{
	return a->member == b->member &&
	       (a->begin_unix_ns <= b->end_unix_ns ||
		a->begin_unix_ns - b->end_unix_ns <= CLOCK_JITTER_NS) &&
	       (b->begin_unix_ns <= a->end_unix_ns ||
		b->begin_unix_ns - a->end_unix_ns <= CLOCK_JITTER_NS);
}

/* Without room it is left out: the sums per rank have it. */
static void run_take(struct incident *i, struct run r)
{
	for (uint32_t k = 0; k < i->run_count;) {
		if (!touches(&i->runs[k], &r)) {
			k++;
			continue;
		}
		run_merge(&r, &i->runs[k]);
		i->runs[k] = i->runs[--i->run_count];
		k = 0; /* it has grown: what it did not touch may do so now */
	}
	if (i->run_count < LIMIT_INCIDENT_RANKS &&
	    !grow((void **)&i->runs, i->run_count, &i->run_room, sizeof(*i->runs)))
		i->runs[i->run_count++] = r;
}

static bool is_own(const struct digest *d)
{
	return d->reason == WINDOW_SELF || d->reason == WINDOW_PEER || d->reason == WINDOW_DRIFT ||
	       d->reason == WINDOW_STALL;
}

/* Medians and explanation are those of the window that says most: what the rank did itself before
 * what it waited for, then the most flagged steps. */
static void take_better(struct member *m, const struct digest *d)
{
	double weight = (double)d->flagged + (d->part_count ? 0.5 : 0) + (is_own(d) ? OWN_WEIGHT : 0);

	if (m->windows && weight <= m->weight)
		return;
	if (is_own(d) && m->weight < OWN_WEIGHT)
		m->part_count = 0;
	m->weight = weight;
	m->latency_ns = d->latency_ns;
	m->expected_ns = d->expected_ns;
	m->self_ns = d->self_ns;
	m->expected_self_ns = d->expected_self_ns;
	if (!d->part_count)
		return;
	if (!m->parts)
		m->parts = malloc(DIGEST_PARTS_MAX * sizeof(*m->parts));
	m->part_count = m->parts ? d->part_count : 0;
	if (m->parts)
		memcpy(m->parts, d->parts, d->part_count * sizeof(*m->parts));
}

/* Without memory they are left out: they explain, and decide nothing. */
static void take_signals(struct member *m, const struct os_signal *signals, uint32_t count)
{
	if (count && !m->signals)
		m->signals = malloc(DIGEST_SIGNALS_MAX * sizeof(*m->signals));
	for (uint32_t k = 0; m->signals && k < count; k++)
		os_signal_put(m->signals, &m->signal_count, DIGEST_SIGNALS_MAX, &signals[k]);
}

static void member_add(struct member *m, const struct digest *d)
{
	/* What somebody asked for repeats steps that other windows have told of. */
	bool repeats = d->reason == WINDOW_ASKED || d->reason == WINDOW_MANUAL;

	take_better(m, d);
	if (!repeats)
		take_signals(m, d->signals, d->signal_count);
	if (d->flagged && !repeats) {
		if (!m->flagged || d->first_step < m->first_step) {
			m->first_step = d->first_step;
			m->onset_step = d->onset_step;
		}
		if (d->last_step > m->last_step)
			m->last_step = d->last_step;
	}
	m->windows++;
	m->summaries += d->summary_only;
	m->flagged += repeats ? 0 : d->flagged;
	m->reasons |= 1u << d->reason;
	if (is_own(d))
		m->self_excess_ns += d->self_excess_ns;
	if (d->collectives > m->collectives)
		m->collectives = d->collectives;
	if (d->lost > m->lost) {
		m->lost = d->lost;
		text_copy(m->lost_cause, sizeof(m->lost_cause), d->lost_cause);
	}
}

static void incident_add(struct incident *i, const struct digest *d, uint64_t arrival_unix_ns)
{
	struct run r = { .member = member_key(d->rank.rank, d->rank.node), .reasons = 1u << d->reason,
			 .begin_unix_ns = d->begin_unix_ns, .end_unix_ns = d->end_unix_ns,
			 .flagged = d->flagged, .self_excess_ns = d->self_excess_ns };
	struct member *m = member_of(i, d);

	if (m)
		member_add(m, d);
	if (d->flagged) {
		r.first_step = d->first_step;
		r.last_step = d->last_step;
		r.onset_step = d->onset_step;
	}
	anomaly_take(i, d->anomaly_id);
	/* what somebody asked for is no slowness of its own */
	if (d->reason != WINDOW_ASKED && d->reason != WINDOW_MANUAL)
		run_take(i, r);
	i->windows++;
	i->bytes += d->bytes;
	i->raw_bytes += d->raw_bytes;
	if (d->begin_unix_ns < i->row.begin_unix_ns)
		i->row.begin_unix_ns = d->begin_unix_ns;
	if (d->end_unix_ns > i->row.end_unix_ns)
		i->row.end_unix_ns = d->end_unix_ns;
	if (arrival_unix_ns > i->row.arrival_unix_ns)
		i->row.arrival_unix_ns = arrival_unix_ns;
}

/* ---- which incident ---- */

static bool near(const struct incident_set *s, const struct incident *i, const struct digest *d)
{
	uint64_t gap = s->config.gap_ns;

	return (d->begin_unix_ns <= i->row.end_unix_ns ||
		d->begin_unix_ns - i->row.end_unix_ns <= gap) &&
	       (i->row.begin_unix_ns <= d->end_unix_ns ||
		i->row.begin_unix_ns - d->end_unix_ns <= gap);
}

static bool continues(const struct incident *i, const struct digest *d)
{
	static const uint8_t none[16];

	return memcmp(d->anomaly_id, none, 16) && has_anomaly(i, d->anomaly_id);
}

static bool belongs(const struct incident_set *s, const struct incident *i, const struct digest *d)
{
	return !strcmp(i->row.job, d->rank.job) && (near(s, i, d) || continues(i, d));
}

static struct incident *oldest_match(const struct incident_set *s, const struct digest *d)
{
	struct incident *best = NULL;

	for (struct incident *i = s->first; i; i = i->next)
		if (belongs(s, i, d) && (!best || i->order < best->order))
			best = i;
	return best;
}

/* Sums of one member into the other's; the parts change hands. */
static void member_merge(struct member *to, struct member *from)
{
	if (from->flagged && (!to->flagged || from->first_step < to->first_step)) {
		to->first_step = from->first_step;
		to->onset_step = from->onset_step;
	}
	if (from->last_step > to->last_step)
		to->last_step = from->last_step;
	if (from->weight > to->weight) {
		struct digest_part *parts = to->parts;

		to->weight = from->weight;
		to->latency_ns = from->latency_ns;
		to->expected_ns = from->expected_ns;
		to->self_ns = from->self_ns;
		to->expected_self_ns = from->expected_self_ns;
		if (from->part_count) {
			to->parts = from->parts;
			to->part_count = from->part_count;
			from->parts = parts;
		}
	}
	take_signals(to, from->signals, from->signal_count);
	to->windows += from->windows;
	to->summaries += from->summaries;
	to->flagged += from->flagged;
	to->reasons |= from->reasons;
	to->self_excess_ns += from->self_excess_ns;
	if (from->collectives > to->collectives)
		to->collectives = from->collectives;
	if (from->lost > to->lost) {
		to->lost = from->lost;
		memcpy(to->lost_cause, from->lost_cause, sizeof(to->lost_cause));
	}
}

static void incident_merge(struct incident *to, struct incident *from)
{
	for (uint32_t k = 0; k < from->member_count; k++) {
		struct digest key = { .rank = { .rank = from->members[k].rank,
						.world_size = from->members[k].world_size } };
		struct member *m;

		text_copy(key.rank.node, sizeof(key.rank.node), from->members[k].node);
		m = member_of(to, &key);
		if (m)
			member_merge(m, &from->members[k]);
	}
	for (uint32_t k = 0; k < from->anomaly_count; k++)
		anomaly_take(to, from->anomalies[k].id);
	for (uint32_t k = 0; k < from->run_count; k++)
		run_take(to, from->runs[k]);
	to->windows += from->windows;
	to->bytes += from->bytes;
	to->raw_bytes += from->raw_bytes;
	if (from->row.begin_unix_ns < to->row.begin_unix_ns)
		to->row.begin_unix_ns = from->row.begin_unix_ns;
	if (from->row.end_unix_ns > to->row.end_unix_ns)
		to->row.end_unix_ns = from->row.end_unix_ns;
	to->row.open |= from->row.open;
}

/* The grown incident may now touch others of its job. */
static void absorb(struct incident_set *s, struct incident *to, const struct digest *d,
		   struct incident_change *out)
{
	struct incident *i = s->first;

	while (i && out->absorbed_count < INCIDENT_ABSORB_MAX) {
		struct incident *next = i->next;

		if (i != to && belongs(s, i, d)) {
			incident_merge(to, i);
			text_copy(out->absorbed[out->absorbed_count++], INCIDENT_ID_BYTES,
				  i->row.id);
			unlink_incident(s, i);
			incident_free(i);
		}
		i = next;
	}
}

static void new_id(const struct incident_set *s, const struct digest *d, char id[INCIDENT_ID_BYTES])
{
	uint64_t h = hash_mix(hash_bytes(HASH_SEED, d->id, sizeof(d->id)));

	do {
		snprintf(id, INCIDENT_ID_BYTES, "%08x", (uint32_t)h);
		h = hash_mix(h + 1);
	} while (find(s, id));
}

int incident_set_add(struct incident_set *s, const struct digest *d, uint64_t arrival_unix_ns,
		     struct incident_change *out)
{
	struct incident *i = oldest_match(s, d);

	memset(out, 0, sizeof(*out));
	if (!i && (d->reason == WINDOW_ASKED || d->reason == WINDOW_MANUAL))
		return 0;
	if (!i) {
		struct incident_row row = { .open = true, .begin_unix_ns = d->begin_unix_ns,
					    .end_unix_ns = d->end_unix_ns };

		text_copy(row.job, sizeof(row.job), d->rank.job);
		new_id(s, d, row.id);
		i = incident_new(s, &row);
		if (!i)
			return -ENOMEM;
		out->opened = true;
	}
	incident_add(i, d, arrival_unix_ns);
	i->row.open = true;
	absorb(s, i, d, out);
	text_copy(out->id, sizeof(out->id), i->row.id);
	return 0;
}

int incident_set_restore(struct incident_set *s, const struct incident_row *row)
{
	if (find(s, row->id))
		return -EEXIST;
	return incident_new(s, row) ? 0 : -ENOMEM;
}

int incident_set_restore_window(struct incident_set *s, const char *id, const struct digest *d)
{
	struct incident *i = find(s, id);

	if (!i)
		return -ENOENT;
	incident_add(i, d, 0);
	return 0;
}

uint32_t incident_set_tick(struct incident_set *s, uint64_t now_unix_ns,
			   char closed[][INCIDENT_ID_BYTES], uint32_t max)
{
	struct incident *i = s->first;
	uint32_t n = 0;

	while (i) {
		struct incident *next = i->next;
		uint64_t quiet_ns = now_unix_ns > i->row.arrival_unix_ns ?
					    now_unix_ns - i->row.arrival_unix_ns :
					    0;

		if (i->row.open && quiet_ns > s->config.silence_ns && n < max) {
			i->row.open = false;
			text_copy(closed[n++], INCIDENT_ID_BYTES, i->row.id);
		} else if (!i->row.open && quiet_ns > s->config.memory_ns) {
			unlink_incident(s, i);
			incident_free(i);
		}
		i = next;
	}
	return n;
}

uint32_t incident_set_count(const struct incident_set *s, bool open_only)
{
	uint32_t n = 0;

	for (const struct incident *i = s->first; i; i = i->next)
		n += !open_only || i->row.open;
	return n;
}

/* ---- the verdict ---- */

#define REASON(m, r) ((m)->reasons >> (r)&1)

/* What a rank is to blame for; 0: nothing. */
static double blame(const struct incident *i, const struct member *m, uint32_t reason)
{
	uint64_t most = 0, stalled = 0;

	if (!REASON(m, reason))
		return 0;
	if (reason != WINDOW_STALL)
		return m->self_excess_ns > 0 ? m->self_excess_ns : 1;
	/* Everybody stops when one is stuck: it is the one that entered the fewest collectives. Where
	 * all entered the same, nobody is blamed, unless there is but one. */
	for (uint32_t k = 0; k < i->member_count; k++) {
		if (!REASON(&i->members[k], WINDOW_STALL))
			continue;
		stalled++;
		if (i->members[k].collectives > most)
			most = i->members[k].collectives;
	}
	return (double)(most - m->collectives) + (stalled == 1);
}

struct verdict {
	const char *symptom;
	uint32_t reason; /* whose ranks are the culprits; 0: nobody is known */
	double worst;
	uint32_t culprits, suspects;
	const struct member *lead; /* the worst culprit, else the worst victim */
};

static bool is_culprit(const struct incident *i, const struct verdict *v, const struct member *m)
{
	return v->worst > 0 && blame(i, m, v->reason) >= CULPRIT_SHARE * v->worst;
}

static double excess_of(const struct member *m)
{
	return m->expected_ns > 0 ? m->latency_ns / m->expected_ns - 1 : 0;
}

/* A host that is late once, near a fault in time, is part of the same incident but not of the fault. */
static bool is_brief(const struct run *r)
{
	return !(r->reasons & (1u << WINDOW_STALL | 1u << WINDOW_DRIFT)) &&
	       r->flagged <= HICCUP_STEPS_MAX && r->self_excess_ns < HICCUP_LOST_NS;
}

/* Nobody was slow for longer than a moment, and nobody often. */
static bool is_hiccup(const struct incident *i)
{
	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].flagged > HICCUP_ALL_MAX ||
		    i->members[k].self_excess_ns >= HICCUP_LOST_NS)
			return false;
	for (uint32_t k = 0; k < i->run_count; k++)
		if (!is_brief(&i->runs[k]))
			return false;
	return true;
}

static void judge(const struct incident *i, uint32_t job_ranks, struct verdict *v)
{
	static const uint32_t order[] = { WINDOW_STALL, WINDOW_SELF, WINDOW_PEER, WINDOW_DRIFT };
	uint32_t known = job_ranks;

	*v = (struct verdict){ .symptom = "slow_job" };
	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].world_size > 0 && (uint32_t)i->members[k].world_size > known)
			known = (uint32_t)i->members[k].world_size;
	for (int o = 0; o < 4 && !v->reason; o++)
		for (uint32_t k = 0; k < i->member_count; k++)
			if (REASON(&i->members[k], order[o]))
				v->reason = order[o];
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		double b = v->reason ? blame(i, m, v->reason) : 0;

		v->suspects += v->reason && REASON(m, v->reason);
		if (b > v->worst ||
		    (v->worst <= 0 && (!v->lead || excess_of(m) > excess_of(v->lead)))) {
			v->worst = b;
			v->lead = m;
		}
	}
	for (uint32_t k = 0; k < i->member_count; k++)
		v->culprits += is_culprit(i, v, &i->members[k]);
	if (known < 2)
		known = i->member_count;
	if (v->reason == WINDOW_STALL)
		v->symptom = "stall";
	else if (v->reason == WINDOW_DRIFT)
		v->symptom = "drift";
	else if (is_hiccup(i))
		v->symptom = "hiccup";
	else if ((v->reason == WINDOW_SELF || v->reason == WINDOW_PEER) &&
		 (v->culprits < 2 || 2 * v->culprits <= known))
		v->symptom = "slow_rank";
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* When the fault was: from the culprits' runs (everybody's where there is no culprit) that are more
 * than hiccups; where all are hiccups, the incident's own time. */
static void fault_time(const struct incident *i, const struct verdict *v, uint64_t *begin_unix_ns,
		       uint64_t *end_unix_ns)
{
	static uint64_t culprits[LIMIT_INCIDENT_RANKS];
	struct run all = { .begin_unix_ns = UINT64_MAX };
	uint32_t count = 0;
	bool found = false;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (v->worst > 0 && is_culprit(i, v, &i->members[k]))
			culprits[count++] = member_key(i->members[k].rank, i->members[k].node);
	qsort(culprits, count, sizeof(*culprits), by_key);
	for (uint32_t k = 0; k < i->run_count; k++) {
		const struct run *r = &i->runs[k];

		if (is_brief(r) ||
		    (count && !bsearch(&r->member, culprits, count, sizeof(*culprits), by_key)))
			continue;
		run_merge(&all, r);
		found = true;
	}
	*begin_unix_ns = found ? all.begin_unix_ns : i->row.begin_unix_ns;
	*end_unix_ns = found ? all.end_unix_ns : i->row.end_unix_ns;
}

/* Its steps that were slow, by the same rule. */
static struct run fault_steps(const struct incident *i, const struct member *m)
{
	struct run all = { .begin_unix_ns = UINT64_MAX };
	uint64_t key = member_key(m->rank, m->node);

	for (uint32_t k = 0; k < i->run_count; k++)
		if (i->runs[k].member == key && !is_brief(&i->runs[k]))
			run_merge(&all, &i->runs[k]);
	if (!all.flagged)
		all = (struct run){ .flagged = m->flagged, .first_step = m->first_step,
					.last_step = m->last_step, .onset_step = m->onset_step };
	return all;
}

static int by_number(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return x < y ? -1 : x > y;
}

/* Worst first for culprits, so that `ranks[0]` is the one to look at; victims by number. */
static json_t *ranks_json(const struct incident *i, const struct verdict *v, bool culprits)
{
	int32_t ranks[NAMED_RANKS_MAX];
	uint32_t n = 0;
	json_t *out = json_array();

	if (culprits && v->lead && is_culprit(i, v, v->lead))
		ranks[n++] = v->lead->rank;
	for (uint32_t k = 0; k < i->member_count && n < NAMED_RANKS_MAX; k++) {
		const struct member *m = &i->members[k];

		if (is_culprit(i, v, m) != culprits || (culprits && m == v->lead))
			continue;
		if (culprits || REASON(m, WINDOW_COMM) || REASON(m, WINDOW_STALL))
			ranks[n++] = m->rank;
	}
	if (n > 1 && !culprits)
		qsort(ranks, n, sizeof(*ranks), by_number);
	else if (n > 2)
		qsort(ranks + 1, n - 1, sizeof(*ranks), by_number);
	for (uint32_t k = 0; k < n; k++)
		json_array_append_new(out, json_integer(ranks[k]));
	return out;
}

static json_t *nodes_json(const struct incident *i, const struct verdict *v)
{
	json_t *out = json_array();

	for (uint32_t k = 0; k < i->member_count && json_array_size(out) < 64; k++) {
		const struct member *m = &i->members[k];
		bool seen = false;
		size_t at;
		json_t *j;

		if (v->worst > 0 && !is_culprit(i, v, m))
			continue;
		json_array_foreach(out, at, j)
			seen |= !strcmp(json_string_value(j), m->node);
		if (!seen)
			json_array_append_new(out, text_json(m->node));
	}
	return out;
}

static json_t *parts_json(const struct member *m)
{
	json_t *out = json_array();

	for (uint32_t k = 0; m && k < m->part_count; k++) {
		const struct digest_part *p = &m->parts[k];

		json_array_append_new(out, json_pack("{s:s, s:o, s:f, s:f, s:f}", "kind",
						     explain_kind_name(p->kind), "name",
						     text_json(p->name), "expected_ms",
						     text_ms(p->expected_ns), "observed_ms",
						     text_ms(p->observed_ns), "share", p->share));
	}
	return out;
}

struct rank_signal {
	struct os_signal s; /* first: os_signal_order gets this pointer */
	int32_t rank;
};

static json_t *signal_json(const struct rank_signal *r)
{
	const struct os_signal *s = &r->s;
	char line[256];

	return json_pack("{s:i, s:o, s:o, s:o, s:f, s:o, s:f, s:b, s:o}", "rank", (int)r->rank, "name",
			 text_json(s->name), "subject", text_json(s->subject), "unit",
			 text_json(s->unit), "value", s->value, "usual",
			 s->usual < 0 ? json_null() : json_real(s->usual), "weight_ms", s->weight_ms,
			 "raised", (int)(s->flags & OS_SIGNAL_RAISED), "text",
			 text_json(os_signal_text(s, line, sizeof(line))));
}

/* Those of the culprits; where nobody is to blame, of the rank that shows the most, and what is raised on
 * the others. */
static json_t *signals_json(const struct incident *i, const struct verdict *v)
{
	struct rank_signal *all = malloc(LIMIT_INCIDENT_SIGNALS * sizeof(*all));
	json_t *out = json_array();
	uint32_t n = 0;

	for (uint32_t k = 0; all && k < i->member_count; k++) {
		const struct member *m = &i->members[k];

		bool whole = v->worst > 0 ? is_culprit(i, v, m) : m == v->lead;

		for (uint32_t j = 0; j < m->signal_count && n < LIMIT_INCIDENT_SIGNALS; j++)
			if (whole || (v->worst <= 0 && m->signals[j].flags & OS_SIGNAL_RAISED))
				all[n++] = (struct rank_signal){ m->signals[j], m->rank };
	}
	if (n)
		qsort(all, n, sizeof(*all), os_signal_order);
	for (uint32_t j = 0; j < n; j++)
		json_array_append_new(out, signal_json(&all[j]));
	free(all);
	return out;
}

static void say(json_t *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(json_t *list, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (json_array_size(list) >= 32)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	json_array_append_new(list, text_json(line));
}

/* INV-9: what is not there is named. */
static json_t *missing_json(const struct incident *i, const struct verdict *v)
{
	json_t *out = json_array();

	if (!v->reason)
		say(out, "no rank has lost time of its own: the cause is outside of what was seen");
	else if (v->worst <= 0)
		say(out, "all ranks stopped at the same collective: nothing tells who stopped first");
	else if (v->lead && !v->lead->part_count)
		say(out, "rank %d: no healthy steps to explain the excess by", v->lead->rank);
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];

		if (is_culprit(i, v, m) && m->summaries == m->windows)
			say(out, "rank %d: summaries only, no events", m->rank);
		if (m->lost)
			say(out, "rank %d: %llu events lost (mostly %s)", m->rank,
			    (unsigned long long)m->lost, m->lost_cause);
	}
	if (i->ranks_dropped)
		say(out, "windows of further ranks are not summed up");
	return out;
}

json_t *incident_set_json(const struct incident_set *s, const char *id, uint32_t job_ranks,
			  struct incident_row *row)
{
	static const struct member nobody;
	const struct incident *i = find(s, id);
	const struct member *m;
	uint64_t begin_unix_ns, end_unix_ns;
	struct run steps;
	struct verdict v;
	double self_excess;

	if (!i)
		return NULL;
	if (row)
		*row = i->row;
	judge(i, job_ranks, &v);
	m = v.lead ? v.lead : &nobody;
	fault_time(i, &v, &begin_unix_ns, &end_unix_ns);
	steps = fault_steps(i, m);
	self_excess = m->expected_self_ns > 0 ? m->self_ns / m->expected_self_ns - 1 : 0;
	return json_pack(
		"{s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, "
		"s:o, s:o, s:I, s:I, s:I, s:o}",
		"id", i->row.id, "job", i->row.job, "state", i->row.open ? "open" : "closed",
		"begin_unix_ns", (json_int_t)begin_unix_ns, "end_unix_ns",
		(json_int_t)end_unix_ns, "symptom", v.symptom, "ranks",
		ranks_json(i, &v, true), "victims", ranks_json(i, &v, false), "nodes",
		nodes_json(i, &v), "first_step", (json_int_t)steps.first_step, "last_step",
		(json_int_t)steps.last_step, "flagged_steps", (json_int_t)steps.flagged,
		"steps_to_flag",
		(json_int_t)(steps.flagged ? steps.first_step - steps.onset_step + 1 : 0), "latency_ms",
		text_ms(m->latency_ns), "expected_ms", text_ms(m->expected_ns), "excess",
		excess_of(m), "self_excess", self_excess, "parts", parts_json(m), "signals",
		signals_json(i, &v), "uploaded_bytes",
		(json_int_t)i->bytes, "raw_bytes", (json_int_t)i->raw_bytes, "window_count",
		(json_int_t)i->windows, "missing", missing_json(i, &v));
}

const char *incident_reason_name(unsigned reason)
{
	switch ((enum window_reason)reason) {
	case WINDOW_SELF:
		return "self";
	case WINDOW_COMM:
		return "comm";
	case WINDOW_DRIFT:
		return "drift";
	case WINDOW_STALL:
		return "stall";
	case WINDOW_ASKED:
		return "asked";
	case WINDOW_MANUAL:
		return "manual";
	case WINDOW_PEER:
		return "peer";
	}
	return "unknown";
}
