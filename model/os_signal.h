/* SPDX-License-Identifier: Apache-2.0
 * os_signal.h - what the operating system did to a rank in a period: one figure with its usual
 * value, and the one table of all kinds (docs/os-signals.md). Pure. Threads: any. Trust: the
 * subject contains names of processes, devices and locks as the node saw them. os_signal_text
 * copies them unchanged; whoever prints them must escape them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OS_SIGNAL_NAME_BYTES	32u
#define OS_SIGNAL_SUBJECT_BYTES 96u
#define OS_SIGNAL_UNIT_BYTES	16u

#define OS_SIGNAL_RAISED 1u /* far above its usual value */
#define OS_SIGNAL_TOTAL	 2u /* reported in every window */

struct os_signal {
	char name[OS_SIGNAL_NAME_BYTES]; /* from the table of this version or of another one */
	char subject[OS_SIGNAL_SUBJECT_BYTES]; /* the thing that it is about; "": the rank */
	char unit[OS_SIGNAL_UNIT_BYTES];       /* unit of value and usual: "ms/s", "1/s", ... */
	double value;			       /* mean over the window */
	double usual;			       /* mean before the window; negative: unknown */
	double weight_ms; /* ms of the rank's threads' time per step; 0 if meaningless */
	uint32_t flags;	  /* OS_SIGNAL_* */
	uint32_t cpu;	  /* the CPU of an interrupt, plus 1; 0: unknown */
};

enum os_signal_kind {
	OS_SIGNAL_SOFTIRQ_STOLEN, /* subject "NET_RX from thread NAME on CPU 1" */
	OS_SIGNAL_SOFTIRQ_CPU,	  /* "NET_RX on CPU 1" */
	OS_SIGNAL_IRQ_STOLEN,	  /* "from thread NAME on CPU 1" */
	OS_SIGNAL_IRQ_LINE,	  /* "34 (virtio0-input.0) on CPU 1" */
	OS_SIGNAL_RUN_WAIT,
	OS_SIGNAL_RUN_WAIT_THREAD, /* "NAME" */
	OS_SIGNAL_CPU_HOG,	   /* "NAME (pid 5)" */
	OS_SIGNAL_MIGRATIONS,
	OS_SIGNAL_NODE_MIGRATIONS,
	OS_SIGNAL_NUMA_MOVES,
	OS_SIGNAL_PAGES_MIGRATED,
	OS_SIGNAL_FAULTS,
	OS_SIGNAL_FAULTS_MAJOR,
	OS_SIGNAL_IO_WAIT,
	OS_SIGNAL_IO_WAIT_THREAD,  /* "NAME" */
	OS_SIGNAL_IO_LATENCY,	   /* of the rank's own requests */
	OS_SIGNAL_DISK_LATENCY,	   /* "reads of vda" */
	OS_SIGNAL_RETRANSMITS,	   /* of the rank: "10.0.0.1:5 to 10.0.0.2:6" */
	OS_SIGNAL_RETRANSMIT_WAIT, /* the same subject */
	OS_SIGNAL_RETRANSMITS_OTHER,
	OS_SIGNAL_LOCK_WAIT,
	OS_SIGNAL_LOCK_PLACE,  /* "d_alloc_parallel in lookup_open, also find (pid 7)" */
	OS_SIGNAL_FILE_LOCK,   /* who holds it: "python3 (pid 7)" */
	OS_SIGNAL_THROTTLED,   /* by the CPU limit of its cgroup */
	OS_SIGNAL_PRESSURE,    /* "cpu", "memory", "io" of the host; "cpu in its cgroup" */
	OS_SIGNAL_STEAL,       /* of the machine, mean over its CPUs */
	OS_SIGNAL_FIRST_TOUCH, /* of the machine */
	OS_SIGNAL_CPU_CLOCK,   /* of the CPUs that its threads use: "its CPUs (at most 3100 MHz)" */
	OS_SIGNAL_REFAULTS,    /* under the memory limit of its cgroup or of one above: "64 MB" */
	OS_SIGNAL_IO_LIMIT,    /* of its cgroup or one above: "reads of vda (1 MB/s)" */
	OS_SIGNAL_LINK_TIME,   /* the library's transfers: "2 to 3 of communicator c0ffee" */
	OS_SIGNAL_LINK_WAIT,   /* the same subject */
	/* what NCCL reports about the job: "rank 2 of 0xc0ffee does not answer" */
	OS_SIGNAL_NCCL_RAS,
	/* of the rank's GPU: "GPU 3" */
	OS_SIGNAL_GPU_SM_CLOCK, /* "GPU 3 (at most 1980 MHz)" */
	OS_SIGNAL_GPU_MEM_CLOCK,
	OS_SIGNAL_GPU_THROTTLE, /* "power cap of GPU 3", "heat (hardware) of GPU 3" */
	OS_SIGNAL_GPU_TEMPERATURE,
	OS_SIGNAL_GPU_POWER,
	OS_SIGNAL_GPU_UTILISATION,
	OS_SIGNAL_GPU_ECC,
	OS_SIGNAL_GPU_ECC_UNCORRECTED,
	OS_SIGNAL_GPU_PCIE_REPLAYS,
	OS_SIGNAL_GPU_PCIE_LINK,
	OS_SIGNAL_GPU_XID,    /* "XID 79 of GPU 3" */
	OS_SIGNAL_GPU_OTHERS, /* processes of others: "python3 (pid 7) on GPU 3" */
	OS_SIGNAL_KINDS
};

/* When a signal counts as raised compared with its usual value; unknown: usual < 0. */
enum os_signal_rule {
	OS_SIGNAL_GROWS = 0, /* above usual by `raised`, and above twice usual; unknown: above five
			      * times `raised` */
	OS_SIGNAL_RISES,     /* a level: above usual by `raised`; unknown: never */
	OS_SIGNAL_FALLS,     /* a level: below usual by the share `raised`; unknown: never */
	OS_SIGNAL_REACHES,   /* a level: at least `raised`, and usually less */
	OS_SIGNAL_EVER,	     /* whenever it is not 0 */
};
struct os_signal_info {
	const char *name, *unit;
	double notable; /* reported from this value on; HUGE_VAL: only if raised or a total */
	double raised;	/* parameter of the rule; HUGE_VAL: never */
	bool total;	/* always reported */
	bool weighs;	/* ms/s of the rank's own threads: weight_ms is meaningful */
	/* %v the value, %s the subject, %w its first word, %r the rest of it */
	const char *sentence;
	enum os_signal_rule rule;
	bool level; /* the value is a mean of readings, not a sum per second */
};
const struct os_signal_info *os_signal_info(enum os_signal_kind kind);
/* OS_SIGNAL_KINDS: the name is not in the table. */
enum os_signal_kind os_signal_find(const char *name);

/* Fills the signal from the table: name, unit and flags, with OS_SIGNAL_RAISED by the kind's rule.
 * usual < 0: unknown. step_ms: the window's median step; 0: unknown. */
void os_signal_make(struct os_signal *s, enum os_signal_kind kind, const char *subject,
		    double value, double usual, double step_ms);
/* Whether to report it: raised, total or notable. */
bool os_signal_is_notable(const struct os_signal *s);
/* qsort: raised first, then by strength, then by name and subject. */
int os_signal_order(const void *a, const void *b);
/* Adds *s to list[*count]. If the list has a signal with the same name and subject, the stronger of
 * the two stays. A full list drops its weakest signal that is not a total. */
void os_signal_put(struct os_signal *list, uint32_t *count, uint32_t max,
		   const struct os_signal *s);
/* "NET_RX soft interrupts took 310 ms/s from thread nccl-comm on CPU 1 (usually 2)". Returns out.
 */
const char *os_signal_text(const struct os_signal *s, char *out, size_t bytes);
/* Only the end of that text: " (usually 2)"; "" if the usual value is unknown. */
const char *os_signal_usual_text(const struct os_signal *s, char *out, size_t bytes);
