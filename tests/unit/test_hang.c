/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/slow/hang.h"
#include "model/record.h"

#define S     1000000000ull
#define UNIX  (1800000000ull * S)
#define BOUND (20 * S)
#define ALIVE (15 * S)

static struct hang *hang;
static int64_t skew_s; /* of the nodes' realtime clocks */
static uint64_t now_s;
static struct finding_report last;
static uint32_t reports;

static int setup(void **unused)
{
	now_s = 1000;
	reports = 0;
	skew_s = 0;
	return hang_open(&hang, "job");
}

static int teardown(void **unused)
{
	hang_close(hang);
	return 0;
}

/* A communicator whose last call was at call_s of the node's clock; done: it ended a second later.
 */
static struct beat_comm comm(uint64_t id, uint32_t ranks, uint64_t entered, uint32_t func,
			     uint64_t bytes, uint64_t call_s, bool done)
{
	return (struct beat_comm){.comm = id,
				  .ranks = ranks,
				  .entered = entered,
				  .ended = done ? entered : entered - 1,
				  .func = func,
				  .seq = (uint32_t)entered - 1,
				  .bytes = bytes,
				  .call_ns = call_s * S,
				  .done_ns = done ? (call_s + 1) * S : 0};
}

static void push(uint32_t rank, uint64_t steps, const struct beat_comm *comms, uint32_t count)
{
	static struct beat_rank b;

	memset(&b, 0, sizeof(b));
	b.rank.rank = (int32_t)rank;
	b.steps = steps;
	memcpy(b.comms, comms, count * sizeof(*comms));
	b.comm_count = count;
	assert_int_equal(hang_push(hang, rank, &b, (int64_t)steps - 1,
				   (int64_t)UNIX + skew_s * (int64_t)S, now_s * S, now_s * S),
			 0);
}

static void tick(void)
{
	hang_tick(hang, BOUND, ALIVE, now_s * S);
	while (hang_next(hang, &last))
		reports++;
}

/* The same with what the rank's GPU does not end. */
static void push_unfinished(uint32_t rank, uint64_t steps, const struct beat_comm *comms,
			    uint32_t count, uint32_t kind, uint64_t launch_s, const char *name)
{
	static struct beat_rank b;

	memset(&b, 0, sizeof(b));
	b.rank.rank = (int32_t)rank;
	b.steps = steps;
	if (count)
		memcpy(b.comms, comms, count * sizeof(*comms));
	b.comm_count = count;
	b.unfinished.kind = kind;
	b.unfinished.launch_ns = launch_s * S;
	b.unfinished.stream = 13;
	snprintf(b.unfinished.name, sizeof(b.unfinished.name), "%s", name);
	assert_int_equal(hang_push(hang, rank, &b, (int64_t)steps - 1,
				   (int64_t)UNIX + skew_s * (int64_t)S, now_s * S, now_s * S),
			 0);
}

/* Everybody says the same for `seconds`, every 5 s. */
static void hold(uint64_t seconds, void (*say)(void))
{
	uint64_t until = now_s + seconds;

	for (; now_s < until; now_s++) {
		if (now_s % 5 == 0)
			say();
		tick();
	}
}

static void expect(enum finding_cause cause, const int *ranks, uint32_t count)
{
	assert_true(reports > 0);
	assert_int_equal(last.finding.kind, FINDING_HANG);
	assert_int_equal(last.finding.cause, cause);
	assert_int_equal(last.finding.rank_count, count);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(last.finding.ranks[i], ranks[i]);
	assert_true(last.finding.evidence_count > 0);
}

/* ---- one rank stays away ---- */

static void say_missing(void)
{
	for (uint32_t r = 0; r < 8; r++) {
		struct beat_comm c =
		    r == 5 ? comm(1, 8, 99, RECORD_COLL_ALL_REDUCE, 4096, 990, true)
			   : comm(1, 8, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		push(r, 50, &c, 1);
	}
}

static void names_the_rank_that_has_not_entered(void **unused)
{
	const int guilty[] = {5};

	hold(20, say_missing);
	assert_int_equal(reports, 0); /* not before the bound */
	hold(15, say_missing);
	expect(CAUSE_HANG_MISSING, guilty, 1);
	assert_int_equal(last.begin_unix_ns, UNIX + 1000 * S);
	assert_int_equal(last.finding.first_step, 49);
	assert_false(last.ended);
}

/* The node's own clock says how long somebody waits. */
static void clocks_that_stand_apart_give_the_same(void **unused)
{
	static const int64_t skews_s[] = {-3600, -15, 30, 3600};
	const int guilty[] = {5};

	for (int i = 0; i < 4; i++) {
		teardown(NULL);
		setup(NULL);
		skew_s = skews_s[i];
		hold(20, say_missing);
		assert_int_equal(reports, 0);
		hold(15, say_missing);
		expect(CAUSE_HANG_MISSING, guilty, 1);
		assert_true(last.begin_unix_ns == UNIX + (uint64_t)(1000 + skew_s) * S);
		assert_true(last.finding.effect_ns < 36e9);
	}
}

/* Steps may not be found, as of a server whose batches change; the kernels of its GPU end all the same. */
static void who_ends_kernels_has_lost_a_record_of_one(void **unused)
{
	static struct beat_rank b;

	for (uint32_t i = 0; i < 60; i++, now_s++) {
		struct beat_comm c = comm(1, 2, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		for (int32_t r = 0; r < 2; r++) {
			b = (struct beat_rank){.rank.rank = r, .steps = 50, .comm_count = 1};
			b.comms[0] = c;
			b.kernels_joined = 1000 + i;
			assert_int_equal(hang_push(hang, (uint32_t)r, &b, 49, (int64_t)UNIX,
						   now_s * S, now_s * S),
					 0);
		}
		tick();
	}
	assert_int_equal(reports, 0);
}

/* A rank that crashed has not entered since it has ended; when all have, nobody waits any more. */
static void names_a_rank_whose_process_has_ended(void **unused)
{
	hold(15, say_missing);
	hang_end(hang, 5);
	for (uint32_t i = 0; i < 15; i++, now_s++) {
		for (uint32_t r = 0; r < 8; r++) {
			struct beat_comm c =
			    comm(1, 8, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

			if (r != 5)
				push(r, 50, &c, 1);
		}
		tick();
	}
	assert_true(reports > 0);
	assert_int_equal(last.finding.ranks[0], 5);
	assert_string_equal(last.finding.evidence[1].text, "rank 5: its process has ended");
	assert_int_equal(hang_since_ns(hang), 1000 * S);
	for (uint32_t r = 0; r < 8; r++)
		hang_end(hang, r);
	tick();
	assert_true(last.ended);
	assert_int_equal(hang_since_ns(hang), 0);
}

static void say_gone_on(void)
{
	for (uint32_t r = 0; r < 8; r++) {
		struct beat_comm c = comm(1, 8, 101, RECORD_COLL_ALL_REDUCE, 4096, now_s - 1, true);

		push(r, 51, &c, 1);
	}
}

static void ends_when_the_job_goes_on(void **unused)
{
	hold(40, say_missing);
	assert_true(reports > 0 && !last.ended);
	hold(10, say_gone_on);
	assert_true(last.ended);
	assert_false(hang_is_open(hang));
	reports = 0;
	hold(60, say_gone_on);
	assert_int_equal(reports, 0);
}

static void reports_it_again_while_it_lasts(void **unused)
{
	hold(75, say_missing);
	assert_true(reports >= 4 && reports <= 7);
}

/* ---- others ---- */

static void say_other_function(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    comm(1, 4, 100, r == 2 ? RECORD_COLL_ALL_GATHER : RECORD_COLL_ALL_REDUCE, 4096,
			 1000, false);

		push(r, 50, &c, 1);
	}
}

static void say_other_bytes(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, r == 3 ? 2048 : 4096, 1000, false);

		push(r, 50, &c, 1);
	}
}

/* Rank 2 has an additional call, so it has entered one collective more than the others. */
static void say_one_more(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    comm(1, 4, r == 2 ? 102 : 101, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		c.ended = 99;
		c.open_func = r == 2 ? RECORD_COLL_BROADCAST : RECORD_COLL_ALL_REDUCE;
		c.open_bytes = 4096;
		push(r, 50, &c, 1);
	}
}

static void names_the_rank_whose_call_differs(void **unused)
{
	const int function[] = {2}, bytes[] = {3};

	hold(40, say_one_more);
	expect(CAUSE_HANG_MISMATCH, function, 1);
	assert_non_null(strstr(last.finding.evidence[0].text, "3 of 4 ranks wait in AllReduce"));
	assert_non_null(strstr(last.finding.evidence[1].text, "called Broadcast"));
	hang_close(hang);
	assert_int_equal(hang_open(&hang, "job"), 0);
	now_s = 1000;

	hold(40, say_other_function);
	expect(CAUSE_HANG_MISMATCH, function, 1);
	assert_non_null(strstr(last.finding.evidence[0].text, "AllReduce"));
	reports = 0;
	hang_close(hang);
	assert_int_equal(hang_open(&hang, "job"), 0);
	now_s = 1000;
	hold(40, say_other_bytes);
	expect(CAUSE_HANG_MISMATCH, bytes, 1);
}

/* Collective 100 differs at rank 2; all go on to enter three more of the same kind. With type: only
 * its elements do. */
static void say_differs_before(bool type)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c = comm(1, 4, 103, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		c.ended = 99;
		c.open_func = r == 2 && !type ? RECORD_COLL_ALL_GATHER : RECORD_COLL_ALL_REDUCE;
		c.open_seq = r == 2 && !type ? 0 : 99;
		c.open_bytes = 8192;
		c.open_dtype = r == 2 && type ? 7 : 10;
		push(r, 50, &c, 1);
	}
}

static void say_function_differs_before(void)
{
	say_differs_before(false);
}

static void say_type_differs_before(void)
{
	say_differs_before(true);
}

static void looks_at_the_first_call_that_did_not_end(void **unused)
{
	const int guilty[] = {2};

	hold(40, say_function_differs_before);
	expect(CAUSE_HANG_MISMATCH, guilty, 1);
	assert_non_null(strstr(last.finding.evidence[0].text, "AllReduce 99 (8192 bytes)"));
	assert_non_null(strstr(last.finding.evidence[1].text, "AllGather"));
	assert_non_null(strstr(last.finding.evidence[1].text, "number 100 of"));
	hang_close(hang);
	assert_int_equal(hang_open(&hang, "job"), 0);
	now_s = 1000;
	hold(40, say_type_differs_before);
	expect(CAUSE_HANG_MISMATCH, guilty, 1);
	assert_non_null(strstr(last.finding.evidence[1].text, "8192 bytes (float16) where"));
	assert_non_null(strstr(last.finding.evidence[1].text, "8192 bytes (bfloat16): call"));
}

static void say_transfer(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c = comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		push(r, 50, &c, 1);
	}
}

static void blames_nobody_when_all_are_in(void **unused)
{
	hold(40, say_transfer);
	expect(CAUSE_HANG_TRANSFER, NULL, 0);
}

/* Stages 0-1 and 2-3 share pairs; 0-2 and 1-3 too. Rank 3 stays away from its pair with 1; rank 1
 * waits there and so stays away from its pair with 0, which waits too. */
static void say_chain(void)
{
	struct beat_comm zero[] = {comm(1, 2, 100, RECORD_COLL_ALL_REDUCE, 8, 1000, false),
				   comm(3, 2, 50, RECORD_COLL_ALL_REDUCE, 8, 990, true)};
	struct beat_comm one[] = {comm(1, 2, 99, RECORD_COLL_ALL_REDUCE, 8, 990, true),
				  comm(4, 2, 60, RECORD_COLL_ALL_REDUCE, 8, 999, false)};
	struct beat_comm two[] = {comm(2, 2, 70, RECORD_COLL_ALL_REDUCE, 8, 1001, false),
				  comm(3, 2, 50, RECORD_COLL_ALL_REDUCE, 8, 990, true)};
	struct beat_comm three[] = {comm(2, 2, 69, RECORD_COLL_ALL_REDUCE, 8, 990, true),
				    comm(4, 2, 59, RECORD_COLL_ALL_REDUCE, 8, 990, true)};

	push(0, 50, zero, 2);
	push(1, 50, one, 2);
	push(2, 50, two, 2);
	push(3, 50, three, 2);
}

static void follows_who_waits_for_whom_to_the_root(void **unused)
{
	const int guilty[] = {3};

	hold(40, say_chain);
	expect(CAUSE_HANG_MISSING, guilty, 1);
}

static void say_crossed(void)
{
	struct beat_comm zero[] = {comm(1, 2, 100, RECORD_COLL_ALL_REDUCE, 8, 1000, false),
				   comm(2, 2, 50, RECORD_COLL_ALL_REDUCE, 8, 990, true)};
	struct beat_comm one[] = {comm(1, 2, 99, RECORD_COLL_ALL_REDUCE, 8, 990, true),
				  comm(2, 2, 51, RECORD_COLL_ALL_REDUCE, 8, 1000, false)};

	push(0, 50, zero, 2);
	push(1, 50, one, 2);
}

static void calls_a_circle_of_waiting_a_mismatch(void **unused)
{
	hold(40, say_crossed);
	assert_true(reports > 0);
	assert_int_equal(last.finding.cause, CAUSE_HANG_MISMATCH);
}

/* ---- kernels that do not end ---- */

static bool says(const char *text)
{
	for (uint32_t i = 0; i < last.finding.evidence_count; i++)
		if (strstr(last.finding.evidence[i].text, text))
			return true;
	return false;
}

/* All have entered; behind rank 2's collective lies its kernel. */
static void say_stuck_entered(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c = comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		push_unfinished(r, 50, &c, 1,
				r == 2 ? BEAT_UNFINISHED_KERNEL : BEAT_UNFINISHED_COLLECTIVE,
				r == 2 ? 999 : 1000, r == 2 ? "gemm_bf16" : "AllReduce");
	}
}

/* Rank 2's host waits for its kernel and has not entered. */
static void say_stuck_before(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    r == 2 ? comm(1, 4, 99, RECORD_COLL_ALL_REDUCE, 4096, 990, true)
			   : comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		push_unfinished(r, 50, &c, 1,
				r == 2 ? BEAT_UNFINISHED_KERNEL : BEAT_UNFINISHED_COLLECTIVE,
				r == 2 ? 999 : 1000, r == 2 ? "gemm_bf16" : "AllReduce");
	}
}

static void names_the_kernel_that_does_not_end(void **unused)
{
	const int guilty[] = {2};
	void (*const say[])(void) = {say_stuck_entered, say_stuck_before};

	for (size_t i = 0; i < 2; i++) {
		hang_close(hang);
		assert_int_equal(hang_open(&hang, "job"), 0);
		now_s = 1000;
		reports = 0;
		hold(20, say[i]);
		assert_int_equal(reports, 0);
		hold(15, say[i]);
		expect(CAUSE_HANG_KERNEL, guilty, 1);
		assert_true(says("gemm_bf16"));
		assert_true(says("3 of 4 ranks wait") || says("4 of 4 ranks wait"));
		hold(10, say_gone_on);
		assert_true(last.ended);
	}
}

/* Rank 2 lies in two communicators: in one it has entered behind its kernel, in the other it is
 * missing. */
static void say_stuck_twice(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c[] = {
		    comm(r < 2 ? 1 : 2, 2, 100, RECORD_COLL_ALL_REDUCE, 8, 1000, false),
		    comm(r % 2 ? 4 : 3, 2, r == 0 ? 51 : 50, RECORD_COLL_ALL_REDUCE, 8,
			 r == 0 ? 1001 : 990, r != 0)};

		if (r < 2)
			c[0] = comm(1, 2, 100, RECORD_COLL_ALL_REDUCE, 8, 995, true);
		push_unfinished(r, 50, c, 2,
				r == 1	 ? BEAT_UNFINISHED_NONE
				: r == 2 ? BEAT_UNFINISHED_KERNEL
					 : BEAT_UNFINISHED_COLLECTIVE,
				999, r == 2 ? "flash_attention" : "");
	}
}

static void a_stuck_kernel_explains_every_communicator_of_its_rank(void **unused)
{
	const int guilty[] = {2};

	hold(40, say_stuck_twice);
	expect(CAUSE_HANG_KERNEL, guilty, 1);
	assert_true(says("flash_attention"));
}

/* Rank 3 does nothing at all; that rank 1's last kernel has no record is its loss. */
static void say_absent_and_lost(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    r == 3 ? comm(1, 4, 99, RECORD_COLL_ALL_REDUCE, 4096, 990, true)
			   : comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		push_unfinished(r, 50, &c, 1,
				r == 3	 ? BEAT_UNFINISHED_NONE
				: r == 1 ? BEAT_UNFINISHED_KERNEL
					 : BEAT_UNFINISHED_COLLECTIVE,
				999, "relu");
	}
}

static void who_stays_away_with_an_idle_gpu_is_the_cause(void **unused)
{
	const int guilty[] = {3};

	hold(40, say_absent_and_lost);
	expect(CAUSE_HANG_MISSING, guilty, 1);
}

static void say_alone(void)
{
	push_unfinished(0, 50, NULL, 0, BEAT_UNFINISHED_KERNEL, 1000, "gemm");
}

static void say_alone_graph(void)
{
	push_unfinished(0, 50, NULL, 0, BEAT_UNFINISHED_GRAPH, 1000, "");
}

static uint64_t own_steps;

static void say_alone_goes_on(void)
{
	push_unfinished(0, ++own_steps, NULL, 0, BEAT_UNFINISHED_KERNEL, 1000, "server_on_the_gpu");
}

static void a_job_of_one_rank_has_stuck_kernels_too(void **unused)
{
	const int guilty[] = {0};

	hold(60, say_alone_graph); /* of a graph nobody knows what it waits for */
	hold(60, say_alone_goes_on);
	assert_int_equal(reports, 0);
	now_s = 1000;
	hang_drop(hang, 0);
	hold(40, say_alone);
	expect(CAUSE_HANG_KERNEL, guilty, 1);
}

static bool silent;

static void say_silent(void)
{
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    r == 1 ? comm(1, 4, 99, RECORD_COLL_ALL_REDUCE, 4096, 990, true)
			   : comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		if (r != 1 || !silent)
			push(r, 50, &c, 1);
		if (r == 1)
			silent = true;
	}
}

static void says_that_the_missing_rank_is_silent(void **unused)
{
	const int guilty[] = {1};
	bool said = false;

	silent = false;
	hold(40, say_silent);
	expect(CAUSE_HANG_MISSING, guilty, 1);
	for (uint32_t i = 0; i < last.finding.evidence_count; i++)
		said |= strstr(last.finding.evidence[i].text, "no beat") != NULL;
	assert_true(said);
	assert_true(last.finding.confidence < 0.9);
}

/* ---- what is none ---- */

static void say_idle(void)
{
	/* a job that has done its work: everybody is through; rank 2's last kernel record was lost
	 */
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c = comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, r != 2);

		push(r, 50, &c, 1);
	}
}

static void say_blind(void)
{
	/* no kernel of this job was ever seen to end */
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c = comm(1, 4, 100 + r, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		c.ended = 0;
		push(r, 50, &c, 1);
	}
}

static void say_pipeline(void)
{
	/* each side counts its own sends and receives */
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c =
		    comm(1, 4, 100 * r + 5, r % 2 ? RECORD_COLL_SEND : RECORD_COLL_RECV, 4096, 1000,
			 false);

		push(r, 50, &c, 1);
	}
}

static uint64_t steps;

static void say_lost_record(void)
{
	/* a communicator used once an epoch, whose last kernel nobody saw: the steps go on */
	steps += 50;
	for (uint32_t r = 0; r < 4; r++) {
		struct beat_comm c = comm(1, 4, 100, RECORD_COLL_ALL_REDUCE, 4096, 1000, false);

		push(r, steps, &c, 1);
	}
}

static void stays_silent_where_nothing_hangs(void **unused)
{
	void (*const say[])(void) = {say_idle, say_blind, say_pipeline, say_lost_record};

	for (size_t i = 0; i < sizeof(say) / sizeof(say[0]); i++) {
		hang_close(hang);
		assert_int_equal(hang_open(&hang, "job"), 0);
		now_s = 1000;
		hold(120, say[i]);
		assert_int_equal(reports, 0);
	}
}

/* The last beats of a job: of other moments, with work under way. */
static void a_job_that_ended_does_not_hang(void **unused)
{
	struct beat_comm early = comm(7, 3, 990, RECORD_COLL_ALL_REDUCE, 4096, now_s - 1, false);
	struct beat_comm late = comm(7, 3, 1000, RECORD_COLL_ALL_REDUCE, 4096, now_s, false);

	push(0, 99, &early, 1);
	push(1, 100, &late, 1);
	push(2, 100, &late, 1);
	push_unfinished(3, 100, NULL, 0, BEAT_UNFINISHED_KERNEL, now_s, "long");
	for (; now_s < 1120; now_s++)
		tick();
	assert_int_equal(reports, 0);
	assert_false(hang_is_open(hang));
}

static void refuses_impossible_numbers(void **unused)
{
	struct beat_comm c[] = {comm(1, 8, 1, RECORD_COLL_ALL_REDUCE, 1, 1000, false),
				comm(2, UINT32_MAX, 1, RECORD_COLL_ALL_REDUCE, 1, 1000, false),
				comm(3, 8, 1, RECORD_COLL_ALL_REDUCE, 1, 1000, false)};
	struct hang_stats s;

	push_unfinished(1, 1, NULL, 0, BEAT_UNFINISHED_KERNEL, UINT64_MAX / S, "x");
	c[0].ended = 2;
	c[2].call_ns = UINT64_MAX;
	push(0, 1, c, 3);
	hang_stats(hang, &s);
	assert_int_equal(s.bad, 4);
	assert_int_equal(s.comms, 0);
	hang_drop(hang, 0);
	hang_drop(hang, 12345);
	tick();
	assert_int_equal(reports, 0);
}

static void say_ending(void)
{
	struct beat_comm c = comm(7, 4, 1000, RECORD_COLL_ALL_REDUCE, 4096, 1003, false);

	for (uint32_t r = 0; r < 4; r++)
		push(r, 50, &c, 1);
}

/* The last collective's record does not come any more; nor does another beat. */
static void a_job_that_ends_does_not_hang(void **unused)
{
	hold(10, say_ending);
	for (; now_s < 1200; now_s++)
		tick();
	assert_int_equal(reports, 0);
}

/* What hung is over when nothing is heard of it: killed, that is. */
static void a_hang_ends_with_its_job(void **unused)
{
	hold(60, say_ending);
	assert_true(reports > 0 && !last.ended);
	assert_true(hang_is_open(hang));
	for (uint32_t i = 0; i < 30; i++, now_s++)
		tick();
	assert_true(last.ended);
	assert_false(hang_is_open(hang));
}

/* ---- collectives on the CPU ---- */

/* What the launch thread of each of 4 ranks is in since 1000 s; HELD: "host blocked (file lock)";
 * MESSAGE: recv(). */
static uint32_t blocked_in[4];
static uint64_t step_of[4];

static void say_blocked(void)
{
	for (uint32_t r = 0; r < 4; r++)
		push_unfinished(r, step_of[r], NULL, 0, blocked_in[r], 1000,
				blocked_in[r] == BEAT_UNFINISHED_HOST	   ? "all_reduce (comm.py)"
				: blocked_in[r] == BEAT_UNFINISHED_MESSAGE ? "recv (comm.py)"
				: blocked_in[r] == BEAT_UNFINISHED_HELD ? "host blocked (file lock)"
									: "");
}

static void all_in(uint32_t kind)
{
	for (uint32_t r = 0; r < 4; r++) {
		blocked_in[r] = kind;
		step_of[r] = 50;
	}
}

/* The network between them is cut. */
static void a_job_whose_ranks_all_wait_on_the_cpu_hangs(void **unused)
{
	all_in(BEAT_UNFINISHED_HOST);
	hold(20, say_blocked);
	assert_int_equal(reports, 0);
	hold(15, say_blocked);
	expect(CAUSE_HANG_TRANSFER, NULL, 0);
	assert_true(says("4 of 4 ranks wait in a collective on the CPU (all_reduce (comm.py))"));
	assert_int_equal(last.begin_unix_ns, UNIX + 1000 * S);
	all_in(BEAT_UNFINISHED_NONE);
	step_of[0] = 51;
	hold(5, say_blocked);
	assert_true(last.ended);
}

static void who_is_held_is_missing_from_a_collective_on_the_cpu(void **unused)
{
	const int guilty[] = {2};

	all_in(BEAT_UNFINISHED_HOST);
	blocked_in[2] = BEAT_UNFINISHED_HELD;
	hold(35, say_blocked);
	expect(CAUSE_HANG_MISSING, guilty, 1);
	assert_true(says("rank 2 has not entered it: host blocked (file lock)"));
}

/* Its process has ended, or its GPU has not. */
static void who_died_or_computes_for_ever_is_missing_as_well(void **unused)
{
	const int guilty[] = {2};

	all_in(BEAT_UNFINISHED_HOST);
	blocked_in[2] = BEAT_UNFINISHED_NONE;
	hold(5, say_blocked);
	hang_end(hang, 2);
	for (uint64_t until = now_s + 30; now_s < until; now_s++) {
		for (uint32_t r = 0; now_s % 5 == 0 && r < 4; r++)
			if (r != 2)
				push_unfinished(r, 50, NULL, 0, BEAT_UNFINISHED_HOST, 1000, "x");
		tick();
	}
	expect(CAUSE_HANG_MISSING, guilty, 1);
	assert_true(says("its process has ended"));
	hang_drop(hang, 2);
	hold(5, say_blocked);
	reports = 0;
	blocked_in[2] = BEAT_UNFINISHED_KERNEL;
	hold(35, say_blocked);
	expect(CAUSE_HANG_KERNEL, guilty, 1);
}

/* It waits for a message that no rank sends. A rank that waits for the message of a rank that something
 * holds is not the cause. */
static void who_waits_for_a_message_that_nobody_sends_is_missing(void **unused)
{
	const int guilty[] = {2, 3};

	all_in(BEAT_UNFINISHED_HOST);
	blocked_in[2] = BEAT_UNFINISHED_MESSAGE;
	hold(35, say_blocked);
	expect(CAUSE_HANG_MISSING, guilty, 1);
	assert_true(says("rank 2 has not entered it: recv (comm.py)"));
	blocked_in[3] = BEAT_UNFINISHED_HELD;
	hold(15, say_blocked);
	expect(CAUSE_HANG_MISSING, guilty + 1, 1);
}

/* A server: rank 0 has no requests, and the others wait for what it gets. Rank 0 evaluates or writes
 * a checkpoint. Ranks that nobody knows. */
static void ranks_that_wait_for_one_without_requests_do_not_hang(void **unused)
{
	all_in(BEAT_UNFINISHED_HOST);
	blocked_in[0] = BEAT_UNFINISHED_NONE;
	hold(600, say_blocked);
	for (uint64_t until = now_s + 60; now_s < until; now_s++) {
		step_of[0]++;
		say_blocked();
		tick();
	}
	assert_int_equal(reports, 0);
	/* It evaluates on its GPU: at each look there is another kernel. */
	for (uint64_t until = now_s + 60; now_s < until; now_s++) {
		say_blocked();
		push_unfinished(0, step_of[0], NULL, 0, BEAT_UNFINISHED_KERNEL, now_s - 1, "gemm");
		tick();
	}
	assert_int_equal(reports, 0);
	/* and with none that waits, whatever holds them */
	all_in(BEAT_UNFINISHED_HELD);
	hold(60, say_blocked);
	assert_int_equal(reports, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(who_ends_kernels_has_lost_a_record_of_one),
	    T(names_a_rank_whose_process_has_ended),
	    T(names_the_rank_that_has_not_entered),
	    T(ends_when_the_job_goes_on),
	    T(reports_it_again_while_it_lasts),
	    T(names_the_rank_whose_call_differs),
	    T(blames_nobody_when_all_are_in),
	    T(follows_who_waits_for_whom_to_the_root),
	    T(calls_a_circle_of_waiting_a_mismatch),
	    T(says_that_the_missing_rank_is_silent),
	    T(names_the_kernel_that_does_not_end),
	    T(looks_at_the_first_call_that_did_not_end),
	    T(a_stuck_kernel_explains_every_communicator_of_its_rank),
	    T(who_stays_away_with_an_idle_gpu_is_the_cause),
	    T(a_job_of_one_rank_has_stuck_kernels_too),
	    T(a_job_that_ends_does_not_hang),
	    T(a_hang_ends_with_its_job),
	    T(stays_silent_where_nothing_hangs),
	    T(refuses_impossible_numbers),
	    T(a_job_that_ended_does_not_hang),
	    T(clocks_that_stand_apart_give_the_same),
	    T(a_job_whose_ranks_all_wait_on_the_cpu_hangs),
	    T(who_is_held_is_missing_from_a_collective_on_the_cpu),
	    T(who_died_or_computes_for_ever_is_missing_as_well),
	    T(who_waits_for_a_message_that_nobody_sends_is_missing),
	    T(ranks_that_wait_for_one_without_requests_do_not_hang),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
