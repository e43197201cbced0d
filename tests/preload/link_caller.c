/* SPDX-License-Identifier: Apache-2.0
 * link_caller.c - rank 0 or 1 (RANK), whose collectives send over a real TCP connection, and
 * tell NCCL's profiler plugin what NCCL would: a step is some collectives of the main thread,
 * which waits for the proxy thread to have sent their parts. A part is with the network until
 * the other end has it all.
 * usage: link_caller HOST PORT SECONDS; --serve ADDRESS: the other end, which prints its port. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "foreign/nccl_profiler.h"

#define PARTS	 4
#define PART_MAX (32u << 10)
#define COLLS	 4 /* a step */
#define PAUSE_NS 5000000
#define HASH	 0xfeed

static const struct nccl_profiler_table *table;
static nccl_profiler_v5_start_fn begin;
static void *context;
static int sock, rank;
static char data[PART_MAX];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void *job; /* the collective to send; NULL: done */

static int all(ssize_t (*move)(int, void *, size_t), void *to, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = move(sock, (char *)to + at, bytes - at);

		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	return 0;
}

static ssize_t give(int fd, void *from, size_t bytes)
{
	return send(fd, from, bytes, MSG_NOSIGNAL);
}

static ssize_t take(int fd, void *to, size_t bytes)
{
	return recv(fd, to, bytes, 0);
}

static void send_parts(void *coll, unsigned n)
{
	struct nccl_profiler_v5_event e;
	void *op = NULL;

	memset(&e, 0, sizeof(e));
	e.type = NCCL_PROFILE_PROXY_OP;
	e.parent = coll;
	e.proxy_op.pid = getpid();
	e.proxy_op.peer = !rank;
	e.proxy_op.is_send = 1;
	begin(context, &op, &e);
	for (int i = 0; i < PARTS; i++) {
		uint32_t bytes = PART_MAX >> (n + (unsigned)i) % 3;
		size_t size = bytes;
		void *step = NULL;
		char ack;

		e.type = NCCL_PROFILE_PROXY_STEP;
		e.parent = op;
		begin(context, &step, &e);
		table->record(step, NCCL_PROFILE_STATE_SEND_WAIT, &size);
		if (all(give, &bytes, sizeof(bytes)) || all(give, data, bytes) ||
		    all(take, &ack, 1))
			exit(3);
		table->stop(step);
	}
	table->stop(op);
}

static void *proxy_main(void *arg)
{
	for (unsigned n = 0;; n++) {
		void *coll;

		pthread_mutex_lock(&lock);
		while (!job)
			pthread_cond_wait(&changed, &lock);
		coll = job;
		pthread_mutex_unlock(&lock);
		send_parts(coll, n);
		pthread_mutex_lock(&lock);
		job = NULL;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void collective(uint64_t seq)
{
	struct nccl_profiler_v5_event e;
	void *coll = NULL;

	memset(&e, 0, sizeof(e));
	e.type = NCCL_PROFILE_COLL;
	e.coll.seq = seq;
	e.coll.func = "AllReduce";
	e.coll.datatype = "ncclFloat32";
	e.coll.count = PARTS * PART_MAX / 4;
	begin(context, &coll, &e);
	table->stop(coll);
	pthread_mutex_lock(&lock);
	job = coll;
	pthread_cond_broadcast(&changed);
	while (job)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static int connect_to(const char *host, const char *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	int one = 1;

	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || inet_pton(AF_INET, host, &a.sin_addr) != 1 ||
	    connect(sock, (struct sockaddr *)&a, sizeof(a)))
		return -1;
	return setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static int serve(const char *address)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t bytes = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t size;
	char ack = 1;

	if (listener < 0 || inet_pton(AF_INET, address, &a.sin_addr) != 1 ||
	    bind(listener, (struct sockaddr *)&a, sizeof(a)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&a, &bytes))
		return 1;
	printf("%u\n", ntohs(a.sin_port));
	fflush(stdout);
	sock = accept(listener, NULL, NULL);
	while (!all(take, &size, sizeof(size)) && size <= PART_MAX && !all(take, data, size) &&
	       !all(give, &ack, 1))
		;
	return 0;
}

int main(int argc, char **argv)
{
	void (*step_begin)(const double *, unsigned) = dlsym(RTLD_DEFAULT, "sysom_step_begin");
	void (*step_end)(void) = dlsym(RTLD_DEFAULT, "sysom_step_end");
	const struct timespec pause = {0, PAUSE_NS};
	struct timespec t;
	pthread_t proxy;
	time_t until;
	int mask;

	if (argc == 3 && !strcmp(argv[1], "--serve"))
		return serve(argv[2]);
	table = dlsym(RTLD_DEFAULT, "ncclProfiler_v5");
	if (argc != 4 || !table || !step_begin || !step_end || connect_to(argv[1], argv[2]))
		return 2;
	rank = getenv("RANK") && atoi(getenv("RANK")) == 1;
	begin = (nccl_profiler_v5_start_fn)table->start;
	((nccl_profiler_v5_init_fn)table->init)(&context, HASH, &mask, "job", 2, 2, rank, NULL);
	pthread_create(&proxy, NULL, proxy_main, NULL);
	clock_gettime(CLOCK_MONOTONIC, &t);
	until = t.tv_sec + atoi(argv[3]);
	for (uint64_t seq = 0; t.tv_sec < until; clock_gettime(CLOCK_MONOTONIC, &t)) {
		step_begin(NULL, 0);
		for (int i = 0; i < COLLS; i++)
			collective(seq++);
		nanosleep(&pause, NULL);
		step_end();
	}
	table->finalize(context);
	return 0;
}
