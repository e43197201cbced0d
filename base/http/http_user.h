/* SPDX-License-Identifier: Apache-2.0
 * http_user.h - the sender of a request, and its rights. A token (http_tokens.h) or the kernel
 * (base/daemon/peer.h) identifies the sender.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HTTP_USER_BYTES 64u

/* Bits. A request needs one of those that its path names. */
enum http_role {
	HTTP_ROLE_READ = 1,   /* jobs, incidents, metrics */
	HTTP_ROLE_UPLOAD = 2, /* symbol files */
	HTTP_ROLE_ADMIN = 4,  /* has the other two as well, and changes what runs */
};
#define HTTP_ROLES_ALL (HTTP_ROLE_READ | HTTP_ROLE_UPLOAD | HTTP_ROLE_ADMIN)

struct http_user {
	unsigned roles; /* enum http_role */
	bool all;	/* sees the jobs of every user; otherwise those of `uid`, if it is known */
	bool has_uid;
	bool bearer; /* showed its token in a way that no web page can make a browser do */
	uid_t uid;
	char name[HTTP_USER_BYTES]; /* for people: "token ops", "uid 1000", "unknown" */
};

bool http_user_sees(const struct http_user *u, uid_t owner);
/* key: base/job_key.h. Only those who see all see the jobs of a node that names no user. */
bool http_user_sees_job(const struct http_user *u, const char *key);
/* The job that a user means by a key or a name: of a user who does not see all jobs, the user's own.
 * False: the user sees no such job. key: room as for the keys of jobs. */
bool http_user_job(const struct http_user *u, const char *asked, char *key, size_t room);
/* "read", "upload", "admin"; of several bits the highest. */
const char *http_user_role_name(unsigned roles);
