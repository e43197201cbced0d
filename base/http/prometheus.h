/* SPDX-License-Identifier: Apache-2.0
 * prometheus.h - writes a /metrics page in Prometheus' text format 0.0.4.
 * Threads: one per buffer. */
#ifndef SYSOM_BASE_HTTP_PROMETHEUS_H
#define SYSOM_BASE_HTTP_PROMETHEUS_H

#include "base/buf.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Begins a metric; its samples follow. type: "counter" or "gauge". name, type and help are ours:
 * they are not escaped. */
void prometheus_metric(struct buf *b, const char *name, const char *type, const char *help);
/* A sample. The name and value of each label follow, then NULL. A label's value may be any
 * bytes. */
void prometheus_sample(struct buf *b, const char *name, double value, ...)
    __attribute__((sentinel));
/* A metric whose samples differ in one label: PROMETHEUS_BY(b, name, type, help, label, {"a", 1},
 * {"b", 2}) */
struct prometheus_count {
	const char *of; /* the label's value; NULL ends */
	uint64_t count;
};
void prometheus_by(struct buf *b, const char *name, const char *type, const char *help,
		   const char *label, const struct prometheus_count *counts);
#define PROMETHEUS_BY(b, name, type, help, label, ...)                                             \
	prometheus_by(b, name, type, help, label,                                                  \
		      (const struct prometheus_count[]){__VA_ARGS__, {NULL, 0}})
/* A metric of one sample without labels. */
void prometheus_counter(struct buf *b, const char *name, const char *help, double value);
void prometheus_gauge(struct buf *b, const char *name, const char *help, double value);
/* sysom_build_info: this program's version, and that of the messages between nodes and cluster. */
void prometheus_build_info(struct buf *b, unsigned wire_version);

#endif
