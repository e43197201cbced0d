/* SPDX-License-Identifier: Apache-2.0
 * caller.c - programs that use a GPU in all the ways that matter to the preload, over the null
 * libraries. usage: caller MODE [N]. Prints "key=value" lines that do not depend on the preload. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "foreign/cuda.h"
#include "foreign/nccl.h"
#include "tests/preload/null.h"

static unsigned long results;
static int errno_changed;

static void sleep_ms(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

static void context(void)
{
	cu_context c;

	cuDevicePrimaryCtxRetain(&c, 0);
	cuCtxSetCurrent(c);
}

static void launch_by(cu_launch_kernel_fn fn, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		null_errno = i % 2 ? EXDEV : 0;
		errno = EDOM;
		results += (unsigned long)fn((cu_function)(0x100ul + i), 1 + i, 2, 3, 4, 5, 6, 7,
					     (cu_stream)0x30, (void **)0x40, (void **)0x50);
		errno_changed += errno != (i % 2 ? EXDEV : EDOM);
	}
	results +=
	    1000ul * (unsigned long)fn((cu_function)0xbad, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void report(void)
{
	printf("calls=%lu sum=%lu results=%lu errno_changed=%d\n", null_calls, null_sum, results,
	       errno_changed);
	fflush(stdout);
}

static void mode_linked(unsigned n)
{
	cu_launch_config c = {9, 8, 7, 6, 5, 4, 3, (cu_stream)0x30, NULL, 0};
	cu_deviceptr p = 0;

	context();
	launch_by(cuLaunchKernel, n);
	launch_by(cuLaunchKernel_ptsz, n);
	cuLaunchKernelEx(&c, (cu_function)0x99, NULL, NULL);
	cuLaunchKernelEx_ptsz(&c, (cu_function)0x99, NULL, NULL);
	cuLaunchCooperativeKernel((cu_function)0x98, 1, 2, 3, 4, 5, 6, 7, NULL, (void **)0x40);
	results += (unsigned long)cuMemAlloc_v2(&p, 4096);
	results += (unsigned long)cuMemFree_v2(p);
	results += 7 * (unsigned long)cuMemAlloc_v2(&p, 1ul << 40);
	cuStreamSynchronize((cu_stream)0x30);
	report();
}

static void mode_dlsym(unsigned n)
{
	void *lib = dlopen("libcuda.so.1", RTLD_LAZY);
	cu_launch_kernel_fn fn = (cu_launch_kernel_fn)dlsym(lib, "cuLaunchKernel");

	printf("missing=%d\n", dlsym(lib, "cuLaunchHostFunc_none") != NULL);
	printf("error=%d\n", dlerror() != NULL);
	launch_by(fn, n);
	report();
}

static void mode_gpa(unsigned n)
{
	void *lib = dlopen("libcuda.so.1", RTLD_LAZY), *fn = NULL, *v1 = NULL, *v2 = NULL;
	cu_get_proc_address_v2_fn get =
	    (cu_get_proc_address_v2_fn)dlsym(lib, "cuGetProcAddress_v2");
	int query = -1;

	printf("empty=%d query=%d\n", get("", &fn, 13000, 0, &query), query);
	printf("v1=%d ", get("cuGetProcAddress", &v1, 11030, 0, NULL));
	printf("v2=%d differ=%d\n", get("cuGetProcAddress", &v2, 12000, 0, NULL), v1 != v2);
	get("cuLaunchKernel", &fn, 7000, CU_GPA_PTSZ, &query);
	launch_by((cu_launch_kernel_fn)fn, n);
	((cu_get_proc_address_v1_fn)v1)("cuLaunchKernel", &fn, 7000, 0);
	launch_by((cu_launch_kernel_fn)fn, n);
	((cu_get_proc_address_v2_fn)v2)("cuMemAlloc", &fn, 2000, 0, &query);
	results +=
	    (unsigned long)((cu_result(*)(cu_deviceptr *, unsigned))fn)(&(cu_deviceptr){0}, 5);
	report();
}

static void mode_deepbind(unsigned n)
{
	void *lib = dlopen("libdeep.so", RTLD_NOW | RTLD_DEEPBIND);
	void (*fn)(unsigned) = (void (*)(unsigned))dlsym(lib, "deep_launch");

	context();
	fn(n);
	report();
}

static void mode_fork(unsigned n)
{
	int status;

	context();
	launch_by(cuLaunchKernel, n);
	fflush(stdout);
	if (!fork()) {
		launch_by(cuLaunchKernel, n);
		if (!fork()) {
			execlp("/proc/self/exe", "caller", "linked", "3", NULL);
			_exit(9);
		}
		wait(&status);
		_exit(WEXITSTATUS(status));
	}
	wait(&status);
	printf("child=%d\n", status);
	launch_by(cuLaunchKernel, n);
	report();
	sleep_ms(150);
}

static void *thread_main(void *arg)
{
	launch_by(cuLaunchKernel, 10);
	return arg;
}

static void *default_main(void *arg)
{
	unsigned n = *(unsigned *)arg;

	for (unsigned i = 0; i < n; i++) {
		cuLaunchKernel((cu_function)0x100, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
		cuLaunchKernel_ptsz((cu_function)0x200, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	}
	/* fails: it has no kernel */
	cuLaunchKernel((cu_function)0xbad, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	return arg;
}

/* On default streams, by threads of which only the first has set its context. */
static void mode_defaults(unsigned n)
{
	context();
	default_main(&n);
	for (int k = 0; k < 3; k++) {
		pthread_t t;

		pthread_create(&t, NULL, default_main, &n);
		pthread_join(t, NULL);
	}
	default_main(&n);
	puts("defaults");
}

static void mode_threads(unsigned n)
{
	context();
	for (unsigned i = 0; i < n; i++) {
		pthread_t t[4];

		for (int k = 0; k < 4; k++)
			pthread_create(&t[k], NULL, thread_main, NULL);
		for (int k = 0; k < 4; k++)
			pthread_join(t[k], NULL);
		sleep_ms(5);
	}
	printf("threads=%u\n", 4 * n);
}

static void mode_steady(unsigned ms)
{
	struct timespec a, b;

	context();
	clock_gettime(CLOCK_MONOTONIC, &a);
	do {
		launch_by(cuLaunchKernel, 20);
		cuStreamSynchronize(NULL);
		sleep_ms(5);
		clock_gettime(CLOCK_MONOTONIC, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < (long)ms);
}

static void mode_nccl(unsigned n)
{
	nccl_unique_id id = {"one"}, other = {"two"}, grown = {"grown"};
	nccl_comm world, pair, left, right, unknown;
	int exclude[2] = {3, 1};
	cu_graph graph;
	cu_graph_exec exec;

	context();
	ncclCommInitRank(&world, 4, id, 2);
	ncclCommInitRank(&pair, 2, other, 1);
	ncclCommSplit(world, 0, 0, &left, NULL);
	ncclCommSplit(world, 1, 0, &right, NULL);
	ncclCommSplit(world, -1, 0, &unknown, NULL);
	ncclCommShrink(world, exclude, 2, &unknown, NULL, 0);
	ncclCommGrow(world, 6, &grown, -1, &unknown, NULL);
	ncclCommGrow(NULL, 6, &grown, 5, &unknown, NULL);
	ncclCommGrow(world, 6, NULL, -1, &unknown, NULL);
	for (unsigned i = 0; i < n; i++) {
		ncclAllReduce(NULL, NULL, 100 + i, 7, 0, world, (cu_stream)0x30);
		ncclAllReduce(NULL, NULL, 200 + i, 7, 0, pair, (cu_stream)0x30);
		ncclBroadcast(NULL, NULL, 300, 1, 3, world, (cu_stream)0x30);
		ncclGroupStart();
		ncclSend(NULL, 10, 0, 1, world, (cu_stream)0x30);
		ncclSend(NULL, 10, 0, 3, world, (cu_stream)0x30);
		ncclRecv(NULL, 10, 0, 1, world, (cu_stream)0x30);
		ncclGroupEnd();
	}
	cuStreamBeginCapture_v2((cu_stream)0x30, 0);
	ncclAllReduce(NULL, NULL, 400, 7, 0, world, (cu_stream)0x30);
	cuLaunchKernel((cu_function)0x77, 1, 1, 1, 1, 1, 1, 0, (cu_stream)0x30, NULL, NULL);
	ncclAllReduce(NULL, NULL, 401, 7, 0, world, (cu_stream)0x30);
	cuStreamEndCapture((cu_stream)0x30, &graph);
	cuGraphInstantiateWithFlags(&exec, graph, 0);
	for (int i = 0; i < 3; i++)
		cuGraphLaunch(exec, (cu_stream)0x30);
	ncclAllReduce(NULL, NULL, 500, 7, 0, world, (cu_stream)0x30);
	cuGraphExecDestroy(exec);
	ncclCommDestroy(pair);
	printf("nccl=%lu bad=%d\n", null_nccl_calls,
	       ncclAllReduce(NULL, NULL, 1, 7, 0, NULL, NULL));
}

static void mode_steps(unsigned n)
{
	void (*begin)(const double *, unsigned) =
	    (void (*)(const double *, unsigned))dlsym(RTLD_DEFAULT, "sysom_step_begin");
	void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "sysom_step_end");
	void (*span)(const char *) =
	    (void (*)(const char *))dlsym(RTLD_DEFAULT, "sysom_span_begin");
	void (*span_end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "sysom_span_end");

	for (unsigned i = 0; begin && i < n; i++) {
		begin((double[]){i, 2.5}, 2);
		span("outer");
		span("inner");
		span_end();
		span_end();
		end();
	}
	sleep_ms(200);
}

/* A random mix of threads, drawn from a seed: waves of threads that start together, each with its
 * own number of launches and pauses. Prints how many launches it made; the first ones race into the
 * process's first GPU use, or with SYSOM_TEST_WARM come after it, as they do in CUDA, where a launch
 * needs a context. SYSOM_TEST_THREADS: at most so many at a time. */
struct storm {
	pthread_barrier_t *start;
	unsigned seed, launches, pause_us;
};

static void *storm_main(void *arg)
{
	struct storm *s = arg;

	pthread_barrier_wait(s->start);
	for (unsigned i = 0; i < s->launches; i++) {
		cuLaunchKernel((cu_function)(0x100ul + i % 8), 1, 1, 1, 1, 1, 1, 0, NULL, NULL,
			       NULL);
		if (s->pause_us && rand_r(&s->seed) % 8 == 0)
			nanosleep(&(struct timespec){0, (long)s->pause_us * 1000}, NULL);
	}
	return NULL;
}

static void mode_storm(unsigned seed)
{
	const char *text = getenv("SYSOM_TEST_THREADS");
	unsigned threads_max = text ? (unsigned)atoi(text) : 8;
	static struct storm storms[1024];
	static pthread_t threads[1024];
	unsigned long launched = 0;

	if (getenv("SYSOM_TEST_WARM"))
		context();
	for (unsigned wave = 1 + rand_r(&seed) % 4; wave-- > 0;) {
		unsigned count = 1 + rand_r(&seed) % threads_max;
		pthread_barrier_t start;

		pthread_barrier_init(&start, NULL, count);
		for (unsigned i = 0; i < count; i++) {
			storms[i] = (struct storm){&start, seed + i, rand_r(&seed) % 200,
						   rand_r(&seed) % 2 ? rand_r(&seed) % 3000 : 0};
			launched += storms[i].launches;
			if (pthread_create(&threads[i], NULL, storm_main, &storms[i]))
				exit(3);
		}
		for (unsigned i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&start);
		if (rand_r(&seed) % 2)
			sleep_ms(rand_r(&seed) % 150);
	}
	printf("launched=%lu\n", launched);
}

static void *hammer_main(void *arg)
{
	unsigned long bad = 0;

	for (unsigned i = 0; i < 30000; i++) {
		bad += cuLaunchKernel((cu_function)(0x100ul + i % 64), 1, 1, 1, 1, 1, 1, 0, NULL,
				      NULL, NULL) != CU_OK;
		if (i % 50 == 0) {
			cuStreamSynchronize(NULL);
			sleep_ms(3);
		}
	}
	return (void *)bad;
}

/* Six threads at it while tracing is switched, sysomd hangs up, and children come and go. */
static void mode_hammer(unsigned n)
{
	pthread_t t[6];
	unsigned long bad = 0;
	void *res;

	context();
	for (int i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, hammer_main, NULL);
	for (unsigned i = 0; i < n; i++) {
		int status = 0;

		if (!fork()) {
			launch_by(cuLaunchKernel, 100);
			_exit(0);
		}
		wait(&status);
		bad += status != 0;
		sleep_ms(50);
	}
	for (int i = 0; i < 6; i++) {
		pthread_join(t[i], &res);
		bad += (unsigned long)res;
	}
	printf("bad=%lu\n", bad);
}

/* Daemons close every descriptor, ours too, and get the numbers again for their own files. */
static void mode_closefds(unsigned n)
{
	char text[8] = "";
	int pair[64][2];
	bool kept = true;

	context();
	launch_by(cuLaunchKernel, n);
	sleep_ms(300);
	close_range(3, ~0u, 0);
	for (int i = 0; i < 64; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair[i]))
			return;
		if (write(pair[i][0], "hello", 5) != 5)
			return;
	}
	sleep_ms(500);
	launch_by(cuLaunchKernel, n);
	for (int i = 0; i < 64; i++) {
		kept &= read(pair[i][1], text, sizeof(text)) == 5 && !memcmp(text, "hello", 5);
		/* nothing of anybody else's in it */
		kept &= recv(pair[i][1], text, sizeof(text), MSG_DONTWAIT) < 0 && errno == EAGAIN;
	}
	printf("kept=%d\n", kept);
}

static void mode_quiet(unsigned n)
{
	/* no library in the process but what was linked: does the preload invent functions? */
	printf("cupti=%d\n", dlsym(RTLD_DEFAULT, "cuptiSubscribe") != NULL);
	printf("alltoall=%d\n", dlsym(RTLD_DEFAULT, "ncclAlltoAll") != NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(unsigned);
	} modes[] = {
	    {"linked", mode_linked},	 {"dlsym", mode_dlsym},	  {"gpa", mode_gpa},
	    {"deepbind", mode_deepbind}, {"fork", mode_fork},	  {"defaults", mode_defaults},
	    {"threads", mode_threads},	 {"steady", mode_steady}, {"nccl", mode_nccl},
	    {"steps", mode_steps},	 {"quiet", mode_quiet},	  {"closefds", mode_closefds},
	    {"hammer", mode_hammer},	 {"storm", mode_storm}};
	unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 5;

	for (unsigned i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name))
			continue;
		modes[i].run(n);
		fflush(stdout);
		/* a sysomd must have had a chance to see us */
		sleep_ms(60);
		if (argc > 3 && !strcmp(argv[3], "stay")) /* some ticks of the helper */
			sleep_ms(500);
		if (argc > 3 && !strcmp(argv[3], "_exit"))
			_exit(0);
		if (argc > 3 && !strcmp(argv[3], "kill"))
			raise(SIGKILL);
		return 0;
	}
	return 2;
}
