/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/trace_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define RAW_BYTES   (256u << 10)
#define TEXT_BYTES  (1u << 20)
#define GZIP_BYTES  (64u << 10)	       /* zlib takes three times as much */
#define MAGIC	    "\x28\xb5\x2f\xfd" /* zstd's */
#define MAGIC_BYTES 4

/* 8 MiB, which every decoder must support (RFC 8878, 3.1.1.1.2); a short header can demand any size. */
#define WINDOW_LOG_MAX 23

struct trace_reader {
	gzFile file;	    /* reads plain files, too */
	ZSTD_DStream *zstd; /* NULL: not zstd */
	char *raw;	    /* packed by zstd */
	size_t raw_at, raw_bytes;
	bool open_frame; /* of zstd: the file must not end here */
	char *text;
	size_t at, bytes;
	uint64_t line, next_line;
	uint64_t blank;
	struct trace_field field[TRACE_READER_FIELDS_MAX]; /* of the last row */
	const char *error;
	int failed; /* the first error, which every later call returns too; 0 none */
};

static int fail(struct trace_reader *r, const char *what)
{
	r->error = what;
	return -EBADMSG;
}

/* The number of bytes read from the file, 0 at its end, -errno. */
static ssize_t read_some(struct trace_reader *r, char *to, size_t room)
{
	int n = gzread(r->file, to, room < RAW_BYTES ? (unsigned)room : RAW_BYTES), code = Z_OK;

	if (n > 0)
		return n;
	gzerror(r->file, &code);
	if (code == Z_ERRNO) {
		r->error = strerror(errno);
		return -errno;
	}
	if (code == Z_BUF_ERROR)
		return fail(r, "compressed data ends early");
	return n < 0 ? fail(r, "damaged gzip data") : 0;
}

/* Reads the first bytes, which say whether the text is packed by zstd. */
static int begin(struct trace_reader *r)
{
	ssize_t n = read_some(r, r->raw, RAW_BYTES);

	if (n < 0)
		return (int)n;
	/* no text is this single byte: it is of a gzip file that was cut short */
	if (n == 1 && *r->raw == 0x1f)
		return fail(r, "compressed data ends early");
	if (n < MAGIC_BYTES || memcmp(r->raw, MAGIC, MAGIC_BYTES)) {
		memcpy(r->text, r->raw, (size_t)n);
		r->bytes = (size_t)n;
		return 0;
	}
	r->raw_bytes = (size_t)n;
	r->zstd = ZSTD_createDStream();
	return !r->zstd || ZSTD_isError(ZSTD_initDStream(r->zstd)) ||
		       ZSTD_isError(
			   ZSTD_DCtx_setParameter(r->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))
		   ? -ENOMEM
		   : 0;
}

void trace_reader_close(struct trace_reader *r)
{
	if (!r)
		return;
	ZSTD_freeDStream(r->zstd);
	if (r->file)
		gzclose(r->file);
	free(r->raw);
	free(r->text);
	free(r);
}

/* The number of bytes unpacked, 0 at the end, -errno. */
static ssize_t zstd_read(struct trace_reader *r, char *to, size_t room)
{
	for (;;) {
		ZSTD_outBuffer out = {to, room, 0};
		ZSTD_inBuffer in;
		size_t rc;

		if (r->raw_at == r->raw_bytes) {
			ssize_t n = read_some(r, r->raw, RAW_BYTES);

			if (n < 0 || (!n && !r->open_frame))
				return n;
			r->raw_at = 0;
			r->raw_bytes = (size_t)n;
		}
		in = (ZSTD_inBuffer){r->raw, r->raw_bytes, r->raw_at};
		rc = ZSTD_decompressStream(r->zstd, &out, &in);
		if (ZSTD_isError(rc))
			return fail(
			    r, ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge
				   ? "zstd data with a window of more than 8 MiB (compress it "
				     "without --ultra and --long)"
				   : "damaged zstd data");
		r->raw_at = in.pos;
		r->open_frame = rc != 0;
		if (out.pos)
			return (ssize_t)out.pos;
		/* the decoder may still hold text after the file's last byte */
		if (!r->raw_bytes)
			return fail(r, "compressed data ends early");
	}
}

/* Appends more text, if there is room. 1: more text; 0 at the end; -errno. */
static int unpack(struct trace_reader *r)
{
	ssize_t n;

	memmove(r->text, r->text + r->at, r->bytes - r->at);
	r->bytes -= r->at;
	r->at = 0;
	n = (r->zstd ? zstd_read : read_some)(r, r->text + r->bytes, TEXT_BYTES - r->bytes);
	r->bytes += n > 0 ? (size_t)n : 0;
	return n < 0 ? (int)n : n > 0;
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
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	int err = fd < 0 ? -errno : -ENOMEM;

	if (r && fd >= 0) {
		r->next_line = 1;
		r->raw = malloc(RAW_BYTES);
		r->text = malloc(TEXT_BYTES + 1);
		r->file = gzdopen(fd, "r");
	}
	if (r && r->file && r->raw && r->text && !gzbuffer(r->file, GZIP_BYTES))
		err = begin(r);
	else if (fd >= 0 && !(r && r->file))
		close(fd);
	if (err == -EBADMSG) /* the next read returns it */
		r->failed = err;
	else if (err) {
		trace_reader_close(r);
		return err;
	}
	mark_skip(r);
	*out = r;
	return 0;
}

/* The end of the row at p; NULL: it is not whole. *lines: its line ends; *quoted: it ends in a quote. */
static char *row_end(char *p, char *end, bool quotes, uint64_t *lines, bool *quoted)
{
	*lines = 1;
	*quoted = false;
	for (;; ++*lines) {
		char *nl = memchr(p, '\n', (size_t)(end - p)), *to = nl ? nl : end;

		while (quotes && (p = memchr(p, '"', (size_t)(to - p)))) {
			*quoted = !*quoted;
			p++;
		}
		if (!nl || !*quoted)
			return nl;
		p = nl + 1;
	}
}

/* quotes: a line end between quotation marks does not end the row. */
static int next_row(struct trace_reader *r, bool quotes, char **row, size_t *bytes)
{
	uint64_t lines;
	bool quoted;
	char *end;
	int more = 1;

	while (!(end = row_end(r->text + r->at, r->text + r->bytes, quotes, &lines, &quoted)) &&
	       r->bytes - r->at <= TRACE_READER_LINE_BYTES_MAX && more > 0)
		more = text_fill(r);
	r->line = r->next_line;
	if (!end && more <= 0 && (more < 0 || r->at == r->bytes))
		return more;
	if (quoted)
		return fail(r, "a quote is never closed");
	r->next_line += lines;
	*row = r->text + r->at;
	*bytes = end ? (size_t)(end - *row) : r->bytes - r->at;
	if (*bytes > TRACE_READER_LINE_BYTES_MAX)
		return fail(r, "line longer than 512 KiB");
	r->at += *bytes + (end ? 1 : 0);
	while (*bytes && (*row)[*bytes - 1] == '\r')
		--*bytes;
	(*row)[*bytes] = 0;
	return 1;
}

int trace_reader_line(struct trace_reader *r, char **line, size_t *bytes)
{
	return next_row(r, false, line, bytes);
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

int trace_reader_csv(struct trace_reader *r, struct trace_field **fields)
{
	size_t bytes;
	char *row;
	int n;

	while ((n = next_row(r, true, &row, &bytes)) > 0 && !bytes)
		r->blank++;
	if (n <= 0)
		return n;
	if (memchr(row, '\0', bytes))
		return fail(r, "a zero byte");
	*fields = r->field;
	n = trace_reader_fields(row, bytes, r->field, TRACE_READER_FIELDS_MAX);
	if (n > TRACE_READER_FIELDS_MAX)
		return fail(r, "too many columns");
	return n < 0 ? fail(r, "text after a closing quote") : n;
}

uint64_t trace_reader_blank(const struct trace_reader *r)
{
	return r->blank;
}

bool trace_reader_number(const struct trace_field *f, double *out)
{
	char *end;

	if (!f->bytes)
		return false;
	*out = strtod(f->text, &end);
	while (*end == ' ' || *end == '\t')
		end++;
	return end != f->text && !*end && isfinite(*out);
}

bool trace_reader_u64(const struct trace_field *f, uint64_t *out)
{
	char *end;

	if (*f->text < '0' || *f->text > '9') /* strtoull() takes blanks and signs */
		return false;
	errno = 0;
	*out = strtoull(f->text, &end, 10);
	if (*end == '.')
		end += 1 + strspn(end + 1, "0123456789");
	return !errno && end == f->text + f->bytes;
}
