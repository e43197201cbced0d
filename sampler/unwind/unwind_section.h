/* SPDX-License-Identifier: Apache-2.0
 * unwind_section.h - the bytes of a file from which unwind tables are compiled.
 * Owns: nothing; the caller owns a section's bytes.  Threads: any, one per file.
 * Trust: the file is hostile. Nothing is allocated for bytes that the file does not have. A table
 * that includes a hole of a sparse file is rejected, and compressed data expands to at most 64
 * times its size. */
#pragma once

#include "symbol/symbol_elf.h"

struct unwind_section {
	uint8_t *bytes; /* NULL: missing */
	size_t count;
	uint64_t address; /* virtual address of bytes */
};

/* Reads the section of that name. Without section headers, .eh_frame is found by PT_GNU_EH_FRAME,
 * as the program's own exceptions do. 0, even if the section is missing; -EBADMSG, -E2BIG, -ENOMEM,
 * -errno: *why says what is wrong. */
int unwind_section_read(struct unwind_section *out, const struct symbol_elf *e, const char *name,
			const char **why);
void unwind_section_fini(struct unwind_section *s);
