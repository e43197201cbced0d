/* SPDX-License-Identifier: Apache-2.0
 * fuzz_budget.h - a fuzzer fails on work and memory, not only on crashes: what one input makes the code
 * read, write and allocate, and the CPU time of its thread, must not exceed a fixed part and a factor of
 * its real bytes. What exceeds them is tried again, since a first input makes what all others use. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* What one input may cost as a whole: checked for every fuzzer, whose entry is wrapped. A fuzzer that
 * needs more defines fuzz_bounds and says why. Not const: clang takes a weak constant for the only one. */
struct fuzz_bounds {
	uint64_t moved, moved_per_byte; /* bytes of pread and write */
	uint64_t allocated, allocated_per_byte;
	uint64_t cpu_us, cpu_ns_per_byte; /* without sanitizers; ten times as much with them */
};
extern struct fuzz_bounds fuzz_bounds;

/* For a closer bound of a part of an input's work. */
void fuzz_budget_begin(void);
/* Aborts if since begin more was moved (pread, write) or allocated (the sum, freed or not) than its fixed
 * part and the factor times input_bytes. */
void fuzz_budget_end(size_t input_bytes, uint64_t moved_fixed, uint64_t allocated_fixed,
		     uint64_t factor);
/* Around what the fuzzer itself does to check what came out: it counts for nothing. */
void fuzz_budget_check_begin(void);
void fuzz_budget_check_end(void);
/* The bytes as a file; sparse: followed by a hole of a tebibyte, which real bytes do not count. */
int fuzz_budget_file(const uint8_t *data, size_t bytes, int sparse);
