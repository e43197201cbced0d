/* SPDX-License-Identifier: Apache-2.0
 * service.h - a daemon under systemd: the sockets that systemd passes, and the notifications that
 * it expects. Without systemd every function is a no-op.
 * Threads: the daemon's first. */
#ifndef SYSOM_BASE_DAEMON_SERVICE_H
#define SYSOM_BASE_DAEMON_SERVICE_H

/* Call before the first child starts: children must not inherit the sockets from systemd. */
void service_init(void);
/* Returns the non-blocking, listening Unix socket of this type (SOCK_STREAM, SOCK_SEQPACKET) at
 * this path that systemd passed; the caller owns it. -ENOENT: none. Once per path. */
int service_listener(const char *path, int type);
/* Notifies systemd: ready to serve. */
void service_ready(void);
/* Notifies systemd: alive. Call it more often than half of the unit's WatchdogSec, or systemd
 * restarts the daemon. */
void service_alive(void);
void service_stopping(void);

#endif
