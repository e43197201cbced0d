/* SPDX-License-Identifier: Apache-2.0
 * Everything goes through functions of the C API. The few places in objects that are read directly
 * are checked first. So a build with another layout is left alone. */
#include "preload/python/python_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "preload/hooks.h"

#define API_MINOR_FIRST 10
#define API_MINOR_LAST	14

struct python_api python_api;

enum api_state { API_UNKNOWN, API_LOADING, API_READY, API_REFUSED };
static uint32_t api_state; /* enum api_state */
static bool api_layout_good;

static bool api_find(void **out, const char *name)
{
	*out = hooks_dlsym(RTLD_DEFAULT, name);
	return *out != NULL;
}

static bool api_resolve(void)
{
	struct python_api *a = &python_api;
	bool all = true;

#define PY(result, name, arguments)    all &= api_find((void **)&a->name, #name);
#define PY_IF(result, name, arguments) api_find((void **)&a->name, #name);
#define PY_DATA(name)		       all &= api_find((void **)&a->name, #name);
#include "preload/python/python_api.def"
#undef PY
#undef PY_IF
#undef PY_DATA
	return all;
}

/* "3.12.1 (main, ...)"; a build without a GIL says "free-threading". */
static bool api_known_version(void)
{
	const char *text = python_api.Py_GetVersion();

	if (!text || strncmp(text, "3.", 2) || strstr(text, "free-threading"))
		return false;
	python_api.minor = atoi(text + 2);
	return python_api.minor >= API_MINOR_FIRST && python_api.minor <= API_MINOR_LAST;
}

bool python_api_load(void)
{
	uint32_t unknown = API_UNKNOWN, state = __atomic_load_n(&api_state, __ATOMIC_ACQUIRE);

	if (state != API_UNKNOWN)
		return state == API_READY;
	/* one name first: most processes have no interpreter */
	if (!hooks_dlsym(RTLD_DEFAULT, "Py_AddPendingCall") ||
	    !__atomic_compare_exchange_n(&api_state, &unknown, API_LOADING, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return false;
	state = api_resolve() && api_known_version() ? API_READY : API_REFUSED;
	/* release; pairs with the acquire above: the pointers are complete */
	__atomic_store_n(&api_state, state, __ATOMIC_RELEASE);
	return state == API_READY;
}

bool python_api_running(void)
{
	return python_api.Py_IsInitialized() &&
	       !(python_api._Py_IsFinalizing && python_api._Py_IsFinalizing()) &&
	       !(python_api.Py_IsFinalizing && python_api.Py_IsFinalizing());
}

/* Checks the places in objects that we read: an object's type, a type's name, and where a type says
 * that instances keep their vectorcall. */
static bool api_check_layout(void)
{
	const char *type = (const char *)python_api.PyFunction_Type, *name;
	struct py_object *one = python_api.PyLong_FromLong(1);
	bool good = one && one->type == python_api.PyLong_Type &&
		    python_api.PyFunction_Type->type == python_api.PyType_Type;

	if (one)
		python_api.Py_DecRef(one);
	if (!good)
		return false;
	memcpy(&name, type + PY_TYPE_NAME, sizeof(name));
	return !strcmp(name, "function");
}

/* The thread state that runs now: before 3.12 that of any thread, since then that of this
 * thread. */
static void *api_running_state(void)
{
	return python_api.PyThreadState_GetUnchecked	? python_api.PyThreadState_GetUnchecked()
	       : python_api._PyThreadState_UncheckedGet ? python_api._PyThreadState_UncheckedGet()
							: NULL;
}

bool python_api_here(void)
{
	void *running = api_running_state();

	/* PyGILState_Check does not help: once there are several interpreters, it always says
	 * yes. */
	if (!running || running != python_api.PyGILState_GetThisThreadState() ||
	    python_api.PyInterpreterState_Get() != python_api.PyInterpreterState_Main())
		return false;
	if (!api_layout_good)
		api_layout_good = api_check_layout();
	return api_layout_good;
}

struct py_object *python_api_item(struct py_object *dict, const char *name)
{
	struct py_object *key = python_api.PyUnicode_InternFromString(name), *found = NULL;

	if (key) {
		found = python_api.PyDict_GetItemWithError(dict, key);
		python_api.Py_DecRef(key);
	}
	if (!found)
		python_api.PyErr_Clear();
	return found;
}

struct py_object *python_api_module(const char *name)
{
	struct py_object *all = python_api.PyImport_GetModuleDict();

	return all && python_api_is(all, python_api.PyDict_Type) ? python_api_item(all, name)
								 : NULL;
}

struct py_object *python_api_attr(struct py_object *o, struct py_object *name)
{
	struct py_object *in_class, *found;

	if (python_api.PyType_GetSlot(o->type, PY_SLOT_GETATTRO) !=
	    (void *)python_api.PyObject_GenericGetAttr)
		return NULL;
	in_class = python_api._PyType_Lookup(o->type, name);
	if (in_class && !python_api_is(in_class, python_api.PyMemberDescr_Type) &&
	    python_api.PyType_GetSlot(in_class->type, PY_SLOT_DESCR_GET))
		return NULL;
	found = python_api.PyObject_GenericGetAttr(o, name);
	if (!found)
		python_api.PyErr_Clear();
	return found;
}

struct py_object *python_api_field(struct py_object *o, const char *name)
{
	struct py_object *key = python_api.PyUnicode_InternFromString(name), *found = NULL;

	if (key) {
		found = python_api.PyObject_GenericGetAttr(o, key);
		python_api.Py_DecRef(key);
	}
	if (!found)
		python_api.PyErr_Clear();
	return found;
}
