/* SPDX-License-Identifier: Apache-2.0
 * requests.h - what the aggregator asks for in its replies (wire/codec.h, docs/wire-format.md): a window
 * of what is recorded, to keep a stretch, to look closer for a while.
 * Owns: what waits, and what is kept, within settings.hold_bytes.  Threads: the loop's.
 * Trust: commands are hostile: every list is bounded, every rank has a bucket of windows, times are
 * clamped; what exceeds a bound is counted and not done. */
#ifndef SYSOM_SIDECAR_REQUESTS_H
#define SYSOM_SIDECAR_REQUESTS_H

#include "base/buf.h"
#include "wire/codec.h"

#define REQUESTS_ASKED_BURST 4.0

struct node;
struct requests; /* opaque */

struct requests_stats {
	uint64_t windows, windows_bounded; /* answered; refused by the rank's bucket */
	uint64_t windows_failed;	   /* that could not be made: the log says why */
	uint64_t holds, holds_kept, holds_used, holds_lost; /* kept: copied before they were gone */
	uint64_t suspects;
	uint64_t nobody, unknown, full, bad; /* no such rank; kind; no room; begin after end */
	uint64_t held_bytes;
};

int requests_open(struct node *n);
void requests_close(struct node *n);
/* arg: the node; as uplink's callback. */
void requests_take(void *arg, const struct wire_command *c);
/* Does what is due, at most one window a call. */
void requests_tend(struct node *n, uint64_t now_ns);
void requests_stats_get(const struct node *n, struct requests_stats *out);

#endif
