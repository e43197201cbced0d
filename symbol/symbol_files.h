/* SPDX-License-Identifier: Apache-2.0
 * symbol_files.h - a directory of files named by Build ID or identity (ab/cdef + suffix), with a
 * bounded size and number of files. The least recently used file is removed when there is no room.
 * Memory: about 80 bytes per file. The time of last use is kept as the file's access time, so that it
 * survives a restart.
 * Owns: the files below its directory, the table.  Threads: one caller.
 * Trust: Build IDs come from peers: they are hashed with our own seed, and file names are made from
 * their hex digits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_content.h"

/* A Build ID of at most 20 bytes, or an identity (symbol/symbol_content.h). */
#define SYMBOL_FILES_ID_MAX SYMBOL_ID_MAX

struct symbol_files_item {
	uint8_t id[SYMBOL_FILES_ID_MAX];
	uint8_t id_bytes;
	uint8_t quality; /* the caller's; 0: not known yet */
	uint16_t pad;
	uint32_t used_s; /* CLOCK_REALTIME */
	uint32_t kept_s; /* access time of the file */
	uint64_t bytes;
};

struct symbol_files; /* opaque */

/* Makes dir (one level) if it is missing, and reads its files. bytes_max 0: unbounded. 0,
 * -ENAMETOOLONG, -ENOMEM, -errno of the directory. */
int symbol_files_open(struct symbol_files **out, const char *dir, const char *suffix,
		      uint64_t bytes_max);
void symbol_files_close(struct symbol_files *s); /* NULL is a no-op; the files stay */
/* -EINVAL: a Build ID of less than 2 bytes. Longer ones are cut. -ENAMETOOLONG. */
int symbol_files_path(const struct symbol_files *s, const uint8_t *id, size_t id_bytes, char *out,
		      size_t out_bytes);
/* Makes the subdirectory for this Build ID if it is missing. 0, -errno. */
int symbol_files_prepare(struct symbol_files *s, const uint8_t *id, size_t id_bytes);
/* NULL: not present. Valid until the next call that adds or removes. */
struct symbol_files_item *symbol_files_find(struct symbol_files *s, const uint8_t *id,
					    size_t id_bytes);
/* Notes that the file is used now. */
void symbol_files_use(struct symbol_files *s, struct symbol_files_item *i);
/* Adds a file that the caller has written or replaced. NULL: no memory. */
struct symbol_files_item *symbol_files_put(struct symbol_files *s, const uint8_t *id,
					   size_t id_bytes, uint64_t bytes);
void symbol_files_remove(struct symbol_files *s, const uint8_t *id, size_t id_bytes);
/* Makes room for `bytes` and one file; if `evict` is set, by removing the least recently used
 * files. 0, -ENOMEM, -ENOSPC: there is no room. */
int symbol_files_make_room(struct symbol_files *s, uint64_t bytes, bool evict);

struct symbol_files_stats {
	uint64_t files, bytes, evicted, memory_bytes;
};
void symbol_files_stats_get(const struct symbol_files *s, struct symbol_files_stats *out);
