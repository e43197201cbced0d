/* SPDX-License-Identifier: Apache-2.0
 * What a receiver decodes is tests/e2e/otlp.sh's. This is about what is hard to bring about there. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics/otlp.h"
#include "base/metrics/otlp.pb-c.h"
#include "base/text/utf8.h"

struct got {
	Otlp__ExportMetricsServiceRequest *request[8];
	uint32_t count;
};

static void keep(void *arg, struct buf *b)
{
	struct got *g = arg;

	assert_true(g->count < 8);
	g->request[g->count] =
	    otlp__export_metrics_service_request__unpack(NULL, b->bytes, b->data);
	assert_non_null(g->request[g->count++]);
	buf_fini(b);
}

static void drop(struct got *g)
{
	while (g->count)
		otlp__export_metrics_service_request__free_unpacked(g->request[--g->count], NULL);
}

static const struct otlp_resource resource = {"test", "host \xff", 1};

static struct otlp *begin(struct got *g)
{
	struct otlp *o;

	g->count = 0;
	assert_int_equal(otlp_begin(&o, &resource, 2, keep, g), 0);
	return o;
}

static const Otlp__ScopeMetrics *scope(const struct got *g, uint32_t k)
{
	return g->request[k]->resource_metrics[0]->scope_metrics[0];
}

static void divides_many_points_into_requests(void **unused)
{
	struct got g;
	struct otlp *o = begin(&g);
	size_t points = 0;
	char n[12];

	metrics_family(otlp_metrics(o), "a_seconds", "Some.");
	for (uint32_t i = 0; i < 2 * OTLP_POINTS + 1; i++) {
		snprintf(n, sizeof(n), "%u", i);
		metrics_sample(otlp_metrics(o), "a_seconds", i, "n", n, NULL);
	}
	assert_int_equal(otlp_end(o), 0);
	assert_int_equal(g.count, 3);
	for (uint32_t k = 0; k < g.count; k++) {
		const Otlp__Metric *m = scope(&g, k)->metrics[0];

		assert_int_equal(scope(&g, k)->n_metrics, 1);
		assert_string_equal(m->name, "a_seconds");
		assert_string_equal(m->unit, "s");
		assert_true(m->gauge->n_data_points <= OTLP_POINTS);
		for (size_t i = 0; i < m->gauge->n_data_points; i++)
			assert_true(m->gauge->data_points[i]->as_double == (double)points++);
	}
	assert_int_equal(points, 2 * OTLP_POINTS + 1);
	drop(&g);
}

static void a_label_of_any_bytes_becomes_well_formed(void **unused)
{
	struct got g;
	struct otlp *o = begin(&g);
	const Otlp__NumberDataPoint *p;

	metrics_family(otlp_metrics(o), "a_total", "Some.");
	metrics_sample(otlp_metrics(o), "a_total", NAN, "x", "q\"\n\xc3\xa9\xff\xed\xa0\x80", NULL);
	assert_int_equal(otlp_end(o), 0);
	p = scope(&g, 0)->metrics[0]->sum->data_points[0];
	assert_true(isnan(p->as_double));
	assert_true(utf8_is_valid(p->attributes[0]->value->string_value));
	assert_non_null(strstr(p->attributes[0]->value->string_value, "\xc3\xa9"));
	for (size_t i = 0; i < g.request[0]->resource_metrics[0]->resource->n_attributes; i++)
		assert_true(utf8_is_valid(g.request[0]
					      ->resource_metrics[0]
					      ->resource->attributes[i]
					      ->value->string_value));
	drop(&g);
}

static void a_metric_without_samples_is_left_out(void **unused)
{
	struct got g;
	struct otlp *o = begin(&g);

	metrics_family(otlp_metrics(o), "a", "Some.");
	metrics_family(otlp_metrics(o), "b", "Some.");
	assert_int_equal(otlp_end(o), 0);
	assert_int_equal(g.count, 0);
	o = begin(&g);
	metrics_family(otlp_metrics(o), "a", "Some.");
	METRICS(otlp_metrics(o), {"b", "Other.", 0});
	assert_int_equal(otlp_end(o), 0);
	assert_int_equal(scope(&g, 0)->n_metrics, 1);
	assert_string_equal(scope(&g, 0)->metrics[0]->description, "Other.");
	assert_int_equal(scope(&g, 0)->metrics[0]->gauge->data_points[0]->value_case,
			 OTLP__NUMBER_DATA_POINT__VALUE_AS_DOUBLE);
	drop(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(divides_many_points_into_requests),
	    cmocka_unit_test(a_label_of_any_bytes_becomes_well_formed),
	    cmocka_unit_test(a_metric_without_samples_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
