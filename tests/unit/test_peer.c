/* SPDX-License-Identifier: Apache-2.0 */
#include "base/daemon/peer.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static union peer_address v4(const char *text)
{
	union peer_address a = {.v4 = {.sin_family = AF_INET, .sin_port = htons(1)}};

	assert_int_equal(inet_pton(AF_INET, text, &a.v4.sin_addr), 1);
	return a;
}

static union peer_address v6(const char *text)
{
	union peer_address a = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(1)}};

	assert_int_equal(inet_pton(AF_INET6, text, &a.v6.sin6_addr), 1);
	return a;
}

/* No such connection is there, so that no user is known. */
static struct peer_key key(union peer_address a)
{
	struct peer_key k;

	peer_key_between(&k, &a, &a);
	return k;
}

static bool same(struct peer_key a, struct peer_key b)
{
	return a.kind == b.kind && a.value == b.value;
}

static void loopback_addresses_are_one_peer(void **state)
{
	assert_true(same(key(v4("127.0.0.1")), key(v4("127.255.3.4"))));
	assert_true(same(key(v4("127.0.0.1")), key(v6("::1"))));
	assert_false(same(key(v4("127.0.0.1")), key(v4("10.0.0.1"))));
}

static void addresses_of_one_machine_are_one_peer(void **state)
{
	assert_true(same(key(v6("fd00:0:0:1::1")), key(v6("fd00:0:0:1:ffff::2"))));
	assert_false(same(key(v6("fd00:0:0:1::1")), key(v6("fd00:0:0:2::1"))));
	assert_false(same(key(v4("10.0.0.1")), key(v4("10.0.0.2"))));
}

static void ipv4_over_ipv6_is_ipv4(void **state)
{
	assert_true(same(key(v6("::ffff:10.0.0.1")), key(v4("10.0.0.1"))));
	assert_false(same(key(v6("::ffff:10.0.0.1")), key(v6("::ffff:10.0.0.2"))));
	assert_true(same(key(v6("::ffff:127.0.0.9")), key(v4("127.0.0.1"))));
}

/* From addresses that are another machine's as little as the user's own. */
static void connections_of_a_user_are_one_peer_whatever_address_they_come_from(void **state)
{
	union peer_address to = v4("127.0.0.1"), from;
	int listener = socket(AF_INET, SOCK_STREAM, 0), clients[2], socks[2];
	socklen_t bytes = sizeof(to);
	struct peer_key k[2];

	to.v4.sin_port = 0;
	assert_int_equal(bind(listener, (struct sockaddr *)&to, sizeof(to.v4)), 0);
	assert_int_equal(listen(listener, 2), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &bytes), 0);
	for (int i = 0; i < 2; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		from = v4(i ? "127.0.0.2" : "127.9.9.9");
		from.v4.sin_port = 0;
		assert_int_equal(bind(clients[i], (struct sockaddr *)&from, sizeof(from.v4)), 0);
		assert_int_equal(connect(clients[i], (struct sockaddr *)&to, sizeof(to.v4)), 0);
		socks[i] = accept(listener, NULL, NULL);
		peer_key_of(&k[i], socks[i]);
		assert_int_equal(k[i].kind, PEER_USER);
		assert_int_equal(k[i].value, getuid());
	}
	for (int i = 0; i < 2; i++) {
		close(clients[i]);
		close(socks[i]);
	}
	close(listener);
}

/* Who hangs up at once is not known, and is no new peer for each address. */
static void a_connection_that_is_over_is_one_of_loopback(void **state)
{
	union peer_address to = v4("127.0.0.1"), from = v4("127.0.0.7");
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0),
	    sock;
	socklen_t bytes = sizeof(to);
	struct peer_key k;

	to.v4.sin_port = from.v4.sin_port = 0;
	assert_int_equal(bind(listener, (struct sockaddr *)&to, sizeof(to.v4)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &bytes), 0);
	assert_int_equal(bind(client, (struct sockaddr *)&from, sizeof(from.v4)), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&to, sizeof(to.v4)), 0);
	sock = accept(listener, NULL, NULL);
	close(client);
	peer_key_of(&k, sock);
	assert_true(same(k, key(v4("127.0.0.1"))));
	close(sock);
	close(listener);
}

static void a_unix_socket_has_its_user(void **state)
{
	struct peer_key k;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	peer_key_of(&k, pair[0]);
	assert_true(same(k, (struct peer_key){PEER_USER, getuid()}));
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(loopback_addresses_are_one_peer),
	    cmocka_unit_test(addresses_of_one_machine_are_one_peer),
	    cmocka_unit_test(ipv4_over_ipv6_is_ipv4),
	    cmocka_unit_test(connections_of_a_user_are_one_peer_whatever_address_they_come_from),
	    cmocka_unit_test(a_connection_that_is_over_is_one_of_loopback),
	    cmocka_unit_test(a_unix_socket_has_its_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
