/* SPDX-License-Identifier: Apache-2.0
 * http_post.h - posts a body to an HTTP receiver, with libcurl. Threads: one per CURL handle. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct http_post {
	const char *url, *type, *agent; /* type: Content-Type */
	const char *ca;			/* PEM file; NULL or "": the system's */
	/* bearer token (base/daemon/secret_file.h); NULL or "": none. It is read for each request,
	 * so a new token needs no restart. */
	const char *token_file;
	const char *token_name; /* what `why` calls the token file; NULL: only its path */
	const char *method;	/* NULL: POST */
	bool direct;		/* never use a web proxy */
	long timeout_s;		/* limit of the whole request; 0: none */
	long stall_s;		/* the longest time without a byte transferred; 0: no limit */
	uint64_t bytes_per_s;	/* limit of the body's rate; 0: none */
	struct buf *answer;	/* gets the answer's body; NULL: it is dropped */
	/* Called about once a second; returning true ends the request early. May be NULL. */
	bool (*give_up)(void *arg);
	void *arg;
};

/* Whether it is an http:// or https:// URL with a plausible host. */
bool http_post_is_url(const char *text);
/* Makes one request; the handle keeps its connection. Returns the answer's status; 0: there was no
 * answer, and `why` has the reason. *sent_bytes: bytes of the body that were sent; may be NULL. */
long http_post_ask(CURL *h, const struct http_post *p, const void *body, size_t bytes,
		   uint64_t *sent_bytes, char *why, size_t why_bytes);
/* 0: the receiver accepted the body (2xx). -EAGAIN: it may work later. -EINVAL: the receiver will
 * not accept this body. On an error `why` says what happened. */
int http_post(CURL *h, const struct http_post *p, const void *body, size_t bytes, char *why,
	      size_t why_bytes);
/* How long to wait after a failure before the next try: 1 s, then twice as long each time, at most
 * a minute. before_ns: the result for the previous failure; 0: there was none. */
uint64_t http_post_backoff_ns(uint64_t before_ns);
