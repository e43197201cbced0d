/* SPDX-License-Identifier: Apache-2.0
 * Latencies are medians, so that one extreme step does not stand for the window. Losses are sums,
 * because an incident adds them up over its windows. */
#include "analysis/cause/digest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "base/limits.h"
#include "base/text/text.h"
#include "model/thresholds.h"

/* 146 years: the sum of two such times fits into an int64_t. */
#define TIME_MAX (1ll << 62)
/* No job has as many steps, and the difference of two such numbers fits into an int64_t. */
#define STEP_MAX (1ull << 62)

static uint64_t to_unix(const struct window *w, uint64_t t)
{
	return t + (uint64_t)w->realtime_offset_ns;
}

enum of_step { OF_LATENCY, OF_EXPECTED, OF_SELF, OF_EXPECTED_SELF, OF_DEVICE };

static double value_of(const struct window_step *s, enum of_step what)
{
	switch (what) {
	case OF_LATENCY:
		return (double)s->step.latency_ns;
	case OF_EXPECTED:
		return text_finite(s->expected_ns);
	case OF_SELF:
		return (double)s->step.self_ns;
	case OF_EXPECTED_SELF:
		return text_finite(s->expected_self_ns);
	case OF_DEVICE:
		return (double)s->step.compute_ns + (double)s->step.copy_ns;
	}
	return 0;
}

/* flag 0: of the steps that are neither flagged nor out. */
static double step_median(const struct window *w, uint32_t flag, enum of_step what, double *scratch)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->step_count; i++) {
		uint32_t is = w->steps[i].flags;
		double value = value_of(&w->steps[i], what);

		if ((flag ? is & flag : !(is & (WINDOW_STEP_FLAGGED | WINDOW_STEP_OUT))) &&
		    value > 0)
			scratch[n++] = value;
	}
	return median_of(scratch, n);
}

/* 0: there is no excess, or nothing to compare with. */
static double device_excess(const struct window *w, uint32_t flag, double *scratch)
{
	double mine = step_median(w, flag, OF_DEVICE, scratch);
	double usual = step_median(w, 0, OF_DEVICE, scratch);

	return usual > 0 && mine > usual ? mine - usual : 0;
}

/* The first step of the run of out steps that leads to the first flagged one. */
static uint64_t onset(const struct window *w, uint32_t first)
{
	uint64_t at = w->steps[first].step.index;

	for (uint32_t i = first; i-- > 0;) {
		const struct window_step *s = &w->steps[i];

		/* as far as the detector looks */
		if (s->step.index >= at || at - s->step.index > thresholds.count.few)
			break;
		if (s->flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED))
			at = s->step.index;
	}
	return at;
}

static void digest_spike(struct digest *d, uint64_t end_unix_ns)
{
	if (!d->slow.spikes++ || end_unix_ns < d->slow.spike_first_unix_ns)
		d->slow.spike_first_unix_ns = end_unix_ns;
	if (end_unix_ns > d->slow.spike_last_unix_ns)
		d->slow.spike_last_unix_ns = end_unix_ns;
}

static void step_times_add(struct step_times *t, const struct window_step *s)
{
	t->latency_ns += (double)s->step.latency_ns;
	t->steps++;
	if (s->expected_ns > 0) {
		t->expected_ns += text_finite(s->expected_ns);
		t->expected_steps++;
	}
	if (s->expected_self_ns > 0)
		t->expected_self_ns += text_finite(s->expected_self_ns);
}

static uint64_t within(const struct window *w, uint64_t t)
{
	return t < w->begin_ns ? w->begin_ns : t > w->end_ns ? w->end_ns : t;
}

/* The step's time: its latency, until its end on the GPU or on the host. */
static void digest_time(struct digest *d, const struct window *w, const struct step *s)
{
	uint64_t end = step_ends_on_device(s) && s->device_end_ns ? s->device_end_ns : s->end_ns;
	uint64_t begin = end > s->latency_ns ? end - s->latency_ns : 0;

	begin = to_unix(w, within(w, begin));
	end = to_unix(w, within(w, end));
	if (!d->slow.begin_unix_ns || begin < d->slow.begin_unix_ns)
		d->slow.begin_unix_ns = begin;
	if (end > d->slow.end_unix_ns)
		d->slow.end_unix_ns = end;
}

static void digest_steps(const struct window *w, struct digest *d)
{
	uint32_t flag = window_slow_flag(w), first = 0;
	bool transients = window_transients_count(w, flag);
	double *scratch = malloc(w->step_count * sizeof(*scratch) + 1);

	for (uint32_t i = 0; i < w->step_count; i++) {
		const struct window_step *s = &w->steps[i];
		double extra = (double)s->step.self_ns - text_finite(s->expected_self_ns);

		if (!(s->flags & flag))
			continue;
		if (!d->slow.flagged || s->step.index < d->slow.first_step) {
			d->slow.first_step = s->step.index;
			first = i;
		}
		if (s->step.index > d->slow.last_step)
			d->slow.last_step = s->step.index;
		digest_time(d, w, &s->step);
		d->slow.flagged++;
		if (s->flags & WINDOW_STEP_SPIKE)
			digest_spike(d, to_unix(w, s->step.end_ns));
		if (transients || !window_step_is_transient(s))
			step_times_add(&d->slow.took, s);
		if (s->expected_ns > 0) {
			double slow =
			    fmax((double)s->step.latency_ns - text_finite(s->expected_ns), 0);

			d->slow.flagged_ns += slow;
			d->slow.first_ns += s->flags & WINDOW_STEP_FIRST ? slow : 0;
		}
		if (!(extra > 0 && s->expected_self_ns > 0))
			continue;
		d->slow.self_excess_ns += extra;
		d->slow.first_self_ns += s->flags & WINDOW_STEP_FIRST ? extra : 0;
	}
	if (d->slow.flagged)
		d->slow.onset_step = onset(w, first);
	if (scratch && d->slow.flagged) {
		d->latency_ns = step_median(w, flag, OF_LATENCY, scratch);
		d->expected_ns = step_median(w, flag, OF_EXPECTED, scratch);
		d->self_ns = step_median(w, flag, OF_SELF, scratch);
		d->expected_self_ns = step_median(w, flag, OF_EXPECTED_SELF, scratch);
		d->device_excess_ns = device_excess(w, flag, scratch) * d->slow.flagged;
	}
	free(scratch);
}

bool digest_is_stolen(const struct digest *d)
{
	const char *name = os_signal_info(OS_SIGNAL_STEAL)->name;
	double taken_ns = 0;

	for (uint32_t k = 0; k < d->signal_count; k++)
		if (d->signals[k].flags & OS_SIGNAL_RAISED && !strcmp(d->signals[k].name, name))
			taken_ns = d->signals[k].weight_ms * 1e6 * (double)d->slow.flagged;
	/* the hypervisor takes no time from a GPU */
	return d->reason == WINDOW_SELF && taken_ns > 0 &&
	       taken_ns >= thresholds.part.half * d->slow.self_excess_ns &&
	       d->device_excess_ns <= thresholds.part.half * d->slow.self_excess_ns;
}

static bool is_sound_step(const struct window_step *s)
{
	return s->step.index < STEP_MAX && s->step.latency_ns <= LIMIT_WINDOW_NS &&
	       s->step.self_ns <= LIMIT_WINDOW_NS && s->step.compute_ns <= LIMIT_WINDOW_NS &&
	       s->step.copy_ns <= LIMIT_WINDOW_NS &&
	       fabs(s->expected_ns) <= (double)LIMIT_WINDOW_NS && /* false for NaN */
	       fabs(s->expected_self_ns) <= (double)LIMIT_WINDOW_NS;
}

bool digest_is_sound(const struct window *w)
{
	const struct wire_rank *r = &w->rank;
	bool times = w->end_ns < (uint64_t)TIME_MAX && w->realtime_offset_ns < TIME_MAX &&
		     w->realtime_offset_ns > -TIME_MAX && w->begin_ns <= w->end_ns &&
		     w->end_ns - w->begin_ns <= LIMIT_WINDOW_NS &&
		     (int64_t)w->begin_ns + w->realtime_offset_ns >= 0;

	for (uint32_t i = 0; i < w->step_count; i++)
		if (!is_sound_step(&w->steps[i]))
			return false;
	return times && r->rank >= -1 && r->world_size <= (int32_t)LIMIT_FLEET_RANKS &&
	       r->rank < (r->world_size > 0 ? r->world_size : (int32_t)LIMIT_FLEET_RANKS);
}

/* CUDA_VISIBLE_DEVICES=-1 assigns none. */
static bool uses_no_gpu(const struct window *w)
{
	const char *gpu = w->rank.gpu_uuid;

	for (uint32_t i = 0; i < w->step_count; i++)
		if (w->steps[i].step.launches)
			return false;
	return !w->device_count && (!*gpu || *gpu == '-');
}

void digest_make(const struct window *w, size_t bytes, struct digest *d)
{
	uint64_t most = 0;

	memset(d, 0, sizeof(*d));
	d->beyond_peers = NAN;
	memcpy(d->id, w->id, sizeof(d->id));
	memcpy(d->anomaly_id, w->anomaly_id, sizeof(d->anomaly_id));
	d->rank = w->rank;
	d->reason = w->reason;
	d->sequence = w->sequence;
	d->begin_unix_ns = to_unix(w, w->begin_ns);
	d->end_unix_ns = to_unix(w, w->end_ns);
	d->steps = w->step_count;
	d->records = w->host_count + w->device_count;
	d->bytes = bytes;
	d->raw_bytes = w->raw_bytes;
	d->summary_only = w->summary_only;
	d->no_gpu = uses_no_gpu(w);
	for (uint32_t i = 0; i < w->loss_count; i++) {
		d->lost += w->losses[i].count;
		if (w->losses[i].count > most) {
			most = w->losses[i].count;
			text_copy(d->lost_cause, sizeof(d->lost_cause), w->losses[i].cause);
		}
	}
	for (uint32_t i = 0; w->host && i < w->host_count; i++)
		if (w->host[i].kind == RECORD_COLL && w->host[i].func < RECORD_COLL_GROUP_START &&
		    w->host[i].seq > d->collectives)
			d->collectives = w->host[i].seq;
	for (uint32_t i = 0; i < w->signal_count; i++)
		os_signal_put(d->signals, &d->signal_count, DIGEST_SIGNALS_MAX, &w->signals[i]);
	digest_steps(w, d);
}
