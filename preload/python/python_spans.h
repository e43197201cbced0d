/* SPDX-License-Identifier: Apache-2.0
 * python_spans.h - Python functions of a catalogue become spans, without a change to the script:
 * docs/spans.md. Nothing happens in a process without an interpreter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "foreign/cpython.h"
#include "preload/python/python_hook.h"

/* Call when the interpreter looks up the entry of an extension module, so that something is being
 * imported. Starts tracing if this is, or is part of, a module whose catalogue asks for it. Any
 * thread, in dlsym; keeps errno. */
void python_spans_importing(void);
/* Looks for functions of the catalogue now and then, in the interpreter's main thread. Helper
 * thread. */
void python_spans_tend(uint64_t now_ns);

/* How a function is followed; each returns 0, or -1: it cannot be. With the GIL.
 * python_monitor.c, from 3.12: function is one, or a code object inside one. */
int python_monitor_add(struct py_object *code, const struct span_row *row);
/* python_call.c, before 3.12 */
int python_call_add(struct py_object *function, struct py_object *code, const struct span_row *row);
/* python_gc.c: collections become spans once the job has imported gc. Idempotent. */
void python_gc_add(void);

/* python_find.c: the function of MODULE's dictionary by its qualified name. New reference in *out
 * (a function, or a code object of a nested one). */
enum python_found { PYTHON_FOUND, PYTHON_LATER, PYTHON_ABSENT };
enum python_found python_find(const struct span_function *f, struct py_object **out);
/* Whether the module, given by the part of its name before the first dot, is being imported or was
 * imported. */
bool python_find_root(const char *module);
