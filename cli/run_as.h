/* SPDX-License-Identifier: Apache-2.0
 * run_as.h - which user a command is run as. `sudo sysom record -- CMD` needs root to sample, and CMD
 * does not: it runs as the user who called sudo. */
#ifndef SYSOM_CLI_RUN_AS_H
#define SYSOM_CLI_RUN_AS_H

#include <stdbool.h>
#include <sys/types.h>

struct run_as {
	bool change; /* false: as we are */
	uid_t uid;
	gid_t gid;
	char name[64], home[1024];
};

/* name: a user, or NULL: who called sudo (SUDO_UID), where we are root. 0; -ENOENT: no such user; -EPERM:
 * we are not root and it is another user. */
int run_as_find(struct run_as *out, const char *name);
/* In the child, before exec: takes that user's groups, ids and environment (HOME, USER, LOGNAME; no
 * SUDO_*). 0 or -errno; then the command must not be run. */
int run_as_become(const struct run_as *u);

#endif
