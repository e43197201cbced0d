/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/daemon/config.h"

struct settings {
	char path[32];
	bool on;
	uint64_t count, bytes, period_ns;
	double ratio;
	int mode;
};

static const struct config_key keys[] = {
    CONFIG_KEY(struct settings, path, "file.path", CONFIG_STRING, "/tmp/x", "where"),
    CONFIG_KEY(struct settings, on, "file.on", CONFIG_BOOL, "false", "whether"),
    CONFIG_KEY(struct settings, count, "count", CONFIG_UINT, "3", "how many", .min = 1, .max = 9),
    CONFIG_KEY(struct settings, bytes, "file.max_bytes", CONFIG_BYTES, "32 MiB", "how much"),
    CONFIG_KEY(struct settings, period_ns, "period", CONFIG_DURATION, "5s", "how often"),
    CONFIG_KEY(struct settings, ratio, "ratio", CONFIG_DOUBLE, "0.5", "share", .min = 0, .max = 1),
    CONFIG_KEY(struct settings, mode, "mode", CONFIG_ENUM, "robust", "how",
	       .choices = "robust|p99"),
};

static char path[64], err_path[64];

/* Runs config_load over a file's text with standard error kept; the text of it in err. */
static enum config_result load(struct settings *s, const char *text, char *err, size_t err_bytes,
			       int argc, char **argv)
{
	enum config_result result;
	FILE *f = fopen(path, "w");
	int saved = dup(2), fd = mkstemp(strcpy(err_path, "/tmp/test_config_err.XXXXXX"));
	ssize_t n;

	fputs(text, f);
	fclose(f);
	fflush(stderr);
	dup2(fd, 2);
	result = config_load(s, keys, ARRAY_LEN(keys), "t", "about", path, argc, argv, NULL);
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	n = pread(fd, err, err_bytes - 1, 0);
	err[n > 0 ? n : 0] = '\0';
	close(fd);
	unlink(err_path);
	return result;
}

static void reads_sections_and_units(void **state)
{
	struct settings s;
	char err[512], *argv[] = {"t", NULL};

	assert_int_equal(load(&s,
			      "file:\n  path: /a b\n  on: yes\n  max_bytes: 2 KiB\n"
			      "count: 7\nperiod: 250ms\nmode: p99\n",
			      err, sizeof(err), 1, argv),
			 CONFIG_RUN);
	assert_string_equal(s.path, "/a b");
	assert_true(s.on);
	assert_int_equal(s.bytes, 2048);
	assert_int_equal(s.count, 7);
	assert_int_equal(s.period_ns, 250000000);
	assert_int_equal(s.mode, 1);
	assert_true(s.ratio == 0.5);
}

static void flags_override_environment_which_overrides_the_file(void **state)
{
	struct settings s;
	char err[512], *argv[] = {"t", "--count", "9", "--file-on", NULL};

	setenv("SYSOM_COUNT", "8", 1);
	setenv("SYSOM_FILE_MAX_BYTES", "1MB", 1);
	assert_int_equal(load(&s, "count: 7\n", err, sizeof(err), 4, argv), CONFIG_RUN);
	unsetenv("SYSOM_COUNT");
	unsetenv("SYSOM_FILE_MAX_BYTES");
	assert_int_equal(s.count, 9);
	assert_int_equal(s.bytes, 1000000);
	assert_true(s.on);
}

static void expect_error(const char *text, const char *part)
{
	struct settings s;
	char err[1024], *argv[] = {"t", NULL};

	assert_int_equal(load(&s, text, err, sizeof(err), 1, argv), CONFIG_EXIT_BAD);
	if (!strstr(err, part))
		fail_msg("\"%s\" does not name \"%s\"", err, part);
}

/* 2^53 ns are 104 days. */
static void a_duration_may_be_years(void **state)
{
	struct settings s;
	char err[512], *argv[] = {"t", NULL};

	assert_int_equal(load(&s, "period: 3650d\n", err, sizeof(err), 1, argv), CONFIG_RUN);
	assert_int_equal(s.period_ns, 3650 * 86400000000000ull);
	expect_error("period: 200000d\n", "200000d is out of range: above 292 years");
	expect_error("count: 1e17\n", "out of range");
}

static void names_the_line_of_each_mistake(void **state)
{
	expect_error("count: 7\nfile:\n  pth: x\n", ":3: file.pth: no such setting");
	expect_error("count: 12\n", ":1: count: 12 is out of range");
	expect_error("\n\nperiod: 5\n", ":3: period: \"5\" needs a unit");
	expect_error("mode: best\n", "not one of robust|p99");
	expect_error("count: 1.5\n", "not a whole number");
	expect_error("count: -1\n", "out of range");
	expect_error("count: [1]\n", ":1: count: lists");
	expect_error("count: 1\ncount: 2\n", ":2: count: set twice");
	expect_error("file:\n  path:\n    deep: 1\n", ":3: path: nested deeper");
	expect_error("just text\n", "not a mapping");
	expect_error("a: {b\n", ":2:");
	expect_error("file:\n  path: 0123456789012345678901234567890123456789\n", "longer than 31");
}

static void rejects_unknown_and_empty_flags(void **state)
{
	struct settings s;
	char err[512], *bad[] = {"t", "--cuont", "9", NULL}, *empty[] = {"t", "--count", NULL};

	assert_int_equal(load(&s, "", err, sizeof(err), 3, bad), CONFIG_EXIT_BAD);
	assert_non_null(strstr(err, ": --cuont")); /* after the name of the program */
	assert_int_equal(load(&s, "", err, sizeof(err), 2, empty), CONFIG_EXIT_BAD);
	assert_non_null(strstr(err, "needs a value"));
}

static void printed_settings_read_back_the_same(void **state)
{
	struct settings a, b;
	char err[512], *text = NULL, *argv[] = {"t", "--period", "90s", "--file-path", "/q", NULL};
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	assert_int_equal(load(&a, "file:\n", err, sizeof(err), 5, argv), CONFIG_RUN);
	config_print(f, &a, keys, ARRAY_LEN(keys));
	fclose(f);
	/* "file" comes twice in this table's order; YAML sections may not, so check line by line */
	assert_non_null(strstr(text, "period: 90s"));
	assert_non_null(strstr(text, "max_bytes: 32 MiB"));
	assert_non_null(strstr(text, "path: \"/q\""));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_sections_and_units),
	    cmocka_unit_test(a_duration_may_be_years),
	    cmocka_unit_test(flags_override_environment_which_overrides_the_file),
	    cmocka_unit_test(names_the_line_of_each_mistake),
	    cmocka_unit_test(rejects_unknown_and_empty_flags),
	    cmocka_unit_test(printed_settings_read_back_the_same),
	};

	snprintf(path, sizeof(path), "/tmp/test_config.%d.yaml", getpid());
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	unlink(path);
	return failed;
}
