/* SPDX-License-Identifier: Apache-2.0
 * secret_file.h - read a file with a secret: a private key, tokens. It must belong to root or to
 * this process's user; others may not read it, and a group may not write it.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"

/* Appends the file to `out`, whose max_bytes bounds it. 0; else -errno, and `why` names the path,
 * what is wrong with it and what to do. Follows links, because Kubernetes mounts secrets as
 * links. */
int secret_file_read(const char *path, struct buf *out, char *why, size_t why_bytes);
/* The same without the rules about mode and owner, for a certificate. */
int secret_file_read_public(const char *path, struct buf *out, char *why, size_t why_bytes);

/* Overwrites the content of the buffer, then frees it. */
void secret_file_forget(struct buf *read);

/* Identifies the content of a path without reading it: differs for another content. */
struct secret_file_state {
	dev_t device;
	ino_t inode;
	off_t bytes;
	struct timespec modified, changed;
};
struct secret_file_state secret_file_state_of(const struct stat *st);
bool secret_file_is_same(const struct secret_file_state *a, const struct secret_file_state *b);
/* Whether the path's file has changed since *s. If so, *s gets the new state. False if there is no
 * file. */
bool secret_file_changed(const char *path, struct secret_file_state *s);
