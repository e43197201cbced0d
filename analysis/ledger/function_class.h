/* SPDX-License-Identifier: Apache-2.0
 * function_class.h - what a function's name says about the code in it. One table for each question. Pure.
 * Threads: any. */
#pragma once

#include "analysis/ledger/ledger.h"
#include "model/finding.h"

/* The cause that a rank's time in this function suggests; CAUSE_UNKNOWN for most. kind: enum
 * function_kind. on_cpu: it runs, else it is blocked. */
enum finding_cause function_class_cause(const char *name, unsigned kind, bool on_cpu);
/* The purpose of the code: LEDGER_LOGGING, LEDGER_LOADER, LEDGER_STORAGE_CLIENT,
 * LEDGER_HOST_MESSAGE, LEDGER_HOST_COLLECTIVE. LEDGER_NONE for most functions, also for compression
 * and checksums, because their purpose depends on the caller. */
enum ledger_what function_class_what(const char *name);
/* Whether the function waits for one of the C library's own locks: of the heap, or of a stdio
 * stream. */
bool function_class_is_libc_lock(const char *name);
/* Whether the name explains nothing: the interpreter's loop, the start of a thread, polling. */
bool function_class_is_plumbing(const char *name);
