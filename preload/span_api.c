/* SPDX-License-Identifier: Apache-2.0
 * span_api.c - the public calls of sysom.h, and NVTX's ranges, which become the same events. NVTX
 * itself calls InitializeInjectionNvtx2 once per library that embeds NVTX, because the constructor
 * set NVTX_INJECTION64_PATH. Unlike the public calls, NVTX alone does not start tracing. */
#include "preload/sysom.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "foreign/nvtx.h"
#include "preload/helper.h"
#include "preload/hooks.h"
#include "preload/python/span_table.h"
#include "preload/span.h"
#include "preload/span_pattern.h"
#include "preload/tracer.h"

#define SPAN_EXPORT __attribute__((visibility("default")))

static uint32_t span_step_count;
static bool span_steps_explicit; /* the job marks its steps itself */
static uint64_t span_range_count;

/* ---- the public calls ---- */

/* Whether an explicit call may be recorded. The first one starts tracing. */
static bool span_ready(void)
{
	uint32_t state = tracer_state();

	return state == TRACER_ON || (state == TRACER_COLD && tracer_start());
}

static void span_push_step(uint16_t kind, uint64_t t, const double *work, unsigned count,
			   uint32_t index, uint32_t phase, uint16_t flags)
{
	struct event_step e = {.head = {.kind = kind, .flags = EVENT_FLAG_EXPLICIT | flags, .t = t},
			       .index = index,
			       .phase = phase};

	if (count > LIMIT_STEP_WORK)
		count = LIMIT_STEP_WORK;
	for (unsigned i = 0; work && i < count; i++) {
		if (work[i] >= 0 && work[i] <= SPAN_VALUE_MAX)
			e.work[i] = work[i];
		else
			ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_VALUE, 1);
	}
	e.work_count = work ? count : 0;
	tracer_push(&e);
}

/* The name id of a phase. It is looked up each time, because an arena that was full had no room for
 * it. */
static uint32_t phase_name(enum span_phase phase)
{
	static const char *const names[SPAN_PHASE_COUNT] = {
	    [SPAN_PHASE_PREFILL] = "prefill",
	    [SPAN_PHASE_DECODE] = "decode",
	    [SPAN_PHASE_MIXED] = "mixed",
	};

	return span_intern(names[phase]);
}

/* t: 0 for now; the clock is only known once tracing has begun. */
static void span_begin_step(uint64_t t, const double *work, unsigned count, enum span_phase phase,
			    bool continues)
{
	/* Steps are counted even while tracing is off: ranks must agree. */
	uint32_t index = __atomic_fetch_add(&span_step_count, 1, __ATOMIC_RELAXED);

	if (span_ready())
		span_push_step(EVENT_STEP_BEGIN, t ? t : tracer_now(), work, count, index,
			       phase_name(phase), continues ? EVENT_FLAG_CONTINUES : 0);
}

static void span_end_step(void)
{
	uint32_t count = __atomic_load_n(&span_step_count, __ATOMIC_RELAXED);

	if (!span_ready())
		return;
	span_push_step(EVENT_STEP_END, tracer_now(), NULL, 0, count ? count - 1 : 0, RING_NAME_NONE,
		       0);
	helper_sync_done();
}

SPAN_EXPORT void sysom_step_begin(const double *work, unsigned count)
{
	__atomic_store_n(&span_steps_explicit, true, __ATOMIC_RELAXED);
	span_begin_step(0, work, count, SPAN_PHASE_NONE, false);
}

SPAN_EXPORT void sysom_step_end(void)
{
	span_end_step();
}

/* ---- those of a catalogue ---- */

void span_step_begin(uint64_t t, const float work[SPAN_WORK_MAX], enum span_phase phase,
		     bool continues)
{
	double values[SPAN_WORK_MAX];
	unsigned count = 0;

	if (__atomic_load_n(&span_steps_explicit, __ATOMIC_RELAXED))
		return;
	for (unsigned i = 0; i < SPAN_WORK_MAX; i++) {
		values[i] = (double)work[i];
		if (work[i] > 0)
			count = i + 1;
	}
	span_begin_step(t, values, count, phase, continues);
}

void span_step_end(void)
{
	if (!__atomic_load_n(&span_steps_explicit, __ATOMIC_RELAXED))
		span_end_step();
}

void span_push_mark(struct tracer_thread *t, uint16_t kind, const struct span_mark *m)
{
	struct event_span e = {.head = {.kind = kind, .t = m->t},
			       .domain = m->request,
			       .name = m->name,
			       .source = SPAN_SOURCE_PYTHON,
			       .process = m->process,
			       .thread = m->thread,
			       .depth = m->depth};

	memcpy(e.work, m->work, sizeof(e.work));
	ring_writer_push(&t->lane, &e);
}

static void span_push(uint16_t kind, enum span_source source, uint64_t domain, uint64_t range,
		      uint32_t name, bool nested)
{
	struct tracer_thread *t = tracer_self ? tracer_self : tracer_claim();
	struct event_span e = {.head = {.kind = kind, .t = tracer_now()},
			       .span = range,
			       .domain = domain,
			       .name = name,
			       .source = (uint8_t)source};

	if (!t)
		return;
	if (nested && kind == EVENT_SPAN_END && t->spans)
		t->spans--;
	e.depth = nested ? t->spans : 0;
	if (nested && kind == EVENT_SPAN_BEGIN)
		t->spans++;
	tracer_push(&e);
}

#define SPAN_PAGE_BYTES 4096u /* the smallest page size of any machine */

/* Whether the page that begins at `at` can be read. Only a system call can tell without a signal.
 * This one reads 8 bytes before it finds that its other arguments are invalid. */
static bool span_is_readable(const char *at)
{
	int saved = errno;
	bool readable = syscall(SYS_rt_sigprocmask, ~0, at, NULL, 8) == 0 || errno != EFAULT;

	errno = saved;
	return readable;
}

/* The job may pass a text of any length, or one without a terminating NUL. What is beyond the
 * longest name, or beyond readable memory, is cut off and counted. */
static size_t span_text_bytes(const char *text)
{
	size_t bytes = 0, room, n;

	while (bytes < LIMIT_NAME_BYTES) {
		room = SPAN_PAGE_BYTES - ((uintptr_t)(text + bytes) & (SPAN_PAGE_BYTES - 1));
		if (room > LIMIT_NAME_BYTES - bytes)
			room = LIMIT_NAME_BYTES - bytes;
		n = strnlen(text + bytes, room);
		bytes += n;
		if (n < room)
			return bytes;
		if (bytes < LIMIT_NAME_BYTES && !span_is_readable(text + bytes))
			break;
	}
	ring_writer_count_drop(&tracer_ring, RING_DROP_SPAN_TEXT, 1);
	return bytes;
}

uint32_t span_intern(const char *text)
{
	return text ? ring_writer_intern(&tracer_ring, text, span_text_bytes(text))
		    : RING_NAME_NONE;
}

SPAN_EXPORT void sysom_span_begin(const char *name)
{
	if (span_ready())
		span_push(EVENT_SPAN_BEGIN, SPAN_SOURCE_API, 0, 0, span_intern(name), true);
}

SPAN_EXPORT void sysom_span_end(void)
{
	if (span_ready())
		span_push(EVENT_SPAN_END, SPAN_SOURCE_API, 0, 0, RING_NAME_NONE, true);
}

/* ---- NVTX ---- */

static bool span_nvtx_on(void)
{
	return tracer_state() == TRACER_ON && !(tracer_inside_bits & TRACER_IN_SYSOM);
}

/* A text that a catalogue names. */
struct span_named {
	const struct span_row *row; /* NULL: no catalogue names it */
	uint32_t name;		    /* of the text itself */
	float work[SPAN_WORK_MAX];
};

/* Registered texts that a catalogue names: a push of one has only its id. */
#define SPAN_REGISTERED 64u
static struct span_named span_registered[SPAN_REGISTERED];
static uint32_t span_registered_count;

static const struct span_row *span_row_of(const char *text, size_t bytes, float work[SPAN_WORK_MAX])
{
	const struct span_table *t = span_table_load();

	for (uint32_t i = 0; t && bytes && i < t->nvtx_count; i++)
		if (span_pattern_match(t->nvtx[i].pattern, text, bytes, work))
			return &t->rows[t->nvtx[i].row];
	return NULL;
}

static void span_register_named(const char *text, size_t bytes, uint32_t id)
{
	float work[SPAN_WORK_MAX];
	const struct span_row *row = span_row_of(text, bytes, work);
	uint32_t at =
	    row ? __atomic_fetch_add(&span_registered_count, 1, __ATOMIC_RELAXED) : SPAN_REGISTERED;

	if (at >= SPAN_REGISTERED)
		return;
	span_registered[at].name = id;
	memcpy(span_registered[at].work, work, sizeof(work));
	/* release; pairs with the acquire in span_named_id: the rest is complete */
	__atomic_store_n(&span_registered[at].row, row, __ATOMIC_RELEASE);
}

static struct span_named span_named_id(uint32_t id)
{
	uint32_t count = __atomic_load_n(&span_registered_count, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < count && i < SPAN_REGISTERED; i++)
		if (__atomic_load_n(&span_registered[i].row, __ATOMIC_ACQUIRE) &&
		    span_registered[i].name == id)
			return span_registered[i];
	return (struct span_named){.name = id};
}

/* A text that a catalogue names is recorded under the catalogue's name, because the numbers in it
 * would make each text another name. */
static struct span_named span_named_text(const char *text)
{
	size_t bytes = text ? span_text_bytes(text) : 0;
	struct span_named n = {0};

	n.row = span_row_of(text, bytes, n.work);
	n.name = n.row ? span_intern(n.row->name) : ring_writer_intern(&tracer_ring, text, bytes);
	return n;
}

/* A registered string's handle is the interned id, so that a push costs no hashing. */
static void *span_nvtx_register(void *domain, const char *text)
{
	uint32_t state = tracer_state();
	bool ring = text && (state == TRACER_ON || state == TRACER_OFF);
	size_t bytes = ring ? span_text_bytes(text) : 0;
	uint32_t id = ring ? ring_writer_intern(&tracer_ring, text, bytes) : 0;

	if (id)
		span_register_named(text, bytes, id);
	/* Without a ring there is no arena, so this returns the text itself, whose address is too
	 * large for an id. */
	return id ? (void *)(uintptr_t)id : (void *)(uintptr_t)text;
}

static struct span_named span_nvtx_name(const struct nvtx_event *a)
{
	if (a && a->message_type == NVTX_MESSAGE_ASCII)
		return span_named_text(a->message.ascii);
	if (a && a->message_type == NVTX_MESSAGE_REGISTERED &&
	    (uintptr_t)a->message.registered <= LIMIT_NAME_COUNT)
		return span_named_id((uint32_t)(uintptr_t)a->message.registered);
	return (struct span_named){.name = RING_NAME_NONE};
}

/* The step ends with the pop that closes its range. */
static void span_nvtx_step(struct tracer_thread *t, const struct span_named *n)
{
	if (!n->row || !n->row->step || t->step_key)
		return;
	t->step_key = n->row;
	t->step_depth = t->spans;
	span_step_begin(tracer_now(), n->work, SPAN_PHASE_NONE, false);
}

static int span_nvtx_push(uint64_t domain, struct span_named n)
{
	struct tracer_thread *t;

	span_push(EVENT_SPAN_BEGIN, SPAN_SOURCE_NVTX, domain, 0, n.name, true);
	t = tracer_self;
	if (!t)
		return 0;
	span_nvtx_step(t, &n);
	return (int)t->spans - 1;
}

/* Whether the thread's step is one of NVTX's, whose range is now closed. */
static bool span_nvtx_step_over(const struct tracer_thread *t)
{
	const struct span_table *table = t->step_key ? span_table_load() : NULL;
	uintptr_t key = (uintptr_t)t->step_key;

	return table && key >= (uintptr_t)table->rows &&
	       key < (uintptr_t)(table->rows + LIMIT_SPAN_COUNT) && t->spans < t->step_depth;
}

static int span_nvtx_pop(uint64_t domain)
{
	struct tracer_thread *t;

	span_push(EVENT_SPAN_END, SPAN_SOURCE_NVTX, domain, 0, RING_NAME_NONE, true);
	t = tracer_self;
	if (!t)
		return 0;
	if (span_nvtx_step_over(t)) {
		t->step_key = NULL;
		span_step_end();
	}
	return (int)t->spans;
}

static uint64_t span_nvtx_start(uint64_t domain, uint32_t name)
{
	uint64_t range = __atomic_add_fetch(&span_range_count, 1, __ATOMIC_RELAXED);

	span_push(EVENT_SPAN_BEGIN, SPAN_SOURCE_NVTX, domain, range, name, false);
	return range;
}

static int nvtx_push_a(const char *text)
{
	return span_nvtx_on() ? span_nvtx_push(0, span_named_text(text)) : 0;
}
static int nvtx_push_ex(const struct nvtx_event *a)
{
	return span_nvtx_on() ? span_nvtx_push(0, span_nvtx_name(a)) : 0;
}
static int nvtx_pop(void)
{
	return span_nvtx_on() ? span_nvtx_pop(0) : 0;
}
static uint64_t nvtx_start_a(const char *text)
{
	return span_nvtx_on() ? span_nvtx_start(0, span_named_text(text).name) : 0;
}
static uint64_t nvtx_start_ex(const struct nvtx_event *a)
{
	return span_nvtx_on() ? span_nvtx_start(0, span_nvtx_name(a).name) : 0;
}
static void nvtx_end(uint64_t range)
{
	if (range && span_nvtx_on())
		span_push(EVENT_SPAN_END, SPAN_SOURCE_NVTX, 0, range, RING_NAME_NONE, false);
}
static int nvtx_domain_push_ex(void *domain, const struct nvtx_event *a)
{
	return span_nvtx_on() ? span_nvtx_push((uintptr_t)domain, span_nvtx_name(a)) : 0;
}
static int nvtx_domain_pop(void *domain)
{
	return span_nvtx_on() ? span_nvtx_pop((uintptr_t)domain) : 0;
}
static uint64_t nvtx_domain_start_ex(void *domain, const struct nvtx_event *a)
{
	return span_nvtx_on() ? span_nvtx_start((uintptr_t)domain, span_nvtx_name(a).name) : 0;
}
static void nvtx_domain_end(void *domain, uint64_t range)
{
	if (range && span_nvtx_on())
		span_push(EVENT_SPAN_END, SPAN_SOURCE_NVTX, (uintptr_t)domain, range,
			  RING_NAME_NONE, false);
}
/* A domain is identified by the hash of its name, so it is the same in every library and on every
 * rank. */
static void *nvtx_domain_create_a(const char *name)
{
	size_t bytes = name ? span_text_bytes(name) : 0;

	return (void *)(uintptr_t)(hash_bytes(HASH_SEED, name ? name : "", bytes) | 1);
}

static const struct {
	uint32_t module, index;
	void *fn;
} span_nvtx_table[] = {
    {NVTX_MODULE_CORE, NVTX_CORE_RANGE_START_EX, nvtx_start_ex},
    {NVTX_MODULE_CORE, NVTX_CORE_RANGE_START_A, nvtx_start_a},
    {NVTX_MODULE_CORE, NVTX_CORE_RANGE_END, nvtx_end},
    {NVTX_MODULE_CORE, NVTX_CORE_RANGE_PUSH_EX, nvtx_push_ex},
    {NVTX_MODULE_CORE, NVTX_CORE_RANGE_PUSH_A, nvtx_push_a},
    {NVTX_MODULE_CORE, NVTX_CORE_RANGE_POP, nvtx_pop},
    {NVTX_MODULE_CORE2, NVTX_CORE2_DOMAIN_RANGE_START_EX, nvtx_domain_start_ex},
    {NVTX_MODULE_CORE2, NVTX_CORE2_DOMAIN_RANGE_END, nvtx_domain_end},
    {NVTX_MODULE_CORE2, NVTX_CORE2_DOMAIN_RANGE_PUSH_EX, nvtx_domain_push_ex},
    {NVTX_MODULE_CORE2, NVTX_CORE2_DOMAIN_RANGE_POP, nvtx_domain_pop},
    {NVTX_MODULE_CORE2, NVTX_CORE2_DOMAIN_REGISTER_STRING_A, span_nvtx_register},
    {NVTX_MODULE_CORE2, NVTX_CORE2_DOMAIN_CREATE_A, nvtx_domain_create_a},
};

SPAN_EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table_fn get_table);
SPAN_EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table_fn get_table)
{
	const struct nvtx_callbacks *callbacks;

	if (tracer_is_dead() || !get_table)
		return 0;
	span_table_load(); /* reads a file, so it must not happen in the call of a range */
	callbacks = get_table(NVTX_TABLE_CALLBACKS);
	if (!callbacks || callbacks->struct_bytes < sizeof(*callbacks) || !callbacks->get_module)
		return 0;
	for (unsigned i = 0; i < sizeof(span_nvtx_table) / sizeof(span_nvtx_table[0]); i++) {
		void ***table = NULL;
		unsigned count = 0;

		if (callbacks->get_module(span_nvtx_table[i].module, &table, &count) && table &&
		    span_nvtx_table[i].index < count && table[span_nvtx_table[i].index])
			*table[span_nvtx_table[i].index] = span_nvtx_table[i].fn;
	}
	return 1;
}

/* CUDA_INJECTION64_PATH: the driver calls this in cuInit if we are not preloaded. Then we see no
 * launches, only kernels and copies. */
SPAN_EXPORT int InitializeInjection(void);
SPAN_EXPORT int InitializeInjection(void)
{
	if (tracer_is_dead())
		return 1;
	if (tracer_state() == TRACER_COLD)
		tracer_start();
	if (tracer_state() == TRACER_ON)
		helper_context_ready();
	return 1;
}
