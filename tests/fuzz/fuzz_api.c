/* SPDX-License-Identifier: Apache-2.0
 * fuzz_api - the aggregator's HTTP from the header Host and the path on: a few incidents and a small job
 * are there to be asked for, by one of several users (the input's length says which). Input: the path,
 * the value of Host, then NAME=VALUE, one a line. Whatever is
 * asked for, the answer is what the format of its path allows, and costs what the store's size says and not
 * what the request does. */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/api/api_route.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/http/http_hosts.h"
#include "base/daemon/log.h"
#include "tests/fleet_synth.h"
#include "tests/fuzz/fuzz_budget.h"

#define INCIDENTS 40u
#define RANKS	  16u
/* All that is there, as one answer; pages of the store; slices of the fleet and copies of the answer. */
#define ANSWER_BYTES	(64u << 10)
#define MOVED_BYTES	(1u << 20)
#define ALLOCATED_BYTES (2u << 20)

static struct api_sources sources;
static struct http_hosts hosts;
static struct api_counts counts;
static char dir[] = "/tmp/fuzz_api_XXXXXX";

static void clean(void)
{
	char command[64];

	store_close(sources.store);
	api_symbols_close(sources.symbols);
	fleet_close(sources.fleet);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK(!system(command));
}

static void put_incidents(struct store *s)
{
	CHECK(!store_begin(s));
	for (uint32_t k = 0; k < INCIDENTS; k++) {
		struct incident_row row = {.open = k % 4 == 0,
					   .begin_unix_ns = 1000 + k / 2,
					   .arrival_unix_ns = k,
					   .updated_unix_ns = 4096 * k};
		char body[256];

		snprintf(row.id, sizeof(row.id), "%08x", k);
		snprintf(row.job, sizeof(row.job), k % 3 == 2 ? "job2@7" : "job%u", k % 3);
		snprintf(body, sizeof(body), "{\"id\":\"%s\",\"job\":\"%s\"}", row.id, row.job);
		CHECK(!store_put_incident(s, &row, body));
	}
	CHECK(!store_commit(s));
}

static void put_job(struct fleet *f)
{
	static struct beat_rank ranks[8];
	struct fs_job j;
	struct beat b;

	fs_init(&j, "job0", RANKS, 8, 1);
	for (uint32_t n = 0; n < RANKS / 8; n++)
		if (fs_beat(&j, n, 5, ranks, &b))
			fleet_beat(f, &b, (struct fleet_via){0}, clock_monotonic_ns());
	fs_fini(&j);
}

static void set_up(void)
{
	struct store *writer;

	log_init("fuzz_api", LOG_ERROR);
	CHECK(mkdtemp(dir));
	CHECK(!store_open(&writer, dir));
	put_incidents(writer);
	store_close(writer);
	CHECK(!store_open_reader(&sources.store, dir));
	CHECK(!fs_open_fleet(&sources.fleet, 15000000000, 600000000000));
	put_job(sources.fleet);
	CHECK(!api_symbols_open(&sources.symbols, NULL));
	CHECK(!http_hosts_init(&hosts, "127.0.0.1:9472", "sysom.example"));
	sources.http = &counts;
	atexit(clean);
}

/* Takes a line off the text. */
static char *line(char **at)
{
	char *begin = *at, *end = begin + strcspn(begin, "\n");

	*at = end + (*end != '\0');
	*end = '\0';
	return begin;
}

/* Who is not everybody sees nothing of another user's job. */
static void check_hidden(const struct http_answer *a)
{
	static const char *const others[] = {"\"job0\"", "\"job1\"", "\"job2@7\""};
	const struct http_user *who = sources.user;

	for (size_t i = 0; i < 3 && !who->all; i++)
		CHECK((i == 2 && who->has_uid && who->uid == 7) ||
		      !memmem(a->body.data, a->body.bytes, others[i], strlen(others[i])));
}

static void check_answer(const struct http_query *q, struct http_answer *a)
{
	bool feed = strstr(q->path, "/feed");
	json_t *j;

	CHECK(!a->body.failed && a->body.bytes <= ANSWER_BYTES);
	CHECK(a->status == 200 || a->status == 400 || a->status == 404 || a->status == 409 ||
	      (a->status == 403 && !sources.user->all));
	if (a->body.bytes)
		check_hidden(a);
	CHECK(!q->cut || a->status == 400);
	if (feed || !a->body.bytes)
		return;
	if (!strncmp(a->type, "text/html", 9)) {
		const char *html = (const char *)a->body.data;

		CHECK(a->status == 200 && !memmem(html, a->body.bytes, "<script", 7));
		return;
	}
	j = json_loadb((const char *)a->body.data, a->body.bytes, 0, NULL);
	CHECK(json_is_object(j));
	CHECK(!json_object_get(j, "error") == (a->status == 200));
	json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct http_user users[] = {{.all = true},
						 {.has_uid = true, .uid = 7},
						 {.has_uid = true, .uid = 8},
						 {.all = false}};
	static bool ready;
	char text[HTTP_QUERY_BYTES * 2], *at = text, *host;
	struct http_query q;
	struct http_answer a;

	if (!ready)
		set_up();
	ready = true;
	if (bytes >= sizeof(text))
		return 0;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	http_query_init(&q, line(&at));
	host = line(&at);
	if (http_hosts_allows(&hosts, host)) /* a name must be one of ours to the last letter */
		CHECK(strspn(host, "0123456789abcdefABCDEF.:[]%") == strlen(host) ||
		      strcasestr(host, "localhost") || strcasestr(host, "sysom.example"));
	while (*at) {
		char *name = line(&at), *value = strchr(name, '=');

		if (value)
			*value++ = '\0';
		http_query_add(&q, name, value);
	}
	/* these are of the whole process */
	if (!strcmp(q.path, "/metrics") || !strcmp(q.path, "/api/v1/status"))
		return 0;
	sources.user = &users[bytes % 4];
	http_answer_init(&a, API_ANSWER_BYTES);
	fuzz_budget_begin();
	api_route(&sources, &q, &a);
	fuzz_budget_end(bytes, MOVED_BYTES, ALLOCATED_BYTES, 256);
	check_answer(&q, &a);
	buf_fini(&a.body);
	return 0;
}
