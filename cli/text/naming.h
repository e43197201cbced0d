/* SPDX-License-Identifier: Apache-2.0
 * naming.h - helpers for names and paths. Header only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool naming_ends(const char *text, const char *with)
{
	size_t n = strlen(text), k = strlen(with);

	return n >= k && !strcmp(text + n - k, with);
}

/* The part after the last slash, or the whole path if it ends there. */
static inline const char *naming_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The index of a name in a list, or -1. */
static inline int naming_among(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}
