/* SPDX-License-Identifier: Apache-2.0
 * Decides which nodes to believe. Nothing on the wire proves that a sender is the node it claims to
 * be. Two things are possible without keys. First, nobody can take over a known job while its nodes
 * live. Second, a stranger's ranks are compared with nobody. A node is a stranger if the job is
 * complete without it, or if it knows none of the job's communicators (64-bit ids that only the
 * ranks share). */
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/room.h"

/* How much older a beat may be than the one before it, although a node sends them in order. */
#define BACKWARDS_NS 1000000000ull
#define TIME_MAX     (1ll << 62)

/* Whether a sender with another boot id may take over the node's name. It always may if the current
 * owner is silent. Otherwise it may not if the current owner is still connected, or if the sender
 * had the name before. */
static bool may_switch(const struct fleet *f, const struct fleet_node *n, const struct beat *b,
		       uint64_t via, uint64_t now_ns)
{
	return !fleet_is_alive(f, n->seen_ns, now_ns) ||
	       (!(n->connected && n->via != via) &&
		memcmp(b->boot_id, n->boot_before, sizeof(b->boot_id)) &&
		b->now_ns + BACKWARDS_NS >= n->now_ns);
}

bool fleet_admit_beat(struct fleet *f, struct fleet_node *n, const struct beat *b, uint64_t via,
		      uint64_t now_ns)
{
	uint32_t other = idmap_get(&f->by_via, via);
	uint64_t *refused = NULL;

	if (b->now_ns > (uint64_t)TIME_MAX || b->realtime_offset_ns > TIME_MAX ||
	    b->realtime_offset_ns < -TIME_MAX)
		refused = &f->counts.bad;
	else if (other != IDMAP_NONE && &f->nodes[other] != n)
		refused = &f->counts.refused_node;
	else if (!n)
		return true;
	else if (memcmp(n->boot_id, b->boot_id, sizeof(n->boot_id)))
		refused = may_switch(f, n, b, via, now_ns) ? NULL : &f->counts.refused_node;
	/* the request is repeated, because its answer was lost */
	else if (b->sequence <= n->sequence)
		refused = &f->counts.refused_repeated;
	else if (b->now_ns + BACKWARDS_NS < n->now_ns)
		refused = &f->counts.refused_backwards;
	if (refused)
		++*refused;
	return !refused;
}

void fleet_admit_node(struct fleet *f, struct fleet_node *n, const struct beat *b, uint64_t via)
{
	bool again = !memcmp(n->boot_id, b->boot_id, sizeof(n->boot_id));

	if (!again) {
		memcpy(n->boot_before, n->boot_id, sizeof(n->boot_before));
		memcpy(n->boot_id, b->boot_id, sizeof(n->boot_id));
	}
	n->sequence = b->sequence;
	n->now_ns = b->now_ns;
	n->realtime_offset_ns = b->realtime_offset_ns;
	if (n->via == via)
		return;
	idmap_remove(&f->by_via, n->via);
	n->via_before = again ? n->via : 0;
	n->via = via;
	n->connected = via && !idmap_put(&f->by_via, via, (uint32_t)(n - f->nodes));
}

bool fleet_admit_heard(const struct fleet_node *n, uint64_t via)
{
	return !via || (n && (n->via == via || n->via_before == via));
}

struct fleet_part *fleet_admit_find_part(const struct fleet *f, struct fleet_job *job,
					 uint32_t node)
{
	uint32_t at = idmap_get(&job->by_node, node);

	return at != IDMAP_NONE && job->parts[at].key == f->nodes[node].key ? &job->parts[at]
									    : NULL;
}

bool fleet_admit_believes(const struct fleet_job *job, const struct fleet_part *part)
{
	return part && (part->proven || (!job->spans && !job->complete));
}

static bool any_proven_alive(const struct fleet *f, const struct fleet_job *job, uint64_t now_ns)
{
	for (uint32_t i = 0; i < job->part_count; i++)
		if (job->parts[i].proven && fleet_is_alive(f, job->parts[i].seen_ns, now_ns))
			return true;
	return false;
}

/* A job that restarts on other nodes has new communicators. So once all believed nodes are silent,
 * the next node is believed as if it were the first. */
static void forget_proofs(struct fleet_job *job)
{
	for (uint32_t i = 0; i < job->part_count; i++)
		job->parts[i].proven = false;
	idmap_clear(&job->comms);
	job->spans = job->complete = false;
}

static struct fleet_part *make_part(struct fleet_job *job, uint32_t node)
{
	uint32_t at = job->free_part ? job->free_part - 1 : job->part_count;

	if (at == LIMIT_FLEET_NODES || ROOM_FOR(job->parts, job->part_room, at + 1))
		return NULL;
	if (idmap_put(&job->by_node, node, at))
		return NULL;
	if (at == job->part_count)
		job->part_count++;
	else
		job->free_part = (uint32_t)job->parts[at].key;
	return &job->parts[at];
}

/* Communicators that a dropped part showed first are kept, because a believed node showed them.
 * They prove nothing for the next node that gets the part's place. */
void fleet_admit_forget(const struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	for (uint32_t i = 0; i < job->part_count; i++) {
		struct fleet_part *p = &job->parts[i];

		if (p->node == FLEET_NONE ||
		    (!fleet_is_forgotten(f, p->seen_ns, now_ns) && p->key == f->nodes[p->node].key))
			continue;
		if (idmap_get(&job->by_node, p->node) == i)
			idmap_remove(&job->by_node, p->node);
		cross_forget_node(job->cross, i);
		*p = (struct fleet_part){.node = FLEET_NONE, .key = job->free_part};
		job->free_part = i + 1;
	}
}

struct fleet_part *fleet_admit_part(const struct fleet *f, struct fleet_job *job, uint32_t node,
				    uint64_t now_ns)
{
	struct fleet_part *part = fleet_admit_find_part(f, job, node);
	bool first = !any_proven_alive(f, job, now_ns);

	if (!part) {
		part = make_part(job, node);
		if (!part)
			return NULL;
		*part = (struct fleet_part){.node = node, .key = f->nodes[node].key};
	}
	if (first) {
		forget_proofs(job);
		part->proven = true;
	}
	part->seen_ns = now_ns;
	return part;
}

void fleet_admit_tick(const struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < job->rank_count; i++) {
		const struct fleet_rank *r = &job->ranks[i];
		const struct fleet_part *p;

		if (!r->used || r->contested || r->rank < 0 || !fleet_rank_is_alive(f, r, now_ns))
			continue;
		p = fleet_admit_find_part(f, job, r->node);
		n += p && p->proven;
	}
	job->complete = job->world > 0 && n >= (uint32_t)job->world;
}

static void set_world(struct fleet_job *job, int32_t world)
{
	int32_t *before = job->worlds_before;
	uint32_t i = 0;

	while (i < FLEET_WORLDS - 1 && before[i] != world)
		i++;
	memmove(before + 1, before, i * sizeof(*before));
	before[0] = job->world;
	job->world = world;
}

bool fleet_admit_window(const struct fleet_job *job, const struct wire_rank *id)
{
	if (!job->world || id->world_size == job->world)
		return true;
	if (id->world_size <= 0)
		return id->rank < job->world;
	for (uint32_t i = 0; i < FLEET_WORLDS; i++)
		if (id->world_size == job->worlds_before[i])
			return true;
	return false;
}

bool fleet_admit_rank(struct fleet *f, struct fleet_job *job, const struct wire_rank *id,
		      uint32_t node, uint64_t now_ns)
{
	const struct fleet_part *part = fleet_admit_find_part(f, job, node);

	if (id->rank < 0)
		return true;
	if (id->world_size > 0 && id->rank >= id->world_size) {
		f->counts.refused_range++;
		job->refused++;
		return false;
	}
	if (!job->world) {
		job->world = id->world_size > 0 ? id->world_size : 0;
		return true;
	}
	if (id->world_size == job->world)
		return true;
	if (id->world_size <= 0 && id->rank < job->world)
		return true;
	/* An elastic job restarts with another size. The job's own nodes may change the size. If
	 * these are all silent, any node may. */
	if (id->world_size > 0 && ((part && part->proven) || !any_proven_alive(f, job, now_ns))) {
		set_world(job, id->world_size);
		return true;
	}
	f->counts.refused_world++;
	job->refused++;
	return false;
}

void fleet_admit_prove(struct fleet_job *job, struct fleet_part *part, const struct beat_rank *b)
{
	uint32_t own = (uint32_t)(part - job->parts);

	for (uint32_t i = 0; i < b->comm_count && i < BEAT_COMMS_MAX; i++) {
		uint32_t first = idmap_get(&job->comms, b->comms[i].comm);

		if (first != IDMAP_NONE && first != own && first < job->part_count)
			part->proven = true;
	}
	if (!part->proven)
		return;
	for (uint32_t i = 0; i < b->comm_count && i < BEAT_COMMS_MAX; i++) {
		uint32_t first = idmap_get(&job->comms, b->comms[i].comm);

		if (first != IDMAP_NONE && first != own)
			job->spans = true;
		/* Too many to keep. Communicators in use come back with the next beats. */
		if (first == IDMAP_NONE && job->comms.count >= BEAT_COMMS_MAX * (job->used + 1))
			idmap_clear(&job->comms);
		if (first == IDMAP_NONE)
			idmap_put(&job->comms, b->comms[i].comm, own);
	}
}
