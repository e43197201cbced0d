/* SPDX-License-Identifier: Apache-2.0
 * worker.h - work that takes long or may never finish: reading a process's mappings, its
 * interpreter, unwind tables, names of Python code. Readers do it (reader/reader.h); this file
 * checks their answers.
 * Owns: queued jobs and results.  Threads: one caller.  Trust: a compromised parser may answer
 * anything. Then only the tables or names of that user's files are wrong. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "reader/reader.h"
#include "sampler/mapping_scan.h"
#include "sampler/python/python_runtime.h"
#include "sampler/unwind/unwind_table.h"

enum worker_kind {
	WORKER_SCAN = 1, /* mappings, and the interpreter if requested */
	WORKER_TABLE,
	WORKER_NAMES,
};

struct worker_job {
	enum worker_kind kind;
	uint32_t pid;
	bool find_python;
	/* for a table: the file behind this mapping, if it still has this key */
	uint32_t file;
	uint64_t begin, end;
	struct unwind_store_key key;
	char *path;
	/* for names: see python_names.h */
	uint64_t serial;
	void *names; /* the request, then the answer; owned */
	size_t names_bytes;
	/* results */
	uint32_t uid; /* user of the process */
	int err;      /* result of the scan, table or names; -ETIME: it exceeded a bound */
	/* with err: the file could not be read through this process, which says nothing about the
	 * file */
	bool unread;
	int python_err; /* result of python_runtime_find */
	struct mapping_scan scan;
	struct python_runtime *python; /* when python_err is 0 */
	struct unwind_table table;
	char why[UNWIND_TABLE_WHY_BYTES];
};

struct worker;
/* reader: borrowed until close; NULL: the worker opens its own, which must happen before there are
 * threads. */
int worker_open(struct worker **out, const char *proc_root, struct reader *reader);
void worker_close(struct worker *w); /* NULL is a no-op */
/* Readable when worker_next has work. */
int worker_fd(const struct worker *w);
/* Takes the job. */
void worker_push(struct worker *w, struct worker_job *job);
/* A finished job, which the caller releases, or NULL. Never blocks. */
struct worker_job *worker_next(struct worker *w);
void worker_job_free(struct worker_job *job);
/* CPU time of scans and tables so far. */
uint64_t worker_cpu_ns(const struct worker *w);
struct reader *worker_reader(const struct worker *w);
