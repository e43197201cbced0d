/* SPDX-License-Identifier: Apache-2.0 */
#include "base/http/http_hosts.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/http/http_address.h"

/* RFC 1035 */
#define NAME_BYTES 256u

/* The host of HOST[:PORT] or [V6][:PORT], in lower case, without a trailing dot. */
static bool host_of(const char *text, size_t bytes, char out[NAME_BYTES])
{
	const char *end = text + bytes, *colon = memchr(text, ':', bytes);
	size_t n;

	if (bytes && *text == '[') {
		const char *close = memchr(text, ']', bytes);

		if (!close)
			return false;
		text++;
		colon = close + 1 < end ? close + 1 : NULL;
		n = (size_t)(close - text);
		if (colon && *colon != ':')
			return false;
	} else {
		n = colon ? (size_t)(colon - text) : bytes;
	}
	for (const char *p = colon ? colon + 1 : end; p < end; p++)
		if (!isdigit((unsigned char)*p))
			return false;
	if (n && text[n - 1] == '.')
		n--;
	if (!n || n >= NAME_BYTES)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.:%", text[i]))
			return false;
		out[i] = (char)tolower((unsigned char)text[i]);
	}
	out[n] = '\0';
	return true;
}

static int add(struct http_hosts *h, size_t *used, const char *text, size_t bytes)
{
	char name[NAME_BYTES];
	size_t room;

	if (!host_of(text, bytes, name))
		return -EINVAL;
	room = strlen(name) + 1;
	if (*used + room + 1 > sizeof(h->names))
		return -ENAMETOOLONG;
	memcpy(h->names + *used, name, room);
	*used += room;
	return 0;
}

int http_hosts_init(struct http_hosts *h, const char *listen, const char *more)
{
	size_t used = 0;
	int err;

	memset(h, 0, sizeof(*h));
	err = add(h, &used, "localhost", 9);
	/* ":9470" means all addresses and names no host */
	if (!err && *listen && *listen != ':')
		err = add(h, &used, listen, strlen(listen));
	while (!err && *more) {
		size_t n = strcspn(more, ", ");

		if (n)
			err = add(h, &used, more, n);
		more += n + strspn(more + n, ", ");
	}
	return err;
}

bool http_hosts_allows(const struct http_hosts *h, const char *host)
{
	char name[NAME_BYTES];
	size_t n;

	if (!host)
		return true;
	if (!host_of(host, strlen(host), name))
		return false;
	if (http_address_is_ip(name))
		return true;
	/* RFC 6761: every name with this ending is this machine */
	n = strlen(name);
	if (n > 10 && !strcmp(name + n - 10, ".localhost"))
		return true;
	for (const char *p = h->names; *p; p += strlen(p) + 1)
		if (!strcmp(p, name))
			return true;
	return false;
}
