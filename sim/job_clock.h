/* SPDX-License-Identifier: Apache-2.0
 * job_clock.h - simjob's clock. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t job_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}
