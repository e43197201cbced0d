/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * os_signals_format.h - the counters of the OS signals' kernel side. Values only grow, and user space takes
 * differences. Times are in nanoseconds. Process and thread numbers are those of the daemon's PID
 * namespace. */
#pragma once

#include <linux/types.h>

#define OS_SOFTIRQ_COUNT                                                                           \
	10u /* HI, TIMER, NET_TX, NET_RX, BLOCK, IRQ_POLL, TASKLET, SCHED, HRTIMER, RCU */
#define OS_PROCESS_MAX 1024u
#define OS_THREAD_MAX  8192u
#define OS_CPU_MAX     1024u   /* size of the CPU to NUMA node table */
#define OS_WAIT_MIN_NS 100000u /* shorter waits for a CPU blame nobody */
/* Of shorter contentions, and of contentions of processes that are not watched, only one in OS_LOCK_SAMPLE
 * is counted, for all. */
#define OS_LOCK_LONG_NS	     100000u
#define OS_LOCK_SAMPLE	     16u
#define OS_LOCK_STACK_FRAMES 32u

/* Per CPU. */
struct os_cpu {
	__u64 softirq_ns[OS_SOFTIRQ_COUNT], irq_ns;
	__u64 softirq_since, irq_since; /* 0: not in one */
	__u64 irq_within;		/* interrupt time inside the softirq that runs */
	__u64 packets;			/* received by NET_RX */
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
	__u32 root; /* the rank's process: this one or an ancestor */
	__u32 pad;
	__u64 run_wait_ns;
	__u64 migrations, node_migrations; /* to another CPU; to another NUMA node */
	__u64 numa_moves, pages_migrated;
	__u64 faults;
	__u64 block_ns, block_count; /* requests that its threads issued */
	__u64 io_wait_ns;	     /* its threads' sleeps for storage */
	__u64 lock_ns;
};

/* A thread of a watched process. */
struct os_thread {
	__u32 tid, pid;
	__u32 cpu;    /* the last one */
	__u32 on_cpu; /* 1: it runs now */
	char comm[16];
	__u64 switches; /* to and from a CPU */
	__u64 io_since; /* since when it sleeps for storage; 0: it does not */
	/* with task storage, at io_since: how often it had got a CPU, and how long it had waited for one */
	__u64 io_times, io_delay_ns;
	__u64 run_wait_ns, io_wait_ns;
	__u64 softirq_ns[OS_SOFTIRQ_COUNT], irq_ns; /* interrupt time while it ran */
	__u64 lock, lock_since_ns;		    /* the lock that it waits for; 0: none */
	__u64 runnable_since_ns;		    /* without task storage; 0: running or asleep */
	/* the kernel's counters when they were last added to the process */
	__u64 counted_wait_ns, counted_faults, counted_migrations;
};

/* A process that ran while a watched process waited for the CPU. */
#define OS_NOT_OURS (1u << 31) /* a number of the first PID namespace: the process is not in ours */
struct os_behind_key {
	__u32 pid;   /* the process that waited */
	__u32 other; /* the process that ran */
};
struct os_behind {
	__u64 ns;
	char comm[16]; /* "": not known */
};

struct os_disk {
	__u64 ns, count;
};
struct os_disk_key {
	__u32 device; /* major << 20 | minor */
	__u32 write;
};

struct os_connection {
	__u8 source[16], destination[16];    /* IPv4: the first four bytes */
	__u16 source_port, destination_port; /* host order */
	__u16 family, pad;
};

/* Retransmissions of one connection. User space reads the first two fields. */
struct os_retransmits {
	__u64 segments;	 /* lost and sent again */
	__u64 waited_ns; /* how long the sender waited until it sent them again */
	__u64 at_ns;	 /* the last time; 0: none */
	__u64 probe_ns;	 /* if the last one was a probe: its wait; else 0 */
	/* the socket's counts: of all at the last time; of lost ones when `segments` last grew */
	__u32 sent, counted;
};

/* Contention of kernel locks and futexes at one place by one watched process. */
#define OS_LOCK_ADDRESSES 4u
struct os_lock_key {
	__u32 pid;
	__s32 stack; /* of os_lock_stacks; negative: unknown */
};
struct os_lock {
	__u64 ns, count;
	__u64 lock[OS_LOCK_ADDRESSES]; /* recent addresses, each in its own slot; 0: none */
};
/* A process that waits for a lock, watched or not. */
struct os_lock_user_key {
	__u64 lock;
	__u32 pid, tid; /* tid: of a watched process's thread, but its first; else 0 */
};
struct os_lock_user {
	__u64 ns;
	char comm[16];
};

/* The device of packets of NET_RX: one in OS_PACKET_SAMPLE is counted, for all. */
#define OS_PACKET_SAMPLE 64u
struct os_device_key {
	__u32 cpu;
	__s32 index; /* of the interface, in its network namespace */
	__u32 netns; /* inode of the namespace */
	__u32 pad;
};
struct os_device {
	__u64 packets;
	char name[16];
};

enum os_counter {
	OS_LOST_THREADS = 0, /* no room to follow a thread */
	OS_LOST_OTHERS,	     /* no room for a process that ran instead */
	OS_LOST_BLOCK,	     /* no room for a request in flight */
	OS_LOST_LOCKS,
	OS_LOST_PROCESSES, /* no room to follow a child */
	OS_COUNTER_MAX
};
