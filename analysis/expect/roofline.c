/* SPDX-License-Identifier: Apache-2.0
 * The life of a model. It collects steps, fits (roofline_fit.c), becomes ready or refused, and goes
 * on learning until learn_max. Then the baseline is frozen, except for work that was never seen.
 * Steps that were out stay in the samples as suspects until the next fit. If the fit was wrong, the
 * next one finds them usual; otherwise they are dropped. Dropping them at once would preserve a
 * wrong fit, because the fit would never see the steps that disprove it. They are left out at once
 * only if the fit with them is poor, so that a fault does not undo what is known. A line that
 * follows recent steps would absorb a lasting slowdown. So a CUSUM against the baseline detects
 * drift, and while its alarm is raised nothing is learned. */
#include "analysis/expect/roofline.h"

#include <math.h>
#include <string.h>

#include "analysis/expect/roofline_fit.h"
#include "analysis/expect/roofline_p99.h"
#include "analysis/robust/change.h"
#include "analysis/robust/median.h"
#include "base/carve.h"
#include "base/hash.h"
#include "base/probe.h"
#include "model/thresholds.h"

#define LATENCY_LEAST_NS 1e-30
#define LATENCY_MOST_NS	 1e30
#define RECENT		 256 /* steps over which a bad fit is noticed */
#define DRIFT_CLIP	 1.5 /* the most that one step adds to the CUSUM */
#define DRIFT_SLACK	 0.5
/* If at least 14 of the latest 16 steps are slow, they are out, even if no single one is beyond the
 * tail. */
#define SUSTAIN_STEPS 16u
#define SUSTAIN_LEAST 14u

struct roofline {
	struct roofline_config c;
	enum roofline_state state;
	uint32_t features, n, cap, fresh_novel;
	bool drift, drift_ever;
	uint32_t refusals; /* consecutive bad fits */
	bool misled;	   /* a fit on few steps looked good, but turned out wrong */
	uint64_t steps, out, flagged, history, novel, next_fit;
	double slower, faster;		      /* CUSUM */
	double few, reach_out, reach_instant; /* computed from the last fit */
	/* also from the last fit: the excess that a slow run must have; INFINITY: too few steps to
	 * tell */
	double run_largest;
	/* recurs: the sum of recurs_next(); recurs_least: what it must exceed */
	double recurs, recurs_least;
	float run[SUSTAIN_STEPS]; /* ring: excess of the latest steps */
	uint32_t run_count;
	uint64_t random;
	float recent[RECENT];
	uint32_t recent_count;
	struct roofline_fit fit;
	struct roofline_p99 p99;
	void *scratch;			     /* shared within a set */
	struct roofline_fit_sample sample[]; /* [cap] */
};

void roofline_config_default(struct roofline_config *c)
{
	*c = (struct roofline_config){
	    .mode = ROOFLINE_ROBUST,
	    .learn_min = thresholds.count.many,
	    .learn_max = 2000,
	    .tail_mads = thresholds.fit.mads,
	    .floor_ratio = thresholds.excess.slower,
	    .persist_n = thresholds.count.few - 1,
	    .persist_m = thresholds.count.few,
	    .instant_mads = 0,
	    .refuse_spread = thresholds.fit.spread,
	    .p99_retrain = 500,
	    .seed = 1,
	};
}

const char *roofline_state_name(enum roofline_state s)
{
	static const char *const names[] = {"learning", "ready", "refused"};

	return (unsigned)s <= ROOFLINE_REFUSED ? names[s] : "unknown";
}

static struct roofline_config sane(const struct roofline_config *c)
{
	struct roofline_config s = *c;

	if (s.learn_min < thresholds.count.some)
		s.learn_min = thresholds.count.some;
	if (s.learn_max < 2 * s.learn_min)
		s.learn_max = 2 * s.learn_min;
	if (!s.persist_m)
		s.persist_m = 1;
	if (s.persist_m > 64)
		s.persist_m = 64;
	if (!s.persist_n || s.persist_n > s.persist_m)
		s.persist_n = s.persist_m;
	if (!s.p99_retrain)
		s.p99_retrain = 1;
	return s;
}

/* A quarter more than the frozen baseline, as room for work that appears later. */
static uint32_t samples_max(const struct roofline_config *c)
{
	return sane(c).learn_max + sane(c).learn_max / 4;
}

static void init(struct roofline *m, const struct roofline_config *c, uint64_t seed, void *scratch)
{
	memset(m, 0, sizeof(*m));
	m->c = sane(c);
	m->cap = samples_max(c);
	m->next_fit = m->c.learn_min;
	m->random = seed;
	m->scratch = scratch;
}

static void restart_learning(struct roofline *m, enum roofline_state state)
{
	m->state = state;
	m->n = 0;
	m->next_fit = m->c.learn_min;
	m->fit.ready = false;
	m->slower = m->faster = 0;
	m->drift = false;
	m->history = 0;
	m->recent_count = 0;
	m->run_count = 0;
	m->recurs = 0;
	m->fresh_novel = 0;
}

/* The excess beyond the threshold that one healthy step in 1/rate exceeds. */
static double tail_reach(const struct roofline *m, double rate)
{
	double share = m->fit.tail_share;

	return share > rate ? m->fit.tail_mean * log(share / rate) : 0;
}

/* With few learning steps the noise is uncertain: widen it by 40% at 20 steps, 16% at 50. */
static void calibrate(struct roofline *m)
{
	m->few = 1 + 8.0 / m->fit.samples;
	m->reach_out = tail_reach(m, thresholds.fit.out_rate);
	m->reach_instant = tail_reach(m, thresholds.fit.instant_rate);
}

/* The excess that noise explains. */
static double base_of(const struct roofline *m, const struct roofline_fit_guess *g)
{
	return fmax(m->c.floor_ratio, m->c.tail_mads * m->few * g->mad);
}

/* The largest excess that all but two of these steps reach. */
static double excess_of_run(const float excess[SUSTAIN_STEPS])
{
	double v[SUSTAIN_STEPS];

	for (uint32_t i = 0; i < SUSTAIN_STEPS; i++)
		v[i] = excess[i];
	return median_nth(v, SUSTAIN_STEPS, SUSTAIN_STEPS - SUSTAIN_LEAST);
}

/* The largest excess that the tail may explain. Slow learning steps hide the tail, so it is partly
 * a guess, which must not hide a step that takes half as long again. */
static double tail_cap(const struct roofline *m, const struct roofline_fit_guess *g)
{
	return fmax(base_of(m, g), thresholds.fit.cap - 4 * g->mad);
}

static double threshold_of(const struct roofline *m, const struct roofline_fit_guess *g)
{
	double base = base_of(m, g);

	return fmax(fmin(base + m->reach_out, tail_cap(m, g)), base + g->second);
}

/* A CUSUM that shows whether steps are out more often than healthy ones: the log-likelihood ratio of
 * the share `shows` of steps being out against the share `out_rate`. It has an upper bound, so that it
 * falls soon after a fault. Page 1954, Continuous Inspection Schemes, Biometrika 41. */
static double recurs_next(double sum, bool out)
{
	double healthy = thresholds.fit.out_rate, faulty = thresholds.part.shows;
	double ratio = log(out ? faulty / healthy : (1 - faulty) / (1 - healthy));

	return fmin(fmax(sum + ratio, 0), -3 * log(thresholds.fit.instant_rate));
}

/* Sets run_largest and recurs_least from the learning steps. These are healthy, although the host
 * may be busy for a while. Suspects are left out, because they would raise the limits that must
 * reveal them. */
static void learn_runs(struct roofline *m)
{
	float run[SUSTAIN_STEPS];
	double most = 0, sum = 0, most_sum = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		const struct roofline_fit_sample *s = &m->sample[i];
		struct roofline_fit_guess g = roofline_fit_predict(&m->fit, s->work);
		double excess = s->latency_ns / g.expected_ns - 1;

		if (s->suspect)
			continue;
		run[n++ % SUSTAIN_STEPS] = (float)excess;
		if (n >= SUSTAIN_STEPS)
			most = fmax(most, excess_of_run(run));
		sum = recurs_next(sum, excess > threshold_of(m, &g));
		most_sum = fmax(most_sum, sum);
	}
	if (n < thresholds.count.few * SUSTAIN_STEPS)
		return;
	m->run_largest = most / thresholds.part.half;
	m->recurs_least =
	    fmax(-2 * log(thresholds.fit.instant_rate), most_sum / thresholds.part.half);
}

/* Adds the step. Returns whether the latest steps are a slow run. A busy host makes single steps
 * slow, but a rank that became slower stays slow. So a run of steps counts as slow from an excess
 * on that is still usual for a single step. */
static bool push_run(struct roofline *m, double excess, const struct roofline_fit_guess *g)
{
	double noise = thresholds.part.half * m->c.tail_mads * m->few * g->mad;
	double least = fmax(fmax(m->c.floor_ratio, noise), m->run_largest);

	m->run[m->run_count++ % SUSTAIN_STEPS] = (float)excess;
	return m->run_count >= SUSTAIN_STEPS && excess > least && excess_of_run(m->run) > least;
}

static double instant_of(const struct roofline *m, const struct roofline_fit_guess *g)
{
	double base = base_of(m, g);

	if (m->c.instant_mads > 0)
		return fmax(base, m->c.instant_mads * m->few * g->mad) + g->second;
	return fmax(fmin(base + m->reach_instant, tail_cap(m, g)), base + g->second);
}

/* A continuous curve needs more steps than a few levels. */
static bool fit_young(const struct roofline *m)
{
	return !m->fit.discrete && m->fit.samples < thresholds.fit.curve * m->c.learn_min;
}

static bool fit_good(const struct roofline *m)
{
	const struct roofline_fit *f = &m->fit;
	/* a ready model must not flip between ready and refused */
	double limit =
	    m->c.refuse_spread * (m->state == ROOFLINE_READY ? 1 + thresholds.fit.near : 1);
	double doubt = m->misled ? 0 : 0.5 / sqrt(f->samples);

	if (f->mad > limit || f->out_share > thresholds.fit.near + doubt)
		return false;
	if (fit_young(m))
		return false;
	/* The work varies, and the latency varies or has a long tail, but the work does not explain
	 * the latency. */
	if (f->work_spread > 1.5 && f->explained < thresholds.part.matters)
		return f->mad < limit / 3 && f->fast_share < thresholds.part.named &&
		       (f->mad < limit / 6 || f->out_share < thresholds.fit.near / 5);
	return true;
}

/* Drops the suspects that are still out in the new fit. Mild ones stay, because they show how far
 * the healthy tail reaches; the fit's centres ignore them. */
static void drop_suspects(struct roofline *m)
{
	double keep = m->fit.discrete ? thresholds.fit.habit : thresholds.fit.tail;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		struct roofline_fit_sample *s = &m->sample[i];

		if (s->suspect) {
			struct roofline_fit_guess g = roofline_fit_predict(&m->fit, s->work);

			double excess = s->latency_ns / g.expected_ns - 1;

			s->suspect = excess > threshold_of(m, &g);
			if (excess > keep && s->suspect)
				continue;
		}
		m->sample[kept++] = *s;
	}
	m->n = kept;
}

/* Fits the samples from `first` on. If the fit is good, drops the earlier samples. */
static bool fit_from(struct roofline *m, uint32_t first)
{
	roofline_fit_run(&m->fit, m->sample + first, m->n - first, m->features, &m->c, m->scratch);
	if (!fit_good(m))
		return false;
	m->n -= first;
	memmove(m->sample, m->sample + first, m->n * sizeof(*m->sample));
	return true;
}

/* The latest steps may belong to a fault. A fault must not undo what was known before it. */
static bool fit_without_suspects(struct roofline *m)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < m->n; i++)
		if (!m->sample[i].suspect)
			m->sample[kept++] = m->sample[i];
	m->n = kept;
	return fit_from(m, 0);
}

static void refit(struct roofline *m)
{
	uint32_t half = m->n / 2;
	bool hopeless = m->refusals >= thresholds.count.some && half >= 4 * m->c.learn_min;
	bool good;

	m->fresh_novel = 0;
	if (hopeless) { /* try the newer half only */
		good = fit_from(m, half);
	} else {
		good = fit_from(m, 0);
		if (!good && m->state == ROOFLINE_READY)
			good = fit_without_suspects(m);
		/* The newer half alone may already give a good fit. */
		if (!good && m->state != ROOFLINE_READY && half >= m->c.learn_min) {
			good = fit_from(m, half);
			if (!good)
				fit_from(m, 0);
		}
	}
	m->refusals = good ? 0 : m->refusals + (m->refusals < thresholds.count.some);
	if (good && m->state != ROOFLINE_READY) {
		m->slower = m->faster = 0;
		m->recent_count = 0;
		m->run_count = 0;
		m->recurs = 0;
		m->history = 0;
	}
	if (good)
		m->state = ROOFLINE_READY;
	else if (m->state == ROOFLINE_READY || m->n >= thresholds.fit.curve * m->c.learn_min)
		m->state = fit_young(m) ? ROOFLINE_LEARNING : ROOFLINE_REFUSED;
	calibrate(m);
	m->run_largest = m->recurs_least = INFINITY;
	if (good)
		learn_runs(m);
	if (good)
		drop_suspects(m);
	m->next_fit = m->n + (m->n < 24 ? 8 : m->n < 200 || !good ? m->n / 3 : m->n / 2);
	if (m->n < m->c.learn_max && m->next_fit > m->c.learn_max)
		m->next_fit = m->c.learn_max;
}

static void learn(struct roofline *m, const float *work, double latency_ns, bool novel, bool out)
{
	struct roofline_fit_sample *s;

	if (m->state == ROOFLINE_READY && m->n >= (novel ? m->cap : m->c.learn_max))
		return; /* frozen */
	if (m->n >= m->c.learn_max && m->state != ROOFLINE_READY) {
		/* refused: drop the older half and continue */
		m->n = m->c.learn_max / 2;
		memmove(m->sample, m->sample + m->c.learn_max - m->n, m->n * sizeof(*s));
		m->next_fit = m->n + (m->refusals < thresholds.count.some ? m->n / 4 : m->n / 2);
	}
	s = &m->sample[m->n++];
	memcpy(s->work, work, sizeof(s->work));
	s->latency_ns = (float)latency_ns;
	s->suspect = out;
	m->fresh_novel += novel;
	if (m->n >= m->next_fit || (m->fresh_novel >= 5 && m->fresh_novel >= m->n / 32))
		refit(m);
}

/* The CUSUM needs independent steps. If neighbours are correlated, its unit grows with the lag-1
 * correlation. */
static void watch_drift(struct roofline *m, double excess, double mad)
{
	double rho = m->fit.rho > 0.9 ? 0.9 : m->fit.rho > 0 ? m->fit.rho : 0;
	double unit = MEDIAN_MAD_SIGMA * mad * sqrt((1 + rho) / (1 - rho));
	double slow = unit > thresholds.same.work ? unit : thresholds.same.work;
	double fast = unit > thresholds.excess.slower ? unit : thresholds.excess.slower;

	m->slower = change_cusum(m->slower, excess / slow, DRIFT_CLIP, DRIFT_SLACK);
	if (m->slower > 2 * thresholds.fit.alarm)
		m->slower = 2 * thresholds.fit.alarm;
	if (m->slower > thresholds.fit.alarm)
		m->drift = m->drift_ever = true;
	else if (m->slower < thresholds.fit.alarm / 4)
		m->drift = false;
	m->faster = change_cusum(m->faster, -excess / fast, DRIFT_CLIP, DRIFT_SLACK);
	if (m->faster > thresholds.fit.alarm)
		restart_learning(m, ROOFLINE_LEARNING);
}

/* Whether slow and healthy steps alternate so often that there are two kinds of steps. */
static bool alternates(const float *recent, uint32_t n)
{
	uint32_t over = 0, changes = 0;
	bool slow = false, now;

	for (uint32_t i = 0; i < n; i++) {
		over += recent[i] > 1;
		/* a step just below the threshold continues a slow stretch */
		now = recent[i] > 1 || (slow && recent[i] > thresholds.part.half);
		changes += i && now != slow;
		slow = now;
	}
	return over > n * thresholds.part.shows && changes > n * thresholds.part.shows;
}

/* Notices that the fit no longer describes the steps: many lie far beyond the threshold on both
 * sides. Or, while the baseline is young, slow and healthy steps with the same work alternate in
 * each quarter. A fault would come in longer stretches, even if the host disturbs every third step
 * before it. */
static void watch_fit(struct roofline *m, double excess, double threshold)
{
	uint32_t over = 0, under = 0, quarters = 0;

	m->recent[m->recent_count++ % RECENT] = (float)(excess / threshold);
	if (m->recent_count < RECENT || m->recent_count % (RECENT / 4))
		return;
	for (uint32_t i = 0; i < RECENT; i++) {
		over += m->recent[i] > 1;
		under += m->recent[i] < -1;
	}
	for (uint32_t i = 0; i < RECENT; i += RECENT / 4)
		quarters += alternates(m->recent + i, RECENT / 4);
	if (over >= thresholds.part.little * RECENT && under >= thresholds.part.little * RECENT &&
	    over + under > RECENT * thresholds.fit.habit)
		restart_learning(m, ROOFLINE_REFUSED);
	else if (m->n < m->c.learn_max && quarters == 4)
		restart_learning(m, ROOFLINE_REFUSED);
	if (m->state != ROOFLINE_REFUSED)
		return;
	m->misled = true;
	if (m->next_fit < RECENT)
		m->next_fit = RECENT;
}

/* known: the model has learned this work. Otherwise a step may be out only because the model has
 * not. */
static void persist(struct roofline *m, struct roofline_verdict *v, bool known, bool stays,
		    bool instant)
{
	uint64_t mask = m->c.persist_m == 64 ? ~0ull : (1ull << m->c.persist_m) - 1;

	if (known)
		m->recurs = recurs_next(m->recurs, v->out);
	m->history = m->history << 1 | v->out;
	v->persists =
	    v->out && (stays || (known && m->recurs > m->recurs_least) ||
		       (uint32_t)__builtin_popcountll(m->history & mask) >= m->c.persist_n);
	v->flagged = v->persists || (v->out && instant);
	m->out += v->out;
	m->flagged += v->flagged;
}

/* The level has one learning step, which was this slow too. Either the level is slow or that step
 * was, so this step is not flagged at once. */
static bool seen_once(const struct roofline *m, const struct roofline_fit_guess *g,
		      const struct roofline_verdict *v)
{
	double alike =
	    fmax(thresholds.excess.near, thresholds.sure.errors * MEDIAN_MAD_SIGMA * m->fit.mad);

	return g->once > 0 && fabs(log1p(v->excess) - log1p(g->once)) < alike;
}

/* The excess over the longest time that the work may take. Work that was never seen has such a
 * bound too. */
static double sure_excess(const struct roofline_verdict *v, const struct roofline_fit_guess *g)
{
	return g->reach > 1 ? fmax((1 + v->excess) / g->reach - 1, 0) : v->excess;
}

static void push_robust(struct roofline *m, struct roofline_verdict *v, const float *work,
			double latency_ns)
{
	struct roofline_fit_guess g = {0};
	bool stays;

	if (m->fit.ready) {
		g = roofline_fit_predict(&m->fit, work);
		v->expected_ns = g.expected_ns;
		v->excess = latency_ns / g.expected_ns - 1;
		v->threshold = (1 + threshold_of(m, &g)) * g.reach - 1;
		v->novel = g.reach > 1;
	}
	if (m->state == ROOFLINE_READY) {
		m->novel += v->novel;
		stays = push_run(m, sure_excess(v, &g), &g);
		v->out = stays || v->excess > v->threshold;
		persist(m, v, !g.sparse && !v->novel, stays,
			sure_excess(v, &g) > instant_of(m, &g) && !seen_once(m, &g, v));
		watch_fit(m, sure_excess(v, &g), threshold_of(m, &g));
		/* outside of the learned work the CUSUM would add up the curve's own error */
		if (m->state == ROOFLINE_READY && !v->novel)
			watch_drift(m, v->excess, g.mad);
	}
	v->drift = m->drift;
	if (!m->drift)
		learn(m, work, latency_ns, g.sparse || v->novel, v->out);
}

static void push_p99(struct roofline *m, struct roofline_verdict *v, const float *work,
		     double latency_ns)
{
	struct roofline_fit_sample *s;

	if (m->p99.ready) {
		v->expected_ns = m->p99.intercept_ns + m->p99.slope_ns * work[0];
		v->excess = v->expected_ns > 0 ? latency_ns / v->expected_ns - 1 : 0;
		v->out = v->flagged = m->state == ROOFLINE_READY && v->excess > 0;
		m->out += v->out;
		m->flagged += v->flagged;
	}
	/* Keeps all of the last learn_max steps, including slow ones, as the paper's retraining
	 * does. */
	s = &m->sample[(m->steps - 1) % m->c.learn_max];
	memcpy(s->work, work, sizeof(s->work));
	s->latency_ns = (float)latency_ns;
	if (m->n < m->c.learn_max)
		m->n++;
	if (m->steps < m->next_fit)
		return;
	roofline_p99_run(&m->p99, m->sample, m->n, &m->random, m->scratch);
	m->state = !m->p99.ready			 ? ROOFLINE_LEARNING
		   : m->p99.r2 < -thresholds.part.little ? ROOFLINE_REFUSED
							 : ROOFLINE_READY;
	m->next_fit = m->steps + m->c.p99_retrain;
}

struct roofline_verdict roofline_push(struct roofline *m, const double *work, uint32_t work_count,
				      double latency_ns)
{
	struct roofline_verdict v = {.state = m->state, .drift = m->drift};
	float w[ROOFLINE_WORK_MAX] = {0};

	/* Samples are floats: smaller values would become 0, which has no logarithm. */
	if (!isfinite(latency_ns) || latency_ns < LATENCY_LEAST_NS || latency_ns > LATENCY_MOST_NS)
		return v;
	if (work_count > ROOFLINE_WORK_MAX)
		work_count = ROOFLINE_WORK_MAX;
	for (uint32_t i = 0; i < work_count; i++)
		w[i] = work[i] > 0 && work[i] < 1e18 ? (float)work[i] : 0;
	if (work_count > m->features)
		m->features = work_count;
	m->steps++;
	if (m->c.mode == ROOFLINE_P99)
		push_p99(m, &v, w, latency_ns);
	else
		push_robust(m, &v, w, latency_ns);
	return v;
}

void roofline_settle(struct roofline *m)
{
	uint64_t next = m->next_fit;
	uint32_t refusals = m->refusals;

	if (m->c.mode != ROOFLINE_ROBUST || m->state == ROOFLINE_READY || m->n < m->c.learn_min)
		return;
	refit(m);
	if (m->state == ROOFLINE_READY)
		return;
	m->next_fit = next;
	m->refusals = refusals;
}

void roofline_summary(const struct roofline *m, struct roofline_summary *out)
{
	struct roofline_fit_guess typical = {.mad = m->fit.mad};

	*out = (struct roofline_summary){
	    .state = m->state,
	    .steps = m->steps,
	    .out = m->out,
	    .flagged = m->flagged,
	    .drift = m->drift_ever,
	    .novel = m->novel,
	};
	if (m->c.mode == ROOFLINE_P99) {
		out->r2 = m->p99.r2;
		out->intercept_ns = m->p99.intercept_ns;
		out->slope_ns[0] = m->p99.slope_ns;
		return;
	}
	out->r2 = m->fit.r2;
	out->spread = m->fit.mad;
	out->threshold = m->fit.ready ? threshold_of(m, &typical) : 0;
	out->intercept_ns = m->fit.intercept_ns;
	memcpy(out->slope_ns, m->fit.slope_ns, sizeof(out->slope_ns));
}

struct set_entry {
	uint64_t key, used;
	struct roofline *model;
};

struct roofline_set {
	struct roofline_config c;
	uint32_t max, count;
	uint64_t tick;
	struct set_entry *entry; /* in order of first use */
	struct probe by_key;	 /* entries by key */
	char *models;
	size_t model_bytes;
	void *scratch;
};

static size_t lay_out(struct roofline_set *s, void *memory, const struct roofline_config *c,
		      uint32_t models_max)
{
	struct carve at = {.memory = memory};

	s->by_key.room = 4;
	while (s->by_key.room < 2 * models_max)
		s->by_key.room *= 2;
	s->model_bytes =
	    sizeof(struct roofline) + samples_max(c) * sizeof(struct roofline_fit_sample);
	s->model_bytes = (s->model_bytes + 15) & ~(size_t)15;
	carve_take(&at, 1, sizeof(*s));
	s->entry = carve_take(&at, models_max, sizeof(*s->entry));
	s->by_key.slot = carve_take(&at, s->by_key.room, sizeof(*s->by_key.slot));
	s->scratch = carve_take(&at, 1, roofline_fit_scratch_bytes(samples_max(c)));
	s->models = carve_take(&at, models_max, s->model_bytes);
	return at.bytes;
}

size_t roofline_set_memory_bytes(const struct roofline_config *c, uint32_t models_max)
{
	struct roofline_set s;

	return lay_out(&s, NULL, c, models_max);
}

struct roofline_set *roofline_set_init(void *memory, const struct roofline_config *c,
				       uint32_t models_max)
{
	struct roofline_set *s = memory;

	memset(s, 0, sizeof(*s));
	lay_out(s, memory, c, models_max);
	s->c = *c;
	s->max = models_max;
	probe_clear(&s->by_key);
	return s;
}

/* Removes the least recently used model; returns its memory. */
static struct roofline *set_evict(struct roofline_set *s)
{
	uint32_t oldest = 0;
	struct roofline *model;

	for (uint32_t i = 1; i < s->count; i++)
		if (s->entry[i].used < s->entry[oldest].used)
			oldest = i;
	model = s->entry[oldest].model;
	s->count--;
	memmove(&s->entry[oldest], &s->entry[oldest + 1],
		(s->count - oldest) * sizeof(s->entry[0]));
	probe_clear(&s->by_key);
	for (uint32_t i = 0; i < s->count; i++)
		probe_add(&s->by_key, hash_mix(s->entry[i].key), i);
	return model;
}

struct roofline *roofline_set_get(struct roofline_set *s, uint64_t key)
{
	struct roofline *model;

	PROBE_EACH (i, &s->by_key, hash_mix(key)) {
		struct set_entry *e = &s->entry[i.number];

		if (e->key == key) {
			e->used = ++s->tick;
			return e->model;
		}
	}
	model = s->count < s->max ? (struct roofline *)(s->models + s->count * s->model_bytes)
				  : set_evict(s);
	init(model, &s->c, s->c.seed ^ hash_mix(key), s->scratch);
	s->entry[s->count] = (struct set_entry){.key = key, .used = ++s->tick, .model = model};
	probe_add(&s->by_key, hash_mix(key), s->count++);
	return model;
}

uint32_t roofline_set_count(const struct roofline_set *s)
{
	return s->count;
}

struct roofline *roofline_set_at(struct roofline_set *s, uint32_t i, uint64_t *key)
{
	if (i >= s->count)
		return NULL;
	*key = s->entry[i].key;
	return s->entry[i].model;
}
