/* SPDX-License-Identifier: Apache-2.0
 * fuzz_wire_records - any bytes into the records decoder; what decodes must encode, and decode to the
 * same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/codec.h"
#include "wire/columns.h"
#include "wire/pack.h"

#define PADDING_BYTES (sizeof(struct record) - offsetof(struct record, peer) - sizeof(int16_t))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The first byte chooses the door: the block as sent, the columns behind zstd's checksum (which no
 * mutation would pass), or the input as records. */
static void check_columns(const uint8_t *data, size_t bytes, uint32_t rows)
{
	struct pack_part part = {data, bytes};
	struct record host[64], device[64];
	uint32_t hosts = rows < 64 ? rows : 64, devices = rows - hosts < 64 ? rows - hosts : 64;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	CHECK(!pack_write(&part, 1, PACK_QUICK, &b));
	columns_unpack(b.data, b.bytes, LIMIT_WIRE_UNPACKED_BYTES, host, hosts, device, devices);
	buf_fini(&b);
}

static void check_steps(const uint8_t *data, size_t bytes, uint32_t rows)
{
	struct pack_part part = {data, bytes};
	struct window_step steps[32];
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	CHECK(!pack_write(&part, 1, PACK_QUICK, &b));
	columns_steps_unpack(b.data, b.bytes, LIMIT_WIRE_UNPACKED_BYTES, steps, rows % 33);
	buf_fini(&b);
}

static void check_round_trip(const struct record *r, uint32_t n)
{
	struct record *again;
	uint32_t count;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	CHECK(!wire_records_encode(r, n, &b));
	CHECK(!wire_records_decode(b.data, b.bytes, &again, &count));
	CHECK(count == n && !memcmp(again, r, n * sizeof(*r)));
	free(again);
	buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct record *r;
	uint32_t n;

	if (bytes < 2)
		return 0;
	switch (data[0] % 4) {
	case 0:
		if (!wire_records_decode(data + 1, bytes - 1, &r, &n)) {
			check_round_trip(r, n);
			free(r);
		}
		break;
	case 1:
		check_columns(data + 2, bytes - 2, data[1]);
		break;
	case 2:
		check_steps(data + 2, bytes - 2, data[1]);
		break;
	default:
		n = (uint32_t)((bytes - 1) / sizeof(*r));
		r = malloc(n * sizeof(*r) + 1);
		CHECK(r);
		memcpy(r, data + 1, n * sizeof(*r));
		for (uint32_t i = 0; i < n; i++) /* padding does not travel */
			memset(&r[i].peer + 1, 0, PADDING_BYTES);
		check_round_trip(r, n);
		free(r);
	}
	return 0;
}
