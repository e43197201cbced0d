/* SPDX-License-Identifier: Apache-2.0
 * cond.h - condition variables whose timed waits are on CLOCK_MONOTONIC. Header only. */
#pragma once

#include <pthread.h>
#include <time.h>

static inline void cond_init_monotonic(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}
