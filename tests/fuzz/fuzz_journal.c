/* SPDX-License-Identifier: Apache-2.0
 * fuzz_journal - any bytes as a recording's block, read and run through the analysis as
 * `sysom replay window` does. The first byte chooses the door: the block as it stands, its events behind
 * zstd's checksum (which no mutation would pass) beside a few records, or a stored window. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/replay/replay_incident.h"
#include "cli/replay/replay_journal.h"
#include "tests/fuzz/fuzz_budget.h"
#include "wire/codec.h"
#include "wire/pack.h"

/* 3 MB to compare the ranks of a node. A RANK event of 60 bytes makes models of 2.6 MB at least and 136 MB
 * at most, as its settings say: all together LIMIT_JOURNAL_MODEL_BYTES, and LIMIT_JOURNAL_WORK per byte,
 * zeroed at 3 GB/s. Incidents are restored, judged and drawn anew for each event. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 1024,
    .allocated = LIMIT_JOURNAL_MODEL_BYTES + (4u << 20),
    .allocated_per_byte = LIMIT_JOURNAL_WORK + 4096,
    .cpu_us = 500000,
    .cpu_ns_per_byte = 20000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A RANK event takes 60 bytes and models of megabytes: more of them take long and show no more. */
#define BYTES_MAX 16384u
#define RECORDS	  64u

static FILE *sink;

static void run_block(const uint8_t *block, size_t bytes)
{
	struct replay_journal *j;
	uint32_t body;

	if (bytes < JOURNAL_HEAD_BYTES || journal_block_bytes(block, &body) ||
	    body != bytes - JOURNAL_HEAD_BYTES)
		return;
	CHECK(!replay_journal_open(&j, sink, true, bytes % 2));
	replay_journal_block(j, block, block + JOURNAL_HEAD_BYTES, body);
	replay_journal_finish(j);
	replay_journal_close(j);
}

static void put_le(struct buf *b, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++) {
		uint8_t byte = (uint8_t)(v >> 8 * i);

		buf_append(b, &byte, 1);
	}
}

/* The bytes as events, and records that the first bytes choose. */
static void run_events(const uint8_t *data, size_t bytes)
{
	struct pack_part part = {data, bytes};
	struct buf one, body, block;
	struct record r[RECORDS];

	buf_init(&one, LIMIT_JOURNAL_BLOCK_BYTES);
	buf_init(&body, LIMIT_JOURNAL_BLOCK_BYTES);
	buf_init(&block, LIMIT_JOURNAL_BLOCK_BYTES);
	memset(r, 0, sizeof(r));
	for (uint32_t i = 0; i < RECORDS; i++)
		r[i] = (struct record){.kind = data[i % bytes] % 40,
				       .begin_ns = i * 1000000ull,
				       .end_ns = i * 1000000ull + data[(i + 7) % bytes] * 4096ull,
				       .launch_ns = i * 1000000ull,
				       .thread = i % 2,
				       .peer = -1,
				       .correlation = i / 2,
				       .stream = data[(i + 3) % bytes] % 4,
				       .func = data[(i + 5) % bytes],
				       .seq = i};
	CHECK(!pack_write(&part, 1, PACK_QUICK, &one));
	buf_varint(&body, one.bytes);
	buf_append(&body, one.data, one.bytes);
	for (uint32_t slot = 0; slot < 2; slot++) {
		buf_clear(&one);
		CHECK(!wire_records_encode(r, RECORDS, &one));
		buf_varint(&body, slot);
		buf_varint(&body, one.bytes);
		buf_append(&body, one.data, one.bytes);
	}
	put_le(&block, 0x4b4c424a, 4);
	put_le(&block, JOURNAL_VERSION, 4);
	put_le(&block, body.bytes, 8);
	buf_append(&block, body.data, body.bytes);
	run_block(block.data, block.bytes);
	buf_fini(&one);
	buf_fini(&body);
	buf_fini(&block);
}

static void run_window(const uint8_t *data, size_t bytes)
{
	struct replay_incident *r;

	CHECK(!replay_incident_open(&r, sink, true, NULL));
	if (!replay_incident_window(r, data, bytes))
		CHECK(!replay_incident_finish(r));
	replay_incident_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!sink)
		sink = fopen("/dev/null", "w");
	CHECK(sink);
	if (bytes < 2)
		return 0;
	if (data[0] % 3 == 0)
		run_block(data + 1, bytes - 1);
	else if (data[0] % 3 == 1 && bytes <= BYTES_MAX)
		run_events(data + 1, bytes - 1);
	else if (data[0] % 3 == 2)
		run_window(data + 1, bytes - 1);
	return 0;
}
