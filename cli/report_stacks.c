/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_stacks.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/escape.h"
#include "cli/incident_stacks.h"
#include "cli/profile_flame.h"
#include "cli/term.h"

/* A report is read beside other things: what is below 0.1% is not. */
#define REPORT_SHARE_MIN 0.001

static int flame_page(const struct trace_rank *r, struct profile_names *names, char **page)
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
		snprintf(title, sizeof(title), "rank %d", r->who.rank);
		err = profile_flame_write(f, &t, title, "", REPORT_SHARE_MIN);
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
		"<h2>CPU stacks of rank %d</h2>\n<p class=\"dim\">%s samples on the CPU (%s), %s "
		"blockings (%s), of its process, its threads and children.</p>\n",
		r->who.rank, term_count((double)s->on_count), term_span((double)s->on_ns * 1e-9),
		term_count((double)s->off_count), term_span((double)s->off_ns * 1e-9));
	if (!incident_stacks_gil(s, gil, sizeof(gil)))
		return;
	fputs("<p class=\"bad\">", to);
	escape_html(to, gil);
	fputs("</p>\n", to);
}

int report_stacks_put(FILE *to, const json_t *in, const struct trace_model *m)
{
	const struct trace_rank *r = incident_stacks_rank(in, m, -1);
	struct symbol_resolver *resolver;
	struct profile_names *names;
	struct profile_summary s;
	char *page = NULL;
	int err;

	if (!r)
		return 0;
	err = incident_stacks_names(r, &resolver, &names);
	if (!err)
		err = profile_summary_make(&s, &r->stacks, names, r->who.pid);
	if (!err)
		err = flame_page(r, names, &page);
	if (!err) {
		put_words(to, r, &s);
		fputs(
		    "<iframe title=\"flame graph\" style=\"width:100%;height:46em;border:1px solid "
		    "var(--line);border-radius:6px\" sandbox=\"allow-scripts\" srcdoc=\"",
		    to);
		escape_page(to, page);
		fputs("\"></iframe>\n", to);
	}
	free(page);
	profile_names_close(names);
	symbol_resolver_close(resolver);
	return err;
}
