/* SPDX-License-Identifier: Apache-2.0
 * lttng_tp.h - the peer's tracepoint: the 48 bytes that our launch event carries. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sysom_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/lttng_tp.h"

#if !defined(SYSOM_BENCH_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SYSOM_BENCH_LTTNG_TP_H

#include <stdint.h>
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    sysom_bench, launch,
    LTTNG_UST_TP_ARGS(uint64_t, func, uint64_t, stream, const uint32_t *, grid, const uint16_t *,
		      block, uint64_t, begin),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, func, func)
			    lttng_ust_field_integer(uint64_t, stream, stream)
				lttng_ust_field_array(uint32_t, grid, grid, 3)
				    lttng_ust_field_array(uint16_t, block, block, 3)
					lttng_ust_field_integer(uint64_t, begin, begin)
					    lttng_ust_field_integer(uint32_t, reserved, 0)
						lttng_ust_field_integer(uint16_t, api, 0)))

#endif

#include <lttng/tracepoint-event.h>
