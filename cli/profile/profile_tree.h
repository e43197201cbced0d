/* SPDX-License-Identifier: Apache-2.0
 * profile_tree.h - merges stacks into a call tree by the names of their frames, for folded stacks and flame
 * graphs. Owns: its nodes; texts are borrowed from profile_names. Threads: one caller. */
#pragma once

#include <stdio.h>

#include "base/probe.h"
#include "cli/profile/folded.h"
#include "cli/profile/profile_names.h"

/* Kinds of nodes that are not a stack's frame; extends enum stack_frame_kind. */
enum profile_kind { PROFILE_GPU_PHASE = 16, PROFILE_GPU_KERNEL };

enum profile_group {				 /* the level below the root */
		     PROFILE_BY_THREAD_NAME = 0, /* threads of one name together: "python3" */
		     PROFILE_BY_THREAD,		 /* process and thread: "python3 (pid 12/tid 34)" */
		     PROFILE_TOGETHER,		 /* nothing */
};

struct profile_node {
	const char *function, *module, *file;
	uint32_t line;	      /* Python: of the first stack */
	uint32_t parent;      /* index; the root is its own */
	uint32_t first, next; /* child, sibling; 0: none */
	/* enum stack_frame_kind or profile_kind, 0 for the root and thread nodes */
	uint8_t kind, flags;
	uint64_t on_ns, off_ns;			       /* of the stacks that end here */
	uint64_t gpu_ns;			       /* GPU time of what ends here */
	uint64_t base_on_ns, base_off_ns, base_gpu_ns; /* the same of the reference */
};

struct profile_tree {
	struct profile_node *nodes; /* nodes[0] is the root */
	uint32_t count;
	size_t room;
	struct probe by_frame; /* (parent, frame) -> node */
	char **texts;	       /* names that the tree owns */
	uint32_t text_count;
	size_t text_room;
	bool differs; /* a differential tree: base_ fields are used */
	bool to_base; /* add to the base_ fields */
	double scale; /* multiplies the times that are added; 0: as 1 */
};

int profile_tree_init(struct profile_tree *t);
void profile_tree_fini(struct profile_tree *t);
/* Adds all samples of the batch; names: of this batch. 0, -ENOMEM, -E2BIG. */
int profile_tree_add(struct profile_tree *t, const struct stack_batch *b,
		     struct profile_names *names, enum profile_group group);
/* Adds folded stacks, their values as time on the CPU; borrows texts from *f. "f_[k]" is a kernel function,
 * "f (x.py)" a Python one. 0, -ENOMEM, -E2BIG. */
int profile_tree_add_folded(struct profile_tree *t, const struct folded *f);
/* Adds GPU time below frames (function, kind; root first); borrows texts. 0, -ENOMEM, -E2BIG. */
int profile_tree_add_gpu(struct profile_tree *t, const struct profile_node *frames, uint32_t count,
			 double ns);
/* Adds another tree with names in the form of folded stacks, to compare it with a file's. 0, -ENOMEM,
 * -E2BIG. */
int profile_tree_flatten(struct profile_tree *to, const struct profile_tree *from);
/* Takes a text that nodes use; frees it on -ENOMEM. */
int profile_tree_keep(struct profile_tree *t, char *text);
/* One line per stack: "root;...;leaf VALUE", kernel functions with "_[k]", for flamegraph.pl and
 * speedscope. VALUE: nanoseconds on the CPU, or blocked (off). Returns the number of lines, or -errno of
 * the stream. */
long profile_tree_folded(const struct profile_tree *t, bool off, FILE *to);
