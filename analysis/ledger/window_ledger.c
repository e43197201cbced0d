/* SPDX-License-Identifier: Apache-2.0
 * Kernels with the same name and launch configuration share one text. Records are sorted by both,
 * and each run of equal records gets one text. So a window needs few allocations. */
#include "analysis/ledger/window_ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/sorted.h"

/* Records before a step that are checked for reaching into it; earlier ones are ignored. */
#define REACH_MAX 64u

struct work { /* the device records in the form that the ledger takes */
	struct ledger_busy *busy;
	uint64_t *exposed_ns; /* exposed time per device record, in the step that is being added */
	uint64_t *end_max_ns; /* the latest end of all records up to this one */
	struct ledger_interval *scratch;
	char *names; /* [LEDGER_NAME_BYTES] each */
	uint32_t count;
};

static void work_fini(struct work *k)
{
	free(k->busy);
	free(k->exposed_ns);
	free(k->end_max_ns);
	free(k->scratch);
	free(k->names);
}

/* ---- names ---- */

static const char *copy_name(const struct record *r)
{
	if (r->kind == RECORD_MEMSET)
		return "memset";
	switch (r->func) { /* CUpti_ActivityMemcpyKind */
	case 1:
		return "host to device";
	case 2:
		return "device to host";
	case 8:
		return "device to device";
	case 10:
		return "GPU to GPU";
	default:
		return "copy";
	}
}

static int by_config(const void *a, const void *b)
{
	const struct record *x = *(const struct record *const *)a,
			    *y = *(const struct record *const *)b;

	/* runs for every device record: a branch is faster than ORDER() */
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return memcmp(x->grid, y->grid, sizeof(x->grid))
		   ?: memcmp(x->block, y->block, sizeof(x->block));
}

static void config_name(const struct window *w, const struct record *r, char *out)
{
	snprintf(out, LEDGER_NAME_BYTES, "%.200s<<<%u,%u,%u, %u,%u,%u>>>",
		 r->name ? w->names[r->name] : "?", r->grid[0], r->grid[1], r->grid[2], r->block[0],
		 r->block[1], r->block[2]);
}

static bool is_kernel(const struct record *r)
{
	return r->kind == RECORD_KERNEL || r->kind == RECORD_GRAPH_EXEC;
}

/* Makes one text per configuration. text[i] is set if record i is a kernel. */
static bool name_kernels(const struct window *w, struct work *k, const char **text)
{
	const struct record **list = malloc((w->device_count + 1) * sizeof(*list));
	uint32_t n = 0, texts = 0;

	for (uint32_t i = 0; list && i < w->device_count; i++)
		if (is_kernel(&w->device[i]) && w->device[i].name < w->name_count)
			list[n++] = &w->device[i];
	if (list)
		qsort(list, n, sizeof(*list), by_config);
	for (uint32_t i = 0; list && i < n; i++)
		texts += !i || by_config(&list[i - 1], &list[i]) != 0;
	k->names = list ? malloc((size_t)texts * LEDGER_NAME_BYTES + 1) : NULL;
	for (uint32_t i = 0, t = 0; k->names && i < n; i++) {
		if (!i || by_config(&list[i - 1], &list[i]) != 0)
			config_name(w, list[i], k->names + (size_t)t++ * LEDGER_NAME_BYTES);
		text[list[i] - w->device] = k->names + (size_t)(t - 1) * LEDGER_NAME_BYTES;
	}
	free(list);
	return k->names != NULL;
}

/* ---- work of the GPU ---- */

ORDER_BY(by_begin, struct ledger_busy, ORDER_UP(begin_ns) ?: ORDER_UP(kind) ?: ORDER_TEXT(name));

/* The index of the thread that launched at that time; 0: not known. */
static uint32_t thread_of(const struct window *w, const struct host_timeline *host,
			  uint64_t launch_ns)
{
	size_t at =
	    w->host ? SORTED_FROM(w->host, w->host_count, begin_ns, launch_ns) : w->host_count;
	uint32_t thread;

	if (at == w->host_count || w->host[at].begin_ns != launch_ns)
		return 0;
	thread = host_timeline_find(host, w->host[at].thread);
	return thread < host->count ? thread : 0;
}

static void add_record(struct work *k, const struct window *w, const struct record *r,
		       const struct host_timeline *host, const char *kernel)
{
	struct ledger_busy b = {r->begin_ns, r->end_ns, r->launch_ns, LEDGER_COMPUTE,
				0,	     kernel,	NULL};

	if (r->end_ns < r->begin_ns)
		return;
	if (r->kind == RECORD_COLL_KERNEL) {
		b.kind = LEDGER_COLLECTIVE;
		b.name = record_coll_name(r->func);
		b.exposed_ns = &k->exposed_ns[r - w->device];
	} else if (r->kind == RECORD_COPY || r->kind == RECORD_MEMSET) {
		b.kind = LEDGER_COPY;
		b.name = copy_name(r);
	} else if (!kernel) {
		return;
	}
	if (host->count > 1 && r->launch_ns)
		b.thread = thread_of(w, host, r->launch_ns);
	k->busy[k->count++] = b;
}

static bool work_init(struct work *k, const struct window *w, const struct host_timeline *host)
{
	const char **text = calloc((size_t)w->device_count + 1, sizeof(*text));
	uint64_t end_ns = 0;

	*k = (struct work){
	    .busy = malloc((w->device_count + 1) * sizeof(*k->busy)),
	    .exposed_ns = calloc((size_t)w->device_count + 1, sizeof(*k->exposed_ns)),
	    .end_max_ns = malloc((w->device_count + 1) * sizeof(*k->end_max_ns)),
	    .scratch = malloc((2 * (size_t)w->device_count + 1) * sizeof(*k->scratch))};
	if (!text || !k->busy || !k->exposed_ns || !k->end_max_ns || !k->scratch ||
	    !name_kernels(w, k, text)) {
		free(text);
		work_fini(k);
		return false;
	}
	for (uint32_t i = 0; i < w->device_count; i++)
		add_record(k, w, &w->device[i], host, text[i]);
	free(text);
	qsort(k->busy, k->count, sizeof(*k->busy), by_begin);
	for (uint32_t i = 0; i < k->count; i++) {
		if (k->busy[i].end_ns > end_ns)
			end_ns = k->busy[i].end_ns;
		k->end_max_ns[i] = end_ns;
	}
	return true;
}

/* Index of the first record that began at t or later. */
static uint32_t begun_by(const struct work *k, uint64_t t)
{
	return (uint32_t)SORTED_FROM(k->busy, k->count, begin_ns, t);
}

/* Adds the collectives of the step just added, and resets their exposed time for the next step. */
static int add_colls(struct work *k, const struct window *w, uint32_t first, uint32_t last,
		     uint64_t end_ns, const struct window_step *ws, uint8_t kind, bool healthy,
		     struct coll_parts *colls)
{
	int err = 0;

	for (uint32_t i = first; i < last; i++) {
		uint64_t *exposed_ns = k->busy[i].exposed_ns;

		if (!exposed_ns)
			continue;
		if (!err)
			err = coll_parts_add(colls, &w->device[exposed_ns - k->exposed_ns],
					     *exposed_ns, end_ns, (uint32_t)ws->step.index,
					     ws->flags & (WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED),
					     kind, healthy);
		*exposed_ns = 0;
	}
	return err;
}

static int add_step(struct work *k, const struct window *w, const struct window_step *ws,
		    const struct host_timeline *host, uint8_t kind, bool healthy,
		    struct window_ledger *out)
{
	struct ledger *to = healthy ? &out->kind[kind].healthy : &out->kind[kind].slow;
	const struct step *s = &ws->step;
	uint64_t end = step_ends_on_device(s) ? s->device_end_ns : s->end_ns,
		 begin = end - s->latency_ns;
	uint32_t first, last;

	if (!s->latency_ns || s->latency_ns > end)
		return 0;
	first = begun_by(k, begin);
	last = begun_by(k, end);
	for (uint32_t n = 0; n < REACH_MAX && first > 0 && k->end_max_ns[first - 1] > begin; n++)
		first--;
	ledger_step(to, begin, end, k->busy + first, last - first, host->thread, host->count,
		    k->scratch);
	if (s->flags & STEP_FLAG_STATED && ws->expected_ns > 0)
		ledger_state(to, ws->expected_ns);
	if (ws->expected_ns > 0)
		ledger_judge(to, window_step_lost_ns(ws), window_step_lost_self_ns(ws));
	return add_colls(k, w, first, last, end, ws, kind, healthy, &out->colls);
}

/* ---- hangs ---- */

bool window_ledger_interval(const struct window *w, struct ledger_interval *out)
{
	*out = (struct ledger_interval){
	    w->open_since_ns > w->begin_ns ? w->open_since_ns : w->begin_ns, w->end_ns};
	return w->open_since_ns && out->begin_ns < out->end_ns;
}

/* A long wait consists of several segments, because each drain makes one. */
const struct ledger_segment *window_ledger_wait(const struct host_timeline *host, uint32_t thread,
						struct ledger_interval open, uint64_t *since_ns)
{
	const struct ledger_thread *t = &host->thread[thread];
	const struct ledger_segment *last;
	uint32_t k = t->count;

	while (k && t->segment[k - 1].begin_ns >= open.end_ns)
		k--;
	last = k ? &t->segment[k - 1] : NULL;
	if (!last || last->end_ns <= open.begin_ns)
		return NULL;
	*since_ns = last->end_ns;
	for (; k && t->segment[k - 1].end_ns >= *since_ns; k--) {
		if (t->segment[k - 1].kind != LEDGER_BLOCKED &&
		    t->segment[k - 1].kind != LEDGER_STOPPED)
			break;
		*since_ns = t->segment[k - 1].begin_ns;
	}
	return last;
}

uint32_t window_ledger_thread(const struct host_timeline *host, struct ledger_interval open)
{
	uint32_t best = 0;
	uint64_t latest = 0, since;

	for (uint32_t k = 0; k < host->count; k++) {
		if (host->thread[k].helper || !window_ledger_wait(host, k, open, &since))
			continue;
		if (since > latest) {
			latest = since;
			best = k;
		}
	}
	return best;
}

static void add_open(const struct window *w, const struct host_timeline *host, struct ledger *l)
{
	/* A graph may contain a collective that waits, so an unfinished graph blames nobody. */
	static const enum ledger_kind kinds[] = {[BEAT_UNFINISHED_KERNEL] = LEDGER_COMPUTE,
						 [BEAT_UNFINISHED_COLLECTIVE] = LEDGER_COLLECTIVE,
						 [BEAT_UNFINISHED_GRAPH] = LEDGER_COLLECTIVE};
	struct ledger_busy unfinished = {.launch_ns = w->unfinished.launch_ns,
					 .name = w->unfinished.name};
	struct ledger_interval open;

	if (!window_ledger_interval(w, &open))
		return;
	if (w->unfinished.kind && w->unfinished.kind <= BEAT_UNFINISHED_GRAPH)
		unfinished.kind = kinds[w->unfinished.kind];
	ledger_open(l, open.begin_ns, open.end_ns, unfinished.kind ? &unfinished : NULL,
		    host->thread, host->count, window_ledger_thread(host, open));
}

/* Without device records, the GPU's part of a step is known only if the process launched nothing. */
static bool has_records(const struct window *w)
{
	if (w->device && w->device_count)
		return true;
	for (uint32_t i = 0; w->host && i < w->host_count; i++)
		if (record_is_launch(&w->host[i]))
			return false;
	return w->host && w->host_count;
}

void window_ledger_fini(struct window_ledger *l)
{
	for (uint32_t k = 0; k < WINDOW_LEDGER_KINDS; k++) {
		ledger_fini(&l->kind[k].slow);
		ledger_fini(&l->kind[k].healthy);
	}
	coll_parts_fini(&l->colls);
	ledger_fini(&l->open);
}

bool window_ledger_add(const struct window *w, const bool *slow, const bool *healthy,
		       const uint8_t *kind, const struct host_timeline *host,
		       struct window_ledger *out)
{
	struct work k;
	int err = 0;

	add_open(w, host, &out->open);
	if (!w->names || !has_records(w))
		return true;
	if (!work_init(&k, w, host))
		return false;
	for (uint32_t i = 0; i < w->step_count && !err; i++) {
		if (slow[i])
			err = add_step(&k, w, &w->steps[i], host, kind[i], false, out);
		if (healthy[i] && !err)
			err = add_step(&k, w, &w->steps[i], host, kind[i], true, out);
	}
	coll_parts_finish(&out->colls);
	work_fini(&k);
	return !err;
}
