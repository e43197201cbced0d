/* SPDX-License-Identifier: Apache-2.0
 * kernel_name.h - the name of a GPU kernel, mangled or not: its form for people, and its parts.
 * Owns: its texts. Threads: one caller. Trust: names come from the job; at most LIMIT_NAME_BYTES
 * are read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_NAME_ARGS_MAX 64u

struct kernel_name {
	bool mangled; /* by C++ or Rust */
	char *full;   /* demangled, without return type and parameters: "ns::gemm<float, 128>" */
	char *base;   /* also without template arguments: "ns::gemm" */
	char *args[KERNEL_NAME_ARGS_MAX]; /* all template arguments in order: "float", "128" */
	uint32_t arg_count;		  /* the last one holds all further arguments */
};

/* 0, -ENOMEM. A name that is neither C++ nor Rust is its own base. */
int kernel_name_parse(struct kernel_name *k, const char *raw);
void kernel_name_free(struct kernel_name *k);

/* The name for people: demangled and without parameters. Plain names stay as they are, and so does
 * a ledger's launch configuration at the end ("<<<8,1,1, 128,1,1>>>"). Returns out. */
const char *kernel_name_text(const char *name, char *out, size_t bytes);
/* The same without a launch configuration. */
const char *kernel_name_short(const char *name, char *out, size_t bytes);
/* The name without what differs between a kernel's variants: template arguments, parameters, the
 * launch configuration, and the digits in plain names such as cuBLAS's ("gemm_f#_#x#"). Returns
 * out. */
const char *kernel_name_family(const char *name, char *out, size_t bytes);
/* Bytes of a name before its launch configuration. */
size_t kernel_name_bytes(const char *name);
