/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/all_bytes.h"
#include "base/limits.h"
#include "base/replace.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_source.h"

/* A chunk of an upload, and space for the head. */
#define ANSWER_BYTES (LIMIT_SYMBOL_CHUNK_BYTES + 4096ull)

struct symbol_reader {
	struct reader_queue *queue;
	const atomic_bool *stop;
	char root[320];
	uint32_t pid;
	bool own;
};

struct request {
	uint64_t offset, bytes;	  /* of the file; bytes 0: none */
	uint32_t id_bytes, links; /* as in symbol_source */
	uint8_t id[SYMBOL_BUILD_ID_MAX];
	char path[]; /* NUL-terminated */
};

struct answer {
	uint64_t file_bytes;
	uint32_t quality, reserved; /* the bytes follow */
};

/* ---- in the parser ---- */

/* Finds the mapping with this name in the process's maps: its file exists as long as it is
 * mapped. */
static int open_mapped(struct reader_target *t, const char *path)
{
	unsigned long begin, end;
	char line[4400];
	int fd = reader_target_open(t, READER_MAPS, 0, 0, ""), at, found = -ENOENT;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (!f) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	while (found == -ENOENT && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &begin, &end, &at) == 2 &&
		    !strcmp(line + at, path))
			found = reader_target_open(t, READER_MAPPING, begin, end, path);
	}
	fclose(f);
	return found;
}

static int open_path(void *arg, const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t n = strlen(path), m = sizeof(deleted) - 1;

	if (n > m && !strcmp(path + n - m, deleted))
		return open_mapped(arg, path);
	return reader_target_open(arg, READER_PATH, 0, 0, path);
}

static int source_open(struct reader_target *t, const void *request, size_t bytes,
		       struct symbol_elf *e, int *fd)
{
	const struct request *q = request;
	struct symbol_source s = {.open = open_path, .open_arg = t};
	const char *why;

	if (bytes <= sizeof(*q) || ((const char *)request)[bytes - 1] ||
	    q->id_bytes > sizeof(q->id))
		return -EPROTO;
	s.links = q->links;
	return symbol_source_open(&s, q->id, q->id_bytes, q->path, e, fd, &why);
}

static int run_index(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	struct symbol_elf e;
	const char *why;
	int fd, err = source_open(t, request, bytes, &e, &fd), to[3];

	(void)answer;
	if (err)
		return err;
	for (int i = 0; i < 3; i++)
		to[i] = t->fd_count == 3 ? fcntl(t->fds[i], F_DUPFD_CLOEXEC, 0) : -1;
	err = symbol_index_write(&e, to[0], to[1], to[2], &why);
	symbol_elf_fini(&e);
	close(fd);
	return err;
}

static int run_bytes(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	const struct request *q = request;
	struct answer a = {.file_bytes = 0};
	struct symbol_elf e;
	void *to;
	int fd, err = source_open(t, request, bytes, &e, &fd);

	if (err)
		return err;
	a.file_bytes = e.file_bytes;
	a.quality = (uint32_t)e.quality;
	buf_append(answer, &a, sizeof(a));
	if (q->bytes) {
		to = buf_reserve(answer, q->bytes);
		err = to ? all_bytes_read(fd, to, q->bytes, q->offset) : -ENOMEM;
		answer->bytes += err ? 0 : q->bytes;
	}
	symbol_elf_fini(&e);
	close(fd);
	return err;
}

/* The largest debug files have millions of symbols; a second sorts one or two million. */
static const struct reader_op op_index = {run_index, 4096, 20, 60000, false};
static const struct reader_op op_bytes = {run_bytes, ANSWER_BYTES, 10, 30000, false};

/* ---- the daemon's side ---- */

int symbol_reader_open(struct symbol_reader **out, struct reader *reader, const atomic_bool *stop)
{
	struct symbol_reader *r = calloc(1, sizeof(*r));
	int err = r ? reader_queue_open(&r->queue, reader, NULL) : -ENOMEM;

	if (err) {
		free(r);
		return err;
	}
	r->stop = stop;
	*out = r;
	return 0;
}

void symbol_reader_close(struct symbol_reader *r)
{
	if (!r)
		return;
	reader_queue_close(r->queue);
	free(r);
}

void symbol_reader_root(struct symbol_reader *r, const char *root, uint32_t pid, bool own)
{
	snprintf(r->root, sizeof(r->root), "%s", root);
	r->pid = pid;
	r->own = own;
}

static int ask(struct symbol_reader *r, struct reader_job *job, const struct symbol_reader_file *f,
	       uint64_t offset, uint64_t bytes)
{
	size_t path_bytes = strlen(f->path) + 1;
	struct request *q = calloc(1, sizeof(*q) + path_bytes);

	if (!q)
		return -ENOMEM;
	q->offset = offset;
	q->bytes = bytes;
	q->links = r->own;
	q->id_bytes =
	    (uint32_t)(f->build_id_bytes < sizeof(q->id) ? f->build_id_bytes : sizeof(q->id));
	memcpy(q->id, f->build_id, q->id_bytes);
	memcpy(q->path, f->path, path_bytes);
	job->pid = f->pid;
	job->request = q;
	job->bytes = sizeof(*q) + path_bytes;
	return reader_queue_call(r->queue, job, r->stop);
}

static int index_into(struct symbol_reader *r, const struct symbol_reader_file *f,
		      const char *index, int to)
{
	int fds[3] = {to, symbol_index_scratch(index), symbol_index_scratch(index)};
	struct reader_job job = {.op = &op_index, .fds = fds, .fd_count = 3};
	int err = fds[1] < 0 ? fds[1] : fds[2] < 0 ? fds[2] : ask(r, &job, f, 0, 0);

	for (int i = 1; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	reader_job_fini(&job);
	/* the process ended, or its user has to wait: other sources may still have the file */
	return err == -ESRCH || err == -ENOENT || err == -EBUSY ? -ENODATA : err;
}

int symbol_reader_index(void *arg, const uint8_t *build_id, size_t build_id_bytes, const char *path,
			const char *index)
{
	struct symbol_reader *r = arg;
	size_t n = strlen(r->root);
	bool below = n && !strncmp(path, r->root, n) && path[n] == '/';
	struct symbol_reader_file f = {build_id, build_id_bytes, below ? path + n : path,
				       below ? r->pid : (uint32_t)getpid()};
	struct replace to;
	int err = replace_begin(&to, AT_FDCWD, index, 0600);

	if (err)
		return err;
	err = index_into(r, &f, index, to.fd);
	if (err == -ENODATA && below && r->own) {
		f.pid = (uint32_t)getpid();
		err = index_into(r, &f, index, to.fd);
	}
	return replace_end(&to, err);
}

int symbol_reader_look(struct symbol_reader *r, const struct symbol_reader_file *f,
		       enum symbol_quality *quality, uint64_t *file_bytes)
{
	struct reader_job job = {.op = &op_bytes};
	struct answer a;
	int err = ask(r, &job, f, 0, 0);

	if (!err && job.answer_bytes != sizeof(a))
		err = -EPROTO;
	if (!err) {
		memcpy(&a, job.answer, sizeof(a));
		*file_bytes = a.file_bytes;
		*quality = (enum symbol_quality)a.quality;
		if (a.quality > SYMBOL_DEBUG || a.file_bytes > LIMIT_SYMBOL_FILE_BYTES)
			err = -EBADMSG;
	}
	reader_job_fini(&job);
	return err;
}

int symbol_reader_bytes(struct symbol_reader *r, const struct symbol_reader_file *f,
			uint64_t offset, size_t bytes, uint8_t **out)
{
	struct reader_job job = {.op = &op_bytes};
	int err = bytes > LIMIT_SYMBOL_CHUNK_BYTES ? -E2BIG : ask(r, &job, f, offset, bytes);

	if (!err && job.answer_bytes != sizeof(struct answer) + bytes)
		err = -EPROTO;
	*out = err ? NULL : malloc(bytes + 1);
	if (!err && !*out)
		err = -ENOMEM;
	if (!err)
		memcpy(*out, job.answer + sizeof(struct answer), bytes);
	reader_job_fini(&job);
	return err;
}
