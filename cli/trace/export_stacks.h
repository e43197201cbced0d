/* SPDX-License-Identifier: Apache-2.0
 * export_stacks.h - CPU stacks as Perfetto samples: perf_sample packets with interned call stacks,
 * in which the outermost frame comes first. A sample's time is known to a slice of 10 ms: those of
 * one slice are spread evenly over it. Blocked time has no form among Perfetto's samples and stays
 * out (`sysom flame` has it). */
#ifndef SYSOM_CLI_TRACE_EXPORT_STACKS_H
#define SYSOM_CLI_TRACE_EXPORT_STACKS_H

#include "cli/perfetto.pb-c.h"
#include "cli/profile/profile_names.h"
#include "cli/trace/trace_model.h"

struct export_stacks {
	void (*put)(void *arg, Perfetto__Protos__TracePacket *p); /* adds the sequence, writes */
	void *arg;
	/* The ids that a trace shows for a process and thread; made-up ones where nodes share ids.
	 */
	void (*ids)(void *arg, uint32_t pid, uint32_t tid, int *shown_pid, int *shown_tid);
	/* Of the whole file: interned ids must differ between ranks. Zero at first. */
	uint64_t strings, mappings, frames, callstacks;
	uint64_t samples; /* written */
};

/* The rank's stacks; names: of r->stacks. 0 or -ENOMEM. */
int export_stacks_put(struct export_stacks *e, const struct trace_rank *r,
		      struct profile_names *names);

#endif
