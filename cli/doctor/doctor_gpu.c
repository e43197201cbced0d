/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/doctor/doctor.h"
#include "render/term.h"

struct library {
	const char *name, *use;
	const char *version_symbol;
	const char *paths[10]; /* tried in this order */
};

static const struct library libraries[] = {
    {"libcuda", "launches and contexts", "cuDriverGetVersion", {"libcuda.so.1"}},
    {"libcupti",
     "kernel and copy times",
     "cuptiGetVersion",
     {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so",
      "/usr/local/cuda/lib64/libcupti.so", "/usr/local/cuda/lib/libcupti.so",
      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so"}},
    {"libnccl",
     "collectives",
     "ncclGetVersion",
     {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda/lib/libnccl.so.2"}},
};

static void load(void *arg, int fd)
{
	const struct library *l = arg;

	for (size_t i = 0; i < ARRAY_LEN(l->paths) && l->paths[i]; i++) {
		void *h = dlopen(l->paths[i], RTLD_NOW | RTLD_LOCAL);
		int (*version)(int *);
		int v = 0;

		if (!h)
			continue;
		/* all three are int f(int *), or take an unsigned of the same size */
		*(void **)&version = dlsym(h, l->version_symbol);
		if (version && version(&v) == 0)
			dprintf(fd, "%s, version %d", l->paths[i], v);
		else
			dprintf(fd, "%s", l->paths[i]);
		_exit(0);
	}
	_exit(1);
}

static void check_library(struct doctor *d, const struct library *l)
{
	char out[300];
	int r = doctor_child(load, (void *)l, out, sizeof(out));

	if (r == 0)
		doctor_add(d, l->name, DOCTOR_OK, "", "%s", term_safe(out, 100));
	else if (r == 1)
		doctor_add(d, l->name, d->gpu ? DOCTOR_WARN : DOCTOR_OK,
			   "jobs usually bring their own (torch wheels); else add its directory to "
			   "LD_LIBRARY_PATH",
			   "%s (%s)",
			   d->gpu ? "not found by the loader"
				  : "not found; this machine has no GPU",
			   l->use);
	else
		doctor_add(d, l->name, DOCTOR_WARN, "it may not fit this machine's driver",
			   "loading it ended with %s %d", r < 0 ? "signal" : "status",
			   r < 0 ? -r : r);
}

void doctor_gpu_check(struct doctor *d)
{
	static const char device[] = "/dev/nvidia0";

	d->gpu = access(device, F_OK) == 0;
	if (!d->gpu)
		doctor_add(d, "GPU", DOCTOR_WARN,
			   "the simulated node needs none; otherwise load the "
			   "NVIDIA driver, or give the container its devices",
			   "%s does not exist", device);
	else if (access(device, R_OK | W_OK))
		doctor_add(d, "GPU", DOCTOR_FAIL, "give this user access to /dev/nvidia*", "%s: %s",
			   device, strerror(errno));
	else
		doctor_add(d, "GPU", DOCTOR_OK, "", "%s", device);
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		check_library(d, &libraries[i]);
}
