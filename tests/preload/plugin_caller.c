/* SPDX-License-Identifier: Apache-2.0
 * plugin_caller.c - drives the profiler plugin as NCCL does, in every version and in the bad ways:
 * a record after the stop, a parent of another process, stops of what was never started, a missing
 * finalize, and another thread. usage: plugin_caller
 * plugin_caller channels MS POLL_US: for so long a collective each 5 ms. While the mask asks for
 * them, a proxy thread reports its channel, for which it polls so long. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "foreign/nccl_profiler.h"

static const struct nccl_profiler_table *table;
static int bad;
static int mask;	     /* as NCCL's: one for the process, read at each operation */
static void *context, *coll; /* of the last version */

static void expect(int good, const char *what)
{
	if (!good) {
		printf("bad: %s\n", what);
		bad++;
	}
}

static const struct nccl_profiler_table *find(const char *name)
{
	table = dlsym(RTLD_DEFAULT, name);
	expect(table && table->init && table->start, name);
	return table;
}

/* One channel's part of a collective: so many steps to or from a peer, two of them under way at a
 * time, each of them a millisecond with the network. */
static void proxy_op(int is_send, int peer, int steps)
{
	struct nccl_profiler_v5_event e;
	const struct timespec network = {0, 1000000};
	void *op = NULL, *step[2] = {NULL, NULL};

	memset(&e, 0, sizeof(e));
	e.type = NCCL_PROFILE_PROXY_OP;
	e.parent = coll;
	e.proxy_op.pid = getpid();
	e.proxy_op.peer = peer;
	e.proxy_op.channel = 1;
	e.proxy_op.is_send = is_send;
	((nccl_profiler_v5_start_fn)table->start)(context, &op, &e);
	for (int i = 0; i < steps + 1; i++) {
		size_t bytes = 4096 * (size_t)(i + 1);

		if (i < steps) {
			e.type = NCCL_PROFILE_PROXY_STEP;
			e.parent = op;
			e.proxy_step.step = i;
			((nccl_profiler_v5_start_fn)table->start)(context, &step[i % 2], &e);
			table->record(step[i % 2], 8, NULL); /* waits for the GPU */
			table->record(step[i % 2], NCCL_PROFILE_STATE_SEND_WAIT, &bytes);
		}
		nanosleep(&network, NULL);
		if (i)
			table->stop(step[(i - 1) % 2]);
	}
	table->stop(op);
}

static void *proxy_main(void *unused)
{
	proxy_op(1, 3, 5);
	proxy_op(0, 2, 5);
	proxy_op(1, 4, 0); /* nothing to send */
	return NULL;
}

#define NAMED(call, f, d) ((call).func = (f), (call).datatype = (d))
#define DRIVE(v, coll_func, send_func, dtype)                                                      \
	static void drive_v##v(void)                                                               \
	{                                                                                          \
		struct nccl_profiler_v##v##_event e;                                               \
		void *p2p = NULL;                                                                  \
                                                                                                   \
		memset(&e, 0xff, sizeof(e)); /* padding is not zero in real life */                \
		e.type = NCCL_PROFILE_COLL;                                                        \
		e.parent = NULL;                                                                   \
		e.coll.seq = 70 + v;                                                               \
		e.coll.count = 1000 + v;                                                           \
		e.coll.root = v;                                                                   \
		NAMED(e.coll, coll_func, dtype);                                                   \
		expect(!((nccl_profiler_v##v##_start_fn)table->start)(context, &coll, &e),         \
		       "start");                                                                   \
		expect(coll != NULL, "a handle");                                                  \
		e.type = NCCL_PROFILE_P2P;                                                         \
		e.parent = coll;                                                                   \
		e.p2p.count = 50;                                                                  \
		e.p2p.peer = 2;                                                                    \
		NAMED(e.p2p, send_func, dtype);                                                    \
		((nccl_profiler_v##v##_start_fn)table->start)(context, &p2p, &e);                  \
		expect(p2p &&p2p != coll, "another handle");                                       \
		table->stop(p2p);                                                                  \
		table->stop(coll);                                                                 \
		/* late, as NCCL does with kernel channels */                                      \
		expect(!table->record(coll, NCCL_PROFILE_STATE_KERNEL_CH_STOP, NULL), "late");     \
		expect(!table->stop(coll), "stopped twice");                                       \
		expect(!table->stop((void *)0x1234567890), "a strange handle");                    \
		expect(!table->stop(NULL) && !table->record(NULL, 1, NULL), "no handle");          \
	}
DRIVE(1, 4, 6, 7) /* NCCL's numbers of all-reduce, send and float32 */
DRIVE(2, "AllReduce", "Send", "ncclFloat32")
DRIVE(3, "AllReduce", "Send", "ncclFloat32")
DRIVE(4, "AllReduce", "Send", "ncclFloat32")
DRIVE(5, "AllReduce", "Send", "ncclFloat32")
DRIVE(6, "AllReduce", "Send", "ncclFloat32")

#define EARLY(v)                                                                                   \
	do {                                                                                       \
		if (find("ncclProfiler_v" #v)) {                                                   \
			((nccl_profiler_v##v##_init_fn)table->init)(&context, &mask);              \
			expect(context &&mask, "init");                                            \
			drive_v##v();                                                              \
			table->finalize(context);                                                  \
		}                                                                                  \
	} while (0)
#define LATE(v)                                                                                    \
	do {                                                                                       \
		if (find("ncclProfiler_v" #v)) {                                                   \
			((nccl_profiler_v##v##_init_fn)table->init)(&context, 0xc0 + v, &mask,     \
								    "name", 1, 8, 3, NULL);        \
			expect(context &&mask, "init");                                            \
			drive_v##v();                                                              \
		}                                                                                  \
	} while (0)

static uint64_t channels_until_ns, channels_poll_ns;

static void *channels_main(void *unused)
{
	struct nccl_profiler_v5_event e;
	uint64_t from, end_ns;

	while ((from = clock_monotonic_ns()) < channels_until_ns) {
		void *kernel = NULL;

		memset(&e, 0, sizeof(e));
		e.type = NCCL_PROFILE_COLL;
		NAMED(e.coll, "AllReduce", "ncclFloat32");
		((nccl_profiler_v5_start_fn)table->start)(context, &coll, &e);
		table->stop(coll);
		if (__atomic_load_n(&mask, __ATOMIC_RELAXED) & NCCL_PROFILE_KERNEL_CH) {
			e.type = NCCL_PROFILE_KERNEL_CH;
			e.parent = coll;
			e.kernel_ch.channel = 2;
			e.kernel_ch.timer = from;
			((nccl_profiler_v5_start_fn)table->start)(context, &kernel, &e);
			while ((end_ns = clock_monotonic_ns()) < from + channels_poll_ns)
				;
			table->record(kernel, NCCL_PROFILE_STATE_KERNEL_CH_STOP, &end_ns);
			table->stop(kernel);
		}
		clock_sleep_until(from + 5000000);
	}
	return NULL;
}

static int channels(int ms, int poll_us)
{
	pthread_t proxy;

	if (!find("ncclProfiler_v5"))
		return 1;
	((nccl_profiler_v5_init_fn)table->init)(&context, 0xc5, &mask, "name", 1, 8, 3, NULL);
	printf("mask=%#x", (unsigned)mask);
	channels_until_ns = clock_monotonic_ns() + (uint64_t)ms * 1000000;
	channels_poll_ns = (uint64_t)poll_us * 1000;
	pthread_create(&proxy, NULL, channels_main, NULL);
	pthread_join(proxy, NULL);
	printf(" at the end %#x\n", (unsigned)mask);
	table->finalize(context);
	return 0;
}

int main(int argc, char **argv)
{
	struct timespec pause = {0, 150000000};
	struct nccl_profiler_v5_event e;
	void *foreign = NULL;
	pthread_t proxy;

	if (argc == 4 && !strcmp(argv[1], "channels"))
		return channels(atoi(argv[2]), atoi(argv[3]));
	EARLY(1);
	EARLY(2);
	EARLY(3);
	if (find("ncclProfiler_v4")) {
		((nccl_profiler_v4_init_fn)table->init)(&context, &mask, "name", 0xc4, 1, 8, 3,
							NULL);
		drive_v4();
	}
	LATE(6);
	LATE(5);
	memset(&e, 0, sizeof(e));
	e.type = NCCL_PROFILE_COLL;
	e.coll.seq = 99;
	NAMED(e.coll, "ReduceScatter", "ncclBfloat16");
	((nccl_profiler_v5_start_fn)table->start)(context, &coll, &e);
	/* its enqueue ends before the proxy has begun */
	table->stop(coll);
	pthread_create(&proxy, NULL, proxy_main, NULL);
	pthread_join(proxy, NULL);
	/* another process's operation on our proxy: its context and parent are pointers of its own */
	e.type = NCCL_PROFILE_PROXY_OP;
	e.parent = (void *)0x7f0000001000;
	e.proxy_op.pid = 1;
	e.proxy_op.is_send = 1;
	((nccl_profiler_v5_start_fn)table->start)((void *)0x7f0000002000, &foreign, &e);
	table->stop(foreign);
	for (int i = 0; i < 20000; i++) {
		e.type = NCCL_PROFILE_PROXY_STEP;
		((nccl_profiler_v5_start_fn)table->start)(context, &foreign, &e);
		if (i % 2)
			table->stop(foreign);
	}
	nanosleep(&pause, NULL);
	printf("mask=%#x bad=%d\n", (unsigned)mask, bad);
	return bad != 0;
}
