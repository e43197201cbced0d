/* SPDX-License-Identifier: Apache-2.0
 * links_node.h - the links of the node's ranks (node/links.h): each second's times become signals of
 * the rank that sends.  Owns: nothing.  Threads: the loop's. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/metrics/metrics.h"

struct http_user;
struct node;
struct process;

/* Once a second, after os_node_tend. Not more often: each period counts the same, and in a short one a
 * single transfer that stood still would be all. */
void links_node_tend(struct node *n, uint64_t now_ns);
/* The member "links" of a rank's status, after others: each link with its fits. */
void links_node_json(const struct process *p, struct buf *out);
/* The member "collectives" of the status: one row for those of a communicator and function. */
void links_node_json_colls(const struct node *n, const struct http_user *user, struct buf *out);

/* Bytes, times and counts of the collectives and links of the ranks that the user may see. */
void links_node_metrics(const struct node *n, const struct http_user *user, struct metrics *m);
