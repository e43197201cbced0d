/* SPDX-License-Identifier: Apache-2.0
 * reader.h - reads and parses the files and the memory of other processes in processes of its own,
 * which can be killed and given up.
 *
 *   caller --- request --->  opener  --- request --->  parser
 *          <--- answer ----          <-- open, answer
 *
 * An opener keeps the caller's capabilities and parses nothing: it opens what belongs to the one
 * process that the request names, and passes descriptors on. A parser has no capabilities, no files
 * of its own and a system call filter; it runs the request's function on those descriptors. A third
 * process, the keeper, is forked before the caller has threads; it starts, kills and collects them.
 * Every request is bounded in CPU time per file, memory, size of the answer and wall time. A pair that
 * exceeds a bound is killed. One that can't die (it waits for a file system that never answers) is
 * abandoned and counted, and there is a bound to how many of them there may be.
 * The file at which a pair was killed is refused for a while.
 * Owns: the keeper.  Threads: any; a reader_queue (reader_queue.h) has one caller.
 * Trust: files, memory and what a parser answers are hostile. */
#ifndef SYSOM_READER_READER_H
#define SYSOM_READER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

/* What belongs to a process and may be opened. */
enum reader_what {
	READER_MAPS = 1, /* /proc/PID/maps */
	READER_ENVIRON,	 /* /proc/PID/environ */
	READER_MEMORY,	 /* /proc/PID/mem */
	READER_EXE,	 /* the name alone, see reader_target_exe */
	READER_MAPPING,	 /* the regular file behind a mapping */
	READER_PATH,	 /* a regular file by its path below the process's root */
};

#define READER_PATH_BYTES 4096u

/* The process that a request is about, as its function sees it. */
struct reader_target {
	uint32_t pid;
	int opener; /* socket; -1: files are opened by this process itself */
	const char *proc_root; /* of a direct one */
	uint32_t cpu_s;	/* per file; 0: no bound */
	const int *fds; /* that came with the request, borrowed */
	uint32_t fd_count;
};

/* For tests and fuzzers: no process between. */
void reader_target_direct(struct reader_target *t, const char *proc_root, uint32_t pid);
/* A descriptor, never of anything but a regular file for MAPPING and PATH, or -errno; -EKEYREJECTED: the
 * file exceeded a bound before. begin and end: of a mapping. path: of a mapping or PATH. */
int reader_target_open(struct reader_target *t, enum reader_what what, uint64_t begin, uint64_t end,
		       const char *path);
/* Where /proc/PID/exe points, "" where it can't be read. */
void reader_target_exe(struct reader_target *t, char *out, size_t bytes);

/* A kind of request. Runs in the parser: no files but those of the target, no threads. 0 or -errno, which
 * the caller gets together with the answer. */
struct reader_op {
	const char *name;
	int (*run)(struct reader_target *t, const void *request, size_t bytes, struct buf *answer);
	size_t answer_max; /* bytes */
	uint32_t cpu_s;	   /* per file that it opens */
	uint32_t wall_ms;  /* for all of it */
	/* Reads memory, no files: it runs beside a request of the same user for files, and is refused
	 * (-EBUSY) while the user waits. */
	bool memory;
};

struct reader_stats {
	uint64_t started; /* pairs */
	uint64_t killed;  /* exceeded their wall time */
	uint64_t cpu, crashed; /* parsers ended by their CPU bound, by another signal */
	uint64_t file_refused; /* times that a refused file was asked for again */
	uint64_t no_worker; /* requests that found too many abandoned pairs */
	uint32_t files; /* refused at the moment */
	uint32_t abandoned; /* killed, and still not dead */
};

struct reader;
/* Forks the keeper: to be called before there are threads. proc_root: "/proc". 0, -errno. */
int reader_open(struct reader **out, const char *proc_root);
/* Ends the keeper and whatever it started; never waits for one that can't die. NULL is a no-op. */
void reader_close(struct reader *r);
/* Hangs up (EPOLLHUP) when the keeper has died: then nothing can be read any more. To be watched only. */
int reader_fd(const struct reader *r);
/* NULL: zeros. */
void reader_stats_get(const struct reader *r, struct reader_stats *out);

#endif
