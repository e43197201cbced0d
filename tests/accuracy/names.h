/* SPDX-License-Identifier: Apache-2.0
 * names.h - the functions that sampled frames lie in, named by symbol/symbol_resolver from a
 * Build-ID directory, as lines that tests/accuracy/names.py compares with other tools' answers.
 * Owns: the addresses seen.  Threads: one caller. */
#pragma once

#include <stdint.h>

#include "sampler/mapping_scan.h"

struct names;
/* directory: with .build-id below. 0, -errno. */
int names_open(struct names **out, const char *directory, uint32_t pid);
void names_close(struct names *n); /* NULL is a no-op */
/* Counts one frame. frame: as in struct unwind_state; by: the address that the sampler names it by, which
 * is unwind_state.leaf_row for a leaf. m: the mapping that holds it, or NULL. What lies in no file with
 * a Build ID is left out. 0, -ENOMEM. */
int names_add(struct names *n, const struct mapping *m, uint64_t frame, uint64_t by);
/* One line per address and the one that names it: build-id, address (hex, ELF virtual), times seen,
 * path, raw symbol name or "-"; tabs between. 0, -errno. */
int names_write(struct names *n, const char *path);
