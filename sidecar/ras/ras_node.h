/* SPDX-License-Identifier: Apache-2.0
 * ras_node.h - while a rank stands still, asks NCCL's RAS service on this node. The answer becomes
 * signals of the ranks that stand still. A parser (reader/) reads the answer.
 * Owns: the socket of a question, a queue of readers. Threads: the loop's. */
#pragma once

#include <stdint.h>

#include "base/buf.h"

struct node;
struct ras_node; /* opaque */

/* Without ras.port it does nothing. */
int ras_node_open(struct node *n);
void ras_node_close(struct node *n);
/* Call once a second. A question costs the job a message to each of its processes, so sysomd asks
 * only while a rank stands still, and at most every 30 s. */
void ras_node_tend(struct node *n, uint64_t now_ns);
/* Appends the member "ras" of the status: only counts, because the answer may be about another
 * user's job. */
void ras_node_json(const struct node *n, struct buf *out);
