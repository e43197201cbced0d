/* SPDX-License-Identifier: Apache-2.0
 * pid_ns.h - our own PID namespace. BPF programs report tasks by the numbers of this namespace.
 * Header-only.
 * Threads: any. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#define PID_NS_FIRST 0xeffffffcu /* the inode of the initial PID namespace, fixed by the kernel */

struct pid_ns {
	uint32_t inode; /* 0: the initial namespace, or not known */
	uint64_t dev;
};

static inline struct pid_ns pid_ns_own(void)
{
	struct pid_ns own = {0};
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == PID_NS_FIRST)
		return own;
	own.inode = (uint32_t)st.st_ino;
	own.dev = (uint64_t)st.st_dev;
	return own;
}
