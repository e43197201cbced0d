/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/slow/roles.h"

static void kernels_distinguish_stages_whatever_the_order(void **state)
{
	struct roles_kernel first[] = {{10, 24}, {20, 24}, {30, 1}};
	struct roles_kernel middle[] = {{10, 24}, {20, 24}, {40, 48}};
	struct roles_kernel last[] = {{10, 12}, {50, 30}, {60, 3}};
	struct roles_rank r[6];
	uint32_t role[6];

	for (int i = 0; i < 6; i++)
		r[i] = (struct roles_rank){.kernel_count = 3,
					   .kernel = i % 3 == 0	  ? first
						     : i % 3 == 1 ? middle
								  : last};
	assert_int_equal(roles_learn(r, 6, role), 3);
	for (int i = 0; i < 6; i++)
		assert_int_equal(role[i], i % 3);
}

static void a_rank_with_a_few_kernels_of_its_own_stays_among_its_peers(void **state)
{
	struct roles_kernel usual[] = {{10, 100}, {20, 50}}, own[] = {{10, 100}, {20, 50}, {25, 5}},
			    other[] = {{10, 100}, {20, 20}, {25, 30}};
	struct roles_rank r[4];
	uint32_t role[4];

	for (int i = 0; i < 4; i++)
		r[i] = (struct roles_rank){i == 2 ? own : usual, i == 2 ? 3 : 2};
	assert_int_equal(roles_learn(r, 4, role), 1);
	r[2].kernel = other;
	assert_int_equal(roles_learn(r, 4, role), 2);
}

static void nothing_known_is_one_role(void **state)
{
	struct roles_rank r[3] = {{.kernel_count = 0}};
	uint32_t role[3];

	assert_int_equal(roles_learn(r, 3, role), 1);
	assert_int_equal(role[2], 0);
}

static void variants_of_a_kernel_have_one_key(void **state)
{
	assert_true(roles_key("ampere_sgemm_128x64_nn") == roles_key("ampere_sgemm_32x32_nn"));
	assert_true(roles_key("void gemm<float, 128>(float*)") ==
		    roles_key("void gemm<half, 64>(float*)"));
	assert_true(roles_key("softmax_kernel") != roles_key("layernorm_kernel"));
	assert_true(roles_key("") == roles_key(""));
}

static void likeness_is_the_shared_part_of_the_launches(void **state)
{
	struct roles_kernel a[] = {{1, 6}, {2, 4}}, b[] = {{2, 8}, {3, 2}};
	struct roles_rank x = {.kernel = a, .kernel_count = 2},
			  y = {.kernel = b, .kernel_count = 2};

	/* min: 4; max: 6 + 8 + 2 */
	assert_true(roles_alike(&x, &y) == 4.0 / 16);
	assert_true(roles_alike(&x, &x) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kernels_distinguish_stages_whatever_the_order),
	    cmocka_unit_test(a_rank_with_a_few_kernels_of_its_own_stays_among_its_peers),
	    cmocka_unit_test(nothing_known_is_one_role),
	    cmocka_unit_test(variants_of_a_kernel_have_one_key),
	    cmocka_unit_test(likeness_is_the_shared_part_of_the_launches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
