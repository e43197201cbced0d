/* SPDX-License-Identifier: Apache-2.0
 * registration.h - the attach socket: takes connections, has a parser read their hello, and
 * attaches the processes.
 * Owns: the socket, its file, and connections until they are attached.  Threads: the loop's.
 * Trust: any local user may connect; places and work are bounded per user. */
#pragma once

#include <stdint.h>

struct node;
struct registration; /* opaque */

/* Borrows n. 0, -ENOMEM, -errno; -EADDRINUSE: somebody answers at settings.socket_path. */
int registration_open(struct registration **out, struct node *n);
/* Sends no command, so the jobs continue tracing. NULL is a no-op. */
void registration_close(struct registration *r);
/* Drops connections that sent no hello in time. */
void registration_tend(struct registration *r, uint64_t now_ns);
