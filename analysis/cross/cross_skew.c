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

/* A row in the ring: own times in co->row, and behind them what there was to do; times that say nothing are
 * NAN. Of ranks that differ by
 * nature all are while one is slow: what the others do while they wait for it is no time of their own. */
static void look_at_row(struct cross_cohort *co, uint64_t index, uint32_t to)
{
	double *work = co->row + co->count;
	bool away = false;

	for (uint32_t i = 0; i < co->count; i++)
		away |= co->uneven && is_high(&co->members[i], index);
	for (uint32_t i = 0; i < co->count; i++) {
		size_t at = cross_rows_cell(co, index, i);
		bool have = !away && co->cover[at] && 2u * co->cover[at] >= co->steps &&
			    co->members[i].slot != CROSS_NONE && !is_high(&co->members[i], index);

		co->row[i] = have ? (double)co->self_ns[at] : NAN;
		work[i] = (double)co->blocks[at];
	}
	co->skew[to] = skew_of_step(co->row, NULL, co->count, work + co->count);
	co->input[to] = skew_of_step(co->row, work, co->count, work + co->count);
}

void cross_skew_reset(struct cross_cohort *co)
{
	co->skew_count = co->skew_folded = 0;
	for (uint32_t i = 0; i < co->count; i++) {
		co->members[i].heavy = false;
		co->members[i].high_from = co->members[i].high_end = 0;
	}
}

void cross_skew_push(struct cross_cohort *co, uint64_t index)
{
	uint32_t at = co->skew_count++ % ROWS;

	look_at_row(co, index, at);
	co->skew_row[at] = index;
}

/* A stretch of the member is left out of the rows that are still in the ring. */
static void leave_out(struct cross_cohort *co, struct cross_member *m, uint64_t from, uint64_t end)
{
	uint32_t n = co->skew_count < ROWS ? co->skew_count : ROWS;

	m->high_from = from;
	m->high_end = end;
	for (uint32_t k = 0; k < n; k++) {
		uint64_t row = co->skew_row[k];

		if (co->rows[row % LIMIT_CROSS_ROWS].index != row)
			continue;
		look_at_row(co, row, k);
	}
}

static struct skew latest(const struct cross_cohort *co, const struct skew_step *step)
{
	uint32_t times[PEERS_MEMBERS_MAX], n = co->skew_count < ROWS ? co->skew_count : ROWS;
	double loss[ROWS];

	return skew_of(step, n, times, co->count, loss);
}

bool cross_skew_takes(struct cross_cohort *co, const struct peers_flag *f)
{
	struct cross_member *m = &co->members[f->member];
	bool self = f->measure == PEERS_SELF;
	struct skew k;

	if (self)
		m->heavy = !f->ended;
	if (f->ended) {
		if (self && m->high_end == CROSS_ROW_NONE)
			leave_out(co, m, m->high_from, f->last_step / co->steps + 1);
		return false;
	}
	/* who has more to do also comes later; who only comes later has another trouble */
	if (!self && !m->heavy)
		return false;
	if (self)
		leave_out(co, m, f->first_step / co->steps, CROSS_ROW_NONE);
	k = latest(co, co->skew);
	if (!skew_explains(&k, f->excess))
		return false;
	if (self)
		leave_out(co, m, 0, 0);
	co->skew_folded++;
	return true;
}

static void follow(struct cross *c, struct cross_cohort *co, struct cross_imbalance *m,
		   const struct skew *k, uint64_t now_ns)
{
	uint32_t newest = (co->time_count - 1) % CROSS_TIMES;
	uint64_t first = co->skew_row[(co->skew_count > ROWS ? co->skew_count : 0) % ROWS];

	if (!m->open) {
		*m = (struct cross_imbalance){
		    .open = true, .role = co->role, .first_step = first * co->steps};
		m->begin_unix_ns = cross_findings_time(co, m->first_step);
		c->stats.imbalances++;
	}
	m->even_ns = 0;
	m->last_step = co->times[newest].step + co->steps - 1;
	m->end_unix_ns = co->times[newest].end_unix_ns;
	m->skew = *k;
	m->members = co->count;
	m->folded = co->skew_folded;
	m->effect_ns = k->loss * co->self_typical_ns;
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

void cross_skew_tick(struct cross *c, struct cross_cohort *co, uint64_t now_ns)
{
	struct cross_imbalance *m = &c->imbalances[co->role];
	struct skew k;

	if (co->skew_count >= thresholds.count.many && co->time_count) {
		k = latest(co, co->input);
		/* what is said of a role needs most of its members */
		if (k.steps >= thresholds.count.many &&
		    k.members >= thresholds.part.most * co->count && skew_is_uneven(&k)) {
			follow(c, co, m, &k, now_ns);
			return;
		}
	}
	/* one of a large role's parts is not the role */
	if (m->open && !co->part)
		not_seen(m, now_ns);
}

void cross_skew_orphans(struct cross *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < c->role_count; i++) {
		bool compared = false;

		for (uint32_t k = 0; k < c->cohort_count && c->imbalances[i].open; k++)
			compared |= c->cohorts[k].used && c->cohorts[k].role == i;
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
