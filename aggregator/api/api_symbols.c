/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/api/api_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "aggregator/api/api_pool.h"
#include "base/limits.h"
#include "base/text.h"

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

static const char *header(struct MHD_Connection *c, const char *name)
{
	const char *v = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);

	return v ? v : "";
}

static int parse_number(const char *text, uint64_t *out)
{
	size_t n = text ? strspn(text, "0123456789") : 0;

	if (!n || n > 18 || text[n])
		return -EINVAL;
	*out = strtoull(text, NULL, 10);
	return 0;
}

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

/* The status to refuse the request with, or 0. */
static unsigned classify(struct api_request *r, const char *method, const char *url,
			 const char **why)
{
	bool post = !strcmp(method, "POST");

	*why = "no such path";
	r->session = parse_session(url);
	if (r->session) {
		r->kind = strcmp(method, "DELETE") ? CHUNK : ABORT;
		*why = "use PUT, GET, HEAD or DELETE";
		return strcmp(method, "PUT") && r->kind != ABORT ? MHD_HTTP_METHOD_NOT_ALLOWED : 0;
	}
	if (!strcmp(url, "/api/v1/symbols/needed"))
		r->kind = NEEDED;
	else if (!strcmp(url, UPLOADS))
		r->kind = BEGIN;
	else if (!strcmp(url, "/api/v1/symbolize"))
		r->kind = SYMBOLIZE;
	else {
		*why = "use GET or HEAD";
		return MHD_HTTP_METHOD_NOT_ALLOWED;
	}
	*why = "use POST";
	return post ? 0 : MHD_HTTP_METHOD_NOT_ALLOWED;
}

static unsigned check_headers(struct api_request *r, const char **why)
{
	const char *type = header(r->job.connection, MHD_HTTP_HEADER_CONTENT_TYPE);
	const char *want = r->kind == CHUNK ? "application/octet-stream" : "application/json";
	uint64_t length,
	    max = r->kind == CHUNK ? LIMIT_SYMBOL_CHUNK_BYTES : LIMIT_API_SYMBOL_BODY_BYTES;

	if (r->kind == ABORT)
		return 0;
	*why = r->kind == CHUNK ? "the Content-Type must be application/octet-stream"
				: "the Content-Type must be application/json";
	if (strncasecmp(type, want, strlen(want)))
		return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
	*why = "the request has no Content-Length";
	if (parse_number(header(r->job.connection, MHD_HTTP_HEADER_CONTENT_LENGTH), &length))
		return MHD_HTTP_LENGTH_REQUIRED;
	*why = r->kind == CHUNK ? "a chunk may have 64 MiB at most"
				: "the body may have 1 MiB at most";
	if (length > max)
		return MHD_HTTP_CONTENT_TOO_LARGE;
	*why = "\"offset\" must be the position of this chunk";
	if (r->kind == CHUNK &&
	    parse_number(
		MHD_lookup_connection_value(r->job.connection, MHD_GET_ARGUMENT_KIND, "offset"),
		&r->offset))
		return MHD_HTTP_BAD_REQUEST;
	return 0;
}

unsigned api_symbols_begin(struct api_symbols *a, struct MHD_Connection *c, const char *method,
			   const char *url, struct api_request **out, const char **why)
{
	struct api_request *r = calloc(1, sizeof(*r));
	unsigned status;

	*out = NULL;
	*why = "out of memory";
	if (!r)
		return MHD_HTTP_INTERNAL_SERVER_ERROR;
	r->owner = a;
	r->job.connection = c;
	buf_init(&r->body, LIMIT_API_SYMBOL_BODY_BYTES);
	buf_init(&r->answer, ANSWER_BYTES);
	status = classify(r, method, url, why);
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

static void one(struct buf *b, const char *name, const char *type, const char *help, uint64_t value)
{
	buf_printf(b,
		   "# HELP sysom_aggregator_symbol_%s %s\n# TYPE sysom_aggregator_symbol_%s %s\n"
		   "sysom_aggregator_symbol_%s %llu\n",
		   name, help, name, type, name, (unsigned long long)value);
}

void api_symbols_metrics(struct api_symbols *a, struct buf *b)
{
	struct symbols_stats st;

	if (!a->symbols)
		return;
	symbols_stats(a->symbols, &st);
	one(b, "files", "gauge", "Symbol files kept.", st.store.files);
	one(b, "bytes", "gauge", "Bytes of the symbol files.", st.store.bytes);
	one(b, "evicted_total", "counter", "Symbol files removed because of symbols.max_bytes.",
	    st.store.evicted);
	one(b, "uploads", "gauge", "Uploads in progress.", st.store.uploading);
	one(b, "uploads_begun_total", "counter", "Uploads begun.", st.store.begun);
	one(b, "uploads_stored_total", "counter", "Uploads finished and stored.",
	    st.store.finished);
	one(b, "uploads_replaced_total", "counter",
	    "Uploads that replaced a file of lower quality.", st.store.replaced);
	one(b, "uploads_abandoned_total", "counter", "Uploads dropped because they were idle.",
	    st.store.abandoned);
	one(b, "received_bytes_total", "counter", "Bytes of uploaded chunks.",
	    st.store.received_bytes);
	buf_printf(b, "# HELP sysom_aggregator_symbol_refused_total Uploads refused, by reason.\n"
		      "# TYPE sysom_aggregator_symbol_refused_total counter\n");
	for (size_t i = 0; i < 6; i++) {
		static const char *const reasons[] = {"known",	 "room",     "damaged",
						      "foreign", "stripped", "order"};
		const uint64_t counts[] = {st.store.refused_known,    st.store.refused_room,
					   st.store.refused_damaged,  st.store.refused_build_id,
					   st.store.refused_stripped, st.store.refused_order};

		buf_printf(b, "sysom_aggregator_symbol_refused_total{reason=\"%s\"} %llu\n",
			   reasons[i], (unsigned long long)counts[i]);
	}
	one(b, "asked_addresses_total", "counter", "Addresses to name.", st.asked_addresses);
	one(b, "named_addresses_total", "counter", "Addresses that got a name.",
	    st.named_addresses);
	one(b, "index_files", "gauge", "Index files.", st.resolver.index_files);
	one(b, "index_bytes", "gauge", "Bytes of the indexes.", st.resolver.index_bytes);
	one(b, "index_built_total", "counter", "Indexes built.", st.resolver.built);
	one(b, "cached_bytes", "gauge", "Memory of open indexes.", st.resolver.cached_bytes);
}
