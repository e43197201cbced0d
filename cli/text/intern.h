/* SPDX-License-Identifier: Apache-2.0
 * intern.h - numbers keys from 0, in order of appearance. A key is a text or any bytes.
 * Owns: a copy of each key. Threads: one caller. Trust: keys may be a peer's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/probe.h"

struct intern {
	char **text; /* by number; each ends with a zero byte */
	size_t *bytes;
	uint32_t count;
	size_t room, bytes_room;
	struct probe by_key;
};

/* The number of a key; a new key gets the next one. -ENOMEM; -E2BIG: there are `most` already. */
int64_t intern_bytes(struct intern *t, const void *key, size_t bytes, uint32_t most);
/* The number, or -ENOENT. */
int64_t intern_find(const struct intern *t, const void *key, size_t bytes);
int64_t intern_text(struct intern *t, const char *text, uint32_t most);
void intern_fini(struct intern *t); /* of a zeroed struct: a no-op */
