/* SPDX-License-Identifier: Apache-2.0
 * profile_pprof.h - writes a stack batch as pprof's gzipped profile.proto: samples and CPU time, blocking
 * events and their time; labels pid, tid, thread; mappings with Build IDs, so that `pprof` can add symbols.
 * Threads: one caller. */
#pragma once

#include <stdio.h>

#include "cli/profile/profile_names.h"

/* realtime_ns: start of the batch, Unix time; period_ns: between two samples of a busy thread. 0, -ENOMEM,
 * -EIO. */
int profile_pprof_write(FILE *to, const struct stack_batch *b, struct profile_names *names,
			uint64_t realtime_ns, uint64_t period_ns);
