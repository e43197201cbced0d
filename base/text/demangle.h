/* SPDX-License-Identifier: Apache-2.0
 * demangle.h - names of C++ and Rust functions as people write them, by libiberty. Threads: any.
 * Trust: a name is a peer's. A short name can expand to gigabytes, so the result is cut to the
 * caller's room, and the work ends there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* parameters: whether to include them, as in "f<int>(int)". False, with nothing in out: the name is
 * not mangled, or not understood; libiberty refuses names of more than 1,024 bytes. */
bool demangle(const char *name, bool parameters, char *out, size_t bytes);
