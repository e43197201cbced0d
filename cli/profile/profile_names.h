/* SPDX-License-Identifier: Apache-2.0
 * profile_names.h - what the frames of a stack batch are called.
 * Owns: the names it made and the resolver; the batch is borrowed for its life.  Threads: one caller. */
#ifndef SYSOM_CLI_PROFILE_PROFILE_NAMES_H
#define SYSOM_CLI_PROFILE_PROFILE_NAMES_H

#include "cli/profile/symbol_client.h"
#include "model/stack.h"
#include "symbol/symbol_reader.h"
#include "symbol/symbol_resolver.h"

struct profile_name {
	const char *function; /* never empty: "[libx.so]" for a native frame without a symbol */
	const char *raw;      /* mangled; = function where there is no such difference */
	const char *module;   /* base name of the file, "[kernel]", "[python]", "[jit]" */
	const char *file;     /* source; "" unknown */
	uint32_t line;	      /* 0 unknown */
	uint8_t kind, flags;  /* of the frame */
	bool resolved;
};

struct profile_names;

/* Takes the resolver, on failure too; NULL: only what the batch itself says. proc_root: where the files of
 * a sampled process are found while it lives (PROC_ROOT/PID/root/PATH); NULL: paths as they are. 0,
 * -ENOMEM. */
int profile_names_open(struct profile_names **out, const struct stack_batch *b,
		       struct symbol_reader *reader, struct symbol_resolver *resolver,
		       const char *proc_root);
/* Asks the aggregator, in few requests, for every native frame of the batch that the resolver could not
 * name; what it says is used by profile_names_get from then on. The number of frames' addresses that it
 * named, or as symbol_client_fetch (the frames then keep what they had). */
int profile_names_ask(struct profile_names *n, struct symbol_client *c, struct client_error *e);
void profile_names_close(struct profile_names *n); /* NULL is a no-op */
/* frame: index into the batch's frames. Texts live until close. -ENOMEM leaves *out valid but plain. */
int profile_names_get(struct profile_names *n, uint32_t frame, struct profile_name *out);

#endif
