/* SPDX-License-Identifier: Apache-2.0
 * local_peers.h - slow ranks among those of one job and role on this node, at once and without the
 * cluster (analysis/slow/peers.h does the judging). One clock makes it simple: steps of synchronous
 * ranks end within half a step of each other, and are matched by that.
 * Compared are only steps of like work (launches and work vector within 2%): differing batches are no
 * fault. Values are medians of 2^n steps, so that at most 25 rows a second are judged.
 * Owns: its memory.  Threads: one caller.  Pure but for that: time comes with the steps. */
#ifndef SYSOM_ANALYSIS_SLOW_LOCAL_PEERS_H
#define SYSOM_ANALYSIS_SLOW_LOCAL_PEERS_H

#include "analysis/slow/peers.h"
#include "analysis/steps/steps.h"

struct local_peers_flag {
	uint32_t slot;
	bool ended;
	uint64_t begin_ns, end_ns; /* of the stretch that shows it, by the members' step ends */
	double excess, excess_ns;  /* of a step's own time, above the peers' */
};

struct local_peers_stats {
	uint64_t rounds, missing; /* missing: steps that found no partner */
	uint64_t unlike;	  /* rounds of a member whose work differed */
	uint64_t flags, flags_lost;
	uint64_t skewed; /* flags that uneven work explains: told to nobody */
	uint32_t groups;
};

struct local_peers; /* opaque */
/* mode: PEERS_SYSOM is the paper's rule, over 100 steps and with none of what is said above of work.
 * 0 or -ENOMEM. */
int local_peers_open(struct local_peers **out, enum peers_mode mode);
void local_peers_close(struct local_peers *l);	/* NULL is a no-op */
/* A step of the rank in that slot (below LIMIT_NODE_PROCESSES), in order. Ranks of one key are peers. */
void local_peers_step(struct local_peers *l, uint32_t slot, uint64_t key, const struct step *s,
		      bool used);
/* The rank is gone, or begins anew. */
void local_peers_forget(struct local_peers *l, uint32_t slot);
/* What became known; false: nothing more. */
bool local_peers_next(struct local_peers *l, struct local_peers_flag *out);
void local_peers_stats_get(const struct local_peers *l, struct local_peers_stats *out);

#endif
