/* SPDX-License-Identifier: Apache-2.0
 * os_signals_private.h - shared by the files of the OS signals. */
#pragma once

#include "base/limits.h"
#include "bpf/os_signals_format.h"
#include "sampler/kernel_symbols.h"
#include "sidecar/os/os_cost.h"
#include "sidecar/os/os_proc.h"
#include "sidecar/os/os_series.h"
#include "sidecar/os/os_signals.h"

/* Kinds of rows that become signals only together with another row. */
enum os_row_kind {
	OS_ROW_IO_NS = OS_SIGNAL_KINDS, /* time of requests that the rank issued */
	OS_ROW_IO_COUNT,
	OS_ROW_DISK_NS, /* key: device << 1 | write */
	OS_ROW_DISK_COUNT,
	OS_ROW_READINGS, /* number of readings of a level; key: kind << 56 | the level's key */
	OS_ROW_MISSED,	 /* ns during which a group of programs was detached; key: enum os_group */
	OS_ROW_KINDS
};

#define OS_CPU_WORDS   (OS_CPU_MAX / 64)
#define OS_UNUSUAL_MAX 16u
#define OS_CONNECTIONS 64u
#define OS_SHARERS     256u
#define OS_PLACES      128u
#define OS_NETNS_NAMES 32u

struct os_rank {
	uint32_t pid; /* 0: free */
	uint64_t since_ns;
	struct os_span unusual[OS_UNUSUAL_MAX]; /* a ring */
	uint32_t unusual_next;
	struct os_proc_cgroup cgroup;
	uint64_t cgroup_at_ns, io_at_ns, memory_at_ns;
	uint64_t cpus[OS_CPU_WORDS]; /* CPUs that its threads used since the last read */
};

struct os_counter_seen {
	uint64_t key; /* 0: free */
	uint64_t value;
	uint64_t serial; /* of the last read that saw it */
};

/* A process that waited for a lock. Used to name the processes that share the lock with a rank. */
struct os_lock_use {
	uint64_t lock;	   /* its address, as a number to compare; 0: free */
	uint32_t pid, tid; /* tid: a thread of a watched process, other than its first; else 0 */
	double ms;	   /* recent wait: halved each second */
	char comm[16];
	uint64_t at_ns;
};

/* The locks at a place where a rank waits. */
struct os_lock_place {
	uint32_t root;
	int32_t stack;
	uint64_t lock[OS_LOCK_ADDRESSES];
	uint64_t at_ns; /* 0: free */
};

/* The device that sent most of a CPU's packets in the last read. */
struct os_feeder {
	uint64_t most, all; /* packets; all 0: none */
	uint32_t netns;
	char name[16];
};

struct os_signals {
	struct os_signals_options options;
	struct os_signals_stats stats;
	struct os_series *series;
	struct os_hierarchies hierarchies;
	struct os_rank ranks[LIMIT_NODE_PROCESSES];
	struct os_counter_seen *seen; /* LIMIT_OS_COUNTERS, open addressing */
	uint32_t seen_count;
	uint64_t serial; /* of reads */
	uint64_t now_ns, children_at_ns;
	uint64_t steal_us, steal_at_ns; /* as last read; 0: never */
	double touch_us;		/* as last measured */
	uint64_t touch_at_ns;		/* 0: never */
	uint64_t locks_at_ns;		/* 0: never */
	bool no_clocks;			/* no CPU has a clock that can be read */
	/* watched processes as of the last read, and their ranks' processes */
	uint32_t pids[OS_PROCESS_MAX], roots[OS_PROCESS_MAX];
	uint32_t pid_count;
	struct os_lock_use uses[OS_SHARERS];
	struct os_lock_place places[OS_PLACES];
	struct os_feeder feeders[OS_CPU_MAX];
	struct {
		uint32_t inode; /* 0: free */
		char name[48];
	} netns[OS_NETNS_NAMES];
	uint32_t netns_next;
	uint32_t numa_nodes;
	uint32_t migrate_arguments; /* of its tracepoint */
	uint8_t node_of_cpu[OS_CPU_MAX];
	struct os_cost cost;
	bool closer; /* a rank is a suspect */
	struct {
		struct os_connection c;
		uint32_t pid; /* 0: it belongs to no watched process */
		bool known;
	} connections[OS_CONNECTIONS];
	uint32_t connection_next;
	struct kernel_symbols *symbols;
	struct os_bpf *bpf; /* os_bpf.c; NULL: off */
	/* one map's content at a time */
	void *keys, *values;
	struct os_thread *threads; /* OS_THREAD_MAX */
	uint64_t lost_rows;	   /* threads beyond that */
};

/* os_signals.c */
struct os_rank *os_signals_find(struct os_signals *s, uint32_t pid);
uint32_t os_signals_root(const struct os_signals *s, uint32_t pid); /* 0: not watched */
/* How much the counter grew since the last read. first: how much of a new counter's value is
 * growth. OS_FIRST_IS_ALL: it began at 0; OS_FIRST_IS_NOTHING: unknown, so nothing counts. */
enum os_first { OS_FIRST_IS_ALL, OS_FIRST_IS_NOTHING };
uint64_t os_signals_delta(struct os_signals *s, uint64_t key, uint64_t value, enum os_first first);
uint64_t os_signals_key(uint32_t map, uint32_t field, const void *key, size_t bytes);

/* The key of the readings of a level. */
uint64_t os_signals_readings_key(uint32_t kind, uint64_t key);

/* os_bpf.c: programs and maps. If bpf is NULL, all but open are no-ops. */
int os_bpf_open(struct os_signals *s); /* fills stats.why and missing; -errno: off */
void os_bpf_close(struct os_bpf *b);
int os_bpf_watch(struct os_bpf *b, uint32_t pid, uint32_t root);
void os_bpf_unwatch(struct os_bpf *b, uint32_t pid);
struct os_signals_program { /* from BPF run-time statistics, while they are on */
	char name[32];
	uint64_t run_count, run_time_ns;
};
/* Fills at most max programs. Returns their number. */
uint32_t os_bpf_programs(const struct os_bpf *b, struct os_signals_program *out, uint32_t max);

enum os_map {
	OS_MAP_CPUS = 0, /* values: one struct os_cpu per possible CPU */
	OS_MAP_IRQS,
	OS_MAP_PROCESSES,
	OS_MAP_THREADS,
	OS_MAP_OTHERS,
	OS_MAP_DISKS,
	OS_MAP_RETRANSMITS,
	OS_MAP_LOCKS,
	OS_MAP_LOCK_USERS,
	OS_MAP_DEVICES,
	OS_MAP_COUNTERS,
	OS_MAP_COUNT
};
/* Adds rows for the threads that watched processes already have. */
void os_bpf_adopt(struct os_signals *s);
/* Reads the rows of all watched threads into s->values. Returns their number. Call it before
 * reading the processes, because it updates their sums. */
uint32_t os_bpf_threads(struct os_signals *s);
enum os_group os_bpf_group(const char *program);
void os_bpf_set_group(struct os_bpf *b, enum os_group group, bool on);
/* Makes the kernel start or stop counting the run times of all BPF programs (5.8). Returns whether
 * it counts. */
bool os_bpf_stats(struct os_bpf *b, bool on);
/* Size of the largest map's keys and values; os_bpf_open checks. */
#define OS_KEYS_BYTES	(256u << 10)
#define OS_VALUES_BYTES (4u << 20)
/* Reads all entries into s->keys and s->values. Returns their number. For a per-CPU map: only
 * values, and returns the number of CPUs. */
uint32_t os_bpf_map(struct os_signals *s, enum os_map map);
void os_bpf_delete(struct os_bpf *b, enum os_map map, const void *key);
/* Reads the stack's addresses, innermost first. Returns their number. */
uint32_t os_bpf_stack(const struct os_bpf *b, int32_t id, uint64_t *out, uint32_t max);
uint64_t os_bpf_bytes(const struct os_bpf *b);

/* os_read.c: maps into series */
void os_read_maps(struct os_signals *s);
/* "d_alloc_parallel in lookup_open" */
void os_read_place(struct os_signals *s, int32_t stack, char *out, size_t bytes);
