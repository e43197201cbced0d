/* SPDX-License-Identifier: Apache-2.0
 * python_value.h - the values of a call that a catalogue names: converts the table's text to names,
 * and a call to numbers. Never runs the job's code, never raises.
 * Owns: references to the names, for the life of the process. Threads: with the GIL. */
#pragma once

#include <stdbool.h>

#include "foreign/cpython.h"
#include "preload/python/span_table.h"

/* One term: a path from an argument, from the result, or from an item of a list. */
struct python_value {
	struct py_object *name[LIMIT_SPAN_PARTS]; /* owned; the first: argument, "return" */
	/* number of names; 0: the argument, the result or the item itself is unknown */
	uint8_t count;
	uint8_t of;	  /* the value of the span that it is a term of: SPAN_VALUE_... */
	char form;	  /* SPAN_FORM_...; 0: the number itself */
	bool of_return;	  /* of the result, else of an argument */
	int16_t position; /* of the argument; -1: none of that name */
};

/* The arguments of a call. args NULL: those of the running frame. */
struct python_arguments {
	struct py_object *const *args;
	size_t count;
	struct py_object *names; /* of those behind; NULL: none */
};

/* One request that a span handles. */
struct python_request {
	uint64_t id; /* hash */
	uint32_t tokens;
	bool done;
};

/* Fills at most `max` terms from the row; code gives the names of arguments. Returns their count. */
unsigned python_value_prepare(struct python_value *v, unsigned max, const struct span_row *row,
			      struct py_object *code);
/* The term's number; -1: it is not a count, which is counted as SPAN_VALUE. */
float python_value_number(const struct python_value *v, const struct python_arguments *a,
			  struct py_object *returned);
/* The hash of the id, the same for the same id in every process; 0: none. */
uint64_t python_value_request(const struct python_value *v, const struct python_arguments *a,
			      struct py_object *returned);
/* Passes the requests of v, a container, to `put`: at most LIMIT_SPAN_ITEMS; further ones are
 * counted as SPAN_ITEMS. item[SPAN_ITEM_...]: where an item has this part; NULL: the item
 * itself. */
void python_value_requests(const struct python_value *v,
			   const struct python_value *const item[SPAN_ITEM_COUNT],
			   const struct python_arguments *a, struct py_object *returned,
			   void (*put)(void *arg, const struct python_request *r), void *arg);
