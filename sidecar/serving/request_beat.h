/* SPDX-License-Identifier: Apache-2.0
 * request_beat.h - what a beat reports about each job's requests, in the room that the ranks leave.
 * Guarantees: a job without room in one beat comes first in the next, so each job has its turn,
 * however many there are. Content that did not arrive is reported again.
 * Threads: one caller. */
#pragma once

#include "base/limits.h"
#include "model/request.h"

struct beat;
struct request_table;

struct request_beat {
	struct request_job sent[LIMIT_NODE_PROCESSES]; /* content of the last beat */
	/* count: entries of sent; first: place of the job with which the next beat begins */
	uint32_t count, first;
	bool waits; /* a job had no room */
};

/* Fills q->sent with news of the jobs of the beat's ranks. arrived: whether the previous beat
 * arrived. Returns how many bytes of the room are left. */
size_t request_beat_fill(struct request_beat *q, struct request_table *t, const struct beat *b,
			 bool arrived, size_t room, uint64_t now_ns);
