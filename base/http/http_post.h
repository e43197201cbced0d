/* SPDX-License-Identifier: Apache-2.0
 * http_post.h - posts a body to an HTTP receiver, with libcurl. Threads: one per CURL handle. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_post {
	const char *url, *type, *agent; /* type: Content-Type */
	const char *ca;			/* PEM file; NULL or "": the system's */
	const char *token_file; /* bearer token (base/daemon/secret_file.h); NULL or "": none */
	long timeout_s;
	/* Asked about once a second: true ends the request early. NULL: never. */
	bool (*give_up)(void *arg);
	void *arg;
};

/* Whether it is an http:// or https:// URL with a plausible host. */
bool http_post_is_url(const char *text);
/* The handle keeps its connection. 0: the receiver took it (2xx). -EAGAIN: it may work later.
 * -EINVAL: the receiver will not take this body. Else `why` says what happened. */
int http_post(CURL *h, const struct http_post *p, const void *body, size_t bytes, char *why,
	      size_t why_bytes);
/* How long to wait after a failure before the next try: 1 s, then twice as long each time, at most a
 * minute. before_ns: what this returned for the failure before; 0: there was none. */
uint64_t http_post_backoff_ns(uint64_t before_ns);
/* Sets the token in the file for the next request; reads it each time, so that a new one needs no
 * restart. path NULL or "": none. 0; -EINVAL: no token, and `why` says why. */
int http_post_token(CURL *h, const char *path, char *why, size_t why_bytes);
