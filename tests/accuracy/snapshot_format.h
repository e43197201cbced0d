/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * snapshot_format.h - the record per sample that snapshot.bpf.c sends through a ring buffer. */
#pragma once

#include "bpf/unwind_format.h"

#define SNAPSHOT_PAGE_BYTES  4096u
#define SNAPSHOT_STACK_PAGES 32u /* 128 KiB above rsp */
#define SNAPSHOT_OTHER_PAGES                                                                       \
	4u /* of the stack that a handler on an alternate stack interrupted  \
				  */

struct snapshot_record {
	__u32 pid, tid; /* in the reader's PID namespace */
	__u64 pc;
	__u64 reg[UNWIND_REGISTERS]; /* by DWARF number */
	__u64 stack_begin;	     /* rsp, rounded down to a page */
	__u32 stack_bytes;	     /* how much could be read */
	__u32 other_bytes;	     /* of a second piece; 0: the walk stayed in the first */
	__u64 other_begin;
	__u32 count;	/* number of frames that the kernel's walk found */
	__u8 end;	/* enum unwind_end */
	__u8 in_kernel; /* in kernel code: the registers are those at its entry */
	__u16 scanned, by_fp;
	__u16 pad;
	__u64 walk_ns; /* of the walk, by bpf_ktime_get_ns */
	__u64 frame[UNWIND_FRAME_MAX];
	__u8 stack[SNAPSHOT_STACK_PAGES * SNAPSHOT_PAGE_BYTES];
	__u8 other[SNAPSHOT_OTHER_PAGES * SNAPSHOT_PAGE_BYTES];
};

/* Counters, by index in an array map. */
enum snapshot_counter {
	SNAPSHOT_TAKEN = 0,
	SNAPSHOT_LOST,	     /* no room in the ring buffer */
	SNAPSHOT_UNREADABLE, /* registers of a task in the kernel could not be read */
	SNAPSHOT_FRAMES,
	SNAPSHOT_WALK_NS,
	SNAPSHOT_COUNTERS
};
