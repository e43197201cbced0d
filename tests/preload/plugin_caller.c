/* SPDX-License-Identifier: Apache-2.0
 * plugin_caller.c - drives the profiler plugin as NCCL does, in every version and in the bad ways:
 * a record after the stop, a parent of another process, stops of what was never started, a missing
 * finalize, and another thread. usage: plugin_caller */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "foreign/nccl_profiler_v1.h"
#include "foreign/nccl_profiler_v2.h"
#include "foreign/nccl_profiler_v3.h"
#include "foreign/nccl_profiler_v4.h"
#include "foreign/nccl_profiler_v5.h"
#include "foreign/nccl_profiler_v6.h"

static const struct nccl_profiler_table *table;
static int bad;

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

static void *proxy_main(void *coll)
{
	struct nccl_profiler_v5_event e;
	size_t bytes = 4096;
	void *op;

	memset(&e, 0, sizeof(e));
	e.type = NCCL_PROFILE_PROXY_OP;
	e.parent = coll;
	e.proxy_op.pid = getpid();
	e.proxy_op.peer = 3;
	e.proxy_op.channel = 1;
	((nccl_profiler_v5_start_fn)table->start)(NULL, &op, &e);
	table->record(op, 9, &bytes);
	table->stop(op);
	return NULL;
}

#define DRIVE(v)                                                                                   \
	static void drive_v##v(void *context)                                                      \
	{                                                                                          \
		struct nccl_profiler_v##v##_event e;                                               \
		void *coll = NULL, *p2p = NULL;                                                    \
                                                                                                   \
		memset(&e, 0xff, sizeof(e)); /* padding is not zero in real life */                \
		e.type = NCCL_PROFILE_COLL;                                                        \
		e.parent = NULL;                                                                   \
		e.coll.seq = 70 + v;                                                               \
		e.coll.count = 1000 + v;                                                           \
		e.coll.root = v;                                                                   \
		expect(!((nccl_profiler_v##v##_start_fn)table->start)(context, &coll, &e),         \
		       "start");                                                                   \
		expect(coll != NULL, "a handle");                                                  \
		e.type = NCCL_PROFILE_P2P;                                                         \
		e.parent = coll;                                                                   \
		e.p2p.count = 50;                                                                  \
		e.p2p.peer = 2;                                                                    \
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
DRIVE(1)
DRIVE(2)
DRIVE(3)
DRIVE(4)
DRIVE(5)
DRIVE(6)

#define EARLY(v)                                                                                   \
	do {                                                                                       \
		if (find("ncclProfiler_v" #v)) {                                                   \
			((nccl_profiler_v##v##_init_fn)table->init)(&context, &mask);              \
			expect(context &&mask, "init");                                            \
			drive_v##v(context);                                                       \
			table->finalize(context);                                                  \
		}                                                                                  \
	} while (0)
#define LATE(v)                                                                                    \
	do {                                                                                       \
		if (find("ncclProfiler_v" #v)) {                                                   \
			((nccl_profiler_v##v##_init_fn)table->init)(&context, 0xc0 + v, &mask,     \
								    "name", 1, 8, 3, NULL);        \
			expect(context &&mask, "init");                                            \
			drive_v##v(context);                                                       \
		}                                                                                  \
	} while (0)

int main(void)
{
	struct timespec pause = {0, 150000000};
	struct nccl_profiler_v5_event e;
	void *context = NULL, *coll = NULL, *foreign = NULL;
	pthread_t proxy;
	int mask = 0;

	EARLY(1);
	EARLY(2);
	EARLY(3);
	if (find("ncclProfiler_v4")) {
		((nccl_profiler_v4_init_fn)table->init)(&context, &mask, "name", 0xc4, 1, 8, 3,
							NULL);
		drive_v4(context);
	}
	LATE(6);
	LATE(5);
	memset(&e, 0, sizeof(e));
	e.type = NCCL_PROFILE_COLL;
	((nccl_profiler_v5_start_fn)table->start)(context, &coll, &e);
	pthread_create(&proxy, NULL, proxy_main, coll);
	pthread_join(proxy, NULL);
	/* another process's operation on our proxy: its context and parent are pointers of its own */
	e.type = NCCL_PROFILE_PROXY_OP;
	e.parent = (void *)0x7f0000001000;
	e.proxy_op.pid = 1;
	((nccl_profiler_v5_start_fn)table->start)((void *)0x7f0000002000, &foreign, &e);
	table->stop(foreign);
	table->stop(coll);
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
