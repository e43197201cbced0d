/* SPDX-License-Identifier: Apache-2.0
 * python_names.h - function, file and line of Python frames. A parser (reader/reader.h) reads them
 * from the process lazily and in batches.
 * Names are cached by the code object's address. Code objects move and are freed, so an entry is
 * checked once per period: a hash of the object's fixed part (type, addresses of names, first line,
 * table) must match before its names are used again. Memory that cannot be a code object gets no
 * name and is counted.
 * Owns: its cache, at most LIMIT_PYTHON_CODES objects.  Threads: one caller.
 * Trust: the process's memory is hostile and changes while it is read: bounded, checked. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bpf/read_user.h"
#include "sampler/python/python_runtime.h"

/* The name of a frame; the strings are borrowed until the next python_names_begin. */
struct python_name {
	const char *function; /* UTF-8; qualified from 3.11 on */
	const char *file;
	uint32_t line; /* 0: unknown to the interpreter */
};

struct python_names;
/* Opens the names of one process, which python_runtime has found. 0, -ENOMEM. */
int python_names_open(struct python_names **out, const struct python_runtime *r);
void python_names_close(struct python_names *n); /* NULL is a no-op */
/* Begins a period: every code object is checked again before its first use. */
void python_names_begin(struct python_names *n);
/* 0; -ENOENT: there is no code object (any more); -EAGAIN: the name must be requested; -ENOMEM;
 * -ENOSPC: too many objects in one period. memory: for tests, reads in this process; NULL: only
 * searches the cache. */
int python_names_find(struct python_names *n, const struct read_user *memory,
		      const struct python_frame *frame, struct python_name *out);
/* Makes a request to a parser for the missing names, owned by the caller; NULL: nothing is missing,
 * or a request is pending. The caller passes the answer, or an error, back. Objects that are not in
 * the answer do not exist in this period. */
void *python_names_ask(struct python_names *n, size_t *bytes);
void python_names_answer(struct python_names *n, int err, const void *data, size_t bytes);
/* Runs in the parser. 0, -EPROTO. */
int python_names_read(const void *request, size_t bytes, const struct read_user *memory,
		      struct buf *answer);

/* The line of an instruction, from a copy of co_linetable. minor: 10, or 11 and later. at: byte
 * offset in the bytecode, negative before the first. 0: none. Bounded for any bytes. */
uint32_t python_names_line(uint32_t minor, const uint8_t *table, size_t bytes, uint32_t first,
			   int64_t at);
