/* SPDX-License-Identifier: Apache-2.0
 * replay_ranks.h - what only several ranks' traces tell: who entered a collective last, how far the
 * ranks' clocks stand apart, and what was wrong (analysis/trace/align, jobsteps, crossrank).
 * Owns: everything behind struct replay_ranks; 40 bytes per collective, and the steps. Threads: one
 * caller. */
#ifndef SYSOM_CLI_REPLAY_REPLAY_RANKS_H
#define SYSOM_CLI_REPLAY_REPLAY_RANKS_H

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
	uint32_t *kernel_at; /* [count + 1]: where each one's kernels begin; NULL: no steps */
	uint32_t count, kernel_count;
	size_t room, kernel_room, at_room;
};
/* Takes the steps where it succeeds, and copies the rank's collectives. 0, -ENOMEM, -EBADMSG (a rank
 * twice, after a message). */
int replay_ranks_add(struct replay_ranks *r, const struct replay_trace *t, struct replay_steps *s);
/* Collective, clock and finding lines. before: the same ranks in an earlier run, NULL none. findings:
 * their number; NULL: none are looked for. 0, -ENOMEM. */
int replay_ranks_print(struct replay_ranks *r, struct replay_ranks *before, enum peers_mode mode,
		       bool json, uint64_t *findings);
/* Their collectives and clocks, by rank number, once printed; `order`: the index of the device record. */
const struct align_job *replay_ranks_align(const struct replay_ranks *r);

#endif
