/* SPDX-License-Identifier: Apache-2.0
 * profile_flame.h - a call tree as one self-contained HTML page: a flame graph to zoom, search and
 * switch between time on and off the CPU. No script from elsewhere, no network.
 * Threads: one caller. */
#ifndef SYSOM_CLI_PROFILE_FLAME_H
#define SYSOM_CLI_PROFILE_FLAME_H

#include <stdio.h>

#include "cli/profile_tree.h"

/* title and note are plain text. Nodes below share_min of the whole are left out and counted on the
 * page. 0, -EIO, -ENOMEM. */
int profile_flame_write(FILE *to, const struct profile_tree *t, const char *title, const char *note,
			double share_min);

#endif
