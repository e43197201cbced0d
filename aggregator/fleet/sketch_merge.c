/* SPDX-License-Identifier: Apache-2.0
 * Medians, not means: one unusual rank must not change the role's sketch. */
#include "aggregator/fleet/sketch_merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ledger/function_class.h"
#include "analysis/robust/median.h"
#include "analysis/robust/spread.h"
#include "base/limits.h"
#include "base/order.h"
#include "model/record.h"

#define FIGURES(X)                                                                                 \
	X(latency_ns)                                                                              \
	X(latency_mad_ns)                                                                          \
	X(self_ns)                                                                                 \
	X(self_mad_ns)                                                                             \
	X(compute_ns)                                                                              \
	X(comm_ns)                                                                                 \
	X(exposed_comm_ns) X(copy_ns) X(idle_ns) X(launches) X(cpu_ns) X(off_ns) X(gil_wait_ns)

/* A function or kernel of one sketch. */
struct named {
	const char *name;
	uint32_t kind;
	double figure[3]; /* sorted by the second */
};

ORDER_BY(by_name, struct named, ORDER_UP(kind) ?: ORDER_TEXT(name));

/* Merges runs of equal names in place, and drops those in fewer than half of the n sketches. The
 * number left. */
static uint32_t fold(struct named *v, uint32_t count, uint32_t n, double *scratch)
{
	uint32_t made = 0, begin = 0;

	qsort(v, count, sizeof(*v), by_name);
	while (begin < count) {
		uint32_t end = begin;

		while (end < count && !by_name(&v[begin], &v[end]))
			end++;
		if (2 * (end - begin) >= n) {
			struct named to = v[begin];
			uint32_t have = end - begin < n ? end - begin : n;

			for (int k = 0; k < 3; k++) {
				memset(scratch, 0, n * sizeof(*scratch));
				for (uint32_t i = 0; i < have; i++)
					scratch[i] = v[begin + i].figure[k];
				to.figure[k] = median_of(scratch, n);
			}
			if (to.figure[0] > 0 || to.figure[1] > 0)
				v[made++] = to;
		}
		begin = end;
	}
	return made;
}

ORDER_BY(by_size, struct named, ORDER_DOWN(figure[1]) ?: ORDER_TEXT(name));

/* Merges what n sketches agree on, largest first; the number left. */
static uint32_t merge_named(struct named *v, uint32_t count, uint32_t n, double *scratch,
			    uint32_t most, uint32_t *cut)
{
	count = fold(v, count, n, scratch);
	qsort(v, count, sizeof(*v), by_size);
	if (count <= most)
		return count;
	*cut += count - most;
	return most;
}

/* v: room for all entries of the sketches. False: out of memory for names. */
static bool merge_functions(const struct sketch *const *in, uint32_t n, struct named *v,
			    double *scratch, struct sketch *out)
{
	uint32_t count = 0;
	bool all = true;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < in[i]->function_count; k++) {
			const struct sketch_function *f = &in[i]->functions[k];

			v[count++] = (struct named){
			    f->name, f->kind, {f->self_share, f->total_share, f->off_ns}};
		}
	count = merge_named(v, count, n, scratch, LIMIT_SKETCH_FUNCTIONS, &out->functions_cut);
	for (uint32_t i = 0; i < count; i++) {
		const double *figure = v[i].figure;
		char *name = strdup(v[i].name);

		all &= name != NULL;
		out->functions[i] =
		    (struct sketch_function){name, v[i].kind, figure[0], figure[1], figure[2]};
	}
	out->function_count = count;
	return all;
}

static bool merge_kernels(const struct sketch *const *in, uint32_t n, struct named *v,
			  double *scratch, struct sketch *out)
{
	uint32_t count = 0;
	bool all = true;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < in[i]->kernel_count; k++) {
			const struct sketch_kernel *f = &in[i]->kernels[k];

			v[count++] = (struct named){f->name, 0, {f->per_step, f->ns_per_step, 0}};
		}
	count = merge_named(v, count, n, scratch, LIMIT_SKETCH_KERNELS, &out->kernels_cut);
	for (uint32_t i = 0; i < count; i++) {
		char *name = strdup(v[i].name);

		all &= name != NULL;
		out->kernels[i] = (struct sketch_kernel){name, v[i].figure[0], v[i].figure[1]};
	}
	out->kernel_count = count;
	return all;
}

static const char *setting_of(const struct sketch *s, const char *name)
{
	for (uint32_t i = 0; i < s->setting_count; i++)
		if (!strcmp(s->settings[i].name, name))
			return s->settings[i].value;
	return NULL;
}

static bool merge_settings(const struct sketch *const *in, uint32_t n, struct sketch *out)
{
	for (uint32_t i = 0; i < in[0]->setting_count; i++) {
		const struct sketch_setting *s = &in[0]->settings[i];
		struct sketch_setting *to = &out->settings[out->setting_count];
		bool same = true;

		for (uint32_t k = 1; k < n && same; k++) {
			const char *other = setting_of(in[k], s->name);

			same = other && !strcmp(other, s->value);
		}
		if (!same)
			continue;
		to->name = strdup(s->name);
		to->value = strdup(s->value);
		if (!to->name || !to->value) {
			free(to->name);
			free(to->value);
			return false;
		}
		out->setting_count++;
	}
	return true;
}

int sketch_merge(const struct sketch *const *in, uint32_t n, struct sketch *out)
{
	uint32_t known = 0, functions = 0, kernels = 0;
	struct named *v;
	double *scratch;
	bool all;

	memset(out, 0, sizeof(*out));
	if (!n)
		return -EINVAL;
	out->rank = in[0]->rank;
	out->rank.rank = -1;
	out->begin_ns = UINT64_MAX;
	for (uint32_t i = 0; i < n; i++) {
		out->steps += in[i]->steps;
		out->flagged += in[i]->flagged;
		out->samples += in[i]->samples;
		functions += in[i]->function_count;
		kernels += in[i]->kernel_count;
		if (in[i]->functions_cut > out->functions_cut)
			out->functions_cut = in[i]->functions_cut;
		if (in[i]->kernels_cut > out->kernels_cut)
			out->kernels_cut = in[i]->kernels_cut;
		out->begin_ns = in[i]->begin_ns < out->begin_ns ? in[i]->begin_ns : out->begin_ns;
		out->end_ns = in[i]->end_ns > out->end_ns ? in[i]->end_ns : out->end_ns;
	}
	out->realtime_offset_ns = in[0]->realtime_offset_ns;
	scratch = calloc(n, sizeof(*scratch));
	v = calloc(functions + kernels + 1, sizeof(*v));
	out->functions = calloc(functions + 1, sizeof(*out->functions));
	out->kernels = calloc(kernels + 1, sizeof(*out->kernels));
	out->settings = calloc(in[0]->setting_count + 1, sizeof(*out->settings));
	all = scratch && v && out->functions && out->kernels && out->settings;
#define X(f)                                                                                       \
	known = 0;                                                                                 \
	for (uint32_t i = 0; i < n && all; i++)                                                    \
		if (in[i]->f > 0)                                                                  \
			scratch[known++] = in[i]->f;                                               \
	out->f = 2 * known >= n ? median_of(scratch, known) : 0;
	FIGURES(X)
#undef X
	all = all && merge_functions(in, n, v, scratch, out) &&
	      merge_kernels(in, n, v, scratch, out) && merge_settings(in, n, out);
	free(v);
	free(scratch);
	if (!all)
		wire_sketch_free(out);
	return all ? 0 : -ENOMEM;
}

/* ---- comparing ---- */

static const struct sketch_function *function_in(const struct sketch *s,
						 const struct sketch_function *f)
{
	for (uint32_t i = 0; i < s->function_count; i++)
		if (s->functions[i].kind == f->kind && !strcmp(s->functions[i].name, f->name))
			return &s->functions[i];
	return NULL;
}

static const struct sketch_kernel *kernel_in(const struct sketch *s, const char *name)
{
	for (uint32_t i = 0; i < s->kernel_count; i++)
		if (!strcmp(s->kernels[i].name, name))
			return &s->kernels[i];
	return NULL;
}

static double share_variance(double p, double samples)
{
	return samples >= 1 ? spread_of_share(p, samples, 0.25) : 0.25;
}

/* The function's class gives the cause if the function grew by at least half as much as any other:
 * its callers and callees grow with it. */
static double compare_functions(const struct sketch *base, const struct sketch *now, double delta,
				enum finding_cause *cause, struct finding *f)
{
	double grown = 0, class_share = 0;
	enum finding_cause class_cause = CAUSE_UNKNOWN;

	*cause = CAUSE_SW_HOT_PATH;
	if (!base->function_count || !now->function_count)
		return 0;
	for (uint32_t i = 0; i < now->function_count; i++) {
		const struct sketch_function *n = &now->functions[i], *b = function_in(base, n);
		double before = b ? b->total_share : 0, more = n->total_share - before;
		double self = n->self_share - (b ? b->self_share : 0);
		double error = sqrt(share_variance(n->total_share, now->samples) +
				    share_variance(before, base->samples));

		/* A function missing in a truncated list may have been there. */
		if (more <= delta || more <= 3 * error ||
		    (!b && base->functions_cut && more < 4 * delta))
			continue;
		finding_say(
		    f, LAYER_SOFTWARE, more * now->cpu_ns,
		    "function %.120s: %.2f%% of the CPU time, %.2f%% before (itself %+.2f%%)",
		    n->name, 100 * n->total_share, 100 * before, 100 * self);
		grown = more > grown ? more : grown;
		if (more <= class_share ||
		    function_class_cause(n->name, n->kind, true) == CAUSE_UNKNOWN)
			continue;
		class_share = more;
		class_cause = function_class_cause(n->name, n->kind, true);
	}
	if (class_cause != CAUSE_UNKNOWN && 2 * class_share >= grown)
		*cause = class_cause;
	return grown;
}

/* Growth of the kernel's time per step because each call is slower. More calls do not make the GPU
 * slower, and the earlier run may have had other step boundaries. */
static double slower_by(const struct sketch_kernel *before, const struct sketch_kernel *now)
{
	if (!before || !(before->per_step > 0) || !(now->per_step > 0))
		return 0;
	return now->ns_per_step - before->ns_per_step / before->per_step * now->per_step;
}

static double compare_kernels(const struct sketch *base, const struct sketch *now, double *changed,
			      struct finding *f)
{
	double slower = 0;

	*changed = 0;
	if (!base->kernel_count || !now->kernel_count)
		return 0;
	for (uint32_t i = 0; i < now->kernel_count; i++) {
		const struct sketch_kernel *n = &now->kernels[i], *b = kernel_in(base, n->name);
		double more = slower_by(b, n);

		if (!b && n->ns_per_step < 0.001 * now->latency_ns)
			continue;
		if (!b) {
			finding_say(f, LAYER_SOFTWARE, n->ns_per_step,
				    "kernel %.120s: new, %.1f a step, %.3f ms", n->name,
				    n->per_step, n->ns_per_step / 1e6);
			*changed += n->ns_per_step;
		} else if (more > 0.05 * (n->ns_per_step - more) &&
			   more > 0.0005 * now->latency_ns) {
			/* a collective's kernel includes the wait for its peers */
			bool coll = record_is_coll_kernel(n->name);

			finding_say(f, coll ? LAYER_NETWORK : LAYER_GPU, more,
				    "kernel %.120s: %.1f us each, %.1f before, %.1f a step%s",
				    n->name, n->ns_per_step / n->per_step / 1e3,
				    b->ns_per_step / b->per_step / 1e3, n->per_step,
				    coll ? ", the wait for its peers included" : "");
			slower += coll ? 0 : more;
		}
	}
	for (uint32_t i = 0; i < base->kernel_count; i++) {
		const struct sketch_kernel *b = &base->kernels[i];

		if (!kernel_in(now, b->name) && !now->kernels_cut &&
		    b->ns_per_step > 0.001 * base->latency_ns)
			finding_say(f, LAYER_SOFTWARE, 0,
				    "kernel %.120s: gone, %.3f ms a step before", b->name,
				    b->ns_per_step / 1e6);
	}
	return slower;
}

enum finding_cause sketch_merge_compare(const struct sketch *base, const struct sketch *now,
					double delta, struct finding *f)
{
	double changed, slower = compare_kernels(base, now, &changed, f);
	enum finding_cause hot;
	double grown = compare_functions(base, now, delta, &hot, f);
	double excess = now->latency_ns - base->latency_ns;

	if (changed > 0 && changed + slower >= 0.3 * excess)
		return CAUSE_SW_KERNELS;
	if (slower > 0 && slower >= 0.5 * excess)
		return CAUSE_GPU_SLOW;
	return grown > 0 ? hot : CAUSE_UNKNOWN;
}
