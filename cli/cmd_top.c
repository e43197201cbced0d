/* SPDX-License-Identifier: Apache-2.0 */
#include <ncurses.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text/text.h"
#include "cli/commands.h"
#include "render/incident_text.h"
#include "render/term.h"

#define ROWS_MAX    200 /* of the printed table; --json has them all */
#define REFRESH_MS  1000
#define JOB_COLUMNS 12
#define NO_PAGER    126 /* and above: the shell could not run it */

enum top_sort { SORT_SUSPECT, SORT_SELF, SORT_LATENCY, SORT_RANK, SORTS };

static const char *const sort_names[SORTS] = {"suspects", "self time", "latency", "rank"};

/* ---- one rank ---- */

static bool is_alive(const json_t *r)
{
	return !json_is_false(json_object_get(r, "alive"));
}

static bool is_suspect(const json_t *r)
{
	return is_alive(r) && jsonget_true(r, "suspect");
}

static double hangs(const json_t *r)
{
	return is_alive(r) ? jsonget_number(r, "hang_s") : 0;
}

static double lost_count(const json_t *rank)
{
	const json_t *lost = json_object_get(rank, "lost"), *v;
	const char *cause;
	double sum = json_number_value(lost);

	json_object_foreach ((json_t *)lost, cause, v)
		sum += json_number_value(v);
	return sum;
}

static enum term_style style_of(const json_t *r)
{
	return !is_alive(r) ? TERM_DIM : is_suspect(r) || hangs(r) > 0 ? TERM_RED : TERM_PLAIN;
}

static const char *text_mark(const json_t *r)
{
	return is_suspect(r) ? "!" : "";
}
static const char *text_node(const json_t *r)
{
	return term_safe(jsonget_text(r, "node"), 12);
}
static const char *text_excess(const json_t *r)
{
	double self = jsonget_number(r, "self_ms"), typical = jsonget_number(r, "role_self_ms");

	return self > 0 && typical > 0 ? term_excess(self / typical - 1) : "-";
}
static const char *column_ms(double ms)
{
	return ms > 0 ? term_ms_cell(ms) : "-";
}
static const char *text_state(const json_t *r)
{
	static char text[48];

	if (hangs(r) <= 0)
		return !is_alive(r)    ? jsonget_true(r, "ended") ? "ended" : "gone"
		       : is_suspect(r) ? "suspect"
				       : commands_word(r, "model");
	snprintf(text, sizeof(text), "hangs %s", term_span(hangs(r)));
	return term_safe(text, 12);
}

/* ---- the table ---- */

/* A terminal of N columns shows the fields whose `from` is at most N; they fit in it. */
static const struct column {
	const char *head;
	int width; /* negative: left-aligned */
	unsigned from;
	const char *(*text)(const json_t *r); /* NULL: key, formatted by number or as text */
	const char *key, *(*number)(double v);
} table[] = {
    {"", -1, 0, .text = text_mark},
    {"job", -JOB_COLUMNS, 0, .key = "job"}, /* wider if there is room */
    {"rank", 5, 0, .text = commands_rank},
    {"node", -12, 100, .text = text_node},
    {"self", 9, 0, .key = "self_ms", .number = column_ms},
    {"excess", 6, 0, .text = text_excess},
    {"latency", 9, 0, .key = "latency_ms", .number = column_ms},
    {"expected", 9, 80, .key = "expected_ms", .number = column_ms},
    {"compute", 9, 132, .key = "compute_ms", .number = column_ms},
    {"comm", 9, 132, .key = "exposed_comm_ms", .number = column_ms},
    {"idle", 9, 132, .key = "idle_ms", .number = column_ms},
    {"steps", 8, 100, .key = "steps", .number = term_count},
    {"flag", 6, 80, .key = "flagged", .number = term_count},
    {"state", -12, 0, .text = text_state},
};

static const char *cell(const struct column *c, const json_t *r, unsigned width)
{
	if (!r)
		return c->head;
	return c->text	   ? c->text(r)
	       : c->number ? c->number(jsonget_number(r, c->key))
			   : term_safe(jsonget_text(r, c->key), width);
}

/* The table's width on a terminal of this many columns. */
static unsigned table_columns(unsigned columns)
{
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].from <= columns)
			n += (unsigned)abs(table[i].width) + (i > 0);
	return n;
}

/* One line of the table, without its newline; r NULL: the heading. job: columns of the longest name. */
static void put_line(char *out, size_t room, const json_t *r, unsigned columns, unsigned job)
{
	unsigned taken = table_columns(columns), spare = columns > taken ? columns - taken : 0,
		 more = job > JOB_COLUMNS ? job - JOB_COLUMNS : 0;
	size_t n = 0;

	*out = '\0';
	more = more < spare ? more : spare;
	for (size_t i = 0; i < ARRAY_LEN(table) && n < room; i++) {
		const struct column *c = &table[i];
		int width = c->text || c->number ? c->width : c->width - (int)more;

		if (c->from <= columns)
			n += (size_t)snprintf(out + n, room - n, "%s%*s", i ? " " : "", width,
					      cell(c, r, (unsigned)abs(width)));
	}
}

struct top {
	const char *job;		/* of --job, or NULL */
	const char *seen;		/* if there are no ranks: commands_of_seen */
	json_t **rows;			/* borrowed elements */
	size_t count, over, all, ranks; /* all: processes, also those without a rank */
	unsigned job_columns;		/* of the longest name */
	double steps, flagged, lost;
};

/* Removes the ranks of ended jobs: those without a living rank. sorted: by job. Returns the number of
 * ended jobs. */
static size_t remove_ended(json_t **sorted, size_t *count)
{
	size_t kept = 0, jobs = 0, begin = 0, end;

	for (; begin < *count; begin = end) {
		const char *job = jsonget_text(sorted[begin], "job");
		bool alive = false;

		for (end = begin; end < *count && !strcmp(jsonget_text(sorted[end], "job"), job);
		     end++)
			alive |= is_alive(sorted[end]);
		jobs += !alive;
		for (size_t i = begin; alive && i < end; i++)
			sorted[kept++] = sorted[i];
	}
	*count = kept;
	return jobs;
}

static enum top_sort order_by; /* for qsort */

static int by_order(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	const char *key = order_by == SORT_SELF ? "self_ms" : "latency_ms";
	int order = order_by == SORT_SUSPECT ? ORDER(is_suspect(y), is_suspect(x))
		    : order_by == SORT_RANK  ? 0
					    : ORDER(jsonget_number(y, key), jsonget_number(x, key));

	return order ?: commands_by_rank(a, b);
}

static bool matches(const json_t *r, const char *filter)
{
	return !*filter || strcasestr(jsonget_text(r, "job"), filter) ||
	       strcasestr(jsonget_text(r, "node"), filter) ||
	       strcasestr(jsonget_text(r, "pod"), filter) ||
	       strcasestr(jsonget_text(r, "namespace"), filter) ||
	       strcasestr(jsonget_text(r, "role"), filter) || !strcmp(commands_rank(r), filter);
}

static void top_make(struct top *t, const json_t *answer, const char *filter, enum top_sort sort)
{
	size_t n, kept = 0;

	t->rows = commands_sorted_ranks(json_object_get(answer, "ranks"), &n);
	if (!t->rows)
		return;
	t->over = t->job ? 0 : remove_ended(t->rows, &n);
	t->all = n;
	for (size_t i = 0; i < n; i++) {
		t->steps += jsonget_number(t->rows[i], "steps");
		t->flagged += jsonget_number(t->rows[i], "flagged");
		t->lost += lost_count(t->rows[i]);
		t->ranks += jsonget_integer(t->rows[i], "rank") >= 0;
		if (matches(t->rows[i], filter)) {
			size_t job = strlen(jsonget_text(t->rows[i], "job"));

			t->job_columns = job > t->job_columns ? (unsigned)job : t->job_columns;
			t->rows[kept++] = t->rows[i];
		}
	}
	t->count = kept;
	order_by = sort;
	qsort(t->rows, kept, sizeof(*t->rows), by_order);
}

static void top_title(char *out, size_t room, const struct top *t)
{
	if (t->all)
		snprintf(out, room, "%s, %s%s, %s flagged, %s lost",
			 term_ranks((double)t->ranks, (double)(t->all - t->ranks)),
			 term_counted(t->steps, "step", "steps"), t->all == 1 ? "" : " in all",
			 term_count(t->flagged), term_counted(t->lost, "event", "events"));
	else if (t->job)
		snprintf(out, room, "no ranks of job %s%s (sysom top without --job shows all)",
			 term_safe(t->job, 60), t->seen);
	else if (t->over)
		snprintf(out, room, "no ranks run; %zu job%s ended: sysom top --job NAME shows one",
			 t->over, t->over == 1 ? "" : "s");
	else if (*t->seen)
		snprintf(out, room, "no ranks%s", t->seen);
	else
		snprintf(out, room,
			 "no ranks: none has reported since this aggregator started; sysom "
			 "incidents lists earlier jobs");
}

static const char *seen_of(const struct client *c, const json_t *answer)
{
	return json_array_size(json_object_get(answer, "ranks")) ? "" : commands_of_seen(c);
}

static void print_top(const struct client *c, const json_t *answer, const char *job)
{
	unsigned columns = term_columns();
	struct top t = {.job = job, .seen = seen_of(c, answer)};
	char line[512];

	top_make(&t, answer, "", SORT_SUSPECT);
	top_title(line, sizeof(line), &t);
	puts(line);
	if (t.count) {
		put_line(line, sizeof(line), NULL, columns, t.job_columns);
		printf("%s%s%s\n", term_style(TERM_BOLD), line, term_style(TERM_PLAIN));
	}
	for (size_t i = 0; i < t.count && i < ROWS_MAX; i++) {
		put_line(line, sizeof(line), t.rows[i], columns, t.job_columns);
		printf("%s%s%s\n", term_style(style_of(t.rows[i])), line, term_style(TERM_PLAIN));
	}
	if (t.count > ROWS_MAX)
		printf("... %zu more (--json)\n", t.count - ROWS_MAX);
	if (t.count && t.over)
		printf("%zu ended job%s not shown (--job NAME shows one)\n", t.over,
		       t.over == 1 ? "" : "s");
	free(t.rows);
}

/* ---- live ---- */

struct screen {
	const struct options *o;
	const struct client *client;
	enum top_sort sort;
	char filter[64], job[384], note[200];
	int64_t rank; /* with job: the selected row */
	size_t first; /* row at the top of the screen */
	bool typing;  /* a filter */
};

static size_t selected(const struct screen *s, const struct top *t)
{
	for (size_t i = 0; i < t->count; i++)
		if (jsonget_integer(t->rows[i], "rank") == s->rank &&
		    !strcmp(jsonget_text(t->rows[i], "job"), s->job))
			return i;
	return 0;
}

static void select_row(struct screen *s, const struct top *t, size_t at)
{
	if (at >= t->count)
		return;
	text_copy(s->job, sizeof(s->job), jsonget_text(t->rows[at], "job"));
	s->rank = jsonget_integer(t->rows[at], "rank");
}

static void draw(struct screen *s, const struct top *t)
{
	size_t at = selected(s, t), room = LINES > 3 ? (size_t)LINES - 3 : 1;
	char line[1024];

	s->first = at < s->first ? at : at >= s->first + room ? at - room + 1 : s->first;
	erase();
	top_title(line, sizeof(line), t);
	mvaddnstr(0, 0, line, COLS);
	put_line(line, sizeof(line), NULL, (unsigned)COLS, t->job_columns);
	attron(A_BOLD);
	mvaddnstr(1, 0, line, COLS);
	attroff(A_BOLD);
	for (size_t i = s->first; i < t->count && i < s->first + room; i++) {
		enum term_style style = style_of(t->rows[i]);
		attr_t look = (style == TERM_DIM   ? A_DIM
			       : style == TERM_RED ? A_BOLD | COLOR_PAIR(1)
						   : 0) |
			      (i == at ? A_REVERSE : 0);

		put_line(line, sizeof(line), t->rows[i], (unsigned)COLS, t->job_columns);
		attron(look);
		mvaddnstr((int)(i - s->first) + 2, 0, line, COLS);
		attroff(look);
	}
	if (!t->count && t->all)
		mvaddnstr(2, 0, "no rank, job, node or role matches the filter", COLS);
	if (s->typing)
		snprintf(line, sizeof(line), "/%s", s->filter);
	else if (*s->note)
		snprintf(line, sizeof(line), "%s", s->note);
	else
		snprintf(line, sizeof(line), "q quit  s sort: %s  / filter%s%s  Enter incident",
			 sort_names[s->sort], *s->filter ? ": " : "", s->filter);
	mvaddnstr(LINES - 1, 0, line, COLS);
	refresh();
}

/* 2: a fault that the rank has or waits for; 1: a transient of it; 0: an incident of others. */
static int about(const json_t *in, int32_t rank)
{
	bool has = jsonget_has(json_object_get(in, "ranks"), rank) ||
		   jsonget_has(json_object_get(in, "victims"), rank);

	return has ? 1 + !incident_text_is_transient(in) : 0;
}

/* Finds the newest of the incidents that concern the selected rank most closely. */
static bool find_incident(struct screen *s, char id[33])
{
	struct client_error e;
	int most = -1;
	json_t *list;
	const json_t *in;
	size_t i;

	*id = '\0';
	if (commands_list(s->client, "incidents", NULL, s->job, 1000, &list, &e)) {
		snprintf(s->note, sizeof(s->note), "%s", term_safe(e.why, 150));
		return false;
	}
	json_array_foreach (json_object_get(list, "incidents"), i, in) {
		if (about(in, s->rank) <= most)
			continue;
		most = about(in, s->rank);
		snprintf(id, 33, "%s", jsonget_text(in, "id"));
	}
	json_decref(list);
	if (!*id)
		snprintf(s->note, sizeof(s->note), "no incident of job %s", term_safe(s->job, 60));
	return *id;
}

/* Uses the user's pager, since an incident has more lines than most terminals. False: there is none. */
static bool show_paged(const struct options *o)
{
	FILE *pager = popen("${PAGER:-less -R}", "w");
	int terminal = pager ? dup(STDOUT_FILENO) : -1, status;
	void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* the user may quit early */

	fflush(stdout);
	term_set_paged(term_columns());
	if (terminal >= 0 && dup2(fileno(pager), STDOUT_FILENO) >= 0) {
		cmd_incidents_show(o);
		fflush(stdout);
		dup2(terminal, STDOUT_FILENO);
	}
	term_set_paged(0);
	if (terminal >= 0)
		close(terminal);
	clearerr(stdout);
	status = pager ? pclose(pager) : -1;
	signal(SIGPIPE, before);
	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) < NO_PAGER;
}

/* Leaves the table, so that the terminal can scroll the incident. */
static void show_incident(struct screen *s)
{
	struct options of = *s->o;
	char id[33], *argv[] = {id, NULL};

	if (!*s->job || !find_incident(s, id))
		return;
	of.argc = 1;
	of.argv = argv;
	of.job = NULL;
	def_prog_mode();
	endwin();
	if (!show_paged(&of)) {
		cmd_incidents_show(&of);
		fputs("\nPress Enter to return to the table.", stdout);
		fflush(stdout);
		for (int c = getchar(); c != '\n' && c != '\r' && c != EOF; c = getchar())
			;
	}
	reset_prog_mode();
	clearok(stdscr, true);
}

static void type_filter(struct screen *s, int key)
{
	size_t n = strlen(s->filter);

	if (key == '\n' || key == KEY_ENTER || key == 27) {
		s->typing = false;
		if (key == 27)
			*s->filter = '\0';
	} else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && n) {
		s->filter[n - 1] = '\0';
	} else if (key >= ' ' && key < 127 && n + 1 < sizeof(s->filter)) {
		s->filter[n] = (char)key;
		s->filter[n + 1] = '\0';
	}
}

/* False: quit. */
static bool on_key(struct screen *s, const struct top *t, int key)
{
	size_t at = selected(s, t);

	*s->note = '\0';
	if (s->typing)
		type_filter(s, key);
	else if (key == 'q')
		return false;
	else if (key == 's')
		s->sort = (s->sort + 1) % SORTS;
	else if (key == '/')
		s->typing = true;
	else if (key == KEY_DOWN)
		select_row(s, t, at + 1);
	else if (key == KEY_UP && at)
		select_row(s, t, at - 1);
	else if (key == '\n' || key == KEY_ENTER)
		show_incident(s);
	return true;
}

static int live(const struct options *o, const struct client *c)
{
	struct screen s = {.o = o, .client = c, .rank = -1};
	SCREEN *terminal = newterm(NULL, stdout, stdin);
	bool go_on = true;
	json_t *answer = NULL;
	const char *seen = "";
	uint64_t due_ns = 0;

	if (!terminal) {
		fputs("sysom top: unknown terminal type (see TERM); use --once\n", stderr);
		return EXIT_FAILED;
	}
	cbreak();
	noecho();
	keypad(stdscr, true);
	curs_set(0);
	set_escdelay(50);
	if (!getenv("NO_COLOR") && has_colors() && start_color() == 0 && use_default_colors() == 0)
		init_pair(1, COLOR_RED, -1);
	while (go_on) {
		struct top t = {.job = o->job};
		uint64_t now_ns = clock_monotonic_ns();
		struct client_error e;
		int key;

		if (now_ns >= due_ns) {
			json_decref(answer);
			answer = NULL;
			if (commands_list(c, "ranks", NULL, o->job, LIMIT_FLEET_RANKS, &answer, &e))
				snprintf(s.note, sizeof(s.note), "no aggregator: %s",
					 term_safe(e.why, 150));
			else
				seen = seen_of(c, answer);
			due_ns = clock_monotonic_ns() + REFRESH_MS * 1000000ull;
		}
		t.seen = seen;
		top_make(&t, answer, s.filter, s.sort);
		select_row(&s, &t, selected(&s, &t));
		draw(&s, &t);
		now_ns = clock_monotonic_ns();
		timeout(now_ns < due_ns ? (int)((due_ns - now_ns) / 1000000) + 1 : 0);
		key = getch();
		if (key != ERR)
			go_on = on_key(&s, &t, key);
		free(t.rows);
	}
	json_decref(answer);
	endwin();
	delscreen(terminal);
	return EXIT_OK;
}

int cmd_top_main(const struct options *o)
{
	struct client_error e;
	struct client c;
	json_t *j;
	int r;

	if (commands_aggregator(o, &c))
		return EXIT_USAGE;
	if (term_is_live() && isatty(STDIN_FILENO) && !o->once && !o->json)
		return live(o, &c);
	if (commands_list(&c, "ranks", NULL, o->job, LIMIT_FLEET_RANKS, &j, &e))
		return commands_complain("top", &e);
	if (o->json)
		commands_print_json(j);
	else
		print_top(&c, j, o->job);
	r = json_array_size(json_object_get(j, "ranks")) ? EXIT_OK : EXIT_NOTHING;
	json_decref(j);
	return r;
}
