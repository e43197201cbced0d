/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void text_copy(char *to, size_t room, const char *from)
{
	size_t n = strnlen(from, room - 1);

	memcpy(to, from, n);
	to[n] = '\0';
}

double text_finite(double v)
{
	return isfinite(v) ? v : 0;
}

double text_ms(double ns)
{
	return text_finite(ns) / 1e6;
}

const char *text_duration(double ns, char out[TEXT_DURATION_BYTES])
{
	double ms = ns * 1e-6;

	if (!isfinite(ms))
		snprintf(out, TEXT_DURATION_BYTES, "? ms");
	else if (fabs(ms) >= 10000)
		snprintf(out, TEXT_DURATION_BYTES, "%.1f s", ms * 1e-3);
	else
		snprintf(out, TEXT_DURATION_BYTES,
			 fabs(ms) >= 100 ? "%.0f ms"
			 : fabs(ms) >= 1 ? "%.1f ms"
					 : "%.2f ms",
			 ms);
	return out;
}

bool text_number(const char *text, uint64_t max, uint64_t *out)
{
	const char *p = text;
	uint64_t v = 0;

	for (; *p; p++) {
		uint64_t digit = (uint64_t)(unsigned char)*p - '0';

		if (digit > 9 || v > max / 10 || v * 10 > max - digit)
			return false;
		v = v * 10 + digit;
	}
	if (p > text)
		*out = v;
	return p > text;
}

void text_hex(const uint8_t *data, size_t bytes, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < bytes; i++) {
		out[2 * i] = digits[data[i] >> 4];
		out[2 * i + 1] = digits[data[i] & 15];
	}
	out[2 * bytes] = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int text_unhex(const char *text, uint8_t *out, size_t bytes)
{
	if (strlen(text) != 2 * bytes)
		return -EINVAL;
	for (size_t i = 0; i < bytes; i++) {
		int hi = digit(text[2 * i]), lo = digit(text[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -EINVAL;
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return 0;
}

unsigned text_distance(const char *a, const char *b)
{
	unsigned row[64], n = (unsigned)strnlen(b, 63);

	for (unsigned k = 0; k <= n; k++)
		row[k] = k;
	for (unsigned i = 0; a[i] && i < 63; i++) {
		unsigned left_above = row[0];

		row[0] = i + 1;
		for (unsigned k = 0; k < n; k++) {
			unsigned above = row[k + 1], best = left_above + (a[i] != b[k]);

			best = best < above + 1 ? best : above + 1;
			row[k + 1] = best < row[k] + 1 ? best : row[k] + 1;
			left_above = above;
		}
	}
	return row[n];
}

const char *text_utc(time_t t, char out[TEXT_UTC_BYTES])
{
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(out, TEXT_UTC_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm))
		text_copy(out, TEXT_UTC_BYTES, "?");
	return out;
}
