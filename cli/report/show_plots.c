/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/show_plots.h"

#include <math.h>
#include <stdbool.h>

#include "cli/report/rank_grid.h"
#include "render/term.h"

#define INDENT	    12
#define SPARK_MAX   64u
#define RANKS_SHOWN 16u
#define BAR_COLUMNS 20u

struct spark {
	double ms[SPARK_MAX]; /* of a cell's longest step */
	bool flagged[SPARK_MAX];
	unsigned cells;
};

static void spark_make(struct spark *s, const struct trace_rank *r, unsigned room)
{
	size_t per;

	*s = (struct spark){.cells = 0};
	room = room < SPARK_MAX ? room : SPARK_MAX;
	per = (r->step_count + room - 1) / room;
	for (size_t i = 0; i < r->step_count; i++) {
		unsigned cell = (unsigned)(i / per);
		double ms = (double)r->steps[i].step.latency_ns / 1e6;

		s->ms[cell] = ms > s->ms[cell] ? ms : s->ms[cell];
		s->flagged[cell] |= trace_step_is_flagged(&r->steps[i]);
		s->cells = cell + 1;
	}
}

static void print_spark(FILE *to, const struct trace_rank *r, unsigned columns)
{
	double lo = INFINITY, hi = 0;
	struct spark s;
	bool red = false;

	spark_make(&s, r, columns > INDENT + 30 ? columns - INDENT - 4 : 26);
	for (unsigned i = 0; i < s.cells; i++) {
		lo = s.ms[i] < lo ? s.ms[i] : lo;
		hi = s.ms[i] > hi ? s.ms[i] : hi;
	}
	fprintf(to, "\n  %-10s", "steps");
	for (unsigned i = 0; i < s.cells; i++) {
		if (s.flagged[i] != red)
			fputs(term_style(s.flagged[i] ? TERM_RED : TERM_PLAIN), to);
		red = s.flagged[i];
		/* the range is at least 10%, so that small differences look small */
		fputs(term_level((s.ms[i] - lo) / (hi - lo > 0.1 * lo ? hi - lo : 0.1 * lo)), to);
	}
	fprintf(to, "%s\n%*s", red ? term_style(TERM_PLAIN) : "", INDENT, "");
	for (unsigned i = 0; i < s.cells; i++)
		fputc(s.flagged[i] ? '^' : ' ', to);
	fprintf(to, "\n%*s%s to %s, steps %llu to %llu of %s; ^ flagged\n", INDENT, "", term_ms(lo),
		term_ms(hi), (unsigned long long)r->steps[0].step.index,
		(unsigned long long)r->steps[r->step_count - 1].step.index, term_rank(r->who.rank));
}

static bool has_two_ranks(const struct rank_grid *g)
{
	unsigned known = 0;

	for (uint32_t r = 0; r < g->rank_count; r++)
		known += isfinite(rank_grid_typical(g, r, true).self_ns);
	return known > 1;
}

static void print_ranks(FILE *to, const struct rank_grid *g, unsigned columns)
{
	/* a narrow terminal gets a shorter bar */
	unsigned bar = columns >= 80 ? BAR_COLUMNS : BAR_COLUMNS / 2;
	double most = 0;
	bool late = false;

	for (uint32_t r = 0; r < g->rank_count; r++) {
		struct rank_grid_cell c = rank_grid_typical(g, r, true);

		most = c.self_ns > most ? c.self_ns : most;
		late |= isfinite(c.late_ns);
	}
	fprintf(to, "\n  %-10s%s%9s %-*s %11s%s%s\n", "ranks", term_style(TERM_DIM), "self time",
		(int)bar, columns >= 80 ? "median, when flagged" : "median",
		g->by_peers ? "vs peers" : "vs expected", late ? "       late" : "",
		term_style(TERM_PLAIN));
	for (uint32_t r = 0, shown = 0; r < g->rank_count; r++) {
		struct rank_grid_cell c = rank_grid_typical(g, r, true);
		bool culprit = r == g->culprit;

		/* keep room for the culprit */
		if (!isfinite(c.self_ns) || (!culprit && shown >= RANKS_SHOWN - (r < g->culprit)))
			continue;
		shown++;
		fprintf(to, "    %-8s%9s %s%s%s %11s",
			g->rank[r]->who.rank < 0 ? "no rank" : term_rank(g->rank[r]->who.rank),
			term_ms_cell(c.self_ns / 1e6), term_style(culprit ? TERM_RED : TERM_DIM),
			term_bar(c.self_ns / most, bar), term_style(TERM_PLAIN),
			isfinite(c.excess) ? term_excess(c.excess) : "-");
		if (late)
			fprintf(to, " %10s",
				isfinite(c.late_ns) ? term_ms_cell(c.late_ns / 1e6) : "-");
		fputc('\n', to);
	}
}

void show_plots_print(FILE *to, const json_t *in, const struct trace_model *m, unsigned columns)
{
	struct rank_grid g;

	if (rank_grid_make(&g, in, m))
		return;
	if (g.rank[g.culprit]->step_count > 2)
		print_spark(to, g.rank[g.culprit], columns);
	if (has_two_ranks(&g))
		print_ranks(to, &g, columns);
	rank_grid_free(&g);
}
