/* SPDX-License-Identifier: Apache-2.0
 * Jobs made here: every rank runs its kernels, enters the step's collective, all leave it together.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/trace/crossrank.h"
#include "model/record.h"
#include "tests/jobsteps_synth.h"

#define RANKS_MAX 8
#define STEPS	  50
#define KERNELS	  24
#define EVENTS	  (STEPS * (KERNELS * 2 + 4))
#define TAKEN_MAX 16

/* Of a step's kernels each has its own name, as the launches of a model's layers differ. */
enum { NAME_LAST = KERNELS, NAME_NCCL, NAME_AFTER, NAMES };
#define NAME_SLOW 20u

static const char *names[NAMES];
static char texts[NAMES][8];

struct fault {
	uint32_t ranks; /* mask */
	uint32_t first, last;
	double kernels, one, gaps, more, transfer, variant; /* factors; 0: none */
};

struct job {
	struct jobsteps_event event[RANKS_MAX][EVENTS];
	struct align_coll coll[RANKS_MAX][STEPS + 4];
	uint32_t events[RANKS_MAX];
	struct jobsteps_rank rank[RANKS_MAX];
	struct align_rank clock[RANKS_MAX];
	struct align_job align;
	struct jobsteps steps;
	struct crossrank_finding taken[TAKEN_MAX];
	uint32_t taken_count;
	struct {
		uint32_t events, colls;
	} kept[RANKS_MAX]; /* of traces that end early */
	uint64_t seed;
	double at[RANKS_MAX], scale[RANKS_MAX], noise;
	double skew, load[RANKS_MAX]; /* how far the work of a rank's steps goes; where it is */
};

static double uniform(struct job *j)
{
	j->seed = j->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(j->seed >> 11) / 9007199254740992.0;
}

static double noisy(struct job *j)
{
	return 1 + j->noise * (uniform(j) + uniform(j) + uniform(j) + uniform(j) - 2);
}

static void event_add(struct job *j, uint32_t r, double begin, double end, uint32_t name,
		      unsigned kind)
{
	j->event[r][j->events[r]++] = (struct jobsteps_event){
	    1000000000ull + (uint64_t)begin, 1000000000ull + (uint64_t)end, name, (uint16_t)kind};
}

/* The rank's kernels of one step; when it is done with them. */
static double compute(struct job *j, uint32_t r, uint32_t step, const struct fault *f)
{
	bool hit = (f->ranks >> r & 1) && step >= f->first && step <= f->last;
	double at = j->at[r], segment = noisy(j) * j->scale[r];
	uint32_t kernels = KERNELS + (hit && f->more > 0 ? (uint32_t)(KERNELS * f->more) : 0);

	if (j->skew > 0) {
		double chance = uniform(j) + uniform(j) + uniform(j) + uniform(j) - 2;

		j->load[r] = 0.5 * j->load[r] + 1.5 * chance;
		segment *= exp(j->skew * j->load[r]);
	}
	for (uint32_t k = 0; k < kernels; k++) {
		uint32_t name = 1 + k % KERNELS; /* more of them are of the same kinds */
		double ns = (2e5 + 4e3 * name) * segment;

		if (hit && f->kernels > 0)
			ns *= f->kernels;
		if (hit && f->one > 0 && name == NAME_SLOW)
			ns *= f->one;
		at += 3e4 * segment;
		if (hit && f->gaps > 0 && k % 6 == 1)
			at += f->gaps * 5e6 / 4;
		event_add(j, r, at, at + ns, name, RECORD_KERNEL);
		at += ns;
	}
	return at;
}

static void step_add(struct job *j, uint32_t ranks, uint32_t step, const struct fault *f)
{
	double enter[RANKS_MAX], last = 0, end;

	for (uint32_t r = 0; r < ranks; r++) {
		enter[r] = compute(j, r, step, f) + 2e4;
		last = fmax(last, enter[r]);
	}
	end = last + 8e5 * noisy(j) *
			 (f->transfer > 0 && step >= f->first && step <= f->last ? f->transfer : 1);
	for (uint32_t r = 0; r < ranks; r++) {
		double mine = end + 4e3 * uniform(j);

		j->coll[r][j->clock[r].count++] =
		    (struct align_coll){1000000000ull + (uint64_t)enter[r],
					1000000000ull + (uint64_t)mine, 5, j->events[r], 0};
		event_add(j, r, enter[r], mine, NAME_NCCL, RECORD_COLL_KERNEL);
		event_add(j, r, mine + 2e4, mine + 3e5, NAME_AFTER, RECORD_KERNEL);
		j->at[r] = mine + 3e5 + 1e5;
	}
}

static void take(void *to, const struct crossrank_finding *f)
{
	struct job *j = to;

	assert_in_range(j->taken_count, 0, TAKEN_MAX - 1);
	j->taken[j->taken_count++] = *f;
}

static struct job *job_new(uint64_t seed, uint32_t ranks)
{
	struct job *j = calloc(1, sizeof(*j));

	j->seed = seed;
	j->noise = 0.03;
	for (uint32_t r = 0; r < ranks; r++) {
		j->rank[r].rank = (int32_t)r;
		j->clock[r] = (struct align_rank){.coll = j->coll[r]};
		j->scale[r] = 1;
	}
	j->align = (struct align_job){.rank = j->clock, .rank_count = ranks};
	j->steps = (struct jobsteps){
	    .rank = j->rank, .rank_count = ranks, .align = &j->align, .name_count = NAMES};
	return j;
}

/* 0, -ENODATA. */
static int steps_make(struct job *j)
{
	for (uint32_t r = 0; r < j->steps.rank_count; r++)
		jobsteps_synth_steps(&j->rank[r], j->event[r], j->events[r], NULL, 0);
	assert_int_equal(align_job(&j->align), 0);
	return jobsteps_make(&j->steps);
}

static void steps_drop(struct job *j)
{
	jobsteps_fini(&j->steps);
	for (uint32_t r = 0; r < j->steps.rank_count; r++)
		jobsteps_synth_free(&j->rank[r]);
}

static void job_find(struct job *j, enum peers_mode mode)
{
	struct crossrank_job job = {.steps = &j->steps, .name = names};

	assert_int_equal(steps_make(j), 0);
	assert_int_equal(crossrank_find(&job, mode, take, j), 0);
	steps_drop(j);
}

static struct job *job_run(uint64_t seed, uint32_t ranks, const struct fault *f)
{
	struct job *j = job_new(seed, ranks);

	for (uint32_t r = 0; r < ranks; r++) /* ranks differ for good */
		j->scale[r] = 1 + 0.1 * uniform(j);
	for (uint32_t step = 0; step < STEPS; step++)
		step_add(j, ranks, step, f);
	job_find(j, PEERS_ROBUST);
	return j;
}

/* Steps by which a stretch may be off: more where the fault is small against the noise. */
static uint32_t slack = 1;

static void expect(struct job *j, enum finding_kind kind, uint32_t ranks, uint32_t first,
		   uint32_t last, enum finding_cause cause)
{
	const struct finding *f = &j->taken[0].finding;
	uint32_t mask = 0;

	assert_int_equal(j->taken_count, 1);
	for (uint32_t i = 0; i < f->rank_count; i++)
		mask |= 1u << f->ranks[i];
	assert_string_equal(finding_kind_name(f->kind), finding_kind_name(kind));
	assert_int_equal(mask, ranks);
	assert_in_range(f->first_step, first - slack, first + slack);
	assert_in_range(f->last_step, last - slack, last + slack);
	assert_string_equal(finding_cause_id(f->cause), finding_cause_id(cause));
	assert_in_range(j->taken[0].sure_step, first, first + 10);
	assert_true(f->evidence_count > 0);
	free(j);
}

static void healthy_jobs_are_silent(void **state)
{
	static const struct fault none;

	for (uint64_t seed = 1; seed < 40; seed++) {
		struct job *j = job_run(seed, 2 + seed % 7, &none);

		assert_int_equal(j->taken_count, 0);
		free(j);
	}
}

static void finds_a_slow_gpu(void **state)
{
	slack = 4; /* in one of them noise hides the first four steps */
	for (uint32_t seed = 1; seed < 20; seed++) {
		uint32_t ranks = 3 + seed % 6, rank = seed % ranks;
		struct fault f = {.ranks = 1u << rank, .first = 20, .last = 31, .kernels = 1.1};

		expect(job_run(seed, ranks, &f), FINDING_SLOW_RANK, f.ranks, 20, 31,
		       CAUSE_GPU_SLOW);
	}
	slack = 1;
}

static void two_ranks_have_their_own_past(void **state)
{
	struct fault f = {.ranks = 2, .first = 12, .last = 40, .kernels = 1.2};

	expect(job_run(5, 2, &f), FINDING_SLOW_RANK, 2, 12, 40, CAUSE_GPU_SLOW);
}

static void finds_a_late_host(void **state)
{
	struct fault f = {.ranks = 1 << 2, .first = 10, .last = 21, .gaps = 0.15};

	expect(job_run(3, 8, &f), FINDING_SLOW_RANK, f.ranks, 10, 21, CAUSE_CPU_HOST_GAP);
}

static void finds_one_slow_kernel(void **state)
{
	struct fault f = {.ranks = 1 << 6, .first = 25, .last = 40, .one = 1.4};

	expect(job_run(4, 8, &f), FINDING_SLOW_RANK, f.ranks, 25, 40, CAUSE_GPU_KERNEL);
}

static void finds_several_slow_ranks(void **state)
{
	struct fault f = {.ranks = 0x22, .first = 20, .last = 31, .kernels = 1.2};

	expect(job_run(5, 8, &f), FINDING_SLOW_RANK, f.ranks, 20, 31, CAUSE_GPU_SLOW);
	f.ranks = 0x37; /* five of eight */
	expect(job_run(6, 8, &f), FINDING_SLOW_RANK, f.ranks, 20, 31, CAUSE_GPU_SLOW);
	f.last = 43; /* half of the steps: the fault is in the noise of long means */
	for (uint32_t seed = 1; seed < 20; seed++)
		expect(job_run(seed, 8, &f), FINDING_SLOW_RANK, f.ranks, 20, 43, CAUSE_GPU_SLOW);
}

/* What a large fault makes of the steps beside it is no fault of theirs. */
static void a_large_fault_is_the_only_finding(void **state)
{
	for (uint32_t seed = 1; seed < 40; seed++) {
		struct fault f = {.ranks = 1u << seed % 8, .first = 30, .last = 43, .kernels = 2};

		if (seed % 2)
			f.ranks |= 1u << (seed + 3) % 8;
		expect(job_run(seed, 8, &f), FINDING_SLOW_RANK, f.ranks, 30, 43, CAUSE_GPU_SLOW);
	}
}

/* Half of the trace of one rank, and all but the last steps of another: nobody idles, nothing is slow. */
static void a_trace_that_ends_early_accuses_nobody(void **state)
{
	static const struct fault none;

	for (uint32_t seed = 1; seed < 20; seed++) {
		struct job *j = job_new(seed, 6);

		for (uint32_t step = 0; step < STEPS; step++) {
			uint32_t r = step == 24 ? 1 : 4;

			step_add(j, 6, step, &none);
			if (step != 24 && step != 43)
				continue;
			/* within a step: what the rank does later is not in its file */
			j->kept[r].events = j->events[r] - 7;
			j->kept[r].colls = j->clock[r].count - 1;
		}
		for (uint32_t r = 0; r < 6; r++)
			if (j->kept[r].events) {
				j->events[r] = j->kept[r].events;
				j->clock[r].count = j->kept[r].colls;
			}
		job_find(j, PEERS_ROBUST);
		assert_int_equal(j->taken_count, 0);
		free(j);
	}
}

static void finds_what_all_share(void **state)
{
	struct fault f = {.ranks = 0xff, .first = 20, .last = 35, .kernels = 1.2};

	expect(job_run(7, 8, &f), FINDING_UNIFORM, 0xff, 20, 35, CAUSE_GPU_SLOW);
	f.kernels = 0;
	f.gaps = 0.3;
	expect(job_run(8, 8, &f), FINDING_UNIFORM, 0xff, 20, 35, CAUSE_CPU_HOST_GAP);
	expect(job_run(9, 1, &f), FINDING_UNIFORM, 1, 20, 35, CAUSE_CPU_HOST_GAP);
}

static void finds_slow_transfers(void **state)
{
	struct fault f = {.first = 20, .last = 35, .transfer = 3};

	expect(job_run(10, 8, &f), FINDING_UNIFORM, 0xff, 20, 35, CAUSE_NET_TRANSFER);
}

static void more_work_is_an_imbalance(void **state)
{
	struct fault f = {.ranks = 1 << 3, .first = 20, .last = 35, .more = 0.5};
	struct job *j = job_run(11, 8, &f);

	assert_int_equal(j->taken_count, 1);
	assert_int_equal(j->taken[0].finding.kind, FINDING_IMBALANCE);
	free(j);
}

/* Experts stay popular for a while, on this rank and then on another. */
static void work_that_moves_from_rank_to_rank_accuses_nobody(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct job *j = job_new(seed, 8);
		const struct fault none = {.ranks = 0};

		j->skew = seed % 2 ? 0.6 : 0.3;
		for (uint32_t s = 0; s < STEPS; s++)
			step_add(j, 8, s, &none);
		job_find(j, PEERS_ROBUST);
		assert_int_equal(j->taken_count, 1);
		assert_int_equal(j->taken[0].finding.kind, FINDING_IMBALANCE);
		assert_int_equal(j->taken[0].finding.cause, CAUSE_IMBALANCE_INPUT);
		assert_int_equal(j->taken[0].finding.rank_count, 8);
		free(j);
	}
}

static void slow_first_steps_are_no_fault(void **state)
{
	struct fault f = {.ranks = 0xff, .first = 0, .last = 8, .kernels = 1.5};
	struct job *j = job_run(12, 8, &f);

	assert_int_equal(j->taken_count, 0);
	free(j);
}

static void names_who_is_missing_in_a_hang(void **state)
{
	static const struct fault none;
	struct job *j = job_new(13, 4);

	for (uint32_t step = 0; step < 30; step++)
		step_add(j, 4, step, &none);
	for (uint32_t r = 0; r < 4; r++) {
		double enter = compute(j, r, 30, &none) + 2e4, end = enter + 5e9;

		if (r == 2)
			continue;
		j->coll[r][j->clock[r].count++] =
		    (struct align_coll){1000000000ull + (uint64_t)enter,
					1000000000ull + (uint64_t)end, 5, j->events[r], 0};
		event_add(j, r, enter, end, NAME_NCCL, RECORD_COLL_KERNEL);
	}
	job_find(j, PEERS_ROBUST);
	assert_int_equal(j->taken_count, 1);
	assert_int_equal(j->taken[0].finding.kind, FINDING_HANG);
	assert_int_equal(j->taken[0].finding.cause, CAUSE_HANG_MISSING);
	assert_int_equal(j->taken[0].finding.rank_count, 1);
	assert_int_equal(j->taken[0].finding.ranks[0], 2);
	assert_in_range(j->taken[0].finding.first_step, 29, 31);
	free(j);
}

static void traces_that_end_at_different_times_hang_nowhere(void **state)
{
	static const struct fault none;
	struct job *j = job_new(14, 4);

	for (uint32_t step = 0; step < 30; step++)
		step_add(j, 4, step, &none);
	j->clock[1].count -= 1;
	j->events[1] -= 2;
	j->clock[3].count -= 2;
	j->events[3] -= 2 * (KERNELS + 2);
	job_find(j, PEERS_ROBUST);
	assert_int_equal(j->taken_count, 0);
	free(j);
}

/* 8 ranks, one at twice the time: the largest z there can be is above 2. */
static void the_papers_rule_works_beside_ours(void **state)
{
	struct fault f = {.ranks = 1, .first = 0, .last = STEPS, .kernels = 2};
	struct job *j = job_new(15, 8);

	for (uint32_t step = 0; step < STEPS; step++)
		step_add(j, 8, step, &f);
	job_find(j, PEERS_SYSOM);
	assert_in_range(j->taken_count, 1, 2);
	assert_int_equal(j->taken[0].finding.ranks[0], 0);
	free(j);
}

static void job_make(struct job *j, double kernels)
{
	struct fault f = {.ranks = 0xf, .last = STEPS, .kernels = kernels};

	for (uint32_t step = 0; step < STEPS; step++)
		step_add(j, 4, step, &f);
	assert_int_equal(steps_make(j), 0);
}

static void compares_with_an_earlier_run(void **state)
{
	struct job *before = job_new(17, 4), *now = job_new(18, 4);
	struct crossrank_job a = {.steps = &now->steps, .name = names};
	struct crossrank_job b = {.steps = &before->steps, .name = names};

	job_make(before, 1);
	job_make(now, 1.15);
	assert_int_equal(crossrank_compare(&a, &b, take, now), 0);
	assert_int_equal(now->taken_count, 1);
	assert_int_equal(now->taken[0].finding.kind, FINDING_UNIFORM);
	assert_int_equal(now->taken[0].finding.rank_count, 4);
	assert_int_equal(now->taken[0].finding.cause, CAUSE_GPU_SLOW);
	/* and the other way round it is not slower */
	assert_int_equal(crossrank_compare(&b, &a, take, before), 0);
	assert_int_equal(before->taken_count, 0);
	steps_drop(now);
	steps_drop(before);
	free(now);
	free(before);
}

static void too_little_says_nothing(void **state)
{
	static const struct fault none;

	for (uint32_t steps = 0; steps < 5; steps++) {
		struct job *j = job_new(16, 3);
		struct crossrank_job job = {.steps = &j->steps, .name = names};
		int rc;

		for (uint32_t step = 0; step < steps; step++)
			step_add(j, 3, step, &none);
		rc = steps_make(j);
		assert_true(steps > 2 ? !rc : rc == -ENODATA);
		if (!rc)
			assert_int_equal(crossrank_find(&job, PEERS_ROBUST, take, j), 0);
		assert_int_equal(j->taken_count, 0);
		steps_drop(j);
		free(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(healthy_jobs_are_silent),
	    cmocka_unit_test(finds_a_slow_gpu),
	    cmocka_unit_test(two_ranks_have_their_own_past),
	    cmocka_unit_test(finds_a_late_host),
	    cmocka_unit_test(finds_one_slow_kernel),
	    cmocka_unit_test(finds_several_slow_ranks),
	    cmocka_unit_test(a_large_fault_is_the_only_finding),
	    cmocka_unit_test(a_trace_that_ends_early_accuses_nobody),
	    cmocka_unit_test(finds_what_all_share),
	    cmocka_unit_test(finds_slow_transfers),
	    cmocka_unit_test(more_work_is_an_imbalance),
	    cmocka_unit_test(work_that_moves_from_rank_to_rank_accuses_nobody),
	    cmocka_unit_test(slow_first_steps_are_no_fault),
	    cmocka_unit_test(names_who_is_missing_in_a_hang),
	    cmocka_unit_test(traces_that_end_at_different_times_hang_nowhere),
	    cmocka_unit_test(the_papers_rule_works_beside_ours),
	    cmocka_unit_test(compares_with_an_earlier_run),
	    cmocka_unit_test(too_little_says_nothing),
	};

	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(texts[i], sizeof(texts[i]), i == NAME_NCCL ? "nccl" : i ? "k%u" : "", i);
		names[i] = texts[i];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
