/* SPDX-License-Identifier: Apache-2.0
 * environment.h - finds misspelt variables: those that begin with SYSOM_ but that no program of
 * ours reads. Header-only and without allocation, since the preload uses it. Threads: as
 * getenv(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define ENVIRONMENT_NAME_BYTES 40

static const char environment_names[][ENVIRONMENT_NAME_BYTES] = {
#define ENVIRONMENT(name) #name,
#include "base/environment.def"
#undef ENVIRONMENT
};

/* The next unknown variable, as "NAME=value", or NULL. *at: 0 at first. */
static inline const char *environment_unknown(size_t *at)
{
	while (environ && environ[*at]) {
		const char *v = environ[(*at)++];
		size_t n = strcspn(v, "="), i = 0;

		if (strncmp(v, "SYSOM_", 6))
			continue;
		while (i < sizeof(environment_names) / ENVIRONMENT_NAME_BYTES &&
		       (strncmp(v, environment_names[i], n) || environment_names[i][n]))
			i++;
		if (i == sizeof(environment_names) / ENVIRONMENT_NAME_BYTES)
			return v;
	}
	return NULL;
}
