/* SPDX-License-Identifier: Apache-2.0
 * paths.h - where sysomd's sockets and the preload library are found. docs/INTERFACES.md is
 * normative. Threads: one caller. */
#ifndef SYSOM_CLI_PATHS_H
#define SYSOM_CLI_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#define PATHS_BYTES 108 /* of sockaddr_un */

/* The environment variable where it is set; else the first of /run/sysom, $XDG_RUNTIME_DIR/sysom
 * and /tmp/sysom-UID that holds such a socket (the last one only when it is ours alone); else the
 * one that a sysomd of this user would make. file: "control.sock" or "sysomd.sock". */
void paths_socket(char out[PATHS_BYTES], const char *variable, const char *file);
/* Absolute path of a readable file, given relative to this program's directory. false: out is where it
 * was looked for. */
bool paths_beside(char *out, size_t out_bytes, const char *relative);
/* Absolute path of libsysom_preload.so: SYSOM_PRELOAD, else where the build or an installation has it
 * relative to this program. 0, or -ENOENT with the last place looked at in out. */
int paths_preload(char *out, size_t out_bytes);

#endif
