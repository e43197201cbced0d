/* SPDX-License-Identifier: Apache-2.0
 * process.h - one process's life: attach, detach, end; its counts and its commands.
 * Owns: the slots of node.processes.  Threads: the loop's.
 * Trust: the process is hostile; its hello and its states are bounded and checked. */
#pragma once

#include "ring/attach.h"
#include "sidecar/node.h"

/* Takes fds, and on success sock. 0, -EDQUOT, -EPROTO, or an error of ring_reader_open. */
int process_attach(struct node *n, const struct attach_hello *h, pid_t pid, uid_t uid, int sock,
		   const int fds[ATTACH_FDS]);
void process_forget(struct process *p);
/* Finishes processes that have ended, and forgets them after a while. Without processes the node
 * becomes idle. */
void process_tend(struct node *n, uint64_t now_ns);
/* Sends a command. kind: enum attach_command_kind. Returns the command's serial, or -errno. */
int64_t process_command(struct process *p, uint32_t kind, int32_t arg);
uint64_t process_lost(const struct process *p);
/* Number of calls, launches and collectives while tracing was switched off. They do not count as
 * losses. */
uint64_t process_switched_off(const struct process *p);
uint64_t process_raw_bytes(const struct process *p);
uint64_t process_events(const struct process *p);
/* Counts of kernels and launches so far, even for a process that is gone; never NULL. */
const struct join_stats *process_join_stats(const struct process *p);
/* A SYSOM_ variable in the environment of the job that nothing reads; "": none. */
const char *process_unknown_variable(const struct process *p);
/* The line at which the process refused its catalogue of spans; 0: it did not. */
uint32_t process_spans_bad_line(const struct process *p);
/* Calls fn with the losses of each cause. events_only: leaves out causes by which no event is
 * lost. */
void process_losses(const struct process *p, bool events_only,
		    void (*fn)(void *arg, const char *cause, uint64_t count), void *arg);
/* NULL: the process is gone. */
struct process *process_by_serial(const struct node *n, uint64_t serial);
/* The text of a name id of its ring, "" unknown. process: a struct process. */
const char *process_name(void *process, uint32_t id);
/* Whether the process is of the job ("" or NULL: any) and the rank (INT32_MIN: any). */
bool process_matches(const struct process *p, const char *job, int32_t rank);
/* Whether a rank has an anomaly, or somebody asked for a closer look. */
bool process_any_anomaly(const struct node *n, uint64_t now_ns);
