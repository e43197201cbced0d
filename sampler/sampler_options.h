/* SPDX-License-Identifier: Apache-2.0
 * sampler_options.h - settings of the sampler. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader;

enum sampler_mode {
	SAMPLER_OFF = 0,  /* no stacks: `why` has the reason */
	SAMPLER_COPY,	  /* perf_event with copied user stacks, unwound in user space */
	SAMPLER_BPF_TAIL, /* unwinding in the kernel, tail calls (before 5.17) */
	SAMPLER_BPF_LOOP, /* unwinding in the kernel, bpf_loop */
};

struct sampler_options {
	enum sampler_mode
	    mode_max;	  /* try this first, then the simpler ones; default SAMPLER_BPF_LOOP */
	uint32_t rate_hz; /* 10 to 999, default 99 */
	uint32_t fraction_percent; /* percent of ticks that take a sample, 1 to 100, default 10 */
	/* resolution of on-CPU samples; blocked time has ten times this; 0: one drain */
	uint32_t slice_ms;
	bool all_processes;	  /* the whole node, not only added processes */
	bool off_cpu;		  /* blocked time, default on */
	uint64_t off_cpu_min_ns;  /* shorter blocking events are dropped, default 1 ms */
	uint32_t switch_rate_max; /* records per second of a recorded thread, default 1000 */
	bool python;		  /* default on */
	size_t table_bytes_max;	  /* bound of unwind tables in the kernel, default 64 MiB */
	const char *proc_root;	  /* default "/proc" */
	/* borrowed until close; NULL: the sampler opens its own, which must happen before there are
	 * threads */
	struct reader *reader;
};
