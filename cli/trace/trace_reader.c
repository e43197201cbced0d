/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/trace_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define RAW_BYTES   (256u << 10)
#define TEXT_BYTES  (1u << 20)
#define MAGIC_BYTES 4 /* zstd's; gzip has two */

/* 8 MiB, which every decoder must support (RFC 8878, 3.1.1.1.2); a short header can demand any size. */
#define WINDOW_LOG_MAX 23

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZSTD };

struct trace_reader {
	int fd;
	enum packing packing;
	z_stream z;
	bool z_live;
	ZSTD_DStream *zstd;
	unsigned char *raw;
	size_t raw_at, raw_bytes;
	bool raw_end, text_end;
	bool open_member; /* inside a compressed member: the file must not end here */
	char *text;
	size_t at, bytes;
	uint64_t line;
	const char *error;
	int failed; /* the first error, which every later call returns too; 0 none */
};

static int fail(struct trace_reader *r, const char *what)
{
	r->error = what;
	return -EBADMSG;
}

/* The number of bytes read from the file, 0 at its end, -errno. */
static ssize_t read_some(struct trace_reader *r, void *to, size_t room)
{
	ssize_t n;

	do
		n = read(r->fd, to, room);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		r->error = strerror(errno);
		return -errno;
	}
	r->raw_end = n == 0;
	return n;
}

/* Appends raw bytes. */
static int raw_read(struct trace_reader *r)
{
	ssize_t n = read_some(r, r->raw + r->raw_bytes, RAW_BYTES - r->raw_bytes);

	r->raw_bytes += n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : 0;
}

static int raw_fill(struct trace_reader *r)
{
	if (r->raw_at < r->raw_bytes || r->raw_end)
		return 0;
	r->raw_at = r->raw_bytes = 0;
	return raw_read(r);
}

static int packing_find(struct trace_reader *r)
{
	int err = 0;

	while (!err && !r->raw_end && r->raw_bytes < MAGIC_BYTES)
		err = raw_read(r);
	if (err)
		return err;
	/* no text is this single byte: the file is cut short */
	if (r->raw_bytes && r->raw[0] == 0x1f && (r->raw_bytes == 1 || r->raw[1] == 0x8b)) {
		r->packing = PACKING_GZIP;
		if (inflateInit2(&r->z, 15 + 16) != Z_OK)
			return -ENOMEM;
		r->z_live = true;
	} else if (r->raw_bytes >= MAGIC_BYTES &&
		   !memcmp(r->raw, "\x28\xb5\x2f\xfd", MAGIC_BYTES)) {
		r->packing = PACKING_ZSTD;
		r->zstd = ZSTD_createDStream();
		if (!r->zstd || ZSTD_isError(ZSTD_initDStream(r->zstd)) ||
		    ZSTD_isError(
			ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
			return -ENOMEM;
	}
	return 0;
}

void trace_reader_close(struct trace_reader *r)
{
	if (!r)
		return;
	if (r->z_live)
		inflateEnd(&r->z);
	ZSTD_freeDStream(r->zstd);
	if (r->fd >= 0)
		close(r->fd);
	free(r->raw);
	free(r->text);
	free(r);
}

static ssize_t gzip_step(struct trace_reader *r, char *to, size_t room)
{
	int rc;

	if (!r->open_member && inflateReset(&r->z) != Z_OK)
		return fail(r, "damaged gzip data");
	r->open_member = true;
	r->z.next_in = r->raw + r->raw_at;
	r->z.avail_in = (uInt)(r->raw_bytes - r->raw_at);
	r->z.next_out = (unsigned char *)to;
	r->z.avail_out = (uInt)room;
	rc = inflate(&r->z, Z_NO_FLUSH);
	r->raw_at = r->raw_bytes - r->z.avail_in;
	if (rc == Z_STREAM_END)
		r->open_member = false;
	else if (rc != Z_OK && rc != Z_BUF_ERROR)
		return fail(r, "damaged gzip data");
	return (ssize_t)(room - r->z.avail_out);
}

static ssize_t zstd_step(struct trace_reader *r, char *to, size_t room)
{
	ZSTD_inBuffer in = {r->raw, r->raw_bytes, r->raw_at};
	ZSTD_outBuffer out = {to, room, 0};
	size_t rc = ZSTD_decompressStream(r->zstd, &out, &in);

	if (ZSTD_isError(rc))
		return fail(r, ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge
				   ? "zstd data with a window of more than 8 MiB (compress it "
				     "without --ultra and "
				     "--long)"
				   : "damaged zstd data");
	r->raw_at = in.pos;
	r->open_member = rc != 0;
	return (ssize_t)out.pos;
}

/* Plain text needs no copy. 1: more text; 0 at the end; -errno. */
static int direct_fill(struct trace_reader *r, char *to, size_t room)
{
	ssize_t n = r->raw_end ? 0 : read_some(r, to, room);

	r->bytes += n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : n > 0;
}

/* Unpacks and appends more text. 1: more text; 0 at the end; -errno. */
static int unpack(struct trace_reader *r)
{
	if (r->at) {
		memmove(r->text, r->text + r->at, r->bytes - r->at);
		r->bytes -= r->at;
		r->at = 0;
	}
	while (!r->text_end && r->bytes < TEXT_BYTES) {
		char *to = r->text + r->bytes;
		size_t room = TEXT_BYTES - r->bytes;
		ssize_t n;
		bool direct = r->packing == PACKING_NONE && r->raw_at == r->raw_bytes, starved;
		int err =
		    direct ? direct_fill(r, to, room < RAW_BYTES ? room : RAW_BYTES) : raw_fill(r);

		if (err)
			return err < 0 ? err : 1;
		starved = r->raw_at == r->raw_bytes && r->raw_end;
		if (starved && !r->open_member) {
			r->text_end = true;
			break;
		}
		if (r->packing == PACKING_GZIP) {
			n = gzip_step(r, to, room);
		} else if (r->packing == PACKING_ZSTD) {
			n = zstd_step(r, to, room);
		} else {
			n = (ssize_t)(r->raw_bytes - r->raw_at < room ? r->raw_bytes - r->raw_at
								      : room);
			memcpy(to, r->raw + r->raw_at, (size_t)n);
			r->raw_at += (size_t)n;
		}
		if (n < 0)
			return (int)n;
		r->bytes += (size_t)n;
		if (n)
			return 1;
		/* the decoder may still hold text after the file's last byte */
		if (starved)
			return fail(r, "compressed data ends early");
	}
	return 0;
}

static int text_fill(struct trace_reader *r)
{
	int more = r->failed ? r->failed : unpack(r);

	if (more < 0)
		r->failed = more;
	return more;
}

/* Skips a byte order mark. The next read returns an error. */
static void mark_skip(struct trace_reader *r)
{
	static const char mark[] = {'\xef', '\xbb', '\xbf'};

	while (r->bytes < sizeof(mark) && text_fill(r) > 0)
		;
	if (r->bytes >= sizeof(mark) && !memcmp(r->text, mark, sizeof(mark)))
		r->at = sizeof(mark);
}

int trace_reader_open(struct trace_reader **out, const char *path)
{
	struct trace_reader *r = calloc(1, sizeof(*r));
	int err = -ENOMEM;

	if (!r)
		return -ENOMEM;
	r->fd = -1;
	r->raw = malloc(RAW_BYTES);
	r->text = malloc(TEXT_BYTES + 1);
	if (!r->raw || !r->text)
		goto fail;
	r->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	if (r->fd < 0) {
		err = -errno;
		goto fail;
	}
	err = packing_find(r);
	if (err)
		goto fail;
	mark_skip(r);
	*out = r;
	return 0;
fail:
	trace_reader_close(r);
	return err;
}

int trace_reader_line(struct trace_reader *r, char **line, size_t *bytes)
{
	size_t searched = 0;
	char *end;

	for (;;) {
		int more;

		end = memchr(r->text + r->at + searched, '\n', r->bytes - r->at - searched);
		if (end)
			break;
		searched = r->bytes - r->at;
		if (searched > TRACE_READER_LINE_BYTES_MAX)
			break;
		more = text_fill(r);
		if (more < 0) {
			r->line++;
			return more;
		}
		if (!more)
			break;
	}
	if (!end && r->at == r->bytes)
		return 0;
	r->line++;
	*line = r->text + r->at;
	*bytes = end ? (size_t)(end - *line) : r->bytes - r->at;
	if (*bytes > TRACE_READER_LINE_BYTES_MAX)
		return fail(r, "line longer than 512 KiB");
	r->at += *bytes + (end ? 1 : 0);
	while (*bytes && (*line)[*bytes - 1] == '\r')
		--*bytes;
	(*line)[*bytes] = 0;
	return 1;
}

ssize_t trace_reader_read(struct trace_reader *r, void *buffer, size_t bytes)
{
	if (r->at == r->bytes) {
		int more = text_fill(r);

		if (more <= 0)
			return more;
	}
	if (bytes > r->bytes - r->at)
		bytes = r->bytes - r->at;
	memcpy(buffer, r->text + r->at, bytes);
	r->at += bytes;
	return (ssize_t)bytes;
}

int trace_reader_peek(struct trace_reader *r)
{
	for (size_t at = r->at;;) {
		while (at < r->bytes && strchr(" \t\r\n", r->text[at]) && r->text[at])
			at++;
		if (at < r->bytes)
			return (unsigned char)r->text[at];
		at -= r->at;
		if (text_fill(r) <= 0)
			return -1;
		at += r->at;
	}
}

uint64_t trace_reader_line_number(const struct trace_reader *r)
{
	return r->line;
}

const char *trace_reader_error(const struct trace_reader *r)
{
	return r->error ? r->error : "cannot be read";
}

/* Reads a quoted field from its opening quote; returns the text after it, NULL: malformed. */
static char *field_unquote(char *p, char *end, struct trace_field *f)
{
	char *to = ++p;

	f->text = to;
	for (;;) {
		char *quote = memchr(p, '"', (size_t)(end - p));

		if (!quote)
			return NULL;
		memmove(to, p, (size_t)(quote - p));
		to += quote - p;
		p = quote + 1;
		if (p == end || *p != '"')
			break;
		*to++ = '"';
		p++;
	}
	if (p < end && *p != ',')
		return NULL;
	f->bytes = (size_t)(to - f->text);
	*to = 0;
	return p;
}

int trace_reader_fields(char *line, size_t bytes, struct trace_field *fields, int max)
{
	char *p = line, *end = line + bytes;
	int n = 0;

	for (;;) {
		struct trace_field f;

		if (p < end && *p == '"') {
			p = field_unquote(p, end, &f);
			if (!p)
				return -EBADMSG;
		} else {
			char *comma = memchr(p, ',', (size_t)(end - p));

			f.text = p;
			p = comma ? comma : end;
			f.bytes = (size_t)(p - f.text);
		}
		if (n < max)
			fields[n] = f;
		n++;
		if (p == end)
			return n;
		*p++ = 0;
	}
}

bool trace_reader_u64(const struct trace_field *f, uint64_t *out)
{
	const char *p = f->text, *end = f->text + f->bytes;
	uint64_t v = 0;

	if (p == end)
		return false;
	for (; p < end && *p >= '0' && *p <= '9'; p++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (p == f->text)
		return false;
	if (p < end && *p == '.')
		for (p++; p < end && *p >= '0' && *p <= '9'; p++)
			;
	*out = v;
	return p == end;
}
