/* SPDX-License-Identifier: Apache-2.0
 * ring_load.c - a job that does nothing but write its rings, at a rate that is asked for: what sysomd costs
 * at many events a second can be seen where the job that makes them would need all the CPUs.
 * usage: ring_load RANKS EVENTS_PER_S SECONDS; the socket by SYSOM_SOCKET_PATH
 * Each rank is a process. It writes launches every 5 ms as they are due, and the records of their kernels
 * every 100 ms, as a job's helper thread delivers them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "ring/attach.h"
#include "tests/bench/ring_job.h"

#define TICK_NS	      5000000ull
#define FLUSH_NS      100000000ull
#define KERNEL_LAG_NS 15000u /* from launch to start */
/* Whoever got no CPU for so long leaves that time out: a burst of it would be no load but a loss. */
#define LATE_MAX_NS 200000000ull

struct load {
	struct ring_job job;
	struct attach_hello hello;
	int sock;
	uint64_t pace_ns, step_ns;
	uint64_t launched, delivered; /* launches of all steps */
	uint64_t begin_ns;
};

/* Attached, or dials again: as a job does while there is no sysomd. */
static void tend_socket(struct load *l, const char *path)
{
	struct attach_command c;

	if (l->sock < 0)
		l->sock = attach_connect(path, &l->hello, (int[]){l->job.w.fd, l->job.w.page_fd});
	if (l->sock >= 0 && recv(l->sock, &c, sizeof(c), MSG_DONTWAIT) == 0) {
		close(l->sock);
		l->sock = -1;
	}
}

static uint64_t launch_time(const struct load *l, uint64_t n)
{
	return l->begin_ns + n / RING_JOB_LAUNCHES * l->step_ns +
	       n % RING_JOB_LAUNCHES * l->pace_ns;
}

static void write_due(struct load *l, uint64_t now_ns, bool deliver)
{
	while (launch_time(l, l->launched) < now_ns) {
		ring_job_launch(&l->job, l->launched % RING_JOB_LAUNCHES,
				launch_time(l, l->launched));
		l->launched++;
	}
	while (deliver && launch_time(l, l->delivered) + KERNEL_LAG_NS + l->pace_ns < now_ns &&
	       l->delivered < l->launched) {
		ring_job_kernel(&l->job, l->delivered % RING_JOB_LAUNCHES,
				launch_time(l, l->delivered) + KERNEL_LAG_NS, l->pace_ns * 3 / 4,
				false);
		l->delivered++;
	}
}

static void run_rank(uint32_t rank, uint32_t ranks, double rate, double seconds)
{
	static struct load l;
	char path[256];
	uint64_t now_ns = clock_monotonic_ns(), end_ns, flushed_ns = 0, seen_ns = now_ns;

	CHECK(!attach_path(path, sizeof(path)));
	l.step_ns = (uint64_t)(1e9 * RING_JOB_EVENTS * ranks / rate);
	l.pace_ns = l.step_ns / (RING_JOB_LAUNCHES + 40);
	l.begin_ns = now_ns;
	l.sock = -1;
	ring_job_start(&l.job, rank, ranks, now_ns);
	attach_hello_fill(&l.hello);
	l.hello.rank = l.hello.local_rank = (int32_t)rank;
	l.hello.world_size = l.hello.local_world_size = (int32_t)ranks;
	strcpy(l.hello.job, "ring_load");
	for (end_ns = now_ns + (uint64_t)(seconds * 1e9); now_ns < end_ns;) {
		bool deliver = now_ns - flushed_ns >= FLUSH_NS;

		if (now_ns - seen_ns > LATE_MAX_NS)
			l.begin_ns += now_ns - seen_ns;
		seen_ns = now_ns;
		write_due(&l, now_ns, deliver);
		if (deliver) {
			flushed_ns = now_ns;
			ring_writer_reclaim(&l.job.w, now_ns);
			tend_socket(&l, path);
		}
		clock_sleep_until(now_ns + TICK_NS);
		now_ns = clock_monotonic_ns();
	}
	fprintf(stderr, "ring_load: rank %u wrote %llu launches and %llu kernels\n", rank,
		(unsigned long long)l.launched, (unsigned long long)l.delivered);
}

int main(int argc, char **argv)
{
	uint32_t ranks = argc == 4 ? (uint32_t)atoi(argv[1]) : 0;

	if (!ranks || ranks > LIMIT_NODE_PROCESSES || atof(argv[2]) <= 0) {
		fprintf(stderr, "usage: ring_load RANKS EVENTS_PER_S SECONDS\n");
		return 2;
	}
	for (uint32_t i = 0; i < ranks; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_rank(i, ranks, atof(argv[2]), atof(argv[3]));
			return 0;
		}
	while (wait(NULL) > 0)
		;
	return 0;
}
