/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void varints_round_trip_and_match_leb128(void **state)
{
	static const uint64_t v[] = {0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX, 1ull << 63};
	static const int64_t s[] = {0, -1, 1, INT64_MIN, INT64_MAX, -64, 64};
	static const uint8_t golden_300[] = {0xac, 0x02};
	struct buf b;
	size_t pos = 0;
	uint64_t u;
	int64_t i;

	buf_init(&b, 4096);
	buf_varint(&b, 300);
	assert_int_equal(b.bytes, 2);
	assert_memory_equal(b.data, golden_300, 2);
	buf_clear(&b);
	for (size_t k = 0; k < 8; k++)
		buf_varint(&b, v[k]);
	for (size_t k = 0; k < 7; k++)
		buf_svarint(&b, s[k]);
	for (size_t k = 0; k < 8; k++) {
		assert_int_equal(buf_read_varint(b.data, b.bytes, &pos, &u), 0);
		assert_true(u == v[k]);
	}
	for (size_t k = 0; k < 7; k++) {
		assert_int_equal(buf_read_svarint(b.data, b.bytes, &pos, &i), 0);
		assert_true(i == s[k]);
	}
	assert_int_equal(pos, b.bytes);
	assert_int_equal(buf_read_varint(b.data, b.bytes, &pos, &u), -EPROTO);
	buf_fini(&b);
}

static void rejects_varints_that_do_not_end_or_overflow(void **state)
{
	uint8_t endless[12], over[10];
	size_t pos = 0;
	uint64_t u;

	memset(endless, 0xff, sizeof(endless));
	memset(over, 0xff, sizeof(over));
	over[9] = 2;
	assert_int_equal(buf_read_varint(endless, sizeof(endless), &pos, &u), -EPROTO);
	assert_int_equal(pos, 0);
	assert_int_equal(buf_read_varint(over, sizeof(over), &pos, &u), -EPROTO);
}

static void stops_at_the_ceiling_and_says_so_once(void **state)
{
	struct buf b;

	buf_init(&b, 10);
	buf_puts(&b, "12345678");
	assert_false(b.failed);
	buf_puts(&b, "abc");
	assert_true(b.failed);
	assert_int_equal(b.bytes, 8);
	buf_puts(&b, "x");
	assert_int_equal(b.bytes, 8);
	buf_clear(&b);
	buf_puts(&b, "x");
	assert_false(b.failed);
	buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(varints_round_trip_and_match_leb128),
	    cmocka_unit_test(rejects_varints_that_do_not_end_or_overflow),
	    cmocka_unit_test(stops_at_the_ceiling_and_says_so_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
