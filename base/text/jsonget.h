/* SPDX-License-Identifier: Apache-2.0
 * jsonget.h - reads fields of foreign JSON, with a default if a field is missing or of another
 * type. Header-only; for programs that link jansson. */
#pragma once

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline const char *jsonget_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static inline double jsonget_number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key)); /* 0 for any other type */
}

static inline int64_t jsonget_integer(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	/* Converting a real beyond the range of int64_t is undefined behaviour. */
	if (json_is_real(v)) {
		double d = json_real_value(v);

		return d > -9.2e18 && d < 9.2e18 ? (int64_t)d : 0;
	}
	return json_integer_value(v);
}

/* Reads a string made by json_exact(), or a plain number. False: neither; *out is unchanged. */
static inline bool jsonget_exact(const json_t *v, uint64_t *out)
{
	const char *text = json_string_value(v);
	uint64_t n;

	if (!text) {
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return false;
		*out = (uint64_t)json_integer_value(v);
		return true;
	}
	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	n = strtoull(text, NULL, 10);
	if (errno)
		return false;
	*out = n;
	return true;
}

static inline uint64_t jsonget_unsigned(const json_t *o, const char *key)
{
	int64_t v = jsonget_integer(o, key);
	uint64_t exact = 0;

	if (jsonget_exact(json_object_get(o, key), &exact))
		return exact;
	return v < 0 ? 0 : (uint64_t)v;
}

/* Whether the list contains this integer. */
static inline int jsonget_has(const json_t *list, int64_t wanted)
{
	const json_t *v;
	size_t i;

	json_array_foreach ((json_t *)list, i, v)
		if (json_is_integer(v) && json_integer_value(v) == wanted)
			return 1;
	return 0;
}

static inline int jsonget_true(const json_t *o, const char *key)
{
	return json_is_true(json_object_get(o, key));
}
