/* SPDX-License-Identifier: Apache-2.0
 * tls_settings.h - TLS settings of both daemons, and the rules between them. */
#pragma once

#include "base/daemon/config.h"
#include "wire/link/tls.h"

struct tls_settings {
	struct tls_files files;
	bool insecure;
};

/* Rows of a program's table. KEY: its macro; field: the struct tls_settings. */
#define TLS_SETTINGS(KEY, field)                                                                   \
	KEY(field.files.cert, "tls.cert", CONFIG_STRING, "",                                       \
	    "this program's certificate for connections between nodes and aggregator, PEM, "       \
	    "followed by those of intermediate authorities; empty: no TLS; read again when the "   \
	    "file changes"),                                                                       \
	    KEY(field.files.key, "tls.key", CONFIG_STRING, "",                                     \
		"key of the certificate, PEM, mode 0640 or less"),                                 \
	    KEY(field.files.ca, "tls.ca", CONFIG_STRING, "",                                       \
		"certificates of the authorities that may sign the peers' certificates, PEM"),     \
	    KEY(field.files.crl, "tls.crl", CONFIG_STRING, "",                                     \
		"lists of revoked certificates, PEM; empty: none"),                                \
	    KEY(field.insecure, "insecure", CONFIG_BOOL, "false",                                  \
		"allow plain TCP between nodes and aggregator beyond this machine, where anybody " \
		"can read and forge messages")

/* For a config_check_fn. key: the name of the setting that has the url. url may be "": there is
 * none. 0, or -EINVAL with `why`. */
int tls_settings_check(const struct tls_settings *s, const char *key, const char *url, char *why,
		       size_t why_bytes);
static inline bool tls_settings_on(const struct tls_settings *s)
{
	return *s->files.cert;
}
