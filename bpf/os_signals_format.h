/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * os_signals_format.h - what the kernel side of the OS signals counts. All values only grow; user space
 * takes differences. Times in nanoseconds. Process and thread numbers are those of the daemon's PID
 * namespace. */
#ifndef SYSOM_BPF_OS_SIGNALS_FORMAT_H
#define SYSOM_BPF_OS_SIGNALS_FORMAT_H

#include <linux/types.h>

#define OS_SOFTIRQ_COUNT 10u /* HI, TIMER, NET_TX, NET_RX, BLOCK, IRQ_POLL, TASKLET, SCHED, HRTIMER, RCU */
#define OS_LATENCY_BUCKETS 24u /* bucket i: below 2^i microseconds */
#define OS_PROCESS_MAX 1024u
#define OS_THREAD_MAX 8192u
#define OS_CPU_MAX 1024u /* of the CPU to NUMA node table */
#define OS_WAIT_MIN_NS 100000u /* shorter waits for a CPU are not laid at anybody's door */
#define OS_LOCK_LONG_NS 100000u /* of shorter contentions one in OS_LOCK_SAMPLE stands for all */
#define OS_LOCK_SAMPLE 16u
#define OS_LOCK_STACK_FRAMES 32u

/* Per CPU. */
struct os_cpu {
	__u64 softirq_ns[OS_SOFTIRQ_COUNT], softirq_count[OS_SOFTIRQ_COUNT];
	__u64 irq_ns, irq_count;
	__u64 softirq_since, irq_since; /* 0: not in one */
	__u64 irq_within;		/* interrupt time inside the softirq that runs */
};

/* One interrupt line on one CPU. */
struct os_irq_key {
	__u32 cpu, irq;
};
struct os_irq {
	__u64 ns, count;
	char name[16];
};

/* A watched process. */
struct os_process {
	__u32 root; /* the rank's process that it descends from, or is */
	__u32 pad;
	__u64 run_wait_ns, run_wait_count, run_wait_max_ns;
	__u64 run_wait_hist[OS_LATENCY_BUCKETS];
	__u64 migrations, node_migrations; /* to another CPU; to another NUMA node */
	__u64 numa_moves, pages_migrated;
	__u64 faults;
	__u64 block_ns, block_count, block_bytes; /* requests that it issued itself */
	__u64 io_wait_ns, io_wait_count;	  /* its threads' sleeps in wait for storage */
	__u64 lock_ns, lock_count;
};

/* A thread of a watched process. */
struct os_thread {
	__u32 pid, cpu; /* last run on */
	char comm[16];
	__u32 on_cpu;	      /* 1: it runs now */
	__u32 pad;
	__u64 switches;	      /* times it came to run */
	__u64 runnable_since; /* 0: running or asleep */
	__u64 io_since;	      /* asleep in wait for storage since; 0: not */
	__u64 run_wait_ns, run_wait_count, io_wait_ns;
	__u64 softirq_ns[OS_SOFTIRQ_COUNT], irq_ns; /* taken from it while it ran */
	__u64 migrations;
};

/* Who ran while a watched process waited for the CPU. */
struct os_behind_key {
	__u32 pid;	/* of the one that waited */
	__u32 other;	/* of the one that ran */
};
struct os_behind {
	__u64 ns, count;
	char comm[16];
};

struct os_disk {
	__u64 ns, count, bytes, max_ns;
	__u64 hist[OS_LATENCY_BUCKETS];
};
struct os_disk_key {
	__u32 device; /* major << 20 | minor */
	__u32 write;
};

struct os_connection {
	__u8 source[16], destination[16]; /* IPv4: the first four bytes */
	__u16 source_port, destination_port; /* host order */
	__u16 family, pad;
};

/* Contention of kernel locks and futexes at one place by one process, watched or not. */
struct os_lock_key {
	__u32 pid;
	__s32 stack; /* of lock_stacks; negative: unknown, or of a process that is not watched */
};
struct os_lock {
	__u64 ns, count, max_ns;
	__u64 lock;  /* address of the last one */
	__u32 flags; /* of the last one: spin, read, write, RT, per CPU, mutex */
	char comm[16];
	__u32 pad;
};

enum os_counter {
	OS_LOST_THREADS = 0, /* no room to follow a thread */
	OS_LOST_OTHERS,	     /* no room for who ran instead */
	OS_LOST_BLOCK,	     /* no room for a request under way */
	OS_LOST_LOCKS,
	OS_LOST_PROCESSES,   /* no room to follow a child */
	OS_COUNTER_MAX
};

#endif
