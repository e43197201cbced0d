/* SPDX-License-Identifier: Apache-2.0
 * Collectives are not paired by index, because one missing kernel would shift all others. They are
 * not paired by absolute time either, because clocks may differ by more than a step. Instead, a
 * stretch of one rank is found in the other by the times between ends. From there both are joined
 * by time, which follows the clock. */
#include "analysis/trace/align.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/chance.h"
#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "analysis/robust/spread.h"
#include "base/carve.h"
#include "base/order.h"
#include "model/thresholds.h"

/* The number of intervals in the stretch that we look for (at least ANCHOR_SHORT), and the number
 * of stretches that are tried. */
#define ANCHOR_LENGTH 64u
#define ANCHOR_SHORT  8u
#define ANCHORS	      7u
/* The most collectives that are examined to find one partner. Only coarse time stamps give more
 * candidates. */
#define JOIN_LOOK_MAX 1024u
/* The most pairs of points used for the median slope. */
#define SLOPE_PAIRS_MAX 20000u
/* The number of other ranks tried if a rank shares no collective with the reference. */
#define CHAIN_TRIES 16u

struct work {
	uint32_t *own, *ref; /* indices of the shared collectives, in order of time */
	uint32_t own_count, ref_count;
	uint64_t *whats;
	uint8_t *used;		 /* one per ref's collective */
	double *t, *y, *scratch; /* [most], [most], [max(2 most, SLOPE_PAIRS_MAX)] */
	uint32_t *pair;		 /* per own collective: the index of ref's; ALIGN_NONE: unpaired */
	void *memory;		 /* holds all of these arrays */
};

struct fit {
	double offset_ns, drift, error_ns;
	uint32_t common;
};

ORDER_BY(coll_order, struct align_coll, ORDER_UP(end_ns) ?: ORDER_UP(begin_ns) ?: ORDER_UP(what));

ORDER_BY(u64_order, uint64_t, ORDER(*a, *b));

static double apart(uint64_t a, uint64_t b)
{
	return a > b ? (double)(a - b) : -(double)(b - a);
}

/* ---- finding a stretch in the other rank ---- */

/* Indices of the collectives of r whose `what` is in list. */
static uint32_t keep_shared(const struct align_rank *r, const uint64_t *list, uint32_t n,
			    uint32_t *out)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->count; i++)
		if (bsearch(&r->coll[i].what, list, n, sizeof(*list), u64_order))
			out[kept++] = i;
	return kept;
}

static uint32_t whats_of(const struct align_rank *r, uint64_t *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->count; i++)
		out[i] = r->coll[i].what;
	qsort(out, r->count, sizeof(*out), u64_order);
	for (uint32_t i = 0; i < r->count; i++)
		if (!n || out[n - 1] != out[i])
			out[n++] = out[i];
	return n;
}

static void share(struct work *w, const struct align_rank *ref, const struct align_rank *own)
{
	w->own_count = keep_shared(own, w->whats, whats_of(ref, w->whats), w->own);
	w->ref_count = keep_shared(ref, w->whats, whats_of(own, w->whats), w->ref);
}

/* The mismatch between own's stretch from j and ref's from p; *most: the largest possible value.
 * Stops early above `enough`. */
static double stretch_cost(const struct work *w, const struct align_rank *ref,
			   const struct align_rank *own, uint32_t j, uint32_t p, uint32_t length,
			   double enough, double *most)
{
	double cost = 0, all = 0;

	for (uint32_t i = 0; i <= length && cost <= enough; i++) {
		const struct align_coll *a = &ref->coll[w->ref[p + i]],
					*b = &own->coll[w->own[j + i]];
		double ia = i ? apart(a->end_ns, ref->coll[w->ref[p + i - 1]].end_ns) : 0;
		double ib = i ? apart(b->end_ns, own->coll[w->own[j + i - 1]].end_ns) : 0;
		double cap = thresholds.clock.other_ns + thresholds.same.work * ib;
		double differ = fabs(ia - ib) - thresholds.clock.rate * ib;

		all += cap;
		cost += a->what != b->what || differ > cap ? cap : differ > 0 ? differ : 0;
	}
	*most = all;
	return cost;
}

struct place {
	/* starts at own->own[own] and ref->ref[ref]; length + 1 collectives each */
	uint32_t own, ref, length;
	double cost, most;
};

static void place_try(const struct work *w, const struct align_rank *ref,
		      const struct align_rank *own, uint32_t j, uint32_t length, struct place *best)
{
	for (uint32_t p = 0; p + length < w->ref_count; p++) {
		double most, cost = stretch_cost(w, ref, own, j, p, length, best->cost, &most);

		if (cost < best->cost)
			*best = (struct place){j, p, length, cost, most};
	}
}

/* Chooses among all places that fit about as well. If the counts are equal, the place with the same
 * index wins, else the place with the smallest clock offset. */
static void place_settle(const struct work *w, const struct align_rank *ref,
			 const struct align_rank *own, struct place *best)
{
	double enough =
	    best->cost * thresholds.same.factor + thresholds.clock.end_ns * (best->length + 1);
	double nearest = INFINITY;
	uint64_t end = own->coll[w->own[best->own]].end_ns;
	struct place found = *best;

	for (uint32_t p = 0; p + best->length < w->ref_count; p++) {
		double most, off = fabs(apart(end, ref->coll[w->ref[p]].end_ns));
		double cost = stretch_cost(w, ref, own, best->own, p, best->length, enough, &most);

		if (cost > enough)
			continue;
		if (p == best->own && w->own_count == w->ref_count)
			off = -1;
		if (off < nearest) {
			nearest = off;
			found.ref = p;
		}
	}
	best->ref = found.ref;
}

/* The best place of any tried stretch of `length` intervals. */
static bool place_of_length(const struct work *w, const struct align_rank *ref,
			    const struct align_rank *own, uint32_t length, uint32_t anchors,
			    struct place *out)
{
	uint32_t room = w->own_count - 1 - length;

	*out = (struct place){.cost = INFINITY};
	for (uint32_t a = 0; a < anchors && a <= room; a++)
		place_try(w, ref, own, (uint32_t)((uint64_t)room * a / (anchors - 1)), length, out);
	/* a good fit, relative to the largest possible mismatch */
	return out->cost <= thresholds.part.shows * out->most;
}

static bool place_find(const struct work *w, const struct align_rank *ref,
		       const struct align_rank *own, struct place *out)
{
	uint32_t few = w->own_count < w->ref_count ? w->own_count : w->ref_count;
	uint32_t length = few - 1 < ANCHOR_LENGTH ? few - 1 : ANCHOR_LENGTH, anchors = ANCHORS;

	if (!few)
		return false;
	/* A collective that one rank misses breaks a long stretch, so shorter ones are tried. */
	while (!place_of_length(w, ref, own, length, anchors, out)) {
		if (length <= ANCHOR_SHORT)
			return false;
		length = length / 4 > ANCHOR_SHORT ? length / 4 : ANCHOR_SHORT;
		anchors *= 4;
	}
	place_settle(w, ref, own, out);
	return true;
}

/* ---- joining by time ---- */

struct joiner {
	const struct align_rank *ref, *own;
	struct work *w;
	/* diff: present clock difference, own - ref; tol: how far a pair may deviate from it */
	double diff, tol;
	uint64_t at_ns;	 /* own's time of the latest pair */
	uint64_t looked; /* number of ref's collectives examined */
};

/* The best partner of own->coll[j] from ref index i on; of equally good ones, the first. */
static uint32_t join_one(struct joiner *b, uint32_t j, int64_t i, int dir)
{
	const struct align_coll *x = &b->own->coll[j];
	double tol = b->tol + thresholds.clock.rate * fabs(apart(x->end_ns, b->at_ns)), least = tol;
	uint32_t best = ALIGN_NONE;

	for (uint32_t n = 0; n < JOIN_LOOK_MAX && i >= 0 && i < b->ref->count; n++, i += dir) {
		double differ = apart(x->end_ns, b->ref->coll[i].end_ns) - b->diff;

		b->looked++;
		if (best == ALIGN_NONE ? dir * differ < -tol : dir * differ <= -least)
			break;
		if (b->ref->coll[i].what != x->what || b->w->used[i] ||
		    (best == ALIGN_NONE ? fabs(differ) > tol : fabs(differ) >= least))
			continue;
		least = fabs(differ);
		best = (uint32_t)i;
	}
	return best;
}

/* Joins from own's collective `from` in one direction. */
static void join(struct joiner *b, uint32_t from, uint32_t ref_from, int dir)
{
	int64_t i = ref_from;

	for (int64_t j = from; j >= 0 && j < b->own->count; j += dir) {
		const struct align_coll *x = &b->own->coll[j];
		double tol = b->tol + thresholds.clock.rate * fabs(apart(x->end_ns, b->at_ns));
		uint32_t found;

		if (b->w->pair[j] != ALIGN_NONE)
			continue;
		while (i >= 0 && i < b->ref->count &&
		       (b->w->used[i] ||
			dir * (apart(x->end_ns, b->ref->coll[i].end_ns) - b->diff) > tol))
			i += dir;
		found = join_one(b, (uint32_t)j, i, dir);
		if (found == ALIGN_NONE)
			continue;
		b->w->pair[j] = found;
		b->w->used[found] = 1;
		b->diff +=
		    thresholds.part.half * (apart(x->end_ns, b->ref->coll[found].end_ns) - b->diff);
		b->at_ns = x->end_ns;
	}
}

/* Fills pair[] for own's collectives. */
static void join_all(struct joiner *b, const struct place *at)
{
	const struct work *w = b->w;
	double *v = w->scratch;
	uint32_t n = 0;
	double diff;

	for (uint32_t i = 0; i <= at->length; i++)
		v[n++] = apart(b->own->coll[w->own[at->own + i]].end_ns,
			       b->ref->coll[w->ref[at->ref + i]].end_ns);
	b->tol = 0;
	for (uint32_t i = 1; i < n; i++)
		w->y[i - 1] = fabs(v[i] - v[i - 1]);
	if (n > 1)
		b->tol = thresholds.fit.mads * median_of(w->y, n - 1);
	b->tol = thresholds.clock.near_ns + fmin(b->tol, thresholds.clock.other_ns);
	n = n < 5 ? n : 5; /* of the first pairs, where both directions start */
	diff = median_of(v, n);
	for (uint32_t j = 0; j < b->own->count; j++)
		b->w->pair[j] = ALIGN_NONE;
	memset(w->used, 0, b->ref->count);
	for (int dir = 1; dir >= -1; dir -= 2) {
		b->diff = diff;
		b->at_ns = b->own->coll[w->own[at->own]].end_ns;
		join(b, w->own[at->own],
		     dir > 0 ? (w->ref[at->ref] > 4 ? w->ref[at->ref] - 4 : 0) : w->ref[at->ref],
		     dir);
	}
}

/* ---- the clock ---- */

static double spread_of(const double *t, const double *y, uint32_t n, const struct fit *f,
			double *scratch)
{
	for (uint32_t i = 0; i < n; i++)
		scratch[i] = fabs(y[i] - f->offset_ns - f->drift * t[i]);
	return MEDIAN_MAD_SIGMA * median_of(scratch, n);
}

static void offset_of(const double *t, const double *y, uint32_t n, struct fit *f, double *scratch)
{
	for (uint32_t i = 0; i < n; i++)
		scratch[i] = y[i] - f->drift * t[i];
	f->offset_ns = median_of(scratch, n);
}

/* With few points a median gives no useful spread. So this uses the standard deviation and
 * Student's t, with the same confidence as with many points. One point alone has no known error. */
static double error_of_few(const double *t, const double *y, uint32_t n, const struct fit *f)
{
	double squares = 0;

	if (n < 2)
		return INFINITY;
	for (uint32_t i = 0; i < n; i++) {
		double off = y[i] - f->offset_ns - f->drift * t[i];

		squares += off * off;
	}
	return chance_student(chance_beyond(thresholds.sure.errors) / 2, n - 1) *
		   sqrt(squares / (n - 1) / n) +
	       thresholds.clock.end_ns;
}

static struct fit clock_fit(const double *t, const double *y, uint32_t n, double *scratch)
{
	struct fit f = {.common = n};
	double span = t[n - 1] - t[0], slope_error;

	if (n >= thresholds.count.some && span > 0) {
		f.drift = regress_median_slope(t, y, n, n / 3, 0, scratch, SLOPE_PAIRS_MAX);
		offset_of(t, y, n, &f, scratch);
		/* the error of a least-squares line, and a quarter more because this is a median
		 * slope */
		slope_error = 1.25 * spread_of_slope(spread_of(t, y, n, &f, scratch) +
							 thresholds.clock.end_ns / 2,
						     n, span);
		if (fabs(f.drift) < thresholds.sure.errors * slope_error ||
		    fabs(f.drift) > thresholds.clock.rate)
			f.drift = 0;
	}
	offset_of(t, y, n, &f, scratch);
	f.error_ns =
	    n < thresholds.count.some
		? error_of_few(t, y, n, &f)
		: thresholds.sure.errors * spread_of(t, y, n, &f, scratch) / sqrt((double)n) +
		      thresholds.clock.end_ns;
	return f;
}

/* ---- all ranks ---- */

/* Aligns own to ref, whose clock is known. */
static bool align_rank(struct align_job *job, uint32_t ref_at, uint32_t own_at, struct work *w)
{
	struct align_rank *ref = &job->rank[ref_at], *own = &job->rank[own_at];
	struct joiner b = {.ref = ref, .own = own, .w = w};
	struct place at;
	struct fit f;
	uint32_t n = 0;

	share(w, ref, own);
	if (!place_find(w, ref, own, &at))
		return false;
	join_all(&b, &at);
	job->looked += b.looked;
	for (uint32_t j = 0; j < own->count; j++) {
		if (w->pair[j] == ALIGN_NONE)
			continue;
		w->t[n] = apart(ref->coll[w->pair[j]].end_ns, job->zero_ns);
		w->y[n++] = apart(own->coll[j].end_ns, ref->coll[w->pair[j]].end_ns);
	}
	if (!n)
		return false;
	f = clock_fit(w->t, w->y, n, w->scratch);
	own->offset_ns = ref->offset_ns + f.offset_ns + f.drift * ref->offset_ns;
	own->drift = ref->drift + f.drift;
	own->error_ns = ref->error_ns + f.error_ns;
	own->common = n;
	own->known = true;
	for (uint32_t j = 0; j < own->count; j++) {
		struct align_coll *other = w->pair[j] == ALIGN_NONE ? NULL : &ref->coll[w->pair[j]];

		if (!other)
			continue;
		if (other->instance == ALIGN_NONE)
			other->instance = job->instances++;
		own->coll[j].instance = other->instance;
	}
	return true;
}

/* Tries the reference, then some other ranks. */
static bool align_or_chain(struct align_job *job, uint32_t root, uint32_t r, struct work *w)
{
	uint32_t tries = 1;

	if (align_rank(job, root, r, w))
		return true;
	for (uint32_t k = 0; k < job->rank_count && tries < CHAIN_TRIES; k++) {
		if (k == root || k == r || !job->rank[k].known)
			continue;
		tries++;
		if (align_rank(job, k, r, w))
			return true;
	}
	return false;
}

struct unpaired {
	uint64_t what, end_ns; /* on the reference's clock */
	struct align_coll *coll;
	uint32_t rank;
};

ORDER_BY(unpaired_order, struct unpaired, ORDER_UP(what) ?: ORDER_UP(end_ns) ?: ORDER_UP(rank));

/* Groups the collectives that are still unpaired by time. Neither the reference nor the rank that
 * their rank was chained to took part in them. */
static int group_unpaired(struct align_job *job, uint64_t total)
{
	struct unpaired *v = malloc((total ? total : 1) * sizeof(*v));
	uint32_t *seen = calloc(job->rank_count, sizeof(*seen));
	uint32_t n = 0, group = 0;

	if (!v || !seen) {
		free(v);
		free(seen);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < job->rank_count; r++)
		for (uint32_t i = 0; job->rank[r].known && i < job->rank[r].count; i++) {
			struct align_coll *c = &job->rank[r].coll[i];

			if (c->instance == ALIGN_NONE)
				v[n++] = (struct unpaired){
				    c->what, align_to_reference(job, r, c->end_ns), c, r};
		}
	qsort(v, n, sizeof(*v), unpaired_order);
	for (uint32_t i = 0, from = 0; i < n; i++) {
		double tol = thresholds.clock.near_ns + job->rank[v[i].rank].error_ns;

		if (i == from || v[i].what != v[from].what || seen[v[i].rank] == group ||
		    (double)(v[i].end_ns - v[from].end_ns) > tol) {
			from = i;
			group++;
		} else {
			if (v[from].coll->instance == ALIGN_NONE)
				v[from].coll->instance = job->instances++;
			v[i].coll->instance = v[from].coll->instance;
		}
		seen[v[i].rank] = group;
	}
	free(v);
	free(seen);
	return 0;
}

struct numbered {
	uint64_t end_ns;
	uint32_t old, members;
};

ORDER_BY(numbered_order, struct numbered,
	 ORDER(a->members < 2, b->members < 2) ?: ORDER_UP(end_ns) ?: ORDER_UP(old));

/* Numbers the instances of two or more ranks in order of time. */
static int renumber(struct align_job *job)
{
	uint32_t n = job->instances, kept = 0;
	struct numbered *v = calloc(n ? n : 1, sizeof(*v));
	uint32_t *new_of = malloc((n ? n : 1) * sizeof(*new_of));

	if (!v || !new_of) {
		free(v);
		free(new_of);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		v[i].old = i;
	for (uint32_t r = 0; r < job->rank_count; r++)
		for (uint32_t i = 0; i < job->rank[r].count; i++) {
			const struct align_coll *c = &job->rank[r].coll[i];

			if (c->instance == ALIGN_NONE)
				continue;
			if (!v[c->instance].members++)
				v[c->instance].end_ns = align_to_reference(job, r, c->end_ns);
		}
	qsort(v, n, sizeof(*v), numbered_order);
	for (uint32_t i = 0; i < n; i++)
		new_of[v[i].old] = v[i].members < 2 ? ALIGN_NONE : kept++;
	for (uint32_t r = 0; r < job->rank_count; r++)
		for (uint32_t i = 0; i < job->rank[r].count; i++) {
			struct align_coll *c = &job->rank[r].coll[i];

			if (c->instance != ALIGN_NONE)
				c->instance = new_of[c->instance];
		}
	job->instances = kept;
	free(v);
	free(new_of);
	return 0;
}

static size_t lay_out(struct work *w, uint32_t most)
{
	size_t scratch = 2 * (size_t)most > SLOPE_PAIRS_MAX ? 2 * (size_t)most : SLOPE_PAIRS_MAX;
	struct carve at = {.memory = w->memory};

	w->own = carve_take(&at, most, sizeof(*w->own));
	w->ref = carve_take(&at, most, sizeof(*w->ref));
	w->whats = carve_take(&at, most, sizeof(*w->whats));
	w->used = carve_take(&at, most, sizeof(*w->used));
	w->t = carve_take(&at, most, sizeof(*w->t));
	w->y = carve_take(&at, most, sizeof(*w->y));
	w->pair = carve_take(&at, most, sizeof(*w->pair));
	w->scratch = carve_take(&at, scratch + ANCHOR_LENGTH, sizeof(*w->scratch));
	return at.bytes;
}

/* Sorts the collectives, clears the results. Returns the index of the reference. */
static uint32_t job_begin(struct align_job *job, uint32_t *most, uint64_t *total)
{
	uint32_t root = 0;

	*most = 0;
	*total = 0;
	job->instances = 0;
	job->zero_ns = 0;
	for (uint32_t r = 0; r < job->rank_count; r++) {
		struct align_rank *x = &job->rank[r];

		x->known = false;
		x->offset_ns = x->drift = 0;
		x->error_ns = INFINITY;
		x->common = 0;
		for (uint32_t i = 0; i < x->count; i++)
			x->coll[i].instance = ALIGN_NONE;
		ORDER_SORT(x->coll, x->count, coll_order);
		*most = x->count > *most ? x->count : *most;
		*total += x->count;
	}
	while (root + 1 < job->rank_count && !job->rank[root].count)
		root++;
	return root;
}

int align_job(struct align_job *job)
{
	struct work w = {.memory = NULL};
	uint32_t most, root;
	uint64_t total;
	bool more = true;
	int rc;

	if (!job->rank_count)
		return 0;
	root = job_begin(job, &most, &total);
	job->rank[root].known = true;
	job->rank[root].error_ns = 0;
	if (job->rank[root].count)
		job->zero_ns = job->rank[root].coll[0].end_ns;
	w.memory = malloc(lay_out(&w, most));
	lay_out(&w, most);
	rc = w.memory ? 0 : -ENOMEM;
	while (more && !rc) {
		more = false;
		for (uint32_t r = 0; r < job->rank_count; r++)
			if (!job->rank[r].known && job->rank[r].count)
				more |= align_or_chain(job, root, r, &w);
	}
	if (!rc)
		rc = group_unpaired(job, total);
	if (!rc)
		rc = renumber(job);
	free(w.memory);
	return rc;
}

static bool has_offset(const struct align_rank *x)
{
	return x->known && (fabs(x->offset_ns) > x->error_ns || x->drift != 0);
}

uint64_t align_to_reference(const struct align_job *job, uint32_t r, uint64_t local_ns)
{
	const struct align_rank *x = &job->rank[r];
	double off;

	if (!has_offset(x))
		return local_ns;
	off = x->offset_ns + x->drift * (apart(local_ns, job->zero_ns) - x->offset_ns);
	return (uint64_t)((int64_t)local_ns - (int64_t)llround(off));
}

uint64_t align_to_local(const struct align_job *job, uint32_t r, uint64_t reference_ns)
{
	const struct align_rank *x = &job->rank[r];
	double off;

	if (!has_offset(x))
		return reference_ns;
	off = x->offset_ns + x->drift * apart(reference_ns, job->zero_ns);
	return (uint64_t)((int64_t)reference_ns + (int64_t)llround(off));
}
