/* SPDX-License-Identifier: Apache-2.0
 * record.h - writes one sample as a snapshot file (tests/accuracy/snapshot.h), with the truth's frames. */
#pragma once

#include "tests/accuracy/snapshot.h"
#include "tests/accuracy/truth.h"

/* 0 or -errno. blind: part of the paths whose unwind information is left out, or NULL. */
int record_write(const char *path, const char *name, struct truth *truth,
		 const struct mapping_scan *scan, const struct snapshot_record *r,
		 const struct truth_stack *expected, const char *blind);
