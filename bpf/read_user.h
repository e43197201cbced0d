/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * read_user.h - reads a process's memory, for code that runs in the kernel and in user space. In a BPF
 * program it calls the helper. In user space it reads from the thread's read_user_source: a stopped
 * process, a live one, or a recorded snapshot. */
#pragma once

#include <linux/types.h>

#ifdef __bpf__

/* libbpf replaces it with bpf_probe_read on kernels before 5.5. */
#ifndef READ_USER_HELPER
#define READ_USER_HELPER bpf_probe_read_user
#endif

/* Copies bytes at address to `to`. 0; negative: not readable. */
static __always_inline long read_user_bytes(void *to, __u32 bytes, __u64 address)
{
	return READ_USER_HELPER(to, bytes, (const void *)address);
}

#else

#include <stdbool.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

struct read_user {
	/* As read_user_bytes. */
	long (*read)(void *owner, void *to, __u32 bytes, __u64 address);
	void *owner;
};
/* In user space the caller sets it before the call (sampler/read_user.c). */
extern __thread struct read_user read_user_source;

static __always_inline long read_user_bytes(void *to, __u32 bytes, __u64 address)
{
	return read_user_source.read(read_user_source.owner, to, bytes, address);
}

static inline bool read_user_from(const struct read_user *memory, void *to, __u32 bytes,
				  __u64 address)
{
	return memory->read(memory->owner, to, bytes, address) == 0;
}

#endif
