/* SPDX-License-Identifier: Apache-2.0
 * attach.c - see attach.h.
 * The client half runs inside the job: system calls only, no stdio, no allocation. */
#include "ring/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "ring/ring_writer.h"

#define ATTACH_CMDLINE_BYTES 4096
/* the most descriptors taken from one message, so that they can be closed */
#define ATTACH_FDS_MAX 16
/* The lowest number for our descriptors: above the numbers that programs expect to get, and below
 * FD_SETSIZE. */
#define ATTACH_FD_MIN 501

/* ---- client: identity ---- */

static const char *env_text(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int32_t env_int(const char *name)
{
	const char *v = env_text(name);
	int64_t n = 0;

	if (!v)
		return -1;
	for (; *v >= '0' && *v <= '9'; v++) {
		n = n * 10 + (*v - '0');
		if (n > INT32_MAX)
			return -1;
	}
	return *v ? -1 : (int32_t)n;
}

static void text_append(char *out, const char *text, size_t bytes)
{
	size_t at = strnlen(out, ATTACH_TEXT_BYTES - 1);

	if (bytes > ATTACH_TEXT_BYTES - 1 - at)
		bytes = ATTACH_TEXT_BYTES - 1 - at;
	memcpy(out + at, text, bytes);
	out[at + bytes] = 0;
}

static void text_set(char *out, const char *text)
{
	out[0] = 0;
	if (text)
		text_append(out, text, strlen(text));
}

/* Each launcher has its own names for the four numbers. If possible, all four come from the same
 * launcher. */
static void fill_ranks(struct attach_hello *h)
{
	static const char *const families[][4] = {
	    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
	    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	     "OMPI_COMM_WORLD_LOCAL_SIZE"},
	    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
	    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
	};
	const size_t count = sizeof(families) / sizeof(families[0]);
	int32_t *const fields[4] = {&h->rank, &h->world_size, &h->local_rank, &h->local_world_size};
	size_t first = 0;

	while (first < count - 1 && env_int(families[first][0]) < 0)
		first++;
	for (size_t i = 0; i < 4; i++) {
		*fields[i] = env_int(families[first][i]);
		for (size_t f = 0; f < count && *fields[i] < 0; f++)
			*fields[i] = env_int(families[f][i]);
	}
}

/* The name is cut at a whole UTF-8 character, so that the ids behind it fit. */
#define ATTACH_JOB_NAME_BYTES 64

/* Slurm's job names recur, and all jobs of an array have the same name. So the name is the SERIES
 * of base/job_key.h, and the ids are the RUN. */
static void fill_slurm_job(struct attach_hello *h, const char *id, const char *torchrun)
{
	const char *name = env_text("SLURM_JOB_NAME"), *step = env_text("SLURM_STEP_ID");
	size_t n = name ? strlen(name) : 0;

	if (n > ATTACH_JOB_NAME_BYTES)
		for (n = ATTACH_JOB_NAME_BYTES; n && ((unsigned char)name[n] & 0xc0) == 0x80; n--)
			;
	if (n) {
		text_append(h->job, name, n);
		text_append(h->job, "#", 1);
	}
	text_append(h->job, id, strlen(id));
	if (step) {
		text_append(h->job, ".", 1);
		text_append(h->job, step, strlen(step));
	}
	if (torchrun && strcmp(torchrun, id)) {
		text_append(h->job, ".", 1);
		text_append(h->job, torchrun, strlen(torchrun));
	}
}

/* Takes the first of these that is set: SYSOM_JOB, Slurm's name and ids, the ids of torchrun, PBS
 * and LSF. */
static void fill_job(struct attach_hello *h)
{
	const char *mine = env_text("SYSOM_JOB"), *torchrun = env_text("TORCHELASTIC_RUN_ID");
	const char *slurm = env_text("SLURM_JOB_ID"), *batch = env_text("PBS_JOBID");

	/* torchrun's default id is the word "none", the same for every job */
	if (torchrun && !strcmp(torchrun, "none"))
		torchrun = NULL;
	if (mine)
		text_set(h->job, mine);
	else if (slurm)
		fill_slurm_job(h, slurm, torchrun);
	else
		text_set(h->job, torchrun ? torchrun : batch ? batch : env_text("LSB_JOBID"));
}

static void fill_pod(struct attach_hello *h)
{
	const char *space = env_text("POD_NAMESPACE"), *pod = env_text("POD_NAME");

	if (!pod && space)
		pod = env_text("HOSTNAME");
	if (!pod)
		return; /* the other two variables are also set by other programs */
	text_set(h->pod, pod);
	text_set(h->pod_namespace, space);
	text_set(h->pod_container, env_text("CONTAINER_NAME"));
	text_set(h->pod_host, env_text("NODE_NAME"));
}

/* The entry of CUDA_VISIBLE_DEVICES for this process: the only one, or the local rank's. */
static void fill_gpu(struct attach_hello *h)
{
	const char *v = env_text("CUDA_VISIBLE_DEVICES");
	int32_t at = h->local_rank < 0 ? 0 : h->local_rank;

	if (!v)
		return;
	if (!strchr(v, ','))
		at = 0;
	for (; at > 0 && v; at--) {
		v = strchr(v, ',');
		v = v ? v + 1 : NULL;
	}
	if (v)
		text_append(h->gpu_uuid, v, strcspn(v, ","));
}

/* SYSOM_ROLE; else the pipeline stage from the variables that launchers set; else torchelastic's
 * name unless it is the default. */
static void fill_role(struct attach_hello *h)
{
	static const char *const stages[] = {"PIPELINE_PARALLEL_RANK", "PIPELINE_STAGE", "PP_RANK",
					     "PP_STAGE"};
	const char *v = env_text("SYSOM_ROLE");

	if (v) {
		text_set(h->role, v);
		return;
	}
	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
		v = env_text(stages[i]);
		if (!v || strspn(v, "0123456789") != strlen(v) || strlen(v) > 5)
			continue;
		text_append(h->role, "pp", 2);
		text_append(h->role, v, strlen(v));
		return;
	}
	v = env_text("ROLE_NAME");
	if (v && strcmp(v, "default"))
		text_set(h->role, v);
}

/* The argument after arg, NULL at the end. */
static const char *next_arg(const char *arg, const char *end)
{
	arg += strlen(arg) + 1;
	return arg < end ? arg : NULL;
}

/* python [-u -X dev] script.py | -m module | -c code */
static const char *python_script(const char *argv0, const char *end)
{
	const char *arg = next_arg(argv0, end);

	while (arg && arg[0] == '-' && arg[1]) {
		if (!strcmp(arg, "-c"))
			return NULL;
		if (!strcmp(arg, "-m"))
			return next_arg(arg, end);
		if (!strcmp(arg, "-W") || !strcmp(arg, "-X") ||
		    !strcmp(arg, "--check-hash-based-pycs"))
			arg = next_arg(arg, end);
		if (arg)
			arg = next_arg(arg, end);
	}
	return arg && strcmp(arg, "-") && *arg ? text_base(arg) : NULL;
}

static void fill_program(struct attach_hello *h)
{
	char text[ATTACH_CMDLINE_BYTES];
	const char *name, *script = NULL;
	ssize_t n = 0;
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return;
	text[n] = 0;
	name = text_base(text);
	if (!strncmp(name, "python", 6) || !strncmp(name, "pypy", 4))
		script = python_script(text, text + n);
	text_set(h->program, script ? script : name);
}

void attach_hello_fill(struct attach_hello *h)
{
	int saved = errno;

	memset(h, 0, sizeof(*h));
	h->magic = ATTACH_MAGIC;
	h->version = ATTACH_VERSION;
	h->bytes = sizeof(*h);
	h->pid = (int32_t)getpid();
	h->start_time_ticks = ring_writer_start_time();
	fill_ranks(h);
	fill_job(h);
	fill_role(h);
	fill_pod(h);
	fill_gpu(h);
	fill_program(h);
	errno = saved;
}

int attach_path(char *out, size_t out_bytes)
{
	const char *path = env_text("SYSOM_SOCKET_PATH");
	size_t n;

	if (!path)
		path = ATTACH_DEFAULT_PATH;
	n = strlen(path);
	if (n >= out_bytes || n >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return -ENAMETOOLONG;
	memcpy(out, path, n + 1);
	return 0;
}

/* ---- client: connection ---- */

/* The ring shows what a job does, so only a daemon of root or of our own user may get it. */
static int check_owner(int sock)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
		return -errno;
	if (bytes != sizeof(peer) || (peer.uid != 0 && peer.uid != geteuid()))
		return -EPERM;
	return 0;
}

int attach_send(int sock, const struct attach_hello *hello, const int fds[ATTACH_FDS])
{
	union {
		char bytes[CMSG_SPACE(ATTACH_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = {.iov_base = (void *)(uintptr_t)hello, .iov_len = sizeof(*hello)};
	struct msghdr msg;
	struct cmsghdr *c;
	ssize_t n;

	memset(&msg, 0, sizeof(msg));
	memset(&control, 0, sizeof(control));
	msg.msg_iov = &part;
	msg.msg_iovlen = 1;
	msg.msg_control = control.bytes;
	msg.msg_controllen = sizeof(control.bytes);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(ATTACH_FDS * sizeof(int));
	memcpy(CMSG_DATA(c), fds, ATTACH_FDS * sizeof(int));
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == (ssize_t)sizeof(*hello) ? 0 : -EPROTO;
}

int attach_connect(const char *path, const struct attach_hello *hello, const int fds[ATTACH_FDS])
{
	const struct timeval wait = {.tv_usec = ATTACH_WAIT_MS * 1000};
	struct sockaddr_un to;
	size_t n = strlen(path);
	int saved = errno, sock, high, rc;

	memset(&to, 0, sizeof(to));
	to.sun_family = AF_UNIX;
	if (n >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, path, n + 1);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0) {
		rc = -errno;
		goto out;
	}
	setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	high = fcntl(sock, F_DUPFD_CLOEXEC, ATTACH_FD_MIN);
	if (high >= 0) {
		close(sock);
		sock = high;
	}
	do
		rc = connect(sock, (const struct sockaddr *)&to, sizeof(to)) ? -errno : 0;
	while (rc == -EINTR);
	if (!rc)
		rc = fcntl(sock, F_SETFL, O_NONBLOCK) ? -errno : check_owner(sock);
	if (!rc)
		rc = attach_send(sock, hello, fds);
	if (rc)
		close(sock);
	else
		rc = sock;
out:
	errno = saved;
	return rc;
}

/* ---- daemon ---- */

/* Takes every descriptor out of the message, and returns their count. Closes those that do not fit
 * into the array. */
static int take_fds(struct msghdr *msg, int *fds)
{
	int count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (count < ATTACH_FDS_MAX)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

static void clean_text(char *text)
{
	size_t n = strnlen(text, ATTACH_TEXT_BYTES - 1);

	memset(text + n, 0, ATTACH_TEXT_BYTES - n);
	utf8_clean(text, n);
}

/* A later version may only append fields, so we read the beginning. */
static int check_hello(const struct attach_hello *h, size_t bytes, bool whole)
{
	if (bytes < ATTACH_HELLO_BYTES_MIN || h->magic != ATTACH_MAGIC || h->bytes != bytes)
		return -EPROTO;
	if (h->version != ATTACH_VERSION)
		return -EPROTONOSUPPORT;
	return whole ? 0 : -EPROTO;
}

int attach_accept(int sock, struct attach_hello *hello, int out[ATTACH_FDS])
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * ATTACH_FDS_MAX)];
		struct cmsghdr align;
	} control;
	union {
		char bytes[LIMIT_ATTACH_MESSAGE_BYTES];
		struct attach_hello hello;
	} data;
	struct iovec part = {.iov_base = data.bytes, .iov_len = sizeof(data.bytes)};
	struct msghdr msg;
	int fds[ATTACH_FDS_MAX], count, err;
	ssize_t n;

	memset(&msg, 0, sizeof(msg));
	memset(&control, 0, sizeof(control));
	/* a shorter hello comes from an earlier preload */
	memset(&data.hello, 0, sizeof(data.hello));
	msg.msg_iov = &part;
	msg.msg_iovlen = 1;
	msg.msg_control = control.bytes;
	msg.msg_controllen = sizeof(control.bytes);
	do
		n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	count = take_fds(&msg, fds);
	if (n == 0 && count == 0)
		return -ECONNRESET;
	err = check_hello(&data.hello, (size_t)n,
			  count == ATTACH_FDS && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)));
	if (err) {
		for (int i = 0; i < count; i++)
			close(fds[i]);
		return err;
	}
	*hello = data.hello;
	clean_text(hello->job);
	clean_text(hello->role);
	clean_text(hello->pod);
	clean_text(hello->gpu_uuid);
	clean_text(hello->program);
	clean_text(hello->libs);
	clean_text(hello->pod_namespace);
	clean_text(hello->pod_container);
	clean_text(hello->pod_host);
	memcpy(out, fds, ATTACH_FDS * sizeof(int));
	return 0;
}
