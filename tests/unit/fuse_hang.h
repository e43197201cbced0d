/* SPDX-License-Identifier: Apache-2.0
 * fuse_hang.h - a file system that does not answer, for tests: a process of its own serves a directory
 * with four files by the kernel's protocol (linux/fuse.h). What is asked of them beyond attributes:
 *   open   is never opened
 *   read   opens, and no read or write of it is ever answered
 *   good   4096 zeros
 *   flush  opens, and no close of it is ever answered
 * Needs root (or a user namespace that may mount) and /dev/fuse. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fuse_hang {
	char dir[128];
	pid_t server;
};

/* By inode number. */
static const char *const fuse_hang_name[] = {"", "", "open", "read", "good", "flush"};

static void fuse_hang_attr(struct fuse_attr *a, uint64_t ino)
{
	*a = (struct fuse_attr){.ino = ino,
				.size = ino == 1 ? 0 : 4096,
				.blocks = 8,
				.nlink = 1,
				.mode = ino == 1 ? S_IFDIR | 0755 : S_IFREG | 0777,
				.blksize = 4096};
}

static void fuse_hang_reply(int fd, uint64_t unique, int err, const void *data, size_t bytes)
{
	char room[sizeof(struct fuse_out_header) + 4096];
	struct fuse_out_header h = {
	    .len = (uint32_t)(sizeof(h) + bytes), .error = -err, .unique = unique};

	memcpy(room, &h, sizeof(h));
	if (bytes)
		memcpy(room + sizeof(h), data, bytes);
	if (write(fd, room, sizeof(h) + bytes) < 0 && errno != ENOENT)
		_exit(0);
}

static void fuse_hang_lookup(int fd, const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out e = {.attr_valid = 1, .entry_valid = 1};

	for (uint64_t i = 2; i <= 5; i++) {
		if (strcmp(name, fuse_hang_name[i]))
			continue;
		e.nodeid = i;
		fuse_hang_attr(&e.attr, i);
		fuse_hang_reply(fd, in->unique, 0, &e, sizeof(e));
		return;
	}
	fuse_hang_reply(fd, in->unique, ENOENT, NULL, 0);
}

static void fuse_hang_serve_one(int fd, const struct fuse_in_header *in, const void *rest)
{
	static const char zeros[4096];
	struct fuse_init_out init = {.major = 7,
				     .minor = 31,
				     .max_write = 4096,
				     .max_readahead = 4096,
				     .flags = FUSE_WRITEBACK_CACHE,
				     .max_background = 16};
	struct fuse_attr_out attr = {.attr_valid = 1};
	struct fuse_open_out open_out = {.fh = in->nodeid};

	switch (in->opcode) {
	case FUSE_INIT:
		fuse_hang_reply(fd, in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		fuse_hang_lookup(fd, in, rest);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		fuse_hang_attr(&attr.attr, in->nodeid);
		fuse_hang_reply(fd, in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		if (in->nodeid != 2)
			fuse_hang_reply(fd, in->unique, 0, &open_out, sizeof(open_out));
		break;
	case FUSE_READ:
		if (in->nodeid == 4)
			fuse_hang_reply(fd, in->unique, 0, zeros, sizeof(zeros));
		break;
	case FUSE_WRITE:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT: /* what was read from us waits on */
		break;
	case FUSE_FLUSH:
		if (in->nodeid != 5)
			fuse_hang_reply(fd, in->unique, 0, NULL, 0);
		break;
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_ACCESS:
		fuse_hang_reply(fd, in->unique, 0, NULL, 0);
		break;
	default:
		fuse_hang_reply(fd, in->unique, ENOSYS, NULL, 0);
	}
}

/* 0, -errno: this machine can't. */
static int fuse_hang_open(struct fuse_hang *f, const char *dir)
{
	static char room[1 << 18];
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(f->dir, sizeof(f->dir), "%.127s", dir);
	if (fd < 0)
		return -errno;
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 fd);
	if (mkdir(dir, 0755) || mount("hang", dir, "fuse", 0, options)) {
		int err = -errno;

		close(fd);
		rmdir(dir);
		return err;
	}
	f->server = fork();
	if (!f->server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			ssize_t n = read(fd, room, sizeof(room) - 1);
			const struct fuse_in_header *in = (const void *)room;

			if (n < 0 && (errno == EINTR || errno == ENOENT))
				continue;
			if (n < (ssize_t)sizeof(*in))
				_exit(0);
			room[n] = 0;
			fuse_hang_serve_one(fd, in, in + 1);
		}
	}
	close(fd);
	return 0;
}

static inline void fuse_hang_map_more(int number)
{
	(void)number;
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* A process with a page of the file "read", which never comes; SIGUSR1 has it ask for its mmap_lock. at:
 * of the page. Its pid, -1. */
static inline pid_t fuse_hang_target(const char *file, uint64_t *at)
{
	int ready[2];
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		int fd = open(file, O_RDONLY);

		*at = (uint64_t)(uintptr_t)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
		signal(SIGUSR1, fuse_hang_map_more);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], at, sizeof(*at)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], at, sizeof(*at)) != sizeof(*at))
		pid = -1;
	close(ready[0]);
	return pid;
}

/* Ends the server: the kernel then gives every waiting request up. */
static inline void fuse_hang_close(struct fuse_hang *f)
{
	kill(f->server, SIGKILL);
	waitpid(f->server, NULL, 0);
	umount2(f->dir, MNT_DETACH);
	rmdir(f->dir);
}
