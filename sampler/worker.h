/* SPDX-License-Identifier: Apache-2.0
 * worker.h - the thread that does what takes long: reads a process's mappings, finds its
 * interpreter, compiles unwind tables. It runs niced and shares nothing with its caller but two
 * queues. Owns: the thread, queued jobs and results.  Threads: one caller. */
#ifndef SYSOM_SAMPLER_WORKER_H
#define SYSOM_SAMPLER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/mapping_scan.h"
#include "sampler/python_runtime.h"
#include "sampler/unwind_table.h"

enum worker_kind {
	WORKER_SCAN = 1, /* mappings, and the interpreter if asked for */
	WORKER_TABLE,
};

struct worker_job {
	struct worker_job *next;
	enum worker_kind kind;
	uint32_t pid;
	bool find_python;
	/* table: the file behind this mapping, if it still has this key */
	uint32_t file;
	uint64_t begin, end;
	struct unwind_store_key key;
	char *path;
	/* results */
	int err;     /* of the scan or table */
	bool unread; /* with err: the process did not let the file be had, which says nothing of it
		      */
	int python_err; /* of python_runtime_find */
	struct mapping_scan scan;
	struct python_runtime *python; /* when python_err is 0 */
	struct unwind_table table;
	char why[UNWIND_TABLE_WHY_BYTES];
};

struct worker;
int worker_open(struct worker **out, const char *proc_root);
void worker_close(struct worker *w); /* NULL is a no-op */
/* Becomes readable when there are results. */
int worker_fd(const struct worker *w);
/* Takes the job. Scans and tables take turns. */
void worker_push(struct worker *w, struct worker_job *job);
/* A finished job, to be released by the caller, or NULL. */
struct worker_job *worker_next(struct worker *w);
void worker_job_free(struct worker_job *job);
/* CPU time that the thread took so far. */
uint64_t worker_cpu_ns(const struct worker *w);

#endif
