/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * sampler_format.h - the structs between the sampler's kernel side and user side. The kernel counts in two
 * sets, used in turn. Each stack is sent once per period through the ring, as a struct sampler_stack. */
#pragma once

#include <linux/types.h>

#include "bpf/unwind_format.h"

/* The kernel truncates deeper kernel stacks (kernel.perf_event_max_stack). */
#define SAMPLER_KERNEL_FRAME_MAX 127u

/* Blocked time, and samples of processes outside `processes`, are counted over this many slices together:
 * they have many counts, and no step needs finer ones. */
#define SAMPLER_COARSE_SLICES 10u

#define SAMPLER_OTHERS_ALL    1
#define SAMPLER_OTHERS_KERNEL 2

/* User space writes it while programs run. */
struct sampler_control {
	__u32 epoch;		/* of the drain period; its last bit is the set to use */
	__u32 fraction_percent; /* the share of ticks that take a sample */
	__u64 weight_ns; /* of one on-CPU sample: the tick's period divided by the fraction */
	__u64 period_ns; /* of the ticks: the weight of a sample of a recorded thread */
	__u64 slice_ns;	 /* 0: one slice per period */
	__u64 off_cpu_min_ns;
	/* Processes outside `processes` get kernel stacks. SAMPLER_OTHERS_ALL: they will be added soon, so
	 * a missing user stack is a loss; SAMPLER_OTHERS_KERNEL: they will not. */
	__u32 all_processes;
	__u32 off_cpu;	     /* blocked time is sampled */
	__u32 switch_wanted; /* look for threads in `switch_wanted` */
	__u32 pad;
};
_Static_assert(sizeof(struct sampler_control) == 56, "");

enum sampler_kind {
	SAMPLER_ON_CPU = 1, /* as enum stack_sample_kind (model/stack.h) */
	SAMPLER_OFF_CPU = 2,
};

struct sampler_process {
	struct unwind_process maps;
	__u64 generation; /* grows by 1 with each change of mappings; samples keep the low 8 bits */
};

/* Samples with equal keys share a count. Hash 0: no such stack. */
struct sampler_key {
	__u64 user_hash, kernel_hash, python_hash;
	__u32 pid, tid;
	__u32 slice;	 /* CLOCK_MONOTONIC divided by slice_ns */
	__u8 kind;	 /* enum sampler_kind */
	__u8 gil;	 /* enum stack_gil */
	__u8 end;	 /* enum unwind_end of the user stack */
	__u8 generation; /* of the mappings used for unwinding */
};
_Static_assert(sizeof(struct sampler_key) == 40, "");

struct sampler_count {
	__u64 weight_ns;
	__u32 count;
	__u32 cpu; /* cpu, names and waker: of the first sample */
	__u32 waker_tid;
	char comm[16];
	char waker_comm[16];
	__u32 pad;
};
_Static_assert(sizeof(struct sampler_count) == 56, "");

/* One blocked thread of a sampled process, from its switch-out to its switch-in. */
struct sampler_blocked {
	struct sampler_key key;
	__u64 since_ns;
	__u64 site; /* key in `sites` */
	__u32 cpu;
	__u32 waker_tid;
	char comm[16];
	char waker_comm[16];
};
_Static_assert(sizeof(struct sampler_blocked) == 96, "");

enum sampler_stack_kind {
	SAMPLER_STACK_USER = 1, /* frames: SAMPLER_FRAME_* */
	SAMPLER_STACK_KERNEL,	/* frames: kernel addresses */
	SAMPLER_STACK_PYTHON,	/* a struct python_state up to its frames, then the frames */
};

/* Head of a ring record; the frames follow, leaf first. */
struct sampler_stack {
	__u64 hash;
	__u32 epoch;
	__u32 pid, tid;
	__u16 count; /* frames */
	__u8 kind;   /* enum sampler_stack_kind */
	__u8 pad;
};
_Static_assert(sizeof(struct sampler_stack) == 24, "");

/* A user frame is relative to its file, so that all processes share the stack. */
#define SAMPLER_FRAME_RETURN	  UNWIND_FRAME_RETURN
#define SAMPLER_FRAME_SCANNED	  UNWIND_FRAME_SCANNED
#define SAMPLER_FRAME_FP	  UNWIND_FRAME_FP
#define SAMPLER_FRAME_ANONYMOUS	  (1ull << 60) /* low 56 bits: the virtual address */
#define SAMPLER_FRAME_OFFSET_BITS 39 /* else low 39 bits: address minus unwind_mapping.bias, */
#define SAMPLER_FRAME_BARE	  (1ull << 39) /* which depends on whether the file had a table then, */
#define SAMPLER_FRAME_FILE_SHIFT  40	       /* and 20 bits: unwind_mapping.file */
#define SAMPLER_FRAME_FILE_MASK	  0xfffffu

/* ---- switch records: each time off the CPU of a few threads ---- */

/* A node of 16 ranks, each with 32 threads that launch or communicate. */
#define SAMPLER_SWITCH_THREADS 512u
/* A quiet thread may send at once the records that its rate allows in this time. */
#define SAMPLER_SWITCH_BURST_NS 1000000000ull

/* As enum stack_switch_state (model/stack.h). */
enum sampler_switch_state {
	SAMPLER_SWITCH_RUNNABLE = 0,
	SAMPLER_SWITCH_INTERRUPTIBLE,
	SAMPLER_SWITCH_UNINTERRUPTIBLE,
	SAMPLER_SWITCH_STOPPED,
	SAMPLER_SWITCH_UNKNOWN,
	SAMPLER_SWITCH_IO,
	SAMPLER_SWITCH_WOKEN,
	SAMPLER_SWITCH_STATES,
};

enum sampler_switch_kind {
	SAMPLER_SWITCH_RECORD = 1, /* struct sampler_switch, with stacks if there are any */
	SAMPLER_SWITCH_SKIPPED,	   /* struct sampler_switch_skipped */
};

/* A number of the first PID namespace: the task is not in the daemon's. */
#define SAMPLER_SWITCH_NOT_OURS (1u << 31)
/* Instead of a waker: the thread's own timer, or one that ended what it waited for. */
#define SAMPLER_WAKER_TIMER (~0u)
/* Added to a waker's number, which is below 2^22. NETWORK: packets woke the thread. PROCESS: another
 * process did, by a system call; with CHILD, a descendant of the thread's process. */
#define SAMPLER_WAKER_NETWORK (1u << 22)
#define SAMPLER_WAKER_PROCESS (1u << 23)
#define SAMPLER_WAKER_CHILD   (1u << 24)
#define SAMPLER_WAKER_BITS    (SAMPLER_WAKER_NETWORK | SAMPLER_WAKER_PROCESS | SAMPLER_WAKER_CHILD)

struct sampler_switch_stacks {
	__u64 user_hash, kernel_hash, python_hash; /* 0: none */
	__u8 end, gil, generation, pad[5];	   /* as in struct sampler_key */
};
_Static_assert(sizeof(struct sampler_switch_stacks) == 32, "");

/* As enum stack_taken (model/stack.h). */
enum sampler_taken {
	SAMPLER_TAKEN_DEVICE = 0, /* interrupt handlers of devices and of the CPU's clock */
	SAMPLER_TAKEN_TIMER,	  /* soft interrupts, by vector */
	SAMPLER_TAKEN_NET_TX,
	SAMPLER_TAKEN_NET_RX,
	SAMPLER_TAKEN_BLOCK,
	SAMPLER_TAKEN_TASKLET,
	SAMPLER_TAKEN_SCHED,
	SAMPLER_TAKEN_RCU,
	SAMPLER_TAKEN_STEAL,	 /* the hypervisor ran others */
	SAMPLER_TAKEN_THROTTLED, /* the CPU limit of its cgroup stopped it */
	SAMPLER_TAKEN_KINDS
};

/* What was taken from the time on the CPU; THROTTLED: from the time off the CPU after it. */
struct sampler_switch_taken {
	__u32 ns[SAMPLER_TAKEN_KINDS]; /* UINT32_MAX: at least that */
	__u32 faults;		       /* page faults */
	__u32 pad;
};
_Static_assert(sizeof(struct sampler_switch_taken) == 48, "");

/* One time off the CPU. Times are CLOCK_MONOTONIC. */
struct sampler_switch {
	__u32 tid;
	__u8 kind; /* enum sampler_switch_kind */
	__u8 state;
	__u16 cpu; /* the CPU that it left */
	__u64 out_ns, in_ns;
	__u64 woken_ns; /* 0: it stayed runnable, or its wake-up was not seen */
	__u32 next_tid; /* the thread that got the CPU next; 0: none */
	__u32
	    waker_tid; /* 0: an interrupt, or unknown; or SAMPLER_WAKER_TIMER; with SAMPLER_WAKER_* */
	/* left out if there are none and nothing was taken */
	struct sampler_switch_stacks stacks;
	/* left out if nothing was taken */
	struct sampler_switch_taken taken;
};
#define SAMPLER_SWITCH_BARE_BYTES  40u
#define SAMPLER_SWITCH_STACK_BYTES 72u
_Static_assert(sizeof(struct sampler_switch) == 120, "");

/* Why a switch has no record. */
enum sampler_switch_cause {
	SAMPLER_SWITCH_PACED = 0, /* the thread switches more often than its rate */
	SAMPLER_SWITCH_RING_FULL,
	SAMPLER_SWITCH_MISSED, /* the kernel called no probe; its length is not known */
	SAMPLER_SWITCH_CAUSES,
};

/* Times off the CPU without a record. Sums only grow: user space takes differences. */
struct sampler_switch_skipped {
	__u32 tid;
	__u8 kind;
	__u8 pad[3];
	__u64 from_ns, until_ns; /* since the last record: when it first left and last came back */
	__u64 ns[SAMPLER_SWITCH_STATES];
	__u64 count[SAMPLER_SWITCH_CAUSES];
	__u64 taken_ns[SAMPLER_TAKEN_KINDS], faults; /* of the time on the CPU before each */
};
_Static_assert(sizeof(struct sampler_switch_skipped) == 192, "");

enum sampler_switch_phase {
	SAMPLER_SWITCH_IGNORED = 0, /* not recorded, or the thread has ended */
	SAMPLER_SWITCH_BEGUN, /* recorded from since_ns on; whether on or off the CPU is not known */
	SAMPLER_SWITCH_ON,
	SAMPLER_SWITCH_OFF,
	SAMPLER_SWITCH_ENDED, /* the thread is gone */
};

/* A thread whose switches are recorded. User space creates and deletes it, and writes it while its phase is
 * IGNORED. A reader must read phase before the fields after it. */
struct sampler_switch_thread {
	__u32 tid, pid;	 /* in the daemon's PID namespace */
	__u32 first_pid; /* in the first one */
	__u32 phase;	 /* enum sampler_switch_phase */
	__u64 out_ns;	 /* when it last left a CPU, or ended */
	__u64 since_ns;
	__u64 in_ns, woken_ns;
	__u64 cost_ns; /* of one record: a second divided by the rate */
	__u64 credit_ns, credit_at_ns;
	__u64 recorded;
	__u32 next_tid, waker_tid;
	__u32 skipping; /* since the last record */
	__u16 cpu;
	__u8 state;
	__u8 pad;
	struct sampler_switch_stacks stacks;
	struct sampler_switch_skipped skipped;
	/* taken from it since it got the CPU */
	struct sampler_switch_taken taken;
	__u64 soft_since_ns, device_since_ns; /* 0: not in one */
	__u64 device_within_ns;		      /* device interrupts inside the soft interrupt */
	/* the kernel's counts: the CPU's steal when it got the CPU; the thread's page faults that are in a
	 * record or in `taken`; the queue's throttled time when it left */
	__u64 steal_ns, faults, throttled_ns;
	__u64 queue;	/* the queue's address, to compare */
	__u64 delay_ns; /* the kernel's count of waits for a CPU when it left */
	__u32 on_known; /* steal_ns is valid since in_ns */
	__u32 faults_known;
};
_Static_assert(sizeof(struct sampler_switch_thread) == 440, "");

/* Marks of threads, by the low bits of their number in the first PID namespace. Separate bytes, since the
 * kernel writes one while user space writes the other. */
#define SAMPLER_MARKS 65536u
struct sampler_mark {
	__u8 asleep, recorded;
};
/* The same of processes. */
#define SAMPLER_MARK_SAMPLED  1u
#define SAMPLER_MARK_RECORDED 2u

/* Counters, per CPU, since load. */
enum sampler_counter {
	SAMPLER_COUNT_TAKEN = 0, /* on-CPU samples and blocking events */
	SAMPLER_COUNT_FRAMES,	 /* their user and kernel frames */
	SAMPLER_COUNT_SCANNED,	 /* with a scanned frame */
	SAMPLER_COUNT_FULL,	 /* lost: the set of counts was full */
	SAMPLER_COUNT_RING_FULL, /* stacks without room in the ring; the next sample sends them */
	SAMPLER_COUNT_BLOCKED_FULL, /* lost: no room for a blocked thread */
	SAMPLER_COUNT_SHORT,	    /* blocking events below the threshold: neither kept nor lost */
	SAMPLER_COUNT_UNSTACKED, /* long blocking events at places of short ones: only the leaf */
	SAMPLER_COUNT_CAPTURES,	 /* stacks taken at switch-out */
	SAMPLER_COUNT_PYTHON_FRAMES,
	SAMPLER_COUNT_PYTHON_FAILED,
	SAMPLER_COUNT_TARGET_RUNS, /* ticks that took a sample */
	SAMPLER_COUNT_TARGET_NS,   /* their time, from choosing to counting */
	SAMPLER_COUNT_CAPTURE_NS,  /* time at switch-outs of sampled threads */
	SAMPLER_COUNT_NO_REGS,	   /* kernel stack only: the user registers could not be read */
	SAMPLER_COUNT_UNMAPPED,	   /* lost user stack: the process has no mapping yet */
	SAMPLER_COUNT_END,	   /* by enum unwind_end from here */
	SAMPLER_COUNT_MAX = SAMPLER_COUNT_END + UNWIND_END_COUNT,
};
