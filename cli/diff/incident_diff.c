/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diff/incident_diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/jsonget.h"
#include "base/limits.h"
#include "cli/profile/folded.h"
#include "cli/profile/incident_stacks.h"
#include "cli/profile/profile_flame.h"
#include "cli/report/kernel_diff.h"
#include "model/kernel_name.h"
#include "render/term.h"

#define SPANS_DEEP 6u
#define THREADS	   64u
/* From 900 samples on, a function with a tenth of the time has a standard error of 1 point. */
#define SAMPLES_FEW 900u

static bool accused(const json_t *in, int rank)
{
	return jsonget_has(json_object_get(in, "ranks"), rank);
}

static double weight_of(const struct trace_rank *r)
{
	return (double)r->device_count + 100.0 * r->stacks.sample_count + (double)r->step_count;
}

const struct trace_rank *incident_diff_culprit(const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *best = NULL;

	for (size_t i = 0; i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];

		if (accused(in, r->who.rank) && (!best || weight_of(r) > weight_of(best)))
			best = r;
	}
	return best;
}

/* How long both were observed at the same time. */
static double common_ns(const struct trace_rank *a, const struct trace_rank *b)
{
	double sum = 0;

	for (size_t i = 0; i < a->window_count; i++)
		for (size_t k = 0; k < b->window_count; k++) {
			uint64_t from = a->windows[i].begin_ns, to = a->windows[i].end_ns;

			from = from > b->windows[k].begin_ns ? from : b->windows[k].begin_ns;
			to = to < b->windows[k].end_ns ? to : b->windows[k].end_ns;
			sum += to > from ? (double)(to - from) : 0;
		}
	return sum;
}

const struct trace_rank *incident_diff_peer(const json_t *in, const struct trace_model *m,
					    const struct trace_rank *culprit)
{
	const struct trace_rank *best = NULL;
	double best_score = -1;

	for (size_t i = 0; culprit && i < m->rank_count; i++) {
		const struct trace_rank *r = &m->ranks[i];
		double score = common_ns(culprit, r) / 1e9;

		if (r == culprit || accused(in, r->who.rank) ||
		    strcmp(r->who.job, culprit->who.job) ||
		    strcmp(r->who.role, culprit->who.role) ||
		    (!r->stacks.sample_count && !r->device_count))
			continue;
		score += r->stacks.sample_count && culprit->stacks.sample_count ? 2e6 : 0;
		score += r->device_count && culprit->device_count ? 1e6 : 0;
		if (score > best_score) {
			best_score = score;
			best = r;
		}
	}
	return best;
}

/* ---- the GPU ---- */

/* Per host record the innermost span in which it began, as index + 1. Records are in order of start,
 * longer ones first. */
static uint32_t *find_spans(const struct trace_rank *r)
{
	struct {
		uint32_t thread, depth, open[SPANS_DEEP];
	} *t = calloc(THREADS, sizeof(*t));
	uint32_t *in = calloc(r->host_count + 1, sizeof(*in)), threads = 0;

	for (uint32_t i = 0; t && in && i < r->host_count; i++) {
		const struct record *h = &r->host[i];
		uint32_t k = 0;

		while (k < threads && t[k].thread != h->thread)
			k++;
		if (k == THREADS)
			continue;
		if (k == threads)
			t[threads++].thread = h->thread;
		while (t[k].depth && r->host[t[k].open[t[k].depth - 1] - 1].end_ns <= h->begin_ns)
			t[k].depth--;
		in[i] = t[k].depth ? t[k].open[t[k].depth - 1] : 0;
		if (h->kind == RECORD_SPAN && t[k].depth < SPANS_DEEP)
			t[k].open[t[k].depth++] = i + 1;
	}
	free(t);
	return in;
}

static const char *class_of(const struct trace_model *m, const struct record *d)
{
	if (d->kind == RECORD_COLL_KERNEL)
		return "communication";
	if (d->kind == RECORD_COPY || d->kind == RECORD_MEMSET)
		return "copies";
	if ((d->flags & RECORD_FLAG_OPTIMIZER) || record_is_optimizer(m->names.text[d->name]))
		return "optimizer";
	return d->flags & RECORD_FLAG_GRAPH ? "compute in graphs" : "compute";
}

struct gpu {
	struct profile_tree *t;
	const struct trace_model *m;
	const struct trace_rank *r;
	uint32_t *span;
	const char **base, **full; /* per name of the model, made on first use; owned by the tree */
	bool phases;		   /* steps have several kinds */
};

static int name_kernel(struct gpu *g, uint32_t name)
{
	struct kernel_name k;
	int err;

	if (g->base[name])
		return 0;
	err = kernel_name_parse(&k, *g->m->names.text[name] ? g->m->names.text[name]
							    : "(name unknown)");
	if (err)
		return err;
	g->base[name] = k.base;
	g->full[name] = k.full;
	k.base = k.full = NULL;
	kernel_name_free(&k);
	err = profile_tree_keep(g->t, (char *)(uintptr_t)g->base[name]);
	if (err)
		free((char *)(uintptr_t)g->full[name]);
	return err ? err : profile_tree_keep(g->t, (char *)(uintptr_t)g->full[name]);
}

static const char *phase_name(const struct gpu *g, const struct step *s)
{
	if (s->source == STEP_SOURCE_EXPLICIT && s->phase && s->phase < g->m->names.count)
		return g->m->names.text[s->phase];
	return s->phase == 0   ? "steps, first kind"
	       : s->phase == 1 ? "steps, second kind"
			       : "steps, other kinds";
}

static int add_kernel(struct gpu *g, const struct record *d, const struct step *s)
{
	struct profile_node f[SPANS_DEEP + 4];
	uint32_t chain[SPANS_DEEP], n = 0, spans = 0;
	ptrdiff_t launch = trace_model_launch(g->r, d);
	int err = name_kernel(g, d->name);

	memset(f, 0, sizeof(f));
	if (err)
		return err;
	if (g->phases)
		f[n++] =
		    (struct profile_node){.function = phase_name(g, s), .kind = PROFILE_GPU_PHASE};
	for (uint32_t at = launch < 0 ? 0 : g->span[launch]; at && spans < SPANS_DEEP;
	     at = g->span[at - 1])
		chain[spans++] = at - 1;
	while (spans--)
		f[n++] = (struct profile_node){.function =
						   g->m->names.text[g->r->host[chain[spans]].name],
					       .kind = PROFILE_GPU_PHASE};
	f[n++] = (struct profile_node){.function = class_of(g->m, d), .kind = PROFILE_GPU_PHASE};
	f[n++] = (struct profile_node){.function = g->base[d->name], .kind = PROFILE_GPU_KERNEL};
	if (strcmp(g->full[d->name], g->base[d->name]))
		f[n++] =
		    (struct profile_node){.function = g->full[d->name], .kind = PROFILE_GPU_KERNEL};
	return profile_tree_add_gpu(g->t, f, n, (double)(d->end_ns - d->begin_ns));
}

/* Adds its GPU time per step, over steps with all their records; *steps: their number. */
static int add_gpu(struct incident_diff *diff, const struct trace_model *m,
		   const struct trace_rank *r, bool to_base)
{
	struct gpu g = {.t = &diff->tree, .m = m, .r = r};
	size_t slow = 0, normal = 0, *steps = &diff->gpu_steps[!to_base];
	uint8_t *whole = kernel_diff_whole(r, &slow, &normal);
	bool only_slow = !to_base && slow;
	int err = 0;

	g.span = find_spans(r);
	g.base = calloc(m->names.count + 1ull, sizeof(*g.base));
	g.full = calloc(m->names.count + 1ull, sizeof(*g.full));
	if (!whole || !g.span || !g.base || !g.full)
		err = -ENOMEM;
	*steps = only_slow ? slow : slow + normal;
	diff->tree.to_base = to_base;
	diff->tree.scale = *steps ? 1.0 / (double)*steps : 0;
	for (size_t i = 1; i < r->step_count && !err; i++)
		g.phases |= r->steps[i].step.phase != r->steps[0].step.phase;
	for (size_t i = 0; i < r->device_count && !err && *steps; i++) {
		const struct record *d = &r->device[i];
		ptrdiff_t s = kernel_diff_step(r, d);

		if (s >= 0 && whole[s] && (!only_slow || trace_step_is_slow(&r->steps[s])))
			err = add_kernel(&g, d, &r->steps[s].step);
	}
	free(whole);
	free(g.span);
	free(g.base);
	free(g.full);
	return err;
}

/* ---- both ---- */

/* The number of steps that a rank's stacks cover; 0: not known. */
static double covered_steps(const struct trace_rank *r)
{
	double sum = 0;

	for (size_t i = 0; i < r->step_count; i++)
		sum += (double)r->steps[i].step.latency_ns;
	return sum > 0 ? (double)trace_model_covered_ns(r) * (double)r->step_count / sum : 0;
}

static int add_cpu(struct incident_diff *d)
{
	const struct trace_rank *r[2] = {d->base, d->other};
	double steps[2] = {covered_steps(r[0]), covered_steps(r[1])};
	int err = 0;

	d->per_step = steps[0] > 0 && steps[1] > 0;
	for (int i = 0; i < 2 && !err; i++) {
		double covered = (double)trace_model_covered_ns(r[i]);

		d->tree.to_base = i == 0;
		d->tree.scale = d->per_step ? 1 / steps[i] : covered > 0 ? 1e9 / covered : 0;
		err = incident_stacks_names(r[i], &d->names[i]);
		if (!err)
			err = profile_tree_add(&d->tree, &r[i]->stacks, d->names[i],
					       PROFILE_BY_THREAD_NAME);
	}
	return err;
}

int incident_diff_make(struct incident_diff *d, const struct trace_model *m,
		       const struct trace_rank *base, const struct trace_rank *other)
{
	int err;

	memset(d, 0, sizeof(*d));
	d->base = base;
	d->other = other;
	d->has_cpu = base->stacks.sample_count && other->stacks.sample_count;
	d->has_gpu = base->device_count && other->device_count;
	if (!d->has_cpu && !d->has_gpu)
		return -ENODATA;
	d->per_step = true;
	err = profile_tree_init(&d->tree);
	if (!err)
		d->tree.differs = true;
	if (!err && d->has_cpu)
		err = add_cpu(d);
	if (!err && d->has_gpu && d->per_step) {
		err = add_gpu(d, m, base, true);
		if (!err)
			err = add_gpu(d, m, other, false);
		d->has_gpu = d->gpu_steps[0] && d->gpu_steps[1];
	} else {
		d->has_gpu = false;
	}
	if (err)
		incident_diff_free(d);
	return err;
}

void incident_diff_free(struct incident_diff *d)
{
	profile_tree_fini(&d->tree);
	profile_names_close(d->names[0]);
	profile_names_close(d->names[1]);
	memset(d, 0, sizeof(*d));
}

uint64_t incident_diff_samples(const struct trace_rank *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->stacks.sample_count; i++)
		n += r->stacks.samples[i].kind == STACK_ON_CPU ? r->stacks.samples[i].count : 0;
	return n;
}

const char *incident_diff_name(const struct incident_diff *d, bool other)
{
	char text[64];

	snprintf(text, sizeof(text), "%s%s", term_rank((other ? d->other : d->base)->who.rank),
		 other ? "" : " (healthy)");
	return term_safe(text, 60);
}

int incident_diff_page(FILE *to, const struct incident_diff *d, const char *title, double share_min)
{
	char base[64], other[64], note[500];
	const struct profile_flame page = {.title = title,
					   .note = note,
					   .share_min = share_min,
					   .base = base,
					   .other = other,
					   .open = d->open,
					   .unit = d->per_step ? " per step" : " per second"};
	int n = 0;

	snprintf(base, sizeof(base), "%s", incident_diff_name(d, false));
	snprintf(other, sizeof(other), "%s", incident_diff_name(d, true));
	if (d->has_gpu)
		n = snprintf(note, sizeof(note), "GPU: means of %zu steps of %s and %zu of %s. ",
			     d->gpu_steps[0], base, d->gpu_steps[1], other);
	if (d->has_cpu) {
		uint64_t had[2] = {incident_diff_samples(d->base), incident_diff_samples(d->other)};

		n += snprintf(note + n, sizeof(note) - (size_t)n, "CPU: %s and %s samples%s. ",
			      term_count((double)had[0]), term_count((double)had[1]),
			      had[0] < SAMPLES_FEW || had[1] < SAMPLES_FEW
				  ? "; too few for small differences to count"
				  : "");
	}
	snprintf(note + n, sizeof(note) - (size_t)n,
		 "Red: %s takes more. Blue, hatched: less. Grey: common to both.", other);
	return profile_flame_page(to, &d->tree, &page);
}

/* ---- functions ---- */

static int add_stack(struct profile *p, const struct stack_batch *b, struct profile_names *names,
		     bool files, const struct stack_sample *s)
{
	char *frame[LIMIT_STACK_DEPTH];
	const struct stack *st = &b->stacks[s->stack];
	uint32_t n = 0;
	int err = 0;

	for (uint32_t i = st->count; i-- && n < LIMIT_STACK_DEPTH && !err;) {
		struct profile_name name;

		err = profile_names_get(names, st->first + i, &name);
		if (err)
			break;
		frame[n] = folded_name(name.kind, name.function, files ? name.file : "Python");
		if (frame[n])
			n++;
		else
			err = -ENOMEM;
	}
	if (!err && n)
		err = profile_add(p, (const char *const *)frame, n, (double)s->weight_ns, s->count);
	while (n)
		free(frame[--n]);
	return err == -E2BIG ? 0 : err; /* profile_dropped() counts it */
}

int incident_diff_profile(struct profile **out, const struct stack_batch *b,
			  struct profile_names *names, bool files)
{
	int err = profile_open(out, keyed_process());

	for (uint32_t i = 0; i < b->sample_count && !err; i++)
		if (b->samples[i].kind == STACK_ON_CPU && b->samples[i].count)
			err = add_stack(*out, b, names, files, &b->samples[i]);
	if (err) {
		profile_close(*out);
		*out = NULL;
	}
	return err;
}
