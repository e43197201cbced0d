/* SPDX-License-Identifier: Apache-2.0
 * Divides the excess among causes. Every excess of the ledger belongs to one row of accounts.def,
 * which has a default cause. Candidates from signals, profiles and kernels have a time of their
 * own. They explain the accounts that they can lengthen, up to that time and up to the excess;
 * events that are only counted have no time and explain a whole account. The rest of an account
 * goes to its default cause. So the times of all causes add up to the excess, and a signal that
 * lengthens no account is not a cause. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"
#include "base/check.h"
#include "base/text/text.h"
#include "model/thresholds.h"

#define BIT(c) (1ull << CAUSE_##c)
_Static_assert(CAUSE_COUNT <= 64, "causes are bits of a word");

/* Of unobserved time, each kind of missing evidence could have shown another cause, so each lowers
 * the certainty. It lowers it more if nothing observed shows a cause. */
#define WITHOUT_ONE	 0.95
#define WITHOUT_ONE_SEEN 0.4

static const struct pattern {
	enum ledger_kind kind;
	enum ledger_what first, last;
	enum finding_cause cause;
	uint64_t explained_by;
	const char *because[2], *joint; /* because: for one rank, for several */
} patterns[] = {
#define ACCOUNT(kind, first, last, cause, by, one, many, joint)                                    \
	{LEDGER_##kind, LEDGER_##first, LEDGER_##last, CAUSE_##cause, by, {one, many}, joint},
#include "analysis/cause/accounts.def"
#undef ACCOUNT
};
#define PATTERNS ARRAY_LEN(patterns)

/* The sum of one pattern's accounts. */
struct sum {
	double excess_ns, slow_ns, reference_ns;
	double user_ns, python_ns; /* of the slow steps: in user code; in Python's */
	double more_ns, more_user_ns,
	    more_python_ns; /* of the rows that grew: all; in user code; ... */
	double slow_count, reference_count;
	const struct ledger_row *most; /* the row with the largest excess; NULL: none grew */
};

struct share {
	double ns, seen_ns;		/* seen_ns: of observed accounts */
	double sure_ns;			/* parts weighted by how directly they were seen */
	struct diagnosis_candidate *by; /* NULL: the account's default cause */
	double by_ns;
	const struct pattern *pattern; /* of the account with the largest part */
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

/* Whether the account counts as loss. If every rank is slow, waiting in collectives counts too. */
static bool counts(enum finding_kind finding, enum ledger_kind kind)
{
	return ledger_is_own(kind) || finding == FINDING_UNIFORM;
}

/* Whether most of what grew is Python's. A system call has no language: it has that of all user code. */
static bool is_python(const struct sum *s)
{
	double calls_ns = s->more_ns - s->more_user_ns,
	       python_ns =
		   s->more_python_ns + (s->user_ns > 0 ? calls_ns * s->python_ns / s->user_ns : 0);

	return python_ns > 0 && python_ns >= thresholds.part.half * s->more_ns;
}

static enum finding_cause cause_of(const struct diagnosis_view *v, const struct pattern *p,
				   const struct sum *s)
{
	/* a kernel that does not end */
	if (p->kind == LEDGER_COMPUTE && v->in->kind == FINDING_HANG)
		return CAUSE_HANG_KERNEL;
	if (p->first == LEDGER_DRIVER && *v->cuda_setting)
		return CAUSE_SW_ENVIRONMENT;
	if (p->cause != CAUSE_CPU_FUNCTION)
		return p->cause;
	if (v->in->kind == FINDING_UNIFORM)
		return CAUSE_SW_HOT_PATH;
	return is_python(s) ? CAUSE_CPU_PYTHON : CAUSE_CPU_FUNCTION;
}

/* Functions of the rank's own code form one account, because work may move between them. */
static uint32_t group_of(uint32_t pattern)
{
	for (uint32_t k = 0; patterns[pattern].cause == CAUSE_CPU_FUNCTION && k < PATTERNS; k++)
		if (patterns[k].cause == CAUSE_CPU_FUNCTION && patterns[k].kind == LEDGER_RUNNING)
			return k;
	return pattern;
}

bool diagnosis_causes_lengthen(uint64_t causes, const char *account, const char *what)
{
	struct ledger_row r = {.kind = 0, .what = 0};
	const struct pattern *p;

	while (r.kind < LEDGER_KINDS && strcmp(ledger_kind_name(r.kind), account))
		r.kind++;
	while (r.what < LEDGER_WHATS && strcmp(ledger_what_id(r.what), what))
		r.what++;
	if (r.kind == LEDGER_KINDS || r.what == LEDGER_WHATS)
		return false; /* of a later version */
	p = &patterns[group_of(pattern_of(&r))];
	return causes & (p->explained_by | 1ull << p->cause);
}

static bool waits_for_storage(const struct ledger_row *r)
{
	return r->kind == LEDGER_BLOCKED && r->excess_ns > 0 && r->what >= LEDGER_FILE_READ &&
	       r->what <= LEDGER_DISK_LIMIT;
}

/* The pattern that a row belongs to. System calls between a function's waits for storage are part of
 * its I/O, if the waits are long compared with them. If not, the calls are work: opening cached files
 * is. A wait whose stack was not seen may belong to any function. */
static uint32_t sum_of(const struct ledger_row *rows, uint32_t count, const struct ledger_row *r)
{
	const struct ledger_row *longest = NULL;
	double waits_ns = 0;
	bool is_known = false;

	if (r->kind == LEDGER_KERNEL_CODE && *r->name &&
	    (r->what == LEDGER_FILE_SYSTEM || r->what == LEDGER_SYSCALL))
		for (uint32_t i = 0; i < count; i++) {
			const struct ledger_row *wait = &rows[i];
			bool is_its_own = ledger_is_of(r->name, wait->name);

			if (!waits_for_storage(wait) || (*wait->name && !is_its_own))
				continue;
			is_known |= is_its_own;
			waits_ns += wait->excess_ns;
			if (!longest || wait->excess_ns > longest->excess_ns)
				longest = wait;
		}
	if (is_known && waits_ns >= thresholds.part.matters * r->excess_ns)
		return pattern_of(longest);
	return group_of(pattern_of(r));
}

static void sum_up(const struct ledger_row *rows, uint32_t count, struct sum *sums)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct ledger_row *r = &rows[i];
		struct sum *s = &sums[sum_of(rows, count, r)];

		s->excess_ns += r->excess_ns;
		s->slow_ns += r->slow_ns;
		s->reference_ns += r->reference_ns;
		s->slow_count += r->slow_count;
		s->reference_count += r->reference_count;
		s->user_ns += r->kind == LEDGER_RUNNING ? r->slow_ns : 0;
		s->python_ns += r->what == LEDGER_PYTHON ? r->slow_ns : 0;
		s->more_ns += fmax(r->excess_ns, 0);
		s->more_user_ns += r->kind == LEDGER_RUNNING ? fmax(r->excess_ns, 0) : 0;
		s->more_python_ns += r->what == LEDGER_PYTHON ? fmax(r->excess_ns, 0) : 0;
		if (r->excess_ns > 0 && (!s->most || r->excess_ns > s->most->excess_ns))
			s->most = r;
	}
}

static bool is_observed_host(enum ledger_kind kind)
{
	return kind >= LEDGER_RUNNING && kind < LEDGER_KINDS;
}

/* The sums of the rows. In time that was not observed the host may do what it always does. So where
 * its observed accounts became shorter, unobserved time makes up for that first; only the rest of it
 * is excess. hidden_ns: the part that nothing can make up for. */
static void sum_rows(const struct diagnosis_view *v, struct sum *sums)
{
	struct sum *unobserved = &sums[PATTERNS - 1];
	double gone_ns = 0, part;

	sum_up(v->row, v->row_count, sums);
	for (uint32_t k = 0; k < PATTERNS; k++)
		gone_ns += is_observed_host(patterns[k].kind) ? fmax(-sums[k].excess_ns, 0) : 0;
	part = fmin(gone_ns, unobserved->excess_ns - v->hidden_ns) / gone_ns;
	if (!(part > 0))
		return;
	unobserved->excess_ns -= part * gone_ns;
	for (uint32_t k = 0; k < PATTERNS; k++)
		if (is_observed_host(patterns[k].kind) && sums[k].excess_ns < 0)
			sums[k].excess_ns -= part * sums[k].excess_ns;
}

/* How much of the rest of an account the candidate explains: at most its own remaining time. A
 * counted candidate has no time, and explains all of an observed account. */
static double explained(const struct diagnosis_candidate *c, const struct pattern *p, double left,
			double spent)
{
	return c->is_counted && p->kind != LEDGER_UNOBSERVED ? left
							     : fmin(c->effect_ns - spent, left);
}

static bool can_explain(const struct diagnosis_candidate *c, const struct pattern *p)
{
	return !c->evidence_only && (c->is_work || p->explained_by >> c->cause & 1);
}

static bool knows_more(const struct diagnosis_candidate *c, const struct diagnosis_candidate *than)
{
	return than->by_class && !c->by_class && than->cause == c->cause;
}

/* The candidate that explains most of the rest of the account; NULL: none explains enough. A signal
 * knows who took the time that a class of functions shows. Signals come after profiles. */
static struct diagnosis_candidate *explanation(struct diagnosis_view *v, const struct pattern *p,
					       double left, double excess, const double *spent)
{
	struct diagnosis_candidate *best = NULL;
	double most = 0;

	for (uint32_t i = 0; i < v->count; i++) {
		struct diagnosis_candidate *c = &v->list[i];
		double ns = explained(c, p, left, spent[i]);

		if (!can_explain(c, p) || ns < thresholds.part.little * excess || !(ns > 0))
			continue;
		if (!best || ns * diagnosis_weight(c) >
				 most * (knows_more(c, best) ? thresholds.part.half : 1)) {
			most = ns * diagnosis_weight(c);
			best = c;
		}
	}
	return best;
}

/* How directly the account's time shows this cause. */
static double sure_of(const struct diagnosis_view *v, const struct pattern *p,
		      const struct diagnosis_candidate *by)
{
	double without = by && by->cause == CAUSE_CPU_HOST_GAP ? WITHOUT_ONE_SEEN : WITHOUT_ONE;

	if (p->kind != LEDGER_UNOBSERVED)
		return by ? diagnosis_sure(by) : 1;
	return by ? diagnosis_sure(by) * pow(without, v->out->missing_count) : 0;
}

/* By what factor each cause is more or less certain than its part of the account. An unobserved
 * rest does not contradict it. If the cause and others at least as deep explain more than the
 * account, some of them do so by chance. */
static void weigh_rivals(const struct diagnosis_view *v, const struct pattern *p, double excess,
			 const double *spent, double *sure)
{
	double ns[CAUSE_COUNT] = {0};
	uint64_t causes = 0;

	for (uint32_t i = 0; i < v->count; i++)
		if (can_explain(&v->list[i], p)) {
			ns[v->list[i].cause] += fmax(v->list[i].effect_ns - spent[i], 0);
			causes |= 1ull << v->list[i].cause;
		}
	for (int c = 0; c < CAUSE_COUNT; c++) {
		double sum = 0;

		for (int other = 0; causes >> c & 1 && other < CAUSE_COUNT; other++)
			if (diagnosis_depth(other) >= diagnosis_depth(c))
				sum += fmin(ns[other], excess);
		sure[c] =
		    fmin(excess / sum, p->kind == LEDGER_UNOBSERVED ? thresholds.same.factor : 1);
	}
}

/* Credits ns of an account to a cause. by_ns: what that candidate has explained of this cause so
 * far, over all accounts. sure: of weigh_rivals(). */
static void credit(const struct diagnosis_view *v, struct share *s, double ns,
		   struct diagnosis_candidate *by, double by_ns, const struct pattern *p,
		   const struct sum *sum, double sure)
{
	s->ns += ns;
	s->seen_ns += p->kind == LEDGER_UNOBSERVED ? 0 : ns;
	s->sure_ns += ns * sure_of(v, p, by) * sure;
	if (by_ns > s->by_ns) {
		s->by = by;
		s->by_ns = by_ns;
	}
	if (ns > s->account_ns) {
		s->account_ns = ns;
		s->pattern = p;
		s->sum = sum;
	}
}

/* How often the thread needs a CPU, in the reference and in the slow steps. more: how much of it is
 * new. who: the pattern whose demand grew most; PATTERNS: none grew. */
struct demand {
	double before, now, more;
	uint32_t who;
};

/* The pattern of waits with this text; PATTERNS: none. */
static uint32_t waits_called(const char *what)
{
	struct ledger_row r = {.kind = LEDGER_BLOCKED, .what = LEDGER_NONE};

	while (r.what < LEDGER_WHATS && strcmp(ledger_what_text(r.what), what))
		r.what++;
	return *what && r.what < LEDGER_WHATS ? pattern_of(&r) : PATTERNS;
}

/* The demand that leads to these waits for a CPU. A thread waits for one after each sleep, and is
 * preempted more often the longer it runs. only: of these sleeps; PATTERNS: of all. */
static struct demand demand_of(const struct sum *sums, const struct ledger_row *waits,
			       uint32_t only)
{
	bool woken = waits->what == LEDGER_WOKEN;
	struct demand d = {.who = PATTERNS};
	double most = 0;

	for (uint32_t k = 0; k < PATTERNS; k++) {
		enum ledger_kind kind = patterns[k].kind;
		const struct sum *s = &sums[k];
		double now, before;

		if (only < PATTERNS ? k != only
		    : woken	    ? kind != LEDGER_BLOCKED
				    : kind != LEDGER_RUNNING && kind != LEDGER_KERNEL_CODE)
			continue;
		now = woken ? s->slow_count : s->slow_ns;
		before = woken ? s->reference_count : s->reference_ns;
		d.now += now;
		d.before += before;
		if (now - before > most) {
			most = now - before;
			d.who = k;
		}
	}
	d.more = d.now - d.before;
	return d;
}

/* The same for the sleeps after which the thread waited. They are not counted if another thread's waits
 * stand for them. If they grew by more than all sleeps did, the rest only has another name. */
static struct demand demand_for(const struct sum *sums, const struct ledger_row *waits)
{
	struct demand all = demand_of(sums, waits, PATTERNS), d = all;

	if (waits->what == LEDGER_WOKEN)
		d = demand_of(sums, waits, waits_called(waits->name));
	d.more = fmin(d.more, all.more);
	return d.now + d.before > 0 ? d : all;
}

static bool waits_for_cpu(const struct ledger_row *r, enum ledger_what what)
{
	return r->kind == LEDGER_RUNNABLE && r->what == what;
}

/* How many times as long as before a wait for a CPU takes, at least 1. */
static double longer_waits(const struct diagnosis_view *v, const struct sum *sums,
			   enum ledger_what what)
{
	double now = 0, expected = 0;

	for (uint32_t i = 0; i < v->row_count; i++) {
		const struct ledger_row *r = &v->row[i];
		struct demand d;

		if (!waits_for_cpu(r, what))
			continue;
		d = demand_for(sums, r);
		if (d.before > 0) {
			now += r->slow_ns;
			expected += r->reference_ns * d.now / d.before;
		}
	}
	return expected > 0 ? fmax(now / expected, 1) : 1;
}

/* Waits for a CPU that come from needing one more often belong to what needs it. If waits are also
 * longer than before, only as much as they took before. */
static void move_waits(const struct diagnosis_view *v, struct sum *sums, enum ledger_what what)
{
	double longer = longer_waits(v, sums, what);

	for (uint32_t i = 0; i < v->row_count; i++) {
		const struct ledger_row *r = &v->row[i];
		struct sum *from = &sums[pattern_of(r)];
		struct demand d;
		double ns;

		if (!waits_for_cpu(r, what))
			continue;
		d = demand_for(sums, r);
		if (!(d.more > 0) || !(sums[d.who].excess_ns > 0))
			continue;
		ns = fmin(r->slow_ns / longer * d.more / d.now, r->excess_ns);
		ns = fmax(fmin(ns, from->excess_ns), 0);
		from->excess_ns -= ns;
		sums[d.who].excess_ns += ns;
	}
}

/* Whether a process that is not the rank's own ends these waits. A sleep ends by itself, but a thread
 * that sleeps more often than usual polls. */
static bool waits_for_others(const struct pattern *p, const struct sum *sum)
{
	if (p->kind != LEDGER_BLOCKED)
		return false;
	if (p->first == LEDGER_SLEEP)
		return sum->slow_count - sum->reference_count >= thresholds.count.few;
	return p->first == LEDGER_FILE_LOCK || p->first == LEDGER_PIPE_READ ||
	       p->first == LEDGER_LOCAL_SOCKET || p->first == LEDGER_PROCESS ||
	       p->first == LEDGER_SOCKET || ledger_what_is_of_ranks(p->first);
}

/* left: what no candidate explains. */
static void add_waits(struct diagnosis_view *v, const struct pattern *p, const struct sum *sum,
		      double left)
{
	if (p->kind == LEDGER_UNOBSERVED)
		return;
	left = waits_for_others(p, sum) ? left : 0;
	v->waits_ns += left;
	v->late_ns += sum->excess_ns - left;
}

static void divide_account(struct diagnosis_view *v, uint32_t k, const struct sum *sum,
			   double *spent, struct share *shares)
{
	const struct pattern *p = &patterns[k];
	double left = sum->excess_ns, sure[CAUSE_COUNT];
	struct diagnosis_candidate *c;

	weigh_rivals(v, p, left, spent, sure);
	while (left > 0 && (c = explanation(v, p, left, sum->excess_ns, spent))) {
		double ns = explained(c, p, left, spent[c - v->list]);

		spent[c - v->list] += ns;
		left -= ns;
		credit(v, &shares[c->cause], ns, c, spent[c - v->list], p, sum, sure[c->cause]);
	}
	add_waits(v, p, sum, left);
	if (p->kind ==
	    LEDGER_UNOBSERVED) /* whether the host was late in the hidden part is unknown too */
		left = fmax(left - v->hidden_ns, 0);
	credit(v, &shares[cause_of(v, p, sum)], left, NULL, 0, p, sum, 1);
}

static void divide(struct diagnosis_view *v, struct sum *sums, struct share *shares)
{
	double spent[DIAGNOSIS_CANDIDATES_MAX] = {0};

	move_waits(v, sums, LEDGER_WOKEN);
	move_waits(v, sums, LEDGER_PREEMPTED);
	for (uint32_t k = 0; k < PATTERNS; k++)
		if (counts(v->in->kind, patterns[k].kind) && sums[k].excess_ns > 0)
			divide_account(v, k, &sums[k], spent, shares);
}

/* ---- text ---- */

static void account_text(const struct diagnosis_view *v, const struct ledger_row *r, char *out,
			 size_t bytes)
{
	struct diagnosis_number slow, usual;
	char name[111];
	const char *than = v->past ? "when healthy" : "on the peers";
	size_t used;

	text_copy(name, sizeof(name), r->name);
	ledger_account_text(r->kind, ledger_what_text(r->what), name, out, bytes);
	used = strlen(out);
	if (v->in->kind == FINDING_HANG)
		snprintf(out + used, bytes - used, ": %s since its last step, usually %s",
			 diagnosis_text_ms(r->slow_ns, &slow),
			 diagnosis_text_ms(r->reference_ns, &usual));
	else
		snprintf(out + used, bytes - used, ": %s per step, %s %s",
			 diagnosis_text_ms(r->slow_ns, &slow),
			 diagnosis_text_ms(r->reference_ns, &usual), than);
	used = strlen(out);
	if (v->in->kind != FINDING_HANG && r->kind == LEDGER_BLOCKED && r->slow_count >= 1 &&
	    r->slow_count >= thresholds.same.factor * r->reference_count)
		used += (size_t)snprintf(out + used, bytes - used, "; %.0f wait%s, %.0f %s",
					 r->slow_count, r->slow_count < 1.5 ? "" : "s",
					 r->reference_count, than);
	/* who released the lock, or wrote to the pipe */
	if (r->kind == LEDGER_BLOCKED && ledger_what_has_other_end(r->what) && v->who->waker &&
	    v->who->waker_ns >= thresholds.part.half * r->slow_ns && used < bytes)
		snprintf(out + used, bytes - used, "; woken by %s", v->who->waker);
}

static void function_text(struct diagnosis_view *v, const struct share *s,
			  struct diagnosis_candidate *c)
{
	const struct ledger_row *r = s->sum->most;
	struct diagnosis_candidate *hot = NULL;
	char subject[DIAGNOSIS_SUBJECT_BYTES];

	if (v->in->kind == FINDING_HANG) {
		text_copy(c->subject, sizeof(c->subject), r ? r->name : "");
		snprintf(c->because, sizeof(c->because), "%s code is still running in %.120s",
			 v->its, r && *r->name ? r->name : "a function without a name");
		return;
	}
	if (r && r->excess_ns >= thresholds.part.half * s->sum->excess_ns) {
		text_copy(c->subject, sizeof(c->subject), r->name);
		snprintf(c->because, sizeof(c->because), "%.120s takes longer than %s",
			 *r->name ? r->name : "code without a name",
			 v->past ? "in healthy steps" : "on the peers");
		return;
	}
	/* Many functions grew a little. The profile knows the function that calls them. */
	for (uint32_t i = 0; i < v->count && !hot; i++)
		if (v->list[i].by_profile)
			hot = &v->list[i];
	text_copy(subject, sizeof(subject), hot ? hot->subject : r ? r->name : "");
	text_copy(c->subject, sizeof(c->subject), subject);
	snprintf(c->because, sizeof(c->because), "%s code runs longer than %s%s%.120s", v->its,
		 v->past ? "in healthy steps" : "on the peers", *subject ? ", mostly in " : "",
		 subject);
}

static void describe(struct diagnosis_view *v, const struct share *s, struct diagnosis_candidate *c)
{
	const struct ledger_row *r = s->sum->most;
	const struct pattern *p = s->pattern;
	const char *name = r && r->what != LEDGER_WOKEN ? r->name : "";

	/* a switch knows who ran instead by number only; the signal that explains most knows the name */
	if (!*name && *p->joint && p->kind == LEDGER_RUNNABLE && s->by)
		name = s->by->subject;
	if (r)
		account_text(v, r, c->text, sizeof(c->text));
	if (p->cause == CAUSE_CPU_FUNCTION) {
		function_text(v, s, c);
		return;
	}
	text_copy(c->subject, sizeof(c->subject), name);
	if (p->kind == LEDGER_COMPUTE) {
		snprintf(c->because, sizeof(c->because),
			 v->in->kind == FINDING_HANG
			     ? "kernel %.120s does not end"
			     : "several kernels take longer, most of all %.120s",
			 *name ? name : "(name not known)");
		return;
	}
	if (p->first == LEDGER_DRIVER && *v->cuda_setting)
		snprintf(c->because, sizeof(c->because), "%s: %.180s", p->because[v->many],
			 v->cuda_setting);
	else
		snprintf(c->because, sizeof(c->because), "%s%s%.130s", p->because[v->many],
			 *name ? p->joint : "", name);
}

/* Adds an account's default cause. There is reserved room for one per cause, so no candidate is
 * replaced. */
static struct diagnosis_candidate *add_own(struct diagnosis_view *v, enum finding_cause cause,
					   double ns)
{
	struct diagnosis_candidate *c = &v->list[v->count++];

	*c = (struct diagnosis_candidate){.cause = cause, .effect_ns = ns};
	return c;
}

static void put(struct diagnosis_view *v, enum finding_cause cause, const struct share *s)
{
	struct diagnosis_candidate *c = s->by;

	if (!c || s->by_ns < thresholds.part.half * s->ns) {
		c = add_own(v, cause, s->ns);
		describe(v, s, c);
	}
	v->share[cause] = (struct diagnosis_share){c, s->ns, s->sure_ns / s->ns, s->seen_ns};
}

/* ---- accounts ---- */

/* Adds a row to a coarse ledger of the steps' median figures, for steps without full records. */
static void add_row(struct diagnosis_view *v, enum ledger_kind kind, double slow_ns,
		    double reference_ns)
{
	if (slow_ns < 0 || reference_ns < 0)
		return;
	v->row[v->row_count++] = (struct ledger_row){.kind = kind,
						     .name = "",
						     .slow_ns = slow_ns,
						     .reference_ns = reference_ns,
						     .excess_ns = slow_ns - reference_ns};
}

/* The self time; without it the step time minus exposed communication. */
static double self_of(const double *figure)
{
	if (figure[FIGURE_SELF] >= 0 || figure[FIGURE_STEP] < 0)
		return figure[FIGURE_SELF];
	return figure[FIGURE_STEP] - fmax(figure[FIGURE_EXPOSED], 0);
}

#define FIGURE_ROWS 5u /* and one for the rest that no figure shows */
static void figure_rows(struct diagnosis_view *v)
{
	const double *mine = v->mine, *base = v->base;
	double slow = self_of(mine), reference = self_of(base), excess = slow - reference,
	       rest = excess;

	add_row(v, LEDGER_COMPUTE, mine[FIGURE_COMPUTE], base[FIGURE_COMPUTE]);
	add_row(v, LEDGER_COPY, mine[FIGURE_COPY], base[FIGURE_COPY]);
	for (uint32_t i = 0; i < v->row_count; i++)
		rest -= v->row[i].excess_ns;
	add_row(v, LEDGER_COLLECTIVE, mine[FIGURE_EXPOSED], base[FIGURE_EXPOSED]);
	if (mine[FIGURE_IDLE] >= 0 && base[FIGURE_IDLE] >= 0)
		add_row(v, LEDGER_UNOBSERVED, mine[FIGURE_IDLE], base[FIGURE_IDLE]);
	else if (slow >= 0 && reference >= 0)
		add_row(v, LEDGER_UNOBSERVED, fmax(rest, 0), fmax(-rest, 0));
	if (slow >= 0 && reference >= 0)
		v->excess_ns = fmax(excess, 0);
}

static void add_kind(struct diagnosis_kind *k, double slow_ns, double reference_ns)
{
	k->known = true;
	k->slow_ns += slow_ns;
	k->reference_ns += reference_ns;
}

static void set_sums(struct diagnosis_view *v)
{
	struct sum sums[PATTERNS] = {{0}};
	double whole = 0;

	sum_rows(v, sums);
	for (uint32_t k = 0; k < PATTERNS; k++) {
		double ns = sums[k].excess_ns;

		if (patterns[k].kind == LEDGER_COMPUTE)
			v->compute_ns += ns;
		else if (patterns[k].kind == LEDGER_COLLECTIVE) {
			if (patterns[k].first != LEDGER_LAST_RANK)
				add_kind(&v->transfer, sums[k].slow_ns, sums[k].reference_ns);
		} else if (patterns[k].kind != LEDGER_COPY)
			v->host_ns += ns;
		if (counts(v->in->kind, patterns[k].kind) && ns > 0)
			whole += ns;
	}
	v->excess_ns = fmax(v->excess_ns, whole);
}

/* Adds the time that detection measured as lost but the subtraction does not show. The reference
 * lost it too, so it is unobserved, and other evidence may explain it. */
static void add_not_shown(struct diagnosis_view *v)
{
	double ns = v->who->lost_ns - v->excess_ns;
	struct diagnosis_number shown, lost;

	if (!v->row_count || !(ns > 0))
		return;
	if (v->excess_ns < thresholds.part.half * v->who->lost_ns)
		diagnosis_missing(
		    v->out,
		    "healthy steps to compare with: the known ones are slow too, and explain "
		    "only %s of the %s that %s lost per step",
		    diagnosis_text_ms(v->excess_ns, &shown),
		    diagnosis_text_ms(v->who->lost_ns, &lost), v->name.text);
	add_row(v, LEDGER_UNOBSERVED, ns, 0);
	v->excess_ns += ns;
	v->hidden_ns = ns;
}

/* Whether the ledger's reference is about as slow as the slow steps, while the figures' reference
 * is not. */
static bool is_reference_slow(const struct diagnosis_view *v)
{
	enum diagnosis_figure step = FIGURE_STEP;
	bool uniform = v->in->kind == FINDING_UNIFORM;
	double slow = uniform ? v->mine[step] : self_of(v->mine),
	       reference = uniform ? v->base[step] : self_of(v->base), shown = 0;

	for (uint32_t i = 0; i < v->row_count; i++)
		shown += counts(v->in->kind, v->row[i].kind) ? v->row[i].excess_ns : 0;
	return shown < thresholds.part.half * v->who->lost_ns && slow >= 0 && reference >= 0 &&
	       fmin(slow - reference, v->who->lost_ns) >= thresholds.same.factor * fmax(shown, 0);
}

static void sum_kinds(struct diagnosis_view *v)
{
	for (int k = 0; k < LEDGER_KINDS; k++)
		v->kind[k].known = v->has_ledger;
	for (uint32_t i = 0; i < v->row_count; i++)
		add_kind(&v->kind[v->row[i].kind], v->row[i].slow_ns, v->row[i].reference_ns);
}

static void keep_kernels(struct diagnosis_view *v)
{
	v->kernel_row = calloc(v->row_count ? v->row_count : 1, sizeof(*v->row));
	for (uint32_t i = 0; v->kernel_row && i < v->row_count; i++)
		if (v->row[i].kind == LEDGER_COMPUTE && *v->row[i].name)
			v->kernel_row[v->kernel_row_count++] = v->row[i];
}

void diagnosis_ledger_begin(struct diagnosis_view *v)
{
	const struct diagnosis_rank *who = v->who;
	bool hang = v->in->kind == FINDING_HANG,
	     steps = who->ledger && who->usual && who->ledger->steps && (who->usual->steps || hang);
	size_t room = steps ? (size_t)who->ledger->count + who->usual->count : 0;

	v->row = calloc(room + FIGURE_ROWS, sizeof(*v->row));
	v->out->by_ledger = v->row && steps;
	if (!v->row)
		return;
	v->has_ledger = steps;
	if (steps) {
		v->row_count = ledger_subtract(who->ledger, who->usual, v->row);
		sum_kinds(v);
		keep_kernels(v);
	}
	if (steps && !hang && is_reference_slow(v)) {
		v->out->by_ledger = steps = false;
		v->row_count = 0;
	}
	if (steps) {
		v->past = who->usual_is_own;
	} else if (!hang && !who->period) {
		/* The last steps before a hang were healthy. Medians are of the usual steps, so they
		 * are not a reference for a kind. */
		figure_rows(v);
		if (!v->has_ledger)
			sum_kinds(v);
	}
	set_sums(v);
	add_not_shown(v);
	if (!v->row_count)
		v->host_ns = fmax(v->mine[FIGURE_STEP], 0);
}

/* Without a reference, assumes that the strongest candidate's effect was lost, if the step shows it. */
static void open_account(struct diagnosis_view *v)
{
	const struct diagnosis_candidate *most = NULL;

	for (uint32_t i = 0; i < v->count; i++) {
		const struct diagnosis_candidate *c = &v->list[i];

		double worth = c->effect_ns * diagnosis_weight(c);

		if (!c->evidence_only &&
		    worth > (most ? most->effect_ns * diagnosis_weight(most) : 0))
			most = c;
	}
	if (!most || most->effect_ns <= thresholds.part.named * v->mine[FIGURE_STEP])
		return;
	v->excess_ns = most->effect_ns;
	add_row(v, LEDGER_UNOBSERVED, most->effect_ns, 0);
}

static void set_room(struct diagnosis_view *v, const struct sum *sums)
{
	for (uint32_t k = 0; k < PATTERNS; k++)
		for (int c = 0; c < CAUSE_COUNT; c++)
			if (counts(v->in->kind, patterns[k].kind) && sums[k].excess_ns > 0 &&
			    patterns[k].explained_by >> c & 1)
				v->room_ns[c] += sums[k].excess_ns;
}

void diagnosis_ledger_look(struct diagnosis_view *v)
{
	struct share shares[CAUSE_COUNT] = {{0}};
	struct sum sums[PATTERNS] = {{0}};
	int most = CAUSE_UNKNOWN;

	if (!v->row)
		return;
	if (!v->row_count)
		open_account(v);
	sum_rows(v, sums);
	set_room(v, sums);
	divide(v, sums, shares);
	for (int c = 0; c < CAUSE_COUNT; c++) {
		most = shares[c].ns > shares[most].ns ? c : most;
		if (shares[c].ns > 0 && c != CAUSE_UNKNOWN)
			put(v, (enum finding_cause)c, &shares[c]);
	}
	if (v->who->stuck && *v->who->stuck)
		snprintf(add_own(v, (enum finding_cause)most, 0)->text, FINDING_TEXT_BYTES,
			 "%s is in %.210s", v->name.text, v->who->stuck);
}
