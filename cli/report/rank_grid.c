/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/rank_grid.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/order.h"
#include "cli/diff/incident_diff.h"
#include "model/thresholds.h"

/* The column of time t; -1: outside the culprit's steps. */
static ptrdiff_t column_at(const struct rank_grid *g, uint64_t t)
{
	ptrdiff_t step = trace_model_step_at(g->rank[g->culprit], t);

	return step < 0 ? -1 : step / (ptrdiff_t)g->per_column;
}

static void choose_ranks(struct rank_grid *g, const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *culprit = incident_diff_culprit(in, m);

	g->blamed = culprit != NULL;
	for (size_t i = 0; !culprit && i < m->rank_count; i++)
		culprit = m->ranks[i].step_count ? &m->ranks[i] : NULL;
	for (size_t i = 0; culprit && culprit->step_count && i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		if (!r->step_count || strcmp(r->who.job, culprit->who.job))
			continue;
		/* keep room for the culprit */
		if (g->rank_count == RANK_GRID_RANKS_MAX ||
		    (g->rank_count == RANK_GRID_RANKS_MAX - 1 && r < culprit)) {
			g->left_out++;
			continue;
		}
		if (r == culprit)
			g->culprit = g->rank_count;
		g->rank[g->rank_count++] = r;
	}
}

static void add_steps(struct rank_grid *g, uint32_t rank)
{
	const struct trace_rank *r = g->rank[rank];
	uint32_t n[RANK_GRID_COLUMNS_MAX] = {0};
	double expected[RANK_GRID_COLUMNS_MAX] = {0};

	for (size_t i = 0; i < r->step_count; i++) {
		const struct window_step *s = &r->steps[i];
		ptrdiff_t c =
		    column_at(g, s->step.begin_ns + (s->step.end_ns - s->step.begin_ns) / 2);
		struct rank_grid_cell *cell;

		if (c < 0)
			continue;
		cell = &g->cell[rank * g->columns + c];
		cell->self_ns =
		    n[c] ? cell->self_ns + (double)s->step.self_ns : (double)s->step.self_ns;
		expected[c] += s->expected_self_ns > 0 ? s->expected_self_ns : NAN;
		n[c]++;
	}
	for (uint32_t c = 0; c < g->columns; c++) {
		struct rank_grid_cell *cell = &g->cell[rank * g->columns + c];

		if (!n[c])
			continue;
		cell->self_ns /= n[c];
		expected[c] /= n[c];
		cell->excess = cell->self_ns / expected[c] - 1;
	}
}

/* Compares with the peers, if there are enough. */
static void compare(struct rank_grid *g)
{
	const char *role = g->rank[g->culprit]->who.role;

	for (uint32_t c = 0; c < g->columns; c++) {
		double v[RANK_GRID_RANKS_MAX], median;
		uint32_t n = 0;

		for (uint32_t r = 0; r < g->rank_count; r++) {
			double self = rank_grid_at(g, r, c)->self_ns;

			if (!strcmp(g->rank[r]->who.role, role) && self > 0)
				v[n++] = self;
		}
		if (n < 3)
			continue;
		g->by_peers = true;
		median = median_of(v, n);
		for (uint32_t r = 0; r < g->rank_count; r++)
			if (!strcmp(g->rank[r]->who.role, role))
				g->cell[r * g->columns + c].excess =
				    rank_grid_at(g, r, c)->self_ns / median - 1;
	}
}

/* ---- lateness ---- */

struct entry {
	uint64_t key, enter_ns;
	uint32_t seq, rank;
	uint8_t func;
};

ORDER_BY(by_collective, struct entry,
	 ORDER_UP(key) ?: ORDER_UP(func) ?: ORDER_UP(seq) ?: ORDER_UP(enter_ns));

static bool is_collective(const struct record *r, unsigned kind)
{
	return r->kind == kind && r->key && r->func >= RECORD_COLL_ALL_REDUCE &&
	       r->func <= RECORD_COLL_BCAST && r->func != RECORD_COLL_SEND &&
	       r->func != RECORD_COLL_RECV;
}

static size_t collect(const struct trace_rank *r, uint32_t rank, struct entry *out)
{
	size_t n = 0;

	for (size_t i = 0; i < r->device_count; i++)
		if (is_collective(&r->device[i], RECORD_COLL_KERNEL))
			out[n++] = (struct entry){r->device[i].key, r->device[i].begin_ns,
						  r->device[i].seq, rank, r->device[i].func};
	for (size_t i = 0; !n && i < r->host_count; i++)
		if (is_collective(&r->host[i], RECORD_COLL))
			out[n++] = (struct entry){r->host[i].key, r->host[i].begin_ns,
						  r->host[i].seq, rank, r->host[i].func};
	return n;
}

/* Entries of one collective, in order of time. */
static void add_collective(struct rank_grid *g, const struct entry *e, size_t n)
{
	uint64_t median = e[(n - 1) / 2].enter_ns;

	for (size_t i = 0; i < n; i++) {
		double late = e[i].enter_ns >= median ? (double)(e[i].enter_ns - median)
						      : -(double)(median - e[i].enter_ns);
		/* all ranks count in the column of the first entry */
		ptrdiff_t c = column_at(g, e[0].enter_ns);
		struct rank_grid_cell *cell;

		if (c < 0)
			continue;
		cell = &g->cell[e[i].rank * g->columns + c];
		if (isnan(cell->late_ns) || fabs(late) > fabs(cell->late_ns))
			cell->late_ns = late;
	}
}

static int add_lateness(struct rank_grid *g)
{
	size_t room = 1, n = 0;
	struct entry *e;

	for (uint32_t r = 0; r < g->rank_count; r++)
		room += g->rank[r]->device_count + g->rank[r]->host_count;
	e = calloc(room, sizeof(*e));
	if (!e)
		return -ENOMEM;
	for (uint32_t r = 0; r < g->rank_count; r++)
		n += collect(g->rank[r], r, e + n);
	qsort(e, n, sizeof(*e), by_collective);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && e[k].key == e[i].key && e[k].func == e[i].func &&
				e[k].seq == e[i].seq;)
			k++;
		/* two entries have a median only if the job has two ranks */
		if (k - i > 1 && (k - i > 2 || g->rank_count == 2))
			add_collective(g, e + i, k - i);
	}
	free(e);
	return 0;
}

int rank_grid_make(struct rank_grid *g, const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *r;
	int err;

	memset(g, 0, sizeof(*g));
	choose_ranks(g, in, m);
	if (!g->rank_count || !g->rank[g->culprit]->step_count)
		return -ENODATA;
	r = g->rank[g->culprit];
	g->per_column = (uint32_t)((r->step_count - 1) / RANK_GRID_COLUMNS_MAX + 1);
	g->columns = (uint32_t)((r->step_count - 1) / g->per_column + 1);
	g->cell = calloc((size_t)g->rank_count * g->columns, sizeof(*g->cell));
	if (!g->cell)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->rank_count * g->columns; i++)
		g->cell[i] = (struct rank_grid_cell){NAN, NAN, NAN};
	for (size_t i = 0; i < r->step_count; i++) {
		if (i % g->per_column == 0)
			g->first_step[i / g->per_column] = r->steps[i].step.index;
		g->flagged[i / g->per_column] |= trace_step_is_flagged(&r->steps[i]);
	}
	for (uint32_t i = 0; i < g->rank_count; i++)
		add_steps(g, i);
	compare(g);
	err = add_lateness(g);
	if (err)
		rank_grid_free(g);
	return err;
}

void rank_grid_free(struct rank_grid *g)
{
	free(g->cell);
	memset(g, 0, sizeof(*g));
}

bool rank_grid_has_lateness(const struct rank_grid *g)
{
	uint32_t self = 0, late = 0;

	for (uint32_t i = 0; i < g->rank_count * g->columns; i++) {
		self += isfinite(g->cell[i].self_ns);
		late += isfinite(g->cell[i].late_ns);
	}
	return late && late >= thresholds.part.half * self;
}

/* The median over the columns that are flagged, or not, of one rank's self time, excess or lateness. */
static struct rank_grid_cell median_cell(const struct rank_grid *g, uint32_t rank, bool flagged)
{
	double self[RANK_GRID_COLUMNS_MAX] = {0}, excess[RANK_GRID_COLUMNS_MAX] = {0},
	       late[RANK_GRID_COLUMNS_MAX] = {0};
	uint32_t n = 0, has_self = 0, has_late = 0;

	for (uint32_t c = 0; c < g->columns; c++) {
		const struct rank_grid_cell *cell = rank_grid_at(g, rank, c);

		if (g->flagged[c] != flagged)
			continue;
		has_self += isfinite(cell->self_ns);
		has_late += isfinite(cell->late_ns);
		self[n] = cell->self_ns;
		excess[n] = cell->excess;
		late[n++] = cell->late_ns;
	}
	return (struct rank_grid_cell){
	    median_known(self, n, self), median_known(excess, n, excess),
	    has_late >= thresholds.part.half * has_self ? median_known(late, n, late) : NAN};
}

struct rank_grid_cell rank_grid_typical(const struct rank_grid *g, uint32_t rank, bool flagged)
{
	struct rank_grid_cell cell = median_cell(g, rank, flagged);
	double peers[RANK_GRID_RANKS_MAX];
	uint32_t n = 0;

	/* The excess of the median self times: the median of the columns' excess may be from another
	 * column than the median self time. */
	for (uint32_t r = 0; g->by_peers && r < g->rank_count; r++)
		if (!strcmp(g->rank[r]->who.role, g->rank[rank]->who.role))
			peers[n++] = median_cell(g, r, flagged).self_ns;
	if (g->by_peers)
		cell.excess = cell.self_ns / median_known(peers, n, peers) - 1;
	return cell;
}
