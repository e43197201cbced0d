/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/plots/plots.h"
#include "cli/report/report.h"
#include "render/report_page.h"
#include "tests/unit/cli_incident.h"

#define SLOW (CLI_INCIDENT_STEPS - CLI_INCIDENT_SLOW_FROM)

/* What the pictures draw of the culprit's window. */
static char *drawn(const struct window *w,
		   void (*draw)(FILE *to, const json_t *incident, const struct trace_model *m))
{
	json_t *incident = json_pack("{s:[i]}", "ranks", CLI_INCIDENT_CULPRIT);
	struct trace_model m;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	assert_int_equal(trace_model_init(&m), 0);
	assert_int_equal(trace_model_add(&m, w), 0);
	trace_model_finish(&m);
	to = open_memstream(&text, &bytes);
	draw(to, incident, &m);
	fclose(to);
	trace_model_fini(&m);
	json_decref(incident);
	return text;
}

/* The culprit's roofline; its slow steps as a window of that reason has them. */
static char *roofline_of(uint32_t reason, uint32_t work_count)
{
	struct cli_incident *c = cli_incident_make();
	struct window *w = &c->w[CLI_INCIDENT_CULPRIT];

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
	return drawn(w, report_plots_roofline);
}

static void steps_and_roofline(FILE *to, const json_t *incident, const struct trace_model *m)
{
	plots_steps(to, incident, m);
	report_plots_roofline(to, incident, m);
}

/* Its first step is expected to take as long as the whole evaluation. */
static void an_expectation_for_many_steps_stretches_no_axis(void **state)
{
	struct cli_incident *c = cli_incident_make();
	struct window *w = &c->w[CLI_INCIDENT_CULPRIT];
	char *text;

	(void)state;
	w->steps[1].expected_ns = 3e9;
	for (uint32_t i = 0; i < w->step_count; i++)
		w->steps[i].step.work_count = 0;
	text = drawn(w, steps_and_roofline);
	assert_non_null(strstr(text, "id=\"roofline\""));
	assert_non_null(strstr(text, " ms</text>"));
	assert_null(strstr(text, " s</text>"));
	assert_null(strstr(text, ">3000<"));
	free(text);
}

static char *heat_of(json_t *incident)
{
	struct cli_incident *c = cli_incident_make();
	struct trace_model m;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	assert_int_equal(trace_model_init(&m), 0);
	for (size_t i = 0; i < CLI_INCIDENT_RANKS; i++)
		assert_int_equal(trace_model_add(&m, &c->w[i]), 0);
	trace_model_finish(&m);
	to = open_memstream(&text, &bytes);
	assert_int_equal(report_plots_heat(to, incident, &m), 0);
	fclose(to);
	trace_model_fini(&m);
	json_decref(incident);
	return text;
}

static void a_rank_is_marked_only_if_it_is_to_blame(void **state)
{
	char *blames = heat_of(json_pack("{s:[i]}", "ranks", CLI_INCIDENT_CULPRIT)),
	     *nobody = heat_of(json_pack("{s:[]}", "ranks"));

	(void)state;
	assert_non_null(strstr(blames, "class=\"culprit\""));
	assert_non_null(strstr(nobody, "rank 0"));
	assert_null(strstr(nobody, "class=\"culprit\""));
	free(blames);
	free(nobody);
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
	assert_string_equal(window_reason_name(WINDOW_PEER), "peer");
	assert_string_equal(window_reason_title("peer"), "slower than its peers");
	assert_string_equal(window_reason_title("newer"), "newer");
	free(text);
	/* without work there is no place for them */
	text = roofline_of(WINDOW_PEER, 0);
	assert_int_equal(line_points(text), CLI_INCIDENT_SLOW_FROM);
	assert_int_equal(count_of(text, "<circle"), CLI_INCIDENT_SLOW_FROM);
	free(text);
}

/* A peer's figures may be anything; a picture of them is still one of bounded size. */
static void odd_figures_have_bounded_pictures(void **state)
{
	static const double odd[] = {INFINITY, -INFINITY, NAN, 1.7e308, -1.7e308, 5e-324, 0};
	static const uint64_t wide[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, 1ull << 62};
	struct cli_incident *c = cli_incident_make();
	json_t *incident = json_pack("{s:[i]}", "ranks", CLI_INCIDENT_CULPRIT);
	struct trace_model m;
	char *text = NULL;
	size_t bytes;
	FILE *to;

	(void)state;
	for (int r = 0; r < CLI_INCIDENT_RANKS; r++) {
		struct window *w = &c->w[r];

		for (uint32_t i = 0; i < w->signal_count; i++)
			w->signals[i].value = odd[(i + (uint32_t)r) % 7];
		for (uint32_t i = 0; i < w->step_count; i++) {
			struct window_step *s = &w->steps[i];

			s->expected_ns = odd[i % 7];
			s->step.work[0] = odd[(i + 3) % 7];
			s->step.latency_ns = wide[i % 5];
			s->step.device_latency_ns = wide[(i + 1) % 5];
			s->step.device_end_ns = wide[(i + 2) % 5];
			s->step.index = i % 3 ? s->step.index : wide[(i + 3) % 5];
		}
	}
	assert_int_equal(trace_model_init(&m), 0);
	for (int r = 0; r < CLI_INCIDENT_RANKS; r++)
		assert_int_equal(trace_model_add(&m, &c->w[r]), 0);
	trace_model_finish(&m);
	to = open_memstream(&text, &bytes);
	assert_int_equal(report_html_write(to, incident, &m), 0);
	fclose(to);
	assert_true(bytes < 1 << 20);
	assert_non_null(strstr(text, "id=\"steps\""));
	trace_model_fini(&m);
	json_decref(incident);
	free(text);
}

/* Older ones may be more than transients. */
static void a_page_of_transients_is_no_end_of_the_list(void **state)
{
	json_t *list =
	    json_pack("{s:[{s:s, s:s}], s:s, s:{s:s}}", "incidents", "id", "00000001", "symptom",
		      "transient", "next", "00000001", "query", "job", "a & \"b\"");

	for (int last = 0; last < 2; last++) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *to = open_memstream(&text, &bytes);

		if (last)
			json_object_del(list, "next");
		report_page_list(to, list);
		fclose(to);
		assert_int_equal(strstr(text, "No incidents.") != NULL, last);
		assert_int_equal(strstr(text, "Older ones") != NULL, !last);
		assert_int_equal(
		    strstr(text, "name=\"job\" value=\"a &amp; &quot;b&quot;\"") != NULL, !last);
		free(text);
	}
	json_decref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_rank_is_marked_only_if_it_is_to_blame),
	    cmocka_unit_test(an_expectation_for_many_steps_stretches_no_axis),
	    cmocka_unit_test(the_line_is_what_the_model_expected),
	    cmocka_unit_test(what_the_peers_show_is_no_part_of_the_line),
	    cmocka_unit_test(odd_figures_have_bounded_pictures),
	    cmocka_unit_test(a_page_of_transients_is_no_end_of_the_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
