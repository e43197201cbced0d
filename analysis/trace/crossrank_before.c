/* SPDX-License-Identifier: Apache-2.0
 * Compares two runs of a job: every rank with the same rank of the earlier run. Ranks differ
 * permanently, so medians over all ranks would hide a change of one rank. */
#include "analysis/trace/crossrank_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/robust/median.h"
#include "analysis/robust/spread.h"
#include "model/thresholds.h"

struct middle {
	double median, error;
	uint32_t n;
};

/* The median self time of a rank, with its error. */
static struct middle middle_of(const struct jobsteps *j, uint32_t r, double *scratch)
{
	struct middle m = {0};

	for (uint32_t s = 0; s < j->steps; s++) {
		double x = jobsteps_value(j, JOBSTEPS_SELF, r, s);

		if (!isnan(x))
			scratch[m.n++] = x;
	}
	m.median = median_of(scratch, m.n);
	m.error = spread_of_median(MEDIAN_MAD_SIGMA * median_mad(scratch, m.n, m.median), m.n);
	return m;
}

static bool slower(const struct middle *now, const struct middle *before)
{
	double error = sqrt(now->error * now->error + before->error * before->error);

	return now->n >= thresholds.count.few && before->n >= thresholds.count.few &&
	       now->median > before->median * (1 + thresholds.excess.slower) &&
	       now->median - before->median > thresholds.sure.far_errors * error;
}

/* The index of the rank with this number; rank_count: none. */
static uint32_t same_rank(const struct jobsteps *j, int32_t rank)
{
	uint32_t r = 0;

	while (r < j->rank_count && j->rank[r].rank != rank)
		r++;
	return r;
}

int crossrank_compare(const struct crossrank_job *job, const struct crossrank_job *earlier,
		      void (*report)(void *to, const struct crossrank_finding *f), void *to)
{
	const struct jobsteps *now = job->steps, *then = earlier->steps;
	uint32_t most = now->steps > then->steps ? now->steps : then->steps, both = 0, worst = 0;
	struct crossrank_finding *out = calloc(1, sizeof(*out));
	double *scratch = malloc((most + 1) * sizeof(*scratch)),
	       *rise = calloc(now->rank_count + 1u, 8);
	struct finding *f = out ? &out->finding : NULL;
	int rc = out && scratch && rise ? 0 : -ENOMEM;

	for (uint32_t r = 0; r < now->rank_count && !rc; r++) {
		uint32_t q = same_rank(then, now->rank[r].rank);
		struct middle a, b;

		if (q == then->rank_count)
			continue;
		both++;
		a = middle_of(now, r, scratch);
		b = middle_of(then, q, scratch);
		if (!slower(&a, &b) || f->rank_count == FINDING_RANKS_MAX)
			continue;
		rise[f->rank_count] = a.median - b.median;
		f->ranks[f->rank_count++] = now->rank[r].rank;
		if (a.median / b.median - 1 > f->excess) {
			f->excess = a.median / b.median - 1;
			worst = r;
		}
	}
	if (!rc && f->rank_count) {
		f->kind = f->rank_count == both ? FINDING_UNIFORM : FINDING_SLOW_RANK;
		f->last_step = now->steps - 1;
		f->effect_ns = median_of(rise, f->rank_count);
		f->confidence = 0.9;
		out->sure_step = thresholds.count.few;
		rc = crossrank_cause_between(job, worst, earlier,
					     same_rank(then, now->rank[worst].rank), f);
		if (!rc)
			report(to, out);
	}
	free(out);
	free(scratch);
	free(rise);
	return rc;
}
