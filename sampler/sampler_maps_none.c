/* SPDX-License-Identifier: Apache-2.0
 * sampler_maps_none.c - sampler_maps.h if clang, bpftool or libbpf was missing at build time. */
#include "sampler/sampler_maps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int sampler_maps_open(struct sampler_maps **out, enum sampler_mode mode,
		      const struct sampler_options *o, char why[160], char missing[160])
{
	snprintf(why, 160, "built without BPF (clang, bpftool or libbpf was missing)");
	return -ENOTSUP;
}

void sampler_maps_close(struct sampler_maps *m)
{
}

int sampler_maps_attach(struct sampler_maps *m, int perf_fd)
{
	return -ENOTSUP;
}

void sampler_maps_backing(struct sampler_maps *m, struct unwind_backing *out)
{
	*out = unwind_store_memory;
}

int sampler_maps_process(struct sampler_maps *m, uint32_t pid, const struct unwind_process *p,
			 uint8_t generation)
{
	return -ENOTSUP;
}

void sampler_maps_process_remove(struct sampler_maps *m, uint32_t pid)
{
}

int sampler_maps_python(struct sampler_maps *m, uint32_t pid, const struct python_process *p)
{
	return -ENOTSUP;
}

int sampler_maps_control(struct sampler_maps *m, const struct sampler_control *c)
{
	return -ENOTSUP;
}

int sampler_maps_swap(struct sampler_maps *m, uint32_t *old)
{
	return -ENOTSUP;
}

int sampler_maps_stacks(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg)
{
	return -ENOTSUP;
}

int sampler_maps_fd(const struct sampler_maps *m)
{
	return -1;
}

int sampler_maps_off_cpu(struct sampler_maps *m, bool on)
{
	return -ENOTSUP;
}

void sampler_maps_switch_sink(struct sampler_maps *m, sampler_maps_stack_fn fn, void *arg)
{
}

int sampler_maps_switch_fd(const struct sampler_maps *m)
{
	return -1;
}

int sampler_maps_switch_add(struct sampler_maps *m, struct sampler_switch_thread *row)
{
	return -ENOTSUP;
}

void sampler_maps_switch_remove(struct sampler_maps *m, uint32_t first_tid, uint32_t tid)
{
}

void sampler_maps_switch_rows(struct sampler_maps *m, sampler_maps_switch_fn fn, void *arg)
{
}

int sampler_maps_counts(struct sampler_maps *m, uint32_t old, sampler_maps_count_fn fn, void *arg)
{
	return -ENOTSUP;
}

void sampler_maps_blocked(struct sampler_maps *m, sampler_maps_blocked_fn fn, void *arg)
{
}

void sampler_maps_counters(const struct sampler_maps *m, uint64_t out[SAMPLER_COUNT_MAX])
{
	memset(out, 0, SAMPLER_COUNT_MAX * sizeof(*out));
}

void sampler_maps_run_stats(const struct sampler_maps *m, uint64_t *runs, uint64_t *ns)
{
	*runs = *ns = 0;
}

uint64_t sampler_maps_bytes(const struct sampler_maps *m)
{
	return 0;
}
