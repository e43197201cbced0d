/* SPDX-License-Identifier: Apache-2.0
 * tracer.c - the ring and the lanes of threads. The thread that makes the process's first GPU call
 * builds the ring, not the helper. So communicators and streams made in the next microseconds are
 * not lost. The call takes milliseconds in the driver anyway. Nothing here is unmapped or freed
 * while the process lives: a wrapper may be in the middle of a push at any time. */
#include "preload/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint32_t tracer_state_word;
bool tracer_clock_tsc;
struct ring_writer tracer_ring;
TRACER_TLS struct tracer_thread *tracer_self;
TRACER_TLS uint32_t tracer_inside_bits;
TRACER_TLS uint32_t tracer_nccl_group_depth;
TRACER_TLS uint32_t tracer_own_number;

/* One per lane, owned together with it: a thread without a lane needs no state. */
static struct tracer_thread tracer_threads[LIMIT_RING_LANES];
static struct tracer_thread *tracer_helper_lane;
static uint64_t tracer_early; /* events pushed before the ring existed */
static pthread_key_t tracer_key;
static bool tracer_key_valid;
/* Incremented when lanes become free; a thread without a lane tries again when it changed. */
static uint32_t tracer_lane_epoch = 1;
static TRACER_TLS uint32_t tracer_refused_epoch;

static void tracer_thread_ends(void *arg)
{
	struct tracer_thread *t = arg;

	/* A later event of this thread (from another key's destructor) claims a new lane. */
	tracer_self = NULL;
	if (tracer_is_dead())
		return;
	ring_writer_release(&t->lane);
}

bool tracer_prepare(void)
{
	const char *off = getenv("SYSOM_DISABLE");

	if (off && *off && strcmp(off, "0"))
		tracer_state_word = TRACER_DEAD;
	else
		/* Made early, so that the key is one of the first 32, for which pthread_setspecific
		 * never allocates. */
		tracer_key_valid = pthread_key_create(&tracer_key, tracer_thread_ends) == 0;
	return !tracer_is_dead();
}

/* Whether the time stamp counter is one clock for all CPUs. The CPU must report it as invariant,
 * and the kernel must not have rejected it (it falls back to hpet or acpi_pm if TSCs disagree). */
static bool tracer_tsc_usable(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;
	char text[32] = "";
	int fd;
	ssize_t n;

	if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || !(d & (1u << 8)))
		return false;
	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return true;
	return !strncmp(text, "tsc", 3) || !strncmp(text, "kvm-clock", 9) ||
	       !strncmp(text, "hyperv", 6);
#elif defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

static bool tracer_choose_clock(void)
{
	const char *want = getenv("SYSOM_CLOCK");

	if (want && !strcmp(want, "monotonic"))
		return false;
	return tracer_tsc_usable();
}

void tracer_forked(void)
{
	__atomic_store_n(&tracer_state_word, TRACER_DEAD, __ATOMIC_RELAXED);
	tracer_self = NULL;
}

void tracer_latch(enum tracer_latch why)
{
	struct event_gap e = {
	    .head = {.kind = EVENT_GAP}, .cause = GAP_LATCHED, .detail = (int32_t)why};

	if (tracer_ring.base) {
		e.head.t = tracer_now();
		tracer_push(&e);
		ring_writer_count_drop(&tracer_ring, RING_DROP_INTERNAL, 1);
		__atomic_store_n(&tracer_ring.counters->trace_state, RING_TRACE_LATCHED,
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&tracer_state_word, TRACER_DEAD, __ATOMIC_RELAXED);
}

/* Gives this owner a lane; NULL: none is free. */
static struct tracer_thread *tracer_take_lane(uint32_t tid)
{
	struct ring_lane_writer lane;
	struct tracer_thread *t;

	if (!ring_writer_claim(&tracer_ring, RING_LANE_HOST, tid, &lane))
		return NULL;
	t = &tracer_threads[lane.lane - tracer_ring.lanes];
	*t = (struct tracer_thread){.lane = lane};
	return t;
}

static void tracer_own(struct tracer_thread *t)
{
	pthread_setspecific(tracer_key, t);
	tracer_self = t;
}

void tracer_adopt_helper_lane(void)
{
	if (tracer_helper_lane)
		tracer_own(tracer_helper_lane);
}

static int tracer_build(void)
{
	struct ring_geometry g;
	struct rlimit limit;
	int err;

	if (!tracer_key_valid)
		return TRACER_LATCH_THREAD;
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < LIMIT_RING_BYTES)
		return TRACER_LATCH_LIMIT;
	tracer_clock_tsc = tracer_choose_clock();
	ring_geometry_default(&g);
	g.host_clock = tracer_clock_tsc ? CLOCK_SOURCE_TSC : CLOCK_SOURCE_MONOTONIC;
	g.device_clock = CLOCK_SOURCE_MONOTONIC;
	err = ring_writer_init(&tracer_ring, &g);
	if (err)
		return TRACER_LATCH_RING;
	/* Device records use CUPTI's clock, which is one of two and not known yet. So there is a
	 * lane for each, declared before anybody has seen the ring. */
	tracer_ring.lanes[g.host_lanes].clock_source = CLOCK_SOURCE_REALTIME;
	/* Claimed before any thread of the job can claim a lane. The helper has no tid yet, so
	 * 0. */
	tracer_helper_lane = tracer_take_lane(0);
	return 0;
}

/* Moves counts from before the ring existed to the ring's counter. Every thread that counted does
 * this once the ring exists, so that no count is lost. */
static void tracer_count_early(void)
{
	uint64_t n = __atomic_exchange_n(&tracer_early, 0, __ATOMIC_SEQ_CST);

	if (n)
		ring_writer_count_drop(&tracer_ring, RING_DROP_STARTING, n);
}

int tracer_open(void)
{
	uint32_t cold = TRACER_COLD;
	int why = tracer_build();

	if (why)
		return why;
	/* The ring is complete before any wrapper sees ON (they read relaxed, and reach the ring only
	 * through tracer_claim). */
	__atomic_compare_exchange_n(&tracer_state_word, &cold, TRACER_ON, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_RELAXED);
	tracer_count_early();
	__atomic_store_n(&tracer_ring.counters->trace_state, RING_TRACE_ON, __ATOMIC_RELAXED);
	return 0;
}

void tracer_switch(bool on)
{
	uint32_t from = on ? TRACER_OFF : TRACER_ON, to = on ? TRACER_ON : TRACER_OFF;

	if (__atomic_compare_exchange_n(&tracer_state_word, &from, to, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		__atomic_store_n(&tracer_ring.counters->trace_state,
				 on ? RING_TRACE_ON : RING_TRACE_OFF, __ATOMIC_RELAXED);
}

struct tracer_thread *tracer_claim(void)
{
	/* read before the lanes: a lane freed meanwhile then counts as a change */
	uint32_t epoch = __atomic_load_n(&tracer_lane_epoch, __ATOMIC_RELAXED);
	int saved = errno;
	struct tracer_thread *t = NULL;

	if (tracer_is_dead())
		return NULL;
	if (tracer_state() == TRACER_COLD) {
		__atomic_add_fetch(&tracer_early, 1, __ATOMIC_SEQ_CST);
		/* seq_cst on both sides: either the builder sees our count, or we see its ring */
		if (__atomic_load_n(&tracer_state_word, __ATOMIC_SEQ_CST) != TRACER_COLD)
			tracer_count_early();
		return NULL;
	}
	/* acquire pairs with the release in tracer_open: the ring is complete */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (tracer_refused_epoch != epoch)
		t = tracer_take_lane((uint32_t)syscall(SYS_gettid));
	if (t) {
		tracer_own(t);
	} else {
		tracer_refused_epoch = epoch;
		ring_writer_count_drop(&tracer_ring, RING_DROP_NO_LANE, 1);
	}
	errno = saved;
	return t;
}

void tracer_tend_lanes(uint64_t now_ns)
{
	if (ring_writer_reclaim(&tracer_ring, now_ns) > 0)
		__atomic_add_fetch(&tracer_lane_epoch, 1, __ATOMIC_RELAXED);
}
