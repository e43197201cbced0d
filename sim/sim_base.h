/* SPDX-License-Identifier: Apache-2.0
 * sim_base.h - the clock and the environment of the doubles and of simjob. */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t sim_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline uint64_t sim_now(void)
{
	return sim_clock(CLOCK_MONOTONIC);
}

static inline uint64_t sim_number(const char *variable, uint64_t otherwise)
{
	const char *s = getenv(variable);

	return s && *s ? strtoull(s, NULL, 10) : otherwise;
}
