/* SPDX-License-Identifier: Apache-2.0
 * export_stacks.h - writes CPU stacks as Perfetto samples: perf_sample packets with interned call stacks,
 * outermost frame first. A sample's time is known to 10 ms, so the samples of such a slice are spread
 * evenly over it. Perfetto has no samples of blocked time; `sysom flame` shows it. */
#pragma once

#include "cli/perfetto.pb-c.h"
#include "cli/profile/profile_names.h"
#include "cli/trace/trace_model.h"

struct export_stacks {
	void (*put)(void *arg, Perfetto__Protos__TracePacket *p); /* adds the sequence and writes */
	void *arg;
	/* the ids of process and thread in the trace; made up if nodes share ids */
	void (*ids)(void *arg, uint32_t pid, uint32_t tid, int *shown_pid, int *shown_tid);
	/* for the whole file, since interned ids must differ between ranks; zero at first */
	uint64_t strings, mappings, frames, callstacks;
};

/* Writes the rank's stacks; names: of r->stacks. 0 or -ENOMEM. */
int export_stacks_put(struct export_stacks *e, const struct trace_rank *r,
		      struct profile_names *names);
