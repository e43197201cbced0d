/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text/jsonget.h"
#include "cli/plots/plots.h"
#include "render/incident_verdict.h"
#include "cli/report/kernel_diff.h"
#include "render/report_page.h"
#include "render/escape.h"
#include "cli/text/outfile.h"
#include "render/term.h"

#define KERNELS_SHOWN 25
#define RANKS_SHOWN   4u

/* One side of a table of kernels. */
struct side {
	char name[32];
	struct kernel_time *k; /* NULL: it has none */
	size_t count, steps;
};

/* GPU time per step of two sides, variants of a kernel merged. Frees what the sides own. */
static int put_table(FILE *to, const char *id, struct side side[2])
{
	struct kernel_diff d;
	int err = kernel_diff_make(&d, side[0].k, side[0].count, side[1].k, side[1].count);

	free(side[0].k);
	free(side[1].k);
	if (err)
		return err;
	fprintf(to,
		"<p class=\"dim\">GPU time per step, means of %zu and %zu steps; the %zu largest "
		"differences of %zu.</p>\n<div class=\"scroll\"><table id=\"%s\" "
		"class=\"named\"><tr>"
		"<th class=\"t\" scope=\"col\">kernel</th><th scope=\"col\">%s</th>"
		"<th scope=\"col\">%s</th><th scope=\"col\">difference</th>"
		"<th scope=\"col\">count per step</th></tr>\n",
		side[0].steps, side[1].steps,
		d.count < KERNELS_SHOWN ? d.count : (size_t)KERNELS_SHOWN, d.count, id,
		side[0].name, side[1].name);
	for (size_t i = 0; i < d.count && i < KERNELS_SHOWN; i++) {
		const struct kernel_diff_row *r = &d.rows[i];
		char text[64];

		fputs("<tr><td class=\"t\">", to);
		escape_html(to, r->base);
		if (r->changed)
			escape_around(to, "<br><span class=\"bad\">another variant: ", r->changed,
				      "</span>");
		fputs("</td>", to);
		for (int k = 0; k < 2; k++)
			escape_cell(to, r->main[k] ? term_ms_cell(r->time_ns[k] / 1e6) : "-");
		escape_cell(to, side[0].steps && side[1].steps
				    ? term_ms_cell((r->time_ns[1] - r->time_ns[0]) / 1e6)
				    : "-");
		snprintf(text, sizeof(text), "%.1f to %.1f", r->count[0], r->count[1]);
		escape_cell(to, text);
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
	kernel_diff_free(&d);
	return 0;
}

/* A rank's slow steps, compared with the others of the same windows. */
static int put_kernels(FILE *to, const struct trace_model *m, const struct trace_rank *r)
{
	struct side side[2] = {{.name = "others"}, {.name = "slow"}};

	side[0].k = kernel_diff_of_rank(m, r, KERNEL_STEPS_OTHER, &side[0].count, &side[0].steps);
	side[1].k = kernel_diff_of_rank(m, r, KERNEL_STEPS_SLOW, &side[1].count, &side[1].steps);
	fprintf(to, "<h2>Kernels and copies of %s: its slow steps and the others</h2>\n",
		term_rank(r->who.rank));
	if (side[0].k || side[1].k)
		return put_table(to, "kernels", side);
	fprintf(to, "<p class=\"dim\">Its windows %s.</p>\n",
		r->host_count ? "have none" : "are summaries without records");
	return 0;
}

static int put_beside(FILE *to, const struct trace_model *m, const struct trace_rank *culprit,
		      const struct trace_rank *peer)
{
	struct side side[2];

	side[0].k = kernel_diff_of_rank(m, peer, KERNEL_STEPS_ALL, &side[0].count, &side[0].steps);
	side[1].k = kernel_diff_of_slow(m, culprit, &side[1].count, &side[1].steps);
	snprintf(side[0].name, sizeof(side[0].name), "rank %d", peer->who.rank);
	snprintf(side[1].name, sizeof(side[1].name), "rank %d", culprit->who.rank);
	if (side[0].k && side[1].k) {
		fprintf(to, "<h2>Kernels of rank %d compared with rank %d</h2>\n",
			culprit->who.rank, peer->who.rank);
		return put_table(to, "beside", side);
	}
	free(side[0].k);
	free(side[1].k);
	return 0;
}

/* The culprit compared with its peer; *cpu: with stacks. */
static int put_difference(FILE *to, const json_t *in, const struct trace_model *m,
			  const struct trace_rank *culprit, const struct trace_rank *peer,
			  bool *cpu)
{
	struct incident_diff d;
	int err;

	*cpu = false;
	if (!culprit)
		return 0;
	err = peer ? incident_diff_make(&d, m, peer, culprit) : -ENODATA;
	if (err == -ENODATA)
		fprintf(to,
			"<section id=\"diff\">\n<h2>Comparison with a peer</h2>\n<p "
			"class=\"dim\">There is "
			"no window of a healthy peer with stacks or kernels, so %s is compared "
			"with none.</p>\n</section>\n",
			term_rank(culprit->who.rank));
	if (err)
		return err == -ENODATA ? 0 : err;
	*cpu = d.has_cpu;
	d.open = incident_verdict_metric(in);
	err = report_stacks_diff(to, &d);
	if (!err)
		err = put_beside(to, m, culprit, peer);
	incident_diff_free(&d);
	return err;
}

int report_html_write(FILE *to, const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *culprit = incident_diff_culprit(in, m);
	const struct trace_rank *peer = culprit ? incident_diff_peer(in, m, culprit) : NULL;
	unsigned shown = 0;
	bool cpu = false;
	int err = 0;

	report_page_begin(to, in);
	plots_where(to, in, m);
	plots_steps(to, in, m);
	if (!incident_verdict_is_hang(in)) { /* the steps before are not what hangs */
		if (culprit)
			plots_timeline(to, in, m, culprit, peer);
		err = report_plots_heat(to, in, m);
		report_plots_roofline(to, in, m);
	}
	plots_gpu(to, in, m);
	if (!err)
		err = put_difference(to, in, m, culprit, peer, &cpu);
	report_page_signals(to, in);
	for (size_t i = 0; i < m->rank_count && shown < RANKS_SHOWN && !err; i++) {
		if (!plots_is_culprit(in, &m->ranks[i]))
			continue;
		err = put_kernels(to, m, &m->ranks[i]);
		shown++;
	}
	if (!err)
		err = report_stacks_put(to, in, m, !cpu);
	report_page_windows(to, in);
	escape_around(to, "<p class=\"dim\">sysom trace ", jsonget_text(in, "id"),
		      " writes the same windows for ui.perfetto.dev.</p>\n");
	report_page_end(to);
	return ferror(to) ? outfile_error(to) : err;
}
