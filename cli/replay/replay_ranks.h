/* SPDX-License-Identifier: Apache-2.0
 * replay_ranks.h - the analysis of several ranks' traces together: who entered a collective last, the
 * offsets of the ranks' clocks, and findings (analysis/trace/align, jobsteps, crossrank).
 * Owns: everything behind struct replay_ranks; 40 bytes per collective, and the steps. Threads: one
 * caller. */
#pragma once

#include <stdbool.h>

#include "analysis/trace/crossrank.h"
#include "cli/replay/replay_load.h"

#define REPLAY_RANKS_MAX 4096

struct replay_ranks;
struct replay_ranks *replay_ranks_new(void); /* NULL: out of memory */
void replay_ranks_free(struct replay_ranks *r);
struct replay_steps { /* of one rank; malloc-ed */
	struct step *step;
	struct step_kernel *kernel;
	uint32_t *kernel_at; /* [count + 1]: index of each step's first kernel; NULL: no steps */
	uint32_t count, kernel_count;
	size_t room, kernel_room, at_room;
};
/* Copies the rank's collectives, and takes the steps if it succeeds. 0, -ENOMEM, -EBADMSG (the same rank
 * twice, after a message). */
int replay_ranks_add(struct replay_ranks *r, const struct replay_trace *t, struct replay_steps *s);
/* Prints lines about collectives, clocks and findings. before: the same ranks in an earlier run, or NULL.
 * findings: gets their number; NULL: does not look for any. 0, -ENOMEM. */
int replay_ranks_print(struct replay_ranks *r, struct replay_ranks *before, enum peers_mode mode,
		       bool json, uint64_t *findings);
/* The collectives and clocks by rank number, after printing; `order`: index of the device record. */
const struct align_job *replay_ranks_align(const struct replay_ranks *r);
