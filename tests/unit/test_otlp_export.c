/* SPDX-License-Identifier: Apache-2.0
 * A receiver takes a second for each request, by the test's clock. */
#include "base/metrics/otlp_export.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/metrics/otlp.h"

#define REQUESTS 12u

__typeof__(clock_gettime) __wrap_clock_gettime, __real_clock_gettime;
__typeof__(pthread_join) __wrap_pthread_join, __real_pthread_join;

static struct receiver {
	atomic_int later_s;
	atomic_uint requests;
	int listener, gate[2]; /* a byte in the gate: it may answer */
	const char *answer;
	size_t answer_bytes;
} receiver;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	int err = __real_clock_gettime(clock, out);

	out->tv_sec += atomic_load(&receiver.later_s);
	return err;
}

/* Of otlp_export_close, which now waits for the thread that sends. */
int __wrap_pthread_join(pthread_t thread, void **result)
{
	if (receiver.gate[1])
		assert_int_equal(write(receiver.gate[1], "x", 1), 1);
	return __real_pthread_join(thread, result);
}

/* Reads one request; false: the connection ended. */
static bool take(FILE *from)
{
	char line[1024];
	size_t bytes = 0;

	do {
		if (!fgets(line, sizeof(line), from))
			return false;
		if (!strncasecmp(line, "Content-Length:", 15))
			bytes = strtoul(line + 15, NULL, 10);
	} while (strcmp(line, "\r\n"));
	for (; bytes; bytes--)
		if (fgetc(from) == EOF)
			return false;
	return true;
}

static void *receive(void *unused)
{
	int fd = accept(receiver.listener, NULL, NULL);
	FILE *from = fdopen(fd, "r");
	char byte;

	while (from && take(from)) {
		if (!atomic_fetch_add(&receiver.requests, 1) && receiver.gate[1] &&
		    read(receiver.gate[0], &byte, 1) != 1)
			break;
		atomic_fetch_add(&receiver.later_s, 1);
		if (send(fd, receiver.answer, receiver.answer_bytes, MSG_NOSIGNAL) < 0 ||
		    !receiver.gate[1])
			break;
	}
	if (from)
		fclose(from);
	return NULL;
}

/* The receiver's thread; *out: sends to it. */
static pthread_t listens(struct otlp_export **out, const char *answer, size_t answer_bytes)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct otlp_settings s = {.interval_ns = 1};
	socklen_t bytes = sizeof(at);
	pthread_t thread;

	receiver.answer = answer;
	receiver.answer_bytes = answer_bytes;
	receiver.listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(receiver.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(receiver.listener, 1), 0);
	assert_int_equal(getsockname(receiver.listener, (struct sockaddr *)&at, &bytes), 0);
	assert_int_equal(pthread_create(&thread, NULL, receive, NULL), 0);
	snprintf(s.url, sizeof(s.url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(otlp_export_open(out, &s, "test", "host"), 0);
	return thread;
}

/* Sends one data point; what is known when it was sent, or has failed. */
static struct otlp_export_stats sent_to(const char *answer, size_t answer_bytes)
{
	struct otlp_export_stats stats;
	struct otlp_export *e;
	pthread_t thread = listens(&e, answer, answer_bytes);
	struct metrics *m = otlp_export_begin(e, UINT64_MAX);

	assert_non_null(m);
	metrics_family(m, "a", "Some.");
	metrics_sample(m, "a", 1, NULL);
	otlp_export_end(e);
	do {
		otlp_export_stats(e, &stats);
	} while (!stats.failed && !stats.sent && !sched_yield());
	shutdown(receiver.listener, SHUT_RDWR);
	otlp_export_close(e);
	__real_pthread_join(thread, NULL);
	close(receiver.listener);
	return stats;
}

#define SENT_TO(text) sent_to(text, sizeof(text) - 1)

static void what_the_receiver_rejects_is_counted_and_said(void **unused)
{
	static char endless[1 << 20] = "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n";
	struct otlp_export_stats s;

	/* partial_success {rejected_data_points: 7, error_message: "no\x1b"} */
	s = SENT_TO("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\x0a\x07\x08\x07\x12\x03no\x1b");
	assert_int_equal(s.sent, 1);
	assert_int_equal(s.rejected, 7);
	assert_string_equal(s.fault, "the receiver rejects 7 data points: no?");
	/* a warning, half an answer, none, another form, and one without end */
	s = SENT_TO("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x12\x00");
	assert_int_equal(s.sent - s.rejected, 1);
	assert_string_equal(s.fault, "");
	s = SENT_TO("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\x0a\x07\x08");
	assert_int_equal(s.sent - s.rejected, 1);
	s = SENT_TO("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(s.sent - s.rejected, 1);
	s = SENT_TO("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
	assert_int_equal(s.sent - s.rejected, 1);
	s = sent_to(endless, sizeof(endless));
	assert_int_equal(s.sent - s.rejected, 1);
	s = SENT_TO("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(s.failed, 1);
	assert_string_equal(s.fault, "the receiver answers with status 500");
	s = SENT_TO("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n");
	assert_int_equal(s.failed, 1);
}

static void a_slow_receiver_does_not_delay_the_end(void **unused)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	struct otlp_export *e;
	struct metrics *m;
	pthread_t thread;

	assert_int_equal(pipe(receiver.gate), 0);
	atomic_store(&receiver.requests, 0);
	thread = listens(&e, answer, sizeof(answer) - 1);
	m = otlp_export_begin(e, UINT64_MAX);
	assert_non_null(m);
	metrics_family(m, "a", "Some.");
	for (uint32_t i = 0; i < REQUESTS * OTLP_POINTS; i++)
		metrics_sample(m, "a", i, NULL);
	otlp_export_end(e);
	otlp_export_close(e);
	__real_pthread_join(thread, NULL);
	assert_in_range(atomic_load(&receiver.requests), 1, 4);
	close(receiver.listener);
	close(receiver.gate[0]);
	close(receiver.gate[1]);
}

static void why_a_request_failed_is_said(void **unused)
{
	struct otlp_settings s = {.url = "http://127.0.0.1:1", .interval_ns = 1};
	struct otlp_export_stats stats;
	struct otlp_export *e;
	struct metrics *m;

	otlp_export_stats(NULL, &stats);
	assert_int_equal(stats.sent + stats.failed + stats.dropped, 0);
	assert_string_equal(stats.fault, "");
	assert_int_equal(otlp_export_open(&e, &s, "test", "host"), 0);
	m = otlp_export_begin(e, UINT64_MAX);
	assert_non_null(m);
	metrics_family(m, "a", "Some.");
	metrics_sample(m, "a", 1, NULL);
	otlp_export_end(e);
	do {
		otlp_export_stats(e, &stats);
	} while (!stats.failed && !sched_yield());
	assert_non_null(strstr(stats.fault, "connect"));
	assert_int_equal(stats.sent, 0);
	otlp_export_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(why_a_request_failed_is_said),
	    cmocka_unit_test(what_the_receiver_rejects_is_counted_and_said),
	    cmocka_unit_test(a_slow_receiver_does_not_delay_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
