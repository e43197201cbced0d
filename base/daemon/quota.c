/* SPDX-License-Identifier: Apache-2.0
 * quota.c - see quota.h. The fair share is found by filling: users below an equal part of the rest
 * count in full, and the others divide what these leave. This repeats until no user is below. */
#include "base/daemon/quota.h"

#include <string.h>

#include "base/check.h"

void quota_init(struct quota *q, uint64_t capacity, uint64_t period_ns)
{
	memset(q, 0, sizeof(*q));
	q->capacity = capacity;
	q->period_ns = period_ns;
}

static uint32_t find(const struct quota *q, uid_t uid)
{
	uint32_t i = 0;

	while (i < q->user_count && q->users[i].uid != uid)
		i++;
	return i;
}

static void drop_user(struct quota *q, uint32_t at)
{
	q->total -= q->users[at].amount;
	q->users[at] = q->users[--q->user_count];
}

static void fade(struct quota *q, uint64_t now_ns)
{
	uint64_t periods;

	if (!q->period_ns)
		return;
	if (!q->faded_ns || now_ns < q->faded_ns)
		q->faded_ns = now_ns;
	periods = (now_ns - q->faded_ns) / q->period_ns;
	if (!periods)
		return;
	q->faded_ns += periods * q->period_ns;
	for (uint32_t i = q->user_count; i-- > 0;) {
		uint64_t left = periods < 64 ? q->users[i].amount >> periods : 0;

		q->total -= q->users[i].amount - left;
		q->users[i].amount = left;
		if (!left)
			drop_user(q, i);
	}
}

/* Whether user `at` (user_count: a new one) stays within the fair share with this total. */
static bool is_fair(const struct quota *q, uint32_t at, uint64_t amount)
{
	uint64_t rest = q->capacity;
	uint32_t users = q->user_count + (at == q->user_count), left = users;
	bool counted[QUOTA_USERS + 1] = {false}, more = true;

	while (more && left) {
		uint64_t part = rest / left;

		more = false;
		for (uint32_t i = 0; i < users; i++) {
			uint64_t has = i == at ? amount : q->users[i].amount;

			if (counted[i] || has > part)
				continue;
			if (i == at)
				return true;
			counted[i] = true;
			rest -= has;
			left--;
			more = true;
		}
	}
	return false;
}

bool quota_is_full(const struct quota *q, uint64_t amount)
{
	return q->total > q->capacity || amount > q->capacity - q->total;
}

bool quota_may(struct quota *q, uid_t uid, uint64_t amount, uint64_t now_ns)
{
	uint32_t at;
	bool may;

	fade(q, now_ns);
	at = find(q, uid);
	may = at < QUOTA_USERS || q->period_ns;
	if (may && quota_is_full(q, amount))
		may = is_fair(q, at, amount + quota_of(q, uid));
	q->refused += !may;
	return may;
}

void quota_take(struct quota *q, uid_t uid, uint64_t amount, uint64_t now_ns)
{
	uint32_t at, least = 0;

	fade(q, now_ns);
	at = find(q, uid);
	if (at == QUOTA_USERS) {
		CHECK(q->period_ns); /* quota_may refuses this for a held quota */
		for (uint32_t i = 1; i < q->user_count; i++)
			if (q->users[i].amount < q->users[least].amount)
				least = i;
		drop_user(q, least);
		at = q->user_count;
	}
	if (at == q->user_count) {
		q->users[at].uid = uid;
		q->users[at].amount = 0;
		q->user_count++;
	}
	/* The sum must not wrap; anything beyond this is far above any capacity. */
	if (amount > UINT64_MAX / 2 - q->total)
		amount = q->total < UINT64_MAX / 2 ? UINT64_MAX / 2 - q->total : 0;
	q->users[at].amount += amount;
	q->total += amount;
}

void quota_give(struct quota *q, uid_t uid, uint64_t amount)
{
	uint32_t at = find(q, uid);

	CHECK(at < q->user_count && q->users[at].amount >= amount);
	q->users[at].amount -= amount;
	q->total -= amount;
	if (!q->users[at].amount)
		drop_user(q, at);
}

bool quota_heaviest(const struct quota *q, uid_t *uid)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < q->user_count; i++)
		if (q->users[i].amount > most) {
			most = q->users[i].amount;
			*uid = q->users[i].uid;
		}
	return most > 0;
}

uint64_t quota_of(const struct quota *q, uid_t uid)
{
	uint32_t at = find(q, uid);

	return at < q->user_count ? q->users[at].amount : 0;
}
