/* SPDX-License-Identifier: Apache-2.0
 * Live detection of roles with unequal work (analysis/slow/skew.h), on the latest rows. Stretches
 * in which a rank was flagged are excluded, so a slow rank causes no skew. If the slowest rank
 * changes from row to row, nobody is blamed, whatever the cause. While it lasts, an imbalance is
 * reported only if the ranks that take longer also have more work (thread blocks launched), because
 * a busy CPU delays varying ranks too. Rows are medians of a few steps: work that changes from step
 * to step within a row averages out, and blames nobody either. */
#include <math.h>

#include "analysis/cross/cross_private.h"
#include "model/thresholds.h"

#define ROWS CROSS_SKEW_ROWS

static bool is_high(const struct cross_member *m, uint64_t row)
{
	return row >= m->high_from && row < m->high_end;
}

/* Loads one stored row: self times into rp->row, the work after them; NAN: no value. In a job whose
 * ranks differ by nature, the whole row is excluded while one rank is flagged, because the others'
 * self times then include their waiting. */
static void load_row(struct cross_role_part *rp, uint64_t index, uint32_t to)
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

	load_row(rp, index, at);
	rp->skew_row[at] = index;
}

/* Excludes rows from..end of the rank, and computes the stored rows again. */
static void exclude(struct cross_role_part *rp, struct cross_member *m, uint64_t from, uint64_t end)
{
	uint32_t n = rp->skew_count < ROWS ? rp->skew_count : ROWS;

	m->high_from = from;
	m->high_end = end;
	for (uint32_t k = 0; k < n; k++) {
		uint64_t row = rp->skew_row[k];

		if (rp->rows[row % LIMIT_CROSS_ROWS].index != row)
			continue;
		load_row(rp, row, k);
	}
}

static struct skew latest(const struct cross_role_part *rp, const struct skew_step *step)
{
	uint32_t times[PEERS_MEMBERS_MAX], n = rp->skew_count < ROWS ? rp->skew_count : ROWS;
	double loss[ROWS];

	return skew_of(step, n, times, rp->count, loss);
}

bool cross_skew_explains(struct cross_role_part *rp, const struct peers_flag *f)
{
	struct cross_member *m = &rp->members[f->member];
	bool self = f->measure == PEERS_SELF;
	struct skew k;

	if (self)
		m->heavy = !f->ended;
	if (f->ended) {
		if (self && m->high_end == CROSS_ROW_NONE)
			exclude(rp, m, m->high_from, f->last_step / rp->steps + 1);
		return false;
	}
	/* More work makes a rank enter collectives later too. A rank that is only late has another
	 * fault. */
	if (!self && !m->heavy)
		return false;
	if (self)
		exclude(rp, m, f->first_step / rp->steps, CROSS_ROW_NONE);
	k = latest(rp, rp->skew);
	if (!skew_explains(&k, f->excess))
		return false;
	if (self)
		exclude(rp, m, 0, 0);
	rp->skew_folded++;
	return true;
}

static void update_imbalance(struct cross *c, struct cross_role_part *rp, struct cross_imbalance *m,
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
	m->folded = rp->skew_folded;
	m->effect_ns = k->loss * rp->self_typical_ns;
	if (!m->reported_ns || now_ns - m->reported_ns >= CROSS_REFRESH_NS) {
		m->reported_ns = now_ns;
		m->changed = true;
	}
}

static void note_even(struct cross_imbalance *m, uint64_t now_ns)
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
		/* a statement about a role needs most of its ranks */
		if (k.steps >= thresholds.count.many &&
		    k.members >= thresholds.part.most * rp->count && skew_is_uneven(&k)) {
			update_imbalance(c, rp, m, &k, now_ns);
			return;
		}
	}
	/* of a large role, only the first part decides that the imbalance is over */
	if (m->open && !rp->part)
		note_even(m, now_ns);
}

void cross_skew_orphans(struct cross *c, uint64_t now_ns)
{
	for (uint32_t i = 0; i < c->role_count; i++) {
		bool compared = false;

		for (uint32_t k = 0; k < c->role_part_count && c->imbalances[i].open; k++)
			compared |= c->role_parts[k].used && c->role_parts[k].role == i;
		if (c->imbalances[i].open && !compared)
			note_even(&c->imbalances[i], now_ns);
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
