/* SPDX-License-Identifier: Apache-2.0
 * The step finder: takes records in, cuts the launches into steps, joins device records, and queues
 * finished steps.
 *
 * One ring holds all launches: the history in which we look for a pattern, the open step, and the
 * finished steps that wait for kernels. So nothing is copied when a pattern is found late. The
 * follower starts again at the oldest stored launch, and the past steps come out first. */
#include "analysis/steps/steps_private.h"
#include "model/thresholds.h"

#include "base/carve.h"
#include "base/hash.h"

#include <string.h>

/* Launches before the first search for a pattern, and the growth until the next search. */
#define DETECT_FIRST_LAUNCHES 64
/* A history with fewer launches is not searched in parts. */
#define PART_LAUNCHES_MIN 8192
#define DETECT_GROWTH_NUM 3
#define DETECT_GROWTH_DEN 2
/* We look for a period among the rare launches if the ring holds fewer than this many periods. If
 * it holds more, names occur three times, as the finder needs. */
#define NEAR_PERIODS 2
/* Rare launches before the first search among them, and the growth until the next. */
#define RARE_FIRST	16
#define RARE_GROWTH_NUM 5
#define RARE_GROWTH_DEN 4
/* Rows of the name table that are tried for a name. */
#define SEEN_WAYS 8u
/* The share of the ring that is added up at once when the open step fills the ring. */
#define FOLD_SHARE 16
/* Prefetch distance, in items, for the next launch and its kernel: a rank's ring is larger than the
 * inner caches. */
#define PUSH_AHEAD 8

void steps_config_default(struct steps_config *c)
{
	*c = (struct steps_config){
	    .launch_max = 65536,
	    .period_max_ns = 60000000000ull,
	    .max_wait_ns = 2000000000ull,
	    .lock_min_ns = 1000000000ull,
	};
}

static uint64_t power_of_two(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

static uint32_t launches_of(const struct steps_config *c)
{
	uint32_t n = c->launch_max < 1024 ? 1024 : c->launch_max;

	return n < 1u << 26 ? n : 1u << 26;
}

size_t steps_scratch_bytes(const struct steps_config *c)
{
	uint32_t n = launches_of(c);

	return steps_account_scratch_bytes(2 * n) + steps_detect_scratch_bytes(n);
}

static size_t lay_out(struct steps *s, void *memory, const struct steps_config *c)
{
	struct carve at = {.memory = memory};

	s->items_mask = power_of_two(launches_of(c)) - 1;
	s->pool_max = 2 * launches_of(c);
	carve_take(&at, 1, sizeof(*s));
	s->items = carve_take(&at, s->items_mask + 1, sizeof(*s->items));
	s->back = carve_take(&at, s->items_mask + 1, sizeof(*s->back));
	s->pool = carve_take(&at, s->pool_max, sizeof(*s->pool));
	s->pending = carve_take(&at, STEPS_PENDING_MAX, sizeof(*s->pending));
	s->marks = carve_take(&at, STEPS_MARKS_MAX, sizeof(*s->marks));
	s->rare = carve_take(&at, STEPS_RARE_MAX, sizeof(*s->rare));
	s->seen = carve_take(&at, STEPS_NAMES_SEEN, sizeof(*s->seen));
	s->fold = carve_take(&at, 1, sizeof(*s->fold));
	s->account = c->scratch ? c->scratch : carve_take(&at, 1, steps_scratch_bytes(c));
	return at.bytes;
}

size_t steps_memory_bytes(const struct steps_config *c)
{
	struct steps s;

	return lay_out(&s, NULL, c);
}

void steps_scratch_init(void *scratch)
{
	steps_account_init(scratch);
}

struct steps *steps_init(void *memory, const struct steps_config *c)
{
	struct steps *s = memory;

	memset(s, 0, sizeof(*s));
	lay_out(s, memory, c);
	s->config = *c;
	s->config.launch_max = launches_of(c);
	s->pool_free = s->copies_first = s->copies_last = STEPS_NONE;
	memset(s->seen, 0, STEPS_NAMES_SEEN * sizeof(*s->seen));
	s->scratch = (unsigned char *)s->account + steps_account_scratch_bytes(s->pool_max);
	if (!c->scratch)
		steps_scratch_init(s->account);
	s->open_flags = STEP_FLAG_FIRST;
	s->rare_look = RARE_FIRST;
	s->detect_at = c->whole_first ? s->config.launch_max : DETECT_FIRST_LAUNCHES;
	return s;
}

/* ---- finished steps ---- */

static bool waits_for_device(const struct steps_item *i)
{
	return i->flags & ITEM_EXPECTS && i->first_device == STEPS_NONE;
}

static struct steps_pending *pending_at(struct steps *s, uint32_t i)
{
	return &s->pending[(s->pending_head + i) % STEPS_PENDING_MAX];
}

static bool pending_full(const struct steps *s)
{
	return s->pending_count == STEPS_PENDING_MAX;
}

static struct steps_pending *pending_of(struct steps *s, uint64_t seq)
{
	uint32_t low = 0, high = s->pending_count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (pending_at(s, mid)->last <= seq)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == s->pending_count || pending_at(s, low)->first > seq)
		return NULL;
	return pending_at(s, low);
}

/* The class of steps with this mix of launches; a new class if none is similar. */
static uint32_t class_of(struct steps *s, uint64_t first, uint64_t last)
{
	uint32_t sketch[STEPS_SKETCH] = {0};
	uint32_t best = 0;
	double best_distance = 2;

	for (uint64_t q = first; q < last; q++)
		if (steps_is_symbol(steps_at(s, q)))
			sketch[steps_at(s, q)->name_token % STEPS_SKETCH]++;
	for (uint32_t c = 0; c < s->class_count; c++) {
		uint64_t differ = 0, sum = 0;
		double distance;

		for (uint32_t i = 0; i < STEPS_SKETCH; i++) {
			uint32_t a = sketch[i], b = s->classes[c].sketch[i];

			differ += a > b ? a - b : b - a;
			sum += a + b;
		}
		distance = sum ? (double)differ / (double)sum : 0;
		if (distance < best_distance) {
			best_distance = distance;
			best = c;
		}
	}
	if (best_distance < thresholds.part.shows || s->class_count == STEPS_CLASSES_MAX)
		return best;
	memcpy(s->classes[s->class_count].sketch, sketch, sizeof(sketch));
	return s->class_count++;
}

/* The number of launches in [first, last) without a kernel yet. Sets the gap flag in *flags. */
static uint32_t missing_in(const struct steps *s, uint64_t first, uint64_t last, uint32_t *flags)
{
	uint32_t missing = 0;

	for (uint64_t q = first; q < last; q++) {
		missing += waits_for_device(steps_at(s, q));
		if (steps_at(s, q)->flags & ITEM_GAP_BEFORE)
			*flags |= STEP_FLAG_GAP;
	}
	return missing;
}

/* Closes the open step before item `last`. */
static void close_step(struct steps *s, uint64_t last, uint64_t begin_ns, uint64_t end_ns,
		       uint32_t source)
{
	struct steps_pending *p = pending_at(s, s->pending_count);

	memset(p, 0, sizeof(*p));
	p->first = s->open_first;
	p->last = last;
	p->begin_ns = begin_ns;
	p->end_ns = end_ns > begin_ns ? end_ns : begin_ns;
	p->flags = s->open_flags;
	p->source = source;
	p->folded_launches = s->open_folded;
	p->folded = s->open_folds;
	s->open_folds = false;
	p->missing = missing_in(s, p->first, last, &p->flags);
	if (source == STEP_SOURCE_EXPLICIT) {
		p->mark = s->explicit_mark;
		p->phase = p->mark.phase;
	} else if (!(p->flags & STEP_FLAG_EDGE)) {
		p->phase = class_of(s, p->first, last);
		s->classes[p->phase].launches = last - p->first;
	}
	s->pending_count++;
	s->stats.boundaries++;
	s->open_first = last;
	s->open_begin_ns = p->end_ns;
	s->open_flags = 0;
	s->open_folded = 0;
}

/* ---- the follower ---- */

static void follow_explicit(struct steps *s, const struct steps_item *i, uint64_t seq)
{
	if (i->kind == RECORD_STEP_BEGIN) {
		uint64_t begin = i->begin_ns;

		if (s->in_explicit) {
			begin =
			    s->last_end_ns > s->explicit_begin_ns ? s->last_end_ns : i->begin_ns;
			close_step(s, seq, s->explicit_begin_ns, begin, STEP_SOURCE_EXPLICIT);
		} else if (i->flags & ITEM_CONTINUES && s->explicit_end_ns) {
			/* the engine had work all the time, so the time since the last mark belongs
			 * to this step */
			begin = s->explicit_end_ns;
		}
		s->explicit_begin_ns = begin;
		s->open_flags &= ~(uint32_t)STEP_FLAG_FIRST;
		s->explicit_mark = s->marks[i->mark];
		s->in_explicit = true;
	} else if (i->kind == RECORD_STEP_END && s->in_explicit) {
		close_step(s, seq, s->explicit_begin_ns, i->begin_ns, STEP_SOURCE_EXPLICIT);
		s->explicit_end_ns = i->begin_ns;
		s->in_explicit = false;
	}
}

/* The rule that cuts before this item; NULL: none. */
static const struct steps_rule *cuts_before(const struct steps *s, const struct steps_item *i)
{
	for (uint32_t k = 0; k < s->pattern.rule_count; k++) {
		const struct steps_rule *r = &s->pattern.rules[k];

		if (r->kind == RULE_PAUSE ? steps_pauses(i->flags, i->gap_ns, r->a)
					  : steps_rule_fits(r, s->before_name, s->before_full,
							    i->name_token, i->full_token))
			return r;
	}
	return NULL;
}

static void pattern_lost(struct steps *s)
{
	s->pattern.rule_count = 0;
	s->pattern.far = false;
	s->stats.period_ns = 0;
	/* the open step may become several steps; it is not judged */
	s->open_flags |= STEP_FLAG_RESYNC | STEP_FLAG_FIRST;
	s->detect_at = 0;
	s->search_ns = s->open_begin_ns;
	s->search_from = s->launches_seen - s->since_match;
	/* if the later half has the same pattern as the whole, no second search must agree */
	if (!steps_detect_find(s, s->open_first + (s->head - s->open_first) / 2, s->head,
			       &s->candidate))
		memset(&s->candidate, 0, sizeof(s->candidate));
}

/* The start of a history may lack the pattern that was found in it, because the names of its first
 * launches were not known. Dropping the pattern would find and lose it again in the same
 * history. */
static void cut_overdue(struct steps *s)
{
	if (s->follow < s->lock_head)
		s->since_match = (uint32_t)s->pattern.launches_min;
	else
		pattern_lost(s);
}

static void saw_end(struct steps *s, const struct steps_item *symbol)
{
	uint64_t end_ns = symbol->begin_ns + ((uint64_t)symbol->mark << 32 | symbol->host_ns);

	if (end_ns > s->last_end_ns)
		s->last_end_ns = end_ns;
}

/* Restarts the run of steps with further matches, at an item. */
static void early_restart(struct steps *s, uint64_t seq)
{
	s->early = false;
	s->early_steps = 0;
	s->early_first = seq;
}

/* Follows another pattern from now on. */
static void pattern_replace(struct steps *s, const struct steps_pattern *p)
{
	if (p->far != s->pattern.far) { /* the new pattern counts other launches */
		s->since_match = 0;
		s->before_name = s->before_full = 0;
	}
	s->pattern = *p;
	s->stats.period_ns = p->period_ns;
	early_restart(s, s->open_first);
	/* the open step began where the old pattern cut */
	s->open_flags |= STEP_FLAG_RESYNC | STEP_FLAG_FIRST;
}

/* Call at a cut. If consecutive steps hold further matches, each may be several steps. So the
 * launches from the first of these steps on are searched for a shorter pattern. */
static void look_for_shorter(struct steps *s, uint64_t seq)
{
	struct steps_pattern p;

	if (!s->early) {
		early_restart(s, seq);
		return;
	}
	s->early = false;
	if (++s->early_steps < s->early_look)
		return;
	s->early_look *= 2;
	if (steps_detect_find(s, s->early_first, seq, &p) && p.mature &&
	    p.launches * thresholds.find.longer <= s->pattern.launches)
		pattern_replace(s, &p);
}

static void follow_auto(struct steps *s, const struct steps_item *i, uint64_t seq)
{
	const struct steps_rule *cut;

	if (!steps_is_symbol(i))
		return;
	if (s->pattern.far && !(i->flags & ITEM_RARE)) {
		saw_end(s, i);
		return;
	}
	cut = cuts_before(s, i);
	if (!s->open_begin_ns) {
		s->open_begin_ns = i->begin_ns;
		/* If the recording begins at a cut, a second cut right after it is wrong. */
		if (cut)
			s->since_match = 0;
	}
	if (cut && seq > s->open_first && s->since_match >= s->pattern.launches_min) {
		close_step(s, seq, s->open_begin_ns, s->last_end_ns, STEP_SOURCE_AUTO);
		s->since_match = 0;
		s->lock_head = 0;
		if (!s->pattern.far)
			look_for_shorter(s, seq);
	} else if (cut && cut->kind != RULE_PAUSE && s->since_match > STEPS_RULE_EDGE) {
		s->early = true;
	}
	s->since_match++;
	s->before_name = i->name_token;
	s->before_full = i->full_token;
	saw_end(s, i);
}

static bool is_overdue(const struct steps *s, const struct steps_item *i)
{
	/* Rare launches may stop, so the count of launches alone may never become overdue. */
	if (s->pattern.far && s->open_begin_ns && i->begin_ns > s->open_begin_ns &&
	    i->begin_ns - s->open_begin_ns > thresholds.count.some * s->pattern.period_ns)
		return true;
	return s->since_match > thresholds.count.some * s->pattern.launches + 64;
}

/* Follows all new items while the queue of finished steps has room. */
static void follow(struct steps *s)
{
	while (s->follow < s->head && !pending_full(s)) {
		const struct steps_item *i = steps_at(s, s->follow);

		if (s->explicit_seen) {
			follow_explicit(s, i, s->follow);
			if (steps_is_symbol(i))
				saw_end(s, i);
		} else {
			if (!s->pattern.rule_count)
				return;
			follow_auto(s, i, s->follow);
			if (is_overdue(s, i))
				cut_overdue(s);
		}
		s->follow++;
	}
}

/* The launches after the last boundary of a file. They are a step if the step before of the same
 * class had as many. Otherwise they are a part of a step, or more than one. */
static void follow_end(struct steps *s)
{
	uint32_t phase;

	if (!s->finished || !s->config.whole_first || s->explicit_seen || !s->pattern.rule_count ||
	    s->follow < s->head || s->open_first == s->head || pending_full(s))
		return;
	phase = class_of(s, s->open_first, s->head);
	if (s->classes[phase].launches != s->head - s->open_first)
		s->open_flags |= STEP_FLAG_LAST;
	close_step(s, s->head, s->open_begin_ns, s->last_end_ns, STEP_SOURCE_AUTO);
}

static bool pattern_same(const struct steps_pattern *a, const struct steps_pattern *b)
{
	uint64_t low = a->launches < b->launches ? a->launches : b->launches;
	uint64_t high = a->launches + b->launches - low;

	return a->rule_count && b->rule_count && a->far == b->far &&
	       high <= (1 + thresholds.fit.near) * low;
}

static bool rule_same(const struct steps_rule *a, const struct steps_rule *b)
{
	return a->kind == b->kind && a->full == b->full && a->a == b->a && a->b == b->b;
}

/* Launches since the search began: at the first launch, or where a pattern was lost. */
static uint64_t searched(const struct steps *s)
{
	return s->launches_seen - s->search_from;
}

static void pattern_lock(struct steps *s, const struct steps_pattern *p)
{
	s->pattern = *p;
	s->locked_after = searched(s);
	s->lock_head = s->head;
	s->stats.period_ns = p->period_ns;
	s->last_end_ns = s->open_begin_ns;
	s->early_look = thresholds.count.some;
	early_restart(s, s->open_first);
	s->before_name = s->before_full = 0;
	/* In a first step the first cut may come at once, because what lies before it is not a whole
	 * step. */
	s->since_match = s->open_flags & STEP_FLAG_FIRST ? (uint32_t)p->launches_min : 0;
	s->follow = s->open_first;
}

/* Searches a period that is too long for the ring among the rare launches. */
static bool find_far(struct steps *s, struct steps_pattern *p)
{
	return !s->config.whole_first && steps_detect_find_far(s, p) &&
	       p->rare_apart > (s->items_mask + 1) / NEAR_PERIODS;
}

/* Searches all launches that have no pattern yet. In a long recording each launch may recur more
 * often than the finder counts, so halves are tried from the end. */
static bool find_in_open(struct steps *s, struct steps_pattern *p)
{
	uint64_t first = s->open_first;

	if (find_far(s, p))
		return true;
	while (!steps_detect_find(s, first, s->head, p)) {
		if (!s->config.whole_first || p->part || s->head - first < PART_LAUNCHES_MIN)
			return false;
		first += (s->head - first) / 2;
	}
	return true;
}

/* Searches a pattern. Locks when two searches agree, or at once if there will be no other. */
static void detect(struct steps *s, bool last_chance)
{
	struct steps_pattern p;
	uint64_t next = s->search_from + searched(s) * DETECT_GROWTH_NUM / DETECT_GROWTH_DEN;
	uint64_t most = s->launches_seen + s->config.launch_max / 4;

	s->detect_at = next < most ? next : most;
	if (!find_in_open(s, &p)) {
		memset(&s->candidate, 0, sizeof(s->candidate));
		return;
	}
	if (last_chance || s->config.whole_first ||
	    (pattern_same(&p, &s->candidate) && p.mature &&
	     s->now_ns - s->search_ns >= s->config.lock_min_ns))
		pattern_lock(s, &p);
	s->candidate = p;
}

/* Searches the rare launches, at growing intervals. */
static void detect_far(struct steps *s)
{
	struct steps_pattern p;

	s->rare_look = s->rare_head * RARE_GROWTH_NUM / RARE_GROWTH_DEN + RARE_FIRST;
	if (s->pattern.rule_count && find_far(s, &p) && !pattern_same(&p, &s->pattern))
		pattern_replace(s, &p);
}

/* Searches again in all stored launches, because the pattern that was found early may be a layer or
 * a micro-batch. The intervals grow while the pattern is confirmed. */
static void detect_again(struct steps *s)
{
	uint64_t size = s->config.launch_max < s->items_mask ? s->config.launch_max : s->items_mask;
	uint64_t first = s->head > size ? s->head - size : 0;
	struct steps_pattern p;

	s->detect_at = s->search_from + searched(s) * DETECT_GROWTH_NUM / DETECT_GROWTH_DEN;
	if (!find_far(s, &p) && (s->pattern.far || !steps_detect_find(s, first, s->head, &p)))
		return;
	if (pattern_same(&p, &s->pattern) &&
	    (searched(s) > thresholds.count.some * s->locked_after ||
	     rule_same(&p.rules[0], &s->pattern.rules[0]))) {
		s->detect_at = s->search_from + searched(s) * 2;
		return;
	}
	/* Too few periods are stored, so a part of one could be mistaken for the whole. */
	if (!p.far && 2 * p.launches < s->pattern.launches &&
	    s->head - first < thresholds.count.few * s->pattern.launches)
		return;
	pattern_replace(s, &p);
}

/* ---- input ---- */

/* Drops the oldest item to make room. */
static void drop_oldest(struct steps *s)
{
	struct steps_item *i = steps_at(s, s->tail);
	bool symbol = steps_is_symbol(i);

	steps_account_free(s, i);
	if (s->pending_count) {
		struct steps_pending *p = pending_at(s, 0);

		if (p->first == s->tail && p->first < p->last) {
			if (p->missing && waits_for_device(i))
				p->missing--;
			p->first++;
			p->flags |= STEP_FLAG_INCOMPLETE;
			p->folded_launches += symbol;
		}
	} else if (s->open_first == s->tail) {
		s->open_first++;
		if (s->follow < s->open_first)
			s->follow = s->open_first;
		if (!s->pattern.rule_count && !s->explicit_seen) {
			s->open_flags |= STEP_FLAG_FIRST;
			s->open_begin_ns = 0;
			s->fold_used &= !s->open_folds;
			s->open_folds = false;
		} else {
			s->open_flags |= STEP_FLAG_INCOMPLETE;
			s->open_folded += symbol;
		}
	}
	s->tail++;
}

/* The open step is longer than the ring. Adds up its oldest launches, so that the step stays whole.
 * False: the oldest launches belong to another step, or the step has no boundary yet. */
static bool fold_oldest(struct steps *s)
{
	uint64_t first = s->open_first, last = first + (s->items_mask + 1) / FOLD_SHARE;

	if (s->pending_count || first != s->tail || last > s->follow ||
	    (s->fold_used && !s->open_folds) || (!s->pattern.rule_count && !s->explicit_seen))
		return false;
	if (missing_in(s, first, last, &s->open_flags))
		s->open_flags |= STEP_FLAG_INCOMPLETE;
	steps_account_fold(s, first, last);
	s->tail = s->open_first = last;
	return true;
}

/* The name's row, perhaps a new one. NULL: all possible rows belong to names that were seen
 * recently. */
static struct steps_seen *find_seen(const struct steps *s, uint32_t name_token)
{
	struct steps_seen *row = &s->seen[name_token % (STEPS_NAMES_SEEN / SEEN_WAYS) * SEEN_WAYS];
	struct steps_seen *oldest = row;

	for (uint32_t i = 0; i < SEEN_WAYS; i++) {
		if (row[i].used && row[i].name_token == name_token)
			return &row[i];
		if (!row[i].used || (oldest->used && row[i].seq < oldest->seq))
			oldest = &row[i];
	}
	if (oldest->used && s->head - oldest->seq <= STEPS_AWAY(s))
		return NULL;
	*oldest = (struct steps_seen){.name_token = name_token};
	return oldest;
}

/* Whether the name was absent for long, or is new. Names recur in the same order, so the row that
 * followed last time is tried first, and was prefetched. */
static bool note_seen(struct steps *s, uint32_t name_token)
{
	struct steps_seen *row = &s->seen[s->seen_guess];
	bool away;

	if (!row->used || row->name_token != name_token)
		row = find_seen(s, name_token);
	if (!row)
		return false;
	away = !row->used || s->head - row->seq > STEPS_AWAY(s);
	row->used = true;
	row->seq = s->head;
	s->seen[s->seen_last].next = (uint16_t)(row - s->seen);
	s->seen_last = (uint32_t)(row - s->seen);
	s->seen_guess = row->next;
	__builtin_prefetch(&s->seen[row->next]);
	return away;
}

/* Adds products with odd factors, because a chain of hashes would wait for each result. */
static void tokens_of(const struct record *r, struct steps_item *i)
{
	uint64_t name = hash_mix(((uint64_t)r->kind << 40) ^ ((uint64_t)r->func << 32) ^ r->name);
	uint64_t full = name + (r->bytes ^ (uint64_t)r->block[2] << 48) * 0x9e3779b97f4a7c15ull +
			(r->stream ^ r->key) * 0xd6e8feb86659fd93ull;

	if (r->kind == RECORD_LAUNCH || r->kind == RECORD_GRAPH_LAUNCH)
		full += ((uint64_t)r->grid[0] << 32 | r->grid[1]) * 0xbf58476d1ce4e5b9ull +
			((uint64_t)r->grid[2] << 32 | (uint32_t)r->block[0] << 16 | r->block[1]) *
			    0x94d049bb133111ebull;
	i->name_token = (uint32_t)name;
	i->full_token = (uint32_t)hash_mix(full);
}

static uint32_t saturate32(uint64_t n)
{
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static bool pushed_as_item(const struct steps *s, const struct record *r)
{
	switch (r->kind) {
	case RECORD_STEP_BEGIN:
	case RECORD_STEP_END:
		return !s->config.automatic_only;
	case RECORD_COLL:
		return r->func < RECORD_COLL_GROUP_START || r->func > RECORD_COLL_GROUP_SIMULATE;
	case RECORD_LAUNCH:
	case RECORD_GRAPH_LAUNCH:
	case RECORD_COPY_CALL:
		return !(r->flags & (RECORD_FLAG_FAILED | RECORD_FLAG_CAPTURED));
	}
	return false;
}

static void item_fill(struct steps *s, struct steps_item *i, const struct record *r)
{
	uint64_t end_ns = r->end_ns > r->begin_ns ? r->end_ns : r->begin_ns;
	uint64_t host_ns = end_ns - r->begin_ns;

	if (host_ns > STEPS_HOST_NS_MAX)
		host_ns = STEPS_HOST_NS_MAX;
	memset(i, 0, sizeof(*i));
	i->begin_ns = r->begin_ns;
	i->host_ns = (uint32_t)host_ns;
	i->mark = (uint16_t)(host_ns >> 32);
	i->kind = (uint8_t)r->kind;
	i->flags = (uint8_t)s->next_flags;
	i->first_device = STEPS_NONE;
	i->amount = r->bytes;
	if (steps_is_symbol(i) && r->kind != RECORD_COLL && !(r->flags & RECORD_FLAG_UNMATCHED))
		i->flags |= ITEM_EXPECTS;
	if (r->flags & RECORD_FLAG_OPTIMIZER)
		i->flags |= ITEM_OPTIMIZER;
	if (r->kind == RECORD_LAUNCH)
		i->amount = saturate32((uint64_t)r->grid[0] * (r->grid[1] ? r->grid[1] : 1) *
				       (r->grid[2] ? r->grid[2] : 1));
	tokens_of(r, i);
	if (s->head > s->tail) {
		uint64_t gap = i->begin_ns > s->pushed_end_ns ? i->begin_ns - s->pushed_end_ns : 0;

		i->gap_ns = saturate32(gap > s->last_sync_ns ? gap - s->last_sync_ns : 0);
	}
	s->pushed_end_ns = end_ns;
	s->next_flags = 0;
	s->last_sync_ns = 0;
}

static void push_mark(struct steps *s, struct steps_item *i, const struct record *r,
		      const struct step_mark *mark)
{
	struct step_mark *slot = &s->marks[s->marks_head % STEPS_MARKS_MAX];

	*slot = mark ? *mark : (struct step_mark){.work_count = 0};
	if (slot->work_count > STEP_WORK_MAX)
		slot->work_count = STEP_WORK_MAX;
	i->mark = (uint16_t)(s->marks_head++ % STEPS_MARKS_MAX);
	if (r->flags & RECORD_FLAG_CONTINUES)
		i->flags |= ITEM_CONTINUES;
	i->first_device = STEPS_NONE;
}

static uint32_t *back_of(struct steps *s, uint64_t seq)
{
	return &s->back[seq & s->items_mask];
}

/* Sets the item's entry in s->back. The item is not in the ring yet. */
static void push_back(struct steps *s, const struct steps_item *i)
{
	const struct steps_item *before = s->head > s->tail ? steps_at(s, s->head - 1) : NULL;
	uint32_t *back = back_of(s, s->head);

	if (steps_is_symbol(i)) {
		if (before && before->begin_ns == i->begin_ns)
			*back = 1;
	} else if (before) {
		*back = steps_is_symbol(before) ? 1 : saturate32(*back_of(s, s->head - 1) + 1ull);
	} else {
		*back = UINT32_MAX;
	}
}

/* Switches from automatic to explicit steps. Steps that were cut stay; later items are cut at marks
 * only. */
static void switch_to_explicit(struct steps *s)
{
	s->explicit_seen = true;
	s->pattern.rule_count = 0;
	s->stats.period_ns = 0;
	s->follow = s->head;
	s->last_end_ns = 0;
}

void steps_push_host(struct steps *s, const struct record *r, const struct step_mark *mark)
{
	struct steps_item *i;

	if (r->end_ns > s->now_ns)
		s->now_ns = r->end_ns;
	if (r->kind == RECORD_SYNC) {
		if (r->end_ns > r->begin_ns)
			s->last_sync_ns += r->end_ns - r->begin_ns;
		s->next_flags |= ITEM_SYNC_BEFORE;
		return;
	}
	if (r->kind == RECORD_GAP && !(r->flags & RECORD_FLAG_COARSE))
		s->next_flags |= ITEM_GAP_BEFORE;
	if (!pushed_as_item(s, r))
		return;
	if (s->head - s->tail > s->items_mask && !fold_oldest(s))
		drop_oldest(s);
	if (!s->explicit_seen && (r->kind == RECORD_STEP_BEGIN || r->kind == RECORD_STEP_END))
		switch_to_explicit(s);
	i = steps_at(s, s->head);
	__builtin_prefetch(steps_at(s, s->head + PUSH_AHEAD), 1);
	item_fill(s, i, r);
	push_back(s, i);
	if (r->kind == RECORD_STEP_BEGIN)
		push_mark(s, i, r, mark);
	if (!s->config.whole_first && steps_is_symbol(i) && note_seen(s, i->name_token)) {
		struct steps_item *rare = &s->rare[s->rare_head++ % STEPS_RARE_MAX];

		i->flags |= ITEM_RARE;
		*rare = *i;
		rare->first_device = (uint32_t)s->head;
	}
	s->head++;
	if (!s->launches_seen++)
		s->search_ns = r->begin_ns;
	if (!s->explicit_seen && s->launches_seen >= s->detect_at) {
		if (s->pattern.rule_count)
			detect_again(s);
		else
			detect(s, false);
	}
	if (!s->explicit_seen && s->rare_head >= s->rare_look)
		detect_far(s);
	follow(s);
}

/* The next item to try from `seq` among those that began at `ns`; `seq` itself: no more. */
static uint64_t next_back(struct steps *s, uint64_t seq, uint64_t ns)
{
	uint32_t back;

	s->stats.looked_back++;
	if (seq == s->tail || steps_at(s, seq - 1)->begin_ns != ns)
		return seq;
	back = *back_of(s, seq);
	return back <= seq - s->tail && steps_at(s, seq - back)->begin_ns == ns ? seq - back : seq;
}

/* Threads may launch in the same nanosecond. Of such launches, finds one that still waits for its
 * kernel. A launch that has its kernel never waits again, so the shortcut past it stays valid. */
static uint64_t find_waiting(struct steps *s, uint64_t found)
{
	uint64_t ns = steps_at(s, found)->begin_ns, end = found, next;

	while (!waits_for_device(steps_at(s, end)) && (next = next_back(s, end, ns)) != end)
		end = next;
	for (uint64_t k = found; k != end; k = next) {
		next = k - *back_of(s, k);
		/* a mark's entry points to the symbol before it */
		if (steps_is_symbol(steps_at(s, k)))
			*back_of(s, k) = (uint32_t)(k - end);
	}
	return waits_for_device(steps_at(s, end)) ? end : found;
}

/* The last symbol at or before an item. */
static uint64_t symbol_at(struct steps *s, uint64_t seq)
{
	if (steps_is_symbol(steps_at(s, seq)))
		return seq;
	s->stats.looked_back++;
	return *back_of(s, seq) < seq - s->tail ? seq - *back_of(s, seq) : s->tail;
}

/* The item whose launch began at launch_ns, or the latest one before it. False: it is no longer
 * stored. */
static bool find_item(struct steps *s, uint64_t launch_ns, uint64_t *out)
{
	uint64_t low, high, step = 1;

	if (s->head == s->tail || launch_ns < steps_at(s, s->tail)->begin_ns)
		return false;
	low = s->find_seq < s->head ? s->find_seq : s->head - 1;
	low = high = low > s->tail ? low : s->tail;
	while (low > s->tail && steps_at(s, low)->begin_ns > launch_ns) {
		low = low - s->tail > step ? low - step : s->tail;
		step <<= 1;
	}
	step = 1;
	while (high < s->head && steps_at(s, high)->begin_ns <= launch_ns) {
		high += step;
		step <<= 1;
	}
	if (high > s->head)
		high = s->head;
	while (low + 1 < high) {
		uint64_t mid = low + (high - low) / 2;

		if (steps_at(s, mid)->begin_ns <= launch_ns)
			low = mid;
		else
			high = mid;
	}
	low = symbol_at(s, low);
	s->find_seq = low;
	*out = find_waiting(s, low);
	return true;
}

static uint32_t pool_alloc(struct steps *s)
{
	uint32_t slot = s->pool_free;

	if (slot != STEPS_NONE) {
		s->pool_free = s->pool[slot].next;
		return slot;
	}
	if (s->pool_used < s->pool_max)
		return s->pool_used++;
	/* The pool is full: reuse the oldest copy, which no step has claimed. */
	return steps_account_pop_copy(s);
}

static struct steps_device device_of(const struct record *r)
{
	return (struct steps_device){
	    .begin_ns = r->begin_ns,
	    .end_ns = r->end_ns > r->begin_ns ? r->end_ns : r->begin_ns,
	    .name = r->name,
	    .next = STEPS_NONE,
	    .bytes = r->bytes,
	    .kind = (uint8_t)r->kind,
	    .func = r->func,
	};
}

static void push_copy(struct steps *s, const struct record *r)
{
	uint32_t slot = pool_alloc(s);

	if (slot == STEPS_NONE)
		return;
	s->pool[slot] = device_of(r);
	s->pool[slot].listed = true;
	if (s->copies_first == STEPS_NONE)
		s->copies_first = slot;
	else
		s->pool[s->copies_last].next = slot;
	s->copies_last = slot;
}

void steps_push_device(struct steps *s, const struct record *r)
{
	bool unmatched = !r->launch_ns || (r->flags & RECORD_FLAG_UNMATCHED);
	struct steps_device *d;
	struct steps_item *i;
	uint64_t seq;
	uint32_t slot;

	if (r->begin_ns > s->now_ns)
		s->now_ns = r->begin_ns;
	if (!unmatched && r->launch_ns > s->device_launch_max_ns &&
	    (r->kind == RECORD_KERNEL || r->kind == RECORD_COLL_KERNEL))
		s->device_launch_max_ns = r->launch_ns;
	if (unmatched && (r->kind == RECORD_COPY || r->kind == RECORD_MEMSET)) {
		push_copy(s, r);
		return;
	}
	if (!find_item(s, unmatched ? r->begin_ns : r->launch_ns, &seq))
		return;
	slot = pool_alloc(s);
	if (slot == STEPS_NONE)
		return;
	i = steps_at(s, seq);
	/* The next record probably belongs to that launch: launches and kernels come in the same
	 * order. */
	__builtin_prefetch(steps_at(s, seq + PUSH_AHEAD), 1);
	if (s->pool_free != STEPS_NONE)
		__builtin_prefetch(&s->pool[s->pool_free], 1);
	/* In a live process the name becomes known with the kernel. */
	if (!unmatched && (r->flags & RECORD_FLAG_OPTIMIZER))
		i->flags |= ITEM_OPTIMIZER;
	if (waits_for_device(i)) {
		struct steps_pending *p = pending_of(s, seq);

		if (p && p->missing)
			p->missing--;
	}
	d = &s->pool[slot];
	*d = device_of(r);
	d->unmatched = unmatched;
	d->next = i->first_device;
	i->first_device = slot;
}

void steps_advance(struct steps *s, uint64_t device_ns)
{
	if (device_ns > s->device_now_ns)
		s->device_now_ns = device_ns;
	if (device_ns > s->now_ns)
		s->now_ns = device_ns;
}

void steps_finish(struct steps *s)
{
	if (!s->explicit_seen && !s->pattern.rule_count && s->head > s->open_first)
		detect(s, true);
	s->stats.few = s->config.whole_first && s->launches_seen && !s->explicit_seen &&
		       !s->pattern.rule_count && !s->stats.boundaries;
	s->finished = true;
	follow(s);
	follow_end(s);
}

static bool pending_ready(const struct steps *s, const struct steps_pending *p)
{
	if (s->finished || !p->missing)
		return true;
	if (s->now_ns > p->end_ns && s->now_ns - p->end_ns > s->config.max_wait_ns)
		return true;
	/* later launches have already run, and all records up to now are known */
	return s->device_launch_max_ns > p->end_ns && s->device_now_ns > p->end_ns &&
	       s->device_launch_max_ns < s->device_now_ns;
}

bool steps_next(struct steps *s, struct step *out, struct step_kernel *kernels,
		uint32_t *kernel_count)
{
	struct steps_pending p;

	if (s->finished) {
		follow(s);
		follow_end(s);
	}
	if (!s->pending_count || !pending_ready(s, pending_at(s, 0)))
		return false;
	p = *pending_at(s, 0);
	if (p.missing)
		p.flags |= STEP_FLAG_INCOMPLETE;
	steps_account_step(s, &p, out, kernels, kernel_count);
	out->index = s->step_index++;
	if (p.last > s->tail)
		s->tail = p.last;
	s->pending_head = (s->pending_head + 1) % STEPS_PENDING_MAX;
	s->pending_count--;
	if (!s->finished)
		follow(s);
	return true;
}

void steps_stats(const struct steps *s, struct steps_stats *out)
{
	*out = s->stats;
}
