/* SPDX-License-Identifier: Apache-2.0
 * What the OS signals cost: ns per event of each program by the kernel's run-time statistics (which
 * add a reading of the clock to each run), and the share of a core under a pair of processes that do
 * nothing but wake each other: while nobody is watched, and while they are. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sidecar/os/os_signals_private.h"

#ifdef SIDECAR_BPF
#include <bpf/bpf.h>
#endif

#define SECONDS	 4u
#define PROGRAMS 32u

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void end_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Parent and child hand a byte to and fro; the parent's pid. */
static pid_t start_pair(int cpu)
{
	int there[2], back[2];
	cpu_set_t set;
	pid_t pid;
	char c = 0;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	end_with_parent();
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	if (pipe(there) || pipe(back))
		_exit(1);
	if (!fork()) {
		end_with_parent();
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
		_exit(0);
	}
	while (write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1)
		;
	_exit(0);
}

static int stats_on(void)
{
#ifdef SIDECAR_BPF
	return bpf_enable_stats(BPF_STATS_RUN_TIME);
#else
	return -1;
#endif
}

static void phase(struct os_signals *s, const char *title)
{
	struct os_signals_program before[PROGRAMS], after[PROGRAMS];
	uint64_t begin, reads, read_ns, total = 0, runs = 0;
	struct os_signals_stats st;
	double seconds;
	uint32_t n;

	for (uint32_t i = 0; i < 2; i++) { /* the first read sees everything for the first time */
		sleep(1);
		os_signals_read(s, now_ns());
	}
	os_signals_stats(s, &st);
	reads = st.reads;
	read_ns = st.read_ns;
	os_bpf_programs(s->bpf, before, PROGRAMS);
	begin = now_ns();
	for (uint32_t i = 0; i < SECONDS; i++) {
		sleep(1);
		os_signals_read(s, now_ns());
	}
	seconds = (double)(now_ns() - begin) * 1e-9;
	n = os_bpf_programs(s->bpf, after, PROGRAMS);
	printf("   %s\n", title);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t count = after[i].run_count - before[i].run_count;
		uint64_t ns = after[i].run_time_ns - before[i].run_time_ns;

		total += ns;
		runs += count;
		if (count)
			printf("   %-24s %9.0f/s %7.0f ns\n", after[i].name,
			       (double)count / seconds, (double)ns / (double)count);
	}
	os_signals_stats(s, &st);
	printf("   all programs: %.0f events/s, %.2f%% of a core; reading: %.2f ms a second; maps "
	       "%.1f MB\n",
	       (double)runs / seconds, (double)total / seconds * 1e-7,
	       (double)(st.read_ns - read_ns) / (double)(st.reads - reads) * 1e-6,
	       (double)st.map_bytes * 1e-6);
}

int main(void)
{
	struct os_signals_options o = {.proc_root = NULL};
	struct os_signals_stats st;
	struct os_signals *s;
	pid_t pair = start_pair(0);
	int stats = stats_on();

	if (os_signals_open(&s, &o, now_ns()))
		return 1;
	os_signals_stats(s, &st);
	if (!st.bpf) {
		printf("   no BPF here: %s\n", st.why);
		goto end;
	}
	phase(s, "nobody is watched");
	os_signals_watch(s, (uint32_t)pair, now_ns());
	phase(s, "both processes are watched");
end:
	kill(pair, SIGKILL);
	waitpid(pair, NULL, 0);
	os_signals_close(s);
	if (stats >= 0)
		close(stats);
	return 0;
}
