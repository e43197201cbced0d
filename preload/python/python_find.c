/* SPDX-License-Identifier: Apache-2.0
 * Names are looked up only in dictionaries and classes, because a module's or a class's own
 * __getattr__ would run the job's code, and could import something. */
#include <string.h>

#include "preload/python/python_api.h"
#include "preload/python/python_spans.h"

#define FIND_WRAPPERS 8 /* decorators around one function */

bool python_find_root(const char *module)
{
	char root[LIMIT_SPAN_TEXT_BYTES + 1];
	size_t n = strcspn(module, ".");

	memcpy(root, module, n);
	root[n] = 0;
	return python_api_module(root) != NULL;
}

/* Whether the module is still being executed, as its specification says. */
static bool still_importing(struct py_object *dict)
{
	struct py_object *spec = python_api_item(dict, "__spec__");
	struct py_object *name = python_api.PyUnicode_InternFromString("_initializing");
	/* the job may have set any object as __spec__ */
	struct py_object *busy = spec && name ? python_api_attr(spec, name) : NULL;
	bool yes = busy && python_api_is(busy, python_api.PyBool_Type) &&
		   python_api.PyObject_IsTrue(busy) == 1;

	if (busy)
		python_api.Py_DecRef(busy);
	if (name)
		python_api.Py_DecRef(name);
	python_api.PyErr_Clear();
	return yes;
}

/* New reference: what is below static methods, class methods, and decorators that say what they
 * wrap. Takes o. */
static struct py_object *unwrapped(struct py_object *o)
{
	for (unsigned i = 0; o && i < FIND_WRAPPERS; i++) {
		bool method = python_api_is(o, python_api.PyStaticMethod_Type) ||
			      python_api_is(o, python_api.PyClassMethod_Type);
		struct py_object *inner = NULL;

		if (method)
			inner = python_api_field(o, "__func__");
		else if (python_api_is(o, python_api.PyFunction_Type))
			inner = python_api_field(o, "__wrapped__");
		if (!inner)
			break;
		python_api.Py_DecRef(o);
		o = inner;
	}
	return o;
}

/* New reference: the code object `name` among the constants of a code object. */
static struct py_object *nested_code(struct py_object *code, const char *name)
{
	struct py_object *all = python_api_field(code, "co_consts"), *found = NULL;

	for (ptrdiff_t i = 0; all && !found && i < python_api.PyTuple_Size(all); i++) {
		struct py_object *one = python_api.PyTuple_GetItem(all, i), *its;
		const char *text;

		if (!one || !python_api_is(one, python_api.PyCode_Type))
			continue;
		its = python_api_field(one, "co_name");
		text = its ? python_api.PyUnicode_AsUTF8AndSize(its, NULL) : NULL;
		if (text && !strcmp(text, name)) {
			found = one;
			python_api.Py_IncRef(found);
		}
		if (its)
			python_api.Py_DecRef(its);
	}
	if (all)
		python_api.Py_DecRef(all);
	python_api.PyErr_Clear();
	return found;
}

/* New reference: `name` in o, which is a class or, after <locals>, a function or its code. Takes
 * o. */
static struct py_object *member(struct py_object *o, const char *name, bool local)
{
	struct py_object *found = NULL, *key;

	if (local) {
		o = unwrapped(o);
		if (o && python_api_is(o, python_api.PyFunction_Type)) {
			struct py_object *code = python_api_field(o, "__code__");

			python_api.Py_DecRef(o);
			o = code;
		}
		if (o && python_api_is(o, python_api.PyCode_Type))
			found = nested_code(o, name);
	} else if (python_api.PyType_IsSubtype(o->type, python_api.PyType_Type)) {
		key = python_api.PyUnicode_InternFromString(name);
		found = key ? python_api._PyType_Lookup(o, key) : NULL;
		if (found)
			python_api.Py_IncRef(found);
		if (key)
			python_api.Py_DecRef(key);
	}
	python_api.PyErr_Clear();
	if (o)
		python_api.Py_DecRef(o);
	return found;
}

static struct py_object *walk(struct py_object *dict, const char *path)
{
	char part[LIMIT_SPAN_TEXT_BYTES + 1];
	struct py_object *o = NULL;
	bool first = true, local = false;

	while (*path && (first || o)) {
		size_t n = strcspn(path, ".");

		memcpy(part, path, n);
		part[n] = 0;
		path += n + (path[n] == '.');
		if (!strcmp(part, "<locals>")) {
			local = true;
			continue;
		}
		if (first) {
			o = python_api_item(dict, part);
			if (o)
				python_api.Py_IncRef(o);
		} else {
			o = member(o, part, local);
		}
		first = local = false;
	}
	return unwrapped(o);
}

enum python_found python_find(const struct span_function *f, struct py_object **out)
{
	struct py_object *module = python_api_module(f->module), *dict;

	*out = NULL;
	if (!module || !python_api.PyType_IsSubtype(module->type, python_api.PyModule_Type))
		return PYTHON_LATER;
	dict = python_api.PyModule_GetDict(module);
	if (!dict || still_importing(dict))
		return PYTHON_LATER;
	*out = walk(dict, f->name);
	if (*out)
		return PYTHON_FOUND;
	/* a module of another type may get its functions only when they are first used */
	return python_api_is(module, python_api.PyModule_Type) ? PYTHON_ABSENT : PYTHON_LATER;
}
