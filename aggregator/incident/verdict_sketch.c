/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/incident/verdict_sketch.h"

#include <stdlib.h>
#include <string.h>

void verdict_sketch_init(struct verdict_sketches *s)
{
	memset(s, 0, sizeof(*s));
}

void verdict_sketch_fini(struct verdict_sketches *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		wire_sketch_free(&s->sketch[i]);
	for (uint32_t i = 0; i < s->made_count; i++)
		free(s->made[i]);
}

struct sketch *verdict_sketch_room(struct verdict_sketches *s)
{
	return s->count < VERDICT_SKETCHES ? &s->sketch[s->count] : NULL;
}

static void *make(struct verdict_sketches *s, uint32_t count, size_t item)
{
	void *p = calloc((size_t)count + 1, item);

	if (p)
		s->made[s->made_count++] = p;
	return p;
}

static double known(double x)
{
	return x > 0 ? x : -1;
}

static void figures(const struct sketch *k, struct diagnosis_rank *r)
{
	*r = (struct diagnosis_rank){
	    .rank = k->rank.rank,
	    .steps = k->steps < UINT32_MAX ? (uint32_t)k->steps : UINT32_MAX,
	    .step_ns = known(k->latency_ns),
	    .self_ns = known(k->self_ns),
	    .compute_ns = known(k->compute_ns),
	    .comm_ns = known(k->comm_ns),
	    .exposed_comm_ns = k->latency_ns > 0 ? k->exposed_comm_ns : -1,
	    .copy_ns = k->latency_ns > 0 ? k->copy_ns : -1,
	    .idle_ns = k->latency_ns > 0 ? k->idle_ns : -1,
	    .kernels = known(k->launches),
	    .cpu_ns = k->cpu_ns,
	    .samples = k->cpu_ns > 0 ? k->samples : 0,
	    .off_ns = k->off_ns,
	    .gil_wait_ns = k->gil_wait_ns,
	};
}

const struct diagnosis_rank *verdict_sketch_take(struct verdict_sketches *s)
{
	return verdict_sketch_borrow(s, &s->sketch[s->count++]);
}

const struct diagnosis_rank *verdict_sketch_borrow(struct verdict_sketches *s,
						   const struct sketch *k)
{
	struct diagnosis_rank *r = &s->rank[s->rank_count++];
	struct diagnosis_function *f = make(s, k->function_count, sizeof(*f));
	struct diagnosis_kernel *d = make(s, k->kernel_count, sizeof(*d));
	struct diagnosis_setting *v = make(s, k->setting_count, sizeof(*v));

	if (!f || !d || !v)
		return NULL;
	figures(k, r);
	for (uint32_t i = 0; i < k->function_count; i++)
		f[i] =
		    (struct diagnosis_function){.name = k->functions[i].name,
						.kind = (uint8_t)k->functions[i].kind,
						.self_ns = k->functions[i].self_share * k->cpu_ns,
						.total_ns = k->functions[i].total_share * k->cpu_ns,
						.off_ns = k->functions[i].off_ns};
	for (uint32_t i = 0; i < k->kernel_count; i++)
		d[i] = (struct diagnosis_kernel){.name = k->kernels[i].name,
						 .count = k->kernels[i].per_step,
						 .total_ns = k->kernels[i].ns_per_step,
						 .collective =
						     record_is_coll_kernel(k->kernels[i].name)};
	for (uint32_t i = 0; i < k->setting_count; i++)
		v[i] = (struct diagnosis_setting){k->settings[i].name, k->settings[i].value};
	r->function = f;
	r->function_count = k->function_count;
	r->kernel = d;
	r->kernel_count = k->kernel_count;
	r->setting = v;
	r->setting_count = k->setting_count;
	return r;
}

void verdict_sketch_fill(struct diagnosis_rank *to, const struct diagnosis_rank *from)
{
	if (!to->setting_count) {
		to->setting = from->setting;
		to->setting_count = from->setting_count;
	}
	if (!(to->samples > 0) && from->samples > 0) {
		to->function = from->function;
		to->function_count = from->function_count;
		to->cpu_ns = from->cpu_ns;
		to->samples = from->samples;
		to->off_ns = from->off_ns;
		to->gil_wait_ns = from->gil_wait_ns;
	}
	if (!to->kernel_count) {
		to->kernel = from->kernel;
		to->kernel_count = from->kernel_count;
	}
}

enum finding_cause verdict_sketch_compare(const struct sketch *base, const struct sketch *now,
					  double lost_ns, struct finding *f)
{
	struct verdict_sketches *s = malloc(sizeof(*s));
	struct diagnosis *d = malloc(sizeof(*d));
	const struct diagnosis_rank *before = NULL, *rank = NULL;
	enum finding_cause cause = CAUSE_SW_SLOWER;

	if (s && d) {
		verdict_sketch_init(s);
		before = verdict_sketch_borrow(s, base);
		rank = verdict_sketch_borrow(s, now);
	}
	if (before && rank) {
		struct diagnosis_rank slow = *rank;

		slow.lost_ns = lost_ns;
		diagnosis_make(&(struct diagnosis_input){.kind = FINDING_UNIFORM,
							 .suspect = &slow,
							 .suspect_count = 1,
							 .before = before},
			       d);
		cause = d->cause;
		for (uint32_t i = 0; i < d->evidence_count; i++)
			if (f->evidence_count < FINDING_EVIDENCE_MAX)
				f->evidence[f->evidence_count++] = d->evidence[i];
	}
	if (s && d)
		verdict_sketch_fini(s);
	free(s);
	free(d);
	return cause;
}
