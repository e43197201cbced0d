/* SPDX-License-Identifier: Apache-2.0
 * When Python functions are looked for, and by whom. The helper thread never takes the GIL: it asks
 * the interpreter to call us in its main thread between two instructions (Py_AddPendingCall). Until
 * tracing has begun there is no helper thread. A process without a GPU is then noticed in dlsym,
 * where the interpreter looks up PyInit_NAME of each extension module. */
#include "preload/python/python_spans.h"

#include <errno.h>

#include "preload/python/python_api.h"
#include "preload/tracer.h"

#define SPANS_PERIOD_NS	   250000000ull
#define SPANS_MINOR_EVENTS 12 /* 3.12: sys.monitoring */

enum function_state { FUNCTION_WAITS, FUNCTION_FOLLOWED, FUNCTION_LOST, FUNCTION_ABSENT };

static uint8_t spans_state[LIMIT_SPAN_FUNCTIONS]; /* enum function_state */
static uint32_t spans_queued;			  /* a call is pending in the interpreter */

void python_spans_importing(void)
{
	const struct span_table *t;
	int saved = errno;

	if (tracer_state() != TRACER_COLD || !python_api_load() || !python_api_here())
		return;
	t = span_table_load();
	for (uint32_t i = 0; t && i < t->function_count; i++) {
		if (i && t->functions[i].row == t->functions[i - 1].row)
			continue; /* nearly always from the same package */
		if (t->rows[t->functions[i].row].on_import &&
		    python_find_root(t->functions[i].module)) {
			tracer_start();
			break;
		}
	}
	errno = saved;
}

/* A function has several names if a method is inherited, or if another module re-exports it. */
static bool is_followed(const struct py_object *key, const struct span_row *row)
{
	const struct python_hook *h = python_hook_find(key);

	return h && h->row == row;
}

/* Follows a function that was found. 0, or -1 if it cannot be followed. */
static int follow(struct py_object *found, const struct span_row *row)
{
	struct py_object *code = found;
	int err = -1;

	if (python_api_is(found, python_api.PyFunction_Type))
		code = python_api_field(found, "__code__");
	else
		python_api.Py_IncRef(code);
	if (is_followed(found, row) || (code && is_followed(code, row)))
		err = 0;
	else if (code && python_api_is(code, python_api.PyCode_Type))
		err = python_api.minor >= SPANS_MINOR_EVENTS ? python_monitor_add(code, row)
							     : python_call_add(found, code, row);
	if (code)
		python_api.Py_DecRef(code);
	return err;
}

static void look_for(const struct span_table *t, uint32_t i)
{
	const struct span_function *f = &t->functions[i];
	struct py_object *found;
	enum python_found how = python_find(f, &found);
	int err = 0;

	if (how == PYTHON_LATER)
		return;
	if (how == PYTHON_FOUND) {
		err = follow(found, &t->rows[f->row]);
		python_api.Py_DecRef(found);
	}
	spans_state[i] = how == PYTHON_ABSENT ? FUNCTION_ABSENT
			 : err		      ? FUNCTION_LOST
					      : FUNCTION_FOLLOWED;
	if (err)
		ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_FUNCTION, 1);
}

static bool has_nvtx(const struct span_table *t, uint16_t row)
{
	for (uint32_t i = 0; i < t->nvtx_count; i++)
		if (t->nvtx[i].row == row)
			return true;
	return false;
}

/* A catalogue names a function once for each place where some release has it, so an absent function
 * is no loss. A span is lost if all of its functions are absent. */
static void count_absent(const struct span_table *t)
{
	uint32_t end;

	for (uint32_t i = 0; i < t->function_count; i = end) {
		bool absent = true;

		for (end = i;
		     end < t->function_count && t->functions[end].row == t->functions[i].row; end++)
			absent &= spans_state[end] == FUNCTION_ABSENT;
		if (!absent || has_nvtx(t, t->functions[i].row))
			continue;
		ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_FUNCTION, 1);
		spans_state[i] = FUNCTION_LOST; /* counted */
	}
}

/* Runs in the interpreter's main thread, with the GIL. Never returns an error, because that would
 * end the job's main loop. */
static int spans_pending(void *unused)
{
	struct py_object *type, *value, *traceback;
	const struct span_table *t;
	int saved = errno;

	if (!tracer_is_dead() && python_api_here()) {
		python_api.PyErr_Fetch(&type, &value, &traceback);
		t = span_table_load();
		for (uint32_t i = 0; t && i < t->function_count; i++)
			if (spans_state[i] == FUNCTION_WAITS)
				look_for(t, i);
		if (t) {
			count_absent(t);
			python_gc_add();
		}
		python_api.PyErr_Restore(type, value, traceback);
	}
	/* release; pairs with the acquire in python_spans_tend */
	__atomic_store_n(&spans_queued, 0, __ATOMIC_RELEASE);
	errno = saved;
	return 0;
}

void python_spans_tend(uint64_t now_ns)
{
	static uint64_t next_ns;

	if (now_ns < next_ns || __atomic_load_n(&spans_queued, __ATOMIC_ACQUIRE))
		return;
	next_ns = now_ns + SPANS_PERIOD_NS;
	if (!python_api_load() || !python_api_running() || !span_table_load())
		return;
	__atomic_store_n(&spans_queued, 1, __ATOMIC_RELAXED);
	if (python_api.Py_AddPendingCall(spans_pending, NULL))
		__atomic_store_n(&spans_queued, 0, __ATOMIC_RELAXED);
}
