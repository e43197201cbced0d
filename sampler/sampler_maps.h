/* SPDX-License-Identifier: Apache-2.0
 * sampler_maps.h - the kernel side for user space: loads the programs of bpf/, owns their maps,
 * swaps and drains the sets. Owns: BPF objects, maps, links.  Threads: one caller.  Needs CAP_BPF
 * and CAP_PERFMON (or root) and the kernel's BTF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/python_format.h"
#include "bpf/sampler_format.h"
#include "sampler/sampler_options.h"
#include "sampler/unwind/unwind_store.h"

struct sampler_maps;
/* mode: SAMPLER_BPF_LOOP or SAMPLER_BPF_TAIL. 0; or -errno and the reason in `why`. missing:
 * features that this kernel lacks, "" if none. */
int sampler_maps_open(struct sampler_maps **out, enum sampler_mode mode,
		      const struct sampler_options *o, char why[160], char missing[160]);
void sampler_maps_close(struct sampler_maps *m); /* NULL is a no-op */
/* Attaches the on-CPU program to a perf event of one CPU (borrowed). */
int sampler_maps_attach(struct sampler_maps *m, int perf_fd);
/* Whether to observe threads that sleep and wake. Initially on if the options say so. Restarts the
 * recording of switches. 0, -errno. */
int sampler_maps_off_cpu(struct sampler_maps *m, bool on);

/* Fills in the backing that keeps tables in the kernel's arrays. *out borrows m. */
void sampler_maps_backing(struct sampler_maps *m, struct unwind_backing *out);
int sampler_maps_process(struct sampler_maps *m, uint32_t pid, const struct unwind_process *p,
			 uint8_t generation);
void sampler_maps_process_remove(struct sampler_maps *m, uint32_t pid);
/* p NULL: removes it. 0; -E2BIG: no room for more interpreters. */
int sampler_maps_python(struct sampler_maps *m, uint32_t pid, const struct python_process *p);

/* Writes everything except the epoch. */
int sampler_maps_control(struct sampler_maps *m, const struct sampler_control *c);
/* Begins the next period, and sets *old to the number of the old one. On return no program writes
 * data of the old period any more. */
int sampler_maps_swap(struct sampler_maps *m, uint32_t *old);

/* Passes on and removes the waiting stacks and switches. data: struct sampler_stack with its
 * frames, unchecked; borrowed during the call. */
typedef void (*sampler_maps_stack_fn)(void *arg, const void *data, size_t bytes);
int sampler_maps_stacks(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg);
/* Readable when stacks should be taken before the next drain. */
int sampler_maps_fd(const struct sampler_maps *m);
/* ---- switch records ---- */

/* fn receives the switch records that sampler_maps_stacks finds, unchecked and borrowed like
 * stacks. */
void sampler_maps_switch_sink(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg);
/* Readable when sampler_maps_stacks should be called for switches; -1: none. */
int sampler_maps_switch_fd(const struct sampler_maps *m);
/* Begins to record a thread; tid, pid and cost_ns must be set. 0, -ENOSPC, -ENOTSUP (blocked time
 * is not observed), -errno. */
int sampler_maps_switch_add(struct sampler_maps *m, struct sampler_switch_thread *row);
/* first_tid: from sampler_maps_switch_rows; 0: never seen there. */
void sampler_maps_switch_remove(struct sampler_maps *m, uint32_t first_tid, uint32_t tid);
/* Passes on copies of the rows of all recorded threads; first_tid: the number in the initial PID
 * namespace. */
typedef void (*sampler_maps_switch_fn)(void *arg, uint32_t first_tid,
				       const struct sampler_switch_thread *row);
void sampler_maps_switch_rows(struct sampler_maps *m, sampler_maps_switch_fn fn, void *arg);

/* Passes on and deletes the counts of an old period. 0, -errno. */
typedef void (*sampler_maps_count_fn)(void *arg, const struct sampler_key *k,
				      const struct sampler_count *c);
int sampler_maps_counts(struct sampler_maps *m, uint32_t old, sampler_maps_count_fn fn, void *arg);
/* Lists the threads that are blocked now; one may occur twice. */
typedef void (*sampler_maps_blocked_fn)(void *arg, const struct sampler_blocked *b);
void sampler_maps_blocked(struct sampler_maps *m, sampler_maps_blocked_fn fn, void *arg);
/* Fills the counters, summed over the CPUs. */
void sampler_maps_counters(const struct sampler_maps *m, uint64_t out[SAMPLER_COUNT_MAX]);
/* Fills the totals of our programs, if kernel.bpf_stats_enabled is on. */
void sampler_maps_run_stats(const struct sampler_maps *m, uint64_t *runs, uint64_t *ns);
/* Bytes of all maps, including tables. */
uint64_t sampler_maps_bytes(const struct sampler_maps *m);
