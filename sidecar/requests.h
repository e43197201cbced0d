/* SPDX-License-Identifier: Apache-2.0
 * requests.h - carry out the commands in the aggregator's replies (wire/codec.h,
 * docs/wire-format.md): send a window, hold a time range, sample more closely for a while.
 * Owns: pending requests, and held windows within settings.hold_bytes. Threads: the loop's.
 * Trust: commands are hostile. Every list is bounded, every rank has a token bucket for windows,
 * and times are clamped. Commands beyond a bound are counted and ignored. */
#pragma once

#include "base/buf.h"
#include "wire/codec.h"

#define REQUESTS_ASKED_BURST 4.0

struct node;
struct process;
struct requests; /* opaque */

struct requests_stats {
	uint64_t windows, windows_bounded; /* answered; refused by the rank's bucket */
	uint64_t windows_failed;	   /* could not be made: the log says why */
	/* holds_kept: windows made before the records were lost */
	uint64_t holds, holds_kept, holds_used, holds_lost;
	uint64_t suspects;
	/* ignored commands: no such rank; unknown kind; no room; begin after end */
	uint64_t nobody, unknown, full, bad;
	uint64_t held_bytes;
};

int requests_open(struct node *n);
void requests_close(struct node *n);
/* The callback for uplink; arg: the node. */
void requests_take(void *arg, const struct wire_command *c);
/* Carries out due requests, at most one window per call. */
void requests_tend(struct node *n, uint64_t now_ns);
/* Takes one window from the rank's share (window.asked_per_minute). False: the share is used up. */
bool requests_allowed(struct process *p, uint64_t now_ns);
void requests_stats_get(const struct node *n, struct requests_stats *out);
