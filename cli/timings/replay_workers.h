/* SPDX-License-Identifier: Apache-2.0
 * replay_workers.h - shared by `sysom replay ops` and `sysom replay timings`: options, a growing table of
 * step times by worker, and printing of findings. Threads: one caller. Trust: the file is hostile: workers,
 * steps and cells are bounded. */
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
/* 8 bytes in each of about six tables. */
#define REPLAY_WORKERS_CELLS_MAX (1u << 24)

struct replay_workers_ids { /* numbers ids in order of appearance */
	int64_t *id;
	uint32_t count;
	size_t room;
	struct idmap by_id;
};

struct replay_workers {
	const char *kind, *path;
	bool json;
	bool has_times;			/* set by the kind: accepts --time and --unit */
	const char *times;		/* --time, or NULL */
	const struct replay_unit *unit; /* --unit, or NULL */
	const char *of_sysom;		/* the last option that needs --mode sysom, or NULL */
	struct peers_config config;
	struct replay_workers_ids rank, step;
	uint64_t rows, blank;
	uint64_t findings;
	/* called before a finding is printed, to add evidence and a cause; may be NULL */
	void (*refine)(void *context, struct workers_finding *f);
	void *context; /* of the kind */
};

/* Reads the options and calls run(r->context) for the file. Returns the exit code; frees r's tables. */
int replay_workers_main(struct replay_workers *r, int argc, char **argv, const char *usage,
			int (*run)(void *context, struct replay_csv *c));
/* The index of an id; a new id gets the next one. -ENOMEM, -E2BIG. */
int64_t replay_workers_find(struct replay_workers_ids *ids, int64_t id, uint32_t max);
/* For each id its place in ascending order. The caller owns it; NULL: out of memory. */
uint32_t *replay_workers_places(const struct replay_workers_ids *ids);
void replay_workers_forget(struct replay_workers_ids *ids);
/* Prints a message with file and line; returns 2. */
int replay_workers_bad(const struct replay_workers *r, const struct replay_csv *c, const char *what,
		       const char *which);
/* Prints the findings of t. Returns an exit code. */
int replay_workers_judge(struct replay_workers *r, struct workers_table *t);
void replay_workers_free(struct replay_workers *r);

#endif
