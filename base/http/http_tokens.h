/* SPDX-License-Identifier: Apache-2.0
 * http_tokens.h - the tokens of a server, from a text with one per line:
 *   ROLE NAME TOKEN [uid=N | uid=*]
 * ROLE is read, upload or admin. TOKEN is the token itself, or sha256: and the digest of it in
 * hexadecimal digits. A read token needs uid=: the user whose jobs it may see, or * for all. Text
 * from '#' on is a comment.
 * Owns: the table, which has digests only. Threads: any may read. Trust: a token to look up is a
 * peer's. */
#pragma once

#include <stddef.h>

#include "base/http/http_user.h"

#define HTTP_TOKENS_MAX	       1024u /* one per user, node and tool of a large site */
#define HTTP_TOKENS_FILE_BYTES (256u << 10)
/* A token given without a digest has at least this many characters. A random token of 24 characters
 * cannot be guessed. */
#define HTTP_TOKEN_MIN 24u
#define HTTP_TOKEN_MAX 512u

struct http_tokens;

/* 0; -EINVAL with the line and the reason in `why`, which never has a
 * token; -ENOMEM. */
int http_tokens_parse(struct http_tokens **out, const char *text, size_t bytes, char *why,
		      size_t why_bytes);
void http_tokens_free(struct http_tokens *t); /* NULL is a no-op */
/* Finds a token, in a time that does not depend on the token. NULL: unknown. */
const struct http_user *http_tokens_find(const struct http_tokens *t, const char *token);
