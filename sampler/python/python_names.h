/* SPDX-License-Identifier: Apache-2.0
 * python_names.h - function, file and line of Python frames, read lazily from the process, in batches and
 * by a parser (reader/reader.h).
 * Names are kept by the code object's address. Code objects move and are freed, so that each is checked
 * once per period against a hash of its fixed part (type, names' addresses, first line, table) before
 * its names are used again; what can't be a code object has no name and is counted.
 * Owns: its cache, at most LIMIT_PYTHON_CODES objects.  Threads: one caller.
 * Trust: the process's memory is hostile and changes while it is read: bounded, checked. */
#ifndef SYSOM_SAMPLER_PYTHON_PYTHON_NAMES_H
#define SYSOM_SAMPLER_PYTHON_PYTHON_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bpf/read_user.h"
#include "sampler/python/python_runtime.h"

struct python_names_stats {
	uint64_t objects;   /* code objects read, again after a change included */
	uint64_t changed;   /* of these, an address that held another one before */
	uint64_t failed;    /* addresses that held no code object */
	uint64_t evicted;
};

/* What a frame is called; the strings are borrowed until the next python_names_begin. */
struct python_name {
	const char *function; /* UTF-8; qualified from 3.11 on */
	const char *file;
	uint32_t line; /* 0: the interpreter knows none */
};

struct python_names;
/* For one process, found by python_runtime. 0, -ENOMEM. */
int python_names_open(struct python_names **out, const struct python_runtime *r);
void python_names_close(struct python_names *n); /* NULL is a no-op */
/* A period begins: every code object is checked once again before it is used. */
void python_names_begin(struct python_names *n);
/* 0; -ENOENT: no code object there (any more); -EAGAIN: to be asked for; -ENOMEM, -ENOSPC: too many in one
 * period. memory: asks in this process, for tests; NULL: does not ask. */
int python_names_find(struct python_names *n, const struct read_user *memory,
		      const struct python_frame *frame, struct python_name *out);
/* What was found missing, as a request to a parser, owned by the caller; NULL: nothing, or one is on its
 * way. Its answer, or error, is given back: what it does not tell is not there in this period. */
void *python_names_ask(struct python_names *n, size_t *bytes);
void python_names_answer(struct python_names *n, int err, const void *data, size_t bytes);
/* In the parser. 0, -EPROTO. */
int python_names_read(const void *request, size_t bytes, const struct read_user *memory,
		      struct buf *answer);
void python_names_stats_get(const struct python_names *n, struct python_names_stats *out);

/* The line of an instruction, by a copy of co_linetable. minor: 10, or 11 and later. at: byte offset
 * in the bytecode, negative before the first. 0: none. Bounded whatever the bytes are. */
uint32_t python_names_line(uint32_t minor, const uint8_t *table, size_t bytes, uint32_t first,
			   int64_t at);

#endif
