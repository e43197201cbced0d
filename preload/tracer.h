/* SPDX-License-Identifier: Apache-2.0
 * tracer.h - the state that all wrappers share: on or off, this thread's lane, the clock.
 * Threads: any. Guarantees on a launch path: no system call, lock or allocation; errno is kept.
 * There are two exceptions: a process's first GPU call builds the ring, and a thread's first event
 * claims its lane (one gettid).
 *   COLD   nothing happened yet; the first GPU use starts tracing
 *   ON     wrappers push
 *   OFF    wrappers only update the registry (instance counters, handles) and push nothing
 *   DEAD   forked child, SYSOM_DISABLE or internal failure: wrappers only forward, permanently */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "ring/ring_writer.h"

enum tracer_state { TRACER_COLD = 0, TRACER_ON = 1, TRACER_OFF = 2, TRACER_DEAD = 3 };

/* Where this thread is. A driver call inside an NCCL call is recorded. A driver call inside a
 * driver call, or anything below our own code, is not. */
enum tracer_inside { TRACER_IN_DRIVER = 1, TRACER_IN_NCCL = 2, TRACER_IN_SYSOM = 4 };

/* Why tracing latched off: the detail of GAP_LATCHED. */
enum tracer_latch {
	TRACER_LATCH_RING = 1,	 /* the shared memory could not be made */
	TRACER_LATCH_THREAD = 2, /* no helper thread */
	TRACER_LATCH_LIMIT = 3,	 /* RLIMIT_FSIZE below the ring's size: the job would get SIGXFSZ */
};

/* Spans of a catalogue that are nested deeper are not recorded. sysomd keeps 32 open spans of a
 * thread, some of which are NVTX's. */
#define TRACER_OPEN_MAX 24

struct registry_launches;
struct tracer_thread {
	struct ring_lane_writer lane;
	uint32_t spans;	     /* nesting depth of NVTX and API spans */
	uint32_t open_count; /* Python spans, for python/ */
	const void *open[TRACER_OPEN_MAX];
	uint64_t open_t[TRACER_OPEN_MAX];    /* when each began */
	uint32_t open_more[TRACER_OPEN_MAX]; /* calls of the same function inside, not recorded */
	const void *step_key; /* the function that is the current step; NULL: none is */
	uint32_t step_depth;
	uint64_t context;		    /* the CUcontext that was reported last */
	struct registry_launches *launches; /* of the current context's default stream; NULL: ask */
};

extern uint32_t tracer_state_word; /* enum tracer_state */
extern bool tracer_clock_tsc;
extern struct ring_writer tracer_ring;
#define TRACER_TLS __thread __attribute__((tls_model("initial-exec")))
extern TRACER_TLS struct tracer_thread *tracer_self;
extern TRACER_TLS uint32_t tracer_inside_bits;
extern TRACER_TLS uint32_t tracer_nccl_group_depth;
/* RING_NUMBER of the latest launch on this thread's own default stream, in its latest context. */
extern TRACER_TLS uint32_t tracer_own_number;

static inline uint32_t tracer_state(void)
{
	return __atomic_load_n(&tracer_state_word, __ATOMIC_RELAXED);
}
static inline bool tracer_is_dead(void)
{
	return tracer_state() == TRACER_DEAD;
}
static inline bool tracer_internal_thread(void)
{
	return (tracer_inside_bits & TRACER_IN_SYSOM) != 0;
}

/* For start.c, when the process begins. False: tracing is disabled. */
bool tracer_prepare(void);
/* Builds the ring and switches tracing on; 0 or enum tracer_latch. */
int tracer_open(void);
/* For start.c, in a forked child. */
void tracer_forked(void);

/* start.c: at the first GPU use, explicit step or span, builds the ring and starts the helper,
 * once. False: tracing is not possible. True also while another thread still builds: the caller
 * continues as if tracing were on, and its events are counted (STARTING). The first call is slow;
 * keeps errno. */
bool tracer_start(void);
/* Switches tracing off permanently, with a reason that the report shows. Any thread. */
void tracer_latch(enum tracer_latch why);
/* ON <-> OFF; no effect in COLD and DEAD. Helper thread. */
void tracer_switch(bool on);

/* This thread's lane, claimed if it has none. NULL (counted): all are taken, or the ring is still
 * being built. */
struct tracer_thread *tracer_claim(void);
/* Takes the lane that was claimed for the helper before tracing began. Helper thread, once. */
void tracer_adopt_helper_lane(void);
/* Gives back the lanes of threads that ended. Helper thread. */
void tracer_tend_lanes(uint64_t now_ns);

static inline uint64_t tracer_now(void)
{
	return __builtin_expect(tracer_clock_tsc, 1) ? clock_ticks() : clock_monotonic_ns();
}
static inline uint32_t tracer_duration(uint64_t from, uint64_t to)
{
	uint64_t d = to - from;

	return d > UINT32_MAX ? UINT32_MAX : (uint32_t)d;
}

/* Whether this call may be recorded. If so, marks the thread until tracer_leave. `blockers`: the
 * bits that forbid it; a blocked launch is counted. If *push is false, only the registry is
 * updated. */
static inline bool tracer_enter(uint32_t bit, uint32_t blockers, bool launch, bool *push)
{
	uint32_t state = tracer_state(), inside = tracer_inside_bits;

	*push = true;
	if (__builtin_expect(state != TRACER_ON, 0)) {
		if (state == TRACER_DEAD || inside & blockers)
			return false;
		if (state == TRACER_OFF) {
			*push = false;
			ring_writer_count_drop(&tracer_ring, RING_DROP_SWITCHED_OFF, 1);
		} else if (!tracer_start())
			return false;
	}
	if (__builtin_expect(inside & blockers, 0)) {
		if (launch && !(inside & TRACER_IN_SYSOM))
			ring_writer_count_drop(&tracer_ring, RING_DROP_RECURSION, 1);
		return false;
	}
	tracer_inside_bits = inside | bit;
	return true;
}
static inline void tracer_leave(uint32_t bit)
{
	tracer_inside_bits &= ~bit;
}
static inline bool tracer_enter_launch(bool *push)
{
	return tracer_enter(TRACER_IN_DRIVER, TRACER_IN_DRIVER | TRACER_IN_SYSOM, true, push);
}
static inline bool tracer_enter_driver(bool *push)
{
	return tracer_enter(TRACER_IN_DRIVER, TRACER_IN_DRIVER | TRACER_IN_SYSOM, false, push);
}
static inline bool tracer_enter_nccl(bool *push)
{
	return tracer_enter(TRACER_IN_NCCL, TRACER_IN_NCCL | TRACER_IN_DRIVER | TRACER_IN_SYSOM,
			    false, push);
}

/* Pushes one host event (any struct event_*). */
static inline void tracer_push(const void *event)
{
	struct tracer_thread *t = tracer_self;

	if (__builtin_expect(!t, 0)) {
		t = tracer_claim();
		if (!t)
			return;
	}
	ring_writer_push(&t->lane, event);
}
