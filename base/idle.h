/* SPDX-License-Identifier: Apache-2.0
 * idle.h - which connection of a server has to go when a newcomer finds all places taken: the one that
 * has asked nothing for longest. So that clients that connect and say nothing can't keep a health
 * probe out.
 * Owns: nothing; descriptors stay their server's, which sees the end of one that is shut down.
 * Threads: one caller. */
#ifndef SYSOM_BASE_IDLE_H
#define SYSOM_BASE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#define IDLE_PLACES_MAX 1024u

struct idle {
	uint32_t count, keep; /* beyond keep, an idle one is shut down for each that comes */
	uint64_t evicted;
	struct idle_place {
		int fd;
		bool busy, shut;
		uint64_t since; /* a serial: older is smaller */
	} places[IDLE_PLACES_MAX];
	uint64_t serial;
};

void idle_init(struct idle *t, uint32_t keep);
/* A connection has come; shuts down the oldest idle one if there are more than keep. */
void idle_add(struct idle *t, int fd);
/* busy: it has a request that is being answered. Unknown descriptors are a no-op. */
void idle_set_busy(struct idle *t, int fd, bool busy);
/* Before fd is closed. */
void idle_remove(struct idle *t, int fd);

#endif
