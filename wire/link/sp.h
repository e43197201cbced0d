/* SPDX-License-Identifier: Apache-2.0
 * sp.h - parses what a peer sends by SP REQ or REP (nng's wire protocol) on a stream: a greeting,
 * then messages, each with its length and return path before the body. No I/O. Owns: the message.
 * Threads: one caller. Trust: the peer is hostile. Above SP_FIRST_BYTES we allocate at most twice
 * what the peer has sent, and never more than max_bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_GREETING_BYTES 8u
#define SP_FRAME_BYTES	  9u /* largest frame before a message */
#define SP_HOPS_MAX	  15u
#define SP_FIRST_BYTES	  4096u /* enough for a beat; doubled while a message comes in */

enum sp_side { SP_ASKS, SP_REPLIES };
enum sp_phase { SP_GREETING, SP_HEAD, SP_BODY, SP_MESSAGE /* complete */ };

struct sp {
	enum sp_phase phase;
	enum sp_side peer;
	bool ipc;
	size_t max_bytes; /* of a message, without its return path */
	uint8_t head[SP_FRAME_BYTES];
	uint8_t *body;
	size_t got, want, capacity; /* of the phase; want of body may be more than its capacity */
	size_t hops_bytes; /* return path at the start of the body; the answer repeats it */
};

void sp_init(struct sp *s, enum sp_side peer, bool ipc, size_t max_bytes);
void sp_fini(struct sp *s);
/* Where to put the next bytes, and how many fit. 0, -ENOMEM. Not in phase SP_MESSAGE. */
int sp_room(struct sp *s, uint8_t **at, size_t *bytes);
/* Call after receiving bytes. 0, -EPROTO (protocol violated, or too large). */
int sp_take(struct sp *s, size_t bytes);
/* Frees the message, and expects the head of the next one. */
void sp_next(struct sp *s);

/* The greeting of that side. */
void sp_greeting(uint8_t out[SP_GREETING_BYTES], enum sp_side side);
/* Writes the frame before a message, with its length; returns the frame's size. */
size_t sp_frame(uint8_t out[SP_FRAME_BYTES], bool ipc, uint64_t bytes);
