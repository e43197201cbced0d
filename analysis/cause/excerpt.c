/* SPDX-License-Identifier: Apache-2.0
 * A kernel belongs to the step in which it was launched, because the device runs behind the host.
 * Values are means over the steps, not medians, because a kernel may run in some steps only. CPU
 * samples have the time of their slice, which is longer than a step, so they are spread over the
 * whole window. */
#include "analysis/cause/excerpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ledger/wait_class.h"
#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/idmap.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/room.h"
#include "base/sorted.h"
#include "base/text/text.h"
#include "model/thresholds.h"

#define NAME_BYTES     LIMIT_EXCERPT_NAME_BYTES
#define STUCK_FRAMES   6u
#define LAUNCH_THREADS 8u
#define THREADS_MAX    64u
/* After this many consecutive addresses that were not found, a file is taken to have no symbols. */
#define MISSES_MAX 16u
#define PHASES_MAX 8u
#define TABLE_MAX  2048u /* names per table */

struct excerpt *excerpt_hold(struct excerpt *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->holders, 1, memory_order_relaxed);
	return p;
}

void excerpt_drop(struct excerpt *p)
{
	/* acq_rel: pairs with the other holders' drops, so the last one sees their reads done */
	if (!p || atomic_fetch_sub_explicit(&p->holders, 1, memory_order_acq_rel) != 1)
		return;
	free(p->slow.kernels);
	free(p->healthy.kernels);
	free(p->functions);
	free(p->signals);
	window_ledger_fini(&p->ledger);
	free(p->pool);
	free(p);
}

void excerpt_rank(const struct excerpt *p, bool healthy, struct diagnosis_rank *out)
{
	*out = (healthy ? &p->healthy : &p->slow)->rank;
}

const struct ledger *excerpt_ledger(const struct excerpt *p, uint32_t kind, bool healthy)
{
	return healthy ? &p->ledger.kind[kind].healthy : &p->ledger.kind[kind].slow;
}

/* Returns an offset, because the pool may move; finish() makes pointers of them. 0: no room. */
static size_t pool_put(struct excerpt *p, const char *text)
{
	size_t n = strnlen(text, NAME_BYTES - 1), at = p->pool_bytes;

	if (at + n + 1 > LIMIT_EXCERPT_POOL_BYTES || ROOM_FOR(p->pool, p->pool_room, at + n + 1))
		return 0;
	memcpy(p->pool + at, text, n);
	p->pool[at + n] = '\0';
	p->pool_bytes = at + n + 1;
	return at;
}

/* ---- steps ---- */

enum part_of { PART_NONE, PART_SLOW, PART_HEALTHY };

/* The steps of each part that have all their records, and their kinds. */
struct parts {
	bool *slow, *healthy;
	uint8_t *kind;
};

/* Which steps are used. Sometimes a detector cuts a step in two; such halves have less work and are
 * left out. */
struct choice {
	uint32_t slow;	 /* flag of the slow steps; 0: all are slow */
	bool transients; /* count */
	/* The window shows what is usual: all its steps are the slow part. Those of other ranks in the
	 * same time are of the same phases. */
	bool typical;
	/* of a requested window: what a step usually takes. Others may have waited in a step of a
	 * kind that the rank's own model does not know yet, so it counts as slow. 0: not so. */
	double usual_ns;
	uint32_t known[PHASES_MAX], known_count; /* phases with an expected latency */
	/* Only steps of this kind (window_step.kind), and with of_phase of this phase: prefill is
	 * no reference for decode, a step with a checkpoint none for one without. */
	bool of_kind, of_phase;
	uint32_t kind, period, phase;
	/* fewest launches of a whole step; before a lasting change steps may have less work */
	uint32_t kernels_min, healthy_kernels_min, healthy_kernels_max;
	/* How far a healthy step may exceed its expected latency. If a fault is about as large as
	 * the noise, some slow steps are not flagged. Steps nearer to the slow steps than to the
	 * expected latency are not a reference. */
	double healthy_max_ns;
	/* Healthy steps begin earlier: later ones may have the fault in a milder form. */
	uint64_t healthy_end_ns;
};

/* A requested window shows what is typical. If less than this part of it is slow, or the rank only waited
 * in slow steps, the whole window is the slow part. */
#define SLOW_PART 8u

static bool is_known(const struct choice *c, uint32_t phase)
{
	uint32_t at = 0;

	while (at < c->known_count && c->known[at] != phase)
		at++;
	return at < c->known_count || at == PHASES_MAX;
}

/* The median of what the steps should take, and of which phases that is known. */
static void take_usual(const struct window *w, struct choice *c)
{
	double *v = malloc(w->step_count * sizeof(*v) + 1);
	uint32_t n = 0;

	for (uint32_t i = 0; v && i < w->step_count; i++) {
		const struct window_step *s = &w->steps[i];

		if (s->expected_ns <= 0)
			continue;
		v[n++] = s->expected_ns;
		if (!is_known(c, s->step.phase) && c->known_count < PHASES_MAX)
			c->known[c->known_count++] = s->step.phase;
	}
	c->usual_ns = median_of(v, n);
	free(v);
}

static double lost_ns(const struct window_step *s, const struct choice *c)
{
	if (s->expected_ns > 0 || c->usual_ns <= 0)
		return window_step_lost_ns(s);
	return (double)s->step.latency_ns - c->usual_ns;
}

/* Flags of steps that are never used. */
#define UNFIT (STEP_FLAG_FIRST | STEP_FLAG_GAP | STEP_FLAG_INCOMPLETE)

static bool is_unknown(const struct window_step *s, const struct choice *c)
{
	return !(s->step.flags & UNFIT) && s->expected_ns <= 0 && c->usual_ns > 0 &&
	       !is_known(c, s->step.phase) &&
	       lost_ns(s, c) > thresholds.excess.slower * c->usual_ns;
}

/* Whether steps of a kind that is not known come again and again. */
static bool has_unknown(const struct window *w, const struct choice *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->step_count; i++)
		n += is_unknown(&w->steps[i], c);
	return n >= thresholds.count.few;
}

static bool is_slow(const struct window_step *s, const struct choice *c)
{
	return !c->slow || s->flags & c->slow || is_unknown(s, c);
}

/* Whether the step has the kind and phase that are examined. */
static bool is_of(const struct window_step *s, const struct choice *c)
{
	return (!c->of_kind || s->kind == c->kind) && (!c->of_phase || s->step.phase == c->phase);
}

static enum part_of part_of(const struct window_step *s, const struct choice *c)
{
	bool slow = is_slow(s, c);

	if (s->step.flags & UNFIT || (!c->transients && window_step_is_transient(s)) ||
	    !is_of(s, c) || s->step.kernels < (slow ? c->kernels_min : c->healthy_kernels_min) ||
	    (!slow && s->step.kernels > c->healthy_kernels_max))
		return PART_NONE;
	if (slow)
		return PART_SLOW;
	if (s->flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED) ||
	    window_step_lost_ns(s) > c->healthy_max_ns || s->step.begin_ns >= c->healthy_end_ns)
		return PART_NONE;
	return PART_HEALTHY;
}

/* The part of the step's loss in which it did not wait for others. */
static double own_lost_ns(const struct window_step *s)
{
	return s->expected_self_ns > 0 ? window_step_lost_self_ns(s) : window_step_lost_ns(s);
}

static double waited_ns(const struct window *w)
{
	double ns = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->step_count; i++) {
		const struct window_step *s = &w->steps[i];

		if (s->expected_ns <= 0)
			continue;
		ns += fmax(window_step_lost_ns(s) - fmax(own_lost_ns(s), 0), 0);
		n++;
	}
	return n ? ns / n : 0;
}

static bool is_mostly_healthy(const struct window *w, const struct choice *c)
{
	uint32_t slow = 0, healthy = 0;
	double own_ns = 0, all_ns = 0;

	if (w->reason != WINDOW_ASKED || has_unknown(w, c))
		return false;
	for (uint32_t i = 0; i < w->step_count; i++) {
		const struct window_step *s = &w->steps[i];

		healthy += part_of(s, c) == PART_HEALTHY;
		if (part_of(s, c) != PART_SLOW)
			continue;
		slow++;
		all_ns += window_step_lost_ns(s);
		own_ns += own_lost_ns(s);
	}
	return healthy &&
	       (slow * SLOW_PART < slow + healthy || own_ns < thresholds.part.little * all_ns);
}

/* The launches of the typical step, weighted by time, because halves take less of it. If two counts
 * share the time, the larger one. which: of these steps; PART_NONE: of all. */
static uint32_t typical_kernels(const struct window *w, const struct choice *c, enum part_of which,
				struct median_weighted *scratch)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->step_count; i++)
		if (is_of(&w->steps[i], c) &&
		    (!which || is_slow(&w->steps[i], c) == (which == PART_SLOW)))
			scratch[n++] =
			    (struct median_weighted){-(double)w->steps[i].step.kernels,
						     (double)(w->steps[i].step.latency_ns >> 10)};
	return n ? (uint32_t)-median_of_weighted(scratch, n, 0) : 0;
}

static uint32_t few_of(uint32_t kernels)
{
	return (uint32_t)(thresholds.part.little * kernels);
}

/* A step with fewer launches is a part of one, if enough others are whole. */
static uint32_t whole_of(uint32_t kernels)
{
	return kernels - few_of(kernels);
}

/* Half of the mean excess of the slow steps. */
static double healthy_max_ns(const struct window *w, const struct choice *c)
{
	double sum_ns = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->step_count && c->slow; i++)
		if (part_of(&w->steps[i], c) == PART_SLOW && w->steps[i].expected_ns) {
			sum_ns += window_step_lost_ns(&w->steps[i]);
			n++;
		}
	return sum_ns > 0 ? sum_ns / n / 2 : HUGE_VAL;
}

static struct choice every_step(const struct window *w)
{
	struct choice c = {.slow = window_slow_flag(w),
			   .healthy_kernels_max = UINT32_MAX,
			   .healthy_max_ns = HUGE_VAL,
			   .healthy_end_ns = UINT64_MAX};

	c.transients = window_transients_count(w, c.slow);
	if (w->reason == WINDOW_ASKED)
		take_usual(w, &c);
	if (!c.slow && has_unknown(w, &c))
		c.slow = WINDOW_STEP_FLAGGED; /* no step has it: these alone are slow */
	return c;
}

static uint32_t phase_of(const struct window_step *s)
{
	return s->step.phase;
}

static uint32_t kind_of_step(const struct window_step *s)
{
	return s->kind;
}

static double took_ns(const struct window_step *s, const struct choice *c)
{
	(void)c;
	return (double)s->step.latency_ns;
}

/* The kind or phase with the largest sum over the slow steps; false: all sums are 0. */
static bool with_most(const struct window *w, const struct choice *c,
		      double (*ns)(const struct window_step *s, const struct choice *c),
		      uint32_t (*sort)(const struct window_step *s), uint32_t *out)
{
	uint32_t is[PHASES_MAX], count = 0;
	double sum[PHASES_MAX] = {0}, most = 0;

	for (uint32_t i = 0; i < w->step_count; i++) {
		double more = ns(&w->steps[i], c);
		uint32_t at = 0;

		if (!(more > 0) || part_of(&w->steps[i], c) != PART_SLOW)
			continue;
		while (at < count && is[at] != sort(&w->steps[i]))
			at++;
		if (at == PHASES_MAX)
			continue;
		count += at == count;
		is[at] = sort(&w->steps[i]);
		sum[at] += more;
	}
	for (uint32_t at = 0; at < count; at++)
		if (sum[at] > most) {
			most = sum[at];
			*out = is[at];
		}
	return most > 0;
}

/* The kind in which the slow steps lost most. Without a usual step of it there is no reference. */
static void choose_kind(const struct window *w, struct choice *c)
{
	c->of_kind = with_most(w, c, lost_ns, kind_of_step, &c->kind);
	for (uint32_t i = 0; i < w->step_count && c->of_kind; i++)
		if (w->steps[i].kind == c->kind)
			c->period = w->steps[i].period;
}

/* The phase in which the slow steps lost most. */
static void choose_phase(const struct window *w, struct choice *c)
{
	c->of_phase = with_most(w, c, lost_ns, phase_of, &c->phase);
}

/* Without enough healthy steps of the phase, those of others are the reference. */
static void compare_others(const struct window *w, struct choice *c)
{
	uint32_t healthy = 0;

	for (uint32_t i = 0; i < w->step_count; i++)
		healthy += part_of(&w->steps[i], c) == PART_HEALTHY;
	c->of_phase &= healthy >= thresholds.count.few;
}

/* Leaves out parts of steps, unless too few slow steps would be left. */
static void choose_whole(const struct window *w, struct choice *c)
{
	struct median_weighted *scratch = malloc(w->step_count * sizeof(*scratch) + 1);
	struct choice all = *c, whole = *c;
	uint32_t kernels = scratch ? typical_kernels(w, c, PART_NONE, scratch) : 0, n = 0;
	uint32_t healthy = kernels;

	all.of_kind = all.of_phase = false;
	if (scratch && w->reason == WINDOW_DRIFT)
		healthy = typical_kernels(w, &all, PART_HEALTHY, scratch);
	free(scratch);
	whole.kernels_min = whole_of(kernels);
	whole.healthy_kernels_min = whole_of(healthy < kernels ? healthy : kernels);
	for (uint32_t i = 0; i < w->step_count; i++)
		n += part_of(&w->steps[i], &whole) == PART_SLOW;
	if (n >= thresholds.count.few)
		*c = whole;
}

static struct choice choose(const struct window *w)
{
	struct choice c = every_step(w);

	c.typical = !c.slow || is_mostly_healthy(w, &c);
	if (c.typical)
		return c;
	choose_kind(w, &c);
	choose_phase(w, &c);
	choose_whole(w, &c);
	c.healthy_max_ns = healthy_max_ns(w, &c);
	return c;
}

/* Compares like with like: a window may hold training and evaluation. If some healthy steps launch as
 * much as the slow ones, the others are not a reference. */
static void compare_alike(const struct window *w, struct choice *c)
{
	struct median_weighted *scratch = malloc(w->step_count * sizeof(*scratch) + 1);
	uint32_t kernels = scratch ? typical_kernels(w, c, PART_SLOW, scratch) : 0, n = 0;
	struct choice alike = *c;

	free(scratch);
	if (whole_of(kernels) > alike.healthy_kernels_min)
		alike.healthy_kernels_min = whole_of(kernels);
	alike.healthy_kernels_max = kernels + few_of(kernels);
	for (uint32_t i = 0; i < w->step_count; i++)
		n += part_of(&w->steps[i], &alike) == PART_HEALTHY;
	if (kernels && n >= thresholds.count.few)
		*c = alike;
}

/* Leaves out healthy steps after the first slow one, unless too few would be left. */
static void compare_before(const struct window *w, struct choice *c)
{
	struct choice before = *c;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->step_count; i++) {
		uint64_t begin_ns = w->steps[i].step.begin_ns;

		if (part_of(&w->steps[i], c) == PART_SLOW && begin_ns < before.healthy_end_ns)
			before.healthy_end_ns = begin_ns;
	}
	for (uint32_t i = 0; i < w->step_count; i++)
		n += part_of(&w->steps[i], &before) == PART_HEALTHY;
	if (n >= thresholds.count.few)
		*c = before;
}

static double figure(const struct step *s, int which)
{
	const uint64_t list[] = {s->latency_ns,	     s->self_ns, s->compute_ns, s->comm_ns,
				 s->exposed_comm_ns, s->copy_ns, s->idle_ns};

	return which < 7 ? (double)list[which] : (double)s->kernels;
}

/* What the stated work of a step should take; 0: it has none, or it is not known. */
static double stated_ns(const struct window_step *s)
{
	return s->step.flags & STEP_FLAG_STATED ? s->expected_ns : 0;
}

static void sum_up(const struct window *w, const struct choice *c, enum part_of which,
		   double *scratch, struct diagnosis_rank *r)
{
	double *const to[] = {&r->step_ns,	   &r->self_ns, &r->compute_ns, &r->comm_ns,
			      &r->exposed_comm_ns, &r->copy_ns, &r->idle_ns,	&r->kernels};
	uint32_t stated = 0;

	*r = (struct diagnosis_rank){.rank = w->rank.rank, .off_ns = -1, .gil_wait_ns = -1};
	for (int f = 0; f < 8; f++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < w->step_count; i++)
			if (part_of(&w->steps[i], c) == which)
				scratch[n++] = figure(&w->steps[i].step, f);
		*to[f] = median_of(scratch, n);
		r->steps = n;
	}
	for (uint32_t i = 0; i < w->step_count; i++)
		if (part_of(&w->steps[i], c) == which)
			scratch[stated++] = stated_ns(&w->steps[i]);
	r->stated_ns = median_of(scratch, stated);
}

/* ---- sums by name ---- */

struct entry {
	size_t name;			 /* offset in the pool */
	double self, total, off, launch; /* for kernels, total is the time and self the count */
	uint32_t seen;
	uint8_t kind;
	bool collective;
};

struct table {
	struct entry *e;
	size_t room;
	uint32_t count;
	struct idmap by_name;
};

static void table_fini(struct table *t)
{
	free(t->e);
	idmap_fini(&t->by_name);
}

/* NULL: no room. The result is valid until the next call. */
static struct entry *find(struct excerpt *p, struct table *t, unsigned kind, const char *name)
{
	uint64_t key = keyed_text(keyed_process(), name) + kind;
	uint32_t at = idmap_get(&t->by_name, key);
	size_t text;

	if (at != IDMAP_NONE)
		return &t->e[at];
	if (t->count == TABLE_MAX || ROOM_FOR(t->e, t->room, t->count + 1))
		return NULL;
	text = pool_put(p, name);
	if (!text || idmap_put(&t->by_name, key, t->count))
		return NULL;
	t->e[t->count] = (struct entry){.name = text, .kind = (uint8_t)kind};
	return &t->e[t->count++];
}

ORDER_BY(by_weight, struct entry,
	 ORDER(fmax(b->total, b->off), fmax(a->total, a->off))
	     ?: ORDER_UP(name)); /* the first to appear */

/* ---- kernels ---- */

static void kernel_add(struct entry *e, const struct record *r)
{
	if (!e)
		return;
	e->total += (double)(r->end_ns - r->begin_ns);
	e->self += 1;
	e->collective |= r->kind == RECORD_COLL_KERNEL;
}

static void add_kernels(struct excerpt *p, const struct window *w, const struct parts *parts,
			struct table *slow, struct table *healthy)
{
	for (uint32_t i = 0; w->device && i < w->device_count; i++) {
		const struct record *r = &w->device[i];
		uint32_t step = window_step_at(w, r->launch_ns ? r->launch_ns : r->begin_ns);

		if ((r->kind != RECORD_KERNEL && r->kind != RECORD_COLL_KERNEL) ||
		    step == w->step_count || r->name >= w->name_count || !w->names ||
		    r->end_ns < r->begin_ns)
			continue;
		if (parts->slow[step])
			kernel_add(find(p, slow, 0, w->names[r->name]), r);
		if (parts->healthy[step])
			kernel_add(find(p, healthy, 0, w->names[r->name]), r);
	}
}

static void keep_kernels(struct table *t, const bool *steps, uint32_t step_count,
			 struct excerpt_part *part)
{
	uint32_t n = t->count < LIMIT_EXCERPT_KERNELS ? t->count : LIMIT_EXCERPT_KERNELS, whole = 0;

	for (uint32_t i = 0; i < step_count; i++)
		whole += steps[i];
	if (n)
		qsort(t->e, t->count, sizeof(*t->e), by_weight);
	part->kernels = n && whole ? calloc(n, sizeof(*part->kernels)) : NULL;
	for (uint32_t i = 0; part->kernels && i < n; i++) {
		struct diagnosis_kernel *k = &part->kernels[part->rank.kernel_count++];

		k->name = (const char *)t->e[i].name; /* an offset until finish() */
		k->count = t->e[i].self / whole;
		k->total_ns = t->e[i].total / whole;
		k->collective = t->e[i].collective;
	}
}

/* ---- threads ---- */

/* The samples of the reference's steps come first. */
static uint32_t first_sample(const struct stack_batch *b)
{
	uint32_t i = 0;

	while (i < b->sample_count && b->samples[i].time_ns + STACK_SLICE_NS <= b->begin_ns)
		i++;
	return i;
}

struct threads {
	uint32_t tid[THREADS_MAX], launches[THREADS_MAX];
	uint32_t count;
	uint32_t launching[LAUNCH_THREADS];
	uint32_t launching_count;
};

static bool has_samples(const struct window *w, uint32_t tid)
{
	for (uint32_t i = 0; i < w->stacks.sample_count; i++)
		if (w->stacks.samples[i].tid == tid)
			return true;
	return false;
}

static void find_threads(const struct window *w, struct threads *t)
{
	uint32_t most = 0, k;

	memset(t, 0, sizeof(*t));
	for (uint32_t i = 0; w->host && i < w->host_count; i++) {
		if (!record_is_launch(&w->host[i]))
			continue;
		for (k = 0; k < t->count && t->tid[k] != w->host[i].thread; k++)
			;
		if (k == THREADS_MAX)
			continue;
		t->count += k == t->count;
		t->tid[k] = w->host[i].thread;
		if (++t->launches[k] > most)
			most = t->launches[k];
	}
	for (k = 0; k < t->count && t->launching_count < LAUNCH_THREADS; k++)
		/* threads that launch less are helpers */
		if (t->launches[k] >= thresholds.part.matters * most && has_samples(w, t->tid[k]))
			t->launching[t->launching_count++] = t->tid[k];
	/* without host records, or in another PID namespace: the process's main thread */
	if (!t->launching_count && w->rank.pid)
		t->launching[t->launching_count++] = w->rank.pid;
}

static bool launches(const struct threads *t, uint32_t tid)
{
	for (uint32_t k = 0; k < t->launching_count; k++)
		if (t->launching[k] == tid)
			return true;
	return false;
}

/* ---- functions ---- */

struct namer {
	excerpt_name_fn fn; /* NULL: no resolver */
	void *arg;
	char **known;	 /* by frame */
	uint8_t *misses; /* per object: consecutive names that were not found */
	bool missed;
};

/* A window and the names of its frames. */
struct named {
	const struct window *w;
	struct namer names;
	char room[NAME_BYTES];
};

static bool resolve(const struct window *w, struct namer *n, const struct stack_frame *f, char *out,
		    size_t bytes)
{
	const struct stack_object *o = &w->stacks.objects[f->object];
	uint8_t *misses = &n->misses[f->object];

	if (!n->fn || *misses >= MISSES_MAX)
		return false;
	if (n->fn(n->arg, o->build_id, o->build_id_bytes,
		  f->address - (f->flags & STACK_FRAME_RETURN ? 1 : 0), out, bytes) &&
	    *out) {
		*misses = 0;
		return true;
	}
	++*misses;
	n->missed |= o->build_id_bytes != 0;
	return false;
}

static void name_frame(const struct window *w, struct namer *n, const struct stack_frame *f,
		       char *out, size_t bytes)
{
	const struct stack_batch *b = &w->stacks;
	const char *text;

	switch (f->kind) {
	case STACK_FRAME_KERNEL:
		text_copy(out, bytes, stack_batch_text(b, f->object));
		return;
	case STACK_FRAME_PYTHON:
		text = stack_batch_text(b, f->file);
		snprintf(out, bytes, "%s%s%s%s", stack_batch_text(b, f->object), *text ? " (" : "",
			 text_base(text), *text ? ")" : "");
		return;
	case STACK_FRAME_NATIVE:
		if (f->object >= b->object_count)
			break;
		if (resolve(w, n, f, out, bytes))
			return;
		text = text_base(stack_batch_text(b, b->objects[f->object].path));
		snprintf(out, bytes, *text == '[' ? "%s" : "[%s]", text); /* "[vdso]" is whole */
		return;
	default:
		break;
	}
	text_copy(out, bytes, "[jit]");
}

static const char *frame_name(const struct window *w, struct namer *n, uint32_t frame, char *room)
{
	if (n->known[frame])
		return n->known[frame];
	name_frame(w, n, &w->stacks.frames[frame], room, NAME_BYTES);
	n->known[frame] = strdup(room);
	return n->known[frame] ? n->known[frame] : room;
}

static const char *name_of(void *arg, uint32_t frame)
{
	struct named *n = arg;

	return frame_name(n->w, &n->names, frame, n->room);
}

static unsigned kind_of(const struct stack_frame *f)
{
	return f->kind == STACK_FRAME_KERNEL   ? FUNCTION_KERNEL
	       : f->kind == STACK_FRAME_PYTHON ? FUNCTION_PYTHON
					       : FUNCTION_NATIVE;
}

/* Whether an interrupt entered the kernel here. The frames outside of it were interrupted, and do
 * not own the interrupt's time. (x86, arm64) */
static bool is_interrupt_entry(const struct stack_batch *b, const struct stack_frame *f)
{
	static const char *const entries[] = {"asm_sysvec_", "asm_common_interrupt", "el0t_64_irq",
					      "el1h_64_irq"};
	const char *name = f->kind == STACK_FRAME_KERNEL ? stack_batch_text(b, f->object) : "";

	for (size_t i = 0; i < ARRAY_LEN(entries); i++)
		if (!strncmp(name, entries[i], strlen(entries[i])))
			return true;
	return false;
}

static void add_sample(struct excerpt *p, const struct window *w, const struct threads *t,
		       struct namer *names, struct table *functions, uint32_t sample)
{
	const struct stack_batch *b = &w->stacks;
	const struct stack_sample *s = &b->samples[sample];
	const struct stack *st = &b->stacks[s->stack];
	bool off = s->kind == STACK_OFF_CPU, launching = launches(t, s->tid);
	char room[NAME_BYTES];

	if (off && !launching)
		return;
	for (uint32_t i = 0; i < st->count; i++) {
		const struct stack_frame *f = &b->frames[st->first + i];
		struct entry *e;

		if (i && is_interrupt_entry(b, f))
			break;
		if (stack_frame_is_nameless(b, f))
			continue;
		e = find(p, functions, kind_of(f), frame_name(w, names, st->first + i, room));
		if (!e)
			continue;
		if (!i && !off)
			e->self += (double)s->weight_ns;
		if (e->seen == sample + 1)
			continue;
		e->seen = sample + 1;
		*(off ? &e->off : &e->total) += (double)s->weight_ns;
		if (!off && launching)
			e->launch += (double)s->weight_ns;
	}
}

static void add_off(struct entry *e, uint64_t ns)
{
	if (e)
		e->off += (double)ns;
}

static const struct entry *most_off(const struct table *t)
{
	const struct entry *most = NULL;

	for (uint32_t i = 0; i < t->count; i++)
		if (!most || t->e[i].off > most->off)
			most = &t->e[i];
	return most;
}

/* The thread that ended most of the waits, or the name of several: a program that runs in each step
 * has new threads in each. */
static void find_waker(struct excerpt *p, const struct window *w, const struct threads *t,
		       struct diagnosis_rank *r)
{
	const struct stack_batch *b = &w->stacks;
	struct table threads = {0}, names = {0};
	const struct entry *name, *thread;

	for (uint32_t i = first_sample(b); i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		const char *comm = stack_batch_text(b, s->waker_comm);
		char text[sizeof(p->waker)];

		if (s->kind != STACK_OFF_CPU || !s->waker_tid || !launches(t, s->tid) ||
		    !ledger_what_has_other_end(wait_class_of(b, &b->stacks[s->stack])))
			continue;
		snprintf(text, sizeof(text), "%.20s (thread %u)", comm, s->waker_tid);
		add_off(find(p, &threads, 0, text), s->weight_ns);
		add_off(find(p, &names, 0, comm), s->weight_ns);
	}
	name = most_off(&names);
	thread = most_off(&threads);
	r->waker_ns = name ? name->off : 0;
	if (name)
		text_copy(p->waker, sizeof(p->waker),
			  p->pool + (thread && 2 * thread->off >= name->off ? thread : name)->name);
	table_fini(&threads);
	table_fini(&names);
}

static void add_threads(struct excerpt *p, const struct window *w, const struct threads *t,
			struct diagnosis_rank *r)
{
	const struct stack_batch *b = &w->stacks;
	double square_ns2 = 0;

	r->cpu_ns = r->off_ns = r->gil_wait_ns = 0;
	for (uint32_t i = first_sample(b); i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		bool launching = launches(t, s->tid);

		if (s->kind == STACK_ON_CPU) {
			r->cpu_ns += (double)s->weight_ns;
			square_ns2 += stack_sample_square(s);
		} else if (launching) {
			r->off_ns += (double)s->weight_ns;
		}
		if (launching && s->gil == STACK_GIL_WAITER)
			r->gil_wait_ns += (double)s->weight_ns;
		if (launching && !p->launch_thread[0])
			text_copy(p->launch_thread, sizeof(p->launch_thread),
				  stack_batch_text(b, s->comm));
	}
	r->samples = square_ns2 > 0 ? r->cpu_ns * r->cpu_ns / square_ns2 : 0;
}

static void keep_functions(struct excerpt *p, struct table *t, double scale)
{
	uint32_t n = t->count < LIMIT_EXCERPT_FUNCTIONS ? t->count : LIMIT_EXCERPT_FUNCTIONS;

	if (n)
		qsort(t->e, t->count, sizeof(*t->e), by_weight);
	p->functions = n ? calloc(n, sizeof(*p->functions)) : NULL;
	for (uint32_t i = 0; p->functions && i < n; i++)
		p->functions[p->function_count++] =
		    (struct diagnosis_function){.name = (const char *)t->e[i].name,
						.kind = t->e[i].kind,
						.self_ns = t->e[i].self * scale,
						.total_ns = t->e[i].total * scale,
						.off_ns = t->e[i].off * scale,
						.launch_ns = t->e[i].launch * scale};
}

static void add_stacks(struct excerpt *p, const struct window *w, struct named *names)
{
	const struct stack_batch *b = &w->stacks;
	struct diagnosis_rank *r = &p->slow.rank;
	uint64_t begin = b->begin_ns ? b->begin_ns : w->begin_ns,
		 end = b->end_ns > begin ? b->end_ns : w->end_ns;
	struct table functions = {0};
	struct threads t;
	double scale;

	if (end <= begin || !(r->step_ns > 0))
		return;
	scale = r->step_ns / (double)(end - begin);
	find_threads(w, &t);
	for (uint32_t i = first_sample(b); i < b->sample_count; i++)
		add_sample(p, w, &t, &names->names, &functions, i);
	add_threads(p, w, &t, r);
	if (r->gil_wait_ns > 0)
		slow_step_holder(w, b->begin_ns, UINT64_MAX, t.launching, t.launching_count,
				 name_of, names, p->gil_holder);
	find_waker(p, w, &t, r);
	r->waker_ns *= scale;
	r->cpu_ns *= scale;
	r->off_ns *= scale;
	r->gil_wait_ns *= scale;
	keep_functions(p, &functions, scale);
	table_fini(&functions);
}

/* ---- the excerpt ---- */

/* Turns offsets into pointers, since the pool no longer moves. */
static void finish(struct excerpt *p)
{
	struct excerpt_part *const parts[] = {&p->slow, &p->healthy};

	for (uint32_t i = 0; i < p->function_count; i++)
		p->functions[i].name = p->pool + (size_t)p->functions[i].name;
	for (int k = 0; k < 2; k++) {
		for (uint32_t i = 0; i < parts[k]->rank.kernel_count; i++)
			parts[k]->kernels[i].name = p->pool + (size_t)parts[k]->kernels[i].name;
		parts[k]->rank.kernel = parts[k]->kernels;
		p->bytes += parts[k]->rank.kernel_count * sizeof(struct diagnosis_kernel);
	}
	p->slow.rank.function = p->functions;
	p->slow.rank.function_count = p->function_count;
	p->slow.rank.launch_thread = p->launch_thread[0] ? p->launch_thread : NULL;
	p->slow.rank.gil_holder = p->gil_holder[0] ? p->gil_holder : NULL;
	p->slow.rank.waker = p->waker[0] ? p->waker : NULL;
	for (uint32_t k = 0; k < p->kinds; k++)
		p->bytes += ledger_bytes(excerpt_ledger(p, k, false)) +
			    ledger_bytes(excerpt_ledger(p, k, true));
	p->bytes += ledger_bytes(&p->ledger.open) + p->ledger.colls.room * sizeof(struct coll_part);
	p->bytes += sizeof(*p) + p->pool_room + p->function_count * sizeof(*p->functions);
}

static void add_signals(struct excerpt *p, const struct window *w)
{
	uint32_t n = 0;

	p->signals = w->signal_count ? calloc(LIMIT_WINDOW_SIGNALS, sizeof(*p->signals)) : NULL;
	for (uint32_t i = 0; p->signals && i < w->signal_count; i++)
		os_signal_put(p->signals, &n, LIMIT_WINDOW_SIGNALS, &w->signals[i]);
	p->slow.rank.signal = p->signals;
	p->slow.rank.signal_count = n;
	p->bytes += p->signals ? LIMIT_WINDOW_SIGNALS * sizeof(*p->signals) : 0;
}

/* ---- hangs ---- */

static void stuck_add(struct excerpt *p, const char *name, uint32_t line)
{
	size_t at = strlen(p->stuck);
	char text[sizeof(p->stuck)];

	slow_step_with_line(name, line, text, sizeof(text));
	if (at + strlen(text) + 4 < sizeof(p->stuck))
		snprintf(p->stuck + at, sizeof(p->stuck) - at, "%s%s", at ? " < " : "", text);
}

/* Writes the system call, then the Python functions; without Python, the native ones. */
static void write_stack(struct excerpt *p, struct named *n, const struct stack *st)
{
	const struct stack_batch *b = &n->w->stacks;
	const char *call = wait_class_call(b, st);
	uint32_t written = 0;
	bool python = false;

	if (call) {
		stuck_add(p, call, 0);
		written++;
	}
	for (uint32_t i = 0; i < st->count; i++)
		python |= b->frames[st->first + i].kind == STACK_FRAME_PYTHON;
	for (uint32_t i = st->kernel_count; i < st->count && written < STUCK_FRAMES; i++) {
		const struct stack_frame *f = &b->frames[st->first + i];
		const char *name = frame_name(n->w, &n->names, st->first + i, n->room);

		if (python && f->kind != STACK_FRAME_PYTHON)
			continue;
		stuck_add(p, name, f->kind == STACK_FRAME_PYTHON ? f->line : 0);
		written++;
	}
}

/* Finds where the thread last slept in the open interval, or what it ran after that. */
static void find_stuck(struct excerpt *p, struct named *n, const struct host_timeline *host)
{
	const struct stack_batch *b = &n->w->stacks;
	uint32_t tid, stack = STACK_SWITCH_NO_STACK;
	struct ledger_interval open;
	uint64_t at = 0;

	if (!window_ledger_interval(n->w, &open) || !host->count)
		return;
	tid = host->tid[window_ledger_thread(host, open)];
	for (uint32_t i = 0; i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];

		if (s->tid == tid && s->stack < b->stack_count && s->in_ns > open.begin_ns &&
		    s->in_ns >= at) {
			at = s->in_ns;
			stack = s->stack;
		}
	}
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];

		if (s->tid == tid && s->kind == STACK_ON_CPU && s->time_ns >= open.begin_ns &&
		    s->time_ns > at) {
			at = s->time_ns;
			stack = s->stack;
		}
	}
	if (stack != STACK_SWITCH_NO_STACK)
		write_stack(p, n, &b->stacks[stack]);
}

/* A wait that does not show what is waited for may be one for requests, and so may a sleep between
 * looks for them. */
static uint32_t wait_kind(const struct ledger_segment *s)
{
	if (s->kind == LEDGER_STOPPED)
		return BEAT_UNFINISHED_HELD;
	if (s->kind != LEDGER_BLOCKED)
		return BEAT_UNFINISHED_NONE;
	if (s->what == LEDGER_HOST_COLLECTIVE)
		return BEAT_UNFINISHED_HOST;
	if (s->what == LEDGER_HOST_MESSAGE)
		return BEAT_UNFINISHED_MESSAGE;
	return ledger_what_is_vague(s->what) || s->what == LEDGER_SLEEP ? BEAT_UNFINISHED_NONE
									: BEAT_UNFINISHED_HELD;
}

static void find_wait(struct excerpt *p, const struct window *w, const struct host_timeline *host)
{
	const struct ledger_segment *s;
	struct ledger_interval open;
	uint64_t since;

	if (!window_ledger_interval(w, &open) || !host->count)
		return;
	s = window_ledger_wait(host, window_ledger_thread(host, open), open, &since);
	since = since > open.begin_ns ? since : open.begin_ns;
	if (!s || (double)(s->end_ns - since) <
		      thresholds.part.half * (double)(open.end_ns - open.begin_ns))
		return;
	p->wait.kind = wait_kind(s);
	p->wait.launch_ns = since;
	if (p->wait.kind == BEAT_UNFINISHED_HOST)
		text_copy(p->wait.name, sizeof(p->wait.name), s->name);
	else
		ledger_account_text(s->kind, ledger_what_text(s->what), s->name, p->wait.name,
				    sizeof(p->wait.name));
}

static bool add_ledgers(struct excerpt *p, const struct window *w, const struct parts *parts,
			struct named *names)
{
	struct host_timeline host;
	bool good =
	    host_timeline_make(w, name_of, names, &host) &&
	    window_ledger_add(w, parts->slow, parts->healthy, parts->kind, &host, &p->ledger);

	if (good) {
		find_stuck(p, names, &host);
		find_wait(p, w, &host);
	}
	host_timeline_fini(&host);
	return good;
}

/* Healthy steps between slow ones may have a weaker form of the fault. If enough healthy steps
 * precede it, only those are the reference. */
static bool only_before(const struct window *w, bool *healthy)
{
	uint32_t first = 0, before = 0;

	while (first < w->step_count &&
	       !(w->steps[first].flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED)))
		before += healthy[first++];
	if (before < thresholds.count.few || first == w->step_count)
		return false;
	memset(healthy + first, 0, (w->step_count - first) * sizeof(*healthy));
	return true;
}

/* The phase of a step, the same in all windows of the job. */
static uint32_t phase_everywhere(const struct window *w, const struct step *s)
{
	if (s->source != STEP_SOURCE_EXPLICIT)
		return s->phase;
	return s->phase < w->name_count ? (uint32_t)keyed_text(keyed_process(), w->names[s->phase])
					: 0;
}

/* The phase of all steps of a part. */
static uint32_t common_phase(const struct window *w, const bool *part)
{
	const struct step *first = NULL;

	for (uint32_t i = 0; i < w->step_count; i++) {
		const struct step *s = &w->steps[i].step;

		if (part[i] && first && first->phase != s->phase)
			return EXCERPT_PHASES;
		first = part[i] ? s : first;
	}
	return first ? phase_everywhere(w, first) : EXCERPT_PHASES;
}

struct phase_time {
	uint32_t phase;
	double ns;
};

ORDER_BY(by_time, struct phase_time, ORDER_DOWN(ns) ?: ORDER_UP(phase));

/* Each phase is a kind. There is room for those that took most of the time. */
static void set_phases(struct excerpt *p, const struct window *w, const struct parts *parts)
{
	struct phase_time list[PHASES_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < w->step_count; i++) {
		uint32_t phase = phase_everywhere(w, &w->steps[i].step), at = 0;

		if (!parts->slow[i] && !parts->healthy[i])
			continue;
		while (at < count && list[at].phase != phase)
			at++;
		if (at == PHASES_MAX)
			continue;
		if (at == count)
			list[count++] = (struct phase_time){phase, 0};
		list[at].ns += (double)w->steps[i].step.latency_ns;
	}
	ORDER_SORT(list, count, by_time);
	for (; p->kinds < count && p->kinds < WINDOW_LEDGER_KINDS; p->kinds++)
		p->kind[p->kinds] =
		    (struct excerpt_kind){0, 0, list[p->kinds].phase, list[p->kinds].phase};
}

/* One kind, or each phase is one. */
static void set_kinds(struct excerpt *p, const struct window *w, const struct choice *slow,
		      struct parts *parts)
{
	if (slow->of_phase) {
		p->kinds = 1;
		p->kind[0] =
		    (struct excerpt_kind){slow->kind, slow->period, common_phase(w, parts->slow),
					  common_phase(w, parts->healthy)};
		return;
	}
	set_phases(p, w, parts);
	for (uint32_t i = 0; i < w->step_count; i++) {
		uint32_t phase = phase_everywhere(w, &w->steps[i].step), k = 0;

		while (k < p->kinds && p->kind[k].phase != phase)
			k++;
		parts->kind[i] = (uint8_t)k;
		if (k == p->kinds)
			parts->slow[i] = parts->healthy[i] = false;
	}
}

/* Medians are of one phase: of all, the one that took most of the time. */
static void set_figures(struct excerpt *p, const struct window *w, struct choice slow,
			struct choice healthy, double *scratch)
{
	if (!slow.of_phase) {
		slow.of_phase = with_most(w, &slow, took_ns, phase_of, &slow.phase);
		healthy.of_phase = slow.of_phase;
		healthy.phase = slow.phase;
	}
	sum_up(w, &slow, PART_SLOW, scratch, &p->slow.rank);
	sum_up(w, &healthy, PART_HEALTHY, scratch, &p->healthy.rank);
}

static bool add_steps(struct excerpt *p, const struct window *w, struct parts *parts)
{
	double *scratch = malloc(w->step_count * sizeof(*scratch) + 1);
	struct table slow = {0}, healthy = {0};
	struct choice c = choose(w), of_slow = c;

	if (!scratch)
		return false;
	if (c.typical)
		of_slow.slow = 0; /* all steps */
	p->waited_ns = waited_ns(w);
	p->typical = c.typical && w->reason == WINDOW_ASKED;
	compare_others(w, &c);
	if (!c.typical) {
		compare_alike(w, &c);
		compare_before(w, &c);
	}
	for (uint32_t i = 0; i < w->step_count; i++) {
		bool whole = !(w->steps[i].flags & WINDOW_STEP_CUT);

		parts->slow[i] = whole && part_of(&w->steps[i], &of_slow) == PART_SLOW;
		parts->healthy[i] = whole && part_of(&w->steps[i], &c) == PART_HEALTHY;
	}
	set_figures(p, w, of_slow, c, scratch);
	free(scratch);
	add_kernels(p, w, parts, &slow, &healthy);
	keep_kernels(&slow, parts->slow, w->step_count, &p->slow);
	keep_kernels(&healthy, parts->healthy, w->step_count, &p->healthy);
	table_fini(&slow);
	table_fini(&healthy);
	p->slow.rank.period = p->healthy.rank.period = c.period;
	p->healthy_is_before = only_before(w, parts->healthy);
	/* before a hang, steps that are not flagged are healthy */
	for (uint32_t i = 0; w->open_since_ns && !of_slow.slow && i < w->step_count; i++)
		parts->healthy[i] |= parts->slow[i];
	set_kinds(p, w, &of_slow, parts);
	return true;
}

static bool named_init(struct named *n, const struct window *w, excerpt_name_fn name, void *arg)
{
	n->w = w;
	n->names = (struct namer){
	    .fn = name,
	    .arg = arg,
	    .known = calloc((size_t)w->stacks.frame_count + 1, sizeof(*n->names.known)),
	    .misses = calloc((size_t)w->stacks.object_count + 1, 1)};
	return n->names.known && n->names.misses;
}

static void named_fini(struct named *n)
{
	for (uint32_t i = 0; n->names.known && i < n->w->stacks.frame_count; i++)
		free(n->names.known[i]);
	free(n->names.known);
	free(n->names.misses);
}

static bool add_all(struct excerpt *p, const struct window *w, struct parts *parts,
		    struct named *names)
{
	pool_put(p, ""); /* so that no name has offset 0 */
	if (!p->pool || !add_steps(p, w, parts))
		return false;
	if (w->stacks.sample_count)
		add_stacks(p, w, names);
	add_signals(p, w);
	if (!add_ledgers(p, w, parts, names) ||
	    !slow_step_find(w, parts->slow, parts->healthy, name_of, names, &p->step))
		return false;
	p->unnamed = names->names.missed;
	return true;
}

struct excerpt *excerpt_make(const struct window *w, excerpt_name_fn name, void *arg)
{
	struct parts parts = {calloc((size_t)w->step_count + 1, sizeof(bool)),
			      calloc((size_t)w->step_count + 1, sizeof(bool)),
			      calloc((size_t)w->step_count + 1, sizeof(uint8_t))};
	struct excerpt *p = NULL;
	struct named names;
	bool good = named_init(&names, w, name, arg) && parts.slow && parts.healthy && parts.kind;

	if (good &&
	    (w->step_count || w->signal_count || w->stacks.sample_count || w->open_since_ns))
		p = calloc(1, sizeof(*p));
	if (p) {
		atomic_init(&p->holders, 1);
		p->begin_unix_ns = (int64_t)w->begin_ns + w->realtime_offset_ns;
		if (add_all(p, w, &parts, &names)) {
			finish(p);
		} else {
			excerpt_drop(p);
			p = NULL;
		}
	}
	named_fini(&names);
	free(parts.slow);
	free(parts.healthy);
	free(parts.kind);
	return p;
}
