/* SPDX-License-Identifier: Apache-2.0
 * kernel_symbols.h - names of kernel addresses from /proc/kallsyms, including modules and BPF
 * programs. Owns: a sorted array, bounded by base/limits.h and shared by all readers of the same
 * file.  Threads: one caller for each. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct kernel_symbols;
/* path: NULL is /proc/kallsyms, which is read at the first look-up. 0, -ENOMEM. */
int kernel_symbols_open(struct kernel_symbols **out, const char *path);
void kernel_symbols_close(struct kernel_symbols *k); /* NULL is a no-op */
/* The code symbol that contains address; a symbol ends where the next one begins. *offset: from its
 * start. "" if there is none, or addresses are hidden (kernel.kptr_restrict). Borrowed until the
 * next call. */
const char *kernel_symbols_find(struct kernel_symbols *k, uint64_t address, uint64_t *offset);
