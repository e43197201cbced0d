/* SPDX-License-Identifier: Apache-2.0
 * test_attach.c - the handshake: what the client sends, and what the daemon accepts. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/limits.h"
#include "ring/attach.h"
#include "ring/ring_writer.h"
#include "tests/unit/skip.h"

static const char *const variables[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NTASKS_PER_NODE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SYSOM_JOB",
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_STEP_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "SYSOM_ROLE",
    "POD_NAME",
    "POD_NAMESPACE",
    "CUDA_VISIBLE_DEVICES",
    "SYSOM_SOCKET_PATH",
};

static int clean_environment(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		unsetenv(variables[i]);
	return 0;
}

static void unknown_is_minus_one_and_empty(void **state)
{
	struct attach_hello h;

	errno = 77;
	attach_hello_fill(&h);
	assert_int_equal(errno, 77);
	assert_int_equal(h.magic, ATTACH_MAGIC);
	assert_int_equal(h.bytes, sizeof(h));
	assert_int_equal(h.pid, getpid());
	assert_true(h.start_time_ticks > 0);
	assert_int_equal(h.rank, -1);
	assert_int_equal(h.world_size, -1);
	assert_int_equal(h.local_rank, -1);
	assert_int_equal(h.local_world_size, -1);
	assert_string_equal(h.job, "");
	assert_string_equal(h.pod, "");
	assert_string_equal(h.gpu_uuid, "");
	assert_string_equal(h.program, "test_attach");
}

static void torchrun_environment_is_understood(void **state)
{
	struct attach_hello h;

	setenv("RANK", "11", 1);
	setenv("WORLD_SIZE", "16", 1);
	setenv("LOCAL_RANK", "3", 1);
	setenv("LOCAL_WORLD_SIZE", "8", 1);
	setenv("SLURM_PROCID", "1", 1); /* of the launcher, not of the rank */
	setenv("TORCHELASTIC_RUN_ID", "run7", 1);
	setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d", 1);
	setenv("SYSOM_ROLE", "decode", 1);
	attach_hello_fill(&h);
	assert_int_equal(h.rank, 11);
	assert_int_equal(h.world_size, 16);
	assert_int_equal(h.local_rank, 3);
	assert_int_equal(h.local_world_size, 8);
	assert_string_equal(h.job, "run7");
	assert_string_equal(h.gpu_uuid, "GPU-d");
	assert_string_equal(h.role, "decode");
	setenv("SYSOM_JOB", "mine", 1);
	setenv("CUDA_VISIBLE_DEVICES", "GPU-x", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.job, "mine");
	assert_string_equal(h.gpu_uuid, "GPU-x");
	setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.gpu_uuid, "");
}

static void role_is_what_the_launcher_named(void **state)
{
	static const struct {
		const char *name, *value, *role;
	} cases[] = {
	    {"ROLE_NAME", "trainer", "trainer"},
	    {"ROLE_NAME", "default", ""},
	    {"PP_RANK", "3", "pp3"},
	    {"PIPELINE_STAGE", "12", "pp12"},
	    {"PP_RANK", "", ""},
	    {"PP_RANK", "1x", ""},
	    {"PP_RANK", "123456", ""},
	    {"MY_PP_RANK", "1", ""},
	};
	struct attach_hello h;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		attach_hello_fill(&h);
		assert_string_equal(h.role, cases[i].role);
		unsetenv(cases[i].name);
	}
	setenv("ROLE_NAME", "trainer", 1);
	setenv("PP_RANK", "1", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.role, "pp1");
	setenv("SYSOM_ROLE", "mine", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.role, "mine");
	unsetenv("SYSOM_ROLE");
	unsetenv("ROLE_NAME");
	unsetenv("PP_RANK");
}

static void slurm_and_open_mpi_environments_are_understood(void **state)
{
	struct attach_hello h;
	char name[200];

	setenv("SLURM_PROCID", "5", 1);
	setenv("SLURM_NTASKS", "8", 1);
	setenv("SLURM_LOCALID", "1", 1);
	setenv("SLURM_NTASKS_PER_NODE", "4(x2)", 1); /* not a number: unknown */
	setenv("SLURM_JOB_ID", "1234", 1);
	setenv("TORCHELASTIC_RUN_ID", "none", 1);
	attach_hello_fill(&h);
	assert_int_equal(h.rank, 5);
	assert_int_equal(h.world_size, 8);
	assert_int_equal(h.local_rank, 1);
	assert_int_equal(h.local_world_size, -1);
	assert_string_equal(h.job, "1234");
	setenv("SLURM_JOB_NAME", "llama", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.job, "llama#1234"); /* the batch script itself */
	setenv("SLURM_STEP_ID", "0", 1);
	setenv("TORCHELASTIC_RUN_ID", "1234", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.job, "llama#1234.0");
	setenv("TORCHELASTIC_RUN_ID", "second", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.job, "llama#1234.0.second");
	setenv("OMPI_COMM_WORLD_RANK", "2", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
	attach_hello_fill(&h);
	assert_int_equal(h.rank, 2);
	assert_int_equal(h.world_size, 4);
	assert_int_equal(h.local_rank, 0);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	memcpy(name + 63, "\xc3\xa4", 2);
	setenv("SLURM_JOB_NAME", name, 1); /* cut, and the ids are whole */
	unsetenv("TORCHELASTIC_RUN_ID");
	attach_hello_fill(&h);
	assert_int_equal(strlen(h.job), 63 + strlen("#1234.0"));
	assert_string_equal(h.job + 63, "#1234.0");
}

static void odd_environment_is_unknown_or_cut(void **state)
{
	char text[5000];
	struct attach_hello h;

	memset(text, 'j', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	setenv("RANK", "-3", 1);
	setenv("WORLD_SIZE", "99999999999999999999999", 1);
	setenv("LOCAL_RANK", "2147483647", 1);
	setenv("LOCAL_WORLD_SIZE", "", 1);
	setenv("SYSOM_JOB", text, 1);
	setenv("POD_NAMESPACE", text, 1);
	setenv("POD_NAME", text, 1);
	setenv("CUDA_VISIBLE_DEVICES", ",,,", 1);
	attach_hello_fill(&h);
	assert_int_equal(h.rank, -1);
	assert_int_equal(h.world_size, -1);
	assert_int_equal(h.local_rank, INT32_MAX);
	assert_int_equal(h.local_world_size, -1);
	assert_int_equal(strlen(h.job), ATTACH_TEXT_BYTES - 1);
	assert_int_equal(strlen(h.pod), ATTACH_TEXT_BYTES - 1);
	assert_string_equal(h.gpu_uuid, "");
	setenv("POD_NAMESPACE", "ml", 1);
	setenv("POD_NAME", "train-0", 1);
	attach_hello_fill(&h);
	setenv("CONTAINER_NAME", "trainer", 1);
	setenv("NODE_NAME", "gpu7", 1);
	attach_hello_fill(&h);
	assert_string_equal(h.pod_namespace, "ml");
	assert_string_equal(h.pod, "train-0");
	assert_string_equal(h.pod_container, "trainer");
	assert_string_equal(h.pod_host, "gpu7");
	/* other programs set these too */
	unsetenv("POD_NAMESPACE");
	unsetenv("POD_NAME");
	attach_hello_fill(&h);
	assert_string_equal(h.pod, "");
	assert_string_equal(h.pod_container, "");
	assert_string_equal(h.pod_host, "");
}

/* Runs this program under another name and other arguments; it prints what it calls itself. */
static void assert_program(const char *const *args, const char *want)
{
	char got[256] = "", self[256];
	int pipes[2], status;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	pid_t child;

	assert_true(n > 0);
	self[n] = 0;
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		dup2(pipes[1], 1);
		setenv("TEST_ATTACH_PRINT", "1", 1);
		execv(self, (char *const *)(uintptr_t)args);
		_exit(127);
	}
	close(pipes[1]);
	n = read(pipes[0], got, sizeof(got) - 1);
	close(pipes[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(n > 0);
	assert_string_equal(got, want);
}

static void program_is_the_script_and_not_the_interpreter(void **state)
{
	static const char *const script[] = {"/usr/bin/python3", "-u",	 "-X", "dev",
					     "/srv/train.py",	 "--lr", "1",  NULL};
	static const char *const module[] = {"python3.11", "-m", "vllm.serve", "--x", NULL};
	static const char *const code[] = {"python", "-c", "print(1)", NULL};
	static const char *const alone[] = {"python3", NULL};
	static const char *const cut[] = {"python3", "-W", NULL};
	static const char *const binary[] = {"/opt/bin/engine", "model.py", NULL};

	assert_program(script, "train.py");
	assert_program(module, "vllm.serve");
	assert_program(code, "python");
	assert_program(alone, "python3");
	assert_program(cut, "python3");
	assert_program(binary, "engine");
}

static void socket_path_comes_from_the_environment(void **state)
{
	char path[64], longer[300];

	assert_int_equal(attach_path(path, sizeof(path)), 0);
	assert_string_equal(path, ATTACH_DEFAULT_PATH);
	setenv("SYSOM_SOCKET_PATH", "/x/y.sock", 1);
	assert_int_equal(attach_path(path, sizeof(path)), 0);
	assert_string_equal(path, "/x/y.sock");
	assert_int_equal(attach_path(path, 5), -ENAMETOOLONG);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	setenv("SYSOM_SOCKET_PATH", longer, 1);
	assert_int_equal(attach_path(longer, sizeof(longer)), -ENAMETOOLONG);
}

/* ---- the socket ---- */

static char dir[64];

static int listen_at(char *path, size_t bytes)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	strcpy(dir, "/tmp/test_attach_XXXXXX");
	CHECK(fd >= 0 && mkdtemp(dir));
	snprintf(path, bytes, "%s/s", dir);
	strcpy(at.sun_path, path);
	CHECK(!bind(fd, (struct sockaddr *)&at, sizeof(at)) && !listen(fd, 4));
	return fd;
}

static void unlisten(int fd, const char *path)
{
	close(fd);
	unlink(path);
	rmdir(dir);
}

static void hello_and_ring_arrive(void **state)
{
	struct attach_hello sent, got;
	struct ring_geometry g;
	struct ring_writer w;
	int server, client, peer, fds[ATTACH_FDS] = {-1, -1};
	char path[108];

	server = listen_at(path, sizeof(path));
	ring_geometry_default(&g);
	assert_int_equal(ring_writer_init(&w, &g), 0);
	attach_hello_fill(&sent);
	strcpy(sent.job, "a\nb\x80");
	memset(sent.libs, 'l', sizeof(sent.libs)); /* without an end */
	errno = 77;
	client = attach_connect(path, &sent, (int[]){w.fd, w.page_fd});
	assert_int_equal(errno, 77);
	assert_true(client >= 0);
	assert_true(fcntl(client, F_GETFD) & FD_CLOEXEC);
	peer = accept4(server, NULL, NULL, SOCK_NONBLOCK);
	assert_true(peer >= 0);
	assert_int_equal(attach_accept(peer, &got, fds), 0);
	assert_int_equal(got.pid, getpid());
	assert_string_equal(got.job, "a?b?");
	assert_string_equal(got.program, "test_attach");
	assert_int_equal(strlen(got.libs), ATTACH_TEXT_BYTES - 1);
	for (int i = 0; i < ATTACH_FDS; i++)
		assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(attach_accept(peer, &got, fds), -EAGAIN);
	close(client);
	assert_int_equal(attach_accept(peer, &got, fds), -ECONNRESET);
	close(fds[0]);
	close(fds[1]);
	close(peer);
	ring_writer_fini(&w);
	unlisten(server, path);
}

static void absent_or_dead_daemon_is_an_error_code(void **state)
{
	struct attach_hello h;
	char path[108], longer[200];
	int server;

	attach_hello_fill(&h);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(attach_connect("/nonexistent/s", &h, (int[]){0, 0}), -ENOENT);
	assert_int_equal(attach_connect(longer, &h, (int[]){0, 0}), -ENAMETOOLONG);
	server = listen_at(path, sizeof(path));
	close(server);
	assert_int_equal(attach_connect(path, &h, (int[]){0, 0}), -ECONNREFUSED);
	unlink(path);
	rmdir(dir);
}

static void full_backlog_does_not_block(void **state)
{
	struct attach_hello h;
	int fds[16], count = 0, rc, server;
	char path[108];

	attach_hello_fill(&h);
	server = listen_at(path, sizeof(path));
	while ((rc = attach_connect(path, &h, (int[]){server, server})) >= 0 && count < 15)
		fds[count++] = rc;
	assert_int_equal(rc, -EAGAIN);
	while (count)
		close(fds[--count]);
	unlisten(server, path);
}

static void daemon_of_another_user_gets_nothing(void **state)
{
	int pipes[2], server, status;
	struct attach_hello h;
	char path[108], go;
	pid_t child;

	if (geteuid() != 0) {
		skip_needs("root");
	}
	attach_hello_fill(&h);
	server = listen_at(path, sizeof(path));
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		/* the credentials that count are those at listen() */
		if (setuid(65534) || listen(server, 4) || write(pipes[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(pipes[0], &go, 1), 1);
	assert_int_equal(attach_connect(path, &h, (int[]){server, server}), -EPERM);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(pipes[0]);
	close(pipes[1]);
	unlisten(server, path);
}

static void send_raw(int sock, const void *data, size_t bytes, int fd_count)
{
	char control[CMSG_SPACE(sizeof(int) * 32)] __attribute__((aligned(8))) = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	int fds[32] = {0};

	if (fd_count) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)fd_count);
	}
	assert_true(sendmsg(sock, &msg, 0) == (ssize_t)bytes);
}

static int lowest_free_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void messages_that_are_no_hello_are_refused_without_a_leak(void **state)
{
	static uint8_t big[LIMIT_ATTACH_MESSAGE_BYTES + 100];
	struct attach_hello good, got, h;
	int pair[2], ring[ATTACH_FDS], before;

	attach_hello_fill(&good);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	before = lowest_free_fd();
#define REFUSED(data, bytes, fds) REFUSED_AS(-EPROTO, data, bytes, fds)
#define REFUSED_AS(why, data, bytes, fds)                                                          \
	do {                                                                                       \
		send_raw(pair[0], data, bytes, fds);                                               \
		assert_int_equal(attach_accept(pair[1], &got, ring), why);                         \
		assert_int_equal(lowest_free_fd(), before);                                        \
	} while (0)
	REFUSED(&good, sizeof(good), 0);
	REFUSED(&good, sizeof(good), 1);
	REFUSED(&good, sizeof(good), 3);
	REFUSED(&good, sizeof(good), 16);
	REFUSED(&good, sizeof(good), 32);
	REFUSED(&good, sizeof(good) - 1, 2);
	REFUSED(&good, 1, 2);
	REFUSED(big, sizeof(big), 2);
	h = good;
	h.magic++;
	REFUSED(&h, sizeof(h), 2);
	h = good;
	h.version = 1; /* with the one descriptor it had, or with two */
	REFUSED_AS(-EPROTONOSUPPORT, &h, sizeof(h), 1);
	REFUSED_AS(-EPROTONOSUPPORT, &h, sizeof(h), 2);
	h = good;
	h.bytes = 0;
	REFUSED(&h, sizeof(h), 2);
	memcpy(big, &good, sizeof(good));
	((struct attach_hello *)big)->bytes = sizeof(big);
	REFUSED(big, sizeof(big), 2);
	/* an earlier client, without the fields that were appended */
	memset(good.pod_namespace, 'x', sizeof(good.pod_namespace));
	good.bytes = ATTACH_HELLO_BYTES_MIN;
	REFUSED(&good, ATTACH_HELLO_BYTES_MIN - 1, 2);
	send_raw(pair[0], &good, ATTACH_HELLO_BYTES_MIN, 2);
	assert_int_equal(attach_accept(pair[1], &got, ring), 0);
	assert_int_equal(ATTACH_HELLO_BYTES_MIN, 808);
	assert_string_equal(got.pod_namespace, "");
	close(ring[0]);
	close(ring[1]);
	/* a later client that appended fields */
	((struct attach_hello *)big)->bytes = sizeof(good) + 8;
	send_raw(pair[0], big, sizeof(good) + 8, 2);
	assert_int_equal(attach_accept(pair[1], &got, ring), 0);
	close(ring[0]);
	close(ring[1]);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(unknown_is_minus_one_and_empty, clean_environment),
	    cmocka_unit_test_setup(torchrun_environment_is_understood, clean_environment),
	    cmocka_unit_test_setup(role_is_what_the_launcher_named, clean_environment),
	    cmocka_unit_test_setup(slurm_and_open_mpi_environments_are_understood,
				   clean_environment),
	    cmocka_unit_test_setup(odd_environment_is_unknown_or_cut, clean_environment),
	    cmocka_unit_test_setup(program_is_the_script_and_not_the_interpreter,
				   clean_environment),
	    cmocka_unit_test_setup(socket_path_comes_from_the_environment, clean_environment),
	    cmocka_unit_test(hello_and_ring_arrive),
	    cmocka_unit_test(absent_or_dead_daemon_is_an_error_code),
	    cmocka_unit_test(full_backlog_does_not_block),
	    cmocka_unit_test(daemon_of_another_user_gets_nothing),
	    cmocka_unit_test(messages_that_are_no_hello_are_refused_without_a_leak),
	};

	if (getenv("TEST_ATTACH_PRINT")) {
		struct attach_hello h;

		attach_hello_fill(&h);
		fputs(h.program, stdout);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
