/* SPDX-License-Identifier: Apache-2.0
 * reader.c - the keeper, and how the caller talks to it.
 * Pairs are forks of the keeper, which was forked before the caller had threads or secrets. So no
 * program is started, and the pairs share only the caller's first pages. */
#include "reader/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "reader/reader_internal.h"

/* Lower priority than the job, but enough to build tables on a node with all CPUs busy: a third of
 * a CPU's share for the 0.7 s that PyTorch's tables take. */
#define READER_NICE   5
#define REFUSED_NS    600000000000ull
#define KEEPER_WAIT_S 5
#define END_TRIES     100 /* of a millisecond each */

/* ---- the keeper ---- */

struct pair {
	uint32_t id, uid;     /* id 0: free */
	pid_t opener, parser; /* 0: ended */
	bool killed;
	uint32_t ended_id;	   /* the latest pair of which a process ended */
	bool by_signal, by_others; /* it was ended by a signal; by a signal from others */
};

struct keeper {
	struct reader_shared *shared;
	const char *proc_root;
	int caller;
	struct pair pair[LIMIT_READER_PAIRS];
	uint32_t next_id;
};

static void on_child(int number)
{
	(void)number;
}

static void count_end(struct keeper *k, bool parser, const struct pair *p, int status)
{
	if (!parser || p->killed || !WIFSIGNALED(status))
		return;
	/* opener and parser end when the other one does: neither is at fault */
	if (WTERMSIG(status) == SIGXCPU)
		atomic_fetch_add(&k->shared->cpu, 1);
	else if (WTERMSIG(status) != SIGKILL || p->opener)
		atomic_fetch_add(&k->shared->crashed, 1);
}

/* Whether another process killed this one. A parser may not send signals, not even to itself, and
 * its CPU bound has its own signal; an opener exits if it cannot continue. A process that used much
 * of its memory may have been killed for that (the kernel sends SIGKILL when memory is short). */
static bool is_by_others(const struct pair *p, int status, const struct rusage *used)
{
	int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	return !p->killed &&
	       (number == SIGKILL || number == SIGTERM || number == SIGINT || number == SIGHUP ||
		number == SIGQUIT) &&
	       (uint64_t)used->ru_maxrss * 1024 < LIMIT_READER_DATA_BYTES / 2;
}

static void collect(struct keeper *k)
{
	uint32_t abandoned = 0;
	struct rusage used;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0) {
		for (uint32_t i = 0; i < LIMIT_READER_PAIRS; i++) {
			struct pair *p = &k->pair[i];

			if (pid != p->opener && pid != p->parser)
				continue;
			count_end(k, pid == p->parser, p, status);
			/* keep the first signal; the other process then exits by itself, and we may
			 * see that first */
			if (p->ended_id != p->id || (!p->by_signal && WIFSIGNALED(status))) {
				p->ended_id = p->id;
				p->by_signal = WIFSIGNALED(status);
				p->by_others = is_by_others(p, status, &used);
			}
			*(pid == p->opener ? &p->opener : &p->parser) = 0;
			/* the parser has nobody to answer, and exits by itself unless it was
			 * stopped */
			if (!p->opener && p->parser)
				kill(p->parser, SIGKILL);
			if (!p->opener && !p->parser)
				p->id = 0;
			break;
		}
	}
	for (uint32_t i = 0; i < LIMIT_READER_PAIRS; i++)
		abandoned += k->pair[i].id && k->pair[i].killed;
	atomic_store(&k->shared->abandoned, abandoned);
}

static void pair_kill(struct pair *p)
{
	p->killed = true;
	if (p->opener)
		kill(p->opener, SIGKILL);
	if (p->parser)
		kill(p->parser, SIGKILL);
}

/* In the fork: the process must not outlive its keeper. */
static void child_begin(struct keeper *k)
{
	sigset_t none;
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	/* the first victim when memory is short; its work can be repeated */
	if (fd < 0 || write(fd, "1000", 4) != 4)
		errno = 0;
	if (fd >= 0)
		close(fd);
	close(k->caller);
	setpriority(PRIO_PROCESS, 0, READER_NICE);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD, SIG_DFL);
}

static int pair_fork(struct keeper *k, struct pair *p, uint32_t slot, int caller)
{
	int between[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, between))
		return -errno;
	p->killed = false;
	p->parser = fork();
	if (!p->parser) {
		close(between[0]);
		close(caller);
		child_begin(k);
		munmap(k->shared, sizeof(*k->shared));
		reader_parser_run(between[1], slot);
	}
	p->opener = p->parser < 0 ? -1 : fork();
	if (!p->opener) {
		close(between[1]);
		child_begin(k);
		reader_opener_run(k->shared, slot, k->proc_root, caller, between[0]);
	}
	close(between[0]);
	close(between[1]);
	if (p->opener > 0)
		return 0;
	if (p->parser > 0)
		kill(p->parser, SIGKILL); /* reaped with the others */
	else
		p->parser = 0;
	p->opener = 0;
	return -EAGAIN;
}

static void order_start(struct keeper *k, uint32_t uid, int caller, struct reader_done *done)
{
	uint32_t abandoned = 0, all = 0, slot = LIMIT_READER_PAIRS;

	for (uint32_t i = 0; i < LIMIT_READER_PAIRS; i++) {
		const struct pair *p = &k->pair[i];

		if (!p->id) {
			slot = i;
			continue;
		}
		abandoned += p->killed && p->uid == uid;
		all += p->killed;
	}
	done->err = -EBUSY;
	if (slot == LIMIT_READER_PAIRS || abandoned >= LIMIT_READER_ABANDONED_USER ||
	    all >= LIMIT_READER_ABANDONED) {
		atomic_fetch_add(&k->shared->no_worker, 1);
		return;
	}
	memset(&k->shared->slot[slot], 0, sizeof(k->shared->slot[slot]));
	k->pair[slot].uid = uid;
	done->err = pair_fork(k, &k->pair[slot], slot, caller);
	k->pair[slot].id = done->err && !k->pair[slot].parser ? 0 : ++k->next_id;
	k->pair[slot].killed = done->err != 0;
	done->id = k->pair[slot].id;
	done->slot = slot;
	atomic_fetch_add(&k->shared->started, (uint64_t)!done->err);
}

static void order_kill(struct keeper *k, uint32_t id)
{
	for (uint32_t i = 0; i < LIMIT_READER_PAIRS; i++)
		if (id && k->pair[i].id == id) {
			pair_kill(&k->pair[i]);
			atomic_fetch_add(&k->shared->killed, 1);
		}
}

/* One of the pair has hung up, so both end now. If both exit by themselves, no other process killed
 * them. If one does not exit, it hung up on its own. */
static int order_how_ended(struct keeper *k, uint32_t id)
{
	for (int i = 0; i < END_TRIES; i++) {
		collect(k);
		for (uint32_t n = 0; n < LIMIT_READER_PAIRS; n++)
			if (k->pair[n].ended_id == id &&
			    (k->pair[n].by_signal || k->pair[n].id != id))
				return k->pair[n].by_others ? -EINTR : 0;
		poll(NULL, 0, 1);
	}
	return 0;
}

/* False when the caller has closed its end. */
static bool keeper_turn(struct keeper *k)
{
	struct reader_ordered o;
	struct reader_done done = {.err = 0};
	uint32_t count = 1;
	int fd = -1;

	if (reader_receive(k->caller, &o, sizeof(o), &fd, &count) != (ssize_t)sizeof(o))
		return false;
	collect(k);
	done.serial = o.serial;
	if (o.order == READER_START && count)
		order_start(k, o.uid, fd, &done);
	else if (o.order == READER_KILL)
		order_kill(k, o.id);
	else if (o.order == READER_HOW_ENDED)
		done.err = order_how_ended(k, o.id);
	if (count)
		close(fd);
	return o.order == READER_KILL ||
	       !reader_send(k->caller, &done, sizeof(done), NULL, 0, NULL, 0);
}

static void close_others(int keep)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* a process that cannot exit must not hold a pipe of our parent */
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (syscall(SYS_close_range, 3, keep - 1, 0) ||
	    syscall(SYS_close_range, keep + 1, ~0u, 0)) {
		for (int fd = 3; fd < 1024; fd++)
			if (fd != keep)
				close(fd);
	}
}

static _Noreturn void keeper_run(struct reader_shared *shared, const char *proc_root, int caller)
{
	struct keeper *k = calloc(1, sizeof(*k));
	struct sigaction on = {.sa_handler = on_child};
	sigset_t block, waiting;

	prctl(PR_SET_NAME, "sysom-keeper");
	close_others(caller);
	if (!k || chdir("/"))
		_exit(1);
	for (int number = 1; number < NSIG; number++) /* the caller's handlers are not for us */
		signal(number, SIG_DFL);
	/* the keeper ends when the caller does, not by a signal that a terminal or a service
	 * manager sends to all */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGCHLD, &on, NULL);
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	sigprocmask(SIG_SETMASK, &block, NULL);
	sigemptyset(&waiting);
	*k = (struct keeper){.shared = shared, .proc_root = proc_root, .caller = caller};
	for (;;) {
		struct pollfd p = {.fd = caller, .events = POLLIN};

		collect(k);
		if (ppoll(&p, 1, NULL, &waiting) < 0 && errno == EINTR)
			continue;
		if (!keeper_turn(k))
			break;
	}
	for (uint32_t i = 0; i < LIMIT_READER_PAIRS; i++)
		pair_kill(&k->pair[i]);
	/* reaps what exits in time; the init process reaps the rest */
	for (int i = 0; i < END_TRIES && waitpid(-1, NULL, WNOHANG) >= 0; i++)
		poll(NULL, 0, 1);
	_exit(0);
}

/* ---- the caller ---- */

int reader_open(struct reader **out, const char *proc_root)
{
	struct reader *r = calloc(1, sizeof(*r));
	struct timeval wait = {.tv_sec = KEEPER_WAIT_S};
	int pair[2] = {-1, -1}, err = 0;

	if (!r)
		return -ENOMEM;
	snprintf(r->proc_root, sizeof(r->proc_root), "%s", proc_root ? proc_root : "/proc");
	r->shared = mmap(NULL, sizeof(*r->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r->shared == MAP_FAILED) {
		free(r);
		return -ENOMEM;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		err = -errno;
	if (!err) {
		fflush(NULL);
		r->keeper_pid = fork();
		if (!r->keeper_pid)
			keeper_run(r->shared, r->proc_root, pair[1]);
		err = r->keeper_pid < 0 ? -errno : 0;
	}
	if (pair[1] >= 0)
		close(pair[1]);
	r->keeper = pair[0];
	pthread_mutex_init(&r->lock, NULL);
	if (err) {
		r->keeper_pid = 0;
		reader_close(r);
		return err;
	}
	setsockopt(r->keeper, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	setsockopt(r->keeper, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	*out = r;
	return 0;
}

int reader_fd(const struct reader *r)
{
	return r->keeper;
}

void reader_close(struct reader *r)
{
	if (!r)
		return;
	if (r->keeper >= 0) {
		shutdown(r->keeper, SHUT_RDWR); /* a fork of the caller may have it, too */
		close(r->keeper);
	}
	/* it kills and exits; if it was stopped, its death kills what it started */
	for (int i = 0; r->keeper_pid > 0 && i < 2 * END_TRIES; i++) {
		if (waitpid(r->keeper_pid, NULL, WNOHANG))
			r->keeper_pid = 0;
		else
			poll(NULL, 0, 1);
	}
	if (r->keeper_pid > 0)
		kill(r->keeper_pid, SIGKILL);
	while (r->keeper_pid > 0 && waitpid(r->keeper_pid, NULL, 0) < 0 && errno == EINTR)
		;
	munmap(r->shared, sizeof(*r->shared));
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* Sends an order and waits for its answer. sock: -1: none. */
static int ask(struct reader *r, struct reader_ordered *o, int sock, struct reader_done *done)
{
	int err;

	memset(done, 0, sizeof(*done));
	pthread_mutex_lock(&r->lock);
	o->serial = ++r->serial ? r->serial : ++r->serial; /* 0: none */
	err = reader_send(r->keeper, o, sizeof(*o), NULL, 0, &sock, sock >= 0);
	/* skip an answer that came too late for its order */
	while (!err && (!done->serial || done->serial != o->serial))
		if (reader_receive(r->keeper, done, sizeof(*done), NULL, NULL) !=
		    (ssize_t)sizeof(*done))
			err = -EPIPE;
	pthread_mutex_unlock(&r->lock);
	return err ? err : done->err;
}

int reader_pair_start(struct reader *r, uint32_t uid, uint32_t *id, uint32_t *slot, int *sock)
{
	struct reader_ordered o = {.order = READER_START, .uid = uid};
	struct reader_done done;
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = ask(r, &o, pair[1], &done);
	close(pair[1]);
	if (err) {
		close(pair[0]);
		return err;
	}
	*sock = pair[0];
	*id = done.id;
	*slot = done.slot;
	return 0;
}

bool reader_pair_was_killed(struct reader *r, uint32_t id)
{
	struct reader_ordered o = {.order = READER_HOW_ENDED, .id = id};
	struct reader_done done;

	return ask(r, &o, -1, &done) == -EINTR;
}

/* Under lock. */
static void refuse(struct reader_shared *s, const struct reader_file *f)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < LIMIT_READER_REFUSED; i++)
		if (atomic_load(&s->refused[i].until_ns) < atomic_load(&s->refused[at].until_ns))
			at = i;
	atomic_store(&s->refused[at].until_ns, 0);
	s->refused[at].file = *f;
	/* release: pairs with the acquire in is_refused */
	atomic_store_explicit(&s->refused[at].until_ns, clock_monotonic_ns() + REFUSED_NS,
			      memory_order_release);
}

void reader_file_refuse(struct reader *r, const struct reader_file *file)
{
	if (!file->ino)
		return;
	pthread_mutex_lock(&r->lock);
	refuse(r->shared, file);
	pthread_mutex_unlock(&r->lock);
}

void reader_pair_kill(struct reader *r, uint32_t id)
{
	struct reader_ordered o = {.order = READER_KILL, .id = id};

	pthread_mutex_lock(&r->lock);
	reader_send(r->keeper, &o, sizeof(o), NULL, 0, NULL, 0);
	pthread_mutex_unlock(&r->lock);
}

void reader_stats_get(const struct reader *r, struct reader_stats *out)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct reader_shared *s = r ? r->shared : NULL;

	memset(out, 0, sizeof(*out));
	if (!s)
		return;
	out->started = atomic_load(&s->started);
	out->killed = atomic_load(&s->killed);
	out->cpu = atomic_load(&s->cpu);
	out->crashed = atomic_load(&s->crashed);
	out->file_refused = atomic_load(&s->file_refused);
	out->no_worker = atomic_load(&s->no_worker);
	out->abandoned = atomic_load(&s->abandoned);
	for (uint32_t i = 0; i < LIMIT_READER_REFUSED; i++)
		out->files += atomic_load(&s->refused[i].until_ns) > now_ns;
}
