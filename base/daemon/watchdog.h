/* SPDX-License-Identifier: Apache-2.0
 * watchdog.h - a time limit for a daemon's shutdown. Closing other people's libraries may wait for
 * ever; that must not keep the process alive.
 * Uses SIGALRM and alarm(), which nothing else in the process may use.
 * Threads: the caller takes the signal; it must live as long as the process. */
#pragma once

/* If the process is still running in `seconds` (at least 1), it logs this on stderr and exits with
 * `code`. A later call replaces the bound and the code. */
void watchdog_arm(unsigned seconds, int code);
