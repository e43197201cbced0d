/* SPDX-License-Identifier: Apache-2.0
 * job_host.c - fixed amounts of work, not of time: a loop that watches a clock would end in time
 * even on a CPU that somebody else half uses. */
#include "sim/job_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/sim_base.h"

#define PACK_FLOATS  (256u << 10) /* 1 MiB: beyond the inner caches, as gradients are */
#define CALIBRATIONS 50

static uint32_t source[PACK_FLOATS];
static uint16_t packed[PACK_FLOATS];
static volatile uint32_t checksum; /* so that the compiler keeps the work */

static bool whole(const char *s, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	return end != s && !*end && !errno && *s != '-' && *out && *out <= max;
}

bool job_host_parse(struct job_host *h, const char *text)
{
	char copy[512], *save = NULL, *t;
	uint64_t v = 0;

	*h = (struct job_host){.kib = 8192, .count = 10000};
	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	t = strtok_r(copy, ":", &save);
	if (t && !strcmp(t, "lookups"))
		h->kind = JOB_HOST_LOOKUPS;
	else if (!t || strcmp(t, "pack"))
		return false;
	while ((t = strtok_r(NULL, ":", &save))) {
		if (!strncmp(t, "kib=", 4) && whole(t + 4, 1 << 20, &v))
			h->kib = v;
		else if (!strncmp(t, "ms=", 3) && whole(t + 3, 1000, &v))
			h->ms = (unsigned)v;
		else if (!strncmp(t, "count=", 6) && whole(t + 6, 10000000, &v))
			h->count = (unsigned)v;
		else if (!strncmp(t, "dir=", 4) && strlen(t + 4) < sizeof(h->dir))
			strcpy(h->dir, t + 4);
		else
			return false;
	}
	return h->kind == JOB_HOST_PACK || h->dir[0];
}

int job_host_start(const struct job_host *h, int rank)
{
	char path[320];

	for (unsigned i = 0; i < PACK_FLOATS; i++)
		source[i] = 0x3f800000u + i * 7919u;
	if (h->kind != JOB_HOST_LOOKUPS)
		return 0;
	snprintf(path, sizeof(path), "%s/r%d", h->dir, rank);
	if (!mkdir(path, 0777) || errno == EEXIST)
		return 0;
	fprintf(stderr, "simjob: %s: %s\n", path, strerror(errno));
	return 1;
}

/* Rounds to nearest even, as the conversion does. */
static void pack_bf16(unsigned count)
{
	uint32_t sum = checksum;

	for (unsigned i = 0; i < count; i++) {
		uint32_t v = source[i];

		packed[i] = (uint16_t)((v + 0x7fff + (v >> 16 & 1)) >> 16);
		sum = (sum << 5 | sum >> 27) ^ packed[i];
	}
	checksum = sum;
}

uint64_t job_host_kib_of(unsigned ms)
{
	const uint64_t kib = PACK_FLOATS / 256;
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CALIBRATIONS; i++) {
		uint64_t begin = sim_now(), took;

		pack_bf16(PACK_FLOATS);
		took = sim_now() - begin;
		best = took && took < best ? took : best;
	}
	return ms * UINT64_C(1000000) * kib / best;
}

static void find_cached(const struct job_host *h, int rank, unsigned first, unsigned count)
{
	char path[320];
	size_t used = (size_t)snprintf(path, sizeof(path), "%s/r%d/shard-", h->dir, rank);

	for (unsigned i = first; i < first + count; i++) {
		snprintf(path + used, sizeof(path) - used, "%u", i);
		if (!access(path, F_OK))
			checksum++;
	}
}

void job_host_work(const struct job_host *h, int rank, unsigned piece, unsigned pieces)
{
	uint64_t floats = h->kib * 256 / pieces;

	if (h->kind == JOB_HOST_LOOKUPS) {
		find_cached(h, rank, h->count / pieces * piece, h->count / pieces);
		return;
	}
	for (uint64_t done = 0; done < floats; done += PACK_FLOATS) {
		uint64_t left = floats - done;

		pack_bf16(left < PACK_FLOATS ? (unsigned)left : PACK_FLOATS);
	}
}
