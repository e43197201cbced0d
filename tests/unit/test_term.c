/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "render/term.h"

static void safe_text_keeps_what_is_harmless(void **state)
{
	assert_string_equal(term_safe("job-7 a b", 40), "job-7 a b");
	assert_string_equal(term_safe("", 40), "");
	assert_string_equal(term_safe(NULL, 40), "");
}

static void safe_text_replaces_control_and_escape(void **state)
{
	assert_string_equal(term_safe("a\033[31mb\r\n\x7f", 40), "a?[31mb???");
	/* C1, right-to-left override, byte order mark */
	assert_string_equal(term_safe("\xc2\x9b"
				      "x\xe2\x80\xae"
				      "y\xef\xbb\xbf",
				      40),
			    "?x?y?");
}

static void safe_text_replaces_malformed_utf8(void **state)
{
	assert_string_equal(term_safe("a\xff"
				      "b\xc3",
				      40),
			    "a?b?");
	assert_string_equal(term_safe("\xe2\x82", 40), "??");
	assert_string_equal(term_safe("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", 40), "?????????");
}

static void safe_text_cuts_in_the_middle(void **state)
{
	const char *s = term_safe("0123456789abcdefghijklmnopqrstuvwxyz", 20);

	assert_int_equal(strlen(s), 20);
	assert_non_null(strstr(s, "..."));
	assert_int_equal(strncmp(s, "0123456789a", 11), 0);
	assert_string_equal(s + 17, "xyz");
}

static void safe_text_of_any_length_fits(void **state)
{
	char big[5000];

	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	assert_true(strlen(term_safe(big, 100000)) < TERM_TEXT_BYTES);
}

static void numbers_take_fitting_units(void **state)
{
	assert_string_equal(term_ms(27.5), "27.5 ms");
	assert_string_equal(term_ms(1240), "1.24 s");
	assert_string_equal(term_ms(0.83), "830 us");
	assert_string_equal(term_ms(0), "0 ms");
	assert_string_equal(term_ms(NAN), "?");
	assert_string_equal(term_ms_cell(1240), "1240 ms");
	assert_string_equal(term_counted(1, "process", "processes"), "1 process");
	assert_string_equal(term_counted(1200, "step", "steps"), "1,200 steps");
	assert_string_equal(term_ranks(1, 0), "1 rank");
	assert_string_equal(term_ranks(4, 2), "4 ranks and 2 other processes");
	assert_string_equal(term_ranks(2000, 1), "2,000 ranks and 1 other process");
	assert_string_equal(term_ranks(0, 2), "2 processes without a rank");
	assert_string_equal(term_ranks(0, 0), "0 ranks");
	assert_string_equal(term_rank(0), "rank 0");
	assert_string_equal(term_rank(-1), "a process without a rank");
	assert_string_equal(term_rank_cell(12), "12");
	assert_string_equal(term_rank_cell(-1), "-");
	assert_string_equal(term_ms_cell(0.83), "0.83 ms");
	assert_string_equal(term_ms_cell(-0.001), "0 ms");
	assert_string_equal(term_ms_cell(NAN), "?");
	assert_string_equal(term_bytes(999), "999 B");
	assert_string_equal(term_bytes(1234567), "1.23 MB");
	assert_string_equal(term_bytes(-1), "?");
	assert_string_equal(term_percent(0.00085), "0.085%");
	assert_string_equal(term_percent(0.5), "50%");
	assert_string_equal(term_share(1, 8), "13%");
	assert_string_equal(term_share(-0.01, 8), "0%");
	assert_string_equal(term_share(1, 0), "");
	assert_string_equal(term_sent(123456, 145e6), "123 kB, 0.085% of 145 MB of events");
	assert_string_equal(term_sent(5e3, 4e3), "5.00 kB, more than 4.00 kB of events");
	assert_string_equal(term_sent(54, 0), "54 B, no events");
	assert_string_equal(term_excess(0.498), "+50%");
	assert_string_equal(term_excess(-0.1), "-10%");
	assert_string_equal(term_excess(48), "x49");
	assert_string_equal(term_excess(-0.004), "0%"); /* not "-0%" */
	assert_string_equal(term_count(1234567), "1,234,567");
	assert_string_equal(term_count(12), "12");
	assert_string_equal(term_span(0), "0.0 s");
	assert_string_equal(term_span(0.046), "46.0 ms");
	assert_string_equal(term_span(0.1), "0.1 s");
	assert_string_equal(term_span(12.44), "12.4 s");
	assert_string_equal(term_span(185), "3 min 5 s");
	assert_string_equal(term_time(1795229412000000000u), "2026-11-21 02:50:12 UTC");
}

static void ranges_join_neighbours(void **state)
{
	const int some[] = {0, 1, 2, 3, 4, 6, 7, 9};
	int many[1000];

	assert_string_equal(term_ranges(some, 8), "0-4, 6, 7, 9");
	assert_string_equal(term_ranges(some, 1), "0");
	assert_string_equal(term_ranges(some, 0), "");
	for (int i = 0; i < 1000; i++)
		many[i] = i * 2;
	assert_true(strlen(term_ranges(many, 1000)) < TERM_TEXT_BYTES);
}

static void bars_fill_their_cells(void **state)
{
	assert_string_equal(term_bar(0.5, 4), "##  ");
	assert_string_equal(term_bar(7, 4), "####");
	assert_string_equal(term_bar(-1, 4), "    ");
	assert_string_equal(term_bar(NAN, 4), "    ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(safe_text_keeps_what_is_harmless),
	    cmocka_unit_test(safe_text_replaces_control_and_escape),
	    cmocka_unit_test(safe_text_replaces_malformed_utf8),
	    cmocka_unit_test(safe_text_cuts_in_the_middle),
	    cmocka_unit_test(safe_text_of_any_length_fits),
	    cmocka_unit_test(numbers_take_fitting_units),
	    cmocka_unit_test(ranges_join_neighbours),
	    cmocka_unit_test(bars_fill_their_cells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
