/* SPDX-License-Identifier: Apache-2.0
 * store_private.h - shared by the files of the store: its connection and its statements. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "aggregator/fleet/sql.h"
#include "aggregator/store/store.h"

enum statement {
	ST_BEGIN,
	ST_COMMIT,
	ST_ROLLBACK,
	ST_PUT_WINDOW,
	ST_PUT_BODY,
	ST_SET_INCIDENT,
	ST_MOVE_WINDOWS,
	ST_DROP_INCIDENT,
	ST_PUT_MERGED,
	ST_MOVE_MERGED,
	ST_SUCCESSOR,
	ST_PUT_FINDINGS,
	ST_DROP_FINDINGS,
	ST_FINDINGS,
	ST_PUT_INCIDENT,
	ST_RESTORE_OPEN,
	ST_RESTORE_CLOSED,
	ST_EACH_BODY,
	/* by age: ?1 the time, ?2 how many at most */
	ST_EXPIRE_WINDOWS,
	ST_EXPIRE_MERGED,
	/* by size: ?1 how many */
	ST_OLDEST_WINDOWS,
	ST_OLDEST_INCIDENTS,
	/* of job ?1: its size, its oldest body and its oldest closed incident, with their times */
	ST_JOB_TAKES,
	ST_JOB_OLDEST_BODY,
	ST_JOB_OLDEST_INCIDENT,
	ST_DROP_BODY,
	ST_JOB_AFTER, /* ?1: the previous job */
	ST_LARGEST_JOB,
	ST_LARGEST_JOB_OF_OWNER,
	ST_TOTALS,
	ST_PAGES,
	/* in this order: all, by job, by state, by both */
	ST_LIST,
	ST_LIST_JOB,
	ST_LIST_STATE,
	ST_LIST_JOB_STATE,
	ST_LIST_NAME,
	ST_LIST_NAME_STATE,
	ST_LIST_OWNER,
	ST_LIST_OWNER_STATE,
	ST_NEXT_JOB,
	ST_INCIDENT_ID,
	ST_INCIDENT_ID_OWNER,
	ST_INCIDENT,
	ST_INCIDENTS_BEFORE, /* of job ?1, the latest ?3 that began by ?2 */
	ST_INCIDENT_WINDOWS,
	ST_FEED,
	ST_FEED_OWNER,
	ST_BODY,
	ST_WINDOW_JOB,
	ST_COUNT,
};
_Static_assert(ST_COUNT <= SQL_STATEMENTS_MAX, "each statement has a place");

/* A transaction's windows, findings and incidents that fell silent. */
#define STORE_TOUCHED_MAX 256

struct store {
	struct sql sql;
	char dir[PATH_MAX - 32];
	int lock_fd;
	dev_t device; /* of the database file */
	ino_t inode;
	bool in_transaction;
	/* Jobs that this transaction added to. It checks their quotas. Jobs beyond this number wait
	 * for their turn. */
	char touched[STORE_TOUCHED_MAX][WIRE_TEXT_BYTES];
	uint32_t touched_count;
	char turn[WIRE_TEXT_BYTES]; /* the job that was last looked at in turn */
};

/* store_sql.c */
extern const char *const store_sql[ST_COUNT];
/* store.c: 0 or -EBUSY; the caller closes *fd. */
int store_lock(const char *dir, int *fd);
/* store_backup.c: a copy of the open store as one new file. Removes unfinished ones of that path, so
 * the caller holds the store's lock. */
int store_copy(struct store *s, const char *path);
/* 0: a store of a version from 1 to `newest`. -EPROTO, logged. */
int store_check_version(struct store *s, int64_t newest);
/* Creates the tables of a new file, and upgrades those of an older version, after a copy of
 * it as store.db.vN. -EPROTO: not our store. */
int store_make_schema(struct store *s);
