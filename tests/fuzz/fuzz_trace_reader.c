/* SPDX-License-Identifier: Apache-2.0
 * A hostile trace file through the reader, the loader and the step finder. Messages go to standard
 * error: run with -close_fd_mask=2. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/steps/steps.h"
#include "cli/replay/replay_load.h"
#include "tests/fuzz/fuzz_budget.h"

/* A zstd frame of eight bytes may ask for a window of 8 MiB. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 256,
    .allocated = 12u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 20000,
    .cpu_ns_per_byte = 10000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find_steps(const struct replay_trace *t)
{
	static struct step_kernel kernels[STEP_KERNELS_MAX];
	struct steps_config c;
	struct step out;
	uint32_t count;
	void *memory;
	struct steps *s;

	steps_config_default(&c);
	c.launch_max = 1024;
	c.whole_first = t->host_count & 1;
	memory = aligned_alloc(16, steps_memory_bytes(&c));
	if (!memory)
		return;
	s = steps_init(memory, &c);
	for (size_t h = 0, d = 0; h < t->host_count || d < t->device_count;) {
		if (d == t->device_count ||
		    (h < t->host_count && t->host[h].begin_ns <= t->device[d].begin_ns))
			steps_push_host(s, &t->host[h++], NULL);
		else
			steps_push_device(s, &t->device[d++]);
		while (steps_next(s, &out, kernels, &count))
			if (count > STEP_KERNELS_MAX || out.end_ns < out.begin_ns)
				abort();
	}
	steps_finish(s);
	while (steps_next(s, &out, kernels, &count))
		;
	free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct replay_trace t = {0};
	char path[64];
	int fd = memfd_create("trace", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!replay_load(&t, path)) { /* else nothing is held: LeakSanitizer looks */
		find_steps(&t);
		replay_load_free(&t);
	}
	close(fd);
	return 0;
}
