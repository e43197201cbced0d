/* SPDX-License-Identifier: Apache-2.0
 * reader_internal.h - messages between the processes of reader.h. All are forks of one program, so
 * addresses of its functions are the same. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/limits.h"
#include "reader/reader.h"

#define READER_REQUEST_BYTES (64u << 10)
/* Larger answers come in a sealed memory file. */
#define READER_INLINE_BYTES (16u << 10)
#define READER_FDS_MAX	    4u

struct reader_file { /* an identity; all 0: none */
	uint64_t dev, ino, size, mtime_ns;
};

/* Written by the caller (refused), the keeper (counts) and openers (at, met). Parsers cannot access
 * it. */
struct reader_shared {
	struct {
		_Atomic uint64_t until_ns; /* 0: free */
		struct reader_file file;
	} refused[LIMIT_READER_REFUSED];
	struct {
		struct reader_file at; /* the file opened last */
	} slot[LIMIT_READER_PAIRS];
	_Atomic uint64_t started, killed, cpu, crashed, file_refused, no_worker;
	_Atomic uint32_t abandoned;
};

struct reader {
	int keeper; /* socket; -1: gone */
	pid_t keeper_pid;
	pthread_mutex_t lock; /* protects the socket, serial and refused */
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

/* parser -> opener -> caller, with a memory file if the bytes are not in the message. The opener
 * sends DIED: the parser has ended, and the data is the last file that it had. */
struct reader_answer {
	uint32_t kind;
	int32_t err;
	uint64_t serial, bytes;
	uint8_t data[];
};

/* caller -> keeper, START with the opener's socket. HOW_ENDED: -EINTR if another process killed the
 * parser. */
enum reader_order { READER_START = 1, READER_KILL, READER_HOW_ENDED };
struct reader_ordered {
	uint32_t order, uid, id, serial;
};
struct reader_done {
	int32_t err;
	uint32_t id, slot, serial; /* of the order */
};

/* Sends everything, with fds; 0, -errno. wait false: -EAGAIN if there is no room. */
int reader_send(int sock, const void *head, size_t head_bytes, const void *data, size_t bytes,
		const int *fds, uint32_t fd_count);
/* Receives one message; returns its bytes, 0 at the end, -errno. *fd_count: capacity in, number
 * received out. */
ssize_t reader_receive(int sock, void *data, size_t bytes, int *fds, uint32_t *fd_count);

/* reader.c: starts a pair for requests about processes of uid. sock: the caller's end. 0, -EBUSY
 * (too many abandoned pairs), -EPIPE, -errno. */
int reader_pair_start(struct reader *r, uint32_t uid, uint32_t *id, uint32_t *slot, int *sock);
void reader_pair_kill(struct reader *r, uint32_t id); /* unless it has already ended */
/* For a pair whose parser has just died: whether an outside signal killed it, and not the file that
 * it read. */
bool reader_pair_was_killed(struct reader *r, uint32_t id);
/* From now on no opener passes this file to a parser. A zero identity is a no-op. */
void reader_file_refuse(struct reader *r, const struct reader_file *file);

/* reader_opener.c: these do not return */
_Noreturn void reader_opener_run(struct reader_shared *shared, uint32_t slot, const char *proc_root,
				 int caller, int parser);
_Noreturn void reader_parser_run(int opener, uint32_t slot);
/* Opens something of a process; *text: READER_PATH_BYTES, for READER_EXE. at: the identity of the
 * opened regular file. */
int reader_open_direct(const char *proc_root, uint32_t pid, enum reader_what what, uint64_t begin,
		       uint64_t end, const char *path, char *text, struct reader_file *at);

/* reader_sandbox.c. 0, -errno: then the process must end. */
int reader_sandbox_opener(void);
int reader_sandbox_parser(uint32_t slot);
/* Sets the parser's CPU time bound from now on; 0: none. */
void reader_sandbox_cpu(uint32_t seconds);
