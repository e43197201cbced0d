/* SPDX-License-Identifier: Apache-2.0
 * cpython.h - what we use of CPython 3.10 to 3.14, by dlsym: functions of its C API, the head of an
 * object, and places in a type of 3.8 and later, 64 bits, no debug build. The library that uses it
 * checks the places against the running interpreter. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct py_object {
	intptr_t refs;
	struct py_object *type;
};

typedef struct py_object *(*py_vectorcall)(struct py_object *callable,
					   struct py_object *const *args, size_t nargs,
					   struct py_object *names);
#define PY_VECTORCALL_COUNT(nargs) ((nargs) & (SIZE_MAX >> 1))

struct py_method {
	const char *name;
	void *call; /* its arguments depend on the flags */
	int flags;
	const char *doc;
};
#define PY_METHOD_FAST 0x80
#define PY_METHOD_NONE 0x04
#define PY_METHOD_ONE  0x08

struct py_getset {
	const char *name;
	struct py_object *(*get)(struct py_object *self, void *closure);
	int (*set)(struct py_object *self, struct py_object *value, void *closure);
	const char *doc;
	void *closure;
};

/* Offsets in a type object. */
#define PY_TYPE_NAME		  24
#define PY_TYPE_VECTORCALL_OFFSET 56
#define PY_TYPE_FLAGS		  168
#define PY_TYPE_METHODS		  232
#define PY_TYPE_GETSET		  248
#define PY_TYPE_BASE		  256
#define PY_TYPE_DICT		  264
#define PY_TYPE_BASES		  336 /* then mro, cache, subclasses, weaklist, del */
#define PY_TYPE_DEL		  376
#define PY_TYPE_VERSION_TAG	  384
#define PY_TYPE_BYTES		  408
#define PY_FLAG_HEAPTYPE	  (1ul << 9)
#define PY_FLAG_READY		  (1ul << 12)
#define PY_FLAG_VALID_VERSION	  (1ul << 19)

/* Numbers of PyType_GetSlot. */
#define PY_SLOT_DESCR_GET 54
#define PY_SLOT_GETATTRO  58

/* co_flags */
#define PY_CODE_GENERATOR 0x2a0 /* generator, coroutine or asynchronous generator */
