/* SPDX-License-Identifier: Apache-2.0
 * clocks.h - the offsets between the clocks of a job's nodes, from the ends of collectives that
 * they share: all ranks leave a collective within microseconds, though they enter it milliseconds
 * apart.
 *
 * This is the live side of analysis/trace/align.h. Live, each sample names its collective, and
 * samples arrive one by one. The reference is the job's typical node (the median of the corrected
 * ends), because a single reference rank may end. Per node: residual(t) = offset + drift * (t -
 * zero). Drift is the median of slopes, or 0 unless it exceeds three of its standard errors. The
 * error of the offset is three robust standard errors plus 1 us.
 *
 * Times are nanoseconds of the node's own CLOCK_REALTIME: its monotonic clock plus the offset from
 * its beats. Pure but for memory. Threads: one caller. Trust: ends may be anything; ends that are
 * further off than CLOCKS_REACH_NS are dropped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Clocks set by hand are minutes off; an offset of more than an hour is nonsense. */
#define CLOCKS_REACH_NS 3600000000000ll
#define CLOCKS_SAMPLES	32u

struct clocks;

struct clocks_state {
	bool known;	  /* from at least 3 common collectives */
	double offset_ns; /* node's clock less the job's, now */
	double drift;
	double error_ns;
};

/* 0, -ENOMEM. */
int clocks_open(struct clocks **out);
void clocks_close(struct clocks *c); /* NULL is a no-op */
/* One collective: its ends on `count` different nodes. The caller numbers nodes densely. */
void clocks_push(struct clocks *c, const uint32_t *node, const int64_t *end_ns, uint32_t count);
/* Subtract this from a time of the node; 0 while nothing is known. */
int64_t clocks_correction(const struct clocks *c, uint32_t node, int64_t at_ns);
void clocks_state(const struct clocks *c, uint32_t node, int64_t at_ns, struct clocks_state *out);
/* The number will be reused for another node. */
void clocks_forget(struct clocks *c, uint32_t node);
