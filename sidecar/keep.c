/* SPDX-License-Identifier: Apache-2.0
 * When the baselines are written: at twice the steps of the last time while a model learns, as soon as
 * one is ready (with a step less a successor might not be), then now and then, since a ready model
 * hardly changes; one process a turn, so that the drain has its own. */
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
/* Fewer say nothing. */
#define KEEP_STEPS_MIN 16u

static bool identify(const struct process *p, struct baseline_id *id)
{
	*id = (struct baseline_id){.pid = (uint64_t)p->pid,
				   .uid = p->uid,
				   .start_ticks = p->id.start_time_ticks,
				   .boot = p->node->boot};
	/* Not visible from here: a number that anybody could claim. */
	return p->node->baseline_fd >= 0 && p->pid > 0;
}

void keep_open(struct node *n)
{
	char dir[NODE_PATH_BYTES + 16];

	n->baseline_fd = -1;
	n->boot = spool_boot();
	n->samples = calloc(RANK_LEARNED, sizeof(*n->samples));
	snprintf(dir, sizeof(dir), "%s/baseline", n->settings.state_dir);
	if (n->samples && (!mkdir(dir, 0700) || errno == EEXIST))
		n->baseline_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (n->baseline_fd < 0)
		log_warn("baseline", "%s: %s", dir, strerror(errno));
	else
		baseline_sweep(n->baseline_fd, n->boot);
}

void keep_restore(struct process *p)
{
	struct node *n = p->node;
	struct baseline_id id;
	int got;

	if (!identify(p, &id))
		return;
	got = baseline_load(n->baseline_fd, &id, n->samples, RANK_LEARNED);
	if (got == -ENOENT)
		return;
	if (got < 0) {
		n->stats.baselines_bad++;
		log_warn("baseline", "pid=%d rank=%d: %s", (int)p->pid, p->id.rank, strerror(-got));
		baseline_remove(n->baseline_fd, &id);
		return;
	}
	got = (int)rank_restore(p->rank, n->samples, (uint32_t)got);
	p->baseline_total = p->rank->learned_total;
	p->baseline_ready = judge_ready_count(p->rank->judge);
	p->baseline_at_ns = clock_monotonic_ns();
	n->stats.baselines_restored++;
	n->stats.baselines_ready += rank_model(p->rank, NULL, NULL) == ROOFLINE_READY;
	n->stats.baseline_steps_restored += (uint64_t)got;
	log_info("baseline", "pid=%d rank=%d steps=%d", (int)p->pid, p->id.rank, got);
}

static void save(struct process *p, uint64_t now_ns)
{
	struct node *n = p->node;
	struct baseline_id id;
	int err;

	if (!identify(p, &id))
		return;
	p->baseline_total = p->rank->learned_total;
	p->baseline_ready = judge_ready_count(p->rank->judge);
	p->baseline_at_ns = now_ns;
	err = baseline_save(n->baseline_fd, &id, n->samples, rank_learned(p->rank, n->samples));
	if (!err)
		return;
	n->stats.baseline_errors++;
	log_warn("baseline", "pid=%d rank=%d: %s", (int)p->pid, p->id.rank, strerror(-err));
}

static bool is_due(const struct process *p, uint64_t now_ns)
{
	uint64_t total = p->rank->learned_total;

	if (p->state == PROCESS_GONE || p->pid <= 0 || total < KEEP_STEPS_MIN ||
	    total == p->baseline_total)
		return false;
	if (total >= 2 * p->baseline_total && p->baseline_total < RANK_LEARNED)
		return true;
	if (judge_ready_count(p->rank->judge) > p->baseline_ready)
		return true;
	return now_ns - p->baseline_at_ns >= KEEP_AGAIN_NS;
}

/* A model that went back to learning is saved again when it is ready again. */
static void note_not_ready(struct process *p)
{
	uint32_t ready = judge_ready_count(p->rank->judge);

	if (ready < p->baseline_ready)
		p->baseline_ready = ready;
}

uint32_t keep_due(const struct node *n, uint64_t now_ns)
{
	uint32_t due = 0;

	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && n->baseline_fd >= 0; i++)
		due += n->processes[i] && is_due(n->processes[i], now_ns);
	return due;
}

void keep_tend(struct node *n, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES; i++) {
		uint32_t at = (n->baseline_next + i) % LIMIT_NODE_PROCESSES;

		if (!n->processes[at])
			continue;
		note_not_ready(n->processes[at]);
		if (!is_due(n->processes[at], now_ns))
			continue;
		save(n->processes[at], now_ns);
		n->baseline_next = at + 1;
		return;
	}
}

void keep_forget(struct process *p)
{
	struct baseline_id id;

	if (identify(p, &id))
		baseline_remove(p->node->baseline_fd, &id);
}

void keep_close(struct node *n)
{
	for (uint32_t i = 0; i < LIMIT_NODE_PROCESSES && n->baseline_fd >= 0; i++)
		if (n->processes[i] && n->processes[i]->state != PROCESS_GONE &&
		    n->processes[i]->rank->learned_total >= KEEP_STEPS_MIN)
			save(n->processes[i], clock_monotonic_ns());
	if (n->baseline_fd >= 0)
		close(n->baseline_fd);
	n->baseline_fd = -1;
	free(n->samples);
	n->samples = NULL;
}
