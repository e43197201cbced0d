/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/baselines.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "aggregator/fleet/sql.h"
#include "analysis/slow/temporal.h"
#include "base/daemon/log.h"
#include "base/text/json_text.h"
#include "base/limits.h"
#include "base/text/text.h"
#include "wire/codec.h"

#define APPLICATION_ID 0x53595342 /* "SYSB" */
#define BUSY_MS	       1000

enum statement {
	ST_PUT,
	ST_TRIM,
	ST_RUNS,
	ST_ONE,
	ST_EXPIRE,
	ST_BOUND,
	ST_LIST,
	ST_NAMED,
	ST_COUNT
};

static const char *const statements[ST_COUNT] = {
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
    [ST_NAMED] =
	"SELECT DISTINCT job FROM baselines WHERE job=?1 OR (job>?1||'@' AND job<?1||'A' AND "
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
	struct sql sql;
	pthread_mutex_t lock;
};

/* ---- opening ---- */

static int open_file(struct baselines *b, const char *path)
{
	char id[64];
	int err = sql_open(&b->sql, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, BUSY_MS);

	snprintf(id, sizeof(id), "PRAGMA application_id=%d", APPLICATION_ID);
	if (!err)
		err = sql_exec(&b->sql,
			       "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
			       "PRAGMA journal_size_limit=8388608; PRAGMA trusted_schema=OFF",
			       "pragmas");
	if (!err)
		err = sql_exec(&b->sql, schema, "schema");
	return err ? err : sql_exec(&b->sql, id, "version");
}

int baselines_open(struct baselines **out, const char *dir)
{
	struct baselines *b = calloc(1, sizeof(*b));
	char path[PATH_MAX], aside[PATH_MAX];
	int err;

	if (!b)
		return -ENOMEM;
	b->sql.name = "baselines";
	b->sql.text = statements;
	pthread_mutex_init(&b->lock, NULL);
	mkdir(dir, 0750);
	if (snprintf(path, sizeof(path), "%s/baselines.db", dir) >= (int)sizeof(path) - 16) {
		baselines_close(b);
		return -ENAMETOOLONG;
	}
	err = open_file(b, path);
	if (err == -EIO || err == -EBADMSG) {
		snprintf(aside, sizeof(aside), "%.*s.damaged", PATH_MAX - 16, path);
		sql_close(&b->sql);
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
	sql_close(&b->sql);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- use ---- */

static struct sql_call call_of(struct baselines *b, enum statement which, const char *what,
			       const char *job, const char *role)
{
	struct sql_call c = SQL_ASK(&b->sql, which, what, SQL_TEXT(job), SQL_TEXT(role));

	return c;
}

int baselines_put(struct baselines *b, const char *job, const char *role,
		  const struct baselines_run *r, const void *body, size_t bytes)
{
	struct sql_call c;
	int err;

	pthread_mutex_lock(&b->lock);
	c = call_of(b, ST_PUT, "put", job, role);
	SQL_BIND(&c, SQL_INTEGER(r->run), SQL_INTEGER(r->updated_unix_ns), SQL_INTEGER(r->steps),
		 SQL_REAL(r->latency_ns), SQL_REAL(r->self_ns), SQL_REAL(r->mad_ns),
		 SQL_BLOB(body, bytes));
	err = sql_run(&c);
	if (!err) {
		c = call_of(b, ST_TRIM, "trim", job, role);
		SQL_BIND(&c, SQL_INTEGER(LIMIT_BASELINE_RUNS));
		err = sql_run(&c);
	}
	pthread_mutex_unlock(&b->lock);
	return err;
}

/* Whether the row's figures are possible. The file may be damaged or not ours; a run with
 * impossible figures is not a reference. */
static bool is_sound(const struct baselines_run *r)
{
	return isfinite(r->latency_ns) && isfinite(r->self_ns) && isfinite(r->mad_ns) &&
	       r->latency_ns >= 0 && r->self_ns >= 0 && r->mad_ns >= 0;
}

static int decode(const struct sql_call *c, int at, struct sketch *out)
{
	return wire_sketch_decode(sqlite3_column_blob(c->st, at),
				  (size_t)sqlite3_column_bytes(c->st, at), out);
}

int baselines_runs(struct baselines *b, const char *job, const char *role, uint64_t except,
		   struct baselines_run *out, uint32_t max, struct sketch *newest)
{
	struct sql_call c;
	int n = 0, err = 0, ended;

	if (newest)
		memset(newest, 0, sizeof(*newest));
	pthread_mutex_lock(&b->lock);
	c = call_of(b, ST_RUNS, "runs", job, role);
	SQL_BIND(&c, SQL_INTEGER(except), SQL_INTEGER(TEMPORAL_STEPS_MIN), SQL_INTEGER(max));
	while ((uint32_t)n < max && sql_next(&c)) {
		struct baselines_run *r = &out[n];

		r->run = sql_get_integer(&c, 0);
		r->updated_unix_ns = sql_get_integer(&c, 1);
		r->steps = sql_get_integer(&c, 2);
		r->latency_ns = sqlite3_column_double(c.st, 3);
		r->self_ns = sqlite3_column_double(c.st, 4);
		r->mad_ns = sqlite3_column_double(c.st, 5);
		if (is_sound(r) && ++n == 1 && newest)
			err = decode(&c, 6, newest);
	}
	ended = sql_end(&c);
	pthread_mutex_unlock(&b->lock);
	return err ? err : ended ? ended : n;
}

int baselines_get(struct baselines *b, const char *job, const char *role, uint64_t run_id,
		  uint64_t *updated_unix_ns, struct sketch *out)
{
	struct sql_call c;
	int err = -ENOENT, ended;

	memset(out, 0, sizeof(*out));
	pthread_mutex_lock(&b->lock);
	c = call_of(b, ST_ONE, "get", job, role);
	SQL_BIND(&c, SQL_INTEGER(run_id));
	if (sql_next(&c)) {
		*updated_unix_ns = sql_get_integer(&c, 0);
		err = decode(&c, 1, out);
	}
	ended = sql_end(&c);
	pthread_mutex_unlock(&b->lock);
	return ended ? ended : err;
}

int baselines_expire(struct baselines *b, uint64_t before_unix_ns)
{
	int err;

	pthread_mutex_lock(&b->lock);
	err = SQL_DO(&b->sql, ST_EXPIRE, "expire", SQL_INTEGER(before_unix_ns));
	if (!err)
		err = SQL_DO(&b->sql, ST_BOUND, "bound", SQL_INTEGER(LIMIT_BASELINES));
	pthread_mutex_unlock(&b->lock);
	return err;
}

uint32_t baselines_resolve(struct baselines *b, const char *asked, char key[WIRE_TEXT_BYTES])
{
	struct sql_call c;
	uint32_t n = 0;

	pthread_mutex_lock(&b->lock);
	c = SQL_ASK(&b->sql, ST_NAMED, "named", SQL_TEXT(asked));
	while (sql_next(&c))
		if (!n++)
			text_copy(key, WIRE_TEXT_BYTES, sql_get_text(&c, 0));
	sql_end(&c);
	pthread_mutex_unlock(&b->lock);
	return n;
}

json_t *baselines_json(struct baselines *b, const char *job)
{
	json_t *list = json_array();
	struct sql_call c;

	pthread_mutex_lock(&b->lock);
	c = SQL_ASK(&b->sql, ST_LIST, "list", SQL_TEXT(job));
	while (sql_next(&c)) {
		char id[17];

		snprintf(id, sizeof(id), "%016llx", (unsigned long long)sql_get_integer(&c, 1));
		json_array_append_new(
		    list, json_pack("{s:s, s:s, s:o, s:I, s:f, s:f, s:f}", "role",
				    sql_get_text(&c, 0), "run", id, "updated_unix_ns",
				    json_exact((uint64_t)sql_get_integer(&c, 2)), "steps",
				    (json_int_t)sql_get_integer(&c, 3), "latency_ms",
				    text_ms(sqlite3_column_double(c.st, 4)), "self_ms",
				    text_ms(sqlite3_column_double(c.st, 5)), "spread_ms",
				    text_ms(sqlite3_column_double(c.st, 6))));
	}
	sql_end(&c);
	pthread_mutex_unlock(&b->lock);
	return list;
}
