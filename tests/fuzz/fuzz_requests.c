/* SPDX-License-Identifier: Apache-2.0
 * fuzz_requests.c - any spans of any processes: the table of requests stays whole, its counts add
 * up, and no verdict is about impossible times. Input: records of 12 bytes each: process and kind,
 * flags, name, key, tokens (4), begin (2), length (2). */
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
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

/* A piece of wild times, from the same bytes. */
static struct request_piece piece_of(const uint8_t *data)
{
	uint64_t h = hash_bytes(HASH_SEED, data, 12);
	struct request_piece p = {
	    .id = 1 + data[3] % 16, .serial = data[2] % 4, .flags = data[1] & 7};

#define X(t)                                                                                       \
	h = hash_mix(h);                                                                           \
	p.t = h & 3 ? T0 + (h >> 8 & 0x3ff) * MS : 0;
	REQUEST_PIECE_TIMES(X)
#undef X
#define X(v)                                                                                       \
	h = hash_mix(h);                                                                           \
	p.v = (h & 0x3ff) * MS;
	REQUEST_PIECE_SUMS(X)
#undef X
#define X(v)                                                                                       \
	h = hash_mix(h);                                                                           \
	p.v = h & 3;
	REQUEST_PIECE_COUNTS(X)
#undef X
	for (int i = 0; i < REQUEST_PIECE_STEPS; i++) {
		h = hash_mix(h);
		p.longest[i].begin_ns = h & 3 ? T0 + (h >> 8 & 0x3ff) * MS : 0;
		p.longest[i].end_ns = p.longest[i].begin_ns + (h >> 20 & 0x3ff);
	}
	return p;
}

/* Whatever pieces say, phases add up and requests are counted. */
static void join_all(const uint8_t *data, size_t bytes)
{
	struct request_config c = {.ttft_ns = 10 * MS,
				   .tpot_ns = MS,
				   .settle_ns = 50 * MS,
				   .silent_ns = 60000 * MS,
				   .open_max = 8,
				   .joins = true};
	struct request_table *t;
	const struct request_stats *s;
	const struct request *r;
	uint64_t now_ns = T0, seen = 0, open = 0, n = 0;
	uint32_t at = 0, node[REQUEST_PIECES];
	const char *job;

	CHECK(!request_table_open(&t, &c, on_violation, &seen));
	CHECK(!request_table_begin(t, 0, "a@1"));
	for (; bytes >= 12; data += 12, bytes -= 12) {
		struct request_piece p = piece_of(data);

		request_table_join(t, 0, data[0] & 3, data[0] & 4, &p);
		if (!(data[0] & 0x70))
			request_table_leave(t, data[0] >> 2 & 3);
		if (!(++n & 7))
			request_table_tend(t, now_ns += 1000 * MS);
	}
	while ((r = request_table_next(t, &at))) {
		CHECK(request_table_nodes(t, r, node) <= REQUEST_PIECES);
		open += r->state != REQUEST_ENDED;
		for (unsigned o = 0; o < REQUEST_OBJECTIVES; o++) {
			uint64_t ns[REQUEST_PHASES], sum = 0;

			request_parts(r, o, ns);
			for (unsigned i = 0; i < REQUEST_PHASES; i++)
				sum += ns[i];
			CHECK(o != REQUEST_TTFT || sum == request_ttft_ns(r));
			CHECK(sum <= 2 * UINT16_MAX * MS);
		}
	}
	s = request_table_stats(t, 0, &job);
	CHECK(!s || (s->arrived == s->ended + s->lost + open && open <= c.open_max));
	CHECK(!s || s->violated[0] + s->violated[1] == seen);
	request_table_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct request_config c = {.ttft_ns = 10 * MS,
				   .tpot_ns = MS,
				   .settle_ns = 50 * MS,
				   .silent_ns = 60000 * MS,
				   .open_max = LIMIT_NODE_REQUESTS};
	struct request_stats sum = {0};
	struct request_table *t;
	uint64_t now_ns = T0, seen = 0, open = 0, n = 0;
	uint32_t at = 0;

	join_all(data, bytes);
	CHECK(!request_table_open(&t, &c, on_violation, &seen));
	for (uint32_t i = 0; i < 4; i++)
		CHECK(!request_table_begin(t, i, i & 1 ? "a@1" : "b@2"));
	for (; bytes >= 12; data += 12, bytes -= 12) {
		struct record r = record_of(data);

		request_table_record(t, data[0] & 3, &r);
		if ((data[0] & 0x7c) == 0x78) /* it is asked for pieces for a while */
			request_table_forward(t, data[0] & 3, now_ns + 5000 * MS);
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
