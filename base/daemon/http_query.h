/* SPDX-License-Identifier: Apache-2.0
 * http_query.h - one HTTP request without its server: a path and its arguments, copied. A handler that
 * takes it may run on any thread, and a fuzzer can call it.
 * Owns: the bytes. Threads: one caller. Trust: names and values are a peer's; they end in NUL, no more. */
#ifndef SYSOM_BASE_DAEMON_HTTP_QUERY_H
#define SYSOM_BASE_DAEMON_HTTP_QUERY_H

#include <stdbool.h>
#include <stdint.h>

/* Of one request; no path of ours takes more than three arguments. */
#define HTTP_QUERY_ARGS	 8u
#define HTTP_QUERY_BYTES 2048u

struct http_query {
	const char *path;
	uint32_t count, used;
	bool cut; /* it had more, or longer ones, than any path takes */
	struct {
		const char *name, *value;
	} args[HTTP_QUERY_ARGS];
	char text[HTTP_QUERY_BYTES];
};

void http_query_init(struct http_query *q, const char *path);
/* value may be NULL: it is then "". */
void http_query_add(struct http_query *q, const char *name, const char *value);
/* NULL: not there. Of several of one name the first. */
const char *http_query_get(const struct http_query *q, const char *name);
/* Decimal digits only. *out stays where it is not there; false: no number up to max. */
bool http_query_number(const struct http_query *q, const char *name, uint64_t max, uint64_t *out);

#endif
