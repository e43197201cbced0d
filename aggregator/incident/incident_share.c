/* SPDX-License-Identifier: Apache-2.0
 * Room is divided among senders, then among a sender's nodes, then among their jobs. So invented
 * jobs, however many, take room only from their own sender. An incident counts for the sender that
 * founded it. */
#include <stdlib.h>

#include "aggregator/incident/incident_private.h"
#include "base/keyed.h"

static struct share *share_of(struct incident_set *s, uint64_t key)
{
	struct share *x = s->shares;

	while (x && x->key != key)
		x = x->next;
	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->key = key;
	x->next = s->shares;
	s->shares = x;
	return x;
}

static void drop_unused(struct incident_set *s)
{
	struct share **at = &s->shares;

	while (*at) {
		struct share *x = *at;

		if (x->incidents) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		free(x);
	}
}

bool incident_share_join(struct incident_set *s, struct incident *i, uint64_t sender,
			 const char *node)
{
	const struct keyed *k = keyed_process();
	uint64_t key[SHARE_LEVELS], at = keyed_text(k, node);

	/* a restored incident has only the node's name */
	key[SHARE_SENDER] = keyed_words(k, SHARE_SENDER, sender ? sender : at);
	key[SHARE_NODE] = keyed_words(k, key[SHARE_SENDER] + SHARE_NODE, at);
	key[SHARE_JOB] = keyed_words(k, key[SHARE_SENDER] + SHARE_JOB, keyed_text(k, i->row.job));
	incident_share_leave(s, i);
	for (int n = 0; n < SHARE_LEVELS; n++) {
		i->share[n] = share_of(s, key[n]);
		if (!i->share[n]) {
			incident_share_leave(s, i);
			return false;
		}
		i->share[n]->incidents++;
	}
	return true;
}

void incident_share_leave(struct incident_set *s, struct incident *i)
{
	for (int n = 0; n < SHARE_LEVELS; n++) {
		if (i->share[n])
			i->share[n]->incidents--;
		i->share[n] = NULL;
	}
	drop_unused(s);
}

void incident_share_count(const struct incident_set *s, bool open)
{
	for (struct share *x = s->shares; x; x = x->next)
		x->counted = 0;
	for (const struct incident *i = s->first; i; i = i->next)
		for (int n = 0; n < SHARE_LEVELS && i->row.open == open; n++)
			if (i->share[n])
				i->share[n]->counted++;
}

void incident_share_weigh(const struct incident_set *s)
{
	for (struct share *x = s->shares; x; x = x->next)
		x->bytes = 0;
	for (const struct incident *i = s->first; i; i = i->next)
		for (int n = 0; n < SHARE_LEVELS; n++)
			if (i->share[n])
				i->share[n]->bytes += i->excerpt_bytes;
}

int incident_share_compare(const struct incident *a, const struct incident *b)
{
	for (int n = 0; n < SHARE_LEVELS; n++)
		if (a->share[n]->counted != b->share[n]->counted)
			return a->share[n]->counted > b->share[n]->counted ? 1 : -1;
	return 0;
}
