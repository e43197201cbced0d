/* SPDX-License-Identifier: Apache-2.0
 * wire_synth.h - made-up and recorded record streams for the tests and benchmarks of wire/ and
 * aggregator/: a transformer's steps with jitter, and the *.events.csv.gz of the shared data. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "model/record.h"
#include "wire/codec.h"

struct synth {
	struct record *host, *device;
	uint32_t host_count, device_count, capacity;
	uint64_t random;
};

static inline uint64_t synth_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* About normal, mean 0, deviation 1. */
static inline double synth_normal(uint64_t *state)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += (double)(synth_random(state) >> 11) / 9007199254740992.0;
	return sum - 6;
}

static inline void synth_init(struct synth *s, uint32_t capacity, uint64_t seed)
{
	*s = (struct synth){.capacity = capacity, .random = seed};
	s->host = calloc(capacity, sizeof(*s->host));
	s->device = calloc(capacity, sizeof(*s->device));
	if (!s->host || !s->device)
		abort();
}

static inline void synth_fini(struct synth *s)
{
	free(s->host);
	free(s->device);
}

#define SYNTH_LAYERS  48
#define SYNTH_KERNELS 56 /* per layer */
#define SYNTH_NAMES   31

/* Kernel k of a layer: what a transformer's forward and backward would launch. */
static inline double synth_kernel(uint32_t k, struct record *r)
{
	uint64_t h = k * 0x2545f4914f6cdd1dull;
	double us = 4 + (double)(h >> 56) * (k % 7 == 0 ? 3.0 : 0.15);

	r->kind = RECORD_KERNEL;
	r->name = 1 + k % SYNTH_NAMES;
	r->stream = 7;
	r->thread = 0;
	r->grid[0] = 64 + (uint32_t)(h >> 32) % 4096;
	r->grid[1] = r->grid[2] = 1;
	r->block[0] = k % 7 ? 256 : 128;
	r->block[1] = r->block[2] = 1;
	r->registers = (uint16_t)(32 + 8 * (k % 13));
	r->shared_bytes = k % 7 ? 0 : 49152;
	r->peer = -1;
	if (k % 28 == 27) {
		r->kind = RECORD_COLL_KERNEL;
		r->name = SYNTH_NAMES + 1;
		r->stream = 20;
		r->func = RECORD_COLL_ALL_REDUCE;
		r->bytes = 33554432;
		r->key = 0x1234567890abcdefull;
		us = 180;
	}
	return us * 1e3;
}

/* Layers of one step after the other, the device slower than the host: jitter is relative for
 * durations (1.2%), absolute for launches. */
static inline void synth_transformer(struct synth *s, double jitter)
{
	double host = 1e12, device = 1e12 + 2e6, comm = 0;
	uint32_t corr = 1000, seq = 0;

	for (uint32_t i = 0; i < s->capacity; i++) {
		uint32_t k = i % SYNTH_KERNELS;
		struct record *l = &s->host[i], *d = &s->device[i];
		double us = synth_kernel(k, d), took, *clock = d->stream == 20 ? &comm : &device;

		corr += 2 + k % 3;
		took = us * (1 + jitter * synth_normal(&s->random));
		host += 4200 + 900 * (k % 5) + 350 * synth_normal(&s->random);
		l->kind = RECORD_LAUNCH;
		l->thread = 4711;
		l->stream = d->stream;
		l->name = d->name;
		l->correlation = d->correlation = corr;
		l->begin_ns = (uint64_t)host;
		l->end_ns = (uint64_t)(host + 2300 + 120 * synth_normal(&s->random));
		l->peer = -1;
		host = (double)l->end_ns;
		memcpy(l->grid, d->grid, sizeof(d->grid));
		memcpy(l->block, d->block, sizeof(d->block));
		if (*clock < host)
			*clock = host;
		if (d->stream == 20 && comm < device)
			comm = device;
		*clock += 1100 + 60 * synth_normal(&s->random);
		d->begin_ns = (uint64_t)*clock;
		d->end_ns = d->begin_ns + (uint64_t)took;
		d->launch_ns = l->begin_ns;
		if (d->kind == RECORD_COLL_KERNEL)
			d->seq = ++seq;
		*clock = (double)d->end_ns;
		if (i % (SYNTH_KERNELS * SYNTH_LAYERS) == SYNTH_KERNELS * SYNTH_LAYERS - 1)
			host += 250000;
	}
	s->host_count = s->device_count = s->capacity;
}

static inline int synth_by_begin(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

/* One *.events.csv.gz through zcat; false when it can't be read. Names are hashed to ids. */
static inline bool synth_load_csv(struct synth *s, const char *path)
{
	char command[600], line[1024];
	uint64_t names[4096] = {0};
	FILE *f;

	snprintf(command, sizeof(command), "zcat '%s' 2>/dev/null", path);
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long ts, dur, bytes = 0;
		char *field[8] = {0}, *p = line;
		struct record r = {.peer = -1};
		uint64_t h = 1469598103934665603ull;
		bool device;

		for (int i = 0; i < 8; i++) {
			field[i] = p;
			p = i < 7 ? strchr(p, ',') : NULL;
			if (!p)
				break;
			*p++ = '\0';
		}
		if (!field[7] || sscanf(field[0], "%llu", &ts) != 1 ||
		    sscanf(field[1], "%llu", &dur) != 1)
			continue;
		if (!strcmp(field[2], "step") || !strcmp(field[2], "collop"))
			continue;
		device = strcmp(field[2], "api") != 0;
		for (p = field[7]; *p && *p != '\n'; p++)
			h = (h ^ (unsigned char)*p) * 1099511628211ull;
		while (names[h % 4096] && names[h % 4096] != h)
			h++;
		names[h % 4096] = h;
		sscanf(field[6], "%llu", &bytes);
		r.begin_ns = ts;
		r.end_ns = ts + dur;
		r.bytes = bytes;
		r.name = 1 + (uint32_t)(h % 4096);
		r.correlation = (uint32_t)atoll(field[5]);
		r.stream = (uint32_t)atoi(field[4]);
		r.kind = !device ? (strstr(field[7], "aunch") ? RECORD_LAUNCH : RECORD_API)
			 : !strcmp(field[2], "nccl")   ? RECORD_COLL_KERNEL
			 : !strcmp(field[2], "memcpy") ? RECORD_COPY
			 : !strcmp(field[2], "memset") ? RECORD_MEMSET
						       : RECORD_KERNEL;
		if (device && s->device_count < s->capacity)
			s->device[s->device_count++] = r;
		else if (!device && s->host_count < s->capacity)
			s->host[s->host_count++] = r;
	}
	if (f)
		pclose(f);
	qsort(s->host, s->host_count, sizeof(struct record), synth_by_begin);
	qsort(s->device, s->device_count, sizeof(struct record), synth_by_begin);
	for (uint32_t i = 0; i < s->device_count; i++) {
		for (uint32_t j = 0; j < s->host_count; j++)
			if (s->host[j].correlation == s->device[i].correlation) {
				s->device[i].launch_ns = s->host[j].begin_ns;
				break;
			}
		if (!s->device[i].launch_ns)
			s->device[i].flags = RECORD_FLAG_UNMATCHED;
	}
	return s->host_count + s->device_count > 0;
}
