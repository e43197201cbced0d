/* SPDX-License-Identifier: Apache-2.0
 * python_api.h - the interpreter of this process, if it has one that we know: CPython 3.10 to 3.14
 * with a GIL. We do not link against it.
 * Threads: python_api_load: any. All else: those that hold the GIL. */
#pragma once

#include <stdbool.h>

#include "foreign/cpython.h"

struct python_api {
#define PY(result, name, arguments)    result(*name) arguments;
#define PY_IF(result, name, arguments) result(*name) arguments;
#define PY_DATA(name)		       struct py_object *name;
#include "preload/python/python_api.def"
#undef PY
#undef PY_IF
#undef PY_DATA
	int minor; /* of 3.minor */
};
extern struct python_api python_api;

/* Whether python_api is filled. Looks for the interpreter if it is not known yet. If the
 * interpreter is one that we do not support, the answer stays false. Does not need the GIL. */
bool python_api_load(void);
/* Whether the interpreter runs: initialised and not about to end. Does not need the GIL. */
bool python_api_running(void);
/* Whether this thread holds the GIL of the main interpreter, and objects look as we expect. */
bool python_api_here(void);

/* sys.modules[name], borrowed; NULL: not there. */
struct py_object *python_api_module(const char *name);
/* dict[name], borrowed; NULL, without an error: not there. */
struct py_object *python_api_item(struct py_object *dict, const char *name);
/* New reference. An attribute that can be read without running any of the job's code: an attribute
 * of the object itself, or a plain one of its class. NULL: there is no such attribute. */
struct py_object *python_api_attr(struct py_object *o, struct py_object *name);
/* New reference. An attribute of one of the interpreter's own objects (function, code, type ...).
 * Reading it runs only the interpreter's own code. NULL: there is none. */
struct py_object *python_api_field(struct py_object *o, const char *name);
static inline bool python_api_is(const struct py_object *o, const struct py_object *type)
{
	return o->type == type;
}
/* None, as a new reference. */
static inline struct py_object *python_api_none(void)
{
	python_api.Py_IncRef(python_api._Py_NoneStruct);
	return python_api._Py_NoneStruct;
}
