/* SPDX-License-Identifier: Apache-2.0
 * senders.h - connections grouped by the peer's identity (base/daemon/peer.h). Room and processor
 * time are shared among senders first, and among one sender's connections second. A sender that
 * takes much waits and makes room for others, however many connections it has.
 * Owns: a sender while it has a connection, or owes time. The connections are the caller's. Threads:
 * one caller at a time. */
#pragma once

#include <sys/queue.h>

#include "aggregator/fair.h"
#include "base/daemon/peer.h"

/* Kinds of work; those of one kind never wait for another kind. */
#define SENDERS_LANES 3

struct senders;

struct sender_connection {
	struct sender *sender;
	TAILQ_ENTRY(sender_connection) next; /* of one sender, ordered by last use */
	struct fair_party turn[SENDERS_LANES];
	uint64_t bytes;
	int lane; /* the lane where it waits; -1: it does not wait */
};

struct sender {
	struct sender *next;
	STAILQ_ENTRY(sender) next_owing;
	bool owing;
	struct peer_key key;
	TAILQ_HEAD(, sender_connection) by_age;
	uint32_t connections;
	uint64_t bytes;
	struct fair_party turn[SENDERS_LANES], by_connections, by_bytes;
	struct fair waiting[SENDERS_LANES]; /* connections */
};

/* 0, -ENOMEM. */
int senders_open(struct senders **out);
void senders_close(struct senders *s); /* NULL is a no-op; no connection may be left */
/* 0, -ENOMEM. */
int senders_add(struct senders *s, struct sender_connection *c, struct peer_key key);
void senders_remove(struct senders *s, struct sender_connection *c);
/* The connection turned out to be of another sender: moves it there. Must not be called while it
 * waits. 0, -ENOMEM: it stays where it is. */
int senders_move(struct senders *s, struct sender_connection *c, struct peer_key key);
/* The connection was used: it becomes the youngest of its sender. */
void senders_touch(struct sender_connection *c);
/* Sets the memory that its messages use now. */
void senders_hold(struct senders *s, struct sender_connection *c, uint64_t bytes);
void senders_wait(struct senders *s, struct sender_connection *c, int lane);
/* Stops waiting; no effect unless it waits. */
void senders_cancel(struct senders *s, struct sender_connection *c);
/* Takes the connection whose turn it is out of the queue; NULL: none waits. */
struct sender_connection *senders_next(struct senders *s, int lane);
void senders_charge(struct senders *s, struct sender_connection *c, int lane, uint64_t cost_ns);
void senders_each(struct senders *s, void (*fn)(struct sender_connection *c));
/* The sender with most connections, or with most bytes; NULL: none. */
struct sender *senders_most_connections(struct senders *s);
struct sender *senders_most_bytes(struct senders *s);
