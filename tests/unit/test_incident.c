/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "aggregator/incident/incident_private.h"
#include "analysis/cause/excerpt.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/text/jsonget.h"
#include "model/thresholds.h"

static uint32_t set_count(const struct incident_set *s, bool open_only)
{
	uint32_t n = 0;

	for (const struct incident *i = s->first; i; i = i->next)
		n += !open_only || i->row.open;
	return n;
}

#define S  1000000000ull
#define T0 (1700000000 * S)

static struct incident_set *set;
static uint32_t next_id;

static int setup(void **unused)
{
	const struct incident_config c = {
	    .gap_ns = 5 * S, .silence_ns = 30 * S, .memory_ns = 3600 * S};

	next_id = 0;
	return incident_set_open(&set, &c);
}

static int teardown(void **unused)
{
	incident_set_close(set);
	return 0;
}

static struct digest window(const char *job, int rank, uint32_t reason, double begin_s,
			    double end_s)
{
	struct digest d = {
	    .reason = reason,
	    .begin_unix_ns = T0 + (uint64_t)(begin_s * 1e9),
	    .end_unix_ns = T0 + (uint64_t)(end_s * 1e9),
	    .bytes = 1000,
	    .raw_bytes = 50000,
	    .slow = {.flagged = 5, .first_step = 20, .last_step = 30, .onset_step = 19},
	    .latency_ns = 52e7,
	    .expected_ns = 4e8,
	    .self_ns = 32e7,
	    .expected_self_ns = 32e7,
	    .beyond_peers = NAN};

	next_id++;
	memcpy(d.id, &next_id, sizeof(next_id));
	memset(d.anomaly_id, rank + 1, 16);
	d.anomaly_id[15] = (uint8_t)next_id;
	snprintf(d.rank.job, sizeof(d.rank.job), "%s", job);
	snprintf(d.rank.node, sizeof(d.rank.node), "node-%d", rank / 4);
	d.rank.rank = rank;
	d.rank.world_size = 8;
	if (reason == WINDOW_SELF) {
		d.self_ns = 44e7;
		d.slow.self_excess_ns = 5 * 12e7;
	}
	return d;
}

static struct incident_change add(struct digest d)
{
	struct incident_change c;

	if (!(d.slow.flagged_ns > 0) && d.expected_ns > 0) /* all alike */
		d.slow.flagged_ns = d.slow.flagged * (d.latency_ns - d.expected_ns);
	d.slow.took = (struct step_times){.steps = d.slow.flagged,
					  .latency_ns = d.slow.flagged * d.latency_ns,
					  .expected_steps = d.slow.flagged,
					  .expected_ns = d.slow.flagged * d.expected_ns,
					  .expected_self_ns = d.slow.flagged * d.expected_self_ns};
	assert_int_equal(incident_set_add(set, &d, d.end_unix_ns, &c), 0);
	return c;
}

static json_t *only(void)
{
	struct digest probe = window("job", 99, WINDOW_ASKED, 0, 100000);
	struct incident_change c;

	assert_int_equal(set_count(set, false), 1);
	assert_int_equal(incident_set_add(set, &probe, T0, &c), 0);
	return incident_set_json(set, c.id, 8, NULL);
}

static const char *ranks_of(json_t *j, const char *key)
{
	static char text[256];
	size_t i;
	json_t *v;

	text[0] = '\0';
	json_array_foreach (json_object_get(j, key), i, v)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i ? "," : "",
			 (int)json_integer_value(v));
	return text;
}

static const char *text_of(json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

static void blames_the_rank_that_lost_its_own_time(void **unused)
{
	json_t *j;

	for (int r = 0; r < 8; r++)
		add(window("job", r, r == 6 ? WINDOW_SELF : WINDOW_COMM, 0.01 * r, 2));
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j, "ranks"), "6");
	assert_string_equal(ranks_of(j, "victims"), "0,1,2,3,4,5,7");
	assert_string_equal(json_string_value(json_array_get(json_object_get(j, "nodes"), 0)),
			    "node-1");
	assert_int_equal(json_integer_value(json_object_get(j, "first_step")), 20);
	assert_int_equal(json_integer_value(json_object_get(j, "steps_to_flag")), 2);
	assert_float_equal(json_real_value(json_object_get(j, "excess")), 0.3, 1e-9);
	assert_float_equal(json_real_value(json_object_get(j, "self_excess")), 0.375, 1e-9);
	json_decref(j);
}

static void pod_is(struct digest *d, const char *pod, const char *container)
{
	const char *const text[POD_TEXTS] = {"ml", pod, container, "gpu7"};

	for (int k = 0; k < POD_TEXTS; k++)
		strcpy(d->rank.pod.text[k], text[k]);
}

static void names_the_containers_of_the_ranks_to_blame(void **unused)
{
	static const char *const pods[] = {"train-0", "train-0", "train-1", "train-0"};
	json_t *j, *list, *first;

	for (int r = 0; r < 4; r++) {
		struct digest d = window("job", r, r == 1 ? WINDOW_COMM : WINDOW_SELF, 0, 2);

		pod_is(&d, pods[r], "trainer");
		add(d);
	}
	j = only();
	list = json_object_get(j, "pods");
	first = json_array_get(list, 0);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(text_of(first, "namespace"), "ml");
	assert_string_equal(text_of(first, "pod"), "train-0");
	assert_string_equal(text_of(first, "container"), "trainer");
	assert_string_equal(text_of(first, "hostname"), "gpu7");
	assert_string_equal(ranks_of(first, "ranks"), "0,3");
	assert_string_equal(ranks_of(json_array_get(list, 1), "ranks"), "2");
	json_decref(j);
}

static void an_expectation_of_nothing_leaves_no_figure_out(void **unused)
{
	struct digest d = window("job", 3, WINDOW_SELF, 0, 2);
	json_t *j;

	d.expected_ns = d.expected_self_ns = 5e-324;
	add(d);
	j = only();
	assert_true(json_is_real(json_object_get(j, "excess")));
	assert_true(json_is_real(json_object_get(j, "self_excess")));
	assert_true(json_is_real(json_object_get(j, "gpu_hours_lost")));
	json_decref(j);
}

static void a_job_without_a_gpu_loses_no_gpu_hours(void **unused)
{
	struct digest d = window("job", 3, WINDOW_SELF, 0, 6);
	struct incident_change c;
	json_t *j;

	d.no_gpu = true;
	c = add(d);
	j = incident_set_json(set, c.id, 8, NULL);
	assert_true(json_number_value(json_object_get(j, "lost_ms")) > 0);
	assert_float_equal(json_real_value(json_object_get(j, "gpu_hours_lost")), 0, 0);
	assert_float_equal(json_real_value(json_object_get(j, "gpu_hours_per_day")), 0, 0);
	json_decref(j);
	/* one of its ranks has one */
	c = add(window("job", 4, WINDOW_COMM, 0, 6));
	j = incident_set_json(set, c.id, 8, NULL);
	assert_true(json_number_value(json_object_get(j, "gpu_hours_lost")) > 0);
	json_decref(j);
}

/* The window that lost most per step is of ten steps; the thirty after it lost a third each. */
static void costs_and_exceeds_what_all_windows_lost(void **unused)
{
	struct digest worst = window("job", 3, WINDOW_SELF, 0, 6);
	struct digest rest = window("job", 3, WINDOW_SELF, 6, 20);
	json_t *j;

	worst.slow.flagged = 10;
	worst.slow.self_excess_ns = 10 * 12e7;
	worst.slow.last_step = 29;
	rest.slow.flagged = 30;
	rest.latency_ns = 44e7;
	rest.slow.self_excess_ns = 30 * 3e7;
	rest.slow.first_step = rest.slow.onset_step = 30;
	rest.slow.last_step = 59;
	add(worst);
	add(rest);
	j = only();
	assert_float_equal(json_real_value(json_object_get(j, "excess")),
			   (10 * 0.12 + 30 * 0.04) / 40 / 0.4, 1e-9);
	assert_float_equal(json_real_value(json_object_get(j, "gpu_hours_lost")),
			   (10 * 0.12 + 30 * 0.04) * 8 / 3600, 1e-9);
	json_decref(j);
}

static struct digest of_slow_steps(struct digest d, double from_s, double to_s)
{
	d.slow.begin_unix_ns = T0 + (uint64_t)(from_s * S);
	d.slow.end_unix_ns = T0 + (uint64_t)(to_s * S);
	return d;
}

/* Windows have healthy steps before and after the slow ones. */
static void lasts_from_its_first_slow_step_to_its_last(void **unused)
{
	json_t *j;

	add(of_slow_steps(window("job", 3, WINDOW_SELF, 0, 6), 1, 6));
	add(of_slow_steps(window("job", 3, WINDOW_SELF, 6, 9), 6, 8));
	j = only();
	assert_float_equal(json_number_value(json_object_get(j, "duration_s")), 7, 1e-6);
	assert_int_equal(jsonget_unsigned(j, "begin_unix_ns"), T0 + S);
	assert_int_equal(jsonget_unsigned(j, "end_unix_ns"), T0 + 8 * S);
	json_decref(j);
	/* it still hangs at the window's end */
	add(window("job", 3, WINDOW_STALL, 9, 12));
	j = only();
	assert_int_equal(jsonget_unsigned(j, "end_unix_ns"), T0 + 12 * S);
	json_decref(j);
}

static void distinguishes_a_transient_from_a_fault(void **unused)
{
	struct digest self = window("job", 3, WINDOW_SELF, 0, 1);
	struct digest comm = window("job", 4, WINDOW_COMM, 0, 1);
	json_t *j;

	self.slow.flagged = comm.slow.flagged = 2;
	add(self);
	add(comm);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "transient");
	assert_string_equal(ranks_of(j, "ranks"), "3");
	json_decref(j);
	self.id[8] = 1; /* three more slow steps of the same rank, a moment later */
	self.slow.flagged = 3;
	add(self);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	json_decref(j);
}

/* The n-th single slow step of rank 3, with healthy ones before it. */
static struct digest transient(unsigned n)
{
	struct digest d = window("job", 3, WINDOW_SELF, 0, 1);

	d.slow.flagged = 1;
	d.latency_ns = 13e7;
	d.expected_ns = 1e8;
	d.slow.self_excess_ns = 3e7;
	d.slow.first_step = d.slow.last_step = d.slow.onset_step = 20 + 40 * n;
	d.begin_unix_ns += 3000000000ull * n;
	d.end_unix_ns = d.begin_unix_ns + 1000000000ull;
	return d;
}

/* Of 30 ms each: half a second in all. */
static void single_slow_steps_are_transients_unless_they_cost_much(void **unused)
{
	json_t *j;

	for (unsigned n = 0; n < 16; n++)
		add(transient(n));
	j = only();
	assert_string_equal(text_of(j, "symptom"), "transient");
	assert_string_equal(ranks_of(j, "ranks"), "3");
	json_decref(j);
	add(transient(16));
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	json_decref(j);
}

/* A host that is busy for three steps in a row, at little cost. */
static void a_few_steps_that_cost_nothing_are_a_transient(void **unused)
{
	struct digest d = window("job", 3, WINDOW_COMM, 0, 1);
	json_t *j;

	d.slow.flagged = 3;
	d.latency_ns = 44e7;
	add(d);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "transient");
	json_decref(j);
	d.id[8] = 1;
	d.rank.rank = 4;
	d.latency_ns = 60e7;
	add(d);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_job");
	json_decref(j);
}

/* Its window shows sixteen steps: they lost little, but it lasts. */
static void a_small_change_for_good_is_no_transient(void **unused)
{
	json_t *j;

	for (int r = 0; r < 8; r++) {
		struct digest d = window("job", r, WINDOW_DRIFT, 0, 1);

		d.slow.flagged = 16;
		d.latency_ns = 66e6;
		d.self_ns = d.expected_ns = d.expected_self_ns = 60e6;
		d.self_ns += 6e6;
		d.slow.self_excess_ns = 16 * 6e6;
		add(d);
	}
	j = only();
	assert_string_equal(text_of(j, "symptom"), "drift");
	assert_string_equal(ranks_of(j, "ranks"), "0,1,2,3,4,5,6,7");
	json_decref(j);
	add(transient(0)); /* one late step of rank 3 meanwhile */
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_job");
	assert_string_equal(ranks_of(j, "ranks"), "3,0,1,2,4,5,6,7");
	json_decref(j);
}

/* Other programs slow the node. Only in rank 1 it is enough for an alarm. */
static void a_drift_that_peers_share_is_not_of_one_rank(void **unused)
{
	const double beyond[] = {0.05, 0.01, NAN};

	for (size_t n = 0; n < ARRAY_LEN(beyond); n++) {
		struct digest d = window("job", 1, WINDOW_DRIFT, 0, 8);
		json_t *j;

		d.slow.flagged = 128;
		d.latency_ns = 63e6;
		d.self_ns = d.expected_ns = d.expected_self_ns = 60e6;
		d.self_ns += 3e6;
		d.slow.self_excess_ns = 128 * 3e6;
		d.beyond_peers = beyond[n];
		add(d);
		j = only();
		assert_string_equal(text_of(j, "symptom"), n == 1 ? "transient" : "drift");
		assert_string_equal(ranks_of(j, "ranks"), "1");
		json_decref(j);
		teardown(unused);
		setup(unused);
	}
}

/* Of two ranks by turns, one step in eighty each: few, however many in all. One in fifteen is not. */
static void single_slow_steps_far_apart_stay_transients(void **unused)
{
	json_t *j;

	for (unsigned n = 0; n < 16; n++) {
		struct digest d = transient(n);

		d.rank.rank = n % 2 ? 3 : 5;
		d.begin_unix_ns += 1000000000ull * n;
		d.end_unix_ns += 1000000000ull * n;
		add(d);
	}
	j = only();
	assert_string_equal(text_of(j, "symptom"), "transient");
	json_decref(j);
	for (unsigned n = 22; n < 42; n++)
		add(transient(n));
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	json_decref(j);
}

/* All wait, in a collective that is slow; then one has a transient of its own. */
static void a_moment_of_one_is_not_what_all_waited_for(void **unused)
{
	struct digest self = window("job", 3, WINDOW_SELF, 21, 22);
	json_t *j;

	for (int rank = 0; rank < 4; rank++) {
		struct digest wait = window("job", rank, WINDOW_COMM, 0, 20);

		wait.slow.flagged = 100;
		wait.latency_ns = 50e7;
		add(wait);
	}
	add(self);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_job");
	assert_string_equal(ranks_of(j, "ranks"), "");
	json_decref(j);
}

static void measures_a_culprit_by_what_it_did_itself(void **unused)
{
	struct digest wait = window("job", 3, WINDOW_COMM, 0, 1);
	struct digest self = window("job", 3, WINDOW_SELF, 1, 1);
	json_t *j;

	wait.slow.flagged = 20;
	wait.latency_ns = 50e7;
	add(wait);
	add(self);
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "3");
	assert_float_equal(json_real_value(json_object_get(j, "excess")), 0.3, 1e-9);
	assert_float_equal(json_real_value(json_object_get(j, "self_excess")), 0.375, 1e-9);
	json_decref(j);
}

static void one_step_that_costs_a_second_is_no_transient(void **unused)
{
	struct digest self = window("job", 3, WINDOW_SELF, 0, 1);
	json_t *j;

	self.slow.flagged = 1;
	self.slow.self_excess_ns = 1.2e9;
	add(self);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	json_decref(j);
}

static void a_long_step_is_a_transient_until_another_one_comes(void **unused)
{
	struct digest first = window("job", 3, WINDOW_SELF, 0, 1),
		      again = window("job", 3, WINDOW_SELF, 15, 16);
	json_t *j;

	first.slow.flagged = again.slow.flagged = 1;
	first.slow.self_excess_ns = first.slow.first_self_ns = again.slow.self_excess_ns = 2e9;
	first.slow.flagged_ns = first.slow.first_ns = again.slow.flagged_ns = 2e9;
	add(first);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "transient");
	json_decref(j);
	add(again);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	json_decref(j);
}

/* The machine is busy, and the long step is not what makes the few others an incident. */
static void a_long_first_step_does_not_make_small_ones_large(void **unused)
{
	for (int is_first = 0; is_first < 2; is_first++) {
		struct digest long_one = window("job", 3, WINDOW_SELF, 0, 1),
			      small = window("job", 3, WINDOW_SELF, 3, 4);
		json_t *j;

		strcpy(long_one.rank.job, is_first ? "one" : "two");
		strcpy(small.rank.job, long_one.rank.job);
		long_one.slow.flagged = 1;
		long_one.slow.flagged_ns = long_one.slow.self_excess_ns = 8e8;
		long_one.slow.first_ns = long_one.slow.first_self_ns = is_first ? 8e8 : 0;
		small.slow.flagged = 6;
		small.slow.flagged_ns = small.slow.self_excess_ns = 1e8;
		add(long_one);
		j = incident_set_json(set, add(small).id, 8, NULL);
		assert_int_equal(!strcmp(text_of(j, "symptom"), "transient"), is_first);
		json_decref(j);
	}
}

static void names_several_stragglers_worst_first_but_no_echo(void **unused)
{
	struct digest a = window("job", 2, WINDOW_SELF, 0, 1),
		      b = window("job", 5, WINDOW_SELF, 0, 1),
		      echo = window("job", 1, WINDOW_SELF, 0, 1);
	json_t *j;

	b.slow.self_excess_ns *= 1.5;
	echo.slow.self_excess_ns *= 0.05;
	add(echo);
	add(a);
	add(b);
	add(window("job", 0, WINDOW_COMM, 0, 1));
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "5,2");
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	json_decref(j);
}

static void calls_it_the_job_when_most_ranks_are_slow(void **unused)
{
	json_t *j;

	for (int r = 0; r < 6; r++)
		add(window("job", r, WINDOW_SELF, 0, 1));
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_job");
	json_decref(j);
}

static json_int_t seconds_of(json_t *j, const char *key)
{
	return (json_int_t)(jsonget_unsigned(j, key) - T0) / (json_int_t)S;
}

static void transients_near_a_fault_do_not_stretch_its_time(void **unused)
{
	static const int orders[2][5] = {{0, 1, 2, 3, 4}, {4, 2, 0, 3, 1}};

	for (int o = 0; o < 2; o++) {
		struct digest d[5];
		json_t *j;

		teardown(NULL);
		setup(NULL);
		d[0] = window("job", 3, WINDOW_SELF, 0, 1);   /* another rank hesitates */
		d[1] = window("job", 6, WINDOW_SELF, 4, 5);   /* the culprit itself */
		d[2] = window("job", 6, WINDOW_SELF, 8, 12);  /* the fault */
		d[3] = window("job", 6, WINDOW_SELF, 12, 13); /* its last steps */
		d[4] = window("job", 5, WINDOW_COMM, 16, 17);
		d[0].slow.flagged = d[1].slow.flagged = d[3].slow.flagged = d[4].slow.flagged = 1;
		d[1].slow.first_step = d[1].slow.last_step = d[1].slow.onset_step = 7;
		d[3].slow.first_step = d[3].slow.last_step = 31;
		d[3].begin_unix_ns += 7; /* the clocks were read anew */
		memcpy(d[3].anomaly_id, d[2].anomaly_id, 16);
		memcpy(d[1].anomaly_id, d[2].anomaly_id, 16);
		for (int k = 0; k < 5; k++)
			add(d[orders[o][k]]);
		j = only();
		assert_string_equal(ranks_of(j, "ranks"), "6");
		assert_int_equal(seconds_of(j, "begin_unix_ns"), 8);
		assert_int_equal(seconds_of(j, "end_unix_ns"), 13);
		assert_int_equal(json_integer_value(json_object_get(j, "first_step")), 20);
		assert_int_equal(json_integer_value(json_object_get(j, "last_step")), 31);
		assert_int_equal(json_integer_value(json_object_get(j, "flagged_steps")), 6);
		assert_int_equal(json_integer_value(json_object_get(j, "steps_to_flag")), 2);
		assert_int_equal(json_integer_value(json_object_get(j, "window_count")), 6);
		json_decref(j);
	}
}

/* Rank r slow itself from begin_s to end_s, in windows of 2 s with steps of 130 ms of which 30 are lost. */
static void slow_for(int rank, double begin_s, double end_s, uint64_t first_step)
{
	for (double t = begin_s; t < end_s; t += 2) {
		struct digest d =
		    window("job", rank, WINDOW_SELF, t, t + 2 < end_s ? t + 2 : end_s);

		d.slow.flagged = (uint32_t)((double)(d.end_unix_ns - d.begin_unix_ns) / 13e7);
		d.slow.first_step = d.slow.onset_step =
		    first_step + (uint64_t)((t - begin_s) / 0.13);
		d.slow.last_step = d.slow.first_step + d.slow.flagged;
		d.slow.self_excess_ns = d.slow.flagged * 3e7;
		add(d);
	}
}

/* It may have lost more, since all of its steps count. */
static void a_drift_that_peers_share_is_not_blamed_for_a_fault(void **unused)
{
	struct digest d = window("job", 1, WINDOW_DRIFT, 0, 8);
	json_t *j;

	d.slow.flagged = 128;
	d.self_ns += 12e7;
	d.slow.self_excess_ns = 128 * 12e7;
	d.beyond_peers = 0.01;
	add(d);
	slow_for(6, 8, 20, 200);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j, "ranks"), "6");
	json_decref(j);
}

/* Something else runs on the host of rank r for a second: it costs as much as half a minute of a fault. */
static void contend(int rank, uint32_t reason, double begin_s)
{
	struct digest d = window("job", rank, reason, begin_s, begin_s + 1.2);

	d.slow.flagged = 7;
	d.slow.first_step = d.slow.onset_step = 490;
	d.slow.last_step = 500;
	d.slow.self_excess_ns = 4.5e9;
	add(d);
}

static void waits_in_between(double begin_s, double end_s)
{
	for (double t = begin_s; t < end_s; t += 4)
		add(window("job", 0, WINDOW_COMM, t, t + 0.5));
}

static struct finding_report accusing(int a, int b, double begin_s, double end_s)
{
	struct finding_report f = {.job = "job",
				   .begin_unix_ns = T0 + (uint64_t)(begin_s * 1e9),
				   .end_unix_ns = T0 + (uint64_t)(end_s * 1e9),
				   .ended = true};

	f.finding = (struct finding){.kind = FINDING_SLOW_RANK,
				     .cause = CAUSE_CPU_HOST_GAP,
				     .first_step = 490,
				     .last_step = 500,
				     .effect_ns = 4e8,
				     .confidence = 0.9,
				     .ranks = {a, b},
				     .rank_count = b < 0 ? 1 : 2};
	return f;
}

static void report(struct finding_report f)
{
	struct incident_change c;

	assert_int_equal(incident_set_add_finding(set, &f, f.end_unix_ns, &c), 0);
}

/* Whoever saw it: the rank itself, its node among its ranks, or the cluster. */
static void a_moment_on_other_ranks_is_no_part_of_a_fault(void **unused)
{
	static const double moments[] = {2, 18}; /* long before the fault; while it lasts */

	for (int k = 0; k < 6; k++) {
		double at = moments[k % 2];
		json_t *j;

		teardown(NULL);
		setup(NULL);
		contend(5, k / 2 == 1 ? WINDOW_PEER : WINDOW_SELF, at);
		contend(2, WINDOW_SELF, at);
		if (k / 2 == 2)
			report(accusing(5, 2, at, at + 1.2));
		waits_in_between(2, 12);
		slow_for(7, 12, 42, 900);
		j = only();
		assert_string_equal(text_of(j, "symptom"), "slow_rank");
		assert_string_equal(ranks_of(j, "ranks"), "7");
		assert_int_equal(seconds_of(j, "begin_unix_ns"), 12);
		assert_int_equal(json_integer_value(json_object_get(j, "first_step")), 900);
		json_decref(j);
	}
}

/* The rank of the fault had a transient itself. */
static void a_moment_long_before_a_fault_is_not_its_begin(void **unused)
{
	json_t *j;

	contend(7, WINDOW_SELF, 2);
	waits_in_between(2, 12);
	slow_for(7, 12, 42, 900);
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "7");
	assert_int_equal(seconds_of(j, "begin_unix_ns"), 12);
	assert_int_equal(json_integer_value(json_object_get(j, "first_step")), 900);
	json_decref(j);
}

static void a_fault_that_comes_and_goes_has_all_its_time(void **unused)
{
	json_t *j;

	for (int k = 0; k < 8; k++)
		slow_for(7, 3 * k, 3 * k + 1, 100 + 30 * (uint64_t)k);
	slow_for(7, 24, 40, 900);
	j = only();
	assert_int_equal(seconds_of(j, "begin_unix_ns"), 0);
	assert_int_equal(json_integer_value(json_object_get(j, "first_step")), 100);
	json_decref(j);
}

static void a_second_fault_is_named_although_it_began_later(void **unused)
{
	json_t *j;

	slow_for(2, 0, 60, 100);
	slow_for(5, 52, 60, 500);
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "2,5");
	assert_int_equal(seconds_of(j, "begin_unix_ns"), 0);
	json_decref(j);
}

/* One after the other, in one incident. */
static void two_faults_in_turn_are_both_named(void **unused)
{
	json_t *j;

	slow_for(2, 0, 10, 100);
	slow_for(5, 12, 70, 500);
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "5,2");
	assert_int_equal(seconds_of(j, "begin_unix_ns"), 0);
	json_decref(j);
}

/* Ranks that wait and single late steps between the two don't tie them together; those of the second
 * belong to it, whichever comes first. */
static void a_fault_after_the_end_of_another_is_another_incident(void **unused)
{
	for (int order = 0; order < 2; order++) {
		struct incident_change a, b;
		struct digest victim = window("job", 1, WINDOW_COMM, 26, 30);

		teardown(NULL);
		setup(NULL);
		slow_for(2, 0, 10, 100);
		waits_in_between(0, 12);
		a = add(window("job", 1, WINDOW_COMM, 12, 13));
		for (double t = 13; t < 26; t += 3)
			add(window("job", t < 20 ? 3 : 0, WINDOW_COMM, t, t + 0.2));
		b = add(order ? victim : window("job", 5, WINDOW_SELF, 26, 30));
		slow_for(5, 28, 50, 500);
		assert_string_equal(add(window("job", 1, WINDOW_COMM, 46, 50)).id, b.id);
		assert_string_equal(add(window("job", 4, WINDOW_COMM, 6, 10)).id, a.id);
		assert_string_not_equal(a.id, b.id);
	}
}

/* The hypervisor takes 380 ms/s more than usual of each CPU, so every rank is late. */
static struct incident_change stolen(int rank, double begin_s)
{
	struct digest d = window("job", rank, WINDOW_SELF, begin_s, begin_s + 2);

	d.slow.flagged = 15;
	d.slow.first_step = d.slow.onset_step = 400;
	d.slow.last_step = 415;
	d.latency_ns = 13e7;
	d.expected_ns = 1e8;
	d.slow.self_excess_ns = 15 * 3e7;
	os_signal_make(&d.signals[d.signal_count++], OS_SIGNAL_STEAL, "", 400, 20, 100);
	return add(d);
}

/* For ten seconds between two faults: it neither ties them together nor is it either's rank's doing. */
static void what_the_hypervisor_takes_is_no_fault_of_a_rank(void **unused)
{
	struct incident_change a, b;
	json_t *j;

	slow_for(2, 0, 10, 100);
	a = add(window("job", 4, WINDOW_COMM, 6, 10));
	for (double t = 11; t < 24; t += 2)
		for (int rank = 1; rank < 6; rank++)
			b = stolen(rank, t);
	j = incident_set_json(set, b.id, 8, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "ranks")),
			 5); /* so far it is all there is */
	json_decref(j);
	slow_for(5, 25, 50, 500);
	b = add(window("job", 1, WINDOW_COMM, 46, 50));
	assert_string_not_equal(a.id, b.id);
	j = incident_set_json(set, a.id, 8, NULL);
	assert_string_equal(ranks_of(j, "ranks"), "2");
	json_decref(j);
	j = incident_set_json(set, b.id, 8, NULL);
	assert_string_equal(ranks_of(j, "ranks"), "5");
	json_decref(j);
}

/* Where nobody else was slow for longer than one step it is all there is, whoever took it. */
static void what_the_hypervisor_takes_is_no_moment_beside_one_step(void **unused)
{
	struct digest once = window("job", 6, WINDOW_SELF, 12, 12.5);
	struct incident_change c;
	json_t *j;

	for (double t = 1; t < 24; t += 2)
		stolen(5, t);
	once.slow.flagged = 1;
	once.slow.self_excess_ns = 8e7;
	c = add(once);
	j = incident_set_json(set, c.id, 8, NULL);
	assert_non_null(strstr(ranks_of(j, "ranks"), "5"));
	json_decref(j);
}

/* What the node reports when a rank becomes slow: 20 steps of 29, 137 ms in place of 132. */
static struct digest reported_by_node(uint64_t sequence, double begin_s)
{
	struct digest d = window("job", 5, WINDOW_PEER, begin_s, begin_s + 3.9);

	d.sequence = sequence;
	d.steps = 29;
	d.slow.flagged = 20;
	d.slow.first_step = d.slow.onset_step = 100 + (uint64_t)(10 * begin_s);
	d.slow.last_step = d.slow.first_step + 19;
	d.latency_ns = 137e6;
	d.expected_ns = 132e6;
	d.self_ns = 95e6;
	d.expected_self_ns = 90e6;
	d.slow.self_excess_ns = 20 * 5e6;
	memset(d.anomaly_id, 0x77, sizeof(d.anomaly_id));
	return d;
}

static const char *symptom(void)
{
	static char text[32];
	json_t *j = only();

	snprintf(text, sizeof(text), "%s", text_of(j, "symptom"));
	json_decref(j);
	return text;
}

static void a_nodes_anomaly_is_a_transient_until_it_costs_much(void **unused)
{
	struct digest costly = reported_by_node(0, 0);

	/* it lasts: reported again, until it has cost half a second */
	for (uint64_t n = 0; n < 4; n++) {
		add(reported_by_node(n, 6 * (double)n));
		assert_string_equal(symptom(), "transient");
	}
	add(reported_by_node(4, 24));
	assert_string_equal(symptom(), "slow_rank");
	/* the cluster finds it too */
	teardown(NULL);
	setup(NULL);
	add(reported_by_node(0, 0));
	report(accusing(5, 5, 0, 6));
	assert_string_equal(symptom(), "slow_rank");
	/* its own model says so */
	teardown(NULL);
	setup(NULL);
	add(reported_by_node(0, 0));
	slow_for(5, 2, 8, 120);
	assert_string_equal(symptom(), "slow_rank");
	/* it costs much at once */
	teardown(NULL);
	setup(NULL);
	costly.self_ns = 120e6;
	costly.slow.self_excess_ns = 20 * 30e6;
	add(costly);
	assert_string_equal(symptom(), "slow_rank");
}

/* All wait, nobody is slow itself: so many steps take so much longer, in so many seconds. */
static void all_wait(uint32_t steps, double usual_ms, double more_ms, double seconds)
{
	teardown(NULL);
	setup(NULL);
	for (int rank = 0; rank < 4; rank++) {
		struct digest d = window("job", rank, WINDOW_COMM, 1, 1 + seconds);

		d.steps = 60;
		d.slow.flagged = rank == 1 ? steps : 1;
		d.latency_ns = (usual_ms + more_ms) * 1e6;
		d.expected_ns = usual_ms * 1e6;
		d.self_ns = d.expected_self_ns = usual_ms / 2 * 1e6;
		add(d);
	}
}

static void seconds_in_which_all_only_waited_are_a_transient(void **unused)
{
	all_wait(12, 133, 37, 3.2); /* 444 ms */
	assert_string_equal(symptom(), "transient");
	all_wait(14, 133, 37, 3.2); /* 518 ms */
	assert_string_equal(symptom(), "slow_job");
	all_wait(40, 40, 10, 3.2); /* more than eight steps */
	assert_string_equal(symptom(), "transient");
	all_wait(40, 40, 10, 5.5);
	assert_string_equal(symptom(), "slow_job");
}

/* The rank's own window and its node's have the same steps. */
static void a_step_of_two_windows_counts_once(void **unused)
{
	struct digest own = window("job", 5, WINDOW_SELF, 0, 2),
		      node = window("job", 5, WINDOW_PEER, 0, 2);
	json_t *j;

	own.slow.flagged = node.slow.flagged = 14;
	own.slow.first_step = node.slow.first_step = 100;
	own.slow.last_step = node.slow.last_step = 113;
	add(own);
	add(node);
	j = only();
	assert_int_equal(json_integer_value(json_object_get(j, "flagged_steps")), 14);
	json_decref(j);
	/* half of it is new */
	node = window("job", 5, WINDOW_PEER, 1, 3);
	node.slow.flagged = 14;
	node.slow.first_step = 107;
	node.slow.last_step = 120;
	add(node);
	j = only();
	assert_int_equal(json_integer_value(json_object_get(j, "flagged_steps")), 21);
	json_decref(j);
}

/* Rank 5 had a transient during the fault of rank 2, and its node calls that and its own fault ten
 * seconds later one anomaly. What a healthy peer is asked for ties them no more than it does. */
static void a_moment_does_not_carry_a_fault_on_to_another(void **unused)
{
	struct digest late = window("job", 5, WINDOW_SELF, 12, 13), own, asked;
	struct incident_change a, b;

	slow_for(2, 0, 10, 100);
	late.slow.flagged = 3;
	a = add(late);
	own = window("job", 5, WINDOW_SELF, 23, 27);
	asked = window("job", 3, WINDOW_ASKED, 23, 27);
	memcpy(own.anomaly_id, late.anomaly_id, 16);
	memcpy(asked.anomaly_id, late.anomaly_id, 16);
	b = add(own);
	assert_string_not_equal(a.id, b.id);
	assert_string_equal(add(asked).id, b.id);
	slow_for(5, 27, 40, 500);
	assert_string_equal(add(window("job", 1, WINDOW_COMM, 36, 40)).id, b.id);
	assert_string_equal(add(window("job", 4, WINDOW_COMM, 6, 10)).id, a.id);
}

static void who_is_no_longer_named_by_a_finding_is_not_accused(void **unused)
{
	struct finding_report first = accusing(5, 2, 0, 30);
	json_t *j;

	first.ended = false;
	report(first);
	report(accusing(5, -1, 0, 40));
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "5");
	json_decref(j);
}

/* Who waits for whom is seen better with time. A job has one hang at a time. */
static void a_hang_that_accuses_another_rank_is_the_same_hang(void **unused)
{
	struct finding_report f = accusing(2, -1, 0, 30);
	char closed[4][INCIDENT_ID_BYTES];
	json_t *j;

	f.finding.kind = FINDING_HANG;
	f.ended = false;
	report(f);
	f = accusing(5, -1, 10, 60);
	f.finding.kind = FINDING_HANG;
	f.ended = false;
	report(f);
	f.ended = true;
	report(f);
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "5");
	assert_int_equal(json_array_size(json_object_get(j, "findings")), 1);
	json_decref(j);
	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 1);
}

static void transients_alone_have_their_own_time(void **unused)
{
	struct digest a = window("job", 3, WINDOW_SELF, 0, 1),
		      b = window("job", 5, WINDOW_SELF, 4, 5);
	json_t *j;

	a.slow.flagged = b.slow.flagged = 1;
	add(a);
	add(b);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "transient");
	assert_int_equal(seconds_of(j, "begin_unix_ns"), 0);
	json_decref(j);
}

static void blames_nobody_without_evidence(void **unused)
{
	json_t *j;

	add(window("job", 1, WINDOW_COMM, 0, 1));
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "");
	assert_string_equal(ranks_of(j, "victims"), "1");
	assert_int_equal(json_array_size(json_object_get(j, "missing")), 1);
	json_decref(j);
}

static void blames_the_stalled_rank_that_entered_fewest_collectives(void **unused)
{
	json_t *j;

	for (int r = 0; r < 4; r++) {
		struct digest d = window("job", r, WINDOW_STALL, 0, 1);

		d.collectives = r == 2 ? 40 : 41;
		d.slow.flagged = 0;
		add(d);
	}
	j = only();
	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j, "ranks"), "2");
	assert_string_equal(ranks_of(j, "victims"), "0,1,3");
	json_decref(j);
}

static void blames_nobody_for_a_stall_that_looks_the_same_everywhere(void **unused)
{
	json_t *j;

	for (int r = 0; r < 4; r++)
		add(window("job", r, WINDOW_STALL, 0, 1));
	j = only();
	assert_string_equal(ranks_of(j, "ranks"), "");
	assert_string_equal(ranks_of(j, "victims"), "0,1,2,3");
	assert_true(json_array_size(json_object_get(j, "missing")) > 0);
	json_decref(j);
}

static void add_slow_then_stalled(void)
{
	for (int n = 0; n < 17; n++)
		add(window("job", 2, WINDOW_SELF, 3 * n, 3 * n + 2));
	for (int r = 0; r < 4; r++)
		add(window("job", r, WINDOW_STALL, 51, 52));
}

/* Steps so slow that waiting for one counts as a stall: the windows before it say who is slow. */
static void a_stall_of_all_alike_forgets_nothing(void **unused)
{
	json_t *j;

	add_slow_then_stalled();
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j, "ranks"), "2");
	json_decref(j);
}

/* 17 times 0.6 s. */
static void a_hang_that_names_nobody_is_weighed_by_the_time_it_took(void **unused)
{
	struct finding_report f = accusing(2, -1, 51, 54);
	json_t *j;

	add_slow_then_stalled();
	f.finding.kind = FINDING_HANG;
	f.finding.rank_count = 0;
	f.finding.effect_ns = 3e9;
	report(f);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j, "ranks"), "2");
	json_decref(j);
	f.finding.effect_ns = 30e9;
	report(f);
	j = only();
	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j, "ranks"), "");
	json_decref(j);
}

/* The step in which all hung ends after 55 s; the last report of the hang was 11 s before. */
static void a_hang_that_has_ended_is_no_transient(void **unused)
{
	struct finding_report f = accusing(2, -1, 0, 50);
	json_t *j;

	f.finding.kind = FINDING_HANG;
	f.finding.rank_count = 0;
	f.finding.effect_ns = 44e9;
	f.ended = false;
	report(f);
	for (int r = 0; r < 4; r++) {
		struct digest d = window("job", r, WINDOW_SELF, 0, 56);

		d.slow.flagged = 1;
		d.slow.self_excess_ns = d.slow.first_self_ns = 55e9;
		add(d);
	}
	for (int n = 0; n < 2; n++) {
		j = only();
		assert_string_equal(text_of(j, "symptom"), "stall");
		json_decref(j);
		f.ended = true;
		report(f);
	}
}

/* Who hangs alone waits for ranks of which no window has come. */
static void blames_nobody_for_hanging_alone_in_a_job_of_several(void **unused)
{
	json_t *j;

	add(window("job", 0, WINDOW_STALL, 0, 1));
	j = only();
	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j, "ranks"), "");
	assert_string_equal(ranks_of(j, "victims"), "0");
	json_decref(j);
}

static void keeps_jobs_and_distant_times_apart(void **unused)
{
	struct incident_change a = add(window("job", 1, WINDOW_SELF, 0, 1)),
			       b = add(window("other", 1, WINDOW_SELF, 0, 1)),
			       c = add(window("job", 1, WINDOW_SELF, 20, 21)),
			       d = add(window("job", 2, WINDOW_COMM, 5, 5.5));

	assert_true(a.opened && b.opened && c.opened && !d.opened);
	assert_string_not_equal(a.id, b.id);
	assert_string_not_equal(a.id, c.id);
	assert_string_equal(a.id, d.id);
	assert_int_equal(set_count(set, true), 3);
}

static void joins_what_a_late_window_connects(void **unused)
{
	struct incident_change a = add(window("job", 1, WINDOW_SELF, 0, 1)),
			       b = add(window("job", 1, WINDOW_SELF, 12, 13)), c;
	json_t *j;

	assert_string_not_equal(a.id, b.id);
	c = add(window("job", 1, WINDOW_SELF, 4, 9));
	assert_string_equal(c.id, a.id);
	assert_int_equal(c.absorbed_count, 1);
	assert_string_equal(c.absorbed[0], b.id);
	j = only();
	assert_int_equal(json_integer_value(json_object_get(j, "window_count")), 4);
	assert_int_equal(json_integer_value(json_object_get(j, "flagged_steps")), 15);
	json_decref(j);
}

static void follows_an_anomaly_over_any_gap(void **unused)
{
	struct digest a = window("job", 1, WINDOW_SELF, 0, 1),
		      b = window("job", 1, WINDOW_SELF, 200, 201);

	memcpy(b.anomaly_id, a.anomaly_id, 16);
	assert_string_equal(add(a).id, add(b).id);
}

static void the_order_of_arrival_does_not_matter(void **unused)
{
	static const int orders[3][6] = {
	    {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 0, 5, 1, 4, 2}};
	char *texts[3];

	for (int o = 0; o < 3; o++) {
		struct digest d[6];
		json_t *j;

		teardown(NULL);
		setup(NULL);
		for (int k = 0; k < 6; k++)
			d[k] = window("job", k, k == 4 ? WINDOW_SELF : WINDOW_COMM, k, k + 0.5);
		for (int k = 0; k < 6; k++)
			add(d[orders[o][k]]);
		j = only();
		json_object_del(j, "id");
		texts[o] = json_dumps(j, JSON_SORT_KEYS);
		json_decref(j);
	}
	assert_string_equal(texts[0], texts[1]);
	assert_string_equal(texts[0], texts[2]);
	for (int o = 0; o < 3; o++)
		free(texts[o]);
}

static void closes_after_silence_and_takes_late_windows_back_in(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES];
	struct incident_change a = add(window("job", 1, WINDOW_SELF, 0, 1)), b;

	assert_int_equal(incident_set_tick(set, T0 + 30 * S, closed, 4), 0);
	assert_int_equal(incident_set_tick(set, T0 + 32 * S, closed, 4), 1);
	assert_string_equal(closed[0], a.id);
	assert_int_equal(set_count(set, true), 0);
	b = add(window("job", 2, WINDOW_COMM, 0.5, 1));
	assert_string_equal(a.id, b.id);
	assert_false(b.opened);
	assert_int_equal(set_count(set, true), 1);
	assert_int_equal(incident_set_tick(set, T0 + 9000 * S, closed, 4), 1);
	assert_int_equal(incident_set_tick(set, T0 + 9001 * S, closed, 4), 0);
	assert_int_equal(set_count(set, false), 0);
}

static void asked_windows_found_nothing(void **unused)
{
	assert_string_equal(add(window("job", 1, WINDOW_ASKED, 0, 1)).id, "");
	assert_string_equal(add(window("job", 1, WINDOW_MANUAL, 0, 1)).id, "");
	assert_int_equal(set_count(set, false), 0);
}

static void a_storm_is_one_incident_and_bounded(void **unused)
{
	json_t *j;

	for (int i = 0; i < 20000; i++)
		add(window("job", i % 6000, i % 3 ? WINDOW_COMM : WINDOW_SELF, i * 0.001,
			   i * 0.001 + 1));
	j = only();
	assert_int_equal(json_integer_value(json_object_get(j, "window_count")), 20001);
	assert_true(json_array_size(json_object_get(j, "ranks")) <= 256);
	json_decref(j);
}

static void a_flood_of_jobs_is_bounded(void **unused)
{
	for (uint32_t i = 0; i < LIMIT_INCIDENTS_LIVE + 200; i++) {
		char job[32];

		snprintf(job, sizeof(job), "job-%u", i);
		add(window(job, 0, WINDOW_SELF, 0, 1));
	}
	assert_int_equal(set_count(set, false), LIMIT_INCIDENTS_LIVE);
}

static void a_flood_of_jobs_takes_the_place_of_none_that_says_more(void **unused)
{
	struct finding_report f = accusing(3, -1, 0, 9);
	char by_windows[INCIDENT_ID_BYTES], by_finding[INCIDENT_ID_BYTES];
	struct incident_change c;
	struct incident_row row;
	uint32_t evicted = 0;

	snprintf(f.job, sizeof(f.job), "restored");
	f.ended = false;
	assert_int_equal(incident_set_add_finding(set, &f, f.end_unix_ns, &c), 0);
	memcpy(by_finding, c.id, sizeof(by_finding));
	add(window("real", 0, WINDOW_SELF, 0, 1));
	memcpy(by_windows, add(window("real", 1, WINDOW_COMM, 0, 1)).id, sizeof(by_windows));
	for (uint32_t i = 0; i < 2 * LIMIT_INCIDENTS_LIVE; i++) {
		char job[32];
		json_t *j;

		snprintf(job, sizeof(job), "job-%u", i);
		c = add(window(job, 0, WINDOW_SELF, 10, 11));
		if (!c.evicted[0])
			continue;
		evicted++;
		j = incident_set_json(set, c.evicted, 8, &row);
		assert_non_null(j);
		assert_false(row.open);
		assert_string_equal(text_of(j, "state"), "closed");
		json_decref(j);
	}
	assert_int_equal(evicted, LIMIT_INCIDENTS_LIVE + 2);
	assert_int_equal(set_count(set, true), LIMIT_INCIDENTS_LIVE);
	assert_true(incident_set_row(set, by_windows, &row) && row.open);
	assert_true(incident_set_row(set, by_finding, &row) && row.open);
}

/* The real one says least of all: only who said it differs. */
static void made_up_jobs_of_one_sender_take_the_place_of_no_other_senders(void **unused)
{
	char real[INCIDENT_ID_BYTES];
	struct incident_row row;
	struct digest d;

	(void)unused;
	d = window("real", 0, WINDOW_SELF, 0, 1);
	d.sender = 7;
	memcpy(real, add(d).id, sizeof(real));
	for (uint32_t i = 0; i < 2 * LIMIT_INCIDENTS_LIVE; i++) {
		char job[32], node[32];

		snprintf(job, sizeof(job), "job-%u", i);
		snprintf(node, sizeof(node), "node-%u", i % 300);
		for (int k = 0; k < 3; k++) {
			d = window(job, k, WINDOW_SELF, 10, 11);
			snprintf(d.rank.node, sizeof(d.rank.node), "%s", node);
			d.sender = 9;
			add(d);
		}
	}
	assert_int_equal(set_count(set, true), LIMIT_INCIDENTS_LIVE);
	assert_true(incident_set_row(set, real, &row) && row.open);
}

/* ---- requests that missed an objective ---- */

static struct finding_report late_requests(uint8_t way, double begin_s, double end_s,
					   uint64_t count)
{
	struct finding_report f = accusing(-1, -1, begin_s, end_s);

	f.ended = false;
	f.finding = (struct finding){.kind = FINDING_REQUESTS,
				     .cause = CAUSE_REQUEST_QUEUE,
				     .confidence = 0.9,
				     .count = count,
				     .period_ns = 60e9};
	memset(f.finding.anomaly_id, way, sizeof(f.finding.anomaly_id));
	return f;
}

static struct incident_change say(struct finding_report f)
{
	struct incident_change c;

	assert_int_equal(incident_set_add_finding(set, &f, f.end_unix_ns, &c), 0);
	return c;
}

static void requests_late_in_one_way_are_one_incident_of_their_own(void **unused)
{
	struct incident_change slow = add(window("job", 3, WINDOW_SELF, 10, 12));
	struct incident_change a = say(late_requests(0x11, 10, 12, 3));
	struct incident_change b = say(late_requests(0x22, 11, 13, 1));
	struct digest asked = window("job", 0, WINDOW_ASKED, 10, 12);
	struct digest stepped = window("job", 2, WINDOW_SELF, 10, 12);
	struct incident_change c;
	const json_t *f;
	json_t *j;

	assert_string_not_equal(a.id, slow.id);
	assert_string_not_equal(a.id, b.id);
	assert_int_equal(b.absorbed_count, 0);
	/* the same way again, much later */
	c = say(late_requests(0x11, 10, 400, 7));
	assert_string_equal(c.id, a.id);
	/* windows of that way, and other ones */
	memset(asked.anomaly_id, 0x11, sizeof(asked.anomaly_id));
	assert_string_equal(add(asked).id, a.id);
	memset(stepped.anomaly_id, 0x11, sizeof(stepped.anomaly_id));
	assert_string_equal(add(stepped).id, a.id);
	assert_string_equal(add(window("job", 3, WINDOW_SELF, 12, 14)).id, slow.id);
	j = incident_set_json(set, a.id, 8, NULL);
	assert_string_equal(json_string_value(json_object_get(j, "symptom")), "slow_requests");
	assert_string_equal(json_string_value(json_object_get(j, "kind")), "requests");
	/* the steps of whoever sent a window are not its figures */
	assert_true(json_number_value(json_object_get(j, "latency_ms")) == 0);
	f = json_array_get(json_object_get(j, "findings"), 0);
	assert_int_equal(json_array_size(json_object_get(j, "findings")), 1);
	assert_int_equal(json_integer_value(json_object_get(f, "count")), 7);
	assert_true(fabs(json_number_value(json_object_get(f, "period_s")) - 60) < 1e-6);
	assert_string_equal(
	    json_string_value(json_object_get(json_object_get(j, "diagnosis"), "cause")),
	    "request-queue");
	json_decref(j);
}

static void digests_flagged_steps_and_their_onset(void **unused)
{
	struct window_step steps[10] = {0};
	struct window w = {.reason = WINDOW_SELF,
			   .steps = steps,
			   .step_count = 10,
			   .begin_ns = 5,
			   .end_ns = 1009,
			   .realtime_offset_ns = 100};
	struct digest d;

	for (uint32_t i = 0; i < 10; i++) {
		steps[i].step.index = 50 + i;
		steps[i].step.end_ns = 105 * (i + 1);
		steps[i].step.latency_ns = 100 + i;
		steps[i].step.self_ns = 90;
		steps[i].expected_ns = 80;
		steps[i].expected_self_ns = 60;
		steps[i].flags = i == 0 || i == 5   ? WINDOW_STEP_OUT
				 : i == 6 || i == 8 ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED
						    : WINDOW_STEP_MARGIN;
	}
	digest_make(&w, 123, &d);
	assert_int_equal(d.slow.flagged, 2);
	assert_int_equal(d.slow.first_step, 56);
	assert_int_equal(d.slow.last_step, 58);
	assert_int_equal(d.slow.onset_step, 55);
	assert_float_equal(d.latency_ns, 107, 0);
	assert_float_equal(d.slow.self_excess_ns, 60, 0);
	assert_int_equal(d.begin_unix_ns, 105);
	assert_true(d.no_gpu);
	/* without the healthy steps around them */
	assert_int_equal(d.slow.begin_unix_ns, 100 + 105 * 7 - 106);
	assert_int_equal(d.slow.end_unix_ns, 100 + 105 * 9);
	/* never outside the window, whatever a step says */
	steps[8].step.end_ns = UINT64_MAX;
	steps[6].step.latency_ns = UINT64_MAX;
	steps[0].step.launches = 1;
	digest_make(&w, 123, &d);
	assert_false(d.no_gpu);
	assert_int_equal(d.slow.begin_unix_ns, d.begin_unix_ns);
	assert_int_equal(d.slow.end_unix_ns, d.end_unix_ns);
	w.step_count = 0;
	digest_make(&w, 123, &d);
	assert_int_equal(d.slow.flagged, 0);
	assert_int_equal(d.slow.end_unix_ns, 0);
}

/* One step of five was held up for long: a median of them knows nothing of it. */
static void what_flagged_steps_lost_is_their_sum(void **unused)
{
	struct window_step steps[5];
	struct window w = {.reason = WINDOW_SELF,
			   .begin_ns = 100 * S,
			   .end_ns = 105 * S,
			   .realtime_offset_ns = (int64_t)T0,
			   .rank = {.rank = 3, .world_size = 8},
			   .steps = steps,
			   .step_count = 5};
	struct digest d;
	json_t *j;

	memset(steps, 0, sizeof(steps));
	strcpy(w.rank.job, "job");
	for (uint64_t i = 0; i < 5; i++) {
		steps[i].step.index = 20 + i;
		steps[i].step.begin_ns = 100 * S + i * S / 2;
		steps[i].step.latency_ns = i == 2 ? 2000000000 : 104000000;
		steps[i].step.end_ns = steps[i].step.begin_ns + S / 3;
		steps[i].step.self_ns = steps[i].step.latency_ns;
		steps[i].expected_ns = steps[i].expected_self_ns = 1e8;
		steps[i].flags = WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT;
	}
	digest_make(&w, 123, &d);
	assert_float_equal(d.slow.flagged_ns, 1.9e9 + 4 * 4e6, 1);
	d.id[0] = 1;
	add(d);
	j = only();
	assert_float_equal(json_real_value(json_object_get(j, "lost_ms")), 1916, 1e-6);
	assert_float_equal(json_real_value(json_object_get(j, "gpu_hours_lost")), 1.916 * 8 / 3600,
			   1e-9);
	json_decref(j);
}

static bool is_sound(uint64_t begin_ns, uint64_t end_ns, int64_t offset_ns, int rank,
		     int world_size)
{
	const struct window w = {.reason = WINDOW_SELF,
				 .begin_ns = begin_ns,
				 .end_ns = end_ns,
				 .realtime_offset_ns = offset_ns,
				 .rank = {.rank = rank, .world_size = world_size}};

	return digest_is_sound(&w);
}

static void a_window_of_impossible_times_or_rank_is_not_sound(void **unused)
{
	assert_true(is_sound(0, 0, 0, -1, -1));
	assert_true(is_sound(T0, T0 + S, 0, 0, 1));
	assert_true(is_sound(5 * S, 6 * S, (int64_t)T0, 7, 8));
	assert_true(is_sound(T0, T0 + LIMIT_WINDOW_NS, -(int64_t)T0, 7, 0));
	assert_false(is_sound(T0, T0 + LIMIT_WINDOW_NS + 1, 0, 0, 1));
	assert_false(is_sound(0, 1ull << 63, 0, 0, 1));
	assert_false(is_sound(UINT64_MAX - 1, UINT64_MAX, 0, 0, 1));
	assert_false(is_sound(2, 1, (int64_t)T0, 0, 1));
	assert_false(is_sound(1, 2, INT64_MAX, 0, 1));
	assert_false(is_sound(1, 2, INT64_MIN, 0, 1));
	assert_false(is_sound(T0, T0, -(int64_t)T0 - 1, 0, 1));
	assert_false(is_sound(T0, T0, 0, 8, 8));
	assert_false(is_sound(T0, T0, 0, -2, 8));
	assert_false(is_sound(T0, T0, 0, INT32_MIN, -1));
	assert_false(is_sound(T0, T0, 0, INT32_MAX, -1));
	assert_false(is_sound(T0, T0, 0, 0, INT32_MAX));
}

static void a_window_of_impossible_steps_is_not_sound(void **unused)
{
	const struct window_step good = {.step = {.index = 7, .latency_ns = S, .self_ns = S},
					 .expected_ns = 1e9,
					 .expected_self_ns = -1};
	struct window_step s = good;
	const struct window w = {.reason = WINDOW_SELF,
				 .begin_ns = T0,
				 .end_ns = T0 + S,
				 .steps = &s,
				 .step_count = 1,
				 .rank = {.world_size = 8}};

	assert_true(digest_is_sound(&w));
	s.step.index = 1ull << 62;
	assert_false(digest_is_sound(&w));
	s = good;
	s.step.latency_ns = LIMIT_WINDOW_NS + 1;
	assert_false(digest_is_sound(&w));
	s = good;
	s.step.self_ns = UINT64_MAX;
	assert_false(digest_is_sound(&w));
	s = good;
	s.step.compute_ns = UINT64_MAX;
	assert_false(digest_is_sound(&w));
	s = good;
	s.expected_ns = 1.7e308;
	assert_false(digest_is_sound(&w));
	s = good;
	s.expected_self_ns = NAN;
	assert_false(digest_is_sound(&w));
}

/* ---- spikes ---- */

/* A window of a rank's single spike: 170 ms instead of 10, in that function ("": nobody saw it). */
static struct incident_change spike(int rank, uint32_t reason, double at_s, const char *function)
{
	struct digest like = window("job", rank, reason, at_s, at_s + 0.3), d;
	struct window_step steps[2] = {
	    {.expected_ns = 1e7, .expected_self_ns = 1e7},
	    {.expected_ns = 1e7,
	     .expected_self_ns = 1e7,
	     .flags = WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT | WINDOW_STEP_SPIKE}};
	struct window w = {.rank = like.rank,
			   .reason = reason,
			   .begin_ns = like.begin_unix_ns,
			   .end_ns = like.end_unix_ns,
			   .steps = steps,
			   .step_count = 2};
	struct stack_frame f = {.kind = STACK_FRAME_PYTHON, .line = 41};
	struct stack_sample sample = {.kind = STACK_ON_CPU, .count = 15, .weight_ns = 150000000};
	struct incident_change c;

	memcpy(w.id, like.id, sizeof(w.id));
	memcpy(w.anomaly_id, like.anomaly_id, sizeof(w.anomaly_id));
	for (int k = 0; k < 2; k++) {
		steps[k].step =
		    (struct step){.index = (uint64_t)(at_s * 10) + (uint64_t)k,
				  .begin_ns = w.begin_ns + (uint64_t)k * 10000000,
				  .latency_ns = k ? 170000000 : 10000000,
				  .self_ns = k && reason == WINDOW_SELF ? 170000000 : 10000000};
		steps[k].step.end_ns = steps[k].step.begin_ns + steps[k].step.latency_ns;
	}
	stack_batch_init(&w.stacks, keyed_process());
	w.rank.pid = sample.pid = sample.tid = 7;
	sample.time_ns = steps[1].step.begin_ns + 50000000;
	stack_batch_string(&w.stacks, function, strlen(function), &f.object);
	stack_batch_stack(&w.stacks, &f, 1, 0, STACK_END_ROOT, &sample.stack);
	if (*function)
		stack_batch_sample(&w.stacks, &sample);
	digest_make(&w, 1000, &d);
	d.excerpt = excerpt_make(&w, NULL, NULL);
	assert_int_equal(d.slow.spikes, 1);
	assert_int_equal(incident_set_add(set, &d, d.end_unix_ns, &c), 0);
	excerpt_drop(d.excerpt);
	stack_batch_fini(&w.stacks);
	return c;
}

static json_t *json_of(const struct incident_change *c)
{
	json_t *j = incident_set_json(set, c->id, 8, NULL);

	assert_non_null(j);
	return j;
}

/* A window of an engine, which has no steps, of the time of a late request's slow step: it was in that
 * function, running or blocked. */
static struct incident_change engine(uint8_t way, double at_s, const char *function, bool blocked)
{
	static const char *const names[] = {"", "EngineCore::Schedule"};
	struct digest like = window("job", -1, WINDOW_ASKED, at_s, at_s + 0.3), d;
	struct record span = {.kind = RECORD_SPAN,
			      .thread = 7,
			      .name = 1,
			      .begin_ns = like.begin_unix_ns + 60000000,
			      .end_ns = like.end_unix_ns - 60000000};
	struct window w = {.rank = like.rank,
			   .reason = WINDOW_ASKED,
			   .begin_ns = like.begin_unix_ns,
			   .end_ns = like.end_unix_ns,
			   .host = &span,
			   .host_count = 1,
			   .names = (char **)(uintptr_t)names,
			   .name_count = 2};
	struct stack_frame f = {.kind = STACK_FRAME_PYTHON, .line = 41};
	struct stack_sample sample = {.kind = STACK_ON_CPU,
				      .count = 15,
				      .weight_ns = 150000000,
				      .pid = 7,
				      .tid = 7,
				      .time_ns = span.begin_ns + 50000000};
	struct stack_switch wait = {
	    .pid = 7, .tid = 7, .out_ns = span.begin_ns, .in_ns = span.end_ns};
	struct incident_change c;

	memcpy(w.id, like.id, sizeof(w.id));
	memset(w.anomaly_id, way, sizeof(w.anomaly_id));
	stack_batch_init(&w.stacks, keyed_process());
	stack_batch_string(&w.stacks, function, strlen(function), &f.object);
	stack_batch_stack(&w.stacks, &f, 1, 0, STACK_END_ROOT, &sample.stack);
	wait.stack = sample.stack;
	if (blocked)
		stack_batch_switch(&w.stacks, &wait);
	else
		stack_batch_sample(&w.stacks, &sample);
	digest_make(&w, 1000, &d);
	d.excerpt = excerpt_make(&w, NULL, NULL);
	assert_int_equal(incident_set_add(set, &d, d.end_unix_ns, &c), 0);
	excerpt_drop(d.excerpt);
	stack_batch_fini(&w.stacks);
	return c;
}

static void late_requests_name_what_their_engine_did(void **unused)
{
	struct incident_change slow = add(window("job", 3, WINDOW_SELF, 10, 12));
	struct incident_change late = say(late_requests(0x11, 10, 12, 3));
	json_t *j, *step;

	/* it waited for a worker: that says nothing about it */
	assert_string_equal(engine(0x11, 10, "recv", true).id, late.id);
	j = incident_set_json(set, late.id, 8, NULL);
	assert_true(json_is_null(json_object_get(j, "slow_step")));
	json_decref(j);
	assert_string_equal(engine(0x11, 11, "sort_waiting", false).id, late.id);
	j = incident_set_json(set, late.id, 8, NULL);
	step = json_object_get(j, "slow_step");
	assert_string_equal(json_string_value(json_object_get(step, "span")),
			    "EngineCore::Schedule");
	assert_non_null(
	    strstr(json_string_value(json_object_get(step, "function")), "sort_waiting"));
	assert_int_equal(json_array_size(json_object_get(j, "other_spikes")), 0);
	assert_string_equal(json_string_value(json_object_get(j, "symptom")), "slow_requests");
	json_decref(j);
	/* in another incident it says nothing */
	engine(0x33, 11, "sort_waiting", false);
	j = incident_set_json(set, slow.id, 8, NULL);
	assert_int_equal(json_array_size(json_object_get(j, "other_spikes")), 0);
	json_decref(j);
}

static void a_single_spike_is_an_incident(void **unused)
{
	struct incident_change c = spike(0, WINDOW_SELF, 1, "pad");
	json_t *j = json_of(&c), *step = json_object_get(j, "slow_step");

	assert_string_equal(text_of(j, "symptom"), "spike");
	assert_string_equal(ranks_of(j, "ranks"), "0");
	assert_int_equal(jsonget_number(json_object_get(j, "spikes"), "count"), 1);
	assert_true(json_is_null(json_object_get(json_object_get(j, "spikes"), "period_s")));
	assert_string_equal(text_of(step, "function"), "pad");
	assert_true(json_is_true(json_object_get(step, "spike")));
	assert_float_equal(jsonget_number(step, "latency_ms"), 170, 1e-9);
	assert_true(json_is_array(json_object_get(step, "kernels")) &&
		    json_is_array(json_object_get(step, "gpu_idle")));
	json_decref(j);
}

/* Minutes apart, and closed meanwhile. */
static void equal_spikes_are_one_incident_with_their_period(void **unused)
{
	static char closed[4][INCIDENT_ID_BYTES];
	struct incident_change first = spike(0, WINDOW_SELF, 100, "pad"), c;
	json_t *j, *spikes;

	for (int k = 1; k < 5; k++) {
		incident_set_tick(set, T0 + (uint64_t)(100 * k + 60) * S, closed, 4);
		c = spike(0, WINDOW_SELF, 100 + 100 * k + k % 2, "pad");
		assert_string_equal(c.id, first.id);
	}
	j = json_of(&c);
	spikes = json_object_get(j, "spikes");
	assert_string_equal(text_of(j, "symptom"), "spike");
	assert_int_equal(jsonget_number(spikes, "count"), 5);
	assert_float_equal(jsonget_number(spikes, "period_s"), 100, 2);
	assert_int_equal(set_count(set, false), 1);
	json_decref(j);
}

static void spikes_at_no_regular_time_have_no_period(void **unused)
{
	static const double at[] = {10, 20, 90, 95, 400};
	struct incident_change c;
	json_t *j;

	for (int k = 0; k < 5; k++)
		c = spike(0, WINDOW_SELF, at[k], "pad");
	j = json_of(&c);
	assert_int_equal(jsonget_number(json_object_get(j, "spikes"), "count"), 5);
	assert_true(json_is_null(json_object_get(json_object_get(j, "spikes"), "period_s")));
	json_decref(j);
}

static void spikes_in_other_functions_are_other_incidents(void **unused)
{
	struct incident_change pad = spike(0, WINDOW_SELF, 1, "pad"),
			       copy = spike(0, WINDOW_SELF, 3, "copy"), again;
	struct digest late = window("job", 0, WINDOW_COMM, 4, 4.1);

	assert_string_not_equal(pad.id, copy.id);
	again = spike(0, WINDOW_SELF, 5, "pad");
	assert_string_equal(again.id, pad.id);
	/* a late wake-up between the two */
	late.slow.flagged = 1;
	add(late);
	assert_int_equal(set_count(set, false), 2);
	again = spike(3, WINDOW_SELF, 60, "copy");
	assert_string_equal(again.id, copy.id);
	/* nobody saw what it did: one of its rank's */
	again = spike(3, WINDOW_SELF, 90, "");
	assert_string_equal(again.id, copy.id);
	assert_int_equal(set_count(set, false), 2);
}

static void a_spike_while_its_rank_is_slow_keeps_its_function(void **unused)
{
	struct digest d = window("job", 0, WINDOW_SELF, 1, 20);
	struct incident_change c, slow;
	json_t *j, *list, *pad;
	char name[8];

	d.slow.flagged = 300;
	d.slow.self_excess_ns = 15e9;
	slow = add(d);
	for (int k = 0; k < 3; k++)
		c = spike(0, WINDOW_SELF, 8 + k, k ? "pad" : "copy");
	assert_string_equal(c.id, slow.id);
	j = json_of(&c);
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(jsonget_text(json_object_get(j, "slow_step"), "function"), "copy");
	list = json_object_get(j, "other_spikes");
	assert_int_equal(json_array_size(list), 1);
	pad = json_array_get(list, 0);
	assert_string_equal(jsonget_text(pad, "function"), "pad");
	assert_int_equal(jsonget_number(pad, "rank"), 0);
	assert_int_equal(jsonget_number(pad, "count"), 2);
	assert_float_equal(jsonget_number(pad, "latency_ms"), 170, 0.1);
	json_decref(j);
	/* no room: what is there stays, as no other is longer */
	for (int k = 0; k < 12; k++) {
		snprintf(name, sizeof(name), "f%d", k);
		c = spike(0, WINDOW_SELF, 11 + k / 2.0, name);
	}
	assert_string_equal(c.id, slow.id);
	j = json_of(&c);
	list = json_object_get(j, "other_spikes");
	assert_int_equal(json_array_size(list), LIMIT_INCIDENT_SPIKES - 1);
	assert_string_equal(jsonget_text(json_array_get(list, 0), "function"), "pad");
	json_decref(j);
}

/* The fault is not the spike's, though both are in one window. */
static void a_spike_in_a_fault_is_none_of_an_earlier_spike(void **unused)
{
	struct incident_change earlier = spike(0, WINDOW_SELF, 1, "pad"), slow, c;
	struct digest d = window("job", 0, WINDOW_SELF, 100, 104);

	d.slow.flagged = 100;
	d.slow.self_excess_ns = 3e9;
	slow = add(d);
	assert_string_not_equal(slow.id, earlier.id);
	d = window("job", 0, WINDOW_SELF, 104, 108);
	d.slow.flagged = 100;
	d.slow.self_excess_ns = 3e9;
	d.slow.spikes = 1;
	c = add(d);
	assert_string_equal(c.id, slow.id);
	assert_int_equal(c.absorbed_count, 0);
	assert_int_equal(set_count(set, false), 2);
}

/* In whatever order they arrive. */
static void ranks_that_waited_join_the_spike_that_they_waited_for(void **unused)
{
	struct incident_change c;
	json_t *j;

	for (int k = 0; k < 3; k++) {
		double at_s = 100 * k + 1;

		if (k < 2)
			spike(0, WINDOW_COMM, at_s, "synchronize");
		c = spike(1, WINDOW_SELF, at_s, "pad");
		if (k == 2)
			spike(0, WINDOW_COMM, at_s, "synchronize");
	}
	assert_int_equal(set_count(set, false), 1);
	j = json_of(&c);
	assert_string_equal(text_of(j, "symptom"), "spike");
	assert_string_equal(ranks_of(j, "ranks"), "1");
	assert_string_equal(ranks_of(j, "victims"), "0");
	assert_int_equal(jsonget_number(json_object_get(j, "spikes"), "count"), 3);
	json_decref(j);
}

/* The same windows without the mark of a spike. */
static void a_single_slow_step_of_counted_work_stays_a_transient(void **unused)
{
	struct digest d = window("job", 0, WINDOW_SELF, 1, 2);
	struct incident_change c;
	json_t *j;

	d.slow.flagged = 1;
	d.latency_ns = d.self_ns = 17e7;
	d.expected_ns = d.expected_self_ns = 1e7;
	d.slow.self_excess_ns = 16e7;
	c = add(d);
	j = json_of(&c);
	assert_string_equal(text_of(j, "symptom"), "transient");
	assert_true(json_is_null(json_object_get(j, "spikes")));
	json_decref(j);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(blames_the_rank_that_lost_its_own_time),
	    CASE(requests_late_in_one_way_are_one_incident_of_their_own),
	    CASE(late_requests_name_what_their_engine_did),
	    CASE(names_the_containers_of_the_ranks_to_blame),
	    CASE(an_expectation_of_nothing_leaves_no_figure_out),
	    CASE(lasts_from_its_first_slow_step_to_its_last),
	    CASE(distinguishes_a_transient_from_a_fault),
	    CASE(costs_and_exceeds_what_all_windows_lost),
	    CASE(a_job_without_a_gpu_loses_no_gpu_hours),
	    CASE(single_slow_steps_are_transients_unless_they_cost_much),
	    CASE(single_slow_steps_far_apart_stay_transients),
	    CASE(a_few_steps_that_cost_nothing_are_a_transient),
	    CASE(a_small_change_for_good_is_no_transient),
	    CASE(a_drift_that_peers_share_is_not_of_one_rank),
	    CASE(a_drift_that_peers_share_is_not_blamed_for_a_fault),
	    CASE(a_moment_of_one_is_not_what_all_waited_for),
	    CASE(measures_a_culprit_by_what_it_did_itself),
	    CASE(one_step_that_costs_a_second_is_no_transient),
	    CASE(a_long_step_is_a_transient_until_another_one_comes),
	    CASE(a_long_first_step_does_not_make_small_ones_large),
	    CASE(names_several_stragglers_worst_first_but_no_echo),
	    CASE(calls_it_the_job_when_most_ranks_are_slow),
	    CASE(transients_near_a_fault_do_not_stretch_its_time),
	    CASE(a_moment_on_other_ranks_is_no_part_of_a_fault),
	    CASE(a_moment_long_before_a_fault_is_not_its_begin),
	    CASE(a_fault_that_comes_and_goes_has_all_its_time),
	    CASE(a_second_fault_is_named_although_it_began_later),
	    CASE(two_faults_in_turn_are_both_named),
	    CASE(a_fault_after_the_end_of_another_is_another_incident),
	    CASE(what_the_hypervisor_takes_is_no_fault_of_a_rank),
	    CASE(what_the_hypervisor_takes_is_no_moment_beside_one_step),
	    CASE(a_nodes_anomaly_is_a_transient_until_it_costs_much),
	    CASE(seconds_in_which_all_only_waited_are_a_transient),
	    CASE(a_step_of_two_windows_counts_once),
	    CASE(a_moment_does_not_carry_a_fault_on_to_another),
	    CASE(who_is_no_longer_named_by_a_finding_is_not_accused),
	    CASE(a_hang_that_accuses_another_rank_is_the_same_hang),
	    CASE(transients_alone_have_their_own_time),
	    CASE(blames_nobody_without_evidence),
	    CASE(blames_the_stalled_rank_that_entered_fewest_collectives),
	    CASE(blames_nobody_for_a_stall_that_looks_the_same_everywhere),
	    CASE(a_stall_of_all_alike_forgets_nothing),
	    CASE(a_hang_that_names_nobody_is_weighed_by_the_time_it_took),
	    CASE(a_hang_that_has_ended_is_no_transient),
	    CASE(blames_nobody_for_hanging_alone_in_a_job_of_several),
	    CASE(what_flagged_steps_lost_is_their_sum),
	    CASE(keeps_jobs_and_distant_times_apart),
	    CASE(joins_what_a_late_window_connects),
	    CASE(follows_an_anomaly_over_any_gap),
	    CASE(the_order_of_arrival_does_not_matter),
	    CASE(closes_after_silence_and_takes_late_windows_back_in),
	    CASE(asked_windows_found_nothing),
	    CASE(a_storm_is_one_incident_and_bounded),
	    CASE(a_flood_of_jobs_is_bounded),
	    CASE(a_flood_of_jobs_takes_the_place_of_none_that_says_more),
	    CASE(made_up_jobs_of_one_sender_take_the_place_of_no_other_senders),
	    CASE(digests_flagged_steps_and_their_onset),
	    CASE(a_window_of_impossible_times_or_rank_is_not_sound),
	    CASE(a_window_of_impossible_steps_is_not_sound),
	    CASE(a_single_spike_is_an_incident),
	    CASE(equal_spikes_are_one_incident_with_their_period),
	    CASE(spikes_at_no_regular_time_have_no_period),
	    CASE(spikes_in_other_functions_are_other_incidents),
	    CASE(a_spike_while_its_rank_is_slow_keeps_its_function),
	    CASE(a_spike_in_a_fault_is_none_of_an_earlier_spike),
	    CASE(ranks_that_waited_join_the_spike_that_they_waited_for),
	    CASE(a_single_slow_step_of_counted_work_stays_a_transient),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
