/* SPDX-License-Identifier: Apache-2.0
 * The job's mounts are not used, because a job can mount a file system that never answers. A mount
 * of the host's hierarchy is not used, because the Pod would have to request it. */
#include "sidecar/os/os_hierarchy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/text/text.h"

/* In the kernel: the inode of a hierarchy's root, the kind of handle of its groups, and the name of
 * the first cgroup namespace (include/linux/proc_ns.h). */
#define ROOT_INODE	1u
#define HANDLE_KERNFS	0xfe
#define FIRST_NAMESPACE "cgroup:[4026531835]"
#define DEPTH_MAX	16u
#define GROUPS_MAX	65536u

static bool is_relative(const char *proc)
{
	char path[OS_CGROUP_BYTES + 32], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/self/ns/cgroup", proc);
	n = readlink(path, name, sizeof(name) - 1);
	if (n < 0)
		return false;
	name[n] = '\0';
	return strcmp(name, FIRST_NAMESPACE) != 0;
}

static int open_root(int mount)
{
	union {
		struct file_handle handle;
		char bytes[sizeof(struct file_handle) + sizeof(uint64_t)];
	} u = {.handle = {.handle_bytes = sizeof(uint64_t), .handle_type = HANDLE_KERNFS}};
	const uint64_t root = ROOT_INODE;

	memcpy(u.handle.f_handle, &root, sizeof(root));
	return open_by_handle_at(mount, &u.handle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

struct search {
	uint64_t inode;
	uint32_t left; /* groups */
	char *path;    /* OS_CGROUP_BYTES */
};

/* Takes fd. Extends the path to the group with that inode. */
static bool search(struct search *s, int fd, uint32_t depth)
{
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = strlen(s->path);
	struct dirent *e;
	bool found = false;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && (e = readdir(dir)) && s->left) {
		if (e->d_type != DT_DIR || *e->d_name == '.')
			continue;
		s->left--;
		if ((size_t)snprintf(s->path + n, OS_CGROUP_BYTES - n, "/%s", e->d_name) >=
		    OS_CGROUP_BYTES - n)
			continue;
		found = e->d_ino == s->inode;
		if (!found && depth < DEPTH_MAX) {
			int below =
			    openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			found = search(s, below, depth + 1);
		}
	}
	if (!found)
		s->path[n] = '\0';
	closedir(dir);
	return found;
}

static void look_from_root(struct os_hierarchy *h, uint64_t own)
{
	struct search s = {.inode = own, .left = GROUPS_MAX, .path = h->own};

	snprintf(h->root, sizeof(h->root), "/proc/self/fd/%d", h->fd);
	h->inside =
	    h->relative && !search(&s, openat(h->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0);
}

static void look(struct os_hierarchy *h, const char *proc, const char *mount)
{
	int fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;
	struct stat st;

	*h = (struct os_hierarchy){.fd = -1};
	text_copy(h->mount, sizeof(h->mount), mount);
	text_copy(h->root, sizeof(h->root), mount);
	if (fd < 0)
		return;
	if (!fstatfs(fd, &fs) && !fstat(fd, &st) &&
	    (fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC)) {
		h->relative = is_relative(proc);
		h->inside = h->relative || st.st_ino != ROOT_INODE;
		if (st.st_ino != ROOT_INODE)
			h->fd = open_root(fd);
		if (h->fd >= 0)
			look_from_root(h, st.st_ino);
	}
	close(fd);
}

static struct os_hierarchy *known(struct os_hierarchies *all, const char *proc, const char *mount)
{
	for (int i = 0; i < OS_HIERARCHIES; i++) {
		struct os_hierarchy *h = &all->of[i];

		if (!*h->mount)
			look(h, proc, mount);
		if (!strcmp(h->mount, mount))
			return h;
	}
	return NULL;
}

int os_hierarchy_find(struct os_hierarchies *all, const char *proc, const char *mount,
		      const char *group, const char **root, char path[OS_CGROUP_BYTES])
{
	struct os_hierarchy *h = known(all, proc, mount);
	size_t n;

	if (!h)
		return -ENOSPC;
	text_copy(path, OS_CGROUP_BYTES, h->own);
	n = strlen(path);
	if (h->inside && (!h->relative || !strncmp(group, "/..", 3)))
		return -EACCES;
	for (; !strncmp(group, "/..", 3) && (group[3] == '/' || !group[3]); group += 3) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return -ENOENT;
		*slash = '\0';
		n = (size_t)(slash - path);
	}
	if (strcmp(group, "/"))
		n += (size_t)snprintf(path + n, OS_CGROUP_BYTES - n, "%s", group);
	if (!n)
		strcpy(path, "/");
	*root = h->root;
	return n < OS_CGROUP_BYTES ? 0 : -ENAMETOOLONG;
}

bool os_hierarchy_is_inside(const struct os_hierarchies *all)
{
	bool inside = false;

	for (int i = 0; i < OS_HIERARCHIES; i++)
		inside |= all->of[i].inside;
	return inside;
}

void os_hierarchy_fini(struct os_hierarchies *all)
{
	for (int i = 0; i < OS_HIERARCHIES; i++)
		if (*all->of[i].mount && all->of[i].fd >= 0)
			close(all->of[i].fd);
}
