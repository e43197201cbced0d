/* SPDX-License-Identifier: Apache-2.0
 * Every rank is measured against itself before it is measured against others: real ranks differ for
 * good (embedding tables, stages, input), and that difference is no fault. */
#include "analysis/crossrank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/crossrank_private.h"
#include "analysis/median.h"
#include "analysis/skew.h"

/* Steps of the shortest stretch. */
#define STRETCH_MIN 3u
/* A stretch of L steps exceeds FLOOR / sqrt(L), and the least that is ever told. */
#define FLOOR	    0.06
#define FLOOR_LEAST 0.001
/* What all wait for together has neither a host's bursts nor other work in it, which the floor is for: a
 * quarter of it is told. */
#define TRANSFER_UNIT 4.0
/* Of a level that may be a rank's usual one: share of its steps. */
#define USUAL_SHARE 0.1
/* A level is above the usual one with this share of the threshold. */
#define ABOVE_MIN 0.5
/* And is told with this one: how far it lies above the usual level is what counts, not how far a
 * stretch between the two did. */
#define TOLD_MIN 0.9
/* Values count up to so many standard deviations about their stretch's median. */
#define MEAN_CLIP 3.0
/* Levels that follow each other are one fault with this share of each other's height. */
#define SAME_FAULT 0.3
/* Share of a stretch's steps that lie above the usual level. */
#define AGREE_MIN 0.55
/* Of a short one nearly all, by a third of it: two wild steps are no stretch. */
#define SHORT_MAX   5u
#define AGREE_SHORT 0.8
/* In standard deviations: each single step shows it. */
#define CLEAR 4.0
/* A rank that became slow rose itself by this share of what it exceeds its peers by. */
#define ROSE_MIN 0.4
/* Of a rise that most ranks share, those that rose by half of it are slow. */
#define SHARED_MIN 0.5
/* And who rose less than all by no more than so many standard errors of a median. */
#define STAYED_SIGMAS 3.0
#define MEDIAN_ERROR  1.2533
/* Noise of a single rank: at least this share of that of all. */
#define OWN_NOISE_MIN 0.7
/* No series is less noisy: clocks of 1 us, and what nobody cares about. */
#define NOISE_LEAST 0.0005
#define NOISE_NS    1000.0
/* Steps with so much other work than usual, on all ranks, are no part of the temporal comparison.
 */
#define WORK_OTHER 0.05
/* A rise counts only after so many steps without it. */
#define BEFORE_MIN 3u
/* Slow in all steps: this much above the typical rank and so many robust deviations of the ranks'
 * ratios, in this share of at least so many names, each seen on so many others. */
#define CONSTANT_MIN	 0.08
#define CONSTANT_SPREADS 6.0
#define CONSTANT_AGREE	 0.75
#define CONSTANT_NAMES	 4u
#define CONSTANT_OTHERS	 2u
#define CONSTANT_SURE	 0.7
/* Steps of the shortest stretch that single kernels tell. */
#define LEAD_STEPS_MIN 5u
/* So many kernels that are slow each are the GPU. */
#define LEADS_ALL 3u
/* Stretches of several ranks this equal are one fault. */
#define EQUAL_STEPS 2u
#define EQUAL_SHARE 0.1

void crossrank_config_default(struct crossrank_config *c)
{
	*c = (struct crossrank_config){.mode = PEERS_ROBUST, .wrong = 1e-3};
}

double crossrank_median(const double *v, uint32_t first, uint32_t last, double *scratch)
{
	uint32_t n = 0;

	for (uint32_t i = first; i <= last; i++)
		if (!isnan(v[i]))
			scratch[n++] = v[i];
	return n ? median_of(scratch, n) : NAN;
}

bool crossrank_slow_in(const struct crossrank *c, uint32_t r, uint32_t s)
{
	for (uint32_t i = 0; i < c->stretches; i++)
		if (c->stretch[i].rank == r && s >= c->stretch[i].first && s <= c->stretch[i].last)
			return true;
	return false;
}

double crossrank_rise(const struct crossrank *c, enum crossrank_what what, uint32_t r,
		      uint32_t first, uint32_t last)
{
	const double *v = c->own[what] + (size_t)r * c->n;
	uint32_t in = 0, out = 0;
	double inside;

	for (uint32_t s = first; s <= last; s++)
		if (!isnan(v[s]))
			c->scratch[in++] = v[s];
	inside = median_of(c->scratch, in);
	for (uint32_t s = 0; s < c->n; s++)
		if (!isnan(v[s]) && (s < first || s > last) && !crossrank_slow_in(c, r, s))
			c->scratch[out++] = v[s];
	if (!in || out < BEFORE_MIN)
		return NAN;
	return inside - median_of(c->scratch, out);
}

/* ---- series ---- */

static void own_series(struct crossrank *c, enum crossrank_what what, const double *value,
		       double typical)
{
	for (uint32_t r = 0; r < c->ranks; r++) {
		const double *v = value + (size_t)r * c->n;
		double *own = c->own[what] + (size_t)r * c->n;
		double usual = crossrank_median(v, 0, c->n - 1, c->scratch);
		/* little own time is told in parts of the typical rank's */
		double unit = usual > typical / 4 ? usual : typical;

		for (uint32_t s = 0; s < c->n; s++)
			own[s] = unit > 0 ? (v[s] - usual) / unit : NAN;
	}
}

struct ranked {
	double value;
	uint32_t rank;
};

static int ranked_order(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	return (a->value > b->value) - (a->value < b->value);
}

/* The median of v[0..n), sorted, without v[at]; n > 1. */
static double median_without(const struct ranked *v, uint32_t n, uint32_t at)
{
	uint32_t half = (n - 1) / 2, low = half - 1 + (half - 1 >= at), high = half + (half >= at);

	if (n % 2) /* an even number of others */
		return (v[low].value + v[high].value) / 2;
	return v[high].value;
}

static void against_peers(struct crossrank *c, enum crossrank_what what)
{
	struct ranked *v = (struct ranked *)c->scratch;

	for (uint32_t s = 0; s < c->n; s++) {
		uint32_t n = 0;

		for (uint32_t r = 0; r < c->ranks; r++) {
			double x = c->own[what][(size_t)r * c->n + s];

			c->against[what][(size_t)r * c->n + s] = NAN;
			if (!isnan(x))
				v[n++] = (struct ranked){x, r};
		}
		qsort(v, n, sizeof(*v), ranked_order);
		for (uint32_t i = 0; i < n && n > 1; i++)
			c->against[what][(size_t)v[i].rank * c->n + s] =
			    v[i].value - median_without(v, n, i);
	}
}

static void series_make(struct crossrank *c)
{
	const double *self = c->steps->value[JOBSTEPS_SELF];
	size_t cells = (size_t)c->ranks * c->n;
	uint32_t n = 0;

	for (size_t i = 0; i < cells; i++)
		if (!isnan(self[i]))
			c->scratch[n++] = self[i];
	c->typical_ns = median_of(c->scratch, n);
	own_series(c, CROSSRANK_OWN, self, c->typical_ns);
	own_series(c, CROSSRANK_PACE, c->steps->value[JOBSTEPS_PACE], 0);
	against_peers(c, CROSSRANK_OWN);
	against_peers(c, CROSSRANK_PACE);
}

/* One name's pace. Not against that of all kernels: when one name slows, all others would seem to
 * gain. */
static void lead_series(struct crossrank *c, uint32_t lead)
{
	c->lead = lead;
	own_series(c, CROSSRANK_LEAD, c->steps->lead_pace[lead], 0);
	against_peers(c, CROSSRANK_LEAD);
}

/* ---- stretches of one series ---- */

struct found {
	uint32_t first, last, sure;
	double excess, score;
};

/* The lowest level that holds for long enough; all levels are above or at it. */
static double usual_level(const struct level *v, uint32_t n, uint32_t known)
{
	double least = INFINITY, longest_value = 0;
	uint32_t longest = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t length = v[i].last - v[i].first + 1;

		if (length > longest) {
			longest = length;
			longest_value = v[i].value;
		}
		if (length >= STRETCH_MIN && length >= USUAL_SHARE * known && v[i].value < least)
			least = v[i].value;
	}
	return isfinite(least) ? least : longest_value;
}

static double floor_of(uint32_t length)
{
	return fmax(FLOOR / sqrt((double)length), FLOOR_LEAST);
}

/* The level that all others lie above or at, and how many steps are known of it. */
struct usual {
	double value;
	uint32_t steps;
};

/* Standard error of a mean of so many steps less the usual level. */
static double error_above(const struct levels_noise *noise, uint32_t length,
			  const struct usual *usual)
{
	return hypot(levels_error(noise, length), levels_error(noise, usual->steps));
}

/* The mean of all but the largest of v[0..n), n > 1, each no further than `most` from mid: one wild step
 * and what spills from it into its neighbours carry no stretch. */
static double mean_of_rest(const double *v, uint32_t n, double mid, double most)
{
	double sum = 0, largest = -most;

	for (uint32_t i = 0; i < n; i++) {
		double x = fmax(-most, fmin(most, v[i] - mid));

		sum += x;
		largest = fmax(largest, x);
	}
	return mid + (sum - largest) / (n - 1);
}

/* Whether v[first..last] lies above `usual`; fills out. */
static bool stretch_fits(const double *v, uint32_t first, uint32_t last,
			 const struct usual *usual, const struct levels_noise *noise,
			 double threshold, double *scratch, struct found *out)
{
	uint32_t length = last - first + 1, above = 0;
	double sum = 0, largest = 0, excess, agree, base = usual->value;

	memcpy(scratch, v + first, length * sizeof(*v));
	/* what spills over from a step's tail is no step of its own */
	excess = median_of(scratch, length) - base;
	while (excess > CLEAR * noise->scale[0] && last - first >= STRETCH_MIN &&
	       v[last] - base < excess / 2)
		last--;
	while (excess > CLEAR * noise->scale[0] && last - first >= STRETCH_MIN &&
	       v[first] - base < excess / 2)
		first++;
	length = last - first + 1;
	memcpy(scratch, v + first, length * sizeof(*v));
	*out = (struct found){first, last, last, median_of(scratch, length) - base, 0};
	if (length < STRETCH_MIN)
		return false;
	out->score = (mean_of_rest(v + first, length, base + out->excess,
				   MEAN_CLIP * noise->scale[0]) - base) /
		     error_above(noise, length - 1, usual) / threshold;
	agree = length > SHORT_MAX ? AGREE_MIN : AGREE_SHORT;
	for (uint32_t i = first; i <= last; i++) {
		double one = v[i] - base;
		uint32_t so_far = i - first + 1;

		above += length > SHORT_MAX ? one > 0 : one > out->excess / 3;
		/* as the one who looks on would have seen it */
		one = fmin(one, 2 * out->excess);
		sum += one;
		largest = fmax(largest, one);
		if (out->sure == last && so_far >= STRETCH_MIN && i < last &&
		    (sum - largest) / (so_far - 1) >
			fmax(threshold * levels_error(noise, so_far - 1), floor_of(so_far)))
			out->sure = i;
	}
	return out->excess >= floor_of(length) && out->score > TOLD_MIN && above >= agree * length;
}

/* Whether a level lies above the usual one by more than noise and the floor. */
static bool is_above(const struct level *l, double usual, const struct levels_noise *noise,
		     double threshold)
{
	uint32_t length = l->last - l->first + 1;

	return l->value - usual >=
	       fmax(floor_of(length), ABOVE_MIN * threshold * levels_error(noise, length));
}

/* Two levels that are one fault, one after the other. */
static bool same_fault(double a, double b)
{
	return fmin(a, b) >= SAME_FAULT * fmax(a, b);
}

/* Stretches of v (no NANs) above its usual level; their number. scratch: 4 n + 16. */
static uint32_t stretches_of(const double *v, uint32_t n, const struct levels_noise *noise,
			     double threshold, double *scratch, struct found *out)
{
	struct levels_config lc = {
	    .threshold = threshold, .least = STRETCH_MIN, .change_min = FLOOR_LEAST};
	struct level levels[LEVELS_MAX];
	uint32_t count = levels_find(v, n, noise, &lc, levels, scratch), made = 0;
	struct usual usual = {usual_level(levels, count, n), 0};

	for (uint32_t i = 0; i < count; i++)
		if (!is_above(&levels[i], usual.value, noise, threshold))
			usual.steps += levels[i].last - levels[i].first + 1;
	for (uint32_t i = 0; i < count;) {
		uint32_t first = levels[i].first, last = levels[i].last;
		double height = levels[i].value - usual.value;

		if (!is_above(&levels[i++], usual.value, noise, threshold))
			continue;
		for (; i < count && is_above(&levels[i], usual.value, noise, threshold) &&
		       same_fault(height, levels[i].value - usual.value);
		     i++)
			last = levels[i].last;
		made += stretch_fits(v, first, last, &usual, noise, threshold, scratch,
				     &out[made]);
	}
	return made;
}

/* v with NANs: stretches in its own indices. map: n. */
static uint32_t stretches_known(const double *v, uint32_t n, const struct levels_noise *noise,
				double threshold, double *scratch, struct found *out)
{
	double *packed = scratch + 4 * (size_t)n + 16, *at = packed + n;
	uint32_t known = 0, made;

	for (uint32_t i = 0; i < n; i++)
		if (!isnan(v[i])) {
			at[known] = i;
			packed[known++] = v[i];
		}
	if (known < 2 * STRETCH_MIN)
		return 0;
	made = stretches_of(packed, known, noise, threshold, scratch, out);
	for (uint32_t i = 0; i < made; i++) {
		out[i].first = (uint32_t)at[out[i].first];
		out[i].last = (uint32_t)at[out[i].last];
		out[i].sure = (uint32_t)at[out[i].sure];
	}
	return made;
}

/* ---- slow ranks ---- */

/* A rank's own noise, where it is more than everybody's: of single values, and so of means. */
static void noise_of_rank(const struct crossrank *c, const double *series,
			  const struct levels_noise *all, struct levels_noise *out)
{
	double more;

	levels_noise(series, 1, c->n, all->scale[0] * OWN_NOISE_MIN, c->scratch, out);
	/* what few steps show beyond everybody's may be chance */
	more = all->scale[0] > 0 ? out->scale[0] / all->scale[0] : 1;
	if (more > 1)
		more = fmax(1, more / (1 + 1 / sqrt(fmax(out->differences, 1))));
	*out = *all;
	for (uint32_t k = 0; k < out->scales; k++)
		out->scale[k] *= more;
}

static double noise_least(const struct crossrank *c, enum crossrank_what what)
{
	return what == CROSSRANK_PACE
		   ? NOISE_LEAST
		   : fmax(NOISE_LEAST, c->typical_ns > 0 ? NOISE_NS / c->typical_ns : 1);
}

static void add_stretch(struct crossrank *c, uint32_t r, enum crossrank_what what,
			const struct found *f)
{
	if (c->stretches < CROSSRANK_STRETCHES_MAX)
		c->stretch[c->stretches++] = (struct crossrank_stretch){
		    r,	      what,    f->first, f->last,	f->sure, f->excess,
		    f->score, c->lead, 0,	 LAYER_UNKNOWN, false};
}

static void slow_stretches(struct crossrank *c, enum crossrank_what what)
{
	double *series = c->against[what], *scratch = c->scratch + 2 * (size_t)c->ranks * c->n;
	struct levels_noise all, own;
	struct found found[LEVELS_MAX];
	double threshold;

	levels_noise(series, c->ranks, c->n, noise_least(c, what), c->scratch, &all);
	threshold =
	    levels_threshold(&all, c->ranks * (2 + c->steps->leads), c->n, c->config->wrong);
	for (uint32_t r = 0; r < c->ranks; r++) {
		const double *v = series + (size_t)r * c->n;
		uint32_t n;

		noise_of_rank(c, v, &all, &own);
		n = stretches_known(v, c->n, &own, threshold, scratch, found);
		for (uint32_t i = 0; i < n; i++) {
			double rise = crossrank_rise(c, what, r, found[i].first, found[i].last);

			/* one name of many looks far more often at chance */
			if (what == CROSSRANK_LEAD &&
			    found[i].last - found[i].first + 1 < LEAD_STEPS_MIN)
				continue;
			if (!isnan(rise) && rise >= ROSE_MIN * found[i].excess)
				add_stretch(c, r, what, &found[i]);
		}
	}
}

/* ---- findings ---- */

static double overlap(const struct crossrank_stretch *a, const struct crossrank_stretch *b)
{
	uint32_t first = a->first > b->first ? a->first : b->first;
	uint32_t last = a->last < b->last ? a->last : b->last;

	return last < first ? 0 : (double)(last - first + 1);
}

static bool as_long(const struct crossrank_stretch *a, const struct crossrank_stretch *b)
{
	uint32_t length = a->last - a->first + 1;
	double near = fmax(EQUAL_STEPS, EQUAL_SHARE * length);

	return fabs((double)a->first - b->first) <= near && fabs((double)a->last - b->last) <= near;
}

/* One rank's stretches of several series that overlap are one; the surest tells from where to
 * where. */
static void join_whats(struct crossrank *c)
{
	for (uint32_t i = 0; i < c->stretches; i++)
		for (uint32_t k = 0; k < c->stretches; k++) {
			struct crossrank_stretch *a = &c->stretch[i], *b = &c->stretch[k];

			if (i == k || a->rank != b->rank || a->taken || b->taken ||
			    overlap(a, b) <= 0 || a->what > b->what ||
			    (a->what == b->what && (a->what != CROSSRANK_LEAD || i > k)))
				continue;
			b->taken = true;
			a->leads += b->what == CROSSRANK_LEAD;
			if (b->score > a->score) {
				a->first = b->first;
				a->last = b->last;
				a->score = b->score;
				a->lead = b->lead;
			}
			a->sure = a->sure < b->sure ? a->sure : b->sure;
		}
}

static double confidence_of(double score)
{
	return score > 1 ? 1 - 0.4 / (score * score) : 0.6;
}

/* Of the steps' own times. */
static double own_excess(const struct crossrank *c, const struct crossrank_stretch *s)
{
	double rise;

	if (s->what == CROSSRANK_OWN)
		return s->excess;
	rise = crossrank_rise(c, CROSSRANK_OWN, s->rank, s->first, s->last);
	return isnan(rise) ? 0 : rise;
}

static int tell(struct crossrank *c, struct crossrank_finding *out, const uint32_t *ranks,
		uint32_t count)
{
	struct finding *f = &out->finding;
	int rc;

	for (uint32_t i = 0; i < count && i < FINDING_RANKS_MAX; i++)
		f->ranks[f->rank_count++] = c->steps->rank[ranks[i]].rank;
	rc = crossrank_cause(c, f, ranks, count, (uint32_t)f->first_step, (uint32_t)f->last_step);
	if (!rc)
		c->take(c->to, out);
	return rc;
}

/* Only single kernels tell, too short for the step to show it. */
static void say_lead(const struct crossrank *c, struct finding *f,
		     const struct crossrank_stretch *s)
{
	uint32_t name = c->steps->lead[s->lead];
	double ns = crossrank_median(c->steps->lead_pace[s->lead] + (size_t)s->rank * c->n,
				     s->first, s->last, c->scratch);

	f->cause = s->leads >= LEADS_ALL ? CAUSE_GPU_SLOW : CAUSE_GPU_KERNEL;
	finding_say(f, LAYER_GPU, 0, "kernel %.160s takes %.2f times as long as usual",
		    c->job->name[name], ns);
	if (s->leads)
		finding_say(f, LAYER_GPU, 0, "and so do %u other kernels", s->leads);
}

/* Stretches of several ranks that are as long are told together, if both are of steps or of the
 * same kernel and lie in one layer. */
static bool together(const struct crossrank_stretch *a, const struct crossrank_stretch *b)
{
	return as_long(a, b) && (a->what == CROSSRANK_LEAD) == (b->what == CROSSRANK_LEAD) &&
	       (a->what != CROSSRANK_LEAD || a->lead == b->lead) && a->layer == b->layer;
}

/* Each stretch's layer for itself: two faults at once are two findings. */
static int layers_find(struct crossrank *c)
{
	struct finding *f = malloc(sizeof(*f));
	int rc = f ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < c->stretches && !rc; i++) {
		struct crossrank_stretch *s = &c->stretch[i];

		s->layer = LAYER_GPU;
		if (s->taken || s->what == CROSSRANK_LEAD)
			continue;
		memset(f, 0, sizeof(*f));
		f->kind = FINDING_SLOW_RANK;
		rc = crossrank_cause(c, f, &s->rank, 1, s->first, s->last);
		s->layer = finding_cause_layer(f->cause);
	}
	free(f);
	return rc;
}

static int tell_slow(struct crossrank *c, uint32_t from, uint32_t *ranks)
{
	struct crossrank_finding out = {0};
	struct crossrank_stretch *lead = &c->stretch[from];
	uint32_t count = 0;
	double worst = 0;

	out.finding.kind = FINDING_SLOW_RANK;
	out.finding.first_step = lead->first;
	out.finding.last_step = lead->last;
	out.sure_step = lead->sure;
	for (uint32_t i = from; i < c->stretches; i++) {
		struct crossrank_stretch *s = &c->stretch[i];
		double excess;

		if (s->taken || !together(lead, s))
			continue;
		excess = fmax(own_excess(c, s), 0);
		s->taken = true;
		ranks[count++] = s->rank;
		if (count > 1 && excess > worst) { /* worst first */
			uint32_t t = ranks[0];

			ranks[0] = s->rank;
			ranks[count - 1] = t;
		}
		if (count == 1 || excess > worst)
			worst = excess;
		out.finding.confidence = fmax(out.finding.confidence, confidence_of(s->score));
		out.sure_step = out.sure_step < s->sure ? out.sure_step : s->sure;
	}
	if (lead->what == CROSSRANK_LEAD)
		say_lead(c, &out.finding, lead);
	out.finding.excess = worst;
	out.finding.effect_ns = worst * c->typical_ns;
	return tell(c, &out, ranks, count);
}

static int stretch_order(const void *pa, const void *pb)
{
	const struct crossrank_stretch *a = pa, *b = pb;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	if (a->score != b->score)
		return a->score > b->score ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int tell_slow_ranks(struct crossrank *c, uint32_t *ranks)
{
	int rc = 0;

	if (c->stretches)
		qsort(c->stretch, c->stretches, sizeof(*c->stretch), stretch_order);
	join_whats(c);
	rc = layers_find(c);
	for (uint32_t i = 0; i < c->stretches && !rc; i++)
		if (!c->stretch[i].taken)
			rc = tell_slow(c, i, ranks);
	return rc;
}

/* ---- uneven work ---- */

/* Of each rank's own time against its usual one, without stretches. */
static int find_skew(struct crossrank *c, struct skew *out)
{
	struct skew_step *step = calloc(c->n, sizeof(*step));
	uint32_t *times = calloc(c->ranks, sizeof(*times));
	double *v = c->scratch, *scratch = v + c->ranks;
	bool ok = step && times;

	for (uint32_t s = 0; s < c->n && ok; s++) {
		for (uint32_t r = 0; r < c->ranks; r++)
			v[r] = crossrank_slow_in(c, r, s) ?
				       NAN :
				       1 + c->own[CROSSRANK_OWN][(size_t)r * c->n + s];
		step[s] = skew_of_step(v, c->ranks, scratch);
	}
	if (ok)
		*out = skew_of(step, c->n, times, c->ranks, scratch);
	free(times);
	free(step);
	return ok ? 0 : -ENOMEM;
}

/* Where the heaviest rank changes from step to step, that is told of all, and what it explains accuses
 * nobody. */
static int tell_skew(struct crossrank *c)
{
	struct crossrank_finding out = {.sure_step = c->n - 1};
	struct finding *f = &out.finding;
	uint32_t kept = 0, folded;
	struct skew k = {0};
	int rc = find_skew(c, &k);

	if (rc || !skew_is_uneven(&k))
		return rc;
	for (uint32_t i = 0; i < c->stretches; i++)
		if (!skew_covers(&k, own_excess(c, &c->stretch[i])))
			c->stretch[kept++] = c->stretch[i];
	folded = c->stretches - kept;
	c->stretches = kept;
	f->last_step = c->n - 1;
	for (uint32_t r = 0; r < c->ranks && f->rank_count < FINDING_RANKS_MAX; r++)
		f->ranks[f->rank_count++] = c->steps->rank[r].rank;
	skew_say(f, &k, k.loss * c->typical_ns, folded);
	c->take(c->to, &out);
	return 0;
}

/* ---- what all share ---- */

/* Ranks that are slow at step s by themselves, where they are fewer than half: what they took
 * longer isn't shared, and would move the ranks' median. */
static bool slow_alone(const struct crossrank *c, uint32_t s)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < c->ranks; r++)
		n += crossrank_slow_in(c, r, s);
	return 2 * n <= c->ranks;
}

/* The ranks' median at every step; steps with other work are left out. */
static void shared_series(struct crossrank *c, enum crossrank_what what, double *out)
{
	const double *work = c->steps->value[JOBSTEPS_WORK];
	double *usual = c->scratch, *other = usual + c->ranks, *mine = other + c->ranks;

	for (uint32_t r = 0; r < c->ranks; r++)
		usual[r] = crossrank_median(work + (size_t)r * c->n, 0, c->n - 1, mine);
	for (uint32_t s = 0; s < c->n; s++) {
		uint32_t n = 0, works = 0;
		double differs;
		bool alone = slow_alone(c, s);

		for (uint32_t r = 0; r < c->ranks; r++) {
			size_t at = (size_t)r * c->n + s;

			if (!isnan(c->own[what][at]) && !(alone && crossrank_slow_in(c, r, s)))
				mine[n++] = c->own[what][at];
			if (!isnan(work[at]) && usual[r] > 0)
				other[works++] = fabs(work[at] / usual[r] - 1);
		}
		differs = works ? median_of(other, works) : 0;
		out[s] = n && differs <= WORK_OTHER ? median_of(mine, n) : NAN;
	}
}

/* Steps of the series before `first` that are known. */
static uint32_t known_before(const double *v, uint32_t first)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < first; i++)
		n += !isnan(v[i]);
	return n;
}

static bool told_already(const struct crossrank *c, uint32_t r, const struct found *f)
{
	struct crossrank_stretch want = {.first = f->first, .last = f->last};

	for (uint32_t i = 0; i < c->stretches; i++)
		if (c->stretch[i].rank == r && overlap(&c->stretch[i], &want) > 0)
			return true;
	return false;
}

/* What a shared rise brings one rank more of than others is no fault beside it. */
static void told_by_all(struct crossrank *c, const struct found *f)
{
	struct crossrank_stretch all = {.first = f->first, .last = f->last};

	for (uint32_t i = 0; i < c->stretches; i++)
		if (as_long(&all, &c->stretch[i]) && c->stretch[i].excess < f->excess)
			c->stretch[i].taken = true;
}

static int tell_shared(struct crossrank *c, enum crossrank_what what, const struct found *f,
		       uint32_t *ranks)
{
	struct crossrank_finding out = {.sure_step = f->sure};
	struct levels_noise noise;
	uint32_t count = 0, present = 0, told = 0;
	double error;

	levels_noise(c->own[what], c->ranks, c->n, noise_least(c, what), c->scratch, &noise);
	/* of single values: the fault itself is in the differences of long means */
	error = MEDIAN_ERROR * noise.scale[0] / sqrt((double)(f->last - f->first + 1));
	for (uint32_t r = 0; r < c->ranks; r++) {
		double rise = crossrank_rise(c, what, r, f->first, f->last);

		present += !isnan(rise);
		/* below the rise of all, and by more than noise */
		if (isnan(rise) || (rise < SHARED_MIN * f->excess &&
				    rise < f->excess - STAYED_SIGMAS * error))
			continue;
		told += told_already(c, r, f);
		ranks[count++] = r;
	}
	/* one of two, or a few that rose so far that the median went along: told one by one */
	if (!count || (told == count && count < present))
		return 0;
	out.finding.kind = count == present ? FINDING_UNIFORM : FINDING_SLOW_RANK;
	out.finding.first_step = f->first;
	out.finding.last_step = f->last;
	out.finding.excess = f->excess;
	out.finding.effect_ns = f->excess * c->typical_ns;
	out.finding.confidence = confidence_of(f->score);
	told_by_all(c, f);
	return tell(c, &out, ranks, count);
}

static int tell_uniform(struct crossrank *c, uint32_t *ranks)
{
	double *series[2], *scratch;
	struct found found[2][LEVELS_MAX];
	uint32_t n[2];
	int rc = 0;

	series[0] = malloc(((size_t)c->n * 16 + 128) * sizeof(double));
	if (!series[0])
		return -ENOMEM;
	series[1] = series[0] + c->n;
	scratch = series[1] + c->n;
	for (int w = 0; w <= CROSSRANK_PACE; w++) {
		struct levels_noise noise;

		shared_series(c, (enum crossrank_what)w, series[w]);
		levels_noise(series[w], 1, c->n, noise_least(c, (enum crossrank_what)w), scratch,
			     &noise);
		n[w] = stretches_known(series[w], c->n, &noise,
				       levels_threshold(&noise, 3, c->n, c->config->wrong), scratch,
				       found[w]);
	}
	for (uint32_t i = 0; i < n[0] && !rc; i++)
		if (known_before(series[0], found[0][i].first) >= BEFORE_MIN)
			rc = tell_shared(c, CROSSRANK_OWN, &found[0][i], ranks);
	for (uint32_t i = 0; i < n[1] && !rc; i++) {
		bool again = false;

		for (uint32_t k = 0; k < n[0]; k++)
			again |= found[0][k].first <= found[1][i].last &&
				 found[1][i].first <= found[0][k].last;
		if (!again && known_before(series[1], found[1][i].first) >= BEFORE_MIN)
			rc = tell_shared(c, CROSSRANK_PACE, &found[1][i], ranks);
	}
	free(series[0]);
	return rc;
}

/* ---- slow from the first step to the last ---- */

/* A name's time per kernel on rank r, over the steps that are known; NAN: it does not run there. */
static double lead_time(const struct crossrank *c, uint32_t r, uint32_t lead)
{
	double ns = jobsteps_lead_ns(c->steps, r, lead);

	return ns > 0 ? ns : NAN;
}

/* The typical ratio of rank r's kernels to those of the others; agree: share of the names that show
 * at least half of it. 0: too few names. */
static double constant_ratio(struct crossrank *c, uint32_t r, double *agree)
{
	double ratio[JOBSTEPS_LEADS_MAX], sorted[JOBSTEPS_LEADS_MAX], typical;
	uint32_t n = 0, same = 0;

	for (uint32_t i = 0; i < c->steps->leads; i++) {
		uint32_t others = 0;
		double mine = lead_time(c, r, i);

		for (uint32_t q = 0; q < c->ranks; q++)
			if (q != r && !isnan(lead_time(c, q, i)))
				c->scratch[others++] = lead_time(c, q, i);
		if (!isnan(mine) && others >= CONSTANT_OTHERS)
			ratio[n++] = mine / median_of(c->scratch, others);
	}
	*agree = 0;
	if (n < CONSTANT_NAMES)
		return 0;
	memcpy(sorted, ratio, n * sizeof(*sorted));
	typical = median_of(sorted, n);
	for (uint32_t i = 0; i < n; i++)
		same += ratio[i] > 1 + (typical - 1) / 2;
	*agree = (double)same / n;
	return typical;
}

/* Ranks whose kernels all take longer than on their peers, by one ratio that stands out. */
static int tell_constant(struct crossrank *c, uint32_t *ranks)
{
	double *ratio = malloc(3 * c->ranks * sizeof(*ratio)),
	       *agree = ratio ? ratio + c->ranks : NULL;
	double usual, spread;
	int rc = 0;

	if (!ratio)
		return -ENOMEM;
	for (uint32_t r = 0; r < c->ranks; r++)
		ratio[r] = constant_ratio(c, r, &agree[r]);
	memcpy(agree + c->ranks, ratio, c->ranks * sizeof(*ratio));
	usual = median_of(agree + c->ranks, c->ranks);
	for (uint32_t r = 0; r < c->ranks; r++)
		agree[c->ranks + r] = fabs(ratio[r] - usual);
	spread = 1.4826 * median_of(agree + c->ranks, c->ranks);
	for (uint32_t r = 0; r < c->ranks && !rc; r++) {
		struct crossrank_finding out = {.sure_step = STRETCH_MIN};
		struct finding *f = &out.finding;
		struct found all = {.first = 0, .last = c->n - 1};

		if (!(ratio[r] > usual + fmax(CONSTANT_MIN, CONSTANT_SPREADS * spread)) ||
		    agree[r] < CONSTANT_AGREE || told_already(c, r, &all))
			continue;
		f->kind = FINDING_SLOW_RANK;
		f->cause = CAUSE_GPU_SLOW;
		f->last_step = c->n - 1;
		f->excess = ratio[r] - 1;
		f->confidence = CONSTANT_SURE;
		finding_say(f, LAYER_GPU, 0,
			    "its kernels take %.2f times as long as on its peers in all steps, "
			    "%.0f%% of the names alike",
			    ratio[r], 100 * agree[r]);
		ranks[0] = r;
		rc = tell(c, &out, ranks, 1);
	}
	free(ratio);
	return rc;
}

/* Every rank that is known at all is so at step s: else who entered last may be missing. */
static bool all_known(const struct crossrank *c, uint32_t s)
{
	const double *kernels = c->steps->value[JOBSTEPS_KERNELS];

	for (uint32_t r = 0; r < c->ranks; r++) {
		const double *mine = kernels + (size_t)r * c->n;

		if (isnan(mine[s]) && !isnan(crossrank_median(mine, 0, c->n - 1, c->scratch)))
			return false;
	}
	return true;
}

/* The collectives themselves, from the last entry to the end. */
static int tell_transfer(struct crossrank *c, uint32_t *ranks)
{
	double *v = malloc(((size_t)c->n * 16 + 128) * sizeof(*v)), *scratch = v ? v + c->n : NULL,
	       usual;
	struct levels_noise noise;
	struct found found[LEVELS_MAX];
	uint32_t n = 0, count = 0;
	int rc = 0;

	if (!v)
		return -ENOMEM;
	for (uint32_t s = 0; s < c->n; s++)
		if (c->steps->transfers[s])
			scratch[n++] = c->steps->transfers[s];
	usual = median_of(scratch, n);
	for (uint32_t s = 0; s < c->n; s++) /* as many as usual, or they tell nothing */
		v[s] = c->steps->transfers[s] && fabs(c->steps->transfers[s] - usual) < 0.5 &&
			       all_known(c, s)
			   ? TRANSFER_UNIT * c->steps->transfer_ns[s] / c->typical_ns
			   : NAN;
	levels_noise(v, 1, c->n, TRANSFER_UNIT * noise_least(c, CROSSRANK_OWN), scratch, &noise);
	n = stretches_known(v, c->n, &noise, levels_threshold(&noise, 3, c->n, c->config->wrong),
			    scratch, found);
	for (uint32_t r = 0; r < c->ranks; r++)
		ranks[count++] = r;
	for (uint32_t i = 0; i < n && !rc; i++) {
		struct crossrank_finding out = {.sure_step = found[i].sure};
		struct finding *f = &out.finding;

		if (known_before(v, found[i].first) < BEFORE_MIN)
			continue;
		f->kind = FINDING_UNIFORM;
		f->cause = CAUSE_NET_TRANSFER;
		f->first_step = found[i].first;
		f->last_step = found[i].last;
		f->excess = found[i].excess / TRANSFER_UNIT;
		f->effect_ns = f->excess * c->typical_ns;
		f->confidence = confidence_of(found[i].score);
		finding_say(f, LAYER_NETWORK, f->effect_ns,
			    "collectives take %.3f ms per step longer from the last rank's entry "
			    "to their end",
			    f->effect_ns / 1e6);
		rc = tell(c, &out, ranks, count);
	}
	free(v);
	return rc;
}

/* ---- all ---- */

static int crossrank_new(struct crossrank *c)
{
	size_t cells = (size_t)c->ranks * c->n;

	for (int w = 0; w < CROSSRANK_WHATS; w++) {
		c->own[w] = malloc(cells * sizeof(double));
		c->against[w] = malloc(cells * sizeof(double));
		if (!c->own[w] || !c->against[w])
			return -ENOMEM;
	}
	c->scratch =
	    malloc((8 * cells + 16 * (size_t)c->n + 4 * (size_t)c->ranks + 256) * sizeof(double));
	c->stretch = malloc(CROSSRANK_STRETCHES_MAX * sizeof(*c->stretch));
	return c->scratch && c->stretch ? 0 : -ENOMEM;
}

static void crossrank_free(struct crossrank *c)
{
	for (int w = 0; w < CROSSRANK_WHATS; w++) {
		free(c->own[w]);
		free(c->against[w]);
	}
	free(c->scratch);
	free(c->stretch);
}

/* The step's latency over all steps and ranks, for what has no other measure. */
static double usual_step(struct crossrank *c)
{
	return crossrank_median(c->steps->value[JOBSTEPS_LATENCY], 0, c->ranks * c->n - 1,
				c->scratch);
}

static int tell_hang(struct crossrank *c, uint32_t *ranks)
{
	uint32_t *members = calloc(c->steps->align->instances + 1u, sizeof(*members));

	if (!members)
		return -ENOMEM;
	crossrank_hang(c, usual_step(c), members, ranks);
	free(members);
	return 0;
}

static int tell_all(struct crossrank *c, uint32_t *ranks)
{
	int rc;

	for (int w = 0; w <= CROSSRANK_PACE && c->ranks > 1; w++)
		slow_stretches(c, (enum crossrank_what)w);
	for (uint32_t i = 0; i < c->steps->leads && c->ranks > 1; i++) {
		lead_series(c, i);
		slow_stretches(c, CROSSRANK_LEAD);
	}
	rc = c->ranks > 1 && c->typical_ns > 0 ? tell_skew(c) : 0;
	if (!rc)
		rc = tell_uniform(c, ranks);
	if (!rc)
		rc = tell_slow_ranks(c, ranks);
	if (!rc && c->ranks > 2)
		rc = tell_constant(c, ranks);
	if (!rc && c->ranks > 1 && c->typical_ns > 0)
		rc = tell_transfer(c, ranks);
	if (!rc && c->ranks > 1)
		rc = tell_hang(c, ranks);
	return rc;
}

int crossrank_find(const struct crossrank_job *job, const struct crossrank_config *config,
		   void (*take)(void *to, const struct crossrank_finding *f), void *to)
{
	struct crossrank c = {.job = job,
			      .steps = job->steps,
			      .config = config,
			      .ranks = job->steps->rank_count,
			      .n = job->steps->steps,
			      .take = take,
			      .to = to};
	uint32_t *ranks;
	int rc;

	if (!c.ranks || !c.n)
		return 0;
	ranks = malloc(c.ranks * sizeof(*ranks));
	rc = crossrank_new(&c);
	if (!ranks)
		rc = -ENOMEM;
	if (!rc)
		series_make(&c);
	if (!rc)
		rc = config->mode == PEERS_SYSOM ? crossrank_sysom(&c) : tell_all(&c, ranks);
	free(ranks);
	crossrank_free(&c);
	return rc;
}
