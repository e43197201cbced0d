/* SPDX-License-Identifier: Apache-2.0
 * A window's row outlives its body. Ids stay known as long as incidents are kept, so that a window
 * that is sent again after its body expired still counts once. */
#include "aggregator/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon/dirs.h"
#include "base/daemon/log.h"
#include "base/job_key.h"
#include "base/text/text.h"

/* How long to wait for another process's write, for example a backup. Readers and the writer do not
 * wait for each other. */
#define BUSY_MS 5000
/* Expired rows removed per transaction: more than a transaction adds. */
#define EXPIRE_BATCH 512
/* For a file that is too large, and for a job beyond its limits. TRIM_TURNS: the most removals per
 * transaction; one at a time, because after each another job may be the largest. TRIM_BATCH: how
 * many rows without a body, or incidents, one removal takes. */
#define TRIM_TURNS 4096
#define TRIM_BATCH 16
/* Jobs looked at in turn, once a second: 100,000 jobs in half an hour. */
#define JOBS_IN_TURN 64
/* Size of a row of `windows` with its indexes, for names of usual length. */
#define WINDOW_ROW_BYTES 400u
/* Share of the size limit for rows of windows without a body. */
#define WINDOW_ROWS_PART 4u
/* Free pages that stay in the file, and how many are released at a time. */
#define SPARE_PAGES  1024
#define VACUUM_PAGES 4096

/* ---- opening ---- */

/* job_matches(key, asked), in SQL */
static void job_matches(sqlite3_context *c, int count, sqlite3_value **v)
{
	const char *key = (const char *)sqlite3_value_text(v[0]);
	const char *asked = (const char *)sqlite3_value_text(v[1]);

	sqlite3_result_int(c, key && asked && job_key_matches(key, asked));
}

static int64_t owner_of(const char *job)
{
	uint32_t uid;

	return job_key_owner(job, &uid) ? (int64_t)uid : -1;
}

/* job_owner(key), in SQL */
static void job_owner(sqlite3_context *c, int count, sqlite3_value **v)
{
	const char *key = (const char *)sqlite3_value_text(v[0]);

	sqlite3_result_int64(c, owner_of(key ? key : ""));
}

static int open_db(struct store *s, int flags)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/store.db", s->dir);
	err = sql_open(&s->sql, path, flags, BUSY_MS);
	if (!err &&
	    sqlite3_create_function(s->sql.db, "job_matches", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
				    NULL, job_matches, NULL, NULL))
		err = -ENOMEM;
	if (!err &&
	    sqlite3_create_function(s->sql.db, "job_owner", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
				    NULL, job_owner, NULL, NULL))
		err = -ENOMEM;
	return err;
}

static int store_new(struct store **out, const char *dir)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->lock_fd = -1;
	s->sql.name = "store";
	s->sql.text = store_sql;
	if (strlen(dir) >= sizeof(s->dir)) {
		free(s);
		return -ENAMETOOLONG;
	}
	text_copy(s->dir, sizeof(s->dir), dir);
	*out = s;
	return 0;
}

/* Two aggregators on one store would each keep their own incidents. */
int store_lock(const char *dir, int *fd)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/lock", dir);
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (*fd < 0)
		return -errno;
	return flock(*fd, LOCK_EX | LOCK_NB) ? -EBUSY : 0;
}

static int place_of(const struct store *s, struct stat *st)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/store.db", s->dir);
	return stat(path, st) ? -errno : 0;
}

static int note_place(struct store *s)
{
	struct stat st;
	int err = place_of(s, &st);

	if (!err) {
		s->device = st.st_dev;
		s->inode = st.st_ino;
	}
	return err;
}

/* Whether the database file is still at its path. Nobody finds what is written to a moved or
 * removed file, so it must not be acknowledged. */
static bool in_place(const struct store *s)
{
	struct stat st;

	return !place_of(s, &st) && st.st_dev == s->device && st.st_ino == s->inode;
}

int store_open(struct store **out, const char *dir)
{
	struct store *s = NULL;
	int err = store_new(&s, dir);

	if (err)
		return err;
	err = dirs_make(dir, 0750);
	if (!err)
		err = store_lock(s->dir, &s->lock_fd);
	if (!err)
		err = open_db(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	/* a foreign file stays unchanged, even its journal mode, so check before the pragmas */
	if (!err && sql_number(&s->sql, "SELECT COUNT(*) FROM sqlite_master"))
		err = store_check_version(s, STORE_SCHEMA_VERSION);
	if (!err)
		err = sql_exec(&s->sql,
			       "PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL;"
			       "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
			       "PRAGMA journal_size_limit=16777216; PRAGMA cache_size=-16384;"
			       "PRAGMA trusted_schema=OFF",
			       "pragmas");
	if (!err)
		err = store_make_schema(s);
	if (!err)
		err = note_place(s);
	if (err) {
		store_close(s);
		return err;
	}
	*out = s;
	return 0;
}

int store_open_reader(struct store **out, const char *dir)
{
	struct store *s = NULL;
	int err = store_new(&s, dir);

	if (err)
		return err;
	err = open_db(s, SQLITE_OPEN_READONLY);
	if (err) {
		store_close(s);
		return err;
	}
	*out = s;
	return 0;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_rollback(s);
	sql_close(&s->sql);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s);
}

/* ---- writing ---- */

int store_begin(struct store *s)
{
	int err;

	if (!in_place(s)) {
		log_error("store",
			  "%s/store.db was moved or removed; nothing is stored until a restart",
			  s->dir);
		return -EIO;
	}
	err = SQL_DO(&s->sql, ST_BEGIN, "begin");
	s->in_transaction = !err;
	s->touched_count = 0;
	return err;
}

int store_commit(struct store *s)
{
	int err = SQL_DO(&s->sql, ST_COMMIT, "commit");

	if (!err)
		s->in_transaction = false;
	return err;
}

void store_rollback(struct store *s)
{
	/* after some errors SQLite has already rolled back */
	if (s->in_transaction && !sqlite3_get_autocommit(s->sql.db))
		SQL_DO(&s->sql, ST_ROLLBACK, "rollback");
	s->in_transaction = false;
}

static int put_body(struct store *s, const void *body, size_t bytes)
{
	return SQL_DO(&s->sql, ST_PUT_BODY, "body",
		      SQL_INTEGER(sqlite3_last_insert_rowid(s->sql.db)), SQL_BLOB(body, bytes));
}

/* Notes that the transaction added to the job. */
static void touch(struct store *s, const char *job)
{
	for (uint32_t i = 0; i < s->touched_count; i++)
		if (!strcmp(s->touched[i], job))
			return;
	if (s->touched_count < STORE_TOUCHED_MAX)
		text_copy(s->touched[s->touched_count++], WIRE_TEXT_BYTES, job);
}

int store_put_window(struct store *s, const struct digest *d, uint64_t received_unix_ns,
		     const void *body, size_t bytes)
{
	int err = SQL_DO(&s->sql, ST_PUT_WINDOW, "window", SQL_BLOB(d->id, sizeof(d->id)),
			 SQL_INTEGER(received_unix_ns), SQL_TEXT(d->rank.job),
			 SQL_TEXT(d->rank.node), SQL_INTEGER(d->rank.rank), SQL_INTEGER(d->reason),
			 SQL_INTEGER(d->sequence), SQL_INTEGER(d->begin_unix_ns),
			 SQL_INTEGER(d->end_unix_ns), SQL_INTEGER(d->steps),
			 SQL_INTEGER(d->records), SQL_INTEGER(bytes), SQL_INTEGER(d->raw_bytes),
			 SQL_INTEGER(d->summary_only), SQL_INTEGER(owner_of(d->rank.job)));

	if (err || !sqlite3_changes(s->sql.db))
		return err;
	touch(s, d->rank.job);
	err = put_body(s, body, bytes);
	return err ? err : 1;
}

int store_set_window_incident(struct store *s, const uint8_t id[16], const char *incident)
{
	return SQL_DO(&s->sql, ST_SET_INCIDENT, "window incident", SQL_BLOB(id, 16),
		      SQL_TEXT(incident));
}

/* Runs a statement whose values are texts. */
static int run_texts(struct store *s, enum statement which, const char *a, const char *b)
{
	struct sql_call c = SQL_ASK(&s->sql, which, "merge", SQL_TEXT(a));

	if (b)
		SQL_BIND(&c, SQL_TEXT(b));
	return sql_run(&c);
}

uint64_t store_update_ns(uint64_t last_ns)
{
	uint64_t now = clock_realtime_ns();

	return now > last_ns ? now : last_ns + 1;
}

static int put_merged(struct store *s, const char *from, const char *to)
{
	return SQL_DO(&s->sql, ST_PUT_MERGED, "merge", SQL_TEXT(from), SQL_TEXT(to),
		      SQL_INTEGER(store_update_ns(0)));
}

int store_merge_incident(struct store *s, const char *to, const char *from)
{
	int err = run_texts(s, ST_MOVE_WINDOWS, to, from);

	if (!err)
		err = put_merged(s, from, to); /* before `from` is deleted, because its row names
					        * the owner */
	if (!err)
		err = run_texts(s, ST_DROP_INCIDENT, from, NULL);
	return err ? err : run_texts(s, ST_MOVE_MERGED, to, from);
}

int store_put_findings(struct store *s, const char *incident, const char *json)
{
	return run_texts(s, json ? ST_PUT_FINDINGS : ST_DROP_FINDINGS, incident, json);
}

int store_put_incident(struct store *s, const struct incident_row *row, const char *json)
{
	touch(s, row->job);
	return SQL_DO(&s->sql, ST_PUT_INCIDENT, "incident", SQL_TEXT(row->id), SQL_TEXT(row->job),
		      SQL_INTEGER(row->open), SQL_INTEGER(row->begin_unix_ns),
		      SQL_INTEGER(row->end_unix_ns), SQL_INTEGER(row->arrival_unix_ns),
		      SQL_TEXT(json), SQL_INTEGER(row->updated_unix_ns),
		      SQL_INTEGER(owner_of(row->job)), SQL_INTEGER(strlen(json)));
}

/* ---- retention ---- */

struct pages {
	uint64_t count, unused, bytes;
};

static struct pages pages_of(struct store *s)
{
	struct sql_call c = sql_call(&s->sql, ST_PAGES, "pages");
	struct pages p = {0};

	if (sql_next(&c))
		p = (struct pages){sql_get_integer(&c, 0), sql_get_integer(&c, 1),
				   sql_get_integer(&c, 2)};
	sql_end(&c);
	return p;
}

/* before 0: limited only by count. The number of removed rows, or -errno. */
static int expire(struct store *s, enum statement which, uint64_t before, int count)
{
	struct sql_call c = sql_call(&s->sql, which, "expire");
	int err;

	if (which < ST_OLDEST_WINDOWS)
		SQL_BIND(&c, SQL_INTEGER(before));
	SQL_BIND(&c, SQL_INTEGER(count));
	err = sql_run(&c);
	return err ? err : sqlite3_changes(s->sql.db);
}

/* A job's oldest body and oldest closed incident; none: time UINT64_MAX. */
struct oldest {
	uint64_t seq, received_ns, arrival_ns;
	char incident[INCIDENT_ID_BYTES];
};

static int find_oldest(struct store *s, const char *job, struct oldest *out)
{
	struct sql_call c = SQL_ASK(&s->sql, ST_JOB_OLDEST_BODY, "oldest", SQL_TEXT(job));
	int err;

	*out = (struct oldest){.received_ns = UINT64_MAX, .arrival_ns = UINT64_MAX};
	if (sql_next(&c)) {
		out->seq = sql_get_integer(&c, 0);
		out->received_ns = sql_get_integer(&c, 1);
	}
	err = sql_end(&c);
	if (err)
		return err;
	c = SQL_ASK(&s->sql, ST_JOB_OLDEST_INCIDENT, "oldest", SQL_TEXT(job));
	if (sql_next(&c)) {
		text_copy(out->incident, sizeof(out->incident), sql_get_text(&c, 0));
		out->arrival_ns = sql_get_integer(&c, 1);
	}
	return sql_end(&c);
}

static int drop_body(struct store *s, uint64_t seq)
{
	return SQL_DO(&s->sql, ST_DROP_BODY, "expire", SQL_INTEGER(seq));
}

struct takes {
	uint64_t bytes, closed;
};

static int takes_of(struct store *s, const char *job, struct takes *out)
{
	struct sql_call c = SQL_ASK(&s->sql, ST_JOB_TAKES, "quota", SQL_TEXT(job));

	*out = (struct takes){0};
	if (sql_next(&c))
		*out = (struct takes){sql_get_integer(&c, 0), sql_get_integer(&c, 1)};
	return sql_end(&c);
}

static bool older(uint64_t then_ns, uint64_t age_ns, uint64_t now_ns)
{
	return then_ns < now_ns && now_ns - then_ns > age_ns;
}

/* Removes one body or incident by which the job exceeds its limits. Bodies go first, because the
 * incidents still have the verdict. 1: removed, 0: nothing to do, -errno. */
static int drop_one(struct store *s, const char *job, const struct store_bounds *b,
		    struct store_removed *out)
{
	const struct retention_limits *l = retention_of(b->retention, job);
	struct oldest o;
	struct takes t;
	int err = takes_of(s, job, &t);
	bool large, body, many;

	if (!err)
		err = find_oldest(s, job, &o);
	if (err)
		return err;
	large = l->bytes && t.bytes > l->bytes;
	many = l->incidents && t.closed > l->incidents;
	body = o.received_ns != UINT64_MAX;
	if (body && (large || older(o.received_ns, l->window_age_ns, b->now_unix_ns))) {
		err = drop_body(s, o.seq);
		out->bodies += !err;
		out->quota_bodies += !err && large;
	} else if (*o.incident &&
		   (large || many || older(o.arrival_ns, l->incident_age_ns, b->now_unix_ns))) {
		err = run_texts(s, ST_DROP_INCIDENT, o.incident, NULL);
		out->quota_incidents += !err && (large || many);
	} else {
		return 0;
	}
	return err ? err : 1;
}

/* Applies its limits to one job. 0 or -errno. */
static int keep_job(struct store *s, const char *job, const struct store_bounds *b,
		    struct store_removed *out)
{
	int dropped = 1;

	for (int i = 0; i < TRIM_TURNS && dropped > 0; i++)
		dropped = drop_one(s, job, b, out);
	return dropped < 0 ? dropped : 0;
}

/* Sets s->turn to the next job; after the last job, to "". 0 or -errno. */
static int next_job(struct store *s)
{
	struct sql_call c = SQL_ASK(&s->sql, ST_JOB_AFTER, "turn", SQL_TEXT(s->turn));

	if (sql_next(&c))
		text_copy(s->turn, sizeof(s->turn), sql_get_text(&c, 0));
	else
		*s->turn = '\0';
	return sql_end(&c);
}

static int keep_touched(struct store *s, const struct store_bounds *b, struct store_removed *out)
{
	int err = 0;

	for (uint32_t i = 0; i < s->touched_count && !err; i++)
		err = keep_job(s, s->touched[i], b, out);
	s->touched_count = 0;
	return err;
}

static int keep_in_turn(struct store *s, const struct store_bounds *b, struct store_removed *out)
{
	int err = 0;

	for (int i = 0; i < JOBS_IN_TURN && !err; i++) {
		err = next_job(s);
		if (err || !*s->turn)
			break;
		err = keep_job(s, s->turn, b, out);
	}
	return err;
}

/* Finds the owner who stores most, and removes the oldest body or closed incident of this owner's
 * largest job. 1: removed, 0: the job has nothing that may go, -errno. */
static int drop_of_largest(struct store *s, struct store_removed *out)
{
	struct sql_call c = sql_call(&s->sql, ST_LARGEST_JOB_OF_OWNER, "trim");
	char job[WIRE_TEXT_BYTES] = "";
	struct oldest o;
	int err;

	if (sql_next(&c))
		text_copy(job, sizeof(job), sql_get_text(&c, 0));
	err = sql_end(&c);
	if (!err)
		err = find_oldest(s, job, &o);
	if (err)
		return err;
	if (o.received_ns != UINT64_MAX) {
		err = drop_body(s, o.seq);
		out->bodies += !err;
	} else if (*o.incident) {
		err = run_texts(s, ST_DROP_INCIDENT, o.incident, NULL);
	} else {
		return 0;
	}
	return err ? err : 1;
}

/* Rows without a body only serve to recognise late copies of windows. So they have only a share of
 * the file, and incidents of jobs other than the largest go after them. */
static int trim(struct store *s, uint64_t max_bytes, struct store_removed *out)
{
	for (int i = 0; i < TRIM_TURNS; i++) {
		struct store_totals t;
		int gone = store_totals(s, &t);
		uint64_t bare = t.windows > t.bodies ? t.windows - t.bodies : 0;

		if (gone || t.bytes <= max_bytes)
			return gone;
		if (bare * WINDOW_ROW_BYTES > max_bytes / WINDOW_ROWS_PART)
			gone = expire(s, ST_OLDEST_WINDOWS, 0, TRIM_BATCH);
		if (!gone)
			gone = drop_of_largest(s, out);
		if (!gone)
			gone = expire(s, ST_OLDEST_WINDOWS, 0, TRIM_BATCH);
		if (!gone)
			gone = expire(s, ST_OLDEST_INCIDENTS, 0, TRIM_BATCH);
		if (gone <= 0)
			return gone;
	}
	return 0;
}

int store_keep(struct store *s, const struct store_bounds *b, struct store_removed *out)
{
	uint64_t longest = retention_longest_ns(b->retention);
	uint64_t before = b->now_unix_ns > longest ? b->now_unix_ns - longest : 0;
	int err = expire(s, ST_EXPIRE_WINDOWS, before, EXPIRE_BATCH);

	if (err >= 0)
		err = expire(s, ST_EXPIRE_MERGED, before, EXPIRE_BATCH);
	if (err >= 0)
		err = keep_touched(s, b, out);
	if (!err && b->max_bytes)
		err = trim(s, b->max_bytes, out);
	return err;
}

int store_expire(struct store *s, const struct store_bounds *b, struct store_removed *out)
{
	struct pages p;
	char text[64];
	int err = store_begin(s);

	if (err)
		return err;
	err = keep_in_turn(s, b, out);
	if (!err)
		err = store_keep(s, b, out);
	if (!err)
		err = store_commit(s);
	if (err) {
		store_rollback(s);
		return err;
	}
	p = pages_of(s);
	if (p.unused > SPARE_PAGES) {
		uint64_t some = p.unused - SPARE_PAGES;

		snprintf(text, sizeof(text), "PRAGMA incremental_vacuum(%d)",
			 some < VACUUM_PAGES ? (int)some : VACUUM_PAGES);
		sql_exec(&s->sql, text, "vacuum");
	}
	return 0;
}

int store_totals(struct store *s, struct store_totals *out)
{
	struct sql_call c = sql_call(&s->sql, ST_TOTALS, "totals");
	struct pages p;
	int err;

	*out = (struct store_totals){0};
	if (sql_next(&c)) {
		out->windows = sql_get_integer(&c, 0);
		out->bodies = sql_get_integer(&c, 1);
		out->incidents = sql_get_integer(&c, 2);
		out->open_incidents = sql_get_integer(&c, 3);
	}
	err = sql_end(&c);
	p = pages_of(s);
	out->bytes = p.count > p.unused ? (p.count - p.unused) * p.bytes : 0;
	return err;
}

int store_largest_job(struct store *s, char job[WIRE_TEXT_BYTES], uint64_t *bytes)
{
	struct sql_call c = sql_call(&s->sql, ST_LARGEST_JOB, "largest job");

	*job = '\0';
	*bytes = 0;
	if (sql_next(&c)) {
		text_copy(job, WIRE_TEXT_BYTES, sql_get_text(&c, 0));
		*bytes = sql_get_integer(&c, 1);
	}
	return sql_end(&c);
}

uint64_t store_free_bytes(const struct store *s)
{
	struct statvfs v;

	return statvfs(s->dir, &v) ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}
