/* SPDX-License-Identifier: Apache-2.0
 * bench_store - a store of 100,000 incidents (usage: bench_store [INCIDENTS]): what each list takes, and
 * what /healthz takes while eight clients ask for the longest of them over HTTP. Budget: 50 ms a list,
 * 10 ms for /healthz. CPU time of lists, since the machine may be shared; wall time of /healthz. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "aggregator/api/api.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/daemon/log.h"

#define JOBS	1000u
#define BODY	4000u /* bytes of an incident with its diagnosis */
#define WINDOWS 2u    /* of an incident */
#define CLIENTS 8u
#define PROBES	300u
#define LISTEN	"127.0.0.1:19479"
#define PORT	19479

static char dir[] = "/tmp/bench_store_XXXXXX";
static atomic_bool stop;
static atomic_uint lists;

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put_one(struct store *s, uint32_t k, char *body)
{
	struct incident_row row = {.open = k % 100 == 0,
				   .begin_unix_ns = 1 + k,
				   .end_unix_ns = 2 + k,
				   .arrival_unix_ns = 1 + k,
				   .updated_unix_ns = 2048ull * (k + 1)};
	struct digest d = {.reason = WINDOW_SELF};
	int n;

	snprintf(row.id, sizeof(row.id), "%08x", k);
	snprintf(row.job, sizeof(row.job), "job%u", k % JOBS);
	n = snprintf(body, BODY, "{\"id\":\"%s\",\"job\":\"%s\",\"text\":\"", row.id, row.job);
	memset(body + n, 'x', BODY - (size_t)n - 3);
	memcpy(body + BODY - 3, "\"}", 3);
	CHECK(!store_put_incident(s, &row, body));
	for (uint32_t w = 0; w < WINDOWS; w++) {
		uint32_t id[4] = {k, w};

		memcpy(d.id, id, sizeof(d.id));
		snprintf(d.rank.job, sizeof(d.rank.job), "%s", row.job);
		CHECK(store_put_window(s, &d, 1 + k, "w", 1) == 1);
		CHECK(!store_set_window_incident(s, d.id, row.id));
	}
}

static void fill(struct store *s, uint32_t count)
{
	char *body = malloc(BODY);

	CHECK(body);
	for (uint32_t k = 0; k < count; k++) {
		if (k % 1000 == 0)
			CHECK(!store_begin(s));
		put_one(s, k, body);
		if (k % 1000 == 999 || k + 1 == count)
			CHECK(!store_commit(s));
	}
	free(body);
}

/* The longest of 20, in ms. */
static double longest(struct store *s, const struct store_list *q, uint64_t since, uint32_t *rows)
{
	double most = 0;

	for (int k = 0; k < 20; k++) {
		uint64_t begun = cpu_ns();
		struct buf b;
		double ms;

		buf_init(&b, 64 << 20);
		CHECK(!(q ? store_list(s, q, &b) : store_feed(s, NULL, since, 1000, &b)));
		ms = (double)(cpu_ns() - begun) / 1e6;
		most = ms > most ? ms : most;
		*rows = (uint32_t)(b.bytes / BODY);
		buf_fini(&b);
	}
	return most;
}

static void measure(struct store *s, uint32_t count)
{
	static const struct {
		const char *what;
		struct store_list q;
	} all[] = {{"the newest", {.limit = 1000}},
		   {"of one job", {.job = "job7", .limit = 1000}},
		   {"open", {.state = "open", .limit = 1000}},
		   {"closed", {.state = "closed", .limit = 1000}},
		   {"closed of one job", {.job = "job7", .state = "closed", .limit = 1000}},
		   {"from the middle", {.limit = 1000, .after_ns = 50000, .after_id = "00000000"}}};
	struct store_totals t;
	uint64_t begun;
	uint32_t rows;

	for (size_t k = 0; k < ARRAY_LEN(all); k++) {
		double ms = longest(s, &all[k].q, 0, &rows);

		printf("list %-18s %6.2f ms for %4u incidents: %s\n", all[k].what, ms, rows,
		       ms < 50 ? "within 50 ms" : "TOO SLOW");
	}
	printf("feed                    %6.2f ms\n",
	       longest(s, NULL, 2048ull * (count / 2), &rows));
	begun = cpu_ns();
	CHECK(!store_totals(s, &t) && t.incidents == count);
	printf("totals                  %6.3f ms: %llu windows, %llu incidents, %llu MB\n",
	       (double)(cpu_ns() - begun) / 1e6, (unsigned long long)t.windows,
	       (unsigned long long)t.incidents, (unsigned long long)t.bytes / 1000000);
}

/* One request on a connection of its own; the bytes that came back. */
static size_t ask(const char *path)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[65536];
	size_t bytes = 0;
	ssize_t n;

	CHECK(fd >= 0 && !connect(fd, (struct sockaddr *)&to, sizeof(to)));
	n = snprintf(text, sizeof(text),
		     "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
	CHECK(send(fd, text, (size_t)n, 0) == n);
	while ((n = recv(fd, text, sizeof(text), 0)) > 0)
		bytes += (size_t)n;
	close(fd);
	return bytes;
}

static void *client(void *arg)
{
	(void)arg;
	while (!stop) {
		CHECK(ask("/api/v1/incidents?limit=1000") > 1000);
		lists++;
	}
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void healthz(const char *beside)
{
	double ms[PROBES];

	for (uint32_t k = 0; k < PROBES; k++) {
		uint64_t at = clock_monotonic_ns();

		CHECK(ask("/healthz") > 10);
		ms[k] = (double)(clock_monotonic_ns() - at) / 1e6;
		usleep(5000);
	}
	qsort(ms, PROBES, sizeof(*ms), by_value);
	printf("/healthz beside %s: median %.2f ms, 99%% %.2f ms, most %.2f ms\n", beside,
	       ms[PROBES / 2], ms[PROBES * 99 / 100], ms[PROBES - 1]);
}

static void probe(const char *store_dir)
{
	const struct http_settings http = {.listen = LISTEN};
	const struct api_config config = {.http = &http, .store_dir = store_dir};
	const struct api_sources none = {0};
	pthread_t clients[CLIENTS];
	struct api *api;
	uint64_t begun;

	CHECK(!api_open(&api, &config, &none));
	healthz("nobody");
	begun = clock_monotonic_ns();
	for (uint32_t k = 0; k < CLIENTS; k++)
		CHECK(!pthread_create(&clients[k], NULL, client, NULL));
	healthz("8 clients that list");
	stop = true;
	for (uint32_t k = 0; k < CLIENTS; k++)
		pthread_join(clients[k], NULL);
	printf("lists over HTTP meanwhile: %.0f a second\n",
	       lists / ((double)(clock_monotonic_ns() - begun) / 1e9));
	api_close(api);
}

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 100000;
	char command[64];
	struct store *s;

	log_init("bench_store", LOG_ERROR);
	CHECK(mkdtemp(dir));
	CHECK(!store_open(&s, dir));
	fill(s, count);
	measure(s, count);
	probe(dir);
	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) != 0;
}
