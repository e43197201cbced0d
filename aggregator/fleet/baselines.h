/* SPDX-License-Identifier: Apache-2.0
 * baselines.h - what was normal in earlier runs of a job, by role: one sketch per (job, role, run)
 * in a small SQLite file of its own, baselines.db beside the store, so that detection never waits
 * for a window's commit, nor a window for it.
 *
 * The newest LIMIT_BASELINE_RUNS runs of a job and role are kept, LIMIT_BASELINES rows in all. A
 * run only brings its healthy samples, so one that was slower from its first step on is no
 * reference. Losing the last minute in a crash of the machine is no loss (synchronous=NORMAL); a
 * damaged file is set aside and begun anew. Owns its connection. Threads: any, one mutex inside. */
#ifndef SYSOM_AGGREGATOR_FLEET_BASELINES_H
#define SYSOM_AGGREGATOR_FLEET_BASELINES_H

#include <jansson.h>

#include "model/window.h"

struct baselines;

struct baselines_run {
	uint64_t run, updated_unix_ns, steps;
	double latency_ns, self_ns, mad_ns;
};

/* The directory is made where needed. -EIO, -ENOMEM, -ENOSPC. */
int baselines_open(struct baselines **out, const char *dir);
void baselines_close(struct baselines *b); /* NULL is a no-op */
/* body: a sketch as a message. Replaces the run's earlier row. */
int baselines_put(struct baselines *b, const char *job, const char *role,
		  const struct baselines_run *run, const void *body, size_t bytes);
/* Runs but `except` with at least 200 steps, newest first; the number, or -errno.
 * The newest one's sketch in *newest where that is not NULL (wire_sketch_free). */
int baselines_runs(struct baselines *b, const char *job, const char *role, uint64_t except,
		   struct baselines_run *out, uint32_t max, struct sketch *newest);
/* One run's sketch, the caller's (wire_sketch_free). -ENOENT, -EIO, or as wire_sketch_decode. */
int baselines_get(struct baselines *b, const char *job, const char *role, uint64_t run,
		  uint64_t *updated_unix_ns, struct sketch *out);
/* Removes what was not updated since, and what is beyond the bound. */
int baselines_expire(struct baselines *b, uint64_t before_unix_ns);
/* [{"role","run","updated_unix_ns","steps","latency_ms","self_ms","spread_ms"}] newest first. */
/* The key of the job of that name, if one user alone has one: 0 (none), 1 or 2 (several). */
uint32_t baselines_resolve(struct baselines *b, const char *asked, char key[WIRE_TEXT_BYTES]);
json_t *baselines_json(struct baselines *b, const char *job);

#endif
