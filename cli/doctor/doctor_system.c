/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "render/term.h"

/* The recorder's files (1 GB), the spool (500 MB) and a margin. */
#define STATE_WANTED_BYTES 2e9
#define STATE_LEAST_BYTES  1e8
/* sysomd needs a socket and a memfd per process, the aggregator a connection per node. */
#define FILES_WANTED 4096

static void check_kernel(struct doctor *d)
{
	int major = 0, minor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	if (major > 5 || (major == 5 && minor >= 4))
		doctor_add(d, "kernel", DOCTOR_OK, "", "%s %s", u.release, u.machine);
	else
		doctor_add(d, "kernel", DOCTOR_WARN, "use Linux 5.4 or later",
			   "%s is older than 5.4", u.release);
}

static void check_memfd(struct doctor *d)
{
	int fd = memfd_create("sysom-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const char *remedy = "use a kernel or sandbox that allows memfd_create with seals";

	if (fd < 0 || ftruncate(fd, 8192) || fcntl(fd, F_ADD_SEALS, seals)) {
		doctor_add(d, "memfd seals", DOCTOR_FAIL, remedy, "%s", strerror(errno));
	} else if ((fcntl(fd, F_GET_SEALS) & seals) != seals || ftruncate(fd, 4096) == 0) {
		doctor_add(d, "memfd seals", DOCTOR_FAIL, remedy,
			   "seals are accepted but not enforced");
	} else {
		doctor_add(d, "memfd seals", DOCTOR_OK, "",
			   "rings can be sealed against truncation");
	}
	if (fd >= 0)
		close(fd);
}

static void read_page(void *arg, int fd)
{
	const volatile unsigned char *page = arg;

	dprintf(fd, "%d", page[0]);
}

static void check_wipe_on_fork(struct doctor *d)
{
	unsigned char *page =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char out[16];

	if (page == MAP_FAILED)
		return;
	page[0] = 1;
	if (madvise(page, 4096, MADV_WIPEONFORK) == 0 &&
	    doctor_child(read_page, page, out, sizeof(out)) == 0 && strcmp(out, "0") == 0)
		doctor_add(d, "wipe on fork", DOCTOR_OK, "",
			   "forked children stop tracing by themselves");
	else
		doctor_add(
		    d, "wipe on fork", DOCTOR_WARN, "use Linux 4.14 or later (MADV_WIPEONFORK)",
		    "not available: forked children (DataLoader) are recognised by pid only");
	munmap(page, 4096);
}

static bool cpuinfo_has(const char *flag)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (f && !found && getline(&line, &room, f) > 0)
		if (strncmp(line, "flags", 5) == 0) {
			found = strstr(line, flag) != NULL;
			break;
		}
	free(line);
	if (f)
		fclose(f);
	return found;
}

static void check_clock(struct doctor *d)
{
#if defined(__x86_64__)
	if (cpuinfo_has(" constant_tsc") && cpuinfo_has(" nonstop_tsc"))
		doctor_add(d, "clock", DOCTOR_OK, "", "invariant TSC");
	else
		doctor_add(d, "clock", DOCTOR_WARN,
			   "in a virtual machine, pass the host's CPU model through",
			   "no invariant TSC: time stamps come from clock_gettime and cost more");
#else
	doctor_add(d, "clock", DOCTOR_OK, "", "the machine's counter is constant by architecture");
#endif
}

static void check_state_dir(struct doctor *d, const char *dir)
{
	char path[4096];
	struct statvfs v;
	double free_bytes;
	struct stat st;

	if (stat(dir, &st))
		doctor_add(d, "state directory", errno == ENOENT ? DOCTOR_WARN : DOCTOR_FAIL,
			   "check the path (--state-dir); sysomd creates it when it starts",
			   "%s: %s", dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		doctor_add(d, "state directory", DOCTOR_FAIL, "give a directory (--state-dir)",
			   "%s is not a directory", dir);
	snprintf(path, sizeof(path), "%s", dir);
	/* if it does not exist yet, take the nearest parent's file system */
	while (statvfs(path, &v)) {
		char *slash = strrchr(path, '/');

		if (!slash || slash == path) {
			strcpy(path, "/");
			if (statvfs(path, &v))
				return;
			break;
		}
		*slash = '\0';
	}
	free_bytes = (double)v.f_bavail * (double)v.f_frsize;
	if (free_bytes >= STATE_WANTED_BYTES)
		doctor_add(d, "disk space", DOCTOR_OK, "", "%s free for %s", term_bytes(free_bytes),
			   dir);
	else
		doctor_add(d, "disk space",
			   free_bytes < STATE_LEAST_BYTES ? DOCTOR_FAIL : DOCTOR_WARN,
			   "make room, or set the state directory to another disk (--state-dir)",
			   "%s free for %s; the recorder and spool may take 1.5 GB",
			   term_bytes(free_bytes), dir);
}

static void check_files(struct doctor *d)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return;
	if (r.rlim_max >= FILES_WANTED)
		doctor_add(d, "open files", DOCTOR_OK, "", "%llu now, %llu at most",
			   (unsigned long long)r.rlim_cur, (unsigned long long)r.rlim_max);
	else
		doctor_add(d, "open files", DOCTOR_WARN,
			   "raise the hard limit (LimitNOFILE=, ulimit -Hn)",
			   "at most %llu; an aggregator for many nodes needs more than %d",
			   (unsigned long long)r.rlim_max, FILES_WANTED);
}

void doctor_system_check(struct doctor *d, const char *state_dir)
{
	check_kernel(d);
	check_memfd(d);
	check_wipe_on_fork(d);
	check_clock(d);
	check_files(d);
	check_state_dir(d, state_dir);
}
