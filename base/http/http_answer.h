/* SPDX-License-Identifier: Apache-2.0
 * http_answer.h - the answer to one HTTP request, without its server. Owns: the body.
 * Threads: one caller. */
#pragma once

#include "base/buf.h"

#define HTTP_CHANGE_BYTES 256u

struct http_answer {
	unsigned status;   /* 200 unless a handler sets another */
	const char *type;  /* application/json unless a handler sets another */
	const char *allow; /* the methods that the path allows, for an answer with status 405 */
	struct buf body;
	/* What the request changes, for the audit line; "": its method and path show it. */
	char change[HTTP_CHANGE_BYTES];
};

/* The body has at most this many bytes. */
void http_answer_init(struct http_answer *a, size_t max_bytes);
/* Replaces the body by {"error":why}. */
void http_answer_error(struct http_answer *a, unsigned status, const char *why);
void http_answer_text(struct http_answer *a, const char *type, const char *text);
