/* SPDX-License-Identifier: Apache-2.0
 * python_hook.h - functions that are spans: how a call is recognised, and what it leaves in the
 * ring. Never runs the job's code, never raises.
 * Owns: references to the objects that a hook names, for the life of the process.
 * Threads: with the GIL. */
#pragma once

#include <stdbool.h>

#include "foreign/cpython.h"
#include "preload/python/python_value.h"

/* The most terms, over all values of one span. */
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

/* Adds a hook for `key`; code gives the names of arguments. NULL: there already is one, or no
 * room. */
struct python_hook *python_hook_add(struct py_object *key, struct py_object *code,
				    const struct span_row *row);
struct python_hook *python_hook_find(const struct py_object *key);
/* begin: a call begins or continues (resumed). end: it ends or pauses; returned: NULL if there is
 * no result. */
void python_hook_begin(const struct python_hook *h, const struct python_arguments *a, bool resumed);
void python_hook_end(const struct python_hook *h, struct py_object *returned, bool paused);
/* A span without a hook: that of the garbage collector. */
void python_hook_mark(const void *key, uint32_t name, bool begin);
