/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * task_number.h - a task's number in the daemon's PID namespace. Include after bpf_helpers.h. */
#ifndef SYSOM_BPF_TASK_NUMBER_H
#define SYSOM_BPF_TASK_NUMBER_H

#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>

/* Set before loading. */
const volatile __u32 task_number_ns = 0; /* inode of the daemon's PID namespace; 0: the first */
const volatile __u32 task_number_ns_level = 0; /* its depth */

/* 0: the task is not in it. */
static __always_inline __u32 task_number(struct task_struct *task)
{
	struct pid *pid;
	struct upid upid = {};
	char *at;

	if (!task_number_ns)
		return (__u32)BPF_CORE_READ(task, pid);
	pid = BPF_CORE_READ(task, thread_pid);
	if (!pid || BPF_CORE_READ(pid, level) < task_number_ns_level)
		return 0;
	at = (char *)pid + bpf_core_field_offset(struct pid, numbers) +
	     task_number_ns_level * bpf_core_type_size(struct upid);
	if (bpf_probe_read_kernel(&upid, sizeof(upid), at) ||
	    BPF_CORE_READ(upid.ns, ns.inum) != task_number_ns)
		return 0;
	return (__u32)upid.nr;
}

static __always_inline __u32 task_process_number(struct task_struct *task)
{
	if (!task_number_ns)
		return (__u32)BPF_CORE_READ(task, tgid);
	return task_number(BPF_CORE_READ(task, group_leader));
}

#endif
