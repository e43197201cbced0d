/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/idle.h"

#include <string.h>
#include <sys/socket.h>

#include "base/keyed.h"

void idle_init(struct idle *t, uint32_t keep)
{
	memset(t, 0, sizeof(*t));
	t->keep = keep < IDLE_PLACES_MAX ? keep : IDLE_PLACES_MAX;
}

static struct idle_place *find(struct idle *t, int fd)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (t->places[i].fd == fd)
			return &t->places[i];
	return NULL;
}

static void shut_one(struct idle *t)
{
	struct idle_place *goes = NULL;

	for (uint32_t i = 0; i < t->count; i++) {
		struct idle_place *p = &t->places[i];

		if (!p->busy && !p->shut &&
		    (!goes || t->open[p->peer] > t->open[goes->peer] ||
		     (t->open[p->peer] == t->open[goes->peer] && p->since < goes->since)))
			goes = p;
	}
	if (!goes)
		return;
	goes->shut = true;
	t->open[goes->peer]--;
	t->evicted++;
	shutdown(goes->fd, SHUT_RDWR);
}

void idle_add(struct idle *t, int fd, struct peer_key peer)
{
	uint32_t at = (uint32_t)keyed_words(keyed_process(), peer.value, peer.kind) % IDLE_PEERS;
	uint32_t open = 0;

	for (uint32_t i = 0; i < t->count; i++)
		open += !t->places[i].shut;
	if (open >= t->keep)
		shut_one(t);
	if (t->count == IDLE_PLACES_MAX)
		return;
	t->places[t->count++] = (struct idle_place){.fd = fd, .peer = at, .since = ++t->serial};
	t->open[at]++;
}

void idle_set_busy(struct idle *t, int fd, bool busy)
{
	struct idle_place *p = find(t, fd);

	if (!p)
		return;
	p->busy = busy;
	p->since = ++t->serial;
}

void idle_remove(struct idle *t, int fd)
{
	struct idle_place *p = find(t, fd);

	if (!p)
		return;
	t->open[p->peer] -= !p->shut;
	*p = t->places[--t->count];
}
