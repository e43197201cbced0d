/* SPDX-License-Identifier: Apache-2.0
 * Reconnecting does not clear a sender's debt: a sender without connections is kept until the others
 * have used as much time as it has. */
#include "aggregator/senders.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"

#define BUCKETS	   8192u
#define REAP_TURNS 4u /* per new connection, so that more senders are freed than made */

struct senders {
	struct fair lane[SENDERS_LANES], by_connections, by_bytes;
	STAILQ_HEAD(, sender) owing;
	uint32_t owing_count;
	struct sender *bucket[BUCKETS];
};

#define SENDER_OF(party, field)                                                                    \
	((struct sender *)(void *)((char *)(party)-offsetof(struct sender, field)))

static struct sender **place_of(struct senders *s, struct peer_key key)
{
	struct sender **at =
	    &s->bucket[keyed_words(keyed_process(), key.value, key.kind) % BUCKETS];

	while (*at && ((*at)->key.value != key.value || (*at)->key.kind != key.kind))
		at = &(*at)->next;
	return at;
}

int senders_open(struct senders **out)
{
	struct senders *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	STAILQ_INIT(&s->owing);
	*out = s;
	return 0;
}

void senders_close(struct senders *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < BUCKETS; i++)
		while (s->bucket[i]) {
			struct sender *x = s->bucket[i];

			s->bucket[i] = x->next;
			free(x);
		}
	free(s);
}

static void owe(struct senders *s, struct sender *x)
{
	STAILQ_INSERT_TAIL(&s->owing, x, next_owing);
	x->owing = true;
	s->owing_count++;
}

/* Frees senders whose debt has lasted longest, if it is paid, or if there are too many. */
static void reap(struct senders *s)
{
	for (uint32_t i = 0; i < REAP_TURNS && !STAILQ_EMPTY(&s->owing); i++) {
		struct sender *x = STAILQ_FIRST(&s->owing);
		bool owes = s->owing_count <= LIMIT_SENDERS_OWING;
		bool later = false;

		for (int k = 0; k < SENDERS_LANES; k++)
			later |= x->turn[k].spent > s->lane[k].now;
		STAILQ_REMOVE_HEAD(&s->owing, next_owing);
		x->owing = false;
		s->owing_count--;
		if (x->connections)
			continue;
		if (owes && later) {
			owe(s, x);
			continue;
		}
		*place_of(s, x->key) = x->next;
		free(x);
	}
}

static void weigh(struct senders *s, struct sender *x)
{
	if (!x->connections) {
		fair_leave(&s->by_connections, &x->by_connections);
		fair_leave(&s->by_bytes, &x->by_bytes);
		return;
	}
	if (!x->by_connections.waits || x->by_connections.spent != UINT64_MAX - x->connections)
		fair_set(&s->by_connections, &x->by_connections, UINT64_MAX - x->connections);
	if (!x->by_bytes.waits || x->by_bytes.spent != UINT64_MAX - x->bytes)
		fair_set(&s->by_bytes, &x->by_bytes, UINT64_MAX - x->bytes);
}

/* NULL: out of memory. */
static struct sender *sender_of(struct senders *s, struct peer_key key)
{
	struct sender **at = place_of(s, key);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return NULL;
		(*at)->key = key;
		TAILQ_INIT(&(*at)->by_age);
	}
	return *at;
}

static void insert(struct senders *s, struct sender_connection *c, struct sender *x)
{
	c->sender = x;
	c->lane = -1;
	TAILQ_INSERT_TAIL(&c->sender->by_age, c, next);
	c->sender->connections++;
	weigh(s, c->sender);
}

int senders_add(struct senders *s, struct sender_connection *c, struct peer_key key)
{
	struct sender *x;

	reap(s);
	x = sender_of(s, key);
	if (!x)
		return -ENOMEM;
	insert(s, c, x);
	return 0;
}

int senders_move(struct senders *s, struct sender_connection *c, struct peer_key key)
{
	struct sender *x = sender_of(s, key);

	if (!x)
		return -ENOMEM;
	senders_remove(s, c);
	memset(c->turn, 0, sizeof(c->turn)); /* its debt was the other sender's */
	insert(s, c, x);
	return 0;
}

void senders_remove(struct senders *s, struct sender_connection *c)
{
	struct sender *x = c->sender;

	senders_cancel(s, c);
	senders_hold(s, c, 0);
	TAILQ_REMOVE(&x->by_age, c, next);
	x->connections--;
	weigh(s, x);
	c->sender = NULL;
	if (!x->connections && !x->owing)
		owe(s, x);
}

void senders_touch(struct sender_connection *c)
{
	TAILQ_REMOVE(&c->sender->by_age, c, next);
	TAILQ_INSERT_TAIL(&c->sender->by_age, c, next);
}

void senders_hold(struct senders *s, struct sender_connection *c, uint64_t bytes)
{
	c->sender->bytes += bytes - c->bytes;
	c->bytes = bytes;
	weigh(s, c->sender);
}

void senders_wait(struct senders *s, struct sender_connection *c, int lane)
{
	struct sender *x = c->sender;

	c->lane = lane;
	fair_join(&x->waiting[lane], &c->turn[lane]);
	if (!x->turn[lane].waits)
		fair_join(&s->lane[lane], &x->turn[lane]);
}

void senders_cancel(struct senders *s, struct sender_connection *c)
{
	struct sender *x = c->sender;
	int lane = c->lane;

	if (lane < 0)
		return;
	c->lane = -1;
	fair_leave(&x->waiting[lane], &c->turn[lane]);
	if (!x->waiting[lane].first)
		fair_leave(&s->lane[lane], &x->turn[lane]);
}

struct sender_connection *senders_next(struct senders *s, int lane)
{
	struct fair_party *p = fair_take(&s->lane[lane]);
	struct sender *x;
	struct sender_connection *c;

	if (!p)
		return NULL;
	x = SENDER_OF(p - lane, turn);
	p = fair_take(&x->waiting[lane]);
	c = (struct sender_connection *)(void *)((char *)(p - lane) -
						 offsetof(struct sender_connection, turn));
	c->lane = -1;
	if (x->waiting[lane].first)
		fair_join(&s->lane[lane], &x->turn[lane]);
	return c;
}

void senders_charge(struct senders *s, struct sender_connection *c, int lane, uint64_t cost_ns)
{
	struct sender *x = c->sender;

	fair_charge(&x->waiting[lane], &c->turn[lane], cost_ns);
	fair_charge(&s->lane[lane], &x->turn[lane], cost_ns);
}

void senders_each(struct senders *s, void (*fn)(struct sender_connection *c))
{
	struct sender_connection *c;

	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct sender *x = s->bucket[i]; x; x = x->next)
			TAILQ_FOREACH (c, &x->by_age, next)
				fn(c);
}

struct sender *senders_most_connections(struct senders *s)
{
	return s->by_connections.first ? SENDER_OF(s->by_connections.first, by_connections) : NULL;
}

struct sender *senders_most_bytes(struct senders *s)
{
	return s->by_bytes.first ? SENDER_OF(s->by_bytes.first, by_bytes) : NULL;
}
