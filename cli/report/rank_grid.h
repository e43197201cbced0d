/* SPDX-License-Identifier: Apache-2.0
 * rank_grid.h - ranks against steps: how long each rank's own part of a step took against its peers, and
 * how late it entered collectives. What the heat maps and the bars of `sysom show` are drawn from.
 *
 * Columns are steps of one rank (the culprit), or as many at a time as keep them below
 * RANK_GRID_COLUMNS_MAX; another rank's step belongs to the column in which its middle lies, so ranks
 * that count from elsewhere meet. Times must be on one clock (trace_align_apply). Own time is compared with
 * the median of the column's ranks of the same role where there are three or more, else with what was
 * expected of the rank. Lateness is behind the median rank of a collective (the lower one of two), by
 * kernels, or by calls where a rank's kernels were not seen; per cell the latest collective counts.
 * Owns: its cells; the model is borrowed. Threads: one caller. */
#ifndef SYSOM_CLI_REPORT_RANK_GRID_H
#define SYSOM_CLI_REPORT_RANK_GRID_H

#include <jansson.h>

#include "cli/trace/trace_model.h"

#define RANK_GRID_COLUMNS_MAX 200u
#define RANK_GRID_RANKS_MAX   64u

struct rank_grid_cell {
	double self_ns, excess; /* mean own time; of it above the usual, 0.1: 10% */
	double late_ns;		/* NAN: not known, as for the others */
};

struct rank_grid {
	const struct trace_rank *rank[RANK_GRID_RANKS_MAX]; /* by rank number */
	uint32_t rank_count, left_out;			    /* ranks without room */
	uint32_t columns, per_column;			    /* steps in each */
	uint64_t first_step[RANK_GRID_COLUMNS_MAX]; /* of the column, by the culprit's count */
	bool flagged[RANK_GRID_COLUMNS_MAX];	    /* a step of the culprit's in it is */
	struct rank_grid_cell *cell;		    /* [rank][column] */
	uint32_t culprit;			    /* index in rank */
};

/* 0, -ENOMEM, -ENODATA (no steps). */
int rank_grid_make(struct rank_grid *g, const json_t *incident, const struct trace_model *m);
void rank_grid_free(struct rank_grid *g);
static inline const struct rank_grid_cell *rank_grid_at(const struct rank_grid *g, uint32_t rank,
							uint32_t column)
{
	return &g->cell[rank * g->columns + column];
}
/* Medians over the columns that are flagged (or are not) and known; NAN where none is. */
struct rank_grid_cell rank_grid_typical(const struct rank_grid *g, uint32_t rank, bool flagged);

#endif
