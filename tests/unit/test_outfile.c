/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/text/outfile.h"

static void says_why_a_write_failed_whatever_was_called_since(void **unused)
{
	static char much[1 << 16];
	struct outfile o;
	int err;

	if (access("/dev/full", W_OK))
		skip();
	assert_int_equal(outfile_open(&o, "/dev/full"), 0);
	fwrite(much, 1, sizeof(much), o.f);
	assert_true(ferror(o.f));
	errno = EISDIR;
	err = outfile_error(o.f);
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(outfile_close(&o, err), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(says_why_a_write_failed_whatever_was_called_since),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
