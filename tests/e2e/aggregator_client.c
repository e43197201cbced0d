/* SPDX-License-Identifier: Apache-2.0
 * aggregator_client - speaks to an aggregator as sysomd does, and as nobody should; for the tests.
 *   flood URL COUNT RECORDS THREADS SEED FILE   windows, every third one sent twice; ids that were
 *                                               acknowledged go to FILE. Goes on through restarts.
 *   fault URL JOB RANKS CULPRIT                 the windows of one fault, in mixed order
 *   wide URL JOB RANKS CULPRIT RECORDS          the same, each window with so many launches and kernels
 *   beat URL JOB RANKS                          one beat of each node
 *   impostor URL JOB                            windows of a node by another connection than its beats
 *   job URL JOB RANKS CULPRIT SECONDS           a job's beats in real time; prints the commands
 *   garbage URL COUNT SEED                      random, cut and bent messages
 *   oversize URL                                a message above the limit
 *   write FILE dense|bare|madeup|NODE COUNT     messages for sp_peer.py, each behind its length: windows
 *                                               of equal rows, as a sidecar sends them or more and
 *                                               without their padding; one of each of COUNT jobs; the
 *                                               same of the node with that name
 * Prints one line of key=value; exit 0 when the replies were what the protocol says.
 * A JOB that ends in @UID is of that user. */
#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/job_key.h"
#include "base/limits.h"
#include "tests/fleet_synth.h"
#include "tests/wire_synth.h"
#include "wire/sysom.pb-c.h"

#define PATIENCE_S 60
#define NODE_RANKS 4
#define NODES_MAX  16

static nng_socket dial(const char *url)
{
	nng_socket s;

	CHECK(!nng_req0_open(&s));
	nng_socket_set_ms(s, NNG_OPT_REQ_RESENDTIME, 300);
	nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 2000);
	nng_socket_set_ms(s, NNG_OPT_SENDTIMEO, 2000);
	nng_socket_set_ms(s, NNG_OPT_RECONNMINT, 20);
	nng_socket_set_ms(s, NNG_OPT_RECONNMAXT, 200);
	CHECK(!nng_dial(s, url, NULL, NNG_FLAG_NONBLOCK));
	return s;
}

/* 0 with the reply, -ETIMEDOUT, -EPROTO. */
static int ask(nng_socket s, const void *data, size_t bytes, struct wire_reply *r)
{
	void *answer = NULL;
	size_t n = 0;
	int err;

	if (nng_send(s, (void *)data, bytes, 0) || nng_recv(s, &answer, &n, NNG_FLAG_ALLOC))
		return -ETIMEDOUT;
	err = wire_reply_decode(answer, n, r);
	nng_free(answer, n);
	return err;
}

static void make_id(uint8_t id[16], uint64_t seed, uint64_t i)
{
	uint64_t state = seed * 1000003 + i, a = synth_random(&state), b = synth_random(&state);

	memcpy(id, &a, 8);
	memcpy(id + 8, &b, 8);
}

static const char *node_name; /* of all ranks; NULL: four ranks share one of "node-0" and so on */

static void make_rank(struct wire_rank *r, const char *job, int rank, int ranks)
{
	uint32_t uid;

	memset(r, 0, sizeof(*r));
	snprintf(r->job, sizeof(r->job), "%s", job);
	if (job_key_owner(job, &uid))
		r->owner = uid + 1;
	if (node_name)
		snprintf(r->node, sizeof(r->node), "%s", node_name);
	else
		snprintf(r->node, sizeof(r->node), "node-%d", rank / NODE_RANKS);
	snprintf(r->program, sizeof(r->program), "train.py");
	r->rank = rank;
	r->local_rank = rank % NODE_RANKS;
	r->world_size = ranks;
	r->pid = 1000 + (uint32_t)rank;
}

/* ---- flood ---- */

struct flood {
	const char *url;
	uint32_t count, threads, records;
	uint64_t seed, longer_ns;
	FILE *acked;
	pthread_mutex_t lock;
	atomic_uint next, ok, duplicate, retry, reject, lost;
	struct synth synth;
};

static void encode_one(struct flood *f, uint32_t i, struct buf *out, uint8_t id[16])
{
	char *names[SYNTH_NAMES + 2];
	char text[SYNTH_NAMES + 2][16];
	uint32_t offset = i * 97 % (f->synth.host_count - f->records + 1);
	struct window w = {.reason = WINDOW_SELF,
			   .begin_ns = 1000000000ull * i,
			   .end_ns = 1000000000ull * i + 500000000 + f->longer_ns,
			   .names = names,
			   .name_count = SYNTH_NAMES + 2,
			   .raw_bytes = f->records * 128ull};
	struct window_step steps[4] = {0};

	for (int k = 0; k < SYNTH_NAMES + 2; k++) {
		if (k)
			snprintf(text[k], sizeof(text[k]), "kernel_%d", k);
		else
			text[k][0] = '\0';
		names[k] = text[k];
	}
	for (int k = 0; k < 4; k++) {
		steps[k].step.index = i * 4ull + (unsigned)k;
		steps[k].step.latency_ns = steps[k].step.self_ns = 150000000;
		steps[k].expected_ns = steps[k].expected_self_ns = 100000000;
		steps[k].flags = WINDOW_STEP_OUT | WINDOW_STEP_FLAGGED;
	}
	make_id(w.id, f->seed, i);
	memcpy(w.anomaly_id, w.id, 16);
	memcpy(id, w.id, 16);
	make_rank(&w.rank, "flood", (int)(i % 8), 8);
	w.steps = steps;
	w.step_count = 4;
	w.host = f->synth.host + offset;
	w.device = f->synth.device + offset;
	w.host_count = w.device_count = f->records;
	buf_clear(out);
	CHECK(!wire_window_encode(&w, out));
}

static void note_acked(struct flood *f, const uint8_t id[16])
{
	pthread_mutex_lock(&f->lock);
	for (int k = 0; k < 16; k++)
		fprintf(f->acked, "%02x", id[k]);
	fputc('\n', f->acked);
	fflush(f->acked);
	pthread_mutex_unlock(&f->lock);
}

/* Until it is acknowledged or refused for good. */
static void send_one(struct flood *f, nng_socket s, const struct buf *b, const uint8_t id[16])
{
	uint64_t until = clock_monotonic_ns() + PATIENCE_S * 1000000000ull;
	struct wire_reply r;

	while (clock_monotonic_ns() < until) {
		if (ask(s, b->data, b->bytes, &r))
			continue;
		if (r.status == WIRE_RETRY) {
			f->retry++;
			usleep(50000);
			continue;
		}
		if (r.status == WIRE_REJECT || memcmp(r.id, id, 16)) {
			f->reject++;
			return;
		}
		f->ok += r.status == WIRE_OK;
		f->duplicate += r.status == WIRE_DUPLICATE;
		note_acked(f, id);
		return;
	}
	f->lost++;
}

static void *flood_thread(void *arg)
{
	struct flood *f = arg;
	nng_socket s = dial(f->url);
	struct buf b;
	uint32_t i;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	while ((i = f->next++) < f->count) {
		uint8_t id[16];

		encode_one(f, i, &b, id);
		send_one(f, s, &b, id);
		if (i % 3 == 0)
			send_one(f, s, &b, id);
	}
	buf_fini(&b);
	nng_close(s);
	return NULL;
}

static int flood(char **argv)
{
	static struct flood f;
	pthread_t threads[64];

	f.url = argv[0];
	f.count = (uint32_t)atoi(argv[1]);
	f.records = (uint32_t)atoi(argv[2]);
	f.threads = (uint32_t)atoi(argv[3]);
	f.seed = (uint64_t)atoll(argv[4]);
	f.acked = fopen(argv[5], "w");
	CHECK(f.acked && f.threads && f.threads <= ARRAY_LEN(threads));
	pthread_mutex_init(&f.lock, NULL);
	synth_init(&f.synth, f.records + 2048, f.seed);
	synth_transformer(&f.synth, 0.02);
	for (uint32_t i = 0; i < f.threads; i++)
		CHECK(!pthread_create(&threads[i], NULL, flood_thread, &f));
	for (uint32_t i = 0; i < f.threads; i++)
		pthread_join(threads[i], NULL);
	fclose(f.acked);
	printf("ok=%u duplicate=%u retry=%u reject=%u lost=%u\n", f.ok, f.duplicate, f.retry,
	       f.reject, f.lost);
	return f.reject || f.lost ? 1 : 0;
}

/* ---- one fault ---- */

static void fault_steps(struct window_step *steps, uint32_t n, uint64_t first, bool self)
{
	for (uint32_t k = 0; k < n; k++) {
		struct window_step *s = &steps[k];
		bool out = k >= 3 && k < n - 2;

		memset(s, 0, sizeof(*s));
		s->step.index = first + k;
		s->step.begin_ns = 1000000000ull + (first + k) * 100000000;
		s->step.latency_ns = out ? 150000000 : 100000000;
		s->step.self_ns = out && self ? 130000000 : 80000000;
		s->step.end_ns = s->step.begin_ns + s->step.latency_ns;
		s->expected_ns = 100000000;
		s->expected_self_ns = 80000000;
		s->excess = out ? 0.5 : 0;
		s->self_excess = out && self ? 0.625 : 0;
		s->flags =
		    out ? WINDOW_STEP_OUT | (k > 3 ? WINDOW_STEP_FLAGGED : 0) : WINDOW_STEP_MARGIN;
	}
}

/* Of a rank; part: of its windows of one fault. */
static struct synth fault_records; /* none, but for wide */

static void fault_window(struct buf *b, const char *job, int rank, int ranks, bool self, int part)
{
	static char *names[SYNTH_NAMES + 2] = {"", "gemm_kernel", "ncclDevKernel_AllReduce"};
	struct window_step steps[12];
	struct window w = {.reason = self ? WINDOW_SELF : WINDOW_COMM,
			   .sequence = (uint32_t)part,
			   .names = names,
			   .name_count = 3,
			   .steps = steps,
			   .step_count = 12,
			   .summary_only = !self && !fault_records.host_count,
			   .host = fault_records.host,
			   .host_count = fault_records.host_count,
			   .device = fault_records.device,
			   .device_count = fault_records.device_count};

	make_id(w.id, hash_bytes(HASH_SEED, job, strlen(job)), (uint64_t)(part * 1000 + rank));
	memset(w.anomaly_id, rank + 1, 16);
	make_rank(&w.rank, job, rank, ranks);
	fault_steps(steps, 12, 100 + (uint64_t)part * 12, self);
	w.begin_ns = steps[0].step.begin_ns;
	w.end_ns = steps[11].step.end_ns;
	w.realtime_offset_ns = 1700000000000000000;
	for (uint32_t k = 3; k < ARRAY_LEN(names) && fault_records.host_count; k++) {
		names[k] = names[k - 2];
		w.name_count = k + 1;
	}
	buf_clear(b);
	CHECK(!wire_window_encode(&w, b));
}

static int send_beat(nng_socket s, const struct beat *bt, struct buf *b, struct wire_reply *r)
{
	int err;

	buf_clear(b);
	CHECK(!wire_beat_encode(bt, b));
	err = ask(s, b->data, b->bytes, r);
	return err ? err : (int)r->status;
}

/* Of a node of four ranks; run: of its sysomd. */
static int node_beat(nng_socket s, const char *job, int node, int ranks, uint8_t run, struct buf *b)
{
	struct beat_rank list[NODE_RANKS] = {0};
	struct beat bt = {
	    .boot_id = {run}, .sequence = clock_monotonic_ns(), .now_ns = 5, .ranks = list};
	struct wire_reply r;

	for (int i = node * NODE_RANKS; i < ranks && i < (node + 1) * NODE_RANKS; i++) {
		struct beat_rank *k = &list[bt.rank_count++];

		make_rank(&k->rank, job, i, ranks);
		k->steps = 100;
		k->trace_state = 1;
		k->model_state = 1;
		k->latency_median_ns = 1e8;
	}
	memcpy(bt.node, list[0].rank.node, sizeof(bt.node));
	return send_beat(s, &bt, b, &r);
}

static int fault(char **argv)
{
	int ranks = atoi(argv[2]), culprit = atoi(argv[3]), bad = 0, nodes = 0;
	nng_socket s[NODES_MAX];
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (; nodes < NODES_MAX && nodes * NODE_RANKS < ranks; nodes++) {
		s[nodes] = dial(argv[0]);
		bad += node_beat(s[nodes], argv[1], nodes, ranks, 1, &b) != WIRE_OK;
	}
	for (int part = 0; part < 2; part++) {
		for (int k = 0; k < ranks; k++) {
			int rank =
			    (k * 5 + part) % ranks; /* mixed order; ranks is no multiple of 5 */
			struct wire_reply r;

			if (ranks % 5 == 0)
				rank = k;
			fault_window(&b, argv[1], rank, ranks, rank == culprit, part);
			bad +=
			    ask(s[rank / NODE_RANKS], b.data, b.bytes, &r) || r.status != WIRE_OK;
			bad += ask(s[rank / NODE_RANKS], b.data, b.bytes, &r) ||
			       r.status != WIRE_DUPLICATE;
		}
	}
	buf_fini(&b);
	while (nodes)
		nng_close(s[--nodes]);
	printf("bad=%d\n", bad);
	return bad != 0;
}

static int wide(char **argv)
{
	synth_init(&fault_records, (uint32_t)atoi(argv[4]), 1);
	synth_transformer(&fault_records, 0.02);
	return fault(argv);
}

static int beat(char **argv)
{
	int ranks = atoi(argv[2]), status = WIRE_OK;
	size_t bytes = 0;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (int node = 0; node * NODE_RANKS < ranks && status == WIRE_OK; node++) {
		nng_socket s = dial(argv[0]);

		status = node_beat(s, argv[1], node, ranks, 1, &b);
		bytes += b.bytes;
		nng_close(s);
	}
	printf("status=%d bytes=%zu\n", status, bytes);
	buf_fini(&b);
	return status != WIRE_OK;
}

/* Until the node's own connection ends nothing of it is taken by another one; then that is a restart. */
static int impostor(char **argv)
{
	nng_socket own = dial(argv[0]), other = dial(argv[0]);
	uint64_t until = clock_monotonic_ns() + PATIENCE_S * 1000000000ull;
	struct wire_reply r;
	int bad, tries = 0;
	struct buf b;

	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	bad = node_beat(own, argv[1], 0, NODE_RANKS, 1, &b) != WIRE_OK;
	bad += node_beat(other, argv[1], 0, NODE_RANKS, 2, &b) != WIRE_OK;
	fault_window(&b, argv[1], 1, NODE_RANKS, true, 7);
	bad += ask(other, b.data, b.bytes, &r) || r.status != WIRE_RETRY;
	bad += ask(own, b.data, b.bytes, &r) || r.status != WIRE_OK;
	nng_close(own);
	fault_window(&b, argv[1], 1, NODE_RANKS, true, 8);
	do {
		struct buf bt;

		buf_init(&bt, LIMIT_WIRE_MESSAGE_BYTES);
		bad += node_beat(other, argv[1], 0, NODE_RANKS, 2, &bt) != WIRE_OK;
		buf_fini(&bt);
		bad += ask(other, b.data, b.bytes, &r) != 0;
		tries++;
	} while (!bad && r.status == WIRE_RETRY && clock_monotonic_ns() < until);
	bad += r.status != WIRE_OK;
	buf_fini(&b);
	nng_close(other);
	printf("bad=%d tries=%d\n", bad, tries);
	return bad != 0;
}

/* A job of two nodes in real time, of which one rank is slower by a tenth of a step from the tenth second
 * on; every command that comes back is a line. */
static int job(char **argv)
{
	nng_socket s[] = {dial(argv[0]), dial(argv[0])};
	int ranks = atoi(argv[2]), culprit = atoi(argv[3]), seconds = atoi(argv[4]);
	struct timespec began, now;
	struct beat_rank list[16];
	struct wire_reply r;
	struct fs_job j;
	struct beat bt;
	struct buf b;

	clock_gettime(CLOCK_REALTIME, &began);
	fs_init(&j, argv[1], (uint32_t)ranks, (uint32_t)(ranks + 1) / 2, 1);
	j.unix_ns = (uint64_t)began.tv_sec * FS_S;
	j.step_ns = 20 * FS_MS;
	j.comm_ns = 1 * FS_MS;
	j.rank[culprit].slow_ns = 2 * FS_MS;
	j.rank[culprit].slow_from_s = 10;
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (int t = 0; t <= 2 * seconds; t++) {
		double at;

		clock_gettime(CLOCK_REALTIME, &now);
		at = (double)(now.tv_sec - began.tv_sec) +
		     (double)(now.tv_nsec - began.tv_nsec) / 1e9;
		for (uint32_t n = 0; n < 2; n++) {
			if (t % 2 != (int)n || !fs_beat(&j, n, at, list, &bt))
				continue;
			for (int tries = PATIENCE_S; send_beat(s[n], &bt, &b, &r) != WIRE_OK;)
				CHECK(tries-- > 0); /* each takes as long as nobody answers */
			for (uint32_t i = 0; i < r.command_count; i++)
				printf("node=n%u kind=%u rank=%d\n", n, r.commands[i].kind,
				       r.commands[i].rank);
		}
		fflush(stdout);
		usleep(500000); /* the pace of the beats: nothing is waited for */
	}
	buf_fini(&b);
	fs_fini(&j);
	nng_close(s[0]);
	nng_close(s[1]);
	return 0;
}

/* ---- what nobody should send ---- */

static int garbage(char **argv)
{
	nng_socket s = dial(argv[0]);
	uint32_t n = (uint32_t)atoi(argv[1]), rejected = 0, other = 0, accepted = 0;
	uint64_t seed = (uint64_t)atoll(argv[2]), random = seed;
	static struct flood f;
	struct buf good;

	f.records = 300;
	f.seed = seed;
	synth_init(&f.synth, 3000, seed);
	synth_transformer(&f.synth, 0.02);
	buf_init(&good, LIMIT_WIRE_MESSAGE_BYTES);
	for (uint32_t i = 0; i < n; i++) {
		struct wire_reply r;
		uint8_t id[16], *p;
		size_t bytes;

		f.longer_ns = i % 5 == 4 ? 1ull << 62 : 0; /* well-formed, of impossible times */
		encode_one(&f, i, &good, id);
		p = good.data;
		bytes = good.bytes;
		switch (f.longer_ns ? 4 : i % 4) {
		case 4:
			break;
		case 0: /* noise */
			bytes = 1 + synth_random(&random) % 2000;
			for (size_t k = 0; k < bytes && k < good.bytes; k++)
				p[k] = (uint8_t)synth_random(&random);
			break;
		case 1: /* cut short */
			bytes = 1 + synth_random(&random) % (bytes - 1);
			break;
		default: /* bent in the packed fields */
			for (int k = 0; k < 8; k++)
				p[bytes / 2 + synth_random(&random) % (bytes / 2)] ^=
				    (uint8_t)(1 + synth_random(&random) % 255);
		}
		if (bytes > good.bytes)
			bytes = good.bytes;
		if (ask(s, p, bytes, &r))
			other++;
		else if (r.status == WIRE_REJECT)
			rejected++;
		else
			accepted++;
	}
	buf_fini(&good);
	nng_close(s);
	printf("rejected=%u accepted=%u unanswered=%u\n", rejected, accepted, other);
	return other || accepted;
}

static int oversize(char **argv)
{
	nng_socket s = dial(argv[0]);
	size_t bytes = LIMIT_WIRE_MESSAGE_BYTES + 65536;
	uint8_t *p = calloc(1, bytes);
	struct wire_reply r;
	int err;

	CHECK(p);
	err = ask(s, p, bytes, &r);
	printf("answer=%d\n", err);
	fflush(stdout);
	/* nng 1.5 may wait for ever to close a pipe that its peer dropped in the middle of a message */
	_exit(err != -ETIMEDOUT);
}

static void without_padding(struct buf *b)
{
	Sysom__Wire__Envelope *e = sysom__wire__envelope__unpack(NULL, b->bytes, b->data);

	CHECK(e && e->window->padding.len);
	free(e->window->padding.data);
	e->window->padding = (ProtobufCBinaryData){0, NULL};
	b->bytes = sysom__wire__envelope__pack(e, b->data);
	sysom__wire__envelope__free_unpacked(e, NULL);
}

static void dense_window(struct buf *b, uint32_t i, uint32_t count)
{
	static struct record *rows;
	struct window w = {.reason = WINDOW_SELF, .begin_ns = 1, .end_ns = 2};

	if (!rows)
		rows = calloc(count, sizeof(*rows));
	CHECK(rows);
	for (uint32_t k = 0; k < count; k++)
		rows[k].kind = RECORD_LAUNCH;
	make_id(w.id, 99, i);
	make_rank(&w.rank, "dense", 0, 1);
	w.host = rows;
	w.host_count = count;
	buf_clear(b);
	CHECK(!wire_window_encode(&w, b));
}

static int write_messages(char **argv)
{
	bool bare = !strcmp(argv[1], "bare"), dense = bare || !strcmp(argv[1], "dense");
	FILE *f = fopen(argv[0], "w");
	struct buf b;

	CHECK(f);
	if (!dense && strcmp(argv[1], "madeup"))
		node_name = argv[1];
	buf_init(&b, LIMIT_WIRE_MESSAGE_BYTES);
	for (uint32_t i = 0; i < (uint32_t)atoi(argv[2]); i++) {
		uint32_t bytes;
		char job[64];

		snprintf(job, sizeof(job), "%.40s-%u", argv[1], i);
		if (!dense)
			fault_window(&b, job, (int)i, 2048, true, 0);
		else
			dense_window(&b, i, bare ? LIMIT_WINDOW_RECORDS : 100000);
		if (bare)
			without_padding(&b);
		bytes = (uint32_t)b.bytes;
		CHECK(fwrite(&bytes, sizeof(bytes), 1, f) == 1 && fwrite(b.data, bytes, 1, f) == 1);
	}
	buf_fini(&b);
	printf("bytes=%ld\n", ftell(f));
	return fclose(f) != 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int arguments;
		int (*run)(char **argv);
	} modes[] = {
	    {"flood", 6, flood},     {"fault", 4, fault},	{"wide", 5, wide},
	    {"beat", 3, beat},	     {"job", 5, job},		{"impostor", 2, impostor},
	    {"garbage", 3, garbage}, {"oversize", 1, oversize}, {"write", 3, write_messages}};

	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if (argc == 2 + modes[i].arguments && !strcmp(argv[1], modes[i].name))
			return modes[i].run(argv + 2);
	fprintf(stderr, "usage: see the top of %s\n", __FILE__);
	return 2;
}
