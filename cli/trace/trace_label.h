/* SPDX-License-Identifier: Apache-2.0
 * trace_label.h - the name and arguments of a record, step or window in a trace, the same for every
 * format. Pure. Threads: any. */
#pragma once

#include "base/limits.h"
#include "cli/trace/trace_model.h"

#define TRACE_LABEL_ARGS  24
#define TRACE_LABEL_BYTES (LIMIT_NAME_BYTES + 64)
/* A wait of the host by an unknown call. */
#define TRACE_LABEL_WAIT "wait for the GPU"
/* The time between two windows of a rank. */
#define TRACE_LABEL_HOLE	  "not recorded"
#define TRACE_LABEL_HOLE_CATEGORY "sysom_hole"

enum trace_arg_type { TRACE_ARG_UINT, TRACE_ARG_DOUBLE, TRACE_ARG_TEXT };

struct trace_arg {
	const char *key; /* static text, a word */
	enum trace_arg_type type;
	uint64_t u;
	double d;
	char text[192];
};

struct trace_label {
	const char *category; /* static text */
	char name[TRACE_LABEL_BYTES];
	uint32_t arg_count;
	struct trace_arg args[TRACE_LABEL_ARGS];
};

void trace_label_record(struct trace_label *l, const struct trace_model *m, const struct record *r);
void trace_label_step(struct trace_label *l, const struct window_step *s);
void trace_label_window(struct trace_label *l, const struct trace_window *w);
/* An id of a collective, the same for its call and device record on every rank; 0: none. */
uint64_t trace_label_collective(const struct record *r);
