/* SPDX-License-Identifier: Apache-2.0
 * test_kineto_reader.c - events of Kineto JSON: which values count, and what hostile text does. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/check.h"
#include "cli/trace/kineto_reader.h"

static struct {
	unsigned count;
	struct kineto_event last;
	char category[32], name[64], phase[8];
	unsigned stop_at;
} seen;

static int note(void *arg, const struct kineto_event *e)
{
	seen.last = *e;
	snprintf(seen.category, sizeof(seen.category), "%s", e->category);
	snprintf(seen.name, sizeof(seen.name), "%s", e->name);
	snprintf(seen.phase, sizeof(seen.phase), "%s", e->phase);
	return ++seen.count == seen.stop_at ? -ECANCELED : 0;
}

static int run_bytes(const char *text, size_t bytes, struct kineto_result *result)
{
	struct trace_reader *reader;
	char path[64];
	int fd = memfd_create("json", MFD_CLOEXEC), rc;

	assert_true(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes && !lseek(fd, 0, SEEK_SET));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(trace_reader_open(&reader, path), 0);
	memset(&seen, 0, sizeof(seen));
	rc = kineto_reader_run(reader, note, NULL, result);
	trace_reader_close(reader);
	close(fd);
	return rc;
}

static int run(const char *text, struct kineto_result *result)
{
	return run_bytes(text, strlen(text), result);
}

static void reads_the_fields_that_count(void **state)
{
	struct kineto_result result;

	assert_int_equal(
	    run("{\"a\":{\"traceEvents\":[1]},\"traceEvents\":[\n"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"f\\u0041\\\"\","
		"\"ts\":12.5,\"dur\":3,"
		"\"x\":{\"args\":{\"bytes\":9}},\"args\":{\"correlation\":7,"
		"\"bytes\":8,\"device\":1,"
		"\"stream\":20,\"grid\":[1,2,3,4],\"block\":[5,6,7],\"y\":{\"stream\":99}}}],"
		"\"distributedInfo\":{\"x\":{\"rank\":5},\"rank\":3,\"y\":[{\"rank\":4}]},"
		"\"rank\":9,\"baseTimeNanoseconds\":1234567}",
		&result),
	    0);
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.category, "kernel");
	assert_string_equal(seen.name, "fA\"");
	assert_int_equal(seen.last.name_bytes, 3);
	assert_string_equal(seen.phase, "X");
	assert_true(seen.last.has_begin && seen.last.has_correlation);
	assert_int_equal(seen.last.begin_ns, 12500);
	assert_int_equal(seen.last.duration_ns, 3000);
	assert_int_equal(seen.last.correlation, 7);
	assert_int_equal(seen.last.bytes, 8);
	assert_int_equal(seen.last.device, 1);
	assert_int_equal(seen.last.stream, 20);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(seen.last.grid[i], i + 1);
		assert_int_equal(seen.last.block[i], i + 5);
	}
	assert_int_equal(result.base_ns, 1234567);
	assert_int_equal(result.rank, 3);
}

static void one_event_leaves_nothing_to_the_next(void **state)
{
	struct kineto_result result;

	assert_int_equal(
	    run("[{\"name\":\"a\",\"cat\":\"c\",\"ph\":\"X\",\"ts\":1,\"dur\":2,"
		"\"args\":{\"correlation\":3,\"grid\":[4]}},{},5,[6,[7]],\"z\",null,true]",
		&result),
	    0);
	assert_int_equal(seen.count, 7);
	assert_int_equal(seen.last.begin_ns + seen.last.correlation + seen.last.grid[0], 0);
	assert_int_equal(result.rank, -1);
	assert_string_equal(seen.name, "");
	assert_false(seen.last.has_begin || seen.last.has_correlation);
}

static void times_are_exact_to_the_nanosecond(void **state)
{
	static const struct {
		const char *us;
		uint64_t ns;
	} times[] = {
	    {"1694128201545123.457", 1694128201545123457},
	    {"0.0015", 2},
	    {"0.0014", 1},
	    {"1e3", 1000000},
	    {"2.5E1", 25000},
	    {"-4", 0},
	    {"1e300", 0},
	    {"3999999999999999.999", 3999999999999999999},
	    {"99999999999999999999", 0},
	    {"0.9999", 1000},
	    {"7.", 0},
	};
	struct kineto_result result;
	char text[128];

	for (size_t i = 0; i + 1 < ARRAY_LEN(times); i++) {
		snprintf(text, sizeof(text), "[{\"ts\":%s}]", times[i].us);
		assert_int_equal(run(text, &result), 0);
		assert_int_equal(seen.last.begin_ns, times[i].ns);
	}
	assert_int_equal(run("[{\"ts\":7.}]", &result), -EBADMSG);
}

static void a_time_that_is_none_is_reported(void **state)
{
	static const struct {
		const char *fields;
		bool bad;
	} events[] = {
	    {"\"ts\":1,\"dur\":2", false},    {"\"ts\":0,\"dur\":0.0", false},
	    {"\"ts\":1,\"dur\":null", false}, {"\"ts\":1,\"args\":{\"dur\":-1}", false},
	    {"\"ts\":1,\"dur\":-1", true},    {"\"ts\":1,\"dur\":-0.001", true},
	    {"\"ts\":1,\"dur\":\"2\"", true}, {"\"ts\":1,\"dur\":\"long\"", true},
	    {"\"ts\":1,\"dur\":true", true},  {"\"ts\":1,\"dur\":[2]", true},
	    {"\"ts\":1,\"dur\":{}", true},    {"\"ts\":1,\"dur\":1e300", true},
	    {"\"ts\":-1,\"dur\":2", true},    {"\"ts\":\"1\",\"dur\":2", true},
	};
	struct kineto_result result;
	char text[128];

	for (size_t i = 0; i < ARRAY_LEN(events); i++) {
		snprintf(text, sizeof(text), "[{\"ts\":-1},{%s}]", events[i].fields);
		assert_int_equal(run(text, &result), 0);
		assert_int_equal(seen.count, 2);
		assert_int_equal(seen.last.bad_time, events[i].bad);
	}
}

static void a_packed_file_is_read_to_its_end(void **state)
{
	unsigned char packed[256];
	z_stream z = {.next_in = (unsigned char *)(uintptr_t) "[{}]",
		      .avail_in = 4,
		      .next_out = packed,
		      .avail_out = sizeof(packed)};
	struct kineto_result result;

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	assert_int_equal(run_bytes((const char *)packed, z.total_out, &result), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(run_bytes((const char *)packed, z.total_out - 1, &result), -EBADMSG);
	assert_string_equal(result.error, "compressed data ends early");
	packed[z.total_out - 5] ^= 1; /* of its checksum */
	assert_int_equal(run_bytes((const char *)packed, z.total_out, &result), -EBADMSG);
}

/* `[],` again and again: three bytes a value. */
static void many_short_values_take_no_memory(void **state)
{
	size_t bytes = 6u << 20, before;
	char *text = malloc(bytes);
	struct kineto_result result;

	for (size_t i = 0; i < bytes; i++)
		text[i] = "[],"[i % 3];
	memcpy(text, "[1,", 3);
	memcpy(text + bytes - 3, "[]]", 3);
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	assert_int_equal(run_bytes(text, bytes, &result), 0);
	assert_int_equal(seen.count, bytes / 3);
	assert_true(mallinfo2().uordblks + mallinfo2().hblkhd <= before);
	assert_true(mallinfo2().arena < (8u << 20)); /* the most there was */
	free(text);
}

static void names_the_line_of_what_is_wrong(void **state)
{
	struct kineto_result result;

	assert_int_equal(run("[{\"ts\":1},\n{\"ts\":2},\n{\"ts\":}]", &result), -EBADMSG);
	assert_int_equal(result.line, 3);
	assert_non_null(strstr(result.error, "unallowed token"));
	assert_int_equal(run("{\"traceEvents\":[{\"ts\":1}", &result), -EBADMSG);
	assert_int_equal(seen.count, 1);
	assert_int_equal(run("{\"other\":[]}", &result), -EBADMSG);
	assert_string_equal(result.error, "no traceEvents");
	assert_int_equal(run("{\"traceEvents\":5}", &result), -EBADMSG);
	assert_string_equal(result.error, "no traceEvents");
	assert_int_equal(run("[{\"name\":\"\xff\"}]", &result), -EBADMSG);
	assert_int_equal(run("", &result), -EBADMSG);
}

static void the_callback_ends_the_reading(void **state)
{
	struct kineto_result result;
	struct trace_reader *reader;
	int fd = memfd_create("json", MFD_CLOEXEC);
	char path[64];

	assert_int_equal(write(fd, "[{},{},\n{},{}]", 14), 14);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(trace_reader_open(&reader, path), 0);
	memset(&seen, 0, sizeof(seen));
	seen.stop_at = 3;
	assert_int_equal(kineto_reader_run(reader, note, NULL, &result), -ECANCELED);
	assert_int_equal(seen.count, 3);
	assert_int_equal(result.line, 2);
	trace_reader_close(reader);
	close(fd);
}

static void bounds_nesting_and_names(void **state)
{
	size_t bytes = 4u << 20, before;
	char *text = malloc(bytes);
	struct kineto_result result;

	memset(text, '[', bytes);
	before = mallinfo2().uordblks;
	assert_int_equal(run_bytes(text, bytes, &result), -EBADMSG);
	assert_string_equal(result.error, "nested too deep");
	assert_int_equal(mallinfo2().uordblks, before);
	memset(text, 'n', bytes);
	memcpy(text, "[{\"name\":\"", 10);
	memcpy(text + 10 + KINETO_TEXT_BYTES_MAX, "\"}]", 3);
	assert_int_equal(run_bytes(text, 13 + KINETO_TEXT_BYTES_MAX, &result), 0);
	assert_int_equal(seen.last.name_bytes, KINETO_TEXT_BYTES_MAX);
	memcpy(text + 10 + KINETO_TEXT_BYTES_MAX, "n\"}]", 4);
	assert_int_equal(run_bytes(text, 14 + KINETO_TEXT_BYTES_MAX, &result), -EBADMSG);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_the_fields_that_count),
	    cmocka_unit_test(one_event_leaves_nothing_to_the_next),
	    cmocka_unit_test(times_are_exact_to_the_nanosecond),
	    cmocka_unit_test(a_time_that_is_none_is_reported),
	    cmocka_unit_test(a_packed_file_is_read_to_its_end),
	    cmocka_unit_test(many_short_values_take_no_memory),
	    cmocka_unit_test(names_the_line_of_what_is_wrong),
	    cmocka_unit_test(the_callback_ends_the_reading),
	    cmocka_unit_test(bounds_nesting_and_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
