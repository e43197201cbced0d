/* SPDX-License-Identifier: Apache-2.0
 * symbol_index.h - an index file of one file's functions as disjoint address ranges. A search takes
 * O(log n) and at most two reads.
 * Building takes bounded memory for any symbol table: entries are read, sorted and merged through
 * files. An address in nested symbols belongs to the innermost one. An address outside every
 * symbol's size belongs to none. Memory holds the first address of every 256 rows, the latest block
 * and the latest name: 8 bytes per 256 rows and about 8 KiB, not the file.
 * Owns: the descriptor, the buffers.  Threads: one caller.  Trust: the ELF file is hostile. An
 * index file is ours, but every count and offset is checked, because a crash may have truncated
 * it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol_elf.h"

struct symbol_index {
	int fd; /* -1: closed */
	uint64_t row_count, names_bytes, top_count;
	uint64_t *top;		  /* first address of each block */
	struct symbol_row *block; /* the block read last */
	uint64_t block_number;
	char *name;
	size_t name_room;
	bool trusted; /* of the source file: symbol_elf.h */
};

struct symbol_hit {
	const char *name; /* as in the symbol table, cut to the limit; valid until the next find */
	uint64_t begin, size;
	uint32_t plt; /* 1: a PLT slot through which this function is called */
};

/* Writes the index of e (borrowed) to path, through a temporary file beside it and a rename. 0,
 * -EBADMSG (*why), -EFBIG (too many symbols), -errno. */
int symbol_index_build(const struct symbol_elf *e, const char *path, const char **why);
/* Writes the index into out, with two empty files for temporary data. Takes the descriptors in any
 * case. */
int symbol_index_write(const struct symbol_elf *e, int out, int scratch, int runs,
		       const char **why);
/* Makes an unnamed file beside path. A descriptor, -errno. */
int symbol_index_scratch(const char *path);
/* 0; -ENOENT; -EBADMSG: truncated, or not an index of this version: build it again; -ENOMEM,
 * -errno. */
int symbol_index_open(struct symbol_index *x, const char *path);
void symbol_index_close(struct symbol_index *x); /* also if zeroed and never opened */
/* 0, -ENOENT, or -errno if the index could not be read. */
int symbol_index_find(struct symbol_index *x, uint64_t address, struct symbol_hit *out);
size_t symbol_index_memory(const struct symbol_index *x);
