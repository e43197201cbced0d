/* SPDX-License-Identifier: Apache-2.0
 * diff_source.h - one side of `sysom diff`: an incident, a rank of one, a window's file, a trace file as
 * `sysom replay events` reads it, or a profile (folded stacks, pprof). What there is of steps, records
 * and functions. Owns: everything in it. Threads: one caller. Trust: incidents and files are hostile. */
#ifndef SYSOM_CLI_DIFF_SOURCE_H
#define SYSOM_CLI_DIFF_SOURCE_H

#include "analysis/profile.h"
#include "cli/client.h"
#include "cli/options.h"
#include "cli/trace_model.h"

struct symbol_resolver;
struct profile_names;

struct diff_source {
	char label[200]; /* harmless */
	const char *kind; /* "incident", "window", "trace", "folded", "pprof" */
	struct trace_model model;
	const struct trace_rank *rank;	 /* of it; NULL: no steps or records */
	struct profile *functions;	 /* NULL: no stacks */
	uint64_t skipped;		 /* of what was read */
	struct client client;
	struct symbol_resolver *resolver;
	struct profile_names *names;
};

/* arg: a file, or ID[:RANK]. 0; or the command's exit status after a line on standard error. */
int diff_source_open(struct diff_source *s, const struct options *o, const char *arg);
void diff_source_close(struct diff_source *s);

/* diff_trace.c: a trace file's rank, its steps found and judged as sysomd does. 0 or -errno, said. */
int diff_trace_load(struct trace_model *m, const char *path, uint64_t *skipped);

#endif
