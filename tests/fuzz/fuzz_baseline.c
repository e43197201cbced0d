/* SPDX-License-Identifier: Apache-2.0
 * fuzz_baseline - a node's file of healthy steps that is not ours, or no longer whole. Byte 0: 0 the file
 * itself; else samples, in a file with a right head and checksum. What is loaded is sound, and no more
 * than asked for. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "sidecar/baseline.h"

#define SAMPLES_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct baseline_id id = {1234, 1000, 5678, 9};
static char dir[64];
static int dir_fd = -1;

static void end(void)
{
	baseline_remove(dir_fd, &id);
	rmdir(dir);
}

static void init(void)
{
	snprintf(dir, sizeof(dir), "/dev/shm/fuzz_baseline_XXXXXX");
	CHECK(mkdtemp(dir));
	dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	CHECK(dir_fd >= 0);
	atexit(end);
}

static void put_file(const uint8_t *data, size_t bytes)
{
	struct judge_sample none = {0};
	char name[64];
	int fd;

	CHECK(!baseline_save(dir_fd, &id, &none, 0));
	snprintf(name, sizeof(name), "1234-%08x-5678.baseline", 9);
	fd = openat(dir_fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct judge_sample in[SAMPLES_MAX], out[SAMPLES_MAX];
	size_t count;
	int got;

	if (dir_fd < 0)
		init();
	if (!bytes)
		return 0;
	count =
	    (bytes - 1) / sizeof(in[0]) < SAMPLES_MAX ? (bytes - 1) / sizeof(in[0]) : SAMPLES_MAX;
	if (data[0]) {
		memcpy(in, data + 1, count * sizeof(in[0]));
		CHECK(!baseline_save(dir_fd, &id, in, (uint32_t)count));
	} else {
		put_file(data + 1, bytes - 1);
	}
	got = baseline_load(dir_fd, &id, out, SAMPLES_MAX / 2);
	CHECK(got <= (int)SAMPLES_MAX / 2);
	for (int i = 0; i < got; i++)
		CHECK(isfinite(out[i].latency_ns) && out[i].latency_ns > 0 &&
		      isfinite(out[i].self_ns) && out[i].self_ns >= 0 &&
		      out[i].work_count <= STEP_WORK_MAX);
	return 0;
}
