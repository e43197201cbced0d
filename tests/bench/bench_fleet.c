/* SPDX-License-Identifier: Apache-2.0
 * bench_fleet - beats of 10,000 nodes with 8 ranks each, every 5 s, into one aggregator's fleet:
 * encoded messages through the codec, the tables, the comparison and the replies, in simulated
 * time. Printed: CPU time per simulated second (the aggregator has two cores: 200%), the longest
 * turn, memory, and for each injected fault after how many seconds it was found. Making the beats
 * is not counted. usage: bench_fleet [SECONDS [JOBS]]; with JOBS as many of 8 ranks, without any fault. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/fleet/fleet.h"
#include "aggregator/incident/incident.h"
#include "base/metrics/otlp.h"
#include "base/metrics/prometheus.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "tests/fleet_synth.h"
#include "wire/codec.h"

#define PER_NODE 8u
#define FAULT_S	 40.0
#define JOBS_MAX LIMIT_FLEET_JOBS

struct fault {
	const char *what;
	uint32_t job;
	int32_t ranks[2];
	uint32_t count;
	double slow_ms;
	bool hang;
	double found_s; /* of simulated time; 0: not yet */
};

static struct fs_job jobs[JOBS_MAX];
static uint32_t job_count, rank_total;
static struct fault faults[] = {
    {"one of 1,024 ranks, 3 ms of 100", 3, {517}, 1, 3, false, 0},
    {"one of 1,024 ranks, 0.6 ms of 100", 7, {40}, 1, 0.6, false, 0},
    {"two of 128 ranks, 5 ms of 100", 80, {5, 99}, 2, 5, false, 0},
    {"one of 8 ranks, 2 ms of 100", 400, {6}, 1, 2, false, 0},
    {"one of 8 ranks stays away from a collective", 401, {2}, 1, 0, true, 0},
};
static uint32_t fault_count; /* of these, how many are in this run */
static uint32_t wrong;
static double now_s;

static void on_finding(void *arg, const struct finding_report *f)
{
	(void)arg;
	for (uint32_t i = 0; i < fault_count; i++) {
		struct fault *k = &faults[i];
		uint32_t right = 0;

		if (strcmp(f->job, jobs[k->job].name) ||
		    (f->finding.kind == FINDING_HANG) != k->hang)
			continue;
		for (uint32_t r = 0; r < f->finding.rank_count; r++)
			for (uint32_t m = 0; m < k->count; m++)
				right += f->finding.ranks[r] == k->ranks[m];
		if (right == k->count && !k->found_s)
			k->found_s = now_s;
		if (right == f->finding.rank_count)
			return;
	}
	if (wrong++ < 10)
		printf("wrong: job %s, %s, rank %d of %u: %s\n", f->job,
		       finding_kind_name(f->finding.kind), f->finding.ranks[0],
		       f->finding.rank_count, f->finding.evidence[0].text);
}

static void add_jobs(uint32_t count, uint32_t ranks)
{
	for (uint32_t i = 0; i < count; i++) {
		struct fs_job *j = &jobs[job_count];
		char name[64];

		snprintf(name, sizeof(name), "job-%u-of-%u", job_count, ranks);
		fs_init(j, name, ranks, PER_NODE, 1000 + job_count);
		j->first_node = rank_total / PER_NODE;
		j->sample_every = 2; /* as many collectives as a beat holds */
		job_count++;
		rank_total += ranks;
	}
}

static void inject(void)
{
	for (uint32_t i = 0; i < ARRAY_LEN(faults); i++) {
		struct fs_job *j = &jobs[faults[i].job];

		for (uint32_t m = 0; m < faults[i].count; m++) {
			j->rank[faults[i].ranks[m]].slow_ns = faults[i].slow_ms * FS_MS;
			j->rank[faults[i].ranks[m]].slow_from_s = FAULT_S;
			j->rank[faults[i].ranks[m]].hung = faults[i].hang;
		}
		if (faults[i].hang)
			j->stopped_step = (uint64_t)(FAULT_S * 1e9 / j->step_ns);
	}
}

/* While it hangs: everybody but the one waits in the next collective. */
static void hang(struct fs_job *j, struct beat *b, uint32_t first)
{
	for (uint32_t i = 0; j->stopped_step && i < b->rank_count; i++) {
		struct beat_comm *c = &b->ranks[i].comms[0];

		if (j->rank[first + i].reported < j->stopped_step - 1 || j->rank[first + i].hung)
			continue;
		c->entered++;
		c->seq++;
		c->done_ns = 0;
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double rss_mib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages[2] = {0};

	if (f && fscanf(f, "%ld %ld", &pages[0], &pages[1]) != 2)
		pages[1] = 0;
	if (f)
		fclose(f);
	return (double)pages[1] * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static struct {
	uint64_t beats, bytes, commands, beat_ns, tick_ns, ticks, beat_most_ns, tick_most_ns;
} sum;

static void one_beat(struct fleet *f, const struct buf *message, struct buf *answer,
		     struct wire_reply *r)
{
	uint64_t begun = cpu_ns(), spent;
	struct beat b;

	CHECK(!wire_beat_decode(message->data, message->bytes, &b));
	fleet_beat(f, &b, (struct fleet_via){0}, (uint64_t)((now_s + 5000) * 1e9));
	memset(r->id, 0, sizeof(r->id));
	r->command_count = fleet_commands(f, &b, r->commands, WIRE_COMMANDS_MAX);
	wire_beat_free(&b);
	buf_clear(answer);
	CHECK(!wire_reply_encode(r, answer));
	spent = cpu_ns() - begun;
	sum.beat_ns += spent;
	sum.beat_most_ns = spent > sum.beat_most_ns ? spent : sum.beat_most_ns;
	sum.beats++;
	sum.bytes += message->bytes;
	sum.commands += r->command_count;
}

static void simulate(struct fleet *f, uint32_t tenths, struct beat_rank *ranks)
{
	static struct wire_reply reply;
	struct buf message, answer;

	buf_init(&message, LIMIT_WIRE_MESSAGE_BYTES);
	buf_init(&answer, LIMIT_WIRE_MESSAGE_BYTES);
	for (uint32_t t = 0; t < tenths; t++) {
		now_s = t / 10.0;
		for (uint32_t i = 0; i < job_count; i++) {
			struct fs_job *j = &jobs[i];

			for (uint32_t n = 0; n < j->ranks / PER_NODE; n++) {
				struct beat b;

				if ((t + (uint32_t)(j->node[n].phase_s * 10)) % 50 ||
				    !fs_beat(j, n, now_s, ranks, &b))
					continue;
				hang(j, &b, n * PER_NODE);
				buf_clear(&message);
				CHECK(!wire_beat_encode(&b, &message));
				one_beat(f, &message, &answer, &reply);
			}
		}
		if (t % 10 == 5) {
			uint64_t begun = cpu_ns(), spent;

			fleet_tick(f, (uint64_t)((now_s + 5000) * 1e9),
				   FS_UNIX + (uint64_t)(now_s * 1e9));
			spent = cpu_ns() - begun;
			sum.tick_ns += spent;
			sum.tick_most_ns = spent > sum.tick_most_ns ? spent : sum.tick_most_ns;
			sum.ticks++;
		}
	}
	buf_fini(&message);
	buf_fini(&answer);
}

static void drop_request(void *arg, struct buf *request)
{
	*(size_t *)arg += request->bytes;
	buf_fini(request);
}

/* What a scrape and an export of the ranks' series cost; the latter on the thread of the ticks. */
static void measure_metrics(struct fleet *f)
{
	static const struct otlp_resource of = {"bench", "host", 1};
	uint64_t now_ns = (uint64_t)((now_s + 5000) * 1e9), begin_ns = cpu_ns(), page_ns;
	size_t otlp_bytes = 0;
	struct metrics m;
	struct otlp *o;
	struct buf page;

	buf_init(&page, 1u << 30);
	m = prometheus_metrics(&page);
	fleet_ranks_metrics(f, NULL, now_ns, &m);
	page_ns = cpu_ns() - begin_ns;
	begin_ns = cpu_ns();
	CHECK(!otlp_begin(&o, &of, 1, drop_request, &otlp_bytes));
	fleet_ranks_metrics(f, NULL, now_ns, otlp_metrics(o));
	CHECK(!otlp_end(o));
	printf(
	    "series of the ranks: %.0f ms for a page of %.1f MiB; %.0f ms for OTLP of %.1f MiB\n",
	    (double)page_ns / 1e6, (double)page.bytes / 1048576,
	    (double)(cpu_ns() - begin_ns) / 1e6, (double)otlp_bytes / 1048576);
	buf_fini(&page);
}

int main(int argc, char **argv)
{
	uint32_t seconds = argc > 1 ? (uint32_t)atoi(argv[1]) : 75, missed = 0;
	struct beat_rank *ranks = calloc(PER_NODE, sizeof(*ranks));
	struct fleet_totals t;
	struct fleet *f;
	double before;

	log_init("bench_fleet", LOG_ERROR);
	CHECK(ranks);
	if (argc > 2) { /* as many jobs of 8 ranks in which nothing is wrong */
		add_jobs((uint32_t)atoi(argv[2]), PER_NODE);
	} else {
		add_jobs(60, 1024);
		add_jobs(130, 128);
		add_jobs(240, 8);
		inject();
		fault_count = ARRAY_LEN(faults);
	}
	before = rss_mib();
	CHECK(!fs_open_fleet(&f, 15000000000, 600000000000));
	fleet_on_finding(f, on_finding, NULL);
	simulate(f, seconds * 10, ranks);
	fleet_totals(f, (uint64_t)((now_s + 5000) * 1e9), &t);
	printf("%u ranks on %u nodes in %u jobs, %u simulated seconds, %.0f beats/s, %.0f bytes a "
	       "rank and beat\n",
	       t.ranks, t.nodes, t.jobs, seconds, (double)sum.beats / seconds,
	       (double)sum.bytes / (double)sum.beats / PER_NODE);
	printf("CPU: %.1f%% of a core for beats (%.1f us each, %.1f ms at most), %.1f%% for ticks "
	       "(%.0f ms each, "
	       "%.0f ms at most): %.1f%% of the two cores' 200%%: %s\n",
	       (double)sum.beat_ns / 1e7 / seconds, (double)sum.beat_ns / 1e3 / (double)sum.beats,
	       (double)sum.beat_most_ns / 1e6, (double)sum.tick_ns / 1e7 / seconds,
	       (double)sum.tick_ns / 1e6 / (double)sum.ticks, (double)sum.tick_most_ns / 1e6,
	       (double)(sum.beat_ns + sum.tick_ns) / 1e7 / seconds,
	       (double)(sum.beat_ns + sum.tick_ns) / 1e7 / seconds < 200 ? "keeps up"
									 : "does not keep up");
	printf("memory: %.0f MiB, %.1f KiB a rank (%.0f MiB of it for the comparison)\n",
	       rss_mib() - before, (rss_mib() - before) * 1024 / t.ranks,
	       (double)t.bytes / 1048576);
	printf("rows %llu, groups %llu, stale %llu, unplaced %llu, no room %llu; commands %llu\n",
	       (unsigned long long)t.rows, (unsigned long long)t.groups,
	       (unsigned long long)t.stale, (unsigned long long)t.unplaced,
	       (unsigned long long)t.no_room, (unsigned long long)sum.commands);
	measure_metrics(f);
	for (uint32_t i = 0; i < fault_count; i++) {
		if (faults[i].found_s > 0)
			printf("found after %5.1f s: %s\n", faults[i].found_s - FAULT_S,
			       faults[i].what);
		else
			printf("NOT found:           %s\n", faults[i].what);
		missed += !(faults[i].found_s > 0);
	}
	printf("false: %u in %.0f rank-hours; missed %u of %u\n", wrong,
	       (double)t.ranks * seconds / 3600, missed, fault_count);
	fleet_close(f);
	for (uint32_t i = 0; i < job_count; i++)
		fs_fini(&jobs[i]);
	free(ranks);
	return 0;
}
