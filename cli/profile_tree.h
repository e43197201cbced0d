/* SPDX-License-Identifier: Apache-2.0
 * profile_tree.h - stacks merged into a call tree by the names of their frames: what folded stacks and
 * flame graphs are written from.
 * Owns: its nodes; texts are borrowed from profile_names.  Threads: one caller. */
#ifndef SYSOM_CLI_PROFILE_TREE_H
#define SYSOM_CLI_PROFILE_TREE_H

#include <stdio.h>

#include "cli/profile_names.h"

enum profile_group { /* what stands below the root, outermost first */
	PROFILE_BY_THREAD_NAME = 0, /* threads of one name together: "python3" */
	PROFILE_BY_THREAD,	    /* process and thread: "python3 (pid 12/tid 34)" */
	PROFILE_TOGETHER,	    /* nothing */
};

struct profile_node {
	const char *function, *module, *file;
	uint32_t line;		/* Python: of the first stack that came here */
	uint32_t parent;	/* index; the root is its own */
	uint32_t first, next;	/* child, sibling; 0: none */
	uint8_t kind, flags;	/* enum stack_frame_kind, 0 for the root and thread nodes */
	uint64_t on_ns, off_ns; /* of the stacks that end here */
	uint64_t on_count, off_count;
};

struct profile_tree {
	struct profile_node *nodes; /* nodes[0] is the root */
	uint32_t count, room;
	uint32_t *slot; /* (parent, frame) -> node */
	uint32_t slot_room;
	char **texts; /* thread names that were made here */
	uint32_t text_count, text_room;
};

int profile_tree_init(struct profile_tree *t);
void profile_tree_fini(struct profile_tree *t);
/* Adds all samples of the batch that names was opened on. 0, -ENOMEM, -E2BIG. */
int profile_tree_add(struct profile_tree *t, const struct stack_batch *b, struct profile_names *names,
		     enum profile_group group);
/* One line per stack: "root;...;leaf VALUE", kernel functions with "_[k]", as flamegraph.pl and
 * speedscope read them. VALUE: nanoseconds on the CPU (off = false) or off it. Returns the lines
 * written, or -errno of the stream. */
long profile_tree_folded(const struct profile_tree *t, bool off, FILE *to);

#endif
