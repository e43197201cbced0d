/* SPDX-License-Identifier: Apache-2.0
 * Records of switches, against what the threads did and what the kernel counts of them: children of this
 * program sleep, wait, are preempted and stopped in known ways. Without BPF the records are made up. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <arpa/inet.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "sampler/sampler.h"
#include "sampler/stacks/switches.h"
#include "tests/unit/skip.h"

#define SLEEPS	    25
#define READS	    100
#define SENDS	    300
#define SLEEP_NS    20000000ull
#define WAKES	    30
#define DOZES	    300
#define STALLS	    6
#define STALL_EVERY 7 /* sleeps, of which one is long */
#define FLOOD	    60000
#define RATE	    1000u
#define SLACK_NS    5000000ull
/* Of each of these `near` allows 3%. */
#define SWITCH_SLACK_NS 20000ull

/* ---- made-up records ---- */

static struct sampler_switch made(uint32_t tid, uint64_t out_ns, uint64_t in_ns)
{
	return (struct sampler_switch){.tid = tid,
				       .kind = SAMPLER_SWITCH_RECORD,
				       .state = SAMPLER_SWITCH_INTERRUPTIBLE,
				       .out_ns = out_ns,
				       .in_ns = in_ns,
				       .woken_ns = in_ns - 1};
}

static struct sampler_switch_thread row_of(uint32_t pid, uint32_t tid, uint32_t phase,
					   uint64_t out_ns)
{
	return (struct sampler_switch_thread){
	    .tid = tid,
	    .pid = pid,
	    .phase = phase,
	    .since_ns = 5,
	    .out_ns = out_ns,
	    .state = SAMPLER_SWITCH_INTERRUPTIBLE,
	    .skipped = {.tid = tid, .kind = SAMPLER_SWITCH_SKIPPED}};
}

static bool no_stack(void *arg, const struct sampler_key *k, uint32_t *stack)
{
	return false;
}

static void put(struct switches *s, struct sampler_switch r)
{
	switches_put(s, &r, SAMPLER_SWITCH_BARE_BYTES);
}

static uint64_t batch_ns(const struct stack_batch *b, uint32_t tid, uint64_t *count)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < b->switch_count; i++) {
		if (b->switches[i].tid != tid)
			continue;
		for (int k = 0; k < STACK_SWITCH_STATES; k++)
			ns += b->switches[i].ns[k];
		*count += b->switches[i].count;
	}
	return ns;
}

static void orders_what_comes_cpu_by_cpu(void **state)
{
	struct switches *s;
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(switches_open(&s), 0);
	assert_int_equal(switches_add(s, 7, 8), 1);
	assert_int_equal(switches_add(s, 7, 7), 1);
	assert_int_equal(switches_add(s, 7, 7), 0);
	put(s, made(7, 300, 400));
	put(s, made(8, 50, 60));
	put(s, made(7, 100, 200));
	put(s, made(9, 100, 200)); /* nobody's */
	assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
	assert_int_equal(b.switch_count, 3);
	assert_int_equal(b.switches[0].out_ns, 100);
	assert_int_equal(b.switches[1].out_ns, 300);
	assert_int_equal(b.switches[2].tid, 8);
	assert_int_equal(b.switches[0].ns[STACK_SWITCH_INTERRUPTIBLE], 99);
	assert_int_equal(b.switches[0].ns[STACK_SWITCH_WOKEN], 1);
	assert_true(stack_batch_valid(&b));
	stack_batch_fini(&b);
	switches_close(s);
}

/* Off the CPU over two drains, and then in a record, or only in the sums. */
static void reports_time_once_however_it_ends(void **state)
{
	for (int folded = 0; folded < 2; folded++) {
		struct sampler_switch_thread row = row_of(7, 7, SAMPLER_SWITCH_OFF, 100);
		uint64_t count = 0;
		struct stack_batch b;
		struct switches *s;

		stack_batch_init(&b, keyed_process());
		assert_int_equal(switches_open(&s), 0);
		assert_int_equal(switches_add(s, 7, 7), 1);
		switches_row(s, 7, &row, 1000);
		assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
		switches_row(s, 7, &row, 2000);
		assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
		assert_int_equal(batch_ns(&b, 7, &count), 1900);
		assert_int_equal(count, 0);
		if (folded) {
			row.skipped.from_ns = 100;
			row.skipped.until_ns = 2600;
			row.skipped.ns[STACK_SWITCH_INTERRUPTIBLE] = 2450;
			row.skipped.count[SAMPLER_SWITCH_PACED] = 2;
		} else {
			put(s, made(7, 100, 2500));
			put(s, made(7, 2550, 2600));
		}
		row.phase = SAMPLER_SWITCH_ON;
		switches_row(s, 7, &row, 3000);
		assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
		switches_row(s, 7, &row, 4000);
		assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
		assert_int_equal(batch_ns(&b, 7, &count), 2450);
		assert_int_equal(count, 2);
		stack_batch_fini(&b);
		switches_close(s);
	}
}

/* Told with the time off the CPU that follows, once; what was folded has sums. */
static void reports_what_was_taken_once(void **state)
{
	struct sampler_switch_thread row = row_of(7, 7, SAMPLER_SWITCH_OFF, 100);
	struct sampler_switch r = made(7, 100, 900);
	uint64_t soft = 0, throttled = 0, faults = 0;
	struct stack_batch b;
	struct switches *s;

	r.state = SAMPLER_SWITCH_RUNNABLE;
	r.woken_ns = 0;
	r.taken = (struct sampler_switch_taken){
	    .ns = {[SAMPLER_TAKEN_NET_RX] = 40, [SAMPLER_TAKEN_THROTTLED] = 600}, .faults = 3};
	row.taken = r.taken;
	row.taken.ns[SAMPLER_TAKEN_THROTTLED] = 0;
	row.state = SAMPLER_SWITCH_RUNNABLE;
	stack_batch_init(&b, keyed_process());
	assert_int_equal(switches_open(&s), 0);
	assert_int_equal(switches_add(s, 7, 7), 1);
	switches_row(s, 7, &row, 500); /* still throttled */
	assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
	switches_put(s, &r, sizeof(r));
	row.phase = SAMPLER_SWITCH_ON;
	row.skipped.from_ns = 1000;
	row.skipped.until_ns = 1100;
	row.skipped.count[SAMPLER_SWITCH_PACED] = 2;
	row.skipped.taken_ns[SAMPLER_TAKEN_NET_RX] = 5ull << 32;
	row.skipped.faults = 4;
	switches_row(s, 7, &row, 2000);
	assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
	switches_row(s, 7, &row, 3000);
	assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
	assert_int_equal(b.switch_count, 3);
	for (uint32_t i = 0; i < b.switch_count; i++) {
		assert_true(b.switches[i].flags & STACK_SWITCH_COUNTED);
		soft += b.switches[i].taken_ns[STACK_TAKEN_NET_RX];
		throttled += b.switches[i].taken_ns[STACK_TAKEN_THROTTLED];
		faults += b.switches[i].faults;
	}
	assert_int_equal(soft, 40ull + UINT32_MAX); /* as much as fits */
	assert_int_equal(throttled, 200); /* 100 to 700, of which 500 to 700 was not reported yet */
	assert_int_equal(faults, 7);
	stack_batch_fini(&b);
	switches_close(s);
}

static void folds_what_finds_no_room(void **state)
{
	uint64_t count = 0, most = LIMIT_SAMPLER_SWITCHES + 1000;
	struct sampler_switch_thread row = row_of(7, 7, SAMPLER_SWITCH_ON, 0);
	struct switches_stats stats;
	struct stack_batch b;
	struct switches *s;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(switches_open(&s), 0);
	assert_int_equal(switches_add(s, 7, 7), 1);
	for (uint64_t i = 0; i < most; i++)
		put(s, made(7, 100 + 20 * i, 110 + 20 * i));
	switches_row(s, 7, &row, 100 + 20 * most);
	assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
	assert_int_equal(batch_ns(&b, 7, &count), most * 10);
	assert_int_equal(count, most);
	assert_int_equal(b.switch_count, LIMIT_SAMPLER_SWITCHES + 1);
	assert_true(b.switches[LIMIT_SAMPLER_SWITCHES].flags & STACK_SWITCH_FOLDED);
	assert_int_equal(b.switches[LIMIT_SAMPLER_SWITCHES].in_ns, 110 + 20 * (most - 1));
	switches_stats_get(s, &stats);
	assert_int_equal(stats.folded[STACK_SWITCH_NO_ROOM], 1000);
	stack_batch_fini(&b);
	switches_close(s);
}

static bool none_gone(void *arg, uint32_t pid, uint32_t tid)
{
	return false;
}

static void has_room_for_so_many_threads_and_no_more(void **state)
{
	uint32_t first, tid;
	struct stack_batch b;
	struct switches *s;
	uint8_t noise[100];

	stack_batch_init(&b, keyed_process());
	assert_int_equal(switches_open(&s), 0);
	for (uint32_t i = 0; i < SAMPLER_SWITCH_THREADS; i++)
		assert_int_equal(switches_add(s, 1 + i / 2, 1 + i), 1);
	assert_int_equal(switches_add(s, 9999, 9999), -ENOSPC);
	assert_int_equal(switches_add(s, 9999, 3), -EAGAIN);
	switches_end_process(s, 1);
	for (int i = 0; i < 2; i++)
		assert_true(switches_gone(s, none_gone, NULL, &first, &tid));
	assert_false(switches_gone(s, none_gone, NULL, &first, &tid));
	assert_int_equal(switches_add(s, 9999, 9999), 1);
	/* whatever bytes come */
	for (size_t i = 0; i < 200000; i++) {
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)(k < 4    ? (k ? 0 : i)
					     : k == 4 ? 1 + i % 3
						      : (size_t)rand());
		switches_put(s, noise, i % (sizeof(noise) + 1));
	}
	assert_int_equal(switches_drain(s, &b, no_stack, NULL), 0);
	assert_true(stack_batch_valid(&b));
	stack_batch_fini(&b);
	switches_close(s);
}

/* ---- children ---- */

struct page { /* shared with a child */
	volatile uint32_t ready, done;
	volatile uint32_t tid[5];
	volatile uint32_t futex[2];
	volatile uint64_t begin_ns[SLEEPS], end_ns[SLEEPS];
	volatile uint64_t spins;
};

static struct sampler *shared; /* by all cases of a group */
static struct page *page;
static int go[2];	     /* a byte lets the child go on */
static int ping[2], pong[2]; /* to a thread that answers */
static pid_t children[4];
static uint32_t child_count;

static void wait_go(void)
{
	char c;

	page->ready++;
	while (read(go[0], &c, 1) != 1)
		;
}

static void spin_ns(uint64_t ns)
{
	uint64_t end_ns = clock_monotonic_ns() + ns;

	while (clock_monotonic_ns() < end_ns)
		page->spins++;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void child_sleeps(void)
{
	wait_go();
	for (int i = 0; i < SLEEPS; i++) {
		struct timespec t = {.tv_nsec = (long)SLEEP_NS};

		page->begin_ns[i] = clock_monotonic_ns();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		page->end_ns[i] = clock_monotonic_ns();
		spin_ns(4000000);
	}
	page->done = 1;
	wait_go();
}

/* Reads past the page cache, in the working directory: /tmp may be in memory. begin_ns[0]: how many of the
 * reads waited for a device, by the kernel's counts: a fast device is done before some of them sleep. */
static void child_reads(void)
{
	char path[] = "sysom-test-switches-XXXXXX";
	void *block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = mkstemp(path), direct = open(path, O_RDONLY | O_DIRECT);
	struct rusage before, after;

	unlink(path);
	for (int i = 0; i < READS; i++)
		if (write(fd, block, 4096) != 4096)
			_exit(1);
	fsync(fd);
	wait_go();
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < READS && direct >= 0; i++)
		if (pread(direct, block, 4096, i * 4096L) != 4096)
			_exit(1);
	getrusage(RUSAGE_SELF, &after);
	page->begin_ns[0] = (uint64_t)MIN((after.ru_inblock - before.ru_inblock) / 8,
					  after.ru_nvcsw - before.ru_nvcsw);
	page->done = 1;
	wait_go();
}

static void child_sleeps_long(void)
{
	struct timespec t = {.tv_sec = 1};

	wait_go();
	page->begin_ns[0] = clock_monotonic_ns();
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	page->end_ns[0] = clock_monotonic_ns();
	page->done = 1;
	wait_go();
}

/* At one place: short sleeps far apart, and then a long one. */
static void child_stalls(void)
{
	wait_go();
	for (int i = 0; i < STALLS * STALL_EVERY; i++) {
		struct timespec t = {.tv_nsec = (i + 1) % STALL_EVERY ? 100000 : (long)SLEEP_NS};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		spin_ns(25000000);
	}
	page->done = 1;
	wait_go();
}

static void futex_hand(int to)
{
	page->futex[to]++;
	syscall(SYS_futex, &page->futex[to], FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* At one place: sleeps of 0.2 ms, one after the other. */
static void child_dozes(void)
{
	wait_go();
	for (int i = 0; i < DOZES; i++) {
		struct timespec t = {.tv_nsec = 200000};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	page->done = 1;
	wait_go();
}

static void *waker_main(void *arg)
{
	struct timespec t = {.tv_nsec = 5000000};

	page->tid[1] = (uint32_t)syscall(SYS_gettid);
	while (page->futex[0] < WAKES) {
		nanosleep(&t, NULL);
		futex_hand(0);
	}
	return NULL;
}

static void child_waits(void)
{
	pthread_t waker;

	page->tid[0] = (uint32_t)syscall(SYS_gettid);
	wait_go();
	pthread_create(&waker, NULL, waker_main, NULL);
	for (uint32_t i = 0; (i = page->futex[0]) < WAKES;)
		syscall(SYS_futex, &page->futex[0], FUTEX_WAIT, i, NULL, NULL, 0);
	pthread_join(waker, NULL);
	page->done = 1;
	wait_go();
}

/* Who answers 5 ms later: a thread, a child, a child's child by a pipe, a thread by the network. */
enum { BY_THREAD, BY_CHILD, BY_GRANDCHILD, BY_NETWORK, ANSWERERS };
/* Polls of one round: one for each answerer, for a timer's file, for a timeout. */
#define POLLS (ANSWERERS + 2)
static struct answerer {
	int ask[2], answer[2];
} answerers[ANSWERERS];

static void *answerer_main(void *arg)
{
	struct timespec t = {.tv_nsec = 5000000};
	struct answerer *a = arg;
	char c;

	page->tid[1 + (a - answerers)] = (uint32_t)syscall(SYS_gettid);
	while (read(a->ask[0], &c, 1) == 1) {
		nanosleep(&t, NULL);
		if (write(a->answer[1], "", 1) != 1)
			break;
	}
	return NULL;
}

static void udp_pair(int fd[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(at);

	fd[0] = socket(AF_INET, SOCK_DGRAM, 0);
	fd[1] = socket(AF_INET, SOCK_DGRAM, 0);
	if (bind(fd[0], (void *)&at, sizeof(at)) || getsockname(fd[0], (void *)&at, &bytes) ||
	    connect(fd[1], (void *)&at, sizeof(at)))
		_exit(1);
}

/* fork(); the child ends with its parent. */
static pid_t fork_to_die(void)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
	}
	return pid;
}

static void answerer_start(struct answerer *a)
{
	pthread_t thread;

	if (pipe(a->ask) || (a != &answerers[BY_NETWORK] && pipe(a->answer)))
		_exit(1);
	if (a == &answerers[BY_NETWORK])
		udp_pair(a->answer);
	if (a == &answerers[BY_THREAD] || a == &answerers[BY_NETWORK]) {
		pthread_create(&thread, NULL, answerer_main, a);
	} else if (!fork_to_die()) {
		if (a == &answerers[BY_CHILD] || !fork_to_die())
			answerer_main(a);
		pause();
		_exit(0);
	}
}

/* Waits of 5 ms for any of several, ended in turn by their timeout, a timer's file and each answerer. */
static void child_polls(void)
{
	struct itimerspec once = {.it_value.tv_nsec = 5000000}, never = {.it_value.tv_sec = 0};
	struct pollfd any[ANSWERERS + 1];
	char c;

	for (int i = 0; i < ANSWERERS; i++) {
		answerer_start(&answerers[i]);
		any[i] = (struct pollfd){.fd = answerers[i].answer[0], .events = POLLIN};
	}
	any[ANSWERERS] =
	    (struct pollfd){.fd = timerfd_create(CLOCK_MONOTONIC, 0), .events = POLLIN};
	wait_go();
	for (int i = 0; i < SLEEPS; i++) {
		struct answerer *a = i % POLLS < ANSWERERS ? &answerers[i % POLLS] : NULL;

		if (i % POLLS == ANSWERERS)
			timerfd_settime(any[ANSWERERS].fd, 0, &once, NULL);
		if (a && write(a->ask[1], "", 1) != 1)
			_exit(1);
		page->begin_ns[i] = clock_monotonic_ns();
		poll(any, ANSWERERS + 1, i % POLLS == POLLS - 1 ? 5 : -1);
		page->end_ns[i] = clock_monotonic_ns();
		timerfd_settime(any[ANSWERERS].fd, 0, &never, NULL);
		if (a && read(a->answer[0], &c, 1) != 1)
			_exit(1);
	}
	page->done = 1;
	wait_go();
}

static void child_spins(void)
{
	pin(0);
	page->ready++;
	for (;;)
		spin_ns(1000000);
}

static void child_hogs(void)
{
	pin(0);
	wait_go();
	for (;;)
		spin_ns(1000000);
}

/* Two threads of one CPU that wake each other and sleep. */
static void *echo_main(void *arg)
{
	char c;

	pin(0);
	while (read(ping[0], &c, 1) == 1 && write(pong[1], &c, 1) == 1)
		;
	return NULL;
}

static void child_floods(void)
{
	pthread_t echo;
	char c = 0;

	pin(0);
	if (pipe(ping) || pipe(pong) || pthread_create(&echo, NULL, echo_main, NULL))
		_exit(1);
	wait_go();
	for (int i = 0; i < FLOOD; i++)
		if (write(ping[1], &c, 1) != 1 || read(pong[0], &c, 1) != 1)
			_exit(1);
	page->done = 1;
	wait_go();
}

/* Touches fresh pages, and sends itself datagrams: the kernel hands those over in a soft interrupt. */
static void child_faults_and_sends(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(to);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct rusage before, after;

	if (fd < 0 || bind(fd, (void *)&to, sizeof(to)) || getsockname(fd, (void *)&to, &bytes))
		_exit(1);
	wait_go();
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < SENDS; i++) {
		volatile char *at =
		    mmap(NULL, 40960, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (int k = 0; k < 10; k++)
			at[k * 4096] = 1;
		munmap((void *)at, 40960);
		for (int k = 0; k < 20; k++)
			if (sendto(fd, "", 1, 0, (void *)&to, sizeof(to)) != 1)
				_exit(1);
		sched_yield();
	}
	getrusage(RUSAGE_SELF, &after);
	page->begin_ns[0] = (uint64_t)(after.ru_minflt - before.ru_minflt);
	page->done = 1;
	wait_go();
}

/* A profiler interrupts it by the clock of its CPU. */
static void child_is_profiled(void)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
				    .size = sizeof(a),
				    .config = PERF_COUNT_SW_CPU_CLOCK,
				    .sample_period = 20000};
	int fd;

	wait_go();
	fd = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		_exit(1);
	for (int i = 0; i < 100; i++) {
		spin_ns(1000000);
		sched_yield();
	}
	close(fd);
	page->done = 1;
	wait_go();
}

static pid_t start(void (*body)(void))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* the sampler's programs stay attached as long as anybody has their links open */
		for (int fd = 3; fd < 1024; fd++)
			if (fd != go[0] && fd != go[1])
				close(fd);
		body();
		_exit(0);
	}
	assert_true(pid > 0);
	children[child_count++] = pid;
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (uint32_t i = 0; i < child_count; i++)
		if (children[i] == pid)
			children[i] = children[--child_count];
}

static int set_up(void **state)
{
	memset(page, 0, sizeof(*page));
	return pipe(go);
}

static int clean_up(void **state)
{
	while (child_count)
		stop(children[0]);
	close(go[0]);
	close(go[1]);
	return 0;
}

/* ---- the kernel's own figures ---- */

struct figures {
	uint64_t cpu_ns, run_delay_ns, switches;
};

static uint64_t status_field(const char *path, const char *name)
{
	char line[256];
	uint64_t value = 0;
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			value = strtoull(line + strlen(name), NULL, 10);
	fclose(f);
	return value;
}

/* Asleep or not, by the letter of its state. */
static char task_letter(pid_t tid)
{
	char path[64], text[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
	return strrchr(text, ')')[2];
}

static void figures_get(pid_t tid, struct figures *out)
{
	unsigned long long run = 0, delay = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)tid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llu %llu", &run, &delay), 2);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	out->cpu_ns = run;
	out->run_delay_ns = delay;
	out->switches = status_field(path, "voluntary_ctxt_switches:") +
			status_field(path, "nonvoluntary_ctxt_switches:");
}

/* ---- running ---- */

struct thread_total { /* of one thread, over batches */
	struct stack_batch batch;
	uint64_t begin_ns, end_ns, count, ns[STACK_SWITCH_STATES], off_ns;
	uint64_t records, paced, ring_full, missed;
};

static void drain(struct thread_total *t, pid_t tid)
{
	struct stack_batch *b = &t->batch;

	stack_batch_clear(b);
	assert_int_equal(sampler_drain(shared, b), 0);
	assert_true(stack_batch_valid(b));
	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];

		if (s->tid != (uint32_t)tid)
			continue;
		t->count += s->count;
		for (int k = 0; k < STACK_SWITCH_STATES; k++) {
			t->ns[k] += s->ns[k];
			t->off_ns += s->ns[k];
		}
	}
	for (uint32_t i = 0; i < b->switch_thread_count; i++) {
		const struct stack_switch_thread *w = &b->switch_threads[i];

		if (w->tid != (uint32_t)tid)
			continue;
		assert_true(!t->end_ns || w->begin_ns == t->end_ns);
		t->begin_ns = t->begin_ns ? t->begin_ns : w->begin_ns;
		t->end_ns = w->end_ns;
		t->records += w->records;
		t->paced += w->folded[STACK_SWITCH_PACED];
		t->ring_full += w->folded[STACK_SWITCH_RING_FULL];
		t->missed += w->missed;
	}
}

static void let_run(int ms)
{
	uint64_t end = clock_monotonic_ns() + (uint64_t)ms * 1000000;

	for (uint64_t now; (now = clock_monotonic_ns()) < end;) {
		struct pollfd p = {.fd = sampler_fd(shared), .events = POLLIN};

		poll(&p, 1, (int)((end - now) / 1000000) + 1);
		sampler_poll(shared);
	}
}

/* Until it sleeps where it waits to be let go. */
static void wait_ready(pid_t tid, uint32_t ready, bool poll_too)
{
	for (int i = 0; i < 3000 && (page->ready < ready || task_letter(tid) != 'S'); i++) {
		if (poll_too)
			let_run(10);
		else
			poll(NULL, 0, 10);
	}
	assert_int_equal(page->ready, ready);
}

static void let_go(void)
{
	assert_int_equal(write(go[1], "", 1), 1);
}

static void record(pid_t pid, pid_t tid, struct thread_total *t)
{
	memset(t, 0, sizeof(*t));
	stack_batch_init(&t->batch, keyed_process());
	assert_int_equal(sampler_record_switches(shared, (uint32_t)pid, (uint32_t)tid, true), 0);
}

static void record_end(pid_t tid, struct thread_total *t)
{
	struct sampler_stats stats;

	sampler_record_switches(shared, 0, (uint32_t)tid, false);
	stack_batch_clear(&t->batch);
	assert_int_equal(sampler_drain(shared, &t->batch), 0);
	sampler_stats_get(shared, &stats);
	assert_int_equal(stats.switch_threads, 0);
	stack_batch_fini(&t->batch);
}

static bool near(uint64_t a, uint64_t b, uint64_t of_ns)
{
	return (a > b ? a - b : b - a) <= of_ns * 3 / 100 + SLACK_NS;
}

/* The figures add up to what the kernel counts, if the thread was off the CPU at both ends. At each
 * wakeup and switch the kernel reads its clock some hundred nanoseconds before or after us, or some
 * microseconds if an interrupt comes between. */
static void check_sums(const struct thread_total *t, const struct figures *a,
		       const struct figures *b)
{
	uint64_t wall_ns = t->end_ns - t->begin_ns, cpu_ns = b->cpu_ns - a->cpu_ns,
		 waited_ns = t->ns[STACK_SWITCH_RUNNABLE] + t->ns[STACK_SWITCH_WOKEN];

	if (t->missed || t->count != b->switches - a->switches)
		print_message("# missed %lu, reported %lu, the kernel's switches %lu\n", t->missed,
			      t->count, b->switches - a->switches);
	print_message(
	    "# %lu switches in %lu records; off the CPU %lu us, by the kernel %lu; runnable "
	    "%lu us, by the kernel %lu; paced %lu, ring full %lu\n",
	    t->count, t->records, t->off_ns / 1000, (wall_ns - cpu_ns) / 1000, waited_ns / 1000,
	    (b->run_delay_ns - a->run_delay_ns) / 1000, t->paced, t->ring_full);
	/* now and then the kernel reports a switch to nobody, and its own time may be all that is known */
	assert_true(t->missed <= 1 + t->count / 10000);
	assert_int_equal(t->count + t->missed, b->switches - a->switches);
	assert_int_equal(t->count, t->records + t->paced + t->ring_full);
	assert_true(t->off_ns <= wall_ns);
	assert_true(near(t->off_ns, wall_ns - cpu_ns, wall_ns + t->count * SWITCH_SLACK_NS));
	assert_true(near(waited_ns, b->run_delay_ns - a->run_delay_ns,
			 wall_ns + t->count * SWITCH_SLACK_NS));
}

/* ---- cases with BPF ---- */

static void knows_which_sleeps_are_for_storage(void **state)
{
	pid_t pid = start(child_reads);
	uint64_t reads = 0, others = 0;
	struct thread_total t;

	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		reads += t.batch.switches[i].state == STACK_SWITCH_IO;
		others += t.batch.switches[i].state == STACK_SWITCH_UNINTERRUPTIBLE;
	}
	print_message(
	    "# %lu reads that waited for the device, %lu sleeps for storage, %lu others\n",
	    (unsigned long)page->begin_ns[0], reads, others);
	assert_true(reads >= page->begin_ns[0] * 9 / 10);
	assert_true(others <= READS / 10);
	record_end(pid, &t);
}

static void reports_each_sleep_and_its_length(void **state)
{
	pid_t pid = start(child_sleeps);
	uint32_t found[SLEEPS] = {0};
	struct figures before, after;
	uint64_t last_ns = 0, sleeps = 0, late = 0;
	struct thread_total t;

	wait_ready(pid, 1, true);
	figures_get(pid, &before);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	figures_get(pid, &after);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		assert_true(s->out_ns >= last_ns && s->in_ns >= s->out_ns);
		last_ns = s->in_ns;
		assert_int_equal(s->flags & STACK_SWITCH_BEGUN, i ? 0 : STACK_SWITCH_BEGUN);
		for (int k = 0; k < SLEEPS; k++) {
			if (s->out_ns < page->begin_ns[k] || s->in_ns > page->end_ns[k] ||
			    s->state != STACK_SWITCH_INTERRUPTIBLE)
				continue;
			found[k]++;
			/* from when it looked at the clock to when it slept it may have been preempted */
			assert_true(s->in_ns - s->out_ns <= page->end_ns[k] - page->begin_ns[k]);
			assert_true(s->in_ns >= page->begin_ns[k] + SLEEP_NS);
			/* its wakeup came between two clock readings that the kernel reported late */
			if (s->woken_ns <= s->out_ns || s->woken_ns > s->in_ns) {
				late++;
				continue;
			}
			assert_int_equal(s->ns[STACK_SWITCH_INTERRUPTIBLE],
					 s->woken_ns - s->out_ns);
			assert_int_equal(s->ns[STACK_SWITCH_WOKEN], s->in_ns - s->woken_ns);
		}
	}
	for (int k = 0; k < SLEEPS; k++)
		sleeps += found[k];
	/* a switch that the kernel does not report (record_missed_in) ends when the scheduler says,
	 * which may be after it looked at the clock */
	assert_in_range(sleeps + t.missed, SLEEPS - 1, SLEEPS);
	assert_true(late <= 1);
	check_sums(&t, &before, &after);
	record_end(pid, &t);
}

static void knows_who_woke_it_and_where_it_slept(void **state)
{
	uint64_t waits = 0, right = 0, other = 0, stacks = 0;
	struct figures before, after;
	pid_t pid = start(child_waits);
	struct thread_total t;

	assert_int_equal(sampler_add(shared, (uint32_t)pid, false), 0);
	wait_ready(pid, 1, true);
	let_run(500); /* its mappings */
	figures_get(pid, &before);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	figures_get(pid, &after);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		if (s->state != STACK_SWITCH_INTERRUPTIBLE || !s->count ||
		    s->in_ns - s->out_ns < 3000000 || s->flags & STACK_SWITCH_BEGUN)
			continue;
		waits++;
		right += s->waker_tid == page->tid[1];
		other += s->waker_tid && s->waker_tid != page->tid[1];
		stacks +=
		    s->stack != STACK_SWITCH_NO_STACK && t.batch.stacks[s->stack].kernel_count > 0;
	}
	print_message(
	    "# %lu waits, %lu woken by the thread that did, %lu by another; %lu with stacks\n",
	    waits, right, other, stacks);
	assert_true(waits >= WAKES / 2);
	/* on a busy machine another wakeup comes between now and then */
	assert_true(right * 10 >= waits * 9);
	assert_true(stacks * 10 >= waits * 9);
	check_sums(&t, &before, &after);
	sampler_remove(shared, (uint32_t)pid);
	record_end(pid, &t);
}

static void knows_what_ended_a_poll(void **state)
{
	static const uint32_t how[ANSWERERS] = {
	    [BY_CHILD] = STACK_WAKER_PROCESS | STACK_WAKER_CHILD,
	    [BY_GRANDCHILD] = STACK_WAKER_PROCESS | STACK_WAKER_CHILD,
	    [BY_NETWORK] = STACK_WAKER_NETWORK};
	uint32_t polls = 0, right = 0;
	pid_t pid = start(child_polls);
	struct thread_total t;

	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		for (int k = 0; k < SLEEPS; k++) {
			if (s->out_ns < page->begin_ns[k] || s->in_ns > page->end_ns[k] ||
			    s->state != STACK_SWITCH_INTERRUPTIBLE ||
			    s->in_ns - s->out_ns < 3000000)
				continue;
			polls++;
			right += s->waker_tid == (k % POLLS < ANSWERERS
						      ? page->tid[1 + k % POLLS] | how[k % POLLS]
						      : STACK_WAKER_TIMER);
		}
	}
	print_message("# %u polls, of %u it is known what ended them\n", polls, right);
	assert_true(polls >= SLEEPS - 2);
	assert_true(right * 10 >= polls * 9);
	record_end(pid, &t);
}

/* What the child slept for at least so long while it was recorded, and how often its place in the kernel is
 * known. */
struct slept {
	uint64_t sleeps, stacks, missed;
};

static struct slept sleeps_of(void (*child)(void), uint64_t least_ns)
{
	pid_t pid = start(child);
	struct slept n = {0};
	struct thread_total t;

	assert_int_equal(sampler_add(shared, (uint32_t)pid, false), 0);
	wait_ready(pid, 1, true);
	let_run(500); /* its mappings */
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		if (s->state != STACK_SWITCH_INTERRUPTIBLE || s->in_ns - s->out_ns < least_ns ||
		    s->flags & STACK_SWITCH_BEGUN)
			continue;
		n.sleeps++;
		n.stacks +=
		    s->stack != STACK_SWITCH_NO_STACK && t.batch.stacks[s->stack].kernel_count > 0;
	}
	n.missed = t.missed;
	sampler_remove(shared, (uint32_t)pid);
	record_end(pid, &t);
	return n;
}

static void knows_where_a_rare_long_sleep_was(void **state)
{
	struct slept n = sleeps_of(child_stalls, SLEEP_NS);

	print_message("# %lu long sleeps among short ones, %lu with stacks\n", n.sleeps, n.stacks);
	assert_true(n.sleeps + n.missed >= STALLS);
	assert_int_equal(n.stacks, n.sleeps);
}

static void knows_what_short_sleeps_are_for(void **state)
{
	struct slept n = sleeps_of(child_dozes, 200000);

	print_message("# %lu short sleeps, %lu with the place in the kernel\n", n.sleeps, n.stacks);
	assert_true(n.sleeps >= DOZES / 2);
	assert_true(n.stacks >= n.sleeps * 9 / 10);
}

struct preempted {
	uint64_t times, by_hog, ns, hogged_ns;
};

static void preempted_add(struct preempted *n, const struct stack_batch *b, pid_t hog)
{
	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];

		if (s->state != STACK_SWITCH_RUNNABLE || s->flags & STACK_SWITCH_FOLDED)
			continue;
		assert_int_equal(s->woken_ns, 0);
		assert_int_equal(s->waker_tid, 0);
		assert_int_equal(s->cpu, 0);
		assert_int_equal(s->ns[STACK_SWITCH_RUNNABLE], s->in_ns - s->out_ns);
		n->times++;
		n->ns += s->in_ns - s->out_ns;
		if (s->next_tid != (uint32_t)hog)
			continue;
		n->by_hog++;
		n->hogged_ns += s->in_ns - s->out_ns;
	}
}

static void knows_who_had_the_cpu_instead(void **state)
{
	pid_t hog = start(child_hogs), pid;
	struct preempted n = {0};
	struct figures before, after;
	struct thread_total t;
	uint64_t kernel_ns;

	wait_ready(hog, 1, true);
	let_go();
	pid = start(child_spins);
	let_run(50);
	figures_get(pid, &before);
	record(pid, pid, &t);
	/* others of this CPU may be first, and the hog after them: on a busy machine nearly always */
	for (int k = 0; k < 20 && (n.times <= 10 || !n.by_hog); k++) {
		let_run(1500);
		figures_get(pid, &after);
		drain(&t, pid);
		preempted_add(&n, &t.batch, hog);
	}
	kernel_ns = after.run_delay_ns - before.run_delay_ns;
	print_message(
	    "# preempted %lu times for %lu us, %lu us of that by the hog; run queue %lu us\n",
	    n.times, n.ns / 1000, n.hogged_ns / 1000, kernel_ns / 1000);
	assert_true(n.times > 10 && n.by_hog > 0);
	/* a switch that the kernel does not report makes a wait of a run: on a busy machine some */
	assert_true(t.ns[STACK_SWITCH_RUNNABLE] * 10 >= kernel_ns * 6);
	assert_true(t.ns[STACK_SWITCH_RUNNABLE] * 10 <= kernel_ns * 16);
	record_end(pid, &t);
}

static bool put_text(const char *dir, const char *name, const char *text)
{
	char path[128];
	int fd;
	bool good;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return good;
}

static uint64_t group_count(const char *dir, const char *field)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cpu.stat", dir);
	return status_field(path, field);
}

/* 10 ms of each 50, alone in its group: what the group counts on one CPU is the thread's. */
static void knows_that_it_was_throttled(void **state)
{
	char dir[64], text[16];
	uint64_t throttled = 0, runnable = 0, group_ns = 0, times = 0, group_times = 0;
	struct thread_total t;
	pid_t pid;

	snprintf(dir, sizeof(dir), "/sys/fs/cgroup/cpu/sysom-test-%d", (int)getpid());
	if (mkdir(dir, 0755))
		skip_needs("file:/sys/fs/cgroup/cpu/cgroup.procs");
	if (put_text(dir, "cpu.cfs_period_us", "50000") &&
	    put_text(dir, "cpu.cfs_quota_us", "10000")) {
		pid = start(child_spins);
		while (!page->ready)
			let_run(10);
		snprintf(text, sizeof(text), "%d", (int)pid);
		assert_true(put_text(dir, "tasks", text));
		record(pid, pid, &t);
		let_run(100);
		drain(&t, pid);
		group_ns = group_count(dir, "throttled_time ");
		group_times = group_count(dir, "nr_throttled ");
		let_run(1500);
		group_ns = group_count(dir, "throttled_time ") - group_ns;
		group_times = group_count(dir, "nr_throttled ") - group_times;
		drain(&t, pid);
		for (uint32_t i = 0; i < t.batch.switch_count; i++) {
			const struct stack_switch *s = &t.batch.switches[i];

			if (s->tid != (uint32_t)pid)
				continue;
			times += s->taken_ns[STACK_TAKEN_THROTTLED] > 0;
			throttled += s->taken_ns[STACK_TAKEN_THROTTLED];
			runnable += s->ns[STACK_SWITCH_RUNNABLE] + s->ns[STACK_SWITCH_WOKEN];
			assert_true(s->taken_ns[STACK_TAKEN_THROTTLED] <=
				    s->ns[STACK_SWITCH_RUNNABLE] + s->ns[STACK_SWITCH_WOKEN]);
		}
		record_end(pid, &t);
		stop(pid);
	}
	rmdir(dir);
	print_message("# throttled %lu times, %lu us of %lu us runnable; by the group's count %lu "
		      "times, %lu us\n",
		      times, throttled / 1000, runnable / 1000, group_times, group_ns / 1000);
	assert_true(times > 0 && times + 2 >= group_times && times <= group_times + 2);
	/* at both ends one period may be cut */
	assert_true(throttled + 100000000 >= group_ns && throttled <= group_ns + 100000000);
}

static void knows_its_page_faults_and_soft_interrupts(void **state)
{
	uint64_t taken[STACK_TAKEN_KINDS] = {0}, faults = 0, on_ns;
	pid_t pid = start(child_faults_and_sends);
	struct thread_total t;

	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		if (s->tid != (uint32_t)pid)
			continue;
		assert_true(s->flags & STACK_SWITCH_COUNTED);
		faults += s->faults;
		for (int k = 0; k < STACK_TAKEN_KINDS; k++)
			taken[k] += s->taken_ns[k];
	}
	on_ns = t.end_ns - t.begin_ns - t.off_ns;
	print_message(
	    "# %lu page faults, %lu by the kernel's count; soft interrupts of %lu us on the CPU:"
	    " NET_RX %lu us, TIMER %lu, SCHED %lu, RCU %lu; devices %lu us\n",
	    faults, page->begin_ns[0], on_ns / 1000, taken[STACK_TAKEN_NET_RX] / 1000,
	    taken[STACK_TAKEN_TIMER] / 1000, taken[STACK_TAKEN_SCHED] / 1000,
	    taken[STACK_TAKEN_RCU] / 1000, taken[STACK_TAKEN_DEVICE] / 1000);
	/* a few more on its way to where it sleeps; a missed switch loses none */
	assert_true(page->begin_ns[0] >= 10 * SENDS);
	assert_in_range(faults, page->begin_ns[0], page->begin_ns[0] + 200);
	assert_true(taken[STACK_TAKEN_NET_RX] > 20 * SENDS * 100ull);
	assert_true(taken[STACK_TAKEN_NET_RX] < on_ns);
	record_end(pid, &t);
}

static void knows_the_interrupts_of_its_cpus_clock(void **state)
{
	pid_t pid = start(child_is_profiled);
	struct thread_total t;
	uint64_t taken = 0, on_ns;

	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++)
		if (t.batch.switches[i].tid == (uint32_t)pid)
			taken += t.batch.switches[i].taken_ns[STACK_TAKEN_DEVICE];
	on_ns = t.end_ns - t.begin_ns - t.off_ns;
	print_message("# interrupts of %lu us in %lu us on the CPU\n", taken / 1000, on_ns / 1000);
	/* at least 0.2 us each */
	assert_true(taken > on_ns / 100 && taken < on_ns);
	record_end(pid, &t);
}

static void knows_that_it_was_stopped(void **state)
{
	uint64_t stop_ns, cont_ns, stopped_ns = 0, times = 0;
	pid_t pid = start(child_spins);
	struct thread_total t;

	while (!page->ready)
		let_run(10);
	record(pid, pid, &t);
	let_run(50);
	stop_ns = clock_monotonic_ns();
	kill(pid, SIGSTOP);
	for (int i = 0; i < 500 && task_letter(pid) != 'T'; i++)
		let_run(10);
	let_run(200);
	cont_ns = clock_monotonic_ns();
	kill(pid, SIGCONT);
	let_run(100);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		if (s->state != STACK_SWITCH_STOPPED)
			continue;
		times++;
		stopped_ns += s->ns[STACK_SWITCH_STOPPED];
		assert_true(s->out_ns >= stop_ns && s->woken_ns >= cont_ns);
		assert_int_equal(s->waker_tid, (uint32_t)syscall(SYS_gettid) | STACK_WAKER_PROCESS);
	}
	print_message("# stopped %lu us of at most %lu\n", stopped_ns / 1000,
		      (cont_ns - stop_ns) / 1000);
	assert_int_equal(times, 1);
	assert_true(stopped_ns >= 200000000);
	record_end(pid, &t);
}

/* Its sleep would be over while it is frozen. Before Linux 6.1 it is woken to be frozen, at a place of its
 * own. */
static void knows_that_it_was_frozen(void **state)
{
	char dir[64], text[16];
	uint64_t frozen = 0;
	struct thread_total t;
	pid_t pid;

	snprintf(dir, sizeof(dir), "/sys/fs/cgroup/freezer/sysom-test-%d", (int)getpid());
	if (mkdir(dir, 0755))
		skip_needs("file:/sys/fs/cgroup/freezer/cgroup.procs");
	pid = start(child_sleeps_long);
	wait_ready(pid, 1, true);
	snprintf(text, sizeof(text), "%d", (int)pid);
	assert_true(put_text(dir, "tasks", text));
	record(pid, pid, &t);
	let_go();
	let_run(300);
	assert_true(put_text(dir, "freezer.state", "FROZEN"));
	let_run(1200);
	assert_true(put_text(dir, "freezer.state", "THAWED"));
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		if (s->tid == (uint32_t)pid && s->in_ns - s->out_ns > 1100000000)
			frozen += s->state == STACK_SWITCH_STOPPED ||
				  s->state == STACK_SWITCH_UNINTERRUPTIBLE;
	}
	record_end(pid, &t);
	stop(pid);
	rmdir(dir);
	assert_int_equal(frozen, 1);
}

/* More switches than its rate: none is lost, and the sums say what the records don't. */
static void paces_a_flood_and_counts_all(void **state)
{
	struct figures before, after;
	pid_t pid = start(child_floods);
	uint64_t seconds;
	struct thread_total t;

	wait_ready(pid, 1, true);
	figures_get(pid, &before);
	record(pid, pid, &t);
	let_go();
	for (int i = 0; i < 3000 && (page->ready < 2 || task_letter(pid) != 'S'); i++) {
		let_run(20);
		if (i % 10 == 9)
			drain(&t, pid);
	}
	figures_get(pid, &after);
	drain(&t, pid);
	check_sums(&t, &before, &after);
	assert_true(t.count > FLOOD);
	assert_true(t.paced > 0);
	seconds = (t.end_ns - t.begin_ns) / 1000000000 + 1;
	assert_true(t.records <= RATE * (seconds + 1));
	record_end(pid, &t);
}

/* Nobody empties the ring. */
static void counts_what_the_ring_has_no_room_for(void **state)
{
	struct sampler *group = shared;
	struct sampler_options o;
	struct sampler_stats stats;
	struct figures before, after;
	pid_t pid = start(child_floods);
	struct thread_total t;

	sampler_stats_get(group, &stats);
	sampler_options_init(&o);
	o.mode_max = stats.mode;
	o.python = false;
	o.switch_rate_max = 100000;
	assert_int_equal(sampler_open(&shared, &o), 0);
	wait_ready(pid, 1, true);
	figures_get(pid, &before);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, false);
	figures_get(pid, &after);
	drain(&t, pid);
	check_sums(&t, &before, &after);
	assert_true(t.ring_full > 0);
	record_end(pid, &t);
	sampler_close(shared);
	shared = group;
}

static void cuts_a_sleep_at_the_drains(void **state)
{
	uint64_t slept_ns = 0, until_ns = 0, pieces = 0;
	pid_t pid = start(child_sleeps_long);
	struct thread_total t;

	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	for (int i = 0; i < 300 && page->ready < 2; i++) {
		let_run(100);
		drain(&t, pid);
		for (uint32_t k = 0; k < t.batch.switch_count; k++) {
			const struct stack_switch *s = &t.batch.switches[k];

			if (s->in_ns <= page->begin_ns[0] ||
			    (page->end_ns[0] && s->out_ns >= page->end_ns[0]))
				continue;
			if (s->flags & STACK_SWITCH_CONTINUED)
				assert_int_equal(s->out_ns, until_ns);
			until_ns = s->in_ns;
			pieces++;
			slept_ns += s->ns[STACK_SWITCH_INTERRUPTIBLE];
		}
	}
	print_message("# slept %lu us in %lu pieces\n", slept_ns / 1000, pieces);
	assert_true(pieces >= 3);
	assert_true(slept_ns >= 990000000 && slept_ns <= page->end_ns[0] - page->begin_ns[0]);
	record_end(pid, &t);
}

static void forgets_threads_that_end(void **state)
{
	pid_t pid = start(child_sleeps_long);
	struct sampler_stats stats;
	struct thread_total t;

	wait_ready(pid, 1, true);
	assert_int_equal(sampler_record_switches(shared, (uint32_t)pid, 0x3fffff, true), -ESRCH);
	assert_int_equal(sampler_record_switches(shared, (uint32_t)pid, 0x3fffff, false), -ESRCH);
	record(pid, pid, &t);
	assert_int_equal(sampler_record_switches(shared, (uint32_t)pid, (uint32_t)pid, true), 0);
	sampler_stats_get(shared, &stats);
	assert_int_equal(stats.switch_threads, 1);
	stop(pid);
	drain(&t, pid);
	assert_true(t.end_ns > t.begin_ns);
	sampler_stats_get(shared, &stats);
	assert_int_equal(stats.switch_threads, 0);
	stack_batch_fini(&t.batch);
}

static void begins_anew_after_a_pause(void **state)
{
	uint64_t paused_ns, resumed_ns;
	pid_t pid = start(child_sleeps);
	struct thread_total t, later;

	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	let_run(200);
	assert_int_equal(sampler_pause(shared, true), 0);
	paused_ns = clock_monotonic_ns();
	drain(&t, pid);
	assert_true(t.count > 0 && t.end_ns <= paused_ns);
	poll(NULL, 0, 100);
	resumed_ns = clock_monotonic_ns();
	assert_int_equal(sampler_pause(shared, false), 0);
	wait_ready(pid, 2, true);
	memset(&later, 0, sizeof(later));
	stack_batch_init(&later.batch, keyed_process());
	drain(&later, pid);
	for (uint32_t i = 0; i < later.batch.switch_count; i++)
		assert_true(later.batch.switches[i].out_ns >= resumed_ns);
	assert_true(later.count > 0 && later.begin_ns >= resumed_ns);
	stack_batch_fini(&later.batch);
	record_end(pid, &t);
}

/* ---- in a PID namespace ---- */

static int open_mode(enum sampler_mode mode)
{
	struct sampler_options o;
	struct sampler_stats stats;

	sampler_options_init(&o);
	o.mode_max = mode;
	o.python = false;
	o.switch_rate_max = RATE;
	if (sampler_open(&shared, &o))
		return -1;
	sampler_stats_get(shared, &stats);
	if (stats.mode == mode && !stats.missing[0])
		return 0;
	print_message("# wanted %s, got %s: %s; missing: %s\n", sampler_mode_name(mode),
		      sampler_mode_name(stats.mode), stats.why, stats.missing);
	return -1;
}

static int close_mode(void **state)
{
	sampler_close(shared);
	shared = NULL;
	return 0;
}

static int in_namespace(void)
{
	uint64_t sleeps = 0;
	struct thread_total t;
	pid_t pid;

	if (getpid() != 1 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		return 77;
	if (open_mode(SAMPLER_BPF_LOOP) || set_up(NULL))
		return 1;
	pid = start(child_sleeps);
	wait_ready(pid, 1, true);
	record(pid, pid, &t);
	let_go();
	wait_ready(pid, 2, true);
	drain(&t, pid);
	for (uint32_t i = 0; i < t.batch.switch_count; i++) {
		const struct stack_switch *s = &t.batch.switches[i];

		sleeps += s->tid == (uint32_t)pid && s->state == STACK_SWITCH_INTERRUPTIBLE &&
			  s->in_ns - s->out_ns >= SLEEP_NS;
	}
	print_message("# namespace: pid %d, %lu switches, %lu sleeps\n", (int)pid, t.count, sleeps);
	record_end(pid, &t);
	clean_up(NULL);
	sampler_close(shared);
	/* it is found when it first leaves the CPU */
	return pid < 100 && sleeps >= SLEEPS - 1 ? 0 : 4;
}

static void finds_threads_by_their_numbers_in_a_namespace(void **state)
{
	pid_t pid, inner;
	int status;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			_exit(77);
		inner = fork();
		if (!inner)
			_exit(in_namespace());
		_exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status)
									       : 9);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip_needs("mounts");
	assert_int_equal(status, 0);
}

static int as_loop(void **state)
{
	return open_mode(SAMPLER_BPF_LOOP);
}

static int as_tail(void **state)
{
	return open_mode(SAMPLER_BPF_TAIL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, clean_up)
#define CASES                                                                                      \
	CASE(reports_each_sleep_and_its_length), CASE(knows_which_sleeps_are_for_storage),         \
	    CASE(knows_who_woke_it_and_where_it_slept), CASE(knows_who_had_the_cpu_instead),       \
	    CASE(knows_what_ended_a_poll), CASE(knows_where_a_rare_long_sleep_was),                \
	    CASE(knows_what_short_sleeps_are_for),                                                 \
	    CASE(knows_its_page_faults_and_soft_interrupts), CASE(knows_that_it_was_throttled),    \
	    CASE(knows_the_interrupts_of_its_cpus_clock), CASE(knows_that_it_was_stopped),         \
	    CASE(knows_that_it_was_frozen), CASE(paces_a_flood_and_counts_all),                    \
	    CASE(counts_what_the_ring_has_no_room_for), CASE(cuts_a_sleep_at_the_drains),          \
	    CASE(forgets_threads_that_end), CASE(begins_anew_after_a_pause)

int main(void)
{
	const struct CMUnitTest any[] = {
	    cmocka_unit_test(orders_what_comes_cpu_by_cpu),
	    cmocka_unit_test(reports_time_once_however_it_ends),
	    cmocka_unit_test(reports_what_was_taken_once),
	    cmocka_unit_test(folds_what_finds_no_room),
	    cmocka_unit_test(has_room_for_so_many_threads_and_no_more),
	};
	const struct CMUnitTest root[] = {
	    cmocka_unit_test(finds_threads_by_their_numbers_in_a_namespace)};
	const struct CMUnitTest loop[] = {CASES};
	const struct CMUnitTest tail[] = {CASES};
	int failed = cmocka_run_group_tests_name("switches, made up", any, NULL, NULL);

	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	if (getuid() || access("/sys/kernel/btf/vmlinux", R_OK))
		return failed;
	failed += cmocka_run_group_tests_name("switches in a namespace", root, NULL, NULL);
	failed += cmocka_run_group_tests_name("switches with bpf_loop", loop, as_loop, close_mode);
	failed +=
	    cmocka_run_group_tests_name("switches with tail calls", tail, as_tail, close_mode);
	return failed;
}
