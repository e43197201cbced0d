/* SPDX-License-Identifier: Apache-2.0
 * idle.h - which connection of a server has to go when a newcomer finds all places taken: of the peer
 * (base/daemon/peer.h) that has most of them, the one that we have waited for longest, for a request
 * or for it to
 * take its answer. So that clients that connect and say nothing, or read nothing, can't keep a health probe
 * out.
 * Owns: nothing; descriptors stay their server's, which sees the end of one that is shut down.
 * Threads: one caller. */
#ifndef SYSOM_BASE_DAEMON_IDLE_H
#define SYSOM_BASE_DAEMON_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/daemon/peer.h"

#define IDLE_PLACES_MAX 1024u
#define IDLE_PEERS 1024u /* by a keyed hash; two that share a place count as one */

struct idle {
	uint32_t count, keep; /* beyond keep, an idle one is shut down for each that comes */
	uint64_t evicted;
	struct idle_place {
		int fd;
		uint32_t peer;
		bool busy, shut;
		uint64_t since; /* a serial: older is smaller */
	} places[IDLE_PLACES_MAX];
	uint32_t open[IDLE_PEERS]; /* connections of each peer that are not shut down */
	uint64_t serial;
};

void idle_init(struct idle *t, uint32_t keep);
/* A connection of that peer has come; shuts down an idle one if there are more than keep. */
void idle_add(struct idle *t, int fd, struct peer_key peer);
/* busy: it waits for us. Else we wait for it, from now on. Unknown descriptors are a no-op. */
void idle_set_busy(struct idle *t, int fd, bool busy);
/* Before fd is closed. */
void idle_remove(struct idle *t, int fd);

#endif
