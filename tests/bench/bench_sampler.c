/* SPDX-License-Identifier: Apache-2.0
 * What the CPU sampler costs: per sample, for the job, for the node. usage: bench_sampler
 * BENCH_SECONDS (240) is about how long all of it takes; the intervals narrow with it.
 * Jobs: a C program with 30 frames and a PyTorch training step, each counting its steps in shared
 * memory. Throughput is compared in slices of 200 ms in random order inside one run of the job,
 * each slice with the idle slice before it; perf's recordings are switched by its control channel
 * in the same run. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "sampler/sampler.h"

#define SLICE_MS  200
#define PAIRS_MAX 400

static char self[4096], dir[] = "/tmp/bench_sampler.XXXXXX";
static volatile uint64_t *steps; /* the job's counter */

/* ---- jobs ---- */

static volatile uint64_t sink;

static __attribute__((noinline)) void job_work(int depth)
{
	if (depth)
		job_work(depth - 1);
	for (int i = 0; i < 300; i++)
		sink += (uint64_t)i;
}

static void __attribute__((noreturn)) job_main(const char *counter)
{
	int fd = open(counter, O_RDWR);
	volatile uint64_t *mine = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		job_work(28);
		++*mine;
	}
}

static const char torch_job[] =
    "import sys, mmap, struct, torch, torch.nn as nn\n"
    "torch.set_num_threads(1)\n"
    "f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 4096)\n"
    "net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.BatchNorm2d(16), nn.Conv2d(16, 16, "
    "3),\n"
    "                    nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))\n"
    "enc = nn.TransformerEncoderLayer(32, 4, 64)\n"
    "opt = torch.optim.Adam(list(net.parameters()) + list(enc.parameters()), lr=1e-3)\n"
    "n = 0\n"
    "def step():\n"
    "    x = torch.randn(4, 3, 24, 24); y = torch.randint(0, 10, (4,)); s = torch.randn(6, 2, 32)\n"
    "    opt.zero_grad()\n"
    "    loss = nn.functional.cross_entropy(net(x), y) + enc(s).pow(2).mean()\n"
    "    loss.backward(); opt.step()\n"
    "while True:\n"
    "    step(); n += 1; m[0:8] = struct.pack('<Q', n)\n";

static pid_t job_start(bool torch, const char *counter)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (torch)
			execl("/usr/bin/python3", "/usr/bin/python3", "-c", torch_job, counter,
			      NULL);
		else
			execl(self, self, "--job", counter, NULL);
		_exit(127);
	}
	return pid;
}

/* ---- the sampler ---- */

static void run_for(struct sampler *s, int ms)
{
	uint64_t end = clock_monotonic_ns() + (uint64_t)ms * 1000000;

	for (uint64_t now; (now = clock_monotonic_ns()) < end;) {
		struct pollfd p = {.fd = s ? sampler_fd(s) : -1, .events = POLLIN};

		poll(&p, 1, (int)((end - now) / 1000000) + 1);
		if (s)
			sampler_poll(s);
	}
}

static void settle(struct sampler *s)
{
	struct sampler_stats stats;

	for (int i = 0; i < 600; i++) {
		run_for(s, 50);
		sampler_stats_get(s, &stats);
		if (i > 2 && !stats.pending)
			return;
	}
}

static struct sampler *sampler_for(bool off_cpu)
{
	struct sampler_options o;
	struct sampler_stats stats;
	struct sampler *s;

	sampler_options_init(&o);
	o.off_cpu = off_cpu;
	if (sampler_open(&s, &o))
		exit(1);
	sampler_stats_get(s, &stats);
	if (stats.mode < SAMPLER_BPF_TAIL) {
		printf("bench_sampler: only mode \"%s\" works here: %s\n",
		       sampler_mode_name(stats.mode), stats.why);
		exit(77);
	}
	return s;
}

static size_t batch_bytes(const struct stack_batch *b)
{
	return b->object_count * sizeof(*b->objects) + b->frame_count * sizeof(*b->frames) +
	       b->stack_count * sizeof(*b->stacks) + b->sample_count * sizeof(*b->samples) +
	       b->string_bytes;
}

/* ---- cost per sample ---- */

struct cost {
	double ns_per_sample, frames_per_sample, core_share, samples;
	double drain_ms, drain_bytes_per_s;
	double rows; /* that the kernel's aggregation left of the samples */
};

static void measure_cost(struct sampler *s, uint32_t hz, uint32_t percent, int ms, struct cost *out)
{
	struct sampler_stats a, b;
	struct stack_batch batch;
	uint64_t begin, end, cpu;

	stack_batch_init(&batch, keyed_process());
	sampler_set_rate(s, hz, percent);
	sampler_drain(s, &batch);
	stack_batch_clear(&batch);
	sampler_stats_get(s, &a);
	begin = clock_monotonic_ns();
	run_for(s, ms);
	end = clock_monotonic_ns();
	sampler_stats_get(s, &b);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	sampler_drain(s, &batch);
	out->drain_ms = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / 1e6;
	out->drain_bytes_per_s = (double)batch_bytes(&batch) / ((double)(end - begin) / 1e9);
	out->samples = (double)(b.target_count - a.target_count);
	out->rows = (double)batch.sample_count;
	if (out->samples > 0) {
		out->frames_per_sample = (double)(b.frames - a.frames) / out->samples;
		out->ns_per_sample = (double)(b.target_ns - a.target_ns) / out->samples;
	}
	out->core_share = (double)(b.run_time_ns - a.run_time_ns) / (double)(end - begin);
	stack_batch_fini(&batch);
}

/* Of a tick that takes no sample. */
static double other_tick_ns(struct sampler *s)
{
	struct sampler_stats a, b;

	sampler_set_rate(s, 999, 100);
	sampler_stats_get(s, &a);
	run_for(s, 500);
	sampler_stats_get(s, &b);
	return b.run_count > a.run_count
		   ? (double)(b.run_time_ns - a.run_time_ns) / (double)(b.run_count - a.run_count)
		   : 0;
}

static void cost_table(const char *job, pid_t pid, int ms)
{
	struct sampler *s = sampler_for(false);
	double other = other_tick_ns(s);
	static const uint32_t point[][2] = {{999, 100}, {99, 100}, {99, 50},
					    {99, 10},	{99, 1},   {10, 100}};
	struct cost c;

	ms /= (int)(sizeof(point) / sizeof(point[0]));
	sampler_add(s, (uint32_t)pid, true);
	settle(s);
	printf("\n%s: cost in the kernel (ns/sample: ticks that took one; %% of a core: BPF run "
	       "time of all ticks,\n"
	       "of which one without a sample takes %.0f ns)\n",
	       job, other);
	printf("  %6s %9s %8s %10s %8s %12s %10s %12s\n", "Hz", "fraction", "samples", "ns/sample",
	       "frames", "% of a core", "drain ms", "batch B/s");
	for (size_t i = 0; i < sizeof(point) / sizeof(point[0]); i++) {
		c = (struct cost){0};
		measure_cost(s, point[i][0], point[i][1], ms, &c);
		if (c.samples < 1) {
			printf("  %6u %8u%% %8s\n", point[i][0], point[i][1], "none");
			continue;
		}
		printf("  %6u %8u%% %8.0f %10.0f %8.1f %12.4f %10.2f %12.0f\n", point[i][0],
		       point[i][1], c.samples, c.ns_per_sample, c.frames_per_sample,
		       c.core_share * 100, c.drain_ms, c.drain_bytes_per_s);
	}
	sampler_close(s);
}

/* The fractions of SysOM-AI's table 2: what a period's samples cost, and by how much the kernel's
 * aggregation reduces them. Without slices, as `sysom record`; sysomd keeps 10 ms apart. */
static void fraction_table(const char *job, pid_t pid, int ms)
{
	static const uint32_t percent[] = {1, 10, 20, 40, 80, 100};
	struct sampler *s = sampler_for(false);
	struct cost c;

	ms /= (int)(sizeof(percent) / sizeof(percent[0]));
	sampler_add(s, (uint32_t)pid, true);
	settle(s);
	printf("\n%s: 99 Hz by fraction, drains of %d ms\n", job, ms);
	printf("  %9s %8s %12s %6s %11s\n", "fraction", "samples", "% of a core", "rows",
	       "samples/row");
	for (size_t i = 0; i < sizeof(percent) / sizeof(percent[0]); i++) {
		c = (struct cost){0};
		measure_cost(s, 99, percent[i], ms, &c);
		printf("  %8u%% %8.0f %12.4f %6.0f %11.1f\n", percent[i], c.samples,
		       c.core_share * 100, c.rows, c.rows > 0 ? c.samples / c.rows : 0);
	}
	sampler_close(s);
}

/* What blocked time costs: all runs at all switches of the node, at a rate of ticks that is
 * nothing. */
static void off_cpu_cost(pid_t pid, int ms)
{
	struct sampler *s = sampler_for(true);
	struct sampler_stats a, b;

	sampler_add(s, (uint32_t)pid, true);
	settle(s);
	sampler_set_rate(s, 10, 1);
	sampler_stats_get(s, &a);
	run_for(s, ms);
	sampler_stats_get(s, &b);
	printf("  blocked time: %.0f switches and wake-ups of the node per second, %.0f ns each, "
	       "%.4f%% of a "
	       "core; %.0f stacks and %.0f short sleeps per second, %.0f ns per sleep\n",
	       (double)(b.run_count - a.run_count) * 1000 / ms,
	       (double)(b.run_time_ns - a.run_time_ns) / (double)(b.run_count - a.run_count + 1),
	       (double)(b.run_time_ns - a.run_time_ns) / 1e4 / ms,
	       (double)(b.off_cpu_captures - a.off_cpu_captures) * 1000 / ms,
	       (double)(b.off_cpu_short - a.off_cpu_short) * 1000 / ms,
	       (double)(b.off_cpu_ns - a.off_cpu_ns) /
		   (double)(b.off_cpu_captures + b.off_cpu_short - a.off_cpu_captures -
			    a.off_cpu_short + 1));
	sampler_close(s);
}

/* ---- tables and memory ---- */

static long self_kib(const char *field)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, field, strlen(field)))
			kib = strtol(line + strlen(field), NULL, 10);
	}
	if (f)
		fclose(f);
	return kib;
}

static void table_figures(pid_t pid)
{
	uint64_t begin = clock_monotonic_ns(), opened, settled;
	struct sampler *s = sampler_for(true);
	struct sampler_stats stats;

	opened = clock_monotonic_ns();
	sampler_add(s, (uint32_t)pid, true);
	settle(s);
	settled = clock_monotonic_ns();
	run_for(s, 2000);
	sampler_stats_get(s, &stats);
	printf("\nPyTorch process: %u mappings, %u tables, %u refused; programs loaded in %.0f ms, "
	       "all tables "
	       "after %.0f ms (%.0f ms of the worker's CPU)\n",
	       stats.mappings, stats.tables, stats.tables_refused, (double)(opened - begin) / 1e6,
	       (double)(settled - opened) / 1e6, (double)stats.table_build_ns / 1e6);
	printf("  tables %.1f MiB, all BPF maps %.1f MiB, this process: VmRSS %.1f MiB, VmHWM %.1f "
	       "MiB\n",
	       (double)stats.table_bytes / 1048576, (double)stats.map_bytes / 1048576,
	       (double)self_kib("VmRSS:") / 1024, (double)self_kib("VmHWM:") / 1024);
	sampler_close(s);
}

/* ---- throughput ---- */

struct arm {
	const char *name;
	uint32_t hz, percent; /* 0: not the sampler */
	const char *perf;     /* arguments of perf record */
	int control, ack;
	pid_t pid;
	bool stopped; /* the process is removed from the sampler */
	double log_ratio[PAIRS_MAX];
	uint32_t n;
};

static void perf_say(struct arm *a, const char *word)
{
	char answer[64];
	struct pollfd p = {.fd = a->ack, .events = POLLIN};

	if (a->control < 0 || write(a->control, word, strlen(word)) < 0)
		return;
	if (poll(&p, 1, 3000) > 0 && read(a->ack, answer, sizeof(answer)) < 0)
		a->control = -1;
}

static void perf_start(struct arm *a, pid_t target, int index)
{
	char command[1024], control[128], ack[128];

	snprintf(control, sizeof(control), "%s/control%d", dir, index);
	snprintf(ack, sizeof(ack), "%s/ack%d", dir, index);
	unlink(control); /* of the job before */
	unlink(ack);
	if (mkfifo(control, 0600) || mkfifo(ack, 0600))
		return;
	a->control = open(control, O_RDWR | O_CLOEXEC);
	a->ack = open(ack, O_RDWR | O_CLOEXEC);
	snprintf(command, sizeof(command),
		 "exec perf record %s -D -1 --control fifo:%s,%s -o %s/perf%d.data -p %d "
		 ">/dev/null 2>&1",
		 a->perf, control, ack, dir, index, (int)target);
	a->pid = fork();
	if (!a->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	run_for(NULL, 1500);
	perf_say(a, "disable\n");
}

static double slice(struct sampler *s)
{
	uint64_t from = *steps, begin = clock_monotonic_ns();

	run_for(s, SLICE_MS);
	return (double)(*steps - from) / (double)(clock_monotonic_ns() - begin);
}

static void arm_on(struct arm *a, struct sampler *s, pid_t target, bool on)
{
	if (a->stopped && on)
		sampler_remove(s, (uint32_t)target);
	if (a->stopped && !on) {
		sampler_add(s, (uint32_t)target, true);
		run_for(s, SLICE_MS); /* tables are there; its mappings are read */
	}
	if (a->perf) {
		perf_say(a, on ? "enable\n" : "disable\n");
		return;
	}
	if (!a->hz)
		return;
	sampler_set_rate(s, on ? a->hz : 10, on ? a->percent : 1);
}

/* Each arm once per round, in random order. */
static struct arm *next_arm(struct arm *arms, uint32_t n, uint32_t k)
{
	static uint32_t order[32];

	for (uint32_t i = 0; !k && i < n; i++) {
		uint32_t j = (uint32_t)random() % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	return &arms[order[k]];
}

/* Of Student's distribution with n - 1 degrees of freedom, 97.5%. */
static double quantile(uint32_t n)
{
	static const double q[] = {12.71, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27, 2.23,
				   2.21,  2.18, 2.17, 2.15, 2.14, 2.12, 2.11, 2.11, 2.10, 2.09};

	return n < 2 ? HUGE_VAL : n - 2 < sizeof(q) / sizeof(q[0]) ? q[n - 2] : 2.09;
}

static void arm_print(const struct arm *a)
{
	double mean = 0, var = 0, half;

	if (a->n < 3) {
		printf("  %-34s too few slices (%u)\n", a->name, a->n);
		return;
	}

	for (uint32_t i = 0; i < a->n; i++)
		mean += a->log_ratio[i] / a->n;
	for (uint32_t i = 0; i < a->n; i++)
		var +=
		    (a->log_ratio[i] - mean) * (a->log_ratio[i] - mean) / (a->n > 1 ? a->n - 1 : 1);
	half = quantile(a->n) * sqrt(var / (a->n ? a->n : 1));
	printf("  %-34s %+7.2f%%  [%+.2f, %+.2f]  n=%u%s\n", a->name, 100 * (exp(mean) - 1),
	       100 * (exp(mean - half) - 1), 100 * (exp(mean + half) - 1), a->n,
	       mean - half < 0 && mean + half > 0 ? "  not resolvable" : "");
}

static void throughput(const char *job, pid_t pid, int ms)
{
	uint64_t end;
	struct arm arms[] = {
	    {.name = "nothing (A/A: the noise)"},
	    {.name = "after stopping (process removed)", .stopped = true},
	    {.name = "sampler 10 Hz, 100%", .hz = 10, .percent = 100},
	    {.name = "sampler 99 Hz, 10% (default)", .hz = 99, .percent = 10},
	    {.name = "sampler 99 Hz, 1%", .hz = 99, .percent = 1},
	    {.name = "sampler 99 Hz, 20%", .hz = 99, .percent = 20},
	    {.name = "sampler 99 Hz, 40%", .hz = 99, .percent = 40},
	    {.name = "sampler 99 Hz, 80%", .hz = 99, .percent = 80},
	    {.name = "sampler 99 Hz, 100%", .hz = 99, .percent = 100},
	    {.name = "sampler 999 Hz, 100%", .hz = 999, .percent = 100},
	    {.name = "perf record -F 99 --call-graph fp", .perf = "-F 99 --call-graph fp"},
	    {.name = "perf record -F 99 --call-graph dwarf", .perf = "-F 99 --call-graph dwarf"},
	    {.name = "perf record -F 999 --call-graph dwarf", .perf = "-F 999 --call-graph dwarf"},
	};
	uint32_t n = sizeof(arms) / sizeof(arms[0]);
	struct sampler *s = sampler_for(false);
	struct stack_batch b;

	stack_batch_init(&b, keyed_process());
	sampler_add(s, (uint32_t)pid, true);
	settle(s);
	for (uint32_t i = 0; i < n; i++) {
		arms[i].control = -1;
		if (arms[i].perf && !access("/usr/bin/perf", X_OK))
			perf_start(&arms[i], pid, (int)i);
		arm_on(&arms[i], s, pid, false);
	}
	end = clock_monotonic_ns() + (uint64_t)ms * 1000000;
	for (uint32_t k = 0; clock_monotonic_ns() < end; k = (k + 1) % n) {
		struct arm *a = next_arm(arms, n, k);
		double before = slice(s), with, after;

		arm_on(a, s, pid, true);
		with = slice(s);
		arm_on(a, s, pid, false);
		after = slice(s);
		if (before > 0 && with > 0 && after > 0 && a->n < PAIRS_MAX &&
		    (!a->perf || a->control >= 0))
			a->log_ratio[a->n++] = log(with) - (log(before) + log(after)) / 2;
		stack_batch_clear(&b);
		sampler_drain(s, &b);
	}
	printf("\n%s: throughput against the slices around (10 Hz, 1%%), 95%% intervals\n", job);
	for (uint32_t i = 0; i < n; i++) {
		if (arms[i].n)
			arm_print(&arms[i]);
		if (arms[i].pid > 0) {
			kill(arms[i].pid, SIGTERM);
			waitpid(arms[i].pid, NULL, 0);
		}
	}
	stack_batch_fini(&b);
	sampler_close(s);
}

/* ---- */

/* ms: for all of it. */
static void one_job(const char *name, bool torch, int ms)
{
	char counter[64];
	pid_t pid;
	int fd;

	snprintf(counter, sizeof(counter), "%s/counter%d", dir, torch);
	fd = open(counter, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 4096))
		exit(1);
	steps = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	pid = job_start(torch, counter);
	for (int i = 0; i < 600 && !*steps; i++)
		run_for(NULL, 50);
	if (!*steps) {
		printf("\n%s: did not start\n", name);
		return;
	}
	cost_table(name, pid, ms / 8);
	fraction_table(name, pid, ms / 4);
	off_cpu_cost(pid, ms / 16);
	if (torch)
		table_figures(pid);
	throughput(name, pid, ms / 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *text = getenv("BENCH_SECONDS");
	int seconds = text && atoi(text) > 0 ? atoi(text) : 240, stats_fd;
	double load[3] = {0};
	unsigned seed = (unsigned)clock_realtime_ns();
	char command[128];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (argc == 3 && !strcmp(argv[1], "--job"))
		job_main(argv[2]);
	if (n <= 0 || !mkdtemp(dir))
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	srandom(seed);
	stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats_fd < 0) {
		printf(
		    "bench_sampler: needs root and Linux 5.8 for the run time of BPF programs\n");
		return 77;
	}
	getloadavg(load, 3);
	printf(
	    "seed %u, %d s (BENCH_SECONDS), slices of %d ms in random order, load average %.1f\n",
	    seed, seconds, SLICE_MS, load[0]);
	one_job("C, 30 frames", false, seconds * 500);
	one_job("PyTorch training step, 1 thread", true, seconds * 500);
	getloadavg(load, 3);
	printf("\nload average at the end %.1f\n", load[0]);
	close(stats_fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) ? 1 : 0;
}
