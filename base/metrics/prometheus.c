/* SPDX-License-Identifier: Apache-2.0
 * https://prometheus.io/docs/instrumenting/exposition_formats: a label's value is UTF-8, in which
 * only backslash, quote and line feed are escaped. */
#include "base/metrics/prometheus.h"

#include <math.h>

#include "base/text/utf8.h"

static void put_family(struct metrics *m, const char *name, const char *type, const char *help)
{
	buf_printf(m->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
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

static void put_sample(struct metrics *m, const char *name, double value,
		       const struct metrics_label *labels, size_t count)
{
	struct buf *b = m->out;

	buf_puts(b, name);
	for (size_t i = 0; i < count; i++) {
		buf_puts(b, i ? "," : "{");
		put_label(b, labels[i].name, labels[i].value);
	}
	if (count)
		buf_puts(b, "}");
	/* printf writes the sign of a NaN, which the format does not allow */
	if (isnan(value))
		buf_puts(b, " NaN\n");
	else
		buf_printf(b, " %.17g\n", value);
}

struct metrics prometheus_metrics(struct buf *page)
{
	return (struct metrics){put_family, put_sample, page};
}
