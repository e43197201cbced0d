/* SPDX-License-Identifier: Apache-2.0
 * incident_diff.h - compares the culprit of an incident with a healthy peer: chooses the peer, and makes
 * one differential call tree of CPU, blocked and GPU time (on the GPU: what launched it, then the kernel).
 *
 * Times are per step if both have steps, else scaled to the same observed time. GPU time covers the
 * culprit's slow steps (all, if none is slow) and all of the peer's; only steps with all their records
 * count. Owns: its tree and names; borrows the model. Threads: one caller. */
#pragma once

#include <jansson.h>

#include "analysis/cause/profile.h"
#include "cli/profile/profile_tree.h"
#include "cli/trace/trace_model.h"

struct incident_diff {
	const struct trace_rank *base, *other;
	struct profile_tree tree;
	struct profile_names *names[2]; /* of base and other */
	bool per_step, has_cpu, has_gpu;
	size_t gpu_steps[2]; /* the number of steps in the means of GPU times */
	const char *open;    /* as in struct profile_flame, the caller's; NULL after _make */
};

/* The incident's rank with the most evidence; NULL: no windows. */
const struct trace_rank *incident_diff_culprit(const json_t *incident, const struct trace_model *m);
/* A rank of the same role that the incident does not accuse, observed longest at the same time; with stacks
 * if the culprit has some. NULL: none. */
const struct trace_rank *incident_diff_peer(const json_t *incident, const struct trace_model *m,
					    const struct trace_rank *culprit);
/* 0, -ENOMEM, -ENODATA (the two share neither stacks nor kernels). The caller frees *d after 0. */
int incident_diff_make(struct incident_diff *d, const struct trace_model *m,
		       const struct trace_rank *base, const struct trace_rank *other);
void incident_diff_free(struct incident_diff *d); /* of a zeroed struct: a no-op */
/* The number of samples on the CPU. */
uint64_t incident_diff_samples(const struct trace_rank *r);
/* A side's name for a page: "rank 2 (healthy)". Static buffer of term.h. */
const char *incident_diff_name(const struct incident_diff *d, bool other);
/* Writes the whole page. 0 or -errno. */
int incident_diff_page(FILE *to, const struct incident_diff *d, const char *title,
		       double share_min);

/* The functions of a rank's stacks on the CPU, names in the form of folded stacks; files: Python functions
 * with their file, else as in a sketch. The caller owns *out. 0, -ENOMEM. */
int incident_diff_profile(struct profile **out, const struct stack_batch *b,
			  struct profile_names *names, bool files);
