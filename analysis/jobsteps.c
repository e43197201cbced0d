/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/jobsteps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/record.h"
#include "analysis/robust/median.h"
#include "analysis/thresholds.h"
#include "base/hash.h"

/* Durations kept of a kernel name, for its median. */
#define SAMPLES 64u
/* Names told apart; those beyond share one. */
#define NAMES_MAX 65536u
/* Collectives of a step that are counted one by one. */
#define COLLS_COUNTED 4096u
/* Kernels after a step's last collective that are counted. */
#define TAIL_MAX   4095u

/* ---- where the steps end ---- */

/* Share of the rank's steps that hold as many common collectives as most do. */
static double regularity(const struct align_rank *a, const struct jobsteps_rank *x)
{
	uint32_t seen[COLLS_COUNTED] = {0}, most = 0, i = 0;

	for (uint32_t k = 0; k < x->step_count; k++) {
		uint32_t n = 0;

		for (; i < a->count && a->coll[i].end_ns <= x->step_end_ns[k]; i++)
			n += a->coll[i].instance != ALIGN_NONE;
		if (n && k && ++seen[n < COLLS_COUNTED ? n : 0] > most)
			most = seen[n < COLLS_COUNTED ? n : 0];
	}
	return x->step_count > 1 ? (double)most / (x->step_count - 1) : 0;
}

/* The rank whose steps number the job's: the most regular ones; of several as regular, the usual
 * number of them. */
static uint32_t reference_of(const struct jobsteps *j)
{
	double *v = malloc(j->rank_count * sizeof(*v)), usual, best = -1, best_off = 0;
	uint32_t n = 0, out = 0;

	if (!v)
		return 0;
	for (uint32_t r = 0; r < j->rank_count; r++)
		if (j->rank[r].step_count)
			v[n++] = j->rank[r].step_count;
	usual = median_of(v, n);
	free(v);
	for (uint32_t r = 0; r < j->rank_count; r++) {
		double share = regularity(&j->align->rank[r], &j->rank[r]);
		double off = fabs(j->rank[r].step_count - usual);

		if (!j->rank[r].step_count || share < best - thresholds.same.work ||
		    (share <= best + thresholds.same.work && off >= best_off && best >= 0))
			continue;
		best = share;
		best_off = off;
		out = r;
	}
	return out;
}

/* Per instance and rank: the local end; 0: no member. */
struct ends {
	uint64_t *end;	   /* [rank * instances + instance] */
	uint32_t *members; /* [instances] */
};

static int ends_make(const struct align_job *a, struct ends *e)
{
	e->end = calloc((size_t)a->rank_count * (a->instances ? a->instances : 1), sizeof(*e->end));
	e->members = calloc(a->instances ? a->instances : 1, sizeof(*e->members));
	if (!e->end || !e->members)
		return -ENOMEM;
	for (uint32_t r = 0; r < a->rank_count; r++)
		for (uint32_t i = 0; i < a->rank[r].count; i++) {
			const struct align_coll *c = &a->rank[r].coll[i];

			if (c->instance >= a->instances)
				continue;
			e->end[(size_t)r * a->instances + c->instance] = c->end_ns;
			e->members[c->instance]++;
		}
	return 0;
}

/* The last instance of half of the ranks and more that ends on `ref` in (after, until]. */
static uint32_t cutting_instance(const struct jobsteps *j, const struct ends *e, uint32_t ref,
				 uint64_t after, uint64_t until, uint32_t *cursor)
{
	const struct align_rank *r = &j->align->rank[ref];
	uint32_t found = ALIGN_NONE;

	for (; *cursor < r->count && r->coll[*cursor].end_ns <= until; (*cursor)++) {
		const struct align_coll *c = &r->coll[*cursor];

		if (c->instance < j->align->instances && c->end_ns > after &&
		    2 * e->members[c->instance] >= j->rank_count)
			found = c->instance;
	}
	return found;
}

/* First event that begins at or after ns. */
static uint32_t event_at(const struct jobsteps_rank *x, uint64_t ns)
{
	uint32_t low = 0, high = x->event_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (x->event[mid].begin_ns < ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_comm(const struct jobsteps_event *e)
{
	return e->kind == RECORD_COLL_KERNEL;
}

/* How many kernels and copies follow the collective that ends at `from` before the rank's own step
 * ends; UINT32_MAX: no step of its own ends before its next collective. *own: place among its
 * steps. */
static uint32_t tail_here(const struct jobsteps_rank *x, uint64_t from, uint32_t *own)
{
	uint32_t n = 0;

	while (*own < x->step_count && x->step_end_ns[*own] < from)
		(*own)++;
	if (*own == x->step_count)
		return UINT32_MAX;
	for (uint32_t i = event_at(x, from); i < x->event_count; i++) {
		if (x->event[i].begin_ns >= x->step_end_ns[*own])
			return n;
		if (is_comm(&x->event[i]) || n == TAIL_MAX)
			return UINT32_MAX;
		n++;
	}
	return n;
}

/* The usual number of kernels between a step's last collective and its end; `other` where the
 * rank's own steps do not tell. */
static uint32_t tail_usual(const struct jobsteps_rank *x, const uint64_t *end,
			   const uint32_t *instance, uint32_t steps, uint32_t *tally,
			   uint32_t other)
{
	uint32_t own = 0, windows = 0, best = 0;

	memset(tally, 0, (TAIL_MAX + 1) * sizeof(*tally));
	for (uint32_t k = 0; k < steps; k++) {
		uint32_t n;

		if (instance[k] == ALIGN_NONE || !end[instance[k]])
			continue;
		windows++;
		n = tail_here(x, end[instance[k]], &own);
		if (n <= TAIL_MAX && ++tally[n] > tally[best])
			best = n;
	}
	return tally[best] >= thresholds.part.shows * windows && windows ? best : other;
}

/* Where a step ends whose last collective ends at `from`: with so many kernels more, before the
 * next. */
static uint64_t tail_end(const struct jobsteps_rank *x, uint64_t from, uint32_t tail)
{
	uint64_t end = from;

	for (uint32_t i = event_at(x, from); i < x->event_count && tail; i++) {
		if (is_comm(&x->event[i]))
			break;
		end = x->event[i].end_ns > end ? x->event[i].end_ns : end;
		tail--;
	}
	return end;
}

/* Cut k + 1 of a rank, which ends job step k. */
static uint64_t cut_of(const struct jobsteps *j, uint32_t r, uint32_t ref, uint32_t k,
		       uint64_t ref_end, uint64_t coll_end, uint32_t tail)
{
	const struct align_rank *a = &j->align->rank[r];
	const struct jobsteps_rank *x = &j->rank[r];

	if (coll_end)
		return tail_end(x, coll_end, tail);
	if (r == ref)
		return ref_end;
	if (a->known && a->common)
		return align_to_local(j->align, r, align_to_reference(j->align, ref, ref_end));
	return !a->common && k < x->step_count ? x->step_end_ns[k]
					       : 0; /* nothing in common: its own */
}

static uint64_t end_of(const struct jobsteps_rank *x)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < x->event_count; i++)
		end = x->event[i].end_ns > end ? x->event[i].end_ns : end;
	return end;
}

struct cutter {
	struct ends ends;
	uint32_t *instance; /* [steps]: the last collective of each, ALIGN_NONE */
	uint32_t *tally;
	uint32_t ref;
};

static void cut_rank(struct jobsteps *j, const struct cutter *c, uint32_t r, uint32_t tail)
{
	const uint64_t *end = c->ends.end + (size_t)r * j->align->instances;
	const struct jobsteps_rank *ref = &j->rank[c->ref];
	struct jobsteps_rank *x = &j->rank[r];

	x->cut_ns[0] = x->event_count ? x->event[0].begin_ns : 0;
	for (uint32_t k = 0; k < j->steps; k++) {
		uint64_t ref_end = k < ref->step_count ? ref->step_end_ns[k] : end_of(ref), at;

		at = cut_of(j, r, c->ref, k, ref_end,
			    c->instance[k] == ALIGN_NONE ? 0 : end[c->instance[k]], tail);
		x->cut_ns[k + 1] = x->event_count && at > x->cut_ns[k] ? at : x->cut_ns[k];
	}
}

static int cutter_new(const struct jobsteps *j, struct cutter *c)
{
	int rc = ends_make(j->align, &c->ends);

	c->instance = malloc(j->steps * sizeof(*c->instance));
	c->tally = malloc((TAIL_MAX + 1) * sizeof(*c->tally));
	return rc || !c->instance || !c->tally ? -ENOMEM : 0;
}

static void cut_all(struct jobsteps *j, struct cutter *c)
{
	const struct jobsteps_rank *ref = &j->rank[c->ref];
	uint32_t cursor = 0, tail;
	uint64_t after = 0, until;

	for (uint32_t k = 0; k < j->steps; k++) {
		until = k < ref->step_count ? ref->step_end_ns[k] : end_of(ref);
		c->instance[k] = cutting_instance(j, &c->ends, c->ref, after, until, &cursor);
		after = until;
	}
	tail = tail_usual(ref, c->ends.end + (size_t)c->ref * j->align->instances, c->instance,
			  j->steps, c->tally, 0);
	for (uint32_t r = 0; r < j->rank_count; r++)
		cut_rank(j, c, r,
			 tail_usual(&j->rank[r], c->ends.end + (size_t)r * j->align->instances,
				    c->instance, j->steps, c->tally, tail));
}

static int cuts_make(struct jobsteps *j)
{
	struct cutter c = {.ref = reference_of(j)};
	int rc;

	if (!j->rank[c.ref].step_count)
		return -ENODATA;
	j->steps =
	    j->rank[c.ref].step_count + 1; /* and what comes after the last one, perhaps whole */
	for (uint32_t r = 0; r < j->rank_count; r++) {
		j->rank[r].cut_ns = calloc(j->steps + 1, sizeof(*j->rank[r].cut_ns));
		if (!j->rank[r].cut_ns)
			return -ENOMEM;
	}
	rc = cutter_new(j, &c);
	if (!rc)
		cut_all(j, &c);
	free(c.ends.end);
	free(c.ends.members);
	free(c.instance);
	free(c.tally);
	return rc;
}

/* ---- what each kernel usually takes ---- */

struct usual {
	uint32_t *count;   /* [names] */
	uint32_t *sample;  /* [names * SAMPLES] */
	double *median_ns; /* [names] */
	double *total_ns;  /* [names], of one rank */
	uint8_t *lead;	   /* [names]: 1 + its place among the leads; 0 none */
	uint32_t names;
};

static bool is_compute(const struct jobsteps_event *e)
{
	return e->kind == RECORD_KERNEL || e->kind == RECORD_GRAPH_EXEC;
}

static uint32_t slot_of(const struct usual *u, const struct jobsteps_event *e)
{
	return e->name < u->names ? e->name : 0;
}

static uint64_t duration_of(const struct jobsteps_event *e)
{
	return e->end_ns > e->begin_ns ? e->end_ns - e->begin_ns : 0;
}

static int usual_new(struct usual *u, uint32_t names)
{
	u->names = names < NAMES_MAX ? (names ? names : 1) : NAMES_MAX;
	u->count = malloc(u->names * sizeof(*u->count));
	u->sample = malloc((size_t)u->names * SAMPLES * sizeof(*u->sample));
	u->median_ns = malloc(u->names * sizeof(*u->median_ns));
	u->total_ns = calloc(u->names, sizeof(*u->total_ns));
	u->lead = calloc(u->names, sizeof(*u->lead));
	return u->count && u->sample && u->median_ns && u->total_ns && u->lead ? 0 : -ENOMEM;
}

static void usual_free(struct usual *u)
{
	free(u->count);
	free(u->sample);
	free(u->median_ns);
	free(u->total_ns);
	free(u->lead);
}

/* Adds to each name's share the most that it takes of a rank's time. ns: [names]. */
static void shares_add(const struct jobsteps_rank *x, const struct usual *u, double *ns,
		       double *share)
{
	double all = 0;

	memset(ns, 0, u->names * sizeof(*ns));
	for (uint32_t i = 0; i < x->event_count; i++) {
		const struct jobsteps_event *e = &x->event[i];

		if (!is_compute(e))
			continue;
		ns[slot_of(u, e)] += (double)duration_of(e);
		all += (double)duration_of(e);
	}
	for (uint32_t name = 0; name < u->names && all > 0; name++)
		share[name] = fmax(share[name], ns[name] / all);
}

/* The names that take most of a rank's time, on any rank. */
static int leads_find(struct jobsteps *j, struct usual *u)
{
	double *share = calloc(u->names, sizeof(*share));

	if (!share)
		return -ENOMEM;
	for (uint32_t r = 0; r < j->rank_count; r++)
		shares_add(&j->rank[r], u, u->total_ns, share);
	for (j->leads = 0; j->leads < JOBSTEPS_LEADS_MAX; j->leads++) {
		uint32_t best = 0;

		for (uint32_t name = 1; name < u->names; name++)
			if (!u->lead[name] && share[name] > (best ? share[best] : 0))
				best = name;
		if (!best || share[best] < thresholds.part.told)
			break;
		j->lead[j->leads] = best;
		u->lead[best] = (uint8_t)(j->leads + 1);
	}
	free(share);
	return 0;
}

/* Of one rank: a sample of each name's durations, spread over the trace; their medians. */
static void usual_of(struct usual *u, const struct jobsteps_rank *x)
{
	double v[SAMPLES];

	memset(u->count, 0, u->names * sizeof(*u->count));
	memset(u->total_ns, 0, u->names * sizeof(*u->total_ns));
	for (uint32_t i = 0; i < x->event_count; i++) {
		const struct jobsteps_event *e = &x->event[i];
		uint32_t at = slot_of(u, e), seen;
		uint64_t ns = duration_of(e);

		if (!is_compute(e))
			continue;
		seen = u->count[at]++;
		u->total_ns[at] += (double)ns;
		if (seen >= SAMPLES)
			seen = (uint32_t)(hash_mix(((uint64_t)at << 32) + seen) % (seen + 1));
		if (seen < SAMPLES)
			u->sample[(size_t)at * SAMPLES + seen] =
			    ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	}
	for (uint32_t name = 0; name < u->names; name++) {
		uint32_t n = u->count[name] < SAMPLES ? u->count[name] : SAMPLES;

		for (uint32_t i = 0; i < n; i++)
			v[i] = u->sample[(size_t)name * SAMPLES + i];
		u->median_ns[name] = n ? median_of(v, n) : 0;
	}
}

/* ---- where the time went ---- */

enum cover { COVER_COMPUTE, COVER_COMM, COVER_COPY, COVER_WORK, COVER_ALL, COVERS };

struct sweep {
	struct jobsteps *j;
	uint32_t rank;
	uint64_t end[COVERS];  /* of the union so far */
	double *total[COVERS]; /* [steps] */
	double *lead_work;     /* [leads * steps] */
};

static void cover_add(struct sweep *s, enum cover which, uint32_t step, uint64_t begin,
		      uint64_t end)
{
	const uint64_t *cut = s->j->rank[s->rank].cut_ns;

	begin = begin > s->end[which] ? begin : s->end[which];
	if (end <= begin)
		return;
	s->end[which] = end;
	for (; step < s->j->steps && begin < end; step++) {
		uint64_t until = cut[step + 1] < end ? cut[step + 1] : end;

		if (until <= begin)
			continue;
		s->total[which][step] += (double)(until - begin);
		begin = until;
	}
}

static void event_add(struct sweep *s, const struct usual *u, uint32_t step,
		      const struct jobsteps_event *e)
{
	size_t at = (size_t)s->rank * s->j->steps + step;
	enum cover own = COVER_COMPUTE;

	if (e->kind == RECORD_COLL_KERNEL)
		own = COVER_COMM;
	else if (e->kind == RECORD_COPY || e->kind == RECORD_MEMSET)
		own = COVER_COPY;
	cover_add(s, own, step, e->begin_ns, e->end_ns);
	if (own != COVER_COMM)
		cover_add(s, COVER_WORK, step, e->begin_ns, e->end_ns);
	cover_add(s, COVER_ALL, step, e->begin_ns, e->end_ns);
	if (!is_compute(e))
		return;
	s->j->value[JOBSTEPS_KERNELS][at]++;
	s->j->value[JOBSTEPS_WORK][at] += u->median_ns[slot_of(u, e)];
	s->j->value[JOBSTEPS_BUSY][at] += (double)duration_of(e);
	if (u->lead[slot_of(u, e)]) {
		uint32_t lead = u->lead[slot_of(u, e)] - 1u;

		s->j->lead_pace[lead][at] += (double)duration_of(e);
		s->lead_work[(size_t)lead * s->j->steps + step] += u->median_ns[slot_of(u, e)];
	}
}

static void row_set(struct sweep *s, uint32_t step, bool known)
{
	const uint64_t *cut = s->j->rank[s->rank].cut_ns;
	size_t at = (size_t)s->rank * s->j->steps + step;
	double **v = s->j->value, span = (double)(cut[step + 1] - cut[step]);

	for (uint32_t i = 0; i < s->j->leads; i++) {
		double work = s->lead_work[(size_t)i * s->j->steps + step];

		s->j->lead_pace[i][at] = known && work > 0 ? s->j->lead_pace[i][at] / work : NAN;
	}
	if (!known) {
		for (int m = 0; m < JOBSTEPS_MEASURES; m++)
			v[m][at] = NAN;
		return;
	}
	v[JOBSTEPS_LATENCY][at] = span;
	v[JOBSTEPS_COMPUTE][at] = s->total[COVER_COMPUTE][step];
	v[JOBSTEPS_COMM][at] = s->total[COVER_COMM][step];
	v[JOBSTEPS_COPY][at] = s->total[COVER_COPY][step];
	v[JOBSTEPS_EXPOSED][at] = s->total[COVER_ALL][step] - s->total[COVER_WORK][step];
	v[JOBSTEPS_IDLE][at] = span - s->total[COVER_ALL][step];
	v[JOBSTEPS_SELF][at] = span - v[JOBSTEPS_EXPOSED][at];
	v[JOBSTEPS_PACE][at] =
	    v[JOBSTEPS_WORK][at] > 0 ? v[JOBSTEPS_BUSY][at] / v[JOBSTEPS_WORK][at] : NAN;
}

static bool has_hole(const struct jobsteps_rank *x, uint64_t begin_ns, uint64_t end_ns)
{
	uint32_t low = 0, high = x->hole_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (x->hole[mid].end_ns <= begin_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low < x->hole_count && x->hole[low].begin_ns < end_ns;
}

/* A cut that is not known stands where the one before does: both steps beside it are not known. Nor is
 * one that the rank's trace does not reach the end of, or has nothing of: that is no idle device. */
static bool step_known(const struct jobsteps *j, uint32_t r, uint32_t step, uint64_t trace_end)
{
	const uint64_t *cut = j->rank[r].cut_ns;

	return cut[step + 1] > cut[step] && cut[step + 1] <= trace_end &&
	       !(step && cut[step] == cut[step - 1]) &&
	       !has_hole(&j->rank[r], cut[step], cut[step + 1]) &&
	       j->value[JOBSTEPS_KERNELS][(size_t)r * j->steps + step] > 0;
}

static void rank_sweep(struct jobsteps *j, uint32_t r, const struct usual *u, double *totals)
{
	struct jobsteps_rank *x = &j->rank[r];
	struct sweep s = {.j = j, .rank = r};
	uint64_t trace_end = end_of(x);
	uint32_t step = 0;

	memset(totals, 0, (size_t)(COVERS + j->leads) * j->steps * sizeof(*totals));
	s.lead_work = totals + (size_t)COVERS * j->steps;
	for (int c = 0; c < COVERS; c++)
		s.total[c] = totals + (size_t)c * j->steps;
	for (uint32_t i = 0; i < x->event_count; i++) {
		const struct jobsteps_event *e = &x->event[i];

		while (step < j->steps && e->begin_ns >= x->cut_ns[step + 1])
			step++;
		if (step == j->steps)
			break;
		event_add(&s, u, step, e);
	}
	for (step = 0; step < j->steps; step++)
		row_set(&s, step, step_known(j, r, step, trace_end));
}

/* The outermost steps count only if they are whole; of the first one, whose begin nobody knows,
 * only what does not need it. */
static void outer_steps(struct jobsteps *j, uint32_t r, double *scratch)
{
	size_t at = (size_t)r * j->steps;
	double usual = median_known(j->value[JOBSTEPS_KERNELS] + at + 1, j->steps > 2 ? j->steps - 2 : 0,
				    scratch);

	usual = isnan(usual) ? 0 : usual;
	for (uint32_t k = 0; k < j->steps; k += j->steps > 1 ? j->steps - 1 : 1) {
		double kernels = j->value[JOBSTEPS_KERNELS][at + k];
		bool whole = kernels >= thresholds.part.nearly_all * usual &&
			     kernels <= (2 - thresholds.part.nearly_all) * usual;

		for (uint32_t i = 0; i < j->leads && !whole; i++)
			j->lead_pace[i][at + k] = NAN;
		for (int m = 0; m < JOBSTEPS_MEASURES; m++)
			if (!whole ||
			    (!k && m != JOBSTEPS_PACE && m != JOBSTEPS_KERNELS &&
			     m != JOBSTEPS_WORK && m != JOBSTEPS_BUSY && m != JOBSTEPS_COMPUTE))
				j->value[m][at + k] = NAN;
	}
}

/* ---- who was late ---- */

struct entry {
	uint32_t instance, rank;
	double enter_ns; /* after the job's zero, on the common clock */
	double ns;	 /* inside */
	uint64_t end_ns; /* local */
};

static int entry_order(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	if (a->instance != b->instance)
		return a->instance < b->instance ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

static uint32_t step_at(const struct jobsteps *j, uint32_t rank, uint64_t end_ns)
{
	const uint64_t *cut = j->rank[rank].cut_ns;
	uint32_t low = 0, high = j->steps;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (cut[mid + 1] < end_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void instance_add(struct jobsteps *j, const struct entry *e, uint32_t n, double *scratch,
			 double *late, uint32_t *colls)
{
	uint32_t step = step_at(j, e->rank, e->end_ns);
	double least = INFINITY, mid;

	for (uint32_t i = 0; i < n; i++) {
		scratch[i] = e[i].enter_ns;
		least = e[i].ns < least ? e[i].ns : least;
	}
	mid = median_of(scratch, n);
	if (step >= j->steps)
		return;
	j->transfer_ns[step] += least;
	j->transfers[step]++;
	for (uint32_t i = 0; i < n; i++) {
		size_t at = (size_t)e[i].rank * j->steps + step;

		late[at] += e[i].enter_ns - mid;
		colls[at]++;
	}
}

static int lateness(struct jobsteps *j)
{
	const struct align_job *a = j->align;
	size_t total = 0, n = 0, cells = (size_t)j->rank_count * j->steps;
	uint32_t *colls = calloc(cells, sizeof(*colls));
	double *late = j->value[JOBSTEPS_LATE];
	double *scratch = malloc(j->rank_count * sizeof(*scratch));
	struct entry *v;

	for (uint32_t r = 0; r < a->rank_count; r++)
		total += a->rank[r].count;
	v = malloc((total ? total : 1) * sizeof(*v));
	if (!v || !colls || !scratch) {
		free(v);
		free(colls);
		free(scratch);
		return -ENOMEM;
	}
	for (uint32_t r = 0; r < a->rank_count; r++)
		for (uint32_t i = 0; i < a->rank[r].count; i++) {
			const struct align_coll *c = &a->rank[r].coll[i];

			if (c->instance < a->instances)
				v[n++] = (struct entry){
				    c->instance, r,
				    (double)(int64_t)(align_to_reference(a, r, c->begin_ns) -
						      a->zero_ns),
				    (double)(c->end_ns - c->begin_ns), c->end_ns};
		}
	qsort(v, n, sizeof(*v), entry_order);
	for (size_t i = 0; i < n;) {
		size_t first = i;

		while (i < n && v[i].instance == v[first].instance && i - first < j->rank_count)
			i++;
		instance_add(j, &v[first], (uint32_t)(i - first), scratch, late, colls);
	}
	for (size_t i = 0; i < cells; i++)
		late[i] = colls[i] ? late[i] / colls[i] : NAN;
	free(v);
	free(colls);
	free(scratch);
	return 0;
}

static int tables_new(struct jobsteps *j)
{
	size_t cells = (size_t)j->rank_count * j->steps;

	for (int m = 0; m < JOBSTEPS_MEASURES; m++) {
		j->value[m] = calloc(cells, sizeof(double));
		if (!j->value[m])
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < j->leads; i++) {
		j->lead_pace[i] = calloc(cells, sizeof(double));
		if (!j->lead_pace[i])
			return -ENOMEM;
	}
	j->lead_ns = calloc((size_t)j->rank_count * JOBSTEPS_LEADS_MAX, sizeof(*j->lead_ns));
	j->transfer_ns = calloc(j->steps, sizeof(*j->transfer_ns));
	j->transfers = calloc(j->steps, sizeof(*j->transfers));
	return j->lead_ns && j->transfer_ns && j->transfers ? 0 : -ENOMEM;
}

int jobsteps_make(struct jobsteps *j)
{
	struct usual u = {0};
	double *totals = NULL;
	int rc;

	memset(j->value, 0, sizeof(j->value));
	memset(j->lead_pace, 0, sizeof(j->lead_pace));
	j->lead_ns = NULL;
	j->transfer_ns = NULL;
	j->transfers = NULL;
	j->steps = j->leads = 0;
	for (uint32_t r = 0; r < j->rank_count; r++)
		j->rank[r].cut_ns = NULL;
	rc = j->rank_count ? cuts_make(j) : -ENODATA;
	if (rc)
		return rc;
	rc = usual_new(&u, j->name_count);
	if (!rc)
		rc = leads_find(j, &u);
	if (!rc)
		rc = tables_new(j);
	totals = malloc((size_t)(COVERS + j->leads + 1) * j->steps * sizeof(*totals));
	if (!totals)
		rc = -ENOMEM;
	if (!rc)
		rc = lateness(j);
	for (uint32_t r = 0; r < j->rank_count && !rc; r++) {
		double *late = j->value[JOBSTEPS_LATE] + (size_t)r * j->steps;
		double *keep = totals + (size_t)(COVERS + j->leads) * j->steps;

		memcpy(keep, late, j->steps * sizeof(*late));
		usual_of(&u, &j->rank[r]);
		for (uint32_t i = 0; i < j->leads; i++)
			if (u.count[j->lead[i]])
				j->lead_ns[(size_t)r * JOBSTEPS_LEADS_MAX + i] =
				    u.total_ns[j->lead[i]] / u.count[j->lead[i]];
		rank_sweep(j, r, &u, totals);
		memcpy(late, keep, j->steps * sizeof(*late));
		outer_steps(j, r, totals);
	}
	usual_free(&u);
	free(totals);
	return rc;
}

void jobsteps_fini(struct jobsteps *j)
{
	for (uint32_t r = 0; r < j->rank_count; r++) {
		free(j->rank[r].cut_ns);
		j->rank[r].cut_ns = NULL;
	}
	for (int m = 0; m < JOBSTEPS_MEASURES; m++) {
		free(j->value[m]);
		j->value[m] = NULL;
	}
	for (uint32_t i = 0; i < JOBSTEPS_LEADS_MAX; i++) {
		free(j->lead_pace[i]);
		j->lead_pace[i] = NULL;
	}
	free(j->lead_ns);
	j->lead_ns = NULL;
	free(j->transfer_ns);
	free(j->transfers);
	j->transfer_ns = NULL;
	j->transfers = NULL;
}

/* ---- kernels of a stretch ---- */

static int kernel_order(const void *pa, const void *pb)
{
	const struct jobsteps_kernel *a = pa, *b = pb;

	if (a->name != b->name)
		return a->name < b->name ? -1 : 1;
	return (a->kind > b->kind) - (a->kind < b->kind);
}

int jobsteps_kernels(const struct jobsteps *j, uint32_t rank, uint32_t first, uint32_t last,
		     struct jobsteps_kernel **out)
{
	const struct jobsteps_rank *x = &j->rank[rank];
	uint32_t names = j->name_count ? j->name_count : 1, steps = 0;
	struct jobsteps_kernel *v = calloc((size_t)names * 2, sizeof(*v));
	int n = 0;

	*out = NULL;
	if (!v)
		return -ENOMEM;
	for (uint32_t k = first; k <= last && k < j->steps; k++) {
		uint64_t begin = x->cut_ns[k], end = x->cut_ns[k + 1];

		if (isnan(jobsteps_value(j, JOBSTEPS_KERNELS, rank, k)))
			continue;
		steps++;
		for (uint32_t i = event_at(x, begin);
		     i < x->event_count && x->event[i].begin_ns < end; i++) {
			const struct jobsteps_event *e = &x->event[i];
			struct jobsteps_kernel *at =
			    &v[2 * (size_t)(e->name < names ? e->name : 0) + !is_compute(e)];

			at->name = e->name;
			at->kind = e->kind;
			at->count++;
			at->total_ns += (double)duration_of(e);
		}
	}
	for (size_t i = 0; i < (size_t)names * 2; i++) {
		if (v[i].count <= 0)
			continue;
		v[i].count /= steps;
		v[i].total_ns /= steps;
		v[n++] = v[i];
	}
	qsort(v, (size_t)n, sizeof(*v), kernel_order);
	*out = v;
	return n;
}
