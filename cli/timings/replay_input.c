/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/exit_status.h"
#include "render/term.h"

#define QUOTED	      80u /* characters of the file in a message */
#define KEY_BYTES_MAX 1024
#define COLUMNS_NAMED 20u /* in a message; one line of most terminals or two */

int replay_input_bad(const struct replay_input *in, const char *what, const char *which)
{
	fprintf(stderr, "%s:%" PRIu64 ": %s%s%s\n", in->path, trace_reader_line_number(in->csv),
		what, which ? ": " : "", which ? term_safe(which, QUOTED) : "");
	return EXIT_USAGE;
}

static int rows(struct replay_input *in, replay_input_row *row, void *arg)
{
	struct trace_field *f;
	int n, status = 0;

	while (!ferror(stdout) && (n = trace_reader_csv(in->csv, &f)) != 0) {
		if (n < 0)
			return replay_input_bad(in, trace_reader_error(in->csv), NULL);
		if (in->width && (uint32_t)n != in->width)
			return replay_input_bad(
			    in, "the number of fields differs from the rows before", NULL);
		in->width = (uint32_t)n;
		status = row(arg, in, f);
		if (status)
			return status;
		in->row++;
	}
	return in->width ? 0 : replay_input_bad(in, "no header row", NULL);
}

int replay_input_each(struct replay_input *in, const char *path, replay_input_row *row, void *arg)
{
	int status = trace_reader_open(&in->csv, path);

	in->path = path;
	in->width = 0;
	in->row = 0;
	if (status) {
		fprintf(stderr, "%s: %s\n", path, strerror(-status));
		return EXIT_USAGE;
	}
	status = rows(in, row, arg);
	in->blank += trace_reader_blank(in->csv);
	trace_reader_close(in->csv);
	return status;
}

/* Finds columns by one name, which may contain a comma, else by a comma-separated list. -E2BIG: more than
 * `most`. -ENOENT: no column has the name at *at with *bytes. */
static int find_columns(const struct trace_field *f, uint32_t n, const char *names, uint32_t *out,
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

static const char *quoted(const char *text, size_t bytes)
{
	char copy[QUOTED + 1];

	snprintf(copy, sizeof(copy), "%.*s", (int)(bytes < QUOTED ? bytes : QUOTED), text);
	return term_safe(copy, QUOTED);
}

int replay_input_columns(const struct replay_input *in, const struct trace_field *f,
			 const char *names, uint32_t *out, uint32_t most)
{
	const char *at;
	size_t bytes;
	int count = names ? find_columns(f, in->width, names, out, most, &at, &bytes) : 0;

	if (count == -ENOENT) {
		fprintf(stderr, "%s:%" PRIu64 ": no column \"%s\" in the header; it has", in->path,
			trace_reader_line_number(in->csv), quoted(at, bytes));
		for (uint32_t i = 0; i < in->width && i < COLUMNS_NAMED; i++)
			fprintf(stderr, "%s %s", i ? "," : "", quoted(f[i].text, f[i].bytes));
		fputs(in->width > COLUMNS_NAMED ? ", ...\n" : "\n", stderr);
	} else if (count < 0)
		replay_input_bad(in, "too many columns named", names);
	return count < 0 ? -1 : count;
}

/* Joins the row's key columns with commas. Returns the bytes before the final NUL; -ENAMETOOLONG. */
static int join(const struct trace_field *f, const uint32_t *column, uint32_t count, char *to,
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

int64_t replay_input_key(const struct replay_input *in, const struct trace_field *f,
			 struct replay_keys *keys, uint32_t most)
{
	char text[KEY_BYTES_MAX];
	int n = join(f, keys->column, keys->count, text, sizeof(text));
	int64_t at = n < 0 ? n : intern_bytes(&keys->texts, text, (size_t)n, most);

	if (at < 0)
		replay_input_bad(in,
				 n < 0		? "the key is too long"
				 : at == -E2BIG ? "too many different keys"
						: "out of memory",
				 NULL);
	return at < 0 ? -1 : at;
}
