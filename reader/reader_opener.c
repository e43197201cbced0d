/* SPDX-License-Identifier: Apache-2.0
 * reader_opener.c - the opener and the parser; see reader.h.
 * It opens a file twice: first with O_PATH, which has no effect on a device, a FIFO or a server;
 * then, if it is a regular file, that very file through /proc/self/fd. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "reader/reader_internal.h"

#define REOPEN (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* ---- messages ---- */

int reader_send(int sock, const void *head, size_t head_bytes, const void *data, size_t bytes,
		const int *fds, uint32_t fd_count)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(READER_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov[2] = {{(void *)(uintptr_t)head, head_bytes},
			       {(void *)(uintptr_t)data, bytes}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = bytes ? 2 : 1};
	ssize_t n;

	if (fd_count) {
		struct cmsghdr *c = &control.align;

		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	}
	do
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

ssize_t reader_receive(int sock, void *data, size_t bytes, int *fds, uint32_t *fd_count)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(READER_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {data, bytes};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	uint32_t room = fd_count ? *fd_count : 0, have = 0;
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t count = c->cmsg_type == SCM_RIGHTS && c->cmsg_level == SOL_SOCKET
				   ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
				   : 0;

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (have < room && !(m.msg_flags & MSG_TRUNC))
				fds[have++] = fd;
			else
				close(fd);
		}
	}
	if (fd_count)
		*fd_count = have;
	return m.msg_flags & MSG_TRUNC ? -EMSGSIZE : n;
}

static void close_all(const int *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		close(fds[i]);
}

/* ---- opening ---- */

/* Takes place, an O_PATH descriptor. */
static int reopen_regular(int place, struct reader_file *at)
{
	struct stat st;
	char name[64];
	int fd;

	if (place < 0)
		return -errno;
	if (fstat(place, &st) || !S_ISREG(st.st_mode)) {
		close(place);
		return -EINVAL;
	}
	*at = (struct reader_file){st.st_dev, st.st_ino, (uint64_t)st.st_size,
				   (uint64_t)st.st_mtim.tv_sec * 1000000000u +
				       (uint64_t)st.st_mtim.tv_nsec};
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	fd = open(name, REOPEN);
	if (fd < 0)
		fd = -errno;
	close(place);
	return fd;
}

/* Opens the path as the process sees it; no link leads out of its root. */
static int open_below(const char *base, const char *path, struct reader_file *at)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	char name[192];
	int root, fd;

	snprintf(name, sizeof(name), "%s/root", base);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	path += strspn(path, "/");
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0 && errno == ENOSYS && !strstr(path, ".."))
		/* before 5.6: a link in the last component is not followed. An earlier one may lead
		 * out of the root, but only regular files are read, and their Build ID is
		 * compared. */
		fd = openat(root, path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	fd = reopen_regular(fd, at);
	close(root);
	return fd;
}

static int open_mapping(const char *base, uint64_t begin, uint64_t end, const char *path,
			struct reader_file *at)
{
	char name[224];
	int fd;

	/* the mapped file itself, even if it was deleted or another file has its name now */
	snprintf(name, sizeof(name), "%s/map_files/%lx-%lx", base, (unsigned long)begin,
		 (unsigned long)end);
	fd = reopen_regular(open(name, O_PATH | O_CLOEXEC), at);
	return fd >= 0 || path[0] != '/' ? fd : open_below(base, path, at);
}

int reader_open_direct(const char *proc_root, uint32_t pid, enum reader_what what, uint64_t begin,
		       uint64_t end, const char *path, char *text, struct reader_file *at)
{
	static const char *const names[] = {
	    [READER_MAPS] = "maps", [READER_ENVIRON] = "environ", [READER_MEMORY] = "mem"};
	char base[160], name[192];
	ssize_t n;
	int fd;

	memset(at, 0, sizeof(*at));
	text[0] = '\0';
	snprintf(base, sizeof(base), "%s/%u", proc_root, pid);
	switch (what) {
	case READER_MAPS:
	case READER_ENVIRON:
	case READER_MEMORY:
		snprintf(name, sizeof(name), "%s/%s", base, names[what]);
		fd = open(name, O_RDONLY | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	case READER_EXE:
		snprintf(name, sizeof(name), "%s/exe", base);
		n = readlink(name, text, READER_PATH_BYTES - 1);
		text[n > 0 ? n : 0] = '\0';
		return -ENOENT; /* no descriptor */
	case READER_MAPPING:
		return open_mapping(base, begin, end, path, at);
	case READER_PATH:
		return open_below(base, path, at);
	}
	return -EINVAL;
}

/* ---- the opener ---- */

static bool same_file(const struct reader_file *a, const struct reader_file *b)
{
	return a->ino == b->ino && a->dev == b->dev && a->size == b->size &&
	       a->mtime_ns == b->mtime_ns;
}

static bool is_refused(struct reader_shared *s, const struct reader_file *f)
{
	uint64_t now_ns = clock_monotonic_ns();

	for (uint32_t i = 0; f->ino && i < LIMIT_READER_REFUSED; i++)
		/* acquire: pairs with the release in reader_pair_kill */
		if (atomic_load_explicit(&s->refused[i].until_ns, memory_order_acquire) > now_ns &&
		    same_file(&s->refused[i].file, f))
			return true;
	return false;
}

struct opener {
	struct reader_shared *shared;
	uint32_t slot, pid;
	const char *proc_root;
	int caller, parser;
};

static int serve_open(struct opener *o, struct reader_open *q)
{
	struct reader_opened a = {.kind = READER_OPENED};
	struct reader_file at;
	int fd, err;

	q->path[READER_PATH_BYTES - 1] = '\0';
	fd = reader_open_direct(o->proc_root, o->pid, (enum reader_what)q->what, q->begin, q->end,
				q->path, a.text, &at);
	if (fd >= 0 && is_refused(o->shared, &at)) {
		atomic_fetch_add(&o->shared->file_refused, 1);
		close(fd);
		fd = -EKEYREJECTED;
	}
	o->shared->slot[o->slot].at = fd >= 0 ? at : (struct reader_file){0};
	a.err = fd < 0 ? fd : 0;
	err = reader_send(o->parser, &a, sizeof(a), NULL, 0, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	return err;
}

/* Serves one request until it is answered. */
static int serve(struct opener *o, void *room, size_t bytes, const int *fds, uint32_t fd_count)
{
	const struct reader_run *run = room;
	struct reader_answer died = {.kind = READER_DIED, .serial = run->serial};
	int err; /* room is reused below */

	o->pid = run->pid;
	o->shared->slot[o->slot].at = (struct reader_file){0};
	err = reader_send(o->parser, run, bytes, NULL, 0, fds, fd_count);
	while (!err) {
		int out[READER_FDS_MAX];
		uint32_t count = READER_FDS_MAX;
		ssize_t n = reader_receive(o->parser, room, READER_REQUEST_BYTES, out, &count);
		uint32_t kind = 0;

		if (n <= 0)
			break;
		memcpy(&kind, room, sizeof(kind));
		if (kind == READER_OPEN && n == (ssize_t)sizeof(struct reader_open)) {
			close_all(out, count);
			err = serve_open(o, room);
			continue;
		}
		err = reader_send(o->caller, room, (size_t)n, NULL, 0, out, count);
		close_all(out, count);
		if (!err && kind == READER_ANSWER)
			return 0;
	}
	died.bytes = sizeof(struct reader_file);
	reader_send(o->caller, &died, sizeof(died), &o->shared->slot[o->slot].at,
		    sizeof(struct reader_file), NULL, 0);
	return -EPIPE;
}

_Noreturn void reader_opener_run(struct reader_shared *shared, uint32_t slot, const char *proc_root,
				 int caller, int parser)
{
	struct opener o = {shared, slot, 0, proc_root, caller, parser};
	void *room = malloc(READER_REQUEST_BYTES);

	if (!room || reader_sandbox_opener())
		_exit(1);
	for (;;) {
		int fds[READER_FDS_MAX];
		uint32_t count = READER_FDS_MAX;
		ssize_t n = reader_receive(caller, room, READER_REQUEST_BYTES, fds, &count);

		if (n < (ssize_t)sizeof(struct reader_run) ||
		    serve(&o, room, (size_t)n, fds, count))
			break;
		close_all(fds, count);
	}
	_exit(0);
}

/* ---- the parser ---- */

void reader_target_direct(struct reader_target *t, const char *proc_root, uint32_t pid)
{
	*t = (struct reader_target){.pid = pid, .opener = -1, .proc_root = proc_root};
}

static int ask(struct reader_target *t, enum reader_what what, uint64_t begin, uint64_t end,
	       const char *path, char *text)
{
	struct reader_open q = {.kind = READER_OPEN, .what = what, .begin = begin, .end = end};
	struct reader_opened a;
	uint32_t count = 1;
	struct reader_file at;
	int fd, err;

	if (strlen(path) >= sizeof(q.path))
		return -ENAMETOOLONG;
	if (t->opener < 0)
		return reader_open_direct(t->proc_root, t->pid, what, begin, end, path, text, &at);
	memcpy(q.path, path, strlen(path) + 1);
	err = reader_send(t->opener, &q, sizeof(q), NULL, 0, NULL, 0);
	if (err || reader_receive(t->opener, &a, sizeof(a), &fd, &count) != (ssize_t)sizeof(a))
		_exit(1); /* nobody waits for an answer */
	memcpy(text, a.text, READER_PATH_BYTES);
	text[READER_PATH_BYTES - 1] = '\0';
	return a.err || !count ? (a.err ? a.err : -EIO) : fd;
}

int reader_target_open(struct reader_target *t, enum reader_what what, uint64_t begin, uint64_t end,
		       const char *path)
{
	static char text[READER_PATH_BYTES];
	int fd = ask(t, what, begin, end, path ? path : "", text);

	if (t->cpu_s)
		reader_sandbox_cpu(t->cpu_s);
	return fd;
}

void reader_target_exe(struct reader_target *t, char *out, size_t bytes)
{
	char text[READER_PATH_BYTES];

	ask(t, READER_EXE, 0, 0, "", text);
	snprintf(out, bytes, "%s", text);
}

static int memory_file(const struct buf *b)
{
	const uint8_t *p = b->data;
	size_t left = b->bytes;
	int fd = memfd_create("answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	while (fd >= 0 && left) {
		ssize_t n = write(fd, p, left);

		if (n <= 0) {
			close(fd);
			return -EFBIG;
		}
		p += n;
		left -= (size_t)n;
	}
	if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)) {
		close(fd);
		return -EIO;
	}
	return fd < 0 ? -errno : fd;
}

static int answer(int opener, const struct reader_run *run, int err, const struct buf *b)
{
	struct reader_answer a = {.kind = READER_ANSWER, .err = err, .serial = run->serial};
	size_t bytes = b->failed ? 0 : b->bytes;
	int fd = -1, sent;

	if (b->failed && !err)
		a.err = -EFBIG;
	if (bytes > READER_INLINE_BYTES) {
		fd = memory_file(b);
		if (fd < 0) {
			a.err = fd;
			bytes = 0;
		}
	}
	a.bytes = bytes;
	sent = reader_send(opener, &a, sizeof(a), b->data, fd >= 0 ? 0 : bytes, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	return sent;
}

static int run_one(int opener, const struct reader_run *run, const int *fds, uint32_t fd_count)
{
	struct reader_target t = {.pid = run->pid,
				  .opener = opener,
				  .cpu_s = run->op->cpu_s,
				  .fds = fds,
				  .fd_count = fd_count};
	struct buf b;
	int err;

	buf_init(&b, run->op->answer_max);
	reader_sandbox_cpu(run->op->cpu_s);
	err = run->op->run(&t, run->data, run->bytes, &b);
	reader_sandbox_cpu(0);
	err = answer(opener, run, err, &b);
	buf_fini(&b);
	return err;
}

_Noreturn void reader_parser_run(int opener, uint32_t slot)
{
	struct reader_run *run = malloc(READER_REQUEST_BYTES);

	if (!run || reader_sandbox_parser(slot))
		_exit(1);
	for (;;) {
		int fds[READER_FDS_MAX];
		uint32_t count = READER_FDS_MAX;
		ssize_t n = reader_receive(opener, run, READER_REQUEST_BYTES, fds, &count);

		if (n < (ssize_t)sizeof(*run) || run->bytes != (size_t)n - sizeof(*run) ||
		    run_one(opener, run, fds, count))
			break;
		close_all(fds, count);
	}
	_exit(0);
}
