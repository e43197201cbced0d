/* SPDX-License-Identifier: Apache-2.0
 * cmd_top.c - all ranks, suspects first. On a terminal it is a screen that refreshes itself and
 * takes keys; otherwise the same table is printed once. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>

#include "analysis/robust/median.h"
#include "base/check.h"
#include "base/jsonget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/text/term.h"

#define ROWS_MAX       200 /* of the printed table; --json has them all */
#define FILTER_BYTES   64
#define LINE_BYTES     512
#define REFRESH_TENTHS 10

enum sort { SORT_SUSPECT, SORT_SELF, SORT_STEP, SORT_RANK, SORTS };
static const char *const sort_names[SORTS] = {"suspects", "self time", "step time", "rank"};

struct row {
	const json_t *rank; /* borrowed from the answer */
	const char *job, *role;
	double self_ms,
	    excess; /* excess: of self time above the healthy peers' median; 0 not known */
	bool alive, suspect;
	double hang_s;
};

struct table {
	json_t *answer;
	struct row *row;
	size_t count, over; /* over: jobs without a living rank, left out */
	double steps, flagged, lost;
};

static double lost_count(const json_t *rank)
{
	const json_t *lost = json_object_get(rank, "lost"), *v;
	const char *cause;
	double sum = json_number_value(lost);

	json_object_foreach((json_t *)lost, cause, v) sum += json_number_value(v);
	return sum;
}

/* ---- the rows ---- */

static int by_rank(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return strcmp(x->job, y->job)
		   ?: ORDER(jsonget_integer(x->rank, "rank"), jsonget_integer(y->rank, "rank"));
}

static int by_suspect(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return ORDER(y->suspect || y->hang_s > 0, x->suspect || x->hang_s > 0) ?: by_rank(a, b);
}

static int by_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return ORDER(y->excess, x->excess) ?: ORDER(y->self_ms, x->self_ms) ?: by_rank(a, b);
}

static int by_step(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return ORDER(jsonget_number(y->rank, "latency_ms"), jsonget_number(x->rank, "latency_ms"))
		   ?: by_rank(a, b);
}

/* Removes the jobs without a living rank; rows are ordered by job. */
static void drop_ended(struct table *t)
{
	size_t kept = 0, begin = 0, end;

	for (; begin < t->count; begin = end) {
		bool alive = false;

		for (end = begin; end < t->count && !strcmp(t->row[end].job, t->row[begin].job);
		     end++)
			alive |= t->row[end].alive;
		t->over += !alive;
		for (size_t i = begin; alive && i < end; i++)
			t->row[kept++] = t->row[i];
	}
	t->count = kept;
}

/* Self time above the median of the healthy peers: ranks of the same job and role. */
static void compare(struct table *t, double *scratch)
{
	for (size_t i = 0; i < t->count; i++) {
		struct row *r = &t->row[i];
		uint32_t n = 0;
		double median;

		for (size_t k = i; k > 0 && !strcmp(t->row[k - 1].job, r->job); k--)
			if (!strcmp(t->row[k - 1].role, r->role) && !t->row[k - 1].suspect &&
			    t->row[k - 1].self_ms > 0)
				scratch[n++] = t->row[k - 1].self_ms;
		for (size_t k = i + 1; k < t->count && !strcmp(t->row[k].job, r->job); k++)
			if (!strcmp(t->row[k].role, r->role) && !t->row[k].suspect &&
			    t->row[k].self_ms > 0)
				scratch[n++] = t->row[k].self_ms;
		median = median_of(scratch, n);
		r->excess = median > 0 && r->self_ms > 0 ? r->self_ms / median - 1 : 0;
	}
}

static bool matches(const struct row *r, const char *filter)
{
	char rank[24];

	snprintf(rank, sizeof(rank), "%lld", (long long)jsonget_integer(r->rank, "rank"));
	return !*filter || strstr(r->job, filter) ||
	       strstr(jsonget_text(r->rank, "node"), filter) || !strcmp(rank, filter);
}

/* Takes the answer. job: asked for, or NULL. False: no memory. */
static bool table_make(struct table *t, json_t *answer, const char *job, const char *filter,
		       enum sort sort)
{
	static int (*const orders[SORTS])(const void *, const void *) = {by_suspect, by_self,
									 by_step, by_rank};
	const json_t *ranks = json_object_get(answer, "ranks"), *j;
	double *scratch = calloc(json_array_size(ranks) + 1, sizeof(*scratch));
	size_t i, kept = 0;

	*t = (struct table){.answer = answer,
			    .row = calloc(json_array_size(ranks) + 1, sizeof(*t->row))};
	json_array_foreach(ranks, i, j)
	{
		if (!t->row || !scratch)
			break;
		t->row[t->count++] = (struct row){
		    .rank = j,
		    .job = jsonget_text(j, "job"),
		    .role = jsonget_text(j, "role"),
		    .self_ms = jsonget_number(j, "self_ms"),
		    .alive = !json_is_false(json_object_get(j, "alive")),
		    .suspect = jsonget_true(j, "suspect"),
		    .hang_s = jsonget_number(j, "hang_s"),
		};
		t->row[i].hang_s *= t->row[i].alive;
	}
	if (t->row && scratch) {
		qsort(t->row, t->count, sizeof(*t->row), by_rank);
		if (!job)
			drop_ended(t);
		compare(t, scratch);
		for (i = 0; i < t->count; i++)
			if (matches(&t->row[i], filter))
				t->row[kept++] = t->row[i];
		t->count = kept;
		qsort(t->row, t->count, sizeof(*t->row), orders[sort]);
	}
	for (i = 0; i < t->count; i++) {
		t->steps += jsonget_number(t->row[i].rank, "steps");
		t->flagged += jsonget_number(t->row[i].rank, "flagged");
		t->lost += lost_count(t->row[i].rank);
	}
	free(scratch);
	return t->row && scratch;
}

static void table_free(struct table *t)
{
	free(t->row);
	json_decref(t->answer);
	*t = (struct table){0};
}

/* ---- a line ---- */

enum {
	JOB,
	RANK,
	NODE,
	SELF,
	EXCESS,
	STEP,
	EXPECTED,
	COMPUTE,
	COMM,
	IDLE,
	STEPS,
	FLAGGED,
	COLUMNS
};
static const struct column {
	const char *head;
	int width;    /* negative: to the left */
	int priority; /* the lowest are shown first */
} columns_of[COLUMNS] = {
    [JOB] = {"job", -14, 0},	     [RANK] = {"rank", 4, 0},	    [NODE] = {"node", -12, 2},
    [SELF] = {"self", 8, 0},	     [EXCESS] = {"excess", 6, 0},   [STEP] = {"step", 8, 1},
    [EXPECTED] = {"expected", 8, 5}, [COMPUTE] = {"compute", 8, 6}, [COMM] = {"comm", 8, 6},
    [IDLE] = {"idle", 8, 6},	     [STEPS] = {"steps", 8, 3},	    [FLAGGED] = {"flagged", 7, 4},
};
#define STATE_WIDTH 10

/* Which columns fit beside the mark and the state. */
static unsigned fitting(unsigned width)
{
	unsigned shown = 0, used = 2 + STATE_WIDTH;

	for (int p = 0; p < COLUMNS; p++) {
		unsigned more = 0, bits = 0;

		for (unsigned c = 0; c < COLUMNS; c++)
			if (columns_of[c].priority == p) {
				more += (unsigned)abs(columns_of[c].width) + 1;
				bits |= 1u << c;
			}
		if (used + more > width)
			break;
		used += more;
		shown |= bits;
	}
	return shown;
}

static const char *ms_or_dash(const json_t *rank, const char *key)
{
	double ms = jsonget_number(rank, key);

	return ms > 0 ? term_ms(ms) : "-";
}

static const char *cell(const struct row *r, unsigned column)
{
	static const char *const times[COLUMNS] = {
	    [SELF] = "self_ms",	      [STEP] = "latency_ms",	  [EXPECTED] = "expected_ms",
	    [COMPUTE] = "compute_ms", [COMM] = "exposed_comm_ms", [IDLE] = "idle_ms"};
	static char rank[24];

	if (times[column])
		return ms_or_dash(r->rank, times[column]);
	switch (column) {
	case JOB:
		return term_safe(r->job, 14);
	case RANK:
		snprintf(rank, sizeof(rank), "%lld", (long long)jsonget_integer(r->rank, "rank"));
		return rank;
	case NODE:
		return term_safe(jsonget_text(r->rank, "node"), 12);
	case EXCESS:
		return r->self_ms > 0 ? term_excess(r->excess) : "-";
	default:
		return term_count(jsonget_number(r->rank, column == STEPS ? "steps" : "flagged"));
	}
}

/* Appends a cell; job and node names may hold characters of several bytes, so padding counts what
 * is seen. */
static size_t put(char *line, size_t n, const char *text, int width)
{
	size_t seen = 0, pad;

	for (const char *p = text; *p; p++)
		seen += ((unsigned char)*p & 0xc0) != 0x80;
	pad = (size_t)abs(width) > seen ? (size_t)abs(width) - seen : 0;
	n += (size_t)snprintf(line + n, LINE_BYTES - n, "%*s%s%*s ", width > 0 ? (int)pad : 0, "",
			      text, width < 0 ? (int)pad : 0, "");
	return n < LINE_BYTES ? n : LINE_BYTES - 1;
}

static void state_of(const struct row *r, bool wide, char *out, size_t bytes)
{
	const char *model = jsonget_text(r->rank, "model");

	if (r->hang_s > 0)
		snprintf(out, bytes, wide ? "hangs for %s" : "hangs", term_span(r->hang_s));
	else if (!r->alive)
		snprintf(out, bytes, "%s", jsonget_true(r->rank, "ended") ? "ended" : "gone");
	else if (r->suspect)
		snprintf(out, bytes, "suspect");
	else
		snprintf(out, bytes, "%s", term_safe(model, STATE_WIDTH));
}

/* r NULL: the heading. */
static void make_line(const struct row *r, unsigned width, char line[LINE_BYTES])
{
	unsigned shown = fitting(width);
	char state[64] = "state";
	size_t n = 0;

	n = put(line, n, r && (r->suspect || r->hang_s > 0) ? "!" : "", -1);
	for (unsigned c = 0; c < COLUMNS; c++)
		if (shown >> c & 1)
			n = put(line, n, r ? cell(r, c) : columns_of[c].head, columns_of[c].width);
	if (r)
		state_of(r, width >= 80, state, sizeof(state));
	snprintf(line + n, LINE_BYTES - n, "%s", state);
}

static void make_summary(const struct table *t, char line[LINE_BYTES])
{
	size_t suspects = 0;

	for (size_t i = 0; i < t->count; i++)
		suspects += t->row[i].suspect || t->row[i].hang_s > 0;
	snprintf(line, LINE_BYTES, "%zu %s, %zu %s, %s %s, %s flagged, %s %s lost", t->count,
		 t->count == 1 ? "rank" : "ranks", suspects, suspects == 1 ? "suspect" : "suspects",
		 term_count(t->steps), t->steps == 1 ? "step" : "steps", term_count(t->flagged),
		 term_count(t->lost), t->lost == 1 ? "event" : "events");
}

static enum term_style style_of(const struct row *r)
{
	return !r->alive ? TERM_DIM : r->suspect || r->hang_s > 0 ? TERM_RED : TERM_PLAIN;
}

static void make_empty(const struct table *t, const char *job, char line[LINE_BYTES])
{
	if (job)
		snprintf(line, LINE_BYTES, "no ranks of job %s (sysom top without --job shows all)",
			 term_safe(job, 60));
	else if (t->over)
		snprintf(line, LINE_BYTES,
			 "no ranks; %zu job%s that ended: sysom top --job NAME shows one", t->over,
			 t->over == 1 ? "" : "s");
	else
		snprintf(line, LINE_BYTES,
			 "no ranks: no sysomd with a job reports to this aggregator");
}

static void print_table(const struct table *t, const char *job)
{
	size_t shown = t->count < ROWS_MAX ? t->count : ROWS_MAX;
	unsigned width = term_columns();
	char line[LINE_BYTES];

	if (!t->count) {
		make_empty(t, job, line);
		puts(line);
		return;
	}
	make_summary(t, line);
	puts(line);
	make_line(NULL, width, line);
	printf("%s%s%s\n", term_style(TERM_BOLD), line, term_style(TERM_PLAIN));
	for (size_t i = 0; i < shown; i++) {
		make_line(&t->row[i], width, line);
		printf("%s%s%s\n", term_style(style_of(&t->row[i])), line, term_style(TERM_PLAIN));
	}
	if (shown < t->count)
		printf("... %zu more (--json)\n", t->count - shown);
	if (t->over)
		printf("%zu job%s that ended not shown (--job NAME)\n", t->over,
		       t->over == 1 ? "" : "s");
}

/* ---- the screen ---- */

struct screen {
	const struct options *o;
	struct client client;
	char path[512];
	struct table table;
	char why[256]; /* no answer: why not */
	char filter[FILTER_BYTES];
	enum sort sort;
	size_t at, first; /* selected, and first shown */
	bool typing;
};

static int fetch(struct screen *s, struct client_error *e)
{
	json_t *j;
	int r = commands_list(&s->client, s->path, "ranks", LIMIT_FLEET_RANKS, &j, e);

	if (r)
		return r;
	table_free(&s->table);
	return table_make(&s->table, j, s->o->job, s->filter, s->sort) ? 0 : -ENOMEM;
}

static void draw(struct screen *s)
{
	int height = getmaxy(stdscr), width = getmaxx(stdscr);
	size_t rows = height > 3 ? (size_t)height - 3 : 1;
	char line[LINE_BYTES];

	if (s->at >= s->table.count)
		s->at = s->table.count ? s->table.count - 1 : 0;
	if (s->at < s->first)
		s->first = s->at;
	if (s->at >= s->first + rows)
		s->first = s->at - rows + 1;
	erase();
	if (*s->why)
		snprintf(line, sizeof(line), "no aggregator: %s", s->why);
	else if (!s->table.count && !*s->filter)
		make_empty(&s->table, s->o->job, line);
	else
		make_summary(&s->table, line);
	mvaddnstr(0, 0, line, width);
	make_line(NULL, (unsigned)width, line);
	attron(A_BOLD);
	mvaddnstr(1, 0, line, width);
	attroff(A_BOLD);
	for (size_t i = 0; i < rows && s->first + i < s->table.count; i++) {
		const struct row *r = &s->table.row[s->first + i];
		enum term_style style = style_of(r);
		attr_t how = (style == TERM_RED	  ? COLOR_PAIR(1) | A_BOLD
			      : style == TERM_DIM ? A_DIM
						  : A_NORMAL) |
			     (s->first + i == s->at ? A_REVERSE : 0);

		make_line(r, (unsigned)width, line);
		attron(how);
		mvaddnstr((int)i + 2, 0, line, width);
		attroff(how);
	}
	if (s->typing)
		snprintf(line, sizeof(line), "filter (job, node or rank): %s", s->filter);
	else
		snprintf(line, sizeof(line), "q quit  s sort: %s  / filter%s%s  Enter incident",
			 sort_names[s->sort], *s->filter ? ": " : "", s->filter);
	mvaddnstr(height - 1, 0, line, width);
	refresh();
}

/* The newest incident of the selected rank's job, as `sysom show` prints it. */
static void show_incident(struct screen *s)
{
	char id[] = "last", *argv[] = {id, NULL}, job[512];
	struct options o = *s->o;

	if (!s->table.count)
		return;
	text_copy(job, sizeof(job), s->table.row[s->at].job);
	o.job = job;
	o.argc = 1;
	o.argv = argv;
	o.json = false;
	def_prog_mode();
	endwin();
	fputs("\033[H\033[J", stdout);
	fflush(stdout);
	cmd_incidents_show(&o);
	fputs("\nEnter returns to top\n", stdout);
	fflush(stdout);
	for (int c = getchar(); c != '\n' && c != '\r' && c != EOF && c != 'q';)
		c = getchar();
	reset_prog_mode();
	refresh();
}

static void type_filter(struct screen *s, int key)
{
	size_t n = strlen(s->filter);

	if (key == '\n' || key == KEY_ENTER || key == 27)
		s->typing = false;
	else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && n)
		s->filter[n - 1] = '\0';
	else if (key >= ' ' && key < 127 && n + 1 < sizeof(s->filter))
		s->filter[n] = (char)key, s->filter[n + 1] = '\0';
}

/* Keys that move the selection need no new answer. */
static bool is_move(int key)
{
	return key == KEY_UP || key == KEY_DOWN || key == KEY_PPAGE || key == KEY_NPAGE ||
	       key == 'j' || key == 'k';
}

/* False: the user quits. */
static bool take_key(struct screen *s, int key)
{
	if (s->typing) {
		type_filter(s, key);
		return true;
	}
	switch (key) {
	case 'q':
		return false;
	case 's':
		s->sort = (s->sort + 1) % SORTS;
		s->at = 0;
		break;
	case '/':
		s->typing = true;
		s->filter[0] = '\0';
		break;
	case KEY_UP:
	case 'k':
		s->at -= s->at > 0;
		break;
	case KEY_DOWN:
	case 'j':
		s->at++;
		break;
	case KEY_PPAGE:
		s->at -= s->at < 10 ? s->at : 10;
		break;
	case KEY_NPAGE:
		s->at += 10;
		break;
	case '\n':
	case KEY_ENTER:
		show_incident(s);
		break;
	}
	return true;
}

static int run_screen(struct screen *s)
{
	struct client_error e;
	int key = ERR;

	setlocale(LC_CTYPE, "");
	if (!initscr())
		return EXIT_NOTHING;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	set_escdelay(50);
	if (has_colors() && !getenv("NO_COLOR")) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_RED, -1);
	}
	halfdelay(REFRESH_TENTHS);
	do {
		if (s->typing || !is_move(key)) {
			s->why[0] = '\0';
			if (fetch(s, &e))
				text_copy(s->why, sizeof(s->why), term_safe(e.why, 200));
		}
		draw(s);
		key = getch();
	} while (take_key(s, key));
	endwin();
	return s->table.count ? EXIT_OK : EXIT_NOTHING;
}

int cmd_top_main(const struct options *o)
{
	struct screen s = {.o = o, .path = "/api/v1/ranks"};
	struct client_error e;
	char job[384];
	int r;

	if (commands_aggregator(o, &s.client))
		return EXIT_USAGE;
	if (o->job) {
		client_escape(job, sizeof(job), o->job);
		snprintf(s.path, sizeof(s.path), "/api/v1/ranks?job=%s", job);
	}
	if (term_is_live() && isatty(STDIN_FILENO) && !o->once && !o->json) {
		r = run_screen(&s);
		table_free(&s.table);
		return r;
	}
	if (fetch(&s, &e)) {
		commands_complain("top", &e);
		return EXIT_NOTHING;
	}
	if (o->json)
		commands_print_json(s.table.answer);
	else
		print_table(&s.table, o->job);
	r = json_array_size(json_object_get(s.table.answer, "ranks")) ? EXIT_OK : EXIT_NOTHING;
	table_free(&s.table);
	return r;
}
