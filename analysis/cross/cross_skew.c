/* SPDX-License-Identifier: Apache-2.0
 * Roles whose work differs from step to step (analysis/slow/skew.h), live: of the latest rows, without
 * stretches in which a member was flagged, so that a slow rank makes no skew. Times that differ now for
 * this member and now for that one accuse nobody, whatever makes them differ. Where the member that takes
 * longer is the one that has more to do (thread blocks launched), the role is told of, while it lasts: a
 * busy CPU makes no uneven input. Rows are medians of a few steps: work that
 * changes from one step to the next within a row evens out in them, and accuses nobody either. */
#include <math.h>
#include <string.h>

#include "analysis/cross/cross_private.h"
#include "model/thresholds.h"

#define ROWS CROSS_SKEW_ROWS

static bool is_high(const struct cross_member *m, uint64_t row)
{
	return row >= m->high_from && row < m->high_end;
}

/* A row in the ring: own times in rp->row, and behind them what there was to do; times that say nothing are
 * NAN. Of ranks that differ by
 * nature all are while one is slow: what the others do while they wait for it is no time of their own. */
static void look_at_row(struct cross_role_part *rp, uint64_t index, uint32_t to)
{
	double *work = rp->row + rp->count;
	bool away = false;

	for (uint32_t i = 0; i < rp->count; i++)
		away |= rp->uneven && is_high(&rp->members[i], index);
	for (uint32_t i = 0; i < rp->count; i++) {
		size_t at = cross_rows_cell(rp, index, i);
		bool have = !away && rp->cover[at] && 2u * rp->cover[at] >= rp->steps &&
			    rp->members[i].slot != CROSS_NONE && !is_high(&rp->members[i], index);

		rp->row[i] = have ? (double)rp->self_ns[at] : NAN;
		work[i] = (double)rp->blocks[at];
	}
	rp->skew[to] = skew_of_step(rp->row, NULL, rp->count, work + rp->count);
	rp->input[to] = skew_of_step(rp->row, work, rp->count, work + rp->count);
}

void cross_skew_reset(struct cross_role_part *rp)
{
	rp->skew_count = rp->skew_folded = 0;
	for (uint32_t i = 0; i < rp->count; i++) {
		rp->members[i].heavy = false;
		rp->members[i].high_from = rp->members[i].high_end = 0;
	}
}

void cross_skew_push(struct cross_role_part *rp, uint64_t index)
{
	uint32_t at = rp->skew_count++ % ROWS;

	look_at_row(rp, index, at);
	rp->skew_row[at] = index;
}

/* A stretch of the member is left out of the rows that are still in the ring. */
static void leave_out(struct cross_role_part *rp, struct cross_member *m, uint64_t from,
		      uint64_t end)
{
	uint32_t n = rp->skew_count < ROWS ? rp->skew_count : ROWS;

	m->high_from = from;
	m->high_end = end;
	for (uint32_t k = 0; k < n; k++) {
		uint64_t row = rp->skew_row[k];

		if (rp->rows[row % LIMIT_CROSS_ROWS].index != row)
			continue;
		look_at_row(rp, row, k);
	}
}

static struct skew latest(const struct cross_role_part *rp, const struct skew_step *step)
{
	uint32_t times[PEERS_MEMBERS_MAX], n = rp->skew_count < ROWS ? rp->skew_count : ROWS;
	double loss[ROWS];

	return skew_of(step, n, times, rp->count, loss);
}

bool cross_skew_takes(struct cross_role_part *rp, const struct peers_flag *f)
{
	struct cross_member *m = &rp->members[f->member];
	bool self = f->measure == PEERS_SELF;
	struct skew k;

	if (self)
		m->heavy = !f->ended;
	if (f->ended) {
		if (self && m->high_end == CROSS_ROW_NONE)
			leave_out(rp, m, m->high_from, f->last_step / rp->steps + 1);
		return false;
	}
	/* who has more to do also comes later; who only comes later has another trouble */
	if (!self && !m->heavy)
		return false;
	if (self)
		leave_out(rp, m, f->first_step / rp->steps, CROSS_ROW_NONE);
	k = latest(rp, rp->skew);
	if (!skew_explains(&k, f->excess))
		return false;
	if (self)
		leave_out(rp, m, 0, 0);
	rp->skew_folded++;
	return true;
}

static void follow(struct cross *c, struct cross_role_part *rp, struct cross_imbalance *m,
		   const struct skew *k, uint64_t now_ns)
{
	uint32_t newest = (rp->time_count - 1) % CROSS_TIMES;
	uint64_t first = rp->skew_row[(rp->skew_count > ROWS ? rp->skew_count : 0) % ROWS];

	if (!m->open) {
		*m = (struct cross_imbalance){
		    .open = true, .role = rp->role, .first_step = first * rp->steps};
		m->begin_unix_ns = cross_findings_time(rp, m->first_step);
		c->stats.imbalances++;
	}
	m->even_ns = 0;
	m->last_step = rp->times[newest].step + rp->steps - 1;
	m->end_unix_ns = rp->times[newest].end_unix_ns;
	m->skew = *k;
	m->members = rp->count;
	m->folded = rp->skew_folded;
	m->effect_ns = k->loss * rp->self_typical_ns;
	if (!m->told_ns || now_ns - m->told_ns >= CROSS_REFRESH_NS) {
		m->told_ns = now_ns;
		m->changed = true;
	}
}

static void not_seen(struct cross_imbalance *m, uint64_t now_ns)
{
	if (!m->even_ns)
		m->even_ns = now_ns;
	if (now_ns - m->even_ns < thresholds.time.gone_ns)
		return;
	m->open = false;
	m->ended = m->changed = true;
}

void cross_skew_tick(struct cross *c, struct cross_role_part *rp, uint64_t now_ns)
{
	struct cross_imbalance *m = &c->imbalances[rp->role];
	struct skew k;

	if (rp->skew_count >= thresholds.count.many && rp->time_count) {
		k = latest(rp, rp->input);
		/* what is said of a role needs most of its members */
		if (k.steps >= thresholds.count.many &&
		    k.members >= thresholds.part.most * rp->count && skew_is_uneven(&k)) {
			follow(c, rp, m, &k, now_ns);
			return;
		}
	}
	/* one of a large role's parts is not the role */
	if (m->open && !rp->part)
		not_seen(m, now_ns);
}

void cross_skew_orphans(struct cross *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < c->role_count; i++) {
		bool compared = false;

		for (uint32_t k = 0; k < c->role_part_count && c->imbalances[i].open; k++)
			compared |= c->role_parts[k].used && c->role_parts[k].role == i;
		if (c->imbalances[i].open && !compared)
			not_seen(&c->imbalances[i], now_ns);
	}
}

static void fill(const struct cross *c, const struct cross_imbalance *m, struct finding_report *out)
{
	struct finding *f = &out->finding;

	cross_findings_frame(c, m->begin_unix_ns, m->end_unix_ns, m->ended, out);
	f->first_step = m->first_step;
	f->last_step = m->last_step > m->first_step ? m->last_step : m->first_step;
	for (uint32_t i = 0; i < c->slot_room && f->rank_count < FINDING_RANKS_MAX; i++)
		if (c->slots[i].used && c->slots[i].role == m->role)
			f->ranks[f->rank_count++] = c->slots[i].rank;
	skew_say(f, &m->skew, m->effect_ns, m->folded);
}

bool cross_skew_next(struct cross *c, struct finding_report *out)
{
	for (uint32_t i = 0; i < c->role_count; i++) {
		struct cross_imbalance *m = &c->imbalances[i];

		if (!m->changed)
			continue;
		m->changed = false;
		fill(c, m, out);
		return true;
	}
	return false;
}
