/* SPDX-License-Identifier: Apache-2.0
 * A rank's numbering is settled before its steps are compared. A group in the wrong row costs
 * little, since rows are medians of several steps. A collective that is mistaken for another one
 * shifts every later row of the rank. So the key of a collective is exactly its communicator,
 * function and sequence number; similar collectives are never matched. */
#include "analysis/cross/cross.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cross/cross_private.h"
#include "analysis/robust/median.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/thresholds.h"

int cross_open(struct cross **out, const char *job, const struct peers_config *config)
{
	struct cross *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->config = *config;
	text_copy(c->job, sizeof(c->job), job);
	c->imbalances = calloc(LIMIT_CROSS_ROLES, sizeof(*c->imbalances));
	if (!c->imbalances || clocks_open(&c->clocks)) {
		cross_close(c);
		return -ENOMEM;
	}
	*out = c;
	return 0;
}

void cross_close(struct cross *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->role_part_count; i++)
		cross_rows_free(&c->role_parts[i]);
	free(c->role_parts);
	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++)
		free(c->findings[i].culprits);
	cross_colls_free(c);
	for (uint32_t i = 0; i < c->slot_room; i++)
		free(c->slots[i].unmatched);
	free(c->imbalances);
	clocks_close(c->clocks);
	free(c->slots);
	free(c->roles);
	free(c);
}

bool cross_alive(const struct cross_slot *s, uint64_t now_ns)
{
	return s->used && s->begun &&
	       (now_ns <= s->seen_ns || now_ns - s->seen_ns < CROSS_ALIVE_NS);
}

/* ---- ranks ---- */

static uint32_t role_of(struct cross *c, const char *role)
{
	char(*roles)[WIRE_TEXT_BYTES];

	if (!*role)
		return CROSS_NONE;
	for (uint32_t i = 0; i < c->role_count; i++)
		if (!strcmp(c->roles[i], role))
			return i;
	if (c->role_count == LIMIT_CROSS_ROLES) {
		c->stats.no_room++;
		return CROSS_NONE;
	}
	roles = realloc(c->roles, (c->role_count + 1) * sizeof(*roles));
	if (!roles)
		return CROSS_NONE;
	c->roles = roles;
	text_copy(roles[c->role_count], WIRE_TEXT_BYTES, role);
	return c->role_count++;
}

static int slots_grow(struct cross *c, uint32_t slot)
{
	if (slot < c->slot_room)
		return 0;
	if (ROOM_FOR_ZERO(c->slots, c->slot_room, slot + 1))
		return -ENOMEM;
	return c->instance_room ? cross_colls_resize(c, (uint32_t)c->slot_room) : 0;
}

static void touch(struct cross *c, uint64_t now_ns)
{
	if (!c->dirty)
		c->dirty_ns = now_ns;
	c->dirty = true;
	c->dirty_last_ns = now_ns;
}

static void leave(struct cross *c, struct cross_slot *s)
{
	if (s->role_part != CROSS_NONE && s->role_part < c->role_part_count)
		c->role_parts[s->role_part].members[s->member].slot = CROSS_NONE;
	s->role_part = s->member = CROSS_NONE;
}

int cross_set(struct cross *c, uint32_t slot, int32_t rank, uint32_t node, const char *role,
	      uint64_t now_ns)
{
	struct cross_slot *s;
	uint32_t r;

	if (slot >= LIMIT_FLEET_RANKS)
		return -EINVAL;
	if (slots_grow(c, slot))
		return -ENOMEM;
	s = &c->slots[slot];
	r = role_of(c, role);
	if (!s->used) {
		*s = (struct cross_slot){.used = true,
					 .role = CROSS_NONE,
					 .role_part = CROSS_NONE,
					 .member = CROSS_NONE,
					 .seen_ns = now_ns};
		c->slot_count++;
	}
	s->rank = rank;
	s->node = node;
	if (s->role != r) {
		leave(c, s);
		s->role = r;
		touch(c, now_ns);
	}
	return 0;
}

static void forget_unmatched(struct cross_slot *s)
{
	free(s->unmatched);
	s->unmatched = NULL;
	s->unmatched_count = 0;
}

void cross_restart(struct cross *c, uint32_t slot)
{
	struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;

	if (!s || !s->used)
		return;
	forget_unmatched(s);
	s->placed = s->strong = s->begun = false;
	s->agree = s->disagree = 0;
	s->next_own = s->last_end_ns = s->unplaced_ns = 0;
}

void cross_drop(struct cross *c, uint32_t slot, uint64_t now_ns)
{
	struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;

	if (!s || !s->used)
		return;
	cross_findings_orphan(c, slot, now_ns);
	leave(c, s);
	forget_unmatched(s);
	s->used = false;
	c->slot_count--;
}

void cross_forget_node(struct cross *c, uint32_t node)
{
	clocks_forget(c->clocks, node);
}

/* ---- numbering ---- */

/* One collective votes for an offset between this rank's numbering and the job's. */
static void vote(struct cross_slot *s, const struct cross_instance *in, uint64_t step)
{
	int64_t delta = in->step - (int64_t)step;

	if (in->weak && s->strong)
		return;
	if (s->placed && delta == s->offset) {
		s->agree++;
	} else if (!s->disagree || delta == s->other) {
		s->other = delta;
		s->disagree++;
	} else {
		/* majority vote (Boyer-Moore): `other` survives only with more than half of the
		 * votes */
		s->disagree--;
	}
	if (!in->weak && s->placed && delta == s->offset)
		s->strong = true;
}

static void place(struct cross *c, struct cross_slot *s, int64_t offset, bool strong)
{
	c->stats.renumbered += s->placed && s->offset != offset;
	s->offset = offset;
	s->placed = true;
	forget_unmatched(s);
	s->strong = strong;
	s->agree = s->disagree = 0;
	c->referenced = true;
}

static bool group_is_sane(const struct beat_group *g)
{
	return g->count && !(g->count & (g->count - 1)) && g->count <= LIMIT_CROSS_GROUP_STEPS &&
	       g->first_step < CROSS_STEP_MAX && g->end_ns < CROSS_TIME_MAX && g->latency_ns >= 0 &&
	       g->latency_ns < CROSS_LATENCY_MAX && g->self_ns >= 0 &&
	       g->self_ns < CROSS_LATENCY_MAX;
}

static void place_by_time(struct cross *c, struct cross_slot *s, const struct beat_rank *b,
			  int64_t offset_ns, uint64_t now_ns)
{
	const struct beat_group *g = NULL;
	/* no rank that sends groups is left from whose collectives the numbering could be
	 * derived */
	bool lost;
	double steps, since;

	for (uint32_t i = 0; i < b->group_count; i++)
		if (group_is_sane(&b->groups[i]) && b->groups[i].latency_ns > 0)
			g = &b->groups[i];
	if (!g)
		return;
	if (!c->referenced) {
		place(c, s, 0, true);
		return;
	}
	if (!s->unplaced_ns)
		s->unplaced_ns = now_ns;
	if (now_ns - s->unplaced_ns < thresholds.time.together_ns)
		return;
	lost = now_ns - c->time_seen_ns > thresholds.time.together_ns;
	steps = ((double)((int64_t)g->end_ns + offset_ns) - (double)c->time_unix_ns) /
		c->time_latency_ns;
	/* The number of steps between the arrivals of the two groups. It replaces the number by the
	 * groups' own times if the node's clock is far off. */
	since = (double)(now_ns - c->time_seen_ns) / c->time_latency_ns;
	/* A beat arrives at most this long after the steps that it reports. A larger difference is
	 * the clock's fault. */
	if (fabs(steps - since) * c->time_latency_ns > (double)thresholds.time.together_ns)
		steps = since;
	if (fabs(steps) < 1e9)
		place(c, s, c->time_step + llround(steps) - (int64_t)(g->first_step + g->count - 1),
		      lost);
}

/* The beats of one interval report the same collectives. If a rank's beat arrives before the first
 * placed rank's beat, none of its collectives is known yet. So they are looked up again at its next
 * beat. */
static uint32_t vote_again(struct cross *c, struct cross_slot *s)
{
	uint32_t strong = 0;

	for (uint32_t i = 0; i < s->unmatched_count; i++) {
		const struct cross_unmatched *k = &s->unmatched[i];
		const struct cross_instance *in = cross_colls_find(c, k->comm, k->func, k->seq);

		if (!in)
			continue;
		strong += !in->weak;
		vote(s, in, k->step);
	}
	return strong;
}

/* Keeps the last collectives of the beat. Without memory they are dropped; the next beat brings
 * others. */
static void keep_unmatched(struct cross_slot *s, const struct beat_rank *b)
{
	uint32_t n = 0;

	if (b->coll_count && !s->unmatched)
		s->unmatched = malloc(LIMIT_CROSS_UNMATCHED * sizeof(*s->unmatched));
	for (uint32_t i = b->coll_count; s->unmatched && i-- && n < LIMIT_CROSS_UNMATCHED;) {
		const struct beat_coll *k = &b->colls[i];

		if (cross_colls_is_sane(k))
			s->unmatched[n++] =
			    (struct cross_unmatched){k->comm, k->step, k->func, k->seq};
	}
	s->unmatched_count = n ? n : s->unmatched_count;
}

static void renumber(struct cross *c, struct cross_slot *s, const struct beat_rank *b,
		     int64_t offset_ns, uint64_t now_ns)
{
	uint32_t strong = vote_again(c, s);

	for (uint32_t i = 0; i < b->coll_count; i++) {
		const struct beat_coll *k = &b->colls[i];
		const struct cross_instance *in =
		    cross_colls_is_sane(k) ? cross_colls_find(c, k->comm, k->func, k->seq) : NULL;

		if (!in)
			continue;
		strong += !in->weak;
		vote(s, in, k->step);
	}
	if (!s->placed && s->disagree)
		place(c, s, s->other, strong > 0);
	else if (s->placed && s->disagree > 2 * s->agree && s->disagree >= 2)
		place(c, s, s->other, strong > 0);
	else if (!s->placed)
		place_by_time(c, s, b, offset_ns, now_ns);
	if (!s->placed)
		keep_unmatched(s, b);
	s->agree /= 2;
	s->disagree /= 2;
}

/* ---- groups ---- */

static void push_groups(struct cross *c, struct cross_slot *s, const struct beat_rank *b,
			int64_t offset_ns, uint64_t now_ns)
{
	for (uint32_t i = 0; i < b->group_count; i++) {
		const struct beat_group *g = &b->groups[i];

		if (!group_is_sane(g) || g->end_ns < s->last_end_ns) {
			c->stats.bad++;
			continue;
		}
		if (g->first_step < s->next_own) {
			c->stats.stale++;
			continue;
		}
		s->next_own = g->first_step + g->count;
		s->last_end_ns = g->end_ns;
		s->begun = true;
		s->steps = g->count;
		if (g->latency_ns > 0)
			s->latency_ns = g->latency_ns;
		if (!s->placed) {
			c->stats.unplaced++;
			continue;
		}
		c->stats.groups++;
		if (s->strong && g->latency_ns > 0) {
			c->time_step = (int64_t)(g->first_step + g->count - 1) + s->offset;
			c->time_unix_ns = (int64_t)g->end_ns + offset_ns;
			c->time_latency_ns = g->latency_ns;
			c->time_seen_ns = now_ns;
		}
		if (s->role_part != CROSS_NONE)
			cross_rows_put(c, s, g, (int64_t)g->end_ns + offset_ns, now_ns);
	}
}

void cross_push(struct cross *c, uint32_t slot, const struct beat_rank *b, int64_t offset_ns,
		uint64_t now_ns)
{
	struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;

	if (!s || !s->used)
		return;
	s->seen_ns = now_ns;
	if (b->group_count > BEAT_GROUPS_MAX || b->coll_count > BEAT_COLLS_MAX ||
	    offset_ns > (int64_t)CROSS_TIME_MAX || offset_ns < -(int64_t)CROSS_TIME_MAX) {
		c->stats.bad++;
		return;
	}
	renumber(c, s, b, offset_ns, now_ns);
	cross_colls_push(c, slot, b, offset_ns, now_ns);
	push_groups(c, s, b, offset_ns, now_ns);
}

void cross_expect(struct cross *c, uint32_t ranks)
{
	c->expected = ranks;
}

/* Whether no rank is compared yet, and all ranks of the job are known. */
static bool is_complete(const struct cross *c)
{
	uint32_t n = 0;

	if (c->role_part_count || !c->expected)
		return false;
	for (uint32_t i = 0; i < c->slot_room; i++)
		n += c->slots[i].used && c->slots[i].role != CROSS_NONE;
	return n >= c->expected;
}

void cross_tick(struct cross *c, uint64_t now_ns)
{
	/* The ranks of a starting job arrive within one beat. Later ranks are not waited for. */
	if (c->dirty && (is_complete(c) || now_ns - c->dirty_last_ns >= CROSS_SETTLE_NS ||
			 now_ns - c->dirty_ns >= 2 * CROSS_SETTLE_NS)) {
		cross_rows_regroup(c, now_ns);
		c->dirty = false;
	}
	cross_colls_tick(c, now_ns);
	cross_rows_tick(c, now_ns);
	cross_skew_orphans(c, now_ns);
	cross_findings_tick(c, now_ns);
}

/* ---- queries ---- */

void cross_stats(const struct cross *c, struct cross_stats *out)
{
	*out = c->stats;
	out->bytes = sizeof(*c) + c->slot_room * sizeof(*c->slots) +
		     c->instance_room * sizeof(*c->instances);
	for (uint32_t i = 0; i < c->role_part_count; i++)
		out->bytes += c->role_parts[i].bytes + sizeof(c->role_parts[i]);
	for (uint32_t i = 0; i < c->instance_room; i++)
		out->bytes += c->instances[i].room * sizeof(struct cross_entry);
}

bool cross_is_suspect(const struct cross *c, uint32_t slot)
{
	return slot < c->slot_room && c->slots[slot].used && c->slots[slot].findings;
}

struct cross_recent cross_recent(const struct cross *c, uint32_t slot, double *typical_self_ns)
{
	const struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;
	const struct cross_role_part *rp;

	*typical_self_ns = 0;
	if (!s || !s->used || s->role_part == CROSS_NONE)
		return (struct cross_recent){0};
	rp = &c->role_parts[s->role_part];
	*typical_self_ns = rp->self_recent_ns;
	return rp->members[s->member].recent;
}

double cross_beyond_peers(const struct cross *c, uint32_t slot)
{
	const struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;
	const struct cross_role_part *rp;
	double own_ns, others_ns[PEERS_MEMBERS_MAX];
	uint32_t n = 0;

	if (!s || !s->used || s->role_part == CROSS_NONE)
		return NAN;
	rp = &c->role_parts[s->role_part];
	own_ns = rp->members[s->member].recent.self_ns;
	for (uint32_t i = 0; i < rp->count && n < PEERS_MEMBERS_MAX; i++)
		if (i != s->member && rp->members[i].slot != CROSS_NONE &&
		    rp->members[i].recent.self_ns > 0)
			others_ns[n++] = rp->members[i].recent.self_ns;
	return n && own_ns > 0 && !rp->uneven ? own_ns / median_of(others_ns, n) - 1 : NAN;
}

uint32_t cross_suspects(const struct cross *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LIMIT_CROSS_FINDINGS; i++)
		if (c->findings[i].used && !c->findings[i].ended)
			n += c->findings[i].count;
	return n;
}

uint32_t cross_healthy_peers(const struct cross *c, uint32_t slot, uint32_t *slots, uint32_t max)
{
	const struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;
	const struct cross_role_part *rp;
	uint32_t n = 0;

	if (!s || !s->used || s->role_part == CROSS_NONE)
		return 0;
	rp = &c->role_parts[s->role_part];
	/* The ranks are in the order of their numbers. Search outwards from the rank itself. */
	for (uint32_t d = 1; d < rp->count && n < max; d++) {
		for (int side = 0; side < 2 && n < max; side++) {
			uint32_t at = side ? s->member + d : s->member - d, other;

			if (at >= rp->count)
				continue;
			other = rp->members[at].slot;
			if (other != CROSS_NONE && !c->slots[other].findings)
				slots[n++] = other;
		}
	}
	return n;
}

bool cross_clock_state(const struct cross *c, uint32_t node, int64_t at_unix_ns, double *offset_ns,
		       double *drift, double *error_ns)
{
	struct clocks_state s;

	clocks_state(c->clocks, node, at_unix_ns, &s);
	*offset_ns = s.offset_ns;
	*drift = s.drift;
	*error_ns = s.error_ns;
	return s.known;
}

int64_t cross_step(const struct cross *c, uint32_t slot, uint64_t own_step)
{
	const struct cross_slot *s = slot < c->slot_room ? &c->slots[slot] : NULL;
	int64_t step;

	if (!s || !s->used || !s->placed || own_step >= CROSS_STEP_MAX)
		return -1;
	step = (int64_t)own_step + s->offset;
	return step < 0 ? -1 : step;
}

bool cross_role(const struct cross *c, uint32_t index, struct cross_role *out)
{
	const struct cross_role_part *rp = NULL;

	for (uint32_t i = 0; i < c->role_part_count && !rp; i++)
		if (c->role_parts[i].used && !index--)
			rp = &c->role_parts[i];
	if (!rp)
		return false;
	*out = (struct cross_role){
	    .role = c->roles[rp->role],
	    .part = rp->part,
	    .steps_per_row = rp->steps,
	    .step_ns = rp->step_ns,
	    .self_ns = rp->self_typical_ns,
	    .last_step = rp->next * rp->steps,
	    .count = rp->count,
	    .role_part = rp,
	};
	return true;
}

bool cross_role_member(const struct cross *c, const struct cross_role *role, uint32_t index,
		       int32_t *rank, bool *suspect)
{
	const struct cross_role_part *rp = role->role_part;

	if (rp->members[index].slot == CROSS_NONE)
		return false;
	*rank = c->slots[rp->members[index].slot].rank;
	*suspect = c->slots[rp->members[index].slot].findings != 0;
	return true;
}
