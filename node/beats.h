/* SPDX-License-Identifier: Apache-2.0
 * beats.h - collect the step groups, sampled collectives and communicators of a rank's beat
 * (model/window.h). Groups: their size is a power of two. It doubles when a beat period would have
 * more than BEATS_GROUPS_HIGH groups. It halves when half the size would give at most
 * BEATS_GROUPS_LOW groups. Collectives: model/beat_sample.h chooses them; coll_shift follows their
 * rate with hysteresis. Owns: its memory, allocated at open. Threads: one caller. Pure otherwise:
 * time is an argument. Trust: communicators and sequences come from the job. Every table is
 * bounded, and entries without room are counted. */
#pragma once

#include "model/window.h"

#define BEATS_GROUPS_HIGH 28u
#define BEATS_GROUPS_LOW  14u
#define BEATS_COLLS_AIM	  16u

struct beats_stats {
	uint64_t groups_merged, groups_lost; /* groups merged or lost because a beat was full */
	uint64_t colls_thinned;	  /* sampled, then dropped because the rate was too high */
	uint64_t comms_forgotten; /* least recently used communicators that were replaced */
};

struct beats; /* opaque */
/* period_ns: usual time between beats. 0 or -ENOMEM. */
int beats_open(struct beats **out, uint64_t period_ns);
void beats_close(struct beats *b); /* NULL is a no-op */
/* Takes any record; ignores those that are not about collectives. */
void beats_host(struct beats *b, const struct record *r);
void beats_device(struct beats *b, const struct record *r);
/* Takes each step, in order. used: the step's figures are valid for judging the rank. */
void beats_step(struct beats *b, const struct window_step *s, bool used);
/* Moves the data collected since the last call to groups, colls and comms of *out. The caller has
 * already filled the other fields. The result fits LIMIT_BEAT_BYTES_PER_RANK. */
void beats_fill(struct beats *b, struct beat_rank *out, uint64_t now_ns);
void beats_stats_get(const struct beats *b, struct beats_stats *out);
