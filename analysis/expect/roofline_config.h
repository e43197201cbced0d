/* SPDX-License-Identifier: Apache-2.0
 * roofline_config.h - settings of a roofline. */
#ifndef SYSOM_ANALYSIS_EXPECT_ROOFLINE_CONFIG_H
#define SYSOM_ANALYSIS_EXPECT_ROOFLINE_CONFIG_H

#include <stdint.h>

#define ROOFLINE_WORK_MAX 4

enum roofline_mode { ROOFLINE_ROBUST = 0, ROOFLINE_P99 = 1 };

struct roofline_config {
	enum roofline_mode mode;
	uint32_t learn_min; /* steps before it may be ready; default 20; few steps widen the tail */
	uint32_t learn_max; /* steps of the frozen baseline; default 2000 */
	double tail_mads;   /* default 7 */
	double floor_ratio; /* smallest excess ever flagged; default 0.05 */
	uint32_t persist_n,
	    persist_m;	      /* flagged when n of the last m steps are out; default 2 of 3 */
	double instant_mads;  /* one step this far out is flagged at once; default 0: where the
				 * healthy tail, measured while learning, leaves 1 in 2000 */
	double refuse_spread; /* refuse when the residuals' MAD exceeds this; default 0.12 */
	uint32_t p99_retrain; /* p99: steps between trainings; default 500 */
	uint64_t seed;
};

#endif
