/* SPDX-License-Identifier: Apache-2.0
 * trace_reader.h - the bytes, lines and fields of a trace file: plain, gzip or zstd (told by their
 * first bytes), or standard input. A byte order mark before UTF-8 text is passed over.
 * Owns: the descriptor and its buffers. Threads: one caller. Trust: the file is hostile: lines are
 * bounded, and no more than a buffer is unpacked at a time. */
#ifndef SYSOM_CLI_TRACE_TRACE_READER_H
#define SYSOM_CLI_TRACE_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kernel names run to 4 KB, folded stacks of a thousand frames to some 100 KB; a longer line is an
 * error, not a long wait. */
#define TRACE_READER_LINE_BYTES_MAX (512u << 10)

struct trace_reader;
/* path "-" is standard input. 0 or -errno. */
int trace_reader_open(struct trace_reader **out, const char *path);
void trace_reader_close(struct trace_reader *r); /* NULL is a no-op */
/* The next line, NUL-terminated, without its end, valid until the next call. 1, 0 at the end,
 * -EBADMSG (trace_reader_error says what), -errno of the file. */
int trace_reader_line(struct trace_reader *r, char **line, size_t *bytes);
/* Unpacked bytes: how many, 0 at the end, or as above. Not to be mixed with lines. */
ssize_t trace_reader_read(struct trace_reader *r, void *buffer, size_t bytes);
/* The first byte that is no white space, without taking it; -1 where there is none or an error (which
 * the next line or read returns). */
int trace_reader_peek(struct trace_reader *r);
/* Of the line last returned, from 1. */
uint64_t trace_reader_line_number(const struct trace_reader *r);
const char *trace_reader_error(const struct trace_reader *r);

struct trace_field {
	char *text; /* NUL-terminated inside the line, unquoted in place */
	size_t bytes;
};
/* Splits a line of comma-separated values in place. The number of fields (those beyond max are not
 * stored), or -EBADMSG (a quote that does not close, or text after one). */
int trace_reader_fields(char *line, size_t bytes, struct trace_field *fields, int max);
/* A whole field as a non-negative integer, its decimals cut off. */
bool trace_reader_u64(const struct trace_field *f, uint64_t *out);

#endif
