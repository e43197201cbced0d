/* SPDX-License-Identifier: Apache-2.0
 * unwind_store.h - the arena of bpf/unwind_format.h. It holds tables by file (shared between
 * processes, reference-counted, evicted, bounded) and the mappings of each process. Owns: the
 * arena's bookkeeping; the words belong to the backing (plain memory for replay and tests, mmaped
 * BPF arrays for the kernel). Threads: one caller. Tables are compiled elsewhere (unwind_table.h)
 * and copied in.
 * Lifetime: a file lives while it has references (the caller's and those of published mappings).
 * After that it stays cached until its room is needed. Eviction takes the user with the most files
 * first, and of these the least recently used file. One user gets at most three quarters of the
 * arena, of the files and of the rules, so that nobody can deny tables to all others. Freed words
 * are not written before the next unwind_store_quiesce, because a program in the kernel may still
 * read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind_format.h"
#include "sampler/unwind/unwind_table.h"

/* Provides the words. grow makes shard `shard` (in order from 0) with UNWIND_SHARD_WORDS zeroed
 * words that stay until the store is closed: 0 and *words, or -errno. commit, unless NULL, is
 * called after words were written: before it returns, [first_word, first_word + count) must be
 * visible to readers (BPF arrays that cannot be mmaped). release, unless NULL, takes a shard's
 * words back. */
struct unwind_backing {
	void *context;
	int (*grow)(void *context, uint32_t shard, uint32_t **words);
	int (*commit)(void *context, const uint32_t *words, uint32_t first_word, uint32_t count);
	void (*release)(void *context, uint32_t shard, uint32_t *words);
};
/* Uses calloc and free. */
extern const struct unwind_backing unwind_store_memory;

/* The identity of a file: Build ID and content (symbol/symbol_content.h), else device, inode, mtime
 * and size. */
struct unwind_store_key {
	uint8_t bytes[38];
	uint8_t count; /* number of bytes used; the rest is 0 */
	uint8_t kind;  /* 1 Build ID and content, 2 device and inode */
};

struct unwind_store_stats {
	/* files: known; tables: with a table; refused: known to have none */
	uint32_t files, tables, refused;
	uint32_t evicted; /* since open */
	uint32_t full;	  /* tables or mappings without room, since open */
	uint32_t rules;	  /* live */
	uint64_t bytes;	  /* used by live and cached tables, mappings and rules */
};

struct unwind_store;
/* bytes_max is rounded up to whole shards of 4 MiB, at least one, at most UNWIND_SHARD_MAX. backing
 * is copied. 0, -EINVAL, -ENOMEM, or the error of grow. */
int unwind_store_open(struct unwind_store **out, const struct unwind_backing *backing,
		      size_t bytes_max);
void unwind_store_close(struct unwind_store *s); /* NULL is a no-op */

/* Files. The numbers are > 0 and are reused only after a quiesce. find and add take a reference,
 * unref releases one. find: 0 or -ENOENT. add: t NULL: the file has no table, which is remembered
 * so that nobody tries again. 0; -ENOSPC: no room even after eviction (then nothing is remembered);
 * -E2BIG: too many files; -EEXIST: already known (see find); -ENOMEM. */
int unwind_store_find(struct unwind_store *s, const struct unwind_store_key *key, uint32_t *file);
int unwind_store_add(struct unwind_store *s, const struct unwind_store_key *key,
		     const struct unwind_table *t, uint32_t *file);
/* A file whose table is still being compiled: it gets a number but no table. set_table adds the
 * table later (NULL: none); the caller then republishes the mappings that use it. The file is
 * charged to the user of the latest of these calls; add charges nobody. -EDQUOT: this user already
 * has three quarters, but another user may still supply the table. -ENOMEM. */
int unwind_store_reserve(struct unwind_store *s, const struct unwind_store_key *key, uint32_t uid,
			 uint32_t *file);
int unwind_store_set_table(struct unwind_store *s, uint32_t file, uint32_t uid,
			   const struct unwind_table *t);
bool unwind_store_has_table(const struct unwind_store *s, uint32_t file);
void unwind_store_ref(struct unwind_store *s, uint32_t file);
void unwind_store_unref(struct unwind_store *s, uint32_t file);

/* Fills in one executable mapping of [begin, end), page-aligned, of `file` (0: anonymous). An ELF
 * virtual address v is at v + load_bias. */
void unwind_store_mapping(const struct unwind_store *s, uint32_t file, uint64_t begin, uint64_t end,
			  uint64_t load_bias, struct unwind_mapping *out);
/* Sorts (in place) and writes a process's mappings, and takes a reference on each file. Joins
 * anonymous neighbours. With more than UNWIND_MAPPING_MAX it keeps the first ones by address and
 * adds the rest to *dropped (may be NULL). 0 and *out, which the caller then gives to the kernel;
 * -ENOSPC. */
int unwind_store_publish(struct unwind_store *s, struct unwind_mapping *mappings, uint32_t count,
			 struct unwind_process *out, uint32_t *dropped);
/* Call when the kernel does not use these mappings any more. *p becomes empty; an empty *p is a
 * no-op. */
void unwind_store_retire(struct unwind_store *s, struct unwind_process *p);
/* Call when every program that began before the last retire or unref has ended (after a grace
 * period, such as one drain interval): freed words may then be written again. */
void unwind_store_quiesce(struct unwind_store *s);

/* The chunk that contains a word, NULL outside: unwind_chunk_of for user space. */
struct unwind_chunk *unwind_store_chunk(const struct unwind_store *s, uint32_t word);
void unwind_store_stats_get(const struct unwind_store *s, struct unwind_store_stats *out);
