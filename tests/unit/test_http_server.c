/* SPDX-License-Identifier: Apache-2.0
 * The server runs between the client's steps, so that nothing has to be waited for. */
#include "base/http/http_address.h"
#include "base/http/http_server.h"
#include "base/text/text.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <netinet/in.h>

#define BODY_BYTES 4096u

static struct http_server *server;
static struct http_counts counts;
static struct http_hosts hosts;
static struct http_settings settings;
static struct http_access *access_of;
static struct http_request *suspended;
static struct sockaddr_in here;
static size_t body_bytes, ended;

static unsigned needs(void *arg, const struct http_request *r)
{
	return HTTP_ROLE_READ;
}

static bool asks(void *arg, const struct http_request *r)
{
	return !strcmp(r->query.path, "/question");
}

static bool on_begin(void *arg, struct http_request *r)
{
	if (r->get || !strcmp(r->method, "POST") || !strcmp(r->method, "PUT"))
		return true;
	http_answer_error(&r->answer, 405, "GET or POST");
	return false;
}

static bool on_body(void *arg, struct http_request *r, const void *data, size_t bytes)
{
	body_bytes += bytes;
	return !r->get;
}

static bool on_finish(void *arg, struct http_request *r)
{
	bool *seen = (bool *)r->own;

	if (!strcmp(r->query.path, "/later") && !*seen) {
		*seen = true;
		suspended = r;
		http_server_suspend(r);
		return false;
	}
	if (!strcmp(r->query.path, "/large"))
		while (!r->answer.body.failed)
			buf_puts(&r->answer.body, "more ");
	if (!strcmp(r->query.path, "/piece"))
		r->answer.status = 202;
	if (!strcmp(r->query.path, "/named"))
		strcpy(r->answer.change, "a \"change\"\n");
	if (!strcmp(r->query.path, "/busy"))
		http_answer_error(&r->answer, 503, "\"busy\"");
	else
		buf_printf(&r->answer.body, "{\"a\":\"%s\"}", http_query_get(&r->query, "a"));
	return true;
}

static void on_end(void *arg, struct http_request *r)
{
	ended++;
}

static const struct http_handlers handlers = {.needs = needs,
					      .asks = asks,
					      .begin = on_begin,
					      .body = on_body,
					      .finish = on_finish,
					      .end = on_end,
					      .own_bytes = sizeof(bool),
					      .answer_max_bytes = BODY_BYTES};

static int setup(void **state)
{
	char why[256];
	const int bad = http_access_open(&access_of, &settings, why, sizeof(why));
	const struct http_server_config c = {.program = "tests",
					     .access = access_of,
					     .hosts = &hosts,
					     .counts = &counts,
					     .connections_max = 8,
					     .connections_kept = 4,
					     .connection_bytes = 16384,
					     .timeout_s = 10};
	socklen_t bytes = sizeof(here);
	int fd = http_server_listen("127.0.0.1:0");

	memset(&counts, 0, sizeof(counts));
	body_bytes = ended = 0;
	return bad || fd < 0 || getsockname(fd, (struct sockaddr *)&here, &bytes) ||
	       http_hosts_init(&hosts, "", "") ||
	       http_server_open(&server, fd, &c, &handlers, NULL);
}

static int teardown(void **state)
{
	http_server_close(server);
	http_access_close(access_of);
	return 0;
}

static int say(const char *text)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
	return fd;
}

/* What came of it, up to the end of the connection. */
static const char *hear(int fd)
{
	static char text[2 * BODY_BYTES];
	size_t at = 0;
	ssize_t n;

	for (int turns = 0; turns < 1000000; turns++) {
		http_server_run(server);
		n = recv(fd, text + at, sizeof(text) - 1 - at, MSG_DONTWAIT);
		if (!n)
			break;
		at += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	text[at] = '\0';
	return text;
}

static const char *ask(const char *method, const char *path, const char *host, const char *body)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
		 method, path, host, strlen(body), body);
	return hear(say(text));
}

static void expect(const char *answer, const char *status, const char *what)
{
	assert_memory_equal(answer, "HTTP/1.1 ", 9);
	assert_memory_equal(answer + 9, status, 3);
	assert_non_null(strstr(answer, what));
}

static void answers_with_headers_that_keep_browsers_from_guessing(void **state)
{
	const char *answer = ask("GET", "/x?a=1", "localhost", "");

	expect(answer, "200", "\r\n\r\n{\"a\":\"1\"}");
	assert_non_null(strstr(answer, "Content-Type: application/json\r\n"));
	assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff\r\n"));
	assert_non_null(strstr(answer, "Cache-Control: no-store\r\n"));
	answer = ask("HEAD", "/x?a=1", "localhost", "");
	expect(answer, "200", "Content-Length: 9\r\n");
	assert_non_null(strstr(answer, "Content-Security-Policy: default-src 'none'; "));
	assert_null(strstr(answer, "{"));
	assert_int_equal(counts.by_class[2], 2);
	assert_int_equal(ended, 2);
}

static void refuses_names_of_other_sites_before_its_handlers(void **state)
{
	expect(ask("POST", "/x", "evil.example", "body"), "421",
	       "{\"error\":\"this server does not accept the request's Host; "
	       "add it to http.hosts of tests\"}");
	assert_int_equal(counts.foreign_host, 1);
	assert_int_equal(body_bytes, 0);
}

static void refuses_at_the_headers_and_names_the_methods(void **state)
{
	expect(ask("DELETE", "/x", "localhost", "body"), "405", "Allow: GET, HEAD\r\n");
	assert_int_equal(body_bytes, 0);
}

static void hands_over_bodies_and_hangs_up_where_none_is_wanted(void **state)
{
	expect(ask("POST", "/x?a=2", "localhost", "body"), "200", "{\"a\":\"2\"}");
	assert_int_equal(body_bytes, 4);
	assert_string_equal(ask("GET", "/x", "localhost", "body"), "");
}

static void says_when_to_come_again(void **state)
{
	expect(ask("GET", "/busy", "localhost", ""), "503", "Retry-After: 1\r\n");
	expect(ask("GET", "/busy", "localhost", ""), "503", "{\"error\":\"\\\"busy\\\"\"}");
}

static void an_answer_without_room_is_an_error(void **state)
{
	expect(ask("GET", "/large", "localhost", ""), "500",
	       "\r\n\r\n{\"error\":\"the answer does not fit into memory\"}");
}

static void a_suspended_request_is_finished_when_it_is_resumed(void **state)
{
	int fd = say("GET /later?a=3 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");

	suspended = NULL;
	while (!suspended)
		http_server_run(server);
	http_server_resume(suspended);
	expect(hear(fd), "200", "{\"a\":\"3\"}");
	assert_int_equal(ended, 1);
}

/* What was logged since the last call. */
static const char *logged(FILE *log)
{
	static char text[1 << 16];
	size_t n;

	n = fread(text, 1, sizeof(text) - 1, log);
	text[n] = '\0';
	clearerr(log);
	return text;
}

static int lines(const char *text)
{
	int n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* Standard error goes to a file until it is put back. */
static FILE *catch_log(int *saved)
{
	FILE *log = tmpfile();
	char path[64];
	int fd;

	assert_non_null(log);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(log));
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	*saved = dup(2);
	assert_true(fd >= 0 && *saved >= 0 && dup2(fd, 2) == 2);
	close(fd);
	return log;
}

static void put_back(FILE *log, int saved)
{
	dup2(saved, 2);
	close(saved);
	fclose(log);
}

static void each_change_leaves_one_line_and_no_question_does(void **state)
{
	static const struct {
		const char *method, *path, *host, *status, *line; /* NULL: none */
	} cases[] = {
	    {"GET", "/x", "localhost", "200", NULL},
	    {"HEAD", "/x", "localhost", "200", NULL},
	    {"GET", "/busy", "localhost", "503", NULL},
	    {"POST", "/question", "localhost", "200", NULL},
	    {"PUT", "/piece", "localhost", "202", NULL},
	    {"POST", "/x", "localhost", "200", "what=\"POST /x\" status=200"},
	    {"PUT", "/x?a=1", "localhost", "200", "what=\"PUT /x\" status=200"},
	    {"POST", "/x\"y", "localhost", "200", "what=\"POST /x?y\" status=200"},
	    {"POST", "/named", "localhost", "200", "what=\"a ?change??\" status=200"},
	    {"POST", "/large", "localhost", "500", "what=\"POST /large\" status=500"},
	    {"POST", "/busy", "localhost", "503", "what=\"POST /busy\" status=503"},
	    {"POST", "/x?token=t", "localhost", "400", "what=\"POST /x\" status=400"},
	    {"DELETE", "/x", "localhost", "405", "what=\"DELETE /x\" status=405"},
	    {"PATCH", "/x", "localhost", "405", "what=\"PATCH /x\" status=405"},
	    {"POST", "/x", "evil.example", "421", "what=\"POST /x\" status=421"},
	};
	int saved;
	FILE *log = catch_log(&saved);

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *answer = ask(cases[i].method, cases[i].path, cases[i].host, "");
		const char *text = logged(log);

		if (strncmp(answer + 9, cases[i].status, 3) ||
		    lines(text) != (cases[i].line != NULL) ||
		    (cases[i].line &&
		     (!strstr(text, " level=audit event=change who=\"") ||
		      !strstr(text, " from=127.0.0.1:") || !strstr(text, cases[i].line)))) {
			put_back(log, saved);
			fail_msg("%s %s: %.12s, %s", cases[i].method, cases[i].path, answer, text);
		}
	}
	put_back(log, saved);
}

static void who_is_refused_without_end_fills_no_log(void **state)
{
	int saved, refused, changed;
	FILE *log = catch_log(&saved);

	for (int i = 0; i < 300; i++)
		ask("POST", "/busy", "localhost", "");
	refused = lines(logged(log));
	for (int i = 0; i < 300; i++)
		ask("POST", "/x", "localhost", "");
	changed = lines(logged(log));
	put_back(log, saved);
	assert_in_range(refused, 1, 299);
	assert_int_equal(changed, 300);
}

/* A request that waits has acted, whatever becomes of its client and the server. */
static void a_change_without_an_answer_has_its_line(void **state)
{
	static const char request[] =
	    "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
	const struct linger at_once = {.l_onoff = 1};
	int saved, fd;
	FILE *log = catch_log(&saved);
	char gone[1024], stopped[1024];

	suspended = NULL;
	fd = say(request);
	while (!suspended)
		http_server_run(server);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
	http_server_resume(suspended);
	for (int i = 0; i < 1000000 && !ended; i++)
		http_server_run(server);
	text_copy(gone, sizeof(gone), logged(log));
	suspended = NULL;
	fd = say(request);
	while (!suspended)
		http_server_run(server);
	http_server_resume(suspended);
	http_server_close(server);
	server = NULL;
	close(fd);
	text_copy(stopped, sizeof(stopped), logged(log));
	put_back(log, saved);
	assert_int_equal(lines(gone), 1);
	assert_non_null(strstr(gone, "what=\"POST /later\" status="));
	assert_int_equal(lines(stopped), 1);
	assert_non_null(strstr(stopped, " from=127.0.0.1:"));
	assert_non_null(strstr(stopped, "what=\"POST /later\" status=499"));
}

static void idle_connections_make_room(void **state)
{
	int silent[6];

	for (int i = 0; i < 6; i++)
		silent[i] = say("GET /");
	expect(ask("GET", "/x?a=4", "localhost", ""), "200", "{\"a\":\"4\"}");
	assert_true(counts.evicted >= 3);
	for (int i = 0; i < 6; i++)
		close(silent[i]);
}

static void takes_addresses_names_and_ports(void **state)
{
	static const char *const good[] = {"127.0.0.1:0", "[::1]:9472", "localhost:65535"};
	static const char *const bad[] = {
	    "", "127.0.0.1", ":9472", "127.0.0.1:", "x:65536", "127.0.0.1:80x", "x:-1", "[::1]"};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(http_address_is_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(http_address_is_valid(bad[i]));
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    WITH(answers_with_headers_that_keep_browsers_from_guessing),
	    WITH(refuses_names_of_other_sites_before_its_handlers),
	    WITH(refuses_at_the_headers_and_names_the_methods),
	    WITH(hands_over_bodies_and_hangs_up_where_none_is_wanted),
	    WITH(says_when_to_come_again),
	    WITH(an_answer_without_room_is_an_error),
	    WITH(a_suspended_request_is_finished_when_it_is_resumed),
	    WITH(each_change_leaves_one_line_and_no_question_does),
	    WITH(who_is_refused_without_end_fills_no_log),
	    WITH(a_change_without_an_answer_has_its_line),
	    WITH(idle_connections_make_room),
	    cmocka_unit_test(takes_addresses_names_and_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
