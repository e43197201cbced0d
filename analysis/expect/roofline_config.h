/* SPDX-License-Identifier: Apache-2.0
 * roofline_config.h - settings of a roofline. */
#pragma once

#include <stdint.h>

#define ROOFLINE_WORK_MAX 4

enum roofline_mode { ROOFLINE_ROBUST = 0, ROOFLINE_P99 = 1 };

struct roofline_config {
	enum roofline_mode mode;
	/* steps before a model may become ready; default 20. The fewer steps, the wider the
	 * tail. */
	uint32_t learn_min;
	uint32_t learn_max; /* steps of the frozen baseline; default 2000 */
	double tail_mads;   /* default 7 */
	double floor_ratio; /* a smaller excess is never flagged; default 0.05 */
	uint32_t persist_n,
	    persist_m; /* flagged when n of the last m steps are out; default 2 of 3 */
	/* One step this far out is flagged at once. Default 0: the point that 1 healthy step in
	 * 2000 exceeds, as measured while learning. */
	double instant_mads;
	double refuse_spread; /* refuse when the residuals' MAD exceeds this; default 0.12 */
	uint32_t p99_retrain; /* p99: steps between trainings; default 500 */
	uint64_t seed;
};
