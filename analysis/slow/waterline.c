/* SPDX-License-Identifier: Apache-2.0
 * Shares are stored as they arrive and summed up only on request. Most roles are never asked about,
 * and sketches that leave the window need no subtraction. */
#include "analysis/slow/waterline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "analysis/robust/spread.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"

struct share {
	uint32_t function;
	float self, total;
};

struct kept {
	uint64_t at_ns;
	uint32_t slot, count;
	struct share *shares;
};

struct function {
	char *name;
	uint32_t kind;
};

struct waterline {
	uint64_t window_ns, bytes, no_room;
	struct function *functions;
	uint32_t function_count;
	size_t function_room;
	struct idmap by_name;
	struct kept kept[LIMIT_WATERLINE_SKETCHES];
	uint32_t next;
};

int waterline_open(struct waterline **out, uint64_t window_ns)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->window_ns = window_ns;
	(*out)->by_name.max = LIMIT_WATERLINE_FUNCTIONS;
	(*out)->bytes = sizeof(**out);
	return 0;
}

static void forget_functions(struct waterline *w)
{
	for (uint32_t i = 0; i < w->function_count; i++) {
		w->bytes -= strlen(w->functions[i].name) + 1 + sizeof(w->functions[i]);
		free(w->functions[i].name);
	}
	w->function_count = 0;
	idmap_clear(&w->by_name);
}

static void drop(struct waterline *w, struct kept *k)
{
	w->bytes -= k->count * sizeof(*k->shares);
	free(k->shares);
	*k = (struct kept){0};
}

void waterline_close(struct waterline *w)
{
	if (!w)
		return;
	for (uint32_t i = 0; i < LIMIT_WATERLINE_SKETCHES; i++)
		drop(w, &w->kept[i]);
	forget_functions(w);
	free(w->functions);
	idmap_fini(&w->by_name);
	free(w);
}

static uint32_t function_of(struct waterline *w, const struct sketch_function *f)
{
	uint64_t key = keyed_words(keyed_process(), keyed_text(keyed_process(), f->name), f->kind);
	uint32_t at = idmap_get(&w->by_name, key);
	char *name;

	if (at != IDMAP_NONE)
		return at;
	if (w->function_count >= LIMIT_WATERLINE_FUNCTIONS ||
	    ROOM_FOR(w->functions, w->function_room, w->function_count + 1))
		return IDMAP_NONE;
	name = strdup(f->name);
	if (!name || idmap_put(&w->by_name, key, w->function_count)) {
		free(name);
		return IDMAP_NONE;
	}
	w->bytes += strlen(name) + 1 + sizeof(struct function);
	w->functions[w->function_count] = (struct function){name, f->kind};
	return w->function_count++;
}

void waterline_push(struct waterline *w, uint32_t slot, uint32_t ranks, const struct sketch *s,
		    uint64_t now_ns)
{
	/* A small role has room for four sketches per rank. A larger one stores those of every n-th
	 * rank. */
	uint32_t stride = 1 + ranks * 4 / LIMIT_WATERLINE_SKETCHES;
	struct kept *k = &w->kept[w->next % LIMIT_WATERLINE_SKETCHES];
	struct share *shares;
	uint32_t n = 0;

	/* selects ranks by hash, because a role may itself consist of every n-th rank of the job */
	if (hash_mix(slot) % stride || !s->function_count)
		return;
	/* The table of names is full: drop everything and start again. */
	if (w->function_count >= LIMIT_WATERLINE_FUNCTIONS) {
		for (uint32_t i = 0; i < LIMIT_WATERLINE_SKETCHES; i++)
			drop(w, &w->kept[i]);
		forget_functions(w);
	}
	shares = malloc(s->function_count * sizeof(*shares));
	if (!shares)
		return;
	for (uint32_t i = 0; i < s->function_count; i++) {
		uint32_t f = function_of(w, &s->functions[i]);

		if (f == IDMAP_NONE)
			w->no_room++;
		else
			shares[n++] = (struct share){f, (float)s->functions[i].self_share,
						     (float)s->functions[i].total_share};
	}
	drop(w, k);
	*k = (struct kept){now_ns, slot, n, shares};
	w->bytes += n * sizeof(*shares);
	w->next++;
}

static void row_fill(struct waterline_row *r, double *total, double *self, uint32_t n,
		     uint32_t sketches)
{
	memset(total + n, 0, (sketches - n) * sizeof(*total));
	memset(self + n, 0, (sketches - n) * sizeof(*self));
	r->mean = spread_mean(total, sketches, &r->sigma);
	r->median = median_of(total, sketches);
	r->self_median = median_of(self, sketches);
	r->spread = MEDIAN_MAD_SIGMA * median_mad(total, sketches, r->median);
}

ORDER_BY(by_mean, struct waterline_row, ORDER_DOWN(mean) ?: ORDER_TEXT(name));

/* Selects the sketches in the window, without those of excepted slots. */
static uint32_t choose(const struct waterline *w, uint64_t now_ns, const uint32_t *except,
		       uint32_t except_count, bool *is_in, uint32_t *shares)
{
	uint32_t n = 0;

	*shares = 0;
	for (uint32_t i = 0; i < LIMIT_WATERLINE_SKETCHES; i++) {
		const struct kept *k = &w->kept[i];

		is_in[i] = k->shares && (now_ns <= k->at_ns || now_ns - k->at_ns <= w->window_ns);
		for (uint32_t e = 0; e < except_count; e++)
			is_in[i] &= except[e] != k->slot;
		n += is_in[i];
		*shares += is_in[i] ? k->count : 0;
	}
	return n;
}

/* Sorts all shares by function: those of f are at[f] to at[f + 1]. */
static uint32_t *transpose(const struct waterline *w, const bool *is_in, struct share *all,
			   uint32_t *slots)
{
	uint32_t *at = calloc(w->function_count + 2, sizeof(*at));

	for (uint32_t i = 0; at && i < LIMIT_WATERLINE_SKETCHES; i++)
		for (uint32_t k = 0; k < w->kept[i].count && is_in[i]; k++)
			at[w->kept[i].shares[k].function + 2]++;
	for (uint32_t f = 2; at && f < w->function_count + 2; f++)
		at[f] += at[f - 1];
	for (uint32_t i = 0; at && i < LIMIT_WATERLINE_SKETCHES; i++)
		for (uint32_t k = 0; k < w->kept[i].count && is_in[i]; k++) {
			uint32_t to = at[w->kept[i].shares[k].function + 1]++;

			all[to] = w->kept[i].shares[k];
			slots[to] = w->kept[i].slot;
		}
	return at;
}

static void one_row(struct waterline_row *r, const struct share *all, const uint32_t *slots,
		    uint32_t n, uint32_t sketches, double *total, double *self)
{
	/* Our own sketches never name a function twice; a hostile one may. */
	n = n < sketches ? n : sketches;
	for (uint32_t i = 0; i < n; i++) {
		total[i] = (double)all[i].total;
		self[i] = (double)all[i].self;
		if (total[i] > r->highest) {
			r->highest = total[i];
			r->highest_slot = slots[i];
		}
	}
	r->sketches = n;
	row_fill(r, total, self, n, sketches);
}

int waterline_rows(struct waterline *w, uint64_t now_ns, const uint32_t *except,
		   uint32_t except_count, struct waterline_row **rows, uint32_t *count)
{
	bool is_in[LIMIT_WATERLINE_SKETCHES];
	uint32_t n = 0, shares, *at = NULL, *slots;
	uint32_t sketches = choose(w, now_ns, except, except_count, is_in, &shares);
	struct waterline_row *list = calloc(w->function_count + 1, sizeof(*list));
	double *values = calloc(2 * LIMIT_WATERLINE_SKETCHES, sizeof(*values));
	struct share *all;

	all = malloc((shares + 1) * sizeof(*all));
	slots = malloc((shares + 1) * sizeof(*slots));
	if (list && values && all && slots)
		at = transpose(w, is_in, all, slots);
	for (uint32_t f = 0; at && f < w->function_count; f++) {
		if (at[f] == at[f + 1])
			continue;
		list[n] = (struct waterline_row){.name = w->functions[f].name,
						 .kind = w->functions[f].kind};
		one_row(&list[n++], all + at[f], slots + at[f], at[f + 1] - at[f], sketches, values,
			values + LIMIT_WATERLINE_SKETCHES);
	}
	if (at)
		qsort(list, n, sizeof(*list), by_mean);
	*rows = at ? list : NULL;
	*count = at ? n : 0;
	if (!at)
		free(list);
	free(values);
	free(all);
	free(slots);
	free(at);
	return *rows ? (int)sketches : -ENOMEM;
}

uint64_t waterline_no_room(const struct waterline *w)
{
	return w->no_room;
}

uint64_t waterline_bytes(const struct waterline *w)
{
	return w->bytes;
}
