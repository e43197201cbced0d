/* SPDX-License-Identifier: Apache-2.0
 * How functions are followed before 3.12: the function object itself calls us. Its vectorcall
 * pointer is replaced, so the object, its signature, its code and every name for it stay. 3.11 runs
 * a call of a Python function without that pointer if the object's type is exactly `function`;
 * there the object also gets a type that is a copy of it. Generators and coroutines are not
 * followed, because their calls return at once and say nothing. */
#include <string.h>

#include "preload/python/python_api.h"
#include "preload/python/python_spans.h"

#define CALL_MINOR_INLINES 11
#define CALL_GETSETS_MAX   24

static struct py_object *call_through(struct py_object *f, struct py_object *const *args,
				      size_t nargs, struct py_object *names)
{
	const struct python_arguments a = {args, PY_VECTORCALL_COUNT(nargs), names};
	const struct python_hook *h = python_hook_find(f);
	struct py_object *result;

	if (!h)
		return python_api._PyFunction_Vectorcall(f, args, nargs, names);
	python_hook_begin(h, &a, false);
	result = h->real(f, args, nargs, names);
	python_hook_end(h, result, false);
	return result;
}

/* ---- 3.11's type ---- */

static char call_type[PY_TYPE_BYTES] __attribute__((aligned(16)));
static struct py_getset call_getsets[CALL_GETSETS_MAX];
static bool call_type_ready;

static struct py_object *get_class(struct py_object *self, void *closure)
{
	python_api.Py_IncRef(python_api.PyFunction_Type);
	return python_api.PyFunction_Type;
}

/* Makes pickle and copy treat an object of this type by its name, as they treat functions. */
static struct py_object *reduce(struct py_object *self, struct py_object *protocol)
{
	struct py_object *name = python_api_field(self, "__qualname__");

	return name ? name : python_api_none();
}

static struct py_method call_methods[] = {
    {"__reduce_ex__", (void *)reduce, PY_METHOD_ONE, NULL},
    {"__reduce__", (void *)reduce, PY_METHOD_NONE, NULL},
    {NULL, NULL, 0, NULL},
};

static void put(size_t offset, const void *value, size_t bytes)
{
	memcpy(call_type + offset, value, bytes);
}

static bool make_type(void)
{
	const char *base = (const char *)python_api.PyFunction_Type;
	const struct py_getset *have;
	const void *pointer;
	unsigned long flags;
	unsigned n = 0;

	memcpy(call_type, base, PY_TYPE_BYTES);
	memcpy(&have, base + PY_TYPE_GETSET, sizeof(have));
	for (; have && have[n].name; n++) {
		if (n + 2 >= CALL_GETSETS_MAX)
			return false;
		call_getsets[n] = have[n];
	}
	call_getsets[n] = (struct py_getset){.name = "__class__", .get = get_class};
	pointer = call_getsets;
	put(PY_TYPE_GETSET, &pointer, sizeof(pointer));
	pointer = call_methods;
	put(PY_TYPE_METHODS, &pointer, sizeof(pointer));
	pointer = base;
	put(PY_TYPE_BASE, &pointer, sizeof(pointer));
	memset(call_type + PY_TYPE_DICT, 0, sizeof(pointer));
	memset(call_type + PY_TYPE_BASES, 0, PY_TYPE_DEL - PY_TYPE_BASES);
	memset(call_type + PY_TYPE_VERSION_TAG, 0, sizeof(uint32_t));
	memcpy(&flags, base + PY_TYPE_FLAGS, sizeof(flags));
	flags &= ~(PY_FLAG_READY | PY_FLAG_VALID_VERSION);
	put(PY_TYPE_FLAGS, &flags, sizeof(flags));
	if (python_api.PyType_GetFlags(python_api.PyFunction_Type) !=
		(flags | PY_FLAG_READY | PY_FLAG_VALID_VERSION) &&
	    python_api.PyType_GetFlags(python_api.PyFunction_Type) != (flags | PY_FLAG_READY))
		return false;
	if (python_api.PyType_Ready((struct py_object *)call_type)) {
		python_api.PyErr_Clear();
		return false;
	}
	return true;
}

int python_call_add(struct py_object *function, struct py_object *code, const struct span_row *row)
{
	ptrdiff_t offset;
	py_vectorcall real;
	struct python_hook *h;

	if (!python_api_is(function, python_api.PyFunction_Type) ||
	    !python_api._PyFunction_Vectorcall)
		return -1;
	memcpy(&offset, (char *)python_api.PyFunction_Type + PY_TYPE_VECTORCALL_OFFSET,
	       sizeof(offset));
	if (offset < 16 || offset > 1024)
		return -1;
	memcpy(&real, (char *)function + offset, sizeof(real));
	if (real != python_api._PyFunction_Vectorcall)
		return -1;
	if (python_api.minor >= CALL_MINOR_INLINES && !call_type_ready && !make_type())
		return -1;
	call_type_ready = true;
	h = python_hook_add(function, code, row);
	if (!h || h->generator)
		return -1;
	h->real = real;
	real = call_through;
	memcpy((char *)function + offset, &real, sizeof(real));
	if (python_api.minor >= CALL_MINOR_INLINES)
		function->type = (struct py_object *)call_type;
	return 0;
}
