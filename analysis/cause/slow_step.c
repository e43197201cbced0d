/* SPDX-License-Identifier: Apache-2.0
 * A function counts with the time of what it calls: one that calls a helper for each element is on
 * every stack, and none of its helpers is on many. So the innermost function that is on at least
 * half of the stacks is named, not the most frequent leaf. Only stacks inside the slow step's span
 * count, because the rest of the step may be long too: it may wait for a slow GPU. Python's code
 * and the program's come before the C runtime's, which shows only how a thread waits. */
#include "analysis/cause/slow_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ledger/frame_class.h"
#include "base/idmap.h"
#include "base/keyed.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/span_kind.h"
#include "base/text/text.h"
#include "model/request.h"
#include "model/thresholds.h"

#define FUNCTIONS_MAX 1024u /* with their lines */
#define HOLDERS_MAX   32u

struct interval {
	uint64_t begin_ns, end_ns;
};

/* A time in which the step was in its span. */
struct part {
	uint64_t begin_ns, end_ns, before_ns; /* before_ns: length of the earlier parts */
};

/* A function on stacks of the step's thread, or (line above 0) a line of one. */
struct function {
	const char *name;
	uint32_t line, depth; /* depth: from the root, largest seen */
	double ns, blocked_ns;
	uint64_t seen;	 /* the last stack that was added */
	int informative; /* frame_class.h */
};

struct finder {
	const struct window *w;
	const bool *healthy; /* of each step */
	slow_step_name_fn name;
	void *arg;
	const struct window_step *step; /* NULL: of a late request */
	struct interval at;
	double lost_ns;
	uint32_t tid;
	struct part *part; /* in order, apart; without a span: the step */
	size_t part_count;
	struct function *function;
	struct idmap by_name; /* hash of name and line -> function */
	uint32_t function_count;
	uint64_t stacks;
	struct slow_step *out;
};

const char *slow_step_bound_name(unsigned bound)
{
	static const char *const names[] = {"unknown", "cpu", "gpu"};

	return bound < sizeof(names) / sizeof(names[0]) ? names[bound] : "unknown";
}

static uint64_t overlap(struct interval a, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t from = a.begin_ns > begin_ns ? a.begin_ns : begin_ns;
	uint64_t to = a.end_ns < end_ns ? a.end_ns : end_ns;

	return to > from ? to - from : 0;
}

/* Where its latency was measured: on the device, or from mark to mark. */
static struct interval interval_of(const struct step *s)
{
	uint64_t end = step_ends_on_device(s) ? s->device_end_ns : s->end_ns;

	return (struct interval){end > s->latency_ns ? end - s->latency_ns : 0, end};
}

static const struct window_step *worst_of(const struct window *w, const bool *slow)
{
	const struct window_step *worst = NULL;

	for (uint32_t i = 0; i < w->step_count; i++)
		if (slow[i] &&
		    (!worst || window_step_lost_ns(&w->steps[i]) > window_step_lost_ns(worst)))
			worst = &w->steps[i];
	return worst;
}

/* The thread that marked the step, else the first that launched in it, else the main thread. */
static uint32_t thread_of(const struct window *w, struct interval at)
{
	uint32_t launched = 0, stepped = 0; /* stepped: marks other steps */

	for (uint32_t i = 0; w->host && i < w->host_count; i++) {
		const struct record *r = &w->host[i];

		if (r->kind == RECORD_STEP_BEGIN)
			stepped = r->thread;
		if (r->begin_ns < at.begin_ns || r->begin_ns >= at.end_ns)
			continue;
		if (r->kind == RECORD_STEP_BEGIN)
			return r->thread;
		if (!launched && record_is_launch(r))
			launched = r->thread;
	}
	return launched ? launched : stepped ? stepped : w->rank.pid;
}

/* The thread with the longest span of the engine in that time, of those the innermost; 0: there is none. */
static uint32_t spanned_thread(const struct window *w, struct interval at)
{
	const struct record *best = NULL;
	uint64_t most = 0;

	for (uint32_t i = 0; w->host && i < w->host_count; i++) {
		const struct record *r = &w->host[i];
		uint64_t ns = overlap(at, r->begin_ns, r->end_ns);

		if (r->kind != RECORD_SPAN || !ns ||
		    (r->flags & RECORD_FLAG_PYTHON && span_process_is_client(r->func)) ||
		    (best && (ns < most || (ns == most && r->seq <= best->seq))))
			continue;
		best = r;
		most = ns;
	}
	return best ? best->thread : 0;
}

/* ---- spans ---- */

struct span {
	double slow_ns, usual_ns; /* in the slow step; in all healthy ones */
	uint64_t until_ns;	  /* counted until here */
	uint32_t depth;
};

/* A span inside another one of the same name adds nothing. Spans come in order of their start. */
static void add_span(const struct finder *f, const struct record *r, struct span *s)
{
	const struct window *w = f->w;
	uint64_t begin = r->begin_ns > s->until_ns ? r->begin_ns : s->until_ns;

	if (r->seq > s->depth)
		s->depth = r->seq;
	if (r->end_ns <= begin)
		return;
	s->until_ns = r->end_ns;
	s->slow_ns += (double)overlap(f->at, begin, r->end_ns);
	if (!f->step)
		return;
	for (size_t i = SORTED_ABOVE(w->steps, w->step_count, step.end_ns, begin);
	     i < w->step_count; i++) {
		struct interval at = interval_of(&w->steps[i].step);

		if (at.begin_ns >= r->end_ns)
			break;
		if (f->healthy[i])
			s->usual_ns += (double)overlap(at, begin, r->end_ns);
	}
}

static void add_part(struct finder *f, uint64_t begin_ns, uint64_t end_ns)
{
	const struct part *last = f->part_count ? &f->part[f->part_count - 1] : NULL;
	uint64_t done = last ? last->end_ns : f->at.begin_ns;
	uint64_t begin = begin_ns > done ? begin_ns : done;
	uint64_t end = end_ns < f->at.end_ns ? end_ns : f->at.end_ns;
	uint64_t before = last ? last->before_ns + last->end_ns - last->begin_ns : 0;

	if (begin < end)
		f->part[f->part_count++] = (struct part){begin, end, before};
}

/* Where in the step its functions are looked for. span: its name; 0: none. */
static bool find_parts(struct finder *f, uint32_t span)
{
	const struct window *w = f->w;

	f->part = malloc((w->host_count + 1) * sizeof(*f->part));
	if (!f->part)
		return false;
	for (uint32_t i = 0; span && i < w->host_count; i++) {
		const struct record *r = &w->host[i];

		if (r->kind == RECORD_SPAN && r->thread == f->tid && r->name == span)
			add_part(f, r->begin_ns, r->end_ns);
	}
	if (!f->part_count)
		add_part(f, f->at.begin_ns, f->at.end_ns);
	return true;
}

static bool find_span(struct finder *f)
{
	const struct window *w = f->w;
	double healthy = 0;
	struct span *list = calloc((size_t)w->name_count + 1, sizeof(*list)), *best = NULL;
	uint32_t span;

	if (!list)
		return false;
	for (uint32_t i = 0; i < w->step_count; i++)
		healthy += f->healthy[i];
	for (uint32_t i = 0; w->host && i < w->host_count; i++) {
		const struct record *r = &w->host[i];

		if (r->kind == RECORD_SPAN && r->thread == f->tid && r->name &&
		    r->name < w->name_count && r->end_ns > r->begin_ns)
			add_span(f, r, &list[r->name]);
	}
	for (uint32_t i = 1; i < w->name_count; i++) {
		struct span *s = &list[i];

		s->usual_ns /= healthy > 0 ? healthy : 1;
		if (s->slow_ns - s->usual_ns >= thresholds.part.half * f->lost_ns &&
		    s->slow_ns > 0 && (!best || s->depth > best->depth))
			best = s;
	}
	if (best) {
		text_copy(f->out->span, sizeof(f->out->span), w->names[best - list]);
		f->out->span_ns = best->slow_ns;
		f->out->span_usual_ns = best->usual_ns;
	}
	span = best ? (uint32_t)(best - list) : 0;
	free(list);
	return find_parts(f, span);
}

/* ---- functions ---- */

/* NULL: no room. The result is valid until the next call. */
static struct function *function_of(struct finder *f, const char *name, uint32_t line)
{
	uint64_t key = keyed_text(keyed_process(), name) + line;
	uint32_t at = idmap_get(&f->by_name, key);

	if (at != IDMAP_NONE)
		return &f->function[at];
	if (f->function_count == FUNCTIONS_MAX || idmap_put(&f->by_name, key, f->function_count))
		return NULL;
	f->function[f->function_count] = (struct function){.name = name, .line = line};
	return &f->function[f->function_count++];
}

/* A recursive function counts once per stack. */
static void function_add(struct finder *f, struct function *e, uint32_t depth, double ns,
			 bool blocked)
{
	if (!e || e->seen == f->stacks)
		return;
	e->seen = f->stacks;
	e->ns += ns;
	e->blocked_ns += blocked ? ns : 0;
	if (depth > e->depth)
		e->depth = depth;
}

/* The step's thread spent ns on this stack. */
static void add_stack(struct finder *f, uint32_t stack, double ns, bool blocked)
{
	const struct stack_batch *b = &f->w->stacks;
	const struct stack *st = &b->stacks[stack];

	f->stacks++;
	f->out->known_ns += ns;
	for (uint32_t i = st->kernel_count; i < st->count; i++) {
		const struct stack_frame *frame = &b->frames[st->first + i];
		const char *name;
		struct function *e;

		if (stack_frame_is_nameless(b, frame))
			continue;
		name = f->name(f->arg, st->first + i);
		e = function_of(f, name, 0);
		if (e)
			e->informative = frame_class_informative(b, frame);
		function_add(f, e, st->count - i, ns, blocked);
		if (frame->line)
			function_add(f, function_of(f, name, frame->line), 0, ns, blocked);
	}
}

/* A sample only has the start of its slice; this is the middle. */
static uint64_t time_of(const struct stack_sample *s)
{
	return s->time_ns + STACK_SLICE_NS / 2;
}

static bool is_in(const struct stack_sample *s, uint64_t begin_ns, uint64_t end_ns)
{
	return time_of(s) >= begin_ns && time_of(s) < end_ns;
}

/* How much of the parts lies before t. */
static uint64_t before(const struct finder *f, uint64_t t)
{
	size_t at = SORTED_ABOVE(f->part, f->part_count, end_ns, t);
	const struct part *p = &f->part[at < f->part_count ? at : f->part_count - 1];
	uint64_t until = t < p->end_ns ? t : p->end_ns;

	return p->before_ns + (until > p->begin_ns ? until - p->begin_ns : 0);
}

static void add_stacks(struct finder *f)
{
	const struct stack_batch *b = &f->w->stacks;

	for (uint32_t i = 0; f->part_count && i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		uint64_t t = time_of(s);

		if (s->tid != f->tid || s->kind != STACK_ON_CPU || s->stack >= b->stack_count ||
		    !is_in(s, f->at.begin_ns, f->at.end_ns))
			continue;
		f->out->samples += s->count;
		if (before(f, t + 1) > before(f, t))
			add_stack(f, s->stack, (double)s->weight_ns, false);
	}
	for (uint32_t i = 0; f->part_count && i < b->switch_count; i++) {
		const struct stack_switch *s = &b->switches[i];
		uint64_t ns = s->in_ns > s->out_ns ? before(f, s->in_ns) - before(f, s->out_ns) : 0;

		if (s->tid == f->tid && ns && s->stack < b->stack_count &&
		    !(s->flags & STACK_SWITCH_FOLDED))
			add_stack(f, s->stack, (double)ns, true);
	}
}

void slow_step_with_line(const char *name, uint32_t line, char *out, size_t bytes)
{
	size_t n = strlen(name);

	if (line && n && name[n - 1] == ')')
		snprintf(out, bytes, "%.*s:%u)", (int)(n - 1), name, line);
	else
		text_copy(out, bytes, name);
}

/* Of the functions on at least half of the stacks, the innermost of those that say most; NULL: none. */
static const struct function *innermost(const struct finder *f)
{
	const struct function *best = NULL;

	for (uint32_t i = 0; i < f->function_count; i++) {
		const struct function *e = &f->function[i];

		if (e->line || !*e->name || e->ns < thresholds.part.half * f->out->known_ns)
			continue;
		if (!best || e->informative > best->informative ||
		    (e->informative == best->informative && e->depth > best->depth))
			best = e;
	}
	return best;
}

static uint32_t line_of(const struct finder *f, const char *name)
{
	const struct function *best = NULL;

	for (uint32_t i = 0; i < f->function_count; i++) {
		const struct function *e = &f->function[i];

		if (e->line && (!best || e->ns > best->ns) && !strcmp(e->name, name))
			best = e;
	}
	return best ? best->line : 0;
}

static bool find_function(struct finder *f)
{
	struct slow_step *out = f->out;
	const struct function *best;

	f->function = calloc(FUNCTIONS_MAX, sizeof(*f->function));
	if (!f->function)
		return false;
	add_stacks(f);
	best = innermost(f);
	if (best) {
		text_copy(out->function_name, sizeof(out->function_name), best->name);
		slow_step_with_line(best->name, line_of(f, best->name), out->function,
				    sizeof(out->function));
		out->function_ns = best->ns;
		out->blocked_ns = best->blocked_ns;
	}
	idmap_fini(&f->by_name);
	free(f->function);
	return true;
}

/* ---- bubbles ---- */

/* Python function and thread of the GIL's holder in a sample; false: none. */
static bool holder_text(const struct stack_batch *b, const struct stack_sample *s, bool with_line,
			slow_step_name_fn name, void *arg, char *out, size_t bytes)
{
	const struct stack *st = &b->stacks[s->stack];
	char line[SLOW_STEP_TEXT_BYTES];

	for (uint32_t i = st->kernel_count; i < st->count; i++) {
		const struct stack_frame *frame = &b->frames[st->first + i];

		if (frame->kind != STACK_FRAME_PYTHON)
			continue;
		slow_step_with_line(name(arg, st->first + i), with_line ? frame->line : 0, line,
				    sizeof(line));
		snprintf(out, bytes, "%.100s in thread %s", line, stack_batch_text(b, s->comm));
		return true;
	}
	return false;
}

static bool is_among(const uint32_t *tid, uint32_t count, uint32_t one)
{
	uint32_t k = 0;

	while (k < count && tid[k] != one)
		k++;
	return k < count;
}

/* Samples of a time, without those of the given threads. */
struct samples {
	const struct window *w;
	uint64_t begin_ns, end_ns;
	const uint32_t *tid;
	uint32_t count;
	slow_step_name_fn name;
	void *arg;
};

/* The holder with most time; "": none. of: the line of this one in which it spent most; NULL: the
 * function, because one that works in many lines holds the GIL no less than one that waits in one. */
static void heaviest_holder(const struct samples *p, const char *of, char out[SLOW_STEP_TEXT_BYTES])
{
	const struct stack_batch *b = &p->w->stacks;
	struct holder {
		char text[SLOW_STEP_TEXT_BYTES];
		double ns;
	} list[HOLDERS_MAX];
	uint32_t n = 0, best = 0;

	*out = '\0';
	for (uint32_t i = 0; i < b->sample_count; i++) {
		const struct stack_sample *s = &b->samples[i];
		char text[SLOW_STEP_TEXT_BYTES];
		uint32_t k = 0;

		if (s->gil != STACK_GIL_HOLDER || !is_in(s, p->begin_ns, p->end_ns) ||
		    is_among(p->tid, p->count, s->tid) || s->stack >= b->stack_count ||
		    !holder_text(b, s, false, p->name, p->arg, text, sizeof(text)))
			continue;
		if (of && (strcmp(text, of) ||
			   !holder_text(b, s, true, p->name, p->arg, text, sizeof(text))))
			continue;
		while (k < n && strcmp(list[k].text, text))
			k++;
		if (k == HOLDERS_MAX)
			continue;
		if (k == n) {
			memcpy(list[n].text, text, sizeof(text));
			list[n++].ns = 0;
		}
		list[k].ns += (double)s->weight_ns;
		best = list[k].ns > list[best].ns ? k : best;
	}
	if (n)
		memcpy(out, list[best].text, sizeof(list[best].text));
}

void slow_step_holder(const struct window *w, uint64_t begin_ns, uint64_t end_ns,
		      const uint32_t *tid, uint32_t count, slow_step_name_fn name, void *arg,
		      char out[SLOW_STEP_TEXT_BYTES])
{
	const struct samples p = {w, begin_ns, end_ns, tid, count, name, arg};
	char function[SLOW_STEP_TEXT_BYTES];

	heaviest_holder(&p, NULL, function);
	heaviest_holder(&p, function, out);
}

static void find_holder(const struct finder *f, struct interval at, struct slow_step_bubble *out)
{
	const struct stack_batch *b = &f->w->stacks;

	slow_step_holder(f->w, at.begin_ns, at.end_ns, &f->tid, 1, f->name, f->arg, out->holder);
	for (uint32_t i = 0; i < b->switch_count; i++)
		if (b->switches[i].tid == f->tid && b->switches[i].gil == STACK_GIL_WAITER)
			out->gil_wait_ns +=
			    (double)overlap(at, b->switches[i].out_ns, b->switches[i].in_ns);
}

static void put_bubble(struct slow_step *out, uint64_t offset_ns, uint64_t ns, double least_ns)
{
	uint32_t at = out->bubble_count;

	if (!ns || (double)ns < least_ns)
		return;
	while (at && out->bubble[at - 1].ns < ns)
		at--;
	if (at == SLOW_STEP_BUBBLES_MAX)
		return;
	out->bubble_count += out->bubble_count < SLOW_STEP_BUBBLES_MAX;
	memmove(&out->bubble[at + 1], &out->bubble[at],
		(out->bubble_count - 1 - at) * sizeof(out->bubble[0]));
	out->bubble[at] = (struct slow_step_bubble){.offset_ns = offset_ns, .ns = ns};
}

ORDER_BY(by_begin, struct interval, ORDER_UP(begin_ns));

static bool find_bubbles(struct finder *f)
{
	const struct window *w = f->w;
	double least_ns = thresholds.part.little * f->lost_ns;
	struct interval *busy = malloc((w->device_count + 1) * sizeof(*busy));
	uint64_t done = f->at.begin_ns;
	size_t n = 0;

	if (!busy)
		return false;
	for (uint32_t i = 0; w->device && i < w->device_count; i++)
		if (overlap(f->at, w->device[i].begin_ns, w->device[i].end_ns))
			busy[n++] = (struct interval){w->device[i].begin_ns, w->device[i].end_ns};
	qsort(busy, n, sizeof(*busy), by_begin);
	for (size_t i = 0; i < n; i++) {
		if (busy[i].begin_ns > done)
			put_bubble(f->out, done - f->at.begin_ns, busy[i].begin_ns - done,
				   least_ns);
		if (busy[i].end_ns > done)
			done = busy[i].end_ns;
	}
	if (n && f->at.end_ns > done)
		put_bubble(f->out, done - f->at.begin_ns, f->at.end_ns - done, least_ns);
	free(busy);
	for (uint32_t i = 0; i < f->out->bubble_count; i++) {
		struct slow_step_bubble *b = &f->out->bubble[i];
		uint64_t begin = f->at.begin_ns + b->offset_ns;

		find_holder(f, (struct interval){begin, begin + b->ns}, b);
	}
	return true;
}

/* ---- kernels ---- */

struct kernels {
	double slow_ns, usual_ns; /* in the slow step; in all healthy ones */
	uint32_t count;
};

static void put_kernel(struct slow_step *out, const char *name, const struct kernels *k)
{
	uint32_t at = out->kernel_count;
	double over = k->slow_ns - k->usual_ns;

	while (at && out->kernel[at - 1].ns - out->kernel[at - 1].usual_ns < over)
		at--;
	if (at == SLOW_STEP_KERNELS_MAX)
		return;
	out->kernel_count += out->kernel_count < SLOW_STEP_KERNELS_MAX;
	memmove(&out->kernel[at + 1], &out->kernel[at],
		(out->kernel_count - 1 - at) * sizeof(out->kernel[0]));
	out->kernel[at] =
	    (struct slow_step_kernel){.ns = k->slow_ns, .usual_ns = k->usual_ns, .count = k->count};
	text_copy(out->kernel[at].name, sizeof(out->kernel[at].name), name);
}

static bool find_kernels(struct finder *f)
{
	const struct window *w = f->w;
	double least_ns = thresholds.part.little * f->lost_ns, healthy = 0;
	struct kernels *list = calloc((size_t)w->name_count + 1, sizeof(*list));

	if (!list)
		return false;
	for (uint32_t i = 0; i < w->step_count; i++)
		healthy += f->healthy[i];
	for (uint32_t i = 0; w->device && i < w->device_count; i++) {
		const struct record *r = &w->device[i];
		/* it belongs to the step in which it was launched */
		uint32_t at = window_step_at(w, r->launch_ns ? r->launch_ns : r->begin_ns);
		const struct window_step *s = &w->steps[at];

		if (r->kind != RECORD_KERNEL || at == w->step_count || !r->name ||
		    r->name >= w->name_count || r->end_ns < r->begin_ns)
			continue;
		list[r->name].slow_ns += s == f->step ? (double)(r->end_ns - r->begin_ns) : 0;
		list[r->name].usual_ns +=
		    f->healthy[s - w->steps] ? (double)(r->end_ns - r->begin_ns) : 0;
		list[r->name].count += s == f->step;
	}
	for (uint32_t i = 1; i < w->name_count; i++) {
		list[i].usual_ns /= healthy > 0 ? healthy : 1;
		if (healthy > 0 && list[i].count && list[i].slow_ns - list[i].usual_ns >= least_ns)
			put_kernel(f->out, w->names[i], &list[i]);
	}
	free(list);
	return true;
}

/* The step of a late request, in a process without steps of its own. */
static void of_request(struct finder *f)
{
	const struct window *w = f->w;

	if (w->end_ns <= w->begin_ns + 2 * REQUEST_MARGIN_NS)
		return;
	f->at = (struct interval){w->begin_ns + REQUEST_MARGIN_NS, w->end_ns - REQUEST_MARGIN_NS};
	f->tid = spanned_thread(w, f->at);
	f->lost_ns = (double)(f->at.end_ns - f->at.begin_ns);
	f->out->known = f->tid != 0;
	f->out->latency_ns = f->lost_ns;
}

static void of_rank(struct finder *f)
{
	const struct step *s = &f->step->step;
	struct slow_step *out = f->out;

	f->at = interval_of(s);
	f->tid = thread_of(f->w, (struct interval){s->begin_ns, s->end_ns});
	f->lost_ns = window_step_lost_ns(f->step);
	out->known = f->lost_ns > 0;
	out->spike = f->step->flags & WINDOW_STEP_SPIKE;
	out->bound = !s->kernels		      ? SLOW_STEP_UNKNOWN
		     : s->flags & STEP_FLAG_CPU_BOUND ? SLOW_STEP_CPU
						      : SLOW_STEP_GPU;
	out->index = s->index;
	out->latency_ns = (double)s->latency_ns;
	out->expected_ns = text_finite(f->step->expected_ns);
}

bool slow_step_find(const struct window *w, const bool *slow, const bool *healthy,
		    slow_step_name_fn name, void *arg, struct slow_step *out)
{
	struct finder f = {.w = w,
			   .healthy = healthy,
			   .name = name,
			   .arg = arg,
			   .step = worst_of(w, slow),
			   .out = out};
	bool done;

	memset(out, 0, sizeof(*out));
	if (f.step)
		of_rank(&f);
	else if (!w->step_count && w->reason == WINDOW_ASKED)
		of_request(&f);
	if (!out->known) {
		memset(out, 0, sizeof(*out));
		return true;
	}
	out->begin_unix_ns = (int64_t)f.at.begin_ns + w->realtime_offset_ns;
	done = find_span(&f) && find_function(&f) &&
	       (!f.step || (find_bubbles(&f) && find_kernels(&f)));
	free(f.part);
	if (!done)
		memset(out, 0, sizeof(*out));
	return done;
}
