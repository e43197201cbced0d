/* SPDX-License-Identifier: Apache-2.0
 * os_hierarchy.h - finds a process's cgroup from inside a container. A container's mount of a
 * cgroup hierarchy begins at the container's own group. The job's container is a sibling, so
 * /proc/PID/cgroup says "/../JOB" (or, without a cgroup namespace, a path from the hierarchy's
 * root). With CAP_DAC_READ_SEARCH the kernel opens the hierarchy's root by its inode number. From
 * the root all groups can be found, including the Pod's, whose limits bind its containers.
 * Owns: a descriptor per hierarchy. Threads: one caller. */
#pragma once

#include <stdbool.h>

#define OS_HIERARCHIES	4   /* cpu, blkio, memory, and the v2 hierarchy */
#define OS_CGROUP_BYTES 512 /* paths of Kubernetes have some 200 */

struct os_hierarchy {
	char mount[OS_CGROUP_BYTES]; /* "": free */
	char root[OS_CGROUP_BYTES];  /* the directory to begin at */
	char own[OS_CGROUP_BYTES];   /* where paths of /proc/PID/cgroup begin, relative to root */
	int fd;			     /* of root, -1: none */
	bool inside;		     /* only groups of sysomd's own container can be reached */
	bool relative; /* paths of /proc/PID/cgroup begin at the group of sysomd's own container */
};
struct os_hierarchies {
	struct os_hierarchy of[OS_HIERARCHIES];
};

/* group: of /proc/PID/cgroup. On success the group's directory is *root followed by path ("/": root
 * itself). -EACCES: it may not be reached from here;
 * -ENOENT, -ENAMETOOLONG, -ENOSPC. *root is borrowed until
 * fini. proc: where /proc is mounted. */
int os_hierarchy_find(struct os_hierarchies *h, const char *proc, const char *mount,
		      const char *group, const char **root, char path[OS_CGROUP_BYTES]);
/* Whether there is a hierarchy, of those used so far, in which the groups of other containers
 * cannot be reached. */
bool os_hierarchy_is_inside(const struct os_hierarchies *h);
void os_hierarchy_fini(struct os_hierarchies *h);
