/* SPDX-License-Identifier: Apache-2.0
 * symbol_offer.h - upload this node's symbol files to the aggregator. Asks the aggregator which
 * Build IDs of sent stacks it needs, and uploads those files within a budget. A parser process
 * reads a file below its process's root (symbol/symbol_reader.h). The file is used only if its
 * content is what the stack's identity states (symbol/symbol_content.h). A debug link's file, or
 * another file with the same Build ID, is never sent: nothing proves its names.
 * Failures are counted and tried again later. No call makes the caller wait.
 * Owns: a thread, while there is an aggregator to ask.
 * Threads: one caller. Trust: files and the aggregator's answers are hostile: bounded, checked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol_offer_config {
	const char
	    *url; /* the aggregator's HTTP server, http://HOST:PORT; borrowed until open returns */
	const char *ca;		/* PEM file, borrowed; NULL or "": the system's */
	const char *token_file; /* base/daemon/secret_file.h, borrowed; NULL or "": none */
	const char *proc_root;	/* "/proc" */
	struct reader *reader;	/* reads the files, borrowed; NULL: one of its own */
	uint64_t bytes_per_s;	/* limit of uploads */
	uint64_t bytes_per_day; /* limit of 24 hours from the first byte on */
	uint64_t period_ns;	/* time between questions; 0: 10 s */
	uint64_t chunk_bytes;	/* 0: 8 MiB */
};

#define SYMBOL_OFFER_FAULT_BYTES 256

struct symbol_offer_stats {
	uint64_t noted;	    /* different Build IDs passed to symbol_offer_note */
	uint64_t forgotten; /* Build IDs passed when there was no place */
	/* asked: Build IDs that the aggregator was asked about; needed: those that it needs */
	uint64_t asked, needed;
	uint64_t uploaded, uploaded_bytes;
	uint64_t no_file; /* the process ended, or the file has no symbols or another Build ID */
	uint64_t over_budget; /* delayed until the day's budget is renewed */
	uint64_t refused;     /* the aggregator refused it, during or after the upload */
	uint64_t failed;      /* no answer, or an invalid one */
	/* why files are not uploaded at present; "": nothing is known to be wrong */
	char fault[SYMBOL_OFFER_FAULT_BYTES];
};

struct symbol_offer; /* opaque */

/* "tcp://HOST:9471" of the uplink -> "http://HOST:9472", the two default ports. -EINVAL: any other
 * URL, whose HTTP port is unknown. */
int symbol_offer_url(const char *uplink_url, char *out, size_t out_bytes);
/* -EINVAL: not an http(s) URL; -ENOMEM, -errno of the thread. */
int symbol_offer_open(struct symbol_offer **out, const struct symbol_offer_config *c);
/* Stops an upload in progress. NULL is a no-op. */
void symbol_offer_close(struct symbol_offer *o);
/* Notes that a sent stack has frames of this file; path as the process pid sees it. Cheap; blocks
 * only for a lock held briefly. NULL o, no identity, or no path: a no-op. */
void symbol_offer_note(struct symbol_offer *o, const uint8_t *build_id, size_t build_id_bytes,
		       const char *path, uint32_t pid);
/* NULL: zeros. */
void symbol_offer_stats_get(struct symbol_offer *o, struct symbol_offer_stats *out);
