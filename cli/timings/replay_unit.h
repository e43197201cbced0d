/* SPDX-License-Identifier: Apache-2.0
 * replay_unit.h - units of time on the command line and in names of columns. Threads: any. */
#pragma once

#include <stddef.h>

struct replay_unit {
	const char *name; /* ns, us, ms or s */
	double ns;
};

/* The unit of a name, or NULL. */
const struct replay_unit *replay_unit_of(const char *name);
/* The unit at the end of a column's name ("dur_ms", "step (us)", "seconds"), and the bytes before it; NULL
 * and all bytes: none. */
const struct replay_unit *replay_unit_in(const char *column, size_t *before);
