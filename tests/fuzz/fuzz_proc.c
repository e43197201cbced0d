/* SPDX-License-Identifier: Apache-2.0
 * What /proc says of a process, made up: maps, environ and the files of a mapping for the scan and the
 * settings; stat, cgroup, schedstat and net/tcp for the OS signals. Fails where the work grows faster than
 * the input: CPU time is compared with a bound per byte that is ten times what was seen. */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "sampler/mapping_scan.h"
#include "sampler/python/python_runtime.h"
#include "sidecar/os/os_proc.h"
#include "sidecar/stacks/installed.h"

#define WORK_NS	     20000000ull
#define WORK_NS_BYTE 100000ull /* a line of maps opens a file */

static char dir[64];

static void put(const char *name, const uint8_t *data, size_t bytes)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static void remove_tree(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_tree(void)
{
	static const char *const names[] = {"7",	"7/root", "7/root/lib",	 "7/task",
					    "7/task/7", "7/net",  "7/map_files", "7/fd"};
	char path[128];

	snprintf(dir, sizeof(dir), "/tmp/fuzz_proc-XXXXXX");
	CHECK(mkdtemp(dir));
	atexit(remove_tree);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		CHECK(!mkdir(path, 0700));
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void on_wait(void *arg, uint32_t tid, uint64_t ns)
{
	*(uint64_t *)arg += tid + ns;
}

static void read_process(void)
{
	static struct python_runtime runtime;
	struct python_finder *finder;
	struct sketch s = {.setting_count = 0};
	struct reader_target t;
	struct mapping_scan scan;

	reader_target_direct(&t, dir, 7);
	if (!mapping_scan_read(&scan, &t)) {
		for (uint32_t i = 0; i < scan.count; i++)
			CHECK(scan.mappings[i].begin < scan.mappings[i].end &&
			      scan.mappings[i].path);
		mapping_scan_fini(&scan);
	}
	CHECK(!python_finder_open(&finder));
	python_runtime_find(finder, &runtime, &t);
	python_finder_close(finder);
	CHECK(!installed_read(NULL, NULL, dir, 7, "cuda=1", &s));
	for (uint32_t i = 0; i < s.setting_count; i++)
		CHECK(strlen(s.settings[i].name) <= LIMIT_SKETCH_VALUE_BYTES &&
		      strlen(s.settings[i].value) <= LIMIT_SKETCH_VALUE_BYTES);
	wire_sketch_free(&s);
}

static void read_system(void)
{
	static struct os_hierarchies hierarchies;
	static struct os_proc_cgroup cgroup;
	struct os_proc_io_limit io[8];
	struct os_connection c = {.family = 2};
	struct os_proc_stat st;
	uint32_t pids[16], pid = 7;
	struct os_proc_memory memory;
	uint64_t sum = 0;
	char name[16];

	os_proc_stat(dir, 7, &st);
	CHECK(os_proc_children(dir, 1, NULL, 0, pids, 16) <= 16);
	os_proc_name(dir, 7, 7, name, sizeof(name));
	CHECK(strlen(name) < sizeof(name));
	os_proc_run_wait(dir, 7, on_wait, &sum);
	os_proc_cgroup_find(&hierarchies, dir, dir, 7, &cgroup);
	CHECK(cgroup.count <= OS_PROC_CGROUP_LEVELS && cgroup.io.count <= OS_PROC_CGROUP_LEVELS);
	os_proc_cgroup_throttled(&cgroup, &sum);
	CHECK(os_proc_cgroup_io(&cgroup, io, 8) <= 8);
	os_proc_cgroup_memory(&cgroup, &memory);
	os_proc_steal(dir, &sum);
	os_proc_socket_owner(dir, &pid, 1, &c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The first byte: how much of the rest is maps; then environ, the file that maps may name, and the rest of
 * what the kernel says. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const texts[] = {
	    "7/stat", "7/cgroup", "7/net/tcp", "7/task/7/schedstat", "7/task/7/comm", "stat"};
	uint64_t begin_ns;
	size_t maps;

	if (!*dir)
		make_tree();
	if (!bytes)
		return 0;
	maps = (bytes - 1) * data[0] / 255;
	put("7/maps", data + 1, maps);
	put("7/environ", data + 1 + maps, bytes - 1 - maps);
	put("7/root/lib/libpython3.so", data + 1 + maps, bytes - 1 - maps);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		put(texts[i], data + 1, bytes - 1);
	begin_ns = cpu_ns();
	read_process();
	read_system();
	CHECK(cpu_ns() - begin_ns < WORK_NS + WORK_NS_BYTE * bytes);
	return 0;
}
