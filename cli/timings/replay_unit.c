/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timings/replay_unit.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

static const struct replay_unit units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/* The words of units[i]. */
static const char *const words[][5] = {
    {"ns", "nsec", "nanos", "nanoseconds"},
    {"us", "usec", "micros", "microseconds", "\xc2\xb5s"},
    {"ms", "msec", "millis", "milliseconds"},
    {"s", "sec", "secs", "second", "seconds"},
};

const struct replay_unit *replay_unit_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (!strcmp(name, units[i].name))
			return &units[i];
	return NULL;
}

static bool in_word(char c)
{
	return isalpha((unsigned char)c) || (unsigned char)c >= 0x80;
}

const struct replay_unit *replay_unit_in(const char *column, size_t *before)
{
	size_t end = strlen(column), begin;

	*before = end;
	while (end && strchr(" )]", column[end - 1]))
		end--;
	begin = end;
	while (begin && in_word(column[begin - 1]))
		begin--;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		for (size_t k = 0; k < ARRAY_LEN(words[i]) && words[i][k]; k++) {
			if (strlen(words[i][k]) != end - begin ||
			    strncasecmp(words[i][k], column + begin, end - begin))
				continue;
			while (begin && !isalnum((unsigned char)column[begin - 1]))
				begin--;
			*before = begin;
			return &units[i];
		}
	return NULL;
}
