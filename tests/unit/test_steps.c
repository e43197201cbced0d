/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/steps.h"

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
	while (r->count < 4096 &&
	       steps_next(r->s, &r->got[r->count], r->kernels, &r->kernel_count))
		r->count++;
}

static void finish(struct rig *r)
{
	steps_finish(r->s);
	drain(r);
}

static uint64_t launch(struct rig *r, uint32_t name, uint64_t gap, uint64_t dur)
{
	struct record x = {.kind = RECORD_LAUNCH, .name = name, .grid = {1, 1, 1},
			   .block = {32, 1, 1}};

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
	struct record x = {.kind = (uint16_t)kind, .launch_ns = launch_ns, .begin_ns = begin,
			   .end_ns = end, .name = name};

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
		assert_true(known);
		assert_int_equal(r->got[i].end_ns, r->got[i + 1].begin_ns);
	}
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accounts_an_explicit_step),
		cmocka_unit_test(finds_steps_without_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
