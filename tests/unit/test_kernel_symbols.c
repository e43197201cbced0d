/* SPDX-License-Identifier: Apache-2.0
 * Names of kernel addresses from a file of our own; what was read is shared, and outlives who read it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/kernel_symbols.h"

static char path[64];

static void file_of(const char *text)
{
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "/tmp/test_kernel_symbols.XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int remove_file(void **state)
{
	unlink(path);
	return 0;
}

static struct kernel_symbols *open_it(void)
{
	struct kernel_symbols *k;

	assert_int_equal(kernel_symbols_open(&k, path), 0);
	return k;
}

static const char some[] = "ffffffff81000200 T second\nffffffff81000100 t first\n"
			   "ffffffff81000400 D some_data\nffffffff81000300 W third\t[module]\n"
			   "ffffffff81000200 D alias_of_data\n";

static void finds_the_symbol_that_an_address_lies_in(void **state)
{
	struct kernel_symbols *k;
	uint64_t offset;

	file_of(some);
	k = open_it();
	assert_string_equal(kernel_symbols_find(k, 0xffffffff81000100, &offset), "first");
	assert_int_equal(offset, 0);
	assert_string_equal(kernel_symbols_find(k, 0xffffffff810001ff, &offset), "first");
	assert_int_equal(offset, 0xff);
	assert_string_equal(kernel_symbols_find(k, 0xffffffff81000210, &offset), "second");
	assert_string_equal(kernel_symbols_find(k, 0xffffffff81000310, &offset), "third");
	/* before the first one, in data, and beyond any function */
	assert_string_equal(kernel_symbols_find(k, 0xffffffff81000000, &offset), "");
	assert_string_equal(kernel_symbols_find(k, 0xffffffff81000400, &offset), "");
	assert_string_equal(kernel_symbols_find(k, 0xffffffffa1000400, &offset), "");
	kernel_symbols_close(k);
}

static void hidden_addresses_have_no_names(void **state)
{
	struct kernel_symbols *k;
	uint64_t offset;

	file_of("0000000000000000 T first\n0000000000000000 T second\n");
	k = open_it();
	assert_string_equal(kernel_symbols_find(k, 0xffffffff81000100, &offset), "");
	kernel_symbols_close(k);
}

static void what_one_read_another_uses(void **state)
{
	struct kernel_symbols *a, *b, *c;
	const char *name;
	uint64_t offset;

	file_of(some);
	a = open_it();
	b = open_it();
	name = kernel_symbols_find(a, 0xffffffff81000210, &offset);
	/* the same bytes, not only the same name */
	assert_ptr_equal(kernel_symbols_find(b, 0xffffffff81000210, &offset), name);
	kernel_symbols_close(a);
	c = open_it();
	assert_ptr_equal(kernel_symbols_find(c, 0xffffffff81000210, &offset), name);
	assert_string_equal(name, "second");
	kernel_symbols_close(b);
	assert_string_equal(kernel_symbols_find(c, 0xffffffff81000310, &offset), "third");
	kernel_symbols_close(c);
}

static void another_file_is_read_for_itself(void **state)
{
	struct kernel_symbols *a, *b;
	char first[sizeof(path)];
	uint64_t offset;

	file_of(some);
	strcpy(first, path);
	a = open_it();
	assert_string_equal(kernel_symbols_find(a, 0xffffffff81000210, &offset), "second");
	file_of("ffffffff81000200 T other\n");
	b = open_it();
	assert_string_equal(kernel_symbols_find(b, 0xffffffff81000210, &offset), "other");
	assert_string_equal(kernel_symbols_find(a, 0xffffffff81000210, &offset), "second");
	kernel_symbols_close(a);
	kernel_symbols_close(b);
	unlink(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(finds_the_symbol_that_an_address_lies_in, remove_file),
	    cmocka_unit_test_teardown(hidden_addresses_have_no_names, remove_file),
	    cmocka_unit_test_teardown(what_one_read_another_uses, remove_file),
	    cmocka_unit_test_teardown(another_file_is_read_for_itself, remove_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
