/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_settings.h"

#include <errno.h>
#include <stdio.h>

#include "base/http/http_access.h"
#include "base/http/http_server.h"
#include "base/http/http_tls.h"

static int check_files(const struct http_settings *s, char *why, size_t why_bytes)
{
	struct http_access *access;
	struct http_tls *tls = NULL;
	int err = http_access_open(&access, s, why, why_bytes);

	if (err)
		return err;
	if (*s->certificate)
		err = http_tls_open(&tls, s->certificate, s->key, why, why_bytes);
	http_tls_close(tls);
	http_access_close(access);
	return err;
}

int http_settings_check(const struct http_settings *s, char *why, size_t why_bytes)
{
	const char *bad = NULL;
	struct http_hosts hosts;

	if (*s->listen && !http_server_is_address(s->listen))
		return config_refuse(why, why_bytes, "http.listen", s->listen,
				     "not ADDRESS:PORT or NAME:PORT, port 0 to 65535");
	if (http_hosts_init(&hosts, s->listen, s->hosts))
		bad = "http.hosts is not a list of names separated by commas, of at most 1 KiB";
	else if (!*s->certificate != !*s->key)
		bad = "http.certificate and http.key need each other";
	else if (*s->tokens && *s->listen && !*s->certificate && !s->insecure &&
		 !http_server_is_loopback(s->listen))
		bad = "http.tokens: tokens would cross the network readable; set "
		      "http.certificate and http.key, or http.insecure where something else "
		      "encrypts";
	if (!bad)
		return check_files(s, why, why_bytes);
	snprintf(why, why_bytes, "%s", bad);
	return -EINVAL;
}
