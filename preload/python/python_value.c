/* SPDX-License-Identifier: Apache-2.0
 * Containers are read only if their type is exactly list, tuple or dict, because reading their
 * items runs no code. */
#include "preload/python/python_value.h"

#include <string.h>

#include "base/hash.h"
#include "base/request_id.h"
#include "preload/python/python_api.h"
#include "preload/span.h"
#include "preload/tracer.h"

/* ---- from the table's text to names ---- */

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

/* One term; text ends at a space or at its end. code: NULL for a path from an item. */
static void prepare_term(struct python_value *v, const char *text, struct py_object *code)
{
	char part[LIMIT_SPAN_TEXT_BYTES + 1];

	if (*text == SPAN_FORM_LENGTH || *text == SPAN_FORM_SUM || *text == SPAN_FORM_ONES ||
	    *text == SPAN_FORM_BASE)
		v->form = *text++;
	for (; *text && *text != ' ' && v->count < LIMIT_SPAN_PARTS; v->count++) {
		size_t n = strcspn(text, ". ");

		memcpy(part, text, n);
		part[n] = 0;
		if (!v->count && code) {
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

unsigned python_value_prepare(struct python_value *v, unsigned max, const struct span_row *row,
			      struct py_object *code)
{
	unsigned count = 0;

	for (unsigned of = 0; of < SPAN_VALUE_COUNT; of++) {
		const char *text = row->value[of];

		while (text && count < max) {
			v[count] = (struct python_value){.of = (uint8_t)of, .position = -1};
			prepare_term(&v[count], text, of < SPAN_VALUE_ITEM ? code : NULL);
			count += v[count].count > 0;
			text = strchr(text, ' ');
			text += text != NULL;
		}
	}
	return count;
}

/* ---- from a call to objects ---- */

/* New reference; NULL: the argument was not passed. */
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

static bool is_none(const struct py_object *o)
{
	return python_api_is(o, python_api._Py_NoneStruct->type);
}

/* New reference: follows the names from `first` on. Takes o. */
static struct py_object *follow(const struct python_value *v, unsigned first, struct py_object *o)
{
	for (unsigned i = first; o && i < v->count; i++) {
		struct py_object *next = is_none(o) ? NULL : python_api_attr(o, v->name[i]);

		python_api.Py_DecRef(o);
		o = next;
	}
	return o;
}

/* New reference: the object at the end of the path. */
static struct py_object *object_of(const struct python_value *v, const struct python_arguments *a,
				   struct py_object *returned)
{
	struct py_object *o = v->of_return ? returned : argument_of(v, a);

	if (v->of_return && o)
		python_api.Py_IncRef(o);
	return follow(v, 1, o);
}

/* ---- items of a container ---- */

struct items {
	struct py_object *of;
	ptrdiff_t at, count;
	bool dict, tuple;
};

static bool items_open(struct items *i, struct py_object *o)
{
	const struct python_api *p = &python_api;

	*i = (struct items){.of = o,
			    .dict = python_api_is(o, p->PyDict_Type),
			    .tuple = python_api_is(o, p->PyTuple_Type)};
	if (!i->dict && !i->tuple && !python_api_is(o, p->PyList_Type))
		return false;
	i->count = p->PyObject_Size(o);
	return true;
}

/* The next item, borrowed. *key: of a dict, else NULL. */
static bool items_next(struct items *i, struct py_object **key, struct py_object **item)
{
	*key = NULL;
	if (i->dict)
		return python_api.PyDict_Next(i->of, &i->at, key, item) != 0;
	if (i->at >= i->count)
		return false;
	*item = i->tuple ? python_api.PyTuple_GetItem(i->of, i->at)
			 : python_api.PyList_GetItem(i->of, i->at);
	i->at++;
	return *item != NULL;
}

/* ---- from objects to numbers ---- */

static bool is_container(struct py_object *o)
{
	return python_api_is(o, python_api.PyList_Type) ||
	       python_api_is(o, python_api.PyTuple_Type) ||
	       python_api_is(o, python_api.PyDict_Type) || python_api_is(o, python_api.PySet_Type);
}

/* The length; -1 for other types: their length, even that of built-in types (weakref.proxy,
 * mappingproxy), may run code of the job. */
static double length_of(struct py_object *o)
{
	return is_container(o) || python_api_is(o, python_api.PyUnicode_Type)
		   ? (double)python_api.PyObject_Size(o)
		   : -1;
}

static double number_of(struct py_object *o)
{
	if (python_api.PyType_IsSubtype(o->type, python_api.PyLong_Type))
		return python_api.PyLong_AsDouble(o);
	if (python_api.PyType_IsSubtype(o->type, python_api.PyFloat_Type))
		return python_api.PyFloat_AsDouble(o);
	return -1;
}

/* What an item counts: its own number, or how much it contains; -1: neither. */
static double weight_of(struct py_object *o)
{
	if (is_none(o))
		return 0;
	return is_container(o) ? length_of(o) : number_of(o);
}

/* The sum of the items, or the number of items that are 1; -1: neither is possible. */
static double total_of(struct py_object *o, char form)
{
	struct py_object *key, *item;
	struct items i;
	double total = 0;

	if (!items_open(&i, o) || i.count > LIMIT_SPAN_ITEMS)
		return -1;
	while (items_next(&i, &key, &item)) {
		double n = weight_of(item);

		if (!(n >= 0))
			return -1;
		total += form == SPAN_FORM_SUM ? n : n == 1;
	}
	return total;
}

/* The number of o, in the value's form. Takes o. */
static double count_of(const struct python_value *v, struct py_object *o)
{
	double n = is_none(o)						   ? 0
		   : v->form == SPAN_FORM_LENGTH			   ? length_of(o)
		   : v->form == SPAN_FORM_SUM || v->form == SPAN_FORM_ONES ? total_of(o, v->form)
									   : number_of(o);

	python_api.Py_DecRef(o);
	if (python_api.PyErr_Occurred())
		python_api.PyErr_Clear();
	return n;
}

static void refuse(void)
{
	ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_VALUE, 1);
}

float python_value_number(const struct python_value *v, const struct python_arguments *a,
			  struct py_object *returned)
{
	struct py_object *o = object_of(v, a, returned);
	double n = o ? count_of(v, o) : 0;

	if (n >= 0 && n <= SPAN_VALUE_MAX)
		return (float)n;
	refuse();
	return -1;
}

/* ---- requests ---- */

/* Hash of an id. 0: it is no text, or is too long: hashing it would cost time, and the UTF-8 that
 * the interpreter keeps would cost memory. */
static uint64_t hash_of(struct py_object *o, char form)
{
	const char *text = NULL;
	ptrdiff_t bytes = 0;

	if (python_api_is(o, python_api.PyUnicode_Type) &&
	    python_api.PyObject_Size(o) <= LIMIT_SPAN_ID_CHARS)
		text = python_api.PyUnicode_AsUTF8AndSize(o, &bytes);
	if (!text)
		python_api.PyErr_Clear();
	if (text && form == SPAN_FORM_BASE)
		bytes = (ptrdiff_t)request_id_base_bytes(text, (size_t)bytes);
	return text && bytes > 0 ? hash_bytes(HASH_SEED, text, (size_t)bytes) | 1 : 0;
}

uint64_t python_value_request(const struct python_value *v, const struct python_arguments *a,
			      struct py_object *returned)
{
	struct py_object *o = object_of(v, a, returned);
	uint64_t id = o ? hash_of(o, v->form) : 0;

	if (!o)
		return 0;
	if (!id && !is_none(o))
		refuse();
	python_api.Py_DecRef(o);
	return id;
}

/* New reference: a part of the item; NULL: it has none. */
static struct py_object *part_of(const struct python_value *v, struct py_object *item)
{
	python_api.Py_IncRef(item);
	return follow(v, 0, item);
}

/* Whether a part says that the request ends: anything but None and False. */
static bool says_done(const struct python_value *v, struct py_object *item)
{
	struct py_object *o = part_of(v, item);
	bool done;

	if (!o)
		return false;
	done = !is_none(o) &&
	       !(python_api_is(o, python_api.PyBool_Type) && !python_api.PyLong_AsLong(o));
	python_api.Py_DecRef(o);
	return done;
}

/* Reads one request. False: no request, or no valid count. form: of the keys, or of the items if
 * these are the ids. */
static bool read_item(struct python_request *r, char form,
		      const struct python_value *const part[SPAN_ITEM_COUNT], struct py_object *key,
		      struct py_object *item)
{
	const struct python_value *id = part[SPAN_ITEM_ID], *tokens = part[SPAN_ITEM_TOKENS];
	struct py_object *o = id ? part_of(id, item) : NULL;
	double n = 0;

	*r = (struct python_request){.id = hash_of(o ? o : key ? key : item, o ? id->form : form)};
	if (o)
		python_api.Py_DecRef(o);
	o = tokens ? part_of(tokens, item) : NULL;
	if (o)
		n = count_of(tokens, o);
	else if (key && !id)
		n = weight_of(item);
	if (python_api.PyErr_Occurred())
		python_api.PyErr_Clear();
	r->done = part[SPAN_ITEM_DONE] && says_done(part[SPAN_ITEM_DONE], item);
	r->tokens = n >= 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
	return r->id && n >= 0 && n <= UINT32_MAX;
}

void python_value_requests(const struct python_value *v,
			   const struct python_value *const item[SPAN_ITEM_COUNT],
			   const struct python_arguments *a, struct py_object *returned,
			   void (*put)(void *arg, const struct python_request *r), void *arg)
{
	struct py_object *o = object_of(v, a, returned), *key, *one;
	struct python_request r;
	unsigned n = 0;
	struct items i;

	if (!o)
		return;
	if (items_open(&i, o)) {
		if (i.count > LIMIT_SPAN_ITEMS)
			ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_ITEMS,
					       (uint64_t)i.count - LIMIT_SPAN_ITEMS);
		for (; n < LIMIT_SPAN_ITEMS && items_next(&i, &key, &one); n++)
			if (read_item(&r, v->form, item, key, one))
				put(arg, &r);
			else
				refuse();
	} else if (!is_none(o)) {
		refuse();
	}
	python_api.Py_DecRef(o);
}
