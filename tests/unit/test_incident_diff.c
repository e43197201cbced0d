/* SPDX-License-Identifier: Apache-2.0
 * With --write-windows DIR it writes the made-up incident's windows, for tests/e2e/pictures.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "cli/diff/incident_diff.h"
#include "cli/profile/incident_stacks.h"
#include "tests/unit/cli_incident.h"
#include "wire/codec.h"

static struct trace_model model;
static json_t *incident;

static int load(void **state)
{
	struct cli_incident *c = cli_incident_make();

	(void)state;
	assert_int_equal(trace_model_init(&model), 0);
	for (int i = 0; i < CLI_INCIDENT_RANKS; i++)
		assert_int_equal(trace_model_add(&model, &c->w[i]), 0);
	trace_model_finish(&model);
	incident = json_pack("{s:[i]}", "ranks", CLI_INCIDENT_CULPRIT);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	trace_model_fini(&model);
	json_decref(incident);
	return 0;
}

/* Sums of a side with callees below the function, anywhere. */
static void sum_of(const struct profile_tree *t, const char *function, double *base, double *other)
{
	*base = *other = 0;
	for (uint32_t i = 1; i < t->count; i++) {
		const struct profile_node *n = &t->nodes[i];
		bool below = false;

		for (uint32_t at = i; at; at = t->nodes[at].parent)
			below |= !strcmp(t->nodes[at].function, function);
		if (!below)
			continue;
		*base += (double)(n->base_on_ns + n->base_gpu_ns);
		*other += (double)(n->on_ns + n->gpu_ns);
	}
}

static void puts_the_culprit_beside_a_healthy_rank(void **state)
{
	const struct trace_rank *culprit = incident_diff_culprit(incident, &model);
	const struct trace_rank *peer = incident_diff_peer(incident, &model, culprit);
	struct incident_diff d;
	double base, other;

	(void)state;
	assert_int_equal(culprit->who.rank, CLI_INCIDENT_CULPRIT);
	assert_int_not_equal(peer->who.rank, CLI_INCIDENT_CULPRIT);
	assert_int_equal(incident_diff_make(&d, &model, peer, culprit), 0);
	assert_true(d.per_step && d.has_cpu && d.has_gpu);
	assert_int_equal(d.gpu_steps[0], CLI_INCIDENT_STEPS);
	assert_int_equal(d.gpu_steps[1], CLI_INCIDENT_STEPS - CLI_INCIDENT_SLOW_FROM);
	/* 8 gemms a step of 1.0 and 1.2 ms, the variants below one name */
	sum_of(&d.tree, "gemm", &base, &other);
	assert_true(base > 7.99e6 && base < 8.01e6 && other > 9.59e6 && other < 9.61e6);
	sum_of(&d.tree, "gemm<float, 64, true>", &base, &other);
	assert_true(base == 0 && other > 9.59e6);
	sum_of(&d.tree, "forward", &base, &other);
	assert_true(base > 4.49e6 && base < 4.51e6); /* 4 gemms and a relu of 0.5 ms */
	sum_of(&d.tree, "optimizer", &base, &other);
	assert_true(base > 0.79e6 && base < 0.81e6 && other > 0.79e6 && other < 0.81e6);
	/* 15 of 90 samples of 1.01 ms, on the culprit only; in 100 ms are 4.2 steps of 23 ms */
	sum_of(&d.tree, "net_rx_action", &base, &other);
	assert_true(base == 0 && other > 3e6 && other < 4e6);
	sum_of(&d.tree, "read_batch", &base, &other);
	assert_true(base > 0 && other / base > 0.999 && other / base < 1.001);
	incident_diff_free(&d);
}

static void without_stacks_the_kernels_are_there(void **state)
{
	const struct trace_rank *culprit = incident_diff_culprit(incident, &model), *peer;
	struct incident_diff d;

	(void)state;
	for (size_t i = 0; i < model.rank_count; i++)
		stack_batch_clear(&model.ranks[i].stacks);
	peer = incident_diff_peer(incident, &model, culprit);
	assert_int_equal(incident_diff_make(&d, &model, peer, culprit), 0);
	assert_true(!d.has_cpu && d.has_gpu);
	incident_diff_free(&d);
	for (size_t i = 0; i < model.rank_count; i++)
		model.ranks[i].device_count = 0;
	assert_null(incident_diff_peer(incident, &model, culprit));
	assert_int_equal(incident_diff_make(&d, &model, &model.ranks[0], culprit), -ENODATA);
}

static void few_samples_are_too_few_to_tell(void **state)
{
	struct trace_rank rank = {.who = {.rank = 2}};

	(void)state;
	for (unsigned samples = 3; samples <= PROFILE_SAMPLES_MIN;
	     samples += PROFILE_SAMPLES_MIN - 3) {
		struct profile_summary s = {.on_ns = 1000000ull * samples,
					    .main_on_ns = 1000000ull * samples,
					    .on_count = samples,
					    .row_count = 1};
		char *text = NULL;
		size_t bytes;
		FILE *to = open_memstream(&text, &bytes);

		s.rows[0] = (struct profile_row){.self_ns = 1000000, .total_ns = 1000000};
		s.rows[0].name.function = "spin";
		s.rows[0].name.file = s.rows[0].name.module = "";
		incident_stacks_print(to, &rank, &s);
		fclose(to);
		assert_int_equal(strstr(text, "spin") != NULL, samples == PROFILE_SAMPLES_MIN);
		assert_non_null(strstr(text, samples == 3 ? ": 3 samples" : ": 20 samples"));
		assert_int_equal(strstr(text, "too few samples") != NULL, samples == 3);
		assert_non_null(strstr(text, "no blocked time recorded"));
		assert_null(strstr(text, "% blocked"));
		free(text);
	}
}

/* Of an incident that accuses nobody: the process with most samples on the CPU, not the idle one with
 * most blocking events. It may be an engine, which has no rank. */
static void shows_the_stacks_of_the_process_that_ran(void **state)
{
	struct stack_batch *ran = &model.ranks[1].stacks, *idle = &model.ranks[3].stacks;
	json_t *of_nobody = json_pack("{s:[]}", "ranks");
	struct profile_summary s = {.on_count = 1, .off_count = 1};
	size_t bytes;
	char *text;
	FILE *f;

	(void)state;
	for (size_t i = 0; i < model.rank_count; i++)
		for (uint32_t k = 0; k < model.ranks[i].stacks.sample_count; k++)
			model.ranks[i].stacks.samples[k].kind = STACK_OFF_CPU;
	assert_true(ran->sample_count && idle->sample_count);
	assert_ptr_not_equal(ran, idle);
	ran->samples[0].kind = STACK_ON_CPU;
	idle->samples[0].count += 100000;
	assert_ptr_equal(&incident_stacks_rank(of_nobody, &model, -1)->stacks, ran);
	ran->samples[0].kind = STACK_OFF_CPU;
	assert_ptr_equal(&incident_stacks_rank(of_nobody, &model, -1)->stacks, idle);
	model.ranks[3].who.rank = -1;
	f = open_memstream(&text, &bytes);
	incident_stacks_print(f, &model.ranks[3], &s);
	fclose(f);
	assert_non_null(strstr(text, "stacks    a process without a rank: 1 sample on the CPU"));
	free(text);
	json_decref(of_nobody);
}

static int write_windows(const char *dir)
{
	struct cli_incident *c = cli_incident_make();

	for (int i = 0; i < CLI_INCIDENT_RANKS; i++) {
		char path[4096];
		struct buf b;
		FILE *to;
		int n;

		n = snprintf(path, sizeof(path) - 40, "%s/", dir);
		for (int k = 0; k < 16; k++)
			n += sprintf(path + n, "%02x", c->w[i].id[k]);
		buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
		to = fopen(path, "w");
		if (!to || wire_window_encode(&c->w[i], &b) ||
		    fwrite(b.data, 1, b.bytes, to) != b.bytes || fclose(to))
			return 1;
		buf_fini(&b);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(puts_the_culprit_beside_a_healthy_rank, load, unload),
	    cmocka_unit_test_setup_teardown(without_stacks_the_kernels_are_there, load, unload),
	    cmocka_unit_test(few_samples_are_too_few_to_tell),
	    cmocka_unit_test_setup_teardown(shows_the_stacks_of_the_process_that_ran, load, unload),
	};

	if (argc == 3 && strcmp(argv[1], "--write-windows") == 0)
		return write_windows(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
