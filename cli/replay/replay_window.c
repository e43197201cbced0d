/* SPDX-License-Identifier: Apache-2.0
 * `sysom replay window`: repeats a live run's analysis on what it recorded. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/replay/replay.h"
#include "cli/replay/replay_incident.h"
#include "cli/replay/replay_journal.h"
#include "render/term.h"
#include "cli/trace/trace_reader.h"

struct replay_window {
	bool json, live, compare;
	const char *known_path;
	json_t *known;
	struct replay_incident *incident; /* NULL: no window yet */
	uint64_t differ;
};

#define AT(field) offsetof(struct replay_window, field)

static const struct option_row rows[] = {
    {"json", 'j', NULL, "one JSON object per line", OPTION_SWITCH, .at = AT(json)},
    {"live", 0, NULL, "of a recording: print the live verdicts instead, in the same form",
     OPTION_SWITCH, .at = AT(live)},
    {"compare", 0, NULL, "of a recording: exit 1 if any line differs from the live one",
     OPTION_SWITCH, .at = AT(compare)},
    {"incident", 0, "FILE", "of windows: their incident, from `sysom show --json`", OPTION_TEXT,
     .at = AT(known_path)},
    {0},
};

static int no_memory(void)
{
	fprintf(stderr, "sysom replay window: out of memory\n");
	return EXIT_FAILED;
}

/* Prints a message; returns the exit code. */
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
		return "neither a window nor a recording of sysomd --record-analysis";
	}
}

/* Reads all bytes, or fewer at the end of the file; below 0: a damaged archive. */
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
	printf(w->json ? "{\"type\":\"summary\",\"blocks\":%" PRIu64 ",\"events\":%" PRIu64
			 ",\"rows\":%" PRIu64 ",\"ranks\":%" PRIu64 ",\"steps\":%" PRIu64
			 ",\"skipped\":{\"not_judged\":%" PRIu64 "},\"flagged\":%" PRIu64
			 ",\"findings\":%" PRIu64 ",\"differ\":%" PRIu64 ",\"end\":\"%s\"}\n"
		       : "\n%" PRIu64 " blocks, %" PRIu64 " events, %" PRIu64 " records of %" PRIu64
			 " ranks; %" PRIu64 " steps, %" PRIu64 " not judged, %" PRIu64
			 " slow; %" PRIu64 " findings; %" PRIu64
			 " lines differ from the live ones; end: %s\n",
	       s.blocks, s.events, s.records, s.ranks, s.steps, s.steps - s.judged, s.flagged,
	       s.findings, s.differ, s.ended ? journal_end_name(s.why) : "missing");
}

/* Reads one block; 1: there was one. */
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
	if (err == -ENOMEM)
		return -no_memory();
	if (err)
		return -bad(path, *offset, what_of(err));
	*offset += sizeof(head) + bytes;
	return 1;
}

/* Reads a recording after its magic. */
static int replay_recording(struct replay_window *w, struct trace_reader *in, const char *path)
{
	uint8_t *body = malloc(LIMIT_JOURNAL_BLOCK_BYTES);
	uint64_t offset = JOURNAL_MAGIC_BYTES;
	struct replay_journal *j = NULL;
	struct replay_journal_stats s;
	int more = 1;

	if (!body || replay_journal_open(&j, stdout, w->json, w->live)) {
		free(body);
		return no_memory();
	}
	while (more > 0)
		more = read_block(j, in, path, &offset, body);
	if (!more) {
		replay_journal_finish(j);
		print_summary(w, j);
		replay_journal_stats_get(j, &s);
		w->differ += s.differ;
		if (!s.ended)
			fprintf(
			    stderr,
			    "sysom replay window: %s: the recording is not complete: sysomd was "
			    "killed, or still writes\n",
			    term_safe(path, 200));
	}
	replay_journal_close(j);
	free(body);
	return -more;
}

static int bad_known(const struct replay_window *w, int line, const char *what)
{
	fprintf(stderr, "sysom replay window: %s:%d: %s\n", term_safe(w->known_path, 200), line,
		term_safe(what, 200));
	return 2;
}

/* An upper bound of the number of values in a JSON text: each but the first follows a comma or bracket.
 * Short values need far more memory than text: `[],` forty times. */
static size_t values_of(const char *text, size_t bytes)
{
	size_t values = 1;
	bool quoted = false;

	for (size_t i = 0; i < bytes; i++) {
		quoted ^= text[i] == '"';
		i += quoted && text[i] == '\\';
		values += !quoted && strchr(",[{", text[i]) && text[i];
	}
	return values;
}

static int parse_known(struct replay_window *w, struct trace_reader *in, char *text)
{
	ssize_t n = read_all(in, text, LIMIT_REPLAY_JSON_BYTES + 1);
	json_error_t e;

	if (n < 0)
		return bad_known(w, 1, trace_reader_error(in));
	if ((size_t)n > LIMIT_REPLAY_JSON_BYTES ||
	    values_of(text, (size_t)n) > LIMIT_REPLAY_JSON_VALUES)
		return bad_known(w, 1, "too large for an incident (16 MiB, a million values)");
	w->known = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &e);
	if (json_is_object(w->known))
		return 0;
	return bad_known(w, w->known ? 1 : e.line, w->known ? "not an incident" : e.text);
}

static int load_known(struct replay_window *w)
{
	struct trace_reader *in;
	char *text;
	int rc;

	if (!w->known_path)
		return 0;
	rc = trace_reader_open(&in, w->known_path);
	if (rc)
		return bad_known(w, 0, strerror(-rc));
	text = malloc(LIMIT_REPLAY_JSON_BYTES + 1);
	rc = text ? parse_known(w, in, text) : no_memory();
	free(text);
	trace_reader_close(in);
	return rc;
}

/* Reads a window whose first bytes are already read. */
static int replay_stored(struct replay_window *w, struct trace_reader *in, const char *path,
			 const char *begin, size_t have)
{
	uint8_t *body = malloc(LIMIT_WIRE_MESSAGE_BYTES + 1);
	ssize_t n;
	int err = 0;

	if (!body)
		return no_memory();
	memcpy(body, begin, have);
	n = read_all(in, body + have, LIMIT_WIRE_MESSAGE_BYTES + 1 - have);
	if (n < 0) {
		free(body);
		return bad(path, have, trace_reader_error(in));
	}
	if (!w->incident)
		err = replay_incident_open(&w->incident, stdout, w->json, w->known);
	if (err && err != -ENOMEM) {
		free(body);
		return bad(w->known_path ? w->known_path : path, 0, "not an incident");
	}
	if (!err)
		err = replay_incident_window(w->incident, body, have + (size_t)n);
	free(body);
	if (err == -ENOMEM)
		return no_memory();
	return err ? bad(path, 0, what_of(-EPROTO)) : 0;
}

static int replay_file(struct replay_window *w, const char *path)
{
	struct trace_reader *in;
	char begin[JOURNAL_MAGIC_BYTES];
	ssize_t have;
	int rc = trace_reader_open(&in, path);

	if (rc) {
		fprintf(stderr, "sysom replay window: %s: %s\n", term_safe(path, 200),
			strerror(-rc));
		return 2;
	}
	have = read_all(in, begin, sizeof(begin));
	if (have < 0)
		rc = bad(path, 0, trace_reader_error(in));
	else if (have == sizeof(begin) && !memcmp(begin, JOURNAL_MAGIC, sizeof(begin)))
		rc = replay_recording(w, in, path);
	else
		rc = replay_stored(w, in, path, begin, (size_t)have);
	trace_reader_close(in);
	return rc;
}

static int finish_windows(struct replay_window *w)
{
	struct replay_incident_stats s;
	int err = w->incident ? replay_incident_finish(w->incident) : 0;

	if (err)
		return no_memory();
	if (!w->incident)
		return 0;
	replay_incident_stats_get(w->incident, &s);
	printf(w->json ? "{\"type\":\"summary\",\"rows\":%" PRIu64 ",\"windows\":%" PRIu64
			 ",\"skipped\":{\"duplicates\":%" PRIu64 "},\"windows_alone\":%" PRIu64
			 ",\"flagged\":%" PRIu64 ",\"incidents\":%" PRIu64 ",\"findings\":%" PRIu64
			 "}\n"
		       : "\n%" PRIu64 " steps of %" PRIu64 " windows, %" PRIu64
			 " of which came twice; %" PRIu64 " of no incident; %" PRIu64
			 " slow; %" PRIu64 " incidents, %" PRIu64 " findings\n",
	       s.steps, s.windows, s.duplicates, s.alone, s.flagged, s.incidents, s.findings);
	return 0;
}

static int replay_window_main(int argc, char **argv)
{
	struct replay_window w = {0};
	int rc = options_read(&replay_window, &w, argc, argv);

	if (rc != OPTIONS_GO_ON)
		return rc;
	rc = load_known(&w);
	for (int i = optind; i < argc && !rc; i++)
		rc = replay_file(&w, argv[i]);
	if (!rc)
		rc = finish_windows(&w);
	replay_incident_close(w.incident);
	json_decref(w.known);
	return rc ? rc : w.compare && w.differ ? EXIT_NOTHING : 0;
}

const struct command replay_window = {
    .name = "replay window",
    .raw = replay_window_main,
    .rows = rows,
    .args = "FILE...",
    .args_min = 1,
    .args_max = OPTIONS_ANY,
    .summary = "stored windows, or what sysomd --record-analysis wrote: verdicts, findings",
    .status = "0 read to the end, 1 lines differ (--compare), 2 bad arguments or malformed input"};
