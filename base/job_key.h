/* SPDX-License-Identifier: Apache-2.0
 * job_key.h - what a job is known by: NAME@UID. The name is claimed by the job; the uid is what the kernel
 * told sysomd of the process (SO_PEERCRED), so that a claim by another user is another job.
 * The uid is what follows the last '@', so that a name may hold any. Header only. */
#ifndef SYSOM_BASE_JOB_KEY_H
#define SYSOM_BASE_JOB_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name is cut at a whole UTF-8 character, never the uid. room: at least 16. */
static inline void job_key_make(char *out, size_t room, const char *name, uint32_t uid)
{
	char owner[12];
	size_t n = strlen(name), most;

	most = room - 1 - (size_t)snprintf(owner, sizeof(owner), "@%u", (unsigned)uid);
	if (n > most)
		for (n = most; n && ((unsigned char)name[n] & 0xc0) == 0x80; n--)
			;
	memmove(out, name, n);
	strcpy(out + n, owner);
}

/* Whether the key ends in a uid; *uid is it. */
static inline bool job_key_owner(const char *key, uint32_t *uid)
{
	const char *at = strrchr(key, '@');
	size_t n = at ? strspn(at + 1, "0123456789") : 0;
	unsigned long long v;

	if (!n || n > 10 || at[1 + n] || (at[1] == '0' && n > 1))
		return false;
	v = strtoull(at + 1, NULL, 10);
	*uid = (uint32_t)v;
	return v <= UINT32_MAX;
}

/* What a person asks for: a key, which is one job's, or a name, which is that of any user's job. A text
 * that ends in a uid is a key: a name that another user claims never stands for it. */
static inline bool job_key_matches(const char *key, const char *asked)
{
	size_t n = strlen(asked);
	uint32_t uid;

	return !strcmp(key, asked) || (!job_key_owner(asked, &uid) && !strncmp(key, asked, n) &&
				       key[n] == '@' && !strchr(key + n + 1, '@') &&
				       job_key_owner(key, &uid));
}

#endif
