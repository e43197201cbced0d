/* SPDX-License-Identifier: Apache-2.0
 * foreign.h - closes descriptors that another user's process sent over a Unix socket.
 * Any message may carry descriptors. Whoever drops the last reference to a file closes it: by
 * close(), by recv() without space for them, or by closing the socket in which they are queued. If
 * it is a TCP socket with SO_LINGER, that close waits as long as its owner chose. A signal ends the
 * wait.
 * Uses SIGUSR2, which nothing else in the process may use or block.
 * Threads: any; the same thread calls begin and end. */
#pragma once

#include <stdbool.h>
#include <time.h>

struct foreign {
	timer_t timer;
	bool armed;
};

#define FOREIGN_WAIT_NS 1000000
/* Bounds every such wait between begin and end. System calls in between may be interrupted. */
void foreign_begin(struct foreign *f);
void foreign_end(struct foreign *f);
/* Calls close(), between begin and end. -1 is a no-op. */
void foreign_close(int fd);
