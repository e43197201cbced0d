/* SPDX-License-Identifier: Apache-2.0
 * The protocol is that of NCCL's own client (src/ras/client.cc). It consists of lines; the server
 * closes the connection after the answer to STATUS. A server that does not know JSON answers the
 * request for JSON with something other than OK, and then STATUS gives text. */
#include "sidecar/ras/ras_answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/text/jsonget.h"

#define HASH_BYTES     24 /* characters shown of a communicator's hash */
#define FUNCTION_BYTES 24
#define FUNCTIONS_MAX  16 /* NCCL has eight */
#define IN_PROGRESS    7  /* ncclInProgress: an async_error that is not an error */
#define NUMBER_MAX     1e15

/* Printable ASCII only: the text goes to logs and terminals. */
static void put_finding(struct ras_report *r, enum ras_kind kind, const char *text)
{
	struct ras_finding *f = &r->finding[r->finding_count];

	if (r->finding_count == RAS_FINDINGS_MAX)
		return;
	r->finding_count++;
	f->kind = kind;
	snprintf(f->text, sizeof(f->text), "%s", text);
	for (char *at = f->text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

static void note_pid(struct ras_report *r, double pid, const uint32_t *pids, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < RAS_PIDS_MAX; i++)
		if (pids[i] == pid)
			r->ours |= 1ull << i;
}

/* ---- JSON ---- */

static double number(const json_t *o, const char *key)
{
	double v = jsonget_number(o, key);

	return v >= 0 && v <= NUMBER_MAX ? v : -1;
}

static void hash_of(const json_t *comm, char out[HASH_BYTES])
{
	snprintf(out, HASH_BYTES, "%s", jsonget_text(comm, "hash"));
}

/* How often the ranks of a communicator entered one function. */
struct entries {
	const char *function;
	double most, least;
	json_int_t who; /* the rank that is furthest behind */
};

static void count_entries(struct ras_report *r, struct entries *list, uint32_t *used,
			  const json_t *rank)
{
	const char *function;
	json_t *count;

	json_object_foreach (json_object_get(rank, "collective_counts"), function, count) {
		double n = json_number_value(count);
		uint32_t i = 0;

		if (!(n >= 0 && n <= NUMBER_MAX))
			continue;
		while (i < *used && strcmp(list[i].function, function))
			i++;
		if (i == FUNCTIONS_MAX)
			continue;
		if (i == *used)
			list[(*used)++] = (struct entries){function, -1, NUMBER_MAX + 1, -1};
		if (n > list[i].most)
			list[i].most = n;
		if (n >= list[i].least)
			continue;
		list[i].least = n;
		list[i].who = (json_int_t)number(rank, "rank");
	}
}

/* Reads each rank once: a report may have any number of ranks and functions. */
static void look_behind(struct ras_report *r, const json_t *ranks, const char *hash)
{
	struct entries list[FUNCTIONS_MAX];
	uint32_t used = 0;
	json_t *rank;
	char text[256];
	size_t i;

	json_array_foreach (ranks, i, rank)
		count_entries(r, list, &used, rank);
	for (uint32_t k = 0; k < used; k++) {
		const struct entries *e = &list[k];

		if (e->least >= e->most)
			continue;
		snprintf(text, sizeof(text),
			 "rank %" JSON_INTEGER_FORMAT " of %s entered %.*s %.0f times, others %.0f",
			 e->who, hash, FUNCTION_BYTES, e->function, e->least, e->most);
		put_finding(r, RAS_MISMATCH, text);
	}
}

static void look_at_ranks(struct ras_report *r, const json_t *comm, const uint32_t *pids,
			  uint32_t pid_count)
{
	json_t *ranks = json_object_get(comm, "ranks"), *rank;
	char hash[HASH_BYTES], text[256];
	size_t i;

	hash_of(comm, hash);
	json_array_foreach (ranks, i, rank) {
		const json_t *status = json_object_get(rank, "status");
		double error = number(status, "async_error"), n = number(rank, "rank");

		r->ranks++;
		note_pid(r, number(rank, "pid"), pids, pid_count);
		snprintf(text, sizeof(text), "rank %.0f of %s has the error %.0f", n, hash, error);
		if (error > 0 && error < IN_PROGRESS)
			put_finding(r, RAS_ERROR, text);
		snprintf(text, sizeof(text), "rank %.0f of %s is aborted", n, hash);
		if (json_is_true(json_object_get(status, "abort_flag")))
			put_finding(r, RAS_ABORTED, text);
	}
	look_behind(r, ranks, hash);
}

static void look_at_missing(struct ras_report *r, const json_t *comm, const uint32_t *pids,
			    uint32_t pid_count)
{
	json_t *rank;
	char hash[HASH_BYTES], text[256];
	size_t i;

	hash_of(comm, hash);
	json_array_foreach (json_object_get(comm, "missing_ranks"), i, rank) {
		const json_t *status = json_object_get(rank, "status");
		bool dead = json_is_true(json_object_get(status, "considered_dead"));

		r->missing++;
		note_pid(r, number(rank, "pid"), pids, pid_count);
		snprintf(text, sizeof(text), "rank %.0f of %s (process %.0f on %.40s) %s",
			 number(rank, "rank"), hash, number(rank, "pid"),
			 jsonget_text(rank, "host"), dead ? "is dead" : "does not answer");
		put_finding(r, RAS_MISSING, text);
	}
}

static int read_json(const char *text, size_t bytes, const uint32_t *pids, uint32_t pid_count,
		     struct ras_report *out)
{
	json_error_t error;
	json_t *root = json_loadb(text, bytes, 0, &error), *list, *comm;
	size_t i;

	list = json_object_get(root, "communicators");
	if (!json_is_array(list)) {
		json_decref(root);
		return -EBADMSG;
	}
	out->json = 1;
	json_array_foreach (list, i, comm) {
		out->communicators++;
		look_at_missing(out, comm, pids, pid_count);
		look_at_ranks(out, comm, pids, pid_count);
	}
	json_decref(root);
	return 0;
}

/* ---- text ---- */

/* Reads "#0-0 (fa93daea854b060b) MISMATCH", and what the next line says about it. */
static void look_at_group(struct ras_report *r, const char *line, size_t bytes, const char *next,
			  size_t next_bytes)
{
	static const struct {
		const char *word;
		enum ras_kind kind;
	} words[] = {{"MISMATCH", RAS_MISMATCH},
		     {"INCOMPLETE", RAS_MISSING},
		     {"ERROR", RAS_ERROR},
		     {"ABORT", RAS_ABORTED}};
	const char *hash = memchr(line, '(', bytes), *end = memchr(line, ')', bytes);
	char text[256];

	while (next_bytes && *next == ' ') {
		next++;
		next_bytes--;
	}
	for (size_t i = 0; hash && end > hash && i < sizeof(words) / sizeof(words[0]); i++) {
		if (!memmem(line, bytes, words[i].word, strlen(words[i].word)))
			continue;
		snprintf(text, sizeof(text), "%.*s of %.*s", next_bytes < 64 ? (int)next_bytes : 64,
			 next, end - hash - 1 < HASH_BYTES ? (int)(end - hash - 1) : HASH_BYTES,
			 hash + 1);
		put_finding(r, words[i].kind, text);
		return;
	}
}

static void note_process(struct ras_report *r, const char *line, size_t bytes, const uint32_t *pids,
			 uint32_t pid_count)
{
	static const char word[] = "process ";
	const char *at = memmem(line, bytes, word, sizeof(word) - 1);
	double pid = 0;

	for (at = at ? at + sizeof(word) - 1 : line + bytes;
	     at < line + bytes && *at >= '0' && *at <= '9'; at++)
		pid = pid * 10 + (*at - '0');
	if (pid > 0)
		note_pid(r, pid, pids, pid_count);
}

static int read_text(const char *text, size_t bytes, const uint32_t *pids, uint32_t pid_count,
		     struct ras_report *out)
{
	const char *end = text + bytes, *at = text;

	if (bytes < 13 || memcmp(text, "NCCL version ", 13))
		return -EBADMSG;
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at)), *next;
		size_t n = (size_t)((stop ? stop : end) - at), next_bytes;

		next = stop ? stop + 1 : end;
		stop = next < end ? memchr(next, '\n', (size_t)(end - next)) : NULL;
		next_bytes = (size_t)((stop ? stop : end) - next);
		note_process(out, at, n, pids, pid_count);
		if (n && *at == '#') {
			out->communicators++;
			look_at_group(out, at, n, next, next_bytes);
		}
		at = next;
	}
	return 0;
}

int ras_answer_read(const char *text, size_t bytes, const uint32_t *pids, uint32_t pid_count,
		    struct ras_report *out)
{
	memset(out, 0, sizeof(*out));
	while (bytes && (*text == ' ' || *text == '\n')) {
		text++;
		bytes--;
	}
	if (bytes && *text == '{')
		return read_json(text, bytes, pids, pid_count, out);
	return read_text(text, bytes, pids, pid_count, out);
}

/* ---- the conversation ---- */

static int say(int sock, const char *line)
{
	size_t bytes = strlen(line);
	ssize_t n = write(sock, line, bytes);

	return n == (ssize_t)bytes ? 0 : n < 0 ? -errno : -EAGAIN;
}

/* Reads a line byte by byte, because another answer follows it. Cuts the line to the room. */
static int hear(int sock, char *out, size_t room)
{
	size_t at = 0;

	for (size_t n = 0; n < LIMIT_RAS_LINE_BYTES; n++) {
		char c;
		ssize_t got = read(sock, &c, 1);

		if (got < 0)
			return -errno;
		if (!got || c == '\n') {
			out[at] = '\0';
			return got ? 0 : -EPROTO;
		}
		if (at + 1 < room)
			out[at++] = c;
	}
	return -EPROTO;
}

static int hear_all(int sock, char *out, size_t room, size_t *bytes)
{
	ssize_t n = 1;

	for (*bytes = 0; n > 0 && *bytes<room; *bytes += n> 0 ? (size_t)n : 0)
		n = read(sock, out + *bytes, room - *bytes);
	return n < 0 ? -errno : *bytes == room ? -EFBIG : 0;
}

static int talk(int sock, char *out, size_t room, size_t *bytes)
{
	static const char greeting[] = "SERVER PROTOCOL ";
	char line[64];
	int err = say(sock, "CLIENT PROTOCOL 2\n");

	err = err ? err : hear(sock, line, sizeof(line));
	if (!err && strncmp(line, greeting, sizeof(greeting) - 1))
		err = -EPROTO;
	err = err ? err : say(sock, "SET FORMAT json\n");
	/* an answer other than OK: the status will be text */
	err = err ? err : hear(sock, line, sizeof(line));
	err = err ? err : say(sock, "STATUS\n");
	return err ? err : hear_all(sock, out, room, bytes);
}

int ras_answer_get(int sock, const uint32_t *pids, uint32_t pid_count, struct ras_report *out)
{
	char *text = malloc(LIMIT_RAS_BYTES);
	size_t bytes = 0;
	int err = text ? talk(sock, text, LIMIT_RAS_BYTES, &bytes) : -ENOMEM;

	err = err ? err : ras_answer_read(text, bytes, pids, pid_count, out);
	free(text);
	return err;
}
