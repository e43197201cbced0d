/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_access.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/daemon/peer.h"
#include "base/daemon/secret_file.h"
#include "base/http/http_tokens.h"

#define LOOK_NS 1000000000ull /* time between checks of the file */
/* The kernel's number for all users without a number in our user namespace, so it stands for
 * several people. */
#define OVERFLOW_UID 65534u

struct http_access {
	const struct http_settings *settings;
	struct http_tokens *tokens; /* NULL: no file is set */
	struct secret_file_state file;
	uint64_t look_at_ns;
};

bool http_access_is_direct(const char *header)
{
	static const char *const direct[] = {
	    "Accept",
	    "Accept-Encoding",
	    "Accept-Language",
	    "Authorization",
	    "Cache-Control",
	    "Connection",
	    "Content-Length",
	    "Content-Type",
	    "Cookie",
	    "DNT",
	    "Expect",
	    "Host",
	    "If-Match",
	    "If-Modified-Since",
	    "If-None-Match",
	    "Keep-Alive",
	    "Origin",
	    "Pragma",
	    "Priority",
	    "Range",
	    "Referer",
	    "TE",
	    "Transfer-Encoding",
	    "Upgrade-Insecure-Requests",
	    "User-Agent",
	    "X-Prometheus-Scrape-Timeout-Seconds",
	};

	if (!strncasecmp(header, "Sec-", 4)) /* only browsers may set these */
		return true;
	for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++)
		if (!strcasecmp(header, direct[i]))
			return true;
	return false;
}

static int load(struct http_access *a, char *why, size_t why_bytes)
{
	const char *path = a->settings->tokens;
	struct http_tokens *tokens;
	char reason[512];
	struct buf text;
	int err;

	buf_init(&text, HTTP_TOKENS_FILE_BYTES);
	err = secret_file_read(path, &text, reason, sizeof(reason));
	if (err) {
		snprintf(why, why_bytes, "http.tokens: %s", reason);
	} else {
		err = http_tokens_parse(&tokens, text.data ? (const char *)text.data : "",
					text.bytes, reason, sizeof(reason));
		if (err)
			snprintf(why, why_bytes, "http.tokens: %s: %s", path, reason);
	}
	secret_file_forget(&text);
	if (err)
		return err;
	http_tokens_free(a->tokens);
	a->tokens = tokens;
	return 0;
}

int http_access_open(struct http_access **out, const struct http_settings *s, char *why,
		     size_t why_bytes)
{
	struct http_access *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	a->settings = s;
	secret_file_changed(s->tokens, &a->file);
	err = *s->tokens ? load(a, why, why_bytes) : 0;
	if (err) {
		http_access_close(a);
		return err;
	}
	*out = a;
	return 0;
}

void http_access_close(struct http_access *a)
{
	if (!a)
		return;
	http_tokens_free(a->tokens);
	free(a);
}

static void look(struct http_access *a)
{
	uint64_t now_ns = clock_monotonic_ns();
	char why[768];

	if (!*a->settings->tokens || now_ns < a->look_at_ns)
		return;
	a->look_at_ns = now_ns + LOOK_NS;
	if (!secret_file_changed(a->settings->tokens, &a->file))
		return;
	if (load(a, why, sizeof(why)))
		log_error("tokens", "why=\"%s\" effect=\"the tokens read before stay valid\"", why);
	else
		log_info("tokens", "file=%s read=again", a->settings->tokens);
}

/* Takes the next uid off a comma-separated list. False: there is none; if *list is not empty then,
 * it is no list of uids. */
static bool next_uid(const char **list, uid_t *uid)
{
	unsigned long number;
	char *end;

	*list += strspn(*list, " ");
	if (!isdigit((unsigned char)**list))
		return false;
	number = strtoul(*list, &end, 10);
	if (number >= UINT32_MAX || (*end && *end != ','))
		return false;
	*uid = (uid_t)number;
	*list = *end ? end + 1 : end;
	return true;
}

bool http_access_is_uids(const char *list)
{
	uid_t uid;

	while (next_uid(&list, &uid))
		;
	return !*list || !strcmp(list, "*");
}

static bool is_listed(const char *list, uid_t uid)
{
	uid_t one;

	while (next_uid(&list, &one))
		if (one == uid)
			return true;
	return !strcmp(list, "*");
}

static void name_user(const struct http_access *a, uid_t uid, struct http_user *out)
{
	bool ours = uid == 0 || uid == geteuid();

	*out =
	    (struct http_user){.roles = ours ? HTTP_ROLES_ALL : HTTP_ROLE_READ | HTTP_ROLE_UPLOAD,
			       .all = ours || is_listed(a->settings->see_all, uid),
			       .has_uid = true,
			       .uid = uid};
	snprintf(out->name, sizeof(out->name), "uid %u", (unsigned)uid);
}

static unsigned by_token(struct http_access *a, const struct http_sender *from,
			 struct http_user *out, const char **why)
{
	const struct http_user *known;

	look(a);
	known = a->tokens ? http_tokens_find(a->tokens, from->token) : NULL;
	if (!known) {
		*why = a->tokens ? "the token is not one of this server's http.tokens"
				 : "this server has no http.tokens, so it accepts no token";
		return 401;
	}
	*out = *known;
	out->bearer = !from->basic;
	return 0;
}

unsigned http_access_user(struct http_access *a, const struct http_sender *from,
			  struct http_user *out, const char **why)
{
	uid_t uid;

	if (from->token)
		return by_token(a, from, out, why);
	if (!from->foreign && peer_user(from->sock, &uid) && uid != OVERFLOW_UID) {
		name_user(a, uid, out);
		return 0;
	}
	if (!from->foreign && peer_is_loopback(from->sock)) {
		*out = (struct http_user){.roles = HTTP_ROLE_READ,
					  .all = !strcmp(a->settings->see_all, "*"),
					  .name = "unknown"};
		return 0;
	}
	if (from->foreign && a->tokens)
		*why = "a proxy may have sent this, since it has a header that no client sends by "
		       "itself; so it needs a token, in the header Authorization: Bearer TOKEN";
	else
		*why = a->tokens
			   ? "this needs a token, in the header Authorization: Bearer TOKEN; sysom "
			     "takes it from its settings file"
			   : "this needs a token, and the server has none: its operator sets "
			     "http.tokens";
	return 401;
}
