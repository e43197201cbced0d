/* SPDX-License-Identifier: Apache-2.0
 * A record goes to the recorder before it is used to find steps, so a window never lacks a record
 * that its steps were found from. */
#include "node/rank.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/carve.h"
#include "base/hash.h"

void rank_config_default(struct rank_config *c)
{
	*c = (struct rank_config){
	    .stall_ns = 5000000000ull, .stall_latencies = 30, .beat_ns = 5000000000ull};
	judge_config_default(&c->judge);
	steps_config_default(&c->steps);
	anomaly_config_default(&c->anomaly);
}

int rank_open(struct rank **out, const struct rank_config *c, struct recorder *recorder,
	      uint32_t slot, struct canary *canary, uint64_t seed, uint64_t now_ns)
{
	struct rank *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->config = *c;
	r->config.judge.roofline.seed = seed;
	r->recorder = recorder;
	r->slot = slot;
	r->canary = canary;
	r->random = seed | 1;
	r->steps_memory = carve_memory(steps_memory_bytes(&c->steps));
	r->judge_memory = carve_memory(judge_memory_bytes(&r->config.judge));
	r->recent = malloc(sizeof(*r->recent) * RANK_RECENT);
	r->learned = calloc(RANK_LEARNED, sizeof(*r->learned));
	if (!r->steps_memory || !r->judge_memory || !r->recent || !r->learned ||
	    beats_open(&r->beats, c->beat_ns) || normal_open(&r->normal)) {
		rank_close(r);
		return -ENOMEM;
	}
	r->steps = steps_init(r->steps_memory, &c->steps);
	r->judge = judge_init(r->judge_memory, &r->config.judge);
	anomaly_init(&r->anomaly, &c->anomaly, now_ns);
	*out = r;
	return 0;
}

void rank_close(struct rank *r)
{
	if (!r)
		return;
	free(r->steps_memory);
	free(r->judge_memory);
	beats_close(r->beats);
	normal_close(r->normal);
	free(r->recent);
	free(r->learned);
	free(r);
}

static bool gives_work(const struct record *rec)
{
	return record_is_launch(rec) || rec->kind == RECORD_COPY_CALL;
}

static void note_active(struct rank *r, uint64_t at_ns)
{
	if (at_ns > r->active_ns)
		r->active_ns = at_ns;
}

void rank_host(struct rank *r, const struct record *rec, const struct step_mark *mark)
{
	recorder_push(r->recorder, r->slot, rec);
	/* A span is complete only at its end, so it is out of order; steps need ordered records. */
	if (rec->kind == RECORD_SPAN || rec->kind == RECORD_SPAN_REQUEST)
		return;
	if (gives_work(rec))
		note_active(r, rec->begin_ns);
	beats_host(r->beats, rec);
	normal_host(r->normal, rec);
	analysis_log_record(r->log, r->slot, rec, mark);
	steps_push_host(r->steps, rec, mark);
}

void rank_device(struct rank *r, const struct record *rec)
{
	recorder_push(r->recorder, r->slot, rec);
	note_active(r, rec->end_ns);
	beats_device(r->beats, rec);
	analysis_log_record(r->log, r->slot, rec, NULL);
	steps_push_device(r->steps, rec);
}

void rank_fresh_id(struct rank *r, uint8_t id[16])
{
	for (int i = 0; i < 2; i++) {
		uint64_t v;

		r->random = hash_mix(r->random + 0x9e3779b97f4a7c15ull);
		v = r->random;
		memcpy(id + 8 * i, &v, 8);
	}
}

static void count_skip(struct rank_stats *st, uint32_t skip)
{
	st->incomplete += skip == JUDGE_INCOMPLETE;
	st->host_stall += skip == JUDGE_HOST_STALL;
}

static void note_learned(struct rank *r, const struct step *s, bool known)
{
	struct judge_sample *l = &r->learned[r->learned_total++ % RANK_LEARNED];

	*l = (struct judge_sample){.key = s->key,
				   .latency_ns = (double)s->latency_ns,
				   .self_ns = (double)s->self_ns,
				   .work_count = s->work_count,
				   .known = known};
	memcpy(l->work, s->work, sizeof(l->work));
}

static struct window_step as_window_step(const struct step *s, const struct judge_verdict *v)
{
	struct window_step ws = {.step = *s, .flags = s->flags};

	ws.expected_ns = v->expected_ns;
	ws.expected_self_ns = v->expected_self_ns;
	ws.excess = v->excess;
	ws.self_excess = v->self_excess;
	ws.kind = v->kind;
	ws.period = v->period;
	ws.flags |= (v->out ? WINDOW_STEP_OUT : 0) | (v->flagged ? WINDOW_STEP_FLAGGED : 0) |
		    (v->first ? WINDOW_STEP_FIRST : 0) | (v->spike ? WINDOW_STEP_SPIKE : 0);
	return ws;
}

static void remember(struct rank *r, const struct window_step *ws)
{
	r->recent[r->recent_next] = *ws;
	r->recent_next = (r->recent_next + 1) % RANK_RECENT;
	r->recent_count += r->recent_count < RANK_RECENT;
}

static void on_judged(struct rank *r, const struct window_step *ws, bool self, uint64_t now_ns)
{
	bool flagged = ws->flags & WINDOW_STEP_FLAGGED;
	uint8_t id[16];

	if (flagged) {
		r->stats.flagged++;
		r->stats.self_excess = ws->self_excess;
		/* The last window still waits for a suspect. Ship it before the next one begins. */
		if (r->anomaly.state == ANOMALY_CLOSED)
			r->on_window(r->arg, r);
	}
	if (self) {
		r->stats.flagged_self++;
		r->stats.last_self_flag_ns = ws->step.end_ns;
	}
	rank_fresh_id(r, id);
	/* A suspect's window does not wait. */
	if (anomaly_push(&r->anomaly, ws, self, id, now_ns) &&
	    anomaly_reason(&r->anomaly) == WINDOW_SELF)
		r->on_window(r->arg, r);
}

static void add_step(struct rank *r, const struct step *s, uint32_t kernel_count, uint64_t now_ns)
{
	uint64_t stalled_ns = canary_stalled_ns(r->canary, s->begin_ns, s->end_ns);
	struct judge_verdict v = judge_push(r->judge, s, stalled_ns);
	struct window_step ws = as_window_step(s, &v);
	bool used = v.skip == JUDGE_USED;

	analysis_log_step(r->log, r->slot, s, stalled_ns, &v);
	r->stats.steps++;
	r->stats.last_step_end_ns = s->end_ns;
	count_skip(&r->stats, v.skip);
	if (used) {
		r->stats.judged++;
		/* A model that is still learning has learned this step, so it is kept for the next
		 * sysomd. */
		if ((!v.out && !v.of_kind) || v.state == ROOFLINE_LEARNING)
			note_learned(r, s, v.self_known);
		on_judged(r, &ws, v.self, now_ns);
	}
	if (v.skip != JUDGE_BRIEF)
		remember(r, &ws);
	beats_step(r->beats, &ws, used);
	normal_step(r->normal, &ws, used, r->kernels, kernel_count);
	if (r->on_step)
		r->on_step(r->arg, r, &ws, used, kernel_count);
	if (v.drift || judge_growth(r->judge))
		r->on_drift(r->arg, r, v.drift ? NULL : judge_growth(r->judge));
}

void rank_run(struct rank *r, uint64_t device_ns, uint64_t now_ns)
{
	struct step s;
	uint32_t kernel_count = 0;

	analysis_log_run(r->log, r->slot, device_ns);
	steps_advance(r->steps, device_ns);
	while (steps_next(r->steps, &s, r->kernels, &kernel_count))
		add_step(r, &s, kernel_count, now_ns);
}

void rank_finish(struct rank *r, uint64_t now_ns)
{
	struct step s;
	uint32_t kernel_count = 0;

	analysis_log_finish(r->log, r->slot);
	steps_finish(r->steps);
	while (steps_next(r->steps, &s, r->kernels, &kernel_count))
		add_step(r, &s, kernel_count, now_ns);
	if (anomaly_close(&r->anomaly, now_ns))
		r->on_window(r->arg, r);
}

void rank_watch(struct rank *r, uint64_t now_ns)
{
	r->watched_ns = now_ns;
}

uint64_t rank_still_since(const struct rank *r)
{
	uint64_t last = r->stats.last_step_end_ns;

	if (!last)
		return 0;
	last = last < r->watched_ns ? r->watched_ns : last;
	return last < r->active_ns ? r->active_ns : last;
}

bool rank_is_still(const struct rank *r, uint64_t now_ns)
{
	uint64_t since = rank_still_since(r);
	struct rank_medians m;

	if (!since || since > now_ns || r->stats.judged < r->config.judge.roofline.learn_min ||
	    now_ns - since < r->config.stall_ns)
		return false;
	rank_medians(r, &m);
	return (double)(now_ns - since) >= r->config.stall_latencies * m.latency_ns &&
	       canary_stalled_ns(r->canary, since, now_ns) <= (now_ns - since) / 4;
}

void rank_stall(struct rank *r)
{
	r->stalled_ns = rank_still_since(r);
}

uint64_t rank_stalled_since(const struct rank *r)
{
	return r->stalled_ns && r->stalled_ns == rank_still_since(r) ? r->stalled_ns : 0;
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
			known += f != FIELD_EXPECTED || v[known] > 0; /* 0 while the model learns */
		}
		got[f] = median_of(v, known);
	}
	for (uint32_t i = 0; i < n; i++)
		v[i] = field(&r->recent[(first + i) % RANK_RECENT], 0);
	*out = (struct rank_medians){.latency_ns = got[0],
				     .latency_mad_ns = median_mad(v, n, got[0]),
				     .self_ns = got[1],
				     .expected_ns = got[2],
				     .compute_ns = got[3],
				     .comm_ns = got[4],
				     .exposed_comm_ns = got[5],
				     .copy_ns = got[6],
				     .idle_ns = got[7]};
}

void rank_beat(const struct rank *r, struct beat_rank *out)
{
	const struct rank_stats *st = &r->stats;
	struct rank_medians m;

	rank_medians(r, &m);
	*out = (struct beat_rank){
	    .model_state = rank_model(r, NULL, NULL),
	    .steps = st->steps,
	    .flagged = st->flagged,
	    .latency_median_ns = m.latency_ns,
	    .latency_mad_ns = m.latency_mad_ns,
	    .self_median_ns = m.self_ns,
	    .expected_ns = m.expected_ns,
	    .compute_ns = m.compute_ns,
	    .comm_ns = m.comm_ns,
	    .exposed_comm_ns = m.exposed_comm_ns,
	    .copy_ns = m.copy_ns,
	    .idle_ns = m.idle_ns,
	    .stalled_since_ns = rank_stalled_since(r),
	};
}

bool rank_has_sketch(const struct rank *r)
{
	return normal_steps(r->normal) && rank_model(r, NULL, NULL) != ROOFLINE_LEARNING;
}

int rank_sketch(struct rank *r, const char *(*name)(void *arg, uint32_t id), void *arg,
		struct sketch *out, struct normal_when *when)
{
	int err = normal_take(r->normal, name, arg, out, when);

	if (err)
		return err;
	out->kind_count = judge_kinds(r->judge, out->kinds, SKETCH_KINDS_MAX);
	out->model_state = rank_model(r, &out->model_r2, NULL);
	return 0;
}

enum roofline_state rank_model(const struct rank *r, double *r2, double *spread)
{
	struct roofline_summary s;

	judge_model(r->judge, &s);
	if (r2)
		*r2 = s.r2;
	if (spread)
		*spread = s.spread;
	return s.state;
}

uint32_t rank_learned(const struct rank *r, struct judge_sample *out)
{
	uint64_t n = r->learned_total < RANK_LEARNED ? r->learned_total : RANK_LEARNED;

	for (uint64_t i = 0; i < n; i++)
		out[i] = r->learned[(r->learned_total - n + i) % RANK_LEARNED];
	return (uint32_t)n;
}

/* The phase of an automatic key; JUDGE_MODELS: the key is not automatic. */
static uint32_t automatic_phase(uint64_t key)
{
	uint32_t phase = 0;

	while (phase < JUDGE_MODELS && key != steps_key(STEP_SOURCE_AUTO, phase))
		phase++;
	return phase;
}

/* The only automatic phase, apart from a few other steps; JUDGE_MODELS: none, or several. */
static uint32_t only_phase(const struct judge_sample *samples, uint32_t count)
{
	uint32_t of[JUDGE_MODELS + 1] = {0}, best = 0, total = 0;

	for (uint32_t i = 0; i < count; i++)
		of[automatic_phase(samples[i].key)]++;
	for (uint32_t phase = 0; phase < JUDGE_MODELS; phase++) {
		total += of[phase];
		if (of[phase] > of[best])
			best = phase;
	}
	return of[best] > total - of[best] && total - of[best] <= RANK_STRAYS ? best : JUDGE_MODELS;
}

uint32_t rank_restore(struct rank *r, const struct judge_sample *samples, uint32_t count)
{
	uint32_t only = only_phase(samples, count), learned = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct judge_sample s = samples[i];
		uint32_t phase = automatic_phase(s.key);

		if (phase < JUDGE_MODELS && phase != only)
			continue;
		if (phase < JUDGE_MODELS)
			s.key = steps_key(STEP_SOURCE_AUTO, 0);
		analysis_log_sample(r->log, r->slot, &s);
		judge_restore(r->judge, &s);
		r->learned[r->learned_total++ % RANK_LEARNED] = s;
		learned++;
	}
	judge_settle(r->judge);
	return learned;
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
