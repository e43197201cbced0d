/* SPDX-License-Identifier: Apache-2.0
 * run_as.h - which user a command runs as. `sudo sysom record -- CMD` needs root to sample, but CMD runs as
 * the user who called sudo. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct run_as {
	bool change; /* false: run as the current user */
	uid_t uid;
	gid_t gid;
	char name[64], home[1024];
};

/* name: a user; NULL: the caller of sudo (SUDO_UID) if we are root. 0; -ENOENT: no such user; -EPERM:
 * another user, and we are not root. */
int run_as_find(struct run_as *out, const char *name);
/* In the child, before exec: sets that user's groups, ids and environment (HOME, USER, LOGNAME; no
 * SUDO_*). On -errno the command must not run. */
int run_as_become(const struct run_as *u);
