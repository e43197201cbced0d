/* SPDX-License-Identifier: Apache-2.0
 * prometheus.h - metrics as a page in Prometheus' text format 0.0.4. Threads: one per page. */
#pragma once

#include "base/buf.h"
#include "base/metrics/metrics.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Returns metrics that are appended to `page`, which is borrowed. */
struct metrics prometheus_metrics(struct buf *page);
