/* SPDX-License-Identifier: Apache-2.0
 * Reconnecting does not clear a sender's debt: a sender without seats is kept until the others have
 * used as much time as it has. */
#include "aggregator/senders.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "base/limits.h"

#define BUCKETS	   8192u
#define REAP_TURNS 4u /* per new seat, so that more senders are freed than made */

struct senders {
	struct fair lane[SENDERS_LANES], by_seats, by_bytes;
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
		if (x->seats)
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
	if (!x->seats) {
		fair_leave(&s->by_seats, &x->by_seats);
		fair_leave(&s->by_bytes, &x->by_bytes);
		return;
	}
	if (!x->by_seats.waits || x->by_seats.spent != UINT64_MAX - x->seats)
		fair_set(&s->by_seats, &x->by_seats, UINT64_MAX - x->seats);
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

static void sit(struct senders *s, struct seat *seat, struct sender *x)
{
	seat->sender = x;
	seat->lane = -1;
	TAILQ_INSERT_TAIL(&seat->sender->by_age, seat, next);
	seat->sender->seats++;
	weigh(s, seat->sender);
}

int senders_sit(struct senders *s, struct seat *seat, struct peer_key key)
{
	struct sender *x;

	reap(s);
	x = sender_of(s, key);
	if (!x)
		return -ENOMEM;
	sit(s, seat, x);
	return 0;
}

int senders_move(struct senders *s, struct seat *seat, struct peer_key key)
{
	struct sender *x = sender_of(s, key);

	if (!x)
		return -ENOMEM;
	senders_leave(s, seat);
	memset(seat->turn, 0, sizeof(seat->turn)); /* its debt was the other sender's */
	sit(s, seat, x);
	return 0;
}

void senders_leave(struct senders *s, struct seat *seat)
{
	struct sender *x = seat->sender;

	senders_cancel(s, seat);
	senders_hold(s, seat, 0);
	TAILQ_REMOVE(&x->by_age, seat, next);
	x->seats--;
	weigh(s, x);
	seat->sender = NULL;
	if (!x->seats && !x->owing)
		owe(s, x);
}

void senders_touch(struct seat *seat)
{
	TAILQ_REMOVE(&seat->sender->by_age, seat, next);
	TAILQ_INSERT_TAIL(&seat->sender->by_age, seat, next);
}

void senders_hold(struct senders *s, struct seat *seat, uint64_t bytes)
{
	seat->sender->bytes += bytes - seat->bytes;
	seat->bytes = bytes;
	weigh(s, seat->sender);
}

void senders_wait(struct senders *s, struct seat *seat, int lane)
{
	struct sender *x = seat->sender;

	seat->lane = lane;
	fair_join(&x->waiting[lane], &seat->turn[lane]);
	if (!x->turn[lane].waits)
		fair_join(&s->lane[lane], &x->turn[lane]);
}

void senders_cancel(struct senders *s, struct seat *seat)
{
	struct sender *x = seat->sender;
	int lane = seat->lane;

	if (lane < 0)
		return;
	seat->lane = -1;
	fair_leave(&x->waiting[lane], &seat->turn[lane]);
	if (!x->waiting[lane].first)
		fair_leave(&s->lane[lane], &x->turn[lane]);
}

struct seat *senders_next(struct senders *s, int lane)
{
	struct fair_party *p = fair_take(&s->lane[lane]);
	struct sender *x;
	struct seat *seat;

	if (!p)
		return NULL;
	x = SENDER_OF(p - lane, turn);
	p = fair_take(&x->waiting[lane]);
	seat = (struct seat *)(void *)((char *)(p - lane) - offsetof(struct seat, turn));
	seat->lane = -1;
	if (x->waiting[lane].first)
		fair_join(&s->lane[lane], &x->turn[lane]);
	return seat;
}

void senders_charge(struct senders *s, struct seat *seat, int lane, uint64_t cost_ns)
{
	struct sender *x = seat->sender;

	fair_charge(&x->waiting[lane], &seat->turn[lane], cost_ns);
	fair_charge(&s->lane[lane], &x->turn[lane], cost_ns);
}

void senders_each(struct senders *s, void (*fn)(struct seat *seat))
{
	struct seat *seat;

	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct sender *x = s->bucket[i]; x; x = x->next)
			TAILQ_FOREACH (seat, &x->by_age, next)
				fn(seat);
}

struct sender *senders_most_seats(struct senders *s)
{
	return s->by_seats.first ? SENDER_OF(s->by_seats.first, by_seats) : NULL;
}

struct sender *senders_most_bytes(struct senders *s)
{
	return s->by_bytes.first ? SENDER_OF(s->by_bytes.first, by_bytes) : NULL;
}
