/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sidecar/keep.h"
#include "sidecar/node.h"

#define MS	  1000000ull
#define LEARN_MIN 50

/* A rank of its own, fed with steps that are marked. */
struct life {
	struct recorder *recorder;
	struct process process;
	uint64_t at_ns, index;
};

static struct node node;
static char dir[64];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/test_keep.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	return keep_open(&node.keep, dir);
}

static int teardown(void **state)
{
	char command[128];

	keep_close(node.keep);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* As if the node had just met the process: with what an earlier one kept of it. */
static struct life *born(int pid)
{
	const struct recorder_config rc = {.memory_bytes = 1 << 20, .ranks_max = 1};
	struct life *l = calloc(1, sizeof(*l));
	struct rank_config c;

	rank_config_default(&c);
	c.judge.roofline.learn_min = LEARN_MIN;
	assert_int_equal(recorder_open(&l->recorder, &rc), 0);
	assert_int_equal(recorder_add_rank(l->recorder, 0, 1), 0);
	l->process = (struct process){.node = &node,
				      .pid = pid,
				      .uid = 1000,
				      .id.start_time_ticks = 77,
				      .state = PROCESS_ATTACHED};
	assert_int_equal(rank_open(&l->process.rank, &c, l->recorder, 0, NULL, 1, 1), 0);
	l->at_ns = clock_monotonic_ns(); /* keep.c notes when it restored */
	node.processes[0] = &l->process;
	keep_restore(node.keep, &l->process);
	return l;
}

/* As by SIGKILL: nothing is saved. */
static void killed(struct life *l)
{
	node.processes[0] = NULL;
	rank_close(l->process.rank);
	recorder_close(l->recorder);
	free(l);
}

static void host(struct life *l, uint16_t kind, uint64_t begin_ns, uint64_t end_ns, bool marked)
{
	const struct step_mark mark = {.work = {100}, .work_count = 1};
	struct record r = {.begin_ns = begin_ns,
			   .end_ns = end_ns,
			   .kind = kind,
			   .thread = 1,
			   .key = l->index,
			   .func = kind == RECORD_COLL,
			   .peer = -1};

	rank_host(l->process.rank, &r, marked ? &mark : NULL);
}

static void device(struct life *l, uint16_t kind, uint64_t launch_ns, uint64_t begin_ns,
		   uint64_t end_ns)
{
	struct record r = {.begin_ns = begin_ns,
			   .end_ns = end_ns,
			   .launch_ns = launch_ns,
			   .kind = kind,
			   .func = kind == RECORD_COLL_KERNEL,
			   .peer = -1};

	rank_device(l->process.rank, &r);
}

/* A kernel of self_ns, then a collective that lasts until shortly before the step's end. */
static void step(struct life *l, uint64_t latency_ns, uint64_t self_ns)
{
	uint64_t t = l->at_ns, end = t + latency_ns;

	host(l, RECORD_STEP_BEGIN, t, t, true);
	host(l, RECORD_LAUNCH, t + 1000, t + 2000, false);
	host(l, RECORD_COLL, t + 3000, t + 4000, false);
	device(l, RECORD_KERNEL, t + 1000, t + 1500, t + self_ns);
	device(l, RECORD_COLL_KERNEL, t + 3000, t + self_ns, end - 100);
	host(l, RECORD_STEP_END, end, end, false);
	l->at_ns = end + 100;
	l->index++;
	rank_run(l->process.rank, l->at_ns, l->at_ns);
}

/* Steps of 100 ms of which the rank itself takes 80. */
static void steady(struct life *l, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		step(l, 100 * MS + i * 7 % 11 * 10000, 80 * MS + i * 5 % 7 * 10000);
}

static bool is_ready(const struct life *l)
{
	return rank_model(l->process.rank, NULL, NULL) == ROOFLINE_READY;
}

static void a_model_is_on_the_disk_as_soon_as_it_is_ready(void **state)
{
	struct life *l = born(getpid());
	struct keep_stats st;

	steady(l, 34);
	keep_tend(node.keep, node.processes, l->at_ns);
	while (!is_ready(l)) {
		keep_tend(node.keep, node.processes,
			  l->at_ns); /* too few more to be worth a file */
		steady(l, 1);
	}
	assert_in_range(l->process.rank->learned_total, LEARN_MIN, 67);
	assert_int_equal(keep_due(node.keep, node.processes, l->at_ns), 1);
	keep_tend(node.keep, node.processes, l->at_ns);
	assert_int_equal(keep_due(node.keep, node.processes, l->at_ns), 0);
	killed(l);

	l = born(getpid());
	keep_stats_get(node.keep, &st);
	assert_int_equal(st.restored, 1);
	assert_true(is_ready(l));
	/* and is not written again for every step */
	assert_int_equal(keep_due(node.keep, node.processes, l->at_ns), 0);
	steady(l, 3);
	assert_int_equal(keep_due(node.keep, node.processes, l->at_ns), 0);
	killed(l);
}

/* The latency scatters at first and its model learns for long, while that of the self time is ready
 * and finds steps that are out. */
static void a_successor_is_ready_with_the_steps_that_made_a_late_model_ready(void **state)
{
	struct life *l = born(getpid());
	uint32_t outs = 0;

	for (uint32_t i = 0; i < 40; i++)
		step(l, (100 + i * 17 % 61) * MS, 80 * MS + i * 5 % 7 * 10000);
	steady(l, 20);
	assert_false(is_ready(l));
	assert_int_equal(judge_ready_count(l->process.rank->judge), 1);
	for (; outs < 3; outs++)
		step(l, 100 * MS, 95 * MS);
	while (!is_ready(l)) {
		assert_true(l->index < 200);
		keep_tend(node.keep, node.processes, l->at_ns);
		steady(l, 1);
	}
	keep_tend(node.keep, node.processes, l->at_ns);
	assert_int_equal(l->process.rank->learned_total, l->process.rank->stats.judged);
	killed(l);

	l = born(getpid());
	assert_true(is_ready(l));
	assert_int_equal(judge_ready_count(l->process.rank->judge), 2);
	killed(l);
}

static void a_step_that_is_out_of_a_ready_model_is_kept_from_a_successor(void **state)
{
	struct life *l = born(getpid());
	uint64_t healthy;

	steady(l, 80);
	assert_true(is_ready(l));
	healthy = l->process.rank->learned_total;
	for (int i = 0; i < 5; i++)
		step(l, 200 * MS, 180 * MS);
	assert_int_equal(l->process.rank->stats.flagged_self, 5);
	assert_int_equal(l->process.rank->learned_total, healthy);
	killed(l);
}

static void nothing_is_due_of_a_process_that_can_not_be_known_again(void **state)
{
	struct life *l = born(0);

	steady(l, 80);
	assert_true(is_ready(l));
	assert_int_equal(keep_due(node.keep, node.processes, l->at_ns), 0);
	killed(l);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_model_is_on_the_disk_as_soon_as_it_is_ready),
	    T(a_successor_is_ready_with_the_steps_that_made_a_late_model_ready),
	    T(a_step_that_is_out_of_a_ready_model_is_kept_from_a_successor),
	    T(nothing_is_due_of_a_process_that_can_not_be_known_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
