/* SPDX-License-Identifier: Apache-2.0
 * The first access to a page, against the kernel's own count of user time: this program touches fresh
 * pages, and touches them again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "sidecar/os/first_touch.h"

#define PAGES 8192u

static double user_us(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)r.ru_utime.tv_sec * 1e6 + (double)r.ru_utime.tv_usec;
}

static double touch_us(volatile uint8_t *at)
{
	double begin = user_us();

	for (uint32_t i = 0; i < PAGES; i++)
		at[i * 4096] = 1;
	return (user_us() - begin) / PAGES;
}

/* Coarse clocks, other guests and other sizes: no more than a factor of four is asked for. */
static void costs_what_user_code_loses_on_fresh_pages(void **state)
{
	uint8_t *at =
	    mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double fresh, again, measured = (double)first_touch_ns() * 1e-3;

	assert_true(at != MAP_FAILED);
	madvise(at, PAGES * 4096, MADV_NOHUGEPAGE);
	fresh = touch_us(at);
	again = touch_us(at);
	munmap(at, PAGES * 4096);
	print_message("# first touch %.2f us; user code: %.2f us a page, %.2f again\n", measured,
		      fresh, again);
	assert_true(measured <= 4 * fresh + 1);
	assert_true(4 * measured + 1 >= fresh - again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(costs_what_user_code_loses_on_fresh_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
