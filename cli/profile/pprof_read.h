/* SPDX-License-Identifier: Apache-2.0
 * pprof_read.h - reads a pprof file (profile.proto; plain, gzip, zstd) as functions. Takes time on the CPU
 * if it has such values, else its default, else its last kind of value. Threads: one caller. Trust: the
 * file is hostile: its size is bounded and every id is looked up. */
#pragma once

#include <stdint.h>

#include "analysis/cause/profile.h"

/* The largest file, unpacked. */
#define PPROF_READ_BYTES_MAX (256u << 20)

/* The caller owns *out. *skipped: samples without a known frame or with a negative value. 0; or -errno
 * after a message (-EBADMSG: malformed). */
int pprof_read_load(struct profile **out, const char *path, uint64_t *skipped);
