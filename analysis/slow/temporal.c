/* SPDX-License-Identifier: Apache-2.0
 * Healthy samples are the reference. When a change opens, its samples stop being healthy, so a
 * slow stretch cannot become the reference for itself. */
#include "analysis/slow/temporal.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

/* Samples needed if no rank's self time rose: then the network is slow, or a slow rank is not found
 * yet. A new run may take as many to warm up (compilation, caches). */
#define SURE_ALONE (2 * thresholds.count.few)

struct kept {
	struct temporal_sample s;
	bool healthy;
};

struct temporal {
	struct kept ring[TEMPORAL_SAMPLES];
	uint32_t pushed, healthy; /* healthy: number in the ring */
	double healthy_steps;
	struct temporal_base base;
	struct temporal_change now;
	uint32_t below; /* consecutive samples below half the threshold, while open */
};

int temporal_open(struct temporal **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void temporal_close(struct temporal *t)
{
	free(t);
}

void temporal_restart(struct temporal *t)
{
	memset(t, 0, sizeof(*t));
}

void temporal_finish(struct temporal *t)
{
	t->now.ended |= t->now.open;
	t->now.open = false;
}

void temporal_set_base(struct temporal *t, const struct temporal_base *b)
{
	t->base = *b;
}

static const struct kept *back(const struct temporal *t, uint32_t n)
{
	return &t->ring[(t->pushed - 1 - n) % TEMPORAL_SAMPLES];
}

static uint32_t held(const struct temporal *t)
{
	return t->pushed < TEMPORAL_SAMPLES ? t->pushed : TEMPORAL_SAMPLES;
}

/* What the latest samples are compared with. */
struct reference {
	double latency_ns, self_ns, ratio, threshold;
};

/* The reference from this run: its healthy samples without the latest `skip`. */
static bool past_reference(const struct temporal *t, uint32_t skip, struct reference *r)
{
	double *v = malloc(3 * TEMPORAL_SAMPLES * sizeof(*v)), *self = v + TEMPORAL_SAMPLES,
	       *ratio = self + TEMPORAL_SAMPLES, steps = 0, mad;
	uint32_t n = 0, ratios = 0;

	if (!v)
		return false;
	for (uint32_t i = skip; i < held(t); i++) {
		const struct kept *k = back(t, i);

		if (!k->healthy)
			continue;
		steps += k->s.steps;
		v[n] = k->s.latency_ns;
		self[n++] = k->s.self_low_ns;
		if (k->s.ratio > 0)
			ratio[ratios++] = k->s.ratio;
	}
	if (n >= 2 * SURE_ALONE && steps >= TEMPORAL_STEPS_MIN) {
		r->latency_ns = median_of(v, n);
		r->self_ns = median_of(self, n);
		r->ratio = 2 * ratios >= n ? median_of(ratio, ratios) : 0;
		mad = median_mad(v, n, r->latency_ns);
		r->threshold =
		    fmax(thresholds.excess.slower,
			 thresholds.sure.far_errors * MEDIAN_MAD_SIGMA * mad / r->latency_ns);
	}
	free(v);
	return n >= 2 * SURE_ALONE && steps >= TEMPORAL_STEPS_MIN && r->latency_ns > 0;
}

/* A run that still warms up becomes faster from sample to sample. */
static bool is_warm(const struct temporal *t)
{
	double low, high;

	if (t->pushed > SURE_ALONE || t->pushed < thresholds.count.few)
		return t->pushed > SURE_ALONE;
	low = high = back(t, 0)->s.latency_ns;
	for (uint32_t i = 1; i < thresholds.count.few; i++) {
		low = fmin(low, back(t, i)->s.latency_ns);
		high = fmax(high, back(t, i)->s.latency_ns);
	}
	return high <= low * (1 + thresholds.excess.slower);
}

static bool runs_reference(const struct temporal *t, struct reference *r)
{
	const struct temporal_base *b = &t->base;

	if (!b->runs || !(b->latency_ns > 0) || !is_warm(t))
		return false;
	*r = (struct reference){
	    b->latency_ns, b->self_ns, 0,
	    fmax(b->runs < thresholds.count.few ? thresholds.excess.slower : thresholds.excess.near,
		 thresholds.sure.far_errors * MEDIAN_MAD_SIGMA * b->mad_ns / b->latency_ns)};
	r->threshold = fmax(r->threshold, 2 * b->spread);
	return true;
}

static double over(const struct temporal_sample *s, const struct reference *r)
{
	return s->latency_ns / r->latency_ns - 1;
}

/* Whether the latest samples show that the whole role is slower than the reference. */
static bool is_slower(const struct temporal *t, const struct reference *r)
{
	uint32_t own = 0, n = 0;
	double steps = 0;

	for (uint32_t i = 0; i < SURE_ALONE && i < held(t); i++) {
		const struct temporal_sample *s = &back(t, i)->s;

		if (over(s, r) <= r->threshold || s->suspects)
			break;
		if (r->ratio > 0 && s->ratio > 0 && s->ratio / r->ratio - 1 < r->threshold / 2)
			break; /* the work grew too */
		if (r->self_ns > 0)
			own += s->self_low_ns / r->self_ns - 1 > r->threshold / 2;
		steps += s->steps;
		n++;
	}
	if (steps < thresholds.count.some)
		return false;
	return (n >= thresholds.count.few && own >= thresholds.count.few) || n >= SURE_ALONE;
}

static void open_change(struct temporal *t, const struct reference *r, bool against_runs)
{
	uint32_t n = 0;
	double *v = malloc(TEMPORAL_SAMPLES * sizeof(*v)), steps = 0;

	if (!v)
		return;
	while (n < held(t) && over(&back(t, n)->s, r) > r->threshold / 2) {
		v[n] = back(t, n)->s.latency_ns;
		steps += back(t, n)->s.steps;
		n++;
	}
	t->now = (struct temporal_change){.open = true,
					  .runs = against_runs,
					  .before_ns = r->latency_ns,
					  .threshold = r->threshold,
					  .steps = steps};
	/* A sample covers the period before its time. */
	t->now.begin_unix_ns = back(t, n - 1)->s.unix_ns - TEMPORAL_PERIOD_NS;
	t->now.latency_ns = median_of(v, n);
	t->now.excess = t->now.latency_ns / r->latency_ns - 1;
	t->below = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct kept *k = &t->ring[(t->pushed - 1 - i) % TEMPORAL_SAMPLES];

		if (k->healthy)
			t->healthy_steps -= k->s.steps;
		k->healthy = false;
	}
	free(v);
}

static void update_change(struct temporal *t, const struct temporal_sample *s)
{
	struct reference r = {.latency_ns = t->now.before_ns};

	t->now.steps += s->steps;
	t->now.end_unix_ns = s->unix_ns;
	t->below = over(s, &r) < t->now.threshold / 2 ? t->below + 1 : 0;
	if (t->below < thresholds.count.few)
		return;
	t->now.open = false;
	t->now.ended = true;
}

void temporal_push(struct temporal *t, const struct temporal_sample *s)
{
	struct kept *k = &t->ring[t->pushed % TEMPORAL_SAMPLES];
	struct reference r = {0};

	if (!(s->latency_ns > 0) || !(s->steps > 0))
		return; /* a job that makes no steps is not slower */
	t->now.ended = false;
	k->s = *s;
	k->healthy = !t->now.open && !s->suspects && s->flagged < thresholds.excess.work &&
		     t->pushed >= SURE_ALONE;
	t->pushed++;
	if (k->healthy)
		t->healthy_steps += s->steps;
	if (t->now.open)
		update_change(t, s);
	else if (runs_reference(t, &r) && is_slower(t, &r))
		open_change(t, &r, true);
	else if (past_reference(t, SURE_ALONE, &r) && is_slower(t, &r))
		open_change(t, &r, false);
	if (t->now.open)
		t->now.end_unix_ns = s->unix_ns;
}

bool temporal_state(const struct temporal *t, struct temporal_change *out)
{
	*out = t->now;
	return t->now.open || t->now.ended;
}

uint64_t temporal_healthy_steps(const struct temporal *t)
{
	return t->healthy_steps > 0 ? (uint64_t)t->healthy_steps : 0;
}

static double middle(const struct temporal *t, size_t offset, double *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < held(t); i++)
		if (back(t, i)->healthy)
			v[n++] = *(const double *)((const char *)&back(t, i)->s + offset);
	return median_of(v, n);
}

void temporal_summary(const struct temporal *t, struct sketch *out)
{
	double *v = malloc(TEMPORAL_SAMPLES * sizeof(*v));
	uint32_t n = 0;

	if (!v)
		return;
#define FIGURE(to, from) out->to = middle(t, offsetof(struct temporal_sample, from), v)
	FIGURE(latency_ns, latency_ns);
	FIGURE(self_ns, self_ns);
	FIGURE(compute_ns, compute_ns);
	FIGURE(comm_ns, comm_ns);
	FIGURE(exposed_comm_ns, exposed_comm_ns);
	FIGURE(copy_ns, copy_ns);
	FIGURE(idle_ns, idle_ns);
#undef FIGURE
	for (uint32_t i = 0; i < held(t); i++)
		if (back(t, i)->healthy)
			v[n++] = back(t, i)->s.latency_ns;
	out->latency_mad_ns = median_mad(v, n, out->latency_ns);
	out->steps = temporal_healthy_steps(t);
	free(v);
}
