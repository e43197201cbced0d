/* SPDX-License-Identifier: Apache-2.0
 * Thresholds are shares of a rank's time: 10 ms/s is 1%, which a roofline can just detect. A count
 * is raised from the number that costs about as much: a migration costs some 50 us of cold caches,
 * a page fault 1 us. */
#include "model/os_signal.h"
#include "model/thresholds.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define UNKNOWN_RATIO 5.0

static const struct os_signal_info table[OS_SIGNAL_KINDS] = {
    [OS_SIGNAL_SOFTIRQ_STOLEN] = {"softirq_stolen", "ms/s", 1, 10, false, true,
				  "%w soft interrupts took %v %r"},
    [OS_SIGNAL_SOFTIRQ_CPU] = {"softirq_cpu", "ms/s", 10, 30, false, false,
			       "%w soft interrupts on a CPU of the rank took %v %r"},
    [OS_SIGNAL_IRQ_STOLEN] = {"irq_stolen", "ms/s", 1, 10, false, true,
			      "device interrupts took %v %s"},
    [OS_SIGNAL_IRQ_LINE] = {"irq_line", "ms/s", 5, 20, false, false, "interrupt %s took %v"},
    [OS_SIGNAL_RUN_WAIT] = {"run_wait", "ms/s", 1, 20, true, false,
			    "its runnable threads waited %v for a CPU"},
    [OS_SIGNAL_RUN_WAIT_THREAD] = {"run_wait_thread", "ms/s", 5, 20, false, true,
				   "thread %s waited %v for a CPU"},
    [OS_SIGNAL_CPU_HOG] = {"cpu_hog", "ms/s", 5, 20, false, false,
			   "%s held a CPU that the rank's threads waited for: %v"},
    [OS_SIGNAL_MIGRATIONS] = {"migrations", "1/s", 100, 200, true, false,
			      "moves of its threads to another CPU: %v"},
    [OS_SIGNAL_NODE_MIGRATIONS] = {"node_migrations", "1/s", 1, 10, false, false,
				   "moves of its threads to another NUMA node: %v"},
    [OS_SIGNAL_NUMA_MOVES] = {"numa_moves", "1/s", 1, 10, false, false,
			      "moves of its threads by NUMA balancing: %v"},
    [OS_SIGNAL_PAGES_MIGRATED] = {"pages_migrated", "1/s", 100, 2000, false, false,
				  "pages that its threads moved between NUMA nodes: %v"},
    [OS_SIGNAL_FAULTS] = {"page_faults", "1/s", 1000, 10000, true, false, "page faults: %v"},
    [OS_SIGNAL_FAULTS_MAJOR] = {"major_faults", "1/s", 1, 20, true, false,
				"page faults that read from storage: %v"},
    [OS_SIGNAL_IO_WAIT] = {"io_wait", "ms/s", 1, 10, true, false,
			   "its threads waited %v for storage"},
    [OS_SIGNAL_IO_WAIT_THREAD] = {"io_wait_thread", "ms/s", 1, 10, false, true,
				  "thread %s waited %v for storage"},
    [OS_SIGNAL_IO_LATENCY] = {"io_latency", "ms", 0.5, 5, false, false,
			      "its own block requests took %v each"},
    [OS_SIGNAL_DISK_LATENCY] = {"disk_latency", "ms", 1, 10, false, false, "%s took %v each"},
    [OS_SIGNAL_RETRANSMITS] = {"tcp_retransmits", "1/s", 0.1, 2, false, false,
			       "TCP segments lost and retransmitted on its connection %s: %v"},
    [OS_SIGNAL_RETRANSMIT_WAIT] = {"tcp_retransmit_wait", "ms/s", 1, 10, false, false,
				   "its connection %s waited %v until it retransmitted"},
    [OS_SIGNAL_RETRANSMITS_OTHER] = {"tcp_retransmits_other", "1/s", 1, 20, false, false,
				     "TCP segments retransmitted on %s, not known to be "
				     "a connection of the rank: %v"},
    [OS_SIGNAL_LOCK_WAIT] = {"lock_wait", "ms/s", 1, 10, true, false,
			     "its threads waited %v for kernel locks"},
    [OS_SIGNAL_LOCK_PLACE] = {"lock_place", "ms/s", 1, 10, false, true,
			      "it waited %v for a kernel lock at %s"},
    [OS_SIGNAL_FILE_LOCK] = {"file_lock", "ms/s", 1, 10, false, false,
			     "it waited for a file lock that %s held: %v"},
    [OS_SIGNAL_THROTTLED] = {"cpu_throttled", "ms/s", 1, 10, true, true,
			     "the CPU limit of its cgroup stopped it for %v"},
    [OS_SIGNAL_PRESSURE] = {"pressure", "ms/s", 50, 200, false, false,
			    "some task waited for %s: %v"},
    [OS_SIGNAL_STEAL] = {"cpu_steal", "ms/s", 5, 30, false, true,
			 "the hypervisor took each CPU away for %v"},
    [OS_SIGNAL_FIRST_TOUCH] = {"first_touch", "us", HUGE_VAL, HUGE_VAL, true, false,
			       "the first access to a page after its page fault took %v",
			       OS_SIGNAL_RISES, true},
    [OS_SIGNAL_CPU_CLOCK] = {"cpu_clock", "MHz", HUGE_VAL, 0.2, false, false, "clock of %s: %v",
			     OS_SIGNAL_FALLS, true},
    [OS_SIGNAL_REFAULTS] = {"refaults", "1/s", 20, 200, false, false,
			    "pages evicted under the memory limit of its cgroup (%s) and needed "
			    "again: %v"},
    [OS_SIGNAL_IO_LIMIT] = {"io_limit", "%", 50, 85, false, false,
			    "its cgroup used %v of its I/O limit for %s", OS_SIGNAL_REACHES, true},
    [OS_SIGNAL_LINK_TIME] = {"link_time", "%", 20, 30, false, false,
			     "transfers from rank %s take %v longer than usual for their size",
			     OS_SIGNAL_GROWS, true},
    [OS_SIGNAL_LINK_WAIT] = {"link_wait", "ms/s", 1, 10, false, false,
			     "transfers from rank %s lost %v"},
    [OS_SIGNAL_NCCL_RAS] = {"nccl_ras", "1/s", 1e-6, 0, false, false,
			    "NCCL's RAS service reports \"%s\": %v", OS_SIGNAL_EVER},
    [OS_SIGNAL_GPU_SM_CLOCK] = {"gpu_sm_clock", "MHz", HUGE_VAL, 0.05, true, false,
				"SM clock of %s: %v", OS_SIGNAL_FALLS, true},
    [OS_SIGNAL_GPU_MEM_CLOCK] = {"gpu_mem_clock", "MHz", HUGE_VAL, 0.05, false, false,
				 "memory clock of %s: %v", OS_SIGNAL_FALLS, true},
    [OS_SIGNAL_GPU_THROTTLE] = {"gpu_throttle", "ms/s", 1, 50, false, false,
				"%s lowered its clocks for %v"},
    [OS_SIGNAL_GPU_TEMPERATURE] = {"gpu_temperature", "C", HUGE_VAL, 10, true, false,
				   "temperature of %s: %v", OS_SIGNAL_RISES, true},
    [OS_SIGNAL_GPU_POWER] = {"gpu_power", "W", HUGE_VAL, HUGE_VAL, true, false, "power of %s: %v",
			     OS_SIGNAL_RISES, true},
    [OS_SIGNAL_GPU_UTILISATION] = {"gpu_utilisation", "%", HUGE_VAL, HUGE_VAL, true, false,
				   "%s was busy for %v of the time", OS_SIGNAL_RISES, true},
    [OS_SIGNAL_GPU_ECC] = {"gpu_ecc", "1/s", 1e-6, 1, false, false,
			   "memory errors that %s corrected: %v"},
    [OS_SIGNAL_GPU_ECC_UNCORRECTED] = {"gpu_ecc_uncorrected", "1/s", 1e-6, 0, false, false,
				       "memory errors that %s could not correct: %v",
				       OS_SIGNAL_EVER},
    [OS_SIGNAL_GPU_PCIE_REPLAYS] = {"gpu_pcie_replays", "1/s", 0.1, 1, false, false,
				    "packets replayed on the PCIe link of %s: %v"},
    [OS_SIGNAL_GPU_PCIE_LINK] = {"gpu_pcie_link", "GB/s", HUGE_VAL, 0.4, false, false,
				 "bandwidth of the PCIe link of %s: %v", OS_SIGNAL_FALLS, true},
    [OS_SIGNAL_GPU_XID] = {"gpu_xid", "1/s", 1e-6, 0, false, false, "the driver reported %s: %v",
			   OS_SIGNAL_EVER},
    [OS_SIGNAL_GPU_OTHERS] = {"gpu_others", "ms/s", 1, 500, false, false,
			      "another process had a context on the GPU: %s, for %v"},
};

const struct os_signal_info *os_signal_info(enum os_signal_kind kind)
{
	return kind < OS_SIGNAL_KINDS ? &table[kind] : NULL;
}

enum os_signal_kind os_signal_find(const char *name)
{
	for (unsigned i = 0; i < OS_SIGNAL_KINDS; i++)
		if (!strcmp(table[i].name, name))
			return i;
	return OS_SIGNAL_KINDS;
}

static bool is_raised(const struct os_signal_info *k, double value, double usual)
{
	switch (k->rule) {
	case OS_SIGNAL_EVER:
		return value > 0;
	case OS_SIGNAL_RISES:
		return usual >= 0 && value - usual >= k->raised;
	case OS_SIGNAL_REACHES:
		return value >= k->raised && usual < k->raised;
	case OS_SIGNAL_FALLS:
		return usual > 0 && value <= usual * (1 - k->raised);
	case OS_SIGNAL_GROWS:
		break;
	}
	if (usual < 0)
		return value >= UNKNOWN_RATIO * k->raised;
	return value - usual >= k->raised && value >= thresholds.same.factor * usual;
}

void os_signal_make(struct os_signal *s, enum os_signal_kind kind, const char *subject,
		    double value, double usual, double step_ms)
{
	const struct os_signal_info *k = &table[kind];

	memset(s, 0, sizeof(*s));
	strncpy(s->name, k->name, sizeof(s->name) - 1);
	strncpy(s->unit, k->unit, sizeof(s->unit) - 1);
	strncpy(s->subject, subject, sizeof(s->subject) - 1);
	s->value = value;
	s->usual = usual;
	if (k->weighs && step_ms > 0)
		s->weight_ms = value * step_ms * 1e-3;
	s->flags =
	    (k->total ? OS_SIGNAL_TOTAL : 0) | (is_raised(k, value, usual) ? OS_SIGNAL_RAISED : 0);
}

bool os_signal_is_notable(const struct os_signal *s)
{
	enum os_signal_kind kind = os_signal_find(s->name);

	return s->flags || kind == OS_SIGNAL_KINDS || s->value >= table[kind].notable;
}

/* How far the signal is above its usual value, in units of `raised`. Signals are sorted by this. */
static double strength(const struct os_signal *s)
{
	enum os_signal_kind kind = os_signal_find(s->name);
	double usual = s->usual > 0 ? s->usual : 0;

	if (kind == OS_SIGNAL_KINDS)
		return s->value > usual ? s->value - usual : 0;
	switch (table[kind].rule) {
	case OS_SIGNAL_EVER: /* not comparable with the other rules */
		return s->value > 0 ? UNKNOWN_RATIO + s->value : 0;
	case OS_SIGNAL_FALLS:
		return usual > 0 ? (usual - s->value) / (usual * table[kind].raised) : 0;
	case OS_SIGNAL_RISES:
		return s->usual >= 0 ? (s->value - usual) / table[kind].raised : 0;
	case OS_SIGNAL_REACHES: /* from 0 to the limit counts as five times `raised` */
		return UNKNOWN_RATIO * (s->value - usual) / table[kind].raised;
	case OS_SIGNAL_GROWS:
		break;
	}
	return (s->value - usual) / table[kind].raised;
}

int os_signal_order(const void *a, const void *b)
{
	const struct os_signal *x = a, *y = b;
	double p = strength(x), q = strength(y);
	int by;

	if ((x->flags ^ y->flags) & OS_SIGNAL_RAISED)
		return x->flags & OS_SIGNAL_RAISED ? -1 : 1;
	if (p > q || p < q)
		return p > q ? -1 : 1;
	by = strcmp(x->name, y->name);
	return by ? by : strcmp(x->subject, y->subject);
}

void os_signal_put(struct os_signal *list, uint32_t *count, uint32_t max, const struct os_signal *s)
{
	uint32_t weakest = *count;

	for (uint32_t i = 0; i < *count; i++) {
		if (!strcmp(list[i].name, s->name) && !strcmp(list[i].subject, s->subject)) {
			if (os_signal_order(s, &list[i]) < 0)
				list[i] = *s;
			return;
		}
		/* totals are never dropped */
		if (!(list[i].flags & OS_SIGNAL_TOTAL) &&
		    (weakest == *count || os_signal_order(&list[weakest], &list[i]) < 0))
			weakest = i;
	}
	if (*count < max)
		list[(*count)++] = *s;
	else if (weakest < *count &&
		 (s->flags & OS_SIGNAL_TOTAL || os_signal_order(s, &list[weakest]) < 0))
		list[weakest] = *s;
}

/* ---- text ---- */

struct text {
	char *out;
	size_t bytes, used;
};

static void put(struct text *t, const char *from, size_t n)
{
	for (size_t i = 0; i < n && t->used + 1 < t->bytes; i++)
		t->out[t->used++] = from[i];
	t->out[t->used] = '\0';
}

static void put_number(struct text *t, double v)
{
	char line[64] = "?";

	if (isfinite(v))
		snprintf(line, sizeof(line),
			 fabs(v) >= 1e7		    ? "%.3g"
			 : fabs(v) >= 100 || v == 0 ? "%.0f"
			 : fabs(v) >= 10	    ? "%.3g"
						    : "%.2g",
			 v);
	put(t, line, strlen(line));
}

static void put_value(struct text *t, const struct os_signal *s)
{
	put_number(t, s->value);
	if (!strcmp(s->unit, "1/s")) {
		put(t, " a second", 9);
	} else {
		put(t, " ", 1);
		put(t, s->unit, strnlen(s->unit, sizeof(s->unit)));
	}
}

static void put_usual(struct text *t, const struct os_signal *s)
{
	if (s->usual < 0)
		return;
	put(t, " (usually ", 10);
	put_number(t, s->usual);
	put(t, ")", 1);
}

const char *os_signal_text(const struct os_signal *s, char *out, size_t bytes)
{
	enum os_signal_kind kind = os_signal_find(s->name);
	const char *from = kind < OS_SIGNAL_KINDS ? table[kind].sentence : "%n %s: %v";
	size_t word = strcspn(s->subject, " "), all = strlen(s->subject);
	struct text t = {out, bytes, 0};

	if (!bytes)
		return "";
	*out = '\0';
	for (; *from; from++) {
		if (*from != '%') {
			put(&t, from, 1);
			continue;
		}
		switch (*++from) {
		case 'v':
			put_value(&t, s);
			break;
		case 'n':
			put(&t, s->name, strlen(s->name));
			break;
		case 's':
			put(&t, s->subject, all);
			break;
		case 'w':
			put(&t, s->subject, word);
			break;
		case 'r':
			put(&t, s->subject + word + (word < all), all - word - (word < all));
			break;
		}
	}
	put_usual(&t, s);
	return out;
}

const char *os_signal_usual_text(const struct os_signal *s, char *out, size_t bytes)
{
	struct text t = {out, bytes, 0};

	if (!bytes)
		return "";
	*out = '\0';
	put_usual(&t, s);
	return out;
}
