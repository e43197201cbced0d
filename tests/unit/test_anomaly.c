/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/anomaly.h"

#define STEP_NS 10000000ull

struct rig {
	struct anomaly a;
	uint64_t k; /* next step */
	unsigned closed;
};

static int setup(void **state)
{
	struct rig *g = calloc(1, sizeof(*g));
	struct anomaly_config c;

	anomaly_config_default(&c);
	c.margin_steps = 3;
	c.steps_max = 20;
	anomaly_init(&g->a, &c, 0);
	g->k = 1;
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static bool push(struct rig *g, bool flagged, bool self)
{
	struct window_step s = {
	    .step = {.index = g->k, .begin_ns = g->k * STEP_NS, .end_ns = (g->k + 1) * STEP_NS},
	    .flags = flagged ? WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT : 0};
	uint8_t id[16];
	bool closed;

	memset(id, (int)g->k, sizeof(id));
	closed = anomaly_push(&g->a, &s, self, id, g->k * STEP_NS);
	g->k++;
	g->closed += closed;
	return closed;
}

static void healthy_steps_open_nothing(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 1000; i++)
		assert_false(push(g, false, false));
	assert_int_equal(g->a.state, ANOMALY_IDLE);
	assert_false(anomaly_close(&g->a, 0));
}

static void a_window_has_margins_on_both_sides(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 10; i++)
		push(g, false, false);
	push(g, true, true);
	push(g, true, true);
	for (int i = 0; i < 3; i++)
		push(g, false, false);
	assert_int_equal(g->closed, 1);
	assert_int_equal(g->a.step_count, 8);
	assert_int_equal(g->a.steps[0].step.index, 8);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(!!(g->a.steps[i].flags & WINDOW_STEP_MARGIN), i < 3 || i > 4);
	assert_int_equal(anomaly_reason(&g->a), WINDOW_SELF);
}

static bool push_lasting(struct rig *g, uint64_t latency_ns, bool flagged)
{
	struct window_step s = {.step = {.index = g->k,
					 .begin_ns = g->k * STEP_NS,
					 .end_ns = (g->k + 1) * STEP_NS,
					 .latency_ns = latency_ns},
				.expected_ns = 100,
				.flags = flagged ? WINDOW_STEP_FLAGGED : 0};
	const uint8_t id[16] = {1};

	g->k++;
	return anomaly_push(&g->a, &s, true, id, g->k * STEP_NS);
}

/* Five steps are slow before one is flagged. */
static void a_margin_is_of_healthy_steps(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 10; i++)
		push_lasting(g, i % 2 ? 101 : 99, false);
	for (int i = 0; i < 5; i++)
		push_lasting(g, 112, false);
	push_lasting(g, 118, true);
	assert_int_equal(g->a.step_count, 3 + 5 + 1);
	assert_int_equal(g->a.steps[0].step.index, 8);
	assert_int_equal(g->a.steps[0].step.latency_ns, 101);
}

/* They are slow since ever, as far as is known. */
static void without_healthy_steps_the_margin_is_the_latest(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 30; i++)
		push_lasting(g, 112, false);
	push_lasting(g, 118, true);
	assert_int_equal(g->a.step_count, 3 + 1);
	assert_int_equal(g->a.steps[0].step.index, 28);
}

static void a_rank_that_waits_for_others_is_no_suspect(void **state)
{
	struct rig *g = *state;

	push(g, true, false);
	for (int i = 0; i < 3; i++)
		push(g, false, false);
	assert_int_equal(anomaly_reason(&g->a), WINDOW_COMM);
}

static void one_transient_amid_anothers_fault_makes_no_suspect(void **state)
{
	struct rig *g = *state;

	for (int i = 0; i < 8; i++)
		push(g, true, i == 3);
	for (int i = 0; i < 3; i++)
		push(g, false, false);
	assert_int_equal(anomaly_reason(&g->a), WINDOW_COMM);
}

static void a_long_anomaly_comes_in_pieces_that_share_an_id(void **state)
{
	struct rig *g = *state;
	uint8_t id[16];
	uint64_t next = 0;

	for (int i = 0; i < 5; i++)
		push(g, false, false);
	for (uint32_t piece = 0; piece < 3; piece++) {
		while (!push(g, true, true))
			;
		assert_int_equal(g->a.sequence, piece);
		if (piece) {
			assert_memory_equal(id, g->a.id, 16);
			/* nothing is sent twice, nothing left out */
			assert_int_equal(g->a.steps[0].step.index, next);
		}
		memcpy(id, g->a.id, 16);
		assert_int_equal(g->a.step_count, 20);
		next = g->a.steps[19].step.index + 1;
		anomaly_reset(&g->a);
	}
}

static void a_later_anomaly_is_another_one(void **state)
{
	struct rig *g = *state;
	uint8_t id[16];

	while (!push(g, g->k < 3, true))
		;
	memcpy(id, g->a.id, 16);
	anomaly_reset(&g->a);
	g->k += 70000000000ull / STEP_NS;
	while (!push(g, g->a.state == ANOMALY_IDLE, true))
		;
	assert_memory_not_equal(id, g->a.id, 16);
	assert_int_equal(g->a.sequence, 0);
}

static void an_open_window_can_be_closed_at_the_end(void **state)
{
	struct rig *g = *state;

	push(g, true, true);
	push(g, false, false);
	assert_true(anomaly_close(&g->a, 5));
	assert_int_equal(g->a.step_count, 2);
	assert_true(g->a.steps[1].flags & WINDOW_STEP_MARGIN);
}

static void a_storm_gets_full_windows_then_summaries_then_nothing(void **state)
{
	struct rig *g = *state;
	unsigned got[3] = {0};

	for (int i = 0; i < 1000; i++)
		got[anomaly_grant(&g->a, true, 1)]++;
	assert_int_equal(got[ANOMALY_FULL], 4);
	assert_int_equal(got[ANOMALY_SUMMARY], 16);
	assert_int_equal(got[ANOMALY_COUNT_ONLY], 980);
}

static void a_spike_says_whose_fault_the_window_is(void **state)
{
	struct rig *g = *state;
	struct window_step s = {.flags = WINDOW_STEP_FLAGGED | WINDOW_STEP_SPIKE};
	uint8_t id[16] = {1};

	for (int i = 0; i < 5; i++)
		push(g, true, false);
	s.step = (struct step){
	    .index = g->k, .begin_ns = g->k * STEP_NS, .end_ns = (g->k + 1) * STEP_NS};
	g->k++;
	assert_int_equal(anomaly_reason(&g->a), WINDOW_COMM);
	anomaly_push(&g->a, &s, true, id, 1);
	assert_int_equal(anomaly_reason(&g->a), WINDOW_SELF);
}

/* Without a usual self time: kernels show how long it waited at most. */
static void what_kernels_show_of_waiting_decides_without_a_model(void **state)
{
	static const struct {
		uint32_t kernels, reason;
		uint64_t exposed_ns;
	} cases[] = {{5, WINDOW_SELF, 0}, {5, WINDOW_COMM, 60000000}, {0, WINDOW_COMM, 0}};
	struct rig *g = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct window_step s = {.step = {.index = g->k,
						 .begin_ns = g->k * STEP_NS,
						 .end_ns = (g->k + 1) * STEP_NS,
						 .latency_ns = 170000000,
						 .kernels = cases[i].kernels,
						 .exposed_comm_ns = cases[i].exposed_ns},
					.expected_ns = 70000000,
					.flags = WINDOW_STEP_FLAGGED};
		uint8_t id[16] = {1};

		anomaly_push(&g->a, &s, false, id, 1);
		assert_int_equal(anomaly_reason(&g->a), cases[i].reason);
		anomaly_close(&g->a, 1);
		anomaly_reset(&g->a);
		g->k++;
	}
}

static void tokens_come_back_with_time(void **state)
{
	struct rig *g = *state;
	uint64_t t = 1;

	for (int i = 0; i < 100; i++)
		anomaly_grant(&g->a, true, t);
	t += 20500000000ull;
	assert_int_equal(anomaly_grant(&g->a, true, t), ANOMALY_FULL);
	assert_int_equal(anomaly_grant(&g->a, true, t), ANOMALY_SUMMARY);
	/* never more than the burst */
	t += 36000000000000ull;
	for (int i = 0; i < 4; i++)
		assert_int_equal(anomaly_grant(&g->a, true, t), ANOMALY_FULL);
	assert_int_equal(anomaly_grant(&g->a, true, t), ANOMALY_SUMMARY);
	/* a clock that goes back gives nothing */
	assert_int_equal(anomaly_grant(&g->a, true, 1), ANOMALY_SUMMARY);
}

static void a_storm_of_small_anomalies_leaves_a_spike_its_evidence(void **state)
{
	struct rig *g = *state;
	unsigned got[3] = {0};

	while (anomaly_grant(&g->a, true, 1) == ANOMALY_FULL)
		;
	for (int i = 0; i < 100; i++) {
		struct window_step s = {.step = {.index = g->k, .begin_ns = g->k * STEP_NS},
					.flags = WINDOW_STEP_FLAGGED | WINDOW_STEP_SPIKE};
		uint8_t id[16] = {1};

		s.step.end_ns = ++g->k * STEP_NS;
		anomaly_push(&g->a, &s, true, id, 1);
		anomaly_close(&g->a, 1);
		got[anomaly_grant(&g->a, true, 1)]++;
		anomaly_reset(&g->a);
	}
	assert_int_equal(got[ANOMALY_FULL], 16);
	push(g, true, true);
	anomaly_close(&g->a, 1);
	assert_int_not_equal(anomaly_grant(&g->a, true, 40000000000ull), ANOMALY_COUNT_ONLY);
}

/* An anomaly of so many steps, each of which lost as much. */
static enum anomaly_grant grant_of(struct rig *g, uint32_t steps, uint64_t lost_ns, uint64_t now_ns)
{
	enum anomaly_grant got;
	uint8_t id[16] = {1};

	for (uint32_t i = 0; i < steps; i++) {
		struct window_step s = {.step = {.index = g->k,
						 .begin_ns = g->k * STEP_NS,
						 .latency_ns = STEP_NS + lost_ns},
					.expected_ns = STEP_NS,
					.flags = WINDOW_STEP_FLAGGED};

		s.step.end_ns = ++g->k * STEP_NS;
		anomaly_push(&g->a, &s, true, id, now_ns);
	}
	anomaly_close(&g->a, now_ns);
	got = anomaly_grant(&g->a, true, now_ns);
	anomaly_reset(&g->a);
	return got;
}

static void a_storm_of_small_anomalies_leaves_a_large_one_its_evidence(void **state)
{
	const uint64_t second = 1000000000, ms = 1000000;
	struct rig *g = *state;
	uint64_t t = 0;

	/* they are small, but there is nothing larger */
	for (int i = 0; i < 4; i++)
		assert_int_equal(grant_of(g, 1, 20 * ms, t += second), ANOMALY_FULL);
	assert_int_equal(grant_of(g, 1, 10 * ms, t += second), ANOMALY_SUMMARY);
	assert_int_equal(grant_of(g, 20, 100 * ms, t += second), ANOMALY_FULL);
	/* what comes back is kept for the next large one */
	for (int i = 0; i < 40; i++)
		assert_int_not_equal(grant_of(g, 1, 20 * ms, t += second), ANOMALY_FULL);
	assert_int_equal(grant_of(g, 20, 90 * ms, t += second), ANOMALY_FULL);
	assert_int_equal(grant_of(g, 20, 90 * ms, t += second), ANOMALY_FULL);
	/* until the storm is over */
	t += 80 * second;
	assert_int_equal(grant_of(g, 1, 20 * ms, t), ANOMALY_FULL);
}

static void a_large_anomaly_that_lasts_is_bounded(void **state)
{
	struct rig *g = *state;
	unsigned full = 0;

	/* 1,000 s of windows of 4 s that lose 40% to 60% */
	for (uint32_t i = 0; i < 250; i++)
		full += grant_of(g, 20, (80 + i * 7 % 41) * 1000000ull, i * 4000000000ull) ==
			ANOMALY_FULL;
	assert_in_range(full, 25, 4 + 50 + 6); /* 6: ever larger ones */
}

/* Of 20 ms that each step lost the rank lost `own` itself, too little to be flagged for that. */
static uint32_t reason_of_steps(struct rig *g, uint64_t own_ns)
{
	uint8_t id[16] = {0};

	for (int i = 0; i < 10; i++, g->k++) {
		struct window_step s = {.step = {.index = g->k,
						 .begin_ns = g->k * STEP_NS,
						 .end_ns = (g->k + 1) * STEP_NS,
						 .latency_ns = 90000000,
						 .self_ns = 60000000 + own_ns},
					.expected_ns = 70000000,
					.expected_self_ns = 60000000,
					.flags = WINDOW_STEP_FLAGGED};

		anomaly_push(&g->a, &s, false, id, g->k * STEP_NS);
	}
	anomaly_close(&g->a, g->k * STEP_NS);
	return anomaly_reason(&g->a);
}

static void a_rank_that_loses_half_itself_does_not_only_wait(void **state)
{
	struct rig *g = *state;

	assert_int_equal(reason_of_steps(g, 12000000), WINDOW_SELF);
	anomaly_reset(&g->a);
	assert_int_equal(reason_of_steps(g, 8000000), WINDOW_COMM);
}

static void a_turn_of_a_rank_is_a_window_of_its_own(void **state)
{
	struct rig *g = *state;
	unsigned own = 0;

	for (int i = 0; i < 90; i++)
		if (push(g, true, i / 7 % 3 == 1)) {
			own += anomaly_reason(&g->a) == WINDOW_SELF;
			anomaly_reset(&g->a);
		}
	assert_in_range(own, 4, 5);
}

/* All kinds recur every 100 steps. */
static void push_step(struct rig *g, uint32_t phase, uint32_t kind, uint32_t kernels, bool flagged)
{
	struct window_step s = {.step = {.index = g->k,
					 .begin_ns = g->k * STEP_NS,
					 .end_ns = (g->k + 1) * STEP_NS,
					 .kernels = kernels,
					 .phase = phase},
				.expected_ns = STEP_NS,
				.kind = kind,
				.period = kind ? 100 : 0,
				.flags = flagged ? WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT : 0};
	const uint8_t id[16] = {1};

	g->k++;
	anomaly_push(&g->a, &s, true, id, g->k * STEP_NS);
}

static void push_of_kind(struct rig *g, uint32_t kind, bool flagged)
{
	push_step(g, 0, kind, 49, flagged);
}

static void push_launches(struct rig *g, uint32_t kernels, bool flagged)
{
	push_step(g, 0, 0, kernels, flagged);
}

/* Every 100th step is of a kind, every 10th of another. */
static void the_reference_of_a_kind_is_its_latest_usual_steps(void **state)
{
	struct window_step of[ANOMALY_REFERENCE_MAX];
	struct rig *g = *state;

	while (g->k < 2000)
		push_of_kind(g, g->k % 100 == 0 ? 100 : g->k % 10 == 5 ? 10 : 0, false);
	push_of_kind(g, 100, true);
	assert_int_equal(anomaly_reference(&g->a, of), ANOMALY_KIND_STEPS);
	for (uint32_t i = 0; i < ANOMALY_KIND_STEPS; i++) {
		assert_int_equal(of[i].step.index, 2000 - 100 * (ANOMALY_KIND_STEPS - i));
		assert_int_equal(of[i].flags, WINDOW_STEP_MARGIN);
	}
	push_of_kind(g, 10, true);
	assert_int_equal(anomaly_reference(&g->a, of), 2 * ANOMALY_KIND_STEPS);
	for (uint32_t i = 1; i < 2 * ANOMALY_KIND_STEPS; i++)
		assert_true(of[i].step.begin_ns > of[i - 1].step.begin_ns);
	for (int i = 0; i < 3; i++)
		push_of_kind(g, 0, false);
	assert_true(anomaly_close(&g->a, 0));
	anomaly_reset(&g->a);
	/* neither slow steps nor any of an open window */
	for (int i = 0; i < 95; i++)
		push_of_kind(g, 0, false);
	push_of_kind(g, 100, true);
	push_of_kind(g, 100, false);
	assert_int_equal(anomaly_reference(&g->a, of), ANOMALY_KIND_STEPS);
	assert_int_equal(of[ANOMALY_KIND_STEPS - 1].step.index, 1900);
}

/* A margin has the usual steps of a phase, if there are as many between its slow steps. */
static void a_window_gets_only_the_usual_steps_that_it_lacks(void **state)
{
	struct window_step of[ANOMALY_REFERENCE_MAX];
	struct rig *g = *state;

	g->a.config.margin_steps = ANOMALY_KIND_STEPS;
	while (g->k < 100)
		push_of_kind(g, 0, false);
	push_of_kind(g, 0, true);
	assert_int_equal(anomaly_reference(&g->a, of), 0);
}

/* Evaluation comes every 200 steps, and its phase has other kernels. */
static void a_slow_evaluation_has_the_steps_of_the_last_one(void **state)
{
	struct window_step of[ANOMALY_REFERENCE_MAX];
	struct rig *g = *state;

	while (g->k < 1000)
		push_step(g, g->k % 200 >= 190, 0, 49, false);
	while (g->k < 1190)
		push_step(g, 0, 0, 49, false);
	for (int i = 0; i < 10; i++)
		push_step(g, 1, 0, 49, true);
	assert_int_equal(anomaly_reference(&g->a, of), ANOMALY_KIND_STEPS);
	for (uint32_t i = 0; i < ANOMALY_KIND_STEPS; i++)
		assert_int_equal(of[i].step.index, 1000 - ANOMALY_KIND_STEPS + i);
}

/* Every fourth step runs the optimizer. A margin of three has one such step at most. */
static void a_slow_optimizer_has_steps_with_one(void **state)
{
	struct window_step of[ANOMALY_REFERENCE_MAX];
	struct rig *g = *state;
	uint32_t n, with = 0;

	while (g->k < 400)
		push_launches(g, g->k % 4 ? 49 : 57, false);
	push_launches(g, 57, true);
	n = anomaly_reference(&g->a, of);
	for (uint32_t i = 0; i < n; i++)
		with += of[i].step.kernels == 57;
	assert_int_equal(with, n);
	assert_int_equal(n, ANOMALY_KIND_STEPS);
}

/* Each step has other launches. */
static void uneven_steps_leave_those_of_a_kind_alone(void **state)
{
	struct window_step of[ANOMALY_REFERENCE_MAX];
	struct rig *g = *state;

	while (g->k < 1000)
		push_step(g, 0, g->k % 100 ? 0 : 100, g->k % 100 ? 20 + 17 * (g->k % 37) : 49,
			  false);
	push_of_kind(g, 100, true);
	assert_int_equal(anomaly_reference(&g->a, of), ANOMALY_KIND_STEPS);
	for (uint32_t i = 0; i < ANOMALY_KIND_STEPS; i++)
		assert_int_equal(of[i].kind, 100);
}

static void a_new_kind_takes_the_place_of_one_that_is_gone(void **state)
{
	struct window_step of[ANOMALY_REFERENCE_MAX];
	struct rig *g = *state;

	for (uint32_t kind = 2; kind < 2 + ANOMALY_KINDS_MAX; kind++) {
		push_of_kind(g, kind, false);
		push_of_kind(g, kind, false);
	}
	for (int i = 0; i < 3; i++) /* the window's margin */
		push_of_kind(g, 0, false);
	push_of_kind(g, 2, true);
	assert_int_equal(anomaly_reference(&g->a, of), 0);
	push_of_kind(g, 3, true);
	push_of_kind(g, 1 + ANOMALY_KINDS_MAX, true);
	assert_int_equal(anomaly_reference(&g->a, of), 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(healthy_steps_open_nothing),
	    T(a_window_has_margins_on_both_sides),
	    T(a_margin_is_of_healthy_steps),
	    T(without_healthy_steps_the_margin_is_the_latest),
	    T(a_rank_that_waits_for_others_is_no_suspect),
	    T(one_transient_amid_anothers_fault_makes_no_suspect),
	    T(a_long_anomaly_comes_in_pieces_that_share_an_id),
	    T(a_later_anomaly_is_another_one),
	    T(an_open_window_can_be_closed_at_the_end),
	    T(a_storm_gets_full_windows_then_summaries_then_nothing),
	    T(a_spike_says_whose_fault_the_window_is),
	    T(what_kernels_show_of_waiting_decides_without_a_model),
	    T(tokens_come_back_with_time),
	    T(a_storm_of_small_anomalies_leaves_a_spike_its_evidence),
	    T(a_storm_of_small_anomalies_leaves_a_large_one_its_evidence),
	    T(a_large_anomaly_that_lasts_is_bounded),
	    T(a_rank_that_loses_half_itself_does_not_only_wait),
	    T(a_turn_of_a_rank_is_a_window_of_its_own),
	    T(the_reference_of_a_kind_is_its_latest_usual_steps),
	    T(a_window_gets_only_the_usual_steps_that_it_lacks),
	    T(a_slow_evaluation_has_the_steps_of_the_last_one),
	    T(a_slow_optimizer_has_steps_with_one),
	    T(uneven_steps_leave_those_of_a_kind_alone),
	    T(a_new_kind_takes_the_place_of_one_that_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
