/* SPDX-License-Identifier: Apache-2.0
 * links_node.h - the links of the node's ranks (node/links.h). The times of each second become
 * signals of the sending rank. Owns: nothing. Threads: the loop's. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

struct http_user;
struct node;
struct process;

/* Call once a second, after os_node_tend. Not more often: each period counts the same, and a short
 * period may consist of a single stalled transfer. */
void links_node_tend(struct node *n, uint64_t now_ns);
/* Appends the member "links" of a rank's status, after other members: each link with its fits. */
void links_node_json(const struct process *p, struct buf *out);
/* Appends the member "collectives" of the status: one row per communicator and function. */
void links_node_json_colls(const struct node *n, const struct http_user *user, struct buf *out);

/* Bytes, times and counts of the collectives and links of the ranks that the user may see. */
void links_node_metrics(const struct node *n, const struct http_user *user, struct metrics *m);
