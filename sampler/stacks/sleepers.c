/* SPDX-License-Identifier: Apache-2.0
 * sleepers.c - see sleepers.h. Each drain builds the table anew. Threads still asleep are carried
 * over; the others stay until their count arrives or UNPAID_DRAINS drains have passed. */
#include "base/keyed.h"
#include "base/probe.h"
#include "sampler/stacks/sleepers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Twice the size of the kernel's map of sleepers. */
#define SLEEPER_SLOTS 32768u
#define SLEEPER_MAX   (SLEEPER_SLOTS * 3 / 4)
/* A count is in the set of the drain that first misses the sleeper, or in the next set. */
#define UNPAID_DRAINS 2u

struct sleeper {
	uint64_t since_ns; /* 0: free */
	uint64_t told_ns;  /* reported and not yet repaid */
	uint64_t user, kernel, python;
	uint32_t pid, tid;
	uint32_t missed; /* drains since it was last seen asleep */
};

struct sleepers {
	struct sleeper *now, *next;
	uint32_t next_count;
	uint64_t now_ns, min_ns;
};

/* The slot of that sleep, or the free one after the thread's other sleeps. */
static struct sleeper *slot_of(struct sleeper *table, uint32_t tid, uint64_t since_ns)
{
	PROBE_PLACES (i, keyed_word(keyed_process(), tid), SLEEPER_SLOTS)
		if (!table[i].since_ns || (table[i].tid == tid && table[i].since_ns == since_ns))
			return &table[i];
}

int sleepers_open(struct sleepers **out)
{
	struct sleepers *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	/* no memory is used until a thread sleeps long */
	s->now = calloc(SLEEPER_SLOTS, sizeof(*s->now));
	s->next = calloc(SLEEPER_SLOTS, sizeof(*s->next));
	if (!s->now || !s->next) {
		sleepers_close(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void sleepers_close(struct sleepers *s)
{
	if (!s)
		return;
	free(s->now);
	free(s->next);
	free(s);
}

void sleepers_begin(struct sleepers *s, uint64_t now_ns, uint64_t min_ns)
{
	s->now_ns = now_ns;
	s->min_ns = min_ns;
	s->next_count = 0;
}

uint64_t sleepers_repay(struct sleepers *s, const struct sampler_key *k, uint64_t weight_ns)
{
	if (k->kind != SAMPLER_OFF_CPU)
		return weight_ns;
	PROBE_PLACES (i, keyed_word(keyed_process(), k->tid), SLEEPER_SLOTS) {
		struct sleeper *e = &s->now[i];
		uint64_t paid = e->told_ns < weight_ns ? e->told_ns : weight_ns;

		if (!e->since_ns)
			return weight_ns;
		if (e->tid != k->tid || e->pid != k->pid || e->user != k->user_hash ||
		    e->kernel != k->kernel_hash || e->python != k->python_hash)
			continue;
		e->told_ns -= paid;
		weight_ns -= paid;
	}
}

uint64_t sleepers_see(struct sleepers *s, const struct sampler_blocked *b)
{
	const struct sampler_key *k = &b->key;
	struct sleeper *old, *e;
	uint64_t slept_ns, told_ns;

	if (b->since_ns >= s->now_ns || !b->since_ns)
		return 0;
	slept_ns = s->now_ns - b->since_ns;
	if (slept_ns < s->min_ns)
		return 0;
	e = slot_of(s->next, k->tid, b->since_ns);
	if (e->since_ns || s->next_count >= SLEEPER_MAX)
		return 0; /* seen twice, or no room: the time is reported when the thread wakes */
	old = slot_of(s->now, k->tid, b->since_ns);
	told_ns = old->since_ns ? old->told_ns : 0;
	*e = (struct sleeper){.since_ns = b->since_ns,
			      .told_ns = slept_ns,
			      .user = k->user_hash,
			      .kernel = k->kernel_hash,
			      .python = k->python_hash,
			      .pid = k->pid,
			      .tid = k->tid};
	s->next_count++;
	if (old->since_ns)
		old->told_ns = 0; /* carried over */
	return slept_ns > told_ns ? slept_ns - told_ns : 0;
}

void sleepers_end(struct sleepers *s)
{
	struct sleeper *old = s->now;

	for (uint32_t i = 0; i < SLEEPER_SLOTS; i++) {
		struct sleeper e = old[i];

		if (!e.since_ns)
			continue;
		/* only used slots: clearing a free one would touch its page */
		memset(&old[i], 0, sizeof(old[i]));
		if (!e.told_ns)
			continue;
		if (++e.missed >= UNPAID_DRAINS || s->next_count >= SLEEPER_MAX)
			continue;
		*slot_of(s->next, e.tid, e.since_ns) = e;
		s->next_count++;
	}
	s->now = s->next;
	s->next = old;
}
