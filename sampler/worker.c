/* SPDX-License-Identifier: Apache-2.0
 * worker.c - see worker.h. Two halves: code that runs in a parser, and the daemon's side, which
 * trusts no answer. */
#include "sampler/worker.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "reader/reader_queue.h"
#include "sampler/python/python_names.h"

/* glibc's initial threshold. It would grow to 32 MiB as large blocks are freed, and then keep the
 * memory of a large compilation. */
#define MMAP_THRESHOLD (128 << 10)
/* 2,048 mappings of 500 bytes and their paths. */
#define SCAN_BYTES  (16u << 20)
#define TABLE_BYTES (LIMIT_UNWIND_ROWS * sizeof(struct unwind_table_row) + (1u << 20))
#define NAMES_BYTES (8u << 20)

/* ---- messages ---- */

struct scan_request {
	uint32_t find_python, reserved;
};

struct scan_answer {
	uint64_t cpu_ns;
	uint32_t count;
	int32_t python_err;
	uint32_t has_python, reserved; /* a struct python_runtime follows the mappings */
};

struct scan_mapping {
	uint64_t begin, end, offset, load_bias;
	uint32_t has_elf, path_bytes; /* the struct mapping_elf follows, then the path */
};

struct table_request {
	uint64_t begin, end;
	struct unwind_store_key key;
	char path[]; /* NUL-terminated */
};

struct table_answer {
	uint64_t cpu_ns;
	uint32_t unread, reserved;
	char why[UNWIND_TABLE_WHY_BYTES];
	struct unwind_table table; /* pointers are invalid; the rows follow, then the rules */
};

/* ---- in the parser ---- */

static void append_mapping(struct buf *b, const struct mapping *m)
{
	struct scan_mapping to = {m->begin,	m->end,		m->offset,
				  m->load_bias, m->elf != NULL, (uint32_t)strlen(m->path)};

	buf_append(b, &to, sizeof(to));
	if (m->elf)
		buf_append(b, m->elf, sizeof(*m->elf));
	buf_append(b, m->path, to.path_bytes);
}

static int run_scan(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	static struct python_finder *finder; /* caches files */
	uint64_t begin_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct scan_answer head = {.python_err = -ENOENT};
	struct python_runtime python;
	struct mapping_scan scan;
	struct scan_request q;
	int err;

	if (bytes != sizeof(q))
		return -EPROTO;
	memcpy(&q, request, sizeof(q));
	err = mapping_scan_read(&scan, t);
	if (err)
		return err;
	if (q.find_python && (finder || !python_finder_open(&finder))) {
		head.python_err = python_runtime_find(finder, &python, t);
		head.has_python = 1;
	}
	head.count = scan.count;
	head.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
	buf_append(answer, &head, sizeof(head));
	for (uint32_t i = 0; i < scan.count; i++)
		append_mapping(answer, &scan.mappings[i]);
	if (head.has_python)
		buf_append(answer, &python, sizeof(python));
	mapping_scan_fini(&scan);
	return 0;
}

static int run_table(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	const struct table_request *q = request;
	uint64_t begin_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct table_answer a = {.unread = 0};
	struct mapping_elf e;
	int fd, err;

	if (bytes <= sizeof(*q) || ((const char *)request)[bytes - 1])
		return -EPROTO;
	fd = mapping_open(t, q->begin, q->end, q->path);
	err = fd < 0 ? fd : mapping_elf_read(&e, fd);
	/* a different file may have that path now */
	if (!err && memcmp(&e.key, &q->key, sizeof(e.key)))
		err = -ESTALE;
	a.unread = err != 0 && err != -EKEYREJECTED;
	if (!err)
		err = unwind_table_compile(&a.table, fd, a.why);
	if (fd >= 0)
		close(fd);
	a.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns;
	buf_append(answer, &a, sizeof(a));
	buf_append(answer, a.table.rows, a.table.row_count * sizeof(*a.table.rows));
	buf_append(answer, a.table.rules, a.table.rule_count * sizeof(*a.table.rules));
	unwind_table_fini(&a.table);
	return err;
}

static int run_names(struct reader_target *t, const void *request, size_t bytes, struct buf *answer)
{
	struct python_memory memory;
	struct read_user user;
	int err = python_memory_open(&memory, t);

	if (err)
		return err;
	user = python_memory_reader(&memory);
	err = python_names_read(request, bytes, &user, answer);
	python_memory_close(&memory);
	return err;
}

/* Bounds per file: libtorch_cpu's table takes 0.5 s of CPU time. The wall time allows for a tenth
 * of a CPU on a busy node. */
static const struct reader_op op_scan = {run_scan, SCAN_BYTES, 5, 30000, false};
static const struct reader_op op_table = {run_table, TABLE_BYTES, 10, 60000, false};
static const struct reader_op op_names = {run_names, NAMES_BYTES, 2, 5000, true};

/* ---- the daemon's side ---- */

struct worker {
	struct reader *reader, *own; /* own: NULL, or the same reader */
	struct reader_queue *queue;
	uint64_t cpu_ns;
};

void worker_job_free(struct worker_job *job)
{
	if (!job)
		return;
	mapping_scan_fini(&job->scan);
	unwind_table_fini(&job->table);
	free(job->python);
	free(job->names);
	free(job->path);
	free(job);
}

struct cursor {
	const uint8_t *at;
	size_t left;
};

static bool take(struct cursor *c, void *to, size_t bytes)
{
	if (c->left < bytes)
		return false;
	memcpy(to, c->at, bytes);
	c->at += bytes;
	c->left -= bytes;
	return true;
}

static bool elf_valid(const struct mapping_elf *e)
{
	return e->load_count <= MAPPING_SEGMENTS && e->build_id_bytes <= STACK_BUILD_ID_MAX &&
	       e->key.count <= sizeof(e->key.bytes);
}

static bool take_mapping(struct cursor *c, struct mapping_scan *s)
{
	struct mapping *m = &s->mappings[s->count];
	struct scan_mapping from;

	memset(m, 0, sizeof(*m));
	if (!take(c, &from, sizeof(from)) || from.begin >= from.end || from.end >> 57 ||
	    (from.begin | from.end) & 4095 || from.path_bytes > READER_PATH_BYTES ||
	    (s->count && from.begin < m[-1].end))
		return false;
	*m = (struct mapping){.begin = from.begin,
			      .end = from.end,
			      .offset = from.offset,
			      .load_bias = from.load_bias};
	s->count++;
	if (from.has_elf) {
		m->elf = malloc(sizeof(*m->elf));
		if (!m->elf || !take(c, m->elf, sizeof(*m->elf)) || !elf_valid(m->elf))
			return false;
	}
	m->path = calloc(1, from.path_bytes + 1u);
	return m->path && take(c, m->path, from.path_bytes);
}

static bool python_valid(struct python_runtime *r)
{
	r->what[sizeof(r->what) - 1] = '\0';
	return r->eval_count <= PYTHON_ELF_EVAL_MAX && r->wait_count <= PYTHON_ELF_WAIT_MAX;
}

static int take_scan(struct worker *w, struct worker_job *job, struct cursor *c)
{
	struct scan_answer head;

	if (!take(c, &head, sizeof(head)) || head.count > UNWIND_MAPPING_MAX)
		return -EPROTO;
	w->cpu_ns += head.cpu_ns;
	job->scan.pid = job->pid;
	job->scan.mappings = calloc(head.count + 1u, sizeof(*job->scan.mappings));
	if (!job->scan.mappings)
		return -ENOMEM;
	for (uint32_t i = 0; i < head.count; i++)
		if (!take_mapping(c, &job->scan))
			return -EPROTO;
	if (!head.has_python)
		return 0;
	job->python = malloc(sizeof(*job->python));
	if (!job->python || !take(c, job->python, sizeof(*job->python)) ||
	    !python_valid(job->python))
		return -EPROTO;
	job->python_err = head.python_err;
	return 0;
}

static bool table_valid(const struct unwind_table *t)
{
	if (t->begin & 4095 || t->end <= t->begin || t->end - t->begin > LIMIT_UNWIND_SPAN_BYTES)
		return false;
	for (uint32_t i = 0; i < t->row_count; i++)
		if (t->rows[i].rule >= t->rule_count || t->rows[i].address > t->end - t->begin ||
		    (i && t->rows[i].address <= t->rows[i - 1].address))
			return false;
	return true;
}

static int take_table(struct worker *w, struct worker_job *job, struct cursor *c)
{
	struct table_answer a;
	struct unwind_table *t = &job->table;
	size_t rows, rules;

	if (!take(c, &a, sizeof(a)))
		return job->err ? job->err : -EPROTO;
	w->cpu_ns += a.cpu_ns;
	job->unread = a.unread;
	memcpy(job->why, a.why, sizeof(job->why));
	job->why[sizeof(job->why) - 1] = '\0';
	if (job->err)
		return job->err;
	*t = a.table;
	t->rows = NULL;
	t->rules = NULL;
	t->source[sizeof(t->source) - 1] = '\0';
	if (t->row_count > LIMIT_UNWIND_ROWS || t->rule_count > LIMIT_UNWIND_FILE_RULES)
		return -EPROTO;
	rows = t->row_count * sizeof(*t->rows);
	rules = t->rule_count * sizeof(*t->rules);
	t->rows = malloc(rows + 1);
	t->rules = malloc(rules + 1);
	if (!t->rows || !t->rules)
		return -ENOMEM;
	return take(c, t->rows, rows) && take(c, t->rules, rules) && table_valid(t) ? 0 : -EPROTO;
}

static struct worker_job *job_take(struct worker *w, struct reader_job *r)
{
	struct worker_job *job = r->arg;
	struct cursor c = {r->answer, r->answer_bytes};

	job->err = r->err;
	job->uid = r->uid;
	switch (job->kind) {
	case WORKER_SCAN:
		job->python_err = -ENOENT;
		if (!job->err)
			job->err = take_scan(w, job, &c);
		if (job->err)
			mapping_scan_fini(&job->scan);
		break;
	case WORKER_TABLE:
		/* no worker was available: try again later */
		job->unread = r->err == -EBUSY || r->err == -ESRCH;
		job->err = take_table(w, job, &c);
		if (job->err)
			unwind_table_fini(&job->table);
		break;
	case WORKER_NAMES:
		free(job->names);
		job->names = r->answer;
		job->names_bytes = r->answer_bytes;
		r->answer = NULL;
		break;
	}
	reader_job_fini(r);
	free(r);
	return job;
}

static int job_request(struct worker_job *job, struct reader_job *r)
{
	struct scan_request scan = {.find_python = job->find_python};
	struct table_request *table;
	size_t path_bytes;

	switch (job->kind) {
	case WORKER_SCAN:
		r->op = &op_scan;
		r->bytes = sizeof(scan);
		r->request = malloc(sizeof(scan));
		if (r->request)
			memcpy(r->request, &scan, sizeof(scan));
		break;
	case WORKER_TABLE:
		r->op = &op_table;
		path_bytes = strlen(job->path) + 1;
		r->bytes = sizeof(*table) + path_bytes;
		r->request = table = calloc(1, r->bytes);
		if (table) {
			table->begin = job->begin;
			table->end = job->end;
			table->key = job->key;
			memcpy(table->path, job->path, path_bytes);
		}
		break;
	case WORKER_NAMES:
		r->op = &op_names;
		r->bytes = job->names_bytes;
		r->request = job->names;
		job->names = NULL;
		break;
	}
	return r->request ? 0 : -ENOMEM;
}

void worker_push(struct worker *w, struct worker_job *job)
{
	struct reader_job *r = calloc(1, sizeof(*r));

	if (!r || job_request(job, r)) {
		free(r);
		/* dropped, as if it had never been requested: the next event requests it again */
		worker_job_free(job);
		return;
	}
	r->pid = job->pid;
	r->arg = job;
	reader_queue_push(w->queue, r);
}

static void drop(void *arg)
{
	worker_job_free(arg);
}

struct worker_job *worker_next(struct worker *w)
{
	struct reader_job *r = reader_queue_next(w->queue);

	return r ? job_take(w, r) : NULL;
}

int worker_open(struct worker **out, const char *proc_root, struct reader *reader)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	err = reader ? 0 : reader_open(&w->own, proc_root);
	w->reader = reader ? reader : w->own;
	if (!err)
		err = reader_queue_open(&w->queue, w->reader, drop);
	if (err) {
		worker_close(w);
		return err;
	}
	*out = w;
	return 0;
}

void worker_close(struct worker *w)
{
	if (!w)
		return;
	reader_queue_close(w->queue);
	reader_close(w->own);
	free(w);
}

int worker_fd(const struct worker *w)
{
	return reader_queue_fd(w->queue);
}

uint64_t worker_cpu_ns(const struct worker *w)
{
	return w->cpu_ns;
}

struct reader *worker_reader(const struct worker *w)
{
	return w->reader;
}
