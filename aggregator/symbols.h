/* SPDX-License-Identifier: Apache-2.0
 * symbols.h - the aggregator's answers about symbols: which files are needed, uploads, names.
 * Requests and answers are JSON texts (docs/INTERFACES.md); HTTP is aggregator/api/api_symbols.c.
 * Owns: the store and the resolver over it. Threads: needed, begin, finish and symbolize one at a
 * time (the worker of aggregator/api/api_symbols.c), because reading and syncing files takes long;
 * everything else any. Trust: every body is hostile: its size, depth and counts, and the answer's
 * size, are bounded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "symbol/symbol_resolver.h"
#include "symbol/symbol_store.h"

struct symbols_config {
	const char *dir;
	bool upload; /* accept files */
	bool evict;
	bool debuginfod;
	uint64_t max_bytes, index_max_bytes, reserve_bytes;
};

struct symbols; /* opaque */

int symbols_open(struct symbols **out, const struct symbols_config *c);
void symbols_close(struct symbols *s); /* NULL is a no-op */
/* Ends a download in progress soon; any thread. */
void symbols_stop(struct symbols *s);

/* Each returns the HTTP status and appends the answer to out, which the caller has initialised. */
unsigned symbols_needed(struct symbols *s, const void *body, size_t bytes, struct buf *out);
unsigned symbols_begin(struct symbols *s, const void *body, size_t bytes, struct buf *out);
unsigned symbols_finish(struct symbols *s, uint64_t session, struct buf *out);
unsigned symbols_symbolize(struct symbols *s, const void *body, size_t bytes, struct buf *out);
/* After a chunk: the upload's progress, or the error of symbols_append. */
unsigned symbols_chunk_answer(struct symbols *s, uint64_t session, int err, struct buf *out);

/* See symbol_store_append. */
int symbols_append(struct symbols *s, uint64_t session, uint64_t offset, const void *data,
		   size_t bytes);
/* Whether every byte of the upload has arrived. */
bool symbols_complete(struct symbols *s, uint64_t session);
void symbols_abort(struct symbols *s, uint64_t session);
void symbols_tend(struct symbols *s);

/* The function at an ELF address, from local files only. false: unknown. Any thread; callers take
 * turns. */
bool symbols_name(struct symbols *s, const uint8_t *build_id, size_t build_id_bytes,
		  uint64_t address, char *out, size_t out_bytes);

struct symbols_stats {
	struct symbol_store_stats store;
	struct symbol_resolver_stats resolver; /* as of the last answer */
	uint64_t asked_addresses, named_addresses;
};
void symbols_stats(struct symbols *s, struct symbols_stats *out); /* any thread */
unsigned symbols_status(struct symbols *s, struct buf *out);	  /* any thread */
