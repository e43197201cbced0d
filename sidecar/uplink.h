/* SPDX-License-Identifier: Apache-2.0
 * uplink.h - send windows and beats to the aggregator (wire/link/req.h), one request at a time. A window
 * is dropped only after the aggregator has committed or rejected it.
 * A separate thread does all work that may block: the spool's fsync and the network. The loop's
 * thread hands messages over and receives commands through a wake-up.
 * Owns: the spool, the socket, the thread. Threads: the loop's, except for uplink_put_sketch.
 * Trust: replies are hostile bytes. */
#pragma once

#include "base/buf.h"
#include "base/daemon/loop.h"
#include "sidecar/spool.h"
#include "wire/codec.h"
#include "wire/link/tls.h"

struct uplink_config {
	const char
	    *url; /* borrowed until the close; "": nothing is sent, windows wait in the spool */
	struct tls *tls;  /* NULL: plain; borrowed until the close */
	const char *name; /* name that the aggregator's certificate must have; "": the url's host */
	struct spool_config spool;
};

struct uplink_stats {
	bool connected;
	struct spool_stats spool;
	uint64_t windows_sent, windows_duplicate, windows_rejected, retries;
	/* dropped by the spool, by the queue, for their size, or because they were rejected */
	uint64_t windows_dropped;
	uint64_t beats_sent, beats_failed, beats_replaced;
	uint64_t sketches_sent, sketches_failed,
	    sketches_dropped;	 /* sketches_failed: no answer, or refused */
	uint64_t sketches_again; /* sent once more on a new connection */
	uint64_t uploaded_bytes; /* all requests, including resent ones */
	uint64_t commands, bad_replies;
};

typedef void (*uplink_command_fn)(void *arg, const struct wire_command *c);

struct uplink; /* opaque */
int uplink_open(struct uplink **out, const struct uplink_config *c, struct loop *loop,
		uplink_command_fn fn, void *arg);
/* Takes the message's bytes and leaves the buffer empty. The thread spools it before sending. */
void uplink_put_window(struct uplink *u, struct buf *message);
/* Takes a beat and replaces one that is not sent yet. */
void uplink_put_beat(struct uplink *u, struct buf *message);
/* Takes a sketch; a full queue drops the oldest. Each sketch is sent once. After the first beat on
 * a new connection the latest of each key (a process) is sent once more, because the aggregator may
 * have restarted. Any thread, before uplink_finish. */
void uplink_put_sketch(struct uplink *u, uint64_t key, struct buf *message);
void uplink_stats(struct uplink *u, struct uplink_stats *out);
/* Spools queued windows, sends for at most linger_ms, ends the thread and closes the spool.
 * Afterwards no window can be lost. Only uplink_close may follow. NULL is a no-op. */
void uplink_finish(struct uplink *u, uint32_t linger_ms);
/* Calls uplink_finish if needed and closes the connection. NULL is a no-op. */
void uplink_close(struct uplink *u);
