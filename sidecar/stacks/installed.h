/* SPDX-License-Identifier: Apache-2.0
 * installed.h - what a process runs on and with: libraries and their builds, the kernel, the processors,
 * and those variables of its environment that steer CUDA, NCCL, PyTorch and their like.
 * Never the value of a variable whose name speaks of a secret (KEY, TOKEN, SECRET, PASS, CRED, AUTH), nor
 * one with a password in a URL. Bounded: so many bytes of environ, lines of maps, settings.
 * Owns: what installed_read returns is the caller's.  Threads: any, one per queue.  Trust: the process is
 * hostile: its environment, its paths and the files they lead to may be anything and may never answer. A
 * reader reads them (reader/reader.h). */
#ifndef SYSOM_SIDECAR_STACKS_INSTALLED_H
#define SYSOM_SIDECAR_STACKS_INSTALLED_H

#include "model/window.h"
#include "reader/reader_queue.h"

/* Adds to the sketch's settings (allocated here when NULL), sorted by name: "env:NCCL_ALGO" = "Ring",
 * "lib:libnccl.so.2.21.5" = first 16 digits of the Build ID, "cuda" = "12040", "kernel", "cpu", "gpu",
 * "driver", "torch", "python". libs: what the process said at registration, "name=value name=value".
 * What can't be read is left out. q: waits at most 5 s for the process's answer, or until stop; NULL: reads
 * in this process, for tests. 0 or -ENOMEM. */
int installed_read(struct reader_queue *q, const atomic_bool *stop, const char *proc_root,
		   uint32_t pid, const char *libs, struct sketch *s);

#endif
