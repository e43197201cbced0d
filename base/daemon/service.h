/* SPDX-License-Identifier: Apache-2.0
 * service.h - a daemon and what starts it: its Unix sockets, which systemd may pass, and the
 * notifications that systemd expects.
 * Threads: the daemon's first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Call before the first child starts: children must not inherit the sockets from systemd. */
void service_init(void);
/* A non-blocking, listening Unix socket of this type (SOCK_STREAM, SOCK_SEQPACKET) at this path:
 * systemd's, otherwise our own. One that a killed daemon left behind is replaced. mask: umask of our
 * own. *inode: of its file, for service_unlisten; 0: not ours to remove. -EADDRINUSE: another daemon
 * answers there. -ENAMETOOLONG, -errno. Once per path. */
int service_listen(const char *path, int type, mode_t mask, ino_t *inode);
/* Removes the socket's file, unless another process has put its own there. */
void service_unlisten(const char *path, ino_t inode);
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
