/* SPDX-License-Identifier: Apache-2.0
 * sleepers.h - blocked time of threads that are still asleep when a period is drained. The kernel
 * counts a whole sleep in the period in which it ends. We report a part of it earlier, remember
 * that part here, and subtract it from the count when the count arrives. So the weights of all
 * batches add up to the time asleep, and each part is reported near the time when it was slept. A
 * sleep is identified by its thread and its start. The reported time is repaid by the next count of
 * that thread with these stacks. This count can arrive only after the sleep has ended, because a
 * thread sleeps once at a time. It may arrive one drain after the sleeper's entry has disappeared,
 * because programs run while the maps are read.
 * Owns: a table of sleepers. Threads: one caller. */
#pragma once

#include <stdint.h>

#include "bpf/sampler_format.h"

struct sleepers;
int sleepers_open(struct sleepers **out); /* 0, -ENOMEM */
void sleepers_close(struct sleepers *s);  /* NULL is a no-op */
/* Begins a drain. Call sleepers_repay for the period's counts next, then sleepers_see for the
 * sleepers, then end the drain. now_ns is CLOCK_MONOTONIC from before the sets were swapped; sleeps
 * shorter than min_ns are not reported. */
void sleepers_begin(struct sleepers *s, uint64_t now_ns, uint64_t min_ns);
/* The part of a blocked count's weight that was not reported yet, ns. */
uint64_t sleepers_repay(struct sleepers *s, const struct sampler_key *k, uint64_t weight_ns);
/* The time to report now for a sleeping thread, ns; 0: nothing. */
uint64_t sleepers_see(struct sleepers *s, const struct sampler_blocked *b);
void sleepers_end(struct sleepers *s);
