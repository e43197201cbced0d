/* SPDX-License-Identifier: Apache-2.0
 * An incident keeps sums per rank, not its windows: a storm of ten thousand windows costs only what
 * its ranks cost. The windows are in the store. The sums do not depend on the order of arrival. */
#include "aggregator/incident/incident_private.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/incident/finding_json.h"
#include "base/hash.h"
#include "base/text/json_text.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/thresholds.h"

static void raise_to(uint64_t *most, uint64_t value)
{
	if (value > *most)
		*most = value;
}

/* Extends the interval to include from and to; 0, 0 is empty. */
static void widen(uint64_t *begin, uint64_t *end, uint64_t from, uint64_t to)
{
	if (from && (!*begin || from < *begin))
		*begin = from;
	raise_to(end, to);
}

int incident_set_open(struct incident_set **out, const struct incident_config *c)
{
	struct incident_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->config = *c;
	*out = s;
	return 0;
}

static void incident_free(struct incident_set *s, struct incident *i)
{
	incident_share_leave(s, i);
	for (uint32_t k = 0; k < i->member_count; k++) {
		free(i->members[k].signals);
		incident_views_clear(s, i, &i->members[k]);
	}
	free(i->findings);
	free(i->members);
	free(i->anomalies);
	free(i->runs);
	free(i->spikes);
	free(i);
}

void incident_set_close(struct incident_set *s)
{
	if (!s)
		return;
	while (s->first) {
		struct incident *next = s->first->next;

		incident_free(s, s->first);
		s->first = next;
	}
	if (s->evicted)
		incident_free(s, s->evicted);
	free(s);
}

static struct incident *find(const struct incident_set *s, const char *id)
{
	struct incident *i = s->first;

	while (i && strcmp(i->row.id, id))
		i = i->next;
	return !i && s->evicted && !strcmp(s->evicted->row.id, id) ? s->evicted : i;
}

static void unlink_incident(struct incident_set *s, struct incident *gone)
{
	struct incident **at = &s->first;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	s->count--;
}

/* Whether to forget a rather than b, if both are in the same state. The incident whose sender, node
 * or job has most goes first; then the one without a finding, the one with fewer windows, the one
 * that is silent for longer. */
static bool is_less(const struct incident *a, const struct incident *b)
{
	int more = incident_share_compare(a, b);

	if (more)
		return more > 0;
	if (a->row.open && !a->finding_count != !b->finding_count)
		return !a->finding_count;
	if (a->row.open && a->windows != b->windows)
		return a->windows < b->windows;
	return a->row.arrival_unix_ns < b->row.arrival_unix_ns;
}

/* Makes room for the newcomer, which already counts for its sender and is never removed itself. A
 * closed incident goes first, because the store still has it. If there is none, an open one is
 * closed, and the caller reports that. */
static void make_room(struct incident_set *s, const struct incident *newcomer)
{
	struct incident *least = NULL;
	bool open = true;

	if (s->evicted)
		incident_free(s, s->evicted);
	s->evicted = NULL;
	if (s->count < LIMIT_INCIDENTS_LIVE)
		return;
	for (struct incident *i = s->first; i && open; i = i->next)
		open = i->row.open;
	incident_share_count(s, open);
	for (int n = 0; n < SHARE_LEVELS; n++)
		if (newcomer->share[n])
			newcomer->share[n]->counted++;
	for (struct incident *i = s->first; i; i = i->next)
		if (i->row.open == open && (!least || is_less(i, least)))
			least = i;
	unlink_incident(s, least);
	if (!open) {
		incident_free(s, least);
		return;
	}
	least->row.open = false;
	s->evicted = least;
}

static struct incident *incident_new(struct incident_set *s, const struct incident_row *row,
				     uint64_t sender, const char *node)
{
	struct incident *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->row = *row;
	if (!incident_share_join(s, i, sender, node)) {
		free(i);
		return NULL;
	}
	make_room(s, i);
	i->order = s->orders++;
	i->next = s->first;
	s->first = i;
	s->count++;
	return i;
}

static void member_place(struct member *m, const struct wire_rank *who)
{
	memcpy(m->node, who->node, sizeof(m->node));
	m->pod = who->pod;
}

static struct member *member_of(struct incident *i, const struct wire_rank *who)
{
	struct member *m;

	for (uint32_t k = 0; k < i->member_count; k++) {
		m = &i->members[k];
		/* a rank without a number is identified by its node */
		if (m->rank != who->rank || (m->rank < 0 && strcmp(m->node, who->node)))
			continue;
		if (!m->node[0]) /* a finding had named the rank before */
			member_place(m, who);
		if (who->world_size > m->world_size)
			m->world_size = who->world_size;
		return m;
	}
	if (i->member_count >= LIMIT_INCIDENT_RANKS) {
		i->ranks_dropped++;
		return NULL;
	}
	if (ROOM_FOR(i->members, i->member_room, i->member_count + 1))
		return NULL;
	m = &i->members[i->member_count++];
	*m = (struct member){.rank = who->rank, .world_size = who->world_size};
	member_place(m, who);
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
	    !ROOM_FOR(i->anomalies, i->anomaly_room, i->anomaly_count + 1))
		memcpy(i->anomalies[i->anomaly_count++].id, id, 16);
}

/* A rank without a number is identified by its node. */
uint64_t incident_member_key(int32_t rank, const char *node)
{
	return rank >= 0 ? (uint64_t)rank : keyed_text(keyed_process(), node) | 1ull << 63;
}

/* The share of [first, last] that lies in [from, to]. */
static double shared_part(uint64_t first, uint64_t last, uint64_t from, uint64_t to)
{
	uint64_t begin = first > from ? first : from, end = last < to ? last : to;

	return end < begin ? 0 : ((double)(end - begin) + 1) / ((double)(last - first) + 1);
}

/* The share of from's flagged steps that `to` does not have. A rank's own windows and windows about
 * the comparison on its node may be about the same steps. */
static double new_part(const struct run *to, const struct run *from)
{
	if (from->member != to->member || !from->steps.flagged || !to->steps.flagged)
		return 1;
	return 1 - fmin(shared_part(from->steps.first_step, from->steps.last_step,
				    to->steps.first_step, to->steps.last_step),
			shared_part(from->begin_unix_ns, from->end_unix_ns, to->begin_unix_ns,
				    to->end_unix_ns));
}

static void times_add(struct slow_steps *to, const struct slow_steps *from, double part)
{
	if (from->took_itself > to->took_itself) {
		to->took = (struct step_times){0};
		to->took_itself = true;
	}
	if (from->took_itself < to->took_itself)
		return;
	to->took.steps += part * from->took.steps;
	to->took.latency_ns += part * from->took.latency_ns;
	to->took.expected_steps += part * from->took.expected_steps;
	to->took.expected_ns += part * from->took.expected_ns;
	to->took.expected_self_ns += from->took.expected_self_ns;
}

/* part: the share of from's flagged steps that `to` does not have. */
static void steps_add(struct slow_steps *to, const struct slow_steps *from, double part)
{
	if (from->flagged && (!to->flagged || from->first_step < to->first_step)) {
		to->first_step = from->first_step;
		to->onset_step = from->onset_step;
	}
	raise_to(&to->last_step, from->last_step);
	widen(&to->begin_unix_ns, &to->end_unix_ns, from->begin_unix_ns, from->end_unix_ns);
	to->reasons |= from->reasons;
	to->flagged += (uint64_t)(part * (double)from->flagged + 0.5);
	to->hinted += (uint64_t)(part * (double)from->hinted + 0.5);
	to->spikes += (uint64_t)(part * (double)from->spikes + 0.5);
	widen(&to->spike_first_unix_ns, &to->spike_last_unix_ns, from->spike_first_unix_ns,
	      from->spike_last_unix_ns);
	times_add(to, from, part);
	to->self_excess_ns += from->self_excess_ns;
	to->first_self_ns += from->first_self_ns;
	to->first_ns += part * from->first_ns;
	to->flagged_ns += part * from->flagged_ns;
	to->slow_ns += from->slow_ns;
	to->waited_ns += part * from->waited_ns;
}

void incident_run_merge(struct run *to, const struct run *from)
{
	steps_add(&to->steps, &from->steps, new_part(to, from));
	widen(&to->begin_unix_ns, &to->end_unix_ns, from->begin_unix_ns, from->end_unix_ns);
}

static bool touches(const struct run *a, const struct run *b)
{
	return a->member == b->member &&
	       (a->begin_unix_ns <= b->end_unix_ns ||
		a->begin_unix_ns - b->end_unix_ns <= thresholds.clock.error_ns) &&
	       (b->begin_unix_ns <= a->end_unix_ns ||
		b->begin_unix_ns - a->end_unix_ns <= thresholds.clock.error_ns);
}

/* A run for which there is no room is dropped; the sums per rank still include it. */
static void run_take(struct incident *i, struct run r)
{
	for (uint32_t k = 0; k < i->run_count;) {
		if (!touches(&i->runs[k], &r)) {
			k++;
			continue;
		}
		incident_run_merge(&r, &i->runs[k]);
		i->runs[k] = i->runs[--i->run_count];
		k = 0; /* r has grown, so it may touch earlier runs now */
	}
	if (i->run_count < LIMIT_INCIDENT_RANKS &&
	    !ROOM_FOR(i->runs, i->run_room, i->run_count + 1))
		i->runs[i->run_count++] = r;
}

/* Offers the window's excerpt. A window about what the rank did itself is worth more than one about
 * waiting. Among these, the lost time counts, or the flagged steps if it is unknown. */
static void take_excerpt(struct incident_set *s, struct incident *i, struct member *m,
			 const struct digest *d)
{
	double lost_ms = digest_is_own(d) ? d->slow.self_excess_ns * 1e-6 : 0;
	double weight = (lost_ms > (double)d->slow.flagged ? lost_ms : (double)d->slow.flagged) +
			(digest_is_own(d) ? INCIDENT_OWN_WEIGHT : 0);

	if (d->excerpt && !incident_views_add(s, i, m, d, weight))
		i->excerpts_dropped++;
}

/* If out of memory, signals are dropped: they explain, but decide nothing. */
static void take_signals(struct member *m, const struct os_signal *signals, uint32_t count)
{
	if (count && !m->signals)
		m->signals = malloc(DIGEST_SIGNALS_MAX * sizeof(*m->signals));
	for (uint32_t k = 0; m->signals && k < count; k++)
		os_signal_put(m->signals, &m->signal_count, DIGEST_SIGNALS_MAX, &signals[k]);
}

/* Time that the hypervisor took is not the rank's fault. */
static bool is_itself(const struct digest *d)
{
	return digest_is_own(d) && !digest_is_stolen(d);
}

/* How long the rank itself was slow. A window's margins are healthy. */
static double slow_of(const struct digest *d)
{
	if (!is_itself(d))
		return 0;
	if (d->slow.flagged && d->latency_ns > 0)
		return (double)d->slow.flagged * d->latency_ns;
	return d->reason == WINDOW_SELF ? 0 : (double)(d->end_unix_ns - d->begin_unix_ns);
}

static double stolen_of(const struct digest *d)
{
	return digest_is_stolen(d) ? (double)d->slow.flagged * d->latency_ns : 0;
}

/* The number of flagged steps, if this is the peer window that a node sends as soon as slowness
 * begins, when the rank has lost little so far. If the slowness continues, another window follows.
 * 0: it is not such a window. */
static uint64_t hinted_of(const struct digest *d)
{
	double lost_ns = (d->self_ns - d->expected_self_ns) * d->slow.flagged;
	bool first = d->reason == WINDOW_PEER && !d->sequence && d->slow.flagged < d->steps;

	return first && lost_ns < thresholds.time.transient_ns / 2 ? d->slow.flagged : 0;
}

/* The window's spike; NULL: it has none, or it is unknown what the process did in it. */
static const struct slow_step *slow_step_of(const struct digest *d)
{
	const struct slow_step *s = d->slow.spikes && d->excerpt ? &d->excerpt->step : NULL;

	return s && s->known && *s->function_name ? s : NULL;
}

/* The slow step of a late request, in a window of a process without steps of its own; NULL: it is
 * not such a window, or it is unknown what the process did. */
static const struct slow_step *asked_step_of(const struct digest *d)
{
	const struct slow_step *s = d->excerpt && !d->steps ? &d->excerpt->step : NULL;

	return s && s->known && *s->function_name ? s : NULL;
}

/* Whether the window shows a drift that is not the rank's own: its peers became slower as well. */
static bool is_shared_drift(const struct digest *d)
{
	return d->reason == WINDOW_DRIFT && d->slow.took.expected_self_ns > 0 &&
	       d->beyond_peers < thresholds.part.half * d->slow.self_excess_ns /
				     d->slow.took.expected_self_ns; /* false for NAN */
}

/* The window's slow steps. The steps of a requested window are not counted again: other windows
 * have them. */
static struct slow_steps steps_of(const struct digest *d)
{
	struct slow_steps s = d->slow;

	if (window_reason_says(d->reason) & WINDOW_SAYS_AGAIN)
		return (struct slow_steps){.reasons = 1u << d->reason};
	s.hinted = hinted_of(d);
	s.reasons = 1u << (s.hinted ? WINDOW_SELF : d->reason);
	if (d->reason == WINDOW_PEER)
		s.reasons |= 1u << WINDOW_SELF;
	if (!digest_is_own(d) || is_shared_drift(d))
		s.self_excess_ns = s.first_self_ns = s.took.expected_self_ns = 0;
	s.took_itself = digest_is_own(d) && s.took.steps > 0;
	s.slow_ns = slow_of(d);
	s.waited_ns = d->reason == WINDOW_COMM ? s.flagged_ns : 0;
	return s;
}

static void member_add(struct incident_set *s, struct incident *i, struct member *m,
		       const struct digest *d, const struct slow_steps *steps)
{
	/* must come first, because the reasons decide about room */
	m->steps.reasons |= steps->reasons;
	take_excerpt(s, i, m, d);
	if (!(window_reason_says(d->reason) & WINDOW_SAYS_AGAIN) || !m->signal_count)
		take_signals(m, d->signals, d->signal_count);
	m->sent.windows++;
	m->sent.summaries += d->summary_only;
	m->drifted |= d->reason == WINDOW_DRIFT && !is_shared_drift(d);
	steps_add(&m->steps, steps, 1);
	if (digest_is_own(d)) {
		widen(&m->own.begin_unix_ns, &m->own.end_unix_ns, d->begin_unix_ns, d->end_unix_ns);
		m->own.stolen_ns += stolen_of(d);
	}
	if (d->reason == WINDOW_PEER && !steps->hinted) { /* counts like a finding */
		double each = d->self_ns - d->expected_self_ns;

		each = (each > 0 && d->expected_self_ns > 0 ? each : 1) *
		       (d->slow.flagged ? (double)d->slow.flagged : d->steps + 1.0);
		m->accused.by_node_ns += each;
		m->accused.ns = fmax(m->accused.ns, m->accused.by_node_ns);
	}
	raise_to(&m->sent.collectives, d->collectives);
	if (d->lost > m->sent.lost) {
		m->sent.lost = d->lost;
		text_copy(m->sent.lost_cause, sizeof(m->sent.lost_cause), d->lost_cause);
	}
}

static struct run run_of(const struct digest *d)
{
	return (struct run){.member = incident_member_key(d->rank.rank, d->rank.node),
			    .begin_unix_ns = d->begin_unix_ns,
			    .end_unix_ns = d->end_unix_ns,
			    .steps = steps_of(d)};
}

static void incident_add(struct incident_set *s, struct incident *i, const struct digest *d,
			 uint64_t arrival_unix_ns)
{
	struct run r = run_of(d);
	struct member *m = member_of(i, &d->rank);
	const struct slow_step *spike = slow_step_of(d), *asked = asked_step_of(d);
	bool again = window_reason_says(d->reason) & WINDOW_SAYS_AGAIN;

	if (m)
		member_add(s, i, m, d, &r.steps);
	if (m && is_itself(d))
		raise_to(&m->own.itself_end_unix_ns, d->end_unix_ns);
	if (m && is_itself(d) && !incident_is_brief(&r))
		raise_to(&m->own.slow_end_unix_ns, d->end_unix_ns);
	if (m && d->reason == WINDOW_ASKED)
		incident_waits_note(i, m, d->excerpt);
	anomaly_take(i, d->anomaly_id);
	if (spike)
		incident_spikes_note(i, d->rank.rank, spike, !digest_is_own(d));
	if (asked && i->apart > 1)
		incident_spikes_note(i, d->rank.rank, asked,
				     2 * asked->blocked_ns >= asked->function_ns);
	if (!again)
		run_take(i, r);
	i->windows++;
	i->windows_without_gpu += d->no_gpu;
	i->bytes += d->bytes;
	i->raw_bytes += d->raw_bytes;
	widen(&i->row.begin_unix_ns, &i->row.end_unix_ns, d->begin_unix_ns, d->end_unix_ns);
	raise_to(&i->row.arrival_unix_ns, arrival_unix_ns);
}

/* ---- findings ---- */

/* Whether a job has only one finding of this kind at a time. A longer report, or a report that
 * accuses other ranks, is then still the same finding. */
static bool is_of_the_job(enum finding_kind kind)
{
	return kind == FINDING_HANG || kind == FINDING_UNIFORM;
}

static bool is_same(const struct finding_report *a, const struct finding_report *b)
{
	return a->finding.kind == b->finding.kind &&
	       ((is_of_the_job(a->finding.kind) && !a->ended) ||
		a->reported_begin_unix_ns == b->begin_unix_ns ||
		(a->finding.rank_count && b->finding.rank_count &&
		 a->finding.ranks[0] == b->finding.ranks[0]));
}

static bool is_new(const struct incident_set *s, const struct finding_report *f)
{
	return f->reporter == s->config.reporter;
}

/* Whether an earlier process reported the finding, and it has neither been repeated nor ended
 * since. */
static bool is_earlier(const struct incident_set *s, const struct finding_report *f)
{
	return !is_new(s, f) && !f->ended;
}

/* Whether both are about the same fault. A new process began to observe later, so it may name fewer
 * ranks. */
static bool is_like(const struct finding *a, const struct finding *b)
{
	bool common = is_of_the_job(a->kind) || (!a->rank_count && !b->rank_count);

	for (uint32_t k = 0; k < b->rank_count && !common; k++)
		common = b->ranks[k] >= 0 && finding_names(a, b->ranks[k]);
	return a->kind == b->kind && common;
}

/* Adds the finding's ranks to the incident, as culprits if the finding accuses. */
static void accuse(struct incident *i, const struct finding_report *report)
{
	const struct finding *f = &report->finding;
	double steps = (double)(f->last_step - f->first_step) + 1;

	if (f->kind != FINDING_SLOW_RANK && f->kind != FINDING_HANG)
		return;
	for (uint32_t k = 0; k < f->rank_count; k++) {
		struct wire_rank who = {.rank = f->ranks[k]};
		struct member *m = who.rank >= 0 ? member_of(i, &who) : NULL;
		/* worst first, even if the ranks are alike */
		double each = finding_effect_of(f, f->ranks[k]),
		       ns = (each > 0 ? each : 1) * steps * (1 - 1e-6 * k);

		if (!m)
			continue;
		/* the node compares the same ranks in the same steps, so its figure is not an
		 * additional loss */
		m->accused.ns = fmax(m->accused.ns, ns);
		widen(&m->accused.begin_unix_ns, &m->accused.end_unix_ns, report->begin_unix_ns,
		      report->end_unix_ns);
	}
}

/* Recomputes all accusations. A repeated finding may name fewer ranks, and a rank that it no longer
 * names is no longer accused. */
static void accuse_all(struct incident *i)
{
	for (uint32_t k = 0; k < i->member_count; k++) {
		struct member *m = &i->members[k];

		m->accused.ns = m->accused.by_node_ns;
		m->accused.begin_unix_ns = m->accused.end_unix_ns = 0;
	}
	for (uint32_t k = 0; k < i->finding_count; k++)
		accuse(i, &i->findings[k]);
}

static struct finding_report *find_finding(const struct incident_set *s, const struct incident *i,
					   const struct finding_report *f)
{
	struct finding_report *earlier = NULL;

	for (uint32_t k = 0; k < i->finding_count; k++) {
		struct finding_report *have = &i->findings[k];

		if (is_same(have, f))
			return have;
		if (!earlier && is_new(s, f) && is_earlier(s, have) &&
		    is_like(&have->finding, &f->finding))
			earlier = have;
	}
	return earlier;
}

/* Replaces a finding of this process, or of an earlier one. If it continues the old one, it keeps
 * its start time. */
static void replace(const struct incident_set *s, struct finding_report *to,
		    const struct finding_report *f)
{
	const struct finding_report was = *to;
	/* a rank that recovered and is slow again has a new begin time */
	bool same = !was.ended || was.reported_begin_unix_ns == f->begin_unix_ns;
	bool carried =
	    is_earlier(s, &was) || (same && was.reported_begin_unix_ns > was.begin_unix_ns);

	*to = *f;
	if (!carried || was.begin_unix_ns >= f->begin_unix_ns)
		return;
	to->begin_unix_ns = was.begin_unix_ns;
	if (was.finding.first_step < f->finding.first_step)
		to->finding.first_step = was.finding.first_step;
}

static bool finding_add(struct incident *i, const struct finding_report *f)
{
	if (i->finding_count == LIMIT_INCIDENT_FINDINGS ||
	    ROOM_FOR(i->findings, i->finding_room, i->finding_count + 1)) {
		i->findings_dropped++;
		return false;
	}
	i->findings[i->finding_count++] = *f;
	return true;
}

/* Removes from a the ranks that b names. Returns whether any are left. */
static bool leave_out(struct finding *a, const struct finding *b)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < a->rank_count; k++)
		if (!finding_names(b, a->ranks[k]))
			a->ranks[n++] = a->ranks[k];
	a->rank_count = n;
	return n > 0;
}

/* Drops ranks from an earlier process's findings if f names them. */
static void forget_earlier(const struct incident_set *s, struct incident *i,
			   const struct finding_report *f)
{
	for (uint32_t k = 0; k < i->finding_count;) {
		struct finding_report *have = &i->findings[k];

		if (is_earlier(s, have) && have->finding.kind == f->finding.kind &&
		    have->finding.rank_count && !leave_out(&have->finding, &f->finding))
			*have = i->findings[--i->finding_count];
		else
			k++;
	}
}

/* Replaces a finding of an earlier process. That finding stays for ranks that f does not name
 * (yet). */
static void take_over(const struct incident_set *s, struct incident *i, struct finding_report *to,
		      const struct finding_report *f)
{
	struct finding_report rest = *to;

	replace(s, to, f);
	if (!is_of_the_job(f->finding.kind) && leave_out(&rest.finding, &f->finding))
		finding_add(i, &rest);
}

static void finding_take(const struct incident_set *s, struct incident *i,
			 const struct finding_report *f)
{
	struct finding_report *to = find_finding(s, i, f);

	if (to && is_new(s, to) &&
	    !is_new(s, f)) { /* f comes from an incident that is merged into this one */
		const struct finding_report now = *to;

		*to = *f;
		take_over(s, i, to, &now);
	} else if (to && is_new(s, f) && is_earlier(s, to)) {
		take_over(s, i, to, f);
	} else if (to) {
		replace(s, to, f);
	} else if (!finding_add(i, f)) {
		return;
	}
	if (is_new(s, f))
		forget_earlier(s, i, f);
	widen(&i->row.begin_unix_ns, &i->row.end_unix_ns, f->begin_unix_ns, f->end_unix_ns);
}

/* ---- which incident ---- */

/* What wants to join: a window or a finding. */
struct newcomer {
	const char *job;
	uint64_t begin_unix_ns, end_unix_ns;
	const uint8_t *anomaly_id; /* NULL: none */
	uint64_t apart;		   /* as incident.apart */
	/* a window that accuses no rank: it belongs to one fault, and does not merge two */
	bool waits;
	int32_t suspect;	       /* the rank it accuses; -1: none */
	const struct finding *finding; /* NULL: a window */
	uint64_t sender;	       /* of the message; 0: unknown */
	const char *node;
	bool spikes;		       /* a window of spikes, without longer slowness */
	bool only_waited;	       /* in these spikes the rank only waited for another one */
	const struct wire_rank *who;   /* of a window */
	const struct slow_step *spike; /* NULL: not known */
};

static struct newcomer of_window(const struct digest *d)
{
	/* in a stall all ranks stop, so a stall window accuses nobody */
	bool accuses = is_itself(d) && d->reason != WINDOW_STALL && d->rank.rank >= 0;
	bool again = window_reason_says(d->reason) & WINDOW_SAYS_AGAIN;
	struct run r = run_of(d);

	return (struct newcomer){d->rank.job,
				 d->begin_unix_ns,
				 d->end_unix_ns,
				 again || is_itself(d) ? d->anomaly_id : NULL,
				 0,
				 !accuses,
				 accuses ? d->rank.rank : -1,
				 NULL,
				 d->sender,
				 d->rank.node,
				 r.steps.spikes && incident_is_short(&r),
				 !digest_is_own(d),
				 &d->rank,
				 slow_step_of(d)};
}

/* The time until which an open finding covers new slowness. The finding is sent again every two
 * beats, and its end only after its rank has been healthy for a while. So a rank that becomes slow
 * after this time has its own fault. */
static uint64_t held_until(const struct finding_report *f)
{
	return f->end_unix_ns + thresholds.time.together_ns +
	       (uint64_t)thresholds.time.lasting_ns / 2;
}

/* Whether an open finding shows that a rank is still slow or hangs, or n is a finding that an
 * earlier process reported. */
static bool is_held(const struct incident_set *s, const struct incident *i,
		    const struct newcomer *n)
{
	for (uint32_t k = 0; k < i->finding_count; k++) {
		const struct finding_report *f = &i->findings[k];

		if (n->finding && is_earlier(s, f) && is_like(&f->finding, n->finding))
			return true;
		if (f->ended ||
		    (f->finding.kind != FINDING_SLOW_RANK && f->finding.kind != FINDING_HANG))
			continue;
		if ((n->suspect < 0 && !n->waits) || n->begin_unix_ns <= held_until(f) ||
		    finding_names(&f->finding, n->suspect))
			return true;
	}
	return false;
}

static bool is_after(uint64_t begin_unix_ns, uint64_t end_unix_ns, uint64_t reach_ns)
{
	return begin_unix_ns > end_unix_ns && begin_unix_ns - end_unix_ns > reach_ns;
}

static bool is_long(const struct member *m)
{
	return incident_slow_ns(m) >= thresholds.time.lasting_ns;
}

/* When the rank's long slowness ended, ignoring transients; 0: it had none. */
static uint64_t fault_end(const struct member *m)
{
	uint64_t own = m->own.slow_end_unix_ns, accused = m->accused.end_unix_ns;

	if (!is_long(m))
		return 0;
	return own > accused ? own : accused;
}

/* The latest end over all ranks; 0: no rank was slow for long, so this is not a fault yet. */
static uint64_t last_fault_end(const struct incident *i)
{
	uint64_t last = 0;

	for (uint32_t k = 0; k < i->member_count; k++)
		raise_to(&last, fault_end(&i->members[k]));
	return last;
}

const struct member *incident_member(const struct incident *i, int32_t rank)
{
	for (uint32_t k = 0; k < i->member_count; k++)
		if (i->members[k].rank == rank)
			return &i->members[k];
	return NULL;
}

/* When the rank itself was last slow, however briefly; 0: never, or no rank. */
static uint64_t slow_until(const struct incident *i, int32_t rank)
{
	const struct member *m = rank >= 0 ? incident_member(i, rank) : NULL;

	if (!m)
		return 0;
	return is_long(m) ? fault_end(m) : m->own.itself_end_unix_ns;
}

/* Whether n is close enough in time. Once a lasting fault has ended, slowness of another rank is
 * another fault. Otherwise waiting ranks and transients of other nodes would connect any two
 * faults. */
static bool near(const struct incident_set *s, const struct incident *i, const struct newcomer *n)
{
	uint64_t gap = s->config.gap_ns, fault, same;
	bool held = i->row.open && is_held(s, i, n);

	if (is_after(i->row.begin_unix_ns, n->end_unix_ns, gap) ||
	    (is_after(n->begin_unix_ns, i->row.end_unix_ns, gap) && !held))
		return false;
	fault = last_fault_end(i);
	/* if ranks were dropped, it is unknown when these were slow */
	if (held || !fault || i->ranks_dropped || (n->suspect < 0 && !n->waits))
		return true;
	same = slow_until(i, n->suspect);
	return !is_after(n->begin_unix_ns, fault, gap) ||
	       (same && !is_after(n->begin_unix_ns, same, gap));
}

static bool continues(const struct incident *i, const uint8_t *anomaly_id)
{
	static const uint8_t none[16];

	return anomaly_id && memcmp(anomaly_id, none, 16) && has_anomaly(i, anomaly_id);
}

/* Whether n continues an anomaly of the incident. An anomaly also includes what comes seconds
 * later. So the anomaly of a rank that was briefly late during another rank's fault must not
 * connect that fault with the rank's own later fault. */
static bool goes_on(const struct incident *i, const struct newcomer *n)
{
	const struct member *m = n->suspect >= 0 ? incident_member(i, n->suspect) : NULL;

	return continues(i, n->anomaly_id) &&
	       (n->suspect < 0 || i->ranks_dropped || !last_fault_end(i) || (m && is_long(m)));
}

static bool may_join(const struct incident *i, const struct newcomer *n)
{
	return !strcmp(i->row.job, n->job) &&
	       (i->apart == n->apart || (i->apart > 1 && continues(i, n->anomaly_id)));
}

static bool has_member(const struct incident *i, const struct wire_rank *who)
{
	uint64_t key = incident_member_key(who->rank, who->node);

	for (uint32_t k = 0; k < i->member_count; k++)
		if (incident_member_key(i->members[k].rank, i->members[k].node) == key)
			return true;
	return false;
}

/* Whether a spike belongs to the incident's spikes, however long ago those were: it is the same
 * function in the same span. If its function is not known, the spike belongs to those of its rank.
 * A rank that only waited in a spike belongs to the rank that it waited for. */
static bool recurs(const struct incident_set *s, const struct incident *i, const struct newcomer *n)
{
	const struct incident_spike *about = i->spike_count ? i->spikes : NULL;
	bool waits = about && about->waits;

	if ((n->only_waited || waits) && near(s, i, n))
		return true;
	if (n->only_waited != waits)
		return false;
	if (!n->spike || !about)
		return has_member(i, n->who);
	return incident_spikes_is_like(n->spike, &about->step);
}

/* Whether both are spikes, but of different functions. */
static bool differ(const struct incident *a, const struct incident *b)
{
	return a->spike_count && b->spike_count && !a->spikes->waits && !b->spikes->waits &&
	       !incident_spikes_is_like(&a->spikes->step, &b->spikes->step) &&
	       incident_is_spikes(a) && incident_is_spikes(b);
}

static bool belongs(const struct incident_set *s, const struct incident *i,
		    const struct newcomer *n)
{
	if (!may_join(i, n))
		return false;
	if (n->spikes && incident_is_spikes(i))
		return recurs(s, i, n);
	return near(s, i, n) || goes_on(i, n);
}

/* Whether n merges the incident into `to`. A window of waiting does not merge two lasting faults:
 * it belongs to the fault for which it was requested. */
static bool connects(const struct incident_set *s, const struct incident *to,
		     const struct incident *i, const struct newcomer *n)
{
	if (n->waits)
		return may_join(i, n) && near(s, i, n) &&
		       !(last_fault_end(i) && last_fault_end(to));
	return belongs(s, i, n);
}

/* The time between the incident and n; 0: they overlap. */
static uint64_t apart(const struct incident *i, const struct newcomer *n)
{
	if (n->begin_unix_ns > i->row.end_unix_ns)
		return n->begin_unix_ns - i->row.end_unix_ns;
	return i->row.begin_unix_ns > n->end_unix_ns ? i->row.begin_unix_ns - n->end_unix_ns : 0;
}

/* Whether i fits n better than best does. The older incident fits better. But a window that accuses
 * no rank goes to the incident that requested it, or that it continues, else to the nearest one. So
 * does a spike of an unknown function. */
static bool fits_better(const struct incident *i, const struct incident *best,
			const struct newcomer *n)
{
	bool nearest = n->waits || (n->spikes && !n->spike);
	uint64_t mine = nearest ? apart(i, n) : 0, other = nearest ? apart(best, n) : 0;
	bool same = continues(i, n->anomaly_id);

	if ((n->waits || i->apart || best->apart) && same != continues(best, n->anomaly_id))
		return same;
	return mine < other || (mine == other && i->order < best->order);
}

static struct incident *match_of(const struct incident_set *s, const struct newcomer *n)
{
	struct incident *best = NULL;

	for (struct incident *i = s->first; i; i = i->next)
		if (belongs(s, i, n) && (!best || fits_better(i, best, n)))
			best = i;
	return best;
}

/* Adds the sums of `from` to those of `to`; excerpts move. */
static void member_merge(struct incident_set *s, struct incident *i, struct member *to,
			 struct member *from)
{
	incident_views_merge(s, i, to, from);
	steps_add(&to->steps, &from->steps, 1);
	to->accused.by_node_ns += from->accused.by_node_ns;
	to->waited_for_ns = fmax(to->waited_for_ns, from->waited_for_ns);
	to->drifted |= from->drifted;
	widen(&to->own.begin_unix_ns, &to->own.end_unix_ns, from->own.begin_unix_ns,
	      from->own.end_unix_ns);
	to->own.stolen_ns += from->own.stolen_ns;
	raise_to(&to->own.itself_end_unix_ns, from->own.itself_end_unix_ns);
	raise_to(&to->own.slow_end_unix_ns, from->own.slow_end_unix_ns);
	take_signals(to, from->signals, from->signal_count);
	to->sent.windows += from->sent.windows;
	to->sent.summaries += from->sent.summaries;
	raise_to(&to->sent.collectives, from->sent.collectives);
	if (from->sent.lost > to->sent.lost) {
		to->sent.lost = from->sent.lost;
		memcpy(to->sent.lost_cause, from->sent.lost_cause, sizeof(to->sent.lost_cause));
	}
}

static void incident_merge(struct incident_set *s, struct incident *to, struct incident *from)
{
	incident_waits_merge(to, from);
	for (uint32_t k = 0; k < from->member_count; k++) {
		struct wire_rank who = {.rank = from->members[k].rank,
					.world_size = from->members[k].world_size};
		struct member *m;

		memcpy(who.node, from->members[k].node, sizeof(who.node));
		who.pod = from->members[k].pod;
		m = member_of(to, &who);
		if (m)
			member_merge(s, to, m, &from->members[k]);
	}
	for (uint32_t k = 0; k < from->anomaly_count; k++)
		anomaly_take(to, from->anomalies[k].id);
	for (uint32_t k = 0; k < from->run_count; k++)
		run_take(to, from->runs[k]);
	for (uint32_t k = 0; k < from->finding_count; k++)
		finding_take(s, to, &from->findings[k]);
	accuse_all(to);
	to->windows += from->windows;
	to->windows_without_gpu += from->windows_without_gpu;
	to->bytes += from->bytes;
	to->raw_bytes += from->raw_bytes;
	to->excerpts_dropped += from->excerpts_dropped;
	to->ranks_dropped += from->ranks_dropped;
	to->findings_dropped += from->findings_dropped;
	widen(&to->row.begin_unix_ns, &to->row.end_unix_ns, from->row.begin_unix_ns,
	      from->row.end_unix_ns);
	to->row.open |= from->row.open;
	incident_spikes_merge(to, from);
}

/* Merges other incidents of the job that n now connects. */
static void absorb(struct incident_set *s, struct incident *to, const struct newcomer *n,
		   struct incident_change *out)
{
	struct incident *i = s->first;

	while (i && out->absorbed_count < INCIDENT_ABSORB_MAX) {
		struct incident *next = i->next;

		if (i != to && i->apart == to->apart && !differ(to, i) && connects(s, to, i, n)) {
			incident_merge(s, to, i);
			text_copy(out->absorbed[out->absorbed_count++], INCIDENT_ID_BYTES,
				  i->row.id);
			unlink_incident(s, i);
			incident_free(s, i);
		}
		i = next;
	}
}

static bool is_taken(const struct incident_set *s, const char *id)
{
	return find(s, id) || (s->config.is_taken && s->config.is_taken(s->config.taken_arg, id));
}

/* Makes an id from the seed. The sender can choose the seed, and so the first id that is tried. */
static void new_id(const struct incident_set *s, uint64_t seed, char id[INCIDENT_ID_BYTES])
{
	uint64_t h = hash_mix(seed);

	do {
		snprintf(id, INCIDENT_ID_BYTES, "%08x", (uint32_t)h);
		h = hash_mix(h + 1);
	} while (is_taken(s, id));
}

static struct incident *found(struct incident_set *s, const struct newcomer *n, uint64_t seed,
			      struct incident_change *out)
{
	struct incident_row row = {
	    .open = true, .begin_unix_ns = n->begin_unix_ns, .end_unix_ns = n->end_unix_ns};
	struct incident *i;

	text_copy(row.job, sizeof(row.job), n->job);
	new_id(s, seed, row.id);
	i = incident_new(s, &row, n->sender, n->node);
	if (!i)
		return NULL;
	i->apart = n->apart;
	out->opened = true;
	if (s->evicted)
		text_copy(out->evicted, sizeof(out->evicted), s->evicted->row.id);
	return i;
}

int incident_set_add(struct incident_set *s, const struct digest *d, uint64_t arrival_unix_ns,
		     struct incident_change *out)
{
	struct newcomer n = of_window(d);
	struct incident *i = match_of(s, &n);

	memset(out, 0, sizeof(*out));
	if (!i && window_reason_says(d->reason) & WINDOW_SAYS_AGAIN)
		return 0;
	if (!i) {
		i = found(s, &n, hash_bytes(HASH_SEED, d->id, sizeof(d->id)), out);
		if (!i)
			return -ENOMEM;
	}
	i->row.open = true;
	incident_add(s, i, d, arrival_unix_ns);
	absorb(s, i, &n, out);
	text_copy(out->id, sizeof(out->id), i->row.id);
	return 0;
}

static bool is_sound(const struct finding_report *f)
{
	const struct finding *g = &f->finding;

	return f->job[0] && memchr(f->job, 0, sizeof(f->job)) && g->kind >= FINDING_SLOW_RANK &&
	       g->kind <= FINDING_REQUESTS && g->cause < CAUSE_COUNT &&
	       g->rank_count <= FINDING_RANKS_MAX && g->evidence_count <= FINDING_EVIDENCE_MAX &&
	       g->last_step >= g->first_step && isfinite(g->excess) && isfinite(g->effect_ns) &&
	       isfinite(g->confidence) && isfinite(g->period_ns);
}

static uint64_t apart_of(const struct finding *f)
{
	uint64_t id;

	memcpy(&id, f->anomaly_id, sizeof(id));
	return f->kind == FINDING_REQUESTS ? id | 2 : f->kind == FINDING_IMBALANCE;
}

int incident_set_add_finding(struct incident_set *s, const struct finding_report *f,
			     uint64_t arrival_unix_ns, struct incident_change *out)
{
	struct newcomer n = {
	    f->job,
	    f->begin_unix_ns,
	    f->end_unix_ns,
	    f->finding.kind == FINDING_REQUESTS ? f->finding.anomaly_id : NULL,
	    apart_of(&f->finding),
	    false,
	    f->finding.rank_count && f->finding.kind != FINDING_UNIFORM ? f->finding.ranks[0] : -1,
	    &f->finding,
	    f->sender,
	    "",
	    false,
	    false,
	    NULL,
	    NULL};
	struct finding_report report = *f;
	struct incident *i;

	memset(out, 0, sizeof(*out));
	if (!is_sound(f))
		return -EINVAL;
	if (n.end_unix_ns < n.begin_unix_ns)
		n.end_unix_ns = n.begin_unix_ns;
	i = match_of(s, &n);
	if (!i && f->ended) /* the finding's incident was forgotten, or is too old to report */
		return 0;
	if (!i) {
		uint64_t seed = hash_bytes(HASH_SEED, f->job, strlen(f->job));

		i = found(s, &n, hash_mix(seed ^ f->begin_unix_ns) + (uint64_t)f->finding.kind,
			  out);
		if (!i)
			return -ENOMEM;
	}
	report.reporter = s->config.reporter;
	report.reported_begin_unix_ns = f->begin_unix_ns;
	if (n.anomaly_id)
		anomaly_take(i, n.anomaly_id);
	finding_take(s, i, &report);
	accuse_all(i);
	i->row.open |= !f->ended;
	raise_to(&i->row.arrival_unix_ns, arrival_unix_ns);
	absorb(s, i, &n, out);
	text_copy(out->id, sizeof(out->id), i->row.id);
	return 0;
}

int incident_set_restore(struct incident_set *s, const struct incident_row *row)
{
	if (find(s, row->id))
		return -EEXIST;
	return incident_new(s, row, 0, "") ? 0 : -ENOMEM;
}

int incident_set_restore_window(struct incident_set *s, const char *id, const struct digest *d)
{
	struct incident *i = find(s, id);

	if (!i)
		return -ENOENT;
	if (!i->windows && !incident_share_join(s, i, 0, d->rank.node))
		return -ENOMEM;
	incident_add(s, i, d, 0);
	return 0;
}

int incident_set_restore_finding(struct incident_set *s, const char *id,
				 const struct finding_report *f)
{
	struct incident *i = find(s, id);

	if (!i)
		return -ENOENT;
	if (!is_sound(f))
		return -EINVAL;
	i->apart = apart_of(&f->finding);
	if (f->finding.kind == FINDING_REQUESTS)
		anomaly_take(i, f->finding.anomaly_id);
	finding_take(s, i, f);
	accuse_all(i);
	return 0;
}

static bool member_is_unnamed(const struct member *m)
{
	for (uint32_t k = 0; k < INCIDENT_PLACES; k++)
		if (m->excerpts.at[k].excerpt && m->excerpts.at[k].excerpt->unnamed)
			return true;
	return false;
}

uint32_t incident_set_unnamed(const struct incident_set *s, uint64_t windows_max,
			      char ids[][INCIDENT_ID_BYTES], uint32_t max)
{
	uint32_t n = 0;

	for (const struct incident *i = s->first; i && n < max; i = i->next) {
		bool unnamed = false;

		for (uint32_t k = 0; k < i->member_count && !unnamed; k++)
			unnamed = member_is_unnamed(&i->members[k]);
		if (unnamed && i->row.open && i->windows <= windows_max)
			text_copy(ids[n++], INCIDENT_ID_BYTES, i->row.id);
	}
	return n;
}

struct incident *incident_set_take_out(struct incident_set *s, const char *id)
{
	struct incident *i = find(s, id);

	if (!i || i == s->evicted)
		return NULL;
	unlink_incident(s, i);
	s->excerpt_bytes -= i->excerpt_bytes;
	return i;
}

bool incident_set_keep(struct incident_set *s, struct incident *old)
{
	struct incident *i = find(s, old->row.id);

	if (!i || i->windows < old->windows) {
		incident_set_put_back(s, old);
		return false;
	}
	i->order = old->order;
	s->excerpt_bytes += old->excerpt_bytes;
	incident_free(s, old);
	return true;
}

void incident_set_put_back(struct incident_set *s, struct incident *old)
{
	struct incident *half = incident_set_take_out(s, old->row.id);

	if (half) {
		s->excerpt_bytes += half->excerpt_bytes;
		incident_free(s, half);
	}
	s->excerpt_bytes += old->excerpt_bytes;
	old->next = s->first;
	s->first = old;
	s->count++;
}

void incident_set_job_ended(struct incident_set *s, const char *job)
{
	for (struct incident *i = s->first; i; i = i->next)
		for (uint32_t k = 0; k < i->finding_count && !strcmp(i->row.job, job); k++)
			i->findings[k].ended = true;
}

bool incident_set_held_job(const struct incident_set *s, uint32_t index, char job[WIRE_TEXT_BYTES])
{
	for (struct incident *i = s->first; i; i = i->next)
		for (uint32_t k = 0; k < i->finding_count; k++)
			if (i->row.open && !i->findings[k].ended && !index--) {
				text_copy(job, WIRE_TEXT_BYTES, i->row.job);
				return true;
			}
	return false;
}

void incident_set_end_earlier(struct incident_set *s)
{
	for (struct incident *i = s->first; i; i = i->next)
		for (uint32_t k = 0; k < i->finding_count; k++)
			if (is_earlier(s, &i->findings[k]))
				i->findings[k].ended = true;
}

static bool has_unended(const struct incident *i)
{
	for (uint32_t k = 0; k < i->finding_count; k++)
		if (!i->findings[k].ended)
			return true;
	return false;
}

uint32_t incident_set_tick(struct incident_set *s, uint64_t now_unix_ns,
			   char closed[][INCIDENT_ID_BYTES], uint32_t max)
{
	struct incident *i = s->first;
	uint32_t n = 0;

	while (i) {
		struct incident *next = i->next;
		uint64_t quiet_ns =
		    now_unix_ns > i->row.arrival_unix_ns ? now_unix_ns - i->row.arrival_unix_ns : 0;

		if (i->row.open && n < max &&
		    quiet_ns > (has_unended(i) ? s->config.memory_ns : s->config.silence_ns)) {
			i->row.open = false;
			text_copy(closed[n++], INCIDENT_ID_BYTES, i->row.id);
		} else if (!i->row.open && quiet_ns > s->config.memory_ns) {
			unlink_incident(s, i);
			incident_free(s, i);
		}
		i = next;
	}
	return n;
}

bool incident_set_row(const struct incident_set *s, const char *id, struct incident_row *row)
{
	const struct incident *i = find(s, id);

	if (i)
		*row = i->row;
	return i != NULL;
}

json_t *incident_set_json(const struct incident_set *s, const char *id, uint32_t job_ranks,
			  struct incident_row *row)
{
	const struct incident *i = find(s, id);

	if (i && row)
		*row = i->row;
	return i ? incident_json_make(s, i, job_ranks) : NULL;
}

json_t *incident_set_findings(const struct incident_set *s, const char *id)
{
	const struct incident *i = find(s, id);
	json_t *list = i && i->finding_count ? json_array() : NULL;

	for (uint32_t k = 0; list && k < i->finding_count; k++) {
		const struct finding_report *f = &i->findings[k];
		json_t *one = finding_json_make(f);

		json_object_set_new(one, "reporter", json_exact(f->reporter));
		json_object_set_new(one, "reported_begin_unix_ns",
				    json_exact(f->reported_begin_unix_ns));
		json_array_append_new(list, one);
	}
	return list;
}
