/* SPDX-License-Identifier: Apache-2.0
 * What jobs give sysomd and the aggregator that they cannot use (catalogues, values of spans, requests,
 * profiler plugins), and which of their ranks were started again. */
#include "base/text/jsonget.h"
#include "cli/doctor/doctor.h"
#include "render/term.h"

/* Ranks whose number of that name is above 0. */
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
			   "%u processes refused the file in their SYSOM_SPANS, for example %.0f "
			   "(%s) because of line %.0f",
			   bad.count, jsonget_number(bad.first, "pid"),
			   term_safe(jsonget_text(bad.first, "program"), 60),
			   jsonget_number(bad.first, "spans_bad_line"));
}

static void check_restarts(struct doctor *d, const json_t *ranks)
{
	const struct some restarted = with_number(ranks, "restarts");
	const json_t *last = restarted.last;

	if (restarted.count)
		doctor_add(d, "restarts", DOCTOR_WARN,
			   "look in the job's log for the reason why the earlier process ended",
			   "%u processes replaced one that had ended, for example %.0f (%s, rank "
			   "%lld of %s) replaced %.0f",
			   restarted.count, jsonget_number(last, "pid"),
			   term_safe(jsonget_text(last, "program"), 60),
			   (long long)jsonget_integer(last, "rank"),
			   term_safe(jsonget_text(last, "job"), 60),
			   jsonget_number(last, "before_pid"));
}

/* Sums of causes over the ranks; the first rank that has one, NULL: none has. unless: not of ranks that
 * have this cause; or NULL. */
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

	if (first)
		doctor_add(
		    d, "NCCL plugin", DOCTOR_WARN,
		    "correct or remove that plugin: NCCL_PROFILER_PLUGIN, nccl.conf or "
		    "libnccl-profiler.so of the job",
		    "the job's own profiler plugin fails, for example in process %.0f (%s): %.0f "
		    "times "
		    "it could not be loaded or had unloaded itself, %.0f times its init "
		    "failed, %.0f callbacks returned an error, %.0f processes ended inside it",
		    jsonget_number(first, "pid"), term_safe(jsonget_text(first, "program"), 60),
		    sum[0], sum[1], sum[2], sum[3]);
}

static void check_ranges(struct doctor *d, const json_t *ranks)
{
	static const char *const texts[] = {"span_text"}, *const ends[] = {"span_unpaired"};
	double text = 0, open = 0;
	/* where events were overwritten, the program may have closed a range that has no end */
	const json_t *unclosed = sum_lost(ranks, ends, 1, "lapped", &open);
	const json_t *first = sum_lost(ranks, texts, 1, NULL, &text);

	first = first ? first : unclosed;
	if (first)
		doctor_add(d, "ranges", DOCTOR_WARN,
			   "correct the program's NVTX or sysom_span calls; the other ranges are "
			   "recorded",
			   "for example in process %.0f (%s): %.0f texts of ranges were too long "
			   "or not terminated, %.0f ranges were never closed or never opened",
			   jsonget_number(first, "pid"),
			   term_safe(jsonget_text(first, "program"), 60), text, open);
}

void doctor_jobs_status_check(struct doctor *d, const json_t *status)
{
	static const char *const causes[] = {"span_value", "span_items", "span_function"};
	const json_t *ranks = json_object_get(status, "ranks");
	double sum[3] = {0};

	check_restarts(d, ranks);
	check_plugins(d, ranks);
	check_ranges(d, ranks);
	check_catalogues(d, ranks);
	if (sum_lost(ranks, causes, 3, NULL, sum))
		doctor_add(
		    d, "Python spans", DOCTOR_WARN,
		    "correct the catalogue, if it is your own (docs/spans.md, Catalogues), or "
		    "what the program gives sysom_step_begin",
		    "%.0f values were not valid counts or ids, %.0f requests exceeded the "
		    "limit of a span, %.0f functions do not exist or can't be traced",
		    sum[0], sum[1], sum[2]);
}

void doctor_requests_check(struct doctor *d, const json_t *requests)
{
	static const char *const counts[] = {"arrived", "lost",	      "evicted",
					     "bad",	"parts_lost", "shared"};
	double sum[6] = {0}, n, odd;
	const json_t *job;
	size_t i;

	json_array_foreach (json_object_get(requests, "jobs"), i, job)
		for (unsigned k = 0; k < 6; k++) {
			n = jsonget_number(job, counts[k]);
			sum[k] += n > 0 ? n : 0;
		}
	if (!i)
		return; /* no serving job, or an older sysomd */
	odd = sum[2] + sum[3] + sum[4] + sum[5];
	doctor_add(
	    d, "requests", odd > 0 ? DOCTOR_WARN : DOCTOR_OK,
	    odd > 0 ? "see docs/requests.md, Bounds" : "",
	    "of %.0f requests %.0f were lost, %.0f of them for lack of room; %.0f times or "
	    "counts were impossible; %.0f parts of requests were lost; %.0f ids were those of "
	    "several requests at once",
	    sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]);
}

void doctor_joined_check(struct doctor *d, const json_t *requests)
{
	static const char *const counts[] = {"requests",    "partial", "evicted",
					     "pieces_lost", "bad",     "repeated"};
	double sum[6] = {0}, n;
	const json_t *job, *refused = NULL;
	unsigned jobs = 0, refusals = 0;
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
	doctor_add(d, "joined requests",
		   sum[2] + sum[3] + sum[4] + sum[5] + refusals > 0 ? DOCTOR_WARN : DOCTOR_OK,
		   "see docs/requests.md, Bounds",
		   "%.0f requests were on several nodes; of %.0f the piece with the arrival is "
		   "missing, %.0f were lost for lack of room; %.0f pieces were lost, %.0f had "
		   "impossible times; %.0f ids were used again at once; %u jobs have no room%s%s",
		   sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], refusals,
		   refused ? ", for example " : "",
		   refused ? term_safe(jsonget_text(refused, "job"), 60) : "");
}
