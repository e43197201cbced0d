/* SPDX-License-Identifier: Apache-2.0
 * Pauses of the garbage collector. The collector calls the functions in one list, which Python
 * programs see as gc.callbacks. We replace the visible list by a new one; the original list stays
 * with the collector, holds our callback, and calls what is in the new list. So a program that
 * looks finds only its own callbacks. */
#include <string.h>

#include "preload/python/python_api.h"
#include "preload/python/python_spans.h"
#include "preload/span.h"

/* Collections of the youngest generation take microseconds and come thousands of times a second. */
#define GC_GENERATION_MIN 1

static struct py_object *gc_visible; /* owned: the list that the job sees */
static uint32_t gc_name;
static const char gc_key;

static void gc_note(struct py_object *phase, struct py_object *info)
{
	const char *text = python_api_is(phase, python_api.PyUnicode_Type)
			       ? python_api.PyUnicode_AsUTF8AndSize(phase, NULL)
			       : NULL;
	struct py_object *generation = python_api_is(info, python_api.PyDict_Type)
					   ? python_api_item(info, "generation")
					   : NULL;

	if (text && generation && python_api_is(generation, python_api.PyLong_Type) &&
	    python_api.PyLong_AsLong(generation) >= GC_GENERATION_MIN)
		python_hook_mark(&gc_key, gc_name, !strcmp(text, "start"));
	python_api.PyErr_Clear();
}

static struct py_object *gc_called(struct py_object *self, struct py_object *const *args,
				   ptrdiff_t count)
{
	bool start = count == 2 && python_api_is(args[0], python_api.PyUnicode_Type);

	if (start)
		gc_note(args[0], args[1]);
	for (ptrdiff_t i = 0; count == 2 && i < python_api.PyList_Size(gc_visible); i++) {
		struct py_object *one = python_api.PyList_GetItem(gc_visible, i), *result;

		python_api.Py_IncRef(one);
		result = python_api.PyObject_CallFunctionObjArgs(one, args[0], args[1], NULL);
		if (result)
			python_api.Py_DecRef(result);
		else
			python_api.PyErr_WriteUnraisable(one);
		python_api.Py_DecRef(one);
	}
	return python_api_none();
}

static struct py_method gc_method = {"callback", (void *)gc_called, PY_METHOD_FAST, NULL};

void python_gc_add(void)
{
	struct py_object *module = gc_visible ? NULL : python_api_module("gc"), *dict, *list, *ours;
	struct py_object *key = NULL, *fresh = NULL;

	if (!module || !python_api.PyType_IsSubtype(module->type, python_api.PyModule_Type))
		return;
	dict = python_api.PyModule_GetDict(module);
	list = dict ? python_api_item(dict, "callbacks") : NULL;
	if (!list || !python_api_is(list, python_api.PyList_Type))
		return;
	gc_name = span_intern("gc");
	ours = python_api.PyCFunction_NewEx(&gc_method, NULL, NULL);
	key = python_api.PyUnicode_InternFromString("callbacks");
	fresh = python_api.PyList_New(0);
	/* the collector must never see a list that lacks a callback: ours is added last and calls
	 * the others */
	if (ours && key && fresh && !python_api.PyList_SetSlice(fresh, 0, 0, list) &&
	    !python_api.PyList_Append(list, ours)) {
		gc_visible = fresh;
		python_api.Py_IncRef(fresh);
		python_api.PyList_SetSlice(list, 0, python_api.PyList_Size(list) - 1, NULL);
		python_api.PyDict_SetItem(dict, key, fresh);
	}
	if (ours)
		python_api.Py_DecRef(ours);
	if (key)
		python_api.Py_DecRef(key);
	if (fresh)
		python_api.Py_DecRef(fresh);
	python_api.PyErr_Clear();
}
