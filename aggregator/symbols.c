/* SPDX-License-Identifier: Apache-2.0
 * Two resolvers. One answers the API and may download files. The other names functions of windows
 * from local files only, so that no window waits for a download. */
#include "aggregator/symbols.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/text/text.h"

/* Limit of all names in one answer; the rest must be asked for again. */
#define NAMES_BYTES (8u << 20)
/* Longest name; C++ names may be longer than anyone reads. */
#define NAME_BYTES 4096u

struct symbols {
	struct symbol_store *store;
	struct symbol_resolver *resolver;
	struct symbol_resolver *namer; /* under name_lock */
	pthread_mutex_t name_lock;
	atomic_bool stop;
	bool upload;
	pthread_mutex_t lock; /* protects stats */
	struct symbols_stats stats;
};

static const char *const qualities[] = {"none", "dynamic", "table", "debug"};

/* ---- open and close ---- */

int symbols_open(struct symbols **out, const struct symbols_config *c)
{
	struct symbols *s = calloc(1, sizeof(*s));
	struct symbol_store_options o = {.directory = c->dir,
					 .bytes_max = c->max_bytes,
					 .reserve_bytes = c->reserve_bytes,
					 .evict = c->evict};
	struct symbol_resolver_options r = {.debuginfod = c->debuginfod,
					    .index_bytes_max = c->index_max_bytes};
	char index[1100];
	int err;

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->name_lock, NULL);
	atomic_init(&s->stop, false);
	s->upload = c->upload;
	err = symbol_store_open(&s->store, &o);
	if (!err) {
		snprintf(index, sizeof(index), "%.1000s/index", c->dir);
		r.directory = symbol_store_tree(s->store);
		r.index_dir = index;
		r.stop = &s->stop;
		err = symbol_resolver_open(&s->resolver, &r);
	}
	if (!err) { /* its own indexes: a resolver and its files have one caller */
		snprintf(index, sizeof(index), "%.1000s/window-index", c->dir);
		r.debuginfod = false;
		err = symbol_resolver_open(&s->namer, &r);
	}
	if (err) {
		symbols_close(s);
		return err;
	}
	*out = s;
	return 0;
}

void symbols_close(struct symbols *s)
{
	if (!s)
		return;
	symbol_resolver_close(s->namer);
	symbol_resolver_close(s->resolver);
	symbol_store_close(s->store);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->name_lock);
	free(s);
}

void symbols_stop(struct symbols *s)
{
	atomic_store(&s->stop, true);
}

void symbols_tend(struct symbols *s)
{
	symbol_store_tend(s->store, clock_monotonic_ns());
}

/* ---- texts ---- */

static unsigned answer(struct buf *out, unsigned status, json_t *j)
{
	return json_text_put(out, j) ? status : 500;
}

static unsigned refuse(struct buf *out, unsigned status, const char *why)
{
	return answer(out, status, json_pack("{s:s}", "error", why));
}

/* The length; 0 if it is not a Build ID. */
static size_t parse_build_id(const json_t *j, uint8_t id[SYMBOL_BUILD_ID_MAX])
{
	size_t n = json_string_length(j);

	if (!json_is_string(j) || n % 2 || n < 4 || n > 2 * SYMBOL_BUILD_ID_MAX ||
	    text_unhex(json_string_value(j), id, n / 2))
		return 0;
	return n / 2;
}

/* SYMBOL_NONE: not a quality. */
static enum symbol_quality parse_quality(const json_t *j)
{
	const char *text = json_string_value(j);

	for (int q = SYMBOL_DYNAMIC; text && q <= SYMBOL_DEBUG; q++)
		if (!strcmp(text, qualities[q]))
			return (enum symbol_quality)q;
	return SYMBOL_NONE;
}

static json_t *parse(const void *body, size_t bytes)
{
	json_t *j = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(j))
		return j;
	json_decref(j);
	return NULL;
}

/* ---- needed files ---- */

static bool is_needed(struct symbols *s, const json_t *file, bool *bad)
{
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	size_t n = parse_build_id(json_object_get(file, "build_id"), id);
	enum symbol_quality q = parse_quality(json_object_get(file, "quality"));

	*bad |= !n || q == SYMBOL_NONE;
	return n && q != SYMBOL_NONE && s->upload &&
	       symbol_store_needed(s->store, id, n, q, clock_monotonic_ns());
}

unsigned symbols_needed(struct symbols *s, const void *body, size_t bytes, struct buf *out)
{
	json_t *j = parse(body, bytes), *files = json_object_get(j, "files"), *file, *needed = NULL;
	unsigned status = 400;
	bool bad = false;
	size_t i;

	if (!json_is_array(files) || json_array_size(files) > LIMIT_API_SYMBOL_FILES) {
		json_decref(j);
		return refuse(out, 400,
			      "\"files\" must be a list of at most 4096 {build_id, quality}");
	}
	needed = json_array();
	json_array_foreach (files, i, file)
		if (is_needed(s, file, &bad))
			json_array_append(needed, json_object_get(file, "build_id"));
	if (!bad) {
		status = answer(out, 200, json_pack("{s:O}", "needed", needed));
	} else {
		status =
		    refuse(out, 400,
			   "\"build_id\" must be 4 to 128 hex digits, and \"quality\" dynamic, "
			   "table or debug");
	}
	json_decref(needed);
	json_decref(j);
	return status;
}

/* ---- uploads ---- */

static unsigned refuse_begin(struct buf *out, int err)
{
	switch (err) {
	case -EEXIST:
		return refuse(out, 409, "not needed: an equally good file is stored");
	case -EBUSY:
		return refuse(out, 409, "not needed: another client is uploading it");
	case -EMFILE:
		return refuse(out, 503, "too many uploads at a time; try again");
	case -EFBIG:
		return refuse(out, 413,
			      "the file is larger than the limit, or than symbols.max_bytes");
	case -ENOSPC:
		return refuse(out, 507, "no room for the file");
	case -EINVAL:
		return refuse(out, 400, "an upload needs build_id, quality and bytes");
	}
	return refuse(out, 500, "store failed");
}

static void session_text(uint64_t session, char text[17])
{
	snprintf(text, 17, "%016llx", (unsigned long long)session);
}

unsigned symbols_begin(struct symbols *s, const void *body, size_t bytes, struct buf *out)
{
	json_t *j = parse(body, bytes);
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	size_t n = parse_build_id(json_object_get(j, "build_id"), id);
	enum symbol_quality q = parse_quality(json_object_get(j, "quality"));
	json_int_t size = json_integer_value(json_object_get(j, "bytes"));
	uint64_t session;
	char text[17];
	int err = -EINVAL;

	json_decref(j);
	if (!s->upload)
		return refuse(out, 403, "symbols.upload is off");
	if (n && size > 0)
		err = symbol_store_begin(s->store, id, n, (uint64_t)size, q, clock_monotonic_ns(),
					 &session);
	if (err)
		return refuse_begin(out, err);
	session_text(session, text);
	return answer(out, 201,
		      json_pack("{s:s, s:i, s:i}", "session", text, "offset", 0, "chunk_bytes",
				(int)LIMIT_SYMBOL_CHUNK_BYTES));
}

int symbols_append(struct symbols *s, uint64_t session, uint64_t offset, const void *data,
		   size_t bytes)
{
	return symbol_store_append(s->store, session, offset, data, bytes, clock_monotonic_ns());
}

bool symbols_complete(struct symbols *s, uint64_t session)
{
	uint64_t have, bytes;

	return !symbol_store_progress(s->store, session, &have, &bytes) && have == bytes;
}

void symbols_abort(struct symbols *s, uint64_t session)
{
	symbol_store_abort(s->store, session);
}

unsigned symbols_chunk_answer(struct symbols *s, uint64_t session, int err, struct buf *out)
{
	uint64_t have = 0, bytes = 0;

	if (symbol_store_progress(s->store, session, &have, &bytes))
		return err && err != -ENOENT
			   ? refuse(out, 507, "the disk refused the chunk; begin the upload again")
			   : refuse(out, 404, "no such upload; begin it again");
	if (err == -ERANGE || err == -EFBIG)
		return answer(out, 409,
			      json_pack("{s:s, s:I, s:I}", "error",
					err == -ERANGE ? "the chunk has the wrong offset"
						       : "more bytes than were announced",
					"offset", (json_int_t)have, "bytes", (json_int_t)bytes));
	if (err)
		return refuse(out, 500, "store failed");
	return answer(
	    out, 202,
	    json_pack("{s:I, s:I}", "offset", (json_int_t)have, "bytes", (json_int_t)bytes));
}

unsigned symbols_finish(struct symbols *s, uint64_t session, struct buf *out)
{
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	char text[2 * SYMBOL_BUILD_ID_MAX + 1];
	size_t id_bytes = 0;
	const char *why;
	int err = symbol_store_finish(s->store, session, id, &id_bytes, &why);

	if (err == -ENOENT || err == -EAGAIN)
		return symbols_chunk_answer(s, session, 0, out);
	text_hex(id, id_bytes, text);
	if (!err) {
		symbol_resolver_forget(s->resolver, id, id_bytes);
		pthread_mutex_lock(&s->name_lock);
		symbol_resolver_forget(s->namer, id, id_bytes);
		pthread_mutex_unlock(&s->name_lock);
		log_info("symbols", "build_id=%s stored", text);
		return answer(out, 201, json_pack("{s:s}", "stored", text));
	}
	log_warn("symbols", "build_id=%s refused=\"%s\" error=\"%s\"", text, why, strerror(-err));
	if (err == -EBADMSG)
		return refuse(out, 422, why);
	return err == -EEXIST ? refuse(out, 409, why)
			      : refuse(out, 507, "the disk refused the file");
}

/* ---- names ---- */

static json_t *name_json(const struct symbol_name *n, size_t *room)
{
	char function[NAME_BYTES], raw[NAME_BYTES];
	json_t *j = json_object();

	text_copy(function, sizeof(function), n->function);
	text_copy(raw, sizeof(raw), n->raw);
	*room -= strlen(function) + strlen(raw);
	json_object_set_new(j, "function", json_text(function));
	if (strcmp(function, raw))
		json_object_set_new(j, "raw", json_text(raw));
	json_object_set_new(j, "begin", json_exact(n->begin));
	json_object_set_new(j, "size", json_integer((json_int_t)n->size));
	json_object_set_new(j, "proven", json_boolean(n->proven));
	return j;
}

static json_t *object_json(struct symbols *s, const json_t *object, size_t *room, size_t *named)
{
	json_t *addresses = json_object_get(object, "addresses"), *address, *names = json_array();
	const char *status = "ok";
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	size_t n = parse_build_id(json_object_get(object, "build_id"), id), i;
	struct symbol_name name;
	uint64_t at = 0;
	json_t *j;

	json_array_foreach (addresses, i, address) {
		int err;

		if (*room < 2 * NAME_BYTES || atomic_load(&s->stop)) {
			status = "cut";
			break;
		}
		jsonget_exact(address, &at); /* check_objects() */
		err = symbol_resolver_find(s->resolver, id, n, NULL, at, &name);
		if (err == -ENODATA || err == -EBADMSG || err == -ENOMEM) {
			status = err == -ENODATA ? "unknown" : err == -EBADMSG ? "refused" : "cut";
			break;
		}
		*named += !err;
		json_array_append_new(names, err ? json_null() : name_json(&name, room));
	}
	if (!strcmp(status, "ok")) {
		symbol_store_use(s->store, id, n);
		symbol_store_use(s->store, id, symbol_content_note(n));
	}
	j = json_pack("{s:O, s:s, s:o}", "build_id", json_object_get(object, "build_id"), "status",
		      status, "names", names);
	if (!strcmp(status, "refused"))
		json_object_set_new(j, "why", json_text(symbol_resolver_why(s->resolver)));
	return j;
}

/* 0 if the list is valid. */
static int check_objects(const json_t *objects)
{
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	json_t *object, *address;
	size_t i, k, total = 0;
	uint64_t at;

	if (!json_is_array(objects) || json_array_size(objects) > LIMIT_API_SYMBOL_OBJECTS)
		return -EINVAL;
	json_array_foreach (objects, i, object) {
		const json_t *addresses = json_object_get(object, "addresses");

		total += json_array_size(addresses);
		if (!parse_build_id(json_object_get(object, "build_id"), id) ||
		    !json_is_array(addresses) || total > LIMIT_API_SYMBOL_ADDRESSES)
			return -EINVAL;
		json_array_foreach (addresses, k, address)
			if (!jsonget_exact(address, &at))
				return -EINVAL;
	}
	return 0;
}

unsigned symbols_symbolize(struct symbols *s, const void *body, size_t bytes, struct buf *out)
{
	json_t *j = parse(body, bytes), *objects = json_object_get(j, "objects"), *object, *list;
	size_t i, room = NAMES_BYTES, asked = 0, named = 0;
	unsigned status;

	if (check_objects(objects)) {
		json_decref(j);
		return refuse(out, 400,
			      "\"objects\" must be a list of at most 1024 {build_id, addresses}, "
			      "with at most 16384 addresses together");
	}
	list = json_array();
	json_array_foreach (objects, i, object) {
		asked += json_array_size(json_object_get(object, "addresses"));
		json_array_append_new(list, object_json(s, object, &room, &named));
	}
	pthread_mutex_lock(&s->lock);
	s->stats.asked_addresses += asked;
	s->stats.named_addresses += named;
	symbol_resolver_stats_get(s->resolver, &s->stats.resolver);
	pthread_mutex_unlock(&s->lock);
	status = answer(out, 200, json_pack("{s:o}", "objects", list));
	json_decref(j);
	return status;
}

bool symbols_name(struct symbols *s, const uint8_t *build_id, size_t build_id_bytes,
		  uint64_t address, char *out, size_t out_bytes)
{
	struct symbol_name name;
	bool known;

	pthread_mutex_lock(&s->name_lock);
	known = build_id_bytes &&
		!symbol_resolver_find(s->namer, build_id, build_id_bytes, NULL, address, &name);
	/* if any client may upload files, a Build ID alone would let it name functions of others */
	known = known && (name.proven || !s->upload);
	if (known)
		text_copy(out, out_bytes, name.function);
	pthread_mutex_unlock(&s->name_lock);
	return known;
}

/* ---- figures ---- */

void symbols_stats(struct symbols *s, struct symbols_stats *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->stats;
	pthread_mutex_unlock(&s->lock);
	symbol_store_stats_get(s->store, &out->store);
}

unsigned symbols_status(struct symbols *s, struct buf *out)
{
	struct symbols_stats st;

	symbols_stats(s, &st);
	return answer(
	    out, 200,
	    json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "upload", s->upload, "files",
		      (json_int_t)st.store.files, "bytes", (json_int_t)st.store.bytes, "uploading",
		      (json_int_t)st.store.uploading, "stored", (json_int_t)st.store.finished,
		      "evicted", (json_int_t)st.store.evicted, "index_files",
		      (json_int_t)st.resolver.index_files, "index_bytes",
		      (json_int_t)st.resolver.index_bytes));
}
