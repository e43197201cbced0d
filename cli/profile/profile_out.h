/* SPDX-License-Identifier: Apache-2.0
 * profile_out.h - writes a stack batch to a file: flame graph, folded stacks or pprof. Threads: one
 * caller. */
#pragma once

#include "cli/profile/profile_tree.h"

/* The order is that of the words of `sysom record --format` and --group. */
enum profile_format { PROFILE_HTML, PROFILE_FOLDED, PROFILE_PPROF };

struct profile_out {
	const char *path; /* "-": standard output */
	enum profile_format format;
	enum profile_group group;
	bool blocked; /* folded stacks: blocked time instead of time on the CPU */
	const char *title, *note, *open; /* of a flame graph (struct profile_flame) */
	/* of pprof: start of the batch; time between a thread's samples */
	uint64_t realtime_ns, period_ns;
};

/* Sums of a batch. */
struct profile_counts {
	uint64_t on_count, on_ns, off_count, off_ns; /* samples and time */
	uint64_t frames;			     /* of all samples */
	uint64_t truncated, scanned;		     /* of the samples */
};

/* Chosen by path's ending: .folded .txt .collapsed; .pb.gz .pprof; else html. */
enum profile_format profile_out_format(const char *path);
/* "html", ... */
const char *profile_out_format_name(enum profile_format f);
void profile_out_count(const struct stack_batch *b, struct profile_counts *out);
/* 0, -ENOMEM, -E2BIG or -errno of the file. */
int profile_out_write(const struct profile_out *o, const struct stack_batch *b,
		      struct profile_names *names, FILE *to);
