/* SPDX-License-Identifier: Apache-2.0
 * replay_unit.h - units of time, as the command line and names of columns have them. Threads: any. */
#ifndef SYSOM_CLI_TIMINGS_REPLAY_UNIT_H
#define SYSOM_CLI_TIMINGS_REPLAY_UNIT_H

#include <stddef.h>

struct replay_unit {
	const char *name; /* ns, us, ms or s */
	double ns;
};

/* NULL for anything else. */
const struct replay_unit *replay_unit_of(const char *name);
/* The unit that a column's name ends in ("dur_ms", "step (us)", "seconds"), and the bytes before it; NULL
 * and the whole name: none. */
const struct replay_unit *replay_unit_in(const char *column, size_t *before);

#endif
