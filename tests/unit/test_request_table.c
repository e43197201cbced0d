/* SPDX-License-Identifier: Apache-2.0
 * test_request_table.c - requests from spans: times, first tokens, verdicts, bounds, nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "model/record.h"
#include "analysis/requests/request_table.h"

#define MS 1000000ull
#define S  1000000000ull
#define T0 (1000 * S)

enum { API = 1, ENGINE = 2, WORKER = 3 }; /* kinds of process, and slots here */
#define DECODER 4			  /* slot of a second engine */
enum { ADD = 1, PLAN, RESULT, DELIVER, FREE, WORK, RUN };
static uint32_t mark_name = ADD; /* of spans about a request */

struct seen {
	struct request_violation v;
	char job[WIRE_TEXT_BYTES];
	uint32_t process;
};
static struct seen seen[256];
static uint32_t seen_count;

static void on_violation(void *arg, const char *job, uint32_t process, struct request_violation *v)
{
	struct seen *s = &seen[seen_count++ % 256];

	s->v = *v;
	s->process = process;
	strcpy(s->job, job);
}

static int setup(void **state)
{
	struct request_config c;
	struct request_table *t;

	seen_count = 0;
	mark_name = ADD;
	request_config_default(&c);
	assert_int_equal(request_table_open(&t, &c, on_violation, NULL), 0);
	assert_int_equal(request_table_begin(t, API, "serve@1"), 0);
	assert_int_equal(request_table_begin(t, ENGINE, "serve@1"), 0);
	assert_int_equal(request_table_begin(t, WORKER, "serve@1"), 0);
	request_table_tend(t, T0);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	request_table_close(*state);
	return 0;
}

static uint8_t kind_of(uint32_t process)
{
	return process == DECODER ? ENGINE : (uint8_t)process;
}

/* times are after T0, in ms */
static void about(struct request_table *t, uint32_t process, uint64_t id, uint64_t begin,
		  uint64_t end, uint32_t tokens)
{
	struct record r = {.kind = RECORD_SPAN,
			   .flags = RECORD_FLAG_PYTHON,
			   .name = mark_name,
			   .key = id,
			   .thread = 1,
			   .func = kind_of(process),
			   .begin_ns = T0 + begin * MS,
			   .end_ns = T0 + end * MS,
			   .grid = {tokens}};

	request_table_record(t, process, &r);
}

struct one {
	uint64_t id, tokens;
	bool done;
};

static void handles(struct request_table *t, uint32_t process, uint32_t name, uint64_t begin,
		    uint64_t end, const struct one *ones, uint32_t count)
{
	struct record r = {.kind = RECORD_SPAN_REQUEST,
			   .name = name,
			   .thread = 1,
			   .begin_ns = T0 + begin * MS,
			   .end_ns = T0 + begin * MS};

	for (uint32_t i = 0; i < count; i++) {
		r.flags = RECORD_FLAG_PYTHON | (ones[i].done ? RECORD_FLAG_DONE : 0);
		r.key = ones[i].id;
		r.bytes = ones[i].tokens;
		request_table_record(t, process, &r);
	}
	r.kind = RECORD_SPAN;
	r.flags = RECORD_FLAG_PYTHON;
	r.key = r.bytes = 0;
	r.func = kind_of(process);
	r.end_ns = T0 + end * MS;
	request_table_record(t, process, &r);
}

#define HANDLES(t, process, name, begin, end, ...)                                                 \
	handles(t, process, name, begin, end, (const struct one[]){__VA_ARGS__},                   \
		sizeof((const struct one[]){__VA_ARGS__}) / sizeof(struct one))

/* A step of the engine with one request: planned at begin, with its result at end. */
static void step(struct request_table *t, uint64_t id, uint32_t tokens, uint64_t begin,
		 uint64_t end)
{
	HANDLES(t, ENGINE, PLAN, begin, begin + 1, {id, tokens, false});
	HANDLES(t, ENGINE, RESULT, end - 1, end, {id, tokens, false});
}

static void at(struct request_table *t, uint64_t ms)
{
	request_table_tend(t, T0 + ms * MS);
}

static const struct request *find_of(const struct request_table *t, const char *job, uint64_t id)
{
	const struct request *r;
	uint32_t at = 0;

	while ((r = request_table_next(t, &at)))
		if (r->id == id && !strcmp(request_table_job(t, r), job))
			return r;
	return NULL;
}

static const struct request *find(const struct request_table *t, uint64_t id)
{
	return find_of(t, "serve@1", id);
}

static struct request_stats stats(const struct request_table *t)
{
	const char *job;
	const struct request_stats *s = request_table_stats(t, 0, &job);

	return s ? *s : (struct request_stats){0};
}

#define assert_ms(ns, ms) assert_true((ns) == T0 + (ms)*MS)

static void a_request_has_its_times_steps_and_tokens(void **state)
{
	struct request_table *t = *state;
	const struct request *r;

	about(t, API, 7, 0, 1, 0);
	about(t, API, 7, 1, 2, 300);
	about(t, ENGINE, 7, 5, 6, 300);
	step(t, 7, 200, 100, 150);
	step(t, 7, 100, 150, 180);
	HANDLES(t, API, DELIVER, 181, 182, {7, 1, false});
	for (uint64_t i = 0; i < 9; i++) {
		step(t, 7, 1, 200 + 20 * i, 220 + 20 * i);
		HANDLES(t, API, DELIVER, 221 + 20 * i, 222 + 20 * i, {7, 1, i == 8});
	}
	about(t, ENGINE, 7, 379, 380, 10);
	r = find(t, 7);
	assert_non_null(r);
	assert_ms(r->arrival_ns, 0);
	assert_ms(r->queued_ns, 5);
	assert_ms(r->scheduled_ns, 100);
	assert_ms(r->first_ns, 180);
	assert_ms(r->last_ns, 380);
	assert_int_equal(r->prompt_tokens, 300);
	assert_int_equal(r->prefill_steps, 2);
	assert_int_equal(r->decode_steps, 9);
	assert_int_equal(request_output_tokens(r), 10);
	assert_true(request_ttft_ns(r) == 182 * MS);
	assert_true(request_tpot_ns(r) == 200 * MS / 9);
	assert_int_equal(r->state, REQUEST_ENDING);
	at(t, 4000);
	assert_int_equal(r->state, REQUEST_ENDED);
	assert_int_equal(stats(t).ended, 1);
	assert_int_equal(stats(t).judged[REQUEST_TTFT], 1);
	assert_int_equal(stats(t).judged[REQUEST_TPOT], 1);
	assert_int_equal(seen_count, 0);
}

/* As an engine does that plans the next step before it has the result of this one. */
static void steps_planned_ahead_meet_their_results_in_order(void **state)
{
	struct request_table *t = *state;
	const struct request *r;

	about(t, ENGINE, 7, 0, 1, 100);
	HANDLES(t, ENGINE, PLAN, 10, 11, {7, 100, false});
	HANDLES(t, ENGINE, PLAN, 20, 21, {7, 1, false});
	HANDLES(t, ENGINE, RESULT, 59, 60, {7, 100, false});
	HANDLES(t, ENGINE, PLAN, 60, 61, {7, 1, false});
	HANDLES(t, ENGINE, RESULT, 79, 80, {7, 1, false});
	HANDLES(t, ENGINE, RESULT, 99, 100, {7, 1, false});
	r = find(t, 7);
	assert_ms(r->scheduled_ns, 10);
	assert_ms(r->first_ns, 60);
	assert_ms(r->last_ns, 100);
	assert_int_equal(r->decode_steps, 2);
	assert_true(r->decode_ns == 40 * MS);
	assert_true(r->pause_ns == 0);
	assert_ms(r->prefill[0].begin_ns, 10);
	assert_ms(r->prefill[0].end_ns, 60);
}

static void an_engine_may_name_each_step_once(void **state)
{
	struct request_table *t = *state;
	const struct request *r;

	about(t, ENGINE, 7, 0, 1, 100);
	HANDLES(t, ENGINE, RUN, 10, 50, {7, 100, false});
	for (uint64_t i = 0; i < 5; i++)
		HANDLES(t, ENGINE, RUN, 60 + 20 * i, 70 + 20 * i, {7, 1, false});
	r = find(t, 7);
	assert_ms(r->first_ns, 50);
	assert_ms(r->last_ns, 150);
	assert_int_equal(r->decode_steps, 5);
	assert_true(r->pause_ns == 50 * MS);
}

static void a_prefix_in_the_cache_needs_no_steps(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 7, 0, 1, 1000);
	step(t, 7, 8, 10, 30);
	step(t, 7, 1, 30, 50);
	step(t, 7, 1, 50, 70);
	assert_ms(find(t, 7)->first_ns, 30);
	assert_int_equal(request_output_tokens(find(t, 7)), 3);
}

static void a_long_queue_is_linked_to_the_step_that_filled_it(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 1, 0, 1, 10);
	step(t, 1, 10, 10, 30);
	about(t, API, 7, 40, 41, 0);
	about(t, ENGINE, 7, 42, 43, 100);
	step(t, 1, 1, 45, 11000);
	step(t, 1, 1, 11000, 11100);
	step(t, 7, 100, 11100, 11150);
	at(t, 12000);
	about(t, ENGINE, 7, 12000, 12001, 1);
	at(t, 15000);
	assert_int_equal(seen_count, 1);
	assert_true(seen[0].v.id == 7);
	assert_int_equal(seen[0].process, ENGINE);
	assert_string_equal(seen[0].job, "serve@1");
	assert_int_equal(seen[0].v.objective, REQUEST_TTFT);
	assert_int_equal(seen[0].v.phase, REQUEST_QUEUE);
	assert_true(seen[0].v.value_ns == 11110 * MS);
	assert_true(seen[0].v.objective_ns == 10000 * MS);
	assert_true(seen[0].v.phase_ns == 11059 * MS);
	assert_ms(seen[0].v.slow.begin_ns, 45);
	assert_ms(seen[0].v.slow.end_ns, 11000);
}

static void a_slow_prefill_is_told_while_the_request_runs(void **state)
{
	struct request_table *t = *state;

	about(t, API, 7, 0, 1, 200);
	about(t, ENGINE, 7, 1, 2, 200);
	step(t, 7, 100, 10, 500);
	at(t, 12100);
	step(t, 7, 100, 500, 12000);
	step(t, 7, 1, 12000, 12020);
	assert_int_equal(seen_count, 0);
	at(t, 14500);
	step(t, 7, 1, 14480, 14500);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].v.phase, REQUEST_PREFILL);
	assert_ms(seen[0].v.slow.begin_ns, 500);
	assert_int_equal(seen[0].v.slow.tokens, 100);
	assert_int_equal(seen[0].v.slow.batch, 1);
	assert_int_equal(find(t, 7)->state, REQUEST_RUNNING);
}

static void slow_tokens_are_in_their_steps_or_between_them(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 7, 0, 1, 10);
	about(t, ENGINE, 8, 0, 1, 10);
	step(t, 7, 10, 10, 20);
	step(t, 8, 10, 20, 30);
	for (uint64_t i = 0; i < 4; i++)
		step(t, 7, 1, 100 + 500 * i, 300 + 500 * i + 290 * (i == 2));
	for (uint64_t i = 0; i < 4; i++)
		step(t, 8, 1, 3000 + 500 * i, 3010 + 500 * i);
	about(t, ENGINE, 7, 5000, 5001, 5);
	about(t, ENGINE, 8, 5000, 5001, 5);
	at(t, 5000);
	at(t, 8000);
	assert_int_equal(seen_count, 2);
	assert_int_equal(seen[0].v.objective, REQUEST_TPOT);
	assert_int_equal(seen[0].v.phase, REQUEST_DECODE);
	assert_ms(seen[0].v.slow.begin_ns, 1100);
	assert_true(seen[1].v.id == 8);
	assert_int_equal(seen[1].v.phase, REQUEST_PAUSE);
	assert_ms(find(t, 7)->decode[0].begin_ns, 1100);
	assert_ms(find(t, 7)->decode[0].end_ns, 1590);
}

/* A request of 13 tokens whose steps after the first token take so long, with pauses after them. */
static void decoded(struct request_table *t, uint64_t id, uint64_t at_ms, unsigned steps,
		    uint64_t step_ms, uint64_t pause_ms)
{
	uint64_t ms = at_ms + 20;

	about(t, ENGINE, id, at_ms, at_ms + 1, 10);
	step(t, id, 10, at_ms + 10, ms);
	for (unsigned i = 0; i < steps; i++, ms += step_ms + pause_ms)
		step(t, id, 4, ms, ms + step_ms);
	about(t, ENGINE, id, ms, ms + 1, 13);
	at(t, ms + 3000);
}

static void drafts_that_are_not_accepted_are_no_slow_steps(void **state)
{
	struct request_table *t = *state;
	uint64_t ms = 0, id = 1;

	/* before anything is usual, its steps have the time */
	decoded(t, id++, ms += 10000, 12, 200, 0);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].v.phase, REQUEST_DECODE);
	for (unsigned i = 0; i < 10; i++)
		decoded(t, id++, ms += 10000, 4, 200, 0);
	assert_int_equal(seen_count, 1);
	decoded(t, id++, ms += 10000, 12, 200, 0);
	assert_int_equal(seen_count, 2);
	assert_int_equal(seen[1].v.phase, REQUEST_DRAFTS);
	assert_int_equal(seen[1].v.phase_ns / 1000000, 133);
	decoded(t, id++, ms += 10000, 4, 600, 0);
	assert_int_equal(seen_count, 3);
	assert_int_equal(seen[2].v.phase, REQUEST_DECODE);
	/* a little of both: what took more of the excess */
	decoded(t, id++, ms += 10000, 5, 500, 0);
	assert_int_equal(seen_count, 4);
	assert_int_equal(seen[3].v.phase, REQUEST_DECODE);
	/* decode is shorter than usual, however many steps it has: the pauses are the excess */
	decoded(t, id++, ms += 10000, 12, 60, 55);
	assert_int_equal(seen_count, 5);
	assert_int_equal(seen[4].v.phase, REQUEST_DECODE);
}

static void a_request_goes_on_in_a_decode_instance(void **state)
{
	struct request_table *t = *state;
	const struct request *r;

	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	about(t, API, 7, 0, 1, 100);
	about(t, ENGINE, 7, 2, 3, 100);
	step(t, 7, 100, 10, 50);
	about(t, ENGINE, 7, 50, 51, 1);
	assert_int_equal(find(t, 7)->state, REQUEST_ENDING);
	at(t, 60);
	about(t, DECODER, 7, 60, 61, 100);
	HANDLES(t, DECODER, PLAN, 70, 71, {7, 1, false});
	HANDLES(t, DECODER, RESULT, 89, 90, {7, 1, false});
	HANDLES(t, DECODER, PLAN, 90, 91, {7, 1, false});
	HANDLES(t, DECODER, RESULT, 109, 110, {7, 1, false});
	about(t, DECODER, 7, 109, 110, 3);
	r = find(t, 7);
	assert_int_equal(r->process, DECODER);
	assert_ms(r->first_ns, 50);
	assert_ms(r->last_ns, 110);
	assert_true(request_ttft_ns(r) == 50 * MS);
	at(t, 4000);
	assert_int_equal(stats(t).arrived, 1);
	assert_int_equal(stats(t).ended, 1);
}

/* A request of 5 tokens that goes to another engine after its first one. to: the table of that engine's
 * node, or t. */
static const struct request *moved(struct request_table *t, struct request_table *to, uint64_t id,
				   uint64_t ms, uint64_t transfer_ms, bool delivered_before)
{
	uint64_t next = ms + 50 + transfer_ms;

	at(t, ms);
	at(to, ms);
	about(t, API, id, ms, ms + 1, 100);
	about(t, ENGINE, id, ms + 2, ms + 3, 100);
	step(t, id, 100, ms + 10, ms + 50);
	if (delivered_before)
		HANDLES(t, API, DELIVER, ms + 51, ms + 52, {id, 1, false});
	about(t, ENGINE, id, ms + 50, ms + 51, 1);
	at(t, ms + 60);
	about(to, DECODER, id, ms + 60, ms + 61, 100);
	for (uint64_t i = 0; i < 4; i++) {
		HANDLES(to, DECODER, PLAN, next + 20 * i, next + 20 * i + 1, {id, 1, false});
		HANDLES(to, DECODER, RESULT, next + 20 * i + 9, next + 20 * i + 10, {id, 1, false});
	}
	if (!delivered_before)
		HANDLES(t, API, DELIVER, next + 71, next + 72, {id, 1, false});
	HANDLES(t, API, DELIVER, next + 73, next + 74, {id, 4, false});
	about(to, DECODER, id, next + 71, next + 72, 5);
	at(t, next + 4000);
	at(to, next + 4000);
	return find(t, id);
}

static void the_time_between_two_engines_is_a_phase(void **state)
{
	struct request_table *t = *state;
	const struct request *r;

	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	r = moved(t, t, 7, 0, 900, true);
	assert_true(r->transfer_ns == 900 * MS);
	assert_true(r->pause_ns == 30 * MS);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].v.objective, REQUEST_TPOT);
	assert_int_equal(seen[0].v.phase, REQUEST_TRANSFER);
	/* less what passed before the delivery of the first token */
	assert_true(seen[0].v.phase_ns == 898 * MS / 4);
	/* the decode instance delivers the first token, too */
	r = moved(t, t, 8, 10000, 12000, false);
	assert_true(r->transfer_ns == 12000 * MS);
	assert_int_equal(seen_count, 2);
	assert_int_equal(seen[1].v.objective, REQUEST_TTFT);
	assert_int_equal(seen[1].v.phase, REQUEST_TRANSFER);
	assert_true(seen[1].v.phase_ns == 12000 * MS);
}

static uint64_t sum_of(const struct request *r, enum request_objective objective)
{
	uint64_t ns[REQUEST_PHASES], sum = 0;

	request_parts(r, objective, ns);
	for (unsigned i = 0; i < REQUEST_PHASES; i++)
		sum += ns[i];
	return sum;
}

/* The first token is delivered late, so the first step after it is mostly in the time to that token; and
 * the engine runs one step more than the client gets tokens of. */
static void the_parts_of_a_request_are_of_the_clients_time(void **state)
{
	struct request_table *t = *state;
	uint64_t ns[REQUEST_PHASES];
	const struct request *r;

	about(t, API, 7, 0, 5, 10);
	about(t, ENGINE, 7, 6, 7, 10);
	step(t, 7, 10, 20, 100);
	HANDLES(t, API, DELIVER, 250, 260, {7, 1, false});
	for (uint64_t i = 0; i < 4; i++)
		step(t, 7, 1, 110 + 250 * i, 350 + 250 * i);
	HANDLES(t, API, DELIVER, 890, 900, {7, 3, true});
	at(t, 8000);
	r = find(t, 7);
	assert_true(request_ttft_ns(r) == 260 * MS);
	request_parts(r, REQUEST_TTFT, ns);
	assert_true(ns[REQUEST_API] == 5 * MS && ns[REQUEST_QUEUE] == 15 * MS);
	assert_true(ns[REQUEST_PREFILL] == 80 * MS && ns[REQUEST_OUTPUT] == 160 * MS);
	assert_true(sum_of(r, REQUEST_TTFT) == 260 * MS);
	request_parts(r, REQUEST_TPOT, ns);
	assert_true(sum_of(r, REQUEST_TPOT) == 640 * MS);
	/* 960 ms of steps to 40 of pauses */
	assert_in_range(ns[REQUEST_DECODE], 614 * MS, 615 * MS);
	assert_int_equal(ns[REQUEST_OUTPUT], 0);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].v.phase, REQUEST_DECODE);
	assert_true(seen[0].v.phase_ns <= seen[0].v.value_ns);
}

/* Spans of three processes at any times: the parts add up, whatever is missing or out of order. */
static void parts_add_up(void **state)
{
	struct request_table *t = *state;
	uint32_t known = 0;

	srand(7);
	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	for (uint64_t id = 1; id <= 2000; id++) {
		uint64_t ms = id * 20000, now = ms;

		for (unsigned i = 0; i < 12; i++) {
			uint32_t process = (uint32_t[]){API, ENGINE, DECODER}[rand() % 3];
			uint64_t begin = now + (uint64_t)(rand() % 200);
			uint64_t end = begin + (uint64_t)(rand() % 300);

			now = begin - (uint64_t)(rand() % 100);
			if (i < 2 || rand() % 8 == 0)
				about(t, process, id, begin, end, (uint32_t)(rand() % 20));
			else if (process == API)
				HANDLES(t, API, DELIVER, begin, end, {id, 1, i == 11});
			else
				HANDLES(t, process, RESULT, begin, end,
					{id, (uint64_t)(i < 4 ? 5 : 1), false});
		}
		at(t, ms + 10000);
	}
	for (uint64_t id = 1; id <= 2000; id++) {
		const struct request *r = find(t, id);
		uint64_t ttft, tpot, gaps, sum;

		if (!r)
			continue;
		ttft = request_ttft_ns(r);
		tpot = request_tpot_ns(r);
		gaps = request_output_tokens(r) - 1ull;
		known += ttft && tpot;
		assert_true(sum_of(r, REQUEST_TTFT) == ttft);
		sum = sum_of(r, REQUEST_TPOT);
		assert_true(tpot ? sum / gaps == tpot : !sum);
	}
	assert_true(known > 200);
}

static void a_decode_instance_that_comes_too_late_has_a_request_of_its_own(void **state)
{
	struct request_table *t = *state;

	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	about(t, ENGINE, 7, 2, 3, 100);
	step(t, 7, 100, 10, 50);
	about(t, ENGINE, 7, 50, 51, 1);
	at(t, 4000);
	about(t, API, 7, 4000, 4001, 0); /* a late update */
	assert_int_equal(find(t, 7)->state, REQUEST_ENDED);
	about(t, DECODER, 7, 4000, 4001, 100);
	assert_int_equal(find(t, 7)->state, REQUEST_WAITING);
	assert_ms(find(t, 7)->arrival_ns, 4000);
	assert_int_equal(stats(t).repeated, 1);
}

static void the_end_inside_a_step_does_not_revive_the_request(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 7, 0, 1, 10);
	step(t, 7, 10, 10, 20);
	step(t, 7, 1, 20, 30);
	HANDLES(t, ENGINE, PLAN, 30, 31, {7, 1, false});
	about(t, ENGINE, 7, 48, 49, 3);
	HANDLES(t, ENGINE, RESULT, 47, 50, {7, 1, false});
	assert_int_equal(find(t, 7)->state, REQUEST_ENDING);
	assert_ms(find(t, 7)->last_ns, 50);
}

static void what_ran_before_it_was_seen_is_not_judged(void **state)
{
	struct request_table *t = *state;

	for (uint64_t i = 0; i < 30; i++)
		step(t, 7, 1, 1000 * i, 1000 * i + 1000);
	about(t, ENGINE, 7, 31000, 31001, 500);
	about(t, API, 7, 31000, 31002, 0);
	at(t, 31000);
	at(t, 40000);
	assert_int_equal(seen_count, 0);
	assert_int_equal(stats(t).partial, 1);
	assert_int_equal(stats(t).judged[REQUEST_TPOT], 0);
}

static void an_engine_that_ends_loses_its_requests(void **state)
{
	struct request_table *t = *state;
	struct request_job b;

	about(t, API, 7, 0, 1, 10);
	about(t, ENGINE, 7, 1, 2, 10);
	step(t, 7, 10, 10, 20);
	about(t, API, 8, 0, 1, 10);
	request_table_end(t, ENGINE, T0 + 30 * MS);
	assert_true(find(t, 7)->lost);
	assert_int_equal(find(t, 8)->state, REQUEST_WAITING);
	assert_int_equal(stats(t).lost, 1);
	assert_int_equal(stats(t).judged[REQUEST_TTFT], 1);
	assert_int_equal(stats(t).judged[REQUEST_TPOT], 0);
	request_table_end(t, WORKER, T0 + 30 * MS);
	request_table_end(t, WORKER, T0 + 30 * MS);
	/* another engine takes the place of the one that ended */
	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	request_table_end(t, API, T0 + 40 * MS);
	assert_int_equal(find(t, 8)->state, REQUEST_WAITING);
	request_table_drop(t, ENGINE);
	assert_int_equal(find(t, 8)->state, REQUEST_WAITING);
	/* nobody is left that could end it */
	request_table_end(t, DECODER, T0 + 50 * MS);
	assert_true(find(t, 8)->lost);
	assert_true(request_table_take(t, 0, T0, &b));
	assert_int_equal(b.waiting, 0);
	for (uint32_t i = 1; i <= 4; i++)
		request_table_drop(t, i);
	assert_null(find(t, 8));
}

static void a_request_without_news_is_given_up(void **state)
{
	struct request_table *t = *state;

	about(t, API, 7, 0, 1, 10);
	at(t, 599000);
	assert_int_equal(find(t, 7)->state, REQUEST_WAITING);
	at(t, 601000);
	assert_true(find(t, 7)->lost);
	assert_int_equal(seen_count, 0);
}

static void an_id_may_come_again_after_its_end(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 7, 0, 1, 10);
	step(t, 7, 10, 10, 20);
	about(t, ENGINE, 7, 20, 21, 1);
	at(t, 4000);
	about(t, API, 7, 4000, 4001, 0); /* a late update of the old one */
	assert_int_equal(find(t, 7)->state, REQUEST_ENDED);
	at(t, 20000);
	about(t, API, 7, 20000, 20001, 0);
	assert_int_equal(find(t, 7)->state, REQUEST_WAITING);
	assert_int_equal(stats(t).repeated, 1);
	assert_int_equal(stats(t).arrived, 2);
}

static void impossible_counts_and_times_are_left_out(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 7, 10, 11, UINT32_MAX);
	about(t, API, 7, 5, 4, 0); /* ends before it begins */
	HANDLES(t, ENGINE, PLAN, 20, 21, {7, UINT32_MAX, false});
	HANDLES(t, ENGINE, PLAN, 22, 23, {7, 0, false});
	assert_int_equal(find(t, 7)->prompt_tokens, 0);
	assert_int_equal(stats(t).bad, 3);
	HANDLES(t, WORKER, WORK, 30, 31, {9, 5, false});
	assert_null(find(t, 9));
}

static void a_result_before_its_plan_is_no_slow_step(void **state)
{
	struct request_table *t = *state;

	about(t, ENGINE, 1, 0, 1, 10);
	step(t, 1, 10, 10, 30);
	about(t, API, 7, 40, 41, 0);
	about(t, ENGINE, 7, 42, 43, 100);
	HANDLES(t, ENGINE, PLAN, 9000, 9001, {1, 1, false});
	HANDLES(t, ENGINE, RESULT, 50, 60, {1, 1, false});
	step(t, 1, 1, 10000, 11000);
	step(t, 7, 100, 11100, 11150);
	at(t, 12000);
	about(t, ENGINE, 7, 12000, 12001, 1);
	at(t, 15000);
	assert_int_equal(stats(t).bad, 1);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].v.phase, REQUEST_QUEUE);
	assert_ms(seen[0].v.slow.begin_ns, 10000);
	assert_ms(seen[0].v.slow.end_ns, 11000);
}

static void parts_whose_span_was_lost_go_with_the_one_around_them(void **state)
{
	struct request_table *t = *state;
	struct record r = {.kind = RECORD_SPAN_REQUEST,
			   .flags = RECORD_FLAG_PYTHON,
			   .name = PLAN,
			   .thread = 1,
			   .key = 7,
			   .bytes = 10,
			   .begin_ns = T0 + 20 * MS,
			   .end_ns = T0 + 20 * MS};

	request_table_record(t, ENGINE, &r);
	HANDLES(t, ENGINE, RESULT, 10, 30, {8, 1, false});
	assert_null(find(t, 7));
	assert_non_null(find(t, 8));
	assert_int_equal(stats(t).parts_lost, 1);
	for (uint32_t i = 0; i < 5000; i++) {
		r.key = i + 100;
		request_table_record(t, ENGINE, &r);
	}
	assert_int_equal(stats(t).parts_lost, 1 + 5000 - 4096);
}

/* As when the ring was full: the ends of many spans are lost, on threads that end and on one that goes
 * on. */
static void parts_whose_spans_never_end_make_room(void **state)
{
	struct request_table *t = *state;
	struct record r = {
	    .kind = RECORD_SPAN_REQUEST, .flags = RECORD_FLAG_PYTHON, .name = PLAN, .bytes = 10};

	for (uint32_t i = 0; i < 20000; i++) {
		r.thread = i & 1 ? 2 + i : 1;
		r.key = 1000 + i;
		r.begin_ns = r.end_ns = T0 + i * 1000;
		request_table_record(t, ENGINE, &r);
	}
	assert_int_equal(stats(t).parts_lost,
			 20000 - 4096); /* counted before any request is known */
	about(t, API, 7, 100, 101, 10);
	HANDLES(t, ENGINE, PLAN, 110, 111, {7, 10, false}, {8, 10, false});
	HANDLES(t, ENGINE, RESULT, 119, 120, {7, 10, false}, {8, 10, false});
	assert_non_null(find(t, 7));
	assert_ms(find(t, 7)->scheduled_ns, 110);
	assert_ms(find(t, 7)->first_ns, 120);
	assert_int_equal(stats(t).parts_lost, 20000 - 4096 + 4);
}

static void the_job_with_most_requests_gives_way(void **state)
{
	struct request_table *t = *state;
	const char *job;

	assert_int_equal(request_table_begin(t, 10, "other@2"), 0);
	about(t, API, 7, 0, 1, 10);
	for (uint64_t i = 0; i < LIMIT_NODE_REQUESTS + 1000; i++)
		about(t, 10, i + 1, 10, 11, 0); /* no known kind of process: not used */
	assert_null(find_of(t, "other@2", 1));
	for (uint64_t i = 0; i < LIMIT_NODE_REQUESTS + 1000; i++) {
		struct record r = {.kind = RECORD_SPAN,
				   .flags = RECORD_FLAG_PYTHON,
				   .key = i + 1,
				   .func = API,
				   .begin_ns = T0 + i,
				   .end_ns = T0 + i};

		request_table_record(t, 10, &r);
	}
	assert_non_null(find(t, 7));
	assert_int_equal(request_table_stats(t, 1, &job)->evicted, 1001);
	assert_string_equal(job, "other@2");
	assert_true(find_of(t, "other@2", 1)->lost);
	assert_int_equal(find_of(t, "other@2", LIMIT_NODE_REQUESTS + 1000)->state, REQUEST_WAITING);
}

static void a_beat_has_what_is_new_and_what_is_open(void **state)
{
	static struct request_job b;
	struct request_table *t = *state;

	assert_false(request_table_take(t, 0, T0, &b));
	about(t, API, 7, 0, 1, 10);
	about(t, API, 8, 5, 6, 10);
	about(t, ENGINE, 7, 1, 2, 10);
	step(t, 7, 10, 10, 20);
	assert_true(request_table_take(t, 0, T0 + 1005 * MS, &b));
	assert_string_equal(b.job, "serve@1");
	assert_int_equal(b.counts.arrived, 2);
	assert_int_equal(b.running, 1);
	assert_int_equal(b.waiting, 1);
	assert_true(b.oldest_wait_ns == 1000 * MS);
	step(t, 7, 1, 20, 30);
	about(t, ENGINE, 7, 29, 30, 2);
	at(t, 3000);
	assert_true(request_table_take(t, 0, T0, &b));
	assert_int_equal(b.counts.arrived, 0);
	assert_int_equal(b.counts.ended, 1);
	assert_int_equal(b.ttft.total, 1);
	assert_int_equal(b.tpot.total, 1);
	assert_int_equal(b.queue.total, 1);
	assert_true(durations_quantile(&b.ttft, 0.5) > 19e6 &&
		    durations_quantile(&b.ttft, 0.5) < 21e6);
	assert_int_equal(b.running, 0);
}

/* Whatever processes say, counts add up and lists stay whole. */
static void any_records_leave_the_table_whole(void **state)
{
	struct request_table *t = *state;
	uint64_t seed = 20261127;
	uint32_t at_place = 0, open = 0;
	struct request_stats st;

	for (uint32_t i = 0; i < 300000; i++) {
		uint64_t h = hash_mix(seed += 0x9e3779b97f4a7c15ull);
		struct record r = {.kind = h & 1 ? RECORD_SPAN : RECORD_SPAN_REQUEST,
				   .flags =
				       RECORD_FLAG_PYTHON | (h >> 1 & 7 ? 0 : RECORD_FLAG_DONE),
				   .name = h >> 4 & 3,
				   .thread = h >> 6 & 1,
				   .key = h >> 8 & 63,
				   .func = h >> 14 & 3,
				   .bytes = h >> 16 & 15 ? h >> 20 & 3 : UINT32_MAX,
				   /* mostly none: what is handed on does not end */
				   .grid = {h >> 50 & 63 ? 0 : (uint32_t)(h >> 22 & 15)},
				   .begin_ns = T0 + (h >> 26 & 1023) * MS};

		r.end_ns = h >> 36 & 15 ? r.begin_ns + (h >> 40 & 63) * MS : 1;
		request_table_record(t, 1 + (h >> 46) % 3, &r);
		if (!(i & 255))
			at(t, i);
	}
	for (const struct request *r; (r = request_table_next(t, &at_place));)
		open += r->state != REQUEST_ENDED;
	st = stats(t);
	assert_true(st.arrived == st.ended + st.lost + open);
	assert_true(st.arrived > 200);
	assert_true(st.violated[REQUEST_TTFT] <= st.judged[REQUEST_TTFT]);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* ---- a request whose instances are on different nodes ---- */

enum { NODE_A = 11, NODE_B = 22 };

static struct request_table *open_table(bool joins)
{
	struct request_config c;
	struct request_table *t;

	request_config_default(&c);
	c.joins = joins;
	c.settle_ns = 10 * S;
	c.open_max = joins ? 8 : c.open_max;
	assert_int_equal(request_table_open(&t, &c, on_violation, NULL), 0);
	assert_int_equal(request_table_begin(t, joins ? 0 : DECODER, "serve@1"), 0);
	request_table_tend(t, T0);
	return t;
}

/* The node's only piece. */
static struct request_piece piece_of(const struct request_table *t)
{
	const struct request_piece *p;
	const char *job;
	uint32_t count;

	p = request_table_pieces(t, 0, &job, &count);
	assert_int_equal(count, 1);
	assert_string_equal(job, "serve@1");
	return *p;
}

static void assert_same(const struct request *a, const struct request *b)
{
#define X(f) assert_int_equal(a->f, b->f);
	REQUEST_PIECE_TIMES(X)
	REQUEST_PIECE_SUMS(X)
	REQUEST_PIECE_COUNTS(X)
#undef X
	for (unsigned o = 0; o < REQUEST_OBJECTIVES; o++) {
		uint64_t left[REQUEST_PHASES], right[REQUEST_PHASES];

		request_parts(a, o, left);
		request_parts(b, o, right);
		assert_memory_equal(left, right, sizeof(left));
	}
	assert_int_equal(a->prefill[0].begin_ns, b->prefill[0].begin_ns);
	assert_int_equal(a->prefill[0].tokens, b->prefill[0].tokens);
	assert_int_equal(a->decode[0].end_ns - a->decode[0].begin_ns,
			 b->decode[0].end_ns - b->decode[0].begin_ns);
	assert_int_equal(a->transfer.begin_ns, b->transfer.begin_ns);
	assert_int_equal(a->transfer.end_ns, b->transfer.end_ns);
}

/* Two nodes' pieces of a request that moves from the one to the other. */
static void two_pieces(struct request_table *a, uint64_t transfer_ms, bool delivered_before,
		       struct request_piece p[2])
{
	struct request_table *b = open_table(false);

	request_table_forward(a, API, UINT64_MAX);
	request_table_forward(b, DECODER, UINT64_MAX);
	moved(a, b, 7, 0, transfer_ms, delivered_before);
	at(b, transfer_ms + 20000);
	p[0] = piece_of(a);
	p[1] = piece_of(b);
	request_table_close(b);
}

static void pieces_of_two_nodes_are_what_one_node_would_see(void **state)
{
	const struct {
		uint64_t transfer_ms;
		bool delivered_before, last_first;
	} cases[] = {{900, true, false}, {900, true, true}, {12000, false, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct request_table *a = *state, *one = open_table(false), *all = open_table(true);
		struct request_piece p[2];
		uint32_t node[REQUEST_PIECES];
		const struct request *r;

		request_table_begin(one, API, "serve@1");
		request_table_begin(one, ENGINE, "serve@1");
		r = moved(one, one, 7, 0, cases[i].transfer_ms, cases[i].delivered_before);
		at(one, 40000);
		two_pieces(a, cases[i].transfer_ms, cases[i].delivered_before, p);
		seen_count = 0;
		at(all, 30000);
		for (int k = 0; k < 2; k++) {
			int which = cases[i].last_first ? 1 - k : k;

			assert_int_equal(
			    request_table_join(all, 0, which ? NODE_B : NODE_A, true, &p[which]),
			    k);
		}
		assert_same(find(all, 7), r);
		assert_false(find(all, 7)->clock_unknown);
		assert_int_equal(request_table_nodes(all, find(all, 7), node), 2);
		assert_int_equal(node[0], NODE_A);
		assert_int_equal(node[1], NODE_B);
		assert_int_equal(seen_count, 0);
		at(all, 41000);
		assert_int_equal(find(all, 7)->state, REQUEST_ENDED);
		assert_int_equal(stats(all).joined, 1);
		assert_int_equal(seen_count, 1); /* the one that the transfer makes late */
		assert_int_equal(seen[0].v.phase, REQUEST_TRANSFER);
		assert_int_equal(seen[0].v.objective,
				 cases[i].delivered_before ? REQUEST_TPOT : REQUEST_TTFT);
		assert_int_equal(seen[0].process, REQUEST_NO_PROCESS);
		/* the nodes left it to others */
		assert_int_equal(stats(a).judged[REQUEST_TTFT], 0);
		request_table_close(one);
		request_table_close(all);
		teardown(state);
		setup(state);
	}
}

static void move_clock(struct request_piece *p, int64_t by_ns)
{
#define X(t) p->t += p->t ? (uint64_t)by_ns : 0;
	REQUEST_PIECE_TIMES(X)
#undef X
	for (int i = 0; i < REQUEST_PIECE_STEPS; i++) {
		p->longest[i].begin_ns += p->longest[i].begin_ns ? (uint64_t)by_ns : 0;
		p->longest[i].end_ns += p->longest[i].end_ns ? (uint64_t)by_ns : 0;
	}
}

/* The decode instance seems to begin before the prefill instance has ended, or to end after the client
 * had the last token. */
static void clocks_that_contradict_each_other_do_not_say_when_the_cache_was_moved(void **state)
{
	const int64_t off_ns[] = {-3 * (int64_t)S, 100 * (int64_t)MS, 3600 * (int64_t)S};

	for (size_t k = 0; k < sizeof(off_ns) / sizeof(off_ns[0]); k++) {
		struct request_table *all = open_table(true);
		uint64_t ns[REQUEST_PHASES], sum = 0;
		struct request_piece p[2];
		const struct request *r;

		two_pieces(*state, 900, true, p);
		move_clock(&p[1], off_ns[k]);
		request_table_join(all, 0, NODE_B, true, &p[1]);
		request_table_join(all, 0, NODE_A, true, &p[0]);
		r = find(all, 7);
		/* the client's times are of one clock */
		assert_true(request_ttft_ns(r) == 52 * MS);
		assert_true(request_tpot_ns(r) == (974 - 2) * MS / 4);
		assert_true(r->clock_unknown);
		request_parts(r, REQUEST_TPOT, ns);
		for (unsigned i = 0; i < REQUEST_PHASES; i++)
			sum += ns[i];
		assert_true(sum == 972 * MS);
		assert_int_equal(ns[REQUEST_TRANSFER], 0);
		assert_int_equal(ns[REQUEST_OUTPUT], 0);
		/* its steps lasted as long by any clock: 70 ms from the first to the last */
		assert_true(ns[REQUEST_DECODE] + ns[REQUEST_PAUSE] == 68 * MS);
		assert_true(ns[REQUEST_PHASE_NONE] == 904 * MS);
		request_table_close(all);
		teardown(state);
		setup(state);
	}
}

static void a_request_goes_on_while_a_node_says_so(void **state)
{
	struct request_table *all = open_table(true);
	struct request_piece p[2], open;

	two_pieces(*state, 900, true, p);
	open = (struct request_piece){.id = 7, .serial = p[1].serial, .flags = REQUEST_PIECE_OPEN};
	request_table_join(all, 0, NODE_B, true, &open);
	assert_true(request_table_join(all, 0, NODE_A, true, &p[0]));
	at(all, 600000);
	assert_int_equal(find(all, 7)->state, REQUEST_RUNNING);
	request_table_join(all, 0, NODE_B, true, &p[1]);
	/* what a beat says again changes nothing */
	request_table_join(all, 0, NODE_B, true, &p[1]);
	request_table_join(all, 0, NODE_B, true, &open);
	request_table_join(all, 0, NODE_A, true, &p[0]);
	assert_int_equal(find(all, 7)->delivered_tokens, 5);
	assert_int_equal(find(all, 7)->state, REQUEST_ENDING);
	at(all, 620000);
	assert_int_equal(stats(all).ended, 1);
	assert_int_equal(stats(all).judged[REQUEST_TPOT], 1);
	request_table_close(all);
}

/* Engines that number their requests from 0. */
static void requests_of_two_nodes_with_the_same_id_are_not_one(void **state)
{
	struct request_table *t[2] = {*state, open_table(false)}, *all = open_table(true);
	struct request_piece p[2];

	assert_int_equal(request_table_begin(t[1], API, "serve@1"), 0);
	assert_int_equal(request_table_begin(t[1], ENGINE, "serve@1"), 0);
	for (int i = 0; i < 2; i++) {
		request_table_forward(t[i], API, UINT64_MAX);
		about(t[i], API, 7, 0, 1, 100);
		about(t[i], ENGINE, 7, 2, 3, 100);
		for (uint64_t k = 0; k < 5; k++)
			step(t[i], 7, k ? 1 : 100, 10 + 50 * k, 50 + 50 * k);
		HANDLES(t[i], API, DELIVER, 260, 261, {7, 5, true});
		at(t[i], 20000);
		p[i] = piece_of(t[i]);
	}
	move_clock(&p[1], 9 * (int64_t)S);
	request_table_join(all, 0, NODE_A, true, &p[0]);
	assert_false(request_table_collides(all, find(all, 7)));
	request_table_join(all, 0, NODE_B, true, &p[1]);
	assert_true(request_table_collides(all, find(all, 7)));
	seen_count = 0;
	at(all, 30000);
	assert_int_equal(find(all, 7)->state, REQUEST_ENDED);
	assert_int_equal(stats(all).joined, 0);
	assert_int_equal(stats(all).shared, 1);
	assert_int_equal(stats(all).judged[REQUEST_TPOT], 0);
	assert_int_equal(seen_count, 0);
	request_table_close(all);
	request_table_close(t[1]);
}

static void released(struct request_table *t, uint32_t process, uint64_t id, uint64_t ms,
		     uint32_t tokens)
{
	mark_name = FREE;
	about(t, process, id, ms, ms + 1, tokens);
	mark_name = ADD;
}

/* A request of a prompt and two more tokens in an engine, with a step every 20 ms. */
static void whole(struct request_table *t, uint32_t engine, uint64_t id, uint64_t ms)
{
	about(t, engine, id, ms, ms + 1, 100);
	for (uint64_t k = 0; k < 3; k++) {
		HANDLES(t, engine, PLAN, ms + 10 + 20 * k, ms + 11 + 20 * k,
			{id, k ? 1 : 100, false});
		HANDLES(t, engine, RESULT, ms + 24 + 20 * k, ms + 25 + 20 * k,
			{id, k ? 1 : 100, false});
	}
}

static void two_engines_of_a_node_with_one_id_at_once_are_not_one_request(void **state)
{
	struct request_table *t = *state, *all = open_table(true);
	struct request_piece p;

	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	whole(t, ENGINE, 5, 0);
	released(t, ENGINE, 5, 100, 3);
	whole(t, DECODER, 6, 0);
	released(t, DECODER, 6, 100, 3);
	/* read by turns, as the processes are */
	whole(t, ENGINE, 7, 200);
	whole(t, DECODER, 7, 205);
	whole(t, ENGINE, 7, 300);
	released(t, DECODER, 7, 20000, 3);
	released(t, ENGINE, 7, 20000, 3);
	at(t, 30000);
	at(t, 40000);
	assert_int_equal(find(t, 7)->state, REQUEST_ENDED);
	assert_true(request_table_collides(t, find(t, 7)));
	assert_int_equal(stats(t).shared, 1);
	assert_int_equal(stats(t).judged[REQUEST_TPOT], 2);
	assert_int_equal(seen_count, 0);
	/* nor is it, if others judge */
	request_table_forward(t, ENGINE, UINT64_MAX);
	whole(t, ENGINE, 8, 50000);
	whole(t, DECODER, 8, 50005);
	whole(t, ENGINE, 8, 50100);
	released(t, ENGINE, 8, 60000, 3);
	at(t, 60001);
	at(t, 63000);
	p = piece_of(t);
	request_table_join(all, 0, NODE_A, true, &p);
	assert_true(request_table_collides(all, find(all, 8)));
	request_table_close(all);
}

/* The prefill instance's last step is read after the decode instance's first one, and may even end
 * after that has begun. */
static void steps_that_are_read_late_are_of_one_request(void **state)
{
	struct request_table *t = *state;

	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	about(t, ENGINE, 7, 0, 1, 200);
	step(t, 7, 100, 10, 50);
	about(t, DECODER, 7, 60, 61, 200);
	HANDLES(t, DECODER, PLAN, 105, 106, {7, 1, false});
	HANDLES(t, DECODER, RESULT, 119, 120, {7, 1, false});
	step(t, 7, 100, 50, 107);
	HANDLES(t, DECODER, PLAN, 120, 121, {7, 1, false});
	HANDLES(t, DECODER, RESULT, 139, 140, {7, 1, false});
	assert_false(request_table_collides(t, find(t, 7)));
}

static void a_request_that_is_seen_only_by_its_release_is_over(void **state)
{
	struct request_table *t = *state;
	struct request_job b;

	/* before the engine's spans are known */
	released(t, ENGINE, 6, 0, 50);
	assert_int_equal(find(t, 6)->state, REQUEST_WAITING);
	about(t, ENGINE, 7, 10, 11, 100);
	step(t, 7, 100, 20, 40);
	step(t, 7, 1, 40, 60);
	about(t, API, 9, 50, 51, 30);
	released(t, ENGINE, 7, 60, 2);
	assert_int_equal(find(t, 7)->state, REQUEST_ENDING);
	assert_int_equal(find(t, 6)->state, REQUEST_ENDING);
	released(t, ENGINE, 8, 70, 50);
	assert_null(find(t, 8));
	/* its engine's other spans were lost */
	released(t, ENGINE, 9, 80, 50);
	assert_int_equal(find(t, 9)->state, REQUEST_ENDING);
	assert_int_equal(find(t, 9)->prompt_tokens, 30);
	at(t, 4000);
	assert_int_equal(stats(t).partial, 2);
	assert_int_equal(stats(t).lost, 0);
	assert_true(request_table_take(t, 0, T0, &b));
	assert_int_equal(b.waiting + b.running, 0);
	/* late, when the request is over */
	at(t, 60000);
	released(t, ENGINE, 7, 59000, 2);
	assert_int_equal(find(t, 7)->state, REQUEST_ENDED);
	assert_int_equal(stats(t).repeated, 0);
}

/* The engine hangs. */
static void requests_that_wait_while_nothing_moves_have_missed_their_objective(void **state)
{
	struct request_table *t = *state;
	uint64_t ms = 0;

	about(t, API, 1, 0, 1, 10);
	about(t, ENGINE, 1, 2, 3, 10);
	step(t, 1, 10, 10, 20);
	about(t, API, 7, 30, 31, 100); /* the engine never takes it */
	about(t, API, 8, 30, 31, 0);   /* nor does the API process give it this one */
	about(t, ENGINE, 9, 30, 31, 100);
	HANDLES(t, ENGINE, PLAN, 40, 41, {9, 50, false});
	/* while others have steps, it is the first token that says how late it was */
	for (; ms < 15000; ms += 1000) {
		step(t, 1, 1, ms + 500, ms + 510);
		at(t, ms + 600);
	}
	assert_int_equal(seen_count, 0);
	at(t, 43000);
	assert_int_equal(seen_count, 0);
	at(t, 45000);
	assert_int_equal(seen_count, 2);
	for (int i = 0; i < 2; i++) {
		bool queued = seen[i].v.id == 7;

		assert_true(queued || seen[i].v.id == 9);
		assert_int_equal(seen[i].v.objective, REQUEST_TTFT);
		assert_int_equal(seen[i].v.phase, queued ? REQUEST_QUEUE : REQUEST_PREFILL);
		assert_true(seen[i].v.value_ns == (45000 - 30) * MS);
		assert_ms(seen[i].v.slow.begin_ns, 13600);
		assert_ms(seen[i].v.slow.end_ns, 45000);
		assert_int_equal(seen[i].v.slow.batch, 0);
	}
	/* once */
	HANDLES(t, ENGINE, RESULT, 49000, 49001, {9, 50, false});
	step(t, 9, 50, 49100, 49200);
	step(t, 9, 1, 49200, 49300);
	at(t, 49300);
	about(t, ENGINE, 9, 49300, 49301, 2);
	at(t, 60000);
	at(t, 62000);
	assert_int_equal(find(t, 9)->state, REQUEST_ENDED);
	assert_true(request_ttft_ns(find(t, 9)) == (49200 - 30) * MS);
	assert_int_equal(seen_count, 2);
	assert_int_equal(stats(t).violated[REQUEST_TTFT], 2);
}

/* Spans of its steps have no tokens, and none ends it, as with SGLang's catalogue. */
static void a_job_whose_spans_show_no_token_is_not_late(void **state)
{
	struct request_table *t = *state;

	about(t, API, 7, 0, 1, 0);
	for (uint64_t ms = 0; ms < 5000; ms += 1000)
		HANDLES(t, ENGINE, RUN, ms, ms + 500, {7, 0, false});
	at(t, 5000);
	at(t, 60000);
	assert_int_equal(find(t, 7)->state, REQUEST_RUNNING);
	assert_int_equal(seen_count, 0);
}

/* A request that the API process refuses, or divides into several. */
static void a_request_that_is_not_handed_over_does_not_wait_for_an_engine(void **state)
{
	struct request_table *t = *state;
	struct request_job b;

	about(t, API, 7, 0, 1, 0);
	about(t, API, 8, 100, 101, 0);
	about(t, API, 8, 101, 102, 50);
	assert_true(request_table_take(t, 0, T0 + 300 * MS, &b));
	assert_int_equal(b.counts.arrived, 2);
	assert_int_equal(b.waiting, 1);
	assert_true(b.oldest_wait_ns == 200 * MS);
	/* an abort of what is over, or was never seen */
	HANDLES(t, API, DELIVER, 200, 201, {9, 0, false}, {10, 0, true});
	assert_null(find(t, 9));
	assert_null(find(t, 10));
}

/* It is read after the decode instance's first step. */
static void a_release_in_the_engine_that_it_has_left_does_not_end_it(void **state)
{
	struct request_table *t = *state;

	assert_int_equal(request_table_begin(t, DECODER, "serve@1"), 0);
	about(t, ENGINE, 6, 0, 1, 10);
	step(t, 6, 10, 10, 20);
	released(t, ENGINE, 6, 20, 1);
	about(t, ENGINE, 7, 30, 31, 100);
	step(t, 7, 100, 40, 60);
	about(t, DECODER, 7, 70, 71, 100);
	HANDLES(t, DECODER, PLAN, 80, 81, {7, 1, false});
	HANDLES(t, DECODER, RESULT, 99, 100, {7, 1, false});
	released(t, ENGINE, 7, 61, 1);
	assert_int_equal(find(t, 7)->process, DECODER);
	assert_int_equal(find(t, 7)->state, REQUEST_RUNNING);
	released(t, DECODER, 7, 100, 2);
	assert_int_equal(find(t, 7)->state, REQUEST_ENDING);
	assert_int_equal(request_output_tokens(find(t, 7)), 2);
}

static void what_a_node_had_open_ends_when_it_starts_again(void **state)
{
	struct request_table *all = open_table(true);
	struct request_piece p[2], open;

	two_pieces(*state, 900, true, p);
	open = (struct request_piece){.id = 7, .serial = 1, .flags = REQUEST_PIECE_OPEN};
	request_table_join(all, 0, NODE_B, true, &open);
	request_table_join(all, 0, NODE_A, true, &p[0]);
	open.id = 8;
	request_table_join(all, 0, NODE_B, true, &open);
	open.id = 9;
	request_table_join(all, 0, NODE_A, true, &open);
	request_table_leave(all, NODE_B);
	assert_int_equal(find(all, 7)->state, REQUEST_ENDING);
	assert_true(find(all, 8)->lost);
	assert_int_equal(find(all, 9)->state, REQUEST_RUNNING);
	/* its next run saw the rest */
	request_table_join(all, 0, NODE_B, true, &p[1]);
	at(all, 20000);
	assert_int_equal(stats(all).ended, 1);
	assert_int_equal(stats(all).lost, 1);
	assert_int_equal(stats(all).judged[REQUEST_TPOT], 1);
	assert_int_equal(find(all, 7)->delivered_tokens, 5);
	request_table_close(all);
}

static void a_node_says_that_a_request_is_open_and_then_what_it_saw(void **state)
{
	struct request_table *t = *state;
	const char *job;
	uint32_t count;

	request_table_forward(t, ENGINE, T0 + 500 * MS);
	about(t, API, 7, 0, 1, 100);
	assert_int_equal(piece_of(t).flags, REQUEST_PIECE_OPEN);
	request_table_sent(t, 0, 1);
	about(t, ENGINE, 7, 1, 2, 100);
	step(t, 7, 100, 10, 50);
	/* what may have been sent stays until it has arrived */
	about(t, ENGINE, 7, 50, 51, 1);
	at(t, 60);
	at(t, 3000); /* when nobody asks any more */
	request_table_pieces(t, 0, &job, &count);
	assert_int_equal(count, 2);
	request_table_arrived(t);
	assert_int_equal(piece_of(t).flags, 0);
	assert_ms(piece_of(t).first_ns, 50);
	request_table_sent(t, 0, 1);
	request_table_arrived(t);
	assert_null(request_table_pieces(t, 0, &job, &count));
	/* and the next one is judged here again */
	about(t, API, 8, 3000, 3001, 100);
	assert_null(request_table_pieces(t, 0, &job, &count));
}

/* The API process hands it to a decode instance, which is on another node. */
static void a_request_that_is_handed_on_stays_open(void **state)
{
	struct request_table *t = *state;

	about(t, API, 7, 0, 1, 100);
	about(t, ENGINE, 7, 1, 2, 100);
	step(t, 7, 100, 10, 50);
	HANDLES(t, API, DELIVER, 52, 53, {7, 1, true});
	about(t, API, 7, 54, 55, 101);
	about(t, ENGINE, 7, 50, 51, 1); /* read late */
	at(t, 60);
	at(t, 9000);
	assert_int_equal(find(t, 7)->state, REQUEST_RUNNING);
	HANDLES(t, API, DELIVER, 9000, 9001, {7, 4, true});
	at(t, 12000);
	assert_int_equal(find(t, 7)->state, REQUEST_ENDED);
	assert_int_equal(find(t, 7)->delivered_tokens, 5);
	assert_int_equal(stats(t).arrived, 1);
	/* the same, in order */
	about(t, API, 8, 20000, 20001, 100);
	about(t, ENGINE, 8, 20001, 20002, 100);
	step(t, 8, 100, 20010, 20050);
	about(t, ENGINE, 8, 20050, 20051, 1);
	assert_int_equal(find(t, 8)->state, REQUEST_ENDING);
	about(t, API, 8, 20054, 20055, 101);
	assert_int_equal(find(t, 8)->state, REQUEST_RUNNING);
}

static void a_node_that_is_not_believed_decides_nothing_and_has_half_of_the_room(void **state)
{
	struct request_table *all = open_table(true);
	struct request_piece p[2], open = {.serial = 1, .flags = REQUEST_PIECE_OPEN};

	two_pieces(*state, 900, true, p);
	assert_false(request_table_join(all, 0, NODE_B, false, &p[1]));
	at(all, 11000);
	assert_int_equal(find(all, 7)->state, REQUEST_ENDED);
	assert_int_equal(stats(all).unbelieved, 1);
	assert_int_equal(stats(all).judged[REQUEST_TTFT], 0);
	for (open.id = 100; open.id < 120; open.id++)
		request_table_join(all, 0, NODE_B, false, &open);
	assert_int_equal(stats(all).arrived, 1 + 4); /* half of 8 */
	assert_int_equal(stats(all).parts_lost, 16);
	/* one that a believed node has too is a request */
	open.id = 100;
	assert_true(request_table_join(all, 0, NODE_A, true, &open));
	for (open.id = 200; open.id < 204; open.id++)
		request_table_join(all, 0, NODE_A, true, &open);
	assert_int_equal(stats(all).evicted, 0);
	/* more turns than there is room for */
	for (open.serial = 2, open.id = 100; open.serial < 7; open.serial++)
		request_table_join(all, 0, NODE_A, true, &open);
	assert_int_equal(stats(all).parts_lost, 16 + 3);
	request_table_close(all);
}

/* The piece with its arrival was lost, or came before anybody asked for pieces. */
static void a_piece_without_the_arrival_says_no_time(void **state)
{
	struct request_table *all = open_table(true);
	struct request_piece p[2];

	two_pieces(*state, 900, true, p);
	p[1].id = 8;
	p[1].flags |= REQUEST_PIECE_COUNTED;
	request_table_join(all, 0, NODE_B, true, &p[1]);
	request_table_join(all, 0, NODE_A, true, &p[0]);
	at(all, 11000);
	assert_int_equal(find(all, 8)->state, REQUEST_ENDED);
	assert_int_equal(stats(all).partial, 1);
	assert_int_equal(stats(all).judged[REQUEST_TTFT], 1);
	assert_int_equal(stats(all).judged[REQUEST_TPOT], 1);
	request_table_close(all);
}

static void pieces_beyond_the_bound_are_counted(void **state)
{
	struct request_table *t = *state;
	const char *job;
	uint32_t count;

	request_table_forward(t, ENGINE, UINT64_MAX);
	for (uint64_t id = 1; id <= REQUEST_PIECES_MAX + 5; id++)
		about(t, API, id, 0, 1, 100);
	request_table_pieces(t, 0, &job, &count);
	assert_int_equal(count, REQUEST_PIECES_MAX);
	assert_int_equal(stats(t).parts_lost, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(a_request_has_its_times_steps_and_tokens),
	    T(steps_planned_ahead_meet_their_results_in_order),
	    T(an_engine_may_name_each_step_once),
	    T(a_prefix_in_the_cache_needs_no_steps),
	    T(a_long_queue_is_linked_to_the_step_that_filled_it),
	    T(a_slow_prefill_is_told_while_the_request_runs),
	    T(slow_tokens_are_in_their_steps_or_between_them),
	    T(drafts_that_are_not_accepted_are_no_slow_steps),
	    T(a_request_goes_on_in_a_decode_instance),
	    T(the_time_between_two_engines_is_a_phase),
	    T(the_parts_of_a_request_are_of_the_clients_time),
	    T(parts_add_up),
	    T(a_decode_instance_that_comes_too_late_has_a_request_of_its_own),
	    T(the_end_inside_a_step_does_not_revive_the_request),
	    T(what_ran_before_it_was_seen_is_not_judged),
	    T(an_engine_that_ends_loses_its_requests),
	    T(a_request_without_news_is_given_up),
	    T(an_id_may_come_again_after_its_end),
	    T(impossible_counts_and_times_are_left_out),
	    T(a_result_before_its_plan_is_no_slow_step),
	    T(parts_whose_span_was_lost_go_with_the_one_around_them),
	    T(parts_whose_spans_never_end_make_room),
	    T(the_job_with_most_requests_gives_way),
	    T(pieces_of_two_nodes_are_what_one_node_would_see),
	    T(clocks_that_contradict_each_other_do_not_say_when_the_cache_was_moved),
	    T(a_request_goes_on_while_a_node_says_so),
	    T(requests_of_two_nodes_with_the_same_id_are_not_one),
	    T(two_engines_of_a_node_with_one_id_at_once_are_not_one_request),
	    T(steps_that_are_read_late_are_of_one_request),
	    T(a_request_that_is_seen_only_by_its_release_is_over),
	    T(a_release_in_the_engine_that_it_has_left_does_not_end_it),
	    T(requests_that_wait_while_nothing_moves_have_missed_their_objective),
	    T(a_job_whose_spans_show_no_token_is_not_late),
	    T(a_request_that_is_not_handed_over_does_not_wait_for_an_engine),
	    T(what_a_node_had_open_ends_when_it_starts_again),
	    T(a_node_says_that_a_request_is_open_and_then_what_it_saw),
	    T(a_request_that_is_handed_on_stays_open),
	    T(a_node_that_is_not_believed_decides_nothing_and_has_half_of_the_room),
	    T(a_piece_without_the_arrival_says_no_time),
	    T(pieces_beyond_the_bound_are_counted),
	    T(a_beat_has_what_is_new_and_what_is_open),
	    T(any_records_leave_the_table_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
