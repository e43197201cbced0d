/* SPDX-License-Identifier: Apache-2.0
 * OS signals on real faults: a child process, the victim, meets each, and what is said of it is
 * held against what the kernel's own counters or the victim itself say. As root, where BPF loads.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "node/canary.h"
#include "ring/ring_format.h"
#include "sidecar/os/os_signals_private.h"
#include "sidecar/os/os_signals.h"
#include "tests/unit/skip.h"

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Ahead of whatever else this machine runs; for less than a second. */
static void hurry(void)
{
	setpriority(PRIO_PROCESS, 0, -20);
	put_text("/proc/self/autogroup", "-20"); /* of the session */
}

static void spin_ms(uint64_t ms)
{
	uint64_t until = now_ns() + ms * 1000000;

	while (now_ns() < until)
		;
}

/* The n-th number (from 0) of a small file; after a name in parentheses, where there is one. */
static uint64_t number_of(const char *path, unsigned n)
{
	char text[8192], *word, *next;
	FILE *f = fopen(path, "re");
	size_t bytes = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[bytes] = '\0';
	next = strrchr(text, ')');
	next = next ? next + 2 : text;
	while ((word = strsep(&next, " \n")) && n--)
		;
	return word ? strtoull(word, NULL, 10) : 0;
}

/* A count of that tracepoint by perf, of this process. */
static int events_open(const char *event)
{
	struct perf_event_attr a = {.type = PERF_TYPE_TRACEPOINT, .size = sizeof(a), .disabled = 0};
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	char path[128];

	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL); /* where it is not yet */
	for (int i = 0; i < 2 && !a.config; i++) {
		snprintf(path, sizeof(path), "%s/events/%s/id", places[i], event);
		a.config = number_of(path, 0);
	}
	return a.config ? (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0) : -1;
}

/* ---- the victim ---- */

/* Children that a failed test would leave. */
static pid_t started[8];
static unsigned started_count;

static pid_t started_note(pid_t pid)
{
	if (pid > 0 && started_count < 8)
		started[started_count++] = pid;
	return pid;
}

static pid_t started_take(void)
{
	return started_count ? started[--started_count] : 0;
}

/* The clock is ours, and each read a part of this second later than the one before: what is reported per
 * second does not depend on how long this machine takes to load the programs or to run the victim. */
#define RUN_NS	1000000000ull
#define READ_NS (RUN_NS / 5)

struct victim {
	pid_t pid;
	int go, done;
	struct os_signals *os;
	uint64_t begin_ns;
	double counted; /* by the process itself, or by another counter */
	struct os_signal list[LIMIT_WINDOW_SIGNALS];
	uint32_t count;
};

/* Whether we are a rank, too, which is watched before it or after it. */
static enum { BELOW_NONE, BELOW_FIRST, BELOW_LAST } below;

/* Forks it; work runs when victim_run is called. */
static void victim_start(struct victim *v, const struct os_signals_options *o,
			 double (*work)(void *arg), void *arg)
{
	int go[2], done[2];

	memset(v, 0, sizeof(*v));
	assert_false(pipe2(go, O_CLOEXEC) || pipe2(done, O_CLOEXEC));
	fflush(NULL);
	v->pid = started_note(fork());
	assert_true(v->pid >= 0);
	if (!v->pid) {
		char c;
		double counted;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "os-victim");
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		counted = work(arg);
		if (write(done[1], &counted, sizeof(counted)) < 0 || read(go[0], &c, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(go[0]);
	close(done[1]);
	v->go = go[1];
	v->done = done[0];
	v->begin_ns = now_ns();
	assert_false(os_signals_open(&v->os, o, v->begin_ns));
	if (below == BELOW_FIRST)
		assert_false(os_signals_watch(v->os, (uint32_t)getpid(), v->begin_ns));
	assert_false(os_signals_watch(v->os, (uint32_t)v->pid, v->begin_ns));
	if (below == BELOW_LAST)
		assert_false(os_signals_watch(v->os, (uint32_t)getpid(), v->begin_ns));
	os_signals_read(v->os, v->begin_ns);
}

static void victim_run(struct victim *v)
{
	uint64_t end_ns = v->begin_ns + RUN_NS;

	assert_int_equal(write(v->go, "g", 1), 1);
	assert_int_equal(read(v->done, &v->counted, sizeof(v->counted)), sizeof(v->counted));
	/* as windows do: nothing counts twice */
	for (uint64_t at_ns = v->begin_ns + READ_NS; at_ns <= end_ns; at_ns += READ_NS)
		os_signals_read(v->os, at_ns);
	v->count = os_signals_window(v->os, (uint32_t)v->pid, v->begin_ns, end_ns, 10, false,
				     v->list, LIMIT_WINDOW_SIGNALS);
}

static void victim_end(struct victim *v)
{
	put_text("/proc/self/autogroup", "0");
	close(v->go);
	close(v->done);
	kill(v->pid, SIGKILL);
	waitpid(v->pid, NULL, 0);
	os_signals_close(v->os);
}

static const struct os_signal *signal_of(const struct victim *v, const char *name, const char *part)
{
	for (uint32_t i = 0; i < v->count; i++)
		if (!strcmp(v->list[i].name, name) && strstr(v->list[i].subject, part))
			return &v->list[i];
	for (uint32_t i = 0; i < v->count; i++) {
		char line[256];

		print_message("# %s: %s\n", v->list[i].name,
			      os_signal_text(&v->list[i], line, sizeof(line)));
	}
	print_message("# not there: %s about \"%s\"\n", name, part);
	return NULL;
}

/* Of the whole run, which is a second. */
static double sum_of(const struct victim *v, const char *name, const char *part)
{
	const struct os_signal *s = signal_of(v, name, part);

	assert_non_null(s);
	return s->value;
}

static void assert_near(double a, double b, double share, double slack)
{
	double distance = a > b ? a - b : b - a;

	if (distance > share * (a > b ? a : b) + slack)
		print_message("# %g against %g\n", a, b);
	assert_true(distance <= share * (a > b ? a : b) + slack);
}

static bool has_bpf(void)
{
	struct os_signals_options o = {.proc_root = NULL};
	struct os_signals_stats st;
	struct os_signals *s;
	static int known = -1;

	if (known >= 0)
		return known;
	if (os_signals_open(&s, &o, now_ns()))
		return false;
	os_signals_stats(s, &st);
	os_signals_close(s);
	if (!st.bpf)
		print_message("# no BPF: %s\n", st.why);
	known = st.bpf;
	return known;
}

#define NEEDS_BPF()                                                                                \
	do {                                                                                       \
		if (!has_bpf())                                                                    \
			skip_needs("bpf");                                                         \
	} while (0)

static const struct os_signals_options defaults;
/* as kernels before 5.12 */
static const struct os_signals_options by_hash = {.without = "task_storage"};

/* ---- CPU ---- */

static double spin_with_naps(void *arg)
{
	char path[64];
	uint64_t before;

	hurry();
	pin(0);
	/* its wait for the CPU, as the scheduler counts it */
	snprintf(path, sizeof(path), "/proc/self/schedstat");
	before = number_of(path, 1);
	for (int i = 0; i < 60; i++) {
		spin_ms(10);
		usleep(1000);
	}
	return (double)(number_of(path, 1) - before) * 1e-6;
}

static pid_t start_hog(int cpu)
{
	pid_t pid;

	fflush(NULL);
	pid = started_note(fork());
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "os-hog");
		hurry();
		pin(cpu);
		spin_ms(20000);
		_exit(0);
	}
	return pid;
}

static void had_the_cpu(const struct os_signals_options *o)
{
	char who[32];
	struct victim v;
	pid_t hog;

	victim_start(&v, o, spin_with_naps, NULL);
	hog = start_hog(0);
	victim_run(&v);
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	snprintf(who, sizeof(who), "os-hog (pid %d)", (int)hog);
	assert_near(sum_of(&v, "run_wait", ""), v.counted, 0.1, 20);
	assert_near(sum_of(&v, "run_wait_thread", "os-victim"), v.counted, 0.1, 20);
	assert_true(sum_of(&v, "cpu_hog", who) > 20);
	victim_end(&v);
}

static double spin_as_the_helper(void *arg)
{
	prctl(PR_SET_NAME, RING_HELPER_NAME);
	return spin_with_naps(arg);
}

/* What delays the preload's own thread delays no step. */
static void names_no_wait_of_our_own_thread(void **state)
{
	struct victim v;
	pid_t hog;

	NEEDS_BPF();
	victim_start(&v, &defaults, spin_as_the_helper, NULL);
	hog = start_hog(0);
	victim_run(&v);
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	assert_true(sum_of(&v, "run_wait", "") > 20);
	assert_null(signal_of(&v, "run_wait_thread", RING_HELPER_NAME));
	victim_end(&v);
}

static void names_the_process_that_had_the_cpu(void **state)
{
	NEEDS_BPF();
	had_the_cpu(&defaults);
}

static void names_the_process_that_had_the_cpu_without_task_storage(void **state)
{
	NEEDS_BPF();
	had_the_cpu(&by_hash);
}

static uint64_t migrations_of_self(void)
{
	FILE *f = fopen("/proc/self/sched", "re");
	unsigned long long v = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "se.nr_migrations : %llu", &v) == 1)
			break;
	if (f)
		fclose(f);
	return v;
}

static double hop(void *arg)
{
	uint64_t before;

	pin(0);
	before = migrations_of_self();
	for (int i = 0; i < 200; i++) {
		pin((i + 1) % 2);
		spin_ms(1);
	}
	return (double)(migrations_of_self() - before);
}

static char tree[] = "/tmp/sysom-tree-XXXXXX";

static void record(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void record(const char *path, const char *fmt, ...)
{
	char full[256];
	va_list ap;
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", tree, path);
	for (char *at = full + sizeof(tree); (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

/* Where each CPU is a NUMA node of its own, each move is one to another node. */
static void migrate(const struct os_signals_options *o)
{
	struct os_signals_options two_nodes = *o;
	char sys[64];
	struct victim v;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_needs("cpus");
	victim_start(&v, o, hop, NULL);
	victim_run(&v);
	assert_near(sum_of(&v, "migrations", ""), v.counted, 0.02, 4);
	for (uint32_t i = 0; i < v.count; i++)
		assert_string_not_equal(v.list[i].name, "node_migrations");
	victim_end(&v);
	snprintf(sys, sizeof(sys), "%s/numa", tree);
	record("numa/devices/system/node/node0/cpulist", "0\n");
	record("numa/devices/system/node/node1/cpulist", "1\n");
	two_nodes.sys_root = sys;
	victim_start(&v, &two_nodes, hop, NULL);
	victim_run(&v);
	assert_near(sum_of(&v, "node_migrations", ""), v.counted, 0.02, 4);
	victim_end(&v);
}

static void counts_migrations(void **state)
{
	NEEDS_BPF();
	migrate(&defaults);
}

static void counts_migrations_without_task_storage(void **state)
{
	NEEDS_BPF();
	migrate(&by_hash);
}

/* ---- memory ---- */

static double touch_pages(void *arg)
{
	size_t pages = 20000, bytes = pages * 4096;
	uint64_t before = number_of("/proc/self/stat", 7);
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(p, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		p[i * 4096] = 1;
	return (double)(number_of("/proc/self/stat", 7) - before);
}

static double child_touches(void *arg)
{
	int done[2];
	double counted = 0;

	if (pipe(done))
		return 0;
	if (!fork()) {
		counted = touch_pages(NULL);
		if (write(done[1], &counted, sizeof(counted)) < 0)
			_exit(1);
		/* its counters are read while it lives, or as it was */
		usleep(300000);
		_exit(0);
	}
	return read(done[0], &counted, sizeof(counted)) == sizeof(counted) ? counted : 0;
}

static void counts_page_faults(void **state)
{
	struct victim v;

	NEEDS_BPF();
	victim_start(&v, &defaults, touch_pages, NULL);
	victim_run(&v);
	assert_true(v.counted >= 20000);
	assert_near(sum_of(&v, "page_faults", ""), v.counted, 0.05, 100);
	victim_end(&v);
}

static void follow_children(const struct os_signals_options *o)
{
	struct victim v;

	victim_start(&v, o, child_touches, NULL);
	victim_run(&v);
	assert_true(v.counted >= 20000);
	assert_near(sum_of(&v, "page_faults", ""), v.counted, 0.05, 500);
	victim_end(&v);
}

static void follows_children_of_the_rank(void **state)
{
	NEEDS_BPF();
	follow_children(&defaults);
}

static void follows_children_without_task_storage(void **state)
{
	NEEDS_BPF();
	follow_children(&by_hash);
}

static void keeps_a_rank_below_a_rank_apart(void **state)
{
	NEEDS_BPF();
	for (below = BELOW_FIRST; below <= BELOW_LAST; below++)
		follow_children(&defaults);
	below = BELOW_NONE;
}

static void *in_a_thread(void *arg)
{
	*(double *)arg = touch_pages(NULL);
	return NULL;
}

/* A thread that is gone before anybody reads. */
static double thread_touches(void *arg)
{
	double counted = 0;
	pthread_t t;

	if (pthread_create(&t, NULL, in_a_thread, &counted))
		return 0;
	pthread_join(t, NULL);
	return counted;
}

static void counts_what_an_ended_thread_did(void **state)
{
	struct victim v;

	NEEDS_BPF();
	victim_start(&v, &defaults, thread_touches, NULL);
	victim_run(&v);
	assert_true(v.counted >= 20000);
	assert_near(sum_of(&v, "page_faults", ""), v.counted, 0.05, 500);
	victim_end(&v);
}

/* Memory that is given back and touched again: by the kernel's count for the process. */
static double fault_again_and_again(void *arg)
{
	size_t bytes = 64 * 4096;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rusage before, after;

	madvise(p, bytes, MADV_NOHUGEPAGE);
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < 1000; i++) {
		for (size_t at = 0; at < bytes; at += 4096)
			p[at] = 1;
		madvise(p, bytes, MADV_DONTNEED);
	}
	getrusage(RUSAGE_SELF, &after);
	return (double)(after.ru_minflt - before.ru_minflt);
}

static void fault(const struct os_signals_options *o)
{
	const struct os_signal *s;
	struct victim v;

	victim_start(&v, o, fault_again_and_again, NULL);
	victim_run(&v);
	assert_true(v.counted >= 64000);
	assert_near(sum_of(&v, "page_faults", ""), v.counted, 0.01, 300);
	s = signal_of(&v, "page_faults", "");
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_true(sum_of(&v, "major_faults", "") < 10);
	victim_end(&v);
}

static void minor_faults_are_as_many_as_getrusage_has(void **state)
{
	static const struct os_signals_options without = {.no_bpf = true};

	fault(&without);
	NEEDS_BPF();
	fault(&defaults);
	fault(&by_hash);
}

/* Compaction moves pages to make room, on the node where they are. */
static double make_room(void *arg)
{
	size_t bytes = 64 << 20;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = events_open("migrate/mm_migrate_pages");
	uint64_t count = 0;

	madvise(p, bytes, MADV_NOHUGEPAGE);
	memset(p, 1, bytes);
	for (size_t at = 0; at < bytes; at += 8192)
		madvise(p + at, 4096, MADV_DONTNEED);
	if (!put_text("/proc/sys/vm/compact_memory", "1") || fd < 0 ||
	    read(fd, &count, sizeof(count)) != sizeof(count))
		return -1;
	return (double)count;
}

static void pages_moved_to_make_room_are_no_matter_of_numa(void **state)
{
	struct victim v;

	NEEDS_BPF();
	victim_start(&v, &defaults, make_room, NULL);
	victim_run(&v);
	print_message("# %g moves of pages by perf\n", v.counted);
	assert_true(v.counted > 0);
	for (uint32_t i = 0; i < v.count; i++)
		assert_string_not_equal(v.list[i].name, "pages_migrated");
	victim_end(&v);
}

/* ---- memory pressure ---- */

/* A group that may keep little of a file in memory: by memory.high, or where version 1 has the
 * controller by its limit; the pressure is version 2's in both. */
struct tight_group {
	char limits[64], pressure[64], file[64];
	const char *limit, *exceeded;
};

static struct tight_group tight;

#define TIGHT_BYTES	 (64 << 20)
#define TIGHT_LIMIT	 "8388608"
#define TIGHT_STALLED_MS 400.0

static bool tight_group_make(struct tight_group *t)
{
	bool hybrid = !access("/sys/fs/cgroup/unified", F_OK);
	char path[128], *bytes = calloc(1, TIGHT_BYTES);
	int fd;
	bool good;

	snprintf(t->pressure, sizeof(t->pressure), "/sys/fs/cgroup/%ssysom-test-%d",
		 hybrid ? "unified/" : "", (int)getpid());
	snprintf(t->limits, sizeof(t->limits), "/sys/fs/cgroup/%ssysom-test-%d",
		 hybrid ? "memory/" : "", (int)getpid());
	snprintf(t->file, sizeof(t->file), "test_os_signals.%d", (int)getpid());
	t->limit = hybrid ? "memory.limit_in_bytes" : "memory.high";
	t->exceeded = hybrid ? "memory.failcnt" : "memory.events";
	fd = open(t->file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	good = bytes && fd >= 0 && write(fd, bytes, TIGHT_BYTES) == TIGHT_BYTES && !fsync(fd) &&
	       !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	free(bytes);
	if (fd >= 0)
		close(fd);
	mkdir(t->pressure, 0755);
	if (hybrid)
		mkdir(t->limits, 0755);
	snprintf(path, sizeof(path), "%s/memory.pressure", t->pressure);
	good = good && !access(path, R_OK);
	/* Pages can't be reclaimed while they are read, and read-ahead can fill the limit with such pages.
	 * Then version 1 calls the OOM killer or, with this, lets the read fail. */
	snprintf(path, sizeof(path), "%s/memory.oom_control", t->limits);
	good = good && (!hybrid || put_text(path, "1"));
	snprintf(path, sizeof(path), "%s/%s", t->limits, t->limit);
	return good && put_text(path, TIGHT_LIMIT);
}

static void group_remove(const char *path)
{
	for (int i = 0; i < 200 && rmdir(path) && errno == EBUSY; i++)
		usleep(10000);
}

static void tight_group_remove(struct tight_group *t)
{
	unlink(t->file);
	group_remove(t->pressure);
	group_remove(t->limits);
	t->file[0] = '\0';
}

static void group_enter(const char *group, pid_t pid)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	snprintf(text, sizeof(text), "%d", (int)pid);
	assert_true(put_text(path, text));
}

static double stalled_ms(const struct tight_group *t)
{
	unsigned long long us = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/memory.pressure", t->pressure);
	f = fopen(path, "re");
	if (f && fscanf(f, "some avg10=%*f avg60=%*f avg300=%*f total=%llu", &us) != 1)
		us = 0;
	if (f)
		fclose(f);
	return (double)us * 1e-3;
}

/* Until its group has stalled for so long. */
static double read_what_does_not_fit(void *arg)
{
	const struct tight_group *t = arg;
	int fd = open(t->file, O_RDONLY | O_CLOEXEC);
	double stalled = 0;
	char *buffer = malloc(1 << 20);

	for (int i = 0; i < 200 * 64 && stalled < TIGHT_STALLED_MS; i++) {
		if (pread(fd, buffer, 1 << 20, (off_t)(i % 64) << 20) < 0 && errno != ENOMEM)
			return -errno;
		stalled = stalled_ms(t);
	}
	return stalled;
}

/* How often the limit held it up: failcnt, or "high" of memory.events. */
static uint64_t times_exceeded(const struct tight_group *t)
{
	char path[128], line[64];
	unsigned long long count = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", t->limits, t->exceeded);
	f = fopen(path, "re");
	while (f && !count && fgets(line, sizeof(line), f))
		if (sscanf(line, "high %llu", &count) != 1 && sscanf(line, "%llu", &count) != 1)
			count = 0;
	if (f)
		fclose(f);
	return count;
}

static void reads_the_memory_pressure_of_the_ranks_group(void **state)
{
	static const struct os_signals_options without = {.no_bpf = true};
	const struct os_signal *s;
	struct victim v;

	if (geteuid() || !tight_group_make(&tight)) {
		tight_group_remove(&tight);
		skip_needs("memory-group");
	}
	victim_start(&v, &without, read_what_does_not_fit, &tight);
	group_enter(tight.pressure, v.pid);
	if (strcmp(tight.pressure, tight.limits))
		group_enter(tight.limits, v.pid);
	for (int i = 0; i < 6; i++) /* what is usual */
		os_signals_read(v.os, v.begin_ns += RUN_NS);
	victim_run(&v);
	print_message("# stalled for %g ms, held up %llu times\n", v.counted,
		      (unsigned long long)times_exceeded(&tight));
	assert_true(v.counted >= TIGHT_STALLED_MS);
	assert_true(times_exceeded(&tight) > 0);
	assert_near(sum_of(&v, "pressure", "memory in its cgroup"), v.counted, 0.02, 2);
	s = signal_of(&v, "pressure", "memory in its cgroup");
	assert_true(s->flags & OS_SIGNAL_RAISED);
	victim_end(&v);
	tight_group_remove(&tight);
}

/* ---- storage ---- */

struct slow_disk {
	char group[128], file[128];
	unsigned major, minor;
	double *run_wait_ms; /* of the victim, while it read: shared with it */
};

static struct slow_disk disk;

static bool slow_disk_make(struct slow_disk *d)
{
	char path[256], text[128], *bytes;
	struct stat st;
	int fd;

	snprintf(d->group, sizeof(d->group), "/sys/fs/cgroup/blkio/sysom-test-%d", (int)getpid());
	snprintf(d->file, sizeof(d->file), "test_os_signals.%d", (int)getpid());
	bytes = calloc(1, 1 << 20);
	fd = open(d->file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (!bytes || fd < 0 || write(fd, bytes, 1 << 20) != 1 << 20 || fsync(fd) || fstat(fd, &st))
		return false;
	close(fd);
	free(bytes);
	d->run_wait_ms =
	    mmap(NULL, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	d->major = major(st.st_dev);
	d->minor = minor(st.st_dev);
	if (mkdir(d->group, 0755))
		return false;
	snprintf(path, sizeof(path), "%s/blkio.throttle.read_bps_device", d->group);
	snprintf(text, sizeof(text), "%u:%u 1048576\n", d->major, d->minor);
	return put_text(path, text);
}

static void slow_disk_remove(struct slow_disk *d)
{
	unlink(d->file);
	group_remove(d->group);
}

static double run_wait_ms(void)
{
	return (double)number_of("/proc/self/schedstat", 1) * 1e-6;
}

/* The time in which this process neither ran nor waited for a CPU, from some moment on. */
static double slept_ms(void)
{
	uint64_t at_ns = now_ns();
	struct timespec ran;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
	return (double)at_ns * 1e-6 - (double)ran.tv_sec * 1e3 - (double)ran.tv_nsec * 1e-6 -
	       run_wait_ms();
}

#define SLEPT_MS 300.0

/* Until it has slept for so long. */
static double read_slowly(void *arg)
{
	const struct slow_disk *d = arg;
	char path[256], text[32];
	void *buffer = NULL;
	double before, waited, slept = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", d->group);
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	fd = open(d->file, O_RDONLY | O_DIRECT);
	if (!put_text(path, text) || fd < 0 || posix_memalign(&buffer, 4096, 128 << 10))
		return -1;
	waited = run_wait_ms();
	before = slept_ms();
	for (int i = 0; i < 1000 && slept < SLEPT_MS; i++) {
		if (pread(fd, buffer, 128 << 10, i % 8 * (128 << 10)) != 128 << 10)
			return -1;
		slept = slept_ms() - before;
	}
	*d->run_wait_ms = run_wait_ms() - waited;
	return slept;
}

/* Between what it slept and that with its wait for a CPU: from 6.12 on the kernel may count sleep of a task
 * that it moves as such, and it may keep a switch from tracers, with which the wait for the CPU ends. */
static void assert_slept(double reported, const struct victim *v)
{
	double most = v->counted + *disk.run_wait_ms;

	if (reported < 0.98 * v->counted - 2 || reported > 1.02 * most + 2)
		print_message("# %g, not within %g and %g\n", reported, v->counted, most);
	assert_true(reported >= 0.98 * v->counted - 2 && reported <= 1.02 * most + 2);
}

static void wait_for_a_slow_disk(const struct os_signals_options *o)
{
	const struct os_signal *s;
	struct victim v;

	if (!slow_disk_make(&disk)) {
		slow_disk_remove(&disk);
		skip_needs("blkio-group");
	}
	victim_start(&v, o, read_slowly, &disk);
	victim_run(&v);
	if (v.counted < 0) { /* a file system without O_DIRECT */
		victim_end(&v);
		slow_disk_remove(&disk);
		skip_needs("direct-io");
	}
	assert_true(v.counted >= SLEPT_MS);
	assert_slept(sum_of(&v, "io_wait", ""), &v);
	assert_slept(sum_of(&v, "io_wait_thread", "os-victim"), &v);
	s = signal_of(&v, "io_wait", "");
	assert_true(s->flags & OS_SIGNAL_RAISED);
	victim_end(&v);
	slow_disk_remove(&disk);
}

static void sees_the_wait_for_a_slow_disk(void **state)
{
	NEEDS_BPF();
	wait_for_a_slow_disk(&defaults);
}

static void sees_the_wait_for_a_slow_disk_without_task_storage(void **state)
{
	NEEDS_BPF();
	wait_for_a_slow_disk(&by_hash);
}

/* ---- locks ---- */

static char lock_dir[] = "/dev/shm/sysom-test-XXXXXX";

static double look_up_nothing(void *arg)
{
	int fd = events_open("lock/contention_begin");
	uint64_t count = 0, until = now_ns() + 700000000ull;
	struct stat st;
	char path[96];

	hurry();
	pin(1);
	for (unsigned i = 0; now_ns() < until; i++) {
		snprintf(path, sizeof(path), "%s/none-%u", lock_dir, i);
		stat(path, &st);
	}
	if (fd < 0 || read(fd, &count, sizeof(count)) != sizeof(count))
		return -1;
	return (double)count;
}

static pid_t start_contender(void)
{
	pid_t pid;

	fflush(NULL);
	pid = started_note(fork());
	if (!pid) {
		char path[96];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "os-contender");
		hurry();
		pin(0);
		for (uint64_t until = now_ns() + 20000000000ull; now_ns() < until;) {
			int fd;

			snprintf(path, sizeof(path), "%s/file", lock_dir);
			fd = open(path, O_CREAT | O_WRONLY, 0600);
			close(fd);
			unlink(path);
		}
		_exit(0);
	}
	return pid;
}

static void lock_dir_remove(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/file", lock_dir);
	unlink(path);
	rmdir(lock_dir);
	memcpy(lock_dir + strlen(lock_dir) - 6, "XXXXXX", 6);
}

/* The process that it contends with, which has ended. */
static pid_t victim_contends(struct victim *v)
{
	pid_t contender;

	assert_non_null(mkdtemp(lock_dir));
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_needs("cpus");
	victim_start(v, &defaults, look_up_nothing, NULL);
	contender = start_contender();
	victim_run(v);
	kill(contender, SIGKILL);
	waitpid(contender, NULL, 0);
	lock_dir_remove();
	return contender;
}

static void names_who_shares_a_contended_lock(void **state)
{
	char who[32];
	struct victim v;
	pid_t contender;
	const struct os_signal *s;

	NEEDS_BPF();
	contender = victim_contends(&v);
	print_message("# %g contentions by perf\n", v.counted);
	if (v.counted >= 0) /* perf's own count of the same tracepoint */
		assert_true(v.counted > 100);
	assert_true(sum_of(&v, "lock_wait", "") > 0.2);
	snprintf(who, sizeof(who), "os-contender (pid %d)", (int)contender);
	s = signal_of(&v, "lock_place", who);
	assert_non_null(s);
	assert_null(strstr(s->subject, "not known"));
	victim_end(&v);
}

/* Three of four seconds nobody counts: the figure is per second of the one in which somebody did. */
static void gives_rates_of_the_time_in_which_somebody_counted(void **state)
{
	double whole, part;
	struct victim v;
	uint64_t at_ns;

	NEEDS_BPF();
	victim_contends(&v);
	whole = sum_of(&v, "lock_wait", "");
	v.os->cost.down[OS_GROUP_LOCKS].off = true;
	v.os->cost.down[OS_GROUP_LOCKS].until_ns = UINT64_MAX;
	at_ns = v.begin_ns + RUN_NS;
	for (int i = 0; i < 3; i++)
		os_signals_read(v.os, at_ns += RUN_NS);
	v.count = os_signals_window(v.os, (uint32_t)v.pid, v.begin_ns, at_ns, 10, false, v.list,
				    LIMIT_WINDOW_SIGNALS);
	part = sum_of(&v, "lock_wait", "");
	print_message("# lock_wait %g, and %g where a quarter of the time was counted\n", whole,
		      part);
	assert_true(whole > 0.2);
	assert_near(part, whole, 0.02, 0.01);
	victim_end(&v);
}

/* ---- network ---- */

/* Of this process: two may run at once on a machine. "": none. */
static char network[2][32];

static void network_remove(void)
{
	char command[128];

	if (!*network[0])
		return;
	/* the devices go with them */
	snprintf(command, sizeof(command),
		 "ip netns del %s 2>/dev/null; ip netns del %s 2>/dev/null", network[0],
		 network[1]);
	if (system(command))
		print_message("# of %s and %s something is left\n", network[0], network[1]);
	*network[0] = '\0';
}

/* Two namespaces and a cable; what arrives in b is handled on CPU 1. */
static bool network_make(void)
{
	char command[1024];

	for (int i = 0; i < 2; i++)
		snprintf(network[i], sizeof(network[i]), "sysomt%d%c", (int)getpid(), 'a' + i);
	snprintf(command, sizeof(command),
		 "exec 2>/dev/null; a=%s; b=%s; ip netns add $a && ip netns add $b && "
		 "ip -n $a link add v0 type veth peer name v1 netns $b && "
		 "ip -n $a addr add 10.98.7.1/24 dev v0 && ip -n $a link set v0 up && "
		 "ip -n $b addr add 10.98.7.2/24 dev v1 && ip -n $b link set v1 up && "
		 "ip -n $a neigh add 10.98.7.77 lladdr 02:00:00:00:00:77 dev v0 && "
		 "ip netns exec $b sh -c 'echo 2 >/sys/class/net/v1/queues/rx-0/rps_cpus'",
		 network[0], network[1]);
	return !system(command);
}

static bool enter_network(const char *name)
{
	char path[64];
	int fd;
	bool good;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	good = fd >= 0 && !syscall(SYS_setns, fd, CLONE_NEWNET);
	if (fd >= 0)
		close(fd);
	return good;
}

static pid_t start_flood(void)
{
	pid_t pid;

	fflush(NULL);
	pid = started_note(fork());
	if (!pid) {
		struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
		char packet[64] = "";
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		hurry();
		pin(0);
		inet_pton(AF_INET, "10.98.7.2", &to.sin_addr);
		if (!enter_network(network[0]))
			_exit(1);
		fd = socket(AF_INET, SOCK_DGRAM, 0);
		for (uint64_t until = now_ns() + 20000000000ull; now_ns() < until;)
			sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to));
		_exit(0);
	}
	return pid;
}

static uint64_t received_on_cpu1(void)
{
	FILE *f = fopen("/proc/softirqs", "re");
	unsigned long long a, b, got = 0;
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " NET_RX: %llu %llu", &a, &b) == 2)
			got = b;
	if (f)
		fclose(f);
	return got;
}

static double spin_on_cpu1(void *arg)
{
	uint64_t before = received_on_cpu1();

	hurry();
	pin(1);
	spin_ms(800);
	return (double)(received_on_cpu1() - before);
}

static void reports_interrupts_that_took_a_threads_time(void **state)
{
	const struct os_signal *s;
	struct victim v;
	pid_t flood;
	char line[256];

	NEEDS_BPF();
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip_needs("cpus");
	if (!network_make()) {
		network_remove();
		skip_needs("netns");
	}
	victim_start(&v, &defaults, spin_on_cpu1, NULL);
	flood = start_flood();
	victim_run(&v);
	kill(flood, SIGKILL);
	waitpid(flood, NULL, 0);
	network_remove();
	print_message("# %g NET_RX soft interrupts on CPU 1 by /proc/softirqs\n", v.counted);
	/* each takes a batch of packets */
	assert_true(v.counted > 100);
	s = signal_of(&v, "softirq_stolen", "NET_RX from thread os-victim on CPU 1");
	assert_non_null(s);
	print_message("# %s\n", os_signal_text(s, line, sizeof(line)));
	assert_true(s->value > 5);
	assert_non_null(strstr(s->subject, "packets of v1 in net"));
	assert_non_null(signal_of(&v, "softirq_cpu", "NET_RX on CPU 1"));
	victim_end(&v);
}

static double connect_to_nobody(void *arg)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4791)};
	int fd;

	inet_pton(AF_INET, "10.98.7.77", &to.sin_addr);
	if (!enter_network(network[0]))
		return -1;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (!connect(fd, (struct sockaddr *)&to, sizeof(to)) || errno != EINPROGRESS)
		return -1;
	usleep(1500000); /* the first repetition comes after a second */
	return 1;
}

static void maps_retransmits_to_the_rank_with_the_socket(void **state)
{
	const struct os_signal *s, *wait;
	struct victim v;

	NEEDS_BPF();
	if (!network_make()) {
		network_remove();
		skip_needs("netns");
	}
	victim_start(&v, &defaults, connect_to_nobody, NULL);
	victim_run(&v);
	network_remove();
	assert_true(v.counted == 1);
	s = signal_of(&v, "tcp_retransmits", "10.98.7.1:");
	assert_non_null(s);
	assert_non_null(strstr(s->subject, "to 10.98.7.77:4791"));
	/* one segment, for which it waited a second */
	wait = signal_of(&v, "tcp_retransmit_wait", "10.98.7.1:");
	assert_non_null(wait);
	assert_in_range((long)(wait->value / s->value), 900, 1100);
	victim_end(&v);
}

/* Answers pairs of bytes, one of ten after a while, in which it does not acknowledge them either. */
static void *answer_late(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL), off = 0;
	char two[2];

	for (int i = 1; !setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off)); i++) {
		if (i % 10 == 0)
			usleep(60000);
		if (recv(fd, two, 2, MSG_WAITALL) != 2 || send(fd, two, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	close(fd);
	return NULL;
}

/* Returns how many segments the kernel has sent again. */
static double ask_late(void *arg)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0),
	    fd = socket(AF_INET, SOCK_STREAM, 0);
	struct tcp_info info = {.tcpi_state = 0};
	socklen_t bytes = sizeof(at);
	pthread_t server;
	char answer;

	if (bind(listener, (struct sockaddr *)&at, bytes) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &bytes) ||
	    pthread_create(&server, NULL, answer_late, &listener) ||
	    connect(fd, (struct sockaddr *)&at, bytes))
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	for (int i = 0; i < 150; i++)
		if (send(fd, "1", 1, 0) != 1 || send(fd, "2", 1, 0) != 1 ||
		    recv(fd, &answer, 1, 0) != 1)
			return -1;
	bytes = sizeof(info);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes))
		return -1;
	shutdown(fd, SHUT_RDWR);
	pthread_join(server, NULL);
	return info.tcpi_total_retrans;
}

static void a_probe_of_what_arrived_is_no_loss(void **state)
{
	const struct os_signal *s;
	struct victim v;

	NEEDS_BPF();
	victim_start(&v, &defaults, ask_late, NULL);
	victim_run(&v);
	print_message("# %g probes of what had arrived\n", v.counted);
	assert_true(v.counted >= 5);
	s = signal_of(&v, "tcp_retransmits", "127.0.0.1:");
	assert_true(!s || s->value * RUN_NS * 1e-9 <= 1);
	assert_null(signal_of(&v, "tcp_retransmit_wait", "127.0.0.1:"));
	victim_end(&v);
}

/* ---- without ---- */

static void names_which_programs_are_left_out(void **state)
{
	struct os_signals_options o = {.without = "os_contention_begin,os_contention_end"};
	struct os_signals_stats st;
	struct victim v;

	NEEDS_BPF();
	victim_start(&v, &o, touch_pages, NULL);
	os_signals_stats(v.os, &st);
	assert_true(st.bpf);
	assert_non_null(strstr(st.missing, "os_contention_begin (left out)"));
	assert_null(strstr(st.missing, "os_switch"));
	victim_run(&v);
	assert_near(sum_of(&v, "page_faults", ""), v.counted, 0.05, 100);
	victim_end(&v);
}

/* Runs of programs are forced by the victim. */
static void lets_go_of_what_is_over_its_budget(void **state)
{
	struct os_signals_options o = {.bpf_budget = 1e-12};
	struct os_signals_stats st;
	struct victim v;
	uint64_t at_ns;

	NEEDS_BPF();
	victim_start(&v, &o, hop, NULL);
	at_ns = v.begin_ns + 20000000000ull;
	os_signals_read(v.os, at_ns); /* a measurement begins */
	assert_int_equal(write(v.go, "g", 1), 1);
	assert_int_equal(read(v.done, &v.counted, sizeof(v.counted)), sizeof(v.counted));
	os_signals_stats(v.os, &st);
	assert_int_equal(st.cost_measurements, 0);
	for (int i = 0; i < 40 && st.cost_measurements < 2; i++) {
		usleep(10000); /* of a running machine: some context switches */
		os_signals_read(v.os, at_ns += 1000000000ull);
		os_signals_stats(v.os, &st);
	}
	if (!st.cost_measurements) { /* before 5.8 */
		victim_end(&v);
		skip_needs("bpf-stats");
	}
	print_message("# %g of the CPUs' time, turned down: %s\n", st.cost, st.turned_down);
	assert_true(st.cost > 0);
	assert_true(st.turned_down[0] != '\0');
	assert_null(strstr(st.turned_down, "processes"));
	victim_end(&v);
}

static void goes_on_without_bpf_and_says_so(void **state)
{
	struct os_signals_options o = {.no_bpf = true};
	struct os_signals_stats st;
	struct victim v;
	pid_t hog;

	victim_start(&v, &o, spin_with_naps, NULL);
	hog = start_hog(0);
	os_signals_stats(v.os, &st);
	assert_false(st.bpf);
	assert_string_equal(st.why, "switched off");
	victim_run(&v);
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	assert_near(sum_of(&v, "run_wait", ""), v.counted, 0.1, 20);
	for (uint32_t i = 0; i < v.count; i++)
		assert_string_not_equal(v.list[i].name, "io_wait");
	victim_end(&v);
}

/* ---- a recorded host ---- */

/* What the host's files say after so many seconds: from the tenth on the limits bite. */
static void record_second(unsigned t)
{
	unsigned bad = t > 10 ? t - 10 : 0, good = t - bad;

	/* 40% of 1 MB/s, then 97% */
	record("sys/fs/cgroup/pod/io.stat", "254:0 rbytes=%u wbytes=0 rios=%u wios=0\n",
	       good * 400000 + bad * 970000, t);
	/* 300 ms a second */
	record("sys/fs/cgroup/pod/cpu.stat", "usage_usec 1\nnr_throttled %u\nthrottled_usec %u\n",
	       bad, bad * 300000);
	record("sys/fs/cgroup/pod/memory.pressure", "some avg10=0.00 total=%u\n", bad * 450000);
	record("sys/fs/cgroup/pod/memory.stat",
	       "anon 7\nworkingset_refault_anon %u\n"
	       "workingset_refault_file %u\n",
	       bad * 400, bad * 500);
	record("proc/pressure/io", "some avg10=0.00 total=%u\n", bad * 250000);
	for (unsigned cpu = 0; cpu < 2; cpu++) {
		char name[80];

		snprintf(name, sizeof(name),
			 "sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", cpu);
		record(name, "%u\n", t > 10 ? 1400000 + cpu * 200000 : 3000000);
		snprintf(name, sizeof(name),
			 "sys/devices/system/cpu/cpu%u/cpufreq/cpuinfo_max_freq", cpu);
		record(name, "%u\n", 3100000);
	}
	/* a quarter of every CPU */
	record("proc/stat", "cpu  1 2 3 4 5 6 7 %ld 0 0\n",
	       bad * sysconf(_SC_CLK_TCK) / 4 * sysconf(_SC_NPROCESSORS_ONLN));
}

static void reads_limits_and_pressure_of_a_recorded_host(void **state)
{
	char proc[64], sys[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = sys, .no_bpf = true};
	const uint64_t begin_ns = 1000000000000ull;
	const struct os_signal *s;
	struct victim v = {.pid = 0};

	snprintf(proc, sizeof(proc), "%s/proc", tree);
	snprintf(sys, sizeof(sys), "%s/sys", tree);
	record("proc/77/stat", "77 (train) S 1 77 77 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	record("proc/77/cgroup", "0::/pod\n");
	record("sys/fs/cgroup/pod/io.max", "254:0 rbps=1000000 wbps=max riops=max wiops=max\n");
	record("sys/fs/cgroup/pod/memory.max", "64000000\n");
	record_second(0);
	assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
	assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
	for (unsigned t = 0; t <= 15; t++) {
		record_second(t);
		os_signals_read(v.os, begin_ns + t * 1000000000ull);
	}
	v.count = os_signals_window(v.os, 77, begin_ns + 10000000000ull, begin_ns + 15000000000ull,
				    100, true, v.list, LIMIT_WINDOW_SIGNALS);
	s = signal_of(&v, "cpu_clock", "its CPUs (at most 3100 MHz)");
	assert_non_null(s);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_near(s->value, 1500, 0.02, 0);
	assert_near(s->usual, 3000, 0.02, 0);
	s = signal_of(&v, "io_limit", "reads of disk 254:0 (1 MB/s)");
	assert_non_null(s);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_near(s->value, 97, 0.02, 0);
	assert_near(s->usual, 40, 0.02, 0);
	s = signal_of(&v, "cpu_throttled", "");
	assert_non_null(s);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_near(s->value, 300, 0.02, 0);
	assert_near(s->weight_ms, 30, 0.02, 0);
	s = signal_of(&v, "pressure", "memory in its cgroup");
	assert_non_null(s);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_near(s->value, 450, 0.02, 0);
	s = signal_of(&v, "refaults", "64 MB");
	assert_non_null(s);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_near(s->value, 900, 0.02, 0);
	s = signal_of(&v, "pressure", "io");
	assert_non_null(s);
	assert_near(s->value, 250, 0.02, 0);
	s = signal_of(&v, "cpu_steal", "");
	assert_non_null(s);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_near(s->value, 250, 0.02, 0);
	assert_near(s->weight_ms, 25, 0.02, 0);
	os_signals_close(v.os);
}

/* A machine that moves to another host may count from anywhere: less says nothing, and of a second no more
 * than a second was taken. */
static void a_steal_counter_that_falls_or_leaps_is_no_flood(void **state)
{
	static const long ticks[] = {360000, 359999, 359999, 900000};
	char proc[64], sys[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = sys, .no_bpf = true};
	const uint64_t begin_ns = 1000000000000ull;
	const struct os_signal *s;
	struct victim v = {.pid = 0};

	snprintf(proc, sizeof(proc), "%s/proc", tree);
	snprintf(sys, sizeof(sys), "%s/sys", tree);
	record("proc/77/stat", "77 (train) S 1 77 77 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
	assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
	for (unsigned t = 0; t < 4; t++) {
		record("proc/stat", "cpu  1 2 3 4 5 6 7 %ld 0 0\n", ticks[t]);
		os_signals_read(v.os, begin_ns + t * 1000000000ull);
		v.count = os_signals_window(v.os, 77, begin_ns, begin_ns + t * 1000000000ull, 100,
					    true, v.list, LIMIT_WINDOW_SIGNALS);
		s = signal_of(&v, "cpu_steal", "");
		if (t < 3)
			assert_true(!s || !(s->value > 0));
		else
			assert_true(s && s->value > 0 && s->value <= 1000.0 / t + 1);
	}
	os_signals_close(v.os);
}

/* The canary sees four stops of 3 ms. They stand for 80 ms, but not where the hypervisor counts. */
static void the_hypervisors_count_comes_before_the_canarys_guess(void **state)
{
	const uint64_t begin_ns = 1000000000000ull, s_ns = 1000000000ull;
	char proc[64], sys[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = sys, .no_bpf = true};

	assert_int_equal(canary_open(&o.canary, true), 0);
	if (!canary_is_realtime(o.canary)) {
		canary_close(o.canary);
		skip_needs("realtime");
	}
	snprintf(proc, sizeof(proc), "%s/proc", tree);
	snprintf(sys, sizeof(sys), "%s/sys", tree);
	record("proc/77/stat", "77 (train) S 1 77 77 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	for (int reports = 0; reports < 2; reports++) {
		const struct os_signal *s;
		struct victim v = {.pid = 0};

		record("proc/stat", "cpu  1 2 3 4 5 6 7 %d 0 0\n", reports * 500);
		assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
		assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
		os_signals_read(v.os, begin_ns);
		for (uint64_t t = begin_ns; t < begin_ns + 4 * s_ns / 5; t += s_ns / 5)
			for (unsigned cpu = 0; cpu < CANARY_CPUS; cpu++)
				canary_late(o.canary, cpu, t, t + 3000000);
		os_signals_read(v.os, begin_ns + s_ns);
		v.count = os_signals_window(v.os, 77, begin_ns, begin_ns + s_ns, 100, true, v.list,
					    LIMIT_WINDOW_SIGNALS);
		s = signal_of(&v, "cpu_steal", "");
		assert_non_null(s);
		assert_near(s->value, reports ? 12 : 80, 0.02, 0);
		os_signals_close(v.os);
	}
	canary_close(o.canary);
}

/* Another group's counter does not count as what this rank suffered. */
static void a_move_to_another_group_is_no_throttling(void **state)
{
	char proc[64], sys[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = sys, .no_bpf = true};
	const uint64_t begin_ns = 1000000000000ull;
	const struct os_signal *s;
	struct victim v = {.pid = 0};

	snprintf(proc, sizeof(proc), "%s/proc", tree);
	snprintf(sys, sizeof(sys), "%s/sys", tree);
	record_second(0);
	record("sys/fs/cgroup/old/cpu.stat",
	       "usage_usec 1\nnr_throttled 9\nthrottled_usec 900000000\n");
	assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
	assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
	for (unsigned t = 0; t <= 12; t++) {
		if (t == 6)
			record("proc/77/cgroup", "0::/old\n");
		os_signals_read(v.os, begin_ns + t * 1000000000ull);
	}
	v.count = os_signals_window(v.os, 77, begin_ns + 1000000000ull, begin_ns + 12000000000ull,
				    100, false, v.list, LIMIT_WINDOW_SIGNALS);
	s = signal_of(&v, "cpu_throttled", "");
	assert_non_null(s);
	assert_true(s->value < 0.001);
	os_signals_close(v.os);
}

/* A limit that a group above gets has a counter of its own. */
static void a_lower_limit_above_is_no_refault(void **state)
{
	char proc[64], sys[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = sys, .no_bpf = true};
	const uint64_t begin_ns = 1000000000000ull;
	struct victim v = {.pid = 0};

	snprintf(proc, sizeof(proc), "%s/nested/proc", tree);
	snprintf(sys, sizeof(sys), "%s/nested/sys", tree);
	record("nested/proc/77/stat", "77 (train) S 1 77 77 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	record("nested/proc/77/cgroup", "0::/pod/train\n");
	record("nested/sys/fs/cgroup/pod/train/memory.max", "64000000\n");
	record("nested/sys/fs/cgroup/pod/train/memory.stat", "workingset_refault_file 5\n");
	record("nested/sys/fs/cgroup/pod/memory.max", "max\n");
	record("nested/sys/fs/cgroup/pod/memory.stat", "workingset_refault_file 900000\n");
	assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
	assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
	for (unsigned t = 0; t <= 12; t++) {
		if (t == 6)
			record("nested/sys/fs/cgroup/pod/memory.max", "32000000\n");
		if (t == 10) /* its own: 2,200 in these 11 s */
			record("nested/sys/fs/cgroup/pod/memory.stat",
			       "workingset_refault_file 902200\n");
		os_signals_read(v.os, begin_ns + t * 1000000000ull);
	}
	v.count = os_signals_window(v.os, 77, begin_ns + 1000000000ull, begin_ns + 12000000000ull,
				    100, false, v.list, LIMIT_WINDOW_SIGNALS);
	assert_near(sum_of(&v, "refaults", "32 MB"), 200, 0.02, 0);
	assert_null(signal_of(&v, "refaults", "64 MB"));
	os_signals_close(v.os);
}

/* Nor is what another group has stalled its pressure, though the group of its CPU limit is the same. */
static void a_move_to_another_group_is_no_pressure(void **state)
{
	char proc[64], sys[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = sys, .no_bpf = true};
	const uint64_t begin_ns = 1000000000000ull;
	struct victim v = {.pid = 0};

	snprintf(proc, sizeof(proc), "%s/hybrid/proc", tree);
	snprintf(sys, sizeof(sys), "%s/hybrid/sys", tree);
	record("hybrid/proc/77/stat", "77 (train) S 1 77 77 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	record("hybrid/proc/77/cgroup", "4:cpu:/job\n0::/a\n");
	record("hybrid/sys/fs/cgroup/cpu/job/cpu.stat", "nr_throttled 0\nthrottled_time 0\n");
	record("hybrid/sys/fs/cgroup/unified/a/memory.pressure", "some avg10=0.00 total=5\n");
	record("hybrid/sys/fs/cgroup/unified/b/memory.pressure",
	       "some avg10=0.00 total=900000000\n");
	assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
	assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
	for (unsigned t = 0; t <= 12; t++) {
		if (t == 6)
			record("hybrid/proc/77/cgroup", "4:cpu:/job\n0::/b\n");
		if (t == 10) /* its own: 550 ms in these 11 s */
			record("hybrid/sys/fs/cgroup/unified/b/memory.pressure",
			       "some avg10=0.00 total=900550000\n");
		os_signals_read(v.os, begin_ns + t * 1000000000ull);
	}
	v.count = os_signals_window(v.os, 77, begin_ns + 1000000000ull, begin_ns + 12000000000ull,
				    100, false, v.list, LIMIT_WINDOW_SIGNALS);
	assert_near(sum_of(&v, "pressure", "memory in its cgroup"), 50, 0.02, 0);
	os_signals_close(v.os);
}

/* Two hold locks, and 77 waits for the one of 900. */
static void names_who_holds_a_file_lock(void **state)
{
	char proc[64];
	struct os_signals_options o = {.proc_root = proc, .sys_root = proc, .no_bpf = true};
	const uint64_t begin_ns = 1000000000000ull;
	struct victim v = {.pid = 0};

	snprintf(proc, sizeof(proc), "%s/proc", tree);
	record("proc/77/stat", "77 (train) S 1 77 77 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	record("proc/900/task/900/comm", "download\n");
	record("proc/locks", "1: POSIX  ADVISORY  READ 901 fe:00:1 128 128\n"
			     "2: FLOCK  ADVISORY  WRITE 900 fe:00:2 0 EOF\n"
			     "2: -> FLOCK  ADVISORY  WRITE 77 fe:00:2 0 EOF\n"
			     "3: OFDLCK ADVISORY  WRITE -1 fe:00:3 0 EOF\n"
			     "3: -> OFDLCK ADVISORY  WRITE 77 fe:00:3 0 EOF\n");
	assert_int_equal(os_signals_open(&v.os, &o, begin_ns), 0);
	assert_int_equal(os_signals_watch(v.os, 77, begin_ns), 0);
	os_signals_read(v.os, begin_ns);
	os_signals_read(v.os, begin_ns + RUN_NS);
	v.count = os_signals_window(v.os, 77, begin_ns, begin_ns + RUN_NS, 10, false, v.list,
				    LIMIT_WINDOW_SIGNALS);
	assert_near(sum_of(&v, "file_lock", "download (pid 900)"), 1000, 0, 0.1);
	os_signals_close(v.os);
}

/* The kernel's own list of a lock that this process holds and a child waits for. */
static void the_kernel_says_who_holds_a_file_lock(void **state)
{
	char path[] = "/tmp/sysom-lock-XXXXXX";
	struct os_proc_lock lock[64];
	bool found = false;
	int fd = mkstemp(path);
	pid_t child;

	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	child = started_note(fork());
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd); /* the lock belongs to whoever has it open */
		flock(open(path, O_RDWR | O_CLOEXEC), LOCK_EX);
		_exit(0);
	}
	for (uint64_t until = now_ns() + 20000000000ull; !found && now_ns() < until;) {
		uint32_t n = os_proc_locks("/proc", lock, 64);

		for (uint32_t i = 0; i < n; i++)
			found |=
			    lock[i].waits == (uint32_t)child && lock[i].holds == (uint32_t)getpid();
	}
	unlink(path);
	close(fd);
	assert_true(found);
	waitpid(started_take(), NULL, 0);
}

static void an_ordinary_user_gets_a_reason(void **state)
{
	struct os_signals_options o = {.proc_root = NULL};
	int status;
	pid_t pid;

	if (geteuid())
		goto own; /* it is one already */
	fflush(NULL);
	pid = fork();
	if (!pid) {
		struct os_signals_stats st;
		struct os_signals *s;

		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534) ||
		    os_signals_open(&s, &o, now_ns()))
			_exit(1);
		os_signals_stats(s, &st);
		_exit(!st.bpf && st.why[0] ? 0 : 2);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
own:
	if (geteuid())
		has_bpf(); /* prints the reason; must not fail */
}

static int tree_make(void **state)
{
	return mkdtemp(tree) ? 0 : -1;
}

static int tree_remove(void **state)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", tree);
	return system(command);
}

/* Also after a failure: nothing is left in the machine. */
static int clean_up(void **state)
{
	char path[128];

	below = BELOW_NONE;
	put_text("/proc/self/autogroup", "0");
	for (pid_t pid; (pid = started_take()) > 0;) {
		if (waitpid(pid, NULL, WNOHANG)) /* ended and waited for: not ours any more */
			continue;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	if (disk.group[0])
		slow_disk_remove(&disk);
	disk.group[0] = '\0';
	if (tight.file[0])
		tight_group_remove(&tight);
	network_remove();
	snprintf(path, sizeof(path), "%s/file", lock_dir);
	unlink(path);
	rmdir(lock_dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(names_the_process_that_had_the_cpu, clean_up),
	    cmocka_unit_test_teardown(names_no_wait_of_our_own_thread, clean_up),
	    cmocka_unit_test_teardown(counts_migrations, clean_up),
	    cmocka_unit_test_teardown(counts_page_faults, clean_up),
	    cmocka_unit_test_teardown(minor_faults_are_as_many_as_getrusage_has, clean_up),
	    cmocka_unit_test_teardown(pages_moved_to_make_room_are_no_matter_of_numa, clean_up),
	    cmocka_unit_test_teardown(reads_the_memory_pressure_of_the_ranks_group, clean_up),
	    cmocka_unit_test_teardown(follows_children_of_the_rank, clean_up),
	    cmocka_unit_test_teardown(keeps_a_rank_below_a_rank_apart, clean_up),
	    cmocka_unit_test_teardown(sees_the_wait_for_a_slow_disk, clean_up),
	    cmocka_unit_test_teardown(names_the_process_that_had_the_cpu_without_task_storage,
				      clean_up),
	    cmocka_unit_test_teardown(counts_migrations_without_task_storage, clean_up),
	    cmocka_unit_test_teardown(follows_children_without_task_storage, clean_up),
	    cmocka_unit_test_teardown(counts_what_an_ended_thread_did, clean_up),
	    cmocka_unit_test_teardown(sees_the_wait_for_a_slow_disk_without_task_storage, clean_up),
	    cmocka_unit_test_teardown(lets_go_of_what_is_over_its_budget, clean_up),
	    cmocka_unit_test_teardown(names_who_shares_a_contended_lock, clean_up),
	    cmocka_unit_test_teardown(gives_rates_of_the_time_in_which_somebody_counted, clean_up),
	    cmocka_unit_test_teardown(reports_interrupts_that_took_a_threads_time, clean_up),
	    cmocka_unit_test_teardown(maps_retransmits_to_the_rank_with_the_socket, clean_up),
	    cmocka_unit_test_teardown(a_probe_of_what_arrived_is_no_loss, clean_up),
	    cmocka_unit_test_teardown(names_which_programs_are_left_out, clean_up),
	    cmocka_unit_test_teardown(goes_on_without_bpf_and_says_so, clean_up),
	    cmocka_unit_test_teardown(reads_limits_and_pressure_of_a_recorded_host, clean_up),
	    cmocka_unit_test_teardown(a_move_to_another_group_is_no_throttling, clean_up),
	    cmocka_unit_test_teardown(a_steal_counter_that_falls_or_leaps_is_no_flood, clean_up),
	    cmocka_unit_test_teardown(the_hypervisors_count_comes_before_the_canarys_guess,
				      clean_up),
	    cmocka_unit_test_teardown(a_move_to_another_group_is_no_pressure, clean_up),
	    cmocka_unit_test_teardown(a_lower_limit_above_is_no_refault, clean_up),
	    cmocka_unit_test_teardown(names_who_holds_a_file_lock, clean_up),
	    cmocka_unit_test_teardown(the_kernel_says_who_holds_a_file_lock, clean_up),
	    cmocka_unit_test_teardown(an_ordinary_user_gets_a_reason, clean_up),
	};

	return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
