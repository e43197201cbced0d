/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <stdio.h>

#include "base/check.h"
#include "base/text.h"

const char *environment_nearest(const char *name)
{
	const char *near = environment_names[0];

	for (size_t i = 1; i < ARRAY_LEN(environment_names); i++)
		if (text_distance(name, environment_names[i]) < text_distance(name, near))
			near = environment_names[i];
	return near;
}

bool environment_warning(size_t *at, char out[ENVIRONMENT_WARNING_BYTES])
{
	const char *v = environment_unknown(at);
	char name[64];

	if (!v)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(v, "="), v);
	snprintf(out, ENVIRONMENT_WARNING_BYTES,
		 "%s is set, but nothing reads it; did you mean %s?", name,
		 environment_nearest(name));
	return true;
}
