/* SPDX-License-Identifier: Apache-2.0
 * journal_synth.h - a small node as sysomd would record it: four ranks with marked steps, of which rank 1
 * becomes slow, through the same calls in the same order as node/rank.c and sidecar/ship.c make them.
 * For the unit test and the fuzzer's seeds. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/journal.h"

#define JOURNAL_SYNTH_RANKS 4u

struct journal_synth {
	struct journal_writer w;
	struct journal_rank id;
	void *steps_memory[JOURNAL_SYNTH_RANKS], *judge_memory[JOURNAL_SYNTH_RANKS];
	struct steps *steps[JOURNAL_SYNTH_RANKS];
	struct judge *judge[JOURNAL_SYNTH_RANKS];
	struct local_peers *peers;
	uint64_t now_ns[JOURNAL_SYNTH_RANKS], random;
	uint32_t taken, flagged, flags;
	/* May change what is said to have been said live. NULL: nothing. */
	void (*bend)(struct journal_event *e, uint32_t nth);
};

static inline void journal_synth_open(struct journal_synth *j,
				      void (*bend)(struct journal_event *, uint32_t))
{
	memset(j, 0, sizeof(*j));
	CHECK(!journal_writer_init(&j->w));
	CHECK(!local_peers_open(&j->peers, PEERS_ROBUST));
	j->bend = bend;
	j->random = 7;
	steps_config_default(&j->id.steps);
	j->id.steps.launch_max = 256; /* small: seeds of a fuzzer */
	judge_config_default(&j->id.judge);
	strcpy(j->id.job, "synthetic");
	for (uint32_t i = 0; i < JOURNAL_SYNTH_RANKS; i++) {
		struct journal_event e = {.kind = JOURNAL_RANK, .slot = i};

		j->id.rank = (int32_t)i;
		j->id.judge.roofline.seed = i + 1;
		e.as.rank = j->id;
		if (i == 2) { /* numbered later, by its communicator */
			e.as.rank.rank = -1;
			journal_writer_event(&j->w, &e);
			e.as.rank.rank = (int32_t)i;
		}
		journal_writer_event(&j->w, &e);
		j->steps_memory[i] =
		    aligned_alloc(64, (steps_memory_bytes(&j->id.steps) + 63) & ~63ul);
		j->judge_memory[i] =
		    aligned_alloc(64, (judge_memory_bytes(&j->id.judge) + 63) & ~63ul);
		CHECK(j->steps_memory[i] && j->judge_memory[i]);
		j->steps[i] = steps_init(j->steps_memory[i], &j->id.steps);
		j->judge[i] = judge_init(j->judge_memory[i], &j->id.judge);
		j->now_ns[i] = 1000000000;
	}
}

static inline void journal_synth_close(struct journal_synth *j)
{
	for (uint32_t i = 0; i < JOURNAL_SYNTH_RANKS; i++) {
		free(j->steps_memory[i]);
		free(j->judge_memory[i]);
	}
	local_peers_close(j->peers);
	journal_writer_fini(&j->w);
}

static inline void journal_synth_put(struct journal_synth *j, struct journal_event *e)
{
	if (j->bend)
		j->bend(e, j->taken);
	if (e->kind)
		journal_writer_event(&j->w, e);
}

static inline void journal_synth_record(struct journal_synth *j, uint32_t slot,
					const struct record *r, const struct step_mark *mark)
{
	journal_writer_record(&j->w, slot, r, mark);
	if (RECORD_IS_DEVICE(r->kind))
		steps_push_device(j->steps[slot], r);
	else
		steps_push_host(j->steps[slot], r, mark);
}

/* What has become complete, as rank.c takes it. */
static inline void journal_synth_run(struct journal_synth *j, uint32_t slot, uint64_t device_ns)
{
	static struct step_kernel kernels[STEP_KERNELS_MAX];
	struct journal_event e = {.kind = JOURNAL_RUN, .slot = slot, .as.device_ns = device_ns};
	struct local_peers_flag flag;
	uint32_t count;
	struct step s;

	journal_synth_put(j, &e);
	steps_advance(j->steps[slot], device_ns);
	while (steps_next(j->steps[slot], &s, kernels, &count)) {
		struct judge_verdict v = judge_push(j->judge[slot], &s, 0);

		e = (struct journal_event){.kind = JOURNAL_STEP, .slot = slot};
		e.as.step = (struct journal_step){s, 0, v};
		j->taken++;
		j->flagged += v.flagged;
		journal_synth_put(j, &e);
		e = (struct journal_event){.kind = JOURNAL_COMPARE, .slot = slot};
		e.as.compare.key = 99;
		e.as.compare.used = v.skip == JUDGE_USED;
		journal_synth_put(j, &e);
		local_peers_step(j->peers, slot, 99, &s, v.skip == JUDGE_USED);
	}
	while (local_peers_next(j->peers, &flag)) {
		e = (struct journal_event){.kind = JOURNAL_FLAG, .slot = flag.slot};
		e.as.flag = flag;
		j->flags++;
		journal_synth_put(j, &e);
	}
}

/* A rank's compute kernel of a step, from its mark on; when it ends. */
static inline uint64_t journal_synth_compute(struct journal_synth *j, uint32_t slot, uint64_t index,
					     uint64_t length_ns)
{
	const struct step_mark mark = {.work = {1}, .work_count = 1};
	uint64_t t = j->now_ns[slot];
	struct record r = {.kind = RECORD_STEP_BEGIN,
			   .begin_ns = t,
			   .end_ns = t,
			   .key = index,
			   .thread = 1,
			   .peer = -1};

	journal_synth_record(j, slot, &r, &mark);
	r = (struct record){.kind = RECORD_LAUNCH,
			    .begin_ns = t + 1000,
			    .end_ns = t + 3000,
			    .correlation = (uint32_t)index * 2 + 1,
			    .thread = 1,
			    .stream = 7,
			    .grid = {8, 1, 1},
			    .block = {256, 1, 1},
			    .peer = -1};
	journal_synth_record(j, slot, &r, NULL);
	r.launch_ns = r.begin_ns;
	r.kind = RECORD_KERNEL;
	r.begin_ns = t + 5000;
	r.end_ns = t + length_ns;
	r.thread = 0;
	journal_synth_record(j, slot, &r, NULL);
	return r.end_ns;
}

/* And the collective in which it waits for the others. */
static inline void journal_synth_wait(struct journal_synth *j, uint32_t slot, uint64_t index,
				      uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t t = j->now_ns[slot];
	struct record r = {.kind = RECORD_LAUNCH,
			   .begin_ns = t + 4000,
			   .end_ns = t + 5000,
			   .correlation = (uint32_t)index * 2 + 2,
			   .thread = 1,
			   .stream = 8,
			   .grid = {2, 1, 1},
			   .block = {512, 1, 1},
			   .peer = -1};

	journal_synth_record(j, slot, &r, NULL);
	r.launch_ns = r.begin_ns;
	r.kind = RECORD_COLL_KERNEL;
	r.func = RECORD_COLL_ALL_REDUCE;
	r.begin_ns = begin_ns;
	r.end_ns = end_ns;
	r.thread = 0;
	journal_synth_record(j, slot, &r, NULL);
	r = (struct record){.kind = RECORD_STEP_END,
			    .begin_ns = end_ns + 1000,
			    .end_ns = end_ns + 1000,
			    .key = index,
			    .thread = 1,
			    .peer = -1};
	journal_synth_record(j, slot, &r, NULL);
	j->now_ns[slot] = end_ns + 2000;
}

/* A marked step of each rank: 50 ms and some noise, of rank 1 so much longer. */
static inline void journal_synth_step(struct journal_synth *j, uint64_t index, double slow)
{
	uint64_t end_ns[JOURNAL_SYNTH_RANKS], last_ns = 0;

	for (uint32_t i = 0; i < JOURNAL_SYNTH_RANKS; i++) {
		j->random = j->random * 6364136223846793005ull + 1442695040888963407ull;
		end_ns[i] = journal_synth_compute(j, i, index,
						  50000000 + (j->random >> 44) +
						      (uint64_t)(i == 1 ? slow * 50e6 : 0));
		last_ns = end_ns[i] > last_ns ? end_ns[i] : last_ns;
	}
	for (uint32_t i = 0; i < JOURNAL_SYNTH_RANKS; i++)
		journal_synth_wait(j, i, index, end_ns[i] + 1000, last_ns + 200000);
	for (uint32_t i = 0; i < JOURNAL_SYNTH_RANKS; i++)
		journal_synth_run(j, i, j->now_ns[i] - 1000000);
}

static inline void journal_synth_end(struct journal_synth *j)
{
	struct journal_event e = {.kind = JOURNAL_END};

	journal_writer_event(&j->w, &e);
}
