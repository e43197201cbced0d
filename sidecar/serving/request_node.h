/* SPDX-License-Identifier: Apache-2.0
 * request_node.h - the requests of this node's serving jobs: the table, and its part of beats, API
 * and metrics. For a request that missed an objective it also finds the span and requests the
 * windows of the slow step.
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

/* ask: called to request the windows of a slow step, in the form of an aggregator's command. 0,
 * -ENOMEM. */
int request_node_open(struct node *n, uplink_command_fn ask);
void request_node_close(struct node *n);
int request_node_begin(struct process *p); /* 0, -ENOMEM */
void request_node_record(struct process *p, const struct record *r);
void request_node_end(struct process *p); /* the process has ended and all is read */
void request_node_drop(struct process *p);
void request_node_tend(struct node *n, uint64_t now_ns);
/* Whether the next beat should come sooner: a request that missed an objective is not reported yet,
 * or a job or its pieces had no room in the last beat. */
bool request_node_is_urgent(const struct node *n);
/* Call when the aggregator asks for pieces: until until_ns, beats carry pieces of the requests of
 * the process's job. */
void request_node_forward(const struct process *p, uint64_t until_ns, uint64_t now_ns);
/* Adds the requests of the jobs of the beat's ranks. If a beat did not arrive, the next one repeats
 * its content. The added data is borrowed until the next call. */
void request_node_beat(struct node *n, struct beat *b, uint64_t now_ns);
/* Writes {"objectives":...,"jobs":[...],"requests":[...]}. The requests are those that are open or
 * missed an objective; with ?id=HASH (16 hex digits), only that request; with ?job=, only of that
 * job. False: the id is not valid. */
bool request_node_json(struct node *n, const struct http_user *user, const struct http_query *q,
		       struct buf *out);
void request_node_metrics(struct node *n, const struct http_user *user, struct metrics *m);
