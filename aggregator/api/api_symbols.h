/* SPDX-License-Identifier: Apache-2.0
 * api_symbols.h - the part of the HTTP API that accepts bodies: symbols.
 *   POST /api/v1/symbols/needed, POST /api/v1/symbols/uploads, POST /api/v1/symbolize (JSON),
 *   PUT /api/v1/symbols/uploads/SESSION?offset=N (bytes), GET and DELETE of the same.
 * A worker thread does what a disk may delay, while the connection is suspended; the rest of the
 * API continues.
 * Trust: clients are hostile. Bodies are bounded before they are read, and chunks go to the file as
 * they come. POST needs application/json and PUT application/octet-stream: a browser sends these
 * for another site's page only after asking the server, and this server never agrees.
 * Threads: libmicrohttpd's, and a worker of its own. */
#pragma once

#include "aggregator/symbols.h"
#include "base/buf.h"
#include "base/http/http_server.h"
#include "base/metrics/metrics.h"

struct api_symbols;
struct api_request;

/* symbols NULL: every request gets 404. 0, -ENOMEM, -errno of the thread. */
int api_symbols_open(struct api_symbols **out, struct symbols *symbols);
/* Answers waiting requests with 503 and resumes every connection. Call before the server closes. NULL
 * is a no-op. */
void api_symbols_stop(struct api_symbols *a);
void api_symbols_close(struct api_symbols *a); /* after the server; NULL is a no-op */

/* Whether a request with a body to this path is a question: it stores nothing. */
bool api_symbols_asks(const char *path);
/* Takes the headers of a request other than GET or HEAD. *out: the request, to be released with
 * api_symbols_forget; NULL if it is refused: then the result is the HTTP status, and *why the
 * reason. */
unsigned api_symbols_begin(struct api_symbols *a, struct http_request *request,
			   struct api_request **out, const char **why);
/* Takes a piece of the body. false: disconnect. */
bool api_symbols_data(struct api_request *r, const void *data, size_t bytes);
/* Call after the body, and again after being resumed. The status, with the answer in *body (the
 * caller's from then on); 0: suspended. */
unsigned api_symbols_answer(struct api_request *r, struct buf *body);
void api_symbols_forget(struct api_request *r);

/* GET: the progress of an upload, or the store's figures. 0: no such path. */
unsigned api_symbols_get(struct api_symbols *a, const char *url, struct buf *out);
void api_symbols_metrics(struct api_symbols *a, struct metrics *m);
