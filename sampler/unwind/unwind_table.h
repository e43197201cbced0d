/* SPDX-License-Identifier: Apache-2.0
 * unwind_table.h - compiles the call frame information of one ELF file into rows and rules. Source
 * of the format: DWARF 5, 6.4, and the LSB's .eh_frame. libdw splits the section into entries and
 * reads their headers; this file runs the call frame programs, once per function.
 * Owns: a table is private memory of the caller.  Threads: any, one per table.
 * Trust: the file is hostile. base/limits.h bounds work and memory. Any error in the file refuses
 * the whole table, with a reason. State that a single rule cannot express becomes
 * UNWIND_CFA_UNSUPPORTED for its addresses only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind_format.h"

/* Valid from `address` to the next row's address. */
struct unwind_table_row {
	uint32_t address; /* ELF virtual address minus the table's start */
	uint32_t rule;	  /* index into rules */
};

struct unwind_table {
	uint64_t begin; /* ELF virtual address, page-aligned */
	uint64_t end;	/* after the last described byte */
	struct unwind_table_row
	    *rows; /* sorted, addresses unique. Every function begins with a row, so a row
		    * identifies one function; gaps are rows of UNWIND_CFA_NONE */
	struct unwind_rule *rules; /* distinct; rule 0 is UNWIND_CFA_NONE */
	uint32_t row_count, rule_count;
	/* statistics of the input */
	uint32_t fde_count;
	uint64_t code_bytes; /* bytes of code that FDEs cover */
	char source[16];     /* ".eh_frame" or ".debug_frame" */
};

#define UNWIND_TABLE_WHY_BYTES 96

/* Compiles the file behind fd (borrowed; read, never mapped). 0; -ENODATA: no call frame
 * information at all; -EBADMSG: refused; -E2BIG: beyond a bound; -ENOTSUP: not an x86-64 ELF file;
 * -ENOMEM. On an error, why has the reason as text, and *out is empty. */
int unwind_table_compile(struct unwind_table *out, int fd, char why[UNWIND_TABLE_WHY_BYTES]);
void unwind_table_fini(struct unwind_table *t);
