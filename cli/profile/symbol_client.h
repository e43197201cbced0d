/* SPDX-License-Identifier: Apache-2.0
 * symbol_client.h - names addresses from the aggregator's Build-ID directory, in few requests.
 * Owns: nothing.  Threads: one caller.  Trust: answers are hostile: bounded, and only names of requested
 * addresses count; print through term_safe. */
#pragma once

#include "cli/client/client.h"
#include "symbol/symbol_content.h"
#include "symbol/symbol_resolver.h"

struct symbol_want {
	uint8_t id[SYMBOL_ID_MAX]; /* the Build ID, cut by symbol_content_cut; the rest is 0 */
	uint8_t id_bytes;	   /* at least 2 */
	bool answered;
	uint32_t number;  /* the caller's */
	uint64_t address; /* as for symbol_resolver_find, at most INT64_MAX */
};

/* Takes the name of an address; the texts live until it returns. 0, -ENOMEM. */
typedef int symbol_client_named(void *arg, const struct symbol_want *w,
				const struct symbol_name *name);
/* Sorts the wants. Calls named for each address that a symbol covers. 0; -ENOMEM; -EPROTO: the answer does
 * not fit the request; else as client_json. */
int symbol_client_ask(const struct client *c, struct symbol_want *wants, size_t count,
		      symbol_client_named *named, void *arg, struct client_error *e);
