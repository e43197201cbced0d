/* SPDX-License-Identifier: Apache-2.0
 * When a rank hangs, and when it has nothing to do. Its steps are marked, a launch and a kernel in each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "node/windows.h"
#include "wire/codec.h"

#define RANKS	2
#define STEPS	100
#define STEP_NS 10000000ull
#define S	1000000000ull

struct rig {
	struct recorder *recorder;
	struct windows *windows;
	struct wire_rank id[RANKS];
	struct rank *rank[RANKS];
	unsigned stalls[RANKS];
	uint64_t now_ns, closer_ns;
	double expected_self_min_ns; /* of the flagged steps of a window of a drift; 0: none */
};

static uint64_t now_of(void *arg)
{
	return ((struct rig *)arg)->now_ns;
}

static void ship(void *arg, uint32_t slot, const struct windows_request *q)
{
	struct rig *g = arg;

	g->stalls[slot] += q->reason == WINDOW_STALL;
	if (q->reason != WINDOW_DRIFT)
		return;
	g->expected_self_min_ns = HUGE_VAL;
	for (uint32_t i = 0; i < q->step_count; i++)
		if (q->steps[i].flags & WINDOW_STEP_FLAGGED)
			g->expected_self_min_ns =
			    fmin(g->expected_self_min_ns, q->steps[i].expected_self_ns);
}

static void give(struct rank *r, uint64_t at_ns)
{
	struct record launch = {.begin_ns = at_ns,
				.end_ns = at_ns + 1000,
				.kind = RECORD_LAUNCH,
				.name = 1,
				.grid = {1, 1, 1},
				.block = {32, 1, 1},
				.peer = -1};

	rank_host(r, &launch, NULL);
}

static void end(struct rank *r, uint64_t launch_ns, uint64_t at_ns)
{
	struct record kernel = {.begin_ns = launch_ns + 2000,
				.end_ns = at_ns,
				.launch_ns = launch_ns,
				.kind = RECORD_KERNEL,
				.name = 1,
				.grid = {1, 1, 1},
				.block = {32, 1, 1},
				.peer = -1};

	rank_device(r, &kernel);
}

static void step(struct rank *r, uint64_t begin_ns, uint64_t index)
{
	struct record mark = {.begin_ns = begin_ns,
			      .end_ns = begin_ns,
			      .kind = RECORD_STEP_BEGIN,
			      .key = index,
			      .peer = -1};
	struct step_mark work = {.work_count = 0};

	rank_host(r, &mark, &work);
	give(r, begin_ns + 1000);
	end(r, begin_ns + 1000, begin_ns + STEP_NS - 2000);
	mark.kind = RECORD_STEP_END;
	mark.begin_ns = mark.end_ns = begin_ns + STEP_NS - 1000;
	rank_host(r, &mark, NULL);
	rank_run(r, begin_ns + STEP_NS, begin_ns + STEP_NS);
}

static int setup(void **state)
{
	struct recorder_config rc = {.memory_bytes = 1 << 20, .ranks_max = RANKS};
	struct windows_config wc = {.now_ns = now_of, .ship = ship};
	struct rig *g = calloc(1, sizeof(*g));
	struct rank_config c;

	wc.closer_until_ns = &g->closer_ns;
	wc.arg = g;
	rank_config_default(&c);
	assert_int_equal(recorder_open(&g->recorder, &rc), 0);
	assert_int_equal(windows_open(&g->windows, &wc), 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		g->id[i] =
		    (struct wire_rank){.job = "job", .rank = (int32_t)i, .world_size = RANKS};
		assert_int_equal(recorder_add_rank(g->recorder, i, i + 1), 0);
		assert_int_equal(rank_open(&g->rank[i], &c, g->recorder, i, NULL, 1 + i, S), 0);
		windows_add(g->windows, i, &g->id[i], g->rank[i]);
		for (uint64_t k = 0; k < STEPS; k++)
			step(g->rank[i], S + k * STEP_NS, k);
		assert_int_equal(g->rank[i]->stats.steps, STEPS);
	}
	g->now_ns = S + STEPS * STEP_NS;
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct rig *g = *state;

	windows_close(g->windows);
	for (uint32_t i = 0; i < RANKS; i++)
		rank_close(g->rank[i]);
	recorder_close(g->recorder);
	free(g);
	return 0;
}

/* As sysomd looks, some times a second. */
static void look(struct rig *g, bool unfinished0, bool unfinished1)
{
	const bool unfinished[RANKS] = {unfinished0, unfinished1};

	for (uint32_t i = 0; i < RANKS; i++)
		if (rank_is_still(g->rank[i], g->now_ns))
			windows_still(g->windows, i, unfinished[i], g->now_ns);
}

static bool hangs(const struct rig *g, uint32_t rank)
{
	return windows_flags(g->windows, rank, g->now_ns) & BEAT_RANK_STALLED;
}

static void a_server_without_requests_does_not_hang(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 100; i++, g->now_ns += S)
		look(g, false, false);
	assert_true(rank_is_still(g->rank[0], g->now_ns));
	for (uint32_t i = 0; i < RANKS; i++) {
		assert_false(hangs(g, i));
		assert_int_equal(g->stalls[i], 0);
	}
}

static void who_launches_does_not_hang_though_no_step_is_found(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 100; i++, g->now_ns += S) {
		give(g->rank[0], g->now_ns - S / 2);
		end(g->rank[1], g->now_ns - S, g->now_ns - S / 2);
		look(g, true, true);
	}
	assert_int_equal(g->rank[0]->stats.steps, STEPS);
	assert_int_equal(g->stalls[0] + g->stalls[1], 0);
}

static void work_that_does_not_end_is_a_hang_from_the_last_work_on(void **state)
{
	struct rig *g = *state;
	uint64_t last_ns = g->now_ns;

	give(g->rank[0], last_ns);
	for (int i = 0; i < 5; i++, g->now_ns += S)
		look(g, true, false);
	assert_int_equal(g->stalls[0], 0); /* not before its time */
	for (int i = 0; i < 10; i++, g->now_ns += S)
		look(g, true, false);
	assert_true(hangs(g, 0));
	assert_int_equal(g->stalls[0], 1);
	assert_int_equal(rank_stalled_since(g->rank[0]), last_ns);
	end(g->rank[0], last_ns, g->now_ns);
	assert_false(hangs(g, 0));
}

/* An answer about the hang comes after its window. A rank that has ended stands still as well. */
static void what_is_known_later_of_a_hang_has_a_window(void **state)
{
	struct rig *g = *state;

	give(g->rank[0], g->now_ns);
	assert_false(windows_stall_again(g->windows, 0, g->now_ns));
	for (int i = 0; i < 10; i++, g->now_ns += S)
		look(g, true, false);
	assert_int_equal(g->stalls[0], 1);
	assert_true(windows_stall_again(g->windows, 0, g->now_ns));
	assert_int_equal(g->stalls[0], 2);
	assert_false(windows_stall_again(g->windows, RANKS, g->now_ns));
	windows_end(g->windows, 0);
	assert_false(windows_stall_again(g->windows, 0, g->now_ns));
	assert_int_equal(g->stalls[0], 2);
}

/* The culprit of a hang may be the one whose GPU has nothing to do: its host does not come. */
static void a_rank_that_others_wait_for_hangs_with_them(void **state)
{
	struct rig *g = *state;

	give(g->rank[1], g->now_ns);
	for (int i = 0; i < 10; i++, g->now_ns += S)
		look(g, false, true);
	assert_true(hangs(g, 0) && hangs(g, 1));
	assert_int_equal(g->stalls[0], 1);
	assert_int_equal(g->stalls[1], 1);
}

static void another_jobs_hang_is_none_of_its_business(void **state)
{
	struct rig *g = *state;

	strcpy(g->id[1].job, "another");
	for (int i = 0; i < 10; i++, g->now_ns += S)
		look(g, false, true);
	assert_int_equal(g->stalls[0], 0);
	assert_int_equal(g->stalls[1], 1);
}

/* In the replay of a job and in sysomd, both of which ask it. */
static void a_beat_says_since_when_a_rank_hangs(void **state)
{
	struct rig *g = *state;
	struct beat_rank b;

	rank_beat(g->rank[0], &b);
	assert_int_equal(b.stalled_since_ns, 0);
	give(g->rank[0], g->now_ns);
	g->now_ns += 60 * S;
	look(g, true, false);
	assert_true(hangs(g, 0));
	rank_beat(g->rank[0], &b);
	assert_int_equal(b.stalled_since_ns, rank_stalled_since(g->rank[0]));
	assert_true(b.stalled_since_ns > 0);
}

static void one_suspicion_lasts_a_minute_at_most(void **state)
{
	struct rig *g = *state;

	assert_false(windows_is_close(g->windows, g->now_ns));
	windows_suspect(g->windows, g->now_ns + 3600 * S, g->now_ns);
	assert_true(windows_is_close(g->windows, g->now_ns + 59 * S));
	assert_false(windows_is_close(g->windows, g->now_ns + 60 * S));
	/* a shorter one does not end it */
	windows_suspect(g->windows, g->now_ns + S, g->now_ns);
	assert_true(windows_is_close(g->windows, g->now_ns + 59 * S));
}

/* A step has a launch and two marks. */
static void steps_for_whose_records_there_is_no_room_are_marked(void **state)
{
	struct rig *g = *state;
	struct windows_request q = {.reason = WINDOW_ASKED, .begin_ns = S, .end_ns = g->now_ns};
	struct window w = {.rank = g->id[0]};

	stack_batch_init(&w.stacks, keyed_process());
	assert_int_equal(windows_steps(&q, g->rank[0]), 0);
	assert_int_equal(windows_fill(&w, &q, g->rank[0]), 0);
	assert_int_equal(windows_records(&w, &q, g->rank[0], 3 * (STEPS - 2)), 0);
	for (uint32_t i = 0; i < STEPS; i++)
		assert_int_equal(!!(w.steps[i].flags & WINDOW_STEP_CUT), i >= STEPS - 2);
	assert_string_equal(w.losses[0].cause, "window_cut");
	wire_window_free(&w);
	free(q.steps);
}

/* Of a window of two steps and its reference, three earlier ones: two in a row, one alone. */
static void the_records_of_a_reference_are_in_its_window(void **state)
{
	static const uint64_t index[] = {10, 11, 40, 90, 91};
	struct rig *g = *state;
	struct window_step all[STEPS], steps[5];
	struct windows_request q = {.reason = WINDOW_SELF, .steps = steps, .step_count = 5};
	struct windows_piece piece[ANOMALY_REFERENCE_MAX + 1];
	struct window w = {.rank = g->id[0]};

	stack_batch_init(&w.stacks, keyed_process());
	assert_int_equal(rank_recent(g->rank[0], 0, UINT64_MAX, all, STEPS), STEPS);
	for (uint32_t i = 0; i < 5; i++)
		steps[i] = all[index[i]];
	q.begin_ns = steps[3].step.begin_ns;
	q.end_ns = steps[4].step.end_ns;
	assert_int_equal(windows_pieces(&q, piece), 4);
	assert_int_equal(piece[0].begin_ns, steps[0].step.begin_ns);
	assert_int_equal(piece[2].end_ns, steps[2].step.end_ns);
	assert_int_equal(piece[3].begin_ns, q.begin_ns);
	assert_int_equal(windows_fill(&w, &q, g->rank[0]), 0);
	assert_int_equal(w.begin_ns, q.begin_ns);
	assert_int_equal(windows_records(&w, &q, g->rank[0], 1000), 0);
	for (uint32_t i = 0; i < 5; i++) {
		uint32_t launches = 0, kernels = 0;

		assert_false(w.steps[i].flags & WINDOW_STEP_CUT);
		for (uint32_t k = 0; k < w.host_count; k++)
			launches += w.host[k].kind == RECORD_LAUNCH &&
				    w.host[k].begin_ns == S + index[i] * STEP_NS + 1000;
		for (uint32_t k = 0; k < w.device_count; k++)
			kernels += w.device[k].launch_ns == S + index[i] * STEP_NS + 1000;
		assert_int_equal(launches, 1);
		assert_int_equal(kernels, 1);
	}
	for (uint32_t k = 1; k < w.host_count; k++)
		assert_true(w.host[k].begin_ns >= w.host[k - 1].begin_ns);
	assert_in_range(w.device_count, 5, 6);
	wire_window_free(&w);
}

/* Its collectives take longer by more than its own time. 0 would say that this time is not known. */
static void what_a_change_should_take_is_known_however_much_longer_it_is(void **state)
{
	struct rig *g = *state;
	const struct growth_change change = {.first = STEPS / 2, .before_ns = 0};

	g->rank[0]->on_drift(g->rank[0]->arg, g->rank[0], &change);
	assert_true(g->expected_self_min_ns > 0 && g->expected_self_min_ns < STEP_NS);
}

static void what_a_window_that_is_too_large_leaves_behind_is_said(void **state)
{
	struct rig *g = *state;
	struct windows_request q = {.reason = WINDOW_ASKED, .begin_ns = S, .end_ns = g->now_ns};
	struct window w = {.rank = g->id[0], .realtime_offset_ns = 1}, got;
	uint32_t n = 400000;
	struct buf out;

	stack_batch_init(&w.stacks, keyed_process());
	assert_int_equal(windows_steps(&q, g->rank[0]), 0);
	assert_int_equal(q.step_count, STEPS);
	assert_int_equal(windows_fill(&w, &q, g->rank[0]), 0);
	w.host = calloc(n, sizeof(*w.host));
	assert_non_null(w.host);
	w.host_count = n;
	for (uint32_t i = 0; i < n; i++) { /* that nothing compresses */
		uint64_t h = hash_mix(i + 1);

		w.host[i] = (struct record){.kind = RECORD_LAUNCH,
					    .bytes = hash_mix(h),
					    .begin_ns = S + i * 20000ull + h % 20000,
					    .key = hash_mix(h + 1),
					    .peer = -1};
		w.host[i].end_ns = w.host[i].begin_ns + hash_mix(h + 2) % 100000;
		w.host[i].shared_bytes = (uint32_t)hash_mix(h + 3);
	}
	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	assert_int_equal(windows_encode(&w, &out), 0);
	assert_int_equal(wire_window_decode(out.data, out.bytes, &got), 0);
	assert_int_equal(got.step_count, STEPS);
	assert_int_equal(got.host_count, 0);
	assert_true(got.summary_only);
	assert_int_equal(got.loss_count, 1);
	assert_string_equal(got.losses[0].cause, "window_too_large");
	wire_window_free(&got);
	wire_window_free(&w);
	buf_fini(&out);
	free(q.steps);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_server_without_requests_does_not_hang),
	    T(who_launches_does_not_hang_though_no_step_is_found),
	    T(work_that_does_not_end_is_a_hang_from_the_last_work_on),
	    T(what_is_known_later_of_a_hang_has_a_window),
	    T(a_rank_that_others_wait_for_hangs_with_them),
	    T(another_jobs_hang_is_none_of_its_business),
	    T(a_beat_says_since_when_a_rank_hangs),
	    T(one_suspicion_lasts_a_minute_at_most),
	    T(steps_for_whose_records_there_is_no_room_are_marked),
	    T(the_records_of_a_reference_are_in_its_window),
	    T(what_a_change_should_take_is_known_however_much_longer_it_is),
	    T(what_a_window_that_is_too_large_leaves_behind_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
