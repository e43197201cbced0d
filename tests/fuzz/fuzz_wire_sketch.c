/* SPDX-License-Identifier: Apache-2.0
 * fuzz_wire_sketch - any bytes into the sketch decoder; what decodes must encode, and decode to the
 * same. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_same(const struct sketch *a, const struct sketch *b)
{
	CHECK(a->function_count == b->function_count && a->kernel_count == b->kernel_count &&
	      a->setting_count == b->setting_count && a->steps == b->steps);
	for (uint32_t i = 0; i < a->function_count; i++) {
		CHECK(!strcmp(a->functions[i].name, b->functions[i].name));
		CHECK(a->functions[i].kind == b->functions[i].kind);
		CHECK(a->functions[i].self_share == b->functions[i].self_share);
		CHECK(a->functions[i].total_share == b->functions[i].total_share);
	}
	for (uint32_t i = 0; i < a->kernel_count; i++)
		CHECK(!strcmp(a->kernels[i].name, b->kernels[i].name));
	for (uint32_t i = 0; i < a->setting_count; i++)
		CHECK(!strcmp(a->settings[i].name, b->settings[i].name) &&
		      !strcmp(a->settings[i].value, b->settings[i].value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sketch s, again;
	struct buf b;
	int err;

	if (wire_sketch_decode(data, bytes, &s))
		return 0;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	err = wire_sketch_encode(&s, &b);
	/* another compressor, or unknown fields, may have made it smaller than we would */
	CHECK(!err || err == -EMSGSIZE);
	if (!err) {
		CHECK(!wire_sketch_decode(b.data, b.bytes, &again));
		check_same(&s, &again);
		wire_sketch_free(&again);
	}
	buf_fini(&b);
	wire_sketch_free(&s);
	return 0;
}
