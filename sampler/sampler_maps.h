/* SPDX-License-Identifier: Apache-2.0
 * sampler_maps.h - the kernel side as user space sees it: loads the programs of bpf/, owns their
 * maps, swaps and drains the sets. Owns: BPF objects, maps, links.  Threads: one caller.  Needs
 * CAP_BPF and CAP_PERFMON (or root) and the kernel's BTF. */
#ifndef SYSOM_SAMPLER_SAMPLER_MAPS_H
#define SYSOM_SAMPLER_SAMPLER_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/python_format.h"
#include "bpf/sampler_format.h"
#include "sampler/sampler_options.h"
#include "sampler/unwind/unwind_store.h"

struct sampler_maps;
/* mode: SAMPLER_BPF_LOOP or SAMPLER_BPF_TAIL. 0; or -errno and the reason in why. missing: what
 * works less well on this kernel, "" if nothing. */
int sampler_maps_open(struct sampler_maps **out, enum sampler_mode mode,
		      const struct sampler_options *o, char why[160], char missing[160]);
void sampler_maps_close(struct sampler_maps *m); /* NULL is a no-op */
/* The on-CPU program on a perf event of one CPU (borrowed). */
int sampler_maps_attach(struct sampler_maps *m, int perf_fd);
/* Whether threads are seen to sleep and wake; from open on they are, where the options say so.
 * Recording of switches begins anew. 0, -errno. */
int sampler_maps_off_cpu(struct sampler_maps *m, bool on);

/* Tables live in the kernel's arrays through this. Borrowed. */
void sampler_maps_backing(struct sampler_maps *m, struct unwind_backing *out);
int sampler_maps_process(struct sampler_maps *m, uint32_t pid, const struct unwind_process *p,
			 uint8_t generation);
void sampler_maps_process_remove(struct sampler_maps *m, uint32_t pid);
/* NULL p: none any more. 0; -E2BIG: no room for more interpreters. */
int sampler_maps_python(struct sampler_maps *m, uint32_t pid, const struct python_process *p);

/* Writes everything but the epoch, which stays. */
int sampler_maps_control(struct sampler_maps *m, const struct sampler_control *c);
/* Begins the next period. When it returns, no program writes what belongs to the old one any more;
 * its number is *old. */
int sampler_maps_swap(struct sampler_maps *m, uint32_t *old);

/* Hands out and forgets the stacks and switches that wait. data: struct sampler_stack with its frames, not
 * checked; borrowed during the call. */
typedef void (*sampler_maps_stack_fn)(void *arg, const void *data, size_t bytes);
int sampler_maps_stacks(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg);
/* Readable when stacks should be taken before the next drain. */
int sampler_maps_fd(const struct sampler_maps *m);
/* ---- switch records ---- */

/* Gets the records that sampler_maps_stacks finds: as those, not checked and borrowed. */
void sampler_maps_switch_sink(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg);
/* Readable when that should be called; -1: none. */
int sampler_maps_switch_fd(const struct sampler_maps *m);
/* Begins to record a thread: tid, pid and cost_ns are set. 0, -ENOSPC, -ENOTSUP (blocked time is not seen),
 * -errno. */
int sampler_maps_switch_add(struct sampler_maps *m, struct sampler_switch_thread *row);
/* first_tid: as sampler_maps_switch_rows has it; 0: never seen there. */
void sampler_maps_switch_remove(struct sampler_maps *m, uint32_t first_tid, uint32_t tid);
/* Copies of the rows of all threads that are recorded; first_tid: the number in the first namespace. */
typedef void (*sampler_maps_switch_fn)(void *arg, uint32_t first_tid,
				       const struct sampler_switch_thread *row);
void sampler_maps_switch_rows(struct sampler_maps *m, sampler_maps_switch_fn fn, void *arg);

/* Hands out and deletes the counts of an old period. 0, -errno. */
typedef void (*sampler_maps_count_fn)(void *arg, const struct sampler_key *k,
				      const struct sampler_count *c);
int sampler_maps_counts(struct sampler_maps *m, uint32_t old, sampler_maps_count_fn fn, void *arg);
/* The threads that are blocked now; one may come twice. */
typedef void (*sampler_maps_blocked_fn)(void *arg, const struct sampler_blocked *b);
void sampler_maps_blocked(struct sampler_maps *m, sampler_maps_blocked_fn fn, void *arg);
/* Sums over the CPUs. */
void sampler_maps_counters(const struct sampler_maps *m, uint64_t out[SAMPLER_COUNT_MAX]);
/* Of all our programs, where kernel.bpf_stats_enabled is on. */
void sampler_maps_run_stats(const struct sampler_maps *m, uint64_t *runs, uint64_t *ns);
/* Stacks that the perf buffer of SAMPLER_BPF_TAIL dropped. */
uint64_t sampler_maps_dropped(const struct sampler_maps *m);
/* Bytes of all maps, tables included. */
uint64_t sampler_maps_bytes(const struct sampler_maps *m);

#endif
