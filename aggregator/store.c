/* SPDX-License-Identifier: Apache-2.0
 * The row of a window outlives its body: ids stay known for as long as incidents are kept, so that a
 * window that is sent again after its body has expired still counts once. */
#include "aggregator/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
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

#define APPLICATION_ID 0x5359534f /* "SYSO" */
#define EXPIRE_BATCH   512

enum statement {
	ST_BEGIN,
	ST_COMMIT,
	ST_ROLLBACK,
	ST_PUT_WINDOW,
	ST_PUT_BODY,
	ST_PUT_RANK,
	ST_SET_INCIDENT,
	ST_MOVE_WINDOWS,
	ST_DROP_INCIDENT,
	ST_PUT_MERGED,
	ST_MOVE_MERGED,
	ST_SUCCESSOR,
	ST_PUT_FINDINGS,
	ST_DROP_FINDINGS,
	ST_FINDINGS,
	ST_EXPIRE_MERGED,
	ST_EXPIRE_FINDINGS,
	ST_FEED,
	ST_PUT_INCIDENT,
	ST_EACH_INCIDENT,
	ST_EACH_BODY,
	ST_EXPIRE_BODIES,
	ST_EXPIRE_WINDOWS,
	ST_EXPIRE_INCIDENTS,
	ST_OLDEST_BODIES,
	ST_TOTALS,
	ST_TOTALS_INCIDENTS,
	ST_LIST,
	ST_INCIDENT,
	ST_INCIDENT_WINDOWS,
	ST_BODY,
	ST_KNOWN,
	ST_COUNT,
};

static const char *const sql[ST_COUNT] = {
	[ST_BEGIN] = "BEGIN IMMEDIATE",
	[ST_COMMIT] = "COMMIT",
	[ST_ROLLBACK] = "ROLLBACK",
	[ST_PUT_WINDOW] =
		"INSERT OR IGNORE INTO windows(id,received_ns,job,node,rank,reason,sequence,begin_ns,"
		"end_ns,steps,records,bytes,raw_bytes,summary_only) "
		"VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)",
	[ST_PUT_BODY] = "INSERT INTO bodies(seq,body) VALUES(?1,?2)",
	[ST_PUT_RANK] = "INSERT INTO ranks(job,rank,node,world_size,program,seen_ns) "
			"VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(job,rank,node) DO UPDATE SET "
			"world_size=?4,program=?5,seen_ns=?6",
	[ST_SET_INCIDENT] = "UPDATE windows SET incident=?2 WHERE id=?1",
	[ST_MOVE_WINDOWS] = "UPDATE windows SET incident=?1 WHERE incident=?2",
	[ST_DROP_INCIDENT] = "DELETE FROM incidents WHERE id=?1",
	[ST_PUT_MERGED] = "INSERT OR REPLACE INTO merged(id,successor,at_ns) VALUES(?1,?2,?3)",
	[ST_MOVE_MERGED] = "UPDATE merged SET successor=?1 WHERE successor=?2",
	[ST_SUCCESSOR] = "SELECT successor FROM merged WHERE id=?1",
	[ST_PUT_FINDINGS] = "INSERT OR REPLACE INTO findings(incident,body) VALUES(?1,?2)",
	[ST_DROP_FINDINGS] = "DELETE FROM findings WHERE incident=?1",
	[ST_FINDINGS] = "SELECT body FROM findings WHERE incident=?1",
	[ST_EXPIRE_MERGED] = "DELETE FROM merged WHERE at_ns<?1",
	[ST_EXPIRE_FINDINGS] =
		"DELETE FROM findings WHERE ?1 AND incident NOT IN (SELECT id FROM incidents)",
	[ST_FEED] = "SELECT updated_ns,body,NULL,id FROM incidents WHERE updated_ns>?1 UNION ALL "
		    "SELECT at_ns,NULL,successor,id FROM merged WHERE at_ns>?1 ORDER BY 1 LIMIT ?2",
	[ST_PUT_INCIDENT] =
		"INSERT INTO incidents(id,job,open,begin_ns,end_ns,arrival_ns,body,updated_ns) "
		"VALUES(?1,?2,?3,?4,?5,?6,?7,?8) ON CONFLICT(id) DO UPDATE SET "
		"open=?3,begin_ns=?4,end_ns=?5,arrival_ns=?6,body=?7,updated_ns=?8",
	/* open ones first: who is not restored is never closed */
	[ST_EACH_INCIDENT] = "SELECT * FROM (SELECT id,job,open,begin_ns,end_ns,arrival_ns FROM incidents "
			     "WHERE open=1 OR arrival_ns>=?1 ORDER BY open DESC,arrival_ns DESC LIMIT ?2) "
			     "ORDER BY arrival_ns DESC",
	[ST_EACH_BODY] = "SELECT b.body FROM windows w JOIN bodies b ON b.seq=w.seq "
			 "WHERE w.incident=?1 ORDER BY w.seq",
	[ST_EXPIRE_BODIES] =
		"DELETE FROM bodies WHERE seq IN (SELECT seq FROM bodies WHERE seq<=(SELECT seq FROM "
		"windows WHERE received_ns<?1 ORDER BY received_ns DESC LIMIT 1) ORDER BY seq LIMIT ?2)",
	[ST_EXPIRE_WINDOWS] =
		"DELETE FROM windows WHERE seq IN (SELECT w.seq FROM windows w WHERE "
		"w.received_ns<?1 AND NOT EXISTS(SELECT 1 FROM bodies b WHERE b.seq=w.seq) LIMIT ?2)",
	[ST_EXPIRE_INCIDENTS] = "DELETE FROM incidents WHERE open=0 AND arrival_ns<?1",
	[ST_OLDEST_BODIES] =
		"DELETE FROM bodies WHERE seq IN (SELECT seq FROM bodies ORDER BY seq LIMIT ?1)",
	[ST_TOTALS] = "SELECT (SELECT COUNT(*) FROM windows),(SELECT COUNT(*) FROM bodies)",
	[ST_TOTALS_INCIDENTS] = "SELECT COUNT(*),TOTAL(open) FROM incidents",
	[ST_LIST] = "SELECT body FROM incidents WHERE (?1 IS NULL OR job=?1) AND "
		    "(?2 IS NULL OR open=?2) ORDER BY begin_ns DESC,id LIMIT ?3",
	[ST_INCIDENT] = "SELECT body FROM incidents WHERE id=?1",
	[ST_INCIDENT_WINDOWS] =
		"SELECT id,rank,node,reason,begin_ns,end_ns,steps,records,bytes,summary_only "
		"FROM windows WHERE incident=?1 ORDER BY begin_ns,seq LIMIT ?2",
	[ST_BODY] = "SELECT b.body FROM windows w JOIN bodies b ON b.seq=w.seq WHERE w.id=?1",
	[ST_KNOWN] = "SELECT 1 FROM windows WHERE id=?1",
};

static const char schema[] =
	"CREATE TABLE windows(seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE,"
	" received_ns INTEGER NOT NULL, job TEXT NOT NULL, node TEXT NOT NULL, rank INTEGER NOT NULL,"
	" reason INTEGER NOT NULL, sequence INTEGER NOT NULL, begin_ns INTEGER NOT NULL,"
	" end_ns INTEGER NOT NULL, steps INTEGER NOT NULL, records INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, raw_bytes INTEGER NOT NULL, summary_only INTEGER NOT NULL,"
	" incident TEXT);"
	"CREATE INDEX windows_incident ON windows(incident) WHERE incident IS NOT NULL;"
	"CREATE INDEX windows_received ON windows(received_ns);"
	"CREATE TABLE bodies(seq INTEGER PRIMARY KEY, body BLOB NOT NULL);"
	"CREATE TABLE incidents(id TEXT PRIMARY KEY, job TEXT NOT NULL, open INTEGER NOT NULL,"
	" begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, arrival_ns INTEGER NOT NULL,"
	" body TEXT NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX incidents_begin ON incidents(begin_ns);"
	"CREATE TABLE ranks(job TEXT NOT NULL, rank INTEGER NOT NULL, node TEXT NOT NULL,"
	" world_size INTEGER NOT NULL, program TEXT NOT NULL, seen_ns INTEGER NOT NULL,"
	" PRIMARY KEY(job,rank,node)) WITHOUT ROWID;";

/* What version 2 has beyond version 1. */
static const char schema_2[] =
	"ALTER TABLE incidents ADD COLUMN updated_ns INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX incidents_updated ON incidents(updated_ns);"
	"CREATE TABLE findings(incident TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE merged(id TEXT PRIMARY KEY, successor TEXT NOT NULL, at_ns INTEGER NOT NULL)"
	" WITHOUT ROWID;"
	"CREATE INDEX merged_at ON merged(at_ns);"
	"CREATE INDEX merged_successor ON merged(successor);";

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[ST_COUNT];
	char dir[PATH_MAX - 32];
	int lock_fd;
	dev_t device; /* of the database: which file it is */
	ino_t inode;
	bool in_transaction;
};

static int to_errno(struct store *s, int code, const char *what)
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

static sqlite3_stmt *statement(struct store *s, enum statement which, int *err)
{
	int code = SQLITE_OK;

	if (!s->statements[which])
		code = sqlite3_prepare_v3(s->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT,
					  &s->statements[which], NULL);
	*err = to_errno(s, code, "prepare");
	return *err ? NULL : s->statements[which];
}

/* Runs a statement that returns no rows, and makes it ready for the next time. */
static int run(struct store *s, sqlite3_stmt *st, const char *what)
{
	int code = sqlite3_step(st), err = to_errno(s, code, what);

	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return err;
}

static int run_plain(struct store *s, enum statement which, const char *what)
{
	int err;
	sqlite3_stmt *st = statement(s, which, &err);

	return st ? run(s, st, what) : err;
}

static void done(sqlite3_stmt *st)
{
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
}

static int bind_text(sqlite3_stmt *st, int at, const char *text)
{
	return text ? sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC) : sqlite3_bind_null(st, at);
}

/* ---- opening ---- */

static int64_t pragma(struct store *s, const char *text)
{
	sqlite3_stmt *st = NULL;
	int64_t v = -1;

	if (sqlite3_prepare_v2(s->db, text, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return v;
}

static int exec(struct store *s, const char *text, const char *what)
{
	return to_errno(s, sqlite3_exec(s->db, text, NULL, NULL, NULL), what);
}

static int make_schema(struct store *s)
{
	char text[128];
	int64_t version = pragma(s, "PRAGMA user_version");
	int err;

	bool ours = pragma(s, "PRAGMA application_id") == APPLICATION_ID;
	bool fresh = !version && !pragma(s, "SELECT COUNT(*) FROM sqlite_master");

	if (ours && version == STORE_SCHEMA_VERSION)
		return 0;
	if (!fresh && !(ours && version == 1)) {
		log_error("store", "why=\"not a store of this version\" dir=%s version=%lld", s->dir,
			  (long long)version);
		return -EPROTO;
	}
	err = exec(s, "BEGIN IMMEDIATE", "begin");
	if (!err && fresh)
		err = exec(s, schema, "schema");
	if (!err)
		err = exec(s, schema_2, "schema");
	snprintf(text, sizeof(text), "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID,
		 STORE_SCHEMA_VERSION);
	if (!err)
		err = exec(s, text, "version");
	if (!err)
		err = exec(s, "COMMIT", "commit");
	if (err)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return err;
}

static int open_db(struct store *s, int flags)
{
	char path[PATH_MAX];
	int code;

	snprintf(path, sizeof(path), "%s/store.db", s->dir);
	code = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
	if (code != SQLITE_OK)
		return s->db ? to_errno(s, code, "open") : -ENOMEM;
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
		err = exec(s,
			   "PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL;"
			   "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
			   "PRAGMA journal_size_limit=67108864; PRAGMA cache_size=-16384;"
			   "PRAGMA trusted_schema=OFF",
			   "pragmas");
	if (!err)
		err = make_schema(s);
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

static int put_rank(struct store *s, const struct digest *d, uint64_t received_unix_ns)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_PUT_RANK, &err);

	if (!st)
		return err;
	bind_text(st, 1, d->rank.job);
	sqlite3_bind_int(st, 2, d->rank.rank);
	bind_text(st, 3, d->rank.node);
	sqlite3_bind_int(st, 4, d->rank.world_size);
	bind_text(st, 5, d->rank.program);
	sqlite3_bind_int64(st, 6, (int64_t)received_unix_ns);
	return run(s, st, "rank");
}

static int put_body(struct store *s, const void *body, size_t bytes)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_PUT_BODY, &err);

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
	sqlite3_stmt *st = statement(s, ST_PUT_WINDOW, &err);

	if (!st)
		return err;
	sqlite3_bind_blob(st, 1, d->id, sizeof(d->id), SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, (int64_t)received_unix_ns);
	bind_text(st, 3, d->rank.job);
	bind_text(st, 4, d->rank.node);
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
	if (!err)
		err = put_rank(s, d, received_unix_ns);
	return err ? err : 1;
}

int store_set_window_incident(struct store *s, const uint8_t id[16], const char *incident)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_SET_INCIDENT, &err);

	if (!st)
		return err;
	sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
	bind_text(st, 2, incident);
	return run(s, st, "window incident");
}

/* Statements with up to three values. */
static int run_with(struct store *s, enum statement which, const char *a, const char *b, uint64_t n)
{
	int err;
	sqlite3_stmt *st = statement(s, which, &err);

	if (!st)
		return err;
	bind_text(st, 1, a);
	if (sqlite3_bind_parameter_count(st) > 1)
		bind_text(st, 2, b);
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
		err = run_with(s, ST_DROP_FINDINGS, from, NULL, 0);
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
	sqlite3_stmt *st = statement(s, ST_PUT_INCIDENT, &err);

	if (!st)
		return err;
	bind_text(st, 1, row->id);
	bind_text(st, 2, row->job);
	sqlite3_bind_int(st, 3, row->open);
	sqlite3_bind_int64(st, 4, (int64_t)row->begin_unix_ns);
	sqlite3_bind_int64(st, 5, (int64_t)row->end_unix_ns);
	sqlite3_bind_int64(st, 6, (int64_t)row->arrival_unix_ns);
	bind_text(st, 7, json);
	sqlite3_bind_int64(st, 8, (int64_t)row->updated_unix_ns);
	return run(s, st, "incident");
}

/* ---- reading back ---- */

static const char *column_text(sqlite3_stmt *st, int at)
{
	const char *p = (const char *)sqlite3_column_text(st, at);

	return p ? p : "";
}

int store_each_incident(struct store *s, uint64_t since_unix_ns,
			int (*fn)(void *arg, const struct incident_row *row), void *arg)
{
	int err, code;
	uint32_t n = 0;
	sqlite3_stmt *st = statement(s, ST_EACH_INCIDENT, &err);
	struct incident_row *rows;

	if (!st)
		return err;
	rows = calloc(LIMIT_INCIDENTS_LIVE, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	sqlite3_bind_int64(st, 1, (int64_t)since_unix_ns);
	sqlite3_bind_int64(st, 2, LIMIT_INCIDENTS_LIVE);
	while ((code = sqlite3_step(st)) == SQLITE_ROW && n < LIMIT_INCIDENTS_LIVE) {
		struct incident_row *r = &rows[n++];

		text_copy(r->id, sizeof(r->id), column_text(st, 0));
		text_copy(r->job, sizeof(r->job), column_text(st, 1));
		r->open = sqlite3_column_int(st, 2);
		r->begin_unix_ns = (uint64_t)sqlite3_column_int64(st, 3);
		r->end_unix_ns = (uint64_t)sqlite3_column_int64(st, 4);
		r->arrival_unix_ns = (uint64_t)sqlite3_column_int64(st, 5);
	}
	err = code == SQLITE_ROW ? 0 : to_errno(s, code, "incidents");
	done(st);
	while (n-- > 0 && !err)
		err = fn(arg, &rows[n]);
	free(rows);
	return err;
}

int store_each_window_body(struct store *s, const char *incident,
			   int (*fn)(void *arg, const void *body, size_t bytes), void *arg)
{
	int err, code = SQLITE_DONE;
	sqlite3_stmt *st = statement(s, ST_EACH_BODY, &err);

	if (!st)
		return err;
	bind_text(st, 1, incident);
	while (!err && (code = sqlite3_step(st)) == SQLITE_ROW)
		err = fn(arg, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
	if (!err)
		err = to_errno(s, code, "bodies");
	done(st);
	return err;
}

json_t *store_findings(struct store *s, const char *incident)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_FINDINGS, &err);
	json_t *list = NULL;

	if (!st)
		return NULL;
	bind_text(st, 1, incident);
	if (sqlite3_step(st) == SQLITE_ROW)
		list = json_loads(column_text(st, 0), 0, NULL);
	done(st);
	return list;
}

/* ---- retention ---- */

static int expire(struct store *s, enum statement which, uint64_t before)
{
	int err;
	sqlite3_stmt *st = statement(s, which, &err);

	if (!st)
		return err;
	sqlite3_bind_int64(st, 1, (int64_t)before);
	if (sqlite3_bind_parameter_count(st) > 1)
		sqlite3_bind_int(st, 2, EXPIRE_BATCH);
	err = run(s, st, "expire");
	return err ? err : sqlite3_changes(s->db);
}

static uint64_t used_bytes(struct store *s)
{
	int64_t pages = pragma(s, "PRAGMA page_count"), unused = pragma(s, "PRAGMA freelist_count"),
		size = pragma(s, "PRAGMA page_size");

	return pages > unused && size > 0 ? (uint64_t)(pages - unused) * (uint64_t)size : 0;
}

int store_expire(struct store *s, uint64_t windows_before, uint64_t incidents_before,
		 uint64_t max_bytes)
{
	int err = store_begin(s), n = 0, gone = 0;

	if (err)
		return err;
	err = n = expire(s, ST_EXPIRE_BODIES, windows_before);
	if (err >= 0)
		err = expire(s, ST_EXPIRE_WINDOWS, incidents_before);
	if (err >= 0)
		err = expire(s, ST_EXPIRE_INCIDENTS, incidents_before);
	if (err > 0)
		err = expire(s, ST_EXPIRE_FINDINGS, 1);
	if (err >= 0)
		err = expire(s, ST_EXPIRE_MERGED, incidents_before);
	for (int i = 0; i < 64 && err >= 0 && max_bytes && used_bytes(s) > max_bytes; i++) {
		err = gone = expire(s, ST_OLDEST_BODIES, 8);
		n += gone > 0 ? gone : 0;
		if (!gone)
			break;
	}
	if (err >= 0)
		err = store_commit(s);
	if (err < 0) {
		store_rollback(s);
		return err;
	}
	if (n)
		exec(s, "PRAGMA incremental_vacuum(4096)", "vacuum");
	return n;
}

int store_totals_incidents(struct store *s, struct store_totals *out)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_TOTALS_INCIDENTS, &err);

	if (!st)
		return err;
	if (sqlite3_step(st) == SQLITE_ROW) {
		out->incidents = (uint64_t)sqlite3_column_int64(st, 0);
		out->open_incidents = (uint64_t)sqlite3_column_int64(st, 1);
	}
	done(st);
	out->bytes = used_bytes(s);
	return 0;
}

int store_totals(struct store *s, struct store_totals *out)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_TOTALS, &err);

	*out = (struct store_totals){ 0 };
	if (!st)
		return err;
	if (sqlite3_step(st) == SQLITE_ROW) {
		out->windows = (uint64_t)sqlite3_column_int64(st, 0);
		out->bodies = (uint64_t)sqlite3_column_int64(st, 1);
	}
	done(st);
	return store_totals_incidents(s, out);
}

uint64_t store_free_bytes(const struct store *s)
{
	struct statvfs v;

	return statvfs(s->dir, &v) ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}

/* ---- for the API ---- */

json_t *store_incidents_json(struct store *s, const char *job, const char *state, uint32_t limit)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_LIST, &err);
	json_t *list;

	if (!st)
		return NULL;
	list = json_array();
	bind_text(st, 1, job);
	if (state)
		sqlite3_bind_int(st, 2, !strcmp(state, "open"));
	sqlite3_bind_int64(st, 3, limit);
	while (sqlite3_step(st) == SQLITE_ROW) {
		json_t *j = json_loads(column_text(st, 0), 0, NULL);

		if (j)
			json_array_append_new(list, j);
	}
	done(st);
	return json_pack("{s:o}", "incidents", list);
}

static json_t *windows_json(struct store *s, const char *incident)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_INCIDENT_WINDOWS, &err);
	json_t *list = json_array();

	if (!st)
		return list;
	bind_text(st, 1, incident);
	sqlite3_bind_int64(st, 2, LIMIT_API_WINDOWS);
	while (sqlite3_step(st) == SQLITE_ROW) {
		char id[33] = "";

		if (sqlite3_column_bytes(st, 0) == 16)
			text_hex(sqlite3_column_blob(st, 0), 16, id);
		json_array_append_new(
			list,
			json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}", "id", id, "rank",
				  sqlite3_column_int(st, 1), "node", column_text(st, 2), "reason",
				  incident_reason_name((unsigned)sqlite3_column_int(st, 3)),
				  "begin_unix_ns", (json_int_t)sqlite3_column_int64(st, 4),
				  "end_unix_ns", (json_int_t)sqlite3_column_int64(st, 5), "steps",
				  (json_int_t)sqlite3_column_int64(st, 6), "records",
				  (json_int_t)sqlite3_column_int64(st, 7), "bytes",
				  (json_int_t)sqlite3_column_int64(st, 8), "summary_only",
				  sqlite3_column_int(st, 9)));
	}
	done(st);
	return list;
}

static json_t *body_json(struct store *s, const char *id)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_INCIDENT, &err);
	json_t *j = NULL;

	if (!st)
		return NULL;
	bind_text(st, 1, id);
	if (sqlite3_step(st) == SQLITE_ROW)
		j = json_loads(column_text(st, 0), 0, NULL);
	done(st);
	return j;
}

static bool successor_of(struct store *s, const char *id, char out[INCIDENT_ID_BYTES])
{
	int err;
	sqlite3_stmt *st = statement(s, ST_SUCCESSOR, &err);
	bool known = false;

	if (!st)
		return false;
	bind_text(st, 1, id);
	known = sqlite3_step(st) == SQLITE_ROW;
	if (known)
		text_copy(out, INCIDENT_ID_BYTES, column_text(st, 0));
	done(st);
	return known;
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

static json_t *feed_line(sqlite3_stmt *st)
{
	json_t *j = sqlite3_column_type(st, 1) == SQLITE_NULL ?
			    json_pack("{s:s, s:s, s:s}", "id", column_text(st, 3), "life", "merged",
				      "merged_into", column_text(st, 2)) :
			    json_loads(column_text(st, 1), 0, NULL);

	if (j)
		json_object_set_new(j, "updated_unix_ns", json_integer(sqlite3_column_int64(st, 0)));
	return j;
}

int store_feed(struct store *s, uint64_t since_unix_ns, uint32_t limit, struct buf *out)
{
	int err;
	sqlite3_stmt *st = statement(s, ST_FEED, &err);

	if (!st)
		return err;
	since_unix_ns += STORE_UPDATE_STEP_NS / 2;
	sqlite3_bind_int64(st, 1, (int64_t)(since_unix_ns < INT64_MAX ? since_unix_ns : INT64_MAX));
	sqlite3_bind_int64(st, 2, limit);
	while (sqlite3_step(st) == SQLITE_ROW) {
		json_t *j = feed_line(st);
		char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;

		if (text) {
			buf_puts(out, text);
			buf_puts(out, "\n");
		}
		free(text);
		json_decref(j);
	}
	done(st);
	return out->failed ? -ENOMEM : 0;
}

static bool is_known(struct store *s, const uint8_t id[16])
{
	int err;
	sqlite3_stmt *st = statement(s, ST_KNOWN, &err);
	bool known;

	if (!st)
		return false;
	sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
	known = sqlite3_step(st) == SQLITE_ROW;
	done(st);
	return known;
}

int store_window_body(struct store *s, const uint8_t id[16], struct buf *out)
{
	int err, code;
	sqlite3_stmt *st = statement(s, ST_BODY, &err);

	if (!st)
		return err;
	sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
	code = sqlite3_step(st);
	if (code == SQLITE_ROW)
		buf_append(out, sqlite3_column_blob(st, 0), (size_t)sqlite3_column_bytes(st, 0));
	err = to_errno(s, code, "body");
	done(st);
	if (!err && code != SQLITE_ROW)
		err = is_known(s, id) ? -ESTALE : -ENOENT;
	return !err && out->failed ? -ENOMEM : err;
}
