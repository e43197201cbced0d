/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics/metrics.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"

void metrics_family(struct metrics *m, const char *name, const char *help)
{
	size_t n = strlen(name), tail = strlen("_total");
	bool total = n > tail && !strcmp(name + n - tail, "_total");

	m->family(m, name, total ? "counter" : "gauge", help);
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

void metrics_by(struct metrics *m, const char *name, const char *help, const char *label,
		const struct metrics_count *counts)
{
	metrics_family(m, name, help);
	for (; counts->of; counts++)
		metrics_sample(m, name, (double)counts->count, label, counts->of, NULL);
}

void metrics_plain(struct metrics *m, const struct metrics_plain *list)
{
	for (; list->name; list++) {
		metrics_family(m, list->name, list->help);
		metrics_sample(m, list->name, list->value, NULL);
	}
}

void metrics_build_info(struct metrics *m, unsigned wire_version)
{
	char wire[16];

	snprintf(wire, sizeof(wire), "%u", wire_version);
	metrics_family(m, "sysom_build_info",
		       "1; version of this program, and of the messages between node and cluster.");
	metrics_sample(m, "sysom_build_info", 1, "version", SYSOM_VERSION, "wire", wire, NULL);
}
