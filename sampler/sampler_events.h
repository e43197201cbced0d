/* SPDX-License-Identifier: Apache-2.0
 * sampler_events.h - kernel events of all processes: forks, execs, exits, executable mappings.
 * Owns: one perf event and ring per CPU.  Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sampler/processes.h"

struct sampler_events;
struct perf_event_header;
/* 0, -errno. */
int sampler_events_open(struct sampler_events **out, const int *cpus, uint32_t cpu_count);
void sampler_events_close(struct sampler_events *e); /* NULL is a no-op */
/* While paused, no event is reported. On resume everything that p knows is read again. */
void sampler_events_pause(struct sampler_events *e, bool paused, struct processes *p);
int sampler_events_fd(const struct sampler_events *e);
/* Passes the events since the last call to p, in order of time. */
void sampler_events_poll(struct sampler_events *e, struct processes *p);
/* Passes on one record of any perf event, if it is a fork, exec, exit or mapping; false: it is
 * something else. */
bool sampler_events_record(struct processes *p, const struct perf_event_header *h);
