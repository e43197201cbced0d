/* SPDX-License-Identifier: Apache-2.0
 * installed.h - what a process runs on and with: libraries and their builds, the kernel, the processors,
 * and those variables of its environment that steer CUDA, NCCL, PyTorch and their like.
 * Never the value of a variable whose name speaks of a secret (KEY, TOKEN, SECRET, PASS, CRED, AUTH), nor
 * one with a password in a URL. Bounded: so many bytes of environ, lines of maps, settings.
 * Owns: what installed_read returns is the caller's.  Threads: any.  Trust: the process is hostile: its
 * environment, its paths and the files they lead to may be anything. Files are opened without blocking,
 * must be regular, and must be the ones that are mapped. */
#ifndef SYSOM_SIDECAR_INSTALLED_H
#define SYSOM_SIDECAR_INSTALLED_H

#include "wire/window.h"

/* Adds to the sketch's settings (allocated here when NULL), sorted by name: "env:NCCL_ALGO" = "Ring",
 * "lib:libnccl.so.2.21.5" = first 16 digits of the Build ID, "cuda" = "12040", "kernel", "cpu", "gpu",
 * "driver", "torch", "python". libs: what the process said at registration, "name=value name=value".
 * What can't be read is left out. 0 or -ENOMEM. */
int installed_read(const char *proc_root, uint32_t pid, const char *libs, struct sketch *s);

/* The role that the environment of a process tells, for ranks that name none: "pp1" by the variables of
 * pipeline stages that launchers set (PIPELINE_PARALLEL_RANK, PIPELINE_STAGE, PP_RANK, PP_STAGE), else
 * torchelastic's ROLE_NAME unless it is the default one; "" otherwise. */
void installed_role(const char *proc_root, uint32_t pid, char *out, size_t bytes);

#endif
