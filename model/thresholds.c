/* SPDX-License-Identifier: Apache-2.0 */
#include "model/thresholds.h"

static const struct threshold_row rows[] = {
#define GROUP(name, about) {#name, about, NULL, NULL, NULL, NULL, 0},
#define THRESHOLD(type, name, value, unit, reason, effect)                                         \
	{NULL, NULL, #name, unit, reason, effect, (value)},
#define GROUP_END(name)
#include "model/thresholds.def"
};

const struct threshold_row *thresholds_row(size_t i)
{
	return i < sizeof(rows) / sizeof(rows[0]) ? &rows[i] : NULL;
}
