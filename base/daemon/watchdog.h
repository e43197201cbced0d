/* SPDX-License-Identifier: Apache-2.0
 * watchdog.h - a time limit for a daemon's shutdown. Closing foreign libraries may wait forever,
 * which must not keep the process alive.
 * Uses SIGALRM and alarm(), which nothing else in the process may use.
 * Threads: the calling thread takes the signal, so it must live as long as the process. */
#pragma once

/* If the process is still running in `seconds` (at least 1), it logs this on stderr and exits with
 * `code`. A later call replaces the time and the code. */
void watchdog_arm(unsigned seconds, int code);
