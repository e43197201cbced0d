/* SPDX-License-Identifier: Apache-2.0
 * What the spans of one process say about its requests. The requests of a span are known before the
 * span ends. They wait for its end, because only the whole span shows what kind of process it is
 * in, and how long it took. */
#include <stdlib.h>
#include <string.h>

#include "base/span_kind.h"
#include "model/record.h"
#include "analysis/requests/request_table_private.h"

/* After this many planned steps without a span of another name, the engine is taken to name each
 * step once. */
#define PLANNED_ALONE 3u

struct span {
	uint32_t process, name; /* slot */
	uint64_t begin_ns, end_ns;
	bool client;		     /* the process is an API process or a router */
	uint32_t tokens;	     /* as the span states */
	uint32_t step_tokens, batch; /* tokens and number of its requests */
};

static uint32_t engine_of(const struct span *s)
{
	return s->client ? REQUEST_NO_PROCESS : s->process;
}

/* ---- steps of a request ---- */

static uint64_t length(const struct request_step *s)
{
	return s->end_ns - s->begin_ns;
}

void request_table_keep_longest(struct request_step *list, const struct request_step *s)
{
	uint32_t at = REQUEST_SLOWEST;

	while (at && length(&list[at - 1]) < length(s))
		at--;
	if (at == REQUEST_SLOWEST)
		return;
	memmove(&list[at + 1], &list[at], (REQUEST_SLOWEST - 1 - at) * sizeof(*list));
	list[at] = *s;
}

static void prefill_step(struct request *r, const struct request_step *s)
{
	uint64_t sum = (uint64_t)r->prefill_tokens + s->tokens;

	r->prefill_steps++;
	r->prefill_tokens = sum < TOKENS_MAX ? (uint32_t)sum : TOKENS_MAX;
	r->prefill_ns += length(s);
	request_table_keep_longest(r->prefill, s);
	if (r->prompt_tokens && r->prefill_tokens >= r->prompt_tokens)
		r->first_ns = s->end_ns;
}

static void decode_step(struct request *r, const struct request_step *s)
{
	r->decode_steps++;
	r->decode_ns += length(s);
	request_table_keep_longest(r->decode, s);
}

/* Adds the time since the request's last step. moved: that step was in another engine. */
static void between_steps(struct request *r, uint64_t begin_ns, bool moved)
{
	struct request_step gap = {.begin_ns = r->last_ns, .end_ns = begin_ns};
	struct request_step *longest = moved ? &r->transfer : &r->pause;

	if (!r->first_ns || begin_ns <= r->last_ns)
		return;
	*(moved ? &r->transfer_ns : &r->pause_ns) += length(&gap);
	if (length(&gap) > length(longest))
		*longest = gap;
}

/* A step may be planned before the last one has ended, so the two overlap. Then it counts from the
 * end of the last one. */
static struct request_step after(const struct request_step *s, uint64_t last_ns)
{
	struct request_step own = *s;

	if (own.begin_ns < last_ns)
		own.begin_ns = last_ns < own.end_ns ? last_ns : own.end_ns;
	return own;
}

static void on_step(struct request_table *t, struct request *r, uint32_t process,
		    const struct request_step *s)
{
	bool moved = r->stepped != process && r->stepped != REQUEST_NO_PROCESS;
	struct request_step own = after(s, r->last_ns);

	t->job[r->job].moved_ns = t->now_ns;
	/* This engine has a new step of the request, although the request had left it for another
	 * engine: so two requests share the id. A step that was only read late had begun before the
	 * request left. */
	r->shared |= moved && r->left == process && s->begin_ns > r->moved_ns;
	if (s->end_ns < s->begin_ns || s->end_ns < r->last_ns) {
		t->job[r->job].stats.bad++;
		return;
	}
	if (!r->first_ns && r->prefill_steps && s->tokens == 1)
		r->first_ns = r->last_ns;
	between_steps(r, own.begin_ns, moved);
	if (moved) {
		r->left = r->stepped;
		r->moved_ns = s->begin_ns;
	}
	r->stepped = process;
	if (r->first_ns)
		decode_step(r, &own);
	else
		prefill_step(r, &own);
	r->last_ns = s->end_ns;
}

/* A step of the request begins. A step that had begun before the request ended does not make it run
 * again. */
static void on_scheduled(struct request_table *t, struct request *r, uint32_t process,
			 uint64_t begin_ns)
{
	if (!r->scheduled_ns)
		r->scheduled_ns = begin_ns;
	if ((r->state != REQUEST_RUNNING || r->process != process) && begin_ns > r->ended_ns)
		request_table_run(t, r, process);
}

/* ---- the engine's spans of a step ---- */

static void engine_names(struct request_engine *e, const struct span *s)
{
	if (!e->plan)
		e->plan = s->name;
	if (s->name != e->plan) {
		if (!e->result || e->result == e->plan)
			e->result = s->name;
		return;
	}
	if (s->begin_ns == e->planned_ns)
		return;
	e->planned_ns = s->begin_ns;
	if (!e->result && ++e->planned >= PLANNED_ALONE)
		e->result = e->plan;
}

static void remember(struct request_engine *e, const struct request_step *s)
{
	uint64_t last_ns = e->steps ? e->step[(e->steps - 1) % STEPS_MAX].end_ns : 0;

	e->step[e->steps++ % STEPS_MAX] = after(s, last_ns);
}

struct request_step request_table_longest(const struct request_engine *e, uint64_t begin_ns,
					  uint64_t end_ns)
{
	struct request_step best = {0};
	uint32_t count = !e ? 0 : e->steps < STEPS_MAX ? e->steps : STEPS_MAX;

	for (uint32_t i = 0; i < count; i++) {
		const struct request_step *s = &e->step[i];

		if (s->begin_ns < end_ns && s->end_ns > begin_ns && length(s) > length(&best))
			best = *s;
	}
	best.tokens = 0; /* the tokens were another request's */
	return best;
}

/* The request's oldest planned step has its result now. */
static void pop(struct request_table *t, struct request *r, uint32_t process, uint64_t end_ns,
		struct request_step *out)
{
	*out = r->open[0];
	out->end_ns = end_ns;
	memmove(r->open, r->open + 1, --r->open_count * sizeof(*r->open));
	on_step(t, r, process, out);
}

static void plan(struct request_table *t, struct request *r, const struct request_step *s)
{
	if (r->open_count == REQUEST_OPEN_STEPS) {
		t->job[r->job].stats.parts_lost++;
		memmove(r->open, r->open + 1, --r->open_count * sizeof(*r->open));
	}
	r->open[r->open_count++] = *s;
}

/* whole: the step, set by the first of its requests. */
static void engine_part(struct request_table *t, struct request_engine *e, struct request *r,
			const struct span *s, const struct part *p, struct request_step *whole)
{
	struct request_step step = {s->begin_ns, s->end_ns, p->tokens, s->step_tokens, s->batch};

	on_scheduled(t, r, s->process, s->begin_ns);
	if (s->name == e->plan && e->plan != e->result) {
		plan(t, r, &step);
		return;
	}
	if (s->name != e->result)
		return;
	/* takes the planned steps that were kept while the names were not known */
	while (e->plan == e->result && r->open_count)
		pop(t, r, s->process, r->open[0].end_ns, &(struct request_step){0});
	if (r->open_count)
		pop(t, r, s->process, s->end_ns, &step);
	else
		on_step(t, r, s->process, &step);
	/* a result may end before the step that it is taken for has begun */
	if (!whole->begin_ns && step.end_ns >= step.begin_ns)
		*whole = step;
}

/* ---- spans ---- */

static void delivered(struct request *r, const struct span *s, const struct part *p)
{
	uint64_t sum = (uint64_t)r->delivered_tokens + p->tokens;

	if (!p->tokens)
		return;
	if (!r->delivered_first_ns)
		r->delivered_first_ns = s->end_ns;
	if (s->end_ns > r->delivered_last_ns)
		r->delivered_last_ns = s->end_ns;
	r->delivered_tokens = sum < TOKENS_MAX ? (uint32_t)sum : TOKENS_MAX;
}

/* Whether the part adds nothing: a client's part without tokens, or the end of a request that is
 * not open. */
static bool adds_nothing(const struct request_table *t, const struct span *s, const struct part *p)
{
	const struct request *r;

	if (p->tokens || (!s->client && !p->done))
		return false;
	r = request_table_find(t, s->process, p->id);
	return !p->done || !r || r->state == REQUEST_ENDED;
}

static void on_part(struct request_table *t, struct request_engine *e, const struct span *s,
		    const struct part *p, struct request_step *whole)
{
	struct request *r = adds_nothing(t, s, p) ? NULL
						  : request_table_get(t, t->job_of[s->process] - 1,
								      p->id, engine_of(s));

	if (!r)
		return;
	if (s->client) {
		t->job[r->job].moved_ns = t->now_ns;
		delivered(r, s, p);
	} else if (p->tokens || !p->done) {
		engine_part(t, e, r, s, p, whole);
	}
	if (p->done)
		request_table_finish(t, r, s->end_ns);
	request_table_touch(t, r);
}

/* ---- parts that wait for the end of their span ---- */

/* The part below it in its thread's stack; NULL: none, or that part was overwritten. */
static struct part *below(struct request_engine *e, const struct part *p)
{
	struct part *q = &e->part[p->below % PARTS_MAX];

	return q->open && q->age == p->below ? q : NULL;
}

static struct part *top_of(struct request_engine *e, uint32_t thread)
{
	uint32_t at = idmap_get(&e->top, thread);

	return at != IDMAP_NONE ? &e->part[at] : NULL;
}

/* 0, -ENOMEM */
static int set_top(struct request_engine *e, uint32_t thread, const struct part *p)
{
	if (p)
		return idmap_put(&e->top, thread, (uint32_t)(p - e->part));
	idmap_remove(&e->top, thread);
	return 0;
}

/* The place for the next part. It overwrites the oldest part, which may be one whose span never
 * ends. */
static struct part *part_place(struct request_engine *e, struct request_stats *stats)
{
	struct part *p = &e->part[e->parts % PARTS_MAX];

	if (!p->open)
		return p;
	stats->parts_lost++;
	p->open = false;
	if (top_of(e, p->thread) == p)
		set_top(e, p->thread, NULL);
	return p;
}

/* Takes the parts of this span from the top of the thread's stack, and with them the parts of inner
 * spans whose end was not seen. Returns the number of the span's own parts, which are the last ones
 * of t->own. */
static uint32_t take_parts(struct request_table *t, struct request_engine *e,
			   const struct record *r, struct request_stats *stats)
{
	struct part *p = top_of(e, r->thread);
	uint32_t count = 0;

	if (!p)
		return 0;
	for (; p && p->begin_ns >= r->begin_ns; p = below(e, p)) {
		p->open = false;
		if (p->name == r->name && p->begin_ns == r->begin_ns)
			t->own[PARTS_MAX - ++count] = *p;
		else
			stats->parts_lost++;
	}
	set_top(e, r->thread, p);
	return count;
}

static void on_parts(struct request_table *t, struct request_engine *e, struct span *s,
		     uint32_t count)
{
	const struct part *own = &t->own[PARTS_MAX - count];
	struct request_step whole = {0};
	uint64_t tokens = 0;

	for (uint32_t i = 0; i < count; i++)
		tokens += own[i].tokens;
	s->step_tokens = tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX;
	s->batch = count;
	if (!s->client && tokens)
		engine_names(e, s);
	for (uint32_t i = 0; i < count; i++)
		on_part(t, e, s, &own[i], &whole);
	if (whole.begin_ns)
		remember(e, &whole);
}

/* ---- spans about one request ---- */

static bool is_count(struct request_table *t, const struct request *r, uint32_t tokens)
{
	if (tokens > TOKENS_MAX)
		t->job[r->job].stats.bad++;
	return tokens && tokens <= TOKENS_MAX;
}

static void note_prompt(struct request_table *t, struct request *r, uint32_t tokens)
{
	if (!r->prompt_tokens && !r->scheduled_ns && is_count(t, r, tokens))
		r->prompt_tokens = tokens;
}

/* The earliest span about the request is its arrival. If the request was scheduled before that
 * span, its arrival was not seen. */
static void note_arrival(struct request *r, uint64_t begin_ns)
{
	if ((!r->arrival_ns || begin_ns < r->arrival_ns) &&
	    (!r->scheduled_ns || begin_ns <= r->scheduled_ns))
		r->arrival_ns = begin_ns;
}

static bool is_release(const struct request_table *t, const struct span *s)
{
	const struct request_engine *e = s->client ? NULL : t->engine[s->process];

	return e && e->release == s->name;
}

/* Learns the name of the spans with which the engine ends its requests. Such a span names a request
 * that had steps, and is not the span with which the engine got it. */
static void learn_release(struct request_table *t, const struct request *r, const struct span *s)
{
	struct request_engine *e = t->engine[s->process];

	if (!e || e->release == s->name || r->stepped != s->process || !r->mark ||
	    r->mark == s->name)
		return;
	e->release = s->name;
	request_table_end_marked(t, s->process, s->name);
}

/* Whether the span is the end of a request whose beginning was not seen, or that has already
 * ended. */
static bool is_late_release(struct request_table *t, const struct span *s, uint64_t id)
{
	const struct request *r = is_release(t, s) ? request_table_find(t, s->process, id) : NULL;

	if (is_release(t, s) && !r)
		t->job[t->job_of[s->process] - 1].stats.partial++;
	return is_release(t, s) && (!r || r->state == REQUEST_ENDED);
}

static void engine_mark(struct request_table *t, struct request *r, const struct span *s)
{
	bool release = is_release(t, s);

	if (release && r->process != s->process && r->process != REQUEST_NO_PROCESS)
		return; /* the request is in another engine by now */
	if (release || r->process == s->process) {
		learn_release(t, r, s);
		if (is_count(t, r, s->tokens))
			r->output_tokens = s->tokens;
		request_table_finish(t, r, s->end_ns);
		return;
	}
	if (r->process == REQUEST_NO_PROCESS)
		r->process = s->process;
	else
		/* a decode instance follows a prefill instance */
		request_table_run(t, r, s->process);
	r->mark = s->name;
	if (!r->queued_ns)
		r->queued_ns = s->begin_ns;
	note_arrival(r, s->begin_ns);
	note_prompt(t, r, s->tokens);
}

/* An API process hands the request to a second engine, which may be on another node. */
static void handed_again(struct request_table *t, struct request *r, uint64_t begin_ns)
{
	if (begin_ns > r->handed_last_ns)
		r->handed_last_ns = begin_ns;
	if (r->state == REQUEST_ENDING && begin_ns > r->ended_ns)
		request_table_run(t, r, r->process);
}

static void on_mark(struct request_table *t, const struct span *s, uint64_t id)
{
	struct request *r = is_late_release(t, s, id)
				? NULL
				: request_table_get(t, t->job_of[s->process] - 1, id, engine_of(s));

	if (!r)
		return;
	if (s->client) {
		note_arrival(r, s->begin_ns);
		note_prompt(t, r, s->tokens);
		if (!r->handed_ns || s->end_ns < r->handed_ns)
			r->handed_ns = s->end_ns;
		if (s->tokens)
			handed_again(t, r, s->begin_ns);
	} else {
		engine_mark(t, r, s);
	}
	request_table_touch(t, r);
}

/* ---- records ---- */

static void add_part(struct request_table *t, uint32_t process, const struct record *r)
{
	struct request_stats *stats = &t->job[t->job_of[process] - 1].stats;
	struct request_engine *e = t->engine[process];

	struct part *p, *top;

	if (!e)
		e = t->engine[process] = calloc(1, sizeof(*e));
	if (!e || !r->key) {
		stats->parts_lost++;
		return;
	}
	if (r->bytes > TOKENS_MAX) {
		stats->bad++;
		return;
	}
	p = part_place(e, stats);
	top = top_of(e, r->thread);
	*p = (struct part){.begin_ns = r->begin_ns,
			   .id = r->key,
			   .name = r->name,
			   .thread = r->thread,
			   .tokens = (uint32_t)r->bytes,
			   .age = e->parts,
			   .below = top ? top->age : e->parts,
			   .done = r->flags & RECORD_FLAG_DONE};
	if (set_top(e, r->thread, p)) {
		stats->parts_lost++;
		return;
	}
	p->open = true;
	e->parts++;
}

void request_table_record(struct request_table *t, uint32_t process, const struct record *r)
{
	struct request_engine *e = t->engine[process];
	struct span s = {.process = process,
			 .name = r->name,
			 .begin_ns = r->begin_ns,
			 .end_ns = r->end_ns,
			 .client = span_process_is_client(r->func),
			 .tokens = r->grid[0]};
	struct request_stats *stats;
	uint32_t count;

	if (!t->job_of[process] || !(r->flags & RECORD_FLAG_PYTHON))
		return;
	if (r->kind == RECORD_SPAN_REQUEST) {
		add_part(t, process, r);
		return;
	}
	stats = &t->job[t->job_of[process] - 1].stats;
	if (r->kind != RECORD_SPAN || (!r->key && !e))
		return;
	count = e ? take_parts(t, e, r, stats) : 0;
	if (!s.client && r->func != SPAN_PROCESS_ENGINE)
		return;
	if (r->end_ns < r->begin_ns || !r->begin_ns) {
		stats->bad++;
		return;
	}
	if (r->key)
		on_mark(t, &s, r->key);
	if (count)
		on_parts(t, e, &s, count);
}
