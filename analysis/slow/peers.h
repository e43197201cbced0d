/* SPDX-License-Identifier: Apache-2.0
 * peers.h - slow ranks among the peers of one role, from their steps' own times and entry lateness.
 *
 * Per step one value per member and measure; residuals against the median of the role's members. At
 * each of several window lengths the members are split into a lower and an upper group at the largest
 * gap; the upper group is slow when all of it lies above the lower group by more than noise and the
 * lower group's own spread allow, corrected for windows, looks and members, and most of the window
 * agrees. Noise is measured from the data at each length (peers_noise.c), so lag and heavy tails raise
 * the threshold. The same is done for changes against each member's own past. So one, several and
 * most slow members are one case; when most are, the role's own level must have risen, where a past is
 * known. Short windows have a floor (4% at 10 steps, 0.8% at 50); that of the longest is 0.1% of the
 * step (0.3 ms of 100 ms must be found). Two members: each one's own history decides who changed;
 * without one a difference of 10% and more is told as that of the slower. docs/stragglers.md.
 * Mode sysom: mean + k sigma over the members' averages of W steps (SysOM-AI 3.1; W = 100, k = 2), kept
 * for comparison.
 *
 * Pure; memory is the caller's; the same input gives the same output. Threads: one caller. */
#ifndef SYSOM_ANALYSIS_SLOW_PEERS_H
#define SYSOM_ANALYSIS_SLOW_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/finding.h"

#define PEERS_MEMBERS_MAX 1024u
#define PEERS_WINDOWS	  7u
#define PEERS_WINDOW_MOST 1100u /* pushes kept per member: 20 bytes each, 28 with changes_only */

enum peers_mode { PEERS_ROBUST = 0, PEERS_SYSOM = 1 };
enum peers_measure {
	PEERS_SELF = 0, /* own time of the step, ns: what the rank alone decides */
	PEERS_LATE = 1, /* how much later than the role's typical member it enters collectives, ns */
	PEERS_MEASURES
};

struct peers_config {
	enum peers_mode mode;
	/* steps; ascending, 0 ends the list; default 3, 5, 10, 20, 50, 200, 1000 */
	uint32_t windows[PEERS_WINDOWS];
	double false_per_member_hour;	 /* what the thresholds are corrected to; default 1e-3 */
	double least[PEERS_MEASURES];	 /* excess, of a step, below which nothing is told; default 0 */
	double k;			 /* sysom mode */
	uint32_t w;
	uint32_t pushes; /* kept; 0: as many as the longest window has steps, and its past. Fewer do where a
			  * push stands for several steps; a window that does not fit is left out */
	/* members do different work: only a change against one's own past is told, and it is counted from
	 * the member's own usual value (the median of its first 8) */
	bool changes_only;
	/* what the own time of every member is without a fault: the caller measured it, and gives own
	 * times in terms of it; 0: not known. Only members above it are reported. */
	double usual_ns;
};
void peers_config_default(struct peers_config *c);

/* A stretch of steps in which a member was slow. Told when it is first sure (open), again when it ends. */
struct peers_flag {
	uint32_t member;
	enum peers_measure measure;
	uint32_t window;	/* steps of the window that was sure first */
	uint64_t first_step, last_step; /* where the excess begins; the latest step that shows it */
	uint64_t sure_step;	/* after which it was known */
	double excess;		/* median residual over the stretch, of the peers' median step */
	double excess_ns;
	double score;		/* median residual over its threshold: > 1 */
	bool ended;
};

struct peers; /* opaque */
size_t peers_memory_bytes(const struct peers_config *c, uint32_t members);
/* memory: 16-byte aligned. members: 2 to PEERS_MEMBERS_MAX. */
struct peers *peers_init(void *memory, const struct peers_config *c, uint32_t members);
/* One step, in order: members values per measure, NAN: not known. late may be NULL. step_ns: the
 * typical latency of the step, for floors and rates. weight: how many steps the values are medians of. */
void peers_push(struct peers *p, uint64_t step, const double *self_ns, const double *late_ns,
		double step_ns, uint32_t weight);
/* What the last push made known; false: nothing more. */
bool peers_next(struct peers *p, struct peers_flag *out);
/* Flags dropped because nobody called peers_next for four members' worth of them. */
uint64_t peers_lost(const struct peers *p);
/* The same rows will be pushed once more, to be judged by all that they taught: noise and pace stay,
 * the rows and who was slow in them are forgotten. */
void peers_again(struct peers *p);
/* The input ends: open flags are told once more, as ended. */
void peers_finish(struct peers *p);

#endif
