/* SPDX-License-Identifier: Apache-2.0 */
#include "render/incident_ledger.h"

#include <math.h>
#include <string.h>

#include "analysis/ledger/ledger.h"
#include "base/text/jsonget.h"
#include "render/term.h"

#define INDENT		 12u
#define FIGURE_COLUMNS	 36u /* reference, slow, excess, share */
#define NARROW_COLUMNS	 20u /* slow and excess, which give the reference and the share */
#define NAME_COLUMNS_MIN 24u
#define ROW_SHARE_MIN	 0.02

/* Names of accounts that have no name of their own. */
static const char *const others[LEDGER_KINDS] = {
    [LEDGER_UNOBSERVED] = "host: not observed",
    [LEDGER_COMPUTE] = "other kernels",
    [LEDGER_COPY] = "other copies",
    [LEDGER_COLLECTIVE] = "other collectives",
    [LEDGER_QUEUED] = "queued on the GPU",
    [LEDGER_RUNNING] = "host runs, not sampled",
    [LEDGER_KERNEL_CODE] = "host runs kernel code",
    [LEDGER_RUNNABLE] = "host waits for a CPU",
    [LEDGER_BLOCKED] = "host blocked",
    [LEDGER_STOLEN] = "host interrupted",
    [LEDGER_STOPPED] = "host stopped",
};

static const char *what_text(const char *id)
{
	for (unsigned k = 0; k < LEDGER_WHATS; k++)
		if (!strcmp(id, ledger_what_id((enum ledger_what)k)))
			return ledger_what_text((enum ledger_what)k);
	return id; /* a newer aggregator's */
}

bool incident_ledger_is_known(const json_t *d)
{
	return json_array_size(json_object_get(json_object_get(d, "ledger"), "rows")) > 0;
}

const char *incident_ledger_note(const json_t *d)
{
	/* late requests have no such figure */
	return json_is_false(json_object_get(d, "by_ledger")) && jsonget_number(d, "effect_ms") > 0
		   ? "The verdict's figure compares median steps of one window instead."
		   : "";
}

const char *incident_ledger_account(const json_t *row, unsigned columns)
{
	const char *id = jsonget_text(row, "account"), *name = jsonget_text(row, "name"),
		   *what = what_text(jsonget_text(row, "what"));
	char text[700];
	unsigned kind = 0;

	while (kind < LEDGER_KINDS && strcmp(id, ledger_kind_name((enum ledger_kind)kind)))
		kind++;
	if (kind == LEDGER_KINDS)
		return term_safe(id, columns);
	if (!*name && !*what)
		return term_safe(others[kind], columns);
	ledger_account_text((enum ledger_kind)kind, what, name, text, sizeof(text));
	return term_safe(text, columns);
}

static struct incident_ledger_figures figures_of(const json_t *row)
{
	return (struct incident_ledger_figures){jsonget_number(row, "reference_ms"),
						jsonget_number(row, "slow_ms"),
						jsonget_number(row, "excess_ms")};
}

/* Accounts that changed by less than ROW_SHARE_MIN of all changes are in "all else". */
void incident_ledger_each(const json_t *l, unsigned columns,
			  void (*put)(void *arg, const char *name,
				      struct incident_ledger_figures f),
			  void *arg)
{
	struct incident_ledger_figures rest = {jsonget_number(l, "other_reference_ms"),
					       jsonget_number(l, "other_slow_ms"),
					       jsonget_number(l, "other_excess_ms")};
	const json_t *rows = json_object_get(l, "rows"), *row;
	double changes = 0;
	size_t i;

	json_array_foreach ((json_t *)rows, i, row)
		changes += fabs(jsonget_number(row, "excess_ms"));
	json_array_foreach ((json_t *)rows, i, row) {
		struct incident_ledger_figures f = figures_of(row);

		if (i && fabs(f.excess) < ROW_SHARE_MIN * changes) {
			rest.usual += f.usual;
			rest.slow += f.slow;
			rest.excess += f.excess;
			continue;
		}
		put(arg, incident_ledger_account(row, columns), f);
	}
	if (rest.slow > 0 || rest.usual > 0)
		put(arg, "all else", rest);
}

struct printed {
	FILE *to;
	unsigned width;
	bool narrow;
	double whole;
};

static void print_row(void *arg, const char *name, struct incident_ledger_figures f)
{
	const struct printed *p = arg;

	fprintf(p->to, "%*s%-*s", INDENT, "", (int)p->width, name);
	if (!p->narrow)
		fprintf(p->to, " %9.2f", f.usual);
	fprintf(p->to, " %9.2f %+9.2f", f.slow, f.excess);
	if (!p->narrow)
		fprintf(p->to, " %5s", term_share(f.excess, p->whole));
	fputc('\n', p->to);
}

static void print_head(const struct printed *p, const char *what, const char *usual,
		       const char *slow)
{
	fprintf(p->to, "  ledger    %s%-*s", term_style(TERM_DIM), (int)p->width, what);
	if (!p->narrow)
		fprintf(p->to, " %9s", usual);
	fprintf(p->to, " %9s %9s%s%s\n", slow, "excess", p->narrow ? "" : " share",
		term_style(TERM_PLAIN));
}

static void print_note(FILE *to, const char *text, unsigned columns)
{
	fputs(term_style(TERM_DIM), to);
	term_wrap(to, INDENT, "", text, columns);
	fputs(term_style(TERM_PLAIN), to);
}

void incident_ledger_print(FILE *to, const json_t *d, bool hang, unsigned columns)
{
	const json_t *l = json_object_get(d, "ledger");
	bool own = !strcmp(jsonget_text(l, "reference"), "own"),
	     narrow = columns < INDENT + FIGURE_COLUMNS + NAME_COLUMNS_MIN;
	unsigned taken = INDENT + (narrow ? NARROW_COLUMNS : FIGURE_COLUMNS);
	unsigned width = columns > taken + NAME_COLUMNS_MIN ? columns - taken : NAME_COLUMNS_MIN;
	struct printed p = {to, width, narrow, jsonget_number(l, "excess_ms")};
	char note[320];

	if (!incident_ledger_is_known(d))
		return;
	print_head(&p, hang ? "ms" : "ms per step",
		   hang	 ? "usual"
		   : own ? "healthy"
			 : "peers",
		   hang ? "hang" : "slow");
	incident_ledger_each(l, width, print_row, &p);
	fputs(term_style(TERM_BOLD), to);
	print_row(&p, "total", figures_of(l));
	fputs(term_style(TERM_PLAIN), to);
	if (hang)
		snprintf(note, sizeof(note),
			 "(hang: since its last step; usual: the mean of %s steps before)",
			 term_count(jsonget_number(l, "reference_steps")));
	else
		snprintf(note, sizeof(note), "(means of %s slow steps and %s healthy ones of %s%s)",
			 term_count(jsonget_number(l, "slow_steps")),
			 term_count(jsonget_number(l, "reference_steps")),
			 own ? "the same rank" : "its peers",
			 *incident_ledger_note(d)
			     ? ""
			     : "; a wait of the host counts only while the GPU idles; the "
			       "cause may explain a part of several rows");
	print_note(to, note, columns);
	if (!hang && *incident_ledger_note(d)) {
		snprintf(note, sizeof(note), "(%s)", incident_ledger_note(d));
		print_note(to, note, columns);
	}
}
