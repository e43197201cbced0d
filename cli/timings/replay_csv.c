/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct replay_csv {
	struct trace_reader *reader;
	uint64_t blank;
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
	free(c);
}

static int bad(struct replay_csv *c, const char *what)
{
	c->error = what;
	return -EBADMSG;
}

int replay_csv_next(struct replay_csv *c, struct trace_field **fields)
{
	size_t bytes;
	char *row;
	int n;

	while ((n = trace_reader_row(c->reader, true, &row, &bytes)) > 0 && !bytes)
		c->blank++;
	if (n < 0)
		c->error = trace_reader_error(c->reader);
	if (n <= 0)
		return n == 0 || n == -EBADMSG ? n : -EIO;
	if (memchr(row, '\0', bytes))
		return bad(c, "a zero byte");
	*fields = c->field;
	n = trace_reader_fields(row, bytes, c->field, REPLAY_CSV_FIELDS_MAX);
	if (n > REPLAY_CSV_FIELDS_MAX)
		return bad(c, "too many columns");
	return n < 0 ? bad(c, "text after a closing quote") : n;
}

uint64_t replay_csv_line(const struct replay_csv *c)
{
	return trace_reader_line_number(c->reader);
}

uint64_t replay_csv_blank(const struct replay_csv *c)
{
	return c->blank;
}

const char *replay_csv_error(const struct replay_csv *c)
{
	return c->error ? c->error : "out of memory";
}

bool replay_csv_number(const struct trace_field *f, double *out)
{
	char *end;

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
