/* SPDX-License-Identifier: Apache-2.0
 * reader.h - reads and parses the files and the memory of other processes. It does so in separate
 * processes, which can be killed and abandoned.
 *   caller --- request --->  opener  --- request --->  parser
 *          <--- answer ----          <-- open, answer
 * An opener keeps the caller's capabilities and parses nothing. It opens only what belongs to the
 * one process that the request names, and passes the descriptors on. A parser has no capabilities,
 * no files of its own and a system call filter; it runs the request's function on those
 * descriptors. A third process, the keeper, is forked before the caller has threads. It starts,
 * kills and reaps the others.
 * Every request has bounds: CPU time per file, memory, size of the answer, wall time. A pair that
 * exceeds a bound is killed. A pair that cannot exit (it waits for a file system that never
 * answers) is abandoned and counted; the number of abandoned pairs is bounded. The file at which a
 * pair was killed is refused for a while.
 * Owns: the keeper.  Threads: any; a reader_queue (reader_queue.h) has one caller.
 * Trust: files, memory and a parser's answers are hostile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* The things of a process that a request may open. */
enum reader_what {
	READER_MAPS = 1, /* /proc/PID/maps */
	READER_ENVIRON,	 /* /proc/PID/environ */
	READER_MEMORY,	 /* /proc/PID/mem */
	READER_EXE,	 /* only the name, see reader_target_exe */
	READER_MAPPING,	 /* the regular file behind a mapping */
	READER_PATH,	 /* a regular file by its path below the process's root */
};

#define READER_PATH_BYTES 4096u

/* The process that a request is about, as the request's function sees it. */
struct reader_target {
	uint32_t pid;
	int opener;	       /* socket; -1: this process opens files itself */
	const char *proc_root; /* if direct */
	uint32_t cpu_s;	       /* CPU time allowed per file; 0: no bound */
	const int *fds;	       /* received with the request, borrowed */
	uint32_t fd_count;
};

/* For tests and fuzzers: without other processes. */
void reader_target_direct(struct reader_target *t, const char *proc_root, uint32_t pid);
/* Returns a descriptor, for MAPPING and PATH only of a regular file, or -errno; -EKEYREJECTED: the
 * file exceeded a bound earlier. begin and end: of a mapping. path: of a mapping or PATH. */
int reader_target_open(struct reader_target *t, enum reader_what what, uint64_t begin, uint64_t end,
		       const char *path);
/* The target of /proc/PID/exe, "" if unreadable. */
void reader_target_exe(struct reader_target *t, char *out, size_t bytes);

/* A kind of request. Runs in the parser: it has only the target's files, and no threads. Returns 0
 * or -errno, which the caller gets with the answer. */
struct reader_op {
	int (*run)(struct reader_target *t, const void *request, size_t bytes, struct buf *answer);
	size_t answer_max; /* bytes */
	uint32_t cpu_s;	   /* CPU time allowed per file that the request opens */
	uint32_t wall_ms;  /* time allowed for the whole request */
	/* The request reads memory, no files. It may run beside a file request of the same user,
	 * and is refused (-EBUSY) while the user's wait after a kill lasts. */
	bool memory;
};

struct reader_stats {
	uint64_t started;      /* pairs */
	uint64_t killed;       /* exceeded their wall time */
	uint64_t cpu, crashed; /* parsers ended by their CPU bound; by another signal */
	uint64_t file_refused; /* requests for a file that is refused */
	uint64_t no_worker;    /* requests that failed because too many pairs are abandoned */
	uint64_t files;	       /* refused at the moment */
	uint64_t abandoned;    /* killed but still alive */
};

struct reader;
/* Forks the keeper: call it before there are threads. proc_root: "/proc". 0, -errno. */
int reader_open(struct reader **out, const char *proc_root);
/* Ends the keeper and all that it started; never waits for a process that cannot exit. NULL is a
 * no-op. */
void reader_close(struct reader *r);
/* Reports EPOLLHUP when the keeper has died: then nothing can be read any more. For polling
 * only. */
int reader_fd(const struct reader *r);
/* r NULL: zeros. */
void reader_stats_get(const struct reader *r, struct reader_stats *out);
