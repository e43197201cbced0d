/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * task_number.h - a task's number in the daemon's PID namespace. Include after bpf_helpers.h. */
#pragma once

#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>

/* Set before loading. */
const volatile __u32 task_number_ns = 0; /* inode of the daemon's PID namespace; 0: the first */

#define TASK_NUMBER_LEVELS 33 /* MAX_PID_NS_LEVEL of the kernel, and the first namespace */

/* 0: the task is not in it. A task has a number in its own namespace and in each one above. How deep the
 * daemon's is can't be asked: a container's /proc knows nothing above the container. */
static __always_inline __u32 task_number(struct task_struct *task)
{
	struct pid *pid;
	struct upid upid = {};
	__u32 level;
	char *at;

	if (!task_number_ns)
		return (__u32)BPF_CORE_READ(task, pid);
	pid = BPF_CORE_READ(task, thread_pid);
	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	for (int i = 0; i < TASK_NUMBER_LEVELS; i++, level--) {
		at = (char *)pid + bpf_core_field_offset(struct pid, numbers) +
		     level * bpf_core_type_size(struct upid);
		if (bpf_probe_read_kernel(&upid, sizeof(upid), at))
			return 0;
		if (BPF_CORE_READ(upid.ns, ns.inum) == task_number_ns)
			return (__u32)upid.nr;
		if (!level)
			return 0;
	}
	return 0;
}

static __always_inline __u32 task_process_number(struct task_struct *task)
{
	if (!task_number_ns)
		return (__u32)BPF_CORE_READ(task, tgid);
	return task_number(BPF_CORE_READ(task, group_leader));
}
