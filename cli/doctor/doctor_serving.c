/* SPDX-License-Identifier: Apache-2.0
 * Input of jobs that sysomd and the aggregator cannot use (catalogues, values of spans, requests, profiler
 * plugins), and restarted ranks. */
#include <string.h>

#include "base/text/jsonget.h"
#include "cli/doctor/doctor.h"
#include "render/term.h"

/* Appends "LABEL: N" if n is above 0. */
static void put_count(char *text, size_t bytes, const char *label, double n)
{
	size_t at = strlen(text);

	if (n > 0)
		snprintf(text + at, bytes - at, "%s%s: %s", at ? "; " : "", label, term_count(n));
}

/* Ranks whose value of one key is above 0. */
struct some {
	unsigned count;
	const json_t *first, *last; /* NULL: none */
};

static struct some with_number(const json_t *ranks, const char *name)
{
	struct some s = {0};
	const json_t *rank;
	size_t i;

	json_array_foreach (ranks, i, rank) {
		if (!(jsonget_number(rank, name) > 0))
			continue;
		s.first = s.first ? s.first : rank;
		s.last = rank;
		s.count++;
	}
	return s;
}

static void check_catalogues(struct doctor *d, const json_t *ranks)
{
	const struct some bad = with_number(ranks, "spans_bad_line");

	if (bad.count)
		doctor_add(d, "span catalogue", DOCTOR_WARN,
			   "compile the catalogue with sysom spans compile; until then there are "
			   "no Python spans (docs/spans.md)",
			   "%s refused the file in SYSOM_SPANS, for example %.0f (%s) because of "
			   "line %.0f",
			   term_counted(bad.count, "process", "processes"),
			   jsonget_number(bad.first, "pid"),
			   term_safe(jsonget_text(bad.first, "program"), 60),
			   jsonget_number(bad.first, "spans_bad_line"));
}

static void check_restarts(struct doctor *d, const json_t *ranks)
{
	const struct some restarted = with_number(ranks, "restarts");
	const json_t *last = restarted.last;

	if (restarted.count)
		doctor_add(
		    d, "restarts", DOCTOR_WARN,
		    "look in the job's log for the reason why the earlier process ended",
		    "%s replaced one that had ended, for example %.0f (%s, rank %lld of "
		    "%s) replaced %.0f",
		    term_counted(restarted.count, "process", "processes"),
		    jsonget_number(last, "pid"), term_safe(jsonget_text(last, "program"), 60),
		    (long long)jsonget_integer(last, "rank"),
		    term_safe(jsonget_text(last, "job"), 60), jsonget_number(last, "before_pid"));
}

/* Sums the causes over the ranks, except ranks with the cause `unless` (NULL: all ranks). Returns the
 * first rank that has one, or NULL. */
static const json_t *sum_lost(const json_t *ranks, const char *const causes[], unsigned count,
			      const char *unless, double sum[])
{
	const json_t *rank, *first = NULL;
	size_t i;

	json_array_foreach (ranks, i, rank) {
		const json_t *lost = json_object_get(rank, "lost");

		for (unsigned k = 0; k < count; k++) {
			double n = jsonget_number(lost, causes[k]);

			if (!(n > 0) || (unless && jsonget_number(lost, unless) > 0))
				continue;
			sum[k] += n;
			first = first ? first : rank;
		}
	}
	return first;
}

static void check_plugins(struct doctor *d, const json_t *ranks)
{
	static const char *const causes[] = {"plugin_load", "plugin_init", "plugin_error",
					     "plugin_crash"};
	double sum[4] = {0};
	const json_t *first = sum_lost(ranks, causes, 4, NULL, sum);
	char text[200] = "";

	put_count(text, sizeof(text), "not loaded, or unloaded itself", sum[0]);
	put_count(text, sizeof(text), "init failed", sum[1]);
	put_count(text, sizeof(text), "callbacks with an error", sum[2]);
	put_count(text, sizeof(text), "processes that ended inside it", sum[3]);
	if (first)
		doctor_add(d, "NCCL plugin", DOCTOR_WARN,
			   "correct or remove that plugin: NCCL_PROFILER_PLUGIN, nccl.conf or "
			   "libnccl-profiler.so of the job",
			   "the job's own profiler plugin fails, for example in process %.0f (%s): "
			   "%s",
			   jsonget_number(first, "pid"),
			   term_safe(jsonget_text(first, "program"), 60), text);
}

static void check_ranges(struct doctor *d, const json_t *ranks)
{
	static const char *const texts[] = {"span_text"}, *const ends[] = {"span_unpaired"};
	double text = 0, open = 0;
	/* where events were overwritten, the program may have closed a range that has no end */
	const json_t *unclosed = sum_lost(ranks, ends, 1, "lapped", &open);
	const json_t *first = sum_lost(ranks, texts, 1, NULL, &text);
	char counts[200] = "";

	put_count(counts, sizeof(counts), "texts too long or not terminated", text);
	put_count(counts, sizeof(counts), "never closed or never opened", open);
	first = first ? first : unclosed;
	if (first)
		doctor_add(d, "ranges", DOCTOR_WARN,
			   "correct the program's NVTX or sysom_span calls; the other ranges are "
			   "recorded",
			   "for example in process %.0f (%s): %s", jsonget_number(first, "pid"),
			   term_safe(jsonget_text(first, "program"), 60), counts);
}

void doctor_jobs_status_check(struct doctor *d, const json_t *status)
{
	static const char *const causes[] = {"span_value", "span_items", "span_function"};
	const json_t *ranks = json_object_get(status, "ranks");
	double sum[3] = {0};
	char text[200] = "";

	check_restarts(d, ranks);
	check_plugins(d, ranks);
	check_ranges(d, ranks);
	check_catalogues(d, ranks);
	if (!sum_lost(ranks, causes, 3, NULL, sum))
		return;
	put_count(text, sizeof(text), "values that are not counts or ids", sum[0]);
	put_count(text, sizeof(text), "requests beyond the limit of a span", sum[1]);
	put_count(text, sizeof(text), "functions that do not exist or can't be traced", sum[2]);
	doctor_add(d, "Python spans", DOCTOR_WARN,
		   "correct the catalogue, if it is your own (docs/spans.md, Catalogues), or what "
		   "the program gives sysom_step_begin",
		   "%s", text);
}

void doctor_requests_check(struct doctor *d, const json_t *requests)
{
	static const char *const counts[] = {"arrived", "lost",	      "evicted",
					     "bad",	"parts_lost", "shared"};
	double sum[6] = {0}, n;
	const json_t *job;
	char text[200] = "";
	bool warn;
	size_t i;

	json_array_foreach (json_object_get(requests, "jobs"), i, job)
		for (unsigned k = 0; k < 6; k++) {
			n = jsonget_number(job, counts[k]);
			sum[k] += n > 0 ? n : 0;
		}
	if (!i)
		return; /* no serving job, or an older sysomd */
	warn = sum[2] + sum[3] + sum[4] + sum[5] > 0;
	put_count(text, sizeof(text), "without an end", sum[1]);
	put_count(text, sizeof(text), "of these, for lack of room", sum[2]);
	put_count(text, sizeof(text), "impossible times or counts", sum[3]);
	put_count(text, sizeof(text), "lost parts", sum[4]);
	put_count(text, sizeof(text), "ids of several requests at once", sum[5]);
	doctor_add(d, "requests", warn ? DOCTOR_WARN : DOCTOR_OK,
		   warn ? "see docs/requests.md, Bounds" : "", "seen: %s%s%s", term_count(sum[0]),
		   *text ? "; " : "", text);
}

void doctor_joined_check(struct doctor *d, const json_t *requests)
{
	static const char *const counts[] = {"requests",    "partial", "evicted",
					     "pieces_lost", "bad",     "repeated"};
	double sum[6] = {0}, n;
	const json_t *job, *refused = NULL;
	unsigned jobs = 0, refusals = 0;
	char text[300] = "";
	bool warn;
	size_t i;

	json_array_foreach (json_object_get(requests, "requests"), i, job) {
		const json_t *joined = json_object_get(job, "joined");

		jobs += joined != NULL;
		for (unsigned k = 0; k < 6; k++) {
			n = jsonget_number(joined, counts[k]);
			sum[k] += n > 0 ? n : 0;
		}
		if (!jsonget_true(joined, "refused"))
			continue;
		refused = refused ? refused : job;
		refusals++;
	}
	if (!jobs)
		return;
	warn = sum[2] + sum[3] + sum[4] + sum[5] + refusals > 0;
	put_count(text, sizeof(text), "without the piece of their arrival", sum[1]);
	put_count(text, sizeof(text), "lost for lack of room", sum[2]);
	put_count(text, sizeof(text), "lost pieces", sum[3]);
	put_count(text, sizeof(text), "pieces with impossible times", sum[4]);
	put_count(text, sizeof(text), "ids used by several requests at once", sum[5]);
	put_count(text, sizeof(text), "jobs without room", refusals);
	doctor_add(d, "joined requests", warn ? DOCTOR_WARN : DOCTOR_OK,
		   warn ? "see docs/requests.md, Bounds" : "", "on several nodes: %s%s%s%s%s",
		   term_count(sum[0]), *text ? "; " : "", text, refused ? ", for example " : "",
		   refused ? term_safe(jsonget_text(refused, "job"), 60) : "");
}
