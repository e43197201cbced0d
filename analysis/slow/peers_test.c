/* SPDX-License-Identifier: Apache-2.0
 * Tests one window. Ranks are sorted by their mean residual. A split into a lower and an upper
 * group is accepted if the lowest of the upper group lies above the lower group by more than two
 * allowances: the noise (a Gaussian quantile) and the lower group's own spread (Student's t),
 * because healthy GPUs also differ a little. Among several splits the largest gap wins. So one,
 * some and most slow ranks are the same case, and no mean or deviation includes the outliers that
 * it must find. The same test then runs on each rank's change against its own past, where
 * constant differences cannot hide a new one. */
#include "analysis/slow/peers_private.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/chance.h"
#include "model/thresholds.h"

/* With fewer pushes before a window, there is no past. */
#define PAST_LEAST 10u
/* The past is at most this many times as long as the window. */
#define PAST_TIMES 4u

struct split {
	const double *value; /* by rank */
	double noise, widened, z;
	double usual;	/* assumed spread of healthy ranks, if there are too few to measure it */
	bool alike;	/* assume no spread: each rank is compared with its own usual value */
	uint32_t lower; /* result: ranks in the lower group; 0: no split */
	double center, threshold;
};

/* Ascending; equal values by index. Radix sort in three passes of 11 bits: the key orders as the
 * float does. */
static void sort(const struct peers *p, const double *value, uint32_t *order, uint32_t n)
{
	uint32_t *key = p->key, *from = order, *to = p->order + p->n, first[2048];

	for (uint32_t i = 1; i < n && n <= 32; i++) {
		uint32_t x = order[i], j = i;

		for (; j && value[order[j - 1]] > value[x]; j--)
			order[j] = order[j - 1];
		order[j] = x;
	}
	if (n <= 32)
		return;
	for (uint32_t i = 0; i < n; i++) {
		float v = (float)value[order[i]];
		uint32_t bits;

		memcpy(&bits, &v, sizeof(bits));
		key[order[i]] = bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
	}
	for (uint32_t shift = 0; shift < 33; shift += 11) {
		uint32_t at = 0, *t = from;

		memset(first, 0, sizeof(first));
		for (uint32_t i = 0; i < n; i++)
			first[key[from[i]] >> shift & 2047]++;
		for (uint32_t i = 0; i < 2048; i++) {
			uint32_t count = first[i];

			first[i] = at;
			at += count;
		}
		for (uint32_t i = 0; i < n; i++)
			to[first[key[from[i]] >> shift & 2047]++] = from[i];
		from = to;
		to = t;
	}
	if (from != order)
		memcpy(order, from, n * sizeof(*order));
}

double peers_test_mean(const struct peers *p, const struct peers_series *s, uint32_t member,
		       uint64_t begin, uint64_t end)
{
	size_t a = (size_t)(begin % (p->depth + 1)) * p->n + member;
	size_t b = (size_t)(end % (p->depth + 1)) * p->n + member;
	uint16_t known = (uint16_t)(s->valid[b] - s->valid[a]);
	int32_t sum = (int32_t)((uint32_t)s->sum[b] - (uint32_t)s->sum[a]);

	if (known == 0 || known < thresholds.part.most * (double)(end - begin))
		return NAN;
	return sum * PEERS_UNIT / known;
}

/* Computed on first use: most are never needed. */
static double student_of(struct peers *p, uint32_t freedom)
{
	double *z = &p->student[freedom < PEERS_QUANTILES ? freedom : PEERS_QUANTILES - 1];

	if (*z <= 0)
		*z = chance_student(chance_beyond(thresholds.sure.errors) / 2 / p->n,
				    (uint32_t)(z - p->student));
	return *z;
}

/* Computes center and threshold for the first `lower` ranks of order. True: the split is
 * accepted. */
static bool split_at(struct peers *p, struct split *t, const uint32_t *order, uint32_t lower,
		     double sum, double squares)
{
	uint32_t count = lower, freedom, assumed;
	double least = t->value[order[0]], mean, variance, spread, z;

	/* The fastest rank is left out: a single fast rank must not widen the spread. */
	if (lower >= 5) {
		count--;
		sum -= least;
		squares -= least * least;
	}
	mean = sum / count;
	variance = fmax(0, squares - sum * mean);
	freedom = count - 1;
	assumed = freedom < 4 ? 4 - freedom : 0;
	variance = (variance + assumed * t->usual * t->usual) / (freedom + assumed);
	freedom += assumed;
	spread = t->alike ? 0 : fmax(0, variance - t->widened * t->widened);
	z = student_of(p, freedom);
	t->center = mean;
	t->threshold =
	    sqrt(t->z * t->z * t->widened * t->widened * (1 + 1.0 / count) + z * z * spread);
	return t->value[order[lower]] - mean > t->threshold;
}

/* Finds the best split: fills lower, center and threshold. n ranks have a value. */
static void split(struct peers *p, struct split *t, uint32_t *order, uint32_t n)
{
	double sum = 0, squares = 0, gap = 0, center = 0, threshold = 0;
	uint32_t least = n > 8 ? (n + 3) / 4 : 2, best = 0;

	for (uint32_t i = 0; i + 1 < n; i++) {
		double v = t->value[order[i]], g = t->value[order[i + 1]] - v;

		sum += v;
		squares += v * v;
		if (i + 1 < least || g <= gap)
			continue;
		if (2 * (i + 1) < n && g < thresholds.excess.near)
			continue;
		if (!split_at(p, t, order, i + 1, sum, squares))
			continue;
		best = i + 1;
		gap = g;
		center = t->center;
		threshold = t->threshold;
	}
	t->lower = best;
	t->center = center;
	t->threshold = threshold;
}

/* The window's mean of clipped residuals. If most of it is clipped, the mean hides how far out the
 * rank is, so this takes the quartile nearer to zero: a single bad step and the few after it do
 * not move that. */
static double typical(struct peers *p, const struct peers_series *s, uint32_t member,
		      uint64_t begin, uint64_t end)
{
	double v = peers_test_mean(p, s, member, begin, end);
	double cut = PEERS_CLIP * s->noise.scale[0], r;
	uint32_t n = 0;

	if (!(fabs(v - s->member[member].location) > 0.6 * cut))
		return v;
	for (uint64_t t = begin; t < end; t++) {
		r = s->residual[(size_t)peers_at(p, t) * p->n + member];
		if (!isnan(r))
			p->scratch[n++] = r;
	}
	return median_nth(p->scratch, n, v > s->member[member].location ? n / 4 : n - 1 - n / 4);
}

/* Sorts the ranks that have a value. Returns 0 if they lie too near to each other to be split. */
static uint32_t gather(const struct peers *p, struct split *t, uint32_t *order)
{
	double lo = INFINITY, hi = -INFINITY;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		double v = t->value[i];

		if (isnan(v))
			continue;
		order[n++] = i;
		lo = v < lo ? v : lo;
		hi = v > hi ? v : hi;
	}
	if (n < 2 || hi - lo <= t->z * t->widened)
		return 0;
	sort(p, t->value, order, n);
	return n;
}

/* The smallest excess that a window of this many steps can show, as a part of the step. Healthy
 * ranks have bursts of a smaller excess. A long window may report a thousandth of a step. */
static double floor_of(enum peers_measure q, double steps)
{
	double burst = q == PEERS_LATE ? thresholds.excess.late_burst : thresholds.excess.burst;
	double most = thresholds.excess.short_window / (q == PEERS_LATE ? 2 : 1);

	return fmax(thresholds.excess.least, fmin(most, burst / steps));
}

/* Whether most of 10 blocks of the window lie above the base by a part of the excess. */
static bool persists(struct peers *p, struct peers_series *s, uint32_t member, double base,
		     uint32_t length, double excess)
{
	uint32_t blocks = length < 10 ? length : 10, agree = 0;
	uint64_t end = p->pushes + 1, begin = end - length;

	for (uint32_t b = 0; b < blocks; b++) {
		double v = peers_excess(p, s, member, base, begin + (uint64_t)length * b / blocks,
					begin + (uint64_t)length * (b + 1) / blocks);

		agree += v > thresholds.part.shows * excess;
	}
	if (agree < thresholds.part.most * blocks)
		return false;
	/* The excess must last to the end of the window. One that fades out was one bad step and
	 * the few after it. */
	begin = end - (length < 10 ? 2 : length / 5);
	if (length < 10 &&
	    !(peers_excess(p, s, member, base, end - 1, end) > thresholds.part.half * excess))
		return false;
	return peers_excess(p, s, member, base, begin, end) > thresholds.part.half * excess;
}

/* Whether chance explains so many high steps, given how often single high steps occur. Uneven input
 * makes one rank high several times in a row now and then. */
static bool coincides(struct peers *p, struct peers_series *s, uint32_t member, uint32_t w,
		      double base, uint32_t length, double excess)
{
	uint64_t end = p->pushes + 1;
	uint32_t high = 0;

	for (uint64_t t = end - length; t < end; t++)
		high += peers_excess(p, s, member, base, t, t + 1) > thresholds.part.half * excess;
	return high * -log(peers_noise_share(&s->single, excess / 2, high)) < p->evidence[w];
}

/* Without a fault: the residual of a rank whose work differs. */
static double usual_distance(const struct peers *p, enum peers_measure q, uint32_t member)
{
	const struct peers_series *s = &p->series[q];

	if (!p->c.changes_only)
		return 0;
	return q == PEERS_LATE ? (s->member[member].usual - s->middle) / p->step_ns
			       : s->member[member].usual / s->middle - 1;
}

/* The rank's self time over the window, relative to its usual self time, minus 1. */
static double self_rise(struct peers *p, uint32_t member, uint64_t begin)
{
	const float *residual = p->series[PEERS_SELF].residual;
	uint32_t n = 0;

	for (uint64_t t = begin; t <= p->pushes; t++) {
		uint32_t at = peers_at(p, t);

		p->scratch[n++] =
		    p->n == 2 ? exp((double)p->own[2 * at + member])
			      : p->level_ns[at] * (1 + residual[(size_t)at * p->n + member]);
	}
	return median_known(p->scratch, n, p->scratch) / p->c.usual_ns - 1;
}

/* The rank's highest habit before the window. Its present one already includes the tested
 * steps. */
static double highest_habit(const struct peers *p, const struct peers_series *s, uint32_t member,
			    uint32_t length)
{
	return s->high[(size_t)peers_at(p, p->pushes + 1 - length) * p->n + member];
}

static void raise_flag(struct peers *p, enum peers_measure q, uint32_t member, uint32_t w,
		       uint32_t length, double base, double threshold)
{
	struct peers_series *s = &p->series[q];
	uint64_t end = p->pushes + 1;
	double least = floor_of(q, length * p->weight_mean), excess;

	/* If ranks differ by nature, a rank that was faster than usual for a while is not slow
	 * when it returns. Its self time had been reduced while another rank was slow. */
	if (p->n > 2 && p->c.changes_only)
		base = fmax(base, highest_habit(p, s, member, length));
	excess = peers_excess(p, s, member, base, end - length, end);
	least = least > p->c.least[q] ? least : p->c.least[q];
	/* A rank that was faster than the others, and no longer is, is not slow. */
	if (p->n > 2 &&
	    !(excess + base + usual_distance(p, q, member) > thresholds.part.shows * excess))
		return;
	/* A few very long steps are not enough: the median must confirm the mean. */
	if (!(excess > least) || excess < (length < 50 ? thresholds.part.most : 1) * threshold)
		return;
	/* Its own self time must have risen. Otherwise the others became faster, or waiting hid
	 * their idle time. */
	if (q == PEERS_SELF && p->c.usual_ns > 0 &&
	    !(self_rise(p, member, end - length) > thresholds.part.shows * excess))
		return;
	if (!persists(p, s, member, base, length, excess) ||
	    coincides(p, s, member, w, base, length, excess))
		return;
	peers_open(p, q, member, length, base, threshold > least ? threshold : least);
}

/* A rank that is noisier than the others has a higher threshold. */
static double own_threshold(const struct peers_series *s, uint32_t member, double threshold)
{
	double usual_jitter = s->jitter > s->noise.scale[0] ? s->jitter : s->noise.scale[0];
	double ratio = usual_jitter > 0 ? s->member[member].jitter / usual_jitter : 1;

	return threshold * (ratio < 1 ? 1 : ratio);
}

/* The number of stored pushes before a window, at most PAST_TIMES its length. */
static uint32_t before_of(const struct peers *p, uint32_t length)
{
	uint64_t end = p->pushes + 1, have = end < p->depth ? end : p->depth;
	uint64_t before = have > length ? have - length : 0;

	return before < PAST_TIMES * length ? (uint32_t)before : PAST_TIMES * length;
}

/* Whether the median self time rose together with the split, or there is no past. Only then may the
 * upper group be the slow one although it is larger. */
static bool level_rose(struct peers *p, uint32_t length, double gap)
{
	uint64_t end = p->pushes + 1;
	uint32_t past = before_of(p, length);
	double now, before;

	if (past < PAST_LEAST && p->c.usual_ns <= 0)
		return true;
	for (uint32_t i = 0; i < length; i++)
		p->scratch[i] = p->level_ns[peers_at(p, end - length + i)];
	now = median_select(p->scratch, length);
	for (uint32_t i = 0; i < past; i++)
		p->scratch[i] = p->level_ns[peers_at(p, end - length - past + i)];
	before = p->c.usual_ns > 0 ? p->c.usual_ns : median_select(p->scratch, past);
	return now > before * (1 + gap / 2);
}

/* A rank's residual before the window. Uses the median: a clipped mean moves for a while after a
 * jump. */
static double usual(struct peers *p, struct peers_series *s, uint32_t member, uint64_t begin,
		    uint64_t end)
{
	double v = peers_excess(p, s, member, 0, begin, end);

	return isnan(v) ? 0 : v;
}

/* Flags the ranks of the upper group that are not flagged yet. past: number of pushes before the
 * window that give a rank's residual without a fault; 0: use the lower group's. */
static void flag_upper_group(struct peers *p, enum peers_measure q, const struct split *t,
			     uint32_t n, uint32_t w, uint32_t length, uint32_t past)
{
	struct peers_series *s = &p->series[q];
	uint64_t begin = p->pushes + 1 - length;
	bool most = 2 * t->lower < n;
	uint32_t marked = 0;

	/* If it did not rise, the others became faster. */
	if (most && !level_rose(p, length, t->value[p->order[t->lower]] - t->center))
		return;
	/* The whole upper group counts as open while the reference is computed. */
	for (uint32_t i = t->lower; i < n && most; i++)
		if (!s->member[p->order[i]].open) {
			s->member[p->order[i]].open = true;
			s->member[p->order[i]].flag.score = -1; /* marks a temporary flag */
			marked++;
		}
	s->open += marked;
	if (marked)
		peers_update_reference(
		    p, s, p->pushes + 1 > p->depth ? p->pushes + 1 - p->depth : 0, p->pushes + 1);
	for (uint32_t i = n; i-- > t->lower;) {
		struct peers_member *m = &s->member[p->order[i]];
		double threshold = own_threshold(s, p->order[i], t->threshold);

		if (m->open && m->flag.score < 0) {
			m->open = false;
			s->open--;
		}
		if (m->open || m->since > begin || t->value[p->order[i]] - t->center <= threshold)
			continue;
		raise_flag(p, q, p->order[i], w, length,
			   past ? usual(p, s, p->order[i], begin - past, begin) : 0, threshold);
	}
	if (marked)
		peers_update_reference(
		    p, s, p->pushes + 1 > p->depth ? p->pushes + 1 - p->depth : 0, p->pushes + 1);
}

/* The number of pushes to compare a window with; 0: too few. */
static uint32_t past_of(const struct peers *p, uint32_t length)
{
	uint32_t past = before_of(p, length);

	return past >= PAST_LEAST && past >= length ? past : 0;
}

static void test_window(struct peers *p, enum peers_measure q, uint32_t w, uint32_t length)
{
	struct peers_series *s = &p->series[q];
	uint64_t end = p->pushes + 1;
	uint32_t past = past_of(p, length), n;
	double *now = p->value, *base = p->value + p->n, *change = p->value + 2 * (size_t)p->n;
	struct split t = {.value = now,
			  .z = p->quantile[w],
			  .usual = q == PEERS_SELF ? 0.005 : thresholds.excess.least};

	t.noise = peers_noise_of(p, s, length, &t.widened);
	if (t.noise <= 0)
		return;
	t.alike = q == PEERS_SELF && p->c.usual_ns > 0;
	/* the usual value has an error too, since it is known from few steps */
	if (t.alike && p->learned)
		t.widened *= sqrt(1 + (double)length / p->learned);
	for (uint32_t i = 0; i < p->n; i++)
		now[i] = typical(p, s, i, end - length, end);
	n = p->c.changes_only ? 0 : gather(p, &t, p->order);
	if (n)
		split(p, &t, p->order, n);
	if (n && t.lower)
		flag_upper_group(p, q, &t, n, w, length, 0);
	if (!past)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		base[i] = s->member[i].since > end - length - past
			      ? NAN
			      : peers_test_mean(p, s, i, end - length - past, end - length);
		change[i] = s->member[i].open ? NAN : now[i] - base[i];
	}
	t.value = change;
	t.usual = thresholds.excess.least;
	t.alike = false;
	t.noise *= sqrt(1 + (double)length / past);
	t.widened *= sqrt(1 + (double)length / past);
	n = gather(p, &t, p->order);
	if (n > 2)
		split(p, &t, p->order, n);
	if (n > 2 && t.lower)
		flag_upper_group(p, q, &t, n, w, length, past);
}

/* How far a rank of a pair moved from its own past. With two ranks, only their pasts show which
 * one changed. Without a past, the slower one is flagged if the difference is larger than between
 * two healthy ranks. */
static double self_change(struct peers *p, uint32_t member, uint32_t length, uint32_t past)
{
	uint64_t end = p->pushes + 1;
	double now;

	for (uint32_t i = 0; i < length; i++)
		p->scratch[i] = p->own[2 * peers_at(p, end - length + i) + member];
	now = median_known(p->scratch, length, p->scratch);
	for (uint32_t i = 0; i < past; i++)
		p->scratch[i] = p->own[2 * peers_at(p, end - length - past + i) + member];
	return now - median_known(p->scratch, past, p->scratch);
}

static void test_window_pair(struct peers *p, enum peers_measure q, uint32_t w, uint32_t length)
{
	struct peers_series *s = &p->series[q];
	uint64_t end = p->pushes + 1, begin = end - length;
	uint32_t past = past_of(p, length), slow;
	double widened, now = typical(p, s, 1, begin, end), before, threshold, moved;
	bool known;

	if (s->open || peers_noise_of(p, s, length, &widened) <= 0 || isnan(now))
		return;
	slow = now > 0;
	known = q == PEERS_SELF && p->c.usual_ns > 0;
	threshold = fmax(p->quantile[w] * widened, known ? 0 : thresholds.excess.work);
	if ((known || (!p->c.changes_only && begin < PAST_LEAST && length >= 10 && length <= 50)) &&
	    fabs(now) > threshold && s->member[slow].since <= begin) {
		raise_flag(p, q, slow, w, length, 0, threshold);
		return;
	}
	before = past ? peers_test_mean(p, s, 1, begin - past, begin) : NAN;
	threshold = p->quantile[w] * widened * sqrt(1 + (double)length / (past ? past : length));
	if (isnan(before) || !(fabs(now - before) > threshold))
		return;
	slow = now > before;
	if (s->member[0].since > begin - past || s->member[1].since > begin - past)
		return; /* the past must contain no flagged stretch */
	if (q == PEERS_SELF) {
		moved = self_change(p, 0, length, past) + self_change(p, 1, length, past);
		if (!(moved >= 0)) /* the other rank became faster */
			return;
	}
	raise_flag(p, q, slow, w, length, usual(p, s, slow, begin - past, begin), threshold);
}

void peers_test_windows(struct peers *p, enum peers_measure q)
{
	uint64_t done = p->pushes + 1;

	if (done < PEERS_WARM)
		return;
	for (uint32_t w = 0; w < p->windows; w++) {
		double pushes = ceil(p->c.windows[w] / p->weight_mean - 1e-6);
		uint32_t length = pushes < 3 ? 3 : (uint32_t)pushes;
		uint32_t stride = length / 10 ? length / 10 : 1;

		if (length > p->depth || length > done)
			break;
		if (done % stride)
			continue;
		if (p->n == 2)
			test_window_pair(p, q, w, length);
		else
			test_window(p, q, w, length);
	}
}
