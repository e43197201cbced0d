/* SPDX-License-Identifier: Apache-2.0
 * A signal counts if it is above its usual value and above the peers' busiest signal of the same
 * kind. A node that is busy for every rank does not explain one slow rank. The effect is the time
 * of one thread. Threads wait in parallel, so the largest thread counts, while CPUs and lock places
 * of one thread add up. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/cause/diagnosis_private.h"
#include "analysis/robust/median.h"
#include "base/text/text.h"
#include "model/thresholds.h"

/* Rough costs of signals that are counts, to estimate an effect. */
#define FAULT_NS	1e3
#define FAULT_MAJOR_NS	1e5
#define PAGE_MIGRATE_NS 2e3
#define MOVE_NS		5e4
#define THREADS_MAX	32u

/* This signal has no kind. Nodes with counters of the memory controllers send it. */
#define MEMORY_BANDWIDTH "memory_bandwidth"

#define BIT(c) (1ull << CAUSE_##c)
/* The causes for which each kind of signal is evidence: those for which the functions below put() it,
 * those of GPU telemetry, and those whose accounts it lengthens although another signal names them. */
static const uint64_t causes[OS_SIGNAL_KINDS] = {
    [OS_SIGNAL_SOFTIRQ_STOLEN] = BIT(OS_SOFTIRQ),
    [OS_SIGNAL_SOFTIRQ_CPU] = BIT(OS_SOFTIRQ),
    [OS_SIGNAL_IRQ_STOLEN] = BIT(OS_IRQ),
    [OS_SIGNAL_IRQ_LINE] = BIT(OS_IRQ),
    [OS_SIGNAL_RUN_WAIT] = BIT(OS_RUN_QUEUE) | BIT(OS_SOFTIRQ),
    [OS_SIGNAL_RUN_WAIT_THREAD] = BIT(OS_RUN_QUEUE) | BIT(OS_SOFTIRQ),
    [OS_SIGNAL_CPU_HOG] = BIT(OS_RUN_QUEUE),
    [OS_SIGNAL_NODE_MIGRATIONS] = BIT(OS_NUMA),
    [OS_SIGNAL_NUMA_MOVES] = BIT(OS_NUMA),
    [OS_SIGNAL_PAGES_MIGRATED] = BIT(OS_NUMA),
    [OS_SIGNAL_FAULTS] = BIT(OS_FAULTS),
    [OS_SIGNAL_FAULTS_MAJOR] = BIT(OS_FAULTS),
    [OS_SIGNAL_FIRST_TOUCH] = BIT(OS_FAULTS),
    [OS_SIGNAL_IO_WAIT] = BIT(STORAGE_DISK) | BIT(STORAGE_SYNC) | BIT(STORAGE_LIMIT),
    [OS_SIGNAL_IO_WAIT_THREAD] = BIT(STORAGE_DISK) | BIT(STORAGE_SYNC) | BIT(STORAGE_LIMIT),
    [OS_SIGNAL_IO_LATENCY] = BIT(STORAGE_DISK),
    [OS_SIGNAL_DISK_LATENCY] = BIT(STORAGE_DISK),
    [OS_SIGNAL_IO_LIMIT] = BIT(STORAGE_LIMIT),
    [OS_SIGNAL_RETRANSMITS] = BIT(NET_RETRANSMITS),
    [OS_SIGNAL_RETRANSMIT_WAIT] = BIT(NET_RETRANSMITS),
    [OS_SIGNAL_RETRANSMITS_OTHER] = BIT(NET_RETRANSMITS),
    [OS_SIGNAL_LINK_TIME] = BIT(NET_LINK),
    [OS_SIGNAL_LINK_WAIT] = BIT(NET_LINK),
    [OS_SIGNAL_LOCK_WAIT] = BIT(OS_LOCK),
    [OS_SIGNAL_LOCK_PLACE] = BIT(OS_LOCK),
    [OS_SIGNAL_FILE_LOCK] = BIT(CPU_LOCK),
    [OS_SIGNAL_THROTTLED] = BIT(OS_CPU_LIMIT),
    [OS_SIGNAL_STEAL] = BIT(OS_STEAL),
    [OS_SIGNAL_REFAULTS] = BIT(OS_MEMORY),
    [OS_SIGNAL_GPU_SM_CLOCK] = BIT(GPU_CLOCKS),
    [OS_SIGNAL_GPU_MEM_CLOCK] = BIT(GPU_CLOCKS),
    [OS_SIGNAL_GPU_THROTTLE] = BIT(GPU_CLOCKS) | BIT(GPU_THERMAL) | BIT(GPU_POWER),
    [OS_SIGNAL_GPU_TEMPERATURE] = BIT(GPU_THERMAL),
    [OS_SIGNAL_GPU_POWER] = BIT(GPU_POWER),
    [OS_SIGNAL_GPU_ECC] = BIT(GPU_ECC),
    [OS_SIGNAL_GPU_ECC_UNCORRECTED] = BIT(GPU_ECC),
    [OS_SIGNAL_GPU_PCIE_REPLAYS] = BIT(GPU_COPY),
    [OS_SIGNAL_GPU_PCIE_LINK] = BIT(GPU_COPY),
};

uint64_t diagnosis_signal_causes(const char *name, const char *subject)
{
	enum os_signal_kind kind = os_signal_find(name);

	if (kind == OS_SIGNAL_PRESSURE) /* of the resource that its subject begins with */
		return !strncmp(subject, "cpu", 3)	? BIT(OS_RUN_QUEUE)
		       : !strncmp(subject, "memory", 6) ? BIT(OS_MEMORY)
							: BIT(STORAGE_DISK);
	if (kind == OS_SIGNAL_KINDS)
		return strcmp(name, MEMORY_BANDWIDTH) ? 0 : BIT(OS_MEMORY_BANDWIDTH);
	return causes[kind];
}

static bool is_kind(const struct os_signal *s, enum os_signal_kind kind)
{
	return !strcmp(s->name, os_signal_info(kind)->name);
}

/* Pressure on the CPU, memory and storage are compared separately. */
static bool is_alike(const struct os_signal *a, const struct os_signal *b)
{
	return strcmp(a->name, os_signal_info(OS_SIGNAL_PRESSURE)->name) != 0 ||
	       !strcmp(a->subject, b->subject);
}

/* than: only signals that are comparable with it; NULL: all. */
static double busiest(const struct diagnosis_rank *r, enum os_signal_kind kind,
		      const struct os_signal *than)
{
	double most = 0;

	for (uint32_t i = 0; i < r->signal_count; i++)
		if (is_kind(&r->signal[i], kind) && r->signal[i].value > most &&
		    (!than || is_alike(than, &r->signal[i])))
			most = r->signal[i].value;
	return most;
}

double diagnosis_os_of_peers(const struct diagnosis_view *v, enum os_signal_kind kind,
			     const struct os_signal *than)
{
	double list[64];
	uint32_t n = 0;

	if (v->in->kind == FINDING_UNIFORM)
		return -1;
	for (uint32_t i = 0; i < v->in->peer_count && n < 64; i++)
		if (v->in->peer[i].signal_count)
			list[n++] = busiest(&v->in->peer[i], kind, than);
	return n ? median_of(list, n) : -1;
}

/* Whether the signal describes the CPU around the rank's threads. Peers run on other CPUs, so their
 * signals are not comparable. */
static bool is_context(enum os_signal_kind kind)
{
	return kind == OS_SIGNAL_CPU_HOG || kind == OS_SIGNAL_SOFTIRQ_CPU ||
	       kind == OS_SIGNAL_IRQ_LINE;
}

/* How far the signal is above normal, in its unit; 0: it is not. A time of the rank's own threads explains
 * no more than itself, however short; what is only counted must be raised. */
static double extra_of(const struct diagnosis_view *v, const struct os_signal *s,
		       enum os_signal_kind kind)
{
	const struct os_signal_info *info = os_signal_info(kind);
	double peers = is_context(kind) ? -1 : diagnosis_os_of_peers(v, kind, s);
	double normal = s->usual > peers ? s->usual : peers;

	if (normal < 0)
		return s->flags & OS_SIGNAL_RAISED ? s->value : 0;
	if ((!info->weighs && s->value - normal < info->raised) ||
	    s->value < thresholds.same.factor * normal)
		return 0;
	return s->value - normal;
}

/* Converts ms/s of a thread to ns per slow step of mean length, because a few steps may have lost
 * nearly all of the time. The figure is a median; what detection measured as lost is a mean. */
static double per_step(const struct diagnosis_view *v, double ms_per_s)
{
	double step_ns = v->mine[FIGURE_STEP];

	if (step_ns > 0 && v->base[FIGURE_STEP] > 0)
		step_ns = fmax(step_ns, v->base[FIGURE_STEP] + v->who->lost_ns);
	return step_ns > 0 ? ms_per_s * 1e-3 * step_ns : 0;
}

/* ---- time of threads ---- */

struct thread_time {
	char name[OS_SIGNAL_SUBJECT_BYTES];
	double extra; /* ms/s, sum */
	const struct os_signal *most;
};

/* The thread's name: "NAME" in "NET_RX from thread NAME on CPU 1", or the whole subject. A name may
 * be any text. */
static void thread_of(const struct os_signal *s, char *out, size_t bytes)
{
	const char *from = strstr(s->subject, "from thread ");
	const char *end = diagnosis_text_cpu(s->subject, s->cpu);

	from = from ? from + 12 : s->subject;
	if (*end && end >= from && (size_t)(end - from) < bytes)
		bytes = (size_t)(end - from) + 1;
	text_copy(out, bytes, from);
}

static bool gather(const struct diagnosis_view *v, enum os_signal_kind kind, bool by_thread,
		   struct thread_time *best)
{
	struct thread_time list[THREADS_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->who->signal_count; i++) {
		const struct os_signal *s = &v->who->signal[i];
		double extra = is_kind(s, kind) ? extra_of(v, s, kind) : 0;
		char name[OS_SIGNAL_SUBJECT_BYTES] = "";
		uint32_t k = 0;

		if (!(extra > 0))
			continue;
		if (by_thread)
			thread_of(s, name, sizeof(name));
		while (k < n && strcmp(list[k].name, name))
			k++;
		if (k == THREADS_MAX)
			continue;
		if (k == n) {
			list[n] = (struct thread_time){.most = s};
			text_copy(list[n++].name, sizeof(list[0].name), name);
		}
		list[k].extra += extra;
		if (s->value > list[k].most->value)
			list[k].most = s;
	}
	*best = (struct thread_time){.extra = 0};
	for (uint32_t k = 0; k < n; k++) {
		bool launches =
		    v->who->launch_thread && !strcmp(list[k].name, v->who->launch_thread);
		bool led = v->who->launch_thread && !strcmp(best->name, v->who->launch_thread);

		/* the launch thread wins unless another one lost much more */
		if (list[k].extra * (launches ? thresholds.same.factor : 1) >
		    best->extra * (led ? thresholds.same.factor : 1))
			*best = list[k];
	}
	return best->most != NULL;
}

/* "its launch thread python3", "their NCCL communication threads x", "its thread x" */
static const char *thread_words(const struct diagnosis_view *v, const char *name, char *out,
				size_t bytes)
{
	bool launches = v->who->launch_thread && !strcmp(name, v->who->launch_thread);
	bool nccl = strstr(name, "nccl") || strstr(name, "NCCL");

	snprintf(out, bytes, "%s %sthread%s %.60s", v->its,
		 launches ? "launch "
		 : nccl	  ? "NCCL communication "
			  : "",
		 v->many ? "s" : "", name);
	return out;
}

/* The signal of a kind that is most above normal; NULL: none. */
static const struct os_signal *strongest(const struct diagnosis_view *v, enum os_signal_kind kind)
{
	const struct os_signal *best = NULL;
	double most = 0;

	for (uint32_t i = 0; i < v->who->signal_count; i++) {
		const struct os_signal *s = &v->who->signal[i];
		double extra = is_kind(s, kind) ? extra_of(v, s, kind) : 0;

		if (extra > most) {
			most = extra;
			best = s;
		}
	}
	return best;
}

static struct diagnosis_candidate *put(struct diagnosis_view *v, enum finding_cause cause,
				       double ns, const struct os_signal *s)
{
	struct diagnosis_candidate *c = diagnosis_add(v, cause, ns);
	char text[200];

	text_copy(c->subject, sizeof(c->subject), s->subject);
	c->cpu = s->cpu;
	os_signal_text(s, text, sizeof(text));
	/* without the effect, which the line shows separately */
	snprintf(c->text, sizeof(c->text), "%s", text);
	snprintf(c->because, sizeof(c->because), "%s (%s)", finding_cause_title(cause), text);
	return c;
}

/* ---- causes ---- */

static void interrupts(struct diagnosis_view *v)
{
	static const struct {
		enum os_signal_kind kind;
		enum finding_cause cause;
	} of[] = {{OS_SIGNAL_SOFTIRQ_STOLEN, CAUSE_OS_SOFTIRQ},
		  {OS_SIGNAL_IRQ_STOLEN, CAUSE_OS_IRQ}};
	const struct os_signal *line = strongest(v, OS_SIGNAL_IRQ_LINE);

	for (size_t i = 0; i < 2; i++) {
		struct diagnosis_candidate *c;
		struct thread_time t;
		char words[100];
		size_t vector;

		if (!gather(v, of[i].kind, true, &t))
			continue;
		c = put(v, of[i].cause, per_step(v, t.extra), t.most);
		vector = strcspn(t.most->subject, " ");
		snprintf(c->because, sizeof(c->because), "%.*s%s interrupts run%s in place of %s",
			 i ? 0 : (int)vector, t.most->subject, i ? "device" : " soft",
			 diagnosis_text_cpu(t.most->subject, c->cpu),
			 thread_words(v, t.name, words, sizeof(words)));
		if (line)
			snprintf(c->because + strlen(c->because),
				 sizeof(c->because) - strlen(c->because), "; interrupt %.50s",
				 line->subject);
	}
}

/* Whether a thread waits for its CPU because of soft interrupts: ksoftirqd runs there, or soft
 * interrupts take more of that CPU than any process. */
static bool waits_for_softirq(const struct os_signal *hog, const struct os_signal *soft,
			      double waits)
{
	if (hog && !strncmp(hog->subject, "ksoftirqd/", 10))
		return true;
	return soft && soft->value > (hog ? hog->value : thresholds.part.half * waits);
}

/* Whether a thread waits for its CPU because the hypervisor takes CPUs away and no new task
 * appeared. */
static bool waits_for_hypervisor(const struct diagnosis_view *v, double waits)
{
	const struct os_signal *steal = strongest(v, OS_SIGNAL_STEAL);
	double newcomers = 0;

	if (!steal || !(steal->flags & OS_SIGNAL_RAISED))
		return false;
	for (uint32_t i = 0; i < v->who->signal_count; i++) {
		const struct os_signal *s = &v->who->signal[i];

		if (is_kind(s, OS_SIGNAL_CPU_HOG) && s->usual < thresholds.part.matters * s->value)
			newcomers += extra_of(v, s, OS_SIGNAL_CPU_HOG);
	}
	return newcomers < thresholds.part.half * waits;
}

static void run_queue(struct diagnosis_view *v)
{
	const struct os_signal *hog = strongest(v, OS_SIGNAL_CPU_HOG),
			       *soft = strongest(v, OS_SIGNAL_SOFTIRQ_CPU), *by;
	struct diagnosis_candidate *c;
	struct thread_time t;
	bool is_softirq;
	char words[100];

	if (!gather(v, OS_SIGNAL_RUN_WAIT_THREAD, true, &t))
		return;
	/* many short tasks took the CPU, so stopping one of them would not help */
	if (hog && extra_of(v, hog, OS_SIGNAL_CPU_HOG) < thresholds.part.matters * t.extra)
		hog = NULL;
	is_softirq = waits_for_softirq(hog, soft, t.extra);
	by = is_softirq && soft ? soft : hog;
	c = put(v, is_softirq ? CAUSE_OS_SOFTIRQ : CAUSE_OS_RUN_QUEUE, per_step(v, t.extra),
		t.most);
	if (!is_softirq && waits_for_hypervisor(v, t.extra))
		c->proof = DIAGNOSIS_GUESS;
	text_copy(c->subject, sizeof(c->subject), by ? by->subject : "");
	thread_words(v, t.name, words, sizeof(words));
	if (is_softirq)
		snprintf(c->because, sizeof(c->because),
			 "soft interrupts (%.90s) run in place of %s", by->subject, words);
	else
		snprintf(c->because, sizeof(c->because), "%s %s for a CPU%s%.90s", words,
			 v->many ? "wait" : "waits", by ? " taken by " : "", by ? by->subject : "");
	if (by) {
		char text[160];
		size_t used = strlen(c->text);

		os_signal_text(by, text, sizeof(text));
		snprintf(c->text + used, sizeof(c->text) - used, "; %s", text);
	}
}

/* All ranks of a machine share the stolen time, but in a few steps it is not spread evenly. A rank
 * that is hit while it launches is late. So stolen time counts even if the peers had as much, with
 * less certainty. If it exceeds the loss of a few steps, no other explanation is needed. */
static void hypervisor(struct diagnosis_view *v)
{
	const struct os_signal *s =
	    diagnosis_raised(v, os_signal_info(OS_SIGNAL_STEAL)->name, NULL);
	struct diagnosis_candidate *c;
	double extra, taken;
	bool met;

	if (!s)
		return;
	extra = extra_of(v, s, OS_SIGNAL_STEAL);
	taken = per_step(v, extra > 0 ? extra : s->value - fmax(s->usual, 0));
	met = v->who->steps < thresholds.count.many && taken >= v->host_ns;
	c = put(v, CAUSE_OS_STEAL, taken, s);
	if (!(extra > 0) && !met)
		c->proof = DIAGNOSIS_LIKELY;
	snprintf(c->because, sizeof(c->because),
		 "the hypervisor takes each CPU of the machine away for %.0f ms a second",
		 s->value);
}

static void cpu_limit(struct diagnosis_view *v)
{
	const struct os_signal *s = strongest(v, OS_SIGNAL_THROTTLED);
	struct diagnosis_candidate *c;

	if (!s)
		return;
	c = put(v, CAUSE_OS_CPU_LIMIT, per_step(v, extra_of(v, s, OS_SIGNAL_THROTTLED)), s);
	snprintf(c->because, sizeof(c->because),
		 "the CPU limit of the cgroup throttles %s threads for %.0f ms a second", v->its,
		 s->value);
}

const struct os_signal *diagnosis_os_lock(const struct diagnosis_view *v)
{
	return strongest(v, OS_SIGNAL_LOCK_PLACE);
}

static void locks(struct diagnosis_view *v)
{
	const struct os_signal *s;
	struct diagnosis_candidate *c;
	struct thread_time t;

	if (gather(v, OS_SIGNAL_LOCK_PLACE, false, &t)) {
		c = put(v, CAUSE_OS_LOCK, per_step(v, t.extra), t.most);
		snprintf(c->because, sizeof(c->because),
			 "%s threads wait for a kernel lock at %.140s", v->its, t.most->subject);
		return;
	}
	s = strongest(v, OS_SIGNAL_LOCK_WAIT);
	if (s)
		put(v, CAUSE_OS_LOCK, per_step(v, extra_of(v, s, OS_SIGNAL_LOCK_WAIT)), s);
}

/* The holder of the lock is sampled once a second. The length of the wait comes from the switches,
 * so this has no time. */
static void file_lock(struct diagnosis_view *v)
{
	const struct os_signal *s = strongest(v, OS_SIGNAL_FILE_LOCK);
	struct diagnosis_candidate *c;

	if (!s)
		return;
	c = put(v, CAUSE_CPU_LOCK, per_step(v, extra_of(v, s, OS_SIGNAL_FILE_LOCK)), s);
	c->is_counted = true;
	snprintf(c->because, sizeof(c->because), "%s a file lock that %.140s holds",
		 v->many ? "they wait for" : "it waits for", s->subject);
}

static void memory(struct diagnosis_view *v)
{
	static const struct {
		enum os_signal_kind kind;
		enum finding_cause cause;
		double each_ns;
	} counts[] = {
	    {OS_SIGNAL_FAULTS, CAUSE_OS_FAULTS, FAULT_NS},
	    {OS_SIGNAL_FAULTS_MAJOR, CAUSE_OS_FAULTS, FAULT_MAJOR_NS},
	    {OS_SIGNAL_REFAULTS, CAUSE_OS_MEMORY, FAULT_MAJOR_NS},
	    {OS_SIGNAL_PAGES_MIGRATED, CAUSE_OS_NUMA, PAGE_MIGRATE_NS},
	    {OS_SIGNAL_NUMA_MOVES, CAUSE_OS_NUMA, MOVE_NS},
	    {OS_SIGNAL_NODE_MIGRATIONS, CAUSE_OS_NUMA, MOVE_NS},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		const struct os_signal *s = strongest(v, counts[i].kind);

		if (s)
			put(v, counts[i].cause,
			    extra_of(v, s, counts[i].kind) * counts[i].each_ns *
				(v->mine[FIGURE_STEP] > 0 ? v->mine[FIGURE_STEP] * 1e-9 : 0),
			    s)
			    ->is_counted = true;
	}
	for (uint32_t i = 0; i < v->who->signal_count; i++) {
		const struct os_signal *s = &v->who->signal[i];
		double extra =
		    is_kind(s, OS_SIGNAL_PRESSURE) ? extra_of(v, s, OS_SIGNAL_PRESSURE) : 0;
		struct diagnosis_candidate *c;

		if (!(extra > 0) || strncmp(s->subject, "memory", 6))
			continue;
		c = put(v, CAUSE_OS_MEMORY, per_step(v, extra), s);
		snprintf(c->because, sizeof(c->because),
			 "some task of %s %s waits for memory for %.0f ms a second", v->its,
			 strstr(s->subject, "cgroup") ? "cgroup" : "node", s->value);
	}
}

/* Some nodes have counters of the memory controllers ("memory_bandwidth"). Without them, the
 * functions that copy take longer, and nothing shows why. */
static void memory_bandwidth(struct diagnosis_view *v)
{
	const struct os_signal *s = NULL;

	while ((s = diagnosis_raised(v, MEMORY_BANDWIDTH, s)))
		put(v, CAUSE_OS_MEMORY_BANDWIDTH, v->host_ns, s);
}

/* The cause that waits for storage have. The kernel counts them without saying what for, but the
 * accounts do. */
static enum finding_cause storage_cause(const struct diagnosis_view *v)
{
	double sync_ns = 0, other_ns = 0;

	for (uint32_t i = 0; i < v->row_count; i++) {
		const struct ledger_row *r = &v->row[i];

		if (r->kind != LEDGER_BLOCKED || !(r->excess_ns > 0))
			continue;
		if (r->what == LEDGER_FILE_SYNC)
			sync_ns += r->excess_ns;
		else if (r->what >= LEDGER_FILE_READ && r->what <= LEDGER_STORAGE)
			other_ns += r->excess_ns;
	}
	return sync_ns > other_ns ? CAUSE_STORAGE_SYNC : CAUSE_STORAGE_DISK;
}

static void storage(struct diagnosis_view *v)
{
	const struct os_signal *limit =
	    diagnosis_raised(v, os_signal_info(OS_SIGNAL_IO_LIMIT)->name, NULL);
	const struct os_signal *own = strongest(v, OS_SIGNAL_IO_LATENCY),
			       *disk = strongest(v, OS_SIGNAL_DISK_LATENCY);
	double latency_ms = busiest(v->who, OS_SIGNAL_IO_LATENCY, NULL);
	struct diagnosis_candidate *c;
	struct thread_time t;
	char text[160];
	int n;

	if (!gather(v, OS_SIGNAL_IO_WAIT_THREAD, true, &t) &&
	    !gather(v, OS_SIGNAL_IO_WAIT, false, &t))
		return;
	c = put(v, limit ? CAUSE_STORAGE_LIMIT : storage_cause(v), per_step(v, t.extra), t.most);
	if (limit) {
		os_signal_text(limit, text, sizeof(text));
		snprintf(c->because, sizeof(c->because), "%s I/O is throttled: %s", v->its, text);
	} else {
		n = snprintf(c->because, sizeof(c->because),
			     "%s threads wait %.0f ms a second for storage", v->its, t.extra);
		if (disk)
			snprintf(c->because + n, sizeof(c->because) - n, "; slow: %.90s",
				 disk->subject);
		else if (!own && latency_ms > 0)
			snprintf(c->because + n, sizeof(c->because) - n,
				 ", though the disk answers in %.1f ms", latency_ms);
	}
	if (own || disk) {
		const struct os_signal *s = disk ? disk : own;

		os_signal_text(s, text, sizeof(text));
		c = diagnosis_add(v, CAUSE_STORAGE_DISK, 0);
		text_copy(c->subject, sizeof(c->subject), s->subject);
		snprintf(c->text, sizeof(c->text), "%s", text);
	}
}

/* ---- network ---- */

static const struct diagnosis_rank *one_of_all(const struct diagnosis_view *v, uint32_t i)
{
	return i < v->in->suspect_count ? &v->in->suspect[i]
					: &v->in->peer[i - v->in->suspect_count];
}

/* The strongest raised signal of this kind of any rank, because a transfer waits for both ends of a
 * connection. *rank: whose it is. */
static const struct os_signal *of_any_rank(const struct diagnosis_view *v, enum os_signal_kind kind,
					   int32_t *rank)
{
	const struct os_signal *best = strongest(v, kind);

	*rank = v->who->rank;
	for (uint32_t i = 0; i < v->in->suspect_count + v->in->peer_count; i++) {
		const struct diagnosis_rank *r = one_of_all(v, i);

		for (uint32_t k = 0; k < r->signal_count; k++) {
			const struct os_signal *s = &r->signal[k];

			if (!is_kind(s, kind) || !(s->flags & OS_SIGNAL_RAISED) ||
			    (best && s->value <= best->value))
				continue;
			best = s;
			*rank = r->rank;
		}
	}
	return best;
}

/* The time of this kind above usual, in ms/s, summed over all ranks. A transfer lost at most that
 * much. */
static double lost_by_all(const struct diagnosis_view *v, enum os_signal_kind kind)
{
	double sum = 0;

	for (uint32_t i = 0; i < v->in->suspect_count + v->in->peer_count; i++) {
		const struct diagnosis_rank *r = one_of_all(v, i);

		for (uint32_t k = 0; k < r->signal_count; k++)
			if (is_kind(&r->signal[k], kind))
				sum += r->signal[k].value - fmax(r->signal[k].usual, 0);
	}
	return fmax(sum, 0);
}

static void network(struct diagnosis_view *v)
{
	int32_t rank;
	const struct os_signal *again = of_any_rank(v, OS_SIGNAL_RETRANSMITS, &rank), *link;
	double extra = v->transfer.slow_ns - v->transfer.reference_ns;
	struct diagnosis_candidate *c;
	char time[100];

	if (again) {
		c = put(v, CAUSE_NET_RETRANSMITS,
			per_step(v, lost_by_all(v, OS_SIGNAL_RETRANSMIT_WAIT)), again);
		snprintf(c->because, sizeof(c->because),
			 "rank %d retransmits %.0f TCP segments a second, %.110s", (int)rank,
			 again->value, again->subject);
	}
	/* retransmits say why a link is slow, so they are the cause, and the link is evidence */
	link = again ? NULL : of_any_rank(v, OS_SIGNAL_LINK_TIME, &rank);
	if (link) {
		c = put(v, CAUSE_NET_LINK, per_step(v, lost_by_all(v, OS_SIGNAL_LINK_WAIT)), link);
		snprintf(c->because, sizeof(c->because),
			 "transfers from rank %.90s take %.0f%% longer than usual for their size",
			 link->subject, link->value);
	}
	/* Self time is not the network's. Nor does the network slow the steps before a hang. */
	if (!(extra > 0) || v->in->kind == FINDING_HANG ||
	    (v->in->kind != FINDING_UNIFORM && v->excess_ns > 0))
		return;
	c = diagnosis_add(v, CAUSE_NET_TRANSFER, extra);
	c->proof = DIAGNOSIS_LIKELY;
	if (diagnosis_kind_text(v, &v->transfer, time, sizeof(time)))
		snprintf(c->text, sizeof(c->text), "exposed communication takes %s", time);
	snprintf(c->because, sizeof(c->because), "transfers take longer");
	diagnosis_missing(v->out,
			  "when each rank entered the collectives: without it slow transfers "
			  "and a late rank look alike");
}

void diagnosis_os_look(struct diagnosis_view *v)
{
	interrupts(v);
	run_queue(v);
	cpu_limit(v);
	hypervisor(v);
	locks(v);
	file_lock(v);
	memory(v);
	memory_bandwidth(v);
	storage(v);
	network(v);
	if (!v->who->signal_count && v->host_ns > 0)
		diagnosis_missing(v->out, "OS signals of %s", v->name.text);
}
