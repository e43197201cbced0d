/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/diff/diff_source.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/jsonget.h"
#include "base/limits.h"
#include "base/text/text.h"
#include "cli/commands.h"
#include "cli/diff/incident_diff.h"
#include "cli/profile/folded.h"
#include "cli/profile/incident_stacks.h"
#include "cli/profile/pprof_read.h"
#include "cli/report/incident_load.h"
#include "render/term.h"
#include "cli/trace/trace_reader.h"
#include "wire/codec.h"

/* Makes s->functions from the stacks of s->rank. */
static int add_functions(struct diff_source *s)
{
	int err;

	if (!s->rank || !s->rank->stacks.sample_count)
		return 0;
	err = incident_stacks_names(s->rank, &s->names);
	if (!err)
		err =
		    incident_diff_profile(&s->functions, &s->rank->stacks, s->names, !s->as_sketch);
	if (!err && !(profile_total(s->functions) > 0)) { /* blocked all the time */
		profile_close(s->functions);
		s->functions = NULL;
	}
	return err;
}

/* ---- incidents ---- */

static int open_incident(struct diff_source *s, const struct options *o, const char *arg)
{
	const char *colon = strchr(arg, ':');
	char id[40], *end = NULL;
	long rank = colon ? strtol(colon + 1, &end, 10) : -1;
	json_t *in;
	int n;

	if (colon && (!isdigit((unsigned char)colon[1]) || *end || rank > INT32_MAX)) {
		fprintf(stderr, "sysom diff: %s: expected INCIDENT:RANK\n", term_safe(arg, 80));
		return EXIT_USAGE;
	}
	n = (int)strcspn(arg, ":");
	if (strspn(arg, "0123456789abcdef") != (size_t)n && (n != 4 || strncmp(arg, "last", 4))) {
		fprintf(stderr,
			"sysom diff: %s is neither a file, a baseline nor an incident's id "
			"(ID:RANK for one of its ranks)\n",
			term_safe(arg, 80));
		return EXIT_USAGE;
	}
	if (commands_aggregator(o, &s->client))
		return EXIT_USAGE;
	snprintf(id, sizeof(id), "%.*s", colon ? (int)(colon - arg) : 39, arg);
	n = commands_incident(o, &s->client, id, &in);
	if (n)
		return n;
	n = incident_load_windows(&s->client, in, (int)rank, &s->model);
	if (n > 0 && rank < 0)
		s->rank = incident_diff_culprit(in, &s->model);
	if (n > 0 && !s->rank && s->model.rank_count)
		s->rank = &s->model.ranks[0];
	if (s->rank)
		snprintf(s->label, sizeof(s->label), "%s of %s, incident %s",
			 term_rank(s->rank->who.rank), term_safe(s->rank->who.job, 60),
			 term_safe(jsonget_text(in, "id"), 32));
	else
		fprintf(stderr, "sysom diff: %s: %s%s\n", term_safe(arg, 80),
			n < 0 ? strerror(-n) : "no data for this rank; available: ",
			n < 0 ? "" : commands_window_ranks(in));
	json_decref(in);
	s->kind = "incident";
	if (!s->rank)
		return n < 0 ? EXIT_FAILED : EXIT_NOTHING;
	return add_functions(s) ? EXIT_FAILED : EXIT_OK;
}

/* ---- files ---- */

static int open_window(struct diff_source *s, const char *path)
{
	struct buf b;
	struct window w;
	FILE *f = fopen(path, "re");
	int err = f ? 0 : -errno;
	void *at;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES + 1);
	memset(&w, 0, sizeof(w));
	at = f ? buf_reserve(&b, LIMIT_WIRE_MESSAGE_BYTES) : NULL;
	if (at)
		err = wire_window_decode(at, fread(at, 1, LIMIT_WIRE_MESSAGE_BYTES, f), &w);
	else if (f)
		err = -ENOMEM;
	if (f)
		fclose(f);
	buf_fini(&b);
	if (!err) {
		err = trace_model_add(&s->model, &w);
		wire_window_free(&w);
		trace_model_finish(&s->model);
	}
	if (!err && s->model.rank_count) {
		s->rank = &s->model.ranks[0];
		snprintf(s->label, sizeof(s->label), "%s of %s, window %s",
			 term_rank(s->rank->who.rank), term_safe(s->rank->who.job, 60),
			 term_safe(path, 80));
		err = add_functions(s);
	}
	if (err)
		fprintf(stderr, "%s:0: not a window of sysom: %s\n", term_safe(path, 100),
			strerror(-err));
	return err ? EXIT_USAGE : EXIT_OK;
}

static int open_folded(struct diff_source *s, const char *path)
{
	struct folded f;
	int err = folded_load(&f, path, 0);

	if (err)
		return err == -ENOMEM ? EXIT_FAILED : EXIT_USAGE;
	err = folded_profile(&f, &s->functions);
	s->skipped = f.deep + f.blank;
	folded_free(&f);
	return err ? EXIT_FAILED : EXIT_OK;
}

static int open_trace(struct diff_source *s, const char *path)
{
	int err = diff_trace_load(&s->model, path, &s->skipped);

	if (err)
		return err == -ENOMEM ? EXIT_FAILED : EXIT_USAGE;
	s->rank = s->model.rank_count ? &s->model.ranks[0] : NULL;
	return EXIT_OK;
}

/* From the file's ending, else from its first bytes. */
static const char *kind_of(const char *path)
{
	static const char *const endings[][2] = {
	    {".folded", "folded"}, {".collapsed", "folded"}, {".txt", "folded"}, {".pb", "pprof"},
	    {".pprof", "pprof"},   {".csv", "trace"},	     {".json", "trace"},
	};
	char plain[4096], begin[64] = "";
	struct trace_reader *r;
	ssize_t n = 0;

	snprintf(plain, sizeof(plain), "%s", path);
	if (text_ends(plain, ".gz"))
		plain[strlen(plain) - 3] = '\0';
	else if (text_ends(plain, ".zst"))
		plain[strlen(plain) - 4] = '\0';
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (text_ends(plain, endings[i][0]))
			return endings[i][1];
	if (!trace_reader_open(&r, path)) {
		n = trace_reader_read(r, begin, sizeof(begin) - 1);
		trace_reader_close(r);
	}
	if (n >= 4 && !memcmp(begin, "\x08\x01\x10\x01", 4))
		return "window";
	if (begin[0] == '{' || begin[0] == '[' || !strncmp(begin, "ts_ns", 5))
		return "trace";
	return memchr(begin, '\0', n > 0 ? (size_t)n : 0) ? "pprof" : "folded";
}

static int open_file(struct diff_source *s, const char *path)
{
	s->kind = kind_of(path);
	snprintf(s->label, sizeof(s->label), "%s %s", s->kind, term_safe(path, 100));
	if (!strcmp(s->kind, "window"))
		return open_window(s, path);
	if (!strcmp(s->kind, "trace"))
		return open_trace(s, path);
	if (!strcmp(s->kind, "folded"))
		return open_folded(s, path);
	return pprof_read_load(&s->functions, path, &s->skipped) ? EXIT_USAGE : EXIT_OK;
}

int diff_source_open(struct diff_source *s, const struct options *o, const char *arg,
		     const char *beside)
{
	struct stat st;
	int err;

	memset(s, 0, sizeof(*s));
	s->as_sketch = diff_sketch_is(beside);
	err = trace_model_init(&s->model);
	if (err) {
		fprintf(stderr, "sysom diff: out of memory\n");
		return EXIT_FAILED;
	}
	if (diff_sketch_is(arg))
		return diff_sketch_open(s, o, arg);
	if (stat(arg, &st) == 0 && !S_ISDIR(st.st_mode))
		return open_file(s, arg);
	if (strchr(arg, '/') || strchr(arg, '.')) {
		fprintf(stderr, "sysom diff: %s: %s\n", term_safe(arg, 100), strerror(ENOENT));
		return EXIT_USAGE;
	}
	return open_incident(s, o, arg);
}

void diff_source_close(struct diff_source *s)
{
	profile_close(s->functions);
	profile_names_close(s->names);
	trace_model_fini(&s->model);
	wire_sketch_free(&s->sketch);
}
