/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/watchdog.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int end_of(void (*child)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		close(STDERR_FILENO);
		child();
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void hang(void)
{
	watchdog_arm(1, 7);
	for (;;)
		pause();
}

static void hang_with_all_signals_blocked_before(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	watchdog_arm(1, 8);
	for (;;)
		pause();
}

static void arm_twice(void)
{
	watchdog_arm(600, 7);
	watchdog_arm(1, 0);
	for (;;)
		pause();
}

static void end_in_time(void)
{
	watchdog_arm(600, 7);
	_exit(3);
}

static void ends_a_process_that_hangs(void **state)
{
	assert_int_equal(end_of(hang), 7);
	assert_int_equal(end_of(hang_with_all_signals_blocked_before), 8);
}

static void the_newer_bound_holds(void **state)
{
	assert_int_equal(end_of(arm_twice), 0);
}

static void leaves_alone_who_ends_in_time(void **state)
{
	assert_int_equal(end_of(end_in_time), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(ends_a_process_that_hangs),
	    cmocka_unit_test(the_newer_bound_holds),
	    cmocka_unit_test(leaves_alone_who_ends_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
