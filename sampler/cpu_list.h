/* SPDX-License-Identifier: Apache-2.0
 * cpu_list.h - lists of CPUs in the format of /sys: "0-3,8". Header only. Threads: any. */
#pragma once

#include <stdlib.h>

/* Reads the first range. Returns the text after it; NULL: there is no range. */
static inline const char *cpu_list_next(const char *list, unsigned *first, unsigned *last)
{
	char *end;

	*first = *last = (unsigned)strtoul(list, &end, 10);
	if (end == list)
		return NULL;
	if (*end == '-')
		*last = (unsigned)strtoul(end + 1, &end, 10);
	return *end == ',' ? end + 1 : end;
}
