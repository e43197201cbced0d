/* SPDX-License-Identifier: Apache-2.0
 * quota.h - divides a shared resource fairly among users: slots, lanes, work per second. While the
 * capacity is not used up, any user may take more. After that a user may take more only up to the
 * fair share: the largest level at which all users, each capped at that level, fit into the
 * capacity. So nobody can keep out a user who has less than capacity / users, and there is no limit
 * to configure. There are two kinds of quota:
 *   held (period_ns 0)   the amount is in use until quota_give. Above the capacity the caller first
 *                        takes some back from quota_heaviest.
 *   work (period_ns > 0) the amount decays: it halves every period. All users together take at most
 *                        twice the capacity.
 * Owns nothing. Threads: one caller, or the caller's lock. Bounded: QUOTA_USERS entries; work per
 * call at most QUOTA_USERS squared, and only when the capacity is used up. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The most users remembered at a time. With more, a held quota refuses further users, and a work
 * quota forgets the user who took least. */
#define QUOTA_USERS 64u

struct quota {
	uint64_t capacity, period_ns;
	uint64_t total, faded_ns;
	uint64_t refused; /* times that quota_may said no */
	uint32_t user_count;
	struct {
		uid_t uid;
		uint64_t amount;
	} users[QUOTA_USERS];
};

void quota_init(struct quota *q, uint64_t capacity, uint64_t period_ns);
/* Whether the user may take this amount now. Counts refusals. */
bool quota_may(struct quota *q, uid_t uid, uint64_t amount, uint64_t now_ns);
/* Whether the amount does not fit. With a held quota the heaviest user then has to give first. */
bool quota_is_full(const struct quota *q, uint64_t amount);
/* Takes the amount, whether or not quota_may was called, because the cost of work is known only
 * after the work. */
void quota_take(struct quota *q, uid_t uid, uint64_t amount, uint64_t now_ns);
/* Returns what was taken. */
void quota_give(struct quota *q, uid_t uid, uint64_t amount);
/* The user who has most; false: nobody has anything. */
bool quota_heaviest(const struct quota *q, uid_t *uid);
uint64_t quota_of(const struct quota *q, uid_t uid);
