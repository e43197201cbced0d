/* SPDX-License-Identifier: Apache-2.0
 * nccl_lookup.h - decides which profiler plugin NCCL finds, and finds the user's own plugin behind
 * ours.
 * Threads: any. Blocks and allocates: only inside NCCL's look-up of a plugin, once. */
#pragma once

#include "foreign/nccl_profiler.h"

/* versions that we have; only the user's plugin may have later ones */
#define NCCL_LOOKUP_VERSIONS 6

/* Our tables, by version; 0 unused. */
extern const struct nccl_profiler_table *const nccl_plugin_tables[NCCL_LOOKUP_VERSIONS + 1];

/* Call in the constructor: makes NCCL look for its plugin inside the process, unless the user named
 * one. */
void nccl_lookup_prepare(void);
/* The user's table of this version; NULL: there is none. */
const struct nccl_profiler_table *nccl_lookup_user(unsigned version);
/* Call when the user's plugin has unloaded itself: it is not called again. */
void nccl_lookup_left(unsigned version);
/* The helper calls this while NCCL has asked for no plugin. If the user's variable named a plugin
 * at the start, looks once whether it exists. */
void nccl_lookup_unasked(void);
/* How often the user's plugin could not be used, or has unloaded itself, since the last call. */
uint32_t nccl_lookup_failures(void);
