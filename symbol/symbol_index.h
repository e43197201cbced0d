/* SPDX-License-Identifier: Apache-2.0
 * symbol_index.h - one file's functions as disjoint address ranges in a file of our own, searched in
 * O(log n) with at most two reads.
 * Built in bounded memory however large the symbol table is: entries are read, sorted and merged
 * through files. The innermost of nested symbols owns an address; an address that no symbol's size
 * covers belongs to nobody. In memory stay the first address of every 256 rows, the last block read and
 * the last name: 8 bytes per 256 rows and about 8 KiB, not the file.
 * Owns: the descriptor, the buffers.  Threads: one caller.  Trust: the ELF file is hostile; an index
 * file is ours, yet every count and offset is checked, since a crash may have cut it. */
#ifndef SYSOM_SYMBOL_SYMBOL_INDEX_H
#define SYSOM_SYMBOL_SYMBOL_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_elf.h"

struct symbol_index {
	int fd; /* -1: closed */
	uint64_t row_count, names_bytes, top_count;
	uint64_t *top; /* first address of each block */
	struct symbol_row *block; /* the one read last */
	uint64_t block_number;
	char *name;
	size_t name_room;
	enum symbol_quality quality;
	bool trusted; /* of the file it was made from: symbol_elf.h */
};

struct symbol_hit {
	const char *name; /* as in the symbol table, cut to its limit; until the next find */
	uint64_t begin, size;
	uint32_t plt; /* 1: a PLT slot through which that function is called */
};

/* Writes the index of e (borrowed) to path, by a temporary file beside it and a rename.
 * 0, -EBADMSG (*why), -EFBIG (too many symbols), -errno. */
int symbol_index_build(const struct symbol_elf *e, const char *path, const char **why);
/* The same into out, with two empty files for what comes between. Takes the descriptors in any case. */
int symbol_index_write(const struct symbol_elf *e, int out, int scratch, int runs, const char **why);
/* A file without a name beside path. A descriptor, -errno. */
int symbol_index_scratch(const char *path);
/* 0; -ENOENT; -EBADMSG: not an index of this version, or cut: build it again. */
int symbol_index_open(struct symbol_index *x, const char *path);
void symbol_index_close(struct symbol_index *x); /* also of one that was never opened, if zeroed */
/* 0, -ENOENT, or -errno where the index could not be read. */
int symbol_index_find(struct symbol_index *x, uint64_t address, struct symbol_hit *out);
/* What it takes in memory. */
size_t symbol_index_memory(const struct symbol_index *x);

#endif
