/* SPDX-License-Identifier: Apache-2.0
 * peer_dials - the same storm as bench_dials by nng's own TLS: one listener in a process of its own,
 * and so many dialers at once.
 * usage: peer_dials COUNT SERVER CLIENT CA (files of PEM; the first two with certificate and key) */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/tls/tls.h>
#include <nng/transport/tls/tls.h>

#include "base/check.h"
#include "tests/bench/dial_wait.h"

#define LIMIT_NS 60000000000ull

static uint32_t up;

static void changed(nng_pipe p, nng_pipe_ev event, void *arg)
{
	(void)p;
	(void)arg;
	__atomic_add_fetch(&up, event == NNG_PIPE_EV_ADD_POST ? 1 : UINT32_MAX, __ATOMIC_RELAXED);
}

static nng_tls_config *config_of(nng_tls_mode mode, const char *own, const char *ca)
{
	nng_tls_config *c;

	CHECK(!nng_tls_config_alloc(&c, mode));
	CHECK(!nng_tls_config_ca_file(c, ca));
	CHECK(!nng_tls_config_cert_key_file(c, own, NULL));
	CHECK(!nng_tls_config_auth_mode(c, NNG_TLS_AUTH_MODE_REQUIRED));
	if (mode == NNG_TLS_MODE_CLIENT)
		CHECK(!nng_tls_config_server_name(c, "localhost"));
	return c;
}

static void listen_on(int port_fd, char **argv)
{
	nng_socket s;
	nng_listener l;
	int port = 0;

	CHECK(!nng_rep0_open(&s));
	CHECK(!nng_listener_create(&l, s, "tls+tcp://127.0.0.1:0"));
	CHECK(!nng_listener_setopt_ptr(l, NNG_OPT_TLS_CONFIG,
				       config_of(NNG_TLS_MODE_SERVER, argv[2], argv[4])));
	CHECK(!nng_listener_start(l, 0));
	CHECK(!nng_listener_getopt_int(l, NNG_OPT_TCP_BOUND_PORT, &port));
	CHECK(write(port_fd, &port, sizeof(port)) == sizeof(port));
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	uint32_t count = argc == 5 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	nng_socket *s = calloc(count, sizeof(*s));
	struct dial_wait w;
	uint64_t begun_ns;
	int ends[2], port = 0;
	struct rusage used;
	nng_tls_config *c;
	char url[64];
	pid_t server;

	if (!count || !s || pipe(ends))
		return 2;
	server = fork();
	if (!server)
		listen_on(ends[1], argv);
	CHECK(read(ends[0], &port, sizeof(port)) == sizeof(port));
	snprintf(url, sizeof(url), "tls+tcp://127.0.0.1:%d", port);
	c = config_of(NNG_TLS_MODE_CLIENT, argv[3], argv[4]);
	begun_ns = clock_monotonic_ns();
	for (uint32_t i = 0; i < count; i++) {
		nng_dialer d;

		CHECK(!nng_req0_open(&s[i]));
		CHECK(!nng_setopt_ms(s[i], NNG_OPT_RECONNMINT, 200));
		CHECK(!nng_setopt_ms(s[i], NNG_OPT_RECONNMAXT, 3500));
		CHECK(!nng_pipe_notify(s[i], NNG_PIPE_EV_ADD_POST, changed, NULL));
		CHECK(!nng_pipe_notify(s[i], NNG_PIPE_EV_REM_POST, changed, NULL));
		CHECK(!nng_dialer_create(&d, s[i], url));
		CHECK(!nng_dialer_setopt_ptr(d, NNG_OPT_TLS_CONFIG, c));
		CHECK(!nng_dialer_start(d, NNG_FLAG_NONBLOCK));
	}
	w = dial_wait(&up, count, begun_ns, LIMIT_NS);
	kill(server, SIGKILL);
	wait4(server, NULL, 0, &used);
	printf("%u of %u up after %.2f s, half of them after %.2f s; the listener took %.2f ms of "
	       "CPU time a "
	       "dial\n",
	       w.up, count, (double)w.took_ns * 1e-9, (double)w.half_ns * 1e-9,
	       ((double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
		(double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-3) /
		   count);
	fflush(stdout);
	_exit(0);
}
