/* SPDX-License-Identifier: Apache-2.0
 * The row of a window outlives its body: ids stay known for as long as incidents are kept, so that a
 * window that is sent again after its body has expired still counts once. */
#include "aggregator/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "aggregator/text.h"
#include "base/clock.h"
#include "base/dirs.h"
#include "base/limits.h"
#include "base/log.h"

/* Rows that one transaction removes for their age: more than one transaction brings. */
#define EXPIRE_BATCH 512
/* Rows that go at once where the file is too large, and how often in one transaction. */
#define TRIM_BATCH 16
#define TRIM_TURNS 256
/* A row of `windows` with its indexes, where names are of usual length. */
#define WINDOW_ROW_BYTES 400u
/* Of the file's bound, what windows may take whose evidence is gone. */
#define WINDOW_ROWS_PART 4u
/* Free pages that stay in the file for what comes next, and how many go at a time. */
#define SPARE_PAGES  1024
#define VACUUM_PAGES 4096

int store_errno(struct store *s, int code, const char *what)
{
	int os = sqlite3_system_errno(s->db);

	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_IOERR:
		if (os == ENOSPC || os == EDQUOT || os == EFBIG)
			return -ENOSPC;
		break;
	default:
		break;
	}
	log_error("store", "what=%s code=%d errno=%d message=\"%s\"", what, code, os,
		  sqlite3_errmsg(s->db));
	return -EIO;
}

sqlite3_stmt *store_statement(struct store *s, enum statement which, int *err)
{
	int code = SQLITE_OK;

	if (!s->statements[which])
		code = sqlite3_prepare_v3(s->db, store_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
					  &s->statements[which], NULL);
	*err = store_errno(s, code, "prepare");
	return *err ? NULL : s->statements[which];
}

/* Runs a statement that returns no rows, and makes it ready for the next time. */
static int run(struct store *s, sqlite3_stmt *st, const char *what)
{
	int code = sqlite3_step(st), err = store_errno(s, code, what);

	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return err;
}

static int run_plain(struct store *s, enum statement which, const char *what)
{
	int err;
	sqlite3_stmt *st = store_statement(s, which, &err);

	return st ? run(s, st, what) : err;
}

void store_done(sqlite3_stmt *st)
{
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
}

int store_bind_text(sqlite3_stmt *st, int at, const char *text)
{
	return text ? sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC) : sqlite3_bind_null(st, at);
}

const char *store_column_text(sqlite3_stmt *st, int at)
{
	const char *p = (const char *)sqlite3_column_text(st, at);

	return p ? p : "";
}

/* ---- opening ---- */

static int open_db(struct store *s, int flags)
{
	char path[PATH_MAX];
	int code;

	snprintf(path, sizeof(path), "%s/store.db", s->dir);
	code = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
	if (code != SQLITE_OK)
		return s->db ? store_errno(s, code, "open") : -ENOMEM;
	sqlite3_busy_timeout(s->db, 5000);
	return 0;
}

static int store_new(struct store **out, const char *dir)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->lock_fd = -1;
	if (strlen(dir) >= sizeof(s->dir)) {
		free(s);
		return -ENAMETOOLONG;
	}
	text_copy(s->dir, sizeof(s->dir), dir);
	*out = s;
	return 0;
}

/* Two aggregators on one store would each keep incidents of their own. */
static int take_lock(struct store *s)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/lock", s->dir);
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
	if (s->lock_fd < 0)
		return -errno;
	return flock(s->lock_fd, LOCK_EX | LOCK_NB) ? -EBUSY : 0;
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

/* What is written to a database that was moved or removed under us is found by nobody after a restart:
 * it must not be acknowledged. */
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
		err = take_lock(s);
	if (!err)
		err = open_db(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	if (!err)
		err = store_exec(s,
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
	for (int i = 0; i < ST_COUNT; i++)
		sqlite3_finalize(s->statements[i]);
	sqlite3_close(s->db);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s);
}

/* ---- writing ---- */

int store_begin(struct store *s)
{
	int err;

	if (!in_place(s)) {
		log_error("store", "%s/store.db is not there any more: nothing is stored", s->dir);
		return -EIO;
	}
	err = run_plain(s, ST_BEGIN, "begin");
	s->in_transaction = !err;
	return err;
}

int store_commit(struct store *s)
{
	int err = run_plain(s, ST_COMMIT, "commit");

	if (!err)
		s->in_transaction = false;
	return err;
}

void store_rollback(struct store *s)
{
	/* SQLite has rolled back by itself after some errors */
	if (s->in_transaction && !sqlite3_get_autocommit(s->db))
		run_plain(s, ST_ROLLBACK, "rollback");
	s->in_transaction = false;
}

static int put_body(struct store *s, const void *body, size_t bytes)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_PUT_BODY, &err);

	if (!st)
		return err;
	sqlite3_bind_int64(st, 1, sqlite3_last_insert_rowid(s->db));
	sqlite3_bind_blob64(st, 2, body, bytes, SQLITE_STATIC);
	return run(s, st, "body");
}

int store_put_window(struct store *s, const struct digest *d, uint64_t received_unix_ns,
		     const void *body, size_t bytes)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_PUT_WINDOW, &err);

	if (!st)
		return err;
	sqlite3_bind_blob(st, 1, d->id, sizeof(d->id), SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, (int64_t)received_unix_ns);
	store_bind_text(st, 3, d->rank.job);
	store_bind_text(st, 4, d->rank.node);
	sqlite3_bind_int(st, 5, d->rank.rank);
	sqlite3_bind_int64(st, 6, d->reason);
	sqlite3_bind_int64(st, 7, d->sequence);
	sqlite3_bind_int64(st, 8, (int64_t)d->begin_unix_ns);
	sqlite3_bind_int64(st, 9, (int64_t)d->end_unix_ns);
	sqlite3_bind_int64(st, 10, d->steps);
	sqlite3_bind_int64(st, 11, d->records);
	sqlite3_bind_int64(st, 12, (int64_t)bytes);
	sqlite3_bind_int64(st, 13, (int64_t)d->raw_bytes);
	sqlite3_bind_int(st, 14, d->summary_only);
	err = run(s, st, "window");
	if (err || !sqlite3_changes(s->db))
		return err;
	err = put_body(s, body, bytes);
	return err ? err : 1;
}

int store_set_window_incident(struct store *s, const uint8_t id[16], const char *incident)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_SET_INCIDENT, &err);

	if (!st)
		return err;
	sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
	store_bind_text(st, 2, incident);
	return run(s, st, "window incident");
}

/* Statements with up to three values. */
static int run_with(struct store *s, enum statement which, const char *a, const char *b, uint64_t n)
{
	int err;
	sqlite3_stmt *st = store_statement(s, which, &err);

	if (!st)
		return err;
	store_bind_text(st, 1, a);
	if (sqlite3_bind_parameter_count(st) > 1)
		store_bind_text(st, 2, b);
	if (sqlite3_bind_parameter_count(st) > 2)
		sqlite3_bind_int64(st, 3, (int64_t)n);
	return run(s, st, "merge");
}

uint64_t store_update_ns(uint64_t last_ns)
{
	uint64_t now = clock_realtime_ns() / STORE_UPDATE_STEP_NS * STORE_UPDATE_STEP_NS;

	return now > last_ns ? now : last_ns + STORE_UPDATE_STEP_NS;
}

int store_merge_incident(struct store *s, const char *to, const char *from)
{
	int err = run_with(s, ST_MOVE_WINDOWS, to, from, 0);

	if (!err)
		err = run_with(s, ST_DROP_INCIDENT, from, NULL, 0);
	if (!err)
		err = run_with(s, ST_MOVE_MERGED, to, from, 0);
	if (!err)
		err = run_with(s, ST_PUT_MERGED, from, to, store_update_ns(0));
	return err;
}

int store_put_findings(struct store *s, const char *incident, const char *json)
{
	return json ? run_with(s, ST_PUT_FINDINGS, incident, json, 0) :
		      run_with(s, ST_DROP_FINDINGS, incident, NULL, 0);
}

int store_put_incident(struct store *s, const struct incident_row *row, const char *json)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_PUT_INCIDENT, &err);

	if (!st)
		return err;
	store_bind_text(st, 1, row->id);
	store_bind_text(st, 2, row->job);
	sqlite3_bind_int(st, 3, row->open);
	sqlite3_bind_int64(st, 4, (int64_t)row->begin_unix_ns);
	sqlite3_bind_int64(st, 5, (int64_t)row->end_unix_ns);
	sqlite3_bind_int64(st, 6, (int64_t)row->arrival_unix_ns);
	store_bind_text(st, 7, json);
	sqlite3_bind_int64(st, 8, (int64_t)row->updated_unix_ns);
	return run(s, st, "incident");
}

/* ---- retention ---- */

struct pages {
	int64_t count, unused, bytes;
};

static struct pages pages_of(struct store *s)
{
	struct pages p = { 0 };
	int err;
	sqlite3_stmt *st = store_statement(s, ST_PAGES, &err);

	if (!st)
		return p;
	if (sqlite3_step(st) == SQLITE_ROW)
		p = (struct pages){ sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1),
				    sqlite3_column_int64(st, 2) };
	store_done(st);
	return p;
}

static uint64_t used_bytes(struct store *s)
{
	struct pages p = pages_of(s);

	return p.count > p.unused ? (uint64_t)(p.count - p.unused) * (uint64_t)p.bytes : 0;
}

/* before is 0: by number only. The rows removed, or -errno. */
static int expire(struct store *s, enum statement which, uint64_t before, int count)
{
	bool by_age = which < ST_OLDEST_BODIES;
	int err;
	sqlite3_stmt *st = store_statement(s, which, &err);

	if (!st)
		return err;
	if (by_age)
		sqlite3_bind_int64(st, 1, (int64_t)before);
	sqlite3_bind_int(st, by_age ? 2 : 1, count);
	err = run(s, st, "expire");
	return err ? err : sqlite3_changes(s->db);
}

/* What the file can do without most. Rows of windows whose evidence is gone recognise a late copy: they
 * have a part of the file, and where nothing else is left they go too, before incidents do. */
static enum statement least_needed(const struct store_totals *t, uint64_t max_bytes)
{
	uint64_t bare = t->windows > t->bodies ? t->windows - t->bodies : 0;

	if (bare * WINDOW_ROW_BYTES > max_bytes / WINDOW_ROWS_PART)
		return ST_OLDEST_WINDOWS;
	return t->bodies ? ST_OLDEST_BODIES : bare ? ST_OLDEST_WINDOWS : ST_OLDEST_INCIDENTS;
}

static int trim(struct store *s, uint64_t max_bytes)
{
	struct store_totals t;
	int n = 0, gone = 0;

	for (int i = 0; i < TRIM_TURNS; i++) {
		enum statement which;
		int err = store_totals(s, &t);

		if (err || t.bytes <= max_bytes)
			return err ? err : n;
		which = least_needed(&t, max_bytes);
		gone = expire(s, which, 0, TRIM_BATCH);
		if (gone <= 0)
			return gone < 0 ? gone : n;
		n += which == ST_OLDEST_BODIES ? gone : 0;
	}
	return n;
}

int store_keep(struct store *s, const struct store_bounds *b)
{
	int err = expire(s, ST_EXPIRE_BODIES, b->windows_before, EXPIRE_BATCH), n = err;

	if (err >= 0)
		err = expire(s, ST_EXPIRE_WINDOWS, b->incidents_before, EXPIRE_BATCH);
	if (err >= 0)
		err = expire(s, ST_EXPIRE_INCIDENTS, b->incidents_before, EXPIRE_BATCH);
	if (err >= 0)
		err = expire(s, ST_EXPIRE_MERGED, b->incidents_before, EXPIRE_BATCH);
	if (err >= 0 && b->max_bytes)
		err = trim(s, b->max_bytes);
	else if (err > 0)
		err = 0;
	return err < 0 ? err : n + err;
}

int store_expire(struct store *s, const struct store_bounds *b)
{
	struct pages p;
	char text[64];
	int n = store_begin(s), err;

	if (n)
		return n;
	n = store_keep(s, b);
	err = n < 0 ? n : store_commit(s);
	if (err) {
		store_rollback(s);
		return err;
	}
	p = pages_of(s);
	if (p.unused > SPARE_PAGES) {
		int64_t some = p.unused - SPARE_PAGES;

		snprintf(text, sizeof(text), "PRAGMA incremental_vacuum(%d)",
			 some < VACUUM_PAGES ? (int)some : VACUUM_PAGES);
		store_exec(s, text, "vacuum");
	}
	return n;
}

int store_totals(struct store *s, struct store_totals *out)
{
	int err;
	sqlite3_stmt *st = store_statement(s, ST_TOTALS, &err);

	*out = (struct store_totals){ 0 };
	if (!st)
		return err;
	if (sqlite3_step(st) == SQLITE_ROW) {
		out->windows = (uint64_t)sqlite3_column_int64(st, 0);
		out->bodies = (uint64_t)sqlite3_column_int64(st, 1);
		out->incidents = (uint64_t)sqlite3_column_int64(st, 2);
		out->open_incidents = (uint64_t)sqlite3_column_int64(st, 3);
	}
	store_done(st);
	out->bytes = used_bytes(s);
	return 0;
}

uint64_t store_free_bytes(const struct store *s)
{
	struct statvfs v;

	return statvfs(s->dir, &v) ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}
