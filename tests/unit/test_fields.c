/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/fields.h"

struct row {
	uint64_t wide, changed, fixed;
	uint32_t narrow, changed32;
	const char *text;
	size_t bytes;
};

static void row(struct fields *f, struct row *r)
{
	fields_u64(f, &r->wide, UINT64_MAX);
	fields_u32(f, &r->narrow, 300);
	fields_change(f, &r->changed, 1000);
	fields_change32(f, &r->changed32, 7);
	fields_fixed64(f, &r->fixed);
	fields_text(f, &r->text, &r->bytes, 5);
}

static const struct row example = {.wide = UINT64_MAX,
				   .narrow = 300,
				   .changed = 999,
				   .changed32 = UINT32_MAX,
				   .fixed = 0x0102030405060708,
				   .text = "names",
				   .bytes = 5};

static void what_was_written_is_read(void **unused)
{
	struct row from = example, to = {0};
	struct buf b;

	buf_init(&b, 100);
	row(&(struct fields){.out = &b}, &from);
	assert_memory_equal(&from, &example, sizeof(from)); /* writing changes nothing */
	for (size_t n = 0; n <= b.bytes; n++) {
		struct fields f = {.data = b.data, .bytes = n};

		to = (struct row){0};
		row(&f, &to);
		assert_int_equal(fields_end(&f), n < b.bytes ? -EPROTO : 0);
	}
	assert_true(to.wide == from.wide && to.narrow == from.narrow &&
		    to.changed == from.changed && to.changed32 == from.changed32 &&
		    to.fixed == from.fixed && to.bytes == 5 && !memcmp(to.text, "names", 5));
	assert_int_equal(b.data[b.bytes - 14], 8); /* the lowest byte first */
	buf_fini(&b);
}

static void what_is_too_large_is_refused_in_both_directions(void **unused)
{
	const uint8_t large[] = {0xad, 2, 1}, long_text[] = {6, 'a', 'b', 'c', 'd', 'e', 'f'},
		      zero_in_text[] = {2, 'a', 0};
	const char *text = "longer";
	uint32_t v = 301;
	size_t bytes = 6;
	struct fields f;
	struct buf b;

	buf_init(&b, 100);
	f = (struct fields){.out = &b};
	fields_u32(&f, &v, 300);
	fields_text(&f, &text, &bytes, 5);
	assert_int_equal(fields_end(&f), -EINVAL);
	assert_int_equal(b.bytes, 0);
	f = (struct fields){.out = &b};
	fields_text(&f, &text, &bytes, 5);
	assert_int_equal(fields_end(&f), -EINVAL);
	assert_int_equal(b.bytes, 0);
	buf_fini(&b);

	f = (struct fields){.data = large, .bytes = sizeof(large)};
	fields_u32(&f, &v, 300);
	assert_int_equal(v, 0);
	v = 9;
	fields_u32(&f, &v, 300); /* nothing is read after an error */
	assert_int_equal(v, 0);
	assert_int_equal(fields_end(&f), -EPROTO);
	f = (struct fields){.data = long_text, .bytes = sizeof(long_text)};
	fields_text(&f, &text, &bytes, 5);
	assert_int_equal(bytes, 0);
	assert_int_equal(fields_end(&f), -EPROTO);
	f = (struct fields){.data = zero_in_text, .bytes = sizeof(zero_in_text)};
	fields_text(&f, &text, &bytes, 5);
	assert_int_equal(fields_end(&f), -EPROTO);
}

static void a_full_buffer_and_bytes_left_over_are_errors(void **unused)
{
	struct row r = example;
	uint64_t v = 0;
	struct fields f;
	struct buf b;

	buf_init(&b, 8);
	f = (struct fields){.out = &b};
	row(&f, &r);
	assert_int_equal(fields_end(&f), -ENOMEM);
	buf_fini(&b);
	f = (struct fields){.data = (const uint8_t[]){1, 2}, .bytes = 2};
	fields_u64(&f, &v, UINT64_MAX);
	assert_int_equal(fields_end(&f), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_written_is_read),
	    cmocka_unit_test(what_is_too_large_is_refused_in_both_directions),
	    cmocka_unit_test(a_full_buffer_and_bytes_left_over_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
