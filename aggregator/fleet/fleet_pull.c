/* SPDX-License-Identifier: Apache-2.0
 * What is asked of the nodes: hold first, so that nothing is overwritten meanwhile; then windows of
 * the suspects that sent none and of healthy peers of theirs, over the same stretch, on each node's
 * own clock. Sidecars dial, so commands wait for their beats. A node is only asked about ranks it
 * reports. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/text.h"

#define MINUTE_NS	 60000000000ull
#define HANG_AGAIN_NS	 600000000000ull
#define HOLD_AGAIN_NS	 60000000000ull
#define SUSPECT_AGAIN_NS 15000000000ull
#define SUSPECT_NS	 40000000000ull
#define HOLD_BEFORE_NS	 20000000000ull
#define HOLD_AFTER_NS	 120000000000ull
#define STRETCH_NS	 10000000000ull /* of a window, where the fault goes on */
#define HANG_STRETCH_NS	 20000000000ull
#define WAIT_NS		 30000000000ull /* for peers to be known, in a job that starts */
#define MOMENT_STEPS	 2u
#define MOMENT_NS	 1e9
#define PEERS		 2u
#define SUSPECTS	 3u /* windows of more say nothing that these don't */
/* A suspect of which a window came lately that tells of a good part of the fault has sent its own. A
 * healthy peer's may be of any time. */
#define OWN_WINDOW_NS 60000000000ull
#define OWN_PARTS     4u

static uint64_t *counter(struct fleet *f, uint32_t kind)
{
	return kind == WIRE_COMMAND_WINDOW ? &f->counts.commands_window
	       : kind == WIRE_COMMAND_HOLD ? &f->counts.commands_hold
					   : &f->counts.commands_suspect;
}

/* times on the job's clock; anomaly may be NULL. */
static bool ask(struct fleet *f, const struct fleet_job *job, uint32_t node, uint32_t kind,
		int32_t rank, uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly)
{
	struct fleet_node *n = &f->nodes[node];
	struct wire_command *c;
	int64_t begin = 0, end = 0;
	/* what a node says of its clock may be anything */
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

/* Every rank of the job: one command per node. */
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

/* A window tells of the stretch, or will. */
static void told(struct fleet_rank *r, uint64_t begin_unix_ns, uint64_t end_unix_ns,
		 uint64_t now_ns)
{
	r->window_ns = now_ns;
	r->window_begin_unix_ns = begin_unix_ns;
	r->window_end_unix_ns = end_unix_ns;
}

/* Whether that is a good part of the fault, too. */
static bool is_told(const struct fleet_rank *r, uint64_t begin_unix_ns, uint64_t end_unix_ns,
		    uint64_t now_ns)
{
	uint64_t from = r->window_begin_unix_ns, to = r->window_end_unix_ns;
	uint64_t whole = end_unix_ns - begin_unix_ns;

	from = from > begin_unix_ns ? from : begin_unix_ns;
	to = to < end_unix_ns ? to : end_unix_ns;
	return r->window_ns && now_ns - r->window_ns < OWN_WINDOW_NS && to > from &&
	       to - from >= (whole < STRETCH_NS ? whole : STRETCH_NS) / OWN_PARTS;
}

static bool ask_window(struct fleet *f, struct fleet_job *job, struct fleet_rank *r,
		       uint64_t begin_unix_ns, uint64_t end_unix_ns, const uint8_t *anomaly,
		       uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;

	if (!p->minute_ns || now_ns - p->minute_ns >= MINUTE_NS) {
		p->minute_ns = now_ns;
		p->windows = 0;
	}
	if (p->windows == LIMIT_PULL_WINDOWS) {
		f->counts.commands_refused++;
		return false;
	}
	if (!fleet_rank_is_alive(f, r, now_ns) ||
	    !ask(f, job, r->node, WIRE_COMMAND_WINDOW, r->rank, begin_unix_ns, end_unix_ns,
		 anomaly))
		return false;
	p->windows++;
	told(r, begin_unix_ns, end_unix_ns, now_ns);
	return true;
}

/* Healthy ranks of the suspect's role: their windows over the stretch, and a closer look from now
 * on. False: none is known. */
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

void fleet_pull_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	struct fleet_pull *p = &job->pull;
	struct fleet_rank *r = p->waiting_ns ? fleet_find_rank(job, p->waiting_rank) : NULL;

	if (!p->waiting_ns)
		return;
	if (!r || now_ns - p->waiting_ns > WAIT_NS ||
	    ask_peers(f, job, r, p->waiting_begin_unix_ns, p->waiting_end_unix_ns,
		      p->waiting_anomaly, now_ns))
		p->waiting_ns = 0;
}

/* Of one rank, which may be NULL. */
static bool ask_stacks(struct fleet *f, const struct fleet_job *job, struct fleet_rank *r,
		       const struct finding_report *e, uint64_t now_ns)
{
	uint64_t begin = e->end_unix_ns - HANG_STRETCH_NS;

	if (!r || r->rank < 0 || !fleet_rank_is_alive(f, r, now_ns))
		return false;
	told(r, begin, e->end_unix_ns, now_ns);
	return ask(f, job, r->node, WIRE_COMMAND_WINDOW, r->rank, begin, e->end_unix_ns, NULL);
}

/* Stacks of all ranks at that moment. */
static void ask_all(struct fleet *f, struct fleet_job *job, const struct finding_report *e,
		    uint64_t now_ns)
{
	uint32_t asked = 0;

	if (job->pull.hang_ns && now_ns - job->pull.hang_ns < HANG_AGAIN_NS)
		return;
	job->pull.hang_ns = now_ns;
	/* Those to blame first, then the rest as far as the budget goes. */
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

	/* of an imbalance the beats say all there is */
	if (!f->config.pull || e->ended || e->finding.kind == FINDING_IMBALANCE)
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
		if (is_told(r, e->begin_unix_ns, end, now_ns))
			continue;
		ask_window(f, job, r, begin, end, NULL, now_ns);
		if (e->finding.kind == FINDING_SLOW_RANK && !i)
			ask_peers(f, job, r, begin, end, NULL, now_ns);
	}
	if (again)
		job->pull.suspect_ns = now_ns;
}

/* A host that was late once: what its peers did meanwhile explains nothing, and to tell it costs their
 * hosts more than the moment did. If it goes on, the next window asks. */
static bool is_moment(const struct digest *d)
{
	return d->reason == WINDOW_SELF && d->flagged && d->flagged <= MOMENT_STEPS &&
	       d->flagged * d->latency_ns < MOMENT_NS && d->self_excess_ns < MOMENT_NS;
}

void fleet_pull_window(struct fleet *f, struct fleet_job *job, struct fleet_rank *r,
		       const struct digest *d, uint64_t now_ns)
{
	uint64_t begin = d->begin_unix_ns, end = d->end_unix_ns;

	if (!d->summary_only) /* of which nothing can be compared */
		told(r, begin, end, now_ns);
	if (!d->summary_only && !digest_is_own(d))
		r->peer_ns = now_ns;
	if (!f->config.pull || !digest_is_own(d) || end <= begin || !r->compared || is_moment(d))
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
