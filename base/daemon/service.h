/* SPDX-License-Identifier: Apache-2.0
 * service.h - a daemon under systemd: sockets that it passes, and what it expects to hear. Without systemd
 * every function does nothing.
 * Threads: the daemon's first. */
#ifndef SYSOM_BASE_DAEMON_SERVICE_H
#define SYSOM_BASE_DAEMON_SERVICE_H

/* Before the first child: none inherits the sockets that systemd passed. */
void service_init(void);
/* The listening Unix socket of this type (SOCK_STREAM, SOCK_SEQPACKET) at this path that systemd passed,
 * non-blocking; the caller owns it. -ENOENT: none. Once per path. */
int service_listener(const char *path, int type);
/* Ready to serve. */
void service_ready(void);
/* Still at work: more often than half of the unit's WatchdogSec, else systemd restarts the daemon. */
void service_alive(void);
void service_stopping(void);

#endif
