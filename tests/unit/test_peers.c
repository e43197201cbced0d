/* SPDX-License-Identifier: Apache-2.0
 * Slow members by construction: which, from when to when and by how much is what the test put
 * there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/slow/peers_private.h"

#define STEP_NS	    100e6
#define MEMBERS_MAX 64u
#define FLAGS_MAX   256u

static uint64_t seed, rng;

static double uniform(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return ((double)(rng * 0x2545f4914f6cdd1dull >> 11) + 0.5) * 0x1p-53;
}

static double gauss(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

struct run {
	uint32_t members, steps;
	double noise;	      /* standard deviation, of a step */
	uint64_t slow;	      /* bits of members */
	uint32_t first, last; /* of the fault */
	double factor;
	double late_ns; /* lateness of the slow ones instead */
	double missing; /* chance of a value */
	double skew;	/* each step another member has so much more */
	uint32_t weight;
	/* member i's values are given as those of i * stride + shift; stride 0: of i + shift */
	uint32_t stride, shift;
	enum peers_mode mode;
	bool changes_only;
	double uneven; /* member i's steps are longer by so much times i */
	/* bits of members of whose self time a quarter is hidden during the fault */
	uint64_t hidden;
};

static struct peers_flag flag[FLAGS_MAX];
static uint32_t flags;

static void run(const struct run *r)
{
	struct peers_config c;
	struct peers *p;
	double self[MEMBERS_MAX], late[MEMBERS_MAX];
	void *memory;

	rng = 0x9e3779b97f4a7c15ull ^ seed;
	flags = 0;
	peers_config_default(&c);
	c.mode = r->mode;
	c.changes_only = r->changes_only;
	memory = aligned_alloc(16, (peers_memory_bytes(&c, r->members) + 15) & ~15ul);
	assert_non_null(memory);
	p = peers_init(memory, &c, r->members);
	for (uint32_t t = 0; t <= r->steps; t++) {
		bool on = t >= r->first && t <= r->last;
		uint32_t heavy = (uint32_t)(uniform() * r->members);
		double common = 1 + 0.05 * gauss();

		for (uint32_t i = 0; i < r->members && t < r->steps; i++) {
			uint32_t at = (i * (r->stride ? r->stride : 1) + r->shift) % r->members;
			bool slow = on && (r->slow >> i & 1);
			double v = STEP_NS * common * (1 + r->noise * gauss());

			v *= on && r->hidden >> i & 1 ? 0.75 : 1;
			v *= (i == heavy ? 1 + r->skew : 1) * (1 + r->uneven * i);
			self[at] = uniform() < r->missing
				       ? NAN
				       : v * (slow && !r->late_ns ? r->factor : 1);
			late[at] = 0.1e6 * fabs(gauss()) + (slow ? r->late_ns : 0);
		}
		if (t < r->steps)
			peers_push(p, t, self, r->late_ns > 0 ? late : NULL, STEP_NS, r->weight);
		else
			peers_finish(p);
		while (flags < FLAGS_MAX && peers_next(p, &flag[flags]))
			flags += flag[flags].ended;
	}
	free(memory);
}

/* Every slow member once, nobody else; steps off by at most edge. */
static void expect(const struct run *r, uint32_t edge)
{
	uint64_t seen = 0;

	for (uint32_t k = 0; k < flags; k++) {
		const struct peers_flag *f = &flag[k];

		if (!(r->slow >> f->member & 1) || seen >> f->member & 1)
			fail_msg("seed %llu: member %u, steps %u to %u, excess %f",
				 (unsigned long long)seed, f->member, (unsigned)f->first_step,
				 (unsigned)f->last_step, f->excess);
		seen |= 1ull << f->member;
		assert_in_range(f->first_step + edge, r->first, r->first + 2 * edge);
		assert_in_range(f->last_step + edge, r->last, r->last + 2 * edge);
	}
	assert_int_equal(seen, r->slow);
}

static void finds_one_slow_member_of_any_group_with_its_steps(void **state)
{
	static const uint32_t members[] = {2, 3, 4, 8, 16, 64};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		for (uint32_t who = 0; who < 2; who++) {
			struct run r = {.members = members[i],
					.steps = 200,
					.noise = 0.005,
					.slow = 1ull << (who ? members[i] - 1 : 0),
					.first = 100,
					.last = 119,
					.factor = 1.1};

			run(&r);
			expect(&r, 1);
			assert_true(fabs(flag[0].excess - 0.1) < 0.01);
			assert_true(fabs(flag[0].excess_ns - 0.1 * STEP_NS) < 0.02 * STEP_NS);
			assert_true(flag[0].sure_step <= 109 && flag[0].score > 1);
		}
}

/* The median of the two is not what the other one takes. */
static void the_excess_of_one_of_a_pair_is_above_the_other(void **state)
{
	struct run r = {.members = 2,
			.steps = 300,
			.noise = 0.01,
			.slow = 2,
			.first = 150,
			.last = 199,
			.factor = 1.8};

	run(&r);
	expect(&r, 1);
	assert_true(fabs(flag[0].excess - 0.8) < 0.05);
	assert_true(fabs(flag[0].excess_ns - 0.8 * STEP_NS) < 0.06 * STEP_NS);
}

static void finds_several_and_most(void **state)
{
	static const uint64_t slow[] = {0x03, 0x21, 0x70, 0x0f, 0x1f, 0x3f};

	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		for (uint32_t first = 0; first < 120; first += 60) {
			struct run r = {.members = 8,
					.steps = 160,
					.noise = 0.01,
					.slow = slow[i],
					.first = first,
					.last = first + 59,
					.factor = 1.2};

			run(&r);
			expect(&r, 2);
		}
}

static void finds_small_constant_lateness_in_long_windows(void **state)
{
	struct run r = {.members = 8,
			.steps = 1500,
			.slow = 4,
			.first = 300,
			.last = 1499,
			.noise = 0.003,
			.late_ns = 0.3e6};

	run(&r);
	expect(&r, 15);
	assert_int_equal(flag[0].measure, PEERS_LATE);
	assert_true(fabs(flag[0].excess_ns - 0.3e6) < 0.1e6);
}

static void finds_small_constant_slowness(void **state)
{
	struct run r = {.members = 8,
			.steps = 2500,
			.slow = 16,
			.first = 500,
			.last = 2499,
			.noise = 0.003,
			.factor = 1.004};

	run(&r);
	expect(&r, 60);
}

static void healthy_members_are_never_reported(void **state)
{
	static const uint32_t members[] = {2, 3, 4, 8, 64};

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		for (int k = 0; k < 3; k++) {
			struct run r = {.members = members[i],
					.steps = 2000,
					.noise = k == 0	  ? 0.002
						 : k == 1 ? 0.02
							  : 0.1};

			run(&r);
			expect(&r, 0);
		}
}

static void uneven_input_that_moves_is_no_fault(void **state)
{
	struct run r = {.members = 8, .steps = 2000, .noise = 0.01, .skew = 0.5};

	run(&r);
	expect(&r, 0);
}

static void missing_values_are_borne(void **state)
{
	struct run r = {.members = 8,
			.steps = 300,
			.noise = 0.01,
			.slow = 2,
			.first = 150,
			.last = 189,
			.factor = 1.15,
			.missing = 0.2};

	run(&r);
	expect(&r, 5);
}

static void a_member_that_vanishes_is_no_fault_of_others(void **state)
{
	struct peers_config c;
	struct peers_flag f;
	struct peers *p;
	double v[4];
	void *memory;

	peers_config_default(&c);
	memory = aligned_alloc(16, (peers_memory_bytes(&c, 4) + 15) & ~15ul);
	p = peers_init(memory, &c, 4);
	rng = seed + 1;
	for (uint32_t t = 0; t < 400; t++) {
		for (int i = 0; i < 4; i++)
			v[i] = STEP_NS * (1 + 0.01 * gauss());
		if (t >= 100)
			v[0] = t < 200 ? NAN : t < 210 ? INFINITY : t < 220 ? -1 : 0;
		if (t >= 300)
			v[1] = v[2] = NAN;
		peers_push(p, t, v, NULL, t < 50 ? NAN : STEP_NS, 1);
	}
	peers_finish(p);
	assert_false(peers_next(p, &f));
	free(memory);
}

/* Flags of the run, and the same ones where the members stand in other places. */
static void check_order(struct run *r)
{
	struct peers_flag before[FLAGS_MAX];
	uint32_t n;

	run(r);
	n = flags;
	memcpy(before, flag, sizeof(before));
	for (r->stride = 1, r->shift = 3; r->stride < r->members; r->stride += 2, r->shift += 5) {
		run(r);
		assert_int_equal(flags, n);
		for (uint32_t k = 0; k < n; k++) {
			uint32_t j = 0, at = (before[k].member * r->stride + r->shift) % r->members;

			while (j < n && flag[j].member != at)
				j++;
			assert_true(j < n);
			assert_int_equal(flag[j].first_step, before[k].first_step);
			assert_int_equal(flag[j].last_step, before[k].last_step);
			assert_int_equal(flag[j].sure_step, before[k].sure_step);
			assert_true(flag[j].excess == before[k].excess);
		}
	}
}

static void the_order_of_members_changes_nothing(void **state)
{
	static const uint32_t members[] = {5, 7, 11, 17}; /* primes: each stride names all */
	uint64_t first = seed;

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		for (seed = first; seed < first + 5; seed++) {
			struct run r = {.members = members[i],
					.steps = 300,
					.noise = 0.02,
					.slow = 1ull << seed * 7 % members[i],
					.first = 90,
					.last = 140,
					.factor = 1.12};

			if (members[i] > 10)
				r.slow |= 1ull << seed * 3 % members[i];
			run(&r);
			expect(&r, 4);
			check_order(&r);
		}
	seed = first;
}

static void a_healthy_member_more_accuses_nobody(void **state)
{
	uint64_t first = seed;

	for (seed = first; seed < first + 60; seed++) {
		struct run r = {.members = 4 + (uint32_t)(seed % 9),
				.steps = 300,
				.noise = 0.02,
				.slow = seed % 3 ? 1ull << seed % 4 : 0,
				.first = 90,
				.last = 140,
				.factor = 1.12};

		run(&r);
		expect(&r, 4);
		r.members++; /* the last one is never slow */
		run(&r);
		expect(&r, 4);
	}
	seed = first;
}

static void of_two_the_one_that_changed_is_reported(void **state)
{
	struct peers_config c;
	struct peers_flag f;
	struct peers *p;
	void *memory;
	double v[2];

	peers_config_default(&c);
	memory = aligned_alloc(16, (peers_memory_bytes(&c, 2) + 15) & ~15ul);
	/* 0: member 1 becomes slower; 1: member 0 becomes faster, which is nobody's fault */
	for (int kind = 0; kind < 2; kind++) {
		uint32_t reports = 0;

		rng = seed + 2;
		p = peers_init(memory, &c, 2);
		for (uint32_t t = 0; t < 300; t++) {
			v[0] = STEP_NS * (1 + 0.01 * gauss()) * (kind && t >= 150 ? 0.8 : 1);
			v[1] =
			    1.05 * STEP_NS * (1 + 0.01 * gauss()) * (!kind && t >= 150 ? 1.2 : 1);
			peers_push(p, t, v, NULL, STEP_NS, 1);
		}
		peers_finish(p);
		while (peers_next(p, &f)) {
			assert_int_equal(f.member, 1);
			assert_in_range(f.first_step, 148, 152);
			/* against a past of few steps */
			assert_true(fabs(f.excess - 0.2) < 0.04);
			reports++;
		}
		assert_int_equal(reports, kind ? 0 : 2); /* opened and ended */
	}
	free(memory);
}

static void a_flag_is_reported_when_it_opens_and_when_it_ends(void **state)
{
	struct peers_config c;
	struct peers_flag f;
	struct peers *p;
	void *memory;
	double v[8];
	int opened = -1, ended = -1;

	rng = seed + 3;
	peers_config_default(&c);
	memory = aligned_alloc(16, (peers_memory_bytes(&c, 8) + 15) & ~15ul);
	p = peers_init(memory, &c, 8);
	for (int t = 0; t < 120; t++) {
		for (int i = 0; i < 8; i++)
			v[i] = STEP_NS * (1 + 0.005 * gauss()) *
			       (i == 3 && t >= 60 && t < 80 ? 1.3 : 1);
		peers_push(p, (uint64_t)t, v, NULL, STEP_NS, 1);
		while (peers_next(p, &f)) {
			assert_int_equal(f.member, 3);
			assert_int_equal(f.ended, opened >= 0);
			if (f.ended)
				ended = t;
			else
				opened = t;
		}
	}
	assert_in_range(opened, 62, 66);
	assert_in_range(ended, 81, 90);
	free(memory);
}

static void groups_of_steps_count_as_their_steps(void **state)
{
	struct run r = {.members = 8,
			.steps = 200,
			.noise = 0.003,
			.slow = 32,
			.first = 100,
			.last = 199,
			.factor = 1.02,
			.weight = 10};

	run(&r);
	expect(&r, 3);
	assert_true(flag[0].window >= 30 && flag[0].window % 10 == 0);
}

/* The arithmetic of mean + 2 sigma: two equal stragglers of eight have z = sqrt(6 / 2) at most. */
/* Ranks that do different work differ from the first step on; one that changes is reported all the
 * same. */
static void of_uneven_members_only_a_change_is_reported(void **state)
{
	struct run r = {.members = 8,
			.steps = 1500,
			.noise = 0.01,
			.slow = 1u << 3,
			.last = 1500,
			.factor = 1.1};

	for (seed = 1; seed <= 3; seed++) {
		r.changes_only = false;
		r.first = 0;
		run(&r);
		assert_true(flags >= 1);
		assert_int_equal(flag[0].member, 3);
		r.changes_only = true;
		run(&r);
		assert_int_equal(flags, 0);
		r.first = 500;
		run(&r);
		assert_true(flags >= 1);
		assert_int_equal(flag[0].member, 3);
		assert_in_range(flag[0].first_step, 490, 510);
	}
}

/* One that has less work than its peers grows past some of them, and past the median: its change is
 * all its own, in size too, and nobody else's. */
static void the_median_moves_with_no_uneven_member(void **state)
{
	struct run r = {.members = 4,
			.steps = 600,
			.noise = 0.003,
			.slow = 1,
			.first = 300,
			.last = 599,
			.factor = 1.25,
			.uneven = 0.1,
			.changes_only = true};

	for (seed = 1; seed <= 5; seed++)
		for (uint32_t k = 0; k < 4; k++)
			for (r.members = 3; r.members <= 8; r.members++) {
				double own = 1 + r.uneven * k,
				       more = (r.factor - 1) * own * STEP_NS;
				double middle = 1 + r.uneven * (r.members - 1) / 2;

				if (k >= r.members)
					continue;
				r.slow = 1u << k;
				run(&r);
				if (own * r.factor < middle) { /* still ahead of its peers */
					assert_int_equal(flags, 0);
				} else if (own * r.factor > 1.08 * middle) {
					expect(&r, 3);
					assert_in_range(flag[0].excess_ns, 0.95 * more,
							1.05 * more);
				}
			}
}

/* While one is slow, others do a part of their own work while they wait for it: it shows no more as
 * time of their own, and does again when the fault is over. */
static void who_is_as_before_a_fault_of_another_is_not_reported(void **unused)
{
	struct run r = {.members = 8,
			.steps = 900,
			.noise = 0.005,
			.slow = 1u << 5,
			.first = 300,
			.factor = 2.2,
			.uneven = 0.05,
			.changes_only = true};

	for (seed = 1; seed <= 5; seed++)
		for (uint32_t steps = 60; steps <= 240; steps += 60) {
			r.last = r.first + steps - 1;
			r.hidden = 1u << 6 | 1u << 7;
			run(&r);
			expect(&r, 3);
			r.hidden = 1u << 1 | 1u << 4;
			run(&r);
			expect(&r, 3);
		}
}

/* Nor where nobody could be reported for it: a rank waits for one of another node, or all others are
 * slow. */
static void who_is_as_before_an_unreported_fault_is_not_reported(void **unused)
{
	struct run r = {.members = 8,
			.steps = 2000,
			.first = 300,
			.factor = 1.3,
			.uneven = 0.05,
			.changes_only = true};

	for (seed = 1; seed <= 3; seed++)
		for (uint32_t steps = 50; steps <= 800; steps *= 4) {
			r.last = r.first + steps - 1;
			r.noise = 0.01;
			r.slow = 0;
			r.hidden = 1u << 7 | 1u << 2;
			run(&r);
			for (uint32_t k = 0; k < flags; k++)
				fail_msg(
				    "seed %llu, %u steps: member %u, steps %u to %u, excess %f",
				    (unsigned long long)seed, steps, flag[k].member,
				    (unsigned)flag[k].first_step, (unsigned)flag[k].last_step,
				    flag[k].excess);
			r.noise = 0.005;
			r.slow = 0x7f;
			r.hidden = 0;
			run(&r);
			for (uint32_t k = 0; k < flags; k++)
				assert_int_not_equal(flag[k].member, 7);
		}
}

/* Two of which one has four times as much to do: this is not reported, a change of either is. */
static void two_that_differ_by_much_are_compared(void **unused)
{
	struct run r = {
	    .members = 2, .noise = 0.01, .factor = 1.3, .uneven = 3, .changes_only = true};

	for (seed = 1; seed <= 3; seed++) {
		r.steps = 5000;
		r.slow = 0;
		run(&r);
		assert_int_equal(flags, 0);
		r.steps = 600;
		r.first = 300;
		r.last = 599;
		for (r.slow = 1; r.slow <= 2; r.slow++) {
			run(&r);
			expect(&r, 3);
		}
	}
}

/* What is small and lasts is found among them, too, and is not taken for a habit. */
static void small_changes_of_uneven_members_are_found(void **unused)
{
	struct run r = {.members = 8,
			.steps = 4000,
			.noise = 0.01,
			.slow = 1u << 6,
			.first = 1500,
			.last = 3999,
			.factor = 1.015,
			.uneven = 0.05,
			.changes_only = true};

	for (seed = 1; seed <= 3; seed++) {
		run(&r);
		assert_true(flags >= 1);
		for (uint32_t k = 0; k < flags; k++)
			assert_int_equal(flag[k].member, 6);
		assert_in_range(flag[0].sure_step, 1500, 2700);
	}
}

/* The first rows of a job come before anybody has said how long its steps are. Lateness is given in
 * parts of a step: one that is learned by a wrong length is a wrong noise, and ordinary lateness is
 * far out. */
static void noise_is_not_learned_by_a_length_that_is_not_known(void **state)
{
	struct peers_config c;
	struct peers *p;
	void *memory;

	peers_config_default(&c);
	rng = seed;
	memory = aligned_alloc(16, (peers_memory_bytes(&c, 8) + 15) & ~(size_t)15);
	p = peers_init(memory, &c, 8);
	for (uint32_t k = 0; k < 24; k++) {
		double self[8], late[8];

		for (uint32_t i = 0; i < 8; i++) {
			self[i] = STEP_NS * (0.95 + 0.004 * gauss());
			late[i] = STEP_NS * 0.004 * gauss();
		}
		peers_push(p, k, self, late, k < 4 ? 0 : STEP_NS, 1);
		assert_true(isnan(p->series[PEERS_LATE].residual[(size_t)k * 8]) == (k < 4));
	}
	assert_true(p->series[PEERS_LATE].noise.scale[0] > 0.003);
	assert_true(p->series[PEERS_LATE].noise.scale[0] < 0.006);
	free(memory);
}

static void the_papers_mode_finds_one_and_is_blind_to_two(void **state)
{
	struct run r = {.members = 8,
			.steps = 400,
			.noise = 0.001,
			.slow = 2,
			.first = 0,
			.last = 399,
			.factor = 1.5,
			.mode = PEERS_SYSOM};

	run(&r);
	assert_true(flags >= 1 && flag[0].member == 1 && flag[0].window == 100);
	r.slow = 3;
	run(&r);
	assert_int_equal(flags, 0);
	r.mode = PEERS_ROBUST;
	run(&r);
	expect(&r, 1);
}

/* Members over 40 steps: what becomes of the first one's self time in steps 8 to 13, and of the
 * others'. Those reported in the last pass, as bits. */
static uint64_t reported_members(uint32_t n, double first, double others, bool twice,
				 uint64_t *sure)
{
	struct peers_config c;
	uint64_t reports = 0;
	struct peers_flag f;
	void *memory;
	struct peers *p;
	double self[5];

	peers_config_default(&c);
	c.usual_ns = STEP_NS;
	c.false_per_member_hour = 0.1; /* few steps */
	memory = aligned_alloc(16, (peers_memory_bytes(&c, n) + 15) & ~(size_t)15);
	assert_non_null(memory);
	p = peers_init(memory, &c, n);
	*sure = UINT64_MAX;
	for (int pass = 0; pass <= twice; pass++) {
		rng = 77 + seed;
		if (pass)
			peers_again(p);
		for (uint64_t t = 0; t < 40; t++) {
			bool on = t >= 8 && t <= 13;

			for (uint32_t i = 0; i < n; i++)
				self[i] = STEP_NS * (1 + 0.01 * gauss()) *
					  (!on	    ? 1
					   : i == 0 ? first
						    : others);
			peers_push(p, t, self, NULL, STEP_NS, 1);
		}
	}
	peers_finish(p);
	while (peers_next(p, &f)) {
		reports |= 1ull << f.member;
		*sure = f.sure_step < *sure ? f.sure_step : *sure;
	}
	free(memory);
	return reports;
}

/* What one of two does while it waits hides a part of its self time: the other one is as usual. */
static void who_is_as_usual_is_not_slow(void **state)
{
	uint64_t sure;

	(void)state;
	assert_int_equal(reported_members(2, 1, 0.67, true, &sure), 0);
	assert_int_equal(reported_members(2, 1.5, 0.67, true, &sure), 1);
}

static void rows_that_come_again_are_judged_by_what_they_taught(void **state)
{
	uint64_t once, twice;

	(void)state;
	reported_members(5, 1.5, 1, false, &once);
	assert_int_equal(reported_members(5, 1.5, 1, true, &twice), 1);
	assert_in_range(twice, 8, 11);
	assert_true(twice < once);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_one_slow_member_of_any_group_with_its_steps),
	    cmocka_unit_test(the_excess_of_one_of_a_pair_is_above_the_other),
	    cmocka_unit_test(finds_several_and_most),
	    cmocka_unit_test(finds_small_constant_lateness_in_long_windows),
	    cmocka_unit_test(finds_small_constant_slowness),
	    cmocka_unit_test(of_uneven_members_only_a_change_is_reported),
	    cmocka_unit_test(the_median_moves_with_no_uneven_member),
	    cmocka_unit_test(who_is_as_before_a_fault_of_another_is_not_reported),
	    cmocka_unit_test(who_is_as_before_an_unreported_fault_is_not_reported),
	    cmocka_unit_test(two_that_differ_by_much_are_compared),
	    cmocka_unit_test(small_changes_of_uneven_members_are_found),
	    cmocka_unit_test(healthy_members_are_never_reported),
	    cmocka_unit_test(uneven_input_that_moves_is_no_fault),
	    cmocka_unit_test(missing_values_are_borne),
	    cmocka_unit_test(a_member_that_vanishes_is_no_fault_of_others),
	    cmocka_unit_test(the_order_of_members_changes_nothing),
	    cmocka_unit_test(a_healthy_member_more_accuses_nobody),
	    cmocka_unit_test(of_two_the_one_that_changed_is_reported),
	    cmocka_unit_test(a_flag_is_reported_when_it_opens_and_when_it_ends),
	    cmocka_unit_test(groups_of_steps_count_as_their_steps),
	    cmocka_unit_test(noise_is_not_learned_by_a_length_that_is_not_known),
	    cmocka_unit_test(the_papers_mode_finds_one_and_is_blind_to_two),
	    cmocka_unit_test(who_is_as_usual_is_not_slow),
	    cmocka_unit_test(rows_that_come_again_are_judged_by_what_they_taught),
	};

	seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 0) : 1;
	printf("# SEED=%llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
