/* SPDX-License-Identifier: Apache-2.0
 * The workers are held where they have an answer: so it is known how many requests wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <microhttpd.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "aggregator/api/api.h"
#include "base/limits.h"

#define KEPT	(LIMIT_API_WORKERS + 256u)
#define REFUSED 40u

static sem_t held, go;
static atomic_uint suspended;
static uint16_t port;
static struct pollfd client[KEPT + REFUSED];

/* Of libmicrohttpd (--wrap); the types are those of the originals. */
__typeof__(MHD_suspend_connection) __wrap_MHD_suspend_connection, __real_MHD_suspend_connection;
__typeof__(MHD_resume_connection) __wrap_MHD_resume_connection, __real_MHD_resume_connection;

void __wrap_MHD_suspend_connection(struct MHD_Connection *c)
{
	__real_MHD_suspend_connection(c);
	atomic_fetch_add(&suspended, 1);
}

void __wrap_MHD_resume_connection(struct MHD_Connection *c)
{
	sem_post(&held);
	sem_wait(&go);
	__real_MHD_resume_connection(c);
}

static struct sockaddr_in here(void)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static struct api *serve(const char *dir)
{
	const struct api_sources none = {0};
	struct sockaddr_in any = here();
	socklen_t bytes = sizeof(any);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static struct http_settings http;
	struct api_config config = {.http = &http, .store_dir = dir};
	struct store *s;
	struct api *api;

	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &bytes), 0);
	close(fd);
	port = ntohs(any.sin_port);
	snprintf(http.listen, sizeof(http.listen), "127.0.0.1:%u", port);
	assert_int_equal(store_open(&s, dir), 0);
	store_close(s);
	assert_int_equal(api_open(&api, &config, &none), 0);
	return api;
}

static void ask(uint32_t i)
{
	static const char text[] = "GET /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\n"
				   "Connection: close\r\n\r\n";
	const struct sockaddr_in to = here();

	client[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	client[i].events = POLLIN;
	assert_int_equal(connect(client[i].fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(client[i].fd, text, sizeof(text) - 1, 0), sizeof(text) - 1);
}

/* Those that have come meanwhile, all of this status. */
static uint32_t answers(uint32_t count, const char *status)
{
	uint32_t n = 0;

	assert_true(poll(client, count, 10) >= 0);
	for (uint32_t i = 0; i < count; i++) {
		char text[16] = "";

		if (client[i].fd < 0 || !client[i].revents)
			continue;
		assert_int_equal(recv(client[i].fd, text, 12, MSG_WAITALL), 12);
		assert_string_equal(text + 9, status);
		close(client[i].fd);
		client[i].fd = -1;
		n++;
	}
	return n;
}

static void of_many_requests_256_wait_and_the_others_are_refused(void **state)
{
	const struct rlimit files = {1024, 1024};
	char dir[] = "/tmp/sysom-test-api-XXXXXX", command[64];
	uint32_t refused = 0, answered = 0;
	struct api *api;

	setrlimit(RLIMIT_NOFILE, &files);
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	assert_non_null(mkdtemp(dir));
	api = serve(dir);
	for (uint32_t i = 0; i < LIMIT_API_WORKERS; i++)
		ask(i);
	for (uint32_t i = 0; i < LIMIT_API_WORKERS; i++)
		sem_wait(&held);
	for (uint32_t i = LIMIT_API_WORKERS; i < KEPT + REFUSED; i++)
		ask(i);
	while (refused + atomic_load(&suspended) < KEPT + REFUSED)
		refused += answers(KEPT + REFUSED, "503");
	assert_int_equal(refused, REFUSED);
	for (uint32_t i = 0; i < KEPT; i++)
		sem_post(&go);
	while (answered < KEPT)
		answered += answers(KEPT + REFUSED, "404");
	api_close(api);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(of_many_requests_256_wait_and_the_others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
