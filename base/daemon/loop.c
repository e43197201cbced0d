/* SPDX-License-Identifier: Apache-2.0
 * Closed sources stay on a list until the current batch of events is done, because a later event of
 * that batch may still point to them. */
#include "base/daemon/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum source_kind { SOURCE_FD, SOURCE_TIMER, SOURCE_SIGNAL, SOURCE_WAKE };

struct loop_source {
	struct loop *loop;
	struct loop_source *next, *prev, *next_dead;
	enum source_kind kind;
	int fd;
	int dead;
	loop_fn fn;
	void *arg;
};

struct loop {
	int epfd, running;
	struct loop_source *sources, *dead;
};

int loop_open(struct loop **out)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epfd < 0) {
		int err = -errno;

		free(l);
		return err;
	}
	*out = l;
	return 0;
}

static void reap(struct loop *l)
{
	while (l->dead) {
		struct loop_source *s = l->dead;

		l->dead = s->next_dead;
		free(s);
	}
}

void loop_close(struct loop *l)
{
	if (!l)
		return;
	while (l->sources)
		loop_source_close(l->sources);
	reap(l);
	close(l->epfd);
	free(l);
}

/* Takes fd unless kind is SOURCE_FD, even on failure. */
static int add(struct loop *l, enum source_kind kind, int fd, uint32_t events, loop_fn fn,
	       void *arg, struct loop_source **out)
{
	struct loop_source *s;
	struct epoll_event ev = {.events = events};
	int err = -ENOMEM;

	if (fd < 0)
		return -errno;
	s = calloc(1, sizeof(*s));
	if (!s)
		goto fail;
	*s = (struct loop_source){.loop = l, .kind = kind, .fd = fd, .fn = fn, .arg = arg};
	ev.data.ptr = s;
	if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		err = -errno;
		goto fail;
	}
	s->next = l->sources;
	if (l->sources)
		l->sources->prev = s;
	l->sources = s;
	if (out)
		*out = s;
	return 0;
fail:
	free(s);
	if (kind != SOURCE_FD)
		close(fd);
	return err;
}

int loop_add_fd(struct loop *l, int fd, uint32_t events, loop_fn fn, void *arg,
		struct loop_source **out)
{
	return add(l, SOURCE_FD, fd, events, fn, arg, out);
}

int loop_modify(struct loop_source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};

	return epoll_ctl(s->loop->epfd, EPOLL_CTL_MOD, s->fd, &ev) < 0 ? -errno : 0;
}

static int timer_set(int fd, uint32_t first_ms, uint32_t period_ms)
{
	struct itimerspec its = {
	    .it_value = {first_ms / 1000, (long)(first_ms % 1000) * 1000000},
	    .it_interval = {period_ms / 1000, (long)(period_ms % 1000) * 1000000},
	};

	return timerfd_settime(fd, 0, &its, NULL) < 0 ? -errno : 0;
}

int loop_add_timer(struct loop *l, uint32_t first_ms, uint32_t period_ms, loop_fn fn, void *arg,
		   struct loop_source **out)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd >= 0) {
		int err = timer_set(fd, first_ms ? first_ms : period_ms, period_ms);

		if (err) {
			close(fd);
			return err;
		}
	}
	return add(l, SOURCE_TIMER, fd, EPOLLIN, fn, arg, out);
}

int loop_timer_period(struct loop_source *s, uint32_t period_ms)
{
	return s->kind == SOURCE_TIMER ? timer_set(s->fd, period_ms, period_ms) : -EINVAL;
}

int loop_add_signal(struct loop *l, int signum, loop_fn fn, void *arg, struct loop_source **out)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signum);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return add(l, SOURCE_SIGNAL, signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), EPOLLIN, fn,
		   arg, out);
}

int loop_add_wake(struct loop *l, loop_fn fn, void *arg, struct loop_source **out)
{
	return add(l, SOURCE_WAKE, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), EPOLLIN, fn, arg, out);
}

void loop_wake(struct loop_source *s)
{
	uint64_t one = 1;
	int saved = errno;

	if (write(s->fd, &one, sizeof(one)) < 0)
		errno = saved; /* EAGAIN: a wake-up is already pending */
}

void loop_source_close(struct loop_source *s)
{
	if (!s || s->dead)
		return;
	s->dead = 1;
	epoll_ctl(s->loop->epfd, EPOLL_CTL_DEL, s->fd, NULL);
	if (s->kind != SOURCE_FD)
		close(s->fd);
	if (s->prev)
		s->prev->next = s->next;
	else
		s->loop->sources = s->next;
	if (s->next)
		s->next->prev = s->prev;
	s->next_dead = s->loop->dead;
	s->loop->dead = s;
}

static void dispatch(struct loop_source *s, uint32_t events)
{
	struct signalfd_siginfo si;
	uint64_t n;

	switch (s->kind) {
	case SOURCE_FD:
		s->fn(s->arg, events);
		return;
	case SOURCE_SIGNAL:
		while (!s->dead && read(s->fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
			s->fn(s->arg, si.ssi_signo);
		return;
	default:
		if (read(s->fd, &n, sizeof(n)) == (ssize_t)sizeof(n))
			s->fn(s->arg, (uint32_t)n);
	}
}

int loop_run(struct loop *l)
{
	struct epoll_event ev[64];

	l->running = 1;
	while (l->running) {
		int n = epoll_wait(l->epfd, ev, 64, -1);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		for (int i = 0; i < n; i++) {
			struct loop_source *s = ev[i].data.ptr;

			if (!s->dead)
				dispatch(s, ev[i].events);
		}
		reap(l);
	}
	return 0;
}

void loop_stop(struct loop *l)
{
	l->running = 0;
}
