/* SPDX-License-Identifier: Apache-2.0
 * bench_ingest - windows per second into the aggregator over loopback, each acknowledged after its
 * commit, beside plain one-by-one SQLite inserts of the same bytes (WAL, synchronous=FULL) on the
 * same disk in the same run. Client and server share the machine. */
#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/tcp.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aggregator/commit.h"
#include "aggregator/fleet/fleet.h"
#include "aggregator/ingest.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "tests/fleet_synth.h"
#include "tests/wire_synth.h"

#define RUNS	3
#define CLIENTS 32
#define RUN_NS	1500000000ull

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
	struct window w = {
	    .reason = WINDOW_SELF, .id = "0123456789abcde", .begin_ns = 1, .end_ns = 2};
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
	struct commit_config c = {.incident = {5000000000, 30000000000, 7200000000000},
				  .retention.rest.window_age_ns = UINT64_MAX,
				  .retention.rest.incident_age_ns = UINT64_MAX};
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
	CHECK(!fs_open_fleet(&fleet, 15000000000, 600000000000));
	CHECK(!commit_open(&commit, &c, fleet));
	CHECK(!ingest_open(
	    &ingest,
	    &(struct ingest_config){
		.url = url, .contexts = 96, .verify = verify, .commit = commit, .fleet = fleet}));
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
		uint64_t id[2] = {++next_id, 0};

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

/* ---- beats of many connections ---- */

#define NODES	   10000u
#define JOB_NODES  8u
#define NODE_RANKS 8u
#define BEATS_S	   2000u /* each node's every 5 s */
#define BEATS_RUN  (15u * BEATS_S)

struct peer {
	int fd;
	uint64_t sent_ns; /* 0: nothing is under way */
	size_t got, want; /* of the greeting or the answer */
	uint8_t head[8];
	bool greeted;
};

static struct peer peers[NODES];
static struct fs_job jobs[NODES / JOB_NODES];
static double latency_ms[BEATS_RUN];
static uint32_t answered, missed;

struct server_report {
	double cpu_s;
	struct ingest_stats stats;
};

/* The aggregator's process: until the parent closes its end. */
static void serve(int port, int to_parent, int from_parent)
{
	struct commit_config c = {.incident = {5000000000, 30000000000, 7200000000000},
				  .retention.rest.window_age_ns = UINT64_MAX,
				  .retention.rest.incident_age_ns = UINT64_MAX};
	struct pollfd p = {from_parent, POLLIN, 0};
	struct server_report report = {0};
	struct commit *commit;
	struct ingest *ingest;
	struct fleet *fleet;
	struct rusage used;
	char url[64];

	c.dir = dir;
	snprintf(url, sizeof(url), "tcp://127.0.0.1:%d", port);
	CHECK(!fs_open_fleet(&fleet, 15000000000, 600000000000));
	CHECK(!commit_open(&commit, &c, fleet));
	CHECK(!ingest_open(
	    &ingest,
	    &(struct ingest_config){
		.url = url, .contexts = 96, .verify = true, .commit = commit, .fleet = fleet}));
	CHECK(write(to_parent, "", 1) == 1);
	while (!poll(&p, 1, 1000))
		fleet_tick(fleet, clock_monotonic_ns(), clock_realtime_ns());
	getrusage(RUSAGE_SELF, &used);
	report.cpu_s = (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
		       (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
	ingest_stats(ingest, &report.stats);
	CHECK(write(to_parent, &report, sizeof(report)) == sizeof(report));
	_exit(0);
}

static int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)));
	CHECK(!getsockname(fd, (struct sockaddr *)&a, &bytes));
	close(fd);
	return ntohs(a.sin_port);
}

static void connect_peer(uint32_t i, int port, int epoll)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(0x7f010000u + i + 1)};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct epoll_event e = {EPOLLIN, {.u32 = i}};
	int on = 1;

	peers[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	peers[i].want = 8;
	CHECK(peers[i].fd >= 0 && !bind(peers[i].fd, (struct sockaddr *)&from, sizeof(from)));
	CHECK(!connect(peers[i].fd, (struct sockaddr *)&to, sizeof(to)));
	setsockopt(peers[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	CHECK(write(peers[i].fd, "\0SP\0\0\x30\0", 8) == 8);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, peers[i].fd, &e));
}

static void send_beat(uint32_t i, double now_s)
{
	static struct beat_rank ranks[NODE_RANKS];
	static struct buf b;
	uint8_t frame[12] = {[8] = 0x80};
	struct beat beat;

	if (peers[i].sent_ns || !peers[i].greeted) {
		missed++;
		return;
	}
	if (!b.max_bytes)
		buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	buf_clear(&b);
	buf_append(&b, frame, sizeof(frame));
	CHECK(fs_beat(&jobs[i / JOB_NODES], i % JOB_NODES, now_s, ranks, &beat));
	CHECK(!wire_beat_encode(&beat, &b));
	for (int k = 0; k < 4; k++)
		b.data[7 - k] = (uint8_t)((b.bytes - 8) >> (8 * k));
	peers[i].sent_ns = clock_monotonic_ns();
	if (write(peers[i].fd, b.data, b.bytes) != (ssize_t)b.bytes)
		missed++;
}

/* False: hung up. */
static bool read_peer(struct peer *p)
{
	uint8_t rest[65536];
	bool head = p->got < 8;
	ssize_t n = read(p->fd, head ? p->head + p->got : rest,
			 head				   ? 8 - p->got
			 : p->want - p->got < sizeof(rest) ? p->want - p->got
							   : sizeof(rest));

	if (n <= 0)
		return false;
	p->got += (size_t)n;
	if (p->got == 8 && p->greeted)
		p->want = 8 + ((size_t)p->head[5] << 16 | (size_t)p->head[6] << 8 | p->head[7]);
	if (p->got < p->want)
		return true;
	if (p->greeted && answered < BEATS_RUN)
		latency_ms[answered++] = (double)(clock_monotonic_ns() - p->sent_ns) * 1e-6;
	p->greeted = true;
	p->sent_ns = 0;
	p->got = 0;
	p->want = 8;
	return true;
}

static uint32_t read_all(int epoll, int timeout_ms)
{
	struct epoll_event e[256];
	int n = epoll_wait(epoll, e, 256, timeout_ms);
	uint32_t gone = 0;

	for (int i = 0; i < n; i++)
		if (!read_peer(&peers[e[i].data.u32])) {
			epoll_ctl(epoll, EPOLL_CTL_DEL, peers[e[i].data.u32].fd, NULL);
			gone++;
		}
	return gone;
}

static void beats(void)
{
	struct rlimit files;
	struct server_report report;
	int to[2], from[2], port = free_port(), epoll = epoll_create1(EPOLL_CLOEXEC);
	uint64_t begun_ns;
	uint32_t gone = 0;
	double took_s;
	char ready;
	pid_t pid;

	fresh_dir();
	CHECK(!getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max = files.rlim_max < 20000 ? files.rlim_max : 20000;
	CHECK(!setrlimit(RLIMIT_NOFILE, &files) && !pipe(to) && !pipe(from) && epoll >= 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(to[1]);
		serve(port, from[1], to[0]);
	}
	close(from[1]);
	CHECK(read(from[0], &ready, 1) == 1);
	for (uint32_t i = 0; i < ARRAY_LEN(jobs); i++) {
		char name[32];

		snprintf(name, sizeof(name), "job-%u", i);
		fs_init(&jobs[i], name, JOB_NODES * NODE_RANKS, NODE_RANKS, i + 1);
		jobs[i].first_node = i * JOB_NODES;
	}
	for (uint32_t i = 0; i < NODES; i++) {
		connect_peer(i, port, epoll);
		gone += read_all(epoll, 0);
	}
	begun_ns = clock_monotonic_ns();
	for (uint32_t k = 0; k < BEATS_RUN; k++) {
		uint64_t due_ns = begun_ns + k * (1000000000ull / BEATS_S);

		do
			gone += read_all(epoll, clock_monotonic_ns() < due_ns ? 1 : 0);
		while (clock_monotonic_ns() < due_ns);
		send_beat(k % NODES, (double)(clock_monotonic_ns() - begun_ns) * 1e-9 + 100);
	}
	for (int i = 0; i < 50 && answered + missed < BEATS_RUN; i++)
		gone += read_all(epoll, 100);
	took_s = (double)(clock_monotonic_ns() - begun_ns) * 1e-9;
	close(to[1]);
	CHECK(read(from[0], &report, sizeof(report)) == sizeof(report));
	waitpid(pid, NULL, 0);
	qsort(latency_ms, answered, sizeof(*latency_ms), by_value);
	printf(
	    "%u connections, %u beats/s of 8 ranks asked for: %.0f/s answered (%u late, %u of %llu "
	    "connections hung up on), p50 %.2f ms, p99 %.2f ms, %.0f%% of a core in the "
	    "aggregator\n",
	    NODES, BEATS_S, answered / took_s, missed, gone,
	    (unsigned long long)report.stats.peers.accepted, latency_ms[answered / 2],
	    latency_ms[answered - answered / 100 - 1], report.cpu_s / took_s * 100);
	for (uint32_t i = 0; i < NODES; i++)
		close(peers[i].fd);
	drop_dir();
}

int main(void)
{
	static const size_t sizes[] = {8 << 10, 64 << 10};

	log_init("bench_ingest", LOG_ERROR);
	beats();
	buf_init(&message, LIMIT_WIRE_MESSAGE_BYTES);
	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		double full[RUNS], head[RUNS], plain[RUNS], batch = 0;

		make_message(sizes[k]);
		for (int i = 0; i < RUNS;
		     i++) { /* in turn, so that a noisy minute hits all alike */
			plain[i] = sqlite_rate();
			full[i] = aggregator_rate(true, &batch);
			head[i] = aggregator_rate(false, &batch);
		}
		qsort(full, RUNS, sizeof(*full), by_value);
		qsort(head, RUNS, sizeof(*head), by_value);
		qsort(plain, RUNS, sizeof(*plain), by_value);
		printf(
		    "%2zu KiB windows: %.0f windows/s (%.0f-%.0f) with every record checked, %.0f "
		    "(%.0f-%.0f) without; SQLite one by one %.0f (%.0f-%.0f): x%.1f and x%.1f; "
		    "%.1f "
		    "windows per commit\n",
		    sizes[k] >> 10, full[RUNS / 2], full[0], full[RUNS - 1], head[RUNS / 2],
		    head[0], head[RUNS - 1], plain[RUNS / 2], plain[0], plain[RUNS - 1],
		    full[RUNS / 2] / plain[RUNS / 2], head[RUNS / 2] / plain[RUNS / 2], batch);
		fflush(stdout);
	}
	buf_fini(&message);
	return 0;
}
