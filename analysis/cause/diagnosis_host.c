/* SPDX-License-Identifier: Apache-2.0
 * Compares profiles in time per step, not only in shares: if everything on the host takes longer (a
 * stolen CPU), no share changes. Only the launch threads delay the GPU, so their time decides if it
 * is known separately; the threads of a storage client are the exception. A function's time
 * includes its callees', so per class of names the largest function counts, not the sum. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"
#include "analysis/ledger/function_class.h"
#include "analysis/robust/median.h"
#include "analysis/robust/spread.h"
#include "base/check.h"
#include "base/text/text.h"
#include "model/thresholds.h"

/* Blocked time is known even of ranks that hardly ran. */
static bool has_profile(const struct diagnosis_rank *r)
{
	return r->samples > 0 || (r->off_ns >= 0 && r->function_count);
}

static bool is_sampled(const struct diagnosis_rank *r)
{
	return r->samples > 0;
}

/* Ranks with samples; without any, ranks whose blocked time is known. */
static void bases_of(const struct diagnosis_view *v, struct diagnosis_bases *b)
{
	diagnosis_bases(v, is_sampled, b);
	if (!b->count)
		diagnosis_bases(v, has_profile, b);
}

static bool has_launch_times(const struct diagnosis_rank *r)
{
	for (uint32_t i = 0; i < r->function_count; i++)
		if (r->function[i].launch_ns > 0)
			return true;
	return false;
}

/* One function on both sides, per step. */
struct growth {
	const struct diagnosis_function *f;
	double mine_ns, base_ns, base_off_ns, base_total_ns;
	double grown_ns;   /* in the threads that delay the GPU */
	double whole_ns;   /* what of it grew: its CPU time, or its blocked time */
	double delta;	   /* change of its share of all CPU time */
	double held_delta; /* the same, in the threads that delay the GPU */
	bool sure;	   /* it is not noise */
};

/* Sketches name Python functions without their file: "forward" equals "forward (model.py)". */
static bool is_same(const struct diagnosis_function *a, const struct diagnosis_function *b)
{
	size_t n, m;

	if (a->kind != b->kind)
		return false;
	if (a->kind != FUNCTION_PYTHON || !strcmp(a->name, b->name))
		return !strcmp(a->name, b->name);
	n = strcspn(a->name, " ");
	m = strcspn(b->name, " ");
	return n == m && !(a->name[n] && b->name[m]) && !strncmp(a->name, b->name, n);
}

static const struct diagnosis_function *same(const struct diagnosis_rank *r,
					     const struct diagnosis_function *f)
{
	for (uint32_t i = 0; i < r->function_count; i++)
		if (is_same(&r->function[i], f))
			return &r->function[i];
	return NULL;
}

static double variance_of(double part_ns, double whole_ns, double samples)
{
	double share = whole_ns > 0 ? part_ns / whole_ns : 0;

	return samples > 0 ? spread_of_share(share, samples, 1) * whole_ns * whole_ns : 0;
}

/* Without any profile to compare with. A function that is blocked for longer than the whole self
 * time of the others' steps must be new. On the others it blocked at most as long as their GPUs
 * idled. Nothing can be said about running time. */
static void assume_new_blocking(const struct diagnosis_view *v, const struct diagnosis_function *f,
				struct growth *g)
{
	bool is_new = v->base[FIGURE_SELF] >= 0 && f->off_ns > v->base[FIGURE_SELF];

	*g = (struct growth){.f = f,
			     .mine_ns = f->total_ns,
			     .base_ns = f->total_ns,
			     .base_total_ns = f->total_ns,
			     .base_off_ns = is_new ? fmax(0, v->base[FIGURE_IDLE]) : f->off_ns};
}

static void grow(const struct diagnosis_view *v, const struct diagnosis_bases *b, bool launch_only,
		 const struct diagnosis_function *f, struct growth *g)
{
	double total[DIAGNOSIS_BASES_MAX], off[DIAGNOSIS_BASES_MAX], held[DIAGNOSIS_BASES_MAX];
	double cpu[DIAGNOSIS_BASES_MAX], samples = 0, whole, noise;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct diagnosis_function *o = same(b->rank[i], f);

		total[i] = o ? o->total_ns : 0;
		off[i] = o ? o->off_ns : 0;
		held[i] = o ? (launch_only ? o->launch_ns : o->total_ns) : 0;
		cpu[i] = b->rank[i]->cpu_ns;
		samples += b->rank[i]->samples;
	}
	if (!b->count) {
		assume_new_blocking(v, f, g);
		return;
	}
	whole = median_of(cpu, b->count);
	*g = (struct growth){.f = f,
			     .mine_ns = launch_only ? f->launch_ns : f->total_ns,
			     .base_ns = median_of(held, b->count),
			     .base_total_ns = median_of(total, b->count),
			     .base_off_ns = median_of(off, b->count)};
	g->delta = (v->who->cpu_ns > 0 ? f->total_ns / v->who->cpu_ns : 0) -
		   (whole > 0 ? g->base_total_ns / whole : 0);
	g->held_delta = (v->who->cpu_ns > 0 ? g->mine_ns / v->who->cpu_ns : 0) -
			(whole > 0 ? g->base_ns / whole : 0);
	noise = sqrt(variance_of(g->mine_ns, v->who->cpu_ns, v->who->samples) +
		     variance_of(g->base_ns, whole, samples));
	g->grown_ns = g->mine_ns - g->base_ns;
	g->whole_ns = f->total_ns;
	/* running time is known from samples only */
	if (!(samples > 0) || !(v->who->samples > 0))
		g->delta = g->held_delta = 0;
	g->sure = g->grown_ns > thresholds.sure.errors * noise;
}

/* ---- classes of names ---- */

struct class_sum {
	double on_ns, off_ns; /* growth of the function that grew most */
	double on_all_ns;     /* the same, over all threads */
	const struct diagnosis_function *on, *off, *on_all;
};

static void add_class(struct class_sum *sums, const struct growth *g)
{
	const struct diagnosis_function *f = g->f;
	enum finding_cause on = function_class_cause(f->name, f->kind, true);
	enum finding_cause off = function_class_cause(f->name, f->kind, false);
	double off_ns = f->off_ns - g->base_off_ns, all_ns = f->total_ns - g->base_total_ns;

	if (on != CAUSE_UNKNOWN && g->sure && g->grown_ns > sums[on].on_ns) {
		sums[on].on_ns = g->grown_ns;
		sums[on].on = f;
	}
	if (on != CAUSE_UNKNOWN && all_ns > sums[on].on_all_ns) {
		sums[on].on_all_ns = all_ns;
		sums[on].on_all = f;
	}
	if (off != CAUSE_UNKNOWN && off_ns > sums[off].off_ns) {
		sums[off].off_ns = off_ns;
		sums[off].off = f;
	}
}

static struct diagnosis_candidate *add_named(struct diagnosis_view *v, enum finding_cause cause,
					     double ns, const char *name)
{
	struct diagnosis_candidate *c = diagnosis_add(v, cause, ns);

	text_copy(c->subject, sizeof(c->subject), name);
	return c;
}

/* Time in classes of functions. Kernel functions do not show who caused it. */
static void class_times(struct diagnosis_view *v, const struct class_sum *sums)
{
	static const struct {
		enum finding_cause cause;
		const char *before, *after; /* of "its", in the clause; NULL: the cause's title */
	} of[] = {
	    {CAUSE_OS_SOFTIRQ, NULL, NULL},
	    {CAUSE_OS_IRQ, NULL, NULL},
	    {CAUSE_OS_LOCK, NULL, NULL},
	    {CAUSE_OS_MEMORY, NULL, NULL},
	    {CAUSE_OS_NUMA, NULL, NULL},
	    {CAUSE_OS_FAULTS, NULL, NULL},
	    {CAUSE_OS_STOPPED, NULL, NULL},
	    {CAUSE_STORAGE_LIMIT, "an I/O limit throttles ", " reads"},
	    {CAUSE_STORAGE_DISK, "", " launch threads are blocked in reads"},
	    {CAUSE_STORAGE_LOADER, "", " launch threads wait for the data loader"},
	};
	struct diagnosis_number ms;

	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		const struct class_sum *s = &sums[of[i].cause];
		double ns = s->on_ns + s->off_ns;
		bool off = s->off_ns > s->on_ns;
		const struct diagnosis_function *f = off ? s->off : s->on;
		struct diagnosis_candidate *c;

		if (!f || !(ns > 0))
			continue;
		c = add_named(v, of[i].cause, ns, f->name);
		c->by_class = true;
		snprintf(c->text, sizeof(c->text),
			 "its %sthreads spend %s more per step %s %s%.110s than %s",
			 off ? "launch " : "", diagnosis_text_ms(ns, &ms),
			 off ? "blocked in" : "in",
			 f->kind == FUNCTION_KERNEL ? "kernel function " : "", f->name,
			 v->functions_where);
		snprintf(c->because, sizeof(c->because), "%s%s%s (%.110s)",
			 of[i].before ? of[i].before : finding_cause_title(of[i].cause),
			 of[i].before ? v->its : "", of[i].before ? of[i].after : "", f->name);
	}
}

static void gil(struct diagnosis_view *v, const struct class_sum *sums)
{
	const struct class_sum *s = &sums[CAUSE_CPU_GIL];
	double base = v->base[FIGURE_GIL] > 0 ? v->base[FIGURE_GIL] : 0,
	       wait = v->mine[FIGURE_GIL] > 0 ? v->mine[FIGURE_GIL] - base : 0;
	struct diagnosis_candidate *c;
	const char *holder = v->who->gil_holder;
	struct diagnosis_number ms;

	if (s->off_ns > wait)
		wait = s->off_ns;
	if (!(wait > 0))
		return;
	c = add_named(v, CAUSE_CPU_GIL, wait, holder ? holder : "");
	snprintf(c->text, sizeof(c->text),
		 "its launch threads wait for the GIL %s longer per step than %s%s%.110s",
		 diagnosis_text_ms(wait, &ms), v->functions_where, holder ? "; held by " : "",
		 holder ? holder : "");
	snprintf(c->because, sizeof(c->because), "%s launch threads wait for the GIL%s%.130s",
		 v->its, holder ? ", held by " : "", holder ? holder : "");
}

/* The client's threads take more than a tenth of a step of CPU time. The effect is what the launch threads
 * lose by it, if that is known. */
static void storage_client(struct diagnosis_view *v, const struct class_sum *sums)
{
	const struct class_sum *client = &sums[CAUSE_STORAGE_CLIENT],
			       *loader = &sums[CAUSE_STORAGE_LOADER];
	double held = fmax(client->on_ns, loader->off_ns + loader->on_ns);
	struct diagnosis_candidate *c;
	struct diagnosis_number ms, other;

	if (!client->on_all || client->on_all_ns <= thresholds.part.little * v->mine[FIGURE_STEP])
		return;
	c = add_named(v, CAUSE_STORAGE_CLIENT, held > 0 ? held : client->on_all_ns,
		      client->on_all->name);
	snprintf(c->text, sizeof(c->text), "%.90s takes %s of CPU per step, %s %s",
		 client->on_all->name, diagnosis_text_ms(client->on_all->total_ns, &ms),
		 diagnosis_text_ms(client->on_all->total_ns - client->on_all_ns, &other),
		 v->functions_where);
	snprintf(c->because, sizeof(c->because), "the storage client saturates the CPU (%.110s)",
		 client->on_all->name);
}

/* ---- a hot function ---- */

/* What the functions are compared with. */
struct comparison {
	const struct diagnosis_bases *bases;
	bool launch_only;
};

/* How much f grew; false: it did not, or its name says nothing. */
typedef bool (*growth_fn)(const struct diagnosis_view *v, const struct comparison *c,
			  const struct diagnosis_function *f, struct growth *g);

static bool is_nearer(const struct growth *g, const struct growth *than)
{
	return !than->f || g->whole_ns < than->whole_ns ||
	       (g->whole_ns <= than->whole_ns && g->f->self_ns > than->f->self_ns);
}

/* The function nearest to the growth: of those that contain most of it, the one with the least time
 * in all. Only Python functions are looked at if python. Returns the most that one grew. */
static double nearest(const struct diagnosis_view *v, const struct comparison *c, growth_fn of,
		      bool python, struct growth *best)
{
	double most_ns = 0;
	struct growth g;

	*best = (struct growth){.f = NULL};
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < v->who->function_count; i++) {
			const struct diagnosis_function *f = &v->who->function[i];

			if (f->kind == FUNCTION_KERNEL || (python && f->kind != FUNCTION_PYTHON) ||
			    function_class_is_plumbing(f->name) || !of(v, c, f, &g))
				continue;
			if (!pass)
				most_ns = fmax(most_ns, g.grown_ns);
			else if (g.grown_ns >= (1 - thresholds.part.matters) * most_ns &&
				 is_nearer(&g, best))
				*best = g;
		}
	return most_ns;
}

/* Prefers Python functions to the native code below them. best->f NULL: nothing grew. Returns the
 * most that a function grew. */
static double hottest(const struct diagnosis_view *v, const struct comparison *c, growth_fn of,
		      struct growth *best)
{
	struct growth python;
	double most_ns = nearest(v, c, of, false, best);

	if (nearest(v, c, of, true, &python) >= thresholds.part.half * most_ns && python.f)
		*best = python;
	return most_ns;
}

static enum finding_cause function_cause(const struct diagnosis_view *v,
					 const struct diagnosis_function *f, bool logs)
{
	if (v->in->kind == FINDING_UNIFORM)
		return logs ? CAUSE_SW_LOGGING : CAUSE_SW_HOT_PATH;
	return f->kind == FUNCTION_PYTHON ? CAUSE_CPU_PYTHON : CAUSE_CPU_FUNCTION;
}

/* Whether the function had most of the CPU time before and its share hardly grew. Then the same
 * work takes longer, for a reason elsewhere. */
static bool is_the_same_work(const struct diagnosis_view *v, const struct growth *g)
{
	double share = v->who->cpu_ns > 0 ? g->f->total_ns / v->who->cpu_ns : 0;

	return v->in->kind != FINDING_UNIFORM && share - g->delta >= thresholds.part.half &&
	       g->delta < thresholds.part.little;
}

/* Whether the lock's place, as in "walk_component in path_lookupat, which is shared with X (pid
 * 7)", contains the kernel function. */
static bool is_at(const char *place, const char *name)
{
	size_t n = strlen(name), room = strcspn(place, ",");
	const char *at = strstr(place, name);

	return n && at && (size_t)(at - place) + n <= room && (at == place || at[-1] == ' ') &&
	       (at[n] == '\0' || at[n] == ' ' || at[n] == ',');
}

/* Whether a contended kernel lock explains the growth. Its waiters spin before they sleep, and
 * repeat the lookup that the lock protects. The function that calls the kernel did not change. */
static bool grew_around_a_lock(const struct diagnosis_view *v, const struct comparison *c,
			       const struct growth *of)
{
	const struct os_signal *lock = diagnosis_os_lock(v);
	struct growth g;

	for (uint32_t i = 0; lock && i < v->who->function_count; i++) {
		const struct diagnosis_function *f = &v->who->function[i];

		if (f->kind != FUNCTION_KERNEL || !is_at(lock->subject, f->name))
			continue;
		grow(v, c->bases, c->launch_only, f, &g);
		if (g.sure && g.grown_ns >= thresholds.part.half * of->grown_ns)
			return true;
	}
	return false;
}

static bool grew(const struct diagnosis_view *v, const struct comparison *c,
		 const struct diagnosis_function *f, struct growth *g)
{
	grow(v, c->bases, c->launch_only, f, g);
	return g->sure;
}

static void hot_function(struct diagnosis_view *v, const struct comparison *of,
			 const struct class_sum *sums)
{
	const struct class_sum *logging = &sums[CAUSE_SW_LOGGING];
	struct growth g;
	double most_ns = hottest(v, of, grew, &g);
	double whole = v->who->cpu_ns;
	bool logs = logging->on && logging->on_ns >= thresholds.part.half * most_ns;
	struct diagnosis_candidate *c;
	struct diagnosis_number mine, base;
	const char *name;

	if (!g.f)
		return;
	name = logs ? logging->on->name : g.f->name;
	c = diagnosis_add(v, function_cause(v, logs ? logging->on : g.f, logs),
			  logs ? logging->on_ns : g.grown_ns);
	if (!logs && is_the_same_work(v, &g))
		c->proof = DIAGNOSIS_GUESS;
	c->by_profile = true;
	c->evidence_only = !logs && grew_around_a_lock(v, of, &g);
	text_copy(c->subject, sizeof(c->subject), name);
	if (logs)
		snprintf(c->text, sizeof(c->text),
			 "logging (%.100s) takes %s more CPU per step than %s", name,
			 diagnosis_text_ms(logging->on_ns, &mine), v->functions_where);
	else
		snprintf(c->text, sizeof(c->text),
			 "%.110s takes %s per step, %s %s; %.1f%% of the CPU time, %+.1f points",
			 name, diagnosis_text_ms(g.mine_ns, &mine),
			 diagnosis_text_ms(g.base_ns, &base), v->functions_where,
			 whole > 0 ? 100 * g.f->total_ns / whole : 0, 100 * g.delta);
	snprintf(c->because, sizeof(c->because), "%s%.120s takes longer than %s",
		 logs ? "logging in " : "", name, v->functions_where);
}

static void compare_functions(struct diagnosis_view *v, const struct diagnosis_bases *b)
{
	bool launch_only = b->count && has_launch_times(v->who) && has_launch_times(b->rank[0]);
	struct class_sum sums[CAUSE_COUNT] = {{0}};
	struct growth g;

	if (b->count)
		v->function_delta = 0;
	for (uint32_t i = 0; i < v->who->function_count; i++) {
		const struct diagnosis_function *f = &v->who->function[i];

		grow(v, b, launch_only, f, &g);
		add_class(sums, &g);
		if (f->kind != FUNCTION_KERNEL && g.held_delta > v->function_delta &&
		    !function_class_is_plumbing(f->name)) {
			v->function_delta = g.held_delta;
			text_copy(v->function_name, sizeof(v->function_name), f->name);
		}
	}
	if (b->count || sums[CAUSE_STORAGE_DISK].off_ns > 0)
		v->storage_ns = sums[CAUSE_STORAGE_DISK].off_ns;
	class_times(v, sums);
	gil(v, sums);
	storage_client(v, sums);
	hot_function(v, &(struct comparison){b, launch_only}, sums);
}

/* ---- functions above the usual share of their role ---- */

static bool is_nameless(const char *name)
{
	return strstr(name, "+0x") != NULL;
}

/* The function's usual share in its role. A native function that the role lacks may have no name
 * there, so the largest share without a name is used. */
static void usual_of(const struct diagnosis_group *g, const struct diagnosis_function *f,
		     struct diagnosis_usual *out)
{
	*out = (struct diagnosis_usual){.name = f->name};
	for (uint32_t i = 0; i < g->function_count; i++) {
		const struct diagnosis_usual *u = &g->function[i];
		struct diagnosis_function there = {.name = u->name, .kind = u->kind};

		if (u->kind != f->kind)
			continue;
		if (u->name[0] == f->name[0] && is_same(&there, f)) {
			*out = *u;
			return;
		}
		if (f->kind == FUNCTION_NATIVE && u->line > out->line && is_nameless(u->name))
			*out = *u;
	}
}

/* grown_ns: how much longer it takes the launch threads, if everything else takes as long as in the
 * role; delta: how far it is above the line. False: it is not above the line. */
static bool is_above_line(const struct diagnosis_view *v, const struct comparison *c,
			  const struct diagnosis_function *f, struct growth *g)
{
	const struct diagnosis_rank *who = v->who;
	double share = f->total_ns / who->cpu_ns, held = 1, over;
	double noise = thresholds.sure.errors *
		       sqrt(variance_of(f->total_ns, who->cpu_ns, who->samples)) / who->cpu_ns;
	struct diagnosis_usual u;

	if (is_nameless(f->name) || share <= noise)
		return false;
	usual_of(who->group, f, &u);
	over = share - u.line;
	if (u.usual >= 1 || over <= noise)
		return false;
	if (c->launch_only)
		held = f->launch_ns / f->total_ns;
	*g = (struct growth){.f = f, .whole_ns = f->total_ns, .delta = over, .sure = true};
	g->grown_ns = held * who->cpu_ns * (share - u.usual) / (1 - u.usual);
	return true;
}

/* Adds the function that is most above its usual share. It explains time only if no peer has a
 * profile; otherwise it is evidence. */
static void above_line(struct diagnosis_view *v)
{
	const struct diagnosis_group *group = v->who->group;
	struct diagnosis_candidate *c;
	const struct comparison of = {NULL, has_launch_times(v->who)};
	struct diagnosis_usual u;
	struct growth g;
	double share;

	if (!group || group->sketches <= thresholds.count.few || v->in->kind != FINDING_SLOW_RANK ||
	    !(v->who->cpu_ns > 0))
		return;
	hottest(v, &of, is_above_line, &g);
	if (!g.f)
		return;
	usual_of(group, g.f, &u);
	share = g.f->total_ns / v->who->cpu_ns;
	c = add_named(v, function_cause(v, g.f, false), g.grown_ns, g.f->name);
	c->proof = DIAGNOSIS_GUESS;
	for (uint32_t i = 0; i < v->in->peer_count; i++)
		c->evidence_only |= has_profile(&v->in->peer[i]);
	snprintf(
	    c->text, sizeof(c->text),
	    "%.100s takes %.1f%% of the rank's CPU time, %.1f points above the threshold of %.1f%% "
	    "(%s, %u sketches); the %s of its role is %.1f%%",
	    g.f->name, 100 * share, 100 * g.delta, 100 * u.line,
	    group->paper ? "mean + 2 sigma" : "median + 2 x 1.4826 MAD", group->sketches,
	    group->paper ? "mean" : "median", 100 * u.usual);
	snprintf(c->because, sizeof(c->because),
		 "%.100s takes %.0f%% of %s CPU time; %.0f%% is usual in %s role", g.f->name,
		 100 * share, v->its, 100 * u.usual, v->its);
}

/* ---- blocked without a known class ---- */

/* How much longer the launch threads are blocked in it. */
static bool blocks_longer(const struct diagnosis_view *v, const struct comparison *c,
			  const struct diagnosis_function *f, struct growth *g)
{
	grow(v, c->bases, false, f, g);
	g->grown_ns = f->off_ns - g->base_off_ns;
	g->whole_ns = f->off_ns;
	return g->grown_ns > 0;
}

static void add_host_gap(struct diagnosis_view *v, const struct diagnosis_bases *b, double gap_ns)
{
	struct diagnosis_candidate *c = diagnosis_add(v, CAUSE_CPU_HOST_GAP, gap_ns);
	bool known = b->count && has_profile(v->who) && v->who->off_ns >= 0;
	struct diagnosis_number mine, base;
	struct growth g;

	c->proof = DIAGNOSIS_LIKELY;
	snprintf(
	    c->text, sizeof(c->text), "its GPU idles %s per step, %s %s: the host launches late",
	    diagnosis_text_ms(v->mine[FIGURE_IDLE], &mine),
	    diagnosis_text_ms(v->base[FIGURE_IDLE], &base), v->past ? "before" : "on the peers");
	/* half of the gap must be in one function */
	if (!known || hottest(v, &(struct comparison){b, false}, blocks_longer, &g) <=
			  thresholds.part.half * gap_ns) {
		snprintf(c->because, sizeof(c->because), "%s; what delays the host was not seen",
			 finding_cause_title(CAUSE_CPU_HOST_GAP));
		return;
	}
	text_copy(c->subject, sizeof(c->subject), g.f->name);
	snprintf(c->because, sizeof(c->because),
		 "%s launch threads are blocked longer in %.110s than %s", v->its, g.f->name,
		 v->functions_where);
}

void diagnosis_host_look(struct diagnosis_view *v)
{
	double gap = v->mine[FIGURE_IDLE] - v->base[FIGURE_IDLE];
	struct diagnosis_bases bases;

	v->function_delta = v->storage_ns = -1;
	bases_of(v, &bases);
	v->functions_where = bases.where;
	if (has_profile(v->who))
		compare_functions(v, &bases);
	above_line(v);
	if (v->host_ns > 0 && !has_profile(v->who))
		diagnosis_missing(v->out, "CPU stacks of %s", v->name.text);
	else if (v->host_ns > 0 && !bases.count)
		diagnosis_missing(
		    v->out, "CPU profiles of healthy peers or of earlier runs, to compare %s with",
		    v->name.text);
	if (v->mine[FIGURE_IDLE] >= 0 && v->base[FIGURE_IDLE] >= 0 && gap > 0 &&
	    v->in->kind != FINDING_HANG)
		add_host_gap(v, &bases, gap);
}
