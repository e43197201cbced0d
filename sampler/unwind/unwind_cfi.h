/* SPDX-License-Identifier: Apache-2.0
 * unwind_cfi.h - runs call frame programs (DWARF 5, 6.4.2) and expresses each state as one rule of
 * bpf/unwind_format.h. It keeps only what unwinding needs: CFA, return address, rbp, rbx.
 * Owns: nothing; expressions point into the section.  Threads: any.
 * Trust: programs are hostile; every read is within [p, end). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "bpf/unwind_format.h"

/* DW_EH_PE_omit, and the parts of an encoding (LSB, "DWARF Extensions"). */
#define UNWIND_CFI_OMIT 0xff

struct unwind_cfi_cursor {
	const uint8_t *p, *end;
	bool failed; /* a read went past the end, or a number was too long; later reads return 0 */
};

enum unwind_cfi_where {
	UNWIND_CFI_SAME = 0,
	UNWIND_CFI_UNDEFINED,
	UNWIND_CFI_OFFSET,     /* at CFA + offset */
	UNWIND_CFI_VAL_OFFSET, /* is CFA + offset */
	UNWIND_CFI_REGISTER,   /* is in register `offset` */
	UNWIND_CFI_EXPRESSION, /* at the address that the expression gives */
	UNWIND_CFI_VAL_EXPRESSION,
};

struct unwind_cfi_location {
	enum unwind_cfi_where where;
	int64_t offset;
	const uint8_t *expression;
	size_t expression_bytes;
};

enum { UNWIND_CFI_RBX = 0, UNWIND_CFI_RBP, UNWIND_CFI_RA, UNWIND_CFI_TRACKED };

struct unwind_cfi_state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	const uint8_t *cfa_expression; /* NULL: register + offset */
	size_t cfa_expression_bytes;
	struct unwind_cfi_location at[UNWIND_CFI_TRACKED];
};

struct unwind_cfi_machine {
	/* from the entry's header */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_register;
	uint8_t pointer_encoding; /* for DW_CFA_set_loc */
	uint64_t section_address; /* of section_begin, for pc-relative pointers */
	const uint8_t *section_begin;
	/* current location */
	uint64_t pc;
	struct unwind_cfi_state now, initial;
	struct unwind_cfi_state remembered[LIMIT_UNWIND_REMEMBER];
	unsigned depth;
};

uint64_t unwind_cfi_uleb(struct unwind_cfi_cursor *c);
int64_t unwind_cfi_sleb(struct unwind_cfi_cursor *c);
/* Reads a pointer in one of the DW_EH_PE_* encodings; address: the virtual address of c->p. */
uint64_t unwind_cfi_pointer(struct unwind_cfi_cursor *c, uint8_t encoding, uint64_t address);

/* Runs until the location advances or the program ends. 1: `before` was valid up to (not including)
 * the new m->pc; 0: the end; -1: invalid program. `before` is a copy of m->now from before the
 * advance. */
int unwind_cfi_run(struct unwind_cfi_machine *m, struct unwind_cfi_cursor *c);
/* Expresses m->now as a rule; UNWIND_CFA_UNSUPPORTED if that is impossible. */
struct unwind_rule unwind_cfi_rule(const struct unwind_cfi_state *s);
