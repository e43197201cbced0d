/* SPDX-License-Identifier: Apache-2.0
 * Windows show what a rank lost against its own past; findings show which ranks are slower than
 * their peers. A rank that either of them accuses is a culprit, unless its slowness was a transient
 * beside a rank that was slow for long. Transients of other nodes may join the incident when they
 * are close to a fault in time, but they are not the fault. How long a rank is slow decides whether
 * it is a transient, never what that cost: a node that stops for a second costs more than ten
 * seconds of a fault. */
#include "aggregator/incident/incident_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/order.h"
#include "model/thresholds.h"

double incident_latency_ns(const struct step_times *t)
{
	return t->steps > 0 ? t->latency_ns / t->steps : 0;
}

double incident_expected_ns(const struct step_times *t)
{
	return t->expected_steps > 0 ? t->expected_ns / t->expected_steps : 0;
}

double incident_slow_ns(const struct member *m)
{
	double accused_ns = (double)(m->accused.end_unix_ns - m->accused.begin_unix_ns);

	return m->steps.slow_ns > accused_ns ? m->steps.slow_ns : accused_ns;
}

static void time_of(const struct member *m, uint64_t *begin, uint64_t *end)
{
	*begin = m->own.begin_unix_ns;
	*end = m->own.end_unix_ns;
	if (m->accused.begin_unix_ns && (!*begin || m->accused.begin_unix_ns < *begin))
		*begin = m->accused.begin_unix_ns;
	if (m->accused.end_unix_ns > *end)
		*end = m->accused.end_unix_ns;
}

/* Slowness no longer than a beat is a transient beside slowness that is several times as long, and
 * also beside any longer slowness that it does not overlap in time. */
bool incident_is_moment(const struct incident_judgement *j, const struct member *m)
{
	double mine = incident_slow_ns(m), longest = j->longest ? incident_slow_ns(j->longest) : 0;
	uint64_t begin, end, from, to;

	if (!(longest > 0) || m == j->longest || mine >= thresholds.time.lasting_ns)
		return false;
	if (longest < thresholds.time.lasting_ns &&
	    m->own.stolen_ns > thresholds.time.times * longest)
		return false;
	time_of(m, &begin, &end);
	time_of(j->longest, &from, &to);
	return thresholds.time.times * mine <= longest ||
	       (mine < longest && (end < from || begin > to));
}

/* The rank that was slow for longest. */
static const struct member *longest_of(const struct incident *i)
{
	const struct member *best = NULL;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (!best || incident_slow_ns(&i->members[k]) > incident_slow_ns(best))
			best = &i->members[k];
	return best;
}

/* The ledger of the time in which the rank's steps stand still; NULL: it did not hang. */
static const struct ledger *open_ledger(const struct member *m)
{
	return m->excerpts.open.excerpt ? &m->excerpts.open.excerpt->ledger.open : NULL;
}

/* How long its steps stand still for other reasons than waiting for other ranks, ns; negative:
 * unknown. */
static double stands_itself(const struct member *m)
{
	const struct ledger *l = open_ledger(m);
	double ns = 0;

	for (uint32_t k = 0; l && k < l->count; k++)
		if (ledger_is_own(l->account[k].kind) &&
		    !ledger_what_is_of_ranks(l->account[k].what))
			ns += (double)l->account[k].ns;
	return l ? ns : -1;
}

/* Whether its steps stand still only because it waits for other ranks. */
static bool waits_for_others(const struct member *m)
{
	double own = stands_itself(m);

	return own >= 0 && own < thresholds.part.half * (double)open_ledger(m)->total_ns;
}

/* Whether its steps stand still because it waits for other ranks on the CPU. */
static bool waits_on_host(const struct member *m)
{
	const struct ledger *l = open_ledger(m);
	double ns = 0;

	for (uint32_t k = 0; l && k < l->count; k++)
		if (ledger_what_is_of_ranks(l->account[k].what))
			ns += (double)l->account[k].ns;
	return l && ns >= thresholds.part.half * (double)l->total_ns && ns > 0;
}

/* Whether windows of this reason make the rank a suspect. A rank with a lasting change is slow
 * itself: one late step of another rank does not excuse it. */
static bool is_suspect(const struct member *m, uint32_t reason)
{
	return INCIDENT_REASON(m, reason) ||
	       (reason == WINDOW_SELF && INCIDENT_REASON(m, WINDOW_DRIFT));
}

/* How much a rank is to blame; 0: not at all. */
static double blame(const struct incident *i, const struct member *m, uint32_t reason)
{
	uint64_t most = 0, stalled = 0;

	if (!is_suspect(m, reason))
		return 0;
	if (reason != WINDOW_STALL)
		return m->steps.self_excess_ns > 0 ? m->steps.self_excess_ns : 1;
	if (m->excerpts.open.excerpt)
		return waits_for_others(m) ? 0 : stands_itself(m);
	/* There is no data about open intervals. When one rank is stuck, all ranks stop, and the
	 * stuck rank is the one that entered the fewest collectives. If all entered equally many,
	 * no rank is blamed, unless the job has only one rank. */
	for (uint32_t k = 0; k < i->member_count; k++) {
		if (!INCIDENT_REASON(&i->members[k], WINDOW_STALL))
			continue;
		stalled++;
		if (i->members[k].sent.collectives > most)
			most = i->members[k].sent.collectives;
	}
	return (double)(most - m->sent.collectives) + (stalled == 1 && m->world_size <= 1);
}

/* Several ranks that one fault slows lose similar amounts. Ranks with side effects of the fault
 * lose little. */
static bool by_windows(const struct incident *i, const struct incident_judgement *j,
		       const struct member *m)
{
	double b = j->worst > 0 ? blame(i, m, j->reason) : 0;

	if (!(b > 0))
		return false;
	if (b >= thresholds.part.half * j->worst)
		return true;
	/* a rank that became slow later has lost less so far, so compare the loss per slow time */
	return j->reason == WINDOW_SELF && m->steps.slow_ns >= thresholds.time.lasting_ns &&
	       j->worst_slow_ns > 0 &&
	       b / m->steps.slow_ns >= thresholds.part.half * j->worst / j->worst_slow_ns;
}

static bool is_minor(const struct incident_judgement *j, const struct member *m)
{
	for (uint32_t k = 0; k < j->minor_count; k++)
		if (j->minor[k] == m)
			return true;
	return false;
}

bool incident_is_culprit(const struct incident *i, const struct incident_judgement *j,
			 const struct member *m)
{
	if (j->lossy)
		return m == j->lossy;
	if (j->waited)
		return incident_is_waited_for(j, m);
	if (is_minor(j, m))
		return false;
	if (j->mutual)
		return waits_on_host(m);
	/* earlier slowness does not explain why the job stands still */
	if (j->reason == WINDOW_STALL && waits_for_others(m))
		return j->finding && j->finding->kind == FINDING_HANG &&
		       finding_names(j->finding, m->rank);
	return !incident_is_moment(j, m) && (m->accused.ns > 0 || by_windows(i, j, m));
}

bool incident_is_victim(const struct incident *i, const struct incident_judgement *j,
			const struct member *m)
{
	return !incident_is_culprit(i, j, m) &&
	       (INCIDENT_REASON(m, WINDOW_COMM) || INCIDENT_REASON(m, WINDOW_STALL));
}

/* The flagged steps without those of the window that the node sent when slowness began: if it
 * lasts, the node sends another window. */
static uint64_t unhinted(uint64_t flagged, uint64_t hinted)
{
	return flagged > hinted ? flagged - hinted : 0;
}

/* What windows of these reasons say together (WINDOW_SAYS_*). */
static unsigned says(uint32_t reasons)
{
	unsigned all = 0;

	for (unsigned r = 0; reasons >> r; r++)
		all |= reasons >> r & 1 ? window_reason_says(r) : 0;
	return all;
}

/* Whether ranks waited only for seconds, and none was slow itself. */
static bool is_short_wait(const struct slow_steps *s, double lasted_ns)
{
	return (says(s->reasons) & ~WINDOW_SAYS_AGAIN) == WINDOW_SAYS_WAITS &&
	       s->flagged_ns < thresholds.time.transient_ns / 2 &&
	       lasted_ns < thresholds.time.lasting_ns;
}

/* Whether the run is a transient: a node that is late once makes one or two steps slow, or a few
 * that cost little. Near a fault it belongs to the incident, but not to the fault. Two things do
 * not count: steps of the window that the node sent when slowness began, and the loss of the first
 * step of its kind. That step may be a checkpoint, which is only recognised when it recurs. */
bool incident_is_short(const struct run *r)
{
	uint64_t flagged = unhinted(r->steps.flagged, r->steps.hinted);

	if (is_short_wait(&r->steps, (double)(r->end_unix_ns - r->begin_unix_ns)))
		return true;
	return !(says(r->steps.reasons) & WINDOW_SAYS_LASTS) &&
	       (flagged < thresholds.count.few ||
		(flagged <= thresholds.count.some &&
		 r->steps.flagged_ns - r->steps.first_ns < thresholds.time.transient_ns / 2)) &&
	       r->steps.self_excess_ns - r->steps.first_self_ns < thresholds.time.transient_ns;
}

bool incident_is_brief(const struct run *r)
{
	return !r->steps.spikes && incident_is_short(r);
}

bool incident_is_spikes(const struct incident *i)
{
	bool spikes = false;

	for (uint32_t k = 0; k < i->run_count; k++) {
		if (!incident_is_short(&i->runs[k]))
			return false;
		spikes |= i->runs[k].steps.spikes > 0;
	}
	return spikes && !i->finding_count;
}

/* Whether the rank is slow again and again, with healthy steps between. */
static bool is_often(const struct member *m, double lasted_ns)
{
	uint64_t flagged = unhinted(m->steps.flagged, m->steps.hinted);
	double expected_ns = incident_expected_ns(&m->steps.took);
	double steps_ns = (double)flagged * expected_ns;

	if ((flagged <= thresholds.count.some &&
	     m->steps.flagged_ns - m->steps.first_ns < thresholds.time.transient_ns / 2) ||
	    is_short_wait(&m->steps, lasted_ns))
		return false;
	return flagged > thresholds.count.few &&
	       (expected_ns <= 0 || steps_ns >= thresholds.part.named * lasted_ns);
}

/* Whether no rank was slow for longer than a transient, and none often. */
static bool is_transient(const struct incident *i)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (uint32_t k = 0; k < i->run_count; k++) {
		const struct run *r = &i->runs[k];

		if (!incident_is_brief(r))
			return false;
		begin = r->begin_unix_ns < begin ? r->begin_unix_ns : begin;
		end = r->end_unix_ns > end ? r->end_unix_ns : end;
	}
	for (uint32_t k = 0; k < i->member_count; k++)
		if (is_often(&i->members[k], end > begin ? (double)(end - begin) : 0) ||
		    i->members[k].steps.self_excess_ns - i->members[k].steps.first_self_ns >=
			thresholds.time.transient_ns)
			return false;
	return true;
}

static bool is_about_transients(const struct incident *i, const struct incident_judgement *j,
				const struct finding *f)
{
	for (uint32_t k = 0; k < f->rank_count && f->kind == FINDING_SLOW_RANK; k++)
		for (uint32_t q = 0; q < i->member_count; q++)
			if (i->members[q].rank == f->ranks[k] &&
			    !incident_is_moment(j, &i->members[q]))
				return false;
	return f->rank_count && f->kind == FINDING_SLOW_RANK;
}

/* The most self time that one rank lost, by its windows or by findings. */
static double most_lost_ns(const struct incident *i)
{
	double most = 0;

	for (uint32_t k = 0; k < i->member_count; k++)
		most =
		    fmax(most, fmax(i->members[k].steps.self_excess_ns, i->members[k].accused.ns));
	return most;
}

/* The finding that decides the kind: a hang comes before a slow rank, and a slow rank before a
 * finding about all ranks. A hang that names no rank explains only its own time: about what its
 * step lost, once the step has ended. */
static const struct finding *deciding(const struct incident *i, const struct incident_judgement *j)
{
	static const enum finding_kind order[] = {FINDING_HANG, FINDING_SLOW_RANK, FINDING_UNIFORM,
						  FINDING_IMBALANCE, FINDING_REQUESTS};
	const struct finding *best = NULL;

	for (size_t o = 0; o < ARRAY_LEN(order) && !best; o++)
		for (uint32_t k = 0; k < i->finding_count; k++) {
			const struct finding *f = &i->findings[k].finding;

			if (f->kind == order[o] && (!best || f->effect_ns > best->effect_ns) &&
			    !is_about_transients(i, j, f) &&
			    (o || f->rank_count ||
			     f->effect_ns >= thresholds.part.half * most_lost_ns(i)))
				best = f;
		}
	return best;
}

/* Whether windows of that reason matter. If all ranks wait for long, and one rank was briefly slow
 * itself, that brief slowness is not what they wait for. */
static bool has_windows(const struct incident *i, const struct incident_judgement *j,
			uint32_t reason)
{
	double most = 0;

	for (uint32_t k = 0; k < i->member_count; k++)
		most = fmax(most, i->members[k].steps.flagged_ns);
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		bool little = reason == WINDOW_SELF &&
			      m->steps.self_excess_ns < thresholds.part.little * most;

		if (INCIDENT_REASON(m, reason) && !little && !incident_is_moment(j, m))
			return true;
	}
	return false;
}

/* Computes each rank's blame from windows of that reason; reason 0: from no windows. */
static void blame_for(const struct incident *i, struct incident_judgement *j, uint32_t reason)
{
	j->reason = reason;
	j->suspects = 0;
	j->worst = j->worst_slow_ns = 0;
	j->lead = NULL;
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		double b = reason && !incident_is_moment(j, m) ? blame(i, m, reason) : 0;

		j->suspects += reason && is_suspect(m, reason);
		if (b > j->worst ||
		    (j->worst <= 0 &&
		     (!j->lead || m->steps.flagged_ns > j->lead->steps.flagged_ns))) {
			j->worst = b;
			j->worst_slow_ns = m->steps.slow_ns;
			j->lead = m;
		}
	}
}

/* Whether some of the ranks that stand still are blamed, but not all. */
static bool blames_some(const struct incident *i, const struct incident_judgement *j)
{
	uint32_t blamed = 0;

	for (uint32_t k = 0; k < i->member_count; k++)
		blamed += by_windows(i, j, &i->members[k]);
	return blamed && (blamed < j->suspects || j->suspects == 1);
}

/* Whether the incident is about the stall, whatever was slow before. It is if there is a hang, if
 * the stall blames only some ranks, or if it costs more than any rank lost before. */
static bool judge_stall(const struct incident *i, struct incident_judgement *j)
{
	if (!has_windows(i, j, WINDOW_STALL))
		return false;
	blame_for(i, j, WINDOW_STALL);
	return (j->finding && j->finding->kind == FINDING_HANG) || blames_some(i, j) ||
	       (j->worst > 0 && j->worst >= most_lost_ns(i));
}

/* A hang is never a transient, however short it is so far. */
static void judge_windows(const struct incident *i, struct incident_judgement *j)
{
	const struct member *longest = j->longest;

	j->longest = NULL;
	if (judge_stall(i, j))
		return;
	j->longest = longest;
	if (has_windows(i, j, WINDOW_SELF))
		blame_for(i, j, WINDOW_SELF);
	else if (has_windows(i, j, WINDOW_DRIFT))
		blame_for(i, j, WINDOW_DRIFT);
	else
		blame_for(i, j, has_windows(i, j, WINDOW_STALL) ? WINDOW_STALL : 0);
}

static bool found_uniform(const struct incident *i)
{
	for (uint32_t k = 0; k < i->finding_count; k++)
		if (i->findings[k].finding.kind == FINDING_UNIFORM)
			return true;
	return false;
}

/* Whether it lost at least half of its self time waiting on the CPU for other ranks, which wait for each
 * other. */
static bool lost_in_collectives(const struct member *m)
{
	const struct excerpt *p = m->excerpts.slow.excerpt;
	double ns = 0, steps = 0;

	for (uint32_t k = 0; p && k < p->kinds; k++) {
		const struct ledger *l = excerpt_ledger(p, k, false);

		steps += (double)l->steps;
		for (uint32_t q = 0; q < l->count; q++)
			if (ledger_what_is_of_ranks(l->account[q].what))
				ns += (double)l->account[q].ns;
	}
	return ns > 0 && ns * (double)m->steps.flagged >=
			     thresholds.part.half * m->steps.self_excess_ns * steps;
}

/* Whether the culprits wait for each other. */
static bool wait_for_each_other(const struct incident *i, const struct incident_judgement *j)
{
	for (uint32_t k = 0; k < i->member_count; k++)
		if (incident_is_culprit(i, j, &i->members[k]) &&
		    !lost_in_collectives(&i->members[k]))
			return false;
	return j->culprits >= 2;
}

/* Whether most ranks are slow. If some rank only waits, the job as a whole is not slow, however
 * small the job is, unless all ranks wait. */
static bool is_most(const struct incident *i, const struct incident_judgement *j, bool all_wait)
{
	bool one_waits = false;

	for (uint32_t k = 0; k < i->member_count; k++)
		one_waits |= incident_is_victim(i, j, &i->members[k]);
	return 2 * j->culprits > j->ranks && (!one_waits || all_wait || found_uniform(i));
}

/* Whether each rank lost less than half a second, and less than the time of some steps. That is no
 * incident, however certain the finding is. A drift always counts: it lasts, and its window shows
 * only some of its steps. */
static bool lost_little(const struct incident *i)
{
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		double step_ns = incident_expected_ns(&m->steps.took) > 0
				     ? incident_expected_ns(&m->steps.took)
				     : incident_latency_ns(&m->steps.took);
		double lost_ns =
		    fmax(m->accused.ns, fmax(m->steps.self_excess_ns - m->steps.first_self_ns,
					     m->steps.flagged_ns - m->steps.first_ns));

		if (INCIDENT_REASON(m, WINDOW_DRIFT) ||
		    lost_ns >= thresholds.time.transient_ns / 2 ||
		    (step_ns > 0 && lost_ns >= thresholds.count.some * step_ns))
			return false;
	}
	return true;
}

/* Whether the ranks that drifted only did what their peers did. Then no rank differs, and too few
 * drifted for the job to be slow. */
static bool is_shared_drift(const struct incident *i)
{
	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].drifted)
			return false;
	return true;
}

static const char *symptom_of(const struct incident *i, const struct incident_judgement *j,
			      bool accused, bool most)
{
	if (j->reason == WINDOW_STALL || (j->finding && j->finding->kind == FINDING_HANG))
		return "stall";
	if (incident_is_spikes(i))
		return "spike";
	if (lost_little(i) && (!j->finding || j->finding->kind == FINDING_SLOW_RANK))
		return "transient";
	if (j->reason == WINDOW_DRIFT && !accused && !j->finding && !most && is_shared_drift(i))
		return "transient";
	if (j->waited && !is_transient(i))
		return "slow_rank";
	if (accused)
		return most ? "slow_job" : "slow_rank";
	if (j->reason == WINDOW_DRIFT)
		return "drift";
	if (j->finding)
		return j->finding->kind == FINDING_IMBALANCE  ? "imbalance"
		       : j->finding->kind == FINDING_REQUESTS ? "slow_requests"
							      : "slow_job";
	if (is_transient(i))
		return "transient";
	return j->reason == WINDOW_SELF && !most ? "slow_rank" : "slow_job";
}

static enum finding_kind kind_of(const struct incident_judgement *j, bool most)
{
	if (!strcmp(j->symptom, "stall"))
		return FINDING_HANG;
	if (j->finding)
		return j->finding->kind;
	if (!strcmp(j->symptom, "slow_job") || (!strcmp(j->symptom, "drift") && most))
		return FINDING_UNIFORM;
	return FINDING_SLOW_RANK;
}

static uint32_t count_culprits(const struct incident *i, const struct incident_judgement *j)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < i->member_count; k++)
		n += incident_is_culprit(i, j, &i->members[k]);
	return n;
}

/* If what ranks lost themselves explains less than half of what others lost by waiting, the ranks
 * that were waited for are to blame. */
static void judge_waited(const struct incident *i, struct incident_judgement *j,
			 const struct member *accused)
{
	const struct member *m = incident_waits_for(i), *waits = incident_waits_most(i);
	double most = fmax(j->reason ? j->worst : 0, accused ? accused->accused.ns : 0);

	if (!m || !waits || j->reason == WINDOW_STALL ||
	    (j->finding && j->finding->kind == FINDING_HANG) ||
	    most >= thresholds.part.half * waits->steps.waited_ns)
		return;
	j->waited = j->lead = m;
	j->finding = NULL;
}

void incident_judge(const struct incident *i, uint32_t job_ranks, struct incident_judgement *j)
{
	const struct member *accused = NULL;
	bool most, all_wait;

	*j = (struct incident_judgement){.ranks = job_ranks};
	if (!is_transient(i))
		j->longest = longest_of(i);
	j->finding = deciding(i, j);
	judge_windows(i, j);
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];

		if (m->world_size > 0 && (uint32_t)m->world_size > j->ranks)
			j->ranks = (uint32_t)m->world_size;
		if (m->accused.ns > 0 && !incident_is_moment(j, m) &&
		    (!accused || m->accused.ns > accused->accused.ns))
			accused = m;
	}
	/* beside a finding of the comparison of ranks, a transient is not a fault */
	if (accused && j->reason == WINDOW_SELF && is_transient(i))
		j->worst = 0;
	if (accused && (j->worst <= 0 || !j->lead || j->lead->accused.ns <= 0))
		j->lead = accused;
	judge_waited(i, j, accused);
	j->culprits = count_culprits(i, j);
	if (!j->culprits && j->finding && j->finding->kind == FINDING_HANG) {
		j->mutual = true;
		j->culprits = count_culprits(i, j);
	}
	if (j->ranks < 2)
		j->ranks = i->member_count;
	all_wait = wait_for_each_other(i, j);
	most = is_most(i, j, all_wait);
	j->symptom = symptom_of(i, j, accused != NULL, most && j->culprits >= 2);
	j->kind = kind_of(j, most);
	j->by_count = most && j->culprits >= 2 && !all_wait && !found_uniform(i) &&
		      (accused || !j->finding) &&
		      (!strcmp(j->symptom, "slow_job") || j->kind == FINDING_UNIFORM);
}

/* ---- time of the fault ---- */

ORDER_BY(by_key, uint64_t, ORDER(*a, *b));

ORDER_BY(by_time, struct run, ORDER_UP(member) ?: ORDER_UP(begin_unix_ns));

static bool goes_on(const struct run *r, const struct run *next)
{
	return next->begin_unix_ns <= r->end_unix_ns ||
	       (double)(next->begin_unix_ns - r->end_unix_ns) <= thresholds.time.lasting_ns;
}

/* Replaces the runs in r by the rank's spells of the fault, in order. Returns their number. A spell
 * is a sequence of runs with gaps of at most thresholds.time.lasting_ns. The longest spell is the
 * fault; others belong to it unless they are transients beside it. */
static uint32_t spells_of_one(struct run *r, uint32_t count)
{
	double longest_ns = -1;
	uint32_t n = 0, kept = 0;

	for (uint32_t k = 0; k < count; k++) {
		if (n && goes_on(&r[n - 1], &r[k]))
			incident_run_merge(&r[n - 1], &r[k]);
		else
			r[n++] = r[k];
		longest_ns = fmax(longest_ns, r[n - 1].steps.slow_ns);
	}
	for (uint32_t k = 0; k < n; k++)
		if (r[k].steps.slow_ns >= thresholds.time.lasting_ns ||
		    thresholds.time.times * r[k].steps.slow_ns >= longest_ns)
			r[kept++] = r[k];
	return kept;
}

/* Whether all slow steps of the run are longer than any before them. */
static bool is_once(const struct run *r)
{
	return r->steps.flagged_ns <= r->steps.first_ns;
}

/* Collects the fault's runs; returns their number. If there are only brief runs, these are taken: a
 * node may be late briefly, again and again. */
static uint32_t runs_of(const struct incident *i, const uint64_t *keys, uint32_t key_count,
			struct run *list)
{
	uint32_t n = 0;

	for (int brief = 0; brief < 2 && !n; brief++)
		for (uint32_t k = 0; k < i->run_count; k++) {
			const struct run *r = &i->runs[k];

			if ((brief ? !is_once(r) : !incident_is_brief(r)) &&
			    (!key_count ||
			     bsearch(&r->member, keys, key_count, sizeof(*keys), by_key)))
				list[n++] = *r;
		}
	return n;
}

/* The fault's spells on the ranks with these sorted keys (keys 0: on all ranks), rank by rank and
 * in order. The caller frees them. */
static struct run *spells(const struct incident *i, const uint64_t *keys, uint32_t key_count,
			  uint32_t *count)
{
	struct run *list = malloc(((size_t)i->run_count + 1) * sizeof(*list));
	uint32_t n = list ? runs_of(i, keys, key_count, list) : 0;

	*count = 0;
	ORDER_SORT(list, n, by_time);
	for (uint32_t k = 0, from = 0; k < n; from = k) {
		uint32_t kept;

		while (k < n && list[k].member == list[from].member)
			k++;
		kept = spells_of_one(&list[from], k - from);
		memmove(&list[*count], &list[from], kept * sizeof(*list));
		*count += kept;
	}
	return list;
}

static struct run merged(const struct run *list, uint32_t count)
{
	struct run all = {.begin_unix_ns = UINT64_MAX};

	for (uint32_t k = 0; k < count; k++)
		incident_run_merge(&all, &list[k]);
	return all;
}

/* Windows also have healthy steps around the slow ones. A hang has no steps, so the time of its
 * windows counts. */
void incident_run_time(const struct run *r, uint64_t *begin_unix_ns, uint64_t *end_unix_ns)
{
	bool exact = r->steps.end_unix_ns && !(r->steps.reasons & 1u << WINDOW_STALL);

	*begin_unix_ns = exact ? r->steps.begin_unix_ns : r->begin_unix_ns;
	*end_unix_ns = exact ? r->steps.end_unix_ns : r->end_unix_ns;
}

void incident_fault_time(const struct incident *i, const struct incident_judgement *j,
			 uint64_t *begin_unix_ns, uint64_t *end_unix_ns)
{
	static uint64_t culprits[LIMIT_INCIDENT_RANKS];
	struct run all, *list;
	uint32_t count = 0, spell_count;
	bool found;

	for (uint32_t k = 0; k < i->member_count; k++)
		if (!j->waited && incident_is_culprit(i, j, &i->members[k]))
			culprits[count++] =
			    incident_member_key(i->members[k].rank, i->members[k].node);
	qsort(culprits, count, sizeof(*culprits), by_key);
	list = spells(i, culprits, count, &spell_count);
	for (uint32_t k = 0; k < spell_count; k++)
		incident_run_time(&list[k], &list[k].begin_unix_ns, &list[k].end_unix_ns);
	all = merged(list, spell_count);
	found = spell_count > 0;
	free(list);
	for (uint32_t k = 0; k < i->finding_count; k++) {
		struct run r = {.begin_unix_ns = i->findings[k].begin_unix_ns,
				.end_unix_ns = i->findings[k].end_unix_ns};

		if (is_about_transients(i, j, &i->findings[k].finding))
			continue;
		incident_run_merge(&all, &r);
		found = true;
	}
	*begin_unix_ns = found ? all.begin_unix_ns : i->row.begin_unix_ns;
	*end_unix_ns = found ? all.end_unix_ns : i->row.end_unix_ns;
}

struct slow_steps incident_fault_steps(const struct incident *i, const struct member *m)
{
	uint32_t count;
	struct run *list = incident_fault_spells(i, m, &count), all = merged(list, count);

	free(list);
	return all.steps.flagged ? all.steps : m->steps;
}

struct run *incident_fault_spells(const struct incident *i, const struct member *m, uint32_t *count)
{
	uint64_t key = incident_member_key(m->rank, m->node);

	return spells(i, &key, 1, count);
}

bool incident_is_lasting(const struct incident *i, const struct member *m)
{
	uint64_t key = incident_member_key(m->rank, m->node);

	for (uint32_t k = 0; k < i->run_count; k++)
		if (i->runs[k].member == key && !incident_is_brief(&i->runs[k]))
			return true;
	return false;
}

/* ---- spikes ---- */

/* Collects the times between the rank's spikes, ns; returns their number. gap: room for run_count
 * + its spikes. */
static uint32_t spike_gaps(const struct run *r, uint32_t count, double *gap, uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < count; k++) {
		const struct slow_steps *s = &r[k].steps;
		uint64_t within = s->spike_last_unix_ns - s->spike_first_unix_ns;

		if (k && n < max)
			gap[n++] =
			    (double)(s->spike_first_unix_ns - r[k - 1].steps.spike_last_unix_ns);
		for (uint64_t q = 1; q < s->spikes && n < max; q++)
			gap[n++] = (double)within / (double)(s->spikes - 1);
	}
	return n;
}

/* The median gap if most gaps are near it, else 0. */
static double regular(double *gap, uint32_t count)
{
	double period = median_of(gap, count);
	uint32_t near = 0;

	for (uint32_t k = 0; k < count; k++)
		near += fabs(gap[k] - period) <= thresholds.find.near * period;
	return near >= thresholds.part.most * count ? period : 0;
}

uint64_t incident_spikes(const struct incident *i, const struct member *m, double *period_ns)
{
	uint64_t key = incident_member_key(m->rank, m->node);
	struct run *list = malloc(((size_t)i->run_count + 1) * sizeof(*list));
	double *gap = malloc(LIMIT_INCIDENT_RANKS * sizeof(*gap));
	uint32_t n = 0;

	*period_ns = 0;
	for (uint32_t k = 0; list && k < i->run_count; k++)
		if (i->runs[k].member == key && i->runs[k].steps.spikes)
			list[n++] = i->runs[k];
	ORDER_SORT(list, n, by_time);
	n = gap ? spike_gaps(list, n, gap, LIMIT_INCIDENT_RANKS) : 0;
	if (n + 1 >= thresholds.count.few)
		*period_ns = regular(gap, n);
	free(list);
	free(gap);
	return m->steps.spikes;
}
