/* SPDX-License-Identifier: Apache-2.0
 * Spans of a thread nest, so each thread has a stack of open ones. An end that finds its begin
 * further down closes those above it (their ends were missed, as when greenlets switch stacks); an
 * end without a begin is ignored. */
#include "preload/python/python_hook.h"

#include <string.h>

#include "base/hash.h"
#include "preload/python/python_api.h"
#include "preload/span.h"
#include "preload/tracer.h"

#define HOOK_SLOTS     1024u /* twice the functions of a table */
#define HOOK_VALUE_MAX 1e15  /* more is no count of tokens */
_Static_assert(HOOK_SLOTS >= 2 * LIMIT_SPAN_FUNCTIONS, "hook slots");

static struct python_hook hooks[LIMIT_SPAN_FUNCTIONS];
static unsigned hook_count;
static uint16_t hook_slot[HOOK_SLOTS]; /* index + 1 */

static uint32_t slot_of(const void *key)
{
	return (uint32_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15ull >> 54);
}

struct python_hook *python_hook_find(const struct py_object *key)
{
	for (uint32_t i = slot_of(key);; i = (i + 1) % HOOK_SLOTS) {
		if (!hook_slot[i])
			return NULL;
		if (hooks[hook_slot[i] - 1].key == key)
			return &hooks[hook_slot[i] - 1];
	}
}

/* ---- values: from the table's text to names, and from a call to numbers ---- */

static int16_t position_of(struct py_object *code, const char *name)
{
	struct py_object *names = python_api_field(code, "co_varnames");
	int16_t at = -1;

	for (ptrdiff_t i = 0; names && i < python_api.PyTuple_Size(names) && i < INT16_MAX; i++) {
		struct py_object *one = python_api.PyTuple_GetItem(names, i);
		const char *text = one ? python_api.PyUnicode_AsUTF8AndSize(one, NULL) : NULL;

		if (text && !strcmp(text, name)) {
			at = (int16_t)i;
			break;
		}
	}
	if (names)
		python_api.Py_DecRef(names);
	python_api.PyErr_Clear();
	return at;
}

static void value_prepare(struct python_value *v, const char *text, struct py_object *code)
{
	char part[LIMIT_SPAN_TEXT_BYTES + 1];

	v->length = *text == '#';
	text += v->length;
	for (; *text && v->count < LIMIT_SPAN_PARTS; v->count++) {
		size_t n = strcspn(text, ".");

		memcpy(part, text, n);
		part[n] = 0;
		if (!v->count) {
			v->of_return = !strcmp(part, "return");
			v->position = v->of_return ? -1 : position_of(code, part);
		}
		v->name[v->count] = python_api.PyUnicode_InternFromString(part);
		if (!v->name[v->count]) {
			python_api.PyErr_Clear();
			v->count = 0;
			return;
		}
		text += n + (text[n] == '.');
	}
}

struct python_hook *python_hook_add(struct py_object *key, struct py_object *code,
				    const struct span_row *row)
{
	struct python_hook *h = &hooks[hook_count];
	uint32_t i = slot_of(key);
	struct py_object *flags;

	if (hook_count == LIMIT_SPAN_FUNCTIONS || python_hook_find(key))
		return NULL;
	*h = (struct python_hook){.key = key, .row = row, .name = span_intern(row->name)};
	flags = python_api_field(code, "co_flags");
	h->generator = flags && python_api.PyLong_AsLong(flags) & PY_CODE_GENERATOR;
	if (flags)
		python_api.Py_DecRef(flags);
	python_api.PyErr_Clear();
	h->step = row->step && !h->generator;
	for (unsigned v = 0; v < SPAN_VALUE_COUNT; v++)
		if (row->value[v])
			value_prepare(&h->value[v], row->value[v], code);
	python_api.Py_IncRef(key);
	while (hook_slot[i])
		i = (i + 1) % HOOK_SLOTS;
	hook_slot[i] = (uint16_t)++hook_count;
	return h;
}

/* New; NULL: not passed. */
static struct py_object *argument_of(const struct python_value *v, const struct python_arguments *a)
{
	struct py_object *found = NULL;
	ptrdiff_t names;

	if (!a->args) {
		struct py_object *frame = python_api.PyEval_GetFrame();

		found = frame && python_api.PyFrame_GetVar
			    ? python_api.PyFrame_GetVar(frame, v->name[0])
			    : NULL;
		if (!found)
			python_api.PyErr_Clear();
		return found;
	}
	if (v->position < 0)
		return NULL;
	if ((size_t)v->position < a->count)
		found = a->args[v->position];
	names = a->names ? python_api.PyTuple_Size(a->names) : 0;
	/* names of arguments are interned, so the same name is the same object */
	for (ptrdiff_t i = 0; !found && i < names; i++)
		if (python_api.PyTuple_GetItem(a->names, i) == v->name[0])
			found = a->args[a->count + (size_t)i];
	if (found)
		python_api.Py_IncRef(found);
	return found;
}

/* New: the object at the end of the value's path. */
static struct py_object *value_object(const struct python_value *v,
				      const struct python_arguments *a, struct py_object *returned)
{
	struct py_object *o = v->of_return ? returned : argument_of(v, a);

	if (v->of_return && o)
		python_api.Py_IncRef(o);
	for (unsigned i = 1; o && i < v->count; i++) {
		struct py_object *next = python_api_is(o, python_api._Py_NoneStruct->type)
					     ? NULL
					     : python_api_attr(o, v->name[i]);

		python_api.Py_DecRef(o);
		o = next;
	}
	return o;
}

/* The length of an object whose length is no code of the job's; -1. */
static double length_of(struct py_object *o)
{
	const struct python_api *p = &python_api;

	if (!python_api_is(o, p->PyList_Type) && !python_api_is(o, p->PyDict_Type) &&
	    !python_api_is(o, p->PyTuple_Type) && !python_api_is(o, p->PySet_Type) &&
	    !python_api_is(o, p->PyUnicode_Type) && p->PyType_GetFlags(o->type) & PY_FLAG_HEAPTYPE)
		return -1;
	return (double)p->PyObject_Size(o);
}

static double number_of(struct py_object *o)
{
	if (python_api.PyType_IsSubtype(o->type, python_api.PyLong_Type))
		return python_api.PyLong_AsDouble(o);
	if (python_api.PyType_IsSubtype(o->type, python_api.PyFloat_Type))
		return python_api.PyFloat_AsDouble(o);
	return -1;
}

static float work_of(const struct python_value *v, const struct python_arguments *a,
		     struct py_object *returned)
{
	struct py_object *o = value_object(v, a, returned);
	double value;

	if (!o)
		return 0;
	value = python_api_is(o, python_api._Py_NoneStruct->type) ? 0
		: v->length					  ? length_of(o)
								  : number_of(o);
	python_api.Py_DecRef(o);
	if (python_api.PyErr_Occurred())
		python_api.PyErr_Clear();
	if (value >= 0 && value <= HOOK_VALUE_MAX)
		return (float)value;
	ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_VALUE, 1);
	return 0;
}

/* The same for the same id in every process. */
static uint64_t request_of(const struct python_value *v, const struct python_arguments *a,
			   struct py_object *returned)
{
	struct py_object *o = value_object(v, a, returned);
	const char *text = NULL;
	ptrdiff_t bytes = 0;
	uint64_t id = 0;

	if (!o)
		return 0;
	if (python_api_is(o, python_api.PyUnicode_Type))
		text = python_api.PyUnicode_AsUTF8AndSize(o, &bytes);
	if (text && bytes > 0)
		id = hash_bytes(HASH_SEED, text, (size_t)bytes) | 1;
	python_api.PyErr_Clear();
	python_api.Py_DecRef(o);
	return id;
}

/* ---- begin and end ---- */

static void evaluate(struct span_mark *m, const struct python_hook *h,
		     const struct python_arguments *a, struct py_object *returned, bool work)
{
	for (unsigned i = 0; work && i < SPAN_WORK_MAX; i++)
		if (h->value[i].count && h->value[i].of_return == !a)
			m->work[i] = work_of(&h->value[i], a, returned);
	if (h->value[SPAN_VALUE_REQUEST].count && h->value[SPAN_VALUE_REQUEST].of_return == !a)
		m->request = request_of(&h->value[SPAN_VALUE_REQUEST], a, returned);
}

static void open_push(struct tracer_thread *t, const void *key, struct span_mark *m)
{
	if (t->open_count == TRACER_OPEN_MAX)
		return;
	m->depth = (uint16_t)t->open_count;
	t->open[t->open_count++] = key;
	span_push_mark(t, EVENT_SPAN_BEGIN, m);
}

static void open_pop(struct tracer_thread *t, const void *key, const struct span_mark *m)
{
	uint32_t i = t->open_count;

	while (i > 0 && t->open[i - 1] != key)
		i--;
	while (i > 0 && t->open_count >= i) {
		struct span_mark end = t->open_count == i ? *m : (struct span_mark){.t = m->t};

		end.depth = (uint16_t)--t->open_count;
		if (tracer_state() == TRACER_ON)
			span_push_mark(t, EVENT_SPAN_END, &end);
	}
}

static struct tracer_thread *lane(void)
{
	return tracer_self ? tracer_self : tracer_claim();
}

void python_hook_begin(const struct python_hook *h, const struct python_arguments *a, bool resumed)
{
	struct span_mark m = {.t = tracer_now(),
			      .name = h->name,
			      .process = h->row->process,
			      .thread = h->row->thread};
	uint32_t state = tracer_state();
	struct tracer_thread *t;

	if (state != TRACER_ON && state != TRACER_OFF)
		return;
	t = lane();
	if (!t)
		return;
	if (state == TRACER_ON)
		evaluate(&m, h, a, NULL, !resumed);
	if (h->step && !t->step_key) {
		t->step_key = h;
		span_step_begin(m.t, m.work);
	}
	if (t->step_key == h)
		t->step_depth++;
	if (state == TRACER_ON)
		open_push(t, h, &m);
}

void python_hook_end(const struct python_hook *h, struct py_object *returned, bool paused)
{
	struct span_mark m = {.t = tracer_now(), .name = RING_NAME_NONE};
	struct tracer_thread *t = tracer_self;

	if (tracer_is_dead() || !t)
		return;
	if (t->open_count && returned && !paused && tracer_state() == TRACER_ON)
		evaluate(&m, h, NULL, returned, true);
	open_pop(t, h, &m);
	if (t->step_key == h && !--t->step_depth) {
		t->step_key = NULL;
		span_step_end();
	}
}

void python_hook_mark(const void *key, uint32_t name, bool begin)
{
	struct span_mark m = {.t = tracer_now(), .name = name};
	struct tracer_thread *t = tracer_state() == TRACER_ON ? lane() : NULL;

	if (!t)
		return;
	if (begin)
		open_push(t, key, &m);
	else
		open_pop(t, key, &m);
}
