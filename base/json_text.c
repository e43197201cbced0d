/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

json_t *json_text(const char *text)
{
	json_t *j = json_string(text);
	char *copy;

	if (j)
		return j;
	copy = strdup(text);
	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	j = json_string(copy ? copy : "?");
	free(copy);
	return j;
}

json_t *json_exact(uint64_t number)
{
	return json_sprintf("%" PRIu64, number);
}

bool json_text_put(struct buf *out, json_t *j)
{
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	bool good = text != NULL;

	if (good) {
		buf_puts(out, text);
		buf_puts(out, "\n");
	}
	free(text);
	json_decref(j);
	return good;
}
