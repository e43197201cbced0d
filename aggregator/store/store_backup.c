/* SPDX-License-Identifier: Apache-2.0
 * A copy is made inside one read transaction, so that it is a consistent snapshot, and no write of
 * the aggregator makes SQLite start it again. In WAL mode neither waits for the other; meanwhile
 * the write-ahead log grows, since no page that the copy may still read is overwritten. The
 * baselines are a file of their own, and small: they travel as one value in the copy, so that a
 * backup is one file. */
#include "aggregator/store/store_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/dirs.h"
#include "base/replace.h"

#define PAGES_PER_STEP 1024
#define BUSY_MS	       5000
#define BASELINES      "baselines.db"

/* Makes the renamed file's name durable. */
static int sync_dir_of(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
	return dirs_sync(dir);
}

/* Whether a signal that ends the process waits: its callers block them. */
static bool is_asked_to_end(void)
{
	sigset_t waiting;

	return !sigpending(&waiting) &&
	       (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1 ||
		sigismember(&waiting, SIGHUP) == 1);
}

static int copy_pages(struct sql *from, struct sql *to)
{
	sqlite3_backup *b;
	int err = sql_exec(from, "BEGIN; SELECT COUNT(*) FROM sqlite_master", "snapshot"), code;

	if (err)
		return err;
	b = sqlite3_backup_init(to->db, "main", from->db, "main");
	if (b) {
		do
			code = sqlite3_backup_step(b, PAGES_PER_STEP);
		while (code == SQLITE_OK && !is_asked_to_end());
		sqlite3_backup_finish(b);
		/* a failure of either side is now in the copy's connection */
		err = code == SQLITE_DONE ? 0
		      : code == SQLITE_OK ? -EINTR
					  : sql_errno(to, code, "copy");
	} else {
		err = sql_errno(to, sqlite3_errcode(to->db), "copy");
	}
	sql_exec(from, "ROLLBACK", "snapshot");
	/* the copy is one file, without a write-ahead log */
	return err ? err : sql_exec(to, "PRAGMA journal_mode=DELETE", "journal");
}

/* Removes what SQLite may leave next to a file that it could not finish. */
static void remove_beside(const char *path)
{
	static const char *const ends[] = {"-journal", "-wal", "-shm"};
	char name[PATH_MAX + 16];

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		snprintf(name, sizeof(name), "%s%s", path, ends[i]);
		unlink(name);
	}
}

/* Makes the file `path` as a copy; `extra` may add to it. The file is there complete or not at
 * all. */
static int copy_to(struct sql *from, const char *path,
		   int (*extra)(struct sql *to, const char *arg), const char *arg)
{
	struct sql to = {.name = "copy"};
	struct replace r;
	int err = replace_begin(&r, AT_FDCWD, path, 0600);

	if (err)
		return err;
	close(r.fd); /* SQLite's locks would end with a later close */
	r.fd = -1;
	err = sql_open(&to, r.temporary, SQLITE_OPEN_READWRITE, BUSY_MS);
	if (!err)
		err = copy_pages(from, &to);
	if (!err && extra)
		err = extra(&to, arg);
	sql_close(&to);
	if (err)
		remove_beside(r.temporary);
	err = replace_end(&r, err);
	return err ? err : sync_dir_of(path);
}

/* Removes unfinished copies to `path` that killed processes left. Each may be as large as the
 * store. */
static void remove_unfinished(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char dir[PATH_MAX];
	size_t n = strlen(name);
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
	d = opendir(dir);
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, name, n) && e->d_name[n] == '.' &&
		    strstr(e->d_name + n, ".tmp"))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

int store_copy(struct store *s, const char *path)
{
	remove_unfinished(path);
	return copy_to(&s->sql, path, NULL, NULL);
}

/* ---- backup ---- */

static int put_file(struct sql *to, const void *body, sqlite3_int64 bytes)
{
	sqlite3_stmt *st = NULL;
	int code = sqlite3_prepare_v2(to->db, "INSERT INTO files VALUES('" BASELINES "',?1)", -1,
				      &st, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_bind_blob64(st, 1, body, (sqlite3_uint64)bytes, SQLITE_STATIC);
	if (code == SQLITE_OK)
		code = sqlite3_step(st);
	sqlite3_finalize(st);
	return sql_errno(to, code, BASELINES);
}

static int add_baselines(struct sql *to, const char *dir)
{
	struct sql from = {.name = "baselines"};
	char path[PATH_MAX];
	sqlite3_int64 bytes = 0;
	unsigned char *body;
	int err =
	    sql_exec(to, "CREATE TABLE files(name TEXT PRIMARY KEY, body BLOB NOT NULL)", "files");

	snprintf(path, sizeof(path), "%s/" BASELINES, dir);
	if (err || access(path, F_OK)) /* no run was long enough yet */
		return err;
	err = sql_open(&from, path, SQLITE_OPEN_READONLY, BUSY_MS);
	body = err ? NULL : sqlite3_serialize(from.db, "main", &bytes, 0);
	if (!err && !body)
		err = sql_errno(&from, sqlite3_errcode(from.db), "serialize");
	if (!err)
		err = put_file(to, body, bytes);
	sqlite3_free(body);
	sql_close(&from);
	return err;
}

int store_backup(const char *dir, const char *path)
{
	struct store *s = NULL;
	int err;

	if (!access(path, F_OK))
		return -EEXIST;
	err = store_open_reader(&s, dir);
	if (!err)
		err = store_check_version(s, STORE_SCHEMA_VERSION);
	if (!err)
		err = copy_to(&s->sql, path, add_baselines, dir);
	store_close(s);
	return err;
}

/* ---- restore ---- */

static int is_whole(struct sql *s)
{
	sqlite3_stmt *st = NULL;
	int code = sqlite3_prepare_v2(s->db, "PRAGMA integrity_check(1)", -1, &st, NULL);
	const char *said = NULL;

	if (code == SQLITE_OK)
		code = sqlite3_step(st);
	if (code == SQLITE_ROW)
		said = (const char *)sqlite3_column_text(st, 0);
	code = said && !strcmp(said, "ok") ? 0 : -EBADMSG;
	sqlite3_finalize(st);
	return code;
}

static int write_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		bytes -= (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

/* Takes the baselines out of a backup; a plain copy of a store has none. */
static int take_baselines(struct sql *from, const char *dir)
{
	sqlite3_stmt *st = NULL;
	struct replace r;
	char path[PATH_MAX];
	int err = 0;

	if (sql_number(from, "SELECT COUNT(*) FROM sqlite_master WHERE name='files'") != 1)
		return 0;
	if (sqlite3_prepare_v2(from->db, "SELECT body FROM files WHERE name='" BASELINES "'", -1,
			       &st, NULL) != SQLITE_OK)
		return -EBADMSG;
	if (sqlite3_step(st) == SQLITE_ROW) {
		snprintf(path, sizeof(path), "%s/" BASELINES, dir);
		err = replace_begin(&r, AT_FDCWD, path, 0640);
		if (!err) {
			err = write_all(r.fd, sqlite3_column_blob(st, 0),
					(size_t)sqlite3_column_bytes(st, 0));
			err = replace_end(&r, err);
		}
	}
	sqlite3_finalize(st);
	return err;
}

static int drop_files(struct sql *to, const char *unused)
{
	return sql_exec(to, "DROP TABLE IF EXISTS files", "files");
}

/* The daemon's user owns the directory, but root often runs a restore. */
static int give_to_owner(const char *dir)
{
	static const char *const names[] = {"lock", BASELINES, "store.db"};
	char path[PATH_MAX];
	struct stat st;

	if (stat(dir, &st))
		return -errno;
	for (size_t i = 0; st.st_uid != geteuid() && i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		if (lchown(path, st.st_uid, st.st_gid) && errno != ENOENT)
			return -errno;
	}
	return 0;
}

static int restore_into(const char *dir, struct store *from)
{
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/store.db", dir);
	if (!access(path, F_OK))
		return -EEXIST;
	/* a failed restore may have left baselines; the store itself is written last */
	snprintf(path, sizeof(path), "%s/" BASELINES, dir);
	unlink(path);
	remove_beside(path);
	snprintf(path, sizeof(path), "%s/store.db", dir);
	err = take_baselines(&from->sql, dir);
	return err ? err : copy_to(&from->sql, path, drop_files, NULL);
}

int store_restore(const char *dir, const char *path)
{
	struct store from = {.sql = {.name = "backup"}, .lock_fd = -1};
	int lock = -1, err;

	if (access(path, R_OK))
		return -errno;
	if (strlen(dir) >= sizeof(from.dir))
		return -ENAMETOOLONG;
	err = sql_open(&from.sql, path, SQLITE_OPEN_READONLY, BUSY_MS);
	if (!err)
		err = store_check_version(&from, STORE_SCHEMA_VERSION);
	if (!err)
		err = is_whole(&from.sql);
	if (!err)
		err = dirs_make(dir, 0750);
	if (!err)
		err = store_lock(dir, &lock);
	if (!err)
		err = restore_into(dir, &from);
	if (!err)
		err = give_to_owner(dir);
	if (lock >= 0)
		close(lock);
	sql_close(&from.sql);
	return err;
}
