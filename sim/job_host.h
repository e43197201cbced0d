/* SPDX-License-Identifier: Apache-2.0
 * job_host.h - what a rank's host has to do before its shard can be sent: real work, as much of it
 * each time, so that whatever takes its CPU or holds up its system calls makes the step longer.
 * Owns: its buffers.  Threads: one at a time.  Errors: parsing false; a directory that cannot be
 * made is told on stderr and ends the rank. */
#ifndef SIM_JOB_HOST_H
#define SIM_JOB_HOST_H

#include <stdbool.h>
#include <stdint.h>

enum job_host_kind { JOB_HOST_PACK, JOB_HOST_LOOKUPS };

struct job_host {
	enum job_host_kind kind;
	uint64_t kib;	/* pack: float32 to bf16, with a checksum */
	unsigned ms;	/* pack: as much as takes so long here, if not 0; kib is found by the launcher */
	unsigned count; /* lookups: of files that are not there, in DIR/rRANK */
	char dir[256];
};

/* "pack:kib=N", "pack:ms=N" or "lookups:count=N:dir=DIR". */
bool job_host_parse(struct job_host *h, const char *text);
/* Makes DIR/rRANK. 0, or 1 and a message. */
int job_host_start(const struct job_host *h, int rank);
/* How many KiB the CPU of the caller packs in so many milliseconds (fastest of some tries). */
uint64_t job_host_kib_of(unsigned ms);
/* One of `pieces` equal parts. */
void job_host_work(const struct job_host *h, int rank, unsigned piece, unsigned pieces);

#endif
