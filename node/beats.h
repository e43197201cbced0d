/* SPDX-License-Identifier: Apache-2.0
 * beats.h - what a beat tells of one rank beyond its totals: step groups, sampled collectives,
 * communicators (model/window.h; DESIGN.md 1, beat).
 * Groups: the size is a power of two, doubled when at the rank's pace a beat period has more than
 * BEATS_GROUPS_HIGH of them, halved when it would have at most BEATS_GROUPS_LOW at half the size.
 * Collectives: those that model/beat_sample.h chooses; the threshold follows their rate with hysteresis.
 * Owns: its memory, made at open.  Threads: one caller.  Pure but for that: time is an argument.
 * Trust: communicators and sequences are what the job says; every table is bounded, what finds no room
 * is counted. */
#ifndef SYSOM_NODE_BEATS_H
#define SYSOM_NODE_BEATS_H

#include "model/window.h"

#define BEATS_GROUPS_HIGH 28u
#define BEATS_GROUPS_LOW  14u
#define BEATS_COLLS_AIM	  16u

struct beats_stats {
	uint64_t groups_merged, groups_lost; /* a beat had no room for them */
	uint64_t colls_thinned;		     /* sampled, then left out since the rate was too high */
	uint64_t comms_forgotten;	     /* the longest unused, for a new one */
};

struct beats; /* opaque */
/* period_ns: between beats, as they usually come. 0 or -ENOMEM. */
int beats_open(struct beats **out, uint64_t period_ns);
void beats_close(struct beats *b); /* NULL is a no-op */
/* Any record; those that are not about collectives are passed over. */
void beats_host(struct beats *b, const struct record *r);
void beats_device(struct beats *b, const struct record *r);
/* Each step, in order. used: its figures say something about the rank. */
void beats_step(struct beats *b, const struct window_step *s, bool used);
/* Moves what has come since the last call into groups, colls and comms of *out, whose other fields are
 * filled already, so that it fits LIMIT_BEAT_BYTES_PER_RANK. */
void beats_fill(struct beats *b, struct beat_rank *out, uint64_t now_ns);
void beats_stats_get(const struct beats *b, struct beats_stats *out);

#endif
