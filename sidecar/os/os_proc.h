/* SPDX-License-Identifier: Apache-2.0
 * os_proc.h - read processes, cgroups, sockets and NUMA nodes from /proc and /sys.
 * proc and sys: where they are mounted; tests pass recorded trees. Everything read is bounded.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/os_signals_format.h"
#include "sidecar/os/os_hierarchy.h"

struct os_proc_stat {
	uint32_t parent;
	uint64_t faults, faults_major;
};
/* 0, -ESRCH. */
int os_proc_stat(const char *proc, uint32_t pid, struct os_proc_stat *out);
/* Finds the living descendants of root, without the processes in others and their descendants; at
 * most max. */
uint32_t os_proc_children(const char *proc, uint32_t root, const uint32_t *others,
			  uint32_t other_count, uint32_t *out, uint32_t max);
/* Name of a thread (pid: its process); "?" if it has ended. */
void os_proc_name(const char *proc, uint32_t pid, uint32_t tid, char *out, size_t bytes);
/* Calls fn for each thread with its total wait for a CPU; at most 512 threads. */
void os_proc_run_wait(const char *proc, uint32_t pid,
		      void (*fn)(void *arg, uint32_t tid, uint64_t wait_ns), void *arg);
/* The "some" total of /proc/pressure/WHAT, in microseconds since boot; -ENOENT. */
int os_proc_pressure(const char *proc, const char *what, uint64_t *us);
/* A process that waits for a file lock, and the process that holds it. */
struct os_proc_lock {
	uint32_t waits, holds;
};
/* Returns their number, at most max. Locks of open file descriptions name no process and are left
 * out. */
uint32_t os_proc_locks(const char *proc, struct os_proc_lock *out, uint32_t max);
/* Time since boot in which the hypervisor ran other guests while a CPU of this machine had work, in
 * us, summed over the CPUs (/proc/stat); -ENOENT. */
int os_proc_steal(const char *proc, uint64_t *us);
/* The present and the highest possible clock of a CPU, MHz. 0; -ENOENT: not readable. */
int os_proc_clock(const char *sys, uint32_t cpu, double *mhz, double *most_mhz);

/* Levels of cgroups that are read: a process's own group and its ancestors, v1 or v2. */
#define OS_PROC_CGROUP_LEVELS 8
struct os_proc_cgroup_dirs { /* the groups whose limits bind a process, its own first */
	char path[OS_PROC_CGROUP_LEVELS][OS_CGROUP_BYTES];
	uint32_t count;
	bool v2; /* in the unified hierarchy */
};
struct os_proc_cgroup {
	char path[OS_PROC_CGROUP_LEVELS][OS_CGROUP_BYTES];
	uint32_t count;
	char unified[OS_CGROUP_BYTES]; /* the group's directory in the v2 hierarchy; "" none */
	struct os_proc_cgroup_dirs io, memory;
	bool hidden; /* the group is in another container, and this process may not read it */
};
void os_proc_cgroup_find(struct os_hierarchies *h, const char *proc, const char *sys, uint32_t pid,
			 struct os_proc_cgroup *out);
/* Adds up how long these groups have throttled their tasks. False: no group counts this. */
bool os_proc_cgroup_throttled(const struct os_proc_cgroup *c, uint64_t *ns);

/* The "some" total of the group's own cpu, memory or io pressure (v2), in microseconds; -ENOENT. */
int os_proc_cgroup_pressure(const struct os_proc_cgroup *c, const char *what, uint64_t *us);
struct os_proc_memory {
	uint32_t level; /* 0: its own group's */
	uint64_t limit_bytes;
	uint64_t refaults; /* pages evicted under that limit and read again, so far */
};
/* The lowest memory limit of the group and its ancestors. False: no limit. */
bool os_proc_cgroup_memory(const struct os_proc_cgroup *c, struct os_proc_memory *out);
/* An I/O limit of the group or an ancestor, and the I/O that counted so far. */
struct os_proc_io_limit {
	uint32_t device; /* major << 20 | minor */
	uint32_t level;	 /* 0: its own group's */
	bool write;
	uint64_t bytes_max, ops_max; /* per second; 0: none */
	uint64_t bytes, ops;
};
/* The limits that are set; their number, at most max. */
uint32_t os_proc_cgroup_io(const struct os_proc_cgroup *c, struct os_proc_io_limit *out,
			   uint32_t max);

/* Writes the NUMA node of each CPU to table (OS_CPU_MAX bytes). Returns the number of nodes. */
uint32_t os_proc_numa(const char *sys, uint8_t *table);
/* "vda" for a device number of the block programs (major << 20 | minor). */
void os_proc_disk_name(const char *sys, uint32_t device, char *out, size_t bytes);
/* Names a network namespace. "": it is that of the host's first process, or our own. Otherwise its
 * `ip netns` name, or "netns:[INODE]". */
void os_proc_netns_name(const char *proc, uint32_t inode, char *out, size_t bytes);
/* Finds which of the processes has the connection's socket; 0: none. Reads their net/tcp and
 * descriptors. */
uint32_t os_proc_socket_owner(const char *proc, const uint32_t *pids, uint32_t count,
			      const struct os_connection *c);
