/* SPDX-License-Identifier: Apache-2.0
 * What is read back: by the committer as it starts, by the API through readers of its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/store_private.h"
#include "aggregator/text.h"
#include "base/job_key.h"
#include "base/limits.h"

/* ---- for the committer, as it starts ---- */

struct rows {
	struct incident_row *list;
	uint32_t count;
};

static int take_rows(struct store *s, enum statement which, uint64_t since_unix_ns, struct rows *to)
{
	int err, code = SQLITE_DONE;
	sqlite3_stmt *st = store_statement(s, which, &err);

	if (!st)
		return err;
	sqlite3_bind_int64(st, 1, (int64_t)since_unix_ns);
	sqlite3_bind_int64(st, 2, LIMIT_INCIDENTS_LIVE - to->count);
	while (to->count < LIMIT_INCIDENTS_LIVE && (code = sqlite3_step(st)) == SQLITE_ROW) {
		struct incident_row *r = &to->list[to->count++];

		text_copy(r->id, sizeof(r->id), store_column_text(st, 0));
		text_copy(r->job, sizeof(r->job), store_column_text(st, 1));
		r->open = sqlite3_column_int(st, 2);
		r->begin_unix_ns = (uint64_t)sqlite3_column_int64(st, 3);
		r->end_unix_ns = (uint64_t)sqlite3_column_int64(st, 4);
		r->arrival_unix_ns = (uint64_t)sqlite3_column_int64(st, 5);
	}
	err = store_errno(s, code, "incidents");
	store_done(st);
	return err;
}

static int by_arrival(const void *a, const void *b)
{
	const struct incident_row *x = a, *y = b;

	return x->arrival_unix_ns < y->arrival_unix_ns ? -1 : x->arrival_unix_ns > y->arrival_unix_ns;
}

int store_each_incident(struct store *s, uint64_t since_unix_ns,
			int (*fn)(void *arg, const struct incident_row *row), void *arg)
{
	struct rows rows = { calloc(LIMIT_INCIDENTS_LIVE, sizeof(struct incident_row)), 0 };
	int err = rows.list ? take_rows(s, ST_RESTORE_OPEN, 0, &rows) : -ENOMEM;

	if (!err)
		err = take_rows(s, ST_RESTORE_CLOSED, since_unix_ns, &rows);
	if (!err)
		qsort(rows.list, rows.count, sizeof(*rows.list), by_arrival);
	for (uint32_t i = 0; i < rows.count && !err; i++)
		err = fn(arg, &rows.list[i]);
	free(rows.list);
	return err;
}

int store_each_window_body(struct store *s, const char *incident,
			   int (*fn)(void *arg, const void *body, size_t bytes), void *arg)
{
	int err, code = SQLITE_DONE;
	sqlite3_stmt *st = store_statement(s, ST_EACH_BODY, &err);

	if (!st)
		return err;
	store_bind_text(st, 1, incident);
	while (!err && (code = sqlite3_step(st)) == SQLITE_ROW)
		err = fn(arg, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
	if (!err)
		err = store_errno(s, code, "bodies");
	store_done(st);
	return err;
}

json_t *store_findings(struct store *s, const char *incident)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_FINDINGS, &err);
	json_t *list = NULL;

	if (!st)
		return NULL;
	store_bind_text(st, 1, incident);
	if (sqlite3_step(st) == SQLITE_ROW)
		list = json_loads(store_column_text(st, 0), 0, NULL);
	store_done(st);
	return list;
}

/* ---- for the API ---- */

#define NAMESAKES_MAX 64

/* Jobs are asked for by key or by name. key: that of the only job with incidents that it may be, by which a
 * page comes from the index; false: there are several, or too many to look at. */
static bool only_job(struct store *s, const char *asked, char key[WIRE_TEXT_BYTES])
{
	char from[WIRE_TEXT_BYTES + 2], to[WIRE_TEXT_BYTES + 1];
	uint32_t found = 0, uid;

	text_copy(key, WIRE_TEXT_BYTES, asked);
	if (strlen(asked) >= WIRE_TEXT_BYTES || job_key_owner(asked, &uid))
		return true;
	text_copy(from, sizeof(from), asked);
	snprintf(to, sizeof(to), "%sA", asked); /* which follows '@' */
	for (uint32_t i = 0; i < NAMESAKES_MAX; i++) {
		char job[WIRE_TEXT_BYTES];
		int err;
		sqlite3_stmt *st = store_statement(s, ST_NEXT_JOB, &err);
		bool more;

		if (!st)
			return false;
		store_bind_text(st, 1, from);
		store_bind_text(st, 2, to);
		more = sqlite3_step(st) == SQLITE_ROW;
		if (more)
			text_copy(job, sizeof(job), store_column_text(st, 0));
		store_done(st);
		if (!more)
			return found <= 1;
		if (job_key_matches(job, asked) && !found++)
			text_copy(key, WIRE_TEXT_BYTES, job);
		/* The bare name is of a node that vouches for no user; the others have an '@'. */
		snprintf(from, sizeof(from), i ? "%s\x01" : "%s@", i ? job : asked);
	}
	return false;
}

/* The lists are one statement but for what they ask for: each has an index of its own. */
static enum statement list_of(const struct store_list *q, bool one)
{
	return !q->job ? (q->state ? ST_LIST_STATE : ST_LIST) :
	       one     ? (q->state ? ST_LIST_JOB_STATE : ST_LIST_JOB) :
			 (q->state ? ST_LIST_NAME_STATE : ST_LIST_NAME);
}

/* Where a page ended: 16 hexadecimal digits of the last one's time, then its id. */
int store_list_after(struct store_list *q, const char *cursor)
{
	char when[17];

	if (strlen(cursor) != 24 || strspn(cursor, "0123456789abcdef") != 24)
		return -EINVAL;
	text_copy(when, sizeof(when), cursor);
	text_copy(q->after_id, sizeof(q->after_id), cursor + 16);
	q->after_ns = strtoull(when, NULL, 16);
	return q->after_ns && q->after_ns <= INT64_MAX ? 0 : -EINVAL;
}

/* Incidents go out as they were written, by which nothing is parsed. */
int store_list(struct store *s, const struct store_list *q, struct buf *out)
{
	int err, code = SQLITE_DONE;
	char next[40] = "", last[40] = "", key[WIRE_TEXT_BYTES];
	bool one = q->job && only_job(s, q->job, key);
	sqlite3_stmt *st = store_statement(s, list_of(q, one), &err);
	uint32_t n = 0;

	if (!st)
		return err;
	if (q->job)
		store_bind_text(st, 1, one ? key : q->job);
	if (q->state)
		sqlite3_bind_int(st, 2, !strcmp(q->state, "open"));
	sqlite3_bind_int64(st, 3, q->after_ns ? (int64_t)q->after_ns : INT64_MAX);
	store_bind_text(st, 4, q->after_id);
	sqlite3_bind_int64(st, 5, (int64_t)q->limit + 1);
	buf_puts(out, "{\"incidents\":[");
	while ((code = sqlite3_step(st)) == SQLITE_ROW) {
		if (n == q->limit || (n && out->bytes > LIMIT_API_LIST_BYTES)) {
			text_copy(next, sizeof(next), last);
			break;
		}
		buf_puts(out, n++ ? "," : "");
		buf_append(out, sqlite3_column_text(st, 2), (size_t)sqlite3_column_bytes(st, 2));
		snprintf(last, sizeof(last), "%016llx%s", (unsigned long long)sqlite3_column_int64(st, 0),
			 store_column_text(st, 1));
	}
	err = store_errno(s, code, "list");
	store_done(st);
	buf_printf(out, *next ? "],\"next\":\"%s\"}\n" : "]%s}\n", next);
	return !err && out->failed ? -ENOMEM : err;
}

static json_t *windows_json(struct store *s, const char *incident)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_INCIDENT_WINDOWS, &err);
	json_t *list = json_array();

	if (!st)
		return list;
	store_bind_text(st, 1, incident);
	sqlite3_bind_int64(st, 2, LIMIT_API_WINDOWS);
	while (sqlite3_step(st) == SQLITE_ROW) {
		char id[33] = "";

		if (sqlite3_column_bytes(st, 0) == 16)
			text_hex(sqlite3_column_blob(st, 0), 16, id);
		json_array_append_new(
			list,
			json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "id", id, "rank",
				  sqlite3_column_int(st, 1), "node", store_column_text(st, 2), "reason",
				  incident_reason_name((unsigned)sqlite3_column_int(st, 3)),
				  "begin_unix_ns", (json_int_t)sqlite3_column_int64(st, 4),
				  "end_unix_ns", (json_int_t)sqlite3_column_int64(st, 5), "steps",
				  (json_int_t)sqlite3_column_int64(st, 6), "records",
				  (json_int_t)sqlite3_column_int64(st, 7), "bytes",
				  (json_int_t)sqlite3_column_int64(st, 8), "summary_only",
				  sqlite3_column_int(st, 9)));
	}
	store_done(st);
	return list;
}

static json_t *body_json(struct store *s, const char *id)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_INCIDENT, &err);
	json_t *j = NULL;

	if (!st)
		return NULL;
	store_bind_text(st, 1, id);
	if (sqlite3_step(st) == SQLITE_ROW)
		j = json_loads(store_column_text(st, 0), 0, NULL);
	store_done(st);
	return j;
}

static bool successor_of(struct store *s, const char *id, char out[INCIDENT_ID_BYTES])
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_SUCCESSOR, &err);
	bool known = false;

	if (!st)
		return false;
	store_bind_text(st, 1, id);
	known = sqlite3_step(st) == SQLITE_ROW;
	if (known)
		text_copy(out, INCIDENT_ID_BYTES, store_column_text(st, 0));
	store_done(st);
	return known;
}

int store_incident_id(struct store *s, const char *begin, char id[INCIDENT_ID_BYTES])
{
	char end[INCIDENT_ID_BYTES + 1];
	int err, code, found = 0;
	sqlite3_stmt *st;

	if (!*begin || strlen(begin) >= INCIDENT_ID_BYTES || begin[strspn(begin, "0123456789abcdef")])
		return -ENOENT;
	st = store_statement(s, ST_INCIDENT_ID, &err);
	if (!st)
		return err;
	snprintf(end, sizeof(end), "%sg", begin); /* behind every digit */
	store_bind_text(st, 1, begin);
	store_bind_text(st, 2, end);
	while ((code = sqlite3_step(st)) == SQLITE_ROW && !found++)
		text_copy(id, INCIDENT_ID_BYTES, store_column_text(st, 0));
	err = store_errno(s, code, "incident");
	store_done(st);
	return err ? err : found == 1 ? 0 : found ? -ENOTUNIQ : -ENOENT;
}

json_t *store_incident_json(struct store *s, const char *id)
{
	char successor[INCIDENT_ID_BYTES];
	json_t *j = body_json(s, id);

	if (j) {
		json_object_set_new(j, "windows", windows_json(s, id));
	} else if (successor_of(s, id, successor)) {
		j = body_json(s, successor);
		if (j) {
			json_object_set_new(j, "merged_from", json_string(id));
			json_object_set_new(j, "windows", windows_json(s, successor));
		}
	}
	return j;
}

static void feed_line(sqlite3_stmt *st, struct buf *out)
{
	const char *body = store_column_text(st, 1);

	buf_printf(out, "{\"updated_unix_ns\":%lld", (long long)sqlite3_column_int64(st, 0));
	if (sqlite3_column_type(st, 1) == SQLITE_NULL)
		buf_printf(out, ",\"id\":\"%s\",\"life\":\"merged\",\"merged_into\":\"%s\"}",
			   store_column_text(st, 3), store_column_text(st, 2));
	else /* what was written is one object */
		buf_printf(out, "%s%s", body[0] == '{' && body[1] != '}' ? "," : "",
			   body[0] == '{' ? body + 1 : "}");
	buf_puts(out, "\n");
}

int store_feed(struct store *s, uint64_t since_unix_ns, uint32_t limit, struct buf *out)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_FEED, &err);

	if (!st)
		return err;
	since_unix_ns += STORE_UPDATE_STEP_NS / 2;
	sqlite3_bind_int64(st, 1, (int64_t)(since_unix_ns < INT64_MAX ? since_unix_ns : INT64_MAX));
	sqlite3_bind_int64(st, 2, limit);
	while (out->bytes <= LIMIT_API_LIST_BYTES && sqlite3_step(st) == SQLITE_ROW)
		feed_line(st, out);
	store_done(st);
	return out->failed ? -ENOMEM : 0;
}

static bool is_known(struct store *s, const uint8_t id[16])
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_KNOWN, &err);
	bool known;

	if (!st)
		return false;
	sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
	known = sqlite3_step(st) == SQLITE_ROW;
	store_done(st);
	return known;
}

int store_window_body(struct store *s, const uint8_t id[16], struct buf *out)
{
	int err, code;
	sqlite3_stmt *st = store_statement(s, ST_BODY, &err);

	if (!st)
		return err;
	sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
	code = sqlite3_step(st);
	if (code == SQLITE_ROW)
		buf_append(out, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
	err = store_errno(s, code, "body");
	store_done(st);
	if (!err && code != SQLITE_ROW)
		err = is_known(s, id) ? -ESTALE : -ENOENT;
	return !err && out->failed ? -ENOMEM : err;
}
