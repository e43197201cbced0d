/* SPDX-License-Identifier: Apache-2.0
 * fuzz_wire_window - any bytes into the window decoder; what decodes must encode, and decode to the
 * same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct window head, w, again;
	struct buf b;

	if (!wire_window_decode_admitted(data, bytes, false, &head)) {
		CHECK(!head.host && !head.device);
		wire_window_free(&head);
	}
	if (wire_window_decode(data, bytes, &w))
		return 0;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	if (!wire_window_encode(&w, &b)) {
		CHECK(!wire_window_decode(b.data, b.bytes, &again));
		CHECK(again.host_count == w.host_count && again.device_count == w.device_count);
		if (w.host_count)
			CHECK(!memcmp(again.host, w.host, w.host_count * sizeof(*w.host)));
		if (w.device_count)
			CHECK(!memcmp(again.device, w.device, w.device_count * sizeof(*w.device)));
		CHECK(again.signal_count == w.signal_count);
		if (w.signal_count)
			CHECK(
			    !memcmp(again.signals, w.signals, w.signal_count * sizeof(*w.signals)));
		wire_window_free(&again);
	}
	buf_fini(&b);
	wire_window_free(&w);
	return 0;
}
