/* SPDX-License-Identifier: Apache-2.0
 * clocks.h - how far the clocks of a job's nodes stand apart, from the ends of collectives that
 * they share: all ranks leave a collective within microseconds, though they enter it milliseconds
 * apart.
 *
 * The live side of analysis/trace/align.h: here it is known which kernels are one collective, samples
 * come one by one, and the reference is the job's typical node (median of the corrected ends) and
 * not one rank, whose end would be everybody's. Per node: residual(t) = offset + drift * (t -
 * zero); drift is the median of slopes, taken for 0 unless it exceeds three of its standard errors;
 * the error of the offset is three robust standard errors and 1 us.
 *
 * Times are nanoseconds of the node's own CLOCK_REALTIME (its monotonic clock and the offset its
 * beats tell). Pure but for memory. Threads: one caller. Trust: ends may be anything; what is
 * further off than CLOCKS_REACH_NS is dropped and counted. */
#ifndef SYSOM_ANALYSIS_CROSS_CLOCKS_H
#define SYSOM_ANALYSIS_CROSS_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

/* Clocks set by hand are minutes off; what is further away is no clock of this job. */
#define CLOCKS_REACH_NS 3600000000000ll
#define CLOCKS_SAMPLES	32u

struct clocks;

struct clocks_state {
	bool known;	  /* from at least 3 common collectives */
	double offset_ns; /* node's clock less the job's, now */
	double drift;
	double error_ns;
	uint32_t samples;
};

/* 0, -ENOMEM. */
int clocks_open(struct clocks **out);
void clocks_close(struct clocks *c); /* NULL is a no-op */
/* One collective: the ends on `count` different nodes (numbers of the caller's, dense). */
void clocks_push(struct clocks *c, const uint32_t *node, const int64_t *end_ns, uint32_t count);
/* What has to be taken off a time of this node; 0 while nothing is known. */
int64_t clocks_correction(const struct clocks *c, uint32_t node, int64_t at_ns);
void clocks_state(const struct clocks *c, uint32_t node, int64_t at_ns, struct clocks_state *out);
/* The number will be another node's. */
void clocks_forget(struct clocks *c, uint32_t node);
uint64_t clocks_dropped(const struct clocks *c);

#endif
