/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/os/os_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text/text.h"
#include "sampler/cpu_list.h"

#define PATH_BYTES    (OS_CGROUP_BYTES + 64)
#define TASKS_MAX     512u
#define PROCESSES_MAX 65536u
#define LINES_MAX     20000u
#define FILES_MAX     8192u
#define NETNS_MAX     1024u
#define CLOCK_MAX_KHZ 100000000u

/* Reads a whole small file and terminates it. Returns the number of bytes or -errno. */
static ssize_t slurp(const char *path, char *out, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, out, bytes - 1);
	close(fd);
	if (n < 0)
		return -errno;
	out[n] = '\0';
	return n;
}

static bool is_number(const char *text, uint32_t *out)
{
	uint64_t v;

	if (!text_number(text, INT32_MAX, &v))
		return false;
	*out = (uint32_t)v;
	return true;
}

int os_proc_stat(const char *proc, uint32_t pid, struct os_proc_stat *out)
{
	unsigned long long minor, major;
	char path[PATH_BYTES], text[1024];
	unsigned parent;
	char *end;

	snprintf(path, sizeof(path), "%s/%u/stat", proc, pid);
	if (slurp(path, text, sizeof(text)) <= 0)
		return -ESRCH;
	end = strrchr(text, ')'); /* the name may contain anything */
	if (!end || sscanf(end + 1, " %*c %u %*d %*d %*d %*d %*u %llu %*u %llu", &parent, &minor,
			   &major) != 3)
		return -ESRCH;
	*out =
	    (struct os_proc_stat){.parent = parent, .faults = minor + major, .faults_major = major};
	return 0;
}

struct link {
	uint32_t pid, parent;
};

static bool has(const uint32_t *list, uint32_t count, uint32_t pid)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == pid)
			return true;
	return false;
}

uint32_t os_proc_children(const char *proc, uint32_t root, const uint32_t *others,
			  uint32_t other_count, uint32_t *out, uint32_t max)
{
	struct link *links = malloc(PROCESSES_MAX * sizeof(*links));
	DIR *d = links ? opendir(proc) : NULL;
	uint32_t count = 0, found = 0, before;
	struct os_proc_stat st;
	struct dirent *e;
	uint32_t pid;

	while (d && (e = readdir(d)) && count < PROCESSES_MAX)
		if (is_number(e->d_name, &pid) && !os_proc_stat(proc, pid, &st))
			links[count++] = (struct link){pid, st.parent};
	if (d)
		closedir(d);
	do { /* repeated, because a child may be listed before its parent */
		before = found;
		for (uint32_t i = 0; i < count && found < max; i++)
			if (links[i].pid != root && !has(others, other_count, links[i].pid) &&
			    !has(out, found, links[i].pid) &&
			    (links[i].parent == root || has(out, found, links[i].parent)))
				out[found++] = links[i].pid;
	} while (found > before);
	free(links);
	return found;
}

/* cpufreq counts in kHz. */
static double clock_file(const char *sys, uint32_t cpu, const char *name)
{
	char path[PATH_BYTES], text[32];
	uint64_t khz;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/cpu%u/cpufreq/%s", sys, cpu, name);
	if (slurp(path, text, sizeof(text)) <= 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return text_number(text, CLOCK_MAX_KHZ, &khz) ? (double)khz * 1e-3 : 0;
}

int os_proc_clock(const char *sys, uint32_t cpu, double *mhz, double *most_mhz)
{
	*mhz = clock_file(sys, cpu, "scaling_cur_freq");
	*most_mhz = clock_file(sys, cpu, "cpuinfo_max_freq");
	return *mhz > 0 ? 0 : -ENOENT;
}

void os_proc_name(const char *proc, uint32_t pid, uint32_t tid, char *out, size_t bytes)
{
	char path[PATH_BYTES];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%u/task/%u/comm", proc, pid, tid);
	n = slurp(path, out, bytes);
	if (n <= 0) {
		snprintf(out, bytes, "?");
		return;
	}
	out[strcspn(out, "\n")] = '\0';
}

void os_proc_run_wait(const char *proc, uint32_t pid,
		      void (*fn)(void *arg, uint32_t tid, uint64_t wait_ns), void *arg)
{
	char path[PATH_BYTES], text[128];
	uint32_t seen = 0, tid;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%u/task", proc, pid);
	d = opendir(path);
	while (d && (e = readdir(d)) && seen < TASKS_MAX) {
		unsigned long long ran, waited;

		if (!is_number(e->d_name, &tid))
			continue;
		seen++;
		snprintf(path, sizeof(path), "%s/%u/task/%u/schedstat", proc, pid, tid);
		if (slurp(path, text, sizeof(text)) > 0 &&
		    sscanf(text, "%llu %llu", &ran, &waited) == 2)
			fn(arg, tid, waited);
	}
	if (d)
		closedir(d);
}

/* "some" of a pressure file. */
static int pressure(const char *path, uint64_t *us)
{
	char text[512];
	unsigned long long total;
	const char *at;

	if (slurp(path, text, sizeof(text)) <= 0)
		return -ENOENT;
	at = strstr(text, "total=");
	if (strncmp(text, "some ", 5) || !at || sscanf(at, "total=%llu", &total) != 1)
		return -ENOENT;
	*us = total;
	return 0;
}

int os_proc_pressure(const char *proc, const char *what, uint64_t *us)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/pressure/%s", proc, what);
	return pressure(path, us);
}

/* A holder's line: "1: FLOCK ADVISORY WRITE 7832 fe:00:11051247 0 EOF". Its waiters follow with the
 * same number and an arrow: "1: -> FLOCK ADVISORY WRITE 7840 ...". */
uint32_t os_proc_locks(const char *proc, struct os_proc_lock *out, uint32_t max)
{
	char path[PATH_BYTES], line[256];
	unsigned long long id, held = 0;
	uint32_t holder = 0, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/locks", proc);
	f = fopen(path, "re");
	for (uint32_t i = 0; f && i < LINES_MAX && n < max && fgets(line, sizeof(line), f); i++) {
		int pid;

		if (sscanf(line, "%llu: -> %*s %*s %*s %d", &id, &pid) == 2) {
			if (id == held && holder && pid > 0)
				out[n++] = (struct os_proc_lock){(uint32_t)pid, holder};
		} else if (sscanf(line, "%llu: %*s %*s %*s %d", &id, &pid) == 2) {
			held = id;
			holder = pid > 0 ? (uint32_t)pid : 0;
		}
	}
	if (f)
		fclose(f);
	return n;
}

int os_proc_steal(const char *proc, uint64_t *us)
{
	char path[PATH_BYTES], text[512];
	unsigned long long steal;

	snprintf(path, sizeof(path), "%s/stat", proc);
	if (slurp(path, text, sizeof(text)) <= 0 ||
	    sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &steal) != 1)
		return -ENOENT;
	*us = steal * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}

/* ---- cgroups ---- */

static bool names(const char *controllers, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = controllers; *at;
	     at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
		if (strcspn(at, ",") == n && !strncmp(at, name, n))
			return true;
	return false;
}

/* The directories of the group and of its ancestors. */
static uint32_t directories(char (*out)[OS_CGROUP_BYTES], uint32_t max, const char *root,
			    const char *group)
{
	uint32_t count = 0;
	char at[OS_CGROUP_BYTES];
	char *slash;

	snprintf(at, sizeof(at), "%s", group);
	while (count < max) {
		bool top = !strcmp(at, "/") || !*at;
		int n = snprintf(out[count], sizeof(out[0]), "%s%s", root, top ? "" : at);

		if (n < (int)sizeof(out[0]) && !access(out[count], R_OK))
			count++;
		slash = strrchr(at, '/');
		if (top || !slash)
			break;
		*slash = '\0';
	}
	return count;
}

static void add_cpu(struct os_proc_cgroup *out, const char *root, const char *group)
{
	char dir[OS_PROC_CGROUP_LEVELS][OS_CGROUP_BYTES];
	uint32_t n = directories(dir, OS_PROC_CGROUP_LEVELS, root, group);

	for (uint32_t i = 0; i < n && out->count < OS_PROC_CGROUP_LEVELS; i++) {
		char *to = out->path[out->count];

		if (snprintf(to, sizeof(out->path[0]), "%s/cpu.stat", dir[i]) <
			(int)sizeof(out->path[0]) &&
		    !access(to, R_OK))
			out->count++;
	}
}

static void set_dirs(struct os_proc_cgroup_dirs *d, const char *root, const char *group, bool v2)
{
	d->count = directories(d->path, OS_PROC_CGROUP_LEVELS, root, group);
	d->v2 = v2;
}

static void add_unified(struct os_proc_cgroup *out, const char *root, const char *group)
{
	char dir[1][OS_CGROUP_BYTES];

	add_cpu(out, root, group);
	/* the root group's pressure is the host's, which is another signal */
	if (strcmp(group, "/") && directories(dir, 1, root, group))
		memcpy(out->unified, dir[0], sizeof(out->unified));
	/* if the v1 controller is mounted, it has the limits */
	if (!out->io.count)
		set_dirs(&out->io, root, group, true);
	if (!out->memory.count)
		set_dirs(&out->memory, root, group, true);
}

static void add_group(struct os_hierarchies *h, const char *proc, const char *sys,
		      const char *controller, const char *group, struct os_proc_cgroup *out)
{
	char mount[OS_CGROUP_BYTES], path[OS_CGROUP_BYTES];
	const char *root;
	int err;

	snprintf(mount, sizeof(mount), "%.400s/fs/cgroup/%s", sys, controller);
	if (!strcmp(controller, "unified") && access(mount, F_OK))
		snprintf(mount, sizeof(mount), "%.400s/fs/cgroup", sys);
	err = os_hierarchy_find(h, proc, mount, group, &root, path);
	out->hidden |= err == -EACCES;
	if (err)
		return;
	if (!strcmp(controller, "unified"))
		add_unified(out, root, path);
	else if (!strcmp(controller, "cpu"))
		add_cpu(out, root, path);
	else
		set_dirs(*controller == 'b' ? &out->io : &out->memory, root, path, false);
}

void os_proc_cgroup_find(struct os_hierarchies *h, const char *proc, const char *sys, uint32_t pid,
			 struct os_proc_cgroup *out)
{
	static const char *const used[] = {"cpu", "blkio", "memory"};
	char path[PATH_BYTES], text[8192];
	char *line, *next = text;

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "%s/%u/cgroup", proc, pid);
	if (slurp(path, text, sizeof(text)) <= 0)
		return;
	while ((line = strsep(&next, "\n"))) {
		char *controllers = strchr(line, ':'), *group;

		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = '\0';
		if (!*++controllers)
			add_group(h, proc, sys, "unified", group, out);
		for (size_t i = 0; i < ARRAY_LEN(used); i++)
			if (names(controllers, used[i]))
				add_group(h, proc, sys, used[i], group, out);
	}
}

bool os_proc_cgroup_throttled(const struct os_proc_cgroup *c, uint64_t *ns)
{
	bool found = false;

	*ns = 0;
	for (uint32_t i = 0; i < c->count; i++) {
		unsigned long long v;
		char text[1024];
		const char *at;

		if (slurp(c->path[i], text, sizeof(text)) <= 0)
			continue;
		at = strstr(text, "throttled_usec ");
		if (at && sscanf(at, "throttled_usec %llu", &v) == 1) {
			*ns += v * 1000;
			found = true;
		}
		at = strstr(text, "throttled_time ");
		if (at && sscanf(at, "throttled_time %llu", &v) == 1) {
			*ns += v;
			found = true;
		}
	}
	return found;
}

/* Version 1 writes "no limit" as a number near 2^63. */
#define MEMORY_LIMIT_MAX (1ull << 62)

static uint64_t memory_limit(const char *dir, bool v2)
{
	static const char *const files[2][2] = {{"memory.limit_in_bytes", ""},
						{"memory.high", "memory.max"}};
	uint64_t least = 0;

	for (int i = 0; i < 2 && *files[v2][i]; i++) {
		char path[PATH_BYTES], text[64];
		unsigned long long v;

		snprintf(path, sizeof(path), "%s/%s", dir, files[v2][i]);
		if (slurp(path, text, sizeof(text)) <= 0 || sscanf(text, "%llu", &v) != 1)
			continue; /* "max" */
		if (v > 0 && v < MEMORY_LIMIT_MAX && (!least || v < least))
			least = v;
	}
	return least;
}

/* Refaults of anonymous and of file pages: "workingset_refault_file 12". Version 1 sums them with
 * the groups below as "total_...". */
static bool memory_refaults(const char *dir, bool v2, uint64_t *pages)
{
	const char *name = v2 ? "workingset_refault" : "total_workingset_refault";
	char path[PATH_BYTES], text[16384], *line, *next = text;
	bool found = false;

	*pages = 0;
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	if (slurp(path, text, sizeof(text)) <= 0)
		return false;
	while ((line = strsep(&next, "\n"))) {
		const char *value = strchr(line, ' ');

		if (strncmp(line, name, strlen(name)) || !value)
			continue;
		*pages += strtoull(value, NULL, 10);
		found = true;
	}
	return found;
}

bool os_proc_cgroup_memory(const struct os_proc_cgroup *c, struct os_proc_memory *out)
{
	const struct os_proc_cgroup_dirs *d = &c->memory;

	*out = (struct os_proc_memory){.level = 0};
	for (uint32_t i = 0; i < d->count; i++) {
		uint64_t v = memory_limit(d->path[i], d->v2);

		if (!v || (out->limit_bytes && v >= out->limit_bytes))
			continue;
		out->limit_bytes = v;
		out->level = i;
	}
	return out->limit_bytes && memory_refaults(d->path[out->level], d->v2, &out->refaults);
}

int os_proc_cgroup_pressure(const struct os_proc_cgroup *c, const char *what, uint64_t *us)
{
	char path[PATH_BYTES];

	if (!*c->unified)
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/%s.pressure", c->unified, what);
	return pressure(path, us);
}

static struct os_proc_io_limit *limit_of(struct os_proc_io_limit *out, uint32_t *count,
					 uint32_t max, uint32_t device, bool write, uint32_t level)
{
	for (uint32_t i = 0; i < *count; i++)
		if (out[i].device == device && out[i].write == write && out[i].level == level)
			return &out[i];
	if (*count == max)
		return NULL;
	out[*count] = (struct os_proc_io_limit){.device = device, .write = write, .level = level};
	return &out[(*count)++];
}

struct io_lines {
	struct os_proc_io_limit *out;
	uint32_t *count;
	uint32_t max, level;
	bool write, ops; /* of a v1 file */
};

/* Calls fn with each line of a file, without the device. */
static void each_line(const char *dir, const char *name, struct io_lines *a,
		      void (*fn)(struct io_lines *a, uint32_t device, const char *rest))
{
	char path[PATH_BYTES], text[8192], *line, *next = text;
	unsigned major, minor;
	int used;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (slurp(path, text, sizeof(text)) <= 0)
		return;
	while ((line = strsep(&next, "\n")))
		if (sscanf(line, "%u:%u %n", &major, &minor, &used) == 2 && major < 4096 &&
		    minor < 1u << 20)
			fn(a, major << 20 | minor, line + used);
}

static void v1_limit(struct io_lines *a, uint32_t device, const char *rest)
{
	struct os_proc_io_limit *l;
	unsigned long long v;

	if (sscanf(rest, "%llu", &v) != 1 || !v)
		return;
	l = limit_of(a->out, a->count, a->max, device, a->write, a->level);
	if (l && a->ops)
		l->ops_max = v;
	else if (l)
		l->bytes_max = v;
}

/* The limit that this counter belongs to; NULL: none. */
static struct os_proc_io_limit *known_limit(struct io_lines *a, uint32_t device, bool write)
{
	for (uint32_t i = 0; i < *a->count; i++)
		if (a->out[i].device == device && a->out[i].write == write &&
		    a->out[i].level == a->level)
			return &a->out[i];
	return NULL;
}

static void v1_count(struct io_lines *a, uint32_t device, const char *rest)
{
	struct os_proc_io_limit *l;
	unsigned long long v;
	char what[16];

	if (sscanf(rest, "%15s %llu", what, &v) != 2 ||
	    (strcmp(what, "Read") && strcmp(what, "Write")))
		return;
	l = known_limit(a, device, !strcmp(what, "Write"));
	if (l && a->ops)
		l->ops = v;
	else if (l)
		l->bytes = v;
}

/* "rbps=1048576"; "max" and a missing name are 0. */
static uint64_t value_after(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void v2_limit(struct io_lines *a, uint32_t device, const char *rest)
{
	static const char *const names_of[2][2] = {{"rbps=", "riops="}, {"wbps=", "wiops="}};

	for (int write = 0; write < 2; write++) {
		uint64_t bytes = value_after(rest, names_of[write][0]);
		uint64_t ops = value_after(rest, names_of[write][1]);
		struct os_proc_io_limit *l;

		if (!bytes && !ops)
			continue;
		l = limit_of(a->out, a->count, a->max, device, write, a->level);
		if (l) {
			l->bytes_max = bytes;
			l->ops_max = ops;
		}
	}
}

static void v2_count(struct io_lines *a, uint32_t device, const char *rest)
{
	struct os_proc_io_limit *l = known_limit(a, device, false);

	if (l) {
		l->bytes = value_after(rest, "rbytes=");
		l->ops = value_after(rest, "rios=");
	}
	l = known_limit(a, device, true);
	if (l) {
		l->bytes = value_after(rest, "wbytes=");
		l->ops = value_after(rest, "wios=");
	}
}

static void v1_level(const char *dir, struct io_lines *a)
{
	static const struct {
		const char *file;
		bool write, ops;
	} limits[] = {{"blkio.throttle.read_bps_device", false, false},
		      {"blkio.throttle.write_bps_device", true, false},
		      {"blkio.throttle.read_iops_device", false, true},
		      {"blkio.throttle.write_iops_device", true, true}};
	uint32_t before = *a->count;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		a->write = limits[i].write;
		a->ops = limits[i].ops;
		each_line(dir, limits[i].file, a, v1_limit);
	}
	if (*a->count == before)
		return;
	for (int ops = 0; ops < 2; ops++) {
		a->ops = ops;
		each_line(dir,
			  ops ? "blkio.throttle.io_serviced" : "blkio.throttle.io_service_bytes", a,
			  v1_count);
		/* includes the groups below, if the kernel counts them */
		each_line(dir,
			  ops ? "blkio.throttle.io_serviced_recursive"
			      : "blkio.throttle.io_service_bytes_recursive",
			  a, v1_count);
	}
}

uint32_t os_proc_cgroup_io(const struct os_proc_cgroup *c, struct os_proc_io_limit *out,
			   uint32_t max)
{
	uint32_t count = 0;
	struct io_lines a = {.out = out, .count = &count, .max = max};

	for (a.level = 0; a.level < c->io.count; a.level++) {
		if (!c->io.v2) {
			v1_level(c->io.path[a.level], &a);
			continue;
		}
		each_line(c->io.path[a.level], "io.max", &a, v2_limit);
		each_line(c->io.path[a.level], "io.stat", &a, v2_count);
	}
	return count;
}

/* ---- machine ---- */

static void set_cpus(const char *list, uint8_t node, uint8_t *table)
{
	unsigned from, to;

	while ((list = cpu_list_next(list, &from, &to)))
		for (; from <= to && from < OS_CPU_MAX; from++)
			table[from] = node;
}

uint32_t os_proc_numa(const char *sys, uint8_t *table)
{
	char path[PATH_BYTES], text[4096];
	uint32_t count = 0, node;
	struct dirent *e;
	DIR *d;

	memset(table, 0, OS_CPU_MAX);
	snprintf(path, sizeof(path), "%s/devices/system/node", sys);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, "node", 4) || !is_number(e->d_name + 4, &node) || node > 255)
			continue;
		count++;
		snprintf(path, sizeof(path), "%s/devices/system/node/node%u/cpulist", sys, node);
		if (slurp(path, text, sizeof(text)) > 0)
			set_cpus(text, (uint8_t)node, table);
	}
	if (d)
		closedir(d);
	return count;
}

void os_proc_disk_name(const char *sys, uint32_t device, char *out, size_t bytes)
{
	char path[PATH_BYTES], to[PATH_BYTES];
	const char *base;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", sys, device >> 20, device & 0xfffff);
	n = readlink(path, to, sizeof(to) - 1);
	if (n <= 0) {
		snprintf(out, bytes, "disk %u:%u", device >> 20, device & 0xfffff);
		return;
	}
	to[n] = '\0';
	base = strrchr(to, '/');
	snprintf(out, bytes, "%s", base ? base + 1 : to);
}

static bool is_netns_of(const char *proc, const char *pid, uint32_t inode)
{
	char path[PATH_BYTES];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s/ns/net", proc, pid);
	return !stat(path, &st) && (uint32_t)st.st_ino == inode;
}

/* Whether `ip netns` has named the namespace, as that process sees it. out: the name. */
static bool named_by(const char *proc, const char *pid, uint32_t inode, char *out, size_t bytes)
{
	char path[PATH_BYTES];
	uint32_t seen = 0;
	bool found = false;
	struct dirent *e;
	struct stat st;
	DIR *d;

	snprintf(path, sizeof(path), "%s/%s/root/run/netns", proc, pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d)) && seen++ < NETNS_MAX) {
		found = *e->d_name != '.' && !fstatat(dirfd(d), e->d_name, &st, 0) &&
			(uint32_t)st.st_ino == inode;
		if (found)
			snprintf(out, bytes, "netns %s", e->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

void os_proc_netns_name(const char *proc, uint32_t inode, char *out, size_t bytes)
{
	*out = '\0';
	if (is_netns_of(proc, "1", inode) || is_netns_of(proc, "self", inode) ||
	    named_by(proc, "1", inode, out, bytes) || named_by(proc, "self", inode, out, bytes))
		return;
	snprintf(out, bytes, "netns:[%u]", inode);
}

/* ---- sockets ---- */

/* Prints addresses as the kernel does: words of network bytes in host order. */
static void print_end(const uint8_t *address, uint32_t words, uint16_t port, char *out,
		      size_t bytes)
{
	size_t used = 0;
	uint32_t word;

	for (uint32_t i = 0; i < words; i++) {
		memcpy(&word, address + 4 * i, 4);
		used += (size_t)snprintf(out + used, bytes - used, "%08X", word);
	}
	snprintf(out + used, bytes - used, ":%04X", port);
}

static unsigned long inode_of(const char *path, const char *local, const char *remote)
{
	FILE *f = fopen(path, "re");
	char line[512], a[64], b[64];
	unsigned long inode, found = 0;

	for (uint32_t i = 0; f && !found && i < LINES_MAX && fgets(line, sizeof(line), f); i++)
		if (sscanf(line, " %*u: %63s %63s %*s %*s %*s %*s %*u %*u %lu", a, b, &inode) ==
			3 &&
		    !strcmp(a, local) && !strcmp(b, remote))
			found = inode;
	if (f)
		fclose(f);
	return found;
}

static bool holds(const char *proc, uint32_t pid, unsigned long inode)
{
	char path[PATH_BYTES], name[64], to[64];
	uint32_t seen = 0;
	bool found = false;
	struct dirent *e;
	DIR *d;

	snprintf(name, sizeof(name), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "%s/%u/fd", proc, pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d)) && seen++ < FILES_MAX) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof(to) - 1);

		if (n <= 0)
			continue;
		to[n] = '\0';
		found = !strcmp(to, name);
	}
	if (d)
		closedir(d);
	return found;
}

uint32_t os_proc_socket_owner(const char *proc, const uint32_t *pids, uint32_t count,
			      const struct os_connection *c)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint32_t words = c->family == AF_INET6 ? 4 : 1;
	char path[PATH_BYTES], local[64], remote[64], local6[64], remote6[64];
	uint8_t wide[16];

	print_end(c->source, words, c->source_port, local, sizeof(local));
	print_end(c->destination, words, c->destination_port, remote, sizeof(remote));
	memcpy(wide, mapped, 12); /* an IPv6 socket with an IPv4 connection */
	memcpy(wide + 12, c->source, 4);
	print_end(wide, 4, c->source_port, local6, sizeof(local6));
	memcpy(wide + 12, c->destination, 4);
	print_end(wide, 4, c->destination_port, remote6, sizeof(remote6));
	for (uint32_t i = 0; i < count; i++) {
		unsigned long inode = 0;

		if (words == 1) {
			snprintf(path, sizeof(path), "%s/%u/net/tcp", proc, pids[i]);
			inode = inode_of(path, local, remote);
		}
		if (!inode) {
			snprintf(path, sizeof(path), "%s/%u/net/tcp6", proc, pids[i]);
			inode = words == 4 ? inode_of(path, local, remote)
					   : inode_of(path, local6, remote6);
		}
		if (inode && holds(proc, pids[i], inode))
			return pids[i];
	}
	return 0;
}
