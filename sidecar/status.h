/* SPDX-License-Identifier: Apache-2.0
 * status.h - the node's state as text: JSON for people and tools, metrics for Prometheus.
 * Threads: the loop's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

struct node;
struct http_user;

/* A figure that appears in both the JSON and the metrics. */
struct status_row {
	const char *part; /* object of the JSON that has it */
	const char *key, *metric, *help;
	size_t at; /* offset of its uint64_t in a struct of figures */
	bool time; /* a time in ns, which the metrics show in seconds */
};

uint64_t status_row_value(const struct status_row *row, const void *figures);
void status_rows_metrics(struct metrics *m, const struct status_row *rows, size_t count,
			 const void *figures);

/* Writes the status with the ranks that the user may see, and the number of the other ranks. */
void status_json(struct node *n, const struct http_user *user, struct buf *out);
void status_metrics(struct node *n, const struct http_user *user, struct metrics *m);
/* status_compare.c: beats, sketches, peers, commands */
void status_compare_json(struct node *n, struct buf *out);
void status_compare_metrics(struct node *n, struct metrics *m);
