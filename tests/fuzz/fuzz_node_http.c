/* SPDX-License-Identifier: Apache-2.0
 * fuzz_node_http - a node's control socket: the input is what a client writes, as it is. A node without
 * processes has nothing to switch; whatever is written, each connection ends with an answer or without one,
 * and costs what its bytes do. Statuses and metrics are of the whole daemon and are left out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/log.h"
#include "sidecar/http.h"
#include "sidecar/node.h"
#include "sidecar/serving/request_node.h"
#include "tests/fuzz/fuzz_budget.h"

#define MOVED_BYTES	(64u << 10)
#define ALLOCATED_BYTES (256u << 10) /* a connection's 16 KiB and one answer */
#define INPUT_BYTES	8192u
#define TURNS		4

static struct node *node;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char dir[] = "/tmp/fuzz_node_XXXXXX";
static struct loop_source *turn;
static int client, turns;

static void clean(void)
{
	http_close(node);
	request_node_close(node);
	rmdir(dir);
}

static void on_tick(void *arg, uint32_t expired)
{
	(void)arg, (void)expired;
	http_tend(node, UINT64_MAX); /* who waits has waited long enough */
}

/* The server reads once per event: the end must come after what it has read. */
static void on_turn(void *arg, uint32_t events)
{
	(void)arg, (void)events;
	if (++turns < TURNS)
		loop_wake(turn);
	else
		shutdown(client, SHUT_WR);
}

static void on_answer(void *arg, uint32_t events)
{
	char text[4096];
	ssize_t n;

	(void)arg, (void)events;
	while ((n = recv(client, text, sizeof(text), MSG_DONTWAIT)) > 0)
		;
	if (!n || (errno != EAGAIN && errno != EINTR))
		loop_stop(node->loop);
}

static void ask(void *arg, const struct wire_command *c)
{
	(void)arg, (void)c;
	CHECK(false); /* no process has requests */
}

static void set_up(void)
{
	struct loop_source *tick;

	log_init("fuzz_node_http", LOG_ERROR);
	node = calloc(1, sizeof(*node));
	CHECK(node && mkdtemp(dir) && !loop_open(&node->loop));
	snprintf(node->settings.control_path, sizeof(node->settings.control_path), "%s/s", dir);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", dir);
	CHECK(!request_node_open(node, ask) && !http_open(node));
	CHECK(!loop_add_wake(node->loop, on_turn, NULL, &turn));
	CHECK(!loop_add_timer(node->loop, 1, 1, on_tick, NULL, &tick));
	atexit(clean);
}

/* Whether a part of it asks for what a node without its parts has not. */
static bool tells_all(const uint8_t *data, size_t bytes)
{
	return memmem(data, bytes, "/metrics", 8) || memmem(data, bytes, "status", 6) ||
	       memchr(data, '%', bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct loop_source *source;
	static bool ready;

	if (!ready)
		set_up();
	ready = true;
	if (bytes > INPUT_BYTES || tells_all(data, bytes))
		return 0;
	client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(client >= 0);
	fuzz_budget_begin();
	CHECK(!connect(client, (struct sockaddr *)&address, sizeof(address)));
	CHECK(send(client, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
	CHECK(!loop_add_fd(node->loop, client, EPOLLIN, on_answer, NULL, &source));
	turns = 0;
	loop_wake(turn);
	CHECK(!loop_run(node->loop));
	loop_source_close(source);
	close(client);
	fuzz_budget_end(bytes, MOVED_BYTES, ALLOCATED_BYTES, 1024);
	return 0;
}
