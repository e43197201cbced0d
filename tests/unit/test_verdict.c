/* SPDX-License-Identifier: Apache-2.0
 * Windows and findings as a cluster would send them, and what the incident then says. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/thresholds.h"
#include "aggregator/incident/verdict.h"
#include "aggregator/incident/finding_json.h"
#include "aggregator/incident/incident_private.h"
#include "analysis/cause/excerpt.h"
#include "base/check.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "model/stack.h"
#include "tests/wire_synth.h"

static uint32_t set_count(const struct incident_set *s, bool open_only)
{
	uint32_t n = 0;

	for (const struct incident *i = s->first; i; i = i->next)
		n += !open_only || i->row.open;
	return n;
}

#define S	1000000000ull
#define MS	1000000ull
#define T0	(1700000000 * S)
#define STEPS	20u
#define HEALTHY 6u /* the first ones are healthy */

static struct incident_set *set;
static uint32_t next_id, world;
static double at_s; /* begin of some windows */

static int open_set(uint64_t reporter, uint64_t excerpt_bytes)
{
	const struct incident_config c = {.gap_ns = 5 * S,
					  .silence_ns = 30 * S,
					  .memory_ns = 3600 * S,
					  .reporter = reporter,
					  .excerpt_bytes = excerpt_bytes};

	return incident_set_open(&set, &c);
}

static int setup(void **unused)
{
	next_id = 0;
	world = 8;
	at_s = 1;
	return open_set(0, 0);
}

static int teardown(void **unused)
{
	incident_set_close(set);
	return 0;
}

/* ---- a window by hand ---- */

struct made {
	struct window w;
	struct window_step steps[STEPS];
	struct record device[STEPS * 4], host[STEPS];
	struct os_signal signals[8];
	char *names[4];
};

/* Steps of 100 ms: gemm 40 ms, norm 10 ms, an all-reduce; the slow ones last slow_ms longer. */
static void make(struct made *m, int rank, uint32_t reason, double begin_s, double slow_ms)
{
	static char empty[] = "", gemm[] = "gemm", norm[] = "norm",
		    reduce[] = "ncclDevKernel_AllReduce";
	uint64_t t = (uint64_t)(begin_s * 1e9);

	memset(m, 0, sizeof(*m));
	m->names[0] = empty;
	m->names[1] = gemm;
	m->names[2] = norm;
	m->names[3] = reduce;
	m->w = (struct window){.begin_ns = t,
			       .realtime_offset_ns = (int64_t)T0,
			       .reason = reason,
			       .steps = m->steps,
			       .step_count = STEPS,
			       .device = m->device,
			       .host = m->host,
			       .names = m->names,
			       .name_count = 4,
			       .signals = m->signals,
			       .raw_bytes = 50000};
	next_id++;
	memcpy(m->w.id, &next_id, sizeof(next_id));
	memset(m->w.anomaly_id, rank + 1, 16);
	snprintf(m->w.rank.job, WIRE_TEXT_BYTES, "job");
	snprintf(m->w.rank.node, WIRE_TEXT_BYTES, "node-%d", rank / 4);
	m->w.rank.rank = rank;
	m->w.rank.world_size = world;
	m->w.rank.pid = 100 + (uint32_t)rank;
	for (uint32_t i = 0; i < STEPS; i++) {
		struct window_step *s = &m->steps[i];
		bool slow = i >= HEALTHY && slow_ms > 0;
		uint64_t extra = slow ? (uint64_t)(slow_ms * 1e6) : 0;

		s->step = (struct step){.index = 100 + i,
					.begin_ns = t,
					.end_ns = t + 100 * MS + extra,
					.latency_ns = 100 * MS + extra,
					.self_ns = 90 * MS + extra,
					.compute_ns = 50 * MS,
					.comm_ns = 10 * MS,
					.exposed_comm_ns = 10 * MS,
					.idle_ns = 40 * MS + extra,
					.kernels = 3};
		if (reason == WINDOW_COMM) { /* it waits for somebody else */
			s->step.self_ns -= extra;
			s->step.idle_ns -= extra;
			s->step.exposed_comm_ns += extra;
		}
		s->expected_ns = 100 * MS;
		s->expected_self_ns = 90 * MS;
		s->flags = slow && reason != WINDOW_ASKED ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED
							  : WINDOW_STEP_MARGIN;
		for (uint32_t k = 0; k < 3; k++)
			m->device[m->w.device_count++] =
			    (struct record){.kind = k == 2 ? RECORD_COLL_KERNEL : RECORD_KERNEL,
					    .name = k + 1,
					    .launch_ns = t + 1 + k,
					    .begin_ns = t + 10 * MS + k,
					    .end_ns = t + 10 * MS + k + (k == 0 ? 40 : 10) * MS};
		m->host[m->w.host_count++] = (struct record){.kind = RECORD_LAUNCH,
							     .begin_ns = t + 1,
							     .end_ns = t + 2,
							     .thread = 100 + (uint32_t)rank};
		t = s->step.end_ns;
	}
	m->w.end_ns = t;
	stack_batch_init(&m->w.stacks, keyed_process());
	os_signal_make(&m->signals[m->w.signal_count++], OS_SIGNAL_RUN_WAIT, "", 8, 7, 100);
}

static void signal_add(struct made *m, enum os_signal_kind kind, const char *subject, double value)
{
	os_signal_make(&m->signals[m->w.signal_count++], kind, subject, value, 0, 100);
}

static void slow_gemm(struct made *m, double ratio)
{
	uint64_t extra = (uint64_t)(40 * MS * (ratio - 1));

	for (uint32_t i = 0; i < m->w.device_count; i++)
		if (m->device[i].name == 1 && i >= 3 * HEALTHY)
			m->device[i].end_ns += extra;
	for (uint32_t i = HEALTHY; i < STEPS; i++) {
		m->steps[i].step.compute_ns += extra;
		m->steps[i].step.idle_ns -= extra;
	}
}

static struct incident_change send(struct made *m)
{
	struct incident_change c;
	struct digest d;

	digest_make(&m->w, 1000, &d);
	d.excerpt = excerpt_make(&m->w, NULL, NULL);
	assert_int_equal(incident_set_add(set, &d, d.end_unix_ns, &c), 0);
	excerpt_drop(d.excerpt);
	stack_batch_fini(&m->w.stacks);
	return c;
}

static struct incident_change window(int rank, uint32_t reason, double slow_ms)
{
	static struct made m;

	make(&m, rank, reason, 1, slow_ms);
	return send(&m);
}

/* No verdict says both that the host launches late and that its GPU does not wait for it. */
static json_t *json_of(struct incident_change c)
{
	json_t *j = incident_set_json(set, c.id, 8, NULL);
	char *text;

	assert_non_null(j);
	text = json_dumps(json_object_get(j, "diagnosis"), JSON_ENCODE_ANY);
	assert_false(strstr(text, "the host launches late") &&
		     strstr(text, "does not wait for the host"));
	free(text);
	return j;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *t = json_string_value(json_object_get(j, key));

	return t ? t : "(none)";
}

static const char *ranks_of(const json_t *j)
{
	static char text[4][128];
	static int turn;
	char *out = text[++turn % 4];
	size_t k;
	json_t *v;

	out[0] = '\0';
	json_array_foreach (json_object_get(j, "ranks"), k, v)
		snprintf(out + strlen(out), 128 - strlen(out), "%s%d", k ? "," : "",
			 (int)json_integer_value(v));
	return out;
}

static bool is_said(const json_t *d, const char *word)
{
	char *text = json_dumps(d, 0);
	bool said = strstr(text, word) != NULL;

	free(text);
	return said;
}

static const char *cause_of(const json_t *j)
{
	return text_of(json_object_get(j, "diagnosis"), "cause");
}

static struct finding_report finding(enum finding_kind kind, enum finding_cause cause, int rank)
{
	struct finding_report f = {
	    .job = "job", .begin_unix_ns = T0 + 1 * S, .end_unix_ns = T0 + 4 * S};

	f.finding = (struct finding){.kind = kind,
				     .cause = cause,
				     .first_step = 100,
				     .last_step = 139,
				     .excess = 0.05,
				     .effect_ns = 5e6,
				     .confidence = 0.7};
	if (rank >= 0)
		f.finding.ranks[f.finding.rank_count++] = rank;
	finding_say(&f.finding, LAYER_SOFTWARE, 5e6, "found across ranks, %d", rank);
	return f;
}

static struct incident_change report(struct finding_report f)
{
	struct incident_change c;

	assert_int_equal(incident_set_add_finding(set, &f, f.end_unix_ns, &c), 0);
	return c;
}

/* ---- excerpts ---- */

static void counts_kernels_of_slow_and_of_healthy_steps_apart(void **unused)
{
	static struct made m;
	struct diagnosis_rank r;
	struct excerpt *p;

	make(&m, 5, WINDOW_SELF, 1, 20);
	slow_gemm(&m, 1.5);
	p = excerpt_make(&m.w, NULL, NULL);
	assert_int_equal(p->slow.rank.steps, STEPS - HEALTHY);
	assert_int_equal(p->healthy.rank.steps, HEALTHY);
	excerpt_rank(p, false, &r);
	assert_int_equal(r.kernel_count, 3);
	assert_string_equal(r.kernel[0].name, "gemm");
	assert_float_equal(r.kernel[0].total_ns, 60e6, 1);
	assert_float_equal(r.kernel[0].count, 1, 1e-9);
	assert_float_equal(r.step_ns, 120e6, 1);
	assert_false(r.kernel[0].collective);
	excerpt_rank(p, true, &r);
	assert_float_equal(r.kernel[0].total_ns, 40e6, 1);
	assert_float_equal(r.step_ns, 100e6, 1);
	assert_int_equal(r.function_count, 0);
	excerpt_drop(p);
}

/* An evaluation of six steps, a training step that waits for a rank that wrote a checkpoint in it, and
 * usual training steps. Without the latter, evaluation is better than nothing. */
static void steps_of_other_work_are_no_reference(void **unused)
{
	for (int alike = 0; alike < 2; alike++) {
		static struct made m;
		struct excerpt *p;

		make(&m, 5, WINDOW_COMM, 1, 40);
		for (uint32_t i = 0; i < STEPS; i++) {
			if (i < HEALTHY) {
				m.steps[i].step.kernels = 2;
			} else if (i > HEALTHY) {
				m.steps[i].flags = alike ? WINDOW_STEP_MARGIN : WINDOW_STEP_OUT;
				m.steps[i].step.latency_ns = 100 * MS;
			}
		}
		p = excerpt_make(&m.w, NULL, NULL);
		stack_batch_fini(&m.w.stacks);
		assert_int_equal(p->slow.rank.steps, 1);
		assert_int_equal(p->healthy.rank.steps, alike ? STEPS - HEALTHY - 1 : HEALTHY);
		assert_int_equal(excerpt_ledger(p, 0, true)->steps, p->healthy.rank.steps);
		excerpt_drop(p);
	}
}

/* A step unlike any before, of 500 ms, among slow ones. Alone it is all there is; a spike counts. */
static void a_transient_is_no_slow_step_among_others(void **unused)
{
	(void)unused;
	for (int what = 0; what < 3; what++) {
		static struct made m;
		struct excerpt *p;
		struct digest d;

		make(&m, 5, WINDOW_SELF, 1, 20);
		for (uint32_t i = HEALTHY; what == 1 && i < STEPS; i++)
			m.steps[i].flags = i > HEALTHY ? WINDOW_STEP_MARGIN : m.steps[i].flags;
		m.steps[HEALTHY].flags |= WINDOW_STEP_FIRST | (what == 2 ? WINDOW_STEP_SPIKE : 0);
		m.steps[HEALTHY].step.latency_ns += 500 * MS;
		digest_make(&m.w, 1000, &d);
		assert_int_equal(d.slow.flagged, what == 1 ? 1 : STEPS - HEALTHY);
		assert_int_equal(d.slow.took.steps, d.slow.flagged - (what == 0));
		p = excerpt_make(&m.w, NULL, NULL);
		stack_batch_fini(&m.w.stacks);
		assert_int_equal(p->slow.rank.steps, d.slow.took.steps);
		assert_int_equal(excerpt_ledger(p, 0, false)->steps, d.slow.took.steps);
		excerpt_drop(p);
	}
}

/* Prefill (phase 1) launches as many kernels as decode. Without three healthy steps of the phase that lost
 * most, those of both are the reference. */
static void slow_steps_are_compared_within_their_phase(void **unused)
{
	(void)unused;
	for (uint32_t of_phase = 2; of_phase <= 3; of_phase++) {
		static struct made m;
		struct excerpt *p;

		make(&m, 5, WINDOW_SELF, 1, 40);
		for (uint32_t i = 0; i < STEPS; i++)
			m.steps[i].step.phase = i < HEALTHY ? i < of_phase : i < STEPS - 2;
		p = excerpt_make(&m.w, NULL, NULL);
		stack_batch_fini(&m.w.stacks);
		assert_int_equal(p->healthy.rank.steps, of_phase == 3 ? 3 : HEALTHY);
		assert_int_equal(p->slow.rank.steps, STEPS - HEALTHY - 2);
		assert_int_equal(p->kind[0].phase, 1);
		assert_int_equal(p->kind[0].healthy_phase, of_phase == 3 ? 1 : EXCERPT_PHASES);
		assert_int_equal(excerpt_ledger(p, 0, true)->steps, p->healthy.rank.steps);
		excerpt_drop(p);
	}
}

/* Eight phases have slow steps that lost nothing. */
static void phases_that_lost_nothing_hide_none_that_did(void **unused)
{
	static struct made m;
	struct excerpt *p;

	(void)unused;
	make(&m, 5, WINDOW_SELF, 1, 40);
	for (uint32_t i = HEALTHY; i < STEPS; i++) {
		bool lost = i >= HEALTHY + 8;

		m.steps[i].step.phase = lost ? 1 : 10 + i;
		m.steps[i].step.latency_ns -= lost ? 0 : 40 * MS;
	}
	p = excerpt_make(&m.w, NULL, NULL);
	stack_batch_fini(&m.w.stacks);
	assert_int_equal(p->slow.rank.steps, STEPS - HEALTHY - 8);
	assert_int_equal(p->kind[0].phase, 1);
	excerpt_drop(p);
}

/* A requested window of six phases, in which the first two take the least time and the last one most. */
static void a_requested_window_has_ledgers_of_the_phases_that_took_most(void **unused)
{
	static struct made m;
	struct excerpt *p;

	(void)unused;
	make(&m, 5, WINDOW_ASKED, 1, 0);
	for (uint32_t i = 0; i < STEPS; i++)
		m.steps[i].step.phase = i < 2 ? i : i < 14 ? 2 + (i - 2) / 4 : 5;
	p = excerpt_make(&m.w, NULL, NULL);
	stack_batch_fini(&m.w.stacks);
	assert_int_equal(p->kinds, 4);
	assert_int_equal(p->kind[0].phase, 5);
	for (uint32_t k = 0; k < p->kinds; k++)
		assert_int_equal(excerpt_ledger(p, k, false)->steps, k ? 4 : 6);
	assert_int_equal(p->slow.rank.steps, 6);
	excerpt_drop(p);
}

/* Two steps of twenty, for which the disk was slow. */
static void make_moment(struct made *m, uint32_t reason)
{
	make(m, 5, reason, 1, 0);
	for (uint32_t i = 10; i < 12; i++) {
		m->steps[i].step.latency_ns += 400 * MS;
		m->steps[i].step.self_ns += 400 * MS;
		m->steps[i].flags = WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
	}
}

/* Others waited in steps of a kind that the rank's own model does not know yet. */
static void steps_that_the_model_does_not_know_are_the_slow_ones(void **unused)
{
	static struct made m;
	struct excerpt *p;

	make(&m, 5, WINDOW_ASKED, 1, 0);
	for (uint32_t i = 5; i < STEPS; i += 6) {
		m.steps[i].step.phase = 2;
		m.steps[i].step.latency_ns += 60 * MS;
		m.steps[i].step.self_ns += 60 * MS;
		m.steps[i].expected_ns = m.steps[i].expected_self_ns = 0;
	}
	p = excerpt_make(&m.w, NULL, NULL);
	stack_batch_fini(&m.w.stacks);
	assert_int_equal(p->slow.rank.steps, STEPS / 6);
	assert_int_equal(p->healthy.rank.steps, 5); /* before the first one */
	assert_float_equal(p->slow.rank.step_ns, 160e6, 1);
	excerpt_drop(p);
}

static void a_moment_of_what_was_asked_for_is_not_what_is_typical(void **unused)
{
	static struct made m;
	struct diagnosis_rank r;
	struct excerpt *p;

	make_moment(&m, WINDOW_ASKED);
	p = excerpt_make(&m.w, NULL, NULL);
	assert_int_equal(p->slow.rank.steps, STEPS);
	assert_int_equal(p->healthy.rank.steps, STEPS - 2);
	for (int healthy = 0; healthy < 2; healthy++) {
		excerpt_rank(p, healthy, &r);
		assert_float_equal(r.step_ns, 100e6, 1);
		assert_int_equal(r.kernel_count, 3);
		assert_float_equal(r.kernel[0].count, 1, 1e-9);
		assert_float_equal(r.kernel[0].total_ns, 40e6, 1);
	}
	excerpt_drop(p);
	m.steps[15].flags = WINDOW_STEP_OUT; /* neither slow nor healthy: of all steps */
	p = excerpt_make(&m.w, NULL, NULL);
	excerpt_rank(p, false, &r);
	assert_int_equal(r.steps, STEPS);
	assert_float_equal(r.kernel[0].count, 1, 1e-9);
	excerpt_drop(p);
	make_moment(&m, WINDOW_SELF);
	p = excerpt_make(&m.w, NULL, NULL);
	assert_int_equal(p->slow.rank.steps, 2);
	excerpt_drop(p);
}

/* The detector cut every third step in two: halves are no reference, and no evidence. */
/* A fault about as large as the noise: the detector flags some of its steps. */
static void slow_steps_that_nobody_flagged_are_no_reference(void **unused)
{
	static struct made m;
	struct diagnosis_rank healthy;
	struct excerpt *p;

	make(&m, 2, WINDOW_SELF, 1, 20);
	slow_gemm(&m, 1.5);
	for (uint32_t i = HEALTHY; i < STEPS; i += 2)
		m.steps[i].flags = WINDOW_STEP_MARGIN;
	p = excerpt_make(&m.w, NULL, NULL);
	assert_int_equal(p->healthy.rank.steps, HEALTHY);
	excerpt_rank(p, true, &healthy);
	assert_true(fabs(healthy.step_ns - 100e6) < 1);
	assert_int_equal(excerpt_ledger(p, 0, true)->steps, HEALTHY);
	excerpt_drop(p);
	stack_batch_fini(&m.w.stacks);
}

static void leaves_out_steps_that_were_cut_in_two(void **unused)
{
	static struct made m;
	struct diagnosis_rank r;
	struct excerpt *p;

	make(&m, 5, WINDOW_SELF, 1, 20);
	for (uint32_t i = 1; i < STEPS; i += 3) {
		m.steps[i].step.kernels = 1;
		m.steps[i].step.latency_ns = m.steps[i].step.self_ns = 30 * MS;
		m.steps[i].step.compute_ns = 20 * MS;
	}
	p = excerpt_make(&m.w, NULL, NULL);
	excerpt_rank(p, false, &r);
	assert_int_equal(r.steps, 9);
	assert_float_equal(r.step_ns, 120e6, 1);
	assert_float_equal(r.compute_ns, 50e6, 1);
	excerpt_rank(p, true, &r);
	assert_int_equal(r.steps, 4);
	assert_float_equal(r.compute_ns, 50e6, 1);
	excerpt_drop(p);
	/* more launches are more work, and no part of a step */
	make(&m, 5, WINDOW_SELF, 1, 20);
	for (uint32_t i = HEALTHY; i < STEPS; i += 2)
		m.steps[i].step.kernels = 5;
	p = excerpt_make(&m.w, NULL, NULL);
	assert_int_equal(p->slow.rank.steps, STEPS - HEALTHY);
	excerpt_drop(p);
}

static void add_line(struct stack_batch *b, const char *python, uint32_t line, uint32_t tid,
		     unsigned kind, unsigned gil, uint64_t ms)
{
	struct stack_frame f[2] = {{.kind = STACK_FRAME_KERNEL},
				   {.kind = STACK_FRAME_PYTHON, .line = line}};
	uint32_t blocked = kind == STACK_OFF_CPU;
	struct stack_sample s = {.time_ns = S,
				 .weight_ns = ms * MS,
				 .pid = 105,
				 .tid = tid,
				 .count = (uint32_t)ms / 10,
				 .kind = (uint8_t)kind,
				 .gil = (uint8_t)gil};

	if (blocked) {
		s.waker_tid = gil == STACK_GIL_WAITER ? 300 : 400;
		assert_int_equal(stack_batch_string(b, "pipe_read", 9, &f[0].object), 0);
		assert_int_equal(stack_batch_string(b, "feeder", 6, &s.waker_comm), 0);
	}
	assert_int_equal(stack_batch_string(b, python, strlen(python), &f[1].object), 0);
	assert_int_equal(stack_batch_string(b, "/a/train.py", 11, &f[1].file), 0);
	assert_int_equal(
	    stack_batch_string(b, tid == 105 ? "main" : "hog", tid == 105 ? 4 : 3, &s.comm), 0);
	assert_int_equal(
	    stack_batch_stack(b, f + !blocked, 1 + blocked, blocked, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(b, &s), 0);
}

static void add_sample(struct stack_batch *b, const char *python, uint32_t tid, unsigned kind,
		       unsigned gil, uint64_t ms)
{
	add_line(b, python, 0, tid, kind, gil, ms);
}

static const struct diagnosis_function *function_of(const struct diagnosis_rank *r,
						    const char *name)
{
	for (uint32_t i = 0; i < r->function_count; i++)
		if (!strcmp(r->function[i].name, name))
			return &r->function[i];
	fail_msg("no function %s", name);
	return NULL;
}

/* A function that spends its time in many lines holds the GIL no less than one that waits in one. */
static void holder_of_the_gil_is_a_function_not_a_line(void **unused)
{
	static struct made m;
	struct diagnosis_rank r;
	struct excerpt *p;

	make(&m, 5, WINDOW_ASKED, 1, 0);
	m.w.stacks.begin_ns = m.w.begin_ns;
	m.w.stacks.end_ns = m.w.end_ns;
	add_sample(&m.w.stacks, "wait", 105, STACK_OFF_CPU, STACK_GIL_WAITER, 500);
	for (uint32_t line = 1; line <= 20; line++)
		add_line(&m.w.stacks, "spin", line, 300, STACK_ON_CPU, STACK_GIL_HOLDER,
			 line == 7 ? 20 : 10);
	add_line(&m.w.stacks, "tick", 90, 300, STACK_ON_CPU, STACK_GIL_HOLDER, 60);
	p = excerpt_make(&m.w, NULL, NULL);
	excerpt_rank(p, false, &r);
	assert_string_equal(r.gil_holder, "spin (train.py:7) in thread hog");
	excerpt_drop(p);
	stack_batch_fini(&m.w.stacks);
}

/* 20 steps of 100 ms are 2 s: 400 ms of it are 20 ms per step. */
static void gives_functions_in_time_per_step(void **unused)
{
	static struct made m;
	const struct diagnosis_function *f;
	struct diagnosis_rank r;
	struct excerpt *p;

	make(&m, 5, WINDOW_ASKED, 1, 0);
	m.w.stacks.begin_ns = m.w.begin_ns;
	m.w.stacks.end_ns = m.w.end_ns;
	/* of the reference: not in the window's time */
	add_sample(&m.w.stacks, "step", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 300);
	m.w.stacks.samples[0].time_ns = m.w.begin_ns - 20 * MS;
	add_sample(&m.w.stacks, "step", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 400);
	add_sample(&m.w.stacks, "read", 105, STACK_OFF_CPU, STACK_GIL_RELEASED, 200);
	add_sample(&m.w.stacks, "wait", 105, STACK_OFF_CPU, STACK_GIL_WAITER, 100);
	add_sample(&m.w.stacks, "spin", 300, STACK_ON_CPU, STACK_GIL_HOLDER, 600);
	add_sample(&m.w.stacks, "idle", 300, STACK_OFF_CPU, STACK_GIL_RELEASED, 900);
	p = excerpt_make(&m.w, NULL, NULL);
	stack_batch_fini(&m.w.stacks);
	excerpt_rank(p, false, &r);
	assert_float_equal(r.cpu_ns, 50e6, 1);
	assert_float_equal(r.off_ns, 15e6, 1);
	assert_float_equal(r.gil_wait_ns, 5e6, 1);
	assert_float_equal(r.samples, 100, 0);
	assert_string_equal(r.launch_thread, "main");
	assert_string_equal(r.gil_holder, "spin (train.py) in thread hog");
	assert_string_equal(r.waker, "feeder (thread 400)");
	assert_float_equal(r.waker_ns, 15e6, 1);
	f = function_of(&r, "step (train.py)");
	assert_float_equal(f->launch_ns, 20e6, 1);
	assert_float_equal(f->total_ns, 20e6, 1);
	f = function_of(&r, "spin (train.py)");
	assert_float_equal(f->launch_ns, 0, 0);
	assert_float_equal(f->total_ns, 30e6, 1);
	assert_float_equal(function_of(&r, "read (train.py)")->off_ns, 10e6, 1);
	for (uint32_t i = 0; i < r.function_count;
	     i++) /* what other threads sleep in is of no concern */
		assert_string_not_equal(r.function[i].name, "idle (train.py)");
	excerpt_drop(p);
}

/* A program that runs in each step has a thread of its own each time. */
static void names_who_ended_its_waits(void **unused)
{
	static const struct {
		uint32_t tid[3];
		const char *waker;
	} cases[] = {{{400, 300, 400}, "feeder (thread 400)"}, {{400, 401, 402}, "feeder"}};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		static struct made m;
		struct diagnosis_rank r;
		struct excerpt *p;

		make(&m, 5, WINDOW_ASKED, 1, 0);
		m.w.stacks.begin_ns = m.w.begin_ns;
		m.w.stacks.end_ns = m.w.end_ns;
		for (uint32_t k = 0; k < 3; k++) {
			add_line(&m.w.stacks, "read", k + 1, 105, STACK_OFF_CPU, STACK_GIL_RELEASED,
				 100);
			m.w.stacks.samples[k].waker_tid = cases[i].tid[k];
		}
		p = excerpt_make(&m.w, NULL, NULL);
		stack_batch_fini(&m.w.stacks);
		excerpt_rank(p, false, &r);
		assert_string_equal(r.waker, cases[i].waker);
		assert_float_equal(r.waker_ns, 15e6, 1);
		excerpt_drop(p);
	}
}

/* The packets of others come in while it runs: 200 ms beside 200 of its own. */
static void what_an_interrupt_takes_is_no_time_of_what_it_interrupts(void **unused)
{
	static const char *const inner[] = {"__napi_poll", "handle_softirqs",
					    "sysvec_call_function_single",
					    "asm_sysvec_call_function_single", "vfs_read"};
	struct stack_sample s = {.time_ns = S,
				 .weight_ns = 200 * MS,
				 .pid = 105,
				 .tid = 105,
				 .count = 20,
				 .kind = STACK_ON_CPU};
	struct stack_frame f[6] = {[5] = {.kind = STACK_FRAME_PYTHON}};
	static struct made m;
	struct diagnosis_rank r;
	struct excerpt *p;

	make(&m, 5, WINDOW_ASKED, 1, 0);
	m.w.stacks.begin_ns = m.w.begin_ns;
	m.w.stacks.end_ns = m.w.end_ns;
	add_sample(&m.w.stacks, "step", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 200);
	for (uint32_t i = 0; i < 5; i++) {
		f[i].kind = STACK_FRAME_KERNEL;
		assert_int_equal(
		    stack_batch_string(&m.w.stacks, inner[i], strlen(inner[i]), &f[i].object), 0);
	}
	assert_int_equal(stack_batch_string(&m.w.stacks, "step", 4, &f[5].object), 0);
	assert_int_equal(stack_batch_string(&m.w.stacks, "/a/train.py", 11, &f[5].file), 0);
	assert_int_equal(stack_batch_stack(&m.w.stacks, f, 6, 0, STACK_END_ROOT, &s.stack), 0);
	assert_int_equal(stack_batch_sample(&m.w.stacks, &s), 0);
	p = excerpt_make(&m.w, NULL, NULL);
	stack_batch_fini(&m.w.stacks);
	excerpt_rank(p, false, &r);
	assert_float_equal(r.cpu_ns, 20e6, 1);
	assert_float_equal(function_of(&r, "step (train.py)")->launch_ns, 10e6, 1);
	assert_float_equal(function_of(&r, "step (train.py)")->total_ns, 10e6, 1);
	assert_float_equal(function_of(&r, "__napi_poll")->launch_ns, 10e6, 1);
	for (uint32_t i = 0; i < r.function_count; i++)
		assert_string_not_equal(r.function[i].name, "vfs_read");
	excerpt_drop(p);
}

static bool names_it(void *arg, const uint8_t *id, size_t bytes, uint64_t address, char *out,
		     size_t room)
{
	++*(uint32_t *)arg;
	snprintf(out, room, "f%llu", (unsigned long long)address);
	return bytes == 2 && id[0] == 7 && address < 100;
}

static void names_native_functions_and_gives_up_on_files_without_symbols(void **unused)
{
	static const uint8_t good[2] = {7, 7}, bad[2] = {8, 8};
	static struct made m;
	struct diagnosis_rank r;
	struct excerpt *p;
	uint32_t asked = 0;

	make(&m, 5, WINDOW_ASKED, 1, 0);
	m.w.stacks.begin_ns = m.w.begin_ns;
	m.w.stacks.end_ns = m.w.end_ns;
	for (uint32_t i = 0; i < 200; i++) {
		struct stack_frame f = {
		    .kind = STACK_FRAME_NATIVE, .flags = STACK_FRAME_RETURN, .address = 50 + i / 2};
		struct stack_sample s = {.time_ns = S,
					 .weight_ns = MS,
					 .pid = 105,
					 .tid = 105,
					 .count = 1,
					 .kind = STACK_ON_CPU};

		assert_int_equal(stack_batch_object(&m.w.stacks, i % 2 ? good : bad, 2,
						    "/lib/libx.so", &f.object),
				 0);
		assert_int_equal(stack_batch_stack(&m.w.stacks, &f, 1, 0, STACK_END_ROOT, &s.stack),
				 0);
		assert_int_equal(stack_batch_sample(&m.w.stacks, &s), 0);
	}
	p = excerpt_make(&m.w, names_it, &asked);
	stack_batch_fini(&m.w.stacks);
	excerpt_rank(p, false, &r);
	function_of(&r, "f49"); /* a return address belongs to the call before it */
	function_of(&r, "[libx.so]");
	assert_true(asked < 100);
	excerpt_drop(p);
}

/* ---- verdicts ---- */

static void victims_are_the_peers_that_a_cause_is_seen_against(void **unused)
{
	static struct made m;
	json_t *j, *d;

	for (int r = 0; r < 4; r++)
		window(r, WINDOW_COMM, 20);
	make(&m, 5, WINDOW_SELF, 1, 40);
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 200);
	j = json_of(send(&m));
	d = json_object_get(j, "diagnosis");
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j), "5");
	assert_string_equal(ranks_of(d), "5");
	assert_string_equal(text_of(d, "cause"), "os-softirq");
	json_decref(j);
}

/* Peers that are as fast as ever, asked for. */
static void healthy_peers(void)
{
	for (int r = 0; r < 4; r++)
		window(r, WINDOW_ASKED, 0);
}

static struct incident_change softirq(int rank, double slow_ms)
{
	static struct made m;

	make(&m, rank, WINDOW_SELF, 1, slow_ms);
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 10 * slow_ms);
	return send(&m);
}

static struct incident_change slow_kernel(int rank, double slow_ms)
{
	static struct made m;

	make(&m, rank, WINDOW_SELF, at_s, slow_ms);
	slow_gemm(&m, 1 + slow_ms / 40);
	return send(&m);
}

/* Transfers of all ranks take longer for a minute, in which one rank had a slow kernel for some steps. */
static void what_all_ranks_wait_for_is_not_what_one_did_for_a_while(void **unused)
{
	static struct made m;
	json_t *j;

	for (int n = 0; n < 20; n++)
		for (int rank = 0; rank < 4; rank++) {
			make(&m, rank, WINDOW_COMM, 1 + 3 * n, 40);
			for (uint32_t k = 3 * HEALTHY; k < m.w.device_count; k++)
				if (m.device[k].kind == RECORD_COLL_KERNEL)
					m.device[k].end_ns += 70 * MS;
			send(&m);
		}
	j = json_of(slow_kernel(2, 45));
	assert_string_equal(text_of(j, "kind"), "uniform");
	assert_string_equal(cause_of(j), "net-transfer");
	json_decref(j);
}

/* A window with one slow step. */
static struct incident_change moment(int rank, uint32_t reason, double begin_s, double self_ms)
{
	static struct made m;

	make(&m, rank, reason, begin_s, self_ms - 90);
	m.steps[HEALTHY].step.self_ns = (uint64_t)(self_ms * 1e6);
	for (uint32_t i = HEALTHY + 1; i < STEPS; i++)
		m.steps[i].flags = WINDOW_STEP_MARGIN;
	return send(&m);
}

/* A rank with a slow kernel waited once for another one, which was very late then. */
static void a_peer_that_was_late_is_no_measure_of_the_others(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5);
	json_t *j;

	healthy_peers();
	slow_kernel(5, 10);
	f.finding.effect_ns = 30e6;
	report(f);
	moment(6, WINDOW_SELF, 3, 490);
	j = json_of(moment(5, WINDOW_COMM, 3, 150));
	assert_string_equal(ranks_of(j), "5");
	assert_string_equal(cause_of(j), "gpu-kernel");
	json_decref(j);
}

/* Of a GPU's time a hypervisor takes nothing, however much of the CPUs'. */
static void a_little_steal_does_not_take_the_blame_of_slow_kernels(void **unused)
{
	static struct made m;
	json_t *j;

	for (int n = 0; n < 10; n++) {
		make(&m, 5, WINDOW_SELF, 1 + 2.2 * n, 5);
		slow_gemm(&m, 1.125);
		signal_add(&m, OS_SIGNAL_STEAL, "", 31);
		send(&m);
	}
	make(&m, 6, WINDOW_SELF, 3, 80);
	for (uint32_t i = HEALTHY + 1; i < STEPS; i++)
		m.steps[i].flags = WINDOW_STEP_MARGIN;
	send(&m);
	healthy_peers();
	make(&m, 5, WINDOW_SELF, 23, 5);
	slow_gemm(&m, 1.125);
	signal_add(&m, OS_SIGNAL_STEAL, "", 31);
	j = json_of(send(&m));
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(j, "ranks"), 0)), 5);
	assert_int_equal(json_array_size(json_object_get(j, "ranks")), 1);
	json_decref(j);
}

static void names_the_cause_of_the_culprit(void **unused)
{
	json_t *j;

	softirq(5, 20);
	healthy_peers();
	j = json_of(softirq(5, 20));
	assert_string_equal(cause_of(j), "os-softirq");
	assert_string_equal(text_of(json_object_get(j, "diagnosis"), "layer"), "os");
	assert_true(json_array_size(json_object_get(json_object_get(j, "diagnosis"), "evidence")) >
		    0);
	assert_true(json_array_size(json_object_get(json_object_get(j, "diagnosis"), "ruled_out")) >
		    0);
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	json_decref(j);
}

static const struct {
	enum os_signal_kind kind;
	const char *subject, *cause, *evidence, *remedy;
	double value;
} of_memory[] = {
    {OS_SIGNAL_PAGES_MIGRATED, "", "os-numa", "between NUMA nodes", "NUMA balancing", 80000},
    {OS_SIGNAL_FAULTS, "", "os-faults", "page faults: 160000", "huge pages", 160000},
    {OS_SIGNAL_PRESSURE, "memory in its cgroup", "os-memory", "memory in its cgroup: 220",
     "memory limit", 220},
};

static struct incident_change with_signal(int rank, uint32_t reason, double slow_ms, size_t i,
					  double share)
{
	static struct made m;

	make(&m, rank, reason, 1, slow_ms);
	if (share > 0)
		signal_add(&m, of_memory[i].kind, of_memory[i].subject, share * of_memory[i].value);
	return send(&m);
}

/* Rank 5 loses 30 ms of each step, with that signal; its peers nothing, with that share of it. */
static json_t *short_of_memory(size_t i, double share)
{
	teardown(NULL);
	setup(NULL);
	with_signal(5, WINDOW_SELF, 30, i, 1);
	for (int r = 0; r < 4; r++)
		with_signal(r, WINDOW_ASKED, 0, i, share);
	return json_of(with_signal(5, WINDOW_SELF, 30, i, 1));
}

static void memory_of_one_rank_is_its_cause_and_that_of_all_is_none(void **unused)
{
	for (size_t i = 0; i < sizeof(of_memory) / sizeof(*of_memory); i++) {
		json_t *j = short_of_memory(i, 0), *d = json_object_get(j, "diagnosis"), *line;

		line = json_array_get(json_object_get(d, "evidence"), 0);
		assert_string_equal(cause_of(j), of_memory[i].cause);
		assert_string_equal(text_of(d, "layer"), "os");
		assert_string_equal(ranks_of(d), "5");
		assert_non_null(strstr(text_of(line, "text"), of_memory[i].evidence));
		assert_non_null(strstr(text_of(d, "remedy"), of_memory[i].remedy));
		json_decref(j);
		j = short_of_memory(i, 0.95);
		assert_string_equal(cause_of(j), "cpu-host-gap");
		json_decref(j);
	}
}

/* ---- many windows of one fault ---- */

#define MANY 6

/* The n-th window of rank 5, whose gemm is slower by the fault. 0 shows it; the others lost more and show
 * less: 1 has no kernels, 2 is of a stretch in which the host was late, 3 is all slow, with nothing healthy
 * beside it, 4 shows it too, 5 is one step that something else made slow. */
static struct incident_change of_many(int n)
{
	static struct made m;

	make(&m, 5, WINDOW_SELF, 1 + 2.5 * n, n == 0 ? 20 : 30 + n);
	next_id = 100 + (uint32_t)n;
	memcpy(m.w.id, &next_id, sizeof(next_id));
	if (n == 0 || n == 4)
		slow_gemm(&m, n ? 1.5 : 1.4);
	if (n == 1)
		m.w.device_count = m.w.host_count = 0;
	if (n == 3)
		for (uint32_t i = 0; i < HEALTHY; i++)
			m.steps[i] = m.steps[HEALTHY];
	if (n == 5)
		for (uint32_t i = HEALTHY + 1; i < STEPS; i++)
			m.steps[i].flags = WINDOW_STEP_MARGIN;
	return send(&m);
}

static void any_order_of_windows_gives_the_same_verdict(void **unused)
{
	char *first = NULL;
	uint32_t orders = 0;

	for (uint32_t code = 0; code < 720; code += 7) { /* 103 of the 720 orders */
		int left[MANY] = {0, 1, 2, 3, 4, 5}, room = MANY;
		struct incident_change c;
		uint32_t rest = code;
		char *text;
		json_t *j;

		teardown(NULL);
		setup(NULL);
		healthy_peers();
		for (; room; room--) {
			int at = (int)(rest % (uint32_t)room);

			c = of_many(left[at]);
			rest /= (uint32_t)room;
			memmove(&left[at], &left[at + 1], (size_t)(room - 1 - at) * sizeof(*left));
		}
		j = json_of(c);
		assert_string_equal(cause_of(j), "gpu-kernel");
		text = json_dumps(json_object_get(j, "diagnoses"), JSON_SORT_KEYS);
		if (first)
			assert_string_equal(text, first);
		else
			first = strdup(text);
		free(text);
		json_decref(j);
		orders++;
	}
	assert_int_equal(orders, 103);
	free(first);
}

/* And however many come that lost more and show nothing. */
static void what_was_shown_once_is_not_lost_to_windows_that_say_less(void **unused)
{
	struct incident_change c;
	static struct made m;
	json_t *j;

	healthy_peers();
	of_many(4);
	for (int n = 0; n < 40; n++) {
		make(&m, 5, WINDOW_SELF, 4 + 2.5 * n, 40 + n / 2);
		m.w.device_count = m.w.host_count = 0;
		c = send(&m);
	}
	j = json_of(c);
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_true(set->excerpt_bytes < 10 * 64 * 1024);
	assert_int_equal(set->excerpt_bytes, set->first->excerpt_bytes);
	json_decref(j);
}

/* ---- room for excerpts ---- */

static void room_for(uint64_t bytes)
{
	incident_set_close(set);
	assert_int_equal(open_set(0, bytes), 0);
}

/* Bytes of a excerpt of make(). */
static uint64_t one_excerpt(void)
{
	static struct made m;
	struct excerpt *p;
	uint64_t bytes;

	make(&m, 5, WINDOW_SELF, 1, 20);
	p = excerpt_make(&m.w, NULL, NULL);
	bytes = p->bytes;
	excerpt_drop(p);
	stack_batch_fini(&m.w.stacks);
	return bytes;
}

static struct incident_change window_of(const char *job, int rank, uint32_t reason, double begin_s)
{
	static struct made m;

	make(&m, rank, reason, begin_s, 20);
	snprintf(m.w.rank.job, WIRE_TEXT_BYTES, "%s", job);
	if (reason == WINDOW_SELF)
		slow_gemm(&m, 1.5);
	return send(&m);
}

static uint64_t bytes_held(void)
{
	uint64_t bytes = 0;

	for (const struct incident *i = set->first; i; i = i->next)
		bytes += i->excerpt_bytes;
	assert_int_equal(bytes, set->excerpt_bytes);
	return bytes;
}

static void a_excerpt_in_several_places_counts_once(void **unused)
{
	window(5, WINDOW_SELF, 20);
	assert_int_equal(bytes_held(), one_excerpt());
	window(6, WINDOW_COMM, 20);
	assert_true(bytes_held() > one_excerpt() && bytes_held() <= 2 * one_excerpt() + 4096);
	/* another incident of the job, and a window that makes the two one */
	window_of("job", 7, WINDOW_SELF, 12);
	assert_int_equal(set_count(set, true), 2);
	window_of("job", 2, WINDOW_SELF, 7);
	assert_int_equal(set_count(set, true), 1);
	assert_true(bytes_held() > one_excerpt());
}

/* All ranks of one job, all kinds of windows: there is no room left when another job has its fault. */
static void a_job_of_many_excerpts_takes_the_verdict_of_no_other(void **unused)
{
	const uint64_t room = 8 * one_excerpt();
	struct incident_change big, small;
	json_t *j;

	room_for(room);
	for (int n = 0; n < 6; n++)
		for (int rank = 0; rank < 8; rank++)
			big = window_of("big", rank, rank == 3 ? WINDOW_SELF : WINDOW_COMM, 1 + n);
	assert_true(bytes_held() <= room);
	assert_true(bytes_held() > room - 2 * one_excerpt());
	for (int rank = 0; rank < 3; rank++)
		window_of("small", rank, WINDOW_COMM, 2);
	small = window_of("small", 5, WINDOW_SELF, 2);
	assert_true(bytes_held() <= room);
	j = json_of(small);
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_false(is_said(json_object_get(j, "missing"), "no room"));
	json_decref(j);
	j = json_of(big);
	assert_string_equal(ranks_of(j), "3");
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_true(is_said(json_object_get(j, "missing"), "no room"));
	json_decref(j);
}

static void what_is_closed_gives_room_first(void **unused)
{
	const uint64_t room = 8 * one_excerpt();
	char closed[4][INCIDENT_ID_BYTES];
	struct incident_change old, open;
	json_t *j;

	room_for(room);
	for (int rank = 0; rank < 8; rank++)
		old = window_of("old", rank, rank == 3 ? WINDOW_SELF : WINDOW_COMM, 1);
	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 1);
	assert_string_equal(closed[0], old.id);
	for (int rank = 0; rank < 8; rank++)
		open = window_of("open", rank, rank == 3 ? WINDOW_SELF : WINDOW_COMM, 100);
	assert_true(bytes_held() <= room);
	j = json_of(open);
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_false(is_said(json_object_get(j, "missing"), "no room"));
	json_decref(j);
	j = json_of(old);
	assert_true(is_said(json_object_get(j, "missing"), "no room"));
	json_decref(j);
}

/* By the member's places, each excerpt once. */
static uint64_t bytes_of_member(const struct member *m)
{
	const struct excerpts *e = &m->excerpts;
	uint64_t bytes = 0;

	for (size_t k = 0; k < INCIDENT_PLACES; k++) {
		const struct excerpt *p = e->at[k].excerpt;
		bool again = false;

		for (size_t q = 0; q < k; q++)
			again |= e->at[q].excerpt == p;
		bytes += p && !again ? p->bytes : 0;
	}
	return bytes;
}

static void room_is_counted_right_whatever_comes(void **unused)
{
	static const uint32_t reasons[] = {WINDOW_SELF, WINDOW_COMM, WINDOW_COMM, WINDOW_ASKED,
					   WINDOW_PEER};
	const uint64_t room = 20 * one_excerpt();
	char closed[4][INCIDENT_ID_BYTES];
	char job[8];
	uint64_t state = 1;

	room_for(room);
	for (int n = 0; n < 1500; n++) {
		uint32_t reason = reasons[synth_random(&state) % ARRAY_LEN(reasons)];

		snprintf(job, sizeof(job), "job%u", (unsigned)(synth_random(&state) % 4));
		window_of(job, (int)(synth_random(&state) % 6), reason,
			  (double)(synth_random(&state) % 60));
		if (n % 50 == 49)
			incident_set_tick(set, T0 + (uint64_t)(synth_random(&state) % 120) * S,
					  closed, 4);
		for (const struct incident *i = set->first; i; i = i->next) {
			uint64_t bytes = 0;

			for (uint32_t k = 0; k < i->member_count; k++)
				bytes += bytes_of_member(&i->members[k]);
			assert_int_equal(bytes, i->excerpt_bytes);
		}
		assert_true(bytes_held() <= room);
	}
}

/* Those of ranks that only waited go first. */
static void in_a_full_incident_the_culprit_has_room(void **unused)
{
	const uint64_t room = 6 * one_excerpt();
	struct incident_change c;
	json_t *j;

	room_for(room);
	for (int n = 0; n < 4; n++)
		for (int rank = 0; rank < 8; rank++)
			c = rank == 5 ? c : window_of("job", rank, WINDOW_COMM, 1 + n);
	c = window_of("job", 5, WINDOW_SELF, 2);
	assert_true(bytes_held() <= room);
	j = json_of(c);
	assert_string_equal(ranks_of(j), "5");
	assert_string_equal(cause_of(j), "gpu-kernel");
	json_decref(j);
}

/* One window that lost more than each of many that agree has not lost more than they have. */
static uint32_t text_in(struct stack_batch *b, const char *s)
{
	uint32_t out;

	assert_int_equal(stack_batch_string(b, s, strlen(s), &out), 0);
	return out;
}

/* After its kernels the rank waits at a socket, in the slow steps for longer. lost: segments a second that
 * it sends again, on two connections. */
static struct incident_change at_socket(int rank, uint32_t reason, double slow_ms, double lost)
{
	static struct made m;
	struct stack_batch *b = &m.w.stacks;
	uint32_t pid = 100 + (uint32_t)rank, stack;

	make(&m, rank, reason, at_s, slow_ms);
	struct stack_frame f[2] = {
	    {.kind = STACK_FRAME_KERNEL, .object = text_in(b, "tcp_recvmsg")},
	    {.kind = STACK_FRAME_PYTHON,
	     .object = text_in(b, "all_reduce"),
	     .file = text_in(b, "/job/train.py"),
	     .line = 7}};
	struct stack_switch_thread t = {
	    .begin_ns = m.w.begin_ns, .end_ns = m.w.end_ns, .pid = pid, .tid = pid};

	b->begin_ns = m.w.begin_ns;
	b->end_ns = m.w.end_ns;
	assert_int_equal(stack_batch_stack(b, f, 2, 1, STACK_END_ROOT, &stack), 0);
	assert_int_equal(stack_batch_switch_thread(b, &t), 0);
	for (uint32_t i = 0; i < STEPS; i++) {
		struct stack_switch s = {.out_ns = m.steps[i].step.begin_ns + 51 * MS,
					 .in_ns = m.steps[i].step.end_ns,
					 .pid = pid,
					 .tid = pid,
					 .stack = stack,
					 .state = STACK_SWITCH_INTERRUPTIBLE,
					 .count = 1};

		assert_int_equal(stack_batch_switch(b, &s), 0);
	}
	if (lost > 0) {
		signal_add(&m, OS_SIGNAL_RETRANSMITS, "10.0.0.2:5 to 10.0.0.1:6", 0.6 * lost);
		signal_add(&m, OS_SIGNAL_RETRANSMITS, "10.0.0.2:7 to 10.0.0.3:8", 0.4 * lost);
		signal_add(&m, OS_SIGNAL_RETRANSMIT_WAIT, "10.0.0.2:5 to 10.0.0.1:6", 12 * lost);
		signal_add(&m, OS_SIGNAL_RETRANSMIT_WAIT, "10.0.0.2:7 to 10.0.0.3:8", 8 * lost);
	}
	return send(&m);
}

static void lost_segments_of_one_rank_explain_what_others_wait_for(void **unused)
{
	json_t *j;

	at_socket(1, WINDOW_SELF, 20, 0);
	at_socket(6, WINDOW_ASKED, 0, 0);
	j = json_of(at_socket(1, WINDOW_SELF, 20, 0));
	assert_string_equal(cause_of(j), "net-wait");
	json_decref(j);
	at_socket(2, WINDOW_ASKED, 0, 23);
	j = json_of(at_socket(1, WINDOW_SELF, 20, 0));
	assert_string_equal(cause_of(j), "net-retransmits");
	assert_true(is_said(json_object_get(j, "diagnosis"), "rank 2 retransmits"));
	json_decref(j);
	for (int n = 0; n < 3; n++) {
		at_socket(3, WINDOW_SELF, 20, 13);
		at_socket(2, WINDOW_SELF, 18, 23);
	}
	j = json_of(at_socket(2, WINDOW_SELF, 18, 23));
	assert_string_equal(cause_of(j), "net-retransmits");
	assert_string_equal(ranks_of(j), "2");
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "2");
	json_decref(j);
}

/* Two ranks wait for the others' messages on the GPU. */
static void ranks_that_wait_for_each_other_on_the_cpu_are_all_slow(void **unused)
{
	json_t *j;

	for (int rank = 0; rank < 6; rank++)
		at_socket(rank, WINDOW_SELF, 40, 0);
	window(6, WINDOW_COMM, 40);
	j = json_of(window(7, WINDOW_COMM, 40));
	assert_string_equal(text_of(j, "symptom"), "slow_job");
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "");
	assert_string_equal(cause_of(j), "net-wait");
	json_decref(j);
}

static void who_waits_on_the_cpu_for_a_late_rank_is_not_slow(void **unused)
{
	struct incident_change c;
	json_t *j;

	for (int waiting = 1; waiting <= 7; waiting++) {
		teardown(NULL);
		setup(NULL);
		for (int k = 1; k <= waiting; k++)
			at_socket((6 + k) % 8, WINDOW_SELF, 240, 0);
		c = slow_kernel(6, 200);
		j = json_of(c);
		assert_string_equal(ranks_of(j), "6");
		assert_string_equal(cause_of(j), "gpu-kernel");
		assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
		assert_true(is_said(json_object_get(j, "diagnosis"),
				    waiting == 1 ? "rank 7 only waits for it on the CPU: "
						 : " only wait for it on the CPU: "));
		json_decref(j);
	}
}

/* Ranks 1 to 3 wait for a server; later, rank 6 has a slow kernel. */
static void who_waited_at_another_time_is_slow(void **unused)
{
	json_t *j, *v;
	size_t k;

	for (at_s = 1; at_s < 20; at_s += 3)
		for (int rank = 1; rank < 4; rank++)
			at_socket(rank, WINDOW_SELF, 240, 0);
	for (; at_s < 60; at_s += 3)
		slow_kernel(6, 240);
	j = json_of(slow_kernel(6, 240));
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 2);
	json_array_foreach (json_object_get(j, "diagnoses"), k, v)
		assert_false(is_said(v, "only wait"));
	json_decref(j);
}

/* Rank 3 waits less than rank 2, as little as counts for a second fault. */
static void who_waits_little_for_a_late_rank_is_no_second_fault(void **unused)
{
	json_t *j;

	for (; at_s < 60; at_s += 10) {
		slow_kernel(6, 400);
		at_socket(2, WINDOW_SELF, 400, 0);
		at_socket(3, WINDOW_SELF, 60, 0);
	}
	j = json_of(slow_kernel(6, 400));
	assert_string_equal(ranks_of(j), "6");
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	json_decref(j);
}

/* Rank 1 waits for rank 6, and both cost less than rank 3's own wait. */
static void who_waits_is_said_of_the_rank_that_is_late(void **unused)
{
	json_t *j, *v;
	size_t k;

	at_socket(3, WINDOW_SELF, 900, 0);
	at_socket(1, WINDOW_SELF, 320, 0);
	j = json_of(slow_kernel(6, 300));
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 2);
	json_array_foreach (json_object_get(j, "diagnoses"), k, v)
		assert_int_equal(
		    is_said(v, "rank 1 only waits for it"),
		    json_integer_value(json_array_get(json_object_get(v, "ranks"), 0)) == 6);
	json_decref(j);
}

/* Each of 14 ranks that wait lost more than the late one. */
static void of_many_who_wait_on_the_cpu_none_is_slow(void **unused)
{
	struct incident_change c;
	json_t *j;

	world = 32;
	for (int rank = 8; rank < 22; rank++)
		at_socket(rank, WINDOW_SELF, 24, 0);
	c = slow_kernel(6, 20);
	j = incident_set_json(set, c.id, world, NULL);
	assert_string_equal(ranks_of(j), "6");
	assert_string_equal(cause_of(j), "gpu-kernel");
	json_decref(j);
}

/* One all-reduce of all ranks in each step, at the end of it. */
static void collectives(struct made *m, double takes_ms)
{
	uint32_t step = 0;

	for (uint32_t i = 0; i < m->w.device_count; i++) {
		struct record *r = &m->device[i];

		if (r->kind != RECORD_COLL_KERNEL)
			continue;
		r->key = 77;
		r->func = RECORD_COLL_ALL_REDUCE;
		r->seq = step;
		r->end_ns = m->steps[step++].step.end_ns;
		r->begin_ns = r->end_ns - (uint64_t)(takes_ms * 1e6);
	}
}

static struct incident_change in_step(int rank, uint32_t reason, double slow_ms, double takes_ms)
{
	static struct made m;

	make(&m, rank, reason, 1, slow_ms);
	m.w.rank.world_size = 3;
	collectives(&m, takes_ms);
	return send(&m);
}

static double ledger_ms(const json_t *incident, const char *what)
{
	const json_t *d = json_object_get(incident, "diagnosis"), *row;
	size_t k;

	json_array_foreach (json_object_get(json_object_get(d, "ledger"), "rows"), k, row)
		if (!strcmp(text_of(row, "account"), "collective") &&
		    !strcmp(text_of(row, "what"), what))
			return json_number_value(json_object_get(row, "slow_ms"));
	return 0;
}

static void collectives_are_divided_once_all_ranks_are_known(void **unused)
{
	json_t *j;

	in_step(5, WINDOW_SELF, 20, 25);
	in_step(4, WINDOW_ASKED, 20, 45);
	j = incident_set_json(set, in_step(5, WINDOW_SELF, 20, 25).id, 3, NULL);
	assert_non_null(j);
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "5");
	assert_float_equal(ledger_ms(j, ""), 25, 0.01);
	assert_float_equal(ledger_ms(j, "transfer"), 0, 0.01);
	json_decref(j);
	in_step(6, WINDOW_ASKED, 20, 35);
	j = incident_set_json(set, in_step(5, WINDOW_SELF, 20, 25).id, 3, NULL);
	assert_float_equal(ledger_ms(j, ""), 0, 0.01);
	assert_float_equal(ledger_ms(j, "transfer"), 25, 0.01);
	json_decref(j);
}

static void who_waits_for_the_last_rank_has_no_slow_transfers(void **unused)
{
	json_t *j;

	in_step(4, WINDOW_SELF, 20, 45);
	in_step(5, WINDOW_ASKED, 20, 25);
	in_step(6, WINDOW_ASKED, 20, 35);
	j = incident_set_json(set, in_step(4, WINDOW_SELF, 20, 45).id, 3, NULL);
	assert_non_null(j);
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "4");
	assert_float_equal(ledger_ms(j, "last-rank"), 20, 0.01);
	assert_float_equal(ledger_ms(j, "transfer"), 25, 0.01);
	json_decref(j);
}

/* Rank 6 launches a kernel more in its slow steps: its work explains them, so it reports nothing. */
static struct incident_change more_work(int rank, double slow_ms)
{
	static struct made m;

	make(&m, rank, WINDOW_ASKED, 1, slow_ms);
	m.w.rank.world_size = 3;
	collectives(&m, 10);
	for (uint32_t i = HEALTHY; i < STEPS; i++) {
		struct step *s = &m.steps[i].step;
		struct record *r = &m.device[m.w.device_count++];

		*r = m.device[3 * i + 1];
		r->begin_ns = s->begin_ns + 55 * MS;
		r->end_ns = r->begin_ns + (uint64_t)(slow_ms * 1e6);
		s->compute_ns += (uint64_t)(slow_ms * 1e6);
		s->idle_ns -= (uint64_t)(slow_ms * 1e6);
		m.steps[i].expected_ns = (double)s->latency_ns;
		m.steps[i].expected_self_ns = (double)s->self_ns;
		s->kernels++;
	}
	return send(&m);
}

static void the_rank_that_the_others_waited_for_is_to_blame(void **unused)
{
	json_t *j;

	in_step(4, WINDOW_COMM, 40, 50);
	j = incident_set_json(set, in_step(5, WINDOW_COMM, 40, 50).id, 3, NULL);
	assert_non_null(j);
	assert_string_equal(ranks_of(j), "");
	json_decref(j);
	j = incident_set_json(set, more_work(6, 40).id, 3, NULL);
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j), "6");
	assert_true(json_number_value(json_object_get(j, "lost_ms")) >= (STEPS - HEALTHY) * 40);
	json_decref(j);
}

/* Some steps of ranks 6 and 7 have more work, whichever. Each of them waits for the other. */
static struct incident_change in_turn(int rank, uint32_t reason)
{
	static struct made m;
	uint32_t at = 0;

	make(&m, rank, reason, 1, 40);
	m.w.rank.world_size = 4;
	collectives(&m, 50);
	for (uint32_t i = 0; i < m.w.device_count; i++) {
		struct record *r = &m.device[i];
		bool works = rank >= 6 && at >= HEALTHY && at % 4 != (uint32_t)rank - 6;

		if (r->kind != RECORD_COLL_KERNEL)
			continue;
		if (works || at < HEALTHY)
			r->begin_ns = r->end_ns - 10 * MS;
		at++;
	}
	for (uint32_t i = HEALTHY; i < STEPS && rank >= 6; i++) {
		struct window_step *s = &m.steps[i];

		if (i % 4 == (uint32_t)rank - 6)
			continue;
		m.device[m.w.device_count] = m.device[3 * i + 1];
		m.device[m.w.device_count].begin_ns = s->step.begin_ns + 55 * MS;
		m.device[m.w.device_count++].end_ns = s->step.begin_ns + 65 * MS;
		s->step.compute_ns += 10 * MS;
		s->step.kernels++;
		s->expected_ns = (double)s->step.latency_ns;
		s->expected_self_ns = (double)s->step.self_ns;
		s->flags = WINDOW_STEP_MARGIN;
	}
	return send(&m);
}

static void ranks_that_others_wait_for_in_turn_are_all_to_blame(void **unused)
{
	json_t *j;

	in_turn(4, WINDOW_COMM);
	in_turn(5, WINDOW_COMM);
	in_turn(6, WINDOW_ASKED);
	in_turn(4, WINDOW_ASKED);
	j = incident_set_json(set, in_turn(7, WINDOW_ASKED).id, 4, NULL);
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j), "6,7");
	json_decref(j);
}

/* A rank of a grid: each step has a collective of its row, and then one of its column. */
struct of_grid {
	int rank;
	uint32_t reason;
	uint64_t row; /* the communicator; 0: what it does there has no record of a collective */
	double row_ms;
	uint64_t column;
	double column_ms;
};

/* Slow steps take 40 ms longer; the work of a rank that was asked explains them. */
static struct incident_change in_grid(struct of_grid g)
{
	static struct made m;
	uint32_t count, step = 0;

	make(&m, g.rank, g.reason, 1, 40);
	m.w.rank.world_size = 4;
	collectives(&m, 10);
	count = m.w.device_count;
	for (uint32_t i = 0; i < count; i++) {
		struct record *r = &m.device[i], *first = &m.device[m.w.device_count];
		bool healthy = step < HEALTHY;

		if (r->kind != RECORD_COLL_KERNEL)
			continue;
		r->key = g.column;
		r->begin_ns = r->end_ns - (uint64_t)((healthy ? 5 : g.column_ms) * MS);
		*first = *r;
		first->key = g.row;
		first->end_ns -= 46 * MS;
		first->begin_ns = first->end_ns - (uint64_t)((healthy ? 5 : g.row_ms) * MS);
		m.w.device_count++;
		step++;
	}
	for (uint32_t i = HEALTHY; i < STEPS && g.reason == WINDOW_ASKED; i++) {
		m.steps[i].expected_ns = (double)m.steps[i].step.latency_ns;
		m.steps[i].expected_self_ns = (double)m.steps[i].step.self_ns;
	}
	return send(&m);
}

/* Rank 7 is late. Rank 6 waits for it in its row, and rank 4 for rank 6 in its column. */
static void who_passes_waiting_on_is_not_to_blame(void **unused)
{
	json_t *j;

	in_grid((struct of_grid){4, WINDOW_COMM, 11, 5, 21, 45});
	in_grid((struct of_grid){5, WINDOW_COMM, 11, 5, 22, 45});
	in_grid((struct of_grid){6, WINDOW_COMM, 12, 45, 21, 5});
	j = incident_set_json(set, in_grid((struct of_grid){7, WINDOW_ASKED, 12, 5, 22, 5}).id, 4,
			      NULL);
	assert_string_equal(ranks_of(j), "7");
	json_decref(j);
}

/* The same without a window of rank 7: in a row, or in a receive. */
static void nor_is_who_waits_for_a_rank_without_a_window(void **unused)
{
	for (uint64_t row = 0; row < 24; row += 12) {
		json_t *j;

		teardown(NULL);
		setup(NULL);
		in_grid((struct of_grid){4, WINDOW_COMM, row ? 11 : 0, 5, 21, 45});
		in_grid((struct of_grid){5, WINDOW_COMM, row ? 13 : 0, 5, 21, 45});
		in_grid((struct of_grid){6, WINDOW_COMM, row, 45, 21, 5});
		j = incident_set_json(
		    set, in_grid((struct of_grid){4, WINDOW_ASKED, row ? 11 : 0, 5, 21, 45}).id, 4,
		    NULL);
		assert_string_equal(ranks_of(j), "");
		json_decref(j);
	}
}

static double excess_ms(const json_t *incident, const char *name)
{
	const json_t *d = json_object_get(incident, "diagnosis"), *row;
	size_t k;

	json_array_foreach (json_object_get(json_object_get(d, "ledger"), "rows"), k, row)
		if (!strcmp(text_of(row, "name"), name))
			return json_number_value(json_object_get(row, "excess_ms"));
	return 0;
}

/* A requested window, whose first steps are evaluation: without gemm, and with more_ms more of norm. They
 * launch less, and are no parts of steps. */
static struct incident_change with_evaluation(int rank, uint32_t evaluation, double more_ms,
					      double takes_ms)
{
	static struct made m;

	make(&m, rank, WINDOW_ASKED, 1, 0);
	m.w.rank.world_size = 3;
	collectives(&m, takes_ms);
	for (uint32_t i = HEALTHY; i < STEPS && takes_ms > 10; i++) {
		m.steps[i].expected_ns -= (takes_ms - 10) * MS;
		m.steps[i].flags = WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
	}
	for (uint32_t i = 0; i < evaluation; i++) {
		struct record *norm = &m.device[3 * i + 1];

		m.steps[i].step.phase = 1;
		m.steps[i].step.kernels = 2;
		m.device[3 * i].end_ns = m.device[3 * i].begin_ns + 1;
		norm->end_ns += (uint64_t)(more_ms * 1e6);
	}
	return send(&m);
}

/* Rank 6 evaluates more. Requested windows hold other numbers of steps of evaluation. */
static void a_rank_that_others_waited_for_is_compared_phase_by_phase(void **unused)
{
	json_t *j;

	in_step(4, WINDOW_COMM, 40, 50);
	in_step(5, WINDOW_COMM, 40, 50);
	with_evaluation(6, 10, 16, 10);
	with_evaluation(4, 4, 0, 50);
	with_evaluation(5, 4, 0, 50);
	j = incident_set_json(set, with_evaluation(6, 10, 16, 10).id, 3, NULL);
	assert_string_equal(ranks_of(j), "6");
	assert_float_equal(excess_ms(j, "gemm"), 0, 0.1);
	assert_float_equal(excess_ms(j, "norm"), 8, 0.1);
	json_decref(j);
}

/* The others waited 40 ms per step for rank 6, whose window shows some interrupts. */
static void what_others_waited_is_what_the_verdict_has_to_explain(void **unused)
{
	static struct made m;
	json_t *j;

	in_step(4, WINDOW_COMM, 40, 50);
	in_step(5, WINDOW_COMM, 40, 50);
	make(&m, 6, WINDOW_ASKED, 1, 4);
	m.w.rank.world_size = 3;
	collectives(&m, 10);
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 20);
	j = incident_set_json(set, send(&m).id, 3, NULL);
	assert_string_equal(ranks_of(j), "6");
	assert_string_equal(cause_of(j), "unknown");
	json_decref(j);
}

/* Rank 7 waits as well, and has a slow kernel now and then. */
static void what_costs_little_beside_what_others_waited_is_no_second_fault(void **unused)
{
	static struct made m;
	json_t *j;

	for (int n = 0; n < 20; n++)
		for (int rank = 4; rank < 8; rank++) {
			bool slow = rank == 7 && n % 2;

			if (rank == 6)
				continue;
			make(&m, rank, slow ? WINDOW_SELF : WINDOW_COMM, 1 + 3 * n, slow ? 7 : 40);
			m.w.rank.world_size = 4;
			collectives(&m, slow ? 17 : 50);
			if (slow)
				slow_gemm(&m, 1 + 7.0 / 40);
			send(&m);
		}
	make(&m, 6, WINDOW_ASKED, 58, 40);
	m.w.rank.world_size = 4;
	collectives(&m, 10);
	j = incident_set_json(set, send(&m).id, 4, NULL);
	assert_non_null(j);
	assert_string_equal(ranks_of(j), "6");
	json_decref(j);
}

static void a_rank_that_was_asked_and_not_waited_for_is_not_to_blame(void **unused)
{
	json_t *j;

	in_step(4, WINDOW_COMM, 40, 50);
	in_step(5, WINDOW_COMM, 40, 50);
	/* transfers are slow */
	j = incident_set_json(set, in_step(6, WINDOW_ASKED, 40, 49).id, 3, NULL);
	assert_non_null(j);
	assert_string_equal(ranks_of(j), "");
	json_decref(j);
}

static void the_cause_of_most_of_what_was_lost_is_reported(void **unused)
{
	struct incident_change c;
	static struct made m;
	json_t *j;

	healthy_peers();
	for (int n = 0; n < 12; n++) {
		make(&m, 5, WINDOW_SELF, 4 + 2.5 * n, n == 0 ? 90 : 20);
		if (n == 0)
			signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1",
				   900);
		else
			slow_gemm(&m, 1.5);
		c = send(&m);
		if (n != 0 && n != 11)
			continue;
		j = json_of(c);
		assert_string_equal(cause_of(j), n ? "gpu-kernel" : "os-softirq");
		json_decref(j);
	}
}

static void names_no_cause_where_none_shows(void **unused)
{
	json_t *j;

	window(5, WINDOW_SELF, 20);
	healthy_peers();
	j = json_of(window(5, WINDOW_SELF, 20));
	assert_string_equal(cause_of(j), "cpu-host-gap");
	json_decref(j);
}

static void two_faults_at_once_have_a_verdict_each(void **unused)
{
	json_t *j, *list;

	softirq(5, 20);
	healthy_peers();
	j = json_of(slow_kernel(6, 20));
	list = json_object_get(j, "diagnoses");
	assert_int_equal(json_array_size(list), 2);
	for (size_t k = 0; k < 2; k++) {
		const json_t *d = json_array_get(list, k);
		bool net = !strcmp(ranks_of(d), "5");

		assert_string_equal(ranks_of(d), net ? "5" : "6");
		assert_string_equal(text_of(d, "cause"), net ? "os-softirq" : "gpu-kernel");
	}
	assert_string_not_equal(text_of(json_array_get(list, 0), "cause"),
				text_of(json_array_get(list, 1), "cause"));
	assert_int_equal(strlen(ranks_of(j)), 3);
	json_decref(j);
}

/* Little is known of the second fault, but enough that it is not the first. */
static void a_rank_with_another_cause_is_not_named_for_the_first(void **unused)
{
	static struct made m;
	json_t *j, *list;

	make(&m, 5, WINDOW_SELF, 1, 20);
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 40);
	send(&m);
	healthy_peers();
	j = json_of(slow_kernel(6, 40));
	list = json_object_get(j, "diagnoses");
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(ranks_of(json_array_get(list, 0)), "6");
	assert_string_equal(text_of(json_array_get(list, 0), "cause"), "gpu-kernel");
	assert_string_equal(ranks_of(json_array_get(list, 1)), "5");
	assert_string_equal(text_of(json_array_get(list, 1), "cause"), "os-softirq");
	assert_true(json_number_value(json_object_get(json_array_get(list, 1), "confidence")) <
		    thresholds.sure.separate);
	json_decref(j);
}

static void what_a_finding_says_of_a_rank_is_reported_with_that_ranks_fault(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5);
	json_t *j, *list;

	f.finding.ranks[f.finding.rank_count++] = 6;
	finding_say_of(&f.finding, 5, LAYER_UNKNOWN, 5e6, "the one: seen from afar");
	finding_say_of(&f.finding, 6, LAYER_UNKNOWN, 5e6, "the other: seen from afar");
	softirq(5, 20);
	healthy_peers();
	slow_kernel(6, 20);
	j = json_of(report(f));
	list = json_object_get(j, "diagnoses");
	assert_int_equal(json_array_size(list), 2);
	for (size_t k = 0; k < 2; k++) {
		const json_t *d = json_array_get(list, k);
		bool is_5 = !strcmp(ranks_of(d), "5");

		assert_int_equal(is_said(d, "the one: seen"), is_5);
		assert_int_equal(is_said(d, "the other: seen"), !is_5);
	}
	json_decref(j);
}

/* Of a job of that many ranks; kernel: slower by its gemm, else by soft interrupts. */
static struct incident_change of_small(int32_t ranks, int rank, bool kernel)
{
	static struct made m;

	make(&m, rank, WINDOW_SELF, 1, 60);
	m.w.rank.world_size = ranks;
	if (kernel)
		slow_gemm(&m, 2.4);
	else
		signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 600);
	return send(&m);
}

static struct incident_change waits_in_small(int32_t ranks, int rank)
{
	static struct made m;

	make(&m, rank, WINDOW_COMM, 1, 60);
	m.w.rank.world_size = ranks;
	return send(&m);
}

static json_t *small_json(struct incident_change c, uint32_t ranks, const char *symptom,
			  const char *kind, size_t diagnoses)
{
	json_t *j = incident_set_json(set, c.id, ranks, NULL);

	assert_non_null(j);
	assert_string_equal(text_of(j, "symptom"), symptom);
	assert_string_equal(text_of(j, "kind"), kind);
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), diagnoses);
	return j;
}

/* Once beside one that waits, once on all there are. */
static void faults_of_most_of_a_small_job_have_a_verdict_each(void **unused)
{
	for (int32_t ranks = 3; ranks >= 2; ranks--) {
		json_t *j, *list;

		teardown(NULL);
		setup(NULL);
		if (ranks == 3)
			waits_in_small(ranks, 2);
		of_small(ranks, 0, false);
		j = small_json(of_small(ranks, 1, true), (uint32_t)ranks, "slow_rank", "slow_rank",
			       2);
		list = json_object_get(j, "diagnoses");
		assert_string_equal(ranks_of(j), "0,1");
		assert_int_equal(json_array_size(json_object_get(j, "victims")), ranks == 3);
		for (size_t k = 0; k < 2; k++) {
			const json_t *d = json_array_get(list, k);
			bool net = !strcmp(ranks_of(d), "0");

			assert_string_equal(ranks_of(d), net ? "0" : "1");
			assert_string_equal(text_of(d, "cause"), net ? "os-softirq" : "gpu-kernel");
			assert_false(is_said(d, "every rank"));
		}
		assert_string_not_equal(text_of(json_array_get(list, 0), "cause"),
					text_of(json_array_get(list, 1), "cause"));
		json_decref(j);
	}
}

/* Two of three of one cause, the third waits, or was heard of not at all, or is slow too. */
static void every_rank_is_said_only_of_all(void **unused)
{
	json_t *j, *d;

	of_small(3, 0, false);
	j = small_json(of_small(3, 1, false), 3, "slow_job", "uniform", 1);
	d = json_object_get(j, "diagnosis");
	assert_string_equal(cause_of(j), "os-softirq");
	assert_string_equal(ranks_of(d), "0,1");
	assert_non_null(
	    strstr(text_of(d, "summary"), "ranks 0 and 1 are slower than before because"));
	json_decref(j);

	j = small_json(waits_in_small(3, 2), 3, "slow_rank", "slow_rank", 1);
	d = json_object_get(j, "diagnosis");
	assert_string_equal(cause_of(j), "os-softirq");
	assert_string_equal(ranks_of(d), "0,1");
	assert_non_null(strstr(text_of(d, "summary"), "ranks 0 and 1 are slow because"));
	json_decref(j);

	j = small_json(of_small(3, 2, false), 3, "slow_job", "uniform", 1);
	d = json_object_get(j, "diagnosis");
	assert_string_equal(cause_of(j), "os-softirq");
	assert_string_equal(ranks_of(d), "");
	assert_non_null(strstr(text_of(d, "summary"), "every rank is slower than before because"));
	json_decref(j);
}

/* In each of eight ranks. slow_s: the time of the slow steps; healthy ones of their window do not
 * make a day of it cheaper. */
static void costs(const json_t *d, double lost_s, double slow_s)
{
	assert_float_equal(json_number_value(json_object_get(d, "gpu_hours_lost")),
			   lost_s * 8 / 3600, 1e-9);
	assert_float_equal(json_number_value(json_object_get(d, "gpu_hours_per_day")),
			   lost_s / slow_s * 8 * 24, 1e-6);
}

static void a_second_fault_that_costs_less_is_reported_too(void **unused)
{
	json_t *j;

	softirq(5, 40);
	healthy_peers();
	j = json_of(slow_kernel(6, 14)); /* loses a third of the other's */
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "5");
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 2);
	assert_string_equal(ranks_of(json_array_get(json_object_get(j, "diagnoses"), 1)), "6");
	costs(json_array_get(json_object_get(j, "diagnoses"), 1), 14 * 0.014, 14 * 0.114);
	assert_string_equal(ranks_of(j), "5,6");
	json_decref(j);
}

/* Four of the seven other ranks: the machine does that, and rank 6 is no worse than they are. */
static void what_most_other_ranks_lose_too_is_no_second_fault(void **unused)
{
	json_t *j;

	softirq(5, 40);
	healthy_peers();
	slow_kernel(0, 8);
	slow_kernel(1, 8);
	slow_kernel(2, 8);
	j = json_of(slow_kernel(6, 14));
	assert_string_equal(cause_of(j), "os-softirq");
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	assert_string_equal(ranks_of(j), "5");
	json_decref(j);
}

/* All other ranks lose more than half as much, and so are culprits at first. known: why rank 5 is slow. */
static void what_all_other_ranks_lose_too_leaves_one_culprit(void **unused)
{
	struct incident_change c;
	json_t *j;

	for (int known = 0; known < 2; known++) {
		teardown(NULL);
		setup(NULL);
		if (known)
			slow_kernel(5, 40);
		else
			window(5, WINDOW_SELF, 40);
		for (int rank = 0; rank < 8; rank++)
			if (rank != 5)
				c = softirq(rank, 24);
		j = json_of(c);
		assert_string_equal(text_of(j, "symptom"), "slow_rank");
		assert_string_equal(ranks_of(j), "5");
		assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
		json_decref(j);
	}
}

/* Rank 5 is a little worse, and has a cause of its own. */
static void what_all_ranks_lose_as_much_is_the_job_s(void **unused)
{
	struct incident_change c = slow_kernel(5, 40);
	json_t *j;

	for (int rank = 0; rank < 8; rank++)
		if (rank != 5)
			c = softirq(rank, 36);
	j = json_of(c);
	assert_string_equal(text_of(j, "symptom"), "slow_job");
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "");
	json_decref(j);
}

/* Three ranks wait less for each other than all wait for rank 5, though they lost more in sum. */
static void the_fault_of_the_worst_rank_comes_before_that_of_more_ranks(void **unused)
{
	json_t *j;

	softirq(5, 40);
	healthy_peers();
	slow_kernel(4, 24);
	slow_kernel(6, 24);
	j = json_of(slow_kernel(7, 24));
	assert_string_equal(ranks_of(json_object_get(j, "diagnosis")), "5");
	assert_string_equal(cause_of(j), "os-softirq");
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 2);
	json_decref(j);
}

static double gemm_when_healthy_ms(const json_t *j)
{
	const json_t *d = json_object_get(j, "diagnosis"),
		     *rows = json_object_get(json_object_get(d, "ledger"), "rows");
	size_t k;
	json_t *r;

	json_array_foreach (rows, k, r)
		if (strstr(text_of(r, "name"), "gemm"))
			return json_number_value(json_object_get(r, "reference_ms"));
	return -1;
}

/* In the second window the healthy steps have a twelfth of the fault. */
static void healthy_steps_from_before_the_fault_are_the_reference(void **unused)
{
	static struct made m;
	json_t *j;

	healthy_peers();
	make(&m, 5, WINDOW_SELF, 1, 20);
	slow_gemm(&m, 1.5);
	send(&m);
	make(&m, 5, WINDOW_SELF, 4, 24);
	slow_gemm(&m, 1.6);
	for (uint32_t i = 0; i < 3 * HEALTHY; i += 3)
		m.device[i].end_ns += 2 * MS;
	j = json_of(send(&m));
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_float_equal(gemm_when_healthy_ms(j), 40, 0.01);
	json_decref(j);
}

/* Its healthy steps are of phase 1, and last 30 ms, 1 ms of it gemm. */
static void evaluate(struct made *m)
{
	for (uint32_t i = 0; i < HEALTHY; i++) {
		struct window_step *s = &m->steps[i];

		s->step.phase = 1;
		s->step.begin_ns += 70 * MS;
		s->step.latency_ns = s->expected_ns = 30 * MS;
		s->step.self_ns = s->expected_self_ns = 20 * MS;
		s->step.compute_ns = 11 * MS;
		s->step.idle_ns = 9 * MS;
		m->host[i].begin_ns += 70 * MS;
		m->host[i].end_ns += 70 * MS;
		for (uint32_t k = 3 * i; k < 3 * i + 3; k++) {
			m->device[k].launch_ns += 70 * MS;
			m->device[k].begin_ns += 70 * MS;
			m->device[k].end_ns += 70 * MS;
		}
		m->device[3 * i].end_ns = m->device[3 * i].begin_ns + 1 * MS;
	}
}

/* A slow step lost 20 ms, and lasts 90 ms longer than a step of evaluation before the fault. */
static void steps_of_another_phase_are_no_reference(void **unused)
{
	static struct made m;
	json_t *j;

	healthy_peers();
	make(&m, 5, WINDOW_SELF, 1, 20);
	slow_gemm(&m, 1.5);
	evaluate(&m);
	send(&m);
	make(&m, 5, WINDOW_SELF, 4, 20);
	slow_gemm(&m, 1.5);
	j = json_of(send(&m));
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_float_equal(gemm_when_healthy_ms(j), 40, 0.01);
	json_decref(j);
}

/* Two healthy steps of the phase are too few. */
static void steps_of_another_phase_are_better_than_none(void **unused)
{
	static struct made m;
	json_t *j;

	(void)unused;
	make(&m, 5, WINDOW_SELF, 1, 20);
	evaluate(&m);
	send(&m);
	make(&m, 5, WINDOW_SELF, 4, 20);
	for (uint32_t i = 2; i < HEALTHY; i++)
		m.steps[i].flags = WINDOW_STEP_OUT;
	j = json_of(send(&m));
	assert_int_equal(jsonget_number(json_object_get(json_object_get(j, "diagnosis"), "ledger"),
					"reference_steps"),
			 HEALTHY);
	json_decref(j);
}

/* All its steps last 120 ms and are of phase 1, in which its model expects that of the first ones. */
static void slow_phase(struct made *m)
{
	uint64_t t = m->w.begin_ns;

	slow_gemm(m, 1.5);
	for (uint32_t i = 0; i < STEPS; i++, t += 120 * MS) {
		struct step *s = &m->steps[i].step;
		uint64_t later = t - s->begin_ns;

		s->phase = 1;
		s->begin_ns = t;
		s->end_ns = t + 120 * MS;
		s->latency_ns = 120 * MS;
		s->self_ns = 110 * MS;
		s->compute_ns = 70 * MS;
		m->steps[i].expected_ns = (i < HEALTHY ? 120 : 100) * MS;
		for (uint32_t k = 3 * i; k < 3 * i + 3; k++) {
			m->device[k].launch_ns += later;
			m->device[k].begin_ns += later;
			m->device[k].end_ns += later;
		}
		m->device[3 * i].end_ns += (i < HEALTHY ? 20 : 0) * MS;
		m->host[i].begin_ns += later;
		m->host[i].end_ns += later;
	}
	m->w.end_ns = t;
}

/* Other kernels make a phase of their own, which its usual steps do not explain. */
static void a_phase_of_one_rank_alone_is_compared_with_other_phases(void **unused)
{
	static struct made m;
	json_t *j;

	make(&m, 5, WINDOW_SELF, 1, 20);
	slow_phase(&m);
	send(&m);
	healthy_peers();
	make(&m, 5, WINDOW_SELF, 4, 20);
	slow_phase(&m);
	j = json_of(send(&m));
	assert_string_equal(cause_of(j), "gpu-kernel");
	assert_float_equal(gemm_when_healthy_ms(j), 40, 0.01);
	json_decref(j);
}

/* Its rank lost less than a fifth of what was lost in all. */
static void what_costs_little_beside_a_fault_is_none(void **unused)
{
	json_t *j;

	softirq(5, 40);
	softirq(5, 40);
	healthy_peers();
	j = json_of(slow_kernel(6, 7));
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	assert_string_equal(ranks_of(j), "5");
	json_decref(j);
}

/* The same where its peers show that it is slow: that alone would make it a culprit. */
static void who_lost_little_beside_a_fault_is_not_accused(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 6);
	json_t *j;

	softirq(5, 40);
	softirq(5, 40);
	healthy_peers();
	slow_kernel(6, 7);
	f.finding.evidence[0].effect_ns = f.finding.effect_ns = 2e6;
	j = json_of(report(f));
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	assert_string_equal(cause_of(j), "os-softirq");
	assert_string_equal(ranks_of(j), "5");
	json_decref(j);
}

/* A finding names two ranks; what the second lost decides whether it counts beside the first. */
static json_t *found_both(double second_ms)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5);

	f.finding.ranks[f.finding.rank_count++] = 6;
	f.finding.effect_ns = 90e6;
	finding_say_of(&f.finding, 5, LAYER_UNKNOWN, 90e6, "rank 5: self time");
	finding_say_of(&f.finding, 6, LAYER_UNKNOWN, second_ms * 1e6, "rank 6: self time");
	softirq(5, 90);
	healthy_peers();
	slow_kernel(6, second_ms);
	return json_of(report(f));
}

static void each_rank_lost_what_the_finding_says_of_it(void **unused)
{
	json_t *j = found_both(12), *both = json_object_get(j, "diagnoses");

	assert_int_equal(json_array_size(both), 2);
	assert_string_equal(text_of(json_array_get(both, 0), "cause"), "os-softirq");
	assert_string_equal(text_of(json_array_get(both, 1), "cause"), "gpu-kernel");
	json_decref(j);
}

/* Its node compared the same steps: rank 5 did not lose twice as much, beside which rank 6 is little. */
static void what_node_and_finding_say_of_a_rank_is_one_loss(void **unused)
{
	json_t *j;

	window(5, WINDOW_PEER, 90);
	j = found_both(12);
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 2);
	json_decref(j);
}

static void a_finding_does_not_give_the_loss_of_one_rank_to_another(void **unused)
{
	json_t *j = found_both(4);

	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	assert_string_equal(ranks_of(j), "5");
	json_decref(j);
}

static bool is_signal_of(const json_t *j, int rank, const char *name)
{
	size_t k;
	json_t *v;

	json_array_foreach (json_object_get(j, "signals"), k, v)
		if (json_integer_value(json_object_get(v, "rank")) == rank &&
		    !strcmp(text_of(v, "name"), name))
			return true;
	return false;
}

/* On another node, of which nothing but a summary came. */
static void the_second_of_two_faults_has_its_node_and_signals(void **unused)
{
	static struct made m;
	json_t *j, *nodes;

	slow_kernel(1, 40);
	for (int r = 0; r < 4; r++)
		if (r != 1)
			window(r, WINDOW_ASKED, 0);
	make(&m, 6, WINDOW_SELF, 1, 14);
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 140);
	m.w.summary_only = true;
	j = json_of(send(&m));
	assert_string_equal(ranks_of(j), "1,6");
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 2);
	nodes = json_object_get(j, "nodes");
	assert_int_equal(json_array_size(nodes), 2);
	assert_string_equal(json_string_value(json_array_get(nodes, 0)), "node-0");
	assert_string_equal(json_string_value(json_array_get(nodes, 1)), "node-1");
	assert_true(is_signal_of(j, 1, "run_wait"));
	assert_true(is_signal_of(j, 6, "softirq_stolen"));
	assert_false(is_signal_of(j, 2, "run_wait"));
	assert_true(is_said(json_object_get(j, "missing"), "rank 6: summaries only, no events"));
	json_decref(j);
}

/* Three slow steps of another rank: they cost a tenth of what the fault did, and show a cause. */
static void a_moment_is_no_second_fault(void **unused)
{
	static struct made m;
	json_t *j;

	for (int n = 0; n < 4; n++) {
		make(&m, 5, WINDOW_SELF, 1 + 2.5 * n, 20);
		signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 200);
		send(&m);
	}
	healthy_peers();
	make(&m, 6, WINDOW_SELF, 3, 80);
	slow_gemm(&m, 3);
	for (uint32_t i = HEALTHY + 3; i < STEPS; i++)
		m.steps[i].flags = WINDOW_STEP_MARGIN;
	j = json_of(send(&m));
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	assert_string_equal(ranks_of(j), "5");
	json_decref(j);
}

/* The host lets every peer down once: what they are then is nothing to hold a suspect against. */
static void moments_of_its_peers_hide_no_fault(void **unused)
{
	static struct made m;
	json_t *j;

	for (int n = 0; n < 4; n++) {
		make(&m, 5, WINDOW_SELF, 1 + 2.5 * n, 20);
		slow_gemm(&m, 1.5);
		m.w.steps += HEALTHY; /* it was never better */
		m.w.step_count -= HEALTHY;
		send(&m);
	}
	healthy_peers();
	for (int r = 0; r < 4; r++) {
		make(&m, r, WINDOW_SELF, 3 + r, 80);
		slow_gemm(&m, 3);
		for (uint32_t i = HEALTHY + 3; i < STEPS; i++)
			m.steps[i].flags = WINDOW_STEP_MARGIN;
		j = json_of(send(&m));
		assert_string_equal(ranks_of(j), "5");
		assert_string_equal(cause_of(j), "gpu-kernel");
		json_decref(j);
	}
}

/* Their healthy steps say how much healthy ranks differ. */
static void moments_of_its_peers_are_not_their_noise(void **unused)
{
	static struct made m;
	json_t *j;

	for (int n = 0; n < 4; n++) {
		make(&m, 5, WINDOW_SELF, 8 + 5 * n, 20);
		m.w.steps += HEALTHY; /* it was never better */
		m.w.step_count -= HEALTHY;
		send(&m);
		make(&m, 0, WINDOW_COMM, 8 + 5 * n, 20);
		send(&m);
	}
	for (int r = 6; r < 8; r++) {
		make(&m, r, WINDOW_SELF, r, 80);
		for (uint32_t i = HEALTHY + 3; i < STEPS; i++)
			m.steps[i].flags = WINDOW_STEP_MARGIN;
		j = json_of(send(&m));
		assert_string_equal(ranks_of(j), "5");
		assert_string_equal(cause_of(j), "cpu-host-gap");
		assert_true(
		    jsonget_number(json_object_get(json_object_get(j, "diagnosis"), "ledger"),
				   "excess_ms") > 3);
		json_decref(j);
	}
}

static void an_echo_without_a_cause_of_its_own_is_not_accused(void **unused)
{
	json_t *j;

	softirq(5, 40);
	softirq(5, 40);
	healthy_peers();
	j = json_of(window(6, WINDOW_SELF, 14));
	assert_string_equal(ranks_of(j), "5");
	assert_int_equal(json_array_size(json_object_get(j, "diagnoses")), 1);
	json_decref(j);
}

/* 14 slow steps, each 20 ms too long, of eight ranks: 2.24 s of GPU time. */
static void counts_what_it_costs(void **unused)
{
	json_t *j = json_of(softirq(5, 20));

	assert_float_equal(json_number_value(json_object_get(j, "gpu_hours_lost")),
			   14 * 0.020 * 8 / 3600, 1e-9);
	assert_float_equal(
	    json_number_value(json_object_get(json_object_get(j, "diagnosis"), "gpu_hours_lost")),
	    14 * 0.020 * 8 / 3600, 1e-9);
	json_decref(j);
}

static void has_a_life(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES];
	struct incident_change c = softirq(5, 20);
	static struct made m;
	json_t *j = json_of(c);

	assert_string_equal(text_of(j, "life"), "open");
	assert_string_equal(text_of(j, "state"), "open");
	json_decref(j);
	make(&m, 5, WINDOW_SELF, 7, 20);
	c = send(&m);
	assert_false(c.opened);
	j = json_of(c);
	assert_string_equal(text_of(j, "life"), "ongoing");
	json_decref(j);
	assert_int_equal(incident_set_tick(set, T0 + 60 * S, closed, 4), 1);
	j = json_of(c);
	assert_string_equal(text_of(j, "life"), "cleared");
	assert_string_equal(text_of(j, "state"), "closed");
	assert_true(json_number_value(json_object_get(j, "duration_s")) > 6);
	json_decref(j);
}

/* ---- sketches ---- */

/* Rank 5 has another version; everybody spends 40 ms of 60 in "step". */
static int fake_sketch(void *arg, const char *job, int32_t rank, struct sketch *out)
{
	assert_string_equal(job, "job");
	memset(out, 0, sizeof(*out));
	*(uint32_t *)arg |= 1u << rank;
	out->rank.rank = rank;
	out->steps = 500;
	out->latency_ns = 100e6;
	out->self_ns = 90e6;
	out->compute_ns = 50e6;
	out->idle_ns = 40e6;
	out->exposed_comm_ns = 10e6;
	out->cpu_ns = 60e6;
	out->samples = 1000;
	out->settings = calloc(1, sizeof(*out->settings));
	out->settings[0] =
	    (struct sketch_setting){strdup("torch"), strdup(rank == 5 ? "2.4" : "2.6")};
	out->setting_count = 1;
	out->functions = calloc(1, sizeof(*out->functions));
	out->functions[0] = (struct sketch_function){
	    .name = strdup("step"), .kind = FUNCTION_PYTHON, .total_share = 40.0 / 60};
	out->function_count = 1;
	return 0;
}

static uint32_t fake_peers(void *arg, const char *job, int32_t rank, int32_t *ranks, uint32_t max)
{
	assert_true(max >= 3);
	for (int32_t k = 0; k < 3; k++)
		ranks[k] = k;
	return 3;
}

static void sketches_replace_peers_that_sent_nothing_and_have_settings(void **unused)
{
	static struct made m;
	uint32_t asked = 0;
	json_t *j, *d;

	set->config.sources =
	    (struct incident_sources){&asked, fake_sketch, NULL, fake_peers, NULL};
	make(&m, 5, WINDOW_SELF, 1, 20);
	m.w.stacks.begin_ns = m.w.begin_ns;
	m.w.stacks.end_ns = m.w.end_ns;
	/* per step of 114 ms of 2.28 s: 45 ms of step, 20 ms more in spin */
	add_sample(&m.w.stacks, "step", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 800);
	add_sample(&m.w.stacks, "spin", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 400);
	j = json_of(send(&m));
	d = json_object_get(j, "diagnosis");
	assert_int_equal(asked, 1 << 5 | 7);
	assert_string_equal(text_of(d, "cause"), "cpu-python");
	assert_true(is_said(d, "spin (train.py)"));
	assert_true(is_said(d, "torch is 2.4, on the peers it is 2.6"));
	json_decref(j);
}

/* Of nobody else a sketch is left, but of the role's last minutes the waterline. */
static uint32_t asked_without;

static int fake_waterline(void *arg, const char *job, const int32_t *ranks, uint32_t count,
			  bool *is_of, struct diagnosis_group *out)
{
	struct diagnosis_usual *list = calloc(1, sizeof(*list));

	assert_string_equal(job, "job");
	*list = (struct diagnosis_usual){"step", FUNCTION_PYTHON, .9, .92};
	*out = (struct diagnosis_group){.function = list, .function_count = 1, .sketches = 40};
	for (uint32_t i = 0; i < count; i++) {
		asked_without |= 1u << ranks[i];
		is_of[i] = ranks[i] >= 4;
	}
	return 0;
}

static void send_spinning(int rank)
{
	static struct made m;

	make(&m, rank, WINDOW_SELF, 1, 20);
	m.w.stacks.begin_ns = m.w.begin_ns;
	m.w.stacks.end_ns = m.w.end_ns;
	add_sample(&m.w.stacks, "step", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 800);
	add_sample(&m.w.stacks, "spin", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 400);
	send(&m);
}

static void a_suspects_functions_are_held_against_its_roles_waterline(void **unused)
{
	struct finding_report gap = finding(FINDING_SLOW_RANK, CAUSE_CPU_HOST_GAP, 5);
	json_t *j, *d;

	asked_without = 0;
	set->config.sources = (struct incident_sources){.waterline = fake_waterline};
	send_spinning(5);
	j = json_of(report(gap)); /* 0.7 sure that the host is late */
	d = json_object_get(j, "diagnosis");
	assert_int_equal(asked_without, 1 << 5);
	assert_string_equal(text_of(d, "cause"), "cpu-python");
	/* 0.45, and nobody's profile to compare with */
	assert_true(json_number_value(json_object_get(d, "confidence")) > 0.35);
	assert_true(json_number_value(json_object_get(d, "confidence")) < 0.45);
	assert_true(is_said(d, "takes 33.3% of the rank's CPU time, "));
	assert_true(is_said(d, "; the median of its role is 0.0%"));
	json_decref(j);
	send_spinning(6);
	send_spinning(3);
	j = json_of(report(gap));
	assert_int_equal(asked_without, 1 << 3 | 1 << 5 | 1 << 6);
	json_decref(j);
}

static int fake_baseline(void *arg, const char *job, int32_t rank, struct sketch *out)
{
	return fake_sketch(arg, job, rank < 0 ? 0 : rank, out);
}

/* The host is late in every step of this run: its unflagged steps are no healthy ones. */
static void what_is_slower_than_earlier_runs_is_held_against_those(void **unused)
{
	struct finding_report f = finding(FINDING_UNIFORM, CAUSE_UNKNOWN, -1);
	static struct made m;
	uint32_t asked = 0;
	json_t *j, *d;

	for (int runs = 0; runs < 2; runs++) {
		teardown(NULL);
		setup(NULL);
		set->config.sources =
		    (struct incident_sources){&asked, fake_sketch, fake_baseline, fake_peers, NULL};
		make(&m, 5, WINDOW_SELF, 1, 1);
		for (uint32_t i = 0; i < STEPS; i++) {
			m.steps[i].step.idle_ns += 20 * MS;
			m.steps[i].step.self_ns += 20 * MS;
			m.steps[i].step.latency_ns += 20 * MS;
			if (!runs) /* that is what this run has learned */
				m.steps[i].expected_ns += 20 * MS;
		}
		send(&m);
		f.finding.earlier_runs = runs;
		f.finding.effect_ns = 20e6;
		j = json_of(report(f));
		d = json_object_get(j, "diagnosis");
		assert_string_equal(text_of(j, "kind"), "uniform");
		assert_int_equal(is_said(d, "61.0 ms per step, 40.0 ms before"), runs);
		json_decref(j);
	}
}

/* Every step logs for 20 ms; for a moment the disk was slow, too, which the rank reported by itself. */
/* Of every rank, or of one. */
static void moment_of(enum finding_kind kind, int rank, const char *cause)
{
	struct finding_report f = finding(kind, CAUSE_UNKNOWN, rank);
	static struct made m;
	uint32_t asked = 0;
	json_t *j;

	set->config.sources =
	    (struct incident_sources){&asked, fake_sketch, fake_baseline, fake_peers, NULL};
	for (int k = 0; k < 2; k++) {
		make_moment(&m, k ? WINDOW_ASKED : WINDOW_SELF);
		for (uint32_t i = 0; i < STEPS; i++) {
			m.steps[i].step.latency_ns += 20 * MS;
			m.steps[i].step.self_ns += 20 * MS;
			m.steps[i].step.idle_ns += 20 * MS;
		}
		m.w.stacks.begin_ns = m.w.begin_ns;
		m.w.stacks.end_ns = m.w.end_ns;
		add_sample(&m.w.stacks, "step", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 800);
		add_sample(&m.w.stacks, "Logger.debug", 105, STACK_ON_CPU, STACK_GIL_HOLDER, 400);
		signal_add(&m, OS_SIGNAL_IO_WAIT_THREAD, "main", k ? 30 : 800);
		signal_add(&m, OS_SIGNAL_DISK_LATENCY, "reads of vda", 255);
		send(&m);
	}
	f.finding.earlier_runs = rank < 0;
	f.finding.last_step += rank < 0 ? 0 : 400; /* more than the transient cost */
	f.finding.effect_ns = 20e6;
	j = json_of(report(f));
	assert_string_equal(text_of(j, "kind"), finding_kind_name(kind));
	assert_string_equal(cause_of(j), cause);
	json_decref(j);
}

static void what_is_slow_all_the_time_is_not_what_a_moment_was(void **unused)
{
	moment_of(FINDING_UNIFORM, -1, "sw-logging");
}

static void what_peers_show_all_the_time_is_not_what_a_moment_was(void **unused)
{
	moment_of(FINDING_SLOW_RANK, 5, "cpu-python");
}

/* A kernel of the step takes longer, and everything after it is later. */
static void stretch(struct made *m, uint32_t step, uint64_t ns)
{
	struct step *s = &m->steps[step].step;

	s->end_ns += ns;
	s->latency_ns += ns;
	s->self_ns += ns;
	s->compute_ns += ns;
	m->device[3 * step + 1].end_ns += ns;
	m->w.end_ns += ns;
	for (uint32_t i = step + 1; i < STEPS; i++) {
		m->steps[i].step.begin_ns += ns;
		m->steps[i].step.end_ns += ns;
		m->host[i].begin_ns += ns;
		m->host[i].end_ns += ns;
		for (uint32_t k = 3 * i; k < 3 * i + 3; k++) {
			m->device[k].launch_ns += ns;
			m->device[k].begin_ns += ns;
			m->device[k].end_ns += ns;
		}
	}
}

/* A checkpoint of 2 s, unlike any step before it, and then two steps with interrupts now and then. */
static void a_step_unlike_any_before_is_not_what_short_spells_are(void **unused)
{
	static struct made m;
	json_t *j = NULL;

	(void)unused;
	for (int n = 0; n < 6; n++) {
		make(&m, 5, WINDOW_SELF, 1 + 8 * n, n ? 20 : 0);
		for (uint32_t i = HEALTHY + 2; i < STEPS; i++)
			m.steps[i].flags = WINDOW_STEP_MARGIN;
		if (!n) {
			stretch(&m, HEALTHY, 2000 * MS);
			m.steps[HEALTHY].flags =
			    WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED | WINDOW_STEP_FIRST;
		} else {
			signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1",
				   160);
		}
		json_decref(j);
		j = json_of(send(&m));
	}
	assert_string_equal(cause_of(j), "os-softirq");
	assert_float_equal(
	    jsonget_number(json_object_get(json_object_get(j, "diagnosis"), "ledger"), "excess_ms"),
	    20, 1);
	json_decref(j);
}

/* Every fourth step has more work, 40 ms. The comparison of ranks found it; one window has slow steps. */
static void what_is_in_every_fourth_step_is_in_the_mean(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5);
	static struct made m;
	json_t *j;

	(void)unused;
	f.finding.effect_ns = 10e6;
	f.finding.last_step += 400;
	report(f);
	for (int rank = 4; rank < 8; rank++) {
		make(&m, rank, WINDOW_ASKED, 1, 0);
		for (uint32_t i = 0; i < m.w.device_count; i++)
			for (int k = 0; k < 3; k++)
				m.device[i].grid[k] = m.device[i].block[k] = 1;
		for (uint32_t i = 0; rank == 5 && i < STEPS; i += 4) {
			m.device[3 * i + 1].grid[0] = 5;
			stretch(&m, i, 40 * MS);
		}
		send(&m);
	}
	make(&m, 5, WINDOW_SELF, 4, 2);
	j = json_of(send(&m));
	assert_string_equal(ranks_of(j), "5");
	assert_string_equal(cause_of(j), "imbalance-input");
	json_decref(j);
}

/* A window that was asked for when the fault was over shows nothing of it, however many steps it has. */
static void what_was_asked_for_too_late_is_not_what_was_slow(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5);
	static struct made m;
	json_t *j;

	make(&m, 5, WINDOW_SELF, 1, 20);
	send(&m);
	make(&m, 5, WINDOW_ASKED, 4, 0);
	send(&m);
	for (int rank = 0; rank < 3; rank++) {
		make(&m, rank, WINDOW_ASKED, 4, 0);
		send(&m);
	}
	f.finding.last_step += 400; /* more than its own windows show */
	f.finding.effect_ns = 20e6;
	j = json_of(report(f));
	assert_string_equal(text_of(j, "kind"), "slow_rank");
	assert_true(is_said(json_object_get(j, "diagnosis"), "its GPU idles 60.0 ms per step"));
	json_decref(j);
}

/* ---- findings ---- */

static void a_finding_alone_is_an_incident(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3);
	struct incident_change c;
	json_t *j;

	f.finding.effect_ns = 15e6;
	c = report(f);
	j = json_of(c);

	assert_true(c.opened);
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j), "3");
	assert_int_equal(json_integer_value(json_object_get(j, "last_step")), 139);
	assert_float_equal(json_number_value(json_object_get(j, "excess")), 0.05, 1e-9);
	assert_float_equal(json_number_value(json_object_get(j, "gpu_hours_lost")),
			   40 * 0.015 * 8 / 3600, 1e-6);
	assert_true(json_array_size(json_object_get(j, "findings")) == 1);
	json_decref(j);
}

static void windows_join_the_finding_of_their_fault_and_say_why(void **unused)
{
	struct incident_change c = report(finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5));
	static struct made m;
	json_t *j;

	healthy_peers();
	make(&m, 5, WINDOW_SELF, 200, 20); /* minutes later: the finding has not ended */
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX from thread main on CPU 1", 200);
	assert_string_equal(send(&m).id, c.id);
	j = json_of(c);
	assert_string_equal(ranks_of(j), "5");
	assert_string_equal(cause_of(j), "os-softirq");
	json_decref(j);
}

/* The end of the first one's fault is reported late. */
static void another_rank_that_becomes_slow_after_it_is_another_fault(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3);
	double end_s = (double)(f.end_unix_ns - T0) / S;
	struct incident_change c = report(f), d;
	static struct made m;

	make(&m, 5, WINDOW_COMM, end_s + 10, 20);
	assert_string_equal(send(&m).id, c.id); /* a victim of it, as far as is known */
	make(&m, 5, WINDOW_SELF, end_s + 8, 20);
	assert_string_equal(send(&m).id, c.id);
	teardown(NULL);
	setup(NULL);
	c = report(f);
	make(&m, 4, WINDOW_COMM, end_s + 14, 20);
	d = send(&m);
	assert_string_not_equal(d.id, c.id);
	make(&m, 5, WINDOW_SELF, end_s + 14, 20);
	assert_string_equal(send(&m).id, d.id);
	f.ended = true;
	assert_string_equal(report(f).id, c.id);
	assert_int_equal(set_count(set, false), 2);
}

static void a_finding_holds_its_incident_open_until_it_ends(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES], job[WIRE_TEXT_BYTES];
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3);
	struct incident_change c = report(f);

	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 0);
	assert_true(incident_set_held_job(set, 0, job));
	assert_string_equal(job, "job");
	f.ended = true;
	f.end_unix_ns = T0 + 100 * S;
	assert_string_equal(report(f).id, c.id);
	assert_false(incident_set_held_job(set, 0, job));
	assert_int_equal(incident_set_tick(set, T0 + 120 * S, closed, 4), 0);
	assert_int_equal(incident_set_tick(set, T0 + 131 * S, closed, 4), 1);
	assert_string_equal(closed[0], c.id);
}

static void a_job_that_is_gone_ends_its_findings(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES];

	report(finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3));
	incident_set_job_ended(set, "another job");
	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 0);
	incident_set_job_ended(set, "job");
	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 1);
}

static void a_finding_that_nobody_ends_is_closed_in_the_end(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES];

	report(finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3));
	assert_int_equal(incident_set_tick(set, T0 + 3700 * S, closed, 4), 1);
}

static void the_same_finding_reported_again_is_one(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3);
	json_t *j;

	report(f);
	f.end_unix_ns += 60 * S;
	f.finding.last_step = 500;
	f.finding.ranks[f.finding.rank_count++] = 4;
	j = json_of(report(f));
	assert_int_equal(json_array_size(json_object_get(j, "findings")), 1);
	assert_int_equal(json_integer_value(json_object_get(j, "last_step")), 500);
	assert_string_equal(ranks_of(j), "3,4");
	json_decref(j);
}

static void uniform_degradation_accuses_no_rank(void **unused)
{
	json_t *j = json_of(report(finding(FINDING_UNIFORM, CAUSE_SW_LOGGING, -1)));

	assert_string_equal(text_of(j, "symptom"), "slow_job");
	assert_string_equal(text_of(j, "kind"), "uniform");
	assert_string_equal(ranks_of(j), "");
	assert_string_equal(cause_of(j), "sw-logging");
	assert_string_equal(text_of(json_object_get(j, "diagnosis"), "layer"), "software");
	json_decref(j);
}

static void a_hang_is_a_stall_with_the_cause_that_was_found(void **unused)
{
	json_t *j = json_of(report(finding(FINDING_HANG, CAUSE_HANG_MISSING, 2)));

	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j), "2");
	assert_string_equal(cause_of(j), "hang-missing");
	json_decref(j);
}

/* The window of a rank whose steps stand still for 8 s after it. main: what its main thread sleeps in; ""
 * where its GPU has not ended what waits for the others. */
static bool in_collective;

static void make_still(struct made *m, int rank, double begin_s, const char *main)
{
	const char *function = in_collective ? "all_reduce" : "save";
	struct stack_frame f[2] = {{.kind = STACK_FRAME_KERNEL},
				   {.kind = STACK_FRAME_PYTHON, .line = 88}};
	struct stack_switch s = {.pid = 100 + (uint32_t)rank,
				 .tid = 100 + (uint32_t)rank,
				 .state = STACK_SWITCH_INTERRUPTIBLE,
				 .flags = STACK_SWITCH_OPEN};
	struct stack_switch_thread t = {.pid = s.pid, .tid = s.tid};
	struct stack_batch *b = &m->w.stacks;

	make(m, rank, WINDOW_STALL, begin_s, 0);
	m->w.open_since_ns = m->w.end_ns;
	m->w.end_ns += 8000 * MS;
	s.out_ns = t.begin_ns = m->w.open_since_ns;
	s.in_ns = t.end_ns = m->w.end_ns;
	if (*main) {
		assert_int_equal(stack_batch_string(b, main, strlen(main), &f[0].object), 0);
		assert_int_equal(stack_batch_string(b, function, strlen(function), &f[1].object),
				 0);
		assert_int_equal(stack_batch_string(b, "train.py", 8, &f[1].file), 0);
		assert_int_equal(stack_batch_stack(b, f, 2, 1, STACK_END_ROOT, &s.stack), 0);
		assert_int_equal(stack_batch_switch(b, &s), 0);
		assert_int_equal(stack_batch_switch_thread(b, &t), 0);
	} else {
		m->w.unfinished = (struct beat_unfinished){.kind = BEAT_UNFINISHED_COLLECTIVE,
							   .launch_ns = m->w.open_since_ns + 5 * MS,
							   .name = "AllReduce"};
	}
}

static struct incident_change stands_still(int rank, const char *main)
{
	static struct made m;

	make_still(&m, rank, 1, main);
	return send(&m);
}

/* The job ends: all ranks sleep for 8 s, and none waits for another. */
static void what_stops_all_alike_hides_no_rank_that_cost_more(void **unused)
{
	struct incident_change c = {0};
	json_t *j;

	for (int n = 0; n < 8; n++) {
		static struct made m;

		make(&m, 2, WINDOW_SELF, 1 + 3 * n, 300);
		slow_gemm(&m, 8);
		c = send(&m);
	}
	for (int r = 0; r < 4; r++)
		c = stands_still(r, "do_nanosleep");
	j = json_of(c);
	assert_string_equal(text_of(j, "symptom"), "slow_rank");
	assert_string_equal(ranks_of(j), "2");
	json_decref(j);
}

static void what_stops_all_alike_is_a_stall_by_itself(void **unused)
{
	struct incident_change c = {0};
	json_t *j;

	for (int r = 0; r < 4; r++)
		c = stands_still(r, "do_nanosleep");
	j = json_of(c);
	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j), "0,1,2,3");
	json_decref(j);
}

/* Before anybody knows who has entered which collective, and after. */
static void a_rank_hangs_in_what_its_own_window_shows(void **unused)
{
	struct finding_report f = finding(FINDING_HANG, CAUSE_HANG_MISSING, 2);
	struct incident_change c = {0};
	const json_t *d;
	json_t *j;

	for (int r = 0; r < 4; r++)
		c = stands_still(r, r == 2 ? "__x64_sys_flock" : "");
	j = json_of(c);
	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j), "2");
	assert_string_equal(cause_of(j), "cpu-lock");
	json_decref(j);
	f.finding.evidence_count = 0;
	finding_say(&f.finding, LAYER_UNKNOWN, 9e9, "3 of 4 ranks wait in AllReduce 7");
	j = json_of(report(f));
	d = json_object_get(j, "diagnosis");
	assert_string_equal(ranks_of(j), "2");
	assert_string_equal(cause_of(j), "cpu-lock");
	assert_string_equal(
	    text_of(d, "summary"),
	    "rank 2 hangs because it waits for a file lock in save (train.py); 3 of 4 "
	    "ranks wait in AllReduce 7");
	assert_true(is_said(d, "rank 2 is in flock < save (train.py:88)"));
	assert_true(json_number_value(json_object_get(d, "effect_ms")) >= 8000);
	d = json_array_get(json_object_get(json_object_get(d, "ledger"), "rows"), 0);
	assert_string_equal(text_of(d, "what"), "file-lock");
	json_decref(j);
}

/* All steps are of a kind. The window of the hang has slow ones only, an earlier one has healthy ones. */
static void a_hang_is_compared_with_steps_of_the_kind_before_it(void **unused)
{
	static struct made m;
	const json_t *d;
	json_t *j;

	(void)unused;
	make(&m, 2, WINDOW_SELF, 1, 20);
	for (uint32_t i = 0; i < STEPS; i++)
		m.steps[i].period = 50;
	send(&m);
	make_still(&m, 2, 4, "__x64_sys_flock");
	for (uint32_t i = 0; i < STEPS; i++) {
		m.steps[i].period = 50;
		m.steps[i].step.latency_ns += 20 * MS;
		m.steps[i].flags = WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
	}
	j = json_of(send(&m));
	d = json_object_get(json_object_get(j, "diagnosis"), "ledger");
	assert_string_equal(cause_of(j), "cpu-lock");
	assert_int_equal(json_integer_value(json_object_get(d, "reference_steps")), HEALTHY);
	json_decref(j);
}

/* The second window lost less for the same cause, and is dropped; the last one is a short spell long after
 * the fault, with another cause. */
static void the_ledger_counts_the_slow_steps_of_the_fault(void **unused)
{
	static const struct verdict other = {.diagnosis.by_ledger = false};
	static struct made m;
	struct incident_change c = {0};
	const json_t *ledger, *row;
	char said[128];
	json_t *j;

	for (int n = 0; n < 2; n++) {
		make(&m, 5, WINDOW_SELF, 1 + 10 * n, n ? 280 : 300);
		slow_gemm(&m, 8);
		c = send(&m);
	}
	make(&m, 5, WINDOW_SELF, 40, 60);
	signal_add(&m, OS_SIGNAL_SOFTIRQ_STOLEN, "NET_RX", 400);
	assert_string_equal(send(&m).id, c.id);
	j = json_of(c);
	ledger = json_object_get(json_object_get(j, "diagnosis"), "ledger");
	assert_int_equal(json_integer_value(json_object_get(j, "flagged_steps")),
			 2 * (STEPS - HEALTHY));
	assert_int_equal(json_integer_value(json_object_get(ledger, "slow_steps")),
			 2 * (STEPS - HEALTHY));
	/* and its means are of these steps, and the incident's figures, too */
	assert_float_equal(json_number_value(json_object_get(ledger, "slow_ms")), 390, 2);
	assert_float_equal(json_number_value(json_object_get(j, "latency_ms")),
			   json_number_value(json_object_get(ledger, "slow_ms")), 1e-9);
	assert_float_equal(json_number_value(json_object_get(j, "excess")),
			   json_number_value(json_object_get(ledger, "slow_ms")) /
				   json_number_value(json_object_get(ledger, "reference_ms")) -
			       1,
			   1e-9);
	/* nor does the sentence say anything else */
	row = json_array_get(json_object_get(ledger, "rows"), 0);
	snprintf(said, sizeof(said),
		 "kernel gemm takes %.2f times as long as before (%.0f of %.0f ms more",
		 jsonget_number(row, "slow_ms") / jsonget_number(row, "reference_ms"),
		 jsonget_number(row, "excess_ms"), jsonget_number(ledger, "excess_ms"));
	assert_non_null(strstr(text_of(json_object_get(j, "diagnosis"), "summary"), said));
	assert_true(json_is_true(json_object_get(json_object_get(j, "diagnosis"), "by_ledger")));
	json_decref(j);
	j = verdict_json(&other);
	assert_true(json_is_false(json_object_get(j, "by_ledger")));
	json_decref(j);
}

/* All slow steps have longer sequences, which detection knows, and are late for another reason. Most of
 * them are in windows without records, and lost more (most_ms). */
static void work_that_detection_expects_is_no_excess(void **unused)
{
	static const double most_ms[] = {20, 38};

	for (size_t k = 0; k < ARRAY_LEN(most_ms); k++) {
		static struct made m;
		struct incident_change c = {0};
		const json_t *d, *ledger, *row;
		json_t *j;
		size_t at;

		teardown(NULL);
		setup(NULL);
		for (int n = 0; n < 4; n++) {
			make(&m, 5, WINDOW_SELF, 1 + 10 * n, 40 + (n < 2 ? 20 : most_ms[k]));
			slow_gemm(&m, 2);
			for (uint32_t i = 0; i < m.w.device_count; i++)
				m.device[i].grid[0] = i < 3 * HEALTHY ? 8 : 16;
			for (uint32_t i = HEALTHY; i < STEPS; i++) {
				m.steps[i].expected_ns += 40 * MS;
				m.steps[i].expected_self_ns += 40 * MS;
			}
			if (n >= 2)
				m.w.device_count = m.w.host_count = 0;
			c = send(&m);
		}
		j = json_of(c);
		d = json_object_get(j, "diagnosis");
		ledger = json_object_get(d, "ledger");
		assert_float_equal(jsonget_number(ledger, "excess_ms"), (20 + most_ms[k]) / 2, 1);
		json_array_foreach (json_object_get(ledger, "rows"), at, row)
			if (!strcmp(text_of(row, "account"), "compute"))
				assert_true(jsonget_number(row, "excess_ms") < 2);
		assert_string_not_equal(text_of(d, "cause"), "imbalance-input");
		assert_null(strstr(text_of(d, "summary"), "more work"));
		json_decref(j);
	}
}

/* The fault's windows are summaries without records. That of an earlier transient has them. */
/* The usual steps of a kind take 300 ms, and nine of them are slower; fourteen others are, too. */
static void each_slow_step_is_compared_with_steps_of_its_kind(void **unused)
{
	static const struct {
		bool kind, others;
		double slow_ms, excess_ms;
	} with[] = {{true, false, 340, 40},
		    {false, true, 120, 20},
		    {true, true, (9 * 340 + 14 * 120) / 23.0, (9 * 40 + 14 * 20) / 23.0}};
	static struct made m;

	for (size_t n = 0; n < ARRAY_LEN(with); n++) {
		const json_t *d, *ledger;
		struct incident_change c;
		json_t *j;

		incident_set_close(set);
		assert_int_equal(setup(NULL), 0);
		if (with[n].others) { /* for another cause, so that both windows are kept */
			make(&m, 3, WINDOW_SELF, 1, 20);
			slow_gemm(&m, 1.5);
			c = send(&m);
		}
		if (with[n].kind) {
			uint64_t t;

			make(&m, 3, WINDOW_SELF, 3.3, 40);
			t = m.w.begin_ns;
			for (uint32_t i = 0; i < STEPS; i++) {
				struct window_step *s = &m.steps[i];
				bool slow = i >= STEPS - 9;
				int64_t moved = (int64_t)(t - s->step.begin_ns);

				for (uint32_t k = 3 * i; k < 3 * i + 3; k++) {
					m.device[k].launch_ns += (uint64_t)moved;
					m.device[k].begin_ns += (uint64_t)moved;
					m.device[k].end_ns += (uint64_t)moved;
				}
				m.host[i].begin_ns += (uint64_t)moved;
				m.host[i].end_ns += (uint64_t)moved;
				s->step.begin_ns = t;
				s->step.latency_ns = (slow ? 340 : 300) * MS;
				s->step.end_ns = t += s->step.latency_ns;
				s->step.self_ns = s->step.latency_ns - 10 * MS;
				s->step.idle_ns = s->step.latency_ns - 60 * MS;
				s->expected_ns = 300 * MS;
				s->expected_self_ns = 290 * MS;
				s->period = 100;
				s->flags = slow ? WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED : 0;
			}
			m.w.end_ns = t;
			c = send(&m);
		}
		j = json_of(c);
		d = json_object_get(j, "diagnosis");
		ledger = json_object_get(d, "ledger");
		assert_float_equal(json_number_value(json_object_get(ledger, "slow_ms")),
				   with[n].slow_ms, 0.1);
		assert_float_equal(json_number_value(json_object_get(ledger, "excess_ms")),
				   with[n].excess_ms, 0.1);
		assert_int_equal(!strstr(text_of(d, "summary"), "recur every 100 steps"),
				 with[n].others);
		json_decref(j);
	}
}

static void a_summary_takes_no_ledger_away(void **unused)
{
	static struct made m;
	const json_t *ledger;
	json_t *j;

	(void)unused;
	make(&m, 5, WINDOW_SELF, 1, 40);
	for (uint32_t i = HEALTHY + 3; i < STEPS; i++)
		m.steps[i].flags = WINDOW_STEP_MARGIN;
	send(&m);
	make(&m, 5, WINDOW_SELF, 40, 60);
	m.w.summary_only = true;
	m.w.device_count = m.w.host_count = 0;
	j = json_of(send(&m));
	ledger = json_object_get(json_object_get(j, "diagnosis"), "ledger");
	assert_int_equal(json_array_size(json_object_get(ledger, "rows")) > 0, true);
	json_decref(j);
}

/* Each of them waits for the others on the CPU, as the network between them is cut. The windows were
 * asked for. */
static void who_is_to_blame_for_no_hang_is_named_where_all_wait_on_the_cpu(void **unused)
{
	struct finding_report f = finding(FINDING_HANG, CAUSE_HANG_TRANSFER, -1);
	json_t *j;

	f.finding.rank_count = f.finding.evidence_count = 0;
	finding_say(&f.finding, LAYER_UNKNOWN, 9e9, "4 of 4 ranks wait in a collective on the CPU");
	j = json_of(report(f));
	assert_string_equal(ranks_of(j), "");
	assert_string_equal(cause_of(j), "hang-transfer");
	json_decref(j);
	in_collective = true;
	for (int r = 0; r < 4; r++)
		stands_still(r, "futex_do_wait");
	in_collective = false;
	j = json_of(report(f));
	assert_string_equal(text_of(j, "symptom"), "stall");
	assert_string_equal(ranks_of(j), "0,1,2,3");
	assert_string_equal(cause_of(j), "net-wait");
	json_decref(j);
}

/* It was slow before, and now waits as all others do. */
static void who_was_slow_before_is_not_to_blame_for_a_hang(void **unused)
{
	struct incident_change c;
	json_t *j;

	window(3, WINDOW_SELF, 40);
	report(finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3));
	for (int r = 0; r < 4; r++)
		c = stands_still(r, r == 2 ? "pipe_read" : "");
	j = json_of(c);
	assert_string_equal(ranks_of(j), "2");
	assert_string_equal(cause_of(j), "cpu-process");
	json_decref(j);
}

/* The one that called another collective waits as well: only detection knows which. */
static void who_waits_in_the_wrong_collective_is_who_detection_names(void **unused)
{
	json_t *j;

	for (int r = 0; r < 4; r++)
		stands_still(r, "");
	j = json_of(report(finding(FINDING_HANG, CAUSE_HANG_MISMATCH, 1)));
	assert_string_equal(ranks_of(j), "1");
	assert_string_equal(cause_of(j), "hang-mismatch");
	json_decref(j);
}

static void imbalance_accuses_nobody_and_takes_no_windows(void **unused)
{
	struct incident_change c = report(finding(FINDING_IMBALANCE, CAUSE_IMBALANCE_STAGE, 2)), d;
	json_t *j;

	d = softirq(5, 20);
	assert_string_not_equal(c.id, d.id);
	assert_string_equal(report(finding(FINDING_IMBALANCE, CAUSE_IMBALANCE_STAGE, 2)).id, c.id);
	assert_string_equal(report(finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 5)).id, d.id);
	j = json_of(c);
	assert_string_equal(text_of(j, "symptom"), "imbalance");
	assert_string_equal(ranks_of(j), "");
	assert_string_equal(cause_of(j), "imbalance-stage");
	json_decref(j);
}

static void refuses_findings_that_make_no_sense(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3), g;
	struct incident_change c;

	g = f;
	g.job[0] = '\0';
	assert_int_equal(incident_set_add_finding(set, &g, T0, &c), -EINVAL);
	g = f;
	g.finding.kind = 0;
	assert_int_equal(incident_set_add_finding(set, &g, T0, &c), -EINVAL);
	g = f;
	g.finding.rank_count = FINDING_RANKS_MAX + 1;
	assert_int_equal(incident_set_add_finding(set, &g, T0, &c), -EINVAL);
	g = f;
	g.finding.effect_ns = NAN;
	assert_int_equal(incident_set_add_finding(set, &g, T0, &c), -EINVAL);
	g = f;
	memset(g.job, 'x', sizeof(g.job));
	assert_int_equal(incident_set_add_finding(set, &g, T0, &c), -EINVAL);
	assert_int_equal(set_count(set, false), 0);
}

static void start_anew(void)
{
	incident_set_close(set);
	assert_int_equal(open_set(2, 0), 0);
}

static void restore_row(const char *id, const char *job, bool open, uint64_t begin_s,
			uint64_t end_s)
{
	struct incident_row row = {.open = open,
				   .begin_unix_ns = T0 + begin_s * S,
				   .end_unix_ns = T0 + end_s * S,
				   .arrival_unix_ns = T0 + end_s * S};

	snprintf(row.id, sizeof(row.id), "%s", id);
	snprintf(row.job, sizeof(row.job), "%s", job);
	assert_int_equal(incident_set_restore(set, &row), 0);
}

static void restore_report(const char *id, struct finding_report f)
{
	assert_int_equal(incident_set_restore_finding(set, id, &f), 0);
}

static void restored(enum finding_kind kind, int rank)
{
	struct finding_report f = finding(kind, CAUSE_UNKNOWN, rank);

	start_anew();
	restore_row("0badcafe", "job", true, 1, 4);
	f.reporter = 1;
	f.reported_begin_unix_ns = f.begin_unix_ns;
	restore_report("0badcafe", f);
}

/* Of a process that looks anew: what it sees began when it began to look. */
static struct incident_change seen_anew(enum finding_kind kind, int rank, uint64_t end_s)
{
	struct finding_report f = finding(kind, CAUSE_UNKNOWN, rank);

	f.begin_unix_ns = T0 + 60 * S;
	f.end_unix_ns = T0 + end_s * S;
	f.finding.first_step = 600;
	f.finding.last_step = 10 * end_s;
	return report(f);
}

static void what_an_earlier_process_reported_goes_on_if_it_is_reported_again(void **unused)
{
	static const enum finding_kind kinds[] = {FINDING_SLOW_RANK, FINDING_HANG, FINDING_UNIFORM,
						  FINDING_IMBALANCE};
	char closed[4][INCIDENT_ID_BYTES];

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		int rank = kinds[k] == FINDING_UNIFORM ? -1 : 5;
		json_t *list, *one;

		restored(kinds[k], rank);
		assert_string_equal(seen_anew(kinds[k], rank, 70).id, "0badcafe");
		assert_string_equal(seen_anew(kinds[k], rank, 80).id, "0badcafe");
		incident_set_end_earlier(set);
		list = incident_set_findings(set, "0badcafe");
		assert_int_equal(json_array_size(list), 1);
		one = json_array_get(list, 0);
		assert_false(json_is_true(json_object_get(one, "ended")));
		assert_int_equal(jsonget_unsigned(one, "begin_unix_ns"), T0 + S);
		assert_int_equal(json_integer_value(json_object_get(one, "first_step")), 100);
		assert_int_equal(json_integer_value(json_object_get(one, "last_step")), 800);
		assert_int_equal(jsonget_unsigned(one, "reporter"), 2);
		json_decref(list);
		assert_int_equal(incident_set_tick(set, T0 + 200 * S, closed, 4), 0);
	}
}

/* Of ranks a and b (-1: none), ten steps a second. */
static struct finding_report report_of(int a, int b, uint64_t begin_s, uint64_t end_s, bool ended)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, a);

	if (b >= 0)
		f.finding.ranks[f.finding.rank_count++] = b;
	f.begin_unix_ns = f.reported_begin_unix_ns = T0 + begin_s * S;
	f.end_unix_ns = T0 + end_s * S;
	f.finding.first_step = 10 * begin_s;
	f.finding.last_step = 10 * end_s;
	f.ended = ended;
	f.reporter = 1;
	return f;
}

/* "RANKS BEGIN ENDED; " of each, seconds from T0 */
static const char *findings_of(const char *id)
{
	static char text[512];
	json_t *list = incident_set_findings(set, id), *one;
	size_t k;

	text[0] = '\0';
	json_array_foreach (list, k, one)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s %llu%s; ",
			 ranks_of(one),
			 (unsigned long long)(jsonget_unsigned(one, "begin_unix_ns") - T0) / S,
			 json_is_true(json_object_get(one, "ended")) ? " ended" : "");
	json_decref(list);
	return text;
}

static void what_is_restored_is_as_it_was_reported(void **unused)
{
	start_anew();
	restore_row("0badcafe", "job", true, 1, 30);
	restore_report("0badcafe", report_of(3, 5, 1, 30, false));
	restore_report("0badcafe", report_of(5, -1, 10, 20, true));
	restore_report("0badcafe", report_of(7, 3, 12, 30, false));
	assert_string_equal(findings_of("0badcafe"), "3,5 1; 5 10 ended; 7,3 12; ");
}

/* Who looks anew finds one rank before the other. */
static void ranks_that_are_reported_again_one_by_one_stay_one_incident(void **unused)
{
	struct incident_change c;

	start_anew();
	restore_row("0badcafe", "job", true, 1, 30);
	restore_report("0badcafe", report_of(3, 5, 1, 30, false));
	assert_string_equal(report(report_of(5, -1, 60, 70, false)).id, "0badcafe");
	assert_string_equal(findings_of("0badcafe"), "5 1; 3 1; ");
	assert_string_equal(report(report_of(3, -1, 85, 95, false)).id, "0badcafe");
	assert_string_equal(findings_of("0badcafe"), "5 1; 3 1; ");
	c = report(report_of(5, 3, 60, 99, false));
	assert_string_equal(c.id, "0badcafe");
	incident_set_end_earlier(set);
	assert_null(strstr(findings_of("0badcafe"), "ended"));
}

/* Two earlier incidents that a new report makes one. */
static void what_is_reported_now_outlasts_what_an_earlier_process_reported(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES];
	struct incident_change c;

	start_anew();
	restore_row("0000000a", "job", false, 1, 30);
	restore_report("0000000a", report_of(5, -1, 1, 30, true));
	restore_row("0000000b", "job", true, 40, 50);
	restore_report("0000000b", report_of(5, -1, 40, 50, false));
	c = report(report_of(5, -1, 33, 80, false));
	assert_int_equal(c.absorbed_count, 1);
	incident_set_end_earlier(set);
	assert_null(strstr(findings_of(c.id), "ended"));
	assert_int_equal(incident_set_tick(set, T0 + 115 * S, closed, 4), 0);
}

static void who_was_well_again_has_begun_anew(void **unused)
{
	struct incident_change c;

	start_anew();
	restore_row("0badcafe", "job", true, 1, 4);
	restore_report("0badcafe", report_of(5, -1, 1, 4, false));
	report(report_of(5, -1, 60, 70, false));
	report(report_of(7, -1, 62, 75, false));
	c = report(report_of(5, -1, 60, 70, true));
	assert_string_equal(findings_of(c.id), "5 1 ended; 7 62; ");
	report(report_of(7, -1, 62, 2000, false));
	c = report(report_of(5, -1, 1990, 2002, false));
	assert_string_equal(findings_of(c.id), "5 1990; 7 62; ");
}

static void restore_windows(const char *id, const char *job, uint32_t ranks)
{
	for (uint32_t rank = 0; rank < ranks; rank++) {
		static struct made m;
		struct digest d;

		make(&m, (int)rank, WINDOW_SELF, 1, 20);
		snprintf(m.w.rank.job, WIRE_TEXT_BYTES, "%s", job);
		digest_make(&m.w, 1000, &d);
		d.excerpt = excerpt_make(&m.w, NULL, NULL);
		assert_int_equal(incident_set_restore_window(set, id, &d), 0);
		excerpt_drop(d.excerpt);
		stack_batch_fini(&m.w.stacks);
	}
}

static uint64_t excerpts_of(const char *job)
{
	for (const struct incident *i = set->first; i; i = i->next)
		if (!strcmp(i->row.job, job))
			return i->excerpt_bytes / one_excerpt();
	return 0;
}

/* The newest comes back first. */
static void what_is_closed_takes_no_room_from_what_is_newer(void **unused)
{
	room_for(8 * one_excerpt() + 4096);
	restore_row("0000000a", "A", true, 1, 100);
	restore_windows("0000000a", "A", 6);
	restore_row("0000000b", "B", false, 1, 50);
	restore_windows("0000000b", "B", 6);
	restore_row("0000000c", "C", false, 1, 20);
	restore_windows("0000000c", "C", 6);
	assert_int_equal(excerpts_of("A"), 6);
	assert_int_equal(excerpts_of("B"), 2);
	assert_int_equal(excerpts_of("C"), 0);
}

static void what_is_built_anew_has_the_room_it_had(void **unused)
{
	struct incident_row row;
	struct incident *old;

	room_for(8 * one_excerpt() + 4096);
	restore_row("0000000a", "A", true, 1, 100);
	restore_windows("0000000a", "A", 4);
	restore_row("0000000b", "B", true, 1, 100);
	restore_windows("0000000b", "B", 4);
	for (int good = 0; good < 2; good++) {
		assert_true(incident_set_row(set, "0000000a", &row));
		old = incident_set_take_out(set, "0000000a");
		assert_int_equal(incident_set_restore(set, &row), 0);
		restore_windows("0000000a", "A", good ? 4 : 2);
		assert_int_equal(incident_set_keep(set, old), good);
		assert_int_equal(excerpts_of("A"), 4);
		assert_int_equal(excerpts_of("B"), 4);
		bytes_held();
	}
}

static void what_an_earlier_process_reported_of_another_rank_ends(void **unused)
{
	char closed[4][INCIDENT_ID_BYTES];

	restored(FINDING_SLOW_RANK, 5);
	assert_string_not_equal(seen_anew(FINDING_SLOW_RANK, 2, 90).id, "0badcafe");
	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 0);
	incident_set_end_earlier(set);
	assert_int_equal(incident_set_tick(set, T0 + 100 * S, closed, 4), 1);
	assert_string_equal(closed[0], "0badcafe");
}

static void findings_survive_a_restart(void **unused)
{
	struct incident_change c = report(finding(FINDING_SLOW_RANK, CAUSE_NET_TRANSFER, 3));
	struct finding_report back;
	struct incident_row row;
	json_t *before, *after, *list;
	size_t k;
	json_t *one;

	report(finding(FINDING_UNIFORM, CAUSE_SW_LOGGING, -1));
	before = json_of(c);
	list = incident_set_findings(set, c.id);
	assert_int_equal(json_array_size(list), 2);
	assert_true(incident_set_row(set, c.id, &row));
	teardown(NULL);
	setup(NULL);
	assert_int_equal(incident_set_restore(set, &row), 0);
	json_array_foreach (list, k, one) {
		assert_int_equal(finding_json_parse(one, &back), 0);
		snprintf(back.job, sizeof(back.job), "job");
		assert_int_equal(incident_set_restore_finding(set, c.id, &back), 0);
	}
	after = json_of(c);
	assert_true(json_equal(before, after));
	json_decref(before);
	json_decref(after);
	json_decref(list);
}

/* One that was stored before lines had a rank is about nobody alone. */
static void a_line_is_stored_with_its_rank(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 0), back;
	json_t *j;

	finding_say_of(&f.finding, 0, LAYER_GPU, 5e6, "of one");
	j = finding_json_make(&f);
	assert_int_equal(finding_json_parse(j, &back), 0);
	assert_int_equal(back.finding.evidence[0].rank, FINDING_NO_RANK);
	assert_int_equal(back.finding.evidence[1].rank, 0);
	json_object_del(json_array_get(json_object_get(j, "evidence"), 1), "rank");
	assert_int_equal(finding_json_parse(j, &back), 0);
	assert_int_equal(back.finding.evidence[1].rank, FINDING_NO_RANK);
	json_decref(j);
}

/* Two jobs and a restart of one say nothing about the other. */
static void findings_of_one_job_touch_no_other(void **unused)
{
	struct finding_report f = finding(FINDING_SLOW_RANK, CAUSE_UNKNOWN, 3);
	struct incident_change a = softirq(5, 20), b;

	snprintf(f.job, sizeof(f.job), "another job");
	b = report(f);
	assert_true(b.opened);
	assert_string_not_equal(a.id, b.id);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
static const struct CMUnitTest tests[] = {
    CASE(counts_kernels_of_slow_and_of_healthy_steps_apart),
    CASE(steps_of_other_work_are_no_reference),
    CASE(a_transient_is_no_slow_step_among_others),
    CASE(phases_that_lost_nothing_hide_none_that_did),
    CASE(a_requested_window_has_ledgers_of_the_phases_that_took_most),
    CASE(slow_steps_are_compared_within_their_phase),
    CASE(a_moment_of_what_was_asked_for_is_not_what_is_typical),
    CASE(steps_that_the_model_does_not_know_are_the_slow_ones),
    CASE(slow_steps_that_nobody_flagged_are_no_reference),
    CASE(leaves_out_steps_that_were_cut_in_two),
    CASE(holder_of_the_gil_is_a_function_not_a_line),
    CASE(gives_functions_in_time_per_step),
    CASE(names_who_ended_its_waits),
    CASE(what_an_interrupt_takes_is_no_time_of_what_it_interrupts),
    CASE(names_native_functions_and_gives_up_on_files_without_symbols),
    CASE(victims_are_the_peers_that_a_cause_is_seen_against),
    CASE(names_the_cause_of_the_culprit),
    CASE(what_all_ranks_wait_for_is_not_what_one_did_for_a_while),
    CASE(a_peer_that_was_late_is_no_measure_of_the_others),
    CASE(a_little_steal_does_not_take_the_blame_of_slow_kernels),
    CASE(memory_of_one_rank_is_its_cause_and_that_of_all_is_none),
    CASE(any_order_of_windows_gives_the_same_verdict),
    CASE(a_excerpt_in_several_places_counts_once),
    CASE(a_job_of_many_excerpts_takes_the_verdict_of_no_other),
    CASE(what_is_closed_gives_room_first),
    CASE(in_a_full_incident_the_culprit_has_room),
    CASE(room_is_counted_right_whatever_comes),
    CASE(lost_segments_of_one_rank_explain_what_others_wait_for),
    CASE(ranks_that_wait_for_each_other_on_the_cpu_are_all_slow),
    CASE(who_waits_on_the_cpu_for_a_late_rank_is_not_slow),
    CASE(who_waited_at_another_time_is_slow),
    CASE(who_waits_little_for_a_late_rank_is_no_second_fault),
    CASE(who_waits_is_said_of_the_rank_that_is_late),
    CASE(of_many_who_wait_on_the_cpu_none_is_slow),
    CASE(collectives_are_divided_once_all_ranks_are_known),
    CASE(who_waits_for_the_last_rank_has_no_slow_transfers),
    CASE(the_rank_that_the_others_waited_for_is_to_blame),
    CASE(ranks_that_others_wait_for_in_turn_are_all_to_blame),
    CASE(who_passes_waiting_on_is_not_to_blame),
    CASE(nor_is_who_waits_for_a_rank_without_a_window),
    CASE(a_rank_that_others_waited_for_is_compared_phase_by_phase),
    CASE(what_others_waited_is_what_the_verdict_has_to_explain),
    CASE(what_costs_little_beside_what_others_waited_is_no_second_fault),
    CASE(a_rank_that_was_asked_and_not_waited_for_is_not_to_blame),
    CASE(the_cause_of_most_of_what_was_lost_is_reported),
    CASE(what_was_shown_once_is_not_lost_to_windows_that_say_less),
    CASE(names_no_cause_where_none_shows),
    CASE(two_faults_at_once_have_a_verdict_each),
    CASE(a_rank_with_another_cause_is_not_named_for_the_first),
    CASE(the_fault_of_the_worst_rank_comes_before_that_of_more_ranks),
    CASE(healthy_steps_from_before_the_fault_are_the_reference),
    CASE(steps_of_another_phase_are_no_reference),
    CASE(steps_of_another_phase_are_better_than_none),
    CASE(a_phase_of_one_rank_alone_is_compared_with_other_phases),
    CASE(what_a_finding_says_of_a_rank_is_reported_with_that_ranks_fault),
    CASE(a_second_fault_that_costs_less_is_reported_too),
    CASE(what_most_other_ranks_lose_too_is_no_second_fault),
    CASE(what_all_other_ranks_lose_too_leaves_one_culprit),
    CASE(what_all_ranks_lose_as_much_is_the_job_s),
    CASE(what_costs_little_beside_a_fault_is_none),
    CASE(who_lost_little_beside_a_fault_is_not_accused),
    CASE(each_rank_lost_what_the_finding_says_of_it),
    CASE(what_node_and_finding_say_of_a_rank_is_one_loss),
    CASE(a_finding_does_not_give_the_loss_of_one_rank_to_another),
    CASE(the_second_of_two_faults_has_its_node_and_signals),
    CASE(faults_of_most_of_a_small_job_have_a_verdict_each),
    CASE(every_rank_is_said_only_of_all),
    CASE(a_moment_is_no_second_fault),
    CASE(moments_of_its_peers_hide_no_fault),
    CASE(moments_of_its_peers_are_not_their_noise),
    CASE(an_echo_without_a_cause_of_its_own_is_not_accused),
    CASE(counts_what_it_costs),
    CASE(has_a_life),
    CASE(a_suspects_functions_are_held_against_its_roles_waterline),
    CASE(sketches_replace_peers_that_sent_nothing_and_have_settings),
    CASE(what_is_slower_than_earlier_runs_is_held_against_those),
    CASE(what_is_slow_all_the_time_is_not_what_a_moment_was),
    CASE(what_peers_show_all_the_time_is_not_what_a_moment_was),
    CASE(a_step_unlike_any_before_is_not_what_short_spells_are),
    CASE(what_is_in_every_fourth_step_is_in_the_mean),
    CASE(what_was_asked_for_too_late_is_not_what_was_slow),
    CASE(a_finding_alone_is_an_incident),
    CASE(refuses_findings_that_make_no_sense),
    CASE(windows_join_the_finding_of_their_fault_and_say_why),
    CASE(another_rank_that_becomes_slow_after_it_is_another_fault),
    CASE(a_finding_holds_its_incident_open_until_it_ends),
    CASE(a_job_that_is_gone_ends_its_findings),
    CASE(a_finding_that_nobody_ends_is_closed_in_the_end),
    CASE(the_same_finding_reported_again_is_one),
    CASE(uniform_degradation_accuses_no_rank),
    CASE(a_hang_is_a_stall_with_the_cause_that_was_found),
    CASE(what_stops_all_alike_hides_no_rank_that_cost_more),
    CASE(what_stops_all_alike_is_a_stall_by_itself),
    CASE(a_rank_hangs_in_what_its_own_window_shows),
    CASE(a_hang_is_compared_with_steps_of_the_kind_before_it),
    CASE(the_ledger_counts_the_slow_steps_of_the_fault),
    CASE(work_that_detection_expects_is_no_excess),
    CASE(a_summary_takes_no_ledger_away),
    CASE(each_slow_step_is_compared_with_steps_of_its_kind),
    CASE(who_was_slow_before_is_not_to_blame_for_a_hang),
    CASE(who_is_to_blame_for_no_hang_is_named_where_all_wait_on_the_cpu),
    CASE(who_waits_in_the_wrong_collective_is_who_detection_names),
    CASE(imbalance_accuses_nobody_and_takes_no_windows),
    CASE(findings_survive_a_restart),
    CASE(what_is_restored_is_as_it_was_reported),
    CASE(a_line_is_stored_with_its_rank),
    CASE(who_was_well_again_has_begun_anew),
    CASE(what_an_earlier_process_reported_goes_on_if_it_is_reported_again),
    CASE(what_an_earlier_process_reported_of_another_rank_ends),
    CASE(ranks_that_are_reported_again_one_by_one_stay_one_incident),
    CASE(what_is_reported_now_outlasts_what_an_earlier_process_reported),
    CASE(what_is_closed_takes_no_room_from_what_is_newer),
    CASE(what_is_built_anew_has_the_room_it_had),
    CASE(findings_of_one_job_touch_no_other),
};

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
