/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/baselines.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "aggregator/temporal.h"
#include "aggregator/text.h"
#include "base/limits.h"
#include "base/log.h"
#include "wire/codec.h"

#define APPLICATION_ID 0x53595342 /* "SYSB" */

enum statement { ST_PUT, ST_TRIM, ST_RUNS, ST_ONE, ST_EXPIRE, ST_BOUND, ST_LIST, ST_NAMED, ST_COUNT };

static const char *const sql[ST_COUNT] = {
    [ST_PUT] = "INSERT INTO baselines(job,role,run,updated_ns,steps,latency_ns,self_ns,mad_ns,"
	       "body) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9) ON CONFLICT(job,role,run) DO "
	       "UPDATE SET updated_ns=?4,steps=?5,latency_ns=?6,self_ns=?7,mad_ns=?8,body=?9",
    [ST_TRIM] = "DELETE FROM baselines WHERE job=?1 AND role=?2 AND run NOT IN (SELECT run FROM "
		"baselines WHERE job=?1 AND role=?2 ORDER BY updated_ns DESC LIMIT ?3)",
    [ST_RUNS] = "SELECT run,updated_ns,steps,latency_ns,self_ns,mad_ns,body FROM baselines "
		"WHERE job=?1 AND role=?2 AND run<>?3 AND steps>=?4 "
		"ORDER BY updated_ns DESC LIMIT ?5",
    [ST_ONE] = "SELECT updated_ns,body FROM baselines WHERE job=?1 AND role=?2 AND run=?3",
    [ST_EXPIRE] = "DELETE FROM baselines WHERE updated_ns<?1",
    [ST_BOUND] =
	"DELETE FROM baselines WHERE updated_ns<(SELECT updated_ns FROM baselines ORDER BY "
	"updated_ns DESC LIMIT 1 OFFSET ?1)",
    [ST_LIST] = "SELECT role,run,updated_ns,steps,latency_ns,self_ns,mad_ns FROM baselines "
		"WHERE job=?1 ORDER BY role,updated_ns DESC LIMIT 1000",
    /* 'A' follows '@': base/job_key.h */
    [ST_NAMED] = "SELECT DISTINCT job FROM baselines WHERE job=?1 OR (job>?1||'@' AND job<?1||'A' AND "
		 "rtrim(job,'0123456789')=?1||'@') LIMIT 2",
};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS baselines(job TEXT NOT NULL, role TEXT NOT NULL, run INTEGER NOT "
    "NULL,"
    " updated_ns INTEGER NOT NULL, steps INTEGER NOT NULL, latency_ns REAL NOT NULL,"
    " self_ns REAL NOT NULL, mad_ns REAL NOT NULL, body BLOB NOT NULL,"
    " PRIMARY KEY(job,role,run));"
    "CREATE INDEX IF NOT EXISTS baselines_updated ON baselines(updated_ns)";

struct baselines {
	sqlite3 *db;
	sqlite3_stmt *statements[ST_COUNT];
	pthread_mutex_t lock;
};

static int to_errno(struct baselines *b, int code, const char *what)
{
	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	default:
		log_warn("baselines", "what=%s code=%d message=\"%s\"", what, code,
			 sqlite3_errmsg(b->db));
		return -EIO;
	}
}

static sqlite3_stmt *statement(struct baselines *b, enum statement which)
{
	if (!b->statements[which])
		sqlite3_prepare_v3(b->db, sql[which], -1, SQLITE_PREPARE_PERSISTENT,
				   &b->statements[which], NULL);
	return b->statements[which];
}

static int run(struct baselines *b, sqlite3_stmt *st, const char *what)
{
	int err = to_errno(b, sqlite3_step(st), what);

	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	return err;
}

/* ---- opening ---- */

static int open_file(struct baselines *b, const char *path)
{
	char id[64];
	int code = sqlite3_open_v2(
	    path, &b->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

	if (code != SQLITE_OK)
		return b->db ? to_errno(b, code, "open") : -ENOMEM;
	sqlite3_busy_timeout(b->db, 1000);
	snprintf(id, sizeof(id), "PRAGMA application_id=%d", APPLICATION_ID);
	code = sqlite3_exec(b->db,
			    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
			    "PRAGMA journal_size_limit=8388608; PRAGMA trusted_schema=OFF",
			    NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_exec(b->db, schema, NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_exec(b->db, id, NULL, NULL, NULL);
	return to_errno(b, code, "schema");
}

static void close_file(struct baselines *b)
{
	for (int i = 0; i < ST_COUNT; i++) {
		sqlite3_finalize(b->statements[i]);
		b->statements[i] = NULL;
	}
	sqlite3_close(b->db);
	b->db = NULL;
}

int baselines_open(struct baselines **out, const char *dir)
{
	struct baselines *b = calloc(1, sizeof(*b));
	char path[PATH_MAX], aside[PATH_MAX];
	int err;

	if (!b)
		return -ENOMEM;
	pthread_mutex_init(&b->lock, NULL);
	mkdir(dir, 0750);
	if (snprintf(path, sizeof(path), "%s/baselines.db", dir) >= (int)sizeof(path) - 16) {
		baselines_close(b);
		return -ENAMETOOLONG;
	}
	err = open_file(b, path);
	if (err == -EIO) {
		snprintf(aside, sizeof(aside), "%.*s.damaged", PATH_MAX - 16, path);
		close_file(b);
		log_warn("baselines", "path=%s why=\"not readable: set aside\"", path);
		if (!rename(path, aside))
			err = open_file(b, path);
	}
	if (err) {
		baselines_close(b);
		return err;
	}
	*out = b;
	return 0;
}

void baselines_close(struct baselines *b)
{
	if (!b)
		return;
	close_file(b);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- use ---- */

int baselines_put(struct baselines *b, const char *job, const char *role,
		  const struct baselines_run *r, const void *body, size_t bytes)
{
	sqlite3_stmt *st;
	int err = -EIO;

	pthread_mutex_lock(&b->lock);
	st = statement(b, ST_PUT);
	if (st) {
		sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, role, -1, SQLITE_STATIC);
		sqlite3_bind_int64(st, 3, (int64_t)r->run);
		sqlite3_bind_int64(st, 4, (int64_t)r->updated_unix_ns);
		sqlite3_bind_int64(st, 5, (int64_t)r->steps);
		sqlite3_bind_double(st, 6, r->latency_ns);
		sqlite3_bind_double(st, 7, r->self_ns);
		sqlite3_bind_double(st, 8, r->mad_ns);
		sqlite3_bind_blob64(st, 9, body, bytes, SQLITE_STATIC);
		err = run(b, st, "put");
	}
	st = err ? NULL : statement(b, ST_TRIM);
	if (st) {
		sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, role, -1, SQLITE_STATIC);
		sqlite3_bind_int(st, 3, LIMIT_BASELINE_RUNS);
		err = run(b, st, "trim");
	}
	pthread_mutex_unlock(&b->lock);
	return err;
}

/* The file may not be ours any more: what is no figure is no reference. */
static bool is_sound(const struct baselines_run *r)
{
	return isfinite(r->latency_ns) && isfinite(r->self_ns) && isfinite(r->mad_ns) &&
	       r->latency_ns >= 0 && r->self_ns >= 0 && r->mad_ns >= 0;
}

int baselines_runs(struct baselines *b, const char *job, const char *role, uint64_t except,
		   struct baselines_run *out, uint32_t max, struct sketch *newest)
{
	sqlite3_stmt *st;
	int n = 0, code = SQLITE_DONE, err = 0;

	if (newest)
		memset(newest, 0, sizeof(*newest));
	pthread_mutex_lock(&b->lock);
	st = statement(b, ST_RUNS);
	if (!st) {
		pthread_mutex_unlock(&b->lock);
		return -EIO;
	}
	sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
	sqlite3_bind_text(st, 2, role, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 3, (int64_t)except);
	sqlite3_bind_int64(st, 4, TEMPORAL_STEPS_MIN);
	sqlite3_bind_int64(st, 5, max);
	while ((uint32_t)n < max && (code = sqlite3_step(st)) == SQLITE_ROW) {
		struct baselines_run *r = &out[n];

		r->run = (uint64_t)sqlite3_column_int64(st, 0);
		r->updated_unix_ns = (uint64_t)sqlite3_column_int64(st, 1);
		r->steps = (uint64_t)sqlite3_column_int64(st, 2);
		r->latency_ns = sqlite3_column_double(st, 3);
		r->self_ns = sqlite3_column_double(st, 4);
		r->mad_ns = sqlite3_column_double(st, 5);
		if (!is_sound(r))
			continue;
		if (++n == 1 && newest)
			err = wire_sketch_decode(sqlite3_column_blob(st, 6),
						 (size_t)sqlite3_column_bytes(st, 6), newest);
	}
	if (!err && code != SQLITE_ROW)
		err = to_errno(b, code, "runs");
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
	pthread_mutex_unlock(&b->lock);
	return err ? err : n;
}

int baselines_get(struct baselines *b, const char *job, const char *role, uint64_t run_id,
		  uint64_t *updated_unix_ns, struct sketch *out)
{
	sqlite3_stmt *st;
	int code, err = -EIO;

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&b->lock);
	st = statement(b, ST_ONE);
	if (st) {
		sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
		sqlite3_bind_text(st, 2, role, -1, SQLITE_STATIC);
		sqlite3_bind_int64(st, 3, (int64_t)run_id);
		code = sqlite3_step(st);
		err = code == SQLITE_DONE ? -ENOENT : to_errno(b, code, "get");
		if (code == SQLITE_ROW) {
			*updated_unix_ns = (uint64_t)sqlite3_column_int64(st, 0);
			err = wire_sketch_decode(sqlite3_column_blob(st, 1),
						 (size_t)sqlite3_column_bytes(st, 1), out);
		}
		sqlite3_reset(st);
		sqlite3_clear_bindings(st);
	}
	pthread_mutex_unlock(&b->lock);
	return err;
}

int baselines_expire(struct baselines *b, uint64_t before_unix_ns)
{
	sqlite3_stmt *st;
	int err = -EIO;

	pthread_mutex_lock(&b->lock);
	st = statement(b, ST_EXPIRE);
	if (st) {
		sqlite3_bind_int64(st, 1, (int64_t)before_unix_ns);
		err = run(b, st, "expire");
	}
	st = err ? NULL : statement(b, ST_BOUND);
	if (st) {
		sqlite3_bind_int64(st, 1, LIMIT_BASELINES);
		err = run(b, st, "bound");
	}
	pthread_mutex_unlock(&b->lock);
	return err;
}

uint32_t baselines_resolve(struct baselines *b, const char *asked, char key[WIRE_TEXT_BYTES])
{
	sqlite3_stmt *st;
	uint32_t n = 0;

	pthread_mutex_lock(&b->lock);
	st = statement(b, ST_NAMED);
	if (st)
		sqlite3_bind_text(st, 1, asked, -1, SQLITE_STATIC);
	while (st && sqlite3_step(st) == SQLITE_ROW)
		if (!n++)
			text_copy(key, WIRE_TEXT_BYTES, (const char *)sqlite3_column_text(st, 0));
	if (st) {
		sqlite3_reset(st);
		sqlite3_clear_bindings(st);
	}
	pthread_mutex_unlock(&b->lock);
	return n;
}

json_t *baselines_json(struct baselines *b, const char *job)
{
	json_t *list = json_array();
	sqlite3_stmt *st;

	pthread_mutex_lock(&b->lock);
	st = statement(b, ST_LIST);
	if (st)
		sqlite3_bind_text(st, 1, job, -1, SQLITE_STATIC);
	while (st && sqlite3_step(st) == SQLITE_ROW) {
		char id[17];

		snprintf(id, sizeof(id), "%016llx",
			 (unsigned long long)sqlite3_column_int64(st, 1));
		json_array_append_new(
		    list, json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f}", "role",
				    (const char *)sqlite3_column_text(st, 0), "run", id,
				    "updated_unix_ns", (json_int_t)sqlite3_column_int64(st, 2),
				    "steps", (json_int_t)sqlite3_column_int64(st, 3), "latency_ms",
				    text_ms(sqlite3_column_double(st, 4)), "self_ms",
				    text_ms(sqlite3_column_double(st, 5)), "spread_ms",
				    text_ms(sqlite3_column_double(st, 6))));
	}
	if (st) {
		sqlite3_reset(st);
		sqlite3_clear_bindings(st);
	}
	pthread_mutex_unlock(&b->lock);
	return list;
}
