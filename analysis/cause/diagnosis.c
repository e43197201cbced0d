/* SPDX-License-Identifier: Apache-2.0
 * Two ledgers are compared: of the slow steps and of their reference. They cover whole steps or
 * only a few figures. Each layer adds candidates: what may have lengthened an account, with a
 * measured time. diagnosis_ledger.c divides the excess among them. The cause with the largest part
 * is the verdict. */
#include "analysis/cause/diagnosis.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"
#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/order.h"
#include "base/text/text.h"
#include "model/thresholds.h"

#define PEERS_LOOKED 256u

static const double depths[CAUSE_COUNT] = {
#define CAUSE(symbol, layer, id, title, depth, ...) depth,
#include "model/causes.def"
#undef CAUSE
};

double diagnosis_depth(enum finding_cause cause)
{
	return depths[cause];
}

double diagnosis_sure(const struct diagnosis_candidate *c)
{
	static const double sure[] = {
	    [DIAGNOSIS_MEASURED] = 1, [DIAGNOSIS_LIKELY] = 0.6, [DIAGNOSIS_GUESS] = 0.45};

	return sure[c->proof];
}

double diagnosis_weight(const struct diagnosis_candidate *c)
{
	return diagnosis_sure(c) * depths[c->cause];
}

/* ---- figures ---- */

static double figure_of(const struct diagnosis_rank *r, enum diagnosis_figure f)
{
	const double all[FIGURE_COUNT] = {
	    [FIGURE_STEP] = r->step_ns,
	    [FIGURE_SELF] = r->self_ns,
	    [FIGURE_COMPUTE] = r->compute_ns,
	    [FIGURE_EXPOSED] = r->exposed_comm_ns,
	    [FIGURE_COPY] = r->copy_ns,
	    /* idle time lies between GPU work, so it is known only of steps that have some */
	    [FIGURE_IDLE] = r->compute_ns + r->comm_ns + r->copy_ns > 0 ? r->idle_ns : -1,
	    [FIGURE_KERNELS] = r->kernels,
	    [FIGURE_GIL] = r->samples > 0 ? r->gil_wait_ns : -1,
	};

	return r->steps ? all[f] : -1;
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

double diagnosis_work_ratio(const struct diagnosis_view *v, const struct diagnosis_rank *base)
{
	return v->who->stated_ns > 0 && base->stated_ns > 0 ? v->who->stated_ns / base->stated_ns
							    : 1;
}

/* A figure of the past, scaled to the work of these steps. */
static double past_figure(const struct diagnosis_view *v, enum diagnosis_figure f)
{
	const struct diagnosis_rank *before = v->in->before;
	double x = figure_of(before, f);
	bool is_time = f <= FIGURE_IDLE;

	return x > 0 && is_time ? x * diagnosis_work_ratio(v, before) : x;
}

/* Whether the base is the rank's own past. It is if the past shows nearly as much as the peers, because
 * it had the same work and habits. Otherwise (a rank that was always slow) the peers are the base. One base
 * serves all figures; the other fills in what it lacks. */
static bool is_past(const struct diagnosis_view *v)
{
	const struct diagnosis_input *in = v->in;
	double mine = v->mine[FIGURE_SELF], before, peers;

	if (in->kind == FINDING_UNIFORM || !in->before)
		return in->kind == FINDING_UNIFORM;
	before = past_figure(v, FIGURE_SELF);
	peers = peers_figure(in, FIGURE_SELF);
	if (mine < 0 || before < 0 || peers < 0)
		return peers < 0;
	return mine > before && mine - before >= (1 - thresholds.part.matters) * (mine - peers);
}

static void find_base(struct diagnosis_view *v)
{
	const struct diagnosis_input *in = v->in;
	bool uniform = in->kind == FINDING_UNIFORM;

	v->past = is_past(v);
	for (int k = 0; k < FIGURE_COUNT; k++) {
		enum diagnosis_figure f = (enum diagnosis_figure)k;
		double x = uniform ? -1 : peers_figure(in, f);
		double y = in->before ? past_figure(v, f) : -1;

		v->base[f] = v->past ? (y >= 0 ? y : x) : x >= 0 ? x : y;
	}
}

void diagnosis_bases(const struct diagnosis_view *v, bool (*serves)(const struct diagnosis_rank *r),
		     struct diagnosis_bases *out)
{
	const struct diagnosis_input *in = v->in;

	out->count = 0;
	out->where = "on the peers";
	if (in->kind != FINDING_UNIFORM)
		for (uint32_t i = 0; i < in->peer_count && out->count < DIAGNOSIS_BASES_MAX; i++)
			if (serves(&in->peer[i]))
				out->rank[out->count++] = &in->peer[i];
	if (out->count)
		return;
	out->where = "before";
	if (in->before && serves(in->before))
		out->rank[out->count++] = in->before;
}

const struct os_signal *diagnosis_raised(const struct diagnosis_view *v, const char *begin,
					 const struct os_signal *last)
{
	const struct os_signal *s = v->who->signal;

	for (uint32_t i = last ? (uint32_t)(last - s) + 1 : 0; i < v->who->signal_count; i++)
		if (s[i].flags & OS_SIGNAL_RAISED && !strncmp(s[i].name, begin, strlen(begin)))
			return &s[i];
	return NULL;
}

static bool known(const struct diagnosis_view *v, enum diagnosis_figure f)
{
	return v->mine[f] >= 0 && v->base[f] >= 0;
}

static void examine(struct diagnosis_view *v, const struct diagnosis_input *in,
		    const struct diagnosis_rank *who, struct diagnosis *out)
{
	memset(v, 0, sizeof(*v));
	v->in = in;
	v->who = who;
	rank_name(who->rank, &v->name);
	v->out = out;
	for (int f = 0; f < FIGURE_COUNT; f++)
		v->mine[f] = figure_of(who, (enum diagnosis_figure)f);
	find_base(v);
	v->many = in->suspect_count > 1 && (in->kind != FINDING_UNIFORM || in->of_some);
	v->its = v->many ? "their" : "its";
	diagnosis_ledger_begin(v);
	/* The last steps before a hang were healthy, so they do not show why it stopped. */
	if (in->kind != FINDING_HANG)
		diagnosis_gpu_look(v);
	diagnosis_host_look(v);
	diagnosis_os_look(v);
	diagnosis_software_look(v);
	diagnosis_ledger_look(v);
}

static void examine_done(struct diagnosis_view *v)
{
	free(v->row);
	free(v->kernel_row);
	v->row = NULL;
}

/* ---- candidates ---- */

struct diagnosis_candidate *diagnosis_add(struct diagnosis_view *v, enum finding_cause cause,
					  double effect_ns)
{
	struct diagnosis_candidate *c = &v->list[0];

	if (v->count < DIAGNOSIS_CANDIDATES_MAX)
		c = &v->list[v->count++];
	else
		for (uint32_t i = 1; i < v->count; i++)
			if (v->list[i].effect_ns * diagnosis_sure(&v->list[i]) <
			    c->effect_ns * diagnosis_sure(c))
				c = &v->list[i];
	*c = (struct diagnosis_candidate){.cause = cause, .effect_ns = effect_ns};
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
		text_copy(out->missing[out->missing_count++], FINDING_TEXT_BYTES, line);
}

/* Half of the range of the healthy peers' self times. A smaller difference may be normal. */
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
	return n >= thresholds.count.few ? (most - least) / 2 : 0;
}

/* Whether the excess is no larger than the differences between healthy peers. Such a difference is
 * a weak reason, even if detection is right because it saw more steps. */
static bool is_within_noise(const struct diagnosis_view *v)
{
	return v->row_count && !v->past && v->excess_ns <= noise_of(v);
}

/* The cause with the largest part, weighted by how directly it was seen; NULL: none explains enough.
 * An unobserved host gap is only chosen if nothing observed explains enough, and if the excess is
 * more than noise. */
static const struct diagnosis_share *choose_cause(const struct diagnosis_view *v)
{
	const struct diagnosis_share *best = NULL, *gap = &v->share[CAUSE_CPU_HOST_GAP];
	double least = thresholds.part.matters * v->excess_ns;

	for (int c = CAUSE_UNKNOWN + 1; c < CAUSE_COUNT; c++) {
		const struct diagnosis_share *s = &v->share[c];

		if (s->lead && (s == gap ? s->seen_ns : s->ns) >= least &&
		    (!best || s->ns * s->sure > best->ns * best->sure))
			best = s;
	}
	if (!best && gap->lead && gap->ns >= least && !is_within_noise(v))
		best = gap;
	return best;
}

static enum finding_cause cause_alone(const struct diagnosis_view *v)
{
	const struct diagnosis_share *s = choose_cause(v);

	return s ? s->lead->cause : CAUSE_UNKNOWN;
}

/* ---- text ---- */

static void say(struct diagnosis *out, enum finding_layer layer, double effect_ns, const char *text)
{
	struct finding_line *l = &out->evidence[out->evidence_count];

	if (out->evidence_count == DIAGNOSIS_LINES_MAX || !*text)
		return;
	out->evidence_count++;
	l->layer = layer;
	l->rank = FINDING_NO_RANK;
	l->effect_ns = effect_ns;
	text_copy(l->text, sizeof(l->text), text);
}

ORDER_BY(stronger, const struct diagnosis_candidate *,
	 ORDER((*b)->effect_ns *diagnosis_sure(*b), (*a)->effect_ns *diagnosis_sure(*a))
	     ?: ORDER(*a, *b));

/* The effect to print, at most what was lost in the accounts that the cause can lengthen. */
static double shown_ns(const struct diagnosis_view *v, const struct diagnosis_candidate *c)
{
	const struct diagnosis_share *s = &v->share[c->cause];

	return s->lead == c ? s->ns : fmin(c->effect_ns, v->room_ns[c->cause]);
}

/* A candidate whose effect does not matter is left out. One without an effect (a setting) is
 * kept. */
static bool is_worth_a_line(const struct diagnosis_view *v, const struct diagnosis_candidate *c)
{
	return !(c->effect_ns > 0) ||
	       shown_ns(v, c) >= fmax(thresholds.part.named * v->excess_ns, 1);
}

static void put_evidence(const struct diagnosis_view *v, const struct diagnosis_candidate *lead,
			 struct diagnosis *out)
{
	const struct diagnosis_candidate *order[DIAGNOSIS_CANDIDATES_MAX + CAUSE_COUNT];
	enum finding_layer layer = lead ? finding_cause_layer(lead->cause) : LAYER_UNKNOWN;

	for (uint32_t i = 0; i < v->count; i++)
		order[i] = &v->list[i];
	qsort(order, v->count, sizeof(*order), stronger);
	if (lead)
		say(out, layer, shown_ns(v, lead), lead->text);
	for (int pass = 0; pass < 2; pass++) /* lines of the cause's layer first */
		for (uint32_t i = 0; i < v->count; i++) {
			enum finding_layer own = finding_cause_layer(order[i]->cause);

			if (order[i] != lead && (own == layer) == !pass &&
			    is_worth_a_line(v, order[i]))
				say(out, own, shown_ns(v, order[i]), order[i]->text);
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
	l->rank = FINDING_NO_RANK;
	l->effect_ns = 0;
	va_start(ap, fmt);
	vsnprintf(l->text, sizeof(l->text), fmt, ap);
	va_end(ap);
}

static const char *elsewhere(const struct diagnosis_view *v)
{
	return v->past || !v->in->peer_count ? "before" : "on the peers";
}

const char *diagnosis_kind_text(const struct diagnosis_view *v, const struct diagnosis_kind *k,
				char *out, size_t bytes)
{
	struct diagnosis_number a, b;

	snprintf(out, bytes, "%s per step, %s %s", diagnosis_text_ms(k->slow_ns, &a),
		 diagnosis_text_ms(k->reference_ns, &b),
		 !v->has_ledger		? elsewhere(v)
		 : v->who->usual_is_own ? "when healthy"
					: "on the peers");
	/* an account that is empty on both sides rules nothing out */
	return k->known && (k->slow_ns > 0 || k->reference_ns > 0) ? out : NULL;
}

static void rule_out_gpu(const struct diagnosis_view *v, struct diagnosis *out)
{
	char text[100], single[64];

	snprintf(single, sizeof(single), " (no single kernel differs by more than %.0f%%)",
		 100 * v->kernel_spread + 0.5);
	if (v->kernel_ratio > 0)
		rule_out(out, LAYER_GPU, "the typical kernel takes as long as %s, within %.1f%%%s",
			 v->kernels_where, fmax(0.1, 100 * fabs(v->kernel_ratio - 1)),
			 v->kernel_spread < thresholds.part.shows ? single : "");
	else if (diagnosis_kind_text(v, &v->kind[LEDGER_COMPUTE], text, sizeof(text)))
		rule_out(out, LAYER_GPU, "compute kernels take %s", text);
}

static void rule_out_cpu(const struct diagnosis_view *v, struct diagnosis *out)
{
	bool waits = v->host_ns > thresholds.part.matters * v->excess_ns;
	struct diagnosis_number a, b;
	char grew[32] = "";

	for (uint32_t i = 0; i < v->count; i++)
		waits |= v->list[i].cause == CAUSE_CPU_HOST_GAP;
	if (100 * v->function_delta >= 0.05)
		snprintf(grew, sizeof(grew), " by more than %.1f points", 100 * v->function_delta);
	if (known(v, FIGURE_IDLE) && !waits)
		rule_out(out, LAYER_CPU,
			 "its GPU does not wait for the host: it idles %s per step, %s %s",
			 diagnosis_text_ms(v->mine[FIGURE_IDLE], &a),
			 diagnosis_text_ms(v->base[FIGURE_IDLE], &b), elsewhere(v));
	else if (v->function_delta >= 0 && v->function_delta < thresholds.part.named)
		rule_out(out, LAYER_CPU,
			 "no function explains it: no function's share of the launch threads' CPU "
			 "time grew%s%s%.90s",
			 grew, v->function_name[0] ? "; most: " : "", v->function_name);
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
	double peers = wait && wait->flags & OS_SIGNAL_RAISED
			   ? diagnosis_os_of_peers(v, OS_SIGNAL_RUN_WAIT, wait)
			   : -1;
	struct diagnosis_number usual;
	char theirs[48] = "";

	if (!v->who->signal_count)
		return;
	if (peers >= 0)
		snprintf(theirs, sizeof(theirs), ", its peers' threads %.0f", peers);
	if (wait && wait->value >= 0)
		rule_out(out, LAYER_OS,
			 "no OS signal explains it; its threads waited %.0f "
			 "ms/s%s for a CPU%s",
			 wait->value, os_signal_usual_text(wait, usual.text, sizeof(usual.text)),
			 theirs);
	else
		rule_out(out, LAYER_OS, "no OS signal explains it");
}

static void rule_out_network(const struct diagnosis_view *v, struct diagnosis *out)
{
	char text[100];

	if ((v->excess_ns > 0 || v->transfer.slow_ns <= v->transfer.reference_ns) &&
	    diagnosis_kind_text(v, &v->kind[LEDGER_COLLECTIVE], text, sizeof(text)))
		rule_out(out, LAYER_NETWORK, "collectives take %s", text);
}

static void rule_out_storage(const struct diagnosis_view *v, struct diagnosis *out)
{
	const struct os_signal *wait = signal_of(v, OS_SIGNAL_IO_WAIT);
	struct diagnosis_number a;

	if (v->storage_ns >= 0) {
		rule_out(out, LAYER_STORAGE,
			 "its launch threads spend %s more per step blocked in reads than %s",
			 diagnosis_text_ms(v->storage_ns, &a), v->functions_where);
		return;
	}
	if (wait)
		rule_out(out, LAYER_STORAGE, "its threads waited %.1f ms/s%s for storage",
			 wait->value, os_signal_usual_text(wait, a.text, sizeof(a.text)));
}

static void rule_out_software(const struct diagnosis_view *v, struct diagnosis *out)
{
	if (v->settings_equal && !v->settings_differ)
		rule_out(out, LAYER_SOFTWARE, "%u settings and versions are the same as %s",
			 v->settings_equal,
			 v->in->kind == FINDING_UNIFORM ? "before" : "on the peers");
}

/* Whether the layer has a candidate that explains a part that matters. */
static bool explains(const struct diagnosis_view *v, enum finding_layer layer)
{
	for (uint32_t i = 0; i < v->count; i++) {
		const struct diagnosis_candidate *c = &v->list[i];
		double got = shown_ns(v, c);

		if (finding_cause_layer(c->cause) == layer && got > 0 &&
		    got >= thresholds.part.matters * v->excess_ns &&
		    c->cause != CAUSE_CPU_HOST_GAP && !c->evidence_only)
			return true;
	}
	return false;
}

/* Whether the evidence has a line of the layer, which then is not ruled out. The CPU is an
 * exception: its line may only say that the host is late, which is the symptom. */
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

/* " (72.3 of 75.6 ms more per step than when healthy)": what the cause explains, and how much longer the
 * slow steps are. Where they are compared with peers, which wait as long, only the former is known. */
static void add_amount(const struct diagnosis_view *v, const char *recur, char *summary,
		       size_t bytes)
{
	const struct ledger *slow = v->who->ledger, *usual = v->who->usual;
	bool own = v->out->by_ledger && slow && usual && v->who->usual_is_own && slow->steps &&
		   usual->steps;
	double whole_ns = own ? ledger_mean_ns(slow) - ledger_mean_ns(usual) : 0;
	bool uniform = v->in->kind == FINDING_UNIFORM,
	     compared = v->out->by_ledger || v->base[FIGURE_STEP] >= 0, all;
	size_t used = strlen(summary);
	struct diagnosis_number part, whole;
	char *unit;

	diagnosis_text_ms(v->out->effect_ns, &part);
	diagnosis_text_ms(whole_ns > 0 ? whole_ns : v->out->effect_ns, &whole);
	all = v->out->effect_ns >= whole_ns || !strcmp(whole.text, part.text);
	unit = strchr(part.text, ' ');
	if (unit && !strcmp(unit, strchr(whole.text, ' ')))
		*unit = '\0'; /* once is enough */
	snprintf(summary + used, bytes - used, " (%s%s%s more per step%s%s)", all ? "" : part.text,
		 all ? "" : " of ", whole.text,
		 uniform || !compared ? ""
		 : v->past	      ? " than when healthy"
		 : v->many	      ? " than their peers"
				      : " than its peers",
		 recur);
}

static void summarise(const struct diagnosis_view *v, const struct diagnosis_candidate *lead,
		      struct diagnosis *out)
{
	const char *is = v->many ? "are" : "is", *hangs = v->many ? "hang" : "hangs";
	bool uniform = v->in->kind == FINDING_UNIFORM, hang = v->in->kind == FINDING_HANG,
	     every = uniform && !v->in->of_some;
	char who[96], recur[56] = "";
	size_t used;

	diagnosis_ranks_text(v->in->suspect, every ? 0 : v->in->suspect_count, who, sizeof(who));
	if (v->who->period)
		snprintf(recur, sizeof(recur), ", in the steps that recur every %u steps",
			 v->who->period);
	if (!lead) {
		snprintf(out->summary, sizeof(out->summary), "%s %s%s: %s", who, hang ? hangs : is,
			 hang ? "" : " slow", finding_cause_title(out->cause));
		return;
	}
	snprintf(out->summary, sizeof(out->summary), "%s %s%s because ", who, hang ? hangs : is,
		 hang	   ? ""
		 : uniform ? " slower than before"
			   : " slow");
	used = strlen(out->summary);
	snprintf(out->summary + used, sizeof(out->summary) - used, "%.*s", hang ? 180 : 150,
		 lead->because);
	if (!hang)
		add_amount(v, recur, out->summary, sizeof(out->summary));
}

/* ---- confidence ---- */

static double clamp(double x, double low, double high)
{
	return x < low ? low : x > high ? high : x;
}

/* Few steps give an uncertain mean or median. */
static double of_steps(uint64_t steps)
{
	return steps < thresholds.count.some ? 0.5 + 0.5 * (double)steps / thresholds.count.some
					     : 1;
}

/* How often verdicts with this product were right (rank, layer and cause) for injected faults:
 * bench_verdict, seeds 1 and 2, 8,000 cases. Interpolated linearly between the points. */
static const struct outcome {
	double product, right;
} outcomes[] = {{0, 0.05},    {0.25, 0.26}, {0.46, 0.39}, {0.49, 0.56},	 {0.57, 0.74},
		{0.65, 0.82}, {0.75, 0.92}, {0.86, 0.93}, {0.965, 0.96}, {1, 0.97}};

static double calibrated(double product)
{
	const struct outcome *b = &outcomes[1];

	while (b < &outcomes[ARRAY_LEN(outcomes) - 1] && b->product < product)
		b++;
	return b[-1].right +
	       (product - b[-1].product) * (b->right - b[-1].right) / (b->product - b[-1].product);
}

/* The share of the excess that the cause explains, times how directly it was seen, times how many
 * suspects agree. Reduced for few steps. */
static double confidence(const struct diagnosis_view *v, const struct diagnosis_share *s,
			 uint32_t agreeing)
{
	double x = s->ns / v->excess_ns * s->sure;

	if (v->in->kind != FINDING_HANG)
		x *= of_steps(v->who->steps);
	x *= 0.5 + 0.5 * agreeing / (v->in->suspect_count ? v->in->suspect_count : 1);
	return calibrated(clamp(x, 0, 1));
}

/* ---- conclusion ---- */

static bool is_given(enum finding_cause c)
{
	return c == CAUSE_IMBALANCE_INPUT || c == CAUSE_IMBALANCE_STAGE ||
	       c == CAUSE_HANG_MISSING || c == CAUSE_HANG_MISMATCH || c == CAUSE_HANG_KERNEL ||
	       c == CAUSE_HANG_TRANSFER;
}

/* For one suspect examined alone: what each cause explains of its excess, and its verdict. */
struct alone {
	double ns[CAUSE_COUNT];
	enum finding_cause most;
	double excess_ns, waits_ns, late_ns; /* as in diagnosis_view */
	bool waits;			     /* only for another suspect */
};

static void examine_alone(const struct diagnosis_input *in, uint32_t i, struct diagnosis_view *v,
			  struct diagnosis *scratch, struct alone *out)
{
	scratch->missing_count = 0;
	examine(v, in, &in->suspect[i], scratch);
	for (int c = 0; c < CAUSE_COUNT; c++)
		out->ns[c] = v->share[c].lead ? v->share[c].ns : 0;
	out->most = cause_alone(v);
	out->excess_ns = v->excess_ns;
	out->waits_ns = v->waits_ns;
	out->late_ns = v->late_ns;
	examine_done(v);
}

/* Whether most of the time in which rank a was slow is part of the time in which b was. */
static bool is_slow_with(const struct diagnosis_rank *a, const struct diagnosis_rank *b)
{
	double margin = thresholds.time.lasting_ns,
	       begin = fmax((double)a->begin_unix_ns, (double)b->begin_unix_ns - margin),
	       end = fmin((double)a->end_unix_ns, (double)b->end_unix_ns + margin);

	if (!a->end_unix_ns || !b->end_unix_ns)
		return true;
	return end >= begin &&
	       end - begin >= thresholds.part.half * (double)(a->end_unix_ns - a->begin_unix_ns);
}

/* How much of suspect i's waits suspect `by` explains. It explains none unless both are slow at the
 * same time. It explains no more than its own lateness exceeds what i lost besides waiting, and no
 * more than i waits longer than it does. */
static double explained_waits(const struct diagnosis_input *in, const struct alone *a, uint32_t i,
			      uint32_t by)
{
	double own_ns = a[i].excess_ns - a[i].waits_ns;

	return is_slow_with(&in->suspect[i], &in->suspect[by])
		   ? fmin(a[by].late_ns - own_ns, a[i].waits_ns - a[by].waits_ns)
		   : 0;
}

/* The ledger of one rank does not show whom it waits for on the CPU. If such waits are most of what
 * a suspect lost, and another suspect explains most of them, the first one only waited for the
 * other. */
static void find_waits(const struct diagnosis_input *in, struct alone *a,
		       struct diagnosis_wait *out)
{
	for (uint32_t i = 0; i < in->suspect_count; i++) {
		double most_ns = thresholds.part.most * a[i].waits_ns;

		out[i] = (struct diagnosis_wait){.ns = a[i].waits_ns};
		if (a[i].excess_ns - a[i].waits_ns >= thresholds.part.half * a[i].waits_ns)
			continue;
		for (uint32_t k = 0; k < in->suspect_count; k++) {
			double ns = explained_waits(in, a, i, k);

			if (k == i || ns < most_ns || !(ns > 0))
				continue;
			most_ns = ns;
			out[i].whom = k;
			a[i].waits = true;
		}
	}
}

/* Whether the cause explains at least half of what the suspect's own verdict explains. */
static bool is_covered(const struct alone *a, enum finding_cause cause)
{
	if (cause == a->most || a->most == CAUSE_UNKNOWN)
		return cause == a->most;
	return a->ns[cause] > 0 && a->ns[cause] >= thresholds.part.half * a->ns[a->most];
}

/* The number of suspects that show the cause when each is examined alone. */
static uint32_t agreement(const struct diagnosis_input *in, enum finding_cause cause)
{
	struct diagnosis_view *v = malloc(sizeof(*v));
	struct diagnosis *scratch = malloc(sizeof(*scratch));
	struct alone a;
	uint32_t n = 1;

	for (uint32_t i = 1; v && scratch && i < in->suspect_count; i++) {
		examine_alone(in, i, v, scratch, &a);
		n += is_covered(&a, cause);
	}
	free(v);
	free(scratch);
	return n;
}

/* The cause if nothing explains enough. */
static enum finding_cause fallback(const struct diagnosis_view *v)
{
	if (is_given(v->in->known))
		return v->in->known;
	if (v->settings_differ && v->in->kind != FINDING_UNIFORM)
		return CAUSE_SW_ENVIRONMENT;
	return v->in->kind == FINDING_UNIFORM ? CAUSE_SW_SLOWER : CAUSE_UNKNOWN;
}

/* Detection knows that a rank is missing, that its kernel does not end, or that ranks wait for each
 * other. Whether the ledger of the open interval shows the reason for that. */
static bool explains_hang(const struct diagnosis_view *v, const struct diagnosis_share *s)
{
	enum finding_cause known = v->in->known, cause = s->lead->cause;

	if (!v->out->by_ledger || s->ns < thresholds.part.half * v->excess_ns)
		return false;
	if (known == CAUSE_HANG_TRANSFER)
		return finding_cause_layer(cause) == LAYER_NETWORK;
	return cause != CAUSE_CPU_HOST_GAP &&
	       (known == CAUSE_HANG_MISSING || known == CAUSE_HANG_KERNEL);
}

/* The first candidate of the cause; it may explain no time. */
static const struct diagnosis_candidate *hint(const struct diagnosis_view *v,
					      enum finding_cause cause)
{
	for (uint32_t i = 0; i < v->count; i++)
		if (v->list[i].cause == cause)
			return &v->list[i];
	return NULL;
}

static void conclude(struct diagnosis_view *v, struct diagnosis *out)
{
	const struct diagnosis_share *s = choose_cause(v);
	const struct diagnosis_candidate *lead = NULL;

	if (is_within_noise(v) && !is_given(v->in->known))
		diagnosis_missing(out,
				  "a clear difference: in these steps %s differs from its "
				  "peers by no more than they differ among themselves",
				  v->name.text);
	if (s && (!is_given(v->in->known) || explains_hang(v, s))) {
		lead = s->lead;
		out->cause = lead->cause;
		out->effect_ns = s->ns;
		out->confidence = confidence(v, s, agreement(v->in, out->cause));
		diagnosis_text_remedy(v, lead, out->remedy, sizeof(out->remedy));
	} else {
		out->cause = fallback(v);
		lead = out->cause == CAUSE_SW_ENVIRONMENT ? hint(v, out->cause) : NULL;
		out->effect_ns = v->excess_ns;
		out->confidence = is_given(out->cause)		? 0.8
				  : out->cause != CAUSE_UNKNOWN ? 0.3
								: 0;
		text_copy(out->remedy, sizeof(out->remedy), finding_cause_remedy(out->cause));
	}
	put_evidence(v, lead, out);
	put_ruled_out(v, finding_cause_layer(out->cause), out);
	summarise(v, lead, out);
}

static void name_missing(const struct diagnosis_input *in, struct diagnosis *out)
{
	struct rank_name name;
	bool any = false;

	if (in->kind == FINDING_REQUESTS)
		return;
	for (uint32_t i = 0; i < in->peer_count; i++)
		any |= in->peer[i].steps > 0;
	if (in->kind == FINDING_UNIFORM ? !in->before : !any && !in->before)
		diagnosis_missing(out, in->kind == FINDING_UNIFORM
					   ? "figures of earlier runs to compare with"
					   : "windows of healthy peers to compare with");
	if (in->kind == FINDING_HANG && !is_given(in->known))
		diagnosis_missing(
		    out, "which rank has not entered which collective: known once the others have "
			 "waited long enough");
	if (in->suspect_count && !in->suspect[0].steps)
		diagnosis_missing(out, "steps of %s", rank_name(in->suspect[0].rank, &name));
}

void diagnosis_make(const struct diagnosis_input *in, struct diagnosis *out)
{
	struct diagnosis_view *v;

	memset(out, 0, sizeof(*out));
	name_missing(in, out);
	/* Late requests accuse no rank, so no rank's steps are compared: the finding says all. */
	v = in->suspect_count && in->kind != FINDING_REQUESTS ? malloc(sizeof(*v)) : NULL;
	if (!v) {
		out->cause = is_given(in->known) ? in->known : CAUSE_UNKNOWN;
		out->confidence = is_given(in->known) ? 0.8 : 0;
		text_copy(out->summary, sizeof(out->summary), finding_cause_title(out->cause));
		text_copy(out->remedy, sizeof(out->remedy), finding_cause_remedy(out->cause));
		return;
	}
	examine(v, in, &in->suspect[0], out);
	conclude(v, out);
	examine_done(v);
	free(v);
}

/* The remaining cause that explains most of a suspect's excess. */
static enum finding_cause cause_left(const struct alone *a, const bool *left)
{
	enum finding_cause best = a->most;

	for (int c = 0; c < CAUSE_COUNT && !left[a->most]; c++)
		if (left[c] && (best == a->most || a->ns[c] > a->ns[best]))
			best = (enum finding_cause)c;
	return best;
}

/* For each suspect: the time that the best remaining cause explains, as a share of what the
 * suspect's own verdict explains. Returns the smallest of these shares. It is not a sum, because
 * all suspects wait for the slowest one, even if many have a second cause. */
static double explained_by(const struct alone *a, uint32_t count, const bool *left)
{
	double least = 1;

	for (uint32_t i = 0; i < count; i++) {
		enum finding_cause cause = cause_left(&a[i], left);

		if (a[i].waits)
			continue;
		if (!left[cause])
			return 0;
		if (cause != a[i].most)
			least = fmin(least, is_covered(&a[i], cause)
						? a[i].ns[cause] / a[i].ns[a[i].most]
						: 0);
	}
	return least;
}

/* Removes causes while the rest explains nearly as much as each suspect's own verdict. */
static void minimise_causes(const struct alone *a, uint32_t count, bool *left)
{
	double most;
	int least;

	do {
		most = 1 - thresholds.part.matters;
		least = CAUSE_COUNT;
		for (int c = 0; c < CAUSE_COUNT; c++) {
			double part;

			if (!left[c])
				continue;
			left[c] = false;
			part = explained_by(a, count, left);
			left[c] = true;
			if (part >= most) {
				most = part;
				least = c;
			}
		}
		if (least < CAUSE_COUNT)
			left[least] = false;
	} while (least < CAUSE_COUNT);
}

static uint32_t number_causes(const struct alone *a, uint32_t count, const bool *left,
			      uint32_t *group, uint32_t *shows)
{
	enum finding_cause causes[CAUSE_COUNT];
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		enum finding_cause cause = cause_left(&a[i], left);
		uint32_t k = 0;

		group[i] = DIAGNOSIS_WAITS;
		if (a[i].waits)
			continue;
		while (k < n && causes[k] != cause)
			k++;
		if (k == n) {
			causes[n++] = cause;
			shows[k] = i;
		}
		group[i] = k;
		if (a[i].most == cause &&
		    (a[shows[k]].most != cause || a[i].ns[cause] > a[shows[k]].ns[cause]))
			shows[k] = i;
	}
	return n;
}

uint32_t diagnosis_split(const struct diagnosis_input *in, uint32_t *group, uint32_t *shows,
			 struct diagnosis_wait *waits)
{
	struct diagnosis_view *v = malloc(sizeof(*v));
	struct diagnosis *scratch = malloc(sizeof(*scratch));
	struct alone *a = calloc((size_t)in->suspect_count + 1, sizeof(*a));
	bool left[CAUSE_COUNT] = {false};
	uint32_t n = 1;

	memset(group, 0, in->suspect_count * sizeof(*group));
	*shows = 0;
	if (v && scratch && a) {
		for (uint32_t i = 0; i < in->suspect_count; i++)
			examine_alone(in, i, v, scratch, &a[i]);
		find_waits(in, a, waits);
		for (uint32_t i = 0; i < in->suspect_count; i++)
			left[a[i].most] |= !a[i].waits;
		minimise_causes(a, in->suspect_count, left);
		n = number_causes(a, in->suspect_count, left, group, shows);
	}
	free(v);
	free(scratch);
	free(a);
	return n;
}
