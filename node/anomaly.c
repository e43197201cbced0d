/* SPDX-License-Identifier: Apache-2.0
 * A window also has a limit of length, because an anomaly may last for hours, and people wait for
 * the first window. */
#include "node/anomaly.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/order.h"
#include "model/thresholds.h"

void anomaly_config_default(struct anomaly_config *c)
{
	*c = (struct anomaly_config){
	    .margin_steps = 8,
	    .steps_max = 256,
	    .length_max_ns = 4000000000ull,
	    .continue_ns = 10000000000ull,
	    .full_burst = 4,
	    .full_per_s = 1.0 / 20,
	    .spike_burst = 16,
	    .summary_burst = 16,
	    .summary_per_s = 1.0 / 5,
	};
}

void anomaly_init(struct anomaly *a, const struct anomaly_config *c, uint64_t now_ns)
{
	memset(a, 0, sizeof(*a));
	a->config = *c;
	CHECK(c->margin_steps <= ANOMALY_MARGIN_MAX && c->steps_max <= ANOMALY_STEPS_MAX &&
	      c->steps_max > 2 * c->margin_steps);
	a->full = (struct anomaly_bucket){c->full_burst, now_ns};
	a->spike = (struct anomaly_bucket){c->spike_burst, now_ns};
	a->summary = (struct anomaly_bucket){c->summary_burst, now_ns};
}

static void remember(struct anomaly *a, const struct window_step *s)
{
	a->history[a->history_next] = *s;
	a->history_next = (a->history_next + 1) % ANOMALY_HISTORY_MAX;
	a->history_count += a->history_count < ANOMALY_HISTORY_MAX;
}

static uint64_t last_of(const struct anomaly_kind *k)
{
	return k->count
		   ? k->step[(k->next + ANOMALY_KIND_STEPS - 1) % ANOMALY_KIND_STEPS].step.end_ns
		   : 0;
}

/* Whether the step has the same phase and kind, and about as many launches. Launches count because
 * an optimizer may run in every fourth step only. */
static bool is_of(const struct anomaly_kind *k, const struct window_step *s)
{
	uint32_t least = k->kernels < s->step.kernels ? k->kernels : s->step.kernels,
		 most = k->kernels + s->step.kernels - least;

	return k->count && k->kind == s->kind && k->phase == s->step.phase &&
	       most - least <= (uint32_t)(thresholds.part.little * most);
}

/* Whether b rather than k gives its place to a new kind: b is free, or it differs from the new kind
 * only in its launches, or its latest step is older. So a job with uneven launches does not push
 * out the steps with a checkpoint. */
static bool gives_way(const struct anomaly_kind *b, const struct anomaly_kind *k,
		      const struct window_step *s)
{
	bool b_same = !b->count || (b->kind == s->kind && b->phase == s->step.phase),
	     k_same = !k->count || (k->kind == s->kind && k->phase == s->step.phase);

	return b_same != k_same ? b_same : last_of(b) < last_of(k);
}

/* While a window is open, steps that are not flagged may have a milder form of its fault. */
static void remember_usual(struct anomaly *a, const struct window_step *s)
{
	struct anomaly_kind *k = &a->kind[0];

	for (uint32_t i = 1; i < ANOMALY_KINDS_MAX && !is_of(k, s); i++)
		if (is_of(&a->kind[i], s) || gives_way(&a->kind[i], k, s))
			k = &a->kind[i];
	if (!is_of(k, s))
		*k = (struct anomaly_kind){
		    .kind = s->kind, .phase = s->step.phase, .kernels = s->step.kernels};
	if (a->state != ANOMALY_IDLE && k->count == ANOMALY_KIND_STEPS)
		return;
	k->step[k->next] = *s;
	k->step[k->next].flags |= WINDOW_STEP_MARGIN;
	k->next = (k->next + 1) % ANOMALY_KIND_STEPS;
	k->count += k->count < ANOMALY_KIND_STEPS;
}

/* The step this many steps ago; 1: the latest. */
static const struct window_step *earlier(const struct anomaly *a, uint32_t steps)
{
	return &a->history[(a->history_next + ANOMALY_HISTORY_MAX - steps) % ANOMALY_HISTORY_MAX];
}

/* How many steps before the first flagged step the window starts, so that it has margin_steps
 * healthy ones. A step counts as healthy if it is nearer to its expected time than to the flagged
 * step. A small slowdown is flagged late, so the steps just before the flag may be slow too, and
 * are then no reference. */
static uint32_t margin_of(const struct anomaly *a, const struct window_step *first)
{
	uint32_t margin = a->config.margin_steps, count = a->history_count, healthy = 0;
	uint32_t n = margin < count ? margin : count;

	for (uint32_t i = 1; i <= count && i <= a->config.steps_max / 2 && healthy < margin; i++) {
		const struct window_step *s = earlier(a, i);

		if (first->step.begin_ns > s->step.begin_ns + a->config.continue_ns)
			break;
		if (window_step_lost_ns(s) > window_step_lost_ns(first) / 2)
			continue;
		healthy++;
		n = i > n ? i : n;
	}
	return n;
}

static void open_window(struct anomaly *a, const struct window_step *first,
			const uint8_t fresh_id[16])
{
	bool goes_on = a->last_end_ns && first->step.begin_ns >= a->last_end_ns &&
		       first->step.begin_ns - a->last_end_ns <= a->config.continue_ns;

	if (goes_on) {
		a->sequence++;
	} else {
		memcpy(a->id, fresh_id, sizeof(a->id));
		a->sequence = 0;
	}
	a->step_count = 0;
	for (uint32_t i = margin_of(a, first); i > 0; i--) {
		/* A window that continues the last one does not repeat its steps. */
		if (goes_on && earlier(a, i)->step.begin_ns < a->last_end_ns)
			continue;
		a->steps[a->step_count] = *earlier(a, i);
		a->steps[a->step_count++].flags |= WINDOW_STEP_MARGIN;
	}
	a->onset_ns = first->step.begin_ns;
	a->healthy = 0;
	a->flagged_count = a->self_count = a->turned = 0;
	a->spike_count = a->spike_self_count = 0;
	a->lost_ns = 0;
	a->state = ANOMALY_OPEN;
}

bool anomaly_close(struct anomaly *a, uint64_t now_ns)
{
	if (a->state == ANOMALY_CLOSED)
		return true;
	if (a->state != ANOMALY_OPEN)
		return false;
	for (uint32_t i = 0; i < a->healthy; i++)
		a->steps[a->step_count - 1 - i].flags |= WINDOW_STEP_MARGIN;
	a->last_end_ns = a->steps[a->step_count - 1].step.end_ns;
	a->closed_ns = now_ns;
	a->state = ANOMALY_CLOSED;
	return true;
}

/* Whether the rank itself caused at least half of the step's loss. If its expected self time is not
 * known, the exposed communication bounds how long it waited for others, if there are kernels to
 * show it. */
static bool is_self(const struct window_step *s)
{
	double lost = window_step_lost_ns(s), self = 0;

	if (s->step.kernels)
		self = lost - (double)s->step.exposed_comm_ns;
	if (s->expected_self_ns > 0)
		self = window_step_lost_self_ns(s);
	return lost > 0 && 2 * self >= lost;
}

/* A window has one reason. It ends when the reason changes for long enough. */
static void count_flagged(struct anomaly *a, const struct window_step *s, bool self)
{
	bool spike = s->flags & WINDOW_STEP_SPIKE;

	a->lost_ns += fmax(window_step_lost_ns(s), 0);
	a->flagged_count++;
	a->self_count += self;
	a->spike_count += spike;
	a->spike_self_count += spike && self;
	a->turned = self == (anomaly_reason(a) == WINDOW_SELF) ? 0 : a->turned + 1;
}

bool anomaly_push(struct anomaly *a, const struct window_step *s, bool self,
		  const uint8_t fresh_id[16], uint64_t now_ns)
{
	bool flagged = s->flags & WINDOW_STEP_FLAGGED;
	bool closed = false;
	uint32_t enough = a->config.margin_steps + !a->config.margin_steps;

	if (flagged && a->state == ANOMALY_IDLE)
		open_window(a, s, fresh_id);
	if (a->state == ANOMALY_OPEN) {
		a->steps[a->step_count++] = *s;
		a->healthy = flagged ? 0 : a->healthy + 1;
		if (flagged)
			count_flagged(a, s, self || is_self(s));
		if (a->healthy >= enough || a->turned >= enough ||
		    a->step_count >= a->config.steps_max ||
		    s->step.end_ns - a->onset_ns >= a->config.length_max_ns)
			closed = anomaly_close(a, now_ns);
	}
	remember(a, s);
	if (s->expected_ns > 0 && !flagged && !(s->flags & WINDOW_STEP_OUT))
		remember_usual(a, s);
	return closed;
}

/* How many usual steps of the kind the window lacks. It should begin with as many as a margin
 * has. */
static uint32_t lacks(const struct anomaly *a, const struct anomaly_kind *k)
{
	uint32_t usual = 0, flagged = 0;

	for (uint32_t i = 0; i < a->step_count; i++) {
		uint32_t flags = a->steps[i].flags & (WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT);

		if (!is_of(k, &a->steps[i]))
			continue;
		flagged += (flags & WINDOW_STEP_FLAGGED) != 0;
		usual += !flags && !flagged && a->steps[i].expected_ns > 0;
	}
	return flagged && usual < k->count ? k->count - usual : 0;
}

ORDER_BY(by_begin, struct window_step, ORDER_UP(step.begin_ns));

uint32_t anomaly_reference(const struct anomaly *a, struct window_step *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ANOMALY_KINDS_MAX; i++) {
		const struct anomaly_kind *k = &a->kind[i];
		uint32_t more = lacks(a, k);

		for (uint32_t q = 1; q <= k->count && more; q++) {
			const struct window_step *s =
			    &k->step[(k->next + ANOMALY_KIND_STEPS - q) % ANOMALY_KIND_STEPS];

			if (s->step.end_ns > a->steps[0].step.begin_ns)
				continue;
			out[n++] = *s;
			more--;
		}
	}
	qsort(out, n, sizeof(*out), by_begin);
	return n;
}

void anomaly_reset(struct anomaly *a)
{
	a->state = ANOMALY_IDLE;
	a->step_count = 0;
}

uint32_t anomaly_reason(const struct anomaly *a)
{
	uint32_t all = a->spike_count ? a->spike_count : a->flagged_count;
	uint32_t self = a->spike_count ? a->spike_self_count : a->self_count;

	return self && self * 2 >= all ? WINDOW_SELF : WINDOW_COMM;
}

static void refill(struct anomaly_bucket *b, double burst, double per_s, uint64_t now_ns)
{
	if (now_ns <= b->at_ns)
		return;
	b->tokens = fmin(b->tokens + (double)(now_ns - b->at_ns) * 1e-9 * per_s, burst);
	b->at_ns = now_ns;
}

static bool take(struct anomaly_bucket *b)
{
	if (b->tokens < 1)
		return false;
	b->tokens -= 1;
	return true;
}

/* A window whose reason is not slow steps says nothing about a loss. It counts like the largest
 * loss. */
static bool grant_full(struct anomaly *a)
{
	double left = a->full.tokens / a->config.full_burst;
	double lost = a->state == ANOMALY_CLOSED ? a->lost_ns : a->most_ns;

	if (left >= 1)
		a->most_ns = 0;
	if (!(a->spike_count && take(&a->spike)) &&
	    !(lost >= a->most_ns * (1 - left) && take(&a->full)) &&
	    !(lost > a->most_ns && take(&a->spike)))
		return false;
	a->most_ns = fmax(a->most_ns, lost);
	return true;
}

enum anomaly_grant anomaly_grant(struct anomaly *a, bool want_full, uint64_t now_ns)
{
	const struct anomaly_config *c = &a->config;

	refill(&a->full, c->full_burst, c->full_per_s, now_ns);
	refill(&a->spike, c->spike_burst, c->full_per_s, now_ns);
	refill(&a->summary, c->summary_burst, c->summary_per_s, now_ns);
	if (want_full && grant_full(a))
		return ANOMALY_FULL;
	return take(&a->summary) ? ANOMALY_SUMMARY : ANOMALY_COUNT_ONLY;
}
