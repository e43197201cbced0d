/* SPDX-License-Identifier: Apache-2.0
 * MAP_POPULATE lets the kernel make the pages first, so the measured access has no page fault. The
 * median of the accesses ignores interrupted ones. */
#include "sidecar/os/first_touch.h"

#include <sys/mman.h>
#include <unistd.h>

#include "analysis/robust/median.h"
#include "base/clock.h"

#define PAGES 64u

static uint64_t access_ns(volatile uint8_t *page)
{
	uint64_t begin_ns = clock_monotonic_ns();

	*page = 1;
	return clock_monotonic_ns() - begin_ns;
}

uint64_t first_touch_ns(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	double first[PAGES], again[PAGES], ns;
	uint8_t *at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		return 0;
	for (uint32_t i = 0; i < PAGES; i++)
		first[i] = (double)access_ns(at + i * page);
	for (uint32_t i = 0; i < PAGES; i++)
		again[i] = (double)access_ns(at + i * page);
	munmap(at, PAGES * page);
	/* the clock's own cost is in both medians */
	ns = median_of(first, PAGES) - median_of(again, PAGES);
	return ns > 0 ? (uint64_t)ns : 0;
}
