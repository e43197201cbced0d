/* SPDX-License-Identifier: Apache-2.0
 * governor.h - should device records be turned down for their cost? Looks at our own thread's share
 * of a core, window by window. Pure: time and CPU time are arguments.
 * Above the budget in GOVERNOR_STRIKES windows in a row: off for a while, twice as long each time
 * that it happens again soon after (the duty cycle), back to the shortest after a quiet stretch. */
#ifndef SYSOM_PRELOAD_GOVERNOR_H
#define SYSOM_PRELOAD_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#define GOVERNOR_WINDOW_NS  10000000000ull
#define GOVERNOR_STRIKES    3
#define GOVERNOR_OFF_MIN_NS 60000000000ull
#define GOVERNOR_OFF_MAX_NS 960000000000ull
#define GOVERNOR_QUIET_NS   600000000000ull
/* Of one core. The job's launch threads pay tens of nanoseconds per event; this thread is the rest. */
#define GOVERNOR_SHARE 0.05

struct governor {
	uint64_t window_from_ns, window_cpu_ns; /* 0: no window yet */
	uint64_t off_from_ns, off_for_ns;	/* off_from_ns 0: on */
	uint64_t on_since_ns;
	uint32_t strikes;
	double share; /* of the last whole window */
};

/* Call at every tick; true: records shall be off now. */
bool governor_step(struct governor *g, uint64_t now_ns, uint64_t cpu_ns);

#endif
