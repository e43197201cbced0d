/* SPDX-License-Identifier: Apache-2.0
 * service.h - a daemon's interface to systemd: its Unix sockets, which systemd may pass, and the
 * notifications that systemd expects.
 * Threads: the daemon's first. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/daemon/loop.h"

/* Call before the first child starts: children must not inherit the sockets from systemd. */
void service_init(void);
/* Returns a non-blocking, listening Unix socket of this type (SOCK_STREAM, SOCK_SEQPACKET) at this
 * path: the one that systemd passed, otherwise our own. Replaces a socket file that a killed daemon
 * left behind. mask: umask for our own socket. *inode: of the socket's file, for service_unlisten;
 * 0: not ours to remove. -EADDRINUSE: another daemon answers there. -ENAMETOOLONG, -errno. Call
 * once per path. */
int service_listen(const char *path, int type, mode_t mask, ino_t *inode);
/* Removes the socket's file, unless another process has put its own there. */
void service_unlisten(const char *path, ino_t inode);
/* Writes to `out` the path of the first socket of this type that systemd passed. False: none was
 * passed, or its path is too long; `out` is unchanged. */
bool service_listener_path(int type, char *out, size_t out_bytes);
/* The unit's first StateDirectory=, which systemd made for this daemon alone. NULL: none. */
const char *service_state_dir(void);
/* Notifies systemd that the daemon is ready to serve. */
void service_ready(void);
/* Notifies systemd that the daemon is alive. Call it more often than every half of the unit's
 * WatchdogSec, or systemd restarts the daemon. */
void service_alive(void);
void service_stopping(void);
/* Ends the loop. If the daemon still runs 60 s later, because a disk or a library blocks, it exits
 * with EXIT_FAILED; systemd would kill it after 90 s. */
void service_stop(struct loop *l);
/* SIGTERM and SIGINT stop the loop in this way. Call before any thread starts: all inherit the
 * signal mask. 0, -errno. */
int service_stop_on_signals(struct loop *l);
