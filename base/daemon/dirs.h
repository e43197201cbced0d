/* SPDX-License-Identifier: Apache-2.0
 * dirs.h - makes a directory with its parents, and makes directory entries durable. Threads:
 * any. */
#pragma once

#include <sys/types.h>

/* Makes the directory with `mode`, and missing parents with 0755. Existing directories stay as they
 * are. 0, -errno. */
int dirs_make(const char *path, mode_t mode);
/* Makes the directory's entries durable (fsync). 0, -errno. */
int dirs_sync(const char *path);
