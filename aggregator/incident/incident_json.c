/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/incident/incident_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/incident/finding_json.h"
#include "aggregator/incident/ledger_json.h"
#include "aggregator/incident/slow_step_json.h"
#include "aggregator/incident/verdict.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/text.h"
#include "model/rank_name.h"

#define NAMED_RANKS_MAX 256
#define PLACES_MAX	64 /* nodes, containers */

ORDER_BY(by_number, int32_t, ORDER(*a, *b));

/* Culprits come worst first, so `ranks[0]` is the rank to look at. Victims come by number. */
static json_t *ranks_json(const struct incident *i, const struct incident_judgement *j,
			  bool culprits)
{
	int32_t ranks[NAMED_RANKS_MAX];
	uint32_t n = 0;
	json_t *out = json_array();

	if (culprits && j->lead && incident_is_culprit(i, j, j->lead))
		ranks[n++] = j->lead->rank;
	for (uint32_t k = 0; k < i->member_count && n < NAMED_RANKS_MAX; k++) {
		const struct member *m = &i->members[k];

		if (culprits ? incident_is_culprit(i, j, m) && m != j->lead
			     : incident_is_victim(i, j, m))
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

/* The ranks in the document's "ranks": first the culprits; from `further` on, the ranks of further
 * verdicts. */
struct named {
	const json_t *ranks;
	size_t further;
};

static bool is_named(const struct incident *i, const struct incident_judgement *j,
		     const struct named *who, const struct member *m)
{
	bool named = incident_is_culprit(i, j, m);

	for (size_t k = who->further; k < json_array_size(who->ranks) && !named; k++)
		named = json_integer_value(json_array_get(who->ranks, k)) == m->rank;
	return named;
}

static json_t *nodes_json(const struct incident *i, const struct incident_judgement *j,
			  const struct named *who)
{
	json_t *out = json_array();

	for (uint32_t k = 0; k < i->member_count && json_array_size(out) < PLACES_MAX; k++) {
		const struct member *m = &i->members[k];
		bool seen = false;
		size_t at;
		json_t *name;

		if (json_array_size(who->ranks) && !is_named(i, j, who, m))
			continue;
		json_array_foreach (out, at, name)
			seen |= !strcmp(json_string_value(name), m->node);
		if (!seen && m->node[0])
			json_array_append_new(out, json_text(m->node));
	}
	return out;
}

/* The list's element for the rank's container, added if it is new; NULL: no room. */
static json_t *pod_of(json_t *list, const struct member *m)
{
	json_t *place;
	size_t at;

	json_array_foreach (list, at, place) {
		bool same = true;

		for (int k = 0; k < POD_TEXTS; k++)
			same &= !strcmp(jsonget_text(place, window_pod_keys[k]), m->pod.text[k]);
		if (same)
			return place;
	}
	if (at == PLACES_MAX)
		return NULL;
	place = json_pack("{s:[]}", "ranks");
	for (int k = 0; k < POD_TEXTS; k++)
		json_object_set_new(place, window_pod_keys[k], json_text(m->pod.text[k]));
	json_array_append_new(list, place);
	return place;
}

/* The containers of the ranks to blame, each with its ranks; if no rank is to blame, the containers
 * of all ranks. */
static json_t *pods_json(const struct incident *i, const struct incident_judgement *j,
			 const struct named *who)
{
	json_t *out = json_array();

	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		json_t *place;

		if (!*m->pod.text[POD_NAME] ||
		    (json_array_size(who->ranks) && !is_named(i, j, who, m)))
			continue;
		place = pod_of(out, m);
		json_array_append_new(json_object_get(place, "ranks"), json_integer(m->rank));
	}
	return out;
}

struct rank_signal {
	/* must be the first member, because os_signal_order gets this pointer */
	struct os_signal s;
	int32_t rank;
};

static json_t *signal_json(const struct rank_signal *r)
{
	const struct os_signal *s = &r->s;
	char line[256];

	return json_pack("{s:i, s:o, s:o, s:o, s:f, s:o, s:f, s:b, s:o}", "rank", (int)r->rank,
			 "name", json_text(s->name), "subject", json_text(s->subject), "unit",
			 json_text(s->unit), "value", s->value, "usual",
			 s->usual < 0 ? json_null() : json_real(s->usual), "weight_ms",
			 s->weight_ms, "raised", (int)(s->flags & OS_SIGNAL_RAISED), "text",
			 json_text(os_signal_text(s, line, sizeof(line))));
}

/* All signals of the named ranks. If no rank is to blame: all signals of the rank that shows most,
 * and the raised signals of the others. */
static json_t *signals_json(const struct incident *i, const struct incident_judgement *j,
			    const struct named *who)
{
	bool blamed = json_array_size(who->ranks) > 0;
	struct rank_signal *all = malloc(LIMIT_INCIDENT_SIGNALS * sizeof(*all));
	json_t *out = json_array();
	uint32_t n = 0;

	for (uint32_t k = 0; all && k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		bool whole = blamed ? is_named(i, j, who, m) : m == j->lead;

		for (uint32_t q = 0; q < m->signal_count && n < LIMIT_INCIDENT_SIGNALS; q++)
			if (whole || (!blamed && m->signals[q].flags & OS_SIGNAL_RAISED))
				all[n++] = (struct rank_signal){m->signals[q], m->rank};
	}
	ORDER_SORT(all, n, os_signal_order);
	for (uint32_t q = 0; q < n; q++)
		json_array_append_new(out, signal_json(&all[q]));
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
	json_array_append_new(list, json_text(line));
}

static void say_of(json_t *list, int rank, const char *what)
{
	struct rank_name name;

	say(list, "%s: %s", rank_name(rank, &name), what);
}

/* INV-9: lists the evidence that is missing. */
static json_t *missing_json(const struct incident *i, const struct incident_judgement *j,
			    const struct named *who)
{
	json_t *out = json_array();

	if (!j->reason && !j->finding && !j->waited)
		say(out, "no rank lost self time: the cause is outside of what was observed");
	else if (!j->culprits && j->reason)
		say(out,
		    "all ranks stopped at the same collective: not known which one stopped first");
	else if (j->reason && j->lead && !j->lead->excerpts.healthy.excerpt)
		say_of(out, j->lead->rank, "no healthy steps of its own to compare with");
	for (uint32_t k = 0; k < i->member_count; k++) {
		const struct member *m = &i->members[k];
		char what[160];

		if (is_named(i, j, who, m) && m->sent.windows &&
		    m->sent.summaries == m->sent.windows)
			say_of(out, m->rank, "summaries only, no events");
		if (m->sent.lost) {
			snprintf(what, sizeof(what), "%llu event%s lost (%s%s)",
				 (unsigned long long)m->sent.lost, m->sent.lost == 1 ? "" : "s",
				 m->sent.lost == 1 ? "" : "mostly ", m->sent.lost_cause);
			say_of(out, m->rank, what);
		}
	}
	if (i->ranks_dropped)
		say(out, "windows of further ranks are left out");
	if (i->excerpts_dropped)
		say(out,
		    "kernels and stacks of %llu windows are not compared: there was no room for "
		    "more",
		    (unsigned long long)i->excerpts_dropped);
	return out;
}

/* ---- cost ---- */

struct cost {
	double lost_ns;		     /* by the job */
	double hours, hours_per_day; /* of GPUs */
};

static void put_cost(json_t *out, const struct cost *c)
{
	json_object_set_new(out, "lost_ms", json_real(text_finite(c->lost_ns / 1e6)));
	json_object_set_new(out, "gpu_hours_lost", json_real(text_finite(c->hours)));
	json_object_set_new(out, "gpu_hours_per_day", json_real(text_finite(c->hours_per_day)));
}

/* The number of the job's GPUs: one for each rank; 0 if all windows are from processes without a
 * GPU. */
static uint32_t gpus_of(const struct incident *i, const struct incident_judgement *j)
{
	return i->windows && i->windows_without_gpu == i->windows ? 0 : j->ranks;
}

/* The cost of the incident. All ranks of the job wait for the slowest one, so it is (step -
 * expected) x ranks. most_ns: largest loss of a step; 0: unknown. */
static struct cost cost_of(const struct incident *i, const struct incident_judgement *j,
			   const struct slow_steps *steps, double most_ns, uint64_t duration_ns)
{
	uint32_t gpus = gpus_of(i, j);
	double each_ns = 0, count = (double)steps->flagged, lost_ns, part;
	struct cost c = {0, 0, 0};

	if (j->lead && j->lead->steps.flagged)
		each_ns = j->lead->steps.flagged_ns / (double)j->lead->steps.flagged;
	if (j->finding) {
		const struct finding *f = j->finding;

		if (!(each_ns >
		      0)) /* the finding's self time; the other ranks may not have seen all of it */
			each_ns = f->effect_ns;
		if ((double)(f->last_step - f->first_step) + 1 > count)
			count = (double)(f->last_step - f->first_step) + 1;
	}
	/* If other ranks are slow at the same time, a step loses more than this rank caused. */
	if (most_ns > 0)
		each_ns = fmin(each_ns, most_ns);
	/* The loss of the flagged steps is measured. Each other step may have lost as much. */
	lost_ns = steps->flagged_ns > 0
		      ? steps->flagged_ns + each_ns * (count - (double)steps->flagged)
		      : each_ns * count;
	if (most_ns > 0)
		lost_ns = fmin(lost_ns, most_ns * count);
	if (!strcmp(j->symptom, "stall")) /* in a stall all ranks lose all of the time */
		lost_ns = (double)duration_ns;
	if (duration_ns && lost_ns > (double)duration_ns)
		lost_ns = (double)duration_ns;
	part = duration_ns ? lost_ns / (double)duration_ns : 0;
	c.lost_ns = lost_ns;
	c.hours = lost_ns / 3.6e12 * gpus;
	/* a transient has no rate */
	c.hours_per_day = strcmp(j->symptom, "transient") ? 24 * part * gpus : 0;
	return c;
}

/* Cost of a further verdict, from its first rank's loss and time. A verdict without a rank is about
 * the same steps as the first. */
static struct cost verdict_cost(const struct incident *i, const struct incident_judgement *j,
				const struct verdict *v, const struct cost *first,
				uint64_t duration_ns)
{
	struct incident_judgement one = *j;
	const struct member *m = v->rank_count ? incident_member(i, v->ranks[0]) : NULL;
	struct slow_steps steps;

	if (!m)
		return *first;
	one.lead = m;
	one.finding = NULL;
	for (uint32_t k = 0; k < i->finding_count && !one.finding; k++)
		if (i->findings[k].finding.rank_count && i->findings[k].finding.ranks[0] == m->rank)
			one.finding = &i->findings[k].finding;
	steps = incident_fault_steps(i, m);
	if (steps.end_unix_ns > steps.begin_unix_ns)
		duration_ns = steps.end_unix_ns - steps.begin_unix_ns;
	else if (m->own.end_unix_ns > m->own.begin_unix_ns)
		duration_ns = m->own.end_unix_ns - m->own.begin_unix_ns;
	return cost_of(i, &one, &steps, v->diagnosis.effect_ns, duration_ns);
}

static const char *life_of(const struct incident_set *s, const struct incident *i)
{
	if (!i->row.open)
		return "cleared";
	return i->row.end_unix_ns - i->row.begin_unix_ns > s->config.gap_ns ? "ongoing" : "open";
}

static json_t *findings_json(const struct incident *i)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < i->finding_count; k++)
		json_array_append_new(list, finding_json_make(&i->findings[k]));
	return list;
}

/* "diagnosis" is the first of "diagnoses". The ranks of all diagnoses are culprits. */
static void put_verdicts(json_t *out, const struct incident *i, const struct incident_judgement *j,
			 const struct verdict *v, uint32_t n, const struct cost *cost,
			 uint64_t duration_ns)
{
	json_t *list = json_array(), *ranks = json_object_get(out, "ranks"),
	       *victims = json_object_get(out, "victims"), *have;

	for (uint32_t k = 0; k < n; k++) {
		struct cost its = k ? verdict_cost(i, j, &v[k], cost, duration_ns) : *cost;
		json_t *one = verdict_json(&v[k]);

		put_cost(one, &its);
		json_object_set_new(one, "ledger",
				    j->kind == FINDING_REQUESTS
					? json_null() /* about no rank's steps */
					: ledger_json_make(i, j,
							   v[k].rank_count ? v[k].ranks[0]
							   : j->lead	   ? j->lead->rank
									   : -1));
		json_array_append_new(list, one);
		for (uint32_t q = 0; k && q < v[k].rank_count; q++) {
			size_t at;
			bool known = false;

			json_array_foreach (ranks, at, have)
				known |= json_integer_value(have) == v[k].ranks[q];
			if (!known)
				json_array_append_new(ranks, json_integer(v[k].ranks[q]));
			json_array_foreach (victims, at, have)
				if (json_integer_value(have) == v[k].ranks[q])
					json_array_remove(victims, at--);
		}
	}
	json_object_set(out, "diagnosis", n ? json_array_get(list, 0) : json_null());
	json_object_set_new(out, "diagnoses", list);
}

/* An expected time below a nanosecond means unknown, and would exceed a double's range. */
static bool is_known(double expected_ns)
{
	return expected_ns >= 1;
}

/* How long the slow steps took, and how long they should have taken, as means. If the verdict has a
 * ledger that compares with healthy steps of the rank, these are the ledger's figures, so that an
 * incident states only one excess. */
static void put_excess(json_t *out, const struct incident_judgement *j,
		       const struct slow_steps *steps)
{
	const json_t *ledger = json_object_get(json_object_get(out, "diagnosis"), "ledger");
	double latency_ms = incident_latency_ns(&steps->took) * 1e-6,
	       expected_ms = incident_expected_ns(&steps->took) * 1e-6,
	       found = j->finding ? text_finite(j->finding->excess) : 0;

	if (j->kind == FINDING_REQUESTS) {
		latency_ms = expected_ms = 0;
	} else if (j->kind != FINDING_HANG && !strcmp(jsonget_text(ledger, "reference"), "own")) {
		latency_ms = jsonget_number(ledger, "slow_ms");
		expected_ms = jsonget_number(ledger, "reference_ms");
	}
	json_object_set_new(out, "latency_ms", json_real(text_finite(latency_ms)));
	json_object_set_new(out, "expected_ms", json_real(text_finite(expected_ms)));
	json_object_set_new(
	    out, "excess",
	    json_real(is_known(expected_ms * 1e6) ? latency_ms / expected_ms - 1 : found));
	json_object_set_new(out, "self_excess",
			    json_real(is_known(steps->took.expected_self_ns)
					  ? steps->self_excess_ns / steps->took.expected_self_ns
					  : found));
}

static void put_figures(json_t *out, const struct incident *i, const struct incident_judgement *j,
			const struct slow_steps *steps)
{
	const struct finding *f = j->finding;
	bool seen = steps->flagged > 0 || !f;

	json_object_set_new(out, "first_step",
			    json_integer((json_int_t)(seen ? steps->first_step : f->first_step)));
	json_object_set_new(out, "last_step",
			    json_integer((json_int_t)(seen ? steps->last_step : f->last_step)));
	json_object_set_new(out, "flagged_steps", json_integer((json_int_t)steps->flagged));
	json_object_set_new(
	    out, "steps_to_flag",
	    json_integer(
		(json_int_t)(steps->flagged ? steps->first_step - steps->onset_step + 1 : 0)));
	put_excess(out, j, steps);
	json_object_set_new(out, "uploaded_bytes", json_integer((json_int_t)i->bytes));
	json_object_set_new(out, "raw_bytes", json_integer((json_int_t)i->raw_bytes));
	json_object_set_new(out, "window_count", json_integer((json_int_t)i->windows));
}

static void put_slow_step(json_t *out, const struct incident *i, const struct incident_judgement *j)
{
	const struct excerpt *p = j->lead ? j->lead->excerpts.slow.excerpt : NULL;
	double period_ns = 0;
	uint64_t spikes = j->lead ? incident_spikes(i, j->lead, &period_ns) : 0;
	const struct slow_step *step = p ? &p->step : NULL;

	json_object_set_new(
	    out, "spikes",
	    spikes ? json_pack("{s:I, s:o}", "count", (json_int_t)spikes, "period_s",
			       period_ns > 0 ? json_real(period_ns * 1e-9) : json_null())
		   : json_null());
	if (i->spike_count && incident_is_spikes(i))
		step = &i->spikes->step;
	if (i->apart > 1)
		step = incident_spikes_of_request(i);
	json_object_set_new(out, "slow_step", slow_step_json_make(step));
	json_object_set_new(out, "other_spikes",
			    i->apart > 1 ? json_array() : incident_spikes_json(i, step));
}

json_t *incident_json_make(const struct incident_set *s, const struct incident *i,
			   uint32_t job_ranks)
{
	uint64_t begin_unix_ns, end_unix_ns, duration_ns;
	struct verdict *v = calloc(VERDICTS_MAX, sizeof(*v));
	struct incident_judgement j, loss;
	const struct member *lost;
	struct named who;
	uint32_t n;
	struct cost cost;
	struct slow_steps steps;
	json_t *out;

	incident_judge(i, job_ranks, &j);
	incident_fault_time(i, &j, &begin_unix_ns, &end_unix_ns);
	duration_ns = end_unix_ns > begin_unix_ns ? end_unix_ns - begin_unix_ns : 0;
	/* the steps of a rank that others waited for are not flagged */
	lost = j.waited ? incident_waits_most(i) : j.lead;
	steps = lost ? incident_fault_steps(i, lost) : (struct slow_steps){0};
	/* must come first, because symptom and kind depend on it */
	n = v ? verdict_make(s, i, &j, v) : 0;
	loss = j;
	loss.lead = j.waited ? lost : j.lead;
	cost = cost_of(i, &loss, &steps, 0, duration_ns);
	out = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:f, s:s, s:s, s:i, s:o, s:o}", "id",
			i->row.id, "job", i->row.job, "state", i->row.open ? "open" : "closed",
			"life", life_of(s, i), "begin_unix_ns", json_exact(begin_unix_ns),
			"end_unix_ns", json_exact(end_unix_ns), "duration_s",
			(double)duration_ns * 1e-9, "symptom", j.symptom, "kind",
			finding_kind_name(j.kind), "job_ranks", (int)j.ranks, "ranks",
			ranks_json(i, &j, true), "victims", ranks_json(i, &j, false));
	if (!out)
		goto done;
	who.ranks = json_object_get(out, "ranks");
	who.further = json_array_size(who.ranks);
	put_verdicts(out, i, &j, v, n, &cost,
		     /* must come first, because it adds the ranks of further verdicts */
		     duration_ns);
	json_object_set_new(out, "nodes", nodes_json(i, &j, &who));
	json_object_set_new(out, "pods", pods_json(i, &j, &who));
	put_figures(out, i, &loss, &steps);
	put_slow_step(out, i, &j);
	put_cost(out, &cost);
	json_object_set_new(out, "signals", signals_json(i, &j, &who));
	json_object_set_new(out, "findings", findings_json(i));
	json_object_set_new(out, "missing", missing_json(i, &j, &who));
done:
	free(v);
	return out;
}
