/* SPDX-License-Identifier: Apache-2.0
 * python_hook.h - functions that are spans: by what they are found at a call, and what one call
 * leaves in the ring. Never runs the job's code, never raises.
 * Owns: references to what a hook names, for the life of the process. Threads: with the GIL. */
#ifndef SYSOM_PRELOAD_PYTHON_HOOK_H
#define SYSOM_PRELOAD_PYTHON_HOOK_H

#include <stdbool.h>

#include "foreign/cpython.h"
#include "preload/python/span_table.h"

struct python_value {
	struct py_object *name[LIMIT_SPAN_PARTS]; /* owned; the first: argument, or "return" */
	uint8_t count;				  /* 0: the span has no such value */
	bool length, of_return;
	int16_t position; /* of the argument; -1: none of that name */
};

struct python_hook {
	const struct py_object *key; /* code object, or function before 3.12 */
	py_vectorcall real;	     /* before 3.12 */
	const struct span_row *row;
	uint32_t name; /* id in the ring */
	bool step, generator;
	struct python_value value[SPAN_VALUE_COUNT];
};

/* The arguments of a call, or NULL args: they are those of the running frame. */
struct python_arguments {
	struct py_object *const *args;
	size_t count;
	struct py_object *names; /* of those behind; NULL: none */
};

/* Adds a hook for `key`; code gives the names of arguments. NULL: there is one, or no room. */
struct python_hook *python_hook_add(struct py_object *key, struct py_object *code,
				    const struct span_row *row);
struct python_hook *python_hook_find(const struct py_object *key);
/* A call begins or goes on (resumed), and ends or pauses; returned: NULL if there is no result. */
void python_hook_begin(const struct python_hook *h, const struct python_arguments *a, bool resumed);
void python_hook_end(const struct python_hook *h, struct py_object *returned, bool paused);
/* A span without a hook: the collector's. */
void python_hook_mark(const void *key, uint32_t name, bool begin);

#endif
