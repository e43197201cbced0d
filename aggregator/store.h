/* SPDX-License-Identifier: Apache-2.0
 * store.h - windows, incidents and ranks in one SQLite file (docs/aggregator.md has the schema).
 * Bodies are rows and not files: one transaction then covers evidence and index, so that no kill can
 * leave one without the other, and at 8 to 100 KB per window SQLite is as fast as the file system.
 *
 * Owns its connection. Threads: one per struct store; the writer (store_open) is the committer, others
 * open readers of their own (store_open_reader), which never block it (WAL).
 * Errors: -ENOSPC where the disk is full (also by quota or file size), -EIO, -ENOMEM. */
#ifndef SYSOM_AGGREGATOR_STORE_H
#define SYSOM_AGGREGATOR_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregator/incident.h"
#include "base/buf.h"

#define STORE_SCHEMA_VERSION 2

/* Times of writes are multiples of it, so that a reader whose numbers are doubles gets them exactly, or
 * so nearly that it makes no difference. */
#define STORE_UPDATE_STEP_NS 1024u

struct store;

/* Makes the directory and the file where needed. -EPROTO: a file of a newer version, or no store;
 * -EBUSY: another aggregator uses it. */
int store_open(struct store **out, const char *dir);
int store_open_reader(struct store **out, const char *dir);
void store_close(struct store *s); /* NULL is a no-op */

int store_begin(struct store *s);
int store_commit(struct store *s);
void store_rollback(struct store *s);

/* 1: stored; 0: known before, nothing changed. Inside a transaction. */
int store_put_window(struct store *s, const struct digest *d, uint64_t received_unix_ns,
		     const void *body, size_t bytes);
int store_set_window_incident(struct store *s, const uint8_t id[16], const char *incident);
/* Windows of `from` become windows of `to`; of `from` stays that it became part of `to`. */
int store_merge_incident(struct store *s, const char *to, const char *from);
/* Now, for updated_unix_ns; later than last_ns. */
uint64_t store_update_ns(uint64_t last_ns);
int store_put_incident(struct store *s, const struct incident_row *row, const char *json);
/* An incident's findings (finding_json.h) as a list; NULL: it has none any more. */
int store_put_findings(struct store *s, const char *incident, const char *json);

/* Incidents whose last window came after since_unix_ns, oldest first; then the bodies of one's
 * windows in order of arrival. The callbacks' arguments are borrowed for the call; non-zero stops. */
int store_each_incident(struct store *s, uint64_t since_unix_ns,
			int (*fn)(void *arg, const struct incident_row *row), void *arg);
int store_each_window_body(struct store *s, const char *incident,
			   int (*fn)(void *arg, const void *body, size_t bytes), void *arg);

/* Returns owned; NULL: none. */
json_t *store_findings(struct store *s, const char *incident);

/* Removes bodies received before windows_before, then incidents and the last traces of windows from
 * before incidents_before, then the oldest bodies until the file holds at most max_bytes; bounded
 * work per call. The number of bodies removed, or -errno. */
int store_expire(struct store *s, uint64_t windows_before, uint64_t incidents_before,
		 uint64_t max_bytes);

struct store_totals {
	uint64_t windows, bodies, incidents, open_incidents, bytes;
};
/* Counts the windows too, which takes time in a large store; store_totals_incidents only refreshes
 * the incidents and the bytes of *out. */
int store_totals(struct store *s, struct store_totals *out);
int store_totals_incidents(struct store *s, struct store_totals *out);
/* Free bytes of the file system. */
uint64_t store_free_bytes(const struct store *s);

/* job and state ("open", "closed") may be NULL. {"incidents":[...]}, newest first; returns owned. */
json_t *store_incidents_json(struct store *s, const char *job, const char *state, uint32_t limit);
/* With "windows"; one that was merged is answered by what it became part of, with "merged_from".
 * NULL: no such. */
json_t *store_incident_json(struct store *s, const char *id);
/* Appends incidents that were written after since_unix_ns, oldest first, one JSON object a line, each
 * with updated_unix_ns; {"id":...,"life":"merged","merged_into":...} for those that were merged. */
int store_feed(struct store *s, uint64_t since_unix_ns, uint32_t limit, struct buf *out);
/* Appends the message as received; -ENOENT: never seen; -ESTALE: expired. */
int store_window_body(struct store *s, const uint8_t id[16], struct buf *out);

#endif
