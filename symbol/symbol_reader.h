/* SPDX-License-Identifier: Apache-2.0
 * symbol_reader.h - symbol files of other processes, read in a parser (reader/reader.h): their
 * indexes, and their bytes for an upload. Paths are as the process sees them, also of debug links
 * and Build IDs. Nothing outside the process's root is opened.
 * Owns: its queue of requests.  Threads: one caller, which waits for each answer, at most a minute.
 * Trust: the answer is hostile: a file in the form of symbol_index.h, which checks every offset, or
 * bytes. */
#pragma once

#include <stdatomic.h>

#include "reader/reader_queue.h"
#include "symbol/symbol_elf.h"

struct symbol_reader;
/* reader: borrowed until close. stop: cancels a request; may be NULL. 0, -errno. */
int symbol_reader_open(struct symbol_reader **out, struct reader *reader, const atomic_bool *stop);
void symbol_reader_close(struct symbol_reader *r); /* NULL is a no-op */

/* For symbol_resolver_options.index; arg: the symbol_reader. A path below root is as process pid
 * sees it; any other path is as this process sees it. own: the caller reads for one user. Then it
 * falls back to this process's view after process pid has ended, and uses debug links. */
int symbol_reader_index(void *arg, const uint8_t *build_id, size_t build_id_bytes, const char *path,
			const char *index);
void symbol_reader_root(struct symbol_reader *r, const char *root, uint32_t pid, bool own);

/* A file as the process sees it. */
struct symbol_reader_file {
	const uint8_t *build_id;
	size_t build_id_bytes;
	const char *path;
	uint32_t pid;
};
/* Reports the best file for that Build ID. 0, -ENODATA, -EBADMSG, -ETIME, -EBUSY, -errno. */
int symbol_reader_look(struct symbol_reader *r, const struct symbol_reader_file *f,
		       enum symbol_quality *quality, uint64_t *file_bytes);
/* Reads bytes of the file, all of them or none; the caller owns them. */
int symbol_reader_bytes(struct symbol_reader *r, const struct symbol_reader_file *f,
			uint64_t offset, size_t bytes, uint8_t **out);
