/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text/jsonget.h"
#include "cli/plots/plots.h"
#include "render/incident_verdict.h"
#include "cli/report/kernel_diff.h"
#include "cli/report/report_kernels.h"
#include "render/report_page.h"
#include "render/escape.h"
#include "render/kernel_name.h"
#include "cli/text/outfile.h"
#include "render/term.h"

#define KERNELS_SHOWN 25
#define RANKS_SHOWN   4u

static void put_kernels(FILE *to, const struct trace_model *m, const struct trace_rank *r)
{
	size_t count, slow, normal;
	struct report_kernel *k = report_kernels_make(m, r, &count, &slow, &normal);

	fprintf(to, "<h2>Kernels and copies of rank %d</h2>\n", r->who.rank);
	if (!k) {
		fputs("<p class=\"dim\">Its windows are summaries without records.</p>\n", to);
		return;
	}
	fprintf(to,
		"<p class=\"dim\">GPU time per step: %zu slow %s compared with %zu %s of the same "
		"windows",
		slow, slow == 1 ? "step" : "steps", normal, normal == 1 ? "other" : "others");
	if (count > KERNELS_SHOWN)
		fprintf(to, "; the %zu largest differences of %zu", (size_t)KERNELS_SHOWN, count);
	fputs(".</p>\n", to);
	fputs("<div class=\"scroll\"><table>"
	      "<tr><th class=\"t\">name</th><th>others</th><th>slow</th><th>difference</th>"
	      "<th>per slow step</th></tr>\n",
	      to);
	for (size_t i = 0; i < count && i < KERNELS_SHOWN; i++) {
		const char *name = m->names.text[k[i].name];
		struct kernel_name parsed;
		double difference = (k[i].slow_ns - k[i].normal_ns) / 1e6;
		char text[64];

		fputs("<tr><td class=\"t\">", to);
		if (*name && !kernel_name_parse(&parsed, name)) {
			escape_html(to, parsed.full);
			kernel_name_free(&parsed);
		} else {
			escape_html(to, *name ? name : "(name unknown, copies)");
		}
		fputs("</td>", to);
		escape_cell(to, normal ? term_ms(k[i].normal_ns / 1e6) : "-");
		escape_cell(to, slow ? term_ms(k[i].slow_ns / 1e6) : "-");
		escape_cell(to, slow && normal ? term_ms(difference) : "-");
		snprintf(text, sizeof(text), "%.1f",
			 slow ? (double)k[i].slow_count / (double)slow : 0);
		escape_cell(to, text);
		fputs("</tr>\n", to);
	}
	fputs("</table></div>\n", to);
	free(k);
}

/* GPU time per step of the culprit and its peer, variants of a kernel merged. */
static int put_beside(FILE *to, const struct trace_model *m, const struct trace_rank *culprit,
		      const struct trace_rank *peer)
{
	struct kernel_diff d = {0};
	size_t n[2], steps[2];
	struct kernel_time *a = kernel_diff_of_rank(m, peer, false, &n[0], &steps[0]);
	struct kernel_time *b = kernel_diff_of_rank(m, culprit, true, &n[1], &steps[1]);
	int err = a && b ? kernel_diff_make(&d, a, n[0], b, n[1]) : 0;

	if (!err && d.count) {
		fprintf(
		    to,
		    "<h2>Kernels of rank %d beside rank %d</h2>\n<p class=\"dim\">GPU time per "
		    "step, means of %zu and %zu steps; the %zu largest differences of %zu.</p>\n"
		    "<div class=\"scroll\"><table id=\"beside\"><tr><th class=\"t\" "
		    "scope=\"col\">kernel</th>",
		    culprit->who.rank, peer->who.rank, steps[1], steps[0],
		    d.count < KERNELS_SHOWN ? d.count : (size_t)KERNELS_SHOWN, d.count);
		fprintf(to,
			"<th scope=\"col\">rank %d</th><th scope=\"col\">rank %d</th>"
			"<th scope=\"col\">difference</th><th scope=\"col\">per step</th></tr>\n",
			peer->who.rank, culprit->who.rank);
	}
	for (size_t i = 0; i < d.count && i < KERNELS_SHOWN; i++) {
		const struct kernel_diff_row *r = &d.rows[i];
		char text[64];

		fputs("<tr><td class=\"t\">", to);
		escape_html(to, r->base);
		if (r->changed)
			escape_around(to, "<br><span class=\"bad\">another variant: ", r->changed,
				      "</span>");
		fputs("</td>", to);
		escape_cell(to, r->main[0] ? term_ms(r->time_ns[0] / 1e6) : "-");
		escape_cell(to, r->main[1] ? term_ms(r->time_ns[1] / 1e6) : "-");
		escape_cell(to, term_ms((r->time_ns[1] - r->time_ns[0]) / 1e6));
		snprintf(text, sizeof(text), "%.1f to %.1f", r->count[0], r->count[1]);
		escape_cell(to, text);
		fputs("</tr>\n", to);
	}
	if (d.count)
		fputs("</table></div>\n", to);
	kernel_diff_free(&d);
	free(a);
	free(b);
	return err;
}

/* The culprit beside its peer; *cpu: with stacks. */
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
		fprintf(
		    to,
		    "<section id=\"diff\">\n<h2>Beside a peer</h2>\n<p class=\"dim\">No window of "
		    "a "
		    "healthy peer with stacks or kernels is at hand, so nothing stands beside rank "
		    "%d.</p>\n</section>\n",
		    culprit->who.rank);
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
	int err;

	report_page_begin(to, in);
	plots_where(to, in, m);
	plots_steps(to, in, m);
	if (culprit && !incident_verdict_is_hang(in)) /* its last steps are not what hangs */
		plots_timeline(to, m, culprit, peer);
	err = report_plots_heat(to, in, m);
	report_plots_roofline(to, in, m);
	plots_gpu(to, in, m);
	if (!err)
		err = put_difference(to, in, m, culprit, peer, &cpu);
	report_page_signals(to, in);
	for (size_t i = 0; i < m->rank_count && shown < RANKS_SHOWN; i++) {
		if (!plots_is_culprit(in, &m->ranks[i]))
			continue;
		put_kernels(to, m, &m->ranks[i]);
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
