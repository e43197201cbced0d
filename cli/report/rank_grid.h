/* SPDX-License-Identifier: Apache-2.0
 * rank_grid.h - self time and lateness by rank and step, for heat maps and the bars of `sysom show`.
 *
 * A column is one step of the culprit, or several, so that at most RANK_GRID_COLUMNS_MAX remain. Another
 * rank's step belongs to the column of its middle, since ranks may number steps differently. Times must be
 * on one clock (trace_align_apply). Self time is compared with the median of the column's ranks of the same
 * role, or, with fewer than three of them, with the rank's expected self time. Lateness is that behind the
 * median rank of a collective (the lower one of two). It comes from kernels, or from calls if a rank's
 * kernels were not seen. A cell has its latest collective.
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
/* Whether lateness is known in half of the cells with a self time: most windows may have no collectives. */
bool rank_grid_has_lateness(const struct rank_grid *g);
/* Medians over the columns that are flagged (or not); NAN if none is known. With by_peers, the excess is
 * that of the median self time above the median of those of the rank's role. Lateness must be known in
 * half of the columns with a self time: one collective says nothing about the others. */
struct rank_grid_cell rank_grid_typical(const struct rank_grid *g, uint32_t rank, bool flagged);
