/* SPDX-License-Identifier: Apache-2.0
 * fleet_synth.h - a made-up job as its nodes' beats report it: steps of a known length with noise,
 * ranks that are slower by a known amount, clocks that stand apart, collectives that all leave
 * together. What is true is known by construction. Used by the unit test and the benchmark of the
 * fleet. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/hash.h"
#include "model/window.h"
#include "tests/wire_synth.h"

/* With defaults but for how long a silent rank counts as alive, and is remembered. */
static inline int fs_open_fleet(struct fleet **out, uint64_t alive_ns, uint64_t forget_ns)
{
	struct fleet_config c;

	fleet_config_default(&c);
	c.alive_ns = alive_ns;
	c.forget_ns = forget_ns;
	return fleet_open_with(out, &c);
}

/* Whether that node has the rank. */
static inline bool fs_is_on(struct fleet *f, const char *job, int32_t rank, const char *node)
{
	struct fleet_job *j;
	const struct fleet_rank *r;
	bool is;

	pthread_mutex_lock(&f->lock);
	j = fleet_find_job(f, job);
	r = j ? fleet_find_rank(j, rank) : NULL;
	is = r && !strcmp(f->nodes[r->node].name, node);
	pthread_mutex_unlock(&f->lock);
	return is;
}

#define FS_MS	1000000.0
#define FS_S	1000000000ull
#define FS_UNIX (1800000000ull * FS_S)

struct fs_rank {
	double slow_ns; /* self time more than the others', from slow_from_s on */
	double slow_from_s, slow_until_s;
	uint64_t step_offset; /* its own numbering is the job's less this */
	uint64_t reported;    /* job steps reported so far */
	double joined_s;
	bool silent, hung;
	uint32_t kernels; /* per step; 0: none are seen */
	char role[32];
	uint32_t group; /* communicator of its role */
};

struct fs_job {
	char name[64];
	uint32_t ranks, per_node, first_node;
	double step_ns, comm_ns, noise; /* noise: of the self time, relative */
	uint64_t seed, boot;
	double uniform, uniform_from_s; /* factor on everybody's self time */
	/* Sequences, and own times with them, differ by as much (deviation), anew for every rank and
	 * skew_steps. */
	double skew;
	uint32_t skew_steps;
	bool noisy_cpu; /* the same times, with as much to do for all: others use their CPUs */
	struct fs_rank *rank;
	struct {
		int64_t mono_ns; /* monotonic clock less the job's time */
		double error_ns; /* of the node's realtime clock */
		uint64_t sequence;
		double phase_s;
	} * node;
	uint64_t comm_base;
	bool pair_comms;       /* each role's ranks share one; else all ranks one */
	uint64_t stopped_step; /* 0: runs; else nobody gets beyond */
	uint32_t comm_ranks;   /* of a communicator */
	uint32_t sample_every; /* steps */
	uint64_t unix_ns;      /* when the job's time began */
};

static inline void fs_init(struct fs_job *j, const char *name, uint32_t ranks, uint32_t per_node,
			   uint64_t seed)
{
	uint32_t nodes = (ranks + per_node - 1) / per_node;

	memset(j, 0, sizeof(*j));
	snprintf(j->name, sizeof(j->name), "%s", name);
	j->ranks = ranks;
	j->per_node = per_node;
	j->step_ns = 100 * FS_MS;
	j->comm_ns = 5 * FS_MS;
	j->noise = 0.004;
	j->seed = seed;
	j->boot = seed;
	j->uniform = 1;
	j->rank = calloc(ranks, sizeof(*j->rank));
	j->node = calloc(nodes, sizeof(*j->node));
	j->comm_base = hash_mix(seed + 17);
	j->comm_ranks = ranks;
	j->sample_every = 8;
	j->unix_ns = FS_UNIX;
	if (!j->rank || !j->node)
		abort();
	for (uint32_t r = 0; r < ranks; r++) {
		j->rank[r].slow_until_s = 1e9;
		snprintf(j->rank[r].role, sizeof(j->rank[r].role), "train");
	}
	for (uint32_t n = 0; n < nodes; n++) {
		j->node[n].mono_ns = (int64_t)(n + 1) * 1000 * (int64_t)FS_S;
		j->node[n].phase_s = 5.0 * (double)(hash_mix(seed * 31 + n) % 1000) / 1000;
	}
}

static inline void fs_fini(struct fs_job *j)
{
	free(j->rank);
	free(j->node);
}

/* The same numbers for the same rank and step, whoever asks. */
static inline double fs_noise(const struct fs_job *j, uint32_t rank, uint64_t step)
{
	uint64_t state = hash_mix(j->seed ^ (uint64_t)rank << 40 ^ step);

	return synth_normal(&state);
}

/* How long the rank's sequences are, of what is usual. */
static inline double fs_input(const struct fs_job *j, uint32_t r, uint64_t step)
{
	if (!j->skew_steps || j->noisy_cpu)
		return 1;
	return exp(j->skew * fs_noise(j, r, (1ull << 36) + step / j->skew_steps));
}

static inline double fs_own(const struct fs_job *j, uint32_t r, uint64_t step)
{
	double at_s = (double)step * j->step_ns / 1e9, own = j->step_ns - j->comm_ns;

	own *= at_s >= j->uniform_from_s ? j->uniform : 1;
	own *= 1 + j->noise * fs_noise(j, r, step);
	/* what is longest makes the step: the others have less to do */
	if (j->skew_steps)
		own *= 0.6 * exp(j->skew * fs_noise(j, r, (1ull << 36) + step / j->skew_steps));
	if (at_s >= j->rank[r].slow_from_s && at_s < j->rank[r].slow_until_s)
		own += j->rank[r].slow_ns;
	return own;
}

/* The job's time at which a step has ended: steps go at a fixed pace here, so that any can be asked
 * for. */
static inline double fs_end_ns(const struct fs_job *j, uint64_t step)
{
	return (double)(step + 1) * j->step_ns;
}

static inline void fs_group(const struct fs_job *j, uint32_t r, uint64_t first, uint32_t count,
			    int64_t clock_ns, struct beat_group *g)
{
	double self = 0, blocks = 0;

	for (uint64_t s = first; s < first + count; s++) {
		self += fs_own(j, r, s) / count;
		blocks += 20000 * fs_input(j, r, s) / count;
	}
	*g = (struct beat_group){.first_step = first - j->rank[r].step_offset,
				 .count = count,
				 .used = count,
				 .latency_ns = self > j->step_ns ? self : j->step_ns,
				 .self_ns = self,
				 .exposed_comm_ns = j->step_ns - self,
				 .compute_ns = self * 0.9,
				 .blocks = blocks};
	g->end_ns = (uint64_t)((int64_t)fs_end_ns(j, first + count - 1) + clock_ns);
}

/* One collective a step: entered when the own work is done, left by all together. */
static inline void fs_coll(const struct fs_job *j, uint32_t r, uint64_t step, int64_t clock_ns,
			   struct beat_coll *k)
{
	double enter = fs_end_ns(j, step) - j->step_ns + fs_own(j, r, step);

	*k = (struct beat_coll){.comm = j->comm_base + (j->pair_comms ? j->rank[r].group : 0),
				.func = 1,
				.seq = (uint32_t)step,
				.step = step - j->rank[r].step_offset};
	k->begin_ns = (uint64_t)((int64_t)enter + clock_ns);
	k->call_ns = k->begin_ns - 1000000;
	k->end_ns =
	    (uint64_t)((int64_t)(fs_end_ns(j, step) + 2000 * fs_noise(j, r, step + 1000000)) +
		       clock_ns);
}

static inline void fs_beat_rank(struct fs_job *j, uint32_t r, double now_s, struct beat_rank *b)
{
	uint32_t n = r / j->per_node;
	struct fs_rank *k = &j->rank[r];
	uint64_t steps = (uint64_t)(now_s * 1e9 / j->step_ns), first;
	int64_t clock = j->node[n].mono_ns;

	memset(b, 0, sizeof(*b));
	memcpy(b->rank.job, j->name, sizeof(j->name));
	snprintf(b->rank.node, sizeof(b->rank.node), "n%u", j->first_node + n);
	memcpy(b->rank.role, k->role, sizeof(k->role));
	snprintf(b->rank.program, sizeof(b->rank.program), "train.py");
	b->rank.rank = (int32_t)r;
	b->rank.world_size = (int32_t)j->ranks;
	b->rank.local_rank = (int32_t)(r % j->per_node);
	b->rank.pid = 100 + r;
	b->rank.start_time_ticks = j->boot;
	if (j->stopped_step && steps > j->stopped_step)
		steps = j->stopped_step;
	if (now_s < k->joined_s)
		steps = 0;
	first = k->reported > k->step_offset ? k->reported : k->step_offset;
	first = (first - k->step_offset + 1) / 2 * 2 +
		k->step_offset; /* groups of two, aligned in its numbering */
	/* After a silence only the latest are reported. */
	if (steps > first + 60)
		first = (steps - 60 - k->step_offset) / 2 * 2 + k->step_offset;
	for (uint64_t s = first; s + 2 <= steps && b->group_count < BEAT_GROUPS_MAX; s += 2) {
		fs_group(j, r, s, 2, clock, &b->groups[b->group_count]);
		b->groups[b->group_count++].kernels = k->kernels;
		k->reported = s + 2;
	}
	for (uint64_t s = first; s < k->reported && b->coll_count < BEAT_COLLS_MAX; s++)
		if (s % j->sample_every == 0)
			fs_coll(j, r, s, clock, &b->colls[b->coll_count++]);
	b->steps = k->reported - k->step_offset;
	b->kernels_joined = b->steps * k->kernels;
	b->latency_median_ns = j->step_ns;
	b->self_median_ns = b->group_count ? b->groups[b->group_count / 2].self_ns : 0;
	if (b->group_count && (double)k->reported * j->step_ns / 1e9 >= j->uniform_from_s)
		b->latency_median_ns *= j->uniform;
	b->compute_ns = b->self_median_ns * 0.9;
	b->comms[0] = (struct beat_comm){.comm = j->comm_base + (j->pair_comms ? k->group : 0),
					 .ranks = j->comm_ranks,
					 .rank = r,
					 .entered = k->reported,
					 .ended = k->reported,
					 .func = 1,
					 .seq = (uint32_t)k->reported,
					 .bytes = 4096};
	b->comms[0].call_ns = (uint64_t)((int64_t)fs_end_ns(j, k->reported) - 1000000 + clock);
	b->comms[0].done_ns = b->comms[0].call_ns + 1000000;
	b->comm_count = 1;
	if (j->pair_comms) { /* stages send to each other */
		b->comms[1] = b->comms[0];
		b->comms[1].comm = j->comm_base + 999;
		b->comms[1].ranks = j->ranks;
		b->comms[1].func = RECORD_COLL_SEND;
		b->comm_count = 2;
	}
}

/* The beat of a node; ranks: room for per_node. false: it says nothing (all its ranks are silent).
 */
static inline bool fs_beat(struct fs_job *j, uint32_t node, double now_s, struct beat_rank *ranks,
			   struct beat *b)
{
	uint32_t first = node * j->per_node;

	memset(b, 0, sizeof(*b));
	snprintf(b->node, sizeof(b->node), "n%u", j->first_node + node);
	memcpy(b->boot_id, &j->boot, sizeof(j->boot));
	b->sequence = ++j->node[node].sequence;
	b->now_ns = (uint64_t)(now_s * 1e9) + (uint64_t)j->node[node].mono_ns;
	b->realtime_offset_ns =
	    (int64_t)j->unix_ns - j->node[node].mono_ns + (int64_t)j->node[node].error_ns;
	b->ranks = ranks;
	for (uint32_t r = first; r < first + j->per_node && r < j->ranks; r++)
		if (!j->rank[r].silent && now_s >= j->rank[r].joined_s)
			fs_beat_rank(j, r, now_s, &ranks[b->rank_count++]);
	return b->rank_count > 0;
}
