/* SPDX-License-Identifier: Apache-2.0
 * anomaly.h - decide when a rank's window opens and closes, and how much of it to send. A flagged
 * step opens a window, which starts some healthy steps earlier. The window closes after some
 * healthy steps, or at its length limit; then the next window continues the same anomaly. Steps are
 * compared with steps of the same phase and kind (kinds.h) that launch as much. Such steps may be
 * far apart (evaluation), so the latest usual steps of each phase and kind are kept. Token buckets
 * bound a storm: one for full windows, one for full windows with a spike, and one for summaries.
 * The fewer tokens the first bucket has, the more time a window must have lost to be full. Many
 * small anomalies therefore do not use up the evidence of a large one. A window with a spike takes
 * a token from the spikes' bucket first. If the full windows' bucket gives no token, a window that
 * lost more than each of the storm's full windows may take one from the spikes' bucket. When all
 * buckets are empty, windows are only counted. Pure: time and ids are arguments. Threads: one
 * caller. */
#pragma once

#include "model/window.h"

#define ANOMALY_MARGIN_MAX    64u
#define ANOMALY_HISTORY_MAX   128u
#define ANOMALY_STEPS_MAX     512u
#define ANOMALY_KINDS_MAX     8u
#define ANOMALY_KIND_STEPS    8u
#define ANOMALY_REFERENCE_MAX (ANOMALY_KINDS_MAX * ANOMALY_KIND_STEPS)

struct anomaly_config {
	uint32_t margin_steps;	/* healthy steps before the first flagged step and after the last */
	uint32_t steps_max;	/* per window */
	uint64_t length_max_ns; /* from the first flagged step on */
	/* a window that opens within this time after the last one continues it */
	uint64_t continue_ns;
	/* spike_burst: full windows with a spike */
	double full_burst, full_per_s, spike_burst, summary_burst, summary_per_s;
};
void anomaly_config_default(struct anomaly_config *c);

struct anomaly_bucket {
	double tokens;
	uint64_t at_ns;
};

/* The latest usual steps of one phase and kind, with about as many launches, from before the open
 * window. */
struct anomaly_kind {
	/* phase, kind and kernels: what its steps share; next: index of the slot to overwrite; count
	 * 0: the entry is free */
	uint32_t phase, kind, kernels, next, count;
	struct window_step step[ANOMALY_KIND_STEPS];
};

enum anomaly_state { ANOMALY_IDLE = 0, ANOMALY_OPEN = 1, ANOMALY_CLOSED = 2 };
enum anomaly_grant { ANOMALY_COUNT_ONLY = 0, ANOMALY_SUMMARY = 1, ANOMALY_FULL = 2 };

struct anomaly {
	struct anomaly_config config;
	enum anomaly_state state;
	struct window_step history[ANOMALY_HISTORY_MAX]; /* ring of the latest steps */
	uint32_t history_next, history_count;
	struct window_step steps[ANOMALY_STEPS_MAX];
	/* healthy: consecutive healthy steps at the end of the window */
	uint32_t step_count, healthy;
	struct anomaly_kind kind[ANOMALY_KINDS_MAX];
	uint32_t flagged_count, self_count;
	uint32_t spike_count, spike_self_count; /* flagged steps with WINDOW_STEP_SPIKE */
	double lost_ns;				/* time lost in the window's flagged steps */
	double most_ns;	 /* the largest loss of a full window since the bucket was last full */
	uint32_t turned; /* consecutive flagged steps that disagree with the window's reason */
	uint8_t id[16];
	uint32_t sequence;
	uint64_t onset_ns;    /* start of the first flagged step */
	uint64_t last_end_ns; /* when the last window ended */
	uint64_t closed_ns;   /* when the window closed, by the caller's clock */
	struct anomaly_bucket full, spike, summary;
};

void anomaly_init(struct anomaly *a, const struct anomaly_config *c, uint64_t now_ns);
/* Adds one judged step. self: its self time is flagged. fresh_id: 16 random bytes, used as the id
 * if an anomaly begins. True: the window has just closed. The caller then takes
 * steps[0..step_count) and calls anomaly_reset before the next flagged step. */
bool anomaly_push(struct anomaly *a, const struct window_step *s, bool self,
		  const uint8_t fresh_id[16], uint64_t now_ns);
/* Closes an open window now, at shutdown or when the rank is gone. True if there is a window to
 * take. */
bool anomaly_close(struct anomaly *a, uint64_t now_ns);
/* The reference steps that the closed window lacks: for each phase and kind of its flagged steps,
 * the latest usual steps from before the window, in order; at most ANOMALY_REFERENCE_MAX. Returns
 * their number. */
uint32_t anomaly_reference(const struct anomaly *a, struct window_step *out);
/* Call after the closed window was taken or discarded. */
void anomaly_reset(struct anomaly *a);
/* The window's enum window_reason. WINDOW_SELF: in at least half of the flagged steps the self time
 * is flagged, or explains at least half of the loss. So a transient of this rank during another
 * rank's fault does not make this rank a suspect. If some flagged steps are spikes, only the spikes
 * count. */
uint32_t anomaly_reason(const struct anomaly *a);
/* Takes a token for the closed window. want_full false: only from the summaries' bucket. */
enum anomaly_grant anomaly_grant(struct anomaly *a, bool want_full, uint64_t now_ns);
