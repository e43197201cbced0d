/* SPDX-License-Identifier: Apache-2.0
 * idle.h - chooses which connection a server closes when a new one finds all places taken. It
 * chooses the peer (base/daemon/peer.h) with the most connections, and of its connections the one
 * that has kept us waiting longest, for a request or to read its answer. So clients that connect
 * and then send or read nothing cannot keep a health probe out.
 * Owns: nothing. The server owns the descriptors and sees the end of one that is shut down.
 * Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/daemon/peer.h"

#define IDLE_PLACES_MAX 1024u
#define IDLE_PEERS	1024u /* by a keyed hash; two peers with the same hash count as one */

struct idle {
	/* keep: above this number, each new connection shuts down an idle one */
	uint32_t count, keep;
	uint64_t evicted;
	struct idle_place {
		int fd;
		uint32_t peer;
		bool busy, shut;
		uint64_t since; /* a serial number: older is smaller */
	} places[IDLE_PLACES_MAX];
	uint32_t open[IDLE_PEERS]; /* connections per peer that are not shut down */
	uint64_t serial;
};

void idle_init(struct idle *t, uint32_t keep);
/* Adds a new connection of this peer; shuts down an idle one if there are more than `keep`. */
void idle_add(struct idle *t, int fd, struct peer_key peer);
/* busy: the peer waits for us. Otherwise we wait for the peer, from now on. Unknown fd: no-op. */
void idle_set_busy(struct idle *t, int fd, bool busy);
/* Call before closing fd. */
void idle_remove(struct idle *t, int fd);
