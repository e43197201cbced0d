/* SPDX-License-Identifier: Apache-2.0
 * gpu_node.h - GPU telemetry of the node's ranks: readings become signals of the rank that uses
 * the GPU.
 * Owns: the poller (gpu_poll.h).  Threads: the loop's, which never calls NVML itself. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

struct node;
struct gpu_node; /* opaque */
struct http_user;
struct process;

int gpu_node_open(struct node *n);
void gpu_node_close(struct node *n);
/* Turns new readings into signals of the ranks. Call once a second, after os_node_tend; call also
 * before a window is made, after os_node_read. */
void gpu_node_tend(struct node *n, uint64_t now_ns);
void gpu_node_json(const struct node *n, const struct http_user *user, struct buf *out);
/* The index of the GPU that the process uses and its UUID; -1: not known. */
int gpu_node_of(const struct process *p, const char **uuid);
void gpu_node_metrics(const struct node *n, struct metrics *m);
