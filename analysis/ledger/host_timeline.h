/* SPDX-License-Identifier: Apache-2.0
 * host_timeline.h - what the launch threads of a window's rank did, as segments for a ledger. The
 * segments come from the threads' context switches, and from samples taken while the threads were
 * on a CPU. Time without recorded switches is left out. Owns: its segments and names. Threads: one
 * caller. Trust: the window was decoded; times are checked here. */
#pragma once

#include "analysis/ledger/ledger.h"
#include "model/window.h"

#define HOST_TIMELINE_THREADS 8u

struct host_timeline {
	struct ledger_thread thread[HOST_TIMELINE_THREADS];
	uint32_t tid[HOST_TIMELINE_THREADS];
	uint32_t count;
	struct ledger_segment *segments;
	struct ledger_share **shares; /* one for each slice and thread */
	char **names;
	uint32_t share_count, segment_count, name_count;
	size_t share_room, segment_room, name_room;
};

/* The name of a frame of the window's stacks; it must live as long as the timeline. */
typedef const char *(*host_frame_fn)(void *arg, uint32_t frame);

/* Threads with recorded switches, most launches first. false: no memory; *out is then empty. */
bool host_timeline_make(const struct window *w, host_frame_fn name, void *arg,
			struct host_timeline *out);
void host_timeline_fini(struct host_timeline *t);
/* Index of the thread; t->count: unknown. */
uint32_t host_timeline_find(const struct host_timeline *t, uint32_t tid);
