/* SPDX-License-Identifier: Apache-2.0
 * Periods made by hand: a rank (process 100) on CPU 1 and 2, others beside it and elsewhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "sidecar/stacks/neighbours.h"

#define S  1000000000ull
#define MS 1000000ull
#define T0 (5000 * S)

static void add(struct stack_batch *b, uint32_t pid, const char *comm, uint16_t cpu, uint8_t kind,
		uint64_t weight_ns, const char *const *kernel, uint32_t n)
{
	struct stack_frame f[8] = {{0}};
	struct stack_sample s = {.time_ns = b->begin_ns,
				 .weight_ns = weight_ns,
				 .pid = pid,
				 .tid = pid,
				 .count = 1,
				 .kind = kind,
				 .cpu = cpu};

	for (uint32_t i = 0; i < n; i++) {
		f[i].kind = STACK_FRAME_KERNEL;
		stack_batch_string(b, kernel[i], strlen(kernel[i]), &f[i].object);
	}
	stack_batch_string(b, comm, strlen(comm), &s.comm);
	assert_int_equal(stack_batch_stack(b, f, n, n, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
}

static uint32_t root_of(void *arg, uint32_t pid)
{
	return pid == 100 || pid == 101 ? 100 : pid == 200 ? 200 : 0;
}

static void begin(struct stack_batch *b, uint64_t at_ns)
{
	stack_batch_init(b, keyed_process());
	b->begin_ns = at_ns;
	b->end_ns = at_ns + S;
}

static const struct os_signal *find(const struct os_signal *list, uint32_t count, const char *name,
				    const char *subject)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(list[i].name, name) && strstr(list[i].subject, subject))
			return &list[i];
	return NULL;
}

static void names_who_ran_on_the_ranks_cpus(void **unused)
{
	static struct neighbours n;
	struct os_signal list[LIMIT_WINDOW_SIGNALS];
	const struct os_signal *s;
	struct stack_batch b;
	uint32_t count = 0;

	memset(&n, 0, sizeof(n));
	for (uint64_t k = 0; k < 4; k++) {
		begin(&b, T0 + k * S);
		add(&b, 100, "train", 1, STACK_ON_CPU, 500 * MS, NULL, 0);
		add(&b, 101, "loader", 2, STACK_ON_CPU, 300 * MS, NULL, 0);
		add(&b, 100, "train", 3, STACK_ON_CPU, 10 * MS, NULL, 0); /* hardly ever there */
		add(&b, 7, "stress", 1, STACK_ON_CPU, k < 2 ? 400 * MS : 0, NULL, 0);
		add(&b, 8, "far", 9, STACK_ON_CPU, 900 * MS, NULL, 0);
		add(&b, 9, "seldom", 3, STACK_ON_CPU, 900 * MS, NULL, 0);
		add(&b, 200, "train", 1, STACK_ON_CPU, 100 * MS, NULL, 0); /* another rank */
		neighbours_add(&n, &b, root_of, NULL);
		stack_batch_fini(&b);
	}
	neighbours_signals(&n, 100, T0, T0 + 2 * S, 100, list, &count, LIMIT_WINDOW_SIGNALS);
	s = find(list, count, "cpu_hog", "stress (pid 7)");
	assert_non_null(s);
	assert_true(fabs(s->value - 400) < 1e-6);
	assert_true(s->flags & OS_SIGNAL_RAISED);
	assert_int_equal(count, 1);
	count = 0;
	neighbours_signals(&n, 100, T0, T0 + 4 * S, 100, list, &count, LIMIT_WINDOW_SIGNALS);
	assert_true(fabs(find(list, count, "cpu_hog", "stress")->value - 200) < 1e-6);
	count = 0; /* when it no longer ran */
	neighbours_signals(&n, 100, T0 + 2 * S, T0 + 4 * S, 100, list, &count,
			   LIMIT_WINDOW_SIGNALS);
	assert_int_equal(count, 0);
	count = 0; /* a time of which nothing is known */
	neighbours_signals(&n, 100, T0 - 9 * S, T0 - 5 * S, 100, list, &count,
			   LIMIT_WINDOW_SIGNALS);
	assert_int_equal(count, 0);
}

static void names_who_shares_a_lock(void **unused)
{
	static const char *const mine[] = {"native_queued_spin_lock_slowpath", "_raw_spin_lock",
					   "d_alloc_parallel", "lookup_open", "do_sys_open"};
	static const char *const theirs[] = {"native_queued_spin_lock_slowpath", "_raw_spin_lock",
					     "d_walk", "shrink_dcache"};
	static const char *const slept[] = {"schedule", "rwsem_down_read_slowpath", "down_read",
					    "walk_component", "path_lookupat"};
	static struct neighbours n;
	struct os_signal list[LIMIT_WINDOW_SIGNALS];
	const struct os_signal *s;
	struct stack_batch b;
	uint32_t count = 0;

	memset(&n, 0, sizeof(n));
	begin(&b, T0);
	add(&b, 100, "train", 1, STACK_ON_CPU, 500 * MS, NULL, 0);
	add(&b, 100, "train", 1, STACK_ON_CPU, 150 * MS, mine, 5);
	add(&b, 100, "train", 1, STACK_OFF_CPU, 200 * MS, slept, 5);
	add(&b, 66, "find", 7, STACK_ON_CPU, 300 * MS, theirs, 4);
	add(&b, 67, "idler", 7, STACK_ON_CPU, 300 * MS, NULL, 0);
	neighbours_add(&n, &b, root_of, NULL);
	stack_batch_fini(&b);
	neighbours_signals(&n, 100, T0, T0 + S, 100, list, &count, LIMIT_WINDOW_SIGNALS);
	s = find(list, count, "lock_place",
		 "d_alloc_parallel in lookup_open, which is shared with find (pid 66)");
	assert_non_null(s);
	assert_true(fabs(s->value - 150) < 1e-6);
	s = find(list, count, "lock_place", "walk_component in path_lookupat");
	assert_non_null(s);
	assert_null(strstr(s->subject, "shared")); /* nobody else is seen in such a lock */
	assert_true(fabs(s->value - 200) < 1e-6);
	assert_null(find(list, count, "cpu_hog", "find"));
	count = 0; /* another rank has nothing to do with it */
	neighbours_signals(&n, 200, T0, T0 + S, 100, list, &count, LIMIT_WINDOW_SIGNALS);
	assert_int_equal(count, 0);
}

static void a_node_of_thousands_keeps_its_latest_rows(void **unused)
{
	static struct neighbours n;
	struct os_signal list[LIMIT_WINDOW_SIGNALS];
	struct stack_batch b;
	uint32_t count = 0;

	memset(&n, 0, sizeof(n));
	begin(&b, T0);
	for (uint32_t i = 0; i < 3000; i++)
		add(&b, 1000 + i, "one", (uint16_t)(i % 64), STACK_ON_CPU, MS, NULL, 0);
	neighbours_add(&n, &b, root_of, NULL);
	stack_batch_fini(&b);
	assert_int_equal(n.count, NEIGHBOURS_ROWS);
	assert_int_equal(n.lost, 3000 - NEIGHBOURS_ROWS);
	begin(&b, T0 + S);
	add(&b, 100, "train", 1, STACK_ON_CPU, 500 * MS, NULL, 0);
	add(&b, 7, "stress", 1, STACK_ON_CPU, 400 * MS, NULL, 0);
	neighbours_add(&n, &b, root_of, NULL);
	stack_batch_fini(&b);
	neighbours_signals(&n, 100, T0 + S, T0 + 2 * S, 100, list, &count, LIMIT_WINDOW_SIGNALS);
	assert_non_null(find(list, count, "cpu_hog", "stress (pid 7)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_who_ran_on_the_ranks_cpus),
	    cmocka_unit_test(names_who_shares_a_lock),
	    cmocka_unit_test(a_node_of_thousands_keeps_its_latest_rows),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
