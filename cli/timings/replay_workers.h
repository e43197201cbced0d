/* SPDX-License-Identifier: Apache-2.0
 * replay_workers.h - shared by `sysom replay ops` and `sysom replay timings`: options, a growing table of
 * step times by worker, and printing of findings. Threads: one caller. Trust: the file is hostile: workers,
 * steps and cells are bounded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/trace/workers.h"
#include "base/idmap.h"
#include "cli/options.h"
#include "cli/timings/replay_input.h"

#define REPLAY_WORKERS_MAX	 65536u
#define REPLAY_WORKERS_STEPS_MAX 10000000u
/* 8 bytes in each of about six tables. */
#define REPLAY_WORKERS_CELLS_MAX (1u << 24)

struct replay_workers_ids { /* numbers ids in order of appearance */
	int64_t *id;
	uint32_t count;
	size_t room;
	struct idmap by_id;
};

struct replay_workers {
	/* options */
	bool json;
	const char *times, *unit; /* NULL: not given */
	int mode;		  /* enum peers_mode */
	double k;		  /* k, window: 0: not given */
	uint32_t window;
	struct peers_config config;
	struct replay_input in;
	struct replay_workers_ids rank, step;
	uint64_t rows, findings;
	/* called before a finding is printed, to add evidence and a cause; may be NULL */
	void (*refine)(void *kind, struct workers_finding *f);
};

#define REPLAY_WORKERS_TIMES 1 /* flag of a command that takes --time and --unit */
extern const struct option_row replay_workers_rows[];

/* Reads the options of the kind c into *r, which begins the kind's struct; calls `row` for every row of
 * the file, then finish. Both get r. Returns the exit code; frees r's tables. */
int replay_workers_main(struct replay_workers *r, const struct command *c, int argc, char **argv,
			replay_input_row *row, int (*finish)(void *kind));
/* The index of an id; a new id gets the next one. -ENOMEM, -E2BIG. */
int64_t replay_workers_find(struct replay_workers_ids *ids, int64_t id, uint32_t max);
/* For each id its place in ascending order. The caller owns it; NULL: out of memory. */
uint32_t *replay_workers_places(const struct replay_workers_ids *ids);
void replay_workers_forget(struct replay_workers_ids *ids);
/* Prints the findings of t. Returns an exit code. */
int replay_workers_judge(struct replay_workers *r, struct workers_table *t);
void replay_workers_free(struct replay_workers *r);
