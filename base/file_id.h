/* SPDX-License-Identifier: Apache-2.0
 * file_id.h - remembers which file a descriptor referred to. Programs close descriptors that they
 * did not open, and then get the same numbers for files of their own, which we must not touch.
 * Header only, libc only. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct file_id {
	dev_t device;
	ino_t inode;
};

static inline bool file_id_note(int fd, struct file_id *f)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return false;
	f->device = st.st_dev;
	f->inode = st.st_ino;
	return true;
}

/* Whether the descriptor still refers to that file. */
static inline bool file_id_is(int fd, const struct file_id *f)
{
	struct file_id now;

	return file_id_note(fd, &now) && now.device == f->device && now.inode == f->inode;
}
