/* SPDX-License-Identifier: Apache-2.0
 * foreign.h - to let go of what another user's process has sent over a Unix socket.
 * Descriptors come with any message, and who drops the last reference of a file closes it: by close(), by
 * recv() without room for them, by closing the socket in which they wait. A TCP socket with SO_LINGER then
 * waits as long as its owner said. A signal ends that wait.
 * Uses SIGUSR2, which nothing else in the process may use or block.
 * Threads: any; begin and end by one. */
#ifndef SYSOM_BASE_DAEMON_FOREIGN_H
#define SYSOM_BASE_DAEMON_FOREIGN_H

#include <stdbool.h>
#include <time.h>

struct foreign {
	timer_t timer;
	bool armed;
};

#define FOREIGN_WAIT_NS 1000000
/* Between begin and end no wait of this kind lasts longer than that. Calls may be interrupted. */
void foreign_begin(struct foreign *f);
void foreign_end(struct foreign *f);
/* close() between begin and end. -1: nothing. */
void foreign_close(int fd);

#endif
