/* SPDX-License-Identifier: Apache-2.0
 * One table holds all noted Build IDs. The aggregator is asked about each one once, and again after
 * an hour, because it may have dropped the file, or may have asked another node first. */
#include "sidecar/stacks/symbol_offer.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cond.h"
#include "base/daemon/log.h"
#include "base/http/http_post.h"
#include "base/keyed.h"
#include "base/limits.h"
#include "base/text/text.h"
#include "symbol/symbol_content.h"
#include "symbol/symbol_reader.h"

#define ID_BYTES     SYMBOL_ID_MAX
#define PROBES	     32u /* of the table; beyond it a Build ID has no place */
#define ASK_FILES    256u
#define PERIOD_NS    10000000000ull
#define CHUNK_BYTES  (8u << 20)
#define DAY_NS	     86400000000000ull
#define AGAIN_NS     3600000000000ull /* after an answer "not needed", or an upload */
#define RETRY_NS     60000000000ull   /* after a failure */
#define ANSWER_BYTES (256u << 10)

struct note {
	uint8_t id[ID_BYTES];
	uint8_t id_bytes; /* 0: free */
	uint32_t pid;
	char *path;
	uint64_t due_ns;
};

/* Stages of an upload. A stage that works clears its own fault and those of earlier stages. The
 * fault of a later stage stays until that stage works, so the log has only one line about it. */
enum stage { STAGE_ASK, STAGE_BEGIN, STAGE_BYTES };

struct symbol_offer {
	struct symbol_offer_config config;
	char url[512], proc_root[256];
	pthread_t thread;
	atomic_bool stop;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t more;
	bool started;
	struct note notes[LIMIT_OFFER_FILES];
	struct symbol_offer_stats stats;

	/* used only by the thread */
	CURL *curl;
	enum stage fault_stage; /* of stats.fault */
	struct symbol_reader *files;
	struct reader *own; /* NULL: the caller's reader is used */
	uint64_t day_ns, day_bytes;
};

int symbol_offer_url(const char *uplink_url, char *out, size_t out_bytes)
{
	const char *host, *colon;
	int n;

	if (!strncmp(uplink_url, "tcp://", 6))
		host = uplink_url + 6;
	else if (!strncmp(uplink_url, "tls+tcp://", 10))
		host = uplink_url + 10;
	else
		return -EINVAL;
	colon = strrchr(host, ':');
	if (!colon || colon == host || strcmp(colon, ":9471"))
		return -EINVAL;
	n = snprintf(out, out_bytes, "http://%.*s:9472", (int)(colon - host), host);
	return n < 0 || (size_t)n >= out_bytes ? -EINVAL : 0;
}

/* ---- the table ---- */

/* Under lock. The Build ID's entry, or a free one; NULL: no place. */
static struct note *place(struct symbol_offer *o, const uint8_t *id, size_t id_bytes)
{
	uint64_t h = keyed_bytes(keyed_process(), id, id_bytes);

	for (uint32_t i = 0; i < PROBES; i++) {
		struct note *n = &o->notes[(h + i) % LIMIT_OFFER_FILES];

		if (!n->id_bytes || (n->id_bytes == id_bytes && !memcmp(n->id, id, id_bytes)))
			return n;
	}
	return NULL;
}

void symbol_offer_note(struct symbol_offer *o, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, uint32_t pid)
{
	size_t bytes = symbol_content_cut(build_id_bytes);
	struct note *n;

	if (!o || !symbol_content_proves(bytes) || !path || *path != '/' ||
	    strlen(path) > LIMIT_OFFER_PATH_BYTES)
		return;
	pthread_mutex_lock(&o->lock);
	n = place(o, build_id, bytes);
	if (!n) {
		o->stats.forgotten++;
	} else if (!n->id_bytes) {
		n->path = strdup(path);
		if (n->path) {
			memcpy(n->id, build_id, bytes);
			n->id_bytes = (uint8_t)bytes;
			n->pid = pid;
			n->due_ns = 0;
			o->stats.noted++;
		}
	} else {
		n->pid = pid; /* the newest process lives longest */
	}
	pthread_mutex_unlock(&o->lock);
}

static void put_off(struct symbol_offer *o, const struct note *n, uint64_t ns)
{
	struct note *at;

	pthread_mutex_lock(&o->lock);
	at = place(o, n->id, n->id_bytes);
	if (at && at->id_bytes)
		at->due_ns = clock_monotonic_ns() + ns;
	pthread_mutex_unlock(&o->lock);
}

static void count(struct symbol_offer *o, uint64_t *counter, uint64_t n)
{
	pthread_mutex_lock(&o->lock);
	*counter += n;
	pthread_mutex_unlock(&o->lock);
}

/* Copies the notes that are due, with their own paths. */
static uint32_t take_due(struct symbol_offer *o, struct note *out)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint32_t n = 0;

	pthread_mutex_lock(&o->lock);
	for (uint32_t i = 0; i < LIMIT_OFFER_FILES && n < ASK_FILES; i++) {
		const struct note *from = &o->notes[i];

		if (!from->id_bytes || from->due_ns > now_ns)
			continue;
		out[n] = *from;
		out[n].path = strdup(from->path);
		if (out[n].path)
			n++;
	}
	pthread_mutex_unlock(&o->lock);
	return n;
}

/* ---- HTTP ---- */

static bool gives_up(void *arg)
{
	struct symbol_offer *o = arg;

	return atomic_load(&o->stop);
}

/* why: "" if the request of that stage worked. */
static void note_fault(struct symbol_offer *o, enum stage stage, const char *why)
{
	bool changed;

	if (!*why && stage < o->fault_stage)
		return;
	pthread_mutex_lock(&o->lock);
	changed = strncmp(o->stats.fault, why, sizeof(o->stats.fault) - 1);
	text_copy(o->stats.fault, sizeof(o->stats.fault), why);
	pthread_mutex_unlock(&o->lock);
	o->fault_stage = *why ? stage : STAGE_ASK;
	if (changed && *why)
		log_warn("symbols",
			 "http=%s why=\"%s\" effect=\"symbol files are not uploaded, so functions "
			 "have fewer names\"",
			 o->url, why);
	else if (changed)
		log_info("symbols", "http=%s effect=\"symbol files are uploaded again\"", o->url);
}

/* Judges an HTTP status. 409 gives an offset to continue from; 0: no answer. */
static void judge(struct symbol_offer *o, enum stage stage, long status, const char *without,
		  const json_t *answer)
{
	const char *error = json_string_value(json_object_get(answer, "error"));
	char why[SYMBOL_OFFER_FAULT_BYTES] = "";

	if (!status)
		text_copy(why, sizeof(why), without);
	else if (status >= 300 && status != 409)
		snprintf(why, sizeof(why), "the aggregator answers %ld%s%.160s%s", status,
			 error ? ": " : "", error ? error : "",
			 status == 401 || status == 403 ? "; see uplink.http_token" : "");
	note_fault(o, stage, why);
}

/* Makes one request: posts JSON, or puts bytes if sent is given. Returns the HTTP status, or 0.
 * *out: the answer, which the caller owns; NULL: none. */
static long request(struct symbol_offer *o, enum stage stage, const char *path, const void *body,
		    size_t bytes, uint64_t *sent, json_t **out)
{
	char url[1024], why[SYMBOL_OFFER_FAULT_BYTES] = "";
	struct buf answer;
	const struct http_post p = {.url = url,
				    .type = sent ? "application/octet-stream" : "application/json",
				    .agent = "sysomd",
				    .ca = o->config.ca,
				    .token_file = o->config.token_file,
				    .token_name = "uplink.http_token",
				    .method = sent ? "PUT" : NULL,
				    .direct = true,
				    .stall_s = 60,
				    .bytes_per_s = sent ? o->config.bytes_per_s : 0,
				    .answer = &answer,
				    .give_up = gives_up,
				    .arg = o};
	long status;

	snprintf(url, sizeof(url), "%s%s", o->url, path);
	buf_init(&answer, ANSWER_BYTES);
	status = http_post_ask(o->curl, &p, body, bytes, sent, why, sizeof(why));
	*out = status ? json_loadb((const char *)answer.data, answer.bytes, 0, NULL) : NULL;
	buf_fini(&answer);
	if (!atomic_load(&o->stop))
		judge(o, stage, status, why, *out);
	return status;
}

/* ---- one file ---- */

/* The identity selects the mapped file, or one with equal content. A file that only has the same
 * Build ID may have any symbol names. */
static struct symbol_reader_file file_of(const struct note *n)
{
	return (struct symbol_reader_file){n->id, n->id_bytes, n->path, n->pid};
}

static int look_best(struct symbol_offer *o, const struct note *n, enum symbol_quality *quality,
		     uint64_t *bytes)
{
	struct symbol_reader_file f = file_of(n);

	return symbol_reader_look(o->files, &f, quality, bytes);
}

/* 0 if there is no such number. */
static uint64_t number_in(const json_t *j, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(j, key));

	return v > 0 ? (uint64_t)v : 0;
}

static bool in_budget(struct symbol_offer *o, uint64_t bytes)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!o->day_ns || now_ns - o->day_ns > DAY_NS) {
		o->day_ns = now_ns;
		o->day_bytes = 0;
	}
	return bytes <= o->config.bytes_per_day && o->day_bytes <= o->config.bytes_per_day - bytes;
}

/* Uploads in chunks. After a failed chunk, continues at the aggregator's offset. */
static long put_chunks(struct symbol_offer *o, const char *session, const struct note *note,
		       uint64_t bytes)
{
	struct symbol_reader_file f = file_of(note);
	uint64_t offset = 0;
	long status = 0;

	for (uint32_t tries = 0; tries < 3 && !atomic_load(&o->stop);) {
		uint64_t n =
		    bytes - offset < o->config.chunk_bytes ? bytes - offset : o->config.chunk_bytes;
		uint64_t sent = 0;
		uint8_t *data;
		json_t *j;
		char path[128];

		if (symbol_reader_bytes(o->files, &f, offset, n, &data))
			return 0; /* the file changed, or the process ended */
		snprintf(path, sizeof(path), "/api/v1/symbols/uploads/%s?offset=%llu", session,
			 (unsigned long long)offset);
		status = request(o, STAGE_BYTES, path, data, n, &sent, &j);
		free(data);
		count(o, &o->stats.uploaded_bytes, sent);
		o->day_bytes += sent;
		if (status == 202 && n && number_in(j, "offset") == offset + n)
			offset += n;
		else if (status == 409 && json_object_get(j, "offset") &&
			 number_in(j, "offset") < bytes)
			offset = number_in(j, "offset");
		else if (status)
			tries = 3; /* complete (201), or refused */
		tries += status != 202;
		json_decref(j);
	}
	return status;
}

static long upload(struct symbol_offer *o, const struct note *n, enum symbol_quality quality,
		   uint64_t bytes)
{
	static const char *const qualities[] = {"none", "dynamic", "table", "debug"};
	char text[256], id[2 * ID_BYTES + 1], session[17] = "";
	const char *given;
	json_t *j;
	long status;

	text_hex(n->id, n->id_bytes, id);
	snprintf(text, sizeof(text), "{\"build_id\":\"%s\",\"quality\":\"%s\",\"bytes\":%llu}", id,
		 qualities[quality], (unsigned long long)bytes);
	status = request(o, STAGE_BEGIN, "/api/v1/symbols/uploads", text, strlen(text), NULL, &j);
	given = json_string_value(json_object_get(j, "session"));
	if (status == 201 && given && strspn(given, "0123456789abcdef") == 16 && !given[16])
		memcpy(session, given, 16);
	json_decref(j);
	return *session ? put_chunks(o, session, n, bytes) : status == 201 ? 0 : status;
}

/* Uploads a file that the aggregator needs. */
static void offer(struct symbol_offer *o, const struct note *n)
{
	enum symbol_quality quality;
	uint64_t again_ns = AGAIN_NS, bytes;
	long status;

	if (look_best(o, n, &quality, &bytes)) {
		count(o, &o->stats.no_file, 1);
		put_off(o, n, AGAIN_NS);
		return;
	}
	if (!in_budget(o, bytes)) {
		count(o, &o->stats.over_budget, 1);
	} else {
		status = upload(o, n, quality, bytes);
		if (status == 201)
			log_info("symbols", "path=%s uploaded=%llu", n->path,
				 (unsigned long long)bytes);
		if (!atomic_load(&o->stop))
			count(o,
			      status == 201 ? &o->stats.uploaded
			      : status	    ? &o->stats.refused
					    : &o->stats.failed,
			      1);
		again_ns = status ? AGAIN_NS : RETRY_NS;
	}
	put_off(o, n, again_ns);
}

/* ---- the thread ---- */

/* The question about n notes, without those that have no file (quality[i] SYMBOL_NONE). */
static char *question(const struct note *notes, const uint8_t *quality, uint32_t n)
{
	static const char *const qualities[] = {"none", "dynamic", "table", "debug"};
	json_t *files = json_array(), *j = json_pack("{s:o}", "files", files);
	char *text;

	for (uint32_t i = 0; i < n; i++) {
		char id[2 * ID_BYTES + 1];

		text_hex(notes[i].id, notes[i].id_bytes, id);
		if (quality[i])
			json_array_append_new(files, json_pack("{s:s, s:s}", "build_id", id,
							       "quality", qualities[quality[i]]));
	}
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	json_decref(j);
	return text;
}

static bool is_named(const json_t *needed, const struct note *n)
{
	char id[2 * ID_BYTES + 1];
	json_t *each;
	size_t i;

	text_hex(n->id, n->id_bytes, id);
	json_array_foreach (needed, i, each)
		if (json_is_string(each) && !strcmp(json_string_value(each), id))
			return true;
	return false;
}

static void look(struct symbol_offer *o, const struct note *notes, uint8_t *quality, uint32_t n)
{
	for (uint32_t i = 0; i < n && !atomic_load(&o->stop); i++) {
		enum symbol_quality q;
		uint64_t bytes;

		quality[i] = SYMBOL_NONE;
		if (!look_best(o, &notes[i], &q, &bytes))
			quality[i] = (uint8_t)q;
		if (!quality[i]) {
			count(o, &o->stats.no_file, 1);
			put_off(o, &notes[i], RETRY_NS);
		}
	}
}

/* Asks one question and carries out the answer. */
static void ask(struct symbol_offer *o, const struct note *notes, uint32_t n)
{
	uint8_t quality[ASK_FILES] = {0};
	json_t *j = NULL, *needed;
	char *text;
	long status = 0;

	look(o, notes, quality, n);
	text = question(notes, quality, n);
	if (text && !atomic_load(&o->stop))
		status =
		    request(o, STAGE_ASK, "/api/v1/symbols/needed", text, strlen(text), NULL, &j);
	free(text);
	needed = json_object_get(j, "needed");
	if (status == 200 && json_is_array(needed) && json_array_size(needed) <= n) {
		count(o, &o->stats.asked, n);
		count(o, &o->stats.needed, json_array_size(needed));
	} else {
		count(o, &o->stats.failed, !atomic_load(&o->stop));
		if (status == 200)
			note_fault(o, STAGE_ASK, "the answer is not sysom-aggregator's");
		needed = NULL;
	}
	for (uint32_t i = 0; i < n && !atomic_load(&o->stop); i++) {
		if (!quality[i])
			continue;
		if (!needed)
			put_off(o, &notes[i], status == 200 ? AGAIN_NS : RETRY_NS);
		else if (is_named(needed, &notes[i]))
			offer(o, &notes[i]);
		else
			put_off(o, &notes[i], AGAIN_NS);
	}
	json_decref(j);
}

static void *run(void *arg)
{
	struct symbol_offer *o = arg;
	struct note *due = calloc(ASK_FILES, sizeof(*due));

	while (due && !atomic_load(&o->stop)) {
		uint64_t until_ns = clock_monotonic_ns() + o->config.period_ns;
		struct timespec until = clock_timespec(until_ns);
		uint32_t n = take_due(o, due);

		if (n)
			ask(o, due, n);
		for (uint32_t i = 0; i < n; i++)
			free(due[i].path);
		pthread_mutex_lock(&o->lock);
		/* only the end wakes the thread, because all notes of a period are asked
		 * together */
		while (!atomic_load(&o->stop) &&
		       pthread_cond_timedwait(&o->more, &o->lock, &until) != ETIMEDOUT)
			;
		pthread_mutex_unlock(&o->lock);
	}
	free(due);
	return NULL;
}

int symbol_offer_open(struct symbol_offer **out, const struct symbol_offer_config *c)
{
	struct symbol_offer *o;
	int err;

	if (strncmp(c->url, "http://", 7) && strncmp(c->url, "https://", 8))
		return -EINVAL;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->config = *c;
	o->config.period_ns = c->period_ns ? c->period_ns : PERIOD_NS;
	o->config.chunk_bytes = c->chunk_bytes ? c->chunk_bytes : CHUNK_BYTES;
	atomic_init(&o->stop, false);
	pthread_mutex_init(&o->lock, NULL);
	cond_init_monotonic(&o->more);
	err = (size_t)snprintf(o->url, sizeof(o->url), "%s", c->url) < sizeof(o->url) &&
		      (size_t)snprintf(o->proc_root, sizeof(o->proc_root), "%s",
				       c->proc_root ? c->proc_root : "/proc") < sizeof(o->proc_root)
		  ? 0
		  : -EINVAL;
	while (!err && *o->url && o->url[strlen(o->url) - 1] == '/')
		o->url[strlen(o->url) - 1] = 0;
	if (!err && !c->reader)
		err = reader_open(&o->own, o->proc_root);
	if (!err)
		err = symbol_reader_open(&o->files, c->reader ? c->reader : o->own, &o->stop);
	if (!err) {
		o->curl = curl_easy_init();
		err = o->curl ? -pthread_create(&o->thread, NULL, run, o) : -ENOMEM;
		o->started = !err;
	}
	if (err) {
		symbol_offer_close(o);
		return err;
	}
	*out = o;
	return 0;
}

void symbol_offer_close(struct symbol_offer *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	atomic_store(&o->stop, true);
	pthread_cond_signal(&o->more);
	pthread_mutex_unlock(&o->lock);
	if (o->started)
		pthread_join(o->thread, NULL);
	if (o->curl)
		curl_easy_cleanup(o->curl);
	symbol_reader_close(o->files);
	reader_close(o->own);
	for (uint32_t i = 0; i < LIMIT_OFFER_FILES; i++)
		free(o->notes[i].path);
	pthread_cond_destroy(&o->more);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void symbol_offer_stats_get(struct symbol_offer *o, struct symbol_offer_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	*out = o->stats;
	pthread_mutex_unlock(&o->lock);
}
