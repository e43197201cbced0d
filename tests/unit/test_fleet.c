/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregator/fleet/fleet.h"
#include "aggregator/incident/incident.h"
#include "analysis/cause/diagnosis.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/text/jsonget.h"
#include "base/http/http_user.h"
#include "model/request.h"
#include "tests/fleet_synth.h"

#define REPORTS_MAX 256

static struct fleet *fleet;
static struct finding_report reports[REPORTS_MAX];
static uint32_t report_count;
static double now_s;
static struct fleet_via via; /* of whatever is sent */
static struct wire_command commands[1024];
static char command_node[1024][WIRE_TEXT_BYTES];
static uint32_t command_count;

static void on_finding(void *arg, const struct finding_report *f)
{
	(void)arg;
	if (report_count < REPORTS_MAX)
		reports[report_count++] = *f;
}

static void open_fleet(const char *dir, bool sysom)
{
	struct fleet_config c;

	fleet_config_default(&c);
	c.sysom = sysom;
	assert_int_equal(fleet_open_with(&fleet, &c), 0);
	if (dir)
		assert_int_equal(fleet_keep_baselines(fleet, dir), 0);
	fleet_on_finding(fleet, on_finding, NULL);
}

static int setup(void **unused)
{
	report_count = command_count = 0;
	now_s = 0;
	via = (struct fleet_via){0};
	open_fleet(NULL, false);
	return 0;
}

static int teardown(void **unused)
{
	fleet_close(fleet);
	return 0;
}

static uint64_t mono(double s)
{
	return (uint64_t)((s + 5000) * 1e9);
}

static void send_beat(const struct beat *b)
{
	uint32_t n;

	fleet_beat(fleet, b, via, mono(now_s));
	n = fleet_commands(fleet, b, commands + command_count, 1024 - command_count);
	for (uint32_t i = 0; i < n; i++)
		snprintf(command_node[command_count + i], WIRE_TEXT_BYTES, "%s", b->node);
	command_count += n;
}

static bool beat_due(const struct fs_job *j, uint32_t node)
{
	return (lround(now_s * 10) + lround(j->node[node].phase_s * 10)) % 50 == 0;
}

static void tick_if_due(void)
{
	if (lround(now_s * 10) % 10 == 3)
		fleet_tick(fleet, mono(now_s), FS_UNIX + (uint64_t)(now_s * 1e9));
}

/* Goes on until the job's time `until`, in tenths of a second: beats every 5 s, a tick every
 * second. */
static void run(struct fs_job *j, double until)
{
	struct beat_rank ranks[16];
	uint32_t nodes = (j->ranks + j->per_node - 1) / j->per_node;
	struct beat b;

	for (; now_s < until; now_s += 0.1) {
		for (uint32_t n = 0; n < nodes; n++)
			if (beat_due(j, n) && fs_beat(j, n, now_s, ranks, &b))
				send_beat(&b);
		tick_if_due();
	}
}

static const struct finding_report *first_of(enum finding_kind kind)
{
	for (uint32_t i = 0; i < report_count; i++)
		if (reports[i].finding.kind == kind)
			return &reports[i];
	return NULL;
}

static void only_ranks(const int *ranks, uint32_t count)
{
	for (uint32_t i = 0; i < report_count; i++)
		for (uint32_t k = 0; k < reports[i].finding.rank_count; k++) {
			bool known = false;

			for (uint32_t m = 0; m < count; m++)
				known |= reports[i].finding.ranks[k] == ranks[m];
			if (!known)
				print_message("rank %d: %s\n", reports[i].finding.ranks[k],
					      reports[i].finding.evidence[0].text);
			assert_true(known);
		}
}

static uint32_t named(int rank)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < report_count; i++)
		for (uint32_t k = 0; k < reports[i].finding.rank_count; k++)
			n += reports[i].finding.ranks[k] == rank;
	return n;
}

static struct fleet_totals totals(void)
{
	struct fleet_totals t;

	fleet_totals(fleet, mono(now_s), &t);
	return t;
}

/* ---- slow ranks ---- */

static void stays_silent_about_a_healthy_job(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 16, 8, 1);
	run(&j, 300);
	assert_int_equal(report_count, 0);
	assert_true(totals().rows > 1000);
	assert_int_equal(totals().unplaced, 0);
	fs_fini(&j);
}

static void finds_a_rank_that_is_slower_by_a_third_of_a_millisecond(void **unused)
{
	struct fs_job j;
	const int guilty[] = {5};
	const struct finding_report *f;

	fs_init(&j, "job", 8, 4, 2);
	j.noise = 0.002;
	j.rank[5].slow_ns = 0.3 * FS_MS;
	j.rank[5].slow_from_s = 60;
	run(&j, 240);
	f = first_of(FINDING_SLOW_RANK);
	assert_non_null(f);
	only_ranks(guilty, 1);
	assert_true(f->finding.effect_ns > 0.15 * FS_MS && f->finding.effect_ns < 0.6 * FS_MS);
	/* where it begins, in the job's common numbering and on the wall clock */
	assert_true(f->finding.first_step > 500 && f->finding.first_step < 800);
	assert_true(f->begin_unix_ns > FS_UNIX + 50 * FS_S &&
		    f->begin_unix_ns < FS_UNIX + 80 * FS_S);
	fs_fini(&j);
}

static void finds_two_of_eight_as_one_finding_and_its_end(void **unused)
{
	struct fs_job j;
	const int guilty[] = {2, 6};
	bool ended = false;

	fs_init(&j, "job", 8, 4, 3);
	for (int i = 0; i < 2; i++) {
		j.rank[guilty[i]].slow_ns = 8 * FS_MS;
		j.rank[guilty[i]].slow_from_s = 40;
		j.rank[guilty[i]].slow_until_s = 90;
	}
	run(&j, 85);
	assert_true(named(2) && named(6));
	only_ranks(guilty, 2);
	assert_int_equal(totals().findings, 1);
	assert_int_equal(totals().suspects, 2);
	run(&j, 150);
	for (uint32_t i = 0; i < report_count; i++)
		ended |= reports[i].ended;
	assert_true(ended);
	assert_int_equal(totals().suspects, 0);
	only_ranks(guilty, 2);
	fs_fini(&j);
}

static void separates_faults_that_began_at_different_times(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 8, 4, 4);
	j.rank[1].slow_ns = j.rank[7].slow_ns = 10 * FS_MS;
	j.rank[1].slow_from_s = 40;
	j.rank[7].slow_from_s = 80;
	run(&j, 120);
	assert_int_equal(totals().findings, 2);
	for (uint32_t i = 0; i < report_count; i++)
		assert_int_equal(reports[i].finding.rank_count, 1);
	assert_true(named(1) && named(7));
	fs_fini(&j);
}

static void says_who_of_a_pair_has_changed(void **unused)
{
	struct fs_job j;
	const int guilty[] = {1};

	fs_init(&j, "pair", 2, 1, 5);
	j.rank[1].slow_ns = 10 * FS_MS;
	j.rank[1].slow_from_s = 60;
	run(&j, 120);
	assert_true(named(1));
	only_ranks(guilty, 1);
	fs_fini(&j);
}

static void never_compares_ranks_of_different_roles(void **unused)
{
	struct fs_job j;

	fs_init(&j, "stages", 8, 4, 6);
	for (uint32_t r = 4; r < 8; r++) {
		snprintf(j.rank[r].role, sizeof(j.rank[r].role), "stage-1");
		j.rank[r].slow_ns = -20 * FS_MS;
	}
	run(&j, 120);
	assert_int_equal(report_count, 0);
	j.rank[6].slow_ns += 10 * FS_MS;
	run(&j, 180);
	only_ranks((const int[]){6}, 1);
	assert_true(named(6));
	fs_fini(&j);
}

static void send_spinning(const struct fs_job *j, uint32_t r, const char *kernel, double spin_share)
{
	static char spin[] = "spin";
	struct sketch_kernel kernels[] = {{"gemm", 40, 1e6}, {(char *)kernel, 60, 1e6}};
	struct sketch_function function = {.name = spin, .total_share = spin_share};
	struct sketch s = {.steps = 600,
			   .latency_ns = 1e8,
			   .kernels = kernels,
			   .kernel_count = 2,
			   .functions = &function,
			   .function_count = spin_share > 0};
	struct buf b;

	snprintf(s.rank.job, sizeof(s.rank.job), "%s", j->name);
	snprintf(s.rank.node, sizeof(s.rank.node), "n%u", r / j->per_node);
	s.rank.rank = (int)r;
	buf_init(&b, 1 << 16);
	assert_int_equal(wire_sketch_encode(&s, &b), 0);
	assert_true(fleet_sketch_put(fleet, &s, b.data, b.bytes, via, mono(now_s)));
	buf_fini(&b);
}

static void send_sketch(const struct fs_job *j, uint32_t r, const char *kernel)
{
	send_spinning(j, r, kernel, 0);
}

static void send_kinds(const struct fs_job *j, uint32_t r, const struct kinds_row *kinds,
		       uint32_t count)
{
	struct sketch s = {.steps = 600, .latency_ns = 1e8, .kind_count = count};
	struct buf b;

	snprintf(s.rank.job, sizeof(s.rank.job), "%s", j->name);
	snprintf(s.rank.node, sizeof(s.rank.node), "n%u", r / j->per_node);
	s.rank.rank = (int)r;
	memcpy(s.kinds, kinds, count * sizeof(*kinds));
	buf_init(&b, 1 << 16);
	assert_int_equal(wire_sketch_encode(&s, &b), 0);
	assert_true(fleet_sketch_put(fleet, &s, b.data, b.bytes, via, mono(now_s)));
	buf_fini(&b);
}

/* Rank 0 writes a checkpoint, for which the others wait; each collects garbage in a step of its own. */
static void lists_what_a_job_does_as_one_row_each(void **unused)
{
	const json_t *list, *row;
	struct fs_job j;
	json_t *all;

	fs_init(&j, "phases", 4, 4, 3);
	run(&j, 10);
	for (uint32_t r = 0; r < 4; r++) {
		const struct kinds_row kinds[] = {
		    {.part = r ? KINDS_WAIT : KINDS_HOST,
		     .period = 50 + r % 2,
		     .period_ns = 5e9 + r * 1e7,
		     .count = 10,
		     .first_step = 49 + r,
		     .last_step = 499 + r,
		     .steps = 1,
		     .cost_ns = 2e9,
		     .share = 0.4},
		    {.by_work = true,
		     .period = 60,
		     .count = 9,
		     .first_step = 48,
		     .last_step = 528,
		     .steps = 12,
		     .cost_ns = 1e8 * (r + 1),
		     .share = 0.01 * (r + 1),
		     .launches = 40},
		    {.part = KINDS_HOST,
		     .period = 100,
		     .count = 5,
		     .first_step = 10 + 20 * r,
		     .last_step = 410 + 20 * r,
		     .steps = 1,
		     .cost_ns = 5e7,
		     .share = 0.001},
		};

		send_kinds(&j, r, kinds, 3);
	}
	all = fleet_kinds_json(fleet, "phases");
	assert_int_equal(json_integer_value(json_object_get(all, "ranks")), 4);
	list = json_object_get(all, "kinds");
	assert_int_equal(json_array_size(list), 6);
	row = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(row, "account")), "host");
	assert_int_equal(json_integer_value(json_object_get(row, "period")), 50);
	assert_float_equal(json_real_value(json_object_get(row, "period_s")), 5, 1e-9);
	assert_int_equal(json_array_size(json_object_get(row, "ranks")), 1);
	assert_int_equal(json_array_size(json_object_get(row, "waiting")), 3);
	row = json_array_get(list, 1);
	assert_string_equal(json_string_value(json_object_get(row, "account")), "work");
	assert_int_equal(json_array_size(json_object_get(row, "ranks")), 4);
	assert_true(json_is_null(json_object_get(row, "period_s")));
	assert_float_equal(json_real_value(json_object_get(row, "cost_ms")), 250, 1e-6);
	assert_float_equal(json_real_value(json_object_get(row, "share")), 0.025, 1e-6);
	for (size_t i = 2; i < 6; i++)
		assert_int_equal(json_array_size(json_object_get(json_array_get(list, i), "ranks")),
				 1);
	json_decref(all);
	assert_null(fleet_kinds_json(fleet, "no-such-job"));
	fs_fini(&j);
}

/* Two stages; ranks 6 and 7 are suspects. */
static void gives_what_is_usual_in_a_role_without_the_suspects(void **unused)
{
	static const int32_t suspects[] = {6, 1, 7};
	struct diagnosis_group g;
	bool is_of[3];
	struct fs_job j;

	fs_init(&j, "usual", 8, 4, 6);
	for (uint32_t r = 4; r < 8; r++)
		snprintf(j.rank[r].role, sizeof(j.rank[r].role), "stage-1");
	run(&j, 10);
	for (uint32_t r = 0; r < 8; r++)
		send_spinning(&j, r, "gelu", r < 4 ? 0.7 : r < 6 ? 0.1 : 0.9);
	assert_int_equal(fleet_waterline(fleet, "usual", suspects, 3, mono(now_s), is_of, &g), 0);
	assert_true(is_of[0] && !is_of[1] && is_of[2]);
	assert_int_equal(g.sketches, 2);
	assert_int_equal(g.function_count, 1);
	assert_string_equal(g.function[0].name, "spin");
	assert_float_equal(g.function[0].usual, 0.1, 1e-6);
	assert_float_equal(g.function[0].line, 0.1, 1e-6);
	assert_false(g.paper);
	free((void *)g.function);
	assert_int_equal(
	    fleet_waterline(fleet, "usual", (const int32_t[]){99}, 1, mono(now_s), is_of, &g),
	    -ENOENT);
	assert_null(g.function);
	fs_fini(&j);
}

/* Of a large role every n-th rank's sketches are kept; a small one beside it needs all of its own. */
static void a_small_role_of_a_large_job_has_a_waterline(void **unused)
{
	static const int32_t suspect[] = {2};
	struct diagnosis_group g;
	struct fs_job j;
	bool is_of[1];

	for (uint32_t every = 1; every <= 32;
	     every *= 32) { /* side by side, or spread over the job */
		teardown(NULL);
		setup(NULL);
		fs_init(&j, "large", 320, 16, 6);
		for (uint32_t r = 0; r < 10; r++)
			snprintf(j.rank[2 + r * every].role, sizeof(j.rank[0].role), "embedding");
		run(&j, 20);
		for (uint32_t r = 0; r < 320; r++)
			send_spinning(&j, r, "gelu", 0.1);
		assert_int_equal(
		    fleet_waterline(fleet, "large", suspect, 1, mono(now_s), is_of, &g), 0);
		assert_int_equal(g.sketches, 9);
		free((void *)g.function);
		assert_int_equal(fleet_waterline(fleet, "large", (const int32_t[]){0}, 1,
						 mono(now_s), is_of, &g),
				 0);
		assert_in_range(g.sketches, 30, 100); /* of 310 every fifth */
		free((void *)g.function);
		fs_fini(&j);
	}
}

static void learns_roles_that_nobody_names(void **unused)
{
	struct fs_job j;

	/* two stages in communicators of their own; the second one's steps have less to do */
	fs_init(&j, "stages", 8, 2, 31);
	j.pair_comms = true;
	j.comm_ranks = 4;
	for (uint32_t r = 0; r < 8; r++) {
		j.rank[r].role[0] = '\0';
		j.rank[r].group = r >= 4;
		j.rank[r].slow_ns = r >= 4 ? -20 * FS_MS : 0;
	}
	run(&j, 60);
	assert_int_equal(totals().rows, 0); /* not known who is comparable */
	for (uint32_t r = 0; r < 8; r++)
		send_sketch(&j, r, r < 4 ? "attention" : "embedding");
	run(&j, 120);
	assert_true(totals().rows > 0);
	assert_int_equal(report_count, 0);
	j.rank[6].slow_ns += 8 * FS_MS;
	run(&j, 180);
	assert_true(named(6));
	only_ranks((const int[]){6}, 1);
	fs_fini(&j);
}

/* Two of eight launch more than the others: what another one always needed more may be its share of the
 * work. Where all launch the same, it is slow. */
/* Sequence lengths, experts: every rank's work is drawn anew every few steps. */
static void uneven_work_is_the_roles_not_a_ranks(void **unused)
{
	static const uint32_t steps[] = {2, 4, 8, 16};
	const struct finding_report *f;
	struct fs_job j;

	for (size_t k = 0; k < 4; k++) {
		fleet_close(fleet);
		setup(NULL);
		fs_init(&j, "job", 8, 8, 40 + k);
		j.skew = 0.15;
		j.skew_steps = steps[k];
		run(&j, 200);
		f = first_of(FINDING_SLOW_RANK);
		if (f)
			print_message("%u steps: rank %d: %s\n", steps[k], f->finding.ranks[0],
				      f->finding.evidence[0].text);
		assert_null(f);
		f = first_of(FINDING_IMBALANCE);
		assert_non_null(f);
		assert_int_equal(f->finding.cause, CAUSE_IMBALANCE_INPUT);
		assert_int_equal(f->finding.rank_count, 8);
		assert_true(f->finding.excess > 0.1 && f->finding.excess < 0.45);
		fs_fini(&j);
	}
}

/* The same times, and as much to do for everybody: other processes use the CPUs. */
static void a_busy_cpu_is_no_uneven_work(void **unused)
{
	static const uint32_t steps[] = {2, 8};
	struct fs_job j;

	for (size_t k = 0; k < 2; k++) {
		fleet_close(fleet);
		setup(NULL);
		fs_init(&j, "job", 8, 8, 40 + k);
		j.skew = 0.15;
		j.skew_steps = steps[k];
		j.noisy_cpu = true;
		run(&j, 200);
		assert_null(first_of(FINDING_IMBALANCE));
		assert_null(first_of(FINDING_SLOW_RANK));
		fs_fini(&j);
	}
}

/* A fault does not hide in a small skew, and makes none. */
static void a_slow_rank_is_no_uneven_work(void **unused)
{
	const int slow[] = {2, 5};
	struct fs_job j;

	fs_init(&j, "job", 8, 8, 50);
	j.rank[2].slow_ns = j.rank[5].slow_ns = 20 * FS_MS;
	j.rank[2].slow_from_s = j.rank[5].slow_from_s = 60;
	run(&j, 160);
	assert_non_null(first_of(FINDING_SLOW_RANK));
	assert_null(first_of(FINDING_IMBALANCE));
	only_ranks(slow, 2);
	fs_fini(&j);
}

static json_t *page(bool ranks, const char *job, const char *after, uint32_t limit);

/* The figure that people see follows the latest steps; half of 128 steps of 100 ms take 6 s more. */
static void the_excess_of_a_slow_rank_is_seen_at_once(void **unused)
{
	struct fs_job j;
	json_t *got;

	fs_init(&j, "job", 8, 8, 50);
	j.rank[2].slow_ns = 40 * FS_MS;
	j.rank[2].slow_from_s = 60;
	run(&j, 60 + 12);
	got = page(true, "job", NULL, 100);
	for (size_t i = 0; i < 8; i++) {
		const json_t *r = json_array_get(json_object_get(got, "ranks"), i);
		double excess =
		    jsonget_number(r, "self_ms") / jsonget_number(r, "role_self_ms") - 1;

		assert_true(jsonget_integer(r, "rank") == 2 ? excess > 0.1 : fabs(excess) < 0.1);
		/* and all its times are of these steps */
		assert_true(jsonget_number(r, "latency_ms") >= jsonget_number(r, "self_ms"));
	}
	json_decref(got);
	fs_fini(&j);
}

/* Where too few are left to compare, nothing is said of the role: three of eight are slow, and left out. */
static void what_few_members_show_is_not_the_roles(void **unused)
{
	const int slow[] = {1, 2, 5};
	struct fs_job j;

	for (int few = 0; few < 2; few++) {
		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 8, 8, 51);
		run(&j, now_s + 60);
		for (int i = 0; i < 3 && few; i++) {
			j.rank[slow[i]].slow_ns = 60 * FS_MS;
			j.rank[slow[i]].slow_from_s = 60;
		}
		run(&j, now_s + 60);
		j.skew = 0.15;
		j.skew_steps = 4;
		run(&j, now_s + 200);
		assert_int_equal(first_of(FINDING_IMBALANCE) != NULL, !few);
		fs_fini(&j);
	}
}

static void ranks_that_differ_by_nature_are_held_against_their_own_past(void **unused)
{
	const int guilty[] = {5};
	struct fs_job j;

	for (int uneven = 0; uneven < 2; uneven++) {
		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 8, 4, 8);
		j.noise = 0.002;
		for (int i = 0; i < 8; i++)
			j.rank[i].kernels = uneven && (i == 1 || i == 3) ? 305 : 238;
		j.rank[5].slow_ns = 4 * FS_MS; /* from the first step on */
		run(&j, now_s + 150);
		assert_int_equal(named(5) > 0, !uneven);
		j.rank[5].slow_ns = 8 * FS_MS;
		run(&j, now_s + 60);
		assert_true(named(5) > 0);
		only_ranks(guilty, 1);
		fs_fini(&j);
	}
}

static void a_rank_that_has_more_to_do_later_keeps_its_peers(void **unused)
{
	const int guilty[] = {2};
	struct fs_job j;

	fs_init(&j, "job", 8, 4, 8);
	j.noise = 0.002;
	for (int i = 0; i < 8; i++)
		j.rank[i].kernels = 238;
	run(&j, now_s + 60);
	j.rank[2].kernels = 305;
	j.rank[2].slow_ns = 8 * FS_MS;
	run(&j, now_s + 90);
	assert_true(named(2) > 0);
	only_ranks(guilty, 1);
	fs_fini(&j);
}

/* Steps of a second: a beat has few of them, and kernels counted over few steps are off by some. */
static void ranks_that_differ_a_little_are_distinguished_at_once(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 8, 4, 8);
	j.step_ns = 1000 * FS_MS;
	j.noise = 0.002;
	for (int i = 0; i < 8; i++)
		j.rank[i].kernels = i == 1 || i == 3 || i == 5 ? 257 : 238;
	j.rank[5].slow_ns = 80 * FS_MS; /* from the first step on */
	run(&j, now_s + 90);
	assert_int_equal(named(5), 0);
	fs_fini(&j);
}

static void numbers_steps_through_collectives(void **unused)
{
	struct fs_job j;
	const int guilty[] = {3};
	const struct finding_report *f;

	/* every rank counts from another step on, and the nodes' clocks are off by up to 40 ms */
	fs_init(&j, "job", 8, 2, 7);
	for (uint32_t r = 0; r < 8; r++)
		j.rank[r].step_offset = r ? 10 + 7 * r : 0;
	for (uint32_t n = 0; n < 4; n++)
		j.node[n].error_ns = (double)n * 17 * FS_MS - 30 * FS_MS;
	j.rank[3].slow_ns = 4 * FS_MS;
	j.rank[3].slow_from_s = 60;
	run(&j, 120);
	f = first_of(FINDING_SLOW_RANK);
	assert_non_null(f);
	only_ranks(guilty, 1);
	/* only what came before the first common collective */
	assert_true(totals().unplaced < 8 * BEAT_GROUPS_MAX);
	assert_true(llabs((long long)f->finding.first_step - 600) <= 20);
	fs_fini(&j);
}

/* The node's last rank is the first to send steps; all report the same collectives, in the same beats. */
static void numbers_ranks_that_come_before_the_first_known_one(void **unused)
{
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job", 4, 4, 11);
	for (uint32_t r = 0; r < 3; r++)
		j.rank[r].step_offset = 3 + r;
	for (; now_s < 40; now_s += 0.1) {
		if (beat_due(&j, 0) && fs_beat(&j, 0, now_s, ranks, &b)) {
			for (uint32_t r = 0; r < 3 && now_s < 10; r++)
				ranks[r].group_count = 0;
			send_beat(&b);
		}
		tick_if_due();
	}
	assert_int_equal(totals().unplaced, 0);
	assert_true(totals().rows > 100);
	fs_fini(&j);
}

static void recovers_the_clocks_of_the_nodes(void **unused)
{
	static const double error_ms[] = {-43, 12.5, 0, 31};
	struct fs_job j;
	json_t *roles, *clock;
	double got[4] = {0};
	size_t i;

	fs_init(&j, "job", 8, 2, 8);
	for (uint32_t n = 0; n < 4; n++)
		j.node[n].error_ns = error_ms[n] * FS_MS;
	run(&j, 120);
	roles = fleet_roles_json(fleet, "job", FS_UNIX + (uint64_t)(now_s * 1e9));
	assert_int_equal(json_array_size(json_object_get(roles, "clocks")), 4);
	json_array_foreach (json_object_get(roles, "clocks"), i, clock) {
		int n = json_string_value(json_object_get(clock, "node"))[1] - '0';

		got[n] = json_real_value(json_object_get(clock, "offset_us"));
		assert_true(json_real_value(json_object_get(clock, "error_us")) < 20);
		assert_true(fabs(json_real_value(json_object_get(clock, "drift_ppm"))) < 1);
	}
	for (int n = 1; n < 4; n++)
		assert_true(fabs(got[n] - got[0] - 1000 * (error_ms[n] - error_ms[0])) < 20);
	json_decref(roles);
	fs_fini(&j);
}

static void the_paper_mode_misses_two_of_eight(void **unused)
{
	struct fs_job j;

	/* m equal stragglers of N never exceed sqrt((N - m) / m) sigma: 1.73 for two of eight */
	fleet_close(fleet);
	open_fleet(NULL, true);
	fs_init(&j, "job", 8, 4, 9);
	j.rank[2].slow_ns = j.rank[6].slow_ns = 8 * FS_MS;
	run(&j, 120);
	assert_int_equal(named(2) + named(6), 0);
	fs_fini(&j);
}

/* ---- coming and going ---- */

static void finds_it_again_after_a_restart(void **unused)
{
	struct fs_job j;
	const int guilty[] = {4};

	fs_init(&j, "job", 8, 4, 10);
	j.rank[4].slow_ns = 6 * FS_MS;
	j.rank[4].slow_from_s = 60;
	run(&j, 100);
	assert_true(named(4));
	fleet_close(fleet);
	report_count = 0;
	open_fleet(NULL, false);
	run(&j, 160); /* 60 s later it is known again */
	assert_true(named(4));
	only_ranks(guilty, 1);
	fs_fini(&j);
}

static void takes_in_a_late_joiner(void **unused)
{
	struct fs_job j;
	const int guilty[] = {7};

	fs_init(&j, "job", 8, 4, 11);
	j.rank[7].joined_s = 60.5;
	j.rank[7].step_offset = 605;
	j.rank[7].slow_ns = 6 * FS_MS;
	run(&j, 180);
	assert_true(named(7));
	only_ranks(guilty, 1);
	fs_fini(&j);
}

static void goes_on_without_a_rank_that_died(void **unused)
{
	struct fs_job j;
	const int guilty[] = {1};

	fs_init(&j, "job", 8, 4, 12);
	run(&j, 40);
	j.rank[3].silent = true;
	j.rank[1].slow_ns = 6 * FS_MS;
	j.rank[1].slow_from_s = 60;
	run(&j, 140);
	assert_true(named(1));
	only_ranks(guilty, 1);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 7);
	fs_fini(&j);
}

typedef int page_fn(struct fleet *f, const struct fleet_page *q, uint64_t now_ns, struct buf *out);

static json_t *page(bool ranks, const char *job, const char *after, uint32_t limit);

static json_t *row_of(const char *job, int rank)
{
	json_t *j = page(true, job, NULL, 1000), *row, *found = NULL;
	size_t i;

	json_array_foreach (json_object_get(j, "ranks"), i, row)
		if (json_integer_value(json_object_get(row, "rank")) == rank)
			found = json_incref(row);
	json_decref(j);
	assert_non_null(found);
	return found;
}

/* Its node's last word is of the process that has the rank; another's of that number is not. */
static void a_rank_whose_process_has_ended_is_so_at_once_with_its_last_counts(void **unused)
{
	static struct beat_rank r[16];
	struct fs_job j;
	struct beat b;
	json_t *row;

	fs_init(&j, "job", 2, 2, 12);
	run(&j, 40);
	assert_true(fs_beat(&j, 0, now_s, r, &b));
	assert_int_equal(b.rank_count, 2);
	r[0].flags = r[1].flags = BEAT_RANK_ENDED;
	r[0].steps = 4711;
	r[1].rank.pid++;
	send_beat(&b);
	row = row_of("job", 0);
	assert_true(json_is_false(json_object_get(row, "alive")));
	assert_true(json_is_true(json_object_get(row, "ended")));
	assert_int_equal(json_integer_value(json_object_get(row, "steps")), 4711);
	json_decref(row);
	row = row_of("job", 1);
	assert_true(json_is_true(json_object_get(row, "alive")));
	json_decref(row);
	assert_int_equal(totals().jobs_alive, 1);
	assert_int_equal(totals().ranks_alive, 1);
	r[1].rank.pid--;
	b.sequence++;
	send_beat(&b);
	assert_int_equal(totals().jobs, 1);
	assert_int_equal(totals().jobs_alive, 0);
	/* it comes again */
	run(&j, 50);
	assert_int_equal(totals().jobs_alive, 1);
	assert_int_equal(totals().ranks_alive, 2);
	fs_fini(&j);
}

/* As the engine and the API process of a serving job. */
static void processes_without_a_rank_are_no_ranks(void **unused)
{
	struct beat_rank r[4] = {{.rank = {.job = "job", .rank = 0, .pid = 1}},
				 {.rank = {.job = "job", .rank = 1, .pid = 2}},
				 {.rank = {.job = "job", .rank = -1, .pid = 3}},
				 {.rank = {.job = "job", .rank = -1, .pid = 4}}};
	struct beat b = {.node = "n", .sequence = 1, .now_ns = 1, .ranks = r, .rank_count = 4};
	json_t *jobs, *nodes, *one;
	struct buf text;

	for (int i = 0; i < 4; i++)
		memcpy(r[i].rank.node, b.node, sizeof(b.node));
	fleet_beat(fleet, &b, via, mono(now_s));
	assert_int_equal(totals().ranks, 2);
	assert_int_equal(totals().ranks_alive, 2);
	assert_int_equal(totals().others, 2);
	assert_int_equal(totals().others_alive, 2);
	buf_init(&text, 4096);
	assert_int_equal(
	    fleet_nodes_page(fleet, &(struct fleet_page){.limit = 9}, mono(now_s), &text), 0);
	jobs = page(false, NULL, NULL, 9);
	nodes = json_loadb((char *)text.data, text.bytes, 0, NULL);
	for (int i = 0; i < 2; i++) {
		one = json_array_get(json_object_get(i ? nodes : jobs, i ? "nodes" : "jobs"), 0);
		assert_int_equal(json_integer_value(json_object_get(one, "ranks")), 2);
		assert_int_equal(json_integer_value(json_object_get(one, "other_processes")), 2);
	}
	json_decref(jobs);
	json_decref(nodes);
	buf_fini(&text);
	/* a job is alive while one of its processes is */
	r[0].flags = r[1].flags = r[2].flags = BEAT_RANK_ENDED;
	b.sequence++;
	fleet_beat(fleet, &b, via, mono(now_s));
	assert_int_equal(totals().ranks_alive, 0);
	assert_int_equal(totals().others_alive, 1);
	assert_int_equal(totals().jobs_alive, 1);
}

static void a_rank_that_hangs_is_shown_with_since_when(void **unused)
{
	static struct beat_rank r[16];
	struct fs_job j;
	struct beat b;
	json_t *row;

	fs_init(&j, "job", 2, 2, 12);
	run(&j, 40);
	assert_true(fs_beat(&j, 0, now_s, r, &b));
	r[0].flags = BEAT_RANK_STALLED;
	r[0].stalled_since_ns = b.now_ns - 7 * (uint64_t)1e9;
	send_beat(&b);
	now_s += 2;
	row = row_of("job", 0);
	assert_float_equal(json_number_value(json_object_get(row, "hang_s")), 9, 0.01);
	json_decref(row);
	row = row_of("job", 1);
	assert_float_equal(json_number_value(json_object_get(row, "hang_s")), 0, 0);
	json_decref(row);
	fs_fini(&j);
}

/* ---- hostile and broken senders ---- */

/* Rows of that rank; of the node's: whether it is quarantined. */
static uint32_t rows_of(const char *job, int rank, const char *node, bool *quarantined)
{
	json_t *j = page(true, job, NULL, 1000), *row;
	uint32_t n = 0;
	size_t i;

	json_array_foreach (json_object_get(j, "ranks"), i, row) {
		if (json_integer_value(json_object_get(row, "rank")) != rank)
			continue;
		n++;
		if (!strcmp(json_string_value(json_object_get(row, "node")), node))
			*quarantined = json_is_true(json_object_get(row, "quarantined"));
	}
	json_decref(j);
	return n;
}

static void one_rank_beat(struct fs_job *j, const char *node, int rank, struct beat_rank *r,
			  struct beat *b)
{
	fs_beat(j, 0, now_s, r, b);
	snprintf(b->node, sizeof(b->node), "%s", node);
	b->boot_id[8] = 7;
	b->rank_count = 1;
	snprintf(r[0].rank.node, sizeof(r[0].rank.node), "%s", node);
	r[0].rank.rank = rank;
}

/* Who claims first has the rank; the true one is shown, and has it when the other falls silent. */
static void a_rank_claimed_first_by_another_node_is_still_shown(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j, evil;
	bool quarantined = false;
	struct beat b;

	fs_init(&j, "job", 8, 4, 13);
	fs_init(&evil, "job", 8, 8, 14);
	evil.first_node = 90;
	for (int i = 0; i < 10; i++) {
		one_rank_beat(&evil, "evil", 3, r, &b);
		send_beat(&b);
		run(&j, now_s + 1);
	}
	assert_int_equal(rows_of("job", 3, "n0", &quarantined), 2);
	assert_true(quarantined);
	assert_true(totals().refused_foreign > 0);
	run(&j, now_s + 60);
	assert_true(fs_is_on(fleet, "job", 3, "n0"));
	assert_int_equal(rows_of("job", 3, "n0", &quarantined), 1);
	fs_fini(&j);
	fs_fini(&evil);
}

/* Another user's claims to the same names are another job. */
static void the_same_name_of_two_users_is_two_jobs(void **unused)
{
	char key[WIRE_TEXT_BYTES];
	struct fs_job j, evil;
	bool quarantined;

	fs_init(&evil, "job@666", 8, 8, 14);
	evil.first_node = 0; /* on the same nodes */
	fs_init(&j, "job@1000", 8, 4, 13);
	run(&evil, 5);
	j.rank[1].slow_ns = 6 * FS_MS;
	j.rank[1].slow_from_s = 60;
	run(&j, 140);
	assert_true(named(1));
	assert_int_equal(rows_of("job@1000", 1, "n0", &quarantined), 1);
	assert_int_equal(rows_of("job", 1, "n0", &quarantined), 2);
	assert_int_equal(fleet_resolve_job(fleet, "job", key), 2);
	assert_int_equal(fleet_resolve_job(fleet, "job@1000", key), 1);
	assert_int_equal(totals().refused_foreign, 0);
	fs_fini(&j);
	fs_fini(&evil);
}

static void other_peoples_ranks_are_refused(void **unused)
{
	bool quarantined = false;
	struct beat_rank r[16];
	struct fs_job j, evil;
	struct beat b;

	fs_init(&j, "job", 8, 4, 13);
	fs_init(&evil, "job", 8, 8, 14);
	evil.first_node = 90;
	for (uint32_t k = 0; k < 8; k++)
		evil.rank[k].slow_ns = 50 * FS_MS;
	run(&j, 20);
	for (int i = 0; i < 30; i++) { /* beside the true ones, for 30 s */
		one_rank_beat(&evil, "evil", 3, r, &b);
		send_beat(&b);
		run(&j, now_s + 1);
	}
	run(&j, 120);
	assert_int_equal(report_count, 0);
	assert_int_equal(totals().refused_foreign, 30);
	assert_true(fs_is_on(fleet, "job", 3, "n0"));
	/* shown beside the first, and counted */
	assert_int_equal(rows_of("job", 3, "evil", &quarantined), 2);
	assert_true(quarantined);
	assert_int_equal(rows_of("job", 3, "n0", &quarantined), 2);
	assert_false(quarantined);
	assert_int_equal(totals().ranks_quarantined, 1);
	/* beyond the world, and of another world */
	one_rank_beat(&evil, "evil", 8, r, &b);
	send_beat(&b);
	assert_int_equal(totals().refused_range, 1);
	one_rank_beat(&evil, "evil", 9, r, &b);
	r[0].rank.world_size = 16;
	send_beat(&b);
	assert_int_equal(totals().refused_world, 1);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 8);
	fs_fini(&j);
	fs_fini(&evil);
}

static void who_speaks_before_the_first_look_does_not_count(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j, evil;
	struct beat b;

	fs_init(&j, "job", 8, 8, 13);
	fs_init(&evil, "job", 8, 8, 14);
	now_s = 5;
	assert_true(fs_beat(&j, 0, now_s, r, &b));
	send_beat(&b);
	for (int rank = -1; rank <= 3; rank += 4) {
		one_rank_beat(&evil, "evil", rank, r, &b);
		send_beat(&b);
		assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 8);
	}
	fs_fini(&j);
	fs_fini(&evil);
}

static void a_stranger_is_compared_with_nobody(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j, evil;
	struct digest d = {.reason = WINDOW_SELF, .begin_unix_ns = 1, .end_unix_ns = 2};
	struct beat b;

	/* rank 7 of the job never came; a stranger takes its number, and seems slow */
	fs_init(&j, "job", 8, 1, 15);
	j.rank[7].silent = true;
	fs_init(&evil, "job", 8, 1, 16);
	for (uint32_t k = 0; k < 8; k++)
		evil.rank[k].slow_ns = 50 * FS_MS;
	for (int i = 0; i < 24; i++) {
		run(&j, now_s + 5);
		one_rank_beat(&evil, "evil", 7, r, &b);
		send_beat(&b);
	}
	assert_int_equal(report_count, 0);
	assert_int_equal(totals().ranks_quarantined, 1);
	/* nor do its windows count, nor those of a node that is not in the job at all */
	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "evil");
	d.rank.rank = 7;
	assert_false(fleet_window(fleet, &d, via, mono(now_s)));
	d.rank.rank = 2;
	assert_false(fleet_window(fleet, &d, via, mono(now_s)));
	snprintf(d.rank.node, sizeof(d.rank.node), "elsewhere");
	assert_false(fleet_window(fleet, &d, via, mono(now_s)));
	assert_int_equal(totals().refused_window, 3);
	snprintf(d.rank.node, sizeof(d.rank.node), "n2");
	assert_true(fleet_window(fleet, &d, via, mono(now_s)));
	snprintf(d.rank.job, sizeof(d.rank.job), "not known");
	assert_true(fleet_window(fleet, &d, via, mono(now_s)));
	fs_fini(&j);
	fs_fini(&evil);
}

/* A rank's drift is compared with the other ranks, never with itself: of one rank nothing is known. */
static void a_window_says_by_how_much_its_rank_exceeds_the_others(void **state)
{
	for (uint32_t ranks = 1; ranks <= 2; ranks++) {
		struct digest d = {.reason = WINDOW_DRIFT, .begin_unix_ns = 1, .end_unix_ns = 2};
		struct fs_job j;

		fs_init(&j, "job", ranks, 1, 15);
		j.rank[0].slow_ns = 10 * FS_MS;
		run(&j, now_s + 60);
		snprintf(d.rank.job, sizeof(d.rank.job), "job");
		snprintf(d.rank.node, sizeof(d.rank.node), "n0");
		d.rank.world_size = (int32_t)ranks;
		assert_true(fleet_window(fleet, &d, via, mono(now_s)));
		if (ranks == 1)
			assert_true(isnan(d.beyond_peers));
		else
			assert_true(d.beyond_peers > 0.05);
		print_message("# beyond peers: %f\n", d.beyond_peers);
		fs_fini(&j);
		teardown(state);
		setup(state);
	}
}

static bool counts_of(const char *node, int rank, int world)
{
	struct digest d = {.reason = WINDOW_SELF, .begin_unix_ns = 1, .end_unix_ns = 2};

	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "%s", node);
	d.rank.rank = rank;
	d.rank.world_size = world;
	return fleet_window(fleet, &d, via, mono(now_s));
}

static bool counts(const char *node, int rank)
{
	return counts_of(node, rank, 0);
}

/* But for those that it had before it started anew with fewer ranks, which come late. */
static void windows_of_a_size_that_the_job_never_had_do_not_count(void **unused)
{
	struct fs_job before, after;

	fs_init(&before, "job", 8, 4, 42);
	run(&before, 20);
	assert_true(counts_of("n0", 3, 8));
	assert_true(counts_of("n0", 3, 0));
	assert_int_equal(totals().refused_world, 0);
	assert_false(counts_of("n0", 3, 16));
	assert_false(counts_of("n0", 9, 16));
	assert_false(counts_of("n0", -1, 6));
	assert_int_equal(totals().refused_world, 3);
	fs_init(&after, "job", 6, 4, 43);
	run(&after, 40);
	assert_true(counts_of("n0", 3, 6));
	assert_true(counts_of("n1", 7, 8));
	assert_false(counts_of("n0", 3, 16));
	fs_fini(&before);
	fs_fini(&after);
}

static void windows_of_a_job_of_unknown_size_count(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job", 8, 8, 44);
	fs_beat(&j, 0, now_s, r, &b);
	for (uint32_t k = 0; k < 8; k++)
		r[k].rank.world_size = 0;
	send_beat(&b);
	assert_true(counts_of("n0", 3, 8));
	assert_true(counts_of("n0", 3, 16));
	fs_fini(&j);
}

/* All ranks are there, on one node, so no communicator reaches beyond it. The stranger has ranks that
 * nobody numbered, then numbers of its own in a larger world, launches other kernels and hangs in one. */
static void a_job_of_one_node_needs_nobody_else(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j, evil;
	struct beat b;

	fs_init(&j, "job", 8, 8, 31);
	fs_init(&evil, "job", 16, 16, 32);
	for (uint32_t k = 0; k < 16; k++) {
		evil.rank[k].slow_ns = 50 * FS_MS;
		evil.rank[k].kernels = 70;
		evil.rank[k].role[0] = j.rank[k % 8].role[0] = '\0';
		j.rank[k % 8].kernels = 100;
	}
	run(&j, 20);
	for (int i = 0; i < 100; i++) {
		one_rank_beat(&evil, "evil", i % 2 ? -1 : i % 16, r, &b);
		r[0].unfinished =
		    (struct beat_unfinished){.kind = BEAT_UNFINISHED_KERNEL, .launch_ns = 1};
		send_beat(&b);
		run(&j, now_s + 1);
	}
	assert_int_equal(report_count, 0);
	assert_int_equal(totals().refused_world + totals().refused_foreign, 50);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 8);
	assert_false(counts("evil", -1));
	assert_false(counts("evil", 3));
	assert_true(counts("n0", 3));
	/* and is still watched as before */
	j.rank[6].slow_ns = 8 * FS_MS;
	j.rank[6].slow_from_s = now_s;
	run(&j, now_s + 60);
	assert_true(named(6));
	fs_fini(&j);
	fs_fini(&evil);
}

/* Nor do a stranger's windows of ranks that nobody has. */
static void windows_of_nobodys_ranks_come_from_the_jobs_nodes(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j, evil;
	struct beat b;

	fs_init(&j, "job", 8, 2, 33);
	fs_init(&evil, "job", 8, 8, 34);
	j.rank[6].silent = j.rank[7].silent = true; /* of n3, which has no beat yet */
	run(&j, 30);
	one_rank_beat(&evil, "evil", -1, r, &b);
	send_beat(&b);
	assert_false(counts("evil", -1));
	assert_false(counts("evil", 7));
	assert_true(counts("n0", 7));
	fs_fini(&j);
	fs_fini(&evil);
}

/* ---- connections ---- */

/* A beat of the node by the connection; run: of sysomd. */
static void beat_by(struct fs_job *j, uint32_t node, uint64_t connection, uint8_t run)
{
	struct beat_rank r[16];
	struct beat b;

	fs_beat(j, node, now_s, r, &b);
	b.boot_id[15] = run;
	via.connection = connection;
	fleet_beat(fleet, &b, via, mono(now_s));
}

static enum fleet_word window_by(const char *node, int rank, uint64_t connection, double age_s)
{
	struct digest d = {.reason = WINDOW_SELF, .begin_unix_ns = 1, .end_unix_ns = 2};

	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "%s", node);
	d.rank.rank = rank;
	return fleet_window(
	    fleet, &d,
	    (struct fleet_via){.connection = connection, .since_ns = mono(now_s - age_s)},
	    mono(now_s));
}

static bool sketch_by(const char *node, int rank, uint64_t connection)
{
	const struct fleet_via by = {.connection = connection};
	struct sketch s = {0};

	snprintf(s.rank.job, sizeof(s.rank.job), "job");
	snprintf(s.rank.node, sizeof(s.rank.node), "%s", node);
	s.rank.rank = rank;
	return fleet_sketch_put(fleet, &s, "", 0, by, mono(now_s));
}

static void windows_and_sketches_come_by_the_connection_of_their_nodes_beats(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 8, 4, 46);
	beat_by(&j, 0, 1, 1);
	beat_by(&j, 1, 2, 1);
	assert_int_equal(window_by("n0", 3, 1, 1e3), FLEET_TAKEN);
	assert_true(sketch_by("n0", 3, 1));
	assert_int_equal(window_by("n0", 3, 2, 1e3), FLEET_REFUSED); /* of another node */
	assert_int_equal(window_by("n0", 3, 3, 1e3), FLEET_REFUSED); /* of nobody */
	assert_int_equal(totals().refused_window, 2);
	assert_false(sketch_by("n0", 3, 2));
	assert_int_equal(totals().refused_sketch, 1);
	fs_fini(&j);
}

/* After an outage windows may come before the first beat does. */
static void a_window_waits_for_the_first_beat_of_its_connection(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 8, 4, 47);
	beat_by(&j, 0, 1, 1);
	assert_int_equal(window_by("n1", 5, 2, 1), FLEET_LATER);
	beat_by(&j, 1, 2, 1);
	assert_int_equal(window_by("n1", 5, 2, 1), FLEET_TAKEN);
	now_s = 5;
	assert_int_equal(window_by("n0", 3, 3, 1), FLEET_LATER);
	assert_int_equal(window_by("n0", 3, 3, 100), FLEET_REFUSED); /* not for ever */
	beat_by(&j, 0, 3, 1);
	assert_int_equal(window_by("n0", 3, 3, 1), FLEET_TAKEN);
	/* what was under way on the earlier one of this run counts, an earlier run's does not */
	assert_int_equal(window_by("n0", 3, 1, 100), FLEET_TAKEN);
	now_s = 10;
	fleet_gone(fleet, 3);
	beat_by(&j, 0, 4, 2);
	assert_int_equal(window_by("n0", 3, 4, 1), FLEET_TAKEN);
	assert_int_equal(window_by("n0", 3, 3, 100), FLEET_REFUSED);
	fs_fini(&j);
}

static void a_connection_is_of_one_node(void **unused)
{
	struct beat b = {.sequence = 1, .now_ns = 1};
	struct fs_job j;

	via.connection = 1;
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(b.node, sizeof(b.node), "flood-%u", i);
		fleet_beat(fleet, &b, via, mono(0));
	}
	assert_int_equal(totals().nodes, 1);
	assert_int_equal(totals().refused_node, 999);
	/* nor does it become one that is known */
	fs_init(&j, "job", 8, 4, 48);
	beat_by(&j, 0, 2, 1);
	beat_by(&j, 0, 1, 2);
	assert_int_equal(totals().refused_node, 1000);
	fs_fini(&j);
}

static void a_name_is_kept_for_who_is_connected(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 8, 4, 49);
	beat_by(&j, 0, 1, 1);
	beat_by(&j, 0, 2, 2);
	assert_int_equal(totals().refused_node, 1);
	fleet_gone(fleet, 1); /* a restart */
	beat_by(&j, 0, 2, 2);
	assert_int_equal(totals().refused_node, 1);
	now_s = 20; /* silent, though its connection never ended */
	beat_by(&j, 0, 3, 3);
	assert_int_equal(totals().refused_node, 1);
	assert_int_equal(window_by("n0", 3, 3, 1), FLEET_TAKEN);
	fs_fini(&j);
}

/* Its communicators are new, and so are its nodes. */
static void a_job_that_moves_is_believed_where_it_goes(void **unused)
{
	const int guilty[] = {5};
	struct fs_job before, after;

	fs_init(&before, "job", 8, 2, 35);
	run(&before, 60);
	fs_init(&after, "job", 8, 2, 36);
	after.first_node = 20;
	after.rank[5].slow_ns = 8 * FS_MS;
	after.rank[5].slow_from_s = 150;
	run(&after, 140);
	assert_int_equal(totals().ranks_quarantined, 0);
	assert_true(counts("n22", 5));
	assert_int_equal(report_count, 0);
	run(&after, 220);
	assert_true(named(5));
	only_ranks(guilty, 1);
	fs_fini(&before);
	fs_fini(&after);
}

/* Two ranks launch more and take longer: they are not held against the others, whatever one of these
 * said at first. */
static void an_impossible_number_of_steps_mixes_no_roles(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job", 8, 4, 37);
	for (uint32_t k = 0; k < 8; k++) {
		j.rank[k].role[0] = '\0';
		j.rank[k].kernels = k < 6 ? 100 : 150;
		j.rank[k].slow_ns = k < 6 ? 0 : 20 * FS_MS;
	}
	fs_beat(&j, 0, now_s, r, &b);
	r[0].steps = UINT64_MAX;
	r[0].kernels_joined = 1;
	send_beat(&b);
	run(&j, 120);
	assert_int_equal(report_count, 0);
	fs_fini(&j);
}

static void time_that_runs_backwards_is_refused(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job", 4, 4, 17);
	run(&j, 30);
	assert_true(fs_beat(&j, 0, now_s, r, &b));
	send_beat(&b);
	send_beat(&b); /* asked again: the same sequence */
	assert_int_equal(totals().refused_repeated, 1);
	b.sequence++;
	b.now_ns -= 20 * FS_S;
	send_beat(&b);
	assert_int_equal(totals().refused_backwards, 1);
	/* another sysomd under the same name, with an older clock */
	b.sequence++;
	b.boot_id[0] ^= 0xff;
	send_beat(&b);
	assert_int_equal(totals().refused_node, 1);
	b.now_ns = UINT64_MAX;
	send_beat(&b);
	assert_int_equal(totals().bad, 1);
	b.now_ns = 1;
	b.realtime_offset_ns = INT64_MAX;
	send_beat(&b);
	assert_int_equal(totals().bad, 2);
	run(&j, 60);
	assert_int_equal(report_count, 0);
	fs_fini(&j);
}

static void impossible_numbers_change_nothing(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j;
	struct beat b;
	uint64_t state = 18;
	const int guilty[] = {6};

	/* rank 0's groups and collectives are random bits; the others are still compared */
	fs_init(&j, "job", 8, 1, 18);
	j.rank[6].slow_ns = 8 * FS_MS;
	j.rank[6].slow_from_s = 60;
	for (; now_s < 120; now_s += 0.1) {
		for (uint32_t n = 0; n < 8; n++) {
			if (!beat_due(&j, n) || !fs_beat(&j, n, now_s, r, &b))
				continue;
			for (size_t i = 0; !n && i < sizeof(r[0].groups); i++)
				((uint8_t *)r[0].groups)[i] = (uint8_t)synth_random(&state);
			for (size_t i = 0; !n && i < sizeof(r[0].colls); i++)
				((uint8_t *)r[0].colls)[i] = (uint8_t)synth_random(&state);
			for (size_t i = sizeof(r[0].comms[0]); !n && i < sizeof(r[0].comms); i++)
				((uint8_t *)r[0].comms)[i] = (uint8_t)synth_random(&state);
			if (!n) {
				r[0].group_count = r[0].coll_count = r[0].comm_count = 16;
				r[0].latency_median_ns = NAN;
			}
			send_beat(&b);
		}
		tick_if_due();
	}
	assert_true(named(6));
	only_ranks(guilty, 1);
	assert_true(totals().bad > 100);
	fs_fini(&j);
}

static void a_sender_of_huge_groups_moves_nobody(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j;
	struct beat b;
	const int guilty[] = {6};

	fs_init(&j, "job", 8, 1, 19);
	j.rank[6].slow_ns = 8 * FS_MS;
	j.rank[6].slow_from_s = 60;
	for (; now_s < 120; now_s += 0.1) {
		for (uint32_t n = 0; n < 8; n++) {
			if (!beat_due(&j, n) || !fs_beat(&j, n, now_s, r, &b))
				continue;
			for (uint32_t g = 0; n == 1 && g < r[0].group_count; g++) {
				r[0].groups[g].count = 1u << 20;
				r[0].groups[g].first_step =
				    (uint64_t)(now_s * 10) << 20 | (uint64_t)g << 20;
			}
			send_beat(&b);
		}
		tick_if_due();
	}
	assert_true(named(6));
	only_ranks(guilty, 1);
	assert_true(totals().ahead > 0);
	fs_fini(&j);
}

static void a_million_communicators_cost_one_beat_each(void **unused)
{
	struct beat_rank r[16];
	struct fs_job j;
	struct beat b;
	uint64_t state = 20, before;

	fs_init(&j, "job", 1, 1, 20);
	run(&j, 10);
	before = totals().bytes;
	for (uint32_t i = 0; i < 1000000 / BEAT_COMMS_MAX; i++) {
		now_s += 0.001;
		fs_beat(&j, 0, now_s, r, &b);
		r[0].comm_count = BEAT_COMMS_MAX;
		r[0].coll_count = BEAT_COLLS_MAX;
		for (uint32_t k = 0; k < BEAT_COMMS_MAX; k++)
			r[0].comms[k] =
			    (struct beat_comm){.comm = synth_random(&state), .ranks = 2};
		for (uint32_t k = 0; k < BEAT_COLLS_MAX; k++)
			r[0].colls[k] =
			    (struct beat_coll){.comm = synth_random(&state), .call_ns = 1};
		send_beat(&b);
	}
	fleet_tick(fleet, mono(now_s), FS_UNIX);
	assert_true(totals().no_room > 0);
	assert_true(totals().bytes < before + (1u << 20));
	fs_fini(&j);
}

/* A beat of 64 ranks that nobody numbered, each of its own job, or all of one. */
static void flood(const char *node, uint32_t number, const char *job)
{
	static struct beat_rank r[LIMIT_NODE_PROCESSES];
	static uint64_t sequence;
	struct beat b = {.ranks = r,
			 .rank_count = LIMIT_NODE_PROCESSES,
			 .sequence = ++sequence,
			 .now_ns = mono(now_s)};

	snprintf(b.node, sizeof(b.node), "%s-%u", node, number);
	for (uint32_t k = 0; k < LIMIT_NODE_PROCESSES; k++) {
		if (job)
			snprintf(r[k].rank.job, sizeof(r[k].rank.job), "%s", job);
		else
			snprintf(r[k].rank.job, sizeof(r[k].rank.job), "job-%u-%u",
				 (uint32_t)sequence, k);
		memcpy(r[k].rank.node, b.node, sizeof(b.node));
		r[k].rank.rank = -1;
		r[k].rank.pid = (uint32_t)sequence * LIMIT_NODE_PROCESSES + k;
	}
	fleet_beat(fleet, &b, via, mono(now_s));
}

static void made_up_jobs_find_an_end(void **unused)
{
	for (uint32_t i = 0; i < 2 * LIMIT_FLEET_JOBS / LIMIT_NODE_PROCESSES; i++)
		flood("flood", i, NULL);
	assert_int_equal(totals().jobs, LIMIT_FLEET_JOBS);
	assert_int_equal(totals().dropped, LIMIT_FLEET_JOBS);
	/* and are forgotten */
	fleet_tick(fleet, mono(1000), FS_UNIX);
	assert_int_equal(totals().jobs, 0);
	assert_int_equal(totals().ranks + totals().others, 0);
}

static void a_node_has_no_more_ranks_than_processes(void **unused)
{
	for (int i = 0; i < 4; i++)
		flood("flood", 0, NULL);
	assert_int_equal(totals().others, LIMIT_NODE_PROCESSES);
	assert_int_equal(totals().refused_processes, 3 * LIMIT_NODE_PROCESSES);
	/* another one's are not touched, and its own make room once they are silent */
	flood("other", 0, NULL);
	now_s = 20;
	flood("flood", 0, NULL);
	assert_int_equal(totals().others, 2 * LIMIT_NODE_PROCESSES);
	assert_int_equal(totals().others_alive, LIMIT_NODE_PROCESSES);
	assert_int_equal(totals().refused_processes, 3 * LIMIT_NODE_PROCESSES);
}

/* An engine and its API process have no GPU: a step that its four workers lose costs four times as much. */
static void processes_without_a_rank_are_no_ranks_of_a_job_that_has_some(void **unused)
{
	struct beat_rank r[4] = {0};
	struct beat b = {.sequence = 1, .now_ns = mono(1), .ranks = r, .rank_count = 4};

	now_s = 1;
	snprintf(b.node, sizeof(b.node), "n0");
	for (int k = 0; k < 4; k++) {
		snprintf(r[k].rank.job, sizeof(r[k].rank.job), "serve");
		memcpy(r[k].rank.node, b.node, sizeof(b.node));
		r[k].rank.pid = 10 + (uint32_t)k;
		r[k].rank.rank = -1;
	}
	fleet_beat(fleet, &b, via, mono(now_s));
	assert_int_equal(fleet_job_ranks(fleet, "serve", mono(now_s)), 4);
	r[0].rank.rank = 0;
	r[1].rank.rank = 1;
	b.sequence++;
	b.now_ns = mono(2);
	fleet_beat(fleet, &b, via, mono(now_s = 2));
	assert_int_equal(fleet_job_ranks(fleet, "serve", mono(now_s)), 2);
}

static void who_is_silent_makes_room_in_a_full_table(void **unused)
{
	struct fs_job j;

	for (uint32_t i = 0; i < LIMIT_FLEET_RANKS / LIMIT_NODE_PROCESSES; i++)
		flood("flood", i, "flood");
	assert_int_equal(totals().others, LIMIT_FLEET_RANKS);
	fs_init(&j, "job", 8, 4, 38);
	run(&j, 10);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 0);
	run(&j, 40);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 8);
	fs_fini(&j);
}

static void who_is_not_believed_makes_room_in_a_full_table(void **unused)
{
	struct fs_job j, late;

	fs_init(&j, "job", 8, 8, 39);
	fs_init(&late, "late", 8, 4, 40);
	run(&j, 10);
	for (uint32_t i = 0; i < LIMIT_FLEET_RANKS / LIMIT_NODE_PROCESSES; i++)
		flood("flood", i, "job");
	run(&late, 15);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 8);
	assert_int_equal(fleet_job_ranks(fleet, "late", mono(now_s)), 8);
	assert_true(totals().ranks + totals().others < LIMIT_FLEET_RANKS / 8 * 7);
	assert_true(totals().dropped > 0);
	fs_fini(&j);
	fs_fini(&late);
}

static void ten_thousand_nodes_all_find_a_place(void **unused)
{
	struct beat b = {.sequence = 1, .now_ns = 1};

	for (int fleets = 0; fleets < 10; fleets++) {
		teardown(NULL);
		setup(NULL);
		for (uint32_t i = 0; i < 10000; i++) {
			snprintf(b.node, sizeof(b.node), "%u", i);
			fleet_beat(fleet, &b, via, mono(0));
		}
		assert_int_equal(totals().nodes, 10000);
	}
}

static void silent_nodes_make_room(void **unused)
{
	struct beat b = {.sequence = 1, .now_ns = 1};
	struct fs_job j;

	for (uint32_t i = 0; i < 4 * LIMIT_FLEET_NODES; i++) {
		snprintf(b.node, sizeof(b.node), "flood-%u", i);
		fleet_beat(fleet, &b, via, mono(0));
	}
	assert_true(totals().nodes > LIMIT_FLEET_NODES / 2);
	assert_true(totals().dropped > 0);
	fs_init(&j, "job", 32, 1, 41);
	run(&j, 15);
	assert_true(fleet_job_ranks(fleet, "job", mono(now_s)) < 32);
	run(&j, 30);
	assert_int_equal(fleet_job_ranks(fleet, "job", mono(now_s)), 32);
	fs_fini(&j);
}

static json_t *page(bool ranks, const char *job, const char *after, uint32_t limit)
{
	const struct fleet_page q = {.job = job, .after = after, .limit = limit};
	struct buf b;
	json_t *j;

	buf_init(&b, 64 << 20);
	assert_int_equal((ranks ? fleet_ranks_page : fleet_jobs_page)(fleet, &q, mono(now_s), &b),
			 0);
	j = json_loadb((char *)b.data, b.bytes, 0, NULL);
	assert_non_null(j);
	buf_fini(&b);
	return j;
}

/* Each once and in order, however the pages are cut; the number of them. */
static uint32_t walk_ranks(const char *job, uint32_t limit)
{
	char next[300] = "", before[300] = "";
	uint32_t n = 0;

	for (;;) {
		json_t *j = page(true, job, *next ? next : NULL, limit), *one;
		const char *more = json_string_value(json_object_get(j, "next"));
		size_t i;

		assert_true(json_array_size(json_object_get(j, "ranks")) <= limit);
		json_array_foreach (json_object_get(j, "ranks"), i, one) {
			char at[300];

			snprintf(at, sizeof(at), "%s %08d",
				 json_string_value(json_object_get(one, "job")),
				 (int)json_integer_value(json_object_get(one, "rank")));
			assert_true(strcmp(at, before) > 0);
			strcpy(before, at);
			n++;
		}
		snprintf(next, sizeof(next), "%s", more ? more : "");
		json_decref(j);
		if (!*next)
			return n;
	}
}

static size_t seen_by(const struct http_user *who, page_fn *fn, const char *what)
{
	const struct fleet_page q = {.who = who, .limit = 1000};
	struct buf b;
	json_t *j;
	size_t n;

	buf_init(&b, 1 << 20);
	assert_int_equal(fn(fleet, &q, mono(now_s), &b), 0);
	j = json_loadb((char *)b.data, b.bytes, 0, NULL);
	n = json_array_size(json_object_get(j, what));
	json_decref(j);
	buf_fini(&b);
	return n;
}

static void users_see_the_ranks_and_jobs_of_their_uid(void **unused)
{
	static const struct http_user seven = {.has_uid = true, .uid = 7}, nobody = {.all = false};
	struct fs_job j[3];
	static const char *const names[] = {"train@7", "train@70", "train"};

	for (uint32_t k = 0; k < 3; k++) {
		fs_init(&j[k], names[k], 8, 8, 1 + k);
		j[k].first_node = 10 * k;
		run(&j[k], now_s + 6);
	}
	assert_int_equal(seen_by(NULL, fleet_ranks_page, "ranks"), 24);
	assert_int_equal(seen_by(&seven, fleet_ranks_page, "ranks"), 8);
	assert_int_equal(seen_by(&seven, fleet_jobs_page, "jobs"), 1);
	assert_int_equal(seen_by(&nobody, fleet_ranks_page, "ranks"), 0);
	assert_int_equal(seen_by(&nobody, fleet_jobs_page, "jobs"), 0);
	for (uint32_t k = 0; k < 3; k++)
		fs_fini(&j[k]);
}

/* Each node once, however the pages are cut, with what its last beat said. */
static void nodes_are_listed_with_version_and_certificate(void **unused)
{
	struct beat beat = {.sequence = 1, .now_ns = 1, .wire_version = 1};
	bool known[100] = {false};
	char next[16] = "";
	uint32_t n = 0;

	for (uint32_t i = 0; i < 100; i++) {
		const struct fleet_via by = {.certificate = i % 2 ? "proven" : NULL};

		snprintf(beat.node, sizeof(beat.node), "node-%u", i);
		strcpy(beat.version, i % 3 ? "1.2.3" : "");
		fleet_beat(fleet, &beat, by, mono(now_s));
	}
	do {
		const struct fleet_page q = {.after = *next ? next : NULL, .limit = 7};
		const char *more;
		struct buf b;
		json_t *j, *one;
		size_t k;

		buf_init(&b, 1 << 20);
		assert_int_equal(fleet_nodes_page(fleet, &q, mono(now_s + 3), &b), 0);
		j = json_loadb((char *)b.data, b.bytes, 0, NULL);
		json_array_foreach (json_object_get(j, "nodes"), k, one) {
			unsigned at = 100;

			sscanf(json_string_value(json_object_get(one, "node")), "node-%u", &at);
			assert_true(at < 100 && !known[at]);
			known[at] = true;
			n++;
			assert_string_equal(json_string_value(json_object_get(one, "version")),
					    at % 3 ? "1.2.3" : "");
			assert_string_equal(json_string_value(json_object_get(one, "certificate")),
					    at % 2 ? "proven" : "");
			assert_int_equal(json_integer_value(json_object_get(one, "beat_age_ms")),
					 3000);
		}
		more = json_string_value(json_object_get(j, "next"));
		snprintf(next, sizeof(next), "%s", more ? more : "");
		json_decref(j);
		buf_fini(&b);
	} while (*next);
	assert_int_equal(n, 100);
}

static uint64_t ranks_of_nodes(double at_s)
{
	const struct fleet_page q = {.limit = 100};
	uint64_t ranks = 0;
	struct buf b;
	json_t *j, *one;
	size_t k;

	buf_init(&b, 1 << 20);
	assert_int_equal(fleet_nodes_page(fleet, &q, mono(at_s), &b), 0);
	j = json_loadb((char *)b.data, b.bytes, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "nodes")), 2);
	json_array_foreach (json_object_get(j, "nodes"), k, one)
		ranks += (uint64_t)jsonget_integer(one, "ranks");
	json_decref(j);
	buf_fini(&b);
	return ranks;
}

/* As the totals do. */
static void nodes_count_ranks_that_are_alive(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 16, 8, 7);
	run(&j, 12);
	assert_int_equal(ranks_of_nodes(now_s), 16);
	assert_int_equal(ranks_of_nodes(now_s + 60), 0);
	fs_fini(&j);
}

static void pages_have_each_rank_once_and_never_hold_the_lock_for_long(void **unused)
{
	struct fs_job large, small[20];
	char name[32];
	struct buf b;
	json_t *j;

	fs_init(&large, "m\"iddle", 4096, 8, 7);
	run(&large, 6);
	for (int k = 0; k < 20; k++) {
		snprintf(name, sizeof(name), "%c%d", k % 2 ? 'a' : 'z', k);
		fs_init(&small[k], name, 8, 8, 100 + (uint64_t)k);
		small[k].first_node = 1000 + (uint32_t)k;
		run(&small[k], now_s + 5);
	}
	assert_int_equal(walk_ranks(NULL, 1000), 4096 + 160);
	assert_int_equal(walk_ranks(NULL, 7), 4096 + 160);
	assert_int_equal(walk_ranks("m\"iddle", 333), 4096);
	assert_int_equal(walk_ranks("a1", 1), 8);
	assert_int_equal(walk_ranks("nobody", 5), 0);
	j = page(false, NULL, NULL, 20);
	assert_int_equal(json_array_size(json_object_get(j, "jobs")), 20);
	assert_string_equal(json_string_value(json_object_get(j, "next")), "z6");
	json_decref(j);
	j = page(false, NULL, "z6", 20);
	assert_int_equal(json_array_size(json_object_get(j, "jobs")), 1);
	assert_null(json_object_get(j, "next"));
	json_decref(j);
	buf_init(&b, 1 << 20);
	assert_int_equal(fleet_ranks_page(fleet, &(struct fleet_page){.after = "x", .limit = 5},
					  mono(now_s), &b),
			 -EINVAL);
	buf_fini(&b);
	assert_in_range(totals().slice_most, 128, 1024);
	assert_int_equal(totals().ranks, 4096 + 160);
	fs_fini(&large);
	for (int k = 0; k < 20; k++)
		fs_fini(&small[k]);
}

static json_int_t nodes_of(const char *name)
{
	json_t *jobs = page(false, name, NULL, 1), *job;
	json_int_t nodes = -1;
	size_t i;

	json_array_foreach (json_object_get(jobs, "jobs"), i, job)
		if (!strcmp(json_string_value(json_object_get(job, "job")), name))
			nodes = json_integer_value(json_object_get(job, "nodes"));
	json_decref(jobs);
	return nodes;
}

/* A job whose nodes come and go has more of them than are known at a time. */
static void places_of_nodes_that_are_gone_are_used_again(void **unused)
{
	struct beat_rank r = {.rank = {.job = "job", .rank = -1}};
	struct beat b = {.sequence = 1, .now_ns = 1, .ranks = &r, .rank_count = 1};
	struct fs_job j;
	uint32_t n = 0;

	fs_init(&j, "job", 8, 8, 45);
	for (int wave = 0; wave < 4; wave++) {
		for (uint32_t i = 0; i < LIMIT_FLEET_NODES / 2; i++) {
			snprintf(b.node, sizeof(b.node), "%u", n++);
			memcpy(r.rank.node, b.node, sizeof(b.node));
			fleet_beat(fleet, &b, via, mono(now_s));
		}
		assert_int_equal(totals().dropped, 0);
		now_s += 650;
		run(&j, now_s + 10);
		assert_int_equal(totals().ranks, 8);
		assert_int_equal(totals().others, 0);
		assert_int_equal(nodes_of("job"), 1);
	}
	fs_fini(&j);
}

/* ---- asking for windows ---- */

static void asks_for_the_suspect_and_healthy_peers(void **unused)
{
	struct fs_job j;
	uint32_t holds = 0, windows = 0, of_suspect = 0;
	struct wire_command *suspects = NULL;
	bool held[4] = {false};

	fs_init(&j, "job", 8, 2, 21);
	j.rank[5].slow_ns = 8 * FS_MS;
	j.rank[5].slow_from_s = 60;
	run(&j, 110);
	for (uint32_t i = 0; i < command_count; i++) {
		struct wire_command *c = &commands[i];
		int node = command_node[i][1] - '0';
		double begin_s = ((double)c->begin_ns - (double)j.node[node].mono_ns) / 1e9;

		assert_string_equal(c->job, "job");
		assert_true(c->end_ns > c->begin_ns);
		if (c->kind == WIRE_COMMAND_HOLD) {
			assert_int_equal(c->rank, INT32_MIN);
			holds++;
			held[node] = true;
			continue;
		}
		assert_true(held[node]); /* first of all */
		/* a node is only asked about ranks it reports, on its own clock */
		assert_int_equal(c->rank / 2, node);
		assert_true(begin_s > 40 && begin_s < 110);
		if (c->kind == WIRE_COMMAND_SUSPECT)
			suspects = c;
		windows += c->kind == WIRE_COMMAND_WINDOW;
		of_suspect += c->kind == WIRE_COMMAND_WINDOW && c->rank == 5;
	}
	assert_int_equal(holds, 4);
	assert_int_equal(windows, 3);
	assert_int_equal(of_suspect, 1);
	assert_non_null(suspects);
	fs_fini(&j);
}

static void a_window_brings_those_of_its_peers(void **unused)
{
	struct digest d = {.reason = WINDOW_SELF};
	struct fs_job j;
	uint32_t windows = 0;

	fs_init(&j, "job", 8, 2, 22);
	run(&j, 40);
	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "n1");
	d.rank.rank = 2;
	d.begin_unix_ns = FS_UNIX + 35 * FS_S;
	d.end_unix_ns = FS_UNIX + 37 * FS_S;
	memset(d.anomaly_id, 0x5a, sizeof(d.anomaly_id));
	d.slow.flagged = 2; /* a transient asks for nothing */
	d.latency_ns = 13e7;
	assert_true(fleet_window(fleet, &d, via, mono(now_s)));
	run(&j, 40.5);
	assert_int_equal(totals().commands_window + totals().commands_hold, 0);
	d.slow.flagged = 12;
	for (int i = 0; i < 50; i++) /* however many come */
		assert_true(fleet_window(fleet, &d, via, mono(now_s)));
	run(&j, 50);
	for (uint32_t i = 0; i < command_count; i++) {
		int node = command_node[i][1] - '0';

		if (commands[i].kind != WIRE_COMMAND_WINDOW)
			continue;
		windows++;
		assert_true(commands[i].rank != 2);
		assert_memory_equal(commands[i].anomaly_id, d.anomaly_id, 16);
		assert_int_equal((int64_t)commands[i].begin_ns,
				 35 * (int64_t)FS_S + j.node[node].mono_ns);
		assert_int_equal((int64_t)commands[i].end_ns,
				 37 * (int64_t)FS_S + j.node[node].mono_ns);
	}
	assert_int_equal(windows, 2);
	fs_fini(&j);
}

static void waits(const char *node, int rank, double from_s)
{
	struct digest d = {.reason = WINDOW_COMM,
			   .slow.flagged = 2,
			   .slow.flagged_ns = 6e7,
			   .latency_ns = 13e7,
			   .summary_only = rank > 0};

	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "%s", node);
	d.rank.rank = rank;
	d.begin_unix_ns = FS_UNIX + (uint64_t)(from_s * 1e9);
	d.end_unix_ns = d.begin_unix_ns + FS_S;
	assert_true(fleet_window(fleet, &d, via, mono(now_s)));
}

static void who_did_not_wait_is_asked(void **unused)
{
	struct fs_job j;

	for (int own = 0; own < 2; own++) {
		struct digest d = {.reason = WINDOW_SELF,
				   .slow.flagged = 1,
				   .slow.self_excess_ns = 3e7,
				   .latency_ns = 13e7};
		uint32_t asked = 0, waiting = 0;
		int node;

		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 4, 2, 22);
		run(&j, 40);
		/* slow itself for a moment; since 36 s it waits */
		for (int rank = 0; rank < 3; rank++) {
			d.rank.rank = rank;
			snprintf(d.rank.job, sizeof(d.rank.job), "job");
			snprintf(d.rank.node, sizeof(d.rank.node), rank < 2 ? "n0" : "n1");
			d.begin_unix_ns = FS_UNIX + 31 * FS_S;
			d.end_unix_ns = FS_UNIX + 32 * FS_S;
			assert_true(fleet_window(fleet, &d, via, mono(now_s)));
			waits(rank < 2 ? "n0" : "n1", rank, 36);
		}
		run(&j, 46); /* once is a transient */
		assert_int_equal(totals().commands_window, 0);
		for (int k = 0; k < 6; k++)
			waits(k % 3 < 2 ? "n0" : "n1", k % 3, k < 3 ? 39 : 39.5);
		snprintf(d.rank.job, sizeof(d.rank.job), "job");
		snprintf(d.rank.node, sizeof(d.rank.node), "n1");
		d.rank.rank = 3;
		d.begin_unix_ns = FS_UNIX + 38 * FS_S;
		d.end_unix_ns = FS_UNIX + 39 * FS_S;
		d.slow.self_excess_ns = 6e7;
		for (int n = 0; n < 2 && own; n++) /* says itself that it was slow */
			assert_true(fleet_window(fleet, &d, via, mono(now_s)));
		if (!own) /* once, for another rank */
			waits("n1", 3, 38);
		run(&j, 56);
		for (uint32_t i = 0; i < command_count; i++) {
			if (commands[i].kind != WIRE_COMMAND_WINDOW)
				continue;
			asked += commands[i].rank == 3;
			waiting += commands[i].rank != 3;
			node = commands[i].rank / 2;
			assert_int_equal((int64_t)commands[i].begin_ns,
					 36 * (int64_t)FS_S + j.node[node].mono_ns);
			assert_int_equal((int64_t)commands[i].end_ns,
					 40 * (int64_t)FS_S + j.node[node].mono_ns);
		}
		assert_int_equal(asked, !own);
		assert_int_equal(waiting, !own); /* of the same time */
		assert_int_equal(totals().commands_window, 2 * !own);
		fs_fini(&j);
	}
}

/* Held against a node's clock they would wrap around to times that look right. */
static void nobody_is_asked_for_times_beyond_all_clocks(void **unused)
{
	struct digest d = {.reason = WINDOW_SELF, .slow.flagged = 12, .latency_ns = 13e7};
	struct fs_job j;

	fs_init(&j, "job", 8, 2, 22);
	run(&j, 40);
	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "n1");
	d.rank.rank = 2;
	d.begin_unix_ns = (1ull << 63) + FS_UNIX / 2;
	d.end_unix_ns = d.begin_unix_ns + FS_S;
	assert_true(fleet_window(fleet, &d, via, mono(now_s)));
	assert_int_equal(totals().commands_window + totals().commands_hold, 0);
	assert_true(totals().commands_refused > 0);
	fs_fini(&j);
}

/* A suspect's window of a transient before its fault, or without evidence, says nothing of it. */
/* A job that starts: its ranks are compared with nobody yet when the first window comes. */
static void peers_are_asked_for_when_they_are_known(void **unused)
{
	struct digest d = {.reason = WINDOW_PEER};
	struct fs_job j;
	uint32_t windows = 0;

	fs_init(&j, "job", 8, 8, 23);
	j.node[0].phase_s = 4.6; /* beats come soon after the start */
	run(&j, 0.6);
	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "n0");
	d.rank.rank = 2;
	d.end_unix_ns = FS_UNIX + FS_S / 2;
	d.begin_unix_ns = FS_UNIX;
	memset(d.anomaly_id, 0x5a, sizeof(d.anomaly_id));
	assert_true(fleet_window(fleet, &d, via, mono(now_s)));
	assert_int_equal(totals().commands_window, 0);
	run(&j, 11); /* one beat more: commands wait for it */
	for (uint32_t i = 0; i < command_count; i++) {
		if (commands[i].kind != WIRE_COMMAND_WINDOW)
			continue;
		windows++;
		assert_true(commands[i].rank == 1 || commands[i].rank == 3);
		assert_memory_equal(commands[i].anomaly_id, d.anomaly_id, 16);
	}
	assert_int_equal(windows, 2);
	run(&j, 40);
	assert_int_equal(totals().commands_window, 2);
	fs_fini(&j);
}

static void a_window_of_another_time_is_not_the_suspects_own(void **unused)
{
	struct digest d = {.reason = WINDOW_SELF};
	struct fs_job j;

	snprintf(d.rank.job, sizeof(d.rank.job), "job");
	snprintf(d.rank.node, sizeof(d.rank.node), "n2");
	d.rank.rank = 5;
	for (int summary = 0; summary < 3; summary++) {
		uint32_t of_suspect = 0;

		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 8, 2, 21);
		j.rank[5].slow_ns = 8 * FS_MS;
		j.rank[5].slow_from_s = 60;
		run(&j, 57);
		d.summary_only = summary == 1;
		d.begin_unix_ns = FS_UNIX + 54 * FS_S;
		d.end_unix_ns = FS_UNIX + (summary ? 110 : 56) * FS_S;
		assert_true(fleet_window(fleet, &d, via, mono(now_s)));
		run(&j, 110);
		for (uint32_t i = 0; i < command_count; i++)
			of_suspect +=
			    commands[i].kind == WIRE_COMMAND_WINDOW && commands[i].rank == 5;
		assert_int_equal(of_suspect, summary < 2);
		fs_fini(&j);
	}
}

/* ---- what lasts, and ends ---- */

static void become(struct fs_job *j, uint64_t boot)
{
	j->boot = boot;
	for (uint32_t i = 0; i < j->ranks; i++)
		j->rank[i].reported = 0;
	for (uint32_t i = 0; i < (j->ranks + j->per_node - 1) / j->per_node; i++)
		j->node[i].sequence = 0;
}

static const struct finding_report *last_of(enum finding_kind kind)
{
	const struct finding_report *f = NULL;

	for (uint32_t i = 0; i < report_count; i++)
		if (reports[i].finding.kind == kind)
			f = &reports[i];
	return f;
}

static void a_slowdown_of_everybody_ends_with_its_run(void **unused)
{
	const struct finding_report *f;
	uint64_t begin;
	struct fs_job j;

	fs_init(&j, "job", 8, 8, 10);
	j.uniform = 1.3;
	j.uniform_from_s = 150;
	run(&j, 220);
	f = first_of(FINDING_UNIFORM);
	assert_non_null(f);
	begin = f->begin_unix_ns;
	become(&j, 77);
	j.uniform = 1;
	run(&j, 260);
	f = last_of(FINDING_UNIFORM);
	assert_true(f->ended);
	assert_true(f->begin_unix_ns == begin);
	assert_true(f->end_unix_ns > begin && f->end_unix_ns <= FS_UNIX + 225 * FS_S);
	assert_int_equal(f->finding.rank_count, 8);
	assert_true(f->finding.effect_ns > 20 * FS_MS && f->finding.last_step > 2000);
	fs_fini(&j);
}

/* Ranks of the second half take more time per step from 150 s on, those of the first until 210 s. */
static void run_slower(struct fs_job *j, double until)
{
	struct beat_rank ranks[16];
	struct beat b;

	for (; now_s < until; now_s += 0.1) {
		if (beat_due(j, 0) && fs_beat(j, 0, now_s, ranks, &b)) {
			for (uint32_t i = 0; i < b.rank_count && now_s >= 150 + 10 * (i >= 4);
			     i++) {
				bool slow = i >= 4 || now_s < 210;

				ranks[i].latency_median_ns *= slow ? 1.3 : 1;
				ranks[i].self_median_ns *= slow ? 1.3 : 1;
			}
			send_beat(&b);
		}
		tick_if_due();
	}
}

static void a_slowdown_is_the_same_one_when_a_role_has_recovered(void **unused)
{
	uint64_t begin = 0;
	struct fs_job j;

	fs_init(&j, "job", 8, 8, 10);
	for (int i = 4; i < 8; i++)
		snprintf(j.rank[i].role, sizeof(j.rank[i].role), "second");
	run_slower(&j, 280);
	for (uint32_t i = 0; i < report_count; i++) {
		if (reports[i].finding.kind != FINDING_UNIFORM)
			continue;
		begin = begin ? begin : reports[i].begin_unix_ns;
		assert_true(reports[i].begin_unix_ns == begin);
	}
	assert_true(begin > 0);
	assert_int_equal(last_of(FINDING_UNIFORM)->finding.rank_count, 4); /* the second role's */
	assert_int_equal(last_of(FINDING_UNIFORM)->finding.ranks[0], 4);
	fs_fini(&j);
}

/* Roles are learned while the job runs: the one that all had before has nobody then. */
static void what_is_reported_of_a_role_ends_with_it(void **unused)
{
	struct fs_job j;

	for (int uneven = 0; uneven < 2; uneven++) {
		enum finding_kind kind = uneven ? FINDING_IMBALANCE : FINDING_UNIFORM;

		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 8, 8, 40);
		j.skew = uneven ? 0.15 : 0;
		j.skew_steps = uneven ? 4 : 0;
		j.uniform = uneven ? 1 : 1.3;
		j.uniform_from_s = 150;
		run(&j, 220);
		assert_non_null(last_of(kind));
		assert_false(last_of(kind)->ended);
		j.skew_steps = 0;
		j.uniform = 1;
		for (int i = 0; i < 8; i++)
			snprintf(j.rank[i].role, sizeof(j.rank[i].role), "learned");
		run(&j, 300);
		assert_true(last_of(kind)->ended);
		fs_fini(&j);
	}
}

/* Of two the healthy one leaves: the other one is compared with nobody. */
static void who_is_left_alone_is_let_off(void **unused)
{
	struct fs_job j;

	fs_init(&j, "job", 2, 1, 10);
	j.rank[0].slow_ns = 20 * FS_MS;
	j.rank[0].slow_from_s = 60;
	run(&j, 90);
	assert_true(named(0));
	assert_false(last_of(FINDING_SLOW_RANK)->ended);
	j.rank[1].silent = true;
	run(&j, 220);
	assert_true(last_of(FINDING_SLOW_RANK)->ended);
	j.rank[1].silent = false; /* and is reported again */
	run(&j, 330);
	assert_false(last_of(FINDING_SLOW_RANK)->ended);
	fs_fini(&j);
}

static void a_hang_lasts_for_longer_than_who_died_is_remembered(void **unused)
{
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job", 8, 1, 10);
	run(&j, 60);
	j.rank[5].silent = true;
	j.stopped_step = 600;
	for (; now_s < 800; now_s += 0.1) {
		for (uint32_t n = 0; n < 8; n++) {
			if (!beat_due(&j, n) || !fs_beat(&j, n, now_s, ranks, &b))
				continue;
			ranks[0].comms[0].entered += now_s > 66;
			ranks[0].comms[0].done_ns *= now_s <= 66;
			send_beat(&b);
		}
		tick_if_due();
	}
	assert_non_null(last_of(FINDING_HANG));
	assert_false(last_of(FINDING_HANG)->ended);
	assert_int_equal(last_of(FINDING_HANG)->finding.ranks[0], 5);
	for (uint32_t i = 0; i < 8; i++)
		j.rank[i].silent = true;
	run(&j, 1500); /* and with the job all are forgotten */
	assert_true(last_of(FINDING_HANG)->ended);
	assert_int_equal(totals().ranks, 0);
	fs_fini(&j);
}

/* ---- clocks and numbers that are far off ---- */

static void a_clock_that_is_an_hour_off_dates_no_others_fault(void **unused)
{
	const struct finding_report *f;
	struct fs_job j;

	for (int hours = -1; hours < 2; hours++) {
		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 8, 2, 10);
		j.node[1].error_ns = hours * 3600e9;
		j.rank[7].slow_ns = 10 * FS_MS;
		j.rank[7].slow_from_s = 60;
		run(&j, 80);
		f = first_of(FINDING_SLOW_RANK);
		assert_non_null(f);
		assert_true(f->begin_unix_ns > FS_UNIX + 55 * FS_S);
		assert_true(f->begin_unix_ns < FS_UNIX + 65 * FS_S);
		assert_true(f->end_unix_ns < FS_UNIX + 80 * FS_S);
		fs_fini(&j);
	}
}

/* node: whose first beats come first. Without collectives only time shows which steps are the same. */
static void run_first(struct fs_job *j, uint32_t node, uint64_t lie, bool colls, double until)
{
	struct beat_rank ranks[16];
	struct beat b;

	for (; now_s < until; now_s += 0.1) {
		for (uint32_t n = 0; n < 8; n++) {
			if (!beat_due(j, n) || (n != node && now_s < 6) ||
			    !fs_beat(j, n, now_s, ranks, &b))
				continue;
			for (uint32_t g = 0; n == node && now_s < 30 && g < ranks[0].group_count;
			     g++)
				ranks[0].groups[g].first_step += lie;
			ranks[0].coll_count *= colls;
			send_beat(&b);
		}
		tick_if_due();
	}
}

static void the_first_ones_clock_or_numbers_blind_nobody(void **unused)
{
	const int guilty[] = {3};
	struct fs_job j;

	for (int lies = 0; lies < 2; lies++) {
		teardown(NULL);
		setup(NULL);
		fs_init(&j, "job", 8, 1, 10);
		j.node[0].error_ns = lies ? 0 : 3600e9;
		j.rank[3].slow_ns = 10 * FS_MS;
		j.rank[3].slow_from_s = 60;
		run_first(&j, 0, lies ? 1ull << 40 : 0, lies, 120);
		assert_true(named(3));
		only_ranks(guilty, 1);
		fs_fini(&j);
	}
}

/* ---- requests ---- */

static struct request_violation late(uint32_t phase, const char *span, const struct beat *b,
				     uint64_t id)
{
	struct request_violation v = {
	    .id = id,
	    .objective = REQUEST_TTFT,
	    .phase = phase,
	    .arrival_ns = b->now_ns - 20000000000ull,
	    .first_ns = b->now_ns - 5000000000ull,
	    .value_ns = 15000000000ull,
	    .phase_ns = 12000000000ull,
	    .objective_ns = 10000000000ull,
	    .slow = {b->now_ns - 18000000000ull, b->now_ns - 8000000000ull, 0, 512, 3}};

	snprintf(v.span, sizeof(v.span), "%s", span);
	return v;
}

static json_t *requests_of(const char *job)
{
	struct fleet_page page = {.job = job, .limit = 100};

	return fleet_requests_json(fleet, &page, mono(now_s));
}

static void late_requests_of_one_way_are_one_finding_with_a_count(void **unused)
{
	static struct request_job r;
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;
	json_t *got, *job;
	uint32_t sent = 0;

	fs_init(&j, "job", 4, 4, 11);
	for (; now_s < 70; now_s += 0.1) {
		if (beat_due(&j, 0) && fs_beat(&j, 0, now_s, ranks, &b)) {
			r = (struct request_job){.running = 3, .waiting = 2, .counts.arrived = 10};
			snprintf(r.job, sizeof(r.job), "%s", ranks[0].rank.job);
			durations_add(&r.ttft, 200000000);
			if (sent++ % 6 == 2) {
				r.counts.violated[REQUEST_TTFT] = 2;
				r.violation[r.violation_count++] =
				    late(REQUEST_QUEUE, "ModelRunner::Sample", &b, sent);
				r.violation[r.violation_count++] =
				    late(REQUEST_PREFILL, "ModelRunner::Sample", &b, sent);
			}
			b.requests = &r;
			b.request_count = 1;
			send_beat(&b);
		}
		tick_if_due();
	}
	assert_int_equal(report_count, 4); /* two ways, twice */
	assert_int_equal(reports[2].finding.kind, FINDING_REQUESTS);
	assert_int_equal(reports[2].finding.count, 2);
	assert_non_null(strstr(reports[2].finding.evidence[0].text,
			       "longer than the objective requests.ttft of 10"));
	assert_true(reports[2].finding.period_ns > 29e9 && reports[2].finding.period_ns < 31e9);
	assert_int_equal(reports[2].finding.step_end_unix_ns -
			     reports[2].finding.step_begin_unix_ns,
			 10000000000ull);
	assert_int_equal(reports[2].end_unix_ns - reports[2].finding.step_end_unix_ns,
			 3000000000ull);
	assert_true(reports[2].begin_unix_ns == reports[0].begin_unix_ns ||
		    reports[2].begin_unix_ns == reports[1].begin_unix_ns);
	assert_memory_not_equal(reports[0].finding.anomaly_id, reports[1].finding.anomaly_id, 16);
	got = requests_of(ranks[0].rank.job);
	job = json_array_get(json_object_get(got, "requests"), 0);
	assert_int_equal(json_integer_value(json_object_get(job, "running")), 3);
	assert_int_equal(json_integer_value(json_object_get(job, "arrived")), 10 * sent);
	assert_int_equal(json_array_size(json_object_get(job, "violations")), 4);
	assert_true(json_number_value(json_object_get(json_object_get(job, "ttft"), "median_ms")) >
		    195);
	json_decref(got);
	/* ten minutes without one: both have ended */
	report_count = 0;
	now_s += 700;
	for (int i = 0; i < 30; i++, now_s += 0.1)
		tick_if_due();
	for (uint32_t i = 0; i < report_count; i++)
		assert_true(reports[i].ended);
	fs_fini(&j);
}

/* Its longest step took two hours. A node's times reach back one hour. */
static void a_request_that_took_hours_has_a_step_of_an_hour_at_most(void **unused)
{
	static struct request_job r;
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;
	json_t *got, *v, *step;

	fs_init(&j, "job", 4, 4, 11);
	j.node[0].mono_ns += 20000 * (int64_t)FS_S;
	while (!beat_due(&j, 0) || !fs_beat(&j, 0, now_s, ranks, &b))
		now_s += 0.1;
	r = (struct request_job){.counts.arrived = 1, .violation_count = 1};
	snprintf(r.job, sizeof(r.job), "%s", ranks[0].rank.job);
	r.violation[0] = late(REQUEST_PREFILL, "", &b, 1);
	r.violation[0].slow.begin_ns = b.now_ns - 7200 * FS_S;
	r.violation[0].slow.end_ns = b.now_ns - 60 * FS_S;
	r.violation[0].arrival_ns = b.now_ns - 7300 * FS_S;
	b.requests = &r;
	b.request_count = 1;
	send_beat(&b);
	got = requests_of(ranks[0].rank.job);
	v = json_array_get(
	    json_object_get(json_array_get(json_object_get(got, "requests"), 0), "violations"), 0);
	step = json_object_get(v, "slow_step");
	assert_true(jsonget_number(step, "ms") == 3540000);
	assert_true(jsonget_number(step, "after_ms") == 0);
	assert_true(jsonget_unsigned(v, "begin_unix_ns") ==
		    b.now_ns - 3600 * FS_S + (uint64_t)b.realtime_offset_ns);
	json_decref(got);
	fs_fini(&j);
}

static void each_phase_of_a_request_has_its_cause(void **unused)
{
	static const enum finding_cause causes[REQUEST_PHASES] = {
	    CAUSE_UNKNOWN,	   CAUSE_REQUEST_API,	 CAUSE_REQUEST_QUEUE,
	    CAUSE_REQUEST_PREFILL, CAUSE_REQUEST_DECODE, CAUSE_REQUEST_PAUSE,
	    CAUSE_REQUEST_OUTPUT,  CAUSE_REQUEST_DRAFTS, CAUSE_REQUEST_TRANSFER};
	static struct request_job r;
	struct beat_rank ranks[16];
	uint32_t seen = 0, sent = 0;
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job", 4, 4, 11);
	for (; now_s < 12; now_s += 0.1) {
		if (beat_due(&j, 0) && fs_beat(&j, 0, now_s, ranks, &b)) {
			r = (struct request_job){.counts.arrived = 1};
			snprintf(r.job, sizeof(r.job), "%s", ranks[0].rank.job);
			for (; sent < REQUEST_PHASES && r.violation_count < REQUEST_VIOLATIONS_MAX;
			     sent++)
				r.violation[r.violation_count++] = late(sent, "", &b, sent + 1);
			b.requests = &r;
			b.request_count = 1;
			send_beat(&b);
		}
		tick_if_due();
	}
	assert_int_equal(report_count, REQUEST_PHASES);
	for (uint32_t i = 0; i < report_count; i++)
		for (uint32_t p = 0; p < REQUEST_PHASES; p++)
			seen |= (uint32_t)(reports[i].finding.cause == causes[p]) << p;
	assert_int_equal(seen, (1u << REQUEST_PHASES) - 1);
	fs_fini(&j);
}

static void requests_of_a_job_that_the_node_has_no_rank_of_count_for_nothing(void **unused)
{
	static struct request_job r = {.job = "another", .counts.arrived = 1};
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;
	json_t *got;

	fs_init(&j, "job", 4, 4, 11);
	for (; now_s < 12; now_s += 0.1)
		if (beat_due(&j, 0) && fs_beat(&j, 0, now_s, ranks, &b)) {
			b.requests = &r;
			b.request_count = 1;
			send_beat(&b);
		}
	got = requests_of(NULL);
	assert_int_equal(json_array_size(json_object_get(got, "requests")), 0);
	assert_true(totals().dropped > 0);
	json_decref(got);
	fs_fini(&j);
}

static void serving_jobs_come_page_by_page(void **unused)
{
	static struct request_job r;
	struct fleet_page page = {.limit = 1};
	struct beat_rank ranks[16];
	struct fs_job jobs[3];
	unsigned pages = 0;
	struct beat b;
	json_t *got;

	for (unsigned i = 0; i < 3; i++)
		fs_init(&jobs[i], (const char *[]){"serve-c@7", "serve-c#1@7", "train-b@7"}[i], 1,
			1, i);
	for (unsigned i = 0; i < 3; i++)
		if (fs_beat(&jobs[i], 0, now_s, ranks, &b)) {
			r = (struct request_job){.counts.arrived = 1};
			snprintf(r.job, sizeof(r.job), "%s", ranks[0].rank.job);
			b.requests = &r;
			b.request_count = i < 2;
			send_beat(&b);
		}
	for (got = NULL; !pages || page.after; pages++) {
		json_t *next = fleet_requests_json(fleet, &page, mono(now_s));
		json_t *list = json_object_get(next, "requests");

		assert_int_equal(json_array_size(list), pages < 2);
		if (pages < 2)
			assert_string_equal(
			    json_string_value(json_object_get(json_array_get(list, 0), "job")),
			    pages ? "serve-c@7" : "serve-c#1@7");
		page.after = json_string_value(json_object_get(next, "next"));
		json_decref(got);
		got = next;
		if (!page.after)
			json_decref(got);
	}
	assert_int_equal(pages, 3); /* the last one finds that train-b serves nothing */
	page = (struct fleet_page){.job = "serve-c@7", .limit = 10};
	got = fleet_requests_json(fleet, &page, mono(now_s));
	assert_int_equal(json_array_size(json_object_get(got, "requests")), 1);
	json_decref(got);
	for (unsigned i = 0; i < 3; i++)
		fs_fini(&jobs[i]);
}

/* Replicas: more than the nodes of a usual job. */
static void open_requests_of_all_nodes_are_summed(void **unused)
{
	static struct request_job r;
	struct beat_rank ranks[2];
	struct fs_job j;
	struct beat b;
	json_t *got, *job;

	fs_init(&j, "serve", 100, 1, 11);
	now_s = 6;
	for (uint32_t n = 0; n < 100; n++) {
		assert_true(fs_beat(&j, n, now_s, ranks, &b));
		r = (struct request_job){.running = 3, .waiting = 2, .oldest_wait_ns = n};
		snprintf(r.job, sizeof(r.job), "%s", j.name);
		b.requests = &r;
		b.request_count = 1;
		send_beat(&b);
	}
	got = requests_of(j.name);
	job = json_array_get(json_object_get(got, "requests"), 0);
	assert_int_equal(json_integer_value(json_object_get(job, "nodes")), 100);
	assert_int_equal(json_integer_value(json_object_get(job, "running")), 300);
	assert_int_equal(json_integer_value(json_object_get(job, "waiting")), 200);
	assert_true(fabs(jsonget_number(job, "oldest_wait_ms") - 99e-6) < 1e-9);
	json_decref(got);
	fs_fini(&j);
}

/* ---- requests whose instances are on different nodes ---- */

static struct request_job asked_job;
static struct request_piece piece;
static struct request_pieces pieces;

/* The beat says that the job serves requests. piece.id 0: it has no piece. */
static void add_requests(struct beat *b, const char *job)
{
	snprintf(asked_job.job, sizeof(asked_job.job), "%s", job);
	pieces = (struct request_pieces){
	    .ttft_ns = 1000000000, .tpot_ns = 10000000, .piece = &piece, .count = 1};
	snprintf(pieces.job, sizeof(pieces.job), "%s", job);
	b->requests = &asked_job;
	b->request_count = 1;
	b->pieces = &pieces;
	b->piece_jobs = piece.id != 0;
}

static uint64_t node_ns(const struct fs_job *j, uint32_t node, double at_s)
{
	return (uint64_t)((int64_t)(at_s * 1e9) + j->node[node].mono_ns);
}

/* The prefill instance, with the API process, is on node 0, the decode instance on node 1: 100 ms from
 * arrival to first token, 40 ms between the instances, 400 ms in 10 steps. */
static struct request_piece piece_of(const struct fs_job *j, uint32_t node, double at_s)
{
	struct request_piece p = {.id = 0xabcdef, .serial = 7};

	if (!node) {
		p.arrival_ns = node_ns(j, 0, at_s);
		p.handed_ns = p.arrival_ns + 1000000;
		p.scheduled_ns = p.arrival_ns + 10000000;
		p.first_ns = p.last_ns = p.arrival_ns + 100000000;
		p.delivered_first_ns = p.first_ns + 1000000;
		p.delivered_last_ns = p.first_ns + 441000000;
		p.prefill_ns = 90000000;
		p.prefill_steps = 1;
		p.prefill_tokens = p.prompt_tokens = 300;
		p.delivered_tokens = 11;
		p.longest[0] = (struct request_step){p.scheduled_ns, p.last_ns, 300, 300, 1};
		return p;
	}
	p.arrival_ns = p.queued_ns = node_ns(j, 1, at_s + 0.105);
	p.scheduled_ns = node_ns(j, 1, at_s + 0.14);
	p.first_ns = p.scheduled_ns + 40000000;
	p.last_ns = p.scheduled_ns + 400000000;
	p.prefill_tokens = p.prefill_steps = 1;
	p.prefill_ns = 40000000;
	p.decode_ns = 360000000;
	p.decode_steps = 9;
	p.longest[1] = (struct request_step){p.first_ns, p.first_ns + 45000000, 1, 1, 1};
	return p;
}

static uint32_t asked(uint32_t kind, const char *node)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < command_count; i++)
		n += commands[i].kind == kind && !strcmp(command_node[i], node);
	return n;
}

/* Until then; the request is at at_s, and its pieces come in the beats after it. */
static void run_serving(struct fs_job *j, double at_s, double until_s)
{
	struct beat_rank ranks[16];
	bool sent[2] = {false, false};
	struct beat b;

	for (; now_s < until_s; now_s += 0.1) {
		for (uint32_t n = 0; n < 2; n++) {
			if (!beat_due(j, n) || !fs_beat(j, n, now_s, ranks, &b))
				continue;
			piece.id = 0;
			if (now_s > at_s + 3 && !sent[n]) {
				piece = piece_of(j, n, at_s);
				sent[n] = true;
			}
			add_requests(&b, ranks[0].rank.job);
			send_beat(&b);
		}
		tick_if_due();
	}
}

static json_t *whole_request(const char *job)
{
	json_t *answer = fleet_request_json(fleet, NULL, job, 0xabcdef);
	json_t *r = json_incref(json_array_get(json_object_get(answer, "requests"), 0));

	json_decref(answer);
	return r;
}

static double part_ms(const json_t *r, const char *parts, const char *phase)
{
	return jsonget_number(json_object_get(r, parts), phase);
}

/* The second node's clock is 300 ms ahead; collectives show by how much. */
static void a_request_of_two_nodes_is_one_on_their_jobs_clock(void **unused)
{
	struct fs_job j;
	json_t *r, *all, *job;

	fs_init(&j, "serve", 4, 2, 11);
	j.node[1].error_ns = 300e6;
	run_serving(&j, 30, 60);
	assert_true(asked(WIRE_COMMAND_PIECES, "n0") > 0);
	assert_true(asked(WIRE_COMMAND_PIECES, "n1") > 0);
	r = whole_request("serve");
	assert_non_null(r);
	assert_string_equal(jsonget_text(r, "clock"), "aligned");
	assert_string_equal(json_string_value(json_array_get(json_object_get(r, "nodes"), 1)),
			    "n1");
	assert_string_equal(jsonget_text(r, "state"), "ended");
	assert_true(fabs(jsonget_number(r, "ttft_ms") - 101) < 0.01);
	assert_true(fabs(jsonget_number(r, "tpot_ms") - 44) < 0.01);
	assert_true(fabs(jsonget_number(r, "transfer_ms") - 40) < 1);
	assert_true(fabs(part_ms(r, "ttft_parts_ms", "prefill") - 90) < 0.01);
	assert_true(fabs(part_ms(r, "tpot_parts_ms", "decode") - 40) < 0.2);
	assert_true(fabs(part_ms(r, "tpot_parts_ms", "transfer") - 3.9) < 0.2);
	assert_true(jsonget_true(r, "tpot_violated"));
	json_decref(r);
	/* one incident, of one request, with windows of both nodes */
	assert_int_equal(report_count, 1);
	assert_int_equal(reports[0].finding.cause, CAUSE_REQUEST_DECODE);
	assert_int_equal(reports[0].finding.count, 1);
	assert_int_equal(asked(WIRE_COMMAND_WINDOW, "n0"), 1);
	assert_int_equal(asked(WIRE_COMMAND_WINDOW, "n1"), 1);
	for (uint32_t i = 0; i < command_count; i++)
		if (commands[i].kind == WIRE_COMMAND_WINDOW)
			assert_memory_equal(commands[i].anomaly_id, reports[0].finding.anomaly_id,
					    16);
	all = requests_of("serve");
	job = json_array_get(json_object_get(all, "requests"), 0);
	assert_int_equal(json_integer_value(json_object_get(job, "arrived")), 1);
	assert_int_equal(json_integer_value(json_object_get(job, "ended")), 1);
	assert_int_equal(json_array_size(json_object_get(job, "violations")), 1);
	json_decref(all);
	fs_fini(&j);
}

/* The decode instance's sysomd was started later, and reads what its process wrote before. The prefill
 * instance's node has judged the request. */
static void a_part_without_the_arrival_is_no_request(void **unused)
{
	struct beat_rank ranks[16];
	struct beat b = {.rank_count = 0};
	struct fs_job j;
	json_t *answer;

	fs_init(&j, "serve", 4, 2, 11);
	run_serving(&j, 10, 30);
	for (; !fs_beat(&j, 1, now_s, ranks, &b); now_s += 0.1)
		;
	piece = piece_of(&j, 1, now_s - 2);
	piece.id = 0xbbb;
	add_requests(&b, ranks[0].rank.job);
	send_beat(&b);
	answer = fleet_request_json(fleet, NULL, "serve", 0xbbb);
	assert_int_equal(json_array_size(json_object_get(answer, "requests")), 0);
	json_decref(answer);
	fs_fini(&j);
}

/* The instances share no collective that shows it. */
static void one_clock_is_off(double error_ns)
{
	struct fs_job j;
	json_t *r;

	fs_init(&j, "serve", 4, 2, 11);
	j.node[1].error_ns = error_ns;
	j.pair_comms = true;
	j.comm_ranks = 2;
	for (uint32_t i = 0; i < 4; i++)
		j.rank[i].group = i / 2;
	run_serving(&j, 10, 30);
	r = whole_request("serve");
	assert_non_null(r);
	assert_string_equal(jsonget_text(r, "clock"), "unknown");
	assert_true(fabs(jsonget_number(r, "ttft_ms") - 101) < 0.01);
	assert_true(fabs(jsonget_number(r, "tpot_ms") - 44) < 0.01);
	assert_true(fabs(part_ms(r, "tpot_parts_ms", "decode") - 40) < 0.2);
	assert_true(part_ms(r, "tpot_parts_ms", "transfer") == 0);
	assert_true(fabs(part_ms(r, "tpot_parts_ms", "none") - 4) < 0.2);
	json_decref(r);
	fs_fini(&j);
}

/* The decode instance seems to have ended before the other began. */
static void a_clock_that_is_behind_says_no_transfer(void **unused)
{
	one_clock_is_off(-5e9);
}

/* It seems to have begun an hour after the client had all tokens. */
static void a_clock_that_is_ahead_says_no_transfer(void **unused)
{
	one_clock_is_off(3600e9);
}

/* Instances that each serve whole requests: after some hundred, their nodes judge again. */
static void nodes_with_requests_of_their_own_are_not_asked_for_long(void **unused)
{
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;
	uint64_t id = 1;
	uint32_t before;

	fs_init(&j, "serve", 4, 2, 11);
	for (; now_s < 400; now_s += 1) {
		for (uint32_t n = 0; n < 2; n++) {
			if (!fs_beat(&j, n, now_s, ranks, &b))
				continue;
			piece = (struct request_piece){.id = id++,
						       .arrival_ns = b.now_ns - 2000000,
						       .delivered_first_ns = b.now_ns - 1000000,
						       .delivered_last_ns = b.now_ns - 1000000,
						       .delivered_tokens = 1};
			add_requests(&b, ranks[0].rank.job);
			send_beat(&b);
		}
		if (now_s < 200.5 && now_s > 199.5)
			before = asked(WIRE_COMMAND_PIECES, "n0");
		fleet_tick(fleet, mono(now_s), FS_UNIX + (uint64_t)(now_s * 1e9));
	}
	assert_true(before > 0);
	assert_int_equal(asked(WIRE_COMMAND_PIECES, "n0"), before);
	fs_fini(&j);
}

/* A beat with the node's piece of the request at at_s, or, if that is 0, with one that is open. run: of its
 * sysomd. */
static void beat_with_piece(struct fs_job *j, uint32_t node, double at_s, uint8_t run)
{
	struct beat_rank ranks[2];
	struct beat b;

	assert_true(fs_beat(j, node, now_s, ranks, &b));
	b.boot_id[15] = run;
	piece =
	    at_s > 0
		? piece_of(j, node, at_s)
		: (struct request_piece){.id = 0xabcdef, .serial = 8, .flags = REQUEST_PIECE_OPEN};
	add_requests(&b, j->name);
	send_beat(&b);
}

/* The nodes were asked by one that has ended. */
static void pieces_that_come_before_an_aggregator_has_asked_are_joined(void **unused)
{
	struct fs_job j;
	json_t *r;

	fs_init(&j, "serve", 2, 1, 11);
	now_s = 3;
	beat_with_piece(&j, 0, 1, 0);
	fleet_tick(fleet, mono(now_s), FS_UNIX + (uint64_t)(now_s * 1e9));
	now_s = 4;
	beat_with_piece(&j, 1, 1, 0);
	for (; now_s < 20; now_s += 0.1)
		tick_if_due();
	r = whole_request("serve");
	assert_non_null(r);
	assert_string_equal(jsonget_text(r, "state"), "ended");
	assert_int_equal(json_array_size(json_object_get(r, "nodes")), 2);
	assert_true(fabs(jsonget_number(r, "ttft_ms") - 101) < 0.01);
	json_decref(r);
	fs_fini(&j);
}

static void a_node_that_starts_again_is_asked_at_once(void **unused)
{
	uint32_t before = 0;
	struct fs_job j;
	json_t *r;

	fs_init(&j, "serve", 2, 1, 11);
	for (now_s = 3; now_s < 6.5; now_s += 1) {
		beat_with_piece(&j, 0, 1, 0);
		beat_with_piece(&j, 1, now_s < 5 ? 1 : 0, 0);
		if (now_s < 4.5)
			before = asked(WIRE_COMMAND_PIECES, "n1");
		assert_int_equal(asked(WIRE_COMMAND_PIECES, "n1"), before);
	}
	assert_true(before > 0);
	r = whole_request("serve");
	assert_string_equal(jsonget_text(r, "state"), "running");
	json_decref(r);
	now_s = 7;
	beat_with_piece(&j, 0, 1, 0);
	beat_with_piece(&j, 1, 1, 1);
	/* what it had open does not go on */
	r = whole_request("serve");
	assert_string_equal(jsonget_text(r, "state"), "ending");
	json_decref(r);
	assert_int_equal(asked(WIRE_COMMAND_PIECES, "n1"), before + 1);
	assert_int_equal(asked(WIRE_COMMAND_PIECES, "n0"), before);
	fs_fini(&j);
}

/* ---- more such jobs than there are places for ---- */

#define MORE (LIMIT_FLEET_JOINED + 1)
static struct fs_job many[MORE];

/* Two nodes each, of this user. */
static void many_begin(uint32_t i, uint32_t uid)
{
	char name[40];

	snprintf(name, sizeof(name), "serve%u@%u", i, uid);
	fs_init(&many[i], name, 2, 1, 11 + i);
	many[i].first_node = 2 * i;
	for (uint32_t n = 0; n < 2; n++)
		many[i].node[n].mono_ns += 10000ll * (int64_t)FS_S;
}

/* ms: of the requests that begin in each beat, of one node each; 0: none begin. */
static void many_run(uint32_t first, uint32_t last, double until_s, uint64_t ms)
{
	static uint64_t id = 1;
	struct beat_rank ranks[2];
	struct beat b;

	for (; now_s < until_s; now_s += 1) {
		for (uint32_t i = first; i <= last; i++)
			for (uint32_t n = 0; n < 2; n++) {
				if (!fs_beat(&many[i], n, now_s, ranks, &b))
					continue;
				piece = (struct request_piece){.id = ms ? id++ : 0,
							       .serial = id,
							       .arrival_ns = b.now_ns - ms * FS_MS,
							       .delivered_first_ns = b.now_ns - 1,
							       .delivered_last_ns = b.now_ns - 1,
							       .delivered_tokens = 1};
				add_requests(&b, many[i].name);
				send_beat(&b);
			}
		fleet_tick(fleet, mono(now_s), FS_UNIX + (uint64_t)(now_s * 1e9));
	}
}

/* Whether its nodes are to be asked, and there is no place. */
static bool is_refused(uint32_t i)
{
	json_t *all = requests_of(many[i].name);
	bool refused = jsonget_true(
	    json_object_get(json_array_get(json_object_get(all, "requests"), 0), "joined"),
	    "refused");

	json_decref(all);
	return refused;
}

static uint32_t count_refused(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < MORE; i++)
		n += is_refused(i);
	return n;
}

static void many_end(void)
{
	for (uint32_t i = 0; i < MORE; i++)
		fs_fini(&many[i]);
}

static void a_job_that_is_not_joined_for_lack_of_places_says_so(void **unused)
{
	for (uint32_t i = 0; i < MORE; i++)
		many_begin(i, 1000);
	many_run(0, MORE - 1, 20, 10);
	assert_int_equal(count_refused(), 1);
	assert_true(is_refused(MORE - 1));
	/* one of the others has ended */
	many_run(1, MORE - 1, 200, 0);
	assert_int_equal(count_refused(), 1);
	assert_true(is_refused(0));
	many_end();
}

/* Each job's nodes serve whole requests. */
static void replicas_leave_their_place_to_others(void **unused)
{
	for (uint32_t i = 0; i < MORE; i++)
		many_begin(i, 1000);
	many_run(0, MORE - 1, 180, 10);
	many_run(0, MORE - 1, 300, 0);
	assert_int_equal(count_refused(), 0);
	many_end();
}

static void a_user_with_many_jobs_leaves_a_place_to_others(void **unused)
{
	for (uint32_t i = 0; i < MORE; i++)
		many_begin(i, i < MORE - 2 ? 1000 : 1001);
	many_run(0, MORE - 2, 20, 10);
	assert_int_equal(count_refused(), 0);
	many_run(0, MORE - 1, 40, 10);
	assert_int_equal(count_refused(), 1);
	assert_false(is_refused(MORE - 1) || is_refused(MORE - 2));
	many_end();
}

static void times_that_cannot_be_are_counted(void **unused)
{
	struct beat_rank ranks[16];
	struct fs_job j;
	struct beat b;
	json_t *all, *joined;

	fs_init(&j, "serve", 4, 2, 11);
	for (uint32_t n = 0; n < 2; n++)
		j.node[n].mono_ns += 10000ll * (int64_t)FS_S;
	run_serving(&j, 1000, 12);
	for (uint32_t n = 0; n < 2; n++) {
		assert_true(fs_beat(&j, n, now_s, ranks, &b));
		piece = piece_of(&j, 0, 1);
		piece.last_ns = n ? b.now_ns + 1 : b.now_ns - 4000ull * 1000000000ull;
		add_requests(&b, ranks[0].rank.job);
		send_beat(&b);
	}
	all = requests_of("serve");
	joined = json_object_get(json_array_get(json_object_get(all, "requests"), 0), "joined");
	assert_int_equal(json_integer_value(json_object_get(joined, "bad")), 2);
	json_decref(all);
	assert_null(whole_request("serve"));
	fs_fini(&j);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
static const struct CMUnitTest tests[] = {
    T(a_window_says_by_how_much_its_rank_exceeds_the_others),
    T(stays_silent_about_a_healthy_job),
    T(late_requests_of_one_way_are_one_finding_with_a_count),
    T(each_phase_of_a_request_has_its_cause),
    T(a_request_that_took_hours_has_a_step_of_an_hour_at_most),
    T(requests_of_a_job_that_the_node_has_no_rank_of_count_for_nothing),
    T(open_requests_of_all_nodes_are_summed),
    T(a_request_of_two_nodes_is_one_on_their_jobs_clock),
    T(a_part_without_the_arrival_is_no_request),
    T(a_clock_that_is_behind_says_no_transfer),
    T(a_clock_that_is_ahead_says_no_transfer),
    T(nodes_with_requests_of_their_own_are_not_asked_for_long),
    T(pieces_that_come_before_an_aggregator_has_asked_are_joined),
    T(a_node_that_starts_again_is_asked_at_once),
    T(a_job_that_is_not_joined_for_lack_of_places_says_so),
    T(replicas_leave_their_place_to_others),
    T(a_user_with_many_jobs_leaves_a_place_to_others),
    T(times_that_cannot_be_are_counted),
    T(serving_jobs_come_page_by_page),
    T(finds_a_rank_that_is_slower_by_a_third_of_a_millisecond),
    T(finds_two_of_eight_as_one_finding_and_its_end),
    T(separates_faults_that_began_at_different_times),
    T(says_who_of_a_pair_has_changed),
    T(never_compares_ranks_of_different_roles),
    T(gives_what_is_usual_in_a_role_without_the_suspects),
    T(a_small_role_of_a_large_job_has_a_waterline),
    T(learns_roles_that_nobody_names),
    T(uneven_work_is_the_roles_not_a_ranks),
    T(a_busy_cpu_is_no_uneven_work),
    T(a_slow_rank_is_no_uneven_work),
    T(the_excess_of_a_slow_rank_is_seen_at_once),
    T(what_few_members_show_is_not_the_roles),
    T(ranks_that_differ_by_nature_are_held_against_their_own_past),
    T(ranks_that_differ_a_little_are_distinguished_at_once),
    T(a_rank_that_has_more_to_do_later_keeps_its_peers),
    T(numbers_steps_through_collectives),
    T(numbers_ranks_that_come_before_the_first_known_one),
    T(recovers_the_clocks_of_the_nodes),
    T(the_paper_mode_misses_two_of_eight),
    T(finds_it_again_after_a_restart),
    T(takes_in_a_late_joiner),
    T(goes_on_without_a_rank_that_died),
    T(a_rank_claimed_first_by_another_node_is_still_shown),
    T(the_same_name_of_two_users_is_two_jobs),
    T(other_peoples_ranks_are_refused),
    T(who_speaks_before_the_first_look_does_not_count),
    T(a_stranger_is_compared_with_nobody),
    T(time_that_runs_backwards_is_refused),
    T(impossible_numbers_change_nothing),
    T(a_sender_of_huge_groups_moves_nobody),
    T(lists_what_a_job_does_as_one_row_each),
    T(windows_and_sketches_come_by_the_connection_of_their_nodes_beats),
    T(a_window_waits_for_the_first_beat_of_its_connection),
    T(a_connection_is_of_one_node),
    T(a_name_is_kept_for_who_is_connected),
    T(a_job_of_one_node_needs_nobody_else),
    T(windows_of_a_size_that_the_job_never_had_do_not_count),
    T(windows_of_a_job_of_unknown_size_count),
    T(windows_of_nobodys_ranks_come_from_the_jobs_nodes),
    T(a_job_that_moves_is_believed_where_it_goes),
    T(an_impossible_number_of_steps_mixes_no_roles),
    T(a_million_communicators_cost_one_beat_each),
    T(made_up_jobs_find_an_end),
    T(a_node_has_no_more_ranks_than_processes),
    T(processes_without_a_rank_are_no_ranks_of_a_job_that_has_some),
    T(who_is_silent_makes_room_in_a_full_table),
    T(who_is_not_believed_makes_room_in_a_full_table),
    T(ten_thousand_nodes_all_find_a_place),
    T(silent_nodes_make_room),
    T(places_of_nodes_that_are_gone_are_used_again),
    T(pages_have_each_rank_once_and_never_hold_the_lock_for_long),
    T(users_see_the_ranks_and_jobs_of_their_uid),
    T(nodes_count_ranks_that_are_alive),
    T(nodes_are_listed_with_version_and_certificate),
    T(asks_for_the_suspect_and_healthy_peers),
    T(a_window_brings_those_of_its_peers),
    T(who_did_not_wait_is_asked),
    T(nobody_is_asked_for_times_beyond_all_clocks),
    T(peers_are_asked_for_when_they_are_known),
    T(a_window_of_another_time_is_not_the_suspects_own),
    T(a_slowdown_of_everybody_ends_with_its_run),
    T(a_slowdown_is_the_same_one_when_a_role_has_recovered),
    T(a_rank_whose_process_has_ended_is_so_at_once_with_its_last_counts),
    T(processes_without_a_rank_are_no_ranks),
    T(a_rank_that_hangs_is_shown_with_since_when),
    T(what_is_reported_of_a_role_ends_with_it),
    T(who_is_left_alone_is_let_off),
    T(a_hang_lasts_for_longer_than_who_died_is_remembered),
    T(a_clock_that_is_an_hour_off_dates_no_others_fault),
    T(the_first_ones_clock_or_numbers_blind_nobody),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
