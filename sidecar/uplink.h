/* SPDX-License-Identifier: Apache-2.0
 * uplink.h - windows and beats to the aggregator: nng REQ, one request at a time, a window is
 * forgotten only when the aggregator says that it has committed or refuses it.
 * A thread of its own does all that may block: the spool's fsync, the network. The loop's thread
 * hands messages over and gets commands back through a wake-up.
 * Owns: the spool, the socket, the thread. Threads: all calls from the loop's thread, but for
 * uplink_put_sketch.
 * Trust: replies are hostile bytes. */
#ifndef SYSOM_SIDECAR_UPLINK_H
#define SYSOM_SIDECAR_UPLINK_H

#include "base/buf.h"
#include "base/daemon/loop.h"
#include "sidecar/spool.h"
#include "wire/codec.h"

struct uplink_config {
	const char *url; /* borrowed until the close; "": nothing is sent, windows wait in the spool */
	struct spool_config spool;
};

struct uplink_stats {
	bool connected;
	struct spool_stats spool;
	uint64_t windows_sent, windows_duplicate, windows_rejected, retries;
	uint64_t windows_dropped; /* by spool, size, queue or rejection */
	uint64_t beats_sent, beats_failed, beats_replaced;
	uint64_t sketches_sent, sketches_failed, sketches_dropped; /* failed: no answer, or refused */
	uint64_t sketches_again; /* of those sent: on a new connection */
	uint64_t uploaded_bytes; /* all requests, resent ones too */
	uint64_t commands, bad_replies;
};

typedef void (*uplink_command_fn)(void *arg, const struct wire_command *c);

struct uplink; /* opaque */
int uplink_open(struct uplink **out, const struct uplink_config *c, struct loop *loop,
		uplink_command_fn fn, void *arg);
/* Takes the message's bytes (data is left empty). The thread spools it before it is sent. */
void uplink_put_window(struct uplink *u, struct buf *message);
/* Takes a beat; one that was not sent yet is replaced. */
void uplink_put_beat(struct uplink *u, struct buf *message);
/* Takes a sketch; of more than wait for a connection the oldest goes. Soft state: sent once, and the latest
 * of each key (a process) once more after the first beat of a new connection, whose aggregator may have
 * started anew. Any thread, before uplink_finish. */
void uplink_put_sketch(struct uplink *u, uint64_t key, struct buf *message);
void uplink_stats(struct uplink *u, struct uplink_stats *out);
/* Spools what is queued, goes on sending for at most linger_ms, ends the thread and closes the
 * spool: from here on nothing can be lost. Only uplink_close may follow. NULL is a no-op. */
void uplink_finish(struct uplink *u, uint32_t linger_ms);
/* Finishes if need be, closes the socket. NULL is a no-op. nng 1.5.2 waits without end for a
 * connection whose peer stopped in the middle of a message: the caller bounds it (watchdog.h). */
void uplink_close(struct uplink *u);

#endif
