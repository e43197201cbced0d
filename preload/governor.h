/* SPDX-License-Identifier: Apache-2.0
 * governor.h - how much of the device records may their cost allow? Looks at our own thread's share
 * of a core, window by window. Pure: time and CPU time are arguments.
 * Steps: everything; kernels inside graphs only for a part of the time, graph launches as one record
 * each for the rest; nothing for a while, twice as long each time that it happens again soon after.
 * Back up a step after a calm stretch. docs/decisions/0006-graph-records.md says why. */
#ifndef SYSOM_PRELOAD_GOVERNOR_H
#define SYSOM_PRELOAD_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#define GOVERNOR_WINDOW_NS 10000000000ull
/* Of one core. The job's launch threads pay tens of nanoseconds per event; this thread is the rest. */
#define GOVERNOR_SHARE 0.05
#define GOVERNOR_STRIKES 3 /* windows in a row above it */
/* in windows */
#define GOVERNOR_OFF_MIN 6
#define GOVERNOR_OFF_MAX 96
#define GOVERNOR_QUIET	 60
#define GOVERNOR_CALM	 6 /* bursts in a row within the budget: everything again */
/* The part of a window with a record per node; and what of the budget it may use. */
#define GOVERNOR_DUTY_MIN   0.05
#define GOVERNOR_DUTY_MAX   0.5
#define GOVERNOR_DUTY_SHARE 0.5
#define GOVERNOR_NODES_MOST 0.5 /* fewer of the records than this: leaving them out is no help */

enum governor_records { GOVERNOR_ALL, GOVERNOR_COARSE, GOVERNOR_NONE };

struct governor {
	uint64_t window_ns;			/* 0: GOVERNOR_WINDOW_NS */
	double budget;				/* 0: GOVERNOR_SHARE */
	uint64_t window_from_ns, window_cpu_ns; /* 0: no window yet */
	uint64_t window_records, window_nodes;
	uint64_t off_from_ns, off_for_ns;	/* off_from_ns 0: on */
	uint64_t on_since_ns;
	uint32_t strikes;
	bool graphs; /* the middle step */
	bool burst;  /* ... with a record per node just now */
	uint32_t calm;
	double duty;
	double share; /* of the last whole window, or burst */
};

struct governor_load {
	uint64_t now_ns, cpu_ns; /* of our thread */
	uint64_t records, nodes; /* so far; nodes: those of kernels and copies inside graphs */
	bool can_coarsen;  /* one record per graph launch can be had */
};

/* Call at every tick: what shall be recorded now. */
enum governor_records governor_step(struct governor *g, const struct governor_load *load);

#endif
