/* SPDX-License-Identifier: Apache-2.0
 * spool.h - keep windows on disk until the aggregator has committed them, so that neither its
 * absence nor a restart of sysomd loses one (INV-5). Each message is a file, written to a temporary
 * name, synced and renamed. If the disk is full or missing, messages wait in memory, within a
 * separate bound.
 * Size and age are bounded; the oldest are dropped first and counted. now_ns is CLOCK_BOOTTIME.
 * Owns: the files *.msg of its directory. Threads: one caller. Trust: files may be anything; size
 * and kind are checked before they are offered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most messages at a time: more than an hour at one per second. */
#define SPOOL_ENTRIES_MAX 4096u
/* Memory for messages while the disk is unusable: room for a few of the largest. */
#define SPOOL_MEMORY_BYTES (32u << 20)

struct spool_config {
	const char *dir; /* borrowed during open; NULL or "": memory only */
	uint64_t bytes_max, age_max_ns;
	uint32_t boot; /* differs for each boot: spool_boot(), or a test's value */
};

struct spool_stats {
	uint64_t bytes, count; /* held now */
	uint64_t memory_bytes; /* bytes of messages in memory */
	uint64_t dropped_full, dropped_age, dropped_bad, dropped_memory; /* since open */
	uint64_t disk_errors;
	int disk_error; /* the last one, -errno; 0 after a success */
};

struct spool; /* opaque */
/* Identifies this boot of the machine; 0 if the kernel does not say. */
uint32_t spool_boot(void);
/* Takes over the files of an earlier run. An unusable directory is not an error: see disk_error. */
int spool_open(struct spool **out, const struct spool_config *c, uint64_t now_ns);
void spool_close(struct spool *s); /* keeps the files; messages that are only in memory are lost */
/* Copies data. 0: on disk; 1: in memory; -EMSGSIZE, -ENOSPC (no room in memory either; counted). */
int spool_put(struct spool *s, const void *data, size_t bytes, uint64_t now_ns);
/* The oldest message; *key names it. 0, -ENOMEM, -ENOENT when there is none. *data is malloc'ed. */
int spool_peek(struct spool *s, void **data, size_t *bytes, uint64_t *key);
/* Drops a message that was delivered or rejected. An unknown key is a no-op. */
void spool_drop(struct spool *s, uint64_t key);
/* Drops old messages, and moves messages from memory to disk once the disk works again. */
void spool_tend(struct spool *s, uint64_t now_ns);
void spool_stats(const struct spool *s, struct spool_stats *out);
