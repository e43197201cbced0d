/* SPDX-License-Identifier: Apache-2.0
 * os_hierarchy.h - finds a process's cgroup from inside of a container.
 * A container's mount of a hierarchy begins at its own group. A job's container is beside it, and
 * /proc/PID/cgroup says "/../JOB" (or, without a cgroup namespace, a path from the hierarchy's
 * root). With CAP_DAC_READ_SEARCH the kernel opens the root by its number. From there all groups
 * are found, also the Pod's, whose limits bind its containers.
 * Owns: a descriptor per hierarchy. Threads: one caller. */
#pragma once

#include <stdbool.h>

#define OS_HIERARCHIES	4   /* cpu, blkio, memory, and the one of v2 */
#define OS_CGROUP_BYTES 512 /* Kubernetes' have some 200 */

struct os_hierarchy {
	char mount[OS_CGROUP_BYTES]; /* "": free */
	char root[OS_CGROUP_BYTES];  /* the directory to begin at */
	char own[OS_CGROUP_BYTES];   /* where paths of /proc/PID/cgroup begin, from there */
	int fd;			     /* of root, -1: none */
	bool inside;		     /* only the own container's groups can be reached */
	bool relative;		     /* /proc/PID/cgroup begins at the own container's group */
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
/* Whether other containers' groups can't be reached in a hierarchy that was looked at. */
bool os_hierarchy_is_inside(const struct os_hierarchies *h);
void os_hierarchy_fini(struct os_hierarchies *h);
