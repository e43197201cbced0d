/* SPDX-License-Identifier: Apache-2.0
 * foreign.h - closes descriptors that another user's process sent over a Unix socket. Any message
 * may carry descriptors. The process that drops the last reference to a file closes the file: by
 * close(), by recv() without space for descriptors, or by closing the socket in which they are
 * queued. If the file is a TCP socket with SO_LINGER, the close waits as long as the socket's owner
 * chose. A signal ends the wait.
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
/* Bounds every such wait until foreign_end. System calls in between may be interrupted. */
void foreign_begin(struct foreign *f);
void foreign_end(struct foreign *f);
/* Calls close(), guarded by foreign_begin and foreign_end. -1 is a no-op. */
void foreign_close(int fd);
