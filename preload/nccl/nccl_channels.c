/* SPDX-License-Identifier: Apache-2.0
 * nccl_channels.c - our own callbacks are the smaller part of the cost: within a node a proxy
 * thread sleeps unless it has to watch channels. So the helper thread reads the CPU clocks of
 * NCCL's threads, which costs those threads nothing. A network keeps them busy anyway, so only the
 * difference counts. */
#include "preload/nccl/nccl_channels.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "preload/tracer.h"

/* The kernel's CPU clock of a thread: include/linux/posix-timers_types.h. */
#define CHANNELS_CLOCK(tid) ((clockid_t)(~(uint32_t)(tid) << 3 | 6))

static struct channels_thread {
	uint32_t tid;	 /* 0: free or not yet filled; release, stored last */
	uint64_t cpu_ns; /* as last read; belongs to the helper once tid is set */
} channels_threads[LIMIT_PROXY_THREADS];
static uint32_t channels_thread_count; /* may exceed the table */

static struct {
	double budget;
	uint64_t window_ns, until_ns;
	uint64_t from_ns, from_cpu_ns; /* of this window; 0: none yet */
	uint64_t cpu_ns;	       /* of all threads since their first calls */
	double usual;		       /* share of a core while they are off */
	bool on;
} channels;

void nccl_channels_budget(double share, uint64_t window_ns)
{
	channels.budget = share;
	channels.window_ns = window_ns;
}

void nccl_channels_demand(uint64_t until_ns)
{
	channels.until_ns = until_ns;
}

void nccl_channels_thread(void)
{
	static TRACER_TLS bool known;
	struct channels_thread *t;
	uint32_t at;

	if (__builtin_expect(known, 1))
		return;
	known = true;
	at = __atomic_fetch_add(&channels_thread_count, 1, __ATOMIC_RELAXED);
	if (at >= LIMIT_PROXY_THREADS)
		return;
	t = &channels_threads[at];
	t->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	/* release pairs with the acquire in channels_read */
	__atomic_store_n(&t->tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
}

static void channels_read(void)
{
	for (uint32_t i = 0; i < LIMIT_PROXY_THREADS; i++) {
		struct channels_thread *t = &channels_threads[i];
		uint32_t tid = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);
		struct timespec ts;
		uint64_t now;

		if (!tid || clock_gettime(CHANNELS_CLOCK(tid), &ts))
			continue; /* none, or it has ended */
		now = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
		/* a smaller value means that another thread has this number now */
		channels.cpu_ns += now > t->cpu_ns ? now - t->cpu_ns : 0;
		t->cpu_ns = now;
	}
}

static void channels_begin(uint64_t now_ns)
{
	channels.from_ns = now_ns;
	channels.from_cpu_ns = channels.cpu_ns;
}

bool nccl_channels_tend(uint64_t now_ns)
{
	uint64_t ns = now_ns - channels.from_ns;
	bool wanted = now_ns < channels.until_ns;
	double share;

	channels_read();
	share = ns ? (double)(channels.cpu_ns - channels.from_cpu_ns) / (double)ns : 0;
	if (!channels.from_ns) {
		channels_begin(now_ns);
	} else if (channels.on && !wanted) {
		channels.on = false;
		channels_begin(now_ns);
	} else if (ns >= channels.window_ns) {
		channels_begin(now_ns);
		if (!channels.on) {
			channels.usual = share;
		} else if (share - channels.usual > channels.budget) {
			ring_writer_count_drop(&tracer_ring, RING_DROP_CHANNELS, 1);
			channels.until_ns = 0;
			return channels.on = false;
		}
	}
	if (wanted && !channels.on) {
		channels.on = true;
		channels_begin(now_ns);
	}
	return channels.on;
}
