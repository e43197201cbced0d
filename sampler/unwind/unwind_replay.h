/* SPDX-License-Identifier: Apache-2.0
 * unwind_replay.h - runs bpf/unwind.h in user space, over memory that a callback supplies.
 * Owns: the learned markers.  Threads: one caller per replay; several replays may run at once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind_format.h"
#include "sampler/unwind/unwind_store.h"

/* Copies bytes from a virtual address of the process. 0; not 0: unreadable. */
typedef int (*unwind_replay_read)(void *context, void *to, size_t bytes, uint64_t address);

struct unwind_replay;
/* store: borrowed and only read. mode: enum unwind_mode (unwind_format.h). 0, -ENOMEM. */
int unwind_replay_open(struct unwind_replay **out, const struct unwind_store *store,
		       enum unwind_mode mode, unwind_replay_read read, void *context);
void unwind_replay_close(struct unwind_replay *r); /* NULL is a no-op */
/* Unwinds once. The caller has set s->pc, reg, process and owner; frame, count and end are the
 * result. */
void unwind_replay_walk(struct unwind_replay *r, struct unwind_state *s);
