/* SPDX-License-Identifier: Apache-2.0
 * fuzz_config - a settings file of any bytes, with settings of every type. Values that are taken lie
 * within their bounds, texts are terminated, and the work is bounded by the file: aliases unfold to
 * nothing. Messages go to standard error: run with -close_fd_mask=2. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/daemon/config.h"
#include "base/daemon/log.h"
#include "tests/fuzz/fuzz_budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct values {
	char text[16];
	bool flag;
	uint64_t count, size, duration_ns;
	double ratio;
	int choice;
	uint32_t guard;
};

#define KEY(field, key, type, initial, ...)                                                        \
	CONFIG_KEY(struct values, field, key, type, initial, "help", __VA_ARGS__)
static const struct config_key keys[] = {
    KEY(text, "a.text", CONFIG_STRING, "x"),
    KEY(flag, "a.flag", CONFIG_BOOL, "true"),
    KEY(count, "a.count", CONFIG_UINT, "3", .min = 1, .max = 100),
    KEY(size, "b.size", CONFIG_BYTES, "1MB", .min = 1000, .max = 1e9),
    KEY(duration_ns, "b.duration", CONFIG_DURATION, "5s", .min = 1e6, .max = 1e12),
    KEY(ratio, "b.ratio", CONFIG_DOUBLE, "0.5", .min = 0, .max = 2),
    KEY(choice, "single", CONFIG_ENUM, "one", .choices = "one|two|three"),
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char path[64], *argv[] = {"fuzz", "--config", path, NULL};
	struct values v = {.guard = 0x5afe};
	enum config_result result;
	int fd = fuzz_budget_file(data, bytes, 0);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fuzz_budget_begin();
	result =
	    config_load(&v, keys, ARRAY_LEN(keys), "fuzz", "about", "/nonexistent", 3, argv, NULL);
	/* libyaml's own buffers, and a few hundred bytes for each of its events */
	fuzz_budget_end(bytes, 4096, 1 << 20, 1024);
	close(fd);
	CHECK(v.guard == 0x5afe && result != CONFIG_EXIT_OK);
	if (result != CONFIG_RUN)
		return 0;
	CHECK(memchr(v.text, 0, sizeof(v.text)));
	CHECK(v.count >= 1 && v.count <= 100 && v.size >= 1000 && v.size <= 1000000000);
	CHECK(v.duration_ns >= 1000000 && v.duration_ns <= 1000000000000);
	CHECK(v.ratio >= 0 && v.ratio <= 2 && v.choice >= 0 && v.choice <= 2);
	return 0;
}
