/* SPDX-License-Identifier: Apache-2.0
 * python_runtime.h - finds the CPython interpreter of a process, and the data that the kernel walk
 * (bpf/python.h) needs about it.
 * Supports static interpreters (PIE or not) and libpython; 3.10 to 3.14 with a GIL; several
 * interpreters in one process. Everything else is refused with a reason, and stacks then have only
 * native frames.
 * Owns: a finder's cache of examined files.  Threads: one caller per finder.
 * Trust: the process's memory and files are hostile: bounded reads, checked values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/python_format.h"
#include "bpf/read_user.h"
#include "reader/reader.h"
#include "sampler/python/python_elf.h"
#include "sampler/python/python_offsets.h"

struct python_runtime {
	struct python_process process; /* the entry for the kernel's map */
	struct python_offsets offsets;
	uint64_t runtime;   /* address of _PyRuntime */
	uint64_t code_type; /* of PyCode_Type; 0 unknown */
	uint64_t version;   /* of Py_Version; 0: it has none */
	uint64_t bias;	    /* address minus ELF virtual address of the interpreter's file */
	struct python_range eval[PYTHON_ELF_EVAL_MAX]; /* addresses, not ELF virtual addresses */
	struct python_range wait[PYTHON_ELF_WAIT_MAX];
	uint32_t eval_count, wait_count;
	char what[160]; /* "CPython 3.11.7, thread states by thread-specific data", or the reason
			 * for the refusal */
};

/* The role of a native frame in the interpreter: python_runtime_mark. */
enum python_mark {
	PYTHON_MARK_NONE = 0,
	PYTHON_MARK_EVAL,   /* the interpreter loop: a run of Python frames replaces it */
	PYTHON_MARK_WAIT,   /* waits for the GIL, or takes it at once */
	PYTHON_MARK_SWITCH, /* of an extension that switches C stacks (stack_build.c) */
};

struct python_finder;
int python_finder_open(struct python_finder **out);
void python_finder_close(struct python_finder *f); /* NULL is a no-op */

/* Examines a process's mappings. Takes milliseconds for a new file. 0; -ENOENT: no interpreter
 * (yet); -EAGAIN: it has not started, ask again; -ENOTSUP: refused, out->what says why; -ESRCH,
 * -EACCES, -ENOMEM. Always sets out->what. */
int python_runtime_find(struct python_finder *f, struct python_runtime *out,
			struct reader_target *t);
/* The same for a file that was already read: e, mapped with this bias, at this path (which gives
 * the version for 3.10), in the memory that `memory` reads. */
int python_runtime_probe(struct python_runtime *out, const struct python_elf *e, uint64_t bias,
			 const char *path, const struct read_user *memory);
/* pc: an address in the frame's function (a return address minus 1). */
enum python_mark python_runtime_mark(const struct python_runtime *r, uint64_t pc);

/* Memory of a live process for `struct read_user`: owner is a struct python_memory. */
struct python_memory {
	int fd; /* of /proc/PID/mem, or -1 */
	uint64_t reads, bytes;
};
/* 0, -ESRCH, -errno. */
int python_memory_open(struct python_memory *m, struct reader_target *t);
void python_memory_close(struct python_memory *m);
struct read_user python_memory_reader(struct python_memory *m);
