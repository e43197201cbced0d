/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/os_signal.h"

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

static void another_ones_signal_is_told_by_its_name(void **state)
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
		assert_true(k->raised >= k->notable && k->raised > 0);
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
	    cmocka_unit_test(another_ones_signal_is_told_by_its_name),
	    cmocka_unit_test(every_kind_has_a_name_of_its_own_and_a_sentence),
	    cmocka_unit_test(raised_is_far_above_the_usual_value),
	    cmocka_unit_test(a_full_list_keeps_the_strongest_and_the_totals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
