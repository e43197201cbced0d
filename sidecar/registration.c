/* SPDX-License-Identifier: Apache-2.0
 * The attach socket. Anybody who may reach it may try: a connection has two seconds and one message
 * to say who it is, and only so many may try at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "sidecar/node.h"

/* Connections that have not said hello yet; a job's processes come together. */
#define REGISTRATION_PENDING 128u
#define REGISTRATION_HELLO_NS 2000000000ull
/* A process says hello at once; who has been silent this long makes room for others. */
#define REGISTRATION_SILENT_NS 200000000ull

struct pending {
	struct node *node;
	int sock; /* -1: free */
	uint64_t since_ns;
	struct loop_source *source;
};

struct registration {
	int listen_fd;
	ino_t inode;
	struct loop_source *source;
	struct pending pending[REGISTRATION_PENDING];
};

static void refuse(int sock, int err)
{
	struct attach_command c = { .magic = ATTACH_MAGIC, .kind = ATTACH_REFUSE, .arg = err };

	if (send(sock, &c, sizeof(c), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("attach", "refusal not sent: %s", strerror(errno));
}

static void drop_pending(struct pending *p, bool close_sock)
{
	loop_source_close(p->source);
	if (close_sock)
		close(p->sock);
	p->source = NULL;
	p->sock = -1;
}

static void on_hello(void *arg, uint32_t events)
{
	struct pending *p = arg;
	struct node *n = p->node;
	struct attach_hello h;
	struct ucred cred = { 0 };
	socklen_t cred_bytes = sizeof(cred);
	int fd, sock = p->sock, err;

	err = attach_accept(sock, &h, &fd);
	if (err == -EAGAIN && !(events & (EPOLLHUP | EPOLLERR)))
		return;
	drop_pending(p, false);
	if (err) {
		n->stats.refused_bad++;
		log_warn("attach", "refused: %s", strerror(-err));
		refuse(sock, -err);
		close(sock);
		return;
	}
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &cred_bytes))
		cred.pid = 0;
	err = process_attach(n, &h, cred.pid, cred.uid, sock, fd);
	if (!err)
		return;
	if (err == -ENOSPC)
		n->stats.refused_full++;
	else
		n->stats.refused_bad++;
	log_warn("attach", "pid=%d refused: %s", (int)cred.pid, strerror(-err));
	refuse(sock, -err);
	close(sock);
}

static struct pending *free_pending(struct node *n, uint64_t now_ns)
{
	struct pending *oldest = NULL;

	for (uint32_t k = 0; k < REGISTRATION_PENDING; k++) {
		struct pending *p = &n->registration->pending[k];

		if (p->sock < 0)
			return p;
		if (!oldest || p->since_ns < oldest->since_ns)
			oldest = p;
	}
	n->stats.refused_busy++;
	if (now_ns - oldest->since_ns < REGISTRATION_SILENT_NS)
		return NULL;
	drop_pending(oldest, true);
	return oldest;
}

static void on_connection(void *arg, uint32_t events)
{
	struct node *n = arg;
	struct registration *r = n->registration;

	/* A few at a time: the drain has its turn between. */
	for (int i = 0; i < 32; i++) {
		struct pending *p;
		int sock = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (sock < 0)
			return;
		p = free_pending(n, clock_monotonic_ns());
		if (!p) {
			close(sock);
			continue;
		}
		p->sock = sock;
		p->since_ns = clock_monotonic_ns();
		if (loop_add_fd(n->loop, sock, EPOLLIN, on_hello, p, &p->source)) {
			p->sock = -1;
			close(sock);
		}
	}
}

void registration_tend(struct node *n, uint64_t now_ns)
{
	for (uint32_t k = 0; k < REGISTRATION_PENDING; k++) {
		struct pending *p = &n->registration->pending[k];

		if (p->sock >= 0 && now_ns - p->since_ns > REGISTRATION_HELLO_NS) {
			n->stats.refused_bad++;
			drop_pending(p, true);
		}
	}
}

/* A socket left behind by a sysomd that was killed is replaced; one that answers is not ours. */
static int claim_path(const struct sockaddr_un *sa)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	if (fd < 0)
		return -errno;
	err = connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) ? errno : 0;
	close(fd);
	if (!err || err == EAGAIN)
		return -EADDRINUSE;
	if (err == ECONNREFUSED)
		unlink(sa->sun_path);
	return 0;
}

int registration_open(struct node *n)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct registration *r;
	struct stat st;
	mode_t mask;
	int err;

	if (strlen(n->settings.socket_path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, n->settings.socket_path);
	err = claim_path(&sa);
	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	for (uint32_t k = 0; k < REGISTRATION_PENDING; k++)
		r->pending[k] = (struct pending){ .node = n, .sock = -1 };
	r->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Jobs of all users attach to a sysomd that is root's; else only our own user's. */
	mask = umask(geteuid() ? 0077 : 0000);
	err = r->listen_fd < 0 || bind(r->listen_fd, (struct sockaddr *)&sa, sizeof(sa)) ||
	      listen(r->listen_fd, 128) ? -errno : 0;
	umask(mask);
	n->registration = r;
	if (!err && !stat(sa.sun_path, &st))
		r->inode = st.st_ino;
	if (!err)
		err = loop_add_fd(n->loop, r->listen_fd, EPOLLIN, on_connection, n, &r->source);
	if (err) {
		if (r->listen_fd >= 0)
			close(r->listen_fd);
		free(r);
		n->registration = NULL;
	}
	return err;
}

void registration_close(struct node *n)
{
	struct registration *r = n->registration;
	struct stat st;

	if (!r)
		return;
	for (uint32_t k = 0; k < REGISTRATION_PENDING; k++)
		if (r->pending[k].sock >= 0)
			drop_pending(&r->pending[k], true);
	loop_source_close(r->source);
	close(r->listen_fd);
	/* Not the socket of a successor. */
	if (!stat(n->settings.socket_path, &st) && st.st_ino == r->inode)
		unlink(n->settings.socket_path);
	free(r);
	n->registration = NULL;
}
