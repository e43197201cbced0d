/* SPDX-License-Identifier: Apache-2.0
 * peers.h - slow ranks among the peers of one role, by self time and by entry lateness.
 * docs/stragglers.md explains the method:
 *
 * - Each step gives one value per rank and measure. The residual of a self time is its ratio to the
 *   median of the role's ranks, minus 1 (of two ranks: the logarithm of their ratio). The residual
 *   of a lateness is its difference from that median, divided by the step time.
 * - At each of several window lengths the largest gap splits the ranks into a lower and an upper
 *   group. The upper group is slow if all of it lies far enough above the lower group: beyond the
 *   noise and the lower group's own spread. Most of the window must agree. The threshold is
 *   corrected for the number of windows, tests and ranks. So the same rule finds one slow
 *   rank, several, or most. If most are slow and the role's past is known, the role's own level
 *   must have risen too.
 * - The same test runs on each rank's change against its own past.
 * - The noise at each length is measured from the data (peers_noise.c), so autocorrelation and
 *   heavy tails raise the threshold. Short windows have a floor: 4% at 10 steps, 0.8% at 50, 0.1%
 *   at the longest (0.3 ms of 100 ms must be found).
 * - With two ranks, each rank's past decides which of the two changed. Without a past, the
 *   slower one is reported if they differ by 10% or more.
 *
 * Mode sysom is SysOM-AI 3.1, kept for comparison: mean + k sigma of the ranks' averages over W
 * steps (W = 100, k = 2).
 *
 * Pure; memory is the caller's; the same input gives the same output. Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/finding.h"

#define PEERS_MEMBERS_MAX 1024u
#define PEERS_WINDOWS	  7u
#define PEERS_WINDOW_MOST 1100u /* pushes stored per rank: 20 bytes each, 28 with changes_only */

enum peers_mode { PEERS_ROBUST = 0, PEERS_SYSOM = 1 };
enum peers_measure {
	PEERS_SELF = 0, /* self time of the step, ns */
	PEERS_LATE = 1, /* how much later it enters collectives than the role's typical rank, ns */
	PEERS_MEASURES
};

struct peers_config {
	enum peers_mode mode;
	/* steps; ascending, 0 ends the list; default 3, 5, 10, 20, 50, 200, 1000 */
	uint32_t windows[PEERS_WINDOWS];
	double false_per_member_hour; /* target of the threshold correction; default 1e-3 */
	double least[PEERS_MEASURES]; /* smallest excess reported, share of a step; default 0 */
	/* mode sysom: mean + k sigma of the averages over w steps */
	double k;
	uint32_t w;
	/* Pushes to store; 0: enough for the longest window and its past. A caller whose pushes
	 * stand for several steps needs fewer. Windows that do not fit are left out. */
	uint32_t pushes;
	/* The ranks do different work: report only changes against a rank's own past, measured
	 * from its usual value (the median of its first 8 values). */
	bool changes_only;
	/* The self time that every rank has without a fault, if the caller measured it and passes
	 * self times relative to it. Only ranks above it are reported. 0: not known. */
	double usual_ns;
};
void peers_config_default(struct peers_config *c);

/* A stretch of steps in which a rank was slow. Reported once it is significant, and again when it
 * ends. */
struct peers_flag {
	uint32_t member;
	enum peers_measure measure;
	uint32_t window; /* steps of the first window in which it was significant */
	/* first_step: where the excess begins; last_step: the latest step that shows it */
	uint64_t first_step, last_step;
	uint64_t sure_step; /* the step at which it became significant */
	double excess; /* median residual over the stretch, relative to the peers' median step */
	double excess_ns;
	double score; /* median residual over its threshold: > 1 */
	bool ended;
};

struct peers; /* opaque */
size_t peers_memory_bytes(const struct peers_config *c, uint32_t members);
/* memory: 16-byte aligned. members: 2 to PEERS_MEMBERS_MAX. */
struct peers *peers_init(void *memory, const struct peers_config *c, uint32_t members);
/* The next step, with one value per rank and measure; NAN: not known. late_ns may be NULL.
 * step_ns: the typical latency of the step, for floors and rates. weight: the number of steps that
 * the values are medians of. */
void peers_push(struct peers *p, uint64_t step, const double *self_ns, const double *late_ns,
		double step_ns, uint32_t weight);
/* The next flag that the last push raised or ended; false: none. The oldest flags that the caller
 * does not fetch are dropped. */
bool peers_next(struct peers *p, struct peers_flag *out);
/* Call before pushing the same rows a second time: they are then judged with the noise and the step
 * time that the first pass learned. Drops the rows and their flags. */
void peers_again(struct peers *p);
/* The input ends: open flags are reported once more, as ended. */
void peers_finish(struct peers *p);
