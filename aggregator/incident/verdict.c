/* SPDX-License-Identifier: Apache-2.0
 * One incident may have several verdicts, instead of becoming several incidents. Windows arrive
 * before their cause is known, and moving them later would change incidents that were already
 * reported. */
#include "aggregator/incident/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/incident/finding_json.h"
#include "aggregator/incident/incident_ledgers.h"
#include "aggregator/incident/incident_private.h"
#include "aggregator/incident/verdict_sketch.h"
#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/text/json_text.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/text.h"
#include "model/thresholds.h"

/* The number of suspects' and of peers' sketches that are read, and the number of peers that are
 * added if fewer than two sent a window. */
#define SUSPECT_SKETCHES 4u
#define PEER_SKETCHES	 4u

struct rank_list {
	const struct member *member[LIMIT_VERDICT_RANKS]; /* NULL: known only from its sketch */
	struct diagnosis_rank rank[LIMIT_VERDICT_RANKS];
	uint32_t count;
};

/* The inputs of a verdict. */
struct verdict_inputs {
	const struct incident_sources *sources;
	const struct incident *incident;
	struct verdict_sketches sketches;
	struct rank_list all, peers, part, one;
	struct rank_list worst; /* the group of `all` that costs most */
	double most_ns;		/* what this group lost */
	double common_ns;	/* what most of the other ranks lost too */
	const struct diagnosis_rank
	    *own; /* the first suspect's healthy steps of the last minute; NULL: not known */
	const struct diagnosis_rank *baseline; /* of the suspects' role; NULL: none known */
	struct diagnosis_group group;	       /* the waterline of the first suspect's role */
	struct incident_common *common;
	struct incident_ledgers ledger[LIMIT_VERDICT_RANKS + VERDICTS_MAX];
	uint32_t ledger_count;
};

static void add_ledger(struct verdict_inputs *with, const struct incident_judgement *j,
		       const struct member *m, struct diagnosis_rank *out)
{
	struct incident_ledgers *l = &with->ledger[with->ledger_count];

	if (with->ledger_count == ARRAY_LEN(with->ledger) ||
	    !incident_ledgers_open(with->common, m, l))
		return;
	with->ledger_count++;
	out->ledger = &l->slow;
	out->usual = &l->usual;
	out->usual_is_own = l->usual_is_own;
	out->period = l->period;
	out->stuck = j->kind == FINDING_HANG ? m->excerpts.open.excerpt->stuck : "";
}

/* The slow steps of one window, with the signals of all windows. */
static void slow_view(const struct member *m, const struct excerpt *p, struct diagnosis_rank *out)
{
	if (p)
		excerpt_rank(p, false, out);
	else
		*out = (struct diagnosis_rank){.gil_wait_ns = -1, .off_ns = -1};
	out->rank = m->rank;
	if (m->steps.flagged > out->steps && out->steps) /* other windows have the same cause */
		out->steps =
		    m->steps.flagged < UINT32_MAX ? (uint32_t)m->steps.flagged : UINT32_MAX;
	if (m->signal_count) {
		out->signal = m->signals;
		out->signal_count = m->signal_count;
	}
}

/* The slow or healthy part of one window, without data of others. */
static void plain_view(const struct member *m, const struct excerpt *p, bool healthy,
		       struct diagnosis_rank *out)
{
	excerpt_rank(p, healthy, out);
	out->rank = m->rank;
}

/* Switches to another window of the same rank; settings and group stay the same. */
static void show(const struct member *m, const struct excerpt *p, struct diagnosis_rank *out)
{
	struct diagnosis_rank had = *out;

	slow_view(m, p, out);
	out->setting = had.setting;
	out->setting_count = had.setting_count;
	out->group = had.group;
	out->ledger = had.ledger;
	out->usual = had.usual;
	out->usual_is_own = had.usual_is_own;
	out->period = had.ledger ? had.period : out->period;
	out->stuck = had.stuck;
	out->lost_ns = had.lost_ns;
	out->begin_unix_ns = had.begin_unix_ns;
	out->end_unix_ns = had.end_unix_ns;
}

static void rank_list_add(struct rank_list *to, const struct member *m, const struct excerpt *p)
{
	if (to->count == LIMIT_VERDICT_RANKS)
		return;
	to->member[to->count] = m;
	slow_view(m, p, &to->rank[to->count++]);
}

static double loss_of(const struct member *m)
{
	return m->accused.ns > m->steps.self_excess_ns ? m->accused.ns : m->steps.self_excess_ns;
}

/* What a rank cost the job. If others waited for it, because its work explains its steps, it cost
 * what they waited. */
static double cost_of(const struct incident *i, const struct incident_judgement *j,
		      const struct member *m)
{
	return incident_is_waited_for(j, m) ? incident_waits_most(i)->steps.waited_ns : loss_of(m);
}

ORDER_BY(by_loss, const struct member *,
	 ORDER(loss_of(*b), loss_of(*a)) ?: ORDER((*a)->rank, (*b)->rank));

/* by the latency of steps, whoever made them slow */
ORDER_BY(by_latency, const struct member *,
	 ORDER((*b)->steps.flagged_ns, (*a)->steps.flagged_ns) ?: ORDER((*a)->rank, (*b)->rank));

static void set_time(const struct incident *i, const struct member *m, struct diagnosis_rank *out)
{
	uint64_t unused;
	uint32_t count;
	struct run *list = incident_fault_spells(i, m, &count);

	out->begin_unix_ns = m->own.begin_unix_ns;
	if (count) {
		incident_run_time(list, &out->begin_unix_ns, &unused);
		incident_run_time(&list[count - 1], &unused, &out->end_unix_ns);
	}
	free(list);
}

/* Adds a suspect. If it is always slow, it has the signals of the chosen window; other windows have
 * the signals of its worst steps. */
static void suspect_add(struct rank_list *to, const struct incident *i,
			const struct incident_judgement *j, const struct member *m)
{
	const struct excerpt *p;
	uint32_t at = to->count;

	if (at == LIMIT_VERDICT_RANKS)
		return;
	p = incident_ledgers_excerpt(i, j, m);
	rank_list_add(to, m, p);
	if (p != m->excerpts.slow.excerpt)
		plain_view(m, p, false, &to->rank[at]);
	to->rank[at].lost_ns = incident_ledgers_lost_ns(i, j, m);
	set_time(i, m, &to->rank[at]);
}

/* The suspects are the culprits, worst first. If all ranks are slow and none is to blame: the ranks
 * with excerpts. */
static void find_suspects(const struct incident *i, const struct incident_judgement *j,
			  struct rank_list *to)
{
	const struct member **list = calloc((size_t)i->member_count + 1, sizeof(*list));
	uint32_t n = 0;

	for (uint32_t k = 0; list && k < i->member_count; k++)
		if (incident_is_culprit(i, j, &i->members[k]))
			list[n++] = &i->members[k];
	ORDER_SORT(list, n, by_loss);
	if (list && !n && j->kind == FINDING_UNIFORM) {
		for (uint32_t k = 0; k < i->member_count; k++)
			if (i->members[k].excerpts.slow.excerpt)
				list[n++] = &i->members[k];
		ORDER_SORT(list, n, by_latency);
	}
	if (n && j->lead && incident_is_culprit(i, j, j->lead))
		suspect_add(to, i, j, j->lead);
	for (uint32_t k = 0; k < n; k++)
		if (!to->count || list[k] != to->member[0])
			suspect_add(to, i, j, list[k]);
	free(list);
}

/* Adds a peer with the steps in which it was not late itself, if a window has such steps. Profile
 * and signals are of the whole window. */
static void peer_add(struct rank_list *to, const struct member *m)
{
	const struct excerpt *waiting = incident_ledgers_not_slow(m),
			     *p = waiting ? waiting : m->excerpts.slow.excerpt;
	struct diagnosis_rank late, *r = &to->rank[to->count];

	if (!p || !p->slow.rank.steps || to->count == LIMIT_VERDICT_RANKS)
		return;
	rank_list_add(to, m, p);
	if (waiting || !p->healthy.rank.steps)
		return;
	late = *r;
	plain_view(m, p, true, r);
	r->signal = late.signal;
	r->signal_count = late.signal_count;
	verdict_sketch_fill(r, &late);
}

static void find_peers(const struct incident *i, const struct incident_judgement *j,
		       struct rank_list *to)
{
	for (uint32_t k = 0; k < i->member_count; k++)
		if (!incident_is_culprit(i, j, &i->members[k]))
			peer_add(to, &i->members[k]);
}

/* ---- evidence of findings ---- */

static void add_line(struct diagnosis *d, const struct finding_line *from)
{
	for (uint32_t k = 0; k < d->evidence_count; k++)
		if (!strcmp(d->evidence[k].text, from->text))
			return;
	if (d->evidence_count < DIAGNOSIS_LINES_MAX)
		d->evidence[d->evidence_count++] = *from;
}

/* The verdict that a line of evidence belongs to: that of its rank, else the first one. */
static struct diagnosis *diagnosis_of(const struct finding_line *line, struct verdict *v,
				      uint32_t n)
{
	for (uint32_t k = 0; k < n && line->rank != FINDING_NO_RANK; k++)
		for (uint32_t q = 0; q < v[k].rank_count; q++)
			if (v[k].ranks[q] == line->rank)
				return &v[k].diagnosis;
	return &v->diagnosis;
}

/* The rank's window shows what it is stuck in; detection knows who waits for it. */
static void add_waiting(const struct finding *f, struct diagnosis *d)
{
	size_t used = strlen(d->summary);

	if (f->cause != d->cause && f->evidence_count &&
	    used + 40 < sizeof(d->summary)) /* enough room for a useful part */
		snprintf(d->summary + used, sizeof(d->summary) - used, "; %.200s",
			 f->evidence[0].text);
	d->effect_ns = f->effect_ns > d->effect_ns ? f->effect_ns : d->effect_ns;
}

/* Detection compares all ranks, and more steps than a window has. If it names a cause, that is the
 * verdict, unless the windows show another cause better. */
static void take_finding(const struct finding *f, struct verdict *v, uint32_t n)
{
	struct diagnosis *d = &v->diagnosis;
	/* a late host does not contradict a CPU cause: the host is late because of it */
	bool says_less =
	    f->cause == CAUSE_CPU_HOST_GAP && finding_cause_layer(d->cause) == LAYER_CPU;
	bool blind = d->cause == CAUSE_UNKNOWN || d->cause == CAUSE_CPU_HOST_GAP ||
		     d->cause == CAUSE_SW_SLOWER;

	/* A uniform slowdown's confidence is about the slowdown. Its cause comes from sketches,
	 * which are weaker evidence than windows of that time. */
	if (f->cause != CAUSE_UNKNOWN && f->cause != d->cause && !says_less &&
	    (blind ||
	     (f->kind != FINDING_UNIFORM && !d->by_ledger && f->confidence > d->confidence))) {
		enum finding_layer layer = finding_cause_layer(f->cause);

		d->cause = f->cause;
		d->confidence = f->confidence < 0 ? 0 : f->confidence > 0.99 ? 0.99 : f->confidence;
		text_copy(d->summary, sizeof(d->summary),
			  f->evidence_count ? f->evidence[0].text : finding_cause_title(f->cause));
		text_copy(d->remedy, sizeof(d->remedy), finding_cause_remedy(f->cause));
		for (uint32_t k = 0; k < d->ruled_out_count; k++)
			if (d->ruled_out[k].layer == layer)
				d->ruled_out[k--] = d->ruled_out[--d->ruled_out_count];
	}
	if (!(d->effect_ns > 0))
		d->effect_ns = f->effect_ns;
	if (f->kind == FINDING_HANG && d->by_ledger)
		add_waiting(f, d);
	for (uint32_t k = 0; k < f->evidence_count; k++)
		add_line(diagnosis_of(&f->evidence[k], v, n), &f->evidence[k]);
}

/* ---- verdicts ---- */

static bool has_cause(const struct diagnosis *d)
{
	return d->cause != CAUSE_UNKNOWN && d->cause != CAUSE_CPU_HOST_GAP;
}

static bool is_sure(const struct diagnosis *d)
{
	return has_cause(d) && d->confidence >= thresholds.sure.separate;
}

/* Whether the judgement is about most ranks, but not all. */
static bool is_of_some(const struct incident_judgement *j)
{
	return j->kind == FINDING_UNIFORM && j->by_count && j->culprits < j->ranks;
}

static void conclude(const struct incident_judgement *j, const struct diagnosis_input *in,
		     const struct rank_list *who, struct verdict *v)
{
	diagnosis_make(in, &v->diagnosis);
	v->rank_count = 0;
	v->begin_unix_ns = 0;
	for (uint32_t k = 0; k < who->count; k++) {
		uint64_t begin = who->rank[k].begin_unix_ns;

		if (begin && (!v->begin_unix_ns || begin < v->begin_unix_ns))
			v->begin_unix_ns = begin;
		if (j->kind == FINDING_SLOW_RANK || j->kind == FINDING_HANG || is_of_some(j))
			v->ranks[v->rank_count++] = who->member[k]->rank;
	}
}

static struct diagnosis_input input_of(const struct incident_judgement *j,
				       const struct rank_list *suspects,
				       const struct rank_list *peers,
				       const struct diagnosis_rank *before)
{
	struct diagnosis_input in = {.kind = j->kind,
				     .suspect = suspects->rank,
				     .suspect_count = suspects->count,
				     .peer = peers->rank,
				     .peer_count = peers->count,
				     .of_some = is_of_some(j),
				     .known = j->finding ? j->finding->cause : CAUSE_UNKNOWN};

	if (before->steps)
		in.before = before;
	return in;
}

/* How much of the loss of a median slow step the reference shows. */
static double shown_ns(const struct incident_judgement *j, const struct diagnosis_rank *who,
		       const struct diagnosis_rank *reference)
{
	return j->kind == FINDING_UNIFORM ? who->step_ns - reference->step_ns
					  : who->self_ns - reference->self_ns;
}

/* Chooses the reference: the suspects' healthy steps in windows; then those of the last minute;
 * then earlier runs, if all ranks are slow or no peer is known. Takes the first reference that
 * shows enough of the loss. */
static void before_of(const struct verdict_inputs *with, const struct incident_judgement *j,
		      const struct rank_list *who, struct diagnosis_rank *before)
{
	const struct diagnosis_rank *first = &who->rank[0],
				    *own = who->count && with->own && with->own->rank == first->rank
					       ? with->own
					       : NULL;
	struct diagnosis_rank list[3];
	double most_ns = -HUGE_VAL;
	uint32_t n = 0, k = 0;

	for (uint32_t q = 0; q < who->count && !n; q++)
		if (who->member[q]->excerpts.healthy.excerpt &&
		    who->member[q]->excerpts.healthy.excerpt->healthy.rank.steps)
			plain_view(who->member[q], who->member[q]->excerpts.healthy.excerpt, true,
				   &list[n++]);
	if (own && own->steps)
		list[n++] = *own;
	if (with->baseline && (j->kind == FINDING_UNIFORM || !with->peers.count))
		list[n++] = *with->baseline;
	*before = (struct diagnosis_rank){.steps = 0};
	if (!n)
		return;
	for (uint32_t q = 0; q < n; q++)
		most_ns = fmax(most_ns, shown_ns(j, first, &list[q]));
	while (k < n && first->lost_ns > 0 && most_ns > 0 &&
	       shown_ns(j, first, &list[k]) < incident_ledgers_enough_ns(most_ns, first->lost_ns))
		k++;
	*before = list[k];
	if (own && j->kind != FINDING_UNIFORM)
		verdict_sketch_fill(before, own);
	if (with->baseline)
		verdict_sketch_fill(before, with->baseline);
}

/* ---- choice of the window ---- */

struct seen {
	struct diagnosis_rank rank;
	enum finding_cause cause; /* UNKNOWN: no cause is sure enough */
	double confidence, lost_ns, stands_for_ns;
};

static uint32_t see(struct verdict_inputs *with, const struct incident_judgement *j,
		    const struct member *m, const struct diagnosis_rank *known, struct seen *out)
{
	struct diagnosis *d = malloc(sizeof(*d));
	struct diagnosis_rank before;
	struct diagnosis_input in;
	double most_ns = 0;
	uint32_t n = 0;

	for (uint32_t k = 0; d && k < INCIDENT_VIEWS; k++) {
		struct seen *s = &out[n];

		if (!m->excerpts.view[k].excerpt)
			continue;
		with->one.count = 1;
		with->one.member[0] = m;
		with->one.rank[0] = *known;
		show(m, m->excerpts.view[k].excerpt, &with->one.rank[0]);
		before_of(with, j, &with->one, &before);
		in = input_of(j, &with->one, &with->peers, &before);
		diagnosis_make(&in, d);
		*s = (struct seen){
		    .rank = with->one.rank[0],
		    .cause = is_sure(d) ? d->cause : CAUSE_UNKNOWN,
		    .confidence = d->confidence,
		    .lost_ns = m->excerpts.view[k].lost_ns,
		    .stands_for_ns = incident_views_stands_for(&m->excerpts, &m->excerpts.view[k])};
		if ((s->rank.kernel_count || s->rank.samples > 0) && s->lost_ns > most_ns)
			most_ns = s->lost_ns;
		n++;
	}
	for (uint32_t k = 0; k < n; k++)
		if (out[k].lost_ns < thresholds.part.little * most_ns)
			out[k].cause = CAUSE_UNKNOWN;
	free(d);
	return n;
}

/* Chooses the cause that accounts for most of the loss, in the window that shows it best. */
static void choose_view(struct verdict_inputs *with, const struct incident_judgement *j,
			const struct member *m, struct diagnosis_rank *rank)
{
	struct seen seen[INCIDENT_VIEWS];
	const struct seen *best = NULL;
	double worth[CAUSE_COUNT] = {0};
	uint32_t n = see(with, j, m, rank, seen);

	for (uint32_t k = 0; k < n; k++)
		if (seen[k].cause != CAUSE_UNKNOWN)
			worth[seen[k].cause] += seen[k].confidence * seen[k].stands_for_ns;
	for (uint32_t k = 0; k < n; k++) {
		const struct seen *s = &seen[k];

		if (s->cause == CAUSE_UNKNOWN)
			continue;
		if (!best || worth[s->cause] > worth[best->cause] ||
		    (s->cause == best->cause && s->confidence > best->confidence))
			best = s;
	}
	if (best)
		*rank = best->rank;
}

static void judge_part(const struct verdict_inputs *with, const struct incident_judgement *j,
		       const struct rank_list *who, struct verdict *v)
{
	struct diagnosis_rank before;
	struct diagnosis_input in;

	before_of(with, j, who, &before);
	in = input_of(j, who, &with->peers, &before);
	conclude(j, &in, who, v);
}

/* Adds a suspect, with the data that its sketch added. */
static void part_add(struct verdict_inputs *with, uint32_t k)
{
	struct rank_list *p = &with->part;

	p->member[p->count] = with->all.member[k];
	p->rank[p->count++] = with->all.rank[k];
}

struct part {
	uint32_t group;
	double lost_ns;
};

ORDER_BY(by_cost, struct part, ORDER_DOWN(lost_ns) ?: ORDER_UP(group));

/* The rank's index; of->count: it is not in the list. */
static uint32_t index_of(const struct rank_list *of, int32_t rank)
{
	uint32_t k = 0;

	while (k < of->count && of->rank[k].rank != rank)
		k++;
	return k;
}

static bool is_in(const struct rank_list *of, int32_t rank)
{
	return index_of(of, rank) < of->count;
}

static bool only_waits(const struct verdict_inputs *with, const uint32_t *group, int32_t rank)
{
	uint32_t k = index_of(&with->all, rank);

	return k < with->all.count && group[k] == DIAGNOSIS_WAITS;
}

/* What most ranks other than the worst ones lost too: something on the machine slows all of them. A
 * single other rank is not "most". group: of `all`; who only waits for another rank lost nothing. */
static double common_loss(const struct verdict_inputs *with, const struct incident *i,
			  const struct incident_judgement *j, const uint32_t *group)
{
	uint32_t others = j->ranks > with->worst.count ? j->ranks - with->worst.count : 0, n = 0;
	double *ns = others > 1 ? calloc(others, sizeof(*ns)) : NULL, common_ns;

	if (!ns)
		return 0;
	for (uint32_t k = 0; k < i->member_count && n < others; k++)
		if (!is_in(&with->worst, i->members[k].rank))
			ns[n++] = only_waits(with, group, i->members[k].rank)
				      ? 0
				      : loss_of(&i->members[k]);
	common_ns = median_nth(ns, others, (others - 1) / 2);
	free(ns);
	return common_ns;
}

/* Whether a rank or group other than the worst one lost enough for a fault of its own. */
static bool costs_enough(const struct verdict_inputs *with, double ns)
{
	return ns >= thresholds.part.little * with->most_ns &&
	       ns > thresholds.same.factor * with->common_ns;
}

/* Ranks whose group does not cost enough become minor: on a busy node some rank always waits for a
 * CPU while another rank has the fault. */
static void set_minor(const struct verdict_inputs *with, struct incident_judgement *j,
		      const uint32_t *group, const struct part *part, uint32_t n)
{
	for (uint32_t k = 0; k < with->all.count; k++) {
		uint32_t g = 0;

		while (g < n && part[g].group != group[k])
			g++;
		if (g == n)
			j->minor[j->minor_count++] = with->all.member[k];
	}
	j->culprits -= j->minor_count;
}

/* Sorts the groups by cost; returns how many of them cost enough. Ranks wait for each other, so a
 * group costs the job what its worst rank lost, however many ranks the group has. */
static uint32_t costliest(struct verdict_inputs *with, const struct incident *i,
			  struct incident_judgement *j, const uint32_t *group, uint32_t groups,
			  struct part *part)
{
	uint32_t n = 1;

	for (uint32_t g = 0; g < groups; g++)
		part[g] = (struct part){g, 0};
	for (uint32_t k = 0; k < with->all.count; k++)
		if (group[k] < groups)
			part[group[k]].lost_ns =
			    fmax(part[group[k]].lost_ns, cost_of(i, j, with->all.member[k]));
	qsort(part, groups, sizeof(*part), by_cost);
	for (uint32_t k = 0; k < with->all.count; k++)
		if (group[k] == part[0].group)
			with->worst.rank[with->worst.count++] = with->all.rank[k];
	with->most_ns = part[0].lost_ns;
	with->common_ns = common_loss(with, i, j, group);
	j->is_common = with->common_ns >= thresholds.part.most * with->most_ns;
	while (n < groups && costs_enough(with, part[n].lost_ns))
		n++;
	set_minor(with, j, group, part, n);
	if (j->minor_count) /* the lead may be a minor rank, so choose it again */
		for (uint32_t k = with->all.count; k-- > 0;)
			if (group[k] == part[0].group)
				j->lead = with->all.member[k];
	return n;
}

/* first: the rank that shows the group's cause best. */
static void part_of_group(struct verdict_inputs *with, const uint32_t *group, uint32_t g,
			  uint32_t first)
{
	with->part.count = 0;
	if (first < with->all.count)
		part_add(with, first);
	for (uint32_t k = 0; k < with->all.count; k++)
		if (group[k] == g && k != first)
			part_add(with, k);
}

/* Suspects that only waited for a rank of the group look slow by their own figures. */
static void add_who_waits(struct verdict_inputs *with, const uint32_t *group,
			  const struct diagnosis_wait *waits, uint32_t g, struct diagnosis *d)
{
	struct finding_line line = {.layer = LAYER_UNKNOWN, .rank = FINDING_NO_RANK};
	const char *whom = with->part.count > 1 ? "them" : "it";
	char who[96], most[TEXT_DURATION_BYTES];

	with->part.count = 0;
	for (uint32_t k = 0; k < with->all.count; k++)
		if (group[k] == DIAGNOSIS_WAITS && group[waits[k].whom] == g) {
			part_add(with, k);
			line.effect_ns = fmax(line.effect_ns, waits[k].ns);
		}
	if (!with->part.count)
		return;
	diagnosis_ranks_text(with->part.rank, with->part.count, who, sizeof(who));
	snprintf(line.text, sizeof(line.text), "%s only wait%s for %s on the CPU: %s per step", who,
		 with->part.count > 1 ? "" : "s", whom, text_duration(line.effect_ns, most));
	add_line(d, &line);
}

/* Divides suspects into groups by cause. Suspects without a cause of their own stay in the first
 * group. */
static uint32_t by_cause(struct verdict_inputs *with, const struct incident *i,
			 struct incident_judgement *j, struct verdict *out)
{
	uint32_t group[LIMIT_VERDICT_RANKS] = {0}, shows[LIMIT_VERDICT_RANKS] = {0}, groups = 1,
		 n = 0;
	struct diagnosis_wait waits[LIMIT_VERDICT_RANKS];
	struct part part[LIMIT_VERDICT_RANKS];
	struct diagnosis_rank before;
	struct diagnosis_input in;

	before_of(with, j, &with->all, &before);
	in = input_of(j, &with->all, &with->peers, &before);
	if (j->kind == FINDING_SLOW_RANK && with->all.count > 1)
		groups = diagnosis_split(&in, group, shows, waits);
	groups = costliest(with, i, j, group, groups, part);
	for (uint32_t g = 1; g < groups; g++) {
		if (n + 1 < VERDICTS_MAX) {
			part_of_group(with, group, part[g].group, shows[part[g].group]);
			judge_part(with, j, &with->part, &out[n + 1]);
			if (has_cause(&out[n + 1].diagnosis)) {
				n++;
				add_who_waits(with, group, waits, part[g].group, &out[n].diagnosis);
				continue;
			}
		}
		for (uint32_t k = 0; k < with->all.count; k++)
			if (group[k] == part[g].group)
				group[k] = part[0].group;
	}
	part_of_group(with, group, part[0].group, shows[part[0].group]);
	judge_part(with, j, &with->part, &out[0]);
	add_who_waits(with, group, waits, part[0].group, &out[0].diagnosis);
	return n + 1;
}

/* Whether the rank only waits for one of the verdicts' first ranks. with->part: the rank. */
static bool waits_for_one(struct verdict_inputs *with, const struct incident_judgement *j,
			  const struct verdict *v, uint32_t n)
{
	uint32_t group[VERDICTS_MAX + 1], shows[VERDICTS_MAX + 1];
	struct diagnosis_wait waits[VERDICTS_MAX + 1];
	struct diagnosis_rank before;
	struct diagnosis_input in;

	before_of(with, j, &with->part, &before);
	for (uint32_t q = 0; q < n; q++) {
		uint32_t k =
		    v[q].rank_count ? index_of(&with->all, v[q].ranks[0]) : with->all.count;

		if (k < with->all.count)
			part_add(with, k);
	}
	in = input_of(j, &with->part, &with->peers, &before);
	diagnosis_split(&in, group, shows, waits);
	with->part.count = 1;
	return group[0] == DIAGNOSIS_WAITS;
}

/* Adds further, cheaper faults. The rank of such a fault lost self time, more than a transient and
 * more than all ranks lose, and has a cause that no other verdict has. */
static uint32_t add_seconds(struct verdict_inputs *with, const struct incident *i,
			    const struct incident_judgement *j, struct verdict *out, uint32_t n)
{
	for (uint32_t k = 0; k < i->member_count && n < VERDICTS_MAX; k++) {
		const struct member *m = &i->members[k];
		uint32_t same = 0;

		if (!INCIDENT_REASON(m, WINDOW_SELF) || incident_is_culprit(i, j, m) ||
		    is_in(&with->all, m->rank) || !m->excerpts.slow.excerpt ||
		    !costs_enough(with, m->steps.self_excess_ns) || !incident_is_lasting(i, m) ||
		    incident_is_moment(j, m))
			continue;
		with->part.count = 0;
		rank_list_add(&with->part, m, m->excerpts.slow.excerpt);
		choose_view(with, j, m, &with->part.rank[0]);
		add_ledger(with, j, m, &with->part.rank[0]);
		set_time(i, m, &with->part.rank[0]);
		if (waits_for_one(with, j, out, n))
			continue;
		judge_part(with, j, &with->part, &out[n]);
		while (same < n && out[same].diagnosis.cause != out[n].diagnosis.cause)
			same++;
		if (same == n && is_sure(&out[n].diagnosis))
			n++;
	}
	return n;
}

/* ---- sketches ---- */

static const struct diagnosis_rank *sketch_of(struct verdict_inputs *with, int32_t rank)
{
	struct sketch *room = with->sources->sketch ? verdict_sketch_room(&with->sketches) : NULL;

	if (!room || with->sources->sketch(with->sources->arg, with->incident->row.job, rank, room))
		return NULL;
	return verdict_sketch_take(&with->sketches);
}

/* Adds healthy ranks without a window, by their sketches of the last minute. */
static void more_peers(struct verdict_inputs *with, const struct incident *i,
		       const struct incident_judgement *j)
{
	int32_t ranks[PEER_SKETCHES];
	uint32_t n = 0;

	if (with->sources->peers && with->all.count && with->peers.count < 2)
		n = with->sources->peers(with->sources->arg, with->incident->row.job,
					 with->all.rank[0].rank, ranks, PEER_SKETCHES);
	for (uint32_t k = 0; k < n && k < PEER_SKETCHES; k++) {
		const struct diagnosis_rank *r;

		if (is_in(&with->all, ranks[k]) || is_in(&with->peers, ranks[k]) ||
		    with->peers.count == LIMIT_VERDICT_RANKS)
			continue;
		r = sketch_of(with, ranks[k]);
		if (r && r->steps)
			with->peers.rank[with->peers.count++] = *r;
	}
}

/* The waterline of the worst suspect's role, for the suspects of that role. */
static void add_group(struct verdict_inputs *with)
{
	int32_t ranks[LIMIT_VERDICT_RANKS];
	bool is_of[LIMIT_VERDICT_RANKS] = {false};

	for (uint32_t k = 0; k < with->all.count; k++)
		ranks[k] = with->all.rank[k].rank;
	if (!with->all.count || !with->sources->waterline ||
	    with->sources->waterline(with->sources->arg, with->incident->row.job, ranks,
				     with->all.count, is_of, &with->group))
		return;
	for (uint32_t k = 0; k < with->all.count; k++)
		if (is_of[k])
			with->all.rank[k].group = &with->group;
}

static void add_sketches(struct verdict_inputs *with, const struct incident *i,
			 const struct incident_judgement *j)
{
	bool slow_rank = j->kind == FINDING_SLOW_RANK || j->kind == FINDING_HANG;
	struct sketch *room;

	for (uint32_t k = 0; k < with->all.count && k < SUSPECT_SKETCHES; k++) {
		const struct diagnosis_rank *r = sketch_of(with, with->all.rank[k].rank);

		/* takes only the sketch's settings, because its profile is of healthy steps */
		if (r) {
			with->all.rank[k].setting = r->setting;
			with->all.rank[k].setting_count = r->setting_count;
			with->own = k ? with->own : r;
		}
	}
	for (uint32_t k = 0; k < with->peers.count && k < PEER_SKETCHES; k++) {
		const struct diagnosis_rank *r = sketch_of(with, with->peers.rank[k].rank);

		if (r)
			verdict_sketch_fill(&with->peers.rank[k], r);
	}
	if (slow_rank)
		more_peers(with, i, j);
	room = with->sources->baseline && with->all.count ? verdict_sketch_room(&with->sketches)
							  : NULL;
	if (room && !with->sources->baseline(with->sources->arg, with->incident->row.job,
					     with->all.rank[0].rank, room))
		with->baseline = verdict_sketch_take(&with->sketches);
}

/* *sure_count: how many of the verdicts have a sure cause. */
static uint32_t make(const struct incident_set *s, const struct incident *i,
		     struct incident_judgement *j, struct verdict *out, uint32_t *sure_count)
{
	struct verdict_inputs *with = calloc(1, sizeof(*with));
	uint32_t n;

	*sure_count = 0;
	if (!with)
		return 0;
	verdict_sketch_init(&with->sketches);
	with->sources = &s->config.sources;
	with->incident = i;
	find_suspects(i, j, &with->all);
	if (j->kind == FINDING_SLOW_RANK || j->kind == FINDING_HANG)
		find_peers(i, j, &with->peers);
	add_sketches(with, i, j);
	if (j->kind == FINDING_SLOW_RANK)
		add_group(with);
	for (uint32_t k = 0; k < with->all.count; k++)
		if (incident_ledgers_excerpt(i, j, with->all.member[k]) ==
		    with->all.member[k]->excerpts.slow.excerpt)
			choose_view(with, j, with->all.member[k], &with->all.rank[k]);
	with->common = incident_common_open(i, j);
	for (uint32_t k = 0; k < with->all.count; k++)
		add_ledger(with, j, with->all.member[k], &with->all.rank[k]);
	n = by_cause(with, i, j, out);
	if (j->kind == FINDING_SLOW_RANK && !strcmp(j->symptom, "slow_rank"))
		n = add_seconds(with, i, j, out, n);
	for (uint32_t k = 0; k < n; k++)
		*sure_count += is_sure(&out[k].diagnosis);
	if (j->finding)
		take_finding(j->finding, out, n);
	verdict_sketch_fini(&with->sketches);
	for (uint32_t k = 0; k < with->ledger_count; k++)
		incident_ledgers_close(&with->ledger[k]);
	incident_common_close(with->common);
	free((void *)with->group.function);
	free(with);
	return n;
}

static double sent_again(const struct member *m)
{
	const char *name = os_signal_info(OS_SIGNAL_RETRANSMITS)->name;
	double sum = 0;

	for (uint32_t k = 0; k < m->signal_count; k++)
		if (m->signals[k].flags & OS_SIGNAL_RAISED && !strcmp(m->signals[k].name, name))
			sum += m->signals[k].value;
	return sum;
}

/* If several ranks wait for each other on connections that lose segments, blames the rank that
 * retransmits most segments. All bad connections of a bad node end at it, so its ranks retransmit
 * more than any others. */
static void blame_lossy(const struct incident *i, struct incident_judgement *j, struct verdict *v)
{
	if (j->kind != FINDING_SLOW_RANK || v->rank_count < 2 || !v->diagnosis.by_ledger ||
	    v->diagnosis.cause != CAUSE_NET_RETRANSMITS)
		return;
	for (uint32_t k = 0; k < i->member_count; k++)
		if (sent_again(&i->members[k]) > (j->lossy ? sent_again(j->lossy) : 0))
			j->lossy = &i->members[k];
	if (!j->lossy)
		return;
	j->lead = j->lossy;
	j->culprits = 1;
	v->ranks[0] = j->lossy->rank;
	v->rank_count = 1;
}

/* For a job of which most ranks are slow: makes the verdicts about the ranks separately.
 * sure_count: see make(). 0: out of memory. */
static uint32_t make_apart(const struct incident_set *s, const struct incident *i,
			   struct incident_judgement *apart, struct verdict *out,
			   uint32_t *sure_count)
{
	apart->kind = FINDING_SLOW_RANK;
	apart->by_count = false;
	if (!strcmp(apart->symptom, "slow_job"))
		apart->symptom = "slow_rank";
	return make(s, i, apart, out, sure_count);
}

/* Chooses between verdicts about the ranks and a verdict about the whole job. If the ranks have two
 * causes, the job does not have one common cause. The job is not slow as a whole if most of its
 * ranks lost little, and clearly less than the worst ones. A cause from the ranks' ledgers is
 * stronger than one from the job's medians. */
static uint32_t make_best(const struct incident_set *s, const struct incident *i,
			  struct incident_judgement *j, struct verdict *out)
{
	struct incident_judgement apart = *j;
	struct verdict *job;
	uint32_t n = 0, of_job, sure_count = 0;

	if (j->by_count)
		n = make_apart(s, i, &apart, out, &sure_count);
	if (sure_count > 1 || ((sure_count || apart.minor_count) && !apart.is_common &&
			       2 * apart.culprits <= apart.ranks)) {
		*j = apart;
		return n;
	}
	job = sure_count && out[0].diagnosis.by_ledger ? calloc(VERDICTS_MAX, sizeof(*job)) : NULL;
	of_job = make(s, i, j, job ? job : out, &sure_count);
	if (job && (!of_job || !job[0].diagnosis.by_ledger)) {
		*j = apart;
		of_job = n;
	} else if (job) {
		memcpy(out, job, of_job * sizeof(*job));
	}
	free(job);
	return of_job;
}

uint32_t verdict_make(const struct incident_set *s, const struct incident *i,
		      struct incident_judgement *j, struct verdict *out)
{
	uint32_t n = make_best(s, i, j, out);

	if (n == 1)
		blame_lossy(i, j, out);
	return n;
}

/* ---- as JSON ---- */

json_t *verdict_json(const struct verdict *v)
{
	const struct diagnosis *d = &v->diagnosis;
	json_t *ranks = json_array(), *missing = json_array();

	for (uint32_t k = 0; k < v->rank_count; k++)
		json_array_append_new(ranks, json_integer(v->ranks[k]));
	for (uint32_t k = 0; k < d->missing_count; k++)
		json_array_append_new(missing, json_text(d->missing[k]));
	return json_pack(
	    "{s:s, s:s, s:s, s:o, s:o, s:f, s:f, s:o, s:b, s:o, s:o, s:o, s:o}", "layer",
	    finding_layer_name(finding_cause_layer(d->cause)), "cause", finding_cause_id(d->cause),
	    "title", finding_cause_title(d->cause), "ranks", ranks, "summary",
	    json_text(d->summary), "confidence", text_finite(d->confidence), "effect_ms",
	    text_ms(d->effect_ns), "begin_unix_ns", json_exact(v->begin_unix_ns), "by_ledger",
	    (int)d->by_ledger, "evidence", finding_json_lines(d->evidence, d->evidence_count),
	    "ruled_out", finding_json_lines(d->ruled_out, d->ruled_out_count), "missing", missing,
	    "remedy", json_text(d->remedy));
}
