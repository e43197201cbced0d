/* SPDX-License-Identifier: Apache-2.0
 * symbol_index.h - one file's functions as disjoint address ranges in a file of our own, mapped and
 * searched in O(log n).
 * Built in bounded memory however large the symbol table is: entries are read, sorted and merged
 * through files. The innermost of nested symbols owns an address; an address that no symbol's size
 * covers belongs to nobody.
 * Owns: the mapping.  Threads: any for lookups.  Trust: the ELF file is hostile; an index file is ours,
 * yet checked on opening, since a crash may have cut it. */
#ifndef SYSOM_SYMBOL_SYMBOL_INDEX_H
#define SYSOM_SYMBOL_SYMBOL_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_elf.h"

struct symbol_index {
	const void *map;
	size_t map_bytes;
	const struct symbol_row *rows;
	uint64_t row_count;
	const char *names;
	uint64_t names_bytes;
	enum symbol_quality quality;
};

struct symbol_hit {
	const char *name; /* as in the symbol table; borrowed from the index */
	uint64_t begin, size;
	uint32_t plt; /* 1: a PLT slot through which that function is called */
};

/* Writes the index of e (borrowed) to path, by a temporary file beside it and a rename.
 * 0, -EBADMSG (*why), -EFBIG (too many symbols), -errno. */
int symbol_index_build(const struct symbol_elf *e, const char *path, const char **why);
/* 0; -ENOENT; -EBADMSG: not an index of this version, or cut: build it again. */
int symbol_index_open(struct symbol_index *x, const char *path);
void symbol_index_close(struct symbol_index *x);
/* 0 or -ENOENT. */
int symbol_index_find(const struct symbol_index *x, uint64_t address, struct symbol_hit *out);

#endif
