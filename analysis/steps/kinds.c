/* SPDX-License-Identifier: Apache-2.0
 * A slow stretch is a run of consecutive slow steps. It founds a kind under two conditions. First,
 * similar stretches lie before it at equal distances, down to the first judged step. Second, no
 * similar stretch lies elsewhere that does not also recur, at this distance or at one other. A
 * stretch of a known kind counts in neither condition. Two stretches prove little, so the first one
 * may found a kind with only one other. Thus a transient hides at most the first step of a fault. The
 * third stretch confirms the kind, or the kind is dropped. A stretch that grew longer than its kind
 * keeps the kind alive but does not change its usual length. The part that is too much counts as a
 * stretch of its own, perhaps of another kind. */
#include "analysis/steps/kinds.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

#define NO_STEP UINT64_MAX
_Static_assert(KINDS_EVENTS <= 64, "a set of events is one word");
/* Accounts by which stretches are compared: enum kinds_part, or all of them together. */
#define BY_ALL	 KINDS_PARTS
#define BY_COUNT (KINDS_PARTS + 1)

struct event {
	uint64_t first, last; /* step numbers */
	uint64_t key;	      /* of its first step, and how long such a step takes */
	double expected_ns;
	uint32_t part; /* the longest one of part_ns */
	/* beyond the expected latency: of its first step, also by account; of all its steps */
	double first_ns, part_ns[BY_COUNT], extra_ns;
	bool paired;   /* it founded a kind together with one other */
	uint64_t kind; /* the place that it was charged to; 0: none */
};

struct place {
	bool used, grown;
	uint64_t id; /* from 1 on */
	/* by: the account that is compared; part: the longest one; missed: consecutive missing
	 * occurrences */
	uint32_t by, part, missed;
	uint64_t period, first, last;
	uint64_t count, steps;
	/* first_ns: what the first step of the latest occurrence added to its part */
	double total_ns, first_ns, extra[KINDS_EXTRAS];
	uint32_t extras; /* pushed so far */
};

struct work {
	uint64_t key, first, begin, last; /* begin: of the latest run */
	uint64_t runs, steps, gap, gap_before;
	double total_ns, launches, collectives;
	double compute_ns[KINDS_NEAR], copy_ns[KINDS_NEAR]; /* of its latest usual steps */
	uint64_t nears;					    /* pushed so far */
};

struct interval {
	uint64_t first, last; /* steps */
};

struct learned {
	uint64_t step, key;
	double latency_ns;
};

struct kinds {
	struct kinds_config config;
	uint64_t start; /* the first step that had an expected latency */
	uint64_t next;	/* the step after the latest one */
	/* Later steps that were not judged: without an expected latency, or skipped. */
	struct interval unseen[KINDS_UNSEEN];
	uint64_t unseens; /* pushed so far */
	/* Of these, the latest from which a model has learned. */
	struct learned learned[KINDS_LEARNED];
	uint64_t learneds; /* pushed so far */
	bool past_unknown, is_open;
	/* over: the excess part of the open stretch, from the step where it grew; first_ns 0:
	 * none */
	struct event open, over;
	double open_self_ns; /* what the steps of the open stretch added to the self time */
	/* Kinds of the open stretch, one bit per entry of place[]; several if they coincide. */
	uint32_t of;
	struct event event[KINDS_EVENTS];
	uint32_t events;
	struct place place[KINDS_PLACES];
	uint64_t places; /* founded so far */
	struct work work[KINDS_WORKS];
	uint32_t works;
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

/* ---- which account grew ---- */

static struct work *work_of(struct kinds *k, uint64_t key)
{
	uint32_t i = 0;

	while (i < k->works && k->work[i].key != key)
		i++;
	return i < k->works ? &k->work[i] : NULL;
}

/* pushed: at least 1. */
static double more_than(const double *usual_ns, uint64_t pushed, uint64_t ns)
{
	uint32_t n = pushed < KINDS_NEAR ? (uint32_t)pushed : KINDS_NEAR;
	double v[KINDS_NEAR];

	memcpy(v, usual_ns, n * sizeof(*v));
	return (double)ns - median_of(v, n);
}

/* What the step added to each account. Returns the one that is longest beyond its usual time. */
static uint32_t part_of(struct kinds *k, const struct step *s, double expected_ns,
			double expected_self_ns, double *part_ns)
{
	double self = (double)s->self_ns - expected_self_ns, most;
	const struct work *w = work_of(k, s->key);
	uint64_t nears = w ? w->nears : 0;
	uint32_t part = KINDS_HOST;

	part_ns[KINDS_WAIT] = (double)s->latency_ns - expected_ns - self;
	part_ns[KINDS_COMPUTE] = nears ? more_than(w->compute_ns, nears, s->compute_ns) : 0;
	part_ns[KINDS_COPY] = nears ? more_than(w->copy_ns, nears, s->copy_ns) : 0;
	part_ns[KINDS_HOST] = self - part_ns[KINDS_COMPUTE] - part_ns[KINDS_COPY];
	most = part_ns[part];
	for (uint32_t i = 1; i < KINDS_PARTS; i++)
		if (part_ns[i] > most) {
			most = part_ns[i];
			part = i;
		}
	return part;
}

/* An usual step, or one from which its model learns. */
static void push_near(struct kinds *k, const struct step *s)
{
	struct work *w = work_of(k, s->key);

	if (!w)
		return;
	w->compute_ns[w->nears % KINDS_NEAR] = (double)s->compute_ns;
	w->copy_ns[w->nears++ % KINDS_NEAR] = (double)s->copy_ns;
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

/* Whether the account is a part of the stretch that matters. */
static bool has_part(const struct event *e, uint32_t part)
{
	return e->part_ns[part] >= thresholds.part.little * e->first_ns;
}

/* In this account, whatever else the stretch added. */
static bool is_alike(const struct kinds *k, const struct event *e, uint32_t part, double first_ns)
{
	return has_part(e, part) && e->part_ns[part] <= k->config.alike_ratio * first_ns &&
	       first_ns <= k->config.alike_ratio * e->part_ns[part];
}

/* What an occurrence usually adds, and the limit beyond which it has grown, by the latest n extras,
 * as logarithms, the latest first. The latest `run` of them count with the new occurrence: the
 * standard error of their mean is smaller. All are judged against those before. */
static double usual_before(const struct kinds *k, const double *extra, uint32_t n, uint32_t run,
			   double *limit)
{
	double v[KINDS_EXTRAS], usual, sigma, rest;

	n -= run;
	memcpy(v, extra + run, n * sizeof(*v));
	usual = median_of(v, n);
	sigma = MEDIAN_MAD_SIGMA * median_mad(v, n, usual);
	rest = k->config.tail_mads * sigma * sqrt(run + 1);
	if (n < thresholds.count.some) /* too few to know how much they vary */
		rest = fmin(rest, log(k->config.alike_ratio));
	for (uint32_t i = 0; i < run; i++)
		rest -= extra[i] - usual;
	*limit =
	    exp(usual) * fmax(exp(rest), 1 + k->config.floor_ratio) * (1 + k->config.few_ratio / n);
	return exp(usual);
}

/* What an occurrence usually adds. *limit: an occurrence that adds more has grown, alone or together
 * with the ones before it. */
static double usual_extra(const struct kinds *k, const struct place *p, double *limit)
{
	uint32_t n = p->extras < KINDS_EXTRAS ? p->extras : KINDS_EXTRAS;
	double extra[KINDS_EXTRAS] = {0}, usual = 0;

	*limit = INFINITY;
	for (uint32_t i = 0; i < n; i++)
		extra[i] = log(p->extra[(p->extras - 1 - i) % KINDS_EXTRAS]);
	for (uint32_t run = 0; run < thresholds.count.few; run++) {
		double of_run, before;

		if (run && n < run + thresholds.count.some)
			break;
		before = usual_before(k, extra, n, run, &of_run);
		if (of_run >= *limit)
			continue;
		*limit = of_run;
		usual = before;
	}
	return usual;
}

/* Whether it is of a known kind. Such a stretch founds no other one. */
static bool is_explained(const struct kinds *k, const struct event *e)
{
	for (uint32_t i = 0; i < KINDS_PLACES; i++)
		if (k->place[i].used && k->place[i].id == e->kind &&
		    k->place[i].count >= thresholds.count.few)
			return true;
	return false;
}

/* A similar stretch of no known kind at that step; NULL: none. */
static struct event *event_at(struct kinds *k, uint64_t step, uint64_t most, uint32_t part,
			      double first_ns)
{
	for (uint32_t i = 0; i < k->events; i++)
		if (is_near(k->event[i].first, step, most) &&
		    is_alike(k, &k->event[i], part, first_ns) && !is_explained(k, &k->event[i]))
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

/* The interval of unjudged steps near that step; NULL: it was judged. */
static const struct interval *unseen_at(const struct kinds *k, uint64_t step, uint64_t most)
{
	for (uint32_t i = 0; i < KINDS_UNSEEN && i < k->unseens; i++)
		if (k->unseen[i].first <= step + most && step <= k->unseen[i].last + most)
			return &k->unseen[i];
	return NULL;
}

/* Whether the steps near that one were like the open stretch's when its model learned from them, and
 * none was slow like it. */
static bool was_usual(const struct kinds *k, uint64_t step, uint64_t most)
{
	bool any = false;

	for (uint32_t i = 0; i < KINDS_LEARNED && i < k->learneds; i++) {
		const struct learned *l = &k->learned[i];
		double more_ns = l->latency_ns - k->open.expected_ns;

		if (!is_near(l->step, step, most))
			continue;
		any = true;
		if (l->key != k->open.key || (more_ns * k->config.alike_ratio >= k->open.first_ns &&
					      more_ns <= k->config.alike_ratio * k->open.first_ns))
			return false;
	}
	return any;
}

/* Whether the place says nothing: its steps were not judged, or it is within a longer slow stretch. What
 * a step should take is known of those from which a model has learned. */
static bool is_passed(const struct kinds *k, uint64_t step, uint64_t most, struct interval *out)
{
	const struct interval *unseen = unseen_at(k, step, most);

	if (unseen && was_usual(k, step, most))
		return false;
	for (uint32_t i = 0; i < k->events && !unseen; i++)
		if (k->event[i].first < step && step <= k->event[i].last + 1) {
			*out = (struct interval){k->event[i].first, k->event[i].last + 1};
			return true;
		}
	if (unseen)
		*out = *unseen;
	return unseen;
}

/* The occurrence at this distance before *at; *at becomes its step. Places without a judged step are
 * passed over. NULL: no place is left after the first judged step, or, with *is_empty, a place has no
 * occurrence. */
static struct event *one_before(struct kinds *k, uint64_t *at, uint64_t period, uint32_t part,
				double first_ns, bool *is_empty)
{
	uint64_t most = jitter(k, period);

	*is_empty = false;
	while (*at >= period && *at - period >= k->start) {
		struct event *e = event_at(k, *at - period, most, part, first_ns);
		struct interval passed;

		*at = e ? e->first : *at - period;
		if (e)
			return e;
		*is_empty = !is_passed(k, *at, most, &passed);
		if (*is_empty)
			return NULL;
		/* no event lies in it: on to its first place at once */
		if (*at > passed.first + most)
			*at -= (*at - passed.first - most) / period * period;
	}
	return NULL;
}

/* The number of similar stretches at this distance down to the first judged step, including the one
 * at `step`; 0 if one is missing. */
static uint32_t chain_length(struct kinds *k, uint64_t step, uint64_t period, uint32_t part,
			     double first_ns)
{
	bool is_empty = false;
	uint32_t n = 1;

	while (one_before(k, &step, period, part, first_ns, &is_empty))
		n++;
	return is_empty ? 0 : n;
}

/* The similar stretches of no known kind that have none before them at this distance, though they are
 * not in the first period: one bit per entry of event[]. *early: those in the first period. */
static uint64_t lonely_ones(struct kinds *k, uint64_t step, uint64_t period, uint32_t part,
			    double first_ns, uint64_t *early)
{
	uint64_t lonely = 0;

	*early = 0;
	for (uint32_t i = 0; i < k->events; i++) {
		const struct event *e = &k->event[i];
		uint64_t at = e->first;
		bool is_empty;

		if ((part != BY_ALL && e->part != part) || !is_alike(k, e, part, first_ns) ||
		    e->first + 1 >= step || is_explained(k, e))
			continue;
		one_before(k, &at, period, part, first_ns, &is_empty);
		if (e->first < k->start + period)
			*early |= 1ull << i;
		else if (is_empty)
			lonely |= 1ull << i;
	}
	return lonely;
}

/* The stretches of the chain at this distance that e is in, from the first judged step to `step`, one
 * bit each; 0: a place is empty, or they are too few for a kind. */
static uint64_t chain_of(struct kinds *k, const struct event *e, uint64_t period, uint64_t step,
			 uint32_t part)
{
	uint64_t most = jitter(k, period), at = e->first, chain = 1ull << (e - k->event);
	double first_ns = e->part_ns[part];
	const struct event *next;
	bool is_empty;

	while ((next = one_before(k, &at, period, part, first_ns, &is_empty)))
		chain |= 1ull << (next - k->event);
	for (at = e->first; !is_empty && at + period + most < step;) {
		struct interval passed;

		next = event_at(k, at + period, most, part, first_ns);
		at = next ? next->first : at + period;
		chain |= next ? 1ull << (next - k->event) : 0;
		is_empty = !next && !is_passed(k, at, most, &passed);
		if (!next && !is_empty && passed.last > at)
			at += (passed.last - at) / period * period;
	}
	return is_empty || __builtin_popcountll(chain) < (int)thresholds.count.few ? 0 : chain;
}

/* The stretches at this distance before `step`. */
static uint64_t chain_before(struct kinds *k, uint64_t step, uint64_t period, uint32_t part,
			     double first_ns)
{
	const struct event *e;
	uint64_t chain = 0;
	bool is_empty;

	while ((e = one_before(k, &step, period, part, first_ns, &is_empty)))
		chain |= 1ull << (e - k->event);
	return chain;
}

/* Whether all similar stretches, except in the first period, have one before them at this distance, or
 * are another kind with those of the first period. Otherwise the distance is one of many between the
 * steps of a fault. */
static bool repeats(struct kinds *k, uint64_t step, uint64_t period, uint32_t part, double first_ns)
{
	uint64_t early, lonely = lonely_ones(k, step, period, part, first_ns, &early),
			need = lonely | (early & ~chain_before(k, step, period, part, first_ns));
	const struct event *e = &k->event[lonely ? __builtin_ctzll(lonely) : 0];

	for (uint32_t i = 0; lonely && i < k->events; i++) {
		uint64_t at = k->event[i].first,
			 other = at < e->first ? e->first - at : at - e->first,
			 chain = other ? chain_of(k, e, other, step, part) : 0;

		if (chain && !(need & ~chain) && !(chain & ~(lonely | early)))
			return true;
	}
	return !lonely;
}

static void learn_extra(struct place *p, double extra_ns)
{
	p->extra[p->extras++ % KINDS_EXTRAS] = extra_ns;
}

static struct place *free_place(struct kinds *k)
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

/* A kind that the open stretch founds with earlier ones. */
struct found {
	struct event *with; /* the latest one */
	uint64_t period;
	uint32_t part, length; /* length: of the chain; 0: no kind */
};

static void find_in(struct kinds *k, uint32_t part, struct found *best)
{
	double first_ns = k->open.part_ns[part];
	uint64_t step = k->open.first;

	for (uint32_t i = 0; i < k->events && !k->past_unknown; i++) {
		struct event *e = &k->event[i];
		uint64_t distance = step - e->first;
		uint32_t n = 0;

		if (e->last + 1 < step && is_alike(k, e, part, first_ns) && !is_explained(k, e))
			n = chain_length(k, step, distance, part, first_ns);
		if (n > best->length && (n > 2 || (n == 2 && !e->paired)) &&
		    repeats(k, step, distance, part, first_ns))
			*best = (struct found){e, distance, part, n};
	}
}

/* NULL: none. All accounts together come first, then each one that matters: of the ranks that write a
 * checkpoint, each waits for the others now and then. */
static struct place *find_kind(struct kinds *k, uint64_t step)
{
	struct found found = {0};
	struct event *before;
	uint64_t at = step;
	double first_ns;
	struct place *p;
	bool is_empty;

	find_in(k, BY_ALL, &found);
	for (uint32_t part = 0; part < KINDS_PARTS; part++)
		if (has_part(&k->open, part))
			find_in(k, part, &found);
	if (!found.length)
		return NULL;
	if (found.length == 2)
		found.with->paired = true;
	first_ns = k->open.part_ns[found.part];
	p = free_place(k);
	*p = (struct place){.used = true,
			    .id = ++k->places,
			    .by = found.part,
			    .part = found.part == BY_ALL ? k->open.part : found.part,
			    .period = found.period,
			    .last = step,
			    .first_ns = first_ns};
	while ((before = one_before(k, &at, p->period, p->by, first_ns, &is_empty))) {
		before->kind = p->id;
		p->first = before->first;
		p->count++;
		p->steps += before->last + 1 - before->first;
		p->total_ns += before->extra_ns;
		learn_extra(p, before->extra_ns);
	}
	return p;
}

/* The kind that is due at this step; NULL: none. The step must add at least half of what the kind adds
 * to its part, so that a small delay is not an occurrence. What the step adds to other parts does not
 * matter: the ranks wait for the one whose checkpoint takes longest. If several kinds are due, those
 * that add a similar time come first, and of these the one with the most occurrences. Two unrelated
 * slow steps may look like a kind, and a kind may look like others of two or three times its
 * distance. */
static struct place *due_at(struct kinds *k, uint64_t step, const double *part_ns)
{
	struct place *best = NULL;
	bool best_alike = false;

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];
		double grown = part_ns[p->by] / p->first_ns;
		bool alike = grown <= k->config.alike_ratio;

		if (!p->used || k->of & 1u << i || grown * k->config.alike_ratio < 1 ||
		    !is_near(step, p->last + p->period, jitter(k, p->period)))
			continue;
		if (best && (alike != best_alike ? best_alike : p->count <= best->count))
			continue;
		best = p;
		best_alike = alike;
	}
	return best;
}

/* The same; the step is then its latest occurrence. */
static struct place *kind_at(struct kinds *k, uint64_t step, const double *part_ns)
{
	struct place *p = due_at(k, step, part_ns);

	if (p)
		p->last = step;
	return p;
}

/* Handles due occurrences that did not come. One whose steps were not judged does not count as
 * missed. */
static void pass_places(struct kinds *k, uint64_t step)
{
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];
		uint64_t most = jitter(k, p->period);

		if (!p->used || k->of & 1u << i || step <= p->last + p->period + most)
			continue;
		p->last += p->period;
		if (unseen_at(k, p->last, most))
			continue;
		p->missed++;
		if (p->count < thresholds.count.few || p->missed >= k->config.miss_max)
			p->used = false;
	}
}

/* ---- slow stretches ---- */

/* Stretches of known kinds are kept too: a kind may turn out to be none. When there is no room, the
 * earliest of them goes, or the earliest of all. */
static void remember(struct kinds *k, const struct event *e)
{
	struct event *to = &k->event[0];
	bool explained = is_explained(k, to);

	if (k->events < KINDS_EVENTS) {
		k->event[k->events++] = *e;
		return;
	}
	for (uint32_t i = 1; i < KINDS_EVENTS; i++) {
		bool other = is_explained(k, &k->event[i]);

		if (other == explained ? k->event[i].first >= to->first : explained)
			continue;
		to = &k->event[i];
		explained = other;
	}
	*to = *e;
}

/* If several kinds coincide, each is charged its usual time. */
static void close_stretch(struct kinds *k)
{
	bool one = !(k->of & (k->of - 1));

	if (!k->is_open)
		return;
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];
		double limit;

		if (!(k->of & 1u << i))
			continue;
		k->open.kind = p->id;
		p->count++;
		p->missed = 0;
		p->steps += one ? k->open.last + 1 - k->open.first : 1;
		p->total_ns += one ? k->open.extra_ns : usual_extra(k, p, &limit);
		if (one && !p->grown) {
			learn_extra(p, k->open.extra_ns);
			p->first_ns = k->open.part_ns[p->by];
		}
	}
	remember(k, &k->open);
	if (k->over.first_ns > 0)
		remember(k, &k->over);
	k->is_open = false;
	k->of = 0;
}

static bool was_seen(const struct kinds *k, uint32_t part, double extra_ns)
{
	for (uint32_t i = 0; i < k->events; i++)
		if (k->event[i].part == part &&
		    k->event[i].extra_ns * k->config.alike_ratio >= extra_ns)
			return true;
	return false;
}

static void open_stretch(struct kinds *k, const struct step *s, uint32_t part,
			 const double *part_ns, double extra_ns, double expected_ns)
{
	uint64_t step = s->index;
	struct place *p;

	close_stretch(k);
	k->open = (struct event){.first = step,
				 .last = step,
				 .key = s->key,
				 .expected_ns = expected_ns,
				 .part = part,
				 .first_ns = extra_ns,
				 .extra_ns = extra_ns};
	memcpy(k->open.part_ns, part_ns, sizeof(k->open.part_ns));
	k->over = (struct event){0};
	k->open_self_ns = 0;
	k->is_open = true;
	p = kind_at(k, step, part_ns);
	/* Two unrelated stretches may have founded it, at the distance of a later fault's steps. */
	if (p && p->count < thresholds.count.few &&
	    !repeats(k, step, p->period, p->by, part_ns[p->by])) {
		p->used = false;
		p = NULL;
	}
	if (!p)
		p = find_kind(k, step);
	if (p)
		k->of = 1u << (p - k->place);
}

/* What the kinds of the open stretch usually add, also to the self time, and from when on it has
 * grown. */
struct usual {
	double ns, limit_ns, self_ns, self_limit_ns;
};

static struct usual usual_of_all(const struct kinds *k)
{
	struct usual u = {0};

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		double limit, usual;

		if (!(k->of & 1u << i))
			continue;
		usual = usual_extra(k, &k->place[i], &limit);
		u.ns += usual;
		u.limit_ns += limit;
		u.self_ns += k->place[i].by == KINDS_WAIT ? 0 : usual;
		u.self_limit_ns += k->place[i].by == KINDS_WAIT ? 0 : limit;
	}
	return u;
}

/* The rarest kind of this step of the open stretch; 0: none takes so many steps. */
static uint32_t period_of(const struct kinds *k, uint64_t step)
{
	double steps = (double)(step - k->open.first) + 0.5;
	uint64_t most = 0;

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		const struct place *p = &k->place[i];

		if (k->of & 1u << i && (double)p->steps >= steps * (double)p->count &&
		    p->period > most)
			most = p->period;
	}
	return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* Whether the open stretch is longer than its kinds explain, together with the kinds that are
 * due. */
static bool has_grown(struct kinds *k, uint64_t step, const double *part_ns, struct usual *u)
{
	struct place *p;

	*u = usual_of_all(k);
	while (k->open.extra_ns > u->limit_ns && (p = kind_at(k, step, part_ns))) {
		k->of |= 1u << (p - k->place);
		*u = usual_of_all(k);
	}
	for (uint32_t i = 0; i < KINDS_PLACES; i++)
		if (k->of & 1u << i)
			k->place[i].grown = k->open.extra_ns > u->limit_ns;
	return k->open.extra_ns > u->limit_ns;
}

static struct kinds_verdict push_slow(struct kinds *k, const struct step *s, double expected_ns,
				      uint32_t part, const double *part_ns, double extra_ns,
				      double self_ns)
{
	uint64_t step = s->index;
	struct kinds_verdict v = {.of_kind = false};
	double before_ns = 0, before_self_ns = 0;
	struct usual u;

	/* slow steps before a kind's place are no part of the kind */
	if (k->is_open && extra_ns <= k->config.alike_ratio * k->open.first_ns &&
	    (k->of || !due_at(k, step, part_ns))) {
		before_ns = k->open.extra_ns;
		before_self_ns = k->open_self_ns;
		k->open.last = step;
		k->open.extra_ns += extra_ns;
	} else {
		open_stretch(k, s, part, part_ns, extra_ns, expected_ns);
		v.first = !k->of && !was_seen(k, part, extra_ns);
	}
	k->open_self_ns += self_ns;
	if (!k->of)
		return v;
	v.of_kind = true;
	v.grown = has_grown(k, step, part_ns, &u);
	v.self_grown = v.grown && k->open_self_ns > u.self_limit_ns;
	if (v.grown && !(k->over.first_ns > 0)) {
		k->over = (struct event){
		    .first = step, .part = part, .first_ns = k->open.extra_ns - u.ns};
		k->over.part_ns[part] = k->over.part_ns[BY_ALL] = k->over.first_ns;
	}
	k->over.last = step;
	k->over.extra_ns = k->open.extra_ns - u.ns;
	v.usual_ns = fmax(u.ns - before_ns, 0);
	v.usual_self_ns = fmax(u.self_ns - fmax(before_self_ns, 0), 0);
	v.period = period_of(k, step);
	return v;
}

/* ---- kinds by work ---- */

static void push_work(struct kinds *k, const struct step *s)
{
	struct work *w = work_of(k, s->key);

	if (!w && k->works == KINDS_WORKS)
		return;
	if (!w) {
		w = &k->work[k->works++];
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
	struct kinds_verdict v = {.of_kind = false};
	double self = (double)s->self_ns - expected_self_ns, extra, part_ns[BY_COUNT];
	uint32_t part;

	push_work(k, s);
	k->total_ns += (double)s->latency_ns;
	if (k->start != NO_STEP && (!(expected_ns > 0) || s->index > k->next))
		pass_unseen(k, k->next, expected_ns > 0 ? s->index - 1 : s->index);
	/* A stretch continues over steps that are missing, as after a switch of tracing. Without them its
	 * rest would be a second stretch, and found a kind with the first. */
	if (k->is_open && k->open.last + 1 != k->next)
		close_stretch(k);
	k->next = s->index + 1;
	if (!(expected_ns > 0)) {
		push_near(k, s);
		k->learned[k->learneds++ % KINDS_LEARNED] =
		    (struct learned){s->index, s->key, (double)s->latency_ns};
		pass_places(k, s->index);
		return v;
	}
	if (k->start == NO_STEP)
		k->start = s->index;
	if (!(expected_self_ns > 0))
		self = 0;
	extra = fmax((double)s->latency_ns - expected_ns, self);
	if (slow && extra > 0) {
		part = part_of(k, s, expected_ns, (double)s->self_ns - self, part_ns);
		part_ns[BY_ALL] = extra;
		v = push_slow(k, s, expected_ns, part, part_ns, extra, self);
	} else {
		close_stretch(k);
		push_near(k, s);
	}
	pass_places(k, s->index);
	return v;
}

/* ---- report ---- */

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
