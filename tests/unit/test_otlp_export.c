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
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
	int fd = accept(receiver.listener, NULL, NULL);
	FILE *from = fdopen(fd, "r");
	char byte;

	while (from && take(from)) {
		if (!atomic_fetch_add(&receiver.requests, 1) &&
		    read(receiver.gate[0], &byte, 1) != 1)
			break;
		atomic_fetch_add(&receiver.later_s, 1);
		if (write(fd, answer, sizeof(answer) - 1) < 0)
			break;
	}
	if (from)
		fclose(from);
	return NULL;
}

static void a_slow_receiver_does_not_delay_the_end(void **unused)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct otlp_settings s = {.interval_ns = 1};
	socklen_t bytes = sizeof(at);
	struct otlp_export *e;
	struct metrics *m;
	pthread_t thread;

	receiver.listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(receiver.listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(receiver.listener, 1), 0);
	assert_int_equal(getsockname(receiver.listener, (struct sockaddr *)&at, &bytes), 0);
	assert_int_equal(pipe(receiver.gate), 0);
	assert_int_equal(pthread_create(&thread, NULL, receive, NULL), 0);
	snprintf(s.url, sizeof(s.url), "http://127.0.0.1:%u", ntohs(at.sin_port));
	assert_int_equal(otlp_export_open(&e, &s, "test", "host"), 0);
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
	    cmocka_unit_test(a_slow_receiver_does_not_delay_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
