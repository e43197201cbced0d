/* SPDX-License-Identifier: Apache-2.0
 * Each turn visits the users in rounds, and reads at most LIMIT_DRAIN_BATCH events of each user
 * per round. A user cannot delay the others, however many processes it has and however fast they
 * write. */
#include "sidecar/drain.h"

#include <errno.h>
#include <stdlib.h>

#include "sidecar/node.h"

/* Longest turn before the loop runs its other sources. A ring holds 0.2 s of events or more. */
#define DRAIN_TURN_NS 40000000ull
/* If a lane is fuller than this, the turn came too late: the next burst may be twice as dense. */
#define DRAIN_FILL_MAX 0.5
/* Turns become rarer when no lane was half as full as that for this long. Jobs repeat their bursts
 * every step, or every few steps. */
#define DRAIN_SLOWER_NS 5000000000ull

struct drain {
	struct drain_pace pace;
	uint32_t first;	 /* slot that the next round begins with */
	double fill;	 /* how full the fullest lane was in this turn */
	uint64_t behind; /* turns that ended with events left */
	union ring_event batch[LIMIT_DRAIN_BATCH];
};

int drain_open(struct drain **out)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->pace.ms = DRAIN_MS;
	return 0;
}

void drain_close(struct drain *d)
{
	free(d);
}

uint32_t drain_ms(const struct drain *d)
{
	return d->pace.ms;
}

uint64_t drain_behind(const struct drain *d)
{
	return d->behind;
}

/* Reads the lanes of one kind while the batch has room. */
static uint32_t drain_kind(struct process *p, uint8_t kind, uint32_t left, uint64_t now_ns)
{
	struct drain *d = p->node->drain;
	uint32_t lanes = ring_reader_lanes_used(p->reader), first = p->lanes.next;

	for (uint32_t i = 0; i < lanes && left; i++) {
		uint32_t lane = (first + i) % lanes;
		struct ring_lane_view view;
		size_t got;

		if (p->lanes.kind[lane] != kind)
			continue;
		got = ring_reader_drain_lane(p->reader, lane, d->batch, left, &view);
		if (!got)
			continue;
		if ((double)got > d->fill * view.slots)
			d->fill = (double)got / view.slots;
		join_push(p->join, d->batch, got, &view, now_ns);
		left -= (uint32_t)got;
		if (!left)
			p->lanes.next = lane; /* the next batch starts here */
	}
	return left;
}

/* Reads one batch of one process; true if there may be more. Device lanes come first: a launch is
 * in the ring before its kernel's record, so host lanes read afterwards contain the launch. */
static bool drain_batch(struct process *p, uint64_t now_ns)
{
	uint32_t left = LIMIT_DRAIN_BATCH;

	left = drain_kind(p, RING_LANE_DEVICE, left, now_ns);
	left = drain_kind(p, RING_LANE_HOST, left, now_ns);
	ring_reader_publish(p->reader, now_ns);
	return !left;
}

void drain_prepare(struct process *p)
{
	for (uint32_t lane = 0; lane < ring_reader_lane_count(p->reader); lane++) {
		struct ring_lane_view view = {0};

		ring_reader_drain_lane(p->reader, lane, p->node->drain->batch, 0, &view);
		p->lanes.kind[lane] =
		    view.kind == RING_LANE_DEVICE ? RING_LANE_DEVICE : RING_LANE_HOST;
	}
	/* how dense its bursts are is not known yet */
	drain_pace(&p->node->drain->pace, 1, clock_monotonic_ns());
	/* From here on the process sees a live reader and may pace itself by it. */
	ring_reader_publish(p->reader, clock_monotonic_ns());
}

/* If events were overwritten, records a gap: the steps of that time are not judged. */
static void note_lapped(struct process *p, uint64_t now_ns)
{
	uint64_t lapped = ring_reader_stats(p->reader)->lost_lapped;
	struct record r = {.begin_ns = p->lanes.drained_ns ? p->lanes.drained_ns : now_ns,
			   .end_ns = now_ns,
			   .kind = RECORD_GAP,
			   .seq = DRAIN_GAP_LAPPED,
			   .peer = -1};

	if (lapped != p->lanes.lapped_seen) {
		p->lanes.lapped_seen = lapped;
		rank_host(p->rank, &r, NULL);
	}
	p->lanes.drained_ns = now_ns;
}

static void digest(struct process *p, uint64_t now_ns)
{
	uint64_t mark;

	join_run(p->join, now_ns);
	/* Device records come late: the process flushes every 100 ms, and clock alignment may wait
	 * 300 ms. */
	mark = join_watermark_ns(p->join);
	rank_run(p->rank, mark > 1000000000ull ? mark - 1000000000ull : 0, now_ns);
}

void drain_pace(struct drain_pace *p, double fill, uint64_t now_ns)
{
	if (!p->ms || fill > DRAIN_FILL_MAX)
		p->ms = DRAIN_MS;
	if (fill * 2 > DRAIN_FILL_MAX || !p->calm_ns)
		p->calm_ns = now_ns;
	if (now_ns - p->calm_ns < DRAIN_SLOWER_NS || p->ms >= DRAIN_MAX_MS)
		return;
	p->ms *= 2;
	p->calm_ns = now_ns;
}

/* True on the first call for this user in this round. */
static bool has_turn(uid_t *served, uint32_t *count, uid_t uid)
{
	for (uint32_t i = 0; i < *count; i++)
		if (served[i] == uid)
			return false;
	served[(*count)++] = uid;
	return true;
}

void drain_turn(struct node *n)
{
	struct drain *d = n->drain;
	uint64_t begin_ns = clock_monotonic_ns();
	uid_t served[LIMIT_NODE_PROCESSES];
	bool more = true;

	d->fill = 0;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i])
			n->processes[i]->lanes.backlog = n->processes[i]->join;
	while (more) {
		uint32_t first = d->first++, count = 0;

		more = false;
		for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
			struct process *p = n->processes[(first + i) % LIMIT_NODE_PROCESSES];

			if (!p || !p->lanes.backlog)
				continue;
			if (!has_turn(served, &count, p->uid)) {
				more = true;
				continue;
			}
			p->lanes.backlog = drain_batch(p, clock_monotonic_ns());
			more |= p->lanes.backlog;
			/* Digest at once, while the events are still in the cache. With unread
			 * events left, the rank's time has not reached now. */
			if (!p->lanes.backlog) {
				note_lapped(p, begin_ns);
				digest(p, begin_ns);
			}
		}
		if (more && clock_monotonic_ns() - begin_ns > DRAIN_TURN_NS) {
			d->behind++;
			d->fill = 1;
			break;
		}
	}
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++)
		if (n->processes[i] && n->processes[i]->lanes.backlog)
			note_lapped(n->processes[i], begin_ns);
	drain_pace(&d->pace, d->fill, begin_ns);
}

void drain_last(struct process *p)
{
	uint64_t now_ns = clock_monotonic_ns();

	/* at most two rings full, because the process has ended and writes no more */
	for (int i = 0; i < 64 && drain_batch(p, now_ns); i++)
		;
	note_lapped(p, now_ns);
	digest(p, now_ns);
	join_finish(p->join);
	rank_run(p->rank, UINT64_MAX, now_ns);
	rank_finish(p->rank, now_ns);
	p->past.join = *join_stats(p->join); /* process_losses still needs it */
	join_close(p->join);
	p->join = NULL;
}
