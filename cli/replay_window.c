/* SPDX-License-Identifier: Apache-2.0
 * `sysom replay window`: what a live run saw, through the live run's analysis again. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"
#include "cli/replay_journal.h"
#include "cli/term.h"
#include "cli/trace_reader.h"

#define DIFFERENT 1

struct replay_window {
	bool json, live, compare;
	uint64_t differ;
};

static int usage(FILE *to)
{
	fputs("usage: sysom replay window [options] FILE\n\n"
	      "Runs the analysis of a live run again, on what sysomd --record-analysis FILE wrote:\n"
	      "steps are found, judged and compared with their peers' from the same input, and laid\n"
	      "beside the verdicts of then. Plain, .gz or .zst, - is standard input.\n\n"
	      "  --json     one JSON object per line\n"
	      "  --live     print what was said live instead, in the same form\n"
	      "  --compare  exit 1 when a line is not the same, byte for byte\n\n"
	      "exit status: 0 read to the end, 1 lines differ (--compare), 2 bad arguments or\n"
	      "malformed input\n", to);
	return to == stdout ? 0 : 2;
}

static int options(struct replay_window *w, int argc, char **argv)
{
	static const struct option longs[] = {
		{"json", no_argument, NULL, 'j'},    {"live", no_argument, NULL, 'l'},
		{"compare", no_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'},
		{0},
	};
	int c;

	optind = 1;
	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'j':
			w->json = true;
			break;
		case 'l':
			w->live = true;
			break;
		case 'c':
			w->compare = true;
			break;
		case 'h':
			usage(stdout);
			return -1;
		default:
			return usage(stderr);
		}
	}
	return optind < argc ? 0 : usage(stderr);
}

/* A line on standard error; the exit code. */
static int bad(const char *path, uint64_t offset, const char *what)
{
	fprintf(stderr, "sysom replay window: %s: byte %llu: %s\n", term_safe(path, 200),
		(unsigned long long)offset, what);
	return 2;
}

static const char *what_of(int err)
{
	switch (err) {
	case -EBADMSG:
		return "a damaged block";
	case -E2BIG:
		return "its settings need more memory than a recording may take";
	default:
		return "not what sysomd --record-analysis writes";
	}
}

/* All of it, or fewer at the end of the file; below 0: a damaged archive. */
static ssize_t read_all(struct trace_reader *in, void *to, size_t bytes)
{
	size_t have = 0;

	while (have < bytes) {
		ssize_t n = trace_reader_read(in, (char *)to + have, bytes - have);

		if (n < 0)
			return n;
		if (!n)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

static void print_summary(const struct replay_window *w, const struct replay_journal *j)
{
	struct replay_journal_stats s;

	replay_journal_stats_get(j, &s);
	printf(w->json ? "{\"type\":\"summary\",\"blocks\":%llu,\"events\":%llu,\"rows\":%llu,"
			 "\"ranks\":%llu,\"steps\":%llu,\"skipped\":{\"not_judged\":%llu},"
			 "\"flagged\":%llu,\"findings\":%llu,\"differ\":%llu,\"end\":\"%s\"}\n" :
			 "\n%llu blocks, %llu events, %llu records of %llu ranks; %llu steps, "
			 "%llu not judged, %llu slow; %llu findings; %llu lines differ from the live "
			 "ones; end: %s\n",
	       (unsigned long long)s.blocks, (unsigned long long)s.events,
	       (unsigned long long)s.records, (unsigned long long)s.ranks,
	       (unsigned long long)s.steps, (unsigned long long)(s.steps - s.judged),
	       (unsigned long long)s.flagged, (unsigned long long)s.findings,
	       (unsigned long long)s.differ, s.ended ? journal_end_name(s.why) : "missing");
}

/* One block; 1 when there was one. */
static int read_block(struct replay_journal *j, struct trace_reader *in, const char *path,
		      uint64_t *offset, uint8_t *body)
{
	uint8_t head[JOURNAL_HEAD_BYTES];
	uint32_t bytes = 0;
	ssize_t n = read_all(in, head, sizeof(head));
	int err;

	if (n < 0)
		return -bad(path, *offset, trace_reader_error(in));
	if (!n)
		return 0;
	if (n < (ssize_t)sizeof(head))
		return -bad(path, *offset, "ends within a block");
	if (journal_block_bytes(head, &bytes))
		return -bad(path, *offset, what_of(-EPROTO));
	n = read_all(in, body, bytes);
	if (n < 0)
		return -bad(path, *offset, trace_reader_error(in));
	if ((uint32_t)n < bytes)
		return -bad(path, *offset, "ends within a block");
	err = replay_journal_block(j, head, body, bytes);
	if (err == -ENOMEM) {
		fprintf(stderr, "sysom replay window: out of memory\n");
		return -1;
	}
	if (err)
		return -bad(path, *offset, what_of(err));
	*offset += sizeof(head) + bytes;
	return 1;
}

/* What comes after the magic. */
static int replay_recording(struct replay_window *w, struct trace_reader *in, const char *path)
{
	uint8_t *body = malloc(LIMIT_JOURNAL_BLOCK_BYTES);
	uint64_t offset = JOURNAL_MAGIC_BYTES;
	struct replay_journal *j = NULL;
	struct replay_journal_stats s;
	int more = 1;

	if (!body || replay_journal_open(&j, stdout, w->json, w->live)) {
		fprintf(stderr, "sysom replay window: out of memory\n");
		free(body);
		return 1;
	}
	while (more > 0)
		more = read_block(j, in, path, &offset, body);
	if (!more) {
		replay_journal_finish(j);
		print_summary(w, j);
		replay_journal_stats_get(j, &s);
		w->differ += s.differ;
		if (!s.ended)
			fprintf(stderr, "sysom replay window: %s: ends without its end: sysomd was "
				"killed, or still writes\n", term_safe(path, 200));
	}
	replay_journal_close(j);
	free(body);
	return -more;
}

static int replay_file(struct replay_window *w, const char *path)
{
	struct trace_reader *in;
	char magic[JOURNAL_MAGIC_BYTES];
	int rc = trace_reader_open(&in, path);

	if (rc) {
		fprintf(stderr, "sysom replay window: %s: %s\n", term_safe(path, 200), strerror(-rc));
		return 2;
	}
	if (read_all(in, magic, sizeof(magic)) != sizeof(magic) ||
	    memcmp(magic, JOURNAL_MAGIC, sizeof(magic)))
		rc = bad(path, 0, what_of(-EPROTO));
	else
		rc = replay_recording(w, in, path);
	trace_reader_close(in);
	return rc;
}

int replay_window_main(int argc, char **argv)
{
	struct replay_window w = {0};
	int rc = options(&w, argc, argv);

	if (rc)
		return rc < 0 ? 0 : rc;
	for (int i = optind; i < argc && !rc; i++)
		rc = replay_file(&w, argv[i]);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "sysom replay window: output failed\n");
		return 1;
	}
	return rc ? rc : w.compare && w.differ ? DIFFERENT : 0;
}
