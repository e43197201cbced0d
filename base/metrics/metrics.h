/* SPDX-License-Identifier: Apache-2.0
 * metrics.h - a program's metrics. The same code writes them in two forms: as a page for Prometheus
 * (prometheus.h), and as OTLP messages (otlp.h). Names follow Prometheus' rules: base units, and
 * _total for counters. Threads: one per struct metrics. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define METRICS_LABELS 16u /* of a sample, at most */

struct metrics_label {
	const char *name, *value; /* value: any bytes */
};

/* A form in which metrics are written. Its functions borrow their arguments for the call. */
struct metrics {
	void (*family)(struct metrics *m, const char *name, const char *type, const char *help);
	void (*sample)(struct metrics *m, const char *name, double value,
		       const struct metrics_label *labels, size_t count);
	void *out; /* the form's own state */
};

/* Begins a metric; its samples follow. A name that ends in _total is a counter, any other a gauge.
 * name and help must be our own texts, because they are not escaped. */
void metrics_family(struct metrics *m, const char *name, const char *help);
/* A sample. The name and value of each label follow, then NULL; at most METRICS_LABELS. */
void metrics_sample(struct metrics *m, const char *name, double value, ...)
    __attribute__((sentinel));
/* A metric whose samples differ in one label: METRICS_BY(m, name, help, label, {"a", 1},
 * {"b", 2}) */
struct metrics_count {
	const char *of; /* the label's value; NULL ends */
	uint64_t count;
};
void metrics_by(struct metrics *m, const char *name, const char *help, const char *label,
		const struct metrics_count *counts);
#define METRICS_BY(m, name, help, label, ...)                                                      \
	metrics_by(m, name, help, label, (const struct metrics_count[]){__VA_ARGS__, {NULL, 0}})
/* Metrics of one sample without labels: METRICS(m, {name, help, value}, {name, help, value}) */
struct metrics_plain {
	const char *name, *help; /* name NULL ends */
	double value;
};
void metrics_plain(struct metrics *m, const struct metrics_plain *list);
#define METRICS(m, ...)                                                                            \
	metrics_plain(m, (const struct metrics_plain[]){__VA_ARGS__, {NULL, NULL, 0}})
/* sysom_build_info: this program's version, and the version of the messages between nodes and
 * cluster. */
void metrics_build_info(struct metrics *m, unsigned wire_version);
