/* SPDX-License-Identifier: Apache-2.0
 * Windows say what a rank lost of its own time against its own past; findings say which ranks are slow
 * among their peers. A rank that either accuses is a culprit. */
#include "aggregator/incident_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

/* A rank is a culprit when it lost at least this share of what the worst rank lost: several
 * stragglers of one fault lose alike, echoes of a fault lose little. */
#define CULPRIT_SHARE 0.5
/* A host that is late once makes one or two steps of a rank slow. That is told apart as a hiccup: up to
 * so many flagged steps of any rank, and less than so much of a rank's own time lost in all. */
#define HICCUP_STEPS_MAX 2
#define HICCUP_LOST_NS	 1e9
/* And so many in all, with healthy ones between; more is a rank that is slow now and then. */
#define HICCUP_ALL_MAX	 4

/* What a rank is to blame for; 0: nothing. */
static double blame(const struct incident *i, const struct member *m, uint32_t reason)
{
	uint64_t most = 0, stalled = 0;

	if (!INCIDENT_REASON(m, reason))
		return 0;
	if (reason != WINDOW_STALL)
		return m->self_excess_ns > 0 ? m->self_excess_ns : 1;
	/* Everybody stops when one is stuck: it is the one that entered the fewest collectives. Where
	 * all entered the same, nobody is blamed, unless there is but one. */
	for (uint32_t k = 0; k < i->member_count; k++) {
		if (!INCIDENT_REASON(&i->members[k], WINDOW_STALL))
			continue;
		stalled++;
		if (i->members[k].collectives > most)
			most = i->members[k].collectives;
	}
	return (double)(most - m->collectives) + (stalled == 1);
}

static bool by_windows(const struct incident *i, const struct incident_judgement *j,
		       const struct member *m)
{
	return j->worst > 0 && blame(i, m, j->reason) >= CULPRIT_SHARE * j->worst;
}

bool incident_is_culprit(const struct incident *i, const struct incident_judgement *j,
			 const struct member *m)
{
	return m->accused_ns > 0 || by_windows(i, j, m);
}

static double excess_of(const struct member *m)
{
	return m->expected_ns > 0 ? m->latency_ns / m->expected_ns - 1 : 0;
}

/* A host that is late once, near a fault in time, is part of the same incident but not of the fault. */
static bool is_brief(const struct run *r)
{
	return !(r->reasons & (1u << WINDOW_STALL | 1u << WINDOW_DRIFT | 1u << WINDOW_PEER)) &&
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

/* The finding that decides the kind: a hang before a slow rank before what concerns everybody. */
static const struct finding *deciding(const struct incident *i)
{
	static const enum finding_kind order[] = { FINDING_HANG, FINDING_SLOW_RANK, FINDING_UNIFORM,
						   FINDING_IMBALANCE };
	const struct finding *best = NULL;

	for (int o = 0; o < 4 && !best; o++)
		for (uint32_t k = 0; k < i->finding_count; k++) {
			const struct finding *f = &i->findings[k].finding;

			if (f->kind == order[o] && (!best || f->effect_ns > best->effect_ns))
				best = f;
		}
	return best;
}

/* Windows first: what each rank lost. */
static void judge_windows(const struct incident *i, struct incident_judgement *j)
{
	static const uint32_t order[] = { WINDOW_STALL, WINDOW_SELF, WINDOW_DRIFT };

	for (int o = 0; o < 3 && !j->reason; o++)
		for (uint32_t k = 0; k < i->member_count; k++)
			if (INCIDENT_REASON(&i->members[k], order[o]))
				j->reason = order[o];
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		double b = j->reason ? blame(i, m, j->reason) : 0;

		j->suspects += j->reason && INCIDENT_REASON(m, j->reason);
		if (b > j->worst ||
		    (j->worst <= 0 && (!j->lead || excess_of(m) > excess_of(j->lead)))) {
			j->worst = b;
			j->lead = m;
		}
	}
}

static const char *symptom_of(const struct incident *i, const struct incident_judgement *j,
			      bool accused)
{
	bool most = j->culprits >= 2 && 2 * j->culprits > j->ranks;

	if (j->reason == WINDOW_STALL || (j->finding && j->finding->kind == FINDING_HANG))
		return "stall";
	if (accused)
		return most ? "slow_job" : "slow_rank";
	if (j->reason == WINDOW_DRIFT)
		return "drift";
	if (j->finding)
		return j->finding->kind == FINDING_IMBALANCE ? "imbalance" : "slow_job";
	if (is_hiccup(i))
		return "hiccup";
	return j->reason == WINDOW_SELF && !most ? "slow_rank" : "slow_job";
}

static enum finding_kind kind_of(const struct incident_judgement *j)
{
	if (!strcmp(j->symptom, "stall"))
		return FINDING_HANG;
	if (j->finding)
		return j->finding->kind;
	if (!strcmp(j->symptom, "slow_job") ||
	    (!strcmp(j->symptom, "drift") && 2 * j->culprits > j->ranks))
		return FINDING_UNIFORM;
	return FINDING_SLOW_RANK;
}

void incident_judge(const struct incident *i, uint32_t job_ranks, struct incident_judgement *j)
{
	const struct member *accused = NULL;

	*j = (struct incident_judgement){ .ranks = job_ranks, .finding = deciding(i) };
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];

		if (m->world_size > 0 && (uint32_t)m->world_size > j->ranks)
			j->ranks = (uint32_t)m->world_size;
		if (m->accused_ns > 0 && (!accused || m->accused_ns > accused->accused_ns))
			accused = m;
	}
	judge_windows(i, j);
	/* what lasted a moment is no fault beside what was found among ranks */
	if (accused && j->reason == WINDOW_SELF && is_hiccup(i))
		j->worst = 0;
	if (accused && (j->worst <= 0 || !j->lead || j->lead->accused_ns <= 0))
		j->lead = accused;
	for (uint32_t k = 0; k < i->member_count; k++)
		j->culprits += incident_is_culprit(i, j, &i->members[k]);
	if (j->ranks < 2)
		j->ranks = i->member_count;
	j->symptom = symptom_of(i, j, accused != NULL);
	j->kind = kind_of(j);
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void incident_fault_time(const struct incident *i, const struct incident_judgement *j,
			 uint64_t *begin_unix_ns, uint64_t *end_unix_ns)
{
	static uint64_t culprits[LIMIT_INCIDENT_RANKS];
	struct run all = { .begin_unix_ns = UINT64_MAX };
	uint32_t count = 0;
	bool found = false;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (incident_is_culprit(i, j, &i->members[k]))
			culprits[count++] = incident_member_key(i->members[k].rank, i->members[k].node);
	qsort(culprits, count, sizeof(*culprits), by_key);
	for (uint32_t k = 0; k < i->run_count; k++) {
		const struct run *r = &i->runs[k];

		if (is_brief(r) ||
		    (count && !bsearch(&r->member, culprits, count, sizeof(*culprits), by_key)))
			continue;
		incident_run_merge(&all, r);
		found = true;
	}
	for (uint32_t k = 0; k < i->finding_count; k++) {
		struct run r = { .begin_unix_ns = i->findings[k].begin_unix_ns,
				 .end_unix_ns = i->findings[k].end_unix_ns };

		incident_run_merge(&all, &r);
		found = true;
	}
	*begin_unix_ns = found ? all.begin_unix_ns : i->row.begin_unix_ns;
	*end_unix_ns = found ? all.end_unix_ns : i->row.end_unix_ns;
}

struct run incident_fault_steps(const struct incident *i, const struct member *m)
{
	struct run all = { .begin_unix_ns = UINT64_MAX };
	uint64_t key = incident_member_key(m->rank, m->node);

	for (uint32_t k = 0; k < i->run_count; k++)
		if (i->runs[k].member == key && !is_brief(&i->runs[k]))
			incident_run_merge(&all, &i->runs[k]);
	if (!all.flagged)
		all = (struct run){ .flagged = m->flagged, .first_step = m->first_step,
					.last_step = m->last_step, .onset_step = m->onset_step };
	return all;
}

bool incident_is_lasting(const struct incident *i, const struct member *m)
{
	uint64_t key = incident_member_key(m->rank, m->node);

	for (uint32_t k = 0; k < i->run_count; k++)
		if (i->runs[k].member == key && !is_brief(&i->runs[k]))
			return true;
	return false;
}
