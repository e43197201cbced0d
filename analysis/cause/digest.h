/* SPDX-License-Identifier: Apache-2.0
 * digest.h - what an incident needs to know about one window: a few hundred numbers instead of some
 * 100 KB. Pure. Threads: any. */
#pragma once

#include "model/window.h"

/* The strongest signals; a window may have more. */
#define DIGEST_SIGNALS_MAX 32

struct excerpt;

/* Sums over steps: how long they took, and how long they should take. expected_*: only steps with a
 * known expectation. */
struct step_times {
	double steps, latency_ns, expected_steps, expected_ns, expected_self_ns;
};

/* Slow steps of a rank and what they lost: of a window, or of several. Of a window's steps these are
 * the flagged ones or, if none is flagged, those that are out. Times are sums over the steps, ns. */
struct slow_steps {
	uint32_t reasons; /* bit per enum window_reason of their windows */
	uint64_t flagged; /* their number */
	uint64_t spikes;  /* of these, with WINDOW_STEP_SPIKE: they count one by one */
	uint64_t spike_first_unix_ns,
	    spike_last_unix_ns; /* ends of the first and last one; 0: none */
	uint64_t hinted;	/* of these, announced as a transient by the node when they began */
	uint64_t first_step, last_step;	     /* indices */
	uint64_t begin_unix_ns, end_unix_ns; /* of the first and of the last one; 0: none */
	/* the first out step of the unbroken row of out steps that led to first_step */
	uint64_t onset_step;
	double flagged_ns;     /* latency above what was expected, whoever slowed them */
	double self_excess_ns; /* self time above what was expected */
	/* the parts of these two in steps longer than any before (WINDOW_STEP_FIRST): they may not
	 * come again */
	double first_ns, first_self_ns;
	/* from windows about what the rank did itself; if there are none, from windows about
	 * waiting */
	struct step_times took;
	bool took_itself;
	double slow_ns;	  /* how long the rank was slow itself */
	double waited_ns; /* flagged_ns of the windows in which it only waited */
};

struct digest {
	uint8_t id[16], anomaly_id[16];
	struct wire_rank rank;
	uint32_t reason, sequence;
	uint64_t begin_unix_ns, end_unix_ns;
	uint32_t steps, records;
	uint64_t bytes, raw_bytes; /* as received; as written to the ring */
	bool summary_only;
	bool no_gpu; /* its process launched nothing, and no GPU is assigned to it */
	/* reasons, hinted, took_itself, slow_ns and waited_ns are 0: an incident derives them from
	 * the rest */
	struct slow_steps slow;
	double latency_ns, expected_ns, self_ns, expected_self_ns; /* medians of the slow steps */
	/* how much longer kernels and copies took in the slow steps than in the other steps: the
	 * difference of the medians, times the number of slow steps */
	double device_excess_ns;
	uint64_t lost;
	char lost_cause[32]; /* the most frequent cause of loss */
	/* The highest sequence number of a collective in it. In a stall, the rank with the lowest one
	 * is behind. */
	uint64_t collectives;
	struct os_signal signals[DIGEST_SIGNALS_MAX];
	uint32_t signal_count;
	/* cross_beyond_peers() as it arrived, set by the caller of digest_make; NAN: not known */
	double beyond_peers;
	/* the sender (rep.h), set by the caller of digest_make; 0: not known */
	uint64_t sender;
	struct excerpt *excerpt; /* set by the caller of digest_make; NULL: none */
};

/* Whether the window is about what the rank did itself, not about waiting or a request. */
static inline bool digest_is_own(const struct digest *d)
{
	return window_reason_says(d->reason) & WINDOW_SAYS_OWN;
}

/* Whether the hypervisor took most of the excess self time. Then everything on that machine was
 * late. */
bool digest_is_stolen(const struct digest *d);
/* False: its times or its rank are impossible, or it is longer than LIMIT_WINDOW_NS. Do not use it
 * then. */
bool digest_is_sound(const struct window *w);
/* w: sound, decoded with its names; host records are used if there are any. */
void digest_make(const struct window *w, size_t bytes, struct digest *out);
