/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "model/beat_sample.h"
#include "node/beats.h"
#include "wire/codec.h"

#define S  1000000000ull
#define MS 1000000ull
#define T0 (1000 * S)

struct job {
	struct beats *b;
	uint64_t t, index;
};

static int setup(void **state)
{
	struct job *j = calloc(1, sizeof(*j));

	*state = j;
	j->t = T0;
	return beats_open(&j->b, 5 * S);
}

static int teardown(void **state)
{
	struct job *j = *state;

	beats_close(j->b);
	free(j);
	return 0;
}

static void step(struct job *j, uint64_t latency_ns, uint64_t self_ns, bool used, bool flagged)
{
	struct window_step ws = {.flags = flagged ? WINDOW_STEP_FLAGGED : 0};
	struct step *s = &ws.step;

	s->index = j->index++;
	s->begin_ns = j->t;
	s->end_ns = j->t += latency_ns;
	s->latency_ns = latency_ns;
	s->self_ns = self_ns;
	s->exposed_comm_ns = latency_ns - self_ns;
	s->compute_ns = self_ns / 2;
	s->launches = 40;
	beats_step(j->b, &ws, used);
}

static void coll(struct job *j, uint64_t comm, uint8_t func, uint32_t seq, uint64_t at_ns)
{
	struct record r = {.kind = RECORD_COLL,
			   .key = comm,
			   .func = func,
			   .seq = seq,
			   .bytes = 4096,
			   .begin_ns = at_ns,
			   .end_ns = at_ns + 1000,
			   .peer = -1};

	beats_host(j->b, &r);
}

static void kernel(struct job *j, uint64_t comm, uint8_t func, uint32_t seq, uint64_t at_ns)
{
	struct record r = {.kind = RECORD_COLL_KERNEL,
			   .key = comm,
			   .func = func,
			   .seq = seq,
			   .begin_ns = at_ns,
			   .end_ns = at_ns + 500000,
			   .launch_ns = at_ns - 9,
			   .peer = -1};

	beats_device(j->b, &r);
}

static void comm_born(struct job *j, uint64_t comm, uint32_t ranks, int16_t rank)
{
	struct record r = {
	    .kind = RECORD_COMM, .key = comm, .seq = 1, .bytes = ranks, .peer = rank};

	beats_host(j->b, &r);
}

static struct beat_rank *fill(struct job *j, uint64_t now_ns)
{
	static struct beat_rank r;

	memset(&r, 0, sizeof(r));
	strcpy(r.rank.job, "job");
	beats_fill(j->b, &r, now_ns);
	assert_in_range(wire_beat_rank_bytes(&r), 1, LIMIT_BEAT_BYTES_PER_RANK);
	return &r;
}

/* ---- groups ---- */

/* A job's first steps are short ones: no group is made for a pace that it never had. */
static void short_first_steps_make_no_large_group(void **state)
{
	struct job *j = *state;
	struct beat_rank *r;

	for (int i = 0; i < 4; i++)
		step(j, MS / 10, MS / 20, true, false);
	for (int i = 0; i < 36; i++)
		step(j, 500 * MS, 400 * MS, true, false);
	r = fill(j, j->t);
	assert_true(r->group_count >= 4);
	for (uint32_t i = 0; i < r->group_count; i++)
		assert_in_range(r->groups[i].count, 1, 16);
}

static void a_slow_job_has_a_group_per_step(void **state)
{
	struct job *j = *state;
	struct beat_rank *r;

	for (int i = 0; i < 10; i++)
		step(j, 500 * MS, 400 * MS + (uint64_t)i, true, i == 4);
	r = fill(j, j->t);
	assert_int_equal(r->group_count, 10);
	for (uint32_t i = 0; i < 10; i++) {
		const struct beat_group *g = &r->groups[i];

		assert_int_equal(g->first_step, i);
		assert_int_equal(g->count, 1);
		assert_int_equal(g->used, 1);
		assert_int_equal(g->flagged, i == 4);
		assert_int_equal(g->end_ns, T0 + (i + 1) * 500 * MS);
		assert_true(g->latency_ns == 500e6 && g->self_ns == 400e6 + i &&
			    g->self_mad_ns == 0);
		assert_true(g->exposed_comm_ns == 100e6 - i && g->kernels == 40);
	}
	assert_int_equal(fill(j, j->t)->group_count, 0);
}

/* 100 ms steps: 50 a period. Groups of two, each the mean of two, which is their median. */
static void groups_hold_medians_spread_and_counts(void **state)
{
	struct job *j = *state;
	struct beat_rank *r;

	for (int i = 0; i < 8; i++) /* where the pace is learned */
		step(j, 100 * MS, 80 * MS, true, false);
	fill(j, j->t);
	j->index = 16;
	step(j, 100 * MS, 80 * MS, true, false);
	step(j, 100 * MS, 90 * MS, true, true);
	step(j, 100 * MS, 70 * MS, true, false);
	step(j, 900 * MS, 10 * MS, false, true);
	step(j, 100 * MS, 70 * MS, true, false);
	r = fill(j, j->t);
	assert_int_equal(r->group_count, 2);
	assert_int_equal(r->groups[0].first_step, 16);
	assert_int_equal(r->groups[0].count, 2);
	assert_int_equal(r->groups[0].used, 2);
	assert_int_equal(r->groups[0].flagged, 1);
	assert_true(r->groups[0].self_ns == 85e6 && r->groups[0].self_mad_ns == 5e6);
	assert_int_equal(r->groups[1].used, 1); /* one says nothing about the rank */
	assert_int_equal(r->groups[1].flagged, 1);
	assert_true(r->groups[1].self_ns == 70e6 && r->groups[1].latency_ns == 100e6);
}

static void fast_jobs_have_groups_of_a_power_of_two_at_its_multiples(void **state)
{
	static const uint64_t latencies_ns[] = {300000, 7 * MS, 12 * MS, 100 * MS, 180 * MS, 7 * S};

	for (size_t k = 0; k < sizeof(latencies_ns) / sizeof(latencies_ns[0]); k++) {
		struct job own = {.t = T0, .index = 37}, *j = &own;
		uint64_t next = 0;

		assert_int_equal(beats_open(&j->b, 5 * S), 0);
		for (int beat = 0; beat < 6; beat++) {
			uint64_t until = j->t + 5 * S;
			struct beat_rank *r;

			while (j->t < until)
				step(j, latencies_ns[k], latencies_ns[k] / 2, true, false);
			r = fill(j, j->t);
			assert_in_range(r->group_count, 0, BEAT_GROUPS_MAX);
			if (beat >= 3 && latencies_ns[k] < 100 * MS)
				assert_in_range(r->group_count, 7, 30);
			for (uint32_t i = 0; i < r->group_count; i++) {
				const struct beat_group *g = &r->groups[i];

				assert_int_equal(g->count & (g->count - 1), 0);
				assert_int_equal(g->first_step % g->count, 0);
				assert_true(g->first_step >= next);
				if (beat >= 3)
					assert_int_equal(g->first_step, next); /* none is missing */
				next = g->first_step + g->count;
				assert_true(g->self_ns == (double)(latencies_ns[k] / 2));
			}
			next = r->group_count ? next : j->index;
		}
		beats_close(j->b);
	}
}

/* Two ranks of one pace, one of which began 13 steps earlier. */
static void ranks_of_one_pace_group_alike(void **state)
{
	struct job a = {.t = T0}, b = {.t = T0, .index = 13};
	uint32_t count = 0;

	assert_int_equal(beats_open(&a.b, 5 * S), 0);
	assert_int_equal(beats_open(&b.b, 5 * S), 0);
	for (int beat = 0; beat < 5; beat++) {
		struct beat_rank *r;

		for (int i = 0; i < 400; i++) {
			step(&a, 12 * MS + (uint64_t)(i % 7) * 90000, 9 * MS, true, false);
			step(&b, 12 * MS + (uint64_t)(i % 5) * 120000, 9 * MS, true, false);
		}
		r = fill(&a, a.t);
		count = r->groups[r->group_count - 1].count;
		r = fill(&b, b.t);
		if (beat >= 2)
			assert_int_equal(r->groups[r->group_count - 1].count, count);
	}
	beats_close(a.b);
	beats_close(b.b);
}

/* A pace of 12 ms that becomes 200 us within a beat: what does not fit is merged, not lost. */
static void merges_what_a_beat_has_no_room_for(void **state)
{
	struct job *j = *state;
	struct beats_stats st;
	struct beat_rank *r;
	uint64_t used = 0;

	for (int i = 0; i < 200; i++)
		step(j, 100 * MS, 80 * MS, true, false);
	beats_stats_get(j->b, &st);
	r = fill(j, j->t);
	assert_in_range(r->group_count, 16, BEAT_GROUPS_MAX);
	for (uint32_t i = 0; i < r->group_count; i++) {
		used += r->groups[i].used;
		assert_int_equal(r->groups[i].first_step % r->groups[i].count, 0);
		assert_true(r->groups[i].self_ns == 80e6);
	}
	assert_int_equal(used, 200);
	beats_stats_get(j->b, &st);
	assert_true(st.groups_merged > 0);
	assert_int_equal(st.groups_lost, 0);
}

/* ---- collectives ---- */

static void a_sampled_collective_has_its_kernel_and_its_step(void **state)
{
	struct job *j = *state;
	struct beat_rank *r;

	comm_born(j, 77, 8, 3);
	coll(j, 77, RECORD_COLL_ALL_REDUCE, 5, T0 + 10 * MS);
	coll(j, 77, RECORD_COLL_ALL_GATHER, 0, T0 + 110 * MS);
	assert_int_equal(fill(j, T0 + 120 * MS)->coll_count, 0); /* neither is known */
	kernel(j, 77, RECORD_COLL_ALL_REDUCE, 5, T0 + 20 * MS);
	kernel(j, 77, RECORD_COLL_ALL_GATHER, 0, T0 + 120 * MS);
	j->index = 30;
	step(j, 100 * MS, 80 * MS, true, false);
	r = fill(j, T0 + 200 * MS);
	assert_int_equal(r->coll_count, 1);
	assert_int_equal(r->colls[0].comm, 77);
	assert_int_equal(r->colls[0].seq, 5);
	assert_int_equal(r->colls[0].step, 30);
	assert_int_equal(r->colls[0].call_ns, T0 + 10 * MS);
	assert_int_equal(r->colls[0].begin_ns, T0 + 20 * MS);
	assert_int_equal(r->colls[0].end_ns, T0 + 20 * MS + 500000);
	/* the other's step does not come: it goes as it is, once */
	r = fill(j, T0 + 10 * S);
	assert_int_equal(r->coll_count, 1);
	assert_int_equal(r->colls[0].func, RECORD_COLL_ALL_GATHER);
	assert_int_equal(r->colls[0].step, UINT64_MAX);
	assert_int_equal(fill(j, T0 + 11 * S)->coll_count, 0);
}

struct key {
	uint64_t comm;
	uint32_t func, seq;
};

/* One rank: `comms` communicators, each with `per_step` all-reduces a step. What it sent, at most max. */
static uint32_t sent_by(uint32_t comms, uint32_t per_step, struct key *out, uint32_t max)
{
	struct job own = {.t = T0}, *j = &own;
	uint32_t n = 0, seq = 0;

	assert_int_equal(beats_open(&j->b, 5 * S), 0);
	for (int beat = 0; beat < 12; beat++) {
		struct beat_rank *r;

		for (int i = 0; i < 50; i++) {
			for (uint32_t k = 0; k < per_step; k++, seq++)
				for (uint32_t c = 0; c < comms; c++) {
					coll(j, 1000 + c, RECORD_COLL_ALL_REDUCE, seq,
					     j->t + k * 1000);
					kernel(j, 1000 + c, RECORD_COLL_ALL_REDUCE, seq,
					       j->t + k * 1000 + 500);
				}
			step(j, 100 * MS, 80 * MS, true, false);
		}
		r = fill(j, j->t);
		assert_in_range(r->coll_count, 0, BEAT_COLLS_MAX);
		if (beat >= 2)
			assert_true(r->coll_count > 0);
		for (uint32_t i = 0; i < r->coll_count && beat >= 4 && n < max; i++)
			out[n++] =
			    (struct key){r->colls[i].comm, r->colls[i].func, r->colls[i].seq};
	}
	beats_close(j->b);
	return n;
}

static bool has(const struct key *list, uint32_t n, const struct key *k)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].comm == k->comm && list[i].func == k->func && list[i].seq == k->seq)
			return true;
	return false;
}

/* A rank with many more communicators samples less of each; of what both entered, the sets are nested. */
static void ranks_with_other_loads_sample_nested_sets(void **state)
{
	static struct key few[1024], many[1024];
	uint32_t n = sent_by(1, 20, few, 1024), m = sent_by(9, 20, many, 1024), common = 0,
		 of_first = 0;

	for (uint32_t i = 0; i < m; i++) {
		of_first += many[i].comm == 1000;
		common += has(few, n, &many[i]);
	}
	print_message("# %u and %u sampled, %u of the common communicator, all of them with both\n",
		      n, m, of_first);
	assert_true(n > 20 && m > 20 && of_first > 0);
	assert_int_equal(common, of_first);
}

static void a_steady_rate_keeps_its_threshold(void **state)
{
	struct job *j = *state;
	uint32_t seq = 0, shift = 0, changes = 0;

	for (int beat = 0; beat < 40; beat++) {
		struct beat_rank *r;

		for (int i = 0; i < 50; i++) {
			for (int k = 0; k < 7 + beat % 3; k++, seq++)
				coll(j, 9, RECORD_COLL_ALL_REDUCE, seq, j->t + (uint64_t)k);
			step(j, 100 * MS, 80 * MS, true, false);
		}
		r = fill(j, j->t);
		changes += beat > 3 && r->coll_shift != shift;
		shift = r->coll_shift;
	}
	assert_int_equal(changes, 0);
	/* 400 a period: 2^5 leave 12 */
	assert_int_equal(shift, 5);
}

static void a_hang_shows_in_the_communicators(void **state)
{
	struct job *j = *state;
	struct beat_rank *r;

	comm_born(j, 5, 64, 12);
	comm_born(j, 6, 2, 0);
	for (uint32_t i = 0; i < 100; i++) {
		coll(j, 5, RECORD_COLL_ALL_REDUCE, i, T0 + i * MS);
		coll(j, 5, RECORD_COLL_REDUCE_SCATTER, i, T0 + i * MS + 100);
	}
	coll(j, 6, RECORD_COLL_BROADCAST, 0, T0 + 50);
	kernel(j, 6, RECORD_COLL_BROADCAST, 0, T0 + 60);
	for (uint32_t i = 0; i < 99; i++) {
		kernel(j, 5, RECORD_COLL_ALL_REDUCE, i, T0 + 200 * MS + i * MS);
		if (i != 40) /* one that was lost */
			kernel(j, 5, RECORD_COLL_REDUCE_SCATTER, i, T0 + 200 * MS + i * MS + 9);
	}
	r = fill(j, T0 + 60 * S);
	assert_int_equal(r->comm_count, 2);
	assert_int_equal(r->comms[0].comm, 5);
	assert_int_equal(r->comms[0].ranks, 64);
	assert_int_equal(r->comms[0].rank, 12);
	assert_int_equal(r->comms[0].entered, 200);
	assert_int_equal(r->comms[0].ended, 198);
	assert_int_equal(r->comms[0].func, RECORD_COLL_REDUCE_SCATTER);
	assert_int_equal(r->comms[0].seq, 99);
	assert_int_equal(r->comms[0].bytes, 4096);
	assert_int_equal(r->comms[0].call_ns, T0 + 99 * MS + 100);
	assert_int_equal(r->comms[0].done_ns, 0);
	assert_int_equal(r->comms[1].comm, 6);
	assert_int_equal(r->comms[1].ended, 1);
	assert_int_equal(r->comms[1].done_ns, T0 + 60 + 500000);
	/* it comes again in every beat */
	r = fill(j, T0 + 65 * S);
	assert_int_equal(r->comm_count, 2);
	/* and reports the first of its calls that does not end */
	assert_int_equal(r->comms[0].open_func, RECORD_COLL_ALL_REDUCE);
	assert_int_equal(r->comms[0].open_seq, 99);
	assert_int_equal(r->comms[0].open_bytes, 4096);
	assert_int_equal(r->comms[1].open_func, 0);
	kernel(j, 5, RECORD_COLL_ALL_REDUCE, 99, T0 + 66 * S);
	kernel(j, 5, RECORD_COLL_REDUCE_SCATTER, 99, T0 + 67 * S);
	r = fill(j, T0 + 70 * S);
	assert_int_equal(r->comms[0].ended, 200);
	assert_int_equal(r->comms[0].open_func, 0);
	assert_int_equal(r->comms[0].done_ns, T0 + 67 * S + 500000);
}

/* Numbers are compared between ranks: after `sysom off` and `on` they are the others' again. */
static void calls_that_were_not_recorded_are_entered(void **state)
{
	struct job *j = *state;
	struct beat_rank *r;

	comm_born(j, 5, 4, 1);
	for (uint32_t i = 0; i < 1000; i++) {
		if (i >= 100 && i < 900)
			continue;
		coll(j, 5, RECORD_COLL_ALL_REDUCE, i, T0 + i * MS);
		kernel(j, 5, RECORD_COLL_ALL_REDUCE, i, T0 + i * MS + 9);
		coll(j, 5, RECORD_COLL_BROADCAST, 2 * i, T0 + i * MS + 10);
		coll(j, 5, RECORD_COLL_BROADCAST, 2 * i + 1, T0 + i * MS + 11);
		kernel(j, 5, RECORD_COLL_BROADCAST, 2 * i + 1, T0 + i * MS + 20);
	}
	/* reported late: it was entered with the others between */
	coll(j, 5, RECORD_COLL_ALL_REDUCE, 899, T0 + 1001 * MS);
	r = fill(j, T0 + 60 * S);
	assert_int_equal(r->comms[0].entered, 3000);
	assert_int_equal(r->comms[0].ended, 3000);
	assert_int_equal(r->comms[0].seq, 1999);
	/* a sysomd that comes later, and then the calls of which nothing is known have not ended */
	coll(j, 6, RECORD_COLL_ALL_GATHER, 70000, T0 + 1002 * MS);
	r = fill(j, T0 + 70 * S);
	assert_int_equal(r->comms[0].comm, 6);
	assert_int_equal(r->comms[0].entered, 70001);
	assert_int_equal(r->comms[0].ended, 0);
	assert_int_equal(r->comms[0].open_func, 0);
	kernel(j, 6, RECORD_COLL_ALL_GATHER, 70000, T0 + 1003 * MS);
	/* far behind: another counter has begun */
	coll(j, 6, RECORD_COLL_ALL_GATHER, 3, T0 + 1004 * MS);
	r = fill(j, T0 + 80 * S);
	assert_int_equal(r->comms[0].entered, 70002);
	assert_int_equal(r->comms[0].ended, 70001);
	assert_int_equal(r->comms[0].open_func, RECORD_COLL_ALL_GATHER);
	assert_int_equal(r->comms[0].open_seq, 3);
}

static void what_a_graph_replays_is_entered_by_its_kernel(void **state)
{
	struct job *j = *state;
	struct record r = {.kind = RECORD_COLL_KERNEL,
			   .flags = RECORD_FLAG_GRAPH,
			   .key = 8,
			   .func = RECORD_COLL_ALL_REDUCE,
			   .seq = 0x80001234,
			   .begin_ns = T0 + 10 * MS,
			   .end_ns = T0 + 11 * MS,
			   .launch_ns = T0 + MS,
			   .peer = -1};
	struct beat_rank *out;

	beats_device(j->b, &r);
	step(j, 100 * MS, 80 * MS, true, false);
	out = fill(j, T0 + S);
	assert_int_equal(out->comm_count, 1);
	assert_int_equal(out->comms[0].entered, 1);
	assert_int_equal(out->comms[0].ended, 1);
	assert_int_equal(out->coll_count, 1);
	assert_int_equal(out->colls[0].call_ns, T0 + MS);
	assert_int_equal(out->colls[0].end_ns, T0 + 11 * MS);
	assert_int_equal(out->colls[0].step, 0);
}

static void what_is_no_collective_of_ours_is_passed_over(void **state)
{
	struct job *j = *state;
	struct record r = {
	    .kind = RECORD_COLL, .key = 8, .func = RECORD_COLL_GROUP_START, .peer = -1};
	struct beat_rank *out;

	beats_host(j->b, &r);
	r.func = RECORD_COLL_SEND; /* no rank but its peer has it */
	beats_host(j->b, &r);
	r.func = RECORD_COLL_ALL_REDUCE;
	r.flags = RECORD_FLAG_FAILED;
	beats_host(j->b, &r);
	r.flags = RECORD_FLAG_CAPTURED;
	beats_host(j->b, &r);
	r.flags = 0;
	r.key = 0; /* of a communicator that is not known */
	beats_host(j->b, &r);
	out = fill(j, T0 + 60 * S);
	assert_int_equal(out->comm_count, 0);
	assert_int_equal(out->coll_count, 0);
}

/* A job that makes and destroys communicators, and one that only makes them. */
static void a_million_communicators_take_no_more_room(void **state)
{
	struct job *j = *state;
	struct beats_stats st;
	struct beat_rank *r;

	for (uint32_t i = 0; i < 1000000; i++)
		coll(j, 1 + i, RECORD_COLL_ALL_REDUCE, 0, T0 + i);
	r = fill(j, T0 + 60 * S);
	assert_int_equal(r->comm_count, BEAT_COMMS_MAX);
	assert_int_equal(r->comms[0].comm, 1000000); /* the latest first */
	beats_stats_get(j->b, &st);
	assert_true(st.comms_forgotten > 999000);
	for (uint32_t i = 0; i < 1000000; i++) {
		struct record gone = {.kind = RECORD_COMM, .key = 1 + i, .seq = 4, .peer = -1};

		beats_host(j->b, &gone);
	}
	assert_int_equal(fill(j, T0 + 61 * S)->comm_count, 0);
}

/* Long texts and all rows full: collectives go first, groups are merged. */
static void a_rank_with_long_texts_still_fits(void **state)
{
	static struct beat_rank r;
	struct job *j = *state;
	uint32_t seq = 0, groups;

	for (uint32_t i = 0; i < 16; i++)
		comm_born(j, 0x1111111111111111ull * (i + 1), 1024, 5);
	for (int i = 0; i < 28; i++) {
		for (uint32_t c = 0; c < 16; c++)
			coll(j, 0x1111111111111111ull * (c + 1), 1, seq, j->t + c * 1234567);
		seq++;
		step(j, 180 * MS + (uint64_t)(i % 5) * 10 * MS, 90 * MS, true, false);
	}
	memset(&r, 0, sizeof(r));
	memset(r.rank.job, 'j', WIRE_TEXT_BYTES - 1);
	memset(r.rank.node, 'n', WIRE_TEXT_BYTES - 1);
	memset(r.rank.role, 'r', WIRE_TEXT_BYTES - 1);
	for (int k = 0; k < POD_TEXTS; k++)
		memset(r.rank.pod.text[k], 'p', WIRE_TEXT_BYTES - 1);
	memset(r.rank.gpu_uuid, 'g', WIRE_TEXT_BYTES - 1);
	memset(r.rank.program, 'x', WIRE_TEXT_BYTES - 1);
	r.latency_median_ns = r.latency_mad_ns = r.self_median_ns = r.expected_ns = 1.5;
	r.compute_ns = r.comm_ns = r.exposed_comm_ns = r.copy_ns = r.idle_ns = 2.5;
	r.events = r.steps = UINT64_MAX;
	r.unfinished = (struct beat_unfinished){
	    .kind = BEAT_UNFINISHED_KERNEL, .stream = UINT32_MAX, .launch_ns = UINT64_MAX};
	memset(r.unfinished.name, 'k', WIRE_TEXT_BYTES - 1);
	beats_fill(j->b, &r, j->t + 10 * S);
	groups = r.group_count;
	assert_in_range(wire_beat_rank_bytes(&r), 1, LIMIT_BEAT_BYTES_PER_RANK);
	assert_true(groups > 0 && r.comm_count >= 4);
	assert_int_equal(r.groups[0].first_step % r.groups[0].count, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(a_slow_job_has_a_group_per_step),
	    CASE(short_first_steps_make_no_large_group),
	    CASE(groups_hold_medians_spread_and_counts),
	    CASE(fast_jobs_have_groups_of_a_power_of_two_at_its_multiples),
	    CASE(ranks_of_one_pace_group_alike),
	    CASE(merges_what_a_beat_has_no_room_for),
	    CASE(a_sampled_collective_has_its_kernel_and_its_step),
	    CASE(ranks_with_other_loads_sample_nested_sets),
	    CASE(a_steady_rate_keeps_its_threshold),
	    CASE(a_hang_shows_in_the_communicators),
	    CASE(calls_that_were_not_recorded_are_entered),
	    CASE(what_a_graph_replays_is_entered_by_its_kernel),
	    CASE(what_is_no_collective_of_ours_is_passed_over),
	    CASE(a_million_communicators_take_no_more_room),
	    CASE(a_rank_with_long_texts_still_fits),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
