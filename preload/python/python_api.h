/* SPDX-License-Identifier: Apache-2.0
 * python_api.h - the interpreter of this process, if there is one that we know: CPython 3.10 to
 * 3.14 with a GIL. Nothing of it is linked.
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

/* Whether python_api is filled. Looks for the interpreter if that is not known yet; false for ever
 * if it is one that we do not know. Does not need the GIL. */
bool python_api_load(void);
/* Whether the interpreter runs: initialised and not about to end. Does not need the GIL. */
bool python_api_running(void);
/* Whether this thread holds the GIL of the main interpreter, and objects look as we expect. */
bool python_api_here(void);

/* sys.modules[name], borrowed; NULL: not there. */
struct py_object *python_api_module(const char *name);
/* dict[name], borrowed; NULL, without an error: not there. */
struct py_object *python_api_item(struct py_object *dict, const char *name);
/* New. An attribute that can be read without running any of the job's code: of the object itself or
 * a plain one of its class. NULL: there is none, or none like that. */
struct py_object *python_api_attr(struct py_object *o, struct py_object *name);
/* New. An attribute of one of the interpreter's own objects (function, code, type ...), which
 * always runs the interpreter's code only. NULL: there is none. */
struct py_object *python_api_field(struct py_object *o, const char *name);
static inline bool python_api_is(const struct py_object *o, const struct py_object *type)
{
	return o->type == type;
}
/* None, new. */
static inline struct py_object *python_api_none(void)
{
	python_api.Py_IncRef(python_api._Py_NoneStruct);
	return python_api._Py_NoneStruct;
}
