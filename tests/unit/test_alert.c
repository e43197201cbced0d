/* SPDX-License-Identifier: Apache-2.0
 * What fires; what is sent of it over HTTP: tests/e2e/alerts.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "aggregator/alert.h"
#include "base/metrics/prometheus.h"

static struct alert *alert;

static int setup(void **unused)
{
	/* nobody listens there: what fires stays */
	const struct alert_config c = {
	    .url = "http://127.0.0.1:1/", .link = "", .repeat_ns = 3600000000000};

	return alert_open(&alert, &c);
}

static int teardown(void **unused)
{
	alert_close(alert);
	return 0;
}

static uint32_t push(const char *id, const char *symptom, const char *state)
{
	json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "id", id, "job", "job", "symptom",
			      symptom, "state", state, "begin_unix_ns", 1000, "end_unix_ns", 2000);
	struct alert_stats stats;

	alert_push(alert, j);
	json_decref(j);
	alert_stats(alert, &stats);
	return stats.firing;
}

static void fires_until_it_is_closed(void **unused)
{
	assert_int_equal(push("aaaaaaaa", "slow_rank", "open"), 1);
	assert_int_equal(push("aaaaaaaa", "stall", "open"), 1);
	assert_int_equal(push("bbbbbbbb", "drift", "open"), 2);
	assert_int_equal(push("aaaaaaaa", "slow_rank", "closed"), 1);
}

static void stops_alerting_when_an_incident_becomes_a_transient(void **unused)
{
	assert_int_equal(push("aaaaaaaa", "transient", "open"), 0);
	assert_int_equal(push("aaaaaaaa", "slow_rank", "open"), 1);
	assert_int_equal(push("bbbbbbbb", "slow_rank", "open"), 2);
	assert_int_equal(push("aaaaaaaa", "transient", "open"), 1);
	assert_int_equal(push("bbbbbbbb", "transient", "closed"), 0);
	assert_int_equal(push("aaaaaaaa", "slow_rank", "open"), 1);
}

static void says_what_it_costs(void **unused)
{
	json_t *incident =
	    json_pack("{s:s, s:s, s:s, s:f, s:f}", "id", "aaaaaaaa", "symptom", "slow_rank",
		      "state", "open", "gpu_hours_lost", 0.42, "gpu_hours_per_day", 19.2);
	json_t *j = alert_json(incident, "", 0), *said = json_object_get(j, "annotations");

	assert_string_equal(json_string_value(json_object_get(said, "gpu_hours_lost")), "0.42");
	assert_non_null(json_object_get(said, "gpu_hours_per_day"));
	assert_string_equal(json_string_value(json_object_get(said, "gpu_hours_per_day")), "19.2");
	json_decref(j);
	json_decref(incident);
}

static void lists_open_incidents_without_a_receiver(void **unused)
{
	const struct alert_config c = {
	    .url = "", .link = "http://sysom.example", .repeat_ns = 3600000000000};
	struct alert *quiet;
	struct buf page;
	struct metrics m = prometheus_metrics(&page);
	json_t *incident =
	    json_pack("{s:s, s:s, s:s, s:s, s:[i], s:f}", "id", "aaaaaaaa", "job", "j\"b@0",
		      "symptom", "stall", "state", "open", "ranks", 3, "gpu_hours_lost", 0.5);

	assert_int_equal(alert_open(&quiet, &c), 0);
	alert_push(quiet, incident);
	buf_init(&page, 1 << 20);
	alert_metrics(quiet, NULL, &m);
	buf_append(&page, "", 1);
	assert_non_null(strstr((const char *)page.data,
			       "sysom_incident_open{incident=\"aaaaaaaa\",job_name=\"j\\\"b@0\","
			       "severity=\"critical\",symptom=\"stall\",ranks=\"3\""));
	assert_non_null(strstr((const char *)page.data,
			       "page=\"http://sysom.example/incidents/aaaaaaaa\"} 1\n"));
	assert_non_null(strstr((const char *)page.data,
			       "sysom_incident_lost_gpu_seconds{incident=\"aaaaaaaa\","
			       "job_name=\"j\\\"b@0\"} 1800\n"));
	buf_fini(&page);
	alert_resolve(quiet, "aaaaaaaa", 1);
	buf_init(&page, 1 << 20);
	alert_metrics(quiet, NULL, &m);
	buf_append(&page, "", 1);
	assert_null(strstr((const char *)page.data, "aaaaaaaa"));
	buf_fini(&page);
	alert_close(quiet);
	json_decref(incident);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(fires_until_it_is_closed),
	    CASE(stops_alerting_when_an_incident_becomes_a_transient),
	    CASE(says_what_it_costs),
	    cmocka_unit_test(lists_open_incidents_without_a_receiver),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
