/* SPDX-License-Identifier: Apache-2.0
 * replay_ranks.h - what only several ranks' traces tell: who entered a collective last, and how far
 * the ranks' clocks stand apart.
 *
 * The k-th kernel of an operation on every rank is taken for one instance (traces of the same
 * steps). Its ends agree within microseconds (all leave together), its starts don't: so ends give
 * the clocks, and starts, on the lowest rank's clock, the lateness. */
#ifndef SYSOM_CLI_REPLAY_RANKS_H
#define SYSOM_CLI_REPLAY_RANKS_H

#include <stdbool.h>

#include "cli/replay_load.h"

#define REPLAY_RANKS_MAX 4096

struct replay_ranks;
struct replay_ranks *replay_ranks_new(void); /* NULL: out of memory */
void replay_ranks_free(struct replay_ranks *r);
/* Copies the rank's communication kernels. 0, -ENOMEM, -EBADMSG (a rank twice, after a message). */
int replay_ranks_add(struct replay_ranks *r, const struct replay_trace *t);
/* Collective and clock lines. */
void replay_ranks_print(struct replay_ranks *r, bool json);

#endif
