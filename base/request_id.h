/* SPDX-License-Identifier: Apache-2.0
 * request_id.h - a request's id without what an engine appends to it. vLLM gives each request that
 * its engine receives an id of its own: the client's id, followed by '-' and eight random
 * hexadecimal digits. Each engine that a request reaches appends different ones. Header-only and
 * libc-free, so that preload/ may use it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define REQUEST_ID_SUFFIX_BYTES 9u

/* The number of bytes of the id without such a suffix. */
static inline size_t request_id_base_bytes(const char *id, size_t bytes)
{
	if (bytes <= REQUEST_ID_SUFFIX_BYTES || id[bytes - REQUEST_ID_SUFFIX_BYTES] != '-')
		return bytes;
	for (size_t i = bytes - REQUEST_ID_SUFFIX_BYTES + 1; i < bytes; i++) {
		char c = id[i] | 0x20; /* in lower case, if it is a letter */

		if (!(id[i] >= '0' && id[i] <= '9') && !(c >= 'a' && c <= 'f'))
			return bytes;
	}
	return bytes - REQUEST_ID_SUFFIX_BYTES;
}
