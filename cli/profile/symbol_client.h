/* SPDX-License-Identifier: Apache-2.0
 * symbol_client.h - names addresses from the aggregator's Build-ID directory. First add all addresses, then
 * fetch their names in few requests, then find each.
 * Owns: the names; borrows the connection's settings for its life.  Threads: one caller.
 * Trust: answers are hostile: bounded, and only names of requested addresses count; print through
 * term_safe. */
#ifndef SYSOM_CLI_PROFILE_SYMBOL_CLIENT_H
#define SYSOM_CLI_PROFILE_SYMBOL_CLIENT_H

#include "cli/client/client.h"
#include "symbol/symbol_resolver.h"

struct symbol_client; /* opaque */

int symbol_client_open(struct symbol_client **out, const struct client *c);
void symbol_client_close(struct symbol_client *s); /* NULL is a no-op */
/* address: as for symbol_resolver_find. 0, also if it was added before; -EINVAL: no Build ID; -ENOMEM;
 * -E2BIG: more than LIMIT_STACK_FRAMES. */
int symbol_client_want(struct symbol_client *s, const uint8_t *build_id, size_t build_id_bytes,
		       uint64_t address);
/* 0; -EPROTO: the answer does not fit the request; else as client_json. After an error, names that arrived
 * stay, and the next call asks for the rest. */
int symbol_client_fetch(struct symbol_client *s, struct client_error *e);
/* 0, with texts that live until close; -ENOENT: no symbol covers the address; -ENODATA: the aggregator does
 * not have the file, or was not asked. */
int symbol_client_find(const struct symbol_client *s, const uint8_t *build_id,
		       size_t build_id_bytes, uint64_t address, struct symbol_name *out);

#endif
