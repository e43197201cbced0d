/* SPDX-License-Identifier: Apache-2.0
 * governor.h - limits the device records to what their cost allows. It watches our own thread's
 * share of a core, window by window. Pure: time and CPU time are arguments.
 * There are three levels:
 * - all: everything is recorded;
 * - coarse: each kernel inside a graph has a record only part of the time; otherwise each launch of
 *   a graph has one;
 * - none: nothing is recorded for a while. If this recurs soon, that time doubles. After a quiet
 * period the governor goes up one level. docs/decisions/0006-graph-records.md gives the reasons. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GOVERNOR_WINDOW_NS 10000000000ull
/* Budget, as a share of one core. The job's launch threads pay tens of nanoseconds per event; our
 * own thread does the rest. */
#define GOVERNOR_SHARE	 0.05
#define GOVERNOR_STRIKES 3 /* consecutive windows above the budget */
/* in windows */
#define GOVERNOR_OFF_MIN 6
#define GOVERNOR_OFF_MAX 96
#define GOVERNOR_QUIET	 60
/* consecutive bursts within the budget before everything is recorded again */
#define GOVERNOR_CALM 6
/* The part of a window with one record per node, and the part of the budget that it may use. */
#define GOVERNOR_DUTY_MIN   0.05
#define GOVERNOR_DUTY_MAX   0.5
#define GOVERNOR_DUTY_SHARE 0.5
/* below this share of the records, leaving node records out does not help */
#define GOVERNOR_NODES_MOST 0.5

enum governor_records { GOVERNOR_ALL, GOVERNOR_COARSE, GOVERNOR_NONE };

struct governor {
	uint64_t window_ns;			/* 0: GOVERNOR_WINDOW_NS */
	double budget;				/* 0: GOVERNOR_SHARE */
	uint64_t window_from_ns, window_cpu_ns; /* 0: no window yet */
	uint64_t window_records, window_nodes;
	uint64_t off_from_ns, off_for_ns; /* off_from_ns 0: on */
	uint64_t on_since_ns;
	uint32_t strikes;
	bool graphs; /* the middle level */
	bool burst;  /* in the middle level: at present with one record per node */
	uint32_t calm;
	double duty;
	double share; /* our thread's share in the last complete window or burst */
};

struct governor_load {
	uint64_t now_ns, cpu_ns; /* of our thread */
	uint64_t records, nodes; /* so far; nodes: records of kernels and copies inside graphs */
	bool can_coarsen;	 /* CUPTI can deliver one record per graph launch */
};

/* Call at every tick; returns what to record now. */
enum governor_records governor_step(struct governor *g, const struct governor_load *load);
