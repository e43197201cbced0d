/* SPDX-License-Identifier: Apache-2.0
 * commands.h - what the aggregator asks for in its replies (wire/codec.h, docs/wire-format.md): a window
 * of what is recorded, to keep a stretch, to look closer for a while.
 * Owns: what waits, and what is kept, within settings.hold_bytes.  Threads: the loop's.
 * Trust: commands are hostile: every list is bounded, every rank has a bucket of windows, times are
 * clamped; what exceeds a bound is counted and not done. */
#ifndef SYSOM_SIDECAR_COMMANDS_H
#define SYSOM_SIDECAR_COMMANDS_H

#include "base/buf.h"
#include "wire/codec.h"

/* Steps are judged, and device records come, so long after their end. */
#define COMMANDS_SETTLE_NS 2000000000ull
/* One suspicion lasts no longer, unless it is told again. */
#define COMMANDS_SUSPECT_MAX_NS 60000000000ull
#define COMMANDS_ASKED_BURST 4.0

struct node;
struct commands; /* opaque */

struct commands_stats {
	uint64_t windows, windows_bounded; /* answered; refused by the rank's bucket */
	uint64_t holds, holds_kept, holds_used, holds_lost; /* kept: copied before they were gone */
	uint64_t suspects;
	uint64_t nobody, unknown, full, bad; /* no such rank; kind; no room; begin after end */
	uint64_t held_bytes;
};

int commands_open(struct node *n);
void commands_close(struct node *n);
/* arg: the node; as uplink's callback. */
void commands_take(void *arg, const struct wire_command *c);
/* Does what is due, at most one window a call. */
void commands_tend(struct node *n, uint64_t now_ns);
/* Until when the aggregator wants this node looked at closer; 0: not. */
uint64_t commands_suspect_until_ns(const struct node *n);
void commands_stats_get(const struct node *n, struct commands_stats *out);

#endif
