/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "node/recorder.h"

#define MS 1000000ull

struct rig {
	char dir[64];
	struct recorder *r;
	struct recorder_config c;
};

static int setup(void **state)
{
	struct rig *g = calloc(1, sizeof(*g));

	strcpy(g->dir, "/tmp/test_recorder.XXXXXX");
	if (!mkdtemp(g->dir))
		return -1;
	g->c = (struct recorder_config){
	    .memory_bytes = 1 << 20, .file_bytes = 64 << 20, .dir = g->dir, .ranks_max = 4};
	*state = g;
	return recorder_open(&g->r, &g->c) || recorder_add_rank(g->r, 0, 100) ||
	       recorder_add_rank(g->r, 1, 101);
}

static int teardown(void **state)
{
	struct rig *g = *state;
	char command[128];

	recorder_close(g->r);
	snprintf(command, sizeof(command), "rm -rf %s", g->dir);
	free(g);
	return system(command);
}

/* Noise in the columns, so that blocks are large. */
static struct record record_of(uint64_t n, bool device)
{
	struct record r = {.begin_ns = (n + 1) * MS + hash_mix(n) % 1000,
			   .kind = device ? RECORD_KERNEL : RECORD_LAUNCH,
			   .bytes = hash_mix(n),
			   .key = hash_mix(n ^ 77),
			   .name = (uint32_t)(n % 50),
			   .peer = -1};

	r.end_ns = r.begin_ns + hash_mix(n) % 100000;
	r.launch_ns = device ? r.begin_ns - 5000 : 0;
	return r;
}

static void push(struct rig *g, uint32_t slot, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		struct record h = record_of(n, false), d = record_of(n, true);

		recorder_push(g->r, slot, &h);
		recorder_push(g->r, slot, &d);
	}
}

static void expect(struct rig *g, uint32_t slot, uint64_t from, uint64_t to)
{
	struct recorder_extract x;

	assert_int_equal(
	    recorder_extract(g->r, slot, (from + 1) * MS, to * MS + MS - 1, 1000000, &x), 0);
	assert_int_equal(x.host_count, to - from);
	assert_int_equal(x.device_count, to - from);
	assert_int_equal(x.until_ns, UINT64_MAX);
	for (uint64_t n = from; n < to; n++) {
		struct record h = record_of(n, false), d = record_of(n, true);

		assert_memory_equal(&x.host[n - from], &h, sizeof(h));
		assert_memory_equal(&x.device[n - from], &d, sizeof(d));
	}
	recorder_extract_free(&x);
}

static void gives_back_exactly_what_was_recorded(void **state)
{
	struct rig *g = *state;

	push(g, 0, 0, 10000);
	expect(g, 0, 0, 10000);
	expect(g, 0, 4000, 4500);
	expect(g, 0, 9990, 10000); /* still in the open block */
}

static void keeps_ranks_apart(void **state)
{
	struct rig *g = *state;

	push(g, 0, 0, 5000);
	push(g, 1, 5000, 10000);
	expect(g, 0, 0, 5000);
	expect(g, 0, 5000, 5000);
	expect(g, 1, 5000, 10000);
	/* Another rank in the same place does not see the old one's records. */
	recorder_drop_rank(g->r, 0);
	assert_int_equal(recorder_add_rank(g->r, 0, 200), 0);
	expect(g, 0, 0, 0);
	push(g, 0, 20000, 20010);
	expect(g, 0, 20000, 20010);
}

static void memory_falls_into_files_and_files_into_oblivion(void **state)
{
	struct rig *g = *state;
	struct recorder_stats st;
	struct recorder_extract x;

	push(g, 0, 0, 150000);
	recorder_stats(g->r, &st);
	assert_true(st.memory_bytes <= 1 << 20);
	assert_true(st.file_bytes > 0);
	expect(g, 0, 0, 20000); /* from files */
	for (uint64_t n = 150000; n < 2500000 && st.oldest_ns < 200000 * MS; n += 50000) {
		push(g, 0, n, n + 50000);
		recorder_stats(g->r, &st);
		assert_true(st.file_bytes <= 64 << 20);
	}
	assert_true(st.oldest_ns > MS); /* something was forgotten, and the status says so */
	assert_int_equal(st.lost_records, 0);
	assert_int_equal(recorder_extract(g->r, 0, 0, st.oldest_ns + MS, 10, &x), 0);
	assert_true(x.from_ns > MS && x.from_ns < st.oldest_ns);
	recorder_extract_free(&x);
}

static void works_in_memory_alone(void **state)
{
	struct rig *g = *state;
	struct recorder_stats st;

	recorder_close(g->r);
	g->c.file_bytes = 0;
	assert_int_equal(recorder_open(&g->r, &g->c), 0);
	assert_int_equal(recorder_add_rank(g->r, 0, 1), 0);
	push(g, 0, 0, 100000);
	recorder_stats(g->r, &st);
	assert_true(st.memory_bytes <= 1 << 20);
	assert_int_equal(st.file_bytes, 0);
	assert_true(st.oldest_ns > MS);
	expect(g, 0, 99000, 100000);
}

static void cuts_an_extract_at_its_bound_and_says_so(void **state)
{
	struct rig *g = *state;
	struct recorder_extract x;

	push(g, 0, 0, 10000);
	assert_int_equal(recorder_extract(g->r, 0, 0, UINT64_MAX, 500, &x), 0);
	assert_int_equal(x.host_count, 500);
	assert_int_equal(x.device_count, 500);
	assert_int_equal(x.from_ns, 0);
	assert_int_equal(x.until_ns, record_of(500, false).begin_ns);
	recorder_extract_free(&x);
}

static void removes_the_files_of_an_earlier_run(void **state)
{
	struct rig *g = *state;
	char path[128];

	recorder_close(g->r);
	snprintf(path, sizeof(path), "%s/rec-00000007.seg", g->dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(recorder_open(&g->r, &g->c), 0);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(recorder_add_rank(g->r, 0, 1), 0);
	push(g, 0, 0, 100);
	expect(g, 0, 0, 100);
}

static long page_faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

/* Four blocks at a time become full, as ranks of one job fill theirs. */
static void full_blocks_go_into_memory_that_is_there(void **state)
{
	struct rig *g = *state;
	const uint64_t rounds = 100, block = RECORDER_BLOCK_RECORDS;
	long before = 0, pages = (long)(block * sizeof(struct record) / 4096);

	for (uint64_t n = 0; n < rounds * block; n++) {
		struct record h = {.begin_ns = n + 1, .kind = RECORD_LAUNCH}, d = h;

		if (n == rounds / 2 * block)
			before = page_faults();
		d.kind = RECORD_KERNEL;
		for (uint32_t slot = 0; slot < 2; slot++) {
			recorder_push(g->r, slot, &h);
			recorder_push(g->r, slot, &d);
		}
	}
	assert_in_range(page_faults() - before, 0, 10 * pages);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(gives_back_exactly_what_was_recorded),
	    T(keeps_ranks_apart),
	    T(memory_falls_into_files_and_files_into_oblivion),
	    T(works_in_memory_alone),
	    T(cuts_an_extract_at_its_bound_and_says_so),
	    T(removes_the_files_of_an_earlier_run),
	    T(full_blocks_go_into_memory_that_is_there),
	};

	mallopt(M_MMAP_THRESHOLD, 128 << 10); /* sysomd's */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
