/* SPDX-License-Identifier: Apache-2.0
 * The same hostile clients against nng's own REP and against ours. docs/decisions/0032-rep.md rests
 * on the difference. Each server runs in a process of its own, since nng's can't always be closed. */
#include "aggregator/rep.h"

#include <dirent.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define PLACES	      4u
#define MESSAGE_BYTES (128u << 10)
#define HALF_BYTES    (MESSAGE_BYTES / 2)
#define BUFFER_BYTES  (512u << 10)
#define CLIENTS	      32u
#define WAIT_MS	      20000
#define FRAME_BYTES   9u /* of IPC: a 1, and the length */
#define NUMBER_BYTES  4u /* of the request; the answer has it too */

/* What a server shares with the test. */
struct shown {
	_Atomic uint32_t taken[2]; /* requests that were handed over, by their first byte */
	_Atomic bool answers;	   /* whether the server answers them */
};

static struct shown *shown;
static char path[108], url[128];

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* ---- the servers ---- */

static int lane_of(void *arg, const void *body, size_t bytes)
{
	return 0;
}

static void on_request(void *arg, struct rep_request *q)
{
	shown->taken[*(const char *)q->body == 'b']++;
	while (!shown->answers)
		pause_ms(1);
	rep_answer(*(struct rep **)arg, q, "ok", 2);
}

static void serve_ours(void)
{
	const struct rep_config c = {.url = url,
				     .lane = {{PLACES, PLACES, 0}, {1, 1, 0}},
				     .lane_of = lane_of,
				     .connection_max = 8 * CLIENTS,
				     .message_max_bytes = MESSAGE_BYTES,
				     .buffer_max_bytes = BUFFER_BYTES};
	struct rep *r;

	if (rep_open(&r, &c, on_request, &r))
		_exit(2);
	for (;;)
		pause();
}

struct place {
	nng_ctx context;
	nng_aio *aio;
	bool sends;
	_Atomic bool held; /* a request that waits to be answered */
};

static void on_nng(void *arg)
{
	struct place *p = arg;

	if (!p->sends && !nng_aio_result(p->aio)) {
		shown->taken[*(char *)nng_msg_body(nng_aio_get_msg(p->aio)) == 'b']++;
		p->held = true;
		return;
	}
	p->sends = false;
	nng_ctx_recv(p->context, p->aio);
}

static void answer(struct place *p)
{
	nng_msg *m = nng_aio_get_msg(p->aio);

	p->held = false;
	p->sends = true;
	nng_msg_clear(m);
	nng_msg_append(m, "ok", 2);
	nng_ctx_send(p->context, p->aio);
}

static void serve_nngs(void)
{
	static struct place place[PLACES];
	nng_socket s;

	if (nng_rep0_open(&s) || nng_socket_set_size(s, NNG_OPT_RECVMAXSZ, 2 * MESSAGE_BYTES))
		_exit(2);
	for (uint32_t i = 0; i < PLACES; i++) {
		if (nng_ctx_open(&place[i].context, s) ||
		    nng_aio_alloc(&place[i].aio, on_nng, &place[i]))
			_exit(2);
		nng_ctx_recv(place[i].context, place[i].aio);
	}
	if (nng_listen(s, url, NULL, 0))
		_exit(2);
	for (;; pause_ms(1))
		for (uint32_t i = 0; i < PLACES && shown->answers; i++)
			if (place[i].held)
				answer(&place[i]);
}

static pid_t start(void (*serve)(void))
{
	const char *dir = getenv("TMPDIR");
	pid_t pid;

	snprintf(path, sizeof(path), "%s/sysom-rep-%d", dir ? dir : "/tmp", (int)getpid());
	snprintf(url, sizeof(url), "ipc://%s", path);
	unlink(path);
	memset(shown, 0, sizeof(*shown));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		serve();
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
}

static uint32_t descriptors(pid_t pid)
{
	char name[64];
	uint32_t n = 0;
	DIR *d;

	snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
	d = opendir(name);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- the clients ---- */

static int dial(void)
{
	static const char greeting[] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	char theirs[sizeof(greeting)];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	strcpy(sa.sun_path, path);
	for (int i = 0; connect(fd, (struct sockaddr *)&sa, sizeof(sa)); i++) {
		assert_true(i < WAIT_MS);
		pause_ms(1);
	}
	assert_int_equal(send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL), sizeof(greeting));
	assert_int_equal(recv(fd, theirs, sizeof(theirs), MSG_WAITALL), sizeof(theirs));
	return fd;
}

/* Sends so many bytes of a request of so many; the server may hang up meanwhile. */
static void ask(int fd, char first, uint32_t bytes, uint32_t sent)
{
	static char message[FRAME_BYTES + MESSAGE_BYTES];

	message[0] = 1;
	for (int i = 0; i < 4; i++)
		message[5 + i] = (char)(bytes >> (24 - 8 * i));
	message[FRAME_BYTES] = (char)0x80;
	message[FRAME_BYTES + NUMBER_BYTES] = first;
	for (uint32_t at = 0; at < FRAME_BYTES + sent;) {
		ssize_t n = send(fd, message + at, FRAME_BYTES + sent - at, MSG_NOSIGNAL);

		if (n < 0)
			return;
		at += (uint32_t)n;
	}
}

static bool is_answered(int fd)
{
	char a[FRAME_BYTES + NUMBER_BYTES + 2];

	return recv(fd, a, sizeof(a), MSG_WAITALL) == sizeof(a) &&
	       !memcmp(a + FRAME_BYTES + NUMBER_BYTES, "ok", 2);
}

static void expect_an_answer(void)
{
	int fd = dial();

	shown->answers = true;
	ask(fd, 'b', 16, 16);
	assert_true(is_answered(fd));
	close(fd);
}

static uint32_t hung_up(const int fds[CLIENTS])
{
	uint32_t n = 0;
	char byte;

	for (uint32_t i = 0; i < CLIENTS; i++)
		n += recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
	return n;
}

/* ---- one connection that does not wait for answers ---- */

static uint32_t places_of_one_connection(void (*serve)(void), uint32_t wanted, uint32_t others)
{
	pid_t pid = start(serve);
	int greedy = dial(), polite;
	uint32_t places;

	for (int i = 0; i < 16; i++)
		ask(greedy, 'a', 16, 16);
	for (int i = 0; i < WAIT_MS && shown->taken[0] < wanted; i++)
		pause_ms(1);
	polite = dial();
	ask(polite, 'b', 16, 16);
	for (int i = 0; i < WAIT_MS && shown->taken[1] < others; i++)
		pause_ms(1);
	places = shown->taken[0];
	assert_int_equal(shown->taken[1], others);
	shown->answers = true;
	assert_true(is_answered(polite));
	close(greedy);
	close(polite);
	stop(pid);
	return places;
}

static void a_connection_has_one_place_and_nngs_has_all(void **unused)
{
	assert_int_equal(places_of_one_connection(serve_nngs, PLACES, 0), PLACES);
	assert_int_equal(places_of_one_connection(serve_ours, 1, 1), 1);
}

/* ---- messages that never end ---- */

static uint32_t kept_half_messages(void (*serve)(void), uint32_t least_hung_up)
{
	pid_t pid = start(serve);
	uint32_t kept;
	int fds[CLIENTS];

	for (uint32_t i = 0; i < CLIENTS; i++) {
		fds[i] = dial();
		ask(fds[i], 'a', MESSAGE_BYTES, HALF_BYTES);
	}
	for (int i = 0; i < WAIT_MS && hung_up(fds) < least_hung_up; i++)
		pause_ms(1);
	expect_an_answer();
	kept = CLIENTS - hung_up(fds);
	for (uint32_t i = 0; i < CLIENTS; i++)
		close(fds[i]);
	stop(pid);
	return kept;
}

static void memory_of_half_messages_is_bounded_and_nngs_is_not(void **unused)
{
	const uint32_t room = BUFFER_BYTES / HALF_BYTES;
	uint32_t kept = kept_half_messages(serve_ours, CLIENTS - room);

	assert_int_equal(kept_half_messages(serve_nngs, 0), CLIENTS);
	assert_true(kept > 0 && kept <= room);
}

/* ---- peers that ask much and hang up ---- */

static void storm(void)
{
	for (uint32_t i = 0; i < 4 * CLIENTS; i++) {
		int fd = dial();

		for (int k = 0; k < 200; k++)
			ask(fd, 'a', 16, 16);
		close(fd);
	}
}

static uint32_t left_behind(void (*serve)(void), int wait_ms)
{
	pid_t pid = start(serve);
	uint32_t before, after;

	expect_an_answer();
	before = descriptors(pid);
	storm();
	expect_an_answer();
	for (int i = 0; i < wait_ms && descriptors(pid) > before; i++)
		pause_ms(1);
	after = descriptors(pid);
	stop(pid);
	return after > before ? after - before : 0;
}

static void who_hangs_up_leaves_no_descriptor_and_nngs_does(void **unused)
{
	uint32_t theirs = left_behind(serve_nngs, 2000), ours = left_behind(serve_ours, WAIT_MS);

	print_message("descriptors left behind: nng's %u, ours %u\n", theirs, ours);
	assert_int_equal(ours, 0);
	assert_true(theirs > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_connection_has_one_place_and_nngs_has_all),
	    cmocka_unit_test(memory_of_half_messages_is_bounded_and_nngs_is_not),
	    cmocka_unit_test(who_hangs_up_leaves_no_descriptor_and_nngs_does),
	};

	shown =
	    mmap(NULL, sizeof(*shown), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shown == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
