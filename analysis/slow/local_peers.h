/* SPDX-License-Identifier: Apache-2.0
 * local_peers.h - find slow ranks among this node's ranks of one job and role, at once and without
 * the aggregator. All ranks share one clock. Steps of synchronous ranks are matched by their ends,
 * which lie within half a step of each other. Only steps of similar work are compared (launches and
 * work vector within 2%), because uneven batches are not a fault. Each value is the median of 2^n
 * steps, so that analysis/slow/peers judges at most 25 rows a second. Owns: its memory. Threads:
 * one caller. No clock: time comes with the steps. */
#pragma once

#include "analysis/slow/peers.h"
#include "analysis/steps/steps.h"

struct local_peers_flag {
	uint32_t slot;
	bool ended;
	uint64_t begin_ns, end_ns; /* the slow stretch, by the ends of the ranks' steps */
	double excess, excess_ns;  /* self time per step above the peers': relative, and in ns */
};

struct local_peers_stats {
	uint64_t rounds, missing; /* missing: steps without a matching step of a peer */
	uint64_t unlike;	  /* steps left out because the rank's work differed */
	uint64_t flags;
	uint64_t skewed; /* flags not reported, because uneven work explains them */
	uint32_t groups;
};

struct local_peers; /* opaque */
/* mode: PEERS_SYSOM is the paper's rule, over 100 steps, and ignores work. 0, -ENOMEM. */
int local_peers_open(struct local_peers **out, enum peers_mode mode);
void local_peers_close(struct local_peers *l); /* NULL is a no-op */
/* slot: the rank's, below LIMIT_NODE_PROCESSES; s: its next step. Ranks with the same key are
 * peers. used: the step's figures are valid for judging the rank. */
void local_peers_step(struct local_peers *l, uint32_t slot, uint64_t key, const struct step *s,
		      bool used);
/* The rank is gone or has restarted. */
void local_peers_forget(struct local_peers *l, uint32_t slot);
/* The next flag; false: none. */
bool local_peers_next(struct local_peers *l, struct local_peers_flag *out);
void local_peers_stats_get(const struct local_peers *l, struct local_peers_stats *out);
