/* SPDX-License-Identifier: Apache-2.0
 * symbol_offer.h - symbol files of this node for the aggregator: asks which Build IDs of the stacks it
 * was sent are needed there, and uploads those files within a budget.
 * A file is read below its process's root by a parser (symbol/symbol_reader.h). It is taken only if it has
 * the content that the stack's identity names (symbol/symbol_content.h). A debug link's file, or another
 * one with the same Build ID, is never sent: nothing proves its names.
 * Whatever fails is counted, and tried again later; nothing here ever keeps the caller waiting.
 * Owns: a thread, which lives as long as there is an aggregator to ask.
 * Threads: one caller.  Trust: files and the aggregator's answers are hostile: bounded, checked. */
#ifndef SYSOM_SIDECAR_STACKS_SYMBOL_OFFER_H
#define SYSOM_SIDECAR_STACKS_SYMBOL_OFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_offer_config {
	const char
	    *url; /* of the aggregator's HTTP: http://HOST:PORT; borrowed until open returns */
	const char *proc_root;	/* "/proc" */
	struct reader *reader;	/* reads the files, borrowed; NULL: one of its own */
	uint64_t bytes_per_s;	/* of uploads */
	uint64_t bytes_per_day; /* 24 hours from the first byte on */
	uint64_t period_ns;	/* between questions; 0: 10 s */
	uint64_t chunk_bytes;	/* 0: 8 MiB */
};

struct symbol_offer_stats {
	uint64_t noted;		/* Build IDs told of, each once */
	uint64_t forgotten;	/* told of while there was no place for more */
	uint64_t asked, needed; /* by the aggregator's answers */
	uint64_t uploaded, uploaded_bytes;
	uint64_t no_file; /* the process ended, or the file has no symbols or another Build ID */
	uint64_t over_budget; /* put off till the day's budget is renewed */
	uint64_t refused;     /* by the aggregator, in the midst of it or at the end */
	uint64_t failed;      /* no answer, or one that is none */
};

struct symbol_offer; /* opaque */

/* "tcp://HOST:9471" of the uplink -> "http://HOST:9472", the two default ports. -EINVAL: anything else, of
 * which nothing is known. */
int symbol_offer_url(const char *uplink_url, char *out, size_t out_bytes);
/* -EINVAL: no http(s) URL; -ENOMEM, -errno of the thread. */
int symbol_offer_open(struct symbol_offer **out, const struct symbol_offer_config *c);
/* Breaks an upload in progress off. NULL is a no-op. */
void symbol_offer_close(struct symbol_offer *o);
/* A stack that was sent has frames of this file: path as the process pid sees it. Cheap; never blocks
 * beyond a lock that is held for some instructions. NULL o, no identity, or no path: a no-op. */
void symbol_offer_note(struct symbol_offer *o, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, uint32_t pid);
/* NULL: zeros. */
void symbol_offer_stats_get(struct symbol_offer *o, struct symbol_offer_stats *out);

#endif
