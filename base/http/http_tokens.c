/* SPDX-License-Identifier: Apache-2.0
 * Tokens are random, so one round of SHA-256 without a salt is enough to protect them. Each token
 * that comes is compared with all digests, each in constant time. */
#include "base/http/http_tokens.h"

#include <errno.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

#define FIELDS_MAX 5u /* one more than a line may have, to notice too many */

struct http_tokens {
	uint32_t count;
	struct {
		uint8_t digest[SHA256_DIGEST_SIZE];
		struct http_user user;
	} list[HTTP_TOKENS_MAX];
};

static void digest_of(const char *token, uint8_t out[SHA256_DIGEST_SIZE])
{
	struct sha256_ctx c;

	sha256_init(&c);
	sha256_update(&c, strlen(token), (const uint8_t *)token);
	sha256_digest(&c, SHA256_DIGEST_SIZE, out);
}

/* RFC 6750: what may follow "Bearer ". */
static bool is_token(const char *text)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				"-._~+/");

	return n && !text[n + strspn(text + n, "=")];
}

static const char *parse_secret(const char *text, uint8_t out[SHA256_DIGEST_SIZE])
{
	size_t n = strlen(text);

	if (!strncmp(text, "sha256:", 7))
		return text_unhex(text + 7, out, SHA256_DIGEST_SIZE)
			   ? "sha256: needs the 64 hexadecimal digits of the token's digest"
			   : NULL;
	if (n < HTTP_TOKEN_MIN || n > HTTP_TOKEN_MAX || !is_token(text))
		return "a token has 24 to 512 letters, digits and -._~+/; make one with: openssl "
		       "rand -hex 32";
	digest_of(text, out);
	return NULL;
}

static const char *parse_role(const char *text, struct http_user *u)
{
	static const unsigned roles[] = {HTTP_ROLE_READ, HTTP_ROLE_UPLOAD, HTTP_ROLES_ALL};

	for (size_t i = 0; i < 3; i++)
		if (!strcmp(text, http_user_role_name(roles[i])))
			u->roles = roles[i];
	u->all = u->roles == HTTP_ROLES_ALL;
	return u->roles ? NULL : "the first word must be read, upload or admin";
}

static const char *parse_name(const char *text, struct http_user *u)
{
	size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				"-._");

	if (text[n] ||
	    (size_t)snprintf(u->name, sizeof(u->name), "token %s", text) >= sizeof(u->name))
		return "a name has up to 57 letters, digits and -._";
	return NULL;
}

static const char *parse_owner(const char *text, struct http_user *u)
{
	uint64_t uid = 0;

	if (u->roles != HTTP_ROLE_READ)
		return text ? "uid= is for read tokens: admin sees all jobs, upload none" : NULL;
	if (!text || strncmp(text, "uid=", 4))
		return "a read token needs the user whose jobs it sees: uid=1000, or uid=* for all";
	if (!strcmp(text + 4, "*"))
		u->all = true;
	else if (!text_number(text + 4, UINT32_MAX - 1, &uid))
		return "uid= needs a number, or *";
	u->has_uid = !u->all;
	u->uid = (uid_t)uid;
	return NULL;
}

static const char *add(struct http_tokens *t, char *const fields[], uint32_t count)
{
	struct http_user *u = &t->list[t->count].user;
	uint8_t *digest = t->list[t->count].digest;
	const char *bad;

	if (count < 3 || count > 4)
		return "a line is ROLE NAME TOKEN [uid=N]";
	*u = (struct http_user){.bearer = true};
	bad = parse_role(fields[0], u);
	if (!bad)
		bad = parse_name(fields[1], u);
	if (!bad)
		bad = parse_secret(fields[2], digest);
	if (!bad)
		bad = parse_owner(count > 3 ? fields[3] : NULL, u);
	for (uint32_t i = 0; i < t->count && !bad; i++)
		if (!memcmp(t->list[i].digest, digest, SHA256_DIGEST_SIZE))
			bad = "the same token is on an earlier line";
	t->count += !bad;
	return bad;
}

static const char *parse_line(struct http_tokens *t, char *line)
{
	char *fields[FIELDS_MAX], *save, *word;
	uint32_t count = 0;

	line[strcspn(line, "#")] = '\0';
	for (word = strtok_r(line, " \t\r", &save); word && count < FIELDS_MAX;
	     word = strtok_r(NULL, " \t\r", &save))
		fields[count++] = word;
	if (!count)
		return NULL;
	if (t->count == HTTP_TOKENS_MAX)
		return "more than 1024 tokens";
	return add(t, fields, count);
}

int http_tokens_parse(struct http_tokens **out, const char *text, size_t bytes, char *why,
		      size_t why_bytes)
{
	struct http_tokens *t = calloc(1, sizeof(*t));
	char *copy = malloc(bytes + 1), *at = copy, *end;
	const char *bad = NULL;
	size_t number = 0;

	if (t && copy) {
		memcpy(copy, text, bytes);
		copy[bytes] = '\0';
		if (strlen(copy) != bytes)
			bad = "the file has a zero byte";
		for (; !bad && at < copy + bytes; at = end + 1) {
			end = at + strcspn(at, "\n");
			*end = '\0';
			number++;
			bad = parse_line(t, at);
		}
		explicit_bzero(copy, bytes);
	}
	free(copy);
	if (bad)
		snprintf(why, why_bytes, "line %zu: %s", number ? number : 1, bad);
	if (!t || !copy || bad) {
		free(t);
		return bad ? -EINVAL : -ENOMEM;
	}
	*out = t;
	return 0;
}

void http_tokens_free(struct http_tokens *t)
{
	free(t);
}

const struct http_user *http_tokens_find(const struct http_tokens *t, const char *token)
{
	const struct http_user *found = NULL;
	uint8_t digest[SHA256_DIGEST_SIZE];

	digest_of(token, digest);
	for (uint32_t i = 0; t && i < t->count; i++)
		if (memeql_sec(t->list[i].digest, digest, SHA256_DIGEST_SIZE))
			found = &t->list[i].user;
	return found;
}
