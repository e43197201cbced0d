/* SPDX-License-Identifier: Apache-2.0
 * fuzz_judge - any sequence of steps through kinds, roofline and growth. No figure of a verdict is
 * impossible, what is flagged is out, and a second judge, in memory with other old contents, says the
 * same. Byte 0: the settings; then 8 bytes for each series of up to 32 steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/expect/judge.h"
#include "base/check.h"
#include "tests/fuzz/fuzz_budget.h"

#define STEPS_MAX 224u

/* Models of up to 100 steps, fitted again and again. */
struct fuzz_bounds fuzz_bounds = {
    .allocated = 16u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 1000000,
    .cpu_ns_per_byte = 1000000,
};

struct subject {
	struct judge *judge[2];
	struct roofline *model;
	uint64_t index, end_ns;
	uint32_t random, pushed;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void *filled(size_t bytes, int with)
{
	size_t whole = (bytes + 63) & ~(size_t)63;
	void *memory = aligned_alloc(64, whole);

	CHECK(memory);
	return memset(memory, with, whole);
}

/* From -1 to 1. */
static double noise(struct subject *t)
{
	t->random = t->random * 1664525u + 1013904223u;
	return (t->random >> 8) / 8388608.0 - 1;
}

static double work_of(uint8_t v)
{
	static const double odd[] = {-1, -0.0, 1e18, 1e300, INFINITY, -INFINITY, NAN};

	if (v >= 256 - 7)
		return odd[v - (256 - 7)];
	return v ? exp2((v - 64) / 2.0) : 0;
}

static uint64_t ns_of(double ns)
{
	return ns < 0 ? 0 : ns < 0x1p63 ? (uint64_t)ns : UINT64_MAX;
}

static struct step step_of(struct subject *t, const uint8_t *p)
{
	double ns = exp2(p[2] / 4.0) * (1 + (p[1] >> 6) * 0.02 * noise(t));
	struct step s = {.index = t->index++,
			 .source = p[1] & 2 ? STEP_SOURCE_EXPLICIT : STEP_SOURCE_AUTO,
			 .phase = p[0] >> 5,
			 .kernels = p[1] & 8 ? 0 : 10,
			 .launches = p[1] & 8 ? p[6] : 10,
			 .flags =
			     (p[1] & 1 ? STEP_FLAG_STATED : 0) | (p[1] & 4 ? STEP_FLAG_GAP : 0),
			 .work_count = p[6] & 7};

	s.key = steps_key(s.source, s.phase);
	s.latency_ns = ns_of(ns);
	s.self_ns = ns_of(ns * p[3] / 200);
	s.compute_ns = ns_of(ns * p[7] / 255);
	s.copy_ns = ns_of(ns * (p[7] & 15) / 255);
	s.begin_ns = t->end_ns;
	s.end_ns = t->end_ns += p[1] & 32 ? -s.latency_ns : s.latency_ns;
	for (uint32_t i = 0; i < STEP_WORK_MAX; i++)
		s.work[i] = work_of(p[4 + i % 2]) * (i < 2 ? 1 : 1 + noise(t));
	return s;
}

static bool is_same(double a, double b)
{
	return !memcmp(&a, &b, sizeof(a));
}

static void check_judge(struct subject *t, const struct step *s)
{
	struct judge_verdict v = judge_push(t->judge[0], s, 0), w = judge_push(t->judge[1], s, 0);
	struct kinds_row row[KINDS_PLACES + KINDS_WORKS];
	struct judge_model_row model[JUDGE_MODELS];
	uint32_t rows, models;

	CHECK(v.skip == w.skip && v.state == w.state && v.out == w.out && v.flagged == w.flagged &&
	      v.self == w.self && v.of_kind == w.of_kind && v.first == w.first &&
	      v.drift == w.drift && v.spike == w.spike && v.period == w.period);
	CHECK(is_same(v.expected_ns, w.expected_ns) && is_same(v.excess, w.excess) &&
	      is_same(v.expected_self_ns, w.expected_self_ns) &&
	      is_same(v.self_excess, w.self_excess));
	CHECK(isfinite(v.expected_ns) && v.expected_ns >= 0 && isfinite(v.expected_self_ns) &&
	      v.expected_self_ns >= 0 && isfinite(v.excess) && v.excess >= -1 &&
	      isfinite(v.self_excess) && v.self_excess >= -1);
	CHECK(!v.flagged || v.out);
	CHECK(!v.self || v.flagged);
	CHECK(!v.spike || s->flags & STEP_FLAG_STATED);
	CHECK(!v.of_kind || v.expected_ns > 0);
	if (t->pushed++ % 64)
		return;
	rows = judge_kinds(t->judge[0], row, KINDS_PLACES + KINDS_WORKS);
	for (uint32_t i = 0; i < rows; i++)
		CHECK(isfinite(row[i].cost_ns) && row[i].cost_ns >= 0 && row[i].share >= 0 &&
		      row[i].count && row[i].part < KINDS_PARTS &&
		      (!i || row[i].share <= row[i - 1].share));
	models = judge_models(t->judge[0], model, JUDGE_MODELS);
	for (uint32_t i = 0; i < models; i++)
		CHECK(isfinite(model[i].fit.threshold) && isfinite(model[i].fit.spread) &&
		      isfinite(model[i].fit.r2) && isfinite(model[i].fit.intercept_ns) &&
		      model[i].fit.flagged <= model[i].fit.out &&
		      model[i].fit.out <= model[i].fit.steps);
}

static void check_model(struct subject *t, const struct step *s)
{
	struct roofline_verdict v =
	    roofline_push(t->model, s->work, s->work_count, (double)s->latency_ns);

	CHECK(isfinite(v.expected_ns) && v.expected_ns >= 0 && isfinite(v.excess) &&
	      isfinite(v.threshold) && v.threshold >= 0);
	CHECK(!v.flagged || v.out);
	CHECK(!v.persists || v.flagged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct subject t = {.random = 1, .end_ns = 1ull << 40};
	struct roofline_set *set;
	struct judge_config c;

	if (!bytes)
		return 0;
	judge_config_default(&c);
	c.roofline.learn_max = 40 + 4 * (data[0] & 15);
	c.roofline.floor_ratio = data[0] & 16 ? 0 : c.roofline.floor_ratio;
	c.roofline.instant_mads = data[0] & 32 ? 20 : 0;
	c.step_min_ns = data[0] & 64 ? 0 : c.step_min_ns;
	set = roofline_set_init(filled(roofline_set_memory_bytes(&c.roofline, 1), 0xff),
				&c.roofline, 1);
	t.model = roofline_set_get(set, 0);
	for (int i = 0; i < 2; i++)
		t.judge[i] = judge_init(filled(judge_memory_bytes(&c), i ? 0xff : 0), &c);
	for (data++, bytes--; bytes >= 8; data += 8, bytes -= 8) {
		if (data[1] & 16) /* time and numbers may step */
			t.index +=
			    data[1] & 32 ? -(uint64_t)data[7] : (uint64_t)exp2(data[7] / 4.1);
		for (uint32_t i = 0; i <= (data[0] & 31u) && t.pushed < STEPS_MAX; i++) {
			struct step s = step_of(&t, data);

			check_judge(&t, &s);
			check_model(&t, &s);
		}
	}
	for (int i = 0; i < 2; i++)
		free(t.judge[i]);
	free(set);
	return 0;
}
