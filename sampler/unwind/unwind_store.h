/* SPDX-License-Identifier: Apache-2.0
 * unwind_store.h - the arena of bpf/unwind_format.h: tables by file, shared between processes,
 * counted, evicted, bounded; and the mappings of each process. Owns: the arena's bookkeeping; the
 * words themselves belong to the backing (plain memory for replay and tests, mmaped BPF arrays for
 * the kernel).  Threads: one caller. Tables are compiled elsewhere (unwind_table.h) and handed
 * over. Lifetime: a file lives while it has references (the caller's and those of published
 * mappings) and stays as a cache until its room is needed, of the user who has most
 * first, and of these the least recently used. A user has at most three quarters of the arena, of the files
 * and of the rules, so that nobody's files keep all others from having tables. Words that
 * were freed are not written before the next unwind_store_quiesce, since a program in the kernel
 * may still read them. */
#ifndef SYSOM_SAMPLER_UNWIND_UNWIND_STORE_H
#define SYSOM_SAMPLER_UNWIND_UNWIND_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind_format.h"
#include "sampler/unwind/unwind_table.h"

/* Where words lie. grow makes shard `shard` (they come in order from 0) with UNWIND_SHARD_WORDS
 * zeroed words that stay until the store is closed: 0 and *words, or -errno. commit, unless NULL,
 * is called after words were written: [first_word, first_word + count) must become visible to
 * readers before it returns (BPF arrays that can't be mmaped). release, unless NULL, takes a
 * shard's words back. */
struct unwind_backing {
	void *context;
	int (*grow)(void *context, uint32_t shard, uint32_t **words);
	int (*commit)(void *context, const uint32_t *words, uint32_t first_word, uint32_t count);
	void (*release)(void *context, uint32_t shard, uint32_t *words);
};
/* calloc and free. */
extern const struct unwind_backing unwind_store_memory;

/* What makes files the same: Build ID and content (symbol/symbol_content.h), else device, inode, mtime and
 * size. */
struct unwind_store_key {
	uint8_t bytes[38];
	uint8_t count; /* of bytes; the rest is 0 */
	uint8_t kind;  /* 1 Build ID and content, 2 device and inode */
};

struct unwind_store_stats {
	uint32_t files, tables, refused; /* files known; with a table; known to have none */
	uint32_t evicted;		 /* since open */
	uint32_t full;			 /* tables or mappings that found no room, since open */
	uint32_t rules;			 /* live */
	uint32_t mapping_sets;		 /* published and not retired */
	uint64_t bytes;	       /* in use by live and cached tables and mappings, and rules */
	uint64_t bytes_backed; /* of all shards */
};

struct unwind_store;
/* bytes_max is rounded up to whole shards of 4 MiB, at least one, at most UNWIND_SHARD_MAX. backing
 * is copied. 0, -EINVAL, -ENOMEM, or what grow says. */
int unwind_store_open(struct unwind_store **out, const struct unwind_backing *backing,
		      size_t bytes_max);
void unwind_store_close(struct unwind_store *s); /* NULL is a no-op */

/* Files. The numbers are > 0 and are used again only after a quiesce. find and add take a
 * reference, unref gives one back. find: 0 or -ENOENT. add: t NULL: a file that has no table
 * (remembered as such, so that it isn't tried again). 0; -ENOSPC: no room even after eviction (then
 * nothing is remembered); -E2BIG: too many files; -EEXIST: known already (see find); -ENOMEM. */
int unwind_store_find(struct unwind_store *s, const struct unwind_store_key *key, uint32_t *file);
int unwind_store_add(struct unwind_store *s, const struct unwind_store_key *key,
		     const struct unwind_table *t, uint32_t *file);
/* A file whose table is not there yet (it is being compiled): numbered, without a table. set_table
 * gives it one later (or NULL: none); the caller then publishes again the mappings that use it. Both are
 * on account of a user, the file on that of the latest (add: on nobody's). -EDQUOT: the user has three
 * quarters; another may still bring the table. */
int unwind_store_reserve(struct unwind_store *s, const struct unwind_store_key *key, uint32_t uid,
			 uint32_t *file);
int unwind_store_set_table(struct unwind_store *s, uint32_t file, uint32_t uid,
			   const struct unwind_table *t);
bool unwind_store_has_table(const struct unwind_store *s, uint32_t file);
void unwind_store_ref(struct unwind_store *s, uint32_t file);
void unwind_store_unref(struct unwind_store *s, uint32_t file);

/* Fills in one executable mapping of [begin, end), page-aligned, of `file` (0: anonymous), whose
 * ELF virtual address v lies at v + load_bias. */
void unwind_store_mapping(const struct unwind_store *s, uint32_t file, uint64_t begin, uint64_t end,
			  uint64_t load_bias, struct unwind_mapping *out);
/* Sorts (in place) and writes a process's mappings and takes a reference on each one's file.
 * Neighbours that are anonymous are joined. More than UNWIND_MAPPING_MAX: the first ones by
 * address, and the rest is added to *dropped (may be NULL). 0 and *out, which the caller then gives
 * to the kernel; -ENOSPC. */
int unwind_store_publish(struct unwind_store *s, struct unwind_mapping *mappings, uint32_t count,
			 struct unwind_process *out, uint32_t *dropped);
/* The mappings are not named by the kernel any more. *p becomes empty; an empty one is a no-op. */
void unwind_store_retire(struct unwind_store *s, struct unwind_process *p);
/* Every program that began before the last retire or unref has ended (a grace period has passed,
 * e.g. one drain interval): what was freed may be written again. */
void unwind_store_quiesce(struct unwind_store *s);

/* The chunk that holds a word, NULL outside: what unwind_chunk_of is in user space. */
struct unwind_chunk *unwind_store_chunk(const struct unwind_store *s, uint32_t word);
void unwind_store_stats_get(const struct unwind_store *s, struct unwind_store_stats *out);

#endif
