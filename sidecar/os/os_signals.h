/* SPDX-License-Identifier: Apache-2.0
 * os_signals.h - what the operating system does to the threads of the ranks, per second: from BPF
 * (bpf/os_signals.bpf.c) and /proc, stored in sidecar/os/os_series.h; docs/os-signals.md.
 * Owns: BPF programs and maps, the series. Threads: one caller. Trust: names and cgroup paths come
 * from the job's container: bounded, copied. Without BPF (not built in, no BTF, not allowed) the
 * signals from /proc remain, and stats give the reason. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/os_signal.h"

struct os_signals;

struct os_signals_options {
	const char *proc_root, *sys_root; /* NULL: /proc, /sys; borrowed */
	struct canary *canary;		  /* measures stalls of the machine; borrowed, may be
					   * NULL */
	bool no_bpf;			  /* only /proc */
	/* programs not to load, comma-separated; "task_storage" keeps the threads' rows in a hash
	 * instead; may be NULL */
	const char *without;
	double bpf_budget; /* share of the time of all CPUs for the programs; 0: no limit */
};

struct os_signals_stats {
	bool bpf;
	char why[160]; /* why BPF is off */
	/* what this kernel lacks, such as programs that it cannot load, with the reason */
	char missing[320];
	uint32_t ranks, processes, threads; /* watched now */
	uint32_t series;
	uint64_t lost_threads, lost_others, lost_block, lost_locks,
	    lost_processes;	 /* no room in the kernel */
	uint64_t lost_series;	 /* no room here */
	uint64_t reads, read_ns; /* reads of the maps, and the CPU time that they took */
	uint64_t map_bytes;
	/* the programs' cost in the last measured second, as a share of the time of all CPUs */
	double cost, budget;
	uint64_t cost_measurements; /* 0: not yet, or the kernel has no run-time statistics (5.8) */
	char turned_down[160];	    /* groups of programs detached for their cost; "" none */
};

/* 0, even without BPF; -ENOMEM. */
int os_signals_open(struct os_signals **out, const struct os_signals_options *o, uint64_t now_ns);
void os_signals_close(struct os_signals *s); /* NULL is a no-op */
/* Watches a rank's process with its children, present and future. Idempotent. 0, -ENOSPC. */
int os_signals_watch(struct os_signals *s, uint32_t pid, uint64_t now_ns);
void os_signals_unwatch(struct os_signals *s, uint32_t pid);
bool os_signals_watches(const struct os_signals *s, uint32_t pid);
/* The process of the n-th watched rank; 0: no more. */
uint32_t os_signals_rank(const struct os_signals *s, uint32_t n);
/* closer: a rank is a suspect, so groups detached for their cost are attached briefly. */
void os_signals_closer(struct os_signals *s, bool closer);
/* While paused nothing is counted. Meant for times without a watched rank. */
void os_signals_pause(struct os_signals *s, bool paused);
/* Reads everything; call it once a second. Takes about a millisecond. */
void os_signals_read(struct os_signals *s, uint64_t now_ns);
/* Fills list with the rank's notable signals between begin and end, most important first, and with
 * the totals. step_ms: median step of the window, 0 unknown. unusual: the window is an anomaly, so
 * its time is not usual for later windows. Returns the number of signals. */
uint32_t os_signals_window(struct os_signals *s, uint32_t pid, uint64_t begin_ns, uint64_t end_ns,
			   double step_ms, bool unusual, struct os_signal *list, uint32_t max);
/* These two add what other code measured about a watched rank: a reading of a level, or a count
 * since the last call. key: distinguishes several signals of a kind; below 2^56. */
void os_signals_level(struct os_signals *s, uint32_t pid, enum os_signal_kind kind, uint64_t key,
		      double value, const char *subject);
void os_signals_count(struct os_signals *s, uint32_t pid, enum os_signal_kind kind, uint64_t key,
		      double value, const char *subject);
void os_signals_stats(const struct os_signals *s, struct os_signals_stats *out);
