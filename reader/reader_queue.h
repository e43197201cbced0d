/* SPDX-License-Identifier: Apache-2.0
 * reader_queue.h - a queue of requests to readers; it never blocks.
 * At most one file request and one memory request of a user run at a time, so that one user's slow
 * files do not delay others. After a request was killed, its user waits ten times as long as it
 * took before the next request of that kind. So a request that hangs costs its thread at most a
 * tenth of the time.
 * Owns: queued jobs, pairs of processes, an epoll descriptor.  Threads: one caller. */
#pragma once

#include <stdatomic.h>

#include "reader/reader.h"

struct reader_job {
	struct reader_job *next;
	const struct reader_op *op;
	uint32_t pid;
	void *request; /* owned, by malloc */
	size_t bytes;
	const int *fds; /* borrowed until the job is returned */
	uint32_t fd_count;
	void *arg; /* the caller's */
	/* results */
	int err; /* the function's result; -ETIME: it exceeded a bound, or its parser ended; -EBUSY:
		  * no worker */
	uint8_t *answer; /* owned; hostile */
	size_t answer_bytes;
	/* the queue's */
	uint32_t uid;
	bool again; /* another process killed its parser: this is the second try */
};

struct reader_queue;
/* reader: borrowed until close. drop: releases the arg of a job that close cancels; may be NULL. 0,
 * -errno. */
int reader_queue_open(struct reader_queue **out, struct reader *reader, void (*drop)(void *arg));
void reader_queue_close(struct reader_queue *q); /* NULL is a no-op */
/* Readable when reader_queue_next has work. */
int reader_queue_fd(const struct reader_queue *q);
/* Takes the job and charges it to the user of its pid. */
void reader_queue_push(struct reader_queue *q, struct reader_job *job);
/* Takes the job and charges it to this user. */
void reader_queue_push_as(struct reader_queue *q, struct reader_job *job, uint32_t uid);
/* Makes progress, and returns a finished job, which the caller releases, or NULL. Never blocks. */
struct reader_job *reader_queue_next(struct reader_queue *q);
/* Makes one request and waits for its answer, as long as the request may take. Fails at once
 * (-EBUSY) while the user's wait after an earlier request lasts. stop: gives up if true; may be
 * NULL. Fills in the job's results; the job stays the caller's. Do not mix with push and next on
 * one queue. */
int reader_queue_call(struct reader_queue *q, struct reader_job *job, const atomic_bool *stop);
void reader_job_fini(struct reader_job *job); /* frees request and answer */
