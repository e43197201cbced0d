/* SPDX-License-Identifier: Apache-2.0
 * fuzz_wire_stacks - any bytes behind zstd's checksum (or, by the first byte, before it) into the stack
 * decoder; what decodes is valid, encodes, and decodes to the same. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/pack.h"
#include "wire/stacks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_again(const struct stack_batch *b)
{
	struct stack_batch again;
	struct buf out;

	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	stack_batch_init(&again, keyed_process());
	CHECK(stack_batch_valid(b));
	CHECK(!stacks_pack(b, &out));
	CHECK(!stacks_unpack(out.data, out.bytes, &again));
	CHECK(again.stack_count == b->stack_count && again.sample_count == b->sample_count &&
	      again.frame_count == b->frame_count);
	CHECK(!b->frame_count ||
	      !memcmp(again.frames, b->frames, sizeof(*b->frames) * b->frame_count));
	stack_batch_fini(&again);
	buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct stack_batch b;
	struct buf packed;
	int err;

	if (!bytes)
		return 0;
	stack_batch_init(&b, keyed_process());
	buf_init(&packed, LIMIT_WIRE_MESSAGE_BYTES);
	if (data[0] % 4) {
		struct pack_part part = {data + 1, bytes - 1};

		CHECK(!pack_write(&part, 1, PACK_CLOSE, &packed));
		err = stacks_unpack(packed.data, packed.bytes, &b);
	} else {
		err = stacks_unpack(data + 1, bytes - 1, &b);
	}
	if (!err)
		check_again(&b);
	stack_batch_fini(&b);
	buf_fini(&packed);
	return 0;
}
