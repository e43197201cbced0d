/* SPDX-License-Identifier: Apache-2.0
 * paths.h - finds sysomd's sockets and the preload library. docs/INTERFACES.md is normative.
 * Threads: one caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PATHS_BYTES 108 /* of sockaddr_un */
#define PATHS_START "start it: systemctl start sysomd, or run sysomd"

/* Uses the environment variable if it is set; else the first of /run/sysom, $XDG_RUNTIME_DIR/sysom and
 * /tmp/sysom-UID that has such a socket (the last one only if nobody else may write to it); else the path
 * that a sysomd of this user would use. file: "control.sock" or "sysomd.sock". */
void paths_socket(char out[PATHS_BYTES], const char *variable, const char *file);
/* Connects to sysomd's attach socket, as a traced process does, and closes the connection. 0, -EAGAIN
 * (sysomd is busy) or -errno. *remedy: what to do about an error (static). */
int paths_attach(const char *path, const char **remedy);
/* Absolute path of a readable file, given relative to this program's directory. false: not found, with
 * the path that was tried in out. */
bool paths_beside(char *out, size_t out_bytes, const char *relative);
/* Absolute path of libsysom_preload.so: SYSOM_PRELOAD, else its place in a build or an installation. 0;
 * -ENOENT with the last path that was tried in out. */
int paths_preload(char *out, size_t out_bytes);
