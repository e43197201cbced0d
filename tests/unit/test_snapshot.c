/* SPDX-License-Identifier: Apache-2.0
 * test_snapshot.c - recorded samples, unwound again by the sampler's own walk: the frames must be
 * those that libdw found when they were recorded. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/accuracy/snapshot.h"

#define FILE_BYTES_MAX (1u << 20)

static uint8_t bytes[FILE_BYTES_MAX];
static struct unwind_state walked;

static size_t load(const char *name)
{
	char path[512];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "tests/snapshots/%s", name);
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	return n;
}

static void replay(const char *name)
{
	struct snapshot s;

	assert_int_equal(snapshot_read(&s, bytes, load(name)), 0);
	assert_int_equal(snapshot_walk(&s, UNWIND_MODE_TABLE, &walked), 0);
	print_message("%s: %s, %u frames\n", name, s.name, s.frame_count);
	assert_int_equal(walked.count, s.frame_count);
	for (uint32_t i = 0; i < s.frame_count; i++)
		assert_int_equal(walked.frame[i] & UNWIND_FRAME_PC, s.frames[i]);
	assert_int_equal(walked.end, s.end);
	snapshot_fini(&s);
}

static void every_recorded_stack_is_found_again(void **state)
{
	DIR *d = opendir("tests/snapshots");
	struct dirent *e;
	int count = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		if (strstr(e->d_name, ".snap")) {
			replay(e->d_name);
			count++;
		}
	}
	closedir(d);
	assert_true(count >= 10);
}

static void frame_pointers_alone_do_not_find_them(void **state)
{
	struct snapshot s;

	assert_int_equal(snapshot_read(&s, bytes, load("frames.snap")), 0);
	assert_int_equal(snapshot_walk(&s, UNWIND_MODE_FP, &walked), 0);
	assert_true(walked.count < s.frame_count);
	snapshot_fini(&s);
}

static void code_without_tables_is_crossed_and_marked(void **state)
{
	struct snapshot s;

	assert_int_equal(snapshot_read(&s, bytes, load("fp_no_tables.snap")), 0);
	assert_int_equal(snapshot_walk(&s, UNWIND_MODE_TABLE, &walked), 0);
	assert_true(walked.by_fp > 10);
	for (uint32_t i = 2; i < 20; i++)
		assert_true(walked.frame[i] & (UNWIND_FRAME_FP | UNWIND_FRAME_SCANNED));
	snapshot_fini(&s);
}

/* The same code in a file that has a table, though with a row for 16 other bytes only: Go with a
 * few C functions linked in, V8's built-in code. */
static void code_without_rows_is_crossed_where_the_file_has_some(void **state)
{
	struct unwind_table_row rows[] = {{0, 1}, {16, 0}};
	struct unwind_rule rules[] = {{0},
				      {.cfa = UNWIND_CFA_REGISTER | UNWIND_RSP << 4, .offset = 8}};
	struct unwind_table t = {
	    .end = 16, .rows = rows, .rules = rules, .row_count = 2, .rule_count = 2};
	struct snapshot s;
	int changed = 0;

	assert_int_equal(snapshot_read(&s, bytes, load("fp_no_tables.snap")), 0);
	for (uint32_t i = 0; i < s.file_count; i++) {
		if (s.files[i].row_count)
			continue;
		unwind_table_fini(&s.files[i]);
		s.files[i] = t;
		changed++;
	}
	assert_int_equal(changed, 1);
	assert_int_equal(snapshot_walk(&s, UNWIND_MODE_TABLE, &walked), 0);
	assert_int_equal(walked.end, UNWIND_END_ROOT);
	assert_int_equal(walked.count, s.frame_count);
	for (uint32_t i = 0; i < s.frame_count; i++)
		assert_int_equal(walked.frame[i] & UNWIND_FRAME_PC, s.frames[i]);
	assert_true(walked.by_fp > 10);
	for (uint32_t i = 0; i < s.file_count; i++) {
		if (s.files[i].rows == rows)
			s.files[i] = (struct unwind_table){0}; /* not the snapshot's to free */
	}
	snapshot_fini(&s);
}

/* The kernel made the handler return to the trampoline, and interrupted at any instruction: besides the
 * leaf these two of each signal are named by the address itself, not by the byte before. */
static void no_call_is_before_a_trampoline(void **state)
{
	static const struct {
		const char *name;
		unsigned signals;
	} all[] = {{"signal.snap", 2}, {"runtime.snap", 1}};

	for (unsigned i = 0; i < 2; i++) {
		unsigned exact = 0;
		struct snapshot s;

		assert_int_equal(snapshot_read(&s, bytes, load(all[i].name)), 0);
		assert_int_equal(snapshot_walk(&s, UNWIND_MODE_TABLE, &walked), 0);
		for (uint32_t k = 0; k < walked.count; k++)
			exact += !(walked.frame[k] & UNWIND_FRAME_RETURN);
		assert_int_equal(exact, 1 + 2 * all[i].signals);
		snapshot_fini(&s);
	}
}

static bool has_rule_by(const struct snapshot *s, enum unwind_register number)
{
	for (uint32_t i = 0; i < s->file_count; i++) {
		for (uint32_t k = 0; k < s->files[i].rule_count; k++) {
			const struct unwind_rule *r = &s->files[i].rules[k];

			if (UNWIND_RULE_CFA(r) == UNWIND_CFA_REGISTER &&
			    UNWIND_RULE_REGISTER(r) == number)
				return true;
		}
	}
	return false;
}

/* A leaf whose frame is addressed by r10, and a caller whose frame is addressed by rbx, which its
 * callee has saved. */
static void frames_addressed_by_r10_and_rbx_need_them(void **state)
{
	struct snapshot s;

	assert_int_equal(snapshot_read(&s, bytes, load("registers_r10.snap")), 0);
	assert_true(has_rule_by(&s, UNWIND_R10));
	s.reg[UNWIND_R10] += 4096;
	assert_int_equal(snapshot_walk(&s, UNWIND_MODE_TABLE, &walked), 0);
	assert_true(walked.count < s.frame_count);
	snapshot_fini(&s);
	assert_int_equal(snapshot_read(&s, bytes, load("registers_rbx.snap")), 0);
	assert_true(has_rule_by(&s, UNWIND_RBX));
	snapshot_fini(&s);
}

static void unreadable_memory_ends_the_walk(void **state)
{
	struct snapshot s;
	uint32_t frames;

	assert_int_equal(snapshot_read(&s, bytes, load("python.snap")), 0);
	frames = s.frame_count;
	s.pieces[0].bytes /= 2; /* half of the stack */
	assert_int_equal(snapshot_walk(&s, UNWIND_MODE_TABLE, &walked), 0);
	assert_true(walked.count > 1 && walked.count < frames);
	assert_int_equal(walked.end, UNWIND_END_FAULT);
	snapshot_fini(&s);
}

static void damaged_files_are_refused(void **state)
{
	size_t n = load("frames.snap");
	uint64_t seed = 1;
	struct snapshot s;

	for (size_t i = 0; i < n; i += 13)
		assert_int_equal(snapshot_read(&s, bytes, i), -EPROTO);
	for (int i = 0; i < 5000; i++) {
		size_t at =
		    (size_t)((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >>
			     33) %
		    n;
		uint8_t was = bytes[at];

		bytes[at] = (uint8_t)(seed >> 24);
		if (!snapshot_read(&s, bytes,
				   n)) { /* whatever it says now, the walk comes to an end */
			snapshot_walk(&s, UNWIND_MODE_TABLE, &walked);
			assert_true(walked.count <= UNWIND_FRAME_MAX);
			snapshot_fini(&s);
		}
		bytes[at] = was;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_recorded_stack_is_found_again),
	    cmocka_unit_test(frame_pointers_alone_do_not_find_them),
	    cmocka_unit_test(code_without_tables_is_crossed_and_marked),
	    cmocka_unit_test(code_without_rows_is_crossed_where_the_file_has_some),
	    cmocka_unit_test(no_call_is_before_a_trampoline),
	    cmocka_unit_test(frames_addressed_by_r10_and_rbx_need_them),
	    cmocka_unit_test(unreadable_memory_ends_the_walk),
	    cmocka_unit_test(damaged_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
