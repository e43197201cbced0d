/* SPDX-License-Identifier: Apache-2.0
 * fuzz_requests.c - any spans of any processes: the table of requests stays whole, its counts add
 * up, and no verdict is about impossible times. Input: records of 12 bytes each: process and kind,
 * flags, name, key, tokens (4), begin (2), length (2). */
#include <string.h>

#include "base/check.h"
#include "model/record.h"
#include "analysis/requests/request_table.h"
#include "tests/fuzz/fuzz_budget.h"

#define MS 1000000ull
#define T0 (1000000 * MS)

/* The table, and a process's parts. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 1024,
    .allocated = 16u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 20000,
    .cpu_ns_per_byte = 20000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void on_violation(void *arg, const char *job, uint32_t process, struct request_violation *v)
{
	CHECK(v->objective < REQUEST_OBJECTIVES && v->phase < REQUEST_PHASES);
	CHECK(v->value_ns && v->arrival_ns && !v->span[0]);
	CHECK(v->slow.end_ns >= v->slow.begin_ns);
	CHECK(v->phase_ns <= 2 * UINT16_MAX * MS); /* from the earliest begin to the latest end */
	CHECK(process <= REQUEST_NO_PROCESS && *job);
	++*(uint64_t *)arg;
}

static struct record record_of(const uint8_t *p)
{
	struct record r = {.kind = p[0] & 0x80 ? RECORD_SPAN : RECORD_SPAN_REQUEST,
			   .flags = RECORD_FLAG_PYTHON | (p[1] & 1 ? RECORD_FLAG_DONE : 0),
			   .thread = p[1] >> 1 & 1,
			   .func = p[1] >> 2 & 7,
			   .name = p[2] & 3,
			   .key = p[3]};
	uint32_t tokens;
	uint16_t begin, length;

	memcpy(&tokens, p + 4, 4);
	memcpy(&begin, p + 8, 2);
	memcpy(&length, p + 10, 2);
	r.bytes = r.grid[0] = tokens;
	r.begin_ns = T0 + begin * MS;
	r.end_ns = length == UINT16_MAX ? 0 : r.begin_ns + length * MS;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct request_config c = {
	    .ttft_ns = 10 * MS, .tpot_ns = MS, .settle_ns = 50 * MS, .silent_ns = 60000 * MS};
	struct request_stats sum = {0};
	struct request_table *t;
	uint64_t now_ns = T0, seen = 0, open = 0, n = 0;
	uint32_t at = 0;

	CHECK(!request_table_open(&t, &c, on_violation, &seen));
	for (uint32_t i = 0; i < 4; i++)
		CHECK(!request_table_begin(t, i, i & 1 ? "a@1" : "b@2"));
	for (; bytes >= 12; data += 12, bytes -= 12) {
		struct record r = record_of(data);

		request_table_record(t, data[0] & 3, &r);
		if (!(++n & 7))
			request_table_tend(t, now_ns += 1000 * MS);
		if ((data[0] & 0x7c) == 0x7c)
			request_table_end(t, data[0] & 3, now_ns);
	}
	for (const struct request *r; (r = request_table_next(t, &at));)
		open += r->state != REQUEST_ENDED;
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		const char *job;
		const struct request_stats *s = request_table_stats(t, i, &job);

		sum.arrived += s ? s->arrived : 0;
		sum.ended += s ? s->ended + s->lost : 0;
		sum.judged[0] += s ? s->violated[0] + s->violated[1] : 0;
	}
	CHECK(sum.arrived == sum.ended + open);
	CHECK(sum.judged[0] == seen);
	request_table_close(t);
	return 0;
}
