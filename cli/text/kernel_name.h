/* SPDX-License-Identifier: Apache-2.0
 * kernel_name.h - the name of a GPU kernel taken apart: what it is called, and its template arguments,
 * from the mangled name or from one that is demangled already. Owns: its texts. Threads: one caller.
 * Trust: names come from the job; LIMIT_NAME_BYTES of them are looked at. */
#ifndef SYSOM_CLI_TEXT_KERNEL_NAME_H
#define SYSOM_CLI_TEXT_KERNEL_NAME_H

#include <stdint.h>

#define KERNEL_NAME_ARGS_MAX 64u

struct kernel_name {
	char *full; /* demangled, without return type and parameters: "ns::gemm<float, 128>" */
	char *base; /* and without template arguments: "ns::gemm" */
	char *args[KERNEL_NAME_ARGS_MAX]; /* of all its templates in order: "float", "128" */
	uint32_t arg_count;		  /* of more than there is room for the last is the rest */
};

/* 0, -ENOMEM. What is no C++ name is its own base. */
int kernel_name_parse(struct kernel_name *k, const char *raw);
void kernel_name_free(struct kernel_name *k);

#endif
