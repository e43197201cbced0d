/* SPDX-License-Identifier: Apache-2.0
 * The excess of a step is divided into pools (compute, copies, host, communication) by what is
 * accounted for without doubt: the times of kernels and of the device's idling. Each layer then
 * puts forward what could explain a pool, with a measured effect. The candidate that explains most
 * wins, weighted by how deep it lies: a thread that waits for the CPU is the consequence of what
 * runs there, so the deeper of two that explain as much is the cause, and the shallower its
 * evidence. */
#include "analysis/diagnosis.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/diagnosis_private.h"
#include "analysis/robust/median.h"

/* A cause explains at least so much of the excess; a layer that explains less is ruled out. */
#define EXPLAINS_MIN 0.2
/* And a line of evidence so much. */
#define TOLD_MIN     0.05
#define PEERS_LOOKED 256u
/* The rank's own past shows the excess when it shows so much of what the peers show. */
#define PAST_SHARE 0.3
/* A function that grew by more is no reason to rule the CPU out, whoever is to blame for it. */
#define SHARE_GREW 0.05
/* Steps from which on their median is trusted. */
#define STEPS_SURE 5u
/* Shorter blocking in reads would be printed as 0.00 ms. */
#define READS_TOLD_NS 5e3

static const double depths[CAUSE_COUNT] = {
#define CAUSE(symbol, layer, id, title, depth, ...) depth,
#include "analysis/causes.def"
#undef CAUSE
};

double diagnosis_weight(const struct diagnosis_candidate *c)
{
	return c->sure * depths[c->cause];
}

/* ---- figures ---- */

static double figure_of(const struct diagnosis_rank *r, enum diagnosis_figure f)
{
	if (!r->steps)
		return -1;
	switch (f) {
	case FIGURE_STEP:
		return r->step_ns;
	case FIGURE_SELF:
		return r->self_ns;
	case FIGURE_COMPUTE:
		return r->compute_ns;
	case FIGURE_COMM:
		return r->comm_ns;
	case FIGURE_EXPOSED:
		return r->exposed_comm_ns;
	case FIGURE_COPY:
		return r->copy_ns;
	case FIGURE_IDLE:
		return r->idle_ns;
	case FIGURE_LATE:
		return r->late_ns;
	case FIGURE_GAP:
		return r->late_gap_ns;
	case FIGURE_KERNELS:
		return r->kernels;
	case FIGURE_CPU:
		return r->samples > 0 ? r->cpu_ns : -1;
	case FIGURE_OFF:
		return r->samples > 0 ? r->off_ns : -1;
	case FIGURE_GIL:
		return r->samples > 0 ? r->gil_wait_ns : -1;
	case FIGURE_COUNT:
		break;
	}
	return -1;
}

static double peers_figure(const struct diagnosis_input *in, enum diagnosis_figure f)
{
	double list[PEERS_LOOKED];
	uint32_t n = 0;

	for (uint32_t i = 0; i < in->peer_count && n < PEERS_LOOKED; i++) {
		double x = figure_of(&in->peer[i], f);

		if (x >= 0)
			list[n++] = x;
	}
	return n ? median_of(list, n) : -1;
}

/* The rank's own past where it shows the excess, since it did the same work with the same habits;
 * peers where it does not (a rank that was always slow). Then one reference for all figures, and
 * the other for what it does not know. */
static bool is_past(const struct diagnosis_view *v)
{
	const struct diagnosis_input *in = v->in;
	double mine = v->mine[FIGURE_SELF], before, peers;

	if (in->kind == FINDING_UNIFORM || !in->before)
		return in->kind == FINDING_UNIFORM;
	before = figure_of(in->before, FIGURE_SELF);
	peers = peers_figure(in, FIGURE_SELF);
	if (mine < 0 || before < 0 || peers < 0)
		return peers < 0;
	return mine > before && mine - before >= PAST_SHARE * (mine - peers);
}

static void find_base(struct diagnosis_view *v)
{
	const struct diagnosis_input *in = v->in;
	bool uniform = in->kind == FINDING_UNIFORM;

	v->past = is_past(v);
	for (int k = 0; k < FIGURE_COUNT; k++) {
		enum diagnosis_figure f = (enum diagnosis_figure)k;
		double x = uniform ? -1 : peers_figure(in, f);
		double y = in->before ? figure_of(in->before, f) : -1;

		v->base[f] = v->past ? (y >= 0 ? y : x) : x >= 0 ? x : y;
	}
}

static double above(const struct diagnosis_view *v, enum diagnosis_figure f)
{
	return v->mine[f] >= 0 && v->base[f] >= 0 ? v->mine[f] - v->base[f] : 0;
}

static bool known(const struct diagnosis_view *v, enum diagnosis_figure f)
{
	return v->mine[f] >= 0 && v->base[f] >= 0;
}

static double positive(double x)
{
	return x > 0 ? x : 0;
}

static void divide(struct diagnosis_view *v)
{
	double *pool = v->pool_ns, rest;

	if (known(v, FIGURE_SELF))
		v->excess_ns = above(v, FIGURE_SELF);
	else if (known(v, FIGURE_STEP))
		v->excess_ns = above(v, FIGURE_STEP) - above(v, FIGURE_EXPOSED);
	v->pools_known = known(v, FIGURE_SELF) || known(v, FIGURE_STEP);
	pool[POOL_COMPUTE] = positive(above(v, FIGURE_COMPUTE));
	pool[POOL_COPY] = positive(above(v, FIGURE_COPY));
	rest = v->excess_ns - pool[POOL_COMPUTE] - pool[POOL_COPY];
	pool[POOL_HOST] = positive(rest > above(v, FIGURE_IDLE) ? rest : above(v, FIGURE_IDLE));
	/* what overlaps is not lost twice */
	if (v->pools_known && pool[POOL_HOST] > positive(v->excess_ns))
		pool[POOL_HOST] = positive(v->excess_ns);
	if (v->pools_known && v->excess_ns <= 0 && pool[POOL_HOST] <= 0)
		pool[POOL_HOST] = positive(above(v, FIGURE_LATE));
	pool[POOL_COMM] = positive(above(v, FIGURE_EXPOSED));
	/* a rank that is slow itself waits less than its peers; one that is not has its own past */
	if (v->in->kind != FINDING_UNIFORM && v->in->before && v->excess_ns <= 0 &&
	    figure_of(v->in->before, FIGURE_EXPOSED) >= 0 && v->mine[FIGURE_EXPOSED] >= 0)
		pool[POOL_COMM] =
		    positive(v->mine[FIGURE_EXPOSED] - figure_of(v->in->before, FIGURE_EXPOSED));
	if (v->pools_known &&
	    pool[POOL_COMPUTE] + pool[POOL_COPY] + pool[POOL_HOST] + pool[POOL_COMM] > 0)
		return;
	v->pools_known = false;
	for (int p = 0; p < POOL_COUNT; p++)
		pool[p] = v->mine[FIGURE_STEP] > 0 ? v->mine[FIGURE_STEP] : DBL_MAX;
}

static void look(struct diagnosis_view *v, const struct diagnosis_input *in,
		 const struct diagnosis_rank *who, struct diagnosis *out)
{
	memset(v, 0, sizeof(*v));
	v->in = in;
	v->who = who;
	v->out = out;
	for (int f = 0; f < FIGURE_COUNT; f++)
		v->mine[f] = figure_of(who, (enum diagnosis_figure)f);
	find_base(v);
	v->many = in->suspect_count > 1 && (in->kind != FINDING_UNIFORM || in->of_some);
	v->its = v->many ? "their" : "its";
	v->than =
	    in->kind == FINDING_UNIFORM || !in->peer_count ? "than before" : "than on the peers";
	v->as = in->kind == FINDING_UNIFORM || !in->peer_count ? "as before" : "as on the peers";
	divide(v);
	diagnosis_ledger_begin(v);
	if (in->kind != FINDING_HANG) /* its last steps were as ever: they tell nothing of why it stopped */
		diagnosis_gpu_look(v);
	diagnosis_host_look(v);
	diagnosis_os_look(v);
	diagnosis_software_look(v);
	diagnosis_ledger_look(v);
}

static void look_done(struct diagnosis_view *v)
{
	free(v->row);
	v->row = NULL;
}

/* ---- candidates ---- */

struct diagnosis_candidate *diagnosis_add(struct diagnosis_view *v, enum finding_cause cause,
					  enum diagnosis_pool pool, double effect_ns, double sure)
{
	struct diagnosis_candidate *c = &v->list[0];

	if (v->count < DIAGNOSIS_CANDIDATES_MAX)
		c = &v->list[v->count++];
	else
		for (uint32_t i = 1; i < v->count; i++)
			if (c->is_share || (!v->list[i].is_share && v->list[i].effect_ns * v->list[i].sure <
									c->effect_ns * c->sure))
				c = &v->list[i];
	*c = (struct diagnosis_candidate){
	    .cause = cause, .pool = pool, .effect_ns = effect_ns, .sure = sure};
	return c;
}

void diagnosis_missing(struct diagnosis *out, const char *fmt, ...)
{
	char line[FINDING_TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	for (uint32_t i = 0; i < out->missing_count; i++)
		if (!strcmp(out->missing[i], line))
			return;
	if (out->missing_count < DIAGNOSIS_LINES_MAX)
		diagnosis_text_copy(out->missing[out->missing_count++], FINDING_TEXT_BYTES, line);
}

/* What is to be explained. A slow rank is slow by what it does itself; how long it waits for others
 * says nothing about that. */
static double whole_of(const struct diagnosis_view *v)
{
	const double *p = v->pool_ns;

	if (v->row)
		return v->excess_ns;
	if (!v->pools_known)
		return p[POOL_HOST];
	if (v->in->kind != FINDING_UNIFORM && v->excess_ns > 0)
		return p[POOL_COMPUTE] + p[POOL_COPY] + p[POOL_HOST];
	return p[POOL_COMPUTE] + p[POOL_COPY] + p[POOL_HOST] + p[POOL_COMM];
}

/* No more than was lost where it would show. */
static double within_pool(const struct diagnosis_view *v, const struct diagnosis_candidate *c)
{
	if (v->row)
		return c->is_share ? c->effect_ns : 0;
	return c->effect_ns < v->pool_ns[c->pool] ? c->effect_ns : v->pool_ns[c->pool];
}

static bool adds_up(enum finding_cause c)
{
	return c == CAUSE_GPU_KERNEL || c == CAUSE_GPU_VARIANT || c == CAUSE_SW_KERNELS;
}

/* Of the whole excess, for the GIL to be the cause rather than what its holder computes. */
#define GIL_EXPLAINS 0.4

/* Of two of one cause that explain about as much, the one that names who it was leads. */
#define SIGNAL_WORTH 1.4

struct choice {
	const struct diagnosis_candidate *lead;
	double explained_ns, score;
};

/* Of one cause together: its strongest candidate, and how much it explains. */
static struct choice weigh(const struct diagnosis_view *v, enum finding_cause cause)
{
	struct choice out = {.lead = NULL};
	double sum = 0, most = 0;

	for (uint32_t i = 0; i < v->count; i++) {
		const struct diagnosis_candidate *c = &v->list[i];
		double got = within_pool(v, c), worth = got * c->sure * (c->by_signal ? SIGNAL_WORTH : 1);

		if (c->cause != cause || (c->by_line && !c->is_share))
			continue;
		sum += got;
		if (!out.lead || worth > most) {
			most = worth;
			out.lead = c;
			out.explained_ns = got;
		}
	}
	if (!out.lead)
		return out;
	if (v->row) {
		out.score = out.explained_ns;
		return out;
	}
	if (adds_up(cause))
		out.explained_ns =
		    sum < v->pool_ns[out.lead->pool] ? sum : v->pool_ns[out.lead->pool];
	out.score = out.explained_ns * out.lead->sure * depths[cause];
	return out;
}

/* What a function in another thread computes costs the launching threads nothing but their wait for the
 * GIL that it holds. */
static bool holds_the_gil(const struct diagnosis_view *v, const struct choice *function, double whole)
{
	struct choice gil = weigh(v, CAUSE_CPU_GIL);
	const char *name = function->lead ? function->lead->subject : "";

	return function->lead && gil.lead && *name &&
	       (function->lead->cause == CAUSE_CPU_PYTHON ||
		function->lead->cause == CAUSE_CPU_FUNCTION) &&
	       gil.explained_ns >= GIL_EXPLAINS * whole &&
	       !strncmp(gil.lead->subject, name, strlen(name));
}

/* A share above the group's line says that a function is unusual, and not that it is what holds the rank
 * up: it is the cause where nothing else is. */
static void last_resort(const struct diagnosis_view *v, double whole, struct choice *best)
{
	if (best->lead && best->lead->cause != CAUSE_CPU_HOST_GAP)
		return;
	for (uint32_t i = 0; i < v->count; i++) {
		const struct diagnosis_candidate *c = &v->list[i];
		double got = within_pool(v, c);

		if (c->by_line && !c->told_only && got > 0 &&
		    (!v->pools_known || got >= EXPLAINS_MIN * whole))
			*best = (struct choice){c, got, got * c->sure * depths[c->cause]};
	}
}

/* Kernels so much slower are the GPU's, unless idle time grew by several times as much: a host that is late
 * makes no kernel slower, and a slow GPU makes its host wait. */
#define PACE_MIN   0.015
#define IDLE_TIMES 3.0

static struct choice kernels_say(const struct diagnosis_view *v)
{
	double more_idle = v->mine[FIGURE_IDLE] - v->base[FIGURE_IDLE], idle = 0, pace;
	struct choice best = {.lead = NULL};

	for (int c = CAUSE_UNKNOWN + 1; c < CAUSE_COUNT; c++) {
		struct choice one = weigh(v, (enum finding_cause)c);

		if (one.lead && one.lead->pool == POOL_COMPUTE && !one.lead->told_only &&
		    finding_cause_layer(one.lead->cause) == LAYER_GPU && one.score > best.score)
			best = one;
	}
	if (!best.lead || !v->pools_known)
		return (struct choice){.lead = NULL};
	pace = best.explained_ns / fmax(v->mine[FIGURE_COMPUTE] - best.explained_ns, 1);
	if (v->mine[FIGURE_IDLE] > 0 && v->base[FIGURE_IDLE] > 0)
		idle = v->mine[FIGURE_IDLE] / v->base[FIGURE_IDLE] - 1;
	if (pace < PACE_MIN || (idle > IDLE_TIMES * pace && more_idle > 2 * best.explained_ns))
		best.lead = NULL;
	return best;
}

/* Of a uniform rise that is the GPUs' waiting for their hosts: then transfers only look slower. */
#define HOST_SHARE 0.5

static bool hosts_are_late(const struct diagnosis_view *v)
{
	double rise = v->mine[FIGURE_SELF] - v->base[FIGURE_SELF];

	return v->in->kind == FINDING_UNIFORM && v->mine[FIGURE_IDLE] >= 0 && v->base[FIGURE_IDLE] >= 0 &&
	       v->mine[FIGURE_SELF] >= 0 && v->base[FIGURE_SELF] >= 0 && rise > 0 &&
	       v->mine[FIGURE_IDLE] - v->base[FIGURE_IDLE] >= HOST_SHARE * rise;
}

/* Where nothing was seen that goes deeper. */
static void by_figures(const struct diagnosis_view *v, struct choice *best)
{
	struct choice other;

	if (best->lead && finding_cause_layer(best->lead->cause) == LAYER_NETWORK && hosts_are_late(v)) {
		other = weigh(v, CAUSE_CPU_HOST_GAP);
		*best = other.lead ? other : *best;
	}
	if (best->lead && best->lead->cause != CAUSE_CPU_HOST_GAP)
		return;
	other = kernels_say(v);
	*best = other.lead ? other : *best;
}

/* other_than: a layer that may not win, for the second best. */
static struct choice choose(const struct diagnosis_view *v, enum finding_layer other_than)
{
	double whole = whole_of(v);
	struct choice best = {.lead = NULL}, unseen = best;

	for (int c = CAUSE_UNKNOWN + 1; c < CAUSE_COUNT; c++) {
		struct choice one = weigh(v, (enum finding_cause)c);

		if (!one.lead || !(one.explained_ns > 0) ||
		    finding_cause_layer((enum finding_cause)c) == other_than)
			continue;
		if (v->pools_known && one.explained_ns < EXPLAINS_MIN * whole)
			continue;
		/* what nobody saw is no cause beside what was seen */
		if (v->row && c == CAUSE_CPU_HOST_GAP)
			unseen = one;
		else if (one.score > best.score)
			best = one;
	}
	if (!best.lead)
		best = unseen;
	if (other_than == LAYER_COUNT && !v->row) {
		by_figures(v, &best);
		last_resort(v, whole, &best);
	}
	return !v->row && holds_the_gil(v, &best, whole) ? weigh(v, CAUSE_CPU_GIL) : best;
}

/* Half of how far healthy peers lie apart: a difference within it is theirs too. */
static double noise_of(const struct diagnosis_view *v)
{
	double least = DBL_MAX, most = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->in->peer_count && v->in->kind != FINDING_UNIFORM; i++) {
		double x = figure_of(&v->in->peer[i], FIGURE_SELF);

		if (x < 0)
			continue;
		least = x < least ? x : least;
		most = x > most ? x : most;
		n++;
	}
	return n >= 3 ? (most - least) / 2 : 0;
}

/* Detection may know better: it saw more steps. But a difference that is no larger than the peers'
 * own is a weak reason. */
static bool is_within_noise(const struct diagnosis_view *v)
{
	return !v->row && v->pools_known && !v->past && whole_of(v) <= noise_of(v);
}

static bool is_weak(const struct choice *c)
{
	return c->lead && (c->lead->cause == CAUSE_CPU_HOST_GAP || c->lead->by_line);
}

static enum finding_cause cause_alone(const struct diagnosis_view *v)
{
	struct choice c = choose(v, LAYER_COUNT);

	if (is_weak(&c) && is_within_noise(v))
		return CAUSE_UNKNOWN;
	return c.lead ? c.lead->cause : CAUSE_UNKNOWN;
}

/* ---- the text ---- */

static void say(struct diagnosis *out, enum finding_layer layer, double effect_ns, const char *text)
{
	struct finding_line *l = &out->evidence[out->evidence_count];

	if (out->evidence_count == DIAGNOSIS_LINES_MAX || !*text)
		return;
	out->evidence_count++;
	l->layer = layer;
	l->effect_ns = effect_ns;
	diagnosis_text_copy(l->text, sizeof(l->text), text);
}

static int stronger(const void *a, const void *b)
{
	const struct diagnosis_candidate *x = *(const struct diagnosis_candidate *const *)a,
					 *y = *(const struct diagnosis_candidate *const *)b;
	double p = x->effect_ns * x->sure, q = y->effect_ns * y->sure;

	if (p > q || p < q)
		return p > q ? -1 : 1;
	return x < y ? -1 : x > y;
}

static double told_ns(const struct diagnosis_view *v, const struct diagnosis_candidate *c)
{
	return v->pools_known ? within_pool(v, c) : c->effect_ns;
}

/* What has a figure that does not matter is no evidence; what has none is told (a setting). */
static bool is_worth_a_line(const struct diagnosis_view *v, const struct diagnosis_candidate *c)
{
	return !(c->effect_ns > 0) || !v->pools_known || told_ns(v, c) >= TOLD_MIN * whole_of(v);
}

static void put_evidence(const struct diagnosis_view *v, const struct choice *chosen,
			 struct diagnosis *out)
{
	const struct diagnosis_candidate *order[DIAGNOSIS_CANDIDATES_MAX];
	enum finding_layer layer =
	    chosen->lead ? finding_cause_layer(chosen->lead->cause) : LAYER_UNKNOWN;

	for (uint32_t i = 0; i < v->count; i++)
		order[i] = &v->list[i];
	qsort(order, v->count, sizeof(*order), stronger);
	if (chosen->lead)
		say(out, layer, told_ns(v, chosen->lead), chosen->lead->text);
	for (int pass = 0; pass < 2; pass++) /* of the cause's layer, then of the others */
		for (uint32_t i = 0; i < v->count; i++) {
			enum finding_layer own = finding_cause_layer(order[i]->cause);

			if (order[i] != chosen->lead && (own == layer) == !pass &&
			    is_worth_a_line(v, order[i]))
				say(out, own, told_ns(v, order[i]), order[i]->text);
		}
}

static void rule_out(struct diagnosis *out, enum finding_layer layer, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void rule_out(struct diagnosis *out, enum finding_layer layer, const char *fmt, ...)
{
	struct finding_line *l = &out->ruled_out[out->ruled_out_count];
	va_list ap;

	if (out->ruled_out_count == LAYER_COUNT)
		return;
	out->ruled_out_count++;
	l->layer = layer;
	l->effect_ns = 0;
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

static const char *elsewhere(const struct diagnosis_view *v)
{
	return v->past || !v->in->peer_count ? "before" : "on the peers";
}

static void rule_out_gpu(const struct diagnosis_view *v, struct diagnosis *out)
{
	double mine = v->mine[FIGURE_COMPUTE], base = v->base[FIGURE_COMPUTE];
	struct diagnosis_number a, b;

	if (v->kernel_ratio > 0)
		rule_out(out, LAYER_GPU,
			 "kernels take as long %s, within %.1f%% (no single one differs by "
			 "more than %.0f%%)",
			 v->as, fmax(0.1, 100 * fabs(v->kernel_ratio - 1)),
			 100 * v->kernel_spread + 0.5);
	else if (mine >= 0 && base > 0)
		rule_out(out, LAYER_GPU, "compute kernels take %s per step, %s %s",
			 diagnosis_text_ms(mine, &a), diagnosis_text_ms(base, &b), elsewhere(v));
}

static void rule_out_cpu(const struct diagnosis_view *v, struct diagnosis *out)
{
	bool waits = known(v, FIGURE_IDLE) && v->pool_ns[POOL_HOST] > EXPLAINS_MIN * whole_of(v);
	struct diagnosis_number a, b;

	if (known(v, FIGURE_IDLE) && !waits)
		rule_out(out, LAYER_CPU,
			 "its GPU does not wait for the host: idle for %s per step, %s %s",
			 diagnosis_text_ms(v->mine[FIGURE_IDLE], &a),
			 diagnosis_text_ms(v->base[FIGURE_IDLE], &b), elsewhere(v));
	else if (v->function_delta >= 0 && v->function_delta < SHARE_GREW)
		rule_out(out, LAYER_CPU,
			 "no function explains it: no share of the launching threads' CPU time "
			 "grew by more than %.1f points%s%.90s",
			 100 * v->function_delta, v->function_name[0] ? "; that is of " : "",
			 v->function_name);
}

static const struct os_signal *signal_of(const struct diagnosis_view *v, enum os_signal_kind kind)
{
	for (uint32_t i = 0; i < v->who->signal_count; i++)
		if (!strcmp(v->who->signal[i].name, os_signal_info(kind)->name))
			return &v->who->signal[i];
	return NULL;
}

static void rule_out_os(const struct diagnosis_view *v, struct diagnosis *out)
{
	const struct os_signal *wait = signal_of(v, OS_SIGNAL_RUN_WAIT);
	double peers = wait && wait->flags & OS_SIGNAL_RAISED ?
			       diagnosis_os_of_peers(v, OS_SIGNAL_RUN_WAIT, wait) : -1;
	struct diagnosis_number usual;
	char theirs[48] = "";

	if (!v->who->signal_count)
		return;
	if (peers >= 0)
		snprintf(theirs, sizeof(theirs), ", those of its peers %.0f", peers);
	if (wait && wait->value >= 0)
		rule_out(out, LAYER_OS,
			 "no signal of the operating system explains it; its threads waited %.0f "
			 "ms/s%s for a CPU%s",
			 wait->value, os_signal_usual_text(wait, usual.text, sizeof(usual.text)), theirs);
	else
		rule_out(out, LAYER_OS, "no signal of the operating system explains it");
}

static void rule_out_network(const struct diagnosis_view *v, struct diagnosis *out)
{
	struct diagnosis_number a, b;

	if (known(v, FIGURE_EXPOSED) && (v->excess_ns > 0 || v->pool_ns[POOL_COMM] <= 0))
		rule_out(out, LAYER_NETWORK, "it waits in collectives for %s per step, %s %s",
			 diagnosis_text_ms(v->mine[FIGURE_EXPOSED], &a),
			 diagnosis_text_ms(v->base[FIGURE_EXPOSED], &b), elsewhere(v));
}

static void rule_out_storage(const struct diagnosis_view *v, struct diagnosis *out)
{
	const struct os_signal *wait = signal_of(v, OS_SIGNAL_IO_WAIT);
	struct diagnosis_number a;

	if (v->storage_ns >= 0 && v->storage_ns < READS_TOLD_NS) {
		rule_out(out, LAYER_STORAGE,
			 "its launching threads are blocked in reads for no longer %s, "
			 "within 0.01 ms per step",
			 v->than);
		return;
	}
	if (v->storage_ns >= 0) {
		rule_out(out, LAYER_STORAGE,
			 "its launching threads are blocked in reads for %s per step more %s",
			 diagnosis_text_ms(v->storage_ns, &a), v->than);
		return;
	}
	if (wait)
		rule_out(out, LAYER_STORAGE, "its threads slept %.1f ms/s%s in wait for storage",
			 wait->value, os_signal_usual_text(wait, a.text, sizeof(a.text)));
}

static void rule_out_software(const struct diagnosis_view *v, struct diagnosis *out)
{
	if (v->settings_equal && !v->settings_differ)
		rule_out(out, LAYER_SOFTWARE, "%u settings and versions are the same %s",
			 v->settings_equal, v->as);
}

/* Whether a layer has a candidate that explains something. */
static bool explains(const struct diagnosis_view *v, enum finding_layer layer)
{
	double whole = whole_of(v);

	for (uint32_t i = 0; i < v->count; i++) {
		const struct diagnosis_candidate *c = &v->list[i];
		double got = within_pool(v, c);

		if (finding_cause_layer(c->cause) == layer && got > 0 &&
		    (!v->pools_known || got >= EXPLAINS_MIN * whole) &&
		    c->cause != CAUSE_CPU_HOST_GAP && !c->by_line)
			return true;
	}
	return false;
}

/* What a layer shows stands in the evidence, also where it explains too little to be the cause. That the
 * host is late is what is to be explained, and no word against its CPU. */
static bool is_shown(const struct diagnosis *out, enum finding_layer layer)
{
	for (uint32_t i = 0; i < out->evidence_count && layer != LAYER_CPU; i++)
		if (out->evidence[i].layer == layer)
			return true;
	return false;
}

static void put_ruled_out(const struct diagnosis_view *v, enum finding_layer cause,
			  struct diagnosis *out)
{
	static void (*const of[LAYER_COUNT])(const struct diagnosis_view *, struct diagnosis *) = {
	    [LAYER_GPU] = rule_out_gpu,		[LAYER_CPU] = rule_out_cpu,
	    [LAYER_OS] = rule_out_os,		[LAYER_NETWORK] = rule_out_network,
	    [LAYER_STORAGE] = rule_out_storage, [LAYER_SOFTWARE] = rule_out_software,
	};

	for (int layer = LAYER_GPU; layer < LAYER_COUNT; layer++) {
		bool by_steps = layer == LAYER_GPU || layer == LAYER_CPU || layer == LAYER_NETWORK;

		if (layer != (int)cause && !explains(v, (enum finding_layer)layer) &&
		    !is_shown(out, (enum finding_layer)layer) &&
		    !(by_steps && v->in->kind == FINDING_HANG))
			of[layer](v, out);
	}
}

/* " and -2147483648", " and 4294967295 more" */
#define WHO_ONE_BYTES 36u

/* "rank 5", "ranks 2 and 5", "ranks 2, 5, 1, 0, 7, 4 and 3 more", "every rank" */
static void who_text(const struct diagnosis_input *in, char *out, size_t bytes)
{
	uint32_t named = 1;
	size_t used;

	if (in->kind == FINDING_UNIFORM && !in->of_some) {
		snprintf(out, bytes, "every rank");
		return;
	}
	snprintf(out, bytes, "rank%s %d", in->suspect_count > 1 ? "s" : "", in->suspect[0].rank);
	used = strlen(out);
	/* a rank may be any number, and the rest has to fit in after it */
	for (; named < in->suspect_count && named < 6 && used + WHO_ONE_BYTES < bytes; named++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%d",
					 named + 1 == in->suspect_count ? " and " : ", ",
					 in->suspect[named].rank);
	if (in->suspect_count > named)
		snprintf(out + used, bytes - used, " and %u more", in->suspect_count - named);
}

static void summarise(const struct diagnosis_view *v, const struct choice *c, struct diagnosis *out)
{
	const char *is = v->many ? "are" : "is", *hangs = v->many ? "hang" : "hangs";
	bool uniform = v->in->kind == FINDING_UNIFORM, hang = v->in->kind == FINDING_HANG;
	struct diagnosis_number ms;
	char who[96];

	who_text(v->in, who, sizeof(who));
	if (!c->lead)
		snprintf(out->summary, sizeof(out->summary), "%s %s%s: %s", who, hang ? hangs : is,
			 hang ? "" : " slow", finding_cause_title(out->cause));
	else if (hang)
		snprintf(out->summary, sizeof(out->summary), "%s %s because %.180s", who, hangs,
			 c->lead->because);
	else
		snprintf(out->summary, sizeof(out->summary), "%s %s %s because %.150s: +%s per step",
			 who, is, uniform ? "slower than before" : "slow", c->lead->because,
			 diagnosis_text_ms(out->effect_ns, &ms));
}

/* ---- confidence ---- */

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* The probability that rank, layer and cause are right, by a logistic model of four things: how
 * directly the evidence shows the cause, how strong the best cause of another layer is beside it, how
 * many kinds of evidence are missing, and by what factor more was measured than was lost. Fitted on
 * drawn faults (tests/bench/bench_verdict.c, seed 1; docs/reading-incidents.md), where nothing else
 * that is known here told right from wrong. */
#define SURE_BASE    -0.9
#define SURE_DIRECT  4.4
#define SURE_RIVAL   -3.1
#define SURE_MISSING -1.25
#define SURE_EXCESS  -0.4 /* per doubling */
#define EXCESS_MAX   4.0
#define MISSING_MAX  4u

/* The model was not fitted on causes that only the group's line tells. */
#define SURE_BY_LINE 0.45

/* Healthy ranks differ by so much of a step from day to day. */
#define STEP_SHARE 0.002

/* The share of the excess that the cause explains, each part by how directly it was seen. */
static double by_ledger(const struct diagnosis_view *v, const struct choice *c)
{
	return v->excess_ns > 0 ? clamp(c->explained_ns * c->lead->sure / v->excess_ns, 0, 1) : 0;
}

/* What the model was not fitted on can only lower it: suspects that show different causes, a median
 * of few steps, and an effect that is next to nothing. */
static double confidence(const struct diagnosis_view *v, const struct choice *c, uint32_t agreeing)
{
	const struct diagnosis_input *in = v->in;
	struct choice second = choose(v, finding_cause_layer(c->lead->cause));
	uint32_t missing = v->out->missing_count < MISSING_MAX ? v->out->missing_count : MISSING_MAX;
	double pool = v->pool_ns[c->lead->pool], x = SURE_BASE + SURE_DIRECT * c->lead->sure;

	/* a host that waits beside slower kernels is no other explanation (kernels_say) */
	if (second.lead && second.lead->cause == CAUSE_CPU_HOST_GAP && c->lead->pool == POOL_COMPUTE)
		second.lead = NULL;
	if (second.lead && c->score > 0)
		x += SURE_RIVAL * clamp(second.score / c->score, 0, 1);
	if (v->pools_known && pool > 0 && c->lead->effect_ns > pool)
		x += SURE_EXCESS * clamp(log2(c->lead->effect_ns / pool), 0, EXCESS_MAX);
	x = v->row		? by_ledger(v, c)
	    : c->lead->by_line ? SURE_BY_LINE
			       : 1 / (1 + exp(-(x + SURE_MISSING * missing)));
	x *= 0.5 + 0.5 * agreeing / (in->suspect_count ? in->suspect_count : 1);
	if (v->who->steps < STEPS_SURE && in->kind != FINDING_HANG)
		x *= 0.5 + 0.1 * v->who->steps;
	if (v->pools_known && v->mine[FIGURE_STEP] > 0)
		x *= clamp(c->explained_ns / (STEP_SHARE * v->mine[FIGURE_STEP]), 0, 1);
	return clamp(x, 0.01, 0.99);
}

/* ---- all together ---- */

static bool is_given(enum finding_cause c)
{
	return c == CAUSE_IMBALANCE_INPUT || c == CAUSE_IMBALANCE_STAGE ||
	       c == CAUSE_HANG_MISSING || c == CAUSE_HANG_MISMATCH || c == CAUSE_HANG_KERNEL ||
	       c == CAUSE_HANG_TRANSFER;
}

/* How many of the suspects say the same when each is looked at alone. */
static uint32_t agreement(const struct diagnosis_input *in, enum finding_cause cause)
{
	struct diagnosis_view *v = malloc(sizeof(*v));
	struct diagnosis *scratch = malloc(sizeof(*scratch));
	uint32_t n = 1;

	for (uint32_t i = 1; v && scratch && i < in->suspect_count; i++) {
		scratch->missing_count = 0;
		look(v, in, &in->suspect[i], scratch);
		n += cause_alone(v) == cause;
		look_done(v);
	}
	free(v);
	free(scratch);
	return n;
}

/* Nothing was found: what can still be said. */
static enum finding_cause fallback(const struct diagnosis_view *v)
{
	if (is_given(v->in->known))
		return v->in->known;
	if (v->settings_differ && v->in->kind != FINDING_UNIFORM)
		return CAUSE_SW_ENVIRONMENT;
	return v->in->kind == FINDING_UNIFORM ? CAUSE_SW_SLOWER : CAUSE_UNKNOWN;
}

/* What detection knows stands, but that a rank is missing, or has not told that its kernel ended, is what
 * its ledger says the reason of. */
static bool says_why(const struct diagnosis_view *v, const struct choice *c)
{
	return v->row && c->lead && c->lead->cause != CAUSE_CPU_HOST_GAP &&
	       (v->in->known == CAUSE_HANG_MISSING || v->in->known == CAUSE_HANG_KERNEL);
}

static void conclude(struct diagnosis_view *v, struct diagnosis *out)
{
	struct choice c = choose(v, LAYER_COUNT);

	if (is_within_noise(v)) {
		if (is_weak(&c))
			c.lead = NULL;
		if (!is_given(v->in->known))
			diagnosis_missing(
			    out,
			    "a difference: in this stretch rank %d is slower by no more "
			    "than its peers differ",
			    v->who->rank);
	}
	if (is_given(v->in->known) && !says_why(v, &c))
		c.lead = NULL;
	if (c.lead) {
		out->cause = c.lead->cause;
		out->effect_ns = c.explained_ns;
		out->confidence = confidence(v, &c, agreement(v->in, out->cause));
		diagnosis_text_remedy(v, c.lead, out->remedy, sizeof(out->remedy));
	} else {
		out->cause = fallback(v);
		if (out->cause == CAUSE_SW_ENVIRONMENT)
			c = weigh(v, out->cause);
		out->effect_ns = v->pools_known ? whole_of(v) : 0;
		out->confidence = is_given(out->cause)		? 0.8
				  : out->cause != CAUSE_UNKNOWN ? 0.3
								: 0;
		diagnosis_text_copy(out->remedy, sizeof(out->remedy),
				    finding_cause_remedy(out->cause));
	}
	put_evidence(v, &c, out);
	put_ruled_out(v, finding_cause_layer(out->cause), out);
	summarise(v, &c, out);
}

static void name_missing(const struct diagnosis_input *in, struct diagnosis *out)
{
	bool any = false;

	for (uint32_t i = 0; i < in->peer_count; i++)
		any |= in->peer[i].steps > 0;
	if (in->kind == FINDING_UNIFORM ? !in->before : !any && !in->before)
		diagnosis_missing(out, in->kind == FINDING_UNIFORM
					   ? "figures of earlier runs, to compare with"
					   : "windows of healthy peers, to compare with");
	if (in->kind == FINDING_HANG && !is_given(in->known))
		diagnosis_missing(out, "who has not entered which collective: known once the others have "
				       "waited for long enough");
	if (in->suspect_count && !in->suspect[0].steps)
		diagnosis_missing(out, "steps of rank %d", in->suspect[0].rank);
}

void diagnosis_make(const struct diagnosis_input *in, struct diagnosis *out)
{
	struct diagnosis_view *v;

	memset(out, 0, sizeof(*out));
	name_missing(in, out);
	v = in->suspect_count ? malloc(sizeof(*v)) : NULL;
	if (!v) {
		out->cause = is_given(in->known) ? in->known : CAUSE_UNKNOWN;
		out->confidence = is_given(in->known) ? 0.8 : 0;
		diagnosis_text_copy(out->summary, sizeof(out->summary),
				    finding_cause_title(out->cause));
		diagnosis_text_copy(out->remedy, sizeof(out->remedy),
				    finding_cause_remedy(out->cause));
		return;
	}
	look(v, in, &in->suspect[0], out);
	out->by_ledger = v->row != NULL;
	conclude(v, out);
	look_done(v);
	free(v);
}

uint32_t diagnosis_split(const struct diagnosis_input *in, uint32_t *group)
{
	enum finding_cause causes[CAUSE_COUNT];
	struct diagnosis_view *v = malloc(sizeof(*v));
	struct diagnosis *scratch = malloc(sizeof(*scratch));
	uint32_t n = 0;

	for (uint32_t i = 0; i < in->suspect_count; i++) {
		enum finding_cause cause = CAUSE_UNKNOWN;
		uint32_t k = 0;

		if (v && scratch) {
			scratch->missing_count = 0;
			look(v, in, &in->suspect[i], scratch);
			cause = cause_alone(v);
			look_done(v);
		}
		while (k < n && causes[k] != cause)
			k++;
		if (k == n)
			causes[n++] = cause;
		group[i] = k;
	}
	free(v);
	free(scratch);
	return n;
}
