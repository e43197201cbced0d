/* SPDX-License-Identifier: Apache-2.0
 * baseline.h - store a process's healthy steps on disk. A restarted sysomd can then judge the
 * process from its first steps and need not learn for 50 steps again. One file per process in
 * state.dir/baseline, written to a temporary name and renamed, with a checksum. A file is valid for
 * its process only (pid, start, boot): another run may do other work.
 * Trust: files may be anything; every value is checked before it is used.
 * Threads: the loop's. */
#pragma once

#include <sys/types.h>

#include "node/rank.h"

struct baseline_id {
	uint64_t pid, uid, start_ticks;
	uint32_t boot; /* spool_boot() */
};

/* 0 or -errno. Not synced: after a crash of the machine the file would be useless. */
int baseline_save(int dirfd, const struct baseline_id *id, const struct judge_sample *samples,
		  uint32_t count);
/* Reads at most max samples, oldest first. Returns their count; -ENOENT, -EPROTO (wrong format or
 * version), -EBADMSG (damaged). */
int baseline_load(int dirfd, const struct baseline_id *id, struct judge_sample *out, uint32_t max);
void baseline_remove(int dirfd, const struct baseline_id *id);
/* Removes the files of processes that have ended, and unreadable files. */
void baseline_sweep(int dirfd, uint32_t boot);
