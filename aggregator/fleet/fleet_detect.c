/* SPDX-License-Identifier: Apache-2.0
 * Passes beats to detection, and runs a job's part of a tick. */
#include <stdlib.h>
#include <string.h>

#include "aggregator/fleet/fleet_private.h"
#include "base/room.h"
#include "base/text/text.h"
#include "model/thresholds.h"

static uint32_t role_of(struct fleet *f, struct fleet_job *job, const char *name)
{
	struct fleet_role *roles, *r;

	if (!*name)
		return FLEET_NONE;
	for (uint32_t i = 0; i < job->role_count; i++)
		if (!strcmp(job->roles[i].name, name))
			return i;
	if (job->role_count == LIMIT_CROSS_ROLES)
		return FLEET_NONE;
	roles = realloc(job->roles, (job->role_count + 1) * sizeof(*roles));
	if (!roles)
		return FLEET_NONE;
	job->roles = roles;
	r = &roles[job->role_count];
	*r = (struct fleet_role){0};
	text_copy(r->name, sizeof(r->name), name);
	if (waterline_open(&r->waterline, f->config.waterline_ns) || temporal_open(&r->temporal)) {
		waterline_close(r->waterline);
		return FLEET_NONE;
	}
	job->run_loaded = false;
	return job->role_count++;
}

void fleet_detect_beat(struct fleet *f, struct fleet_job *job, uint32_t slot,
		       const struct beat_rank *b, const struct fleet_node *n, uint32_t part,
		       bool restarted, uint64_t now_ns)
{
	struct fleet_rank *r = &job->ranks[slot];
	bool compared = fleet_admit_believes(job, &job->parts[part]);
	char learned[32];

	r->role = FLEET_NONE;
	if (restarted)
		fleet_roles_restart(r);
	if (compared) {
		fleet_roles_comms(job, b);
		fleet_roles_pace(job, r, b);
		r->role =
		    role_of(f, job, fleet_roles_name(job, r, now_ns, learned, sizeof(learned)));
	}
	if (restarted) {
		cross_restart(job->cross, slot);
		r->steps_before = r->flagged_before = 0;
	}
	if (cross_set(job->cross, slot, r->rank, part,
		      compared && r->role != FLEET_NONE ? job->roles[r->role].name : "", now_ns))
		f->counts.dropped++;
	if (r->compared && !compared)
		hang_drop(job->hang, slot);
	r->compared = compared;
	if (!compared)
		return;
	cross_push(job->cross, slot, b, n->realtime_offset_ns, now_ns);
	if (hang_push(job->hang, slot, b,
		      b->steps ? cross_step(job->cross, slot, b->steps - 1) : -1,
		      n->realtime_offset_ns, n->now_ns, now_ns))
		f->counts.dropped++;
}

struct finding_report *fleet_detect_pending(struct fleet *f)
{
	if (ROOM_FOR(f->pending, f->pending_room, f->pending_count + 1)) {
		f->counts.dropped++;
		return NULL;
	}
	return &f->pending[f->pending_count++];
}

/* The longest of the ranks' median steps. It bounds how long a collective may take. */
static double step_ns(const struct fleet_job *job)
{
	double longest = 0;

	for (uint32_t i = 0; i < job->rank_count; i++)
		if (job->ranks[i].used && job->ranks[i].compared &&
		    job->ranks[i].stats.latency_median_ns > longest)
			longest = job->ranks[i].stats.latency_median_ns;
	return longest;
}

static void hangs(struct fleet *f, struct fleet_job *job, uint64_t now_ns)
{
	double steps = thresholds.time.all_times * step_ns(job);
	uint64_t bound = f->config.hang_ns;
	struct finding_report *e;

	if (steps > (double)bound && steps < 3.6e12)
		bound = (uint64_t)steps;
	hang_tick(job->hang, bound, f->config.alive_ns, now_ns);
	e = fleet_detect_pending(f);
	if (!e)
		return;
	if (!hang_next(job->hang, e)) {
		f->pending_count--;
		return;
	}
	f->counts.hangs += !e->ended && !job->hanging;
	job->hanging = !e->ended;
	fleet_pull_finding(f, job, e, now_ns);
}

void fleet_detect_tick(struct fleet *f, struct fleet_job *job, uint64_t now_ns,
		       uint64_t now_unix_ns)
{
	struct finding_report *e;

	fleet_admit_tick(f, job, now_ns);
	fleet_roles_tick(job, now_ns);
	if (fleet_roles_uneven(job))
		cross_uneven(job->cross, now_ns);
	cross_expect(job->cross, job->world > 0 ? (uint32_t)job->world : 0);
	cross_tick(job->cross, now_ns);
	fleet_pull_tick(f, job, now_ns);
	while ((e = fleet_detect_pending(f))) {
		if (!cross_next(job->cross, e)) {
			f->pending_count--;
			break;
		}
		fleet_pull_finding(f, job, e, now_ns);
	}
	hangs(f, job, now_ns);
	fleet_requests_tick(f, job, now_ns);
	if (now_ns - job->look_ns >= TEMPORAL_PERIOD_NS) {
		job->look_ns = now_ns;
		fleet_temporal_tick(f, job, now_ns, now_unix_ns);
	}
}
