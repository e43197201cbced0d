/* SPDX-License-Identifier: Apache-2.0
 * digest.h - what an incident needs to know of one window: a few hundred numbers of some 100 KB.
 * Pure. Threads: any. */
#ifndef SYSOM_ANALYSIS_CAUSE_DIGEST_H
#define SYSOM_ANALYSIS_CAUSE_DIGEST_H

#include "model/window.h"

/* The strongest; a window may have more. */
#define DIGEST_SIGNALS_MAX 32

struct excerpt;

struct digest {
	uint8_t id[16], anomaly_id[16];
	struct wire_rank rank;
	uint32_t reason, sequence;
	uint64_t begin_unix_ns, end_unix_ns;
	uint32_t steps, records;
	uint64_t bytes, raw_bytes; /* as received; as written to the ring */
	bool summary_only;
	/* Of the flagged steps; where none is flagged, of those that are out. */
	uint32_t flagged;
	double flagged_ns;		/* their sum above what was expected of them */
	uint64_t first_step, last_step; /* indices */
	uint64_t onset_step;		/* first step out of the run that led to first_step */
	double latency_ns, expected_ns, self_ns, expected_self_ns; /* medians */
	double self_excess_ns;		/* own time above the expected, summed */
	double first_ns, first_self_ns; /* of flagged_ns, of it: of steps like none before */
	double device_excess_ns; /* kernels and copies above those of its other steps, summed */
	uint64_t lost;
	char lost_cause[32]; /* the most frequent one */
	/* Last collective that the rank entered: (communicator, k-th); for stalls. */
	uint64_t collectives;
	struct os_signal signals[DIGEST_SIGNALS_MAX];
	uint32_t signal_count;
	uint64_t sender;	 /* who sent it (rep.h), of who made the digest; 0: not known */
	struct excerpt *excerpt; /* of who made the digest, which takes no part in it; NULL: none */
};

/* It tells of what the rank did itself, not of what it waited for or somebody asked for. */
static inline bool digest_is_own(const struct digest *d)
{
	return d->reason == WINDOW_SELF || d->reason == WINDOW_DRIFT || d->reason == WINDOW_STALL ||
	       d->reason == WINDOW_PEER;
}

/* Of its own time most was taken by the hypervisor below the machine: whatever runs there was late then. */
bool digest_is_stolen(const struct digest *d);
/* False: its times or its rank are impossible, or it is longer than LIMIT_WINDOW_NS; nothing is to be made
 * of it. */
bool digest_is_sound(const struct window *w);
/* w: sound, decoded with its names; host records are used where they are there. */
void digest_make(const struct window *w, size_t bytes, struct digest *out);

#endif
