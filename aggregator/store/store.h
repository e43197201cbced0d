/* SPDX-License-Identifier: Apache-2.0
 * store.h - windows, incidents and ranks in one SQLite file (docs/aggregator.md has the schema).
 * Bodies are rows, not files: one transaction covers evidence and index, so that no kill leaves one
 * without the other. At 8 to 100 KB per window SQLite is as fast as the file system.
 *
 * Owns its connection. Threads: one per struct store; the writer (store_open) is the committer,
 * others open readers of their own (store_open_reader), which never block it (WAL). Errors: -ENOSPC
 * where the disk is full (also by quota or file size), -EIO, -ENOMEM. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "aggregator/incident/incident.h"
#include "aggregator/store/retention.h"
#include "base/buf.h"
#include "base/http/http_user.h"

#define STORE_SCHEMA_VERSION 6

struct store;

/* Creates the directory and the file if needed. An older version's store is upgraded, after a copy
 * of it as store.db.vN beside it. 0, -EPROTO (a newer version's store, or none of ours: it is not
 * changed), -EBADMSG (damaged), -EBUSY (another aggregator uses it), -ENOSPC. */
int store_open(struct store **out, const char *dir);
int store_open_reader(struct store **out, const char *dir);
void store_close(struct store *s); /* NULL is a no-op */

/* Copies the store in dir, with its baselines, to the new file `path`, also while an aggregator
 * uses it: the copy is a consistent snapshot. 0, -EEXIST (nothing is overwritten), -ENOSPC and
 * others, which leave no file. */
int store_backup(const char *dir, const char *path);
/* Makes the store of dir from a backup, which is checked first. -EEXIST (dir has a store), -EBUSY
 * (an aggregator uses dir), -EPROTO (a newer version's, or no backup), -EBADMSG (damaged),
 * -ENAMETOOLONG, -errno. */
int store_restore(const char *dir, const char *path);

int store_begin(struct store *s);
int store_commit(struct store *s);
void store_rollback(struct store *s);

/* 1: stored; 0: known before, nothing changed. Inside a transaction. */
int store_put_window(struct store *s, const struct digest *d, uint64_t received_unix_ns,
		     const void *body, size_t bytes);
int store_set_window_incident(struct store *s, const uint8_t id[16], const char *incident);
/* Moves the windows of `from` to `to`. What remains of `from` is a note that it was merged. */
int store_merge_incident(struct store *s, const char *to, const char *from);
/* The current time for updated_unix_ns; always later than last_ns. */
uint64_t store_update_ns(uint64_t last_ns);
int store_put_incident(struct store *s, const struct incident_row *row, const char *json);
/* An incident's findings (finding_json.h) as a list; NULL: none are left. */
int store_put_findings(struct store *s, const char *incident, const char *json);

/* Calls fn for each incident whose last window arrived after since_unix_ns, oldest first. Here and
 * below, the callback borrows its arguments for the call, and a non-zero result of it ends the
 * loop. */
int store_each_incident(struct store *s, uint64_t since_unix_ns,
			int (*fn)(void *arg, const struct incident_row *row), void *arg);
/* Calls fn for the body of each window of one incident, in order of arrival. */
int store_each_window_body(struct store *s, const char *incident,
			   int (*fn)(void *arg, const void *body, size_t bytes), void *arg);

/* Returns owned; NULL: none. */
json_t *store_findings(struct store *s, const char *incident);

struct store_bounds {
	const struct retention *retention; /* borrowed: ages and quotas of jobs */
	uint64_t now_unix_ns;
	/* bound of the file, 0: none. Above it, the owner with most bytes loses the oldest data of
	 * the owner's largest job. */
	uint64_t max_bytes;
};
struct store_removed {
	uint64_t bodies;			/* for any reason */
	uint64_t quota_bodies, quota_incidents; /* because of the bounds of one job */
};
/* At the end of a transaction: applies the bounds of the file and of the jobs that the transaction
 * added to, so that no rate of windows outruns them, and adds to *out. 0 or -errno. */
int store_keep(struct store *s, const struct store_bounds *b, struct store_removed *out);
/* The same in its own transaction; also applies the bounds of some more jobs, in turn, and returns
 * free pages to the file system. */
int store_expire(struct store *s, const struct store_bounds *b, struct store_removed *out);

struct store_totals {
	uint64_t windows, bodies, incidents, open_incidents, bytes;
};
/* From counters, so the cost does not depend on the size of the store. */
int store_totals(struct store *s, struct store_totals *out);
/* Finds the job with most bytes of bodies and incidents: its key ("" if there is none) and these
 * bytes. */
int store_largest_job(struct store *s, char job[WIRE_TEXT_BYTES], uint64_t *bytes);
/* Free bytes of the file system. */
uint64_t store_free_bytes(const struct store *s);

/* For users: `who` sees only the jobs that http_user_sees_job allows; NULL sees all. Hidden jobs are
 * treated as if they did not exist. */

struct store_list {
	const struct http_user *who;
	const char *job, *state; /* NULL: any; state is "open" or "closed" */
	uint32_t limit;
	uint64_t after_ns; /* 0: from the newest */
	char after_id[INCIDENT_ID_BYTES];
};
/* Continues after the page with this "next". 0, -EINVAL (not a "next"). */
int store_list_after(struct store_list *q, const char *cursor);
/* Appends {"incidents":[...]}, newest first, and "next" if there are more. A page ends at the limit
 * or at LIMIT_API_LIST_BYTES. */
int store_list(struct store *s, const struct store_list *q, struct buf *out);
/* Completes the prefix of an id. 0, -ENOENT, -ENOTUNIQ (several match), -EIO, -ENOMEM. */
int store_incident_id(struct store *s, const struct http_user *who, const char *begin,
		      char id[INCIDENT_ID_BYTES]);
/* An incident with its "windows". For a merged one, the incident that it was merged into, with
 * "merged_from". NULL: not found. */
json_t *store_incident_json(struct store *s, const char *id);
/* Appends the incidents written after since_unix_ns, oldest first, one JSON object per line, each
 * with updated_unix_ns; {"id":...,"life":"merged","merged_into":...} for merged ones. */
int store_feed(struct store *s, const struct http_user *who, uint64_t since_unix_ns, uint32_t limit,
	       struct buf *out);
/* Appends the message as received; -ENOENT: never seen; -ESTALE: expired; -ENOMEM. */
int store_window_body(struct store *s, const struct http_user *who, const uint8_t id[16],
		      struct buf *out);
