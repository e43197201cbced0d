/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api_symbols.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "aggregator/api/api_pool.h"
#include "base/metrics/metrics.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/text/text.h"

#define ANSWER_BYTES (32u << 20)
#define UPLOADS	     "/api/v1/symbols/uploads"

enum request_kind { NEEDED, BEGIN, CHUNK, ABORT, SYMBOLIZE };

struct api_request {
	struct api_job job; /* first member */
	struct api_symbols *owner;
	enum request_kind kind;
	struct buf body, answer;
	uint64_t session, offset, taken;
	int err;    /* of the chunk */
	bool waits; /* the worker has or had it */
	unsigned status;
};

struct api_symbols {
	struct symbols *symbols;
	struct api_pool *worker; /* NULL without symbols */
};

/* ---- the worker ---- */

static void work(void *arg, uint32_t thread, struct api_job *job, bool stopping)
{
	struct api_symbols *a = arg;
	struct api_request *r = (struct api_request *)job;
	struct buf *out = &r->answer;

	(void)thread;
	if (stopping) {
		r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		return;
	}
	symbols_tend(a->symbols);
	switch (r->kind) {
	case NEEDED:
		r->status = symbols_needed(a->symbols, r->body.data, r->body.bytes, out);
		break;
	case BEGIN:
		r->status = symbols_begin(a->symbols, r->body.data, r->body.bytes, out);
		break;
	case SYMBOLIZE:
		r->status = symbols_symbolize(a->symbols, r->body.data, r->body.bytes, out);
		break;
	case CHUNK:
	case ABORT:
		r->status = symbols_finish(a->symbols, r->session, out);
		break;
	}
}

int api_symbols_open(struct api_symbols **out, struct symbols *symbols)
{
	struct api_symbols *a = calloc(1, sizeof(*a));
	const struct api_pool_config pool = {
	    .threads = 1, .waiting_max = LIMIT_API_SYMBOL_WAITING, .work = work, .arg = a};
	int err;

	if (!a)
		return -ENOMEM;
	a->symbols = symbols;
	err = symbols ? api_pool_open(&a->worker, &pool) : 0;
	if (err) {
		free(a);
		return err;
	}
	*out = a;
	return 0;
}

void api_symbols_stop(struct api_symbols *a)
{
	if (!a || !a->worker)
		return;
	symbols_stop(a->symbols);
	api_pool_stop(a->worker);
}

void api_symbols_close(struct api_symbols *a)
{
	if (!a)
		return;
	api_pool_close(a->worker);
	free(a);
}

/* ---- requests ---- */

/* 0: not a session's name. */
static uint64_t parse_session(const char *url)
{
	uint8_t bytes[8];
	uint64_t session = 0;

	if (strncmp(url, UPLOADS "/", sizeof(UPLOADS)) ||
	    text_unhex(url + sizeof(UPLOADS), bytes, 8))
		return 0;
	for (size_t i = 0; i < 8; i++)
		session = session << 8 | bytes[i];
	return session;
}

static const struct {
	const char *path;
	enum request_kind kind;
} posts[] = {
    {"/api/v1/symbols/needed", NEEDED}, {UPLOADS, BEGIN}, {"/api/v1/symbolize", SYMBOLIZE}};

bool api_symbols_asks(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(posts); i++)
		if (!strcmp(path, posts[i].path))
			return posts[i].kind != BEGIN;
	return false;
}

/* The status to refuse the request with, or 0. */
static unsigned classify(struct api_request *r, const char **why)
{
	const char *method = r->job.request->method, *url = r->job.request->query.path;

	*why = "no such path";
	r->session = parse_session(url);
	if (r->session) {
		r->kind = strcmp(method, "DELETE") ? CHUNK : ABORT;
		*why = "use PUT, GET, HEAD or DELETE";
		return strcmp(method, "PUT") && r->kind != ABORT ? MHD_HTTP_METHOD_NOT_ALLOWED : 0;
	}
	*why = "use GET or HEAD";
	for (size_t i = 0; i < ARRAY_LEN(posts); i++)
		if (!strcmp(url, posts[i].path)) {
			r->kind = posts[i].kind;
			*why = "use POST";
			return strcmp(method, "POST") ? MHD_HTTP_METHOD_NOT_ALLOWED : 0;
		}
	return MHD_HTTP_METHOD_NOT_ALLOWED;
}

static unsigned check_headers(struct api_request *r, const char **why)
{
	const char *type = http_server_header(r->job.request, MHD_HTTP_HEADER_CONTENT_TYPE);
	const char *want = r->kind == CHUNK ? "application/octet-stream" : "application/json";
	const char *offset;
	uint64_t length,
	    max = r->kind == CHUNK ? LIMIT_SYMBOL_CHUNK_BYTES : LIMIT_API_SYMBOL_BODY_BYTES;

	if (r->kind == ABORT)
		return 0;
	*why = r->kind == CHUNK ? "the Content-Type must be application/octet-stream"
				: "the Content-Type must be application/json";
	if (strncasecmp(type, want, strlen(want)))
		return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
	*why = "the request has no Content-Length";
	if (!text_number(http_server_header(r->job.request, MHD_HTTP_HEADER_CONTENT_LENGTH),
			 UINT64_MAX, &length))
		return MHD_HTTP_LENGTH_REQUIRED;
	*why = r->kind == CHUNK ? "a chunk may have 64 MiB at most"
				: "the body may have 1 MiB at most";
	if (length > max)
		return MHD_HTTP_CONTENT_TOO_LARGE;
	*why = "\"offset\" must be the position of this chunk";
	offset = http_query_get(&r->job.request->query, "offset");
	if (r->kind == CHUNK && (!offset || !text_number(offset, INT64_MAX, &r->offset)))
		return MHD_HTTP_BAD_REQUEST;
	return 0;
}

unsigned api_symbols_begin(struct api_symbols *a, struct http_request *request,
			   struct api_request **out, const char **why)
{
	struct api_request *r = calloc(1, sizeof(*r));
	unsigned status;

	*out = NULL;
	*why = "out of memory";
	if (!r)
		return MHD_HTTP_INTERNAL_SERVER_ERROR;
	r->owner = a;
	r->job.request = request;
	buf_init(&r->body, LIMIT_API_SYMBOL_BODY_BYTES);
	buf_init(&r->answer, ANSWER_BYTES);
	status = classify(r, why);
	if (!status && !a->symbols) {
		*why = "no such path";
		status = MHD_HTTP_NOT_FOUND;
	}
	if (!status)
		status = check_headers(r, why);
	if (status)
		api_symbols_forget(r);
	else
		*out = r;
	return status;
}

bool api_symbols_data(struct api_request *r, const void *data, size_t bytes)
{
	if (r->kind == ABORT)
		return false;
	if (r->kind != CHUNK) {
		buf_append(&r->body, data, bytes);
		return !r->body.failed;
	}
	r->taken += bytes;
	if (r->taken > LIMIT_SYMBOL_CHUNK_BYTES)
		return false;
	/* After a refusal, read and discard the rest: the answer can only follow the body. */
	if (!r->err)
		r->err = symbols_append(r->owner->symbols, r->session, r->offset + r->taken - bytes,
					data, bytes);
	return true;
}

static unsigned take_answer(struct api_request *r, struct buf *body)
{
	buf_fini(body);
	*body = r->answer;
	buf_init(&r->answer, ANSWER_BYTES);
	if (!body->bytes)
		buf_puts(body, "{\"error\":\"not now\"}\n");
	return r->status;
}

unsigned api_symbols_answer(struct api_request *r, struct buf *body)
{
	if (r->waits)
		return api_pool_is_done(r->owner->worker, &r->job) ? take_answer(r, body) : 0;
	if (r->kind == ABORT) {
		symbols_abort(r->owner->symbols, r->session);
		r->status = MHD_HTTP_OK;
		buf_puts(&r->answer, "{}\n");
		return take_answer(r, body);
	}
	if (r->kind == CHUNK && (r->err || !symbols_complete(r->owner->symbols, r->session))) {
		r->status = symbols_chunk_answer(r->owner->symbols, r->session, r->err, &r->answer);
		return take_answer(r, body);
	}
	r->waits = api_pool_push(r->owner->worker, &r->job);
	if (r->waits)
		return 0;
	r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
	return take_answer(r, body);
}

void api_symbols_forget(struct api_request *r)
{
	buf_fini(&r->body);
	buf_fini(&r->answer);
	free(r);
}

/* ---- GET ---- */

unsigned api_symbols_get(struct api_symbols *a, const char *url, struct buf *out)
{
	uint64_t session = parse_session(url);

	if (!a->symbols)
		return 0;
	if (session)
		return symbols_chunk_answer(a->symbols, session, 0, out);
	return strcmp(url, "/api/v1/symbols/status") ? 0 : symbols_status(a->symbols, out);
}

void api_symbols_metrics(struct api_symbols *a, struct metrics *m)
{
	struct symbols_stats st;

	if (!a->symbols)
		return;
	symbols_stats(a->symbols, &st);
	METRICS(m, {"sysom_aggregator_symbol_files", "Symbol files kept.", st.store.files},
		{"sysom_aggregator_symbol_bytes", "Bytes of the symbol files.", st.store.bytes},
		{"sysom_aggregator_symbol_evicted_total",
		 "Symbol files removed because of symbols.max_bytes.", st.store.evicted},
		{"sysom_aggregator_symbol_uploads", "Uploads in progress.", st.store.uploading},
		{"sysom_aggregator_symbol_uploads_begun_total", "Uploads begun.", st.store.begun},
		{"sysom_aggregator_symbol_uploads_stored_total", "Uploads finished and stored.",
		 st.store.finished},
		{"sysom_aggregator_symbol_uploads_replaced_total",
		 "Uploads that replaced a file of lower quality.", st.store.replaced},
		{"sysom_aggregator_symbol_uploads_abandoned_total",
		 "Uploads dropped because they were idle.", st.store.abandoned},
		{"sysom_aggregator_symbol_received_bytes_total", "Bytes of uploaded chunks.",
		 st.store.received_bytes});
	METRICS_BY(m, "sysom_aggregator_symbol_refused_total", "Uploads refused, by reason.",
		   "reason", {"known", st.store.refused_known}, {"room", st.store.refused_room},
		   {"damaged", st.store.refused_damaged}, {"foreign", st.store.refused_build_id},
		   {"stripped", st.store.refused_stripped}, {"order", st.store.refused_order});
	METRICS(m,
		{"sysom_aggregator_symbol_asked_addresses_total", "Addresses to name.",
		 st.asked_addresses},
		{"sysom_aggregator_symbol_named_addresses_total", "Addresses that got a name.",
		 st.named_addresses},
		{"sysom_aggregator_symbol_index_files", "Index files.", st.resolver.index_files},
		{"sysom_aggregator_symbol_index_bytes", "Bytes of the indexes.",
		 st.resolver.index_bytes},
		{"sysom_aggregator_symbol_index_built_total", "Indexes built.", st.resolver.built},
		{"sysom_aggregator_symbol_cached_bytes", "Memory of open indexes.",
		 st.resolver.cached_bytes});
}
