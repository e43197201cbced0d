/* SPDX-License-Identifier: Apache-2.0
 * When a baseline is written: while a model learns, each time its step count has doubled. It is
 * written again as soon as a model is ready, because with one step less a restarted sysomd might
 * not be ready. After that it is written only now and then, because a ready model hardly changes.
 * At most one process is saved per turn, so that the drain does not wait. */
#include "sidecar/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/daemon/log.h"
#include "sidecar/baseline.h"
#include "sidecar/node.h"

#define KEEP_AGAIN_NS 300000000000ull
/* Fewer steps are not worth a file. */
#define KEEP_STEPS_MIN 16u

struct keep {
	int dir;       /* -1: nothing is kept */
	uint32_t boot; /* spool_boot() */
	uint32_t next; /* slot at which the next search begins */
	struct keep_stats stats;
	struct judge_sample samples[RANK_LEARNED]; /* scratch */
};

static bool identify(const struct keep *k, const struct process *p, struct baseline_id *id)
{
	*id = (struct baseline_id){.pid = (uint64_t)p->pid,
				   .uid = p->uid,
				   .start_ticks = p->id.start_time_ticks,
				   .boot = k->boot};
	/* Any process could claim the number of a pid that we cannot see. */
	return k->dir >= 0 && p->pid > 0;
}

int keep_open(struct keep **out, const char *state_dir)
{
	struct keep *k = *out = calloc(1, sizeof(*k));
	char dir[NODE_PATH_BYTES + 16];

	if (!k)
		return -ENOMEM;
	k->dir = -1;
	k->boot = spool_boot();
	snprintf(dir, sizeof(dir), "%s/baseline", state_dir);
	if (!mkdir(dir, 0700) || errno == EEXIST)
		k->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (k->dir < 0)
		log_warn("baseline", "%s: %s; after a restart of sysomd all ranks learn again", dir,
			 strerror(errno));
	else
		baseline_sweep(k->dir, k->boot);
	return 0;
}

void keep_restore(struct keep *k, struct process *p)
{
	struct baseline_id id;
	int got;

	if (!identify(k, p, &id))
		return;
	got = baseline_load(k->dir, &id, k->samples, RANK_LEARNED);
	if (got == -ENOENT)
		return;
	if (got < 0) {
		k->stats.bad++;
		log_warn("baseline", "pid=%d rank=%d: unusable file: %s; the rank learns again",
			 (int)p->pid, p->id.rank, strerror(-got));
		baseline_remove(k->dir, &id);
		return;
	}
	got = (int)rank_restore(p->rank, k->samples, (uint32_t)got);
	p->kept.total = p->rank->learned_total;
	p->kept.ready = judge_ready_count(p->rank->judge);
	p->kept.at_ns = clock_monotonic_ns();
	k->stats.restored++;
	k->stats.ready += rank_model(p->rank, NULL, NULL) == ROOFLINE_READY;
	k->stats.steps += (uint64_t)got;
	log_info("baseline", "pid=%d rank=%d steps=%d", (int)p->pid, p->id.rank, got);
}

static void save(struct keep *k, struct process *p, uint64_t now_ns)
{
	struct baseline_id id;
	int err;

	if (!identify(k, p, &id))
		return;
	p->kept.total = p->rank->learned_total;
	p->kept.ready = judge_ready_count(p->rank->judge);
	p->kept.at_ns = now_ns;
	err = baseline_save(k->dir, &id, k->samples, rank_learned(p->rank, k->samples));
	if (!err)
		return;
	k->stats.errors++;
	log_warn("baseline", "pid=%d rank=%d: not saved: %s", (int)p->pid, p->id.rank,
		 strerror(-err));
}

static bool is_due(const struct process *p, uint64_t now_ns)
{
	uint64_t total = p->rank->learned_total;

	if (p->state == PROCESS_GONE || p->pid <= 0 || total < KEEP_STEPS_MIN ||
	    total == p->kept.total)
		return false;
	if (total >= 2 * p->kept.total && p->kept.total < RANK_LEARNED)
		return true;
	if (judge_ready_count(p->rank->judge) > p->kept.ready)
		return true;
	return now_ns - p->kept.at_ns >= KEEP_AGAIN_NS;
}

/* A model that went back to learning is saved again as soon as it is ready again. */
static void note_not_ready(struct process *p)
{
	uint32_t ready = judge_ready_count(p->rank->judge);

	if (ready < p->kept.ready)
		p->kept.ready = ready;
}

uint32_t keep_due(const struct keep *k, struct process *const *processes, uint64_t now_ns)
{
	uint32_t due = 0;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && k->dir >= 0; i++)
		due += processes[i] && is_due(processes[i], now_ns);
	return due;
}

void keep_tend(struct keep *k, struct process *const *processes, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		uint32_t at = (k->next + i) % LIMIT_NODE_PROCESSES;

		if (!processes[at])
			continue;
		note_not_ready(processes[at]);
		if (!is_due(processes[at], now_ns))
			continue;
		save(k, processes[at], now_ns);
		k->next = at + 1;
		return;
	}
}

void keep_forget(struct keep *k, struct process *p)
{
	struct baseline_id id;

	if (identify(k, p, &id))
		baseline_remove(k->dir, &id);
}

void keep_all(struct keep *k, struct process *const *processes, uint64_t now_ns)
{
	for (uint32_t i = 0; k && i < LIMIT_NODE_PROCESSES; i++)
		if (processes[i] && processes[i]->state != PROCESS_GONE &&
		    processes[i]->rank->learned_total >= KEEP_STEPS_MIN)
			save(k, processes[i], now_ns);
}

void keep_close(struct keep *k)
{
	if (k && k->dir >= 0)
		close(k->dir);
	free(k);
}

void keep_stats_get(const struct keep *k, struct keep_stats *out)
{
	*out = k->stats;
}
