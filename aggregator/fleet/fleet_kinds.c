/* SPDX-License-Identifier: Apache-2.0
 * Each rank reports its own kinds of steps. One row merges the ranks that do the same in the same
 * steps, and lists the ranks that wait for them in these steps. */
#include <errno.h>
#include <stdlib.h>

#include "aggregator/fleet/fleet_private.h"
#include "analysis/steps/kinds.h"
#include "base/order.h"
#include "base/text/text.h"

#define ROWS_MAX 64u
/* Ranks may count their steps from different first steps. */
#define PLACE_SLACK 3u

struct row {
	struct kinds_row sum; /* sums over all ranks */
	uint32_t ranks;
	int32_t rank;	    /* the first of these ranks */
	json_t *is, *waits; /* lists of ranks */
};

static uint64_t between(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool is_place(const struct kinds_row *a, const struct kinds_row *b)
{
	uint64_t apart, slack = PLACE_SLACK + a->period / 32;

	if (!a->period || !b->period)
		return a->period == b->period;
	if (between(a->period, b->period) > a->period / 32)
		return false;
	apart = between(a->last_step, b->last_step) % a->period;
	return apart <= slack || a->period - apart <= slack;
}

static bool is_wait(const struct kinds_row *k)
{
	return !k->by_work && k->part == KINDS_WAIT;
}

static struct row *row_of(struct row *rows, uint32_t *count, const struct kinds_row *k,
			  int32_t rank)
{
	for (uint32_t i = 0; i < *count; i++)
		if (rows[i].sum.by_work == k->by_work && rows[i].sum.part == k->part &&
		    is_place(&rows[i].sum, k))
			return &rows[i];
	if (*count == ROWS_MAX)
		return NULL;
	rows[*count] =
	    (struct row){.sum = *k, .rank = rank, .is = json_array(), .waits = json_array()};
	return &rows[(*count)++];
}

static void add(struct row *rows, uint32_t *count, const struct kinds_row *k, int32_t rank)
{
	struct row *r = row_of(rows, count, k, rank);

	if (!r)
		return;
	json_array_append_new(r->is, json_integer(rank));
	if (!r->ranks++)
		return;
	r->sum.cost_ns += k->cost_ns;
	r->sum.share += k->share;
	r->sum.steps += k->steps;
	r->sum.grown |= k->grown;
}

/* If a rank waits in the same steps in which others work, it is listed with them, not as a kind of
 * its own. */
static void fold_waits(struct row *rows, uint32_t count)
{
	for (uint32_t w = 0; w < count; w++)
		for (uint32_t i = 0; i < count && is_wait(&rows[w].sum); i++) {
			if (is_wait(&rows[i].sum) || rows[i].sum.by_work ||
			    !is_place(&rows[i].sum, &rows[w].sum))
				continue;
			json_array_extend(rows[i].waits, rows[w].is);
			rows[w].ranks = 0;
			break;
		}
}

static double mean_share(const struct row *r)
{
	return r->ranks ? r->sum.share / r->ranks : 0;
}

ORDER_BY(by_share, struct row, ORDER(mean_share(b), mean_share(a)));

static json_t *row_json(const struct row *r)
{
	const struct kinds_row *k = &r->sum;
	double n = r->ranks;

	return json_pack(
	    "{s:s, s:I, s:o, s:I, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:b, s:i, s:O, s:O}",
	    "account", k->by_work ? "work" : kinds_part_name(k->part), "period",
	    (json_int_t)k->period, "period_s",
	    k->period_ns ? json_real((double)k->period_ns / 1e9) : json_null(), "count",
	    (json_int_t)k->count, "steps", k->steps / n, "cost_ms", text_ms(k->cost_ns / n),
	    "share", k->share / n, "first_step", (json_int_t)k->first_step, "last_step",
	    (json_int_t)k->last_step, "launches", k->launches, "collectives", k->collectives,
	    "grown", k->grown, "of_rank", (int)r->rank, "ranks", r->is, "waiting", r->waits);
}

/* The job's ranks that sent a sketch; the caller frees the list. */
static int ranks_of(struct fleet *f, const char *name, int32_t **out, uint32_t *count)
{
	struct fleet_job *job;
	int err = -ENOENT;

	*count = 0;
	pthread_mutex_lock(&f->lock);
	job = fleet_find_job(f, name);
	*out = job ? malloc((job->rank_count + 1) * sizeof(**out)) : NULL;
	for (uint32_t i = 0; *out && i < job->rank_count; i++)
		if (job->ranks[i].used && job->ranks[i].rank >= 0 && job->ranks[i].sketch)
			(*out)[(*count)++] = job->ranks[i].rank;
	if (job)
		err = *out ? 0 : -ENOMEM;
	pthread_mutex_unlock(&f->lock);
	return err;
}

json_t *fleet_kinds_json(struct fleet *f, const char *name)
{
	struct row rows[ROWS_MAX];
	json_t *list;
	uint32_t count = 0, sketched = 0, n;
	int32_t *ranks;

	if (ranks_of(f, name, &ranks, &n))
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		struct sketch s;

		if (fleet_sketch(f, name, ranks[i], &s))
			continue;
		sketched++;
		for (uint32_t k = 0; k < s.kind_count; k++)
			add(rows, &count, &s.kinds[k], ranks[i]);
		wire_sketch_free(&s);
	}
	free(ranks);
	fold_waits(rows, count);
	qsort(rows, count, sizeof(rows[0]), by_share);
	list = json_array();
	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].ranks)
			json_array_append_new(list, row_json(&rows[i]));
		json_decref(rows[i].is);
		json_decref(rows[i].waits);
	}
	return json_pack("{s:s, s:i, s:o}", "job", name, "ranks", (int)sketched, "kinds", list);
}
