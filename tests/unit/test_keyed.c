/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void the_length_and_every_byte_count(void **state)
{
	static const struct keyed k = {{1, 2}};
	uint8_t text[64] = {0};

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		uint64_t plain = keyed_bytes(&k, text, n);

		for (size_t i = 0; i < n; i++) {
			text[i] = 1;
			assert_true(keyed_bytes(&k, text, n) != plain);
			text[i] = 0;
		}
		assert_true(keyed_bytes(&k, text, n + 1) != plain);
	}
}

static void another_key_gives_another_hash(void **state)
{
	static const struct keyed k[] = {{{1, 2}}, {{2, 2}}, {{1, 3}}};

	(void)state;
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < i; j++) {
			assert_true(keyed_word(&k[i], 7) != keyed_word(&k[j], 7));
			assert_true(keyed_words(&k[i], 7, 8) != keyed_words(&k[j], 7, 8));
			assert_true(keyed_text(&k[i], "name") != keyed_text(&k[j], "name"));
		}
}

/* Of one bit more or less in the word, each bit of the hash is another one half of the time. */
static void a_bit_of_the_word_moves_half_of_the_hash(void **state)
{
	static const struct keyed k = {{0x0123456789abcdefull, 0xfedcba9876543210ull}};
	unsigned flips = 0, total = 0;

	(void)state;
	for (uint64_t word = 0; word < 256; word++)
		for (int bit = 0; bit < 64; bit++, total += 64)
			flips += (unsigned)__builtin_popcountll(keyed_word(&k, word) ^
								keyed_word(&k, word ^ 1ull << bit));
	assert_in_range(flips, total * 49 / 100, total * 51 / 100);
}

static void a_process_keeps_its_key(void **state)
{
	struct keyed k = *keyed_process();

	(void)state;
	assert_true(k.word[0] || k.word[1]);
	assert_memory_equal(&k, keyed_process(), sizeof(k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_length_and_every_byte_count),
	    cmocka_unit_test(another_key_gives_another_hash),
	    cmocka_unit_test(a_bit_of_the_word_moves_half_of_the_hash),
	    cmocka_unit_test(a_process_keeps_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
