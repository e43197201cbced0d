/* SPDX-License-Identifier: Apache-2.0
 * sidecar/stacks/cpu_stacks.c on a sampler that this file plays: it hands out the samples that a
 * test prepared. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sidecar/process.h"
#include "sidecar/stacks/cpu_stacks.h"

#define SECOND 1000000000ull

struct sampler {
	struct sampler_options options;
	uint32_t added[8], removed[8];
	uint32_t added_count, removed_count, drains, fraction;
	uint32_t pids[4], pid_count; /* each gives a sample at the next drain */
	uint64_t time_ns;
	bool wide, paused;
	/* refused: of it the next call says -EAGAIN */
	uint32_t recorded[8], recorded_count, refused;
};

static struct sampler fake;

int sampler_open(struct sampler **out, const struct sampler_options *o)
{
	memset(&fake, 0, sizeof(fake));
	fake.options = *o;
	fake.fraction = o->fraction_percent;
	*out = &fake;
	return 0;
}
void sampler_close(struct sampler *s)
{
}
void sampler_options_init(struct sampler_options *o)
{
	memset(o, 0, sizeof(*o));
}
int sampler_add(struct sampler *s, uint32_t pid, bool children)
{
	s->added[s->added_count++] = pid;
	return children ? 0 : -EINVAL;
}
void sampler_remove(struct sampler *s, uint32_t pid)
{
	s->removed[s->removed_count++] = pid;
}
int sampler_set_rate(struct sampler *s, uint32_t rate_hz, uint32_t fraction_percent)
{
	s->fraction = fraction_percent;
	return 0;
}
int sampler_set_wide(struct sampler *s, bool on)
{
	s->wide = on;
	return 0;
}
int sampler_record_switches(struct sampler *s, uint32_t pid, uint32_t tid, bool on)
{
	if (tid == s->refused) {
		s->refused = 0;
		return -EAGAIN;
	}
	assert_true(on && s->recorded_count < 8);
	s->recorded[s->recorded_count++] = tid;
	return 0;
}
int sampler_pause(struct sampler *s, bool paused)
{
	s->paused = paused;
	return 0;
}
int sampler_fd(const struct sampler *s)
{
	return -1;
}
void sampler_poll(struct sampler *s)
{
}
const char *sampler_mode_name(enum sampler_mode mode)
{
	return "bpf-loop";
}
void sampler_stats_get(const struct sampler *s, struct sampler_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->mode = SAMPLER_BPF_LOOP;
}

int sampler_drain(struct sampler *s, struct stack_batch *b)
{
	struct stack_frame f = {.kind = STACK_FRAME_ANONYMOUS};
	uint32_t stack;

	s->drains++;
	b->begin_ns = s->time_ns;
	b->end_ns = s->time_ns + SECOND;
	for (uint32_t i = 0; i < s->pid_count; i++) {
		struct stack_sample sample = {.time_ns = s->time_ns,
					      .pid = s->pids[i],
					      .tid = s->pids[i],
					      .count = 1,
					      .weight_ns = 10,
					      .kind = STACK_ON_CPU};

		f.address = s->pids[i];
		assert_int_equal(stack_batch_stack(b, &f, 1, 0, STACK_END_ROOT, &stack), 0);
		sample.stack = stack;
		assert_int_equal(stack_batch_sample(b, &sample), 0);
	}
	for (uint32_t i = 0; i < s->recorded_count; i++) { /* off for 1 ms, and for 1 us */
		struct stack_switch w = {.out_ns = s->time_ns,
					 .in_ns = s->time_ns + 1000000,
					 .pid = s->recorded[0],
					 .tid = s->recorded[i],
					 .stack = STACK_SWITCH_NO_STACK};

		assert_int_equal(stack_batch_switch(b, &w), 0);
		w.out_ns = w.in_ns + 1000;
		w.in_ns = w.out_ns + 1000;
		assert_int_equal(stack_batch_switch(b, &w), 0);
	}
	return 0;
}

static struct node *open_node(void)
{
	struct node *n = calloc(1, sizeof(*n));
	struct cpu_stacks_stats st;
	struct sampler_stats ss;

	n->settings.sampler_rate_hz = 99;
	n->settings.sampler_fraction = 10;
	n->settings.sampler_period_ns = 5 * SECOND;
	n->settings.sampler_wide = true;
	assert_int_equal(cpu_stacks_open(&n->stacks, &n->settings, NULL), 0);
	do {
		usleep(1000);
		cpu_stacks_tend(n->stacks, process_any_anomaly(n, clock_monotonic_ns()),
				clock_monotonic_ns());
		cpu_stacks_stats_get(n->stacks, &st, &ss);
	} while (st.opening);
	return n;
}

static void tend(struct node *n, uint64_t now_ns)
{
	cpu_stacks_tend(n->stacks, process_any_anomaly(n, now_ns), now_ns);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
}

static void close_node(struct node *n)
{
	cpu_stacks_close(n->stacks);
	free(n);
}

static uint32_t count_of(struct node *n, uint32_t pid, uint64_t begin_ns, uint64_t end_ns)
{
	struct stack_batch b;
	uint32_t count;

	stack_batch_init(&b, keyed_process());
	assert_int_equal(cpu_stacks_extract(n->stacks, pid, begin_ns, end_ns, &b), 0);
	count = b.sample_count;
	for (uint32_t i = 0; i < count; i++)
		assert_true(b.samples[i].time_ns >= begin_ns && b.samples[i].time_ns < end_ns);
	stack_batch_fini(&b);
	return count;
}

static void nothing_is_sampled_without_a_rank(void **state)
{
	struct node *n = open_node();
	uint64_t now_ns = clock_monotonic_ns();

	cpu_stacks_watch(n->stacks, 77);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_false(fake.paused);
	cpu_stacks_unwatch(n->stacks, 77);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_true(fake.paused);
	assert_int_equal(fake.drains, 1); /* the last of its samples */
	tend(n, now_ns + 6 * SECOND);
	assert_int_equal(fake.drains, 1);
	cpu_stacks_watch(n->stacks, 78);
	tend(n, now_ns + 12 * SECOND);
	assert_false(fake.paused);
	assert_int_equal(fake.drains, 2);
	close_node(n);
}

static void a_rank_is_watched_once_with_its_children(void **state)
{
	struct node *n = open_node();

	cpu_stacks_watch(n->stacks, 77);
	cpu_stacks_watch(n->stacks, 77);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_int_equal(fake.added_count, 1);
	cpu_stacks_unwatch(n->stacks, 77);
	cpu_stacks_unwatch(n->stacks, 77);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_int_equal(fake.removed_count, 1);
	close_node(n);
}

/* This process is the rank, its child a data loader, init a stranger. */
static void a_window_gets_the_ranks_family_and_its_time(void **state)
{
	struct node *n = open_node();
	uint64_t now_ns = clock_monotonic_ns();
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	cpu_stacks_watch(n->stacks, (uint32_t)getpid());
	fake.pids[0] = (uint32_t)getpid();
	fake.pids[1] = (uint32_t)child;
	fake.pids[2] = 1;
	fake.pid_count = 3;
	fake.time_ns = now_ns - 10 * SECOND;
	tend(n, now_ns + 6 * SECOND);
	fake.time_ns = now_ns - 5 * SECOND;
	tend(n, now_ns + 12 * SECOND);
	assert_int_equal(fake.drains, 2);
	assert_int_equal(count_of(n, (uint32_t)getpid(), now_ns - 20 * SECOND, now_ns), 4);
	assert_int_equal(count_of(n, (uint32_t)getpid(), now_ns - 6 * SECOND, now_ns), 2);
	assert_int_equal(count_of(n, (uint32_t)getpid(), now_ns - 9 * SECOND, now_ns - 8 * SECOND),
			 0);
	assert_int_equal(count_of(n, 1, now_ns - 20 * SECOND, now_ns), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* the processes have ended, what is known of them stays */
	fake.pid_count = 0;
	cpu_stacks_unwatch(n->stacks, (uint32_t)getpid());
	assert_int_equal(count_of(n, (uint32_t)getpid(), now_ns - 20 * SECOND, now_ns), 4);
	close_node(n);
}

static void threads_that_launch_are_recorded_once_and_end_with_their_process(void **state)
{
	static const uint32_t tids[] = {77, 79, 80}, more[] = {79, 0, 81};
	struct node *n = open_node();
	uint64_t now_ns = clock_monotonic_ns();
	struct stack_batch b;

	cpu_stacks_watch(n->stacks, 77);
	fake.refused = 80;
	fake.pids[fake.pid_count++] = 77;
	fake.time_ns = now_ns;
	cpu_stacks_record_threads(n->stacks, 77, tids, 3);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_int_equal(fake.recorded_count, 2); /* the process itself and 79 */
	tend(n, now_ns + 6 * SECOND);
	assert_int_equal(fake.recorded_count, 3); /* 80, which had to wait for a drain */
	assert_int_equal(fake.recorded[2], 80);
	cpu_stacks_record_threads(n->stacks, 77, more, 3);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_int_equal(fake.recorded_count, 4);
	stack_batch_init(&b, keyed_process());
	assert_int_equal(cpu_stacks_extract(n->stacks, 77, now_ns, now_ns + SECOND, &b), 0);
	assert_int_equal(fake.drains, 2); /* of two and of four threads */
	assert_int_equal(b.switch_count, 6);
	for (uint32_t i = 0; i < b.switch_count; i++) /* short ones are left out */
		assert_int_equal(b.switches[i].in_ns - b.switches[i].out_ns, 1000000);
	stack_batch_fini(&b);
	cpu_stacks_unwatch(n->stacks, 77);
	cpu_stacks_watch(n->stacks, 77); /* another process with that number */
	cpu_stacks_record_threads(n->stacks, 77, tids, 1);
	assert_true(cpu_stacks_settle(n->stacks, 10000));
	assert_int_equal(fake.recorded_count, 5);
	close_node(n);
}

static void strangers_are_counted(void **state)
{
	struct cpu_stacks_stats st;
	struct sampler_stats ss;
	struct node *n = open_node();

	cpu_stacks_watch(n->stacks, (uint32_t)getpid());
	fake.pids[0] = 1;
	fake.pid_count = 1;
	fake.time_ns = clock_monotonic_ns();
	tend(n, fake.time_ns + 6 * SECOND);
	cpu_stacks_stats_get(n->stacks, &st, &ss);
	assert_int_equal(st.strangers, 1);
	assert_int_equal(st.drains, 1);
	assert_true(st.kept_bytes > 0);
	close_node(n);
}

static void an_open_anomaly_takes_all_ticks_and_some_time_after(void **state)
{
	struct node *n = open_node();
	uint64_t now_ns = clock_monotonic_ns();
	struct process *p = calloc(1, sizeof(*p));
	struct rank *r = calloc(1, sizeof(*r));

	p->rank = r;
	n->processes[0] = p;
	cpu_stacks_watch(n->stacks, (uint32_t)getpid());
	tend(n, now_ns + SECOND);
	assert_int_equal(fake.fraction, 10);
	r->anomaly.state = ANOMALY_OPEN;
	tend(n, now_ns + 2 * SECOND);
	assert_int_equal(fake.fraction, 100);
	assert_int_equal(fake.drains, 1); /* what was counted has the old weight */
	r->anomaly.state = ANOMALY_IDLE;
	tend(n, now_ns + 5 * SECOND);
	assert_int_equal(fake.fraction, 100);
	tend(n, now_ns + 30 * SECOND);
	assert_int_equal(fake.fraction, 10);
	n->processes[0] = NULL;
	free(r);
	free(p);
	close_node(n);
}

/* A closer look that does not end: the whole node for a minute, then a fifth of the time. */
static void the_whole_node_is_sampled_for_a_bounded_time(void **state)
{
	struct node *n = open_node();
	uint64_t now_ns = clock_monotonic_ns(), wide = 0;
	struct cpu_stacks_stats st;
	struct sampler_stats ss;

	tend(n, now_ns + SECOND);
	assert_false(fake.wide);
	fake.pids[0] = (uint32_t)getpid();
	fake.pids[1] = (uint32_t)getppid();
	cpu_stacks_watch(n->stacks, (uint32_t)getpid());
	n->analysis.closer_until_ns = now_ns + 100000 * SECOND;
	for (uint64_t t = 2; t < 60; t++) {
		fake.time_ns = now_ns + t * SECOND;
		tend(n, now_ns + t * SECOND);
		assert_true(fake.wide);
		assert_true(cpu_stacks_raised(n->stacks));
		fake.pid_count = 2; /* the other one shows once the node is sampled as a whole */
	}
	cpu_stacks_stats_get(n->stacks, &st, &ss);
	assert_true(st.wide);
	assert_int_equal(st.wide_begun, 1);
	assert_in_range(st.others, 50, 60); /* a sample of one other process a drain */
	assert_int_equal(st.strangers, 0);
	for (uint64_t t = 60; t < 5000; t++) {
		tend(n, now_ns + t * SECOND);
		wide += t >= 1000 && fake.wide;
	}
	assert_in_range(wide, 4000 * 15 / 100, 4000 * 25 / 100);
	n->analysis.closer_until_ns = 0;
	tend(n, now_ns + 6000 * SECOND);
	assert_false(fake.wide);
	assert_false(cpu_stacks_raised(n->stacks));
	close_node(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_sampled_without_a_rank),
	    cmocka_unit_test(a_rank_is_watched_once_with_its_children),
	    cmocka_unit_test(a_window_gets_the_ranks_family_and_its_time),
	    cmocka_unit_test(threads_that_launch_are_recorded_once_and_end_with_their_process),
	    cmocka_unit_test(strangers_are_counted),
	    cmocka_unit_test(an_open_anomaly_takes_all_ticks_and_some_time_after),
	    cmocka_unit_test(the_whole_node_is_sampled_for_a_bounded_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
