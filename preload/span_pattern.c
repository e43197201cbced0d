/* SPDX-License-Identifier: Apache-2.0
 * After a mismatch only the latest `*` is extended. An earlier `*` has matched as little as
 * possible, and matching more would not help. */
#include "preload/span_pattern.h"

#include <string.h>

#define PATTERN_DIGITS 15u /* a double holds such a number exactly */

static const char *const pattern_works[SPAN_WORK_MAX] = {
#define X(name) name,
    SPAN_WORKS(X)
#undef X
};

/* Which work the word in braces names; -1: none. *bytes: length of the word with its braces. */
static int pattern_word(const char *at, size_t *bytes)
{
	const char *end = strchr(at, '}');

	for (int i = 0; end && i < SPAN_WORK_MAX; i++) {
		size_t n = strlen(pattern_works[i]);

		if ((size_t)(end - at) == n + 1 && !strncmp(at + 1, pattern_works[i], n)) {
			*bytes = n + 2;
			return i;
		}
	}
	return -1;
}

/* Digits at the beginning of the text; 0: none, or too many. */
static size_t pattern_number(const char *text, size_t bytes, float *value)
{
	double sum = 0;
	size_t n = 0;

	for (; n < bytes && text[n] >= '0' && text[n] <= '9'; n++)
		sum = sum * 10 + (text[n] - '0');
	*value = (float)sum;
	return n <= PATTERN_DIGITS ? n : 0;
}

bool span_pattern_match(const char *pattern, const char *text, size_t bytes,
			float work[SPAN_WORK_MAX])
{
	const char *star = NULL, *p = pattern;
	size_t at = 0, star_at = 0;

	memset(work, 0, SPAN_WORK_MAX * sizeof(*work));
	while (at < bytes || *p) {
		size_t word = 0, n = 0;
		int which = *p == '{' ? pattern_word(p, &word) : -1;

		if (*p == '*') {
			star = p++;
			star_at = at;
			continue;
		}
		if (which >= 0)
			n = pattern_number(text + at, bytes - at, &work[which]);
		else if (*p && at < bytes && *p == text[at])
			n = word = 1;
		if (n) {
			at += n;
			p += word;
			continue;
		}
		if (!star || star_at >= bytes) {
			memset(work, 0, SPAN_WORK_MAX * sizeof(*work));
			return false;
		}
		p = star + 1;
		at = ++star_at;
	}
	return true;
}
