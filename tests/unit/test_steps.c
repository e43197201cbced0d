/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/steps/steps.h"

struct rig {
	struct steps *s;
	void *memory;
	uint64_t now;
	struct step got[4096];
	uint32_t count;
	struct step_kernel kernels[STEP_KERNELS_MAX];
	uint32_t kernel_count;
};

static struct rig *rig_new(const struct steps_config *given)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct steps_config c;

	steps_config_default(&c);
	if (given)
		c = *given;
	r->memory = aligned_alloc(16, steps_memory_bytes(&c));
	r->s = steps_init(r->memory, &c);
	r->now = 1000000;
	return r;
}

static void rig_free(struct rig *r)
{
	free(r->memory);
	free(r);
}

static void drain(struct rig *r)
{
	while (r->count < 4096 && steps_next(r->s, &r->got[r->count], r->kernels, &r->kernel_count))
		r->count++;
}

static void finish(struct rig *r)
{
	steps_finish(r->s);
	drain(r);
}

static uint64_t launch(struct rig *r, uint32_t name, uint64_t gap, uint64_t dur)
{
	struct record x = {
	    .kind = RECORD_LAUNCH, .name = name, .grid = {1, 1, 1}, .block = {32, 1, 1}};

	r->now += gap;
	x.begin_ns = r->now;
	r->now += dur;
	x.end_ns = r->now;
	steps_push_host(r->s, &x, NULL);
	drain(r);
	return x.begin_ns;
}

static void device(struct rig *r, unsigned kind, uint64_t launch_ns, uint64_t begin, uint64_t end,
		   uint32_t name)
{
	struct record x = {.kind = (uint16_t)kind,
			   .launch_ns = launch_ns,
			   .begin_ns = begin,
			   .end_ns = end,
			   .name = name};

	steps_push_device(r->s, &x);
	drain(r);
}

static void mark(struct rig *r, unsigned kind)
{
	struct record x = {.kind = (uint16_t)kind, .begin_ns = r->now, .end_ns = r->now};
	struct step_mark m = {.work = {7}, .work_count = 1, .phase = 3};

	steps_push_host(r->s, &x, kind == RECORD_STEP_BEGIN ? &m : NULL);
	drain(r);
}

static void accounts_an_explicit_step(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t a, b, c;

	mark(r, RECORD_STEP_BEGIN);
	a = launch(r, 1, 10, 5);
	b = launch(r, 2, 10, 5);
	c = launch(r, 3, 10, 5);
	r->now += 100;
	mark(r, RECORD_STEP_END);
	assert_int_equal(r->count, 0);
	device(r, RECORD_KERNEL, a, 2000000, 2000100, 1);
	device(r, RECORD_COLL_KERNEL, b, 2000050, 2000300, 2);
	assert_int_equal(r->count, 0);
	device(r, RECORD_COPY, c, 2000250, 2000400, 3);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->got[0].source, STEP_SOURCE_EXPLICIT);
	assert_int_equal(r->got[0].latency_ns, 145);
	assert_int_equal(r->got[0].compute_ns, 100);
	assert_int_equal(r->got[0].comm_ns, 250);
	assert_int_equal(r->got[0].copy_ns, 150);
	assert_int_equal(r->got[0].exposed_comm_ns, 150);
	assert_int_equal(r->got[0].idle_ns, 0);
	assert_int_equal(r->got[0].launches, 3);
	assert_int_equal(r->got[0].kernels, 2);
	assert_int_equal(r->got[0].flags & STEP_FLAG_INCOMPLETE, 0);
	assert_int_equal(r->got[0].phase, 3);
	assert_true(r->got[0].work[0] == 7);
	assert_int_equal(r->kernel_count, 3);
	rig_free(r);
}

/* An engine that waits for requests between two steps, and one that runs ahead of the GPU. */
static void device_latency_begins_with_the_step_if_the_gpu_was_idle(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t at;

	for (int i = 0; i < 4; i++) {
		r->now += i & 1 ? 500000000 : 100;
		mark(r, RECORD_STEP_BEGIN);
		at = launch(r, 1, 10, 5);
		device(r, RECORD_KERNEL, at, i != 2 ? at + 20 : at + 1000000,
		       i != 2 ? at + 1000000 : at + 2000000, 1);
		r->now += i == 3 ? 6000000 - 5 : 0;
		mark(r, RECORD_STEP_END);
	}
	finish(r);
	assert_int_equal(r->count, 4);
	assert_int_equal(r->got[1].device_latency_ns, 1000010);
	assert_int_equal(r->got[1].self_ns, 1000010);
	/* after the GPU, its host worked on for 5 ms */
	assert_int_equal(r->got[3].self_ns, 6000010);
	assert_int_equal(r->got[2].device_latency_ns,
			 r->got[2].device_end_ns - r->got[1].device_end_ns);
	for (int i = 1; i < 4; i++) /* its parts add up to the step */
		assert_int_equal(r->got[i].compute_ns + r->got[i].idle_ns,
				 r->got[i].device_latency_ns);
	rig_free(r);
}

/* An engine that has work: what it does between two steps belongs to the later one. */
static void a_step_that_goes_on_begins_where_the_one_before_ended(void **state)
{
	struct record x = {.kind = RECORD_STEP_BEGIN, .flags = RECORD_FLAG_CONTINUES};
	struct step_mark m = {.work = {7}, .work_count = 1};
	struct rig *r = rig_new(NULL);
	uint64_t at;

	for (int i = 0; i < 3; i++) {
		r->now += 80000000;
		x.flags = i == 1 ? RECORD_FLAG_CONTINUES : 0;
		x.begin_ns = x.end_ns = r->now;
		steps_push_host(r->s, &x, &m);
		at = launch(r, 1, 10, 5);
		r->now += 1000000;
		device(r, RECORD_KERNEL, at, at + 20, at + 900000, 1);
		mark(r, RECORD_STEP_END);
	}
	finish(r);
	assert_int_equal(r->count, 3);
	assert_int_equal(r->got[1].latency_ns, 81000015);
	assert_int_equal(r->got[1].begin_ns, r->got[0].end_ns);
	assert_int_equal(r->got[2].latency_ns, 1000015);
	rig_free(r);
}

static void finds_steps_without_marks(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t ends[40];

	for (int step = 0; step < 40; step++) {
		for (int layer = 0; layer < 12; layer++)
			for (int k = 0; k < 5; k++)
				launch(r, 10 + k, 3000, 2000);
		for (int layer = 0; layer < 12; layer++)
			for (int k = 0; k < 7; k++)
				launch(r, 20 + k, 3000, 2000);
		for (int k = 0; k < 9; k++)
			launch(r, 40 + k / 3, 3000, 2000);
		ends[step] = r->now;
		r->now += 40000;
	}
	finish(r);
	assert_in_range(r->count, 38, 40);
	for (uint32_t i = 0; i + 1 < r->count; i++) {
		bool known = false;

		for (int k = 0; k < 40; k++)
			known |= ends[k] == r->got[i].end_ns;
		if (!known)
			fail_msg("step %u of %u ends at %llu, %u launches", i, r->count,
				 (unsigned long long)r->got[i].end_ns, r->got[i].launches);
		assert_int_equal(r->got[i].end_ns, r->got[i + 1].begin_ns);
	}
	rig_free(r);
}

static void file_step(struct rig *r, uint32_t launches)
{
	for (uint32_t k = 0; k < launches; k++)
		launch(r, 10 + k, 3000, 2000);
	r->now += 40000;
}

/* Of a file: nothing comes that would show its end. */
static void the_last_step_of_a_file_is_there(void **state)
{
	static const uint32_t last[] = {30, 29, 1};
	struct steps_config c;

	steps_config_default(&c);
	c.whole_first = true;
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
		struct rig *r = rig_new(&c);
		const struct step *end;

		for (int step = 0; step < 9; step++)
			file_step(r, 30);
		file_step(r, last[i]);
		finish(r);
		assert_int_equal(r->count, 10);
		end = &r->got[9];
		assert_int_equal(end->launches, last[i]);
		assert_int_equal(end->begin_ns, r->got[8].end_ns);
		assert_int_equal(end->end_ns, r->now - 40000);
		/* what is no whole step is not judged */
		assert_int_equal(end->flags & STEP_FLAG_EDGE, last[i] == 30 ? 0 : STEP_FLAG_LAST);
		for (int step = 0; step < 9; step++)
			assert_int_equal(r->got[step].flags & STEP_FLAG_LAST, 0);
		rig_free(r);
	}
}

/* A step of 24 layers, forth and back, with what it has once around them. */
static void deep_step(struct rig *r)
{
	static const uint32_t once[2][3] = {{1, 2, 3}, {4, 5, 6}};

	for (int pass = 0; pass < 2; pass++) {
		for (int k = 0; k < 3; k++)
			launch(r, once[pass][k], 3000, 2000);
		for (int layer = 0; layer < 24; layer++)
			for (int k = 0; k < 6; k++)
				launch(r, 10 + 10 * (uint32_t)pass + (uint32_t)k, 3000, 2000);
	}
}

static void fewer_than_three_steps_are_no_steps_rather_than_their_layers(void **state)
{
	struct steps_config c;
	struct steps_stats stats;

	steps_config_default(&c);
	c.whole_first = true;
	for (uint32_t n = 1; n <= 6; n++) {
		struct rig *r = rig_new(&c);

		for (uint32_t step = 0; step < n; step++)
			deep_step(r);
		finish(r);
		steps_stats(r->s, &stats);
		assert_int_equal(stats.few, n < 3);
		assert_int_equal(r->count, n < 3 ? 0 : n);
		for (uint32_t i = 0; i < r->count; i++)
			assert_int_equal(r->got[i].launches, 2 * (3 + 24 * 6));
		rig_free(r);
	}
}

/* Two ranks of a synchronous job whose hosts run ahead; rank 1 computes longer. Device times are
 * worked out here, step by step: both leave the collective when the later one came. */
static void the_late_rank_has_the_self_time(void **state)
{
	struct rig *r[2] = {rig_new(NULL), rig_new(NULL)};
	uint64_t free_at[2] = {10000000, 10000000};

	for (int step = 0; step < 10; step++) {
		uint64_t ready[2], launches[2][2], done;

		for (int k = 0; k < 2; k++) {
			uint64_t compute = 100000 + (k == 1 && step >= 5 ? 60000 : 0);

			mark(r[k], RECORD_STEP_BEGIN);
			launches[k][0] = launch(r[k], 1, 100, 100);
			launches[k][1] = launch(r[k], 2, 100, 100);
			mark(r[k], RECORD_STEP_END);
			ready[k] = free_at[k] + compute;
		}
		done = (ready[0] > ready[1] ? ready[0] : ready[1]) + 20000;
		for (int k = 0; k < 2; k++) {
			device(r[k], RECORD_KERNEL, launches[k][0], free_at[k], ready[k], 1);
			device(r[k], RECORD_COLL_KERNEL, launches[k][1], ready[k], done, 2);
			free_at[k] = done;
		}
	}
	assert_int_equal(r[0]->count, 10);
	assert_int_equal(r[1]->count, 10);
	for (int step = 1; step < 10; step++) {
		const struct step *a = &r[0]->got[step], *b = &r[1]->got[step];
		uint64_t late = step >= 5 ? 60000 : 0;

		assert_int_equal(a->self_ns, 100000);
		assert_int_equal(a->exposed_comm_ns, 20000 + late);
		assert_int_equal(b->self_ns, 100000 + late);
		assert_int_equal(b->exposed_comm_ns, 20000);
		assert_int_equal(a->device_latency_ns, 120000 + late);
		assert_int_equal(b->device_latency_ns, 120000 + late);
	}
	rig_free(r[0]);
	rig_free(r[1]);
}

/* "load a batch, copy it, launch, loss.item()": what is slow in one step is that step's, whichever part
 * of it, and both its latency and its self time say so. */
static void a_step_has_one_interval_on_host_and_device(void **state)
{
	enum { STEPS = 200, KERNELS = 30, LOAD_SLOW = 120, KERNEL_SLOW = 150, COPY_SLOW = 180 };
	static const int slow[] = {LOAD_SLOW, KERNEL_SLOW, COPY_SLOW};
	const uint64_t load = 5000000, copy = 1000000, extra = 30000000;
	struct rig *r = rig_new(NULL);

	for (uint64_t step = 0; step < STEPS; step++) {
		uint64_t launches[KERNELS], done;

		r->now += load + (step == LOAD_SLOW ? extra : 0);
		done = r->now + copy + (step == COPY_SLOW ? extra : 0);
		device(r, RECORD_COPY, 0, r->now, done, 0);
		r->now = done; /* from memory that is not pinned */
		for (uint32_t k = 0; k < KERNELS; k++)
			launches[k] = launch(r, k + 1, 5000, 5000);
		for (uint32_t k = 0; k < KERNELS; k++) {
			uint64_t begin = done > launches[k] ? done : launches[k];

			done = begin + 500000 + (step == KERNEL_SLOW && k == 7 ? extra : 0);
			device(r, RECORD_KERNEL, launches[k], begin, done, k + 1);
		}
		device(r, RECORD_COPY, 0, done, done + 2000, 0); /* of the loss */
		r->now = done + 2000;
		steps_advance(r->s, r->now);
	}
	finish(r);
	assert_true(r->count > 150);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t found = 0, from_end = (uint32_t)(STEPS - slow[i]);
		const struct step *p;

		assert_true(from_end < r->count);
		/* the last step has no end that is known */
		p = &r->got[r->count - from_end + 1];
		for (uint32_t k = 10; k < r->count; k++) {
			const struct step *q = &r->got[k];

			found += q->latency_ns > 30000000 || q->self_ns > 30000000;
		}
		assert_int_equal(found, 3);
		assert_in_range(p->latency_ns, 51000000, 52000000);
		assert_in_range(p->self_ns, 51000000, 52000000);
		assert_in_range(p->copy_ns, copy, copy + 2000 + (slow[i] == COPY_SLOW ? extra : 0));
		assert_int_equal(p->compute_ns,
				 KERNELS * 500000u + (slow[i] == KERNEL_SLOW ? extra : 0));
	}
	rig_free(r);
}

static void launches_of_one_nanosecond_have_a_kernel_each(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t a, b, c;

	mark(r, RECORD_STEP_BEGIN);
	a = launch(r, 1, 10, 0);
	b = launch(r, 2, 0, 0);
	c = launch(r, 3, 0, 5);
	mark(r, RECORD_STEP_END);
	assert_true(a == b && b == c);
	device(r, RECORD_KERNEL, a, 2000000, 2000100, 1);
	device(r, RECORD_KERNEL, b, 2000100, 2000300, 2);
	assert_int_equal(r->count, 0);
	device(r, RECORD_KERNEL, c, 2000300, 2000400, 3);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->got[0].flags & STEP_FLAG_INCOMPLETE, 0);
	assert_int_equal(r->got[0].kernels, 3);
	assert_int_equal(r->got[0].compute_ns, 400);
	rig_free(r);
}

/* What is counted is how many items are passed over, at any spread of `times` over the launches. */
static uint64_t looked_back(uint32_t launches, uint32_t times, uint32_t mark_every)
{
	struct steps_config c;
	struct steps_stats stats;
	struct rig *r;
	uint32_t met = 0;

	steps_config_default(&c);
	c.whole_first = true;
	c.launch_max = 2 * launches;
	r = rig_new(&c);
	for (uint32_t i = 0; i < launches; i++) {
		if (mark_every && i % mark_every == 0)
			mark(r, RECORD_STEP_BEGIN);
		r->now = 1000000 + (uint64_t)i * times / launches;
		launch(r, i % 3, 0, 0);
	}
	/* of the times in turn, and once more as many as there are launches */
	for (uint32_t i = 0; i < 2 * launches; i++)
		device(r, RECORD_KERNEL, 1000000 + i % times, 2000000 + i, 2000001 + i, i % 3);
	steps_stats(r->s, &stats);
	finish(r);
	for (uint32_t i = 0; i < r->count; i++)
		met += r->got[i].launches && r->got[i].unmatched == 0;
	if (mark_every)
		assert_int_equal(met, r->count);
	rig_free(r);
	return stats.looked_back;
}

static void launches_of_one_time_cost_no_square_of_their_number(void **state)
{
	static const uint32_t times[] = {1, 2, 7, 1000};
	const uint32_t n = 100000;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		assert_in_range(looked_back(n, times[i], 0), 1, 20 * n);
		assert_in_range(looked_back(n, times[i], 50), 1, 20 * n);
	}
}

/* Marks between the launches and the search for them. */
static void marks_in_a_row_are_passed_over_at_once(void **state)
{
	struct steps_stats stats;
	struct rig *r = rig_new(NULL);

	launch(r, 1, 10, 5);
	for (int i = 0; i < 20000; i++)
		mark(r, i % 2 ? RECORD_STEP_END : RECORD_STEP_BEGIN);
	for (int i = 0; i < 20000; i++)
		device(r, RECORD_KERNEL, r->now + 10, 2000000 + i, 2000001 + i, 1);
	steps_stats(r->s, &stats);
	assert_in_range(stats.looked_back, 1, 100000);
	rig_free(r);
}

static void a_step_that_waits_too_long_is_incomplete(void **state)
{
	struct rig *r = rig_new(NULL);

	mark(r, RECORD_STEP_BEGIN);
	launch(r, 1, 10, 5);
	mark(r, RECORD_STEP_END);
	assert_int_equal(r->count, 0);
	r->now += 1900000000;
	launch(r, 1, 10, 5);
	assert_int_equal(r->count, 0);
	r->now += 200000000;
	launch(r, 1, 10, 5);
	assert_int_equal(r->count, 1);
	assert_true(r->got[0].flags & STEP_FLAG_INCOMPLETE);
	rig_free(r);
}

static void a_gap_in_recording_is_reported(void **state)
{
	struct rig *r = rig_new(NULL);
	struct record gap = {.kind = RECORD_GAP};

	mark(r, RECORD_STEP_BEGIN);
	launch(r, 1, 10, 5);
	gap.begin_ns = gap.end_ns = r->now;
	steps_push_host(r->s, &gap, NULL);
	launch(r, 1, 10, 5);
	mark(r, RECORD_STEP_END);
	mark(r, RECORD_STEP_BEGIN);
	launch(r, 1, 10, 5);
	mark(r, RECORD_STEP_END);
	finish(r);
	assert_int_equal(r->count, 2);
	assert_true(r->got[0].flags & STEP_FLAG_GAP);
	assert_false(r->got[1].flags & STEP_FLAG_GAP);
	rig_free(r);
}

static void begins_alone_bound_steps_at_the_last_launch(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t last[3];

	for (int k = 0; k < 3; k++) {
		mark(r, RECORD_STEP_BEGIN);
		launch(r, 1, 1000, 5);
		launch(r, 2, 1000, 5);
		last[k] = r->now;
		r->now += 5000; /* idle: the next step's */
	}
	finish(r);
	assert_int_equal(r->count, 2);
	assert_int_equal(r->got[0].end_ns, last[0]);
	assert_int_equal(r->got[1].begin_ns, last[0]);
	assert_int_equal(r->got[1].end_ns, last[1]);
	assert_int_equal(r->got[1].latency_ns, 5000 + 2010);
	rig_free(r);
}

static void a_launch_may_block_for_seconds(void **state)
{
	struct rig *r = rig_new(NULL);

	mark(r, RECORD_STEP_BEGIN);
	launch(r, 1, 10, 6000000000ull);
	r->now += 500;
	mark(r, RECORD_STEP_BEGIN);
	launch(r, 1, 10, 5);
	finish(r);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->got[0].latency_ns, 6000000010ull);
	rig_free(r);
}

static void automatic_only_never_reads_marks(void **state)
{
	struct steps_config c;
	struct rig *r;

	steps_config_default(&c);
	c.automatic_only = true;
	r = rig_new(&c);
	for (int k = 0; k < 5; k++) {
		mark(r, RECORD_STEP_BEGIN);
		for (uint32_t i = 0; i < 20; i++)
			launch(r, 1 + i, 10, 5);
		mark(r, RECORD_STEP_END);
	}
	finish(r);
	for (uint32_t i = 0; i < r->count; i++)
		assert_int_equal(r->got[i].source, STEP_SOURCE_AUTO);
	assert_in_range(r->count, 3, 5);
	rig_free(r);
}

/* Once the pattern is known, a step is out with the first launch of the next one. */
static void hands_a_step_out_with_the_next_launch(void **state)
{
	struct rig *r = rig_new(NULL);
	uint32_t before = 0;

	for (int k = 0; k < 400; k++) {
		for (uint32_t i = 0; i < 30; i++) {
			uint64_t at = launch(r, 1 + i, 200000, 5000);

			device(r, RECORD_KERNEL, at, at + 10, at + 4000, 1 + i);
			if (!i && k > 300) {
				assert_int_equal(r->count, before + 1);
				assert_int_equal(r->got[r->count - 1].launches, 30);
			}
			before = r->count;
		}
	}
	rig_free(r);
}

static void run_launch(struct rig *r, uint32_t name)
{
	uint64_t at = launch(r, name, 200000, 5000);

	device(r, RECORD_KERNEL, at, at + 10, at + 4000, name);
}

/* Met in the middle of its run, a job's launches have no names until its kernels name them. The
 * steps that follow are all there, each whole and within what the nameless ones took again. */
static void launches_without_names_hide_no_step_that_follows(void **state)
{
	struct rig *r = rig_new(NULL);

	for (int step = 0; step < 100; step++)
		for (uint32_t k = 0; k < 30; k++)
			run_launch(r, 0);
	for (int step = 0; step < 350; step++)
		for (uint32_t k = 0; k < 30; k++)
			run_launch(r, 1 + k);
	assert_in_range(r->count, 300, 350); /* without waiting for the end */
	finish(r);
	assert_in_range(r->count, 348, 351);
	for (uint32_t i = 1; i < r->count; i++) {
		assert_int_equal(r->got[i].launches, 30);
		assert_int_equal(r->got[i].flags & STEP_FLAG_FIRST, 0);
	}
	assert_int_equal(r->got[0].flags & STEP_FLAG_FIRST, STEP_FLAG_FIRST);
	rig_free(r);
}

/* From step 150 on, 1,000 small launches of five kernels in turn take the place of each of the optimizer's
 * four. */
static void a_step_whose_optimizer_is_in_pieces_is_still_one(void **state)
{
	struct rig *r = rig_new(NULL);

	for (int step = 0; step < 350; step++) {
		for (uint32_t k = 0; k < 4; k++)
			launch(r, 1, 3000, 2000);
		for (uint32_t k = 0; k < 24; k++)
			launch(r, 2 + k % 3, 500000, 2000);
		for (uint32_t k = 0; k < 20; k++)
			launch(r, k % 5 == 4 ? 7 : 5 + k % 5 % 2, 500000, 2000);
		for (uint32_t k = 0; k < (step < 150 ? 4 : 4000); k++)
			launch(r, step < 150 ? 8 : 9 + k % 1000 % 5, 4000, 2000);
		launch(r, 20, 3000, 2000);
		r->now += 10000000;
	}
	finish(r);
	assert_in_range(r->count, 340, 350);
	for (uint32_t i = 160; i < r->count; i++)
		assert_int_equal(r->got[i].launches, 4049);
	rig_free(r);
}

/* 40 launches of 11 kernels in turn: only the host's pause shows where a step ends. */
static void equal_layers_are_distinguished_by_the_pause(void **state)
{
	struct rig *r = rig_new(NULL);

	for (int step = 0; step < 100; step++) {
		for (uint32_t k = 0; k < 40; k++)
			launch(r, 1 + k % 11, 3000, 2000);
		r->now += 300000;
	}
	finish(r);
	assert_in_range(r->count, 98, 100);
	for (uint32_t i = 0; i < r->count; i++)
		assert_int_equal(r->got[i].launches, 40);
	rig_free(r);
}

/* The host launches without waiting for the GPU. Its batch takes 2 ms, and now and then it loses its
 * CPU for 1 ms somewhere in a step. */
static void a_host_that_loses_its_cpu_cuts_no_step_in_two(void **state)
{
	struct rig *r = rig_new(NULL);

	for (uint32_t step = 0; step < 400; step++) {
		r->now += 2000000;
		for (uint32_t k = 0; k < 49; k++) {
			if (step % 5 == 3 && k == 3 + step % 41)
				r->now += 1000000;
			launch(r,
			       k < 1	? 1
			       : k < 25 ? 2 + k % 3
			       : k < 45 ? 5 + k % 2
					: 7,
			       3000, 2000);
		}
	}
	finish(r);
	assert_in_range(r->count, 398, 400);
	for (uint32_t i = 1; i < r->count; i++)
		assert_int_equal(r->got[i].launches, 49);
	rig_free(r);
}

/* The loss is read every tenth step: no step of ten. */
static void a_wait_every_tenth_step_makes_no_longer_step(void **state)
{
	struct rig *r = rig_new(NULL);

	for (int step = 0; step < 200; step++) {
		for (uint32_t k = 0; k < 60; k++)
			launch(r, 1 + (k < 50 ? k % 10 : k), 3000, 2000);
		if (step % 10 == 9) {
			struct record wait = {.kind = RECORD_SYNC, .begin_ns = r->now};

			r->now += 1000000;
			wait.end_ns = r->now;
			steps_push_host(r->s, &wait, NULL);
		}
		r->now += 60000;
	}
	finish(r);
	assert_in_range(r->count, 198, 200);
	for (uint32_t i = 1; i < r->count; i++)
		assert_int_equal(r->got[i].launches, 60);
	rig_free(r);
}

static void wait_for_gpu(struct rig *r)
{
	struct record wait = {.kind = RECORD_SYNC, .begin_ns = r->now, .end_ns = r->now + 1000000};

	r->now = wait.end_ns;
	steps_push_host(r->s, &wait, NULL);
}

static void named_launch(struct rig *r, uint32_t name, uint32_t flags)
{
	struct record x = {.kind = RECORD_LAUNCH,
			   .name = name,
			   .flags = (uint16_t)flags,
			   .grid = {1, 1, 1},
			   .block = {32, 1, 1},
			   .begin_ns = r->now + 3000,
			   .end_ns = r->now + 5000};

	r->now = x.end_ns;
	steps_push_host(r->s, &x, NULL);
	drain(r);
}

/* Every so many steps, from step `from` on, a job launches `extra` kernels more, of `kinds` names of their
 * own: it draws samples, or tunes a kernel. They lie in a step of the usual ones. */
static void now_and_then(uint32_t every, uint32_t from, uint32_t extra, uint32_t kinds,
			 uint32_t waits)
{
	struct rig *r = rig_new(NULL);

	for (uint32_t step = 0; step < 700; step++) {
		launch(r, 1, 3000, 2000);
		for (uint32_t k = 0; k < 44; k++) {
			launch(r, 2 + k % 4, 500000, 2000);
			if (k % 8 == 7) /* somebody looks at an activation */
				wait_for_gpu(r);
		}
		for (uint32_t k = 0; step >= from && step % every == every - 1 && k < extra; k++) {
			launch(r, 50 + k * kinds / extra, 3000, 2000);
			if (k % waits == waits - 1)
				wait_for_gpu(r);
		}
		for (uint32_t k = 0; k < 4; k++)
			named_launch(r, 8, RECORD_FLAG_OPTIMIZER);
		wait_for_gpu(r);
	}
	finish(r);
	assert_in_range(r->count, 695, 700);
	for (uint32_t i = 1; i < r->count; i++)
		assert_true(r->got[i].launches == 49 || r->got[i].launches == 49 + extra);
	rig_free(r);
}

static void a_step_that_an_optimizer_ends_is_no_part_of_a_longer_one(void **state)
{
	now_and_then(60, 0, 400, 1, 20);
	now_and_then(9, 70, 48, 12, 4);
	now_and_then(9, 0, 48, 12, 4);
}

/* The first stage of a pipeline: one forward goes ahead, so the last backward follows another; an
 * optimizer of three launches ends the step. Names 1.. forward, 101.. backward, 201.. optimizer. */
static void a_pipelines_micro_batches_are_one_step(void **state)
{
	struct rig *r = rig_new(NULL);
	const uint32_t micro = 8, size = 60;

	for (int step = 0; step < 60; step++) {
		for (uint32_t m = 0; m <= micro; m++) {
			for (uint32_t k = 0; m < micro && k < size; k++)
				launch(r, 1 + k, 3000, 2000);
			for (uint32_t k = 0; m && k < size; k++)
				launch(r, 101 + k, 3000, 2000);
		}
		for (uint32_t k = 0; k < 3; k++)
			launch(r, 201 + k, 3000, 2000);
		r->now += 20000;
	}
	finish(r);
	assert_in_range(r->count, 58, 60);
	for (uint32_t i = 1; i + 1 < r->count; i++)
		assert_int_equal(r->got[i].launches, 2 * micro * size + 3);
	rig_free(r);
}

static void the_same_input_gives_the_same_steps(void **state)
{
	struct rig *r[2] = {rig_new(NULL), rig_new(NULL)};

	memset(r[1]->memory, 0, 64);
	for (int k = 0; k < 2; k++) {
		struct steps_config c;

		steps_config_default(&c);
		memset(r[k]->memory, k ? 0xa5 : 0x5a, steps_memory_bytes(&c));
		r[k]->s = steps_init(r[k]->memory, &c);
		for (uint32_t n = 0; n < 20000; n++)
			launch(r[k], 1 + (n * n / 7) % 13 + (n % 50 ? 0 : 40), 40000, 20000);
		finish(r[k]);
	}
	assert_int_equal(r[0]->count, r[1]->count);
	assert_memory_equal(r[0]->got, r[1]->got, r[0]->count * sizeof(struct step));
	rig_free(r[0]);
	rig_free(r[1]);
}

/* Two processes in turns on one scratch, against each on its own. */
static void steps_may_share_their_scratch(void **state)
{
	struct rig *own[2] = {rig_new(NULL), rig_new(NULL)}, *common[2];
	struct steps_config c;
	uint64_t at;

	steps_config_default(&c);
	assert_true(steps_scratch_bytes(&c) > 0);
	c.scratch = aligned_alloc(16, steps_scratch_bytes(&c));
	assert_non_null(c.scratch);
	assert_true(steps_memory_bytes(&c) + steps_scratch_bytes(&c) <=
		    steps_memory_bytes(&(struct steps_config){.launch_max = c.launch_max}) + 64);
	memset(c.scratch, 0x5a, steps_scratch_bytes(&c));
	steps_scratch_init(c.scratch);
	for (int k = 0; k < 2; k++)
		common[k] = rig_new(&c);
	for (uint32_t n = 0; n < 30000; n++)
		for (int k = 0; k < 2; k++) {
			uint32_t name = 1 + n % (k ? 40 : 55) + 100 * (uint32_t)k;

			at = launch(own[k], name, n % 40 ? 20000 : 90000, 20000);
			device(own[k], RECORD_KERNEL, at, at + 5000, at + 15000, name);
			at = launch(common[k], name, n % 40 ? 20000 : 90000, 20000);
			device(common[k], RECORD_KERNEL, at, at + 5000, at + 15000, name);
		}
	for (int k = 0; k < 2; k++) {
		finish(own[k]);
		finish(common[k]);
		assert_true(own[k]->count > 300);
		assert_int_equal(own[k]->count, common[k]->count);
		assert_memory_equal(own[k]->got, common[k]->got,
				    own[k]->count * sizeof(struct step));
		rig_free(own[k]);
		rig_free(common[k]);
	}
	free(c.scratch);
}

static void more_launches_than_room_are_counted_not_kept(void **state)
{
	struct steps_config c;
	struct rig *r;

	steps_config_default(&c);
	c.launch_max = 1024;
	r = rig_new(&c);
	mark(r, RECORD_STEP_BEGIN);
	for (int i = 0; i < 5000; i++)
		launch(r, 1, 10, 5);
	mark(r, RECORD_STEP_END);
	finish(r);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->got[0].launches, 5000);
	assert_true(r->got[0].flags & STEP_FLAG_INCOMPLETE);
	rig_free(r);
}

static void names_beyond_the_table_add_up_under_name_0(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t at[500], total = 0;

	mark(r, RECORD_STEP_BEGIN);
	for (uint32_t i = 0; i < 500; i++)
		at[i] = launch(r, 1 + i, 10, 5);
	mark(r, RECORD_STEP_END);
	for (uint32_t i = 0; i < 500; i++)
		device(r, RECORD_KERNEL, at[i], 2000000 + i * 1000, 2000000 + i * 1000 + 1 + i,
		       1 + i);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->kernel_count, STEP_KERNELS_MAX);
	for (uint32_t i = 0; i < r->kernel_count; i++)
		total += r->kernels[i].total_ns;
	assert_int_equal(total, 500 * 501 / 2);
	assert_int_equal(r->kernels[0].name, 500);
	assert_int_equal(r->kernels[STEP_KERNELS_MAX - 1].name, 0);
	assert_int_equal(r->kernels[STEP_KERNELS_MAX - 1].count, 500 - (STEP_KERNELS_MAX - 1));
	rig_free(r);
}

/* A step of `micro` batches of `layers` of LAYER launches, an optimizer, and a pause; each kernel runs for
 * half the time to the next launch. */
#define LAYER	  50u
#define OPTIMIZER 60u
static void long_step(struct rig *r, uint32_t micro, uint32_t layers, uint64_t every_ns)
{
	uint64_t t;

	for (uint32_t m = 0; m < micro; m++)
		for (uint32_t i = 0; i < layers * LAYER; i++) {
			uint32_t name = i ? 10 + i % LAYER : 200;

			t = launch(r, name, every_ns / 2, every_ns / 2);
			device(r, RECORD_KERNEL, t, t + 1000, t + 1000 + every_ns / 2, name);
		}
	for (uint32_t i = 0; i < OPTIMIZER; i++) {
		t = launch(r, 300 + i % 3, every_ns / 2, every_ns / 2);
		device(r, RECORD_KERNEL, t, t + 1000, t + 1000 + every_ns / 2, 300 + i % 3);
	}
	r->now += 20 * every_ns;
	steps_advance(r->s, r->now - 10 * every_ns);
	drain(r);
}

/* Steps of 10 s have 100,000 launches, more than are kept at a time: they are neither taken for their
 * layers nor cut short. */
static void steps_longer_than_the_room_for_launches_are_whole(void **state)
{
	struct steps_config c;
	struct rig *r;
	uint32_t first;

	(void)state;
	steps_config_default(&c);
	c.launch_max = 4096;
	r = rig_new(&c);
	for (uint32_t i = 0; i < 16; i++) {
		r->count = 0; /* layers are steps until the period was seen often enough */
		long_step(r, 4, 60, 80000);
	}
	r->count = 0;
	for (uint32_t i = 0; i < 8; i++)
		long_step(r, 4, 60, 80000);
	finish(r);
	assert_in_range(r->count, 7, 8);
	first = r->count - 6;
	for (uint32_t i = first; i < r->count; i++) {
		const struct step *s = &r->got[i];

		assert_int_equal(s->flags & (STEP_FLAG_INCOMPLETE | STEP_FLAG_FIRST), 0);
		assert_int_equal(s->launches, 4 * 60 * LAYER + OPTIMIZER);
		assert_int_equal(s->kernels, s->launches);
		assert_int_equal(s->compute_ns, s->launches * 40000ull);
		assert_int_equal(s->latency_ns, s->launches * 80000ull + 20 * 80000);
		assert_int_equal(s->phase, r->got[first].phase);
	}
	rig_free(r);
}

/* The ring holds more than two of the steps: they are found there, and what is rare says nothing else. */
static void steps_that_the_room_holds_twice_are_found_there(void **state)
{
	static const uint32_t shapes[][2] = {{4, 7}, {2, 17}};
	struct steps_config c;

	(void)state;
	steps_config_default(&c);
	c.launch_max = 4096;
	for (size_t k = 0; k < 2; k++) {
		struct rig *r = rig_new(&c);

		for (uint32_t i = 0; i < 24; i++)
			long_step(r, shapes[k][0], shapes[k][1], 80000);
		finish(r);
		assert_in_range(r->count, 18, 24);
		rig_free(r);
	}
}

/* The number of steps that end in [from_ns, to_ns). */
static uint32_t ended_in(const struct rig *r, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->count; i++)
		n += r->got[i].end_ns >= from_ns && r->got[i].end_ns < to_ns;
	return n;
}

/* A step of 60 ms with a copy, a wait after every third layer, and an optimizer; `more` small kernels after
 * the second wait. */
static void small_step(struct rig *r, uint32_t more)
{
	struct record copy = {.kind = RECORD_COPY_CALL, .bytes = 1 << 20};
	struct record sync = {.kind = RECORD_SYNC};

	copy.begin_ns = r->now += 2000000;
	copy.end_ns = r->now += 10000;
	steps_push_host(r->s, &copy, NULL);
	for (uint32_t layer = 0; layer < 9; layer++) {
		for (uint32_t k = 0; k < 5; k++)
			launch(r, 10 + 5 * layer + k, 3000, 2000);
		if (layer % 3)
			continue;
		sync.begin_ns = r->now;
		sync.end_ns = r->now += 19000000;
		steps_push_host(r->s, &sync, NULL);
		for (uint32_t i = 0; i < more && layer == 3; i++)
			launch(r, 100 + i % 5, 3000, 2000);
	}
	for (uint32_t k = 0; k < 4; k++)
		launch(r, 60, 3000, 2000);
}

/* A job whose compiler gives up has 25 times as many kernels in a step; then it has its code again. Its
 * first launches and the new kernels, all that is rare, wait for the GPU at even distances: they are a
 * period of seconds, yet of few launches. */
static void steps_that_change_are_found_again_soon(void **state)
{
	struct rig *r = rig_new(NULL);
	uint64_t more_ns, less_ns, end_ns;

	(void)state;
	for (uint32_t i = 0; i < 160; i++)
		small_step(r, 0);
	more_ns = r->now;
	for (uint32_t i = 0; i < 400; i++)
		small_step(r, 1200);
	less_ns = r->now;
	for (uint32_t i = 0; i < 600; i++)
		small_step(r, 0);
	end_ns = r->now;
	drain(r);
	assert_true(ended_in(r, 0, more_ns) >= 150);
	assert_in_range(ended_in(r, more_ns, less_ns), 395, 402);
	/* the first forty come out in eight pieces; the last two seconds wait for their kernels */
	assert_in_range(ended_in(r, less_ns, end_ns), 520, 600);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(steps_that_change_are_found_again_soon),
	    cmocka_unit_test(accounts_an_explicit_step),
	    cmocka_unit_test(a_step_that_goes_on_begins_where_the_one_before_ended),
	    cmocka_unit_test(device_latency_begins_with_the_step_if_the_gpu_was_idle),
	    cmocka_unit_test(finds_steps_without_marks),
	    cmocka_unit_test(the_last_step_of_a_file_is_there),
	    cmocka_unit_test(fewer_than_three_steps_are_no_steps_rather_than_their_layers),
	    cmocka_unit_test(the_late_rank_has_the_self_time),
	    cmocka_unit_test(a_step_has_one_interval_on_host_and_device),
	    cmocka_unit_test(launches_of_one_nanosecond_have_a_kernel_each),
	    cmocka_unit_test(launches_of_one_time_cost_no_square_of_their_number),
	    cmocka_unit_test(marks_in_a_row_are_passed_over_at_once),
	    cmocka_unit_test(a_step_that_waits_too_long_is_incomplete),
	    cmocka_unit_test(a_gap_in_recording_is_reported),
	    cmocka_unit_test(begins_alone_bound_steps_at_the_last_launch),
	    cmocka_unit_test(a_launch_may_block_for_seconds),
	    cmocka_unit_test(automatic_only_never_reads_marks),
	    cmocka_unit_test(hands_a_step_out_with_the_next_launch),
	    cmocka_unit_test(launches_without_names_hide_no_step_that_follows),
	    cmocka_unit_test(a_step_whose_optimizer_is_in_pieces_is_still_one),
	    cmocka_unit_test(equal_layers_are_distinguished_by_the_pause),
	    cmocka_unit_test(a_host_that_loses_its_cpu_cuts_no_step_in_two),
	    cmocka_unit_test(a_wait_every_tenth_step_makes_no_longer_step),
	    cmocka_unit_test(a_step_that_an_optimizer_ends_is_no_part_of_a_longer_one),
	    cmocka_unit_test(a_pipelines_micro_batches_are_one_step),
	    cmocka_unit_test(the_same_input_gives_the_same_steps),
	    cmocka_unit_test(steps_longer_than_the_room_for_launches_are_whole),
	    cmocka_unit_test(steps_that_the_room_holds_twice_are_found_there),
	    cmocka_unit_test(steps_may_share_their_scratch),
	    cmocka_unit_test(more_launches_than_room_are_counted_not_kept),
	    cmocka_unit_test(names_beyond_the_table_add_up_under_name_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
