/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
 * read_user.h - how code that runs both in the kernel and in user space reads a process's memory.
 * In a BPF program it is the helper. In user space it is whatever the calling thread has set as
 * read_user_source: a stopped process, a live one, or a recorded snapshot. */
#ifndef SYSOM_BPF_READ_USER_H
#define SYSOM_BPF_READ_USER_H

#include <linux/types.h>

#ifdef __bpf__

#ifndef UNWIND_READ_USER
#define UNWIND_READ_USER
/* bytes of memory at address to dst. 0, or negative: not readable (dst is zeroed).
 * libbpf turns it into bpf_probe_read on kernels before 5.5. */
static __always_inline long unwind_read_user(void *dst, __u32 bytes, __u64 address)
{
	return bpf_probe_read_user(dst, bytes, (const void *)address);
}
#endif

#else

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

struct read_user {
	/* As unwind_read_user. */
	long (*read)(void *owner, void *dst, __u32 bytes, __u64 address);
	void *owner;
};
/* Set by whoever calls code of bpf/ in user space, before the call (sampler/read_user.c). */
extern __thread struct read_user read_user_source;

#ifndef UNWIND_READ_USER
#define UNWIND_READ_USER
static __always_inline long unwind_read_user(void *dst, __u32 bytes, __u64 address)
{
	return read_user_source.read(read_user_source.owner, dst, bytes, address);
}
#endif

#endif
#endif
