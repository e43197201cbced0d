/* SPDX-License-Identifier: Apache-2.0
 * incident_diff.h - the culprit of an incident beside a healthy peer: which one, and both call trees as
 * one that differs, on the CPU, blocked and on the GPU (what it belongs to, then kernel).
 *
 * Times are per step where both have steps, else as if both had been watched for as long. On the GPU the
 * culprit's slow steps count (all of them where none is), and all of the peer's; only steps whose records
 * are all there. Owns: its tree and names; the model is borrowed. Threads: one caller. */
#ifndef SYSOM_CLI_DIFF_INCIDENT_DIFF_H
#define SYSOM_CLI_DIFF_INCIDENT_DIFF_H

#include <jansson.h>

#include "analysis/cause/profile.h"
#include "cli/profile/profile_tree.h"
#include "cli/trace/trace_model.h"

struct incident_diff {
	const struct trace_rank *base, *other;
	struct profile_tree tree;
	struct profile_names *names[2]; /* of base and other */
	bool per_step, has_cpu, has_gpu;
	size_t gpu_steps[2]; /* that its GPU times are means of */
	const char *open;    /* the caller's, as struct profile_flame has it; NULL after _make */
};

/* The incident's rank with the most evidence; NULL: no window of one came. */
const struct trace_rank *incident_diff_culprit(const json_t *incident, const struct trace_model *m);
/* A rank of the same role that the incident does not accuse, with stacks if the culprit has some, with
 * the most in common in time; NULL: none came. */
const struct trace_rank *incident_diff_peer(const json_t *incident, const struct trace_model *m,
					    const struct trace_rank *culprit);
/* 0, -ENOMEM, -ENODATA (neither stacks nor kernels of both). *d is to be freed after 0. */
int incident_diff_make(struct incident_diff *d, const struct trace_model *m,
		       const struct trace_rank *base, const struct trace_rank *other);
void incident_diff_free(struct incident_diff *d); /* of a zeroed struct: a no-op */
/* On the CPU. */
uint64_t incident_diff_samples(const struct trace_rank *r);
/* "rank 2 (healthy)" and the like for a page, one of term.h's texts. */
const char *incident_diff_name(const struct incident_diff *d, bool other);
/* One page with everything. 0 or -errno. */
int incident_diff_page(FILE *to, const struct incident_diff *d, const char *title,
		       double share_min);

/* The functions of a rank's stacks on the CPU, names as folded stacks have them; files: Python functions
 * with theirs, else as a sketch tells them. *out is the caller's. 0, -ENOMEM. */
int incident_diff_profile(struct profile **out, const struct stack_batch *b,
			  struct profile_names *names, bool files);

#endif
