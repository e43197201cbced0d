/* SPDX-License-Identifier: Apache-2.0
 * profile_pprof.h - a stack batch as pprof's gzipped profile.proto: samples and cpu time, off-CPU count
 * and time; labels pid, tid, thread; mappings with their Build IDs, so that `pprof` can add symbols.
 * Threads: one caller. */
#ifndef SYSOM_CLI_PROFILE_PROFILE_PPROF_H
#define SYSOM_CLI_PROFILE_PROFILE_PPROF_H

#include <stdio.h>

#include "cli/profile/profile_names.h"

/* realtime_ns: the batch's begin on the calendar; period_ns: between two samples of a busy thread.
 * 0, -ENOMEM, -EIO. */
int profile_pprof_write(FILE *to, const struct stack_batch *b, struct profile_names *names,
			uint64_t realtime_ns, uint64_t period_ns);

#endif
