/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * kernel_types.h - the few kernel types that our BPF programs use, relocated at load time (CO-RE). They are
 * written by hand, so the build needs no BTF and no kernel headers. If some kernels lack a field,
 * bpf_core_field_exists is called before it is read. x86-64. */
#pragma once

#include <linux/types.h>

#include <linux/bpf.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};
struct pid_namespace {
	struct ns_common ns;
};
struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 of them */
};
struct thread_struct {
	unsigned long fsbase;
};
struct task_struct {
	unsigned int __state; /* since 5.14 */
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	void *stack;
	char comm[16];
	struct thread_struct thread;
};
struct task_struct___before_5_14 {
	long state;
};

#pragma clang attribute pop

/* UAPI: the registers on the kernel stack, which a perf_event program gets too. Only the low 16 bits of cs
 * are the selector: kernels with FRED keep more there. */
struct kernel_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
struct bpf_perf_event_data {
	struct kernel_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#define KERNEL_TASK_KTHREAD	     0x00200000u /* PF_KTHREAD */
#define KERNEL_STATE_DEAD	     0xb0u	 /* EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD */
#define KERNEL_STATE_INTERRUPTIBLE   0x1u
#define KERNEL_STATE_UNINTERRUPTIBLE 0x2u
#define KERNEL_STATE_STOPPED	     0xcu    /* __TASK_STOPPED, __TASK_TRACED */
#define KERNEL_STATE_FROZEN	     0x8000u /* TASK_FROZEN, since 6.1 */
/* Used if bpf_task_pt_regs is missing (before 5.15). */
#define KERNEL_STACK_BYTES 16384u
#define KERNEL_USER_CS	   0x33u
#define KERNEL_USER_SS	   0x2bu
