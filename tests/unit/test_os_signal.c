/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/os_signal.h"

static void says_it_in_words(void **state)
{
	struct os_signal s;
	char line[256];

	os_signal_make(&s, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread nccl-comm on CPU 1", 310,
		       2, 100);
	assert_string_equal(os_signal_text(&s, line, sizeof(line)),
			    "NET_RX soft interrupts took 310 ms/s from thread nccl-comm on CPU 1 "
			    "(usually 2)");
	assert_true(s.weight_ms > 30.9 && s.weight_ms < 31.1);
	os_signal_make(&s, OS_SIGNAL_MIGRATIONS, "", 12.34, -1, 0);
	assert_string_equal(os_signal_text(&s, line, sizeof(line)),
			    "moves of its threads to another CPU: 12.3 a second");
	os_signal_text(&s, line, 8);
	assert_int_equal(strlen(line), 7);
}

static void another_ones_signal_is_known_by_its_name(void **state)
{
	struct os_signal s = {
	    .name = "gil_wait", .subject = "thread main", .unit = "ms/s", .value = 5, .usual = 1};
	char line[256];

	assert_string_equal(os_signal_text(&s, line, sizeof(line)),
			    "gil_wait thread main: 5 ms/s (usually 1)");
}

static void every_kind_has_a_name_of_its_own_and_a_sentence(void **state)
{
	for (unsigned i = 0; i < OS_SIGNAL_KINDS; i++) {
		const struct os_signal_info *k = os_signal_info(i);

		assert_true(strlen(k->name) < OS_SIGNAL_NAME_BYTES);
		assert_true(strlen(k->unit) < OS_SIGNAL_UNIT_BYTES);
		if (k->rule == OS_SIGNAL_GROWS)
			assert_true(k->raised >= k->notable && k->raised > 0);
		if (k->rule == OS_SIGNAL_FALLS)
			assert_true(k->level && k->raised > 0 && k->raised < 1);
		assert_non_null(strstr(k->sentence, "%v"));
		assert_int_equal(os_signal_find(k->name), i);
	}
	assert_int_equal(os_signal_find("nothing"), OS_SIGNAL_KINDS);
}

static void raised_is_far_above_the_usual_value(void **state)
{
	struct os_signal s;

	os_signal_make(&s, OS_SIGNAL_RUN_WAIT, "", 30, 1, 0);
	assert_true(s.flags & OS_SIGNAL_RAISED);
	os_signal_make(&s, OS_SIGNAL_RUN_WAIT, "", 330, 300, 0); /* less than twice */
	assert_false(s.flags & OS_SIGNAL_RAISED);
	os_signal_make(&s, OS_SIGNAL_RUN_WAIT, "", 15, 0, 0); /* too little */
	assert_false(s.flags & OS_SIGNAL_RAISED);
	assert_true(os_signal_is_notable(&s));
	os_signal_make(&s, OS_SIGNAL_RUN_WAIT, "", 90, -1, 0); /* not known: five times as much */
	assert_false(s.flags & OS_SIGNAL_RAISED);
	os_signal_make(&s, OS_SIGNAL_RUN_WAIT, "", 110, -1, 0);
	assert_true(s.flags & OS_SIGNAL_RAISED);
}

static bool raised(enum os_signal_kind kind, double value, double usual)
{
	struct os_signal s;

	os_signal_make(&s, kind, "GPU 3", value, usual, 0);
	return s.flags & OS_SIGNAL_RAISED;
}

static void a_clock_is_raised_where_it_falls(void **state)
{
	assert_true(raised(OS_SIGNAL_GPU_SM_CLOCK, 1400, 1980));
	assert_true(raised(OS_SIGNAL_GPU_SM_CLOCK, 1880, 1980));
	assert_false(raised(OS_SIGNAL_GPU_SM_CLOCK, 1900, 1980));
	assert_false(raised(OS_SIGNAL_GPU_SM_CLOCK, 1980, 1400));
	assert_false(raised(OS_SIGNAL_GPU_SM_CLOCK, 1400, -1));
}

static void a_temperature_is_raised_where_it_rises(void **state)
{
	assert_true(raised(OS_SIGNAL_GPU_TEMPERATURE, 72, 61));
	assert_false(raised(OS_SIGNAL_GPU_TEMPERATURE, 65, 61));
	assert_false(raised(OS_SIGNAL_GPU_TEMPERATURE, 90, -1)); /* some GPUs always are */
	assert_false(raised(OS_SIGNAL_GPU_POWER, 700, 100));	 /* work, not a fault */
}

static void an_error_that_cannot_be_corrected_is_always_raised(void **state)
{
	assert_true(raised(OS_SIGNAL_GPU_ECC_UNCORRECTED, 0.1, -1));
	assert_true(raised(OS_SIGNAL_GPU_XID, 0.01, 0.01));
	assert_false(raised(OS_SIGNAL_GPU_XID, 0, 0));
}

static void a_limit_is_raised_where_it_is_reached_and_was_not(void **state)
{
	assert_true(raised(OS_SIGNAL_IO_LIMIT, 99, -1));
	assert_true(raised(OS_SIGNAL_IO_LIMIT, 99, 40));
	assert_false(raised(OS_SIGNAL_IO_LIMIT, 99, 97));
	assert_false(raised(OS_SIGNAL_IO_LIMIT, 60, -1));
}

static void levels_stand_in_order_with_the_others(void **state)
{
	struct os_signal list[3];
	char line[256];

	/* 1.45 times what raises it, never raised, ten times */
	os_signal_make(&list[0], OS_SIGNAL_RUN_WAIT, "", 30, 1, 0);
	os_signal_make(&list[1], OS_SIGNAL_GPU_POWER, "GPU 3", 500, 520, 0);
	os_signal_make(&list[2], OS_SIGNAL_GPU_SM_CLOCK, "GPU 3", 990, 1980, 0);
	qsort(list, 3, sizeof(list[0]), os_signal_order);
	assert_string_equal(list[0].name, "gpu_sm_clock");
	assert_string_equal(list[1].name, "run_wait");
	assert_string_equal(os_signal_text(&list[0], line, sizeof(line)),
			    "SM clock of GPU 3: 990 MHz (usually 1980)");
}

static void a_full_list_keeps_the_strongest_and_the_totals(void **state)
{
	struct os_signal list[4], s;
	uint32_t n = 0;
	char name[8];

	os_signal_make(&s, OS_SIGNAL_IO_WAIT, "", 0, 0, 0); /* a total, of nothing */
	os_signal_put(list, &n, 4, &s);
	for (int i = 1; i <= 8; i++) {
		snprintf(name, sizeof(name), "hog %d", i);
		os_signal_make(&s, OS_SIGNAL_CPU_HOG, name, 10 * i, 0, 0);
		os_signal_put(list, &n, 4, &s);
	}
	os_signal_make(&s, OS_SIGNAL_CPU_HOG, "hog 8", 500, 0, 0); /* the same again, stronger */
	os_signal_put(list, &n, 4, &s);
	os_signal_make(&s, OS_SIGNAL_CPU_HOG, "hog 7", 20, 0, 0); /* weaker */
	os_signal_put(list, &n, 4, &s);
	assert_int_equal(n, 4);
	assert_string_equal(list[0].name, "io_wait");
	for (uint32_t i = 1; i < 4; i++) {
		assert_string_equal(list[i].name, "cpu_hog");
		assert_true(list[i].value == 500 || list[i].value == 70 || list[i].value == 60);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(says_it_in_words),
	    cmocka_unit_test(another_ones_signal_is_known_by_its_name),
	    cmocka_unit_test(every_kind_has_a_name_of_its_own_and_a_sentence),
	    cmocka_unit_test(raised_is_far_above_the_usual_value),
	    cmocka_unit_test(a_clock_is_raised_where_it_falls),
	    cmocka_unit_test(a_temperature_is_raised_where_it_rises),
	    cmocka_unit_test(an_error_that_cannot_be_corrected_is_always_raised),
	    cmocka_unit_test(a_limit_is_raised_where_it_is_reached_and_was_not),
	    cmocka_unit_test(levels_stand_in_order_with_the_others),
	    cmocka_unit_test(a_full_list_keeps_the_strongest_and_the_totals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
