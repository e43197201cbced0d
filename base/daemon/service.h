/* SPDX-License-Identifier: Apache-2.0
 * service.h - a daemon under systemd: the sockets that systemd passes, and the notifications that
 * it expects. Without systemd every function is a no-op.
 * Threads: the daemon's first. */
#ifndef SYSOM_BASE_DAEMON_SERVICE_H
#define SYSOM_BASE_DAEMON_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

/* Call before the first child starts: children must not inherit the sockets from systemd. */
void service_init(void);
/* Returns the non-blocking, listening Unix socket of this type (SOCK_STREAM, SOCK_SEQPACKET) at
 * this path that systemd passed; the caller owns it. -ENOENT: none. Once per path. */
int service_listener(const char *path, int type);
/* Writes the path of the first such socket that systemd passed to out. False: none was passed, or
 * its path is too long; out is unchanged. */
bool service_listener_path(int type, char *out, size_t out_bytes);
/* The unit's first StateDirectory=, which systemd made for this daemon alone. NULL: none. */
const char *service_state_dir(void);
/* Notifies systemd: ready to serve. */
void service_ready(void);
/* Notifies systemd: alive. Call it more often than half of the unit's WatchdogSec, or systemd
 * restarts the daemon. */
void service_alive(void);
void service_stopping(void);

#endif
