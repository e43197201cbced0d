/* SPDX-License-Identifier: Apache-2.0
 * symbol_mini.h - unpacks .gnu_debugdata, a small symbol file that some distributions keep inside a
 * stripped one.
 * Threads: any.  Trust: hostile; the unpacked size and the memory for unpacking are bounded. */
#pragma once

#include "symbol/symbol_elf.h"

/* Unpacks the section of e into fd (empty, writable, borrowed) and reads its headers into *mini, to
 * be released with symbol_elf_fini. 0; -ENOENT: e has none; -EBADMSG: not LZMA, too large, or not
 * an ELF file with a symbol table; -ENOMEM, -errno. */
int symbol_mini_unpack(const struct symbol_elf *e, int fd, struct symbol_elf *mini);
