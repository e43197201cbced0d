/* SPDX-License-Identifier: Apache-2.0
 * Finds the period of a launch timeline and where in it a step ends.
 *
 * Autocorrelation fails here: layers repeat more often and more exactly than steps, and one
 * inserted launch shifts all that follow. Instead, every feature is checked for how regularly it
 * returns. A feature is a name, a name with its shape, two names in a row, or a pause of the host.
 * A feature that returns at even distances over the whole history is a witness for a period. The
 * search starts with the period that has most witnesses, which may still be a layer or a
 * micro-batch. It moves to a longer period if that consists of whole shorter ones plus kernels
 * found nowhere else: an optimizer after several micro-batches, a head after several layers. An
 * evaluation adds only kernels of the training step, so it makes no period longer. If an optimizer and
 * then a wait for the GPU end a period, that period is the step, without a search.
 *
 * The step is cut at one of the features that come once per period: at best where the host pauses
 * longest; next where input is copied in, the GPU was waited for or an optimizer ended; else at the
 * feature that returns most often, because it also cuts evaluation steps. Cost: O(launches), plus a
 * sort per feature and a pass per longer period tried. */
#include "analysis/steps/steps_private.h"
#include "model/thresholds.h"

#include "base/carve.h"
#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/probe.h"

#define WITNESSES_MAX 4096
/* The search moves only to a period at most this many times as long. */
#define OUTER_RATIO_MAX 1024
/* The search moves to a longer period only if it has this many launches that the shorter one
 * lacks. */
#define NOVEL_COUNT_MIN 2
#define CLIMBS_MAX	8
/* A history of three whole steps has each name three times. If many names occur less often, it may
 * hold fewer steps, and the period may be a part of a step. The period counts as a part if it
 * hardly returned. It also counts as a part if the cut's score is low (real steps: 7 and more,
 * layers: up to 6) and it returned no more often than a model has layers. */
#define PART_LAYERS_MAX 512
/* Returns of one witness that are examined. */
#define RETURNS_MAX 4096
/* Up to this many numbers are sorted by insertion. */
#define SORT_FEW_MAX 32

enum feature_kind { FEATURE_NAME, FEATURE_FULL, FEATURE_PAIR, FEATURE_PAUSE, FEATURE_KINDS };

struct symbol {
	uint32_t name, full;
	uint32_t gap_ns;
	uint32_t item; /* number of its item, from the first of the history */
	uint8_t kind, flags;
};

struct slot {
	uint64_t key; /* 0: free */
	uint32_t first, last, count;
};

struct witness {
	uint32_t first, count;
	uint32_t period; /* median, in launches */
	uint8_t kind;
};

struct finder {
	const struct steps_item *items; /* the history: a ring, from item `first` on */
	uint64_t mask, first;
	struct symbol *symbols;
	uint32_t count;
	uint32_t *next[FEATURE_KINDS];
	struct slot *slots;
	uint32_t slots_room; /* a power of two */
	struct witness *witnesses;
	uint32_t witness_count;
	uint32_t *returns, *sorted;
	uint32_t *segment; /* number of each symbol's segment */
	uint32_t *places;  /* cuts of one rule; shares memory with segment */
	uint32_t *novel;   /* per segment: launches that only the longer period has */
	/* per segment: whether the longer period's witness lies in it or next to it */
	uint8_t *near;
	uint32_t *name_count; /* at the first symbol of a name: how often the name occurs; else 0 */
	bool only_full;
	uint32_t gap_ns;   /* median gap */
	uint32_t pause_ns; /* a gap at least as long is a pause */
	double regular_min;
};

static uint32_t slots_of(uint32_t n)
{
	uint32_t size = 16;

	while (size < n * 2)
		size <<= 1;
	return size;
}

static size_t lay_out(struct finder *f, void *memory, uint32_t launch_max)
{
	struct carve at = {.memory = memory};
	uint32_t n = slots_of(launch_max) / 2; /* >= launch_max, a power of two */

	memset(f, 0, sizeof(*f));
	f->slots = carve_take(&at, 2 * (size_t)n, sizeof(*f->slots));
	f->slots_room = 2 * n;
	f->symbols = carve_take(&at, n, sizeof(*f->symbols));
	f->witnesses = carve_take(&at, WITNESSES_MAX, sizeof(*f->witnesses));
	for (int k = 0; k < FEATURE_KINDS; k++)
		f->next[k] = carve_take(&at, n, sizeof(*f->next[k]));
	f->segment = f->places = carve_take(&at, n, sizeof(*f->segment));
	f->novel = carve_take(&at, n, sizeof(*f->novel));
	f->name_count = carve_take(&at, n, sizeof(*f->name_count));
	f->returns = carve_take(&at, RETURNS_MAX, sizeof(*f->returns));
	f->sorted = carve_take(&at, RETURNS_MAX, sizeof(*f->sorted));
	f->near = carve_take(&at, n + 2, sizeof(*f->near));
	return at.bytes;
}

size_t steps_detect_scratch_bytes(uint32_t launch_max)
{
	struct finder f;

	return lay_out(&f, NULL, launch_max);
}

static void finder_load(struct finder *f, const struct steps_item *items, uint64_t mask,
			uint64_t first, uint64_t last)
{
	f->items = items;
	f->mask = mask;
	f->first = first;
	for (uint64_t q = first; q < last; q++) {
		const struct steps_item *i = &items[q & mask];

		if (!steps_is_symbol(i))
			continue;
		f->symbols[f->count++] = (struct symbol){
		    .name = i->name_token,
		    .full = i->full_token,
		    .gap_ns = i->gap_ns,
		    .kind = i->kind,
		    .flags = i->flags,
		    .item = (uint32_t)(q - first),
		};
	}
}

static const struct steps_item *item_of(const struct finder *f, uint32_t at)
{
	return &f->items[(f->first + f->symbols[at].item) & f->mask];
}

/* 0: the symbol has no feature of this kind. */
static uint64_t feature_key(const struct finder *f, int kind, uint32_t at)
{
	switch (kind) {
	case FEATURE_PAUSE:
		return at && steps_pauses(f->symbols[at].flags, f->symbols[at].gap_ns, f->pause_ns);
	case FEATURE_NAME:
		return (uint64_t)f->symbols[at].name + 1;
	case FEATURE_FULL:
		return (uint64_t)f->symbols[at].full + 1;
	default:
		return hash_mix(((uint64_t)f->symbols[at].name << 32 | f->symbols[at + 1].name) +
				1) |
		       1;
	}
}

ORDER_BY(u32_order, uint32_t, ORDER(*a, *b));

/* The k-th smallest, k < n. A radix selection, so that no input is slow. */
static uint32_t u32_nth(const uint32_t *v, uint32_t n, uint32_t k)
{
	uint32_t prefix = 0, most = 0;
	int shift = 24;

	for (uint32_t i = 0; i < n; i++)
		most |= v[i];
	while (shift && !(most >> shift))
		shift -= 8;
	for (;; shift -= 8) {
		uint32_t count[256] = {0}, digit = 0;

		for (uint32_t i = 0; i < n; i++)
			if ((uint64_t)v[i] >> (shift + 8) == prefix)
				count[v[i] >> shift & 255]++;
		while (k >= count[digit])
			k -= count[digit++];
		prefix = prefix << 8 | digit;
		if (!shift)
			return prefix;
	}
}

static void u32_sort_few(uint32_t *v, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++) {
		uint32_t x = v[i], at = i;

		for (; at && v[at - 1] > x; at--)
			v[at] = v[at - 1];
		v[at] = x;
	}
}

/* Of at most SORT_FEW_MAX values: sorts v. */
static uint32_t median(uint32_t *v, uint32_t n)
{
	if (n > SORT_FEW_MAX)
		return u32_nth(v, n, n / 2);
	u32_sort_few(v, n);
	return n ? v[n / 2] : 0;
}

static uint32_t gap_typical(struct finder *f)
{
	uint32_t m = 0, step = f->count / RETURNS_MAX + 1;

	for (uint32_t i = 1; i < f->count && m < RETURNS_MAX; i += step)
		f->sorted[m++] = f->symbols[i].gap_ns;
	return median(f->sorted, m);
}

/* Lists the returns of a feature in f->returns. Returns their number. */
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

	if (slot->count < thresholds.count.few || slot->count > RETURNS_MAX ||
	    f->witness_count == WITNESSES_MAX)
		return;
	n = returns_of(f, kind, slot->first, slot->count);
	all = f->returns[n - 1] - f->returns[0];
	/* The witness must cover a quarter of the history. Most features fail here, before the
	 * sort. */
	if (4 * all < f->count)
		return;
	for (uint32_t i = 1; i < n; i++)
		f->sorted[m++] = f->returns[i] - f->returns[i - 1];
	period = median(f->sorted, m);
	if (2 * (all + period) < f->count)
		return;
	for (uint32_t i = 1; i < n; i++) {
		uint32_t d = f->returns[i] - f->returns[i - 1];

		if (d >= period * (1 - thresholds.find.near) &&
		    d <= period * (1 + thresholds.find.near))
			near += d;
	}
	if ((double)near < f->regular_min * (double)all)
		return;
	w = &f->witnesses[f->witness_count++];
	*w = (struct witness){
	    .first = slot->first, .count = n, .period = period, .kind = (uint8_t)kind};
}

/* Chains the returns of every feature of a kind. Lists the features' slots in f->segment, which is
 * free here, in order of first occurrence. Returns their number. */
static uint32_t features_index(struct finder *f, int kind)
{
	uint32_t end = kind == FEATURE_PAIR ? f->count - 1 : f->count, features = 0;

	memset(f->slots, 0, f->slots_room * sizeof(*f->slots));
	for (uint32_t i = 0; i < end; i++) {
		uint64_t key = feature_key(f, kind, i);

		if (!key)
			continue;
		PROBE_PLACES (at, hash_mix(key), f->slots_room) {
			struct slot *s = &f->slots[at];

			if (s->key && s->key != key)
				continue;
			if (!s->key) {
				*s = (struct slot){key, i, i, 0};
				f->segment[features++] = at;
			} else {
				f->next[kind][s->last] = i;
			}
			s->last = i;
			s->count++;
			break;
		}
	}
	return features;
}

static void witnesses_find(struct finder *f)
{
	memset(f->name_count, 0, f->count * sizeof(*f->name_count));
	for (int kind = 0; kind < FEATURE_KINDS; kind++) {
		uint32_t features = features_index(f, kind);

		for (uint32_t i = 0; i < features; i++) {
			const struct slot *slot = &f->slots[f->segment[i]];

			if (kind == FEATURE_NAME)
				f->name_count[slot->first] = slot->count;
			witness_try(f, kind, slot);
		}
	}
}

static bool same_period(uint32_t a, uint32_t b)
{
	return a <= b * (2 - thresholds.part.nearly_all) &&
	       b <= a * (2 - thresholds.part.nearly_all);
}

/* Names and pairs of names vote. Shapes may change from step to step, so they vote only if nothing
 * else can. */
static bool votes(const struct finder *f, const struct witness *w)
{
	return w->kind != FEATURE_PAUSE && (w->kind != FEATURE_FULL || f->only_full);
}

/* The witness whose period most other witnesses share; NULL: none. */
static const struct witness *base_choose(struct finder *f)
{
	const struct witness *best = NULL;
	double most = 0;

	f->only_full = true;
	for (uint32_t i = 0; i < f->witness_count; i++)
		if (f->witnesses[i].kind < FEATURE_FULL || f->witnesses[i].kind == FEATURE_PAIR)
			f->only_full = false;
	for (uint32_t i = 0; i < f->witness_count; i++) {
		double n = 0;

		if (!votes(f, &f->witnesses[i]))
			continue;
		for (uint32_t j = 0; j < f->witness_count; j++) {
			uint32_t count = f->witnesses[j].count;

			if (votes(f, &f->witnesses[j]) &&
			    same_period(f->witnesses[i].period, f->witnesses[j].period))
				n += count < thresholds.count.many
					 ? count / (double)thresholds.count.many
					 : 1;
		}
		if (n > most || (n == most && best && f->witnesses[i].count > best->count)) {
			most = n;
			best = &f->witnesses[i];
		}
	}
	return best;
}

/* Numbers the segments between the returns of w. Returns their median length. */
static uint32_t segments_of(struct finder *f, const struct witness *w, uint32_t *count)
{
	uint32_t n = returns_of(f, w->kind, w->first, w->count), m = 0, at = 0;

	for (uint32_t i = 0; i < f->count; i++) {
		while (at < n && f->returns[at] <= i)
			at++;
		f->segment[i] = at; /* 0: before the first return */
	}
	for (uint32_t i = 1; i < n; i++)
		f->sorted[m++] = f->returns[i] - f->returns[i - 1];
	*count = n;
	return median(f->sorted, m);
}

/* Counts in f->novel, per segment, the launches that occur only near the returns of w. Returns
 * their sum. */
static uint32_t novel_find(struct finder *f, uint32_t segments, const struct witness *w)
{
	uint32_t total = 0, outer = w->count;
	uint32_t returns = returns_of(f, w->kind, w->first, w->count);

	memset(f->novel, 0, (segments + 1) * sizeof(*f->novel));
	memset(f->near, 0, segments + 2);
	for (uint32_t i = 0; i < returns; i++) {
		uint32_t seg = f->segment[f->returns[i]];

		f->near[seg] = f->near[seg + 1] = 1;
		if (seg)
			f->near[seg - 1] = 1;
	}
	for (uint32_t i = 0; i < f->count; i++) {
		uint32_t present = 0, near = 0, n = 0, last = UINT32_MAX;

		if (!f->name_count[i] || f->symbols[i].kind == RECORD_COPY_CALL)
			continue;
		for (uint32_t at = i; n < f->name_count[i]; at = f->next[FEATURE_NAME][at], n++) {
			present += f->segment[at] != last;
			near += f->near[f->segment[at]];
			last = f->segment[at];
		}
		if (present > 1.5 * outer + 1 || present + 1 < thresholds.part.shows * outer ||
		    near < thresholds.part.most * n)
			continue;
		n = 0;
		for (uint32_t at = i; n < f->name_count[i]; at = f->next[FEATURE_NAME][at], n++)
			f->novel[f->segment[at]]++;
		total += n;
	}
	return total;
}

/* Whether each longer period holds the same number of shorter ones. *inner_count: that number. */
static bool is_steady(struct finder *f, const struct witness *outer, uint32_t *inner_count)
{
	uint32_t n = returns_of(f, outer->kind, outer->first, outer->count), m = 0, mid;
	uint32_t exact = 0, near = 0;

	/* Two returns in one segment: another class of steps, without the shorter period. */
	for (uint32_t i = 1; i < n; i++)
		if (f->segment[f->returns[i]] != f->segment[f->returns[i - 1]])
			f->sorted[m++] = f->segment[f->returns[i]] - f->segment[f->returns[i - 1]];
	if (m < thresholds.part.matters * n)
		return false;
	mid = *inner_count = median(f->sorted, m);
	for (uint32_t i = 0; i < m; i++) {
		uint32_t d = f->sorted[i] > mid ? f->sorted[i] - mid : mid - f->sorted[i];

		exact += d <= thresholds.same.other_work * mid;
		near += d <= mid * thresholds.find.near;
	}
	return exact >= thresholds.part.most * m ||
	       (n >= thresholds.count.some && near >= thresholds.part.most * m);
}

/* Whether the step is the period of `outer`, not that of `base`. */
static bool climbs(struct finder *f, const struct witness *base, const struct witness *outer)
{
	uint32_t segments, whole = 0, with = 0, inner = segments_of(f, base, &segments);
	double added = 0, novel = 0, beyond;
	uint32_t from = 0, inner_count = 0;

	if (segments < 3 || segments + 2 > f->count ||
	    outer->count * thresholds.find.longer > segments)
		return false;
	if (!is_steady(f, outer, &inner_count) ||
	    novel_find(f, segments, outer) < NOVEL_COUNT_MIN * (outer->count - 1))
		return false;
	for (uint32_t i = 1; i <= f->count; i++) {
		uint32_t seg = f->segment[i - 1], length;

		if (i < f->count && f->segment[i] == seg)
			continue;
		length = i - from;
		from = i;
		if (!seg || seg == segments || !f->novel[seg])
			continue;
		with++;
		whole += length - f->novel[seg] >= thresholds.part.nearly_all * inner;
		novel += f->novel[seg];
		if (length > inner)
			added += length - inner;
	}
	/* The fill and drain of a pipeline only move launches from one shorter period to
	 * another. */
	beyond = ((double)outer->period - (double)inner_count * inner) * outer->count;
	if (beyond > 0 && beyond < added)
		added = beyond;
	return with && whole >= thresholds.part.most * with &&
	       novel >= thresholds.part.shows * added;
}

/* Whether the optimizer has run, and the host then waited for the GPU or copied input, before or
 * after most returns of the witness. */
static bool ends_steps(struct finder *f, const struct witness *w, bool after)
{
	uint32_t n = returns_of(f, w->kind, w->first, w->count), ends = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = f->returns[i] + after;

		if (!at || at >= f->count)
			continue;
		ends += (f->symbols[at - 1].flags & ITEM_OPTIMIZER) &&
			!(f->symbols[at].flags & ITEM_OPTIMIZER) &&
			(f->symbols[at].flags & ITEM_SYNC_BEFORE ||
			 f->symbols[at].kind == RECORD_COPY_CALL);
	}
	return 2 * ends > n;
}

/* The most frequent witness of steps that end with an optimizer and then a wait; NULL: none. Work
 * that the job does only now and then (drawing samples, tuning a kernel) does not make a longer
 * step, however many kernels of its own it has. */
static const struct witness *optimizer_choose(struct finder *f)
{
	const struct witness *best = NULL;

	for (uint32_t i = 0; i < f->witness_count; i++) {
		const struct witness *w = &f->witnesses[i];

		if ((!best || w->count > best->count) &&
		    (ends_steps(f, w, false) || ends_steps(f, w, true)))
			best = w;
	}
	return best;
}

static const struct witness *period_choose(struct finder *f)
{
	const struct witness *base = optimizer_choose(f);

	if (base)
		return base;
	base = base_choose(f);
	for (uint32_t climbed = 0; base && climbed < CLIMBS_MAX; climbed++) {
		double past = base->period * thresholds.find.longer;
		const struct witness *found = NULL;

		while (!found) {
			const struct witness *next = NULL;

			/* the next longer period, by the witness found first */
			for (uint32_t i = 0; i < f->witness_count; i++) {
				const struct witness *w = &f->witnesses[i];

				if (!votes(f, w) || w->period < past ||
				    w->period > base->period * (double)OUTER_RATIO_MAX)
					continue;
				if (!next || w->period < next->period)
					next = w;
			}
			if (!next)
				break;
			if (climbs(f, base, next))
				found = next;
			past = next->period * (2 - thresholds.part.nearly_all);
		}
		if (!found)
			break;
		base = found;
	}
	return base;
}

struct cut {
	double score;
	uint32_t gap_ns;
};

/* How much the position before or after the witness resembles the end of a step. */
static double cut_score(struct finder *f, const struct witness *w, bool after, uint32_t typical_ns,
			uint32_t most)
{
	uint32_t n = returns_of(f, w->kind, w->first, w->count), m = 0, sync = 0, copy = 0;
	uint32_t start = 0, optimizer = 0;
	double score;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = f->returns[i] + (after ? 1 : 0);

		if (!at || at >= f->count)
			continue;
		f->sorted[m++] = f->symbols[at].gap_ns;
		start += f->symbols[at].name == f->symbols[0].name;
		optimizer += (f->symbols[at - 1].flags & ITEM_OPTIMIZER) &&
			     !(f->symbols[at].flags & ITEM_OPTIMIZER);
		sync += (f->symbols[at].flags & ITEM_SYNC_BEFORE) != 0;
		copy += f->symbols[at].kind == RECORD_COPY_CALL &&
			f->symbols[at - 1].kind != RECORD_COPY_CALL;
	}
	if (!m)
		return -1e9;
	score = log2(1 + (double)median(f->sorted, m) / (typical_ns + 1.0));
	score += (copy * 2 > m ? thresholds.find.sign : 0) +
		 (sync * 2 > m ? thresholds.find.sign / 2 : 0) +
		 (start * 2 > m ? thresholds.find.sign / 2 : 0) +
		 (optimizer * 2 > m ? thresholds.find.sign : 0);
	return score + thresholds.find.sign / 2 * log2((double)n / most);
}

static bool fits(const struct finder *f, const struct steps_rule *r, uint32_t at)
{
	const struct symbol *b = &f->symbols[at - 1], *y = &f->symbols[at];

	if (r->kind == RULE_PAUSE)
		return steps_pauses(y->flags, y->gap_ns, r->a);
	return steps_rule_fits(r, b->name, b->full, y->name, y->full);
}

static struct steps_rule rule_of(const struct finder *f, const struct witness *w, bool after)
{
	const struct symbol *y = &f->symbols[w->first];
	struct steps_rule r = {.kind = after ? RULE_AFTER : RULE_BEFORE,
			       .full = w->kind == FEATURE_FULL};

	r.a = r.full ? y->full : y->name;
	if (w->kind == FEATURE_PAUSE) {
		r.kind = RULE_PAUSE;
		r.a = f->pause_ns;
	} else if (w->kind == FEATURE_PAIR) {
		r.kind = RULE_BETWEEN;
		r.b = f->symbols[w->first + 1].name;
	}
	return r;
}

/* Lists the positions where the rule cuts in f->places. Returns their number. */
static uint32_t places_of(struct finder *f, const struct steps_rule *r)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < f->count; i++)
		if (fits(f, r, i))
			f->places[n++] = i;
	return n;
}

/* Whether the rule, derived from the n places, makes no further cuts between them. */
static bool rule_agrees(const struct finder *f, const struct steps_rule *r, uint32_t n,
			uint32_t typical)
{
	uint32_t fit = 0, misfit = 0, whole = 0;

	for (uint32_t i = 0; i < n; i++)
		fit += fits(f, r, f->places[i]);
	for (uint32_t i = 1; i < n; i++) {
		uint32_t from = f->places[i - 1], to = f->places[i];
		/* a match near a place is the same cut */
		uint32_t edge = STEPS_RULE_EDGE;
		bool cut = false;

		if (to - from > typical * (1 + thresholds.find.near) || to - from < 2 * edge)
			continue;
		whole++;
		for (uint32_t k = from + edge; k < to && !cut; k++)
			cut = fits(f, r, k);
		misfit += cut;
	}
	return 2 * fit >= n && misfit <= (1 - thresholds.part.nearly_all) * whole;
}

/* The most frequent name at the places, offset 0 (after the cut) or 1 (before it). */
static uint32_t usual_name(struct finder *f, uint32_t n, uint32_t offset)
{
	uint32_t best = 0, most = 0, run = 0, m = 0;

	for (uint32_t i = 0; i < n && m < RETURNS_MAX; i++)
		f->sorted[m++] = f->symbols[f->places[i] - offset].name;
	qsort(f->sorted, m, sizeof(*f->sorted), u32_order);
	for (uint32_t i = 0; i < m; i++) {
		run = i && f->sorted[i] == f->sorted[i - 1] ? run + 1 : 1;
		if (run > most) {
			most = run;
			best = f->sorted[i];
		}
	}
	return best;
}

/* The shortest distance between cuts of all rules that is a step. */
static uint32_t launches_min_of(struct finder *f, const struct steps_pattern *p)
{
	uint32_t m = 0, last = 0, least;

	for (uint32_t i = 1; i < f->count && m < RETURNS_MAX; i++) {
		bool cut = false;

		for (uint32_t r = 0; r < p->rule_count && !cut; r++)
			cut = fits(f, &p->rules[r], i);
		if (!cut)
			continue;
		if (last && i - last > thresholds.part.little * p->launches)
			f->sorted[m++] = i - last;
		last = i;
	}
	least = m ? u32_nth(f->sorted, m, m / 20) : (uint32_t)p->launches;
	return least / 5 > STEPS_RULE_EDGE   ? least / 5
	       : least / 2 < STEPS_RULE_EDGE ? least / 2
					     : STEPS_RULE_EDGE;
}

static void pattern_from(struct finder *f, const struct witness *w, bool after,
			 struct steps_pattern *out)
{
	uint32_t n = returns_of(f, w->kind, w->first, w->count), m = 0, before, next;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 1; i < n; i++)
		f->sorted[m++] = f->returns[i] - f->returns[i - 1];
	out->launches = median(f->sorted, m);
	if (n > 1) {
		const struct steps_item *a = item_of(f, f->returns[0]);
		const struct steps_item *b = item_of(f, f->returns[n - 1]);

		out->period_ns = (b->begin_ns - a->begin_ns) / (n - 1);
		out->rare_apart = (b->first_device - a->first_device) / (n - 1);
	}
	out->rules[out->rule_count++] = rule_of(f, w, after);
	n = places_of(f, &out->rules[0]);
	before = usual_name(f, n, 1);
	next = usual_name(f, n, 0);
	for (int k = RULE_BEFORE; n && k <= RULE_BETWEEN; k++) {
		struct steps_rule r = {.kind = (uint8_t)k,
				       .a = k == RULE_BEFORE ? next : before,
				       .b = k == RULE_BETWEEN ? next : 0};

		if (rule_agrees(f, &r, n, (uint32_t)out->launches))
			out->rules[out->rule_count++] = r;
	}
	out->launches_min = launches_min_of(f, out);
}

/* The best cut for the period. Returns its score. A pause cuts only a period of pauses: a host that
 * loses its CPU pauses in the middle of a step too. */
static double cut_choose(struct finder *f, const struct witness *period, struct steps_pattern *out)
{
	uint32_t most = 1;
	const struct witness *best = NULL;
	bool best_after = false;
	double best_score = -1e18;

	for (uint32_t i = 0; i < f->witness_count; i++)
		if (same_period(f->witnesses[i].period, period->period) &&
		    f->witnesses[i].count > most)
			most = f->witnesses[i].count;
	for (uint32_t i = 0; i < f->witness_count; i++) {
		const struct witness *w = &f->witnesses[i];

		if (!same_period(w->period, period->period) ||
		    (w->kind == FEATURE_PAUSE) != (period->kind == FEATURE_PAUSE))
			continue;
		for (int after = w->kind == FEATURE_PAIR; after < 2; after++) {
			double score;

			if (w->kind == FEATURE_PAUSE && after)
				break;
			score = cut_score(f, w, after, f->gap_ns, most);

			if (score <= best_score)
				continue;
			best_score = score;
			best = w;
			best_after = after;
		}
	}
	if (best && out)
		pattern_from(f, best, best_after, out);
	return best_score;
}

/* If all layers are equal, no kernel shows where a step ends, but a pause of the host does. A pause
 * is used only if the period has no other good cut, because a wait in every tenth step must not
 * join ten steps. */
static const struct witness *pause_choose(struct finder *f, const struct witness *base)
{
	const struct witness *pause = NULL;
	uint32_t segments, inner_count;

	for (uint32_t i = 0; i < f->witness_count; i++)
		if (f->witnesses[i].kind == FEATURE_PAUSE)
			pause = &f->witnesses[i];
	if (!pause || !base)
		return pause ? pause : base;
	if (pause->period < base->period * thresholds.find.longer ||
	    cut_choose(f, base, NULL) >= thresholds.find.sign)
		return base;
	segments_of(f, base, &segments);
	return is_steady(f, pause, &inner_count) ? pause : base;
}

/* Whether all frequent names had appeared by the middle of the history. */
static bool mature(const struct finder *f)
{
	for (uint32_t i = f->count / 2; i < f->count; i++)
		if (f->name_count[i] > 2)
			return false;
	return true;
}

/* Whether the period is one of layers or micro-batches, in a history of fewer than three steps. */
static bool is_part(struct finder *f, const struct steps_pattern *p, double cut_score)
{
	uint32_t names = 0, seldom = 0, places;

	for (uint32_t i = 0; i < f->count; i++) {
		names += f->name_count[i] > 0;
		seldom += f->name_count[i] > 0 && f->name_count[i] < thresholds.count.few;
	}
	if (seldom <= thresholds.part.little * names)
		return false;
	places = places_of(f, &p->rules[0]);
	return places <= thresholds.count.few ||
	       (cut_score < 2 * thresholds.find.sign && places <= PART_LAYERS_MAX);
}

static bool find(struct steps *s, struct finder *loaded, struct steps_pattern *out)
{
	const struct witness *period;
	struct finder f = *loaded;
	double score;

	out->part = false;

	if (f.count < 4)
		return false;
	f.slots_room = slots_of(f.count); /* smaller than the room, to clear less */
	f.gap_ns = gap_typical(&f);
	f.pause_ns = (uint32_t)fmin(UINT32_MAX, (f.gap_ns + 1.0) * thresholds.find.pause);
	f.regular_min = thresholds.part.mostly;
	witnesses_find(&f);
	period = pause_choose(&f, period_choose(&f));
	if (!period) {
		f.regular_min = 1 - thresholds.part.mostly;
		f.witness_count = 0;
		witnesses_find(&f);
		period = period_choose(&f);
	}
	if (!period)
		return false;
	score = cut_choose(&f, period, out);
	out->mature = mature(&f);
	/* In a live process more launches will come. */
	if (s->config.whole_first && is_part(&f, out, score)) {
		*out = (struct steps_pattern){.part = true};
		return false;
	}
	return out->period_ns <= s->config.period_max_ns;
}

bool steps_detect_find(struct steps *s, uint64_t first, uint64_t last, struct steps_pattern *out)
{
	struct finder f;

	if (last - first > s->config.launch_max)
		first = last - s->config.launch_max;
	lay_out(&f, s->scratch, s->config.launch_max);
	finder_load(&f, s->items, s->items_mask, first, last);
	return find(s, &f, out);
}

bool steps_detect_find_far(struct steps *s, struct steps_pattern *out)
{
	uint64_t first = s->rare_head > STEPS_RARE_MAX ? s->rare_head - STEPS_RARE_MAX : 0;
	struct finder f;

	lay_out(&f, s->scratch, s->config.launch_max);
	finder_load(&f, s->rare, STEPS_RARE_MAX - 1, first, s->rare_head);
	if (!find(s, &f, out))
		return false;
	out->far = true;
	return true;
}
