/* SPDX-License-Identifier: Apache-2.0
 * http_address.h - HOST:PORT, with [V6]:PORT for IPv6.
 * Threads: any. */
#pragma once

#include <stdbool.h>

/* Returns the port's text. The host goes to `host`; "" stands for all addresses. NULL: not
 * HOST:PORT. */
const char *http_address_split(const char *text, char host[256]);
/* Whether the host is an address, not a name. */
bool http_address_is_ip(const char *host);
/* Whether the text is ADDRESS:PORT or NAME:PORT. */
bool http_address_is_valid(const char *text);
/* Whether only this machine can reach it: localhost, 127.0.0.0/8 or [::1]. */
bool http_address_is_loopback(const char *text);
/* Whether a token may be sent to the URL: it uses https, or stays within this machine. */
bool http_address_keeps_token(const char *url);
