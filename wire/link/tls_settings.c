/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/link/tls_settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_loopback(const char *url)
{
	const char *host = strstr(url, "://") + 3, *colon = strrchr(host, ':');
	size_t bytes = colon ? (size_t)(colon - host) : strlen(host);
	char text[64];
	struct in_addr v4;

	if (bytes >= sizeof(text))
		return false;
	memcpy(text, host, bytes);
	text[bytes] = '\0';
	return !strcmp(text, "localhost") || !strcmp(text, "[::1]") ||
	       (inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

int tls_settings_check(const struct tls_settings *s, const char *key, const char *url, char *why,
		       size_t why_bytes)
{
	const struct tls_files *f = &s->files;
	bool any = *f->cert || *f->key || *f->ca || *f->crl;
	const char *missing = !*f->cert ? "tls.cert" : !*f->key ? "tls.key" : "tls.ca";

	if (any && (!*f->cert || !*f->key || !*f->ca))
		snprintf(why, why_bytes, "%s is not set; TLS needs tls.cert, tls.key and tls.ca",
			 missing);
	else if (!any && !strncmp(url, "tls+", 4))
		return config_refuse(why, why_bytes, key, url,
				     "of TLS, which needs tls.cert, tls.key and tls.ca");
	else if (!any && !s->insecure && !strncmp(url, "tcp:", 4) && !is_loopback(url))
		return config_refuse(why, why_bytes, key, url,
				     "beyond this machine without TLS; set tls.cert, tls.key and "
				     "tls.ca, or --insecure");
	else
		return 0;
	return -EINVAL;
}
