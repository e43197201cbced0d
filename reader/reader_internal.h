/* SPDX-License-Identifier: Apache-2.0
 * reader_internal.h - what the processes of reader.h say to each other. All of them are forks of one
 * program, so that addresses of its functions are the same. */
#ifndef SYSOM_READER_READER_INTERNAL_H
#define SYSOM_READER_READER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "reader/reader.h"

#define READER_REQUEST_BYTES (64u << 10)
/* Answers beyond it come in a sealed memory file. */
#define READER_INLINE_BYTES (16u << 10)
#define READER_FDS_MAX 4u

struct reader_file { /* an identity; all 0: none */
	uint64_t dev, ino, size, mtime_ns;
};

/* Written by the caller (refused), the keeper (counts) and openers (at, met). Parsers don't have it. */
struct reader_shared {
	struct {
		_Atomic uint64_t until_ns; /* 0: free */
		struct reader_file file;
	} refused[LIMIT_READER_REFUSED];
	struct {
		struct reader_file at; /* opened last */
	} slot[LIMIT_READER_PAIRS];
	_Atomic uint64_t started, killed, cpu, crashed, file_refused, no_worker;
	_Atomic uint32_t abandoned;
};

struct reader {
	int keeper; /* socket; -1: gone */
	pid_t keeper_pid;
	pthread_mutex_t lock; /* of the socket, of serial and of refused */
	uint32_t serial;
	struct reader_shared *shared;
	char proc_root[128];
};

enum reader_message { READER_RUN = 1, READER_OPEN, READER_OPENED, READER_ANSWER, READER_DIED };

/* caller -> opener -> parser, with descriptors */
struct reader_run {
	uint32_t kind, pid, bytes, reserved;
	const struct reader_op *op;
	uint64_t serial;
	uint8_t data[];
};

/* parser -> opener */
struct reader_open {
	uint32_t kind, what;
	uint64_t begin, end;
	char path[READER_PATH_BYTES];
};

/* opener -> parser, with the descriptor */
struct reader_opened {
	uint32_t kind;
	int32_t err;
	char text[READER_PATH_BYTES]; /* of READER_EXE */
};

/* parser -> opener -> caller, with a memory file when the bytes are not here. DIED comes from the opener:
 * the parser has ended, and the data is the file that it had last. */
struct reader_answer {
	uint32_t kind;
	int32_t err;
	uint64_t serial, bytes;
	uint8_t data[];
};

/* caller -> keeper, START with the opener's socket. HOW_ENDED: -EINTR where others ended the parser. */
enum reader_order { READER_START = 1, READER_KILL, READER_HOW_ENDED };
struct reader_ordered {
	uint32_t order, uid, id, serial;
};
struct reader_done {
	int32_t err;
	uint32_t id, slot, serial; /* of the order */
};

/* Sends all of it, with fds; 0, -errno. wait: false: -EAGAIN where there is no room. */
int reader_send(int sock, const void *head, size_t head_bytes, const void *data, size_t bytes,
		const int *fds, uint32_t fd_count);
/* One message; its bytes, 0 at the end, -errno. *fd_count: room before, received after. */
ssize_t reader_receive(int sock, void *data, size_t bytes, int *fds, uint32_t *fd_count);

/* reader.c: a pair for requests about processes of uid. sock: the caller's end. 0, -EBUSY (too many
 * abandoned ones), -EPIPE, -errno. */
int reader_pair_start(struct reader *r, uint32_t uid, uint32_t *id, uint32_t *slot, int *sock);
void reader_pair_kill(struct reader *r, uint32_t id); /* if it has not ended by itself */
/* Of a pair whose parser has just died: a signal from elsewhere ended it, not what it read. */
bool reader_pair_was_killed(struct reader *r, uint32_t id);
/* No opener gives it to a parser from now on. Of no file (all 0): nothing. */
void reader_file_refuse(struct reader *r, const struct reader_file *file);

/* reader_opener.c: these do not return */
_Noreturn void reader_opener_run(struct reader_shared *shared, uint32_t slot, const char *proc_root,
				 int caller, int parser);
_Noreturn void reader_parser_run(int opener, uint32_t slot);
/* Opens what belongs to a process; *text: READER_PATH_BYTES, of READER_EXE. at: the identity of the
 * regular file that was opened. */
int reader_open_direct(const char *proc_root, uint32_t pid, enum reader_what what, uint64_t begin,
		       uint64_t end, const char *path, char *text, struct reader_file *at);

/* reader_sandbox.c. 0, -errno: the process must end then. */
int reader_sandbox_opener(void);
int reader_sandbox_parser(uint32_t slot);
/* The parser's bound of CPU time from now on; 0: none. */
void reader_sandbox_cpu(uint32_t seconds);

#endif
