/* SPDX-License-Identifier: Apache-2.0
 * drain.h - read the rings of all processes: ring -> join -> rank.
 * Owns: the batch and the pace of turns.  Threads: the loop's.
 * Guarantees: a turn serves users in rounds, one batch each, and ends after 40 ms. */
#pragma once

#include <stdint.h>

struct node;
struct process;
struct drain; /* opaque */

/* Shorter turns are not worth it: a wake-up and cold caches cost more than the events of 10 ms.
 * Longer ones are limited: no lane may fill in between, and a step is judged one turn after its end
 * at the latest. */
#define DRAIN_MS     10u
#define DRAIN_MAX_MS 40u
/* Cause of a RECORD_GAP that sysomd itself saw: events were overwritten before they were read. */
#define DRAIN_GAP_LAPPED 64u

/* The time between turns. Initially all zeros. */
struct drain_pace {
	uint32_t ms;
	uint64_t calm_ns; /* since when half as many turns would have been enough */
};

int drain_open(struct drain **out); /* -ENOMEM */
void drain_close(struct drain *d);  /* NULL is a no-op */
/* Call before the process receives its acceptance. */
void drain_prepare(struct process *p);
void drain_turn(struct node *n);
/* Reads everything that is left in the ring of one process. */
void drain_last(struct process *p);
/* Milliseconds until the next turn. */
uint32_t drain_ms(const struct drain *d);
/* Number of turns that ended with events left. */
uint64_t drain_behind(const struct drain *d);
/* fill: how full the turn found the fullest lane, 0 to 1. Sets ms within DRAIN_MS and DRAIN_MAX_MS:
 * shortens it at once, lengthens it gradually. */
void drain_pace(struct drain_pace *p, double fill, uint64_t now_ns);
