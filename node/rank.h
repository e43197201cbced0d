/* SPDX-License-Identifier: Apache-2.0
 * rank.h - one rank's analysis on the node: records -> steps -> roofline -> flags -> window.
 * A step is judged twice: by its latency (is it slow?) and by its self time (is this rank the one
 * that makes it slow?). Owns: all models, allocated at open. Threads: one caller.
 * Records come in canonical order from the join; time is an argument. */
#pragma once

#include "analysis/expect/judge.h"
#include "analysis/steps/steps.h"
#include "node/analysis_log.h"
#include "node/anomaly.h"
#include "node/beats.h"
#include "node/canary.h"
#include "node/normal.h"
#include "node/recorder.h"

#define RANK_RECENT 512u /* judged steps kept for requested windows */
/* healthy steps stored for the next sysomd; a model is ready long before */
#define RANK_LEARNED 512u
/* steps of other patterns that rank_restore ignores; a pattern needs three steps */
#define RANK_STRAYS 2u
#define RANK_PERIOD 128u /* steps in the medians of a beat */

struct rank_config {
	struct judge_config judge;
	struct steps_config steps;
	struct anomaly_config anomaly;
	/* A rank stands still if nothing happens for this time and for stall_latencies expected
	 * latencies. */
	uint64_t stall_ns;
	double stall_latencies;
	uint64_t beat_ns; /* usual time between beats */
};
void rank_config_default(struct rank_config *c);

struct rank_stats {
	uint64_t steps, judged, flagged, flagged_self, incomplete, host_stall;
	uint64_t windows_counted; /* limited by the token buckets */
	uint64_t last_step_end_ns, last_self_flag_ns;
	double self_excess; /* excess self time of the last flagged step */
};

struct rank_medians {
	double latency_ns, latency_mad_ns, self_ns, expected_ns;
	double compute_ns, comm_ns, exposed_comm_ns, copy_ns, idle_ns;
};

struct rank {
	struct rank_config config;
	struct recorder *recorder; /* borrowed */
	struct canary *canary;	   /* borrowed; may be NULL */
	uint32_t slot;		   /* its slot in the recorder */
	struct rank_stats stats;
	struct analysis_log *log; /* borrowed; NULL: no recording */
	void *steps_memory, *judge_memory;
	struct steps *steps;
	struct judge *judge;
	struct beats *beats;
	struct normal *normal;
	struct anomaly anomaly;
	struct window_step *recent; /* ring of RANK_RECENT */
	uint32_t recent_next, recent_count;
	struct judge_sample *learned; /* ring of RANK_LEARNED */
	uint64_t learned_total;
	uint64_t watched_ns;   /* start of uninterrupted tracing: attached, or switched on */
	uint64_t active_ns;    /* time of the GPU's latest work: submitted or finished */
	uint64_t stalled_ns;   /* start of the last reported stall; 0: never */
	uint64_t full_comm_ns; /* end of the last WINDOW_COMM window sent with records */
	uint64_t random;
	struct step_kernel kernels[STEP_KERNELS_MAX];
	/* Called when a window has closed, or before the next one begins. */
	void (*on_window)(void *arg, struct rank *r);
	/* Called for a lasting change against the frozen baseline. more: NULL, or the change of the
	 * work that explains it. */
	void (*on_drift)(void *arg, struct rank *r, const struct growth_change *more);
	/* Called for each step. used: valid for judging the rank. Its kernels are in r->kernels.
	 * May be NULL. */
	void (*on_step)(void *arg, struct rank *r, const struct window_step *ws, bool used,
			uint32_t kernel_count);
	void *arg;
};

/* Borrows recorder and canary until rank_close. seed: for the roofline and for random ids. 0,
 * -ENOMEM. */
int rank_open(struct rank **out, const struct rank_config *c, struct recorder *recorder,
	      uint32_t slot, struct canary *canary, uint64_t seed, uint64_t now_ns);
void rank_close(struct rank *r); /* NULL is a no-op */
void rank_host(struct rank *r, const struct record *rec, const struct step_mark *mark);
void rank_device(struct rank *r, const struct record *rec);
/* Judges complete steps. device_ns: all earlier device records have arrived. */
void rank_run(struct rank *r, uint64_t device_ns, uint64_t now_ns);
/* Judges the remaining steps; no record may follow. */
void rank_finish(struct rank *r, uint64_t now_ns);
/* Call when tracing starts. Earlier time is unobserved and does not count as standing still. */
void rank_watch(struct rank *r, uint64_t now_ns);
/* Since when the GPU has neither received nor finished work, as far as traced; 0: no step has ended
 * yet. */
uint64_t rank_still_since(const struct rank *r);
/* Whether the GPU has been still for too long, so that the rank hangs or is idle. */
bool rank_is_still(const struct rank *r, uint64_t now_ns);
/* Marks the rank as hung. */
void rank_stall(struct rank *r);
/* Start of the current hang; 0: none. */
uint64_t rank_stalled_since(const struct rank *r);
/* Fills the fields that come from steps and zeroes the others. beats_fill adds groups and
 * collectives. */
void rank_beat(const struct rank *r, struct beat_rank *out);
/* Whether the model is ready or refused, and there were steps since the last sketch. */
bool rank_has_sketch(const struct rank *r);
/* Fills a zeroed sketch with the healthy steps since the last one (normal_take). The caller sets
 * the rank's identity. 0 or -ENOMEM. */
int rank_sketch(struct rank *r, const char *(*name)(void *arg, uint32_t id), void *arg,
		struct sketch *out, struct normal_when *when);
/* 16 random bytes, unique to an anomaly. */
void rank_fresh_id(struct rank *r, uint8_t id[16]);
/* Medians of the last steps; zeroes when there are none. */
void rank_medians(const struct rank *r, struct rank_medians *out);
/* The model of the latest step's kind. */
enum roofline_state rank_model(const struct rank *r, double *r2, double *spread);
/* Copies the healthy steps, oldest first, and returns their count; out has room for
 * RANK_LEARNED. */
uint32_t rank_learned(const struct rank *r, struct judge_sample *out);
/* Learns the samples as if they had just happened, without judging them. Call before the first
 * record. Automatic steps are numbered by the order in which their patterns were found. If there
 * were several patterns, the old numbers mean nothing now, so none of these samples is learned. A
 * single pattern becomes number 0. Up to RANK_STRAYS steps of other patterns are ignored, because
 * the first step of a history may lack names and get number 0. Returns the number of samples
 * learned. */
uint32_t rank_restore(struct rank *r, const struct judge_sample *samples, uint32_t count);
/* Judged steps that overlap [begin_ns, end_ns], oldest first; at most max, the latest ones. */
uint32_t rank_recent(const struct rank *r, uint64_t begin_ns, uint64_t end_ns,
		     struct window_step *out, uint32_t max);
