/* SPDX-License-Identifier: Apache-2.0 */
#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "aggregator/fleet/baselines.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/fleet/sketch_merge.h"
#include "aggregator/incident/verdict_sketch.h"
#include "aggregator/incident/incident.h"
#include "analysis/slow/temporal.h"
#include "analysis/slow/waterline.h"
#include "base/limits.h"
#include "tests/fleet_synth.h"
#include "wire/codec.h"

#define S    1000000000ull
#define UNIX (1800000000ull * S)

static struct temporal *temporal;
static uint64_t at_s, state;

static int setup(void **unused)
{
	at_s = 0;
	state = 5;
	return temporal_open(&temporal);
}

static int teardown(void **unused)
{
	temporal_close(temporal);
	return 0;
}

/* Samples of steps of 100 ms times `factor`, with 0.5% of noise; true while a change is open. */
static bool run(double seconds, double factor, double self_factor)
{
	struct temporal_change c = {0};

	for (double end = (double)at_s + seconds; (double)at_s < end;) {
		struct temporal_sample s = {.steps = 50 / factor};
		double noise = 1 + 0.005 * synth_normal(&state);

		at_s += 5;
		s.unix_ns = UNIX + at_s * S;
		s.latency_ns = 1e8 * factor * noise;
		s.self_ns = s.self_low_ns = 9.5e7 * self_factor * noise;
		temporal_push(temporal, &s);
		temporal_state(temporal, &c);
	}
	return c.open;
}

static void set_base(double latency_ns, double spread)
{
	const struct temporal_base b = {latency_ns, 0.95 * latency_ns, 0.003 * latency_ns, spread,
					1};

	temporal_set_base(temporal, &b);
}

static void says_that_a_run_is_slower_than_those_before(void **unused)
{
	struct temporal_change c;

	set_base(1e8, 0);
	assert_true(run(120, 1.08, 1.08));
	assert_true(temporal_state(temporal, &c));
	assert_true(c.runs);
	assert_true(fabs(c.excess - 0.08) < 0.01);
	/* from its beginning */
	assert_true(c.begin_unix_ns <= UNIX + 5 * S);
	assert_int_equal(temporal_healthy_steps(temporal), 0);
}

/* Steady after 15 s, it is reported then; what becomes faster is warming up, for half a minute. */
static void distinguishes_a_slow_start_from_a_warm_up(void **unused)
{
	set_base(1e8, 0);
	assert_false(run(10, 1.3, 1.3));
	assert_true(run(5, 1.3, 1.3));
	temporal_restart(temporal);
	set_base(1e8, 0);
	for (int i = 0; i < 6; i++)
		assert_false(run(5, 1.5 - 0.07 * i, 1.5 - 0.07 * i));
	assert_false(run(60, 1, 1));
	/* a host's own unrest is no warm-up */
	temporal_restart(temporal);
	set_base(1e8, 0);
	for (int i = 0; i < 2; i++)
		assert_false(run(5, 1.2 + 0.04 * (i % 2), 1.2));
	assert_true(run(5, 1.2, 1.2));
}

static void says_when_it_began(void **unused)
{
	struct temporal_change c;

	set_base(1e8, 0);
	assert_false(run(300, 1, 1));
	assert_true(run(60, 1.10, 1.10));
	assert_true(temporal_state(temporal, &c));
	assert_true(llabs((long long)(c.begin_unix_ns - UNIX) - 300ll * (long long)S) <=
		    5ll * (long long)S);
	assert_false(run(60, 1, 1));
	run(5, 1, 1);
	assert_false(temporal_state(temporal, &c));
}

static void sees_a_change_within_a_run_without_any_other(void **unused)
{
	struct temporal_change c;

	assert_false(run(200, 1, 1));
	assert_true(run(30, 1.15, 1.15));
	temporal_state(temporal, &c);
	assert_false(c.runs);
	assert_true(fabs(c.before_ns - 1e8) < 1e6);
}

static void needs_longer_where_no_rank_itself_is_slower(void **unused)
{
	assert_false(run(200, 1, 1));
	assert_false(
	    run(20, 1.15, 1)); /* a rank that is not singled out yet would look like this */
	assert_true(run(20, 1.15, 1));
}

static void stays_silent_about_noise_and_the_spread_of_runs(void **unused)
{
	set_base(1e8, 0.05);
	for (int i = 0; i < 60; i++)
		assert_false(run(60, 1 + 0.01 * sin(i), 1 + 0.01 * sin(i)));
	temporal_restart(temporal);
	set_base(1e8, 0.05);
	assert_false(run(300, 1.08, 1.08)); /* runs differ by 5% */
}

static void does_not_learn_what_it_flags(void **unused)
{
	uint64_t healthy;
	struct sketch s = {0};

	set_base(1e8, 0);
	run(300, 1, 1);
	healthy = temporal_healthy_steps(temporal);
	assert_true(run(600, 1.2, 1.2));
	assert_true(temporal_healthy_steps(temporal) <= healthy);
	temporal_summary(temporal, &s);
	assert_true(fabs(s.latency_ns - 1e8) < 1e6);
	assert_true(s.steps >= TEMPORAL_STEPS_MIN);
}

/* ---- sketches ---- */

static struct sketch sketch_of(double logging, double kernel_ns, const char *kernel)
{
	static struct sketch_function functions[3];
	static struct sketch_kernel kernels[2];
	static struct sketch_setting settings[1];
	struct sketch s = {.steps = 600,
			   .latency_ns = 1e8,
			   .self_ns = 9.5e7,
			   .compute_ns = 6e7 + kernel_ns,
			   .cpu_ns = 5e7,
			   .samples = 5000,
			   .functions = functions,
			   .function_count = 3,
			   .kernels = kernels,
			   .kernel_count = 2,
			   .settings = settings,
			   .setting_count = 1};

	functions[0] = (struct sketch_function){"train_step (train.py)", 2, 0.05, 0.8, 0};
	functions[1] = (struct sketch_function){"log (log.py)", 2, logging / 2, logging, 0};
	functions[2] = (struct sketch_function){"memcpy", 0, 0.1, 0.1, 0};
	kernels[0] = (struct sketch_kernel){"gemm_a", 100, 6e7};
	kernels[1] = (struct sketch_kernel){(char *)kernel, 50, kernel_ns};
	settings[0] = (struct sketch_setting){"NCCL_DEBUG", "WARN"};
	return s;
}

/* The static lists are the next call's: a merge of one is a copy. */
static struct sketch copy_of(double logging, double kernel_ns, const char *kernel)
{
	struct sketch s = sketch_of(logging, kernel_ns, kernel), out;
	const struct sketch *one = &s;

	assert_int_equal(sketch_merge(&one, 1, &out), 0);
	return out;
}

/* The cause of what base's steps and now's differ by, with the evidence in *f. */
static enum finding_cause compared(const struct sketch *base, const struct sketch *now,
				   struct finding *f)
{
	*f = (struct finding){.kind = FINDING_UNIFORM};
	return verdict_sketch_compare(base, now, now->latency_ns - base->latency_ns, f);
}

static bool is_said(const struct finding *f, const char *text)
{
	bool said = false;

	for (uint32_t i = 0; i < f->evidence_count; i++)
		said |= strstr(f->evidence[i].text, text) != NULL;
	return said;
}

static void names_the_function_that_grew(void **unused)
{
	struct sketch base = copy_of(0.01, 2e7, "gemm_b"), now = copy_of(0.06, 2e7, "gemm_b");
	struct finding f;

	now.latency_ns = 1.1e8;
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_HOT_PATH);
	assert_true(is_said(&f, "log (log.py)"));
	/* a name that says what it is for */
	for (uint32_t i = 0; i < now.function_count; i++)
		if (!strcmp(now.functions[i].name, "log (log.py)")) {
			free(now.functions[i].name);
			now.functions[i].name = strdup("Logger.debug (__init__.py)");
		}
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_LOGGING);
	/* but not beside one that grew by much more */
	for (uint32_t i = 0; i < now.function_count; i++)
		if (!strcmp(now.functions[i].name, "train_step (train.py)"))
			now.functions[i].total_share = 0.95;
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_HOT_PATH);
	/* 0.4% more is less than delta, and with 50 samples 5% more is noise */
	wire_sketch_free(&now);
	now = copy_of(0.014, 2e7, "gemm_b");
	now.latency_ns = 1.1e8;
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_SLOWER);
	wire_sketch_free(&now);
	now = copy_of(0.06, 2e7, "gemm_b");
	now.latency_ns = 1.1e8;
	now.samples = base.samples = 50;
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_SLOWER);
	assert_int_equal(f.evidence_count, 0);
	wire_sketch_free(&now);
	wire_sketch_free(&base);
}

static void distinguishes_another_kernel_from_slower_ones(void **unused)
{
	struct sketch base = copy_of(0.01, 2e7, "gemm_b"), now = copy_of(0.01, 3e7, "gemm_b_64x64");
	struct finding f;

	now.latency_ns = 1.1e8;
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_KERNELS);
	assert_true(is_said(&f, "gemm_b_64x64"));
	wire_sketch_free(&now);
	now = copy_of(0.01, 3e7, "gemm_b");
	now.latency_ns = 1.1e8;
	assert_int_equal(compared(&base, &now, &f), CAUSE_SW_KERNELS);
	assert_true(is_said(&f, "kernel gemm_b takes 1.50 times as long as before"));
	for (uint32_t i = 0; i < now.kernel_count; i++)
		if (!strcmp(now.kernels[i].name, "gemm_a"))
			now.kernels[i].ns_per_step = 9e7;
	now.compute_ns += 3e7;
	now.latency_ns = 1.4e8;
	assert_int_equal(compared(&base, &now, &f), CAUSE_GPU_SLOW);
	wire_sketch_free(&now);
	wire_sketch_free(&base);
}

/* It waits longer for whoever is late. */
static void a_longer_collective_is_no_slower_gpu(void **unused)
{
	struct sketch base = copy_of(0.01, 2e7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
		      now = copy_of(0.01, 3e7, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	struct finding f;

	now.latency_ns = 1.1e8;
	now.exposed_comm_ns = 1e7;
	assert_int_equal(finding_cause_layer(compared(&base, &now, &f)), LAYER_NETWORK);
	assert_true(is_said(&f, "exposed communication takes 10.0 ms per step, 0.00 ms before"));
	wire_sketch_free(&now);
	wire_sketch_free(&base);
}

static void merges_by_medians(void **unused)
{
	uint64_t gone;
	struct sketch v[3] = {copy_of(0.01, 2e7, "gemm_b"), copy_of(0.02, 2e7, "gemm_b"),
			      copy_of(0.30, 9e7, "gemm_c")},
		      out;
	const struct sketch *in[3] = {&v[0], &v[1], &v[2]};
	struct buf b;

	v[2].latency_ns = 5e8;
	free(v[2].settings[0].value);
	v[2].settings[0].value = strdup("INFO");
	assert_int_equal(sketch_merge(in, 3, &out), 0);
	assert_true(out.latency_ns == 1e8);
	assert_int_equal(out.steps, 1800);
	assert_int_equal(out.setting_count, 0);
	assert_int_equal(out.kernel_count, 2); /* gemm_c is one rank's */
	for (uint32_t i = 0; i < out.function_count; i++)
		if (!strcmp(out.functions[i].name, "log (log.py)"))
			assert_true(fabs(out.functions[i].total_share - 0.02) < 1e-9);
	buf_init(&b, 1 << 16);
	assert_int_equal(wire_sketch_fit(&out, &b, &gone), 0);
	assert_true(b.bytes <= LIMIT_SKETCH_BYTES_PER_RANK);
	buf_fini(&b);
	for (int i = 0; i < 3; i++)
		wire_sketch_free(&v[i]);
	wire_sketch_free(&out);
}

/* What had no room in one of them may be in none of the lists; what the merge has no room for, too. */
static void a_merge_says_what_was_cut(void **unused)
{
	static struct sketch_function many[2][LIMIT_SKETCH_FUNCTIONS];
	static struct sketch_kernel kernels[2][LIMIT_SKETCH_KERNELS];
	static char names[2][LIMIT_SKETCH_FUNCTIONS + LIMIT_SKETCH_KERNELS][16];
	struct sketch v[2] = {sketch_of(0.01, 2e7, "gemm_b"), sketch_of(0.01, 2e7, "gemm_b")}, out;
	const struct sketch *in[2] = {&v[0], &v[1]};

	v[0].functions_cut = 7;
	v[1].functions_cut = 3;
	v[1].kernels_cut = 2;
	assert_int_equal(sketch_merge(in, 2, &out), 0);
	assert_int_equal(out.functions_cut, 7);
	assert_int_equal(out.kernels_cut, 2);
	wire_sketch_free(&out);
	for (unsigned k = 0; k < 2; k++) {
		for (uint32_t i = 0; i < LIMIT_SKETCH_FUNCTIONS; i++) {
			snprintf(names[k][i], sizeof(names[k][i]), "f%u_%u", k, i);
			many[k][i] = (struct sketch_function){names[k][i], 2, 0.1, 0.2, 0};
		}
		for (uint32_t i = 0; i < LIMIT_SKETCH_KERNELS; i++) {
			char *name = names[k][LIMIT_SKETCH_FUNCTIONS + i];

			snprintf(name, sizeof(names[k][i]), "k%u_%u", k, i);
			kernels[k][i] = (struct sketch_kernel){name, 1, 1e6};
		}
		v[k].functions = many[k];
		v[k].function_count = LIMIT_SKETCH_FUNCTIONS;
		v[k].kernels = kernels[k];
		v[k].kernel_count = LIMIT_SKETCH_KERNELS;
	}
	assert_int_equal(sketch_merge(in, 2, &out), 0);
	assert_int_equal(out.function_count, LIMIT_SKETCH_FUNCTIONS);
	assert_int_equal(out.functions_cut, 7 + LIMIT_SKETCH_FUNCTIONS);
	assert_int_equal(out.kernels_cut, 2 + LIMIT_SKETCH_KERNELS);
	wire_sketch_free(&out);
}

/* ---- waterline ---- */

static void draws_the_line_of_the_paper_and_a_robust_one(void **unused)
{
	struct waterline_row *rows;
	struct waterline *w;
	uint32_t n;
	bool seen = false;

	assert_int_equal(waterline_open(&w, 600 * S), 0);
	for (uint32_t r = 0; r < 8; r++) {
		struct sketch s = sketch_of(r == 3 ? 0.4 : 0.02, 2e7, "gemm_b");

		waterline_push(w, r, 8, &s, 100 * S);
	}
	assert_int_equal(waterline_rows(w, 200 * S, NULL, 0, &rows, &n), 8);
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(rows[i].name, "log (log.py)"))
			continue;
		seen = true;
		/* by hand: 7 * 0.02 + 0.4 = 0.54; variance 7/64 * 0.38^2 */
		assert_true(fabs(rows[i].mean - 0.0675) < 1e-6);
		assert_true(fabs(rows[i].sigma - 0.38 * sqrt(7.0) / 8) < 1e-6);
		assert_true(fabs(rows[i].median - 0.02) < 1e-6);
		assert_true(rows[i].spread < 1e-6);
		assert_int_equal(rows[i].highest_slot, 3);
	}
	assert_true(seen);
	free(rows);
	/* the others' */
	assert_int_equal(waterline_rows(w, 200 * S, (const uint32_t[]){3, 5}, 2, &rows, &n), 6);
	for (uint32_t i = 0; i < n; i++)
		assert_true(strcmp(rows[i].name, "log (log.py)") ||
			    fabs(rows[i].mean - 0.02) + rows[i].sigma < 1e-6);
	free(rows);
	/* slides */
	assert_int_equal(waterline_rows(w, 900 * S, NULL, 0, &rows, &n), 0);
	assert_int_equal(n, 0);
	free(rows);
	waterline_close(w);
}

static void made_up_functions_are_bounded(void **unused)
{
	struct sketch_function list[LIMIT_SKETCH_FUNCTIONS];
	struct sketch s = {.functions = list, .function_count = LIMIT_SKETCH_FUNCTIONS};
	static char names[LIMIT_SKETCH_FUNCTIONS][32];
	struct waterline *w;

	assert_int_equal(waterline_open(&w, 600 * S), 0);
	for (uint32_t k = 0; k < 200; k++) {
		for (uint32_t i = 0; i < LIMIT_SKETCH_FUNCTIONS; i++) {
			snprintf(names[i], sizeof(names[i]), "f%u_%u", k, i);
			list[i] = (struct sketch_function){names[i], 0, 0.001, 0.001, 0};
		}
		waterline_push(w, k, 8, &s, k * S);
	}
	assert_true(waterline_bytes(w) < 4u << 20);
	waterline_close(w);
}

/* ---- over runs, through the fleet ---- */

static struct finding_report uniform;
static uint32_t uniform_count;

static void on_finding(void *arg, const struct finding_report *f)
{
	(void)arg;
	if (f->finding.kind == FINDING_UNIFORM && !uniform_count++)
		uniform = *f;
	assert_int_equal(f->finding.kind, FINDING_UNIFORM);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* One run of the job in a fresh aggregator over the same directory. */
static void one_run(const char *dir, uint64_t boot, double factor, double logging, double until_s)
{
	struct beat_rank ranks[16];
	struct fleet *f;
	struct fs_job j;
	struct buf body;
	struct beat b;

	assert_int_equal(fs_open_fleet(&f, 15 * S, 600 * S), 0);
	assert_int_equal(fleet_keep_baselines(f, dir), 0);
	fleet_on_finding(f, on_finding, NULL);
	fs_init(&j, "job", 8, 4, 33);
	j.boot = boot;
	j.uniform = factor;
	buf_init(&body, 1 << 20);
	for (uint32_t t = 0; t < (uint32_t)(until_s * 10); t++) {
		const struct fleet_via via = {0};
		double now = t / 10.0;
		uint64_t mono = (uint64_t)((now + 5000) * 1e9);

		for (uint32_t n = 0; n < 2; n++)
			if ((t + 20 * n) % 50 == 0 && fs_beat(&j, n, now, ranks, &b))
				fleet_beat(f, &b, via, mono);
		for (uint32_t r = 0; r < 8 && t % 300 == 100; r++) {
			struct sketch s = sketch_of(logging, 2e7, "gemm_b");

			snprintf(s.rank.job, sizeof(s.rank.job), "job");
			snprintf(s.rank.node, sizeof(s.rank.node), "n%u", r / 4);
			s.rank.rank = (int)r;
			buf_clear(&body);
			assert_int_equal(wire_sketch_encode(&s, &body), 0);
			assert_true(fleet_sketch_put(f, &s, body.data, body.bytes, via, mono));
			snprintf(s.rank.node, sizeof(s.rank.node), "elsewhere");
			assert_false(fleet_sketch_put(f, &s, body.data, body.bytes, via, mono));
		}
		if (t % 10 == 3)
			fleet_tick(f, mono, FS_UNIX + boot * 10000 * S + (uint64_t)(now * 1e9));
	}
	buf_fini(&body);
	fs_fini(&j);
	fleet_close(f);
}

static void finds_logging_on_every_rank_against_the_run_before(void **unused)
{
	char dir[] = "/tmp/test_temporal_XXXXXX";
	bool named = false;
	struct baselines *b;
	json_t *list;

	assert_non_null(mkdtemp(dir));
	uniform_count = 0;
	one_run(dir, 1, 1, 0.01, 200);
	assert_int_equal(uniform_count, 0);
	one_run(dir, 2, 1, 0.01, 120); /* as before */
	assert_int_equal(uniform_count, 0);
	one_run(dir, 2, 1, 0.01, 120); /* the aggregator began anew, the job did not */
	assert_int_equal(uniform_count, 0);
	one_run(dir, 3, 1.07, 0.06, 120);
	assert_true(uniform_count > 0);
	assert_int_equal(uniform.finding.rank_count, 8);
	assert_int_equal(uniform.finding.cause, CAUSE_SW_HOT_PATH);
	assert_true(fabs(uniform.finding.excess - 0.07) < 0.01);
	for (uint32_t i = 0; i < uniform.finding.evidence_count; i++)
		named |= strstr(uniform.finding.evidence[i].text, "log (log.py)") != NULL;
	assert_true(named);
	assert_int_equal(baselines_open(&b, dir), 0);
	list = baselines_json(b, "job");
	assert_int_equal(json_array_size(list), 2); /* the slow one is no reference */
	json_decref(list);
	baselines_close(b);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* What one_run sends and the beats report, as the API returns it. */
static void gives_a_kept_run_whole(void **unused)
{
	char dir[] = "/tmp/test_temporal_XXXXXX", run[17] = "";
	json_t *j, *list, *first;
	struct baselines *b;
	struct fleet *f;
	uint64_t id;

	assert_non_null(mkdtemp(dir));
	one_run(dir, 1, 1, 0.01, 120);
	assert_int_equal(baselines_open(&b, dir), 0);
	list = baselines_json(b, "job");
	first = json_array_get(list, 0);
	snprintf(run, sizeof(run), "%s", json_string_value(json_object_get(first, "run")));
	json_decref(list);
	baselines_close(b);
	id = strtoull(run, NULL, 16);
	assert_int_equal(fs_open_fleet(&f, 15 * S, 600 * S), 0);
	assert_null(fleet_baseline_json(f, "job", "train", id)); /* none are kept */
	assert_int_equal(fleet_keep_baselines(f, dir), 0);
	j = fleet_baseline_json(f, "job", "train", id);
	assert_non_null(j);
	assert_string_equal(json_string_value(json_object_get(j, "run")), run);
	assert_string_equal(json_string_value(json_object_get(j, "role")), "train");
	assert_int_equal(json_integer_value(json_object_get(j, "rank")), -1);
	assert_true(json_integer_value(json_object_get(j, "steps")) >= 200);
	assert_true(fabs(json_real_value(json_object_get(j, "latency_ms")) - 100) < 1e-6);
	assert_true(fabs(json_real_value(json_object_get(j, "cpu_ms")) - 50) < 1e-6);
	assert_true(fabs(json_real_value(json_object_get(j, "samples")) - 8 * 5000) < 1e-6);
	list = json_object_get(j, "functions");
	assert_int_equal(json_array_size(list), 3);
	first = json_array_get(list, 0);
	assert_string_equal(json_string_value(json_object_get(first, "function")),
			    "train_step (train.py)");
	assert_string_equal(json_string_value(json_object_get(first, "kind")), "python");
	assert_true(fabs(json_real_value(json_object_get(first, "total")) - 0.8) < 1e-6);
	assert_true(fabs(json_real_value(json_object_get(first, "self")) - 0.05) < 1e-6);
	first = json_array_get(json_object_get(j, "kernels"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "kernel")), "gemm_a");
	assert_true(fabs(json_real_value(json_object_get(first, "per_step")) - 100) < 1e-6);
	assert_true(fabs(json_real_value(json_object_get(first, "ms")) - 60) < 1e-6);
	first = json_array_get(json_object_get(j, "settings"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "value")), "WARN");
	json_decref(j);
	assert_null(fleet_baseline_json(f, "job", "train", id + 1));
	assert_null(fleet_baseline_json(f, "job", "other", id));
	assert_null(fleet_baseline_json(f, "other", "train", id));
	assert_null(fleet_sketch_json(f, "job", 0)); /* of ranks nothing is kept over a restart */
	j = fleet_baselines_json(f, "job", 6000 * S);
	assert_string_equal(json_string_value(json_object_get(j, "present_run")), "");
	assert_int_equal(json_array_size(json_object_get(j, "baselines")), 1);
	json_decref(j);
	fleet_close(f);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void keeps_the_newest_runs_and_survives_a_damaged_file(void **unused)
{
	uint64_t gone;
	char dir[] = "/tmp/test_temporal_XXXXXX", path[64];
	struct baselines_run out[8], r = {0, 0, 500, 1e8, 9e7, 1e6};
	struct sketch s = copy_of(0.01, 2e7, "gemm_b"), newest;
	struct baselines *b;
	struct buf body;
	FILE *f;

	assert_non_null(mkdtemp(dir));
	assert_int_equal(baselines_open(&b, dir), 0);
	buf_init(&body, 1 << 20);
	assert_int_equal(wire_sketch_fit(&s, &body, &gone), 0);
	for (uint64_t i = 1; i <= 9; i++) {
		r.run = i;
		r.updated_unix_ns = i * S;
		r.steps = i == 8 ? 100 : 500;
		assert_int_equal(baselines_put(b, "job", "train", &r, body.data, body.bytes), 0);
	}
	/* of the newest five, all but this one and the one that was too short */
	assert_int_equal(baselines_runs(b, "job", "train", 9, out, 8, &newest), 3);
	assert_int_equal(out[0].run, 7);
	assert_int_equal(newest.function_count, s.function_count);
	wire_sketch_free(&newest);
	assert_int_equal(baselines_runs(b, "other", "train", 9, out, 8, NULL), 0);
	assert_int_equal(baselines_expire(b, 7 * S), 0);
	assert_int_equal(baselines_runs(b, "job", "train", 0, out, 8, NULL), 2);
	baselines_close(b);
	snprintf(path, sizeof(path), "%s/baselines.db", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs("this is no database, and long enough to be looked at as one by whoever opens it", f);
	fclose(f);
	assert_int_equal(baselines_open(&b, dir), 0);
	assert_int_equal(baselines_put(b, "job", "train", &r, body.data, body.bytes), 0);
	assert_int_equal(baselines_runs(b, "job", "train", 0, out, 8, NULL), 1);
	baselines_close(b);
	buf_fini(&body);
	wire_sketch_free(&s);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(says_that_a_run_is_slower_than_those_before),
	    T(distinguishes_a_slow_start_from_a_warm_up),
	    T(says_when_it_began),
	    T(sees_a_change_within_a_run_without_any_other),
	    T(needs_longer_where_no_rank_itself_is_slower),
	    T(stays_silent_about_noise_and_the_spread_of_runs),
	    T(does_not_learn_what_it_flags),
	    T(names_the_function_that_grew),
	    T(distinguishes_another_kernel_from_slower_ones),
	    T(a_longer_collective_is_no_slower_gpu),
	    T(merges_by_medians),
	    T(a_merge_says_what_was_cut),
	    T(draws_the_line_of_the_paper_and_a_robust_one),
	    T(made_up_functions_are_bounded),
	    T(finds_logging_on_every_rank_against_the_run_before),
	    T(gives_a_kept_run_whole),
	    T(keeps_the_newest_runs_and_survives_a_damaged_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
