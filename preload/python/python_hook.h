/* SPDX-License-Identifier: Apache-2.0
 * python_hook.h - functions that are spans: by what they are found at a call, and what one call
 * leaves in the ring. Never runs the job's code, never raises.
 * Owns: references to what a hook names, for the life of the process. Threads: with the GIL. */
#pragma once

#include <stdbool.h>

#include "foreign/cpython.h"
#include "preload/python/python_value.h"

/* Terms of all values of one span. */
#define PYTHON_HOOK_VALUES 16u

struct python_hook {
	const struct py_object *key; /* code object, or function before 3.12 */
	py_vectorcall real;	     /* before 3.12 */
	const struct span_row *row;
	uint32_t name; /* id in the ring */
	bool step, generator;
	struct python_value value[PYTHON_HOOK_VALUES];
	uint8_t value_count;
	const struct python_value *requests; /* of value; NULL: the span names no requests */
	const struct python_value *item[SPAN_ITEM_COUNT]; /* of value; NULL: not given */
};

/* Adds a hook for `key`; code gives the names of arguments. NULL: there is one, or no room. */
struct python_hook *python_hook_add(struct py_object *key, struct py_object *code,
				    const struct span_row *row);
struct python_hook *python_hook_find(const struct py_object *key);
/* A call begins or continues (resumed), and ends or pauses; returned: NULL if there is no result. */
void python_hook_begin(const struct python_hook *h, const struct python_arguments *a, bool resumed);
void python_hook_end(const struct python_hook *h, struct py_object *returned, bool paused);
/* A span without a hook: the collector's. */
void python_hook_mark(const void *key, uint32_t name, bool begin);
