/* SPDX-License-Identifier: Apache-2.0
 * start.c - events in the life of the process: the library is loaded, the GPU is used for the first
 * time, the process forks. */
#include <errno.h>
#include <pthread.h>

#include "preload/helper.h"
#include "preload/hooks.h"
#include "preload/python/python_spans.h"
#include "preload/tracer.h"

static uint32_t starting; /* 1: a thread builds the ring or has built it */

__attribute__((constructor)) static void start_loaded(void)
{
	int saved = errno;

	if (tracer_prepare()) {
		helper_prepare_environment();
		hooks_on_import = python_spans_importing;
	}
	errno = saved;
}

/* In a child that was forked without exec, tracing is off permanently. The ring belongs to the
 * parent, CUDA does not survive a fork, and the helper thread does not exist here. An exec runs the
 * constructor again. */
static void start_forked(void)
{
	tracer_forked();
	helper_forked();
}

bool tracer_start(void)
{
	uint32_t expected = 0, inside = tracer_inside_bits;
	int saved = errno, why;

	/* A second thread does not wait for the first. */
	if (!__atomic_compare_exchange_n(&starting, &expected, 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return !tracer_is_dead();
	tracer_inside_bits = inside | TRACER_IN_SYSOM;
	why = pthread_atfork(NULL, NULL, start_forked) ? TRACER_LATCH_THREAD : tracer_open();
	/* The helper starts last: it may report or change the state at once. */
	if (!why) {
		if (helper_start())
			why = TRACER_LATCH_THREAD;
		else
			helper_ring_ready();
	}
	if (why)
		tracer_latch((enum tracer_latch)why);
	tracer_inside_bits = inside;
	errno = saved;
	return tracer_state() == TRACER_ON;
}
