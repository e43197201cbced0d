/* SPDX-License-Identifier: Apache-2.0
 * http_settings.h - the settings of a daemon's HTTP server, the same for both daemons.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/daemon/config.h"
#include "base/http/http_hosts.h"

#define HTTP_PATH_BYTES 256u

struct http_settings {
	char listen[HTTP_PATH_BYTES], hosts[HTTP_HOSTS_BYTES], see_all[HTTP_PATH_BYTES];
	char tokens[HTTP_PATH_BYTES], certificate[HTTP_PATH_BYTES], key[HTTP_PATH_BYTES];
	bool insecure;
};

/* Rows of a program's table (base/daemon/config.h). at: the field of type struct http_settings. */
#define HTTP_SETTINGS_KEYS(strct, at, listen_initial, listen_help)                                 \
	CONFIG_KEY(strct, at.listen, "http.listen", CONFIG_STRING, listen_initial, listen_help, ), \
	    CONFIG_KEY(strct, at.hosts, "http.hosts", CONFIG_STRING, "",                           \
		       "host names that clients may use for this server, comma-separated; IP "     \
		       "addresses and localhost always work", ),                                   \
	    CONFIG_KEY(strct, at.tokens, "http.tokens", CONFIG_STRING, "",                         \
		       "file of tokens, mode 0640 or less: a line is ROLE NAME TOKEN [uid=N], "    \
		       "ROLE is read, upload or admin; other machines need a token", ),            \
	    CONFIG_KEY(strct, at.certificate, "http.certificate", CONFIG_STRING, "",               \
		       "PEM file of the server's certificate and its chain; empty: no TLS", ),     \
	    CONFIG_KEY(strct, at.key, "http.key", CONFIG_STRING, "",                               \
		       "PEM file of the certificate's key, mode 0640 or less", ),                  \
	    CONFIG_KEY(                                                                            \
		strct, at.insecure, "http.insecure", CONFIG_BOOL, "false",                         \
		"accept tokens from other machines without TLS; only behind something that "       \
		"encrypts, such as a proxy", ),                                                    \
	    CONFIG_KEY(strct, at.see_all, "http.see_all", CONFIG_STRING, "",                       \
		       "uids of this machine's users that may see the jobs of all users, "         \
		       "comma-separated (for example that of Prometheus); *: all of them", )
