/* SPDX-License-Identifier: Apache-2.0
 * profile_tree.h - stacks merged into a call tree by the names of their frames: what folded stacks
 * and flame graphs are written from. Owns: its nodes; texts are borrowed from profile_names.
 * Threads: one caller. */
#ifndef SYSOM_CLI_PROFILE_PROFILE_TREE_H
#define SYSOM_CLI_PROFILE_PROFILE_TREE_H

#include <stdio.h>

#include "base/probe.h"
#include "cli/profile/folded.h"
#include "cli/profile/profile_names.h"

/* Of nodes that stand for no frame of a stack; beside enum stack_frame_kind. */
enum profile_kind { PROFILE_GPU_PHASE = 16, PROFILE_GPU_KERNEL };

enum profile_group {				 /* what stands below the root, outermost first */
		     PROFILE_BY_THREAD_NAME = 0, /* threads of one name together: "python3" */
		     PROFILE_BY_THREAD,		 /* process and thread: "python3 (pid 12/tid 34)" */
		     PROFILE_TOGETHER,		 /* nothing */
};

struct profile_node {
	const char *function, *module, *file;
	uint32_t line;	      /* Python: of the first stack that came here */
	uint32_t parent;      /* index; the root is its own */
	uint32_t first, next; /* child, sibling; 0: none */
	/* enum stack_frame_kind or profile_kind, 0 for the root and thread nodes */
	uint8_t kind, flags;
	uint64_t on_ns, off_ns; /* of the stacks that end here */
	uint64_t on_count, off_count;
	uint64_t gpu_ns;			       /* device time of what ends here */
	uint64_t base_on_ns, base_off_ns, base_gpu_ns; /* what it is compared with */
};

struct profile_tree {
	struct profile_node *nodes; /* nodes[0] is the root */
	uint32_t count;
	size_t room;
	struct probe by_frame; /* (parent, frame) -> node */
	char **texts;	       /* names that were made here */
	uint32_t text_count;
	size_t text_room;
	bool differs; /* base_ figures have a meaning */
	bool to_base; /* what is added now goes there */
	double scale; /* of the times that are added now; 0: as they are */
};

int profile_tree_init(struct profile_tree *t);
void profile_tree_fini(struct profile_tree *t);
/* Adds all samples of the batch that names was opened on. 0, -ENOMEM, -E2BIG. */
int profile_tree_add(struct profile_tree *t, const struct stack_batch *b,
		     struct profile_names *names, enum profile_group group);
/* Folded stacks, their values as time on the CPU; texts are borrowed from *f. "f_[k]" is a kernel
 * function, "f (x.py)" a Python one. 0, -ENOMEM, -E2BIG. */
int profile_tree_add_folded(struct profile_tree *t, const struct folded *f);
/* Device time below frames (function, kind; root first), texts borrowed. 0, -ENOMEM, -E2BIG. */
int profile_tree_add_gpu(struct profile_tree *t, const struct profile_node *frames, uint32_t count,
			 double ns);
/* Adds another tree with its names as folded stacks have them, so that it meets one that was read
 * from a file. 0, -ENOMEM, -E2BIG. */
int profile_tree_flatten(struct profile_tree *to, const struct profile_tree *from);
/* Takes a text that nodes refer to. -ENOMEM frees it. */
int profile_tree_keep(struct profile_tree *t, char *text);
/* One line per stack: "root;...;leaf VALUE", kernel functions with "_[k]", as flamegraph.pl and
 * speedscope read them. VALUE: nanoseconds on the CPU (off = false) or off it. Returns the lines
 * written, or -errno of the stream. */
long profile_tree_folded(const struct profile_tree *t, bool off, FILE *to);

#endif
