/* SPDX-License-Identifier: Apache-2.0
 * bench_requests.c - what the table of requests costs per request and step: 256 requests run at a
 * time, each step names them in the span that plans it and in the one that takes its result. */
#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "model/record.h"
#include "analysis/requests/request_table.h"

#define BATCH 256u
#define STEPS 4000u
#define LIFE  100u /* steps of a request */
#define MS    1000000ull

enum { PLAN = 1, RESULT, ADD };

static void on_violation(void *arg, const char *job, uint32_t process, struct request_violation *v)
{
}

static void span(struct request_table *t, uint32_t name, uint64_t begin_ns, uint64_t end_ns,
		 uint64_t about)
{
	struct record r = {.kind = RECORD_SPAN,
			   .flags = RECORD_FLAG_PYTHON,
			   .name = name,
			   .func = 2,
			   .key = about,
			   .grid = {100},
			   .begin_ns = begin_ns,
			   .end_ns = end_ns};

	request_table_record(t, 0, &r);
}

static void handle(struct request_table *t, uint32_t name, uint64_t begin_ns, uint64_t end_ns,
		   uint64_t first)
{
	struct record r = {.kind = RECORD_SPAN_REQUEST,
			   .flags = RECORD_FLAG_PYTHON,
			   .name = name,
			   .begin_ns = begin_ns,
			   .end_ns = begin_ns,
			   .bytes = 1};

	for (uint32_t i = 0; i < BATCH; i++) {
		r.key = first + i;
		request_table_record(t, 0, &r);
	}
	span(t, name, begin_ns, end_ns, 0);
}

int main(void)
{
	struct request_config c;
	struct request_table *t;
	uint64_t begin_ns, first = 1, at = 1000 * MS;
	double ns;

	request_config_default(&c);
	CHECK(!request_table_open(&t, &c, on_violation, NULL));
	CHECK(!request_table_begin(t, 0, "job@1"));
	begin_ns = clock_monotonic_ns();
	for (uint32_t step = 0; step < STEPS; step++, at += 20 * MS) {
		for (uint32_t i = 0; step % LIFE == 0 && i < BATCH; i++) {
			if (step)
				span(t, ADD, at, at, first + i);
			span(t, ADD, at, at, first + BATCH * (step > 0) + i);
		}
		first += BATCH * (step && step % LIFE == 0);
		handle(t, PLAN, at, at + MS, first);
		handle(t, RESULT, at + 18 * MS, at + 20 * MS, first);
		request_table_tend(t, at);
	}
	ns = (double)(clock_monotonic_ns() - begin_ns) / STEPS / BATCH;
	printf("requests: %.0f ns per request and step, named twice; %.2f%% of a core at 50 "
	       "steps/s of "
	       "%u requests\n",
	       ns, ns * BATCH * 50 * 1e-7, BATCH);
	request_table_close(t);
	return 0;
}
