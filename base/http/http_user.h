/* SPDX-License-Identifier: Apache-2.0
 * http_user.h - the sender of a request, and its rights. A token (http_tokens.h) or the kernel
 * (base/daemon/peer.h) identifies the sender.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HTTP_USER_BYTES 64u

/* Bits. A request needs one of the roles that its path requires. */
enum http_role {
	HTTP_ROLE_READ = 1,   /* jobs, incidents, metrics */
	HTTP_ROLE_UPLOAD = 2, /* symbol files */
	HTTP_ROLE_ADMIN = 4,  /* includes the other two, and may change what runs */
};
#define HTTP_ROLES_ALL (HTTP_ROLE_READ | HTTP_ROLE_UPLOAD | HTTP_ROLE_ADMIN)

struct http_user {
	unsigned roles; /* enum http_role */
	bool all;	/* sees the jobs of every user; otherwise those of `uid`, if it is known */
	bool has_uid;
	bool bearer; /* sent its token in a way that no web page can cause in a browser */
	uid_t uid;
	char name[HTTP_USER_BYTES]; /* for people: "token ops", "uid 1000", "unknown" */
};

bool http_user_sees(const struct http_user *u, uid_t owner);
/* key: base/job_key.h. Jobs of a node that names no user are seen only by users who see all
 * jobs. */
bool http_user_sees_job(const struct http_user *u, const char *key);
/* The job that a user means by a key or a name. For a user who does not see all jobs, this is the
 * user's own job. False: the user sees no such job. key: room as for any job's key. */
bool http_user_job(const struct http_user *u, const char *asked, char *key, size_t room);
/* "read", "upload", "admin"; if several bits are set, the highest. */
const char *http_user_role_name(unsigned roles);
