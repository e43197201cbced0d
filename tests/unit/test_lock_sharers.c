/* SPDX-License-Identifier: Apache-2.0
 * Who is named as sharing a lock with a rank: those that waited longest for the locks of the place. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "sidecar/os/os_signals_private.h"

#define S   1000000000ull
#define NOW (100 * S)

static void used(struct os_signals *s, uint64_t lock, uint32_t pid, const char *comm, double ms,
		 uint64_t at_ns)
{
	uint32_t i = 0;

	while (s->uses[i].lock)
		i++;
	s->uses[i] = (struct os_lock_use){.lock = lock, .pid = pid, .ms = ms, .at_ns = at_ns};
	memcpy(s->uses[i].comm, comm, strlen(comm));
}

/* A rank that waits 200 ms/s at a place with two locks. */
static struct os_signals *waiting_at(uint32_t pid, const char *place)
{
	struct os_signals_options o = {.no_bpf = true};
	struct os_signals *s;

	assert_int_equal(os_signals_open(&s, &o, NOW), 0);
	assert_int_equal(os_signals_watch(s, pid, NOW), 0);
	os_series_advance(s->series, NOW + S);
	s->now_ns = NOW + S;
	assert_true(os_series_add(s->series, pid, OS_SIGNAL_LOCK_PLACE, 5, 200, place));
	s->places[3] = (struct os_lock_place){.root = pid, .stack = 5, .at_ns = NOW};
	s->places[3].lock[0] = 0x10;
	s->places[3].lock[1] = 0x20;
	return s;
}

static struct os_signals *waiting(uint32_t pid)
{
	return waiting_at(pid, "take in work");
}

static void expect(struct os_signals *s, uint32_t pid, const char *subject)
{
	struct os_signal list[32];
	uint32_t n = os_signals_window(s, pid, NOW, NOW + S, 10, false, list, 32);
	const char *got = "none";

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, "lock_place"))
			got = list[i].subject;
	assert_string_equal(got, subject);
}

static void names_the_two_that_wait_longest_in_all(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct os_signals *s = waiting(pid);

	used(s, 0x10, 700, "alpha", 30, NOW);
	used(s, 0x10, 800, "beta", 50, NOW);
	used(s, 0x20, 700, "alpha", 25, NOW); /* 55 ms with the other */
	used(s, 0x20, 900, "gamma", 10, NOW);
	used(s, 0x99, 901, "elsewhere", 500, NOW);
	used(s, 0x10, pid, "itself", 900, NOW);
	used(s, 0x10, 902, "long ago", 800, NOW - 70 * S);
	expect(s, pid, "take in work, which is shared with alpha (pid 700), beta (pid 800)");
	os_signals_close(s);
}

/* Threads that map memory all the time keep the step's thread from its own. */
static void its_own_threads_are_named(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct os_signals *s = waiting(pid);

	used(s, 0x10, pid, "python3", 900, NOW);
	used(s, 0x10, pid, "churn", 300, NOW);
	s->uses[1].tid = pid + 1;
	used(s, 0x10, pid, "churn", 300, NOW);
	s->uses[2].tid = pid + 2;
	used(s, 0x10, 700, "reader", 400, NOW);
	expect(s, pid, "take in work, which is shared with its thread churn, reader (pid 700)");
	os_signals_close(s);
}

static void nobody_else_is_nobody(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct os_signals *s = waiting(pid);

	used(s, 0x10, pid, "itself", 900, NOW);
	used(s, 0x20, 700, "idle", 0, NOW);
	expect(s, pid, "take in work");
	os_signals_close(s);
}

static void a_full_table_of_sharers_is_read_whole(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct os_signals *s = waiting(pid);

	for (uint32_t i = 0; i < OS_SHARERS; i++)
		used(s, i % 2 ? 0x10 : 0x20, 1000000 + i, "one",
		     i == 255	? 9
		     : i == 254 ? 8
				: 1,
		     NOW);
	expect(s, pid, "take in work, which is shared with one (pid 1000255), one (pid 1000254)");
	os_signals_close(s);
}

/* A number cut short would be another process's. */
static void a_name_without_room_is_left_out_whole(void **state)
{
	uint32_t pid = (uint32_t)getpid();
	struct os_signals *s = waiting_at(pid, "ext4_buffered_write_iter in vfs_write");

	used(s, 0x10, 1200700, "writer", 30, NOW);
	used(s, 0x10, 1200800, "another", 50, NOW);
	expect(s, pid,
	       "ext4_buffered_write_iter in vfs_write, which is shared with another (pid 1200800)");
	os_signals_close(s);
	s = waiting_at(pid, "a_function_of_the_kernel_with_a_long_name in another_one_of_its_kind");
	used(s, 0x10, 1200800, "another", 50, NOW);
	expect(s, pid,
	       "a_function_of_the_kernel_with_a_long_name in anothe, "
	       "which is shared with another (pid 1200800)");
	os_signals_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_the_two_that_wait_longest_in_all),
	    cmocka_unit_test(its_own_threads_are_named),
	    cmocka_unit_test(nobody_else_is_nobody),
	    cmocka_unit_test(a_name_without_room_is_left_out_whole),
	    cmocka_unit_test(a_full_table_of_sharers_is_read_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
