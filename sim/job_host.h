/* SPDX-License-Identifier: Apache-2.0
 * job_host.h - the work of a rank's host before it can send its shard. It is real work of a fixed
 * amount, so that anything that takes its CPU or delays its system calls makes the step longer.
 * Owns: its buffers.  Threads: one at a time.  Errors: parsing returns false; if a directory cannot
 * be made, the rank reports it on stderr and ends. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum job_host_kind { JOB_HOST_PACK, JOB_HOST_LOOKUPS };

struct job_host {
	enum job_host_kind kind;
	uint64_t kib;	/* pack: float32 to bf16, with a checksum */
	unsigned ms;	/* pack: as much as takes this long here, if not 0; the launcher computes
			 * kib */
	unsigned count; /* lookups: of missing files, in DIR/rRANK */
	char dir[256];
};

/* "pack:kib=N", "pack:ms=N" or "lookups:count=N:dir=DIR". */
bool job_host_parse(struct job_host *h, const char *text);
/* Makes DIR/rRANK. 0, or 1 and a message. */
int job_host_start(const struct job_host *h, int rank);
/* How many KiB this CPU packs in this time (fastest of some tries). */
uint64_t job_host_kib_of(unsigned ms);
/* One of `pieces` equal parts. */
void job_host_work(const struct job_host *h, int rank, unsigned piece, unsigned pieces);
