/* SPDX-License-Identifier: Apache-2.0
 * test_ring_dump.c - sysom-ring on a live ring, a file of it, and things that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/check.h"
#include "base/exit_status.h"
#include "ring/ring_writer.h"

static char tool[512];

/* The tool's standard output (owned by the caller) and exit status. */
static char *run(const char *args, int *status)
{
	size_t capacity = 1 << 20, bytes;
	char *out = malloc(capacity);
	char command[1024];
	FILE *f;

	snprintf(command, sizeof(command), "%s %s 2>&1", tool, args);
	f = popen(command, "r");
	CHECK(f && out);
	bytes = fread(out, 1, capacity - 1, f);
	out[bytes] = 0;
	*status = WEXITSTATUS(pclose(f));
	return out;
}

static void fill(struct ring_writer *w)
{
	struct event_launch launch = {.head = {.kind = EVENT_LAUNCH, .flags = 1, .t = 1000},
				      .func = 0xabc,
				      .grid = {1, 2, 3}};
	struct event_step step = {.head = {.kind = EVENT_STEP_BEGIN, .t = 2000},
				  .work = {1.5, 0.0 / 0.0},
				  .work_count = 2,
				  .index = 9};
	struct event_kernel kernel = {.head = {.kind = EVENT_KERNEL, .t = 3000}, .end = 3500};
	struct ring_lane_writer host, device;
	struct ring_geometry g;

	ring_geometry_default(&g);
	g.host_slots = 16;
	assert_int_equal(ring_writer_init(w, &g), 0);
	assert_true(ring_writer_claim(w, RING_LANE_HOST, 321, &host));
	assert_true(ring_writer_claim(w, RING_LANE_DEVICE, 322, &device));
	kernel.name = ring_writer_intern(w, "say \"hi\\\"\n<int>", 15);
	for (int i = 0; i < 20; i++)
		ring_writer_push(&host, &launch);
	ring_writer_push(&host, &step);
	ring_writer_push(&device, &kernel);
	ring_writer_count_drop(w, RING_DROP_PACING, 3);
	ring_writer_reclaim(w, 77);
}

static void prints_text_of_a_live_ring(void **state)
{
	struct ring_writer w;
	char args[64], *out;
	int status;

	fill(&w);
	snprintf(args, sizeof(args), "--pid %d", getpid());
	out = run(args, &status);
	assert_int_equal(status, 0);
	assert_non_null(strstr(out, " pacing=3 "));
	assert_non_null(strstr(out, "events=22"));
	assert_non_null(strstr(out, "name 1 say \"hi\\\"?<int>\n"));
	assert_non_null(strstr(out,
			       "  0     321         20                 1000 launch       flags=0x1 "
			       "func=0xabc stream=0x0 grid=1,2,3 block=0,0,0 api=0 "
			       "duration=0 number=0\n"));
	assert_non_null(strstr(out, "step_begin   flags=0x0 index=9 work_count=2 work=1.5,"));
	assert_non_null(
	    strstr(out, "kernel       flags=0x0 end=3500 name=\"say \\\"hi\\\\\\\"?<int>\""));
	assert_non_null(
	    strstr(out, "read events=17 overwritten=5 torn=0 bad_kind=0 broken=false\n"));
	free(out);
	ring_writer_fini(&w);
}

static void prints_one_json_document(void **state)
{
	struct ring_writer w;
	char args[64], *out;
	json_error_t error;
	json_t *root, *events, *e;
	int status;

	fill(&w);
	snprintf(args, sizeof(args), "--json /proc/%d/fd/%d", getpid(), w.fd);
	out = run(args, &status);
	assert_int_equal(status, 0);
	root = json_loads(out, JSON_REJECT_DUPLICATES, &error);
	assert_non_null(root);
	assert_int_equal(
	    json_integer_value(json_object_get(json_object_get(root, "header"), "pid")), getpid());
	assert_int_equal(
	    json_integer_value(json_object_get(json_object_get(root, "drops"), "pacing")), 3);
	events = json_object_get(root, "events");
	assert_int_equal(json_array_size(events), 17);
	e = json_array_get(events, 15);
	assert_string_equal(json_string_value(json_object_get(e, "kind")), "step_begin");
	assert_true(json_is_null(json_array_get(json_object_get(e, "work"), 1)));
	e = json_array_get(events, 16);
	assert_string_equal(json_string_value(json_object_get(e, "name")), "say \"hi\\\"?<int>");
	json_decref(root);
	free(out);
	ring_writer_fini(&w);
}

static void limits_what_it_prints(void **state)
{
	struct ring_writer w;
	char args[64], *out;
	int status;

	fill(&w);
	snprintf(args, sizeof(args), "--lane 0 --limit 1 --pid %d", getpid());
	out = run(args, &status);
	assert_null(strstr(out, " launch "));
	assert_null(strstr(out, " kernel "));
	assert_non_null(strstr(out, " step_begin "));
	free(out);
	snprintf(args, sizeof(args), "--summary --pid %d", getpid());
	out = run(args, &status);
	assert_null(strstr(out, " step_begin "));
	assert_non_null(strstr(out, "read events=17 "));
	free(out);
	ring_writer_fini(&w);
}

static void reads_a_file_and_says_when_it_is_broken(void **state)
{
	char path[] = "/tmp/test_ring_dump_XXXXXX", args[64], *out;
	struct ring_writer w;
	int fd = mkstemp(path), status;

	fill(&w);
	assert_int_equal(write(fd, w.base, w.header->total_bytes), w.header->total_bytes);
	snprintf(args, sizeof(args), "--summary %s", path);
	out = run(args, &status);
	assert_int_equal(status, 0);
	assert_non_null(strstr(out, "read events=17 "));
	free(out);
	assert_int_equal(pwrite(fd, "\x09", 1, (off_t)w.names_offset), 1); /* a name's id */
	out = run(args, &status);
	assert_int_equal(status, EXIT_USAGE);
	assert_non_null(strstr(out, "broken"));
	free(out);
	assert_int_equal(ftruncate(fd, 20000), 0);
	out = run(args, &status);
	assert_int_equal(status, EXIT_USAGE);
	assert_non_null(strstr(out, "not a ring"));
	free(out);
	close(fd);
	unlink(path);
	ring_writer_fini(&w);
}

static void wrong_use_is_status_2(void **state)
{
	static const char *const wrong[] = {"",	     "a b",	  "--lane x f",	  "--limit 0 f",
					    "--pid", "--pid 1 f", "--nonsense f", "--lane 511 f"};
	int status;

	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		free(run(wrong[i], &status));
		assert_int_equal(status, 2);
	}
	free(run("--help", &status));
	assert_int_equal(status, 0);
	free(run("/nonexistent", &status));
	assert_int_equal(status, EXIT_USAGE);
	free(run("--pid 999999999", &status));
	assert_int_equal(status, EXIT_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(prints_text_of_a_live_ring),
	    cmocka_unit_test(prints_one_json_document),
	    cmocka_unit_test(limits_what_it_prints),
	    cmocka_unit_test(reads_a_file_and_says_when_it_is_broken),
	    cmocka_unit_test(wrong_use_is_status_2),
	};
	ssize_t n = readlink("/proc/self/exe", tool, sizeof(tool) - 64);
	char *slash;

	CHECK(n > 0);
	tool[n] = 0; /* $B/unit/test_ring_dump -> $B/bin/sysom-ring */
	for (int i = 0; i < 2 && (slash = strrchr(tool, '/')); i++)
		*slash = 0;
	strcat(tool, "/bin/sysom-ring");
	if (access(tool, X_OK)) {
		fprintf(stderr, "%s is not built\n", tool);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
