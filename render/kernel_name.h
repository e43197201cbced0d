/* SPDX-License-Identifier: Apache-2.0
 * kernel_name.h - splits the name of a GPU kernel, mangled or not, into base name and template arguments.
 * Owns: its texts. Threads: one caller. Trust: names come from the job; it reads LIMIT_NAME_BYTES. */
#pragma once

#include <stdint.h>

#define KERNEL_NAME_ARGS_MAX 64u

struct kernel_name {
	char *full; /* demangled, without return type and parameters: "ns::gemm<float, 128>" */
	char *base; /* also without template arguments: "ns::gemm" */
	char *args[KERNEL_NAME_ARGS_MAX]; /* all template arguments in order: "float", "128" */
	uint32_t arg_count;		  /* the last one holds all that have no room */
};

/* 0, -ENOMEM. A name that is not C++ is its own base. */
int kernel_name_parse(struct kernel_name *k, const char *raw);
void kernel_name_free(struct kernel_name *k);
