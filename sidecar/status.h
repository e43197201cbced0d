/* SPDX-License-Identifier: Apache-2.0
 * status.h - the node's state as text: JSON for people and tools, metrics for Prometheus.
 * Threads: the loop's. */
#ifndef SYSOM_SIDECAR_STATUS_H
#define SYSOM_SIDECAR_STATUS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

struct node;
struct http_user;

/* With the ranks that the user may see, and the number of the others. */
void status_json(struct node *n, const struct http_user *user, struct buf *out);
void status_metrics(struct node *n, const struct http_user *user, struct metrics *m);
/* status_compare.c: beats, sketches, peers, commands */
void status_compare_json(struct node *n, struct buf *out);
void status_compare_metrics(struct node *n, struct metrics *m);
uint64_t status_rss_bytes(void);
/* How far back records go. */
uint64_t status_retention_ns(const struct node *n, uint64_t now_ns);

#endif
