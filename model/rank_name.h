/* SPDX-License-Identifier: Apache-2.0
 * rank_name.h - a rank in texts for people. Processes that use no GPU (a serving engine, its API process)
 * have the rank -1. Header only. Threads: any. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

struct rank_name {
	char text[32];
};

/* "rank 3", "a process without a rank". Returns out->text. */
static inline const char *rank_name(int64_t rank, struct rank_name *out)
{
	if (rank < 0)
		snprintf(out->text, sizeof(out->text), "a process without a rank");
	else
		snprintf(out->text, sizeof(out->text), "rank %" PRId64, rank);
	return out->text;
}
