/* SPDX-License-Identifier: Apache-2.0
 * trace_reader.h - reads the bytes, lines and fields of a trace file or standard input: plain, gzip or zstd
 * (detected from the first bytes). Skips a byte order mark before UTF-8 text.
 * Owns: the descriptor and its buffers. Threads: one caller. Trust: the file is hostile: lines are bounded,
 * and it unpacks at most a buffer at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Kernel names have up to 4 KB, folded stacks of a thousand frames about 100 KB. A longer line is an error,
 * not a long wait. */
#define TRACE_READER_LINE_BYTES_MAX (512u << 10)
#define TRACE_READER_FIELDS_MAX	    1024 /* the widest metric files have some 150 columns */

struct trace_reader;
/* path "-" is standard input. 0 or -errno. */
int trace_reader_open(struct trace_reader **out, const char *path);
void trace_reader_close(struct trace_reader *r); /* NULL is a no-op */
/* The next line, NUL-terminated, without its newline, valid until the next call. 1; 0 at the end; -EBADMSG
 * (trace_reader_error has the reason); -errno of the file. */
int trace_reader_line(struct trace_reader *r, char **line, size_t *bytes);
/* Returns the number of unpacked bytes, 0 at the end, or an error as above. Don't mix with lines. */
ssize_t trace_reader_read(struct trace_reader *r, void *buffer, size_t bytes);
/* The first byte that is not white space, without consuming it; -1: none, or an error that the next line or
 * read returns. */
int trace_reader_peek(struct trace_reader *r);
/* The number of the last row's first line, from 1. */
uint64_t trace_reader_line_number(const struct trace_reader *r);
const char *trace_reader_error(const struct trace_reader *r);

struct trace_field {
	char *text; /* NUL-terminated inside the line, unquoted in place */
	size_t bytes;
};
/* The next row of comma-separated values (RFC 4180): quoted fields may hold commas, doubled quotes and line
 * ends. Returns the number of fields; their texts are valid until the next row. 0 at the end, or an error
 * as above. Skips and counts blank lines. */
int trace_reader_csv(struct trace_reader *r, struct trace_field **fields);
uint64_t trace_reader_blank(const struct trace_reader *r);
/* Splits a line of comma-separated values in place. Returns the number of fields (those beyond max are not
 * stored), or -EBADMSG (a quote is not closed, or text follows one). */
int trace_reader_fields(char *line, size_t bytes, struct trace_field *fields, int max);
/* Reads the whole field as a non-negative integer, without its decimals. */
bool trace_reader_u64(const struct trace_field *f, uint64_t *out);
/* Reads the whole field as a finite number. */
bool trace_reader_number(const struct trace_field *f, double *out);
