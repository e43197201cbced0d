/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/report.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/cause/profile.h"
#include "cli/profile/incident_stacks.h"
#include "cli/profile/profile_flame.h"
#include "render/incident_verdict.h"
#include "render/escape.h"
#include "render/term.h"

/* Frames below 0.1% are too small to see in a report. */
#define REPORT_SHARE_MIN 0.001
#define FUNCTIONS_SHOWN	 15u

static int flame_page(const struct trace_rank *r, struct profile_names *names, const char *open,
		      char **page)
{
	struct profile_tree t;
	char title[80];
	size_t bytes;
	FILE *f;
	int err = profile_tree_init(&t);

	*page = NULL;
	if (err)
		return err;
	err = profile_tree_add(&t, &r->stacks, names, PROFILE_BY_THREAD_NAME);
	f = err ? NULL : open_memstream(page, &bytes);
	if (f) {
		snprintf(title, sizeof(title), "%s", term_rank(r->who.rank));
		err = profile_flame_page(
		    f, &t,
		    &(struct profile_flame){
			.title = title, .note = "", .share_min = REPORT_SHARE_MIN, .open = open});
		if (fclose(f) && !err)
			err = -ENOMEM;
	} else if (!err) {
		err = -ENOMEM;
	}
	profile_tree_fini(&t);
	return err;
}

static void put_words(FILE *to, const struct trace_rank *r, const struct profile_summary *s)
{
	char gil[400];

	fprintf(to,
		"<h2>CPU stacks of %s</h2>\n<p class=\"dim\">%s on the CPU (%s), %s (%s), of its "
		"process, its threads and children.%s</p>\n",
		term_rank(r->who.rank), term_counted((double)s->on_count, "sample", "samples"),
		term_span((double)s->on_ns * 1e-9),
		term_counted((double)s->off_count, "blocking event", "blocking events"),
		term_span((double)s->off_ns * 1e-9),
		s->on_count && s->on_count < PROFILE_SAMPLES_MIN
		    ? " Too few samples to show which functions take the time."
		    : "");
	if (!incident_stacks_gil(s, gil, sizeof(gil)))
		return;
	escape_around(to, "<p class=\"bad\">", gil, "</p>\n");
}

static void put_frame(FILE *to, const char *id, const char *title, const char *page)
{
	fprintf(
	    to,
	    "<iframe id=\"%s\" title=\"%s\" class=\"flame\" sandbox=\"allow-scripts\" srcdoc=\"",
	    id, title);
	escape_page(to, page);
	fputs("\"></iframe>\n", to);
}

static void put_delta(FILE *to, const struct profile_delta *d)
{
	double v[] = {d->base, d->other, d->delta, d->base_self, d->other_self};

	fputs("<tr>", to);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		fprintf(to,
			i == 2 ? "<td class=\"%s\">%+.1f%%</td>" : "<td class=\"%s\">%.1f%%</td>",
			i == 2 ? (d->delta > 0 ? "bad" : "cool") : "", 100 * v[i]);
	escape_around(to, "<td class=\"t\">", d->name, "</td></tr>\n");
}

static int put_functions(FILE *to, const struct incident_diff *diff)
{
	uint64_t had[2] = {incident_diff_samples(diff->base), incident_diff_samples(diff->other)};
	struct profile *p[2] = {NULL, NULL};
	struct profile_delta *d = NULL;
	uint32_t count = 0, shown = 0;
	int err = 0;

	if (had[0] < PROFILE_SAMPLES_MIN || had[1] < PROFILE_SAMPLES_MIN) {
		fprintf(to,
			"<p class=\"dim\">%s and %s samples are too few to compare the functions' "
			"shares of the CPU.</p>\n",
			term_count((double)had[0]), term_count((double)had[1]));
		return 0;
	}
	for (int i = 0; i < 2 && !err; i++)
		err = incident_diff_profile(&p[i], &(i ? diff->other : diff->base)->stacks,
					    diff->names[i], true);
	if (!err)
		err = profile_compare(p[0], p[1], PROFILE_DELTA, &d, &count);
	for (uint32_t i = 0; i < count && shown < FUNCTIONS_SHOWN; i++) {
		if (!d[i].flagged)
			continue;
		if (!shown++)
			fprintf(to,
				"<h3>Functions whose share of the CPU changed</h3>\n"
				"<div class=\"scroll\"><table id=\"functions\"><tr>"
				"<th scope=\"col\">%s</th><th scope=\"col\">rank %d</th>"
				"<th scope=\"col\">change</th><th scope=\"col\">self</th>"
				"<th scope=\"col\">self, rank %d</th>"
				"<th class=\"t\" scope=\"col\">function</th></tr>\n",
				incident_diff_name(diff, false), diff->other->who.rank,
				diff->other->who.rank);
		put_delta(to, &d[i]);
	}
	if (shown)
		fputs("</table></div>\n", to);
	else if (!err)
		fputs("<p class=\"dim\">No function's share of the CPU differs by more than 0.5 "
		      "points and sampling noise.</p>\n",
		      to);
	free(d);
	profile_close(p[0]);
	profile_close(p[1]);
	return err == -EINVAL ? 0 : err; /* -EINVAL: blocked all the time */
}

int report_stacks_diff(FILE *to, const struct incident_diff *d)
{
	char title[80], *page = NULL;
	size_t bytes;
	FILE *f = open_memstream(&page, &bytes);
	int err = f ? 0 : -ENOMEM;

	if (f) {
		snprintf(title, sizeof(title), "rank %d compared with rank %d", d->other->who.rank,
			 d->base->who.rank);
		err = incident_diff_page(f, d, title, REPORT_SHARE_MIN);
		if (fclose(f) && !err)
			err = -ENOMEM;
	}
	if (!err) {
		fprintf(to, "<section id=\"diff\">\n<h2>Rank %d compared with %s</h2>\n",
			d->other->who.rank, incident_diff_name(d, false));
		put_frame(to, "diff-flame", "differential flame graph", page);
		err = d->has_cpu ? put_functions(to, d) : 0;
		fputs("</section>\n", to);
	}
	free(page);
	return err;
}

int report_stacks_put(FILE *to, const json_t *in, const struct trace_model *m, bool graph)
{
	const struct trace_rank *r = incident_stacks_rank(in, m, -1);
	struct profile_names *names;
	struct profile_summary s;
	char *page = NULL;
	int err;

	if (!r)
		return 0;
	err = incident_stacks_names(r, &names);
	if (!err)
		err = profile_summary_make(&s, &r->stacks, names, r->who.pid);
	if (!err && graph)
		err = flame_page(r, names, incident_verdict_metric(in), &page);
	if (!err)
		put_words(to, r, &s);
	if (!err && graph)
		put_frame(to, "flame", "flame graph", page);
	free(page);
	profile_names_close(names);
	return err;
}
