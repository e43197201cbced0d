/* SPDX-License-Identifier: Apache-2.0
 * request_node.h - the requests of this node's serving jobs: the table, its part of beats, of the
 * API and of the metrics; and for a request that missed an objective the span and the windows of
 * its slow step.
 * Owns: node.request_node. Threads: the loop's. */
#pragma once

#include "base/buf.h"
#include "model/request.h"
#include "sidecar/uplink.h"

struct beat;
struct http_query;
struct http_user;
struct metrics;
struct node;
struct process;
struct record;

/* ask: called for the windows of a slow step, as for a command of the aggregator. 0, -ENOMEM. */
int request_node_open(struct node *n, uplink_command_fn ask);
void request_node_close(struct node *n);
int request_node_begin(struct process *p); /* 0, -ENOMEM */
void request_node_record(struct process *p, const struct record *r);
void request_node_end(struct process *p); /* the process has ended and all is read */
void request_node_drop(struct process *p);
void request_node_tend(struct node *n, uint64_t now_ns);
/* The next beat is due sooner: no beat has reported a request that missed an objective, or a job or its
 * pieces had no room in the last one. */
bool request_node_is_urgent(const struct node *n);
/* Until until_ns, beats carry pieces of the requests of the process's job: the aggregator asked. */
void request_node_forward(const struct process *p, uint64_t until_ns, uint64_t now_ns);
/* Adds the jobs of the beat's ranks. If a beat did not arrive, the next one repeats its content. What
 * is added is borrowed until the next call. */
void request_node_beat(struct node *n, struct beat *b, uint64_t now_ns);
/* {"objectives":...,"jobs":[...],"requests":[...]}: those that are open or missed an objective, or
 * the one with ?id=HASH (16 hex digits); with ?job= of one job. False: the id is not valid. */
bool request_node_json(struct node *n, const struct http_user *user, const struct http_query *q,
		       struct buf *out);
void request_node_metrics(struct node *n, const struct http_user *user, struct metrics *m);
