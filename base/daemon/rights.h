/* SPDX-License-Identifier: Apache-2.0
 * rights.h - which capabilities of rights.def this process lacks, and what that costs.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
#define RIGHT(name, number, lost) RIGHT_##name,
#include "base/daemon/rights.def"
#undef RIGHT
	RIGHTS
};

struct right {
	const char *name; /* "SYS_PTRACE" */
	unsigned number;
	const char *lost; /* what is lost without it */
};
extern const struct right rights[RIGHTS];

/* Fills which capabilities are effective now. */
void rights_now(bool has[RIGHTS]);
