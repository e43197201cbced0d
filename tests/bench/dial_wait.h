/* SPDX-License-Identifier: Apache-2.0
 * dial_wait.h - waits until so many dials are up, for bench_dials and peer_dials. */
#pragma once

#include <unistd.h>

#include "base/clock.h"

struct dial_wait {
	uint32_t up; /* at the end */
	uint64_t half_ns,
	    took_ns; /* since begun_ns: until half of them were up, and until the end */
};

static inline struct dial_wait dial_wait(const uint32_t *up, uint32_t count, uint64_t begun_ns,
					 uint64_t limit_ns)
{
	struct dial_wait w = {0};

	while (w.up < count && w.took_ns < limit_ns) {
		usleep(1000);
		w.up = __atomic_load_n(up, __ATOMIC_RELAXED);
		w.took_ns = clock_monotonic_ns() - begun_ns;
		if (!w.half_ns && w.up >= count / 2)
			w.half_ns = w.took_ns;
	}
	return w;
}
