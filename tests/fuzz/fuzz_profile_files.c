/* SPDX-License-Identifier: Apache-2.0
 * Hostile profiles: folded stacks and pprof, loaded, compared with themselves and drawn. A profile beside
 * itself differs nowhere. Messages go to standard error: run with -close_fd_mask=2. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/profile/folded.h"
#include "cli/profile/pprof_read.h"
#include "cli/profile/profile_flame.h"
#include "model/kernel_name.h"
#include "tests/fuzz/fuzz_budget.h"

/* A zstd file may ask for a window of 8 MiB. */
struct fuzz_bounds fuzz_bounds = {
    .moved = 1u << 20,
    .moved_per_byte = 256,
    .allocated = 12u << 20,
    .allocated_per_byte = 1024,
    .cpu_us = 20000,
    .cpu_ns_per_byte = 10000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void beside_itself(struct profile *p)
{
	struct profile_delta *d;
	uint32_t n;

	if (!(profile_total(p) > 0) || profile_compare(p, p, PROFILE_DELTA, &d, &n))
		return;
	for (uint32_t i = 0; i < n; i++)
		if (d[i].flagged || d[i].delta != 0 || !(d[i].base <= 1 + 1e-9) ||
		    !(d[i].base_self <= d[i].base + 1e-9))
			abort();
	free(d);
}

/* The page has no markup but its own: no name ends its script, or begins a comment in it. */
static void draw(const struct folded *f)
{
	struct profile_tree t;
	char *text = NULL, *script, *end;
	size_t bytes;
	FILE *to;

	if (profile_tree_init(&t))
		return;
	t.differs = true;
	to = open_memstream(&text, &bytes);
	if (to && !profile_tree_add_folded(&t, f)) {
		profile_flame_page(
		    to, &t, &(struct profile_flame){.title = "t", .note = "n", .share_min = 0});
		fclose(to);
		script = memmem(text, bytes, "const DATA", 10);
		end = script ? strstr(script, "</") : NULL;
		if (!end || strncmp(end, "</script>", 9) ||
		    memmem(script, (size_t)(end - script), "<!", 2))
			abort();
	} else if (to) {
		fclose(to);
	}
	free(text);
	profile_tree_fini(&t);
}

static void try_folded(const char *path)
{
	struct profile *p;
	struct folded f;

	if (folded_load(&f, path, 0))
		return;
	if (!folded_profile(&f, &p)) {
		beside_itself(p);
		profile_close(p);
	}
	draw(&f);
	folded_free(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("profile", MFD_CLOEXEC);
	struct kernel_name k;
	struct profile *p;
	uint64_t skipped;
	char path[64], name[512];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	try_folded(path);
	if (!pprof_read_load(&p, path, &skipped)) {
		beside_itself(p);
		profile_close(p);
	}
	close(fd);
	snprintf(name, sizeof(name), "%.*s", (int)(size < 500 ? size : 500), (const char *)data);
	if (!kernel_name_parse(&k, name)) {
		if (!k.base || !k.full || k.arg_count > KERNEL_NAME_ARGS_MAX)
			abort();
		kernel_name_free(&k);
	}
	return 0;
}
