/* SPDX-License-Identifier: Apache-2.0
 * replay_workers.h - what `sysom replay ops` and `sysom replay timings` share: options, a growing table
 * of step times by worker, and its findings in print. Threads: one caller. Trust: the file is hostile:
 * workers, steps and cells are bounded. */
#ifndef SYSOM_CLI_TIMINGS_REPLAY_WORKERS_H
#define SYSOM_CLI_TIMINGS_REPLAY_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/trace/workers.h"
#include "base/idmap.h"
#include "cli/timings/replay_csv.h"
#include "cli/timings/replay_unit.h"

#define REPLAY_WORKERS_MAX	 65536u
#define REPLAY_WORKERS_STEPS_MAX 10000000u
/* 8 bytes in each of some six tables. */
#define REPLAY_WORKERS_CELLS_MAX (1u << 24)

struct replay_workers_ids { /* numbers in order of appearance, found by hash */
	int64_t *id;
	uint32_t count;
	size_t room;
	struct idmap by_id;
};

struct replay_workers {
	const char *kind, *path;
	bool json;
	bool has_times;			/* set by the kind: takes --time and --unit */
	const char *times;		/* NULL: not said */
	const struct replay_unit *unit; /* likewise */
	struct peers_config config;
	struct replay_workers_ids rank, step;
	uint64_t rows, blank;
	uint64_t findings;
	/* asked before a finding is printed: more evidence, a cause; may be NULL */
	void (*refine)(void *context, struct workers_finding *f);
	void *context; /* the kind's own */
};

/* Reads the options and runs run(r->context) on the file. The exit code; r's tables are free again. */
int replay_workers_main(struct replay_workers *r, int argc, char **argv, const char *usage,
			int (*run)(void *context, struct replay_csv *c));
/* The index of an id, new ones last; -ENOMEM, -E2BIG. */
int64_t replay_workers_find(struct replay_workers_ids *ids, int64_t id, uint32_t max);
/* The place of each id among all of them, ascending. Owned; NULL without memory. */
uint32_t *replay_workers_places(const struct replay_workers_ids *ids);
void replay_workers_forget(struct replay_workers_ids *ids);
/* A line on standard error that names file and line; 2. */
int replay_workers_bad(const struct replay_workers *r, const struct replay_csv *c, const char *what,
		       const char *which);
/* Findings of t, printed. 0 or an exit code. */
int replay_workers_judge(struct replay_workers *r, struct workers_table *t);
void replay_workers_free(struct replay_workers *r);

#endif
