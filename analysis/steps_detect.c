/* SPDX-License-Identifier: Apache-2.0
 * Finds the period of a launch timeline and where in it a step ends.
 *
 * Not by autocorrelation: layers repeat more often and more exactly than steps, and one inserted
 * launch shifts the rest. Instead every token is asked how regularly it returns. A feature (a name,
 * a name with its shape, or two names in a row) that returns at even distances over the whole
 * history is a witness for a period; a step has many witnesses that come once per step, whatever
 * happens in between. Among the witnesses of the chosen period the cut is the one with the longest
 * typical host gap. Cost: O(launches), plus a sort per witness. */
#include "analysis/steps_private.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* A witness returns at least so often. */
#define WITNESS_COUNT_MIN 3
/* Share of the launches that lies in intervals near its median one. */
#define WITNESS_REGULAR_MIN 0.6
#define WITNESS_NEAR	    0.3
/* Share of the history between its first and last return, one period added. */
#define WITNESS_COVER_MIN 0.7
#define WITNESSES_MAX	  4096
/* Periods within this factor are the same one. */
#define PERIOD_SAME 0.12
/* A longer period needs this share of the witnesses of the best one. */
#define OUTER_SHARE 0.2
/* Returns of one witness looked at. */
#define RETURNS_MAX 4096

enum feature_kind { FEATURE_NAME, FEATURE_FULL, FEATURE_PAIR, FEATURE_KINDS };

struct symbol {
	uint32_t name, full;
	uint32_t gap_ns;
	uint8_t kind, flags;
	uint64_t begin_ns, end_ns;
};

struct slot {
	uint64_t key; /* 0 free */
	uint32_t first, last, count;
};

struct witness {
	uint32_t first, count;
	uint32_t period; /* launches, median */
	uint8_t kind;
	uint64_t gap_before_ns, gap_after_ns; /* typical host gap before and after it */
};

struct finder {
	struct symbol *symbols;
	uint32_t count;
	uint32_t *next[FEATURE_KINDS];
	struct slot *slots;
	uint32_t slots_mask;
	struct witness *witnesses;
	uint32_t witness_count;
	uint32_t *returns, *sorted;
};

static uint32_t slots_of(uint32_t n)
{
	uint32_t size = 16;

	while (size < n * 2)
		size <<= 1;
	return size;
}

size_t steps_detect_scratch_bytes(uint32_t launch_max)
{
	size_t n = slots_of(launch_max) / 2; /* >= launch_max, a power of two */

	return n * (sizeof(struct symbol) + FEATURE_KINDS * sizeof(uint32_t)) +
	       2 * n * sizeof(struct slot) + WITNESSES_MAX * sizeof(struct witness) +
	       2 * RETURNS_MAX * sizeof(uint32_t) + 256;
}

static void finder_init(struct finder *f, struct steps *s)
{
	uint32_t n = slots_of(s->config.launch_max) / 2;
	unsigned char *at = s->scratch;

	memset(f, 0, sizeof(*f));
	f->slots = (struct slot *)at;
	f->slots_mask = 2 * n - 1;
	at += (size_t)2 * n * sizeof(struct slot);
	f->symbols = (struct symbol *)at;
	at += n * sizeof(struct symbol);
	f->witnesses = (struct witness *)at;
	at += WITNESSES_MAX * sizeof(struct witness);
	for (int k = 0; k < FEATURE_KINDS; k++) {
		f->next[k] = (uint32_t *)at;
		at += n * sizeof(uint32_t);
	}
	f->returns = (uint32_t *)at;
	f->sorted = f->returns + RETURNS_MAX;
}

static void finder_load(struct finder *f, const struct steps *s, uint64_t first, uint64_t last)
{
	if (last - first > s->config.launch_max)
		first = last - s->config.launch_max;
	for (uint64_t q = first; q < last; q++) {
		const struct steps_item *i = steps_at(s, q);

		if (!steps_is_symbol(i))
			continue;
		f->symbols[f->count++] = (struct symbol){
			.name = i->name_token, .full = i->full_token, .gap_ns = i->gap_ns,
			.kind = i->kind, .flags = i->flags,
			.begin_ns = i->begin_ns, .end_ns = i->end_ns,
		};
	}
}

static uint64_t feature_key(const struct finder *f, int kind, uint32_t at)
{
	switch (kind) {
	case FEATURE_NAME:
		return (uint64_t)f->symbols[at].name + 1;
	case FEATURE_FULL:
		return (uint64_t)f->symbols[at].full + 1;
	default:
		return hash_mix(((uint64_t)f->symbols[at].name << 32 | f->symbols[at + 1].name) +
				1) | 1;
	}
}

static int u32_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint32_t median(uint32_t *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), u32_order);
	return n ? v[n / 2] : 0;
}

/* Reads the returns of a feature into f->returns; their number. */
static uint32_t returns_of(struct finder *f, int kind, uint32_t first, uint32_t count)
{
	uint32_t n = 0;

	for (uint32_t at = first; n < count && n < RETURNS_MAX; at = f->next[kind][at])
		f->returns[n++] = at;
	return n;
}

static void witness_try(struct finder *f, int kind, const struct slot *slot)
{
	uint32_t n, period, m = 0;
	uint64_t near = 0, all;
	struct witness *w;

	if (slot->count < WITNESS_COUNT_MIN || slot->count > RETURNS_MAX ||
	    f->witness_count == WITNESSES_MAX)
		return;
	n = returns_of(f, kind, slot->first, slot->count);
	for (uint32_t i = 1; i < n; i++)
		f->sorted[m++] = f->returns[i] - f->returns[i - 1];
	period = median(f->sorted, m);
	all = f->returns[n - 1] - f->returns[0];
	if ((double)(all + period) < WITNESS_COVER_MIN * f->count)
		return;
	for (uint32_t i = 1; i < n; i++) {
		uint32_t d = f->returns[i] - f->returns[i - 1];

		if (d >= period * (1 - WITNESS_NEAR) && d <= period * (1 + WITNESS_NEAR))
			near += d;
	}
	if ((double)near < WITNESS_REGULAR_MIN * (double)all)
		return;
	w = &f->witnesses[f->witness_count++];
	*w = (struct witness){.first = slot->first, .count = n, .period = period,
			      .kind = (uint8_t)kind};
}

static void witnesses_find(struct finder *f)
{
	for (int kind = 0; kind < FEATURE_KINDS; kind++) {
		uint32_t end = kind == FEATURE_PAIR ? f->count - 1 : f->count;

		memset(f->slots, 0, ((size_t)f->slots_mask + 1) * sizeof(*f->slots));
		for (uint32_t i = 0; i < end; i++) {
			uint64_t key = feature_key(f, kind, i);
			uint32_t at = (uint32_t)hash_mix(key) & f->slots_mask;

			while (f->slots[at].key && f->slots[at].key != key)
				at = (at + 1) & f->slots_mask;
			if (!f->slots[at].key)
				f->slots[at] = (struct slot){key, i, i, 0};
			else
				f->next[kind][f->slots[at].last] = i;
			f->slots[at].last = i;
			f->slots[at].count++;
		}
		for (uint32_t i = 0; i < end; i++) {
			uint64_t key = feature_key(f, kind, i);
			uint32_t at = (uint32_t)hash_mix(key) & f->slots_mask;

			while (f->slots[at].key != key)
				at = (at + 1) & f->slots_mask;
			if (f->slots[at].first == i)
				witness_try(f, kind, &f->slots[at]);
		}
	}
}

static bool same_period(uint32_t a, uint32_t b)
{
	return a <= b * (1 + PERIOD_SAME) && b <= a * (1 + PERIOD_SAME);
}

/* The longest period that enough witnesses share; 0 none. */
static uint32_t period_choose(const struct finder *f)
{
	uint32_t best = 0, most = 0;

	for (uint32_t pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < f->witness_count; i++) {
			uint32_t votes = 0, p = f->witnesses[i].period;

			for (uint32_t j = 0; j < f->witness_count; j++)
				votes += same_period(p, f->witnesses[j].period);
			if (!pass && votes > most)
				most = votes;
			else if (pass && votes >= OUTER_SHARE * most && p > best)
				best = p;
		}
	}
	return best;
}

/* Typical host gap at the cut that the witness offers. */
static uint32_t gap_typical(struct finder *f, const struct witness *w, bool after)
{
	uint32_t n = returns_of(f, w->kind, w->first, w->count), m = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = f->returns[i] + (after ? 1 : 0);

		if (at > 0 && at < f->count)
			f->sorted[m++] = f->symbols[at].gap_ns;
	}
	return median(f->sorted, m);
}

static uint64_t period_time(struct finder *f, const struct witness *w)
{
	uint32_t n = returns_of(f, w->kind, w->first, w->count);

	if (n < 2)
		return 0;
	return (f->symbols[f->returns[n - 1]].begin_ns - f->symbols[f->returns[0]].begin_ns) /
	       (n - 1);
}

static void pattern_from(struct finder *f, const struct witness *w, bool after,
			 struct steps_pattern *out)
{
	const struct symbol *y = &f->symbols[w->first];

	memset(out, 0, sizeof(*out));
	out->full = w->kind == FEATURE_FULL;
	out->launches = w->period;
	out->launches_min = w->period / 3;
	out->period_ns = period_time(f, w);
	out->every = 1;
	out->a = out->full ? y->full : y->name;
	out->kind = after ? PATTERN_AFTER : PATTERN_BEFORE;
	if (w->kind == FEATURE_PAIR) {
		out->kind = PATTERN_BETWEEN;
		out->b = f->symbols[w->first + 1].name;
	}
}

bool steps_detect_find(struct steps *s, uint64_t first, uint64_t last, struct steps_pattern *out)
{
	struct finder f;
	uint32_t period, best_gap = 0;
	bool found = false;

	finder_init(&f, s);
	finder_load(&f, s, first, last);
	if (f.count < 4)
		return false;
	witnesses_find(&f);
	period = period_choose(&f);
	for (uint32_t i = 0; period && i < f.witness_count; i++) {
		const struct witness *w = &f.witnesses[i];

		if (!same_period(w->period, period))
			continue;
		for (int after = w->kind == FEATURE_PAIR; after < 2; after++) {
			uint32_t gap = gap_typical(&f, w, after);

			if (found && gap <= best_gap)
				continue;
			best_gap = gap;
			found = true;
			pattern_from(&f, w, after, out);
		}
	}
	return found && out->period_ns <= s->config.period_max_ns;
}
