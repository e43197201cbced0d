/* SPDX-License-Identifier: Apache-2.0
 * commit.h - the store's only writer. Takes validated windows, adds them to incidents and to the
 * store in batches, and acknowledges them only once the transaction is on disk (INV-5).
 * Owns: its thread, the writing store, the incident set. Threads: any may push; `done` runs on the
 * committer's thread. Errors: on a full disk every window of the batch gets WIRE_RETRY. */
#pragma once

#include <sys/queue.h>

#include "aggregator/alert.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/incident/incident.h"
#include "aggregator/store/store.h"
#include "analysis/cause/excerpt.h"
#include "wire/codec.h"

struct commit;

/* Embedded in the caller's request. The caller keeps it, with the digest's excerpt and the body,
 * until done. */
struct commit_item {
	STAILQ_ENTRY(commit_item) next;
	struct digest digest;
	bool stranger; /* the sender may not report this rank: stored, part of no incident */
	const void *body;
	size_t bytes;
	uint64_t cost_ns; /* the committer's CPU time, set before done */
	void (*done)(struct commit_item *item, enum wire_status status, const char *why);
};

struct commit_config {
	const char *dir;
	struct incident_config incident; /* commit_open sets its reporter */
	/* Findings of an earlier process end unless they are reported again within this time after
	 * the start. */
	uint64_t report_again_ns;
	struct retention retention;
	uint64_t max_bytes,
	    reserve_bytes;   /* of the store's file; of the file system's free space */
	struct alert *alert; /* gets every written incident; NULL: none */
	/* name: finds names of native functions, from any thread; NULL: functions get no names.
	 * opened: called once the store belongs to this process, before the first name is needed;
	 * may be NULL. */
	excerpt_name_fn name;
	void (*opened)(void *arg);
	/* Number of symbol files so far. When it grows, open incidents that have functions without
	 * names are rebuilt. Called on the committer's thread; may be NULL. */
	uint64_t (*named)(void *arg);
	void *name_arg;
};

struct commit_stats {
	uint64_t committed, duplicates, retries, transactions, expired, incidents_opened;
	uint64_t incidents_renamed; /* rebuilt with new names */
	uint64_t incidents_evicted; /* closed to make room */
	uint64_t transaction_ns, pending_bytes;
	uint64_t findings, findings_dropped;	 /* accepted; refused because there was no room */
	uint64_t quota_windows, quota_incidents; /* removed: their job had too many */
	uint64_t largest_bytes;			 /* of the job with most evidence */
	char largest_job[WIRE_TEXT_BYTES];
	struct store_totals store;
	bool disk_full;
};

/* Opens the store and restores the live incidents. Errors as store_open. */
int commit_open(struct commit **out, const struct commit_config *c, struct fleet *fleet);
/* Commits what was pushed, then ends the thread: later pushes give -ESHUTDOWN. */
void commit_stop(struct commit *c);
/* Call after commit_stop, when nobody pushes any more. NULL is a no-op. */
void commit_close(struct commit *c);
/* 0: done will be called; -EBUSY: too much is pending, -ESHUTDOWN: stopped. */
int commit_push(struct commit *c, struct commit_item *item);
/* Copies f and commits it with the next batch. 0; -ENOMEM; -EBUSY: LIMIT_COMMIT_FINDINGS wait
 * already (counted in findings_dropped); -ESHUTDOWN: stopped. Any thread; never blocks for long. */
int commit_push_finding(struct commit *c, const struct finding_report *f);
void commit_stats(struct commit *c, struct commit_stats *out);
