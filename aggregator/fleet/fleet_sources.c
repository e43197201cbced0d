/* SPDX-License-Identifier: Apache-2.0
 * Gives verdicts access to the fleet's data. */
#include "aggregator/fleet/fleet_private.h"
#include "aggregator/incident/incident.h"

static int sketch_of(void *arg, const char *job, int32_t rank, struct sketch *out)
{
	return fleet_sketch(arg, job, rank, out);
}

static int baseline_of(void *arg, const char *job, int32_t rank, struct sketch *out)
{
	return fleet_baseline(arg, job, rank, out);
}

static uint32_t peers_of(void *arg, const char *job, int32_t rank, int32_t *ranks, uint32_t max)
{
	return fleet_peers(arg, job, rank, ranks, max);
}

static int waterline_of(void *arg, const char *job, const int32_t *ranks, uint32_t count,
			bool *is_of, struct diagnosis_group *out)
{
	struct fleet *f = arg;
	uint64_t now_ns;

	pthread_mutex_lock(&f->lock);
	now_ns = f->last_tick_ns;
	pthread_mutex_unlock(&f->lock);
	return fleet_waterline(f, job, ranks, count, now_ns, is_of, out);
}

void fleet_sources(struct fleet *f, struct incident_sources *out)
{
	*out = (struct incident_sources){f, sketch_of, baseline_of, peers_of, waterline_of};
}
