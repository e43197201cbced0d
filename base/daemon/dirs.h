/* SPDX-License-Identifier: Apache-2.0
 * dirs.h - makes a directory and its parents, and makes names durable. Threads: any. */
#pragma once

#include <sys/types.h>

/* Makes the directory with `mode` and missing parents with 0755; existing ones stay as they are. 0,
 * -errno. */
int dirs_make(const char *path, mode_t mode);
/* Makes the names in the directory durable. 0, -errno. */
int dirs_sync(const char *path);
