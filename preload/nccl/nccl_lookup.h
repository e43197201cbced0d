/* SPDX-License-Identifier: Apache-2.0
 * nccl_lookup.h - which profiler plugin NCCL finds, and the user's own behind ours.
 * Threads: any. Blocks and allocates: only inside NCCL's look-up of a plugin, once. */
#pragma once

#include "foreign/nccl_profiler.h"

#define NCCL_LOOKUP_VERSIONS 6 /* ours; later ones are the user's alone */

/* Our tables, by version; 0 unused. */
extern const struct nccl_profiler_table *const nccl_plugin_tables[NCCL_LOOKUP_VERSIONS + 1];

/* In the constructor: has NCCL look for its plugin inside the process, unless the user said where. */
void nccl_lookup_prepare(void);
/* The user's table of this version; NULL: there is none. */
const struct nccl_profiler_table *nccl_lookup_user(unsigned version);
/* A plugin that has unloaded itself is not called again. */
void nccl_lookup_left(unsigned version);
/* By the helper, while NCCL has asked for no plugin: if the user's variable named one at the start, looks
 * once whether it is there. */
void nccl_lookup_unasked(void);
/* How often the user's plugin could not be used, or has unloaded itself, since the last call. */
uint32_t nccl_lookup_failures(void);
