/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/job_text.h"

#include <string.h>

#include "base/text/jsonget.h"
#include "render/incident_text.h"
#include "render/term.h"

/* "every 50 steps", "12 of every 60 steps", "every 15 s", "at no fixed interval". */
static const char *often(const json_t *kind)
{
	double period = jsonget_number(kind, "period"), steps = jsonget_number(kind, "steps"),
	       period_s = jsonget_number(kind, "period_s");
	static char out[96];

	if (!(period > 0))
		snprintf(out, sizeof(out), "at no fixed interval");
	else if (period_s > 0 && steps < 1.5)
		snprintf(out, sizeof(out), "every %s", term_span(period_s));
	else if (period_s > 0)
		snprintf(out, sizeof(out), "%.0f steps every %s", steps, term_span(period_s));
	else if (steps < 1.5)
		snprintf(out, sizeof(out), "every %.0f steps", period);
	else
		snprintf(out, sizeof(out), "%.0f of every %.0f steps", steps, period);
	return out;
}

static const char *account_text(const json_t *kind)
{
	static const struct {
		const char *account, *text;
	} texts[] = {
	    {"host", "the GPU waits for the host"},
	    {"compute", "kernels take longer"},
	    {"copy", "copies take longer"},
	    {"wait", "waiting in collectives for other ranks"},
	};
	const char *account = jsonget_text(kind, "account");
	static char out[96];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(account, texts[i].account) == 0)
			return texts[i].text;
	snprintf(out, sizeof(out), "other work: %.0f launches and %.0f collectives a step",
		 jsonget_number(kind, "launches"), jsonget_number(kind, "collectives"));
	return out;
}

static void print_kind(FILE *to, const json_t *kind)
{
	const json_t *ranks = json_object_get(kind, "ranks"),
		     *waiting = json_object_get(kind, "waiting");
	const char *cause = jsonget_text(kind, "cause");

	fprintf(to, "  %-24s", often(kind));
	fprintf(to, " %9s", term_ms(jsonget_number(kind, "cost_ms")));
	fprintf(to, " %8s", term_percent(jsonget_number(kind, "share")));
	fprintf(to, " %7s", term_count(jsonget_number(kind, "count")));
	fprintf(to, "  rank%s %s%s\n", json_array_size(ranks) == 1 ? "" : "s",
		incident_text_ranks(ranks),
		jsonget_true(kind, "grown") ? ", the latest one longer than the others" : "");
	fprintf(to, "      %s", account_text(kind));
	if (*cause)
		fprintf(to, ": %s", term_safe(cause, 200));
	fputc('\n', to);
	if (json_array_size(waiting))
		fprintf(to, "      rank%s %s wait%s meanwhile\n",
			json_array_size(waiting) == 1 ? "" : "s", incident_text_ranks(waiting),
			json_array_size(waiting) == 1 ? "s" : "");
}

void job_text_print(FILE *to, const json_t *answer)
{
	const json_t *kinds = json_object_get(answer, "kinds"), *kind;
	size_t i;

	fprintf(to, "%sjob %s%s: ", term_style(TERM_BOLD),
		term_safe(jsonget_text(answer, "job"), 100), term_style(TERM_PLAIN));
	fprintf(to, "%s rank%s\n", term_count(jsonget_number(answer, "ranks")),
		jsonget_number(answer, "ranks") == 1 ? "" : "s");
	if (!json_array_size(kinds)) {
		fputs("all its steps are of one kind (ranks report their kinds once a minute)\n",
		      to);
		return;
	}
	fputs("what it does besides its usual steps:\n", to);
	fprintf(to, "  %s%-24s %9s %8s %7s  ranks%s\n", term_style(TERM_DIM), "when", "each",
		"share", "times", term_style(TERM_PLAIN));
	json_array_foreach ((json_t *)kinds, i, kind)
		print_kind(to, kind);
}
