/* SPDX-License-Identifier: Apache-2.0
 * Finds the roles of a job that names none, from the kernels in the ranks' sketches
 * (analysis/slow/roles.h). Before the sketches arrive, a job whose communicators divide its ranks
 * is not compared at all: its pipeline stages would accuse each other. Ranks with identical kernels
 * are learned as one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/hash.h"
#include "base/order.h"
#include "model/thresholds.h"

/* A beat may come in the middle of a step, so a count over steps may be off by this many steps. */
#define PACE_OFF_STEPS 2.0
/* With more kernels per launch than this, the job launches graphs. Then only the kernels, not the
 * launches, distinguish work. */
#define PACE_GRAPHS  1.5
#define KINDS_MAX    512u /* kinds of work in one job */
#define PER_STEP_MAX 1e9  /* launches; no job has more */

ORDER_BY(by_key, struct roles_kernel, ORDER_UP(key));

ORDER_BY(by_count, struct roles_kernel, ORDER_DOWN(count) ?: by_key(a, b));

/* Merges entries with equal keys, keeps the kernels with most launches, and sorts by key. */
static uint32_t condense(struct roles_kernel *v, uint32_t n)
{
	uint32_t made = 0;

	qsort(v, n, sizeof(*v), by_key);
	for (uint32_t i = 0; i < n; i++) {
		if (made && v[made - 1].key == v[i].key)
			v[made - 1].count += v[i].count;
		else
			v[made++] = v[i];
	}
	qsort(v, made, sizeof(*v), by_count);
	made = made < LIMIT_ROLE_KERNELS ? made : LIMIT_ROLE_KERNELS;
	qsort(v, made, sizeof(*v), by_key);
	return made;
}

void fleet_roles_sketch(struct fleet_job *job, struct fleet_rank *r, const struct sketch *s)
{
	struct roles_kernel v[LIMIT_SKETCH_KERNELS], *copy;
	uint64_t signature = HASH_SEED;
	uint32_t n = 0;

	if ((r->role_text && *r->role_text) || r->kernel_count)
		return;
	for (uint32_t i = 0; i < s->kernel_count && i < LIMIT_SKETCH_KERNELS; i++)
		if (s->kernels[i].per_step >= 0.5 && s->kernels[i].per_step < PER_STEP_MAX)
			v[n++] = (struct roles_kernel){roles_key(s->kernels[i].name),
						       (float)s->kernels[i].per_step};
	n = condense(v, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t count = (uint32_t)(v[i].count + 0.5f);

		signature = hash_bytes(signature, &v[i].key, sizeof(v[i].key));
		signature = hash_bytes(signature, &count, sizeof(count));
	}
	if (!n)
		return;
	copy = malloc(n * sizeof(*copy));
	if (!copy)
		return;
	memcpy(copy, v, n * sizeof(*copy));
	free(r->kernels);
	r->kernels = copy;
	r->kernel_count = n;
	r->signature = signature;
	job->roles_dirty = true;
}

void fleet_roles_restart(struct fleet_rank *r)
{
	r->kernel_count = r->learned = r->pace = 0;
	r->pace_steps = r->pace_kernels = 0;
	r->launched = 0;
	r->launch_steps = 0;
}

void fleet_roles_tick(struct fleet_job *job, uint64_t now_ns)
{
	struct roles_rank *kinds;
	uint32_t *role, n = 0, count;
	struct idmap seen = {.max = KINDS_MAX};

	if (!job->roles_dirty || now_ns - job->roles_ns < thresholds.time.together_ns)
		return;
	job->roles_ns = now_ns;
	kinds = calloc(KINDS_MAX, sizeof(*kinds));
	role = calloc(KINDS_MAX, sizeof(*role));
	for (uint32_t i = 0; kinds && role && i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !r->compared || !r->kernel_count ||
		    idmap_get(&seen, r->signature) != IDMAP_NONE ||
		    idmap_put(&seen, r->signature, n))
			continue;
		kinds[n++] = (struct roles_rank){r->kernels, r->kernel_count};
	}
	count = n ? roles_learn(kinds, n, role) : 0;
	for (uint32_t i = 0; i < job->rank_count && count; i++) {
		struct fleet_rank *r = &job->ranks[i];
		uint32_t kind =
		    r->used && r->kernel_count ? idmap_get(&seen, r->signature) : IDMAP_NONE;

		if (kind != IDMAP_NONE)
			r->learned = 1 + role[kind];
	}
	job->role_kinds = count;
	job->roles_dirty = false;
	idmap_fini(&seen);
	free(kinds);
	free(role);
}

void fleet_roles_comms(struct fleet_job *job, const struct beat_rank *b)
{
	for (uint32_t i = 0; i < b->comm_count && i < BEAT_COMMS_MAX && job->world; i++)
		if (b->comms[i].ranks > 1 && b->comms[i].ranks < (uint32_t)job->world)
			job->partial = true;
}

static void count_launches(struct fleet_rank *r, const struct beat_rank *b)
{
	for (uint32_t i = 0; i < b->group_count && i < BEAT_GROUPS_MAX; i++) {
		const struct beat_group *g = &b->groups[i];

		if (!g->used || !(g->kernels >= 0 && g->kernels < PER_STEP_MAX) ||
		    g->count > BEAT_GROUP_STEPS_MAX)
			continue;
		if (!r->launch_steps || g->kernels < r->launch_low)
			r->launch_low = g->kernels;
		if (!r->launch_steps || g->kernels > r->launch_high)
			r->launch_high = g->kernels;
		r->launched += g->kernels * g->count;
		r->launch_steps += g->count;
	}
}

/* Computes the kernels per step and the largest error, in kernels. Launches in whole steps are
 * exact from the first steps on. Kernels of graphs need a count over many steps. */
static bool pace_of(const struct fleet_rank *r, const struct beat_rank *b, uint64_t kernels,
		    double *pace, double *off)
{
	double steps = (double)(b->steps - r->pace_steps);
	double launches = r->launch_steps ? r->launched / (double)r->launch_steps : 0;
	double counted = steps > 0 ? (double)(kernels - r->pace_kernels) / steps : 0;

	*pace = counted;
	*off = steps > 0 ? PACE_OFF_STEPS * counted / steps : 0;
	if (!(launches > 0) || counted > PACE_GRAPHS * launches + *off)
		return steps >= PACE_OFF_STEPS / thresholds.same.work;
	*pace = launches;
	*off = PACE_OFF_STEPS * (r->launch_high - r->launch_low) / (double)r->launch_steps;
	return r->launch_steps >= thresholds.count.some && *off <= thresholds.same.work * launches;
}

/* Ranks with the same work launch the same number of kernels. Ranks with different counts are not
 * compared, because their times say nothing about each other. Only the first steps decide: a rank
 * that launches more later stays with its peers and becomes a suspect. kernels 0: none were seen,
 * so the number says nothing. */
void fleet_roles_pace(struct fleet_job *job, struct fleet_rank *r, const struct beat_rank *b)
{
	uint64_t kernels = b->kernels_joined + b->kernels_unmatched;
	double pace = 0, off = 0;
	uint32_t i = 0;

	if (r->pace && (job->paces[r->pace - 1] > 0 || !kernels))
		return;
	if (kernels && (!r->pace_steps || b->steps < r->pace_steps || kernels < r->pace_kernels)) {
		r->pace_steps = b->steps;
		r->pace_kernels = kernels;
		r->launched = 0;
		r->launch_steps = 0;
	}
	count_launches(r, b);
	if (kernels && !pace_of(r, b, kernels, &pace, &off))
		return;
	while (i < job->pace_count &&
	       fabs(pace - job->paces[i]) > thresholds.same.work * pace + off)
		i++;
	if (i == job->pace_count) {
		if (i == LIMIT_FLEET_PACES)
			return;
		job->paces[job->pace_count++] = (float)pace;
	}
	r->pace = 1 + i;
}

bool fleet_roles_uneven(const struct fleet_job *job)
{
	uint32_t sizes[LIMIT_FLEET_PACES] = {0}, known = 0, size = 0;

	if (job->pace_count < 2)
		return false;
	for (uint32_t i = 0; i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !r->compared)
			continue;
		if (!r->pace)
			return false;
		sizes[r->pace - 1]++;
		known++;
	}
	if (job->world > 0 && known < (uint32_t)job->world)
		return false;
	/* All pipeline stages have the same number of ranks. Ignores paces that no rank has any
	 * more. */
	for (uint32_t i = 0; i < job->pace_count; i++) {
		if (sizes[i] && size && sizes[i] != size)
			return true;
		size = sizes[i] ? sizes[i] : size;
	}
	return size == 1;
}

const char *fleet_roles_name(const struct fleet_job *job, const struct fleet_rank *r,
			     uint64_t now_ns, char *out, size_t bytes)
{
	if (r->role_text && *r->role_text)
		return r->role_text;
	if (r->learned && job->role_kinds > 1) {
		snprintf(out, bytes, "role-%u", r->learned - 1);
		return out;
	}
	if (job->partial && !r->learned && now_ns - r->born_ns < thresholds.time.give_up_ns)
		return "";
	/* the first role keeps the plain name, which earlier runs used */
	if (r->pace < 2)
		return r->pace ? FLEET_ANY_ROLE : "";
	snprintf(out, bytes, "kernels-%.0f", (double)job->paces[r->pace - 1]);
	return out;
}
