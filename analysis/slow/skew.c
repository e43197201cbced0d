/* SPDX-License-Identifier: Apache-2.0
 * If the work is known, the loss of a step is the smaller of the heaviest rank's extra time and
 * extra work. Extra time alone may be a busy CPU, and extra work alone may cost nothing. */
#include "analysis/slow/skew.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

/* confidence of the finding */
#define SURE 0.8

/* How far the rank lies above the median, over the ranks whose time is known. */
static double above(const double *v, const double *value, uint32_t n, uint32_t member,
		    double *scratch)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		if (v[i] > 0 && value[i] > 0)
			scratch[count++] = value[i];
	return count >= 2 ? value[member] / median_of(scratch, count) - 1 : 0;
}

struct skew_step skew_of_step(const double *v, const double *work, uint32_t n, double *scratch)
{
	const double *by = work ? work : v;
	struct skew_step s = {0};
	double most = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!(v[i] > 0) || !(by[i] > 0))
			continue;
		s.members++;
		s.heaviest = by[i] > most ? i : s.heaviest;
		most = by[i] > most ? by[i] : most;
	}
	if (s.members < 2)
		return s;
	s.loss = above(by, v, n, s.heaviest, scratch);
	if (work)
		s.loss = fmax(0, fmin(s.loss, above(v, work, n, s.heaviest, scratch)));
	return s;
}

struct skew skew_of(const struct skew_step *step, uint32_t count, uint32_t *times, uint32_t n,
		    double *loss)
{
	struct skew k = {0};
	double second = 0;

	memset(times, 0, n * sizeof(*times));
	for (uint32_t s = 0; s < count; s++) {
		if (step[s].members < 2)
			continue;
		k.members = step[s].members > k.members ? step[s].members : k.members;
		loss[k.steps++] = step[s].loss;
		times[step[s].heaviest]++;
	}
	for (uint32_t i = 0; i < n; i++) {
		second = fmax(second, fmin(times[i], k.most));
		k.most = fmax(k.most, times[i]);
	}
	k.loss = median_of(loss, k.steps); /* sorts loss */
	k.rare = k.steps ? loss[k.steps - 1 - k.steps / 100] : 0;
	k.most /= k.steps ? k.steps : 1;
	k.two = k.most + second / (k.steps ? k.steps : 1);
	return k;
}

bool skew_is_uneven(const struct skew *k)
{
	return k->steps >= thresholds.count.some &&
	       k->loss >= thresholds.excess.work / (k->members == 2 ? 2 : 1) &&
	       k->most <= thresholds.part.most &&
	       (k->members <= thresholds.count.few || k->two <= thresholds.part.nearly_all);
}

bool skew_covers(const struct skew *k, double excess)
{
	return excess <=
	       fmax(thresholds.uneven.covers * k->loss, thresholds.uneven.covers_rare * k->rare);
}

bool skew_explains(const struct skew *k, double excess)
{
	return skew_is_uneven(k) && skew_covers(k, excess);
}

void skew_say(struct finding *f, const struct skew *k, double effect_ns, uint32_t folded)
{
	f->kind = FINDING_IMBALANCE;
	f->cause = CAUSE_IMBALANCE_INPUT;
	f->excess = k->loss;
	f->effect_ns = effect_ns;
	f->confidence = SURE;
	finding_say(f, LAYER_SOFTWARE, effect_ns,
		    "the heaviest of %" PRIu32 " ranks takes %.1f%% more than the median one, "
		    "and it is not the same rank in every step: none is the heaviest in more "
		    "than %.0f%% of the steps",
		    k->members, 100 * k->loss, 100 * k->most);
	if (folded)
		finding_say(f, LAYER_SOFTWARE, 0,
			    "%" PRIu32
			    " stretches in which one rank had more work for longer are part "
			    "of this imbalance",
			    folded);
}
