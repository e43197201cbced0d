/* SPDX-License-Identifier: Apache-2.0
 * A rank is a suspect only for its own time: a fault anywhere makes every rank's steps longer through
 * the collectives, and the culprit is the one that waits least. */
#include "sidecar/rank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/median.h"
#include "base/hash.h"

void rank_config_default(struct rank_config *c)
{
	*c = (struct rank_config){ .stall_ns = 5000000000ull, .stall_latencies = 30,
				   .step_min_ns = 200000, .instant_ratio = 0.25,
				   .host_stall_share = 0.25, .beat_ns = 5000000000ull };
	roofline_config_default(&c->roofline);
	steps_config_default(&c->steps);
	anomaly_config_default(&c->anomaly);
}

static void *aligned(size_t bytes)
{
	return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

int rank_open(struct rank **out, const struct rank_config *c, struct recorder *recorder,
	      uint32_t slot, struct canary *canary, uint64_t seed, uint64_t now_ns)
{
	struct rank *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->config = *c;
	r->config.roofline.seed = seed;
	r->recorder = recorder;
	r->slot = slot;
	r->canary = canary;
	r->random = seed | 1;
	r->steps_memory = aligned(steps_memory_bytes(&c->steps));
	r->latency_memory = aligned(roofline_set_memory_bytes(&r->config.roofline, RANK_MODELS));
	r->self_memory = aligned(roofline_set_memory_bytes(&r->config.roofline, RANK_MODELS));
	r->explain_memory = aligned(explain_memory_bytes(RANK_MODELS));
	r->recent = malloc(sizeof(*r->recent) * RANK_RECENT);
	r->learned = calloc(RANK_LEARNED, sizeof(*r->learned));
	if (!r->steps_memory || !r->latency_memory || !r->self_memory || !r->explain_memory ||
	    !r->recent || !r->learned || beats_open(&r->beats, c->beat_ns) ||
	    normal_open(&r->normal)) {
		rank_close(r);
		return -ENOMEM;
	}
	r->steps = steps_init(r->steps_memory, &c->steps);
	r->latency = roofline_set_init(r->latency_memory, &r->config.roofline, RANK_MODELS);
	r->self = roofline_set_init(r->self_memory, &r->config.roofline, RANK_MODELS);
	r->explain = explain_init(r->explain_memory, RANK_MODELS);
	anomaly_init(&r->anomaly, &c->anomaly, now_ns);
	*out = r;
	return 0;
}

void rank_close(struct rank *r)
{
	if (!r)
		return;
	free(r->steps_memory);
	free(r->latency_memory);
	free(r->self_memory);
	free(r->explain_memory);
	beats_close(r->beats);
	normal_close(r->normal);
	free(r->recent);
	free(r->learned);
	free(r);
}

void rank_host(struct rank *r, const struct record *rec, const struct step_mark *mark, bool late)
{
	recorder_push(r->recorder, r->slot, rec);
	/* A span is complete at its end only; steps are found from what lies in order. */
	if (rec->kind == RECORD_SPAN)
		return;
	r->stats.host_late += late;
	beats_host(r->beats, rec);
	normal_host(r->normal, rec);
	steps_push_host(r->steps, rec, mark);
}

void rank_device(struct rank *r, const struct record *rec)
{
	recorder_push(r->recorder, r->slot, rec);
	beats_device(r->beats, rec);
	steps_push_device(r->steps, rec);
}

static void fresh_id(struct rank *r, uint8_t id[16])
{
	for (int i = 0; i < 2; i++) {
		uint64_t v;

		r->random = hash_mix(r->random + 0x9e3779b97f4a7c15ull);
		v = r->random;
		memcpy(id + 8 * i, &v, 8);
	}
}

/* Whether the step says anything about the rank. */
static bool judgeable(struct rank *r, const struct step *s)
{
	uint64_t stalled = canary_stalled_ns(r->canary, s->begin_ns, s->end_ns);

	if (s->latency_ns < r->config.step_min_ns) {
		r->stats.brief++;
		return false;
	}
	if (s->flags & (STEP_FLAG_GAP | STEP_FLAG_FIRST)) {
		r->stats.gap++;
		return false;
	}
	if ((s->flags & STEP_FLAG_INCOMPLETE) && s->kernels && s->unmatched * 20 > s->launches) {
		/* With a kernel in twenty missing, self time is not what it seems. */
		r->stats.incomplete++;
		return false;
	}
	if ((double)stalled > r->config.host_stall_share * (double)s->latency_ns) {
		r->stats.host_stall++;
		return false;
	}
	return true;
}

/* On a job whose steps differ by a thousandth, one hiccup of the machine is far beyond the tail; it
 * is noted as out, but a person wants to hear of it only when it lasts or is large. */
static bool stands(const struct rank *r, const struct roofline_verdict *v, uint64_t *history)
{
	const struct roofline_config *c = &r->config.roofline;
	uint64_t last = c->persist_m < 64 ? (1ull << c->persist_m) - 1 : UINT64_MAX;

	*history = *history << 1 | v->out;
	return v->flagged && (v->excess >= r->config.instant_ratio ||
			      (uint32_t)__builtin_popcountll(*history & last) >= c->persist_n);
}

/* A model that is fitted again in the middle of a fault has its steps among its samples, and may
 * calibrate the tail over them: what opened the anomaly goes on counting until it is over. */
static void hold(struct rank *r, uint64_t key, struct roofline_verdict *lat,
		 struct roofline_verdict *self)
{
	if (r->hold_steps && r->hold_key == key) {
		r->hold_steps--;
		if (lat->expected_ns > 0 && lat->excess >= r->hold_latency)
			lat->out = lat->flagged = true;
		if (self->expected_ns > 0 && self->excess >= r->hold_self)
			self->out = self->flagged = true;
	}
	if (!lat->flagged || lat->threshold <= 0)
		return;
	if (!r->hold_steps || r->hold_key != key) {
		r->hold_key = key;
		r->hold_latency = lat->threshold;
		r->hold_self = self->threshold > 0 ? self->threshold : lat->threshold;
	}
	r->hold_steps = RANK_HOLD;
}

static void note_learned(struct rank *r, const struct step *s, bool known)
{
	struct rank_sample *l = &r->learned[r->learned_total++ % RANK_LEARNED];

	*l = (struct rank_sample){ .key = s->key, .latency_ns = (double)s->latency_ns,
				   .self_ns = (double)s->self_ns, .work_count = s->work_count,
				   .known = known };
	memcpy(l->work, s->work, sizeof(l->work));
}

static struct window_step judge(struct rank *r, const struct step *s, bool *self_flagged,
				bool *drift)
{
	struct window_step ws = { .step = *s, .flags = s->flags };
	struct roofline_verdict lat, self = { 0 };
	/* Launches without kernels: nobody saw what the GPU did. Neither: the step is all the host's. */
	bool known = s->kernels > 0 || (!s->launches && !s->collectives), slow;

	lat = roofline_push(roofline_set_get(r->latency, s->key), s->work, s->work_count,
			    (double)s->latency_ns);
	if (known)
		self = roofline_push(roofline_set_get(r->self, s->key), s->work, s->work_count,
				     (double)s->self_ns);
	hold(r, s->key, &lat, &self);
	ws.expected_ns = lat.expected_ns;
	ws.expected_self_ns = self.expected_ns;
	ws.excess = lat.excess;
	ws.self_excess = self.excess;
	/* More self time in a step that is not slow is slack that nobody waited for. */
	slow = stands(r, &lat, &r->out_history);
	*self_flagged = stands(r, &self, &r->self_history) &&
			(lat.out || lat.state != ROOFLINE_ARMED);
	*drift = self.drift && lat.drift;
	if (lat.out || self.out)
		ws.flags |= WINDOW_STEP_OUT;
	else
		note_learned(r, s, known);
	if (slow || *self_flagged)
		ws.flags |= WINDOW_STEP_FLAGGED;
	return ws;
}

/* A drift is slowness that no step showed. While steps are flagged their windows tell it, and the
 * alarm, which sums up what they added, must find the rank still slow once they are past. */
static bool drift_stands_alone(const struct rank *r, const struct window_step *ws)
{
	uint32_t n = r->recent_count < RANK_PERIOD ? r->recent_count : RANK_PERIOD;
	uint32_t first = r->recent_next + RANK_RECENT - n;
	double v[RANK_PERIOD];

	if (r->stats.last_flag_ns && ws->step.end_ns - r->stats.last_flag_ns < RANK_DRIFT_QUIET_NS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		v[i] = r->recent[(first + i) % RANK_RECENT].self_excess;
	return median_of(v, n) >= RANK_DRIFT_EXCESS_MIN;
}

static void remember(struct rank *r, const struct window_step *ws)
{
	r->recent[r->recent_next] = *ws;
	r->recent_next = (r->recent_next + 1) % RANK_RECENT;
	r->recent_count += r->recent_count < RANK_RECENT;
}

static void on_judged(struct rank *r, const struct window_step *ws, bool self, uint32_t kernel_count,
		      uint64_t now_ns)
{
	bool flagged = ws->flags & WINDOW_STEP_FLAGGED;
	uint8_t id[16];

	if (flagged) {
		r->stats.flagged++;
		r->stats.self_excess = ws->self_excess;
		r->stats.last_flag_ns = ws->step.end_ns;
		/* The last window waits for its arbitration: it has to go now. */
		if (r->anomaly.state == ANOMALY_CLOSED)
			r->on_window(r->arg, r);
		if (r->anomaly.state == ANOMALY_IDLE) {
			explain_begin(r->explain);
			r->stats.windows_open++;
		}
		explain_add(r->explain, &ws->step, r->kernels, kernel_count);
	} else if (!(ws->flags & WINDOW_STEP_OUT)) {
		explain_learn(r->explain, &ws->step, r->kernels, kernel_count);
	}
	if (self) {
		r->stats.flagged_self++;
		r->stats.last_self_flag_ns = ws->step.end_ns;
	}
	fresh_id(r, id);
	if (anomaly_push(&r->anomaly, ws, self, id, now_ns)) {
		r->stats.windows_closed++;
		/* A suspect's window needs no arbitration. */
		if (anomaly_reason(&r->anomaly) == WINDOW_SELF)
			r->on_window(r->arg, r);
	}
}

static void take_step(struct rank *r, const struct step *s, uint32_t kernel_count, uint64_t now_ns)
{
	struct window_step ws = { .step = *s, .flags = s->flags };
	bool self = false, drift = false, used;

	r->stats.steps++;
	r->stats.last_step_end_ns = s->end_ns;
	r->stalled = false;
	used = judgeable(r, s);
	if (used) {
		r->model_key = s->key;
		r->stats.judged++;
		ws = judge(r, s, &self, &drift);
		on_judged(r, &ws, self, kernel_count, now_ns);
	}
	if (s->latency_ns >= r->config.step_min_ns)
		remember(r, &ws);
	beats_step(r->beats, &ws, used);
	normal_step(r->normal, &ws, used, r->kernels, kernel_count);
	if (r->on_step)
		r->on_step(r->arg, r, &ws, used, kernel_count);
	if (drift && !r->drift_raised && drift_stands_alone(r, &ws)) {
		r->stats.drifts++;
		r->on_drift(r->arg, r);
		r->drift_raised = true;
	}
	r->drift_raised &= drift;
}

void rank_run(struct rank *r, uint64_t device_ns, uint64_t now_ns)
{
	struct step s;
	uint32_t kernel_count = 0;

	steps_advance(r->steps, device_ns);
	while (steps_next(r->steps, &s, r->kernels, &kernel_count))
		take_step(r, &s, kernel_count, now_ns);
}

void rank_finish(struct rank *r, uint64_t now_ns)
{
	struct step s;
	uint32_t kernel_count = 0;

	steps_finish(r->steps);
	while (steps_next(r->steps, &s, r->kernels, &kernel_count))
		take_step(r, &s, kernel_count, now_ns);
	if (anomaly_close(&r->anomaly, now_ns))
		r->on_window(r->arg, r);
}

bool rank_check_stall(struct rank *r, uint64_t now_ns)
{
	struct rank_medians m;
	double limit;

	if (r->stalled || !r->stats.last_step_end_ns || r->stats.judged < r->config.roofline.learn_min ||
	    now_ns - r->stats.last_step_end_ns < r->config.stall_ns)
		return false;
	rank_medians(r, &m);
	limit = r->config.stall_latencies * m.latency_ns;
	if ((double)(now_ns - r->stats.last_step_end_ns) < limit)
		return false;
	if (canary_stalled_ns(r->canary, r->stats.last_step_end_ns, now_ns) >
	    (now_ns - r->stats.last_step_end_ns) / 4)
		return false;
	r->stalled = true;
	r->stats.stalls++;
	return true;
}

#define FIELD_EXPECTED 2

static double field(const struct window_step *w, int which)
{
	const struct step *s = &w->step;

	switch (which) {
	case 0:
		return (double)s->latency_ns;
	case 1:
		return (double)s->self_ns;
	case FIELD_EXPECTED:
		return w->expected_ns;
	case 3:
		return (double)s->compute_ns;
	case 4:
		return (double)s->comm_ns;
	case 5:
		return (double)s->exposed_comm_ns;
	case 6:
		return (double)s->copy_ns;
	default:
		return (double)s->idle_ns;
	}
}

void rank_medians(const struct rank *r, struct rank_medians *out)
{
	double v[RANK_PERIOD], got[8];
	uint32_t n = r->recent_count < RANK_PERIOD ? r->recent_count : RANK_PERIOD;
	uint32_t first = r->recent_next + RANK_RECENT - n;

	for (int f = 0; f < 8; f++) {
		uint32_t known = 0;

		for (uint32_t i = 0; i < n; i++) {
			v[known] = field(&r->recent[(first + i) % RANK_RECENT], f);
			known += f != FIELD_EXPECTED || v[known] > 0; /* 0: still learning */
		}
		got[f] = median_of(v, known);
	}
	for (uint32_t i = 0; i < n; i++)
		v[i] = fabs(field(&r->recent[(first + i) % RANK_RECENT], 0) - got[0]);
	*out = (struct rank_medians){ .latency_ns = got[0], .latency_mad_ns = median_of(v, n),
				      .self_ns = got[1], .expected_ns = got[2],
				      .compute_ns = got[3], .comm_ns = got[4],
				      .exposed_comm_ns = got[5], .copy_ns = got[6],
				      .idle_ns = got[7] };
}

enum roofline_state rank_model(const struct rank *r, double *r2, double *spread)
{
	struct roofline_summary s = { .state = ROOFLINE_LEARNING };

	for (uint32_t i = 0; i < roofline_set_count(r->latency); i++) {
		uint64_t key;
		struct roofline *m = roofline_set_at(r->latency, i, &key);

		if (key == r->model_key)
			roofline_summary(m, &s);
	}
	if (r2)
		*r2 = s.r2;
	if (spread)
		*spread = s.spread;
	return s.state;
}

uint32_t rank_learned(const struct rank *r, struct rank_sample *out)
{
	uint64_t n = r->learned_total < RANK_LEARNED ? r->learned_total : RANK_LEARNED;

	for (uint64_t i = 0; i < n; i++)
		out[i] = r->learned[(r->learned_total - n + i) % RANK_LEARNED];
	return (uint32_t)n;
}

static bool is_automatic(uint64_t key, bool *first)
{
	for (uint32_t phase = 0; phase < RANK_MODELS; phase++)
		if (key == steps_key(STEP_SOURCE_AUTO, phase)) {
			*first = !phase;
			return true;
		}
	return false;
}

uint32_t rank_restore(struct rank *r, const struct rank_sample *samples, uint32_t count)
{
	bool patterns = false, first;
	uint32_t taken = 0;

	for (uint32_t i = 0; i < count; i++)
		patterns |= is_automatic(samples[i].key, &first) && !first;
	for (uint32_t i = 0; i < count; i++) {
		const struct rank_sample *s = &samples[i];

		if (patterns && is_automatic(s->key, &first))
			continue;
		roofline_push(roofline_set_get(r->latency, s->key), s->work, s->work_count,
			      s->latency_ns);
		if (s->known)
			roofline_push(roofline_set_get(r->self, s->key), s->work, s->work_count,
				      s->self_ns);
		r->learned[r->learned_total++ % RANK_LEARNED] = *s;
		r->model_key = s->key;
		taken++;
	}
	return taken;
}

uint32_t rank_recent(const struct rank *r, uint64_t begin_ns, uint64_t end_ns,
		     struct window_step *out, uint32_t max)
{
	uint32_t n = 0, first = r->recent_next + RANK_RECENT - r->recent_count;

	for (uint32_t i = 0; i < r->recent_count; i++) {
		const struct window_step *w = &r->recent[(first + i) % RANK_RECENT];

		if (w->step.end_ns < begin_ns || w->step.begin_ns > end_ns)
			continue;
		if (n == max)
			memmove(out, out + 1, sizeof(*out) * --n);
		out[n++] = *w;
	}
	return n;
}
