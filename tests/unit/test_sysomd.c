/* SPDX-License-Identifier: Apache-2.0
 * test_sysomd.c - the program itself, between a process that writes a ring and an aggregator, both
 * of our own making. Stamps lie in the past, so that minutes of a job take a second. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/exit_status.h"
#include "base/clock.h"
#include "base/job_key.h"
#include "ring/attach.h"
#include "ring/ring_writer.h"
#include "tests/unit/fuse_hang.h"
#include "tests/unit/skip.h"
#include "wire/codec.h"

#define MS	     1000000ull
#define STEP_NS	     (20 * MS)
#define STEP_KERNELS 10u
#define WINDOWS_MAX  64
#define PATIENCE_MS  20000

/* ---- the aggregator ---- */

struct sink {
	pthread_t thread;
	pthread_mutex_t lock;
	nng_socket socket;
	bool open, stopping;
	enum wire_status status; /* answered to windows */
	struct window windows[WINDOWS_MAX];
	unsigned window_count, refused_count, beat_count, beat_ranks;
	uint64_t beat_lost; /* of the latest, of all ranks */
	/* of the only rank: its groups as one row; latest collectives, communicators; sketches */
	uint64_t group_first, group_next, group_used, group_flagged, group_gaps;
	double group_latency_ns, group_self_ns; /* of the latest */
	struct beat_coll colls[BEAT_COLLS_MAX];
	struct beat_comm comms[BEAT_COMMS_MAX];
	uint32_t coll_count, comm_count, beat_flags;
	unsigned sketch_count;
	struct sketch sketch; /* the first */
	uint64_t again;	      /* begin of the latest one after it */
	unsigned beats_before_again;
	struct wire_command command; /* rides in the next reply when kind is set */
};

static void sink_take_rank(struct sink *s, const struct beat_rank *r)
{
	for (uint32_t i = 0; i < r->group_count; i++) {
		const struct beat_group *g = &r->groups[i];

		if (!s->group_next)
			s->group_first = g->first_step;
		else
			s->group_gaps += g->first_step != s->group_next;
		s->group_next = g->first_step + g->count;
		s->group_used += g->used;
		s->group_flagged += g->flagged;
		s->group_latency_ns = g->latency_ns;
		s->group_self_ns = g->self_ns;
	}
	for (uint32_t i = 0; i < r->coll_count && s->coll_count < BEAT_COLLS_MAX; i++)
		s->colls[s->coll_count++] = r->colls[i];
	s->comm_count = r->comm_count;
	memcpy(s->comms, r->comms, sizeof(s->comms));
	s->beat_flags = r->flags;
}

static void sink_take(struct sink *s, const void *data, size_t bytes, struct wire_reply *r)
{
	struct window w;
	struct beat b;

	if (codec_kind(data, bytes) == WIRE_BEAT) {
		assert_int_equal(wire_beat_decode(data, bytes, &b), 0);
		s->beat_count++;
		s->beat_ranks = b.rank_count;
		s->beat_lost = 0;
		for (uint32_t i = 0; i < b.rank_count; i++)
			s->beat_lost += b.ranks[i].lost;
		if (b.rank_count == 1)
			sink_take_rank(s, &b.ranks[0]);
		wire_beat_free(&b);
	} else if (codec_kind(data, bytes) == WIRE_SKETCH) {
		struct sketch k;

		assert_int_equal(wire_sketch_decode(data, bytes, &k), 0);
		if (s->sketch_count++) {
			s->again = k.begin_ns;
			s->beats_before_again = s->beat_count;
			wire_sketch_free(&k);
		} else {
			s->sketch = k;
		}
	} else {
		assert_int_equal(wire_window_decode(data, bytes, &w), 0);
		memcpy(r->id, w.id, sizeof(r->id));
		r->status = s->status;
		if (s->status == WIRE_OK && s->window_count < WINDOWS_MAX) {
			s->windows[s->window_count++] = w;
		} else {
			s->refused_count++;
			wire_window_free(&w);
		}
	}
	if (s->command.kind) {
		r->commands[r->command_count++] = s->command;
		s->command.kind = 0;
	}
}

static void *sink_thread(void *arg)
{
	struct sink *s = arg;
	nng_msg *m;

	while (!__atomic_load_n(&s->stopping, __ATOMIC_RELAXED)) {
		struct wire_reply r = {0};
		struct buf out;

		if (nng_recvmsg(s->socket, &m, 0))
			continue;
		pthread_mutex_lock(&s->lock);
		sink_take(s, nng_msg_body(m), nng_msg_len(m), &r);
		pthread_mutex_unlock(&s->lock);
		buf_init(&out, 1 << 20);
		wire_reply_encode(&r, &out);
		nng_msg_clear(m);
		nng_msg_append(m, out.data, out.bytes);
		buf_fini(&out);
		if (nng_sendmsg(s->socket, m, 0))
			nng_msg_free(m);
	}
	return NULL;
}

static void sink_start(struct sink *s, const char *url)
{
	assert_int_equal(nng_rep0_open(&s->socket), 0);
	nng_socket_set_ms(s->socket, NNG_OPT_RECVTIMEO, 50);
	assert_int_equal(nng_listen(s->socket, url, NULL, 0), 0);
	s->stopping = false;
	s->open = true;
	pthread_create(&s->thread, NULL, sink_thread, s);
}

static void sink_stop(struct sink *s)
{
	if (!s->open)
		return;
	__atomic_store_n(&s->stopping, true, __ATOMIC_RELAXED);
	pthread_join(s->thread, NULL);
	nng_close(s->socket);
	s->open = false;
}

/* ---- the daemon ---- */

struct rig {
	char dir[64], program[512], url[64], http[64];
	char attach[96], control[96], state[96], log[96];
	int port, http_port;
	pid_t sysomd;
	struct sink sink;
	struct ring_writer ring;
	struct ring_lane_writer host, device;
	int sock;
	struct attach_hello hello;
	uint64_t t; /* of the next step */
	uint32_t correlation, launched, step, gemm, relu;
};

static int free_port(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0), port;

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	getsockname(fd, (struct sockaddr *)&sa, &bytes);
	port = ntohs(sa.sin_port);
	close(fd);
	return port;
}

static bool until(bool (*done)(struct rig *g), struct rig *g)
{
	for (int i = 0; i < PATIENCE_MS / 5; i++) {
		if (done(g))
			return true;
		usleep(5000);
	}
	return false;
}

static bool listens(struct rig *g)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	bool ok;

	strcpy(sa.sun_path, g->control); /* opened after everything else */
	ok = !connect(fd, (struct sockaddr *)&sa, sizeof(sa));
	close(fd);
	return ok;
}

static void daemon_start(struct rig *g)
{
	g->sysomd = fork();
	assert_true(g->sysomd >= 0);
	if (!g->sysomd) {
		int fd = open(g->log, O_CREAT | O_WRONLY | O_APPEND, 0600);

		dup2(fd, 1);
		dup2(fd, 2);
		execl(g->program, g->program, "--socket-path", g->attach, "--control-path",
		      g->control, "--state-dir", g->state, "--http-listen", g->http, "--uplink-url",
		      g->url, "--stall-after", "1h", "--beat-period", "200ms", "--node-name",
		      "testnode", NULL);
		_exit(127);
	}
	assert_true(until(listens, g));
}

static int daemon_end(struct rig *g, int signum)
{
	int status = 0;

	if (g->sysomd > 0) {
		kill(g->sysomd, signum);
		waitpid(g->sysomd, &status, 0);
	}
	g->sysomd = 0;
	return status;
}

/* ---- the process ---- */

/* As the job's helper thread does: dial again when hung up on. */
static bool accepted(struct rig *g)
{
	struct attach_command c;
	struct pollfd p;

	if (g->sock < 0)
		g->sock =
		    attach_connect(g->attach, &g->hello, (int[]){g->ring.fd, g->ring.page_fd});
	p = (struct pollfd){g->sock, POLLIN, 0};
	if (g->sock < 0 || poll(&p, 1, 100) != 1)
		return false;
	if (recv(g->sock, &c, sizeof(c), MSG_DONTWAIT) == (ssize_t)sizeof(c) &&
	    c.kind == ATTACH_ACCEPT)
		return true;
	close(g->sock);
	g->sock = -1;
	return false;
}

static void job_attach(struct rig *g)
{
	if (g->sock >= 0)
		close(g->sock);
	g->sock = -1;
	assert_true(until(accepted, g));
}

static void job_start(struct rig *g)
{
	struct ring_geometry geo;
	struct event_stream e = {.head = {.kind = EVENT_STREAM},
				 .stream = 0x50,
				 .context = 0x70,
				 .stream_id = 7,
				 .context_id = 1};

	ring_geometry_default(&geo);
	geo.host_clock = geo.device_clock = CLOCK_SOURCE_MONOTONIC;
	assert_int_equal(ring_writer_init(&g->ring, &geo), 0);
	assert_int_equal(ring_writer_fill(&g->ring), 0);
	assert_true(ring_writer_claim(&g->ring, RING_LANE_HOST, 4711, &g->host));
	assert_true(ring_writer_claim(&g->ring, RING_LANE_DEVICE, 4712, &g->device));
	g->gemm = ring_writer_intern(&g->ring, "gemm_kernel", 11);
	g->relu = ring_writer_intern(&g->ring, "relu_kernel", 11);
	attach_hello_fill(&g->hello);
	g->hello.rank = 3;
	g->hello.world_size = 8;
	strcpy(g->hello.job, "flow \"job\"");
	g->t = clock_monotonic_ns() - 120000 * MS;
	e.head.t = g->t - MS;
	ring_writer_push(&g->host, &e);
}

/* An aggregator, sysomd and a job that has attached. */
static void attached_start(struct rig *g)
{
	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	job_attach(g);
}

static bool drained(struct rig *g)
{
	return !ring_writer_backlog(&g->host, clock_monotonic_ns()) &&
	       !ring_writer_backlog(&g->device, clock_monotonic_ns());
}

/* One step: ten launches, the kernels as long as `slow` says, host and device in time. */
static void job_step(struct rig *g, double slow)
{
	struct event_step mark = {
	    .head = {.kind = EVENT_STEP_BEGIN, .flags = EVENT_FLAG_EXPLICIT, .t = g->t},
	    .work = {100},
	    .work_count = 1,
	    .index = g->step++};
	uint64_t kernel_ns = (uint64_t)(1.8 * MS * slow);
	uint64_t step_ns = (uint64_t)(STEP_NS * slow) + g->step % 7 * 20000;

	ring_writer_push(&g->host, &mark);
	for (uint32_t i = 0; i < STEP_KERNELS; i++) {
		struct event_launch l = {
		    .head = {.kind = EVENT_LAUNCH, .t = g->t + i * kernel_ns + 1000},
		    .func = 0x100 + i % 2,
		    .stream = 0x50,
		    .grid = {1 + i, 1, 1},
		    .block = {64, 1, 1},
		    .duration = 5000,
		    .number = RING_NUMBER(0, ++g->launched)};

		ring_writer_push(&g->host, &l);
	}
	mark.head.kind = EVENT_STEP_END;
	mark.head.t = g->t + step_ns - 1000;
	ring_writer_push(&g->host, &mark);
	for (uint32_t i = 0; i < STEP_KERNELS; i++) {
		uint64_t from = g->t + i * kernel_ns + 20000;
		struct event_kernel k = {.head = {.kind = EVENT_KERNEL, .t = from},
					 .end = from + kernel_ns - 30000,
					 .correlation = ++g->correlation,
					 .context_id = 1,
					 .stream_id = 7,
					 .name = i % 2 ? g->relu : g->gemm,
					 .grid = {1 + i, 1, 1},
					 .block = {64, 1, 1},
					 .number = RING_NUMBER(0, g->correlation)};

		ring_writer_push(&g->device, &k);
	}
	g->t += step_ns;
}

/* Host events go first: in a real job kernels are reported long after their launch. */
static void job_steps(struct rig *g, unsigned n, double slow)
{
	for (unsigned i = 0; i < n; i++) {
		job_step(g, slow);
		if (i % 50 == 49)
			assert_true(until(drained, g));
	}
	assert_true(until(drained, g));
}

static void job_end(struct rig *g)
{
	if (g->sock >= 0)
		close(g->sock);
	g->sock = -1;
	ring_writer_fini(&g->ring);
}

/* ---- HTTP ---- */

static int http_as(struct rig *g, const char *host, bool control, const char *request, char *out,
		   size_t out_bytes)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)g->http_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(control ? AF_UNIX : AF_INET, SOCK_STREAM, 0), code = 0;
	size_t n = 0;
	char text[256];

	strcpy(un.sun_path, g->control);
	if (control ? connect(fd, (struct sockaddr *)&un, sizeof(un))
		    : connect(fd, (struct sockaddr *)&in, sizeof(in))) {
		close(fd);
		return -errno;
	}
	snprintf(text, sizeof(text),
		 "%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		 request, host);
	assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
	for (ssize_t got; n + 1 < out_bytes && (got = recv(fd, out + n, out_bytes - 1 - n, 0)) > 0;)
		n += (size_t)got;
	out[n] = 0;
	close(fd);
	sscanf(out, "HTTP/1.1 %d", &code);
	return code;
}

static int http(struct rig *g, bool control, const char *request, char *out, size_t out_bytes)
{
	return http_as(g, "localhost", control, request, out, out_bytes);
}

/* ---- set up ---- */

static int setup(void **state)
{
	struct rig *g = calloc(1, sizeof(*g));
	ssize_t n = readlink("/proc/self/exe", g->program, sizeof(g->program) - 32);
	char *slash;

	*state = g;
	g->sock = -1;
	g->program[n > 0 ? n : 0] = 0;
	for (int i = 0; i < 2; i++)
		if ((slash = strrchr(g->program, '/')))
			*slash = 0;
	strcat(g->program, "/bin/sysomd");
	if (access(g->program, X_OK))
		return -1;
	strcpy(g->dir, "/tmp/test_sysomd.XXXXXX");
	if (!mkdtemp(g->dir))
		return -1;
	snprintf(g->attach, sizeof(g->attach), "%s/a.sock", g->dir);
	snprintf(g->control, sizeof(g->control), "%s/c.sock", g->dir);
	snprintf(g->state, sizeof(g->state), "%s/state", g->dir);
	snprintf(g->log, sizeof(g->log), "%s/log", g->dir);
	g->port = free_port();
	g->http_port = free_port();
	snprintf(g->url, sizeof(g->url), "tcp://127.0.0.1:%d", g->port);
	snprintf(g->http, sizeof(g->http), "127.0.0.1:%d", g->http_port);
	pthread_mutex_init(&g->sink.lock, NULL);
	return 0;
}

static int teardown(void **state)
{
	struct rig *g = *state;
	char command[128];

	daemon_end(g, SIGKILL);
	sink_stop(&g->sink);
	for (unsigned i = 0; i < g->sink.window_count; i++)
		wire_window_free(&g->sink.windows[i]);
	wire_sketch_free(&g->sink.sketch);
	if (g->ring.base)
		job_end(g);
	snprintf(command, sizeof(command), "rm -rf %s", g->dir);
	free(g);
	return system(command);
}

static unsigned windows(struct rig *g)
{
	unsigned n;

	pthread_mutex_lock(&g->sink.lock);
	n = g->sink.window_count;
	pthread_mutex_unlock(&g->sink.lock);
	return n;
}

static bool has_refused(struct rig *g)
{
	unsigned n;

	pthread_mutex_lock(&g->sink.lock);
	n = g->sink.refused_count;
	pthread_mutex_unlock(&g->sink.lock);
	return n > 0;
}

static bool has_window(struct rig *g)
{
	return windows(g) > 0;
}

/* All but the last steps have been judged, and so the anomaly's window is closed. */
static bool has_judged(struct rig *g)
{
	char text[65536];
	const char *p;

	return http(g, false, "GET /api/v1/status", text, sizeof(text)) == 200 &&
	       (p = strstr(text, "\"steps\":")) && strtoul(p + 8, NULL, 10) >= 425;
}

static bool has_spooled(struct rig *g)
{
	char path[128];
	DIR *d;
	bool found = false;

	snprintf(path, sizeof(path), "%s/spool", g->state);
	d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		found |= strstr(e->d_name, ".msg") && !strstr(e->d_name, ".tmp");
	if (d)
		closedir(d);
	return found;
}

static bool has_beat(struct rig *g)
{
	bool found;

	pthread_mutex_lock(&g->sink.lock);
	found = g->sink.beat_count > 0;
	pthread_mutex_unlock(&g->sink.lock);
	return found;
}

static bool has_suspect(struct rig *g)
{
	bool found = false;

	pthread_mutex_lock(&g->sink.lock);
	for (unsigned i = 0; i < g->sink.window_count; i++)
		found |= g->sink.windows[i].reason == WINDOW_SELF;
	pthread_mutex_unlock(&g->sink.lock);
	return found;
}

static const struct window *suspect(struct rig *g)
{
	const struct window *w = NULL;

	pthread_mutex_lock(&g->sink.lock);
	for (unsigned i = 0; i < g->sink.window_count && !w; i++)
		if (g->sink.windows[i].reason == WINDOW_SELF)
			w = &g->sink.windows[i];
	pthread_mutex_unlock(&g->sink.lock);
	assert_non_null(w);
	return w;
}

/* ---- cases ---- */

static void a_slow_rank_arrives_at_the_aggregator_as_a_window(void **state)
{
	struct rig *g = *state;
	const struct window *w;
	unsigned flagged = 0, joined = 0;

	attached_start(g);
	job_steps(g, 300, 1);
	job_steps(g, 30, 2);
	job_steps(g, 100, 1);
	assert_true(until(has_suspect, g));
	w = suspect(g);
	assert_int_equal(w->rank.rank, 3);
	{
		char key[WIRE_TEXT_BYTES];

		job_key_make(key, sizeof(key), "flow \"job\"", geteuid());
		assert_string_equal(w->rank.job, key);
		assert_int_equal(w->rank.owner, geteuid() + 1);
	}
	assert_string_equal(w->rank.node, "testnode");
	assert_false(w->summary_only);
	for (unsigned i = 0; i < w->step_count; i++)
		flagged += !!(w->steps[i].flags & WINDOW_STEP_FLAGGED);
	assert_in_range(flagged, 27, 30); /* two of three: the first may be let pass */
	assert_true(w->steps[0].flags & WINDOW_STEP_MARGIN);
	for (unsigned i = 0; i < w->device_count; i++) {
		joined += w->device[i].launch_ns != 0;
		assert_true(!strcmp(w->names[w->device[i].name], "gemm_kernel") ||
			    !strcmp(w->names[w->device[i].name], "relu_kernel"));
	}
	assert_true(w->device_count >= 30 * STEP_KERNELS);
	assert_int_equal(joined, w->device_count);
	assert_true(until(has_beat, g));
	sink_stop(&g->sink);
}

static bool has_groups(struct rig *g)
{
	bool yes;

	pthread_mutex_lock(&g->sink.lock);
	yes = g->sink.group_next >= 296 && g->sink.sketch_count;
	pthread_mutex_unlock(&g->sink.lock);
	return yes;
}

/* A healthy job that the aggregator has groups and a sketch of. */
static void job_is_known(struct rig *g)
{
	attached_start(g);
	job_steps(g, 300, 1);
	assert_true(until(has_groups, g));
	sink_stop(&g->sink);
}

static const char *setting(const struct sketch *k, const char *name)
{
	for (uint32_t i = 0; i < k->setting_count; i++)
		if (!strcmp(k->settings[i].name, name))
			return k->settings[i].value;
	return NULL;
}

/* A step is 20 ms and up to 120 us, its ten kernels 1.77 ms each, gemm and relu in turn. */
static void beats_and_sketches_have_the_jobs_figures(void **state)
{
	struct rig *g = *state;
	const struct sketch *k = &g->sink.sketch;
	struct utsname u;

	job_is_known(g);
	assert_int_equal(g->sink.group_first, 0);
	assert_int_equal(g->sink.group_gaps, 0);
	/* the first step's begin is no boundary */
	assert_in_range(g->sink.group_used, g->sink.group_next - 2, g->sink.group_next);
	assert_int_equal(g->sink.group_flagged, 0);
	assert_true(g->sink.group_latency_ns > 19.99e6 && g->sink.group_latency_ns < 20.13e6);
	assert_true(g->sink.group_self_ns > 17e6 && g->sink.group_self_ns < 20.13e6);
	assert_int_equal(k->rank.rank, 3);
	assert_true(k->steps >= 50 && k->steps <= 300);
	assert_int_equal(k->flagged, 0);
	assert_true(k->latency_ns > 19.99e6 && k->latency_ns < 20.13e6);
	assert_true(k->launches == STEP_KERNELS);
	assert_int_equal(k->kernel_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(!strcmp(k->kernels[i].name, i ? "relu_kernel" : "gemm_kernel") ||
			    !strcmp(k->kernels[i].name, i ? "gemm_kernel" : "relu_kernel"));
		/* where the sketch begins and ends a step's kernels may be in or out */
		assert_float_equal(k->kernels[i].per_step, 5, 0.05 + 5.0 / k->steps);
		assert_true(k->kernels[i].ns_per_step > 8.7e6 && k->kernels[i].ns_per_step < 9e6);
	}
	assert_int_equal(uname(&u), 0);
	assert_string_equal(setting(k, "kernel"), u.release);
}

static bool has_the_sketch_again(struct rig *g)
{
	bool yes;

	pthread_mutex_lock(&g->sink.lock);
	yes = g->sink.again == g->sink.sketch.begin_ns && g->sink.beats_before_again;
	pthread_mutex_unlock(&g->sink.lock);
	return yes;
}

static bool has_beats_of_all_steps(struct rig *g)
{
	static unsigned since;
	bool yes;

	pthread_mutex_lock(&g->sink.lock);
	if (g->sink.group_next < 296)
		since = g->sink.beat_count;
	yes = g->sink.beat_count > since + 10;
	pthread_mutex_unlock(&g->sink.lock);
	return yes;
}

/* The aggregator would refuse it. */
static void a_process_without_a_rank_has_no_sketch(void **state)
{
	struct rig *g = *state;

	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	g->hello.rank = -1;
	job_attach(g);
	job_steps(g, 300, 1);
	assert_true(until(has_beats_of_all_steps, g));
	assert_int_equal(g->sink.sketch_count, 0);
}

/* An aggregator that starts anew knows nothing: it has the ranks with the first beat, and then what is
 * normal of them, not with the next minute's sketch. */
static void a_new_aggregator_gets_the_latest_sketch(void **state)
{
	struct rig *g = *state;

	job_is_known(g);
	g->sink.beat_count = 0;
	sink_start(&g->sink, g->url);
	assert_true(until(has_the_sketch_again, g));
}

static void an_open_window_is_sent_on_sigterm_and_the_exit_is_clean(void **state)
{
	struct rig *g = *state;
	uint64_t begin_ns;
	int status;

	attached_start(g);
	job_steps(g, 300, 1);
	job_steps(g, 12, 2); /* the anomaly goes on */
	usleep(100000);
	begin_ns = clock_monotonic_ns();
	status = daemon_end(g, SIGTERM);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(clock_monotonic_ns() - begin_ns < 10000 * MS);
	assert_true(has_window(g));
	assert_int_equal(suspect(g)->rank.rank, 3);
	assert_int_not_equal(access(g->attach, F_OK), 0);
}

static void a_window_waits_on_disk_while_the_aggregator_is_away_and_survives_kill_9(void **state)
{
	struct rig *g = *state;

	daemon_start(g);
	job_start(g);
	job_attach(g);
	job_steps(g, 300, 1);
	job_steps(g, 30, 2);
	job_steps(g, 100, 1);
	assert_true(until(has_judged, g));
	usleep(200000);
	assert_true(until(has_spooled, g));
	daemon_end(g, SIGKILL);
	sink_start(&g->sink, g->url);
	daemon_start(g);
	assert_true(until(has_suspect, g));
	assert_int_equal(suspect(g)->rank.rank, 3);
}

static void a_job_is_picked_up_again_after_kill_9(void **state)
{
	struct rig *g = *state;
	char text[65536];
	const char *p;

	attached_start(g);
	job_steps(g, 100, 1);
	daemon_end(g, SIGKILL);
	/* Meanwhile the job runs on, within what a ring holds. */
	for (unsigned i = 0; i < 20; i++)
		job_step(g, 1);
	daemon_start(g);
	job_attach(g);
	job_steps(g, 300, 1);
	job_steps(g, 30, 2);
	job_steps(g, 100, 1);
	assert_true(until(has_suspect, g));
	assert_int_equal(suspect(g)->rank.rank, 3);
	assert_int_equal(http(g, false, "GET /api/v1/status", text, sizeof(text)), 200);
	p = strstr(text, "\"lost\":{");
	assert_non_null(p);
	if (strstr(p, "lapped"))
		print_message("%s\n", text);
	assert_null(strstr(p, "lapped"));
}

static void a_process_that_dials_again_keeps_its_models(void **state)
{
	struct rig *g = *state;
	char text[65536];

	attached_start(g);
	job_steps(g, 200, 1);
	job_attach(g); /* another socket, the same ring */
	job_steps(g, 100, 1);
	job_steps(g, 30, 2);
	job_steps(g, 50, 1);
	assert_true(until(has_suspect, g));
	assert_int_equal(http(g, false, "GET /metrics", text, sizeof(text)), 200);
	assert_non_null(strstr(text, "sysom_reattached_total 1\n"));
	assert_non_null(strstr(text, "sysom_attached_total 1\n"));
	assert_non_null(strstr(text, "{job_name=\"flow \\\"job\\\"@"));
}

static void a_refused_window_is_dropped_and_one_to_retry_comes_again(void **state)
{
	struct rig *g = *state;
	char text[65536];

	sink_start(&g->sink, g->url);
	g->sink.status = WIRE_REJECT;
	daemon_start(g);
	job_start(g);
	job_attach(g);
	job_steps(g, 300, 1);
	job_steps(g, 30, 2);
	job_steps(g, 100, 1);
	assert_true(until(has_refused, g));
	pthread_mutex_lock(&g->sink.lock);
	g->sink.status = WIRE_RETRY;
	pthread_mutex_unlock(&g->sink.lock);
	usleep(300000);
	assert_int_equal(
	    http(g, true, "POST /api/v1/capture?rank=3&seconds=100", text, sizeof(text)), 200);
	usleep(300000);
	assert_int_equal(windows(g), 0);
	pthread_mutex_lock(&g->sink.lock);
	g->sink.status = WIRE_OK;
	pthread_mutex_unlock(&g->sink.lock);
	assert_true(until(has_window, g));
	assert_int_equal(http(g, false, "GET /metrics", text, sizeof(text)), 200);
	assert_null(strstr(text, "sysom_uplink_windows_rejected_total 0\n"));
}

static void a_command_in_a_reply_is_answered_with_the_window(void **state)
{
	struct rig *g = *state;
	uint64_t begin_ns;

	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	begin_ns = g->t;
	job_attach(g);
	job_steps(g, 100, 1);
	pthread_mutex_lock(&g->sink.lock);
	g->sink.command = (struct wire_command){.kind = 1,
						.rank = 3,
						.begin_ns = begin_ns + 10 * STEP_NS,
						.end_ns = begin_ns + 20 * STEP_NS};
	strcpy(g->sink.command.job, "flow \"job\"");
	pthread_mutex_unlock(&g->sink.lock);
	assert_true(until(has_window, g));
	assert_int_equal(g->sink.windows[0].reason, WINDOW_ASKED);
	assert_in_range(g->sink.windows[0].device_count, 9 * STEP_KERNELS, 11 * STEP_KERNELS);
	assert_in_range(g->sink.windows[0].step_count, 9, 12);
}

/* The first such number in this section of the status. */
static uint64_t status_number(struct rig *g, const char *section, const char *key)
{
	char text[65536], begin[64], quoted[64];
	const char *p;

	snprintf(begin, sizeof(begin), "\"%s\":", section);

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	if (http(g, false, "GET /api/v1/status", text, sizeof(text)) != 200 ||
	    !(p = strstr(text, begin)) || !(p = strstr(p, quoted)))
		return 0;
	return strtoull(p + strlen(quoted), NULL, 10);
}

static bool command_gone(struct rig *g)
{
	bool gone;

	pthread_mutex_lock(&g->sink.lock);
	gone = !g->sink.command.kind;
	pthread_mutex_unlock(&g->sink.lock);
	return gone;
}

static void order(struct rig *g, uint32_t kind, int32_t rank, uint64_t begin_ns, uint64_t end_ns,
		  const char *id)
{
	assert_true(until(command_gone, g));
	pthread_mutex_lock(&g->sink.lock);
	g->sink.command = (struct wire_command){
	    .kind = kind, .rank = rank, .begin_ns = begin_ns, .end_ns = end_ns};
	strcpy(g->sink.command.job, "flow \"job\"");
	memcpy(g->sink.command.anomaly_id, id, strlen(id));
	pthread_mutex_unlock(&g->sink.lock);
	assert_true(until(command_gone, g));
}

static bool all_taken(struct rig *g)
{
	return status_number(g, "asked", "windows") +
		   status_number(g, "asked", "windows_bounded") ==
	       9;
}

static bool is_looked_at(struct rig *g)
{
	bool yes;

	pthread_mutex_lock(&g->sink.lock);
	yes = g->sink.beat_flags & BEAT_RANK_WIDE;
	pthread_mutex_unlock(&g->sink.lock);
	return yes;
}

static bool has_nobody(struct rig *g)
{
	return status_number(g, "asked", "nobody") == 1;
}

/* Nine windows where four are granted at once; commands that make no sense; a closer look. */
static void commands_are_bounded_and_counted(void **state)
{
	struct rig *g = *state;
	uint64_t begin_ns, granted;

	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	begin_ns = g->t;
	job_attach(g);
	job_steps(g, 100, 1);
	order(g, 99, 3, begin_ns, begin_ns + 1, "x");
	order(g, WIRE_COMMAND_WINDOW, 3, begin_ns + 5, begin_ns + 5, "x");
	order(g, WIRE_COMMAND_WINDOW, 3, begin_ns, UINT64_MAX, "x");
	order(g, WIRE_COMMAND_HOLD, 4, begin_ns, begin_ns + 1, "x");
	assert_true(until(has_nobody, g));
	assert_int_equal(status_number(g, "asked", "unknown"), 1);
	assert_int_equal(status_number(g, "asked", "bad"), 2);
	for (uint64_t i = 0; i < 9; i++)
		order(g, WIRE_COMMAND_WINDOW, 3, begin_ns + i * STEP_NS,
		      begin_ns + (i + 5) * STEP_NS, "the asker's own");
	assert_true(until(all_taken, g));
	granted = status_number(g, "asked", "windows");
	assert_in_range(granted, 4, 6); /* the bucket fills by one every ten seconds */
	for (unsigned i = 0; i < windows(g); i++)
		assert_memory_equal(g->sink.windows[i].anomaly_id, "the asker's own", 16);
	assert_false(is_looked_at(g));
	order(g, WIRE_COMMAND_SUSPECT, 3, 0, clock_monotonic_ns() + 60000 * MS, "x");
	assert_true(until(is_looked_at, g));
	assert_int_equal(status_number(g, "asked", "suspects"), 1);
}

static bool is_kept(struct rig *g)
{
	return status_number(g, "asked", "holds_kept") == 1;
}

static bool has_judged_600(struct rig *g)
{
	return status_number(g, "ranks", "steps") >= 600;
}

/* 512 steps are remembered: what is held comes with its steps all the same. */
static void a_held_stretch_outlives_what_is_remembered(void **state)
{
	struct rig *g = *state;
	uint64_t begin_ns;

	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	begin_ns = g->t;
	job_attach(g);
	job_steps(g, 100, 1);
	order(g, WIRE_COMMAND_HOLD, 3, begin_ns + 10 * STEP_NS, begin_ns + 20 * STEP_NS, "held");
	assert_true(until(is_kept, g)); /* 512 steps of 20 ms are gone in ten seconds */
	job_steps(g, 600, 1);
	assert_true(until(has_judged_600, g));
	order(g, WIRE_COMMAND_WINDOW, 3, begin_ns + 10 * STEP_NS, begin_ns + 20 * STEP_NS, "asked");
	assert_true(until(has_window, g));
	assert_in_range(g->sink.windows[0].step_count, 9, 12);
	assert_in_range(g->sink.windows[0].device_count, 9 * STEP_KERNELS, 11 * STEP_KERNELS);
	assert_int_equal(status_number(g, "asked", "holds_used"), 1);
}

/* One message from sysomd; attach_connect leaves the socket non-blocking. */
static bool receive(int sock, struct attach_command *c)
{
	struct pollfd p = {sock, POLLIN, 0};

	return poll(&p, 1, PATIENCE_MS) == 1 && recv(sock, c, sizeof(*c), 0) == (ssize_t)sizeof(*c);
}

/* Asks for it, is the process that does so, and waits for the answer. */
static struct attach_command switched(struct rig *g, const char *how, uint32_t state,
				      const char *answer)
{
	struct attach_state st = {.magic = ATTACH_MAGIC, .trace_state = state};
	struct attach_command c;
	char request[80];
	char text[4096];
	int status;
	pid_t asker;

	snprintf(request, sizeof(request), "POST /api/v1/trace?%s&rank=3", how);
	asker = fork();
	if (!asker) {
		int code = http(g, true, request, text, sizeof(text));

		_exit(code == 200 && strstr(text, answer) ? 0 : 1);
	}
	assert_true(receive(g->sock, &c));
	usleep(50000);
	assert_int_equal(waitpid(asker, &status, WNOHANG), 0);
	st.serial = c.serial;
	assert_int_equal(send(g->sock, &st, sizeof(st), 0), sizeof(st));
	waitpid(asker, &status, 0);
	assert_int_equal(status, 0);
	return c;
}

static void switch_off(struct rig *g, const char *answer)
{
	assert_int_equal(switched(g, "state=off", RING_TRACE_OFF, answer).kind, ATTACH_OFF);
}

static void channels_are_asked_for_and_the_answer_waits_for_the_process(void **state)
{
	struct rig *g = *state;
	static const char *const bad[] = {"state=off&channels=3",
					  "state=on&channels=", "state=on&channels=-1",
					  "state=on&channels=3601", "state=on&channels=nan"};
	struct attach_command c;
	char text[4096], request[80];

	daemon_start(g);
	job_start(g);
	job_attach(g);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(request, sizeof(request), "POST /api/v1/trace?%s", bad[i]);
		assert_int_equal(http(g, true, request, text, sizeof(text)), 400);
	}
	c = switched(g, "state=on&channels=2.5", RING_TRACE_ON,
		     "{\"changed\":1,\"already\":0,\"asked\":1,\"ranks\":[3]}");
	assert_int_equal(c.kind, ATTACH_CHANNELS);
	assert_int_equal(c.arg, 2500);
	/* where tracing is off there is nothing to record them */
	switched(g, "state=on&channels=2.5", RING_TRACE_OFF, "{\"changed\":0,\"already\":0,");
}

static void tracing_is_switched_and_the_answer_waits_for_the_process(void **state)
{
	struct rig *g = *state;
	char text[4096];

	daemon_start(g);
	job_start(g);
	job_attach(g);
	assert_int_equal(http(g, false, "POST /api/v1/trace?state=off", text, sizeof(text)), 403);
	assert_int_equal(http(g, true, "POST /api/v1/trace?state=maybe", text, sizeof(text)), 400);
	assert_int_equal(http(g, true, "POST /api/v1/trace?state=off&rank=9", text, sizeof(text)),
			 404);
	switch_off(g, "{\"changed\":1,\"already\":0,\"asked\":1,\"ranks\":[3]}");
	/* The same again changes nothing. */
	switch_off(g, "{\"changed\":0,\"already\":1,\"asked\":1,\"ranks\":[]}");
	/* Nobody answers: it says so within a second. */
	assert_int_equal(http(g, true, "POST /api/v1/trace?state=on", text, sizeof(text)), 504);
	assert_non_null(strstr(text, "\"changed\":0"));
	assert_non_null(strstr(text, "1 of 1 processes did not answer in time"));
}

static bool reports_2_lost(struct rig *g)
{
	bool yes;

	pthread_mutex_lock(&g->sink.lock);
	yes = g->sink.beat_lost == 2;
	pthread_mutex_unlock(&g->sink.lock);
	return yes;
}

/* Nor are values and functions of a catalogue, which only status and doctor tell of. */
static void what_was_switched_off_is_not_lost(void **state)
{
	struct rig *g = *state;
	char text[16384];

	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	ring_writer_count_drop(&g->ring, RING_DROP_NO_LANE, 2);
	ring_writer_count_drop(&g->ring, RING_DROP_SWITCHED_OFF, 21);
	ring_writer_count_drop(&g->ring, RING_DROP_SPAN_FUNCTION, 3);
	job_attach(g);
	assert_true(until(reports_2_lost, g));
	assert_int_equal(http(g, true, "GET /api/v1/status", text, sizeof(text)), 200);
	assert_non_null(strstr(text, "\"lost\":{\"no_lane\":2,\"span_function\":3}"));
	assert_non_null(strstr(text, "\"switched_off\":21")); /* and reported all the same */
}

static void a_process_that_is_refused_again_and_again_is_reported_once(void **state)
{
	struct rig *g = *state;
	static char log[1 << 16];
	unsigned lines = 0;
	FILE *f;

	daemon_start(g);
	job_start(g);
	g->hello.version = 1; /* of an old libsysom_preload */
	for (int i = 0; i < 5; i++) {
		struct attach_command c = {0};
		int sock =
		    attach_connect(g->attach, &g->hello, (int[]){g->ring.fd, g->ring.page_fd});

		assert_true(receive(sock, &c));
		assert_int_equal(c.kind, ATTACH_REFUSE);
		close(sock);
	}
	assert_int_equal(daemon_end(g, SIGTERM), 0);
	f = fopen(g->log, "r");
	assert_non_null(f);
	log[fread(log, 1, sizeof(log) - 1, f)] = 0;
	fclose(f);
	for (const char *at = log; (at = strstr(at, "refused: its libsysom_preload")); at++)
		lines++;
	assert_int_equal(lines, 1);
}

/* A web page whose own name leads here reads nothing; who may open the control socket is no web page. */
static void a_name_of_another_site_is_refused(void **state)
{
	struct rig *g = *state;
	char text[65536];

	daemon_start(g);
	assert_int_equal(
	    http_as(g, "evil.example", false, "GET /api/v1/status", text, sizeof(text)), 421);
	assert_null(strstr(text, "\"node\""));
	assert_int_equal(http_as(g, "127.0.0.1", false, "GET /api/v1/status", text, sizeof(text)),
			 200);
	assert_int_equal(http_as(g, "evil.example", true, "GET /api/v1/status", text, sizeof(text)),
			 200);
	assert_int_equal(http(g, false, "GET /metrics", text, sizeof(text)), 200);
	assert_non_null(strstr(text, "sysom_http_foreign_host_total 1\n"));
}

/* ---- hostile peers ---- */

static int dial(struct rig *g)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sa.sun_path, g->attach);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool send_with_fds(int sock, const void *data, size_t bytes, const int *fds, unsigned n)
{
	union {
		struct cmsghdr h;
		char bytes[CMSG_SPACE(sizeof(int) * 8)];
	} c = {0};
	struct iovec iov = {(void *)(uintptr_t)data, bytes};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c.h.cmsg_level = SOL_SOCKET;
		c.h.cmsg_type = SCM_RIGHTS;
		c.h.cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(&c.h), fds, sizeof(int) * n);
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL) >= 0;
}

/* The peer must not stay: refused by a message or closed. */
static void assert_refused(int sock)
{
	struct pollfd p = {sock, POLLIN, 0};
	struct attach_command c;
	ssize_t n;

	assert_int_equal(poll(&p, 1, 10000), 1);
	n = recv(sock, &c, sizeof(c), MSG_DONTWAIT);
	if (n > 0)
		assert_int_equal(c.kind, ATTACH_REFUSE);
	close(sock);
}

static void hostile_peers_are_refused_and_others_still_served(void **state)
{
	struct rig *g = *state;
	int fds[8], sock, held[300];
	char garbage[3000], text[16384];

	sink_start(&g->sink, g->url);
	daemon_start(g);
	job_start(g);
	memset(garbage, 0x5a, sizeof(garbage));
	sock = dial(g);
	send_with_fds(sock, garbage, sizeof(garbage), NULL, 0);
	assert_refused(sock);
	sock = dial(g);
	send_with_fds(sock, &g->hello, sizeof(g->hello), NULL, 0); /* no descriptor */
	assert_refused(sock);
	fds[0] = memfd_create("unsealed", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fds[0], 1 << 20), 0);
	sock = dial(g);
	send_with_fds(sock, &g->hello, sizeof(g->hello), fds, 1);
	assert_refused(sock);
	for (int i = 0; i < 8; i++)
		fds[i] = g->ring.fd;
	sock = dial(g);
	send_with_fds(sock, &g->hello, sizeof(g->hello), fds, 8); /* too many */
	assert_refused(sock);
	fds[0] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	sock = dial(g);
	send_with_fds(sock, &g->hello, sizeof(g->hello), fds, 1);
	assert_refused(sock);
	/* Thousands that come and go, hundreds that stay silent. */
	for (int i = 0; i < 3000; i++) {
		sock = dial(g);
		if (sock >= 0)
			close(sock);
	}
	for (int i = 0; i < 300; i++)
		held[i] = dial(g);
	assert_int_equal(http(g, false, "GET /healthz", text, sizeof(text)), 200);
	for (int i = 0; i < 300; i++)
		if (held[i] >= 0)
			close(held[i]);
	job_attach(g);
	job_steps(g, 300, 1);
	job_steps(g, 30, 2);
	job_steps(g, 100, 1);
	assert_true(until(has_suspect, g));
	assert_int_equal(http(g, false, "GET /metrics", text, sizeof(text)), 200);
	assert_null(strstr(text, "sysom_attach_refused_bad_total 0\n"));
}

static void a_process_that_sends_nonsense_later_is_cut_off(void **state)
{
	struct rig *g = *state;
	struct pollfd p;
	char c[5] = "nope";

	daemon_start(g);
	job_start(g);
	job_attach(g);
	send(g->sock, c, sizeof(c), 0);
	p = (struct pollfd){g->sock, POLLIN, 0};
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(recv(g->sock, c, sizeof(c), 0), 0);
}

/* Attaches. Its exit status says whether it was refused. It ends when asked to. */
static void attach_and_wait(struct rig *g, const struct ring_writer *w, int answer_fd)
{
	struct attach_command c = {.arg = EBUSY};
	char refused;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* As the helper thread does: connect again after a hang-up, or after a refusal for too many. */
	for (int i = 0; c.arg == EBUSY && i < PATIENCE_MS / 20; i++) {
		int sock = attach_connect(g->attach, &g->hello, (int[]){w->fd, w->page_fd});

		if (sock < 0 || !receive(sock, &c))
			c = (struct attach_command){.arg = EBUSY};
		if (c.arg == EBUSY) {
			close(sock);
			usleep(20000);
		}
	}
	refused = c.kind != ATTACH_ACCEPT;
	if (write(answer_fd, &refused, 1) == 1)
		pause();
	_exit(1);
}

static void there_is_room_for_so_many_processes(void **state)
{
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	pid_t children[LIMIT_NODE_PROCESSES + 1];
	struct ring_writer w;
	unsigned refused = 0;
	int done[2];
	char one;

	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	assert_int_equal(pipe(done), 0);
	attach_hello_fill(&g->hello);
	for (unsigned i = 0; i <= LIMIT_NODE_PROCESSES; i++) {
		children[i] = fork();
		if (!children[i])
			attach_and_wait(g, &w, done[1]);
		assert_int_equal(read(done[0], &one, 1), 1);
		refused += (unsigned)one;
	}
	assert_int_equal(refused, 1);
	for (unsigned i = 0; i <= LIMIT_NODE_PROCESSES; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	close(done[0]);
	close(done[1]);
	ring_writer_fini(&w);
}

/* ---- several users ---- */

#define MALLORY 64001u /* numbers without a name */
#define ALICE	64002u

static void become(uid_t uid)
{
	if (setgid(uid) || setuid(uid))
		_exit(9);
}

static void need_users(struct rig *g)
{
	if (geteuid())
		skip_needs("root");
	assert_int_equal(chmod(g->dir, 0755), 0);
}

/* A process of that user that attaches and stays; whether it was accepted. */
static bool attach_as(struct rig *g, const struct ring_writer *w, uid_t uid, pid_t *child)
{
	int done[2];
	char refused = 1;

	assert_int_equal(pipe(done), 0);
	*child = fork();
	if (!*child) {
		become(uid);
		attach_and_wait(g, w, done[1]);
	}
	assert_int_equal(read(done[0], &refused, 1), 1);
	close(done[0]);
	close(done[1]);
	return !refused;
}

static void end_all(const pid_t *children, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
}

static uint64_t metric(struct rig *g, const char *name)
{
	static char text[1 << 20];
	const char *at;

	assert_int_equal(http(g, false, "GET /metrics", text, sizeof(text)), 200);
	at = text;
	do
		at = strstr(at + 1, name);
	while (at && (at[-1] != '\n' || at[strlen(name)] != ' '));
	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, 10);
}

static void whoever_only_looks_for_sysomd_breaks_no_protocol(void **state)
{
	struct rig *g = *state;
	int sock;

	daemon_start(g);
	for (int i = 0; i < 20; i++)
		close(dial(g));
	sock = dial(g);
	assert_int_equal(send(sock, "", 0, 0), 0);
	assert_refused(sock);
	assert_int_equal(metric(g, "sysom_attach_refused_bad_total"), 1);
}

static void who_fills_the_node_gives_way_to_others_down_to_the_fair_share(void **state)
{
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	pid_t children[2 * LIMIT_NODE_PROCESSES];
	static char text[1 << 18];
	struct ring_writer w;
	unsigned n = 0;

	need_users(g);
	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	attach_hello_fill(&g->hello);
	strcpy(g->hello.job, "train");
	while (n < LIMIT_NODE_PROCESSES)
		assert_true(attach_as(g, &w, MALLORY, &children[n++]));
	assert_false(attach_as(g, &w, MALLORY, &children[n++]));
	for (unsigned i = 0; i < LIMIT_NODE_PROCESSES / 2; i++)
		assert_true(attach_as(g, &w, ALICE, &children[n++]));
	assert_false(attach_as(g, &w, ALICE, &children[n++]));
	assert_false(attach_as(g, &w, MALLORY, &children[n++]));
	assert_int_equal(http(g, true, "GET /api/v1/status", text, sizeof(text)), 200);
	assert_non_null(strstr(text, "\"job\":\"train@64001\"")); /* one name, two jobs */
	assert_non_null(strstr(text, "\"job\":\"train@64002\""));
	assert_int_equal(metric(g, "sysom_gave_way_total"), LIMIT_NODE_PROCESSES / 2);
	assert_int_equal(metric(g, "sysom_attach_refused_full_total"), 3);
	end_all(children, n);
	ring_writer_fini(&w);
}

/* A process of that rank of the job "train" that stays. */
static pid_t start_rank(struct rig *g, const struct ring_writer *w, int32_t rank)
{
	pid_t child;

	g->hello.rank = rank;
	assert_true(attach_as(g, w, geteuid(), &child));
	return child;
}

static void end_rank(struct rig *g, pid_t pid)
{
	char gone[64], *at;
	static char text[1 << 18];

	end_all(&pid, 1);
	snprintf(gone, sizeof(gone), "\"pid\":%d,", (int)pid);
	for (int i = 0; i < PATIENCE_MS / 20; i++) {
		assert_int_equal(http(g, true, "GET /api/v1/status", text, sizeof(text)), 200);
		at = strstr(text, gone);
		at = at ? strstr(at, "\"state\":\"") : NULL;
		if (!at || !strncmp(at, "\"state\":\"gone\"", 14))
			return;
		usleep(20000);
	}
	fail_msg("process %d is not gone", (int)pid);
}

static void assert_restarts(struct rig *g, pid_t pid, unsigned restarts, pid_t before)
{
	static char text[1 << 18];
	char want[80], name[32], *at;

	assert_int_equal(http(g, true, "GET /api/v1/status", text, sizeof(text)), 200);
	snprintf(name, sizeof(name), "\"pid\":%d,", (int)pid);
	at = strstr(text, name);
	assert_non_null(at);
	at = strstr(at, "\"restarts\":");
	assert_non_null(at);
	snprintf(want, sizeof(want), "\"restarts\":%u,\"before_pid\":%d,", restarts, (int)before);
	assert_memory_equal(at, want, strlen(want));
}

static void a_rank_that_starts_again_is_told_but_not_the_next_run_of_its_job(void **state)
{
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	struct ring_writer w;
	pid_t zero, one, two, three;

	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	attach_hello_fill(&g->hello);
	strcpy(g->hello.job, "train");
	zero = start_rank(g, &w, 0);
	one = start_rank(g, &w, 1);
	assert_restarts(g, one, 0, 0);
	end_rank(g, one);
	two = start_rank(g, &w, 1);
	assert_restarts(g, two, 1, one);
	end_rank(g, two);
	three = start_rank(g, &w, 1);
	assert_restarts(g, three, 2, two);
	assert_restarts(g, zero, 0, 0);
	assert_int_equal(metric(g, "sysom_rank_restarts_total"), 2);
	end_rank(g, three);
	end_rank(g, zero);
	one = start_rank(g, &w, 1);
	assert_restarts(g, one, 0, 0);
	assert_int_equal(metric(g, "sysom_rank_restarts_total"), 2);
	end_rank(g, one);
	ring_writer_fini(&w);
}

/* What that user is shown; over TCP the kernel names the user as well. */
static void see_as(struct rig *g, uid_t uid, bool control, const char *what, char *text,
		   size_t bytes)
{
	int pipes[2], status;
	size_t n = 0;
	pid_t child;

	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		become(uid);
		close(pipes[0]);
		if (http(g, control, what, text, bytes) != 200)
			_exit(1);
		for (ssize_t got = 1; n < strlen(text) && got > 0; n += got > 0 ? (size_t)got : 0)
			got = write(pipes[1], text + n, strlen(text) - n);
		_exit(0);
	}
	close(pipes[1]);
	for (ssize_t got; (got = read(pipes[0], text + n, bytes - 1 - n)) > 0;)
		n += (size_t)got;
	text[n] = 0;
	close(pipes[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void users_see_their_own_ranks_and_root_all(void **state)
{
	static const char *const what[] = {"GET /api/v1/status", "GET /metrics"};
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	static char text[1 << 18];
	struct ring_writer w;
	pid_t children[2];

	need_users(g);
	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	attach_hello_fill(&g->hello);
	strcpy(g->hello.job, "train");
	assert_true(attach_as(g, &w, MALLORY, &children[0]));
	assert_true(attach_as(g, &w, ALICE, &children[1]));
	for (size_t i = 0; i < 2; i++) {
		see_as(g, ALICE, false, what[i], text, sizeof(text));
		assert_non_null(strstr(text, "train@64002"));
		assert_null(strstr(text, "train@64001"));
		see_as(g, MALLORY, false, what[i], text, sizeof(text));
		assert_non_null(strstr(text, "train@64001"));
		assert_null(strstr(text, "train@64002"));
		see_as(g, 64003, false, what[i], text, sizeof(text));
		assert_null(strstr(text, "train@"));
		for (int control = 0; control < 2; control++) {
			assert_int_equal(http(g, control, what[i], text, sizeof(text)), 200);
			assert_non_null(strstr(text, "train@64001"));
			assert_non_null(strstr(text, "train@64002"));
		}
	}
	see_as(g, 64003, false, what[0], text, sizeof(text));
	assert_non_null(strstr(text, "\"hidden_ranks\":2"));
	end_all(children, 2);
	ring_writer_fini(&w);
}

static void a_name_of_two_users_jobs_touches_neither(void **state)
{
	static const char *const what[] = {"POST /api/v1/trace?state=off&job=train",
					   "POST /api/v1/trace?state=on&rank=0&job=train",
					   "POST /api/v1/capture?rank=0&job=train"};
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	struct ring_writer w;
	pid_t children[2];
	char text[4096];

	need_users(g);
	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	attach_hello_fill(&g->hello);
	strcpy(g->hello.job, "train");
	g->hello.rank = 0;
	assert_true(attach_as(g, &w, MALLORY, &children[0]));
	assert_true(attach_as(g, &w, ALICE, &children[1]));
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(http(g, true, what[i], text, sizeof(text)), 409);
		assert_non_null(strstr(text, "train@64001"));
		assert_non_null(strstr(text, "train@64002"));
	}
	/* a key is one job's: it is asked, though it does not answer here */
	assert_int_equal(
	    http(g, true, "POST /api/v1/trace?state=off&job=train%4064002", text, sizeof(text)),
	    504);
	assert_non_null(strstr(text, "1 of 1 processes"));
	end_all(children, 2);
	ring_writer_fini(&w);
}

/* One user keeps every place for connections taken, and takes each that becomes free. */
static void who_connects_without_end_keeps_nobody_out(void **state)
{
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	pid_t children[3], mallory = -1;
	struct ring_writer w;
	unsigned accepted = 0;

	need_users(g);
	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	attach_hello_fill(&g->hello);
	mallory = fork();
	if (!mallory) {
		int held[256];

		become(MALLORY);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* which a change of the user clears */
		memset(held, -1, sizeof(held));
		for (unsigned i = 0;; i = (i + 1) % 256) {
			if (held[i] >= 0)
				close(held[i]);
			held[i] = dial(g);
		}
	}
	while (metric(g, "sysom_attach_refused_busy_total") < 1000)
		;
	for (unsigned i = 0; i < 3; i++)
		assert_true(attach_as(g, &w, ALICE, &children[i]));
	kill(mallory, SIGKILL);
	waitpid(mallory, NULL, 0);
	for (unsigned i = 0; i < 3; i++)
		accepted += !kill(children[i], 0);
	assert_int_equal(accepted, 3);
	end_all(children, 3);
	ring_writer_fini(&w);
}

/* A later version 2 may append fields. */
static void a_longer_hello_is_accepted(void **state)
{
	struct rig *g = *state;
	struct attach_command c = {0};
	struct {
		struct attach_hello hello;
		uint8_t later[64];
	} m = {.later = {1}};
	int sock;

	daemon_start(g);
	job_start(g);
	m.hello = g->hello;
	m.hello.bytes = sizeof(m);
	sock = dial(g);
	assert_true(send_with_fds(sock, &m, sizeof(m), (int[]){g->ring.fd, g->ring.page_fd}, 2));
	assert_true(receive(sock, &c));
	assert_int_equal(c.kind, ATTACH_ACCEPT);
	close(sock);
}

/* A socket in whose queue a TCP connection waits that nobody reads and that is to linger for a day: only
 * who has the last reference of the one closes the other. */
static int lingering(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct linger day = {1, 86400};
	socklen_t bytes = sizeof(in);
	static char text[65536];
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), outer[2];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &bytes), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	while (send(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &day, sizeof(day)), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, outer), 0);
	send_with_fds(outer[0], "x", 1, &fd, 1);
	close(fd);
	close(outer[0]);
	return outer[1]; /* the listener stays open: its end of the connection */
}

/* It is closed by whoever takes the message; by who closes the socket in which a message waits; with a
 * state, which has no room for it. */
static void a_descriptor_that_is_slow_to_close_stops_nobody(void **state)
{
	struct rig *g = *state;
	char text[65536];
	int fds[3], sock, other;
	unsigned given;

	daemon_start(g);
	job_start(g);
	job_attach(g);
	for (unsigned i = 0; i < 3; i++)
		fds[i] = lingering();
	kill(g->sysomd, SIGSTOP); /* the message has the only reference by the time it is taken */
	assert_int_equal(waitpid(g->sysomd, NULL, WUNTRACED), g->sysomd);
	sock = dial(g);
	send_with_fds(sock, "hello", 5, fds, 1);
	other = dial(g);
	send_with_fds(other, "hello", 5, NULL, 0);
	send_with_fds(other, "hello", 5, fds + 1, 1);
	/* from Linux 6.16 on the kernel refuses it, and the reference stays ours */
	given = 2 + (send_with_fds(g->sock, "state", 5, fds + 2, 1) ? 1u : 0u);
	for (unsigned i = 0; i < given; i++)
		close(fds[i]);
	kill(g->sysomd, SIGCONT);
	assert_refused(sock);
	assert_refused(other);
	assert_int_equal(http(g, false, "GET /healthz", text, sizeof(text)), 200);
	assert_int_equal(daemon_end(g, SIGTERM), 0);
}

/* No signal ends such a close. */
static void a_file_whose_server_never_answers_stops_nobody(void **state)
{
	struct rig *g = *state;
	char text[65536], mount[256], *killed;
	struct fuse_hang f;
	pid_t peer;

	snprintf(mount, sizeof(mount), "%s/mount", g->dir);
	if (geteuid() || fuse_hang_open(&f, mount)) {
		skip_needs("fuse");
		return;
	}
	daemon_start(g);
	peer = fork();
	if (!peer) {
		char name[300];
		int fd;

		snprintf(name, sizeof(name), "%s/flush", mount);
		fd = open(name, O_RDWR | O_CLOEXEC);
		send_with_fds(dial(g), "hello", 5, &fd, 1);
		pause();
		_exit(1);
	}
	for (int i = 0; i < PATIENCE_MS / 50; i++) {
		assert_int_equal(http(g, false, "GET /healthz", text, sizeof(text)), 200);
		assert_int_equal(http(g, false, "GET /metrics", text, sizeof(text)), 200);
		killed = strstr(text, "\nsysom_readers_killed_total ");
		assert_non_null(killed);
		if (atoi(killed + strlen("\nsysom_readers_killed_total ")) > 0)
			break;
		usleep(50000);
	}
	assert_true(atoi(killed + strlen("\nsysom_readers_killed_total ")) > 0);
	assert_int_equal(daemon_end(g, SIGTERM), 0);
	kill(peer, SIGKILL);
	fuse_hang_close(&f);
	assert_int_equal(waitpid(peer, NULL, 0), peer);
}

static void a_process_that_lies_about_its_start_takes_one_slot(void **state)
{
	struct rig *g = *state;
	struct ring_geometry geo = {
	    1, 64, 1, 64, 0, 0, 4096, CLOCK_SOURCE_MONOTONIC, CLOCK_SOURCE_MONOTONIC};
	int socks[2 * LIMIT_NODE_PROCESSES];
	struct ring_writer w;

	daemon_start(g);
	assert_int_equal(ring_writer_init(&w, &geo), 0);
	assert_int_equal(ring_writer_fill(&w), 0);
	attach_hello_fill(&g->hello);
	for (unsigned i = 0; i < 2 * LIMIT_NODE_PROCESSES; i++) {
		struct attach_command c = {0};

		g->hello.start_time_ticks = 1000 + i;
		for (int k = 0; k < PATIENCE_MS / 20; k++) {
			socks[i] = attach_connect(g->attach, &g->hello, (int[]){w.fd, w.page_fd});
			if (socks[i] >= 0 && receive(socks[i], &c) && c.arg != EBUSY)
				break;
			close(socks[i]); /* too often */
			usleep(20000);
		}
		assert_int_equal(c.kind, ATTACH_ACCEPT);
		if (i) /* the one before was put out */
			assert_int_equal(recv(socks[i - 1], &c, sizeof(c), 0), 0);
	}
	for (unsigned i = 0; i < 2 * LIMIT_NODE_PROCESSES; i++)
		close(socks[i]);
	ring_writer_fini(&w);
}

static void a_second_sysomd_does_not_take_the_socket(void **state)
{
	struct rig *g = *state;
	int status;
	pid_t second;

	daemon_start(g);
	second = fork();
	if (!second) {
		int fd = open("/dev/null", O_WRONLY);

		dup2(fd, 2);
		execl(g->program, g->program, "--socket-path", g->attach, "--http-listen", "",
		      "--state-dir", g->dir, "--control-path", "/tmp/never", NULL);
		_exit(127);
	}
	waitpid(second, &status, 0);
	assert_int_equal(WEXITSTATUS(status), EXIT_FAILED);
	assert_true(listens(g));
	job_start(g);
	job_attach(g);
}

static void a_bad_configuration_is_reported_with_its_line(void **state)
{
	struct rig *g = *state;
	char path[96], command[2048], text[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/bad.yaml", g->dir);
	f = fopen(path, "w");
	fputs("# a comment\nroofline:\n  mode: robust\n  learn_min: many\n", f);
	fclose(f);
	snprintf(command, sizeof(command), "%s --check-config --config %s 2>&1", g->program, path);
	f = popen(command, "r");
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	assert_int_equal(WEXITSTATUS(pclose(f)), 2);
	assert_non_null(strstr(text, "bad.yaml:4"));
	snprintf(command, sizeof(command),
		 "%s --print-config > %s && %s --check-config --config %s "
		 "> %s.out 2>&1",
		 g->program, path, g->program, path, path);
	assert_int_equal(system(command), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(a_slow_rank_arrives_at_the_aggregator_as_a_window),
	    T(beats_and_sketches_have_the_jobs_figures),
	    T(a_new_aggregator_gets_the_latest_sketch),
	    T(a_process_without_a_rank_has_no_sketch),
	    T(an_open_window_is_sent_on_sigterm_and_the_exit_is_clean),
	    T(a_window_waits_on_disk_while_the_aggregator_is_away_and_survives_kill_9),
	    T(a_job_is_picked_up_again_after_kill_9),
	    T(a_process_that_dials_again_keeps_its_models),
	    T(a_refused_window_is_dropped_and_one_to_retry_comes_again),
	    T(a_command_in_a_reply_is_answered_with_the_window),
	    T(commands_are_bounded_and_counted),
	    T(a_held_stretch_outlives_what_is_remembered),
	    T(tracing_is_switched_and_the_answer_waits_for_the_process),
	    T(channels_are_asked_for_and_the_answer_waits_for_the_process),
	    T(what_was_switched_off_is_not_lost),
	    T(a_process_that_is_refused_again_and_again_is_reported_once),
	    T(a_name_of_another_site_is_refused),
	    T(hostile_peers_are_refused_and_others_still_served),
	    T(whoever_only_looks_for_sysomd_breaks_no_protocol),
	    T(a_process_that_sends_nonsense_later_is_cut_off),
	    T(there_is_room_for_so_many_processes),
	    T(who_fills_the_node_gives_way_to_others_down_to_the_fair_share),
	    T(a_rank_that_starts_again_is_told_but_not_the_next_run_of_its_job),
	    T(users_see_their_own_ranks_and_root_all),
	    T(a_name_of_two_users_jobs_touches_neither),
	    T(who_connects_without_end_keeps_nobody_out),
	    T(a_longer_hello_is_accepted),
	    T(a_descriptor_that_is_slow_to_close_stops_nobody),
	    T(a_file_whose_server_never_answers_stops_nobody),
	    T(a_process_that_lies_about_its_start_takes_one_slot),
	    T(a_second_sysomd_does_not_take_the_socket),
	    T(a_bad_configuration_is_reported_with_its_line),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
