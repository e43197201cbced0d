/* SPDX-License-Identifier: Apache-2.0
 * A cause is an account, or what explains it. Every excess of the ledger goes to one account of the
 * table below. What else is known (signals, profiles, kernels) has put candidates forward, each with
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

#define BY_HOST                                                                                    \
	(BIT(OS_SOFTIRQ) | BIT(OS_IRQ) | BIT(OS_STEAL) | BIT(OS_CPU_LIMIT) | BIT(OS_NUMA) |        \
	 BIT(OS_MEMORY_BANDWIDTH))
#define BY_QUEUE                                                                                   \
	(BIT(OS_SOFTIRQ) | BIT(OS_STEAL) | BIT(OS_CPU_LIMIT) | BIT(OS_RUN_QUEUE))
/* How long a thread slept for storage is the account itself, and no reason for it. */
#define BY_STORAGE (BIT(STORAGE_LIMIT) | BIT(OS_MEMORY) | BIT(OS_STEAL))
#define BY_NETWORK (BIT(NET_RETRANSMITS) | BIT(OS_STEAL))
#define BY_GPU                                                                                     \
	(BIT(GPU_SLOW) | BIT(GPU_CLOCKS) | BIT(GPU_THERMAL) | BIT(GPU_POWER) | BIT(GPU_ECC) |      \
	 BIT(GPU_KERNEL) | BIT(GPU_VARIANT) | BIT(SW_KERNELS) | BIT(SW_ENVIRONMENT) |              \
	 BIT(IMBALANCE_INPUT))
#define BY_ANY (~0ull & ~(BY_GPU | BIT(GPU_COPY) | BIT(NET_TRANSFER)))

/* The first row that fits. because: of one rank; where the account has a name, joint and that name
 * follow. */
static const struct pattern {
	enum ledger_kind kind;
	enum ledger_what first, last;
	enum finding_cause cause;
	uint64_t explained_by;
	const char *because, *joint;
} patterns[] = {
    {LEDGER_COMPUTE, 0, 0, CAUSE_UNKNOWN, BY_GPU, "", ""},
    {LEDGER_COPY, 0, 0, CAUSE_GPU_COPY, BIT(GPU_COPY), "its copies take longer", ": "},
    {LEDGER_COLLECTIVE, 0, 0, CAUSE_NET_TRANSFER, BY_NETWORK | BIT(NET_TRANSFER), "it waits", " in "},
    {LEDGER_QUEUED, 0, 0, CAUSE_GPU_QUEUE, BIT(OS_STEAL), "its GPU begins launched work late", ""},
    {LEDGER_STOPPED, 0, LEDGER_WHATS, CAUSE_OS_STOPPED, 0, "it was stopped", " in "},
    {LEDGER_STOLEN, LEDGER_DEVICE, LEDGER_INTERRUPT, CAUSE_OS_IRQ, BIT(OS_IRQ) | BIT(OS_STEAL),
     "interrupts run in place of its launching threads", ""},
    {LEDGER_STOLEN, 0, LEDGER_WHATS, CAUSE_OS_SOFTIRQ, BIT(OS_SOFTIRQ) | BIT(OS_STEAL),
     "soft interrupts run in place of its launching threads", ""},
    {LEDGER_RUNNABLE, LEDGER_WOKEN, LEDGER_WOKEN, CAUSE_OS_RUN_QUEUE, BY_QUEUE,
     "its launching threads wait for a CPU", ", on which runs "},
    {LEDGER_RUNNABLE, 0, LEDGER_WHATS, CAUSE_OS_RUN_QUEUE, BY_QUEUE,
     "its launching threads wait for a CPU", ", on which runs "},
    {LEDGER_RUNNING, LEDGER_LOGGING, LEDGER_LOGGING, CAUSE_SW_LOGGING, BIT(OS_STEAL),
     "it writes logs", " in "},
    {LEDGER_RUNNING, LEDGER_LOADER, LEDGER_LOADER, CAUSE_STORAGE_LOADER, BY_HOST,
     "it loads its data itself", ", in "},
    {LEDGER_RUNNING, LEDGER_STORAGE_CLIENT, LEDGER_STORAGE_CLIENT, CAUSE_STORAGE_CLIENT, BY_HOST,
     "its storage client takes the CPU", ", in "},
    {LEDGER_KERNEL_CODE, LEDGER_PAGE_FAULT, LEDGER_FILE_FAULT, CAUSE_OS_FAULTS,
     BIT(OS_FAULTS) | BIT(OS_STEAL) | BIT(OS_MEMORY), "the kernel handles page faults", " of "},
    {LEDGER_KERNEL_CODE, LEDGER_SWAP, LEDGER_MEMORY_LIMIT, CAUSE_OS_MEMORY,
     BIT(OS_MEMORY) | BIT(OS_STEAL), "the kernel frees memory for it", ", in "},
    {LEDGER_KERNEL_CODE, LEDGER_NUMA, LEDGER_NUMA, CAUSE_OS_NUMA, BIT(OS_NUMA),
     "the kernel moves its pages between NUMA nodes", ", in "},
    {LEDGER_KERNEL_CODE, LEDGER_KERNEL_LOCK, LEDGER_KERNEL_LOCK, CAUSE_OS_LOCK,
     BIT(OS_LOCK) | BIT(OS_STEAL), "it waits for a lock in the kernel", ", in "},
    {LEDGER_KERNEL_CODE, LEDGER_STORAGE, LEDGER_STORAGE, CAUSE_STORAGE_DISK, BY_STORAGE,
     "the kernel handles its I/O", ", in "},
    /* system calls that it makes are of its own code (group_of) */
    {LEDGER_KERNEL_CODE, 0, LEDGER_WHATS, CAUSE_CPU_FUNCTION, 0, "", ""},
    {LEDGER_RUNNING, 0, LEDGER_WHATS, CAUSE_CPU_FUNCTION, BY_HOST | BIT(OS_LOCK), "", ""},
    {LEDGER_BLOCKED, LEDGER_LOADER, LEDGER_STORAGE_CLIENT, CAUSE_STORAGE_LOADER,
     BIT(OS_STEAL) | BIT(STORAGE_CLIENT), "it waits for its data loader", " in "},
    {LEDGER_BLOCKED, LEDGER_GIL, LEDGER_GIL, CAUSE_CPU_GIL, BIT(CPU_GIL),
     "its launching threads wait for the GIL", " in "},
    {LEDGER_BLOCKED, LEDGER_LOCK, LEDGER_LOCK, CAUSE_CPU_LOCK, BIT(CPU_GIL),
     "it waits for a lock or another thread", " in "},
    {LEDGER_BLOCKED, LEDGER_FILE_LOCK, LEDGER_FILE_LOCK, CAUSE_CPU_LOCK, 0,
     "it waits for a file lock", " in "},
    {LEDGER_BLOCKED, LEDGER_PIPE_WRITE, LEDGER_TERMINAL, CAUSE_SW_OUTPUT, 0,
     "it waits until somebody reads what it writes", ", in "},
    {LEDGER_BLOCKED, LEDGER_PIPE_READ, LEDGER_PIPE_READ, CAUSE_CPU_PROCESS, 0,
     "it waits for another process at a pipe", ", in "},
    {LEDGER_BLOCKED, LEDGER_LOCAL_SOCKET, LEDGER_LOCAL_SOCKET, CAUSE_CPU_PROCESS, 0,
     "it waits for another process at a socket", ", in "},
    {LEDGER_BLOCKED, LEDGER_CHILD, LEDGER_CHILD, CAUSE_CPU_PROCESS, 0,
     "it waits for a child process", " in "},
    {LEDGER_BLOCKED, LEDGER_SOCKET, LEDGER_HOST_COLLECTIVE, CAUSE_NET_WAIT, BY_NETWORK,
     "it waits for a peer at a socket", ", in "},
    {LEDGER_BLOCKED, LEDGER_SLEEP, LEDGER_SLEEP, CAUSE_CPU_SLEEP, 0, "it sleeps", " in "},
    {LEDGER_BLOCKED, LEDGER_FILE_SYNC, LEDGER_FILE_SYNC, CAUSE_STORAGE_SYNC,
     BIT(STORAGE_LIMIT) | BIT(OS_STEAL),
     "it waits until what it wrote is on the disk", ", in "},
    {LEDGER_BLOCKED, LEDGER_DISK_LIMIT, LEDGER_DISK_LIMIT, CAUSE_STORAGE_LIMIT, BIT(STORAGE_LIMIT),
     "an I/O limit holds it", " in "},
    {LEDGER_BLOCKED, LEDGER_FILE_READ, LEDGER_STORAGE, CAUSE_STORAGE_DISK, BY_STORAGE,
     "it waits for storage", " in "},
    {LEDGER_BLOCKED, LEDGER_PAGE_FAULT, LEDGER_FILE_FAULT, CAUSE_STORAGE_DISK,
     BY_STORAGE | BIT(OS_FAULTS), "it waits for pages of a file", " in "},
    {LEDGER_BLOCKED, LEDGER_SWAP, LEDGER_MEMORY_LIMIT, CAUSE_OS_MEMORY, BIT(OS_MEMORY),
     "it waits for memory", " in "},
    {LEDGER_BLOCKED, LEDGER_NUMA, LEDGER_NUMA, CAUSE_OS_NUMA, BIT(OS_NUMA),
     "it waits for pages that move between NUMA nodes", ", in "},
    {LEDGER_BLOCKED, LEDGER_KERNEL_LOCK, LEDGER_KERNEL_LOCK, CAUSE_OS_LOCK, BIT(OS_LOCK),
     "it waits for a lock in the kernel", ", in "},
    {LEDGER_BLOCKED, 0, LEDGER_WHATS, CAUSE_CPU_HOST_GAP, BY_ANY, "it is blocked", " in "},
    {LEDGER_UNOBSERVED, 0, LEDGER_WHATS, CAUSE_CPU_HOST_GAP, BY_ANY,
     "its host launches late and its GPU waits; what holds the host up was not seen", ""},
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

/* The candidate that explains most of what is left of the account; NULL: none explains enough. */
static struct diagnosis_candidate *explanation(struct diagnosis_view *v, const struct pattern *p,
					       double left, double excess, const double *spent)
{
	struct diagnosis_candidate *best = NULL;
	double most = 0;

	for (uint32_t i = 0; i < v->count; i++) {
		struct diagnosis_candidate *c = &v->list[i];
		double ns = c->is_counted ? left : fmin(c->effect_ns - spent[i], left);

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
			double ns = c->is_counted ? left : fmin(c->effect_ns - spent[c - v->list], left);

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

	snprintf(out, bytes, "%s%s%s%s%.110s: %s per step, %s %s", ledger_kind_name(r->kind),
		 *what ? " (" : "", what, *what ? ")" : "", r->name,
		 diagnosis_text_ms(r->slow_ns, &slow), diagnosis_text_ms(r->reference_ns, &usual),
		 v->past ? "when healthy" : "on its peers");
}

static void function_text(struct diagnosis_view *v, const struct share *s,
			  struct diagnosis_candidate *c)
{
	const struct ledger_row *r = s->sum->most;
	struct diagnosis_candidate *hot = NULL;
	struct diagnosis_number ms;

	if (r && r->excess_ns >= NAMED_SHARE * s->sum->excess_ns) {
		diagnosis_text_copy(c->subject, sizeof(c->subject), r->name);
		snprintf(c->because, sizeof(c->because), "%.120s takes %s per step longer %s",
			 *r->name ? r->name : "its code", diagnosis_text_ms(r->excess_ns, &ms),
			 v->past ? "than when it was healthy" : v->than);
		return;
	}
	/* many functions below one: the profile knows which */
	for (uint32_t i = 0; i < v->count && !hot; i++)
		if (v->list[i].by_profile)
			hot = &v->list[i];
	diagnosis_text_copy(c->subject, sizeof(c->subject), hot ? hot->subject : r ? r->name : "");
	snprintf(c->because, sizeof(c->because), "its code runs for %s per step longer %s%s%.120s",
		 diagnosis_text_ms(s->sum->excess_ns, &ms),
		 v->past ? "than when it was healthy" : v->than, *c->subject ? ", mostly in " : "",
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
	snprintf(c->because, sizeof(c->because), "%s%s%.130s", p->because, *name ? p->joint : "", name);
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

		pool[p] += ns;
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
	if (kind != FINDING_HANG && slow->steps && usual->steps)
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

	if (!v->row)
		return;
	sum_up(v->row, v->row_count, sums);
	divide(v, sums, shares);
	for (int c = 0; c < CAUSE_COUNT; c++)
		if (shares[c].ns > 0 && c != CAUSE_UNKNOWN)
			put(v, (enum finding_cause)c, &shares[c]);
}
