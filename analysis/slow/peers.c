/* SPDX-License-Identifier: Apache-2.0
 * Computes residuals, their prefix sums, and the life of a flag. All windows read the same prefix
 * sums of clipped residuals, so a step costs a few additions per rank and window, whatever the
 * window's length. The sums are integers, so neither the order of additions nor the length of a run
 * changes them. A window is too coarse to show where a slow stretch begins and ends. A cumulative
 * sum against half the excess finds both. */
#include "analysis/slow/peers_private.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/chance.h"
#include "analysis/robust/change.h"
#include "base/carve.h"
#include "model/thresholds.h"

#define FOLLOW_HABIT  0.01   /* share by which m->habit follows the residual */
#define FORGET	      0.0003 /* share of the noise by which m->high decays per step */
#define RESIDUAL_MOST 15.0f
#define STRETCH_LEAST 5
/* Assumed step time while it is unknown, for the number of tests per hour. */
#define UNKNOWN_STEP_NS 1e9

void peers_config_default(struct peers_config *c)
{
	*c = (struct peers_config){.mode = PEERS_ROBUST,
				   .windows = {3, 5, 10, 20, 50, 200, 1000},
				   .false_per_member_hour = thresholds.sure.false_per_hour,
				   .k = 2,
				   .w = 100};
}

static uint32_t depth_of(const struct peers_config *c)
{
	uint32_t longest = 5;

	if (c->pushes)
		return c->pushes > PEERS_WINDOW_MOST ? PEERS_WINDOW_MOST
		       : c->pushes < 20		     ? 20
						     : c->pushes;
	for (uint32_t i = 0; i < PEERS_WINDOWS && c->windows[i]; i++)
		if (c->windows[i] > longest)
			longest = c->windows[i];
	/* includes room for the past that a window is compared with */
	return longest < 50		     ? 4 * longest
	       : longest > PEERS_WINDOW_MOST ? PEERS_WINDOW_MOST
					     : longest + 100;
}

/* Returns the number of bytes. With memory NULL the pointers are not usable. */
static size_t lay_out(struct peers *p, void *memory, const struct peers_config *c, size_t n)
{
	struct carve at = {.memory = memory};
	size_t depth = depth_of(c), cells = depth * n;

	carve_take(&at, 1, sizeof(*p));
	p->step = carve_take(&at, depth, sizeof(*p->step));
	p->level_ns = carve_take(&at, depth, sizeof(*p->level_ns));
	p->weight = carve_take(&at, depth, sizeof(*p->weight));
	p->own = carve_take(&at, 2 * depth, sizeof(*p->own));
	p->value = carve_take(&at, 3 * n, sizeof(*p->value));
	p->scratch = carve_take(&at, n > depth ? n : depth, sizeof(*p->scratch));
	p->order = carve_take(&at, 2 * n, sizeof(*p->order));
	p->key = carve_take(&at, n, sizeof(*p->key));
	p->queue_room = 4 * (uint32_t)n;
	p->queue = carve_take(&at, p->queue_room, sizeof(*p->queue));
	for (int q = 0; q < PEERS_MEASURES; q++) {
		struct peers_series *s = &p->series[q];

		s->residual = carve_take(&at, cells, sizeof(*s->residual));
		s->sum = carve_take(&at, cells + n, sizeof(*s->sum));
		s->valid = carve_take(&at, cells + n, sizeof(*s->valid));
		s->reference = carve_take(&at, depth, sizeof(*s->reference));
		s->member = carve_take(&at, n, sizeof(*s->member));
		if (c->changes_only) {
			s->first =
			    carve_take(&at, thresholds.count.some * (size_t)n, sizeof(*s->first));
			s->high = carve_take(&at, cells, sizeof(*s->high));
		}
		if (c->mode == PEERS_SYSOM)
			s->part = carve_take(&at, 2 * PEERS_SYSOM_PARTS * n, sizeof(*s->part));
	}
	return at.bytes;
}

size_t peers_memory_bytes(const struct peers_config *c, uint32_t members)
{
	struct peers p;

	return lay_out(&p, NULL, c, members);
}

struct peers *peers_init(void *memory, const struct peers_config *c, uint32_t members)
{
	struct peers *p = memory;

	memset(memory, 0, peers_memory_bytes(c, members));
	lay_out(p, memory, c, members);
	p->c = *c;
	p->n = members;
	p->depth = depth_of(c);
	while (p->windows < PEERS_WINDOWS && c->windows[p->windows])
		p->windows++;
	return p;
}

/* The median of the ranks that are not flagged. If most ranks are slow, the median of all
 * ranks would be a slow one. */
static float reference_of(struct peers *p, const struct peers_series *s, uint64_t push)
{
	const float *r = s->residual + (size_t)peers_at(p, push) * p->n;
	uint32_t n = 0;

	if (p->n == 2 || s->open <= p->n / 8)
		return 0;
	for (uint32_t i = 0; i < p->n; i++)
		if (!s->member[i].open && !isnan(r[i]))
			p->scratch[n++] = r[i];
	return n ? (float)median_select(p->scratch, n) : 0;
}

void peers_update_reference(struct peers *p, struct peers_series *s, uint64_t begin, uint64_t end)
{
	for (uint64_t t = begin; t < end; t++)
		s->reference[peers_at(p, t)] = reference_of(p, s, t);
}

static double above(const struct peers *p, const struct peers_series *s, uint32_t member,
		    double base, uint64_t push)
{
	uint32_t at = peers_at(p, push);

	return s->residual[(size_t)at * p->n + member] - s->reference[at] - base;
}

double peers_excess(struct peers *p, const struct peers_series *s, uint32_t member, double base,
		    uint64_t begin, uint64_t end)
{
	uint32_t n = 0;

	for (uint64_t t = begin; t < end; t++)
		p->scratch[n++] = above(p, s, member, base, t);
	return median_known(p->scratch, n, p->scratch);
}

void peers_queue_flag(struct peers *p, const struct peers_flag *f)
{
	if (p->queue_count == p->queue_room) {
		p->queue_head = (p->queue_head + 1) % p->queue_room;
		p->queue_count--;
	}
	p->queue[(p->queue_head + p->queue_count++) % p->queue_room] = *f;
}

bool peers_next(struct peers *p, struct peers_flag *out)
{
	if (!p->queue_count)
		return false;
	*out = p->queue[p->queue_head];
	p->queue_head = (p->queue_head + 1) % p->queue_room;
	p->queue_count--;
	return true;
}

static double level_over(struct peers *p, uint64_t begin, uint64_t end)
{
	uint32_t n = 0;

	for (uint64_t t = begin; t < end; t++)
		if (!isnan(p->level_ns[peers_at(p, t)]))
			p->scratch[n++] = p->level_ns[peers_at(p, t)];
	return n ? median_select(p->scratch, n) : 0;
}

/* Measures the excess over the part of the stretch that is still stored. */
static void measure(struct peers *p, enum peers_measure q, uint32_t member)
{
	struct peers_series *s = &p->series[q];
	struct peers_member *m = &s->member[member];
	uint64_t end = m->last + 1,
		 oldest = p->pushes + 1 > p->depth ? p->pushes + 1 - p->depth : 0;
	uint64_t begin = m->first > oldest ? m->first : oldest;
	double excess = begin < end ? peers_excess(p, s, member, m->base, begin, end) : NAN;
	double of_ns = q == PEERS_LATE ? p->step_ns : level_over(p, begin, end);

	if (!isnan(excess)) {
		m->flag.score *= excess / m->height;
		m->height = excess;
		/* residuals of a pair are logarithms */
		m->flag.excess = p->n == 2 && q == PEERS_SELF ? expm1(excess) : excess;
	}
	/* The level of a pair is the mean of both ranks, but the excess is relative to the other
	 * one. */
	if (p->n == 2 && q == PEERS_SELF && m->flag.excess > 0)
		of_ns *= 2 / (2 + m->flag.excess);
	m->flag.excess_ns = m->flag.excess * of_ns;
	m->flag.last_step = p->step[peers_at(p, m->last)];
}

/* After one bad step, a few more steps are slower, each less than the one before. So a short
 * stretch is flagged only if it is level, and far beyond the noise. */
static bool is_clear(struct peers *p, struct peers_series *s, uint32_t member, double base,
		     uint64_t first, double threshold)
{
	double least = INFINITY, most = -INFINITY;

	for (uint64_t t = first; t <= p->pushes; t++) {
		double v = above(p, s, member, base, t);

		least = v < least ? v : least;
		most = v > most ? v : most;
	}
	return p->pushes - first >= 2 && least > thresholds.part.most * most &&
	       least > thresholds.excess.work && least > 2 * threshold;
}

void peers_open(struct peers *p, enum peers_measure q, uint32_t member, uint32_t length,
		double base, double threshold)
{
	struct peers_series *s = &p->series[q];
	struct peers_member *m = &s->member[member];
	uint64_t end = p->pushes + 1, oldest = end > p->depth ? end - p->depth : 0,
		 first = end - length;
	double excess = peers_excess(p, s, member, base, end - length, end), steps = 0;
	uint32_t n = 0, at;

	oldest = m->since > oldest ? m->since : oldest;
	for (uint64_t t = oldest; t < end; t++)
		p->scratch[n++] = above(p, s, member, base, t);
	at = change_onset(p->scratch, n, excess / 2, excess);
	first = at < n ? oldest + at : first;
	if ((length < STRETCH_LEAST || end - first < STRETCH_LEAST) &&
	    !is_clear(p, s, member, base, end - length > first ? end - length : first, threshold))
		return;
	for (uint64_t t = end - length; t < end; t++)
		steps += p->weight[peers_at(p, t)];
	for (uint64_t t = first; t < end; t++) {
		float r = s->residual[(size_t)peers_at(p, t) * p->n + member];

		if (!isnan(r))
			peers_noise_stretch(&s->single, r - m->location);
	}
	m->open = true;
	s->open++;
	m->base = base;
	m->height = excess;
	m->cusum = 0;
	m->first = first;
	m->last = p->pushes;
	while (m->last > m->first && !(above(p, s, member, base, m->last) >= excess / 2))
		m->last--;
	m->flag = (struct peers_flag){.member = member,
				      .measure = q,
				      .window = (uint32_t)steps,
				      .first_step = p->step[peers_at(p, first)],
				      .sure_step = p->step[peers_at(p, p->pushes)],
				      .excess = excess,
				      .score = excess / threshold};
	measure(p, q, member);
	peers_queue_flag(p, &m->flag);
}

static void close_flag(struct peers *p, enum peers_measure q, uint32_t member)
{
	struct peers_series *s = &p->series[q];
	struct peers_member *m = &s->member[member];

	if (p->c.mode == PEERS_ROBUST)
		measure(p, q, member);
	m->flag.ended = true;
	m->open = false;
	m->since = m->last + 1;
	/* While this rank was slow, the self times of the others included waiting. So that time
	 * does not count as their past. */
	for (uint32_t i = 0; p->c.changes_only && i < p->n; i++)
		if (s->member[i].since < m->since)
			s->member[i].since = m->since;
	s->open--;
	peers_queue_flag(p, &m->flag);
}

static float bounded(double y)
{
	return isfinite(y) ? fmaxf(-RESIDUAL_MOST, fminf(RESIDUAL_MOST, (float)y)) : NAN;
}

/* Sums the evidence that a flagged stretch is over: the log odds of healthy against slow, per
 * step. */
static void update_open_flags(struct peers *p, enum peers_measure q)
{
	struct peers_series *s = &p->series[q];
	double noise = s->noise.scale[0] > 1e-5 ? s->noise.scale[0] : 1e-5;

	for (uint32_t i = 0; i < p->n && s->open; i++) {
		struct peers_member *m = &s->member[i];
		double e = m->height, v;

		if (!m->open)
			continue;
		v = above(p, s, i, m->base, p->pushes);
		if (isnan(v))
			continue;
		v = (e / 2 - v) * e / (noise * noise);
		/* bounded, so that one good step cannot end a stretch */
		m->cusum = change_cusum(m->cusum, v,
					thresholds.sure.stretch_over / thresholds.count.few, 0);
		if (m->cusum <= 0) {
			m->last = p->pushes;
		} else if (m->cusum >
			   thresholds.sure.stretch_over + log((double)(m->last - m->first + 1))) {
			close_flag(p, q, i);
		}
	}
}

/* Learns the rank's usual value from its first thresholds.count.some values. True once it is
 * known. */
static bool knows_usual(struct peers *p, struct peers_series *s, uint32_t i, double x)
{
	struct peers_member *m = &s->member[i];

	if (m->seen >= thresholds.count.some)
		return true;
	if (!isfinite(x))
		return false;
	s->first[(size_t)m->seen++ * p->n + i] = x;
	if (m->seen < thresholds.count.some)
		return false;
	for (uint32_t k = 0; k < thresholds.count.some; k++)
		p->scratch[k] = s->first[(size_t)k * p->n + i];
	m->usual = median_select(p->scratch, thresholds.count.some);
	return false;
}

/* Residuals of ranks that do different work: each value relative to the rank's own usual value,
 * less the median change of all ranks. Residuals against the plain median would be too small when
 * the changed rank itself becomes the median. out: [members]. Returns the median rank's
 * level. */
static double changes(struct peers *p, enum peers_measure q, const double *v, double *out)
{
	struct peers_series *s = &p->series[q];
	double common;

	for (uint32_t i = 0; i < p->n; i++) {
		double x = v && isfinite(v[i]) && (q == PEERS_LATE || v[i] > 0) ? v[i] : NAN;

		out[i] = !knows_usual(p, s, i, x) ? NAN
			 : q == PEERS_LATE	  ? x - s->member[i].usual
						  : x / s->member[i].usual;
	}
	common = median_known(out, p->n, p->scratch);
	for (uint32_t i = 0; i < p->n; i++)
		p->value[i] = s->member[i].seen >= thresholds.count.some ? s->member[i].usual : NAN;
	s->middle = median_known(p->value, p->n, p->scratch);
	for (uint32_t i = 0; i < p->n; i++)
		out[i] = q == PEERS_LATE
			     ? (out[i] - common) / p->step_ns
			     : (out[i] - common) * s->member[i].usual / (common * s->middle);
	return common * s->middle;
}

static void change_residuals(struct peers *p, enum peers_measure q, const double *v)
{
	float *r = p->series[q].residual + (size_t)peers_at(p, p->pushes) * p->n;
	double *out = p->value + p->n, level = changes(p, q, v, out);

	if (q == PEERS_SELF)
		p->level_ns[peers_at(p, p->pushes)] = (float)level;
	for (uint32_t i = 0; i < p->n; i++)
		r[i] = bounded(out[i]);
}

static void residuals(struct peers *p, enum peers_measure q, const double *v)
{
	float *r = p->series[q].residual + (size_t)peers_at(p, p->pushes) * p->n;
	double middle = v ? median_known(v, p->n, p->scratch) : NAN;

	if (q == PEERS_SELF)
		p->level_ns[peers_at(p, p->pushes)] = (float)middle;
	for (uint32_t i = 0; i < p->n; i++) {
		double x = v ? v[i] : NAN, y;

		if (!isfinite(x) || (q == PEERS_SELF && !(middle > 0 && x > 0))) {
			r[i] = NAN;
			continue;
		}
		if (p->n == 2) {
			y = q == PEERS_SELF ? log(x / v[1 - i]) : (x - v[1 - i]) / p->step_ns;
			/* prefix sums must not grow by a constant difference */
			if (p->c.changes_only)
				y = knows_usual(p, &p->series[q], i, y)
					? y - p->series[q].member[i].usual
					: NAN;
			if (q == PEERS_SELF)
				p->own[2 * peers_at(p, p->pushes) + i] = (float)log(x);
		} else {
			y = q == PEERS_SELF ? x / middle - 1 : (x - middle) / p->step_ns;
		}
		r[i] = bounded(y);
	}
}

/* Clips the rank's residual around its location. The location starts at the median of the first
 * steps and follows slowly, so a constant difference of a healthy rank is not an outlier. */
static double clip(struct peers *p, struct peers_series *s, uint32_t i, double r)
{
	struct peers_member *m = &s->member[i];
	double noise = s->noise.scale[0], away;
	uint32_t n = 0;

	if (!m->open)
		peers_noise_step(&s->single, r - m->location);
	if (p->pushes < PEERS_WARM || noise <= 0) {
		for (uint64_t t = 0; t <= p->pushes && t < PEERS_WARM; t++) {
			float v = s->residual[(size_t)t * p->n + i];

			if (!isnan(v))
				p->scratch[n++] = v;
		}
		m->location = m->habit = m->high = n ? (float)median_select(p->scratch, n) : 0;
		return r;
	}
	if (s->high && !s->open) {
		m->habit += (float)(FOLLOW_HABIT * fmax(-noise, fmin(noise, r - m->habit)));
		m->high = fmaxf(m->habit, m->high - (float)(FORGET * noise));
		if (m->seen < thresholds.count.lots) {
			m->seen++;
			m->high = m->habit;
		}
	}
	away = r - m->location;
	m->location += (float)(fmax(-noise, fmin(noise, away)) / thresholds.count.many);
	noise *= PEERS_CLIP;
	return away > noise ? m->location + noise : away < -noise ? m->location - noise : r;
}

static void accumulate(struct peers *p, struct peers_series *s)
{
	const float *r = s->residual + (size_t)peers_at(p, p->pushes) * p->n;
	size_t from = (size_t)(p->pushes % (p->depth + 1)) * p->n;
	size_t to = (size_t)((p->pushes + 1) % (p->depth + 1)) * p->n;

	for (uint32_t i = 0; i < p->n; i++) {
		bool known = !isnan(r[i]);
		double v;

		if (s->high)
			s->high[(size_t)peers_at(p, p->pushes) * p->n + i] = s->member[i].high;
		v = known ? clip(p, s, i, r[i]) : 0;

		v = v > 1 ? 1 : v < -1 ? -1 : v;
		s->sum[to + i] = (int32_t)((uint32_t)s->sum[from + i] +
					   (uint32_t)(int32_t)lrint(v / PEERS_UNIT));
		s->valid[to + i] = (uint16_t)(s->valid[from + i] + known);
	}
}

/* The quantile of each window. The allowed false flags per rank and hour are divided among the
 * windows, and among the ranks of a group that is larger than a node. Neighbouring tests share
 * most of their steps, so tests over one window length count as three independent ones. */
static void quantiles(struct peers *p)
{
	double per_hour = 3600e9 / p->step_ns;

	p->quantile_step_ns = p->step_ns;
	for (uint32_t w = 0; w < p->windows; w++) {
		double looks = 3 * fmax(1, per_hour / p->c.windows[w]);
		double chance = p->c.false_per_member_hour / p->windows / looks;

		chance *=
		    p->n > (double)thresholds.count.some ? (double)thresholds.count.some / p->n : 1;
		p->quantile[w] = chance_normal(chance);
		p->evidence[w] = -log(chance);
	}
}

void peers_push(struct peers *p, uint64_t step, const double *self_ns, const double *late_ns,
		double step_ns, uint32_t weight)
{
	const double *value[PEERS_MEASURES] = {self_ns, late_ns};
	uint32_t at = peers_at(p, p->pushes);

	weight = weight ? weight : 1;
	if (step_ns > 0 && isfinite(step_ns)) {
		p->step_ns = p->paced ? p->step_ns + (step_ns - p->step_ns) / 16 : step_ns;
		p->paced = true;
	}
	/* Lateness is relative to the step time. Before the step time is known, its noise cannot be
	 * learned. */
	if (!p->paced) {
		p->step_ns = UNKNOWN_STEP_NS;
		value[PEERS_LATE] = NULL;
	}
	if (!(p->quantile_step_ns > p->step_ns / 1.5 && p->quantile_step_ns < p->step_ns * 1.5))
		quantiles(p);
	p->step[at] = step;
	p->weight[at] = (float)weight;
	p->weight_mean = p->pushes ? p->weight_mean + (weight - p->weight_mean) / 16 : weight;
	p->own[2 * at] = p->own[2 * at + 1] = NAN;
	for (int q = 0; q < PEERS_MEASURES; q++) {
		struct peers_series *s = &p->series[q];

		if (p->c.mode == PEERS_SYSOM) {
			if (value[q])
				peers_sysom_push(p, (enum peers_measure)q, value[q]);
			continue;
		}
		if (p->c.changes_only && p->n > 2)
			change_residuals(p, (enum peers_measure)q, value[q]);
		else
			residuals(p, (enum peers_measure)q, value[q]);
		accumulate(p, s);
		s->reference[at] = reference_of(p, s, p->pushes);
		peers_noise_push(p, s);
		update_open_flags(p, (enum peers_measure)q);
		if (value[q])
			peers_test_windows(p, (enum peers_measure)q);
	}
	p->pushes++;
}

/* The noise is measured from single high steps. Steps that belong to a slow stretch are not noise,
 * so this removes them from the histogram. */
static void forget_stretches(struct peers_single *no)
{
	for (uint32_t i = 0; i < BLOCK_NOISE_BINS; i++) {
		no->step[i] -= no->stretch[i] < no->step[i] ? no->stretch[i] : no->step[i];
		no->stretch[i] = 0;
	}
	no->steps -= no->stretch_steps < no->steps ? no->stretch_steps : no->steps;
	no->stretch_steps = 0;
}

void peers_again(struct peers *p)
{
	p->learned = p->pushes;
	p->pushes = 0;
	p->queue_count = 0;
	for (int q = 0; q < PEERS_MEASURES; q++) {
		struct peers_series *s = &p->series[q];

		for (uint32_t i = 0; i < p->n; i++) {
			struct peers_member *m = &s->member[i];

			*m = (struct peers_member){.usual = m->usual,
						   .jitter = m->jitter,
						   .seen = m->seen < thresholds.count.some
							       ? m->seen
							       : thresholds.count.some};
			s->sum[i] = 0;
			s->valid[i] = 0;
		}
		forget_stretches(&s->single);
		s->open = 0;
		if (s->part)
			memset(s->part, 0, 2 * PEERS_SYSOM_PARTS * (size_t)p->n * sizeof(*s->part));
	}
}

void peers_finish(struct peers *p)
{
	if (!p->pushes)
		return;
	p->pushes--; /* close_flag reads the latest push */
	for (int q = 0; q < PEERS_MEASURES; q++)
		for (uint32_t i = 0; i < p->n; i++)
			if (p->series[q].member[i].open)
				close_flag(p, (enum peers_measure)q, i);
	p->pushes++;
}
