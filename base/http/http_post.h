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
	/* bearer token (base/daemon/secret_file.h); NULL or "": none. It is read for each request, so
	 * that a new one needs no restart. */
	const char *token_file;
	const char *token_name; /* what `why` calls it; NULL: only its path */
	const char *method;	/* NULL: POST */
	bool direct;		/* never through a web proxy */
	long timeout_s;		/* of the whole request; 0: none */
	long stall_s;		/* without a byte moved; 0: no limit */
	uint64_t bytes_per_s;	/* of the body; 0: no limit */
	struct buf *answer;	/* gets the answer's body; NULL: it is dropped */
	/* Asked about once a second: true ends the request early. NULL: never. */
	bool (*give_up)(void *arg);
	void *arg;
};

/* Whether it is an http:// or https:// URL with a plausible host. */
bool http_post_is_url(const char *text);
/* One request; the handle keeps its connection. Returns the answer's status; 0: there was none, and `why`
 * says why. *sent_bytes: of the body; NULL: not wanted. */
long http_post_ask(CURL *h, const struct http_post *p, const void *body, size_t bytes,
		   uint64_t *sent_bytes, char *why, size_t why_bytes);
/* 0: the receiver took it (2xx). -EAGAIN: it may work later. -EINVAL: the receiver will not take this body.
 * Else `why` says what happened. */
int http_post(CURL *h, const struct http_post *p, const void *body, size_t bytes, char *why,
	      size_t why_bytes);
/* How long to wait after a failure before the next try: 1 s, then twice as long each time, at most a
 * minute. before_ns: what this returned for the failure before; 0: there was none. */
uint64_t http_post_backoff_ns(uint64_t before_ns);
