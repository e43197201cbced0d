/* SPDX-License-Identifier: Apache-2.0
 * os_node.h - OS signals of the node's ranks (os_signals.h): which processes are watched, and
 * what goes into a window.
 * Owns: the signals, and a thread while they are loaded. Threads: the loop's. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"
#include "wire/codec.h"

struct node;
struct os_node; /* opaque */
struct os_signals;
struct process;

int os_node_open(struct node *n);
void os_node_close(struct node *n);
/* Call once a second: follows the processes, and reads the counters. */
void os_node_tend(struct node *n, uint64_t now_ns);
/* Reads the counters up to now, before a window of p. False: none of its signals are kept. */
bool os_node_read(struct process *p);
/* Puts the signals of the window's time into w->signals (allocated). Call only after os_node_read
 * returned true. */
void os_node_fill(struct process *p, struct window *w);
/* NULL: off, or still being loaded. */
struct os_signals *os_node_signals(const struct node *n);
void os_node_json(const struct node *n, struct buf *out);
void os_node_metrics(const struct node *n, struct metrics *m);
