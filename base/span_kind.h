/* SPDX-License-Identifier: Apache-2.0
 * span_kind.h - the words of a span catalogue that events encode as numbers: kinds of processes
 * and threads, and what can be counted as work. Their order is part of the ring's format: append
 * only. */
#pragma once

#include <stdbool.h>

/* The first line of a compiled catalogue. */
#define SPAN_TABLE_HEAD "sysom-spans 1"

/* What the process of a span is for. */
#define SPAN_PROCESSES(X)                                                                          \
	X("any")                                                                                   \
	X("api")    /* talks to clients */                                                         \
	X("engine") /* decides what runs next */                                                   \
	X("worker") /* has a GPU */                                                                \
	X("router") /* chooses an engine for a request */                                          \
	X("trainer")                                                                               \
	X("loader") /* makes batches of input */

/* Their numbers in records and events. */
enum span_process {
	SPAN_PROCESS_ANY,
	SPAN_PROCESS_API,
	SPAN_PROCESS_ENGINE,
	SPAN_PROCESS_WORKER,
	SPAN_PROCESS_ROUTER
};
/* Whether a span of such a process is on the clients' side: while the engine works, it may only be
 * waiting for the engine. */
static inline bool span_process_is_client(unsigned process)
{
	return process == SPAN_PROCESS_API || process == SPAN_PROCESS_ROUTER;
}

/* What the thread of a span does. */
#define SPAN_THREADS(X)                                                                            \
	X("any")                                                                                   \
	X("main")                                                                                  \
	X("loop")   /* the engine's loop */                                                        \
	X("io")	    /* sends and receives */                                                       \
	X("output") /* turns results into answers */

/* What may be work of a span. */
#define SPAN_WORKS(X)                                                                              \
	X("tokens")  /* new tokens of this step */                                                 \
	X("batch")   /* requests or samples */                                                     \
	X("context") /* tokens that are in the cache already */                                    \
	X("drafts")  /* tokens that a draft model proposed */
#define SPAN_WORK_MAX	4
#define SPAN_WORK_BATCH 1

/* What kind of work the requests of a step ask for. */
enum span_phase {
	SPAN_PHASE_NONE = 0,
	SPAN_PHASE_PREFILL,
	SPAN_PHASE_DECODE,
	SPAN_PHASE_MIXED,
	SPAN_PHASE_COUNT
};
