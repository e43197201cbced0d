/* SPDX-License-Identifier: Apache-2.0
 * sleepers.h - blocked time of threads that still sleep when a period is drained.
 * The kernel counts a sleep when it ends, whole, and in the period in which it ends. What is told
 * of it before that is remembered here and taken off the count when that comes, so that the weights
 * of all batches add up to the time slept, each part near when it was slept. A sleep is named by
 * its thread and by when it began; the debt is repaid by the count of that thread with these
 * stacks, which can only come after the sleep has ended: a thread sleeps once at a time. The count
 * may come one drain later than the sleeper's entry went away, since programs run on while the maps
 * are read.  Owns: a table of sleepers.  Threads: one caller. */
#ifndef SYSOM_SAMPLER_STACKS_SLEEPERS_H
#define SYSOM_SAMPLER_STACKS_SLEEPERS_H

#include <stdint.h>

#include "bpf/sampler_format.h"

struct sleepers;
int sleepers_open(struct sleepers **out); /* 0, -ENOMEM */
void sleepers_close(struct sleepers *s);  /* NULL is a no-op */
/* A drain begins: first the period's counts, then the sleepers, then the end. now_ns is
 * CLOCK_MONOTONIC from before the sets were swapped; shorter sleeps than min_ns are not told. */
void sleepers_begin(struct sleepers *s, uint64_t now_ns, uint64_t min_ns);
/* What is new of a blocked count's weight, ns. */
uint64_t sleepers_repay(struct sleepers *s, const struct sampler_key *k, uint64_t weight_ns);
/* What is to be told now of a thread that sleeps, ns; 0: nothing. */
uint64_t sleepers_see(struct sleepers *s, const struct sampler_blocked *b);
void sleepers_end(struct sleepers *s);
/* Debts that no count repaid, since open: counts that were lost. ns */
uint64_t sleepers_unpaid_ns(const struct sleepers *s);

#endif
