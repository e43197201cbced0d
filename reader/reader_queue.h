/* SPDX-License-Identifier: Apache-2.0
 * reader_queue.h - requests to readers, in turn and without waiting.
 * At most one request of a user (of the files, one more of the memory) runs at a time, so that one user's
 * slow files keep nobody else waiting. A user whose request had to be killed waits ten times as long as
 * that took before the next one of the kind begins: one that hangs costs its thread a tenth of the time.
 * Owns: queued jobs, pairs of processes, an epoll descriptor.  Threads: one caller. */
#ifndef SYSOM_READER_READER_QUEUE_H
#define SYSOM_READER_READER_QUEUE_H

#include <stdatomic.h>

#include "reader/reader.h"

struct reader_job {
	struct reader_job *next;
	const struct reader_op *op;
	uint32_t pid;
	void *request; /* owned, by malloc */
	size_t bytes;
	const int *fds; /* borrowed until the job comes back */
	uint32_t fd_count;
	void *arg; /* the caller's */
	/* results */
	int err; /* of the function; -ETIME: it exceeded a bound or its parser ended; -EBUSY: no worker */
	uint8_t *answer; /* owned, bytes of it; hostile */
	size_t answer_bytes;
	/* the queue's */
	uint32_t uid;
	bool again; /* its parser was killed by others: it has had a second one */
};

struct reader_queue;
/* reader: borrowed until close. drop: releases the arg of a job that close ends; may be NULL. 0, -errno. */
int reader_queue_open(struct reader_queue **out, struct reader *reader, void (*drop)(void *arg));
void reader_queue_close(struct reader_queue *q); /* NULL is a no-op */
/* Readable when reader_queue_next has something to do. */
int reader_queue_fd(const struct reader_queue *q);
/* Takes the job, on account of the user of its pid. */
void reader_queue_push(struct reader_queue *q, struct reader_job *job);
/* The same, on account of this user. */
void reader_queue_push_as(struct reader_queue *q, struct reader_job *job, uint32_t uid);
/* Moves everything on; a job that came back, to be released by the caller, or NULL. Never blocks. */
struct reader_job *reader_queue_next(struct reader_queue *q);
/* One request and its answer, for a thread that may wait as long as the request may take. Refused at once
 * (-EBUSY) while the user waits for an earlier one. stop: gives it up when true; may be NULL. The job's
 * results are filled in; it stays the caller's. Not mixed with push and next on one queue. */
int reader_queue_call(struct reader_queue *q, struct reader_job *job, const atomic_bool *stop);
void reader_job_fini(struct reader_job *job); /* request and answer */

#endif
