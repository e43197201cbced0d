/* SPDX-License-Identifier: Apache-2.0
 * A build without BPF: the sampler opens, says why there is no more, and samples by copies if it
 * may. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "sampler/sampler.h"

static void says_that_it_was_built_without(void **state)
{
	struct sampler_options o;
	struct sampler_stats stats;
	struct stack_batch b;
	struct sampler *s;

	sampler_options_init(&o);
	assert_int_equal(sampler_open(&s, &o), 0);
	sampler_stats_get(s, &stats);
	print_message("# %s: %s\n", sampler_mode_name(stats.mode), stats.why);
	assert_true(stats.mode == SAMPLER_COPY || stats.mode == SAMPLER_OFF);
	assert_non_null(strstr(stats.why, "built without BPF"));
	assert_int_equal(sampler_add(s, (uint32_t)getpid(), false), 0);
	stack_batch_init(&b, keyed_process());
	sampler_poll(s);
	assert_int_equal(sampler_drain(s, &b), 0);
	assert_true(stack_batch_valid(&b));
	stack_batch_fini(&b);
	sampler_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(says_that_it_was_built_without)};

	return cmocka_run_group_tests_name("sampler without BPF", tests, NULL, NULL);
}
