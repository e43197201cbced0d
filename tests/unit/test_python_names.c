/* SPDX-License-Identifier: Apache-2.0
 * Line tables of this machine's interpreters against their own co_lines(), and hostile ones. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include "sampler/python/python_names.h"
#include "tests/unit/python_target.h"

static const char *python;

static size_t unhex(const char *text, uint8_t *out, size_t room)
{
	size_t n = 0;

	for (; text[0] && text[1] && n < room; text += 2) {
		unsigned int v;

		if (sscanf(text, "%2x", &v) != 1)
			break;
		out[n++] = (uint8_t)v;
	}
	return n;
}

static void lines_as_the_interpreter_reads_them(void **unused)
{
	static char text[1 << 20];
	static uint8_t table[1 << 19];
	unsigned int minor = 0, first = 0, codes = 0, checked = 0;
	size_t bytes = 0;
	struct target t;

	target_start(&t, python, "tests/python/lines.py", NULL);
	while (fgets(text, sizeof(text), t.output)) {
		unsigned int begin, end, line;
		int at = 0;

		if (sscanf(text, "C %u %u %n", &minor, &first, &at) == 2 && at) {
			bytes = unhex(text + at, table, sizeof(table));
			codes++;
		} else if (sscanf(text, "L %u %u %u", &begin, &end, &line) == 3) {
			for (unsigned int i = begin; i < end; i += 2) {
				assert_int_equal(python_names_line(minor, table, bytes, first, i),
						 line);
				checked++;
			}
		}
	}
	target_end(&t);
	print_message("# %s: %u instructions of %u code objects\n", python, checked, codes);
	assert_true(codes > 500 && checked > 10000);
}

static void hostile_tables_end(void **unused)
{
	uint8_t table[4096];
	uint32_t seed = 1;

	for (int round = 0; round < 20000; round++) {
		size_t bytes = (seed >> 8) % sizeof(table);

		for (size_t i = 0; i < 64 && i < bytes; i++) {
			seed = seed * 1664525 + 1013904223;
			table[i] = (uint8_t)(seed >> 24);
		}
		memset(table + (bytes < 64 ? bytes : 64), 0xff,
		       sizeof(table) - (bytes < 64 ? bytes : 64));
		for (uint32_t minor = 10; minor < 15; minor++) {
			python_names_line(minor, table, bytes, seed, (int64_t)(seed >> 4));
			python_names_line(minor, table, bytes, seed, -1);
		}
	}
	assert_int_equal(python_names_line(11, NULL, 0, 5, 0), 0);
	assert_int_equal(python_names_line(10, NULL, 0, 5, -2), 5);
	assert_int_equal(python_names_line(11, NULL, 0, 0xffffffff, -2), 0);
}

static int choose(void **state)
{
	python = *state;
	return 0;
}

int main(void)
{
	static char path[16][512], names[17][640];
	struct CMUnitTest tests[17];
	unsigned int count = target_interpreters(path, 16);

	for (unsigned int i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]),
			 "lines_as_the_interpreter_reads_them of %.500s", path[i]);
		tests[i] = (struct CMUnitTest){names[i], lines_as_the_interpreter_reads_them,
					       choose, NULL, path[i]};
	}
	tests[count] = (struct CMUnitTest)cmocka_unit_test(hostile_tables_end);
	return _cmocka_run_group_tests("test_python_names", tests, count + 1, NULL, NULL);
}
