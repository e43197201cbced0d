/* SPDX-License-Identifier: Apache-2.0
 * helper.h - sysom's one thread inside the job: attach to sysomd, obey it, flush CUPTI, tend lanes.
 * It blocks all signals, sleeps on a futex, and never holds anything that a wrapper waits for. */
#ifndef SYSOM_PRELOAD_HELPER_H
#define SYSOM_PRELOAD_HELPER_H

#include <stdbool.h>
#include <stdint.h>

/* Constructor: offers ourselves to NVTX (and, when asked, to NCCL) by the environment, without
 * overwriting. */
void helper_prepare_environment(void);
/* Starts the thread; 0 or -errno. Once, after the ring is there. */
int helper_start(void);
/* In a forked child: the thread and the socket are the parent's. */
void helper_forked(void);
/* The host has just waited for the GPU: a good moment to fetch device records. Wakes the helper
 * (one futex call) only when it sleeps and has not flushed for HELPER_FLUSH_MIN_NS. Sync wrappers
 * only. */
void helper_sync_done(void);
/* The ring is there. Catches up with a context that another thread made while it was being built. */
void helper_ring_ready(void);
/* A CUDA context exists (again): CUPTI may be started. The caller's thread does it, since kinds
 * must be enabled before the first module is loaded. Not on a launch path. */
void helper_context_ready(void);

#define HELPER_TICK_MS	    100
#define HELPER_FLUSH_MIN_NS 5000000ull

#endif
