/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/daemon/loop.h"

struct fixture {
	struct loop *loop;
	struct loop_source *wake, *pipe_source, *other;
	int woken, readable, ticks, signalled, fds[2];
};

static void on_tick(void *arg, uint32_t n)
{
	struct fixture *f = arg;

	f->ticks += (int)n;
	if (f->ticks >= 3)
		loop_stop(f->loop);
}

static void on_wake(void *arg, uint32_t events)
{
	struct fixture *f = arg;

	f->woken++;
	loop_stop(f->loop);
}

static void on_signal(void *arg, uint32_t signum)
{
	struct fixture *f = arg;

	f->signalled = (int)signum;
	loop_stop(f->loop);
}

/* Closes itself and the source beside it, whose event sits in the same batch. */
static void on_readable(void *arg, uint32_t events)
{
	struct fixture *f = arg;

	f->readable++;
	loop_source_close(f->pipe_source);
	loop_source_close(f->other);
	loop_stop(f->loop);
}

static void *waker(void *arg)
{
	loop_wake(((struct fixture *)arg)->wake);
	return NULL;
}

static void timers_signals_and_wakeups_arrive(void **state)
{
	struct fixture f = {0};
	struct loop_source *timer;
	pthread_t t;

	assert_int_equal(loop_open(&f.loop), 0);
	assert_int_equal(loop_add_timer(f.loop, 1, 1, on_tick, &f, &timer), 0);
	assert_int_equal(loop_run(f.loop), 0);
	assert_true(f.ticks >= 3);
	loop_source_close(timer);
	assert_int_equal(loop_add_signal(f.loop, SIGUSR1, on_signal, &f, NULL), 0);
	raise(SIGUSR1);
	loop_run(f.loop);
	assert_int_equal(f.signalled, SIGUSR1);
	assert_int_equal(loop_add_wake(f.loop, on_wake, &f, &f.wake), 0);
	pthread_create(&t, NULL, waker, &f);
	loop_run(f.loop);
	pthread_join(t, NULL);
	assert_int_equal(f.woken, 1);
	loop_close(f.loop);
}

static void a_source_closed_in_the_same_batch_is_not_called(void **state)
{
	struct fixture f = {0};
	int second[2];

	assert_int_equal(pipe(f.fds), 0);
	assert_int_equal(pipe(second), 0);
	assert_int_equal(loop_open(&f.loop), 0);
	loop_add_fd(f.loop, f.fds[0], EPOLLIN, on_readable, &f, &f.pipe_source);
	loop_add_fd(f.loop, second[0], EPOLLIN, on_readable, &f, &f.other);
	assert_int_equal(write(f.fds[1], "x", 1), 1);
	assert_int_equal(write(second[1], "x", 1), 1);
	loop_run(f.loop);
	assert_int_equal(f.readable, 1);
	loop_close(f.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(timers_signals_and_wakeups_arrive),
	    cmocka_unit_test(a_source_closed_in_the_same_batch_is_not_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
