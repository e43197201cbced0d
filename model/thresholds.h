/* SPDX-License-Identifier: Apache-2.0
 * thresholds.h - the numbers that decide what is detected, blamed or explained, in one table
 * (thresholds.def): value, unit, why this value, and what happens when it is wrong. `sysom doctor
 * --thresholds` prints it. Sizes, bounds against hostile input and constants of a formula are not
 * thresholds: they stay where they are used. Constant: the same in every program, so that live and
 * replay judge alike. Threads: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct thresholds {
#define GROUP(name, about)				   struct {
#define THRESHOLD(type, name, value, unit, reason, effect) type name;
#define GROUP_END(name)                                                                            \
	}                                                                                          \
	name;
#include "model/thresholds.def"
#undef GROUP
#undef THRESHOLD
#undef GROUP_END
};

static const struct thresholds thresholds = {
#define GROUP(name, about)				   .name = {
#define THRESHOLD(type, name, value, unit, reason, effect) .name = (value),
#define GROUP_END(name)                                                                            \
	}                                                                                          \
	,
#include "model/thresholds.def"
#undef GROUP
#undef THRESHOLD
#undef GROUP_END
};

/* One row, for printing. */
struct threshold_row {
	const char *group, *about, *name, *unit, *reason, *effect; /* static text */
	double value;
};
/* Rows in the order of the table; NULL after the last one. */
const struct threshold_row *thresholds_row(size_t i);
