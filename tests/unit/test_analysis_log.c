/* SPDX-License-Identifier: Apache-2.0
 * The live side of a recording: all of it is in the file, or it ends where it says and the rest is
 * counted. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/analysis_log.h"

static char dir[64], path[96];

static int setup(void **unused)
{
	strcpy(dir, "/tmp/test_analysis_log.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/rec", dir);
	return 0;
}

static int teardown(void **unused)
{
	unlink(path);
	return rmdir(dir);
}

struct found {
	uint64_t bytes, records, runs;
	bool in_order, ended;
	uint32_t why;
};

/* What a reader finds; records were numbered by their correlation. */
static struct found read_back(void)
{
	static uint8_t body[LIMIT_JOURNAL_BLOCK_BYTES];
	struct found f = {.in_order = true};
	uint8_t head[JOURNAL_HEAD_BYTES];
	FILE *in = fopen(path, "rb");
	struct journal_event e;

	assert_non_null(in);
	assert_int_equal(fread(head, 1, JOURNAL_MAGIC_BYTES, in), JOURNAL_MAGIC_BYTES);
	assert_memory_equal(head, JOURNAL_MAGIC, JOURNAL_MAGIC_BYTES);
	while (fread(head, 1, sizeof(head), in) == sizeof(head)) {
		struct journal_block *b;
		uint32_t bytes;

		assert_int_equal(journal_block_bytes(head, &bytes), 0);
		assert_int_equal(fread(body, 1, bytes, in), bytes);
		assert_int_equal(journal_block_open(&b, head, body, bytes), 0);
		while (journal_block_next(b, &e) > 0) {
			assert_false(f.ended);
			f.runs += e.kind == JOURNAL_RUN;
			f.ended = e.kind == JOURNAL_END;
			f.why = f.ended ? e.as.end : 0;
			for (uint32_t i = 0; e.kind == JOURNAL_RECORDS && i < e.as.records.count;
			     i++)
				f.in_order &= e.as.records.first[i].correlation == f.records++;
		}
		journal_block_close(b);
	}
	f.bytes = (uint64_t)ftell(in);
	fclose(in);
	return f;
}

/* Records that hardly pack, one turn to a hundred. */
static void push(struct analysis_log *l, uint32_t first, uint32_t count)
{
	struct record r = {.kind = RECORD_LAUNCH, .peer = -1};

	for (uint32_t i = first; i < first + count; i++) {
		r.begin_ns = i * 0x9e3779b97f4a7c15ull;
		r.bytes = i * 0xbf58476d1ce4e5b9ull;
		r.correlation = i;
		analysis_log_record(l, 3, &r, NULL);
		if (i % 100 == 99)
			analysis_log_run(l, 3, i);
	}
}

static void what_is_pushed_is_in_the_file(void **unused)
{
	struct analysis_log *l;
	struct found f;

	assert_int_equal(analysis_log_open(&l, path, 100u << 20), 0);
	push(l, 0, 15000);
	analysis_log_tend(l, 1000000000);
	analysis_log_tend(l, 3000000000); /* what is there goes to the file */
	push(l, 15000, 10000);
	analysis_log_close(l);
	f = read_back();
	assert_int_equal(f.records, 25000);
	assert_int_equal(f.runs, 250);
	assert_true(f.in_order && f.ended);
	assert_int_equal(f.why, JOURNAL_END_CLEAN);
}

/* However fast the pusher is: what is there is a beginning without holes, and nothing is uncounted. */
static void a_full_file_ends_and_says_so(void **unused)
{
	struct analysis_log_stats st = {0};
	struct analysis_log *l;
	uint32_t pushed = 0;
	struct found f;

	assert_int_equal(analysis_log_open(&l, path, 300000), 0);
	while (!st.ended) {
		push(l, pushed, 1000);
		pushed += 1000;
		analysis_log_stats(l, &st);
	}
	push(l, pushed, 20000);
	pushed += 20000;
	/* every block is handed over or refused by now but the one that is being filled */
	analysis_log_stats(l, &st);
	assert_true(st.lost > 0);
	analysis_log_close(l);
	f = read_back();
	assert_true(f.in_order && f.ended);
	assert_true(f.why == JOURNAL_END_FULL || f.why == JOURNAL_END_BUSY);
	assert_true(f.bytes <= 300000);
	assert_true(f.records < pushed);
}

static void no_file_is_written_through_a_link(void **unused)
{
	struct analysis_log *l;
	char target[128];

	snprintf(target, sizeof(target), "%s/elsewhere", dir);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(analysis_log_open(&l, path, 300000), -ELOOP);
	assert_int_equal(access(target, F_OK), -1);
}

static void without_a_recording_nothing_happens(void **unused)
{
	struct analysis_log_stats st;

	push(NULL, 0, 100);
	analysis_log_tend(NULL, 1);
	analysis_log_stats(NULL, &st);
	assert_int_equal(st.lost, 0);
	analysis_log_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(what_is_pushed_is_in_the_file, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_full_file_ends_and_says_so, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_file_is_written_through_a_link, setup, teardown),
	    cmocka_unit_test(without_a_recording_nothing_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
