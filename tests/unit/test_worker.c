/* SPDX-License-Identifier: Apache-2.0
 * Hostile files, mapped by this very process: they end a parser at most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sampler/python/python_names.h"
#include "sampler/worker.h"
#include "tests/sparse_elf.h"
#include "tests/unit/fuse_hang.h"
#include "tests/unit/skip.h"

static struct worker *worker;

static int setup(void **state)
{
	return worker_open(&worker, "/proc", NULL);
}

static int teardown(void **state)
{
	worker_close(worker);
	return 0;
}

static struct worker_job *wait_job(void)
{
	struct worker_job *job;

	while (!(job = worker_next(worker))) {
		struct pollfd p = {.fd = worker_fd(worker), .events = POLLIN};

		assert_true(poll(&p, 1, 120000) >= 0);
	}
	return job;
}

static struct worker_job *scan(void)
{
	struct worker_job *job = calloc(1, sizeof(*job));

	job->kind = WORKER_SCAN;
	job->pid = (uint32_t)getpid();
	job->find_python = true;
	worker_push(worker, job);
	return wait_job();
}

static struct worker_job *table(const struct mapping *m)
{
	struct worker_job *job = calloc(1, sizeof(*job));

	job->kind = WORKER_TABLE;
	job->pid = (uint32_t)getpid();
	job->begin = m->begin;
	job->end = m->end;
	job->key = m->elf->key;
	job->path = strdup(m->path);
	worker_push(worker, job);
	return wait_job();
}

/* A shared object of 12 KiB on the disk whose section names, or whatever else, have terabytes. Its name
 * says python, so that the interpreter is looked for, too. */
static void *map_sparse(char name[64], uint64_t names_bytes, uint32_t sections,
			uint64_t symbols_bytes)
{
	int fd;
	void *at;

	snprintf(name, 64, "/tmp/test_worker-python-XXXXXX");
	fd = mkstemp(name);
	assert_true(fd >= 0);
	assert_int_equal(sparse_elf_write(fd, names_bytes, sections, symbols_bytes), 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(at != MAP_FAILED);
	close(fd);
	return at;
}

static const struct mapping *of(const struct mapping_scan *s, const char *part)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (strstr(s->mappings[i].path, part) && s->mappings[i].elf)
			return &s->mappings[i];
	return NULL;
}

static void sparse_files_cost_this_process_nothing(void **state)
{
	static const struct {
		uint64_t names, symbols;
		uint32_t sections;
	} cases[] = {
	    {1ull << 42, 4096, 3},
	    {4096, 1ull << 42, 3},
	    {4096, 4096, 60000},
	    {4096, 4096, 0x7fffffff},
	};
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[64];
		void *at = map_sparse(name, cases[i].names, cases[i].sections, cases[i].symbols);
		struct worker_job *seen = scan(), *made;
		const struct mapping *m = of(&seen->scan, "test_worker-python"), *libc;

		assert_int_equal(seen->err, 0);
		if (m) {
			made = table(m);
			assert_true(made->err != 0); /* refused, by whatever bound */
			worker_job_free(made);
		}
		/* the next file is read as ever */
		libc = of(&seen->scan, "libc.so");
		if (libc) {
			made = table(libc);
			assert_int_equal(made->err, 0);
			assert_true(made->table.row_count > 1000);
			worker_job_free(made);
		}
		worker_job_free(seen);
		munmap(at, 4096);
		unlink(name);
	}
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < 32 << 10);
}

/* It takes the 5 s that such a request has. */
static void names_in_memory_that_never_comes_end(void **state)
{
	struct worker_job *job = calloc(1, sizeof(*job));
	struct python_runtime r = {.offsets.code_bytes = 200};
	struct python_frame frame = {0};
	char dir[] = "/tmp/test_worker-XXXXXX", mount[64], file[96];
	struct python_names *names;
	struct python_name name;
	struct fuse_hang f;
	uint64_t at;
	pid_t pid;

	assert_non_null(mkdtemp(dir));
	snprintf(mount, sizeof(mount), "%s/hang", dir);
	snprintf(file, sizeof(file), "%s/read", mount);
	if (geteuid() || fuse_hang_open(&f, mount)) {
		rmdir(dir);
		free(job);
		skip_needs("fuse");
	}
	pid = fuse_hang_target(file, &at);
	assert_true(pid > 0);
	frame.code = at;
	assert_int_equal(python_names_open(&names, &r), 0);
	assert_int_equal(python_names_find(names, NULL, &frame, &name), -EAGAIN);
	job->kind = WORKER_NAMES;
	job->pid = (uint32_t)pid;
	job->names = python_names_ask(names, &job->names_bytes);
	worker_push(worker, job);
	job = wait_job();
	assert_int_equal(job->err, -ETIME);
	worker_job_free(job);
	python_names_close(names);
	fuse_hang_close(&f);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sparse_files_cost_this_process_nothing),
	    cmocka_unit_test(names_in_memory_that_never_comes_end),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
