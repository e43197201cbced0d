/* SPDX-License-Identifier: Apache-2.0
 * job_key.h - the identity of a job: NAME@UID. The job itself claims the name. The kernel reports
 * the uid to sysomd (SO_PEERCRED), so the same name claimed by another user is another job. The uid
 * follows the last '@'; the name may contain '@' too. NAME may be SERIES#RUN, divided at its last
 * '#'. RUN distinguishes jobs that run at the same time. A job is compared with earlier jobs of the
 * same SERIES. Header only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes NAME@UID. If necessary, cuts the name at a whole UTF-8 character, but never the uid. room:
 * at least 16. */
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

/* Whether the key ends in a uid. *uid: that uid. */
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

/* Bytes of the key without @UID. */
static inline size_t job_key_name_bytes(const char *key)
{
	uint32_t uid;

	return job_key_owner(key, &uid) ? (size_t)(strrchr(key, '@') - key) : strlen(key);
}

/* The key without #RUN: what all runs of a job have in common. out: room as for the key. */
static inline void job_key_series(char *out, size_t room, const char *key)
{
	size_t name = job_key_name_bytes(key), n = name;

	while (n && key[n] != '#')
		n--;
	snprintf(out, room, "%.*s%s", (int)(n ? n : name), key, key + name);
}

/* Whether the key matches what a person asked for: a key, or a name, which stands for the jobs of
 * that name of any user. Without #RUN, both stand for every run; #12 also stands for the runs #12.0
 * and #12.1. A text that ends in a uid is a key, so a name that another user claims never matches
 * it. */
static inline bool job_key_matches(const char *key, const char *asked)
{
	size_t name = job_key_name_bytes(key), n = job_key_name_bytes(asked);

	if (!strcmp(key, asked))
		return true;
	return key[name] && (!asked[n] || !strcmp(key + name, asked + n)) && n <= name &&
	       !strncmp(key, asked, n) &&
	       (n == name || key[n] == '#' || (key[n] == '.' && memchr(asked, '#', n)));
}
