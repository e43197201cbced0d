/* SPDX-License-Identifier: Apache-2.0
 * What the kernel says about a connection is the test's. */
#include "base/http/http_access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/daemon/peer.h"

#define ADMIN "admin-token-0123456789abcdef"
#define READ  "read-token-0123456789abcdef"
#define MINE  "mine-token-0123456789abcdef"

static struct {
	bool known, loopback;
	uid_t uid;
} kernel;

__typeof__(peer_user) __wrap_peer_user;
__typeof__(peer_is_loopback) __wrap_peer_is_loopback;

bool __wrap_peer_user(int sock, uid_t *uid)
{
	*uid = kernel.uid;
	return kernel.known;
}

bool __wrap_peer_is_loopback(int sock)
{
	return kernel.loopback;
}

static struct http_settings settings;
static struct http_access *access_of;
static struct http_user user;
static char dir[64];

static void open_access(const char *see_all, const char *text)
{
	char why[256];
	FILE *f;

	memset(&settings, 0, sizeof(settings));
	snprintf(settings.see_all, sizeof(settings.see_all), "%s", see_all);
	if (text) {
		snprintf(settings.tokens, sizeof(settings.tokens), "%s/tokens", dir);
		f = fopen(settings.tokens, "w");
		fputs(text, f);
		fclose(f);
		assert_int_equal(chmod(settings.tokens, 0600), 0);
	}
	assert_int_equal(http_access_open(&access_of, &settings, why, sizeof(why)), 0);
}

static int setup(void **unused)
{
	strcpy(dir, "/tmp/test_access_XXXXXX");
	memset(&kernel, 0, sizeof(kernel));
	return !mkdtemp(dir);
}

static int teardown(void **unused)
{
	char command[96];

	http_access_close(access_of);
	access_of = NULL;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static unsigned ask(const char *token, bool basic, bool forwarded)
{
	const struct http_sender from = {
	    .token = token, .basic = basic, .foreign = forwarded ? "X-Real-IP" : NULL};
	const char *why = "";
	unsigned status;

	memset(&user, 0xff, sizeof(user));
	status = http_access_user(access_of, &from, &user, &why);
	assert_int_equal(status != 0, *why != '\0');
	return status;
}

static void another_machine_needs_a_token_also_where_there_is_none(void **unused)
{
	open_access("*", NULL);
	assert_int_equal(ask(NULL, false, false), 401);
	assert_int_equal(ask(READ, false, false), 401);
	http_access_close(access_of);
	open_access("*", "read all " READ " uid=*\n");
	assert_int_equal(ask(NULL, false, false), 401);
	assert_int_equal(ask(MINE, false, false), 401);
	assert_int_equal(ask("", false, false), 401);
	assert_int_equal(ask(READ, false, false), 0);
	assert_true(user.all && user.roles == HTTP_ROLE_READ && user.bearer);
}

static void a_proxy_on_this_machine_proves_nothing_for_those_behind_it(void **unused)
{
	open_access("*", "read all " READ " uid=*\n");
	kernel.known = kernel.loopback = true;
	assert_int_equal(ask(NULL, false, true), 401);
	assert_int_equal(ask(READ, false, true), 0);
	http_access_close(access_of);
	open_access("*", NULL);
	assert_int_equal(ask(NULL, false, true), 401);
}

static void any_header_that_no_client_sends_may_be_a_proxys(void **unused)
{
	static const char *const direct[] = {"Host", "user-agent", "ACCEPT", "Sec-Fetch-Site",
					     "X-Prometheus-Scrape-Timeout-Seconds"};
	static const char *const foreign[] = {"Forwarded",
					      "Via",
					      "X-Forwarded-For",
					      "X-Real-IP",
					      "CF-Connecting-IP",
					      "True-Client-IP",
					      "X-Forwarded-Host",
					      "X-Request-Id",
					      "Sec",
					      "Hos",
					      "traceparent",
					      "Proxy-Connection",
					      "X-Of-Tomorrow",
					      ""};

	for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++)
		assert_true(http_access_is_direct(direct[i]));
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		assert_false(http_access_is_direct(foreign[i]));
}

static void a_local_user_sees_the_users_own_jobs(void **unused)
{
	open_access("7,1001", NULL);
	kernel.known = kernel.loopback = true;
	kernel.uid = 1000;
	assert_int_equal(ask(NULL, false, false), 0);
	assert_false(user.all);
	assert_int_equal(user.roles, HTTP_ROLE_READ | HTTP_ROLE_UPLOAD);
	assert_true(http_user_sees_job(&user, "train@1000"));
	assert_false(http_user_sees_job(&user, "train@1001"));
	assert_false(http_user_sees_job(&user, "train"));
	kernel.uid = 1001; /* listed */
	assert_int_equal(ask(NULL, false, false), 0);
	assert_true(user.all);
	assert_int_equal(user.roles & HTTP_ROLE_ADMIN, 0);
	kernel.uid = 0;
	assert_int_equal(ask(NULL, false, false), 0);
	assert_true(user.all && user.roles == HTTP_ROLES_ALL);
}

static void see_all_is_a_list_of_uids(void **unused)
{
	static const char *const good[] = {"", "*", "7", "7,1001", "7, 1001", "4294967294"};
	static const char *const bad[] = {"prometheus", "7;8", "-1", "7 8", "4294967295", "7,x"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(http_access_is_uids(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(http_access_is_uids(bad[i]));
}

/* Users of another user namespace share a number, and containers may hide the user. */
static void a_user_that_the_kernel_cannot_name_sees_no_job(void **unused)
{
	open_access("", NULL);
	kernel.loopback = kernel.known = true;
	kernel.uid = 65534;
	assert_int_equal(ask(NULL, false, false), 0);
	assert_true(!user.all && !user.has_uid && user.roles == HTTP_ROLE_READ);
	assert_false(http_user_sees_job(&user, "train@65534"));
	kernel.known = false;
	assert_int_equal(ask(NULL, false, false), 0);
	assert_true(!user.all && !user.has_uid);
	kernel.loopback = false;
	assert_int_equal(ask(NULL, false, false), 401);
}

static void a_token_says_more_than_the_kernel(void **unused)
{
	open_access("", "admin ops " ADMIN "\nread mine " MINE " uid=1000\n");
	kernel.known = kernel.loopback = true;
	kernel.uid = 0;
	assert_int_equal(ask(MINE, false, false), 0);
	assert_true(!user.all && user.uid == 1000 && user.roles == HTTP_ROLE_READ);
	assert_int_equal(ask("wrong-token-0123456789abcdef", false, false), 401);
	assert_int_equal(ask(ADMIN, true, false), 0);
	assert_false(user.bearer); /* as a browser's password it changes nothing */
}

static void a_name_means_the_users_own_job(void **unused)
{
	const struct http_user mine = {.has_uid = true, .uid = 7}, all = {.all = true},
			       none = {.all = false};
	char key[32];

	assert_true(http_user_job(&mine, "train", key, sizeof(key)));
	assert_string_equal(key, "train@7");
	assert_true(http_user_job(&mine, "train#3@7", key, sizeof(key)));
	assert_string_equal(key, "train#3@7");
	assert_false(http_user_job(&mine, "train@8", key, sizeof(key)));
	assert_true(
	    http_user_job(&mine, "a-name-as-long-as-a-key-may-be-and-longer", key, sizeof(key)));
	assert_string_equal(key + strlen(key) - 2, "@7");
	assert_true(http_user_job(&all, "train", key, sizeof(key)));
	assert_string_equal(key, "train");
	assert_true(http_user_job(&all, "train@8", key, sizeof(key)));
	assert_false(http_user_job(&none, "train", key, sizeof(key)));
	assert_false(http_user_job(&none, "train@8", key, sizeof(key)));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    CASE(another_machine_needs_a_token_also_where_there_is_none),
	    CASE(a_proxy_on_this_machine_proves_nothing_for_those_behind_it),
	    CASE(any_header_that_no_client_sends_may_be_a_proxys),
	    CASE(a_local_user_sees_the_users_own_jobs),
	    cmocka_unit_test(see_all_is_a_list_of_uids),
	    CASE(a_user_that_the_kernel_cannot_name_sees_no_job),
	    CASE(a_token_says_more_than_the_kernel),
	    CASE(a_name_means_the_users_own_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
