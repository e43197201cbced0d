/* SPDX-License-Identifier: Apache-2.0
 * replay_csv.h - reads the rows of a CSV file that trace_reader.h opens. RFC 4180: quoted fields may hold
 * commas, doubled quotes and line ends. Owns: the reader. Threads: one caller. Trust: the file
 * is hostile: rows and fields are bounded. */
#ifndef SYSOM_CLI_TIMINGS_REPLAY_CSV_H
#define SYSOM_CLI_TIMINGS_REPLAY_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/trace/trace_reader.h"

#define REPLAY_CSV_FIELDS_MAX 1024 /* the widest metric files have some 150 columns */

struct replay_csv;
/* path "-" is standard input. 0 or -errno. */
int replay_csv_open(struct replay_csv **out, const char *path);
/* Takes the reader. At most its first byte may have been read. 0 or -ENOMEM. */
int replay_csv_take(struct replay_csv **out, struct trace_reader *reader);
void replay_csv_close(struct replay_csv *c); /* NULL is a no-op */
/* Returns the number of fields; their texts are valid until the next row. 0 at the end; -EBADMSG
 * (replay_csv_error has the reason), -EIO, -ENOMEM. Skips and counts blank lines. */
int replay_csv_next(struct replay_csv *c, struct trace_field **fields);
/* The line of the last row or of the error, from 1. */
uint64_t replay_csv_line(const struct replay_csv *c);
uint64_t replay_csv_blank(const struct replay_csv *c);
const char *replay_csv_error(const struct replay_csv *c);
/* Reads the whole field as a finite number. */
bool replay_csv_number(const struct trace_field *f, double *out);
/* The columns of a header f[n] with these names: of one whole name, which may have a comma, else of a
 * list with commas. Returns how many. -E2BIG: more than `most`. -ENOENT: none has the name that *at of
 * *bytes begins. */
int replay_csv_columns(const struct trace_field *f, uint32_t n, const char *names, uint32_t *out,
		       uint32_t most, const char **at, size_t *bytes);
/* These columns of a row with commas between, and a zero byte. Returns the bytes before that;
 * -ENAMETOOLONG. */
int replay_csv_join(const struct trace_field *f, const uint32_t *column, uint32_t count, char *to,
		    size_t room);

#endif
