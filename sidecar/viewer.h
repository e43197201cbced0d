/* SPDX-License-Identifier: Apache-2.0
 * viewer.h - whose ranks may be shown over a connection: a user's own; all of them to root, to sysomd's own
 * user and to those that http.see_all names. The user is the one that the kernel names
 * (base/daemon/peer.h). Of anybody else the user is not known, and no rank is shown.
 * Threads: any. Never blocks on a peer: it asks the kernel. */
#ifndef SYSOM_SIDECAR_VIEWER_H
#define SYSOM_SIDECAR_VIEWER_H

#include <stdbool.h>
#include <sys/types.h>

struct viewer {
	bool all, known;
	uid_t uid; /* where known */
};

/* Of the peer of a connected socket. see_all: uids separated by commas; "*": everybody. */
void viewer_of(struct viewer *v, int sock, const char *see_all);
bool viewer_sees(const struct viewer *v, uid_t owner);

#endif
