/* SPDX-License-Identifier: Apache-2.0
 * symbol_resolver.h - names for (Build ID, address), looked up when they are needed, in the file
 * with that Build ID. Files come from a Build-ID directory (.build-id/ab/cdef.debug), the mapped
 * file itself or its debug link, the system's debug directory, or debuginfod. Each is indexed once
 * into a sorted file of our own. A search takes O(log n) and two reads; memory is bounded by the
 * size of the cache, not of the files. An address gets a name only inside the symbol's size, never
 * the name of the nearest lower symbol.
 * Owns: the index files below its directory, the cache.  Threads: one caller per resolver.
 * Trust: files are hostile: bounded, validated, refused with a reason. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_content.h"

struct symbol_resolver_options {
	const char *directory;	/* contains .build-id; NULL: none */
	const char *index_dir;	/* for index files; NULL: a private one, removed on close */
	const char *debug_root; /* the system's debug files; NULL: /usr/lib/debug */
	bool links;	 /* symbol_source.h: accept files beside a path by their Build ID alone */
	bool debuginfod; /* ask the servers of DEBUGINFOD_URLS; may block for its timeout */
	size_t cache_bytes_max;	  /* memory of open indexes; 0: 64 MiB */
	uint64_t index_bytes_max; /* bytes of index files on disk, the least recently used go first;
				   * 0: 4 GiB */
	const atomic_bool *stop;  /* cancels a download when true; NULL: never */
	/* Builds the index file of a path in another process, so that this one never opens a path
	 * that callers supply. 0, -ENODATA, -EBADMSG, -errno. NULL: this process builds. */
	int (*index)(void *arg, const uint8_t *build_id, size_t build_id_bytes, const char *path,
		     const char *index);
	void *index_arg;
};

struct symbol_name {
	const char *function; /* demangled (C++, Rust); borrowed until the next call */
	const char *raw;      /* as in the symbol table; borrowed until the next call */
	uint64_t begin, size; /* of the symbol, ELF virtual addresses */
	bool proven; /* the file's content is proven, or it is from the system's debug directory;
		      * false: it only claims this Build ID */
};

struct symbol_resolver_stats {
	uint64_t found, no_file, refused;  /* results of searches */
	uint64_t built, opened, evicted;   /* indexes */
	uint64_t cached, cached_bytes;	   /* open indexes, and their memory */
	uint64_t index_files, index_bytes; /* on disk */
};

struct symbol_resolver;
/* 0, -ENAMETOOLONG, -ENOMEM, -errno of the directories. */
int symbol_resolver_open(struct symbol_resolver **out, const struct symbol_resolver_options *o);
void symbol_resolver_close(struct symbol_resolver *r); /* NULL is a no-op */
/* build_id: an identity (symbol/symbol_content.h) or a Build ID alone. path: where this process can
 * find the file (with the process's root in front), or NULL. A file with the identity's content
 * comes first. Then files with the same Build ID are searched, whose names are not proven. Without
 * a Build ID (build_id_bytes 0) only the path counts. address: ELF virtual address, already minus 1
 * for return addresses. 0; -ENOENT: the file is known, but no symbol covers the address; -ENODATA:
 * no file for this Build ID; -EBADMSG: the file was refused (symbol_resolver_why); -ENOMEM. */
int symbol_resolver_find(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes,
			 const char *path, uint64_t address, struct symbol_name *out);
/* Call when a better file for this Build ID has arrived: drops what is cached. */
void symbol_resolver_forget(struct symbol_resolver *r, const uint8_t *build_id,
			    size_t build_id_bytes);
const char *symbol_resolver_why(const struct symbol_resolver *r); /* reason of the last -EBADMSG */
void symbol_resolver_stats_get(const struct symbol_resolver *r, struct symbol_resolver_stats *out);
