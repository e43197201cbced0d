/* SPDX-License-Identifier: Apache-2.0
 * helper.h - sysom's only thread inside the job: attaches to sysomd, obeys its commands, flushes
 * CUPTI and reclaims lanes. It blocks all signals, sleeps on a futex, and never holds anything that
 * a wrapper waits for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Called in the constructor: registers us with NVTX (and, if requested, with NCCL) in the
 * environment. Overwrites nothing. */
void helper_prepare_environment(void);
/* Starts the thread; 0 or -errno. Call once, after the ring exists. */
int helper_start(void);
/* In a forked child: the thread and the socket belong to the parent. */
void helper_forked(void);
/* The host has just waited for the GPU, so this is a good moment to fetch device records. Wakes the
 * helper (one futex call) only if it sleeps and has not flushed for HELPER_FLUSH_MIN_NS. Sync
 * wrappers only. */
void helper_sync_done(void);
/* The ring exists now. Handles a context that another thread made while the ring was being
 * built. */
void helper_ring_ready(void);
/* A CUDA context exists (again), so CUPTI may be started. The calling thread starts it, because
 * activity kinds must be enabled before the first module is loaded. Not on a launch path. */
void helper_context_ready(void);

#define HELPER_TICK_MS	    100
#define HELPER_FLUSH_MIN_NS 5000000ull
