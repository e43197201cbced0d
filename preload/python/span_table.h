/* SPDX-License-Identifier: Apache-2.0
 * span_table.h - the catalogue of this process: which functions are spans. model/span_catalogue.h
 * compiles it from YAML (docs/spans.md). Here it is lines of text: our own, or those of the file
 * SYSOM_SPANS.
 * Owns: static memory. Threads: span_table_load: any; all else: after it returned the table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/span_kind.h"

/* The values of a span: work by the order of SPAN_WORKS, then these. */
#define SPAN_VALUE_REQUEST  SPAN_WORK_MAX
#define SPAN_VALUE_DECODE   (SPAN_WORK_MAX + 1) /* requests of the batch that are in decode */
#define SPAN_VALUE_REQUESTS (SPAN_WORK_MAX + 2) /* a container of requests */
#define SPAN_VALUE_ITEM	    (SPAN_WORK_MAX + 3) /* then the parts of an item of that container */
#define SPAN_ITEM_ID	    0
#define SPAN_ITEM_TOKENS    1
#define SPAN_ITEM_DONE	    2
#define SPAN_ITEM_COUNT	    3
#define SPAN_VALUE_COUNT    (SPAN_VALUE_ITEM + SPAN_ITEM_COUNT)
/* The first byte of a term that is more than a path. Terms are separated by spaces. */
#define SPAN_FORM_LENGTH '#'
#define SPAN_FORM_SUM	 '+'
#define SPAN_FORM_ONES	 '='
#define SPAN_FORM_BASE	 '-' /* for ids: see base/request_id.h */

struct span_row {
	const char *name;
	const char *value[SPAN_VALUE_COUNT]; /* "#arg.attribute +other": terms; NULL: none */
	uint8_t process, thread;	     /* index in SPAN_PROCESSES, SPAN_THREADS */
	bool step, on_import;
};

struct span_function {
	const char *module, *name; /* name: CLASS.METHOD, perhaps with <locals> */
	uint16_t row;
};

struct span_nvtx {
	const char *pattern; /* span_pattern.h */
	uint16_t row;
};

struct span_table {
	struct span_row rows[LIMIT_SPAN_COUNT];
	struct span_function functions[LIMIT_SPAN_FUNCTIONS];
	struct span_nvtx nvtx[LIMIT_SPAN_NVTX];
	uint32_t row_count, function_count, nvtx_count;
	uint32_t bad_line; /* the line at which the file was refused; 0: it was not */
};

/* The table, read at the first call; NULL: none (SYSOM_SPANS=off), it is bad, or another thread
 * reads it now. */
const struct span_table *span_table_load(void);
/* Where the file was refused: a line, or 1 if it could not be read; 0: nowhere, so far. */
uint32_t span_table_bad_line(void);
/* Fills *t from text, which is cut into strings in place. 0, or the number of the first bad line;
 * the table is then empty. */
uint32_t span_table_parse(struct span_table *t, char *text, size_t bytes);
