/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/plots/plots.h"
#include "cli/report/rank_grid.h"
#include "cli/report/report.h"
#include "cli/report/show_plots.h"
#include "tests/unit/cli_incident.h"

static struct trace_model model;
static json_t *incident;

static void load(bool records)
{
	struct cli_incident *c = cli_incident_make();

	assert_int_equal(trace_model_init(&model), 0);
	for (int i = 0; i < CLI_INCIDENT_RANKS; i++) {
		if (!records)
			c->w[i].host_count = c->w[i].device_count = 0;
		assert_int_equal(trace_model_add(&model, &c->w[i]), 0);
	}
	trace_model_finish(&model);
	incident = json_pack("{s:[i]}", "ranks", CLI_INCIDENT_CULPRIT);
}

static int unload(void **state)
{
	(void)state;
	trace_model_fini(&model);
	json_decref(incident);
	return 0;
}

static void shows_own_time_and_lateness_on_one_clock(void **state)
{
	struct rank_grid g;

	(void)state;
	load(true);
	assert_int_equal(trace_align_apply(&model), 0);
	for (size_t i = 0; i < model.rank_count; i++) {
		double skew = (double)(model.ranks[i].who.rank / 2) * CLI_INCIDENT_SKEW_NS;

		assert_true(model.ranks[i].aligned);
		assert_true(fabs(model.ranks[i].clock_offset_ns - skew) < 1000);
	}
	assert_int_equal(rank_grid_make(&g, incident, &model), 0);
	assert_int_equal(g.columns, CLI_INCIDENT_STEPS);
	assert_int_equal(g.rank_count, CLI_INCIDENT_RANKS);
	assert_int_equal(g.culprit, CLI_INCIDENT_CULPRIT);
	for (uint32_t r = 0; r < g.rank_count; r++)
		for (uint32_t c = 0; c < g.columns; c++) {
			const struct rank_grid_cell *cell = rank_grid_at(&g, r, c);
			double late = r != g.culprit		   ? 0
				      : c < CLI_INCIDENT_SLOW_FROM ? 1.6e6
								   : 6.6e6;

			assert_true(fabs(cell->late_ns - late) < 2000);
			assert_int_equal(cell->excess > 0.1, r == g.culprit);
			assert_int_equal(g.flagged[c], c >= CLI_INCIDENT_SLOW_FROM);
		}
	assert_true(fabs(rank_grid_typical(&g, g.culprit, true).late_ns - 6.6e6) < 2000);
	rank_grid_free(&g);
}

/* The windows may have steps that were slow before the fault: the verdict is not about them. */
static void flags_no_step_of_another_time(void **state)
{
	const struct trace_rank *r;
	struct rank_grid g;
	uint64_t from;

	(void)state;
	load(true);
	r = trace_model_rank(&model, CLI_INCIDENT_CULPRIT);
	from = r->steps[CLI_INCIDENT_SLOW_FROM + 1].step.begin_ns + 1;
	trace_model_set_fault(&model, from, r->steps[CLI_INCIDENT_STEPS - 1].step.end_ns);
	assert_int_equal(rank_grid_make(&g, incident, &model), 0);
	for (uint32_t c = 0; c < g.columns; c++) {
		assert_int_equal(g.flagged[c], c > CLI_INCIDENT_SLOW_FROM);
		assert_int_equal(trace_step_is_slow(&r->steps[c]), c > CLI_INCIDENT_SLOW_FROM);
		assert_int_equal(trace_step_is_healthy(&r->steps[c]), c < CLI_INCIDENT_SLOW_FROM);
	}
	rank_grid_free(&g);
}

static void says_nothing_of_lateness_without_records(void **state)
{
	struct rank_grid g;

	(void)state;
	load(false);
	assert_int_equal(trace_align_apply(&model), 0);
	assert_false(model.ranks[3].aligned);
	assert_int_equal(rank_grid_make(&g, incident, &model), 0);
	assert_true(isnan(rank_grid_typical(&g, g.culprit, true).late_ns));
	assert_true(rank_grid_typical(&g, g.culprit, true).excess > 0.1);
	rank_grid_free(&g);
}

static void says_nothing_of_lateness_that_one_step_shows(void **state)
{
	struct rank_grid g;
	uint32_t last;

	(void)state;
	load(true);
	assert_int_equal(trace_align_apply(&model), 0);
	assert_int_equal(rank_grid_make(&g, incident, &model), 0);
	assert_true(rank_grid_has_lateness(&g));
	last = g.columns - 1;
	for (uint32_t c = 0; c < last; c++)
		for (uint32_t r = 0; r < g.rank_count; r++)
			g.cell[r * g.columns + c].late_ns = NAN;
	assert_false(rank_grid_has_lateness(&g));
	assert_true(g.flagged[last] && isfinite(rank_grid_at(&g, g.culprit, last)->late_ns));
	assert_true(isnan(rank_grid_typical(&g, g.culprit, true).late_ns));
	assert_true(rank_grid_typical(&g, g.culprit, true).excess > 0.1);
	rank_grid_free(&g);
}

static void gives_the_excess_of_the_self_times_beside_it(void **state)
{
	struct rank_grid_cell own, peer;
	struct rank_grid g;

	(void)state;
	load(false);
	assert_int_equal(trace_align_apply(&model), 0);
	assert_int_equal(rank_grid_make(&g, incident, &model), 0);
	assert_true(g.by_peers && g.columns >= 9);
	for (uint32_t c = 0; c < g.columns; c++) {
		g.flagged[c] = c < 9;
		for (uint32_t r = 0; r < g.rank_count; r++) {
			/* slow in four columns; four more have little work, and the last one has much */
			double self = c < 4 ? 100e6 : c < 8 ? 30e6 : 110e6;

			g.cell[r * g.columns + c].self_ns =
			    c < 4 && r == g.culprit ? 2 * self : self;
			g.cell[r * g.columns + c].excess = c < 4 && r == g.culprit ? 1 : 0;
		}
	}
	own = rank_grid_typical(&g, g.culprit, true);
	peer = rank_grid_typical(&g, !g.culprit, true);
	assert_true(own.self_ns == 110e6 && peer.self_ns == 100e6);
	assert_true(fabs(own.excess - 0.1) < 1e-9);
	assert_true(fabs(peer.excess) < 1e-9);
	rank_grid_free(&g);
}

/* Of an engine that marks its steps: it has no number. */
static void pictures_give_a_process_without_a_rank_no_number(void **state)
{
	json_t *engine = json_pack("{s:[i], s:[s]}", "ranks", -1, "nodes", "node-1");
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	(void)state;
	load(true);
	model.ranks[CLI_INCIDENT_CULPRIT].who.rank = -1;
	show_plots_print(f, engine, &model, 80);
	plots_steps(f, engine, &model);
	plots_where(f, engine, &model);
	assert_int_equal(report_plots_heat(f, engine, &model), 0);
	report_plots_roofline(f, engine, &model);
	fclose(f);
	assert_non_null(strstr(text, "of a process without a rank; ^ flagged"));
	assert_non_null(strstr(text, "<b>a process without a rank</b>"));
	assert_non_null(strstr(text, ">no rank</text>"));
	assert_non_null(strstr(text, "Roofline of a process without a rank"));
	assert_null(strstr(text, "rank -1"));
	free(text);
	json_decref(engine);
}

static void puts_many_steps_into_the_columns_it_has(void **state)
{
	struct trace_rank *r;
	struct rank_grid g;

	(void)state;
	load(false);
	r = &model.ranks[CLI_INCIDENT_CULPRIT];
	r->steps = realloc(r->steps, 1001 * sizeof(*r->steps));
	r->step_room = 1001;
	for (size_t i = CLI_INCIDENT_STEPS; i < 1001; i++) {
		r->steps[i] = r->steps[i - 1];
		r->steps[i].step.index++;
		r->steps[i].step.begin_ns = r->steps[i - 1].step.end_ns;
		r->steps[i].step.end_ns = r->steps[i].step.begin_ns + 20000000;
	}
	r->step_count = 1001;
	assert_int_equal(rank_grid_make(&g, incident, &model), 0);
	assert_int_equal(g.per_column, 6);
	assert_int_equal(g.columns, 167);
	assert_int_equal(g.first_step[166], 100 + 996);
	rank_grid_free(&g);
	r->step_count = 0;
	assert_int_equal(rank_grid_make(&g, incident, &model), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(shows_own_time_and_lateness_on_one_clock, unload),
	    cmocka_unit_test_teardown(flags_no_step_of_another_time, unload),
	    cmocka_unit_test_teardown(says_nothing_of_lateness_without_records, unload),
	    cmocka_unit_test_teardown(says_nothing_of_lateness_that_one_step_shows, unload),
	    cmocka_unit_test_teardown(gives_the_excess_of_the_self_times_beside_it, unload),
	    cmocka_unit_test_teardown(pictures_give_a_process_without_a_rank_no_number, unload),
	    cmocka_unit_test_teardown(puts_many_steps_into_the_columns_it_has, unload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
