/* SPDX-License-Identifier: Apache-2.0
 * Real cgroups of version 2: a job, and beside it a sidecar in a cgroup namespace of its own. */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sidecar/os/os_proc.h"
#include "skip.h"

static char pod[256]; /* the cgroup that holds both */
static char sys[64];  /* the sidecar's /sys */
static pid_t job;

static bool write_text(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	ok = f && fputs(text, f) >= 0;
	return (!f || !fclose(f)) && ok;
}

/* A process that waits in a new group below the Pod's. */
static pid_t process_in(const char *name)
{
	char dir[512], pid[16];
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	snprintf(dir, sizeof(dir), "%s/%s", pod, name);
	snprintf(pid, sizeof(pid), "%d", (int)child);
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_true(write_text(dir, "cgroup.procs", pid));
	return child;
}

static void end(pid_t child, const char *name)
{
	char dir[512];

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	snprintf(dir, sizeof(dir), "%s/%s", pod, name);
	rmdir(dir);
}

static int make_pod(void **state)
{
	const char *mount = access("/sys/fs/cgroup/unified/cgroup.procs", F_OK)
				? "/sys/fs/cgroup"
				: "/sys/fs/cgroup/unified";

	strcpy(sys, "/tmp/test_os_hierarchy_XXXXXX");
	snprintf(pod, sizeof(pod), "%s/sysom-test-%d", mount, (int)getpid());
	if (geteuid() || mkdir(pod, 0755)) {
		*pod = '\0';
		return 0;
	}
	job = process_in("job");
	return mkdtemp(sys) ? 0 : -1;
}

static int remove_pod(void **state)
{
	if (!*pod)
		return 0;
	end(job, "job");
	rmdir(pod);
	rmdir(sys);
	return 0;
}

/* The calling process becomes the sidecar: its mount begins at its own group. */
static bool become_sidecar(void)
{
	char dir[512], pid[16];

	snprintf(dir, sizeof(dir), "%s/sidecar", pod);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (mkdir(dir, 0755) || !write_text(dir, "cgroup.procs", pid) ||
	    unshare(CLONE_NEWCGROUP | CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", sys, "tmpfs", 0, NULL))
		return false;
	snprintf(dir, sizeof(dir), "%s/fs", sys);
	mkdir(dir, 0755);
	snprintf(dir, sizeof(dir), "%s/fs/cgroup", sys);
	return !mkdir(dir, 0755) && !mount("none", dir, "cgroup2", 0, NULL);
}

static bool drop(unsigned capability)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data))
		return false;
	data[capability / 32].effective &= ~(1u << capability % 32);
	data[capability / 32].permitted &= ~(1u << capability % 32);
	return !syscall(SYS_capset, &head, data);
}

static bool holds(const char *dir, pid_t pid)
{
	char path[OS_CGROUP_BYTES + 16];
	bool found = false;
	int got;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	f = fopen(path, "re");
	while (f && !found && fscanf(f, "%d", &got) == 1)
		found = got == pid;
	if (f)
		fclose(f);
	return found;
}

/* What the sidecar sees, as bits, in a process of its own. */
enum { SIDECAR = 1, FOUND = 2, HIDDEN = 4, INSIDE = 8, POD = 16, SELF = 32 };

static int look(bool may)
{
	struct os_hierarchies h = {0};
	struct os_proc_cgroup own, other;
	char above[OS_CGROUP_BYTES];
	int seen = SIDECAR;

	if (!become_sidecar() || (!may && !drop(CAP_DAC_READ_SEARCH)))
		return 0;
	os_proc_cgroup_find(&h, "/proc", sys, (uint32_t)job, &other);
	os_proc_cgroup_find(&h, "/proc", sys, (uint32_t)getpid(), &own);
	seen |= holds(other.unified, job) ? FOUND : 0;
	seen |= other.hidden ? HIDDEN : 0;
	seen |= os_hierarchy_is_inside(&h) ? INSIDE : 0;
	seen |= (may ? holds(own.unified, getpid()) : !own.hidden) ? SELF : 0;
	/* the second level is the Pod's group: the job's without its last name */
	snprintf(above, sizeof(above), "%s", other.unified);
	if (strrchr(above, '/'))
		*strrchr(above, '/') = '\0';
	seen |= other.memory.count > 2 && !strcmp(other.memory.path[1], above) ? POD : 0;
	os_hierarchy_fini(&h);
	return seen;
}

static int seen_by_sidecar(bool may)
{
	char dir[512];
	int status;
	pid_t child = fork();

	if (!child)
		_exit(look(may));
	assert_int_equal(waitpid(child, &status, 0), child);
	snprintf(dir, sizeof(dir), "%s/sidecar", pod);
	rmdir(dir);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void a_sidecar_finds_the_jobs_group_and_those_above(void **state)
{
	if (!*pod)
		skip_needs("cgroup2");
	assert_int_equal(seen_by_sidecar(true), SIDECAR | FOUND | POD | SELF);
}

static void without_the_capability_the_jobs_group_is_hidden_and_its_own_is_not(void **state)
{
	if (!*pod)
		skip_needs("cgroup2");
	assert_int_equal(seen_by_sidecar(false), SIDECAR | HIDDEN | INSIDE | SELF);
}

static void on_the_host_nothing_is_hidden(void **state)
{
	struct os_hierarchies h = {0};
	struct os_proc_cgroup c;

	if (!*pod)
		skip_needs("cgroup2");
	os_proc_cgroup_find(&h, "/proc", "/sys", (uint32_t)job, &c);
	assert_true(holds(c.unified, job));
	assert_false(c.hidden);
	os_hierarchy_fini(&h);
}

static void a_path_beyond_the_root_or_too_long_is_an_error(void **state)
{
	struct os_hierarchies h = {0};
	char path[OS_CGROUP_BYTES], group[OS_CGROUP_BYTES + 2];
	const char *root;

	assert_int_equal(os_hierarchy_find(&h, "/proc", "/nowhere", "/a/b", &root, path), 0);
	assert_string_equal(root, "/nowhere");
	assert_string_equal(path, "/a/b");
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/nowhere", "/..x", &root, path), 0);
	assert_string_equal(path, "/..x");
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/nowhere", "/../b", &root, path), -ENOENT);
	memset(group, 'g', sizeof(group));
	group[0] = '/';
	group[sizeof(group) - 1] = '\0';
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/nowhere", group, &root, path),
			 -ENAMETOOLONG);
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/b", "/", &root, path), 0);
	assert_string_equal(path, "/");
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/c", "/", &root, path), 0);
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/d", "/", &root, path), 0);
	assert_int_equal(os_hierarchy_find(&h, "/proc", "/e", "/", &root, path), -ENOSPC);
	os_hierarchy_fini(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_sidecar_finds_the_jobs_group_and_those_above),
	    cmocka_unit_test(without_the_capability_the_jobs_group_is_hidden_and_its_own_is_not),
	    cmocka_unit_test(on_the_host_nothing_is_hidden),
	    cmocka_unit_test(a_path_beyond_the_root_or_too_long_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_pod, remove_pod);
}
