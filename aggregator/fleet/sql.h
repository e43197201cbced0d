/* SPDX-License-Identifier: Apache-2.0
 * sql.h - one SQLite file and its statements, each prepared once. A call binds its values in order,
 * steps, and ends:
 *   struct sql_call c = SQL_ASK(sql, which, "what", SQL_TEXT(job));
 *   while (sql_next(&c))
 *           ... sqlite3_column_int64(c.st, 0) ...
 *   return sql_end(&c);
 * Threads: one caller at a time. Errors are logged with `what`: -ENOSPC if the disk is full (also
 * by quota or file size), -EBUSY (not logged), -EBADMSG (damaged, or no SQLite file), -EIO,
 * -ENOMEM. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQL_STATEMENTS_MAX 64

struct sql {
	const char *name; /* in the log */
	const char *const *text;
	sqlite3 *db;
	sqlite3_stmt *statement[SQL_STATEMENTS_MAX];
};

struct sql_call {
	struct sql *sql;
	const char *what;
	sqlite3_stmt *st; /* for sqlite3_column_...() after sql_next() */
	int bound, err;
};

/* s: has its name and the text of its statements, and is zeroed otherwise. flags: as for
 * sqlite3_open_v2. busy_ms: how long a statement waits for another connection's lock. 0 or an
 * error; call sql_close after either. */
int sql_open(struct sql *s, const char *path, int flags, int busy_ms);
void sql_close(struct sql *s); /* also for one that was not opened */
/* Turns a result code of SQLite's own calls into 0 or an error, which is logged. */
int sql_errno(struct sql *s, int code, const char *what);
/* Runs statements without values. */
int sql_exec(struct sql *s, const char *text, const char *what);
/* The first number of the first row; -1: no row. */
int64_t sql_number(struct sql *s, const char *text);

/* A value of a statement. Text and blobs are borrowed until the call ends. */
struct sql_value {
	int type; /* SQLITE_TEXT, _INTEGER, _FLOAT, _BLOB; 0 ends */
	uint64_t integer;
	double real;
	const void *data;
	size_t bytes;
};
#define SQL_TEXT(v)                                                                                \
	{                                                                                          \
		.type = SQLITE_TEXT, .data = (v)                                                   \
	} /* NULL is NULL */
#define SQL_INTEGER(v)                                                                             \
	{                                                                                          \
		.type = SQLITE_INTEGER, .integer = (uint64_t)(v)                                   \
	}
#define SQL_REAL(v)                                                                                \
	{                                                                                          \
		.type = SQLITE_FLOAT, .real = (v)                                                  \
	}
#define SQL_BLOB(v, n)                                                                             \
	{                                                                                          \
		.type = SQLITE_BLOB, .data = (v), .bytes = (n)                                     \
	}
#define SQL_VALUES(...) ((const struct sql_value[]){__VA_ARGS__ __VA_OPT__(, ){.type = 0}})

struct sql_call sql_call(struct sql *s, int which, const char *what);
/* Binds the next values. */
void sql_bind(struct sql_call *c, const struct sql_value *values);
#define SQL_BIND(c, ...) sql_bind(c, SQL_VALUES(__VA_ARGS__))
/* Begins a call of a statement, and binds its values. */
struct sql_call sql_ask(struct sql *s, int which, const char *what, const struct sql_value *values);
#define SQL_ASK(s, which, what, ...) sql_ask(s, which, what, SQL_VALUES(__VA_ARGS__))
/* Steps to the next row; false: no more. Do not call it again after false. */
bool sql_next(struct sql_call *c);
uint64_t sql_get_integer(const struct sql_call *c, int at);
const char *sql_get_text(const struct sql_call *c,
			 int at); /* never NULL; borrowed until the next row */
int sql_end(struct sql_call *c);
/* Steps and ends a call without rows. */
int sql_run(struct sql_call *c);
int sql_do(struct sql *s, int which, const char *what, const struct sql_value *values);
#define SQL_DO(s, which, what, ...) sql_do(s, which, what, SQL_VALUES(__VA_ARGS__))
