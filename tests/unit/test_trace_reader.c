/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "cli/trace/trace_reader.h"

static int file_of(const void *data, size_t bytes, char *path, size_t room)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
	lseek(fd, 0, SEEK_SET);
	snprintf(path, room, "/proc/self/fd/%d", fd);
	return fd;
}

static void expect_lines(const void *data, size_t bytes, const char *const *want, int last)
{
	struct trace_reader *r;
	char path[64], *line;
	size_t n;
	int fd = file_of(data, bytes, path, sizeof(path)), rc;
	uint64_t number = 0;

	assert_int_equal(trace_reader_open(&r, path), 0);
	while ((rc = trace_reader_line(r, &line, &n)) > 0) {
		assert_non_null(want[number]);
		assert_string_equal(line, want[number]);
		number++;
		assert_int_equal(trace_reader_line_number(r), number);
	}
	assert_int_equal(rc, last);
	assert_null(want[number]);
	trace_reader_close(r);
	close(fd);
}

static const char *const three[] = {"a,b", "", "last", NULL};

static void reads_plain_lines_with_either_ending(void **state)
{
	expect_lines("a,b\n\nlast", 9, three, 0);
	expect_lines("a,b\r\n\r\nlast\r\n", 13, three, 0);
}

static size_t gzip(unsigned char *to, size_t room, const char *text)
{
	z_stream z = {.next_in = (unsigned char *)(uintptr_t)text,
		      .avail_in = (uInt)strlen(text),
		      .next_out = to,
		      .avail_out = (uInt)room};

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static void reads_gzip_of_several_members(void **state)
{
	unsigned char packed[512];
	size_t n = gzip(packed, sizeof(packed), "a,b\n\nla");

	n += gzip(packed + n, sizeof(packed) - n, "st\n");
	expect_lines(packed, n, three, 0);
}

static void reads_zstd(void **state)
{
	char packed[512];
	size_t n = ZSTD_compress(packed, sizeof(packed), "a,b\n\nlast", 9, 3);

	expect_lines(packed, n, three, 0);
}

/* Eight bytes that ask for a window of 24 MiB. */
static void refuses_zstd_with_a_large_window(void **state)
{
	static const char *const none[] = {NULL};

	expect_lines("\x28\xb5\x2f\xfd\0\x74sk", 8, none, -EBADMSG);
}

static void reports_data_that_ends_early(void **state)
{
	static const char *const none[] = {NULL};
	unsigned char packed[512];
	size_t n = gzip(packed, sizeof(packed), "a,b\n\nlast\n");

	expect_lines(packed, n - 9, three, -EBADMSG);
	packed[n / 2] ^= 0x55;
	packed[n / 2 - 1] ^= 0x55;
	expect_lines(packed, 12, none, -EBADMSG);
}

/* Whoever asks again after an error gets it again, and not the end of the file. */
static void an_error_stays(void **state)
{
	unsigned char packed[512];
	size_t n = gzip(packed, sizeof(packed), "a,b\n");
	struct trace_reader *r;
	char path[64], *line, byte;
	int fd;

	for (size_t cut = 1; cut < n; cut++) {
		fd = file_of(packed, cut, path, sizeof(path));
		assert_int_equal(trace_reader_open(&r, path), 0);
		trace_reader_peek(r);
		while (trace_reader_line(r, &line, &(size_t){0}) > 0)
			;
		assert_int_equal(trace_reader_line(r, &line, &(size_t){0}), -EBADMSG);
		while (trace_reader_read(r, &byte, 1) > 0)
			;
		assert_int_equal(trace_reader_read(r, &byte, 1), -EBADMSG);
		assert_string_equal(trace_reader_error(r), "compressed data ends early");
		trace_reader_close(r);
		close(fd);
	}
	for (size_t at = n - 8; at < n; at++) { /* the checksum and the length */
		packed[at] ^= 0x10;
		fd = file_of(packed, n, path, sizeof(path));
		assert_int_equal(trace_reader_open(&r, path), 0);
		while (trace_reader_line(r, &line, &(size_t){0}) > 0)
			;
		assert_int_equal(trace_reader_line(r, &line, &(size_t){0}), -EBADMSG);
		trace_reader_close(r);
		close(fd);
		packed[at] ^= 0x10;
	}
}

/* The decoder takes a frame's last bytes in before it has given all of their text. */
static void reads_zstd_whose_end_has_no_room_at_first(void **state)
{
	size_t bytes = 4u << 20, room = ZSTD_compressBound(4u << 20), n, got = 0, one;
	char *text = malloc(bytes), *packed = malloc(room), *line, path[64];
	struct trace_reader *r;
	int fd, rc;

	for (size_t i = 0; i < bytes; i++)
		text[i] = i % 1001 ? 'x' : '\n';
	n = ZSTD_compress(packed, room, text, bytes - 77, 3);
	fd = file_of(packed, n, path, sizeof(path));
	assert_int_equal(trace_reader_open(&r, path), 0);
	while ((rc = trace_reader_line(r, &line, &one)) > 0)
		got += one;
	assert_int_equal(rc, 0);
	assert_int_equal(got, bytes - 77 - (bytes - 77 + 1000) / 1001);
	trace_reader_close(r);
	close(fd);
	free(text);
	free(packed);
}

static void passes_over_a_byte_order_mark(void **state)
{
	static const char *const twice[] = {"\xef\xbb\xbf", NULL};
	unsigned char packed[512];
	size_t n = gzip(packed, sizeof(packed),
			"\xef\xbb\xbf"
			"a,b\n\nlast");
	struct trace_reader *r;
	char path[64], byte;
	int fd = file_of("\xef\xbb\xbf[", 4, path, sizeof(path));

	expect_lines("\xef\xbb\xbf"
		     "a,b\n\nlast",
		     12, three, 0);
	expect_lines(packed, n, three, 0);
	expect_lines("\xef\xbb\xbf\xef\xbb\xbf", 6, twice, 0);
	assert_int_equal(trace_reader_open(&r, path), 0);
	assert_int_equal(trace_reader_peek(r), '[');
	assert_int_equal(trace_reader_read(r, &byte, 1), 1);
	assert_int_equal(byte, '[');
	trace_reader_close(r);
	close(fd);
}

/* As a slow writer's first bytes come. */
static void finds_the_packing_from_a_pipe_that_trickles(void **state)
{
	unsigned char packed[512];
	size_t n = gzip(packed, sizeof(packed), "a,b\n"), bytes;
	int end[2], status;
	struct trace_reader *r;
	char path[64], *line;
	pid_t child;

	assert_int_equal(pipe(end), 0);
	child = fork();
	if (!child) {
		for (size_t i = 0; i < n; i++) {
			if (write(end[1], packed + i, 1) != 1)
				_exit(1);
			if (i < 4)
				usleep(20000);
		}
		_exit(0);
	}
	close(end[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", end[0]);
	assert_int_equal(trace_reader_open(&r, path), 0);
	assert_int_equal(trace_reader_line(r, &line, &bytes), 1);
	assert_string_equal(line, "a,b");
	assert_int_equal(trace_reader_line(r, &line, &bytes), 0);
	trace_reader_close(r);
	close(end[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void refuses_a_line_past_its_bound(void **state)
{
	static const char *const none[] = {NULL};
	size_t bytes = TRACE_READER_LINE_BYTES_MAX + 2;
	char *text = malloc(bytes);

	memset(text, 'x', bytes);
	expect_lines(text, bytes, none, -EBADMSG);
	free(text);
}

static void splits_quoted_fields(void **state)
{
	char line[] = "1,,\"a, \"\"b\"\" c\",\"\",end";
	struct trace_field f[8];

	assert_int_equal(trace_reader_fields(line, sizeof(line) - 1, f, 8), 5);
	assert_string_equal(f[0].text, "1");
	assert_int_equal(f[1].bytes, 0);
	assert_string_equal(f[2].text, "a, \"b\" c");
	assert_string_equal(f[3].text, "");
	assert_string_equal(f[4].text, "end");
}

static void refuses_unbalanced_quotes(void **state)
{
	char open[] = "1,\"abc", after[] = "\"a\"b,c";
	struct trace_field f[8];

	assert_int_equal(trace_reader_fields(open, sizeof(open) - 1, f, 8), -EBADMSG);
	assert_int_equal(trace_reader_fields(after, sizeof(after) - 1, f, 8), -EBADMSG);
}

static void counts_fields_beyond_the_room(void **state)
{
	char line[] = "1,2,3,4";
	struct trace_field f[2];

	assert_int_equal(trace_reader_fields(line, sizeof(line) - 1, f, 2), 4);
	assert_string_equal(f[1].text, "2");
}

static void reads_numbers_whole_or_not_at_all(void **state)
{
	static const struct {
		const char *text;
		bool good;
		uint64_t value;
	} cases[] = {
	    {"0", true, 0},
	    {"1712195495502094500", true, 1712195495502094500ull},
	    {"12.75", true, 12},
	    {"", false, 0},
	    {"-1", false, 0},
	    {"1x", false, 0},
	    {" 1", false, 0},
	    {".5", false, 0},
	    {"99999999999999999999", false, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[32];
		struct trace_field f = {text, strlen(cases[i].text)};
		uint64_t v = 0;

		strcpy(text, cases[i].text);
		assert_int_equal(trace_reader_u64(&f, &v), cases[i].good);
		if (cases[i].good)
			assert_true(v == cases[i].value);
	}
}

static void peeks_past_white_space(void **state)
{
	struct trace_reader *r;
	char path[64];
	int fd = file_of(" \n\t{}", 5, path, sizeof(path));

	assert_int_equal(trace_reader_open(&r, path), 0);
	assert_int_equal(trace_reader_peek(r), '{');
	trace_reader_close(r);
	close(fd);
	fd = file_of(" \n", 2, path, sizeof(path));
	assert_int_equal(trace_reader_open(&r, path), 0);
	assert_int_equal(trace_reader_peek(r), -1);
	trace_reader_close(r);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_plain_lines_with_either_ending),
	    cmocka_unit_test(reads_gzip_of_several_members),
	    cmocka_unit_test(reads_zstd),
	    cmocka_unit_test(refuses_zstd_with_a_large_window),
	    cmocka_unit_test(reports_data_that_ends_early),
	    cmocka_unit_test(an_error_stays),
	    cmocka_unit_test(reads_zstd_whose_end_has_no_room_at_first),
	    cmocka_unit_test(passes_over_a_byte_order_mark),
	    cmocka_unit_test(finds_the_packing_from_a_pipe_that_trickles),
	    cmocka_unit_test(refuses_a_line_past_its_bound),
	    cmocka_unit_test(splits_quoted_fields),
	    cmocka_unit_test(refuses_unbalanced_quotes),
	    cmocka_unit_test(counts_fields_beyond_the_room),
	    cmocka_unit_test(reads_numbers_whole_or_not_at_all),
	    cmocka_unit_test(peeks_past_white_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
