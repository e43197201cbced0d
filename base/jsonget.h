/* SPDX-License-Identifier: Apache-2.0
 * jsonget.h - fields of JSON that somebody else made, with a default where they are missing or of another
 * type. Header-only; for those who link jansson. */
#ifndef SYSOM_BASE_JSONGET_H
#define SYSOM_BASE_JSONGET_H

#include <jansson.h>
#include <stdint.h>

static inline const char *jsonget_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static inline double jsonget_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key)); /* 0 for anything else */
}

static inline int64_t jsonget_integer(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	/* A real beyond the range of int64_t must not be converted: undefined. */
	if (json_is_real(v)) {
		double d = json_real_value(v);

		return d > -9.2e18 && d < 9.2e18 ? (int64_t)d : 0;
	}
	return json_integer_value(v);
}

static inline uint64_t jsonget_unsigned(const json_t *o, const char *key)
{
	int64_t v = jsonget_integer(o, key);

	return v < 0 ? 0 : (uint64_t)v;
}

/* Whether the list has that integer. */
static inline int jsonget_has(const json_t *list, int64_t wanted)
{
	const json_t *v;
	size_t i;

	json_array_foreach((json_t *)list, i, v)
		if (json_is_integer(v) && json_integer_value(v) == wanted)
			return 1;
	return 0;
}

static inline int jsonget_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}

#endif
