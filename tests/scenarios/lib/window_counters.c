/* SPDX-License-Identifier: Apache-2.0
 * window_counters URL JOB RANK GB_PER_S USUAL FILE... - sends recorded windows to an aggregator again,
 * as windows of JOB. Adds to those of rank RANK what a node with counters of its memory controllers
 * would have reported: GB_PER_S of traffic by others on its NUMA node, and USUAL. RANK -1: to none.
 * Prints how many windows were accepted; exits with 1 if one was not. */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/job_key.h"
#include "base/limits.h"
#include "wire/codec.h"

static void *read_file(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rb");
	char *data = malloc(LIMIT_WIRE_MESSAGE_BYTES);

	CHECK(f && data);
	*bytes = fread(data, 1, LIMIT_WIRE_MESSAGE_BYTES, f);
	fclose(f);
	return data;
}

static void add_counter(struct window *w, double value, double usual)
{
	struct os_signal *list = calloc(w->signal_count + 1u, sizeof(*list)), *s;

	CHECK(list);
	/* the list is full: its last, which matters least, goes */
	if (w->signal_count == LIMIT_WINDOW_SIGNALS)
		w->signal_count--;
	if (w->signal_count)
		memcpy(list + 1, w->signals, w->signal_count * sizeof(*list));
	s = &list[0];
	snprintf(s->name, sizeof(s->name), "memory_bandwidth");
	snprintf(s->subject, sizeof(s->subject), "others on NUMA node 0, mostly stream (pid 4242)");
	snprintf(s->unit, sizeof(s->unit), "GB/s");
	s->value = value;
	s->usual = usual;
	s->flags = value > 2 * usual ? OS_SIGNAL_RAISED : 0;
	free(w->signals);
	w->signals = list;
	w->signal_count++;
}

/* Another id for another job: else it would be the same window come twice. */
static void change_id(uint8_t id[16], const char *job)
{
	uint64_t a, b;

	memcpy(&a, id, 8);
	memcpy(&b, id + 8, 8);
	for (; *job; job++) {
		a = hash_mix(a + (unsigned char)*job);
		b = hash_mix(b ^ a);
	}
	memcpy(id, &a, 8);
	memcpy(id + 8, &b, 8);
}

static bool ask(nng_socket s, const struct buf *b)
{
	struct wire_reply reply;
	void *answer;
	size_t bytes;
	bool good;

	if (nng_send(s, b->data, b->bytes, 0) || nng_recv(s, &answer, &bytes, NNG_FLAG_ALLOC))
		return false;
	good = !wire_reply_decode(answer, bytes, &reply) && reply.status == WIRE_OK;
	nng_free(answer, bytes);
	return good;
}

static bool play(nng_socket s, const char *path, char **argv)
{
	struct buf out;
	struct window w;
	size_t bytes;
	void *data = read_file(path, &bytes);
	bool good = !wire_window_decode(data, bytes, &w);

	buf_init(&out, LIMIT_WIRE_MESSAGE_BYTES);
	free(data);
	if (!good)
		return false;
	job_key_make(w.rank.job, sizeof(w.rank.job), argv[2], w.rank.owner - 1);
	change_id(w.id, argv[2]);
	change_id(w.anomaly_id, argv[2]);
	if (w.rank.rank == atoi(argv[3]))
		add_counter(&w, atof(argv[4]), atof(argv[5]));
	good = !wire_window_encode(&w, &out) && ask(s, &out);
	wire_window_free(&w);
	buf_fini(&out);
	return good;
}

int main(int argc, char **argv)
{
	int taken = 0;
	nng_socket s;

	if (argc < 7) {
		fprintf(stderr, "usage: window_counters URL JOB RANK GB_PER_S USUAL FILE...\n");
		return 2;
	}
	CHECK(!nng_req0_open(&s));
	nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 20000);
	nng_socket_set_ms(s, NNG_OPT_SENDTIMEO, 20000);
	CHECK(!nng_dial(s, argv[1], NULL, 0));
	for (int i = 6; i < argc; i++)
		taken += play(s, argv[i], argv);
	printf("%d of %d taken\n", taken, argc - 6);
	nng_close(s);
	return taken == argc - 6 ? 0 : 1;
}
