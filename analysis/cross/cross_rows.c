/* SPDX-License-Identifier: Apache-2.0
 * Rows of steps, one column per member of a role. What most members send decides how many steps a
 * row has, so that one that sends nonsense moves nobody else's rows; in the same way the rows go on
 * only where most are. */
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

void cross_rows_free(struct cross_cohort *co)
{
	free(co->members);
	free(co->self_ns);
	free(co->blocks);
	free(co->late_ns);
	free(co->cover);
	free(co->late_n);
	free(co->memory);
	for (int m = 0; m < PEERS_MEASURES; m++)
		free(co->values[m]);
	free(co->row);
	*co = (struct cross_cohort){0};
}

/* ---- who is compared with whom ---- */

/* Steps of a row: as many as most of the members' groups have. Of a large role more, so that a beat
 * makes some eight rows: what lasts long is seen as well with fewer of them, at less memory and
 * time. */
static uint32_t steps_of(const struct cross_cohort *co, uint32_t group, double step_ns)
{
	uint32_t steps = group ? group : 1;

	while (co->count > LARGE && step_ns > 0 && 2 * steps * step_ns <= BEAT_NS / 8 &&
	       steps < LIMIT_CROSS_GROUP_STEPS / 2)
		steps *= 2;
	return steps;
}

/* The comparison begins anew with rows of co->steps. */
static int compare_anew(struct cross *c, struct cross_cohort *co)
{
	struct peers_config config = c->config;
	uint32_t longest = 0;
	size_t bytes;

	for (uint32_t i = 0; i < PEERS_WINDOWS && config.windows[i]; i++)
		longest = config.windows[i];
	/* and the past that the longest window is held against */
	config.pushes = (longest + co->steps - 1) / co->steps + 100;
	if (config.pushes < 200)
		config.pushes = 200;
	bytes = peers_memory_bytes(&config, co->count);
	free(co->memory);
	co->peers = NULL;
	co->bytes = co->count * (ROWS * 15 + sizeof(*co->members) + 4 * sizeof(double));
	co->memory = aligned_alloc(16, (bytes + 15) / 16 * 16);
	if (!co->memory)
		return -ENOMEM;
	co->bytes += bytes;
	co->peers = peers_init(co->memory, &config, co->count);
	co->uneven = config.changes_only;
	co->time_count = 0;
	cross_skew_reset(co);
	return 0;
}

static int cohort_fill(struct cross *c, struct cross_cohort *co, uint32_t role, uint32_t part,
		       const uint32_t *slots, uint32_t count)
{
	size_t cells = (size_t)count * ROWS;
	uint32_t sizes[32] = {0}, most = 0, seen = 0;

	*co = (struct cross_cohort){.used = true, .role = role, .part = part, .count = count};
	co->members = calloc(count, sizeof(*co->members));
	co->self_ns = calloc(cells, sizeof(*co->self_ns));
	co->blocks = calloc(cells, sizeof(*co->blocks));
	co->late_ns = calloc(cells, sizeof(*co->late_ns));
	co->cover = calloc(cells, sizeof(*co->cover));
	co->late_n = calloc(cells, sizeof(*co->late_n));
	for (int m = 0; m < PEERS_MEASURES; m++)
		co->values[m] = calloc(count, sizeof(double));
	co->row = calloc(3 * (size_t)count, sizeof(*co->row));
	if (!co->members || !co->row || !co->self_ns || !co->blocks || !co->late_ns || !co->cover ||
	    !co->late_n || !co->values[0] || !co->values[1])
		goto fail;
	for (uint32_t i = 0; i < count; i++) {
		const struct cross_slot *s = &c->slots[slots[i]];

		co->members[i] = (struct cross_member){.slot = slots[i]};
		co->values[0][i] = s->latency_ns;
		sizes[s->steps ? __builtin_ctz(s->steps) : 0]++;
	}
	while (most < 31 && 2 * (seen + sizes[most]) < count)
		seen += sizes[most++];
	co->steps = steps_of(co, 1u << most, median_of(co->values[0], count));
	if (!compare_anew(c, co))
		return 0;
fail:
	cross_rows_free(co);
	return -ENOMEM;
}

static bool same_members(const struct cross_cohort *co, uint32_t role, const uint32_t *slots,
			 uint32_t count)
{
	uint32_t at = 0;

	if (!co->used || co->role != role)
		return false;
	/* Gone members leave their columns empty. */
	for (uint32_t i = 0; i < co->count; i++) {
		if (co->members[i].slot == CROSS_NONE)
			continue;
		if (at == count || co->members[i].slot != slots[at])
			return false;
		at++;
	}
	return at == count;
}

struct wanted {
	uint32_t role, slot;
	int32_t rank;
};

static int by_role_and_rank(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return ORDER(x->role, y->role) ?: ORDER(x->rank, y->rank) ?: ORDER(x->slot, y->slot);
}

/* One cohort of these, kept as it was where nothing changed. */
static void group_up(struct cross *c, struct cross_cohort *to, struct cross_cohort *old,
		     uint32_t old_count, uint32_t part, const struct wanted *w, uint32_t count,
		     uint32_t *slots, uint64_t now_ns)
{
	for (uint32_t i = 0; i < count; i++)
		slots[i] = w[i].slot;
	for (uint32_t i = 0; i < old_count; i++)
		if (same_members(&old[i], w->role, slots, count)) {
			*to = old[i];
			old[i].used = false;
			return;
		}
	if (cohort_fill(c, to, w->role, part, slots, count))
		return;
	for (uint32_t i = 0; i < count; i++)
		cross_findings_orphan(c, slots[i], now_ns);
}

static void assign(struct cross *c)
{
	for (uint32_t i = 0; i < c->slot_room; i++)
		c->slots[i].cohort = c->slots[i].member = CROSS_NONE;
	for (uint32_t k = 0; k < c->cohort_count; k++)
		for (uint32_t m = 0; m < c->cohorts[k].count; m++) {
			uint32_t slot = c->cohorts[k].members[m].slot;

			if (slot == CROSS_NONE)
				continue;
			c->slots[slot].cohort = k;
			c->slots[slot].member = m;
		}
}

void cross_rows_regroup(struct cross *c, uint64_t now_ns)
{
	struct wanted *w = malloc((c->slot_count + 1) * sizeof(*w));
	uint32_t *slots = malloc(PEERS_MEMBERS_MAX * sizeof(*slots)), n = 0, made = 0, at = 0;
	uint32_t room = c->role_count + c->slot_count / PEERS_MEMBERS_MAX + 1;
	struct cross_cohort *list = calloc(room, sizeof(*list));

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
		/* Even parts, so that no rank is left without peers. */
		for (; part < parts; part++) {
			uint32_t share = (end - at) / (parts - part);

			if (share > 1 && made < room)
				group_up(c, &list[made++], c->cohorts, c->cohort_count, part,
					 &w[at], share, slots, now_ns);
			at += share;
		}
		at = end;
	}
	for (uint32_t i = 0; i < c->cohort_count; i++)
		if (c->cohorts[i].used)
			cross_rows_free(&c->cohorts[i]);
	free(c->cohorts);
	c->cohorts = list;
	c->cohort_count = made;
	assign(c);
out:
	free(w);
	free(slots);
}

/* ---- filling ---- */

size_t cross_rows_cell(const struct cross_cohort *co, uint64_t row, uint32_t member)
{
	return (size_t)(row % ROWS) * co->count + member;
}

static struct cross_row *row_at(struct cross_cohort *co, uint64_t index, uint64_t now_ns)
{
	struct cross_row *r = &co->rows[index % ROWS];
	size_t at = cross_rows_cell(co, index, 0);

	if (r->live && r->index == index)
		return r;
	*r = (struct cross_row){.index = index, .born_ns = now_ns, .live = true};
	memset(co->cover + at, 0, co->count * sizeof(*co->cover));
	memset(co->late_n + at, 0, co->count * sizeof(*co->late_n));
	memset(co->late_ns + at, 0, co->count * sizeof(*co->late_ns));
	return r;
}

static void restart(struct cross_cohort *co)
{
	co->started = false;
	cross_skew_reset(co);
	for (uint32_t i = 0; i < ROWS; i++)
		co->rows[i].live = false;
	for (uint32_t i = 0; i < co->count; i++) {
		co->members[i].astray = false;
		co->members[i].passed = 0;
	}
}

static float mean(float before, uint32_t covered, double value, uint32_t more)
{
	return covered ? (float)(((double)before * covered + value * more) / (covered + more))
		       : (float)value;
}

static void put(struct cross *c, struct cross_cohort *co, uint32_t member, uint64_t index,
		const struct beat_group *g, int64_t end_unix_ns, uint64_t now_ns)
{
	struct cross_row *r;
	uint32_t covered, more = g->count < co->steps ? g->count : co->steps;
	size_t at;

	co->members[member].astray = index < co->next || index - co->next >= ROWS;
	if (index < co->next) {
		c->stats.stale++;
		return;
	}
	if (index - co->next >= ROWS) {
		c->stats.ahead++;
		return;
	}
	r = row_at(co, index, now_ns);
	if (end_unix_ns > r->end_unix_ns)
		r->end_unix_ns = end_unix_ns;
	if (!(g->latency_ns > 0)) /* nothing of it was judged */
		return;
	at = cross_rows_cell(co, index, member);
	covered = co->cover[at];
	if (covered + more > UINT16_MAX)
		return;
	co->self_ns[at] = mean(co->self_ns[at], covered, g->self_ns, more);
	co->blocks[at] = mean(co->blocks[at], covered, g->blocks, more);
	co->cover[at] = (uint16_t)(covered + more);
}

void cross_rows_put(struct cross *c, struct cross_slot *s, const struct beat_group *g,
		    int64_t end_unix_ns, uint64_t now_ns)
{
	struct cross_cohort *co = &c->cohorts[s->cohort];
	struct cross_member *m = &co->members[s->member];
	int64_t step = (int64_t)g->first_step + s->offset;
	uint64_t first, passed;

	if (step < 0) {
		c->stats.stale++;
		return;
	}
	m->steps = g->count;
	m->clock_ns = end_unix_ns - (int64_t)now_ns;
	/* a group is told no later than this after its end where clocks agree */
	if (co->clock_ns &&
	    fabs((double)m->clock_ns - (double)co->clock_ns) > 2 * (double)thresholds.time.gone_ns)
		end_unix_ns = 0; /* the others say when it was */
	if (g->latency_ns > 0)
		m->latency_ns = (float)g->latency_ns;
	/* A numbering that is off by part of a row: where most of the group lies. */
	first = ((uint64_t)step + (g->count <= co->steps ? g->count / 2 : 0)) / co->steps;
	if (!co->started) {
		co->started = true;
		co->next = first;
	}
	for (uint64_t k = 0; k == 0 || (k < ROWS && k < g->count / co->steps); k++)
		put(c, co, s->member, first + k, g, end_unix_ns, now_ns);
	passed =
	    ((uint64_t)step + g->count + (g->count <= co->steps ? g->count / 2 : 0)) / co->steps;
	m->passed = passed;
}

void cross_rows_late(struct cross *c, const struct cross_slot *s, int64_t step, double late_ns)
{
	struct cross_cohort *co = s->cohort == CROSS_NONE ? NULL : &c->cohorts[s->cohort];
	uint64_t index;
	size_t at;

	if (!co || !co->started || step < 0)
		return;
	index = (uint64_t)step / co->steps;
	if (index < co->next || index - co->next >= ROWS || !co->rows[index % ROWS].live ||
	    co->rows[index % ROWS].index != index)
		return;
	at = cross_rows_cell(co, index, s->member);
	if (co->late_n[at] == UINT8_MAX)
		return;
	co->late_ns[at] += (float)late_ns;
	co->late_n[at]++;
}

/* ---- handing on ---- */

uint64_t cross_rows_limit(const struct cross *c, const struct cross_cohort *co, uint64_t now_ns)
{
	uint64_t limit = UINT64_MAX;
	bool any = false;

	if (!co->used || !co->started)
		return 0;
	for (uint32_t i = 0; i < co->count; i++) {
		const struct cross_member *m = &co->members[i];

		if (m->slot == CROSS_NONE || !cross_alive(&c->slots[m->slot], now_ns) ||
		    !c->slots[m->slot].placed)
			continue;
		any = true;
		limit = m->passed < limit ? m->passed : limit;
	}
	if (!any)
		limit = 0;
	for (uint64_t k = 0; k < ROWS; k++) {
		const struct cross_row *r = &co->rows[(co->next + k) % ROWS];

		if (r->live && r->index == co->next + k &&
		    now_ns - r->born_ns >= CROSS_ROW_WAIT_NS && r->index + 1 > limit)
			limit = r->index + 1;
	}
	return limit;
}

static void hand_on(struct cross *c, struct cross_cohort *co, const struct cross_row *r,
		    uint64_t now_ns)
{
	double *self = co->values[PEERS_SELF], *late = co->values[PEERS_LATE];
	uint32_t known = 0;
	struct peers_flag f;

	if (!co->peers)
		return;
	for (uint32_t i = 0; i < co->count; i++) {
		size_t at = cross_rows_cell(co, r->index, i);
		bool have = co->cover[at] && 2u * co->cover[at] >= co->steps &&
			    co->members[i].slot != CROSS_NONE;

		self[i] = have ? (double)co->self_ns[at] : NAN;
		late[i] = have && co->late_n[at] ? (double)co->late_ns[at] / co->late_n[at] : NAN;
		known += have;
	}
	co->lone_ns = known > 1 ? 0 : co->lone_ns ? co->lone_ns : now_ns;
	if (known < 2)
		return;
	c->stats.rows++;
	co->times[co->time_count % CROSS_TIMES].step = r->index * co->steps;
	co->times[co->time_count++ % CROSS_TIMES].end_unix_ns =
	    r->end_unix_ns ? r->end_unix_ns : (int64_t)now_ns + co->clock_ns;
	peers_push(co->peers, r->index * co->steps, self, late, co->step_ns, co->steps);
	while (peers_next(co->peers, &f))
		if (f.member < co->count && co->members[f.member].slot != CROSS_NONE)
			cross_findings_flag(c, co, &f, now_ns);
	cross_skew_push(co, r->index);
}

/* The comparison begins anew; whom the one before had flagged is let off unless this one does, too. */
static void forget(struct cross *c, struct cross_cohort *co, uint64_t now_ns)
{
	restart(co);
	compare_anew(c, co);
	co->lone_ns = 0;
	for (uint32_t i = 0; i < co->count; i++)
		if (co->members[i].slot != CROSS_NONE)
			cross_findings_orphan(c, co->members[i].slot, now_ns);
}

/* What most living members send, and what is typical of them now. */
static void look_around(struct cross *c, struct cross_cohort *co, uint64_t now_ns)
{
	uint32_t sizes[32] = {0}, alive = 0, astray = 0, n = 0, seen = 0, most, steps;

	for (uint32_t i = 0; i < co->count; i++) {
		const struct cross_member *m = &co->members[i];

		if (m->slot == CROSS_NONE || !cross_alive(&c->slots[m->slot], now_ns) || !m->steps)
			continue;
		alive++;
		astray += m->astray;
		sizes[__builtin_ctz(m->steps)]++;
		if (m->latency_ns > 0)
			co->values[0][n++] = (double)m->latency_ns;
		co->values[1][alive - 1] = (double)m->clock_ns;
	}
	if (!alive)
		return;
	/* one of them, not the mean of two */
	co->clock_ns = (int64_t)median_nth(co->values[1], alive, (alive - 1) / 2);
	co->step_ns = median_of(co->values[0], n);
	if (2 * astray > alive)
		restart(co);
	for (most = 0; most < 31 && 2 * (seen + sizes[most]) < alive; most++)
		seen += sizes[most];
	steps = steps_of(co, 1u << most, co->step_ns);
	/* A pace that hovers between two sizes stays with the one it has. */
	if (steps == co->steps ||
	    (co->steps >= 1u << most && (2 * steps == co->steps || steps == 2 * co->steps))) {
		co->steps_votes = 0;
		return;
	}
	co->steps_votes = co->steps_next == steps ? co->steps_votes + 1 : 1;
	co->steps_next = steps;
	if (co->steps_votes < 6) /* a beat's period, so that everybody has spoken */
		return;
	co->steps = steps;
	co->steps_votes = 0;
	forget(c, co, now_ns);
}

void cross_uneven(struct cross *c, uint64_t now_ns)
{
	if (c->config.changes_only)
		return;
	c->config.changes_only = true;
	for (uint32_t k = 0; k < c->cohort_count; k++) {
		struct cross_cohort *co = &c->cohorts[k];

		if (co->used && co->peers)
			forget(c, co, now_ns);
	}
}

static void cohort_tick(struct cross *c, struct cross_cohort *co, uint64_t now_ns)
{
	uint64_t limit = cross_rows_limit(c, co, now_ns);
	bool handed = false;

	for (uint32_t k = 0; k < ROWS && co->next < limit; k++) {
		struct cross_row *r = &co->rows[co->next % ROWS];

		if (r->live && r->index == co->next) {
			hand_on(c, co, r, now_ns);
			r->live = false;
			handed = true;
		}
		co->next++;
	}
	if (co->next < limit) /* nobody has anything for the rows between */
		co->next = limit;
	if (handed && co->peers)
		cross_skew_tick(c, co, now_ns);
	if (handed)
		co->self_typical_ns = fmax(
		    0, median_known(co->values[PEERS_SELF], co->count, co->values[PEERS_SELF]));
	/* who is left alone is held against nobody: no flag's end would ever come */
	if (co->lone_ns && now_ns - co->lone_ns >= thresholds.time.gone_ns)
		forget(c, co, now_ns);
	look_around(c, co, now_ns);
}

void cross_rows_tick(struct cross *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < c->cohort_count; i++)
		if (c->cohorts[i].used)
			cohort_tick(c, &c->cohorts[i], now_ns);
}
