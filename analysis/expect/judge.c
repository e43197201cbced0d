/* SPDX-License-Identifier: Apache-2.0
 * A rank is a suspect only for its self time. A fault on any rank makes the steps of all ranks
 * longer, because they wait in collectives, and the culprit waits least. */
#include "analysis/expect/judge.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/carve.h"
#include "model/thresholds.h"

/* An anomaly: half of this many latest steps are out, not only a few single ones. */
#define RUN_STEPS 16

struct judge {
	struct judge_config config;
	struct roofline_set *latency, *self;
	struct kinds *kinds;
	struct growth growth;
	struct growth_change change; /* of the latest growth */
	bool grew;		     /* with the latest step */
	uint64_t model_key;	     /* of the latest judged step */
	struct {
		uint64_t key;
		uint32_t source, phase;
	} kind[JUDGE_MODELS]; /* of the latest keys: the source and phase that a key is a hash of */
	uint32_t kind_next;
	uint64_t out_history; /* one bit per judged step, the latest lowest */
	/* The thresholds of an anomaly that still lasts. A new fit must not raise them. */
	uint64_t hold_key;
	double hold_latency, hold_self;
	uint32_t hold_steps;  /* judged steps for which they still apply */
	uint64_t last_run_ns; /* end of the latest run in which most steps were slow */
	/* ring: of the latest steps that were not brief; NAN: flagged */
	double self_excess[JUDGE_PERIOD];
	uint32_t next, count;
	double excess[RUN_STEPS]; /* ring: of the latest judged steps' latency */
	uint32_t used;
	bool drift_raised;
	bool restoring; /* samples were restored since the models were last settled */
};

void judge_config_default(struct judge_config *c)
{
	*c = (struct judge_config){.instant_ratio = thresholds.excess.instant,
				   .step_min_ns = 200000,
				   .host_stall_share = thresholds.part.shows};
	roofline_config_default(&c->roofline);
	kinds_config_default(&c->kinds);
}

const char *judge_skip_name(unsigned skip)
{
	static const char *const names[] = {"used", "brief", "gap", "incomplete", "host_stall"};

	return skip < sizeof(names) / sizeof(names[0]) ? names[skip] : "unknown";
}

static size_t lay_out(struct judge *j, void *memory, const struct judge_config *c)
{
	size_t models = roofline_set_memory_bytes(&c->roofline, JUDGE_MODELS);
	struct carve at = {.memory = memory};

	carve_take(&at, 1, sizeof(*j));
	j->kinds = carve_take(&at, 1, kinds_memory_bytes());
	j->latency = carve_take(&at, 1, models);
	j->self = carve_take(&at, 1, models);
	return at.bytes;
}

size_t judge_memory_bytes(const struct judge_config *c)
{
	struct judge j;

	return lay_out(&j, NULL, c);
}

struct judge *judge_init(void *memory, const struct judge_config *c)
{
	struct judge *j = memory;

	memset(j, 0, sizeof(*j));
	lay_out(j, memory, c);
	j->config = *c;
	kinds_init(j->kinds, &c->kinds);
	roofline_set_init(j->latency, &c->roofline, JUDGE_MODELS);
	roofline_set_init(j->self, &c->roofline, JUDGE_MODELS);
	return j;
}

/* Why the step says nothing about the rank, or JUDGE_USED. */
static enum judge_skip skip_of(const struct judge *j, const struct step *s, uint64_t stalled_ns)
{
	if (s->latency_ns < j->config.step_min_ns)
		return JUDGE_BRIEF;
	if (s->flags & (STEP_FLAG_GAP | STEP_FLAG_EDGE))
		return JUDGE_GAP;
	/* If this many kernels are missing, the self time is wrong. */
	if ((s->flags & STEP_FLAG_INCOMPLETE) && s->kernels &&
	    s->unmatched > thresholds.same.other_work * s->launches)
		return JUDGE_INCOMPLETE;
	if ((double)stalled_ns > j->config.host_stall_share * (double)s->latency_ns)
		return JUDGE_HOST_STALL;
	return JUDGE_USED;
}

/* Whether to flag the step. If healthy steps differ only by a thousandth, one small delay of the
 * machine is far beyond the threshold. Such a step counts as out, but is flagged only if it
 * persists or the excess is large. */
static bool is_reportable(const struct judge *j, const struct roofline_verdict *v)
{
	return v->flagged && (v->persists || v->excess >= j->config.instant_ratio);
}

/* A model that is fitted during a fault has slow steps among its samples, which may raise its
 * thresholds. So the thresholds that opened the anomaly stay in force until it is over. */
static void apply_hold(struct judge *j, uint64_t key, struct roofline_verdict *lat,
		       struct roofline_verdict *self)
{
	if (!j->hold_steps || j->hold_key != key)
		return;
	j->hold_steps--;
	if (lat->expected_ns > 0 && lat->excess >= j->hold_latency)
		lat->out = lat->persists = lat->flagged = true;
	if (self->expected_ns > 0 && self->excess >= j->hold_self)
		self->out = self->persists = self->flagged = true;
}

static void hold(struct judge *j, uint64_t key, const struct roofline_verdict *lat,
		 const struct roofline_verdict *self)
{
	if (!lat->flagged || lat->threshold <= 0)
		return;
	if (!j->hold_steps || j->hold_key != key) {
		j->hold_key = key;
		j->hold_latency = lat->threshold;
		j->hold_self = self->threshold > 0 ? self->threshold : lat->threshold;
	}
	j->hold_steps = JUDGE_HOLD;
}

/* How much longer than expected the steps before this one usually were. */
static double usual_excess(const struct judge *j)
{
	double v[RUN_STEPS];

	if (j->used < RUN_STEPS)
		return 0;
	memcpy(v, j->excess, sizeof(v));
	return fmax(median_of(v, RUN_STEPS), 0);
}

/* Whether the job states the step's work, and the step took several times as long as such work
 * usually does. A step whose work is only counted may be longer on purpose: a checkpoint, an
 * evaluation. While the rank is slow for another reason, more time is expected. Otherwise every
 * second step would be a spike, without the evidence that spikes have. */
static bool is_spike(const struct judge *j, const struct step *s, const struct judge_verdict *v)
{
	return s->flags & STEP_FLAG_STATED && v->flagged && v->state == ROOFLINE_READY &&
	       (double)s->latency_ns >=
		   thresholds.time.times * v->expected_ns * (1 + usual_excess(j));
}

/* Compares a step with its kind. A usual step of a kind is not flagged. A step longer than its kind
 * is slower than the kind's usual steps, and its excess is relative to them. If the job states the
 * step's work, the work shows how long the step should take, and slowness that recurs is not a
 * kind. */
static void judge_kind(struct judge *j, const struct step *s, struct judge_verdict *v)
{
	bool known = v->state == ROOFLINE_READY || v->self, self = v->expected_self_ns > 0;
	double expected_ns = known && !(s->flags & STEP_FLAG_STATED) ? v->expected_ns : 0;
	struct kinds_verdict k = kinds_push(j->kinds, s, expected_ns, v->expected_self_ns, v->out);

	v->first = k.first;
	v->of_kind = k.of_kind;
	v->kind = k.kind;
	v->period = k.period;
	if (!k.of_kind)
		return;
	v->self &= k.self_grown;
	if (!k.grown)
		v->out = v->flagged = false;
	v->expected_ns += k.usual_ns;
	v->excess = (double)s->latency_ns / v->expected_ns - 1;
	if (self) {
		v->expected_self_ns += k.usual_self_ns;
		v->self_excess = (double)s->self_ns / v->expected_self_ns - 1;
	}
}

static void note_kind(struct judge *j, const struct step *s)
{
	for (uint32_t i = 0; i < JUDGE_MODELS; i++)
		if (j->kind[i].key == s->key && j->kind[i].source)
			return;
	j->kind[j->kind_next].key = s->key;
	j->kind[j->kind_next].source = s->source;
	j->kind[j->kind_next].phase = s->phase;
	j->kind_next = (j->kind_next + 1) % JUDGE_MODELS;
}

/* *drift: whether the drift alarms of both models are raised. */
static struct judge_verdict judge(struct judge *j, const struct step *s, bool *drift)
{
	struct roofline_verdict lat, self = {0};
	/* With launches but no kernels, the GPU's work is unknown. Without launches and kernels,
	 * the step is only host time. */
	bool known = s->kernels > 0 || (!s->launches && !s->collectives), slow, shown;
	struct judge_verdict v = {.self_known = known};

	note_kind(j, s);
	lat = roofline_push(roofline_set_get(j->latency, s->key), s->work, s->work_count,
			    (double)s->latency_ns);
	if (known)
		self = roofline_push(roofline_set_get(j->self, s->key), s->work, s->work_count,
				     (double)s->self_ns);
	apply_hold(j, s->key, &lat, &self);
	v.state = lat.state;
	v.expected_ns = lat.expected_ns;
	v.expected_self_ns = self.expected_ns;
	v.excess = lat.excess;
	v.self_excess = self.excess;
	/* If the latency does not show the excess self time, this rank waited less for others
	 * instead, and no rank waited for it. */
	shown =
	    lat.state != ROOFLINE_READY ||
	    lat.excess * lat.expected_ns >= thresholds.part.most * self.excess * self.expected_ns;
	j->out_history = j->out_history << 1 | lat.out;
	slow = is_reportable(j, &lat);
	v.self = is_reportable(j, &self) && shown;
	v.out = lat.out || self.out;
	v.flagged = slow || v.self;
	/* No latency is expected yet. Assume the usual latency without the excess self time. */
	if (v.self && lat.state != ROOFLINE_READY) {
		v.expected_ns =
		    fmax((double)s->latency_ns - ((double)s->self_ns - v.expected_self_ns), 0);
		v.excess = v.expected_ns > 0 ? (double)s->latency_ns / v.expected_ns - 1 : 0;
	}
	v.spike = is_spike(j, s, &v);
	if (lat.expected_ns > 0)
		j->excess[j->used++ % RUN_STEPS] = lat.excess;
	judge_kind(j, s, &v);
	if (v.flagged)
		hold(j, s->key, &lat, &self);
	*drift = self.drift && lat.drift;
	return v;
}

static bool is_run(const struct judge *j)
{
	uint64_t latest = j->out_history & ((1ull << RUN_STEPS) - 1);

	return 2 * __builtin_popcountll(latest) >= RUN_STEPS;
}

/* A drift is slowness that flagged steps do not show: most steps are not flagged, but they are
 * slower than a node's usual variation explains. The alarm's sum includes flagged steps, so after
 * an anomaly the alarm means nothing for a while. */
static bool drift_stands_alone(const struct judge *j, const struct step *s)
{
	double v[JUDGE_PERIOD];
	uint32_t n = 0;

	if (j->last_run_ns && s->end_ns - j->last_run_ns < thresholds.time.gone_ns)
		return false;
	for (uint32_t i = 0; i < j->count; i++)
		if (!isnan(j->self_excess[i]))
			v[n++] = j->self_excess[i];
	return n > thresholds.part.half * JUDGE_PERIOD &&
	       median_of(v, n) >= thresholds.excess.slower;
}

struct judge_verdict judge_push(struct judge *j, const struct step *s, uint64_t stalled_ns)
{
	enum judge_skip skip = skip_of(j, s, stalled_ns);
	struct judge_verdict v = {.skip = skip};
	bool drift = false;

	judge_settle(j);
	j->grew = skip == JUDGE_USED && growth_push(&j->growth, s, &j->change);
	if (skip == JUDGE_USED) {
		j->model_key = s->key;
		v = judge(j, s, &drift);
		if (is_run(j))
			j->last_run_ns = s->end_ns;
	}
	if (skip != JUDGE_BRIEF) {
		j->self_excess[j->next] = v.flagged ? NAN : v.self_excess;
		j->next = (j->next + 1) % JUDGE_PERIOD;
		j->count += j->count < JUDGE_PERIOD;
	}
	v.drift = drift && !j->drift_raised && drift_stands_alone(j, s);
	j->drift_raised = drift && (j->drift_raised || v.drift);
	return v;
}

const struct growth_change *judge_growth(const struct judge *j)
{
	return j->grew ? &j->change : NULL;
}

void judge_restore(struct judge *j, const struct judge_sample *s)
{
	roofline_push(roofline_set_get(j->latency, s->key), s->work, s->work_count, s->latency_ns);
	if (s->known)
		roofline_push(roofline_set_get(j->self, s->key), s->work, s->work_count,
			      s->self_ns);
	j->model_key = s->key;
	j->restoring = true;
	kinds_past_unknown(j->kinds);
}

static void settle(struct roofline_set *set)
{
	uint64_t key;

	for (uint32_t i = 0; i < roofline_set_count(set); i++)
		roofline_settle(roofline_set_at(set, i, &key));
}

void judge_settle(struct judge *j)
{
	if (!j->restoring)
		return;
	j->restoring = false;
	settle(j->latency);
	settle(j->self);
}

void judge_model(const struct judge *j, struct roofline_summary *out)
{
	*out = (struct roofline_summary){.state = ROOFLINE_LEARNING};
	for (uint32_t i = 0; i < roofline_set_count(j->latency); i++) {
		uint64_t key;
		struct roofline *m = roofline_set_at(j->latency, i, &key);

		if (key == j->model_key)
			roofline_summary(m, out);
	}
}

uint32_t judge_models(const struct judge *j, struct judge_model_row *out, uint32_t max)
{
	uint32_t count = roofline_set_count(j->latency);

	for (uint32_t i = 0; i < count && i < max; i++) {
		uint64_t key;
		struct roofline *m = roofline_set_at(j->latency, i, &key);

		out[i] = (struct judge_model_row){0};
		roofline_summary(m, &out[i].fit);
		for (uint32_t k = 0; k < JUDGE_MODELS; k++)
			if (j->kind[k].key == key && j->kind[k].source) {
				out[i].source = j->kind[k].source;
				out[i].phase = j->kind[k].phase;
			}
	}
	return count < max ? count : max;
}

uint32_t judge_kinds(const struct judge *j, struct kinds_row *out, uint32_t max)
{
	return kinds_rows(j->kinds, out, max);
}

static uint32_t ready_of(struct roofline_set *set)
{
	uint32_t ready = 0;

	for (uint32_t i = 0; i < roofline_set_count(set); i++) {
		struct roofline_summary s;
		uint64_t key;

		roofline_summary(roofline_set_at(set, i, &key), &s);
		ready += s.state == ROOFLINE_READY;
	}
	return ready;
}

uint32_t judge_ready_count(const struct judge *j)
{
	return ready_of(j->latency) + ready_of(j->self);
}
