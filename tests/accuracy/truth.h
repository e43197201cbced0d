/* SPDX-License-Identifier: Apache-2.0
 * truth.h - what independent unwinders say about one recorded sample: libdw first, libunwind
 * second. Owns: a libdw session per process.  Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/accuracy/snapshot_format.h"
#include "sampler/mapping_scan.h"

struct truth_stack {
	uint32_t count;
	__u64 pc[UNWIND_FRAME_MAX];
	bool silent;	     /* ended in code without unwind information: no more can be said */
	bool cut;	     /* ended at what the snapshot does not hold */
	uint32_t live_reads; /* of writable memory outside the snapshot, from the running process */
	char why[96];
};

struct truth;
int truth_open(struct truth **out, uint32_t pid);
void truth_close(struct truth *t);
/* By libdw over the record's registers and stack. */
void truth_libdw(struct truth *t, const struct snapshot_record *r, struct truth_stack *out);
/* By libunwind over the same. mappings: of the process. */
void truth_libunwind(struct truth *t, const struct mapping_scan *mappings,
		     const struct snapshot_record *r, struct truth_stack *out);
/* Memory of the record, or of the running process. 0 or -1. */
int truth_read(struct truth *t, const struct snapshot_record *r, void *to, size_t bytes,
	       uint64_t address);
/* True if the record has these bytes, or the process can't change them. */
bool truth_holds(const struct truth *t, const struct snapshot_record *r, size_t bytes,
		 uint64_t address);
