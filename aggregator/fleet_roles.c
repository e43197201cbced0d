/* SPDX-License-Identifier: Apache-2.0
 * Roles where nobody names them: by what the ranks launch (analysis/roles.h), from their sketches.
 * Until those are there, a job whose communicators split its ranks is compared in no way: its
 * stages would accuse each other. Ranks that launch exactly the same are one for the learning. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet_private.h"
#include "base/hash.h"

#define LEARN_NS 10000000000ull
/* Without a sketch for so long a rank is compared with all others: none will come. */
#define GIVE_UP_NS 150000000000ull
#define KINDS_MAX  512u /* of work in one job */

static int by_key(const void *a, const void *b)
{
	const struct roles_kernel *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_count(const void *a, const void *b)
{
	const struct roles_kernel *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return by_key(a, b);
}

/* One entry per key, ascending, of the most launched. */
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

	if (r->role_text && *r->role_text)
		return;
	for (uint32_t i = 0; i < s->kernel_count && i < LIMIT_SKETCH_KERNELS; i++)
		if (s->kernels[i].per_step >= 0.5)
			v[n++] = (struct roles_kernel){roles_key(s->kernels[i].name),
						       (float)s->kernels[i].per_step};
	n = condense(v, n);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t count = (uint32_t)(v[i].count + 0.5f);

		signature = hash_bytes(signature, &v[i].key, sizeof(v[i].key));
		signature = hash_bytes(signature, &count, sizeof(count));
	}
	if (!n || (r->kernel_count && signature == r->signature))
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

void fleet_roles_tick(struct fleet_job *job, uint64_t now_ns)
{
	struct roles_rank *kinds;
	uint32_t *role, n = 0, count;
	struct idmap seen = {.max = KINDS_MAX};

	if (!job->roles_dirty || now_ns - job->roles_ns < LEARN_NS)
		return;
	job->roles_ns = now_ns;
	kinds = calloc(KINDS_MAX, sizeof(*kinds));
	role = calloc(KINDS_MAX, sizeof(*role));
	for (uint32_t i = 0; kinds && role && i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];

		if (!r->used || !r->kernel_count || idmap_get(&seen, r->signature) != IDMAP_NONE ||
		    idmap_put(&seen, r->signature, n))
			continue;
		kinds[n++] = (struct roles_rank){
		    .stage = -1, .kernel = r->kernels, .kernel_count = r->kernel_count};
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

const char *fleet_roles_name(const struct fleet_job *job, const struct fleet_rank *r,
			     uint64_t now_ns, char *out, size_t bytes)
{
	if (r->role_text && *r->role_text)
		return r->role_text;
	if (r->learned && job->role_kinds > 1) {
		snprintf(out, bytes, "role-%u", r->learned - 1);
		return out;
	}
	if (job->partial && !r->learned && now_ns - r->born_ns < GIVE_UP_NS)
		return "";
	return FLEET_ANY_ROLE;
}
