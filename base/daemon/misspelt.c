/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/misspelt.h"

#include <stdio.h>

#include "base/check.h"
#include "base/environment.h"
#include "base/text/text.h"

const char *misspelt_nearest(const char *name)
{
	const char *near = environment_names[0];

	for (size_t i = 1; i < ARRAY_LEN(environment_names); i++)
		if (text_distance(name, environment_names[i]) < text_distance(name, near))
			near = environment_names[i];
	return near;
}

bool misspelt_warning(size_t *at, char out[MISSPELT_BYTES])
{
	const char *v = environment_unknown(at);
	char name[64];

	if (!v)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(v, "="), v);
	snprintf(out, MISSPELT_BYTES, "%s is set, but nothing reads it; did you mean %s?", name,
		 misspelt_nearest(name));
	return true;
}
