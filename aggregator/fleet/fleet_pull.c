/* SPDX-License-Identifier: Apache-2.0
 * Requests to nodes. First a hold, so that the node overwrites nothing meanwhile. Then requests for
 * windows over the same time, on each node's clock: of suspects that sent none, and of healthy
 * peers. Nodes connect to us, so commands wait for the nodes' next beats. A node is asked only
 * about ranks that it reports. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/text/text.h"
#include "model/thresholds.h"

#define MINUTE_NS	 60000000000ull
#define HANG_AGAIN_NS	 600000000000ull
#define HOLD_AGAIN_NS	 60000000000ull
#define SUSPECT_AGAIN_NS 15000000000ull
#define SUSPECT_NS	 40000000000ull
#define HOLD_BEFORE_NS	 20000000000ull
#define HOLD_AFTER_NS	 120000000000ull
#define STRETCH_NS	 10000000000ull /* length of a window while the fault continues */
#define HANG_STRETCH_NS	 20000000000ull
/* how long a starting job may take until its peers are known */
#define WAIT_NS	 30000000000ull
#define WAITS_NS 3000000000ull /* how long to wait for the windows of the other ranks */
/* slowness that recurs within this time continues the same spell */
#define WAITS_GAP_NS 10000000000ull
#define BRIEF_STEPS  2u
#define BRIEF_NS     1e9
#define PEERS	     2u
#define SUSPECTS     3u /* windows of more suspects add nothing */
/* A suspect needs no new window if it recently sent one that covers a quarter of the fault. For a
 * peer, any recent window is enough. */
#define OWN_WINDOW_NS 60000000000ull
#define OWN_PARTS     4u

static uint64_t *counter(struct fleet *f, uint32_t kind)
{
	return kind == WIRE_COMMAND_WINDOW   ? &f->counts.commands_window
	       : kind == WIRE_COMMAND_HOLD   ? &f->counts.commands_hold
	       : kind == WIRE_COMMAND_PIECES ? &f->counts.commands_pieces
					     : &f->counts.commands_suspect;
}

/* Times are on the job's clock; anomaly may be NULL. */
static bool ask(struct fleet *f, const struct fleet_job *job, uint32_t node, uint32_t kind,
		int32_t rank, uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly)
{
	struct fleet_node *n = &f->nodes[node];
	struct wire_command *c;
	int64_t begin = 0, end = 0;
	/* a node's clock offset may be anything */
	bool far = __builtin_sub_overflow((int64_t)begin_unix_ns, n->realtime_offset_ns, &begin) ||
		   __builtin_sub_overflow((int64_t)end_unix_ns, n->realtime_offset_ns, &end);

	if (!n->commands)
		n->commands = malloc(LIMIT_FLEET_COMMANDS * sizeof(*n->commands));
	if (!n->commands || n->command_count == LIMIT_FLEET_COMMANDS || far || end <= 0 ||
	    end <= begin) {
		f->counts.commands_refused++;
		return false;
	}
	c = &n->commands[n->command_count++];
	*c = (struct wire_command){.kind = kind,
				   .rank = rank,
				   .begin_ns = begin > 0 ? (uint64_t)begin : 0,
				   .end_ns = (uint64_t)end};
	text_copy(c->job, sizeof(c->job), job->name);
	if (anomaly)
		memcpy(c->anomaly_id, anomaly, sizeof(c->anomaly_id));
	++*counter(f, kind);
	return true;
}

/* Holds all ranks of the job: one command per node. */
static void hold(struct fleet *f, struct fleet_job *job, uint64_t begin_unix_ns,
		 uint64_t end_unix_ns, uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;

	if (p->hold_ns && now_ns - p->hold_ns < HOLD_AGAIN_NS)
		return;
	p->hold_ns = now_ns;
	for (uint32_t i = 0; i < job->part_count; i++)
		if (job->parts[i].node != FLEET_NONE &&
		    fleet_is_alive(f, job->parts[i].seen_ns, now_ns))
			ask(f, job, job->parts[i].node, WIRE_COMMAND_HOLD, INT32_MIN,
			    begin_unix_ns - HOLD_BEFORE_NS, end_unix_ns + HOLD_AFTER_NS, NULL);
}

/* Notes that a window covers the range, or will cover it once it comes. */
static void note_window(struct fleet_rank *r, uint64_t begin_unix_ns, uint64_t end_unix_ns,
			uint64_t now_ns)
{
	r->window_ns = now_ns;
	r->window_begin_unix_ns = begin_unix_ns;
	r->window_end_unix_ns = end_unix_ns;
}

/* Whether the rank's last window covers enough of the fault. */
static bool has_window(const struct fleet_rank *r, uint64_t begin_unix_ns, uint64_t end_unix_ns,
		       uint64_t now_ns)
{
	uint64_t from = r->window_begin_unix_ns, to = r->window_end_unix_ns;
	uint64_t whole = end_unix_ns - begin_unix_ns;

	from = from > begin_unix_ns ? from : begin_unix_ns;
	to = to < end_unix_ns ? to : end_unix_ns;
	return r->window_ns && now_ns - r->window_ns < OWN_WINDOW_NS && to > from &&
	       to - from >= (whole < STRETCH_NS ? whole : STRETCH_NS) / OWN_PARTS;
}

static bool may_ask_window(struct fleet *f, struct fleet_pull *p, uint64_t now_ns)
{
	if (!p->minute_ns || now_ns - p->minute_ns >= MINUTE_NS) {
		p->minute_ns = now_ns;
		p->windows = 0;
	}
	f->counts.commands_refused += p->windows == LIMIT_PULL_WINDOWS;
	return p->windows < LIMIT_PULL_WINDOWS;
}

static bool ask_window(struct fleet *f, struct fleet_job *job, struct fleet_rank *r,
		       uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly,
		       uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;

	if (!may_ask_window(f, p, now_ns))
		return false;
	if (!fleet_rank_is_alive(f, r, now_ns) ||
	    !ask(f, job, r->node, WIRE_COMMAND_WINDOW, r->rank, begin_unix_ns, end_unix_ns,
		 anomaly))
		return false;
	p->windows++;
	note_window(r, begin_unix_ns, end_unix_ns, now_ns);
	return true;
}

/* Asks healthy ranks of the suspect's role for windows over the range, and for a closer look from
 * now on. False: none is known. */
static bool ask_peers(struct fleet *f, struct fleet_job *job, struct fleet_rank *suspect,
		      uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly,
		      uint64_t now_ns)
{
	uint32_t slots[PEERS], n;

	n = cross_healthy_peers(job->cross, (uint32_t)(suspect - job->ranks), slots, PEERS);
	for (uint32_t i = 0; i < n; i++) {
		struct fleet_rank *r = &job->ranks[slots[i]];

		if (r->peer_ns && now_ns - r->peer_ns < OWN_WINDOW_NS)
			continue;
		if (ask_window(f, job, r, begin_unix_ns, end_unix_ns, anomaly, now_ns))
			r->peer_ns = now_ns;
		ask(f, job, r->node, WIRE_COMMAND_SUSPECT, r->rank, begin_unix_ns,
		    end_unix_ns + SUSPECT_NS, NULL);
	}
	return n;
}

static bool is_of_spell(const struct fleet_job *job, const struct fleet_rank *r)
{
	return r->spell_end_unix_ns + WAITS_GAP_NS >= job->pull.waits_begin_unix_ns;
}

/* Whether ns is at least half of the time that the longest waiting rank waited. Less does not
 * count, because every rank is late, or waits, now and then. */
static bool is_most(const struct fleet_job *job, const struct fleet_rank *r, double ns)
{
	return is_of_spell(job, r) && ns >= thresholds.part.half * job->pull.waited_ns;
}

/* Whether a rank was slow itself while the others waited. */
static bool is_explained(const struct fleet_job *job)
{
	bool own = cross_suspects(job->cross) > 0;

	for (uint32_t i = 0; i < job->rank_count && !own; i++)
		own =
		    job->ranks[i].used && is_most(job, &job->ranks[i], job->ranks[i].spell_lost_ns);
	return own;
}

/* A rank that did not wait and sent no window of that time: of several, the one whose last window
 * is oldest; NULL: none. */
static struct fleet_rank *waited_for(const struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	const struct fleet_pull *p = &job->pull;
	struct fleet_rank *best = NULL;

	for (uint32_t i = 0; i < job->rank_count; i++) {
		struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !r->compared || is_most(job, r, r->spell_waited_ns) ||
		    has_window(r, p->waits_begin_unix_ns, p->waits_end_unix_ns, now_ns) ||
		    !fleet_rank_is_alive(f, r, now_ns))
			continue;
		if (!best || r->window_ns < best->window_ns)
			best = r;
	}
	return best;
}

/* The rank that waited longest; NULL: none. */
static struct fleet_rank *waits_most(const struct fleet_job *job)
{
	struct fleet_rank *best = NULL;

	for (uint32_t i = 0; i < job->rank_count; i++) {
		struct fleet_rank *r = &job->ranks[i];

		if (r->used && is_of_spell(job, r) &&
		    r->spell_waited_ns > (best ? best->spell_waited_ns : 0))
			best = r;
	}
	return best;
}

/* Requests windows if ranks waited, and no rank reported that it was slow itself, perhaps because
 * its work explains its steps. It must be a rank that did not wait: its window shows what it did
 * meanwhile. The window of a rank that waited shows for whom. */
static void ask_waited_for(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;
	struct fleet_rank *r, *most;
	uint32_t n = 0;

	if (!p->waits_ns || now_ns - p->waits_ns < WAITS_NS)
		return;
	p->waits_ns = 0;
	most = waits_most(job);
	p->waited_ns = most ? most->spell_waited_ns : 0;
	if (!most || is_explained(job))
		return;
	for (; n < SUSPECTS && (r = waited_for(f, job, now_ns)); n++)
		if (!ask_window(f, job, r, p->waits_begin_unix_ns, p->waits_end_unix_ns, NULL,
				now_ns))
			break;
	if (n)
		ask_window(f, job, most, p->waits_begin_unix_ns, p->waits_end_unix_ns, NULL,
			   now_ns);
}

/* Adds up the rank's windows of one spell of slowness, and notes that it waits again and again. */
static void note_spell(struct fleet_job *job, struct fleet_rank *r, const struct digest *d,
		       uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;
	uint64_t end = d->end_unix_ns;

	if (!r->spell_end_unix_ns || d->begin_unix_ns > r->spell_end_unix_ns + WAITS_GAP_NS) {
		r->spell_waits = 0;
		r->spell_waited_ns = r->spell_lost_ns = 0;
	}
	r->spell_end_unix_ns = end > r->spell_end_unix_ns ? end : r->spell_end_unix_ns;
	if (d->reason == WINDOW_COMM && !r->spell_waits++)
		r->spell_begin_unix_ns = d->begin_unix_ns;
	if (d->reason == WINDOW_COMM)
		r->spell_waited_ns += d->slow.flagged_ns;
	if (digest_is_own(d))
		r->spell_lost_ns += d->slow.self_excess_ns;
	if (d->reason != WINDOW_COMM || r->spell_waits < 2 || p->waits_ns ||
	    end <= r->spell_begin_unix_ns)
		return;
	p->waits_ns = now_ns;
	p->waits_begin_unix_ns = r->spell_begin_unix_ns;
	p->waits_end_unix_ns =
	    end < p->waits_begin_unix_ns + STRETCH_NS ? end : p->waits_begin_unix_ns + STRETCH_NS;
}

void fleet_pull_request(struct fleet *f, struct fleet_job *job, uint32_t node,
			uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly,
			uint64_t now_ns)
{
	if (f->config.pull && may_ask_window(f, &job->pull, now_ns))
		job->pull.windows += ask(f, job, node, WIRE_COMMAND_WINDOW, INT32_MIN,
					 begin_unix_ns, end_unix_ns, anomaly);
}

void fleet_pull_pieces(struct fleet *f, const struct fleet_job *job, uint32_t node, uint64_t for_ns)
{
	const struct fleet_node *n = &f->nodes[node];
	uint64_t now_unix_ns = n->now_ns + (uint64_t)n->realtime_offset_ns;

	ask(f, job, node, WIRE_COMMAND_PIECES, INT32_MIN, now_unix_ns, now_unix_ns + for_ns, NULL);
}

void fleet_pull_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;
	struct fleet_rank *r = p->waiting_ns ? fleet_find_rank(job, p->waiting_rank) : NULL;

	ask_waited_for(f, job, now_ns);
	if (!p->waiting_ns)
		return;
	if (!r || now_ns - p->waiting_ns > WAIT_NS ||
	    ask_peers(f, job, r, p->waiting_begin_unix_ns, p->waiting_end_unix_ns,
		      p->waiting_anomaly, now_ns))
		p->waiting_ns = 0;
}

/* Asks for the stacks of one rank, which may be NULL. */
static bool ask_stacks(struct fleet *f, const struct fleet_job *job, struct fleet_rank *r,
		       const struct finding_report *e, uint64_t now_ns)
{
	uint64_t begin = e->end_unix_ns - HANG_STRETCH_NS;

	if (!r || r->rank < 0 || !fleet_rank_is_alive(f, r, now_ns))
		return false;
	note_window(r, begin, e->end_unix_ns, now_ns);
	return ask(f, job, r->node, WIRE_COMMAND_WINDOW, r->rank, begin, e->end_unix_ns, NULL);
}

/* Asks for the stacks of all ranks at the time of a hang. */
static void ask_all(struct fleet *f, struct fleet_job *job, const struct finding_report *e,
		    uint64_t now_ns)
{
	uint32_t asked = 0;

	if (job->pull.hang_ns && now_ns - job->pull.hang_ns < HANG_AGAIN_NS)
		return;
	job->pull.hang_ns = now_ns;
	/* Suspects first, then others within the budget. */
	for (uint32_t i = 0; i < e->finding.rank_count && asked < LIMIT_PULL_HANG_WINDOWS; i++)
		asked += ask_stacks(f, job, fleet_find_rank(job, e->finding.ranks[i]), e, now_ns);
	for (uint32_t i = 0; i < job->rank_count && asked < LIMIT_PULL_HANG_WINDOWS; i++)
		if (job->ranks[i].used && job->ranks[i].window_ns != now_ns)
			asked += ask_stacks(f, job, &job->ranks[i], e, now_ns);
}

void fleet_pull_finding(struct fleet *f, struct fleet_job *job, const struct finding_report *e,
			uint64_t now_ns)
{
	uint64_t begin = e->begin_unix_ns, end = e->end_unix_ns;
	bool again = !job->pull.suspect_ns || now_ns - job->pull.suspect_ns >= SUSPECT_AGAIN_NS;

	/* beats show all of an imbalance */
	if (!f->config.pull || e->ended || e->finding.kind == FINDING_IMBALANCE ||
	    e->finding.kind == FINDING_REQUESTS)
		return;
	hold(f, job, begin, end, now_ns);
	if (e->finding.kind == FINDING_HANG) {
		ask_all(f, job, e, now_ns);
		return;
	}
	if (end > begin + STRETCH_NS)
		begin = end - STRETCH_NS;
	if (end == begin)
		begin = end - STRETCH_NS;
	for (uint32_t i = 0; i < e->finding.rank_count && i < SUSPECTS; i++) {
		struct fleet_rank *r = fleet_find_rank(job, e->finding.ranks[i]);

		if (!r)
			continue;
		if (again)
			ask(f, job, r->node, WIRE_COMMAND_SUSPECT, r->rank, begin, end + SUSPECT_NS,
			    NULL);
		if (has_window(r, e->begin_unix_ns, end, now_ns))
			continue;
		ask_window(f, job, r, begin, end, NULL, now_ns);
		if (e->finding.kind == FINDING_SLOW_RANK && !i)
			ask_peers(f, job, r, begin, end, NULL, now_ns);
	}
	if (again)
		job->pull.suspect_ns = now_ns;
}

/* Whether a node was late only once. Windows of peers would explain nothing, and would cost the
 * nodes more than the delay did. If the slowness continues, the next window makes the request. */
static bool is_brief(const struct digest *d)
{
	return d->reason == WINDOW_SELF && d->slow.flagged && d->slow.flagged <= BRIEF_STEPS &&
	       d->slow.flagged * d->latency_ns < BRIEF_NS && d->slow.self_excess_ns < BRIEF_NS;
}

void fleet_pull_window(struct fleet *f, struct fleet_job *job, struct fleet_rank *r,
		       const struct digest *d, uint64_t now_ns)
{
	uint64_t begin = d->begin_unix_ns, end = d->end_unix_ns;

	/* A summary has nothing to compare, and steps in which the rank waited do not show why
	 * others did. */
	if (!d->summary_only && d->reason != WINDOW_COMM)
		note_window(r, begin, end, now_ns);
	if (!d->summary_only && !digest_is_own(d))
		r->peer_ns = now_ns;
	if (f->config.pull && r->compared && (digest_is_own(d) || d->reason == WINDOW_COMM))
		note_spell(job, r, d, now_ns);
	if (!f->config.pull || !digest_is_own(d) || end <= begin || !r->compared || is_brief(d))
		return;
	hold(f, job, begin, end, now_ns);
	if (end > begin + 2 * STRETCH_NS)
		begin = end - 2 * STRETCH_NS;
	if (d->reason == WINDOW_STALL || ask_peers(f, job, r, begin, end, d->anomaly_id, now_ns))
		return;
	job->pull.waiting_ns = now_ns;
	job->pull.waiting_rank = r->rank;
	job->pull.waiting_begin_unix_ns = begin;
	job->pull.waiting_end_unix_ns = end;
	memcpy(job->pull.waiting_anomaly, d->anomaly_id, sizeof(d->anomaly_id));
}
