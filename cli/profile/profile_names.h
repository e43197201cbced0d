/* SPDX-License-Identifier: Apache-2.0
 * profile_names.h - names the frames of a stack batch.
 * Owns: the names it made and the resolver; borrows the batch for its life.  Threads: one caller. */
#pragma once

#include "cli/profile/symbol_client.h"
#include "model/stack.h"
#include "symbol/symbol_reader.h"
#include "symbol/symbol_resolver.h"

struct profile_name {
	const char *function; /* never empty: "[libx.so]" for a native frame without a symbol */
	const char *raw;      /* mangled; = function if that is not mangled */
	const char *module;   /* base name of the file, "[kernel]", "[python]", "[jit]" */
	const char *file;     /* source; "" unknown */
	uint32_t line;	      /* 0 unknown */
	uint8_t kind, flags;  /* of the frame */
	bool resolved;
};

struct profile_names;

/* Takes the resolver, on failure too; NULL: only the batch's own names. proc_root: a living process's files
 * are at PROC_ROOT/PID/root/PATH; NULL: at PATH. 0, -ENOMEM. */
int profile_names_open(struct profile_names **out, const struct stack_batch *b,
		       struct symbol_reader *reader, struct symbol_resolver *resolver,
		       const char *proc_root);
/* Asks the aggregator, in few requests, for every native frame that the resolver could not name;
 * profile_names_get then uses the answers. As symbol_client_ask; on an error the names that came before
 * it stay. */
int profile_names_ask(struct profile_names *n, const struct client *aggregator,
		      struct client_error *e);
void profile_names_close(struct profile_names *n); /* NULL is a no-op */
/* frame: index in the batch. Texts live until close. On -ENOMEM *out is valid, without symbols. */
int profile_names_get(struct profile_names *n, uint32_t frame, struct profile_name *out);
