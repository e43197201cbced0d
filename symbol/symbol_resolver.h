/* SPDX-License-Identifier: Apache-2.0
 * symbol_resolver.h - names for (Build ID, address), late and by the file that carries that Build ID.
 * Files come from a Build-ID directory (.build-id/ab/cdef.debug), the mapped file itself or its debug
 * link, the system's debug directory, or debuginfod. Each is indexed once into a sorted file of our
 * own, which is searched in O(log n) by two reads; memory is bounded by the cache's size, not by the
 * files'. A name is given only if the address lies within the symbol's size: never the nearest lower
 * one.
 * Owns: the index files below its directory, the cache.  Threads: one caller per resolver.
 * Trust: files are hostile: bounded, validated, refused with a reason. */
#ifndef SYSOM_SYMBOL_SYMBOL_RESOLVER_H
#define SYSOM_SYMBOL_SYMBOL_RESOLVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_content.h"

struct symbol_resolver_options {
	const char *directory;	/* with .build-id below; NULL: none */
	const char *index_dir;	/* of index files; NULL: a private one, removed on close */
	const char *debug_root; /* of the system's debug files; NULL: /usr/lib/debug */
	bool links; /* symbol_source.h: files beside a path count by their Build ID alone */
	bool debuginfod;	/* ask the servers of DEBUGINFOD_URLS; may block for its timeout */
	size_t cache_bytes_max; /* of memory for open indexes; 0: 64 MiB */
	uint64_t index_bytes_max; /* of index files on disk, the longest unused goes; 0: 4 GiB */
	const atomic_bool *stop;  /* gives a download up once it is true; NULL: never */
	/* Makes the index file of what path leads to, in place of this process, which then opens no path
	 * of its callers'. 0, -ENODATA, -EBADMSG, -errno. NULL: this process does. */
	int (*index)(void *arg, const uint8_t *build_id, size_t build_id_bytes, const char *path,
		     const char *index);
	void *index_arg;
};

struct symbol_name {
	const char *function; /* demangled (C++, Rust); borrowed until the next call */
	const char *raw;      /* as in the symbol table; borrowed until the next call */
	uint64_t begin, size; /* of the symbol, ELF virtual addresses */
	bool proven; /* of a file with the very content, or of the system's debug directory; false: of one
		      * that says it has this Build ID */
};

struct symbol_resolver_stats {
	uint64_t found, no_symbol, no_file, refused; /* answers */
	uint64_t unproven;			     /* of found */
	uint64_t built, opened, evicted;	     /* indexes */
	uint64_t cached, cached_bytes;		     /* indexes open, and their memory */
	uint64_t index_files, index_bytes, index_evicted; /* on disk */
};

struct symbol_resolver;
/* 0, -EINVAL, -errno of the directories. */
int symbol_resolver_open(struct symbol_resolver **out, const struct symbol_resolver_options *o);
void symbol_resolver_close(struct symbol_resolver *r); /* NULL is a no-op */
/* build_id: an identity (symbol/symbol_content.h) or a Build ID alone. path: where the file may be
 * found from here (with the process's root in front), or NULL. A file with the identity's content
 * comes first; what it does not name is looked for in files with that Build ID, and is not proven.
 * Without a Build ID (build_id_bytes 0) the path alone decides. address: ELF virtual address,
 * already minus 1 for return addresses. 0; -ENOENT: file known, no symbol covers the address;
 * -ENODATA: no file for this Build ID; -EBADMSG: the file was refused (symbol_resolver_why). */
int symbol_resolver_find(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes,
			 const char *path, uint64_t address, struct symbol_name *out);
/* A better file for this Build ID has come: what is known of it is dropped. */
void symbol_resolver_forget(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes);
const char *symbol_resolver_why(const struct symbol_resolver *r); /* of the last -EBADMSG */
void symbol_resolver_stats_get(const struct symbol_resolver *r, struct symbol_resolver_stats *out);

#endif
