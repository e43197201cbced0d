/* SPDX-License-Identifier: Apache-2.0
 * reader_queue.c - see reader_queue.h. */
#include "reader/reader_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/clock.h"
#include "reader/reader_internal.h"

#define PAIRS	     6u /* per queue */
#define USERS	     64u
#define TICK_NS	     250000000
#define IDLE_NS	     10000000000ull
#define PENALTY	     10u
#define USER_UNKNOWN UINT32_MAX

struct pair {
	int sock; /* -1: none */
	uint32_t id, slot, uid;
	struct reader_job *job;
	uint64_t serial, begin_ns, idle_ns;
};

struct user {
	uint32_t uid;
	bool known;
	uint64_t blocked_ns[2], used_ns; /* end of the wait, by op->memory */
};

struct reader_queue {
	struct reader *reader;
	void (*drop)(void *arg);
	int epoll_fd, timer_fd;
	bool ticking;
	struct pair pair[PAIRS];
	struct user user[USERS];
	struct reader_job *first, **last; /* waiting jobs */
	struct reader_job *done, **done_last;
	uint64_t serial;
};

void reader_job_fini(struct reader_job *job)
{
	free(job->request);
	free(job->answer);
	job->request = job->answer = NULL;
}

/* The kernel answers this from the task alone, without a lock of the process's memory. */
static uint32_t user_of(const char *proc_root, uint32_t pid)
{
	char name[192], line[128];
	uint32_t uid = USER_UNKNOWN;
	FILE *f;

	snprintf(name, sizeof(name), "%s/%u/status", proc_root, pid);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "Uid: %u", &uid) != 1)
		;
	if (f)
		fclose(f);
	return uid;
}

static struct user *user_at(struct reader_queue *q, uint32_t uid)
{
	struct user *oldest = &q->user[0];

	for (uint32_t i = 0; i < USERS; i++) {
		struct user *u = &q->user[i];

		if (u->known && u->uid == uid) {
			u->used_ns = clock_monotonic_ns();
			return u;
		}
		if (!u->known || (oldest->known && u->used_ns < oldest->used_ns))
			oldest = u;
	}
	*oldest = (struct user){.uid = uid, .known = true, .used_ns = clock_monotonic_ns()};
	return oldest;
}

/* ---- pairs ---- */

static void tick(struct reader_queue *q, bool on)
{
	struct itimerspec t = {{0, on ? TICK_NS : 0}, {0, on ? TICK_NS : 0}};

	if (q->ticking == on)
		return;
	q->ticking = on;
	timerfd_settime(q->timer_fd, 0, &t, NULL);
}

static void pair_end(struct pair *p)
{
	if (p->sock >= 0) {
		shutdown(p->sock, SHUT_RDWR); /* a fork of the caller may have it, too */
		close(p->sock);
	}
	*p = (struct pair){.sock = -1};
}

static int pair_begin(struct reader_queue *q, struct pair *p, uint32_t uid)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
	int err = reader_pair_start(q->reader, uid, &p->id, &p->slot, &p->sock);

	if (err) {
		p->sock = -1;
		return err;
	}
	p->uid = uid;
	if (epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, p->sock, &e) ||
	    fcntl(p->sock, F_SETFL, O_NONBLOCK)) {
		err = -errno;
		pair_end(p);
	}
	return err;
}

/* An idle pair of the user, else a new one in a free slot or in that of another user's idle pair. A
 * parser that has parsed one user's files never parses another user's. */
static struct pair *pair_for(struct reader_queue *q, uint32_t uid, int *err)
{
	struct pair *place = NULL;

	for (uint32_t i = 0; i < PAIRS; i++) {
		struct pair *p = &q->pair[i];

		if (p->sock >= 0 && !p->job && p->uid == uid)
			return p;
		if (p->sock < 0)
			place = p;
		else if (!p->job && (!place || (place->sock >= 0 && p->idle_ns < place->idle_ns)))
			place = p;
	}
	*err = -EAGAIN;
	if (!place)
		return NULL;
	pair_end(place);
	*err = pair_begin(q, place, uid);
	return *err ? NULL : place;
}

static void finish(struct reader_queue *q, struct reader_job *job)
{
	job->next = NULL;
	*q->done_last = job;
	q->done_last = &job->next;
}

/* The request exceeded a bound, at this file; NULL: at no file, so only its user has to wait. */
static void pair_fail(struct reader_queue *q, struct pair *p, const struct reader_file *file)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct reader_job *job = p->job;

	if (file)
		reader_file_refuse(q->reader, file);
	user_at(q, p->uid)->blocked_ns[job->op->memory] = now_ns + PENALTY * (now_ns - p->begin_ns);
	job->err = -ETIME;
	pair_end(p);
	finish(q, job);
}

/* Another process killed its parser or opener: it gets new ones, once, and its file and user are
 * not penalised. */
static void pair_again(struct reader_queue *q, struct pair *p)
{
	struct reader_job *job = p->job;

	pair_end(p);
	if (job->again) {
		job->err = -ETIME;
		finish(q, job);
		return;
	}
	job->again = true;
	job->next = q->first;
	q->first = job;
	if (!job->next)
		q->last = &job->next;
}

static void give_up(struct reader_queue *q, struct pair *p, int err)
{
	struct reader_job *job = p->job;

	reader_pair_kill(q->reader, p->id);
	job->err = err;
	pair_end(p);
	finish(q, job);
}

static int pair_send(struct reader_queue *q, struct pair *p, struct reader_job *job)
{
	struct reader_run run = {.kind = READER_RUN,
				 .pid = job->pid,
				 .bytes = (uint32_t)job->bytes,
				 .op = job->op,
				 .serial = ++q->serial};
	int err = job->bytes > READER_REQUEST_BYTES - sizeof(run) || job->fd_count > READER_FDS_MAX
		      ? -E2BIG
		      : reader_send(p->sock, &run, sizeof(run), job->request, job->bytes, job->fds,
				    job->fd_count);

	if (err)
		return err;
	p->job = job;
	p->serial = run.serial;
	p->begin_ns = clock_monotonic_ns();
	return 0;
}

/* ---- answers ---- */

/* Accepts only a memory file that its writer cannot change any more; another file might block or
 * shrink. */
static int take_file(struct reader_job *job, int fd, uint64_t bytes)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	int have = fcntl(fd, F_GET_SEALS);

	if (have < 0 || (have & seals) != seals || bytes > job->op->answer_max)
		return -EPROTO;
	job->answer = malloc(bytes + 1);
	if (!job->answer)
		return -ENOMEM;
	if (all_bytes_read(fd, job->answer, bytes, 0))
		return -EPROTO;
	job->answer_bytes = bytes;
	return 0;
}

static int take_bytes(struct reader_job *job, const uint8_t *data, size_t bytes)
{
	job->answer = malloc(bytes + 1);
	if (!job->answer)
		return -ENOMEM;
	memcpy(job->answer, data, bytes);
	job->answer_bytes = bytes;
	return 0;
}

static void pair_read(struct reader_queue *q, struct pair *p)
{
	static _Thread_local union {
		struct reader_answer a;
		uint8_t room[sizeof(struct reader_answer) + READER_INLINE_BYTES];
	} m;
	struct reader_file file = {0};
	uint32_t count = 1;
	int fd = -1, err = 0;
	ssize_t n = reader_receive(p->sock, &m, sizeof(m), &fd, &count);
	size_t bytes;

	if (n == -EAGAIN)
		return;
	if (!p->job) { /* it ended, or sends an answer that nobody asked for */
		pair_end(p);
		return;
	}
	bytes = n >= (ssize_t)sizeof(m.a) ? (size_t)n - sizeof(m.a) : 0;
	if (n < (ssize_t)sizeof(m.a) || m.a.kind != READER_ANSWER || m.a.serial != p->serial) {
		bool died =
		    n >= (ssize_t)sizeof(m.a) && m.a.kind == READER_DIED && bytes == sizeof(file);

		/* an opener that was killed by another process sends nothing more */
		if ((died || n <= 0) && reader_pair_was_killed(q->reader, p->id)) {
			pair_again(q, p);
		} else {
			if (died)
				memcpy(&file, m.a.data, sizeof(file));
			else
				reader_pair_kill(q->reader, p->id);
			pair_fail(q, p, &file);
		}
	} else {
		if (count)
			err = take_file(p->job, fd, m.a.bytes);
		else
			err = bytes == m.a.bytes ? take_bytes(p->job, m.a.data, bytes) : -EPROTO;
		p->job->err = err ? err : m.a.err > 0 ? -EPROTO : m.a.err;
		finish(q, p->job);
		p->job = NULL;
		p->idle_ns = clock_monotonic_ns();
	}
	if (count)
		close(fd);
}

/* ---- the queue ---- */

/* Whether a job of the same user and kind is running. */
static bool runs(const struct reader_queue *q, const struct reader_job *job)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		const struct pair *p = &q->pair[i];

		if (p->job && p->uid == job->uid && p->job->op->memory == job->op->memory)
			return true;
	}
	return false;
}

static bool is_blocked(struct reader_queue *q, const struct reader_job *job, uint64_t now_ns)
{
	return user_at(q, job->uid)->blocked_ns[job->op->memory] > now_ns;
}

/* True: it left the queue. */
static bool run(struct reader_queue *q, struct reader_job *job)
{
	int err = 0;
	struct pair *p = pair_for(q, job->uid, &err);

	if (!p && err == -EAGAIN)
		return false;
	if (p) {
		err = pair_send(q, p, job);
		if (err)
			pair_end(p);
		if (err == -EPIPE) /* the pair just ended: we start another one soon */
			return false;
	}
	if (err) {
		job->err = err;
		finish(q, job);
	}
	return true;
}

static void pump(struct reader_queue *q)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool busy = false;

	for (uint32_t i = 0; i < PAIRS; i++) {
		struct pair *p = &q->pair[i];

		if (p->job && now_ns - p->begin_ns > p->job->op->wall_ms * 1000000ull) {
			/* Nobody knows where the time went: the last file may be a shared one, and
			 * the user's file system may have taken the time. */
			reader_pair_kill(q->reader, p->id);
			pair_fail(q, p, NULL);
		} else if (p->sock >= 0 && !p->job && now_ns > p->idle_ns + IDLE_NS) {
			pair_end(p);
		}
	}
	for (struct reader_job **at = &q->first; *at;) {
		struct reader_job *job = *at, *next = job->next;
		bool blocked = is_blocked(q, job, now_ns);

		/* its answer would be of no use later */
		if (blocked && job->op->memory) {
			job->err = -EBUSY;
			finish(q, job);
		} else if (blocked || runs(q, job) || !run(q, job)) {
			at = &job->next;
			continue;
		}
		*at = next;
		if (!next)
			q->last = at;
	}
	for (uint32_t i = 0; i < PAIRS; i++)
		busy |= q->pair[i].sock >= 0;
	tick(q, busy || q->first);
}

static void events(struct reader_queue *q)
{
	struct epoll_event e[PAIRS + 1];
	int n = epoll_wait(q->epoll_fd, e, PAIRS + 1, 0);

	for (int i = 0; i < n; i++) {
		uint64_t expired;

		if (!e[i].data.ptr) {
			if (read(q->timer_fd, &expired, sizeof(expired)) < 0)
				continue;
		} else if (((struct pair *)e[i].data.ptr)->sock >= 0) {
			pair_read(q, e[i].data.ptr);
		}
	}
}

void reader_queue_push(struct reader_queue *q, struct reader_job *job)
{
	reader_queue_push_as(q, job, user_of(q->reader->proc_root, job->pid));
}

void reader_queue_push_as(struct reader_queue *q, struct reader_job *job, uint32_t uid)
{
	job->uid = uid;
	job->err = 0;
	job->again = false;
	job->next = NULL;
	*q->last = job;
	q->last = &job->next;
	pump(q);
}

struct reader_job *reader_queue_next(struct reader_queue *q)
{
	struct reader_job *job;

	if (!q->done) {
		events(q);
		pump(q);
	}
	job = q->done;
	if (job) {
		q->done = job->next;
		if (!q->done)
			q->done_last = &q->done;
	}
	return job;
}

int reader_queue_call(struct reader_queue *q, struct reader_job *job, const atomic_bool *stop)
{
	uint32_t uid = user_of(q->reader->proc_root, job->pid);

	job->uid = uid;
	if (is_blocked(q, job, clock_monotonic_ns()))
		return job->err = -EBUSY;
	reader_queue_push(q, job);
	while (!reader_queue_next(q)) {
		struct pollfd p = {.fd = q->epoll_fd, .events = POLLIN};

		poll(&p, 1, TICK_NS / 1000000);
		for (uint32_t i = 0; stop && atomic_load(stop) && i < PAIRS; i++)
			if (q->pair[i].job)
				give_up(q, &q->pair[i], -ECANCELED);
	}
	return job->err;
}

int reader_queue_fd(const struct reader_queue *q)
{
	return q->epoll_fd;
}

int reader_queue_open(struct reader_queue **out, struct reader *reader, void (*drop)(void *arg))
{
	struct reader_queue *q = calloc(1, sizeof(*q));
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};

	if (!q)
		return -ENOMEM;
	q->reader = reader;
	q->drop = drop;
	q->last = &q->first;
	q->done_last = &q->done;
	for (uint32_t i = 0; i < PAIRS; i++)
		q->pair[i].sock = -1;
	q->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	q->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (q->epoll_fd < 0 || q->timer_fd < 0 ||
	    epoll_ctl(q->epoll_fd, EPOLL_CTL_ADD, q->timer_fd, &e)) {
		int err = -errno;

		reader_queue_close(q);
		return err;
	}
	*out = q;
	return 0;
}

void reader_queue_close(struct reader_queue *q)
{
	if (!q)
		return;
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct pair *p = &q->pair[i];

		if (p->job)
			give_up(q, p, -ECANCELED);
		pair_end(p);
	}
	*q->done_last = q->first;
	while (q->done) {
		struct reader_job *job = q->done;

		q->done = job->next;
		if (q->drop)
			q->drop(job->arg);
		reader_job_fini(job);
		free(job);
	}
	if (q->epoll_fd >= 0)
		close(q->epoll_fd);
	if (q->timer_fd >= 0)
		close(q->timer_fd);
	free(q);
}
