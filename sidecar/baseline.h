/* SPDX-License-Identifier: Apache-2.0
 * baseline.h - what was usual for a process's steps, on disk, so that a sysomd that was killed judges
 * the process again as soon as its successor finds steps, and need not learn for 50 steps anew.
 * One file per process in state.dir/baseline: written aside and renamed, with a checksum. It is for
 * that very process (pid, start, boot) only: another run may do other work.
 * Trust: files may be anything; every value is checked before it is used.
 * Threads: the loop's. */
#ifndef SYSOM_SIDECAR_BASELINE_H
#define SYSOM_SIDECAR_BASELINE_H

#include <sys/types.h>

#include "node/rank.h"

struct baseline_id {
	uint64_t pid, uid, start_ticks;
	uint32_t boot; /* spool_boot() */
};

/* 0 or -errno. Not synced: what a crash of the machine loses is of no use after it. */
int baseline_save(int dirfd, const struct baseline_id *id, const struct judge_sample *samples,
		  uint32_t count);
/* Oldest first, at most max. Their count; -ENOENT, -EPROTO (not such a file, or another version),
 * -EBADMSG (damaged). */
int baseline_load(int dirfd, const struct baseline_id *id, struct judge_sample *out, uint32_t max);
void baseline_remove(int dirfd, const struct baseline_id *id);
/* Removes the files of processes that are no more, and what is none of ours to read. */
void baseline_sweep(int dirfd, uint32_t boot);

#endif
