/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/config.h"
#include "base/daemon/secret_file.h"
#include "base/http/http_address.h"

#define FILE_BYTES  (64u << 10)
#define SYSTEM_FILE "/etc/sysom/sysom.yaml"
#define DEFAULT_URL "http://127.0.0.1:9472"

struct settings {
	char url[512], ca[256], token[513];
};

static const struct config_key keys[] = {
    CONFIG_KEY(struct settings, url, "url", CONFIG_STRING, "",
	       "sysom-aggregator's address, https://HOST:PORT or http://HOST:PORT", ),
    CONFIG_KEY(struct settings, ca, "ca", CONFIG_STRING, "",
	       "PEM file of the certificates that may sign the server's; empty: the system's", ),
    CONFIG_KEY(struct settings, token, "token", CONFIG_STRING, "",
	       "sent to url alone, in the header Authorization", ),
};

/* False: this user has no settings file. */
static bool find(char path[512])
{
	const char *named = getenv("SYSOM_CONFIG"), *home = getenv("HOME");

	if (named && *named) {
		snprintf(path, 512, "%s", named);
		return true;
	}
	snprintf(path, 512, "%s/.config/sysom/sysom.yaml", home ? home : "");
	if (home && !access(path, F_OK))
		return true;
	strcpy(path, SYSTEM_FILE);
	return !access(path, R_OK); /* one that this user may not read is for other users */
}

static int read_settings(struct settings *s, const char *path, char *why, size_t why_bytes)
{
	struct buf text;
	int err;

	buf_init(&text, FILE_BYTES);
	err = secret_file_read_public(path, &text, why, why_bytes);
	if (!err)
		err = config_read_text(s, keys, ARRAY_LEN(keys), path,
				       text.data ? (const char *)text.data : "", text.bytes);
	if (!err && *s->token) {
		text.bytes = 0;
		err = secret_file_read(path, &text, why, why_bytes);
	}
	secret_file_forget(&text);
	return err;
}

static int check(const struct settings *s, const char *path, char *why, size_t why_bytes)
{
	struct client file;
	const char *bad = NULL;

	if (*s->token && !*s->url)
		bad = "token needs url: it is sent there alone";
	else if (*s->url && client_init_url(&file, s->url))
		bad = "url is not http://HOST:PORT or https://HOST:PORT";
	else if (s->token[strspn(s->token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					   "0123456789-._~+/=")])
		bad = "token may have only letters, digits and -._~+/=";
	else if (*s->token && !http_address_keeps_token(s->url))
		bad = "the token would cross the network unencrypted; use an https:// url";
	else if (*s->ca && access(s->ca, R_OK))
		bad = "ca: the file cannot be read";
	if (!bad)
		return 0;
	snprintf(why, why_bytes, "%s: %s", path, bad);
	return -EINVAL;
}

int access_client(struct client *c, const char *url, char *why, size_t why_bytes)
{
	struct settings s = {0};
	struct client file = {0};
	const char *ca = getenv("SYSOM_CA");
	char path[512];
	int err = 0;

	if (find(path)) {
		err = read_settings(&s, path, why, why_bytes);
		if (!err)
			err = check(&s, path, why, why_bytes);
	}
	if (!err && client_init_url(c, url ? url : *s.url ? s.url : DEFAULT_URL)) {
		snprintf(why, why_bytes, "%s %s: expected http://HOST:PORT or https://HOST:PORT",
			 url == getenv("SYSOM_URL") ? "SYSOM_URL" : "--url", url);
		err = -EINVAL;
	}
	if (!err && *s.url && !client_init_url(&file, s.url) && !strcmp(c->url, file.url)) {
		strcpy(c->ca, s.ca);
		strcpy(c->token, s.token);
	}
	if (ca && *ca) /* an unreadable file is reported when it is used */
		snprintf(c->ca, sizeof(c->ca), "%s", ca);
	explicit_bzero(&s, sizeof(s));
	return err;
}
