/* SPDX-License-Identifier: Apache-2.0
 * sampler_maps_none.c - sampler_maps.h if clang, bpftool or libbpf was missing at build time.
 * Opening always fails, so the sampler calls nothing else but close with NULL. The other functions
 * exist for the linker. */
#include "sampler/sampler_maps.h"

#include <errno.h>
#include <stdio.h>

int sampler_maps_open(struct sampler_maps **out, enum sampler_mode mode,
		      const struct sampler_options *o, char why[160], char missing[160])
{
	snprintf(why, 160, "built without BPF (clang, bpftool or libbpf was missing)");
	return -ENOTSUP;
}

__attribute__((used)) static long not_supported(void)
{
	return -ENOTSUP;
}

#define NONE(name)                                                                                 \
	__asm__(".globl sampler_maps_" #name "\n.set sampler_maps_" #name ", not_supported")
NONE(close);
NONE(attach);
NONE(backing);
NONE(process);
NONE(process_remove);
NONE(python);
NONE(control);
NONE(swap);
NONE(stacks);
NONE(fd);
NONE(off_cpu);
NONE(switch_sink);
NONE(switch_fd);
NONE(switch_add);
NONE(switch_remove);
NONE(switch_rows);
NONE(counts);
NONE(blocked);
NONE(counters);
NONE(run_stats);
NONE(bytes);
