/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace/trace_model.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/trace/align.h"
#include "base/hash.h"

/* The most collectives of one rank; more do not improve the result. */
#define COLLS_MAX   200000u
#define TIME_MAX_NS (1ull << 62)

/* Collectives that no rank leaves before all have entered. */
static bool is_common_end(const struct record *r)
{
	if (r->kind != RECORD_COLL_KERNEL || !r->key || r->end_ns <= r->begin_ns)
		return false;
	return r->func == RECORD_COLL_ALL_REDUCE || r->func == RECORD_COLL_ALL_GATHER ||
	       r->func == RECORD_COLL_REDUCE_SCATTER || r->func == RECORD_COLL_ALL_TO_ALL;
}

static int collect(const struct trace_rank *r, struct align_rank *out)
{
	uint32_t n = 0;

	for (size_t i = 0; i < r->device_count && n < COLLS_MAX; i++)
		n += is_common_end(&r->device[i]);
	out->coll = calloc(n + 1ull, sizeof(*out->coll));
	if (!out->coll)
		return -ENOMEM;
	for (size_t i = 0; i < r->device_count && out->count < n; i++) {
		const struct record *d = &r->device[i];
		const uint64_t id[3] = {d->key, d->func, d->seq};

		if (is_common_end(d))
			out->coll[out->count++] = (struct align_coll){
			    .begin_ns = d->begin_ns,
			    .end_ns = d->end_ns,
			    .what = hash_mix(hash_bytes(HASH_SEED, id, sizeof(id)))};
	}
	return 0;
}

/* Keeps impossible times within trace_model's bounds. */
static uint64_t moved_time(const struct align_job *job, uint32_t rank, uint64_t t)
{
	uint64_t to = align_to_reference(job, rank, t);

	return (int64_t)to <= 0 ? 1 : to > TIME_MAX_NS ? TIME_MAX_NS : to;
}

static void move(const struct align_job *job, uint32_t rank, uint64_t *t)
{
	if (*t)
		*t = moved_time(job, rank, *t);
}

static void move_records(const struct align_job *job, uint32_t rank, struct record *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		move(job, rank, &r[i].begin_ns);
		move(job, rank, &r[i].end_ns);
		move(job, rank, &r[i].launch_ns);
		/* rounding and bounds must not reverse begin and end */
		if (r[i].end_ns < r[i].begin_ns)
			r[i].end_ns = r[i].begin_ns;
	}
}

static void move_rank(const struct align_job *job, uint32_t rank, struct trace_rank *r)
{
	const uint64_t at = r->windows[0].begin_ns;
	const int64_t moved = (int64_t)moved_time(job, rank, at) - (int64_t)at;

	if (!moved)
		return;
	move_records(job, rank, r->host, r->host_count);
	move_records(job, rank, r->device, r->device_count);
	for (size_t i = 0; i < r->step_count; i++) {
		struct step *p = &r->steps[i].step;

		move(job, rank, &p->begin_ns);
		move(job, rank, &p->end_ns);
		move(job, rank, &p->device_begin_ns);
		move(job, rank, &p->device_end_ns);
	}
	for (size_t i = 0; i < r->window_count; i++) {
		move(job, rank, &r->windows[i].begin_ns);
		move(job, rank, &r->windows[i].end_ns);
	}
	/* one offset for the stacks: their slices are far longer than a clock's drift in a window */
	__builtin_add_overflow(r->realtime_offset_ns, moved, &r->realtime_offset_ns);
	r->clock_offset_ns = (double)-moved;
}

int trace_align_apply(struct trace_model *m)
{
	struct align_job job = {.rank = calloc(m->rank_count + 1, sizeof(*job.rank)),
				.rank_count = (uint32_t)m->rank_count};
	int err = job.rank ? 0 : -ENOMEM;

	/* an incident's windows are of one job; ranks of different jobs share no collectives */
	for (size_t i = 0; i < m->rank_count && !err; i++)
		err = collect(&m->ranks[i], &job.rank[i]);
	if (!err)
		err = align_job(&job);
	for (size_t i = 0; i < m->rank_count && !err; i++) {
		struct trace_rank *r = &m->ranks[i];

		if (!job.rank[i].known || !job.rank[i].count || !r->window_count)
			continue;
		r->aligned = true;
		r->clock_error_ns = job.rank[i].error_ns;
		move_rank(&job, (uint32_t)i, r);
	}
	for (size_t i = 0; job.rank && i < m->rank_count; i++)
		free(job.rank[i].coll);
	free(job.rank);
	return err;
}
