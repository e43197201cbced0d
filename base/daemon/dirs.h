/* SPDX-License-Identifier: Apache-2.0
 * dirs.h - a directory with those above it. Threads: any. */
#ifndef SYSOM_BASE_DAEMON_DIRS_H
#define SYSOM_BASE_DAEMON_DIRS_H

#include <sys/types.h>

/* Makes it with that mode, those above it with 0755; what exists stays as it is. 0, -errno. */
int dirs_make(const char *path, mode_t mode);

#endif
