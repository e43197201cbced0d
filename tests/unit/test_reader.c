/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/capability.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "fuse_hang.h"
#include "reader/reader_internal.h"
#include "skip.h"
#include "reader/reader_queue.h"

static struct reader *reader;
static struct reader_queue *queue;
static char dir[64];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/test_reader-XXXXXX");
	return !mkdtemp(dir) || chmod(dir, 0755) || reader_open(&reader, "/proc") ||
	       reader_queue_open(&queue, reader, NULL);
}

static int teardown(void **state)
{
	reader_queue_close(queue);
	reader_close(reader);
	return rmdir(dir);
}

/* ---- what runs in the parser ---- */

static int op_maps(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	int fd = reader_target_open(t, READER_MAPS, 0, 0, NULL);
	ssize_t n = 0;

	if (fd < 0)
		return fd;
	do {
		void *room = buf_reserve(answer, 4096);

		n = room ? read(fd, room, 4096) : 0;
		answer->bytes += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	close(fd);
	return 0;
}

static int op_open(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	int fd = reader_target_open(t, READER_PATH, 0, 0, request);
	char text[64] = "";
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, text, sizeof(text));
	buf_append(answer, text, n > 0 ? (size_t)n : 0);
	close(fd);
	return n < 0 ? -errno : 0;
}

static int op_spin(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	int fd = reader_target_open(t, READER_PATH, 0, 0, request);

	if (fd < 0)
		return fd;
	for (volatile uint64_t i = 0;; i++)
		;
}

/* The CPU bound is of a file, and begins again with each. */
static int op_many(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	for (;;) {
		int fd = reader_target_open(t, READER_PATH, 0, 0, request);

		if (fd < 0)
			return fd;
		close(fd);
	}
}

/* What a parser remembers. */
static int op_remember(struct reader_target *t, const void *request, size_t bytes,
		       struct buf *answer)
{
	static int calls;

	return -++calls;
}

/* Until the file begins with 'g'. */
static int op_wait(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	int fd = reader_target_open(t, READER_PATH, 0, 0, request);
	char first = 0;

	while (fd >= 0 && first != 'g')
		if (pread(fd, &first, 1, 0) < 0)
			return -EIO;
	return fd < 0 ? fd : 0;
}

static int op_memory(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	int fd = reader_target_open(t, READER_MEMORY, 0, 0, NULL);
	uint64_t address, value = 0;

	memcpy(&address, request, sizeof(address));
	if (fd < 0)
		return fd;
	if (pread(fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		return -EFAULT;
	buf_append(answer, &value, sizeof(value));
	close(fd);
	return 0;
}

static int op_environ(struct reader_target *t, const void *request, size_t bytes,
		      struct buf *answer)
{
	int fd = reader_target_open(t, READER_ENVIRON, 0, 0, NULL);
	char byte;

	return fd < 0 ? fd : read(fd, &byte, 1) == 1 ? 0 : -EIO;
}

static int op_hog(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	for (int i = 0; i < 64; i++) {
		char *p = malloc(16 << 20);

		if (!p)
			return -ENOMEM;
		memset(p, 1, 16 << 20);
	}
	return 0;
}

static int op_crash(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	__builtin_trap();
}

static int op_large(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	for (uint32_t i = 0; i < 1u << 20; i++)
		buf_append(answer, &i, sizeof(i));
	return 0;
}

/* Bit i: attempt i succeeded. */
static int op_escape(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{.effective = 1}};
	uint32_t done = 0;

	done |= (uint32_t)(open("/etc/passwd", O_RDONLY) >= 0) << 0;
	done |= (uint32_t)(socket(AF_INET, SOCK_STREAM, 0) >= 0) << 1;
	done |= (uint32_t)(fork() >= 0) << 2;
	done |= (uint32_t)!kill(getppid(), 0) << 3;
	done |= (uint32_t)(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				0) != MAP_FAILED)
		<< 4;
	done |= (uint32_t)!unlink("/tmp/nothing-of-the-kind") << 5;
	done |= (uint32_t)!syscall(SYS_capget, &head, data) << 6;
	done |= (uint32_t)(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0) >= 0) << 7;
	buf_append(answer, &done, sizeof(done));
	return 0;
}

static const struct reader_op maps = {op_maps, 1 << 20, 2, 20000, false};
static const struct reader_op small = {op_maps, 64, 2, 20000, false};
static const struct reader_op path = {op_open, 4096, 2, 20000, false};
static const struct reader_op slow_path = {op_open, 4096, 2, 300, false};
static const struct reader_op spin = {op_spin, 64, 1, 60000, false};
static const struct reader_op many = {op_many, 64, 1, 3000, false};
static const struct reader_op remember = {op_remember, 64, 5, 60000, false};
static const struct reader_op wait_op = {op_wait, 64, 5, 60000, false};
static const struct reader_op memory = {op_memory, 64, 2, 300, true};
static const struct reader_op environ_op = {op_environ, 64, 2, 300, false};
static const struct reader_op hog = {op_hog, 64, 5, 20000, false};
static const struct reader_op crash = {op_crash, 64, 2, 20000, false};
static const struct reader_op large = {op_large, 8 << 20, 2, 20000, false};
static const struct reader_op escape = {op_escape, 64, 2, 20000, false};

/* ---- targets ---- */

/* A process of a user that sits there; in its own root if `root`. */
static pid_t target(uid_t uid, const char *root)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (geteuid()) /* only root can be somebody else */
		uid = geteuid();
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		if ((root && (chroot(root) || chdir("/"))) || setresgid(uid, uid, uid) ||
		    setresuid(uid, uid, uid) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int call(struct reader_job *job, const struct reader_op *op, pid_t pid, const void *request,
		size_t bytes)
{
	*job = (struct reader_job){.op = op, .pid = (uint32_t)pid, .bytes = bytes};
	job->request = malloc(bytes + 1);
	memcpy(job->request, request ? request : "", bytes);
	return reader_queue_call(queue, job, NULL);
}

static int call_once(const struct reader_op *op, pid_t pid, const char *request)
{
	struct reader_job job;
	int err = call(&job, op, pid, request, request ? strlen(request) + 1 : 0);

	reader_job_fini(&job);
	return err;
}

static struct reader_job *push_bytes(const struct reader_op *op, pid_t pid, const void *request,
				     size_t bytes)
{
	struct reader_job *job = calloc(1, sizeof(*job));

	*job = (struct reader_job){
	    .op = op, .pid = (uint32_t)pid, .request = malloc(bytes + 1), .bytes = bytes};
	memcpy(job->request, request, bytes);
	reader_queue_push(queue, job);
	return job;
}

static struct reader_job *push(const struct reader_op *op, pid_t pid, const char *request)
{
	return push_bytes(op, pid, request ? request : "", request ? strlen(request) + 1 : 0);
}

static struct reader_job *wait_any(void)
{
	struct reader_job *job;

	while (!(job = reader_queue_next(queue))) {
		struct pollfd p = {.fd = reader_queue_fd(queue), .events = POLLIN};

		assert_true(poll(&p, 1, 60000) >= 0);
	}
	return job;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void wait_abandoned(uint32_t count)
{
	struct reader_stats st;

	for (int i = 0; i < 600; i++) {
		/* the keeper counts when it hears of an end, or is spoken to */
		reader_stats_get(reader, &st);
		if (st.abandoned == count)
			return;
		usleep(50000);
	}
	fail_msg("abandoned %u, not %u", st.abandoned, count);
}

/* ---- tests ---- */

static void reads_what_belongs_to_a_process(void **state)
{
	pid_t pid = target(1234, NULL);
	static volatile uint64_t word = 0x1122334455667788ull;
	const volatile uint64_t *at = &word;
	uint64_t got = 0;
	struct reader_job job;

	assert_int_equal(call(&job, &maps, pid, NULL, 0), 0);
	job.answer[job.answer_bytes - 1] = 0;
	assert_non_null(strstr((char *)job.answer, "[stack]"));
	reader_job_fini(&job);
	/* forked from here: the word is at the same place */
	assert_int_equal(call(&job, &memory, pid, &at, sizeof(at)), 0);
	memcpy(&got, job.answer, sizeof(got));
	assert_int_equal(got, word);
	reader_job_fini(&job);
	end(pid);
	assert_int_equal(call_once(&maps, pid, NULL), -ENOENT);
}

static void gives_large_answers_and_none_past_the_bound(void **state)
{
	struct reader_job job;
	uint32_t last;

	assert_int_equal(call(&job, &large, getpid(), NULL, 0), 0);
	assert_int_equal(job.answer_bytes, 4 << 20);
	memcpy(&last, job.answer + job.answer_bytes - 4, 4);
	assert_int_equal(last, (1 << 20) - 1);
	reader_job_fini(&job);
	assert_int_equal(call_once(&small, getpid(), NULL), -EFBIG);
}

static void parser_can_do_nothing_else(void **state)
{
	struct reader_job job;
	uint32_t done;

	assert_int_equal(call(&job, &escape, getpid(), NULL, 0), 0);
	assert_int_equal(job.answer_bytes, 4);
	memcpy(&done, job.answer, 4);
	assert_int_equal(done, 0);
	reader_job_fini(&job);
}

static void opens_only_regular_files_of_the_processes_root(void **state)
{
	char root[96], name[160];
	struct reader_job job;
	pid_t pid;

	if (geteuid())
		skip_needs("root");
	snprintf(root, sizeof(root), "%s/root", dir);
	assert_int_equal(mkdir(root, 0755), 0);
	snprintf(name, sizeof(name), "%s/inside", root);
	put(name, "inside");
	snprintf(name, sizeof(name), "%s/outside", dir);
	put(name, "outside");
	snprintf(name, sizeof(name), "%s/fifo", root);
	assert_int_equal(mkfifo(name, 0666), 0);
	snprintf(name, sizeof(name), "%s/up", root);
	assert_int_equal(symlink("../outside", name), 0);
	snprintf(name, sizeof(name), "%s/link", root);
	assert_int_equal(symlink("/inside", name), 0);
	snprintf(name, sizeof(name), "%s/device", root);
	assert_int_equal(mknod(name, S_IFCHR | 0666, 10 << 8 | 229), 0);
	pid = target(1234, root);
	assert_int_equal(call(&job, &path, pid, "/link", 6), 0);
	assert_int_equal(job.answer_bytes, 6);
	assert_memory_equal(job.answer, "inside", 6);
	reader_job_fini(&job);
	assert_int_equal(call_once(&path, pid, "/up"), -ENOENT);
	assert_int_equal(call_once(&path, pid, "/fifo"), -EINVAL);
	assert_int_equal(call_once(&path, pid, "/device"), -EINVAL);
	end(pid);
	for (const char *const *n =
		 (const char *const[]){"inside", "fifo", "up", "link", "device", NULL};
	     *n; n++) {
		snprintf(name, sizeof(name), "%s/%s", root, *n);
		unlink(name);
	}
	rmdir(root);
	snprintf(name, sizeof(name), "%s/outside", dir);
	unlink(name);
}

static void file_that_takes_too_long_is_refused_and_its_user_waits(void **state)
{
	struct reader_stats st;
	char name[96];
	pid_t one, other;

	if (geteuid())
		skip_needs("root");
	one = target(1235, NULL);
	other = target(1236, NULL);
	snprintf(name, sizeof(name), "%s/file", dir);
	put(name, "good");
	assert_int_equal(call_once(&spin, one, name), -ETIME);
	reader_stats_get(reader, &st);
	assert_int_equal(st.files, 1);
	/* the same user waits, everybody else does not, and is not given the file */
	assert_int_equal(call_once(&maps, one, NULL), -EBUSY);
	assert_int_equal(call_once(&maps, other, NULL), 0);
	assert_int_equal(call_once(&path, other, name), -EKEYREJECTED);
	unlink(name);
	put(name, "another");
	assert_int_equal(call_once(&path, other, name), 0);
	for (int i = 0; i < 200 && !st.cpu; i++) {
		usleep(20000);
		reader_stats_get(reader, &st);
	}
	assert_int_equal(st.cpu, 1);
	unlink(name);
	end(one);
	end(other);
}

static void files_without_end_end_with_the_wall_time(void **state)
{
	char name[96];
	pid_t one, other;

	if (geteuid())
		skip_needs("root");
	one = target(1261, NULL);
	other = target(1262, NULL);
	snprintf(name, sizeof(name), "%s/file", dir);
	put(name, "good");
	assert_int_equal(call_once(&many, one, name), -ETIME);
	assert_int_equal(call_once(&maps, one, NULL), -EBUSY);
	assert_int_equal(call_once(&path, other, name), 0);
	unlink(name);
	end(one);
	end(other);
}

static void what_a_parser_remembers_of_one_user_is_for_no_other(void **state)
{
	pid_t one, other;

	if (geteuid())
		skip_needs("root");
	one = target(1263, NULL);
	other = target(1264, NULL);
	assert_int_equal(call_once(&remember, one, NULL), -1);
	assert_int_equal(call_once(&remember, one, NULL), -2);
	assert_int_equal(call_once(&remember, other, NULL), -1);
	end(one);
	end(other);
}

static void memory_and_crashes_end_the_parser_alone(void **state)
{
	struct reader_stats st;
	pid_t one = target(geteuid() ? getuid() : 1237, NULL);

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_int_equal(call_once(&hog, one, NULL), -ENOMEM);
#endif
	assert_int_equal(call_once(&maps, one, NULL), 0);
	assert_int_equal(call_once(&crash, one, NULL), -ETIME);
	for (int i = 0; i < 200; i++) {
		reader_stats_get(reader, &st);
		if (st.crashed)
			break;
		usleep(20000);
	}
	assert_int_equal(st.crashed, 1);
	end(one);
}

/* Two requests at once, of two users, the first of which can never be answered. */
static void file_system_that_hangs_keeps_only_its_user_waiting(void **state)
{
	char mount[96], name[128], shared[96];
	struct fuse_hang f;
	struct reader_job *stuck, *job;
	struct reader_stats before, st;
	uint64_t begin_ns = clock_monotonic_ns();
	pid_t one, other, third;

	snprintf(mount, sizeof(mount), "%s/hang", dir);
	if (geteuid() || fuse_hang_open(&f, mount))
		skip_needs("fuse");
	one = target(1238, NULL);
	other = target(1239, NULL);
	reader_stats_get(reader, &before);
	snprintf(name, sizeof(name), "%s/good", mount);
	assert_int_equal(call_once(&path, one, name), 0);
	snprintf(shared, sizeof(shared), "%s/shared", dir);
	put(shared, "everybody's");
	assert_int_equal(call_once(&path, one, shared),
			 0);	      /* opened last, before the one that hangs */
	for (int i = 0; i < 2; i++) { /* the parser waits for data, then the opener for the file */
		snprintf(name, sizeof(name), "%s/%s", mount, i ? "open" : "read");
		stuck = push(&slow_path, i ? other : one, name);
		job = push(&maps, i ? one : other, NULL);
		if (i) { /* this user pays for its first one: its request waits */
			assert_ptr_equal(wait_any(), stuck);
			assert_ptr_equal(wait_any(), job);
		} else {
			assert_ptr_equal(wait_any(), job);
			assert_int_equal(job->err, 0);
			assert_ptr_equal(wait_any(), stuck);
		}
		assert_int_equal(stuck->err, -ETIME);
		reader_job_fini(stuck);
		reader_job_fini(job);
		free(stuck);
		free(job);
	}
	reader_stats_get(reader, &st);
	assert_int_equal(st.killed - before.killed, 2);
	assert_int_equal(st.files, before.files); /* no file is refused to others for it */
	third = target(1240, NULL);
	assert_int_equal(call_once(&path, third, shared), 0);
	end(third);
	unlink(shared);
	wait_abandoned(2);
	assert_true(clock_monotonic_ns() > begin_ns);
	/* neither keeps the end of the daemon waiting; when the file system gives up, they are gone */
	fuse_hang_close(&f);
	wait_abandoned(0);
	end(one);
	end(other);
}

static void so_many_abandoned_ones_of_a_user_and_no_more(void **state)
{
	char mount[96], name[128];
	struct fuse_hang f;
	pid_t one;
	int busy = 0;

	snprintf(mount, sizeof(mount), "%s/hang", dir);
	if (geteuid() || fuse_hang_open(&f, mount))
		skip_needs("fuse");
	one = target(1240, NULL);
	snprintf(name, sizeof(name), "%s/open", mount);
	for (int i = 0; i < 4; i++) {
		struct reader_job *job = push(&slow_path, one, name);

		assert_ptr_equal(wait_any(), job);
		busy += job->err == -EBUSY;
		reader_job_fini(job);
		free(job);
	}
	assert_int_equal(busy, 2);
	wait_abandoned(2);
	/* the end does not wait for them */
	reader_queue_close(queue);
	reader_close(reader);
	fuse_hang_close(&f);
	end(one);
	assert_int_equal(reader_open(&reader, "/proc"), 0);
	assert_int_equal(reader_queue_open(&queue, reader, NULL), 0);
}

static bool waits_in_kernel(pid_t pid)
{
	char name[64], text[512] = "", *p = NULL;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	f = fopen(name, "re");
	if (f && fread(text, 1, sizeof(text) - 1, f))
		p = strrchr(text, ')');
	if (f)
		fclose(f);
	return p && p[2] == 'D';
}

/* Reading the page holds the process's mmap_lock; then the process waits for it, and behind that all who
 * read its memory wait, too: its environment is such memory. */
static void memory_that_never_comes_blocks_nobody(void **state)
{
	char mount[96], name[128];
	struct reader_job *stuck, *job;
	struct fuse_hang f;
	pid_t one, other;
	bool held = false;
	uint64_t at;

	snprintf(mount, sizeof(mount), "%s/hang", dir);
	if (geteuid() || fuse_hang_open(&f, mount))
		skip_needs("fuse");
	snprintf(name, sizeof(name), "%s/read", mount);
	one = fuse_hang_target(name, &at);
	assert_true(one > 0);
	other = target(1241, NULL);
	stuck = push_bytes(&memory, one, &at, sizeof(at));
	job = push(&maps, other, NULL);
	assert_ptr_equal(wait_any(), job);
	assert_int_equal(job->err, 0);
	reader_job_fini(job);
	free(job);
	assert_ptr_equal(wait_any(), stuck);
	assert_int_equal(stuck->err, -ETIME);
	reader_job_fini(stuck);
	free(stuck);
	wait_abandoned(1);
	kill(one, SIGUSR1);
	for (int i = 0; i < 200 && !held; i++) {
		held = waits_in_kernel(one);
		usleep(10000);
	}
	if (held) /* a kernel that lets go of the lock in between has no such case */
		assert_int_equal(call_once(&environ_op, one, NULL), -ETIME);
	fuse_hang_close(&f);
	end(one);
	end(other);
	wait_abandoned(0);
}

/* The newest process of this kind, once a parser has opened this file; 0: none yet. */
static pid_t child_at(const char *name, const char *kind)
{
	struct stat st;
	char line[256], children[64];
	pid_t found = 0;
	FILE *f;

	assert_int_equal(stat(name, &st), 0);
	snprintf(children, sizeof(children), "/proc/%d/task/%d/children", (int)reader->keeper_pid,
		 (int)reader->keeper_pid);
	for (uint32_t i = 0; i < LIMIT_READER_PAIRS; i++) {
		pid_t pid;

		if (reader->shared->slot[i].at.ino != st.st_ino)
			continue;
		f = fopen(children, "re");
		assert_non_null(f);
		while (fscanf(f, "%d", &pid) == 1) {
			char comm[64];
			FILE *c;

			snprintf(comm, sizeof(comm), "/proc/%d/comm", (int)pid);
			c = fopen(comm, "re");
			if (c && fgets(line, sizeof(line), c) && !strncmp(line, kind, strlen(kind)))
				found = pid; /* the newest */
			if (c)
				fclose(c);
		}
		fclose(f);
	}
	return found;
}

static void ends_well_though_others_kill(const char *kind, uint32_t uid)
{
	struct reader_stats before, after;
	struct reader_job *job;
	char name[96];
	pid_t one, victim = 0;

	if (geteuid()) /* only root can be a user who does not wait for the files of the cases before */
		skip_needs("root");
	one = target(uid, NULL); /* nobody else's: it has a new pair */
	snprintf(name, sizeof(name), "%s/wait", dir);
	put(name, "no");
	reader_stats_get(reader, &before);
	job = push(&wait_op, one, name);
	for (int i = 0; i < 2000 && !(victim = child_at(name, kind)); i++)
		usleep(5000);
	assert_true(victim > 0);
	assert_int_equal(kill(victim, SIGKILL), 0);
	put(name, "go");
	assert_ptr_equal(wait_any(), job);
	assert_int_equal(job->err, 0);
	reader_job_fini(job);
	free(job);
	reader_stats_get(reader, &after);
	assert_int_equal(after.files, before.files);
	unlink(name);
	end(one);
}

static void parser_that_others_kill_is_not_its_files_fault(void **state)
{
	ends_well_though_others_kill("sysom-parser", 1241);
}

static void opener_that_others_kill_makes_nobody_wait(void **state)
{
	ends_well_though_others_kill("sysom-opener", 1242);
}

static bool hung_up(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	return poll(&p, 1, 200) > 0 && (p.revents & (POLLHUP | POLLIN));
}

/* Its late answers are nobody else's, and the end does not wait for it. */
static void keeper_that_was_stopped_mixes_no_pairs_up(void **state)
{
	uint32_t id[2], slot[2];
	int sock[2];
	struct reader *r;

	assert_int_equal(reader_open(&r, "/proc"), 0);
	assert_int_equal(kill(r->keeper_pid, SIGSTOP), 0);
	assert_int_equal(reader_pair_start(r, 1, &id[0], &slot[0], &sock[0]), -EPIPE);
	assert_int_equal(kill(r->keeper_pid, SIGCONT), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(reader_pair_start(r, 1, &id[i], &slot[i], &sock[i]), 0);
	reader_pair_kill(r, id[1]);
	while (!hung_up(sock[1]))
		;
	assert_false(hung_up(sock[0]));
	assert_int_equal(kill(r->keeper_pid, SIGSTOP), 0);
	reader_close(r);
	while (!hung_up(sock[0])) /* what it had started ends with it */
		;
	close(sock[0]);
	close(sock[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_what_belongs_to_a_process),
	    cmocka_unit_test(gives_large_answers_and_none_past_the_bound),
	    cmocka_unit_test(parser_can_do_nothing_else),
	    cmocka_unit_test(opens_only_regular_files_of_the_processes_root),
	    cmocka_unit_test(file_that_takes_too_long_is_refused_and_its_user_waits),
	    cmocka_unit_test(files_without_end_end_with_the_wall_time),
	    cmocka_unit_test(what_a_parser_remembers_of_one_user_is_for_no_other),
	    cmocka_unit_test(memory_and_crashes_end_the_parser_alone),
	    cmocka_unit_test(file_system_that_hangs_keeps_only_its_user_waiting),
	    cmocka_unit_test(so_many_abandoned_ones_of_a_user_and_no_more),
	    cmocka_unit_test(memory_that_never_comes_blocks_nobody),
	    cmocka_unit_test(parser_that_others_kill_is_not_its_files_fault),
	    cmocka_unit_test(opener_that_others_kill_makes_nobody_wait),
	    cmocka_unit_test(keeper_that_was_stopped_mixes_no_pairs_up),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
