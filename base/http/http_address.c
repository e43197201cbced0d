/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

const char *http_address_split(const char *listen, char host[256])
{
	const char *colon = strrchr(listen, ':');
	size_t n = colon ? (size_t)(colon - listen) : 256;
	char *end;
	long port;

	if (n >= 256)
		return NULL;
	port = strtol(colon + 1, &end, 10);
	if (end == colon + 1 || *end || port < 0 || port > 65535)
		return NULL;
	if (n > 2 && listen[0] == '[' && colon[-1] == ']')
		text_copy(host, n - 1, listen + 1);
	else
		text_copy(host, n + 1, listen);
	return colon + 1;
}

bool http_address_is_ip(const char *host)
{
	struct in6_addr v6;
	struct in_addr v4;

	return inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1;
}

bool http_address_is_valid(const char *listen)
{
	char host[256];

	return http_address_split(listen, host) && *host;
}

bool http_address_is_loopback(const char *listen)
{
	struct in6_addr v6;
	struct in_addr v4;
	char host[256];

	if (!http_address_split(listen, host))
		return false;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
	return !strcmp(host, "localhost") ||
	       (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

bool http_address_keeps_token(const char *url)
{
	return !strncmp(url, "https://", 8) ||
	       (!strncmp(url, "http://", 7) && http_address_is_loopback(url + 7));
}
