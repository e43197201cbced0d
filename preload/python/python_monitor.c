/* SPDX-License-Identifier: Apache-2.0
 * How functions are followed from 3.12 on: by events of sys.monitoring, only on the code objects of
 * the catalogue. Other code runs as before, except that its exceptions cost: an exception that
 * leaves a function, and one that is thrown into a generator, are reported for all code or for
 * none. */
#include <stdbool.h>

#include "preload/python/python_api.h"
#include "preload/python/python_spans.h"
#include "preload/tracer.h"

/* The tool identifiers that nobody has reserved. */
#define MONITOR_TOOL_LAST  4
#define MONITOR_TOOL_FIRST 3

enum monitor_state { MONITOR_UNKNOWN, MONITOR_ON, MONITOR_REFUSED };

static struct {
	enum monitor_state state;
	struct py_object *module, *set_local; /* owned */
	struct py_object *tool, *local;	      /* owned: numbers */
} monitor;

typedef struct py_object *(*monitor_call)(struct py_object *self, struct py_object *const *args,
					  ptrdiff_t count);

static struct py_object *monitor_begin(struct py_object *const *args, ptrdiff_t count, bool resumed)
{
	static const struct python_arguments of_frame = {0};
	const struct python_hook *h = count ? python_hook_find(args[0]) : NULL;

	if (h)
		python_hook_begin(h, &of_frame, resumed);
	return python_api_none();
}

static struct py_object *monitor_end(struct py_object *const *args, ptrdiff_t count, bool returned,
				     bool paused)
{
	const struct python_hook *h = count ? python_hook_find(args[0]) : NULL;

	if (h)
		python_hook_end(h, returned && count > 2 ? args[2] : NULL, paused);
	return python_api_none();
}

static struct py_object *on_start(struct py_object *self, struct py_object *const *args,
				  ptrdiff_t count)
{
	return monitor_begin(args, count, false);
}
static struct py_object *on_resume(struct py_object *self, struct py_object *const *args,
				   ptrdiff_t count)
{
	return monitor_begin(args, count, true);
}
static struct py_object *on_return(struct py_object *self, struct py_object *const *args,
				   ptrdiff_t count)
{
	return monitor_end(args, count, true, false);
}
static struct py_object *on_yield(struct py_object *self, struct py_object *const *args,
				  ptrdiff_t count)
{
	return monitor_end(args, count, false, true);
}
static struct py_object *on_unwind(struct py_object *self, struct py_object *const *args,
				   ptrdiff_t count)
{
	return monitor_end(args, count, false, false);
}

static const struct {
	const char *name;
	monitor_call call;
	bool local;
} monitor_events[] = {
    {"PY_START", on_start, true}, {"PY_RESUME", on_resume, true}, {"PY_RETURN", on_return, true},
    {"PY_YIELD", on_yield, true}, {"PY_THROW", on_resume, false}, {"PY_UNWIND", on_unwind, false},
};
#define MONITOR_EVENTS (sizeof(monitor_events) / sizeof(monitor_events[0]))
static struct py_method monitor_methods[MONITOR_EVENTS];

/* Calls module.name(a, b, c), up to the first NULL. Returns whether it succeeded. */
static bool monitor_ask(const char *name, struct py_object *a, struct py_object *b,
			struct py_object *c)
{
	struct py_object *f = python_api_field(monitor.module, name), *result = NULL;

	if (f) {
		result = python_api.PyObject_CallFunctionObjArgs(f, a, b, c, NULL);
		python_api.Py_DecRef(f);
	}
	if (!result) {
		python_api.PyErr_Clear();
		return false;
	}
	python_api.Py_DecRef(result);
	return true;
}

static bool monitor_take_tool(void)
{
	struct py_object *name = python_api.PyUnicode_InternFromString("sysom");
	bool taken = false;

	for (long id = MONITOR_TOOL_LAST; name && !taken && id >= MONITOR_TOOL_FIRST; id--) {
		monitor.tool = python_api.PyLong_FromLong(id);
		taken = monitor.tool && monitor_ask("use_tool_id", monitor.tool, name, NULL);
		if (!taken && monitor.tool)
			python_api.Py_DecRef(monitor.tool);
	}
	if (name)
		python_api.Py_DecRef(name);
	return taken;
}

/* Registers one callback. Returns the event's number; 0: failed. */
static long monitor_register(unsigned i, struct py_object *events)
{
	struct py_method *m = &monitor_methods[i];
	struct py_object *number, *call;
	long value = 0;

	*m = (struct py_method){.name = monitor_events[i].name,
				.call = (void *)monitor_events[i].call,
				.flags = PY_METHOD_FAST};
	number = python_api_field(events, monitor_events[i].name);
	call = python_api.PyCFunction_NewEx(m, NULL, NULL);
	if (number && call && monitor_ask("register_callback", monitor.tool, number, call))
		value = python_api.PyLong_AsLong(number);
	if (number)
		python_api.Py_DecRef(number);
	if (call)
		python_api.Py_DecRef(call);
	python_api.PyErr_Clear();
	return value > 0 ? value : 0;
}

static bool monitor_open(void)
{
	struct py_object *events, *number;
	long local = 0, global = 0;
	bool good = true;

	monitor.module = python_api.PySys_GetObject("monitoring");
	events = monitor.module ? python_api_field(monitor.module, "events") : NULL;
	if (!events || !monitor_take_tool())
		return false;
	python_api.Py_IncRef(monitor.module);
	for (unsigned i = 0; i < MONITOR_EVENTS; i++) {
		long value = monitor_register(i, events);

		good &= value > 0;
		*(monitor_events[i].local ? &local : &global) |= value;
	}
	python_api.Py_DecRef(events);
	monitor.local = python_api.PyLong_FromLong(local);
	monitor.set_local = python_api_field(monitor.module, "set_local_events");
	number = python_api.PyLong_FromLong(global);
	good = good && monitor.local && monitor.set_local && number &&
	       monitor_ask("set_events", monitor.tool, number, NULL);
	if (number)
		python_api.Py_DecRef(number);
	if (!good)
		monitor_ask("free_tool_id", monitor.tool, NULL, NULL);
	return good;
}

int python_monitor_add(struct py_object *code, const struct span_row *row)
{
	struct py_object *result;

	if (monitor.state == MONITOR_UNKNOWN)
		monitor.state = monitor_open() ? MONITOR_ON : MONITOR_REFUSED;
	if (monitor.state != MONITOR_ON || !python_hook_add(code, code, row))
		return -1;
	result = python_api.PyObject_CallFunctionObjArgs(monitor.set_local, monitor.tool, code,
							 monitor.local, NULL);
	if (!result) {
		python_api.PyErr_Clear();
		return -1;
	}
	python_api.Py_DecRef(result);
	return 0;
}
