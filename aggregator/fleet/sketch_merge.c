/* SPDX-License-Identifier: Apache-2.0
 * Medians, not means: one unusual rank must not change the role's sketch. */
#include "aggregator/fleet/sketch_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/limits.h"
#include "base/order.h"

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
	double figure[3]; /* entries are sorted by figure[1] */
};

ORDER_BY(by_name, struct named, ORDER_UP(kind) ?: ORDER_TEXT(name));

/* Merges runs of equal names in place, and drops names that are in fewer than half of the n
 * sketches. Returns the number of names left. */
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

/* Merges the entries of n sketches, largest first. Returns the number left. */
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
