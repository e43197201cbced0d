/* SPDX-License-Identifier: Apache-2.0
 * What is found in files, with and without their symbol tables. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/python/python_elf.h"

static char directory[512];

static int read_file(struct python_elf *e, const char *name)
{
	char path[1024];
	int fd, err;

	snprintf(path, sizeof(path), "%s%s", name[0] == '/' ? "" : directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	err = python_elf_read(e, fd);
	close(fd);
	return err;
}

/* What readelf says: the second voice. */
static void symbol(const char *name, uint64_t *address, uint64_t *bytes)
{
	char command[2048];
	unsigned long long a = 0;
	unsigned long b = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "readelf -sW '%scold_loop.so' | awk '$8 == \"%s\" {print $2, $3}'", directory,
		 name);
	f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx %li", &a, (long *)&b), 2);
	pclose(f);
	*address = a;
	*bytes = b;
}

static void symbols_as_readelf_has_them(void **unused)
{
	struct python_elf e;
	uint64_t address, bytes;

	assert_int_equal(read_file(&e, "cold_loop.so"), 0);
	symbol("_PyRuntime", &address, &bytes);
	assert_int_equal(e.runtime, address);
	symbol("Py_Version", &address, &bytes);
	assert_int_equal(e.version, address);
	symbol("PyCode_Type", &address, &bytes);
	assert_int_equal(e.code_type, address);
	assert_int_equal(e.eval_count, 2);
	assert_false(e.cold_guessed);
	assert_int_equal(e.wait_count, 1);
}

static void the_cold_part_without_its_symbol(void **unused)
{
	struct python_elf with, without;
	uint64_t address, bytes;

	assert_int_equal(read_file(&with, "cold_loop.so"), 0);
	assert_int_equal(read_file(&without, "cold_loop_stripped.so"), 0);
	assert_int_equal(without.runtime, with.runtime);
	assert_true(without.cold_guessed);
	assert_int_equal(without.eval_count, 2);
	symbol("_PyEval_EvalFrameDefault.cold", &address, &bytes);
	assert_int_equal(without.eval[1].begin, address);
	/* it may reach to the next function's begin, over padding */
	assert_true(without.eval[1].end >= address + bytes);
	assert_true(without.eval[1].end < address + bytes + 16);
}

static void files_without_an_interpreter(void **unused)
{
	struct python_elf e;

	assert_int_equal(read_file(&e, "/proc/self/exe"), -ENOENT);
	assert_int_equal(read_file(&e, "/etc/passwd"), -EBADMSG);
	assert_int_equal(read_file(&e, "/dev/null"), -EBADMSG);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(symbols_as_readelf_has_them),
	    cmocka_unit_test(the_cold_part_without_its_symbol),
	    cmocka_unit_test(files_without_an_interpreter),
	};
	const char *build = getenv("B");

	snprintf(directory, sizeof(directory), "%s/python/", build ? build : "build/gcc");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
