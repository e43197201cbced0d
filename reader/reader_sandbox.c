/* SPDX-License-Identifier: Apache-2.0
 * reader_sandbox.c - drops the privileges of openers and parsers.
 * A system call that the filter does not allow fails with EPERM instead of killing. The process is
 * as confined, and an optional call of a library (a sanitizer's, libelf's mmap) does no harm. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "reader/reader_internal.h"

/* Each parser gets its own uid: a process with the same uid could stop or kill it. The range lies
 * above what systemd and user namespaces assign (0x7fffffff), and below (uid_t)-2. */
#define PARSER_UID 0xffff0000u

static int caps_keep(uint64_t mask)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return -errno;
	for (int i = 0; i < 2; i++) {
		uint32_t keep = (uint32_t)(mask >> 32 * i);

		data[i].effective &= keep;
		data[i].permitted &= keep;
		data[i].inheritable = 0;
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

static void limit(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit old, r = {soft, hard};

	if (!getrlimit(what, &old) && r.rlim_max > old.rlim_max)
		r.rlim_max = old.rlim_max;
	if (r.rlim_cur > r.rlim_max)
		r.rlim_cur = r.rlim_max;
	setrlimit(what, &r);
}

/* Keeps access to others' files and memory, and no more: map_files needs CHECKPOINT_RESTORE, before
 * Linux 5.9 SYS_ADMIN. */
int reader_sandbox_opener(void)
{
	uint64_t keep = 1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH |
			1ull << CAP_SYS_ADMIN | 1ull << CAP_DAC_OVERRIDE |
			1ull << 40 /* CAP_CHECKPOINT_RESTORE */;

	prctl(PR_SET_NAME, "sysom-opener");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	limit(RLIMIT_CORE, 0, 0);
	return caps_keep(keep);
}

void reader_sandbox_cpu(uint32_t seconds)
{
	struct rusage used;
	struct rlimit r;

	if (getrusage(RUSAGE_SELF, &used) || getrlimit(RLIMIT_CPU, &r))
		return;
	r.rlim_cur = seconds ? (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds + 1
			     : r.rlim_max;
	setrlimit(RLIMIT_CPU, &r);
}

/* The process's own data so far, which the fork of a large process has, too. */
static uint64_t data_bytes(void)
{
	char text[256] = "";
	unsigned long pages = 0;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 ||
	    sscanf(text, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
		pages = 0;
	if (fd >= 0)
		close(fd);
	return (uint64_t)pages * 4096;
}

static const uint16_t allowed[] = {
    SYS_read,	      SYS_write,	   SYS_close,
    SYS_fstat,	      SYS_newfstatat,	   SYS_lseek,
    SYS_munmap,	      SYS_mremap,	   SYS_brk,
    SYS_rt_sigreturn, SYS_pread64,	   SYS_pwrite64,
    SYS_readv,	      SYS_writev,	   SYS_madvise,
    SYS_sendmsg,      SYS_recvmsg,	   SYS_exit,
    SYS_exit_group,   SYS_futex,	   SYS_clock_gettime,
    SYS_getrandom,    SYS_memfd_create,	   SYS_fcntl,
    SYS_ftruncate,    SYS_getrusage,	   SYS_getrlimit,
    SYS_setrlimit,    SYS_restart_syscall,
};

#define COUNT	 (sizeof(allowed) / sizeof(allowed[0]))
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define REFUSE	 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW	 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Also allows mmap and mprotect without PROT_EXEC, and the process's own limits (in the C library
 * setrlimit is prlimit64). */
static int filter(void)
{
	static struct sock_filter f[2 * COUNT + 32];
	struct sock_fprog program = {0, f};
	unsigned short n = 0;

	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	f[n++] = (struct sock_filter)REFUSE;
	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < COUNT; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		f[n++] = (struct sock_filter)ALLOW;
	}
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0);
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4);
	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, args[2]));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
	f[n++] = (struct sock_filter)REFUSE;
	f[n++] = (struct sock_filter)ALLOW;
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 3);
	f[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, args[0]));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
	f[n++] = (struct sock_filter)ALLOW;
	f[n++] = (struct sock_filter)REFUSE;
	program.len = n;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? -errno : 0;
}

int reader_sandbox_parser(uint32_t slot)
{
	const uid_t uid = PARSER_UID + slot;
	int err = 0;

	prctl(PR_SET_NAME, "sysom-parser");
	limit(RLIMIT_CORE, 0, 0);
	limit(RLIMIT_NOFILE, 32, 32);
	limit(RLIMIT_FSIZE, LIMIT_READER_FILE_BYTES, LIMIT_READER_FILE_BYTES);
#ifndef SANITIZED
	limit(RLIMIT_DATA, data_bytes() + LIMIT_READER_DATA_BYTES,
	      data_bytes() + LIMIT_READER_DATA_BYTES);
#endif
	/* an answer that is too large is an error and must not kill the process */
	signal(SIGXFSZ, SIG_IGN);
	/* if these fail (in a user namespace), the filter and the lack of capabilities have to
	 * suffice */
	if (geteuid() == 0 && !setgroups(0, NULL) && !setresgid(uid, uid, uid))
		err = setresuid(uid, uid, uid);
	err = caps_keep(0);
	if (err)
		return err;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return -errno;
	return filter();
}
