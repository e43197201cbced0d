/* SPDX-License-Identifier: Apache-2.0
 * python_elf.h - finds the CPython interpreter in a file: the addresses of the runtime, of the
 * interpreter loop (including its cold part, which the compiler moved elsewhere), and of the
 * functions that wait for the GIL.
 * Owns: nothing. Threads: any.
 * Trust: the file is hostile: every size is bounded, nothing is mapped, no read blocks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PYTHON_ELF_EVAL_MAX 4
#define PYTHON_ELF_WAIT_MAX 8
#define PYTHON_ELF_LOAD_MAX 16

struct python_range {
	uint64_t begin, end; /* ELF virtual addresses; end is exclusive */
};

struct python_elf {
	uint64_t runtime;   /* ELF virtual address of _PyRuntime; 0: the file contains no
			     * interpreter */
	uint64_t code_type; /* of PyCode_Type, 0 unknown */
	uint64_t version;   /* of Py_Version (3.11 and later), 0 unknown */
	/* _PyEval_EvalFrameDefault and its cold parts */
	struct python_range eval[PYTHON_ELF_EVAL_MAX];
	struct python_range wait[PYTHON_ELF_WAIT_MAX]; /* functions that take the GIL */
	uint32_t eval_count, wait_count;
	struct { /* PT_LOAD */
		uint64_t offset, address, bytes;
	} load[PYTHON_ELF_LOAD_MAX];
	uint32_t load_count;
	bool cold_guessed; /* the cold part has no symbol: found by the jumps into it */
};

/* fd: a regular file, borrowed. 0, -ENOENT (no interpreter), -EBADMSG (not an ELF file of this
 * machine, or sizes beyond the bounds), -errno. */
int python_elf_read(struct python_elf *out, int fd);
/* The ELF virtual address of a file offset; false: not in a segment. */
bool python_elf_address(const struct python_elf *e, uint64_t offset, uint64_t *address);
