/* SPDX-License-Identifier: Apache-2.0
 * A slow stretch consists of consecutive slow steps. It founds a kind if it is the latest of a
 * chain of stretches: they lie at equal distances, in steps or in time, back to the first judged
 * step, and chance hardly makes such a chain. On a busy machine any step may be slow by chance. The
 * stretches seen so far show how often. The slow steps of a fault may lie at equal distances too,
 * but they began later: they form a late chain. At some multiple of their distance they may also
 * form a chain back to the first judged step. Chance is less likely to make the late chain, so the
 * late chain decides. Two stretches prove little. They found a kind only if no third one is like
 * them, and each stretch may found a kind in this way once. So a transient hides at most the
 * first step of a fault. The third stretch must prove the kind; otherwise the kind is dropped. A
 * stretch that grew longer than its kind keeps the kind alive, but does not change its usual
 * length. The excess counts as a stretch of its own, perhaps of another kind. */
#include "analysis/steps/kinds.h"

#include <math.h>
#include <string.h>

#include "analysis/robust/median.h"
#include "model/thresholds.h"

#define NO_STEP UINT64_MAX
/* A phase recurs by its number of steps or by the clock. */
enum { BY_STEP, BY_CLOCK, AXES };
/* A job looks at the clock once per step. So two distances differ by up to a step at each of their
 * four ends. */
#define LATE_STEPS 4u
/* Accounts by which stretches are compared: enum kinds_part, or all of them together. */
#define BY_ALL	 KINDS_PARTS
#define BY_COUNT (KINDS_PARTS + 1)

/* A step's number, and its time. */
struct spot {
	uint64_t at[AXES];
};

/* Consecutive steps: first.at[BY_CLOCK] is where they begin, last.at[BY_CLOCK] where they end. */
struct steps_span {
	struct spot first, last;
};

struct event {
	struct spot first, last;
	uint64_t key; /* key: of its first step; expected_ns: how long such a step usually takes */
	double expected_ns;
	uint32_t part; /* index of the largest part_ns */
	/* Time beyond the expected latency. first_ns: of its first step; part_ns: of its first step
	 * by account; extra_ns: of all its steps. */
	double first_ns, part_ns[BY_COUNT], extra_ns;
	uint64_t kind;	/* id of the kind by place that it was charged to; 0: none */
	bool explained; /* that kind is known, and explains the stretch; set by find_kind */
	bool learned;	/* its steps were not judged; set by take_learned */
	bool over;	/* the excess of a stretch over its known kind */
};

struct place {
	bool used, grown;
	uint64_t id;  /* from 1 on */
	uint64_t key; /* of the steps in which it was found */
	/* by: the account that is compared; part: the longest one; missed: consecutive missing
	 * occurrences */
	uint32_t by, part, missed;
	uint32_t axis;
	/* on the axis; most: by how much an occurrence may miss its place */
	uint64_t period, most;
	uint64_t period_steps; /* how many steps a period has, or had when the kind was found */
	struct spot first, last;
	uint64_t count, steps;
	/* first_ns: what the first step of the latest occurrence added to the account `by` */
	double total_ns, first_ns, extra[KINDS_EXTRAS];
	uint32_t extras; /* pushed so far */
};

struct work {
	uint64_t key, first, begin, last; /* begin: first step of the latest run */
	uint64_t runs, steps, gap, gap_before;
	double total_ns, launches, collectives;
	double compute_ns[KINDS_NEAR], copy_ns[KINDS_NEAR]; /* rings: of the latest usual steps */
	uint64_t nears;					    /* pushed so far */
};

/* A span on one axis. */
struct interval {
	uint64_t first, last;
};

/* Steps of the same work. */
struct run_of_work {
	struct steps_span steps;
	uint64_t key; /* 0: the steps were not judged */
};

struct learned {
	struct spot first;
	uint64_t key;
	double latency_ns;
};

struct kinds {
	struct kinds_config config;
	struct spot start; /* the first step that had an expected latency */
	struct spot next;  /* the step after the latest one */
	uint64_t judged;   /* steps */
	/* Steps after `start` that were not judged: they were skipped, or had no expected
	 * latency. */
	struct steps_span unseen[KINDS_UNSEEN];
	uint64_t unseens; /* pushed so far */
	/* The latest steps without an expected latency, also those before `start`: a model has
	 * learned from them. */
	struct learned learned[KINDS_LEARNED];
	uint64_t learneds; /* pushed so far */
	/* the two latest runs of steps of the same work, latest first */
	struct run_of_work latest[2];
	bool past_unknown, is_open;
	/* open: the open stretch; over: its excess, from the step at which it grew too long;
	 * first_ns 0: none */
	struct event open, over;
	struct event sought; /* a copy of the one whose kind is searched */
	double open_self_ns; /* what the steps of the open stretch added to the self time */
	/* Kinds of the open stretch, one bit per entry of place[]; more than one if kinds
	 * coincide. */
	uint32_t of;
	struct event event[KINDS_EVENTS];
	uint32_t events;
	double forgotten_ns; /* the largest first_ns of a forgotten stretch of no known kind */
	struct place place[KINDS_PLACES];
	uint64_t places; /* founded so far */
	struct work work[KINDS_WORKS];
	uint32_t works;
	/* of all steps so far */
	uint64_t pushed;
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
	k->start.at[BY_STEP] = NO_STEP;
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

/* By how much ns exceeds the median of the latest usual values. pushed: at least 1. */
static double more_than(const double *usual_ns, uint64_t pushed, uint64_t ns)
{
	uint32_t n = pushed < KINDS_NEAR ? (uint32_t)pushed : KINDS_NEAR;
	double v[KINDS_NEAR];

	memcpy(v, usual_ns, n * sizeof(*v));
	return (double)ns - median_of(v, n);
}

/* Computes what the step added to each account. Returns the account that is furthest beyond its
 * usual time. */
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

/* Stores the times of a usual step, or of one from which its model learns. */
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

/* One step on the axis: 1, or the mean latency. */
static uint64_t unit_of(const struct kinds *k, uint32_t axis)
{
	return axis == BY_STEP ? 1 : (uint64_t)(k->total_ns / (double)k->pushed) + 1;
}

/* By how much an occurrence may miss its place; 0: the distance is too short to miss it. */
static uint64_t tolerance(const struct kinds *k, uint32_t axis, uint64_t period)
{
	uint64_t most = jitter(k, period), unit = unit_of(k, axis);

	return most < unit ? 0 : axis == BY_STEP ? most : LATE_STEPS * unit;
}

static bool is_near(uint64_t a, uint64_t b, uint64_t most)
{
	return (a > b ? a - b : b - a) <= most;
}

/* Whether the account has at least a tenth of what the stretch's first step added. */
static bool has_part(const struct event *e, uint32_t part)
{
	return e->part_ns[part] >= thresholds.part.little * e->first_ns;
}

/* Whether the stretch added a time like first_ns to this account, whatever it added to others. */
static bool is_alike(const struct kinds *k, const struct event *e, uint32_t part, double first_ns)
{
	return has_part(e, part) && e->part_ns[part] <= k->config.alike_ratio * first_ns &&
	       first_ns <= k->config.alike_ratio * e->part_ns[part];
}

/* What an occurrence usually adds. *limit: an occurrence that adds more has grown. extra:
 * logarithms of the latest n extras, latest first. The latest `run` of them are judged together
 * with the new occurrence, because the mean of several has a smaller standard error. They are
 * judged against the extras before them. */
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

/* What an occurrence usually adds. *limit: an occurrence that adds more has grown, alone or
 * together with the ones before it. */
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

static uint64_t steps_of(const struct event *e)
{
	return e->last.at[BY_STEP] + 1 - e->first.at[BY_STEP];
}

static bool is_proven(const struct place *p)
{
	return p->used && p->count >= thresholds.count.few;
}

/* The kind by place that the stretch was charged to; NULL: none, or its entry belongs to another
 * kind by now. */
static const struct place *place_of_event(const struct kinds *k, const struct event *e)
{
	uint32_t i = 0;

	while (i < KINDS_PLACES && (!e->kind || k->place[i].id != e->kind))
		i++;
	return i < KINDS_PLACES ? &k->place[i] : NULL;
}

static bool is_much_longer(const struct kinds *k, const struct event *e, const struct place *p)
{
	return e->part_ns[p->by] > k->config.alike_ratio * p->first_ns;
}

/* Whether the stretch is of a proven kind, and not much longer. Such a stretch founds no other
 * kind. */
static bool is_explained(const struct kinds *k, const struct event *e)
{
	const struct place *p = place_of_event(k, e);

	return p && is_proven(p) && !is_much_longer(k, e, p);
}

/* Whether the stretch may found a kind together with only one other stretch. */
static bool is_single(const struct kinds *k, const struct event *e)
{
	const struct place *p = place_of_event(k, e);

	return !e->kind || (p && is_much_longer(k, e, p));
}

static void pass_unseen(struct kinds *k, struct spot first, struct spot last)
{
	struct steps_span *i = &k->unseen[(k->unseens + KINDS_UNSEEN - 1) % KINDS_UNSEEN];

	if (k->unseens && i->last.at[BY_STEP] + 1 == first.at[BY_STEP])
		i->last = last;
	else
		k->unseen[k->unseens++ % KINDS_UNSEEN] = (struct steps_span){first, last};
}

/* A place on an axis, which a stretch may miss by `most`. */
struct target {
	uint32_t axis;
	uint64_t at, most;
};

/* The unjudged steps at or near the place; NULL: none. */
static const struct steps_span *unseen_at(const struct kinds *k, struct target t)
{
	for (uint32_t i = 0; i < KINDS_UNSEEN && i < k->unseens; i++)
		if (k->unseen[i].first.at[t.axis] <= t.at + t.most &&
		    t.at <= k->unseen[i].last.at[t.axis] + t.most)
			return &k->unseen[i];
	return NULL;
}

/* Whether the step that a model learned from took as long as the first step of the sought
 * stretch. */
static bool took_as_long(const struct kinds *k, const struct learned *l)
{
	double more_ns = l->latency_ns - k->sought.expected_ns;

	return more_ns * k->config.alike_ratio >= k->sought.first_ns &&
	       more_ns <= k->config.alike_ratio * k->sought.first_ns;
}

/* Whether the model learned from steps near the place, all with the work of the sought stretch, and
 * none as slow as it. */
static bool was_usual(const struct kinds *k, struct target t)
{
	bool any = false;

	for (uint32_t i = 0; i < KINDS_LEARNED && i < k->learneds; i++) {
		const struct learned *l = &k->learned[i];

		if (!is_near(l->first.at[t.axis], t.at, t.most))
			continue;
		any = true;
		if (l->key != k->sought.key || took_as_long(k, l))
			return false;
	}
	return any;
}

/* Index of the first remembered stretch that does not begin before; k->events: none. */
static uint32_t event_from(const struct kinds *k, uint32_t axis, uint64_t at)
{
	uint32_t low = 0, high = k->events;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (k->event[mid].first.at[axis] < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The longest stretch of no confirmed kind at the place; NULL: none. *of_kind: a stretch of a
 * confirmed kind, at least half as long as the sought one, begins exactly there. */
static struct event *event_at(struct kinds *k, struct target t, uint32_t part, bool *of_kind)
{
	struct event *best = NULL;

	*of_kind = false;
	for (uint32_t i = event_from(k, t.axis, t.at > t.most ? t.at - t.most : 0);
	     i < k->events && k->event[i].first.at[t.axis] <= t.at + t.most; i++) {
		struct event *e = &k->event[i];

		if (!has_part(e, part))
			continue;
		if (e->explained)
			*of_kind |=
			    !k->sought.over && e->first.at[t.axis] == t.at &&
			    e->part_ns[part] * k->config.alike_ratio >= k->sought.part_ns[part];
		else if (!best || e->part_ns[part] > best->part_ns[part])
			best = e;
	}
	return best;
}

/* Whether the place says nothing: its steps were not judged, or it lies within or right after a
 * slow stretch that is at least half as long as the sought one. Unjudged steps from which a model
 * has learned do say something, because it is known how long they should take. *out: the steps that
 * say nothing. */
static bool is_passed(const struct kinds *k, struct target t, struct interval *out)
{
	const struct steps_span *unseen = unseen_at(k, t);
	uint64_t unit = unit_of(k, t.axis);
	uint32_t i = event_from(k, t.axis, t.at);
	const struct event *e = i ? &k->event[i - 1] : NULL;

	if (unseen && was_usual(k, t))
		return false;
	if (unseen)
		*out = (struct interval){unseen->first.at[t.axis], unseen->last.at[t.axis]};
	else if (e && t.at <= e->last.at[t.axis] + unit &&
		 e->extra_ns * k->config.alike_ratio >= k->sought.extra_ns)
		*out = (struct interval){e->first.at[t.axis], e->last.at[t.axis] + unit};
	else
		return false;
	return true;
}

/* Stretches at equal distances before the sought one. */
struct chain {
	uint32_t axis;
	uint64_t period, most; /* on the axis; most: by how much a stretch may miss its place */
	uint32_t part, members;
	bool late; /* a place between the first judged step and the stretches is empty */
	uint16_t member[KINDS_EVENTS]; /* indices of event[], the latest first */
	double usual_ns;  /* median of what its stretches and the sought one added to the account */
	double by_chance; /* logarithm of the number of such chains that chance makes */
};

/* Whether the stretch may be a member of a chain: it added at least half of the usual time
 * (alike_ratio). It may have added more, because other work on the machine may add any time. */
static bool may_be_of(const struct kinds *k, const struct event *e, const struct chain *c)
{
	return has_part(e, c->part) && e->part_ns[c->part] * k->config.alike_ratio >= c->usual_ns;
}

static struct chain follow(struct kinds *k, struct chain c)
{
	double ns[KINDS_EVENTS + 1] = {k->sought.part_ns[c.part]};
	uint64_t start = k->start.at[c.axis], near = jitter(k, c.period);
	struct target t = {c.axis, k->sought.first.at[c.axis], c.most};

	while (t.at >= c.period) {
		bool of_kind;
		struct event *e;
		struct interval passed;

		t.at -= c.period;
		e = event_at(k, t, c.part, &of_kind);
		if (e) {
			t.at = e->first.at[c.axis];
			c.member[c.members++] = (uint16_t)(e - k->event);
			ns[c.members] = e->part_ns[c.part];
			continue;
		}
		if (t.at < start) /* a phase may begin with the first judged step */
			break;
		if (of_kind)
			continue;
		if (!is_passed(k, (struct target){c.axis, t.at, near}, &passed)) {
			c.late = true;
			break;
		}
		/* no stretch begins in these steps, so go at once to the first place in them */
		if (t.at > passed.first + near)
			t.at -= (t.at - passed.first - near) / c.period * c.period;
	}
	c.usual_ns = median_of(ns, c.members + 1);
	for (uint32_t i = 0; i < c.members; i++)
		if (!may_be_of(k, &k->event[c.member[i]], &c)) {
			c.members = i;
			c.late = true;
		}
	if (!is_alike(k, &k->sought, c.part, c.usual_ns))
		c.members = 0;
	return c;
}

/* The chance p that a place is taken is its width in steps times the share of steps in which a
 * stretch begins that may be a member. So m places are taken with the chance p^m. If n places lie
 * side by side in the judged steps, n / (m (m + 1)) distances have m places, and n / m distances
 * have at least m. The latter counts for a late chain, which may begin at any place. A search was
 * made for each stretch that may be a member, so their number is a factor. */
static double by_chance(const struct kinds *k, const struct chain *c)
{
	double steps = (double)k->judged, members = c->members, all = 0, taken,
	       wide = 1 + 2 * (double)c->most / (double)unit_of(k, c->axis);
	uint64_t counted = NO_STEP;

	for (uint32_t i = 0; i < k->events; i++) {
		uint64_t step = k->event[i].first.at[BY_STEP];

		if (k->event[i].explained || k->event[i].learned || step == counted ||
		    step + 1 >= k->sought.first.at[BY_STEP] || !may_be_of(k, &k->event[i], c))
			continue;
		counted = step;
		all++;
	}
	for (uint32_t i = 0; i < c->members; i++)
		all += k->event[c->member[i]].learned;
	taken = fmin(1, wide * all / steps);
	/* a fault whose distance varies nearly always fills the places at some multiple of it */
	if (c->most && !c->late && taken > thresholds.part.matters)
		return 0;
	return log(all * steps / wide / (c->late ? members : members * (members + 1))) +
	       members * log(taken);
}

/* Whether all stretches of the chain took about as long, and each stretch that may be a member has
 * another one before it, at this distance. Places without judged steps count as if they had one. */
static bool all_recur(struct kinds *k, const struct chain *c)
{
	for (uint32_t i = 0; i < c->members; i++)
		if (!is_alike(k, &k->event[c->member[i]], c->part, c->usual_ns))
			return false;
	for (uint32_t i = 0; i < k->events; i++) {
		const struct event *e = &k->event[i], *before;
		struct target t = {c->axis, e->first.at[c->axis] - c->period, c->most};
		struct interval passed;
		bool of_kind;

		if (e->explained || e->learned ||
		    e->first.at[BY_STEP] + 1 >= k->sought.first.at[BY_STEP] ||
		    e->first.at[c->axis] < k->start.at[c->axis] + c->period || !may_be_of(k, e, c))
			continue;
		before = event_at(k, t, c->part, &of_kind);
		if (before ? !may_be_of(k, before, c) : !of_kind && !is_passed(k, t, &passed))
			return false;
	}
	return true;
}

/* Updates the chains that chance is least likely to make: *kind, which may be a kind, and *late. If
 * chance makes more than thresholds.sure.false_per_file such chains, each stretch that may be a
 * member must recur. */
static void find_at(struct kinds *k, struct chain of, struct chain *kind, struct chain *late)
{
	struct chain c = follow(k, of);

	if (c.members < 1u + c.late || (c.members == 1 && !is_single(k, &k->event[c.member[0]])))
		return;
	c.by_chance = by_chance(k, &c);
	if (c.late && c.by_chance < late->by_chance)
		*late = c;
	else if (!c.late && c.by_chance < kind->by_chance &&
		 (c.by_chance < log(thresholds.sure.false_per_file) ||
		  (c.by_chance < 0 && all_recur(k, &c))))
		*kind = c;
}

/* Tries the distances to earlier stretches. Tries those of the kinds too, because the steps at the
 * latest place may not have been judged. */
static void find_in(struct kinds *k, uint32_t part, struct chain *kind, struct chain *late)
{
	for (uint32_t i = 0; i < k->events; i++) {
		const struct event *e = &k->event[i];

		if (e->last.at[BY_STEP] + 1 >= k->sought.first.at[BY_STEP] || e->explained ||
		    !has_part(e, part))
			continue;
		for (uint32_t axis = 0; axis < AXES; axis++) {
			struct chain c = {.axis = axis,
					  .part = part,
					  .period = k->sought.first.at[axis] - e->first.at[axis]};

			if (axis == BY_STEP)
				find_at(k, c, kind, late);
			c.most = tolerance(k, axis, c.period);
			if (c.most)
				find_at(k, c, kind, late);
		}
	}
	/* includes dropped kinds */
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		const struct place *p = &k->place[i];

		if (p->period)
			find_at(k,
				(struct chain){.axis = p->axis,
					       .part = part,
					       .period = p->period,
					       .most = p->most},
				kind, late);
	}
}

static void learn_extra(struct place *p, double extra_ns)
{
	p->extra[p->extras++ % KINDS_EXTRAS] = extra_ns;
}

/* An entry for a new kind: a free one, or that of an unproven kind. If the new kind is proven,
 * also that of the cheapest kind. NULL: all entries are more important, or belong to the open
 * stretch. */
static struct place *free_place(struct kinds *k, bool proven)
{
	struct place *least = NULL;

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];

		if (!p->used)
			return p;
		if (k->of & 1u << i || (is_proven(p) && !proven))
			continue;
		if (!least || is_proven(p) < is_proven(least) ||
		    (is_proven(p) == is_proven(least) && p->total_ns < least->total_ns))
			least = p;
	}
	return least;
}

/* The model of the sought stretch may have learned from steps that were as long as it. Where such
 * steps are members of a chain, they count as slow stretches. Elsewhere they say nothing: the first
 * steps of a job are long for other reasons. Their accounts are not known, so they are members only
 * of chains of all accounts together. */
static void take_learned(struct kinds *k)
{
	for (uint32_t i = 0; i < KINDS_LEARNED && i < k->learneds; i++) {
		const struct learned *l = &k->learned[i];
		double more_ns = l->latency_ns - k->sought.expected_ns;
		uint32_t at = event_from(k, BY_STEP, l->first.at[BY_STEP]);
		struct event e = {.first = l->first,
				  .last = l->first,
				  .key = l->key,
				  .expected_ns = k->sought.expected_ns,
				  .part = k->sought.part,
				  .first_ns = more_ns,
				  .extra_ns = more_ns,
				  .learned = true};

		e.part_ns[BY_ALL] = more_ns;
		if (l->key != k->sought.key || !took_as_long(k, l) || k->events == KINDS_EVENTS ||
		    (at < k->events && k->event[at].first.at[BY_STEP] == l->first.at[BY_STEP]))
			continue;
		memmove(&k->event[at + 1], &k->event[at], (k->events++ - at) * sizeof(e));
		k->event[at] = e;
	}
}

/* Founds the kind of a stretch. NULL: no kind; also if chance is less likely to make a late chain,
 * because a fault makes such chains. All accounts together come first, then each account that has
 * a tenth of the excess: a rank that writes a checkpoint sometimes also waits for the others. */
static struct place *find_kind(struct kinds *k, const struct event *of)
{
	struct chain found = {.by_chance = INFINITY}, late = found;
	struct place *p;

	k->sought = *of;
	/* a forgotten stretch was at least half as long, so its place would seem empty */
	if (k->past_unknown || k->sought.first_ns <= k->config.alike_ratio * k->forgotten_ns)
		return NULL;
	take_learned(k);
	for (uint32_t i = 0; i < k->events; i++)
		k->event[i].explained = is_explained(k, &k->event[i]);
	find_in(k, BY_ALL, &found, &late);
	for (uint32_t part = 0; part < KINDS_PARTS; part++)
		if (has_part(&k->sought, part))
			find_in(k, part, &found, &late);
	if (!found.members || late.by_chance < found.by_chance)
		return NULL;
	p = free_place(k, found.members + 1 >= thresholds.count.few);
	if (!p)
		return NULL;
	*p = (struct place){.used = true,
			    .id = ++k->places,
			    .key = k->sought.key,
			    .by = found.part,
			    .part = found.part == BY_ALL ? k->sought.part : found.part,
			    .axis = found.axis,
			    .period = found.period,
			    .period_steps = found.axis == BY_STEP
						? found.period
						: found.period / unit_of(k, BY_CLOCK),
			    .most = found.most,
			    .first = k->event[found.member[found.members - 1]].first,
			    .last = k->sought.first,
			    .first_ns = k->sought.part_ns[found.part]};
	for (uint32_t i = found.members; i-- > 0;) {
		struct event *e = &k->event[found.member[i]];

		e->kind = p->id;
		p->count++;
		p->steps += steps_of(e);
		p->total_ns += e->extra_ns;
		learn_extra(p, e->extra_ns);
	}
	return p;
}

static void push_run(struct kinds *k, const struct steps_span *of, uint64_t key)
{
	struct run_of_work *s = k->latest;

	if (s->key != key || of->first.at[BY_STEP] != s->steps.last.at[BY_STEP] + 1) {
		s[1] = s[0];
		*s = (struct run_of_work){*of, key};
	}
	s->steps.last = of->last;
}

/* The latest run of steps of other work in which the kind is due; NULL: it is due in none. The
 * steps of an evaluation have no collective in which a rank could wait for another rank's
 * checkpoint. */
static const struct steps_span *due_elsewhere(const struct kinds *k, const struct place *p)
{
	uint64_t due = p->last.at[p->axis] + p->period;

	for (uint32_t i = 0; i < 2; i++)
		if (due >= k->latest[i].steps.first.at[p->axis] &&
		    due <= k->latest[i].steps.last.at[p->axis] && k->latest[i].key != p->key)
			return &k->latest[i].steps;
	return NULL;
}

/* Whether the step is the first one after such a run. */
static bool is_behind(const struct kinds *k, const struct place *p, struct spot first)
{
	const struct steps_span *other = due_elsewhere(k, p);

	return other && other->last.at[BY_STEP] + 1 == first.at[BY_STEP];
}

/* The kind that is due at this step; NULL: none. The step must add to the kind's account at least
 * half of what the kind adds (alike_ratio), so that a small delay is not an occurrence. What the
 * step adds to other accounts does not matter, because the ranks wait for the one whose checkpoint
 * takes longest. Several kinds may be due: two unrelated slow steps may look like a kind, and a
 * kind may look like others with two or three times its distance. Kinds whose latest usual
 * occurrence was at least half as long come first; among these, the one with most occurrences. */
static struct place *due_at(struct kinds *k, struct spot first, const double *part_ns)
{
	struct place *best = NULL;
	bool best_alike = false;

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];
		double grown = part_ns[p->by] / p->first_ns;
		bool alike = grown <= k->config.alike_ratio;

		if (!p->used || k->of & 1u << i || grown * k->config.alike_ratio < 1 ||
		    !(is_near(first.at[p->axis], p->last.at[p->axis] + p->period, p->most) ||
		      is_behind(k, p, first)))
			continue;
		if (best && (alike != best_alike ? best_alike : p->count <= best->count))
			continue;
		best = p;
		best_alike = alike;
	}
	return best;
}

/* The proven kind that is due at this step; NULL: none. Its latest occurrence is then this step, or
 * the step at which it was due. Two unrelated stretches may have founded a kind whose distance is
 * that of a later fault's steps. So an unproven kind that is due again is dropped, and must be
 * found again. */
static struct place *proven_at(struct kinds *k, struct spot first, const double *part_ns)
{
	struct place *p;

	while ((p = due_at(k, first, part_ns)) && p->count < thresholds.count.few)
		p->used = false;
	if (p && is_behind(k, p, first))
		p->last.at[p->axis] += p->period;
	else if (p)
		p->last = first;
	return p;
}

/* Handles due occurrences that did not come. If the steps at the place were not judged or have
 * other work, the occurrence does not count as missed. */
static void pass_places(struct kinds *k, struct spot first)
{
	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		struct place *p = &k->place[i];
		uint64_t *last = &p->last.at[p->axis];
		const struct steps_span *other;

		if (!p->used || k->of & 1u << i || first.at[p->axis] <= *last + p->period + p->most)
			continue;
		other = due_elsewhere(k, p);
		/* it may still come after these steps */
		if (other && first.at[BY_STEP] <= other->last.at[BY_STEP] + 1)
			continue;
		*last += p->period;
		if (other || unseen_at(k, (struct target){p->axis, *last, p->most}))
			continue;
		p->missed++;
		if (p->count < thresholds.count.few || p->missed >= k->config.miss_max)
			p->used = false;
	}
}

/* ---- slow stretches ---- */

/* Remembers a stretch. Stretches of known kinds are kept too, because a kind may turn out to be
 * none. When there is no room, the earliest stretch of a known kind goes, or else the shortest of
 * the others. */
static void remember(struct kinds *k, const struct event *e)
{
	uint32_t out = 0;
	bool explained = is_explained(k, &k->event[0]);

	for (uint32_t i = 1; i < KINDS_EVENTS && k->events == KINDS_EVENTS && !explained; i++) {
		explained = is_explained(k, &k->event[i]);
		if (explained || k->event[i].first_ns < k->event[out].first_ns)
			out = i;
	}
	if (k->events == KINDS_EVENTS) {
		if (!explained)
			k->forgotten_ns = fmax(k->forgotten_ns, k->event[out].first_ns);
		memmove(&k->event[out], &k->event[out + 1],
			(--k->events - out) * sizeof(k->event[0]));
	}
	k->event[k->events++] = *e;
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
		if (p->id != k->over.kind)
			k->open.kind = p->id;
		p->count++;
		p->missed = 0;
		p->steps += one ? steps_of(&k->open) : 1;
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
		if (!k->event[i].learned && k->event[i].part == part &&
		    k->event[i].extra_ns * k->config.alike_ratio >= extra_ns)
			return true;
	return false;
}

static struct spot first_of(const struct step *s)
{
	return (struct spot){{s->index, s->begin_ns}};
}

static struct spot last_of(const struct step *s)
{
	return (struct spot){{s->index, s->end_ns}};
}

static void open_stretch(struct kinds *k, const struct step *s, uint32_t part,
			 const double *part_ns, double extra_ns, double expected_ns)
{
	struct place *p;

	close_stretch(k);
	k->open = (struct event){.first = first_of(s),
				 .last = last_of(s),
				 .key = s->key,
				 .expected_ns = expected_ns,
				 .part = part,
				 .first_ns = extra_ns,
				 .extra_ns = extra_ns};
	memcpy(k->open.part_ns, part_ns, sizeof(k->open.part_ns));
	k->over = (struct event){0};
	k->open_self_ns = 0;
	k->is_open = true;
	p = proven_at(k, k->open.first, part_ns);
	if (!p)
		p = find_kind(k, &k->open);
	if (p)
		k->of = 1u << (p - k->place);
}

/* What the kinds of the open stretch usually add to the latency and to the self time, and the
 * limits beyond which the stretch has grown. */
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

/* The rarest kind of the open stretch that still has this step; NULL: no kind usually has so many
 * steps. */
static const struct place *place_of(const struct kinds *k, uint64_t step)
{
	double steps = (double)(step - k->open.first.at[BY_STEP]) + 0.5;
	const struct place *rarest = NULL;

	for (uint32_t i = 0; i < KINDS_PLACES; i++) {
		const struct place *p = &k->place[i];

		if (k->of & 1u << i && (double)p->steps >= steps * (double)p->count &&
		    (!rarest || p->period_steps > rarest->period_steps))
			rarest = p;
	}
	return rarest;
}

/* Whether the open stretch is longer than its kinds explain, together with the kinds that are
 * due. */
static bool has_grown(struct kinds *k, struct spot first, const double *part_ns, struct usual *u)
{
	struct place *p;

	*u = usual_of_all(k);
	while (k->open.extra_ns > u->limit_ns && (p = proven_at(k, first, part_ns))) {
		k->of |= 1u << (p - k->place);
		*u = usual_of_all(k);
	}
	for (uint32_t i = 0; i < KINDS_PLACES; i++)
		if (k->of & 1u << i)
			k->place[i].grown = k->open.extra_ns > u->limit_ns;
	return k->open.extra_ns > u->limit_ns;
}

/* Begins the excess of the open stretch: what it added to each account beyond its kinds. The excess
 * may be of another kind, which coincides with a known kind here. Returns whether the stretch is
 * longer than both kinds explain. */
static bool open_over(struct kinds *k, const struct step *s, double expected_ns,
		      const double *part_ns, struct usual *u)
{
	struct place *p;
	double limit;

	k->over = (struct event){.first = first_of(s),
				 .key = s->key,
				 .expected_ns = expected_ns + u->ns,
				 .first_ns = k->open.extra_ns - u->ns,
				 .extra_ns = k->open.extra_ns - u->ns,
				 .last = last_of(s),
				 .over = true};
	memcpy(k->over.part_ns, part_ns, sizeof(k->over.part_ns));
	k->over.part_ns[BY_ALL] = k->over.first_ns;
	for (uint32_t i = 0; i < KINDS_PLACES; i++)
		if (k->of & 1u << i)
			k->over.part_ns[k->place[i].part] -= usual_extra(k, &k->place[i], &limit);
	for (uint32_t i = 1; i < KINDS_PARTS; i++)
		if (k->over.part_ns[i] > k->over.part_ns[k->over.part])
			k->over.part = i;
	p = find_kind(k, &k->over);
	if (!p)
		return true;
	k->of |= 1u << (p - k->place);
	k->over.kind = p->id;
	return has_grown(k, first_of(s), part_ns, u);
}

static struct kinds_verdict push_slow(struct kinds *k, const struct step *s, double expected_ns,
				      uint32_t part, const double *part_ns, double extra_ns,
				      double self_ns)
{
	struct kinds_verdict v = {.of_kind = false};
	double before_ns = 0, before_self_ns = 0;
	const struct place *p;
	struct usual u;

	/* slow steps right before a kind's place do not belong to the kind */
	if (k->is_open && extra_ns <= k->config.alike_ratio * k->open.first_ns &&
	    (k->of || !due_at(k, first_of(s), part_ns))) {
		before_ns = k->open.extra_ns;
		before_self_ns = k->open_self_ns;
		k->open.last = last_of(s);
		k->open.extra_ns += extra_ns;
	} else {
		open_stretch(k, s, part, part_ns, extra_ns, expected_ns);
		v.first = !k->of && !was_seen(k, part, extra_ns);
	}
	k->open_self_ns += self_ns;
	if (!k->of)
		return v;
	v.of_kind = true;
	v.grown = has_grown(k, first_of(s), part_ns, &u);
	/* a kind that was due later in the stretch explains the excess */
	if (!v.grown && !k->over.kind)
		k->over = (struct event){0};
	if (v.grown && !(k->over.first_ns > 0))
		v.grown = open_over(k, s, expected_ns, part_ns, &u);
	v.self_grown = v.grown && k->open_self_ns > u.self_limit_ns;
	if (v.grown && !k->over.kind) {
		k->over.last = last_of(s);
		k->over.extra_ns = k->open.extra_ns - u.ns;
	}
	v.usual_ns = fmax(u.ns - before_ns, 0);
	v.usual_self_ns = fmax(u.self_ns - fmax(before_self_ns, 0), 0);
	p = place_of(k, s->index);
	if (p) {
		v.kind = (uint32_t)p->id;
		v.period = p->period_steps < UINT32_MAX ? (uint32_t)p->period_steps : UINT32_MAX;
	}
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
	struct steps_span span = {first_of(s), last_of(s)};
	uint32_t part;

	push_work(k, s);
	push_run(k, &span, expected_ns > 0 ? s->key : 0);
	k->pushed++;
	k->total_ns += (double)s->latency_ns;
	if (k->start.at[BY_STEP] != NO_STEP &&
	    (!(expected_ns > 0) || s->index > k->next.at[BY_STEP]))
		pass_unseen(k, k->next,
			    expected_ns > 0 ? (struct spot){{s->index - 1, s->begin_ns}}
					    : span.last);
	/* A stretch continues across missing steps (tracing was switched off and on). Otherwise its
	 * rest would be a second stretch, and could found a kind with the first. */
	if (k->is_open && k->open.last.at[BY_STEP] + 1 != k->next.at[BY_STEP])
		close_stretch(k);
	k->next = (struct spot){{s->index + 1, s->end_ns}};
	if (!(expected_ns > 0)) {
		push_near(k, s);
		k->learned[k->learneds++ % KINDS_LEARNED] =
		    (struct learned){span.first, s->key, (double)s->latency_ns};
		pass_places(k, span.first);
		return v;
	}
	if (k->start.at[BY_STEP] == NO_STEP)
		k->start = span.first;
	k->judged++;
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
	pass_places(k, span.first);
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
				  .period = p->period_steps,
				  .period_ns = p->axis == BY_CLOCK ? p->period : 0,
				  .count = p->count,
				  .first_step = p->first.at[BY_STEP],
				  .last_step = p->last.at[BY_STEP],
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
