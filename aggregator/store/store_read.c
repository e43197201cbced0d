/* SPDX-License-Identifier: Apache-2.0
 * Reads: by the committer when it starts, and by the API through its own readers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/store/store_private.h"
#include "base/job_key.h"
#include "base/text/json_text.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/text.h"
#include "model/finding.h"
#include "render/incident_text.h"

/* ---- for the committer's start ---- */

struct rows {
	struct incident_row *list;
	uint32_t count;
};

static int take_rows(struct store *s, enum statement which, uint64_t since_unix_ns, struct rows *to)
{
	struct sql_call c = SQL_ASK(&s->sql, which, "incidents", SQL_INTEGER(since_unix_ns),
				    SQL_INTEGER(LIMIT_INCIDENTS_LIVE - to->count));

	while (to->count < LIMIT_INCIDENTS_LIVE && sql_next(&c)) {
		struct incident_row *r = &to->list[to->count++];

		text_copy(r->id, sizeof(r->id), sql_get_text(&c, 0));
		text_copy(r->job, sizeof(r->job), sql_get_text(&c, 1));
		r->open = sql_get_integer(&c, 2);
		r->begin_unix_ns = sql_get_integer(&c, 3);
		r->end_unix_ns = sql_get_integer(&c, 4);
		r->arrival_unix_ns = sql_get_integer(&c, 5);
	}
	return sql_end(&c);
}

ORDER_BY(by_arrival, struct incident_row, ORDER_UP(arrival_unix_ns));

int store_each_incident(struct store *s, uint64_t since_unix_ns,
			int (*fn)(void *arg, const struct incident_row *row), void *arg)
{
	struct rows rows = {calloc(LIMIT_INCIDENTS_LIVE, sizeof(struct incident_row)), 0};
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
	struct sql_call c = SQL_ASK(&s->sql, ST_EACH_BODY, "bodies", SQL_TEXT(incident));
	int err = 0, ended;

	while (!err && sql_next(&c))
		err = fn(arg, sqlite3_column_blob(c.st, 0), (size_t)sqlite3_column_bytes(c.st, 0));
	ended = sql_end(&c);
	return err ? err : ended;
}

/* An incident's JSON from that statement; NULL: none. */
static json_t *json_of(struct store *s, enum statement which, const char *incident)
{
	struct sql_call c = SQL_ASK(&s->sql, which, "json", SQL_TEXT(incident));
	json_t *j;

	j = sql_next(&c) ? json_loads(sql_get_text(&c, 0), 0, NULL) : NULL;
	sql_end(&c);
	return j;
}

json_t *store_findings(struct store *s, const char *incident)
{
	return json_of(s, ST_FINDINGS, incident);
}

/* ---- for the API ---- */

#define NAMESAKES_MAX 64
/* How many incidents of a job are examined to find the one at a given time. */
#define BEFORE_MAX 256

/* Keys that a name can mean lie from `from` to before `to` (base/job_key.h): 'A' follows '@', and
 * both follow '#'. */
struct name_range {
	char from[WIRE_TEXT_BYTES + 2], to[WIRE_TEXT_BYTES + 1];
};

static struct name_range range_of(const char *asked)
{
	struct name_range r;
	int n = (int)strnlen(asked, WIRE_TEXT_BYTES - 1);

	if (n == (int)strlen(asked))
		n = (int)job_key_name_bytes(asked);
	snprintf(r.from, sizeof(r.from), "%.*s", n, asked);
	snprintf(r.to, sizeof(r.to), "%.*sA", n, asked);
	return r;
}

/* Advances to the next key after `job` that can match, and skips all longer names in one step. */
static void go_on(struct name_range *r, const char *job)
{
	static const char after_name[] = "#.@"; /* in ascending order; base/job_key.h */
	size_t n = strlen(r->to) - 1;
	const char *next = after_name;

	if (!job[n] || strchr(after_name, job[n])) {
		snprintf(r->from, sizeof(r->from), "%s\x01", job);
		return;
	}
	while (*next && *next < (unsigned char)job[n])
		next++;
	if (*next)
		snprintf(r->from, sizeof(r->from), "%.*s%c", (int)n, r->to, *next);
	else
		text_copy(r->from, sizeof(r->from), r->to);
}

/* Finds the only job that the key or name can mean, among jobs with incidents. key: that job's, so
 * that a page can use the index. False: several jobs, or too many to check. */
static bool only_job(struct store *s, const char *asked, struct name_range r,
		     char key[WIRE_TEXT_BYTES])
{
	uint32_t found = 0;

	text_copy(key, WIRE_TEXT_BYTES, asked);
	if (strlen(asked) >= WIRE_TEXT_BYTES)
		return true;
	for (uint32_t i = 0; i < NAMESAKES_MAX; i++) {
		struct sql_call c =
		    SQL_ASK(&s->sql, ST_NEXT_JOB, "next job", SQL_TEXT(r.from), SQL_TEXT(r.to));
		char job[WIRE_TEXT_BYTES];
		bool more;

		more = sql_next(&c);
		if (more)
			text_copy(job, sizeof(job), sql_get_text(&c, 0));
		if (sql_end(&c))
			return false;
		if (!more)
			return found <= 1;
		if (job_key_matches(job, asked) && !found++)
			text_copy(key, WIRE_TEXT_BYTES, job);
		go_on(&r, job);
	}
	return false;
}

static bool sees_all(const struct http_user *who)
{
	return !who || who->all;
}

/* Binds the owner whose rows are shown. A user without a number sees no rows. */
static void bind_owner(struct sql_call *c, const struct http_user *who)
{
	SQL_BIND(c, SQL_INTEGER(who->has_uid ? (uint64_t)who->uid : (uint64_t)-2));
}

/* The lists differ in the index that they use, so each has its own statement. A job has one owner,
 * so the lists of one job need no owner: the caller has checked that the user sees the job. */
static enum statement list_of(const struct store_list *q, bool one)
{
	if (!q->job && !sees_all(q->who))
		return q->state ? ST_LIST_OWNER_STATE : ST_LIST_OWNER;
	return !q->job ? (q->state ? ST_LIST_STATE : ST_LIST)
	       : one   ? (q->state ? ST_LIST_JOB_STATE : ST_LIST_JOB)
		       : (q->state ? ST_LIST_NAME_STATE : ST_LIST_NAME);
}

/* A page's end: 16 hexadecimal digits of the last incident's time, then its id. */
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

/* Sends incidents as they were written, without parsing them. */
int store_list(struct store *s, const struct store_list *q, struct buf *out)
{
	char next[40] = "", last[40] = "", key[WIRE_TEXT_BYTES];
	struct name_range range = range_of(q->job ? q->job : "");
	bool hidden = q->job && !sees_all(q->who) && !http_user_sees_job(q->who, q->job);
	bool one = q->job && !hidden && only_job(s, q->job, range, key);
	struct sql_call c = sql_call(&s->sql, list_of(q, one), "list");
	uint32_t n = 0;
	int err;

	if (q->job || sees_all(q->who))
		SQL_BIND(&c, SQL_TEXT(one ? key : q->job));
	else
		bind_owner(&c, q->who);
	SQL_BIND(&c, SQL_INTEGER(q->state && !strcmp(q->state, "open")),
		 SQL_INTEGER(q->after_ns ? q->after_ns : INT64_MAX), SQL_TEXT(q->after_id),
		 SQL_INTEGER(q->limit + 1ull));
	if (q->job && !one) {
		SQL_BIND(&c, SQL_TEXT(range.from), SQL_TEXT(range.to));
	}
	buf_puts(out, "{\"incidents\":[");
	while (!hidden && sql_next(&c)) {
		if (n == q->limit || (n && out->bytes > LIMIT_API_LIST_BYTES)) {
			text_copy(next, sizeof(next), last);
			break;
		}
		buf_puts(out, n++ ? "," : "");
		buf_append(out, sqlite3_column_text(c.st, 2),
			   (size_t)sqlite3_column_bytes(c.st, 2));
		snprintf(last, sizeof(last), "%016llx%s",
			 (unsigned long long)sql_get_integer(&c, 0), sql_get_text(&c, 1));
	}
	err = sql_end(&c);
	buf_printf(out, *next ? "],\"next\":\"%s\"}\n" : "]%s}\n", next);
	return !err && out->failed ? -ENOMEM : err;
}

static json_t *windows_json(struct store *s, const char *incident)
{
	struct sql_call c = SQL_ASK(&s->sql, ST_INCIDENT_WINDOWS, "windows", SQL_TEXT(incident),
				    SQL_INTEGER(LIMIT_API_WINDOWS));
	json_t *list = json_array();

	while (sql_next(&c)) {
		char id[33] = "";

		if (sqlite3_column_bytes(c.st, 0) == 16)
			text_hex(sqlite3_column_blob(c.st, 0), 16, id);
		json_array_append_new(
		    list,
		    json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:b}", "id", id,
			      "rank", sqlite3_column_int(c.st, 1), "node", sql_get_text(&c, 2),
			      "reason", window_reason_name((unsigned)sql_get_integer(&c, 3)),
			      "begin_unix_ns", json_exact((uint64_t)sql_get_integer(&c, 4)),
			      "end_unix_ns", json_exact((uint64_t)sql_get_integer(&c, 5)), "steps",
			      (json_int_t)sql_get_integer(&c, 6), "records",
			      (json_int_t)sql_get_integer(&c, 7), "bytes",
			      (json_int_t)sql_get_integer(&c, 8), "summary_only",
			      sqlite3_column_int(c.st, 9)));
	}
	sql_end(&c);
	return list;
}

static bool successor_of(struct store *s, const char *id, char out[INCIDENT_ID_BYTES])
{
	struct sql_call c = SQL_ASK(&s->sql, ST_SUCCESSOR, "successor", SQL_TEXT(id));
	bool known;

	known = sql_next(&c);
	if (known)
		text_copy(out, INCIDENT_ID_BYTES, sql_get_text(&c, 0));
	sql_end(&c);
	return known;
}

int store_incident_id(struct store *s, const struct http_user *who, const char *begin,
		      char id[INCIDENT_ID_BYTES])
{
	char end[INCIDENT_ID_BYTES + 1];
	struct sql_call c;
	int err, found = 0;

	if (!*begin || strlen(begin) >= INCIDENT_ID_BYTES ||
	    begin[strspn(begin, "0123456789abcdef")])
		return -ENOENT;
	snprintf(end, sizeof(end), "%sg", begin); /* after every digit */
	c = SQL_ASK(&s->sql, sees_all(who) ? ST_INCIDENT_ID : ST_INCIDENT_ID_OWNER, "incident",
		    SQL_TEXT(begin), SQL_TEXT(end));
	if (!sees_all(who))
		bind_owner(&c, who);
	while (sql_next(&c) && !found++)
		text_copy(id, INCIDENT_ID_BYTES, sql_get_text(&c, 0));
	err = sql_end(&c);
	return err ? err : found == 1 ? 0 : found ? -ENOTUNIQ : -ENOENT;
}

/* The job's incident that fits this time best; NULL: none; owned. */
static json_t *incident_at(struct store *s, const char *job, uint64_t begin_unix_ns,
			   uint64_t end_unix_ns)
{
	struct sql_call c = SQL_ASK(&s->sql, ST_INCIDENTS_BEFORE, "incidents before", SQL_TEXT(job),
				    SQL_INTEGER(end_unix_ns), SQL_INTEGER(BEFORE_MAX));
	json_t *best = NULL, *j;

	while (sql_next(&c)) {
		if (sql_get_integer(&c, 0) < begin_unix_ns)
			continue;
		j = json_loads(sql_get_text(&c, 1), 0, NULL);
		if (incident_text_holds(j, best, begin_unix_ns, end_unix_ns)) {
			json_decref(best);
			best = j;
		} else {
			json_decref(j);
		}
	}
	sql_end(&c);
	return best;
}

/* For an incident of requests, adds the incident of the step that made them late. That incident may
 * be written later, or merged into another one, so it is searched at each query. */
static void put_step_incident(struct store *s, json_t *in)
{
	const json_t *list = json_object_get(in, "findings"), *f, *worst = NULL;
	json_t *step;
	size_t i;

	if (strcmp(jsonget_text(in, "kind"), finding_kind_name(FINDING_REQUESTS)) != 0)
		return;
	json_array_foreach ((json_t *)list, i, f)
		if (jsonget_unsigned(f, "step_begin_unix_ns"))
			worst = f;
	step = worst ? incident_at(s, jsonget_text(in, "job"),
				   jsonget_unsigned(worst, "step_begin_unix_ns"),
				   jsonget_unsigned(worst, "step_end_unix_ns"))
		     : NULL;
	json_object_set_new(in, "step_incident",
			    step ? json_pack("{s:s, s:o}", "id", jsonget_text(step, "id"), "title",
					     json_text(incident_text_title(step)))
				 : json_null());
	json_decref(step);
}

json_t *store_incident_json(struct store *s, const char *id)
{
	char successor[INCIDENT_ID_BYTES];
	json_t *j = json_of(s, ST_INCIDENT, id);

	if (!j && successor_of(s, id, successor)) {
		j = json_of(s, ST_INCIDENT, successor);
		json_object_set_new(j, "merged_from", json_string(id));
		id = successor;
	}
	if (!j)
		return NULL;
	json_object_set_new(j, "windows", windows_json(s, id));
	put_step_incident(s, j);
	return j;
}

static void feed_line(const struct sql_call *c, struct buf *out)
{
	const char *body = sql_get_text(c, 1);

	buf_printf(out, "{\"updated_unix_ns\":\"%lld\"", (long long)sql_get_integer(c, 0));
	if (sqlite3_column_type(c->st, 1) == SQLITE_NULL)
		buf_printf(out, ",\"id\":\"%s\",\"life\":\"merged\",\"merged_into\":\"%s\"}",
			   sql_get_text(c, 3), sql_get_text(c, 2));
	else /* append to the stored object */
		buf_printf(out, "%s%s", body[0] == '{' && body[1] != '}' ? "," : "",
			   body[0] == '{' ? body + 1 : "}");
	buf_puts(out, "\n");
}

int store_feed(struct store *s, const struct http_user *who, uint64_t since_unix_ns, uint32_t limit,
	       struct buf *out)
{
	struct sql_call c = SQL_ASK(
	    &s->sql, sees_all(who) ? ST_FEED : ST_FEED_OWNER, "feed",
	    SQL_INTEGER(since_unix_ns < INT64_MAX ? since_unix_ns : INT64_MAX), SQL_INTEGER(limit));
	int err;

	if (!sees_all(who))
		bind_owner(&c, who);
	while (out->bytes <= LIMIT_API_LIST_BYTES && sql_next(&c))
		feed_line(&c, out);
	err = sql_end(&c);
	return !err && out->failed ? -ENOMEM : err;
}

/* Whether the window was ever stored, and `who` may know. */
static bool is_known(struct store *s, const struct http_user *who, const uint8_t id[16])
{
	struct sql_call c = SQL_ASK(&s->sql, ST_WINDOW_JOB, "known", SQL_BLOB(id, 16));
	bool known;

	known = sql_next(&c) && (sees_all(who) || http_user_sees_job(who, sql_get_text(&c, 0)));
	sql_end(&c);
	return known;
}

int store_window_body(struct store *s, const struct http_user *who, const uint8_t id[16],
		      struct buf *out)
{
	struct sql_call c;
	bool found;
	int err;

	if (!is_known(s, who, id))
		return -ENOENT;
	c = SQL_ASK(&s->sql, ST_BODY, "body", SQL_BLOB(id, 16));
	found = sql_next(&c);
	if (found)
		buf_append(out, sqlite3_column_blob(c.st, 0),
			   (size_t)sqlite3_column_bytes(c.st, 0));
	err = sql_end(&c);
	if (!err && !found)
		err = -ESTALE;
	return !err && out->failed ? -ENOMEM : err;
}
