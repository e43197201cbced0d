/* SPDX-License-Identifier: Apache-2.0
 * fuzz_wire_beat - any bytes into the beat decoder; what decodes must encode, and decode to the
 * same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct wire_reply r, r2;
	struct beat beat, again;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	if (!wire_beat_decode(data, bytes, &beat)) {
		if (!wire_beat_encode(&beat, &b)) {
			CHECK(!wire_beat_decode(b.data, b.bytes, &again));
			CHECK(again.rank_count == beat.rank_count);
			wire_beat_free(&again);
		}
		wire_beat_free(&beat);
	}
	buf_clear(&b);
	if (!wire_reply_decode(data, bytes, &r)) {
		CHECK(!wire_reply_encode(&r, &b));
		CHECK(!wire_reply_decode(b.data, b.bytes, &r2));
		CHECK(r2.command_count == r.command_count && r2.status == r.status);
	}
	buf_fini(&b);
	return 0;
}
