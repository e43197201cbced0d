/* SPDX-License-Identifier: Apache-2.0
 * viewer.h - decide which ranks a connection may see. A user sees the user's own ranks. Root,
 * sysomd's own user and the uids in http.see_all see all ranks. The kernel identifies the user
 * (base/daemon/peer.h). If it cannot, the connection sees no rank.
 * Threads: any. Never blocks on a peer: it asks the kernel. */
#ifndef SYSOM_SIDECAR_VIEWER_H
#define SYSOM_SIDECAR_VIEWER_H

#include <stdbool.h>
#include <sys/types.h>

struct viewer {
	bool all, known;
	uid_t uid; /* valid if known */
};

/* Identifies the peer of a connected socket. see_all: comma-separated uids; "*": everybody. */
void viewer_of(struct viewer *v, int sock, const char *see_all);
bool viewer_sees(const struct viewer *v, uid_t owner);

#endif
