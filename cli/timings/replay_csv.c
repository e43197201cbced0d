/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES (2 * REPLAY_CSV_ROW_BYTES_MAX)

struct replay_csv {
	struct trace_reader *reader;
	bool text_end;
	char *text;
	size_t at, bytes;
	uint64_t line, next_line, blank;
	const char *error;
	struct trace_field field[REPLAY_CSV_FIELDS_MAX];
};

int replay_csv_take(struct replay_csv **out, struct trace_reader *reader)
{
	struct replay_csv *c = calloc(1, sizeof(*c));

	if (!c) {
		trace_reader_close(reader);
		return -ENOMEM;
	}
	c->reader = reader;
	c->next_line = 1;
	c->text = malloc(TEXT_BYTES + 1);
	if (!c->text) {
		replay_csv_close(c);
		return -ENOMEM;
	}
	*out = c;
	return 0;
}

int replay_csv_open(struct replay_csv **out, const char *path)
{
	struct trace_reader *reader;
	int err = trace_reader_open(&reader, path);

	return err ? err : replay_csv_take(out, reader);
}

void replay_csv_close(struct replay_csv *c)
{
	if (!c)
		return;
	trace_reader_close(c->reader);
	free(c->text);
	free(c);
}

static int bad(struct replay_csv *c, const char *what)
{
	c->error = what;
	return -EBADMSG;
}

/* Reads more text; sets text_end at the end of the file. */
static int text_fill(struct replay_csv *c)
{
	ssize_t n;

	memmove(c->text, c->text + c->at, c->bytes - c->at);
	c->bytes -= c->at;
	c->at = 0;
	n = trace_reader_read(c->reader, c->text + c->bytes, TEXT_BYTES - c->bytes);
	if (n < 0) {
		c->error = trace_reader_error(c->reader);
		return n == -EBADMSG ? -EBADMSG : -EIO;
	}
	c->text_end = n == 0;
	c->bytes += (size_t)n;
	return 0;
}

/* The bytes of the row at c->at with its line end; 0: more text is needed. */
static size_t row_span(struct replay_csv *c, uint64_t *lines, bool *open_quote)
{
	char *p = c->text + c->at, *end = c->text + c->bytes;
	char *nl = memchr(p, '\n', (size_t)(end - p));
	bool quoted = false;

	*lines = 0;
	*open_quote = false;
	if (nl && !memchr(p, '"', (size_t)(nl - p))) {
		*lines = 1;
		return (size_t)(nl + 1 - p);
	}
	for (char *q = p; q < end; q++) {
		if (*q == '"')
			quoted = !quoted;
		*lines += *q == '\n';
		if (*q == '\n' && !quoted)
			return (size_t)(q + 1 - p);
	}
	*open_quote = quoted;
	return 0;
}

int replay_csv_next(struct replay_csv *c, struct trace_field **fields)
{
	for (;;) {
		uint64_t lines;
		bool open_quote;
		size_t span = row_span(c, &lines, &open_quote), body;
		char *row;
		int n;

		c->line = c->next_line;
		if (!span && !c->text_end) {
			int rc;

			if (c->bytes - c->at >= REPLAY_CSV_ROW_BYTES_MAX)
				return bad(c, open_quote ? "a quote is never closed"
							 : "the row is too long");
			rc = text_fill(c);
			if (rc)
				return rc;
			continue;
		}
		if (!span && c->at == c->bytes)
			return 0;
		if (!span && open_quote)
			return bad(c, "a quote is never closed");
		body = span ? span - 1 : c->bytes - c->at;
		row = c->text + c->at;
		c->at += span ? span : body;
		c->next_line += lines;
		if (body && row[body - 1] == '\r')
			body--;
		if (!body) {
			c->blank++;
			continue;
		}
		if (memchr(row, '\0', body))
			return bad(c, "a zero byte");
		row[body] = '\0'; /* replaces the line end */
		*fields = c->field;
		n = trace_reader_fields(row, body, c->field, REPLAY_CSV_FIELDS_MAX);
		if (n > REPLAY_CSV_FIELDS_MAX)
			return bad(c, "too many columns");
		return n < 0 ? bad(c, "text after a closing quote") : n;
	}
}

uint64_t replay_csv_line(const struct replay_csv *c)
{
	return c->line;
}

uint64_t replay_csv_blank(const struct replay_csv *c)
{
	return c->blank;
}

const char *replay_csv_error(const struct replay_csv *c)
{
	return c->error ? c->error : "out of memory";
}

/* With up to 15 digits and a small exponent one multiplication or division is exact. */
static bool number_short(const char *p, double *out)
{
	static const double ten[] = {1e0, 1e1, 1e2,  1e3,  1e4,	 1e5,  1e6,  1e7,
				     1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
	bool negative = *p == '-';
	uint64_t v = 0;
	unsigned digits = 0, decimals = 0;

	p += negative;
	for (; *p >= '0' && *p <= '9'; p++, digits++)
		v = v * 10 + (unsigned)(*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, digits++, decimals++)
			v = v * 10 + (unsigned)(*p - '0');
	if (*p || !digits || digits > 15)
		return false;
	*out = (double)v / ten[decimals];
	if (negative)
		*out = -*out;
	return true;
}

bool replay_csv_number(const struct trace_field *f, double *out)
{
	char *end;

	if (number_short(f->text, out))
		return true;
	if (!f->bytes)
		return false;
	*out = strtod(f->text, &end);
	while (*end == ' ' || *end == '\t')
		end++;
	return end != f->text && !*end && isfinite(*out);
}

int replay_csv_columns(const struct trace_field *f, uint32_t n, const char *names, uint32_t *out,
		       uint32_t most, const char **at, size_t *bytes)
{
	uint32_t count = 0;

	*at = names;
	*bytes = strlen(names);
	for (bool whole = true;; whole = false) {
		uint32_t i = 0;

		while (i < n && (f[i].bytes != *bytes || memcmp(f[i].text, *at, *bytes)))
			i++;
		if (i == n && !whole)
			return -ENOENT;
		if (i < n) {
			if (count == most)
				return -E2BIG;
			out[count++] = i;
			*at += *bytes;
			if (!**at)
				return (int)count;
			(*at)++;
		}
		*bytes = strcspn(*at, ",");
	}
}

int replay_csv_join(const struct trace_field *f, const uint32_t *column, uint32_t count, char *to,
		    size_t room)
{
	size_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct trace_field *k = &f[column[i]];

		if (n + k->bytes + 2 > room)
			return -ENAMETOOLONG;
		if (i)
			to[n++] = ',';
		memcpy(to + n, k->text, k->bytes);
		n += k->bytes;
	}
	to[n] = '\0';
	return (int)n;
}
