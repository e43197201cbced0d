/* SPDX-License-Identifier: Apache-2.0
 * profile_summary.h - a stack batch in a few lines: the functions that take the time, where threads are
 * blocked, and who holds Python's GIL while others wait for it. Owns: nothing; texts are borrowed from the
 * names and the batch.  Threads: one caller. */
#pragma once

#include "cli/profile/profile_names.h"

#define PROFILE_SUMMARY_ROWS 8

struct profile_row { /* a function */
	struct profile_name name;
	uint64_t self_ns, total_ns; /* total: with callees; recursion counts once */
};

struct profile_block {	   /* a place where the main thread waits, or any thread for a disk */
	const char *where; /* innermost Python function, else the innermost named one */
	const char *file;  /* "" unless Python */
	uint32_t line;
	const char *kernel; /* innermost kernel function outside the scheduler; "" none */
	bool disk;	    /* the kernel counts it as waiting for I/O (io_schedule) */
	/* the thread that ended most of these waits: who released the lock, or wrote to the pipe;
	 * 0: not known */
	uint32_t waker_tid;
	const char *waker;
	uint64_t ns, count;
};

struct profile_gil {
	uint64_t thread_ns;	     /* of the waiting thread, on and off the CPU */
	uint64_t wait_ns;	     /* the part of it that waits for the GIL */
	uint32_t wait_pid, wait_tid; /* the thread that waits longest; 0: none */
	const char *wait_comm;
	uint32_t hold_tid; /* the thread that held it longest meanwhile; 0: not seen */
	const char *hold_comm, *hold_function, *hold_file;
	uint32_t hold_line;
	uint64_t held_ns; /* by that thread, in that function */
};

struct profile_summary {
	uint64_t on_ns, off_ns, on_count, off_count;
	uint64_t main_on_ns, main_off_ns; /* of the main thread of process main_pid */
	uint32_t main_pid;
	struct profile_row rows[PROFILE_SUMMARY_ROWS]; /* on the CPU, by self time */
	/* on the CPU, Python functions by total time */
	struct profile_row calls[PROFILE_SUMMARY_ROWS];
	struct profile_block blocks[PROFILE_SUMMARY_ROWS];
	uint32_t row_count, call_count, block_count;
	struct profile_gil gil;
};

/* main_pid: the rank's process. 0, -ENOMEM. */
int profile_summary_make(struct profile_summary *out, const struct stack_batch *b,
			 struct profile_names *names, uint32_t main_pid);
