/* SPDX-License-Identifier: Apache-2.0
 * A rank's self time in a step is a product of four factors: its role's level, the size of the
 * step, the size of its input, and its own factor. The first three are medians. They are computed
 * one after the other, in two rounds, so a slow rank hardly changes them. The level of a role is
 * that of the lower half of its ranks; of two ranks, the faster one. If most stages of a
 * replica share a factor, it is their input (longer sequences, say), not a fault. */
#include <math.h>

#include "analysis/robust/median.h"
#include "analysis/trace/workers_private.h"
#include "model/thresholds.h"

/* A rank's level is a low quantile of its steps, because the rank may be slow in some of
 * them. */
static void levels(struct workers *w)
{
	const struct workers_table *t = w->t;

	for (uint32_t i = 0; i < t->workers; i++) {
		uint32_t n = 0;

		for (uint32_t s = 0; s < t->steps; s++) {
			double v = t->self_ns[workers_cell(t, i, s)] / w->common[s];

			if (isfinite(v) && v > 0)
				w->scratch[n++] = v;
		}
		w->level[i] = median_lower(w->scratch, n, WORKERS_MOST_STEPS);
	}
	for (uint32_t r = 0; r < t->roles; r++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < t->workers; i++)
			if (t->role[i] == r && w->level[i] > 0)
				w->scratch[n++] = w->level[i];
		w->role_level[r] = median_lower(w->scratch, n, 0.5);
	}
}

static void commons(struct workers *w)
{
	const struct workers_table *t = w->t;

	for (uint32_t s = 0; s < t->steps; s++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < t->workers; i++) {
			double v = t->self_ns[workers_cell(t, i, s)] / w->role_level[t->role[i]];

			if (isfinite(v) && v > 0)
				w->scratch[n++] = v;
		}
		w->common[s] = n ? median_of(w->scratch, n) : NAN;
	}
}

static double self_part(const struct workers *w, uint32_t step, uint32_t worker)
{
	const struct workers_table *t = w->t;
	double v = t->self_ns[workers_cell(t, worker, step)];

	return v > 0 ? v / w->role_level[t->role[worker]] : NAN;
}

/* The input is known if both of two stages agree, or most of several stages. With only one stage or
 * one replica, more input and a fault look alike. */
static void inputs(struct workers *w)
{
	const struct workers_table *t = w->t;

	for (uint32_t s = 0; s < t->steps; s++)
		for (uint32_t r = 0; r < t->replicas; r++) {
			double *input = &w->input[workers_cell(t, r, s)], v;
			uint32_t n = 0;

			*input = 1;
			for (uint32_t i = 0; i < t->workers; i++) {
				v = t->replica[i] == r ? self_part(w, s, i) / w->common[s] : NAN;
				if (isfinite(v))
					w->scratch[n++] = v;
			}
			if (n > 2)
				*input = median_lower(w->scratch, n, 0.5);
			else if (n == 2 && (w->scratch[0] > 1) == (w->scratch[1] > 1))
				*input = fabs(w->scratch[0] - 1) < fabs(w->scratch[1] - 1)
					     ? w->scratch[0]
					     : w->scratch[1];
		}
}

static void latenesses(struct workers *w)
{
	const struct workers_table *t = w->t;

	for (uint32_t r = 0; r < t->roles; r++) {
		uint32_t members = 0;
		double usual;

		for (uint32_t i = 0; i < t->workers; i++) {
			uint32_t known = 0;

			for (uint32_t s = 0; s < t->steps && t->role[i] == r; s++)
				if (isfinite(t->late_ns[workers_cell(t, i, s)]))
					w->scratch[known++] = t->late_ns[workers_cell(t, i, s)];
			/* late serves as scratch for the ranks' medians; it is filled below */
			if (known)
				w->late[members++] = median_of(w->scratch, known);
		}
		for (uint32_t k = 0; k < members; k++)
			w->scratch[k] = w->late[k];
		usual = median_lower(w->scratch, members, 0.5);
		w->role_late[r] = members ? usual : 0;
	}
	for (uint32_t s = 0; s < t->steps; s++)
		for (uint32_t i = 0; i < t->workers; i++)
			w->late[workers_cell(t, i, s)] =
			    t->late_ns[workers_cell(t, i, s)] - w->role_late[t->role[i]];
}

/* The median of v without the values that lie far above most others. For a rank that is slow part
 * of the time, this is its healthy value. The lower half gives the noise. */
static double without_high(double *v, uint32_t n)
{
	uint32_t low = (uint32_t)(WORKERS_MOST_STEPS * (n ? n - 1 : 0)), kept = 0;
	double most = median_lower(v, n, WORKERS_MOST_STEPS), spread = n ? most - v[low / 2] : 0;

	while (kept < n && v[kept] <= most + thresholds.sure.far_errors * spread)
		kept++;
	return median_lower(v, kept, 0.5);
}

/* Collects the rank's values in w->scratch, without steps in which any rank was slow, because
 * waiting hides a part of the others' self time. Uses all steps if too few remain. Returns the
 * count. */
static uint32_t ordinary(struct workers *w, const double *value, uint32_t worker)
{
	const struct workers_table *t = w->t;
	uint32_t n = 0, away = 0;

	for (uint32_t s = 0; s < t->steps; s++) {
		double v = value[workers_cell(t, worker, s)];

		if (v > 0 && w->away[s])
			away++;
		else if (v > 0)
			w->scratch[n++] = v;
	}
	if (n >= thresholds.count.some && n >= thresholds.part.shows * (n + away))
		return n;
	for (uint32_t s = n = 0; s < t->steps; s++)
		if (value[workers_cell(t, worker, s)] > 0)
			w->scratch[n++] = value[workers_cell(t, worker, s)];
	return n;
}

/* Makes each rank's values relative to its usual value; 1: as usual. small: if a rank's usual
 * value is less than this share of the typical rank's, the typical value is its unit. */
static void against_usual(struct workers *w, const double *value, double small, double *usual,
			  double *out)
{
	const struct workers_table *t = w->t;
	uint32_t known = 0;
	double typical;

	for (uint32_t i = 0; i < t->workers; i++) {
		uint32_t n = ordinary(w, value, i);

		usual[i] = without_high(w->scratch, n);
	}
	for (uint32_t i = 0; i < t->workers; i++)
		if (usual[i] > 0)
			w->scratch[known++] = usual[i];
	typical = known ? median_of(w->scratch, known) : NAN;
	for (uint32_t s = 0; s < t->steps; s++)
		for (uint32_t i = 0; i < t->workers; i++) {
			double v = value[workers_cell(t, i, s)];
			double unit = usual[i] > small * typical ? usual[i] : typical;

			out[workers_cell(t, i, s)] = v > 0 ? 1 + (v - usual[i]) / unit : NAN;
		}
	for (uint32_t i = 0; i < t->workers; i++)
		usual[i] = usual[i] > small * typical ? usual[i] : typical;
}

void workers_more(struct workers *w, const double *value)
{
	against_usual(w, value, 0, w->level, w->more);
}

void workers_level(struct workers *w)
{
	const struct workers_table *t = w->t;
	bool has_input = t->replica && t->roles > 1 && t->replicas > 1;

	for (uint32_t s = 0; s < t->steps; s++)
		w->common[s] = 1;
	if (t->uneven) {
		against_usual(w, t->self_ns, thresholds.part.shows, w->usual, w->self);
		for (uint32_t i = 0; i < t->workers; i++)
			w->scratch[i] = w->usual[i];
		w->role_level[0] = median_of(w->scratch, t->workers);
		return;
	}
	for (int round = 0; round < 2; round++) {
		levels(w);
		commons(w);
	}
	if (has_input)
		inputs(w);
	for (uint32_t s = 0; s < t->steps; s++)
		for (uint32_t i = 0; i < t->workers; i++)
			w->self[workers_cell(t, i, s)] =
			    self_part(w, s, i) /
			    (has_input ? w->input[workers_cell(t, t->replica[i], s)] : 1);
	for (uint32_t i = 0; i < t->workers; i++)
		w->usual[i] = w->role_level[t->role[i]];
	if (t->late_ns)
		latenesses(w);
}
