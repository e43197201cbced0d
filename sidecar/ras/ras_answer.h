/* SPDX-License-Identifier: Apache-2.0
 * ras_answer.h - what NCCL's RAS service reports about a job: its answer to STATUS, as JSON (2.28.7
 * and later) or text (2.24 and later). It is evidence, not truth: it has called a job healthy that
 * had hung for half an hour.
 * Pure, apart from ras_answer_get. Trust: whoever listens on the port may answer anything. Threads:
 * any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "model/os_signal.h"

#define RAS_FINDINGS_MAX 8u
#define RAS_PIDS_MAX	 64u /* processes of this node in a question */

enum ras_kind {
	RAS_MISSING = 1, /* a rank does not answer, or is dead */
	RAS_MISMATCH,	 /* ranks have entered a collective different numbers of times */
	RAS_ERROR,	 /* NCCL reports an asynchronous error */
	RAS_ABORTED,
};

struct ras_finding {
	uint32_t kind; /* enum ras_kind */
	/* "rank 2 of communicator 0xc0ffee entered AllReduce 676 times, others 677"; printable ASCII */
	char text[OS_SIGNAL_SUBJECT_BYTES];
};

struct ras_report {
	uint32_t json; /* 0: text */
	uint32_t communicators, ranks, missing;
	uint64_t ours; /* bit i: the i-th pid of the question is one of the job's processes */
	uint32_t finding_count; /* those without room are left out */
	struct ras_finding finding[RAS_FINDINGS_MAX];
};

/* Reads an answer to STATUS. 0; -EBADMSG: neither JSON nor text as expected; -ENOMEM. */
int ras_answer_read(const char *text, size_t bytes, const uint32_t *pids, uint32_t pid_count,
		    struct ras_report *out);
/* Asks over a connected socket with timeouts, and reads the answer: at most LIMIT_RAS_BYTES. 0; as
 * ras_answer_read; -EPROTO: no RAS service; -EFBIG; -errno of the socket, -EAGAIN: too slow. */
int ras_answer_get(int sock, const uint32_t *pids, uint32_t pid_count, struct ras_report *out);
