/* SPDX-License-Identifier: Apache-2.0
 * watchdog.h - a bound for a daemon's end: what other people's libraries wait for while they are
 * closed must not keep the process alive.
 * Uses SIGALRM and alarm(), which nothing else in the process may use.
 * Threads: the caller's takes the signal; it must not be one that ends before the process. */
#ifndef SYSOM_BASE_DAEMON_WATCHDOG_H
#define SYSOM_BASE_DAEMON_WATCHDOG_H

/* The process says so on stderr and ends with `code` when it still is there in `seconds` (at least
 * 1). Called again: the newer bound and code hold. */
void watchdog_arm(unsigned seconds, int code);

#endif
