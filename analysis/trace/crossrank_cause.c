/* SPDX-License-Identifier: Apache-2.0
 * A rank is compared with its own healthy steps if there are any, since ranks differ permanently.
 * Otherwise it is compared with its peers during the slow stretch. */
#include "analysis/trace/crossrank_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cause/diagnosis.h"
#include "base/order.h"
#include "model/record.h"
#include "model/thresholds.h"

/* The most kernels and the most peers that are passed to the diagnosis. Kernels with most time come
 * first. */
#define KERNELS_MAX 300u
#define PEERS_MAX   16u
/* The most healthy steps that are used. */
#define BEFORE_MAX 256u

struct side {
	struct diagnosis_rank rank;
	struct diagnosis_kernel *kernel;
};

static double median_in(const struct crossrank *c, enum jobsteps_measure m, uint32_t r,
			uint32_t first, uint32_t last)
{
	return crossrank_median(c->steps->value[m] + (size_t)r * c->n, first, last, c->scratch);
}

ORDER_BY(by_time, struct diagnosis_kernel, ORDER_DOWN(total_ns) ?: ORDER_TEXT(name));

static double known_or(double x)
{
	return isnan(x) ? -1 : x;
}

static int side_fill(const struct crossrank *c, uint32_t r, uint32_t first, uint32_t last,
		     struct side *out)
{
	struct diagnosis_rank *d = &out->rank;
	struct jobsteps_kernel *list;
	int n = jobsteps_kernels(c->steps, r, first, last, &list);
	uint32_t steps = 0;

	memset(out, 0, sizeof(*out));
	if (n < 0)
		return n;
	for (uint32_t s = first; s <= last; s++)
		steps += !isnan(jobsteps_value(c->steps, JOBSTEPS_SELF, r, s));
	*d = (struct diagnosis_rank){
	    .rank = c->steps->rank[r].rank,
	    .steps = steps,
	    .step_ns = known_or(median_in(c, JOBSTEPS_LATENCY, r, first, last)),
	    .self_ns = known_or(median_in(c, JOBSTEPS_SELF, r, first, last)),
	    .compute_ns = known_or(median_in(c, JOBSTEPS_COMPUTE, r, first, last)),
	    /* the findings are about self time, which communication cannot explain */
	    .comm_ns = -1,
	    .exposed_comm_ns = -1,
	    .copy_ns = known_or(median_in(c, JOBSTEPS_COPY, r, first, last)),
	    .idle_ns = known_or(median_in(c, JOBSTEPS_IDLE, r, first, last)),
	    .kernels = known_or(median_in(c, JOBSTEPS_KERNELS, r, first, last)),
	    .cpu_ns = -1,
	    .off_ns = -1,
	    .gil_wait_ns = -1,
	};
	out->kernel = calloc((size_t)n + 1, sizeof(*out->kernel));
	if (!out->kernel) {
		free(list);
		return -ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		bool copy = list[i].kind == RECORD_COPY || list[i].kind == RECORD_MEMSET;

		if (list[i].name >= c->steps->name_count || copy)
			continue;
		out->kernel[d->kernel_count++] =
		    (struct diagnosis_kernel){c->job->name[list[i].name], list[i].count,
					      list[i].total_ns, list[i].kind == RECORD_COLL_KERNEL};
	}
	free(list);
	qsort(out->kernel, d->kernel_count, sizeof(*out->kernel), by_time);
	if (d->kernel_count > KERNELS_MAX)
		d->kernel_count = KERNELS_MAX;
	d->kernel = out->kernel;
	return 0;
}

static void sides_free(struct side *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		free(v[i].kernel);
}

/* The longest run of the rank's healthy steps outside the stretch; of equally long runs, the
 * latest. Returns its length. */
static uint32_t healthy_run(const struct crossrank *c, uint32_t r, uint32_t first, uint32_t last,
			    uint32_t *from)
{
	uint32_t best = 0, run = 0;

	for (uint32_t s = 0; s < c->n; s++) {
		bool healthy = (s < first || s > last) && !crossrank_slow_in(c, r, s) &&
			       !isnan(jobsteps_value(c->steps, JOBSTEPS_SELF, r, s));

		run = healthy ? run + 1 : 0;
		if (run && run >= best) {
			best = run;
			*from = s + 1 - run;
		}
	}
	if (best > BEFORE_MAX) {
		*from += best - BEFORE_MAX;
		best = BEFORE_MAX;
	}
	return best;
}

static void copy_diagnosis(struct finding *f, const struct diagnosis *d)
{
	f->cause = d->cause;
	for (uint32_t i = 0; i < d->evidence_count && f->evidence_count < FINDING_EVIDENCE_MAX; i++)
		f->evidence[f->evidence_count++] = d->evidence[i];
	for (uint32_t i = 0; i < d->ruled_out_count && f->evidence_count < FINDING_EVIDENCE_MAX;
	     i++)
		finding_say(f, d->ruled_out[i].layer, 0, "not the %s: %.200s",
			    finding_layer_name(d->ruled_out[i].layer), d->ruled_out[i].text);
}

/* before NULL: none. d: scratch. */
static void diagnose(struct finding *f, struct side *mine, struct side *before,
		     const struct diagnosis_rank *peers, uint32_t peer_count, struct diagnosis *d)
{
	struct diagnosis_input in = {.kind = f->kind,
				     .suspect = &mine->rank,
				     .suspect_count = 1,
				     .peer = peers,
				     .peer_count = peer_count,
				     .before = before ? &before->rank : NULL,
				     .known = CAUSE_UNKNOWN};

	diagnosis_make(&in, d);
	copy_diagnosis(f, d);
	if (f->kind == FINDING_SLOW_RANK &&
	    (f->cause == CAUSE_IMBALANCE_INPUT || f->cause == CAUSE_IMBALANCE_STAGE))
		f->kind = FINDING_IMBALANCE;
}

int crossrank_cause(const struct crossrank *c, struct finding *f, const uint32_t *ranks,
		    uint32_t count, uint32_t first, uint32_t last)
{
	struct side mine = {0}, before = {0}, peers[PEERS_MAX];
	struct diagnosis_rank list[PEERS_MAX];
	struct diagnosis *d = malloc(sizeof(*d));
	uint32_t from = 0, healthy, n = 0;
	int rc = d ? side_fill(c, ranks[0], first, last, &mine) : -ENOMEM;

	healthy = healthy_run(c, ranks[0], first, last, &from);
	if (!rc && healthy >= thresholds.count.few)
		rc = side_fill(c, ranks[0], from, from + healthy - 1, &before);
	for (uint32_t q = 0; q < c->ranks && n < PEERS_MAX && healthy < thresholds.count.few && !rc;
	     q++) {
		bool suspect = false;

		for (uint32_t i = 0; i < count; i++)
			suspect |= ranks[i] == q;
		if (suspect)
			continue;
		rc = side_fill(c, q, first, last, &peers[n]);
		list[n] = peers[n].rank;
		n++;
	}
	if (!rc && f->cause == CAUSE_UNKNOWN)
		diagnose(f, &mine, healthy >= thresholds.count.few ? &before : NULL, list, n, d);
	sides_free(&mine, 1);
	sides_free(&before, 1);
	sides_free(peers, n);
	free(d);
	return rc;
}

static int side_of_run(const struct crossrank_job *job, uint32_t r, struct side *out)
{
	struct crossrank c = {.job = job,
			      .steps = job->steps,
			      .ranks = job->steps->rank_count,
			      .n = job->steps->steps};
	int rc;

	c.scratch = malloc((c.n + 1) * sizeof(*c.scratch));
	rc = c.scratch ? side_fill(&c, r, 0, c.n - 1, out) : -ENOMEM;
	free(c.scratch);
	return rc;
}

int crossrank_cause_between(const struct crossrank_job *job, uint32_t r,
			    const struct crossrank_job *earlier, uint32_t q, struct finding *f)
{
	struct side mine = {0}, before = {0};
	struct diagnosis *d = malloc(sizeof(*d));
	int rc = d ? side_of_run(job, r, &mine) : -ENOMEM;

	if (!rc)
		rc = side_of_run(earlier, q, &before);
	if (!rc)
		diagnose(f, &mine, &before, NULL, 0, d);
	sides_free(&mine, 1);
	sides_free(&before, 1);
	free(d);
	return rc;
}
