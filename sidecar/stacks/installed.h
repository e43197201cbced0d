/* SPDX-License-Identifier: Apache-2.0
 * installed.h - a process's environment: libraries and their builds, the kernel, the processors,
 * and those environment variables that configure CUDA, NCCL, PyTorch and the like. Never reports
 * the value of a variable whose name suggests a secret (KEY, TOKEN, SECRET, PASS, CRED, AUTH), or a
 * value with a password in a URL. Bounded: bytes of environ, lines of maps, settings.
 * Owns: what installed_read returns is the caller's. Threads: any, one per queue. Trust: the
 * process is hostile: its environment, its paths and their files may be anything and may never
 * answer. A reader process reads them (reader/reader.h). */
#pragma once

#include "model/window.h"
#include "reader/reader_queue.h"

/* Adds to the sketch's settings (allocated here if NULL), sorted by name: "env:NCCL_ALGO" = "Ring",
 * "lib:libnccl.so.2.21.5" = first 16 digits of the Build ID, "cuda" = "12040", "kernel", "cpu",
 * "gpu", "driver", "torch", "python". libs: what the process sent at registration, "name=value
 * name=value". Unreadable settings are left out. q: where a reader process is asked; waits at most
 * 5 s for its answer, or until *stop. NULL: reads in this process, for tests. 0 or -ENOMEM. */
int installed_read(struct reader_queue *q, const atomic_bool *stop, const char *proc_root,
		   uint32_t pid, const char *libs, struct sketch *s);
