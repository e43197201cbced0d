/* SPDX-License-Identifier: Apache-2.0
 * A slow stretch is a run of slow steps. It founds a kind when earlier stretches like it lie at
 * equal distances before it, down to the first judged step, and no stretch like them lies elsewhere
 * that does not come again at this distance too. Two of them say little: the first vouches for one
 * other only, so that a hiccup hides no more than a fault's first step, and the third confirms the
 * kind or it is gone. A stretch that has grown holds the kind's place and teaches it nothing; what
 * is too much is a stretch of its own, perhaps of another kind. */
#include "analysis/steps/kinds.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

#define NO_STEP UINT64_MAX

struct event {
	uint64_t first, last; /* steps */
	uint32_t part;
	double first_ns, extra_ns; /* beyond expectation: of its first step, of all */
	bool paired;		   /* it has founded a kind with one other */
};

struct place {
	bool used, grown;
	uint32_t part, missed; /* missed: places in a row */
	uint64_t period, first, last;
	uint64_t count, steps;
	/* first_ns: what the first step of the latest occurrence added */
	double total_ns, first_ns, extra[KINDS_EXTRAS];
	uint32_t extras; /* pushed so far */
};

struct work {
	uint64_t key, first, begin, last; /* begin: of the latest run */
	uint64_t runs, steps, gap, gap_before;
	double total_ns, launches, collectives;
};

struct near_step {
	uint64_t key;
	double compute_ns, copy_ns;
};

struct interval {
	uint64_t first, last; /* steps */
};

struct kinds {
	struct kinds_config config;
	uint64_t start; /* the first step that was judged against an expectation */
	uint64_t next;	/* the step after the latest one */
	/* Later steps that were not judged: nothing was expected of them, or they were left out. */
	struct interval unseen[KINDS_UNSEEN];
	uint64_t unseens; /* pushed so far */
	bool past_unknown, is_open;
	/* over: of the open one, from where it grew on; first_ns 0: nowhere */
	struct event open, over;
	/* the open stretch's kinds, a bit per place: several where they come together */
	uint32_t of;
	struct event event[KINDS_EVENTS];
	uint64_t events; /* pushed so far */
	struct place place[KINDS_PLACES];
	struct work work[KINDS_WORKS];
	uint32_t works;
	struct near_step near[KINDS_NEAR];
	uint64_t nears; /* pushed so far */
	double total_ns;
};

void kinds_config_default(struct kinds_config *c)
{
	*c = (struct kinds_config){.alike_ratio = thresholds.same.factor,
				   .tail_mads = thresholds.fit.mads,
				   .floor_ratio = thresholds.excess.instant,
				   .few_ratio = thresholds.part.most,
				   .jitter_share = thresholds.excess.near,
				   .miss_max = thresholds.count.few - 1};
}

const char *kinds_part_name(unsigned part)
{
	static const char *const names[KINDS_PARTS] = {"host", "compute", "copy", "wait"};

	return part < KINDS_PARTS ? names[part] : "unknown";
}

size_t kinds_memory_bytes(void)
{
	return sizeof(struct kinds);
}

struct kinds *kinds_init(void *memory, const struct kinds_config *c)
{
	struct kinds *k = memory;

	memset(k, 0, sizeof(*k));
	k->config = *c;
	k->start = NO_STEP;
	return k;
}

void kinds_past_unknown(struct kinds *k)
{
	k->past_unknown = true;
}

/* ---- which account is longer ---- */

static double usual_of(const struct kinds *k, uint64_t key, bool copies)
{
	double v[KINDS_NEAR];
	uint32_t n = 0;

	for (uint32_t i = 0; i < KINDS_NEAR && i < k->nears; i++)
		if (k->near[i].key == key)
			v[n++] = copies ? k->near[i].copy_ns : k->near[i].compute_ns;
	return median_of(v, n);
}

/* part_ns: by how much each part is longer. */
static uint32_t part_of(const struct kinds *k, const struct step *s, double expected_ns,
			double expected_self_ns)
{
	double own = (double)s->self_ns - expected_self_ns, most;
	double part_ns[KINDS_PARTS];
	uint32_t part = KINDS_HOST;

	part_ns[KINDS_WAIT] = (double)s->latency_ns - expected_ns - own;
	part_ns[KINDS_COMPUTE] = (double)s->compute_ns - usual_of(k, s->key, false);
	part_ns[KINDS_COPY] = (double)s->copy_ns - usual_of(k, s->key, true);
	part_ns[KINDS_HOST] = own - part_ns[KINDS_COMPUTE] - part_ns[KINDS_COPY];
	most = part_ns[part];
	for (uint32_t i = 1; i < KINDS_PARTS; i++)
		if (part_ns[i] > most) {
			most = part_ns[i];
			part = i;
		}
	return part;
}

/* ---- kinds by place ---- */

static uint64_t jitter(const struct kinds *k, uint64_t period)
{
	return (uint64_t)(k->config.jitter_share * (double)period);
}

static bool is_near(uint64_t a, uint64_t b, uint64_t most)
{
	return (a > b ? a - b : b - a) <= most;
}

static bool is_alike(const struct kinds *k, const struct event *e, uint32_t part, double first_ns)
{
	return e->part == part && e->first_ns <= k->config.alike_ratio * first_ns &&
	       first_ns <= k->config.alike_ratio * e->first_ns;
}

/* What an occurrence adds as a rule, and from when on it has grown. */
static double usual_extra(const struct kinds *k, const struct place *p, double *limit)
{
	uint32_t n = p->extras < KINDS_EXTRAS ? p->extras : KINDS_EXTRAS;
	double v[KINDS_EXTRAS], usual, mad, tail;

	for (uint32_t i = 0; i < n; i++)
		v[i] = log(p->extra[i]);
	usual = median_of(v, n);
	mad = median_mad(v, n, usual);
	tail = exp(k->config.tail_mads * MEDIAN_MAD_SIGMA * mad);
	*limit = exp(usual) * fmax(tail, 1 + k->config.floor_ratio) * (1 + k->config.few_ratio / n);
	return exp(usual);
}

static uint32_t event_count(const struct kinds *k)
{
	return k->events < KINDS_EVENTS ? (uint32_t)k->events : KINDS_EVENTS;
}

/* The event like it at that step; NULL: none. */
static const struct event *event_at(const struct kinds *k, uint64_t step, uint64_t most,
				    uint32_t part, double first_ns)
{
	for (uint32_t i = 0; i < event_count(k); i++)
		if (is_near(k->event[i].first, step, most) &&
		    is_alike(k, &k->event[i], part, first_ns))
			return &k->event[i];
	return NULL;
}

static void pass_unseen(struct kinds *k, uint64_t first, uint64_t last)
{
	struct interval *i = &k->unseen[(k->unseens + KINDS_UNSEEN - 1) % KINDS_UNSEEN];

	if (k->unseens && i->last + 1 == first)
		i->last = last;
	else
		k->unseen[k->unseens++ % KINDS_UNSEEN] = (struct interval){first, last};
}

static bool is_unseen(const struct kinds *k, uint64_t step, uint64_t most)
{
	for (uint32_t i = 0; i < KINDS_UNSEEN && i < k->unseens; i++)
		if (k->unseen[i].first <= step + most && step <= k->unseen[i].last + most)
			return true;
	return false;
}

/* The occurrence before *at at this distance, and its place in *at. NULL: its place was before the first
 * judged step, or *is_empty. A place of which no step was judged is passed over. */
static const struct event *one_before(const struct kinds *k, uint64_t *at, uint64_t period,
				      uint32_t part, double first_ns, bool *is_empty)
{
	uint64_t most = jitter(k, period);

	*is_empty = false;
	while (*at >= period && *at - period >= k->start) {
		const struct event *e = event_at(k, *at - period, most, part, first_ns);

		*at = e ? e->first : *at - period;
		*is_empty = !e && !is_unseen(k, *at, most);
		if (e || *is_empty)
			return e;
	}
	return NULL;
}

/* Occurrences at this distance, the one at `step` among them, where no place is empty; else 0. */
static uint32_t chain(const struct kinds *k, uint64_t step, uint64_t period, uint32_t part,
		      double first_ns)
{
	bool is_empty = false;
	uint32_t n = 1;

	while (one_before(k, &step, period, part, first_ns, &is_empty))
		n++;
	return is_empty ? 0 : n;
}

/* Whether stretches like it come again at this distance, all of them but those of the first period:
 * else it is one of many distances that a fault's steps have, and they were not there all along. */
static bool repeats(const struct kinds *k, uint64_t step, uint64_t period, uint32_t part,
		    double first_ns)
{
	for (uint32_t i = 0; i < event_count(k); i++) {
		const struct event *e = &k->event[i];

		uint64_t at = e->first;
		bool is_empty;

		if (!is_alike(k, e, part, first_ns) || e->first + 1 >= step)
			continue;
		one_before(k, &at, period, part, first_ns, &is_empty);
		if (is_empty)
			return false;
	}
	return true;
}

static void teach(struct place *p, double extra_ns)
{
	p->extra[p->extras++ % KINDS_EXTRAS] = extra_ns;
}

static struct place *room(struct kinds *k)
{
	struct place *least = &k->place[0];

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		if (!k->place[i].used)
			return &k->place[i];
		if (k->place[i].total_ns < least->total_ns)
			least = &k->place[i];
	}
	return least;
}

/* The kind of which the stretch that begins with this step is the latest occurrence; NULL: of none. */
static struct place *found(struct kinds *k, uint64_t step, uint32_t part, double first_ns)
{
	struct event *pair = NULL;
	const struct event *before;
	uint64_t period = 0, at = step;
	struct place *p;
	uint32_t best = 0;
	bool is_empty;

	for (uint32_t i = 0; i < event_count(k) && !k->past_unknown; i++) {
		struct event *e = &k->event[i];
		uint64_t distance = step - e->first;
		uint32_t n = 0;

		if (e->last + 1 < step && is_alike(k, e, part, first_ns))
			n = chain(k, step, distance, part, first_ns);
		if (n > best && (n > 2 || (n == 2 && !e->paired)) &&
		    repeats(k, step, distance, part, first_ns)) {
			best = n;
			period = distance;
			pair = n == 2 ? e : NULL;
		}
	}
	if (!best)
		return NULL;
	if (pair)
		pair->paired = true;
	p = room(k);
	*p = (struct place){
	    .used = true, .part = part, .period = period, .last = step, .first_ns = first_ns};
	while ((before = one_before(k, &at, period, part, first_ns, &is_empty))) {
		p->first = before->first;
		p->count++;
		p->steps += before->last + 1 - before->first;
		p->total_ns += before->extra_ns;
		teach(p, before->extra_ns);
	}
	return p;
}

/* A kind that is due and adds no more than twice this, so that a little slowness near its place doesn't
 * count as the occurrence; NULL: none. part KINDS_PARTS: any. */
static struct place *kind_at(struct kinds *k, uint64_t step, uint32_t part, double first_ns)
{
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];

		if (p->used && !(k->of & 1u << i) && (p->part == part || part == KINDS_PARTS) &&
		    p->first_ns <= k->config.alike_ratio * first_ns &&
		    is_near(step, p->last + p->period, jitter(k, p->period))) {
			p->last = step;
			return p;
		}
	}
	return NULL;
}

/* Places that were passed without an occurrence, or unseen as nothing was expected there. */
static void pass_places(struct kinds *k, uint64_t step, bool seen)
{
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];

		if (!p->used || k->of & 1u << i ||
		    step <= p->last + p->period + jitter(k, p->period))
			continue;
		p->last += p->period;
		p->missed += seen;
		if (p->count + !seen < thresholds.count.few || p->missed >= k->config.miss_max)
			p->used = false;
	}
}

/* ---- slow stretches ---- */

static void remember(struct kinds *k, const struct event *e)
{
	k->event[k->events++ % KINDS_EVENTS] = *e;
}

/* Of several kinds that came together each is believed to have taken what it usually does. */
static void close_stretch(struct kinds *k)
{
	bool confirmed = false, one = !(k->of & (k->of - 1));

	if (!k->is_open)
		return;
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];
		double limit;

		if (!(k->of & 1u << i))
			continue;
		p->count++;
		p->missed = 0;
		p->steps += one ? k->open.last + 1 - k->open.first : 1;
		p->total_ns += one ? k->open.extra_ns : usual_extra(k, p, &limit);
		if (one && !p->grown) {
			teach(p, k->open.extra_ns);
			p->first_ns = k->open.first_ns;
		}
		confirmed |= p->count >= thresholds.count.few;
	}
	if (!confirmed)
		remember(k, &k->open);
	else if (k->over.first_ns > 0)
		remember(k, &k->over);
	k->is_open = false;
	k->of = 0;
}

static bool was_seen(const struct kinds *k, uint32_t part, double extra_ns)
{
	for (uint32_t i = 0; i < event_count(k); i++)
		if (k->event[i].part == part &&
		    k->event[i].extra_ns * k->config.alike_ratio >= extra_ns)
			return true;
	return false;
}

static struct place *drop(struct place *p)
{
	p->used = false;
	return NULL;
}

static void open_stretch(struct kinds *k, uint64_t step, uint32_t part, double extra_ns)
{
	struct place *p;

	close_stretch(k);
	k->open = (struct event){
	    .first = step, .last = step, .part = part, .first_ns = extra_ns, .extra_ns = extra_ns};
	k->over = (struct event){0};
	k->is_open = true;
	p = kind_at(k, step, part, extra_ns);
	/* Two that lie apart by chance may be at the distance of a later fault's steps. */
	if (p && p->count < thresholds.count.few && !repeats(k, step, p->period, part, extra_ns))
		p = drop(p);
	if (!p)
		p = found(k, step, part, extra_ns);
	if (p)
		k->of = 1u << (p - k->place);
}

/* What the open stretch's kinds add as a rule, and from when on it has grown. */
static double usual_of_all(const struct kinds *k, double *limit)
{
	double usual = 0, each;

	*limit = 0;
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		if (!(k->of & 1u << i))
			continue;
		usual += usual_extra(k, &k->place[i], &each);
		*limit += each;
	}
	return usual;
}

/* Whether the open stretch is longer than its kinds, and those that are due beside them, explain. */
static bool has_grown(struct kinds *k, uint64_t step, double *usual_ns)
{
	struct place *p;
	double limit;

	*usual_ns = usual_of_all(k, &limit);
	while (k->open.extra_ns > limit && (p = kind_at(k, step, KINDS_PARTS, k->open.first_ns))) {
		k->of |= 1u << (p - k->place);
		*usual_ns = usual_of_all(k, &limit);
	}
	for (uint32_t i = 0; i < KINDS_PLACES; i++)
		if (k->of & 1u << i)
			k->place[i].grown = k->open.extra_ns > limit;
	return k->open.extra_ns > limit;
}

static struct kinds_verdict push_slow(struct kinds *k, uint64_t step, uint32_t part,
				      double extra_ns)
{
	struct kinds_verdict v = {.part = part};
	double before_ns = 0;

	if (k->is_open && step == k->open.last + 1 &&
	    extra_ns <= k->config.alike_ratio * k->open.first_ns) {
		before_ns = k->open.extra_ns;
		k->open.last = step;
		k->open.extra_ns += extra_ns;
	} else {
		open_stretch(k, step, part, extra_ns);
		v.first = !k->of && !was_seen(k, part, extra_ns);
	}
	if (!k->of)
		return v;
	v.of_kind = true;
	v.grown = has_grown(k, step, &v.usual_ns);
	if (v.grown && !(k->over.first_ns > 0)) {
		double over_ns = k->open.extra_ns - v.usual_ns;

		k->over = (struct event){.first = step, .part = part, .first_ns = over_ns};
	}
	k->over.last = step;
	k->over.extra_ns = k->open.extra_ns - v.usual_ns;
	v.usual_ns = fmax(v.usual_ns - before_ns, 0);
	return v;
}

/* ---- kinds by work ---- */

static void push_work(struct kinds *k, const struct step *s)
{
	uint32_t i = 0;
	struct work *w;

	while (i < k->works && k->work[i].key != s->key)
		i++;
	if (i == KINDS_WORKS)
		return;
	w = &k->work[i];
	if (i == k->works) {
		k->works++;
		*w = (struct work){.key = s->key, .first = s->index, .begin = s->index, .runs = 1};
	} else if (s->index > w->last + 1) {
		w->gap_before = w->gap;
		w->gap = s->index - w->begin;
		w->begin = s->index;
		w->runs++;
	}
	w->last = s->index;
	w->steps++;
	w->total_ns += (double)s->latency_ns;
	w->launches += s->launches;
	w->collectives += s->collectives;
}

struct kinds_verdict kinds_push(struct kinds *k, const struct step *s, double expected_ns,
				double expected_self_ns, bool slow)
{
	struct kinds_verdict v = {.part = KINDS_HOST};
	double own = (double)s->self_ns - expected_self_ns, extra;

	push_work(k, s);
	k->total_ns += (double)s->latency_ns;
	if (k->start != NO_STEP && (!(expected_ns > 0) || s->index > k->next))
		pass_unseen(k, k->next, expected_ns > 0 ? s->index - 1 : s->index);
	k->next = s->index + 1;
	if (!(expected_ns > 0)) {
		pass_places(k, s->index, false);
		return v;
	}
	if (k->start == NO_STEP)
		k->start = s->index;
	if (!(expected_self_ns > 0))
		own = 0;
	extra = fmax((double)s->latency_ns - expected_ns, own);
	if (slow && extra > 0) {
		v = push_slow(k, s->index, part_of(k, s, expected_ns, (double)s->self_ns - own),
			      extra);
	} else {
		close_stretch(k);
		k->near[k->nears++ % KINDS_NEAR] =
		    (struct near_step){s->key, (double)s->compute_ns, (double)s->copy_ns};
	}
	pass_places(k, s->index, true);
	return v;
}

/* ---- what is told ---- */

static uint64_t regular_gap(const struct kinds *k, const struct work *w)
{
	uint64_t gap = w->gap_before ? w->gap_before : w->gap;

	return w->gap && is_near(w->gap, gap, jitter(k, gap)) ? gap : 0;
}

static struct kinds_row row_of_work(const struct kinds *k, const struct work *w)
{
	double steps = (double)w->steps;

	return (struct kinds_row){.by_work = true,
				  .period = regular_gap(k, w),
				  .count = w->runs,
				  .first_step = w->first,
				  .last_step = w->begin,
				  .steps = steps / (double)w->runs,
				  .cost_ns = w->total_ns / (double)w->runs,
				  .share = w->total_ns / k->total_ns,
				  .launches = w->launches / steps,
				  .collectives = w->collectives / steps};
}

static struct kinds_row row_of_place(const struct kinds *k, const struct place *p)
{
	double count = (double)p->count;

	return (struct kinds_row){.part = p->part,
				  .period = p->period,
				  .count = p->count,
				  .first_step = p->first,
				  .last_step = p->last,
				  .steps = (double)p->steps / count,
				  .cost_ns = p->total_ns / count,
				  .share = p->total_ns / k->total_ns,
				  .grown = p->grown};
}

static uint32_t put(struct kinds_row *out, uint32_t n, uint32_t max, const struct kinds_row *row)
{
	uint32_t at = n;

	while (at && out[at - 1].share < row->share)
		at--;
	if (at == max)
		return n;
	n += n < max;
	memmove(&out[at + 1], &out[at], (n - 1 - at) * sizeof(*out));
	out[at] = *row;
	return n;
}

uint32_t kinds_rows(const struct kinds *k, struct kinds_row *out, uint32_t max)
{
	uint32_t n = 0, usual = 0;

	for (uint32_t i = 1; i < k->works; i++)
		if (k->work[i].steps > k->work[usual].steps)
			usual = i;
	for (uint32_t i = 0; i < k->works && max; i++) {
		struct kinds_row row = row_of_work(k, &k->work[i]);

		if (i != usual && row.count >= 2)
			n = put(out, n, max, &row);
	}
	for (uint32_t i = 0; i < KINDS_PLACES && max; i++) {
		struct kinds_row row;

		if (!k->place[i].used || k->place[i].count < thresholds.count.few)
			continue;
		row = row_of_place(k, &k->place[i]);
		n = put(out, n, max, &row);
	}
	return n;
}
