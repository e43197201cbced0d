/* SPDX-License-Identifier: Apache-2.0
 * rank_grid.h - self time and lateness by rank and step, for heat maps and the bars of `sysom show`.
 *
 * A column is one step of the culprit, or several, so that there are at most RANK_GRID_COLUMNS_MAX columns.
 * Ranks may number steps differently, so a step of another rank goes to the column in whose time its middle
 * lies. Times must be on one clock (trace_align_apply). In each column, self time is compared with the
 * median of the ranks of the culprit's role. For fewer than three such ranks, and for other roles, it is
 * compared with the rank's expected self time. Lateness is measured from the median rank's entry into a
 * collective (with an even number of ranks, the lower median). It comes from kernels, or from calls if a
 * rank's kernels were not seen. A cell has the largest lateness of its collectives, by amount (negative:
 * earlier than the median rank).
 * Owns: its cells; the model is borrowed. Threads: one caller. */
#pragma once

#include <jansson.h>

#include "cli/trace/trace_model.h"

#define RANK_GRID_COLUMNS_MAX 200u
#define RANK_GRID_RANKS_MAX   64u

struct rank_grid_cell {
	double self_ns, excess; /* mean self time; its excess, 0.1: 10% */
	double late_ns;		/* NAN in any field: not known */
};

struct rank_grid {
	const struct trace_rank *rank[RANK_GRID_RANKS_MAX]; /* by rank number */
	uint32_t rank_count, left_out;			    /* left_out: ranks without room */
	uint32_t columns, per_column;			    /* per_column: steps in each */
	uint64_t first_step[RANK_GRID_COLUMNS_MAX]; /* the culprit's number of the first step */
	bool flagged[RANK_GRID_COLUMNS_MAX];	    /* a step of the culprit in it is */
	struct rank_grid_cell *cell;		    /* [rank][column] */
	uint32_t culprit;			    /* index in rank */
	bool blamed;   /* else nobody is, and `culprit` is the first rank that has steps */
	bool by_peers; /* excess: above the peers; else above the expected self time */
};

/* 0, -ENOMEM, -ENODATA (no steps). */
int rank_grid_make(struct rank_grid *g, const json_t *incident, const struct trace_model *m);
void rank_grid_free(struct rank_grid *g);
static inline const struct rank_grid_cell *rank_grid_at(const struct rank_grid *g, uint32_t rank,
							uint32_t column)
{
	return &g->cell[rank * g->columns + column];
}
/* Whether lateness is known in at least half as many cells as self time. It may not be, because a window
 * may have no collectives. */
bool rank_grid_has_lateness(const struct rank_grid *g);
/* A rank's medians over the flagged columns, or over the others; NAN: not known. With by_peers, the excess
 * compares the rank's median self time with the median of its role's median self times. Lateness must be
 * known in half of the columns with a self time: one collective says nothing about the others. */
struct rank_grid_cell rank_grid_typical(const struct rank_grid *g, uint32_t rank, bool flagged);
