/* SPDX-License-Identifier: Apache-2.0
 * quota.h - what one user may take of what all users share: slots, lanes, work per second.
 *
 * While the whole is not used up, anybody may take more. From then on a user may take more only up to
 * the fair share: the largest level at which all users, each cut at that level, fit into the capacity.
 * So nobody can keep out a user who has less than capacity / users, and there is no limit to configure.
 *
 * A quota is of one of two kinds:
 *   held (period_ns 0)   what was taken is in use until quota_give. Over the capacity the caller takes
 *                        one back from quota_heaviest first.
 *   work (period_ns > 0) what was taken fades: it halves every period. All users together take at most
 *                        twice the capacity.
 *
 * Owns nothing.  Threads: one caller, or the caller's lock.  Bounded: QUOTA_USERS entries; work per call
 * at most QUOTA_USERS squared, and only when the whole is used up. */
#ifndef SYSOM_BASE_DAEMON_QUOTA_H
#define SYSOM_BASE_DAEMON_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Users remembered at a time. A held quota whose capacity is higher refuses the user after the last;
 * in one of work the user who took least is forgotten. */
#define QUOTA_USERS 64u

struct quota {
	uint64_t capacity, period_ns;
	uint64_t total, faded_ns;
	uint64_t refused; /* answers of quota_may */
	uint32_t user_count;
	struct {
		uid_t uid;
		uint64_t amount;
	} users[QUOTA_USERS];
};

void quota_init(struct quota *q, uint64_t capacity, uint64_t period_ns);
/* Whether the user may take so much now. A refusal is counted. */
bool quota_may(struct quota *q, uid_t uid, uint64_t amount, uint64_t now_ns);
/* Whether there is no room for it: of a held quota the heaviest user has to give first. */
bool quota_is_full(const struct quota *q, uint64_t amount);
/* Takes it, whether or not quota_may was asked: work is known only after it was done. */
void quota_take(struct quota *q, uid_t uid, uint64_t amount, uint64_t now_ns);
/* Gives back what was taken. */
void quota_give(struct quota *q, uid_t uid, uint64_t amount);
/* Who has most; false: nobody has anything. */
bool quota_heaviest(const struct quota *q, uid_t *uid);
uint64_t quota_of(const struct quota *q, uid_t uid);

#endif
