/* SPDX-License-Identifier: Apache-2.0
 * A cause is an account, or what explains it. Every excess of the ledger goes to one row of
 * accounts.def. What else is known (signals, profiles, kernels) has put candidates forward, each with
 * a time per step of its own: they explain the accounts that they can have lengthened, no more than
 * their own time (events that are only counted: all of it) and no more than the excess. What none of
 * them explains is the account's own. So the times of all causes add up to the excess, and a signal
 * without an account is no cause. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/diagnosis_private.h"
#include "base/check.h"

#define BIT(c) (1ull << CAUSE_##c)
_Static_assert(CAUSE_COUNT <= 64, "causes are bits of a word");

/* A candidate that explains less of an account than this is no explanation of it. */
#define EXPLAIN_MIN 0.1
/* Of the excess: where nobody saw more of what the host did, a ledger says no more than its medians do. */
#define UNSEEN_MAX 0.5
/* Python where so much of the time on the CPU is in Python's functions. */
#define PYTHON_SHARE 0.5
/* One function is named as the cause where it has so much of all functions' excess. */
#define NAMED_SHARE 0.5

static const struct pattern {
	enum ledger_kind kind;
	enum ledger_what first, last;
	enum finding_cause cause;
	uint64_t explained_by;
	const char *because[2], *joint; /* because: of one rank, of many */
} patterns[] = {
#define ACCOUNT(kind, first, last, cause, by, one, many, joint)                                    \
	{LEDGER_##kind, LEDGER_##first, LEDGER_##last, CAUSE_##cause, by, {one, many}, joint},
#include "analysis/accounts.def"
#undef ACCOUNT
};
#define PATTERNS ARRAY_LEN(patterns)

/* One pattern's accounts. */
struct sum {
	double excess_ns, slow_ns, reference_ns, python_ns;
	double slow_count, reference_count;
	const struct ledger_row *most; /* of most excess; NULL: none grew */
};

struct share {
	double ns, sure_ns; /* sure_ns: each part by how directly it was seen */
	struct diagnosis_candidate *by; /* NULL: an account is its own cause */
	double by_ns;
	const struct pattern *pattern; /* of the account that has most of it */
	const struct sum *sum;
	double account_ns;
};

static uint32_t pattern_of(const struct ledger_row *r)
{
	uint32_t k = 0;

	while (k + 1 < PATTERNS && (patterns[k].kind != r->kind || r->what < patterns[k].first ||
				    r->what > patterns[k].last))
		k++;
	return k;
}

/* Where everybody is slow, waiting in collectives counts as well. */
static bool is_own(enum finding_kind finding, enum ledger_kind kind)
{
	return ledger_is_own(kind) || finding == FINDING_UNIFORM;
}

static enum finding_cause cause_of(const struct diagnosis_view *v, const struct pattern *p,
				   const struct sum *s)
{
	/* the GPU works, and comes to no end */
	if (p->kind == LEDGER_COMPUTE && v->in->kind == FINDING_HANG)
		return CAUSE_HANG_KERNEL;
	if (p->cause != CAUSE_CPU_FUNCTION)
		return p->cause;
	if (v->in->kind == FINDING_UNIFORM)
		return CAUSE_SW_HOT_PATH;
	return s->python_ns >= PYTHON_SHARE * s->slow_ns ? CAUSE_CPU_PYTHON : CAUSE_CPU_FUNCTION;
}

/* Functions of the rank's own code are one account together: what one of them calls more another one
 * may call less. */
static uint32_t group_of(uint32_t pattern)
{
	for (uint32_t k = 0; patterns[pattern].cause == CAUSE_CPU_FUNCTION && k < PATTERNS; k++)
		if (patterns[k].cause == CAUSE_CPU_FUNCTION && patterns[k].kind == LEDGER_RUNNING)
			return k;
	return pattern;
}

static void sum_up(const struct ledger_row *rows, uint32_t count, struct sum *sums)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct ledger_row *r = &rows[i];
		struct sum *s = &sums[group_of(pattern_of(r))];

		s->excess_ns += r->excess_ns;
		s->slow_ns += r->slow_ns;
		s->reference_ns += r->reference_ns;
		s->slow_count += r->slow_count;
		s->reference_count += r->reference_count;
		s->python_ns += r->what == LEDGER_PYTHON ? r->slow_ns : 0;
		if (r->excess_ns > 0 && (!s->most || r->excess_ns > s->most->excess_ns))
			s->most = r;
	}
}

/* No more than its own time; what is only counted has none, and explains the account as a whole. */
static double explained(const struct diagnosis_candidate *c, double left, double spent)
{
	return c->is_counted ? left : fmin(c->effect_ns - spent, left);
}

/* The candidate that explains most of what is left of the account; NULL: none explains enough. */
static struct diagnosis_candidate *explanation(struct diagnosis_view *v, const struct pattern *p,
					       double left, double excess, const double *spent)
{
	struct diagnosis_candidate *best = NULL;
	double most = 0;

	for (uint32_t i = 0; i < v->count; i++) {
		struct diagnosis_candidate *c = &v->list[i];
		double ns = explained(c, left, spent[i]);

		if (!(p->explained_by >> c->cause & 1) || ns < EXPLAIN_MIN * excess || !(ns > 0))
			continue;
		if (!best || ns * diagnosis_weight(c) > most) {
			most = ns * diagnosis_weight(c);
			best = c;
		}
	}
	return best;
}

static void give(struct share *s, double ns, struct diagnosis_candidate *by, const struct pattern *p,
		 const struct sum *sum)
{
	s->ns += ns;
	s->sure_ns += ns * (by ? by->sure : p->kind == LEDGER_UNOBSERVED ? 0 : 1);
	if (by && ns > s->by_ns) {
		s->by = by;
		s->by_ns = ns;
	}
	if (ns > s->account_ns) {
		s->account_ns = ns;
		s->pattern = p;
		s->sum = sum;
	}
}

/* How often the thread asked for a CPU: it waits for one after each sleep, and the longer it runs the
 * more often it is preempted. */
static double demand(enum ledger_what waits, const struct pattern *of, double ns, double count)
{
	bool sleeps = of->kind == LEDGER_BLOCKED,
	     runs = of->kind == LEDGER_RUNNING || of->kind == LEDGER_KERNEL_CODE;

	return waits == LEDGER_WOKEN ? (sleeps ? count : 0) : runs ? ns : 0;
}

/* The part of longer waits for a CPU that comes from asking more often is a matter of what asks. ns: of
 * it; the pattern that asks for most more, PATTERNS where it does not ask more often. */
static uint32_t asked_by(const struct sum *sums, uint32_t waits, double *ns)
{
	enum ledger_what what = patterns[waits].first;
	double before = 0, now = 0, most = 0;
	uint32_t who = PATTERNS;

	for (uint32_t k = 0; k < PATTERNS; k++) {
		const struct sum *s = &sums[k];
		double its = demand(what, &patterns[k], s->slow_ns, s->slow_count),
		       was = demand(what, &patterns[k], s->reference_ns, s->reference_count);

		before += was;
		now += its;
		if (its - was > most) {
			most = its - was;
			who = k;
		}
	}
	*ns = before > 0 ? fmin(sums[waits].reference_ns * (now / before - 1),
				sums[waits].excess_ns)
			 : 0;
	return *ns > 0 ? who : PATTERNS;
}

static void move_waits(struct sum *sums)
{
	for (uint32_t k = 0; k < PATTERNS; k++) {
		double ns = 0;
		uint32_t who = patterns[k].kind == LEDGER_RUNNABLE ? asked_by(sums, k, &ns) : PATTERNS;

		if (who == PATTERNS || !(sums[who].excess_ns > 0))
			continue;
		sums[k].excess_ns -= ns;
		sums[who].excess_ns += ns;
	}
}

static void divide(struct diagnosis_view *v, struct sum *sums, struct share *shares)
{
	double spent[DIAGNOSIS_CANDIDATES_MAX] = {0};

	move_waits(sums);
	for (uint32_t k = 0; k < PATTERNS; k++) {
		const struct pattern *p = &patterns[k];
		double left = sums[k].excess_ns;
		struct diagnosis_candidate *c;

		if (!is_own(v->in->kind, p->kind))
			continue;
		while (left > 0 && (c = explanation(v, p, left, sums[k].excess_ns, spent))) {
			double ns = explained(c, left, spent[c - v->list]);

			spent[c - v->list] += ns;
			left -= ns;
			give(&shares[c->cause], ns, c, p, &sums[k]);
		}
		give(&shares[cause_of(v, p, &sums[k])], left, NULL, p, &sums[k]);
	}
}

/* ---- the text ---- */

static void account_text(const struct diagnosis_view *v, const struct ledger_row *r, char *out,
			 size_t bytes)
{
	const char *what = ledger_what_text(r->what);
	struct diagnosis_number slow, usual;
	size_t used = (size_t)snprintf(out, bytes, "%s%s%s%s%s%.110s: ", ledger_kind_name(r->kind),
				       *what ? " (" : "", what, *what ? ")" : "", *r->name ? " " : "",
				       r->name);

	if (v->in->kind == FINDING_HANG)
		snprintf(out + used, bytes - used, "%s since its last step, %s in a step before",
			 diagnosis_text_ms(r->slow_ns, &slow),
			 diagnosis_text_ms(r->reference_ns, &usual));
	else
		snprintf(out + used, bytes - used, "%s per step, %s %s",
			 diagnosis_text_ms(r->slow_ns, &slow),
			 diagnosis_text_ms(r->reference_ns, &usual),
			 v->past ? "when healthy" : "on the peers");
}

static void function_text(struct diagnosis_view *v, const struct share *s,
			  struct diagnosis_candidate *c)
{
	const struct ledger_row *r = s->sum->most;
	struct diagnosis_candidate *hot = NULL;
	struct diagnosis_number ms;

	if (v->in->kind == FINDING_HANG) {
		diagnosis_text_copy(c->subject, sizeof(c->subject), r ? r->name : "");
		snprintf(c->because, sizeof(c->because), "%s code runs on in %.120s", v->its,
			 r && *r->name ? r->name : "a function without a name");
		return;
	}
	if (r && r->excess_ns >= NAMED_SHARE * s->sum->excess_ns) {
		diagnosis_text_copy(c->subject, sizeof(c->subject), r->name);
		snprintf(c->because, sizeof(c->because), "%.120s takes %s per step longer %s",
			 *r->name ? r->name : "code without a name", diagnosis_text_ms(r->excess_ns, &ms),
			 v->past ? "than in healthy steps" : v->than);
		return;
	}
	/* many functions below one: the profile knows which */
	for (uint32_t i = 0; i < v->count && !hot; i++)
		if (v->list[i].by_profile)
			hot = &v->list[i];
	diagnosis_text_copy(c->subject, sizeof(c->subject), hot ? hot->subject : r ? r->name : "");
	snprintf(c->because, sizeof(c->because), "%s code runs for %s per step longer %s%s%.120s", v->its,
		 diagnosis_text_ms(s->sum->excess_ns, &ms),
		 v->past ? "than in healthy steps" : v->than, *c->subject ? ", mostly in " : "",
		 c->subject);
}

static void tell(struct diagnosis_view *v, const struct share *s, struct diagnosis_candidate *c)
{
	const struct ledger_row *r = s->sum->most;
	const struct pattern *p = s->pattern;
	const char *name = r ? r->name : "";

	if (r)
		account_text(v, r, c->text, sizeof(c->text));
	if (p->cause == CAUSE_CPU_FUNCTION) {
		function_text(v, s, c);
		return;
	}
	diagnosis_text_copy(c->subject, sizeof(c->subject), name);
	if (p->kind == LEDGER_COMPUTE) {
		snprintf(c->because, sizeof(c->because), "kernel %.120s does not end",
			 *name ? name : "(name not known)");
		return;
	}
	snprintf(c->because, sizeof(c->because), "%s%s%.130s", p->because[v->many],
		 *name ? p->joint : "", name);
}

/* Candidates of a cause that explain nothing stay as evidence, without a time. */
static void put(struct diagnosis_view *v, enum finding_cause cause, const struct share *s)
{
	struct diagnosis_candidate *c = s->by;

	if (!c || s->by_ns < 0.5 * s->ns) {
		c = diagnosis_add(v, cause, POOL_HOST, s->ns, 1);
		tell(v, s, c);
	}
	c->effect_ns = s->ns;
	c->sure = s->sure_ns / s->ns;
	c->is_share = true;
}

static void set_pools(struct diagnosis_view *v, const struct sum *sums)
{
	double *pool = v->pool_ns;

	for (int k = 0; k < POOL_COUNT; k++)
		pool[k] = 0;
	v->excess_ns = 0;
	for (uint32_t k = 0; k < PATTERNS; k++) {
		double ns = sums[k].excess_ns;
		enum diagnosis_pool p = patterns[k].kind == LEDGER_COMPUTE    ? POOL_COMPUTE
					: patterns[k].kind == LEDGER_COPY     ? POOL_COPY
					: patterns[k].kind == LEDGER_COLLECTIVE ? POOL_COMM
										: POOL_HOST;

		/* how long others make it wait is no matter of the transfers */
		pool[p] += patterns[k].first == LEDGER_LAST_RANK ? 0 : ns;
		if (is_own(v->in->kind, patterns[k].kind) && ns > 0)
			v->excess_ns += ns;
	}
	for (int k = 0; k < POOL_COUNT; k++)
		pool[k] = fmax(pool[k], 0);
	v->pools_known = true;
}

static bool is_unseen(enum finding_kind kind, const struct sum *sums)
{
	double whole = 0, unseen = 0;

	for (uint32_t k = 0; k < PATTERNS; k++) {
		if (!is_own(kind, patterns[k].kind) || !(sums[k].excess_ns > 0))
			continue;
		whole += sums[k].excess_ns;
		unseen += patterns[k].kind == LEDGER_UNOBSERVED ? sums[k].excess_ns : 0;
	}
	return unseen > UNSEEN_MAX * whole || !(whole > 0);
}

/* NULL: the difference says too little, or there is no memory. */
static struct ledger_row *rows_of(enum finding_kind kind, const struct ledger *slow,
				  const struct ledger *usual, uint32_t *count, struct sum *sums)
{
	struct ledger_row *rows = NULL;

	*count = 0;
	if (slow->steps && (usual->steps || kind == FINDING_HANG))
		rows = calloc((size_t)slow->count + usual->count + 1, sizeof(*rows));
	if (!rows)
		return NULL;
	*count = ledger_subtract(slow, usual, rows);
	sum_up(rows, *count, sums);
	if (!is_unseen(kind, sums))
		return rows;
	free(rows);
	return NULL;
}

bool diagnosis_ledger_tells(enum finding_kind kind, const struct ledger *slow,
			    const struct ledger *usual)
{
	struct sum sums[PATTERNS] = {{0}};
	uint32_t n;
	struct ledger_row *rows = rows_of(kind, slow, usual, &n, sums);

	free(rows);
	return rows != NULL;
}

void diagnosis_ledger_begin(struct diagnosis_view *v)
{
	const struct diagnosis_rank *who = v->who;
	struct sum sums[PATTERNS] = {{0}};

	if (who->ledger && who->usual)
		v->row = rows_of(v->in->kind, who->ledger, who->usual, &v->row_count, sums);
	if (!v->row)
		return;
	v->past = who->usual_is_own;
	set_pools(v, sums);
}

void diagnosis_ledger_look(struct diagnosis_view *v)
{
	struct share shares[CAUSE_COUNT] = {{0}};
	struct sum sums[PATTERNS] = {{0}};
	int most = CAUSE_UNKNOWN;

	if (!v->row)
		return;
	sum_up(v->row, v->row_count, sums);
	divide(v, sums, shares);
	for (int c = 0; c < CAUSE_COUNT; c++) {
		most = shares[c].ns > shares[most].ns ? c : most;
		if (shares[c].ns > 0 && c != CAUSE_UNKNOWN)
			put(v, (enum finding_cause)c, &shares[c]);
	}
	if (v->who->stuck && *v->who->stuck)
		snprintf(diagnosis_add(v, (enum finding_cause)most, POOL_HOST, 0, 1)->text,
			 FINDING_TEXT_BYTES, "rank %d is in %.210s", v->who->rank, v->who->stuck);
}
