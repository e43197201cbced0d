/* SPDX-License-Identifier: Apache-2.0
 * demangle.h - names of C++ and Rust functions as people write them, by libiberty. Threads: any. Trust: a
 * name is a peer's. A short one can stand for gigabytes, so the result is cut to the caller's room, and
 * the work ends there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Without parameters or with them: "f<int>(int)". False, and nothing in out: not mangled, or not
 * understood; libiberty refuses names of more than 1,024 bytes. */
bool demangle(const char *name, bool parameters, char *out, size_t bytes);
