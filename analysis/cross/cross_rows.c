/* SPDX-License-Identifier: Apache-2.0
 * Rows of steps, one column per rank of a role. The majority of the ranks decides how many
 * steps a row has, and which rows are current. So a single rank that sends wrong numbers cannot
 * move the rows of the others. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cross/cross_private.h"
#include "analysis/robust/median.h"
#include "base/order.h"
#include "model/thresholds.h"

#define ROWS	LIMIT_CROSS_ROWS
#define LARGE	64u
#define BEAT_NS 5e9

void cross_rows_free(struct cross_role_part *rp)
{
	free(rp->members);
	free(rp->self_ns);
	free(rp->latency_ns);
	free(rp->blocks);
	free(rp->late_ns);
	free(rp->cover);
	free(rp->late_n);
	free(rp->memory);
	for (int m = 0; m < PEERS_MEASURES; m++)
		free(rp->values[m]);
	free(rp->row);
	*rp = (struct cross_role_part){0};
}

/* ---- which ranks are compared ---- */

/* Steps per row: as many as most ranks' groups have. A large role has more steps per row, so that
 * a beat has about eight rows. Lasting faults are found with fewer rows as well, and fewer rows
 * cost less memory and time. */
static uint32_t steps_of(const struct cross_role_part *rp, uint32_t group, double step_ns)
{
	uint32_t steps = group ? group : 1;

	while (rp->count > LARGE && step_ns > 0 && 2 * steps * step_ns <= BEAT_NS / 8 &&
	       steps < LIMIT_CROSS_GROUP_STEPS / 2)
		steps *= 2;
	return steps;
}

/* Restarts the comparison with rows of rp->steps. */
static int init_peers(struct cross *c, struct cross_role_part *rp)
{
	struct peers_config config = c->config;
	uint32_t longest = 0;
	size_t bytes;

	for (uint32_t i = 0; i < PEERS_WINDOWS && config.windows[i]; i++)
		longest = config.windows[i];
	/* room for the past with which the longest window is compared */
	config.pushes = (longest + rp->steps - 1) / rp->steps + 100;
	if (config.pushes < 200)
		config.pushes = 200;
	bytes = peers_memory_bytes(&config, rp->count);
	free(rp->memory);
	rp->peers = NULL;
	rp->bytes = rp->count * (ROWS * 15 + sizeof(*rp->members) + 4 * sizeof(double));
	rp->memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
	if (!rp->memory)
		return -ENOMEM;
	rp->bytes += bytes;
	rp->peers = peers_init(rp->memory, &config, rp->count);
	rp->uneven = config.changes_only;
	rp->time_count = 0;
	cross_skew_reset(rp);
	return 0;
}

static int fill_role_part(struct cross *c, struct cross_role_part *rp, uint32_t role, uint32_t part,
			  const uint32_t *slots, uint32_t count)
{
	size_t cells = (size_t)count * ROWS;
	uint32_t sizes[32] = {0}, most = 0, seen = 0;

	*rp = (struct cross_role_part){.used = true, .role = role, .part = part, .count = count};
	rp->members = calloc(count, sizeof(*rp->members));
	rp->self_ns = calloc(cells, sizeof(*rp->self_ns));
	rp->latency_ns = calloc(cells, sizeof(*rp->latency_ns));
	rp->blocks = calloc(cells, sizeof(*rp->blocks));
	rp->late_ns = calloc(cells, sizeof(*rp->late_ns));
	rp->cover = calloc(cells, sizeof(*rp->cover));
	rp->late_n = calloc(cells, sizeof(*rp->late_n));
	for (int m = 0; m < PEERS_MEASURES; m++)
		rp->values[m] = calloc(count, sizeof(double));
	rp->row = calloc(3 * (size_t)count, sizeof(*rp->row));
	if (!rp->members || !rp->row || !rp->self_ns || !rp->latency_ns || !rp->blocks ||
	    !rp->late_ns || !rp->cover || !rp->late_n || !rp->values[0] || !rp->values[1])
		goto fail;
	for (uint32_t i = 0; i < count; i++) {
		const struct cross_slot *s = &c->slots[slots[i]];

		rp->members[i] = (struct cross_member){.slot = slots[i]};
		rp->values[0][i] = s->latency_ns;
		sizes[s->steps ? __builtin_ctz(s->steps) : 0]++;
	}
	while (most < 31 && 2 * (seen + sizes[most]) < count)
		seen += sizes[most++];
	rp->steps = steps_of(rp, 1u << most, median_of(rp->values[0], count));
	if (!init_peers(c, rp))
		return 0;
fail:
	cross_rows_free(rp);
	return -ENOMEM;
}

static bool same_members(const struct cross_role_part *rp, uint32_t role, const uint32_t *slots,
			 uint32_t count)
{
	uint32_t at = 0;

	if (!rp->used || rp->role != role)
		return false;
	/* A rank that has gone leaves its column empty. */
	for (uint32_t i = 0; i < rp->count; i++) {
		if (rp->members[i].slot == CROSS_NONE)
			continue;
		if (at == count || rp->members[i].slot != slots[at])
			return false;
		at++;
	}
	return at == count;
}

struct wanted {
	uint32_t role, slot;
	int32_t rank;
};

ORDER_BY(by_role_and_rank, struct wanted, ORDER_UP(role) ?: ORDER_UP(rank) ?: ORDER_UP(slot));

/* A role part of these ranks. It keeps its rows and comparison if its ranks are unchanged. */
static void make_role_part(struct cross *c, struct cross_role_part *to, struct cross_role_part *old,
			   uint32_t old_count, uint32_t part, const struct wanted *w,
			   uint32_t count, uint32_t *slots, uint64_t now_ns)
{
	for (uint32_t i = 0; i < count; i++)
		slots[i] = w[i].slot;
	for (uint32_t i = 0; i < old_count; i++)
		if (same_members(&old[i], w->role, slots, count)) {
			*to = old[i];
			old[i].used = false;
			return;
		}
	if (fill_role_part(c, to, w->role, part, slots, count))
		return;
	for (uint32_t i = 0; i < count; i++)
		cross_findings_orphan(c, slots[i], now_ns);
}

static void assign(struct cross *c)
{
	for (uint32_t i = 0; i < c->slot_room; i++)
		c->slots[i].role_part = c->slots[i].member = CROSS_NONE;
	for (uint32_t k = 0; k < c->role_part_count; k++)
		for (uint32_t m = 0; m < c->role_parts[k].count; m++) {
			uint32_t slot = c->role_parts[k].members[m].slot;

			if (slot == CROSS_NONE)
				continue;
			c->slots[slot].role_part = k;
			c->slots[slot].member = m;
		}
}

void cross_rows_regroup(struct cross *c, uint64_t now_ns)
{
	struct wanted *w = malloc((c->slot_count + 1) * sizeof(*w));
	uint32_t *slots = malloc(PEERS_MEMBERS_MAX * sizeof(*slots)), n = 0, made = 0, at = 0;
	uint32_t room = c->role_count + c->slot_count / PEERS_MEMBERS_MAX + 1;
	struct cross_role_part *list = calloc(room, sizeof(*list));

	if (!w || !slots || !list) {
		free(list);
		goto out;
	}
	for (uint32_t i = 0; i < c->slot_room; i++)
		if (c->slots[i].used && c->slots[i].role != CROSS_NONE)
			w[n++] = (struct wanted){c->slots[i].role, i, c->slots[i].rank};
	qsort(w, n, sizeof(*w), by_role_and_rank);
	while (at < n) {
		uint32_t end = at, parts, part = 0;

		while (end < n && w[end].role == w[at].role)
			end++;
		parts = (end - at + PEERS_MEMBERS_MAX - 1) / PEERS_MEMBERS_MAX;
		/* parts of equal size, so that no rank is left without peers */
		for (; part < parts; part++) {
			uint32_t share = (end - at) / (parts - part);

			if (share > 1 && made < room)
				make_role_part(c, &list[made++], c->role_parts, c->role_part_count,
					       part, &w[at], share, slots, now_ns);
			at += share;
		}
		at = end;
	}
	for (uint32_t i = 0; i < c->role_part_count; i++)
		if (c->role_parts[i].used)
			cross_rows_free(&c->role_parts[i]);
	free(c->role_parts);
	c->role_parts = list;
	c->role_part_count = made;
	assign(c);
out:
	free(w);
	free(slots);
}

/* ---- filling ---- */

size_t cross_rows_cell(const struct cross_role_part *rp, uint64_t row, uint32_t member)
{
	return (size_t)(row % ROWS) * rp->count + member;
}

static struct cross_row *row_at(struct cross_role_part *rp, uint64_t index, uint64_t now_ns)
{
	struct cross_row *r = &rp->rows[index % ROWS];
	size_t at = cross_rows_cell(rp, index, 0);

	if (r->live && r->index == index)
		return r;
	*r = (struct cross_row){.index = index, .born_ns = now_ns, .live = true};
	memset(rp->cover + at, 0, rp->count * sizeof(*rp->cover));
	memset(rp->late_n + at, 0, rp->count * sizeof(*rp->late_n));
	memset(rp->late_ns + at, 0, rp->count * sizeof(*rp->late_ns));
	return r;
}

static void restart(struct cross_role_part *rp)
{
	rp->started = false;
	cross_skew_reset(rp);
	for (uint32_t i = 0; i < ROWS; i++)
		rp->rows[i].live = false;
	for (uint32_t i = 0; i < rp->count; i++) {
		rp->members[i].astray = false;
		rp->members[i].passed = 0;
	}
}

static float mean(float before, uint32_t covered, double value, uint32_t more)
{
	return covered ? (float)(((double)before * covered + value * more) / (covered + more))
		       : (float)value;
}

static void put(struct cross *c, struct cross_role_part *rp, uint32_t member, uint64_t index,
		const struct beat_group *g, int64_t end_unix_ns, uint64_t now_ns)
{
	struct cross_row *r;
	uint32_t covered, more = g->count < rp->steps ? g->count : rp->steps;
	size_t at;

	rp->members[member].astray = index < rp->next || index - rp->next >= ROWS;
	if (index < rp->next) {
		c->stats.stale++;
		return;
	}
	if (index - rp->next >= ROWS) {
		c->stats.ahead++;
		return;
	}
	r = row_at(rp, index, now_ns);
	if (end_unix_ns > r->end_unix_ns)
		r->end_unix_ns = end_unix_ns;
	if (!(g->latency_ns > 0)) /* no step of the group was judged */
		return;
	at = cross_rows_cell(rp, index, member);
	covered = rp->cover[at];
	if (covered + more > UINT16_MAX)
		return;
	rp->self_ns[at] = mean(rp->self_ns[at], covered, g->self_ns, more);
	rp->latency_ns[at] = mean(rp->latency_ns[at], covered, g->latency_ns, more);
	rp->blocks[at] = mean(rp->blocks[at], covered, g->blocks, more);
	rp->cover[at] = (uint16_t)(covered + more);
}

void cross_rows_put(struct cross *c, struct cross_slot *s, const struct beat_group *g,
		    int64_t end_unix_ns, uint64_t now_ns)
{
	struct cross_role_part *rp = &c->role_parts[s->role_part];
	struct cross_member *m = &rp->members[s->member];
	int64_t step = (int64_t)g->first_step + s->offset;
	uint64_t first, passed;

	if (step < 0) {
		c->stats.stale++;
		return;
	}
	m->steps = g->count;
	m->clock_ns = end_unix_ns - (int64_t)now_ns;
	/* if clocks agree, a group arrives no later than this after its end */
	if (rp->clock_ns &&
	    fabs((double)m->clock_ns - (double)rp->clock_ns) > 2 * (double)thresholds.time.gone_ns)
		end_unix_ns = 0; /* unknown: the other ranks' groups give the time of the row */
	if (g->latency_ns > 0)
		m->latency_ns = (float)g->latency_ns;
	/* The numbering may be off by a part of a row: use the row that holds most of the group. */
	first = ((uint64_t)step + (g->count <= rp->steps ? g->count / 2 : 0)) / rp->steps;
	if (!rp->started) {
		rp->started = true;
		rp->next = first;
	}
	for (uint64_t k = 0; k == 0 || (k < ROWS && k < g->count / rp->steps); k++)
		put(c, rp, s->member, first + k, g, end_unix_ns, now_ns);
	passed =
	    ((uint64_t)step + g->count + (g->count <= rp->steps ? g->count / 2 : 0)) / rp->steps;
	m->passed = passed;
}

void cross_rows_late(struct cross *c, const struct cross_slot *s, int64_t step, double late_ns)
{
	struct cross_role_part *rp =
	    s->role_part == CROSS_NONE ? NULL : &c->role_parts[s->role_part];
	uint64_t index;
	size_t at;

	if (!rp || !rp->started || step < 0)
		return;
	index = (uint64_t)step / rp->steps;
	if (index < rp->next || index - rp->next >= ROWS || !rp->rows[index % ROWS].live ||
	    rp->rows[index % ROWS].index != index)
		return;
	at = cross_rows_cell(rp, index, s->member);
	if (rp->late_n[at] == UINT8_MAX)
		return;
	rp->late_ns[at] += (float)late_ns;
	rp->late_n[at]++;
}

/* ---- comparing ---- */

uint64_t cross_rows_limit(const struct cross *c, const struct cross_role_part *rp, uint64_t now_ns)
{
	uint64_t limit = UINT64_MAX;
	bool any = false;

	if (!rp->used || !rp->started)
		return 0;
	for (uint32_t i = 0; i < rp->count; i++) {
		const struct cross_member *m = &rp->members[i];

		if (m->slot == CROSS_NONE || !cross_alive(&c->slots[m->slot], now_ns) ||
		    !c->slots[m->slot].placed)
			continue;
		any = true;
		limit = m->passed < limit ? m->passed : limit;
	}
	if (!any)
		limit = 0;
	for (uint64_t k = 0; k < ROWS; k++) {
		const struct cross_row *r = &rp->rows[(rp->next + k) % ROWS];

		if (r->live && r->index == rp->next + k &&
		    now_ns - r->born_ns >= CROSS_ROW_WAIT_NS && r->index + 1 > limit)
			limit = r->index + 1;
	}
	return limit;
}

static void push_row(struct cross *c, struct cross_role_part *rp, const struct cross_row *r,
		     uint64_t now_ns)
{
	double *self = rp->values[PEERS_SELF], *late = rp->values[PEERS_LATE];
	uint32_t known = 0;
	struct peers_flag f;

	if (!rp->peers)
		return;
	for (uint32_t i = 0; i < rp->count; i++) {
		size_t at = cross_rows_cell(rp, r->index, i);
		bool have = rp->cover[at] && 2u * rp->cover[at] >= rp->steps &&
			    rp->members[i].slot != CROSS_NONE;

		self[i] = have ? (double)rp->self_ns[at] : NAN;
		if (have) {
			rp->members[i].sum.self_ns += self[i];
			rp->members[i].sum.latency_ns += (double)rp->latency_ns[at];
			rp->members[i].recent_rows++;
		}
		late[i] = have && rp->late_n[at] ? (double)rp->late_ns[at] / rp->late_n[at] : NAN;
		known += have;
	}
	rp->lone_ns = known > 1 ? 0 : rp->lone_ns ? rp->lone_ns : now_ns;
	if (known < 2)
		return;
	c->stats.rows++;
	rp->times[rp->time_count % CROSS_TIMES].step = r->index * rp->steps;
	rp->times[rp->time_count++ % CROSS_TIMES].end_unix_ns =
	    r->end_unix_ns ? r->end_unix_ns : (int64_t)now_ns + rp->clock_ns;
	peers_push(rp->peers, r->index * rp->steps, self, late, rp->step_ns, rp->steps);
	while (peers_next(rp->peers, &f))
		if (f.member < rp->count && rp->members[f.member].slot != CROSS_NONE)
			cross_findings_flag(c, rp, &f);
	cross_skew_push(rp, r->index);
}

/* Restarts the comparison. A flag that the old comparison raised is dropped unless the new one
 * raises it too. */
static void restart_comparison(struct cross *c, struct cross_role_part *rp, uint64_t now_ns)
{
	restart(rp);
	init_peers(c, rp);
	rp->lone_ns = 0;
	for (uint32_t i = 0; i < rp->count; i++)
		if (rp->members[i].slot != CROSS_NONE)
			cross_findings_orphan(c, rp->members[i].slot, now_ns);
}

/* Updates what most living ranks send, and the role's typical step time and clock. */
static void update_typical(struct cross *c, struct cross_role_part *rp, uint64_t now_ns)
{
	uint32_t sizes[32] = {0}, alive = 0, astray = 0, n = 0, seen = 0, most, steps;

	for (uint32_t i = 0; i < rp->count; i++) {
		const struct cross_member *m = &rp->members[i];

		if (m->slot == CROSS_NONE || !cross_alive(&c->slots[m->slot], now_ns) || !m->steps)
			continue;
		alive++;
		astray += m->astray;
		sizes[__builtin_ctz(m->steps)]++;
		if (m->latency_ns > 0)
			rp->values[0][n++] = (double)m->latency_ns;
		rp->values[1][alive - 1] = (double)m->clock_ns;
	}
	if (!alive)
		return;
	/* an existing value, not the mean of two */
	rp->clock_ns = (int64_t)median_nth(rp->values[1], alive, (alive - 1) / 2);
	rp->step_ns = median_of(rp->values[0], n);
	if (2 * astray > alive)
		restart(rp);
	for (most = 0; most < 31 && 2 * (seen + sizes[most]) < alive; most++)
		seen += sizes[most];
	steps = steps_of(rp, 1u << most, rp->step_ns);
	/* If the step time varies between two row sizes, the present size stays. */
	if (steps == rp->steps ||
	    (rp->steps >= 1u << most && (2 * steps == rp->steps || steps == 2 * rp->steps))) {
		rp->steps_votes = 0;
		return;
	}
	rp->steps_votes = rp->steps_next == steps ? rp->steps_votes + 1 : 1;
	rp->steps_next = steps;
	if (rp->steps_votes < 6) /* about one beat period, so that every rank has sent a group */
		return;
	rp->steps = steps;
	rp->steps_votes = 0;
	restart_comparison(c, rp, now_ns);
}

void cross_uneven(struct cross *c, uint64_t now_ns)
{
	if (c->config.changes_only)
		return;
	c->config.changes_only = true;
	for (uint32_t k = 0; k < c->role_part_count; k++) {
		struct cross_role_part *rp = &c->role_parts[k];

		if (rp->used && rp->peers)
			restart_comparison(c, rp, now_ns);
	}
}

/* Stores each rank's mean times over the rows of this tick. */
static void take_recent(struct cross_role_part *rp)
{
	double *v = rp->values[PEERS_SELF];

	for (uint32_t i = 0; i < rp->count; i++) {
		struct cross_member *m = &rp->members[i];

		if (m->recent_rows)
			m->recent = (struct cross_recent){m->sum.self_ns / m->recent_rows,
							  m->sum.latency_ns / m->recent_rows};
		v[i] = m->recent_rows ? m->recent.self_ns : NAN;
		m->sum = (struct cross_recent){0};
		m->recent_rows = 0;
	}
	rp->self_recent_ns = fmax(0, median_known(v, rp->count, v));
}

static void tick_role_part(struct cross *c, struct cross_role_part *rp, uint64_t now_ns)
{
	uint64_t limit = cross_rows_limit(c, rp, now_ns);
	bool handed = false;

	for (uint32_t k = 0; k < ROWS && rp->next < limit; k++) {
		struct cross_row *r = &rp->rows[rp->next % ROWS];

		if (r->live && r->index == rp->next) {
			push_row(c, rp, r, now_ns);
			r->live = false;
			handed = true;
		}
		rp->next++;
	}
	if (rp->next < limit) /* no rank has data for the rows between */
		rp->next = limit;
	if (handed && rp->peers)
		cross_skew_tick(c, rp, now_ns);
	if (handed)
		rp->self_typical_ns = fmax(
		    0, median_known(rp->values[PEERS_SELF], rp->count, rp->values[PEERS_SELF]));
	if (handed && rp->peers)
		take_recent(rp);
	/* A rank without peers is not compared, so its flags would never end. */
	if (rp->lone_ns && now_ns - rp->lone_ns >= thresholds.time.gone_ns)
		restart_comparison(c, rp, now_ns);
	update_typical(c, rp, now_ns);
}

void cross_rows_tick(struct cross *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < c->role_part_count; i++)
		if (c->role_parts[i].used)
			tick_role_part(c, &c->role_parts[i], now_ns);
}
