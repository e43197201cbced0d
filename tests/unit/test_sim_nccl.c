/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "foreign/cupti.h"
#include "foreign/nccl_profiler.h"
#include "tests/unit/sim_child.h"

#define RANKS 4
#define MS    1000000ull

struct span {
	uint64_t start, end;
	char name[64];
};

/* What the ranks report to the test. */
struct shared {
	nccl_unique_id id;
	uint32_t ready;
	uint32_t finished[RANKS];
	unsigned span_count[RANKS];
	struct span spans[RANKS][64];
	int split_rank[RANKS], split_count[RANKS];
};

static struct shared *shared;

static struct {
	struct sim_cuda cuda;
	void *nccl;
	int rank;
	nccl_comm comm;
	cu_stream stream;
	cu_function kernel;
	cupti_activity_next_record_fn next;
	cupti_activity_flush_all_fn flush;
	nccl_result (*all_reduce)(const void *, void *, size_t, unsigned, unsigned, nccl_comm,
				  cu_stream);
	nccl_result (*send)(const void *, size_t, unsigned, int, nccl_comm, cu_stream);
	nccl_result (*recv)(void *, size_t, unsigned, int, nccl_comm, cu_stream);
	nccl_result (*group_start)(void);
	nccl_result (*group_end)(void);
	nccl_result (*split)(nccl_comm, int, int, nccl_comm *, void *);
	nccl_result (*abort)(nccl_comm);
} r;

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void pause_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

static void requested(uint8_t **buffer, size_t *bytes, size_t *max)
{
	*bytes = 65536;
	*buffer = aligned_alloc(8, *bytes);
	*max = 0;
}

static void completed(void *c, uint32_t s, uint8_t *buffer, size_t bytes, size_t valid)
{
	void *record = NULL;

	while (r.next(buffer, valid, &record) == CUPTI_OK) {
		cupti_kernel *k = record;
		unsigned *n = &shared->span_count[r.rank];

		if (strncmp(k->name, "nccl", 4) || *n == 64)
			continue;
		shared->spans[r.rank][*n].start = k->start;
		shared->spans[r.rank][*n].end = k->end;
		snprintf(shared->spans[r.rank][*n].name, 64, "%s", k->name);
		(*n)++;
	}
	free(buffer);
}

static void join(int rank)
{
	nccl_result (*init)(nccl_comm *, int, nccl_unique_id, int);
	void *cupti;

	r.rank = rank;
	setenv("SIM_NCCL_JITTER_NS", "0", 1);
	sim_cuda_open(&r.cuda, rank);
	r.nccl = sim_library("libnccl.so.2");
	cupti = sim_library("libcupti.so.13");
	*(void **)&r.next = sim_symbol(cupti, "cuptiActivityGetNextRecord");
	*(void **)&r.flush = sim_symbol(cupti, "cuptiActivityFlushAll");
	SIM_CALL(cupti, cupti_activity_register_callbacks_fn, "cuptiActivityRegisterCallbacks")
	(requested, completed);
	SIM_CALL(cupti, cupti_timestamp_callback_fn, "cuptiActivityRegisterTimestampCallback")
	(monotonic);
	SIM_CALL(cupti, cupti_activity_enable_fn, "cuptiActivityEnable")(10);
	*(void **)&init = sim_symbol(r.nccl, "ncclCommInitRank");
	*(void **)&r.all_reduce = sim_symbol(r.nccl, "pncclAllReduce");
	*(void **)&r.send = sim_symbol(r.nccl, "ncclSend");
	*(void **)&r.recv = sim_symbol(r.nccl, "ncclRecv");
	*(void **)&r.group_start = sim_symbol(r.nccl, "ncclGroupStart");
	*(void **)&r.group_end = sim_symbol(r.nccl, "ncclGroupEnd");
	*(void **)&r.split = sim_symbol(r.nccl, "ncclCommSplit");
	*(void **)&r.abort = sim_symbol(r.nccl, "ncclCommAbort");
	if (rank == 0) {
		EXPECT(SIM_CALL(r.nccl, nccl_result(*)(nccl_unique_id *),
				"ncclGetUniqueId")(&shared->id) == 0);
		__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE))
		pause_ms(1);
	EXPECT(init(&r.comm, RANKS, shared->id, rank) == 0 && r.comm);
	EXPECT(r.cuda.stream_create(&r.stream, 1) == 0);
	r.kernel = sim_kernel(&r.cuda, "compute");
}

/* Runs fn in RANKS processes; the number that failed. `left` may be running still. */
static int run_ranks(void (*fn)(int), pid_t *left)
{
	pid_t pids[RANKS];
	int failed = 0, status;

	memset(shared, 0, sizeof(*shared));
	for (int i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			alarm(20);
			join(i);
			fn(i);
			__atomic_store_n(&shared->finished[i], 1, __ATOMIC_RELEASE);
			_exit(0);
		}
	}
	for (int i = 0; i < RANKS; i++) {
		if (left) {
			left[i] = pids[i];
			continue;
		}
		failed += waitpid(pids[i], &status, 0) != pids[i] || status;
	}
	return failed;
}

static void reduce(size_t floats)
{
	EXPECT(r.all_reduce(NULL, NULL, floats, 7, 0, r.comm, r.stream) == 0);
}

/* Rank i computes longer by i * 20 ms before the k-th collective, k counting up. */
static void late_ranks(int rank)
{
	for (int k = 0; k < 3; k++) {
		sim_launch(&r.cuda, r.kernel, (1 + 20 * (uint64_t)((rank + k) % RANKS)) * MS,
			   r.stream);
		reduce(1 << 20);
	}
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
	EXPECT(r.flush(0) == 0);
}

static void a_collective_ends_everywhere_at_once_and_is_shortest_for_the_last(void **state)
{
	assert_int_equal(run_ranks(late_ranks, NULL), 0);
	for (int k = 0; k < 3; k++) {
		uint64_t latest = 0, shortest = UINT64_MAX;
		int last = -1, brief = -1;

		for (int i = 0; i < RANKS; i++) {
			struct span *s = &shared->spans[i][k];
			int64_t apart = (int64_t)(s->end - shared->spans[0][k].end);

			assert_int_equal(shared->span_count[i], 3);
			assert_non_null(strstr(s->name, "AllReduce_Sum_f32"));
			/* The stamps pass through each process's own interpolation. */
			assert_true(apart > -100000 && apart < 100000);
			if (s->start > latest)
				latest = s->start, last = i;
			if (s->end - s->start < shortest)
				shortest = s->end - s->start, brief = i;
		}
		assert_int_equal(last, brief);
		/* The first one starts as the processes do; later ones when the GPUs get there. */
		if (k)
			assert_int_equal(last, RANKS - 1 - k);
	}
}

static void captured(int rank)
{
	cu_result (*begin)(cu_stream, int), (*end)(cu_stream, cu_graph *);
	cu_result (*make)(cu_graph_exec *, cu_graph, unsigned long long);
	cu_graph_launch_fn launch;
	cu_graph_exec e;
	cu_graph g;

	*(void **)&begin = sim_symbol(r.cuda.lib, "cuStreamBeginCapture_v2");
	*(void **)&end = sim_symbol(r.cuda.lib, "cuStreamEndCapture");
	*(void **)&make = sim_symbol(r.cuda.lib, "cuGraphInstantiateWithFlags");
	*(void **)&launch = sim_symbol(r.cuda.lib, "cuGraphLaunch");
	EXPECT(begin(r.stream, 0) == 0);
	sim_launch(&r.cuda, r.kernel, (1 + (uint64_t)rank) * MS, r.stream);
	reduce(1024);
	sim_launch(&r.cuda, r.kernel, MS, r.stream);
	reduce(2048);
	EXPECT(end(r.stream, &g) == 0 && make(&e, g, 0) == 0);
	reduce(4096); /* an eager one before the replays */
	for (int i = 0; i < 5; i++)
		EXPECT(launch(e, r.stream) == 0);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
	EXPECT(r.flush(0) == 0);
}

static void captured_collectives_meet_at_every_replay(void **state)
{
	assert_int_equal(run_ranks(captured, NULL), 0);
	for (int i = 0; i < RANKS; i++)
		assert_int_equal(shared->span_count[i], 11);
	for (int k = 0; k < 11; k++)
		for (int i = 1; i < RANKS; i++) {
			int64_t apart =
			    (int64_t)(shared->spans[i][k].end - shared->spans[0][k].end);

			assert_true(apart > -100000 && apart < 100000);
		}
}

static void messages(int rank)
{
	/* A ring, then everybody with everybody in one group. */
	for (int k = 0; k < 50; k++) {
		EXPECT(r.group_start() == 0);
		EXPECT(r.send(NULL, 1000, 7, (rank + 1) % RANKS, r.comm, r.stream) == 0);
		EXPECT(r.recv(NULL, 1000, 7, (rank + RANKS - 1) % RANKS, r.comm, r.stream) == 0);
		EXPECT(r.group_end() == 0);
	}
	EXPECT(r.group_start() == 0);
	for (int i = 0; i < RANKS; i++) {
		EXPECT(r.send(NULL, 1000, 7, i, r.comm, r.stream) == 0);
		EXPECT(r.recv(NULL, 1000, 7, i, r.comm, r.stream) == 0);
	}
	EXPECT(r.group_end() == 0);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
	EXPECT(r.flush(0) == 0);
}

static void messages_pair_up_and_a_group_is_one_kernel(void **state)
{
	assert_int_equal(run_ranks(messages, NULL), 0);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(shared->span_count[i], 51);
		assert_non_null(strstr(shared->spans[i][50].name, "SendRecv"));
	}
}

static void split(int rank)
{
	nccl_comm half = NULL;
	nccl_result (*count)(nccl_comm, int *), (*user)(nccl_comm, int *);

	*(void **)&count = sim_symbol(r.nccl, "ncclCommCount");
	*(void **)&user = sim_symbol(r.nccl, "ncclCommUserRank");
	/* Even and odd ranks, in reverse order; rank 3 stays out. */
	EXPECT(r.split(r.comm, rank == 3 ? NCCL_SPLIT_NO_COLOR : rank % 2, -rank, &half, NULL) ==
	       0);
	EXPECT((half == NULL) == (rank == 3));
	if (!half)
		return;
	EXPECT(count(half, &shared->split_count[rank]) == 0);
	EXPECT(user(half, &shared->split_rank[rank]) == 0);
	for (int i = 0; i < 400; i++)
		EXPECT(r.all_reduce(NULL, NULL, 8, 7, 0, half, r.stream) == 0);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
}

static void a_split_groups_by_color_and_orders_by_key(void **state)
{
	assert_int_equal(run_ranks(split, NULL), 0);
	assert_int_equal(shared->split_count[0], 2);
	assert_int_equal(shared->split_rank[0], 1);
	assert_int_equal(shared->split_rank[2], 0);
	assert_int_equal(shared->split_count[1], 1);
	assert_int_equal(shared->split_rank[1], 0);
}

static void shrink(int rank)
{
	nccl_result (*less)(nccl_comm, int *, int, nccl_comm *, void *, int);
	nccl_result (*count)(nccl_comm, int *), (*user)(nccl_comm, int *);
	int gone[] = {1};
	nccl_comm rest = NULL;

	*(void **)&less = sim_symbol(r.nccl, "ncclCommShrink");
	*(void **)&count = sim_symbol(r.nccl, "ncclCommCount");
	*(void **)&user = sim_symbol(r.nccl, "ncclCommUserRank");
	if (rank == 1) {
		EXPECT(less(r.comm, gone, 1, &rest, NULL, 0) == NCCL_INVALID_ARGUMENT);
		return;
	}
	EXPECT(less(r.comm, gone, 1, &rest, NULL, 0) == 0);
	EXPECT(count(rest, &shared->split_count[rank]) == 0);
	EXPECT(user(rest, &shared->split_rank[rank]) == 0);
	for (int i = 0; i < 20; i++)
		EXPECT(r.all_reduce(NULL, NULL, 8, 7, 0, rest, r.stream) == 0);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
}

static void a_shrink_closes_the_ranks_up(void **state)
{
	assert_int_equal(run_ranks(shrink, NULL), 0);
	assert_int_equal(shared->split_count[0], RANKS - 1);
	assert_int_equal(shared->split_rank[0], 0);
	assert_int_equal(shared->split_rank[2], 1);
	assert_int_equal(shared->split_rank[3], 2);
}

static void nobody_ends(void (*rank)(int))
{
	pid_t pids[RANKS];

	run_ranks(rank, pids);
	pause_ms(1000);
	for (int i = 0; i < RANKS; i++) {
		assert_int_equal(__atomic_load_n(&shared->finished[i], __ATOMIC_ACQUIRE), 0);
		assert_int_equal(waitpid(pids[i], NULL, WNOHANG), 0);
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

static void stuck(int rank)
{
	reduce(1024);
	if (rank == 2)
		pause();
	reduce(1024);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
}

static void a_rank_that_never_arrives_holds_the_others(void **state)
{
	nobody_ends(stuck);
}

static void differs(int rank)
{
	reduce(1024);
	if (rank == 2)
		EXPECT(SIM_CALL(r.nccl,
				nccl_result(*)(const void *, void *, size_t, unsigned, nccl_comm,
					       cu_stream),
				"ncclAllGather")(NULL, NULL, 1024, 7, r.comm, r.stream) == 0);
	else
		reduce(1024);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
}

static void ranks_that_call_different_functions_never_end(void **state)
{
	nobody_ends(differs);
}

static void abandoned(int rank)
{
	if (rank == 1)
		raise(SIGKILL);
	reduce(1024);
	pause_ms(200);
	EXPECT(r.cuda.stream_query(r.stream) == CU_NOT_READY);
	EXPECT(r.abort(r.comm) == 0);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
}

static void an_abort_frees_ranks_whose_peer_died(void **state)
{
	/* The killed rank is the one that fails. */
	assert_int_equal(run_ranks(abandoned, NULL), 1);
	assert_int_equal(shared->finished[0] + shared->finished[2] + shared->finished[3], 3);
}

/* ---- a profiler plugin in the program ---- */

static struct {
	int inits, starts, stops, kernels, finals;
	uint64_t next_seq;
	pthread_t user;
	bool proxy_elsewhere;
} plugin;

static nccl_result plugin_init(void **context, int *mask, const char *name, uint64_t hash,
			       int nodes, int ranks, int rank, void *log)
{
	EXPECT(ranks == RANKS && nodes == 1 && hash);
	plugin.inits++;
	plugin.user = pthread_self();
	*context = &plugin;
	*mask = NCCL_PROFILE_GROUP | NCCL_PROFILE_COLL | NCCL_PROFILE_KERNEL_CH;
	return NCCL_OK;
}

static nccl_result plugin_start(void *context, void **handle, struct nccl_profiler_v4_event *e)
{
	EXPECT(context == &plugin);
	*handle = &plugin;
	if (e->type == NCCL_PROFILE_COLL) {
		EXPECT(!strcmp(e->coll.func, "AllReduce") && e->coll.count == 1024);
		EXPECT(!strcmp(e->coll.datatype, "ncclFloat32"));
		EXPECT(e->coll.seq == plugin.next_seq++ && e->parent == &plugin);
	} else if (e->type == NCCL_PROFILE_KERNEL_CH) {
		EXPECT(e->parent == &plugin && e->kernel_ch.timer);
		plugin.proxy_elsewhere = !pthread_equal(pthread_self(), plugin.user);
		__atomic_add_fetch(&plugin.kernels, 1, __ATOMIC_RELEASE);
	}
	__atomic_add_fetch(&plugin.starts, 1, __ATOMIC_RELAXED);
	return NCCL_OK;
}

static nccl_result plugin_stop(void *handle)
{
	EXPECT(handle == &plugin);
	__atomic_add_fetch(&plugin.stops, 1, __ATOMIC_RELEASE);
	return NCCL_OK;
}

static nccl_result plugin_state(void *handle, int state, void *args)
{
	EXPECT(state == NCCL_PROFILE_STATE_KERNEL_CH_STOP && *(uint64_t *)args);
	return NCCL_OK;
}

static nccl_result plugin_final(void *context)
{
	plugin.finals++;
	return NCCL_OK;
}

extern struct nccl_profiler_table ncclProfiler_v4;
__attribute__((visibility("default"))) struct nccl_profiler_table ncclProfiler_v4 = {
    "test", plugin_init, plugin_start, plugin_stop, plugin_state, plugin_final};

static void profiled(int rank)
{
	for (int i = 0; i < 10; i++)
		reduce(1024);
	EXPECT(r.cuda.stream_sync(r.stream) == 0);
	for (int i = 0; i < 5000 && __atomic_load_n(&plugin.stops, __ATOMIC_ACQUIRE) < 30; i++)
		pause_ms(1);
	EXPECT(plugin.inits == 1 && plugin.next_seq == 10 && plugin.kernels == 10);
	EXPECT(plugin.starts == 30 && plugin.stops == 30 && plugin.proxy_elsewhere);
	EXPECT(SIM_CALL(r.nccl, nccl_result(*)(nccl_comm), "ncclCommDestroy")(r.comm) == 0);
	EXPECT(plugin.finals == 1);
}

static void a_profiler_plugin_hears_of_operations_and_kernels(void **state)
{
	setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1);
	assert_int_equal(run_ranks(profiled, NULL), 0);
	setenv("NCCL_PROFILER_PLUGIN", "none", 1);
}

static void every_device(void *arg)
{
	nccl_result (*init)(nccl_comm *, int, const int *);
	nccl_result (*start)(void), (*end)(void);
	nccl_result (*reduce_all)(const void *, void *, size_t, unsigned, unsigned, nccl_comm,
				  cu_stream);
	nccl_comm comms[4];
	cu_context c[4];
	cu_stream s[4];
	void *lib;

	sim_cuda_open(&r.cuda, 0);
	lib = sim_library("libnccl.so.2");
	*(void **)&init = sim_symbol(lib, "ncclCommInitAll");
	*(void **)&start = sim_symbol(lib, "ncclGroupStart");
	*(void **)&end = sim_symbol(lib, "ncclGroupEnd");
	*(void **)&reduce_all = sim_symbol(lib, "ncclAllReduce");
	EXPECT(init(comms, 4, NULL) == 0);
	for (int i = 0; i < 4; i++) {
		EXPECT(SIM_CALL(r.cuda.lib, cu_result(*)(cu_context *, int),
				"cuDevicePrimaryCtxRetain")(&c[i], i) == 0);
		EXPECT(SIM_CALL(r.cuda.lib, cu_result(*)(cu_context), "cuCtxSetCurrent")(c[i]) ==
		       0);
		EXPECT(r.cuda.stream_create(&s[i], 1) == 0);
	}
	EXPECT(start() == 0);
	for (int i = 0; i < 4; i++)
		EXPECT(reduce_all(NULL, NULL, 1024, 7, 0, comms[i], s[i]) == 0);
	EXPECT(end() == 0);
	for (int i = 0; i < 4; i++)
		EXPECT(r.cuda.stream_sync(s[i]) == 0);
}

static void one_process_may_hold_every_rank(void **state)
{
	assert_int_equal(sim_child(every_device, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_collective_ends_everywhere_at_once_and_is_shortest_for_the_last),
	    cmocka_unit_test(captured_collectives_meet_at_every_replay),
	    cmocka_unit_test(messages_pair_up_and_a_group_is_one_kernel),
	    cmocka_unit_test(a_split_groups_by_color_and_orders_by_key),
	    cmocka_unit_test(a_shrink_closes_the_ranks_up),
	    cmocka_unit_test(a_rank_that_never_arrives_holds_the_others),
	    cmocka_unit_test(ranks_that_call_different_functions_never_end),
	    cmocka_unit_test(an_abort_frees_ranks_whose_peer_died),
	    cmocka_unit_test(one_process_may_hold_every_rank),
	    cmocka_unit_test(a_profiler_plugin_hears_of_operations_and_kernels),
	};

	setenv("NCCL_PROFILER_PLUGIN", "none", 1);

	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
