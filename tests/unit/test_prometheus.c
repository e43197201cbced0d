/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics/prometheus.h"

static void expect(struct buf *b, const char *text)
{
	buf_append(b, "", 1);
	assert_false(b->failed);
	assert_string_equal((char *)b->data, text);
	buf_fini(b);
}

static void names_a_metric_before_its_samples(void **unused)
{
	struct buf b;
	struct metrics m = prometheus_metrics(&b);

	buf_init(&b, 4096);
	METRICS(&m, {"a_total", "Some.", 3}, {"b", "Now.", 0.5});
	METRICS_BY(&m, "c_total", "By kind.", "kind", {"x", 1}, {"y", 2});
	expect(&b, "# HELP a_total Some.\n# TYPE a_total counter\na_total 3\n"
		   "# HELP b Now.\n# TYPE b gauge\nb 0.5\n"
		   "# HELP c_total By kind.\n# TYPE c_total counter\n"
		   "c_total{kind=\"x\"} 1\nc_total{kind=\"y\"} 2\n");
}

static void escapes_labels_as_the_format_says_and_no_further(void **unused)
{
	struct buf b;
	struct metrics m = prometheus_metrics(&b);

	buf_init(&b, 4096);
	metrics_sample(&m, "a", 1, "x", "q\"b\\n\n\x01<", "y", "\xc3\xa9\xff", NULL);
	expect(&b, "a{x=\"q\\\"b\\\\n\\n\x01<\",y=\"\xc3\xa9\xef\xbf\xbd\"} 1\n");
}

static void writes_values_exactly(void **unused)
{
	struct buf b;
	struct metrics m = prometheus_metrics(&b);

	buf_init(&b, 4096);
	metrics_sample(&m, "a", 9007199254740991, NULL);
	metrics_sample(&m, "a", -(double)NAN, NULL);
	metrics_sample(&m, "a", -(double)INFINITY, NULL);
	expect(&b, "a 9007199254740991\na NaN\na -inf\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_a_metric_before_its_samples),
	    cmocka_unit_test(escapes_labels_as_the_format_says_and_no_further),
	    cmocka_unit_test(writes_values_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
