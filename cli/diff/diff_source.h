/* SPDX-License-Identifier: Apache-2.0
 * diff_source.h - one side of `sysom diff` as steps, records and functions: an incident, a rank of one,
 * an earlier run's baseline, a running rank's sketch, a window's file, a trace file as `sysom replay
 * events` reads it, or a profile (folded stacks, pprof).
 * Owns: everything in it. Threads: one caller. Trust: answers and files are hostile. */
#pragma once

#include "analysis/cause/profile.h"
#include "cli/client/client.h"
#include "cli/options.h"
#include "cli/trace/trace_model.h"

struct profile_names;

struct diff_source {
	char label[200]; /* harmless */
	const char
	    *kind; /* "incident", "window", "trace", "folded", "pprof", "baseline", "sketch" */
	struct trace_model model;
	const struct trace_rank *rank; /* of the model; NULL: no steps or records */
	struct sketch sketch;	       /* its functions have names like those of `functions` */
	bool has_sketch,
	    baseline;	/* baseline: the sketch of a role's ranks in a run's healthy minutes */
	bool as_sketch; /* the other side is a sketch: Python functions without files */
	struct profile *functions; /* NULL: no stacks */
	uint64_t skipped;	   /* stacks or samples that were left out */
	struct client client;
	struct profile_names *names;
};

/* arg: a file, ID[:RANK], baseline:JOB[:ROLE[:RUN]] or sketch:JOB:RANK; beside: the other side's. 0; or the
 * command's exit status after a message. */
int diff_source_open(struct diff_source *s, const struct options *o, const char *arg,
		     const char *beside);
void diff_source_close(struct diff_source *s);

/* diff_trace.c: a trace file's rank; finds and judges its steps as sysomd does. 0, or -errno after a
 * message. */
int diff_trace_load(struct trace_model *m, const char *path, uint64_t *skipped);

/* diff_sketch.c: whether arg names a baseline or a sketch; and opens it, as diff_source_open. */
bool diff_sketch_is(const char *arg);
int diff_sketch_open(struct diff_source *s, const struct options *o, const char *arg);
