/* SPDX-License-Identifier: Apache-2.0
 * symbol_store.h - the Build-ID directory: what is needed, uploads in chunks, a file in its place only
 * when it is whole, carries its Build ID and tells more than the one before.
 * DIRECTORY/tree/.build-id/ab/cdef.debug is what debuginfod -F DIRECTORY/tree and gdb read; uploads grow
 * in DIRECTORY/upload, where neither looks, and are renamed after fsync.
 * Owns: DIRECTORY.  Threads: any; finishing reads and syncs the file outside the lock.
 * Trust: uploaders are hostile: sizes, number and idle time of uploads are bounded, names are made from
 * the Build ID's bytes and never taken. A file for an identity (symbol/symbol_content.h) must have its
 * content, so that its names are those of the file that was mapped; one for a Build ID alone is what
 * somebody says. */
#ifndef SYSOM_SYMBOL_SYMBOL_STORE_H
#define SYSOM_SYMBOL_SYMBOL_STORE_H

#include <stdbool.h>

#include "symbol/symbol_elf.h"

struct symbol_store_options {
	const char *directory;	  /* made, one level, where missing */
	uint64_t bytes_max;	  /* of finished and growing files together; 0: no bound */
	uint64_t reserve_bytes;	  /* to be left free on the disk */
	uint64_t idle_ns;	  /* an upload without a byte for so long may be given up; 0: 120 s */
	bool evict;		  /* the longest unused goes when there is no room; false: refuse */
};

struct symbol_store_stats {
	uint64_t files, bytes, evicted, uploading, reserved_bytes, memory_bytes;
	uint64_t begun, finished, replaced, received_bytes;
	uint64_t refused_known;	   /* as good a file is there, or is coming */
	uint64_t refused_room;	   /* too large, disk full, too many at a time */
	uint64_t refused_damaged;  /* not an ELF file, or damaged */
	uint64_t refused_build_id; /* carries another Build ID or none, or other content */
	uint64_t refused_stripped; /* tells less than what was promised, or than what is there */
	uint64_t refused_order;	   /* a chunk that does not follow the last one */
	uint64_t abandoned;	   /* given up for being idle */
};

struct symbol_store; /* opaque */

/* Removes what an earlier run left half uploaded. 0, -ENAMETOOLONG, -ENOMEM, -errno. */
int symbol_store_open(struct symbol_store **out, const struct symbol_store_options *o);
void symbol_store_close(struct symbol_store *s); /* NULL is a no-op */
/* Of the tree, for symbol_resolver_options.directory; borrowed. */
const char *symbol_store_tree(const struct symbol_store *s);

/* Whether a file of that quality would be taken now: better than what is there, and no other on its way. */
bool symbol_store_needed(struct symbol_store *s, const uint8_t *id, size_t id_bytes,
			 enum symbol_quality quality, uint64_t now_ns);
/* The quality of the file that is there; SYMBOL_NONE: none. */
enum symbol_quality symbol_store_quality(struct symbol_store *s, const uint8_t *id, size_t id_bytes);
/* Its names were asked for. */
void symbol_store_use(struct symbol_store *s, const uint8_t *id, size_t id_bytes);

/* Begins an upload of exactly bytes. *session is not 0. -EEXIST: not needed; -EBUSY: on its way from
 * somebody else; -EMFILE: too many at a time; -EFBIG: larger than LIMIT_SYMBOL_FILE_BYTES or bytes_max;
 * -ENOSPC; -EINVAL: no Build ID, no quality, no bytes; -errno. */
int symbol_store_begin(struct symbol_store *s, const uint8_t *id, size_t id_bytes, uint64_t bytes,
		       enum symbol_quality quality, uint64_t now_ns, uint64_t *session);
/* How far it is. -ENOENT: no such upload (finished, given up, or the store was reopened): begin anew. */
int symbol_store_progress(struct symbol_store *s, uint64_t session, uint64_t *have, uint64_t *bytes);
/* The bytes at offset, which must be how far it is. 0; -ENOENT; -ERANGE: another offset is due; -EFBIG:
 * beyond its end; -errno of the disk, after which the upload is gone. */
int symbol_store_append(struct symbol_store *s, uint64_t session, uint64_t offset, const void *data,
			size_t bytes, uint64_t now_ns);
/* Checks the whole file and puts it into its place; the upload is gone whatever comes out, but for
 * -EAGAIN. May take as long as the disk needs for the file. id: of SYMBOL_BUILD_ID_MAX bytes, filled
 * (symbol_resolver_forget wants it); *why: a fixed text for people. 0; -EAGAIN: bytes are missing;
 * -ENOENT; -EBADMSG: refused; -EEXIST: not better than what is there; -errno. */
int symbol_store_finish(struct symbol_store *s, uint64_t session, uint8_t *id, size_t *id_bytes,
			const char **why);
void symbol_store_abort(struct symbol_store *s, uint64_t session);
/* Gives up the uploads that are idle. */
void symbol_store_tend(struct symbol_store *s, uint64_t now_ns);
void symbol_store_stats_get(struct symbol_store *s, struct symbol_store_stats *out);

#endif
