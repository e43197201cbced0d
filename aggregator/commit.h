/* SPDX-License-Identifier: Apache-2.0
 * commit.h - the one writer: takes validated windows, gives them to incidents and to the store in
 * batches, and says so only after the transaction is on disk (INV-5).
 * Owns: its thread, the writing store, the incident set. Threads: any may push; `done` runs on the
 * committer's thread. Errors: a full disk turns every window of the batch into WIRE_RETRY. */
#ifndef SYSOM_AGGREGATOR_COMMIT_H
#define SYSOM_AGGREGATOR_COMMIT_H

#include "aggregator/alert.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/incident/incident.h"
#include "aggregator/store/store.h"
#include "analysis/cause/picture.h"
#include "wire/codec.h"

struct commit;

/* Embedded in the caller's request; the caller keeps it, its digest's picture and body, until done. */
struct commit_item {
	struct commit_item *next;
	struct digest digest;
	bool stranger; /* the sender does not speak for this rank: stored, part of no incident */
	const void *body;
	size_t bytes;
	uint64_t cost_ns; /* of the committer's time, set before done */
	void (*done)(struct commit_item *item, enum wire_status status, const char *why);
};

struct commit_config {
	const char *dir;
	struct incident_config incident; /* teller: set here */
	/* What an earlier process told ends if it is not told again within this time of the start. */
	uint64_t retell_ns;
	uint64_t window_age_ns, incident_age_ns, max_bytes, reserve_bytes;
	struct alert *alert; /* is told of every incident that was written; NULL: nobody */
	/* For the functions of stacks, any thread; NULL: native ones stay without names. opened: the store
	 * is this process's now; called before the first name is asked for. NULL: not called. */
	picture_name_fn name;
	void (*opened)(void *arg);
	/* How many files of names there have been: when more have come, open incidents of functions without
	 * names are built anew. Of the committer's thread. NULL: not called. */
	uint64_t (*named)(void *arg);
	void *name_arg;
};

struct commit_stats {
	uint64_t committed, duplicates, retries, transactions, expired, incidents_opened;
	uint64_t incidents_renamed; /* built anew since names have come */
	uint64_t incidents_evicted; /* closed for want of room */
	uint64_t transaction_ns, pending_bytes;
	uint64_t findings, findings_dropped; /* taken in; refused for want of room */
	struct store_totals store;
	bool disk_full;
};

/* Opens the store and restores the live incidents. Errors as store_open. */
int commit_open(struct commit **out, const struct commit_config *c, struct fleet *fleet);
/* Commits what was pushed, then ends the thread: later pushes give -ESHUTDOWN. */
void commit_stop(struct commit *c);
/* After commit_stop, and once nobody pushes any more. NULL is a no-op. */
void commit_close(struct commit *c);
/* 0: done will be called; -EBUSY: too much is pending, -ESHUTDOWN: stopped. */
int commit_push(struct commit *c, struct commit_item *item);
/* Copied; committed with the next batch. 0; -EBUSY: LIMIT_COMMIT_FINDINGS are waiting (counted in
 * findings_dropped); -ESHUTDOWN: stopped. Any thread, never blocks for long. */
int commit_push_finding(struct commit *c, const struct finding_report *f);
void commit_stats(struct commit *c, struct commit_stats *out);

#endif
