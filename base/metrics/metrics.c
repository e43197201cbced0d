/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics/metrics.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/version.h"

void metrics_family(struct metrics *m, const char *name, const char *type, const char *help)
{
	m->family(m, name, type, help);
}

void metrics_sample(struct metrics *m, const char *name, double value, ...)
{
	struct metrics_label labels[METRICS_LABELS];
	size_t count = 0;
	const char *label;
	va_list ap;

	va_start(ap, value);
	while (count < METRICS_LABELS && (label = va_arg(ap, const char *)))
		labels[count++] = (struct metrics_label){label, va_arg(ap, const char *)};
	va_end(ap);
	m->sample(m, name, value, labels, count);
}

void metrics_by(struct metrics *m, const char *name, const char *type, const char *help,
		const char *label, const struct metrics_count *counts)
{
	metrics_family(m, name, type, help);
	for (; counts->of; counts++)
		metrics_sample(m, name, (double)counts->count, label, counts->of, NULL);
}

void metrics_counter(struct metrics *m, const char *name, const char *help, double value)
{
	metrics_family(m, name, "counter", help);
	metrics_sample(m, name, value, NULL);
}

void metrics_gauge(struct metrics *m, const char *name, const char *help, double value)
{
	metrics_family(m, name, "gauge", help);
	metrics_sample(m, name, value, NULL);
}

void metrics_build_info(struct metrics *m, unsigned wire_version)
{
	char wire[16];

	snprintf(wire, sizeof(wire), "%u", wire_version);
	metrics_family(m, "sysom_build_info", "gauge",
		       "1; version of this program, and of the messages between node and cluster.");
	metrics_sample(m, "sysom_build_info", 1, "version", SYSOM_VERSION, "wire", wire, NULL);
}
