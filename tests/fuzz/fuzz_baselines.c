/* SPDX-License-Identifier: Apache-2.0
 * fuzz_baselines - a file of baselines that is not ours, or no longer whole. Byte 0 is 0: patches {u16
 * offset, u8 length, bytes} of a valid file; else rows of any types and any sketches in it. Whatever it
 * holds, it opens (aside from a damaged one), gives sound figures or none, and takes a new run. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregator/fleet/baselines.h"
#include "base/check.h"
#include "base/daemon/log.h"
#include "base/limits.h"
#include "wire/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char dir[64], path[96];
static uint8_t *image;
static size_t image_bytes;

static void end(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		perror(dir);
}

static void clean(void)
{
	static const char *const names[] = {"", "-wal", "-shm", "-journal", ".damaged"};
	char name[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(name, sizeof(name), "%s%s", path, names[i]);
		unlink(name);
	}
}

static void put(struct baselines *b, uint64_t run)
{
	const struct baselines_run r = {.run = run,
					.updated_unix_ns = run,
					.steps = 300,
					.latency_ns = 1e8,
					.self_ns = 9e7,
					.mad_ns = 1e5};

	baselines_put(b, "job", "role", &r, "", 0);
}

static void init(void)
{
	struct baselines *b;
	FILE *f;

	log_init("fuzz_baselines", LOG_ERROR);
	snprintf(dir, sizeof(dir), "%s/fuzz_baselines_XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	CHECK(mkdtemp(dir));
	atexit(end);
	snprintf(path, sizeof(path), "%s/baselines.db", dir);
	CHECK(!baselines_open(&b, dir));
	for (uint64_t i = 1; i < 4; i++)
		put(b, i);
	baselines_close(b);
	f = fopen(path, "rb");
	CHECK(f);
	image = malloc(1 << 20);
	CHECK(image);
	image_bytes = fread(image, 1, 1 << 20, f);
	fclose(f);
}

static void write_image(const uint8_t *p, size_t bytes)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, p, bytes) == (ssize_t)bytes);
	close(fd);
}

static void patch(const uint8_t *data, size_t bytes)
{
	uint8_t *p = malloc(image_bytes);
	size_t at = 0;

	CHECK(p);
	memcpy(p, image, image_bytes);
	while (at + 3 <= bytes) {
		size_t offset = data[at] | (size_t)data[at + 1] << 8, n = data[at + 2];

		at += 3;
		n = n < bytes - at ? n : bytes - at;
		if (offset + n <= image_bytes)
			memcpy(p + offset, data + at, n);
		at += n;
	}
	write_image(p, image_bytes);
	free(p);
}

/* One cell: type, then eight bytes or a text. */
static size_t bind(sqlite3_stmt *st, int column, const uint8_t *p, size_t left)
{
	uint64_t word = 0;
	double real;

	if (left < 9)
		return left;
	memcpy(&word, p + 1, 8);
	memcpy(&real, &word, 8);
	switch (p[0] % 4) {
	case 0:
		sqlite3_bind_int64(st, column, (int64_t)word);
		break;
	case 1:
		sqlite3_bind_double(st, column, real);
		break;
	case 2:
		sqlite3_bind_blob64(st, column, p + 1, p[0] < left ? p[0] : left - 1,
				    SQLITE_STATIC);
		return 1 + (p[0] < left ? p[0] : left - 1);
	default:
		sqlite3_bind_text64(st, column, (const char *)p + 1, 8, SQLITE_STATIC, SQLITE_UTF8);
	}
	return 9;
}

static void rows(const uint8_t *data, size_t bytes)
{
	sqlite3_stmt *st;
	sqlite3 *db;

	write_image(image, image_bytes);
	CHECK(sqlite3_open(path, &db) == SQLITE_OK);
	CHECK(sqlite3_prepare_v2(db,
				 "INSERT OR REPLACE INTO baselines(job,role,run,updated_ns,steps,"
				 "latency_ns,self_ns,mad_ns,body) "
				 "VALUES('job','role',?1,?2,?3,?4,?5,?6,?7)",
				 -1, &st, NULL) == SQLITE_OK);
	while (bytes) {
		for (int column = 1; column <= 7 && bytes; column++) {
			size_t n = bind(st, column, data, bytes);

			data += n;
			bytes -= n;
		}
		sqlite3_step(st);
		sqlite3_reset(st);
	}
	sqlite3_finalize(st);
	sqlite3_close(db);
}

static void use(void)
{
	struct baselines_run out[LIMIT_BASELINE_RUNS];
	struct sketch newest;
	uint64_t updated;
	struct baselines *b;
	json_t *j;
	char *text;
	int n;

	if (baselines_open(&b, dir))
		return;
	n = baselines_runs(b, "job", "role", 0, out, LIMIT_BASELINE_RUNS, &newest);
	for (int i = 0; i < n; i++)
		CHECK(isfinite(out[i].latency_ns) && isfinite(out[i].self_ns) &&
		      isfinite(out[i].mad_ns) && out[i].latency_ns >= 0 && out[i].self_ns >= 0 &&
		      out[i].mad_ns >= 0);
	if (n >= 0)
		wire_sketch_free(&newest);
	if (!baselines_get(b, "job", "role", 1, &updated, &newest))
		wire_sketch_free(&newest);
	j = baselines_json(b, "job");
	text = json_dumps(j, JSON_COMPACT);
	CHECK(text);
	free(text);
	json_decref(j);
	put(b, 99);
	baselines_expire(b, 2);
	baselines_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!image)
		init();
	if (!bytes)
		return 0;
	if (data[0])
		rows(data + 1, bytes - 1);
	else
		patch(data + 1, bytes - 1);
	use();
	clean();
	return 0;
}
