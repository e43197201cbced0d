/* SPDX-License-Identifier: Apache-2.0
 * baselines.h - what was normal in earlier runs of a job, by role. Stores one sketch per (job,
 * role, run) in an SQLite file of its own, baselines.db beside the store. So detection never waits
 * for the commit of a window, and no commit waits for detection. Keeps the newest
 * LIMIT_BASELINE_RUNS runs of a job and role, and LIMIT_BASELINES rows in all. A run contributes
 * only its healthy samples, so a run that was slow from its first step is no reference. A crash of
 * the machine may lose the last minute (synchronous=NORMAL). A damaged file is renamed, and a new
 * one begun.
 * Owns its connection. Threads: any; one mutex inside. */
#pragma once

#include <jansson.h>

#include "model/window.h"

struct baselines;

struct baselines_run {
	/* run: the run's id; steps: healthy steps so far */
	uint64_t run, updated_unix_ns, steps;
	/* medians of the latency and the self time; mad_ns: MAD of the latency */
	double latency_ns, self_ns, mad_ns;
};

/* Creates the directory if needed. -EIO, -ENAMETOOLONG, -ENOMEM, -ENOSPC. */
int baselines_open(struct baselines **out, const char *dir);
void baselines_close(struct baselines *b); /* NULL is a no-op */
/* job: a series (base/job_key.h). body: a sketch as a message. Replaces the run's earlier row. */
int baselines_put(struct baselines *b, const char *job, const char *role,
		  const struct baselines_run *run, const void *body, size_t bytes);
/* Reads runs other than `except` with at least 200 steps, newest first; their number, or -errno.
 * *newest: the newest run's sketch (wire_sketch_free); may be NULL. */
int baselines_runs(struct baselines *b, const char *job, const char *role, uint64_t except,
		   struct baselines_run *out, uint32_t max, struct sketch *newest);
/* Reads one run's sketch; the caller frees it (wire_sketch_free). -ENOENT, -EIO, or as
 * wire_sketch_decode. */
int baselines_get(struct baselines *b, const char *job, const char *role, uint64_t run,
		  uint64_t *updated_unix_ns, struct sketch *out);
/* Removes rows that were last updated before this time, and rows beyond the limit. */
int baselines_expire(struct baselines *b, uint64_t before_unix_ns);
/* Finds the key of the job with that name. Returns the number of matches: 0, 1, or 2 (several users
 * have such a job). */
uint32_t baselines_resolve(struct baselines *b, const char *asked, char key[WIRE_TEXT_BYTES]);
/* [{"role","run","updated_unix_ns","steps","latency_ms","self_ms","spread_ms"}], newest first. */
json_t *baselines_json(struct baselines *b, const char *job);
