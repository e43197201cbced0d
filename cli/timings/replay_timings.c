/* SPDX-License-Identifier: Apache-2.0
 * sysom replay timings: step times by worker, as a table (a column each) or a list (a row each). If workers
 * wait for each other in every step, all columns are equal, and only a change of the whole job shows. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/room.h"
#include "cli/replay/replay.h"
#include "render/term.h"
#include "cli/timings/replay_workers.h"
#include "cli/timings/timing_columns.h"

#define SECONDS_MAX 1e8 /* three years */

struct value {
	uint32_t worker, step;
	double time; /* in the columns' unit; NAN not known */
};

struct timings {
	struct replay_workers r;
	struct timing_columns c;
	struct value *value;
	size_t count, room;
	uint64_t missing, not_positive, twice;
	int32_t *name; /* of the table's workers */
};

/* A table's workers get the numbers in their names if each has its own, else 0, 1, 2, ... */
static int name_workers(struct timings *t)
{
	struct replay_workers_ids seen = {0};
	uint32_t workers = 0;
	bool all = true;

	t->name = calloc(t->c.width + 1, sizeof(*t->name));
	if (!t->name)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->c.width && all; i++) {
		const struct timing_column *c = &t->c.column[i];

		if (!c->is_time)
			continue;
		all =
		    c->number >= 0 && replay_workers_find(&seen, c->number, UINT32_MAX) == workers;
		if (all)
			t->name[workers++] = (int32_t)c->number;
	}
	for (uint32_t i = 0; !all && i < t->c.width; i++)
		t->name[i] = (int32_t)i;
	replay_workers_forget(&seen);
	return 0;
}

static struct value *value_new(struct timings *t)
{
	if (t->count == 2 * REPLAY_WORKERS_CELLS_MAX || ROOM_FOR(t->value, t->room, t->count + 1))
		return NULL;
	return &t->value[t->count++];
}

static int add(struct timings *t, int64_t worker, int64_t step, const struct trace_field *f)
{
	int64_t w = replay_workers_find(&t->r.rank, worker, REPLAY_WORKERS_MAX);
	int64_t s = replay_workers_find(&t->r.step, step, REPLAY_WORKERS_STEPS_MAX);
	struct value *v;
	double time = NAN;

	if (w < 0 || s < 0)
		return replay_input_bad(&t->r.in, "too many workers or steps", NULL);
	if (timing_columns_unknown(f))
		t->missing++;
	else if (!trace_reader_number(f, &time) || time * t->c.unit->ns > SECONDS_MAX * 1e9)
		return replay_input_bad(&t->r.in, "not a time", f->text);
	else if (time < 0)
		return replay_input_bad(&t->r.in, "a negative time", f->text);
	v = value_new(t);
	if (!v)
		return replay_input_bad(&t->r.in, "not enough memory for so many values", NULL);
	*v = (struct value){.worker = (uint32_t)w, .step = (uint32_t)s, .time = time};
	return 0;
}

static bool integer(const struct trace_field *f, int64_t *out)
{
	double v;

	if (!trace_reader_number(f, &v) || v != floor(v) || fabs(v) > 0x1p53)
		return false;
	*out = (int64_t)v;
	return true;
}

static int read_list_row(struct timings *t, const struct trace_field *f)
{
	const struct trace_field *name = &f[t->c.worker];
	int64_t worker, step;

	if (!integer(name, &worker) && !timing_columns_number(name->text, name->bytes, &worker))
		return replay_input_bad(&t->r.in, "no number in a worker's name", name->text);
	if (worker < 0 || worker > INT32_MAX)
		return replay_input_bad(&t->r.in, "not a worker", f[t->c.worker].text);
	if (!integer(&f[t->c.step], &step) || step < 0)
		return replay_input_bad(&t->r.in, "not a step", f[t->c.step].text);
	return add(t, worker, step, &f[t->c.seconds]);
}

static int read_table_row(struct timings *t, const struct trace_field *f)
{
	int64_t step = (int64_t)t->r.rows;
	uint32_t worker = 0;

	if (t->c.step < t->c.width && (!integer(&f[t->c.step], &step) || step < 0))
		return replay_input_bad(&t->r.in, "not a step", f[t->c.step].text);
	for (uint32_t i = 0; i < t->c.width; i++) {
		int rc;

		if (!t->c.column[i].is_time)
			continue;
		rc = add(t, worker++, step, &f[i]);
		if (rc)
			return rc;
	}
	return 0;
}

static int first_row(struct timings *t, const struct trace_field *f)
{
	const char *why = timing_columns_take(&t->c, f, t->r.in.width, t->r.times,
					      t->r.unit ? replay_unit_of(t->r.unit) : NULL);

	if (!why && !t->c.list && t->c.header && name_workers(t))
		why = "out of memory";
	return why ? replay_input_bad(&t->r.in, why, t->c.which) : 0;
}

static int read_row(void *timings, const struct replay_input *in, struct trace_field *f)
{
	struct timings *t = timings;
	int rc = in->row ? 0 : first_row(t, f);

	if (rc || (!in->row && t->c.header))
		return rc;
	rc = t->c.list ? read_list_row(t, f) : read_table_row(t, f);
	t->r.rows += !rc;
	return rc;
}

/* ---- a table without a header ---- */

static double cell(const struct timings *t, size_t row, uint32_t column)
{
	return t->value[row * t->c.width + column].time;
}

static bool whole(double v)
{
	return isnan(v) || (v == floor(v) && v >= 0 && v < 0x1p53);
}

/* Whether rows are worker,step,seconds: two columns of integers, each pair once, and one of fractions. */
static bool looks_like_list(const struct timings *t)
{
	bool fractions = false;

	if (t->c.header || t->c.width != 3 || t->count < 6)
		return false;
	for (size_t r = 0; r < t->count / 3; r++) {
		if (!whole(cell(t, r, 0)) || !whole(cell(t, r, 1)))
			return false;
		fractions |= !whole(cell(t, r, 2));
	}
	return fractions;
}

/* Whether the first column counts the rows. */
static bool first_counts(const struct timings *t)
{
	bool fractions = false;

	if (t->c.header || t->c.width < 3 || t->count < 2 * (size_t)t->c.width)
		return false;
	for (size_t r = 0; r < t->count / t->c.width; r++) {
		double v = cell(t, r, 0), before = r ? cell(t, r - 1, 0) : NAN;

		if (!whole(v) || (r > 1 && v != before + 1))
			return false;
		fractions |= !whole(cell(t, r, 1));
	}
	return fractions;
}

/* Reads the values again: as a list, or with the first column as steps. */
static int reread(struct timings *t, bool list)
{
	struct value *old = t->value;
	size_t rows = t->count / t->c.width;
	int err = 0;

	replay_workers_free(&t->r);
	t->value = NULL;
	t->count = t->room = 0;
	timing_columns_found(&t->c, list);
	for (size_t r = 0; r < rows && !err; r++)
		for (uint32_t k = list ? 2 : 1; k < t->c.width && !err; k++) {
			const struct value *row = &old[r * t->c.width];
			double first = isnan(row[0].time) ? 0 : row[0].time;
			double second = isnan(row[1].time) ? 0 : row[1].time;
			int64_t worker = list ? (int64_t)first : (int64_t)k - 1;
			int64_t step = list ? (int64_t)second : (int64_t)first;
			int64_t w = replay_workers_find(&t->r.rank, worker, REPLAY_WORKERS_MAX);
			int64_t s = replay_workers_find(&t->r.step, step, REPLAY_WORKERS_STEPS_MAX);
			struct value *v = w < 0 || s < 0 ? NULL : value_new(t);

			if (v)
				*v = (struct value){(uint32_t)w, (uint32_t)s, row[k].time};
			err = v ? 0 : w == -E2BIG || s == -E2BIG ? -E2BIG : -ENOMEM;
		}
	free(old);
	return err;
}

/* Times without a unit, all between 0 and 1, may be shares of something. If a column's name alone calls
 * them times, or the largest is 1, --unit is required. */
static int check_unit(const struct timings *t)
{
	const struct timing_column *named = NULL;
	double most = 0;

	if (strcmp(t->c.unit_from, "assumed"))
		return 0;
	for (size_t i = 0; i < t->count; i++)
		most = t->value[i].time > most ? t->value[i].time : most;
	if (most > 1 || most <= 0)
		return 0;
	for (uint32_t i = 0; i < t->c.width && !named; i++)
		if (t->c.column[i].is_time && t->c.column[i].name && t->c.column[i].number < 0)
			named = &t->c.column[i];
	fprintf(stderr,
		"%s: %s%s%sall values are between 0 and 1, and their unit is not known: %s\n",
		t->r.in.path, named ? "column " : "", named ? term_safe(named->name, 80) : "",
		named ? ": " : "",
		named || most == 1 ? "use --unit s if they are seconds"
				   : "taken as seconds (--unit s confirms it)");
	return named || most == 1 ? 2 : 0;
}

/* ---- judging ---- */

struct matrix {
	struct workers_table t;
	double *self;
	uint64_t *step;
	int32_t *rank;
	uint32_t *role, *to[2];
};

static int fill(struct timings *t, struct matrix *m)
{
	uint32_t workers = t->r.rank.count, steps = t->r.step.count;
	size_t cells = (size_t)workers * steps;

	if (cells > REPLAY_WORKERS_CELLS_MAX || workers > PEERS_MEMBERS_MAX)
		return -E2BIG;
	m->self = malloc(cells * sizeof(*m->self));
	m->step = malloc(steps * sizeof(*m->step));
	m->rank = malloc(workers * sizeof(*m->rank));
	m->role = calloc(workers, sizeof(*m->role));
	m->to[0] = replay_workers_places(&t->r.rank);
	m->to[1] = replay_workers_places(&t->r.step);
	if (!m->self || !m->step || !m->rank || !m->role || !m->to[0] || !m->to[1])
		return -ENOMEM;
	for (uint32_t i = 0; i < workers; i++)
		m->rank[m->to[0][i]] =
		    t->c.list || !t->name ? (int32_t)t->r.rank.id[i] : t->name[t->r.rank.id[i]];
	for (uint32_t s = 0; s < steps; s++)
		m->step[m->to[1][s]] = (uint64_t)t->r.step.id[s];
	for (size_t i = 0; i < cells; i++)
		m->self[i] = NAN;
	for (size_t i = 0; i < t->count; i++) {
		double *at = &m->self[(size_t)m->to[0][t->value[i].worker] * steps +
				      m->to[1][t->value[i].step]];
		bool known = t->value[i].time > 0;

		t->not_positive += t->value[i].time == 0;
		t->twice += known && !isnan(*at);
		*at = known ? t->c.unit->ns * t->value[i].time : *at;
	}
	m->t = (struct workers_table){.workers = workers,
				      .steps = steps,
				      .step = m->step,
				      .rank = m->rank,
				      .role = m->role,
				      .roles = 1,
				      .self_ns = m->self};
	return 0;
}

static void print_summary(const struct timings *t, const struct matrix *m)
{
	const char *layout = t->c.list ? "list" : "table";

	if (t->r.json) {
		printf("{\"type\":\"summary\",\"kind\":\"timings\",\"rows\":%" PRIu64
		       ",\"skipped\":{\"blank_line\":%" PRIu64 ",\"missing\":%" PRIu64
		       ",\"not_positive\":%" PRIu64 ",\"overwritten\":%" PRIu64
		       "},\"workers\":%" PRIu32 ",\"steps\":%" PRIu32
		       ",\"layout\":\"%s\",\"findings\":%" PRIu64 ",\"mode\":\"%s\",",
		       t->r.rows, t->r.in.blank, t->missing, t->not_positive, t->twice,
		       m->t.workers, m->t.steps, layout, t->r.findings,
		       t->r.config.mode == PEERS_SYSOM ? "sysom" : "robust");
		timing_columns_json(&t->c, stdout);
		puts("}");
		return;
	}
	putchar('\n');
	timing_columns_text(&t->c, stdout);
	printf("%" PRIu32 " workers, %" PRIu32 " steps (%s); skipped: %" PRIu64
	       " blank lines, %" PRIu64 " missing, %" PRIu64 " zero, %" PRIu64
	       " overwritten by a later row\n",
	       m->t.workers, m->t.steps, layout, t->r.in.blank, t->missing, t->not_positive,
	       t->twice);
}

static int finish(void *timings)
{
	struct timings *t = timings;
	struct matrix m = {0};
	int rc = 0, err = 0;

	if (!t->c.list && looks_like_list(t))
		err = reread(t, true);
	else if (!t->c.list && first_counts(t))
		err = reread(t, false);
	if (!err)
		rc = check_unit(t);
	if (rc)
		return rc;
	if (!err && t->count)
		err = fill(t, &m);
	if (err) {
		fprintf(stderr, "%s: %s\n", t->r.in.path,
			err == -E2BIG ? "too many workers or steps" : "out of memory");
		rc = err == -E2BIG ? EXIT_USAGE : EXIT_FAILED;
	} else if (t->count) {
		rc = replay_workers_judge(&t->r, &m.t);
	}
	if (!rc)
		print_summary(t, &m);
	free(m.self);
	free(m.step);
	free(m.rank);
	free(m.role);
	free(m.to[0]);
	free(m.to[1]);
	return rc;
}

static int replay_timings_main(int argc, char **argv)
{
	struct timings t = {0};
	int rc = replay_workers_main(&t.r, &replay_timings, argc, argv, read_row, finish);

	timing_columns_free(&t.c);
	free(t.value);
	free(t.name);
	return rc;
}

const struct command replay_timings = {.name = "replay timings",
				       .raw = replay_timings_main,
				       .rows = replay_workers_rows,
				       .flags = REPLAY_WORKERS_TIMES,
				       .args = "F.csv",
				       .args_min = 1,
				       .args_max = 1,
				       .summary = "step times by worker: slow workers",
				       .status = REPLAY_STATUS};
