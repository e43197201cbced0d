/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregator/fleet/sql.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/daemon/log.h"

int sql_errno(struct sql *s, int code, const char *what)
{
	int os = sqlite3_system_errno(s->db), err = -EIO;

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
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		err = -EBADMSG;
		break;
	case SQLITE_IOERR:
		if (os == ENOSPC || os == EDQUOT || os == EFBIG)
			return -ENOSPC;
		break;
	default:
		break;
	}
	log_error(s->name, "what=%s message=\"%s\" error=\"%s\"", what, sqlite3_errmsg(s->db),
		  os ? strerror(os) : sqlite3_errstr(code));
	return err;
}

int sql_open(struct sql *s, const char *path, int flags, int busy_ms)
{
	int code = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);

	if (code != SQLITE_OK)
		return s->db ? sql_errno(s, code, "open") : -ENOMEM;
	sqlite3_busy_timeout(s->db, busy_ms);
	/* In a container the store's directory may be the only writable one. */
	return sql_errno(s, sqlite3_exec(s->db, "PRAGMA temp_store=MEMORY", NULL, NULL, NULL),
			 "temp_store");
}

void sql_close(struct sql *s)
{
	for (int i = 0; i < SQL_STATEMENTS_MAX; i++) {
		sqlite3_finalize(s->statement[i]);
		s->statement[i] = NULL;
	}
	sqlite3_close(s->db);
	s->db = NULL;
}

int sql_exec(struct sql *s, const char *text, const char *what)
{
	return sql_errno(s, sqlite3_exec(s->db, text, NULL, NULL, NULL), what);
}

int64_t sql_number(struct sql *s, const char *text)
{
	sqlite3_stmt *st = NULL;
	int64_t v = -1;

	if (sqlite3_prepare_v2(s->db, text, -1, &st, NULL) == SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		v = sqlite3_column_int64(st, 0);
	sqlite3_finalize(st);
	return v;
}

struct sql_call sql_call(struct sql *s, int which, const char *what)
{
	struct sql_call c = {.sql = s, .what = what};
	int code = SQLITE_OK;

	CHECK(which < SQL_STATEMENTS_MAX);
	if (!s->statement[which])
		code = sqlite3_prepare_v3(s->db, s->text[which], -1, SQLITE_PREPARE_PERSISTENT,
					  &s->statement[which], NULL);
	c.err = sql_errno(s, code, "prepare");
	c.st = s->statement[which];
	return c;
}

/* If there is no statement, binding fails and sql_next() reports the reason. */
void sql_bind(struct sql_call *c, const struct sql_value *v)
{
	for (; v->type; v++) {
		int at = ++c->bound;

		if (v->type == SQLITE_TEXT)
			sqlite3_bind_text(c->st, at, v->data, -1, SQLITE_STATIC);
		else if (v->type == SQLITE_INTEGER)
			sqlite3_bind_int64(c->st, at, (int64_t)v->integer);
		else if (v->type == SQLITE_FLOAT)
			sqlite3_bind_double(c->st, at, v->real);
		else
			sqlite3_bind_blob64(c->st, at, v->data, v->bytes, SQLITE_STATIC);
	}
}

struct sql_call sql_ask(struct sql *s, int which, const char *what, const struct sql_value *values)
{
	struct sql_call c = sql_call(s, which, what);

	sql_bind(&c, values);
	return c;
}

bool sql_next(struct sql_call *c)
{
	int code = c->err ? SQLITE_DONE : sqlite3_step(c->st);

	if (!c->err)
		c->err = sql_errno(c->sql, code, c->what);
	return code == SQLITE_ROW;
}

uint64_t sql_get_integer(const struct sql_call *c, int at)
{
	return (uint64_t)sqlite3_column_int64(c->st, at);
}

const char *sql_get_text(const struct sql_call *c, int at)
{
	const char *p = (const char *)sqlite3_column_text(c->st, at);

	return p ? p : "";
}

int sql_end(struct sql_call *c)
{
	sqlite3_reset(c->st);
	if (c->st)
		sqlite3_clear_bindings(c->st);
	return c->err;
}

int sql_run(struct sql_call *c)
{
	sql_next(c);
	return sql_end(c);
}

int sql_do(struct sql *s, int which, const char *what, const struct sql_value *values)
{
	struct sql_call c = sql_ask(s, which, what, values);

	return sql_run(&c);
}
