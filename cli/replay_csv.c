/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay_csv.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define RAW_BYTES (256u << 10)
#define TEXT_BYTES (2 * REPLAY_CSV_ROW_BYTES_MAX)

enum packing { PACKING_UNKNOWN, PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct replay_csv {
	int fd;
	enum packing packing;
	bool raw_end, text_end; /* nothing more to read; nothing more to unpack */
	bool frame_open;	/* inside a compressed member: an end here is a truncated file */
	z_stream z;
	bool z_live;
	ZSTD_DStream *zstd;
	unsigned char *raw;
	size_t raw_at, raw_bytes;
	char *text;
	size_t at, bytes;
	uint64_t line, next_line, blank;
	const char *error;
	struct replay_csv_field field[REPLAY_CSV_FIELDS_MAX];
};

int replay_csv_open(struct replay_csv **out, const char *path)
{
	struct replay_csv *c = calloc(1, sizeof(*c));
	int err = -ENOMEM;

	if (!c)
		return -ENOMEM;
	c->fd = -1;
	c->next_line = 1;
	c->raw = malloc(RAW_BYTES);
	c->text = malloc(TEXT_BYTES + 1);
	if (!c->raw || !c->text)
		goto fail;
	c->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	if (c->fd < 0) {
		err = -errno;
		goto fail;
	}
	*out = c;
	return 0;
fail:
	replay_csv_close(c);
	return err;
}

void replay_csv_close(struct replay_csv *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	if (c->z_live)
		inflateEnd(&c->z);
	ZSTD_freeDStream(c->zstd);
	free(c->raw);
	free(c->text);
	free(c);
}

static int raw_fill(struct replay_csv *c)
{
	memmove(c->raw, c->raw + c->raw_at, c->raw_bytes - c->raw_at);
	c->raw_bytes -= c->raw_at;
	c->raw_at = 0;
	while (!c->raw_end && c->raw_bytes < RAW_BYTES) {
		ssize_t n = read(c->fd, c->raw + c->raw_bytes, RAW_BYTES - c->raw_bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			c->error = strerror(errno);
			return -EIO;
		}
		if (!n)
			c->raw_end = true;
		c->raw_bytes += (size_t)n;
		/* a pipe's first bytes need not wait for the buffer to fill */
		if (c->raw_bytes >= 4)
			break;
	}
	return 0;
}

static int packing_find(struct replay_csv *c)
{
	static const unsigned char gzip[] = { 0x1f, 0x8b }, zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };

	if (c->raw_bytes >= 2 && !memcmp(c->raw, gzip, 2)) {
		c->packing = PACKING_GZIP;
		c->z_live = inflateInit2(&c->z, 15 + 16) == Z_OK;
		return c->z_live ? 0 : -ENOMEM;
	}
	if (c->raw_bytes >= 4 && !memcmp(c->raw, zstd, 4)) {
		c->packing = PACKING_ZSTD;
		c->zstd = ZSTD_createDStream();
		return c->zstd ? 0 : -ENOMEM;
	}
	c->packing = PACKING_NONE;
	return 0;
}

static int bad(struct replay_csv *c, const char *what)
{
	c->error = what;
	return -EBADMSG;
}

static int unpack_gzip(struct replay_csv *c, char *to, size_t room, size_t *made)
{
	int rc;

	c->z.next_in = c->raw + c->raw_at;
	c->z.avail_in = (unsigned)(c->raw_bytes - c->raw_at);
	c->z.next_out = (unsigned char *)to;
	c->z.avail_out = (unsigned)room;
	c->frame_open = true;
	rc = inflate(&c->z, Z_NO_FLUSH);
	c->raw_at = c->raw_bytes - c->z.avail_in;
	*made = room - c->z.avail_out;
	if (rc == Z_STREAM_END) {
		c->frame_open = false;
		inflateReset(&c->z);
		return 0;
	}
	return rc == Z_OK || rc == Z_BUF_ERROR ? 0 : bad(c, "damaged gzip data");
}

static int unpack_zstd(struct replay_csv *c, char *to, size_t room, size_t *made)
{
	ZSTD_inBuffer in = { c->raw, c->raw_bytes, c->raw_at };
	ZSTD_outBuffer out = { to, room, 0 };
	size_t rc = ZSTD_decompressStream(c->zstd, &out, &in);

	c->raw_at = in.pos;
	*made = out.pos;
	if (ZSTD_isError(rc))
		return bad(c, "damaged zstd data");
	c->frame_open = rc != 0;
	return 0;
}

static int unpack(struct replay_csv *c, char *to, size_t room, size_t *made)
{
	size_t n = c->raw_bytes - c->raw_at;

	switch (c->packing) {
	case PACKING_GZIP:
		return unpack_gzip(c, to, room, made);
	case PACKING_ZSTD:
		return unpack_zstd(c, to, room, made);
	default:
		*made = n < room ? n : room;
		memcpy(to, c->raw + c->raw_at, *made);
		c->raw_at += *made;
		return 0;
	}
}

/* More text behind what is there; sets text_end at the end of the file. */
static int text_fill(struct replay_csv *c)
{
	size_t made = 0;
	int rc;

	memmove(c->text, c->text + c->at, c->bytes - c->at);
	c->bytes -= c->at;
	c->at = 0;
	while (!made && !c->text_end) {
		bool starved;

		if (c->raw_at == c->raw_bytes || c->packing == PACKING_UNKNOWN) {
			rc = raw_fill(c);
			if (!rc && c->packing == PACKING_UNKNOWN)
				rc = packing_find(c);
			if (rc)
				return rc;
		}
		starved = c->raw_at == c->raw_bytes && c->raw_end;
		if (starved && !c->frame_open) {
			c->text_end = true;
			return 0;
		}
		rc = unpack(c, c->text + c->bytes, TEXT_BYTES - c->bytes, &made);
		if (rc)
			return rc;
		if (starved && !made)
			return bad(c, "the compressed data ends too early");
	}
	c->bytes += made;
	return 0;
}

/* The bytes of the row at c->at with its line end, 0 when more text is needed. */
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

/* A quoted field at p, unescaped in place; returns what follows its closing quote. */
static char *split_quoted(char *p, char *end, struct replay_csv_field *f)
{
	char *to = ++p;

	f->text = p;
	while (p < end) {
		if (*p == '"') {
			if (p + 1 < end && p[1] == '"')
				p++;
			else
				break;
		}
		*to++ = *p++;
	}
	f->bytes = (size_t)(to - f->text);
	return p < end ? p + 1 : NULL;
}

static int split(struct replay_csv *c, char *p, char *end)
{
	int n = 0;

	for (;;) {
		struct replay_csv_field *f = &c->field[n];
		char *after;

		if (n == REPLAY_CSV_FIELDS_MAX)
			return bad(c, "too many columns");
		n++;
		if (p < end && *p == '"') {
			after = split_quoted(p, end, f);
			if (!after || (after < end && *after != ','))
				return bad(c, "text after a closing quote");
		} else {
			after = memchr(p, ',', (size_t)(end - p));
			after = after ? after : end;
			f->text = p;
			f->bytes = (size_t)(after - p);
		}
		/* the separator's, or the line end's, place */
		f->text[f->bytes] = '\0';
		if (after >= end)
			return n;
		p = after + 1;
	}
}

int replay_csv_next(struct replay_csv *c, struct replay_csv_field **fields)
{
	for (;;) {
		uint64_t lines;
		bool open_quote;
		size_t span = row_span(c, &lines, &open_quote), body;
		char *row;

		c->line = c->next_line;
		if (!span && !c->text_end) {
			int rc;

			if (c->bytes - c->at >= REPLAY_CSV_ROW_BYTES_MAX)
				return bad(c, open_quote ? "a quote is never closed" :
							   "the row is too long");
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
		if (c->line == 1 && body >= 3 && !memcmp(row, "\xef\xbb\xbf", 3)) {
			row += 3;
			body -= 3;
		}
		if (!body) {
			c->blank++;
			continue;
		}
		if (memchr(row, '\0', body))
			return bad(c, "a zero byte");
		*fields = c->field;
		return split(c, row, row + body);
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

/* Up to 15 digits and a small exponent are exact in one multiplication or division. */
static bool number_short(const char *p, double *out)
{
	static const double ten[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8,
				      1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
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

bool replay_csv_number(const struct replay_csv_field *f, double *out)
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
