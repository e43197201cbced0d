/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/json_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

json_t *json_text(const char *text)
{
	json_t *j = json_string(text);
	struct buf b;
	uint32_t c;

	if (j)
		return j;
	buf_init(&b, SIZE_MAX);
	while (*text) {
		unsigned n = utf8_next(text, UTF8_BYTES, &c);

		buf_append(&b, n ? text : REPLACEMENT, n ? n : strlen(REPLACEMENT));
		text += n ? n : 1;
	}
	if (!b.failed)
		j = json_stringn((const char *)b.data, b.bytes);
	buf_fini(&b);
	return j;
}

json_t *json_exact(uint64_t number)
{
	return json_sprintf("%" PRIu64, number);
}

bool json_text_put(struct buf *out, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	bool good = text != NULL;

	if (good) {
		buf_puts(out, text);
		buf_puts(out, "\n");
	}
	free(text);
	json_decref(j);
	return good;
}

/* Writes the first character of *text as it appears within a JSON string. Moves *text behind it. */
static size_t take(const char **text, char out[8])
{
	uint32_t c;
	unsigned n = utf8_next(*text, UTF8_BYTES, &c);
	const char *from = *text;
	bool tag = *from == '<' && (from[1] == '/' || from[1] == '!');

	*text += n ? n : 1;
	if (n && utf8_is_harmless(c) && !tag && c != '"' && c != '\\') {
		memcpy(out, from, n);
		return n;
	}
	if (n && (c == '"' || c == '\\'))
		return (size_t)sprintf(out, "\\%c", (char)c);
	/* all of these are below U+10000 */
	return (size_t)sprintf(out, "\\u%04x", n ? (unsigned)c & 0xffff : 0xfffd);
}

void json_text_append(struct buf *out, const char *before, const char *text)
{
	char piece[8];

	buf_puts(out, before);
	buf_append(out, "\"", 1);
	while (*text)
		buf_append(out, piece, take(&text, piece));
	buf_append(out, "\"", 1);
}

void json_text_print(FILE *to, const char *before, const char *text)
{
	char piece[8];

	fputs(before, to);
	putc('"', to);
	while (*text)
		fwrite(piece, 1, take(&text, piece), to);
	putc('"', to);
}
