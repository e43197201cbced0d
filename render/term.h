/* SPDX-License-Identifier: Apache-2.0
 * term.h - text for people: colours only on a terminal (and not with NO_COLOR), harmless copies of
 * untrusted text, numbers with units, bars. Threads: any. Returned texts are in TERM_TEXTS buffers of the
 * thread, used in turn: each is valid until that many further calls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TERM_TEXTS	 32
#define TERM_TEXT_BYTES	 1024
#define TERM_COLUMNS_MAX (TERM_TEXT_BYTES / 5)

enum term_style { TERM_PLAIN, TERM_BOLD, TERM_DIM, TERM_RED, TERM_GREEN, TERM_YELLOW, TERM_CYAN };

/* Looks at standard output, NO_COLOR, TERM and the locale. */
void term_init(void);
bool term_is_live(void);	       /* standard output is a terminal */
unsigned term_columns(void);	       /* of standard output; 160 if it is not a terminal */
void term_set_paged(unsigned columns); /* a pager of this width will show the output; 0: none */
bool term_error_is_live(void);	       /* standard error is a terminal that can rewrite a line */
unsigned term_error_columns(void);     /* of standard error; 80 */
/* An escape sequence, or "" if colours are off. */
const char *term_style(enum term_style s);
/* Valid UTF-8 text without control, escape or direction-changing characters, cut at max_columns
 * characters ("..." in the middle); NULL reads as "". */
const char *term_safe(const char *text, unsigned max_columns);
/* Bytes of the next character, at least 1; *ok: valid and harmless. text must not be empty. */
unsigned term_next_char(const char *text, bool *ok);
const char *term_ms(double ms);		/* "27.5 ms", "1.24 s", "830 us" */
const char *term_ms_cell(double ms);	/* for a column: "27.5 ms", "1240 ms", "0.83 ms" */
const char *term_bytes(double bytes);	/* "1.2 MB" */
const char *term_percent(double share); /* 0.123 -> "12.3%" */
const char *term_share(double part, double whole); /* "12%"; whole <= 0: "" */
/* What was sent, against the events that it stands for: "123 kB, 0.085% of 145 MB of events".
 * Stacks and summaries are sent too, but are no events, so more may be sent: "5 kB, more than 4 kB
 * of events". */
const char *term_sent(double bytes, double event_bytes);
const char *term_excess(double excess); /* 0.5 -> "+50%", 48 -> "x49" */
const char *term_count(double n);	/* "12,345" */
const char *term_counted(double n, const char *one, const char *many); /* "1 step", "12 steps" */
/* "4 ranks", "4 ranks and 2 other processes", "2 processes without a rank" */
const char *term_ranks(double ranks, double others);
const char *term_rank(long long rank);	    /* "rank 3", "a process without a rank" */
const char *term_rank_cell(long long rank); /* "3", "-" */
const char *term_span(double seconds);	    /* "46.0 ms", "12.4 s", "3 min 5 s" */
const char *term_time(uint64_t unix_ns);    /* "2026-11-21 02:50:12 UTC" */
/* A bar of fraction (0 to 1) of width cells, padded; in eighths of a cell if the locale is UTF-8. */
const char *term_bar(double fraction, unsigned width);
/* Untrusted text, wrapped between words at `columns` and indented by `indent`; the label is in the
 * first line's indent, two cells from the left. */
void term_wrap(FILE *to, unsigned indent, const char *label, const char *text, unsigned columns);
/* One cell of a column chart, 0 to 1 in eighths (in ASCII: darker characters for more). Static. */
const char *term_level(double fraction);
/* Ascending numbers as "0-4, 6, 7". */
const char *term_ranges(const int *values, size_t count);
