/* SPDX-License-Identifier: Apache-2.0
 * Answers of NCCL's RAS service as NCCL writes them, and others. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "sidecar/ras/ras_answer.h"

#define RANK(n, pid, error, abort, sum)                                                            \
	"{\"rank\": " #n ", \"host\": \"10.0.0.1\", \"pid\": " #pid                                \
	", \"cuda_dev\": 0, \"nvml_dev\": 0, \"status\": {\"init_state\": 0, "                     \
	"\"async_error\": " #error                                                                 \
	", \"finalize_called\": false, \"destroy_flag\": false, \"abort_flag\": " #abort "},"      \
	"\"collective_counts\": {\"Broadcast\": 1, \"AllReduce\": " #sum "}}"
#define COMM(ranks, missing)                                                                       \
	"{\"nccl_version\": \"2.28.7\", \"communicators_count\": 1, \"communicators\": "           \
	"[{\"hash\": "                                                                             \
	"\"0xc0ffee\", \"secondary_hash\": \"0x1:0x2\", \"size\": 3, \"ranks_count\": 2, "         \
	"\"missing_ranks_count\": 1, \"ranks\": [" ranks "], \"missing_ranks\": [" missing "]}], " \
	"\"ras\": {\"collection_time_sec\": 0.001, \"timeouts_count\": 0}}\n"

static const char text_answer[] =
    "NCCL version 2.26.2 compiled with CUDA 12.6\nCUDA runtime version 12060, driver version "
    "12060\n\n"
    "Job summary\n===========\n\nCommunicators... (0.00s)\n=============\n\n"
    "    0         1         4         8        32        32   RUNNING  MISMATCH\n\n"
    "Errors\n======\n\nWarnings\n========\n\n#0-0 (fa93daea854b060b) MISMATCH\n"
    "  Communicator ranks have different AllGather operation counts\n"
    "  30 ranks have launched up to operation 640\n"
    "  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124\n";

static struct ras_report r;

static int read_it(const char *text)
{
	static const uint32_t pids[] = {5, 101, 323032};

	return ras_answer_read(text, strlen(text), pids, 3, &r);
}

static void a_healthy_job_has_no_finding(void **unused)
{
	assert_int_equal(read_it(COMM(RANK(0, 100, 0, false, 7) "," RANK(1, 101, 7, false, 7), "")),
			 0);
	assert_true(r.json);
	assert_int_equal(r.communicators, 1);
	assert_int_equal(r.ranks, 2);
	assert_int_equal(r.finding_count, 0);
	assert_int_equal(r.ours, 2);
}

static void says_who_is_missing_and_who_is_behind(void **unused)
{
	assert_int_equal(
	    read_it(COMM(RANK(0, 100, 0, false, 677) "," RANK(1, 101, 0, false, 676),
			 "{\"rank\": 2, \"host\": \"10.0.0.2\", \"pid\": 9, \"cuda_dev\": 0, "
			 "\"nvml_dev\": 0, "
			 "\"status\": {\"unresponsive\": true, \"considered_dead\": false}}")),
	    0);
	assert_int_equal(r.missing, 1);
	assert_int_equal(r.finding_count, 2);
	assert_int_equal(r.finding[0].kind, RAS_MISSING);
	assert_string_equal(r.finding[0].text,
			    "rank 2 of 0xc0ffee (process 9 on 10.0.0.2) does not answer");
	assert_int_equal(r.finding[1].kind, RAS_MISMATCH);
	assert_string_equal(r.finding[1].text,
			    "rank 1 of 0xc0ffee entered AllReduce 676 times, others 677");
}

static void says_who_has_an_error(void **unused)
{
	assert_int_equal(read_it(COMM(RANK(0, 100, 6, false, 7) "," RANK(1, 102, 0, true, 7), "")),
			 0);
	assert_int_equal(r.finding_count, 2);
	assert_string_equal(r.finding[0].text, "rank 0 of 0xc0ffee has the error 6");
	assert_int_equal(r.finding[1].kind, RAS_ABORTED);
	assert_int_equal(r.ours, 0);
}

static void reads_the_text_of_older_versions(void **unused)
{
	assert_int_equal(read_it(text_answer), 0);
	assert_false(r.json);
	assert_int_equal(r.finding_count, 1);
	assert_int_equal(r.finding[0].kind, RAS_MISMATCH);
	assert_string_equal(
	    r.finding[0].text,
	    "Communicator ranks have different AllGather operation counts of fa93daea854b060b");
	assert_int_equal(r.ours, 4);
}

static void nonsense_is_no_answer(void **unused)
{
	static const char *const odd[] = {
	    "",	    "{",   "{}", "[]", "HTTP/1.1 400 Bad Request\r\n\r\n", "{\"communicators\": 5}",
	    "NCCL", "\n\n"};

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		assert_int_equal(read_it(odd[i]), -EBADMSG);
	/* of the right form, with other things in it */
	assert_int_equal(
	    read_it("{\"communicators\": [1, null, [], {\"ranks\": 7, \"missing_ranks\": {}}, "
		    "{\"hash\": [], \"ranks\": [3, {\"rank\": -1, \"pid\": 1e300, \"status\": 2, "
		    "\"collective_counts\": {\"\\u001b[2J\": \"x\"}}]}]}"),
	    0);
	assert_int_equal(read_it("NCCL version 9\n#\n#0-0\n#) MISMATCH (\n#(\x1b) ERROR"), 0);
	for (uint32_t k = 0; k < r.finding_count; k++)
		assert_null(strchr(r.finding[k].text, 0x1b));
}

static void keeps_a_few_findings_of_many(void **unused)
{
	char *text = malloc(1 << 16);

	strcpy(text, "NCCL version 2.26\n");
	for (int i = 0; i < 100; i++)
		strcat(text, "#0-0 (c0ffee) INCOMPLETE\n  Missing communicator data from 1 rank\n");
	assert_int_equal(read_it(text), 0);
	assert_int_equal(r.finding_count, RAS_FINDINGS_MAX);
	free(text);
}

/* 4 MiB of the worst kind: one rank has many functions, and there are many ranks. */
static void many_functions_and_ranks_cost_no_product_of_both(void **unused)
{
	size_t room = LIMIT_RAS_BYTES, at;
	char *text = malloc(room);
	clock_t begin;

	at = (size_t)snprintf(text, room,
			      "{\"communicators\":[{\"hash\":\"x\",\"ranks\":"
			      "[{\"rank\":1,\"collective_counts\":{\"AllReduce\":9");
	for (int i = 0; i < 60000; i++)
		at += (size_t)snprintf(text + at, room - at, ",\"x%d\":1", i);
	at += (size_t)snprintf(text + at, room - at,
			       "}},{\"rank\":2,\"collective_counts\":{\"AllReduce\":3}}");
	while (at < room - 100)
		at += (size_t)snprintf(text + at, room - at, ",[]");
	at += (size_t)snprintf(text + at, room - at, "]}]}");
	begin = clock();
	assert_int_equal(ras_answer_read(text, at, NULL, 0, &r), 0);
	assert_true(clock() - begin < 10 * CLOCKS_PER_SEC);
	assert_true(r.ranks > 1000000);
	assert_int_equal(r.finding_count, 1);
	assert_string_equal(r.finding[0].text, "rank 2 of x entered AllReduce 3 times, others 9");
	free(text);
}

/* ---- the conversation ---- */

struct server {
	int sock;
	const char *hello, *format, *status;
	size_t flood; /* bytes after status */
};

static void line_of(int sock, const char *want)
{
	char c = 0, got[64] = "";
	size_t n = 0;

	while (c != '\n' && n < sizeof(got) - 1 && read(sock, &c, 1) == 1)
		got[n++] = c;
	if (want)
		assert_string_equal(got, want);
}

static void send_all(int sock, const char *text)
{
	if (text)
		send(sock, text, strlen(text), MSG_NOSIGNAL);
}

static void *serve(void *arg)
{
	const struct server *s = arg;
	static char many[4096];

	memset(many, 'x', sizeof(many));
	line_of(s->sock, "CLIENT PROTOCOL 2\n");
	send_all(s->sock, s->hello);
	line_of(s->sock, s->format ? "SET FORMAT json\n" : NULL);
	send_all(s->sock, s->format);
	line_of(s->sock, s->status ? "STATUS\n" : NULL);
	send_all(s->sock, s->status);
	for (size_t n = 0; n < s->flood; n += sizeof(many))
		if (send(s->sock, many, sizeof(many), MSG_NOSIGNAL) <= 0)
			break;
	if (s->status)
		close(s->sock);
	return NULL;
}

static int ask(struct server s)
{
	struct timeval wait = {.tv_usec = 200000};
	pthread_t thread;
	int pair[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	s.sock = pair[1];
	assert_int_equal(pthread_create(&thread, NULL, serve, &s), 0);
	rc = ras_answer_get(pair[0], NULL, 0, &r);
	close(pair[0]);
	pthread_join(thread, NULL);
	if (!s.status)
		close(pair[1]);
	return rc;
}

static void asks_as_ncclras_does(void **unused)
{
	static const char json[] = COMM(RANK(0, 100, 0, false, 7), "");

	assert_int_equal(ask((struct server){0, "SERVER PROTOCOL 2\n", "OK\n", json, 0}), 0);
	assert_true(r.json);
	assert_int_equal(r.ranks, 1);
	assert_int_equal(ask((struct server){0, "SERVER PROTOCOL 2\n", "ERROR: unknown command\n",
					     text_answer, 0}),
			 0);
	assert_int_equal(r.finding_count, 1);
}

static void a_service_that_is_no_ras_is_told_apart(void **unused)
{
	assert_int_equal(ask((struct server){0, "HTTP/1.1 400\r\n", NULL, NULL, 0}), -EPROTO);
	assert_int_equal(ask((struct server){0, "SERVER PROTOCOL 2\n", "OK\n", "", 0}), -EBADMSG);
	assert_int_equal(ask((struct server){0, NULL, NULL, NULL, 0}), -EAGAIN);
	assert_int_equal(
	    ask((struct server){0, "SERVER PROTOCOL 2\n", "OK\n", "{", 2 * LIMIT_RAS_BYTES}),
	    -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_healthy_job_has_no_finding),
	    cmocka_unit_test(says_who_is_missing_and_who_is_behind),
	    cmocka_unit_test(says_who_has_an_error),
	    cmocka_unit_test(reads_the_text_of_older_versions),
	    cmocka_unit_test(nonsense_is_no_answer),
	    cmocka_unit_test(keeps_a_few_findings_of_many),
	    cmocka_unit_test(many_functions_and_ranks_cost_no_product_of_both),
	    cmocka_unit_test(asks_as_ncclras_does),
	    cmocka_unit_test(a_service_that_is_no_ras_is_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
