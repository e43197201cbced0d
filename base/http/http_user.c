/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_user.h"

#include "base/job_key.h"
#include "base/text/text.h"

bool http_user_sees(const struct http_user *u, uid_t owner)
{
	return u->all || (u->has_uid && u->uid == owner);
}

bool http_user_sees_job(const struct http_user *u, const char *key)
{
	uint32_t owner;

	return u->all || (job_key_owner(key, &owner) && http_user_sees(u, owner));
}

bool http_user_job(const struct http_user *u, const char *asked, char *key, size_t room)
{
	uint32_t owner;

	if (u->all || job_key_owner(asked, &owner))
		text_copy(key, room, asked);
	else if (u->has_uid)
		job_key_make(key, room, asked, u->uid);
	else
		return false;
	return u->all || http_user_sees_job(u, key);
}

const char *http_user_role_name(unsigned roles)
{
	return roles & HTTP_ROLE_ADMIN	  ? "admin"
	       : roles & HTTP_ROLE_UPLOAD ? "upload"
	       : roles & HTTP_ROLE_READ	  ? "read"
					  : "none";
}
