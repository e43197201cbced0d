/* SPDX-License-Identifier: Apache-2.0
 * http_query.h - a copy of one HTTP request's path and arguments, without its server. So a handler
 * may run on any thread, and a fuzzer can call it.
 * Owns: the bytes. Threads: one caller. Trust: names and values are a peer's; only the NUL at
 * their end is certain. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The most arguments that are kept. No path of ours takes more than three. */
#define HTTP_QUERY_ARGS	 8u
#define HTTP_QUERY_BYTES 2048u

struct http_query {
	const char *path;
	uint32_t count, used;
	bool cut; /* the request had more or longer arguments than any path takes */
	struct {
		const char *name, *value;
	} args[HTTP_QUERY_ARGS];
	char text[HTTP_QUERY_BYTES];
};

void http_query_init(struct http_query *q, const char *path);
/* A NULL value is stored as "". */
void http_query_add(struct http_query *q, const char *name, const char *value);
/* NULL: not present. If a name occurs several times, the first one. */
const char *http_query_get(const struct http_query *q, const char *name);
/* Decimal digits only. Leaves *out if the name is not present; false: not a number up to max. */
bool http_query_number(const struct http_query *q, const char *name, uint64_t max, uint64_t *out);
