/* SPDX-License-Identifier: Apache-2.0
 * A window with known switches and samples, and the accounts that its steps must have. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/cause/excerpt.h"
#include "analysis/ledger/wait_class.h"
#include "base/check.h"
#include "base/keyed.h"

#define MS	 1000000ull
#define MAIN	 100u
#define BACKWARD 101u
#define HOG	 102u
#define STEPS	 4u

struct made {
	struct window w;
	struct window_step steps[STEPS];
	struct record device[2 * STEPS], host[2 * STEPS];
	char *names[2];
};

static uint32_t text(struct stack_batch *b, const char *s)
{
	uint32_t out;

	assert_int_equal(stack_batch_string(b, s, strlen(s), &out), 0);
	return out;
}

/* A stack of one kernel function, or none, below one Python function. */
static uint32_t stack(struct stack_batch *b, const char *kernel, const char *function)
{
	struct stack_frame f[2] = {{.kind = STACK_FRAME_KERNEL, .object = text(b, kernel)},
				   {.kind = STACK_FRAME_PYTHON,
				    .object = text(b, function),
				    .file = text(b, "/job/train.py"),
				    .line = 7}};
	uint32_t skip = !*kernel, out;

	assert_int_equal(stack_batch_stack(b, f + skip, 2 - skip, 1 - skip, STACK_END_ROOT, &out),
			 0);
	return out;
}

static void off(struct made *m, uint32_t tid, uint64_t out_ns, uint64_t in_ns,
		enum stack_switch_state state, uint64_t woken_ns, uint32_t stack, uint32_t waker)
{
	struct stack_switch s = {.out_ns = out_ns,
				 .in_ns = in_ns,
				 .woken_ns = woken_ns,
				 .pid = MAIN,
				 .tid = tid,
				 .stack = stack,
				 .waker_tid = waker,
				 .state = (uint8_t)state,
				 .count = 1,
				 .next_tid = state == STACK_SWITCH_RUNNABLE ? HOG : 0};

	assert_int_equal(stack_batch_switch(&m->w.stacks, &s), 0);
}

static void recorded(struct made *m, uint32_t tid, uint64_t begin_ns, uint64_t end_ns)
{
	struct stack_switch_thread t = {
	    .begin_ns = begin_ns, .end_ns = end_ns, .pid = MAIN, .tid = tid};

	assert_int_equal(stack_batch_switch_thread(&m->w.stacks, &t), 0);
}

static void on(struct made *m, uint32_t tid, uint64_t slice_ns, uint64_t weight_ns, uint32_t stack)
{
	struct stack_sample s = {.time_ns = slice_ns,
				 .weight_ns = weight_ns,
				 .pid = MAIN,
				 .tid = tid,
				 .stack = stack,
				 .count = 1,
				 .kind = STACK_ON_CPU,
				 .comm = tid == HOG ? text(&m->w.stacks, "hog") : 0};

	assert_int_equal(stack_batch_sample(&m->w.stacks, &s), 0);
}

/* Steps of 100 ms, one kernel of 40 ms at the end of each, launched 2 ms before it begins by
 * `thread`. */
static void make(struct made *m, uint32_t thread)
{
	static char empty[] = "", gemm[] = "gemm";

	memset(m, 0, sizeof(*m));
	m->names[0] = empty;
	m->names[1] = gemm;
	m->w = (struct window){.reason = WINDOW_SELF,
			       .steps = m->steps,
			       .step_count = STEPS,
			       .device = m->device,
			       .host = m->host,
			       .names = m->names,
			       .name_count = 2,
			       .end_ns = STEPS * 100 * MS};
	m->w.rank.pid = MAIN;
	stack_batch_init(&m->w.stacks, keyed_process());
	m->w.stacks.end_ns = m->w.end_ns;
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t end = (i + 1) * 100 * MS;

		m->steps[i].step = (struct step){.index = i,
						 .begin_ns = end - 100 * MS,
						 .end_ns = end,
						 .device_end_ns = end,
						 .latency_ns = 100 * MS,
						 .device_latency_ns = 100 * MS,
						 .kernels = 1};
		m->steps[i].flags = WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
		m->host[m->w.host_count++] = (struct record){.kind = RECORD_LAUNCH,
							     .thread = thread,
							     .begin_ns = end - 42 * MS,
							     .end_ns = end - 42 * MS + 1000};
		m->device[m->w.device_count++] = (struct record){.kind = RECORD_KERNEL,
								 .name = 1,
								 .launch_ns = end - 42 * MS,
								 .begin_ns = end - 40 * MS,
								 .end_ns = end,
								 .grid = {8, 1, 1},
								 .block = {256, 1, 1}};
	}
}

/* Per step. */
static struct stack_switch *last_switch(struct made *m)
{
	return &m->w.stacks.switches[m->w.stacks.switch_count - 1];
}

static double ms_of_what(const struct excerpt *p, enum ledger_kind kind, enum ledger_what what,
			 const char *name)
{
	const struct ledger *l = excerpt_ledger(p, 0, false);

	for (uint32_t i = 0; i < l->count; i++)
		if (l->account[i].kind == kind && l->account[i].what == what &&
		    !strcmp(ledger_name(l, &l->account[i]), name))
			return (double)l->account[i].ns / 1e6 / (double)l->steps;
	return 0;
}

static double ms_of(const struct excerpt *p, enum ledger_kind kind, const char *name)
{
	return ms_of_what(p, kind, LEDGER_NONE, name);
}

static struct excerpt *excerpt_of(struct made *m)
{
	struct excerpt *p = excerpt_make(&m->w, NULL, NULL);

	assert_non_null(p);
	assert_int_equal(excerpt_ledger(p, 0, false)->steps, STEPS);
	assert_int_equal(ledger_sum(excerpt_ledger(p, 0, false)), STEPS * 100 * MS);
	stack_batch_fini(&m->w.stacks);
	return p;
}

static int by_record_begin(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static void what_nobody_saw_is_unobserved(void **state)
{
	struct made m;
	struct excerpt *p;

	make(&m, MAIN);
	p = excerpt_of(&m);
	assert_true(ms_of(p, LEDGER_COMPUTE, "gemm<<<8,1,1, 256,1,1>>>") == 40);
	assert_true(ms_of(p, LEDGER_QUEUED, "") == 2);
	assert_true(ms_of(p, LEDGER_UNOBSERVED, "") == 58);
	excerpt_drop(p);
}

/* The window lacks their kernels: it must not look as though the GPU had idled. */
static void steps_without_all_their_records_are_in_no_account(void **state)
{
	struct made m;
	struct excerpt *p;

	make(&m, MAIN);
	for (uint32_t i = STEPS / 2; i < STEPS; i++) {
		m.steps[i].flags |= WINDOW_STEP_CUT;
		m.w.device_count--;
	}
	p = excerpt_make(&m.w, NULL, NULL);
	assert_non_null(p);
	assert_int_equal(excerpt_ledger(p, 0, false)->steps, STEPS / 2);
	assert_true(ms_of(p, LEDGER_COMPUTE, "gemm<<<8,1,1, 256,1,1>>>") == 40);
	stack_batch_fini(&m.w.stacks);
	excerpt_drop(p);
}

static void the_hosts_time_is_in_the_accounts_of_its_threads(void **state)
{
	uint32_t load, lock, work, fault;
	struct stack_batch *b;
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	b = &m.w.stacks;
	lock = stack(b, "futex_do_wait", "acquire");
	load = stack(b, "pipe_write", "log");
	work = stack(b, "", "augment");
	fault = stack(b, "exc_page_fault", "allocate");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t, t + 10 * MS, STACK_SWITCH_INTERRUPTIBLE, t + 9 * MS, lock, 0);
		off(&m, MAIN, t + 20 * MS, t + 25 * MS, STACK_SWITCH_RUNNABLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		off(&m, MAIN, t + 25 * MS, t + 38 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, load, 0);
		off(&m, MAIN, t + 99 * MS, t + 100 * MS, STACK_SWITCH_STOPPED, 0,
		    STACK_SWITCH_NO_STACK, 0);
		on(&m, MAIN, t, 3 * MS, work);
		on(&m, MAIN, t, 1 * MS, fault);
		on(&m, HOG, t, 1 * MS, work);
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_LOCK, "acquire (train.py)") == 9);
	assert_true(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_WOKEN, "futex") == 1);
	assert_true(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "hog") == 5);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_PIPE_WRITE, "log (train.py)") == 13);
	/* 10 to 20 ms and 38 to 58 ms on the CPU, three quarters of it in augment */
	assert_true(ms_of_what(p, LEDGER_RUNNING, LEDGER_PYTHON, "augment (train.py)") == 22.5);
	assert_true(ms_of_what(p, LEDGER_KERNEL_CODE, LEDGER_PAGE_FAULT, "allocate (train.py)") ==
		    7.5);
	assert_true(ms_of(p, LEDGER_UNOBSERVED, "") == 0);
	excerpt_drop(p);
}

/* Without launches, there is nothing of the GPU to know: the time is that of the thread that marks the
 * steps. With launches, their kernels are missing. */
static void steps_of_a_process_without_a_gpu_are_its_hosts(void **state)
{
	struct excerpt *p;
	struct made m;

	for (int launches = 0; launches < 2; launches++) {
		make(&m, BACKWARD);
		m.w.device_count = 0;
		for (uint32_t i = 0; i < STEPS; i++) {
			m.steps[i].step.device_end_ns = m.steps[i].step.kernels = 0;
			m.steps[i].step.device_latency_ns = 0;
			if (!launches)
				m.host[i].kind = RECORD_STEP_BEGIN;
		}
		recorded(&m, HOG, 0, STEPS * 100 * MS);
		recorded(&m, BACKWARD, 0, STEPS * 100 * MS);
		for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
			off(&m, BACKWARD, t, t + 70 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
			    stack(&m.w.stacks, "do_nanosleep", "wait"), 0);
		p = excerpt_make(&m.w, NULL, NULL);
		assert_non_null(p);
		assert_int_equal(excerpt_ledger(p, 0, false)->steps, launches ? 0 : STEPS);
		if (!launches)
			assert_true(
			    ms_of_what(p, LEDGER_BLOCKED, LEDGER_SLEEP, "wait (train.py)") == 70);
		stack_batch_fini(&m.w.stacks);
		excerpt_drop(p);
	}
}

/* What was sampled in a function whose name could not be read is its caller's. */
static void a_function_without_a_name_gives_none(void **state)
{
	struct stack_frame f[2] = {{.kind = STACK_FRAME_PYTHON}, {.kind = STACK_FRAME_PYTHON}};
	struct excerpt *p;
	struct made m;
	uint32_t work;

	make(&m, MAIN);
	f[0].object = text(&m.w.stacks, STACK_NO_NAME);
	f[1].object = text(&m.w.stacks, "augment");
	f[1].file = text(&m.w.stacks, "/job/train.py");
	assert_int_equal(stack_batch_stack(&m.w.stacks, f, 2, 0, STACK_END_ROOT, &work), 0);
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
		on(&m, MAIN, t, 4 * MS, work);
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_RUNNING, LEDGER_PYTHON, "augment (train.py)") == 58);
	for (uint32_t i = 0; i < p->slow.rank.function_count; i++)
		assert_string_not_equal(p->slow.rank.function[i].name, STACK_NO_NAME);
	excerpt_drop(p);
}

/* autograd's thread launches, and sleeps until main has read its batch and calls it. */
static void a_launching_thread_that_waits_for_another_is_followed(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t wait, read;

	make(&m, BACKWARD);
	wait = stack(&m.w.stacks, "futex_do_wait", "wait");
	read = stack(&m.w.stacks, "ksys_read", "load");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	recorded(&m, BACKWARD, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, BACKWARD, t, t + 58 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, wait, MAIN);
		off(&m, MAIN, t, t + 57 * MS, STACK_SWITCH_UNINTERRUPTIBLE, 0, read, 0);
		off(&m, MAIN, t + 58 * MS, t + 100 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, wait,
		    BACKWARD);
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_FILE_READ, "load (train.py)") == 57);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_LOCK, "wait (train.py)") == 0);
	excerpt_drop(p);
}

/* A coroutine waits in epoll until a thread of its process, whose switches are not recorded, has waited for
 * a child process. In the second half that thread was blocked for less than half of the time. */
static void a_wait_is_for_what_its_waker_waited_for(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t poll, child;

	make(&m, MAIN);
	poll = stack(&m.w.stacks, "do_epoll_wait", "select");
	child = stack(&m.w.stacks, "__do_sys_wait4", "wait_pid");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t t = i * 100 * MS;

		off(&m, MAIN, t + 10 * MS, t + 50 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, poll,
		    HOG + 1 + i);
		on(&m, HOG + 1 + i, t, (i < STEPS / 2 ? 39 : 19) * MS, child);
		m.w.stacks.samples[m.w.stacks.sample_count - 1].kind = STACK_OFF_CPU;
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_CHILD, "select (train.py)") == 20);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_LOCK, "select (train.py)") == 20);
	excerpt_drop(p);
}

/* Of the first step 10 ms are folded, 20 ms were not recorded, and a record lies within another
 * one. */
static void what_was_not_recorded_is_unobserved_and_disorder_harms_nobody(void **state)
{
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	recorded(&m, MAIN, 20 * MS, 100 * MS);
	off(&m, MAIN, 20 * MS, 30 * MS, STACK_SWITCH_RUNNABLE, 0, STACK_SWITCH_NO_STACK, 0);
	m.w.stacks.switches[0].flags = STACK_SWITCH_FOLDED;
	off(&m, MAIN, 35 * MS, 45 * MS, STACK_SWITCH_RUNNABLE, 0, STACK_SWITCH_NO_STACK, 0);
	off(&m, MAIN, 36 * MS, 40 * MS, STACK_SWITCH_STOPPED, 0, STACK_SWITCH_NO_STACK, 0);
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "") == 10.0 / STEPS);
	assert_true(ms_of(p, LEDGER_RUNNING, "") == 18.0 / STEPS);
	assert_true(ms_of(p, LEDGER_STOPPED, "") == 0);
	assert_true(ms_of(p, LEDGER_UNOBSERVED, "") == 58 - 28.0 / STEPS);
	excerpt_drop(p);
}

/* The process is killed at 250 ms, in a sleep that began 20 ms before; the sleep before it ends before it
 * began: somebody set the clock, or lies. */
static void a_rank_that_dies_in_a_sleep_is_unobserved_from_then_on(void **state)
{
	struct stack_switch back = {.out_ns = 120 * MS,
				    .in_ns = 110 * MS,
				    .pid = MAIN,
				    .tid = MAIN,
				    .count = 1,
				    .stack = STACK_SWITCH_NO_STACK,
				    .state = STACK_SWITCH_INTERRUPTIBLE};
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	recorded(&m, MAIN, 0, 250 * MS);
	assert_int_equal(stack_batch_switch(&m.w.stacks, &back), 0);
	off(&m, MAIN, 230 * MS, 250 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, STACK_SWITCH_NO_STACK, 0);
	last_switch(&m)->flags = STACK_SWITCH_OPEN;
	p = excerpt_of(&m);
	assert_true(ms_of(p, LEDGER_BLOCKED, "") == 20.0 / STEPS);
	assert_true(ms_of(p, LEDGER_RUNNING, "") == (58 + 58 + 30.0) / STEPS);
	assert_true(ms_of(p, LEDGER_UNOBSERVED, "") == (8 + 58.0) / STEPS);
	excerpt_drop(p);
}

/* The second and third read are not walked: they are of the place where the thread slept before. */
static void a_sleep_without_a_stack_is_like_the_one_before(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t read;

	make(&m, MAIN);
	read = stack(&m.w.stacks, "ksys_read", "load");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
		for (uint32_t k = 0; k < 3; k++)
			off(&m, MAIN, t + 10 * k * MS, t + (10 * k + 5) * MS,
			    STACK_SWITCH_UNINTERRUPTIBLE, 0, t || k ? STACK_SWITCH_NO_STACK : read,
			    0);
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_FILE_READ, "load (train.py)") == 15);
	excerpt_drop(p);
}

/* Every launch waits for its kernel; how the driver waits says nothing. A read is no such wait, and
 * neither is a sleep after the call. */
static void a_wait_in_a_call_of_the_driver_is_the_drivers(void **state)
{
	struct excerpt *p;
	struct made m;
	struct stack_switch *folded;
	uint32_t nap, read;

	make(&m, MAIN);
	nap = stack(&m.w.stacks, "do_nanosleep", "forward");
	read = stack(&m.w.stacks, "ksys_read", "load_module");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		m.host[m.w.host_count++] = (struct record){.kind = RECORD_SYNC,
							   .thread = MAIN,
							   .begin_ns = t + 10 * MS,
							   .end_ns = t + 30 * MS};
		off(&m, MAIN, t + 11 * MS, t + 16 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, nap, 0);
		off(&m, MAIN, t + 17 * MS, t + 20 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, read, 0);
		off(&m, MAIN, t + 20 * MS, t + 21 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, nap, 0);
		off(&m, MAIN, t + 22 * MS, t + 28 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		folded = &m.w.stacks.switches[m.w.stacks.switch_count - 1];
		folded->flags = STACK_SWITCH_FOLDED;
		folded->count = 2;
		folded->ns[STACK_SWITCH_INTERRUPTIBLE] = 4 * MS;
		folded->ns[STACK_SWITCH_WOKEN] = 2 * MS;
		off(&m, MAIN, t + 31 * MS, t + 38 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, nap, 0);
	}
	qsort(m.host, m.w.host_count, sizeof(*m.host), by_record_begin);
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_DRIVER, "") == 5 + 1 + 4);
	assert_true(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_WOKEN, "CUDA driver") == 2);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_FILE_READ, "load_module (train.py)") == 3);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_SLEEP, "forward (train.py)") == 7);
	excerpt_drop(p);
}

/* The driver allocates memory while another thread holds the heap. Then it waits for a lock of its own,
 * whose holder, a thread of the driver's, waits for the heap. */
static void a_lock_of_the_heap_is_not_the_drivers(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t heap, futex;

	make(&m, MAIN);
	heap = stack(&m.w.stacks, "futex_do_wait", "__lll_lock_wait_private");
	futex = stack(&m.w.stacks, "futex_do_wait", "synchronize");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t t = i * 100 * MS;

		m.host[m.w.host_count++] = (struct record){.kind = RECORD_SYNC,
							   .thread = MAIN,
							   .begin_ns = t + 10 * MS,
							   .end_ns = t + 40 * MS};
		off(&m, MAIN, t + 11 * MS, t + 14 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, heap, 0);
		off(&m, MAIN, t + 15 * MS, t + 20 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, futex,
		    HOG + 1);
		off(&m, MAIN, t + 21 * MS, t + 28 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, futex,
		    HOG + 2);
		on(&m, HOG + 1, t, 5 * MS, heap);
		m.w.stacks.samples[m.w.stacks.sample_count - 1].kind = STACK_OFF_CPU;
		on(&m, HOG + 2, t, 7 * MS, futex);
		m.w.stacks.samples[m.w.stacks.sample_count - 1].kind = STACK_OFF_CPU;
	}
	qsort(m.host, m.w.host_count, sizeof(*m.host), by_record_begin);
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_LIBC_LOCK,
			       "__lll_lock_wait_private (train.py)") == 3);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_LIBC_LOCK, "synchronize (train.py)") == 5);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_DRIVER, "") == 7);
	excerpt_drop(p);
}

/* An event loop: in each step it waits out two timeouts, of the second without a stack, and then for a
 * peer; its helper's timeouts are one wait for peers. And a peer that does not answer in time. */
static void a_poll_is_a_wait_for_what_ended_it(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t poll, wait, lookup;

	make(&m, MAIN);
	poll = stack(&m.w.stacks, "do_epoll_wait", "select");
	lookup = stack(&m.w.stacks, "do_sys_poll", "getaddrinfo");
	wait = stack(&m.w.stacks, "futex_do_wait", "all_reduce");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	recorded(&m, BACKWARD, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t, t + 10 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, poll,
		    STACK_WAKER_TIMER);
		off(&m, MAIN, t + 12 * MS, t + 16 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, STACK_WAKER_TIMER);
		off(&m, MAIN, t + 20 * MS, t + 27 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		off(&m, MAIN, t + 30 * MS, t + 50 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, wait,
		    BACKWARD);
		off(&m, MAIN, t + 51 * MS, t + 55 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, lookup,
		    STACK_WAKER_TIMER);
		off(&m, BACKWARD, t + 30 * MS, t + 40 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, poll,
		    STACK_WAKER_TIMER);
		off(&m, BACKWARD, t + 40 * MS, t + 50 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, poll, 0);
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_SLEEP, "select (train.py)") == 14);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_POLL, "select (train.py)") == 27);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_POLL, "getaddrinfo (train.py)") == 4);
	excerpt_drop(p);
}

/* In each step a read, and then 40 ms of more such reads and waits for a CPU that share one record. */
static void folded_times_are_divided_by_their_states(void **state)
{
	struct excerpt *p;
	struct stack_switch *s;
	struct made m;
	uint32_t read;

	make(&m, MAIN);
	read = stack(&m.w.stacks, "ksys_read", "load");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t, t + 5 * MS, STACK_SWITCH_UNINTERRUPTIBLE, 0, read, 0);
		off(&m, MAIN, t + 10 * MS, t + 50 * MS, STACK_SWITCH_UNINTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		s = &m.w.stacks.switches[m.w.stacks.switch_count - 1];
		s->flags = STACK_SWITCH_FOLDED;
		s->count = 30;
		s->ns[STACK_SWITCH_UNINTERRUPTIBLE] = 24 * MS;
		s->ns[STACK_SWITCH_WOKEN] = 4 * MS;
		s->ns[STACK_SWITCH_RUNNABLE] = 2 * MS;
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_FILE_READ, "load (train.py)") == 5 + 24);
	assert_true(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_WOKEN, "file read") == 4);
	assert_true(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "") == 2);
	assert_true(ms_of(p, LEDGER_RUNNING, "") == 5 + 10 + 8);
	assert_true(ms_of(p, LEDGER_UNOBSERVED, "") == 0);
	excerpt_drop(p);
}

/* 38 ms on the CPU, of which 18 ms are in slices in which only another thread was sampled. */
static void the_nearest_samples_speak_where_a_slice_has_none(void **state)
{
	uint32_t prepare, load;
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	prepare = stack(&m.w.stacks, "", "prepare");
	load = stack(&m.w.stacks, "", "load");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t + 38 * MS, t + 100 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		on(&m, MAIN, t, 10 * MS, prepare);
		on(&m, MAIN + 1, t + 10 * MS, 10 * MS, prepare);
		on(&m, MAIN, t + 20 * MS, 10 * MS, load);
		on(&m, MAIN + 1, t + 30 * MS, 10 * MS, prepare);
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_RUNNING, LEDGER_PYTHON, "prepare (train.py)") == 10);
	assert_true(ms_of_what(p, LEDGER_RUNNING, LEDGER_PYTHON, "load (train.py)") == 28);
	assert_true(ms_of(p, LEDGER_RUNNING, "") == 0);
	excerpt_drop(p);
}

/* In each step 38 ms on the CPU, of which 8 ms were soft interrupts and 2 ms the hypervisor's; a sample
 * in an interrupt says nothing beside that. Then 20 ms of waiting for a CPU: 15 ms because of the group's
 * limit. */
static void what_was_taken_is_in_accounts_of_its_own(void **state)
{
	uint32_t work, interrupt;
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	work = stack(&m.w.stacks, "", "augment");
	interrupt = stack(&m.w.stacks, "net_rx_action", "augment");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	off(&m, MAIN, 0, 1, STACK_SWITCH_RUNNABLE, 0, STACK_SWITCH_NO_STACK, 0);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t + 38 * MS, t + 58 * MS, STACK_SWITCH_RUNNABLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		last_switch(&m)->flags = STACK_SWITCH_COUNTED;
		last_switch(&m)->taken_ns[STACK_TAKEN_NET_RX] = 8 * MS;
		last_switch(&m)->taken_ns[STACK_TAKEN_STEAL] = 2 * MS;
		last_switch(&m)->taken_ns[STACK_TAKEN_THROTTLED] = 15 * MS;
		off(&m, MAIN, t + 58 * MS, t + 100 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		last_switch(&m)->flags = STACK_SWITCH_COUNTED;
		on(&m, MAIN, t, 1 * MS, work);
		on(&m, MAIN, t, 3 * MS, interrupt);
	}
	p = excerpt_of(&m);
	assert_true(fabs(ms_of_what(p, LEDGER_STOLEN, LEDGER_NET_RX, "") - 8) < 1e-3);
	assert_true(fabs(ms_of_what(p, LEDGER_STOLEN, LEDGER_STEAL, "") - 2) < 1e-3);
	assert_true(fabs(ms_of_what(p, LEDGER_RUNNING, LEDGER_PYTHON, "augment (train.py)") - 28) <
		    1e-3);
	assert_true(fabs(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_THROTTLED, "") - 15) < 1e-3);
	assert_true(fabs(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_PREEMPTED, "") - 5) < 1e-3);
	excerpt_drop(p);
}

/* More than there was is cut to it, and the accounts still add up (excerpt_of). */
static void absurd_takings_take_no_more_than_the_time(void **state)
{
	struct os_signal touch;
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	os_signal_make(&touch, OS_SIGNAL_FIRST_TOUCH, "", 9000, -1, 100);
	m.w.signals = &touch;
	m.w.signal_count = 1;
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	off(&m, MAIN, 0, 1, STACK_SWITCH_RUNNABLE, 0, STACK_SWITCH_NO_STACK, 0);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t + 38 * MS, t + 58 * MS, STACK_SWITCH_RUNNABLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
		if (t == 100 * MS)
			last_switch(&m)->flags = STACK_SWITCH_FOLDED;
		last_switch(&m)->flags |= STACK_SWITCH_COUNTED;
		last_switch(&m)->ns[STACK_SWITCH_RUNNABLE] = 20 * MS;
		for (int k = 0; k < STACK_TAKEN_KINDS; k++)
			last_switch(&m)->taken_ns[k] = UINT32_MAX;
		last_switch(&m)->faults = UINT32_MAX;
	}
	p = excerpt_of(&m);
	assert_true(fabs(ms_of_what(p, LEDGER_RUNNABLE, LEDGER_THROTTLED, "") - 20) < 1e-3);
	excerpt_drop(p);
}

/* A frame of a library that is resolved as its address says; 0: the Python function that calls it. */
static struct stack_frame frame_of(struct stack_batch *b, const char *path, uint64_t address)
{
	struct stack_frame f = {.kind = STACK_FRAME_NATIVE, .address = address};

	if (!path)
		return (struct stack_frame){.kind = STACK_FRAME_PYTHON,
					    .object = text(b, "load"),
					    .file = text(b, "/job/train.py"),
					    .line = (uint32_t)address};
	if (!*path)
		return (struct stack_frame){.kind = STACK_FRAME_ANONYMOUS};
	assert_int_equal(
	    stack_batch_object(b, (const uint8_t *)path, strlen(path), path, &f.object), 0);
	return f;
}

static bool name_by_address(void *arg, const uint8_t *build_id, size_t build_id_bytes,
			    uint64_t address, char *out, size_t out_bytes)
{
	static const char *const names[] = {"",
					    "lzma_decode",
					    "lzma_code",
					    "decompress",
					    "memcpy",
					    "vectorcall",
					    "",
					    "",
					    "",
					    "",
					    "gloo::transport::tcp::UnboundBuffer::waitRecv(int*)",
					    "c10d::ProcessGroupGloo::RecvWork::wait()",
					    "gloo::allreduce()"};

	(void)arg;
	(void)build_id;
	(void)build_id_bytes;
	snprintf(out, out_bytes, "%s", address < ARRAY_LEN(names) ? names[address] : "");
	return *out;
}

#define PYTHON_EXE "/usr/bin/python3.11"
#define LZMA	   "/lib/liblzma.so.5"
#define GLOO	   "/lib/libgloo.so.0.5.0"

/* 1,000 page faults a step in load(), or in a library that it calls; the hypervisor maps a page at its
 * first touch, in 10 us. */
static void first_touches_are_of_the_function_that_has_the_faults(void **state)
{
	static const char *const names[] = {"load (train.py)",
					    "[liblzma.so.5] at line 7 of load (train.py)"};
	uint32_t work, user, fault;
	struct os_signal touch;
	struct excerpt *p;
	struct made m;

	for (int library = 0; library < 2; library++) {
		make(&m, MAIN);
		os_signal_make(&touch, OS_SIGNAL_FIRST_TOUCH, "", 10, -1, 100);
		m.w.signals = &touch;
		m.w.signal_count = 1;
		work = stack(&m.w.stacks, "", "augment");
		const struct stack_frame f[] = {frame_of(&m.w.stacks, LZMA, 9),
						frame_of(&m.w.stacks, NULL, 7),
						frame_of(&m.w.stacks, PYTHON_EXE, 5)};

		assert_int_equal(stack_batch_stack(&m.w.stacks, f + !library, 3 - !library, 0,
						   STACK_END_ROOT, &user),
				 0);
		fault = stack(&m.w.stacks, "exc_page_fault", "load");
		recorded(&m, MAIN, 0, STEPS * 100 * MS);
		off(&m, MAIN, 0, 1, STACK_SWITCH_RUNNABLE, 0, STACK_SWITCH_NO_STACK, 0);
		for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
			off(&m, MAIN, t + 40 * MS, t + 100 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
			    STACK_SWITCH_NO_STACK, 0);
			last_switch(&m)->flags = STACK_SWITCH_COUNTED;
			last_switch(&m)->faults = 1000;
			on(&m, MAIN, t, 1 * MS, work);
			on(&m, MAIN, t, 2 * MS, user);
			on(&m, MAIN, t, 1 * MS, fault);
		}
		p = excerpt_of(&m);
		assert_true(
		    fabs(ms_of_what(p, LEDGER_RUNNING, LEDGER_PYTHON, "augment (train.py)") - 10) <
		    1e-3);
		assert_true(fabs(ms_of_what(p, LEDGER_RUNNING,
					    library ? LEDGER_NONE : LEDGER_PYTHON, names[library]) -
				 10) < 1e-3);
		assert_true(fabs(ms_of_what(p, LEDGER_STOLEN, LEDGER_FIRST_TOUCH, names[library]) -
				 10) < 1e-3);
		assert_true(
		    fabs(ms_of_what(p, LEDGER_KERNEL_CODE, LEDGER_PAGE_FAULT, "load (train.py)") -
			 10) < 1e-3);
		excerpt_drop(p);
	}
}

/* Short sleeps are not walked: of those for storage the kernel says so itself. */
static void a_sleep_for_storage_needs_no_stack(void **state)
{
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
		off(&m, MAIN, t, t + 5 * MS, STACK_SWITCH_IO, 0, STACK_SWITCH_NO_STACK, 0);
		off(&m, MAIN, t + 10 * MS, t + 13 * MS, STACK_SWITCH_UNINTERRUPTIBLE, 0,
		    STACK_SWITCH_NO_STACK, 0);
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_STORAGE, "") == 5);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_NONE, "") == 3);
	excerpt_drop(p);
}

/* Condition.wait of the standard library, called by a package of the user's, called by the script. */
static void a_wait_is_named_by_the_users_code(void **state)
{
	static const char *const packages[] = {"/usr/local/lib/python3.11/dist-packages/pool.py",
					       "/opt/env/lib/python3.11/site-packages/pool.py",
					       "/job/pool.py"};

	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		struct excerpt *p;
		struct made m;
		uint32_t wait;

		make(&m, MAIN);
		recorded(&m, MAIN, 0, STEPS * 100 * MS);
		const struct stack_frame f[] = {
		    {.kind = STACK_FRAME_KERNEL, .object = text(&m.w.stacks, "futex_do_wait")},
		    {.kind = STACK_FRAME_PYTHON,
		     .object = text(&m.w.stacks, "Condition.wait"),
		     .file = text(&m.w.stacks, "/usr/lib/python3.11/threading.py")},
		    {.kind = STACK_FRAME_PYTHON,
		     .object = text(&m.w.stacks, "Pool.compress"),
		     .file = text(&m.w.stacks, packages[i])},
		    {.kind = STACK_FRAME_PYTHON,
		     .object = text(&m.w.stacks, "main"),
		     .file = text(&m.w.stacks, "/job/train.py")}};

		assert_int_equal(stack_batch_stack(&m.w.stacks, f, 4, 1, STACK_END_ROOT, &wait), 0);
		for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
			off(&m, MAIN, t, t + 30 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, wait, 0);
		p = excerpt_of(&m);
		assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_LOCK, "Pool.compress (pool.py)") ==
			    30);
		excerpt_drop(p);
	}
}

/* A marked step without values has the launches that we count as its work, and more of them may be
 * the fault. */
static void only_the_jobs_own_figures_state_the_work(void **state)
{
	for (unsigned stated = 0; stated < 2; stated++) {
		struct excerpt *p;
		struct made m;

		make(&m, MAIN);
		for (uint32_t i = 0; i < STEPS; i++) {
			struct step *s = &m.steps[i].step;

			s->source = STEP_SOURCE_EXPLICIT;
			s->work_count = STEP_WORK_MAX;
			s->flags = stated ? STEP_FLAG_STATED : 0;
			m.steps[i].expected_ns = 50 * MS;
		}
		p = excerpt_of(&m);
		assert_int_equal(ledger_is_stated(excerpt_ledger(p, 0, false)), stated);
		excerpt_drop(p);
	}
}

/* A logger's rotation compresses, and so does a script: only the caller says what compression is for. */
static void what_compression_is_for_is_up_to_its_caller(void **state)
{
	static const struct {
		const char *caller;
		enum ledger_what what;
		const char *name;
	} of[] = {{"RotatingFileHandler.doRollover", LEDGER_LOGGING,
		   "RotatingFileHandler.doRollover (train.py)"},
		  {"DataLoader.next_batch", LEDGER_LOADER, "DataLoader.next_batch (train.py)"},
		  {"main", LEDGER_PYTHON, "GzipFile.write (train.py)"}};

	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		struct excerpt *p;
		struct made m;
		uint32_t at;

		make(&m, MAIN);
		recorded(&m, MAIN, 0, STEPS * 100 * MS);
		const struct stack_frame f[] = {{.kind = STACK_FRAME_PYTHON,
						 .object = text(&m.w.stacks, "GzipFile.write"),
						 .file = text(&m.w.stacks, "/job/train.py")},
						{.kind = STACK_FRAME_PYTHON,
						 .object = text(&m.w.stacks, of[i].caller),
						 .file = text(&m.w.stacks, "/job/train.py")}};

		assert_int_equal(stack_batch_stack(&m.w.stacks, f, 2, 0, STACK_END_ROOT, &at), 0);
		for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS) {
			off(&m, MAIN, t + 30 * MS, t + 100 * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
			    STACK_SWITCH_NO_STACK, 0);
			on(&m, MAIN, t, 10 * MS, at);
		}
		p = excerpt_of(&m);
		assert_true(ms_of_what(p, LEDGER_RUNNING, of[i].what, of[i].name) == 30);
		excerpt_drop(p);
	}
}

/* Where a sample's innermost code is decides whether the interpreter runs, or which library. */
static void code_of_a_library_is_not_the_interpreters(void **state)
{
	static const struct {
		struct {
			const char *path; /* NULL: Python, at this line */
			uint64_t address;
		} frame[6];
		uint32_t count;
		enum ledger_what what;
		const char *name;
	} of[] = {
	    /* entered by lzma_code */
	    {{{LZMA, 1},
	      {LZMA, 2},
	      {"/m/_lzma.so", 3},
	      {PYTHON_EXE, 5},
	      {NULL, 7},
	      {PYTHON_EXE, 5}},
	     6,
	     LEDGER_NONE,
	     "lzma_code (liblzma.so.5) at line 7 of load (train.py)"},
	    /* the specialised call of the interpreter leaves no frame of it */
	    {{{LZMA, 1}, {"/m/_lzma.so", 3}, {NULL, 7}, {PYTHON_EXE, 5}},
	     4,
	     LEDGER_NONE,
	     "lzma_decode (liblzma.so.5) at line 7 of load (train.py)"},
	    {{{"/lib/libc.so.6", 4}, {LZMA, 2}, {PYTHON_EXE, 5}, {NULL, 0}, {PYTHON_EXE, 5}},
	     5,
	     LEDGER_NONE,
	     "lzma_code (liblzma.so.5) of load (train.py)"},
	    {{{LZMA, 9}, {NULL, 7}, {PYTHON_EXE, 5}},
	     3,
	     LEDGER_NONE,
	     "[liblzma.so.5] at line 7 of load (train.py)"},
	    /* a callback of the library runs Python */
	    {{{NULL, 7}, {PYTHON_EXE, 5}, {LZMA, 2}, {PYTHON_EXE, 5}, {NULL, 8}, {PYTHON_EXE, 5}},
	     6,
	     LEDGER_PYTHON,
	     "load (train.py)"},
	    {{{PYTHON_EXE, 5}, {NULL, 7}, {PYTHON_EXE, 5}}, 3, LEDGER_PYTHON, "load (train.py)"},
	    {{{"/lib/libc.so.6", 4}, {PYTHON_EXE, 5}, {NULL, 7}, {PYTHON_EXE, 5}},
	     4,
	     LEDGER_PYTHON,
	     "load (train.py)"},
	    {{{"", 0}, {PYTHON_EXE, 5}, {NULL, 7}, {PYTHON_EXE, 5}},
	     4,
	     LEDGER_PYTHON,
	     "load (train.py)"},
	    /* cut off: which of the objects is the interpreter is not known */
	    {{{LZMA, 1}, {PYTHON_EXE, 5}, {NULL, 7}}, 3, LEDGER_PYTHON, "load (train.py)"},
	    {{{LZMA, 1}, {"/bin/train", 3}}, 2, LEDGER_NONE, "lzma_decode"},
	    /* a thread of gloo's own, before its symbols are known */
	    {{{GLOO, 9}}, 1, LEDGER_HOST_COLLECTIVE, "[libgloo.so.0.5.0]"},
	    /* a message between two ranks uses the same functions as a collective */
	    {{{GLOO, 10}, {GLOO, 12}},
	     2,
	     LEDGER_HOST_COLLECTIVE,
	     "gloo::transport::tcp::UnboundBuffer::waitRecv(int*)"},
	    {{{GLOO, 10}, {"/lib/libtorch_cpu.so", 11}},
	     2,
	     LEDGER_HOST_MESSAGE,
	     "c10d::ProcessGroupGloo::RecvWork::wait()"},
	    {{{GLOO, 9}, {"/lib/libtorch_cpu.so", 11}},
	     2,
	     LEDGER_HOST_MESSAGE,
	     "c10d::ProcessGroupGloo::RecvWork::wait()"},
	};

	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		struct stack_frame f[6];
		uint32_t at;
		struct excerpt *p;
		struct made m;

		make(&m, MAIN);
		recorded(&m, MAIN, 0, STEPS * 100 * MS);
		for (uint32_t n = 0; n < of[i].count; n++)
			f[n] = frame_of(&m.w.stacks, of[i].frame[n].path, of[i].frame[n].address);
		assert_int_equal(
		    stack_batch_stack(&m.w.stacks, f, of[i].count, 0, STACK_END_ROOT, &at), 0);
		for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
			on(&m, MAIN, t, 10 * MS, at);
		p = excerpt_make(&m.w, name_by_address, NULL);
		assert_non_null(p);
		if (ms_of_what(p, LEDGER_RUNNING, of[i].what, of[i].name) != 58)
			fail_msg("case %zu: not %s", i, of[i].name);
		stack_batch_fini(&m.w.stacks);
		excerpt_drop(p);
	}
}

/* A futex says how a collective of the host waits; its function says what for. */
static void a_collective_of_the_host_is_a_wait_for_peers(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t wait;

	make(&m, MAIN);
	wait = stack(&m.w.stacks, "futex_do_wait", "all_reduce");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
		off(&m, MAIN, t, t + 30 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, wait, 0);
	p = excerpt_of(&m);
	assert_true(
	    ms_of_what(p, LEDGER_BLOCKED, LEDGER_HOST_COLLECTIVE, "all_reduce (train.py)") == 30);
	excerpt_drop(p);
}

static void special_waits_stand_before_general_ones(void **state)
{
	static const struct {
		const char *frames[3];
		enum ledger_what what;
	} cases[] = {
	    {{"folio_wait_bit", "file_write_and_wait_range", "do_fsync"}, LEDGER_FILE_SYNC},
	    /* O_DSYNC */
	    {{"submit_bio_wait", "ext4_sync_file", "vfs_write"}, LEDGER_FILE_SYNC},
	    {{"folio_wait_bit", "filemap_fault", "do_user_addr_fault"}, LEDGER_FILE_FAULT},
	    {{"io_schedule", "filemap_read", "vfs_read"}, LEDGER_FILE_READ},
	    {{"schedule", "pipe_read", "vfs_read"}, LEDGER_PIPE_READ},
	    {{"wait_woken", "n_tty_read", "tty_read"}, LEDGER_TERMINAL_READ},
	    {{"wait_woken", "n_tty_write", "tty_write"}, LEDGER_TERMINAL},
	    {{"do_wait_intr_irq", "timerfd_read_iter", "vfs_read"}, LEDGER_SLEEP},
	    {{"do_wait", "kernel_wait4", "__do_sys_wait4"}, LEDGER_CHILD},
	    {{"wq_sleep.constprop.0", "do_mq_timedreceive", "do_syscall_64"}, LEDGER_PROCESS},
	    {{"schedule", "__do_semtimedop", "do_semtimedop"}, LEDGER_LOCK},
	    {{"sock_alloc_send_pskb", "__ip_append_data.isra.0", "udp_sendmsg"},
	     LEDGER_SOCKET_SEND},
	    {{"sock_alloc_send_pskb", "unix_stream_sendmsg", "__sys_sendto"}, LEDGER_LOCAL_SOCKET},
	    {{"fanotify_handle_event", "fsnotify", "do_dentry_open"}, LEDGER_PROCESS},
	    {{"inotify_read", "vfs_read", "ksys_read"}, LEDGER_PROCESS},
	    {{"seccomp_do_user_notification.isra.0", "__seccomp_filter"}, LEDGER_PROCESS},
	    {{"handle_userfault", "do_anonymous_page", "handle_mm_fault"}, LEDGER_PROCESS},
	    {{"signalfd_read_iter", "vfs_read", "ksys_read"}, LEDGER_PROCESS},
	    {{"do_sigtimedwait.isra.0", "__x64_sys_rt_sigtimedwait"}, LEDGER_PROCESS},
	    {{"ptlrpc_set_wait", "ldlm_cli_enqueue", "vfs_read"}, LEDGER_NETWORK_FILE},
	    {{"schedule", "gpfs_f_read", "vfs_read"}, LEDGER_NETWORK_FILE},
	    {{"wait_for_response", "cifs_send_recv", "vfs_read"}, LEDGER_NETWORK_FILE},
	    {{"io_schedule", "ioc_rqos_throttle", "vfs_write"}, LEDGER_DISK_LIMIT},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stack_frame f[3];
		struct stack_batch b;
		uint32_t s;

		stack_batch_init(&b, keyed_process());
		uint32_t n = 0;

		for (; n < 3 && cases[i].frames[n]; n++)
			f[n] = (struct stack_frame){.kind = STACK_FRAME_KERNEL,
						    .object = text(&b, cases[i].frames[n])};
		assert_int_equal(stack_batch_stack(&b, f, n, n, STACK_END_ROOT, &s), 0);
		assert_int_equal(wait_class_of(&b, &b.stacks[s]), cases[i].what);
		stack_batch_fini(&b);
	}
}

/* A pidfd that is polled, a child that reads a pipe, a ring of io_uring that receives, a signal, a named
 * pipe that is opened, an eventfd. */
static void what_ended_a_wait_for_whatever_comes_says_what_it_was_for(void **state)
{
	static const struct {
		const char *call;
		uint32_t waker;
		enum ledger_what what;
		const char *name;
	} cases[] = {
	    {"do_select", HOG | STACK_WAKER_PROCESS, LEDGER_PROCESS, "step (train.py)"},
	    {"do_select", HOG | STACK_WAKER_PROCESS | STACK_WAKER_CHILD, LEDGER_CHILD,
	     "step (train.py)"},
	    {"pipe_write", HOG | STACK_WAKER_PROCESS | STACK_WAKER_CHILD, LEDGER_CHILD,
	     "step (train.py)"},
	    {"pipe_write", HOG | STACK_WAKER_PROCESS, LEDGER_PIPE_WRITE, "step (train.py)"},
	    {"do_sys_poll", HOG | STACK_WAKER_NETWORK, LEDGER_SOCKET, "step (train.py)"},
	    {"do_sys_poll", STACK_WAKER_NETWORK, LEDGER_SOCKET, "step (train.py)"},
	    {"do_sys_poll", STACK_WAKER_TIMER, LEDGER_POLL, "step (train.py)"},
	    {"do_sys_poll", HOG, LEDGER_POLL, "step (train.py)"},
	    {"do_epoll_wait", STACK_WAKER_TIMER, LEDGER_SLEEP, "step (train.py)"},
	    {"do_epoll_wait", HOG | STACK_WAKER_PROCESS, LEDGER_PROCESS, "step (train.py)"},
	    {"do_sigtimedwait.isra.0", STACK_WAKER_TIMER, LEDGER_SLEEP, "step (train.py)"},
	    {"do_sigtimedwait.isra.0", HOG | STACK_WAKER_PROCESS, LEDGER_PROCESS,
	     "step (train.py)"},
	    {"io_cqring_wait", STACK_WAKER_NETWORK, LEDGER_SOCKET, "step (train.py)"},
	    {"io_cqring_wait", 0, LEDGER_STORAGE, "step (train.py)"},
	    {"futex_do_wait", HOG | STACK_WAKER_PROCESS, LEDGER_LOCK, "step (train.py)"},
	    {"eventfd_read", HOG | STACK_WAKER_PROCESS, LEDGER_PROCESS, "step (train.py)"},
	    {"eventfd_read", HOG | STACK_WAKER_PROCESS | STACK_WAKER_CHILD, LEDGER_CHILD,
	     "step (train.py)"},
	    {"eventfd_read", 0, LEDGER_LOCK, "step (train.py)"},
	    {"__x64_sys_pause", STACK_WAKER_TIMER, LEDGER_SLEEP, "pause() of step (train.py)"},
	    {"__x64_sys_openat", HOG | STACK_WAKER_PROCESS, LEDGER_PROCESS,
	     "openat() of step (train.py)"},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct excerpt *p;
		struct made m;
		uint32_t wait;

		make(&m, MAIN);
		wait = stack(&m.w.stacks, cases[i].call, "step");
		recorded(&m, MAIN, 0, STEPS * 100 * MS);
		for (uint64_t t = 0; t < STEPS * 100 * MS; t += 100 * MS)
			off(&m, MAIN, t, t + 30 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, wait,
			    cases[i].waker);
		p = excerpt_of(&m);
		assert_true(ms_of_what(p, LEDGER_BLOCKED, cases[i].what, cases[i].name) == 30);
		excerpt_drop(p);
	}
}

/* Main sleeps in a lock from 20 ms after the last step's end on; the drains cut the sleep in pieces. */
static void sleeps_on(struct made *m, uint32_t tid, uint64_t from_ns, uint32_t stack,
		      enum stack_switch_state state)
{
	uint64_t end = m->w.end_ns;

	for (uint64_t t = from_ns; t < end; t += 100 * MS)
		off(m, tid, t, t + 100 * MS < end ? t + 100 * MS : end, state, 0, stack, 0);
}

/* 900 ms follow in which the steps stand still. */
static void hang(struct made *m, uint32_t thread)
{
	make(m, thread);
	m->w.reason = WINDOW_STALL;
	m->w.open_since_ns = STEPS * 100 * MS;
	m->w.stacks.end_ns = m->w.end_ns = STEPS * 100 * MS + 900 * MS;
	for (uint32_t i = 0; i < STEPS; i++)
		m->steps[i].flags = WINDOW_STEP_MARGIN;
}

static uint64_t open_ms(const struct excerpt *p, enum ledger_kind kind, enum ledger_what what,
			const char *name)
{
	const struct ledger *l = &p->ledger.open;
	uint64_t ns = 0;

	for (uint32_t i = 0; i < l->count; i++)
		if (l->account[i].kind == kind && l->account[i].what == what &&
		    !strcmp(ledger_name(l, &l->account[i]), name))
			ns += l->account[i].ns;
	return ns / MS;
}

static struct excerpt *excerpt_of_hang(struct made *m)
{
	struct excerpt *p = excerpt_of(m);

	assert_int_equal(p->ledger.open.steps, 1);
	assert_int_equal(ledger_sum(&p->ledger.open), p->ledger.open.total_ns);
	assert_int_equal(p->ledger.open.total_ns, 900 * MS);
	return p;
}

static void a_sleep_that_does_not_end_is_in_the_accounts(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t lock;

	hang(&m, MAIN);
	lock = stack(&m.w.stacks, "__x64_sys_flock", "save");
	recorded(&m, MAIN, 0, m.w.end_ns);
	sleeps_on(&m, MAIN, m.w.open_since_ns + 20 * MS, lock, STACK_SWITCH_INTERRUPTIBLE);
	p = excerpt_of_hang(&m);
	assert_int_equal(open_ms(p, LEDGER_BLOCKED, LEDGER_FILE_LOCK, "save (train.py)"), 880);
	assert_int_equal(open_ms(p, LEDGER_RUNNING, LEDGER_NONE, ""), 20);
	assert_string_equal(p->stuck, "flock < save (train.py:7)");
	/* the steps before are what is usual of it */
	assert_int_equal(excerpt_ledger(p, 0, true)->steps, STEPS);
	excerpt_drop(p);
}

/* autograd's thread launches most, and waits for work since it had done the last. */
static void it_hangs_in_the_thread_that_came_to_rest_last(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t idle, lock;

	for (int backward = 0; backward < 2; backward++) {
		hang(&m, BACKWARD);
		idle = stack(&m.w.stacks, "futex_do_wait", "wait");
		lock = stack(&m.w.stacks, "pipe_read", "ask");
		recorded(&m, MAIN, 0, m.w.end_ns);
		recorded(&m, BACKWARD, 0, m.w.end_ns);
		sleeps_on(&m, backward ? MAIN : BACKWARD, m.w.open_since_ns - 30 * MS, idle,
			  STACK_SWITCH_INTERRUPTIBLE);
		sleeps_on(&m, backward ? BACKWARD : MAIN, m.w.open_since_ns + 50 * MS, lock,
			  STACK_SWITCH_INTERRUPTIBLE);
		p = excerpt_of_hang(&m);
		assert_int_equal(open_ms(p, LEDGER_BLOCKED, LEDGER_PIPE_READ, "ask (train.py)"),
				 850);
		assert_int_equal(open_ms(p, LEDGER_BLOCKED, LEDGER_LOCK, "wait (train.py)"), 0);
		assert_string_equal(p->stuck, "ask (train.py:7)");
		excerpt_drop(p);
	}
}

/* The host waits for the GPU, and that for the other ranks; or for its own kernel. */
static void what_the_gpu_does_not_end_is_the_gpus_time(void **state)
{
	static const struct {
		enum beat_unfinished_kind unfinished;
		enum ledger_kind kind;
	} works[] = {{BEAT_UNFINISHED_COLLECTIVE, LEDGER_COLLECTIVE},
		     {BEAT_UNFINISHED_KERNEL, LEDGER_COMPUTE},
		     {BEAT_UNFINISHED_GRAPH, LEDGER_COLLECTIVE}};
	struct excerpt *p;
	struct made m;

	for (size_t i = 0; i < 3; i++) {
		hang(&m, MAIN);
		m.w.unfinished.kind = works[i].unfinished;
		m.w.unfinished.launch_ns = m.w.open_since_ns + 100 * MS;
		snprintf(m.w.unfinished.name, sizeof(m.w.unfinished.name), "work");
		recorded(&m, MAIN, 0, m.w.end_ns);
		p = excerpt_of_hang(&m);
		assert_int_equal(open_ms(p, works[i].kind, LEDGER_NONE, "work"), 800);
		assert_int_equal(open_ms(p, LEDGER_RUNNING, LEDGER_NONE, ""), 100);
		excerpt_drop(p);
	}
}

/* Its GPU may have ended all: nobody is there to say so. */
static void that_it_is_stopped_comes_before_what_its_gpu_has_not_ended(void **state)
{
	struct excerpt *p;
	struct made m;

	hang(&m, MAIN);
	m.w.unfinished.kind = BEAT_UNFINISHED_KERNEL;
	m.w.unfinished.launch_ns = m.w.open_since_ns - 10 * MS;
	recorded(&m, MAIN, 0, m.w.end_ns);
	sleeps_on(&m, MAIN, m.w.open_since_ns + 100 * MS, STACK_SWITCH_NO_STACK,
		  STACK_SWITCH_STOPPED);
	p = excerpt_of_hang(&m);
	assert_int_equal(open_ms(p, LEDGER_STOPPED, LEDGER_NONE, ""), 800);
	assert_int_equal(open_ms(p, LEDGER_COMPUTE, LEDGER_NONE, ""), 100);
	excerpt_drop(p);
}

/* A node may say anything. */
/* What a beat says of a rank that stands still: only a wait without a break, and only one that is no
 * wait for requests. */
static void the_wait_of_a_rank_that_stands_still_is_known(void **state)
{
	const struct {
		const char *kernel, *function;
		uint32_t kind;
		const char *name;
	} is[] = {
	    {"futex_do_wait", "all_reduce", BEAT_UNFINISHED_HOST, "all_reduce (train.py)"},
	    {"futex_do_wait", "MPI_Recv", BEAT_UNFINISHED_MESSAGE,
	     "host blocked (message of another rank on the CPU) in MPI_Recv (train.py)"},
	    {"locks_lock_inode_wait", "save", BEAT_UNFINISHED_HELD,
	     "host blocked (file lock) in save (train.py)"},
	    {"fcntl_setlk", "save", BEAT_UNFINISHED_HELD,
	     "host blocked (file lock) in save (train.py)"},
	    {"nfs_wait_bit_killable", "save", BEAT_UNFINISHED_HELD,
	     "host blocked (network file system) in save (train.py)"},
	    {"do_epoll_wait", "serve", BEAT_UNFINISHED_NONE, ""},
	    {"inet_csk_accept", "serve", BEAT_UNFINISHED_NONE, ""},
	    {"futex_do_wait", "get", BEAT_UNFINISHED_NONE, ""},
	    {"do_nanosleep", "serve", BEAT_UNFINISHED_NONE, ""},
	};

	for (size_t i = 0; i < ARRAY_LEN(is); i++) {
		struct excerpt *p;
		struct made m;
		uint32_t at;

		hang(&m, MAIN);
		at = stack(&m.w.stacks, is[i].kernel, is[i].function);
		recorded(&m, MAIN, 0, m.w.end_ns);
		sleeps_on(&m, MAIN, m.w.open_since_ns + 20 * MS, at, STACK_SWITCH_INTERRUPTIBLE);
		p = excerpt_of_hang(&m);
		assert_int_equal(p->wait.kind, is[i].kind);
		if (is[i].kind) {
			assert_string_equal(p->wait.name, is[i].name);
			assert_int_equal(p->wait.launch_ns, m.w.open_since_ns + 20 * MS);
		}
		excerpt_drop(p);
	}
}

/* Such as the ranks of a server that ask each other for requests all the time. */
static void many_short_waits_are_no_wait(void **state)
{
	struct excerpt *p;
	struct made m;
	uint32_t at;

	hang(&m, MAIN);
	at = stack(&m.w.stacks, "futex_do_wait", "all_reduce");
	recorded(&m, MAIN, 0, m.w.end_ns);
	for (uint64_t t = m.w.open_since_ns; t < m.w.end_ns; t += 100 * MS)
		off(&m, MAIN, t, t + 99 * MS, STACK_SWITCH_INTERRUPTIBLE, 0, at, 0);
	p = excerpt_of_hang(&m);
	assert_int_equal(p->wait.kind, BEAT_UNFINISHED_NONE);
	excerpt_drop(p);
}

static void impossible_open_intervals_are_none(void **state)
{
	static const uint64_t since[] = {0, STEPS * 100 * MS + 900 * MS, UINT64_MAX};
	struct excerpt *p;
	struct made m;

	for (size_t i = 0; i < 3; i++) {
		hang(&m, MAIN);
		m.w.open_since_ns = since[i];
		p = excerpt_of(&m);
		assert_int_equal(p->ledger.open.steps, 0);
		assert_string_equal(p->stuck, "");
		excerpt_drop(p);
	}
	/* since before it began: of its self time */
	hang(&m, MAIN);
	m.w.begin_ns = m.w.end_ns - 200 * MS;
	m.w.unfinished.kind = BEAT_UNFINISHED_KERNEL;
	m.w.unfinished.launch_ns = UINT64_MAX;
	p = excerpt_of(&m);
	assert_int_equal(p->ledger.open.total_ns, 200 * MS);
	assert_int_equal(ledger_sum(&p->ledger.open), 200 * MS);
	excerpt_drop(p);
}

/* Blocked, then running, in a system call that is in no table; then blocked without one. */
static void what_has_no_class_is_named_by_its_system_call(void **state)
{
	uint32_t barrier, protect, other;
	struct excerpt *p;
	struct made m;

	make(&m, MAIN);
	barrier = stack(&m.w.stacks, "__x64_sys_membarrier", "reclaim");
	protect = stack(&m.w.stacks, "__x64_sys_mprotect", "guard");
	other = stack(&m.w.stacks, "an_unknown_wait", "step");
	recorded(&m, MAIN, 0, STEPS * 100 * MS);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint64_t t = i * 100 * MS;

		off(&m, MAIN, t, t + 20 * MS, STACK_SWITCH_UNINTERRUPTIBLE, 0, barrier, 0);
		for (uint32_t k = 0; k < 3; k++)
			on(&m, MAIN, t + (20 + 10 * k) * MS, 10 * MS, protect);
		off(&m, MAIN, t + 50 * MS, t + 100 * MS, STACK_SWITCH_UNINTERRUPTIBLE, 0, other, 0);
	}
	p = excerpt_of(&m);
	assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_SYSCALL,
			       "membarrier() of reclaim (train.py)") == 20);
	assert_true(ms_of_what(p, LEDGER_KERNEL_CODE, LEDGER_SYSCALL,
			       "mprotect() of guard (train.py)") == 30);
	assert_true(ms_of(p, LEDGER_BLOCKED, "step (train.py)") == 8);
	excerpt_drop(p);
}

/* Every second step writes a profile: 20 ms of its 58 ms, in the last one 50 ms. */
static void a_step_is_compared_with_steps_of_its_kind(void **state)
{
	const struct ledger *healthy;
	struct excerpt *p;
	struct made m;

	for (uint32_t known = 0; known < 2; known++) {
		uint32_t profile, waits;

		make(&m, MAIN);
		profile = stack(&m.w.stacks, "do_fsync", "write_profile");
		waits = stack(&m.w.stacks, "do_nanosleep", "step");
		recorded(&m, MAIN, 0, STEPS * 100 * MS);
		for (uint32_t i = 0; i < STEPS; i++) {
			uint64_t begin = i * 100 * MS, ms = i == STEPS - 1 ? 50 : i % 2 ? 20 : 0;

			off(&m, MAIN, begin, begin + ms * MS, STACK_SWITCH_INTERRUPTIBLE, 0,
			    profile, 0);
			off(&m, MAIN, begin + ms * MS, begin + 58 * MS, STACK_SWITCH_INTERRUPTIBLE,
			    0, waits, 0);
			m.steps[i].kind = 1 + i % 2;
			m.steps[i].period = 2;
			m.steps[i].expected_ns = i == STEPS - 1 ? 70 * MS : 100 * MS;
			m.steps[i].flags = i == STEPS - 1 ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED
					   : known	  ? 0
					   : i % 2	  ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED
							  : 0;
			m.steps[i].step.latency_ns = 100 * MS;
		}
		if (!known)
			m.steps[1].step.flags = STEP_FLAG_GAP; /* the only usual one is not used */
		p = excerpt_make(&m.w, NULL, NULL);
		assert_non_null(p);
		healthy = excerpt_ledger(p, 0, true);
		assert_int_equal(excerpt_ledger(p, 0, false)->steps, 1);
		assert_true(ms_of_what(p, LEDGER_BLOCKED, LEDGER_FILE_SYNC,
				       "write_profile (train.py)") == 50);
		assert_int_equal(healthy->steps, known);
		for (uint32_t i = 0; i < healthy->count; i++)
			if (healthy->account[i].what == LEDGER_FILE_SYNC)
				assert_int_equal(healthy->account[i].ns, 20 * MS);
		assert_int_equal(p->slow.rank.period, 2);
		excerpt_drop(p);
		stack_batch_fini(&m.w.stacks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_nobody_saw_is_unobserved),
	    cmocka_unit_test(steps_of_a_process_without_a_gpu_are_its_hosts),
	    cmocka_unit_test(steps_without_all_their_records_are_in_no_account),
	    cmocka_unit_test(the_hosts_time_is_in_the_accounts_of_its_threads),
	    cmocka_unit_test(a_function_without_a_name_gives_none),
	    cmocka_unit_test(a_launching_thread_that_waits_for_another_is_followed),
	    cmocka_unit_test(a_wait_is_for_what_its_waker_waited_for),
	    cmocka_unit_test(what_was_not_recorded_is_unobserved_and_disorder_harms_nobody),
	    cmocka_unit_test(a_rank_that_dies_in_a_sleep_is_unobserved_from_then_on),
	    cmocka_unit_test(a_sleep_without_a_stack_is_like_the_one_before),
	    cmocka_unit_test(a_wait_in_a_call_of_the_driver_is_the_drivers),
	    cmocka_unit_test(a_lock_of_the_heap_is_not_the_drivers),
	    cmocka_unit_test(a_poll_is_a_wait_for_what_ended_it),
	    cmocka_unit_test(what_ended_a_wait_for_whatever_comes_says_what_it_was_for),
	    cmocka_unit_test(folded_times_are_divided_by_their_states),
	    cmocka_unit_test(the_nearest_samples_speak_where_a_slice_has_none),
	    cmocka_unit_test(what_was_taken_is_in_accounts_of_its_own),
	    cmocka_unit_test(absurd_takings_take_no_more_than_the_time),
	    cmocka_unit_test(first_touches_are_of_the_function_that_has_the_faults),
	    cmocka_unit_test(a_sleep_for_storage_needs_no_stack),
	    cmocka_unit_test(a_wait_is_named_by_the_users_code),
	    cmocka_unit_test(only_the_jobs_own_figures_state_the_work),
	    cmocka_unit_test(code_of_a_library_is_not_the_interpreters),
	    cmocka_unit_test(what_compression_is_for_is_up_to_its_caller),
	    cmocka_unit_test(a_collective_of_the_host_is_a_wait_for_peers),
	    cmocka_unit_test(special_waits_stand_before_general_ones),
	    cmocka_unit_test(a_sleep_that_does_not_end_is_in_the_accounts),
	    cmocka_unit_test(it_hangs_in_the_thread_that_came_to_rest_last),
	    cmocka_unit_test(what_the_gpu_does_not_end_is_the_gpus_time),
	    cmocka_unit_test(that_it_is_stopped_comes_before_what_its_gpu_has_not_ended),
	    cmocka_unit_test(the_wait_of_a_rank_that_stands_still_is_known),
	    cmocka_unit_test(many_short_waits_are_no_wait),
	    cmocka_unit_test(impossible_open_intervals_are_none),
	    cmocka_unit_test(a_step_is_compared_with_steps_of_its_kind),
	    cmocka_unit_test(what_has_no_class_is_named_by_its_system_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
