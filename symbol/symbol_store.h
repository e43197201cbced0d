/* SPDX-License-Identifier: Apache-2.0
 * symbol_store.h - the Build-ID directory. It says which files are needed and takes uploads in
 * chunks. A file is put in its place only if it is complete, carries its Build ID and has a higher
 * quality (symbol_elf.h) than the previous one. debuginfod -F DIRECTORY/tree and gdb read
 * DIRECTORY/tree/.build-id/ab/cdef.debug. Uploads grow in DIRECTORY/upload, which neither of them
 * reads, and are renamed after fsync.
 * Owns: DIRECTORY.  Threads: any; finishing reads and syncs the file outside the lock.
 * Trust: uploaders are hostile. Sizes, number and idle time of uploads are bounded, and names are
 * made from the Build ID's bytes. A file for an identity (symbol/symbol_content.h) must have its
 * content, so its names are those of the file that was mapped. The names of a file for a Build ID
 * alone are only a claim. */
#pragma once

#include <stdbool.h>

#include "symbol/symbol_elf.h"

struct symbol_store_options {
	const char *directory;	/* made if missing, one level */
	uint64_t bytes_max;	/* of finished files and uploads together; 0: no bound */
	uint64_t reserve_bytes; /* space to leave free on the disk */
	uint64_t idle_ns;	/* an upload that received nothing for this long may be cancelled;
				   * 0: 120 s */
	bool evict;		/* without room, remove the least recently used; false: refuse */
};

struct symbol_store_stats {
	uint64_t files, bytes, evicted, uploading, reserved_bytes, memory_bytes;
	uint64_t begun, finished, replaced, received_bytes;
	uint64_t refused_known;	   /* an equally good file exists, or is being uploaded */
	uint64_t refused_room;	   /* too large, disk full, too many at a time */
	uint64_t refused_damaged;  /* not an ELF file, or damaged */
	uint64_t refused_build_id; /* carries another Build ID or none, or other content */
	uint64_t refused_stripped; /* lower quality than promised, or than the existing file */
	uint64_t refused_order;	   /* a chunk that does not follow the last one */
	uint64_t abandoned;	   /* cancelled because idle */
};

struct symbol_store; /* opaque */

/* Removes partial uploads of an earlier run. 0, -ENAMETOOLONG, -ENOMEM, -errno. */
int symbol_store_open(struct symbol_store **out, const struct symbol_store_options *o);
void symbol_store_close(struct symbol_store *s); /* NULL is a no-op */
/* The tree's path, for symbol_resolver_options.directory; borrowed. */
const char *symbol_store_tree(const struct symbol_store *s);

/* Whether a file of that quality would be accepted now: better than the existing one, and no other
 * upload in progress. */
bool symbol_store_needed(struct symbol_store *s, const uint8_t *id, size_t id_bytes,
			 enum symbol_quality quality, uint64_t now_ns);
/* Call when names of this file were asked for. */
void symbol_store_use(struct symbol_store *s, const uint8_t *id, size_t id_bytes);

/* Begins an upload of exactly `bytes`. *session is not 0. -EEXIST: not needed; -EBUSY: another
 * upload is in progress; -EMFILE: too many at a time; -EFBIG: larger than LIMIT_SYMBOL_FILE_BYTES
 * or bytes_max; -ENOSPC; -EINVAL: no Build ID, no quality, no bytes; -errno. */
int symbol_store_begin(struct symbol_store *s, const uint8_t *id, size_t id_bytes, uint64_t bytes,
		       enum symbol_quality quality, uint64_t now_ns, uint64_t *session);
/* How many bytes have arrived. -ENOENT: no such upload (finished, cancelled, or the store was
 * reopened): start again. */
int symbol_store_progress(struct symbol_store *s, uint64_t session, uint64_t *have,
			  uint64_t *bytes);
/* Appends the bytes at `offset`, which must be the upload's progress. 0; -ENOENT; -ERANGE: another
 * offset is expected; -EFBIG: beyond the end; -errno of the disk, after which the upload is
 * gone. */
int symbol_store_append(struct symbol_store *s, uint64_t session, uint64_t offset, const void *data,
			size_t bytes, uint64_t now_ns);
/* Checks the complete file and puts it in its place. The upload is gone in any case, except after
 * -EAGAIN. May take as long as the disk needs. id: filled, SYMBOL_BUILD_ID_MAX bytes (for
 * symbol_resolver_forget); *why: a constant text for people. 0; -EAGAIN: bytes are missing;
 * -ENOENT; -EBADMSG: refused; -EEXIST: not better than the existing file; -errno. */
int symbol_store_finish(struct symbol_store *s, uint64_t session, uint8_t *id, size_t *id_bytes,
			const char **why);
void symbol_store_abort(struct symbol_store *s, uint64_t session);
/* Cancels idle uploads. */
void symbol_store_tend(struct symbol_store *s, uint64_t now_ns);
void symbol_store_stats_get(struct symbol_store *s, struct symbol_store_stats *out);
