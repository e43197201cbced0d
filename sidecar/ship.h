/* SPDX-License-Identifier: Apache-2.0
 * ship.h - windows and beats: collect them, encode them, hand them to the uplink.
 * Owns: node.analysis.windows and scratch.  Threads: the loop's. */
#pragma once

#include <stdint.h>

#include "base/buf.h"

struct node;
struct process;
struct ship; /* opaque */

/* Call after node.analysis.log is opened. -ENOMEM */
int ship_open(struct node *n);
void ship_close(struct node *n);
/* Sends windows that are due, and checks for ranks that have stopped. */
void ship_tend(struct node *n, uint64_t now_ns);
void ship_flush(struct node *n); /* closes and sends every open window */
/* Sends a window from the recorder; reason: WINDOW_ASKED or WINDOW_MANUAL. id: receives the
 * window's id; may be NULL. 0 or -errno. */
int ship_range(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	       const uint8_t *anomaly_id, /* 16 bytes; NULL: one of its own */
	       uint8_t id[16]);
/* Makes the same message in an uninitialised buffer, which the caller frees; sends nothing. */
int ship_pack(struct process *p, uint32_t reason, uint64_t begin_ns, uint64_t end_ns,
	      const uint8_t *anomaly_id, struct buf *out);
void ship_beat(struct node *n, uint64_t now_ns);
