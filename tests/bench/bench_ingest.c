/* SPDX-License-Identifier: Apache-2.0
 * bench_ingest - windows per second into the aggregator over loopback, each acknowledged after its
 * commit, beside plain one-by-one SQLite inserts of the same bytes (WAL, synchronous=FULL) on the
 * same disk in the same run. Client and server share the machine. */
#include <ftw.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/commit.h"
#include "aggregator/fleet.h"
#include "aggregator/ingest.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "tests/wire_synth.h"

#define RUNS	 3
#define CLIENTS	 32
#define RUN_NS	 1500000000ull

static char dir[256];
static struct buf message;
static size_t id_at;
static uint64_t deadline_ns;
static uint64_t sent, next_id;

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void fresh_dir(void)
{
	snprintf(dir, sizeof(dir), "%s/bench_ingest_XXXXXX", getenv("BENCH_DIR") ?: "/var/tmp");
	CHECK(mkdtemp(dir));
}

static void drop_dir(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A window of about `bytes`; its id is patched in place later. */
static void make_message(size_t bytes)
{
	struct window w = { .reason = WINDOW_SELF, .id = "0123456789abcde", .begin_ns = 1, .end_ns = 2 };
	char *names[SYNTH_NAMES + 2];
	uint32_t n = (uint32_t)(bytes / 6);
	struct synth s;
	uint8_t *at;

	for (int i = 0; i < SYNTH_NAMES + 2; i++)
		names[i] = i ? "kernel" : "";
	synth_init(&s, n, 1);
	synth_transformer(&s, 0.012);
	w.host = s.host;
	w.device = s.device;
	w.names = names;
	w.name_count = SYNTH_NAMES + 2;
	strcpy(w.rank.job, "bench");
	for (;; n -= n / 50 + 1) {
		w.host_count = w.device_count = n;
		buf_clear(&message);
		CHECK(!wire_window_encode(&w, &message));
		if (message.bytes <= bytes)
			break;
	}
	at = memmem(message.data, message.bytes, w.id, 16);
	CHECK(at);
	id_at = (size_t)(at - message.data);
	synth_fini(&s);
}

static void *client(void *url)
{
	uint8_t *copy = malloc(message.bytes);
	struct wire_reply *r = malloc(sizeof(*r));
	nng_socket s;

	CHECK(copy && r && !nng_req0_open(&s) && !nng_dial(s, url, NULL, 0));
	memcpy(copy, message.data, message.bytes);
	while (clock_monotonic_ns() < deadline_ns) {
		uint64_t id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
		void *answer;
		size_t n;

		memcpy(copy + id_at, &id, sizeof(id));
		CHECK(!nng_send(s, copy, message.bytes, 0));
		CHECK(!nng_recv(s, &answer, &n, NNG_FLAG_ALLOC));
		CHECK(!wire_reply_decode(answer, n, r) && r->status == WIRE_OK);
		nng_free(answer, n);
		__atomic_add_fetch(&sent, 1, __ATOMIC_RELAXED);
	}
	nng_close(s);
	free(copy);
	free(r);
	return NULL;
}

static double aggregator_rate(bool verify, double *per_commit)
{
	char url[] = "ipc:///tmp/bench_ingest_XXXXXX";
	struct commit_config c = { .incident = { 5000000000, 30000000000, 7200000000000 },
				   .window_age_ns = UINT64_MAX, .incident_age_ns = UINT64_MAX };
	pthread_t threads[CLIENTS];
	struct commit_stats stats;
	struct commit *commit;
	struct ingest *ingest;
	struct fleet *fleet;
	uint64_t begun;
	double rate;

	fresh_dir();
	c.dir = dir;
	close(mkstemp(url + 6));
	unlink(url + 6);
	CHECK(!fleet_open(&fleet, 15000000000, 600000000000));
	CHECK(!commit_open(&commit, &c, fleet));
	CHECK(!ingest_open(&ingest, url, 96, verify, commit, fleet, NULL, NULL));
	sent = 0;
	begun = clock_monotonic_ns();
	deadline_ns = begun + RUN_NS;
	for (int i = 0; i < CLIENTS; i++)
		CHECK(!pthread_create(&threads[i], NULL, client, url));
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	rate = (double)sent / (double)(clock_monotonic_ns() - begun) * 1e9;
	commit_stats(commit, &stats);
	*per_commit = (double)stats.committed / (double)(stats.transactions + !stats.transactions);
	ingest_stop(ingest);
	commit_stop(commit);
	ingest_close(ingest);
	commit_close(commit);
	fleet_close(fleet);
	drop_dir();
	return rate;
}

static double sqlite_rate(void)
{
	uint64_t begun, n = 0;
	char path[300];
	sqlite3_stmt *st;
	sqlite3 *db;
	double rate;

	fresh_dir();
	snprintf(path, sizeof(path), "%s/plain.db", dir);
	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(!sqlite3_exec(db,
			    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
			    "CREATE TABLE w(id BLOB PRIMARY KEY, body BLOB)",
			    NULL, NULL, NULL));
	CHECK(sqlite3_prepare_v2(db, "INSERT INTO w VALUES(?1,?2)", -1, &st, NULL) == SQLITE_OK);
	begun = clock_monotonic_ns();
	while (clock_monotonic_ns() - begun < RUN_NS) {
		uint64_t id[2] = { ++next_id, 0 };

		sqlite3_bind_blob(st, 1, id, 16, SQLITE_STATIC);
		sqlite3_bind_blob64(st, 2, message.data, message.bytes, SQLITE_STATIC);
		CHECK(sqlite3_step(st) == SQLITE_DONE);
		sqlite3_reset(st);
		n++;
	}
	rate = (double)n / (double)(clock_monotonic_ns() - begun) * 1e9;
	sqlite3_finalize(st);
	sqlite3_close(db);
	drop_dir();
	return rate;
}

int main(void)
{
	static const size_t sizes[] = { 8 << 10, 64 << 10 };

	log_init("bench_ingest", LOG_ERROR);
	buf_init(&message, LIMIT_WIRE_MESSAGE_BYTES);
	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		double full[RUNS], head[RUNS], plain[RUNS], batch = 0;

		make_message(sizes[k]);
		for (int i = 0; i < RUNS; i++) { /* in turn, so that a noisy minute hits all alike */
			plain[i] = sqlite_rate();
			full[i] = aggregator_rate(true, &batch);
			head[i] = aggregator_rate(false, &batch);
		}
		qsort(full, RUNS, sizeof(*full), by_value);
		qsort(head, RUNS, sizeof(*head), by_value);
		qsort(plain, RUNS, sizeof(*plain), by_value);
		printf("%2zu KiB windows: %.0f windows/s (%.0f-%.0f) with every record checked, %.0f "
		       "(%.0f-%.0f) without; SQLite one by one %.0f (%.0f-%.0f): x%.1f and x%.1f; %.1f "
		       "windows per commit\n",
		       sizes[k] >> 10, full[RUNS / 2], full[0], full[RUNS - 1], head[RUNS / 2], head[0],
		       head[RUNS - 1], plain[RUNS / 2], plain[0], plain[RUNS - 1],
		       full[RUNS / 2] / plain[RUNS / 2], head[RUNS / 2] / plain[RUNS / 2], batch);
		fflush(stdout);
	}
	buf_fini(&message);
	return 0;
}
