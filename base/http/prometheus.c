/* SPDX-License-Identifier: Apache-2.0
 * https://prometheus.io/docs/instrumenting/exposition_formats: a label's value is UTF-8, in which
 * only backslash, quote and line feed are escaped. */
#include "base/http/prometheus.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"
#include "base/version.h"

void prometheus_metric(struct buf *b, const char *name, const char *type, const char *help)
{
	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_label(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, "%s=\"", name);
	while (*value) {
		uint32_t c;
		unsigned n = utf8_next(value, UTF8_BYTES, &c);

		if (!n)
			buf_puts(b, "\xef\xbf\xbd"); /* U+FFFD */
		else if (*value == '\n')
			buf_puts(b, "\\n");
		else if (*value == '"' || *value == '\\')
			buf_printf(b, "\\%c", *value);
		else
			buf_append(b, value, n);
		value += n ? n : 1;
	}
	buf_puts(b, "\"");
}

void prometheus_sample(struct buf *b, const char *name, double value, ...)
{
	const char *label, *before = "{";
	va_list ap;

	buf_puts(b, name);
	va_start(ap, value);
	while ((label = va_arg(ap, const char *))) {
		buf_puts(b, before);
		put_label(b, label, va_arg(ap, const char *));
		before = ",";
	}
	va_end(ap);
	if (*before == ',')
		buf_puts(b, "}");
	/* printf writes the sign of a NaN, which the format does not allow */
	if (isnan(value))
		buf_puts(b, " NaN\n");
	else
		buf_printf(b, " %.17g\n", value);
}

void prometheus_by(struct buf *b, const char *name, const char *type, const char *help,
		   const char *label, const struct prometheus_count *counts)
{
	prometheus_metric(b, name, type, help);
	for (; counts->of; counts++)
		prometheus_sample(b, name, (double)counts->count, label, counts->of, NULL);
}

void prometheus_counter(struct buf *b, const char *name, const char *help, double value)
{
	prometheus_metric(b, name, "counter", help);
	prometheus_sample(b, name, value, NULL);
}

void prometheus_gauge(struct buf *b, const char *name, const char *help, double value)
{
	prometheus_metric(b, name, "gauge", help);
	prometheus_sample(b, name, value, NULL);
}

void prometheus_build_info(struct buf *b, unsigned wire_version)
{
	char wire[16];

	snprintf(wire, sizeof(wire), "%u", wire_version);
	prometheus_metric(
	    b, "sysom_build_info", "gauge",
	    "1; version of this program, and of the messages between node and cluster.");
	prometheus_sample(b, "sysom_build_info", 1, "version", SYSOM_VERSION, "wire", wire, NULL);
}
