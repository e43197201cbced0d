/* SPDX-License-Identifier: Apache-2.0
 * symbol_client.h - names of addresses from the aggregator's Build-ID directory: what is wanted is
 * gathered first, asked for in few requests, and found afterwards without one.
 * Owns: the names; the connection's settings are borrowed for its life.  Threads: one caller.
 * Trust: answers are hostile: bounded, and a name is used only for what was asked; print through
 * term_safe. */
#ifndef SYSOM_CLI_PROFILE_SYMBOL_CLIENT_H
#define SYSOM_CLI_PROFILE_SYMBOL_CLIENT_H

#include "cli/client.h"
#include "symbol/symbol_resolver.h"

struct symbol_client; /* opaque */

int symbol_client_open(struct symbol_client **out, const struct client *c);
void symbol_client_close(struct symbol_client *s); /* NULL is a no-op */
/* address as for symbol_resolver_find. 0, also for what is known already; -EINVAL: no Build ID;
 * -ENOMEM; -E2BIG: more than LIMIT_STACK_FRAMES. */
int symbol_client_want(struct symbol_client *s, const uint8_t *build_id, size_t build_id_bytes,
		       uint64_t address);
/* 0, -EPROTO: an answer that does not fit the question, and as client_json. What was named before the
 * error stays; the rest is wanted still. */
int symbol_client_fetch(struct symbol_client *s, struct client_error *e);
/* 0 with texts that live until close; -ENOENT: no symbol covers the address; -ENODATA: the aggregator has
 * no file for it, or was not asked. */
int symbol_client_find(const struct symbol_client *s, const uint8_t *build_id,
		       size_t build_id_bytes, uint64_t address, struct symbol_name *out);

#endif
