/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/report/report.h"
#include "tests/unit/cli_incident.h"

#define SLOW (CLI_INCIDENT_STEPS - CLI_INCIDENT_SLOW_FROM)

/* The culprit's roofline; its slow steps as a window of that reason tells them. */
static char *roofline_of(uint32_t reason, uint32_t work_count)
{
	struct cli_incident *c = cli_incident_make();
	struct window *w = &c->w[CLI_INCIDENT_CULPRIT];
	json_t *incident = json_pack("{s:[i]}", "ranks", CLI_INCIDENT_CULPRIT);
	struct trace_model m;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	w->reason = reason;
	for (uint32_t i = 0; i < w->step_count; i++) {
		struct window_step *s = &w->steps[i];

		s->step.work_count = work_count;
		s->flags = i < CLI_INCIDENT_SLOW_FROM ? WINDOW_STEP_MARGIN
						      : WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
		/* as long as the step whatever its work */
		if (reason == WINDOW_PEER && i >= CLI_INCIDENT_SLOW_FROM)
			s->expected_ns = (double)s->step.latency_ns - 5e6 + i % 7 * 3e5;
	}
	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, w), 0);
	trace_model_finish(&m);
	to = open_memstream(&text, &bytes);
	report_plots_roofline(to, incident, &m);
	fclose(to);
	trace_model_fini(&m);
	json_decref(incident);
	return text;
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static size_t line_points(const char *text)
{
	const char *line = strstr(text, "<polyline"), *end;
	size_t n = 0;

	assert_non_null(line);
	line = strstr(line, "points=\"") + strlen("points=\"");
	end = strchr(line, '"');
	for (; line < end; line++)
		n += *line == ',';
	return n;
}

static void the_line_is_what_the_model_expected(void **state)
{
	char *text = roofline_of(WINDOW_SELF, 1);

	(void)state;
	assert_int_equal(line_points(text), CLI_INCIDENT_STEPS);
	assert_int_equal(count_of(text, "<circle"), CLI_INCIDENT_STEPS);
	assert_null(strstr(text, "by its peers"));
	free(text);
}

static void what_the_peers_show_is_no_part_of_the_line(void **state)
{
	char *text = roofline_of(WINDOW_PEER, 1);

	(void)state;
	assert_int_equal(line_points(text), CLI_INCIDENT_SLOW_FROM);
	assert_int_equal(count_of(text, "<circle"), CLI_INCIDENT_STEPS);
	assert_int_equal(count_of(text, "by its peers, flagged"), SLOW);
	assert_null(strstr(text, "expected time of the step")); /* the axis is the work still */
	assert_string_equal(trace_model_reason(WINDOW_PEER), "peer");
	free(text);
	/* without work there is no place for them */
	text = roofline_of(WINDOW_PEER, 0);
	assert_int_equal(line_points(text), CLI_INCIDENT_SLOW_FROM);
	assert_int_equal(count_of(text, "<circle"), CLI_INCIDENT_SLOW_FROM);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_line_is_what_the_model_expected),
	    cmocka_unit_test(what_the_peers_show_is_no_part_of_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
