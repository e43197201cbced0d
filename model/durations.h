/* SPDX-License-Identifier: Apache-2.0
 * durations.h - a histogram of durations. Its classes are sixteenths of an octave (Tene 2015,
 * HdrHistogram), so a quantile is exact to 3%. Counts are integers, so merging the histograms of
 * several nodes gives exactly what one node would have counted.
 * Times: ns, from 1 us to 73 min; shorter and longer ones count in the first and the last class.
 * Memory: the caller's, all zero at first. Threads: one at a time per struct. */
#pragma once

#include <stdint.h>

#define DURATIONS_CLASSES 512u

struct durations {
	uint64_t total;
	uint32_t count[DURATIONS_CLASSES]; /* saturates */
};

void durations_add(struct durations *d, uint64_t ns);
/* Adds `count` durations of one class; class: below DURATIONS_CLASSES. */
void durations_add_class(struct durations *d, uint32_t class, uint32_t count);
void durations_merge(struct durations *into, const struct durations *from);
/* The middle of the class that holds the quantile p, 0 to 1; 0: nothing was counted. */
double durations_quantile(const struct durations *d, double p);
