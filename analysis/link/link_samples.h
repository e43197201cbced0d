/* SPDX-License-Identifier: Apache-2.0
 * link_samples.h - how long transfers of each size took, in bounded memory.
 *
 * A table of cells. A cell counts the transfers of one class of size and one class of time. A class
 * is a part of an octave, as in the histograms of Tene 2015 (HdrHistogram). A cell keeps exact
 * sums, so the means are exact, and medians have the precision of a class. All sums are integers,
 * so merging the samples of several structs, in any order, gives the same result as one struct for
 * all transfers.
 *
 * Sizes: bytes. Times: ns. Memory: the caller's, all zero at first; nothing is allocated. Errors: a
 * transfer that does not fit is counted in `refused`. Threads: one at a time per struct. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* times of one size fill some 20 classes, and a communicator uses few sizes; 16 KiB */
#define LINK_CELLS_MAX 512u
#define LINK_SIZE_BITS 2u	  /* 4 classes of size per octave */
#define LINK_TIME_BITS 4u	  /* 16 classes of time per octave: medians within 3% */
#define LINK_BITS_MAX  42u	  /* largest size 4 TiB, longest time 73 minutes */
#define LINK_COUNT_MAX (1u << 21) /* of a cell: its sums fit 64 bits */
#define LINK_SIZES_MAX ((LINK_BITS_MAX + 1) << LINK_SIZE_BITS) /* classes of size */

struct link_cell {
	uint16_t size, time; /* classes; cells are in ascending order of both */
	uint32_t count;
	uint64_t bytes, time_ns, least_ns; /* bytes, time_ns: sums; least_ns: the shortest time */
};
struct link_samples {
	uint32_t cells;
	uint64_t refused; /* transfers of no size, no time, out of range, or without room */
	struct link_cell cell[LINK_CELLS_MAX];
};

void link_samples_add(struct link_samples *s, uint64_t bytes, uint64_t time_ns);
/* Adds count transfers (count > 0) of which only the sums are known: each counts as the mean. */
void link_samples_add_sum(struct link_samples *s, uint64_t bytes, uint64_t time_ns, uint32_t count);
void link_samples_merge(struct link_samples *into, const struct link_samples *from);

enum link_centre { LINK_MEDIAN, LINK_AVG, LINK_MIN, LINK_CENTRES };
/* One size class: mean size, and the median, mean or shortest of its times. */
struct link_size {
	double bytes, time_ns;
	uint64_t count;
};
/* In ascending order of size. to: [LINK_SIZES_MAX]. Returns how many. */
uint32_t link_samples_sizes(const struct link_samples *s, enum link_centre centre,
			    struct link_size *to);
/* The class of a size: its least size, and that of the next class. bytes: 1 or more. */
void link_samples_class(double bytes, double *begin, double *end);
