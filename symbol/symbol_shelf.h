/* SPDX-License-Identifier: Apache-2.0
 * symbol_shelf.h - a directory of files named by Build ID or identity (ab/cdef + suffix) whose bytes and
 * number are bounded: the longest unused goes when there is no room.
 * In memory some 80 bytes per file; the last use is kept as the file's access time, so that it
 * survives.
 * Owns: the files below its directory, the table.  Threads: one caller.
 * Trust: Build IDs come from peers: hashed with a seed of our own; names are made from their digits. */
#ifndef SYSOM_SYMBOL_SYMBOL_SHELF_H
#define SYSOM_SYMBOL_SYMBOL_SHELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_content.h"

/* A Build ID of at most 20 bytes, or an identity (symbol/symbol_content.h). */
#define SYMBOL_SHELF_ID_MAX SYMBOL_ID_MAX

struct symbol_shelf_item {
	uint8_t id[SYMBOL_SHELF_ID_MAX];
	uint8_t id_bytes;
	uint8_t quality;  /* the user's: 0 not known yet */
	uint16_t pad;
	uint32_t used_s;  /* CLOCK_REALTIME */
	uint32_t kept_s;  /* what the file's access time says */
	uint64_t bytes;
};

struct symbol_shelf; /* opaque */

/* Makes dir (one level) where it is missing and reads what is there. bytes_max 0: unbounded.
 * 0, -ENAMETOOLONG, -ENOMEM, -errno of the directory. */
int symbol_shelf_open(struct symbol_shelf **out, const char *dir, const char *suffix,
		      uint64_t bytes_max);
void symbol_shelf_close(struct symbol_shelf *s); /* NULL is a no-op; the files stay */
/* -EINVAL: a Build ID of less than 2 bytes; longer ones are cut. -ENAMETOOLONG. */
int symbol_shelf_path(const struct symbol_shelf *s, const uint8_t *id, size_t id_bytes, char *out,
		      size_t out_bytes);
/* The subdirectory for this Build ID, made where missing. 0, -errno. */
int symbol_shelf_prepare(struct symbol_shelf *s, const uint8_t *id, size_t id_bytes);
/* NULL: not there. Valid until the next call that adds or removes. */
struct symbol_shelf_item *symbol_shelf_find(struct symbol_shelf *s, const uint8_t *id, size_t id_bytes);
/* The file is in use now. */
void symbol_shelf_use(struct symbol_shelf *s, struct symbol_shelf_item *i);
/* A file of that name has come, or was replaced; the caller wrote it. NULL: no memory. */
struct symbol_shelf_item *symbol_shelf_put(struct symbol_shelf *s, const uint8_t *id, size_t id_bytes,
					   uint64_t bytes);
void symbol_shelf_remove(struct symbol_shelf *s, const uint8_t *id, size_t id_bytes);
/* Until bytes more and one file more fit: removes the longest unused where evict says so.
 * 0, -ENOSPC: there is no room and none can be made. */
int symbol_shelf_make_room(struct symbol_shelf *s, uint64_t bytes, bool evict);

struct symbol_shelf_stats {
	uint64_t files, bytes, evicted, evicted_bytes, memory_bytes;
};
void symbol_shelf_stats_get(const struct symbol_shelf *s, struct symbol_shelf_stats *out);

#endif
