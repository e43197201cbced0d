/* SPDX-License-Identifier: Apache-2.0
 * http.h - /metrics, /healthz, status and control, over TCP and the control socket.
 * Owns: both listeners and their connections.  Threads: the loop's.
 * Trust: clients are hostile: hosts, sizes, connections and waiting times are bounded. */
#pragma once

#include <stdint.h>

#include "base/http/http_user.h"
#include "base/metrics/metrics.h"

struct node;
struct http; /* opaque */

int http_open(struct node *n);
void http_close(struct node *n);
void http_tend(struct node *n, uint64_t now_ns);
/* Writes all metrics of sysomd, with the ranks that the user may see. */
void http_metrics(struct node *n, const struct http_user *user, struct metrics *m);
