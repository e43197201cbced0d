/* SPDX-License-Identifier: Apache-2.0
 * Kernels are compared by their time per launch, name by name. The typical ratio over all names
 * distinguishes a slow GPU from a slow kernel. Each name counts once, because one kernel with half
 * of the time must not decide what is typical. Single kernels are charged with what exceeds the
 * typical ratio. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"
#include "analysis/robust/median.h"
#include "analysis/robust/regress.h"
#include "base/text/text.h"
#include "model/kernel_name.h"
#include "model/thresholds.h"

#define KERNELS_MAX 512u
#define NAME_SHOWN  90

/* ---- kernels against their base ---- */

struct pair {
	const char *name;
	double slow_count, slow_ns; /* 0: the slow steps do not have it */
	double count, total_ns;	    /* of the base; 0: it does not have it */
	const char *where;	    /* the base: "before" or "on the peers" */
	double extra_ns;	    /* beyond the typical ratio */
	/* count and total_ns: estimated, as the base's time for launches of this size */
	bool expected;
	bool paired;
	char family[128]; /* "": not yet known */
};

static const struct diagnosis_kernel *kernel_of(const struct diagnosis_rank *r, const char *name)
{
	for (uint32_t i = 0; i < r->kernel_count; i++)
		if (!strcmp(r->kernel[i].name, name))
			return &r->kernel[i];
	return NULL;
}

static bool has_kernels(const struct diagnosis_rank *r)
{
	return r->kernel_count;
}

/* A kernel of the base, with as much work as the job states for the slow steps. */
static void base_of(const struct diagnosis_view *v, const struct diagnosis_bases *b,
		    const char *name, double *count, double *total)
{
	double counts[DIAGNOSIS_BASES_MAX], totals[DIAGNOSIS_BASES_MAX];

	for (uint32_t i = 0; i < b->count; i++) {
		const struct diagnosis_kernel *k = kernel_of(b->rank[i], name);

		counts[i] = k ? k->count : 0;
		totals[i] = k ? k->total_ns * diagnosis_work_ratio(v, b->rank[i]) : 0;
	}
	*count = median_of(counts, b->count);
	*total = median_of(totals, b->count);
}

/* Pairs the compute kernels of both sides by name. Returns their number. */
static uint32_t pair_by_name(const struct diagnosis_view *v, const struct diagnosis_bases *b,
			     struct pair *p)
{
	const struct diagnosis_rank *first = b->rank[0];
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->who->kernel_count && n < KERNELS_MAX; i++) {
		const struct diagnosis_kernel *k = &v->who->kernel[i];

		if (k->collective || !(k->total_ns > 0) || !*k->name)
			continue;
		p[n] =
		    (struct pair){.name = k->name, .slow_count = k->count, .slow_ns = k->total_ns};
		base_of(v, b, k->name, &p[n].count, &p[n].total_ns);
		n++;
	}
	for (uint32_t i = 0; i < first->kernel_count && n < KERNELS_MAX; i++) {
		const struct diagnosis_kernel *k = &first->kernel[i];

		if (k->collective || !*k->name || kernel_of(v->who, k->name))
			continue;
		p[n] = (struct pair){.name = k->name};
		base_of(v, b, k->name, &p[n].count, &p[n].total_ns);
		n += p[n].total_ns > 0;
	}
	return n;
}

static bool is_same_kernel(const char *a, const char *b)
{
	size_t n = kernel_name_bytes(a);

	return n == kernel_name_bytes(b) && !strncmp(a, b, n);
}

/* Whether both are launch configurations of one kernel: "gemm<<<128,1,1, 256,1,1>>>". */
static bool is_configuration(const char *a, const char *b)
{
	return is_same_kernel(a, b) && a[kernel_name_bytes(a)] && b[kernel_name_bytes(b)];
}

/* Threads per launch; 0: not known. */
static double size_of(const char *name)
{
	const char *at = strstr(name, "<<<");
	double size = at ? 1 : 0;
	unsigned n[6];

	if (!at ||
	    sscanf(at, "<<<%u,%u,%u, %u,%u,%u>>>", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]) != 6)
		return 0;
	for (int i = 0; i < 6; i++)
		size *= n[i];
	return size;
}

#define SIZES_MAX 48u

/* Launches of one kernel in several sizes. The fit is t = a size^b, with the median slope (Sen
 * 1968) and the median residual, on logarithms. */
struct by_size {
	double size[SIZES_MAX], ns[SIZES_MAX]; /* logarithms */
	uint32_t count;
};

static double time_for(const struct by_size *s, double size)
{
	double slopes[SIZES_MAX * SIZES_MAX], rest[SIZES_MAX], b, least = s->size[0], most = least;

	for (uint32_t i = 0; i < s->count; i++) {
		least = fmin(least, s->size[i]);
		most = fmax(most, s->size[i]);
	}
	if (!(most > least) || log(size) < least - log(thresholds.same.factor) ||
	    log(size) > most + log(thresholds.same.factor))
		return 0;
	b = regress_median_slope(s->size, s->ns, s->count, s->count, 0, slopes,
				 SIZES_MAX * SIZES_MAX);
	for (uint32_t i = 0; i < s->count; i++)
		rest[i] = s->ns[i] - b * s->size[i];
	return exp(median_of(rest, s->count) + b * log(size));
}

/* For a size that only the slow steps launched, estimates its time at the base's speed. */
static void expect_sizes(struct pair *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		double size = p[i].slow_count > 0 && !(p[i].count > 0) ? size_of(p[i].name) : 0, ns;
		struct by_size s = {.count = 0};

		for (uint32_t k = 0; size > 0 && k < n && s.count < SIZES_MAX; k++) {
			double other = p[k].expected || !(p[k].count > 0) || !(p[k].total_ns > 0) ||
					       !is_configuration(p[i].name, p[k].name)
					   ? 0
					   : size_of(p[k].name);

			if (!(other > 0))
				continue;
			s.size[s.count] = log(other);
			s.ns[s.count++] = log(p[k].total_ns / p[k].count);
		}
		ns = s.count >= thresholds.count.few ? time_for(&s, size) : 0;
		if (!(ns > 0))
			continue;
		p[i].expected = true;
		p[i].count = p[i].slow_count;
		p[i].total_ns = ns * p[i].slow_count;
	}
}

/* Pairs by ledger row: one pair per kernel and launch configuration. Rows are ordered by excess, so
 * kernels that only the reference has come last. Rows are taken from both ends in turn, so that
 * each side gets half of the room. */
static uint32_t pair_by_row(const struct diagnosis_view *v, struct pair *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->kernel_row_count && n < KERNELS_MAX; i++) {
		const struct ledger_row *r =
		    &v->kernel_row[i % 2 ? v->kernel_row_count - 1 - i / 2 : i / 2];

		if (strstr(r->name, LEDGER_OTHER_LAUNCHES) ||
		    !(r->slow_count > 0 || r->reference_count > 0))
			continue;
		p[n++] = (struct pair){
		    .name = r->name,
		    .slow_count = r->slow_count,
		    .slow_ns = r->slow_count > 0 ? r->slow_busy_ns : 0,
		    .count = r->reference_count,
		    .total_ns = r->reference_count > 0 ? r->reference_busy_ns : 0,
		};
	}
	expect_sizes(p, n);
	return n;
}

/* Whether the kernel runs on both sides in other configurations because of other work. More threads
 * in all, or a fitted time per size, means more work. Otherwise it is another variant. */
static bool is_other_work(const struct pair *of, const struct pair *p, uint32_t n)
{
	double mine = 0, others = 0;
	bool other = false, expected = false;

	for (uint32_t i = 0; i < n; i++) {
		double size;

		if (!is_configuration(of->name, p[i].name))
			continue;
		size = size_of(p[i].name);
		expected |= p[i].expected;
		other |= &p[i] != of && (of->slow_ns > 0 ? p[i].total_ns > 0 : p[i].slow_ns > 0);
		mine += size * p[i].slow_count;
		others += p[i].expected ? 0 : size * p[i].count;
	}
	return other && (expected || mine > others * (1 + thresholds.same.work));
}

static double ratio_of(const struct pair *p)
{
	return p->slow_ns / p->slow_count / (p->total_ns / p->count);
}

static bool in_both(const struct pair *p)
{
	return p->slow_ns > 0 && p->total_ns > 0 && p->count > 0 && p->slow_count > 0;
}

static bool is_fresh(const struct pair *p)
{
	return p->slow_ns > 0 && !(p->total_ns > 0);
}

/* Whether most of the base's launches are missing. Not all need be: some slow steps are slow for
 * another reason. */
static bool is_gone(const struct pair *p)
{
	return p->total_ns > 0 && p->slow_count <= thresholds.part.half * p->count;
}

/* Keeps the kernels of both sides, with one pair for all launch configurations of a kernel. Its
 * base time is what the base would have needed for the same launches, so that another mix of sizes
 * does not look like another speed. */
static uint32_t merge_configurations(struct pair *p, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct pair *to = p;

		if (!in_both(&p[i]))
			continue;
		p[i].total_ns *= p[i].slow_count / p[i].count;
		p[i].count = p[i].slow_count;
		while (to < p + kept && !is_configuration(to->name, p[i].name))
			to++;
		if (to == p + kept) {
			p[kept++] = p[i];
			continue;
		}
		to->slow_count += p[i].slow_count;
		to->slow_ns += p[i].slow_ns;
		to->count += p[i].count;
		to->total_ns += p[i].total_ns;
	}
	return kept;
}

/* A kernel that the ledger's reference has not at all may run on the peers, or in other steps. */
static void find_base_by_name(const struct diagnosis_view *v, const struct diagnosis_bases *b,
			      struct pair *p, uint32_t n)
{
	char name[LEDGER_NAME_BYTES];

	for (uint32_t i = 0; i < n && b->count; i++) {
		uint32_t k = 0;

		if (!is_fresh(&p[i]))
			continue;
		while (k < n && !(p[k].total_ns > 0 && is_same_kernel(p[k].name, p[i].name)))
			k++;
		if (k < n)
			continue;
		text_copy(name, sizeof(name), p[i].name);
		name[kernel_name_bytes(name)] = '\0';
		base_of(v, b, name, &p[i].count, &p[i].total_ns);
		p[i].where = b->where;
	}
}

/* Whether the kernel's share of the compute time matters. */
static bool matters(const struct pair *p, double whole)
{
	return in_both(p) && p->total_ns >= thresholds.excess.least * whole;
}

/* The typical ratio of the kernels that matter. With fewer than three names it is the smallest
 * ratio, so that one slow kernel does not look like a slow GPU. 0: none. */
static double typical(const struct diagnosis_view *v, const struct pair *p, uint32_t n,
		      double whole, double *spread)
{
	double ratios[KERNELS_MAX], least = 1e300, r;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		if (matters(&p[i], whole)) {
			ratios[count++] = ratio_of(&p[i]);
			if (ratios[count - 1] < least)
				least = ratios[count - 1];
		}
	if (!count)
		return 0;
	r = count < thresholds.count.few ? least : median_of(ratios, count);
	*spread = 0;
	for (uint32_t i = 0; i < count; i++)
		if (fabs(ratios[i] - r) > *spread)
			*spread = fabs(ratios[i] - r);
	return r;
}

/* ---- candidates ---- */

static bool has_word(const struct os_signal *s, const char *word)
{
	return strstr(s->name, word) || strstr(s->subject, word);
}

/* Compares the clock with the peers', because a clock that was always low is not below its usual
 * value. */
static bool is_low(const struct diagnosis_view *v, const struct os_signal *s)
{
	const struct os_signal_info *clock = os_signal_info(OS_SIGNAL_GPU_SM_CLOCK);
	double list[64];
	uint32_t n = 0;

	if (strcmp(s->name, clock->name) || v->in->kind == FINDING_UNIFORM)
		return false;
	for (uint32_t i = 0; i < v->in->peer_count && n < 64; i++)
		for (uint32_t k = 0; k < v->in->peer[i].signal_count && n < 64; k++)
			if (!strcmp(v->in->peer[i].signal[k].name, clock->name))
				list[n++] = v->in->peer[i].signal[k].value;
	return n && s->value < median_of(list, n) * (1 - clock->raised);
}

/* The raised telemetry signal that explains a slow GPU best. *known: there is telemetry. */
static const struct os_signal *telemetry(const struct diagnosis_view *v, enum finding_cause *cause,
					 bool *known)
{
	static const struct {
		const char *word;
		enum finding_cause cause;
	} words[] = {
	    {"gpu_ecc", CAUSE_GPU_ECC},	      {"thermal", CAUSE_GPU_THERMAL},
	    {"heat", CAUSE_GPU_THERMAL},      {"power cap", CAUSE_GPU_POWER},
	    {"power brake", CAUSE_GPU_POWER}, {"gpu_power", CAUSE_GPU_POWER},
	    {"clock", CAUSE_GPU_CLOCKS},      {"gpu_throttle", CAUSE_GPU_CLOCKS},
	};

	*known = false;
	for (uint32_t i = 0; i < v->who->signal_count; i++)
		*known |= !strncmp(v->who->signal[i].name, "gpu_", 4);
	for (size_t w = 0; w < sizeof(words) / sizeof(*words); w++)
		for (uint32_t i = 0; i < v->who->signal_count; i++) {
			const struct os_signal *s = &v->who->signal[i];

			if (strncmp(s->name, "gpu_", 4) ||
			    !(s->flags & OS_SIGNAL_RAISED || is_low(v, s)) ||
			    !has_word(s, words[w].word))
				continue;
			*cause = words[w].cause;
			return s;
		}
	return NULL;
}

/* Slower kernels only suggest a slow GPU if nothing shows its clocks. Without kernel names, one kernel may
 * be slow or all. */
static void slow_gpu(struct diagnosis_view *v, double effect, bool named, const char *how)
{
	enum finding_cause cause = CAUSE_GPU_SLOW;
	bool known;
	const struct os_signal *s = telemetry(v, &cause, &known);
	struct diagnosis_candidate *c = diagnosis_add(v, cause, effect);
	char text[200];

	if (!s && !(known && named))
		c->proof = named ? DIAGNOSIS_LIKELY : DIAGNOSIS_GUESS;
	if (s) {
		os_signal_text(s, text, sizeof(text));
		text_copy(c->subject, sizeof(c->subject), text);
		snprintf(c->text, sizeof(c->text), "%s; %s", how, text);
		snprintf(c->because, sizeof(c->because), "%s (%s)", finding_cause_title(cause),
			 text);
	} else {
		snprintf(c->text, sizeof(c->text), "%s", how);
		snprintf(c->because, sizeof(c->because), "%s", how);
		if (!known)
			diagnosis_missing(v->out,
					  "GPU telemetry of %s: clocks, power, temperature and ECC "
					  "errors",
					  v->name.text);
	}
}

static void uniform(struct diagnosis_view *v, const struct pair *p, uint32_t n, double whole)
{
	double r = v->kernel_ratio, effect = 0;
	uint32_t names = 0, slower = 0;
	char how[160];

	if (r <= 1 + thresholds.same.work)
		return;
	for (uint32_t i = 0; i < n; i++) {
		double own;

		if (!matters(&p[i], whole))
			continue;
		own = ratio_of(&p[i]);
		names++;
		slower += own > 1 + (r - 1) * thresholds.part.half;
		if (own > 1)
			effect += p[i].total_ns / p[i].count * p[i].slow_count *
				  ((own < r ? own : r) - 1);
	}
	if (names < 2)
		return;
	snprintf(how, sizeof(how), "%u of %u compute kernels take %.2f times as long as %s", slower,
		 names, r, v->kernels_where);
	slow_gpu(v, effect, true, how);
}

static void one_kernel(struct diagnosis_view *v, struct pair *p, uint32_t n, double whole)
{
	double r = v->kernel_ratio > 1 + thresholds.same.work ? v->kernel_ratio : 1, all = 0;

	for (uint32_t i = 0; i < n; i++) {
		p[i].extra_ns =
		    in_both(&p[i]) ? p[i].slow_ns - p[i].total_ns / p[i].count * p[i].slow_count * r
				   : 0;
		if (in_both(&p[i]) && ratio_of(&p[i]) > r + thresholds.same.work &&
		    p[i].extra_ns > 0)
			all += p[i].extra_ns;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct diagnosis_candidate *c;

		if (p[i].extra_ns < thresholds.part.matters * all || !(p[i].extra_ns > 0) ||
		    p[i].extra_ns < thresholds.excess.least * whole ||
		    ratio_of(&p[i]) <= r + thresholds.same.work)
			continue;
		c = diagnosis_add(
		    v, v->in->kind == FINDING_UNIFORM ? CAUSE_SW_KERNELS : CAUSE_GPU_KERNEL,
		    p[i].extra_ns);
		kernel_name_short(p[i].name, c->subject, sizeof(c->subject));
		snprintf(c->text, sizeof(c->text), "kernel %.*s takes %.2f times as long as %s",
			 NAME_SHOWN, c->subject, ratio_of(&p[i]), p[i].where);
		text_copy(c->because, sizeof(c->because), c->text);
	}
}

/* Whether plain names agree up to their first number ("ampere_sgemm_"). */
static bool is_family(const char *a, const char *b)
{
	size_t n = strcspn(a, "#");

	return n >= thresholds.count.some && a[n] && n == strcspn(b, "#") && b[n] &&
	       !strncmp(a, b, n);
}

static const char *family_of(struct pair *p)
{
	return *p->family ? p->family : kernel_name_family(p->name, p->family, sizeof(p->family));
}

/* How many of the base's launches the slow steps lack. */
static double lacking(const struct pair *p)
{
	return p->total_ns > 0 ? p->count - p->slow_count : 0;
}

/* Whether the slow steps lack at least half as many launches of p as they have of `other`. */
static bool is_lacking(const struct pair *p, const struct pair *other)
{
	return lacking(p) > 0 && lacking(p) >= thresholds.part.half * other->slow_count;
}

/* The kernel that `fresh` replaces, in all slow steps or in some. It has the same base name; or it
 * has the same family, and the slow steps lack about as many of its launches as they have of
 * `fresh`. Of several, the one with most time. */
static struct pair *partner(struct pair *fresh, struct pair *p, uint32_t n)
{
	const char *mine = family_of(fresh);
	struct pair *best = NULL;
	bool best_exact = false;

	for (uint32_t i = 0; i < n; i++) {
		double differ;
		bool exact;

		if (p[i].paired || is_other_work(&p[i], p, n) ||
		    !(is_gone(&p[i]) || is_lacking(&p[i], fresh)))
			continue;
		exact = !strcmp(mine, family_of(&p[i]));
		differ = fabs(fresh->slow_count - lacking(&p[i]));
		if (!exact && !(is_family(mine, p[i].family) &&
				differ <= thresholds.part.little * p[i].count))
			continue;
		if (!best || exact > best_exact ||
		    (exact == best_exact && p[i].total_ns > best->total_ns)) {
			best = &p[i];
			best_exact = exact;
		}
	}
	return best;
}

/* How many leading bytes to leave out of both names: all but 12 of a long common prefix, because
 * the ends of the names say more. */
static size_t common_bytes(const char *name, const char *other)
{
	size_t same = 0;

	while (name[same] && name[same] == other[same])
		same++;
	return same > 24 ? same - 12 : 0;
}

static void variant(struct diagnosis_view *v, const struct pair *fresh, const struct pair *gone)
{
	struct diagnosis_candidate *c =
	    diagnosis_add(v, v->in->kind == FINDING_UNIFORM ? CAUSE_SW_KERNELS : CAUSE_GPU_VARIANT,
			  fresh->slow_ns + gone->slow_ns - gone->total_ns);
	/* kernels of the same name differ in their launch configurations */
	const char *(*text)(const char *name, char *out, size_t bytes) =
	    is_configuration(fresh->name, gone->name) ? kernel_name_text : kernel_name_short;
	char a[512], b[512];
	size_t same;

	text(fresh->name, a, sizeof(a));
	text(gone->name, b, sizeof(b));
	same = common_bytes(a, b);
	text_copy(c->subject, sizeof(c->subject), a);
	snprintf(c->text, sizeof(c->text), "kernel %.*s runs in place of %s%.*s (%s)", NAME_SHOWN,
		 a, same ? "..." : "", NAME_SHOWN, b + same, v->kernels_where);
	text_copy(c->because, sizeof(c->because), c->text);
}

/* Compares kernels that only one side has. Variants of the same kernel are paired first; those left
 * are a different set of kernels. */
static void other_names(struct diagnosis_view *v, struct pair *p, uint32_t n)
{
	double fresh_ns = 0, gone_ns = 0;
	const struct pair *most = NULL;
	struct diagnosis_candidate *c;

	for (uint32_t i = 0; i < n; i++) {
		struct pair *other;

		if (!is_fresh(&p[i]) || is_other_work(&p[i], p, n))
			continue;
		other = partner(&p[i], p, n);
		if (other) {
			other->paired = true;
			if (p[i].slow_ns + other->slow_ns > other->total_ns)
				variant(v, &p[i], other);
			continue;
		}
		fresh_ns += p[i].slow_ns;
		if (!most || p[i].slow_ns > most->slow_ns)
			most = &p[i];
	}
	for (uint32_t i = 0; i < n; i++)
		if (is_gone(&p[i]) && !p[i].paired && !is_other_work(&p[i], p, n))
			gone_ns += p[i].total_ns - p[i].slow_ns;
	if (!most || fresh_ns <= gone_ns)
		return;
	c = diagnosis_add(v,
			  v->in->kind == FINDING_UNIFORM ? CAUSE_SW_KERNELS : CAUSE_SW_ENVIRONMENT,
			  fresh_ns - gone_ns);
	kernel_name_short(most->name, c->subject, sizeof(c->subject));
	snprintf(c->text, sizeof(c->text), "kernels that did not run %s take time, mostly %.*s",
		 v->kernels_where, NAME_SHOWN, c->subject);
	snprintf(c->because, sizeof(c->because), "%s", c->text);
}

/* The extra time in launch configurations that the other side does not have. */
static double other_work(const struct pair *p, uint32_t n)
{
	double ns = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (p[i].expected)
			ns += p[i].total_ns; /* at the base's speed */
		if (in_both(&p[i]) || !is_other_work(&p[i], p, n))
			continue;
		ns += p[i].slow_ns > 0 ? p[i].slow_ns : -p[i].total_ns;
	}
	return ns;
}

/* How much the mean work of slow and of reference steps differs by chance, because the work differs
 * from step to step; 0: not known. */
static double work_by_chance(const struct diagnosis_view *v)
{
	return v->out->by_ledger
		   ? thresholds.sure.errors * hypot(ledger_compute_error(v->who->ledger),
						    ledger_compute_error(v->who->usual))
		   : 0;
}

/* More or larger launches of the same kernels are more work, not slowness. */
static void more_launches(struct diagnosis_view *v, const struct pair *p, uint32_t n)
{
	double larger = other_work(p, n), extra = larger, mine = 0, base = 0;
	struct diagnosis_candidate *c;

	for (uint32_t i = 0; i < n; i++)
		if (in_both(&p[i]) && !p[i].paired) {
			mine += p[i].slow_count;
			base += p[i].count;
			extra += (p[i].slow_count - p[i].count) * p[i].total_ns / p[i].count;
		}
	if ((mine <= base && larger <= 0) || extra <= work_by_chance(v))
		return;
	c = diagnosis_add(
	    v, v->in->kind == FINDING_UNIFORM ? CAUSE_SW_KERNELS : CAUSE_IMBALANCE_INPUT, extra);
	if (larger > thresholds.part.half * extra) {
		snprintf(c->text, sizeof(c->text), "the same kernels are launched with more work");
		snprintf(c->because, sizeof(c->because), "%s", c->text);
		return;
	}
	snprintf(c->text, sizeof(c->text), "%.0f compute kernels per step, %.0f %s", mine, base,
		 v->kernels_where);
	snprintf(c->because, sizeof(c->because), "more of the same kernels are launched: %.200s",
		 c->text);
}

/* p: room for KERNELS_MAX. False: there are no kernels to compare. The ledger's rows come first: they
 * are of all slow steps, and their launch configurations show whether the work grew or became
 * slower. */
static bool compare_pairs(struct diagnosis_view *v, const struct diagnosis_bases *b, struct pair *p)
{
	uint32_t n = pair_by_row(v, p);
	double whole = 0;

	v->kernels_where = v->who->usual_is_own ? "before" : "on the peers";
	if (!n && b->count && v->who->kernel_count) {
		n = pair_by_name(v, b, p);
		v->kernels_where = b->where;
	}
	for (uint32_t i = 0; i < n; i++)
		p[i].where = v->kernels_where;
	find_base_by_name(v, b, p, n);
	for (uint32_t i = 0; i < n; i++)
		whole += p[i].total_ns;
	other_names(v, p, n);
	more_launches(v, p, n);
	n = merge_configurations(p, n);
	v->kernel_ratio = typical(v, p, n, whole, &v->kernel_spread);
	uniform(v, p, n, whole);
	one_kernel(v, p, n, whole);
	return n > 0;
}

static bool compare_kernels(struct diagnosis_view *v, const struct diagnosis_bases *b)
{
	struct pair *p = calloc(KERNELS_MAX, sizeof(*p));
	bool known = p && compare_pairs(v, b, p);

	free(p);
	return known;
}

/* Adds the PCIe signal that explains why copies take longer. */
static void pcie(const struct diagnosis_view *v, struct diagnosis_candidate *c)
{
	const struct os_signal *s = diagnosis_raised(v, "gpu_pcie", NULL);
	size_t used = strlen(c->text);
	char text[120];

	if (!s)
		return;
	os_signal_text(s, text, sizeof(text));
	snprintf(c->text + used, sizeof(c->text) - used, "; %s", text);
	snprintf(c->because, sizeof(c->because), "copies take longer: %s", text);
}

void diagnosis_gpu_look(struct diagnosis_view *v)
{
	double copy = v->mine[FIGURE_COPY] - v->base[FIGURE_COPY];
	struct diagnosis_number a, b;
	struct diagnosis_bases bases;
	char how[160], time[100];

	diagnosis_bases(v, has_kernels, &bases);
	if (!compare_kernels(v, &bases) && v->compute_ns > 0 &&
	    diagnosis_kind_text(v, &v->kind[LEDGER_COMPUTE], time, sizeof(time))) {
		snprintf(how, sizeof(how), "kernels take %s", time);
		slow_gpu(v, v->compute_ns, false, how);
		diagnosis_missing(v->out,
				  "kernel names of %s or its peers: without them one slow "
				  "kernel and a slow GPU look alike",
				  v->name.text);
	}
	if (v->mine[FIGURE_COPY] >= 0 && v->base[FIGURE_COPY] >= 0 && copy > 0) {
		struct diagnosis_candidate *c = diagnosis_add(v, CAUSE_GPU_COPY, copy);

		snprintf(c->text, sizeof(c->text), "copies take %s per step, %s %s",
			 diagnosis_text_ms(v->mine[FIGURE_COPY], &a),
			 diagnosis_text_ms(v->base[FIGURE_COPY], &b),
			 v->past ? "before" : "on the peers");
		snprintf(c->because, sizeof(c->because), "%s", c->text);
		pcie(v, c);
	}
}
