/* SPDX-License-Identifier: Apache-2.0
 * The attach socket. Any process that reaches it may try to attach. It has two seconds to say who
 * it is, in one message. SO_PEERCRED shows its user from the start. Each user gets at most a fair
 * share of the pending connections and of the CPU time for attaching. The message carries
 * descriptors. Closing a descriptor of a FUSE file waits for that file's server, and no signal ends
 * the wait. So a parser process (reader/) receives the message, closes what is not a memory file,
 * and passes on the rest. */
#include "sidecar/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/daemon/log.h"
#include "base/daemon/service.h"
#include "base/daemon/foreign.h"
#include "reader/reader_queue.h"
#include "sidecar/process.h"

#define REGISTRATION_HELLO_NS 2000000000ull
/* A process normally says hello at once. A connection that is silent for longer may be dropped to
 * make room for others. */
#define REGISTRATION_SILENT_NS 200000000ull

/* All connections wait in one kernel queue, and we cannot see whose they are before accept. Each
 * refusal costs an accept and a close. After refusals we rest 19 times as long as they took, so
 * refusing takes at most a twentieth of a CPU. A process in the queue waits meanwhile
 * (attach_connect). */
#define REGISTRATION_REST 19u

/* Socket option of Linux 6.16 and later: whether the socket accepts descriptors. */
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

struct asked;

struct pending {
	struct registration *registration;
	int sock; /* -1: free */
	struct ucred peer;
	uint64_t since_ns;
	struct loop_source *source; /* NULL while asked is set */
	struct asked *asked;
};

/* The request to a parser to receive the hello. */
struct asked {
	struct reader_job job;	 /* must be the first member: the struct is freed through it */
	struct pending *pending; /* NULL: the connection was dropped meanwhile */
	int fds[2];		 /* the connection, and the parser's end of the relay */
	int relay;		 /* our end of the relay */
};

/* A refused process tries again every few seconds. The log reports it once while it keeps
 * trying. */
#define REFUSED_KNOWN	  256u
#define REFUSED_FORGET_NS 60000000000ull

struct refused {
	pid_t pid;
	uid_t uid;
	int err;
	uint64_t seen_ns; /* 0: free */
};

struct registration {
	struct node *node;
	int listen_fd;
	ino_t inode; /* of the socket file; 0: the file is not ours to remove */
	struct loop_source *source;
	struct loop_source *rest; /* NULL: accepting connections */
	struct quota places, work;
	struct reader_queue *readers;
	struct loop_source *answers;
	struct pending pending[LIMIT_ATTACH_PENDING];
	struct refused refused[REFUSED_KNOWN];
};

static void refuse(int sock, int err)
{
	struct attach_command c = {.magic = ATTACH_MAGIC, .kind = ATTACH_REFUSE, .arg = err};

	if (send(sock, &c, sizeof(c), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("attach", "refusal not sent: %s", strerror(errno));
}

/* The text for the log; the process gets only the number. */
static const char *why_not(int err)
{
	switch (-err) {
	case EDQUOT:
		return "the node is full, and its user already has a fair share of the processes";
	case EBUSY:
		return "its user has too many connections, or attaches too often";
	case EPROTONOSUPPORT:
		return "its libsysom_preload has another version; restart the job";
	case ETIME:
		return "a descriptor that it sent could not be closed in time";
	case ENODATA:
		return "it has not touched all pages of its ring";
	case EPERM:
		return "its ring is not sealed (Linux 5.1 or later is needed)";
	}
	return strerror(-err);
}

/* Uses CPU time, not wall time, so that a user does not pay for a loaded machine. */
static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void drop_pending(struct pending *p, bool close_sock)
{
	quota_give(&p->registration->places, p->peer.uid, 1);
	loop_source_close(p->source);
	if (close_sock)
		foreign_close(p->sock);
	if (p->asked)
		p->asked->pending = NULL;
	p->asked = NULL;
	p->source = NULL;
	p->sock = -1;
}

/* Whether this process was refused for the same reason recently; notes the refusal. */
static bool was_refused(struct registration *r, const struct ucred *peer, int err, uint64_t now_ns)
{
	struct refused *at = r->refused;
	bool known = false;

	for (uint32_t i = 0; i < REFUSED_KNOWN && !known; i++) {
		struct refused *f = &r->refused[i];

		known = f->seen_ns && f->pid == peer->pid && f->uid == peer->uid && f->err == err;
		if (known || f->seen_ns < at->seen_ns)
			at = f;
	}
	known = known && now_ns - at->seen_ns < REFUSED_FORGET_NS;
	*at = (struct refused){peer->pid, peer->uid, err, now_ns};
	return known;
}

/* ---- the message ---- */

/* Runs in the parser. Passes on only memory files of at most a ring's size: closing those waits for
 * no other process. */
static int take_hello(struct reader_target *t, const void *request, size_t bytes,
		      struct buf *answer)
{
	struct attach_hello h;
	int fds[ATTACH_FDS], err;

	(void)request, (void)bytes, (void)answer;
	if (t->fd_count != 2)
		return -EINVAL;
	err = attach_accept(t->fds[0], &h, fds);
	if (err)
		return err;
	for (int i = 0; i < ATTACH_FDS && !err; i++) {
		struct stat st;

		if (fcntl(fds[i], F_GET_SEALS) < 0)
			err = -EPERM;
		else if (fstat(fds[i], &st) || st.st_size > (off_t)LIMIT_RING_BYTES)
			err = -EFBIG;
	}
	/* a later version's hello may be longer; pass on the part that we know */
	h.bytes = sizeof(h);
	if (!err)
		err = attach_send(t->fds[1], &h, fds);
	for (int i = 0; i < ATTACH_FDS; i++)
		close(fds[i]);
	return err;
}

static const struct reader_op hello_op = {take_hello, 64, 1, 2000, true};

static void asked_fini(void *arg)
{
	struct asked *a = arg;

	foreign_close(a->fds[0]);
	if (a->fds[1] >= 0)
		close(a->fds[1]);
	if (a->relay >= 0)
		close(a->relay);
}

static void on_hello(void *arg, uint32_t events);

/* Takes fds if err is 0. */
static void finish_hello(struct pending *p, const struct attach_hello *h, int fds[ATTACH_FDS],
			 int err)
{
	struct registration *r = p->registration;
	struct node *n = r->node;
	struct ucred peer = p->peer;
	int sock = p->sock, no = 0;

	drop_pending(p, false);
	/* state messages carry no descriptors */
	if (setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)))
		errno = 0; /* older than Linux 6.16 */
	if (!err)
		err = process_attach(n, h, peer.pid, peer.uid, sock, fds);
	if (!err)
		return;
	if (err == -EDQUOT)
		n->admission.refused_full++;
	else
		n->admission.refused_bad++;
	if (!was_refused(r, &peer, err, clock_monotonic_ns()))
		log_warn("attach", "pid=%d uid=%u refused: %s", (int)peer.pid, (unsigned)peer.uid,
			 why_not(err));
	refuse(sock, -err);
	foreign_close(sock);
}

static void answered(struct registration *r, struct asked *a)
{
	struct pending *p = a->pending;
	uint64_t begin_ns = cpu_ns();
	struct attach_hello h;
	int fds[ATTACH_FDS], err = a->job.err;
	uid_t uid = a->job.uid;

	if (!err && attach_accept(a->relay, &h, fds))
		err = -EPROTO;
	asked_fini(a);
	if (p)
		p->asked = NULL;
	if (!p && !err) {
		close(fds[0]);
		close(fds[1]);
	} else if (p && err == -EAGAIN) { /* another reader took the message */
		if (loop_add_fd(r->node->loop, p->sock, EPOLLIN, on_hello, p, &p->source))
			drop_pending(p, true);
	} else if (p) {
		finish_hello(p, &h, fds, err);
	}
	quota_take(&r->work, uid, cpu_ns() - begin_ns, clock_monotonic_ns());
}

static void on_answers(void *arg, uint32_t events)
{
	struct registration *r = arg;
	struct reader_job *job;

	while ((job = reader_queue_next(r->readers))) {
		answered(r, job->arg);
		reader_job_fini(job);
		free(job);
	}
}

/* False: out of memory or descriptors. */
static bool ask(struct pending *p)
{
	struct asked *a = calloc(1, sizeof(*a));
	int between[2];

	if (!a)
		return false;
	a->pending = p;
	a->fds[0] = fcntl(p->sock, F_DUPFD_CLOEXEC, 3);
	if (a->fds[0] < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, between)) {
		if (a->fds[0] >= 0)
			close(a->fds[0]);
		free(a);
		return false;
	}
	a->fds[1] = between[1];
	a->relay = between[0];
	a->job = (struct reader_job){
	    .op = &hello_op, .pid = (uint32_t)p->peer.pid, .fds = a->fds, .fd_count = 2, .arg = a};
	loop_source_close(p->source);
	p->source = NULL;
	p->asked = a;
	reader_queue_push_as(p->registration->readers, &a->job, p->peer.uid);
	return true;
}

static void on_hello(void *arg, uint32_t events)
{
	struct pending *p = arg;
	struct registration *r = p->registration;
	uint64_t begin_ns = cpu_ns();
	uid_t uid = p->peer.uid;
	char byte;
	ssize_t got = recv(p->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (got > 0 && !ask(p))
		drop_pending(p, true);
	else if (got == 0 || (got < 0 && (events & (EPOLLHUP | EPOLLERR)))) {
		/* `sysom run` and `sysom doctor` connect only to see whether sysomd answers */
		r->node->admission.refused_bad += got < 0 || !(events & EPOLLHUP);
		drop_pending(p, true);
	}
	quota_take(&r->work, uid, cpu_ns() - begin_ns, clock_monotonic_ns());
	/* some requests finish at once */
	on_answers(r, 0);
}

/* The user's connection that has been silent for longest. */
static struct pending *oldest_of(struct registration *r, uid_t uid)
{
	struct pending *oldest = NULL;

	for (uint32_t k = 0; k < LIMIT_ATTACH_PENDING; k++) {
		struct pending *p = &r->pending[k];

		if (p->sock >= 0 && p->peer.uid == uid &&
		    (!oldest || p->since_ns < oldest->since_ns))
			oldest = p;
	}
	return oldest;
}

/* A place for a connection; NULL: the user must wait. */
static struct pending *free_pending(struct registration *r, uid_t uid, uint64_t now_ns)
{
	struct pending *p;
	uid_t heaviest = uid;

	if (!quota_may(&r->places, uid, 1, now_ns)) {
		p = oldest_of(r, uid);
		if (!p || now_ns - p->since_ns < REGISTRATION_SILENT_NS)
			return NULL;
		drop_pending(p, true);
		r->node->admission.refused_busy++;
	} else if (quota_is_full(&r->places, 1) && quota_heaviest(&r->places, &heaviest)) {
		drop_pending(oldest_of(r, heaviest), true);
		r->node->admission.refused_busy++;
	}
	for (uint32_t k = 0; k < LIMIT_ATTACH_PENDING; k++)
		if (r->pending[k].sock < 0)
			return &r->pending[k];
	return NULL;
}

/* Takes sock. False: refused. */
static bool take_connection(struct registration *r, int sock, const struct ucred *peer,
			    uint64_t now_ns)
{
	struct pending *p = NULL;

	if (peer->uid != (uid_t)-1 && quota_may(&r->work, peer->uid, 0, now_ns))
		p = free_pending(r, peer->uid, now_ns);
	if (!p) {
		r->node->admission.refused_busy++;
		refuse(sock, EBUSY);
		close(sock);
		return false;
	}
	quota_take(&r->places, peer->uid, 1, now_ns);
	p->sock = sock;
	p->peer = *peer;
	p->since_ns = now_ns;
	if (loop_add_fd(r->node->loop, sock, EPOLLIN, on_hello, p, &p->source))
		drop_pending(p, true);
	return true;
}

static void on_rested(void *arg, uint32_t count)
{
	struct registration *r = arg;

	loop_source_close(r->rest);
	r->rest = NULL;
	loop_modify(r->source, EPOLLIN);
}

/* spent_ns: CPU time spent on refusals. If no timer can be made, does not rest. */
static void rest(struct registration *r, uint64_t spent_ns)
{
	uint32_t ms = (uint32_t)(spent_ns * REGISTRATION_REST / 1000000) + 1;

	if (loop_modify(r->source, 0))
		return;
	if (loop_add_timer(r->node->loop, ms, 0, on_rested, r, &r->rest))
		loop_modify(r->source, EPOLLIN);
	else
		r->node->admission.rests++;
}

static void on_connection(void *arg, uint32_t events)
{
	struct registration *r = arg;
	uint64_t refused_ns = 0, begin_ns = cpu_ns();
	struct foreign f;

	foreign_begin(&f); /* one guard covers all sockets closed below */
	/* A few connections per turn, so that the drain does not wait long. */
	for (int i = 0; i < 32; i++) {
		int sock = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct ucred peer = {.uid = (uid_t)-1};
		socklen_t bytes = sizeof(peer);
		uint64_t now_ns = clock_monotonic_ns(), end_ns;
		bool taken;

		if (sock < 0)
			break;
		if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
			peer.uid = (uid_t)-1;
		taken = take_connection(r, sock, &peer, now_ns);
		end_ns = cpu_ns();
		quota_take(&r->work, peer.uid, end_ns - begin_ns, now_ns);
		refused_ns += taken ? 0 : end_ns - begin_ns;
		begin_ns = end_ns;
	}
	foreign_end(&f);
	if (refused_ns)
		rest(r, refused_ns);
}

void registration_tend(struct registration *r, uint64_t now_ns)
{
	for (uint32_t k = 0; k < LIMIT_ATTACH_PENDING; k++) {
		struct pending *p = &r->pending[k];

		if (p->sock >= 0 && !p->asked && now_ns - p->since_ns > REGISTRATION_HELLO_NS) {
			r->node->admission.refused_bad++;
			drop_pending(p, true);
		}
	}
}

int registration_open(struct registration **out, struct node *n)
{
	struct registration *r;
	int err;

	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	quota_init(&r->places, LIMIT_ATTACH_PENDING, 0);
	quota_init(&r->work, LIMIT_ATTACH_WORK_NS, 1000000000ull);
	for (uint32_t k = 0; k < LIMIT_ATTACH_PENDING; k++)
		r->pending[k] = (struct pending){.registration = r, .sock = -1};
	/* Jobs of all users may attach to root's sysomd; else only our own user's. systemd created
	 * its socket as root, so jobs of all users trust it. */
	r->listen_fd = service_listen(n->settings.socket_path, SOCK_SEQPACKET,
				      geteuid() ? 0077 : 0000, &r->inode);
	err = r->listen_fd < 0 ? r->listen_fd : 0;
	r->node = n;
	if (!err)
		err = reader_queue_open(&r->readers, n->reader, asked_fini);
	if (!err)
		err = loop_add_fd(n->loop, reader_queue_fd(r->readers), EPOLLIN, on_answers, r,
				  &r->answers);
	if (!err)
		err = loop_add_fd(n->loop, r->listen_fd, EPOLLIN, on_connection, r, &r->source);
	if (err) {
		loop_source_close(r->answers);
		reader_queue_close(r->readers);
		if (r->listen_fd >= 0)
			close(r->listen_fd);
		free(r);
	} else {
		*out = r;
	}
	return err;
}

void registration_close(struct registration *r)
{
	if (!r)
		return;
	for (uint32_t k = 0; k < LIMIT_ATTACH_PENDING; k++)
		if (r->pending[k].sock >= 0)
			drop_pending(&r->pending[k], true);
	loop_source_close(r->answers);
	reader_queue_close(r->readers);
	loop_source_close(r->rest);
	loop_source_close(r->source);
	/* connections may still wait in the socket, with data sent over them */
	foreign_close(r->listen_fd);
	service_unlisten(r->node->settings.socket_path, r->inode);
	free(r);
}
