/* SPDX-License-Identifier: Apache-2.0
 * symbol_resolver.h - names for (Build ID, address), late and by the file that carries that Build ID.
 * Files come from a Build-ID directory (.build-id/ab/cdef...), a debug link beside the mapped file,
 * or debuginfod. Each file is indexed once into a sorted on-disk index, which is mapped and searched
 * in O(log n); memory is bounded by the cache's size, not by the files'. A name is given only if the
 * address lies within the symbol's size, or within the function's range in DWARF: never the nearest
 * lower one.
 * Owns: the index files below its directory, the cache.  Threads: one caller per resolver.
 * Trust: files are hostile: bounded, validated, refused with a reason. */
#ifndef SYSOM_SYMBOL_SYMBOL_RESOLVER_H
#define SYSOM_SYMBOL_SYMBOL_RESOLVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_resolver_options {
	const char *directory;  /* the Build-ID directory; NULL: none */
	const char *index_dir;  /* of index files; NULL: directory, or memory-only when that is NULL too */
	bool debuginfod;        /* ask the servers of DEBUGINFOD_URLS */
	size_t cache_bytes_max; /* of open indexes, default 64 MiB */
};

struct symbol_name {
	const char *function; /* demangled; borrowed until the next call */
	const char *raw;      /* as in the symbol table */
	const char *file;     /* "" without line information */
	uint32_t line;        /* 0 without */
	uint64_t begin, size; /* of the symbol, ELF virtual addresses */
};

struct symbol_resolver;
int symbol_resolver_open(struct symbol_resolver **out, const struct symbol_resolver_options *o);
void symbol_resolver_close(struct symbol_resolver *r);
/* path: where the file may be found (as the mapping names it, with the process's root in front), or
 * NULL. Its Build ID must match. address: ELF virtual address, already minus 1 for return addresses.
 * 0; -ENOENT: file known, no symbol covers the address; -ENODATA: no file for this Build ID;
 * -EBADMSG: the file was refused. */
int symbol_resolver_find(struct symbol_resolver *r, const uint8_t *build_id, size_t build_id_bytes,
			 const char *path, uint64_t address, struct symbol_name *out);

#endif
