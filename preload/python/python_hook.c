/* SPDX-License-Identifier: Apache-2.0
 * Spans of a thread nest, so each thread has a stack of open ones. An end that finds its start
 * further down closes those above it (their ends were missed, as when greenlets switch stacks); an
 * end without a start is ignored. */
#include "preload/python/python_hook.h"

#include <math.h>
#include <string.h>

#include "preload/python/python_api.h"
#include "preload/span.h"
#include "preload/tracer.h"

#define HOOK_SLOTS 1024u /* twice the functions of a table */
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

/* Finds the values that say which requests the span handles. */
static void find_requests(struct python_hook *h)
{
	for (unsigned i = 0; i < h->value_count; i++) {
		unsigned of = h->value[i].of;

		if (of == SPAN_VALUE_REQUESTS)
			h->requests = &h->value[i];
		else if (of >= SPAN_VALUE_ITEM)
			h->item[of - SPAN_VALUE_ITEM] = &h->value[i];
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
	h->value_count = (uint8_t)python_value_prepare(h->value, PYTHON_HOOK_VALUES, row, code);
	find_requests(h);
	python_api.Py_IncRef(key);
	while (hook_slot[i])
		i = (i + 1) % HOOK_SLOTS;
	hook_slot[i] = (uint16_t)++hook_count;
	return h;
}

/* ---- begin and end ---- */

/* The phase, by how many of the requests are in decode; only for a hook whose row gives this
 * number. */
static enum span_phase phase_of(const struct python_hook *h, const struct span_mark *m,
				float decodes)
{
	if (!h->row->value[SPAN_VALUE_DECODE] || !(m->work[SPAN_WORK_BATCH] > 0))
		return SPAN_PHASE_NONE;
	if (decodes < 0)
		return SPAN_PHASE_NONE;
	return decodes >= m->work[SPAN_WORK_BATCH] ? SPAN_PHASE_DECODE
	       : decodes > 0			   ? SPAN_PHASE_MIXED
						   : SPAN_PHASE_PREFILL;
}

/* Evaluates the values that are known now: those of arguments (a), or those of the result (a is
 * NULL). */
static enum span_phase evaluate(struct span_mark *m, const struct python_hook *h,
				const struct python_arguments *a, struct py_object *returned,
				bool work)
{
	float decodes = 0, n;

	for (unsigned i = 0; i < h->value_count; i++) {
		const struct python_value *v = &h->value[i];

		if (v->of_return != !a)
			continue;
		if (v->of == SPAN_VALUE_REQUEST)
			m->request = python_value_request(v, a, returned);
		if (!work || (v->of >= SPAN_WORK_MAX && v->of != SPAN_VALUE_DECODE))
			continue;
		n = python_value_number(v, a, returned);
		if (v->of < SPAN_WORK_MAX)
			m->work[v->of] += n > 0 ? n : 0;
		else
			decodes = n < 0 ? -INFINITY : decodes + n;
	}
	return phase_of(h, m, decodes);
}

/* ---- requests of a span: collected until an event is full ---- */

/* How many requests of a step are compared with the step before. An engine appends new requests, so
 * the first few show whether the step continues with the same ones. */
#define CONTINUE_LOOK 4u
static struct {
	const struct tracer_thread *t;
	const struct python_hook *h;
	uint64_t id[LIMIT_SPAN_ITEMS];
	unsigned count;
} latest;

struct request_pack {
	struct tracer_thread *t;
	unsigned seen, before; /* seen: of this span; before: of the step before */
	bool step, continues;
	struct event_span_request e;
	unsigned count;
};

static void pack_flush(struct request_pack *p)
{
	if (p->count)
		ring_writer_push(&p->t->lane, &p->e);
	memset(p->e.request, 0, sizeof(p->e.request));
	memset(p->e.tokens, 0, sizeof(p->e.tokens));
	p->e.done = 0;
	p->count = 0;
}

static void pack_put(void *arg, const struct python_request *r)
{
	struct request_pack *p = arg;

	for (unsigned i = p->seen; p->seen < CONTINUE_LOOK && i < p->before; i++)
		p->continues |= latest.id[i] == r->id;
	if (p->step)
		latest.id[p->seen++] = r->id;
	p->e.request[p->count] = r->id;
	p->e.tokens[p->count] = r->tokens;
	p->e.done |= (uint8_t)(r->done << p->count);
	if (++p->count == SPAN_REQUEST_SLOTS)
		pack_flush(p);
}

/* t_begin: start of the span, which identifies it in events. True: the span is a step, and
 * continues with requests of the step before. */
static bool push_requests(struct tracer_thread *t, const struct python_hook *h, uint64_t t_begin,
			  const struct python_arguments *a, struct py_object *returned)
{
	struct request_pack p = {
	    .t = t,
	    .step = h->step && a,
	    .e = {.head = {.kind = EVENT_SPAN_REQUEST, .t = t_begin}, .name = h->name}};

	if (!h->requests || h->requests->of_return != !a)
		return false;
	if (p.step && latest.t == t && latest.h == h)
		p.before = latest.count;
	python_value_requests(h->requests, h->item, a, returned, pack_put, &p);
	pack_flush(&p);
	if (!p.step)
		return false;
	latest.t = t;
	latest.h = h;
	latest.count = p.seen;
	return p.continues;
}

/* 1 + the innermost open span of `key`; 0: none is open. */
static uint32_t open_find(const struct tracer_thread *t, const void *key)
{
	uint32_t i = t->open_count;

	while (i > 0 && t->open[i - 1] != key)
		i--;
	return i;
}

static void open_push(struct tracer_thread *t, const void *key, struct span_mark *m)
{
	if (t->open_count == TRACER_OPEN_MAX) {
		uint32_t i = open_find(t, key);

		/* this end belongs to an inner call, not to the recorded span */
		if (i)
			t->open_more[i - 1]++;
		return;
	}
	m->depth = (uint16_t)t->open_count;
	t->open_t[t->open_count] = m->t;
	t->open_more[t->open_count] = 0;
	t->open[t->open_count++] = key;
	span_push_mark(t, EVENT_SPAN_BEGIN, m);
}

/* When the innermost open span of `key` began; 0: none is open. */
static uint64_t open_begin(const struct tracer_thread *t, const void *key)
{
	uint32_t i = open_find(t, key);

	return i && !t->open_more[i - 1] ? t->open_t[i - 1] : 0;
}

static void open_pop(struct tracer_thread *t, const void *key, const struct span_mark *m)
{
	uint32_t i = open_find(t, key);

	if (i && t->open_more[i - 1]) {
		t->open_more[i - 1]--;
		return;
	}
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
	enum span_phase phase = SPAN_PHASE_NONE;
	struct tracer_thread *t;
	bool continues = false;

	if (state != TRACER_ON && state != TRACER_OFF)
		return;
	t = lane();
	if (!t)
		return;
	if (state == TRACER_ON)
		phase = evaluate(&m, h, a, NULL, !resumed);
	if (state == TRACER_ON && !resumed && t->open_count < TRACER_OPEN_MAX)
		continues = push_requests(t, h, m.t, a, NULL);
	if (h->step && !t->step_key) {
		t->step_key = h;
		span_step_begin(m.t, m.work, phase, continues);
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
	if (t->open_count && returned && !paused && tracer_state() == TRACER_ON) {
		uint64_t begin = open_begin(t, h);

		evaluate(&m, h, NULL, returned, true);
		if (begin)
			push_requests(t, h, begin, NULL, returned);
	}
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
