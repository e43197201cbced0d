/* SPDX-License-Identifier: Apache-2.0
 * What the ledger charges is compared with a timeline that is painted nanosecond by nanosecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/ledger/ledger.h"
#include "base/check.h"

#define TIMELINE     400
#define BUSY_MAX     24
#define SEGMENTS_MAX 12

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

static uint64_t ns_of(const struct ledger *l, enum ledger_kind kind, const char *name)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < l->count; i++)
		if (l->account[i].kind == kind && !strcmp(ledger_name(l, &l->account[i]), name))
			ns += l->account[i].ns;
	return ns;
}

static uint64_t ns_of_account(const struct ledger *l, const struct ledger *from,
			      const struct ledger_account *a)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (l->account[i].kind == a->kind && l->account[i].what == a->what &&
		    !strcmp(ledger_name(l, &l->account[i]), ledger_name(from, a)))
			return l->account[i].ns;
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct ledger_busy *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

struct excerpt {
	struct ledger_busy busy[BUSY_MAX];
	struct ledger_segment segment[SEGMENTS_MAX];
	uint32_t busy_count, segment_count;
	uint64_t begin, end;
};

static void draw_excerpt(struct excerpt *p)
{
	static const char *const names[] = {"a", "b", "c"};
	uint64_t at = draw(40);

	memset(p, 0, sizeof(*p));
	p->begin = 20 + draw(50);
	p->end = p->begin + 1 + draw(TIMELINE - 120);
	p->busy_count = draw(BUSY_MAX);
	for (uint32_t i = 0; i < p->busy_count; i++) {
		struct ledger_busy *b = &p->busy[i];

		b->begin_ns = draw(TIMELINE - 60);
		b->end_ns = b->begin_ns + draw(60);
		b->launch_ns =
		    draw(4) ? b->begin_ns - (b->begin_ns ? draw((uint32_t)b->begin_ns) % 30 : 0)
			    : 0;
		b->kind = LEDGER_COMPUTE + draw(3);
		b->name = names[draw(3)];
	}
	qsort(p->busy, p->busy_count, sizeof(p->busy[0]), by_begin);
	while (p->segment_count < SEGMENTS_MAX && at < TIMELINE) {
		struct ledger_segment *s = &p->segment[p->segment_count++];

		s->begin_ns = at;
		s->end_ns = at + 1 + draw(50);
		s->kind = LEDGER_RUNNING + draw(5);
		s->what = draw(3);
		s->name = names[draw(3)];
		at = s->end_ns + draw(20);
	}
}

/* Who is on the GPU at a moment: the first of a kind that runs then, kinds in their order. */
static const struct ledger_busy *busy_at(const struct excerpt *p, uint64_t t)
{
	const struct ledger_busy *best = NULL;

	for (uint32_t i = 0; i < p->busy_count; i++) {
		const struct ledger_busy *b = &p->busy[i];

		if (b->begin_ns <= t && t < b->end_ns && (!best || b->kind < best->kind))
			best = b;
	}
	return best;
}

static void paint(const struct excerpt *p, struct ledger *l)
{
	for (uint64_t t = p->begin; t < p->end; t++) {
		const struct ledger_busy *b = busy_at(p, t), *next = NULL;
		const struct ledger_segment *s = NULL;
		uint64_t until = t;

		if (b) {
			ledger_charge(l, b->kind, LEDGER_NONE, b->name, 1, 0);
			continue;
		}
		while (until < p->end && !busy_at(p, until))
			until++;
		for (uint32_t i = 0; i < p->busy_count && !next && until < p->end; i++)
			if (p->busy[i].begin_ns == until)
				next = &p->busy[i];
		if (next && next->launch_ns && t >= next->launch_ns) {
			ledger_charge(l, LEDGER_QUEUED, LEDGER_NONE, NULL, 1, 0);
			continue;
		}
		for (uint32_t i = 0; i < p->segment_count; i++)
			if (p->segment[i].begin_ns <= t && t < p->segment[i].end_ns)
				s = &p->segment[i];
		ledger_charge(l, s ? s->kind : LEDGER_UNOBSERVED, s ? s->what : LEDGER_NONE,
			      s ? s->name : NULL, 1, 0);
	}
}

static void same_accounts(const struct ledger *a, const struct ledger *b, uint64_t at_seed)
{
	for (uint32_t i = 0; i < a->count; i++) {
		const struct ledger_account *x = &a->account[i];
		uint64_t other = ns_of_account(b, a, x);

		if (x->ns != other)
			fail_msg("seed %llu: %s %s: %llu, not %llu", (unsigned long long)at_seed,
				 ledger_kind_name(x->kind), ledger_name(a, x),
				 (unsigned long long)x->ns, (unsigned long long)other);
	}
}

static void every_nanosecond_is_charged_once_and_to_the_right_account(void **state)
{
	struct ledger_interval scratch[2 * BUSY_MAX + 2];

	for (int round = 0; round < 20000; round++) {
		struct ledger made, truth;
		struct excerpt p;
		uint64_t began = seed;

		draw_excerpt(&p);
		ledger_init(&made);
		ledger_init(&truth);
		ledger_step(&made, p.begin, p.end, p.busy, p.busy_count,
			    &(struct ledger_thread){p.segment, p.segment_count, false}, 1, scratch);
		paint(&p, &truth);
		assert_int_equal(ledger_sum(&made), p.end - p.begin);
		assert_int_equal(made.total_ns, p.end - p.begin);
		same_accounts(&made, &truth, began);
		same_accounts(&truth, &made, began);
		ledger_fini(&made);
		ledger_fini(&truth);
	}
}

static void a_name_is_of_the_function_at_its_end(void **state)
{
	(void)state;
	assert_true(ledger_is_of("load (a.py)", "load (a.py)"));
	assert_true(ledger_is_of("openat() of load (a.py)", "load (a.py)"));
	assert_false(ledger_is_of("preload (a.py)", "load (a.py)"));
	assert_false(ledger_is_of("openat() of load (a.py)", ""));
}

static void a_sum_of_ledgers_is_the_ledger_of_all_steps(void **state)
{
	struct ledger_interval scratch[2 * BUSY_MAX + 2];
	struct ledger all, part[2], sum;

	ledger_init(&all);
	ledger_init(&sum);
	for (int k = 0; k < 2; k++)
		ledger_init(&part[k]);
	for (int round = 0; round < 200; round++) {
		struct excerpt p;

		draw_excerpt(&p);
		ledger_step(&all, p.begin, p.end, p.busy, p.busy_count,
			    &(struct ledger_thread){p.segment, p.segment_count, false}, 1, scratch);
		ledger_step(&part[round & 1], p.begin, p.end, p.busy, p.busy_count,
			    &(struct ledger_thread){p.segment, p.segment_count, false}, 1, scratch);
	}
	ledger_add(&sum, &part[0], 1);
	ledger_add(&sum, &part[1], 1);
	assert_int_equal(sum.steps, 200);
	assert_int_equal(sum.total_ns, all.total_ns);
	same_accounts(&sum, &all, 0);
	same_accounts(&all, &sum, 0);
	ledger_fini(&all);
	ledger_fini(&sum);
	ledger_fini(&part[0]);
	ledger_fini(&part[1]);
}

static void excesses_add_up_to_the_slowdown(void **state)
{
	struct ledger_interval scratch[2 * BUSY_MAX + 2];

	for (int round = 0; round < 500; round++) {
		struct ledger_row rows[2 * LEDGER_ACCOUNTS_MAX];
		double sum = 0, want;
		struct ledger l[2];
		uint32_t n;

		for (int k = 0; k < 2; k++) {
			ledger_init(&l[k]);
			for (int s = 0; s < 5; s++) {
				struct excerpt p;

				draw_excerpt(&p);
				ledger_step(
				    &l[k], p.begin, p.end, p.busy, p.busy_count,
				    &(struct ledger_thread){p.segment, p.segment_count, false}, 1,
				    scratch);
			}
		}
		n = ledger_subtract(&l[0], &l[1], rows);
		for (uint32_t i = 0; i < n; i++) {
			sum += rows[i].excess_ns;
			assert_true(!i || rows[i].excess_ns <= rows[i - 1].excess_ns);
		}
		want = (double)l[0].total_ns / 5 - (double)l[1].total_ns / 5;
		assert_true(sum - want < 1e-6 && want - sum < 1e-6);
		ledger_fini(&l[0]);
		ledger_fini(&l[1]);
	}
}

/* The values, not the names: a scaled job has the same accounts, longer. */
static void scaling_time_scales_milliseconds_and_nothing_else(void **state)
{
	struct ledger_interval scratch[2 * BUSY_MAX + 2];

	for (int round = 0; round < 500; round++) {
		struct ledger one, ten;
		struct excerpt p;

		draw_excerpt(&p);
		ledger_init(&one);
		ledger_init(&ten);
		ledger_step(&one, p.begin, p.end, p.busy, p.busy_count,
			    &(struct ledger_thread){p.segment, p.segment_count, false}, 1, scratch);
		for (uint32_t i = 0; i < p.busy_count; i++) {
			p.busy[i].begin_ns *= 10;
			p.busy[i].end_ns *= 10;
			p.busy[i].launch_ns *= 10;
		}
		for (uint32_t i = 0; i < p.segment_count; i++) {
			p.segment[i].begin_ns *= 10;
			p.segment[i].end_ns *= 10;
		}
		ledger_step(&ten, p.begin * 10, p.end * 10, p.busy, p.busy_count,
			    &(struct ledger_thread){p.segment, p.segment_count, false}, 1, scratch);
		assert_int_equal(one.count, ten.count);
		for (uint32_t i = 0; i < one.count; i++) {
			assert_int_equal(one.account[i].ns * 10, ten.account[i].ns);
			assert_int_equal(one.account[i].count, ten.account[i].count);
		}
		ledger_fini(&one);
		ledger_fini(&ten);
	}
}

/* main loads for 60 ns, then wakes the thread that launches, which had waited since the step began.
 */
/* A communication thread: that it waits at a socket for 30 ns is why the other one waits; that it runs
 * for 6, and sleeps in a lock for 12, says less than the wait itself. A CPU that others have, and a
 * lock of the heap, are outside, too. */
static void of_a_helper_only_its_waits_for_the_outside_count(void **state)
{
	const struct ledger_segment waits[] = {
	    {0, 60, LEDGER_BLOCKED, LEDGER_LOCK, 2, "all_reduce", NULL, 0}};
	const struct ledger_segment helps[] = {
	    {0, 30, LEDGER_BLOCKED, LEDGER_SOCKET, 0, "recv", NULL, 0},
	    {30, 36, LEDGER_RUNNING, LEDGER_NONE, 0, "add", NULL, 0},
	    {36, 40, LEDGER_RUNNABLE, LEDGER_PREEMPTED, 0, "hog", NULL, 0},
	    {40, 52, LEDGER_BLOCKED, LEDGER_LOCK, 0, "lock", NULL, 0},
	    {52, 60, LEDGER_BLOCKED, LEDGER_LIBC_LOCK, 0, "free", NULL, 0}};
	const struct ledger_thread threads[] = {{waits, 1, false}, {helps, 5, true}};
	const struct ledger_busy kernel = {60, 100, 60, LEDGER_COMPUTE, 0, "k", NULL};
	struct ledger_interval scratch[2];
	struct ledger l;

	ledger_init(&l);
	ledger_step(&l, 0, 100, &kernel, 1, threads, 2, scratch);
	assert_int_equal(ledger_sum(&l), 100);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "recv"), 30);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "free"), 8);
	assert_int_equal(ns_of(&l, LEDGER_RUNNABLE, "hog"), 4);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "all_reduce"), 18);
	assert_int_equal(ns_of(&l, LEDGER_RUNNING, "add"), 0);
	ledger_fini(&l);
}

/* Its reads are so short that one record has many of them. */
static void so_do_the_short_waits_of_a_helper(void **state)
{
	const struct ledger_segment waits[] = {
	    {0, 60, LEDGER_BLOCKED, LEDGER_LOCK, 2, "to_thread", NULL, 0}};
	const struct ledger_share folded[] = {
	    {LEDGER_BLOCKED, LEDGER_FILE_READ, "read_shard", 0.5, 30},
	    {LEDGER_BLOCKED, LEDGER_LOCK, "lock", 0.25, 15},
	    {LEDGER_RUNNING, LEDGER_NONE, "add", 0.25, 0}};
	const struct ledger_segment helps[] = {
	    {0, 60, LEDGER_UNOBSERVED, LEDGER_NONE, 0, "", folded, 3}};
	const struct ledger_thread threads[] = {{waits, 1, false}, {helps, 1, true}};
	const struct ledger_busy kernel = {60, 100, 60, LEDGER_COMPUTE, 0, "k", NULL};
	struct ledger_interval scratch[2];
	struct ledger l;

	ledger_init(&l);
	ledger_step(&l, 0, 100, &kernel, 1, threads, 2, scratch);
	assert_int_equal(ledger_sum(&l), 100);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "read_shard"), 30);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "to_thread"), 30);
	assert_int_equal(ns_of(&l, LEDGER_RUNNING, "add"), 0);
	ledger_fini(&l);
}

static void a_wait_for_another_thread_is_what_that_thread_did(void **state)
{
	const struct ledger_share shares[] = {{LEDGER_RUNNING, LEDGER_NONE, "backward", 0.7, 0},
					      {LEDGER_STOLEN, LEDGER_NONE, "NET_RX", 0.3, 0}};
	const struct ledger_segment waits[] = {
	    {0, 60, LEDGER_BLOCKED, LEDGER_LOCK, 2, "futex", NULL, 0},
	    {60, 70, LEDGER_RUNNING, LEDGER_NONE, 0, "", shares, 2}};
	const struct ledger_segment loads[] = {
	    {0, 20, LEDGER_BLOCKED, LEDGER_LOCK, 1, "futex", NULL, 0},
	    {20, 60, LEDGER_BLOCKED, LEDGER_NONE, 0, "file read", NULL, 0}};
	const struct ledger_thread threads[] = {{waits, 2, false}, {loads, 2, false}};
	const struct ledger_busy kernel = {70, 100, 70, LEDGER_COMPUTE, 0, "k", NULL};
	struct ledger_interval scratch[2];
	struct ledger l;

	ledger_init(&l);
	ledger_step(&l, 0, 100, &kernel, 1, threads, 2, scratch);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "file read"), 40);
	assert_int_equal(ns_of(&l, LEDGER_RUNNING, "backward"), 7);
	assert_int_equal(ns_of(&l, LEDGER_STOLEN, "NET_RX"), 3);
	/* for 20 ns each waits for the other: that ends somewhere, and is charged once */
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "futex"), 20);
	assert_int_equal(ledger_sum(&l), 100);
	ledger_fini(&l);
}

/* Of three waits the GPU's work covers one, and a part of the next two. The folded segment has twenty
 * waits, half of them in its idle pieces of 10 ns each. */
static void every_wait_is_counted_once_also_while_the_gpu_works(void **state)
{
	const struct ledger_share folded[] = {{LEDGER_BLOCKED, LEDGER_SLEEP, "nap", 1, 20}};
	const struct ledger_segment segments[] = {
	    {10, 30, LEDGER_BLOCKED, LEDGER_SLEEP, 0, "sync", NULL, 0},
	    {40, 70, LEDGER_BLOCKED, LEDGER_SLEEP, 0, "sync", NULL, 0},
	    {80, 110, LEDGER_BLOCKED, LEDGER_SLEEP, 0, "sync", NULL, 0},
	    {200, 1000, LEDGER_UNOBSERVED, LEDGER_NONE, 0, "", folded, 1}};
	const struct ledger_thread thread = {segments, 4, false};
	struct ledger_interval scratch[2 * 42];
	struct ledger_busy busy[42];
	uint32_t n = 0, naps = 0, syncs = 0;
	struct ledger l;

	busy[n++] = (struct ledger_busy){20, 60, 5, LEDGER_COMPUTE, 0, "k", NULL};
	busy[n++] = (struct ledger_busy){100, 200, 100, LEDGER_COMPUTE, 0, "k", NULL};
	for (uint64_t t = 210; t < 1000; t += 20, n++)
		busy[n] = (struct ledger_busy){t, t + 10, t, LEDGER_COMPUTE, 0, "k", NULL};
	ledger_init(&l);
	ledger_step(&l, 0, 1000, busy, n, &thread, 1, scratch);
	assert_int_equal(ledger_sum(&l), 1000);
	for (uint32_t i = 0; i < l.count; i++) {
		const char *name = ledger_name(&l, &l.account[i]);

		syncs += !strcmp(name, "sync") ? (uint32_t)l.account[i].count : 0;
		naps += !strcmp(name, "nap") ? (uint32_t)l.account[i].count : 0;
	}
	assert_int_equal(syncs, 3);
	assert_int_equal(naps, 20);
	assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "nap"), 400);
	ledger_fini(&l);
}

static void more_of_the_same_is_work_and_the_same_for_longer_is_speed(void **state)
{
	struct ledger_row rows[4];
	struct ledger slow, usual;

	ledger_init(&slow);
	ledger_init(&usual);
	slow.steps = usual.steps = 10;
	ledger_charge(&usual, LEDGER_COMPUTE, LEDGER_NONE, "same count", 1000, 10);
	ledger_charge(&slow, LEDGER_COMPUTE, LEDGER_NONE, "same count", 3000, 10);
	ledger_charge(&usual, LEDGER_COMPUTE, LEDGER_NONE, "twice as many", 1000, 10);
	ledger_charge(&slow, LEDGER_COMPUTE, LEDGER_NONE, "twice as many", 2000, 20);
	assert_int_equal(ledger_subtract(&slow, &usual, rows), 2);
	assert_string_equal(rows[0].name, "same count");
	assert_true(rows[0].excess_ns == 200 && rows[0].work_ns == 0);
	assert_string_equal(rows[1].name, "twice as many");
	assert_true(rows[1].excess_ns == 100 && rows[1].work_ns == 100);
	ledger_fini(&slow);
	ledger_fini(&usual);
}

/* Steps with 10, 20 and 30 ns of kernels that overlap in part. Weights add no steps. */
static void the_spread_of_the_steps_work_is_known(void **unused)
{
	struct ledger_interval scratch[4];
	struct ledger l, sum;

	ledger_init(&l);
	ledger_init(&sum);
	for (uint64_t ns = 10; ns <= 30; ns += 10) {
		const struct ledger_busy busy[] = {{20, 25, 20, LEDGER_COMPUTE, 0, "a", NULL},
						   {22, 20 + ns, 22, LEDGER_COMPUTE, 0, "b", NULL}};

		ledger_step(&l, 0, 100, busy, 2, NULL, 0, scratch);
	}
	ledger_add(&sum, &l, 5);
	assert_float_equal(ledger_compute_error(&l), 5.7735, 1e-3);
	assert_float_equal(ledger_compute_error(&sum), 5.7735, 1e-3);
	ledger_fini(&l);
	ledger_fini(&sum);
}

/* Three steps with 10 ns of kernels, and three of another kind with 60 ns. */
static void kinds_of_steps_that_differ_are_no_spread(void **unused)
{
	struct ledger_interval scratch[2];
	struct ledger kind[2], of_one, of_two;

	(void)unused;
	ledger_init(&of_one);
	ledger_init(&of_two);
	for (int k = 0; k < 2; k++) {
		const struct ledger_busy busy = {20, k ? 80 : 30, 20, LEDGER_COMPUTE, 0, "a", NULL};

		ledger_init(&kind[k]);
		for (int i = 0; i < 3; i++)
			ledger_step(&kind[k], 0, 100, &busy, 1, NULL, 0, scratch);
		ledger_add(&of_one, &kind[k], 1);
		ledger_add_kind(&of_two, &kind[k], 1);
		ledger_fini(&kind[k]);
	}
	assert_float_equal(ledger_compute_error(&of_one), 11.1803, 1e-3);
	assert_float_equal(ledger_compute_error(&of_two), 0, 1e-3);
	assert_int_equal(ledger_sum(&of_two), ledger_sum(&of_one));
	ledger_fini(&of_one);
	ledger_fini(&of_two);
}

/* Slow steps of twice the work: what remains is what the work does not explain. */
static void a_reference_is_scaled_to_the_work_of_the_slow_steps(void **state)
{
	const struct ledger_busy kernels[] = {{.begin_ns = 0,
					       .end_ns = 100,
					       .kind = LEDGER_COMPUTE,
					       .name = "k<int><<<8,1,1, 32,1,1>>>"},
					      {.begin_ns = 0,
					       .end_ns = 50,
					       .kind = LEDGER_COMPUTE,
					       .name = "k<int><<<4,1,1, 32,1,1>>>"}};
	struct ledger_interval scratch[16];
	struct ledger_row rows[16];
	struct ledger slow, usual;
	double excess = 0;
	uint32_t n;

	ledger_init(&slow);
	ledger_init(&usual);
	ledger_step(&slow, 0, 130, &kernels[0], 1, NULL, 0, scratch);
	ledger_step(&usual, 0, 50, &kernels[1], 1, NULL, 0, scratch);
	assert_true(ledger_work_ratio(&slow, &usual) == 1);
	ledger_state(&slow, 100);
	assert_true(ledger_work_ratio(&slow, &usual) == 1); /* one of them is not known */
	ledger_state(&usual, 50);
	assert_true(ledger_work_ratio(&slow, &usual) == 2);
	ledger_scale(&usual, 2);
	ledger_join_configurations(&slow);
	ledger_join_configurations(&usual);
	assert_true(ledger_work_ratio(&slow, &usual) == 1);
	n = ledger_subtract(&slow, &usual, rows);
	for (uint32_t i = 0; i < n; i++) {
		excess += rows[i].excess_ns;
		if (rows[i].kind == LEDGER_COMPUTE)
			assert_true(rows[i].excess_ns == 0);
	}
	assert_true(excess == 30);
	ledger_fini(&slow);
	ledger_fini(&usual);
}

static void the_fewest_accounts_explain_the_share_that_is_asked_for(void **state)
{
	struct ledger_row rows[] = {
	    {.excess_ns = 60}, {.excess_ns = 30}, {.excess_ns = 20}, {.excess_ns = -10}};

	assert_int_equal(ledger_explain(rows, 4, 0.5), 1);
	assert_int_equal(ledger_explain(rows, 4, 0.8), 2);
	assert_int_equal(ledger_explain(rows, 4, 1), 3);
	rows[3].excess_ns = -200;
	assert_int_equal(ledger_explain(rows, 4, 0.8), 0); /* faster on the whole */
}

static void names_without_end_go_to_their_kinds_rest(void **state)
{
	struct ledger l;
	char name[600];

	ledger_init(&l);
	for (int i = 0; i < 5000; i++) {
		memset(name, 'x', sizeof(name));
		name[599] = '\0';
		snprintf(name, sizeof(name), "%d%s", i, i & 1 ? "" : "a long name that goes on");
		ledger_charge(&l, i & 1 ? LEDGER_COMPUTE : LEDGER_BLOCKED, LEDGER_NONE, name, 7, 1);
	}
	for (unsigned k = 0; k < LEDGER_KINDS; k++)
		ledger_charge(&l, k, LEDGER_NONE, "", 1, 0);
	assert_true(l.count <= LEDGER_ACCOUNTS_MAX);
	assert_int_equal(ledger_sum(&l), 5000 * 7 + LEDGER_KINDS);
	assert_true(ledger_bytes(&l) <
		    LEDGER_ACCOUNTS_MAX * (sizeof(struct ledger_account) + LEDGER_NAME_BYTES) * 3);
	ledger_fini(&l);
}

/* As a job whose sequences have a length of their own in each step has them. */
static void launch_configurations_without_room_are_one_account(void **unused)
{
	struct ledger l, usual;
	struct ledger_row rows[3];
	char name[64];

	(void)unused;
	ledger_init(&l);
	ledger_init(&usual);
	for (unsigned i = 1; i <= 5000; i++) {
		snprintf(name, sizeof(name), "gemm<int><<<%u,1,1, 256,1,1>>>", i);
		ledger_charge(&l, LEDGER_COMPUTE, LEDGER_NONE, name, 7, 1);
		if (i <= 3)
			ledger_charge(&usual, LEDGER_COMPUTE, LEDGER_NONE, name, 7, 1);
	}
	ledger_charge(&l, LEDGER_BLOCKED, LEDGER_SLEEP, "wait", 9, 1);
	l.steps = 5000;
	usual.steps = 3;
	assert_true(l.count < LEDGER_ACCOUNTS_MAX);
	ledger_join_configurations(&l);
	ledger_join_configurations(&usual);
	assert_int_equal(ledger_subtract(&l, &usual, rows), 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_string_equal(rows[i].name,
				    rows[i].kind == LEDGER_COMPUTE ? "gemm<int>" : "wait");
		assert_true(rows[i].slow_count == (rows[i].kind == LEDGER_COMPUTE ? 1 : 1 / 5000.));
	}
	ledger_fini(&l);
	ledger_fini(&usual);
}

/* As the painted steps do, whatever the thread did and whenever the launch was. */
static void an_open_interval_adds_up(void **unused)
{
	for (int i = 0; i < 3000; i++) {
		struct excerpt p;
		struct ledger l;

		draw_excerpt(&p);
		struct ledger_thread host = {p.segment, p.segment_count, false};
		struct ledger_busy unfinished = {
		    .launch_ns = draw(2 * TIMELINE), .kind = LEDGER_COMPUTE, .name = "endless"};

		ledger_init(&l);
		ledger_open(&l, p.begin, p.end, i % 3 ? &unfinished : NULL, &host, i % 5 != 0,
			    i % 2);
		assert_int_equal(ledger_sum(&l), p.end > p.begin ? p.end - p.begin : 0);
		assert_int_equal(l.total_ns, ledger_sum(&l));
		ledger_fini(&l);
	}
}

/* Two slow steps against four healthy ones. */
static void a_stretch_changes_the_excess_of_every_account(void **unused)
{
	static const struct {
		double factor;
		uint64_t slept, ran, polled, copied; /* by the slow steps */
	} cases[] = {
	    {1, 80, 20, 0, 6}, {0.5, 40, 20, 5, 8}, {2, 160, 20, 0, 2}, {4, 320, 20, 0, 0}};
	struct ledger healthy;

	ledger_init(&healthy);
	ledger_charge(&healthy, LEDGER_RUNNING, LEDGER_NONE, "f", 40, 0);
	ledger_charge(&healthy, LEDGER_BLOCKED, LEDGER_POLL, "p", 20, 4);
	ledger_charge(&healthy, LEDGER_COPY, LEDGER_NONE, "c", 20, 8);
	healthy.steps = 4;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ledger l;

		ledger_init(&l);
		ledger_charge(&l, LEDGER_RUNNING, LEDGER_NONE, "f", 20, 0);
		ledger_charge(&l, LEDGER_BLOCKED, LEDGER_SLEEP, "s", 80, 2);
		ledger_charge(&l, LEDGER_COPY, LEDGER_NONE, "c", 6, 4);
		l.steps = 2;
		ledger_stretch(&l, &healthy, cases[i].factor);
		assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "s"), cases[i].slept);
		assert_int_equal(ns_of(&l, LEDGER_RUNNING, "f"), cases[i].ran);
		assert_int_equal(ns_of(&l, LEDGER_BLOCKED, "p"), cases[i].polled);
		assert_int_equal(ns_of(&l, LEDGER_COPY, "c"), cases[i].copied);
		assert_int_equal(l.total_ns, ledger_sum(&l));
		assert_int_equal(l.steps, 2);
		ledger_fini(&l);
	}
	ledger_fini(&healthy);
}

static void a_reference_gets_the_work_of_the_slow_steps(void **unused)
{
	static const struct {
		double most_ns;
		uint64_t small, large;
	} cases[] = {{1e9, 2000, 1500}, {750, 1600, 900}, {0, 1000, 0}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ledger slow, usual;
		struct ledger_row rows[8];
		uint32_t n;

		ledger_init(&slow);
		ledger_init(&usual);
		slow.steps = usual.steps = 2;
		/* twice as often as before, and a new size */
		ledger_charge(&usual, LEDGER_COMPUTE, LEDGER_NONE, "gemm<<<8>>>", 1000, 10);
		ledger_charge(&slow, LEDGER_COMPUTE, LEDGER_NONE, "gemm<<<8>>>", 3000, 20);
		ledger_charge(&slow, LEDGER_COMPUTE, LEDGER_NONE, "gemm<<<16>>>", 1500, 4);
		ledger_charge(&usual, LEDGER_COMPUTE, LEDGER_NONE, "norm<<<8>>>", 300, 2);
		ledger_charge(&slow, LEDGER_COMPUTE, LEDGER_NONE, "norm<<<8>>>", 900, 2);
		assert_int_equal(ledger_same_work(&slow, &usual, cases[i].most_ns), 0);
		assert_int_equal(ns_of(&usual, LEDGER_COMPUTE, "gemm<<<8>>>"), cases[i].small);
		assert_int_equal(ns_of(&usual, LEDGER_COMPUTE, "gemm<<<16>>>"), cases[i].large);
		assert_int_equal(ns_of(&usual, LEDGER_COMPUTE, "norm<<<8>>>"), 300);
		assert_int_equal(ns_of(&slow, LEDGER_COMPUTE, "norm<<<8>>>"), 900);
		n = ledger_subtract(&slow, &usual, rows);
		for (uint32_t k = 0; k < n; k++)
			if (!strcmp(rows[k].name, "gemm<<<8>>>"))
				assert_float_equal(rows[k].reference_count, 5, 1e-9);
		ledger_fini(&slow);
		ledger_fini(&usual);
	}
}

static void an_account_reads_as_a_phrase(void **unused)
{
	char text[80];

	ledger_account_text(LEDGER_BLOCKED, "file lock", "save", text, sizeof(text));
	assert_string_equal(text, "host blocked (file lock) in save");
	ledger_account_text(LEDGER_RUNNABLE, "", "stress", text, sizeof(text));
	assert_string_equal(text, "host waits for a CPU taken by stress");
	ledger_account_text(LEDGER_COLLECTIVE, "transfer", "", text, sizeof(text));
	assert_string_equal(text, "collective (transfer)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_nanosecond_is_charged_once_and_to_the_right_account),
	    cmocka_unit_test(a_name_is_of_the_function_at_its_end),
	    cmocka_unit_test(a_sum_of_ledgers_is_the_ledger_of_all_steps),
	    cmocka_unit_test(excesses_add_up_to_the_slowdown),
	    cmocka_unit_test(scaling_time_scales_milliseconds_and_nothing_else),
	    cmocka_unit_test(a_wait_for_another_thread_is_what_that_thread_did),
	    cmocka_unit_test(of_a_helper_only_its_waits_for_the_outside_count),
	    cmocka_unit_test(so_do_the_short_waits_of_a_helper),
	    cmocka_unit_test(every_wait_is_counted_once_also_while_the_gpu_works),
	    cmocka_unit_test(more_of_the_same_is_work_and_the_same_for_longer_is_speed),
	    cmocka_unit_test(the_spread_of_the_steps_work_is_known),
	    cmocka_unit_test(kinds_of_steps_that_differ_are_no_spread),
	    cmocka_unit_test(the_fewest_accounts_explain_the_share_that_is_asked_for),
	    cmocka_unit_test(a_reference_is_scaled_to_the_work_of_the_slow_steps),
	    cmocka_unit_test(names_without_end_go_to_their_kinds_rest),
	    cmocka_unit_test(launch_configurations_without_room_are_one_account),
	    cmocka_unit_test(an_open_interval_adds_up),
	    cmocka_unit_test(a_stretch_changes_the_excess_of_every_account),
	    cmocka_unit_test(a_reference_gets_the_work_of_the_slow_steps),
	    cmocka_unit_test(an_account_reads_as_a_phrase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
