/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay_ranks.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/median.h"

/* A slope is told from 0 only when the ends spread over so much time. */
#define DRIFT_SPAN_MIN_NS 1000000000.0
/* Pairs looked at for the median slope. */
#define SLOPE_PAIRS_MAX 20000
/* What the ends of one collective differ by without any clock offset. */
#define END_AGREEMENT_NS 1000.0
/* Instances by which one trace may begin later than another. */
#define SHIFT_MAX 64
#define OPS (RECORD_COLL_OTHER + 1)

struct coll {
	uint64_t begin_ns, end_ns;
};

struct rank_colls {
	int rank;
	struct coll *of[OPS]; /* by operation, in time order */
	uint32_t count[OPS];
	int shift[OPS]; /* instance i of ours is i + shift of the reference */
	double offset_ns, drift, error_ns; /* local = reference + offset + drift (t - zero) */
	double zero_ns;
};

struct replay_ranks {
	struct rank_colls *rank;
	uint32_t count;
};

struct replay_ranks *replay_ranks_new(void)
{
	return calloc(1, sizeof(struct replay_ranks));
}

static void rank_free(struct rank_colls *c)
{
	for (int op = 0; op < OPS; op++)
		free(c->of[op]);
}

void replay_ranks_free(struct replay_ranks *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->count; i++)
		rank_free(&r->rank[i]);
	free(r->rank);
	free(r);
}

int replay_ranks_add(struct replay_ranks *r, const struct replay_trace *t)
{
	struct rank_colls *grown, c = {.rank = t->rank};

	for (uint32_t i = 0; i < r->count; i++)
		if (r->rank[i].rank == t->rank) {
			fprintf(stderr, "sysom replay events: two files of rank %d\n", t->rank);
			return -EBADMSG;
		}
	if (r->count == REPLAY_RANKS_MAX)
		return -ENOMEM;
	for (size_t i = 0; i < t->device_count; i++)
		if (t->device[i].kind == RECORD_COLL_KERNEL)
			c.count[t->device[i].func % OPS]++;
	for (int op = 0; op < OPS; op++) {
		c.of[op] = c.count[op] ? malloc(c.count[op] * sizeof(struct coll)) : NULL;
		if (c.count[op] && !c.of[op]) {
			rank_free(&c);
			return -ENOMEM;
		}
		c.count[op] = 0;
	}
	for (size_t i = 0; i < t->device_count; i++) {
		const struct record *x = &t->device[i];
		unsigned op = x->func % OPS;

		if (x->kind == RECORD_COLL_KERNEL)
			c.of[op][c.count[op]++] = (struct coll){x->begin_ns, x->end_ns};
	}
	grown = realloc(r->rank, (r->count + 1) * sizeof(*grown));
	if (!grown) {
		rank_free(&c);
		return -ENOMEM;
	}
	r->rank = grown;
	r->rank[r->count++] = c;
	return 0;
}

static int rank_order(const void *pa, const void *pb)
{
	const struct rank_colls *a = pa, *b = pb;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int double_order(const void *pa, const void *pb)
{
	double a = *(const double *)pa, b = *(const double *)pb;

	return (a > b) - (a < b);
}

static double distance(const struct coll *a, const struct coll *b)
{
	return a->end_ns > b->end_ns ? (double)(a->end_ns - b->end_ns)
				     : -(double)(b->end_ns - a->end_ns);
}

/* Reference instance that ours[i] belongs to, NULL none. */
static const struct coll *partner(const struct rank_colls *ref, const struct rank_colls *own,
				  int op, uint32_t i)
{
	int64_t at = (int64_t)i + own->shift[op];

	return at >= 0 && at < ref->count[op] ? &ref->of[op][at] : NULL;
}

/* Where traces differ in length: the shift whose ends agree best. */
static int shift_find(const struct rank_colls *ref, struct rank_colls *own, int op, double *scratch)
{
	double best = INFINITY;
	int best_shift = 0;

	if (ref->count[op] == own->count[op])
		return 0;
	for (int shift = -SHIFT_MAX; shift <= SHIFT_MAX; shift++) {
		size_t n = 0;
		double mid, spread;

		own->shift[op] = shift;
		for (uint32_t i = 0; i < own->count[op]; i++) {
			const struct coll *p = partner(ref, own, op, i);

			if (p)
				scratch[n++] = distance(&own->of[op][i], p);
		}
		if (n < 3 || n * 2 < (ref->count[op] < own->count[op] ? ref->count[op]
								    : own->count[op]))
			continue;
		mid = median_of(scratch, n);
		for (size_t i = 0; i < n; i++)
			scratch[i] = fabs(scratch[i] - mid);
		spread = median_of(scratch, n);
		if (spread < best || (spread == best && abs(shift) < abs(best_shift))) {
			best = spread;
			best_shift = shift;
		}
	}
	return best_shift;
}

/* Median of slopes between points far apart. */
static double slope_of(const double *t, const double *y, size_t n, double *scratch)
{
	size_t half = n / 2, m = 0, step = half * (n - half) / SLOPE_PAIRS_MAX + 1, k = 0;

	for (size_t i = 0; i < half; i++)
		for (size_t j = n - half; j < n; j++) {
			if (k++ % step || t[j] <= t[i] || m == SLOPE_PAIRS_MAX)
				continue;
			scratch[m++] = (y[j] - y[i]) / (t[j] - t[i]);
		}
	return median_of(scratch, m);
}

/* By time; scratch holds n pairs. */
static void points_sort(double *t, double *y, size_t n, double *scratch)
{
	for (size_t i = 0; i < n; i++) {
		scratch[2 * i] = t[i];
		scratch[2 * i + 1] = y[i];
	}
	qsort(scratch, n, 2 * sizeof(*scratch), double_order);
	for (size_t i = 0; i < n; i++) {
		t[i] = scratch[2 * i];
		y[i] = scratch[2 * i + 1];
	}
}

static void clock_fit(struct rank_colls *own, double *t, double *y, size_t n, double *scratch)
{
	double span, mad;

	points_sort(t, y, n, scratch);
	own->zero_ns = 0;
	memcpy(scratch, y, n * sizeof(*y));
	own->offset_ns = median_of(scratch, n);
	span = n ? t[n - 1] - t[0] : 0;
	for (int pass = 0;; pass++) {
		for (size_t i = 0; i < n; i++)
			scratch[i] = fabs(y[i] - own->offset_ns - own->drift * t[i]);
		mad = 1.4826 * median_of(scratch, n);
		own->error_ns = 3 * mad / sqrt((double)(n ? n : 1)) + END_AGREEMENT_NS;
		if (pass || n < 8 || span < DRIFT_SPAN_MIN_NS)
			break;
		own->drift = slope_of(t, y, n, scratch);
		for (size_t i = 0; i < n; i++)
			scratch[i] = y[i] - own->drift * t[i];
		own->offset_ns = median_of(scratch, n);
	}
}

static void clock_estimate(const struct rank_colls *ref, struct rank_colls *own, uint64_t zero,
			   double *work, size_t most)
{
	double *t = work, *y = work + most, *scratch = work + 2 * most;
	size_t n = 0;

	for (int op = 0; op < OPS; op++) {
		own->shift[op] = shift_find(ref, own, op, scratch);
		for (uint32_t i = 0; i < own->count[op] && n < most; i++) {
			const struct coll *p = partner(ref, own, op, i);

			if (!p)
				continue;
			t[n] = p->end_ns > zero ? (double)(p->end_ns - zero) : 0;
			y[n++] = distance(&own->of[op][i], p);
		}
	}
	if (n)
		clock_fit(own, t, y, n, scratch);
	else
		own->error_ns = INFINITY;
}

/* A time of `own` on the reference clock. Offsets that may be 0 are taken for 0. */
static uint64_t on_reference(const struct rank_colls *own, uint64_t local, uint64_t zero)
{
	double off;

	if (fabs(own->offset_ns) <= own->error_ns && own->drift == 0)
		return local;
	off = own->offset_ns + own->drift * ((double)(int64_t)(local - zero) - own->offset_ns);
	return (uint64_t)((int64_t)local - (int64_t)llround(off));
}

static void print_instance(const struct replay_ranks *r, int op, uint32_t i, uint64_t zero,
			   bool json)
{
	uint64_t first = UINT64_MAX, last = 0;
	uint32_t members = 0;
	int last_rank = -1;

	for (uint32_t k = 0; k < r->count; k++) {
		const struct rank_colls *c = &r->rank[k];
		int64_t at = (int64_t)i - c->shift[op];
		uint64_t enter;

		if (at < 0 || at >= c->count[op])
			continue;
		enter = on_reference(c, c->of[op][at].begin_ns, zero);
		if (!members++ || enter > last) {
			last = enter;
			last_rank = c->rank;
		}
		first = enter < first ? enter : first;
	}
	if (members < 2)
		return;
	if (!json) {
		printf("%-14s %6u %6u ranks, last in: rank %d, %.3f ms after the first\n",
		       record_coll_name((unsigned)op), i, members, last_rank,
		       (double)(last - first) / 1e6);
		return;
	}
	printf("{\"type\":\"collective\",\"op\":\"%s\",\"seq\":%u,\"enter_ns\":{",
	       record_coll_name((unsigned)op), i);
	members = 0;
	for (uint32_t k = 0; k < r->count; k++) {
		const struct rank_colls *c = &r->rank[k];
		int64_t at = (int64_t)i - c->shift[op];

		if (at >= 0 && at < c->count[op])
			printf("%s\"%d\":%" PRIu64, members++ ? "," : "", c->rank,
			       on_reference(c, c->of[op][at].begin_ns, zero));
	}
	printf("},\"last_rank\":%d,\"spread_ns\":%" PRIu64 "}\n", last_rank, last - first);
}

void replay_ranks_print(struct replay_ranks *r, bool json)
{
	struct rank_colls *ref = r->rank;
	uint64_t zero = UINT64_MAX;
	size_t most = 1;
	double *work;

	if (!r->count)
		return;
	qsort(r->rank, r->count, sizeof(*r->rank), rank_order);
	for (uint32_t k = 0; k < r->count; k++) {
		size_t n = 0;

		for (int op = 0; op < OPS; op++)
			n += r->rank[k].count[op];
		most = n > most ? n : most;
	}
	for (int op = 0; op < OPS; op++)
		if (ref->count[op] && ref->of[op][0].end_ns < zero)
			zero = ref->of[op][0].end_ns;
	work = calloc(2 * most + (2 * most > SLOPE_PAIRS_MAX ? 2 * most : SLOPE_PAIRS_MAX),
		      sizeof(*work));
	if (!work)
		return;
	for (uint32_t k = 1; k < r->count; k++)
		clock_estimate(ref, &r->rank[k], zero, work, most);
	free(work);
	if (!json && r->count > 1)
		printf("\n");
	for (int op = 0; op < OPS && r->count > 1; op++)
		for (uint32_t i = 0; i < ref->count[op]; i++)
			print_instance(r, op, i, zero, json);
	for (uint32_t k = 0; k < r->count; k++) {
		const struct rank_colls *c = &r->rank[k];
		bool known = isfinite(c->error_ns);

		if (json)
			printf("{\"type\":\"clock\",\"rank\":%d,\"offset_ns\":%.0f,"
			       "\"drift_ppm\":%.3f,\"error_ns\":",
			       c->rank, c->offset_ns, c->drift * 1e6);
		else
			printf("clock of rank %d: offset %.0f ns, drift %.3f ppm, error ", c->rank,
			       c->offset_ns, c->drift * 1e6);
		if (known)
			printf("%.0f%s\n", c->error_ns, json ? "}" : " ns");
		else
			printf("%s\n", json ? "null}" : "unknown");
	}
}
