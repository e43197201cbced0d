/* SPDX-License-Identifier: Apache-2.0
 * Sums by the second, and what /proc and /sys say, from a recorded tree. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "sidecar/os/os_proc.h"
#include "sidecar/os/os_series.h"

#define S 1000000000ull

struct seen {
	struct os_series_row row;
	char subject[OS_SIGNAL_SUBJECT_BYTES];
	unsigned count;
};

static void keep(void *arg, const struct os_series_row *row)
{
	struct seen *s = arg;

	s->row = *row;
	snprintf(s->subject, sizeof(s->subject), "%s", row->subject);
	s->count++;
}

static struct seen ask(struct os_series *s, uint32_t owner, struct os_series_query q)
{
	struct seen out = {.count = 0};

	os_series_each(s, owner, &q, keep, &out);
	return out;
}

static void means_of_the_window_and_of_the_time_before(void **state)
{
	struct os_span unusual = {40 * S, 45 * S};
	struct os_series_query q = {.begin_ns = 50 * S, .end_ns = 52 * S};
	struct os_series *s;
	struct seen got;

	assert_false(os_series_open(&s, 0));
	for (uint64_t t = 1; t <= 60; t++) {
		os_series_advance(s, t * S);
		os_series_add(s, 7, 3, 0,
			      t > 50 && t <= 52	  ? 300
			      : t > 40 && t <= 45 ? 100
						  : 2,
			      "it");
	}
	got = ask(s, 7, q);
	assert_int_equal(got.count, 1);
	assert_string_equal(got.subject, "it");
	assert_true(got.row.value > 299.9 && got.row.value < 300.1);
	assert_true(got.row.usual > 11); /* five seconds of 100 among the fifty */
	q.unusual = &unusual;
	q.unusual_count = 1;
	got = ask(s, 7, q);
	assert_true(got.row.usual > 1.9 && got.row.usual < 2.1);
	q.from_ns = 47 * S; /* three seconds are too few to know */
	assert_true(ask(s, 7, q).row.usual < 0);
	assert_false(os_series_knows_usual(s, &q));
	assert_int_equal(ask(s, 8, q).count, 0);
	os_series_close(s);
}

/* The latest minute of usual time lies before an anomaly of 80 s. */
static void usual_time_is_found_before_a_long_anomaly(void **state)
{
	struct os_span unusual = {80 * S, 160 * S};
	struct os_series_query q = {
	    .begin_ns = 160 * S, .end_ns = 165 * S, .unusual = &unusual, .unusual_count = 1};
	struct os_series *s;
	struct seen got;

	assert_false(os_series_open(&s, 0));
	for (uint64_t t = 1; t <= 165; t++) {
		os_series_advance(s, t * S);
		os_series_add(s, 7, 3, 0, t <= 15 ? 50 : t <= 80 ? 2 : 90, NULL);
	}
	got = ask(s, 7, q);
	assert_true(os_series_knows_usual(s, &q));
	assert_true(got.row.value > 89 && got.row.value < 91);
	assert_true(got.row.usual > 1.9 && got.row.usual < 2.1);
	os_series_close(s);
}

static void a_read_in_between_makes_the_bucket_longer(void **state)
{
	struct os_series_query q = {.begin_ns = 10 * S, .end_ns = 11 * S};
	struct os_series *s;
	struct seen got;

	assert_false(os_series_open(&s, 0));
	for (uint64_t t = 1; t <= 200; t++) { /* ten reads a second */
		os_series_advance(s, t * S / 10);
		os_series_add(s, 7, 3, 0, 5, NULL);
	}
	got = ask(s, 7, q);
	assert_true(got.row.value > 49 && got.row.value < 51);
	assert_true(got.row.usual > 49 && got.row.usual < 51);
	os_series_close(s);
}

static void forgets_what_has_not_grown_for_minutes(void **state)
{
	struct os_series *s;

	assert_false(os_series_open(&s, 0));
	os_series_advance(s, S);
	os_series_add(s, 7, 3, 1, 5, NULL);
	for (uint64_t t = 2; t < LIMIT_OS_SECONDS + 4; t++) {
		os_series_advance(s, t * S);
		os_series_add(s, 7, 3, 2, 5, NULL);
	}
	assert_int_equal(os_series_count(s), 1);
	assert_false(os_series_has(s, 7, 3, 1));
	assert_true(os_series_has(s, 7, 3, 2));
	os_series_forget(s, 7);
	assert_int_equal(os_series_count(s), 0);
	os_series_close(s);
}

static void no_room_is_counted(void **state)
{
	struct os_series *s;

	assert_false(os_series_open(&s, 0));
	os_series_advance(s, S);
	for (uint32_t i = 0; i < LIMIT_OS_SERIES; i++)
		assert_true(os_series_add(s, 7, 3, i, 1, NULL));
	assert_false(os_series_add(s, 7, 3, LIMIT_OS_SERIES, 1, NULL));
	assert_int_equal(os_series_lost(s), 1);
	assert_true(os_series_add(s, 7, 3, 5, 1, NULL)); /* what is there goes on */
	os_series_close(s);
}

/* ---- a recorded host ---- */

static char root[] = "/tmp/sysom-test-XXXXXX";

static void file(const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *at = full + sizeof(root); (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	f = fopen(full, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_tree(void **state)
{
	if (!mkdtemp(root))
		return -1;
	file("proc/10/stat", "10 (a) b) R 1 10 10 0 -1 4194304 500 0 7 0 1 2 3 4 20 0");
	file("proc/11/stat", "11 (loader) S 10 10 10 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	file("proc/9/stat", "9 (grandchild) S 11 10 10 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	file("proc/12/stat", "12 (other) S 1 10 10 0 -1 0 1 0 0 0 1 2 3 4 20 0");
	file("proc/10/cgroup", "0::/pod/train\n");
	file("proc/12/cgroup", "4:cpu,cpuacct:/old\n3:cpuset:/x\n");
	file("proc/13/cgroup", "0::/../../elsewhere\n");
	file("proc/stat", "cpu  10 20 30 40 50 60 77 88 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
	file("proc/pressure/cpu", "some avg10=1.00 avg60=0.50 avg300=0.10 total=123456\n");
	file("sys/fs/cgroup/pod/train/cpu.stat",
	     "usage_usec 1\nnr_throttled 3\nthrottled_usec 2000\n");
	file("sys/fs/cgroup/pod/cpu.stat", "usage_usec 1\nnr_throttled 1\nthrottled_usec 500\n");
	file("sys/fs/cgroup/cpu/old/cpu.stat",
	     "nr_periods 5\nnr_throttled 2\nthrottled_time 7000000\n");
	file("sys/fs/cgroup/pod/train/io.max", "254:0 rbps=1048576 wbps=max riops=max wiops=120\n");
	file("sys/fs/cgroup/pod/train/io.stat",
	     "254:0 rbytes=5000 wbytes=70 rios=3 wios=4 dbytes=0 dios=0\n"
	     "8:0 rbytes=1 wbytes=1 rios=1 wios=1 dbytes=0 dios=0\n");
	file("sys/fs/cgroup/pod/io.max", "8:0 rbps=max wbps=2000000 riops=max wiops=max\n");
	file("sys/fs/cgroup/pod/io.stat", "8:0 rbytes=9 wbytes=900 rios=1 wios=8\n");
	file("sys/fs/cgroup/pod/train/memory.pressure",
	     "some avg10=0.00 avg60=0.00 avg300=0.00 total=777\nfull avg10=0.00 total=5\n");
	file("sys/fs/cgroup/pod/train/memory.max", "max\n");
	file("sys/fs/cgroup/pod/train/memory.high", "max\n");
	file("sys/fs/cgroup/pod/memory.max", "80000000\n");
	file("sys/fs/cgroup/pod/memory.high", "64000000\n");
	file("sys/fs/cgroup/pod/memory.stat",
	     "anon 5\nworkingset_nodes 9\nworkingset_refault_anon 7\n"
	     "workingset_refault_file 100\nworkingset_activate_file 3\n");
	file("proc/14/cgroup", "9:memory:/small\n6:blkio:/slow\n4:cpu,cpuacct:/\n0::/system\n");
	file("hybrid/fs/cgroup/memory/small/memory.limit_in_bytes", "32000000\n");
	file("hybrid/fs/cgroup/memory/small/memory.stat",
	     "workingset_refault_file 1\ntotal_workingset_refault_anon 20\n"
	     "total_workingset_refault_file 4\n");
	file("hybrid/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	file("hybrid/fs/cgroup/unified/system/cgroup.procs", "");
	file("hybrid/fs/cgroup/blkio/slow/blkio.throttle.read_bps_device", "254:16 300000\n");
	file("hybrid/fs/cgroup/blkio/slow/blkio.throttle.write_iops_device", "254:16 50\n");
	file("hybrid/fs/cgroup/blkio/slow/blkio.throttle.io_service_bytes",
	     "254:16 Read 1000\n254:16 Write 2000\n254:16 Sync 3000\n254:16 Total 3000\nTotal "
	     "3000\n");
	file("hybrid/fs/cgroup/blkio/slow/blkio.throttle.io_serviced_recursive",
	     "254:16 Read 10\n254:16 Write 20\n254:0 Write 7\nTotal 37\n");
	file("sys/devices/system/node/node0/cpulist", "0-3,8\n");
	file("sys/devices/system/node/node1/cpulist", "4-7,9\n");
	return 0;
}

static int remove_tree(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static const char *below(const char *part)
{
	static char path[2][256];
	static int turn;

	turn ^= 1;
	snprintf(path[turn], sizeof(path[0]), "%s/%s", root, part);
	return path[turn];
}

static void reads_processes_and_their_families(void **state)
{
	struct os_proc_stat st;
	uint32_t pids[8], n;

	assert_false(os_proc_stat(below("proc"), 10, &st));
	assert_int_equal(st.parent, 1);
	assert_int_equal(st.faults, 507);
	assert_int_equal(st.faults_major, 7);
	assert_true(os_proc_stat(below("proc"), 99, &st) < 0);
	n = os_proc_children(below("proc"), 10, NULL, 0, pids, 8);
	assert_int_equal(n, 2);
	assert_true((pids[0] == 11 && pids[1] == 9) || (pids[0] == 9 && pids[1] == 11));
	/* 9 is a child of 11 */
	assert_int_equal(os_proc_children(below("proc"), 10, (uint32_t[]){5, 11}, 2, pids, 8), 0);
	assert_int_equal(os_proc_children(below("proc"), 10, (uint32_t[]){9}, 1, pids, 8), 1);
}

/* 0: directories are as they are. Else each has as many entries, all of this one name. */
static uint32_t entries, entries_read;
static struct dirent entry;

struct dirent *__real_readdir(DIR *d);
struct dirent *__wrap_readdir(DIR *d);
struct dirent *__wrap_readdir(DIR *d)
{
	if (!entries)
		return __real_readdir(d);
	return entries_read < entries ? entries_read++, &entry : NULL;
}

static void crowd(uint32_t count, const char *name)
{
	entries = count;
	entries_read = 0;
	snprintf(entry.d_name, sizeof(entry.d_name), "%s", name);
}

static void count_thread(void *arg, uint32_t tid, uint64_t wait_ns)
{
	++*(uint32_t *)arg;
}

static void of_a_process_512_threads_are_read(void **state)
{
	uint32_t seen = 0;

	file("proc/10/task/15/schedstat", "5 7 9\n");
	crowd(511, "15");
	os_proc_run_wait(below("proc"), 10, count_thread, &seen);
	assert_int_equal(seen, 511);
	seen = 0;
	crowd(600, "15");
	os_proc_run_wait(below("proc"), 10, count_thread, &seen);
	crowd(0, "");
	assert_int_equal(seen, 512);
}

static void of_a_machine_65536_processes_are_read(void **state)
{
	uint32_t pid, n, read;

	crowd(65536 + 64, "11");
	n = os_proc_children(below("proc"), 10, NULL, 0, &pid, 1);
	read = entries_read;
	crowd(0, "");
	assert_int_equal(n, 1);
	assert_in_range(read, 65536, 65537); /* the last one is left where it is */
}

static void find_cgroup(const char *proc, const char *sys, uint32_t pid, struct os_proc_cgroup *out)
{
	struct os_hierarchies h = {0};

	os_proc_cgroup_find(&h, proc, sys, pid, out);
	os_hierarchy_fini(&h);
}

static void reads_throttling_of_both_cgroup_versions(void **state)
{
	struct os_proc_cgroup c;
	uint64_t ns;

	find_cgroup(below("proc"), below("sys"), 10, &c);
	assert_true(os_proc_cgroup_throttled(&c, &ns));
	assert_int_equal(ns, 2500000); /* its own, and that of the group above */
	find_cgroup(below("proc"), below("sys"), 12, &c);
	assert_true(os_proc_cgroup_throttled(&c, &ns));
	assert_int_equal(ns, 7000000);
	find_cgroup(below("proc"), below("sys"), 13, &c);
	assert_int_equal(c.count, 0);
	assert_false(os_proc_cgroup_throttled(&c, &ns));
}

static void reads_pressure_and_numa(void **state)
{
	static uint8_t table[OS_CPU_MAX];
	uint64_t us;

	assert_true(os_proc_steal(below("sys"), &us) < 0);
	assert_int_equal(os_proc_steal(below("proc"), &us), 0);
	assert_int_equal(us, 88 * (1000000 / sysconf(_SC_CLK_TCK)));
	assert_false(os_proc_pressure(below("proc"), "cpu", &us));
	assert_int_equal(us, 123456);
	assert_true(os_proc_pressure(below("proc"), "io", &us) < 0);
	assert_int_equal(os_proc_numa(below("sys"), table), 2);
	assert_int_equal(table[3], 0);
	assert_int_equal(table[4], 1);
	assert_int_equal(table[8], 0);
	assert_int_equal(table[9], 1);
}

#define DISK(major, minor) ((uint32_t)(major) << 20 | (minor))

static void reads_io_limits_of_version_2_and_of_groups_above(void **state)
{
	struct os_proc_io_limit l[8];
	struct os_proc_cgroup c;

	find_cgroup(below("proc"), below("sys"), 10, &c);
	assert_int_equal(os_proc_cgroup_io(&c, l, 8), 3);
	assert_int_equal(l[0].device, DISK(254, 0));
	assert_false(l[0].write);
	assert_int_equal(l[0].level, 0);
	assert_int_equal(l[0].bytes_max, 1048576);
	assert_int_equal(l[0].ops_max, 0);
	assert_int_equal(l[0].bytes, 5000);
	assert_true(l[1].write);
	assert_int_equal(l[1].bytes_max, 0);
	assert_int_equal(l[1].ops_max, 120);
	assert_int_equal(l[1].ops, 4);
	assert_int_equal(l[2].device, DISK(8, 0));
	assert_true(l[2].write);
	assert_int_equal(l[2].level, 1);
	assert_int_equal(l[2].bytes_max, 2000000);
	assert_int_equal(l[2].bytes, 900);
	assert_int_equal(os_proc_cgroup_io(&c, l, 1), 1); /* no further than there is room */
}

static void reads_io_limits_of_version_1(void **state)
{
	struct os_proc_io_limit l[8];
	struct os_proc_cgroup c;

	find_cgroup(below("proc"), below("hybrid"), 14, &c);
	assert_int_equal(os_proc_cgroup_io(&c, l, 8), 2);
	assert_int_equal(l[0].device, DISK(254, 16));
	assert_false(l[0].write);
	assert_int_equal(l[0].bytes_max, 300000);
	assert_int_equal(l[0].bytes, 1000);
	assert_int_equal(l[0].ops, 10);
	assert_true(l[1].write);
	assert_int_equal(l[1].ops_max, 50);
	assert_int_equal(l[1].ops, 20);
	assert_int_equal(l[1].bytes, 2000);
}

static void reads_refaults_under_the_lowest_memory_limit_of_both_versions(void **state)
{
	struct os_proc_cgroup c;
	struct os_proc_memory m;

	find_cgroup(below("proc"), below("sys"), 10, &c);
	assert_true(os_proc_cgroup_memory(&c, &m));
	assert_int_equal(m.level, 1);
	assert_int_equal(m.limit_bytes, 64000000);
	assert_int_equal(m.refaults, 107);
	find_cgroup(below("proc"), below("hybrid"), 14, &c);
	assert_true(os_proc_cgroup_memory(&c, &m));
	assert_int_equal(m.level, 0);
	assert_int_equal(m.limit_bytes, 32000000);
	assert_int_equal(m.refaults, 24);
	find_cgroup(below("proc"), below("sys"), 12, &c); /* without a limit */
	assert_false(os_proc_cgroup_memory(&c, &m));
}

static void reads_the_pressure_of_a_cgroup(void **state)
{
	struct os_proc_cgroup c;
	uint64_t us;

	find_cgroup(below("proc"), below("sys"), 10, &c);
	assert_false(os_proc_cgroup_pressure(&c, "memory", &us));
	assert_int_equal(us, 777);
	assert_true(os_proc_cgroup_pressure(&c, "cpu", &us) < 0);
	find_cgroup(below("proc"), below("sys"), 12, &c); /* version 1 alone */
	assert_true(os_proc_cgroup_pressure(&c, "memory", &us) < 0);
	assert_int_equal(os_proc_cgroup_io(&c, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(means_of_the_window_and_of_the_time_before),
	    cmocka_unit_test(usual_time_is_found_before_a_long_anomaly),
	    cmocka_unit_test(a_read_in_between_makes_the_bucket_longer),
	    cmocka_unit_test(forgets_what_has_not_grown_for_minutes),
	    cmocka_unit_test(no_room_is_counted),
	    cmocka_unit_test(reads_processes_and_their_families),
	    cmocka_unit_test(of_a_process_512_threads_are_read),
	    cmocka_unit_test(of_a_machine_65536_processes_are_read),
	    cmocka_unit_test(reads_throttling_of_both_cgroup_versions),
	    cmocka_unit_test(reads_io_limits_of_version_2_and_of_groups_above),
	    cmocka_unit_test(reads_io_limits_of_version_1),
	    cmocka_unit_test(reads_refaults_under_the_lowest_memory_limit_of_both_versions),
	    cmocka_unit_test(reads_the_pressure_of_a_cgroup),
	    cmocka_unit_test(reads_pressure_and_numa),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
