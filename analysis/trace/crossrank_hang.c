/* SPDX-License-Identifier: Apache-2.0
 * A hang in traces looks like this: all ranks share a last collective. After it, some ranks enter
 * one more. It is the last work of their devices, and takes many times longer than any before. The
 * other ranks never enter it. Traces that merely end at different times end with collectives of the
 * usual length. */
#include "analysis/trace/crossrank_private.h"
#include "model/thresholds.h"

#include <math.h>

struct tail {
	uint32_t after; /* number of collectives after the last shared one */
	/* time in the first collective after the shared one; 0: the device did more work after
	 * it */
	double waited_ns;
	double most_ns; /* longest collective up to the shared one */
	uint64_t what;
};

/* The last instance that all ranks with collectives share; ALIGN_NONE: none. */
static uint32_t last_shared(const struct crossrank *c, uint32_t *members)
{
	const struct align_job *a = c->steps->align;
	uint32_t ranks = 0;

	for (uint32_t r = 0; r < a->rank_count; r++) {
		ranks += a->rank[r].count > 0;
		for (uint32_t i = 0; i < a->rank[r].count; i++)
			if (a->rank[r].coll[i].instance < a->instances)
				members[a->rank[r].coll[i].instance]++;
	}
	for (uint32_t i = a->instances; i > 0 && ranks > 1; i--)
		if (members[i - 1] == ranks)
			return i - 1;
	return ALIGN_NONE;
}

static struct tail tail_of(const struct crossrank *c, uint32_t r, uint32_t shared)
{
	const struct align_rank *x = &c->steps->align->rank[r];
	const struct jobsteps_rank *own = &c->steps->rank[r];
	struct tail t = {0};
	uint32_t i = 0;

	for (; i < x->count && x->coll[i].instance != shared; i++)
		t.most_ns = fmax(t.most_ns, (double)(x->coll[i].end_ns - x->coll[i].begin_ns));
	t.after = i < x->count ? x->count - i - 1 : 0;
	if (!t.after)
		return t;
	t.what = x->coll[i + 1].what;
	/* no device work of the rank began after it entered */
	if (own->last_begin_ns <= x->coll[i + 1].begin_ns)
		t.waited_ns = fmax(1, (double)(x->coll[i + 1].end_ns - x->coll[i + 1].begin_ns));
	return t;
}

static void report_hang(struct crossrank *c, const uint32_t *ranks, uint32_t count,
			uint32_t waiting, double waited_ns, uint32_t shared)
{
	struct crossrank_finding out = {0};
	struct finding *f = &out.finding;
	const struct align_rank *x = &c->steps->align->rank[ranks[0]];
	uint32_t step = 0;

	for (uint32_t i = 0; i < x->count; i++)
		if (x->coll[i].instance == shared)
			step = jobsteps_at(c->steps, ranks[0], x->coll[i].end_ns);
	/* the unfinished collective follows the last finished one */
	step = step + 1 < c->n ? step + 1 : c->n - 1;
	f->kind = FINDING_HANG;
	f->first_step = f->last_step = out.sure_step = step;
	f->cause = waiting ? CAUSE_HANG_MISSING : CAUSE_HANG_TRANSFER;
	f->confidence = 0.9;
	f->effect_ns = waited_ns;
	for (uint32_t i = 0; i < count && i < FINDING_RANKS_MAX; i++)
		f->ranks[f->rank_count++] = c->steps->rank[ranks[i]].rank;
	if (waiting)
		finding_say(f, LAYER_UNKNOWN, waited_ns,
			    "%u ranks waited %.3f s in a collective that %s never entered, to the "
			    "end of their traces",
			    waiting, waited_ns / 1e9, count == 1 ? "this rank" : "these ranks");
	else
		finding_say(f, LAYER_NETWORK, waited_ns,
			    "all %u ranks entered a collective that did not end in %.3f s", count,
			    waited_ns / 1e9);
	c->report(c->to, &out);
}

void crossrank_hang(struct crossrank *c, double step_ns, uint32_t *members, uint32_t *missing)
{
	uint32_t shared = last_shared(c, members), waiting = 0, out = 0;
	double waited = INFINITY, most = 0;
	uint64_t what = 0;
	bool same = true;

	if (shared == ALIGN_NONE)
		return;
	for (uint32_t r = 0; r < c->ranks; r++) {
		struct tail t = tail_of(c, r, shared);

		if (!c->steps->align->rank[r].count)
			continue;
		most = fmax(most, t.most_ns);
		if (!t.after) {
			missing[out++] = r;
			continue;
		}
		same &= t.waited_ns > 0 && (!waiting || t.what == what);
		what = t.what;
		waited = fmin(waited, t.waited_ns);
		waiting++;
	}
	if (!same || !waiting)
		return;
	most = fmax(most, step_ns);
	if (!out && waited > thresholds.time.all_times * most) {
		for (uint32_t r = 0; r < c->ranks; r++)
			if (c->steps->align->rank[r].count)
				missing[out++] = r;
		report_hang(c, missing, out, 0, waited, shared);
	} else if (out && waited > thresholds.time.times * most) {
		report_hang(c, missing, out, waiting, waited, shared);
	}
}
